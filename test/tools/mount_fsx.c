/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Random operations on one file of a mount beside a model of its bytes, as fsx does:
 *
 *   mount_fsx FILE SAME OPERATIONS SEED
 *
 * FILE is on a mount.  SAME is the same file through another mount, which reads it, too.  The first
 * operation whose result is not the model's is printed with the ones before it.
 *
 *  (1) The file has exactly the model's `size` first bytes.  Bytes of the model from there on are
 *      zeros, so that a file that grows is what it was, and zeros.
 *  (2) Every change of the model follows the same change of the file, which has succeeded.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "base/rand.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SIZE_MAX_BYTES = 3 << 20,
	PIECE_BYTES = 64 << 10, /* most operations move no more */
	MANY_BYTES = 1 << 20,   /* one in 16: a write of several requests */
	PAGE_BYTES = 4096,
	LINES = 12,
	LINE_BYTES = 96,
};

static const char *path, *same;
static int fd, other;
static struct rand_state rand_;
static uint8_t model[SIZE_MAX_BYTES],
	bytes[SIZE_MAX_BYTES + 1]; /* the one more shows a file that is too long */
static uint64_t size, seed, done;
static char line[LINES][LINE_BYTES]; /* a ring of the last operations */
static uint64_t lines;

/* ---- messages ------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(line[lines++ % LINES], LINE_BYTES, format, args);
	va_end(args);
}

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *format, ...)
{
	va_list args;

	printf("seed %llu, operation %llu: ", (unsigned long long)seed, (unsigned long long)done);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("; the last ones:\n");
	for (uint64_t i = lines > LINES ? lines - LINES : 0; i < lines; i++)
		printf("  %s\n", line[i % LINES]);
	exit(1);
}

static void must(bool held, const char *call)
{
	if (!held)
		wrong("%s: %s", call, strerror(errno));
}

/* ---- random places and bytes ---------------------------------------------------------------- */

struct range {
	uint64_t offset;
	uint64_t length; /* from 1 to the end that a file may have */
};

/* Often at the edge of a block or of the file. */
static struct range some_range(uint64_t most)
{
	const uint64_t edges[] = { 0,    PAGE_BYTES, 65536,
				   size, 1 << 20,    rand_below(&rand_, SIZE_MAX_BYTES) };
	const uint64_t lengths[] = { 1, 100, 4095, 4096, 4097, 1 + rand_below(&rand_, most) };
	const uint64_t edge = edges[rand_below(&rand_, ARRAY_LEN(edges))] + rand_below(&rand_, 40);
	struct range r = { .offset = edge < 20 ? 0 : min_u64(edge - 20, SIZE_MAX_BYTES - 1) };

	r.length =
		min_u64(lengths[rand_below(&rand_, ARRAY_LEN(lengths))], SIZE_MAX_BYTES - r.offset);
	ASSERT(r.length > 0 && r.offset + r.length <= SIZE_MAX_BYTES);
	return r;
}

static uint64_t most_bytes(void)
{
	return rand_below(&rand_, 16) ? PIECE_BYTES : MANY_BYTES;
}

static void some_bytes(uint64_t length)
{
	uint64_t word;

	ASSERT(length <= SIZE_MAX_BYTES);
	for (uint64_t at = 0; at < length; at += sizeof(word)) {
		word = rand_u64(&rand_);
		memcpy(bytes + at, &word, min_u64(sizeof(word), length - at));
	}
}

/* ---- the model ------------------------------------------------------------------------------ */

static void model_put(uint64_t offset, uint64_t length)
{
	memcpy(model + offset, bytes, length);
	size = max_u64(size, offset + length);
	ASSERT(size <= SIZE_MAX_BYTES);
}

static void model_cut(uint64_t to)
{
	if (to < size)
		memset(model + to, 0, size - to); /* (1) */
	size = to;
}

