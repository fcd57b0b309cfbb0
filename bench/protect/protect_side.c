/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An appliance on several file: drives, with one large file and small ones that come and go.
 *
 *  (1) Each block of the large file begins with its own number: a wrong block is noticed
 *      [e2e_protect_bench].
 *
 * The directory of a run of PROTECT_CREATE is removed when the run's time is over.
 */
#include "bench/protect/protect.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE      (1u << 20)
#define FILES      64u /* a request */
#define DEPTH      32u /* of random reads; of all else DEPTH_MORE */
#define DEPTH_MORE 8u
#define LOST_IN_S  30

struct names {
	char path[FILES][40];
	struct weka_put_item item[FILES];
};

struct protect_side {
	struct bench_conf conf;
	struct bench_env *env;
	char pace[64]; /* a line of the appliance's configuration */
	struct weka_client *client;
	struct weka_handle handle;
	uint64_t bytes; /* of the large file */
	struct bench_load *load[PROTECT_LOADS];
	enum protect_load now;
	uint64_t next; /* piece of the file, or name */
	bool fills;    /* the file is written once, to its end */
	uint64_t at[DEPTH];
	struct names *names; /* of each slot */
	uint32_t directory;
	struct rand_state rand;
};

static uint8_t *window_of(const struct bench_slot *slot)
{
	return (uint8_t *)slot->window.lease->data + slot->window.offset_bytes;
}

/* ---- the large file ----------------------------------------------------------------------- */

