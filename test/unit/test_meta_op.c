/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/meta_random.h"
#include "test/lib/meta_shell.h"
#include "test/lib/runs.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(meta_op);

static struct meta_random r;

/* Returns how many blocks live at the end beyond those of the model's files: 0 if all is well. */
static uint64_t lost_after(uint64_t seed, uint32_t miss, uint32_t busy, uint64_t ops)
{
	struct meta_world *w = meta_world_fake(seed, miss, busy);
	uint64_t blocks, live;

	meta_random_init(&r, w, seed);
	r.remounts_every = 1000;
	meta_random_run(&r, ops);
	blocks = meta_random_compare(&r);
	meta_world_settle(w);
	live = meta_fake_live(w);
	cr_assert_eq(meta_fake_pending(w), 0);
	cr_assert_gt(r.results[0], ops / 20);
	cr_assert_gt(r.results[1], ops / 20);
	meta_random_end(&r);
	w->end(w);
	return live - blocks;
}

Test(meta_op, random_operations_give_what_the_model_gives)
{
	cr_assert_eq(lost_after(1, 0, 0, 5000), 0);
}

Test(meta_op, the_same_when_pages_are_missing_and_room_is_short)
{
	cr_assert_eq(lost_after(2, 20, 10, 5000), 0);
}

/* ---- scheduling ------------------------------------------------------------------------- */

#define MANY 64

static struct meta_world *w;
static struct meta_op ops[MANY];
static char names[MANY][16];

static void begin_with(uint64_t seed, uint32_t miss, uint32_t busy)
{
	w = meta_world_fake(seed, miss, busy);
	for (int i = 0; i < MANY; i++)
		snprintf(names[i], sizeof(names[i]), "f%d", i);
}

static void begin(uint32_t miss, uint32_t busy)
{
	begin_with(31, miss, busy);
}

static struct meta_op put_op(int i)
{
	struct meta_op op = sh_op(META_OP_PUT, names[i]);

	op.flags = META_BY_INLINE;
	op.size = op.inline_len = 3;
	return op;
}

/* Turn until so many have come back; each is over, and a change durable. */
static uint32_t reap(uint32_t count)
{
	uint32_t errors = 0;

	for (uint32_t steps = 0; count > 0; steps++) {
		struct meta_op *op = meta_op_poll(w->m);

		if (!op) {
			cr_assert_lt(steps, 100000);
			w->step(w);
			continue;
		}
		cr_assert(meta_is_durable(w->m, op->seen_seq) || op->status == -EROFS);
		errors += op->status != 0;
		count--;
	}
	cr_assert_null(meta_op_poll(w->m));
	return errors;
}

static uint32_t start_all(void)
{
	uint32_t kept = 0;

	for (int i = 0; i < MANY; i++) {
		ops[i] = put_op(i);
		kept += !meta_op_start(w->m, &ops[i]);
	}
	return kept;
}

Test(meta_op, more_operations_than_are_admitted_all_end)
{
	begin(30, 20);
	cr_assert_eq(reap(start_all()), 0);
	cr_assert_eq(sh_count(w, "/", 0), MANY);
	w->end(w);
}

/* True: some ran alone. */
static bool all_end(uint64_t seed)
{
	bool alone = false;
	uint32_t left;

	begin_with(seed, 100, 0);
	for (left = start_all(); left > 0;) {
		struct meta_op *op = meta_op_poll(w->m);

		alone |= w->m->ops->alone != NULL;
		if (op) {
			cr_assert_eq(op->status, 0);
			left--;
		} else {
			w->step(w);
		}
	}
	cr_assert_null(w->m->ops->alone);
	cr_assert_eq(w->m->ops->running, 0);
	w->end(w);
	return alone;
}

/* Half of all pages are gone at every step: plans of several pages are run again and again. */
Test(meta_op, who_comes_no_further_runs_alone_and_ends)
{
	uint32_t alone = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++)
		alone += all_end(seed);
	cr_assert_gt(alone, 0);
}

Test(meta_op, a_change_comes_back_durable_and_a_read_says_what_it_saw)
{
	struct meta_op op = put_op(0), st = sh_op(META_OP_STAT, "f0");

	begin(0, 0);
	op.target.path = names[0];
	op.target.path_len = 2;
	cr_assert_not(meta_op_start(w->m, &op));
	cr_assert_null(meta_op_poll(w->m));
	cr_assert(meta_op_start(w->m, &st)); /* applied is seen at once */
	cr_assert_eq(st.status, 0);
	cr_assert_eq(st.seen_seq, op.seen_seq);
	cr_assert_not(meta_is_durable(w->m, st.seen_seq));
	meta_op_wait_durable(w->m, &st);
	cr_assert_eq(reap(2), 0);
	w->end(w);
}

