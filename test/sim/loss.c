/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of two copies lose one drive after the other, at random writes, alone or together with
 * the power, while files change, checkpoints run, zones are collected, and drives are added,
 * drained, replaced and rebuilt.
 *
 *   changes, an errand --> a drive fails --> perhaps a mount: it is away, old, wiped or still dead
 *        ^                                                      |
 *        +---- rebuilt: two copies of everything, a check <-- everything is there
 *
 *   - what was acknowledged, or seen, is there; any other change whole or not at all
 *   - as long as a drive serves, and only one has failed, the store takes changes
 *   - after each loss, power cuts meanwhile included, the store has two copies of everything again
 *   - while it is rebuilt another drive may be lost if nothing depends on it (meta_needed.c)
 *
 * Some stores keep room for the rebuild of a drive, and some move blocks at a pace, which may be
 * none while files change.
 *
 * In every other store of three drives or more pairs become folds (meta_fold.c): then the parity of
 * each fold is that of its data, too.
 *
 * Every fourth store begins with one copy, and gets the second ones while files change and the
 * power fails (meta_protect.h).  Its first drive is lost after that.
 *
 * usage: loss [--seed N] [--losses N]
 */
#include "test/sim/loss_drives.h"
#include "test/sim/loss_model.h"
#include "test/sim/sim_args.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/engine/meta_pair.h"
#include "meta/meta_protect.h"
#include "meta/meta_rebuild.h"
#include "meta/ops/meta_gc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOBODY     META_DRIVES_MAX
#define LIFE_STEPS 6u
#define TURNS_MAX  300u
#define CUTS_MAX   4u

enum how { DIES, WRITES_FAIL, READS_FAIL, MISSING, HOWS };
enum after { AWAY, STALE, WIPED, STILL, AFTERS }; /* what a mount finds */
enum errand { NOTHING, DRAIN, ADD, REPLACE, ERRANDS };

static const char *const how_name[] = { "dies", "writes fail", "reads fail", "is missing" };
static const char *const after_name[] = { "away", "stale", "wiped", "still dead" };
static const char *const errand_name[] = { "nothing", "drain", "add", "replace" };

static struct rig r;
static struct loss_model model;
static struct rand_state rnd;
static char where[200]; /* seed and step, for messages of a process that aborts */

/* The present life of the store, and the drive that it loses. */
static struct {
	uint64_t seed;
	uint32_t step;
	uint64_t size[RIG_DRIVES_MAX];
	uint32_t spare; /* a drive that the store does not have yet */
	enum how how;
	enum after after;
	enum errand errand;
	uint32_t victim;
	uint32_t others; /* that served when it failed */
	uint32_t drains;
	bool struck;
	bool paced; /* what moves rests now and then */
} life;

static struct {
	uint64_t lives, losses, by[HOWS], after[AFTERS], errands[ERRANDS];
	uint64_t changes, lost, gone, mounts, cuts, alone, full, ckpt, collecting, cuts_rebuilding;
	uint64_t converted, cuts_converting, spared, rests, second, second_cuts;
	uint64_t folds, folds_hit; /* seen when it was whole; and when a drive failed */
} seen;

static void say_where(const char *what)
{
	(void)snprintf(where, sizeof(where),
		       "not ok seed %llu, step %u (drive %u of %u %s, %s, errand %s): %s\n",
		       (unsigned long long)life.seed, life.step, life.victim, r.ndrives,
		       how_name[life.how], after_name[life.after], errand_name[life.errand], what);
}

static bool failed(const char *what)
{
	say_where(what);
	printf("%s# %s; %s\n", where, sim_why, r.m ? meta_error(r.m) : "");
	return false;
}

static void on_abort(int signal_number)
{
	(void)signal_number;
	(void)!write(STDOUT_FILENO, where, strlen(where));
	_exit(1);
}

/* ---- what drives are ------------------------------------------------------------- */

static bool is_settled(void)
{
	if (r.m->losing)
		return false;
	for (uint32_t d = 0; d < meta_drives(r.m); d++)
		if (!loss_serves(&r, d) && !loss_stat(&r, d).gone)
			return false;
	return rig_thin_zones(&r) == 0;
}

/* ---- mount ------------------------------------------------------------------------ */

