/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The shipped store over two drives of memory.  I/O is done in any order, some of it later.
 * Nothing is lost here: power cuts are the simulation's.
 */
#include "test/lib/meta_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES    2u
#define STEPS_MAX 1000000u

struct real {
	struct meta_world w;
	struct meta_conf conf;
	struct list taken;
	uint32_t taken_count;
};

static struct real *real_of(struct meta_world *w)
{
	return container_of(w, struct real, w);
}

static void serve(struct real *r, struct meta_io *io)
{
	uint8_t *at = r->w.drive[io->drive] + io->block * BLOCK_SIZE;

	io->status = 0;
	if (io->op == META_IO_READ)
		memcpy(io->buf, at, (size_t)io->nblocks * BLOCK_SIZE);
	else if (io->op == META_IO_WRITE)
		memcpy(at, io->buf, (size_t)io->nblocks * BLOCK_SIZE);
	meta_io_done(r->w.m, io);
}

static void real_step(struct meta_world *w)
{
	struct real *r = real_of(w);
	struct meta_io *io;

	while ((io = meta_io_next(w->m))) {
		list_init(&io->link);
		if (rand_below(&w->rand, 2))
			list_push_back(&r->taken, &io->link);
		else
			list_push_front(&r->taken, &io->link);
		r->taken_count++;
	}
	for (uint32_t n = r->taken_count; n > 0 && (r->taken_count < 3 || rand_below(&w->rand, 4));
	     n--) {
		struct list *node = list_pop_front(&r->taken);

		if (!node)
			break;
		r->taken_count--;
		serve(r, list_entry(node, struct meta_io, link));
	}
	(void)meta_turn(w->m);
}

static void crank(struct meta_world *w, int (*status)(const struct meta *m))
{
	for (uint32_t steps = 0; status(w->m) == -EAGAIN; steps++) {
		ASSERT(steps < STEPS_MAX);
		real_step(w);
	}
	if (status(w->m)) {
		fprintf(stderr, "store: %d, %s\n", status(w->m), meta_error(w->m));
		abort();
	}
}

static void boot(struct real *r, bool format)
{
	memset(r->conf.memory, 0xa5, r->conf.memory_bytes);
	if (meta_create(&r->w.m, &r->conf)) {
		fprintf(stderr, "store: %s\n", meta_conf_problem(&r->conf));
		abort();
	}
	if (format)
		meta_format_start(r->w.m);
	else
		meta_mount_start(r->w.m);
	crank(&r->w, meta_boot_status);
}

static void halt(struct real *r)
{
	meta_stop_start(r->w.m);
	crank(&r->w, meta_stop_status);
	while (r->taken_count > 0) /* reads that nobody waits for any more */
		real_step(&r->w);
	meta_destroy(r->w.m);
}

static void real_remount(struct meta_world *w)
{
	halt(real_of(w));
	boot(real_of(w), false);
}

static void real_end(struct meta_world *w)
{
	struct real *r = real_of(w);

	halt(r);
	for (uint32_t d = 0; d < DRIVES; d++)
		free(w->drive[d]);
	free(r->conf.memory);
	free(r);
}

struct meta_world *meta_world_real(uint64_t seed, uint64_t drive_bytes, uint64_t cache_bytes)
{
	struct real *r = calloc(1, sizeof(*r));

	ASSERT(r);
	r->w.step = real_step;
	r->w.remount = real_remount;
	r->w.end = real_end;
	rand_seed(&r->w.rand, seed);
	list_init(&r->taken);
	r->conf = (struct meta_conf){ .ndrives = DRIVES,
				      .cache_bytes = cache_bytes,
				      .early_pages = (uint32_t)(seed % 3 * 3),
				      .ops_max = 4,
				      .nshards = 8,
				      .secret = seed,
				      .spread_at = seed % 2 ? 3 : 0,
				      .wall_ns = 1 };
	for (uint32_t d = 0; d < DRIVES; d++) {
		r->conf.drive[d].nblocks = drive_bytes / BLOCK_SIZE;
		r->conf.drive[d].volatile_cache = d == 0;
		r->w.drive[d] = calloc(drive_bytes / BLOCK_SIZE, BLOCK_SIZE);
		ASSERT(r->w.drive[d]);
	}
	r->conf.memory_bytes = meta_memory_needed(&r->conf);
	r->conf.memory = aligned_alloc(4096, align_up(r->conf.memory_bytes, 4096));
	ASSERT(r->conf.memory && r->conf.memory_bytes);
	boot(r, true);
	return &r->w;
}

const char *meta_world_check(struct meta_world *w, uint64_t inodes)
{
	struct meta_check found = { 0 };
	static char why[256];

	meta_check_start(w->m, &found);
	while (meta_check_status(w->m) == -EAGAIN) {
		w->step(w);
		ASSERT(meta_op_poll(w->m) == NULL); /* it goes on by that, too */
	}
	if (meta_check_status(w->m) == 0 && found.inodes == inodes)
		return NULL;
	(void)snprintf(why, sizeof(why), "%d, %llu inodes of %llu, %llu problems: %.150s",
		       meta_check_status(w->m), (unsigned long long)found.inodes,
		       (unsigned long long)inodes, (unsigned long long)found.problems,
		       found.first[0]);
	return why;
}
