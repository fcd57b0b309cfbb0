/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives: every NVMe device of the machine, from sysfs.
 *
 *   /sys/bus/pci/devices/0000:01:00.0/   class 0x0108xx, vendor, device, numa_node
 *       driver -> nvme | vfio-pci        iommu_group -> 12
 *       nvme/nvme0/                      model, serial, firmware_rev; only under the kernel's
 * driver nvme0n1/  nvme0c0n1/         a namespace; one of several paths to nvme0n1
 *   /sys/class/block/nvme0n1/            size, nsid, queue/logical_block_size, nvme0n1p1/
 */
#include "appliance/ctl/ctl_drives.h"
#include "base/num.h"
#include "nvme/nvme_pci.h"

#include <errno.h>
#include <pci/pci.h>
#include <stdlib.h>
#include <string.h>

#define PCI_DEVICES     "/sys/bus/pci/devices"
#define CLASS_NVME      0x0108u /* mass storage, non-volatile memory */
#define NS_MAX          1024u
#define BLOCK_BYTES_MAX (1u << 20)

void ctl_pci_driver(const char *root, const char *pci, char out[CTL_ENTRY_SIZE])
{
	if (ctl_sysfs_link(out, CTL_ENTRY_SIZE, root, PCI_DEVICES "/%s/driver", pci))
		out[0] = '\0';
}

static uint32_t id_of(const char *root, const char *pci, const char *what)
{
	int64_t v;

	if (ctl_sysfs_i64(&v, root, PCI_DEVICES "/%s/%s", pci, what) || v < 0 || v > 0xffff)
		return 0xffff;
	return (uint32_t)v;
}

__attribute__((format(printf, 1, 2))) static void say_nothing(char *msg, ...)
{
	(void)msg;
}

static void name_product(struct ctl_drive *d)
{
	struct pci_access *acc = pci_alloc();

	/* No pci_init(), which looks for devices: only the list of ids is used, if there is one.
	 * So what pci_init() would fill in is filled in here. */
	acc->warning = say_nothing;
	acc->debug = say_nothing;
	if (!pci_lookup_name(acc, d->product, sizeof(d->product),
			     PCI_LOOKUP_VENDOR | PCI_LOOKUP_DEVICE, d->vendor_id, d->device_id))
		d->product[0] = '\0';
	ctl_printable(d->product);
	pci_cleanup(acc);
}

/* ---- IOMMU groups ----------------------------------------------------------------------- */

void ctl_group_look(struct ctl_drive *d, const char *root, const struct ctl_saved_list *own)
{
	struct ctl_entries e = { 0 };
	char driver[CTL_ENTRY_SIZE];

	d->group_others = 0;
	d->blocker[0] = '\0';
	if (d->group >= 0 &&
	    ctl_sysfs_list(&e, root, "/sys/kernel/iommu_groups/%d/devices", d->group) == 0)
		for (uint32_t i = 0; i < e.count; i++) {
			if (strcmp(e.name[i], d->pci) == 0)
				continue;
			d->group_others++;
			ctl_pci_driver(root, e.name[i], driver);
			if (*d->blocker || nvme_pci_shares_group(driver) ||
			    (own && ctl_saved_find(own, e.name[i])))
				continue;
			snprintf(d->blocker, sizeof(d->blocker), "%.19s", e.name[i]);
			snprintf(d->blocker_driver, sizeof(d->blocker_driver), "%s", driver);
		}
	ctl_entries_free(&e);
}

/* ---- namespaces ---------------------------------------------------------------------------- */

/*
 * The block device of an entry under a controller: "nvme0n1" is its own, "nvme0c1n1" is one path
 * of nvme0n1 (several controllers of a subsystem).  False: it is no namespace.
 */
static bool block_name(const char *entry, char *out, size_t out_size)
{
	uint32_t a, b, c;
	int end = 0;

	if (sscanf(entry, "nvme%9uc%9un%9u%n", &a, &b, &c, &end) == 3 && !entry[end])
		snprintf(out, out_size, "nvme%un%u", a, c);
	else if (end = 0, sscanf(entry, "nvme%9un%9u%n", &a, &b, &end) == 2 && !entry[end])
		snprintf(out, out_size, "nvme%un%u", a, b);
	else
		return false;
	return true;
}

static void scan_namespace(struct ctl_drive *d, const char *root, const char *name)
{
	struct ctl_ns *ns;
	int64_t v;

	if (d->nns == NS_MAX)
		return;
	d->ns = realloc(d->ns, (d->nns + 1) * sizeof(*d->ns));
	ASSERT(d->ns);
	ns = &d->ns[d->nns++];
	*ns = (struct ctl_ns){ 0 };
	snprintf(ns->name, sizeof(ns->name), "%s", name);
	if (ctl_sysfs_i64(&v, root, "/sys/class/block/%s/size", name) == 0 && v > 0 &&
	    (uint64_t)v <= UINT64_MAX >> 9)
		ns->size_bytes = (uint64_t)v << 9;
	if (ctl_sysfs_i64(&v, root, "/sys/class/block/%s/nsid", name) == 0 && v > 0 &&
	    v < UINT32_MAX)
		ns->nsid = (uint32_t)v;
	if (ctl_sysfs_i64(&v, root, "/sys/class/block/%s/queue/logical_block_size", name) == 0 &&
	    v > 0 && v <= BLOCK_BYTES_MAX)
		ns->block_bytes = (uint32_t)v;
}

