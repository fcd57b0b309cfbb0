/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The cost of a scheme while all drives are there.
 *
 *   costs    for each size of a turn: the large file is written once, and then folded
 *   loads    none, mirror, 2+1, ..., none, mirror, 2+1, ...      each load, in turn
 *
 * All appliances have as many drives, and one of them works at a time: the others sleep.
 * Each is quiet before the next is measured: it does not fold meanwhile.
 */
#include "base/num.h"
#include "bench/protect/protect_rig.h"

#include <stdio.h>
#include <stdlib.h>

struct whole {
	struct protect_rig *rig;
	struct protect_side *side[PROTECT_SCHEMES_MAX];
	struct protect_row row[4];
	struct stat_hist hist[PROTECT_SCHEMES_MAX];
};

double protect_rate(const struct bench_run *run, bool is_bytes)
{
	return (double)(is_bytes ? run->bytes : run->ops) * 1e9 / (double)max_u64(run->ns, 1);
}

/* ---- bytes -------------------------------------------------------------------------------- */

/* In requests of that size, each alone in its turn. */
static int cost_of(struct whole *w, uint32_t bytes, struct protect_cost cost[PROTECT_SCHEMES_MAX])
{
	static const char group[] = "Written for a byte of a file";
	const struct protect_conf *c = &w->rig->conf;
	struct protect_table *t = &w->rig->table;
	char name[64], size[PROTECT_SIZE];

	snprintf(name, sizeof(name), "turns of %s, at once", protect_size(size, bytes));
	protect_row_begin(t, &w->row[0], group, name, "times");
	snprintf(name, sizeof(name), "turns of %s, when it is folded", size);
	protect_row_begin(t, &w->row[1], group, name, "times");
	for (uint32_t i = 0; i < c->schemes; i++) {
		const struct protect_scheme *s = &c->scheme[i];

		if (protect_fill(w->side[i], PROTECT_TURN, bytes, &cost[i]))
			return 1;
		protect_row_add(&w->row[0], i, cost[i].at_once,
				protect_scheme_written(s, bytes, c->drives));
		protect_row_add(&w->row[1], i, cost[i].later,
				protect_scheme_written_later(s, bytes, c->drives));
	}
	protect_row_show(t, &w->row[0]);
	protect_row_show(t, &w->row[1]);
	return 0;
}

/* The file is the one that was written last. */
static void show_space(struct whole *w, const struct protect_cost cost[PROTECT_SCHEMES_MAX])
{
	static const char group[] = "Space";
	const struct protect_conf *c = &w->rig->conf;
	struct protect_table *t = &w->rig->table;

	protect_row_begin(t, &w->row[0], group, "zones in use for a byte of a file", "times");
	protect_row_begin(t, &w->row[1], group, "of the file in folds", "%");
	protect_row_begin(t, &w->row[2], group, "of the drives for files", "%");
	for (uint32_t i = 0; i < c->schemes; i++) {
		const double space = protect_scheme_space(&c->scheme[i]);

		protect_row_add(&w->row[0], i, cost[i].space, space);
		if (c->scheme[i].data > 1)
			protect_row_add(&w->row[1], i, 100 * cost[i].folded, 100);
		protect_row_add(&w->row[2], i, 100 * cost[i].capacity, 100 / space);
	}
	for (uint32_t i = 0; i < 3; i++)
		protect_row_show(t, &w->row[i]);
}

static int costs(struct whole *w)
{
	const struct protect_conf *c = &w->rig->conf;
	struct protect_cost cost[PROTECT_SCHEMES_MAX];

	ASSERT(c->turns > 0 && c->turns <= PROTECT_TURNS_MAX);
	for (uint32_t i = 0; i < c->turns; i++)
		if (cost_of(w, c->turn[i], cost))
			return 1;
	show_space(w, cost);
	return 0;
}

/* ---- rates -------------------------------------------------------------------------------- */

static int once(struct whole *w, uint32_t i, enum protect_load load, uint32_t bytes,
		struct bench_run *run)
{
	const bool writes = load != PROTECT_READ && load != PROTECT_STREAM;
	struct protect_status quiet;
	int err = protect_run(w->side[i], load, bytes, w->rig->conf.seconds, run);

	return err || (writes && protect_quiet(w->side[i], &quiet));
}

static int compare(struct whole *w, enum protect_load load, uint32_t bytes, const char *name,
		   const char *unit)
{
	const struct protect_conf *c = &w->rig->conf;
	const bool is_bytes = load != PROTECT_READ && load != PROTECT_CREATE;

	protect_row_begin(&w->rig->table, &w->row[0], "All drives are there", name, unit);
	for (uint32_t i = 0; i < c->schemes; i++)
		stat_hist_reset(&w->hist[i]);
	for (uint32_t n = 0; n <= c->runs; n++) /* the first warms up */
		for (uint32_t i = 0; i < c->schemes; i++) {
			struct bench_run run = { .hist = n ? &w->hist[i] : NULL };

			if (once(w, i, load, bytes, &run))
				return 1;
			if (n > 0)
				protect_row_add(&w->row[0], i, protect_rate(&run, is_bytes), 0);
		}
	for (uint32_t i = 0; i < c->schemes; i++)
		protect_row_times(&w->row[0], i, &w->hist[i]);
	protect_row_show(&w->rig->table, &w->row[0]);
	return 0;
}

static int loads(struct whole *w)
{
	const struct protect_conf *c = &w->rig->conf;
	char name[64], size[PROTECT_SIZE];

	if (compare(w, PROTECT_READ, WEKA_BLOCK, "4 KiB at random", "reads/s") ||
	    compare(w, PROTECT_STREAM, PROTECT_PIECE, "read in order, 1 MiB, 8 in flight", "B/s") ||
	    compare(w, PROTECT_WRITE, PROTECT_PIECE, "written, 1 MiB, 8 in flight", "B/s"))
		return 1;
	for (uint32_t i = 0; i < c->turns; i++) {
		snprintf(name, sizeof(name), "written, turns of %s",
			 protect_size(size, c->turn[i]));
		if (compare(w, PROTECT_TURN, c->turn[i], name, "B/s"))
			return 1;
	}
	return compare(w, PROTECT_CREATE, WEKA_BLOCK, "created, 4 KiB, 64 a request", "files/s");
}

int protect_whole(struct protect_rig *r)
{
	struct whole *w = calloc(1, sizeof(*w));
	int err = 0;

	if (!w)
		return bench_fail("out of memory");
	w->rig = r;
	for (uint32_t i = 0; i < r->conf.schemes && !err; i++)
		err = protect_open(&w->side[i], &r->conf, &r->conf.scheme[i]);
	err = err || costs(w) || loads(w);
	for (uint32_t i = 0; i < r->conf.schemes; i++)
		err |= protect_close(w->side[i]);
	free(w);
	return err;
}
