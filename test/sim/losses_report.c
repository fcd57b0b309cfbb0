/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The lines of the simulation losses: where a failure was, and at the end how often everything
 * happened. */
#include "test/sim/losses_life.h"
#include "test/sim/sim_args.h"

#include <stdio.h>

static const char *const how_name[] = { "die",         "hang",       "fail some writes",
					"writes fail", "reads fail", "are missing" };
static const char *const when_name[] = { "alone", "at once", "one after the other" };
static const char *const after_name[] = { "away", "stale", "aged", "wiped", "still dead" };
static const char *const errand_name[] = { "nothing", "drain", "add" };

void losses_say_where(struct losses_life *l, const char *what)
{
	(void)snprintf(l->where, sizeof(l->where),
		       "not ok seed %llu, step %u (%u copies, folds of %u; drives %#x of %u %s %s, "
		       "%s, errand %s): %s\n",
		       (unsigned long long)l->seed, l->step, l->copies, l->fold, l->victims,
		       l->r.ndrives, how_name[l->how], when_name[l->when], after_name[l->after],
		       errand_name[l->errand], what);
}

bool losses_failed(struct losses_life *l, const char *what)
{
	losses_say_where(l, what);
	printf("%s# %s; %s\n", l->where, sim_why, l->r.m ? meta_error(l->r.m) : "");
	return false;
}

/* ---- at the end ------------------------------------------------------------------------- */

static void report_folds(const struct losses_seen *s)
{
	printf("# folds of one zone of parity: %llu hit, drives failed %llu times while one was "
	       "made, %llu compared; of two: %llu, %llu, %llu; ",
	       (unsigned long long)s->folds_hit[0], (unsigned long long)s->folding[0],
	       (unsigned long long)s->parity.folds[1], (unsigned long long)s->folds_hit[1],
	       (unsigned long long)s->folding[1], (unsigned long long)s->parity.folds[2]);
	printf("zones of data:");
	for (uint32_t i = 0; i < 64; i++)
		if (s->parity.widths >> i & 1)
			printf(" %u", i);
	printf("; %llu times read without as many drives as may be lost\n",
	       (unsigned long long)s->unread);
}

void losses_report(const struct losses_seen *s, double seconds)
{
	report_folds(s);
	printf("ok losses: %llu stores, %llu losses, %llu of two drives at once, %llu of one "
	       "after the other; %llu mounts, %llu told what is missing; %llu cuts, %llu while "
	       "it was rebuilt; %llu with too few drives, %llu widened; %llu full; "
	       "%llu converted, with %llu losses and %llu cuts; "
	       "%llu during checkpoints, %llu during collection; %llu changes; %.0f s\n",
	       (unsigned long long)s->lives, (unsigned long long)s->losses,
	       (unsigned long long)s->when[AT_ONCE], (unsigned long long)s->both,
	       (unsigned long long)s->mounts, (unsigned long long)s->told,
	       (unsigned long long)s->cuts, (unsigned long long)s->cuts_rebuilding,
	       (unsigned long long)s->few, (unsigned long long)s->widened,
	       (unsigned long long)s->full, (unsigned long long)s->converted,
	       (unsigned long long)s->lost_converting, (unsigned long long)s->cuts_converting,
	       (unsigned long long)s->ckpt, (unsigned long long)s->collecting,
	       (unsigned long long)s->changes, seconds);
}

static bool all(const uint64_t *counts, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!counts[i])
			return false;
	return true;
}

bool losses_happened(const struct losses_seen *s)
{
	return all(s->how, HOWS) && all(s->when, WHENS) && all(s->after, AFTERS) &&
	       all(s->errands, ERRANDS) && all(s->folding, 2) && all(s->folds_hit, 2) &&
	       s->parity.folds[1] && s->parity.folds[2] && s->unread && s->both && s->told &&
	       s->few && s->widened && s->ckpt && s->collecting && s->cuts_rebuilding &&
	       s->converted && s->lost_converting && s->cuts_converting;
}