/* Reads a controller's attribute; empty if the kernel does not have it. */
static void attribute(const struct ctl_drive *d, const char *root, const char *what, char *out,
		      size_t out_size)
{
	if (ctl_sysfs_read(out, out_size, root, PCI_DEVICES "/%s/nvme/%s/%s", d->pci, d->ctrl,
			   what))
		out[0] = '\0';
}

/* Under the kernel's nvme driver. */
static void scan_controller(struct ctl_drive *d, const char *root)
{
	struct ctl_entries e;
	char name[CTL_ENTRY_SIZE];

	if (ctl_sysfs_list(&e, root, PCI_DEVICES "/%s/nvme", d->pci) == 0 && e.count)
		snprintf(d->ctrl, sizeof(d->ctrl), "%s", e.name[0]);
	ctl_entries_free(&e);
	if (!*d->ctrl)
		return;
	attribute(d, root, "model", d->model, sizeof(d->model));
	attribute(d, root, "serial", d->serial, sizeof(d->serial));
	attribute(d, root, "firmware_rev", d->firmware, sizeof(d->firmware));
	if (ctl_sysfs_list(&e, root, PCI_DEVICES "/%s/nvme/%s", d->pci, d->ctrl) == 0)
		for (uint32_t i = 0; i < e.count; i++)
			if (block_name(e.name[i], name, sizeof(name)))
				scan_namespace(d, root, name);
	ctl_entries_free(&e);
}

/* ---- devices -------------------------------------------------------------------------------- */

static void scan_device(struct ctl_drive *d, const char *root, const char *pci)
{
	char text[32];
	int64_t v;

	*d = (struct ctl_drive){ .node = -1, .group = -1 };
	snprintf(d->pci, sizeof(d->pci), "%s", pci);
	d->vendor_id = id_of(root, pci, "vendor");
	d->device_id = id_of(root, pci, "device");
	name_product(d);
	ctl_pci_driver(root, pci, d->driver);
	if (ctl_sysfs_i64(&v, root, PCI_DEVICES "/%s/numa_node", pci) == 0 && v >= 0 && v < 1024)
		d->node = (int32_t)v;
	if (ctl_sysfs_link(text, sizeof(text), root, PCI_DEVICES "/%s/iommu_group", pci) == 0 &&
	    ctl_parse_i64(text, &v) == 0 && v >= 0 && v <= INT32_MAX)
		d->group = (int32_t)v;
	ctl_group_look(d, root, NULL);
	scan_controller(d, root);
}

static bool is_nvme(const char *root, const char *pci)
{
	char same[CTL_PCI_SIZE];
	int64_t class;

	return ctl_pci_parse(pci, same) == 0 && strcmp(pci, same) == 0 &&
	       ctl_sysfs_i64(&class, root, PCI_DEVICES "/%s/class", pci) == 0 &&
	       class >> 8 == CLASS_NVME;
}

/* Adds the remembered attributes of drives without their own driver. */
static void add_saved(struct ctl_drive_list *list, const char *root)
{
	struct ctl_saved_list saved;
	char why[CTL_WHY_SIZE];

	if (ctl_saved_load(root, &saved, why))
		return;
	for (uint32_t i = 0; i < list->count; i++) {
		struct ctl_drive *d = &list->drive[i];
		const struct ctl_saved *s = ctl_saved_find(&saved, d->pci);

		d->saved = s != NULL;
		if (s && !*d->ctrl)
			memcpy(d->serial, s->serial, sizeof(d->serial));
	}
	free(saved.drive);
}

int ctl_drives_scan(struct ctl_drive_list *out, const char *root, bool deeply)
{
	struct ctl_users *users;
	struct ctl_entries e;
	int err = ctl_sysfs_list(&e, root, PCI_DEVICES);

	*out = (struct ctl_drive_list){ 0 };
	if (!err && e.count) {
		out->drive = calloc(e.count, sizeof(*out->drive));
		ASSERT(out->drive);
	}
	for (uint32_t i = 0; !err && i < e.count; i++)
		if (is_nvme(root, e.name[i]))
			scan_device(&out->drive[out->count++], root, e.name[i]);
	ctl_entries_free(&e);
	if (err)
		return err;
	add_saved(out, root);
	users = deeply ? ctl_users_create(root) : NULL;
	for (uint32_t i = 0; users && i < out->count; i++) {
		ctl_drive_health(&out->drive[i], root);
		ctl_drive_uses(&out->drive[i], users);
	}
	if (users)
		ctl_users_destroy(users);
	return 0;
}

void ctl_drives_free(struct ctl_drive_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		free(list->drive[i].ns);
		free(list->drive[i].use);
	}
	free(list->drive);
	*list = (struct ctl_drive_list){ 0 };
}