static void take_out(uint32_t drive)
{
	r.conf.drive[drive].nblocks = 0;
}

static void what_comes_back(void)
{
	const bool writes_only = life.how == WRITES_FAIL && !(r.dead >> life.victim & 1);

	if (life.after != STILL || life.how == MISSING)
		loss_heal(&r);
	r.never = 0;
	r.cut_at = 0;
	if (life.after == AWAY || (life.after == STILL && life.how == MISSING))
		take_out(life.victim);
	if (life.after == WIPED)
		loss_wreck(&r, &rnd, life.victim, life.size[life.victim]);
	if (life.after == STILL && writes_only)
		r.failing = r.bad_writes = 1u << life.victim;
}

/* One of two that is left cannot know what it missed, and must be told. */
static bool is_refused_alone(int err)
{
	const uint32_t others = life.others - (life.errand == DRAIN || life.errand == REPLACE);

	return err == -ENODEV && others < 2 && !r.conf.drive[life.victim].missing;
}

/* True: try again. */
static bool goes_on(int err)
{
	if (r.cut) {
		seen.cuts++;
		return true;
	}
	if (err == -ENODEV && life.spare < r.conf.ndrives) {
		r.conf.ndrives = life.spare;
		return true;
	}
	if (is_refused_alone(err)) {
		take_out(life.victim);
		r.conf.drive[life.victim].missing = true;
		seen.alone++;
		return true;
	}
	if (err == -EIO && (r.bad_writes | r.dead | r.dying) && r.conf.drive[life.victim].nblocks) {
		take_out(life.victim); /* as a person would */
		return true;
	}
	return false;
}

static void mounted(void)
{
	r.cut_at = 0;
	r.conf.ndrives = meta_drives(r.m);
	for (uint32_t d = 0; d < r.conf.ndrives; d++)
		r.conf.drive[d].missing = false;
	if (life.spare < r.conf.ndrives)
		life.spare = NOBODY;
	seen.mounts++;
}

static bool mount(void)
{
	uint32_t cuts = 0;

	if (life.spare != NOBODY)
		r.conf.ndrives = life.spare + 1;
	for (uint32_t tries = 0; tries < 12; tries++) {
		int err;

		if (meta_memory_needed(&r.conf) > r.conf.memory_bytes)
			rig_memory(&r);
		if (rand_below(&rnd, 3) == 0 && cuts++ < 3)
			r.cut_at = r.writes + 1 + rand_below(&rnd, 20);
		err = rig_mount(&r);
		if (err == 0 && !r.cut) {
			mounted();
			return true;
		}
		if (!goes_on(err))
			return failed("mount");
		rig_power_cut(&r);
	}
	return failed("mount, again and again");
}

/* The power may fail meanwhile. */
static bool is_there(const char *when)
{
	return loss_look(&model) || r.cut ? true : failed(when);
}

/* ---- an errand --------------------------------------------------------------------- */

static uint64_t any_size(void)
{
	return (3 + rand_below(&rnd, 6)) << 20;
}

static void spare(void)
{
	const uint64_t size = any_size();

	if (life.spare != NOBODY) {
		r.conf.drive[life.spare].nblocks = life.size[life.spare] / 4096;
		return;
	}
	life.spare =
		rig_drive(&r, size, r.conf.drive[0].volatile_cache || rand_below(&rnd, 3) == 0);
	life.size[life.spare] = size;
}

/* The errand brings a drive. */
static bool brings(void)
{
	return life.errand == ADD || life.errand == REPLACE;
}

/* Another change of the set is not over yet. */
static int start(void)
{
	int err = -EBUSY;

	if (brings())
		r.conf.drive[life.spare].replaces = life.errand == REPLACE ? life.drains + 1 : 0;

	for (uint32_t n = 0; err == -EBUSY && n < TURNS_MAX; n++) {
		if (n > 0)
			(void)rig_step(&r);
		err = life.errand == DRAIN ? meta_drive_drain(r.m, life.drains)
					   : meta_drive_add(r.m, &r.conf.drive[life.spare]);
	}
	if (brings())
		r.conf.drive[life.spare].replaces = 0; /* a mount is not told of it again */
	return err;
}

