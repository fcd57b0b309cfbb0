/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The table of descriptors: which of them are served, and by what file.
 *
 *             publish()            move()             moved()
 *     free ------------> SERVED ------------> MOVING ---------> SHADOW
 *       ^                   |     drop()         |                |
 *       +---- FILLING <-- CLOSING <--------------+----------------+    the last user frees the file
 *
 * A word has the state and the number of calls that use the file at this moment.  All changes are
 * single atomic operations, so a signal handler may interrupt any of them.
 *
 * Descriptors can be closed behind our back: by libc itself, or by a system call that is made
 * without libc.  So each use looks whether the descriptor is still the one that was reserved
 * (O_PATH, which nothing else that can be read has), or, of a shadow, whether the file is still
 * that one.
 *
 *  (1) The file of a word with SERVED, MOVING or SHADOW stays while the word has users.
 *  (2) A word without state and users has no file.
 *  (3) One thread at a time has a word in FILLING or MOVING.
 *
 *  S1 -> S2   a file is filled in before it can be seen; what a move stores, before SHADOW is, and
 *             before the next move stores it again.
 *  S3 -> S4   the users' last access comes before the file is freed.
 *  S5 -> S2   a word is empty before it is filled again.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/num.h"

#include <sched.h>
#include <time.h>

#define FILLING 0x01000000u
#define SERVED  0x02000000u
#define MOVING  0x04000000u
#define SHADOW  0x08000000u
#define CLOSING 0x10000000u
#define OWN     0x20000000u /* the library's own descriptor; no file */
#define USERS   0x00ffffffu

#define YIELDS 1000u /* then it waits by naps of 1 ms */

struct slot {
	_Atomic uint32_t word;
	struct preload_file *file;
};

static struct slot slots[PRELOAD_FDS];
static _Atomic int last;
static _Thread_local const struct slot *moving
	__attribute__((tls_model("initial-exec"))); /* by this thread */

static struct slot *slot_of(int fd)
{
	return fd >= 0 && (uint32_t)fd < PRELOAD_FDS ? &slots[fd] : NULL;
}

int preload_slot_last(void)
{
	return atomic_load_explicit(&last, memory_order_relaxed);
}

static void note(int fd)
{
	int most = preload_slot_last();

	while (most < fd && !atomic_compare_exchange_weak_explicit(
				    &last, &most, fd, memory_order_relaxed, memory_order_relaxed))
		;
}

static uint32_t look(struct slot *s)
{
	return atomic_load_explicit(&s->word, memory_order_relaxed);
}

/* Frees the file if nobody uses it any more. */
static void finish(struct slot *s)
{
	uint32_t closing = CLOSING;

	if (!atomic_compare_exchange_strong_explicit(&s->word, &closing, FILLING, /* S4 */
						     memory_order_acquire, memory_order_relaxed))
		return;
	ASSERT(s->file); /* (1) */
	preload_memory_give(s->file);
	s->file = NULL;                                                      /* (2) */
	atomic_fetch_and_explicit(&s->word, ~FILLING, memory_order_release); /* S5 */
}

static void leave(struct slot *s)
{
	const uint32_t was = atomic_fetch_sub_explicit(&s->word, 1, memory_order_release); /* S3 */

	ASSERT((was & USERS) > 0);
	if (was == (CLOSING | 1))
		finish(s);
}

bool preload_slot_publish(int fd, struct preload_file *file)
{
	struct slot *s = slot_of(fd);
	uint32_t empty = 0;

	if (!s || preload_in_vfork())
		return false;
	preload_slot_drop(fd); /* it was closed behind our back */
	if (!atomic_compare_exchange_strong_explicit(&s->word, &empty, FILLING, /* S2 */
						     memory_order_acquire, memory_order_relaxed))
		return false;
	ASSERT(!s->file); /* (2), (3) */
	s->file = file;
	note(fd);
	atomic_fetch_xor_explicit(&s->word, FILLING | SERVED, memory_order_release); /* S1 */
	return true;
}

/* Waits while another thread gives the file to the kernel.  A signal handler does not wait for the
 * code that it has interrupted. */
