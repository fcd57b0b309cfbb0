/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One directory that grows to --files names, and what it costs at each power of ten on the way:
 *
 *   1,000 names -> create 9,000 -> 10,000 names -> create 90,000 -> ...
 *     |                              |
 *     stat, read, list, rename, unlink: --seconds each, names in an order that is none
 *
 * A row is a rate, and what the appliance's drives read for one operation, in pages of the index
 * and in bytes of all kinds: from its counters, before and after.
 *
 *  (1) Between two phases files 0 .. n - 1 are there and no others: what was renamed has its name
 *      back, what was removed is made again, outside of the time.
 *  (2) So a run that ended can be gone on with (--prefix): how many there are is found by halves.
 *      If it was killed, some may be missing below that: then a phase says which.
 */
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES   13  /* "f", or "g" when it is renamed, and twelve digits */
#define NAME_STRIDE  24  /* for any number at all */
#define SINGLE_DEPTH 64u /* of requests of one name each */
#define LIST_ENTRIES 512u
#define LIST_BYTES   (256u << 10)
#define FIRST        1000u
#define STEP         1000003u /* prime: i * STEP % n takes each name once */

struct batch {
	uint32_t count;
	uint64_t number[WEKA_BATCH_MAX];
	char name[WEKA_BATCH_MAX][NAME_STRIDE];
	char to[NAME_STRIDE];
	union {
		struct weka_put_item put[WEKA_BATCH_MAX];
		struct weka_stat_item stat[WEKA_BATCH_MAX];
		struct weka_read_item read[WEKA_BATCH_MAX];
	};
};

struct scale {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct weka_client *client;
	struct batch *batch; /* one a slot */
	char path[64];
	uint64_t dir;
	uint64_t files; /* that are there                     */
	uint64_t next;  /* operation of this phase            */
	uint64_t end;   /* create, and what is put right: the last one's next */
	struct weka_cookie cookie;
	struct weka_entry *entry;
	uint64_t listed;
};

/* From the appliance's counters. */
struct seen {
	uint64_t pages; /* of the index                */
	uint64_t bytes; /* read from drives, all in all */
};

static void name_of(char out[NAME_STRIDE], char first, uint64_t number)
{
	snprintf(out, NAME_STRIDE, "%c%012llu", first, (unsigned long long)number);
}

static struct weka_ref ref_of(const struct scale *s, const char *name)
{
	return (struct weka_ref){
		.by = WEKA_BY_DIR, .dir = s->dir, .name = name, .name_bytes = NAME_BYTES
	};
}

static int failed(const struct scale *s, const char *what, const char *name, int status)
{
	return bench_fail("%s %s/%s: %s", what, s->path, name, strerror(-status));
}

/* The next names of a phase that goes round. */
static void take_names(struct scale *s, struct batch *b)
{
	b->count = (uint32_t)min_u64(s->conf->batch, s->files);
	for (uint32_t i = 0; i < b->count; i++) {
		b->number[i] = s->next++ % s->files * STEP % s->files;
		name_of(b->name[i], 'f', b->number[i]);
	}
}

/* ---- create --------------------------------------------------------------------------- */

static int submit_put(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale *s = ctx;
	struct batch *b = &s->batch[slot->index];
	const uint64_t stride = align_up(s->conf->size_bytes, 64);
	uint8_t *data = slot->window.lease->data;
	int err;

	b->count = (uint32_t)min_u64(s->conf->batch, s->end - s->next);
	if (b->count == 0)
		return BENCH_LOAD_NO_MORE;
	for (uint32_t i = 0; i < b->count; i++) {
		uint64_t number = s->next++;

		name_of(b->name[i], 'f', number);
		memcpy(data + i * stride, &number, min_u64(sizeof(number), s->conf->size_bytes));
		b->put[i] = (struct weka_put_item){
			.ref = ref_of(s, b->name[i]),
			.create = { .mode = 0600 },
			.window_at = (uint32_t)(i * stride),
			.size_bytes = (uint32_t)s->conf->size_bytes,
		};
	}
	err = weka_submit_put(client, &slot->req, b->put, b->count, &slot->window);
	return err ? failed(s, "create", b->name[0], err) : 0;
}