static bool begin(void)
{
	int err = 0;

	if (life.errand == DRAIN || life.errand == REPLACE)
		life.drains = loss_any_serving(&r, &rnd, 0);
	if (life.errand != NOTHING)
		err = start();
	if (life.errand != ADD && (err == -ENOSPC || err == -EPERM || err == -EFBIG)) {
		life.errand = NOTHING;
		err = 0;
	}
	seen.errands[life.errand]++;
	if (err)
		(void)sim_wrong("%d", err);
	return err == 0 ? true : failed("errand");
}

/* The drive is there, or as if it had never been. */
static void added(void)
{
	uint32_t idle = 0;

	while (!r.cut && meta_drive_add_status(r.m) == -EAGAIN && meta_health(r.m) == 0) {
		idle = rig_step(&r) ? 0 : idle + 1;
		ASSERT(idle < 1000); /* else it waits for nothing */
	}
	if (r.cut || meta_health(r.m) || meta_drives(r.m) <= life.spare)
		return;
	r.conf.ndrives = meta_drives(r.m);
	life.spare = NOBODY;
}

/* ---- a loss ------------------------------------------------------------------------ */

static void choose(void)
{
	const bool room = life.spare != NOBODY || r.ndrives < RIG_DRIVES_MAX;

	life.how = (enum how)rand_below(&rnd, HOWS);
	life.after = (enum after)rand_below(&rnd, AFTERS);
	life.errand = (enum errand)rand_below(&rnd, ERRANDS);
	life.drains = NOBODY;
	life.struck = false;
	if ((brings() && !room) || (life.errand == DRAIN && loss_serving(&r) < 3))
		life.errand = NOTHING;
	if (brings())
		spare();
	life.victim = loss_any_serving(&r, &rnd, 0);
	if (brings() && life.how == DIES && rand_below(&rnd, 4) == 0)
		life.victim = life.spare;
	life.others = loss_serving(&r) - (life.victim != life.spare);
	say_where("an assertion");
}

static void arm(void)
{
	const uint64_t at = r.writes + 1 + rand_below(&rnd, rand_below(&rnd, 2) ? 30 : 200);

	if (life.how == DIES)
		r.dying = 1u << life.victim;
	if (life.how == WRITES_FAIL)
		r.failing = 1u << life.victim;
	if (life.how == READS_FAIL)
		r.bad_reads = 1u << life.victim;
	r.dies_at = at;
	if (life.how == MISSING || rand_below(&rnd, 2))
		r.cut_at = at + rand_below(&rnd, rand_below(&rnd, 2) ? 4 : 150);
}

/* Counts, once, the background work in progress when the drive fails. */
static void struck(void)
{
	if (life.struck || r.cut || r.writes < r.dies_at)
		return;
	life.struck = true;
	seen.ckpt += meta__ckpt_running(r.m);
	seen.folds_hit += r.m->zones->folds;
	seen.collecting += meta__collect_busy(r.m);
}

/* Blocks that leave a drive, or get their second copies, rest, or move at some pace. */
static void pace(void)
{
	const bool rests = rand_below(&rnd, 2);

	if (!life.paced || rand_below(&rnd, 4))
		return;
	meta_rebuild_pace(r.m, 1 + (uint32_t)rand_below(&rnd, 4),
			  rests ? 0 : (int64_t)rand_below(&rnd, 64));
	seen.rests += rests;
}

static bool work(uint32_t changes)
{
	for (uint32_t n = 0; n < changes && !r.cut && meta_health(r.m) == 0; n++) {
		pace();
		if (!loss_change(&model))
			return failed("answer");
		struck();
		if (rand_below(&rnd, 12) == 0)
			rig_idle(&r);
	}
	return true;
}

static bool restart(void)
{
	if (!r.cut && meta_health(r.m) == 0 && rand_below(&rnd, 4) == 0)
		(void)rig_stop(&r);
	if (r.m && !r.cut && rand_below(&rnd, 4) == 0)
		rig_kill(&r);
	else if (r.m)
		rig_power_cut(&r);
	seen.after[life.after]++;
	seen.cuts++;
	what_comes_back();
	return mount() && is_there("after a mount");
}

static void forget_spare(void)
{
	if (life.victim != life.spare)
		return;
	loss_heal(&r);
	loss_wreck(&r, &rnd, life.spare, life.size[life.spare]); /* a new one takes its place */
}

