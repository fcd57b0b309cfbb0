/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The cost of collection: an appliance is filled, stays equally full while its files come and go
 * (bench_churn.h), and says how much it wrote, by cause.
 *
 *   fill -> read alone -> replace, a slice -> a slice -> ... until --times the capacity -> verify
 *                              ^                 ^
 *                         nothing is moved    collection moves blocks
 *
 * It runs for each --fill once with files removed one by one, at random, and once with whole
 * directories.
 *
 * Write amplification is the bytes written to the drives over the payload of the puts, from the end
 * of the filling on: so it includes the padding to whole blocks.  The first slices find free space
 * and move nothing: so the last capacity is also reported alone.
 *
 * Reads of both kinds of slices are of one run, beside the same writers: their percentiles differ
 * only by collection.  Readers have a client and a thread of their own, and their reads begin when
 * they are due (bench_readers.c).
 *
 * How full the appliance is: blocks of files over the total of statfs, which excludes the space
 * that an appliance reserves for itself.  The appliance has no other files.
 *
 *  (1) The parts of write amplification are the appliance's own counters, and must add up to the
 *      bytes that the drives were given [e2e_collect].
 */
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_churn.h"
#include "bench/bench_env.h"
#include "bench/bench_readers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICES 20u /* a capacity */

#define FREED_WITHIN_NS (60 * NS_PER_S)

/* From the appliance's counters, since it began: bytes. */
struct seen {
	uint64_t data, pages, log, moved, all;
	uint64_t zones; /* collected: a count */
};

struct collect {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct weka_client *client;
	struct bench_churn *churn;
	struct weka_client *readers_client;
	struct bench_readers *readers;
	int readers_core;
	char path[64];
	bool made; /* the directory */
	uint32_t fill;
	bool whole_dirs;
	uint64_t capacity; /* bytes */
	uint64_t written;  /* payload */
	uint64_t late_at;  /* ... before the last capacity */
	uint64_t ns, before_ns, during_ns;
	struct seen first, late_first, last;
	struct stat_hist alone, before, during; /* reads: nobody writes; nothing moves; it does */
};

/* ---- counters ---------------------------------------------------------------------------- */

static int look(struct collect *t, struct seen *out)
{
	char *text;

	if (weka_status(t->client, &text))
		return bench_fail("status: %s", weka_error(t->client));
	out->data = bench_field(text, "\"data_blocks\":") * WEKA_BLOCK;
	out->pages = bench_field(text, "\"page_blocks\":") * WEKA_BLOCK;
	out->log = bench_field(text, "\"log_blocks\":") * WEKA_BLOCK;
	out->moved = bench_field(text, "\"moved_blocks\":") * WEKA_BLOCK;
	out->all = bench_field(text, "\"drive_written\":");
	out->zones = bench_field(text, "\"zones_collected\":");
	free(text);
	return 0;
}

static struct seen between(const struct seen *a, const struct seen *b)
{
	return (struct seen){
		.data = b->data - a->data,
		.pages = b->pages - a->pages,
		.log = b->log - a->log,
		.moved = b->moved - a->moved,
		.all = b->all - a->all,
		.zones = b->zones - a->zones,
	};
}

/* (1), except for bytes in flight while the counters are read. */
static int check_sum(const struct seen *s)
{
	const uint64_t sum = s->data + s->pages + s->log + s->moved;
	const uint64_t off = sum > s->all ? sum - s->all : s->all - sum;

	if (off <= s->all / 100 + (8u << 20))
		return 0;
	return bench_fail("the drives were given %llu bytes; the parts of which the appliance "
			  "tells add up to %llu",
			  (unsigned long long)s->all, (unsigned long long)sum);
}

/* ---- results -------------------------------------------------------------------------------- */

static double over(uint64_t bytes, uint64_t payload)
{
	return (double)bytes / (double)max_u64(payload, 1);
}

