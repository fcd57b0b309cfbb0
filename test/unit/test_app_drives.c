/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The drives of a configuration, each to its place of the store. */
#define _GNU_SOURCE
#include "appliance/media/app_drives.h"
#include "meta/meta_store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVES = 2, NBLOCKS = 4096 };

static struct nvme_dma *dma;
static struct nvme_drive *drive[META_DRIVES_MAX];
static char name[META_DRIVES_MAX][APP_CONF_TEXT_MAX];
static char path[DRIVES][64];

static void setup(void)
{
	char why[NVME_ERR_TEXT];

	cr_assert_eq(nvme_dma_create(&dma), 0);
	for (uint32_t i = 0; i < DRIVES; i++) {
		int fd;

		(void)snprintf(path[i], sizeof(path[i]), "/tmp/weka-drives.XXXXXX");
		fd = mkstemp(path[i]);
		cr_assert_eq(ftruncate(fd, (off_t)NBLOCKS * META__BLOCK), 0);
		close(fd);
		(void)snprintf(name[i], sizeof(name[i]), "file:%s", path[i]);
		cr_assert_eq(nvme_open(&drive[i], name[i], dma, NULL, why, sizeof(why)), 0, "%s",
			     why);
	}
}

static void teardown(void)
{
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		if (drive[d])
			nvme_close(drive[d]);
	for (uint32_t i = 0; i < DRIVES; i++)
		unlink(path[i]);
	nvme_dma_destroy(dma);
}

TestSuite(app_drives, .init = setup, .fini = teardown);

/* The last one of a store that has had so many. */
static void is_last_of(uint32_t i, uint32_t ndrives)
{
	struct meta__super s = {
		.drive = ndrives - 1, .ndrives = ndrives, .nshards = 4, .zone_blocks = 64
	};
	static uint8_t block[META__BLOCK];
	int fd = open(path[i], O_WRONLY);

	for (uint32_t d = 0; d < ndrives; d++)
		s.drive_nblocks[d] = NBLOCKS;
	meta__super_build(&s, block);
	cr_assert_eq(pwrite(fd, block, sizeof(block), 0), (ssize_t)sizeof(block));
	close(fd);
}

static uint32_t sorted(uint32_t *stores)
{
	uint32_t count = DRIVES;
	char why[256] = "";

	cr_assert_eq(app_drives_sort(drive, name, &count, dma, stores, why, sizeof(why)), 0, "%s",
		     why);
	return count;
}

Test(app_drives, one_that_is_offered_comes_behind_the_store)
{
	uint32_t stores;

	is_last_of(1, META_DRIVES_MAX - 1);
	cr_assert_eq(app_drive_offer(drive[0], dma, &(struct meta_offer){ .tag = 7 }), 0);
	cr_assert_eq(sorted(&stores), META_DRIVES_MAX);
	cr_assert_eq(stores, META_DRIVES_MAX - 1);
	cr_assert(drive[META_DRIVES_MAX - 2] && drive[META_DRIVES_MAX - 1]);
	cr_assert(strstr(name[META_DRIVES_MAX - 1], path[0]));
}

Test(app_drives, one_that_is_offered_and_has_no_place_does_not_keep_the_store_from_starting)
{
	uint32_t stores;

	is_last_of(1, META_DRIVES_MAX);
	cr_assert_eq(app_drive_offer(drive[0], dma, &(struct meta_offer){ .tag = 7 }), 0);
	cr_assert_eq(sorted(&stores), META_DRIVES_MAX);
	cr_assert_eq(stores, META_DRIVES_MAX);
	cr_assert_not_null(drive[META_DRIVES_MAX - 1]);
	cr_assert(strstr(name[META_DRIVES_MAX - 1], path[1]));
	for (uint32_t d = 0; d < META_DRIVES_MAX - 1; d++)
		cr_assert(!drive[d] && !name[d][0], "place %u", d);
}

static void cannot_be_read(uint32_t i)
{
	cr_assert_eq(truncate(path[i], 0), 0);
}

/* It was drained, and died: whether the store is whole without it, the mount says. */
Test(app_drives, one_that_cannot_be_read_is_left_out)
{
	uint32_t stores;

	is_last_of(1, 1);
	cannot_be_read(0);
	cr_assert_eq(sorted(&stores), 1);
	cr_assert_eq(stores, 1);
	cr_assert_not_null(drive[0]);
	cr_assert(strstr(name[0], path[1]));
	cr_assert_null(drive[1]);
	cr_assert_str_empty(name[1]);
}

