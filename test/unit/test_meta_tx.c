/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/engine/meta_fresh.h"
#include "meta/format/meta_record.h"
#include "test/unit/meta_double.h"

#define FRAMES 128u

static struct meta_op op = { .type = META_OP_PUT };

static void setup(void)
{
	d_start(FRAMES, 1);
	d.log_keep = true;
}

static const struct meta_key end = { { UINT64_MAX, UINT64_MAX, UINT64_MAX } };

TestSuite(meta_tx, .init = setup, .fini = d_end);

static struct meta_key key_of(uint64_t i)
{
	return meta__key(7, i, META__CLASS_NAME, 1, META__KIND_NONE, 0);
}

static struct meta_key inode_of(uint64_t i)
{
	return meta__key(7, i, META__CLASS_OBJ, i, META__KIND_INODE, 0);
}

static void begin(void)
{
	meta__tx_begin(&d.m, &op);
}

static void put(uint32_t shard, uint64_t i, const char *text)
{
	struct meta_key key = key_of(i);

	cr_assert_eq(meta__tx_put(&d.m, shard, &key, text, (uint32_t)strlen(text)), 0);
}

static void del(uint32_t shard, uint64_t i)
{
	struct meta_key key = key_of(i);

	cr_assert_eq(meta__tx_del(&d.m, shard, &key), 0);
}

/* "" when there is no such record. */
static const char *get(uint32_t shard, uint64_t i)
{
	static char text[100];
	struct meta_key key = key_of(i);
	const void *value;
	uint32_t len;

	if (meta__tx_get(&d.m, shard, &key, &value, &len))
		return "";
	memcpy(text, value, len);
	text[len] = 0;
	return text;
}

static void apply(void)
{
	cr_assert_eq(meta__tx_ready(&d.m), 0);
	meta__tx_apply(&d.m);
}

Test(meta_tx, reads_its_own_changes_and_nobody_else_does_before_the_apply)
{
	begin();
	put(0, 1, "one");
	put(0, 2, "two");
	put(3, 1, "three");
	apply();
	begin();
	put(0, 1, "uno");
	put(0, 1, "eins");
	del(0, 2);
	put(0, 4, "four");
	del(0, 4);
	cr_assert_str_eq(get(0, 1), "eins");
	cr_assert_str_eq(get(0, 2), "");
	cr_assert_str_eq(get(0, 4), "");
	cr_assert_str_eq(get(3, 1), "three");
	begin(); /* forgotten */
	cr_assert_str_eq(get(0, 1), "one");
	cr_assert_str_eq(get(0, 2), "two");
}

Test(meta_tx, is_one_log_record_whatever_shards_it_touches)
{
	begin();
	put(0, 1, "a");
	put(1, 1, "b");
	put(2, 1, "c");
	put(0, 2, "d");
	put(0, 2, "e");
	apply();
	cr_assert_eq(d.nrecords, 4);
	cr_assert_eq(d.m.shard[0].seq, 1);
	cr_assert_eq(d.m.shard[1].seq, 1);
	cr_assert_eq(d.m.shard[3].seq, 0);
	cr_assert_eq(op.seen_seq, 1);
	cr_assert(d.record[3].mut.value_len == 1 && d.record[3].value[0] == 'e');
}

Test(meta_tx, applied_twice_or_with_nothing_to_do_logs_nothing)
{
	begin();
	put(0, 1, "a");
	apply();
	meta__tx_apply(&d.m);
	cr_assert_eq(d.nrecords, 1);
	begin();
	(void)get(0, 1);
	apply();
	cr_assert_eq(d.nrecords, 1);
	cr_assert_eq(d.m.shard[0].seq, 1);
}

Test(meta_tx, has_seen_the_log_sequence_of_what_it_read_absence_too)
{
	begin();
	put(0, 1, "a");
	apply();
	d.log_open = false;
	begin();
	put(1, 1, "b");
	apply();
	begin();
	(void)get(0, 1);
	cr_assert_eq(meta__tx_seen(&d.m), 1);
	(void)get(1, 77);
	cr_assert_eq(meta__tx_seen(&d.m), 1, "which was never there");
	(void)get(1, 1);
	cr_assert_eq(meta__tx_seen(&d.m), 2);
	d.log_open = false;
	begin();
	del(0, 1);
	apply();
	cr_assert_eq(d.m.shard[0].height, 0);
	begin();
	cr_assert_eq(meta__tx_seen(&d.m), 0);
	cr_assert_str_eq(get(0, 1), ""); /* of a shard that has no page any more */
	cr_assert_eq(meta__tx_seen(&d.m), 3);
}

