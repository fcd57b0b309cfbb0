/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of several copies, and of folds with one zone of parity or two, lose as many drives as
 * they may, at once or one after the other, at random writes, alone or together with the power,
 * while files change, folds are made, checkpoints run, zones are collected, and drives are added,
 * drained and rebuilt.
 *
 *   changes, an errand --> drives fail --> perhaps a mount: they are away, old, wiped or still dead
 *        ^                                                      |
 *        +---- rebuilt: all copies and parity, a check <-- everything is there
 *
 *   - what was acknowledged, or seen, is there; any other change whole or not at all
 *   - of three copies, and of folds with P and Q, two of four drives or more may fail at once, and
 *     two of three one after the other: the store takes changes as long as that is all
 *   - after each loss, power cuts meanwhile included, each block has all its copies again, or as
 *     many as there are drives; when drives are added, all; or it is in a fold that is whole
 *   - the parity on the drives is that of the data there (loss_parity.c), and everything can be
 *     read while any drives that may be lost cannot be
 *
 *   store      seed modulo 4   drives    zones of a fold
 *   converts   0               3 to 6                      begins with two copies, and gets the
 *                                                          third ones meanwhile (meta_protect.h)
 *   copies     1               3 to 6                      three
 *   folds      2, 3            3 to 12   2+1 to 8+2        two copies or three until it is folded
 *
 * usage: losses [--seed N] [--losses N]
 */
#include "test/sim/losses_life.h"
#include "test/sim/sim_args.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/engine/meta_pair.h"
#include "meta/ops/meta_gc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIFE_STEPS 4u

static struct losses_life life;
static struct losses_seen seen;

static void on_abort(int signal_number)
{
	(void)signal_number;
	(void)!write(STDOUT_FILENO, life.where, strlen(life.where));
	_exit(1);
}

bool losses_down(const struct losses_life *l)
{
	return l->r.cut || meta_health(l->r.m) != 0;
}

bool losses_look(struct losses_life *l, const char *when)
{
	return loss_look(&l->model) || l->r.cut ? true : losses_failed(l, when);
}

/* ---- a loss ------------------------------------------------------------------------ */

static void choose_errand(struct losses_life *l)
{
	l->errand = (enum losses_errand)rand_below(&l->rnd, ERRANDS);
	if (l->errand == DRAIN && loss_serving(&l->r) < 4)
		l->errand = NOTHING;
	if (l->errand == ADD && !losses_spare(l))
		l->errand = NOTHING;
}

static void choose(struct losses_life *l)
{
	struct rig *r = &l->r;

	l->how = (enum losses_how)rand_below(&l->rnd, HOWS);
	l->after = (enum losses_after)rand_below(&l->rnd, AFTERS);
	l->when = (enum losses_when)rand_below(&l->rnd, WHENS);
	l->drains = l->second = LOSSES_NOBODY;
	l->struck = false;
	l->recorded = 0;
	choose_errand(l);
	if ((l->when == AT_ONCE && !losses_any_two(l)) || loss_serving(r) < 3)
		l->when = ONE;
	if (l->when == LATER && (l->how == MISSING || l->errand != NOTHING || losses_converting(l)))
		l->when = ONE; /* a mount misses one at most while it converts */
	l->aims = l->fold && (l->how == HICCUP || rand_below(&l->rnd, 2));
	if (l->aims && l->how == HICCUP)
		l->when = ONE; /* the drive of a parity: aim() */
	l->victims = 1u << loss_any_serving(r, &l->rnd, 0);
	if (l->when != ONE) {
		l->second = loss_any_serving(r, &l->rnd, l->victims);
		l->victims |= 1u << l->second;
	}
	losses_keep_aged(l);
	losses_say_where(l, "an assertion");
}

/* Drives fail from this write on, and perhaps the power does. */
static void fail_at(struct losses_life *l, uint64_t at)
{
	struct rig *r = &l->r;

	r->dies_at = at;
	r->hiccups = l->how == HICCUP ? 1 + (uint32_t)rand_below(&l->rnd, 2) : 0;
	if (l->how == MISSING || (l->when != LATER && rand_below(&l->rnd, 2)))
		r->cut_at = at + rand_below(&l->rnd, rand_below(&l->rnd, 2) ? 4 : 150);
}

static void arm_drives(struct losses_life *l)
{
	struct rig *r = &l->r;
	const uint32_t first = l->when == LATER ? l->victims & ~(1u << l->second) : l->victims;

	r->dying = r->hanging = r->failing = r->bad_reads = 0;
	if (l->how == DIE)
		r->dying = first;
	if (l->how == HANG)
		r->hanging = first;
	if (l->how == WRITES_FAIL || l->how == HICCUP)
		r->failing = first;
	if (l->how == READS_FAIL)
		r->bad_reads = first;
}

