/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Copies one object of a store that no mount accepts to a local file.
 *
 *	blocks that match their checksums --> DIR/.part --> DIR/tree/PATH, or DIR/uncertain/PATH
 *
 *  (1) Unverified blocks are holes in the file, and then the file does not count as complete
 *      [e2e_salvage:holed].
 *  (2) Nothing is written through a symlink: each part is a new file, and symlinks are made when
 *      all files are.
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_salvage.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BLOCK 4096u

static char *part_of(const struct ctl_salvage *s)
{
	return ctl_join(s->to, ".part");
}

/* The worse of two. */
static enum ctl_saved worse(enum ctl_saved a, enum ctl_saved b)
{
	return a > b ? a : b;
}

static enum ctl_saved write_block(struct ctl_salvage *s, int fd, const void *block, uint64_t index,
				  uint64_t size_bytes)
{
	uint64_t at = index * BLOCK;
	ssize_t n = at < size_bytes ? (ssize_t)min_u64(BLOCK, size_bytes - at) : 0;

	if (pwrite(fd, block, (size_t)n, (off_t)at) == n)
		return CTL_COMPLETE;
	(void)snprintf(s->why, sizeof(s->why), "cannot be written: %s", strerror(errno));
	return CTL_FAILED;
}

static enum ctl_saved write_blocks(struct ctl_salvage *s, int fd, const struct meta_attr *a)
{
	uint64_t found = 0, bad = 0, first_bad = 0, index = 0;
	enum ctl_saved as = CTL_COMPLETE;
	uint8_t block[BLOCK];
	bool doubt = false;
	int err;

	for (; (err = meta_raw_block_next(s->r, &a->handle, &index, block, &doubt)) != -ENOENT;
	     index++) {
		found++;
		if (doubt)
			as = worse(as, CTL_OLDER);
		if (err && bad++ == 0)
			first_bad = index;
		if (!err)
			as = worse(as, write_block(s, fd, block, index, a->size));
	}
	if (bad)
		(void)snprintf(s->why, sizeof(s->why),
			       "%llu of its blocks do not match their checksums, the first is %llu",
			       (unsigned long long)bad, (unsigned long long)first_bad);
	else if (a->blocks != UINT64_MAX && found < a->blocks)
		(void)snprintf(s->why, sizeof(s->why), "the location of %llu of its blocks is lost",
			       (unsigned long long)(a->blocks - found));
	else
		return as;
	return worse(as, CTL_DAMAGED);
}

static enum ctl_saved write_xattrs(struct ctl_salvage *s, int fd, const struct meta_attr *a)
{
	static uint8_t value[META_XATTR_MAX];
	struct meta_raw_place at = { 0 };
	char name[META_XATTR_NAME_MAX + 1];
	enum ctl_saved as = CTL_COMPLETE;
	uint32_t len;
	int err;

	while ((err = meta_raw_xattr_next(s->r, &a->handle, &at, name, value, &len)) == 0 ||
	       err == -EIO) {
		if (err) {
			(void)snprintf(s->why, sizeof(s->why), "the attribute %.60s is lost", name);
			as = CTL_DAMAGED;
		} else if (strncmp(name, "user.", 5) != 0) { /* other namespaces control access */
			(void)snprintf(s->why, sizeof(s->why),
				       "the attribute %.60s is not a \"user.\" attribute", name);
			as = CTL_DAMAGED;
		} else if (fsetxattr(fd, name, value, len, 0) != 0) {
			(void)snprintf(s->why, sizeof(s->why), "the attribute %.60s: %s", name,
				       strerror(errno));
			as = CTL_DAMAGED;
		}
	}
	if (err == -EUCLEAN) {
		(void)snprintf(s->why, sizeof(s->why), "attributes of it are lost");
		as = CTL_DAMAGED;
	}
	return as;
}

static enum ctl_saved set_attributes(struct ctl_salvage *s, int fd, const struct meta_attr *a)
{
	struct timespec times[2] = { ctl_timespec(a->atime_ns), ctl_timespec(a->mtime_ns) };
	struct stat st;

	if ((geteuid() == 0 && fchown(fd, a->uid, a->gid) != 0) || fstat(fd, &st) != 0 ||
	    ftruncate(fd, (off_t)a->size) != 0 ||
	    fchmod(fd, ctl_mode_kept(a->mode, a->uid, a->gid, &st)) != 0 ||
	    futimens(fd, times) != 0) {
		(void)snprintf(s->why, sizeof(s->why), "cannot be written: %s", strerror(errno));
		return CTL_FAILED;
	}
	return CTL_COMPLETE;
}

enum ctl_saved ctl_salvage_object(struct ctl_salvage *s, const struct meta_attr *a)
{
	char *part = part_of(s);
	enum ctl_saved as;
	int fd;

	ASSERT(!s->links_begun); /* (2), ctl_salvage.c (2) */
	s->why[0] = 0;
	(void)unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); /* (2) */
	if (fd < 0) {
		(void)snprintf(s->why, sizeof(s->why), "%.100s: %s", part, strerror(errno));
		free(part);
		return CTL_FAILED;
	}
	as = write_blocks(s, fd, a);
	as = worse(as, write_xattrs(s, fd, a));
	as = worse(as, set_attributes(s, fd, a));
	if (close(fd) != 0)
		as = CTL_FAILED;
	if (as == CTL_FAILED)
		(void)unlink(part);
	free(part);
	return as;
}

/* A directory there, made or met: never a symlink to one. */
static int dir_at(const char *local)
{
	struct stat st;

	if (mkdir(local, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	return lstat(local, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int ctl_salvage_dir(const struct ctl_salvage *s, char *local)
{
	int err = ctl_salvage_parents(s, local);

	return err ? err : dir_at(local);
}

int ctl_salvage_parents(const struct ctl_salvage *s, char *local)
{
	for (char *slash = local + strlen(s->to) + 1; (slash = strchr(slash, '/')); slash++) {
		int failed;

		*slash = 0;
		failed = dir_at(local);
		*slash = '/';
		if (failed)
			return failed;
	}
	return 0;
}

int ctl_salvage_place(struct ctl_salvage *s, const char *place)
{
	char *local = ctl_join(s->to, place), *part = part_of(s);
	int err = ctl_salvage_parents(s, local);

	if (!err && renameat2(AT_FDCWD, part, AT_FDCWD, local, RENAME_NOREPLACE) != 0)
		err = -errno;
	if (err)
		(void)unlink(part);
	free(local);
	free(part);
	return err;
}
