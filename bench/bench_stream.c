/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Workload stream: epochs of a dataset of small files, by an epoch stream of libweka-client; beside
 * the bare pipeline of the same bytes.
 *
 * Each file begins with its own number, so that a sample that comes under another's number is
 * noticed.  The appliance's order is known before, which MLPerf Storage's rule 6.3 forbids: figures
 * of this workload are not MLPerf's.
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/stat.h"
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_STRIDE 16
#define FILL_DEPTH  4u
#define FILL_BATCH  256u
#define SET         "weka-bench"
#define DIR_NAME    "/weka-bench-stream"

struct fill_batch {
	uint32_t count;
	struct weka_put_item put[FILL_BATCH];
	char name[FILL_BATCH][NAME_STRIDE];
};

struct stream {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct weka_client *client;
	struct weka_dataset *dataset;
	struct weka_stream *stream;
	struct bench_pipe *pipe;
	struct fill_batch *batch;
	uint64_t next; /* file to be written */
	uint64_t epoch;
	uint32_t fill_batch;
	uint64_t dir;
};

/* ---- the files --------------------------------------------------------------------------- */

static uint64_t stride_of(const struct stream *s)
{
	return align_up(s->conf->size_bytes, 64);
}

static int submit_put(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct stream *s = ctx;
	struct fill_batch *b = &s->batch[slot->index];
	uint8_t *data = slot->window.lease->data;
	int err;

	if (s->next == s->conf->files)
		return BENCH_LOAD_NO_MORE;
	b->count = (uint32_t)min_u64(s->fill_batch, s->conf->files - s->next);
	for (uint32_t i = 0; i < b->count; i++) {
		const uint64_t number = s->next + i, at = i * stride_of(s);

		snprintf(b->name[i], NAME_STRIDE, "f%012llu", (unsigned long long)number);
		memcpy(data + at, &number, min_u64(sizeof(number), s->conf->size_bytes));
		b->put[i] = (struct weka_put_item){
			.ref = weka_ref_in(s->dir, b->name[i]),
			.create = { .mode = 0600 },
			.window_at = (uint32_t)at,
			.size_bytes = (uint32_t)s->conf->size_bytes,
		};
	}
	err = weka_submit_put(client, &slot->req, b->put, b->count, &slot->window);
	if (err)
		return bench_fail("put in " DIR_NAME ": %s", strerror(-err));
	s->next += b->count;
	return BENCH_LOAD_SUBMITTED;
}

static int finish_put(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	const struct stream *s = ctx;
	const struct fill_batch *b = &s->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++)
		if (b->put[i].status)
			return bench_fail("put: %s", strerror(-b->put[i].status));
	run->ops += b->count;
	return 0;
}

static int fill(struct stream *s)
{
	static const struct bench_load_ops ops = { .submit = submit_put,
						   .finish = finish_put,
						   .what = "putting small files" };
	const struct weka_dataset_make quick = { .flags = WEKA_DATASET_QUICK };
	struct bench_load *load = NULL;
	struct bench_run run = { 0 };
	struct weka_attr attr;
	int err;

	(void)!weka_rmtree(s->client, DIR_NAME);
	if (weka_mkdir(s->client, DIR_NAME, 0700) || weka_stat(s->client, DIR_NAME, &attr))
		return bench_fail("%s", weka_error(s->client));
	s->dir = attr.dir;
	err = bench_load_create(&load, s->client, FILL_DEPTH,
				weka_window_bytes(s->fill_batch, s->conf->size_bytes), &ops, s);
	if (!err)
		err = bench_load_run(load, BENCH_LOAD_ALL, &run);
	bench_load_destroy(load);
	if (err)
		return err;
	if (weka_dataset_create(s->client, SET, DIR_NAME, &quick, NULL) ||
	    weka_dataset_open(s->client, SET, 0, &s->dataset))
		return bench_fail("%s", weka_error(s->client));
	return 0;
}

/* ---- the epochs -------------------------------------------------------------------------- */

