/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Holes through the client library, case by case: what fallocate(2) says of FALLOC_FL_PUNCH_HOLE
 * with KEEP_SIZE, lseek(2) of SEEK_DATA and SEEK_HOLE, and POSIX of write() and ftruncate() behind
 * the end.  A case is a few steps on a new file; a model of its bytes goes along, and is compared
 * when they are over.
 */
#include "base/num.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define K         4096ull
#define M         (1ull << 20)
#define T         (1ull << 40)
#define MODEL_MAX (24 * M)

enum what {
	DONE,
	WRITE,  /* length bytes, none of them 0, at offset; want: as many */
	PUNCH,  /* offset, length */
	CUT,    /* truncate to offset */
	DATA,   /* seek from offset */
	HOLE,   /* ... */
	SIZE,   /* want */
	BLOCKS, /* want: allocated, of 4096 bytes */
	ZEROS,  /* read: length bytes at offset are zeros; want: as many are there */
};

struct step {
	enum what what;
	uint64_t offset;
	uint64_t length;
	int64_t want;
};

struct posix_case {
	const char *says;
	struct step step[9];
};

static const struct posix_case cases[] = {
	/* ---- punch ---- */
	{ "the range reads as zeros, whole blocks are given back, the size stays",
	  { { WRITE, 0, 8 * K, 8 * K },
	    { PUNCH, 2 * K, 3 * K, 0 },
	    { ZEROS, 2 * K, 3 * K, 3 * K },
	    { BLOCKS, 0, 0, 5 },
	    { SIZE, 0, 0, 8 * K } } },
	{ "within a block: partial blocks are zeroed, and nothing is given back",
	  { { WRITE, 0, 2 * K, 2 * K },
	    { PUNCH, 100, 200, 0 },
	    { ZEROS, 100, 200, 200 },
	    { BLOCKS, 0, 0, 2 } } },
	{ "over two partial blocks and whole ones between",
	  { { WRITE, 0, 8 * K, 8 * K }, { PUNCH, K + 7, 4 * K, 0 }, { BLOCKS, 0, 0, 5 } } },
	{ "from the middle of a block to a block's end",
	  { { WRITE, 0, 4 * K, 4 * K }, { PUNCH, K + 1, K - 1, 0 }, { BLOCKS, 0, 0, 4 } } },
	{ "from a block's start to its middle",
	  { { WRITE, 0, 4 * K, 4 * K }, { PUNCH, K, K - 1, 0 }, { BLOCKS, 0, 0, 4 } } },
	{ "the last bytes of two blocks that touch",
	  { { WRITE, 0, 4 * K, 4 * K }, { PUNCH, 2 * K - 1, 2, 0 }, { BLOCKS, 0, 0, 4 } } },
	{ "one byte", { { WRITE, 0, K, K }, { PUNCH, 5, 1, 0 }, { ZEROS, 5, 1, 1 } } },
	{ "all of a file: it keeps its size and has no blocks",
	  { { WRITE, 0, 8 * K, 8 * K },
	    { PUNCH, 0, 8 * K, 0 },
	    { BLOCKS, 0, 0, 0 },
	    { SIZE, 0, 0, 8 * K },
	    { DATA, 0, 0, -ENXIO } } },
	{ "over the end of the file: the size does not change",
	  { { WRITE, 0, 3 * K, 3 * K },
	    { PUNCH, 2 * K, 9 * K, 0 },
	    { SIZE, 0, 0, 3 * K },
	    { BLOCKS, 0, 0, 2 } } },
	{ "up to an end inside a block: that block is whole",
	  { { WRITE, 0, 2 * K + 2000, 2 * K + 2000 },
	    { PUNCH, 2 * K, 2000, 0 },
	    { BLOCKS, 0, 0, 2 },
	    { HOLE, K, 0, 2 * K } } },
	{ "behind the end of the file: nothing happens",
	  { { WRITE, 0, K, K },
	    { PUNCH, K, K, 0 },
	    { PUNCH, T, T, 0 },
	    { SIZE, 0, 0, K },
	    { BLOCKS, 0, 0, 1 } } },
	{ "in an empty file: nothing happens",
	  { { PUNCH, 0, K, 0 }, { SIZE, 0, 0, 0 }, { BLOCKS, 0, 0, 0 } } },
	{ "a hole in a hole",
	  { { CUT, 10 * K, 0, 0 }, { PUNCH, K, 5 * K, 0 }, { BLOCKS, 0, 0, 0 } } },
	{ "twice the same",
	  { { WRITE, 0, 4 * K, 4 * K },
	    { PUNCH, K, K, 0 },
	    { PUNCH, K, K, 0 },
	    { BLOCKS, 0, 0, 3 } } },
	{ "a length of 0 is EINVAL", { { WRITE, 0, K, K }, { PUNCH, 0, 0, -EINVAL } } },
	{ "an end above the largest offset is EFBIG",
	  { { WRITE, 0, K, K }, { PUNCH, 1, INT64_MAX, -EFBIG } } },
	{ "the largest range that there is",
	  { { WRITE, 0, 3 * K, 3 * K }, { PUNCH, K, INT64_MAX - K, 0 }, { BLOCKS, 0, 0, 1 } } },
	{ "more than one step of 4 MiB, edges in part",
	  { { WRITE, 0, 13 * M, 13 * M },
	    { PUNCH, M + 5, 11 * M, 0 },
	    { BLOCKS, 0, 0, 13 * 256 - 11 * 256 + 1 } } },
	{ "a terabyte with a block at each end, and one in the middle",
	  { { WRITE, 0, K, K },
	    { WRITE, T / 2, K, K },
	    { WRITE, T, K, K },
	    { BLOCKS, 0, 0, 3 },
	    { PUNCH, 10, T, 0 },
	    { BLOCKS, 0, 0, 2 },
	    { DATA, K, 0, (int64_t)T } } },
	{ "a small file, whose bytes lie in the index",
	  { { WRITE, 0, 300, 300 },
	    { PUNCH, 100, 50, 0 },
	    { ZEROS, 100, 50, 50 },
	    { SIZE, 0, 0, 300 },
	    { BLOCKS, 0, 0, 0 } } },
	{ "all of a small file",
	  { { WRITE, 0, 300, 300 },
	    { PUNCH, 0, 300, 0 },
	    { DATA, 0, 0, -ENXIO },
	    { SIZE, 0, 0, 300 } } },
	{ "the last bytes, which lie in the index while the rest does not",
	  { { WRITE, 0, 2 * K, 2 * K },
	    { WRITE, 2 * K, 700, 700 },
	    { PUNCH, 2 * K + 10, 80, 0 },
	    { PUNCH, 2 * K + 600, K, 0 },
	    { SIZE, 0, 0, 2 * K + 700 } } },
	{ "over blocks and last bytes in the index at once",
	  { { WRITE, 0, 2 * K, 2 * K },
	    { WRITE, 2 * K, 700, 700 },
	    { PUNCH, K, K + 300, 0 },
	    { BLOCKS, 0, 0, 1 } } },
	{ "what was punched is written again",
	  { { WRITE, 0, 4 * K, 4 * K },
	    { PUNCH, K, 2 * K, 0 },
	    { WRITE, K + 100, 50, 50 },
	    { BLOCKS, 0, 0, 3 },
	    { HOLE, 0, 0, 2 * K } } },
	{ "what was punched at the end is cut and grown: zeros",
	  { { WRITE, 0, 4 * K, 4 * K },
	    { PUNCH, 2 * K, 2 * K, 0 },
	    { CUT, 3 * K + 9, 0, 0 },
	    { CUT, 8 * K, 0, 0 },
	    { ZEROS, 2 * K, 6 * K, 6 * K },
	    { BLOCKS, 0, 0, 2 } } },
	{ "an append behind a hole at the end",
	  { { WRITE, 0, 2 * K, 2 * K },
	    { PUNCH, K, K, 0 },
	    { WRITE, 2 * K, 5000, 5000 },
	    { DATA, K, 0, 2 * K } } },
	/* ---- seek ---- */
	{ "SEEK_DATA in data is where one is",
	  { { WRITE, 0, 2 * K, 2 * K }, { DATA, 77, 0, 77 } } },
	{ "SEEK_HOLE in a file without holes is its end",
	  { { WRITE, 0, 5000, 5000 }, { HOLE, 0, 0, 5000 }, { HOLE, 4999, 0, 5000 } } },
	{ "SEEK_DATA and SEEK_HOLE at the end are ENXIO",
	  { { WRITE, 0, 5000, 5000 }, { DATA, 5000, 0, -ENXIO }, { HOLE, 5000, 0, -ENXIO } } },
	{ "... and behind it",
	  { { WRITE, 0, K, K }, { DATA, 9 * K, 0, -ENXIO }, { HOLE, 9 * K, 0, -ENXIO } } },
	{ "... and in an empty file", { { DATA, 0, 0, -ENXIO }, { HOLE, 0, 0, -ENXIO } } },
	{ "SEEK_DATA in the hole at the end is ENXIO",
	  { { WRITE, 0, K, K }, { CUT, 9 * K, 0, 0 }, { DATA, K, 0, -ENXIO }, { HOLE, K, 0, K } } },
	{ "SEEK_HOLE in a hole is where one is",
	  { { WRITE, 0, 4 * K, 4 * K },
	    { PUNCH, K, 2 * K, 0 },
	    { HOLE, K + 9, 0, K + 9 },
	    { HOLE, 0, 0, K } } },
	{ "SEEK_DATA in a hole is where it ends",
	  { { WRITE, 0, 4 * K, 4 * K }, { PUNCH, K, 2 * K, 0 }, { DATA, K + 9, 0, 3 * K } } },
	{ "a block of which a part was punched is data",
	  { { WRITE, 0, 4 * K, 4 * K },
	    { PUNCH, K, K - 1, 0 },
	    { DATA, K, 0, K },
	    { HOLE, 0, 0, 4 * K } } },
	{ "an offset that no file can have is ENXIO",
	  { { WRITE, 0, K, K }, { DATA, UINT64_MAX, 0, -ENXIO }, { HOLE, INT64_MAX, 0, -ENXIO } } },
	{ "data and holes in turn, over more than one chunk",
	  { { WRITE, 0, M, M },
	    { PUNCH, 100 * K, 50 * K, 0 },
	    { HOLE, 0, 0, 100 * K },
	    { DATA, 100 * K, 0, 150 * K },
	    { HOLE, 150 * K, 0, M } } },
	/* ---- holes that writes and truncates make ---- */
	{ "a write behind the end leaves a hole, which reads as zeros",
	  { { WRITE, 0, K, K },
	    { WRITE, 10 * K, K, K },
	    { ZEROS, K, 9 * K, 9 * K },
	    { BLOCKS, 0, 0, 2 },
	    { HOLE, 0, 0, K },
	    { DATA, K, 0, 10 * K } } },
	{ "a write far behind the end of an empty file",
	  { { WRITE, T, 10, 10 },
	    { SIZE, 0, 0, T + 10 },
	    { DATA, 0, 0, (int64_t)T },
	    { ZEROS, T - 100, 100, 100 } } },
	{ "ftruncate beyond the end leaves a hole",
	  { { WRITE, 0, 100, 100 },
	    { CUT, 5 * K, 0, 0 },
	    { ZEROS, 100, 5 * K - 100, 5 * K - 100 },
	    { SIZE, 0, 0, 5 * K } } },
	{ "a write in the middle of a block in a hole: the rest of the block is zeros",
	  { { CUT, 8 * K, 0, 0 },
	    { WRITE, 3 * K + 1000, 100, 100 },
	    { ZEROS, 3 * K, 1000, 1000 },
	    { DATA, 0, 0, 3 * K },
	    { HOLE, 3 * K, 0, 4 * K } } },
	{ "a truncate to within a hole",
	  { { WRITE, 0, K, K },
	    { CUT, 9 * K, 0, 0 },
	    { CUT, 5 * K + 3, 0, 0 },
	    { HOLE, 0, 0, K },
	    { SIZE, 0, 0, 5 * K + 3 } } },
};

