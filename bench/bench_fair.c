/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * fair: many sessions on one appliance, driven by one thread; and how much a hostile one takes from
 * them.
 *
 *   alone     each of the sessions has `depth` reads in flight, all the time
 *   flooder   ... beside one that asks for more than it can take: bench_flood.h
 *   deaf      ... beside --deaf clients (one) that ask for DEAF_DEPTH x 4 MiB each and never reap
 *
 * Over rdma the card takes the data that a deaf client asked for, so it is served once; --settle
 * lets that pass before the deaf run is measured.
 *
 * A session's share is its bytes over the mean of all sessions.  Latencies are those of all
 * sessions' reads, from submit to reap: with many in flight they mostly wait for each other.
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/bench_fair.h"
#include "bench/bench_flood.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES  (64ull << 20) /* unless --file-bytes says so */
#define PIECE_BYTES (1u << 20)
#define DEAF_DEPTH  32u
#define DEAF_BYTES  (4u << 20)
#define REAP_MAX    64u

enum run { ALONE, FLOODER, DEAF, RUNS };
static const char *const run_name[RUNS] = { "alone", "flooder", "deaf" };

struct one {
	struct weka_req req;
	struct weka_window window;
	uint64_t began_ns;
};

struct session {
	struct weka_client *client;
	struct one *one; /* depth */
	uint64_t done;   /* in this run */
};

struct fair {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct weka_client *maker;
	struct weka_client *deaf[BENCH_DEAF_MAX];
	struct bench_flood *flood;
	char path[64];
	struct weka_handle handle;
	uint64_t file_bytes;
	struct session *session;
	struct one *one; /* of all of them */
	struct rand_state rand;
	struct stat_hist hist;
	uint64_t now_ns, end_ns;
	uint32_t in_flight;
	uint64_t done[RUNS], p99_ns[RUNS];
	struct bench_flood_said said;
};

/* ---- the file, and the sessions -------------------------------------------------------------- */

static int make_file(struct fair *f)
{
	uint64_t *piece = malloc(PIECE_BYTES);
	struct weka_options o = { .size_bytes = sizeof(o) };
	struct weka_attr attr;
	int err;

	if (!piece)
		return bench_fail("out of memory");
	err = bench_env_connect(f->env, 0, &o, &f->maker);
	if (err)
		goto out;
	err = weka_open(f->maker, f->path, WEKA_CREATE | WEKA_EXCL, 0600, &attr);
	f->file_bytes =
		align_down(f->conf->file_bytes ? f->conf->file_bytes : FILE_BYTES, DEAF_BYTES);
	f->file_bytes = max_u64(f->file_bytes, DEAF_BYTES);
	for (uint64_t at = 0; !err && at < f->file_bytes; at += PIECE_BYTES) {
		for (uint32_t i = 0; i < PIECE_BYTES / sizeof(*piece); i++)
			piece[i] = rand_u64(&f->rand);
		if (weka_pwrite(f->maker, &attr.handle, piece, PIECE_BYTES, at) != PIECE_BYTES)
			err = -EIO;
	}
	f->handle = attr.handle;
	if (err)
		err = bench_fail("%s: %s", f->path, weka_error(f->maker));
out:
	free(piece);
	return err;
}

static int lease(struct weka_client *c, struct one *one, uint32_t count, uint32_t bytes)
{
	uint32_t window = weka_window_bytes(1, bytes);

	for (uint32_t i = 0; i < count; i++) {
		int err = weka_lease(c, window, &one[i].window.lease);

		one[i].window.size_bytes = window;
		one[i].req.user = &one[i];
		if (err)
			return bench_fail("no lease of %u bytes: %s", window, strerror(-err));
	}
	return 0;
}

static int open_sessions(struct fair *f)
{
	const struct bench_conf *c = f->conf;
	uint64_t window = weka_window_bytes(1, c->size_bytes);
	struct weka_options o = { .size_bytes = sizeof(o),
				  .requests_max = c->depth,
				  .pool_bytes = align_up(c->depth * window, 2u << 20) };
	int err = 0;

	f->session = calloc(c->sessions, sizeof(*f->session));
	f->one = calloc((size_t)c->sessions * c->depth, sizeof(*f->one));
	if (!f->session || !f->one)
		return bench_fail("out of memory");
	for (uint32_t i = 0; i < c->sessions && !err; i++) {
		struct session *s = &f->session[i];

		if (bench_interrupted())
			return bench_fail("interrupted");
		s->one = &f->one[(size_t)i * c->depth];
		err = bench_env_connect(f->env, 0, &o, &s->client);
		if (!err)
			err = lease(s->client, s->one, c->depth, (uint32_t)c->size_bytes);
	}
	return err;
}

