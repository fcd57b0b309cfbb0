/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shards that are lent: what is changed there is as if the store had changed it. */
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_tree.h"
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS 4u
#define BYTES  300u

static struct rig r;
static struct meta_reader *reader[2];
static uint64_t dir[2]; /* two directories of different shards */

struct asked {
	struct meta_op op;
	char name[32];
	uint8_t bytes[BYTES];
	uint8_t out[4096];
	struct meta_run runs[8];
	uint32_t crcs[64];
};

static void readers_begin(void)
{
	r.m->lend->after = 1;
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(meta_reader_create(&reader[i], r.m, i), 0);
		meta_reader_begin(reader[i]);
		meta_reader_enter(reader[i]);
	}
}

static void readers_end(void)
{
	for (uint32_t i = 0; i < 2; i++)
		meta_reader_destroy(reader[i]);
}

static uint64_t dir_number(const char *path)
{
	struct meta_op op = {
		.type = META_OP_STAT,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
	};

	cr_assert_eq(rig_run(&r, &op), 0);
	return op.attr.dir;
}

static void store(void)
{
	rig_make(&r, 31, 1, 32u << 20, SHARDS, true);
	r.conf.cache_bytes = 512 * META_PAGE_BYTES;
	rig_memory(&r);
	r.shared = true;
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_mkdir(&r, "/a"), 0);
	dir[0] = dir_number("/a");
	for (char path[] = "/b"; dir[1] == 0; path[1]++) {
		cr_assert_eq(rig_mkdir(&r, path), 0);
		dir[1] = dir_number(path);
		if (meta__dir_shard(r.m, dir[1]) == meta__dir_shard(r.m, dir[0]))
			dir[1] = 0;
	}
	readers_begin();
}

static void store_end(void)
{
	readers_end();
	if (r.m)
		meta_destroy(r.m);
	r.m = NULL;
	rig_end(&r);
}

TestSuite(meta_lend, .init = store, .fini = store_end, .timeout = 120);

static void all_turn(uint32_t count)
{
	while (count--) {
		(void)rig_step(&r);
		for (uint32_t i = 0; i < 2; i++)
			meta_reader_enter(reader[i]);
	}
}

/* ---- what a core does -------------------- */

static void put_of(struct asked *a, uint64_t in, uint32_t n, uint8_t fill)
{
	memset(&a->op, 0, sizeof(a->op));
	snprintf(a->name, sizeof(a->name), "file%u", n);
	memset(a->bytes, fill, BYTES);
	a->op.type = META_OP_PUT;
	a->op.target = (struct meta_target){ .dir = in,
					     .path = a->name,
					     .path_len = (uint32_t)strlen(a->name) };
	a->op.flags = META_BY_INLINE;
	a->op.inline_buf = a->bytes;
	a->op.inline_len = BYTES;
	a->op.size = BYTES;
	a->op.wall_ns = 5000 + n;
}

static void unlink_of(struct asked *a, uint64_t in, uint32_t n)
{
	put_of(a, in, n, 0);
	a->op.type = META_OP_UNLINK;
	a->op.flags = 0;
}

/* Turn until it comes back; its status. */
static int come_back(struct asked *a)
{
	for (uint32_t i = 0; r.over != &a->op; i++) {
		cr_assert(i < 10000);
		all_turn(1);
	}
	r.over = NULL;
	return a->op.status;
}

/* By the store's thread, for this reader. */
static int by_store(struct asked *a)
{
	r.over = NULL;
	if (meta_op_start(r.m, &a->op))
		return a->op.status;
	return come_back(a);
}

/* True: it was made where it was asked for; else the store's thread was asked. */
static bool change(uint32_t i, struct asked *a)
{
	if (!meta_reader_change(reader[i], &a->op)) {
		cr_assert(!meta_reader_has(r.m, &a->op));
		cr_assert_eq(by_store(a), 0);
		return false;
	}
	r.over = NULL;
	meta_op_made(r.m, &a->op);
	cr_assert_eq(come_back(a), 0);
	meta_reader_made_end(reader[i], &a->op);
	return true;
}

