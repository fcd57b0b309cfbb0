/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives as a power cut leaves them, from what QEMU logged.
 *
 *	cut LOG DRIVES count                       what there is, for people
 *	cut LOG DRIVES points COUNT SEED           where to cut: one number a line
 *	cut LOG DRIVES make POINT SEED SIZE IMAGE...   the images, then "witness acknowledged" lines
 *
 * Each drive has a blklogwrites of its own, and the logs of all drives, with the journal of what
 * clients were answered, lie on one more logged drive: its log has everything in one order.
 *
 *   LOG:    | write to slice 0 | write to slice 1 | flush | write to slice 2 | ...
 *                    |                                             \-- the journal: sector W holds
 *                    v                                                 how much witness W knows
 *           an entry of drive 0's log:                                 to be acknowledged
 *           a write, a flush, a discard
 *
 * A cut at point N: the first N operations had been done.  Each drive keeps those before its last
 * flush, and those with FUA; each of its later ones is kept, lost or torn, sector by sector, as
 * SEED says.
 */
#include "base/le.h"
#include "base/num.h"
#include "base/rand.h"
#include "test/lib/dm_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	DRIVES_MAX = 8,
	WITNESSES_MAX = 16,
	ZEROES_MAX = 64,
	SLICE_SECTORS = (1u << 30) / DM_LOG_SECTOR,
};

enum op_kind { OP_WRITE, OP_ZERO, OP_FLUSH, OP_ACK };

struct op {
	enum op_kind kind;
	uint32_t drive; /* or witness */
	bool durable;
	uint64_t sector;
	uint64_t sectors; /* or how much is acknowledged */
	const uint8_t *data;
};

struct cut {
	struct op *op;
	uint64_t op_count;
	uint64_t op_max;
	uint32_t drives;
	/* Bodies of logged zeroes that are still to come, in their log: not entries. */
	struct {
		uint32_t drive;
		uint64_t first, end;
	} zeroes[ZEROES_MAX];
	uint32_t zeroes_count;
};

static int fail(const char *what, const char *which)
{
	fprintf(stderr, "cut: %s: %s\n", which, what);
	return -1;
}

static void add(struct cut *c, struct op op)
{
	if (c->op_count == c->op_max) {
		c->op_max = max_u64(1024, 2 * c->op_max);
		c->op = realloc(c->op, c->op_max * sizeof(*c->op));
		ASSERT(c->op);
	}
	c->op[c->op_count++] = op;
}

/* ---- what was done ----------------------------------------------------------------------- */

static bool is_zeroes(const struct cut *c, uint32_t drive, uint64_t sector)
{
	for (uint32_t i = 0; i < c->zeroes_count; i++)
		if (c->zeroes[i].drive == drive && sector >= c->zeroes[i].first &&
		    sector < c->zeroes[i].end)
			return true;
	return false;
}

/* A write to slice `drive`: an entry of that drive's log, at sector `at` of it. */
static int add_of_drive(struct cut *c, uint32_t drive, uint64_t at,
			const struct dm_log_entry *outer)
{
	struct dm_log_entry e;

	if (at == 0 || is_zeroes(c, drive, at)) /* its superblock */
		return 0;
	if (!outer->data || dm_log_entry(&e, outer->data, outer->sectors * DM_LOG_SECTOR))
		return fail("what a drive logged is no entry", "LOG");
	if (e.flags & DM_LOG_MARK)
		return 0;
	if (e.flags & DM_LOG_FLUSH)
		add(c, (struct op){ .kind = OP_FLUSH, .drive = drive });
	if (e.sectors == 0)
		return 0;
	if (!e.data && !(e.flags & DM_LOG_DISCARD)) {
		if (c->zeroes_count == ZEROES_MAX)
			return fail("too many writes of zeroes", "LOG");
		c->zeroes[c->zeroes_count].drive = drive;
		c->zeroes[c->zeroes_count].first = at + 1;
		c->zeroes[c->zeroes_count++].end = at + 1 + e.sectors;
	}
	add(c, (struct op){
		       .kind = e.data ? OP_WRITE : OP_ZERO,
		       .drive = drive,
		       .durable = e.flags & DM_LOG_FUA,
		       .sector = e.sector,
		       .sectors = e.sectors,
		       .data = e.data,
	       });
	return 0;
}

/* Witnesses that write at once are one write, if the guest's kernel joins their sectors. */
static int add_of_journal(struct cut *c, uint64_t at, const struct dm_log_entry *outer)
{
	le64 count;

	if (!outer->data || at >= WITNESSES_MAX || outer->sectors > WITNESSES_MAX - at)
		return fail("a write to the journal that no witness makes", "LOG");
	for (uint64_t i = 0; i < outer->sectors; i++) {
		memcpy(&count, outer->data + i * DM_LOG_SECTOR, sizeof(count));
		add(c, (struct op){ .kind = OP_ACK,
				    .drive = (uint32_t)(at + i),
				    .sectors = le64_get(count) });
	}
	return 0;
}

static int load(struct cut *c, const char *path)
{
	struct dm_log_entry e;
	struct dm_log log;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), more, err = 0;
	void *bytes;
	uint64_t slice;

	if (fd < 0 || fstat(fd, &st))
		return fail(strerror(errno), path);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED || dm_log_open(&log, bytes, (uint64_t)st.st_size))
		return fail("not a log of blklogwrites", path);
	while ((more = dm_log_next(&log, &e)) == 1 && !err) {
		slice = e.sector / SLICE_SECTORS;
		if (e.sectors == 0) /* a flush of the common log */
			continue;
		if (slice < c->drives)
			err = add_of_drive(c, (uint32_t)slice, e.sector % SLICE_SECTORS, &e);
		else
			err = add_of_journal(c, e.sector - (uint64_t)c->drives * SLICE_SECTORS, &e);
	}
	return more < 0 ? fail("an entry makes no sense", path) : err;
}

