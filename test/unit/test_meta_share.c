/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Readers: what they see is what the store's thread would; nothing changes while they look. */
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tree.h"
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rig r;
static struct meta_reader *reader[2];

/* The result of one plan of a read. */
struct seen {
	struct meta_op op;
	struct meta_run runs[8];
	uint32_t crcs[64];
	_Alignas(8) uint8_t small[4096];
};

static void store(void)
{
	rig_make(&r, 31, 1, 16u << 20, 4, true);
	r.shared = true;
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(meta_reader_create(&reader[i], r.m, i), 0);
		meta_reader_begin(reader[i]);
	}
}

static void store_end(void)
{
	for (uint32_t i = 0; i < 2; i++)
		meta_reader_destroy(reader[i]);
	meta_destroy(r.m);
	r.m = NULL;
	rig_end(&r);
}

TestSuite(meta_share, .init = store, .fini = store_end, .timeout = 60);

static void want(struct seen *s, const char *path)
{
	memset(&s->op, 0, sizeof(s->op));
	s->op.type = META_OP_READ;
	s->op.target = (struct meta_target){ .path = path, .path_len = (uint32_t)strlen(path) };
	s->op.length = 64 * 4096;
	s->op.runs = s->runs;
	s->op.crcs = s->crcs;
	s->op.runs_max = 8;
	s->op.blocks_max = 64;
	s->op.inline_buf = s->small;
}

/* As a core does: true: the reader planned it, else the store's thread did. */
static bool look(struct meta_reader *of, struct seen *s, const char *path)
{
	want(s, path);
	if (meta_reader_plan(of, &s->op))
		return true;
	meta_reader_asked(r.m, s->op.unseen);
	cr_assert_eq(rig_run(&r, &s->op), s->op.status);
	return false;
}

/* Until the reader plans it itself. */
static void open_for(struct meta_reader *of, struct seen *s, const char *path)
{
	for (uint32_t i = 0; i < 200; i++) {
		bool by_itself;

		meta_reader_enter(of);
		by_itself = look(of, s, path);
		meta_reader_leave(of);
		if (by_itself)
			return;
		meta_read_end(r.m, &s->op);
	}
	cr_assert_fail("%s is never planned by a reader", path);
}

static void turns(uint32_t count)
{
	while (count--)
		(void)rig_step(&r);
}

/* All who look have had a turn since the shard was opened: a change may close it. */
static void all_had_a_turn(uint32_t readers)
{
	turns(2);
	for (uint32_t i = 0; i < readers; i++)
		meta_reader_enter(reader[i]);
	turns(2);
}

static struct meta_op unlink_of(const char *path)
{
	return (struct meta_op){
		.type = META_OP_UNLINK,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
	};
}

Test(meta_share, a_reader_plans_what_the_store_would)
{
	static struct seen own, by_store;

	cr_assert_eq(rig_mkdir(&r, "/d"), 0);
	cr_assert_eq(rig_put(&r, "/d/a", 3, 7), 0);
	cr_assert_eq(rig_put(&r, "/d/small", 0, 8), 0);
	open_for(reader[0], &own, "/d/a");
	want(&by_store, "/d/a");
	cr_assert_eq(rig_run(&r, &by_store.op), 0);
	cr_assert_eq(own.op.status, 0);
	cr_assert_eq(own.op.nblocks, 3);
	cr_assert_eq(own.op.nruns, by_store.op.nruns);
	cr_assert_arr_eq(own.runs, by_store.runs, own.op.nruns * sizeof(own.runs[0]));
	cr_assert_arr_eq(own.crcs, by_store.crcs, 3 * sizeof(own.crcs[0]));
	cr_assert(memcmp(&own.op.attr, &by_store.op.attr, sizeof(own.op.attr)) == 0);
	cr_assert(meta_reader_read_end(reader[0], &own.op));
	cr_assert(!meta_reader_read_end(reader[0], &own.op), "a pin has one end");
	cr_assert(!meta_reader_read_end(reader[0], &by_store.op));
	meta_reader_enter(reader[0]);
	cr_assert(look(reader[0], &own, "/d/small"));
	cr_assert_eq(own.op.inline_len, 8);
	cr_assert(look(reader[0], &own, "/d/nothing"));
	cr_assert_eq(own.op.status, -ENOENT);
	meta_reader_leave(reader[0]);
}

