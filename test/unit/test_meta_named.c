/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A name is looked for where it was found last.  Each test lets that place become another's, or
 * lets another name of the same hash come before it: who believes it gets a wrong name.
 */
#include "test/unit/meta_double.h"

#define FRAMES 128u
#define DIR    9u
#define NONE   UINT64_MAX

static const struct meta_key end = { { UINT64_MAX, UINT64_MAX, UINT64_MAX } };

TestSuite(meta_named);

static struct meta_key name(uint64_t hash, uint64_t uniq)
{
	return meta__key(DIR, hash, META__CLASS_NAME, uniq, META__KIND_NONE, 0);
}

/* Some 37 to a leaf. */
static int put(uint32_t shard, uint64_t hash, uint64_t uniq, uint64_t text)
{
	uint64_t value[50] = { text };

	return d_put(shard, name(hash, uniq), value, sizeof(value));
}

/* Returns the text of the first record with that hash or a later one; NONE if no record follows. */
static uint64_t seek(uint32_t shard, uint64_t hash)
{
	struct meta_key key = name(hash, 0);
	const void *value;
	uint32_t len;
	uint64_t text;

	if (d_seek(shard, &key, &value, &len))
		return NONE;
	memcpy(&text, value, sizeof(text));
	return text;
}

/* Where it was found last; NULL: not known. */
static struct meta__frame *place(uint64_t hash, uint32_t *pos)
{
	const struct meta_key key = name(hash, 0);

	return meta__named_look(&d.m, &key, pos);
}

static bool holds(uint32_t shard, uint64_t hash)
{
	const struct meta_key key = name(hash, 0);
	uint32_t pos;
	const struct meta__frame *f = place(hash, &pos);

	return f && meta__named_holds(f, pos, shard, &key);
}

Test(meta_named, a_name_is_where_it_was)
{
	d_start(FRAMES, 1);
	for (uint64_t h = 4; h < 8; h++)
		cr_assert_eq(put(0, h, 1, h), 0);
	cr_assert_eq(seek(0, 5), 5);
	cr_assert(holds(0, 5));
	memset(d.m.shard[0].hint, 0, sizeof(d.m.shard[0].hint));
	d.m.shard[0].root_baddr++; /* who walks now is lost */
	cr_assert_eq(seek(0, 5), 5);
	d.m.shard[0].root_baddr--;
	d_end();
}

Test(meta_named, the_same_name_of_another_shard_is_another)
{
	d_start(FRAMES, 1);
	for (uint32_t shard = 0; shard < 2; shard++)
		for (uint64_t h = 4; h < 8; h++)
			cr_assert_eq(put(shard, h, 1, 10 * h + shard), 0);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(seek(0, 5), 50);
		cr_assert_eq(seek(1, 5), 51);
	}
	cr_assert_eq(seek(2, 5), NONE);
	d_end();
}

Test(meta_named, a_name_of_the_same_hash_may_come_before_it)
{
	d_start(FRAMES, 1);
	cr_assert_eq(put(0, 4, 1, 4), 0);
	cr_assert_eq(put(0, 5, 7, 57), 0);
	cr_assert_eq(seek(0, 5), 57);
	cr_assert(holds(0, 5));
	cr_assert_eq(put(0, 5, 3, 53), 0);
	cr_assert_eq(seek(0, 5), 53);
	cr_assert_eq(d_del(0, name(5, 3)), 0);
	cr_assert_eq(seek(0, 5), 57);
	cr_assert_eq(d_del(0, name(4, 1)), 0); /* what stood before it is gone: all moves up */
	cr_assert_eq(seek(0, 5), 57);
	cr_assert_eq(d_del(0, name(5, 7)), 0); /* its slot still reads as it did */
	cr_assert_eq(seek(0, 5), NONE);
	d_end();
}

/* The first hash behind which a leaf begins, of some that fill several. */
static uint64_t first_of_a_leaf(void)
{
	struct meta_op op = { .type = META_OP_STAT };

	for (uint64_t h = 10; h < 1000; h += 10) {
		const struct meta_key key = name(h, 7);
		struct meta__hint *hint;
		uint32_t pos;

		if (put(0, h, 7, h))
			return NONE;
		meta__tx_begin(&d.m, &op);
		if (meta__tree_leaf(&d.m, &op, 0, &key, &hint) == 0 &&
		    meta__leaf_find(hint->leaf->page, &key, &pos) && pos == 0 && h > 10)
			return h;
	}
	return NONE;
}