/* Files until the shard is lent; the number of the next. */
static uint32_t until_lent(uint32_t i, uint64_t in)
{
	static struct asked a;

	for (uint32_t n = 0; n < 200; n++) {
		put_of(&a, in, n, (uint8_t)n);
		if (change(i, &a))
			return n + 1;
		all_turn(3);
	}
	cr_assert_fail("it is never lent");
	return 0;
}

static bool is_lent(uint64_t in)
{
	return r.m->share->lent[meta__dir_shard(r.m, in)] != 0;
}

/* Files [0, end) are there, each filled as it was. */
static void all_there(uint64_t in, uint32_t end)
{
	static struct asked a;

	for (uint32_t n = 0; n < end; n++) {
		put_of(&a, in, n, 0);
		a.op.type = META_OP_READ;
		a.op.flags = 0;
		a.op.length = 4096;
		a.op.runs = a.runs;
		a.op.crcs = a.crcs;
		a.op.runs_max = 8;
		a.op.blocks_max = 64;
		a.op.inline_buf = a.out;
		cr_assert_eq(by_store(&a), 0, "file%u: %d", n, a.op.status);
		cr_assert_eq(a.op.inline_len, BYTES);
		cr_assert(a.out[0] == (uint8_t)n && a.out[BYTES - 1] == (uint8_t)n, "file%u", n);
		meta_read_end(r.m, &a.op);
	}
}

static void is_whole(void)
{
	static struct meta_check check;

	for (uint32_t i = 0; i < 2; i++)
		meta_reader_leave(reader[i]);
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
	for (uint32_t i = 0; i < 2; i++)
		meta_reader_enter(reader[i]);
}

/* ---- tests -------------------- */

Test(meta_lend, who_alone_changes_a_shard_changes_it_itself)
{
	const uint32_t before = until_lent(0, dir[0]), end = before + 400;
	static struct asked a;
	struct meta_statfs was = { 0 }, is = { 0 };
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &was };
	uint32_t made = 0;

	cr_assert_eq(rig_run(&r, &op), 0);
	for (uint32_t n = before; n < end; n++) {
		put_of(&a, dir[0], n, (uint8_t)n);
		made += change(0, &a);
		all_turn(2); /* blanks are given */
	}
	cr_assert(made > 300, "%u of 400, leaves that were split among them", made);
	cr_assert(r.m->shard[meta__dir_shard(r.m, dir[0])].height > 1 || made > 0);
	op.statfs = &is;
	cr_assert_eq(rig_run(&r, &op), 0);
	cr_assert_eq(is.files, was.files + 400, "counted as they come to the log");
	all_there(dir[0], end);
	cr_assert(!is_lent(dir[0]), "who looks calls it home");
	is_whole();
	readers_end();
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0);
	readers_begin();
	all_there(dir[0], end);
	is_whole();
}

Test(meta_lend, what_was_acknowledged_survives_and_nothing_is_torn)
{
	static struct asked a;

	for (uint32_t cut = 0; cut < 40; cut++) {
		uint32_t n = until_lent(0, dir[0]);
		const uint32_t first = n;

		r.cut_at = r.writes + 3 + cut; /* stop there */
		for (; !r.cut; n++) {
			put_of(&a, dir[0], n, (uint8_t)n);
			r.over = NULL;
			if (meta_reader_change(reader[0], &a.op))
				meta_op_made(r.m, &a.op);
			else if (meta_op_start(r.m, &a.op))
				continue;
			while (r.over != &a.op && !r.cut)
				all_turn(1);
			if (r.over == &a.op)
				meta_reader_made_end(reader[0], &a.op);
			else
				break;
		}
		readers_end();
		rig_power_cut(&r);
		r.cut_at = 0;
		cr_assert_eq(rig_mount(&r), 0);
		readers_begin();
		cr_assert(n >= first);
		all_there(dir[0], n);
		is_whole();
		for (uint32_t i = 0; i <= n; i++) { /* that of the cut, too, if it is there */
			unlink_of(&a, dir[0], i);
			(void)by_store(&a);
		}
	}
}

