/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/unit/meta_double.h"

#define FRAMES 128u

static void setup(void)
{
	d_start(FRAMES, 1);
}

TestSuite(meta_ckpt, .init = setup, .fini = d_end);

static struct meta_key key_of(uint64_t i)
{
	return meta__key(7, i, META__CLASS_NAME, 1, META__KIND_NONE, 0);
}

static void put(uint32_t shard, uint64_t i)
{
	static const uint8_t value[1000];

	cr_assert_eq(d_put(shard, key_of(i), value, sizeof(value)), 0);
}

static void fill(void)
{
	for (uint64_t i = 0; i < 40; i++)
		put((uint32_t)i % 2, i);
}

static bool has(uint32_t shard, uint64_t i)
{
	const void *value;
	uint32_t len;

	return d_get(shard, key_of(i), &value, &len) == 0;
}

static void log_durable(void)
{
	d.log_open = false;
	d.log_durable = d.log_last;
}

/* Begin one, with the log durable up to what there is. */
static void begin(void)
{
	log_durable();
	meta__ckpt_want(&d.m);
	meta__ckpt_turn(&d.m);
	cr_assert(meta__ckpt_running(&d.m));
}

Test(meta_ckpt, writes_pages_then_flushes_then_writes_roots_then_trims)
{
	const char *at = d.order;

	fill();
	begin();
	while (meta__ckpt_running(&d.m)) {
		d_pump();
		meta__ckpt_turn(&d.m);
	}
	at += strspn(at, "p");
	cr_assert_gt(at, d.order);
	cr_assert_eq(*at++, 'f'); /* of drive 0; drive 1 has no volatile cache */
	cr_assert_eq(strspn(at, "r"), 4, "%s", d.order); /* two shards changed, two copies each */
	cr_assert_str_eq(at + 4, "zt");
	cr_assert_eq(d.log_trimmed, d.log_last);
	cr_assert_eq(d.m.shard[0].durable_seq, 20);
	cr_assert_eq(d.m.shard[2].durable_seq, 0);
}

Test(meta_ckpt, writes_no_page_before_the_log_has_what_changed_it)
{
	put(0, 1);
	log_durable();
	put(0, 2);
	meta__ckpt_want(&d.m);
	meta__ckpt_turn(&d.m);
	for (uint32_t i = 0; i < 10; i++) {
		d_pump();
		meta__ckpt_turn(&d.m);
	}
	cr_assert_eq(d.writes, 0);
	cr_assert_eq(d.roots, 0);
	log_durable();
	for (uint32_t i = 0; i < 10; i++) {
		meta__ckpt_turn(&d.m);
		d_pump();
	}
	cr_assert_not(meta__ckpt_running(&d.m));
	cr_assert_eq(d.roots, 2);
}

/* A page may be older than the last record of the log that its root covers. */
Test(meta_ckpt, writes_no_root_before_the_log_up_to_its_freeze_is_durable)
{
	put(0, 1);
	log_durable();
	d.log_last++; /* a block of another transaction, not durable */
	meta__ckpt_want(&d.m);
	for (uint32_t i = 0; i < 10; i++) {
		meta__ckpt_turn(&d.m);
		d_pump();
	}
	cr_assert_eq(d.writes, 1);
	cr_assert_eq(d.flushes, 0);
	cr_assert_eq(d.roots, 0);
	log_durable();
	for (uint32_t i = 0; i < 10; i++) {
		meta__ckpt_turn(&d.m);
		d_pump();
	}
	cr_assert_eq(d.roots, 2);
}

Test(meta_ckpt, the_second_copy_of_a_root_follows_the_first)
{
	uint32_t roots = 0;

	fill();
	begin();
	while (d.flushes == 0 && d_pump_one())
		meta__ckpt_turn(&d.m);
	for (struct list *pos = d.m.io_wanted.next; pos != &d.m.io_wanted; pos = pos->next) {
		struct meta_io *io = container_of(pos, struct meta_io, link);

		cr_assert_leq(io->block, D_SHARDS); /* first copies */
		roots++;
	}
	cr_assert_eq(roots, 2);
}

Test(meta_ckpt, what_changes_after_the_freeze_is_not_in_its_roots)
{
	fill();
	begin();
	put(0, 100);
	put(1, 101);
	log_durable();
	while (meta__ckpt_running(&d.m)) {
		d_pump();
		meta__ckpt_turn(&d.m);
	}
	cr_assert_eq(d.root[0].seq, 20);
	cr_assert(has(0, 100));
	d_cut(FRAMES);
	cr_assert(has(0, 38));
	cr_assert_not(has(0, 100));
	cr_assert_not(has(1, 101));
}

