/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The directory to mount on.  When a weka-mount was killed, its mount stays, and every call on the
 * directory ends with ENOTCONN.  Nothing can bring such a mount back, so the next weka-mount takes
 * it away, but only if it is one of ours: it may be another file system's, whose program ends.
 */
#define _GNU_SOURCE
#include "client-lib/mount/mount.h"

#include <errno.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOUNTS "/proc/self/mounts"
#define TYPE   "fuse.weka"

/* Returns the absolute path of a directory that itself cannot be looked at. */
static char *path_of_dead(const char *dir)
{
	char *copy = strdup(dir), *parent, *base, *path = NULL;
	size_t length = strlen(dir);

	while (copy && length > 1 && copy[length - 1] == '/')
		copy[--length] = '\0';
	base = copy ? strrchr(copy, '/') : NULL;
	if (base)
		*base++ = '\0';
	parent = !copy ? NULL : realpath(!base ? "." : *copy ? copy : "/", NULL);
	if (parent && asprintf(&path, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent,
			       base ? base : copy) < 0)
		path = NULL;
	free(parent);
	free(copy);
	return path;
}

bool mount_is_ours(const char *mounts, const char *path)
{
	FILE *f = setmntent(mounts, "re");
	const struct mntent *m;
	bool is_ours = false;

	if (!f)
		return false;
	while ((m = getmntent(f)))
		if (strcmp(m->mnt_dir, path) == 0)
			is_ours = strcmp(m->mnt_type, TYPE) == 0;
	endmntent(f);
	return is_ours;
}

static bool is_dead(int err)
{
	return err == ENOTCONN || err == ECONNABORTED; /* it dies while we ask */
}

char *mount_directory(const char *dir)
{
	char *path = realpath(dir, NULL);

	return path || !is_dead(errno) ? path : path_of_dead(dir);
}

int mount_clear(const struct mount_args *args)
{
	struct stat st;

	if (stat(args->dir, &st) == 0 || !is_dead(errno) || !mount_is_ours(MOUNTS, args->dir))
		return 0;
	return mount_unmount(args);
}
