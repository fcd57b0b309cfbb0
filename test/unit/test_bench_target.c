/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Every local target does the same work and notices the same damage. */
#include "bench/target/target.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig {
	char dir[64];
	struct target *t;
	struct target_session *s;
	struct target_group *g;
};

/* `threads` of a kind: "posix:", "direct:" or "uring:". */
static void set_up(struct rig *r, const char *kind, uint32_t threads)
{
	struct target_options options = { .threads = threads, .core_server = -1 };
	char name[96];

	snprintf(r->dir, sizeof(r->dir), "weka-target.XXXXXX");
	cr_assert(mkdtemp(r->dir));
	snprintf(name, sizeof(name), "%s%s", kind, r->dir);
	cr_assert_eq(target_open(&r->t, name, &options), 0);
	cr_assert_eq(target_session_open(r->t, &r->s), 0);
	cr_assert_eq(target_mkdir(r->s, "d"), 0);
	cr_assert_eq(target_mkdir(r->s, "d"), 0, "one that exists is fine");
	r->g = target_groups_create(1, 16);
}

static void tear_down(struct rig *r)
{
	target_groups_destroy(r->g);
	target_session_close(r->s);
	target_close(r->t);
	cr_assert_eq(rmdir(r->dir), 0, "the target left something");
}

static int do_files(struct rig *r, enum target_op op, uint64_t bytes, uint64_t range)
{
	struct target_files f = { .dir = "d",
				  .count = 16,
				  .bytes = bytes,
				  .op = op,
				  .range = range,
				  .flags = range ? TARGET_KEEP_OPEN : TARGET_DURABLE };

	memset(r->g->io, 0, 16 * sizeof(r->g->io[0]));
	cr_assert(target_files_next(&f, r->g));
	return target_do(r->s, r->g);
}

/* Returns the bytes that were read back. */
static uint64_t whole_life(const char *kind, uint32_t threads, uint64_t bytes)
{
	uint64_t got = 0;
	struct rig r;

	set_up(&r, kind, threads);
	cr_assert_eq(do_files(&r, TARGET_PUT, bytes, 0), 0);
	cr_assert_eq(do_files(&r, TARGET_READ, bytes, 0), 0);
	for (uint32_t i = 0; i < 16; i++) {
		cr_assert_eq(r.g->io[i].got_bytes, bytes);
		got += r.g->io[i].got_bytes;
	}
	cr_assert_eq(do_files(&r, TARGET_STAT, bytes, 0), 0);
	cr_assert_eq(r.g->io[7].got_bytes, bytes);
	snprintf(r.g->io[0].path, sizeof(r.g->io[0].path), "d");
	r.g->op = TARGET_LIST;
	r.g->count = 1;
	cr_assert_eq(target_do(r.s, r.g), 0);
	cr_assert_eq(r.g->io[0].got_bytes, 16);
	cr_assert_eq(do_files(&r, TARGET_REMOVE, bytes, 0), 0);
	cr_assert_eq(do_files(&r, TARGET_READ, bytes, 0), -ENOENT);
	tear_down(&r);
	return got;
}

Test(bench_target, files_of_a_directory)
{
	cr_assert_eq(whole_life("posix:", 0, 5000), 16 * 5000);
}

Test(bench_target, files_by_threads)
{
	cr_assert_eq(whole_life("posix:", 3, 5000), 16 * 5000);
}

Test(bench_target, files_by_o_direct)
{
	cr_assert_eq(whole_life("direct:", 0, 5000), 16 * 5000);
}

Test(bench_target, files_by_io_uring)
{
	cr_assert_eq(whole_life("uring:", 0, 5000), 16 * 5000);
}

Test(bench_target, files_of_several_pieces)
{
	cr_assert_eq(whole_life("direct:", 2, (9u << 20) + 5), 16 * ((9u << 20) + 5));
}

Test(bench_target, files_of_several_pieces_by_io_uring)
{
	cr_assert_eq(whole_life("uring:", 0, (3u << 20) + 5), 16 * ((3u << 20) + 5));
}

/* Returns the bytes of the last range. */
static uint64_t ranges(const char *kind, uint32_t threads)
{
	uint64_t got;
	struct rig r;

	set_up(&r, kind, threads);
	cr_assert_eq(do_files(&r, TARGET_PUT, 16 * 10000, 0), 0);
	cr_assert_eq(do_files(&r, TARGET_READ, 0, 10000), 0);
	got = r.g->io[15].got_bytes;
	cr_assert_eq(do_files(&r, TARGET_READ, 0, 10001), -ENODATA, "beyond the end");
	tear_down(&r);
	return got;
}

Test(bench_target, ranges_of_a_file)
{
	cr_assert_eq(ranges("posix:", 0), 10000);
}

Test(bench_target, ranges_by_o_direct)
{
	cr_assert_eq(ranges("direct:", 2), 10000);
}

Test(bench_target, uring_ranges)
{
	cr_assert_eq(ranges("uring:", 0), 10000);
}

/* Returns the status of a read that finds another file's bytes. */
static int another_file(const char *kind)
{
	struct rig r;
	struct target_io *io;
	int status;

	set_up(&r, kind, 0);
	cr_assert_eq(do_files(&r, TARGET_PUT, 5000, 0), 0);
	io = r.g->io;
	r.g->op = TARGET_READ;
	memcpy(io[3].path, io[4].path, sizeof(io[3].path));
	cr_assert_eq(target_do(r.s, r.g), -EBADMSG);
	cr_assert_eq(io[4].status, 0);
	status = io[3].status;
	tear_down(&r);
	return status;
}

Test(bench_target, notices_the_bytes_of_another_file)
{
	cr_assert_eq(another_file("posix:"), -EBADMSG);
	cr_assert_eq(another_file("uring:"), -EBADMSG);
}

Test(bench_target, unknown_names_are_refused)
{
	struct target_options options = { .core_server = -1 };
	struct target *t;

	cr_assert_eq(target_open(&t, "ftp://there", &options), 1);
	cr_assert_eq(target_open(&t, "posix:/nowhere/at/all", &options), 1);
}
