/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive dies for good while changes are under way.  The log goes on with its copy on another
 * drive: what was gathered is decided, nothing that was acknowledged or seen is lost, and reads of
 * it are answered, whether or not the store takes more changes.
 */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)
#define FILES       48u
#define SEEDS       150u

static struct rig r;

/* The known fills of a file. */
static struct {
	uint64_t fill;   /* the newest that was acknowledged or seen; 0: none  */
	uint64_t unsure; /* one that was neither, and may be there; 0: none */
} file[FILES];

TestSuite(meta_dead, .timeout = 300);

static void store(uint64_t seed, uint32_t drives)
{
	memset(file, 0, sizeof(file));
	rig_make(&r, seed, drives, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
}

static const char *path_of(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/file %u", i);
	return path;
}

static uint32_t log_copies(void)
{
	struct meta_statfs s = { 0 };

	meta__log_stat(r.m, &s);
	return (uint32_t)s.log_copies;
}

Test(meta_dead, log_goes_on_with_one_copy_and_says_so)
{
	uint64_t fill;
	uint32_t blocks;

	store(3, 2);
	cr_assert_eq(rig_put(&r, "/before", 0, 1), 0);
	cr_assert_eq(log_copies(), 2);
	r.dead = 1u << 1;
	cr_assert_eq(rig_put(&r, "/after", 0, 2), 0);
	cr_assert_eq(meta_health(r.m), 0);
	cr_assert_eq(log_copies(), 1);
	cr_assert_eq(rig_get(&r, "/after", &blocks, &fill), 0);
	cr_assert_eq(fill, 2);
	rig_power_cut(&r);
	r.dead = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_get(&r, "/after", &blocks, &fill), 0);
	cr_assert_eq(fill, 2);
	rig_end(&r);
}

/* Its name is there, and its data is not: the client that wrote it must be told. */
Test(meta_dead, data_that_no_flush_had_covered_on_the_drive_that_died_is_not_acknowledged)
{
	uint32_t lost = 0;
	int err;

	for (uint64_t seed = 1; seed <= test_runs(12); seed++) {
		store(seed, 2);
		for (uint32_t i = 0; i < 4 + seed % 2; i++) /* so that each drive is next once */
			cr_assert_eq(rig_put(&r, path_of(i), 1, i + 1), 0);
		r.dead = 1u << 1;
		err = rig_put(&r, "/next", 1, 99);
		cr_assert(err == 0 || err == -EIO, "%d", err);
		lost += err == -EIO;
		cr_assert_eq(rig_put(&r, "/then", 1, 100), 0, "new data goes to the other drive");
		rig_end(&r);
	}
	cr_assert(lost > 0 && lost < 12, "%u of 12", lost);
}

Test(meta_dead, without_any_copy_the_store_takes_no_more_changes)
{
	uint64_t fill;
	uint32_t blocks;

	store(7, 2);
	cr_assert_eq(rig_put(&r, "/before", 0, 1), 0);
	r.dead = 3;
	cr_assert_eq(rig_put(&r, "/after", 0, 2), -EROFS);
	cr_assert_eq(meta_health(r.m), -EROFS);
	cr_assert_eq(rig_get(&r, "/before", &blocks, &fill), 0);
	rig_power_cut(&r);
	r.dead = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_get(&r, "/before", &blocks, &fill), 0);
	rig_end(&r);
}

/* Many operations at once, of which the death of a drive meets some in each state. */
#define AT_ONCE 6u

static struct meta_op op[AT_ONCE];
static uint32_t under_way; /* of these, by bits */

static void is_over(void *user, struct meta_op *ended)
{
	(void)user;
	under_way &= ~(1u << (ended - op));
}

static void put_some(struct rand_state *rand, uint64_t *fills)
{
	static char path[AT_ONCE][32];
	uint32_t at[AT_ONCE];
	uint64_t fill[AT_ONCE];

	r.on_over = is_over;
	under_way = 0;
	for (uint32_t i = 0; i < AT_ONCE; i++) {
		at[i] = (uint32_t)rand_below(rand, FILES / AT_ONCE) * AT_ONCE + i;
		fill[i] = ++*fills;
		(void)snprintf(path[i], sizeof(path[i]), "%s", path_of(at[i]));
		op[i] = (struct meta_op){
			.type = META_OP_PUT,
			.target = { .path = path[i], .path_len = (uint32_t)strlen(path[i]) },
			.wall_ns = 5,
			.flags = META_BY_INLINE,
			.inline_buf = &fill[i],
			.inline_len = sizeof(fill[i]),
			.size = sizeof(fill[i]),
			.status = 1,
		};
		file[at[i]].unsure = fill[i];
		under_way |= (uint32_t)!meta_op_start(r.m, &op[i]) << i;
	}
	for (uint32_t turns = 0; under_way && turns < 20000; turns++)
		(void)rig_step(&r);
	r.on_over = NULL;
	cr_assert_eq(under_way, 0, "some never end");
	for (uint32_t i = 0; i < AT_ONCE; i++) {
		if (op[i].status == 0) {
			file[at[i]].fill = fill[i];
			file[at[i]].unsure = 0;
		}
	}
}

/* Each file is readable, and decided: what is read now counts from here on. */
static void look_at_all(const char *when, uint64_t seed)
{
	for (uint32_t i = 0; i < FILES; i++) {
		uint64_t fill = 0;
		uint32_t blocks;
		const int err = rig_get(&r, path_of(i), &blocks, &fill);

		cr_assert(err == 0 || err == -ENOENT, "seed %llu, %s: file %u: %d",
			  (unsigned long long)seed, when, i, err);
		cr_assert(fill == file[i].fill || (fill && fill == file[i].unsure),
			  "seed %llu, %s: file %u is %llu, not %llu or %llu",
			  (unsigned long long)seed, when, i, (unsigned long long)fill,
			  (unsigned long long)file[i].fill, (unsigned long long)file[i].unsure);
		file[i].fill = fill;
		file[i].unsure = 0;
	}
}

/* The drive dies at any write; then the power fails, and it is back as it was when it died. */
Test(meta_dead, nothing_that_was_acknowledged_or_seen_is_lost_whenever_it_dies)
{
	uint32_t frozen = 0, went_on = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const uint32_t drives = 2 + seed % 2;
		struct rand_state rand;
		uint64_t fills = 0;

		rand_seed(&rand, seed);
		store(seed, drives);
		r.dying = 1u << rand_below(&rand, drives);
		r.dies_at = r.writes + 1 + rand_below(&rand, 300);
		for (uint32_t i = 0; i < 60 && !(r.dead && rand_below(&rand, 12) == 0); i++)
			put_some(&rand, &fills);
		frozen += meta_health(r.m) != 0;
		went_on += r.dead && meta_health(r.m) == 0;
		if (r.dead)
			look_at_all("with the drive dead", seed);
		rig_power_cut(&r);
		r.dead = r.dying = 0;
		r.dies_at = 0;
		cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
			     meta_error(r.m));
		look_at_all("after the next mount", seed);
		rig_end(&r);
	}
	cr_assert(frozen > 5 && went_on > 5, "%u stores took no more changes, %u did", frozen,
		  went_on);
}
