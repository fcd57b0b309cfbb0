/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The table of descriptors of libweka-preload.so: threads open, use, give to the kernel and close
 * the same few descriptors at once.
 *
 *     an owner a descriptor:  publish() --> move(), moved() --> drop()
 *     all others:             get(), look at the file, put(); now and then a move or a drop
 *
 * Each file is of one piece: its number stands in several places, and its memory is poisoned when
 * it is freed (malloc() of TSan), so a file that is seen after its end, or before it is whole, is
 * noticed.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/rand.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FDS     3
#define READERS 3
#define TURNS   2500u

static _Atomic uint64_t numbers, seen, moves, refused;
static atomic_bool is_over;

/* ---- the kernel, and the rest of the library ----------------------------------------------- */

static int fake_fcntl(int fd, int command, ...)
{
	(void)fd;
	(void)command;
	return O_PATH;
}

static int fake_fstatat(int fd, const char *path, struct stat *st, int flags)
{
	(void)fd;
	(void)path;
	(void)flags;
	*st = (struct stat){ .st_dev = 5, .st_ino = 6 };
	return 0;
}

const struct preload_real *preload_real(void)
{
	static const struct preload_real real = { .fcntl = fake_fcntl, .fstatat = fake_fstatat };

	return &real;
}

bool preload_in_vfork(void)
{
	return false;
}

/* Not the library's own, which keeps pieces: TSan would not see that they were freed. */
void preload_memory_give(void *bytes)
{
	free(bytes);
}

int preload_own_first(void)
{
	return 100;
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct preload_file *file_make(void)
{
	const uint64_t number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
	struct preload_file *file = malloc(sizeof(*file));

	ASSERT(file);
	*file = (struct preload_file){ .kind = PRELOAD_BYTES };
	file->attr.ino = number;
	file->attr.size_bytes = ~number;
	file->attr.ctime_ns = (int64_t)(number * 3);
	return file;
}

static void look_at(const struct preload_file *file)
{
	const uint64_t number = file->attr.ino;

	ASSERT(number > 0 && file->attr.size_bytes == ~number);
	ASSERT(file->attr.ctime_ns == (int64_t)(number * 3));
	atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
}

static void give(int fd, uint64_t how)
{
	struct preload_file *file = preload_slot_move(fd);

	if (!file)
		return;
	look_at(file);
	file->kernel_dev = 5;
	file->kernel_ino = 6;
	preload_slot_moved(fd, how % 3 == 0 ? 0 : how % 3 == 1 ? PRELOAD_SHADOW : PRELOAD_SERVED);
	atomic_fetch_add_explicit(&moves, 1, memory_order_relaxed);
}

static void *owns(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	struct rand_state r = { (uint64_t)fd + 10 };

	for (uint32_t i = 0; i < TURNS;) {
		struct preload_file *file = file_make();

		if (!preload_slot_publish(fd, file)) {
			free(file);
			atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
			sched_yield();
			continue;
		}
		if (rand_below(&r, 3) == 0)
			give(fd, rand_u64(&r));
		if (i++ % 4)
			sched_yield();
		preload_slot_drop(fd);
	}
	return NULL;
}

static void *uses(void *arg)
{
	struct rand_state r = { (uint64_t)(intptr_t)arg };

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		const int fd = (int)rand_below(&r, FDS);
		const struct preload_file *file = preload_slot_get(
			fd, rand_below(&r, 2) ? PRELOAD_SERVED : PRELOAD_SERVED | PRELOAD_SHADOW);

		if (file) {
			look_at(file);
			if (rand_below(&r, 2))
				sched_yield();
			look_at(file);
			preload_slot_put(fd);
		}
		if (rand_below(&r, 16) == 0)
			give(fd, rand_u64(&r));
		if (rand_below(&r, 64) == 0)
			preload_slot_drop(fd);
	}
	return NULL;
}

int main(void)
{
	pthread_t owner[FDS], user[READERS];

	for (intptr_t i = 0; i < READERS; i++)
		ASSERT(pthread_create(&user[i], NULL, uses, (void *)(i + 1)) == 0);
	for (intptr_t i = 0; i < FDS; i++)
		ASSERT(pthread_create(&owner[i], NULL, owns, (void *)i) == 0);
	for (int i = 0; i < FDS; i++)
		pthread_join(owner[i], NULL);
	atomic_store_explicit(&is_over, true, memory_order_relaxed);
	for (int i = 0; i < READERS; i++)
		pthread_join(user[i], NULL);
	for (int fd = 0; fd < FDS; fd++) { /* nothing is left */
		ASSERT(!preload_slot_get(fd, PRELOAD_SERVED | PRELOAD_SHADOW));
		ASSERT(preload_slot_publish(fd, file_make()));
		preload_slot_drop(fd);
	}
	ASSERT(atomic_load_explicit(&seen, memory_order_relaxed) > 500);
	ASSERT(atomic_load_explicit(&moves, memory_order_relaxed) > 100);
	printf("ok %llu files were used, %llu given to the kernel, %llu refused\n",
	       (unsigned long long)atomic_load_explicit(&seen, memory_order_relaxed),
	       (unsigned long long)atomic_load_explicit(&moves, memory_order_relaxed),
	       (unsigned long long)atomic_load_explicit(&refused, memory_order_relaxed));
	return 0;
}