static int submit_read(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct protect_side *s = ctx;
	const uint32_t size = s->now == PROTECT_READ_RANDOM ? WEKA_BLOCK : PIECE;
	const uint64_t pieces = s->bytes / size;
	int err;

	ASSERT(slot->index < DEPTH);
	s->at[slot->index] = size * (s->now == PROTECT_READ_RANDOM ? rand_below(&s->rand, pieces)
								   : s->next++ % pieces);
	err = weka_submit_read(client, &slot->req, &s->handle, s->at[slot->index], size,
			       &slot->window);
	return err ? bench_fail("read: %s", strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_read(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	const struct protect_side *s = ctx;
	const uint8_t *data = slot->req.data;

	for (uint64_t i = 0; i < slot->req.length_bytes; i += WEKA_BLOCK) {
		uint64_t number;

		memcpy(&number, data + i, sizeof(number));
		if (number != (s->at[slot->index] + i) / WEKA_BLOCK) /* (1) */
			return bench_fail(
				"block %llu came instead of %llu", (unsigned long long)number,
				(unsigned long long)(s->at[slot->index] + i) / WEKA_BLOCK);
	}
	run->ops++;
	run->bytes += slot->req.length_bytes;
	return 0;
}

static int submit_write(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct protect_side *s = ctx;
	const uint64_t pieces = s->bytes / PIECE, piece = s->next++;
	uint64_t *word = (void *)window_of(slot);
	int err;

	if (s->fills && piece >= pieces)
		return BENCH_LOAD_NO_MORE;
	for (uint64_t i = 0; i < PIECE / sizeof(*word); i += WEKA_BLOCK / sizeof(*word)) {
		word[i] = piece % pieces * (PIECE / WEKA_BLOCK) + i * sizeof(*word) / WEKA_BLOCK;
		word[i + 1] = rand_u64(&s->rand);
	}
	err = weka_submit_write(client, &slot->req, &s->handle, piece % pieces * PIECE, PIECE, 0,
				&slot->window);
	return err ? bench_fail("write: %s", strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_write(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	(void)ctx;
	(void)slot;
	run->ops++;
	run->bytes += PIECE;
	return 0;
}

/* ---- small files -------------------------------------------------------------------------- */

static int submit_create(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct protect_side *s = ctx;
	struct names *n = &s->names[slot->index];
	int err;

	ASSERT(slot->index < DEPTH_MORE);
	for (uint32_t i = 0; i < FILES; i++) {
		snprintf(n->path[i], sizeof(n->path[i]), "/d%u/f%llu", s->directory,
			 (unsigned long long)s->next++);
		n->item[i] = (struct weka_put_item){
			.ref = weka_ref_path(n->path[i]),
			.create = { .mode = 0600 },
			.window_at = i * WEKA_BLOCK,
			.size_bytes = WEKA_BLOCK,
		};
	}
	err = weka_submit_put(client, &slot->req, n->item, FILES, &slot->window);
	return err ? bench_fail("put: %s", strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_create(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	const struct protect_side *s = ctx;
	const struct names *n = &s->names[slot->index];

	for (uint32_t i = 0; i < FILES; i++)
		if (n->item[i].status)
			return bench_fail("put %s: %s", n->path[i], strerror(-n->item[i].status));
	run->ops += FILES;
	run->bytes += FILES * WEKA_BLOCK;
	return 0;
}

/* ---- loads -------------------------------------------------------------------------------- */

static const struct {
	struct bench_load_ops ops;
	uint32_t depth;
	uint64_t window_bytes;
} loads[PROTECT_LOADS] = {
	[PROTECT_READ_RANDOM] = { { submit_read, finish_read, NULL, "random reads" },
				  DEPTH,
				  WEKA_BLOCK },
	[PROTECT_READ_ORDER] = { { submit_read, finish_read, NULL, "reads in order" },
				 DEPTH_MORE,
				 PIECE + 2 * WEKA_BLOCK },
	[PROTECT_WRITE] = { { submit_write, finish_write, NULL, "writes" },
			    DEPTH_MORE,
			    PIECE + 2 * WEKA_BLOCK },
	[PROTECT_CREATE] = { { submit_create, finish_create, NULL, "new files" },
			     DEPTH_MORE,
			     (FILES + 2) * WEKA_BLOCK },
};

static int open_loads(struct protect_side *s)
{
	int err = 0;

	for (uint32_t i = 0; i < PROTECT_LOADS && !err; i++)
		err = bench_load_create(&s->load[i], s->client, loads[i].depth,
					loads[i].window_bytes, &loads[i].ops, s);
	return err;
}

static int look(struct protect_side *s, char **text)
{
	return weka_status(s->client, text) ? bench_fail("status: %s", weka_error(s->client)) : 0;
}

/* Bytes that clients gave, and that the drives were given, since it began. */
struct written {
	uint64_t payload, drives;
};

static int written(struct protect_side *s, struct written *out)
{
	char *text;

	if (look(s, &text))
		return 1;
	out->payload = bench_field(text, "\"written\":");
	out->drives = bench_field(text, "\"drive_written\":");
	free(text);
	return 0;
}

static int end_directory(struct protect_side *s)
{
	char path[32];

	snprintf(path, sizeof(path), "/d%u", s->directory++);
	return weka_rmtree(s->client, path) ? bench_fail("%s: %s", path, weka_error(s->client)) : 0;
}

static int begin_directory(struct protect_side *s)
{
	char path[32];

	snprintf(path, sizeof(path), "/d%u", s->directory);
	return weka_mkdir(s->client, path, 0700) ? bench_fail("%s: %s", path, weka_error(s->client))
						 : 0;
}

int protect_run(struct protect_side *s, enum protect_load load, double seconds,
		struct bench_run *run, double *amplification)
{
	struct written before = { 0 }, after = { 0 };
	int err;

	ASSERT(load < PROTECT_LOADS && run->bytes == 0);
	s->now = load;
	if (load == PROTECT_CREATE && begin_directory(s))
		return 1;
	err = written(s, &before) || bench_load_run(s->load[load], seconds, run) ||
	      written(s, &after);
	if (load == PROTECT_CREATE)
		err |= end_directory(s);
	if (amplification)
		*amplification = (double)(after.drives - before.drives) /
				 (double)max_u64(after.payload - before.payload, 1);
	return err;
}

/* ---- one appliance ------------------------------------------------------------------------ */

static int make_file(struct protect_side *s)
{
	struct bench_run run = { 0 };
	struct weka_attr attr;
	int err;

	if (weka_open(s->client, "/large", WEKA_CREATE | WEKA_EXCL, 0600, &attr))
		return bench_fail("/large: %s", weka_error(s->client));
	s->handle = attr.handle;
	s->fills = true;
	err = bench_load_run(s->load[PROTECT_WRITE], BENCH_LOAD_ALL, &run);
	s->fills = false;
	s->next = 0;
	return err;
}

int protect_open(struct protect_side **out, const struct protect_conf *conf, const char *how)
{
	struct weka_options o = { .size_bytes = sizeof(o), .requests_max = 128 };
	struct protect_side *s = calloc(1, sizeof(*s));

	*out = s;
	if (!s || !(s->names = calloc(DEPTH_MORE, sizeof(*s->names))))
		return bench_fail("out of memory");
	s->conf = (struct bench_conf){
		.transport = "shm",
		.drive = "",
		.own_drives = conf->drives,
		.own_drive_bytes = conf->drive_bytes,
		.own_dir = conf->dir,
		.own_memory = !conf->files,
		.protect = how,
		.lines = s->pace,
		.core_client = -1,
		.core_appliance = -1,
	};
	s->bytes = align_down(conf->file_bytes, PIECE);
	rand_seed(&s->rand, 1);
	for (uint32_t i = 0; i < PROTECT_LOADS; i++)
		o.pool_bytes += loads[i].depth * (loads[i].window_bytes + (64u << 10));
	if (bench_env_open(&s->env, &s->conf) || bench_env_connect(s->env, 0, &o, &s->client))
		return 1;
	return open_loads(s) || make_file(s);
}

int protect_close(struct protect_side *s)
{
	int err;

	if (!s)
		return 0;
	for (uint32_t i = 0; i < PROTECT_LOADS; i++)
		bench_load_destroy(s->load[i]);
	weka_close(s->client);
	err = bench_env_close(s->env);
	free(s->names);
	free(s);
	return err;
}

/* ---- losing a drive ------------------------------------------------------------------------ */

int protect_rebuild(struct protect_side *s, uint64_t *left, uint64_t *done, bool *over)
{
	const char *at;
	char *text;

	if (look(s, &text))
		return 1;
	at = strstr(text, "\"rebuild\":{\"what\":\"lost\"");
	*over = !at;
	*left = at ? bench_field(at, "\"left_bytes\":") : 0;
	*done = at ? bench_field(at, "\"done_bytes\":") : 0;
	free(text);
	return 0;
}

int protect_lose(struct protect_side *s, uint32_t drive)
{
	const uint64_t until = clock_now_ns() + LOST_IN_S * NS_PER_S;
	uint64_t left, done;
	bool over;

	do {
		struct bench_run run = { 0 };

		/* Again: a write, such as one that mends a block, makes the file long once more. */
		if (bench_env_break_drive(s->env, drive) ||
		    protect_run(s, PROTECT_READ_RANDOM, 0.02, &run, NULL) ||
		    protect_rebuild(s, &left, &done, &over))
			return 1;
	} while (over && clock_now_ns() < until && !bench_interrupted());
	return over ? bench_fail("the appliance does not notice that drive %u is empty", drive) : 0;
}

int protect_pace(struct protect_side *s, uint64_t bytes_per_second)
{
	snprintf(s->pace, sizeof(s->pace), "rebuild_bytes_per_second = %llu\n",
		 (unsigned long long)bytes_per_second);
	return bench_env_reload(s->env);
}
