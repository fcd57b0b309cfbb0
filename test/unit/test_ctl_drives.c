/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The drives of a machine, and their users: on machines made of files. */
#define _GNU_SOURCE
#include "test/lib/ctl_world.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define A "0000:01:00.0"
#define B "0000:02:00.0"

static struct ctl_world w;
static struct ctl_drive_list list;

static void make(void)
{
	ctl_world_make(&w);
	ctl_world_drive(&w, &(struct ctl_world_drive){ A, "nvme", 0, "SER-A", 12, 0 });
	ctl_world_drive(&w, &(struct ctl_world_drive){ B, "vfio-pci", 1, "SER-B", 13, 1 });
	ctl_world_device(&w, "0000:00:1f.2", "0x010601", "ahci", 3);
}

static void unmake(void)
{
	ctl_drives_free(&list);
	ctl_world_free(&w);
}

static void scan(void)
{
	int err;

	ctl_drives_free(&list);
	err = ctl_drives_scan(&list, w.root, true);
	cr_assert_eq(err, 0);
}

/* The gravest use of the first drive; its text is `text`. */
static void expect_use(enum ctl_use_kind kind, const char *device, const char *text)
{
	const struct ctl_use *use;

	scan();
	use = ctl_drive_use(&list.drive[0]);
	cr_assert_not_null(use, "nothing uses it, not '%s'", text);
	cr_expect_eq(use->kind, kind, "%d: %s", use->kind, use->text);
	cr_expect_str_eq(use->device, device);
	cr_expect_str_eq(use->text, text);
}

TestSuite(ctl_drives, .init = make, .fini = unmake, .timeout = 30);

/* ---- what there is ------------------------------------------------------------------------- */

Test(ctl_drives, nvme_devices_are_listed_and_others_are_not)
{
	const struct ctl_drive *a, *b;

	scan();
	cr_assert_eq(list.count, 2);
	a = &list.drive[0];
	b = &list.drive[1];
	cr_expect_str_eq(a->pci, A);
	cr_expect_str_eq(a->driver, "nvme");
	cr_expect_str_eq(a->ctrl, "nvme0");
	cr_expect_str_eq(a->model, "Fast Drive 9000");
	cr_expect_str_eq(a->serial, "SER-A");
	cr_expect_str_eq(a->firmware, "1.0");
	cr_expect_eq(a->group, 12);
	cr_expect_eq(a->node, 0);
	cr_expect_eq(a->nuses, 0);
	cr_assert_eq(a->nns, 1);
	cr_expect_str_eq(a->ns[0].name, "nvme0n1");
	cr_expect_eq(a->ns[0].size_bytes, 1 << 20);
	cr_expect_eq(a->ns[0].block_bytes, 4096);
	cr_expect_eq(a->ns[0].nsid, 1);
	cr_expect_str_eq(b->driver, "vfio-pci");
	cr_expect_eq(b->nns, 0);
	cr_expect_eq(b->nuses, 0);
	cr_expect_not(a->health_known, "a file answers no ioctl");
}

Test(ctl_drives, a_machine_without_pci_is_an_error_and_one_without_drives_is_not)
{
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A);
	ctl_world_remove(&w, "/sys/bus/pci/devices/" B);
	scan();
	cr_expect_eq(list.count, 0);
	ctl_world_remove(&w, "/sys/bus/pci/devices");
	ctl_drives_free(&list);
	cr_expect_lt(ctl_drives_scan(&list, w.root, true), 0);
}

Test(ctl_drives, others_of_a_group_are_counted_and_those_in_the_way_named)
{
	ctl_world_device(&w, "0000:00:01.0", "0x060400", "pcieport", 12);
	scan();
	cr_expect_eq(list.drive[0].group_others, 1);
	cr_expect_str_eq(list.drive[0].blocker, "", "a bridge does no DMA of its own");
	ctl_world_device(&w, "0000:01:00.1", "0x020000", "e1000e", 12);
	scan();
	cr_expect_eq(list.drive[0].group_others, 2);
	cr_expect_str_eq(list.drive[0].blocker, "0000:01:00.1");
	cr_expect_str_eq(list.drive[0].blocker_driver, "e1000e");
}

