/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Accelerators that train: each waits for a batch, then computes, which is the passing of time.
 *
 *                        +--------- readers (each one batch at a time) ----------+
 *   WAITING <-- ready ---+                                                       |
 *      |        batches      readers + ready batches <= readers x prefetch       |
 *      v                                                                         |
 *   COMPUTING until t --> a step is done; the last one: DONE                     |
 *                                                                                v
 *                                                                              target
 *
 * The clock is handed in, so that a test can run an hour in a millisecond.
 *
 * Accelerator utilisation, by MLPerf's rule: the time that an accelerator computed over the time
 * that it ran, both without its first step; the mean of all accelerators.  A short run leaves out
 * more steps: those whose batches were read ahead before the first one ended.
 *
 * Invariants:
 *
 *  (1) An accelerator has at most readers x prefetch batches: being read, ready, or both.
 *  (2) A reader has at most one group in flight.
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/mlperf/mlperf.h"

#include <stdlib.h>
#include <string.h>

enum at { WAITING, COMPUTING, DONE };

struct accelerator;

struct reader {
	struct accelerator *owner;
	struct mlperf_reader place;
	struct target_group group;
	bool busy; /* (2) */
};

struct accelerator {
	enum at at;
	uint32_t ready, reading;
	uint32_t ready_first; /* the oldest in ready_ns          */
	uint64_t *ready_ns;   /* a ring: when each ready batch came */
	uint64_t until_ns;    /* COMPUTING */
	uint64_t asked;       /* batches that were read or are being read */
	uint64_t steps;
	uint64_t first_end_ns, last_end_ns; /* of the last skipped step, and of the last */
	struct reader *readers;
};

struct mlperf_engine {
	struct mlperf_job job;
	struct mlperf_order order;
	uint64_t start_ns; /* 0: not begun */
	uint64_t bytes;
	uint32_t in_flight, done_count;
	int failed;
	bool stopped;
	struct reader *readers;
	struct target_io *ios;
	uint64_t *ready_ns;
	uint64_t now_ns; /* of the last turn */
	struct accelerator acc[];
};

int mlperf_engine_create(struct mlperf_engine **out, const struct mlperf_job *job)
{
	struct mlperf_engine *e = calloc(1, sizeof(*e) + job->accelerators * sizeof(e->acc[0]));
	const uint32_t readers = job->accelerators * job->readers;
	const uint32_t room = mlperf_batch_ios(job->dataset, job->batch);

	*out = NULL;
	if (!e)
		return bench_fail("out of memory");
	e->job = *job;
	e->job.skip_steps = max_u64(job->skip_steps, 1);
	e->readers = calloc(readers, sizeof(*e->readers));
	e->ios = calloc((size_t)readers * room, sizeof(*e->ios));
	e->ready_ns = calloc((size_t)readers * job->prefetch, sizeof(*e->ready_ns));
	if (!e->readers || !e->ios || !e->ready_ns ||
	    mlperf_order_create(&e->order, job->dataset, job->seed)) {
		mlperf_engine_destroy(e);
		return bench_fail("out of memory");
	}
	if (room > TARGET_GROUP_MAX) {
		mlperf_engine_destroy(e);
		return bench_fail("a batch of %u needs %u reads: too many", job->batch, room);
	}
	for (uint32_t i = 0; i < readers; i++) {
		struct reader *r = &e->readers[i];

		r->owner = &e->acc[i / job->readers];
		r->group = (struct target_group){ .io = e->ios + (size_t)i * room,
						  .room = room,
						  .user = r };
		r->place.next_sample = UINT64_MAX;
	}
	for (uint32_t i = 0; i < job->accelerators; i++) {
		e->acc[i].readers = e->readers + (size_t)i * job->readers;
		e->acc[i].ready_ns = e->ready_ns + (size_t)i * job->readers * job->prefetch;
	}
	*out = e;
	return 0;
}

void mlperf_engine_destroy(struct mlperf_engine *e)
{
	if (!e)
		return;
	ASSERT(e->in_flight == 0);
	mlperf_order_destroy(&e->order);
	free(e->ready_ns);
	free(e->ios);
	free(e->readers);
	free(e);
}

static void add_ready(struct mlperf_engine *e, struct accelerator *a)
{
	const uint32_t size = e->job.readers * e->job.prefetch;

	a->ready_ns[(a->ready_first + a->ready) % size] = e->now_ns;
	a->reading--;
	a->ready++;
}

