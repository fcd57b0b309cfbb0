/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives: finds the users of a drive.
 *
 *   nvme0n1 --+-- nvme0n1p1 --+-- mounted on /boot         mountinfo, ours and process 1's
 *             |                +-- swap                     /proc/swaps
 *             +-- nvme0n1p2 --+-- part of md0, dm-1, ...    holders/
 *             |               +-- open in a process         /proc/PID/fd
 *             +-- an exclusive open fails: the kernel uses it in a way that none of these shows,
 *                 such as a mount in another mount namespace, a second device of a btrfs, a zpool
 *
 * Then its content: signatures, on the whole and on each partition.
 */
#include "appliance/ctl/ctl_drives.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USES_MAX 256u

struct opener { /* a descriptor of /dev/nvme*, /dev/ng*, /dev/vfio/... */
	char path[64];
	char pid[16];
	char comm[32];
};

struct ctl_users {
	const char *root;
	char *text[3]; /* what mount[] and swap[] point into */
	uint32_t nmounts;
	struct ctl_mount *mount;
	uint32_t nswaps;
	char **swap;
	uint32_t nopeners;
	struct opener *opener;
	char blind[CTL_WHY_SIZE]; /* source that could not be read: the result is uncertain */
};

/* ---- the machine's tables, once ---------------------------------------------------------- */

static void read_mounts(struct ctl_users *u, uint32_t which, const char *path, bool needed)
{
	size_t bytes;
	char *at, *line;
	int err = ctl_sysfs_slurp(&u->text[which], &bytes, u->root, "%s", path);

	if (err && needed)
		snprintf(u->blind, sizeof(u->blind), "%s: %s", path, strerror(-err));
	at = u->text[which];
	while (at && (line = ctl_next_line(&at))) {
		u->mount = realloc(u->mount, (u->nmounts + 1) * sizeof(*u->mount));
		ASSERT(u->mount);
		if (ctl_mount_parse(line, &u->mount[u->nmounts]))
			u->nmounts++;
	}
}

static void read_swaps(struct ctl_users *u)
{
	size_t bytes;
	char *at, *line, *word;

	if (ctl_sysfs_slurp(&u->text[2], &bytes, u->root, "/proc/swaps"))
		return; /* a kernel without swap */
	at = u->text[2];
	while ((line = ctl_next_line(&at))) {
		word = ctl_next_word(&line);
		if (!word || *word != '/')
			continue;
		u->swap = realloc(u->swap, (u->nswaps + 1) * sizeof(*u->swap));
		ASSERT(u->swap);
		u->swap[u->nswaps++] = word;
	}
}

/* udev looks at each new device for a moment. */
static bool is_udev(const char *comm)
{
	return strcmp(comm, "systemd-udevd") == 0 || strcmp(comm, "(udev-worker)") == 0 ||
	       strcmp(comm, "udevd") == 0;
}

static void read_opener(struct ctl_users *u, const char *pid, const char *fd)
{
	char link[CTL_PATH_SIZE], to[64];
	struct opener o = { .comm = "" };
	ssize_t got;

	if (ctl_sysfs_path(link, u->root, "/proc/%s/fd/%s", pid, fd))
		return;
	got = readlink(link, to, sizeof(to));
	if (got < 9 || got >= (ssize_t)sizeof(to))
		return;
	to[got] = '\0';
	if (strncmp(to, "/dev/nvme", 9) != 0 && strncmp(to, "/dev/ng", 7) != 0 &&
	    strncmp(to, "/dev/vfio/", 10) != 0)
		return;
	memcpy(o.path, to, (size_t)got + 1);
	snprintf(o.pid, sizeof(o.pid), "%.15s", pid);
	if (ctl_sysfs_read(o.comm, sizeof(o.comm), u->root, "/proc/%s/comm", pid) ||
	    is_udev(o.comm))
		return; /* gone meanwhile, or soon */
	u->opener = realloc(u->opener, (u->nopeners + 1) * sizeof(*u->opener));
	ASSERT(u->opener);
	u->opener[u->nopeners++] = o;
}

