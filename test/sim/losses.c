/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of three copies lose one drive or two, at once or one after the other, at random writes,
 * alone or together with the power, while files change, checkpoints run, zones are collected, and
 * drives are added, drained and rebuilt.
 *
 *   changes, an errand --> drives fail --> perhaps a mount: they are away, old, wiped or still dead
 *        ^                                                      |
 *        +---- rebuilt: three copies of everything, a check <-- everything is there
 *
 *   - what was acknowledged, or seen, is there; any other change whole or not at all
 *   - two of four drives or more may fail at once, and two of three one after the other: the store
 *     takes changes as long as that is all
 *   - after each loss, power cuts meanwhile included, each block has three copies again, or as many
 *     as there are drives; when drives are added, three
 *
 * Every fourth store begins with two copies, and gets the third ones while a drive is lost and the
 * power fails (meta_protect.h).
 *
 * usage: losses [--seed N] [--losses N]
 */
#include "test/sim/loss_model.h"
#include "test/sim/sim_args.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/engine/meta_log.h"
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

#define COPIES     3u
#define NOBODY     META_DRIVES_MAX
#define LIFE_STEPS 4u
#define TURNS_MAX  300u
#define CUTS_MAX   3u

enum how { DIE, WRITES_FAIL, READS_FAIL, MISSING, HOWS };
enum when { ONE, AT_ONCE, LATER, WHENS };         /* LATER: when the first loss is recorded */
enum after { AWAY, STALE, WIPED, STILL, AFTERS }; /* what a mount finds */
enum errand { NOTHING, DRAIN, ADD, ERRANDS };

static const char *const how_name[] = { "die", "writes fail", "reads fail", "are missing" };
static const char *const when_name[] = { "alone", "at once", "one after the other" };
static const char *const after_name[] = { "away", "stale", "wiped", "still dead" };
static const char *const errand_name[] = { "nothing", "drain", "add" };

static struct rig r;
static struct loss_model model;
static struct rand_state rnd;
static char where[240]; /* seed and step, for messages of a process that aborts */

/* The present life of the store, and the drives that it loses. */
static struct {
	uint64_t seed;
	uint32_t step;
	uint64_t size[RIG_DRIVES_MAX];
	enum how how;
	enum when when;
	enum after after;
	enum errand errand;
	uint32_t victims; /* by bits; of LATER those that are to fail later, too */
	uint32_t second;  /* ... that one */
	uint32_t drains, spare;
	bool struck, refused;
} life;

static struct {
	uint64_t lives, losses, how[HOWS], when[WHENS], after[AFTERS], errands[ERRANDS];
	uint64_t changes, both, mounts, cuts, told, few, widened, ckpt, collecting, cuts_rebuilding;
	uint64_t full, converted, lost_converting, cuts_converting;
} seen;

static void say_where(const char *what)
{
	(void)snprintf(where, sizeof(where),
		       "not ok seed %llu, step %u (drives %#x of %u %s %s, %s, errand %s): %s\n",
		       (unsigned long long)life.seed, life.step, life.victims, r.ndrives,
		       how_name[life.how], when_name[life.when], after_name[life.after],
		       errand_name[life.errand], what);
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

static struct meta_drive_stat stat_of(uint32_t drive)
{
	struct meta_drive_stat s;

	meta_drive_stat(r.m, drive, &s);
	return s;
}

static bool serves(uint32_t drive)
{
	const struct meta_drive_stat s = stat_of(drive);

	return !s.gone && !s.lost && !s.draining;
}

static uint32_t serving(void)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < meta_drives(r.m); d++)
		n += serves(d);
	return n;
}

static uint32_t any_serving(uint32_t but)
{
	uint32_t d;

	ASSERT(serving() > (uint32_t)__builtin_popcount(but));
	do
		d = (uint32_t)rand_below(&rnd, meta_drives(r.m));
	while (!serves(d) || but >> d & 1);
	return d;
}

static bool is_down(void)
{
	return r.cut || meta_health(r.m) != 0;
}