Test(meta_share, a_change_is_not_planned_by_a_reader)
{
	static struct seen s;
	struct meta_op op = unlink_of("/a");

	cr_assert_eq(rig_put(&r, "/a", 1, 7), 0);
	open_for(reader[0], &s, "/a");
	(void)meta_reader_read_end(reader[0], &s.op);
	meta_reader_enter(reader[0]);
	cr_assert(!meta_reader_plan(reader[0], &op));
	op.type = META_OP_STATFS;
	cr_assert(!meta_reader_plan(reader[0], &op));
}

Test(meta_share, a_change_waits_for_who_looks)
{
	static struct seen s;
	struct meta_op op = unlink_of("/a");

	cr_assert_eq(rig_put(&r, "/a", 1, 7), 0);
	for (uint32_t i = 0; i < 2; i++) {
		open_for(reader[i], &s, "/a");
		(void)meta_reader_read_end(reader[i], &s.op);
		meta_reader_enter(reader[i]);
	}
	all_had_a_turn(2);
	r.over = NULL;
	cr_assert(!meta_op_start(r.m, &op));
	turns(100);
	cr_assert_null(r.over, "both are still there");
	meta_reader_leave(reader[0]);
	turns(100);
	cr_assert_null(r.over, "one is");
	/* A reader from before sees the old state; a new one sees that the shard is closed. */
	meta_reader_enter(reader[0]);
	want(&s, "/a");
	cr_assert(!meta_reader_plan(reader[0], &s.op));
	meta_reader_enter(reader[1]);
	turns(100);
	cr_assert_eq(r.over, &op, "to enter again is to leave");
	cr_assert_eq(op.status, 0);
	want(&s, "/a");
	cr_assert(!meta_reader_plan(reader[1], &s.op), "it was closed");
	open_for(reader[1], &s, "/");
	meta_reader_enter(reader[1]);
	cr_assert(look(reader[1], &s, "/a"));
	cr_assert_eq(s.op.status, -ENOENT);
}

Test(meta_share, nothing_is_opened_while_a_change_waits)
{
	static struct seen s;
	struct meta_op op = unlink_of("/a");

	cr_assert_eq(rig_put(&r, "/a", 1, 7), 0);
	open_for(reader[0], &s, "/a");
	(void)meta_reader_read_end(reader[0], &s.op);
	meta_reader_enter(reader[0]);
	all_had_a_turn(1);
	r.over = NULL;
	cr_assert(!meta_op_start(r.m, &op));
	for (uint32_t i = 0; i < 1000; i++) {
		want(&s, "/a");
		cr_assert(!meta_reader_plan(reader[1], &s.op));
		meta_reader_asked(r.m, s.op.unseen);
		meta_reader_knocks(r.m, s.op.unseen, 1);
		cr_assert(!meta_readers_let_in(r.m));
		meta_reader_enter(reader[1]);
	}
	meta_reader_leave(reader[0]);
	meta_reader_leave(reader[1]);
	turns(100);
	cr_assert_eq(r.over, &op);
	cr_assert(meta_readers_let_in(r.m));
	meta_reader_enter(reader[1]);
	want(&s, "/a");
	cr_assert(meta_reader_plan(reader[1], &s.op), "who had knocked is let in");
	cr_assert_eq(s.op.status, -ENOENT);
}

