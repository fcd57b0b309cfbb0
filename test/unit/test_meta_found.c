/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A record is looked for where it was found last.  Each test lets that place become another's, or
 * nobody's, with the old bytes still in it: who believes it gets a wrong value.
 */
#include "test/unit/meta_double.h"

#define FRAMES 128u

TestSuite(meta_found);

static struct meta_key chunk(uint64_t i)
{
	return meta__key(9, 0, META__CLASS_OBJ, 1, META__KIND_EXTENT, i);
}

static void put(uint32_t shard, uint64_t i, const char *text)
{
	uint8_t value[400] = { 0 }; /* some 37 to a leaf */

	memcpy(value, text, strlen(text));
	cr_assert_eq(d_put(shard, chunk(i), value, sizeof(value)), 0);
}

/* Returns the text of chunk i, or "". */
static const char *get(uint32_t shard, uint64_t i)
{
	static char text[401];
	const void *value;
	uint32_t len;
	int err = d_get(shard, chunk(i), &value, &len);

	text[0] = 0;
	if (err == 0)
		memcpy(text, value, len);
	else
		cr_assert_eq(err, -ENOENT, "%d: %s", err, d.m.error);
	return text;
}

/* Where chunk i was found last. */
static struct meta__frame *place(uint64_t i, uint32_t *pos)
{
	const struct meta_key key = chunk(i);
	struct meta__frame *f = meta__found_look(&d.m, &key, pos);

	cr_assert(f);
	return f;
}

Test(meta_found, a_record_is_where_it_was)
{
	const struct meta_key key = chunk(5);
	struct meta__frame *f;
	uint64_t hits;
	uint32_t pos;

	d_start(FRAMES, 1);
	put(0, 5, "five");
	cr_assert_str_eq(get(0, 5), "five");
	f = place(5, &pos);
	cr_assert(meta__found_holds(f, pos, 0, &key));
	hits = d.m.cache->hits;
	memset(d.m.shard[0].hint, 0,
	       sizeof(d.m.shard[0]
			      .hint)); /* a walk of one page would count as many: make it longer */
	d.m.shard[0].root_baddr++;
	cr_assert_str_eq(get(0, 5), "five", "it was walked to");
	d.m.shard[0].root_baddr--;
	cr_assert_eq(d.m.cache->hits, hits + 1);
	d_end();
}

Test(meta_found, a_place_may_be_another_records_after_an_insert_or_a_delete_before_it)
{
	d_start(FRAMES, 1);
	put(0, 5, "five");
	put(0, 7, "seven");
	cr_assert_str_eq(get(0, 7), "seven");
	put(0, 6, "six");
	cr_assert_str_eq(get(0, 7), "seven");
	cr_assert_str_eq(get(0, 6), "six");
	cr_assert_eq(d_del(0, chunk(5)), 0);
	cr_assert_str_eq(get(0, 7), "seven");
	cr_assert_str_eq(get(0, 5), "");
	cr_assert_eq(d_del(0, chunk(7)), 0); /* the last one: its slot still reads as it did */
	cr_assert_str_eq(get(0, 7), "");
	d_end();
}

Test(meta_found, the_same_key_of_another_shard_is_another_record)
{
	d_start(FRAMES, 1);
	put(0, 5, "zero's");
	put(1, 5, "one's");
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_str_eq(get(0, 5), "zero's");
		cr_assert_str_eq(get(1, 5), "one's");
	}
	cr_assert_str_eq(get(2, 5), "");
	d_end();
}

/* Slots behind a page's count are as they were before it was split. */
Test(meta_found, a_leaf_that_was_split_has_its_old_bytes_still)
{
	uint32_t pos, before;
	struct meta__frame *f;

	d_start(FRAMES, 1);
	for (uint64_t i = 0; i < 70; i += 2)
		put(0, i, "old");
	cr_assert_str_eq(get(0, 68), "old");
	f = place(68, &before);
	for (uint64_t i = 1; meta__page_count(f->page) > before; i += 2)
		put(0, i, "between");
	put(0, 68, "new");
	cr_assert(meta__frame_state(f) == FRAME_DIRTY && !meta__frame_gone(f));
	cr_assert_str_eq(get(0, 68), "new");
	cr_assert(place(68, &pos) != f);
	d_end();
}