static void arm(struct losses_life *l)
{
	struct rig *r = &l->r;

	arm_drives(l);
	r->dies_at = UINT64_MAX;
	if (l->aims)
		meta__ckpt_want(r->m); /* what was closed before it can be folded then */
	else
		fail_at(l, r->writes + 1 + rand_below(&l->rnd, rand_below(&l->rnd, 2) ? 30 : 200));
}

/* Returns the drive of a parity that is being written, or LOSSES_NOBODY. */
static uint32_t drive_of_parity(const struct losses_life *l)
{
	const struct meta__zones *z = l->r.m->zones;

	for (uint32_t i = 0; i < z->geo.nzones; i++)
		if (z->zone[i].kind == META__ZONE_PARITY && !z->zone[i].parity &&
		    z->zone[i].state == ZONE_CLOSED)
			return META_BADDR_DRIVE(meta__geo_zone_baddr(&z->geo, i));
	return LOSSES_NOBODY;
}

/* A fold is being made: it takes some ten writes.  A lone drive of which some writes fail has its
 * parity. */
static void aim(struct losses_life *l, bool now)
{
	const bool at_parity = l->how == HICCUP && l->when == ONE;
	uint32_t parity;

	if (!l->aims || losses_down(l))
		return;
	parity = drive_of_parity(l);
	if (!now && (at_parity ? parity == LOSSES_NOBODY : meta__folder_idle(l->r.m)))
		return;
	l->aims = false;
	fail_at(l, l->r.writes + (at_parity ? 0 : 1 + rand_below(&l->rnd, 16)));
	if (!at_parity || parity == LOSSES_NOBODY)
		return;
	l->victims = 1u << parity;
	losses_keep_aged(l);
	arm_drives(l);
	losses_say_where(l, "an assertion");
	for (uint32_t n = 0; n < 40; n++)
		(void)rig_step(&l->r); /* before any file is written */
}

/* Counts, once, the background work in progress when drives fail. */
static void struck(struct losses_life *l)
{
	const struct meta *m = l->r.m;

	if (l->struck || l->r.cut || l->r.writes < l->r.dies_at)
		return;
	l->struck = true;
	seen.ckpt += meta__ckpt_running(m);
	seen.collecting += meta__collect_busy(m);
	if (!l->fold)
		return;
	seen.folding[l->copies - 2] += !meta__folder_idle(m);
	seen.folds_hit[l->copies - 2] += m->zones->folds;
}

static bool work(struct losses_life *l, uint32_t changes)
{
	for (uint32_t n = 0; n < changes && !losses_down(l); n++) {
		aim(l, n + 4 >= changes);
		if (!loss_change(&l->model))
			return losses_failed(l, "answer");
		struck(l);
		if (rand_below(&l->rnd, 12) == 0)
			rig_idle(&l->r);
		if (l->fold && rand_below(&l->rnd, 20) == 0)
			meta__ckpt_want(l->r.m);
	}
	return true;
}

static bool can_lose_the_second(const struct losses_life *l, uint32_t first)
{
	const struct rig *r = &l->r;

	return !losses_down(l) && loss_stat(r, first).lost && !r->m->losing &&
	       loss_serves(r, l->second) && !meta__drive_is_needed(r->m, l->second);
}

/* The other one fails as soon as the first loss is recorded; nothing depends on it if the log does
 * not. */
static bool second_dies(struct losses_life *l)
{
	struct rig *r = &l->r;
	const uint32_t first = (uint32_t)__builtin_ctz(l->victims & ~(1u << l->second));

	for (uint32_t n = 0;
	     n < 200 && !losses_down(l) && (!loss_stat(r, first).lost || r->m->losing); n++)
		if (!loss_change(&l->model))
			return losses_failed(l, "answer, before the second loss");
	if (!can_lose_the_second(l, first)) {
		l->victims &= ~(1u << l->second);
		return true;
	}
	r->dead |= 1u << l->second;
	if (!meta_drive_failed(r->m, l->second))
		return losses_failed(l, "a drive on which nothing depends was not lost");
	if (rand_below(&l->rnd, 2))
		r->cut_at = r->writes + 1 + rand_below(&l->rnd, 60);
	seen.both++;
	return work(l, 1 + (uint32_t)rand_below(&l->rnd, 30));
}

static bool survive(struct losses_life *l)
{
	if (!l->r.cut && meta_health(l->r.m))
		return losses_failed(l, "it takes no more changes");
	if (l->errand == ADD && !losses_down(l))
		losses_added(l);
	if (!l->r.cut && !losses_look(l, "after the loss"))
		return false;
	if (!losses_down(l) && l->how != MISSING && rand_below(&l->rnd, 2)) {
		if (l->how == READS_FAIL)
			loss_heal(&l->r);
		return true;
	}
	return losses_restart(l);
}

