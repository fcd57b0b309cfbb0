/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A PCI device in sysfs: whether we may drive it, and if not, why.
 *
 *   SYS/bus/pci/devices/0000:01:00.0/
 *     class, vendor, device       numbers
 *     driver        -> .../vfio-pci
 *     iommu_group   -> .../kernel/iommu_groups/12
 *   SYS/kernel/iommu_groups/12/devices/
 *     0000:01:00.0, ...           all of a group belong together: the IOMMU cannot separate them
 *
 * libpci names vendors and devices.
 */
#include "nvme/nvme_pci.h"
#include "nvme/pci/nvme_vfio.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pci/pci.h>

#define CLASS_NVME   0x010802u
#define CLASS_BRIDGE 0x06u /* base class: it translates no addresses and cannot be attached */

int nvme__why(const struct nvme_why *why, int err, const char *format, ...)
{
	char text[NVME_ERR_TEXT];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	nvme__err_text(why->text, why->text_size, why->name, "%s", text);
	return err;
}

/* A number that a file of the device holds; -ENODEV: there is no such file. */
static int read_number(const char *dir, const char *file, uint32_t *out)
{
	char path[PATH_MAX], line[32] = "";
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return -ENODEV;
	f = fopen(path, "re");
	if (!f)
		return -ENODEV;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	*out = (uint32_t)strtoul(line, NULL, 0);
	return 0;
}

/* The last part of where a link points to; "" when there is no link. */
static void read_link(const char *dir, const char *file, char *out, size_t out_size)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *last;
	ssize_t size = -1;

	out[0] = 0;
	if (snprintf(path, sizeof(path), "%s/%s", dir, file) < (int)sizeof(path))
		size = readlink(path, target, sizeof(target) - 1);
	if (size < 0)
		return;
	target[size] = 0;
	last = strrchr(target, '/');
	last = last ? last + 1 : target;
	if (strlen(last) < out_size)
		memcpy(out, last, strlen(last) + 1);
}

int nvme__pci_read(struct nvme_pci *out, const char *sys, const char *address)
{
	char dir[PATH_MAX], group[16];

	memset(out, 0, sizeof(*out));
	(void)snprintf(out->address, sizeof(out->address), "%s", address);
	if (snprintf(dir, sizeof(dir), "%s/bus/pci/devices/%s", sys, address) >= (int)sizeof(dir))
		return -ENODEV;
	if (read_number(dir, "class", &out->class_code) ||
	    read_number(dir, "vendor", &out->vendor) || read_number(dir, "device", &out->device))
		return -ENODEV;
	read_link(dir, "driver", out->driver, sizeof(out->driver));
	read_link(dir, "iommu_group", group, sizeof(group));
	out->group = *group ? atoi(group) : -1;
	return 0;
}

/* ---- names of devices ------------------------------------------------------------------ */

/* libpci ends whoever meets an error in its list of names: so that is a thread of its own. */
struct lookup {
	const struct nvme_pci *pci;
	char name[128];
	bool found;
};

static __attribute__((noreturn)) void on_error(char *format, ...)
{
	(void)format;
	pthread_exit(NULL);
}

static void on_message(char *format, ...)
{
	(void)format;
}

static void *look_up(void *argument)
{
	struct pci_access *access = pci_alloc();
	struct lookup *l = argument;

	access->error = on_error;
	access->warning = on_message;
	access->debug = on_message;
	l->found = pci_lookup_name(access, l->name, sizeof(l->name),
				   PCI_LOOKUP_VENDOR | PCI_LOOKUP_DEVICE, (int)l->pci->vendor,
				   (int)l->pci->device) != NULL;
	pci_cleanup(access);
	return NULL;
}

void nvme__pci_describe(const struct nvme_pci *pci, char *text, size_t text_size)
{
	struct lookup l = { .pci = pci };
	pthread_t thread;

	if (pthread_create(&thread, NULL, look_up, &l) == 0)
		(void)pthread_join(thread, NULL);
	if (l.found)
		(void)snprintf(text, text_size, "%s", l.name);
	else
		(void)snprintf(text, text_size, "Device %04x:%04x", pci->vendor, pci->device);
}

/* ---- may we drive it? ------------------------------------------------------------------ */

int nvme__pci_check(const struct nvme_pci *pci, const struct nvme_why *why)
{
	char what[96];

	if (pci->class_code != CLASS_NVME) {
		nvme__pci_describe(pci, what, sizeof(what));
		return nvme__why(why, -ENOTSUP, "not an NVMe controller but %s (class %06x)", what,
				 pci->class_code);
	}
	if (pci->group < 0)
		return nvme__why(why, -ENOTSUP,
				 "no IOMMU is on: turn it on in the firmware, and boot the kernel "
				 "with intel_iommu=on (wekactl doctor says more)");
	if (strcmp(pci->driver, "vfio-pci") != 0)
		return nvme__why(why, -EBUSY,
				 "%s%s, not to vfio-pci; type: wekactl drives attach %s",
				 *pci->driver ? "bound to " : "bound to no driver", pci->driver,
				 pci->address);
	return 0;
}

static bool harmless(const struct nvme_pci *pci)
{
	return nvme_pci_shares_group(pci->driver) || pci->class_code >> 16 == CLASS_BRIDGE;
}

void nvme__pci_neighbours(const struct nvme_pci *pci, const char *sys, char *text, size_t text_size)
{
	char path[PATH_MAX], what[64];
	const struct dirent *entry;
	struct nvme_pci other;
	size_t at = 0;
	DIR *dir;

	text[0] = 0;
	(void)snprintf(path, sizeof(path), "%s/kernel/iommu_groups/%d/devices", sys, pci->group);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, pci->address) == 0 ||
		    nvme__pci_read(&other, sys, entry->d_name) || harmless(&other))
			continue;
		nvme__pci_describe(&other, what, sizeof(what));
		at += (size_t)snprintf(text + at, text_size - at, "%s%s (%s, driver %s)",
				       at ? ", " : "", entry->d_name, what, other.driver);
		if (at >= text_size)
			break;
	}
	closedir(dir);
}