/* A dataset's samples are in the order of their names, so sample i is file i. */
static int batch_check(const struct weka_batch *b, uint64_t size_bytes)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct weka_read_item *item = &b->items[i];
		uint64_t number;

		if (item->status || item->got_bytes != size_bytes)
			return bench_fail("sample %llu: status %d",
					  (unsigned long long)b->samples[i], item->status);
		if (size_bytes < sizeof(number))
			continue;
		memcpy(&number, item->data, sizeof(number));
		if (number != b->samples[i])
			return bench_fail("sample %llu has another's bytes",
					  (unsigned long long)b->samples[i]);
	}
	return 0;
}

static int epoch_open(struct stream *s)
{
	const struct weka_epoch epoch = {
		.seed = 1, .epoch = s->epoch++, .batch = s->conf->batch, .ahead = s->conf->depth
	};

	return weka_stream_open(s->client, s->dataset, &epoch, NULL, &s->stream);
}

/* The next batch, if need be of the next epoch. */
static int next_batch(struct stream *s, struct weka_batch **out)
{
	int rc = 0;

	while (rc == 0) {
		if (!s->stream)
			rc = epoch_open(s);
		if (rc == 0)
			rc = weka_stream_next(s->stream, out);
		if (rc == 0) {
			weka_stream_close(s->stream);
			s->stream = NULL;
		}
	}
	return rc == 1 ? 0 : bench_fail("%s", weka_error(s->client));
}

static int stream_run(void *ctx, double seconds, struct bench_run *run)
{
	struct stream *s = ctx;
	const uint64_t start = clock_now_ns(), until = start + (uint64_t)(seconds * 1e9);
	uint64_t now = start;

	while (now < until) {
		struct weka_batch *b;
		const uint64_t began = now;
		int err = next_batch(s, &b);

		if (!err)
			err = batch_check(b, s->conf->size_bytes);
		if (err)
			return err;
		run->ops += b->count;
		run->bytes += b->count * s->conf->size_bytes;
		if (weka_stream_release(s->stream, b))
			return bench_fail("%s", weka_error(s->client));
		now = clock_now_ns();
		if (run->hist)
			stat_hist_record(run->hist, now - began);
	}
	run->ns = now - start;
	return 0;
}

/* ---- the workload ------------------------------------------------------------------------ */

static int prepare(struct stream *s)
{
	const struct bench_conf *conf = s->conf;
	struct weka_options o = { .size_bytes = sizeof(o) };
	const uint64_t window = weka_window_bytes(conf->batch, conf->size_bytes);
	int err = bench_env_open(&s->env, conf);

	bench_pin(conf->core_client);
	if (err)
		return err;
	if (window == 0 || conf->batch > WEKA_STREAM_BATCH_MAX)
		return bench_fail("--batch times --size is too large");
	s->fill_batch = (uint32_t)max_u64(1, min_u64(FILL_BATCH, (16u << 20) / stride_of(s)));
	o.batches_max = max_u32(conf->depth + 2, FILL_DEPTH);
	o.requests_max = o.batches_max + 4;
	o.pool_bytes = (conf->depth + 3) * window + FILL_DEPTH * (20u << 20) + (8u << 20);
	err = bench_env_connect(s->env, 0, &o, &s->client);
	s->batch = calloc(FILL_DEPTH, sizeof(*s->batch));
	if (!err && !s->batch)
		err = bench_fail("out of memory");
	if (!err)
		err = fill(s);
	if (!err && bench_pipe_create(&s->pipe, conf->size_bytes,
				      min_u32(conf->depth * conf->batch, 1024), false, conf) != 0)
		err = bench_fail("no memory for the bare pipeline (2 GiB)");
	return err;
}

int bench_workload_stream(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct stream s = { .conf = conf };
	int err = prepare(&s);

	part[BENCH_WORK] = (struct bench_part){ stream_run, &s };
	part[BENCH_VS_PIPE] = (struct bench_part){ bench_pipe_run, s.pipe };
	part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, s.pipe };
	if (!err)
		err = bench_measure(conf, "stream", bench_env_transport(s.env, 0), part);
	weka_stream_close(s.stream);
	weka_dataset_close(s.dataset);
	if (s.client && (weka_dataset_drop(s.client, SET, 0) || weka_rmtree(s.client, DIR_NAME)) &&
	    !err)
		err = bench_fail("%s", weka_error(s.client));
	weka_close(s.client);
	bench_pipe_destroy(s.pipe);
	err |= bench_env_close(s.env);
	free(s.batch);
	return err;
}