static double us(const struct stat_hist *h, double percent)
{
	return (double)stat_hist_percentile(h, percent) / 1e3;
}

/* 0: one of the two was not. */
static double ratio(const struct collect *t, double percent)
{
	if (stat_hist_count(&t->before) == 0 || stat_hist_count(&t->during) == 0)
		return 0;
	return us(&t->during, percent) / us(&t->before, percent);
}

static double a_second(const struct stat_hist *h, uint64_t ns)
{
	return (double)stat_hist_count(h) * 1e9 / (double)max_u64(ns, 1);
}

static void tell_json(const struct collect *t, const struct seen *s, const struct seen *late)
{
	printf("{\"workload\":\"collect\",\"transport\":\"%s\",\"kind\":\"%s\",\"fill\":%u,"
	       "\"capacity_bytes\":%llu,\"payload_bytes\":%llu,\"seconds\":%.3f,",
	       bench_env_transport(t->env, 0), t->whole_dirs ? "dirs" : "files", t->fill,
	       (unsigned long long)t->capacity, (unsigned long long)t->written,
	       (double)t->ns / 1e9);
	printf("\"written\":%.4f,\"data\":%.4f,\"pages\":%.4f,\"log\":%.4f,\"moved\":%.4f,"
	       "\"zones_collected\":%llu,\"late_written\":%.4f,\"late_moved\":%.4f,",
	       over(s->all, t->written), over(s->data, t->written), over(s->pages, t->written),
	       over(s->log, t->written), over(s->moved, t->written), (unsigned long long)s->zones,
	       over(late->all, t->written - t->late_at),
	       over(late->moved, t->written - t->late_at));
	printf("\"processors\":%ld,\"writers_depth\":%u,\"writers_core\":%d,\"readers_rate\":%u,"
	       "\"readers_depth_max\":%u,\"readers_core\":%d,\"readers_urgent\":%s,",
	       sysconf(_SC_NPROCESSORS_ONLN), t->conf->depth, t->conf->core_client, t->conf->rate,
	       BENCH_READERS_DEPTH, t->readers_core,
	       bench_readers_are_urgent(t->readers) ? "true" : "false");
	printf("\"reads_alone\":%llu,\"reads_before\":%llu,\"reads_during\":%llu,"
	       "\"p50_alone_us\":%.1f,\"p50_before_us\":%.1f,\"p50_during_us\":%.1f,"
	       "\"p99_alone_us\":%.1f,\"p99_before_us\":%.1f,\"p99_during_us\":%.1f,"
	       "\"p50_ratio\":%.3f,\"p99_ratio\":%.3f}\n",
	       (unsigned long long)stat_hist_count(&t->alone),
	       (unsigned long long)stat_hist_count(&t->before),
	       (unsigned long long)stat_hist_count(&t->during), us(&t->alone, 50),
	       us(&t->before, 50), us(&t->during, 50), us(&t->alone, 99), us(&t->before, 99),
	       us(&t->during, 99), ratio(t, 50), ratio(t, 99));
}

static void tell_hist(const char *when, const struct stat_hist *h)
{
	if (stat_hist_count(h) == 0)
		printf("%s -", when);
	else
		printf("%s %.0f / %.0f", when, us(h, 50), us(h, 99));
}

static void tell_reads(const struct collect *t)
{
	printf("      reads, p50 / p99 in us:");
	tell_hist(" alone", &t->alone);
	tell_hist(", beside writers", &t->before);
	tell_hist(", while collection moves data", &t->during);
	if (ratio(t, 99) > 0)
		printf(": %.2f / %.2f times\n", ratio(t, 50), ratio(t, 99));
	else
		printf("; collection moved data in %s slice\n",
		       stat_hist_count(&t->during) ? "every" : "no");
	printf("      %u a second are due (beside writers %.0f were made, while data moves %.0f), "
	       "at most %u in flight, by a client and a thread of their own%s; %u requests of "
	       "writers in flight; %ld processors: appliance %d, writers %d, readers %d "
	       "(-1: any)\n",
	       t->conf->rate, a_second(&t->before, t->before_ns),
	       a_second(&t->during, t->during_ns), BENCH_READERS_DEPTH,
	       bench_readers_are_urgent(t->readers) ? ", which is at a real-time priority" : "",
	       t->conf->depth, sysconf(_SC_NPROCESSORS_ONLN), t->conf->core_appliance,
	       t->conf->core_client, t->readers_core);
}

