/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads that begin when they are due, whether or not earlier ones have ended:
 *
 *   due     |     |     |     |     |     |        1 / rate apart
 *   begun   |     |     |     |....................| all slots are in use: it begins late
 *   took    ---      ---------------------------------     ... and that counts
 *
 * A reader that waited for its answer before it asked again would ask least when answers are
 * slowest, and hide the delays that it measures.
 *
 * On a processor shared with the writers' client the thread has the higher priority, where the
 * system allows that: it mostly sleeps, and its wait for the processor is not the appliance's.
 *
 *  (1) A read's time is counted from when it was due until its answer was reaped.
 *  (2) The client and the readers belong to the thread from begin to end; no other thread uses
 *      them.
 */
#define _GNU_SOURCE
#include "bench/bench_readers.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH   BENCH_READERS_DEPTH
#define WAIT_NS (30 * NS_PER_S)
#define URGENCY 2 /* a real-time priority: above the lowest one, which our caller may have */

struct read {
	struct weka_req req;
	struct weka_window window;
	struct weka_read_item item;
	uint64_t due_ns;
	uint32_t file;
	bool busy;
	char path[BENCH_CHURN_PATH_MOST];
};

struct bench_readers {
	struct bench_churn_conf files;
	struct weka_client *client;
	int core;
	uint64_t gap_ns, due_ns;
	struct stat_hist *reads;
	struct read read[DEPTH];
	uint32_t in_flight;
	struct rand_state rand;
	pthread_t thread;
	bool runs; /* the thread */
	_Atomic bool stop;
	bool urgent;
	int err;
};

static uint64_t window_bytes(void)
{
	return weka_window_bytes(1, BENCH_CHURN_MOST);
}

void bench_readers_options(struct weka_options *o)
{
	*o = (struct weka_options){ .size_bytes = sizeof(*o) };
	o->requests_max = DEPTH;
	o->batches_max = DEPTH;
	o->pool_bytes = DEPTH * (window_bytes() + (64u << 10)) + (4u << 20);
}

/* ---- a read ------------------------------------------------------------------------------- */

static struct read *idle(struct bench_readers *r)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (!r->read[i].busy)
			return &r->read[i];
	return NULL;
}

static int submit(struct bench_readers *r, struct read *x)
{
	int err;

	x->file = (uint32_t)rand_below(&r->rand, (uint64_t)r->files.dirs * r->files.dir_files);
	bench_churn_file_path(&r->files, x->file, x->path);
	x->item = (struct weka_read_item){ .ref = weka_ref_path(x->path),
					   .length_bytes = WEKA_TO_END };
	x->due_ns = r->due_ns;
	ASSERT(x->due_ns <= clock_now_ns()); /* (1) */
	r->due_ns += r->gap_ns;
	err = weka_submit_read_batch(r->client, &x->req, &x->item, 1, &x->window);
	if (err)
		return bench_fail("read %s: %s", x->path, strerror(-err));
	x->busy = true;
	r->in_flight++;
	return 0;
}

static int submit_due(struct bench_readers *r, uint64_t now)
{
	struct read *x;
	int err = 0;

	while (!err && r->due_ns <= now && (x = idle(r)))
		err = submit(r, x);
	return err;
}