/* ---- cuts --------------------------------------------------------------------------------- */

/* The last `count` flushes, and with each a point somewhere before the next. */
static int print_points(const struct cut *c, uint64_t count, uint64_t seed)
{
	struct rand_state r;
	uint64_t next = c->op_count;

	rand_seed(&r, seed);
	for (uint64_t i = c->op_count; i > 0 && count > 0; i--) {
		if (c->op[i - 1].kind != OP_FLUSH)
			continue;
		printf("%" PRIu64 "\n", i);
		if (next > i)
			printf("%" PRIu64 "\n", i + 1 + rand_below(&r, next - i));
		next = i;
		count--;
	}
	return 0;
}

static int put(int fd, const struct op *op, uint64_t first, uint64_t sectors)
{
	static const uint8_t zeroes[1 << 20];
	uint64_t at = first * DM_LOG_SECTOR, left = sectors * DM_LOG_SECTOR, n;
	ssize_t done;

	for (; left > 0; at += n, left -= n) {
		n = op->data ? left : min_u64(left, sizeof(zeroes));
		done = pwrite(fd, op->data ? op->data + at : zeroes, n,
			      (off_t)(op->sector * DM_LOG_SECTOR + at));
		if (done != (ssize_t)n)
			return fail("cannot be written", "IMAGE");
	}
	return 0;
}

/* One that no flush covered. */
static int put_perhaps(int fd, const struct op *op, struct rand_state *r, uint64_t kept_of_8)
{
	bool torn = rand_below(r, 8) == 0;

	if (rand_below(r, 8) >= kept_of_8)
		return 0;
	if (!torn)
		return put(fd, op, 0, op->sectors);
	for (uint64_t i = 0; i < op->sectors; i++)
		if (rand_below(r, 2) && put(fd, op, i, 1))
			return -1;
	return 0;
}

static int make_image(const struct cut *c, uint32_t drive, uint64_t point, uint64_t seed,
		      uint64_t size_bytes, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err = 0;
	uint64_t safe = point, kept_of_8;
	struct rand_state r;

	if (fd < 0 || ftruncate(fd, (off_t)size_bytes))
		return fail(strerror(errno), path);
	/* Each cut by itself: what one loses says nothing of what the next one does. */
	rand_seed(&r, (seed << 32 | point) * DRIVES_MAX + drive);
	kept_of_8 = rand_below(&r, 9); /* from a cache that is lost whole to one that was written */
	while (safe > 0 && !(c->op[safe - 1].kind == OP_FLUSH && c->op[safe - 1].drive == drive))
		safe--;
	for (uint64_t i = 0; i < point && !err; i++) {
		const struct op *op = &c->op[i];

		if (op->kind > OP_ZERO || op->drive != drive)
			continue;
		if ((op->sector + op->sectors) * DM_LOG_SECTOR > size_bytes)
			err = fail("a write beyond the drive's end", "LOG");
		else if (i < safe || op->durable)
			err = put(fd, op, 0, op->sectors);
		else
			err = put_perhaps(fd, op, &r, kept_of_8);
	}
	close(fd);
	return err;
}

static void print_acks(const struct cut *c, uint64_t point)
{
	uint64_t acked[WITNESSES_MAX] = { 0 };

	for (uint64_t i = 0; i < point; i++)
		if (c->op[i].kind == OP_ACK)
			acked[c->op[i].drive] = c->op[i].sectors;
	for (uint32_t w = 0; w < WITNESSES_MAX; w++)
		if (acked[w] > 0)
			printf("%u %" PRIu64 "\n", w, acked[w]);
}

static int make(const struct cut *c, char **args, char **images)
{
	uint64_t point = strtoull(args[0], NULL, 10), seed = strtoull(args[1], NULL, 10);

	if (point > c->op_count)
		return fail("there were not so many operations", args[0]);
	for (uint32_t d = 0; d < c->drives; d++)
		if (make_image(c, d, point, seed, strtoull(args[2], NULL, 10), images[d]))
			return -1;
	print_acks(c, point);
	return 0;
}

static int print_counts(const struct cut *c)
{
	uint64_t count[OP_ACK + 1] = { 0 };

	for (uint64_t i = 0; i < c->op_count; i++)
		count[c->op[i].kind]++;
	printf("%" PRIu64 " writes, %" PRIu64 " flushes, %" PRIu64 " changes acknowledged\n",
	       count[OP_WRITE] + count[OP_ZERO], count[OP_FLUSH], count[OP_ACK]);
	return 0;
}

int main(int argc, char **argv)
{
	struct cut c = { .drives = argc > 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0 };
	int err = -1;

	if (c.drives == 0 || c.drives > DRIVES_MAX)
		fprintf(stderr, "usage: cut LOG DRIVES count\n"
				"       cut LOG DRIVES points COUNT SEED\n"
				"       cut LOG DRIVES make POINT SEED SIZE IMAGE...\n");
	else if (load(&c, argv[1]) == 0) {
		if (strcmp(argv[3], "count") == 0 && argc == 4)
			err = print_counts(&c);
		else if (strcmp(argv[3], "points") == 0 && argc == 6)
			err = print_points(&c, strtoull(argv[4], NULL, 10),
					   strtoull(argv[5], NULL, 10));
		else if (strcmp(argv[3], "make") == 0 && argc == 7 + (int)c.drives)
			err = make(&c, argv + 4, argv + 7);
	}
	free(c.op);
	return err ? 2 : 0;
}
