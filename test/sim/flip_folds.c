/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bits flip, and blocks are spoilt, in the zones of folds, while nothing else happens.
 *
 * A store has folds, from 2+1 to 8+2 zones.  Then, thousands of times, one block of a fold is
 * damaged, or two at the same offset if it has two zones of parity:
 *
 *   data in which a file lives   a read has its bytes from the other zones; the scrub mends the
 *                                block in its place
 *   parity, or a block in        the scrub finds at the end of its round that the fold does not sum
 *   which nothing lives          up to zero: one line, and its live data moves
 *
 * Now and then the power fails before the scrub.  When no scrub comes, and a drive is lost, too,
 * folds of two zones of parity still have everything.
 *
 * Always: no file is lost or wrong, nothing stays damaged, the check is clean, and each fold's
 * parity is that of its data (loss_parity.c).
 *
 * usage: flip_folds [--seed N] [--flips N]
 */
#include "test/sim/loss_drives.h"
#include "test/sim/loss_model.h"
#include "test/sim/loss_parity.h"
#include "test/sim/sim_args.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/engine/meta_fold.h"
#include "meta/meta_rebuild.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLIPS_A_STORE 100u
#define DRIVES_MAX    12u
#define TURNS_MAX     300u
#define BLOCK         4096u

static struct rig r;
static struct loss_model model;
static struct rand_state rnd;
static struct meta_scrub *scrub;
static char where[200]; /* for messages of a process that aborts */

/* The present damage: blocks of one fold, at one offset. */
static struct {
	uint32_t count;
	uint64_t at[META_FOLD_PARITIES];
	uint8_t was[META_FOLD_PARITIES][BLOCK];
	bool parity; /* one of them is of P or Q */
} hit;

static struct {
	uint64_t stores, flips, pairs, mended, moved, parity, cuts, lost;
	struct loss_parity compared;
} seen;

static void say_where(uint64_t seed, const char *what)
{
	(void)snprintf(where, sizeof(where),
		       "not ok seed %llu, flip %llu (%u copies, folds of %u): %s\n",
		       (unsigned long long)seed, (unsigned long long)seen.flips, r.conf.copies,
		       r.conf.fold, what);
}

static bool failed(uint64_t seed, const char *what)
{
	say_where(seed, what);
	printf("%s# %s; %s\n", where, sim_why, r.m ? meta_error(r.m) : "");
	return false;
}

static void on_abort(int signal_number)
{
	(void)signal_number;
	(void)!write(STDOUT_FILENO, where, strlen(where));
	_exit(1);
}

static uint8_t *view_at(uint64_t baddr)
{
	return r.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * BLOCK;
}

static void write_at(uint64_t baddr, const void *from, uint32_t nblocks)
{
	memcpy(view_at(baddr), from, (size_t)nblocks * BLOCK);
	memcpy(rig_block(&r, baddr), from, (size_t)nblocks * BLOCK);
}

/* ---- damage ------------------------------------------------------------------------------- */

/* Returns P of any fold. */
static uint32_t any_fold(void)
{
	uint32_t zone = (uint32_t)rand_below(&rnd, r.m->zones->geo.nzones);

	ASSERT(r.m->zones->folds > 0);
	while (meta__zone_at(r.m, zone)->parity != META__PARITY_P)
		zone = (zone + 1) % r.m->zones->geo.nzones;
	return zone;
}

/* One bit, or half of all. */
static void spoil(uint8_t block[BLOCK])
{
	const uint32_t bit = (uint32_t)rand_below(&rnd, BLOCK * 8);

	block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	for (uint32_t i = 0; seen.flips % 2 && i < BLOCK; i++)
		if (i != bit / 8)
			block[i] ^= (uint8_t)rand_u64(&rnd);
}

static void damage_one(uint32_t zone, uint32_t offset)
{
	const uint64_t at = meta__geo_zone_baddr(&r.m->zones->geo, zone) + offset;
	uint8_t block[BLOCK];

	memcpy(hit.was[hit.count], view_at(at), BLOCK);
	memcpy(block, view_at(at), BLOCK);
	spoil(block);
	write_at(at, block, 1);
	hit.at[hit.count++] = at;
	hit.parity |= meta__zone_at(r.m, zone)->parity > 0;
}

/* The zone is one of its fold; the next ones in the ring, or not so far away, are damaged. */
static void damage(void)
{
	const uint32_t offset = 1 + (uint32_t)rand_below(&rnd, r.m->zones->geo.zone_end - 1);
	const uint32_t want = 1 + (uint32_t)rand_below(&rnd, meta__fold_parities(r.m));
	uint32_t zone = any_fold();

	hit.count = 0;
	hit.parity = false;
	for (uint64_t n = rand_below(&rnd, META_FOLD_ZONES); n > 0; n--)
		zone = meta__zone_at(r.m, zone)->next - 1;
	while (hit.count < want) {
		damage_one(zone, offset);
		zone = meta__zone_at(r.m, zone)->next - 1;
	}
}