/* A file that is not there is being replaced. */
static int finish(struct bench_readers *r, struct read *x, uint64_t now)
{
	const int status = x->req.status ? x->req.status : x->item.status;
	uint64_t version;

	x->busy = false;
	r->in_flight--;
	stat_hist_record(r->reads, now - x->due_ns); /* (1) */
	if (status == -ENOENT)
		return 0;
	if (status || !bench_churn_is_file(&x->item, x->file, &version))
		return bench_fail("read %s: %s", x->path, strerror(status ? -status : EIO));
	return 0;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static bool is_stopped(const struct bench_readers *r)
{
	return atomic_load_explicit(&r->stop, memory_order_relaxed);
}

/* Until something has come back or the next one is due. */
static int rest(struct bench_readers *r, uint64_t now)
{
	const bool may_begin = !is_stopped(r) && r->in_flight < DEPTH;
	const uint64_t until = r->due_ns > now ? r->due_ns - now : 0;
	const struct timespec a_while = { .tv_nsec = (long)min_u64(until, NS_PER_S / 100) };
	int err = -ENOENT;

	if (r->in_flight)
		err = weka_wait(r->client, may_begin ? until : WAIT_NS);
	else if (may_begin)
		(void)nanosleep(&a_while, NULL);
	return err == -ENOENT || err == -EINTR || (err == -ETIMEDOUT && may_begin) ? 0 : err;
}

static int turn(struct bench_readers *r)
{
	struct weka_req *done[DEPTH];
	uint64_t now = clock_now_ns();
	int err = is_stopped(r) ? 0 : submit_due(r, now);
	int count = err ? 0 : weka_reap(r->client, done, DEPTH);

	now = clock_now_ns();
	if (err == 0 && count == 0)
		err = rest(r, now);
	if (err < 0 || count < 0)
		return bench_fail("reading: %s", weka_error(r->client));
	for (int i = 0; i < count && !err; i++)
		err = finish(r, done[i]->user, now);
	return bench_interrupted() ? bench_fail("interrupted") : err;
}

static void *thread_main(void *ctx)
{
	const struct sched_param urgency = { .sched_priority = URGENCY };
	struct bench_readers *r = ctx;

	bench_pin(r->core);
	r->urgent = pthread_setschedparam(pthread_self(), SCHED_RR, &urgency) == 0;
	r->due_ns = clock_now_ns();
	while (!r->err && (!is_stopped(r) || r->in_flight))
		r->err = turn(r);
	return NULL;
}

int bench_readers_begin(struct bench_readers *r, struct stat_hist *reads)
{
	int err;

	ASSERT(!r->runs); /* (2) */
	r->reads = reads;
	r->err = 0;
	atomic_store_explicit(&r->stop, false, memory_order_relaxed);
	err = pthread_create(&r->thread, NULL, thread_main, r);
	r->runs = err == 0;
	return err ? bench_fail("no thread: %s", strerror(err)) : 0;
}

int bench_readers_end(struct bench_readers *r)
{
	ASSERT(r->runs);
	atomic_store_explicit(&r->stop, true, memory_order_relaxed);
	pthread_join(r->thread, NULL);
	r->runs = false;
	return r->err;
}

bool bench_readers_are_urgent(const struct bench_readers *r)
{
	return r->urgent;
}

/* ---- beginning and end --------------------------------------------------------------------- */

int bench_readers_create(struct bench_readers **out, struct weka_client *client,
			 const struct bench_churn_conf *files, uint32_t rate, int core)
{
	struct bench_readers *r = calloc(1, sizeof(*r));
	int err = 0;

	*out = r;
	if (!r)
		return bench_fail("out of memory");
	ASSERT(rate > 0);
	r->files = *files;
	r->client = client;
	r->core = core;
	r->gap_ns = NS_PER_S / rate;
	rand_seed(&r->rand, 11);
	for (uint32_t i = 0; i < DEPTH && !err; i++) {
		struct read *x = &r->read[i];

		x->req.user = x;
		err = weka_lease(client, window_bytes(), &x->window.lease);
		if (err)
			return bench_fail("no buffer for reads: %s", strerror(-err));
		x->window.size_bytes = align_down(window_bytes(), WEKA_BLOCK);
		memset(x->window.lease->data, 0, window_bytes());
	}
	return 0;
}

void bench_readers_destroy(struct bench_readers *r)
{
	/* After a failure the client still knows the requests: they stay until the program ends. */
	if (!r || r->in_flight > 0)
		return;
	ASSERT(!r->runs); /* (2) */
	for (uint32_t i = 0; i < DEPTH; i++)
		if (r->read[i].window.lease)
			weka_release(r->client, r->read[i].window.lease);
	free(r);
}
