/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The same work by plain system calls on a local directory, as a data loader does it.  The
 * directory is made for the measurement, read once so that the page cache is warm, and removed at
 * the end.  It uses one thread, as our side has one client thread.
 */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 256 /* operations between looks at the clock */

struct bench_posix {
	char *dir; /* of our own, made here */
	int dir_fd;
	uint64_t files;
	uint64_t size_bytes;
	uint64_t large_bytes;
	int large_fd;
	bool sequential;
	uint8_t *buffer; /* page-aligned */
	uint64_t next;
	struct rand_state rand;
};

static void name_of(char out[32], uint64_t i)
{
	snprintf(out, 32, "f%012llu", (unsigned long long)i);
}

static int write_file(struct bench_posix *p, const char *name)
{
	int fd = openat(p->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	ssize_t put;

	if (fd < 0)
		return -errno;
	put = write(fd, p->buffer, p->size_bytes);
	close(fd);
	return put == (ssize_t)p->size_bytes ? 0 : put < 0 ? -errno : -ENOSPC;
}

/* Whole file: open, read to its end, close. */
static int read_file(struct bench_posix *p, const char *name)
{
	int fd = openat(p->dir_fd, name, O_RDONLY);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, p->buffer, p->size_bytes);
	close(fd);
	return got == (ssize_t)p->size_bytes ? 0 : -EIO;
}

static int make(struct bench_posix **out, const char *dir, uint64_t size_bytes)
{
	struct bench_posix *p = calloc(1, sizeof(*p));

	*out = p;
	if (!p)
		return -ENOMEM;
	p->large_fd = -1;
	p->dir_fd = -1;
	p->size_bytes = size_bytes;
	rand_seed(&p->rand, 2);
	if (asprintf(&p->dir, "%s/weka-bench.%d", dir, (int)getpid()) < 0) {
		p->dir = NULL;
		return -ENOMEM;
	}
	p->buffer = aligned_alloc(BLOCK_SIZE, align_up(max_u64(size_bytes, 1), BLOCK_SIZE));
	if (!p->buffer)
		return -ENOMEM;
	memset(p->buffer, 0x5a, size_bytes);
	if (mkdir(p->dir, 0700) != 0)
		return -errno;
	p->dir_fd = open(p->dir, O_RDONLY | O_DIRECTORY);
	return p->dir_fd < 0 ? -errno : 0;
}

int bench_posix_create(struct bench_posix **out, const char *dir, uint64_t files,
		       uint64_t size_bytes)
{
	char name[32];
	int err = make(out, dir, size_bytes);

	for (uint64_t i = 0; !err && i < files; i++) {
		name_of(name, i);
		err = bench_interrupted() ? -EINTR : write_file(*out, name);
		(*out)->files += !err;
	}
	for (uint64_t i = 0; !err && i < files; i++) {
		name_of(name, i);
		err = read_file(*out, name);
	}
	return err;
}

int bench_posix_large(struct bench_posix **out, const char *dir, uint64_t file_bytes,
		      uint64_t size_bytes, bool sequential)
{
	int err = make(out, dir, size_bytes);
	struct bench_posix *p = *out;
	ssize_t put;

	if (err)
		return err;
	p->sequential = sequential;
	p->large_fd = openat(p->dir_fd, "large", O_RDWR | O_CREAT | O_EXCL, 0600);
	if (p->large_fd < 0)
		return -errno;
	p->large_bytes = file_bytes / size_bytes * size_bytes;
	for (uint64_t at = 0; at < p->large_bytes; at += size_bytes) {
		put = pwrite(p->large_fd, p->buffer, size_bytes, (off_t)at);
		if (put != (ssize_t)size_bytes)
			return put < 0 ? -errno : -ENOSPC;
		if (bench_interrupted())
			return -EINTR;
	}
	return 0;
}

static void finish(const struct bench_posix *p, uint64_t start, uint64_t now, struct bench_run *run)
{
	run->bytes = run->ops * p->size_bytes;
	run->ns = now - start;
}

