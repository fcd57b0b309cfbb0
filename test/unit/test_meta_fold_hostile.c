/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive dies together with the power at each step of a fold; stores that are full when they are
 * to be folded; another width. */
#include "test/unit/meta_fold_store.h"

TestSuite(meta_fold_hostile, .timeout = 300);

static bool to_fold(void)
{
	for (uint32_t n = 0; n < 3000 && !r.cut; n++) {
		if (!meta__folder_idle(r.m))
			return true;
		if (n % 100 == 0)
			meta__ckpt_want(r.m);
		(void)rig_step(&r);
	}
	return false;
}

static void without(uint32_t drive)
{
	r.dead = r.dying = 0;
	r.dies_at = 0;
	wreck(drive);
	r.conf.drive[drive].nblocks = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	folds_are_right();
	all_is_there();
	clear_unsure();
}

static void is_rebuilt(uint32_t drive)
{
	if (stat_of(drive).lost || stat_of(drive).gone)
		rebuilt(drive);
	folds_are_right();
	bigs_are_there();
	is_whole();
	for (uint32_t d = 0; d < r.conf.ndrives; d++) {
		if (d == drive)
			continue;
		r.bad_reads = 1u << d;
		bigs_are_there();
	}
	r.bad_reads = 0;
}

static void each_stage(uint64_t seed, uint32_t steps, bool stops)
{
	const uint32_t width = 2 + (uint32_t)seed % 3;
	const uint32_t drives = width + 1 + (uint32_t)(seed / 3 % 2);
	const uint32_t drive = (uint32_t)(seed * 7 + steps) % drives;
	const uint32_t other = (drive + 1) % drives;

	folds_of(seed, drives, width, seed % 2);
	r.cut_garbles = seed % 5 == 0;
	changes(60 + (uint32_t)(seed % 40));
	if (seed % 2)
		fold();
	changes(20);
	(void)to_fold();
	for (uint32_t n = 0; n < steps && !r.cut; n++)
		(void)rig_step(&r);
	if (stops) {
		cr_assert_eq(rig_stop(&r), 0);
	} else {
		if (seed % 7 < 3) {
			r.dead = 1u << drive;
			for (uint64_t n = rand_below(&r.rand, 12); n > 0; n--)
				(void)rig_step(&r);
		}
		rig_power_cut(&r);
	}
	without(drive);
	for (uint64_t n = rand_below(&r.rand, 200); n > 0; n--)
		(void)rig_step(&r);
	if (seed % 4 == 1)
		changes(10);
	rig_power_cut(&r);
	without(drive);
	is_rebuilt(drive);
	if (drives < 4) {
		rig_end(&r);
		return;
	}
	changes(20);
	if (seed % 3)
		fold();
	bigs_are_there();
	rig_power_cut(&r);
	without(other);
	is_rebuilt(other);
	rig_end(&r);
}

Test(meta_fold_hostile, drive_and_power_fail_at_each_step)
{
	for (uint64_t seed = 1; seed < 4; seed++)
		for (uint32_t k = 0; k < 30; k++)
			each_stage(seed * 31 + k, k < 12 ? k : 12 + (k - 12) * 9, false);
}

Test(meta_fold_hostile, stop_at_each_step)
{
	for (uint64_t seed = 1; seed < 4; seed++)
		for (uint32_t k = 0; k < 15; k++)
			each_stage(seed * 17 + k, k * 11, true);
}

/* ---- full stores -------------------------------------------------------------------------- */

#define FILL_MAX 2500u
static uint64_t fill_at[FILL_MAX];
static uint32_t files;

static const char *fill_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/fill %u", i);
	return path;
}

static void fill(void)
{
	int err = 0;

	while (err == 0 && files < FILL_MAX) {
		err = rig_put(&r, fill_path(files), 12, 7 + files);
		fill_at[files] = err ? 0 : 7 + files;
		files += err == 0;
	}
	cr_assert(err == 0 || err == -ENOSPC, "%d", err);
}

static uint32_t churn(uint32_t count)
{
	uint32_t refused = 0;

	for (uint32_t n = 0; n < count; n++) {
		const uint32_t k = (uint32_t)rand_below(&r.rand, files);
		int err = rig_unlink(&r, fill_path(k));

		cr_assert_eq(err, fill_at[k] ? 0 : -ENOENT);
		fill_at[k] = 0;
		err = rig_put(&r, fill_path(k), 12, 5000 + n);
		cr_assert(err == 0 || err == -ENOSPC, "%d", err);
		refused += err != 0;
		fill_at[k] = err ? 0 : 5000 + n;
	}
	return refused;
}