Test(meta_tx, absence_after_a_leaf_was_given_up_is_seen_too)
{
	struct meta_key key;
	const void *value;
	uint32_t len;
	static const uint8_t large[2000];

	d.log_keep = false;
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(d_put(0, key_of(i), large, sizeof(large)), 0);
	d.log_open = false;
	for (uint64_t i = 40; i < 60; i++)
		cr_assert_eq(d_del(0, key_of(i)), 0);
	for (uint64_t i = 40; i < 60; i++) {
		begin();
		(void)get(0, i);
		cr_assert_eq(meta__tx_seen(&d.m), d.log_last);
	}
	key = key_of(40);
	cr_assert_eq(d_seek(0, &key, &value, &len), 0);
	cr_assert_eq(meta__key_hash(&key), 60);
	cr_assert_eq(meta__tx_seen(&d.m), d.log_last);
}

Test(meta_tx, takes_64_records_and_no_more)
{
	struct meta_key key = key_of(64);

	begin();
	for (uint64_t i = 0; i < META__TX_RECORDS_MAX; i++)
		put((uint32_t)i % D_SHARDS, i, "x");
	cr_assert_eq(meta__tx_put(&d.m, 0, &key, "x", 1), -E2BIG);
	put(0, 0, "again");
	apply();
	cr_assert_eq(d.nrecords, META__TX_RECORDS_MAX);
}

Test(meta_tx, seeks_through_leaves_in_order)
{
	static const uint8_t value[500];
	struct meta_key key = { { 0, 0, 0 } };
	const void *v;
	uint32_t len, n;

	d.log_keep = false;
	for (uint64_t i = 0; i < 500; i++)
		cr_assert_eq(d_put(2, key_of(i * 613 % 500), value, (uint32_t)(i * 613 % 500)), 0);
	begin();
	for (n = 0; meta__tx_seek(&d.m, 2, &key, &end, &v, &len) == 0; n++) {
		cr_assert_eq(meta__key_hash(&key), n);
		cr_assert_eq(len, n);
		key.w[2]++;
	}
	cr_assert_eq(n, 500);
	cr_assert_eq(meta__tx_seek(&d.m, 1, &key, &end, &v, &len), -ENOENT);
}

/* A file's records may be the last of their leaf: reading it must not take the next leaf. */
Test(meta_tx, a_seek_reads_no_leaf_that_cannot_have_what_is_looked_for)
{
	static const uint8_t value[1000];
	const void *v;
	uint32_t len;

	d.log_keep = false;
	for (uint64_t i = 0; i < 300; i++)
		cr_assert_eq(d_put(0, key_of(i), value, sizeof(value)), 0);
	d_checkpoint();
	d_cut(2048);
	for (uint64_t i = 0; i < 300; i++) {
		struct meta_key key, last;
		uint32_t reads;
		int err;

		do {
			begin();
			err = meta__tx_get(&d.m, 0, (struct meta_key[]){ key_of(i) }, &v, &len);
		} while (d_again(&op, err));
		reads = d.reads;
		begin();
		key = last = key_of(i);
		key.w[2]++;
		last.w[2] += 9;
		err = meta__tx_seek(&d.m, 0, &key, &last, &v, &len);
		cr_assert(err == -ENOENT || (err == 0 && meta__key_cmp(&key, &last) > 0),
			  "key %llu: %d", (unsigned long long)i, err);
		cr_assert_eq(d.reads, reads);
	}
}

