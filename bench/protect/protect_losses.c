/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The cost of a lost drive, and of two.  Drives are files here, and schemes follow each other.
 *
 *   write, fold --> reads --> one drive is lost --> reads --> rebuild beside reads
 *                                                                |
 *                   reads <-- two more are lost <-- fold <-------'    if two may be lost
 *
 * While reads are measured, the rebuild nearly stands still.  Only figures of one
 * appliance, minutes apart at most, are compared: all schemes at once would need too much memory.
 *
 *  (1) A drive is lost only if all that was lost before has been rebuilt, or as many as the scheme
 *      allows are lost together.
 */
#include "base/clock.h"
#include "base/num.h"
#include "bench/protect/protect_rig.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOW_BYTES   4096 /* a second: hardly any */
#define REBUILD_IN_S 600

enum {
	BEFORE_READ,
	BEFORE_STREAM,
	ONE_READ,
	ONE_STREAM,
	ONE_DRIVE_READ,
	REBUILD_WHOLE,
	REBUILD_MOVED,
	REBUILD_READ,
	REBUILD_P99,
	TWO_READ,
	TWO_STREAM,
	TWO_DRIVE_READ,
	ROWS
};

static const struct {
	const char *group, *name, *unit;
} shown[ROWS] = {
#define READ   "4 KiB at random", "reads/s"
#define STREAM "read in order, 1 MiB, 8 in flight", "B/s"
#define DRIVES "read from drives for a byte read", "times"
	[BEFORE_READ] = { "Before a loss", READ },
	[BEFORE_STREAM] = { "Before a loss", STREAM },
	[ONE_READ] = { "A drive is lost", READ },
	[ONE_STREAM] = { "A drive is lost", STREAM },
	[ONE_DRIVE_READ] = { "A drive is lost", DRIVES },
	[REBUILD_WHOLE] = { "Rebuild of a drive", "of what it held", "B/s" },
	[REBUILD_MOVED] = { "Rebuild of a drive", "moved", "B/s" },
	[REBUILD_READ] = { "Rebuild of a drive", "4 KiB at random, meanwhile", "reads/s" },
	[REBUILD_P99] = { "Rebuild of a drive", "p99 of these, over that before a loss", "times" },
	[TWO_READ] = { "Two drives are lost", READ },
	[TWO_STREAM] = { "Two drives are lost", STREAM },
	[TWO_DRIVE_READ] = { "Two drives are lost", DRIVES },
};

struct losses {
	struct protect_rig *rig;
	struct protect_side *side;
	uint32_t scheme; /* that is being measured */
	struct stat_hist hist;
	struct protect_row row[ROWS];
};

static const struct protect_scheme *scheme_of(const struct losses *l)
{
	ASSERT(l->scheme < l->rig->conf.schemes);
	return &l->rig->conf.scheme[l->scheme];
}

/* ---- reads -------------------------------------------------------------------------------- */

static int read_row(struct losses *l, enum protect_load load, uint32_t row)
{
	const struct protect_conf *c = &l->rig->conf;

	stat_hist_reset(&l->hist);
	for (uint32_t n = 0; n <= c->runs; n++) { /* the first warms up */
		struct bench_run run = { .hist = n ? &l->hist : NULL };

		if (protect_run(l->side, load, load == PROTECT_READ ? WEKA_BLOCK : PROTECT_PIECE,
				c->seconds, &run))
			return 1;
		if (n > 0)
			protect_row_add(&l->row[row], l->scheme,
					protect_rate(&run, load == PROTECT_STREAM), 0);
	}
	protect_row_times(&l->row[row], l->scheme, &l->hist);
	return 0;
}

/* With `lost` drives lost, of so many that have the file. */
static int reads(struct losses *l, uint32_t row_read, uint32_t lost, uint32_t drives)
{
	struct protect_status from, to;

	if (protect_look(l->side, &from) || read_row(l, PROTECT_READ, row_read) ||
	    read_row(l, PROTECT_STREAM, row_read + 1) || protect_look(l->side, &to))
		return 1;
	if (lost > 0)
		protect_row_add(&l->row[row_read + 2], l->scheme,
				(double)(to.drive_read_bytes - from.drive_read_bytes) /
					(double)max_u64(to.read_bytes - from.read_bytes, 1),
				protect_scheme_read(scheme_of(l), lost, drives));
	return 0;
}