Test(ctl_drives, a_namespace_behind_several_controllers_is_the_subsystems)
{
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A "/nvme/nvme0/nvme0n1");
	ctl_world_dir(&w, "/sys/bus/pci/devices/" A "/nvme/nvme0/nvme0c3n1");
	ctl_world_file(&w, "/proc/self/mountinfo",
		       "36 35 259:0 / /data rw - xfs /dev/nvme0n1 rw\n");
	expect_use(CTL_USE_MOUNT, "nvme0n1", "xfs mounted on /data");
}

Test(ctl_drives, the_serial_of_an_attached_drive_is_remembered)
{
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" B " serial=SER-B\n");
	scan();
	cr_expect(list.drive[1].saved);
	cr_expect_str_eq(list.drive[1].serial, "SER-B");
	cr_expect_not(list.drive[0].saved);
}

/* ---- who uses it ---------------------------------------------------------------------------- */

Test(ctl_drives, a_mount_of_the_whole)
{
	ctl_world_file(&w, "/proc/self/mountinfo",
		       "36 35 259:0 / /a\\040b rw shared:1 - ext4 /dev/root rw\n");
	expect_use(CTL_USE_MOUNT, "nvme0n1", "ext4 mounted on /a b");
}

Test(ctl_drives, a_mount_of_a_partition_that_only_process_1_sees)
{
	ctl_world_partition(&w, 0, 2);
	ctl_world_file(&w, "/proc/1/mountinfo", "36 35 259:200 / /x rw - ext4 /dev/x rw\n");
	expect_use(CTL_USE_MOUNT, "nvme0n1p2", "ext4 mounted on /x");
}

Test(ctl_drives, a_btrfs_which_has_a_number_of_its_own)
{
	ctl_world_partition(&w, 0, 1);
	ctl_world_file(&w, "/proc/self/mountinfo",
		       "36 35 0:44 / /x rw - btrfs /dev/nvme0n1p1 rw\n");
	expect_use(CTL_USE_MOUNT, "nvme0n1p1", "btrfs mounted on /x");
}

Test(ctl_drives, a_mount_of_another_drive_is_nothing)
{
	ctl_world_file(&w, "/proc/self/mountinfo",
		       "36 35 259:00 / /x rw - ext4 /dev/nvme0n10 rw\n"
		       "36 35 259:01 / /x rw - ext4 /dev/nvme0n1p rw\n");
	scan();
	cr_expect_eq(list.drive[0].nuses, 0);
}

Test(ctl_drives, swap)
{
	ctl_world_partition(&w, 0, 3);
	ctl_world_file(&w, "/proc/swaps", "Filename\tType\n/dev/nvme0n1p3   partition\t1 0 -2\n");
	expect_use(CTL_USE_SWAP, "nvme0n1p3", "swap");
}

Test(ctl_drives, md_and_dm_hold_it)
{
	ctl_world_partition(&w, 0, 1);
	ctl_world_dir(&w, "/sys/class/block/nvme0n1p1/holders/md127");
	expect_use(CTL_USE_HOLDER, "nvme0n1p1", "part of md127");
	ctl_world_dir(&w, "/sys/class/block/nvme0n1/holders/dm-4");
	ctl_world_file(&w, "/sys/class/block/dm-4/dm/name", "vg-root\n");
	expect_use(CTL_USE_HOLDER, "nvme0n1", "part of vg-root");
}

Test(ctl_drives, a_process_has_it_open)
{
	ctl_world_file(&w, "/proc/4711/comm", "dd\n");
	ctl_world_link(&w, "/proc/4711/fd/3", "/dev/nvme0n1");
	expect_use(CTL_USE_OPEN, "nvme0n1", "open in dd (process 4711)");
	ctl_world_link(&w, "/proc/4711/fd/3", "/dev/ng0n1");
	expect_use(CTL_USE_OPEN, "ng0n1", "open in dd (process 4711)");
	ctl_world_link(&w, "/proc/4711/fd/3", "/dev/nvme0n11");
	scan();
	cr_expect_eq(list.drive[0].nuses, 0);
	ctl_world_link(&w, "/proc/4711/fd/3", "/dev/nvme0n1");
	ctl_world_file(&w, "/proc/4711/comm", "(udev-worker)\n");
	scan();
	cr_expect_eq(list.drive[0].nuses, 0, "udev looks at everything for a moment");
}