/* One knock opens a shard; and then it stays open for a turn of each reader, whoever wants it. */
Test(meta_share, what_was_opened_is_looked_at_before_it_is_closed)
{
	static struct seen s;
	struct meta_op op = unlink_of("/a");

	cr_assert_eq(rig_put(&r, "/a", 1, 7), 0);
	for (uint32_t i = 0; i < 2; i++)
		meta_reader_enter(reader[i]);
	want(&s, "/a");
	cr_assert(!meta_reader_plan(reader[0], &s.op));
	cr_assert(!meta_reader_sees(reader[0], s.op.unseen));
	meta_reader_knocks(r.m, s.op.unseen, 0);
	cr_assert(meta_readers_let_in(r.m));
	cr_assert(meta_reader_sees(reader[0], s.op.unseen));
	r.over = NULL;
	cr_assert(!meta_op_start(r.m, &op));
	turns(100);
	meta_reader_enter(reader[0]);
	turns(100);
	want(&s, "/a");
	cr_assert(meta_reader_plan(reader[0], &s.op), "the other had no turn yet");
	cr_assert_eq(s.op.status, 0);
	cr_assert(meta_reader_read_end(reader[0], &s.op));
	meta_reader_enter(reader[1]);
	turns(100);
	cr_assert_null(r.over, "it is closed, and both may still look");
	want(&s, "/a");
	cr_assert(!meta_reader_plan(reader[1], &s.op));
	for (uint32_t i = 0; i < 2; i++)
		meta_reader_enter(reader[i]);
	turns(100);
	cr_assert_eq(r.over, &op);
	cr_assert_eq(op.status, 0);
}

/* A pin counts from when it was set, though nobody is told of it. */
Test(meta_share, blocks_that_a_reader_reads_are_not_reused)
{
	static struct seen s;
	struct meta__zone *zone;
	uint32_t in;

	cr_assert_eq(rig_put(&r, "/keep", 1, 6), 0);
	cr_assert_eq(rig_put(&r, "/a", 8, 7), 0);
	open_for(reader[0], &s, "/a");
	in = meta__zone_of(r.m, s.runs[0].baddr);
	zone = meta__zone_at(r.m, in);
	cr_assert_eq(rig_unlink(&r, "/a"), 0);
	cr_assert_eq(rig_unlink(&r, "/keep"), 0);
	for (uint32_t i = 0; zone->state != ZONE_LEAVING && i < 300; i++) { /* others fill it */
		cr_assert_eq(rig_put(&r, "/b", 4, i), 0);
		meta__ckpt_want(r.m);
		rig_idle(&r);
	}
	cr_assert_eq(zone->state, ZONE_LEAVING);
	for (uint32_t i = 0; i < 5; i++) {
		meta_reader_enter(reader[0]); /* the reader comes and goes */
		meta_reader_leave(reader[0]);
		cr_assert_eq(rig_put(&r, "/b", 4, i), 0);
		meta__ckpt_want(r.m);
		rig_idle(&r);
		cr_assert_eq(zone->state, ZONE_LEAVING);
	}
	cr_assert(meta_reader_read_end(reader[0], &s.op));
	turns(10);
	cr_assert_neq(zone->state, ZONE_LEAVING);
}