Test(meta_op, a_refused_change_waits_for_what_refused_it)
{
	struct meta_op op, again;

	begin(0, 0);
	op = put_op(0);
	again = put_op(0);
	again.flags |= META_EXCL;
	cr_assert_not(meta_op_start(w->m, &op));
	cr_assert_not(meta_op_start(w->m, &again)); /* -EEXIST, by a file that a cut may lose */
	cr_assert_eq(reap(2), 1);
	cr_assert_eq(again.status, -EEXIST);
	w->end(w);
}

Test(meta_op, a_page_that_cannot_be_read_fails_those_that_need_it)
{
	struct meta_attr a;

	begin(0, 0);
	cr_assert_eq(sh_put(w, "f", 0, "abc", 3), 0);
	w->end(w);
	begin(100, 0);
	meta_fake_fail_pages(w, 1);
	cr_assert_eq(sh_stat(w, "f", 0, &a), -EIO);
	cr_assert_eq(sh_stat(w, "f", 0, &a), -ENOENT); /* the next try reads it */
	w->end(w);
}

Test(meta_op, when_the_log_fails_changes_fail_and_reads_go_on)
{
	struct meta_attr a;
	struct meta_op op, st;

	begin(0, 0);
	cr_assert_eq(sh_put(w, "f1", 0, "abc", 3), 0);
	op = put_op(0);
	st = sh_op(META_OP_STAT, "f0");
	cr_assert_not(meta_op_start(w->m, &op));
	cr_assert(meta_op_start(w->m, &st));
	meta_op_wait_durable(w->m, &st);
	w->m->failed = -EROFS;
	cr_assert_eq(reap(2), 2); /* neither may be told what a cut may take back */
	cr_assert_eq(op.status, -EROFS);
	cr_assert_eq(sh_put(w, "f2", 0, "abc", 3), -EROFS);
	cr_assert_eq(sh_stat(w, "f1", 0, &a), 0);
	w->end(w);
}

Test(meta_op, a_failing_store_lets_go_of_operations_that_wait_for_a_trim)
{
	static uint8_t bytes[4 << 20];
	struct meta_op op = sh_op(META_OP_TRUNCATE, NULL), grow;
	struct meta_attr a;

	begin(0, 0);
	cr_assert_eq(sh_put(w, "f", 0, bytes, sizeof(bytes)), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	op.target.handle = a.handle;
	cr_assert_not(meta_op_start(w->m, &op)); /* applied, to be trimmed */
	grow = op;
	grow.size = sizeof(bytes);
	cr_assert_not(meta_op_start(w->m, &grow));
	w->m->failed = -EROFS;
	cr_assert_eq(reap(2), 2);
	w->end(w);
}

/* Records spoiled one at a time: an error that names the record, or a result; never a crash. */
Test(meta_op, a_spoiled_record_is_an_error_of_those_who_meet_it)
{
	static uint8_t bytes[300000], back[300000 + BLOCK_SIZE];
	uint32_t named = 0;

	for (uint64_t i = 0;; i++) {
		struct meta_key key;
		struct meta_attr a;
		uint32_t shard, len;
		int64_t rc = 0;
		void *value;

		begin(0, 0);
		cr_assert_eq(sh_mkdir(w, "d"), 0);
		cr_assert_eq(sh_put(w, "d/f", 0, bytes, sizeof(bytes)), 0);
		cr_assert_eq(sh_symlink(w, "d/f", "s"), 0);
		if (!meta_fake_record(w, i, &shard, &key, &value, &len)) {
			w->end(w);
			break;
		}
		if (meta__key_class(&key) != META__CLASS_ZONE)
			memset(value, 0xff, len);
		rc |= sh_stat(w, "s", 0, &a) == -EIO;
		rc |= sh_count(w, "/", 0) == -EIO;
		rc |= sh_count(w, "d", 0) == -EIO;
		rc |= sh_read(w, "d/f", back, sizeof(back)) == -EIO;
		rc |= sh_rename(w, "d/f", "g", 0) == -EIO;
		rc |= sh_unlink(w, "d/f") == -EIO;
		if (rc)
			cr_assert(strstr(w->m->error, "bad "), "record %llu: %s",
				  (unsigned long long)i, w->m->error);
		named += rc != 0;
		w->end(w);
	}
	cr_assert_geq(named, 8); /* 3 names, 4 inodes with the root's, 2 directories, 1 extent */
}