/* Live zones with fewer copies than there could be now. */
static uint32_t too_thin(void)
{
	const uint32_t width = min_u32(COPIES, serving());
	uint32_t thin = 0;

	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, i);

		if ((at->kind == META__ZONE_PAGE || at->kind == META__ZONE_DATA) && at->live)
			thin += meta__drives_read(r.m, meta__drives_of(r.m, i)) < width;
	}
	return thin;
}

/* Some blocks have two copies since the store began with two, and was perhaps not asked yet. */
static bool is_converting(void)
{
	return r.m->copies < COPIES || r.m->converts;
}

/* A drive that is lost stays in a store that has too few drives for it to go, and so does one that
 * is drained: the lost one comes first. */
static bool is_settled(void)
{
	const bool few = serving() < COPIES;

	if (r.m->losing || too_thin() > 0 || (is_converting() && !few))
		return false;
	for (uint32_t d = 0; d < meta_drives(r.m); d++)
		if (!serves(d) && !stat_of(d).gone &&
		    !(few && (stat_of(d).lost || stat_of(d).draining)))
			return false;
	return true;
}

/* Any two drives may fail at once: also for the log, which leaves its zones one by one. */
static bool any_two_may_fail(void)
{
	const struct meta__log *l = r.m->log;

	if (serving() < 4 + (life.errand == DRAIN) || r.m->zones->lone > 0 || is_converting())
		return false;
	for (uint32_t i = 0; i < l->zones_count; i++)
		if (meta__log_copies(l->zones[i].zone) < COPIES)
			return false;
	return l->ahead[0] == META__ZONE_NONE || meta__log_copies(l->ahead) == COPIES;
}

/* ---- mount ------------------------------------------------------------------------ */

static void wreck(uint32_t drive)
{
	const int with = rand_below(&rnd, 2) ? 0xee : 0;

	memset(r.view[drive], with, life.size[drive]);
	memset(r.image[drive], with, life.size[drive]);
}

static void heal(void)
{
	r.dead = r.dying = r.failing = r.bad_writes = r.bad_reads = r.never = 0;
	r.dies_at = 0;
}

/* They are missing; as the operator says, perhaps. */
static void take_out(uint32_t drives, bool told)
{
	for (; drives; drives &= drives - 1) {
		struct meta_drive_info *d = &r.conf.drive[__builtin_ctz(drives)];

		d->nblocks = 0;
		d->missing |= told;
	}
}

static void what_comes_back(void)
{
	const uint32_t writes_only = life.how == WRITES_FAIL ? r.bad_writes & ~r.dead : 0;

	if (life.after != STILL || life.how == MISSING)
		heal();
	r.never = 0;
	r.cut_at = 0;
	if (life.after == AWAY || (life.after == STILL && life.how == MISSING))
		take_out(life.victims, false);
	for (uint32_t d = 0; life.after == WIPED && d < r.ndrives; d++)
		if (life.victims >> d & 1)
			wreck(d);
	if (life.after == STILL && writes_only)
		r.failing = r.bad_writes = writes_only;
}

/* True: try again, as a person would. */
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
	if (err == -ENODEV || err == -EIO) {
		bool more = false;

		for (uint32_t d = 0; d < r.conf.ndrives; d++)
			more |= life.victims >> d & 1 && !r.conf.drive[d].missing;
		take_out(life.victims, true);
		seen.told += more;
		return more;
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
	return (4 + rand_below(&rnd, 5)) << 20;
}

static void spare(void)
{
	const uint64_t size = any_size();

	if (life.spare != NOBODY) {
		r.conf.drive[life.spare].nblocks = life.size[life.spare] / 4096;
		return;
	}
	ASSERT(r.ndrives < RIG_DRIVES_MAX);
	life.spare = rig_drive(&r, size, r.conf.drive[0].volatile_cache);
	life.size[life.spare] = size;
}

/* Another change of the set is not over yet. */
static int start(void)
{
	int err = -EBUSY;

	for (uint32_t n = 0; err == -EBUSY && n < TURNS_MAX; n++) {
		if (n > 0)
			(void)rig_step(&r);
		err = life.errand == DRAIN ? meta_drive_drain(r.m, life.drains)
					   : meta_drive_add(r.m, &r.conf.drive[life.spare]);
	}
	return err;
}

