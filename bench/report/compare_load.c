/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loads of weka-bench compare:
 *
 *   large files   one file in order and at random; files written
 *   small files   open, read, close by name in random order, batches of 256
 *   names         made, looked at, listed, removed: a directory of its own in each round
 *   first batch   a new client until its first batch of 256 files has come
 */
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/report/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES (256ull << 20)
#define PUT_BYTES   (32ull << 20)
#define NAMES_MAX   20000u /* a round, so that they fit six times */
#define NAME_BYTES  1024u
#define FIRST_BATCH 256u

/* Files of each small size: about as many bytes of each, and more than a batch. */
static uint64_t files_of(const struct compare_rig *r, uint64_t bytes)
{
	return max_u64(min_u64((256ull << 20) / bytes, 40000) / r->scale_down, 2 * FIRST_BATCH);
}

static int run_files(struct compare_rig *r, struct target_files *f, uint32_t batch, uint32_t depth,
		     double seconds, struct target_figures *out)
{
	struct target_loop loop = { .session = r->session,
				    .groups = target_groups_create(depth, batch),
				    .depth = depth,
				    .next = target_files_next,
				    .ctx = f };
	int err = loop.groups ? target_loop_run(&loop, seconds, out) : bench_fail("out of memory");

	target_groups_destroy(loop.groups);
	return err;
}

static double per_second(double amount, uint64_t ns)
{
	return ns ? amount * 1e9 / (double)ns : 0;
}

/* ---- large and small files -------------------------------------------------------------- */

static int in_order(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		    double *value, struct stat_hist *hist)
{
	struct target_files f = { .op = TARGET_READ,
				  .flags = TARGET_KEEP_OPEN,
				  .range = load->bytes,
				  .count = LARGE_BYTES / r->scale_down / load->bytes };
	struct target_figures got = { .hist = hist };
	double seconds = 0;

	(void)round;
	snprintf(f.dir, sizeof(f.dir), "%s", load->dir);
	do { /* from its start again: the whole file each time */
		f.next = 0;
		if (run_files(r, &f, load->batch, load->depth, r->args->seconds, &got))
			return 1;
		seconds = (double)got.ns / 1e9;
	} while (seconds < r->args->seconds && !bench_interrupted());
	*value = per_second((double)got.bytes, got.ns);
	return 0;
}

static int at_random(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		     double *value, struct stat_hist *hist)
{
	const bool pieces = strcmp(load->dir, "large") == 0;
	struct target_files f = { .op = TARGET_READ, .random = true, .random_state = r->seed++ };
	struct target_figures got = { .hist = hist };

	(void)round;
	snprintf(f.dir, sizeof(f.dir), "%s", load->dir);
	f.bytes = load->bytes;
	f.range = pieces ? load->bytes : 0;
	f.flags = pieces ? TARGET_KEEP_OPEN : 0;
	f.count = pieces ? LARGE_BYTES / r->scale_down / load->bytes : files_of(r, load->bytes);
	if (run_files(r, &f, load->batch, load->depth, r->args->seconds, &got))
		return 1;
	*value = per_second((double)got.ops, got.ns);
	return 0;
}

/* Files written whole, one after the other: the last ones replace the first. */
static int written(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		   double *value, struct stat_hist *hist)
{
	struct target_figures got = { .hist = hist };

	(void)round;
	do {
		struct target_files f = {
			.op = TARGET_PUT, .flags = TARGET_DURABLE, .bytes = load->bytes, .count = 4
		};

		snprintf(f.dir, sizeof(f.dir), "%s", load->dir);
		if (run_files(r, &f, 1, load->depth, r->args->seconds, &got))
			return 1;
	} while ((double)got.ns / 1e9 < r->args->seconds && !bench_interrupted());
	*value = per_second((double)got.bytes, got.ns);
	return 0;
}

/* ---- names -------------------------------------------------------------------------------- */

static void names_dir(const struct compare_load *load, uint32_t round, char out[64])
{
	snprintf(out, 64, "names%u%s", round, load->durable ? "d" : "");
}

static int create(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		  double *value, struct stat_hist *hist)
{
	struct target_files f = { .op = TARGET_PUT,
				  .flags = load->durable ? TARGET_DURABLE : 0,
				  .bytes = NAME_BYTES,
				  .count = max_u64(NAMES_MAX / r->scale_down, NAMES_MAX / 2) };
	struct target_figures got = { .hist = hist };
	int err;

	names_dir(load, round, f.dir);
	err = target_mkdir(r->session, f.dir);
	if (err)
		return bench_fail("%s: %s", f.dir, strerror(-err));
	r->created[round] = 0;
	if (run_files(r, &f, load->batch, load->depth, r->args->seconds, &got))
		return 1;
	r->created[round] = (uint32_t)got.ops;
	*value = per_second((double)got.ops, got.ns);
	return 0;
}

