/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl drives attach, detach, restore: over a kernel that a test has made, and that may fail. */
#define _GNU_SOURCE
#include "test/lib/ctl_world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define A             "0000:01:00.0"
#define B             "0000:02:00.0"
#define C             "0000:03:00.0"
#define OVERRIDE(pci) ctl_world_read(&w, "/sys/bus/pci/devices/" pci "/driver_override")

static struct ctl_world w;
static char why[CTL_WHY_SIZE];

static void make(void)
{
	ctl_world_make(&w);
	ctl_world_drive(&w, &(struct ctl_world_drive){ A, "nvme", 0, "SER-A", 11, 0 });
	ctl_world_drive(&w, &(struct ctl_world_drive){ B, "nvme", 1, "SER-B", 12, 0 });
}

static void unmake(void)
{
	ctl_world_free(&w);
}

static struct ctl_bind how(void)
{
	return (struct ctl_bind){ .root = w.root };
}

static int move(struct ctl_bind bind, bool attach, const char *first, const char *second)
{
	struct ctl_saved s[2] = { 0 };
	struct ctl_saved_list names = { second ? 2 : 1, s };

	snprintf(s[0].pci, sizeof(s[0].pci), "%s", first);
	snprintf(s[1].pci, sizeof(s[1].pci), "%s", second ? second : "");
	return attach ? ctl_drives_attach(&bind, &names, why)
		      : ctl_drives_detach(&bind, &names, why);
}

static int attach(const char *pci)
{
	return move(how(), true, pci, NULL);
}

static void expect_refused(int err, const char *text)
{
	cr_expect_lt(err, 0);
	cr_expect(strstr(why, text), "'%s' is not in '%s'", text, why);
	cr_expect_not(strchr(why, '\n'));
	cr_expect_eq(ctl_world_kernel.calls, 0, "nothing was touched");
	cr_expect_str_eq(ctl_world_read(&w, CTL_DRIVES_FILE), "");
}

/* Everything as make() has left it. */
static void expect_untouched(const char *what, uint32_t n)
{
	cr_expect_str_eq(ctl_world_driver(&w, A), "nvme", "%s %u: %s", what, n, why);
	cr_expect_str_eq(ctl_world_driver(&w, B), "nvme", "%s %u: %s", what, n, why);
	cr_expect_str_eq(OVERRIDE(A), "(null)", "%s %u: %s", what, n, why);
	cr_expect_str_eq(OVERRIDE(B), "(null)", "%s %u: %s", what, n, why);
	cr_expect_str_eq(ctl_world_read(&w, CTL_DRIVES_FILE), "", "%s %u", what, n);
}

TestSuite(ctl_bind, .init = make, .fini = unmake, .timeout = 60);

/* ---- the good case -------------------------------------------------------------------------- */

Test(ctl_bind, attach_and_detach_and_what_is_remembered)
{
	char uid[16], gid[16];
	struct ctl_bind bind = how();
	struct stat st;
	char path[128];

	snprintf(uid, sizeof(uid), "%u", getuid());
	snprintf(gid, sizeof(gid), "%u", getgid());
	bind.user = uid;
	bind.group = gid;
	cr_assert_eq(move(bind, true, A, NULL), 0, "%s", why);
	cr_expect_str_eq(ctl_world_driver(&w, A), "vfio-pci");
	cr_expect_str_eq(ctl_world_driver(&w, B), "nvme");
	cr_expect(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "pci:" A " serial=SER-A user="));
	snprintf(path, sizeof(path), "%s/dev/vfio/11", w.root);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0660);
	snprintf(path, sizeof(path), "%s" CTL_DRIVES_FILE, w.root);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0644);
	cr_assert_eq(attach(A), 0, "again: %s", why);
	cr_expect(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "user="), "which stays");
	cr_assert_eq(move(how(), false, A, NULL), 0, "%s", why);
	cr_expect_str_eq(ctl_world_driver(&w, A), "nvme");
	cr_expect_str_eq(OVERRIDE(A), "(null)");
	cr_expect_not(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "pci:"));
	cr_assert_eq(move(how(), false, A, NULL), 0, "again: %s", why);
}

Test(ctl_bind, once_is_not_remembered_and_not_forgotten)
{
	struct ctl_bind once = how();

	once.once = true;
	cr_assert_eq(move(once, true, A, NULL), 0, "%s", why);
	cr_expect_str_eq(ctl_world_read(&w, CTL_DRIVES_FILE), "");
	cr_assert_eq(attach(B), 0, "%s", why);
	cr_assert_eq(move(once, false, B, NULL), 0, "%s", why);
	cr_expect_str_eq(ctl_world_driver(&w, B), "nvme");
	cr_expect(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "pci:" B));
}