Test(ctl_drives, an_appliance_has_an_attached_drive)
{
	const struct ctl_use *use;

	ctl_world_file(&w, "/proc/77/comm", "weka-appliance\n");
	ctl_world_link(&w, "/proc/77/fd/9", "/dev/vfio/13");
	scan();
	use = ctl_drive_use(&list.drive[1]);
	cr_assert_not_null(use);
	cr_expect_eq(use->kind, CTL_USE_APPLIANCE);
	cr_expect_str_eq(use->text, "weka-appliance (process 77)");
}

Test(ctl_drives, signatures_of_the_whole_and_of_partitions)
{
	static const uint8_t swap[] = "SWAPSPACE2";
	static const uint32_t swap_head[] = { 1, 255, 0 };

	ctl_world_partition(&w, 0, 1);
	ctl_world_write(&w, "nvme0n1p1", 4096 - 10, swap, 10);
	ctl_world_write(&w, "nvme0n1p1", 1024, swap_head, sizeof(swap_head));
	expect_use(CTL_USE_SIGNATURE, "nvme0n1p1", "holds swap");
	ctl_world_write(&w, "nvme0n1", 510, (const uint8_t[]){ 0x55, 0xaa }, 2);
	ctl_world_write(&w, "nvme0n1", 446, (const uint8_t[16]){ [4] = 0x83, [8] = 8, [12] = 64 },
			16);
	expect_use(CTL_USE_SIGNATURE, "nvme0n1", "holds dos");
}

Test(ctl_drives, what_cannot_be_looked_at_is_not_taken_for_empty)
{
	ctl_world_remove(&w, "/dev/nvme0n1");
	expect_use(CTL_USE_UNSEEN, "nvme0n1", "cannot be examined (No such file or directory)");
}

Test(ctl_drives, no_table_of_mounts_is_not_taken_for_no_mounts)
{
	ctl_world_remove(&w, "/proc/self/mountinfo");
	expect_use(CTL_USE_UNSEEN, "nvme0",
		   "mounts cannot be read: /proc/self/mountinfo: No such file or directory");
}

Test(ctl_drives, a_drive_without_a_driver_is_not_taken_for_empty)
{
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A "/driver");
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A "/nvme");
	expect_use(CTL_USE_UNSEEN, "", "bound to no driver, so its content cannot be read");
}

Test(ctl_drives, the_gravest_is_not_lost_among_hundreds)
{
	for (uint32_t i = 0; i < 300; i++) {
		char dir[128];

		snprintf(dir, sizeof(dir), "/sys/class/block/nvme0n1/holders/dm-%u", i);
		ctl_world_dir(&w, dir);
	}
	ctl_world_partition(&w, 0, 1);
	ctl_world_file(&w, "/proc/self/mountinfo", "1 2 259:100 / /late rw - ext4 /dev/x rw\n");
	expect_use(CTL_USE_MOUNT, "nvme0n1p1", "ext4 mounted on /late");
}

/* ---- a hostile /sys ------------------------------------------------------------------------- */

Test(ctl_drives, attributes_may_be_empty_endless_or_not_text)
{
	char *big = malloc(200001);

	memset(big, '7', 200000);
	big[200000] = '\0';
	ctl_world_file(&w, "/sys/bus/pci/devices/" A "/vendor", "%s", "");
	ctl_world_file(&w, "/sys/bus/pci/devices/" A "/device", "%s", big);
	ctl_world_file(&w, "/sys/bus/pci/devices/" A "/numa_node", "99999999999999999999\n");
	ctl_world_file(&w, "/sys/bus/pci/devices/" A "/nvme/nvme0/serial", "%s", big);
	ctl_world_file(&w, "/sys/bus/pci/devices/" A "/nvme/nvme0/model", "\033[2Jx\xff\ny");
	ctl_world_file(&w, "/sys/class/block/nvme0n1/size", "-5\n");
	ctl_world_file(&w, "/sys/class/block/nvme0n1/nsid", "one\n");
	ctl_world_file(&w, "/sys/class/block/nvme0n1/queue/logical_block_size", "%s", big);
	scan();
	cr_assert_eq(list.count, 2);
	cr_expect_eq(list.drive[0].vendor_id, 0xffff);
	cr_expect_eq(list.drive[0].device_id, 0xffff);
	cr_expect_eq(list.drive[0].node, -1);
	cr_expect_eq(strlen(list.drive[0].serial), CTL_SERIAL_SIZE - 1);
	cr_expect_str_eq(list.drive[0].model, "?[2Jx??y");
	cr_expect_eq(list.drive[0].ns[0].size_bytes, 0);
	cr_expect_eq(list.drive[0].ns[0].nsid, 0);
	cr_expect_eq(list.drive[0].ns[0].block_bytes, 0);
	free(big);
}