/* ---- rebuild ------------------------------------------------------------------------------ */

/* Reads at random until nothing is lost any more. */
static int read_until_whole(struct losses *l, struct bench_run *all, struct protect_status *now)
{
	const uint64_t until = clock_now_ns() + REBUILD_IN_S * NS_PER_S;

	do {
		struct bench_run run = { .hist = &l->hist };

		if (protect_run(l->side, PROTECT_READ, WEKA_BLOCK, 0.02, &run) ||
		    protect_look(l->side, now))
			return 1;
		all->ops += run.ops;
		all->ns += run.ns;
	} while (now->lost && clock_now_ns() < until && !bench_interrupted());
	return now->lost ? bench_fail("%s: the rebuild is not over", scheme_of(l)->name) : 0;
}

static int rebuild(struct losses *l)
{
	const struct protect_conf *c = &l->rig->conf;
	const double before_ms = l->row[BEFORE_READ].figure[l->scheme].p99_ms;
	struct protect_row *row = l->row;
	struct protect_status from, now;
	struct bench_run all = { 0 };
	uint64_t began;
	double seconds;

	stat_hist_reset(&l->hist);
	if (protect_look(l->side, &from))
		return 1;
	began = clock_now_ns();
	if (protect_pace(l->side, 0) || read_until_whole(l, &all, &now))
		return 1;
	seconds = (double)(clock_now_ns() - began) / NS_PER_S;
	protect_row_add(&row[REBUILD_WHOLE], l->scheme,
			(double)from.live_bytes * protect_scheme_space(scheme_of(l)) / c->drives /
				seconds,
			0);
	protect_row_add(&row[REBUILD_MOVED], l->scheme,
			(double)(now.moved_bytes - from.moved_bytes) / seconds, 0);
	protect_row_add(&row[REBUILD_READ], l->scheme, protect_rate(&all, false), 0);
	protect_row_times(&row[REBUILD_READ], l->scheme, &l->hist);
	if (before_ms > 0)
		protect_row_add(&row[REBUILD_P99], l->scheme,
				row[REBUILD_READ].figure[l->scheme].p99_ms / before_ms, 0);
	return 0;
}

/* ---- one scheme --------------------------------------------------------------------------- */

static int lose_one(struct losses *l)
{
	return protect_pace(l->side, SLOW_BYTES) || protect_lose(l->side, 1) ||
	       reads(l, ONE_READ, 1, l->rig->conf.drives) || rebuild(l);
}

/* Drive 1 is gone. */
static int lose_two(struct losses *l)
{
	struct protect_status now;
	uint64_t spent;

	if (protect_settle(l->side, &now, &spent))
		return 1;
	ASSERT(now.lost == 0); /* (1) */
	return protect_pace(l->side, SLOW_BYTES) || protect_lose(l->side, 2) ||
	       protect_lose(l->side, 3) || reads(l, TWO_READ, 2, l->rig->conf.drives - 1);
}

static int measure(struct losses *l)
{
	const uint32_t more = scheme_of(l)->more;
	struct protect_cost cost;

	return protect_fill(l->side, PROTECT_WRITE, PROTECT_PIECE, &cost) ||
	       reads(l, BEFORE_READ, 0, l->rig->conf.drives) || (more > 0 && lose_one(l)) ||
	       (more > 1 && lose_two(l));
}

int protect_losses(struct protect_rig *r)
{
	struct losses *l = calloc(1, sizeof(*l));
	int err = 0;

	if (!l)
		return bench_fail("out of memory");
	l->rig = r;
	for (uint32_t i = 0; i < ROWS; i++)
		protect_row_begin(&r->table, &l->row[i], shown[i].group, shown[i].name,
				  shown[i].unit);
	for (uint32_t i = 0; i < r->conf.schemes && !err; i++) {
		l->scheme = i;
		err = protect_open(&l->side, &r->conf, scheme_of(l)) || measure(l);
		err |= protect_close(l->side);
		l->side = NULL;
	}
	for (uint32_t i = 0; i < ROWS; i++)
		protect_row_show(&r->table, &l->row[i]);
	free(l);
	return err;
}