static int look_at(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		   double *value, struct stat_hist *hist)
{
	struct target_files f = { .op = TARGET_STAT,
				  .random = true,
				  .random_state = r->seed++,
				  .count = r->created[round] };
	struct target_figures got = { .hist = hist };

	names_dir(load, round, f.dir);
	if (r->created[round] == 0)
		return -ENOTSUP;
	if (run_files(r, &f, load->batch, load->depth, r->args->seconds / 2, &got))
		return 1;
	*value = per_second((double)got.ops, got.ns);
	return 0;
}

static int list(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		double *value, struct stat_hist *hist)
{
	struct target_group *g = target_groups_create(1, 1);
	uint64_t began = clock_now_ns(), names = 0, now = began;
	int err = g ? 0 : -ENOMEM;

	(void)hist;
	while (!err && now - began < (uint64_t)(r->args->seconds / 2 * 1e9)) {
		g->op = TARGET_LIST;
		g->count = 1;
		names_dir(load, round, g->io[0].path);
		err = target_do(r->session, g);
		names += g->io[0].got_bytes;
		now = clock_now_ns();
	}
	target_groups_destroy(g);
	if (err && err != -ENOTSUP)
		return bench_fail("a listing: %s", strerror(-err));
	*value = per_second((double)names, now - began);
	return err;
}

static int remove_names(struct compare_rig *r, const struct compare_load *load, uint32_t round,
			double *value, struct stat_hist *hist)
{
	struct target_files f = { .op = TARGET_REMOVE,
				  .flags = load->durable ? TARGET_DURABLE : 0,
				  .count = r->created[round] };
	struct target_figures got = { .hist = hist };

	names_dir(load, round, f.dir);
	if (r->created[round] == 0)
		return -ENOTSUP;
	if (run_files(r, &f, load->batch, load->depth, 1e6, &got)) /* all of them */
		return 1;
	*value = per_second((double)got.ops, got.ns);
	return 0;
}

/* ---- the first batch ------------------------------------------------------------------------ */

static int first_batch(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		       double *value, struct stat_hist *hist)
{
	struct target_files f = { .op = TARGET_READ,
				  .random = true,
				  .random_state = r->seed++,
				  .bytes = load->bytes,
				  .count = files_of(r, load->bytes) };
	struct target_group *g = target_groups_create(1, FIRST_BATCH);
	struct target_session *s = NULL;
	uint64_t began = clock_now_ns();
	int err = g ? target_session_open(r->target, &s) : 1;

	(void)round;
	(void)hist;
	snprintf(f.dir, sizeof(f.dir), "%s", load->dir);
	if (!err && target_files_next(&f, g))
		err = target_do(s, g);
	*value = (double)(clock_now_ns() - began) / 1e6;
	target_session_close(s);
	target_groups_destroy(g);
	return err ? bench_fail("the first batch: %s", strerror(-err)) : 0;
}

/* Reads the next 256 files there, and writes as many of that size here: 0 or -errno. */
static int copy_some(struct target_session *there, struct target_files *from,
		     struct target_files *to, struct target_group *g, struct target_session *local)
{
	int err;

	if (!target_files_next(from, g))
		return -ENOENT;
	err = target_do(there, g);
	if (!err && target_files_next(to, g))
		err = target_do(local, g);
	return err;
}

/* As many training jobs do it today: all files are copied to the local disk, then read there. */
static int after_copy(struct compare_rig *r, const struct compare_load *load, struct target *t,
		      double *value)
{
	struct target_files from = { .op = TARGET_READ,
				     .bytes = load->bytes,
				     .count = files_of(r, load->bytes) };
	struct target_files to = from, batch = from;
	struct target_group *g = target_groups_create(1, FIRST_BATCH);
	struct target_session *local = NULL, *there = NULL;
	uint64_t began = clock_now_ns();
	int err = g ? target_session_open(t, &local) : 1;

	err = err ? err : target_session_open(r->target, &there);
	snprintf(from.dir, sizeof(from.dir), "%s", load->dir);
	to.op = TARGET_PUT;
	memcpy(to.dir, from.dir, sizeof(to.dir));
	memcpy(batch.dir, from.dir, sizeof(batch.dir));
	batch.random = true;
	batch.random_state = r->seed++;
	err = err ? err : target_mkdir(local, load->dir);
	while (!err && from.next < from.count && !bench_interrupted())
		err = copy_some(there, &from, &to, g, local);
	if (!err && target_files_next(&batch, g))
		err = target_do(local, g);
	*value = (double)(clock_now_ns() - began) / 1e6;
	target_session_close(there);
	target_session_close(local);
	target_groups_destroy(g);
	return err;
}

