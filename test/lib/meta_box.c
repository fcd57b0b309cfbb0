/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/meta_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 1000000u

static struct meta_box *box_of(struct meta_world *w)
{
	return container_of(w, struct meta_box, w);
}

static void serve(struct meta_box *b, struct meta_io *io)
{
	uint8_t *at = b->w.drive[io->drive] + io->block * BLOCK_SIZE;

	io->status = 0;
	if (io->op == META_IO_READ) {
		memcpy(io->buf, at, (size_t)io->nblocks * BLOCK_SIZE);
	} else if (io->op == META_IO_WRITE) {
		memcpy(at, io->buf, (size_t)io->nblocks * BLOCK_SIZE);
		memset(b->written[io->drive] + io->block, 1, io->nblocks);
		b->writes++;
	}
	meta_io_done(b->w.m, io);
}

/* False: there was nothing to do. */
static bool turn(struct meta_box *b)
{
	bool any = meta_turn(b->w.m);
	struct meta_io *io;

	while ((io = meta_io_next(b->w.m))) {
		list_init(&io->link);
		serve(b, io);
		any = true;
	}
	return any;
}

static void box_step(struct meta_world *w)
{
	(void)turn(box_of(w));
}

/* Without an operation of a user: what the store itself runs goes on by the poll too. */
static bool turn_alone(struct meta_box *b)
{
	const bool any = turn(b);

	ASSERT(meta_op_poll(b->w.m) == NULL);
	return any;
}

static int crank(struct meta_box *b, int (*status)(const struct meta *m))
{
	for (uint32_t steps = 0; status(b->w.m) == -EAGAIN; steps++) {
		ASSERT(steps < STEPS_MAX);
		(void)turn_alone(b);
	}
	return status(b->w.m);
}

void meta_box_init(struct meta_box *b, uint64_t seed, uint64_t drive_bytes, uint32_t nshards)
{
	*b = (struct meta_box){
		.drive_bytes = drive_bytes,
		.w = { .step = box_step },
		.conf = { .ndrives = META_BOX_DRIVES,
			  .cache_bytes = 160 * META_PAGE_BYTES,
			  .early_pages = (uint32_t)(seed % 3 * 3),
			  .ops_max = 4,
			  .nshards = nshards,
			  .secret = seed * 77 + 1,
			  .uuid = "box",
			  .wall_ns = 1 },
	};
	rand_seed(&b->w.rand, seed);
	for (uint32_t d = 0; d < META_BOX_DRIVES; d++) {
		b->conf.drive[d].nblocks = drive_bytes / BLOCK_SIZE;
		b->w.drive[d] = calloc(1, drive_bytes);
		b->image[d] = calloc(1, drive_bytes);
		b->written[d] = calloc(1, drive_bytes / BLOCK_SIZE);
		ASSERT(b->w.drive[d] && b->image[d] && b->written[d]);
	}
	b->conf.memory_bytes = meta_memory_needed(&b->conf);
	b->conf.memory = aligned_alloc(4096, align_up(b->conf.memory_bytes, 4096));
	ASSERT(b->conf.memory && b->conf.memory_bytes);
}

void meta_box_end(struct meta_box *b)
{
	if (b->w.m)
		meta_box_drop(b);
	for (uint32_t d = 0; d < META_BOX_DRIVES; d++) {
		free(b->w.drive[d]);
		free(b->image[d]);
		free(b->written[d]);
	}
	free(b->conf.memory);
}

static int boot(struct meta_box *b, void (*start)(struct meta *m))
{
	ASSERT(meta_create(&b->w.m, &b->conf) == 0);
	b->writes = 0;
	start(b->w.m);
	return crank(b, meta_boot_status);
}

int meta_box_format(struct meta_box *b)
{
	return boot(b, meta_format_start);
}

int meta_box_mount(struct meta_box *b)
{
	return boot(b, meta_mount_start);
}

int meta_box_stop(struct meta_box *b)
{
	int err;

	meta_stop_start(b->w.m);
	err = crank(b, meta_stop_status);
	meta_box_drop(b);
	return err;
}

void meta_box_drop(struct meta_box *b)
{
	meta_destroy(b->w.m);
	b->w.m = NULL;
}

void meta_box_rest(struct meta_box *b)
{
	for (uint32_t steps = 0, quiet = 0; quiet < 3; steps++) {
		ASSERT(steps < STEPS_MAX);
		quiet = turn_alone(b) ? 0 : quiet + 1;
	}
}

void meta_box_keep(struct meta_box *b)
{
	for (uint32_t d = 0; d < META_BOX_DRIVES; d++) {
		memcpy(b->image[d], b->w.drive[d], b->drive_bytes);
		memset(b->written[d], 0, b->drive_bytes / BLOCK_SIZE);
	}
}

void meta_box_restore(struct meta_box *b)
{
	for (uint32_t d = 0; d < META_BOX_DRIVES; d++)
		for (uint64_t i = 0; i < b->drive_bytes / BLOCK_SIZE; i++) {
			if (!b->written[d][i])
				continue;
			memcpy(b->w.drive[d] + i * BLOCK_SIZE, b->image[d] + i * BLOCK_SIZE,
			       BLOCK_SIZE);
			b->written[d][i] = 0;
		}
}

void meta_box_touch(struct meta_box *b, uint64_t baddr)
{
	b->written[META_BADDR_DRIVE(baddr)][META_BADDR_BLOCK(baddr)] = 1;
}

int meta_box_check(struct meta_box *b, struct meta_check *out)
{
	meta_check_start(b->w.m, out);
	return crank(b, meta_check_status);
}

void meta_box_scrub(struct meta_box *b, struct meta_scrub_stat *out, char *lines, size_t size)
{
	static uint8_t bytes[META_SCRUB_BLOCKS_MAX * BLOCK_SIZE];
	struct meta_scrub *scrub;
	struct meta_run run;
	bool over = false;
	size_t used = 0;

	lines[0] = 0;
	ASSERT(meta_scrub_create(&scrub, b->w.m) == 0);
	for (uint32_t steps = 0; !over; steps++) {
		ASSERT(steps < STEPS_MAX);
		switch (meta_scrub_next(scrub, &run)) {
		case META_SCRUB_READ:
			memcpy(bytes,
			       b->w.drive[META_BADDR_DRIVE(run.baddr)] +
				       META_BADDR_BLOCK(run.baddr) * BLOCK_SIZE,
			       (size_t)run.nblocks * BLOCK_SIZE);
			meta_scrub_done(scrub, bytes, 0);
			break;
		case META_SCRUB_FOUND:
			if (used < size)
				used += (size_t)snprintf(lines + used, size - used, "%s\n",
							 meta_scrub_line(scrub));
			break;
		case META_SCRUB_ROUND:
			over = true;
			break;
		case META_SCRUB_WRITE: /* this store has one copy of each block */
		case META_SCRUB_MORE:
		case META_SCRUB_LISTED:
		case META_SCRUB_IDLE:
			break;
		}
		(void)turn_alone(b);
	}
	meta_scrub_stat(scrub, out);
	meta_scrub_destroy(scrub);
}