static bool loss(struct losses_life *l)
{
	struct rig *r = &l->r;
	const bool began = losses_converting(l);

	if (began)
		losses_ask_for_three(l);
	else
		losses_turn_until_whole(l);
	for (uint64_t n = rand_below(&l->rnd, 1u << rand_below(&l->rnd, 11)); began && n > 0; n--)
		(void)rig_step(r);
	choose(l);
	if (!losses_begin(l))
		return false;
	arm(l);
	if (!work(l, 4 + (uint32_t)rand_below(&l->rnd, 100)) ||
	    (l->when == LATER && !second_dies(l)))
		return false;
	seen.losses++;
	seen.lost_converting += r->m->converts > 0;
	seen.how[l->how]++;
	seen.when[l->when]++;
	if (!survive(l))
		return false;
	r->cut_at = 0;
	if (!work(l, (uint32_t)rand_below(&l->rnd, 30)) || !losses_settle(l))
		return false;
	seen.converted += began && !losses_converting(l);
	loss_heal(r);
	return true;
}

/* ---- lives ------------------------------------------------------------------------- */

/* As many drives serve at least as copies, or a fold, need, if there can be another one.  False:
 * there cannot. */
static bool grow(struct losses_life *l, bool *good)
{
	const uint32_t least = l->copies + (l->fold > 0);
	const bool few = loss_serving(&l->r) < least;

	*good = true;
	while (loss_serving(&l->r) < least) {
		if (!losses_spare(l))
			return false;
		l->errand = ADD;
		l->victims = 0;
		*good = losses_begin(l);
		if (!*good)
			return false;
		losses_added(l);
	}
	if (few)
		*good = losses_settle(l);
	seen.widened += few;
	return *good;
}

/* Returns with how many drives the store begins. */
static uint32_t shape(struct losses_life *l)
{
	const bool folds = l->seed % 4 > 1;

	l->copies = folds ? 2 + (rand_below(&l->rnd, 3) > 0) : 3;
	l->fold = folds ? 2 + (uint32_t)rand_below(&l->rnd, 7) : 0;
	l->drives_max = 6;
	if (!folds)
		return rand_below(&l->rnd, 4) ? 5 + (uint32_t)rand_below(&l->rnd, 2) : 3;
	l->drives_max = min_u32(RIG_DRIVES_ROOM, l->fold + l->copies + 4);
	return min_u32(12, l->fold + l->copies - 1 + (uint32_t)rand_below(&l->rnd, 3));
}

static bool format(struct losses_life *l)
{
	const uint32_t ndrives = shape(l);
	const bool cache = rand_below(&l->rnd, 2);
	struct rig *r = &l->r;

	for (uint32_t d = 0; d < ndrives; d++)
		l->size[d] = losses_any_size(l);
	rig_make_of(r, l->seed, ndrives, l->size, 1u << rand_below(&l->rnd, 4), cache);
	r->copied = true;
	r->conf.copies = l->seed % 4 ? l->copies : l->copies - 1;
	r->conf.fold = l->fold;
	if (rand_below(&l->rnd, 4) == 0)
		r->conf.spare_drives = rand_below(&l->rnd, 2) ? 1 : META_SPARE_AUTO;
	r->cut_garbles = rand_below(&l->rnd, 2);
	r->own_writes_only = true;
	return rig_format(r) == 0 ? true : losses_failed(l, "format");
}

/* Stores of folds have files that stay: a fold is made of zones in which most blocks live. */
static bool fill(struct losses_life *l)
{
	l->model.cold = l->fold > 0;
	if (l->fold)
		l->model.largest += l->r.ndrives;
	return !l->fold || loss_fill(&l->model) ? true : losses_failed(l, "the first files");
}

static bool lives(struct losses_life *l, uint64_t seed)
{
	bool good = true;

	memset(l, 0, sizeof(*l));
	l->seen = &seen;
	l->seed = seed;
	l->spare = LOSSES_NOBODY;
	rand_seed(&l->rnd, seed * 31 + 11);
	sim_begins(seed);
	losses_say_where(l, "an assertion");
	loss_model_init(&l->model, &l->r, seed);
	if (!format(l) || !fill(l) || !work(l, 20 + (uint32_t)rand_below(&l->rnd, 200)))
		return false;
	for (l->step = 1; l->step <= LIFE_STEPS && grow(l, &good); l->step++)
		if (!loss(l))
			return false;
	losses_forget_aged(l);
	rig_end(&l->r);
	seen.lives++;
	seen.changes += l->model.done;
	return good;
}

int main(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");
	const uint64_t many = length && strcmp(length, "proof") == 0 ? 1000000 : 20000;
	struct sim_args args = sim_args(argc, argv, "losses", 800, many);
	const uint64_t begin_ns = clock_now_ns();

	(void)signal(SIGABRT, on_abort);
	for (uint64_t seed = args.seed; seen.losses < args.count; seed++)
		if (!lives(&life, seed))
			return 1;
	losses_report(&seen, (double)(clock_now_ns() - begin_ns) / 1e9);
	if (args.count >= 400 && !losses_happened(&seen))
		return losses_failed(&life, "what this is about has not happened") ? 0 : 1;
	return 0;
}
