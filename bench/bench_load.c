/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loop:
 *
 *        +---------> submit ---------+
 *        |                           v
 *   again, until            in the client's hands
 *   time is up                       |
 *        |                           v
 *        +---- finish <---- reap ----+      nothing there: weka_wait()
 *
 * With `pause` it works in waves instead: submit `depth`, reap all, stop the clock, pause,
 * continue.  So the time does not include pause(), and nothing is in flight during it.
 *
 * The clock is read once for each reap that found something: a request's time is counted from the
 * reap before its submit to the reap that returned it.
 */
#include "bench/bench_load.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REAP_MAX 64
#define WAIT_NS  (30 * NS_PER_S)

struct bench_load {
	struct weka_client *client;
	const struct bench_load_ops *ops;
	void *ctx;
	uint32_t depth;
	uint32_t in_flight;
	bool drained;     /* submit said that nothing is left */
	uint64_t end_ns;  /* of the run                       */
	uint64_t last_ns; /* when the last one counted ended  */
	struct bench_slot slot[];
};

int bench_load_create(struct bench_load **out, struct weka_client *client, uint32_t depth,
		      uint64_t window_bytes, const struct bench_load_ops *ops, void *ctx)
{
	struct bench_load *l = calloc(1, sizeof(*l) + depth * sizeof(l->slot[0]));
	int err;

	*out = l;
	if (!l)
		return bench_fail("out of memory");
	l->client = client;
	l->ops = ops;
	l->ctx = ctx;
	for (uint32_t i = 0; i < depth; i++) {
		struct bench_slot *s = &l->slot[i];

		s->index = i;
		s->req.user = s;
		l->depth = i + 1;
		if (window_bytes == 0)
			continue;
		err = weka_lease(client, window_bytes, &s->window.lease);
		if (err)
			return bench_fail("no buffer of %llu bytes: %s",
					  (unsigned long long)window_bytes, strerror(-err));
		s->window.size_bytes = align_down(window_bytes, WEKA_BLOCK);
		memset(s->window.lease->data, 0, window_bytes); /* its pages are there now */
	}
	return 0;
}

void bench_load_destroy(struct bench_load *l)
{
	/* After a failure the client still knows the requests: they stay until the program ends. */
	if (!l || l->in_flight > 0)
		return;
	for (uint32_t i = 0; i < l->depth; i++)
		if (l->slot[i].window.lease)
			weka_release(l->client, l->slot[i].window.lease);
	free(l);
}

static int submit(struct bench_load *l, struct bench_slot *s, uint64_t now)
{
	int err = l->ops->submit(l->ctx, l->client, s);

	if (err == BENCH_LOAD_SUBMITTED) {
		s->began_ns = now;
		l->in_flight++;
		return 0;
	}
	if (err == BENCH_LOAD_LATER) {
		ASSERT(l->in_flight > 0); /* else nothing comes back */
		s->waits = true;
		return 0;
	}
	l->drained = err == BENCH_LOAD_NO_MORE;
	return l->drained ? 0 : 1;
}

static int submit_all(struct bench_load *l, uint64_t now)
{
	int err = 0;

	for (uint32_t i = 0; !err && !l->drained && i < l->depth; i++) {
		l->slot[i].waits = false;
		err = submit(l, &l->slot[i], now);
	}
	return err;
}

/* A slot that is free, and those that wait. */
static int submit_again(struct bench_load *l, struct bench_slot *free, uint64_t now)
{
	int err = submit(l, free, now);

	for (uint32_t i = 0; !err && !l->drained && i < l->depth; i++) {
		if (!l->slot[i].waits || &l->slot[i] == free)
			continue;
		l->slot[i].waits = false;
		err = submit(l, &l->slot[i], now);
	}
	return err;
}

/* A request has come back at `now`. */
static int turn(struct bench_load *l, struct weka_req *req, uint64_t now, struct bench_run *run)
{
	struct bench_run not_counted = { 0 };
	struct bench_slot *s = req->user;
	bool count = now <= l->end_ns;
	int err;

	ASSERT(s == &l->slot[s->index] && l->in_flight > 0);
	l->in_flight--;
	if (req->status)
		return bench_fail("%s: %s", l->ops->what, strerror(-req->status));
	err = l->ops->finish(l->ctx, s, count ? run : &not_counted);
	if (err || !count)
		return err;
	l->last_ns = now;
	if (run->hist)
		stat_hist_record(run->hist, now - s->began_ns);
	if (l->drained || l->ops->pause)
		return 0;
	s->waits = false;
	return submit_again(l, s, now);
}

/* Reaps all requests in flight, and those that are submitted again meanwhile. */
static int reap_all(struct bench_load *l, struct bench_run *run)
{
	struct weka_req *done[REAP_MAX];

	while (l->in_flight > 0) {
		int count = weka_reap(l->client, done, REAP_MAX), err = 0;
		uint64_t now;

		if (bench_interrupted())
			return bench_fail("interrupted");
		if (count == 0)
			err = weka_wait(l->client, WAIT_NS);
		if (count < 0 || (err && err != -EINTR))
			return bench_fail("%s: %s", l->ops->what, weka_error(l->client));
		if (count == 0)
			continue;
		now = clock_now_ns();
		for (int i = 0; i < count; i++)
			if (turn(l, done[i], now, run))
				return 1;
	}
	return 0;
}

int bench_load_run(void *load, double seconds, struct bench_run *run)
{
	struct bench_load *l = load;
	uint64_t start = clock_now_ns(), now = start;
	int err;

	ASSERT(l->in_flight == 0);
	l->drained = false;
	l->end_ns = start + (uint64_t)(seconds * 1e9);
	do {
		l->last_ns = now;
		err = submit_all(l, now);
		if (!err)
			err = reap_all(l, run);
		run->ns += l->last_ns - now;
		if (!err && l->ops->pause)
			err = l->ops->pause(l->ctx, l->slot, l->depth);
		now = clock_now_ns();
	} while (!err && l->ops->pause && !l->drained && now < l->end_ns);
	return err;
}