/* ---- whatever step fails -------------------------------------------------------------------- */

enum { STEPS_OF_TWO = 6 }; /* override, unbind, probe, twice */

Test(ctl_bind, an_attach_of_two_has_six_steps)
{
	cr_assert_eq(move(how(), true, A, B), 0, "%s", why);
	cr_expect_eq(ctl_world_kernel.calls, STEPS_OF_TWO);
	cr_expect_str_eq(ctl_world_driver(&w, A), "vfio-pci");
	cr_expect_str_eq(ctl_world_driver(&w, B), "vfio-pci");
}

Test(ctl_bind, each_step_of_an_attach_that_fails_undoes_those_before)
{
	static const char *const step[] = { "driver_override: ", "nvme did not release it",
					    "vfio-pci did not accept it" };

	for (uint32_t n = 1; n <= STEPS_OF_TWO; n++) {
		ctl_world_kernel = (struct ctl_world_kernel){ .fail_at = n };
		cr_expect_lt(move(how(), true, A, B), 0);
		cr_expect_not(strchr(why, '\n') || strstr(why, "given back"), "%s", why);
		cr_expect(strstr(why, step[(n - 1) % 3]), "%u: %s", n, why);
		cr_expect(strstr(why, n <= 3 ? A : B), "%u: %s", n, why);
		expect_untouched("fails", n);
		ctl_world_kernel = (struct ctl_world_kernel){ .deaf_at = n };
		cr_expect_lt(move(how(), true, A, B), 0, "deaf %u", n);
		cr_expect(strstr(why, step[(n - 1) % 3]), "deaf %u: %s", n, why);
		expect_untouched("deaf", n);
	}
}

Test(ctl_bind, each_step_of_a_detach_that_fails_undoes_those_before)
{
	char was[4096];

	cr_assert_eq(move(how(), true, A, B), 0, "%s", why);
	snprintf(was, sizeof(was), "%s", ctl_world_read(&w, CTL_DRIVES_FILE));
	for (uint32_t n = 1; n <= STEPS_OF_TWO; n++) {
		for (uint32_t deaf = 0; deaf < 2; deaf++) {
			ctl_world_kernel = (struct ctl_world_kernel){ .fail_at = deaf ? 0 : n,
								      .deaf_at = deaf ? n : 0 };
			cr_expect_lt(move(how(), false, A, B), 0);
			cr_expect_str_eq(ctl_world_driver(&w, A), "vfio-pci", "%u: %s", n, why);
			cr_expect_str_eq(ctl_world_driver(&w, B), "vfio-pci", "%u: %s", n, why);
			cr_expect_str_eq(OVERRIDE(A), "vfio-pci");
			cr_expect_str_eq(ctl_world_read(&w, CTL_DRIVES_FILE), was);
		}
	}
}

Test(ctl_bind, when_undoing_fails_too_the_line_says_what_to_type)
{
	ctl_world_kernel.fail_from = 3; /* the probe, and all after it */
	cr_expect_lt(attach(A), 0);
	cr_expect(strstr(why, "vfio-pci did not accept it"), "%s", why);
	cr_expect(strstr(why, "type: echo " A " > /sys/bus/pci/drivers_probe"), "%s", why);
}

Test(ctl_bind, what_cannot_be_remembered_is_given_back)
{
	ctl_world_file(&w, "/etc/weka", "no directory\n");
	cr_expect_lt(move(how(), true, A, B), 0);
	cr_expect(strstr(why, CTL_DRIVES_FILE), "%s", why);
	expect_untouched("not remembered", 0);
}

Test(ctl_bind, a_driver_override_of_somebody_is_put_back)
{
	ctl_world_file(&w, "/sys/bus/pci/devices/" A "/driver_override", "nvme\n");
	ctl_world_kernel.deaf_at = 3;
	cr_expect_lt(attach(A), 0);
	cr_expect_str_eq(OVERRIDE(A), "nvme");
	cr_expect_str_eq(ctl_world_driver(&w, A), "nvme");
}

/* ---- what is refused ------------------------------------------------------------------------ */

Test(ctl_bind, what_is_in_use_is_refused_with_force_too)
{
	struct ctl_bind force = how();

	force.force = true;
	ctl_world_partition(&w, 0, 1);
	ctl_world_file(&w, "/proc/self/mountinfo", "1 2 259:100 / /home rw - xfs /dev/x rw\n");
	expect_refused(attach(A), "pci:" A ": nvme0n1p1: xfs mounted on /home");
	expect_refused(move(force, true, A, NULL), "nvme0n1p1: xfs mounted on /home");
	expect_refused(move(force, true, B, A), "mounted on /home");
	ctl_world_file(&w, "/proc/self/mountinfo", "%s", "");
	ctl_world_file(&w, "/proc/swaps", "/dev/nvme0n1 partition 1 0 -2\n");
	expect_refused(move(force, true, A, NULL), "nvme0n1: swap");
	ctl_world_file(&w, "/proc/swaps", "%s", "");
	ctl_world_dir(&w, "/sys/class/block/nvme0n1/holders/md0");
	expect_refused(move(force, true, A, NULL), "nvme0n1: part of md0");
}

