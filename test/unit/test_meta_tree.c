/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/runs.h"
#include "test/unit/meta_double.h"

#define FRAMES 64u /* 1 MiB: far less than the tree */
#define KEYS   12000u

TestSuite(meta_tree);

/* The model: a value is made of its key and a version; 0: no record. */
static uint32_t version[D_SHARDS][KEYS];

static struct meta_key key_of(uint32_t i)
{
	uint64_t h = i * 0x9e3779b97f4a7c15ull;

	/* Some neighbours, most not: like objects of a directory */
	return meta__key(3 + (i & 1), h >> 24 & 0xffff, META__CLASS_OBJ, i, META__KIND_EXTENT, i);
}

static struct meta_key number(uint64_t i)
{
	return meta__key(9, 0, META__CLASS_OBJ, 1, META__KIND_EXTENT, i);
}

static uint32_t value_of(uint32_t i, uint32_t v, uint8_t *out)
{
	struct rand_state r = { .at = (uint64_t)i << 32 | v };
	uint32_t len = (uint32_t)rand_below(&r, rand_below(&r, 50) == 0 ? META_VALUE_MAX : 300);

	for (uint32_t b = 0; b < len; b++)
		out[b] = (uint8_t)rand_u64(&r);
	return len;
}

static void expect(uint32_t shard, uint32_t i)
{
	uint8_t want[META_VALUE_MAX];
	const void *value;
	uint32_t len, want_len;
	int err = d_get(shard, key_of(i), &value, &len);

	if (version[shard][i] == 0) {
		cr_assert_eq(err, -ENOENT, "key %u: %d", i, err);
		return;
	}
	cr_assert_eq(err, 0, "key %u: %d, %s", i, err, d.m.error);
	want_len = value_of(i, version[shard][i], want);
	cr_assert_eq(len, want_len);
	cr_assert(memcmp(value, want, len) == 0);
}

static void put(uint32_t shard, uint32_t i)
{
	uint8_t value[META_VALUE_MAX];
	uint32_t len = value_of(i, ++version[shard][i], value);

	cr_assert_eq(d_put(shard, key_of(i), value, len), 0);
}

static void del(uint32_t shard, uint32_t i)
{
	version[shard][i] = 0;
	cr_assert_eq(d_del(shard, key_of(i)), 0);
}

/* Every record in order, by seeking: no more and no fewer than the model has. */
static void expect_all(void)
{
	const void *value;
	uint32_t len, n, want;

	for (uint32_t s = 0; s < D_SHARDS; s++) {
		struct meta_key key = { { 0, 0, 0 } }, before = key;

		for (n = 0; d_seek(s, &key, &value, &len) == 0; n++) {
			cr_assert(n == 0 || meta__key_cmp(&before, &key) < 0);
			before = key;
			key.w[2]++;
		}
		want = 0;
		for (uint32_t i = 0; i < KEYS; i++) {
			want += version[s][i] != 0;
			expect(s, i);
		}
		cr_assert_eq(n, want, "shard %u: %u records, not %u", s, n, want);
	}
}

Test(meta_tree, is_what_a_table_would_be_after_100000_changes_in_a_small_cache, .timeout = 120)
{
	d_start(FRAMES, 1);
	for (uint32_t n = 0; n < 100000; n++) {
		uint32_t shard = (uint32_t)rand_below(&d.rand, D_SHARDS);
		uint32_t i = (uint32_t)rand_below(&d.rand, KEYS);
		uint64_t what = rand_below(&d.rand, 100);

		/* it grows, and then it shrinks */
		if (what < (n < 60000 ? 60u : 20u))
			put(shard, i);
		else if (what < 85)
			del(shard, i);
		else
			expect(shard, i);
		if (n % 64 == 0)
			d_step(); /* so that most changes meet a checkpoint half done */
	}
	d_checkpoint();
	cr_assert_gt(d.pages_live, 4 * FRAMES);
	expect_all();
	d_cut(FRAMES);
	expect_all();
	d_end();
}