static bool begin(void)
{
	int err = 0;

	if (life.errand == DRAIN)
		life.drains = any_serving(0);
	if (life.errand != NOTHING)
		err = start();
	if (life.errand == DRAIN && (err == -ENOSPC || err == -EPERM || err == -EFBIG)) {
		life.errand = NOTHING;
		err = 0;
	}
	seen.errands[life.errand]++;
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
	if (is_down() || meta_drives(r.m) <= life.spare)
		return;
	r.conf.ndrives = meta_drives(r.m);
	life.spare = NOBODY;
}

/* ---- a loss ------------------------------------------------------------------------ */

static void choose(void)
{
	life.how = (enum how)rand_below(&rnd, HOWS);
	life.after = (enum after)rand_below(&rnd, AFTERS);
	life.when = (enum when)rand_below(&rnd, WHENS);
	life.errand = (enum errand)rand_below(&rnd, ERRANDS);
	life.drains = life.second = NOBODY;
	life.struck = false;
	if ((life.errand == ADD && life.spare == NOBODY && r.ndrives == RIG_DRIVES_MAX) ||
	    (life.errand == DRAIN && serving() < 4))
		life.errand = NOTHING;
	if (life.errand == ADD)
		spare();
	if ((life.when == AT_ONCE && !any_two_may_fail()) || serving() < 3)
		life.when = ONE;
	if (life.when == LATER &&
	    (life.how == MISSING || life.errand != NOTHING || is_converting()))
		life.when = ONE; /* a mount misses one at most while it converts */
	life.victims = 1u << any_serving(0);
	if (life.when != ONE) {
		life.second = any_serving(life.victims);
		life.victims |= 1u << life.second;
	}
	say_where("an assertion");
}

static void arm(void)
{
	const uint64_t at = r.writes + 1 + rand_below(&rnd, rand_below(&rnd, 2) ? 30 : 200);
	const uint32_t first =
		life.when == LATER ? life.victims & ~(1u << life.second) : life.victims;

	if (life.how == DIE)
		r.dying = first;
	if (life.how == WRITES_FAIL)
		r.failing = first;
	if (life.how == READS_FAIL)
		r.bad_reads = first;
	r.dies_at = at;
	if (life.how == MISSING || (life.when != LATER && rand_below(&rnd, 2)))
		r.cut_at = at + rand_below(&rnd, rand_below(&rnd, 2) ? 4 : 150);
}

/* Counts, once, the background work in progress when drives fail. */
static void struck(void)
{
	if (life.struck || r.cut || r.writes < r.dies_at)
		return;
	life.struck = true;
	seen.ckpt += meta__ckpt_running(r.m);
	seen.collecting += meta__collect_busy(r.m);
}

static bool work(uint32_t changes)
{
	for (uint32_t n = 0; n < changes && !is_down(); n++) {
		if (!loss_change(&model))
			return failed("answer");
		struck();
		if (rand_below(&rnd, 12) == 0)
			rig_idle(&r);
	}
	return true;
}

/* The other one fails as soon as the first loss is recorded; nothing depends on it if the log does
 * not. */
static bool second_dies(void)
{
	const uint32_t first = (uint32_t)__builtin_ctz(life.victims & ~(1u << life.second));

	for (uint32_t n = 0; n < 200 && !is_down() && (!stat_of(first).lost || r.m->losing); n++)
		if (!loss_change(&model))
			return failed("answer, before the second loss");
	if (is_down() || !stat_of(first).lost || r.m->losing || !serves(life.second) ||
	    meta__drive_is_needed(r.m, life.second)) {
		life.victims &= ~(1u << life.second);
		return true;
	}
	r.dead |= 1u << life.second;
	if (!meta_drive_failed(r.m, life.second))
		return failed("a drive on which nothing depends was not lost");
	if (rand_below(&rnd, 2))
		r.cut_at = r.writes + 1 + rand_below(&rnd, 60);
	seen.both++;
	return work(1 + (uint32_t)rand_below(&rnd, 30));
}