static void tell_people(const struct collect *t, const struct seen *s, const struct seen *late)
{
	char size[16], rate[16];

	printf("%-5s %2u %% full   written %.2f times: data %.3f, pages %.3f, log %.3f, "
	       "moved %.3f; of the last capacity %.2f   %sB at %sB/s\n",
	       t->whole_dirs ? "dirs" : "files", t->fill, over(s->all, t->written),
	       over(s->data, t->written), over(s->pages, t->written), over(s->log, t->written),
	       over(s->moved, t->written), over(late->all, t->written - t->late_at),
	       bench_human(size, (double)t->written),
	       bench_human(rate, (double)t->written * 1e9 / (double)max_u64(t->ns, 1)));
	tell_reads(t);
}

static int tell(const struct collect *t)
{
	const struct seen s = between(&t->first, &t->last);
	const struct seen late = between(&t->late_first, &t->last);

	if (t->conf->json)
		tell_json(t, &s, &late);
	else
		tell_people(t, &s, &late);
	fflush(stdout);
	return check_sum(&s);
}

/* ---- a run ---------------------------------------------------------------------------------- */

static int slice(struct collect *t, uint64_t bytes)
{
	static struct stat_hist reads;
	const uint64_t moved = t->last.moved;
	uint64_t written, ns = clock_now_ns();
	int err;

	stat_hist_reset(&reads);
	if (bench_readers_begin(t->readers, &reads))
		return 1;
	err = bench_churn_replace(t->churn, bytes, &written);
	ns = clock_now_ns() - ns;
	err |= bench_readers_end(t->readers);
	if (err || look(t, &t->last))
		return 1;
	t->ns += ns;
	t->written += written;
	stat_hist_merge(t->last.moved > moved ? &t->during : &t->before, &reads);
	*(t->last.moved > moved ? &t->during_ns : &t->before_ns) += ns;
	return 0;
}

static int read_alone(struct collect *t)
{
	const uint64_t ns = (uint64_t)(t->conf->seconds * 1e9);
	const struct timespec a_while = { .tv_sec = (time_t)(ns / NS_PER_S),
					  .tv_nsec = (long)(ns % NS_PER_S) };

	if (bench_readers_begin(t->readers, &t->alone))
		return 1;
	(void)nanosleep(&a_while, NULL);
	return bench_readers_end(t->readers);
}

static int replace(struct collect *t)
{
	const uint64_t want = (uint64_t)(t->conf->times * (double)t->capacity);
	const uint64_t late = want - min_u64(want, t->capacity);
	int err = look(t, &t->first);

	t->last = t->late_first = t->first;
	while (!err && t->written < want) {
		if (t->written <= late) {
			t->late_first = t->last;
			t->late_at = t->written;
		}
		err = slice(t, min_u64(t->capacity / SLICES, want - t->written));
	}
	return err;
}

/* A processor that neither the appliance nor the writers' client is on, or the latter's. */
static int core_of_readers(const struct bench_conf *conf)
{
	const long count = sysconf(_SC_NPROCESSORS_ONLN);
	int core = 0;

	if (conf->core_client < 0)
		return -1;
	while (core == conf->core_client || core == conf->core_appliance)
		core++;
	return core < count ? core : conf->core_client;
}

