/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Leaves and the pages above them: each kind lies in zones of its own, whatever dies where. */
#include "test/lib/meta_rig.h"
#include "base/num.h"
#include "meta/format/meta_page.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES 2000u

static struct rig r;
static uint32_t files;

static void store(void)
{
	rig_make(&r, 31, 1, 64u << 20, 1, true);
	cr_assert_eq(rig_format(&r), 0);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_upper, .init = store, .fini = store_end, .timeout = 60);

/* Long names: few of them are many leaves. */
static void path_of(char path[256], uint32_t i)
{
	(void)snprintf(path, 256, "/%0200u", i);
}

static void put_files(uint32_t count)
{
	char path[256];

	for (uint32_t i = 0; i < count; i++) {
		path_of(path, files);
		cr_assert_eq(rig_put(&r, path, 0, files + 1), 0, "%s", meta_error(r.m));
		files++;
		if (i % 50 == 0)
			meta__ckpt_want(r.m);
	}
	meta__ckpt_want(r.m);
	rig_idle(&r);
}

/* Finds the kinds of live pages in each zone on the drive, as bits: 1: leaves, 2: pages above.
 * Returns the number of leaves. */
static uint32_t look(uint8_t *kinds)
{
	uint64_t todo[4096] = { r.m->shard[0].root_baddr }, gen;
	uint32_t leaves = 0, n = 1;
	struct meta_page_disk head;

	while (n) {
		const uint64_t baddr = todo[--n];
		const void *page = rig_block(&r, baddr);

		memcpy(&head, page, sizeof(head));
		cr_assert_eq(le32_get(head.magic), META_PAGE_MAGIC);
		kinds[meta__zone_of(r.m, baddr)] |= le16_get(head.level) ? 2 : 1;
		leaves += le16_get(head.level) == 0;
		for (uint32_t i = 0; le16_get(head.level) && i < meta__page_count(page); i++)
			meta__inner_child(page, i, &todo[n++], &gen);
		cr_assert_lt(n, 2048);
	}
	return leaves;
}

Test(meta_upper, no_zone_holds_leaves_and_pages_above_them)
{
	uint8_t *kinds = calloc(r.m->zones->geo.nzones, 1);
	uint32_t of[4] = { 0 };

	put_files(FILES);
	cr_assert_gt(look(kinds), 40);
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		of[kinds[i]]++;
	cr_assert_gt(of[1], 0);
	cr_assert_gt(of[2], 0);
	cr_assert_eq(of[3], 0, "%u zones of both, %u of leaves, %u of pages above", of[3], of[1],
		     of[2]);
	free(kinds);
}

Test(meta_upper, zone_of_pages_above_leaves_dies_whole)
{
	const struct meta__zones *z = r.m->zones;
	uint64_t *was = calloc(z->geo.nzones, sizeof(*was));
	uint32_t seen = 0;

	put_files(FILES / 2);
	for (uint32_t i = 0; i < z->geo.nzones; i++)
		if (z->zone[i].upper && z->zone[i].used > 1) {
			was[i] = z->zone[i].incarnation;
			seen++;
		}
	put_files(FILES / 2);
	cr_assert_gt(seen, 0);
	for (uint32_t i = 0; i < z->geo.nzones; i++)
		cr_assert(was[i] == 0 || z->zone[i].state == ZONE_FREE ||
				  z->zone[i].incarnation != was[i],
			  "zone %u has %u blocks that live", i, z->zone[i].live);
	free(was);
}
