/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Alarms: each is raised by its own cause, and by no other. */
#include "appliance/core/app_alarms.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct app_snapshot s;
static struct app_alarm alarm[APP_ALARMS_MAX];

/* Two drives that are well, half full. */
static void setup(void)
{
	memset(&s, 0, sizeof(s));
	s.cores = 1;
	s.ndrives = 2;
	s.statfs.blocks_total = 1000000;
	s.statfs.blocks_free = 500000;
	s.statfs.log_copies = 2;
	for (uint32_t i = 0; i < 2; i++) {
		s.drive[i].is_there = s.drive[i].has_smart = true;
		s.drive[i].smart = (struct nvme_smart){ .has_temperature = true,
							.spare_percent = 100,
							.spare_least_percent = 10,
							.used_percent = 1 };
	}
}

TestSuite(app_alarms, .init = setup);

static void expect_alarm(const char *id, bool critical, const char *text)
{
	const uint32_t count = app_alarms(&s, alarm);

	cr_assert_eq(count, 1, "%s: %u alarms", id, count);
	cr_assert_str_eq(alarm[0].id, id);
	cr_assert_eq(alarm[0].critical, critical, "%s", id);
	cr_assert_str_eq(alarm[0].text, text);
	cr_assert_gt(strlen(alarm[0].action), 10);
	setup();
}

Test(app_alarms, all_is_well)
{
	cr_assert_eq(app_alarms(&s, alarm), 0);
}

Test(app_alarms, of_the_store)
{
	s.store_health = -EIO;
	expect_alarm("read_only", true, "The store takes no changes");
	s.has_missing = true;
	s.missing_drive = 3;
	s.store_health = -EROFS;
	expect_alarm("read_only_missing", true, "Read only: drive 3 is missing");
	s.statfs.log_copies = 1;
	expect_alarm("log_on_one_drive", false, "The log is on one drive only");
	s.statfs.log_copies = 1;
	s.drive[1].store.draining = true;
	cr_assert_eq(app_alarms(&s, alarm), 0, "there is no second drive for it");
	setup();
	s.statfs.blocks_free = 99999;
	expect_alarm("space_low", false, "Only 9 per cent of the space is free");
	s.statfs.blocks_free = 19999;
	expect_alarm("space_out", true, "The store is full: 81 MB are free");
}

Test(app_alarms, of_damage)
{
	s.sum.damaged_files = 2;
	expect_alarm("damaged", true, "2 files and 0 pages of the index are damaged");
	s.sum.unreachable_files = 7;
	expect_alarm("unreachable", true, "7 files lie on drives that do not answer");
	s.statfs.bad_blocks = 1;
	expect_alarm("unmovable", false, "1 damaged blocks keep their zones from being collected");
	s.sum.bad_sums = 4;
	expect_alarm("wrong_checksums", false,
		     "4 writes came with a wrong checksum and were refused");
}

Test(app_alarms, of_drives)
{
	static const struct {
		enum nvme_health health;
		const char *id, *text;
	} healths[] = {
		{ NVME_HEALTH_RESETTING, "drive_resetting", "Drive 1 is being reset" },
		{ NVME_HEALTH_AWAY, "drive_failed", "Drive 1 is away" },
		{ NVME_HEALTH_READ_ONLY, "drive_failed", "Drive 1 is read only" },
		{ NVME_HEALTH_DEAD, "drive_failed", "Drive 1 is dead" },
	};

	for (size_t i = 0; i < ARRAY_LEN(healths); i++) {
		s.drive[1].health = healths[i].health;
		expect_alarm(healths[i].id, i > 0, healths[i].text);
	}
	s.drive[0].failed = true;
	expect_alarm("drive_failed", true, "Drive 0 is failed");
	s.drive[0].no_writes = true;
	expect_alarm("drive_failed", true, "Drive 0 is failed");
	s.drive[0].smart.spare_percent = 9;
	expect_alarm("drive_spare", true, "Drive 0 runs out of spare blocks");
	s.drive[0].smart.warnings = 4;
	expect_alarm("drive_warns", false, "Drive 0 warns of itself");
	s.drive[1].smart.used_percent = 90;
	expect_alarm("drive_worn", false, "Drive 1 has used 90 per cent of its life");
	s.drive[1].counts.quarantined_bytes = 4096;
	expect_alarm("drive_quarantined", false,
		     "Drive 1 cannot be stopped, and keeps 4096 bytes of memory");
	s.drive[1].is_there = false;
	s.drive[1].health = NVME_HEALTH_DEAD;
	cr_assert_eq(app_alarms(&s, alarm), 0, "it is gone");
}

