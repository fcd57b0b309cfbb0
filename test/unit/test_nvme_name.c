/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Names of drives: what is taken, what is refused, and that each refusal says why. */
#include "nvme/nvme_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

TestSuite(nvme_name, .timeout = 30);

Test(nvme_name, sound_names_are_taken_apart)
{
	static const struct {
		const char *name, *path;
		uint64_t size_bytes;
	} rows[] = {
		{ "file:/var/lib/d0", "/var/lib/d0", 0 },
		{ "file:d0?size=8G", "d0", 8ull << 30 },
		{ "file:d0?size=4096", "d0", 4096 },
		{ "file:a?b?size=1M", "a?b", 1 << 20 },
		{ "file:with space,comma:colon", "with space,comma:colon", 0 },
		{ "mem:64K", "", 64 << 10 },
		{ "mem:2g", "", 2ull << 30 },
		{ "mem:1T", "", 1ull << 40 },
		{ "mem:1024T", "", 1ull << 50 },
	};
	struct nvme_name out;
	char err[NVME_ERR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(nvme__name_parse(&out, rows[i].name, err, sizeof(err)), 0, "%s",
			     rows[i].name);
		cr_assert_str_eq(out.path, rows[i].path);
		cr_assert_eq(out.size_bytes, rows[i].size_bytes, "%s", rows[i].name);
		cr_assert_eq(out.kind, rows[i].path[0] ? NVME_NAME_FILE : NVME_NAME_MEM);
		cr_assert_eq(out.nsid, 0);
		cr_assert_eq(out.copy, NVME_COPY_AS_CARDS);
	}
}

Test(nvme_name, memory_drives_say_how_they_copy)
{
	static const struct {
		const char *name;
		enum nvme_mem_copy copy;
	} rows[] = {
		{ "mem:1G", NVME_COPY_AS_CARDS },
		{ "mem:1G?copy=off", NVME_COPY_OFF },
		{ "mem:1G?copy=past", NVME_COPY_PAST },
		{ "mem:1G?copy=through", NVME_COPY_THROUGH },
	};
	struct nvme_name out;
	char err[NVME_ERR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(nvme__name_parse(&out, rows[i].name, err, sizeof(err)), 0, "%s",
			     rows[i].name);
		cr_assert_eq(out.copy, rows[i].copy, "%s", rows[i].name);
		cr_assert_eq(out.size_bytes, 1ull << 30);
	}
}

Test(nvme_name, addresses_of_pci_are_written_as_sysfs_does)
{
	static const struct {
		const char *name, *path;
		uint32_t nsid;
	} rows[] = {
		{ "pci:0000:01:00.0", "0000:01:00.0", 0 },
		{ "pci:0:1:0.0", "0000:01:00.0", 0 },
		{ "pci:0000:Af:1f.7?nsid=1", "0000:af:1f.7", 1 },
		{ "pci:10000:e1:00.0?nsid=4294967294", "10000:e1:00.0", 0xfffffffe },
		{ "pci:ffffffff:ff:1f.7?nsid=007", "ffffffff:ff:1f.7", 7 },
	};
	struct nvme_name out;
	char err[NVME_ERR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(nvme__name_parse(&out, rows[i].name, err, sizeof(err)), 0, "%s",
			     rows[i].name);
		cr_assert_eq(out.kind, NVME_NAME_PCI);
		cr_assert_str_eq(out.path, rows[i].path);
		cr_assert_eq(out.nsid, rows[i].nsid);
		cr_assert_eq(out.size_bytes, 0);
		cr_assert_eq(nvme__name_nsid(rows[i].name), rows[i].nsid);
	}
	cr_assert_eq(nvme__name_nsid("file:x?nsid=3"), 0);
	cr_assert_eq(nvme__name_nsid("sim:0"), 0);
}

Test(nvme_name, sockets_of_vfio_user_end_at_the_last_question_mark)
{
	static const struct {
		const char *name, *path;
		uint32_t nsid;
	} rows[] = {
		{ "vfio-user:/run/nvme.sock", "/run/nvme.sock", 0 },
		{ "vfio-user:s?nsid=2", "s", 2 },
		{ "vfio-user:/a?b?nsid=3", "/a?b", 3 },
	};
	static const char *const wrong[] = { "vfio-user:", "vfio-user:?nsid=1",
					     "vfio-user:/s?nsid=0", "vfio-user:/s?size=1G",
					     "vfio-user:/s?" };
	struct nvme_name out;
	char err[NVME_ERR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(nvme__name_parse(&out, rows[i].name, err, sizeof(err)), 0, "%s",
			     rows[i].name);
		cr_assert_eq(out.kind, NVME_NAME_VFIO_USER);
		cr_assert_str_eq(out.path, rows[i].path);
		cr_assert_eq(out.nsid, rows[i].nsid);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		cr_assert_eq(nvme_name_check(wrong[i], err, sizeof(err)), -EINVAL, "%s", wrong[i]);
		cr_assert_eq(strncmp(err, wrong[i], strlen(wrong[i])), 0);
	}
}

