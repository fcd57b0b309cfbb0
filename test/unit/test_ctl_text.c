/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The texts that wekactl drives parses: addresses, mounts, health pages, the file of drives. */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_doctor.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ctl_text, .timeout = 20);

/* ---- addresses ---------------------------------------------------------------------------- */

static const struct {
	const char *text, *address; /* NULL: refused */
} addresses[] = {
	{ "pci:0000:01:00.0", "0000:01:00.0" },
	{ "0000:01:00.0", "0000:01:00.0" },
	{ "01:00.0", "0000:01:00.0" },
	{ "1:0.0", "0000:01:00.0" },
	{ "pci:AB:1f.7", "0000:ab:1f.7" },
	{ "10000:e1:00.0", "10000:e1:00.0" },
	{ "ffffffff:ff:1f.7", "ffffffff:ff:1f.7" },
	{ "", NULL },
	{ "pci:", NULL },
	{ "pci:0000:01:00", NULL },
	{ "0000:01:00.0 ", NULL },
	{ " 01:00.0", NULL },
	{ "01:00.8", NULL },
	{ "01:20.0", NULL },
	{ "100:00.0", NULL },
	{ "01:00.00", NULL },
	{ "01:000.0", NULL },
	{ "1ffffffff:01:00.0", NULL },
	{ ":01:00.0", NULL },
	{ "0000:01:00.0?nsid=1", NULL },
	{ "0000:01:00.0/../x", NULL },
	{ "pci:pci:01:00.0", NULL },
	{ "file:/dev/sda", NULL },
	{ "-1:00.0", NULL },
};

Test(ctl_text, an_address_is_what_sysfs_calls_it)
{
	char out[CTL_PCI_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		int err = ctl_pci_parse(addresses[i].text, out);

		cr_expect_eq(err, addresses[i].address ? 0 : -EINVAL, "'%s'", addresses[i].text);
		if (!err && addresses[i].address)
			cr_expect_str_eq(out, addresses[i].address);
	}
}

/* ---- mounts ---------------------------------------------------------------------------------- */

Test(ctl_text, a_mount_is_found_behind_optional_fields_and_escapes)
{
	char line[] = "36 35 259:3 /sub /mnt/a\\040b\\134\\011 rw,noatime shared:1 master:2 - ext4 "
		      "/dev/nvme0n1p1 rw,errors=continue";
	char bare[] = "1 2 0:5 / / rw - btrfs /dev/nvme0n1 rw";
	struct ctl_mount m;

	cr_assert(ctl_mount_parse(line, &m));
	cr_expect_str_eq(m.dev, "259:3");
	cr_expect_str_eq(m.where, "/mnt/a b\\\t");
	cr_expect_str_eq(m.type, "ext4");
	cr_expect_str_eq(m.source, "/dev/nvme0n1p1");
	cr_assert(ctl_mount_parse(bare, &m));
	cr_expect_str_eq(m.source, "/dev/nvme0n1");
}

Test(ctl_text, what_is_no_mount_is_none)
{
	static const char *const lines[] = {
		"",
		" ",
		"1 2 3:4 / /",
		"1 2 3:4 / / rw shared:1",
		"1 2 3:4 / / rw -",
		"1 2 3:4 / / rw - ext4",
		"- - - - - -",
	};
	struct ctl_mount m;
	char line[128];

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		snprintf(line, sizeof(line), "%s", lines[i]);
		cr_expect_not(ctl_mount_parse(line, &m), "'%s'", lines[i]);
	}
}

/* ---- health --------------------------------------------------------------------------------- */

Test(ctl_text, a_health_page_is_read_at_its_places)
{
	uint8_t page[CTL_HEALTH_BYTES] = { 0 };
	struct ctl_health h;

	page[1] = 0x3b; /* 315 K */
	page[2] = 0x01;
	page[3] = 97;
	page[4] = 10;
	page[5] = 3;
	page[48] = 0x10;
	page[129] = 0x02;
	page[144] = 7;
	page[160] = 9;
	ctl_health_parse(page, &h);
	cr_expect_eq(h.celsius, 42);
	cr_expect_eq(h.spare_percent, 97);
	cr_expect_eq(h.spare_threshold_percent, 10);
	cr_expect_eq(h.used_percent, 3);
	cr_expect_eq(h.written_units, 16);
	cr_expect_eq(h.power_on_hours, 512);
	cr_expect_eq(h.unsafe_shutdowns, 7);
	cr_expect_eq(h.media_errors, 9);
	cr_expect_str_eq(ctl_health_word(&h), "ok");
	page[175] = 1; /* 2^120 and more */
	ctl_health_parse(page, &h);
	cr_expect_eq(h.media_errors, UINT64_MAX);
}

