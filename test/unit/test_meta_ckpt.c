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

/* A page may be of an older record than what its root covers of the log. */
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

Test(meta_ckpt, starts_when_a_quarter_of_the_cache_is_dirty)
{
	uint64_t i = 0;
	struct meta_statfs st;

	while (!meta__ckpt_running(&d.m) && i < 10000) {
		put(0, i++);
		log_durable();
		meta__ckpt_turn(&d.m);
	}
	meta__cache_stat(&d.m, &st);
	cr_assert_eq(st.cache_pages_dirty, FRAMES / 4);
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