static struct weka_client *client;
static uint8_t model[MODEL_MAX], got[MODEL_MAX];
static uint64_t size;
static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };

static int64_t write_some(const struct weka_handle *h, const struct step *s)
{
	for (uint64_t i = 0; i < s->length; i++)
		got[i] = (uint8_t)(1 + (s->offset + i) % 251);
	if (s->offset + s->length <= MODEL_MAX)
		memcpy(model + s->offset, got, s->length);
	size = max_u64(size, s->offset + s->length);
	return weka_pwrite(client, h, got, s->length, s->offset);
}

static void zero_model(uint64_t from, uint64_t end)
{
	end = min_u64(end, MODEL_MAX);
	if (from < end)
		memset(model + from, 0, end - from);
}

static int64_t punch(const struct weka_handle *h, const struct step *s)
{
	int rc = weka_punch(client, h, s->offset, s->length);

	if (rc == 0)
		zero_model(s->offset, min_u64(s->offset + s->length, size));
	return rc;
}

static int64_t cut(const struct weka_handle *h, const struct step *s)
{
	zero_model(s->offset, UINT64_MAX);
	size = s->offset;
	return weka_truncate(client, h, s->offset);
}

static int64_t zeros(const struct weka_handle *h, const struct step *s)
{
	int64_t n = weka_pread(client, h, got, s->length, s->offset);

	for (int64_t i = 0; i < n; i++)
		if (got[i])
			return i;
	return n;
}