/* A leaf's first record is the first of its hash only if none stands in the leaf before. */
Test(meta_named, the_first_slot_of_a_leaf_says_nothing)
{
	uint64_t h;

	d_start(FRAMES, 1);
	h = first_of_a_leaf();
	cr_assert_neq(h, NONE);
	cr_assert_eq(seek(0, h), h);
	cr_assert(!holds(0, h));
	cr_assert_eq(put(0, h, 3, 3), 0); /* below what parts the leaves: it goes to the other */
	cr_assert_eq(seek(0, h), 3);
	d_end();
}

/* A checkpoint writes pages that the tree no longer has; a frame that was given up has no owner. */
Test(meta_named, a_page_that_is_gone_has_the_names_of_before)
{
	uint8_t bytes[META_PAGE_BYTES];
	struct meta__frame *f;
	uint32_t pos;

	d_start(FRAMES, 8);
	cr_assert_eq(put(0, 4, 1, 4), 0);
	cr_assert_eq(put(0, 5, 7, 57), 0);
	cr_assert_eq(seek(0, 5), 57);
	f = place(5, &pos);
	meta__ckpt_want(&d.m);
	meta__ckpt_turn(&d.m);
	cr_assert_eq(meta__frame_state(f), FRAME_FROZEN);
	cr_assert_eq(put(0, 5, 7, 58), 0);
	cr_assert(meta__frame_gone(f));
	cr_assert_eq(seek(0, 5), 58);
	f = place(5, &pos);
	memcpy(bytes, f->page, sizeof(bytes));
	cr_assert_eq(d_del(0, name(4, 1)), 0);
	cr_assert_eq(d_del(0, name(5, 7)), 0);
	cr_assert_eq(meta__frame_state(f), FRAME_FREE);
	memcpy(f->page, bytes, sizeof(bytes)); /* as if they had been moved to another page */
	cr_assert_eq(seek(0, 5), NONE);
	d_end();
}

Test(meta_named, an_interior_page_is_no_leaf)
{
	struct meta__frame *f;
	uint32_t pos;

	d_start(FRAMES, 1);
	cr_assert_eq(put(0, 4, 1, 4), 0);
	cr_assert_eq(put(0, 5, 1, 5), 0);
	cr_assert_eq(seek(0, 5), 5);
	cr_assert(holds(0, 5));
	f = place(5, &pos);
	f->level = 1;
	cr_assert(!holds(0, 5));
	f->level = 0;
	d_end();
}

Test(meta_named, it_is_told_when_a_name_will_be_durable)
{
	struct meta_op op = { .type = META_OP_STAT };
	struct meta_key key = name(5, 0);
	const void *value;
	uint32_t len;

	d_start(FRAMES, 1);
	cr_assert_eq(put(0, 4, 1, 4), 0);
	cr_assert_eq(put(0, 5, 1, 5), 0);
	cr_assert_eq(seek(0, 5), 5);
	cr_assert_eq(put(0, 5, 1, 6), 0);
	cr_assert(holds(0, 5));
	meta__tx_begin(&d.m, &op);
	cr_assert_eq(meta__tx_seek(&d.m, 0, &key, &end, &value, &len), 0);
	cr_assert_eq(meta__tx_seen(&d.m), d.log_last);
	d_end();
}

/* Five names want one place of four: four are known, and the fifth is found all the same. */
Test(meta_named, names_that_want_the_same_places_push_each_other_out)
{
	uint32_t known = 0, pos;

	d_start(4, 1); /* 128 places for 1000 names */
	for (uint64_t h = 1; h <= 1000; h++) {
		const struct meta_key key = name(h << 20, 0);
		uint8_t page[META_PAGE_BYTES];
		struct meta__frame f = { .page = page };

		/* No tree has the page: the test looks at the table only. */
		meta__page_init(page, 0, 0, &key);
		for (uint64_t uniq = 0; uniq < 2; uniq++) {
			const struct meta_key at = name((h << 20) - 1 + uniq, 1);

			meta__leaf_insert(page, (uint32_t)uniq, &at, NULL, 0);
		}
		f = d.m.cache->frame[h % 4];
		d.m.cache->frame[h % 4].page = page;
		meta__named_note(&d.m, &d.m.cache->frame[h % 4], 1, &key);
		cr_assert_eq(meta__named_look(&d.m, &key, &pos), &d.m.cache->frame[h % 4]);
		cr_assert_eq(pos, 1);
		d.m.cache->frame[h % 4].page = f.page;
	}
	for (uint64_t h = 1; h <= 1000; h++)
		known += place(h << 20, &pos) != NULL;
	cr_assert(known > 100 && known <= 128, "%u", known);
	d_end();
}