static int failed(const struct bench_posix *p, int err)
{
	return bench_fail("%s: %s", p->dir, strerror(-err));
}

int bench_posix_read_run(void *posix, double seconds, struct bench_run *run)
{
	struct bench_posix *p = posix;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	char name[32];
	int err;

	do {
		for (uint32_t i = 0; i < BATCH; i++) {
			name_of(name, rand_below(&p->rand, p->files));
			err = read_file(p, name);
			if (err)
				return failed(p, err);
		}
		run->ops += BATCH;
		now = clock_now_ns();
	} while (now < end && !bench_interrupted());
	finish(p, start, now, run);
	return 0;
}

/* New files only, never made durable: the local file system's best case.  They are removed
 * again, outside of the time. */
int bench_posix_create_run(void *posix, double seconds, struct bench_run *run)
{
	struct bench_posix *p = posix;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	char name[32];
	int err = 0;

	do {
		for (uint32_t i = 0; !err && i < BATCH; i++) {
			name_of(name, p->files + run->ops);
			err = write_file(p, name);
			run->ops += !err;
		}
		now = clock_now_ns();
	} while (!err && now < end && !bench_interrupted());
	finish(p, start, now, run);
	for (uint64_t i = 0; i <= run->ops; i++) {
		name_of(name, p->files + i);
		(void)unlinkat(p->dir_fd, name, 0);
	}
	return err ? failed(p, err) : 0;
}

int bench_posix_pread_run(void *posix, double seconds, struct bench_run *run)
{
	struct bench_posix *p = posix;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	uint64_t pieces = p->large_bytes / p->size_bytes, piece;
	ssize_t got;

	do {
		for (uint32_t i = 0; i < 16; i++) {
			piece = p->sequential ? p->next++ % pieces : rand_below(&p->rand, pieces);
			got = pread(p->large_fd, p->buffer, p->size_bytes,
				    (off_t)(piece * p->size_bytes));
			if (got != (ssize_t)p->size_bytes)
				return failed(p, got < 0 ? -errno : -EIO);
		}
		run->ops += 16;
		now = clock_now_ns();
	} while (now < end && !bench_interrupted());
	finish(p, start, now, run);
	return 0;
}

int bench_posix_pwrite_run(void *posix, double seconds, struct bench_run *run)
{
	struct bench_posix *p = posix;
	uint64_t start, end, now, pieces = p->large_bytes / p->size_bytes;
	int fd = openat(p->dir_fd, "large", O_WRONLY | O_DSYNC), err = 0;

	if (fd < 0)
		return failed(p, -errno);
	start = clock_now_ns();
	end = start + (uint64_t)(seconds * 1e9);
	do {
		off_t at = (off_t)(p->next++ % pieces * p->size_bytes);
		ssize_t put = pwrite(fd, p->buffer, p->size_bytes, at);

		if (put != (ssize_t)p->size_bytes)
			err = put < 0 ? -errno : -ENOSPC;
		run->ops += !err;
		now = clock_now_ns();
	} while (!err && now < end && !bench_interrupted());
	finish(p, start, now, run);
	close(fd);
	return err ? failed(p, err) : 0;
}

void bench_posix_destroy(struct bench_posix *p)
{
	char name[32];

	if (!p)
		return;
	/* The last one was perhaps begun, and failed: one more than there are. */
	for (uint64_t i = 0; p->dir_fd >= 0 && i <= p->files; i++) {
		name_of(name, i);
		(void)unlinkat(p->dir_fd, name, 0);
	}
	if (p->large_fd >= 0) {
		(void)unlinkat(p->dir_fd, "large", 0);
		close(p->large_fd);
	}
	if (p->dir_fd >= 0) {
		close(p->dir_fd);
		(void)rmdir(p->dir);
	}
	free(p->dir);
	free(p->buffer);
	free(p);
}