Test(ctl_bind, another_ones_signature_needs_force)
{
	struct ctl_bind force = how();

	ctl_world_write(&w, "nvme0n1", 510, (const uint8_t[]){ 0x55, 0xaa }, 2);
	ctl_world_write(&w, "nvme0n1", 446, (const uint8_t[16]){ [4] = 0x83, [8] = 8, [12] = 64 },
			16);
	expect_refused(attach(A), "nvme0n1: holds dos (--force");
	force.force = true;
	cr_assert_eq(move(force, true, A, NULL), 0, "%s", why);
	cr_expect(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "serial=SER-A forced"));
}

/* Neither by looking at it, nor by moving it there and back. */
Test(ctl_bind, nothing_is_written_to_a_drive)
{
	static uint8_t was[1 << 20], is[1 << 20];
	struct ctl_bind force = how();
	char path[128];
	FILE *f;

	for (size_t i = 0; i < sizeof(was); i++)
		was[i] = (uint8_t)(i * 7 + i / 512);
	memcpy(was + 510, (const uint8_t[]){ 0x55, 0xaa }, 2);
	ctl_world_write(&w, "nvme0n1", 0, was, sizeof(was));
	force.force = true;
	cr_assert_eq(move(force, true, A, NULL), 0, "%s", why);
	cr_assert_eq(move(force, false, A, NULL), 0, "%s", why);
	snprintf(path, sizeof(path), "%s/dev/nvme0n1", w.root);
	f = fopen(path, "r");
	cr_assert_not_null(f);
	cr_assert_eq(fread(is, 1, sizeof(is), f), sizeof(is));
	cr_assert_eq(fgetc(f), EOF);
	cr_expect_eq(memcmp(is, was, sizeof(was)), 0);
	fclose(f);
}

Test(ctl_bind, what_cannot_be_seen_needs_force)
{
	ctl_world_remove(&w, "/dev/nvme0n1");
	expect_refused(attach(A), "cannot be examined");
}

Test(ctl_bind, no_device_no_drive_no_driver_no_iommu)
{
	ctl_world_device(&w, "0000:00:1f.2", "0x010601", "ahci", 3);
	expect_refused(attach("0000:09:00.0"), "no such device");
	expect_refused(attach("0000:00:1f.2"), "not an NVMe device (its class is 0x010601)");
	ctl_world_remove(&w, "/sys/bus/pci/drivers/vfio-pci");
	expect_refused(attach(A), "type: modprobe vfio-pci");
	ctl_world_dir(&w, "/sys/bus/pci/drivers/vfio-pci");
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A "/iommu_group");
	ctl_world_file(&w, "/sys/firmware/acpi/tables/DMAR", "x");
	expect_refused(attach(A), "no IOMMU is on; type: sed -i");
}

Test(ctl_bind, a_group_goes_as_a_whole)
{
	ctl_world_drive(&w, &(struct ctl_world_drive){ C, "nvme", 2, "SER-C", 11, 0 });
	expect_refused(attach(A), "type: wekactl drives attach pci:" A " pci:" C);
	cr_assert_eq(move(how(), true, A, C), 0, "%s", why);
	cr_expect_str_eq(ctl_world_driver(&w, C), "vfio-pci");
	ctl_world_device(&w, "0000:02:00.1", "0x040300", "snd_hda_intel", 12);
	cr_expect_lt(attach(B), 0);
	cr_expect(strstr(why, "group 12 has 0000:02:00.1 too, which snd_hda_intel has"), "%s", why);
}

Test(ctl_bind, a_user_who_is_not_there)
{
	struct ctl_bind bind = how();

	bind.user = "no-such-user-here";
	cr_expect_lt(move(bind, true, A, NULL), 0);
	cr_expect(strstr(why, "there is no user 'no-such-user-here'; type: adduser"), "%s", why);
	expect_untouched("user", 0);
	bind.user = NULL;
	bind.group = "$(reboot)";
	cr_expect_lt(move(bind, true, A, NULL), 0);
	expect_untouched("group", 0);
}