static int64_t step(const struct weka_handle *h, const struct step *s)
{
	struct weka_attr attr;
	int rc;

	switch (s->what) {
	case WRITE:
		return write_some(h, s);
	case PUNCH:
		return punch(h, s);
	case CUT:
		return cut(h, s);
	case DATA:
	case HOLE:
		return weka_seek(client, h, s->offset, s->what == HOLE ? WEKA_SEEK_HOLE : 0);
	case ZEROS:
		return zeros(h, s);
	default:
		rc = weka_stat(client, "/f", &attr);
		if (rc)
			return rc;
		return (int64_t)(s->what == SIZE ? attr.size_bytes : attr.allocated_bytes / K);
	}
}

static void try(const struct posix_case *c)
{
	struct weka_attr attr;
	int64_t n;

	zero_model(0, MODEL_MAX);
	size = 0;
	cr_assert_eq(weka_open(client, "/f", WEKA_CREATE | WEKA_EXCL, 0644, &attr), 0, "%s",
		     weka_error(client));
	for (uint32_t i = 0; i < ARRAY_LEN(c->step) && c->step[i].what; i++) {
		n = step(&attr.handle, &c->step[i]);
		cr_expect_eq(n, c->step[i].want, "%s: step %u: %lld, not %lld", c->says, i + 1,
			     (long long)n, (long long)c->step[i].want);
	}
	n = weka_pread(client, &attr.handle, got, min_u64(size, MODEL_MAX), 0);
	cr_expect_eq(n, (int64_t)min_u64(size, MODEL_MAX), "%s: its size", c->says);
	cr_expect(n <= 0 || memcmp(got, model, (size_t)n) == 0, "%s: its bytes", c->says);
	cr_assert_eq(weka_unlink(client, "/f"), 0);
}