Test(ctl_text, the_gravest_warning_is_named)
{
	static const struct {
		uint8_t warning, used;
		const char *word;
	} cases[] = {
		{ 0, 99, "ok" },          { 0, 100, "worn out" },     { 1, 0, "spare low" },
		{ 2, 0, "temperature" },  { 4, 0, "unreliable" },     { 8, 0, "read-only" },
		{ 0x1f, 0, "read-only" }, { 16, 0, "backup failed" }, { 64, 0, "warning" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ctl_health h = { .warning = cases[i].warning,
					.used_percent = cases[i].used };

		cr_expect_str_eq(ctl_health_word(&h), cases[i].word);
	}
}

/* ---- the file of drives
 * --------------------------------------------------------------------------- */

static struct ctl_saved_list list;
static char why[CTL_WHY_SIZE];

static int parse(const char *text)
{
	char *copy = strdup(text);
	int err;

	free(list.drive);
	why[0] = '\0';
	err = ctl_saved_parse(copy, strlen(text), &list, why);
	free(copy);
	return err;
}

Test(ctl_text, drives_are_remembered_byte_for_byte)
{
	struct ctl_saved s = { .pci = "0000:01:00.0", .serial = "S6 3%=A", .forced = true };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	snprintf(s.user, sizeof(s.user), "weka");
	snprintf(s.group, sizeof(s.group), "storage-team");
	ctl_saved_print(f, &s);
	fclose(f);
	cr_expect_str_eq(text, "pci:0000:01:00.0 serial=S6%203%25=A user=weka group=storage-team "
			       "forced\n");
	cr_assert_eq(parse(text), 0, "%s", why);
	cr_assert_eq(list.count, 1);
	cr_expect_arr_eq(&list.drive[0], &s, sizeof(s));
	free(text);
	cr_assert_eq(parse("# a comment\n\n  \t\npci:0000:02:00.0\n"
			   "pci:0000:03:00.0 user=u"),
		     0, "%s", why);
	cr_assert_eq(list.count, 2);
	cr_expect_str_eq(list.drive[1].user, "u");
	cr_expect_eq(list.drive[0].serial[0], '\0');
}

static const struct {
	const char *text, *why;
} refused[] = {
	{ "0000:01:00.0\n", ":1: a line starts with a drive" },
	{ "\npci:nonsense\n", ":2: a line starts with a drive" },
	{ "pci:01:00.0 color=red\n", ":1: known are" },
	{ "pci:01:00.0 user=\n", ":1: not a user name" },
	{ "pci:01:00.0 user=-x\n", ":1: not a user name" },
	{ "pci:01:00.0 user=a%20b\n", ":1: not a user name" },
	{ "pci:01:00.0 group=a/b\n", ":1: not a group name" },
	{ "pci:01:00.0 serial=%\n", ":1: no serial" },
	{ "pci:01:00.0 serial=%4\n", ":1: no serial" },
	{ "pci:01:00.0 serial=%00\n", ":1: no serial" },
	{ "pci:01:00.0 serial=123456789012345678901234\n", ":1: no serial" },
	{ "pci:01:00.0\npci:1:0.0\n", ":2: this drive twice" },
};

Test(ctl_text, what_does_not_belong_into_the_file_is_named_with_its_line)
{
	char nul[] = "pci:0000:01:00.0\n\0pci:0000:02:00.0\n";

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		cr_expect_eq(parse(refused[i].text), -EINVAL, "%s", refused[i].text);
		cr_expect(strstr(why, refused[i].why), "'%s' is not in '%s'", refused[i].why, why);
		cr_expect_eq(list.count, 0);
	}
	cr_expect_eq(ctl_saved_parse(nul, sizeof(nul) - 1, &list, why), -EINVAL);
}

Test(ctl_text, a_file_of_endless_drives_is_refused)
{
	char *text = malloc((CTL_DRIVES_LIMIT + 1) * 32), *at = text;

	for (uint32_t i = 0; i <= CTL_DRIVES_LIMIT; i++)
		at += snprintf(at, 32, "pci:%x:00:00.0\n", i);
	cr_expect_eq(parse(text), -EINVAL);
	cr_expect(strstr(why, "too many"), "%s", why);
	free(text);
}

/* ---- lists and limits
 * --------------------------------------------------------------------------------- */

Test(ctl_text, lists_of_cpus)
{
	cr_expect(ctl_list_has("0-3,8", 3) && ctl_list_has("0-3,8", 8) && ctl_list_has("7", 7));
	cr_expect_not(ctl_list_has("0-3,8", 4) || ctl_list_has("", 0) || ctl_list_has("x", 0));
	cr_expect_not(ctl_list_has("0-3", -1));
	cr_expect_eq(ctl_list_highest("0-3,8"), 8);
	cr_expect_eq(ctl_list_highest("8,0-3"), 8);
	cr_expect_eq(ctl_list_highest(""), -1);
	cr_expect_eq(ctl_list_highest("5-99999999999999999999999"), -1);
	cr_expect_eq(ctl_list_highest("-"), -1);
	cr_expect_eq(ctl_list_highest("808-9"), -1, "a range that ends before it begins");
}

Test(ctl_text, limits_of_systemd)
{
	uint64_t v = 0;

	cr_expect_eq(ctl_limit_parse("infinity", &v), 0);
	cr_expect_eq(v, UINT64_MAX);
	cr_expect_eq(ctl_limit_parse("64M", &v), 0);
	cr_expect_eq(v, 64u << 20);
	cr_expect_eq(ctl_limit_parse("8388608", &v), 0);
	cr_expect_eq(v, 8u << 20);
	cr_expect_eq(ctl_limit_parse("1M:infinity", &v), 0);
	cr_expect_eq(v, 1u << 20, "the soft one");
	cr_expect_eq(ctl_limit_parse("much", &v), -EINVAL);
	cr_expect_eq(ctl_limit_parse("", &v), -EINVAL);
}