/* All that a reader could have found stays what it is, whatever is read meanwhile. */
Test(meta_share, no_page_that_a_reader_may_look_at_is_replaced)
{
	enum { FILES = 18000, FRAMES = 128 };
	static struct seen s;
	static uint8_t copy[FRAMES][META_PAGE_BYTES];
	const struct meta__frame *f = r.m->cache->frame;
	bool was[FRAMES], all = true;
	char path[32];
	uint32_t blocks;
	uint64_t fill;

	for (uint32_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/file-%u", i);
		cr_assert_eq(rig_put(&r, path, 0, i), 0);
	}
	meta__ckpt_want(r.m);
	rig_idle(&r);
	open_for(reader[0], &s, "/file-0");
	meta_reader_enter(reader[0]);
	cr_assert_eq(r.m->cache->nframes, FRAMES);
	for (uint32_t i = 0; i < FRAMES; i++) {
		was[i] = meta__frame_state(&f[i]) == FRAME_CLEAN;
		memcpy(copy[i], f[i].page, META_PAGE_BYTES);
	}
	/* All that the others hold is read, and more cannot be: those stay until the reader leaves.
	 */
	for (uint32_t i = 1; i < 500; i++) {
		snprintf(path, sizeof(path), "/file-%u", i * 17 % FILES);
		want(&s, path);
		r.over = meta_op_start(r.m, &s.op) ? &s.op : NULL;
		for (uint32_t k = 0; k < 50 && !r.over; k++)
			(void)rig_step(&r);
		if (!r.over)
			break;
		cr_assert_eq(s.op.status, 0);
	}
	cr_assert_null(r.over, "no frame is free before it leaves");
	for (uint32_t i = 0; i < FRAMES; i++)
		cr_assert(!was[i] || memcmp(copy[i], f[i].page, META_PAGE_BYTES) == 0, "%u", i);
	meta_reader_leave(reader[0]);
	for (uint32_t k = 0; k < 1000 && !r.over; k++)
		(void)rig_step(&r);
	cr_assert_eq(r.over, &s.op);
	for (uint32_t i = 1; i < FILES; i += 7) {
		snprintf(path, sizeof(path), "/file-%u", i);
		cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0);
		cr_assert_eq(fill, i);
	}
	for (uint32_t i = 0; i < FRAMES; i++)
		all &= memcmp(copy[i], f[i].page, META_PAGE_BYTES) == 0;
	cr_assert(!all, "and then they are");
}

/* ---- a rename between two shards, and readers who come and go in any order --------------- */

static const char *const place[2] = { "/d0/x", "/d3/x" };
static struct meta_op move;
static bool moving;
static uint32_t at; /* place[at] is where it is, as everybody was told */

static void move_on(void)
{
	if (!moving && rand_below(&r.rand, 60) == 0) {
		move = (struct meta_op){
			.type = META_OP_RENAME,
			.target = { .path = place[at], .path_len = 5 },
			.other = { .path = place[!at], .path_len = 5 },
		};
		r.over = NULL;
		moving = true;
		cr_assert(!meta_op_start(r.m, &move));
	}
	if (rand_below(&r.rand, 3) == 0)
		(void)rig_step(&r);
	if (!moving || r.over != &move)
		return;
	cr_assert_eq(move.status, 0);
	at = !at;
	moving = false;
}

/* True: it saw both, by itself. */
static bool look_at_both(struct meta_reader *of, bool there[2])
{
	static struct seen s;

	for (uint32_t k = 0; k < 2; k++) {
		want(&s, place[k]);
		if (!meta_reader_plan(of, &s.op)) {
			meta_reader_asked(r.m, s.op.unseen);
			return false;
		}
		(void)meta_reader_read_end(of, &s.op);
		there[k] = s.op.status == 0;
		move_on(); /* and the store does not stand still */
	}
	return true;
}

Test(meta_share, no_reader_sees_half_of_a_change)
{
	uint32_t both = 0, moves = 0, was = 0;
	bool in[2] = { false, false }, there[2];

	cr_assert_eq(rig_mkdir(&r, "/d0"), 0);
	cr_assert_eq(rig_mkdir(&r, "/d3"), 0);
	cr_assert_eq(rig_put(&r, place[0], 0, 5), 0);
	for (uint32_t i = 0; i < 40000; i++) {
		uint32_t k = (uint32_t)rand_below(&r.rand, 2);

		move_on();
		moves += was != at;
		was = at;
		if (!in[k] || rand_below(&r.rand, 2))
			meta_reader_enter(reader[k]);
		in[k] = rand_below(&r.rand, 3) != 0;
		if (look_at_both(reader[k], there)) {
			both++;
			cr_assert_neq(there[0], there[1], "both or none, after %u", i);
			cr_assert(moving || was != at || there[at], "the old one, after %u", i);
		}
		if (!in[k])
			meta_reader_leave(reader[k]);
	}
	cr_assert_gt(both, 1000);
	cr_assert_gt(moves, 50);
}