/* A checkpoint writes the frozen page, and the tree has a newer one. */
Test(meta_found, a_frozen_page_has_the_value_of_before)
{
	uint32_t pos;
	struct meta__frame *f;

	d_start(FRAMES, 8);
	put(0, 5, "old");
	cr_assert_str_eq(get(0, 5), "old");
	f = place(5, &pos);
	meta__ckpt_want(&d.m);
	meta__ckpt_turn(&d.m);
	cr_assert_eq(meta__frame_state(f), FRAME_FROZEN);
	put(0, 5, "new");
	cr_assert(meta__frame_gone(f));
	cr_assert_str_eq(get(0, 5), "new");
	d_end();
}

/* A tree of one leaf is given up: the frame is free, and its page not cleared. */
Test(meta_found, a_free_frame_has_the_records_of_its_last_page)
{
	uint32_t pos;
	struct meta__frame *f;

	d_start(FRAMES, 1);
	put(0, 4, "four");
	put(0, 5, "five");
	cr_assert_str_eq(get(0, 5), "five");
	f = place(5, &pos);
	cr_assert_eq(d_del(0, chunk(5)), 0);
	cr_assert_eq(d_del(0, chunk(4)), 0);
	cr_assert_eq(d.m.shard[0].height, 0);
	cr_assert_eq(meta__frame_state(f), FRAME_FREE);
	/* The bytes of a page whose records were moved, not deleted, are such: */
	f->page[offsetof(struct meta_page_disk, count)] = (uint8_t)(pos + 1);
	cr_assert_str_eq(get(0, 5), "");
	put(1, 900, "keeps a leaf"); /* perhaps in that frame */
	cr_assert_str_eq(get(0, 5), "");
	d_end();
}

/* An interior page's bytes are no records, whatever they look like. */
Test(meta_found, an_interior_page_is_no_leaf)
{
	const struct meta_key key = chunk(5);
	uint32_t pos;
	struct meta__frame *f;

	d_start(FRAMES, 1);
	put(0, 5, "five");
	cr_assert_str_eq(get(0, 5), "five");
	f = place(5, &pos);
	cr_assert(meta__found_holds(f, pos, 0, &key));
	f->level = 1;
	cr_assert(!meta__found_holds(f, pos, 0, &key));
	f->level = 0;
	d_end();
}

/* All that was seen is known by its log sequence, the way to it known or not. */
Test(meta_found, it_is_told_when_a_record_will_be_durable)
{
	struct meta_op op = { .type = META_OP_STAT };
	const struct meta_key key = chunk(5);
	const void *value;
	uint32_t len;

	d_start(FRAMES, 1);
	put(0, 5, "one");
	cr_assert_str_eq(get(0, 5), "one");
	put(0, 5, "two");
	meta__tx_begin(&d.m, &op);
	cr_assert_eq(meta__tx_get(&d.m, 0, &key, &value, &len), 0);
	cr_assert_eq(meta__tx_seen(&d.m), d.log_last);
	d_end();
}

/* The hint of a shard is of a page, not of a place: places are given to other pages in time. */
Test(meta_found, a_hint_is_not_of_the_next_page_in_its_place)
{
	struct meta_op op = { .type = META_OP_STAT };
	const struct meta_key key = chunk(5);
	struct meta__hint *hint;
	struct meta__frame *leaf;

	d_start(FRAMES, 1);
	put(0, 5, "five");
	meta__tx_begin(&d.m, &op);
	cr_assert_eq(meta__tree_leaf(&d.m, &op, 0, &key, &hint), 0);
	cr_assert_eq(meta__tree_leaf(&d.m, &op, 0, &key, &hint), 0);
	leaf = hint->leaf;
	leaf->gen++; /* the tree names another: it is looked for, and this one noticed */
	cr_assert_eq(meta__tree_leaf(&d.m, &op, 0, &key, &hint), -EIO);
	leaf->gen--;
	d_end();
}
