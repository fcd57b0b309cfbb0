/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Power cuts: at any write of puts, unlinks, checkpoints, collection and of the mount itself.
 * After each the store must be what was acknowledged; the one operation under way is there whole
 * or not at all; the check is clean.
 */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILES 40u

struct file {
	uint64_t fill; /* 0: not there */
	uint32_t blocks;
};

static struct rig r;

static struct {
	struct file file[FILES];
	uint64_t next_fill;
	bool pending; /* an operation on file `at` was under way: it may be as `maybe` says */
	uint32_t at;
	struct file maybe;
	uint64_t wrong;
	char first[256];
} model;

TestSuite(meta_power, .timeout = 120);

static void path_of(uint32_t i, char path[32])
{
	(void)snprintf(path, 32, "/file %u", i);
}

static void wrong(const char *what, uint32_t i, int err)
{
	if (model.wrong++ == 0)
		(void)snprintf(model.first, sizeof(model.first), "%s: file %u: error %d, %s", what,
			       i, err, meta_error(r.m));
}

static bool same(const struct file *a, const struct file *b)
{
	return a->fill == b->fill && (a->fill == 0 || a->blocks == b->blocks);
}

/* One operation, acknowledged or cut off. */
static bool work(struct rand_state *rand)
{
	uint64_t what = rand_below(rand, 10);
	struct file to = { 0 };
	char path[32];
	int err;

	model.at = (uint32_t)rand_below(rand, FILES);
	path_of(model.at, path);
	if (what == 9) {
		rig_idle(&r);
		return !r.cut;
	}
	if (what < 6)
		to = (struct file){ ++model.next_fill, (uint32_t)rand_below(rand, 5) };
	model.maybe = to;
	model.pending = true;
	err = to.fill ? rig_put(&r, path, to.blocks, to.fill) : rig_unlink(&r, path);
	if (err == -ECANCELED)
		return false;
	model.pending = false;
	if (err == 0)
		model.file[model.at] = to;
	else if (err != -ENOSPC && (err != -ENOENT || model.file[model.at].fill))
		wrong("operation", model.at, err);
	return !r.cut;
}

static void compare(void)
{
	struct meta_check check;

	for (uint32_t i = 0; i < FILES; i++) {
		struct file is = { 0 };
		char path[32];
		int err;

		path_of(i, path);
		err = rig_get(&r, path, &is.blocks, &is.fill);
		if (err == -ENOENT)
			err = 0, is.fill = 0;
		if (!err && model.pending && model.at == i && same(&is, &model.maybe))
			model.file[i] = is;
		else if (err || !same(&is, &model.file[i]))
			wrong("after the cut", i, err);
	}
	model.pending = false;
	if (rig_check(&r, &check) != 0) {
		wrong("check", 0, 0);
		if (model.wrong == 1)
			(void)snprintf(model.first, sizeof(model.first), "%s", check.first[0]);
	}
}

/* Mount; sometimes the power goes off during that, too. */
static void mount(struct rand_state *rand)
{
	int err;

	for (int i = 0; i < 3 && rand_below(rand, 3) == 0; i++) {
		r.cut_at = r.writes + 1 + rand_below(rand, 15);
		err = rig_mount(&r);
		if (err && err != -ECANCELED)
			wrong("mount that is cut", 0, err);
		rig_power_cut(&r);
	}
	r.cut_at = 0;
	err = rig_mount(&r);
	if (err)
		wrong("mount", 0, err);
}

/* `rounds` cuts of one store.  How many wrongs. */
static uint64_t run(uint64_t seed, uint32_t rounds, bool kills, void (*lie)(struct rig *r))
{
	struct rand_state rand;

	memset(&model, 0, sizeof(model));
	rand_seed(&rand, seed);
	rig_make(&r, seed, 1 + seed % 2, seed % 3 ? 4u << 20 : 3u << 20, 1u << seed % 3,
		 seed % 4 != 0 || lie);
	r.lifo = seed % 5 == 0;
	cr_assert_eq(rig_format(&r), 0);
	if (lie)
		lie(&r);
	for (uint32_t round = 0; round < rounds && !model.wrong; round++) {
		r.cut_at = r.writes + 1 + rand_below(&rand, 120);
		for (uint32_t i = 0; i < 300 && work(&rand); i++)
			;
		r.cut = false;
		r.cut_at = 0;
		if (kills && rand_below(&rand, 2))
			rig_kill(&r);
		else
			rig_power_cut(&r);
		mount(&rand);
		if (!model.wrong)
			compare();
	}
	rig_end(&r);
	return model.wrong;
}

