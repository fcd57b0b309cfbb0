/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One directory that grows to --files names, measured at each power of ten on the way:
 *
 *   1,000 names -> create 9,000 -> 10,000 names -> create 90,000 -> ...
 *     |                              |
 *     stat, read, list, rename, unlink: --seconds each, names in random order
 *
 * A row is a rate, and how much the appliance's drives read for one operation, in pages of the
 * index and in bytes of all kinds: from its counters, before and after.  With --vs the same phases
 * by system calls in a local directory follow, up to LOCAL_FILES_MAX.
 *
 *  (1) Between two phases exactly the files 0 .. n - 1 exist (bench_scale_load.c) [e2e_names].
 *  (2) So a run that ended can be continued (--prefix): n is found by binary search.
 *      If it was killed, some of the last batches below n may be missing: they are made again
 *      [e2e_names:again].
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"
#include "bench/bench_scale.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST           1000u
#define LOCAL_FILES_MAX 1000000u /* a local file system's caches are the machine's memory */

const char *const scale_phase_name[SCALE_PHASES] = { "create", "stat",   "read",
						     "list",   "rename", "unlink" };

struct scale {
	const struct bench_conf *conf;
	struct bench_env *env;
	char path[64];
	uint64_t dir;
	uint64_t files;  /* that are there                     */
	uint32_t phases; /* bits: those that are wanted */
	struct scale_worker *worker;
	struct scale_local *local[BENCH_VS_MAX];
};

/* A thread's share of a phase. */
struct share {
	struct scale_worker *worker;
	enum scale_phase phase;
	double seconds;
	struct bench_run run;
	int err;
	pthread_t thread;
};

/* From the appliance's counters. */
struct seen {
	uint64_t pages; /* of the index                */
	uint64_t bytes; /* read from drives, all in all */
};

void scale_name(char out[SCALE_NAME_STRIDE], char first, uint64_t number)
{
	out[0] = first; /* it is in the time: several times as fast as snprintf() */
	for (uint32_t i = SCALE_NAME_BYTES - 1; i > 0; i--, number /= 10)
		out[i] = (char)('0' + number % 10);
	out[SCALE_NAME_BYTES] = '\0';
}

uint64_t scale_size(const struct bench_conf *conf, uint64_t number)
{
	const uint64_t kinds = conf->size_bytes - conf->least_bytes + 1;

	return conf->least_bytes + (number * 0x9e3779b97f4a7c15u >> 32) % kinds;
}

/* ---- counters, rows ------------------------------------------------------------------------- */

static int look(struct scale *s, struct seen *out)
{
	char *text;

	if (weka_status(s->worker[0].client, &text))
		return bench_fail("status: %s", weka_error(s->worker[0].client));
	out->pages = bench_field(text, "\"page_reads\":");
	out->bytes = bench_field(text, "\"drive_read\":");
	free(text);
	return 0;
}

static void tell(const struct scale *s, const char *where, enum scale_phase phase, uint64_t files,
		 const struct bench_run *run, const struct seen *was, const struct seen *is)
{
	const double ops = (double)max_u64(run->ops, 1);
	const double pages = was ? (double)(is->pages - was->pages) / ops : 0;
	const double bytes = was ? (double)(is->bytes - was->bytes) / ops : 0;
	char names[16], rate[16];

	bench_human(names, (double)files);
	bench_human(rate, bench_rate(run));
	if (s->conf->json)
		printf("{\"workload\":\"names\",\"files\":%llu,\"phase\":\"%s\","
		       "\"transport\":\"%s\",\"threads\":%u,\"ops\":%llu,\"ops_per_s\":%.0f,"
		       "\"pages_per_op\":%.4f,\"drive_bytes_per_op\":%.1f}\n",
		       (unsigned long long)files, scale_phase_name[phase], where,
		       was ? s->conf->threads : 1, (unsigned long long)run->ops, bench_rate(run),
		       pages, bytes);
	else if (was)
		printf("%10s names  %-7s %10s/s   %8.4f pages, %8.1f bytes read for one\n", names,
		       scale_phase_name[phase], rate, pages, bytes);
	else
		printf("%10s names  %-7s %10s/s   %s\n", names, scale_phase_name[phase], rate,
		       where);
	fflush(stdout);
}