static bool restart(void)
{
	seen.cuts_converting += r.m->converts > 0;
	if (!is_down() && rand_below(&rnd, 4) == 0)
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

static bool survive(void)
{
	if (!r.cut && meta_health(r.m))
		return failed("it takes no more changes");
	if (life.errand == ADD && !is_down())
		added();
	if (!r.cut && !is_there("after the loss"))
		return false;
	if (!is_down() && life.how != MISSING && rand_below(&rnd, 2)) {
		if (life.how == READS_FAIL)
			heal();
		return true;
	}
	return restart();
}

/* ---- whole again ------------------------------------------------------------------- */

static void never_again(void)
{
	rig_idle(&r);
	for (uint32_t d = 0; d < meta_drives(r.m) && !r.cut; d++)
		if (stat_of(d).lost && !r.m->losing)
			r.never |= 1u << d; /* meta_pair.c (4) */
}

/* If that is over, or was cut off, nothing is done, or it is done again. */
static void ask_for_three(void)
{
	const int err = r.m->copies < COPIES && !r.m->boot->adding ? meta_protect(r.m, COPIES) : 0;

	life.refused = err == -ENOSPC;
	ASSERT(!err || err == -ENOSPC || err == -ENODEV || err == -EPERM || err == -EROFS);
}

static bool cut_meanwhile(void)
{
	r.cut_at = r.writes + 1 + rand_below(&rnd, 100);
	ask_for_three();
	for (uint32_t n = 0; n < 10 && !r.cut; n++) {
		if (!loss_change(&model))
			return failed("answer, meanwhile");
		rig_idle(&r);
	}
	seen.cuts_rebuilding += r.cut;
	seen.cuts_converting += r.cut && r.m->converts;
	rig_power_cut(&r);
	r.never = 0;
	return mount() && is_there("after a cut, meanwhile");
}

static void turn_until_settled(void)
{
	meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
	for (uint32_t n = 0; n < TURNS_MAX && !is_settled() && meta_health(r.m) == 0; n++) {
		ask_for_three();
		rig_idle(&r);
	}
}

static bool has_room(void)
{
	struct meta_statfs st = { 0 };
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };

	return rig_run(&r, &op) == 0 && st.blocks_free > 600;
}

static bool make_room(void)
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
	uint32_t lost = 0, gone = 0, draining = 0;

	for (uint32_t d = 0; d < meta_drives(r.m); d++) {
		lost += stat_of(d).lost;
		gone += stat_of(d).gone;
		draining += stat_of(d).draining;
	}
	(void)sim_wrong("%u serve, %u are lost, %u gone, %u draining; %u zones are too thin; %u "
			"copies, converts from %u",
			serving(), lost, gone, draining, too_thin(), r.m->copies, r.m->converts);
	return failed("it does not become whole");
}

static bool settle(void)
{
	struct meta_check check = { 0 };

	never_again();
	for (uint32_t n = 0; n < CUTS_MAX && rand_below(&rnd, 3) == 0; n++)
		if (!cut_meanwhile())
			return false;
	never_again();
	turn_until_settled();
	if (meta_health(r.m))
		return failed("frozen");
	if (!is_settled() && (life.refused || !has_room()) && !make_room())
		return false;
	if (!is_settled())
		return tell_settled();
	if (!is_there("when it is whole"))
		return false;
	seen.few += serving() < COPIES;
	(void)sim_wrong(" ");
	if (rig_check(&r, &check)) {
		(void)sim_wrong("%s", check.first[0]);
		return failed("check");
	}
	return true;
}

static bool loss(void)
{
	const bool began = is_converting();

	if (began)
		ask_for_three();
	else
		turn_until_settled();
	for (uint64_t n = rand_below(&rnd, 1u << rand_below(&rnd, 11)); began && n > 0; n--)
		(void)rig_step(&r);
	choose();
	if (!begin())
		return false;
	arm();
	if (!work(4 + (uint32_t)rand_below(&rnd, 100)) || (life.when == LATER && !second_dies()))
		return false;
	seen.losses++;
	seen.lost_converting += r.m->converts > 0;
	seen.how[life.how]++;
	seen.when[life.when]++;
	if (!survive())
		return false;
	r.cut_at = 0;
	if (!work((uint32_t)rand_below(&rnd, 30)) || !settle())
		return false;
	seen.converted += began && !is_converting();
	heal();
	return true;
}