/* The power failed while its first superblock was written, into the last block. */
Test(app_drives, one_that_is_offered_is_so_whatever_its_last_block_holds)
{
	uint32_t stores;

	is_last_of(1, 1);
	cr_assert_eq(app_drive_offer(drive[0], dma, &(struct meta_offer){ .tag = 7 }), 0);
	cr_assert_eq(truncate(path[0], (off_t)(NBLOCKS - 1) * NVME_BLOCK_SIZE), 0);
	cr_assert_eq(sorted(&stores), 2);
	cr_assert_eq(stores, 1);
	cr_assert_not_null(drive[1]);
	cr_assert(strstr(name[1], path[0]));
}

/* The other drives must not be taken for a machine without a store: somebody might format them. */
Test(app_drives, where_no_other_has_a_store_one_that_cannot_be_read_is_named)
{
	uint32_t stores, count = DRIVES;
	char why[256] = "";

	cannot_be_read(1);
	cr_assert_lt(app_drives_sort(drive, name, &count, dma, &stores, why, sizeof(why)), 0);
	cr_assert(strstr(why, path[1]) && strstr(why, "cannot be read"), "%s", why);
	cr_assert_eq(count, DRIVES);
	cr_assert(drive[0] && drive[1]);
}

/* It was taken out of another store, which has lost the drive whose place is that of ours. */
Test(app_drives, what_another_store_has_lost_is_not_lost)
{
	struct meta__super s = { .uuid = "another",
				 .drive = 1,
				 .ndrives = 2,
				 .nshards = 4,
				 .zone_blocks = 64,
				 .drive_nblocks = { NBLOCKS, NBLOCKS },
				 .set = 9,
				 .root_at = { META_BADDR(1, 1), META_BADDR(1, 9) },
				 .drained = true,
				 .copies = 2,
				 .drive_state = { DRIVE_LOST, DRIVE_SERVES } };
	static uint8_t block[META__BLOCK];
	uint32_t stores;
	int fd = open(path[1], O_WRONLY);

	is_last_of(0, 1);
	meta__super_build(&s, block);
	cr_assert_eq(pwrite(fd, block, sizeof(block), 0), (ssize_t)sizeof(block));
	close(fd);
	cr_assert_eq(sorted(&stores), 2);
	cr_assert_eq(stores, 2);
	cr_assert_not_null(drive[0]);
	cr_assert(strstr(name[0], path[0]));
	cr_assert_not_null(drive[1]); /* by which the mount is refused */
}

/* Both sets have the same number: a change was begun on a drive that was lost then. */
static void says(uint32_t i, enum meta__drive_state of_first, enum meta__drive_state of_second)
{
	struct meta__super s = { .uuid = "ours",
				 .drive = i,
				 .ndrives = 2,
				 .nshards = 4,
				 .zone_blocks = 64,
				 .drive_nblocks = { NBLOCKS, NBLOCKS },
				 .set = 5,
				 .root_at = { META_BADDR(i, 1), META_BADDR(i, 9) },
				 .drained = true,
				 .copies = 2,
				 .drive_state = { of_first, of_second } };
	static uint8_t block[META__BLOCK];
	int fd = open(path[i], O_WRONLY);

	meta__super_build(&s, block);
	cr_assert_eq(pwrite(fd, block, sizeof(block), 0), (ssize_t)sizeof(block));
	close(fd);
}

Test(app_drives, of_two_sets_with_one_number_the_one_counts_whose_drive_the_other_has_not_lost)
{
	for (uint32_t lost = 0; lost < DRIVES; lost++) {
		uint32_t stores;

		says(lost, DRIVE_SERVES, DRIVE_SERVES);
		says(1 - lost, lost == 0 ? DRIVE_LOST : DRIVE_SERVES,
		     lost == 1 ? DRIVE_LOST : DRIVE_SERVES);
		cr_assert_eq(sorted(&stores), 2);
		cr_assert_eq(stores, 2);
		cr_expect_null(drive[lost], "drive %u is lost", lost);
		cr_expect_not_null(drive[1 - lost]);
		teardown();
		setup();
	}
}

Test(app_drives, two_that_each_say_that_the_other_is_lost_are_left_to_the_mount)
{
	uint32_t stores;

	says(0, DRIVE_SERVES, DRIVE_LOST);
	says(1, DRIVE_LOST, DRIVE_SERVES);
	cr_assert_eq(sorted(&stores), 2);
	cr_expect(drive[0] && drive[1]);
}
