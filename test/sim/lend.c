/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Shards that are lent, in one thread: a store, three borrowers, and rings of messages between
 * them. The seed chooses who has the next turn.
 *
 *   borrower 0  plan, apply, look ---- said ... told ---.
 *   borrower 1  plan, apply, look ---- said ... told ----+--> hears ... store: log, checkpoints,
 *   borrower 2  plan, apply, look ---- said ... told ---'             collection, what is not lent
 *          ^  blanks, shards; what only it could do                      |
 *          '-------------------------------------------------------------+--> drives, power, faults
 *
 * Each borrower has directories of its own, and now and then changes another's.  Meanwhile
 * checkpoints are wanted, totals go up, blanks are called back, borrowers sleep; then the power is
 * cut (also in the mount behind it), all writes fail, all falls quiet, or the store stops.
 *
 *   small   few names, and a cache of any size
 *   full    1,500 small files in a directory, so leaves are full; files grow by tails beside them
 *   tight   drives of 5 to 128 MiB, so zones of 16 to 32 blocks: values of up to 64 KiB make
 *           records of the log that fill most of a zone
 *
 *   - each change is answered, with the status that POSIX says, or that there is no room
 *   - a look finds the acknowledged state, or that of the change in progress, whole; a state that a
 *     look was answered with stays
 *   - after a cut each acknowledged change is there; each change in progress is there whole, with
 *     its receipt, or not at all; a change that the store never heard of is not there
 *   - the check finds no fault; nothing hangs
 *
 * usage: lend [--seed N] [--seeds N] [--shape NAME]
 */
#include "test/sim/lend_world.h"
#include "test/sim/sim_args.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/engine/meta_lend.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AFTERMATH 3000u /* turns, until the power is off or all is lost */
#define MANY      20u   /* seeds */

static struct lend_world w;
static struct lend_count sum;
static uint64_t seed_now;

static void on_abort(int number)
{
	(void)number; /* abort() goes on */
	printf("not ok %s seed %llu, %llu cuts, step %llu: an assertion\n", w.shape->name,
	       (unsigned long long)seed_now, (unsigned long long)w.seen.cuts,
	       (unsigned long long)w.seen.steps);
}

/* ---- a life ---------------------------------------------------------------------------------- */

/* A stalled borrower gets no turn: its changes wait, while the others go on. */
static uint32_t who_is_next(void)
{
	const uint32_t i = (uint32_t)lend_pick(&w, LEND_BORROWERS);

	if (w.stall == 0 && lend_pick(&w, 400) == 0) {
		w.stall = (uint32_t)lend_pick(&w, w.shape->stall);
		w.stalled = i;
	}
	w.stall -= w.stall > 0;
	return w.stall > 0 && i == w.stalled ? (i + 1) % LEND_BORROWERS : i;
}

/* One of them has a turn. */
static void stir(void)
{
	const uint64_t dice = lend_pick(&w, 10);
	const uint32_t i = who_is_next();

	if (dice < 5 && (!w.slow[i] || lend_pick(&w, 6) == 0))
		lend_core_turn(&w, i, true);
	else if (dice >= 5 && dice < 8)
		lend_core_hear(&w, i, 1 + (uint32_t)lend_pick(&w, 6));
	if (dice >= 4)
		(void)rig_step(&w.r);
	w.seen.steps++;
}

static void stir_and_disturb(void)
{
	stir();
	if (lend_pick(&w, 600) == 0)
		meta__ckpt_want(w.r.m);
	if (lend_pick(&w, 1500) == 0)
		meta_totals_round(w.r.m);
	if (lend_pick(&w, 3000) == 0)
		meta__lend_back(w.r.m);
}

static void mount_again(void)
{
	int err = 0;

	if (w.wrong)
		return;
	for (;;) {
		if (lend_pick(&w, 6) == 0)
			w.r.cut_at = w.r.writes + 1 + lend_pick(&w, 12);
		err = rig_mount(&w.r);
		if (err != -ECANCELED)
			break;
		w.seen.cuts_in_mounts++;
		rig_power_cut(&w.r);
	}
	w.r.cut_at = 0;
	if (err) {
		lend_wrong(&w, "mount: %s", meta_error(w.r.m));
		return;
	}
	lend_cores_begin(&w);
	lend_verify_settle(&w);
}

static void cut(void)
{
	w.r.cut_at = w.r.writes + 1 + lend_pick(&w, 30);
	for (uint32_t t = 0; t < AFTERMATH && !w.r.cut && !w.wrong; t++)
		stir();
	lend_cores_end(&w);
	w.r.cut = true;
	rig_power_cut(&w.r);
	w.seen.cuts++;
	mount_again();
	lend_verify(&w, "after a cut");
}

/* Nothing can be written any more: all that is asked for is refused, and nothing hangs. */
static void fail(void)
{
	w.r.fail_at = w.r.writes + 1 + lend_pick(&w, 60);
	for (uint32_t t = 0; t < AFTERMATH && !w.wrong; t++)
		stir();
	lend_cores_quiet(&w);
	if (w.wrong)
		return;
	lend_cores_end(&w);
	rig_power_cut(&w.r);
	w.r.fail_at = 0;
	w.seen.fails++;
	mount_again();
	lend_verify(&w, "after failed writes");
}

