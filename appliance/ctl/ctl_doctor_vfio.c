/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl doctor: kernel, IOMMU, vfio, and each drive of the appliance. */
#include "appliance/ctl/ctl_doctor.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRUB "/etc/default/grub"

void ctl_doctor_kernel(struct ctl_doctor *d)
{
	char release[128];
	uint32_t major = 0, minor = 0;

	if (ctl_sysfs_read(release, sizeof(release), d->root, "/proc/sys/kernel/osrelease"))
		release[0] = '\0';
	if (sscanf(release, "%9u.%9u", &major, &minor) == 2 &&
	    (major > 6 || (major == 6 && minor >= 1))) {
		ctl_doctor_ok(d, "kernel", "%s", release);
		return;
	}
	ctl_doctor_wrong_is(d, "kernel", "%s: 6.1 or newer is needed",
			    *release ? release : "no version");
	ctl_doctor_fix(d, "apt install linux-image-amd64 && reboot");
}

/* ---- IOMMU ---------------------------------------------------------------------------------- */

/* Is `word` one of the kernel's command line? */
static bool booted_with(const char *root, const char *word)
{
	char line[4096], *at = line, *got;

	if (ctl_sysfs_read(line, sizeof(line), root, "/proc/cmdline"))
		return false;
	while ((got = ctl_next_word(&at)))
		if (strcmp(got, word) == 0)
			return true;
	return false;
}