/* The first leaf is given up; what it answered for comes back, out of order, and splits leaves. */
Test(meta_tree, grows_again_where_its_first_leaves_were)
{
	uint8_t value[200] = { 0 };
	const uint32_t n = 600;
	const void *v;
	uint32_t len;

	d_start(FRAMES, 7);
	for (uint32_t round = 0; round < test_runs(40); round++) {
		for (uint32_t i = 0; i < n; i++)
			cr_assert_eq(d_put(0, number(i), value, sizeof(value)), 0);
		for (uint32_t i = 0; i < n / 3; i++)
			cr_assert_eq(d_del(0, number(i)), 0);
		for (uint32_t i = 0; i < n; i++) {
			uint64_t k = rand_below(&d.rand, n / 3);

			(void)d_get(0, number(k), &v, &len); /* as plans do */
			cr_assert_eq(d_put(0, number(k), value, sizeof(value)), 0);
		}
		d_checkpoint();
		d_cut(FRAMES); /* pages are parsed when they come back */
		for (uint32_t i = n / 3; i < n; i++)
			cr_assert_eq(d_get(0, number(i), &v, &len), 0, "%u: %s", i, d.m.error);
	}
	d_end();
}

Test(meta_tree, is_read_where_it_was_written_last_while_a_checkpoint_runs)
{
	const void *value;
	uint32_t len;

	d_start(FRAMES, 8);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(d_put(0, number(i), "old", 3), 0);
	meta__ckpt_want(&d.m);
	meta__ckpt_turn(&d.m);
	cr_assert_eq(d_get(0, number(5), &value, &len), 0);
	cr_assert_eq(d_put(0, number(5), "newer", 5), 0); /* a copy of the frozen leaf */
	cr_assert_eq(d_get(0, number(5), &value, &len), 0);
	cr_assert_eq(len, 5);
	d_end();
}

Test(meta_tree, of_all_deleted_records_leaves_no_page)
{
	d_start(FRAMES, 2);
	for (uint32_t i = 0; i < KEYS; i++)
		put(1, i);
	for (uint32_t i = 0; i < KEYS; i++)
		del(1, i * 7919u % KEYS);
	cr_assert_eq(d.m.shard[1].height, 0);
	expect_all();
	d_checkpoint();
	d_checkpoint();
	cr_assert_eq(d.pages_live, 0);
	cr_assert_eq(d.root[1].root_baddr, 0);
	d_end();
}

Test(meta_tree, filled_in_ascending_order_has_full_pages)
{
	uint8_t value[100] = { 0 };
	uint32_t bytes = 20000 * meta__leaf_bytes(sizeof(value)), pages;

	d_start(FRAMES, 3);
	for (uint32_t i = 0; i < 20000; i++)
		cr_assert_eq(d_put(0, number(i), value, sizeof(value)), 0);
	d_checkpoint();
	d_checkpoint();
	d_recount();
	pages = d.pages_live;
	cr_assert_lt(pages, bytes / META__LEAF_SPACE * 105 / 100 + 3, "%u pages", pages);
	d_end();
}

static struct meta_key of_name(uint64_t hash, enum meta__class class, uint64_t uniq)
{
	return meta__key(9, hash, class, uniq,
			 class == META__CLASS_OBJ ? META__KIND_INODE : META__KIND_NONE, 0);
}

/* Opening a small file by its name takes one leaf, wherever leaves were split. */
Test(meta_tree, a_name_and_its_inode_are_in_one_leaf_and_the_names_hash_leads_there)
{
	static const uint8_t value[600];
	struct rand_state r = { .at = 5 };

	d_start(2048, 5);
	d.log_keep = false;
	for (uint32_t i = 1; i <= 5000; i++) {
		const uint64_t hash = i * 0x9e3779b97f4a7c15u >> 24;
		const uint32_t len = (uint32_t)rand_below(&r, rand_below(&r, 3) ? 150 : 600);

		cr_assert_eq(d_put(0, of_name(hash, META__CLASS_NAME, i), value, 50), 0);
		cr_assert_eq(d_put(0, of_name(hash, META__CLASS_OBJ, i), value, len), 0);
	}
	for (uint32_t i = 1; i <= 5000; i++) {
		const uint64_t hash = i * 0x9e3779b97f4a7c15u >> 24;
		struct meta_key key = of_name(hash, META__CLASS_NAME, 0);
		struct meta__path path;
		uint32_t pos;

		cr_assert_eq(meta__tree_walk(&d.m, NULL, 0, &key, 0, &path), 0);
		key = of_name(hash, META__CLASS_NAME, i);
		cr_assert(meta__leaf_find(path.at[0].frame->page, &key, &pos), "name %u", i);
		key = of_name(hash, META__CLASS_OBJ, i);
		cr_assert(meta__leaf_find(path.at[0].frame->page, &key, &pos), "inode %u", i);
	}
	d_end();
}

