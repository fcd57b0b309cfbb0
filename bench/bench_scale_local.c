/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The phases of `weka-bench names` by system calls in a local directory, by one thread, with warm
 * page and inode caches: created files are in memory and not yet durable, which favours the local
 * side.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_scale.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342 /* linux/magic.h has it from 5.17 on */
#endif

#define LOOK_EVERY 16u /* operations between two looks at the clock */

struct scale_local {
	int parent, dir;
	const char *what; /* for messages: the name from the command line */
	const struct bench_conf *conf;
	uint64_t files;
	uint8_t *bytes; /* of one file */
	uint8_t *read;
};

static const char made[] = "weka-bench.names";

static int failed(const struct scale_local *l, const char *what, const char *name)
{
	return bench_fail("%s %s/%s/%s: %s", what, l->what, made, name, strerror(errno));
}

static int empty(struct scale_local *l)
{
	char name[SCALE_NAME_STRIDE];

	for (uint64_t i = 0; i < l->files; i++) {
		scale_name(name, 'f', i);
		if (unlinkat(l->dir, name, 0))
			return failed(l, "unlink", name);
	}
	return 0;
}

int scale_local_open(struct scale_local **out, const char *dir, const struct bench_conf *conf)
{
	struct scale_local *l = calloc(1, sizeof(*l));

	*out = l;
	if (!l)
		return bench_fail("out of memory");
	l->what = dir;
	l->conf = conf;
	l->dir = -1;
	l->bytes = calloc(2, conf->size_bytes);
	l->read = l->bytes + conf->size_bytes;
	l->parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!l->bytes || l->parent < 0 || mkdirat(l->parent, made, 0700))
		return bench_fail("--vs %s: %s", dir, strerror(errno));
	l->dir = openat(l->parent, made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return l->dir < 0 ? failed(l, "open", "") : 0;
}

void scale_local_close(struct scale_local *l)
{
	if (!l)
		return;
	if (l->dir >= 0) {
		(void)empty(l); /* it has said so */
		close(l->dir);
		unlinkat(l->parent, made, AT_REMOVEDIR);
	}
	if (l->parent >= 0)
		close(l->parent);
	free(l->bytes);
	free(l);
}

const char *scale_local_name(const struct scale_local *l)
{
	struct statfs f;

	if (fstatfs(l->dir, &f))
		return "local";
	switch (f.f_type) {
	case EXT4_SUPER_MAGIC:
		return "ext4";
	case XFS_SUPER_MAGIC:
		return "xfs";
	case TMPFS_MAGIC:
		return "tmpfs";
	case BTRFS_SUPER_MAGIC:
		return "btrfs";
	default:
		return "local";
	}
}

/* ---- one operation ----------------------------------------------------------------------- */

