/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/format/meta_page.h"
#include "base/num.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define BADDR META_BADDR(3, 4096)
#define GEN   77u

static _Alignas(8) uint8_t page[META_PAGE_BYTES], other[META_PAGE_BYTES];
static const struct meta__page_want leaf_wanted = { .baddr = BADDR, .gen = GEN, .shard = 5 };
static const struct meta__page_want inner_wanted = {
	.baddr = BADDR,
	.gen = GEN,
	.shard = 5,
	.level = 1,
};

static struct meta_key key_of(uint64_t i)
{
	return (struct meta_key){ { i >> 8, i >> 4 & 15, i & 15 } };
}

static void put(void *to, uint64_t i, const void *value, uint32_t len)
{
	struct meta_key key = key_of(i);
	uint32_t pos;

	if (meta__leaf_find(to, &key, &pos))
		meta__leaf_remove(to, pos);
	meta__leaf_insert(to, pos, &key, value, len);
}

static const char *check(const struct meta__page_want *want)
{
	struct meta_page_disk *h = (struct meta_page_disk *)page;

	meta__page_place(page, BADDR, GEN, 1);
	h->crc32c = le32_of(crc32c(page + 4, META_PAGE_BYTES - 4)); /* seals what no code would */
	return meta__page_check(page, want);
}

static void make_leaf(void)
{
	struct meta_key first = key_of(16);

	meta__page_init(page, 5, 0, &first);
	for (uint64_t i = 20; i < 40; i++)
		put(page, i, "hello, page", (uint32_t)(i % 12));
}

static void make_inner(uint32_t count)
{
	struct meta_key first = key_of(16);

	meta__page_init(page, 5, 1, &first);
	for (uint32_t i = 0; i < count; i++) {
		struct meta_key key = key_of(100 + 7 * i);

		meta__inner_insert(page, i, &key, META_BADDR(i % 3, 64 + i), i % GEN);
	}
}

TestSuite(meta_page);

Test(meta_page, a_leaf_is_what_a_table_would_be)
{
	static uint8_t model[600][200];
	static uint32_t length[600];
	static bool there[600];
	struct rand_state r = { .at = 1 };
	struct meta_key first = { { 0, 0, 0 } }, key;
	const void *value;
	uint32_t pos, near, len, count = 0;

	meta__page_init(page, 5, 0, &first);
	for (uint32_t n = 0; n < 50000; n++) {
		uint32_t i = (uint32_t)rand_below(&r, 600);

		key = key_of(i);
		cr_assert_eq(meta__leaf_find(page, &key, &pos), there[i]);
		for (uint32_t k = 0; k < 5; k++) { /* there, beside, anywhere */
			near = k < 4 ? pos + k - 2 : (uint32_t)rand_below(&r, 700);
			cr_assert_eq(meta__leaf_find_near(page, &key, &near), there[i]);
			cr_assert_eq(near, pos);
		}
		if (there[i]) {
			meta__leaf_value(page, pos, &value, &len);
			cr_assert_eq(len, length[i]);
			cr_assert(memcmp(value, model[i], len) == 0);
		}
		if (rand_below(&r, 2) == 0) {
			len = (uint32_t)rand_below(&r, sizeof(model[0]));
			if (meta__leaf_free(page) < meta__leaf_bytes(len))
				continue;
			for (uint32_t b = 0; b < len; b++)
				model[i][b] = (uint8_t)rand_u64(&r);
			if (!there[i] || !meta__leaf_replace(page, pos, model[i], len))
				put(page, i, model[i], len);
			count += !there[i];
			there[i] = true;
			length[i] = len;
		} else if (there[i]) {
			meta__leaf_remove(page, pos);
			there[i] = false;
			count--;
		}
		cr_assert_eq(meta__page_count(page), count);
		if (n % 100 == 0 && count > 0)
			cr_assert_null(check(&leaf_wanted));
	}
}

Test(meta_page, six_of_the_largest_records_fit)
{
	static const uint8_t large[META_VALUE_MAX];
	struct meta_key first = { { 0, 0, 0 } };

	meta__page_init(page, 5, 0, &first);
	for (uint64_t i = 0; i < 6; i++) {
		cr_assert_geq(meta__leaf_free(page), meta__leaf_bytes(sizeof(large)));
		put(page, i, large, sizeof(large));
	}
	cr_assert_null(check(&leaf_wanted));
}

Test(meta_page, splits_and_appends_without_loss)
{
	struct meta_key first = { { 0, 0, 0 } };

	for (uint32_t at = 1; at < 20; at++) {
		make_leaf();
		meta__page_init(other, 5, 0, &first);
		meta__page_split(page, other, at);
		cr_assert_eq(meta__page_count(page), at);
		cr_assert_eq(meta__page_count(other), 20 - at);
		cr_assert_null(check(&leaf_wanted));
		cr_assert(meta__page_holds(page, other));
		meta__page_append(page, other);
		cr_assert_null(check(&leaf_wanted));
		for (uint64_t i = 20; i < 40; i++) {
			struct meta_key key = key_of(i);
			uint32_t pos, len;
			const void *value;

			cr_assert(meta__leaf_find(page, &key, &pos));
			meta__leaf_value(page, pos, &value, &len);
			cr_assert_eq(len, i % 12);
			cr_assert(memcmp(value, "hello, page", len) == 0);
		}
	}
}

Test(meta_page, an_interior_page_finds_the_child_that_answers_for_a_key)
{
	struct meta_key key;

	make_inner(META_INNER_MAX);
	cr_assert_null(check(&inner_wanted));
	for (uint64_t i = 0; i < 7 * META_INNER_MAX + 200; i++) {
		uint64_t want = i < 100 ? 0 : (i - 100) / 7;

		key = key_of(i);
		want = want < META_INNER_MAX ? want : META_INNER_MAX - 1;
		cr_assert_eq(meta__inner_find(page, &key), want);
	}
}