static uint32_t settled(struct slot *s)
{
	uint32_t is = look(s);

	for (uint32_t i = 0; (is & MOVING) && moving != s; i++) {
		static const struct timespec nap = { .tv_nsec = 1000000 };

		if (i < YIELDS)
			(void)sched_yield();
		else
			(void)nanosleep(&nap, NULL);
		is = look(s);
	}
	return is;
}

static bool is_same(int fd, uint32_t is, const struct preload_file *file)
{
	struct stat st;
	int flags;

	if (is & SERVED) {
		flags = REAL->fcntl(fd, F_GETFL);
		return flags >= 0 && (flags & O_PATH);
	}
	return REAL->fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_dev == file->kernel_dev &&
	       st.st_ino == file->kernel_ino;
}

struct preload_file *preload_slot_get(int fd, uint32_t want)
{
	const uint32_t states =
		(want & PRELOAD_SERVED ? SERVED : 0) | (want & PRELOAD_SHADOW ? SHADOW : 0);
	struct slot *s = slot_of(fd);
	const int err = errno;
	uint32_t is;

	if (!s || likely(!(look(s) & (SERVED | MOVING | SHADOW))) || preload_in_vfork())
		return NULL;
	for (;;) {
		if (!(settled(s) & states))
			return NULL;
		is = atomic_fetch_add_explicit(&s->word, 1, memory_order_acquire); /* S2 */
		if ((is & states) && is_same(fd, is, s->file)) {
			errno = err;
			return s->file; /* (1) */
		}
		leave(s);
		if ((is & states) && (look(s) & states & is))
			preload_slot_drop(fd); /* it was closed behind our back */
	}
}

void preload_slot_put(int fd)
{
	struct slot *s = slot_of(fd);

	ASSERT(s);
	leave(s);
}

void preload_slot_drop(int fd)
{
	struct slot *s = slot_of(fd);
	uint32_t is;

	if (!s || likely(!(look(s) & (SERVED | MOVING | SHADOW))) || preload_in_vfork())
		return;
	is = settled(s);
	while (is & (SERVED | SHADOW))
		if (atomic_compare_exchange_weak_explicit(&s->word, &is, CLOSING | (is & USERS),
							  memory_order_relaxed,
							  memory_order_relaxed)) {
			if ((is & USERS) == 0)
				finish(s);
			return;
		}
}

struct preload_file *preload_slot_move(int fd)
{
	struct slot *s = slot_of(fd);
	uint32_t is;

	if (!preload_slot_get(fd, PRELOAD_SERVED))
		return NULL;
	is = look(s);
	moving = s; /* before MOVING can be seen */
	do {
		if (!(is & SERVED)) { /* another thread was faster */
			moving = NULL;
			leave(s);
			(void)settled(s);
			return NULL;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&s->word, &is, MOVING | (is & USERS), /* S2 */
		memory_order_acquire, memory_order_relaxed));
	return s->file; /* (3) */
}

void preload_slot_moved(int fd, uint32_t state)
{
	struct slot *s = slot_of(fd);
	const uint32_t to = state == PRELOAD_SERVED   ? SERVED
			    : state == PRELOAD_SHADOW ? SHADOW
						      : CLOSING;

	ASSERT(look(s) & MOVING);                                               /* (3) */
	atomic_fetch_xor_explicit(&s->word, MOVING | to, memory_order_release); /* S1 */
	moving = NULL;
	leave(s);
}

/* ---- the library's own --------------------------------------------------------------------- */

int preload_own_high(int fd)
{
	const int high = fd < 0 ? -1 : REAL->fcntl(fd, F_DUPFD_CLOEXEC, preload_own_first());

	if (high < 0)
		return fd;
	(void)REAL->close(fd);
	return high;
}

int preload_own(int fd)
{
	struct slot *s;

	if (fd < 0)
		return fd;
	fd = preload_own_high(fd);
	s = slot_of(fd);
	preload_slot_drop(fd);
	if (s) {
		note(fd);
		atomic_fetch_or_explicit(&s->word, OWN, memory_order_relaxed);
	}
	return fd;
}

bool preload_is_own(int fd)
{
	struct slot *s = slot_of(fd);

	return s && unlikely(look(s) & OWN);
}

void preload_own_closed(int fd)
{
	struct slot *s = slot_of(fd);

	if (s)
		atomic_fetch_and_explicit(&s->word, ~OWN, memory_order_relaxed);
}
