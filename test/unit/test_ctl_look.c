/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Whose is a drive that only our own driver can read? */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_drives.h"
#include "base/le.h"
#include "nvme/nvme.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64], text[64];

static void make(void)
{
	snprintf(path, sizeof(path), "/tmp/weka-look.XXXXXX");
	close(mkstemp(path));
}

static void unmake(void)
{
	unlink(path);
}

static void put(uint64_t offset, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY);

	cr_assert_eq(pwrite(fd, bytes, size, (off_t)offset), (ssize_t)size);
	close(fd);
}

static int look_at(const char *name)
{
	char err_text[NVME_ERR_TEXT];
	struct nvme_drive *drive;
	struct nvme_dma *dma;
	int found;

	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_open(&drive, name, dma, NULL, err_text, sizeof(err_text)), 0, "%s",
		     err_text);
	found = ctl_look(drive, dma, text, sizeof(text));
	cr_expect_eq(nvme_dma_fault_count(dma), 0);
	nvme_close(drive);
	nvme_dma_destroy(dma);
	return found;
}

static int look(off_t size)
{
	char name[80];

	cr_assert_eq(truncate(path, size), 0);
	snprintf(name, sizeof(name), "file:%s", path);
	return look_at(name);
}

TestSuite(ctl_look, .init = make, .fini = unmake, .timeout = 30);

Test(ctl_look, an_empty_drive_is_nobodys)
{
	cr_expect_eq(look(64 << 20), CTL_SIGNATURE_NONE);
	cr_expect_eq(look(1536 << 10), CTL_SIGNATURE_NONE, "both ends overlap");
	cr_expect_eq(look_at("mem:64M"), CTL_SIGNATURE_NONE);
	cr_expect_str_eq(text, "");
}

Test(ctl_look, a_table_of_partitions_at_its_beginning)
{
	cr_assert_eq(truncate(path, 64 << 20), 0);
	put(510, (const uint8_t[]){ 0x55, 0xaa }, 2);
	put(446, (const uint8_t[16]){ [4] = 0x83, [8] = 8, [12] = 64 }, 16);
	cr_expect_eq(look(64 << 20), CTL_SIGNATURE_FOREIGN);
	cr_expect_str_eq(text, "dos");
}

Test(ctl_look, a_member_of_an_array_that_says_so_at_its_end)
{
	uint64_t sector = (64u << 20 >> 9) - 16;
	struct {
		le32 magic, version;
		uint8_t more[136];
		le64 super_sector;
		uint8_t rest[104];
	} super = { .magic = le32_of(0xa92b4efc), .version = le32_of(1) };

	super.super_sector = le64_of(sector);
	cr_assert_eq(truncate(path, 64 << 20), 0);
	put(sector << 9, &super, sizeof(super));
	cr_expect_eq(look(64 << 20), CTL_SIGNATURE_FOREIGN);
	cr_expect_str_eq(text, "linux_raid_member");
}