Test(nvme_name, each_refusal_begins_with_the_name_and_says_why)
{
	static const struct {
		const char *name, *why;
	} rows[] = {
		{ "", "unknown kind" },
		{ "floppy:A", "unknown kind" },
		{ "/dev/nvme0n1", "unknown kind" },
		{ "file", "unknown kind" },
		{ "file:", "no path" },
		{ "file:?size=8G", "no path" },
		{ "file:d0?", "only size" },
		{ "file:d0?sise=8G", "only size" },
		{ "file:d0?size=", "a size is" },
		{ "file:d0?size=8GB", "a size is" },
		{ "file:d0?size=-8G", "a size is" },
		{ "file:d0?size= 8G", "a size is" },
		{ "file:d0?size=8.5G", "a size is" },
		{ "mem:", "a size is" },
		{ "mem:0", "not a multiple" },
		{ "mem:0G", "not a multiple" },
		{ "mem:1000", "not a multiple" },
		{ "mem:1G?copy=on", "only copy= is" },
		{ "mem:1G?copy=offf", "only copy= is" },
		{ "mem:1G?size=1G", "only copy= is" },
		{ "mem:?copy=off", "a size is" },
		{ "mem:1025T", "larger" },
		{ "mem:99999999999999999999999999999", "larger" },
		{ "mem:18446744073709551615T", "larger" },
		{ "pci:", "an address is" },
		{ "pci:01:00.0", "an address is" },
		{ "pci:0000:01:00", "an address is" },
		{ "pci:0000:01:00.", "an address is" },
		{ "pci:0000:01:00.8", "an address is" },
		{ "pci:0000:01:20.0", "an address is" },
		{ "pci:0000:001:00.0", "an address is" },
		{ "pci:123456789:01:00.0", "an address is" },
		{ "pci:0000:0g:00.0", "an address is" },
		{ "pci:0000:01:00.0 ", "an address is" },
		{ "pci:0000:01:00.0/", "an address is" },
		{ "pci:0000:01:00.0?", "only nsid" },
		{ "pci:0000:01:00.0?size=8G", "only nsid" },
		{ "pci:0000:01:00.0?nsid=", "from 1" },
		{ "pci:0000:01:00.0?nsid=0", "from 1" },
		{ "pci:0000:01:00.0?nsid=-1", "from 1" },
		{ "pci:0000:01:00.0?nsid=1x", "from 1" },
		{ "pci:0000:01:00.0?nsid=4294967295", "from 1" },
		{ "pci:0000:01:00.0?nsid=18446744073709551617", "from 1" },
	};
	char err[NVME_ERR_TEXT], begin[64];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(nvme_name_check(rows[i].name, err, sizeof(err)), -EINVAL, "%s",
			     rows[i].name);
		snprintf(begin, sizeof(begin), "%s: ", rows[i].name);
		cr_assert_eq(strncmp(err, begin, strlen(begin)), 0, "%s", err);
		cr_assert_not_null(strstr(err, rows[i].why), "%s", err);
	}
}

Test(nvme_name, error_is_one_printable_line_that_fits)
{
	char name[6000], err[NVME_ERR_TEXT], tiny[8];

	memset(name, 'x', sizeof(name));
	memcpy(name, "file:\n\033[31m", 10);
	name[sizeof(name) - 1] = 0;
	cr_assert_eq(nvme_name_check(name, err, sizeof(err)), -EINVAL);
	cr_assert_not_null(strstr(err, "too long"));
	cr_assert_null(strpbrk(err, "\n\033"));
	cr_assert_eq(nvme_name_check(name, tiny, sizeof(tiny)), -EINVAL);
	cr_assert_eq(strlen(tiny), sizeof(tiny) - 1);
	cr_assert_eq(nvme_name_check(name, NULL, 0), -EINVAL);
}