/* The word that turns it off, if one does. */
static const char *turned_off(const char *root)
{
	static const char *const words[] = { "iommu=off", "intel_iommu=off", "amd_iommu=off" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (booted_with(root, words[i]))
			return words[i];
	return NULL;
}

static bool is_amd(const char *root)
{
	char *text;
	size_t bytes;
	bool amd;

	if (ctl_sysfs_slurp(&text, &bytes, root, "/proc/cpuinfo"))
		return false;
	amd = strstr(text, "AuthenticAMD") || strstr(text, "HygonGenuine");
	free(text);
	return amd;
}

/* The firmware's table of IOMMUs; its absence means that they are off there, or not built in. */
static bool firmware_has(const char *root)
{
	return ctl_sysfs_exists(root, "/sys/firmware/acpi/tables/DMAR") ||
	       ctl_sysfs_exists(root, "/sys/firmware/acpi/tables/IVRS") ||
	       ctl_sysfs_exists(root, "/sys/firmware/acpi/tables/IORT");
}

/* Debian's GRUB: words of GRUB_CMDLINE_LINUX are for every entry of the menu. */
void ctl_fix_iommu(const char *root, char out[CTL_WHY_SIZE])
{
	const char *off = turned_off(root);

	if (off)
		snprintf(out, CTL_WHY_SIZE,
			 "sed -i 's/ *\\b%s\\b//' " GRUB " && update-grub && reboot", off);
	else if (!firmware_has(root))
		snprintf(out, CTL_WHY_SIZE,
			 "systemctl reboot --firmware-setup   # and turn on %s there",
			 is_amd(root) ? "AMD-Vi (IOMMU)" : "VT-d (IOMMU)");
	else if (is_amd(root)) /* on, unless it is turned off */
		snprintf(out, CTL_WHY_SIZE,
			 "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' " GRUB
			 " && update-grub && reboot");
	else
		snprintf(out, CTL_WHY_SIZE,
			 "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&intel_iommu=on iommu=pt /' " GRUB
			 " && update-grub && reboot");
}

/* The kernel names interrupts "IR-..." when they go through the IOMMU. */
static bool interrupts_remapped(const char *root, bool *is_x86)
{
	char *text;
	size_t bytes;
	bool remapped;

	*is_x86 = false;
	if (ctl_sysfs_slurp(&text, &bytes, root, "/proc/interrupts"))
		return false;
	remapped = strstr(text, " IR-") != NULL;
	*is_x86 = strstr(text, "IO-APIC") != NULL;
	free(text);
	return remapped;
}

static void look_remapping(struct ctl_doctor *d)
{
	static const char *const words[] = { "intremap=off", "nointremap" };
	char unsafe[8];
	bool is_x86;

	if (interrupts_remapped(d->root, &is_x86) || !is_x86 || !ctl_doctor_wants_vfio(d)) {
		ctl_doctor_ok(d, "interrupts", "%s",
			      !is_x86 ? "not of this kind of machine"
			      : ctl_doctor_wants_vfio(d)
				      ? "remapped"
				      : "only pci: drives need them remapped, and there are none");
		return;
	}
	if (ctl_sysfs_read(unsafe, sizeof(unsafe), d->root,
			   "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts") ==
		    0 &&
	    *unsafe == 'Y') {
		ctl_doctor_ok(d, "interrupts", "not remapped, which vfio was told to allow");
		return;
	}
	ctl_doctor_wrong_is(d, "interrupts", "not remapped: vfio refuses every drive");
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (booted_with(d->root, words[i])) {
			ctl_doctor_fix(d,
				       "sed -i 's/ *\\b%s\\b//' " GRUB " && update-grub && reboot",
				       words[i]);
			return;
		}
	ctl_doctor_fix(d,
		       "echo 'options vfio_iommu_type1 allow_unsafe_interrupts=1' > "
		       "/etc/modprobe.d/weka-vfio.conf && reboot   # a drive could then raise any "
		       "interrupt");
}

void ctl_doctor_iommu(struct ctl_doctor *d)
{
	const char *off = turned_off(d->root);
	char fix[CTL_WHY_SIZE];
	struct ctl_entries e;
	uint32_t groups = 0;

	if (ctl_sysfs_list(&e, d->root, "/sys/kernel/iommu_groups") == 0)
		groups = e.count;
	ctl_entries_free(&e);
	if (groups) {
		ctl_doctor_ok(d, "iommu", "on, %u groups", groups);
		look_remapping(d);
		return;
	}
	if (!ctl_doctor_wants_vfio(d)) {
		ctl_doctor_ok(d, "iommu", "off; only pci: drives need it, and there are none");
		return;
	}
	if (off)
		ctl_doctor_wrong_is(d, "iommu", "off: the kernel was started with %s", off);
	else if (!firmware_has(d->root))
		ctl_doctor_wrong_is(d, "iommu", "off: the firmware shows none");
	else
		ctl_doctor_wrong_is(d, "iommu", "off: no group in /sys/kernel/iommu_groups");
	ctl_fix_iommu(d->root, fix);
	ctl_doctor_fix(d, "%s", fix);
}

/* ---- vfio ----------------------------------------------------------------------------------- */

/* Has the running kernel this module, in a file? */
static bool module_is_there(const struct ctl_doctor *d, const char *file)
{
	char release[128], *text;
	size_t bytes;
	bool there;

	if (ctl_sysfs_read(release, sizeof(release), d->root, "/proc/sys/kernel/osrelease") ||
	    ctl_sysfs_slurp(&text, &bytes, d->root, "/lib/modules/%s/modules.dep", release))
		return false;
	there = strstr(text, file) != NULL;
	free(text);
	return there;
}

void ctl_doctor_vfio(struct ctl_doctor *d)
{
	bool driver = ctl_sysfs_exists(d->root, "/sys/bus/pci/drivers/vfio-pci");
	bool type1 = ctl_sysfs_exists(d->root, "/sys/module/vfio_iommu_type1");

	if (driver && type1 && ctl_sysfs_exists(d->root, "/dev/vfio/vfio")) {
		ctl_doctor_ok(d, "vfio", "vfio-pci and vfio_iommu_type1 are loaded");
		return;
	}
	if (!ctl_doctor_wants_vfio(d)) {
		ctl_doctor_ok(d, "vfio",
			      "not loaded; only pci: drives need it, and there are none");
		return;
	}
	if (!driver && !module_is_there(d, "/vfio-pci.ko")) {
		ctl_doctor_wrong_is(d, "vfio", "this kernel has no module vfio-pci");
		ctl_doctor_fix(d, "apt install linux-image-amd64 && reboot");
		return;
	}
	ctl_doctor_wrong_is(d, "vfio", "%s is not loaded",
			    driver ? "vfio_iommu_type1" : "vfio-pci");
	ctl_doctor_fix(
		d,
		"modprobe -a vfio_iommu_type1 vfio-pci && printf 'vfio_iommu_type1\\nvfio-pci\\n'"
		" > /etc/modules-load.d/weka-vfio.conf");
}

/* ---- drives
 * ---------------------------------------------------------------------------------------- */

static void look_group(struct ctl_doctor *d, const struct ctl_drive *drive)
{
	char path[CTL_PATH_SIZE];

	if (*drive->blocker && ctl_doctor_drive(d, drive->blocker)) {
		ctl_doctor_wrong_is(d, "drive", "pci:%s: its IOMMU group %d has pci:%s too",
				    drive->pci, drive->group, drive->blocker);
		ctl_doctor_fix(d, "wekactl drives attach pci:%s", drive->blocker);
	} else if (*drive->blocker) {
		ctl_doctor_wrong_is(
			d, "drive", "pci:%s: its IOMMU group %d has %s too, which %s has",
			drive->pci, drive->group, drive->blocker, drive->blocker_driver);
		ctl_doctor_fix(d, "echo %s > /sys/bus/pci/devices/%s/driver/unbind", drive->blocker,
			       drive->blocker);
	} else if (drive->group < 0) {
		ctl_doctor_wrong_is(d, "drive", "pci:%s: in no IOMMU group", drive->pci);
		ctl_fix_iommu(d->root, path);
		ctl_doctor_fix(d, "%.500s", path);
	} else if (ctl_sysfs_path(path, d->root, "/dev/vfio/%d", drive->group) == 0 &&
		   access(path, R_OK | W_OK) == 0) {
		ctl_doctor_ok(d, "drive", "pci:%s: attached, IOMMU group %d", drive->pci,
			      drive->group);
	} else {
		ctl_doctor_wrong_is(d, "drive", "pci:%s: /dev/vfio/%d: %s for this user",
				    drive->pci, drive->group, strerror(errno));
		ctl_doctor_fix(d, "sudo wekactl drives attach --group $(id -gn) pci:%s",
			       drive->pci);
	}
}

static void look_drive(struct ctl_doctor *d, const char *pci, bool saved)
{
	const struct ctl_drive *drive = ctl_doctor_drive(d, pci);

	if (!drive) {
		ctl_doctor_wrong_is(d, "drive", "pci:%s: no such NVMe device", pci);
		if (saved)
			ctl_doctor_fix(d, "wekactl drives detach pci:%s", pci);
		else
			ctl_doctor_fix(d, "wekactl drives   # and correct %s", d->conf_file);
		return;
	}
	if (strcmp(drive->driver, "vfio-pci") == 0) {
		look_group(d, drive);
		return;
	}
	ctl_doctor_wrong_is(d, "drive", "pci:%s: %s has it, not vfio-pci", pci,
			    *drive->driver ? drive->driver : "no driver");
	if (saved)
		ctl_doctor_fix(d, "wekactl drives restore");
	else
		ctl_doctor_fix(d, "wekactl drives attach pci:%s", pci);
}

/* Those of the configuration, and those that were attached. */
void ctl_doctor_drives(struct ctl_doctor *d)
{
	char pci[CTL_PCI_SIZE];

	for (uint32_t i = 0; d->conf && i < d->conf->ndrives; i++)
		if (ctl_doctor_pci(d->conf->drive[i], pci) && !ctl_saved_find(&d->saved, pci))
			look_drive(d, pci, false);
	for (uint32_t i = 0; i < d->saved.count; i++)
		look_drive(d, d->saved.drive[i].pci, true);
}

/* A systemd unit attaches remembered drives again. */
void ctl_doctor_restore(struct ctl_doctor *d)
{
	if (d->saved.count == 0)
		return;
	if (ctl_sysfs_exists(d->root,
			     "/etc/systemd/system/multi-user.target.wants/weka-drives.service")) {
		ctl_doctor_ok(d, "restart", "weka-drives.service attaches %u drive%s again",
			      d->saved.count, d->saved.count == 1 ? "" : "s");
		return;
	}
	ctl_doctor_wrong_is(d, "restart",
			    "weka-drives.service is not enabled: after a restart drives "
			    "are the kernel's");
	ctl_doctor_fix(d, "systemctl enable weka-drives.service");
}