Test(meta_page, an_interior_page_splits_and_appends)
{
	uint64_t baddr, gen;

	make_inner(META_INNER_MAX);
	meta__page_init(other, 5, 1, &(struct meta_key){ { 1, 0, 0 } });
	meta__page_split(page, other, 300);
	cr_assert_eq(meta__page_count(other), META_INNER_MAX - 300);
	meta__page_append(page, other);
	meta__inner_remove(page, 0);
	for (uint32_t i = 0; i < META_INNER_MAX - 1; i++) {
		meta__inner_child(page, i, &baddr, &gen);
		cr_assert_eq(baddr, META_BADDR((i + 1) % 3, 65 + i));
	}
	cr_assert_null(check(&inner_wanted));
}

Test(meta_page, another_page_than_the_wanted_one_is_refused)
{
	struct meta__page_want want;

	make_leaf();
	cr_assert_null(check(&leaf_wanted));
	want = leaf_wanted, want.baddr++;
	cr_assert_not_null(meta__page_check(page, &want));
	want = leaf_wanted, want.gen--;
	cr_assert_not_null(meta__page_check(page, &want));
	want = leaf_wanted, want.shard = 0;
	cr_assert_not_null(meta__page_check(page, &want));
	want = leaf_wanted, want.level = 1;
	cr_assert_not_null(meta__page_check(page, &want));
}

Test(meta_page, any_flipped_bit_is_found)
{
	make_leaf();
	cr_assert_null(check(&leaf_wanted));
	for (uint32_t bit = 0; bit < META_PAGE_BYTES * 8; bit += bit < 4096 ? 1 : 37) {
		page[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_not_null(meta__page_check(page, &leaf_wanted), "bit %u", bit);
		page[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert_null(meta__page_check(page, &leaf_wanted));
}

/* With a checksum that is right: what a bug or an attacker would have written. */
Test(meta_page, a_place_is_of_a_generation_and_has_a_number_in_it)
{
	struct meta__page_look look;

	make_leaf();
	meta__page_place(page, BADDR, GEN, 0);
	meta__page_seal(page);
	cr_assert_eq(meta__page_look(page, &look), -EUCLEAN, "they are counted from 1 on");
	meta__page_place(page, BADDR, GEN, 7);
	meta__page_seal(page);
	cr_assert_eq(meta__page_look(page, &look), 0);
	cr_assert_eq(look.order, 7);
}

Test(meta_page, malformed_pages_are_refused_whatever_their_checksum)
{
	struct meta_leaf_disk *leaf = (struct meta_leaf_disk *)page;
	struct meta_inner_disk *inner = (struct meta_inner_disk *)page;

#define REFUSED(make, want, change)                                                                \
	do {                                                                                       \
		make;                                                                              \
		cr_assert_null(check(want));                                                       \
		change;                                                                            \
		cr_assert_not_null(check(want), #change);                                          \
	} while (0)

	REFUSED(make_leaf(), &leaf_wanted, leaf->head.magic = le32_of(1));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.count = le16_of(0));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.count = le16_of(511));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.count = le16_of(21));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.heap_start = le16_of(600));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.heap_start = le16_of(65528));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.heap_dead = le16_of(8));
	REFUSED(make_leaf(), &leaf_wanted, leaf->head.first.w[0] = le64_of(9));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].w[2] = leaf->slot[2].w[2]);
	REFUSED(make_leaf(), &leaf_wanted, /* no key comes after it */
		memset(leaf->slot[19].w, 0xff, sizeof(leaf->slot[19].w)));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].offset = le16_of(64));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].offset = le16_of(16385));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].offset = le16_of(65528));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].length = le16_of(2305));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].length = le16_of(100));
	REFUSED(make_leaf(), &leaf_wanted, leaf->slot[3].reserved = le32_of(1));
	REFUSED(make_inner(9), &inner_wanted, inner->head.count = le16_of(409));
	REFUSED(make_inner(9), &inner_wanted, inner->head.heap_start = le16_of(1));
	REFUSED(make_inner(9), &inner_wanted, inner->child[2].baddr = le64_of(0));
	REFUSED(make_inner(9), &inner_wanted, inner->child[2].baddr = le64_of(META_BADDR(64, 9)));
	REFUSED(make_inner(9), &inner_wanted, inner->child[2].gen = le64_of(GEN + 1));
	REFUSED(make_inner(9), &inner_wanted, inner->child[2].w1 = le64_of(0));
	REFUSED(make_inner(9), &inner_wanted, inner->head.first.w[0] = le64_of(99));
}

Test(meta_page, says_what_it_holds_to_whoever_walks)
{
	struct meta__page_look look;
	struct meta_key key;
	const void *value;
	uint64_t baddr, gen;
	uint32_t len;

	make_leaf();
	cr_assert_null(check(&leaf_wanted));
	cr_assert_eq(meta__page_look(page, &look), 0);
	cr_assert_eq(look.count, 20);
	cr_assert_eq(look.shard, 5);
	meta__page_record(page, 7, &key, &value, &len);
	cr_assert_eq(key.w[2], key_of(27).w[2]);
	cr_assert_eq(len, 27 % 12);

	make_inner(9);
	cr_assert_null(check(&inner_wanted));
	cr_assert_eq(meta__page_look(page, &look), 0);
	cr_assert_eq(look.level, 1);
	meta__page_child(page, 4, &key, &baddr, &gen);
	cr_assert_eq(baddr, META_BADDR(1, 68));
	page[100] ^= 1;
	cr_assert_eq(meta__page_look(page, &look), -EUCLEAN);
}