/* Are the first `got` of bytes[] what the model has there? */
static void compare(const char *what, struct range r, uint64_t got)
{
	const uint64_t want = r.offset < size ? min_u64(r.length, size - r.offset) : 0;
	uint64_t at = 0;

	while (at < min_u64(got, want) && bytes[at] == model[r.offset + at])
		at++;
	if (got != want || at != want)
		wrong("%s %llu + %llu: %llu bytes, not %llu; they differ from %llu on", what,
		      (unsigned long long)r.offset, (unsigned long long)r.length,
		      (unsigned long long)got, (unsigned long long)want,
		      (unsigned long long)(r.offset + at));
}

/* ---- operations ----------------------------------------------------------------------------- */

static void read_by(int from, const char *what)
{
	const struct range r = some_range(most_bytes());
	ssize_t got;

	say("%s %llu %llu", what, (unsigned long long)r.offset, (unsigned long long)r.length);
	got = pread(from, bytes, r.length, (off_t)r.offset);
	must(got >= 0, what);
	compare(what, r, (uint64_t)got);
}

static void do_read(void)
{
	read_by(fd, "read");
}

static void do_read_same(void)
{
	read_by(other, "read by the other mount");
}

static void do_write(void)
{
	const struct range r = some_range(most_bytes());

	say("write %llu %llu", (unsigned long long)r.offset, (unsigned long long)r.length);
	some_bytes(r.length);
	for (uint64_t at = 0; at < r.length;) {
		const ssize_t put = pwrite(fd, bytes + at, r.length - at, (off_t)(r.offset + at));

		must(put > 0, "write");
		at += (uint64_t)put;
	}
	model_put(r.offset, r.length);
}

static void do_append(void)
{
	static const uint64_t lengths[] = { 1, 10, 5000, 100000 };
	const uint64_t length = lengths[rand_below(&rand_, ARRAY_LEN(lengths))];
	int at_end;

	if (size + length > SIZE_MAX_BYTES)
		return;
	say("append %llu at %llu", (unsigned long long)length, (unsigned long long)size);
	some_bytes(length);
	at_end = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	must(at_end >= 0, "open to append");
	must(write(at_end, bytes, length) == (ssize_t)length, "append");
	must(close(at_end) == 0, "close");
	model_put(size, length);
}

static void do_truncate(void)
{
	const uint64_t to = some_range(1).offset;

	say("truncate %llu", (unsigned long long)to);
	must(ftruncate(fd, (off_t)to) == 0, "truncate");
	model_cut(to);
}

static void do_punch(void)
{
	const struct range r = some_range(200000);

	say("punch %llu %llu", (unsigned long long)r.offset, (unsigned long long)r.length);
	must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)r.offset,
		       (off_t)r.length) == 0,
	     "punch");
	memset(model + r.offset, 0, r.length);
}

/* A range that begins with a page, of bytes that there are; its length may be 0. */
static struct range some_pages(uint64_t most)
{
	struct range r = some_range(most);

	r.offset -= r.offset % PAGE_BYTES;
	r.length = r.offset < size ? min_u64(r.length, size - r.offset) : 0;
	return r;
}

static void do_map_read(void)
{
	const struct range r = some_pages(200000);
	void *map;

	if (r.length == 0)
		return;
	say("map and read %llu %llu", (unsigned long long)r.offset, (unsigned long long)r.length);
	map = mmap(NULL, r.length, PROT_READ, MAP_PRIVATE, fd, (off_t)r.offset);
	must(map != MAP_FAILED, "map");
	memcpy(bytes, map, r.length);
	must(munmap(map, r.length) == 0, "unmap");
	compare("map", r, r.length);
}

static void do_map_write(void)
{
	const struct range r = some_pages(50000);
	void *map;

	if (r.length == 0)
		return;
	say("map and write %llu %llu", (unsigned long long)r.offset, (unsigned long long)r.length);
	some_bytes(r.length);
	map = mmap(NULL, r.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)r.offset);
	must(map != MAP_FAILED, "map");
	memcpy(map, bytes, r.length);
	must(msync(map, r.length, MS_SYNC) == 0, "msync");
	must(munmap(map, r.length) == 0, "unmap");
	model_put(r.offset, r.length);
}