/* Connects, asks, and never polls again. */
static int deaf_begin_one(struct fair *f, struct weka_client **client, struct one *one)
{
	uint64_t window = weka_window_bytes(1, DEAF_BYTES);
	struct weka_options o = { .size_bytes = sizeof(o), .pool_bytes = DEAF_DEPTH * window };
	int err = bench_env_connect(f->env, 0, &o, client);

	if (!err)
		err = lease(*client, one, DEAF_DEPTH, DEAF_BYTES);
	for (uint32_t i = 0; i < DEAF_DEPTH && !err; i++) {
		err = weka_submit_read(*client, &one[i].req, &f->handle,
				       i * (uint64_t)DEAF_BYTES % f->file_bytes, DEAF_BYTES,
				       &one[i].window);
		if (err)
			err = bench_fail("read: %s", strerror(-err));
	}
	if (!err)
		weka_flush(*client);
	return err;
}

static int deaf_begin(struct fair *f, struct one *one)
{
	int err = 0;

	for (uint32_t i = 0; i < f->conf->deaf && !err; i++)
		err = deaf_begin_one(f, &f->deaf[i], one + i * (size_t)DEAF_DEPTH);
	return err;
}

static void deaf_end(struct fair *f)
{
	for (uint32_t i = 0; i < f->conf->deaf; i++) {
		if (f->deaf[i])
			weka_close(f->deaf[i]);
		f->deaf[i] = NULL;
	}
}

/* ---- a run ---------------------------------------------------------------------------------- */

static int submit(struct fair *f, struct session *s, struct one *one)
{
	uint64_t bytes = f->conf->size_bytes;
	int err = weka_submit_read(s->client, &one->req, &f->handle,
				   rand_below(&f->rand, f->file_bytes / bytes) * bytes,
				   (uint32_t)bytes, &one->window);

	one->began_ns = f->now_ns;
	f->in_flight += !err;
	return err ? bench_fail("read %s: %s", f->path, strerror(-err)) : 0;
}

/* Reaps a session's completed reads, and submits each of them again. */
static int turn(struct fair *f, struct session *s)
{
	struct weka_req *done[REAP_MAX];
	int count = weka_reap(s->client, done, REAP_MAX), err = 0;

	if (count <= 0)
		return count ? bench_fail("%s", weka_error(s->client)) : 0;
	f->now_ns = clock_now_ns();
	for (int i = 0; i < count && !err; i++) {
		struct one *one = done[i]->user;

		f->in_flight--;
		if (one->req.status)
			return bench_fail("read %s: %s", f->path, weka_error(s->client));
		if (f->now_ns >= f->end_ns)
			continue;
		s->done++;
		stat_hist_record(&f->hist, f->now_ns - one->began_ns);
		err = submit(f, s, one);
	}
	weka_flush(s->client);
	return err;
}

static int drive(struct fair *f, double seconds)
{
	uint32_t sessions = f->conf->sessions;
	int err = 0;

	f->now_ns = clock_now_ns();
	f->end_ns = f->now_ns + (uint64_t)(seconds * 1e9);
	stat_hist_reset(&f->hist);
	for (uint32_t i = 0; i < sessions && !err; i++) {
		f->session[i].done = 0;
		for (uint32_t k = 0; k < f->conf->depth && !err; k++)
			err = submit(f, &f->session[i], &f->session[i].one[k]);
		weka_flush(f->session[i].client);
	}
	while (!err && f->in_flight > 0) {
		for (uint32_t i = 0; i < sessions && !err; i++)
			err = turn(f, &f->session[i]);
		if (bench_interrupted())
			f->end_ns = 0;
	}
	return err || bench_interrupted();
}

/* ---- output --------------------------------------------------------------------------------- */

static void tell_json(const struct fair *f, enum run run, const struct bench__shares *s)
{
	const struct bench_conf *c = f->conf;

	printf("{\"workload\":\"fair\",\"run\":\"%s\",\"transport\":\"%s\",\"sessions\":%u,"
	       "\"depth\":%u,\"size\":%llu,\"seconds\":%.1f,\"ops_per_s\":%.0f,\"mean_ops\":%.0f,"
	       "\"share_least\":%.4f,\"share_most\":%.4f,\"share_worst\":%.4f,\"p50_ns\":%llu,"
	       "\"p99_ns\":%llu",
	       run_name[run], bench_env_transport(f->env, 0), c->sessions, c->depth,
	       (unsigned long long)c->size_bytes, c->seconds, (double)s->all / c->seconds, s->mean,
	       s->least, s->most, s->worst, (unsigned long long)stat_hist_percentile(&f->hist, 50),
	       (unsigned long long)f->p99_ns[run]);
	if (run != ALONE)
		printf(",\"p99_of_alone\":%.3f,\"ops_of_alone\":%.3f",
		       (double)f->p99_ns[run] / (double)f->p99_ns[ALONE],
		       (double)s->all / (double)f->done[ALONE]);
	if (run == FLOODER)
		printf(",\"flood_reads\":%llu,\"flood_cancelled\":%llu,\"flood_cpu\":%.4f,"
		       "\"flood_kernel\":%.4f",
		       (unsigned long long)f->said.reads, (unsigned long long)f->said.cancelled,
		       (double)f->said.cpu_ns / (double)f->said.wall_ns,
		       (double)f->said.kernel_ns / (double)f->said.wall_ns);
	printf("}\n");
}