static bool is_mended(uint32_t i)
{
	return memcmp(view_at(hit.at[i]), hit.was[i], BLOCK) == 0;
}

/* ---- the scrub ---------------------------------------------------------------------------- */

/* A round.  Returns its lines for people. */
static uint32_t scrub_round(void)
{
	static uint8_t bytes[META_SCRUB_BLOCKS_MAX * BLOCK];
	uint32_t lines = 0;

	for (;;) {
		struct meta_run run;

		switch (meta_scrub_next(scrub, &run)) {
		case META_SCRUB_READ:
			memcpy(bytes, view_at(run.baddr), (size_t)run.nblocks * BLOCK);
			meta_scrub_done(scrub, bytes, 0);
			break;
		case META_SCRUB_WRITE:
			write_at(run.baddr, meta_scrub_bytes(scrub), run.nblocks);
			meta_scrub_written(scrub, 0);
			break;
		case META_SCRUB_FOUND:
			lines++;
			(void)sim_wrong("%s", meta_scrub_line(scrub));
			break;
		case META_SCRUB_ROUND:
			return lines;
		default:
			(void)rig_step(&r);
		}
	}
}

static uint64_t healed(void)
{
	struct meta_scrub_stat st;

	meta_scrub_stat(scrub, &st);
	return st.healed_blocks;
}

static void fold(void)
{
	for (uint32_t n = 0; n < 3; n++) {
		meta__ckpt_want(r.m);
		rig_idle(&r);
	}
}

/* Damaged blocks are mended, or their fold is emptied. */
static bool scrub_mends(uint64_t seed)
{
	const uint64_t before = healed();
	const uint32_t lines = scrub_round();
	uint32_t mended = 0;

	for (uint32_t i = 0; i < hit.count; i++)
		mended += is_mended(i);
	seen.mended += mended;
	seen.moved += lines;
	if (healed() - before != mended)
		return failed(seed, "the scrub counts other blocks than it has mended");
	if (lines > 1 || (lines == 0) != (mended == hit.count))
		return failed(seed, "the scrub does not find what it cannot mend");
	if (lines == 0 && hit.parity)
		return failed(seed, "parity is mended in its place");
	fold();
	return scrub_round() == 0 ? true : failed(seed, "something stays damaged");
}

/* ---- a flip ------------------------------------------------------------------------------- */

static bool mount(uint64_t seed)
{
	meta_scrub_destroy(scrub);
	scrub = NULL;
	if (rand_below(&rnd, 2))
		rig_power_cut(&r);
	else if (rig_stop(&r))
		return failed(seed, "stop");
	seen.cuts++;
	return (rig_mount(&r) == 0 && meta_scrub_create(&scrub, r.m) == 0) ? true
									   : failed(seed, "mount");
}

static bool is_right(uint64_t seed, bool checks)
{
	struct meta_check check = { 0 };

	if (!loss_look(&model))
		return failed(seed, "content");
	if (!loss_parity_is_right(&r, &seen.compared) || rig_wrong_folds(&r))
		return failed(seed, "parity");
	if (checks && rig_check(&r, &check)) {
		(void)sim_wrong("%s", check.first[0]);
		return failed(seed, "check");
	}
	return true;
}

static bool flip(uint64_t seed)
{
	say_where(seed, "an assertion");
	damage();
	seen.flips++;
	seen.pairs += hit.count > 1;
	seen.parity += hit.parity;
	if (hit.count == 1 && !loss_look(&model))
		return failed(seed, "content, before the scrub");
	if (rand_below(&rnd, 16) == 0 && !mount(seed))
		return false;
	if (!scrub_mends(seed) || !is_right(seed, seen.flips % 16 == 0))
		return false;
	for (uint32_t n = 0; n < 3 && rand_below(&rnd, 4) == 0; n++)
		if (!loss_change(&model))
			return failed(seed, "answer");
	fold();
	return true;
}

/* ---- a lost drive beside it --------------------------------------------------------------- */

static bool is_rebuilt(uint32_t drive)
{
	meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
	for (uint32_t n = 0; n < TURNS_MAX && !loss_stat(&r, drive).gone; n++)
		rig_idle(&r);
	return loss_stat(&r, drive).gone;
}

