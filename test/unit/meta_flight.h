/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* More operations in flight than are admitted, on the real store or over a fake transaction; a
 * model of what each file holds.  Included by one test at a time. */
#ifndef TEST_META_FLIGHT_H
#define TEST_META_FLIGHT_H

#include "test/lib/meta_world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES  6000u
#define FLIGHT 24u

enum what { PUT, UNLINK, READ, LIST };

struct flight {
	struct meta_op op;
	enum what what;
	bool on;
	uint32_t file;
	uint64_t fill; /* what a put puts */
	char path[256];
	uint8_t bytes[META_PATH_MAX + 1];
	struct meta_run run;
	uint32_t crc;
	uint64_t entries[2048];
};

static struct meta_world *world;
static struct flight flight[FLIGHT];
static uint64_t fill_of[FILES]; /* 0: no such file */
static bool taken[FILES];       /* one operation of a file at a time: so the model is simple */
static uint32_t over_count;

static inline void over(struct meta_op *op)
{
	struct flight *f = op->owner;
	uint64_t is;

	cr_assert(f->on);
	f->on = false;
	over_count++;
	if (f->what == LIST) {
		cr_assert_eq(op->status, 0);
		return;
	}
	taken[f->file] = false;
	cr_assert_eq(op->status, f->what == READ && !fill_of[f->file] ? -ENOENT : 0,
		     "file %u: %d, %s", f->file, op->status, world->m->error);
	if (f->what == READ && op->status == 0) {
		memcpy(&is, f->bytes, sizeof(is));
		cr_assert_eq(is, fill_of[f->file]);
		meta_read_end(world->m, op);
	}
	if (f->what != READ)
		fill_of[f->file] = f->what == PUT ? f->fill : 0;
}

static inline void set_target(struct flight *f)
{
	(void)snprintf(f->path, sizeof(f->path), "/%u/%0200u", f->file % 3, f->file);
	f->op = (struct meta_op){
		.target = { .path = f->path, .path_len = (uint32_t)strlen(f->path) },
		.wall_ns = 1,
		.inline_buf = f->bytes,
		.owner = f,
	};
}

static inline void choose(struct flight *f, uint64_t fill)
{
	uint64_t choice = rand_below(&world->rand, 10);

	set_target(f);
	f->what = choice == 0 ? LIST : choice < 5 ? READ : PUT;
	if (f->what == PUT && fill_of[f->file] && choice < 8)
		f->what = UNLINK;
	f->fill = fill;
	switch (f->what) {
	case LIST:
		f->op.type = META_OP_LIST;
		f->op.target.path_len = 2;
		f->op.list_out = f->entries;
		f->op.list_max_bytes = sizeof(f->entries);
		f->op.list_max_entries = 50;
		return;
	case READ:
		f->op.type = META_OP_READ;
		f->op.length = 4096;
		f->op.runs = &f->run;
		f->op.crcs = &f->crc;
		f->op.runs_max = 1;
		f->op.blocks_max = 1;
		return;
	case UNLINK:
		f->op.type = META_OP_UNLINK;
		return;
	case PUT:
		f->op.type = META_OP_PUT;
		f->op.flags = META_BY_INLINE;
		f->op.inline_buf = &f->fill;
		f->op.inline_len = sizeof(f->fill);
		f->op.size = sizeof(f->fill);
		return;
	}
}

static inline bool begin(struct flight *f, uint64_t fill)
{
	f->file = (uint32_t)rand_below(&world->rand, FILES);
	if (taken[f->file])
		return false;
	choose(f, fill);
	f->on = true;
	taken[f->file] = f->what != LIST;
	if (meta_op_start(world->m, &f->op))
		over(&f->op);
	return true;
}

static inline void turn(void)
{
	static uint32_t idle;
	uint32_t before = over_count;
	struct meta_op *op;

	while ((op = meta_op_poll(world->m)))
		over(op);
	world->step(world);
	idle = over_count == before ? idle + 1 : 0;
	cr_assert_lt(idle, 20000, "all wait for something that does not come");
}

static inline void flight_run(struct meta_world *of, uint64_t ops)
{
	uint64_t begun = 0, on;

	world = of;
	memset(flight, 0, sizeof(flight));
	memset(fill_of, 0, sizeof(fill_of));
	memset(taken, 0, sizeof(taken));
	for (uint32_t i = 0; i < 3; i++) {
		char path[4];
		struct meta_op op = { .type = META_OP_MKDIR, .target = { .path = path } };

		(void)snprintf(path, sizeof(path), "/%u", i);
		op.target.path_len = 2;
		cr_assert_eq(meta_world_run(world, &op), 0);
	}
	while (begun < ops) {
		for (uint32_t i = 0; i < FLIGHT; i++)
			if (!flight[i].on && rand_below(&world->rand, 3) == 0)
				begun += begin(&flight[i], begun + 1);
		turn();
	}
	do {
		turn();
		on = 0;
		for (uint32_t i = 0; i < FLIGHT; i++)
			on += flight[i].on;
	} while (on > 0);
	meta_world_settle(world);
}

#endif