Test(meta_tx, a_seek_that_goes_on_reads_the_leaves_behind_it_too)
{
	static const uint8_t value[1000];
	struct meta_key key = { { 0, 0, 0 } };
	uint32_t runs = 0, n, len;
	const void *v;
	int err;

	d.log_keep = false;
	for (uint64_t i = 0; i < 300; i++)
		cr_assert_eq(d_put(0, key_of(i), value, sizeof(value)), 0);
	d_checkpoint();
	d_cut(2048);
	do { /* as a listing runs: from its start, until nothing is missing */
		begin();
		key = (struct meta_key){ { 0, 0, 0 } };
		for (n = 0; (err = meta__tx_seek(&d.m, 0, &key, &end, &v, &len)) == 0; n++)
			key.w[2]++;
		runs++;
		d_pump();
	} while (d_again(&op, err));
	cr_assert_eq(err, -ENOENT);
	cr_assert_eq(n, 300);
	cr_assert_leq(runs, 7); /* 20 leaves and a root */
}

Test(meta_tx, counts_inodes_and_takes_numbers_only_when_applied)
{
	struct meta_key key = inode_of(1), second = inode_of(2);

	begin();
	cr_assert_eq(meta__tx_uniq(&d.m, 1), 1);
	cr_assert_eq(meta__tx_uniq(&d.m, 1), 2);
	begin();
	cr_assert_eq(meta__tx_uniq(&d.m, 1), 1);
	cr_assert_eq(meta__tx_dir(&d.m, 1), (1ull << 36) + 2);
	cr_assert_eq(meta__tx_put(&d.m, 1, &key, "i", 1), 0);
	cr_assert_eq(meta__tx_put(&d.m, 1, &second, "j", 1), 0);
	apply();
	cr_assert_eq(d.m.shard[1].files, 2);
	begin();
	cr_assert_eq(meta__tx_uniq(&d.m, 1), 2);
	cr_assert_eq(meta__tx_dir(&d.m, 1), (1ull << 36) + 3);
	cr_assert_eq(meta__tx_put(&d.m, 1, &key, "k", 1), 0);
	cr_assert_eq(meta__tx_del(&d.m, 1, &second), 0);
	apply();
	cr_assert_eq(d.m.shard[1].files, 1);
	begin();
	cr_assert_eq(meta__tx_del(&d.m, 1, &second), 0); /* which does not exist */
	apply();
	cr_assert_eq(d.m.shard[1].files, 1);
}

Test(meta_tx, counts_directories)
{
	struct meta_key key = meta__dir_key(7), second = meta__dir_key(8);

	begin();
	cr_assert_eq(meta__tx_put(&d.m, 1, &key, "i", 1), 0);
	cr_assert_eq(meta__tx_put(&d.m, 2, &second, "j", 1), 0);
	apply();
	cr_assert_eq(d.m.shard[1].dirs, 1);
	cr_assert_eq(d.m.shard[2].dirs, 1);
	begin();
	cr_assert_eq(meta__tx_put(&d.m, 1, &key, "k", 1), 0);
	cr_assert_eq(meta__tx_del(&d.m, 2, &second), 0);
	apply();
	cr_assert_eq(d.m.shard[1].dirs, 1);
	cr_assert_eq(d.m.shard[2].dirs, 0);
	cr_assert_eq(d.m.shard[1].files, 0);
}

Test(meta_tx, live_blocks_add_up_and_never_go_below_none)
{
	const void *value;
	uint32_t len;
	struct meta_key key = meta__zone_key(&d.m, 7);

	begin();
	cr_assert_eq(meta__tx_live(&d.m, 0, 700, 5), 0);
	cr_assert_eq(meta__tx_live(&d.m, 0, 701, 6), 0);
	cr_assert_eq(meta__tx_live(&d.m, 1, 701, 1), 0);
	apply();
	cr_assert_eq(d.zone_live, 12);
	cr_assert_eq(d.nrecords, 2);
	begin();
	cr_assert_eq(meta__tx_live(&d.m, 0, 700, -11), 0);
	cr_assert_eq(meta__tx_live(&d.m, 1, 700, -2), -EIO);
	begin();
	cr_assert_eq(meta__tx_live(&d.m, 0, 700, -11), 0);
	apply();
	cr_assert_eq(d.zone_live, 1);
	cr_assert_eq(d_get(0, key, &value, &len), -ENOENT);
}