/* ---- a phase: all threads, then whatever is compared ---------------------------------------- */

static void *run_share(void *arg)
{
	struct share *h = arg;

	h->err = scale_load_run(h->worker, h->phase, h->seconds, &h->run);
	return NULL;
}

/* All begin at once; the time is the longest one's. */
static int run_all(struct scale *s, enum scale_phase phase, double seconds, struct bench_run *run)
{
	const uint32_t n = s->conf->threads;
	struct share *share = calloc(n, sizeof(*share));
	uint32_t started = 0;
	int err = share ? 0 : bench_fail("out of memory");

	for (uint32_t i = 0; !err && i < n; i++) {
		share[i] = (struct share){ &s->worker[i], phase, seconds, { 0 }, 0, 0 };
		if (n == 1)
			run_share(&share[0]); /* in the thread that is pinned */
		else if (pthread_create(&share[i].thread, NULL, run_share, &share[i]))
			err = bench_fail("cannot make a thread");
		started += !err;
	}
	for (uint32_t i = 0; i < started; i++) {
		if (n > 1)
			pthread_join(share[i].thread, NULL);
		err |= share[i].err;
		run->ops += share[i].run.ops;
		run->ns = max_u64(run->ns, share[i].run.ns);
	}
	free(share);
	return err;
}

static int measure(struct scale *s, enum scale_phase phase, double seconds)
{
	struct bench_run run = { 0 };
	struct seen was, is;
	int err;

	if (look(s, &was) || run_all(s, phase, seconds, &run) || look(s, &is))
		return 1;
	for (uint32_t i = 0; i < s->conf->threads; i++) {
		err = scale_load_put_right(&s->worker[i], phase);
		if (err)
			return err;
	}
	tell(s, bench_env_transport(s->env, 0), phase, s->files, &run, &was, &is);
	return 0;
}

static int measure_local(struct scale *s, enum scale_phase phase, double seconds)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < s->conf->vs_count && s->files <= LOCAL_FILES_MAX; i++) {
		struct bench_run run = { 0 };

		err = scale_local_run(s->local[i], phase, s->files, seconds, &run);
		if (!err && run.ops)
			tell(s, scale_local_name(s->local[i]), phase, s->files, &run, NULL, NULL);
	}
	return err;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Creates files until there are n names. */
static int grow_to(struct scale *s, uint64_t n)
{
	const uint64_t was = s->files;
	int err = 0;

	for (uint32_t i = 0; i < s->conf->threads; i++) {
		s->worker[i].next = scale_mine(&s->worker[i], was);
		s->worker[i].end = scale_mine(&s->worker[i], n);
		s->worker[i].files = max_u64(was, n);
	}
	if (was < n) {
		s->files = n;
		err = measure(s, SCALE_CREATE, BENCH_LOAD_ALL);
	}
	return err ? err : measure_local(s, SCALE_CREATE, BENCH_LOAD_ALL);
}

static int measure_at(struct scale *s, uint64_t n)
{
	int err = grow_to(s, n);

	for (uint32_t phase = SCALE_STAT; !err && phase < SCALE_PHASES; phase++) {
		if (!(s->phases & 1u << phase))
			continue;
		for (uint32_t i = 0; i < s->conf->threads; i++)
			scale_load_rewind(&s->worker[i], phase);
		err = measure(s, phase, s->conf->seconds);
		if (!err)
			err = measure_local(s, phase, s->conf->seconds);
	}
	return err;
}