static void fills_are_there(void)
{
	for (uint32_t i = 0; i < files; i++) {
		uint32_t got;
		uint64_t fill;

		if (fill_at[i] == 0)
			continue;
		cr_assert_eq(rig_get(&r, fill_path(i), &got, &fill), 0);
		cr_assert_eq(fill, fill_at[i]);
	}
}

static void store_full(uint64_t seed, uint32_t drives, uint32_t width, uint32_t spare)
{
	uint64_t bytes[RIG_DRIVES_MAX];

	for (uint32_t d = 0; d < drives; d++)
		bytes[d] = DRIVE_BYTES;
	rig_make_of(&r, seed, drives, bytes, 4, seed % 2);
	r.conf.copies = 2;
	r.conf.fold = width;
	r.conf.spare_drives = spare;
	r.copied = true;
	memset(fill_at, 0, sizeof(fill_at));
	files = 0;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	fill();
}

static int ask(uint32_t width)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT, .length = width };

	return rig_run(&r, &op);
}

static bool leaves(uint32_t drive)
{
	r.dead = 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	for (uint32_t turns = 0; turns < 300 && !stat_of(drive).gone; turns++)
		rig_idle(&r);
	return stat_of(drive).gone;
}

static void mirror_is_folded(uint64_t seed, uint32_t drives)
{
	uint32_t before;

	store_full(seed, drives, 0, seed % 2 ? META_SPARE_AUTO : 0);
	if (seed % 3)
		(void)churn(files);
	before = files;
	cr_assert_eq(ask(drives), drives > META_FOLD_MAX ? -EINVAL : -EPERM);
	cr_assert_eq(ask(drives - 1), 0);
	(void)churn(20);
	rig_idle(&r);
	fold();
	fold();
	fill();
	cr_expect_geq(files, before);
	fills_are_there();
	(void)churn(files);
	if (seed % 2) {
		cr_expect(leaves((uint32_t)seed % drives), "seed %llu, %u drives: %u zones",
			  (unsigned long long)seed, drives,
			  stat_of((uint32_t)seed % drives).zones_used);
		fills_are_there();
	}
	rig_end(&r);
}

Test(meta_fold_hostile, full_mirror_is_folded)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t drives = 3; drives <= RIG_DRIVES_MAX; drives++)
			mirror_is_folded(seed, drives);
}

static void folds_get_narrower(uint64_t seed, uint32_t drives)
{
	const uint32_t drive = (uint32_t)seed % drives;

	store_full(seed, drives, drives - 1, META_SPARE_AUTO);
	(void)churn(files);
	cr_assert_eq(ask(2), 0);
	rig_idle(&r);
	(void)churn(files / 4);
	cr_expect(leaves(drive), "seed %llu, %u drives: %u zones", (unsigned long long)seed, drives,
		  stat_of(drive).zones_used);
	fills_are_there();
	rig_end(&r);
}

Test(meta_fold_hostile, narrower_folds_in_a_full_store)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t drives = 5; drives <= RIG_DRIVES_MAX; drives++)
			folds_get_narrower(seed, drives);
}

/* The drive of the parity does not take the header that names the members: it is lost, for the
 * header may be there. */
Test(meta_fold_hostile, drive_that_does_not_take_the_header_is_lost)
{
	uint32_t tried = 0;

	for (uint64_t seed = 1; seed <= 12; seed++) {
		uint32_t drive = META_DRIVES_MAX;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG / 2);
		for (uint32_t n = 0; n < 4000 && drive == META_DRIVES_MAX; n++) {
			if (n % 100 == 0)
				meta__ckpt_want(r.m);
			(void)rig_step(&r);
			if (r.m->zones->naming && r.m->zones->naming_status == -EAGAIN)
				drive = drive_of(r.m->zones->naming->zone);
		}
		if (drive < META_DRIVES_MAX) {
			tried++;
			r.bad_writes = 1u << drive;
			for (uint32_t n = 0; n < 300 && r.m->zones->naming; n++)
				(void)rig_step(&r);
			cr_assert(!r.m->zones->naming);
			cr_expect(stat_of(drive).lost || stat_of(drive).gone ||
				  r.m->losing >> drive & 1 || r.m->failed);
			bigs_are_there();
		}
		rig_end(&r);
	}
	cr_assert_gt(tried, 3);
}