/* A checkpoint each time would write most of the index: it was so, and cost more than the log. */
Test(meta_tx, waits_for_log_blocks_in_flight_without_a_checkpoint)
{
	begin();
	put(0, 1, "a");
	d.log_in_flight = true;
	cr_assert_eq(meta__tx_ready(&d.m), META__NEEDS_ROOM);
	meta__ckpt_turn(&d.m);
	cr_assert_not(meta__ckpt_running(&d.m));
	d.log_in_flight = false;
	apply();
	cr_assert_eq(d.nrecords, 1);
}

Test(meta_tx, waits_when_the_log_or_pages_are_short_and_asks_for_a_checkpoint)
{
	uint32_t live;

	begin();
	put(0, 1, "a");
	d.log_full = true;
	cr_assert_eq(meta__tx_ready(&d.m), META__NEEDS_ROOM);
	meta__ckpt_turn(&d.m);
	cr_assert(meta__ckpt_running(&d.m));
	d.log_full = false;
	apply();
	live = d.pages_live;
	d.pages_live = D_PAGES - 1;
	begin();
	put(1, 2, "a");
	cr_assert_eq(meta__tx_ready(&d.m), META__NEEDS_ROOM);
	d.pages_live = live;
	cr_assert_eq(meta__tx_ready(&d.m), 0);
}

static int ready_with_pages(uint32_t room)
{
	uint32_t live = d.pages_live;
	int err;

	d.pages_live = D_PAGES - 1 - room;
	err = meta__tx_ready(&d.m);
	d.pages_live = live;
	return err;
}

Test(meta_tx, counts_the_pages_that_it_may_make_dirty)
{
	static const uint8_t large[1000];
	struct meta_key key = key_of(5);

	d.log_keep = false;
	for (uint64_t i = 0; i < 64; i++)
		cr_assert_eq(d_put(0, key_of(i), large, sizeof(large)), 0);
	d_checkpoint();
	cr_assert_eq(d.m.shard[0].height, 2);

	begin(); /* its path */
	cr_assert_eq(meta__tx_put(&d.m, 0, &key, large, sizeof(large) - 1), 0);
	cr_assert_eq(ready_with_pages(1), META__NEEDS_ROOM);
	cr_assert_eq(ready_with_pages(2), 0);
	begin(); /* deletes that make its leaf sparse: one neighbour a level */
	for (uint64_t i = 0; i < 16; i++)
		del(0, i);
	cr_assert_eq(ready_with_pages(3), META__NEEDS_ROOM);
	begin(); /* puts that do not fit */
	for (uint64_t i = 0; i < 16; i++) {
		key = meta__key(7, 3, META__CLASS_NAME, i + 2, META__KIND_NONE, 0);
		cr_assert_eq(meta__tx_put(&d.m, 0, &key, large, sizeof(large)), 0);
	}
	cr_assert_eq(ready_with_pages(16), META__NEEDS_ROOM);
	cr_assert_eq(ready_with_pages(20), 0);
}

Test(meta_tx, is_refused_when_the_store_has_failed)
{
	begin();
	put(0, 1, "a");
	meta__fail(&d.m);
	cr_assert_eq(meta__tx_ready(&d.m), -EROFS);
	begin();
	cr_assert_eq(meta__tx_ready(&d.m), 0); /* a read is not */
}

Test(meta_tx, replays_a_part_without_logging_it)
{
	struct meta__mut mut[2] = {
		{ .shard = 2, .key = key_of(1), .value = "abc", .value_len = 3 },
		{ .shard = 2, .key = key_of(2), .del = true },
	};
	uint32_t records, away;

	begin();
	put(2, 2, "gone soon");
	apply();
	records = d.nrecords;
	cr_assert_eq(meta__tx_replay(&d.m, &op, mut, 2, &away), 0);
	cr_assert_eq(away, 0);
	cr_assert_eq(d.nrecords, records);
	begin();
	cr_assert_str_eq(get(2, 1), "abc");
	cr_assert_str_eq(get(2, 2), "");
}

/* ---- what must be durable before it is told (meta_fresh.c) ------------------------------- */

/* In a log block of its own. */
static void apply_alone(void)
{
	d.log_open = false;
	apply();
}

/* The sequence that somebody who looks at one record has to wait for. */
static uint64_t seen_of(uint32_t shard, uint64_t i)
{
	begin();
	(void)get(shard, i);
	return meta__tx_seen(&d.m);
}