struct way {
	char transport[8];
};
static struct way ways[] = { { "shm" }, { "tcp" } };

TestSuite(weka_posix_hole, .timeout = 120);

ParameterizedTestParameters(weka_posix_hole, table)
{
	return cr_make_param_array(struct way, ways, 2);
}

ParameterizedTest(struct way *way, weka_posix_hole, table)
{
	client = app_rig_begin_over(&rig, way->transport);
	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++)
		try(&cases[i]);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- objects that cannot have holes ---------------------------------------------------- */

Test(weka_posix_hole, what_is_no_file)
{
	struct weka_attr attr, dir;

	client = app_rig_begin_over(&rig, "shm");
	cr_assert_eq(weka_mkdir(client, "/d", 0755), 0);
	cr_assert_eq(weka_stat(client, "/d", &dir), 0);
	cr_expect_eq(weka_punch(client, &dir.handle, 0, 1), -EISDIR, "a directory has no bytes");
	cr_expect_eq(weka_seek(client, &dir.handle, 0, 0), -EISDIR, "... to seek in");
	cr_assert_eq(weka_symlink(client, "d", "/l"), 0);
	cr_assert_eq(weka_lstat(client, "/l", &attr), 0);
	cr_expect_eq(weka_punch(client, &attr.handle, 0, 1), -EINVAL, "nor has a symlink");
	cr_assert_eq(weka_write_file(client, "/f", "x", 1, NULL), 0);
	cr_assert_eq(weka_stat(client, "/f", &attr), 0);
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	cr_expect_eq(weka_punch(client, &attr.handle, 0, 1), -ESTALE, "a file that is gone");
	cr_expect_eq(weka_seek(client, &attr.handle, 0, 0), -ESTALE, "... to seek in");
	cr_expect_eq(weka_seek(client, &dir.handle, 0, 7), -EINVAL, "flags that there are not");
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- whole files --------------------------------------------------------------------------- */

/* A file of 1 TiB with 100 bytes in the middle, and a hole at its end. */
static FILE *sparse_file(void)
{
	FILE *f = tmpfile();

	cr_assert_not_null(f);
	cr_assert_eq(ftruncate(fileno(f), (off_t)T), 0);
	memset(got, 7, 100);
	cr_assert_eq(pwrite(fileno(f), got, 100, (off_t)(T / 2 + 5)), 100);
	return f;
}

ParameterizedTestParameters(weka_posix_hole, holes_of_whole_files_are_not_moved)
{
	return cr_make_param_array(struct way, ways, 2);
}

ParameterizedTest(struct way *way, weka_posix_hole, holes_of_whole_files_are_not_moved)
{
	const struct weka_ref ref = weka_ref_path("/f");
	FILE *in = sparse_file(), *out = tmpfile();
	struct weka_attr attr;
	struct stat st;

	cr_assert_not_null(out);
	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(lseek(fileno(in), 123, SEEK_SET), 123);
	cr_assert_eq(weka_put_fd(client, &ref, fileno(in), T, NULL), 0, "%s", weka_error(client));
	cr_assert_eq(lseek(fileno(in), 0, SEEK_CUR), 123, "its offset is the caller's");
	cr_assert_eq(weka_stat(client, "/f", &attr), 0);
	cr_assert_eq(attr.size_bytes, T);
	cr_assert_eq(attr.allocated_bytes, K);
	cr_assert_eq(weka_get_fd(client, &ref, fileno(out)), (int64_t)T, "%s", weka_error(client));
	cr_assert_eq(fstat(fileno(out), &st), 0);
	cr_assert_eq(st.st_size, (off_t)T);
	cr_assert_leq(st.st_blocks * 512, 256 << 10);
	cr_assert_eq(pread(fileno(out), got, 200, (off_t)(T / 2)), 200);
	cr_assert(got[4] == 0 && got[5] == 7 && got[104] == 7 && got[105] == 0);
	cr_assert_eq(weka_put_fd(client, &ref, fileno(in), T + 1, NULL), -ENODATA, "it is shorter");
	fclose(in);
	fclose(out);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* Bytes of the file before must not show through holes. */
Test(weka_posix_hole, a_descriptor_that_has_bytes_gets_zeros_for_holes)
{
	const struct weka_ref ref = weka_ref_path("/f");
	FILE *out = tmpfile();
	struct weka_attr attr;

	cr_assert_not_null(out);
	client = app_rig_begin_over(&rig, "shm");
	memset(got, 7, 3 * K);
	cr_assert_eq(pwrite(fileno(out), got, 3 * K, 0), (ssize_t)(3 * K));
	cr_assert_eq(weka_open(client, "/f", WEKA_CREATE | WEKA_EXCL, 0644, &attr), 0);
	cr_assert_eq(weka_truncate(client, &attr.handle, 3 * K), 0);
	cr_assert_eq(weka_get_fd(client, &ref, fileno(out)), (int64_t)(3 * K));
	cr_assert_eq(pread(fileno(out), got, 3 * K, 0), (ssize_t)(3 * K));
	cr_assert(got[0] == 0 && memcmp(got, got + 1, 3 * K - 1) == 0);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	fclose(out);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}