/* ---- looking ahead ----------------------------------------------------------------------- */

static const char *const files[] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static struct meta_target target_of(const char *path)
{
	return (struct meta_target){ .dir = DIR, .path = path, .path_len = 1 };
}

static uint64_t hash_of(const char *file)
{
	return meta__name_hash(&d.m, DIR, file, 1);
}

/* After a look ahead the lookup need not walk, whether the name was known before or not. */
Test(meta_named, looking_ahead_finds_the_way_once)
{
	struct meta_ahead ahead[ARRAY_LEN(files)];
	uint32_t shard, pos, known = 0;

	d_start(FRAMES, 1);
	d.m.mounted = true;
	shard = meta__dir_shard(&d.m, DIR);
	for (uint32_t i = 0; i < ARRAY_LEN(files); i++)
		cr_assert_eq(put(shard, hash_of(files[i]), 1, i), 0);
	for (uint32_t turn = 0; turn < 2; turn++) {
		for (uint32_t i = 0; i < ARRAY_LEN(files); i++) {
			struct meta_target t = target_of(files[i]);

			cr_assert_eq(place(hash_of(files[i]), &pos) != NULL,
				     turn > 0 && known & 1u << i);
			meta_ahead_begin(&d.m, &t, 0, &ahead[i]);
		}
		meta_ahead_run(ahead, ARRAY_LEN(files));
		for (uint32_t i = 0; i < ARRAY_LEN(files); i++)
			known |= (uint32_t)holds(shard, hash_of(files[i])) << i;
	}
	cr_assert_eq(__builtin_popcount(known), (int)ARRAY_LEN(files) - 1); /* but slot 0's */
	memset(d.m.shard[shard].hint, 0, sizeof(d.m.shard[shard].hint));
	d.m.shard[shard].root_baddr++;
	for (uint32_t i = 0; i < ARRAY_LEN(files); i++)
		if (known & 1u << i)
			cr_assert_eq(seek(shard, hash_of(files[i])), i);
	d.m.shard[shard].root_baddr--;
	d_end();
}

/* ---- anything, against a table --------------------------------------------------------------- */

#define HASHES 300u
#define UNIQS  4u /* 1 .. 3 */

static uint64_t there[HASHES][UNIQS]; /* 0: not */

/* As the table has it: the first that is there, of this hash or behind it. */
static uint64_t first_there(uint64_t hash)
{
	for (; hash < HASHES; hash++)
		for (uint32_t u = 1; u < UNIQS; u++)
			if (there[hash][u])
				return there[hash][u];
	return NONE;
}

Test(meta_named, whatever_changes_the_first_of_a_hash_is_found)
{
	d_start(24, 3);
	memset(there, 0, sizeof(there));
	for (uint64_t i = 1; i < 30000; i++) {
		/* All of it grows and shrinks: leaves split and are merged again. */
		uint64_t h = rand_below(&d.rand, HASHES), u = 1 + rand_below(&d.rand, UNIQS - 1);
		uint64_t dice = rand_below(&d.rand, 8), puts = i / 3000 % 2 ? 1 : 3;

		if (dice < puts) {
			cr_assert_eq(put(0, h, u, i), 0, "%llu", (unsigned long long)i);
			there[h][u] = i;
		} else if (dice < 4 && there[h][u]) {
			cr_assert_eq(d_del(0, name(h, u)), 0, "%llu", (unsigned long long)i);
			there[h][u] = 0;
		} else if (i % 100 == 0) {
			d_step();
		}
		h = rand_below(&d.rand, HASHES);
		cr_assert_eq(seek(0, h), first_there(h), "%llu", (unsigned long long)i);
	}
	d_end();
}