Test(meta_lend, who_looks_waits_for_the_borrower_and_for_what_it_made)
{
	const uint32_t n = until_lent(0, dir[0]);
	static struct asked a, b;

	meta_reader_enter(reader[0]);
	put_of(&a, dir[0], n, (uint8_t)n);
	cr_assert(meta_reader_change(reader[0], &a.op));
	put_of(&b, dir[0], n, 0);
	b.op.type = META_OP_STAT;
	b.op.flags = 0;
	r.over = NULL;
	cr_assert(!meta_op_start(r.m, &b.op), "it is away");
	for (uint32_t i = 0; i < 100; i++)
		(void)rig_step(&r);
	cr_assert_null(r.over, "its borrower has not left");
	meta_reader_enter(reader[0]);
	meta_reader_enter(reader[1]);
	for (uint32_t i = 0; i < 100; i++)
		(void)rig_step(&r);
	cr_assert_null(r.over, "what it made has not come");
	cr_assert(!is_lent(dir[0]));
	meta_op_made(r.m, &a.op);
	for (uint32_t i = 0; i < 10; i++) /* no I/O: nothing becomes durable */
		(void)meta_turn(r.m);
	cr_assert(!meta_is_durable(r.m, a.op.seen_seq));
	if (meta_op_poll(r.m) == &b.op)
		cr_assert_geq(b.op.seen_seq, a.op.seen_seq, "told before it is durable");
	for (uint32_t i = 0; i < 1000 && b.op.seen_seq == 0; i++)
		all_turn(1);
	cr_assert_eq(b.op.status, 0, "and then it is there");
	cr_assert_geq(b.op.seen_seq, a.op.seen_seq);
	meta_reader_made_end(reader[0], &a.op);
}

Test(meta_lend, who_looks_waits_for_a_borrower_that_makes_nothing)
{
	static struct asked a;

	(void)until_lent(0, dir[0]);
	put_of(&a, dir[0], 0, 0);
	a.op.type = META_OP_STAT;
	a.op.flags = 0;
	r.over = NULL;
	cr_assert(!meta_op_start(r.m, &a.op));
	for (uint32_t i = 0; i < 100; i++)
		(void)rig_step(&r);
	cr_assert_null(r.over, "it may be about to, until it has left");
	meta_reader_leave(reader[0]);
	cr_assert_eq(come_back(&a), 0);
}

Test(meta_lend, what_a_borrower_sees_waits_for_what_it_made)
{
	const uint32_t n = until_lent(0, dir[0]);
	static struct asked a, b;

	meta_reader_enter(reader[0]);
	put_of(&a, dir[0], n, (uint8_t)n);
	cr_assert(meta_reader_change(reader[0], &a.op));
	put_of(&b, dir[0], n, 0);
	b.op.type = META_OP_STAT;
	b.op.flags = 0;
	cr_assert(meta_reader_plan(reader[0], &b.op), "it looks at what it has");
	cr_assert_eq(b.op.status, 0);
	cr_assert_eq(b.op.seen_seq, META_SEEN_MADE);
	cr_assert(!meta_is_durable(r.m, b.op.seen_seq));
	meta_op_made(r.m, &a.op);
	b.op.made = NULL;
	meta_op_made(r.m, &b.op); /* as a core reports an operation that waits for it */
	r.over = NULL;
	while (r.over != &b.op)
		all_turn(1);
	cr_assert(b.op.seen_seq >= a.op.seen_seq && meta_is_durable(r.m, b.op.seen_seq));
	meta_reader_made_end(reader[0], &a.op);
	put_of(&b, dir[0], n, 0);
	b.op.flags |= META_EXCL;
	cr_assert(meta_reader_change(reader[0], &b.op));
	cr_assert_eq(b.op.status, -EEXIST, "and what it refuses waits, too");
	meta_op_made(r.m, &b.op);
	cr_assert_eq(come_back(&b), -EEXIST);
	meta_reader_made_end(reader[0], &b.op);
}