static bool survive(void)
{
	const bool on = !r.cut && meta_health(r.m) == 0;

	if (!r.cut && meta_health(r.m))
		return failed("it takes no more changes");
	if (brings() && on)
		added();
	if (!r.cut && !is_there("after the loss"))
		return false;
	if (!r.cut && meta_health(r.m) == 0 && life.how != MISSING && rand_below(&rnd, 2)) {
		if (life.how == READS_FAIL)
			loss_heal(&r);
		return true;
	}
	return restart();
}

/* ---- whole again ------------------------------------------------------------------- */

static void never_again(void)
{
	rig_idle(&r);
	for (uint32_t d = 0; d < meta_drives(r.m) && !r.cut; d++)
		if (loss_stat(&r, d).lost && !r.m->losing)
			r.never |= 1u << d; /* meta_pair.c (4) */
}

static bool cut_meanwhile(void)
{
	r.cut_at = r.writes + 1 + rand_below(&rnd, 100);
	for (uint32_t n = 0; n < 10 && !r.cut; n++) {
		if (!loss_change(&model))
			return failed("answer, meanwhile");
		rig_idle(&r);
	}
	seen.cuts_rebuilding += r.cut;
	rig_power_cut(&r);
	r.never = 0;
	return mount() && is_there("after a cut, meanwhile");
}

/* It dies before the first is gone.  If the power fails before that is recorded, it is back. */
static bool second_dies(uint32_t drive)
{
	r.dead |= 1u << drive;
	if (!meta_drive_failed(r.m, drive))
		return failed("a drive on which nothing depends was not lost");
	seen.second++;
	if (rand_below(&rnd, 2))
		r.cut_at = r.writes + 1 + rand_below(&rnd, 30);
	if (!work(1 + (uint32_t)rand_below(&rnd, 20)))
		return false;
	r.cut_at = 0;
	if (!r.cut)
		return meta_health(r.m) == 0 || failed("frozen by the second loss");
	seen.second_cuts++;
	r.dead &= ~(1u << drive);
	r.never = 0;
	rig_power_cut(&r);
	return mount() && is_there("after a cut, before the second loss was recorded");
}

static bool second(void)
{
	const uint32_t drive = loss_any_serving(&r, &rnd, 0);

	if (rand_below(&rnd, 2) || loss_serving(&r) < 2)
		return true;
	for (uint32_t n = 0; n < 3000 && !r.m->losing && meta_health(r.m) == 0; n++) {
		if (!loss_stat(&r, life.victim).lost || !loss_serves(&r, drive))
			return true;
		if (!meta__drive_is_needed(r.m, drive))
			return second_dies(drive);
		(void)(rig_step(&r) || loss_change(&model));
	}
	return true;
}

static void turn_until_settled(void)
{
	meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
	for (uint32_t n = 0; n < TURNS_MAX && !is_settled() && meta_health(r.m) == 0; n++)
		rig_idle(&r);
}

static bool room_made(void)
{
	seen.full++;
	for (uint32_t i = LOSS_DIRS; i < LOSS_NAMES; i++)
		if (!loss_remove(&model, i))
			return failed("removal");
	turn_until_settled();
	return true;
}

static bool tell_settled(void)
{
	(void)sim_wrong(
		"%u serve, %u zones are thin, victim: lost %d gone %d draining %d, %u zones",
		loss_serving(&r), rig_thin_zones(&r), loss_stat(&r, life.victim).lost,
		loss_stat(&r, life.victim).gone, loss_stat(&r, life.victim).draining,
		loss_stat(&r, life.victim).zones_used);
	return failed("it does not become whole");
}

static bool settle(void)
{
	struct meta_check check = { 0 };

	if (!second())
		return false;
	never_again();
	for (uint32_t n = 0; n < CUTS_MAX && rand_below(&rnd, 3) == 0; n++)
		if (!cut_meanwhile())
			return false;
	never_again();
	turn_until_settled();
	if (meta_health(r.m))
		return failed("frozen");
	if (!is_settled() && loss_serving(&r) > 1) {
		if (loss_has_room(&r))
			return tell_settled();
		if (!room_made())
			return false;
		if (!is_settled())
			return tell_settled();
	}
	if (!is_there("when it is whole"))
		return false;
	seen.folds += r.m->zones->folds;
	if (rig_wrong_folds(&r) > 0)
		return failed("the parity of a fold is wrong");
	(void)sim_wrong(" ");
	if (rig_check(&r, &check)) {
		(void)sim_wrong("%s", check.first[0]);
		return failed("check");
	}
	return true;
}