static void stop(void)
{
	lend_cores_quiet(&w);
	if (w.wrong)
		return;
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		meta_reader_end(w.reader[i]);
	if (rig_stop(&w.r))
		lend_wrong(&w, "it does not stop");
	lend_cores_end(&w);
	w.seen.stops++;
	mount_again();
	lend_verify(&w, "after a stop");
}

static void life(void)
{
	const uint64_t until = w.seen.steps + 100 + lend_pick(&w, w.shape->life);
	const uint64_t end = lend_pick(&w, 8);

	while (w.seen.steps < until && !w.wrong)
		stir_and_disturb();
	if (w.wrong)
		return;
	if (end < 3) {
		cut();
	} else if (end < 5) {
		fail();
	} else if (end < 6) {
		stop();
	} else {
		lend_cores_quiet(&w);
		w.seen.quiets++;
		lend_verify(&w, "while it is quiet");
	}
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static void add_up(void)
{
	uint64_t *to = (uint64_t *)(void *)&sum;
	const uint64_t *from = (const uint64_t *)(const void *)&w.seen;

	for (uint32_t i = 0; i < sizeof(sum) / sizeof(*to); i++)
		to[i] += from[i];
}

static bool run(const struct lend_shape *shape, uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.shape = shape;
	rand_seed(&w.rnd, seed ^ (uint64_t)(shape - lend_shapes) << 56);
	for (uint32_t i = 0; i < LEND_BORROWERS * LEND_SLOTS; i++) {
		struct lend_slot *s = &w.slot[i / LEND_SLOTS][i % LEND_SLOTS];

		s->borrower = i / LEND_SLOTS;
		s->number = i % LEND_SLOTS;
	}
	lend_store_make(&w, seed);
	lend_cores_begin(&w);
	lend_cores_enter(&w);
	lend_store_fill(&w);
	while (!w.wrong && w.seen.steps < shape->steps)
		life();
	if (w.wrong) {
		printf("not ok %s seed %llu, %llu cuts, step %llu: %s\n", shape->name,
		       (unsigned long long)seed, (unsigned long long)w.seen.cuts,
		       (unsigned long long)w.seen.steps, sim_why);
		return false;
	}
	lend_cores_end(&w);
	rig_end(&w.r);
	add_up();
	return true;
}

/* In a few seeds not all of it need happen. */
static bool tell(const struct lend_shape *shape, bool all, uint64_t begin)
{
	printf("ok %s: %llu changes begun, %llu made by borrowers (%llu of them tails), %llu "
	       "calls, %llu again, %llu for want of blanks; %llu refused, %llu times full; %llu "
	       "looks, %llu early, %llu of what was cut; %llu long values; %llu cuts, %llu in "
	       "mounts, %llu failures, %llu stops; %.1f s\n",
	       shape->name, (unsigned long long)sum.begun, (unsigned long long)sum.made,
	       (unsigned long long)sum.grown_here, (unsigned long long)sum.calls,
	       (unsigned long long)sum.again, (unsigned long long)sum.forced,
	       (unsigned long long)sum.refused, (unsigned long long)sum.full,
	       (unsigned long long)sum.looks, (unsigned long long)sum.looks_early,
	       (unsigned long long)sum.seen_kept, (unsigned long long)sum.long_xattrs,
	       (unsigned long long)sum.cuts, (unsigned long long)sum.cuts_in_mounts,
	       (unsigned long long)sum.fails, (unsigned long long)sum.stops,
	       (double)(clock_now_ns() - begin) / 1e9);
	if (!all || (sum.made && sum.calls && sum.again && sum.looks_early && sum.grown_here &&
		     sum.cuts && sum.fails && sum.stops))
		return true;
	printf("not ok %s: what this is about has not happened\n", shape->name);
	return false;
}

/* One seed that found something, after the others: tight's took the last zone of the log, and with
 * it what was kept for borrowers. */
static bool once_found(const struct sim_args *args, const struct lend_shape *shape)
{
	const uint64_t seed = 481;

	if (args->one_seed || args->count > seed)
		return true;
	seed_now = seed;
	sim_begins(seed);
	return run(shape, seed);
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "seeds", sim_args_few(40, 4), 1000);

	signal(SIGABRT, on_abort);
	if (args.one_seed)
		args.count = 1;
	for (uint32_t i = 0; i < LEND_SHAPES; i++) {
		const uint64_t begin = clock_now_ns();

		if (!sim_args_want(&args, lend_shapes[i].name))
			continue;
		memset(&sum, 0, sizeof(sum));
		for (uint64_t n = 0; n < args.count; n++) {
			seed_now = args.seed + n;
			sim_begins(seed_now);
			if (!run(&lend_shapes[i], seed_now))
				return 1;
		}
		if (!once_found(&args, &lend_shapes[i]))
			return 1;
		if (!tell(&lend_shapes[i], args.count >= MANY, begin))
			return 1;
	}
	return 0;
}
