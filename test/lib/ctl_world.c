/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A machine that a test has made, and its kernel: see ctl_world.h. */
#define _GNU_SOURCE
#include "test/lib/ctl_world.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICES "/sys/bus/pci/devices"

struct ctl_world_kernel ctl_world_kernel;

/* ---- a tree ------------------------------------------------------------------------------- */

static void path_in(const struct ctl_world *w, char out[CTL_PATH_SIZE], const char *path)
{
	int err = ctl_sysfs_path(out, w->root, "%s", path);

	ASSERT(!err);
}

static void make_parents(const char *path)
{
	char dir[CTL_PATH_SIZE];
	int rc;

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *at = dir + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		rc = mkdir(dir, 0755);
		ASSERT(rc == 0 || errno == EEXIST);
		*at = '/';
	}
}

void ctl_world_dir(const struct ctl_world *w, const char *path)
{
	char full[CTL_PATH_SIZE], inside[CTL_PATH_SIZE + 2];

	path_in(w, full, path);
	snprintf(inside, sizeof(inside), "%s/x", full);
	make_parents(inside);
}

void ctl_world_file(const struct ctl_world *w, const char *path, const char *fmt, ...)
{
	char full[CTL_PATH_SIZE];
	va_list ap;
	FILE *f;

	path_in(w, full, path);
	make_parents(full);
	f = fopen(full, "w");
	ASSERT(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

void ctl_world_link(const struct ctl_world *w, const char *path, const char *to)
{
	char full[CTL_PATH_SIZE];
	int rc;

	path_in(w, full, path);
	make_parents(full);
	(void)unlink(full);
	rc = symlink(to, full);
	ASSERT(rc == 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void ctl_world_remove(const struct ctl_world *w, const char *path)
{
	char full[CTL_PATH_SIZE];

	path_in(w, full, path);
	(void)nftw(full, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *ctl_world_read(const struct ctl_world *w, const char *path)
{
	static char text[65536];
	size_t bytes;
	char *got;

	text[0] = '\0';
	if (ctl_sysfs_slurp(&got, &bytes, w->root, "%s", path))
		return text;
	snprintf(text, sizeof(text), "%s", got);
	free(got);
	if (*text && text[strlen(text) - 1] == '\n')
		text[strlen(text) - 1] = '\0';
	return text;
}

void ctl_world_make(struct ctl_world *w)
{
	snprintf(w->root, sizeof(w->root), "/tmp/weka-ctl.XXXXXX");
	ASSERT(mkdtemp(w->root));
	ctl_world_file(w, "/proc/self/mountinfo",
		       "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n");
	ctl_world_file(w, "/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
	ctl_world_dir(w, DEVICES);
	ctl_world_file(w, "/sys/bus/pci/drivers_probe", "%s", "");
	ctl_world_dir(w, "/sys/bus/pci/drivers/nvme");
	ctl_world_dir(w, "/sys/bus/pci/drivers/vfio-pci");
	ctl_world_dir(w, "/sys/class/block");
	ctl_world_dir(w, "/sys/kernel/iommu_groups");
	ctl_world_file(w, "/dev/vfio/vfio", "%s", "");
	ctl_world_dir(w, "/etc");
	memset(&ctl_world_kernel, 0, sizeof(ctl_world_kernel));
}

void ctl_world_free(struct ctl_world *w)
{
	ctl_world_remove(w, "");
}

/* ---- devices -------------------------------------------------------------------------------- */

#define PATH(...)                                                                                  \
	({                                                                                         \
		static char path_[CTL_PATH_SIZE];                                                  \
		snprintf(path_, sizeof(path_), __VA_ARGS__);                                       \
		path_;                                                                             \
	})

void ctl_world_device(const struct ctl_world *w, const char *pci, const char *class,
		      const char *driver, int group)
{
	ctl_world_file(w, PATH(DEVICES "/%s/class", pci), "%s\n", class);
	ctl_world_file(w, PATH(DEVICES "/%s/vendor", pci), "0x1b36\n");
	ctl_world_file(w, PATH(DEVICES "/%s/device", pci), "0x0010\n");
	ctl_world_file(w, PATH(DEVICES "/%s/numa_node", pci), "-1\n");
	ctl_world_file(w, PATH(DEVICES "/%s/driver_override", pci), "(null)\n");
	if (driver) {
		ctl_world_dir(w, PATH("/sys/bus/pci/drivers/%s", driver));
		ctl_world_link(w, PATH(DEVICES "/%s/driver", pci),
			       PATH("../../drivers/%s", driver));
	}
	if (group < 0)
		return;
	ctl_world_link(w, PATH(DEVICES "/%s/iommu_group", pci),
		       PATH("../../../../kernel/iommu_groups/%d", group));
	ctl_world_dir(w, PATH("/sys/kernel/iommu_groups/%d/devices/%s", group, pci));
	if (driver && strcmp(driver, "vfio-pci") == 0)
		ctl_world_file(w, PATH("/dev/vfio/%d", group), "%s", "");
}

static void block_device(const struct ctl_world *w, const char *sys, const char *name,
			 uint32_t minor)
{
	char full[CTL_PATH_SIZE];
	int rc;

	ctl_world_file(w, PATH("%s/dev", sys), "259:%u\n", minor);
	ctl_world_file(w, PATH("%s/size", sys), "2048\n");
	ctl_world_dir(w, PATH("%s/holders", sys));
	ctl_world_file(w, PATH("/dev/%s", name), "%s", "");
	path_in(w, full, PATH("/dev/%s", name));
	rc = truncate(full, 1 << 20);
	ASSERT(rc == 0);
}

void ctl_world_drive(const struct ctl_world *w, const struct ctl_world_drive *d)
{
	bool here = d->driver && strcmp(d->driver, "nvme") == 0;
	char ctrl[128], name[64], sys[128];

	ctl_world_device(w, d->pci, "0x010802", d->driver, d->group);
	ctl_world_file(w, PATH(DEVICES "/%s/numa_node", d->pci), "%d\n", d->node);
	/* The directory that the nvme driver makes; hidden (by a dot) while the driver is not
	 * bound. */
	snprintf(ctrl, sizeof(ctrl), DEVICES "/%s/%s/nvme%u", d->pci, here ? "nvme" : ".nvme",
		 d->ctrl);
	ctl_world_file(w, PATH("%s/model", ctrl), "Fast Drive 9000      \n");
	ctl_world_file(w, PATH("%s/serial", ctrl), "%-20s\n", d->serial);
	ctl_world_file(w, PATH("%s/firmware_rev", ctrl), "1.0     \n");
	ctl_world_dir(w, PATH("%s/nvme%un1", ctrl, d->ctrl));
	ctl_world_dir(w, PATH("%s/ng%un1", ctrl, d->ctrl));
	ctl_world_dir(w, PATH("%s/hwmon3", ctrl));
	snprintf(name, sizeof(name), "nvme%un1", d->ctrl);
	snprintf(sys, sizeof(sys), "/sys/class/block/%s", name);
	block_device(w, sys, name, d->ctrl);
	ctl_world_file(w, PATH("%s/nsid", sys), "1\n");
	ctl_world_file(w, PATH("%s/queue/logical_block_size", sys), "4096\n");
}

void ctl_world_partition(const struct ctl_world *w, uint32_t ctrl, uint32_t part)
{
	char name[64], sys[256];

	snprintf(name, sizeof(name), "nvme%un1p%u", ctrl, part);
	snprintf(sys, sizeof(sys), "/sys/class/block/nvme%un1/%s", ctrl, name);
	block_device(w, sys, name, 100 * part + ctrl);
	ctl_world_file(w, PATH("%s/partition", sys), "%u\n", part);
	ctl_world_link(w, PATH("/sys/class/block/%s", name), PATH("nvme%un1/%s", ctrl, name));
}

void ctl_world_write(const struct ctl_world *w, const char *dev, uint64_t offset, const void *bytes,
		     size_t size)
{
	char full[CTL_PATH_SIZE];
	ssize_t wrote;
	int fd;

	path_in(w, full, PATH("/dev/%s", dev));
	fd = open(full, O_WRONLY);
	ASSERT(fd >= 0);
	wrote = pwrite(fd, bytes, size, (off_t)offset);
	ASSERT(wrote == (ssize_t)size);
	close(fd);
}

const char *ctl_world_driver(const struct ctl_world *w, const char *pci)
{
	static char driver[CTL_ENTRY_SIZE];

	ctl_pci_driver(w->root, pci, driver);
	return driver;
}

/* ---- its kernel
 * ---------------------------------------------------------------------------------- */

static void move_entry(const struct ctl_world *w, const char *from, const char *to)
{
	char a[CTL_PATH_SIZE], b[CTL_PATH_SIZE];

	path_in(w, a, from);
	path_in(w, b, to);
	(void)rename(a, b);
}

static void group_of(const struct ctl_world *w, const char *pci, char out[32])
{
	if (ctl_sysfs_link(out, 32, w->root, DEVICES "/%s/iommu_group", pci))
		out[0] = '\0';
}

static void kernel_unbind(const struct ctl_world *w, const char *pci)
{
	char group[32], from[256], to[256];

	group_of(w, pci, group);
	if (strcmp(ctl_world_driver(w, pci), "vfio-pci") == 0)
		ctl_world_remove(w, PATH("/dev/vfio/%s", group));
	snprintf(from, sizeof(from), DEVICES "/%s/nvme", pci);
	snprintf(to, sizeof(to), DEVICES "/%s/.nvme", pci);
	move_entry(w, from, to);
	ctl_world_remove(w, PATH(DEVICES "/%s/driver", pci));
}

static void kernel_probe(const struct ctl_world *w, const char *pci)
{
	char wanted[64], group[32], from[256], to[256];

	if (*ctl_world_driver(w, pci))
		return;
	snprintf(wanted, sizeof(wanted), "%s",
		 ctl_world_read(w, PATH(DEVICES "/%s/driver_override", pci)));
	if (strcmp(wanted, "(null)") == 0)
		snprintf(wanted, sizeof(wanted), "nvme");
	if (!ctl_sysfs_exists(w->root, "/sys/bus/pci/drivers/%s", wanted))
		return;
	ctl_world_link(w, PATH(DEVICES "/%s/driver", pci), PATH("../../drivers/%s", wanted));
	group_of(w, pci, group);
	if (strcmp(wanted, "vfio-pci") == 0)
		ctl_world_file(w, PATH("/dev/vfio/%s", group), "%s", "");
	snprintf(from, sizeof(from), DEVICES "/%s/.nvme", pci);
	snprintf(to, sizeof(to), DEVICES "/%s/nvme", pci);
	if (strcmp(wanted, "nvme") == 0)
		move_entry(w, from, to);
}

int ctl_sysfs_write(const char *root, const char *path, const char *text)
{
	struct ctl_world_kernel *k = &ctl_world_kernel;
	const char *last = strrchr(path, '/');
	struct ctl_world w;

	snprintf(w.root, sizeof(w.root), "%s", root);
	k->calls++;
	if (k->calls == k->fail_at || (k->fail_from && k->calls >= k->fail_from))
		return -EIO;
	if (k->calls == k->deaf_at)
		return 0;
	if (strcmp(last, "/driver_override") == 0)
		ctl_world_file(&w, path, "%s\n", *text == '\n' ? "(null)" : text);
	else if (strcmp(last, "/unbind") == 0)
		kernel_unbind(&w, text);
	else if (strcmp(path, "/sys/bus/pci/drivers_probe") == 0)
		kernel_probe(&w, text);
	else
		return -ENOENT;
	return 0;
}