Test(ctl_drives, links_may_lead_nowhere_and_attributes_be_no_files)
{
	char fifo[256];

	ctl_world_link(&w, "/sys/bus/pci/devices/" A "/driver", "../../drivers/");
	ctl_world_link(&w, "/sys/bus/pci/devices/" A "/iommu_group", "/");
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A "/numa_node");
	snprintf(fifo, sizeof(fifo), "%s/sys/bus/pci/devices/" A "/numa_node", w.root);
	cr_assert_eq(mkfifo(fifo, 0644), 0);
	ctl_world_remove(&w, "/sys/bus/pci/devices/" B "/class");
	ctl_world_dir(&w, "/sys/bus/pci/devices/not-an-address");
	ctl_world_file(&w, "/sys/bus/pci/devices/not-an-address/class", "0x010802\n");
	ctl_world_dir(&w, "/sys/bus/pci/devices/" A "/nvme/nvme0/nvme0n99999999999");
	ctl_world_dir(&w, "/sys/bus/pci/devices/" A "/nvme/nvme0/nvme0n1x");
	scan();
	cr_assert_eq(list.count, 1);
	cr_expect_str_eq(list.drive[0].driver, "");
	cr_expect_eq(list.drive[0].group, -1);
	cr_expect_eq(list.drive[0].node, -1);
	cr_expect_eq(list.drive[0].nns, 1);
}

/* ---- how it is said
 * -------------------------------------------------------------------------------- */

static char *print(void (*fn)(FILE *, const struct ctl_drive_list *))
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fn(f, &list);
	fclose(f);
	return text;
}

Test(ctl_drives, a_table_for_people)
{
	char *text;

	ctl_world_partition(&w, 0, 1);
	ctl_world_file(&w, "/proc/self/mountinfo",
		       "36 35 259:100 / /data rw - xfs /dev/nvme0n1p1 rw\n");
	scan();
	list.drive[0].health_known = true;
	list.drive[0].health = (struct ctl_health){ .celsius = 41, .used_percent = 3 };
	text = print(ctl_drives_print);
	cr_expect(strstr(text,
			 "pci:" A "  nvme      1.0 MB  0     12     ok      41 C  3 %   SER-A "
			 "  Fast Drive 9000"),
		  "%s", text);
	cr_expect(strstr(text, "xfs mounted on /data\n"), "%s", text);
	cr_expect(strstr(text, "pci:" B "  vfio-pci  -"), "%s", text);
	free(text);
}

Test(ctl_drives, hundreds_of_uses_are_cut_off_with_a_count)
{
	char *text;

	for (uint32_t i = 0; i < 100; i++) {
		char dir[128];

		snprintf(dir, sizeof(dir), "/sys/class/block/nvme0n1/holders/dm-%u", i);
		ctl_world_dir(&w, dir);
	}
	scan();
	text = print(ctl_drives_print);
	cr_expect(strstr(text, " more\n"), "%s", text);
	free(text);
}

Test(ctl_drives, one_json_object_a_line_for_programs)
{
	char *text, *at, *line;
	uint32_t lines = 0;
	json_t *o;

	ctl_world_file(&w, "/proc/self/mountinfo",
		       "36 35 259:0 / /\"\\134\xc3\xa4\xff rw - xfs /dev/nvme0n1 rw\n");
	scan();
	list.drive[0].health_known = true;
	list.drive[0].health.media_errors = UINT64_MAX;
	text = at = print(ctl_drives_print_json);
	while ((line = ctl_next_line(&at))) {
		o = json_loads(line, 0, NULL);
		cr_assert_not_null(o, "%s", line);
		if (lines++ == 0) {
			cr_expect_str_eq(json_string_value(json_object_get(o, "drive")), "pci:" A);
			cr_expect_eq(json_integer_value(json_object_get(o, "bytes")), 1 << 20);
			cr_expect_eq(json_array_size(json_object_get(o, "uses")), 1);
			cr_expect_gt(json_integer_value(json_object_get(
					     json_object_get(o, "health"), "media_errors")),
				     0);
		} else {
			cr_expect(json_is_null(json_object_get(o, "health")));
		}
		json_decref(o);
	}
	cr_expect_eq(lines, 2);
	free(text);
}