Test(meta_ckpt, the_log_block_of_its_freeze_takes_no_later_record)
{
	uint64_t block;

	put(0, 1);
	d.log_durable = d.log_last;
	block = d.log_last; /* open: more of this turn would go into it */
	meta__ckpt_want(&d.m);
	meta__ckpt_turn(&d.m);
	put(0, 2);
	cr_assert_gt(d.log_last, block);
}

Test(meta_ckpt, of_an_unchanged_store_writes_no_root)
{
	fill();
	d_checkpoint();
	d.roots = d.writes = 0;
	d_checkpoint();
	cr_assert_eq(d.roots, 0);
	cr_assert_eq(d.writes, 0);
}

static uint32_t dirty_pages(void)
{
	struct meta_statfs st;

	meta__cache_stat(&d.m, &st);
	return (uint32_t)st.cache_pages_dirty;
}

/* Names in no order: each dirties another leaf, once there are many. */
static void put_more(uint32_t count)
{
	static uint64_t next;

	while (count--)
		put(0, (++next * 0x9e3779b97f4a7c15) >> 24);
}

static void until_dirty(uint32_t pages)
{
	while (dirty_pages() < pages)
		put_more(1);
	cr_assert_not(meta__ckpt_running(&d.m));
}

static void until_early(void)
{
	while (!meta__cache_early_due(&d.m))
		put_more(1);
	cr_assert_geq(dirty_pages(), FRAMES / 4);
	cr_assert_not(meta__ckpt_running(&d.m));
}

Test(meta_ckpt, where_zones_are_short_starts_when_half_of_what_may_be_is_dirty)
{
	d.zone_short = true;
	until_dirty(FRAMES / 4 - 1);
	log_durable();
	meta__ckpt_turn(&d.m);
	cr_assert_not(meta__ckpt_running(&d.m));
	while (dirty_pages() < FRAMES / 4)
		put_more(1);
	log_durable();
	meta__ckpt_turn(&d.m);
	cr_assert(meta__ckpt_running(&d.m));
}

Test(meta_ckpt, elsewhere_leaves_are_written_early_and_nothing_names_them)
{
	const uint64_t first = 0x9e3779b97f4a7c15 >> 24;

	while (d.writes < 200) {
		put_more(1);
		d_turn();
		cr_assert_not(meta__ckpt_running(&d.m));
		cr_assert_leq(dirty_pages(), FRAMES / 4 + 3, "a leaf, and what a split adds");
	}
	cr_assert_eq(d.roots + d.flushes, 0);
	cr_assert_eq(d.log_trimmed, 0);
	cr_assert(has(0, first));
	d_cut(FRAMES);
	cr_assert_not(has(0, first));
}

Test(meta_ckpt, no_leaf_is_written_early_before_the_log_has_what_changed_it)
{
	until_early();
	for (uint32_t i = 0; i < 5; i++) {
		meta__ckpt_turn(&d.m);
		d_pump();
	}
	cr_assert_eq(d.writes, 0);
	log_durable();
	meta__ckpt_turn(&d.m);
	d_pump();
	cr_assert_gt(d.writes, 0);
}

Test(meta_ckpt, its_roots_wait_for_leaves_that_were_being_written_when_it_began)
{
	struct list *early;

	until_early();
	log_durable();
	meta__ckpt_turn(&d.m);
	early = list_pop_front(&d.m.io_wanted); /* on its way for long */
	cr_assert_not_null(early);
	begin();
	for (uint32_t i = 0; i < 50; i++) {
		d_pump();
		meta__ckpt_turn(&d.m);
	}
	cr_assert_gt(d.writes, 10);
	cr_assert_eq(d.flushes, 0);
	list_push_back(&d.m.io_wanted, early);
	while (meta__ckpt_running(&d.m)) {
		d_pump();
		meta__ckpt_turn(&d.m);
	}
	cr_assert_eq(d.flushes, 1);
	cr_assert_eq(d.roots, 2);
}