static int make_readers(struct collect *t, const struct bench_churn_conf *conf)
{
	struct weka_options o;

	t->readers_core = core_of_readers(t->conf);
	bench_readers_options(&o);
	if (bench_env_connect(t->env, 0, &o, &t->readers_client))
		return 1;
	return bench_readers_create(&t->readers, t->readers_client, conf, t->conf->rate,
				    t->readers_core);
}

static int make_churn(struct collect *t)
{
	struct bench_churn_conf conf = {
		.path = t->path,
		.dir_files = (uint32_t)t->conf->files,
		.writers = t->conf->depth,
		.whole_dirs = t->whole_dirs,
	};
	struct weka_options o;
	struct weka_statfs fs;
	double files;
	int err;

	bench_churn_options(&conf, &o);
	err = bench_env_connect(t->env, 0, &o, &t->client);
	if (err)
		return err;
	if (weka_statfs(t->client, &fs) || weka_mkdir(t->client, t->path, 0700))
		return bench_fail("%s: %s", t->path, weka_error(t->client));
	t->made = true;
	t->capacity = fs.total_bytes;
	files = (double)fs.total_bytes * t->fill / 100 / bench_churn_mean_bytes();
	conf.dirs = (uint32_t)(files / conf.dir_files + 0.5);
	err = bench_churn_create(&t->churn, t->client, &conf);
	return err ? err : make_readers(t, &conf);
}

static int run(struct collect *t)
{
	int err = bench_env_open(&t->env, t->conf);

	bench_pin(t->conf->core_client);
	snprintf(t->path, sizeof(t->path), "/weka-bench.%d", (int)getpid());
	if (!err)
		err = make_churn(t);
	if (!err)
		err = bench_churn_fill(t->churn);
	if (!err)
		err = read_alone(t);
	if (!err)
		err = replace(t);
	if (!err)
		err = bench_churn_verify(t->churn);
	return err ? err : tell(t);
}

/* Removed trees are freed in the background: waits, since the next run begins with an empty one. */
static int remove_all(struct collect *t)
{
	const uint64_t until = clock_now_ns() + FREED_WITHIN_NS;
	const struct timespec a_while = { .tv_nsec = 10000000 };
	uint64_t orphans = 0;
	char *text;

	if (weka_rmtree(t->client, t->path) != 0)
		return bench_fail("%s: %s", t->path, weka_error(t->client));
	do {
		if (weka_status(t->client, &text))
			return bench_fail("status: %s", weka_error(t->client));
		orphans = bench_field(text, "\"orphans\":");
		free(text);
		(void)nanosleep(&a_while, NULL);
	} while (orphans && clock_now_ns() < until && !bench_interrupted());
	return orphans ? bench_fail("%s is removed, and its files are not freed", t->path) : 0;
}

/* The files of an appliance of our own go with it. */
static int end(struct collect *t, int err)
{
	bench_churn_destroy(t->churn);
	bench_readers_destroy(t->readers);
	weka_close(t->readers_client);
	if (t->conf->connect_count && t->made)
		err |= remove_all(t);
	weka_close(t->client);
	bench_unpin(); /* the next run's appliance begins where we may run */
	return err | bench_env_close(t->env);
}

static int run_one(const struct bench_conf *conf, uint32_t fill, bool whole_dirs)
{
	struct collect *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return bench_fail("out of memory");
	t->conf = conf;
	t->fill = fill;
	t->whole_dirs = whole_dirs;
	stat_hist_reset(&t->alone);
	stat_hist_reset(&t->before);
	stat_hist_reset(&t->during);
	err = run(t);
	err = end(t, err);
	free(t);
	return err;
}

int bench_workload_collect(const struct bench_conf *conf)
{
	static const uint32_t usual[] = { 60, 80 };
	const uint32_t count = conf->fill_count ? conf->fill_count : ARRAY_LEN(usual);
	int err = 0;

	for (uint32_t i = 0; i < 2 * count && !err; i++)
		err = run_one(conf, conf->fill_count ? conf->fill[i / 2] : usual[i / 2], i % 2);
	return err;
}