Test(meta_lend, two_borrowers_change_two_shards_at_once)
{
	uint32_t n[2] = { until_lent(0, dir[0]), until_lent(1, dir[1]) };
	static struct asked a[2];
	uint32_t made = 0;

	for (uint32_t i = 0; i < 2; i++) {
		put_of(&a[i], dir[i], n[i], (uint8_t)n[i]);
		made += is_lent(dir[i]) && meta_reader_change(reader[i], &a[i].op);
	}
	cr_assert_eq(made, 2);
	for (uint32_t i = 2; i-- > 0;) { /* the second first: they know nothing of each other */
		meta_op_made(r.m, &a[i].op);
		cr_assert_eq(come_back(&a[i]), 0);
		meta_reader_made_end(reader[i], &a[i].op);
		n[i]++;
	}
	for (uint32_t k = 0; k < 200; k++) {
		const uint32_t i = k % 2;

		put_of(&a[i], dir[i], n[i], (uint8_t)n[i]);
		made += change(i, &a[i]);
		n[i]++;
		all_turn(2);
	}
	cr_assert(made > 100, "%u", made);
	for (uint32_t i = 0; i < 2; i++)
		all_there(dir[i], n[i]);
	is_whole();
}

Test(meta_lend, a_checkpoint_finds_all_at_home_and_lends_again)
{
	uint32_t n = until_lent(0, dir[0]), lent = 0;
	static struct asked a;

	for (uint32_t k = 0; k < 10; k++) {
		const uint64_t done = r.m->share->times;

		meta__ckpt_want(r.m);
		for (uint32_t i = 0; i < 60; i++, n++) {
			put_of(&a, dir[0], n, (uint8_t)n);
			lent += change(0, &a);
			all_turn(4);
		}
		cr_assert(r.m->share->times >= done);
	}
	cr_assert(lent > 300, "%u of 600", lent);
	all_there(dir[0], n);
	is_whole();
	for (uint32_t i = 0; i < 2; i++)
		meta_reader_end(reader[i]);
	cr_assert_eq(rig_stop(&r), 0, "nothing is left of blanks");
	readers_end();
	cr_assert_eq(rig_mount(&r), 0);
	readers_begin();
	all_there(dir[0], n);
}

Test(meta_lend, a_shard_with_a_file_that_is_held_is_not_lent)
{
	static struct asked a;
	uint32_t n = until_lent(0, dir[0]);

	put_of(&a, dir[0], 0, 0);
	a.op.type = META_OP_STAT;
	a.op.flags = META_HOLD;
	cr_assert_eq(by_store(&a), 0);
	for (uint32_t i = 0; i < 50; i++, n++) {
		struct asked b;

		put_of(&b, dir[0], n, (uint8_t)n);
		cr_assert(!change(0, &b));
		all_turn(3);
	}
	a.op.type = META_OP_LET_GO;
	a.op.flags = 0;
	a.op.target = (struct meta_target){ .handle = a.op.attr.handle };
	cr_assert_eq(by_store(&a), 0);
	for (uint32_t i = 0; i < 50 && !is_lent(dir[0]); i++, n++) {
		struct asked b;

		put_of(&b, dir[0], n, (uint8_t)n);
		(void)change(0, &b);
		all_turn(3);
	}
	cr_assert(is_lent(dir[0]));
}

Test(meta_lend, what_is_the_stores_alone_is_not_made_there)
{
	const uint32_t n = until_lent(0, dir[0]);
	static struct asked a;

	put_of(&a, dir[0], n + 1, 1);
	a.op.type = META_OP_RMTREE;
	cr_assert(!meta_reader_change(reader[0], &a.op));
	put_of(&a, dir[0], n + 1, 1);
	a.op.flags |= META_HOLD;
	cr_assert(!meta_reader_change(reader[0], &a.op));
	put_of(&a, dir[1], n, 1);
	cr_assert(!meta_reader_change(reader[0], &a.op), "it was lent the other one");
	put_of(&a, dir[0], n, 1);
	cr_assert(!meta_reader_change(reader[1], &a.op), "the other one was lent it");
	cr_assert(!meta_reader_has(r.m, &a.op));
}