static int create(struct scale_local *l, uint64_t number)
{
	const uint64_t size = scale_size(l->conf, number);
	char name[SCALE_NAME_STRIDE];
	int fd;

	scale_name(name, 'f', number);
	fd = openat(l->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(l, "create", name);
	memcpy(l->bytes, &number, min_u64(sizeof(number), size));
	if (write(fd, l->bytes, size) != (ssize_t)size) {
		close(fd);
		return failed(l, "write", name);
	}
	close(fd);
	return 0;
}

static int look(struct scale_local *l, uint64_t number)
{
	char name[SCALE_NAME_STRIDE];
	struct stat st;

	scale_name(name, 'f', number);
	if (fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    (uint64_t)st.st_size != scale_size(l->conf, number))
		return failed(l, "stat", name);
	return 0;
}

static int read_back(struct scale_local *l, uint64_t number)
{
	const uint64_t size = scale_size(l->conf, number);
	char name[SCALE_NAME_STRIDE];
	ssize_t got;
	int fd;

	scale_name(name, 'f', number);
	fd = openat(l->dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return failed(l, "open", name);
	got = read(fd, l->read, l->conf->size_bytes);
	close(fd);
	if (got != (ssize_t)size || memcmp(l->read, &number, min_u64(8, size)) != 0)
		return failed(l, "read", name);
	return 0;
}

static int change_name(struct scale_local *l, uint64_t number, bool back)
{
	char from[SCALE_NAME_STRIDE], to[SCALE_NAME_STRIDE];

	scale_name(from, back ? 'g' : 'f', number);
	scale_name(to, back ? 'f' : 'g', number);
	if (renameat2(l->dir, from, l->dir, to, RENAME_NOREPLACE))
		return failed(l, "rename", from);
	return 0;
}

static int drop(struct scale_local *l, uint64_t number)
{
	char name[SCALE_NAME_STRIDE];

	scale_name(name, 'f', number);
	return unlinkat(l->dir, name, 0) ? failed(l, "unlink", name) : 0;
}

/* Operation i of a phase. */
static int operate(struct scale_local *l, enum scale_phase phase, uint64_t i)
{
	const uint64_t mixed = l->files ? i % l->files * SCALE_STEP % l->files : 0;

	switch (phase) {
	case SCALE_CREATE:
		return create(l, i);
	case SCALE_STAT:
		return look(l, mixed);
	case SCALE_READ:
		return read_back(l, mixed);
	case SCALE_RENAME:
		return change_name(l, mixed, i / l->files % 2 == 1);
	case SCALE_UNLINK:
		return drop(l, i);
	case SCALE_LIST:
	case SCALE_PHASES:
		break;
	}
	UNREACHABLE();
}

/* ---- phases -------------------------------------------------------------------------------- */

/* Lists all of it with attributes; adds the entries seen before the time is over to *count. */
static int list(struct scale_local *l, uint64_t end_ns, uint64_t *count)
{
	int fd = openat(l->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t seen = 0;
	struct dirent *e;
	struct stat st;
	int err = 0;

	if (!d)
		return failed(l, "list", "");
	while (!err && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (fstatat(l->dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			err = failed(l, "stat", e->d_name);
		if (++seen % LOOK_EVERY == 0 && clock_now_ns() >= end_ns)
			break;
	}
	if (!err && !e && seen != l->files)
		err = bench_fail("list %s: %llu of %llu names came", l->what,
				 (unsigned long long)seen, (unsigned long long)l->files);
	*count += seen;
	closedir(d);
	return err;
}

/* Undoes the changes of a phase that was ended by time. */
static int put_right(struct scale_local *l, enum scale_phase phase, uint64_t done)
{
	const uint64_t n = l->files, in_round = n ? done % (2 * n) : 0;
	int err = 0;

	if (phase == SCALE_UNLINK)
		for (uint64_t i = 0; !err && i < done; i++)
			err = create(l, i);
	if (phase != SCALE_RENAME || in_round == 0)
		return err;
	for (uint64_t i = in_round <= n ? n : in_round;
	     !err && i < (in_round <= n ? n + in_round : 2 * n); i++)
		err = operate(l, SCALE_RENAME, i);
	return err;
}

int scale_local_run(struct scale_local *l, enum scale_phase phase, uint64_t files, double seconds,
		    struct bench_run *run)
{
	const uint64_t start = clock_now_ns(), end_ns = start + (uint64_t)(seconds * 1e9);
	uint64_t i = phase == SCALE_CREATE ? l->files : 0, first = i;
	uint64_t last = phase == SCALE_CREATE   ? files
			: phase == SCALE_UNLINK ? l->files
						: UINT64_MAX;
	int err = 0;

	if (phase == SCALE_LIST) {
		do
			err = list(l, end_ns, &run->ops);
		while (!err && clock_now_ns() < end_ns);
		run->ns = clock_now_ns() - start;
		return err;
	}
	for (; !err && i < last; i++) {
		if (i % LOOK_EVERY == 0 && (bench_interrupted() || clock_now_ns() >= end_ns))
			break;
		err = operate(l, phase, i);
	}
	run->ops = i - first;
	run->ns = clock_now_ns() - start;
	if (bench_interrupted())
		return bench_fail("interrupted");
	if (phase == SCALE_CREATE)
		l->files = i;
	return err ? err : put_right(l, phase, i);
}