Test(meta_tree, that_shrinks_merges_sparse_neighbours)
{
	uint32_t full;

	d_start(1024, 4); /* all of it in memory: merging is then certain */
	for (uint32_t i = 0; i < KEYS; i++)
		put(2, i);
	d_checkpoint();
	d_checkpoint();
	full = d.pages_live;
	for (uint32_t i = 0; i < KEYS; i++)
		if (i % 16)
			del(2, i);
	d_checkpoint();
	d_checkpoint();
	cr_assert_lt(d.pages_live, full / 3, "%u of %u", d.pages_live, full);
	expect_all();
	d_end();
}

Test(meta_tree, touching_moves_a_page_and_keeps_its_records)
{
	struct meta__path path;
	struct meta_op op = { .type = (enum meta_op_type)META__OP_TOUCH };
	struct meta_key key = key_of(17), first;
	uint64_t baddr;
	int err;

	d_start(FRAMES, 5);
	for (uint32_t i = 0; i < KEYS; i++)
		put(0, i);
	for (uint32_t level = 0; level < 2; level++) {
		d_checkpoint();
		meta__tx_begin(&d.m, &op);
		while ((err = meta__tree_walk(&d.m, &op, 0, &key, level, &path)) == META__MISSES)
			d_again(&op, err);
		baddr = meta__frame_baddr(path.at[level].frame);
		first = meta__page_first(path.at[level].frame->page);
		op.keeps.touch.shard = 0;
		op.keeps.touch.level = level;
		op.keeps.touch.baddr = baddr;
		memcpy(op.keeps.touch.first, first.w, sizeof(first.w));
		do {
			meta__tx_begin(&d.m, &op);
			err = meta__plan_touch(&d.m, &op);
			if (!err)
				err = meta__tx_ready(&d.m);
		} while (d_again(&op, err));
		cr_assert_eq(err, 0);
		meta__tx_apply(&d.m);
		cr_assert_eq(d.page[baddr / META_PAGE_BLOCKS], D_DYING);
		/* once more: it lies elsewhere now, so nothing happens */
		meta__tx_begin(&d.m, &op);
		cr_assert_eq(meta__plan_touch(&d.m, &op), 0);
		meta__tx_apply(&d.m);
	}
	d_checkpoint();
	d_cut(FRAMES);
	expect_all();
	d_end();
}

/* A checkpoint is half done, at any point, when the power goes: roots and log give all back. */
Test(meta_tree, survives_cuts_by_roots_and_log, .timeout = 120)
{
	static uint8_t small[64];

	d_start(FRAMES, 6);
	d.log_keep = true;
	for (uint32_t round = 0; round < test_runs(40); round++) {
		uint32_t n = 200 + (uint32_t)rand_below(&d.rand, 400), served;

		for (uint32_t i = 0; i < n; i++) {
			uint32_t shard = (uint32_t)rand_below(&d.rand, D_SHARDS);
			uint32_t k = (uint32_t)rand_below(&d.rand, KEYS);
			uint32_t len;

			if (rand_below(&d.rand, 3) == 0) {
				version[shard][k] = 0;
				cr_assert_eq(d_del(shard, key_of(k)), 0);
			} else {
				do { /* a version whose value the double's log can hold */
					uint8_t big[META_VALUE_MAX];

					len = value_of(k, ++version[shard][k], big);
					memcpy(small, big, sizeof(small));
				} while (len > sizeof(small));
				cr_assert_eq(d_put(shard, key_of(k), small, len), 0);
			}
		}
		d.log_open = false;
		d.log_durable = d.log_last;
		meta__ckpt_want(&d.m);
		meta__ckpt_turn(&d.m);
		served = (uint32_t)rand_below(&d.rand, 120);
		while (served-- > 0 && d_pump_one())
			meta__ckpt_turn(&d.m);

		d_cut(FRAMES);
		d_recount();
		for (uint32_t i = 0; i < d.nrecords; i++) {
			struct d_record *r = &d.record[i];
			struct meta_op op = { .type = (enum meta_op_type)META__OP_REPLAY };
			uint32_t away;
			int err;

			r->mut.value = r->value;
			if (r->shard_seq <= d.m.shard[r->mut.shard].seq)
				continue;
			cr_assert_gt(r->block, d.log_trimmed);
			do
				err = meta__tx_replay(&d.m, &op, &r->mut, 1, &away);
			while (d_again(&op, err));
			cr_assert_eq(err, 0);
			d.m.shard[r->mut.shard].seq = r->shard_seq;
		}
		if (round % 8 == 0)
			expect_all();
	}
	expect_all();
	d_end();
}
