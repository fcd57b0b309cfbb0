/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Blocks that show whether a drive, which was reset, holds what it had confirmed. */
#include "meta/meta_witness.h"
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES      3u
#define DRIVE_BYTES (4u << 20)

static struct rig r;
static uint8_t *kept[DRIVES];
static uint64_t fills;

static void setup(void)
{
	rig_make(&r, 11, DRIVES, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	for (uint32_t d = 0; d < DRIVES; d++) {
		kept[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(kept[d]);
	}
}

static void teardown(void)
{
	for (uint32_t d = 0; d < DRIVES; d++)
		free(kept[d]);
	rig_end(&r);
}

TestSuite(meta_witness, .init = setup, .fini = teardown, .timeout = 120);

static void put_some(uint32_t count)
{
	char path[32];

	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(path, sizeof(path), "/f%u", i);
		(void)rig_unlink(&r, path);
		cr_assert_eq(rig_put(&r, path, 2, ++fills), 0);
	}
}

static void keep_all(void)
{
	for (uint32_t d = 0; d < DRIVES; d++)
		memcpy(kept[d], r.image[d], DRIVE_BYTES);
}

static const void *at(const uint8_t *image, uint64_t block)
{
	return image + block * META__BLOCK;
}

/* Returns what the store says of `image` as the content of drive `d`.  Blocks of `unread`, by their
 * bits, cannot be read. */
static const char *judge(uint32_t d, const uint8_t *image, uint32_t unread)
{
	const void *block[META_WITNESS_BLOCKS] = { 0 };
	struct meta_witness w;

	meta_witness_take(r.m, d, &w);
	for (uint32_t i = 0; i < w.count; i++)
		block[i] = unread >> i & 1 ? NULL : at(image, w.at[i].block);
	return meta_witness_judge(r.m, &w, block);
}

static uint32_t log_drive(void)
{
	uint8_t head[64];
	uint64_t baddr;
	uint32_t d = 0;

	while (d < DRIVES && !meta__log_newest(r.m, d, &baddr, head))
		d++;
	cr_assert_lt(d, DRIVES);
	return d;
}

/* The store must accept the durable image, and the one with all writes in flight. */
static void expect_all_hold(void)
{
	for (uint32_t d = 0; d < DRIVES; d++) {
		cr_assert_null(judge(d, r.image[d], 0), "drive %u: %s", d, judge(d, r.image[d], 0));
		cr_assert_null(judge(d, r.view[d], 0), "drive %u: %s", d, judge(d, r.view[d], 0));
	}
}

/* Whatever is durable at any moment is what the store expects, also amid writes. */
Test(meta_witness, drive_as_it_is_holds_at_every_step)
{
	expect_all_hold();
	for (uint32_t i = 0; i < 200; i++) {
		put_some(3);
		do {
			expect_all_hold();
		} while (rig_step(&r));
	}
}

/* One change is enough: it is in the log, on two drives. */
Test(meta_witness, copy_from_before_the_last_change_is_an_older_one)
{
	uint32_t behind = 0;

	put_some(3);
	rig_idle(&r);
	keep_all();
	put_some(1);
	rig_idle(&r);
	for (uint32_t d = 0; d < DRIVES; d++)
		behind += judge(d, kept[d], 0) && strstr(judge(d, kept[d], 0), "block of the log");
	cr_assert_eq(behind, 2);
}

/* A drive without the log: its mark is that of an earlier checkpoint. */
Test(meta_witness, copy_from_before_the_last_checkpoint_is_an_older_one)
{
	put_some(3);
	rig_idle(&r);
	keep_all();
	for (uint32_t i = 0; i < 40; i++)
		put_some(8);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	rig_idle(&r);
	for (uint32_t d = 0; d < DRIVES; d++) {
		cr_assert_not_null(judge(d, kept[d], 0), "drive %u", d);
		cr_assert(strstr(judge(d, kept[d], 0), "older copy"));
	}
}

/* An unreadable block is no evidence: the superblocks have been read. */
Test(meta_witness, block_that_cannot_be_read_says_nothing)
{
	const uint32_t d = log_drive();

	put_some(3);
	rig_idle(&r);
	keep_all();
	put_some(1);
	rig_idle(&r);
	cr_assert_not_null(judge(d, kept[d], 0));
	cr_assert_null(judge(d, kept[d], UINT32_MAX));
}

/* One copy of a header may be bad; where both are, the zones are not those of this store. */
Test(meta_witness, headers_that_are_gone_are_a_content_that_has_changed)
{
	struct meta_witness w;

	put_some(3);
	rig_idle(&r);
	keep_all();
	meta_witness_take(r.m, 0, &w);
	cr_assert_geq(w.count, 2);
	memset(kept[0] + w.at[0].block * META__BLOCK, 0, META__BLOCK);
	cr_assert_null(judge(0, kept[0], 0), "the other copy is whole");
	memset(kept[0] + w.at[1].block * META__BLOCK, 0, META__BLOCK);
	cr_assert(strstr(judge(0, kept[0], 0), "headers of a zone are not there"));
}

/* An open zone's header says how often it was used: an older copy knows of fewer uses. */
Test(meta_witness, zone_that_is_open_must_have_been_taken_into_use)
{
	const struct meta__geo *geo = &r.m->zones->geo;
	struct meta__zone_seen seen;
	struct meta_witness w;
	uint32_t d = 0, i = 0;

	put_some(9);
	rig_idle(&r);
	for (; d < DRIVES && i == 0; d++) { /* a pair behind the first zone's */
		meta_witness_take(r.m, d, &w);
		if (w.count > 3 && w.at[2].zone != META__ZONE_NONE)
			i = 2;
	}
	cr_assert_eq(i, 2, "a zone is open");
	d--;
	keep_all();
	cr_assert_neq(w.at[2].zone, geo->zone_base[d]);
	cr_assert_eq(meta__zone_parse(at(kept[d], w.at[3].block), r.m->uuid, w.at[3].zone, &seen),
		     0);
	cr_assert_geq(seen.incarnation, 1);
	seen.incarnation--;
	meta__zone_build(&seen, r.m->uuid, kept[d] + w.at[3].block * META__BLOCK);
	cr_assert(strstr(judge(d, kept[d], 0), "header of a zone is older"));
}