/* LOSS_TELL=1: one line a loss. */
static void tell_step(void)
{
	if (!getenv("LOSS_TELL"))
		return;
	printf("# step %u: drive %u %s, %s, errand %s %u; spare %u;", life.step, life.victim,
	       how_name[life.how], after_name[life.after], errand_name[life.errand], life.drains,
	       life.spare);
	for (uint32_t d = 0; d < meta_drives(r.m); d++)
		printf(" %u:%s%s%s/%llu", d, loss_stat(&r, d).gone ? "gone" : "",
		       loss_stat(&r, d).lost ? "lost" : "",
		       loss_stat(&r, d).draining ? "draining" : "",
		       (unsigned long long)r.conf.drive[d].nblocks);
	printf("\n");
}

static bool loss(void)
{
	turn_until_settled(); /* that one had failed may have been found by the last check */
	choose();
	tell_step();
	if (!begin())
		return false;
	arm();
	if (!work(4 + (uint32_t)rand_below(&rnd, 100)))
		return false;
	seen.losses++;
	seen.by[life.how]++;
	if (!survive())
		return false;
	r.cut_at = 0;
	forget_spare();
	if (!work((uint32_t)rand_below(&rnd, 30)))
		return false;
	if (life.victim < meta_drives(r.m))
		seen.lost += loss_stat(&r, life.victim).lost || loss_stat(&r, life.victim).gone;
	if (!settle())
		return false;
	loss_heal(&r);
	return true;
}

/* ---- lives ------------------------------------------------------------------------- */

/* Two drives serve at least, if there can be another one.  False: there cannot. */
static bool grow(bool *good)
{
	*good = true;
	while (loss_serving(&r) < 2) {
		if (life.spare == NOBODY && r.ndrives == RIG_DRIVES_MAX)
			return false;
		spare();
		life.errand = ADD;
		life.victim = life.spare;
		*good = begin();
		if (!*good)
			return false;
		added();
		*good = life.spare == NOBODY && settle();
		if (!*good)
			return failed("a drive is added");
	}
	return true;
}

static bool format(void)
{
	const uint32_t ndrives = 2 + (uint32_t)rand_below(&rnd, 4);
	const bool cache = rand_below(&rnd, 2);

	for (uint32_t d = 0; d < ndrives; d++)
		life.size[d] = any_size();
	rig_make_of(&r, life.seed, ndrives, life.size, 1u << rand_below(&rnd, 5), cache);
	for (uint32_t d = 0; d < ndrives; d++)
		r.conf.drive[d].volatile_cache = cache || rand_below(&rnd, 3) == 0;
	r.copied = life.seed % 4 != 0;
	r.conf.copies = r.copied ? 2 : 1;
	if (r.copied && ndrives > 2 && life.seed % 2)
		r.conf.fold = 2 + (uint32_t)rand_below(&rnd, ndrives - 2);
	if (rand_below(&rnd, 4) == 0)
		r.conf.spare_drives = rand_below(&rnd, 2) ? 1 : META_SPARE_AUTO;
	seen.spared += r.conf.spare_drives > 0;
	life.paced = rand_below(&rnd, 3) == 0;
	r.cut_garbles = rand_below(&rnd, 2);
	return rig_format(&r) == 0 ? true : failed("format");
}

/* ---- a store of one copy ------------------------------------------------------------ */

static int ask_for_two(void)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT };

	return rig_run(&r, &op);
}

static bool is_converting(void)
{
	return r.m->copies < 2 || r.m->converts;
}

/* The power fails, but no drive: it may have the only copy of a block. */
static bool cut_converting(void)
{
	seen.cuts_converting += r.m->converts;
	rig_power_cut(&r);
	seen.cuts++;
	return mount() && is_there("after a mount of a store that converts");
}