static int copied_batch(struct compare_rig *r, const struct compare_load *load, uint32_t round,
			double *value, struct stat_hist *hist)
{
	struct target *t;
	char name[TARGET_PATH_MAX];
	int err;

	(void)round;
	(void)hist;
	if (!r->args->local || target_is_local(r->target))
		return -ENOTSUP;
	snprintf(name, sizeof(name), "posix:%s", r->args->local);
	if (target_open(&t, name, &r->args->options))
		return 1;
	err = after_copy(r, load, t, value);
	target_close(t);
	return err ? bench_fail("the copy: %s", strerror(-err)) : 0;
}

const struct compare_load compare_loads[] = {
	{ "Large files", "in order, pieces of 1 MiB", "B/s", false, in_order, "large", 1 << 20, 1,
	  8, false },
	{ "Large files", "at random, 4 KiB", "reads/s", false, at_random, "large", 4096, 32, 4,
	  false },
	{ "Large files", "files of 32 MiB written, durable", "B/s", false, written, "put",
	  PUT_BYTES, 1, 1, true },
	{ "Small files", "files of 4 KiB by name", "files/s", false, at_random, "s4", 4096, 256, 4,
	  false },
	{ "Small files", "files of 16 KiB by name", "files/s", false, at_random, "s16", 16384, 256,
	  4, false },
	{ "Small files", "files of 112 KiB by name", "files/s", false, at_random, "s112", 114688,
	  256, 4, false },
	{ "Names", "files of 1 KiB created, durable", "files/s", false, create, "", 0, 256, 4,
	  true },
	{ "Names", "attributes by name", "names/s", false, look_at, "", 0, 256, 4, true },
	{ "Names", "listing with attributes", "names/s", false, list, "", 0, 1, 1, true },
	{ "Names", "files removed, durable", "files/s", false, remove_names, "", 0, 256, 4, true },
	{ "Names", "files of 1 KiB created, not forced", "files/s", false, create, "", 0, 256, 4,
	  false },
	{ "Names", "files removed, not forced", "files/s", false, remove_names, "", 0, 256, 4,
	  false },
	{ "First batch", "256 files of 112 KiB by a new client", "ms", true, first_batch, "s112",
	  114688, 1, 1, false },
	{ "First batch", "the same, after a copy of all files", "ms", true, copied_batch, "s112",
	  114688, 1, 1, false },
};

const uint32_t compare_load_count = ARRAY_LEN(compare_loads);

/* ---- the files that are read --------------------------------------------------------- */

static int make_files(struct compare_rig *r, const char *dir, uint64_t bytes, uint64_t count)
{
	struct target_files f = { .op = TARGET_PUT, .bytes = bytes, .count = count };
	struct target_figures got = { 0 };
	int err = target_mkdir(r->session, dir);

	snprintf(f.dir, sizeof(f.dir), "%s", dir);
	if (err)
		return bench_fail("%s: %s", dir, strerror(-err));
	return count ? run_files(r, &f, (uint32_t)min_u64(count, 64), 2, 1e6, &got) : 0;
}

bool compare_wanted(const struct compare_load *load, const char *only)
{
	return !only || strstr(load->group, only) || strstr(load->name, only);
}

int compare_prepare(struct compare_rig *r, const char *only)
{
	const struct {
		const char *dir;
		uint64_t bytes, count;
	} sets[] = {
		{ "large", LARGE_BYTES / r->scale_down, 1 }, { "put", PUT_BYTES, 0 },
		{ "s4", 4096, files_of(r, 4096) },           { "s16", 16384, files_of(r, 16384) },
		{ "s112", 114688, files_of(r, 114688) },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		bool needed = false;

		for (uint32_t j = 0; j < compare_load_count; j++)
			needed |= strcmp(compare_loads[j].dir, sets[i].dir) == 0 &&
				  compare_wanted(&compare_loads[j], only);
		if (needed && !err && !bench_interrupted())
			err = make_files(r, sets[i].dir, sets[i].bytes, sets[i].count);
	}
	return err;
}