static int finish_put(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale *s = ctx;
	const struct batch *b = &s->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++)
		if (b->put[i].status)
			return failed(s, "create", b->name[i], b->put[i].status);
	run->ops += b->count;
	return 0;
}

/* ---- stat, read ------------------------------------------------------------------------- */

static int submit_stat(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale *s = ctx;
	struct batch *b = &s->batch[slot->index];
	int err;

	take_names(s, b);
	for (uint32_t i = 0; i < b->count; i++)
		b->stat[i].ref = ref_of(s, b->name[i]);
	err = weka_submit_stat(client, &slot->req, b->stat, b->count, &slot->window);
	return err ? failed(s, "stat", b->name[0], err) : 0;
}

static int finish_stat(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale *s = ctx;
	const struct batch *b = &s->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++) {
		if (b->stat[i].status)
			return failed(s, "stat", b->name[i], b->stat[i].status);
		if (b->stat[i].attr.size_bytes != s->conf->size_bytes)
			return failed(s, "stat: the size is another's,", b->name[i], -EIO);
	}
	run->ops += b->count;
	return 0;
}

static int submit_read(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale *s = ctx;
	struct batch *b = &s->batch[slot->index];
	int err;

	take_names(s, b);
	for (uint32_t i = 0; i < b->count; i++)
		b->read[i] = (struct weka_read_item){ .ref = ref_of(s, b->name[i]),
						      .length_bytes = WEKA_TO_END };
	err = weka_submit_read_batch(client, &slot->req, b->read, b->count, &slot->window);
	return err ? failed(s, "read", b->name[0], err) : 0;
}

static int finish_read(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale *s = ctx;
	const struct batch *b = &s->batch[slot->index];
	uint64_t size = s->conf->size_bytes;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct weka_read_item *item = &b->read[i];

		if (item->status)
			return failed(s, "read", b->name[i], item->status);
		if (item->got_bytes != size ||
		    memcmp(item->data, &b->number[i], min_u64(8, size)) != 0)
			return failed(s, "read: the bytes are another's,", b->name[i], -EIO);
	}
	run->ops += b->count;
	return 0;
}

/* ---- list: one page behind the other -------------------------------------------------------- */

static int submit_list(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale *s = ctx;
	const struct weka_ref dir = weka_ref_path(s->path);
	int err = weka_submit_list(client, &slot->req, &dir, &s->cookie, s->entry, LIST_ENTRIES,
				   &slot->window);

	return err ? failed(s, "list", "", err) : 0;
}

static int finish_list(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale *s = ctx;

	s->listed += slot->req.count;
	run->ops += slot->req.count;
	if (slot->req.length_bytes)
		return 0;
	if (s->listed != s->files)
		return bench_fail("list %s: %llu of %llu names came", s->path,
				  (unsigned long long)s->listed, (unsigned long long)s->files);
	s->listed = 0; /* and from its start again */
	s->cookie = (struct weka_cookie){ { 0 } };
	return 0;
}

/* ---- rename: all there, then all back ---------------------------------------------------- */

static int submit_rename(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale *s = ctx;
	struct batch *b = &s->batch[slot->index];
	const bool back = s->next / s->files % 2 == 1;
	struct weka_ref from, to;
	uint64_t number;
	int err;

	if (s->next == s->end)
		return BENCH_LOAD_NO_MORE;
	number = s->next++ % s->files * STEP % s->files;
	name_of(b->name[0], back ? 'g' : 'f', number);
	name_of(b->to, back ? 'f' : 'g', number);
	from = ref_of(s, b->name[0]);
	to = ref_of(s, b->to);
	err = weka_submit_rename(client, &slot->req, &from, &to, WEKA_NOREPLACE);
	return err ? failed(s, "rename", b->name[0], err) : 0;
}

static int submit_unlink(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale *s = ctx;
	struct batch *b = &s->batch[slot->index];
	struct weka_ref ref;
	int err;

	if (s->next == s->end)
		return BENCH_LOAD_NO_MORE;
	name_of(b->name[0], 'f', s->next++);
	ref = ref_of(s, b->name[0]);
	err = weka_submit_unlink(client, &slot->req, &ref);
	return err ? failed(s, "unlink", b->name[0], err) : 0;
}