static void read_openers(struct ctl_users *u)
{
	struct ctl_entries pids, fds;
	int64_t pid;

	if (ctl_sysfs_list(&pids, u->root, "/proc") == 0)
		for (uint32_t i = 0; i < pids.count; i++) {
			if (ctl_parse_i64(pids.name[i], &pid) || pid == getpid())
				continue;
			if (ctl_sysfs_list(&fds, u->root, "/proc/%s/fd", pids.name[i]) == 0)
				for (uint32_t k = 0; k < fds.count; k++)
					read_opener(u, pids.name[i], fds.name[k]);
			ctl_entries_free(&fds);
		}
	ctl_entries_free(&pids);
}

struct ctl_users *ctl_users_create(const char *root)
{
	struct ctl_users *u = calloc(1, sizeof(*u));

	ASSERT(u);
	u->root = root;
	read_mounts(u, 0, "/proc/self/mountinfo", true);
	read_mounts(u, 1, "/proc/1/mountinfo", false);
	read_swaps(u);
	read_openers(u);
	return u;
}

void ctl_users_destroy(struct ctl_users *u)
{
	for (uint32_t i = 0; i < ARRAY_LEN(u->text); i++)
		free(u->text[i]);
	free(u->mount);
	free(u->swap);
	free(u->opener);
	free(u);
}

/* ---- one block device: the whole, or a partition -------------------------------------------- */

__attribute__((format(printf, 4, 5))) static void add_use(struct ctl_drive *d,
							  enum ctl_use_kind kind,
							  const char *device, const char *fmt, ...)
{
	struct ctl_use use = { .kind = kind };
	va_list ap;

	snprintf(use.device, sizeof(use.device), "%s", device);
	va_start(ap, fmt);
	vsnprintf(use.text, sizeof(use.text), fmt, ap);
	va_end(ap);
	ctl_printable(use.text);
	for (uint32_t i = 0; i < d->nuses; i++) /* mounted here and in process 1's namespace */
		if (d->use[i].kind == kind && strcmp(d->use[i].device, use.device) == 0 &&
		    strcmp(d->use[i].text, use.text) == 0)
			return;
	if (d->nuses == USES_MAX) { /* more than anybody reads, but the gravest must be there */
		if (kind < d->use[USES_MAX - 1].kind)
			d->use[USES_MAX - 1] = use;
		return;
	}
	d->use = realloc(d->use, (d->nuses + 1) * sizeof(*d->use));
	ASSERT(d->use);
	d->use[d->nuses++] = use;
}

static bool is_node(const char *path, const char *device)
{
	return strncmp(path, "/dev/", 5) == 0 && strcmp(path + 5, device) == 0;
}

static void look_holders(const struct ctl_users *u, struct ctl_drive *d, const char *device)
{
	struct ctl_entries e;
	char name[128];

	if (ctl_sysfs_list(&e, u->root, "/sys/class/block/%s/holders", device) == 0)
		for (uint32_t i = 0; i < e.count; i++) {
			if (ctl_sysfs_read(name, sizeof(name), u->root,
					   "/sys/class/block/%s/dm/name", e.name[i]))
				snprintf(name, sizeof(name), "%.127s", e.name[i]);
			add_use(d, CTL_USE_HOLDER, device, "part of %s", name);
		}
	ctl_entries_free(&e);
}

static void look_device(const struct ctl_users *u, struct ctl_drive *d, const char *device)
{
	char number[32];

	if (ctl_sysfs_read(number, sizeof(number), u->root, "/sys/class/block/%s/dev", device))
		number[0] = '\0';
	for (uint32_t i = 0; i < u->nmounts; i++) /* a btrfs has a number of its own */
		if ((*number && strcmp(u->mount[i].dev, number) == 0) ||
		    is_node(u->mount[i].source, device))
			add_use(d, CTL_USE_MOUNT, device, "%s mounted on %s", u->mount[i].type,
				u->mount[i].where);
	for (uint32_t i = 0; i < u->nswaps; i++)
		if (is_node(u->swap[i], device))
			add_use(d, CTL_USE_SWAP, device, "swap");
	look_holders(u, d, device);
	for (uint32_t i = 0; i < u->nopeners; i++)
		if (is_node(u->opener[i].path, device))
			add_use(d, CTL_USE_OPEN, device, "open in %s (process %s)",
				u->opener[i].comm, u->opener[i].pid);
}

