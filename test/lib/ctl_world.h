/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A machine that a test has made, in a directory: /sys, /proc, /dev and /etc with NVMe drives in
 * them, and a kernel that answers when wekactl writes to /sys (it defines ctl_sysfs_write() in
 * place of the product's).  The kernel can be told to refuse a write, or not to hear it.
 */
#ifndef CTL_WORLD_H
#define CTL_WORLD_H

#include "appliance/ctl/ctl_drives.h"

struct ctl_world {
	char root[64];
};

struct ctl_world_drive {
	const char *pci;
	const char *driver; /* "nvme", "vfio-pci", NULL: none */
	uint32_t ctrl;      /* nvmeCTRL and nvmeCTRLn1        */
	const char *serial;
	int group; /* -1: none */
	int node;
};

/* Empty but for the drivers nvme and vfio-pci, and no mounts. */
void ctl_world_make(struct ctl_world *w);
void ctl_world_free(struct ctl_world *w);

__attribute__((format(printf, 3, 4))) void ctl_world_file(const struct ctl_world *w,
							  const char *path, const char *fmt, ...);
void ctl_world_link(const struct ctl_world *w, const char *path, const char *to);
void ctl_world_dir(const struct ctl_world *w, const char *path);
void ctl_world_remove(const struct ctl_world *w, const char *path);
/* Returns a file's content, without the newline at its end; "" if there is no such file. */
const char *ctl_world_read(const struct ctl_world *w, const char *path);

/* A PCI device of any class. */
void ctl_world_device(const struct ctl_world *w, const char *pci, const char *class,
		      const char *driver, int group);
/* A drive with one empty namespace of 1 MiB, /dev/nvmeCTRLn1, of the number 259:CTRL. */
void ctl_world_drive(const struct ctl_world *w, const struct ctl_world_drive *d);
/* A partition of it, of 259:(100 * part + CTRL). */
void ctl_world_partition(const struct ctl_world *w, uint32_t ctrl, uint32_t part);
/* Bytes into /dev/NAME. */
void ctl_world_write(const struct ctl_world *w, const char *dev, uint64_t offset, const void *bytes,
		     size_t size);

/* Returns the name of the driver bound to it, or "". */
const char *ctl_world_driver(const struct ctl_world *w, const char *pci);

struct ctl_world_kernel {
	uint32_t calls;     /* writes so far                         */
	uint32_t fail_at;   /* this one (from 1 on) gets -EIO        */
	uint32_t fail_from; /* this one and all that follow do       */
	uint32_t deaf_at;   /* this one does nothing, and says 0     */
};
extern struct ctl_world_kernel ctl_world_kernel;

#endif