static int finish_one(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	(void)ctx;
	(void)slot;
	run->ops++;
	return 0;
}

/* ---- phases -------------------------------------------------------------------------------- */

enum phase { CREATE, STAT, READ, LIST, RENAME, UNLINK, PHASES };

static const struct bench_load_ops phase_ops[PHASES] = {
	[CREATE] = { submit_put, finish_put, NULL, "create" },
	[STAT] = { submit_stat, finish_stat, NULL, "stat" },
	[READ] = { submit_read, finish_read, NULL, "read" },
	[LIST] = { submit_list, finish_list, NULL, "list" },
	[RENAME] = { submit_rename, finish_one, NULL, "rename" },
	[UNLINK] = { submit_unlink, finish_one, NULL, "unlink" },
};

static uint64_t window_of(const struct bench_conf *conf, enum phase phase)
{
	if (phase == RENAME || phase == UNLINK)
		return 0;
	if (phase == LIST)
		return LIST_BYTES;
	return max_u64(weka_window_bytes(conf->batch, conf->size_bytes),
		       align_up(conf->batch * 104ull, WEKA_BLOCK));
}

static int run_phase(struct scale *s, enum phase phase, double seconds, struct bench_run *run)
{
	const bool single = window_of(s->conf, phase) == 0;
	uint32_t depth = phase == LIST ? 1 : single ? SINGLE_DEPTH : s->conf->depth;
	struct bench_load *load = NULL;
	int err = bench_load_create(&load, s->client, depth, window_of(s->conf, phase),
				    &phase_ops[phase], s);

	if (!err)
		err = bench_load_run(load, seconds, run);
	bench_load_destroy(load);
	return err;
}

/* Invariant (1), after operations 0 .. next - 1 of a phase. */
static int put_right(struct scale *s, enum phase phase)
{
	struct bench_run not_counted = { 0 };
	uint64_t n = s->files, done = s->next;

	if (phase == UNLINK) {
		s->next = 0;
		s->end = done;
		return run_phase(s, CREATE, BENCH_LOAD_ALL, &not_counted);
	}
	if (phase != RENAME || done % (2 * n) == 0)
		return 0;
	if (done % (2 * n) <= n) { /* the first so many have their other name */
		s->next = n;
		s->end = n + done % (2 * n);
	} else { /* all but the first so many */
		s->end = 2 * n;
		s->next = done % (2 * n);
	}
	return run_phase(s, RENAME, BENCH_LOAD_ALL, &not_counted);
}

static uint64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static int look(struct scale *s, struct seen *out)
{
	char *text;

	if (weka_status(s->client, &text))
		return bench_fail("status: %s", weka_error(s->client));
	out->pages = field(text, "\"page_reads\":");
	out->bytes = field(text, "\"drive_read\":");
	free(text);
	return 0;
}

static void tell(const struct scale *s, enum phase phase, const struct bench_run *run,
		 const struct seen *was, const struct seen *is)
{
	const double ops = (double)max_u64(run->ops, 1);
	char names[16], rate[16];

	if (s->conf->json)
		printf("{\"workload\":\"names\",\"files\":%llu,\"phase\":\"%s\","
		       "\"transport\":\"%s\",\"ops\":%llu,\"ops_per_s\":%.0f,\"pages_per_op\":%.4f,"
		       "\"drive_bytes_per_op\":%.1f}\n",
		       (unsigned long long)s->files, phase_ops[phase].what,
		       bench_env_transport(s->env, 0), (unsigned long long)run->ops,
		       bench_rate(run), (double)(is->pages - was->pages) / ops,
		       (double)(is->bytes - was->bytes) / ops);
	else
		printf("%10s names  %-7s %10s/s   %8.4f pages, %8.1f bytes read for one\n",
		       bench_human(names, (double)s->files), phase_ops[phase].what,
		       bench_human(rate, bench_rate(run)), (double)(is->pages - was->pages) / ops,
		       (double)(is->bytes - was->bytes) / ops);
	fflush(stdout);
}