static void tell_people(const struct fair *f, enum run run, const struct bench__shares *s)
{
	const struct bench_conf *c = f->conf;
	char rate[16];

	printf("%-8s %-4s %u sessions x %u x %llu B  %s/s; shares of %.0f: %.3f to %.3f, worst "
	       "%.1f %% off; p50 %.0f us, p99 %.0f us",
	       run_name[run], bench_env_transport(f->env, 0), c->sessions, c->depth,
	       (unsigned long long)c->size_bytes, bench_human(rate, (double)s->all / c->seconds),
	       s->mean, s->least, s->most, 100 * s->worst,
	       (double)stat_hist_percentile(&f->hist, 50) / 1e3, (double)f->p99_ns[run] / 1e3);
	if (run != ALONE)
		printf(", %.2f of alone; %.2f of its rate",
		       (double)f->p99_ns[run] / (double)f->p99_ns[ALONE],
		       (double)s->all / (double)f->done[ALONE]);
	if (run == FLOODER)
		printf("; it asked for %llu x 4 MiB, cancelled %llu, used %.1f %% of a CPU and "
		       "%.1f %% of the kernel's",
		       (unsigned long long)f->said.reads, (unsigned long long)f->said.cancelled,
		       100 * (double)f->said.cpu_ns / (double)f->said.wall_ns,
		       100 * (double)f->said.kernel_ns / (double)f->said.wall_ns);
	printf("\n");
}

static int tell(struct fair *f, enum run run)
{
	uint64_t *had = calloc(f->conf->sessions, sizeof(*had));
	struct bench__shares s;

	if (!had)
		return bench_fail("out of memory");
	for (uint32_t i = 0; i < f->conf->sessions; i++)
		had[i] = f->session[i].done;
	bench__shares(had, f->conf->sessions, &s);
	free(had);
	f->done[run] = s.all;
	f->p99_ns[run] = stat_hist_percentile(&f->hist, 99);
	if (f->conf->json)
		tell_json(f, run, &s);
	else
		tell_people(f, run, &s);
	fflush(stdout);
	return 0;
}

/* ---- the workload --------------------------------------------------------------------------- */

static int measure(struct fair *f)
{
	int err = drive(f, f->conf->seconds < 1 ? f->conf->seconds : 1); /* to warm up */

	return err ? err : drive(f, f->conf->seconds);
}

static int round_of(struct fair *f)
{
	struct one *asked = calloc((size_t)f->conf->deaf * DEAF_DEPTH, sizeof(*asked));
	int err = asked ? measure(f) : bench_fail("out of memory");

	if (!err)
		err = tell(f, ALONE);
	if (!err)
		err = bench_flood_go(f->flood);
	if (err)
		goto out;
	err = measure(f);
	if (bench_flood_rest(f->flood, &f->said) || err || tell(f, FLOODER)) {
		err = 1;
		goto out;
	}
	err = deaf_begin(f, asked);
	if (!err && f->conf->settle)
		err = drive(f, f->conf->settle);
	if (!err) /* without a warm-up, in which those over tcp would have been ended */
		err = drive(f, f->conf->seconds);
	if (!err)
		err = tell(f, DEAF);
	deaf_end(f);
out:
	free(asked);
	return err;
}

static void close_all(struct fair *f)
{
	for (uint32_t i = 0; f->session && i < f->conf->sessions; i++)
		if (f->session[i].client)
			weka_close(f->session[i].client);
	if (f->maker) {
		(void)!weka_unlink(f->maker, f->path);
		weka_close(f->maker);
	}
	free(f->session);
	free(f->one);
}

int bench_workload_fair(const struct bench_conf *conf)
{
	struct fair *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return bench_fail("out of memory");
	f->conf = conf;
	rand_seed(&f->rand, 1);
	snprintf(f->path, sizeof(f->path), "/weka-bench.%d", (int)getpid());
	err = bench_env_open(&f->env, conf);
	if (!err)
		err = bench_flood_start(&f->flood, f->env, f->path);
	bench_pin(conf->core_client);
	if (!err)
		err = make_file(f);
	if (!err)
		err = open_sessions(f);
	for (uint32_t i = 0; i < conf->runs && !err; i++)
		err = round_of(f);
	if (!err)
		bench_env_tell_memory(f->env, f->maker, conf->json);
	close_all(f);
	bench_flood_end(f->flood);
	err |= bench_env_close(f->env);
	free(f);
	return err;
}
