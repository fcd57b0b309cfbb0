/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives: the drives that are attached again after a restart, in CTL_DRIVES_FILE.
 *
 * The file moves devices between drivers as root, so it is not trusted if others may write it.  It
 * is replaced as a whole (written beside, synced, renamed), under a lock that every change of the
 * file or of a drive takes: on the file in sysfs that all moves use, which only root can open, and
 * which always exists.
 */
#include "appliance/ctl/ctl_drives.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_HEAD                                                                                  \
	"# Drives that `wekactl drives attach` gave to the appliance; weka-drives.service gives\n" \
	"# them again after a restart.  `wekactl drives detach` takes a line out.\n"

static int fail(char *why, const char *what, int err)
{
	snprintf(why, CTL_WHY_SIZE, "%s: %s", what, strerror(-err));
	return err;
}

int ctl_saved_load(const char *root, struct ctl_saved_list *out, char why[CTL_WHY_SIZE])
{
	char path[CTL_PATH_SIZE], *text;
	struct stat st;
	size_t bytes;
	int err = ctl_sysfs_path(path, root, CTL_DRIVES_FILE);

	*out = (struct ctl_saved_list){ 0 };
	if (!err && stat(path, &st))
		err = -errno;
	if (err)
		return err == -ENOENT ? 0 : fail(why, CTL_DRIVES_FILE, err);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(why, CTL_WHY_SIZE,
			 "%s: others may write to it; type: chown root: %s && chmod 644 %s",
			 CTL_DRIVES_FILE, CTL_DRIVES_FILE, CTL_DRIVES_FILE);
		return -EPERM;
	}
	err = ctl_sysfs_slurp(&text, &bytes, "", "%s", path);
	if (err)
		return fail(why, CTL_DRIVES_FILE, err);
	err = ctl_saved_parse(text, bytes, out, why);
	free(text);
	return err;
}

int ctl_saved_lock(const char *root, char why[CTL_WHY_SIZE])
{
	static const char name[] = "/sys/bus/pci/drivers_probe";
	char path[CTL_PATH_SIZE];
	int fd, err = ctl_sysfs_path(path, root, "%s", name);

	if (err)
		return fail(why, name, err);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(why, name, -errno);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	err = -errno;
	close(fd);
	if (err == -EWOULDBLOCK)
		snprintf(why, CTL_WHY_SIZE,
			 "another wekactl is attaching or detaching drives: wait for it");
	else
		fail(why, name, err);
	return err;
}

/* Everything of the list into a new file, on the disk when this returns 0. */
static int write_new(const char *path, const struct ctl_saved_list *list)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644), err = 0;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	fputs(FILE_HEAD, f);
	for (uint32_t i = 0; i < list->count; i++)
		ctl_saved_print(f, &list->drive[i]);
	if (fflush(f) || fchmod(fd, 0644) || fsync(fd))
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

int ctl_saved_store(const char *root, const struct ctl_saved_list *list, char why[CTL_WHY_SIZE])
{
	char path[CTL_PATH_SIZE], new[CTL_PATH_SIZE];
	int dir, err = ctl_sysfs_path(path, root, CTL_DRIVES_FILE);

	if (!err && mkdir(dirname(path), 0755) && errno != EEXIST)
		err = -errno;
	if (!err)
		err = ctl_sysfs_path(path, root, CTL_DRIVES_FILE); /* dirname() has cut it */
	if (!err)
		err = ctl_sysfs_path(new, root, CTL_DRIVES_FILE ".new");
	if (err)
		return fail(why, CTL_DRIVES_FILE, err);
	(void)unlink(new); /* of a run that was cut off: we hold the lock */
	err = write_new(new, list);
	if (!err && rename(new, path))
		err = -errno;
	if (err) {
		(void)unlink(new);
		return fail(why, CTL_DRIVES_FILE, err);
	}
	/* It is in effect; should this fail, only a power cut right now brings the old one back. */
	dir = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0) {
		(void)fsync(dir);
		close(dir);
	}
	return 0;
}