/* ... or at all from a name to another. */
static uint64_t seen_from(uint32_t shard, uint64_t from, uint64_t to)
{
	struct meta_key key = meta__key(7, from, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	const struct meta_key last =
		meta__key(7, to, META__CLASS_NAME, ~0ull >> 24, 255, ~0ull >> 16);
	const void *value;
	uint32_t len;

	begin();
	(void)meta__tx_seek(&d.m, shard, &key, &last, &value, &len);
	return meta__tx_seen(&d.m);
}

/* Three names in one leaf of shard 0, all of them durable; returns the sequence. */
static uint64_t three_names(void)
{
	begin();
	put(0, 1, "one");
	put(0, 2, "two");
	put(0, 3, "three");
	apply_alone();
	meta__fresh_durable(&d.m, op.seen_seq);
	return op.seen_seq;
}

Test(meta_tx, who_looks_at_a_record_waits_for_its_last_change_and_not_for_its_neighbours)
{
	const uint64_t was = three_names();

	begin();
	put(0, 2, "zwei");
	apply_alone();
	cr_assert_gt(op.seen_seq, was);
	cr_assert_eq(seen_of(0, 2), op.seen_seq);
	cr_assert_lt(seen_of(0, 1), op.seen_seq);
	cr_assert_lt(seen_of(0, 3), op.seen_seq);
	cr_assert_eq(seen_from(0, 2, 2), op.seen_seq, "looked for by its hash");
	cr_assert_lt(seen_from(0, 3, 3), op.seen_seq);
}

Test(meta_tx, who_misses_a_record_waits_for_its_removal)
{
	(void)three_names();
	begin();
	del(0, 2);
	apply_alone();
	cr_assert_eq(seen_of(0, 2), op.seen_seq);
	cr_assert_eq(seen_from(0, 2, 2), op.seen_seq);
	cr_assert_lt(seen_of(0, 1), op.seen_seq);
}

Test(meta_tx, who_looks_does_not_wait_for_totals_that_are_passed_up)
{
	(void)three_names();
	begin();
	put(0, 1, "eins");
	apply_alone();
	const uint64_t change = op.seen_seq;

	begin();
	op.type = (enum meta_op_type)META__OP_TOTALS_UP;
	put(0, 1, "uno");
	put(0, 2, "due");
	apply_alone();
	cr_assert_gt(op.seen_seq, change);
	cr_assert_eq(seen_of(0, 1), change, "for the client's own change, and for no more");
	cr_assert_lt(seen_of(0, 2), change);
}

Test(meta_tx, who_looks_through_more_than_one_name_waits_for_the_last_change_of_the_leaf)
{
	(void)three_names();
	begin();
	put(0, 2, "zwei");
	apply_alone();
	cr_assert_eq(seen_from(0, 1, 9), op.seen_seq);
	begin();
	(void)get(0, 1);
	cr_assert_lt(meta__tx_seen(&d.m), op.seen_seq);
	cr_assert_str_eq(get(0, 2), "zwei"); /* from there by a step, in the same leaf */
	cr_assert_eq(meta__tx_seen(&d.m), op.seen_seq);
}

Test(meta_tx, a_shard_that_was_lent_counts_as_a_whole)
{
	const uint64_t was = three_names();

	begin();
	put(0, 2, "zwei");
	apply_alone();
	cr_assert_lt(seen_of(0, 1), op.seen_seq);
	meta__fresh_note_shard(&d.m, 0, was + 1);
	cr_assert_eq(seen_of(0, 1), was + 1);
	cr_assert_leq(seen_of(1, 1), was);
}

Test(meta_tx, what_is_durable_need_not_be_waited_for)
{
	(void)three_names();
	begin();
	put(0, 2, "zwei");
	apply_alone();
	meta__fresh_durable(&d.m, op.seen_seq);
	cr_assert_leq(seen_of(0, 1), op.seen_seq);
	cr_assert_leq(seen_from(0, 1, 9), op.seen_seq);
	begin();
	put(0, 1, "eins");
	apply_alone();
	cr_assert_eq(seen_of(0, 1), op.seen_seq);
	cr_assert_lt(seen_of(0, 2), op.seen_seq);
}