static void do_size(void)
{
	struct stat of_fd, of_same;
	off_t end;

	say("size");
	must(fstat(fd, &of_fd) == 0 && stat(same, &of_same) == 0, "stat");
	end = lseek(fd, 0, SEEK_END);
	if ((uint64_t)of_fd.st_size != size || (uint64_t)of_same.st_size != size ||
	    (uint64_t)end != size)
		wrong("sizes %lld, by the other mount %lld, by a seek %lld; not %llu",
		      (long long)of_fd.st_size, (long long)of_same.st_size, (long long)end,
		      (unsigned long long)size);
}

/* The bytes that SEEK_DATA passes over are zeros, and a hole begins in the file, or at its end. */
static void do_seek(void)
{
	uint64_t offset, data;
	off_t to;

	if (size == 0)
		return;
	offset = rand_below(&rand_, size);
	say("seek %llu", (unsigned long long)offset);
	to = lseek(fd, (off_t)offset, SEEK_DATA);
	must(to >= 0 || errno == ENXIO, "seek data");
	data = to < 0 ? size : (uint64_t)to;
	if (data < offset || data > size)
		wrong("data at %llu", (unsigned long long)data);
	for (uint64_t at = offset; at < data; at++)
		if (model[at])
			wrong("data at %llu are passed over", (unsigned long long)at);
	to = lseek(fd, (off_t)offset, SEEK_HOLE);
	must(to >= 0, "seek hole");
	if ((uint64_t)to < offset || (uint64_t)to > size)
		wrong("a hole at %lld", (long long)to);
}

static void open_both(int flags)
{
	fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
	must(fd >= 0, "open");
	other = open(same, O_RDONLY | O_CLOEXEC);
	must(other >= 0, "open by the other mount");
}

static void do_reopen(void)
{
	say("reopen");
	must(close(fd) == 0 && close(other) == 0, "close");
	open_both(0);
}

static void do_rename(void)
{
	char moved[4096];

	say("rename");
	must((size_t)snprintf(moved, sizeof(moved), "%s.moved", path) < sizeof(moved), "name");
	must(rename(path, moved) == 0, "rename");
	must(rename(moved, path) == 0, "rename back");
}

static void do_sync(void)
{
	must(fsync(fd) == 0, "fsync");
}

/* ---- all of them ---------------------------------------------------------------------------- */

static const struct {
	void (*run)(void);
	uint32_t weight;
} operation[] = {
	{ do_read, 8 },      { do_read_same, 8 }, { do_write, 8 },  { do_append, 2 },
	{ do_truncate, 2 },  { do_punch, 2 },     { do_size, 2 },   { do_map_read, 2 },
	{ do_map_write, 2 }, { do_seek, 2 },      { do_reopen, 2 }, { do_rename, 2 },
	{ do_sync, 2 },
};

static void one(void)
{
	uint64_t total = 0, at;
	uint32_t i = 0;

	for (uint32_t k = 0; k < ARRAY_LEN(operation); k++)
		total += operation[k].weight;
	for (at = rand_below(&rand_, total); at >= operation[i].weight; i++)
		at -= operation[i].weight;
	ASSERT(i < ARRAY_LEN(operation));
	operation[i].run();
	done++;
}

/* Reads the whole file, and whether there is more. */
static void whole(int from, const char *what)
{
	const struct range all = { 0, SIZE_MAX_BYTES + 1 };
	uint64_t got = 0;
	ssize_t n;

	while ((n = pread(from, bytes + got, all.length - got, (off_t)got)) > 0)
		got += (uint64_t)n;
	must(n == 0, what);
	compare(what, all, got);
}

int main(int argc, char **argv)
{
	uint64_t count;

	if (argc != 5) {
		fprintf(stderr, "usage: mount_fsx FILE SAME OPERATIONS SEED\n");
		return 2;
	}
	path = argv[1];
	same = argv[2];
	count = strtoull(argv[3], NULL, 10);
	seed = strtoull(argv[4], NULL, 10);
	rand_seed(&rand_, seed);
	open_both(O_CREAT | O_TRUNC);
	while (done < count)
		one();
	whole(fd, "all of it");
	whole(other, "all of it by the other mount");
	must(close(fd) == 0 && close(other) == 0, "close");
	printf("seed %llu: %llu operations\n", (unsigned long long)seed, (unsigned long long)done);
	return 0;
}