/* *good: it has two copies of each block.  False, without *good: there was no room for them. */
static bool converts(bool *good)
{
	for (uint32_t turns = 0; turns < TURNS_MAX && is_converting(); turns++) {
		const bool cut = rand_below(&rnd, 4) == 0;
		int err = 0;

		r.cut_at = cut ? r.writes + 1 + rand_below(&rnd, 300) : 0;
		if (r.m->copies < 2)
			err = ask_for_two();
		if (err == -ENOSPC)
			return false;
		if (err && !r.cut)
			return *good = failed("two copies are refused");
		if (!work((uint32_t)rand_below(&rnd, 20)))
			return *good = false;
		if (!r.cut)
			meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
		rig_idle(&r);
		r.cut_at = 0;
		if (r.cut && !cut_converting())
			return *good = false;
	}
	if (is_converting())
		return *good = failed("it has one copy of some blocks for ever");
	if (rig_thin_zones(&r) > 0)
		return *good = failed("blocks with one copy after it has converted");
	seen.converted++;
	r.copied = true;
	return true;
}

static bool lives(uint64_t seed)
{
	bool good = true;

	memset(&life, 0, sizeof(life));
	life.seed = seed;
	life.spare = life.victim = NOBODY;
	rand_seed(&rnd, seed * 31 + 7);
	sim_begins(seed);
	say_where("an assertion");
	loss_model_init(&model, &r, seed);
	if (!format() || !work(20 + (uint32_t)rand_below(&rnd, 200)))
		return false;
	if (!r.copied && !converts(&good)) {
		rig_end(&r);
		return good;
	}
	for (life.step = 1; life.step <= LIFE_STEPS && grow(&good); life.step++)
		if (!loss())
			return false;
	rig_end(&r);
	seen.lives++;
	seen.changes += model.done;
	return good;
}

static bool has_happened(void)
{
	for (uint32_t i = 0; i < HOWS; i++)
		if (!seen.by[i])
			return false;
	for (uint32_t i = 0; i < AFTERS; i++)
		if (!seen.after[i])
			return false;
	for (uint32_t i = 0; i < ERRANDS; i++)
		if (!seen.errands[i])
			return false;
	return seen.folds && seen.folds_hit && seen.lost && seen.spared && seen.rests &&
	       seen.ckpt && seen.collecting && seen.alone && seen.cuts_rebuilding &&
	       seen.converted && seen.cuts_converting && seen.second_cuts;
}

int main(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");
	const uint64_t many = length && strcmp(length, "proof") == 0 ? 100000 : 20000;
	struct sim_args args = sim_args(argc, argv, "losses", sim_args_few(2000, 2), many);
	const uint64_t begin_ns = clock_now_ns();

	(void)signal(SIGABRT, on_abort);
	for (uint64_t seed = args.seed; seen.losses < args.count; seed++)
		if (!lives(seed))
			return 1;
	printf("ok loss: %llu stores, %llu losses (%llu drives left), %llu mounts, %llu cuts, "
	       "%llu of them while it was rebuilt, %llu times alone, %llu full; "
	       "%llu converted, with %llu cuts; %llu replaced; %llu stores with a spare drive, "
	       "%llu rests; "
	       "%llu folds hit, %llu whole; "
	       "%llu lost a second one meanwhile (%llu with a cut); "
	       "%llu during checkpoints, %llu during collection; %llu changes; %.0f s\n",
	       (unsigned long long)seen.lives, (unsigned long long)seen.losses,
	       (unsigned long long)seen.lost, (unsigned long long)seen.mounts,
	       (unsigned long long)seen.cuts, (unsigned long long)seen.cuts_rebuilding,
	       (unsigned long long)seen.alone, (unsigned long long)seen.full,
	       (unsigned long long)seen.converted, (unsigned long long)seen.cuts_converting,
	       (unsigned long long)seen.errands[REPLACE], (unsigned long long)seen.spared,
	       (unsigned long long)seen.rests, (unsigned long long)seen.folds_hit,
	       (unsigned long long)seen.folds, (unsigned long long)seen.second,
	       (unsigned long long)seen.second_cuts, (unsigned long long)seen.ckpt,
	       (unsigned long long)seen.collecting, (unsigned long long)seen.changes,
	       (double)(clock_now_ns() - begin_ns) / 1e9);
	if (args.count >= 200 && !has_happened())
		return failed("what this is about has not happened") ? 0 : 1;
	return 0;
}
