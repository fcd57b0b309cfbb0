/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store whose pairs become folds, with files that fill zones beside the small ones.  Included by
 * one test at a time. */
#ifndef TEST_META_FOLD_STORE_H
#define TEST_META_FOLD_STORE_H

#include "test/unit/meta_pair_store.h"

#include "base/xor.h"
#include "meta/engine/meta_fold.h"
#include "meta/meta_protect.h"
#include "meta/meta_rebuild.h"

#define BIG 60u

static uint64_t big_fill[BIG];

static inline void folds_of(uint64_t seed, uint32_t ndrives, uint32_t width, bool volatile_cache)
{
	uint64_t bytes[RIG_DRIVES_MAX] = { 0 };

	for (uint32_t d = 0; d < ndrives; d++)
		bytes[d] = DRIVE_BYTES;
	rig_make_of(&r, seed, ndrives, bytes, 4, volatile_cache);
	memset(fill_of, 0, sizeof(fill_of));
	memset(unsure, 0, sizeof(unsure));
	memset(big_fill, 0, sizeof(big_fill));
	fills = 0;
	r.conf.copies = STORE_COPIES;
	r.conf.fold = width;
	for (uint32_t d = 0; d < ndrives && seed % 3 != 0; d++)
		r.conf.drive[d].deallocate_max_blocks = 5;
	r.copied = true;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static inline const char *big_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/big %u", i);
	return path;
}

/* One file after the other, as many as there are. */
static inline int put_big(uint32_t i)
{
	const uint64_t fill = 100000 + ++fills;
	const int err = rig_put(&r, big_path(i), 20, fill);

	if (!err)
		big_fill[i] = fill;
	return err;
}

static inline void put_bigs(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(put_big(i % BIG), 0, "%s", meta_error(r.m));
}

static inline void bigs_are_there(void)
{
	for (uint32_t i = 0; i < BIG; i++) {
		uint64_t fill = 0;
		uint32_t blocks = 0;
		const int err = rig_get(&r, big_path(i), &blocks, &fill);

		if (err == -ENOENT && big_fill[i] == 0)
			continue;
		cr_assert_eq(err, 0, "%s: %d; %s", big_path(i), err, meta_error(r.m));
		cr_assert_eq(fill, big_fill[i]);
	}
}

static inline void folds_are_right(void)
{
	cr_assert_eq(rig_wrong_folds(&r), 0);
}

/* Turns until nothing more is folded. */
static inline void fold(void)
{
	for (uint32_t n = 0, idle = 0; n < 3 && !r.cut; n++) {
		meta__ckpt_want(r.m);
		idle = 0;
		for (; idle < 3 && !r.cut;)
			idle = rig_step(&r) ? 0 : idle + 1;
	}
}

static inline void clear_unsure(void)
{
	for (uint32_t i = 0; i < BIG; i++) {
		uint64_t fill = 0;
		uint32_t blocks = 0;
		const int err = rig_get(&r, big_path(i), &blocks, &fill);

		cr_assert(err == 0 || (err == -ENOENT && big_fill[i] == 0), "%s: %d; %s",
			  big_path(i), err, meta_error(r.m));
		cr_assert(err || fill >= big_fill[i], "%s: %llu, not %llu", big_path(i),
			  (unsigned long long)fill, (unsigned long long)big_fill[i]);
		big_fill[i] = err ? 0 : fill;
	}
}

static inline void changes(uint32_t count)
{
	for (uint32_t n = 0; n < count && !r.cut; n++) {
		if (rand_below(&r.rand, 3) == 0)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		else
			(void)put_big((uint32_t)rand_below(&r.rand, BIG));
		if (rand_below(&r.rand, 20) == 0)
			meta__ckpt_want(r.m);
		for (uint64_t k = rand_below(&r.rand, 20); k > 0 && !r.cut; k--)
			(void)rig_step(&r);
	}
}

static inline uint8_t *view_at(uint64_t baddr)
{
	return r.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

static inline void write_at(uint64_t baddr, const void *from, uint32_t nblocks)
{
	memcpy(view_at(baddr), from, nblocks * 4096ul);
	memcpy(rig_block(&r, baddr), from, nblocks * 4096ul);
}

/* A round of the scrub.  Returns its lines for people. */
static inline uint32_t scrub_round(struct meta_scrub *scrub)
{
	static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];
	uint32_t lines = 0;

	for (;;) {
		struct meta_run run;

		switch (meta_scrub_next(scrub, &run)) {
		case META_SCRUB_READ:
			memcpy(bytes, view_at(run.baddr), run.nblocks * 4096ul);
			if (rand_below(&r.rand, 4) == 0)
				(void)rig_step(&r);
			meta_scrub_done(scrub, bytes, 0);
			break;
		case META_SCRUB_WRITE:
			write_at(run.baddr, meta_scrub_bytes(scrub), run.nblocks);
			meta_scrub_written(scrub, 0);
			break;
		case META_SCRUB_FOUND:
			lines++;
			break;
		case META_SCRUB_ROUND:
			return lines;
		default:
			(void)rig_step(&r);
		}
	}
}

#endif