Test(app_alarms, of_a_rebuild)
{
	const struct meta_rebuild lost = { .what = META_REBUILD_LOST,
					   .drive = 1,
					   .left_blocks = 1000 };

	s.rebuild.store = lost;
	cr_assert_eq(app_alarms(&s, alarm), 0, "it goes on by itself");
	s.rebuild.store.short_blocks = 500;
	expect_alarm("rebuild_stuck", true,
		     "The rebuild cannot go on: the other drives have no room for 3 MB");
	s.rebuild.store = lost;
	s.rebuild.store.what = META_REBUILD_DRAIN;
	s.rebuild.store.tight_blocks = 500;
	cr_assert_eq(app_alarms(&s, alarm), 0, "dead blocks are collected first");
	s.rebuild.stalled = true;
	expect_alarm("rebuild_stuck", false,
		     "The drain cannot go on: the other drives have no room for 3 MB");
	s.rebuild.store = lost;
	s.rebuild.store.alone = true;
	expect_alarm("rebuild_stuck", true,
		     "Files have one copy, because only one drive can be written");
	for (uint32_t left = 2; left > 0; left--) {
		s.statfs.copies = 3;
		s.drive[1].store.gone = left == 1;
		s.rebuild.store = lost;
		s.rebuild.store.alone = true;
		expect_alarm("rebuild_stuck", true,
			     left == 2 ? "Files have two copies, because only two drives can be "
					 "written"
				       : "Files have one copy, because only one drive can be "
					 "written");
	}
	s.rebuild.store = lost;
	s.rebuild.store.kept_blocks = lost.left_blocks;
	expect_alarm("rebuild_stuck", true, "The rebuild cannot go on: blocks cannot be read");
}

Test(app_alarms, critical_ones_come_first_and_not_too_many)
{
	uint32_t count;

	s.ndrives = META_DRIVES_MAX;
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++) {
		s.drive[i].is_there = true;
		s.drive[i].health = NVME_HEALTH_DEAD;
		s.drive[i].counts.quarantined_bytes = 1;
	}
	count = app_alarms(&s, alarm);
	cr_assert_eq(count, APP_ALARMS_MAX);
	for (uint32_t i = 0; i < count; i++)
		cr_assert(alarm[i].critical);
	setup();
	s.drive[0].smart.warnings = 1;
	s.sum.damaged_files = 1;
	cr_assert_eq(app_alarms(&s, alarm), 2);
	cr_assert_str_eq(alarm[0].id, "damaged");
	cr_assert_str_eq(alarm[1].id, "drive_warns");
}

/* The texts go into JSON as they are. */
Test(app_alarms, no_text_needs_an_escape)
{
	char *text = malloc(APP_SNAPSHOT_JSON_BYTES);

	s.store_health = -EIO;
	s.statfs.blocks_free = 0;
	s.sum.damaged_files = s.sum.unreachable_files = s.sum.bad_sums = 1;
	for (uint32_t i = 0; i < app_alarms(&s, alarm); i++) {
		cr_assert_null(strpbrk(alarm[i].text, "\"\\\n"));
		cr_assert_null(strpbrk(alarm[i].action, "\"\\\n"));
	}
	(void)app_snapshot_json(&s, 0, text, APP_SNAPSHOT_JSON_BYTES);
	cr_assert(strstr(text, "{\"alarms\":[{\"id\":\"read_only\",\"severity\":\"critical\","
			       "\"text\":\"The store takes no changes\",\"action\":\""));
	free(text);
}
