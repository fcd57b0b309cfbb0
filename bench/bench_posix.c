/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The same work by plain system calls on a local directory: what a data loader does today.
 * The directory is made for the measurement, read once so that the page cache is warm, and
 * removed at the end.  One thread, as our side has one client thread.
 */
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
	uint64_t made; /* by create runs, on top of files */
	uint64_t size_bytes;
	uint64_t large_bytes;
	int large_fd;
	uint8_t *buffer; /* page-aligned: see the traps in RESULTS.md */
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

	if (!p)
		return -ENOMEM;
	p->large_fd = -1;
	p->dir_fd = -1;
	p->size_bytes = size_bytes;
	rand_seed(&p->rand, 2);
	*out = p;
	if (asprintf(&p->dir, "%s/weka-bench.%d", dir, (int)getpid()) < 0)
		return -ENOMEM;
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
		err = write_file(*out, name);
		(*out)->files += !err;
	}
	for (uint64_t i = 0; !err && i < files; i++) {
		name_of(name, i);
		err = read_file(*out, name);
	}
	return err;
}

int bench_posix_large(struct bench_posix **out, const char *dir, uint64_t file_bytes,
		      uint64_t size_bytes)
{
	int err = make(out, dir, size_bytes);

	if (err)
		return err;
	(*out)->large_fd = openat((*out)->dir_fd, "large", O_RDWR | O_CREAT | O_EXCL, 0600);
	if ((*out)->large_fd < 0)
		return -errno;
	(*out)->large_bytes = align_down(file_bytes / size_bytes * size_bytes, 1);
	for (uint64_t at = 0; at < (*out)->large_bytes; at += size_bytes)
		if (pwrite((*out)->large_fd, (*out)->buffer, size_bytes, (off_t)at) !=
		    (ssize_t)size_bytes)
			return errno ? -errno : -ENOSPC;
	return 0;
}

void bench_posix_read_run(struct bench_posix *p, double seconds, struct bench_run *run)
{
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	char name[32];

	run->ops = 0;
	do {
		for (uint32_t i = 0; i < BATCH; i++) {
			name_of(name, rand_below(&p->rand, p->files));
			ASSERT(read_file(p, name) == 0);
		}
		run->ops += BATCH;
		now = clock_now_ns();
	} while (now < end);
	run->bytes = run->ops * p->size_bytes;
	run->ns = now - start;
}

/* New files only, never made durable: the local file system's best case. */
void bench_posix_create_run(struct bench_posix *p, double seconds, struct bench_run *run)
{
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	char name[32];

	run->ops = 0;
	do {
		for (uint32_t i = 0; i < BATCH; i++) {
			name_of(name, p->files + p->made++);
			ASSERT(write_file(p, name) == 0);
		}
		run->ops += BATCH;
		now = clock_now_ns();
	} while (now < end);
	run->bytes = run->ops * p->size_bytes;
	run->ns = now - start;
}

void bench_posix_pread_run(struct bench_posix *p, double seconds, bool sequential,
			   struct bench_run *run)
{
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	uint64_t pieces = p->large_bytes / p->size_bytes;

	run->ops = 0;
	do {
		for (uint32_t i = 0; i < 16; i++) {
			uint64_t piece =
				sequential ? p->next++ % pieces : rand_below(&p->rand, pieces);

			ASSERT(pread(p->large_fd, p->buffer, p->size_bytes,
				     (off_t)(piece * p->size_bytes)) == (ssize_t)p->size_bytes);
		}
		run->ops += 16;
		now = clock_now_ns();
	} while (now < end);
	run->bytes = run->ops * p->size_bytes;
	run->ns = now - start;
}

void bench_posix_destroy(struct bench_posix *p)
{
	char name[32];

	if (!p)
		return;
	for (uint64_t i = 0; i < p->files + p->made; i++) {
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