static int measure(struct scale *s, enum phase phase, double seconds)
{
	struct bench_run run = { 0 };
	struct seen was, is;
	int err;

	if (look(s, &was) || run_phase(s, phase, seconds, &run) || look(s, &is))
		return 1;
	if (phase == CREATE)
		s->files = s->end;
	err = put_right(s, phase);
	if (!err)
		tell(s, phase, &run, &was, &is);
	return err;
}

/* What is there becomes n names. */
static int grow_to(struct scale *s, uint64_t n)
{
	if (s->files >= n)
		return 0;
	s->next = s->files;
	s->end = n;
	return measure(s, CREATE, BENCH_LOAD_ALL);
}

static int measure_at(struct scale *s, uint64_t n)
{
	int err = grow_to(s, n);

	for (uint32_t phase = STAT; !err && phase < PHASES; phase++) {
		s->next = 0;
		s->end = phase == UNLINK ? n : UINT64_MAX;
		s->listed = 0;
		s->cookie = (struct weka_cookie){ { 0 } };
		err = measure(s, phase, s->conf->seconds);
	}
	return err;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static bool is_there(struct scale *s, uint64_t number)
{
	char name[NAME_STRIDE], path[sizeof(s->path) + NAME_STRIDE + 1];
	struct weka_attr attr;

	name_of(name, 'f', number);
	snprintf(path, sizeof(path), "%s/%s", s->path, name);
	return weka_stat(s->client, path, &attr) == 0;
}

/* (2) */
static void count_files(struct scale *s)
{
	uint64_t low = 0, high = s->conf->files;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (is_there(s, mid))
			low = mid + 1;
		else
			high = mid;
	}
	s->files = low;
}

static int open_dir(struct scale *s)
{
	const char *prefix = s->conf->prefix[0] ? s->conf->prefix : "/weka-bench.names";
	struct weka_attr attr;
	int err;

	if (snprintf(s->path, sizeof(s->path), "%s", prefix) >= (int)sizeof(s->path))
		return bench_fail("--prefix: at most %zu bytes", sizeof(s->path) - 1);
	err = weka_mkdir(s->client, s->path, 0700);
	if (err == -EEXIST && s->conf->prefix[0])
		err = 0;
	if (err || weka_stat(s->client, s->path, &attr) != 0)
		return bench_fail("%s: %s", s->path, weka_error(s->client));
	s->dir = attr.dir;
	count_files(s);
	if (s->files && !s->conf->json)
		printf("%s has %llu names: going on\n", s->path, (unsigned long long)s->files);
	return 0;
}

static int open_scale(struct scale *s)
{
	struct weka_options o = { .size_bytes = sizeof(o) };
	const struct bench_conf *conf = s->conf;
	int err = bench_env_open(&s->env, conf);

	bench_pin(conf->core_client);
	if (err)
		return err;
	o.requests_max = max_u32(conf->depth, SINGLE_DEPTH) + 1;
	o.batches_max = conf->depth + 1;
	o.pool_bytes = conf->depth * (window_of(conf, STAT) + (64u << 10)) + (4u << 20);
	err = bench_env_connect(s->env, 0, &o, &s->client);
	s->batch = calloc(max_u32(conf->depth, SINGLE_DEPTH), sizeof(*s->batch));
	s->entry = calloc(LIST_ENTRIES, sizeof(*s->entry));
	if (!err && (!s->batch || !s->entry))
		err = bench_fail("out of memory");
	return err ? err : open_dir(s);
}

/* The names stay where they are, for the next run; our own appliance's go with it. */
static int close_scale(struct scale *s, int err)
{
	weka_close(s->client);
	err |= bench_env_close(s->env);
	free(s->entry);
	free(s->batch);
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
	err = open_scale(s);
	while (!err && n * 10 <= s->files) /* was measured by the run before */
		n *= 10;
	for (; !err && n < conf->files; n *= 10)
		err = measure_at(s, n);
	if (!err)
		err = measure_at(s, conf->files);
	return close_scale(s, err);
}