Test(meta_ckpt, a_leaf_that_changes_while_it_is_written_early_is_found_as_it_was_changed)
{
	uint64_t changed[16], n = 0;
	struct list *pos;

	until_early();
	log_durable();
	meta__ckpt_turn(&d.m);
	list_for_each (pos, &d.m.io_wanted) {
		const struct meta__io *x = container_of(pos, struct meta__io, io.link);
		const struct meta__frame *f = x->owner;

		cr_assert_eq(f->level, 0);
		if (n < 16)
			changed[n++] =
				meta__key_hash((struct meta_key[]){ meta__leaf_key(f->page, 0) });
	}
	cr_assert_gt(n, 0);
	for (uint64_t i = 0; i < n; i++)
		cr_assert_eq(d_put(0, key_of(changed[i]), "new", 3), 0);
	d_checkpoint();
	d_cut(FRAMES);
	for (uint64_t i = 0; i < n; i++) {
		const void *value;
		uint32_t len;

		cr_assert_eq(d_get(0, key_of(changed[i]), &value, &len), 0);
		cr_assert_eq(len, 3);
	}
}

static void upper(void)
{
	const struct meta_key zero = { 0 };
	struct meta__frame *f = meta__cache_new(&d.m, 1, 1, &zero, 0);

	meta__inner_insert(f->page, 0, &zero, 4, 1);
}

/* Nothing but a checkpoint makes them clean. */
Test(meta_ckpt, starts_when_what_is_dirty_is_pages_above_leaves)
{
	const uint32_t most = FRAMES / 2 / 16 * 15;

	for (uint32_t i = 0; i + 1 < most; i++)
		upper();
	meta__ckpt_dirtied(&d.m);
	meta__ckpt_turn(&d.m);
	cr_assert_not(meta__ckpt_running(&d.m));
	upper();
	meta__ckpt_dirtied(&d.m);
	meta__ckpt_turn(&d.m);
	cr_assert(meta__ckpt_running(&d.m));
}

/* Else a leaf that changes always is written for each block of the log. */
Test(meta_ckpt, however_many_pages_above_leaves_are_dirty_leaves_wait_for_other_changes)
{
	const uint32_t most = FRAMES / 2 / 16 * 15;

	put(0, 1);
	while (meta__cache_room(&d.m) > FRAMES / 2 - most + 3)
		upper();
	for (uint32_t i = 0; i < 100; i++) {
		put(0, 1);
		log_durable();
		d_turn();
	}
	cr_assert_not(meta__ckpt_running(&d.m));
	cr_assert_leq(d.writes, 1, "%u writes", d.writes);
}

/* They are in the way of a plan that needs more than there is. */
Test(meta_ckpt, leaves_that_wait_for_other_changes_are_written_when_room_is_wanted)
{
	until_dirty(FRAMES / 4 - 1);
	log_durable();
	d_turn();
	cr_assert_eq(d.writes, 0);
	for (uint32_t i = 0; i < 10 && meta__cache_room(&d.m) < FRAMES / 2 - 5; i++) {
		meta__ckpt_make_room(&d.m, FRAMES / 2 - 5);
		d_turn();
	}
	cr_assert_gt(d.writes, 20);
	cr_assert_geq(meta__cache_room(&d.m), FRAMES / 2 - 5);
	cr_assert_not(meta__ckpt_running(&d.m));
}

/* It would be in vain to write leaves first. */
Test(meta_ckpt, starts_when_pages_above_leaves_are_in_the_way)
{
	put(0, 1);
	while (meta__cache_room(&d.m) > FRAMES / 4)
		upper();
	meta__ckpt_make_room(&d.m, FRAMES / 4 + 2);
	log_durable();
	meta__ckpt_turn(&d.m);
	cr_assert(meta__ckpt_running(&d.m));
}

Test(meta_ckpt, a_page_that_cannot_be_written_fails_the_store)
{
	fill();
	d.fail_writes = 1;
	begin();
	d_pump();
	cr_assert_eq(d.m.failed, -EROFS);
	cr_assert_not_null(strstr(d.m.error, "checkpoint: write of drive 0"));
	meta__ckpt_turn(&d.m);
	d_pump();
	cr_assert_eq(d.roots, 0);
	cr_assert_eq(d.log_trimmed, 0);
	cr_assert(has(0, 2)); /* reads go on */
}

Test(meta_ckpt, generations_ascend_from_mount_to_mount)
{
	uint64_t gen = meta__ckpt_gen(&d.m);

	fill();
	d_checkpoint();
	cr_assert_gt(meta__ckpt_gen(&d.m), gen);
	gen = meta__ckpt_gen(&d.m);
	d_cut(FRAMES);
	cr_assert_gt(meta__ckpt_gen(&d.m), gen);
}