static void look_signature(const struct ctl_users *u, struct ctl_drive *d, const char *device)
{
	char path[CTL_PATH_SIZE], text[64];
	int found = ctl_sysfs_path(path, u->root, "/dev/%s", device);

	if (!found)
		found = ctl_signature(path, text, sizeof(text));
	if (found < 0)
		add_use(d, CTL_USE_UNSEEN, device, "cannot be examined (%s)", strerror(-found));
	else if (found == CTL_SIGNATURE_STORE)
		add_use(d, CTL_USE_STORE, device, "%s", text);
	else if (found == CTL_SIGNATURE_FOREIGN)
		add_use(d, CTL_USE_SIGNATURE, device, "holds %s", text);
}

int ctl_claim(const char *root, const char *device)
{
	char path[CTL_PATH_SIZE];
	int fd, err = ctl_sysfs_path(path, root, "/dev/%s", device);

	if (err)
		return err;
	fd = open(path, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool is_busy(const struct ctl_drive *d)
{
	const struct ctl_use *use = ctl_drive_use(d);

	return use && use->kind < CTL_USE_UNSEEN;
}

static void look_claim(const struct ctl_users *u, struct ctl_drive *d, const char *device)
{
	int fd = ctl_claim(u->root, device);

	if (fd == -EBUSY)
		add_use(d, CTL_USE_CLAIMED, device,
			"in use (mounted in another namespace, or part of a volume)");
	if (fd >= 0)
		close(fd);
}

static void look_namespace(const struct ctl_users *u, struct ctl_drive *d, const struct ctl_ns *ns)
{
	struct ctl_entries e;
	char generic[CTL_ENTRY_SIZE];

	look_device(u, d, ns->name);
	snprintf(generic, sizeof(generic), "ng%.250s", ns->name + strlen("nvme"));
	for (uint32_t i = 0; i < u->nopeners; i++)
		if (is_node(u->opener[i].path, generic))
			add_use(d, CTL_USE_OPEN, generic, "open in %s (process %s)",
				u->opener[i].comm, u->opener[i].pid);
	if (ctl_sysfs_list(&e, u->root, "/sys/class/block/%s", ns->name))
		add_use(d, CTL_USE_UNSEEN, ns->name, "its partitions cannot be listed");
	for (uint32_t i = 0; i < e.count; i++)
		if (ctl_sysfs_exists(u->root, "/sys/class/block/%s/%s/partition", ns->name,
				     e.name[i]))
			look_device(u, d, e.name[i]);
	if (!is_busy(d))
		look_claim(u, d, ns->name);
	look_signature(u, d, ns->name);
	for (uint32_t i = 0; i < e.count; i++)
		if (ctl_sysfs_exists(u->root, "/sys/class/block/%s/%s/partition", ns->name,
				     e.name[i]))
			look_signature(u, d, e.name[i]);
	ctl_entries_free(&e);
}

/* ---- one drive ------------------------------------------------------------------------------ */

void ctl_drive_uses(struct ctl_drive *d, const struct ctl_users *u)
{
	char group[32];

	free(d->use);
	d->use = NULL;
	d->nuses = 0;
	snprintf(group, sizeof(group), "vfio/%d", d->group);
	for (uint32_t i = 0; d->group >= 0 && i < u->nopeners; i++)
		if (is_node(u->opener[i].path, group))
			add_use(d, CTL_USE_APPLIANCE, "", "%s (process %s)", u->opener[i].comm,
				u->opener[i].pid);
	if (strcmp(d->driver, "vfio-pci") == 0)
		return;
	if (!*d->ctrl)
		add_use(d, CTL_USE_UNSEEN, "", "bound to %s, so its content cannot be read",
			*d->driver ? d->driver : "no driver");
	else if (*u->blind)
		add_use(d, CTL_USE_UNSEEN, d->ctrl, "mounts cannot be read: %s", u->blind);
	for (uint32_t i = 0; i < d->nns; i++)
		look_namespace(u, d, &d->ns[i]);
}

const struct ctl_use *ctl_drive_use(const struct ctl_drive *d)
{
	const struct ctl_use *gravest = NULL;

	for (uint32_t i = 0; i < d->nuses; i++)
		if (!gravest || d->use[i].kind < gravest->kind)
			gravest = &d->use[i];
	return gravest;
}