static int choose_phases(struct scale *s)
{
	const char *at = s->conf->phases ? s->conf->phases : "stat,read,list,rename,unlink";

	while (*at) {
		const size_t len = strcspn(at, ",");
		uint32_t phase = 0;

		while (phase < SCALE_PHASES && (strlen(scale_phase_name[phase]) != len ||
						strncmp(at, scale_phase_name[phase], len) != 0))
			phase++;
		if (phase == SCALE_PHASES)
			return bench_fail(
				"--phases: '%.*s' is not one of create, stat, read, list, "
				"rename, unlink",
				(int)len, at);
		s->phases |= 1u << phase;
		at += len + (at[len] == ',');
	}
	return 0;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static bool is_there(struct scale *s, uint64_t number)
{
	char name[SCALE_NAME_STRIDE], path[sizeof(s->path) + SCALE_NAME_STRIDE + 1];
	struct weka_attr attr;

	scale_name(name, 'f', number);
	snprintf(path, sizeof(path), "%s/%s", s->path, name);
	return weka_stat(s->worker[0].client, path, &attr) == 0;
}

/* (2): of the last batches some may be missing: the first of them. */
static void count_files(struct scale *s)
{
	const uint64_t late = (uint64_t)s->conf->threads * s->conf->depth * s->conf->batch;
	uint64_t low = 0, high = s->conf->files, first;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (is_there(s, mid))
			low = mid + 1;
		else
			high = mid;
	}
	first = low - min_u64(low, late);
	while (first < low && is_there(s, first))
		first++;
	s->files = first;
	for (uint32_t i = 0; i < s->conf->threads; i++)
		s->worker[i].again = first == low ? 0 : low + late;
}

static int open_dir(struct scale *s)
{
	const char *prefix = s->conf->prefix[0] ? s->conf->prefix : "/weka-bench.names";
	struct weka_attr attr;
	int err;

	if (snprintf(s->path, sizeof(s->path), "%s", prefix) >= (int)sizeof(s->path))
		return bench_fail("--prefix: at most %zu bytes", sizeof(s->path) - 1);
	err = weka_mkdir(s->worker[0].client, s->path, 0700);
	if (err == -EEXIST && s->conf->prefix[0])
		err = 0;
	if (err || weka_stat(s->worker[0].client, s->path, &attr) != 0)
		return bench_fail("%s: %s", s->path, weka_error(s->worker[0].client));
	s->dir = attr.dir;
	count_files(s);
	if (s->files && !s->conf->json)
		printf("%s has %llu names: going on\n", s->path, (unsigned long long)s->files);
	return 0;
}

static int open_workers(struct scale *s)
{
	struct weka_options o;
	int err = 0;

	scale_load_options(s->conf, &o);
	for (uint32_t i = 0; !err && i < s->conf->threads; i++) {
		s->worker[i].conf = s->conf;
		s->worker[i].index = i;
		s->worker[i].workers = s->conf->threads;
		s->worker[i].listings = 1;
		err = bench_env_connect(s->env, 0, &o, &s->worker[i].client);
		if (!err)
			err = scale_load_open(&s->worker[i]);
	}
	return err;
}

static int open_scale(struct scale *s)
{
	int err = bench_env_open(&s->env, s->conf);

	if (s->conf->threads == 1)
		bench_pin(s->conf->core_client);
	s->worker = calloc(s->conf->threads, sizeof(*s->worker));
	if (!err && !s->worker)
		err = bench_fail("out of memory");
	if (!err)
		err = open_workers(s);
	if (!err)
		err = open_dir(s);
	for (uint32_t i = 0; !err && i < s->conf->threads; i++) {
		memcpy(s->worker[i].path, s->path, sizeof(s->path));
		s->worker[i].dir = s->dir;
	}
	for (uint32_t i = 0; !err && i < s->conf->vs_count; i++)
		err = scale_local_open(&s->local[i], s->conf->vs_dirs[i], s->conf);
	return err;
}

/* The names stay where they are, for the next run; our own appliance's go with it. */
static int close_scale(struct scale *s, int err)
{
	for (uint32_t i = 0; s->worker && i < s->conf->threads; i++)
		scale_load_close(&s->worker[i]);
	for (uint32_t i = 0; i < s->conf->vs_count; i++)
		scale_local_close(s->local[i]);
	err |= bench_env_close(s->env);
	free(s->worker);
	free(s);
	return err;
}

int bench_workload_names(const struct bench_conf *conf)
{
	struct scale *s = calloc(1, sizeof(*s));
	uint64_t n = FIRST;
	int err;

	if (!s)
		return bench_fail("out of memory");
	s->conf = conf;
	err = choose_phases(s);
	if (err) {
		free(s);
		return err;
	}
	err = open_scale(s);
	while (!err && n <= s->files) /* was measured by the run before */
		n *= 10;
	for (; !err && n < conf->files; n *= 10)
		err = measure_at(s, n);
	if (!err)
		err = measure_at(s, conf->files);
	return close_scale(s, err);
}
