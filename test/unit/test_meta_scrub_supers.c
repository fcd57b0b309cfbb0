/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The scrub meets superblocks that are damaged, and has them written again as they were. */
#include "test/lib/meta_rig.h"
#include "meta/meta_set.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)
#define DRIVES      3u

static struct rig r;
static struct meta_scrub *scrub;
static struct meta_scrub_stat stat;
static char said[16384];

static void store(void)
{
	char path[32];

	rig_make(&r, 7, DRIVES, DRIVE_BYTES, 4, true);
	r.conf.copies = 2;
	r.copied = true;
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t i = 0; i < 20; i++) {
		(void)snprintf(path, sizeof(path), "/f%u", i);
		cr_assert_eq(rig_put(&r, path, i % 9, i), 0);
	}
	rig_idle(&r);
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
}

/* The store outlives it. */
static void scrub_end(void)
{
	meta_scrub_destroy(scrub);
	scrub = NULL;
}

static void store_end(void)
{
	scrub_end();
	rig_end(&r);
}

TestSuite(meta_scrub_supers, .init = store, .fini = store_end, .timeout = 60);

static uint8_t *super(uint8_t *const of[], uint32_t drive, uint32_t copy)
{
	return of[drive] + META_BADDR_BLOCK(meta__super_baddr(r.m, drive, copy)) * 4096;
}

static void spoil(uint32_t drive, uint32_t copies)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		if (!(copies >> copy & 1))
			continue;
		super(r.view, drive, copy)[700 + copy] ^= 1;
		super(r.image, drive, copy)[700 + copy] ^= 1;
	}
}

/* False: the round is over, or the power is off. */
static bool step(void)
{
	static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];
	struct meta_run run;

	switch (meta_scrub_next(scrub, &run)) {
	case META_SCRUB_READ:
		memcpy(bytes,
		       r.view[META_BADDR_DRIVE(run.baddr)] + META_BADDR_BLOCK(run.baddr) * 4096,
		       (size_t)run.nblocks * 4096);
		meta_scrub_done(scrub, bytes, 0);
		break;
	case META_SCRUB_FOUND:
		(void)snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
			       meta_scrub_line(scrub));
		break;
	case META_SCRUB_ROUND:
		return false;
	case META_SCRUB_WRITE: /* nothing else is damaged */
		cr_assert_fail("a copy is written");
	case META_SCRUB_MORE:
	case META_SCRUB_LISTED:
	case META_SCRUB_IDLE:
		break;
	}
	(void)rig_step(&r);
	return !r.cut;
}

static void round_of_it(void)
{
	said[0] = '\0';
	while (step())
		;
	rig_idle(&r);
	meta_scrub_stat(scrub, &stat);
}

Test(meta_scrub_supers, those_of_a_whole_store_are_read_and_left_alone)
{
	const uint64_t writes = r.writes;

	round_of_it();
	cr_assert_str_eq(said, "");
	cr_assert_eq(r.writes, writes);
}

Test(meta_scrub_supers, any_copy_of_any_drive_is_written_again_and_told)
{
	for (uint32_t drive = 0; drive < DRIVES; drive++)
		for (uint32_t copies = 1; copies <= 3; copies++) {
			const uint64_t mended = stat.heads_mended, writes = r.writes;
			uint8_t was[2][4096];
			char text[64];

			for (uint32_t copy = 0; copy < 2; copy++)
				memcpy(was[copy], super(r.image, drive, copy), 4096);
			spoil(drive, copies);
			round_of_it();
			(void)snprintf(text, sizeof(text), "drive %u block %u: %s", drive,
				       copies == 2 ? DRIVE_BYTES / 4096 - 1 : 0,
				       copies == 3 ? "both" : "a superblock");
			cr_assert_not_null(strstr(said, text), "%s, not %s", said, text);
			cr_assert_eq(stat.heads_mended, mended + 1);
			cr_assert_eq(r.writes, writes + (copies == 3 ? 2 : 1));
			for (uint32_t copy = 0; copy < 2; copy++)
				cr_assert_arr_eq(was[copy], super(r.image, drive, copy), 4096,
						 "%u %u", drive, copies);
		}
}

/* The other copy names the store. */
Test(meta_scrub_supers, cut_while_it_is_written_leaves_a_store)
{
	for (uint32_t n = 0; n < 24; n++) {
		spoil(n % DRIVES, 1 + n % 2);
		r.cut_garbles = true;
		r.cut_at = r.writes + 1;
		round_of_it();
		cr_assert(r.cut);
		scrub_end();
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		rig_idle(&r);
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		round_of_it();
		cr_assert_str_eq(said, "");
	}
}

Test(meta_scrub_supers, one_that_cannot_be_written_is_tried_in_the_next_round)
{
	spoil(1, 2);
	r.bad_supers = 1u << 1;
	round_of_it();
	cr_assert_str_eq(said, "");
	cr_assert_eq(meta_health(r.m), 0);
	r.bad_supers = 0;
	round_of_it();
	cr_assert_not_null(strstr(said, "a superblock was damaged"), "%s", said);
}

Test(meta_scrub_supers, drives_that_are_added_meanwhile_are_whole)
{
	for (uint32_t n = 0; n < 2; n++) {
		const uint32_t added = rig_drive(&r, DRIVE_BYTES, true);
		bool more = true;

		spoil(n, 1);
		while (meta_drive_add(r.m, &r.conf.drive[added]) == -EBUSY)
			(void)step();
		while (more || meta_drive_add_status(r.m) == -EAGAIN)
			more = step();
		cr_assert_eq(meta_drive_add_status(r.m), 0);
		r.conf.ndrives = added + 1;
		round_of_it();
		for (uint32_t d = 0; d <= added; d++)
			for (uint32_t copy = 0; copy < 2; copy++) {
				struct meta__super s;
				char why[128];

				cr_assert_eq(meta__super_parse(super(r.image, d, copy), &s, why), 0,
					     "%s", why);
				cr_assert_eq(s.ndrives, added + 1);
			}
	}
}

Test(meta_scrub_supers, one_of_a_newer_program_is_left_alone)
{
	uint8_t *at = super(r.view, 2, 0);
	const uint64_t writes = r.writes;
	uint32_t crc;

	at[17] |= 1 << 7; /* feature 15 */
	memset(at + 8, 0, 4);
	crc = crc32c(at, 4096);
	memcpy(at + 8, &crc, 4);
	round_of_it();
	cr_assert_str_eq(said, "");
	cr_assert_eq(r.writes, writes);
}