Test(meta_lend, what_is_asked_for_meanwhile_is_the_borrowers)
{
	static struct asked a;
	uint32_t n = 0;

	put_of(&a, dir[0], 1000, 1);
	cr_assert(!meta_reader_change(reader[0], &a.op)); /* under way, ... */
	n = until_lent(0, dir[0]);
	cr_assert(meta_reader_has(r.m, &a.op), "... and then it is lent there");
	cr_assert(change(0, &a));
	a.op.reader = 2;
	cr_assert(!meta_reader_has(r.m, &a.op), "to nobody else");
	all_there(dir[0], n);
}

Test(meta_lend, removing_and_replacing_there)
{
	uint32_t n = until_lent(0, dir[0]), made = 0;
	static struct asked a;

	for (const uint32_t end = n + 150; n < end; n++) {
		put_of(&a, dir[0], n, 99);
		(void)change(0, &a);
		all_turn(2);
		put_of(&a, dir[0], n, (uint8_t)n);
		made += change(0, &a);
		all_turn(2);
		put_of(&a, dir[0], 2000 + n, 1);
		(void)change(0, &a);
		unlink_of(&a, dir[0], 2000 + n);
		made += change(0, &a);
		all_turn(2);
	}
	cr_assert(made > 150, "%u of 300", made);
	all_there(dir[0], n);
	unlink_of(&a, dir[0], 2000 + n - 1);
	cr_assert_eq(by_store(&a), -ENOENT);
	is_whole();
}

/* A file's inline bytes make room, its tail splits the leaf: one half may then be nearly empty. */
static void grow(struct asked *a, struct meta_handle handle, uint32_t bytes)
{
	static uint8_t tail[2048];

	memset(&a->op, 0, sizeof(a->op));
	a->op.type = META_OP_WRITE;
	a->op.target.handle = handle;
	a->op.flags = META_BY_INLINE;
	a->op.inline_buf = tail;
	a->op.inline_len = bytes;
	a->op.size = bytes;
	a->op.wall_ns = 7000;
}

Test(meta_lend, files_that_grow_split_leaves_and_merge_none)
{
	enum { FILES = 1000, GROWN = 600 };
	uint32_t n = until_lent(0, dir[0]), made = 0;
	const uint64_t shapes = r.m->shard[meta__dir_shard(r.m, dir[0])].shape;
	static struct asked a, b;
	struct rand_state rand;

	rand_seed(&rand, 5);
	for (; n < FILES; n++) {
		put_of(&a, dir[0], n, (uint8_t)n);
		(void)change(0, &a);
		all_turn(2);
	}
	for (uint32_t i = 0; i < GROWN; i++) {
		put_of(&a, dir[0], FILES + i, 1);
		(void)change(0, &a);
		all_turn(2);
		grow(&b, a.op.attr.handle, 513 + (uint32_t)rand_below(&rand, 1000));
		made += change(0, &b);
		all_turn(2);
	}
	cr_assert(made > GROWN / 2, "%u of %u", made, GROWN);
	cr_assert(r.m->shard[meta__dir_shard(r.m, dir[0])].shape > shapes, "leaves were split");
	all_there(dir[0], n);
	is_whole();
}

/* Blanks that a borrower has lie in zones with one copy: they come back. */
Test(meta_lend, a_store_gets_second_copies_though_shards_are_lent)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT };
	uint32_t n, added = rig_drive(&r, 32u << 20, true);
	static struct asked a;

	cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[added]), 0);
	while (meta_drive_add_status(r.m) == -EAGAIN)
		all_turn(1);
	r.conf.ndrives = meta_drives(r.m);
	n = until_lent(0, dir[0]);
	for (; n < 40; n++) {
		put_of(&a, dir[0], n, (uint8_t)n);
		(void)change(0, &a);
		all_turn(2);
	}
	cr_assert(is_lent(dir[0]));
	r.over = meta_op_start(r.m, &op) ? &op : NULL;
	while (r.over != &op)
		all_turn(1);
	cr_assert_eq(op.status, 0);
	for (uint32_t turns = 0; turns < 20000 && r.m->converts; turns++)
		all_turn(1);
	cr_assert(!r.m->converts, "%u zones have one copy", r.m->zones->lone);
	all_there(dir[0], n);
	is_whole();
}