/* ---- lives ------------------------------------------------------------------------- */

/* Three drives serve at least, if there can be another one.  False: there cannot. */
static bool grow(bool *good)
{
	const bool few = serving() < COPIES;

	*good = true;
	while (serving() < COPIES) {
		if (life.spare == NOBODY && r.ndrives == RIG_DRIVES_MAX)
			return false;
		spare();
		life.errand = ADD;
		life.victims = 0;
		*good = begin();
		if (!*good)
			return false;
		added();
	}
	if (few)
		*good = settle();
	seen.widened += few;
	return *good;
}

static bool format(void)
{
	const uint32_t ndrives = rand_below(&rnd, 4) ? 5 + (uint32_t)rand_below(&rnd, 2) : 3;
	const bool cache = rand_below(&rnd, 2);

	for (uint32_t d = 0; d < ndrives; d++)
		life.size[d] = any_size();
	rig_make_of(&r, life.seed, ndrives, life.size, 1u << rand_below(&rnd, 4), cache);
	r.copied = true;
	r.conf.copies = life.seed % 4 ? COPIES : COPIES - 1;
	if (rand_below(&rnd, 4) == 0)
		r.conf.spare_drives = rand_below(&rnd, 2) ? 1 : META_SPARE_AUTO;
	r.cut_garbles = rand_below(&rnd, 2);
	return rig_format(&r) == 0 ? true : failed("format");
}

static bool lives(uint64_t seed)
{
	bool good = true;

	memset(&life, 0, sizeof(life));
	life.seed = seed;
	life.spare = NOBODY;
	rand_seed(&rnd, seed * 31 + 11);
	sim_begins(seed);
	say_where("an assertion");
	loss_model_init(&model, &r, seed);
	if (!format() || !work(20 + (uint32_t)rand_below(&rnd, 200)))
		return false;
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
		if (!seen.how[i])
			return false;
	for (uint32_t i = 0; i < WHENS; i++)
		if (!seen.when[i])
			return false;
	for (uint32_t i = 0; i < AFTERS; i++)
		if (!seen.after[i])
			return false;
	for (uint32_t i = 0; i < ERRANDS; i++)
		if (!seen.errands[i])
			return false;
	return seen.both && seen.told && seen.few && seen.widened && seen.ckpt && seen.collecting &&
	       seen.cuts_rebuilding && seen.converted && seen.lost_converting &&
	       seen.cuts_converting;
}

int main(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");
	const uint64_t many = length && strcmp(length, "proof") == 0 ? 100000 : 20000;
	struct sim_args args = sim_args(argc, argv, "losses", 800, many);
	const uint64_t begin_ns = clock_now_ns();

	(void)signal(SIGABRT, on_abort);
	for (uint64_t seed = args.seed; seen.losses < args.count; seed++)
		if (!lives(seed))
			return 1;
	printf("ok losses: %llu stores, %llu losses, %llu of two drives at once, %llu of one "
	       "after the other; %llu mounts, %llu told what is missing; %llu cuts, %llu while "
	       "it was rebuilt; %llu with too few drives, %llu widened; %llu full; "
	       "%llu converted, with %llu losses and %llu cuts; "
	       "%llu during checkpoints, %llu during collection; %llu changes; %.0f s\n",
	       (unsigned long long)seen.lives, (unsigned long long)seen.losses,
	       (unsigned long long)seen.when[AT_ONCE], (unsigned long long)seen.both,
	       (unsigned long long)seen.mounts, (unsigned long long)seen.told,
	       (unsigned long long)seen.cuts, (unsigned long long)seen.cuts_rebuilding,
	       (unsigned long long)seen.few, (unsigned long long)seen.widened,
	       (unsigned long long)seen.full, (unsigned long long)seen.converted,
	       (unsigned long long)seen.lost_converting, (unsigned long long)seen.cuts_converting,
	       (unsigned long long)seen.ckpt, (unsigned long long)seen.collecting,
	       (unsigned long long)seen.changes, (double)(clock_now_ns() - begin_ns) / 1e9);
	if (args.count >= 200 && !has_happened())
		return failed("what this is about has not happened") ? 0 : 1;
	return 0;
}
