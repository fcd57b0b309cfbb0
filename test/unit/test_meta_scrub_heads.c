/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The scrub meets headers of zones that are damaged, and has them written again as they were. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)
#define DRIVES      2u

static struct rig r;
static struct meta_scrub *scrub;
static struct meta_scrub_stat stat;
static char said[16384];
static uint8_t *was[DRIVES];

static void store(void)
{
	char path[32];

	rig_make(&r, 7, DRIVES, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t i = 0; i < 40; i++) {
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

TestSuite(meta_scrub_heads, .init = store, .fini = store_end, .timeout = 60);

static uint8_t *view_at(uint64_t baddr)
{
	return r.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

static uint8_t *image_at(uint64_t baddr)
{
	return r.image[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

static uint64_t head(uint32_t zone, uint32_t copy)
{
	return meta__geo_zone_head(&r.m->zones->geo, zone, copy);
}

static void wipe(uint32_t zone, uint32_t copies)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		if (!(copies >> copy & 1))
			continue;
		memset(view_at(head(zone, copy)), 0xa5, 4096);
		memset(image_at(head(zone, copy)), 0xa5, 4096);
	}
}

/* False: the round is over, or the power is off. */
static bool step(void)
{
	static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];
	struct meta_run run;

	switch (meta_scrub_next(scrub, &run)) {
	case META_SCRUB_READ:
		memcpy(bytes, view_at(run.baddr), (size_t)run.nblocks * 4096);
		meta_scrub_done(scrub, bytes, 0);
		break;
	case META_SCRUB_FOUND:
		(void)snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
			       meta_scrub_line(scrub));
		break;
	case META_SCRUB_ROUND:
		return false;
	case META_SCRUB_WRITE: /* this store has one copy of each block */
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

static void expect_headers_whole(uint32_t zone)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		struct meta__zone_seen seen;

		cr_assert_eq(meta__zone_parse(image_at(head(zone, copy)), r.m->uuid, zone, &seen),
			     0, "zone %u", zone);
		cr_assert_eq(seen.incarnation, meta__zone_at(r.m, zone)->incarnation);
	}
}

Test(meta_scrub_heads, headers_of_a_whole_store_are_read_and_left_alone)
{
	const uint64_t writes = r.writes;

	round_of_it();
	cr_assert_str_eq(said, "");
	cr_assert_eq(r.writes, writes);
}

/* Free zones, and those that hold data, pages and log. */
Test(meta_scrub_heads, any_copy_of_any_is_written_again_and_said)
{
	const uint32_t zones = r.m->zones->geo.nzones;
	uint32_t kinds = 0;

	for (uint32_t copies = 1; copies <= 3; copies++) {
		const uint64_t mended = stat.heads_mended;
		char text[64];

		for (uint32_t zone = 0; zone < zones; zone++) {
			wipe(zone, copies);
			kinds |= 1u << meta__zone_at(r.m, zone)->kind;
		}
		round_of_it();
		cr_assert_eq(stat.heads_mended - mended, zones);
		cr_assert_eq(stat.bad_pages + stat.bad_blocks, 0, "the tree has lost nothing");
		for (uint32_t zone = 0; zone < zones; zone++)
			expect_headers_whole(zone);
		(void)snprintf(text, sizeof(text), "%s of the header of zone %u w",
			       copies == 3 ? "both copies" : "a copy", zones - 1);
		cr_assert_not_null(strstr(said, text), "%s: %.200s", text, said);
	}
	cr_assert_eq(kinds, 0xf, "free, log, pages, data: %x", kinds);
	round_of_it();
	cr_assert_str_eq(said, "");
}

Test(meta_scrub_heads, store_that_lost_them_while_it_served_mounts_after_a_cut)
{
	for (uint32_t zone = 0; zone < r.m->zones->geo.nzones; zone++)
		wipe(zone, 3);
	round_of_it();
	scrub_end();
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_str_eq(meta_error(r.m), "");
	for (uint32_t i = 0; i < 40; i++) {
		char path[32];
		uint32_t blocks;
		uint64_t fill;

		(void)snprintf(path, sizeof(path), "/f%u", i);
		cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0);
		cr_assert_eq(blocks, i % 9);
	}
}

/* If this write were marked as needed (`must`), its failure would make the store fail. */
Test(meta_scrub_heads, store_can_do_without_it)
{
	const struct meta__zone_seen head = meta__zone_head(r.m, 3);

	for (uint32_t copies = 3; copies; copies &= copies - 1) {
		const struct meta_io *io;

		cr_assert(list_empty(&r.m->io_wanted));
		cr_assert(meta__zone_mend(r.m, &head, copies));
		io = list_entry(r.m->io_wanted.next, struct meta_io, link);
		cr_assert_eq(io->op, META_IO_WRITE);
		cr_assert(!io->must);
		rig_idle(&r);
	}
}

/* Zones are emptied, freed and opened while their headers are being written. */
Test(meta_scrub_heads, zones_that_come_and_go_meanwhile_keep_what_they_are)
{
	struct meta_check found;
	char path[32];

	for (uint32_t i = 0; i < 60; i++) {
		(void)snprintf(path, sizeof(path), "/g%u", i % 7);
		if (i >= 7)
			cr_assert_eq(rig_unlink(&r, path), 0);
		for (uint32_t k = 0; k < 4; k++)
			wipe((uint32_t)rand_below(&r.rand, r.m->zones->geo.nzones), 3);
		meta__ckpt_want(r.m);
		for (uint64_t k = rand_below(&r.rand, 700); k-- > 0 && step();)
			;
		cr_assert_eq(rig_put(&r, path, 30, i), 0);
	}
	round_of_it();
	round_of_it();
	for (uint32_t zone = 0; zone < r.m->zones->geo.nzones; zone++)
		expect_headers_whole(zone);
	cr_assert_eq(rig_check(&r, &found), 0);
	cr_assert_eq(found.problems, 0, "%s", found.first[0]);
	scrub_end();
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_str_eq(meta_error(r.m), "");
}

/* At each write of it comes a cut that garbles what is on its way. */
Test(meta_scrub_heads, cut_while_it_is_written_leaves_a_store)
{
	bool cut = true;

	for (uint32_t d = 0; d < DRIVES; d++) {
		was[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(was[d]);
		memcpy(was[d], r.image[d], DRIVE_BYTES);
	}
	r.cut_garbles = true;
	for (uint64_t n = 1; cut; n++) {
		scrub_end();
		rig_power_cut(&r);
		for (uint32_t d = 0; d < DRIVES; d++) {
			memcpy(r.image[d], was[d], DRIVE_BYTES);
			memcpy(r.view[d], was[d], DRIVE_BYTES);
		}
		cr_assert_eq(rig_mount(&r), 0, "%llu: %s", (unsigned long long)n, meta_error(r.m));
		rig_idle(&r);
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		for (uint32_t zone = 0; zone < r.m->zones->geo.nzones; zone += 9)
			wipe(zone, 1 + zone % 3);
		r.cut_at = r.writes + n;
		round_of_it();
		cut = r.cut;
		scrub_end();
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%llu: %s", (unsigned long long)n, meta_error(r.m));
	}
	for (uint32_t d = 0; d < DRIVES; d++)
		free(was[d]);
}