/* Takes the oldest batch; returns when it came. */
static uint64_t take_ready(const struct mlperf_engine *e, struct accelerator *a)
{
	uint64_t came_ns = a->ready_ns[a->ready_first];

	a->ready_first = (a->ready_first + 1) % (e->job.readers * e->job.prefetch);
	a->ready--;
	return came_ns;
}

/* Groups that came back. */
static void reap(struct mlperf_engine *e)
{
	struct target_group *g;

	while ((g = target_reap(e->job.session))) {
		struct reader *r = g->user;

		ASSERT(r->busy && r->owner->reading > 0);
		r->busy = false;
		add_ready(e, r->owner);
		e->in_flight--;
		for (uint32_t i = 0; i < g->count; i++) {
			e->bytes += g->io[i].got_bytes;
			if (g->io[i].status && !e->failed)
				e->failed = g->io[i].status;
		}
	}
	e->stopped |= e->failed != 0;
}

/* Readers that may go on do. */
static void read_ahead(struct mlperf_engine *e, struct accelerator *a)
{
	const struct mlperf_job *job = &e->job;

	for (uint32_t i = 0; i < job->readers && !e->stopped; i++) {
		struct reader *r = &a->readers[i];

		if (a->asked == job->steps || a->ready + a->reading >= job->readers * job->prefetch)
			return;
		if (r->busy)
			continue;
		mlperf_next_batch(&e->order, &r->place, job->batch, &r->group);
		ASSERT(!r->busy); /* (2) */
		r->busy = true;
		a->reading++;
		a->asked++;
		ASSERT(a->ready + a->reading <= job->readers * job->prefetch); /* (1) */
		e->in_flight++;
		target_submit(job->session, &r->group);
	}
}

static void end_step(struct mlperf_engine *e, struct accelerator *a)
{
	a->steps++;
	a->last_end_ns = a->until_ns;
	if (a->steps == e->job.skip_steps)
		a->first_end_ns = a->until_ns;
	a->at = a->steps == e->job.steps ? DONE : WAITING;
	e->done_count += a->at == DONE;
}

/* One accelerator, as far as it comes at `now_ns`. */
static void advance(struct mlperf_engine *e, struct accelerator *a, uint64_t now_ns)
{
	if (a->at == COMPUTING && a->until_ns <= now_ns)
		end_step(e, a);
	if (a->at == WAITING && a->ready > 0) {
		/* At once: a turn that comes late makes no step longer. */
		a->until_ns = max_u64(a->last_end_ns, take_ready(e, a)) + e->job.compute_ns;
		a->at = COMPUTING;
	}
}

uint64_t mlperf_turn(struct mlperf_engine *e, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	if (e->start_ns == 0)
		e->start_ns = now_ns;
	e->now_ns = now_ns;
	reap(e);
	for (uint32_t i = 0; i < e->job.accelerators; i++) {
		struct accelerator *a = &e->acc[i];

		advance(e, a, now_ns);
		read_ahead(e, a);
		if (a->at == COMPUTING)
			next_ns = min_u64(next_ns, a->until_ns);
	}
	if (e->done_count == e->job.accelerators || (e->stopped && e->in_flight == 0))
		return 0;
	return next_ns;
}

void mlperf_stop(struct mlperf_engine *e)
{
	e->stopped = true;
}

int mlperf_failed(const struct mlperf_engine *e)
{
	return e->failed;
}

/* Returns an accelerator's time of computing over that of running, without its first steps. */
static double utilisation(const struct mlperf_engine *e, const struct accelerator *a)
{
	const uint64_t end_ns = a->at == DONE ? a->last_end_ns : e->now_ns;

	if (a->steps <= e->job.skip_steps || end_ns <= a->first_end_ns)
		return 0;
	return (double)((a->steps - e->job.skip_steps) * e->job.compute_ns) /
	       (double)(end_ns - a->first_end_ns);
}

void mlperf_engine_figures(const struct mlperf_engine *e, struct mlperf_figures *out)
{
	double seconds;

	*out = (struct mlperf_figures){ .ns = e->now_ns - e->start_ns };
	for (uint32_t i = 0; i < e->job.accelerators; i++) {
		out->au += utilisation(e, &e->acc[i]) / e->job.accelerators;
		out->steps += e->acc[i].steps;
	}
	out->samples = out->steps * e->job.batch;
	seconds = (double)out->ns / 1e9;
	out->samples_per_s = seconds > 0 ? (double)out->samples / seconds : 0;
	out->bytes_per_s = seconds > 0 ? (double)e->bytes / seconds : 0;
}