Test(ctl_bind, a_drive_that_a_process_has_is_detached_with_force_only)
{
	struct ctl_bind force = how();

	cr_assert_eq(attach(A), 0, "%s", why);
	ctl_world_file(&w, "/proc/77/comm", "weka-appliance\n");
	ctl_world_link(&w, "/proc/77/fd/9", "/dev/vfio/11");
	cr_expect_lt(move(how(), false, A, NULL), 0);
	cr_expect(strstr(why, "in use by weka-appliance (process 77)"), "%s", why);
	cr_expect_str_eq(ctl_world_driver(&w, A), "vfio-pci");
	force.force = true;
	cr_assert_eq(move(force, false, A, NULL), 0, "%s", why);
	cr_expect_str_eq(ctl_world_driver(&w, A), "nvme");
}

Test(ctl_bind, a_drive_of_a_third_driver_is_left_alone)
{
	ctl_world_drive(&w, &(struct ctl_world_drive){ C, "uio_pci_generic", 2, "SER-C", 14, 0 });
	expect_refused(attach(C), "bound to uio_pci_generic, so its content cannot be read");
	cr_expect_lt(move(how(), false, C, NULL), 0);
	cr_expect(strstr(why, "the driver uio_pci_generic has it"), "%s", why);
}

Test(ctl_bind, two_at_once_do_not_meet)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/sys/bus/pci/drivers_probe", w.root);
	f = fopen(path, "w");
	cr_assert_eq(flock(fileno(f), LOCK_EX | LOCK_NB), 0);
	expect_refused(attach(A), "another wekactl");
	fclose(f);
	cr_expect_eq(attach(A), 0, "%s", why);
}

Test(ctl_bind, a_file_of_drives_that_others_may_write_is_not_believed)
{
	char path[128];

	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A "\n");
	snprintf(path, sizeof(path), "%s" CTL_DRIVES_FILE, w.root);
	cr_assert_eq(chmod(path, 0666), 0);
	cr_expect_eq(attach(A), -EPERM);
	cr_expect(strstr(why, "others may write to it; type: chown"), "%s", why);
	cr_expect_eq(ctl_world_kernel.calls, 0);
}

/* ---- after a restart
 * ------------------------------------------------------------------------------- */

static char complaints[4096];

static void complain(const char *line)
{
	size_t at = strlen(complaints);

	snprintf(complaints + at, sizeof(complaints) - at, "%s\n", line);
}

static int restore(void)
{
	complaints[0] = '\0';
	return ctl_drives_restore(w.root, complain);
}

Test(ctl_bind, restore_attaches_what_is_remembered)
{
	cr_expect_eq(restore(), 0, "nothing is remembered");
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A " serial=SER-A\npci:" B "\n");
	cr_expect_eq(restore(), 0, "%s", complaints);
	cr_expect_str_eq(ctl_world_driver(&w, A), "vfio-pci");
	cr_expect_str_eq(ctl_world_driver(&w, B), "vfio-pci");
	cr_expect_eq(restore(), 0, "again: %s", complaints);
}

Test(ctl_bind, restore_takes_drives_of_one_group)
{
	ctl_world_drive(&w, &(struct ctl_world_drive){ C, "nvme", 2, "SER-C", 11, 0 });
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A "\npci:" C "\n");
	cr_expect_eq(restore(), 0, "%s", complaints);
	cr_expect_str_eq(ctl_world_driver(&w, C), "vfio-pci");
}

Test(ctl_bind, restore_does_not_take_another_drive_at_the_same_address)
{
	ctl_world_file(&w, CTL_DRIVES_FILE,
		       "pci:" A " serial=SER-X forced\npci:" C " serial=S\npci:" B
		       " serial=SER-B\n");
	cr_expect_lt(restore(), 0);
	cr_expect(strstr(complaints,
			 "another drive has this address now (serial SER-A, it was SER-X)"),
		  "%s", complaints);
	cr_expect(strstr(complaints, "pci:" C ": no such device"), "%s", complaints);
	cr_expect_str_eq(ctl_world_driver(&w, A), "nvme");
	cr_expect_str_eq(ctl_world_driver(&w, B), "vfio-pci", "the rest goes on");
}

Test(ctl_bind, restore_takes_no_drive_that_is_used_meanwhile)
{
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A " serial=SER-A forced\n");
	ctl_world_file(&w, "/proc/self/mountinfo", "1 2 259:0 / /home rw - xfs /dev/x rw\n");
	cr_expect_lt(restore(), 0);
	cr_expect(strstr(complaints, "mounted on /home"), "%s", complaints);
	cr_expect_str_eq(ctl_world_driver(&w, A), "nvme");
}

Test(ctl_bind, a_drive_that_is_gone_can_be_forgotten)
{
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" C " serial=S\npci:" B "\n");
	cr_expect_eq(move(how(), false, C, NULL), 0, "%s", why);
	cr_expect_not(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "pci:" C));
	cr_expect(strstr(ctl_world_read(&w, CTL_DRIVES_FILE), "pci:" B));
}