/* A block of each fold is damaged, all on one drive, and nothing has found that when another drive
 * is lost. */
static bool loses_a_drive(uint64_t seed)
{
	const uint32_t lost = loss_any_serving(&r, &rnd, 0);
	const uint32_t rots = loss_any_serving(&r, &rnd, 1u << lost);
	const uint32_t offset = 1 + (uint32_t)rand_below(&rnd, r.m->zones->geo.zone_end - 1);

	hit.count = 0;
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const uint64_t base = meta__geo_zone_baddr(&r.m->zones->geo, i);

		hit.count = 0;
		if (meta__in_fold(meta__zone_at(r.m, i)) && META_BADDR_DRIVE(base) == rots)
			damage_one(i, offset);
	}
	seen.lost++;
	r.dead |= 1u << lost;
	if (!meta_drive_failed(r.m, lost))
		return failed(seed, "the drive is not lost");
	if (!is_rebuilt(lost))
		return failed(seed, "it is not rebuilt");
	loss_heal(&r);
	(void)scrub_round();
	fold();
	if (scrub_round() > 0)
		return failed(seed, "something stays damaged after a loss");
	return is_right(seed, true);
}

/* ---- a store --------------------------------------------------------------------------- */

static bool format(uint64_t seed)
{
	const uint32_t copies = 2 + (seed % 3 > 0), width = 2 + (uint32_t)rand_below(&rnd, 7);
	const uint32_t ndrives = width + copies - 1 + (uint32_t)rand_below(&rnd, 3);
	uint64_t bytes[RIG_DRIVES_ROOM];

	for (uint32_t d = 0; d < ndrives; d++)
		bytes[d] = (4 + 24 / (uint64_t)ndrives) << 19;
	rig_make_of(&r, seed, min_u32(DRIVES_MAX, ndrives), bytes, 1u << rand_below(&rnd, 4),
		    rand_below(&rnd, 2));
	r.copied = true;
	r.conf.copies = copies;
	r.conf.fold = width;
	loss_model_init(&model, &r, seed);
	model.cold = true;
	model.largest += ndrives;
	return rig_format(&r) == 0 ? true : failed(seed, "format");
}

static bool lives(uint64_t seed, uint64_t flips)
{
	rand_seed(&rnd, seed * 31 + 17);
	sim_begins(seed);
	say_where(seed, "an assertion");
	if (!format(seed) || !loss_fill(&model))
		return false;
	for (uint32_t n = 0; n < 40; n++)
		if (!loss_change(&model))
			return failed(seed, "answer");
	fold();
	if (meta_scrub_create(&scrub, r.m))
		return failed(seed, "no memory");
	(void)scrub_round();
	for (uint64_t n = 0; n < flips && r.m->zones->folds > 0; n++)
		if (!flip(seed))
			return false;
	if (r.m->zones->folds > 0 && r.conf.copies > 2 && r.conf.ndrives > r.conf.copies &&
	    !loses_a_drive(seed))
		return false;
	meta_scrub_destroy(scrub);
	rig_end(&r);
	seen.stores++;
	return true;
}

static bool has_happened(void)
{
	return seen.pairs && seen.mended && seen.moved && seen.parity && seen.cuts && seen.lost &&
	       seen.compared.folds[1] && seen.compared.folds[2];
}

int main(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");
	const uint64_t many = length && strcmp(length, "proof") == 0 ? 100000 : 20000;
	struct sim_args args = sim_args(argc, argv, "flips", 300, many);
	const uint64_t begin_ns = clock_now_ns();

	(void)signal(SIGABRT, on_abort);
	for (uint64_t seed = args.seed; seen.flips < args.count; seed++)
		if (!lives(seed, min_u64(FLIPS_A_STORE, args.count - seen.flips)))
			return 1;
	printf("ok flip_folds: %llu stores, %llu flips (%llu of two blocks, %llu of parity): %llu "
	       "mended in place, %llu folds moved; %llu mounts; %llu drives lost beside damage; "
	       "%llu and %llu folds compared; %.0f s\n",
	       (unsigned long long)seen.stores, (unsigned long long)seen.flips,
	       (unsigned long long)seen.pairs, (unsigned long long)seen.parity,
	       (unsigned long long)seen.mended, (unsigned long long)seen.moved,
	       (unsigned long long)seen.cuts, (unsigned long long)seen.lost,
	       (unsigned long long)seen.compared.folds[1],
	       (unsigned long long)seen.compared.folds[2],
	       (double)(clock_now_ns() - begin_ns) / 1e9);
	if (args.count >= 300 && !has_happened())
		return failed(args.seed, "what this is about has not happened") ? 0 : 1;
	return 0;
}
