/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Superblocks and headers of zones of parity, in stores whose folds have one or two of these. */
#include "base/num.h"
#include "test/lib/meta_golden.h"
#include "meta/meta_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static const uint8_t uuid[16] = "a uuid of tests";
static uint8_t block[4096];

static const struct meta__zone_seen second_parity = {
	.zone = 5,
	.kind = META__ZONE_PARITY,
	.incarnation = 6,
	.epoch = 7,
	.pair = 41,
	.twin = 13,
	.role = 1,
	.members = 3,
	.member = { 20, 31, 44 },
	.member_incarnation = { 2, 3, 4 },
};

static int parse(const struct meta__zone_seen *head, struct meta__zone_seen *out)
{
	meta__zone_build(head, uuid, block);
	return meta__zone_parse(block, uuid, head->zone, out);
}

/* FORMAT.md 2.1. */
Test(meta_super_fold, two_zones_of_parity_are_a_feature)
{
	struct meta__super s = { .ndrives = 5,
				 .nshards = 4,
				 .zone_blocks = 512,
				 .set = 3,
				 .copies = 2,
				 .fold = 2,
				 .drive_nblocks = { 524288, 524288, 524288, 524288, 524288 },
				 .root_at = { META_BADDR(0, 1), META_BADDR(1, 1) } };
	struct meta__super t;
	char why[128];

	meta__super_build(&s, block);
	cr_assert_eq(block[17], 0);
	s.root_at[2] = META_BADDR(2, 1);
	s.copies = 3;
	meta__super_build(&s, block);
	cr_assert_eq(block[17], 1);
	cr_assert_str_eq((char *)block + 600 + 8 * 16, "double parity");
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert_arr_eq(&s, &t, sizeof(s));
	for (uint32_t fold = 0; fold < 3; fold += 2) {
		uint32_t crc;

		s.fold = fold;
		meta__super_build(&s, block);
		block[17] ^= 1;
		memset(block + 8, 0, 4);
		crc = crc32c(block, sizeof(block));
		memcpy(block + 8, &crc, 4);
		cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "fold %u", fold);
	}
}

/* FORMAT.md 2.3. */
Test(meta_super_fold, header_says_which_parity_it_is_and_where_the_other_one_is)
{
	struct meta__zone_seen seen, head = second_parity;

	cr_assert_eq(parse(&head, &seen), 0);
	cr_assert_arr_eq(&seen, &head, sizeof(seen));
	cr_assert_eq(block[100], 1);
	head.role = 0;
	cr_assert_eq(parse(&head, &seen), 0);
	cr_assert_arr_eq(&seen, &head, sizeof(seen));
	head.twin = 0; /* the only one */
	cr_assert_eq(parse(&head, &seen), 0);
	cr_assert_arr_eq(&seen, &head, sizeof(seen));
}

Test(meta_super_fold, parity_that_cannot_be_is_refused)
{
	static const struct {
		uint32_t role, twin, twin2;
	} bad[] = { { 2, 13, 0 }, { 1, 0, 0 }, { 1, 6, 0 }, { 0, 6, 0 }, { 0, 13, 14 } };
	struct meta__zone_seen seen;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct meta__zone_seen head = second_parity;

		head.role = bad[i].role;
		head.twin = bad[i].twin;
		head.twin2 = bad[i].twin2;
		cr_assert_eq(parse(&head, &seen), -EUCLEAN, "%zu", i);
	}
}

Test(meta_super_fold, bytes_are_what_they_were)
{
	meta__zone_build(&second_parity, uuid, block);
	cr_assert(golden_is("test/golden/meta_zone_second.bin", block, sizeof(block)));
}