Test(meta_power, store_is_what_was_acknowledged_after_every_cut)
{
	for (uint64_t seed = 1; seed <= test_runs(60); seed++)
		cr_assert_eq(run(seed, 10, false, NULL), 0, "seed %llu: %s",
			     (unsigned long long)seed, model.first);
}

Test(meta_power, so_it_is_when_only_the_process_dies)
{
	for (uint64_t seed = 1000; seed <= 1040; seed++)
		cr_assert_eq(run(seed, 10, true, NULL), 0, "seed %llu: %s",
			     (unsigned long long)seed, model.first);
}

/* ---- do these tests see anything?  A drive that lies must be found out. ---------------- */

static void lie_about_flushes(struct rig *rig)
{
	rig->ignore_flush = true;
}

static void lie_about_fua(struct rig *rig)
{
	rig->ignore_fua = true;
}

static uint64_t wrongs_of(void (*lie)(struct rig *r))
{
	uint64_t wrongs = 0;

	for (uint64_t seed = 1; seed <= 10; seed++)
		wrongs += run(seed, 4, false, lie) != 0;
	return wrongs;
}

Test(meta_power, drive_that_ignores_flushes_is_found_out)
{
	cr_assert_gt(wrongs_of(lie_about_flushes), 5);
}

Test(meta_power, drive_that_ignores_fua_is_found_out)
{
	cr_assert_gt(wrongs_of(lie_about_fua), 5);
}

/* ---- format ------------------------------------------------------------------------------ */

Test(meta_power, format_that_is_cut_leaves_no_store_or_a_whole_one)
{
	uint32_t none = 0, whole = 0;

	for (uint64_t at = 1; at < 110; at++) {
		int err;

		rig_make(&r, at, 1 + at % 2, 2u << 20, 1, at % 3 != 0);
		r.cut_at = at;
		err = rig_format(&r);
		cr_assert(err == 0 || err == -ECANCELED);
		rig_power_cut(&r);
		err = rig_mount(&r);
		if (err) {
			cr_assert(err == -ENODATA, "write %llu: %d, %s", (unsigned long long)at,
				  err, meta_error(r.m));
			none++;
		} else {
			struct meta_check check;

			cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
			whole++;
		}
		rig_end(&r);
	}
	cr_assert_gt(none, 30);
	cr_assert_gt(whole, 5);
}

Test(meta_power, format_over_an_old_store_that_is_cut_leaves_the_old_one_none_or_the_new)
{
	uint32_t old = 0, none = 0, new = 0;

	for (uint64_t at = 1; at < 100; at++) {
		struct meta_check check;
		uint32_t blocks;
		uint64_t fill;
		int err;

		rig_make(&r, at, 1, 2u << 20, 1, true);
		cr_assert_eq(rig_format(&r), 0);
		cr_assert_eq(rig_put(&r, "/old", 2, 7), 0);
		cr_assert_eq(rig_stop(&r), 0);
		memcpy(r.conf.uuid, "another uuid", 12);
		r.cut_at = r.writes + at;
		(void)rig_format(&r);
		rig_power_cut(&r);
		err = rig_mount(&r);
		cr_assert(err == 0 || err == -ENODATA, "write %llu: %d %s", (unsigned long long)at,
			  err, meta_error(r.m));
		if (err) {
			none++;
		} else {
			err = rig_get(&r, "/old", &blocks, &fill);
			cr_assert(err == 0 || err == -ENOENT);
			cr_assert_eq(memcmp(r.m->uuid, "another uuid", 12) == 0, err == -ENOENT);
			old += err == 0;
			new += err == -ENOENT;
			cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
		}
		rig_end(&r);
	}
	cr_assert(old > 0 && old < 4 && none > 30 && new > 5);
}
