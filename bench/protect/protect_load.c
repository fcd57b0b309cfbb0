/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loads: requests of a client, over one large file and small ones that come and go.
 *
 *  (1) Each block of the large file begins with its own number: a wrong block is noticed, also one
 *      that was computed from others [e2e_protect_bench].
 *  (2) A PROTECT_TURN has one request in flight, so each is alone in its turn of the appliance, and
 *      has a block of the log for itself.
 *
 * A run of PROTECT_CREATE makes at most as many bytes of files as the large one has.  Its directory
 * is removed when its time is over.
 */
#include "bench/protect/protect_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES 64u /* a request */

struct protect_names {
	char path[FILES][40];
	struct weka_put_item item[FILES];
};

static uint8_t *window_of(const struct bench_slot *slot)
{
	return (uint8_t *)slot->window.lease->data + slot->window.offset_bytes;
}

/* ---- the large file ----------------------------------------------------------------------- */

static int submit_read(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct protect_side *s = ctx;
	const uint64_t pieces = s->bytes / s->request;
	int err;

	ASSERT(slot->index < PROTECT_DEPTH && pieces > 0);
	s->at[slot->index] = s->request * (s->now == PROTECT_READ ? rand_below(&s->rand, pieces)
								  : s->next++ % pieces);
	err = weka_submit_read(client, &slot->req, &s->handle, s->at[slot->index], s->request,
			       &slot->window);
	return err ? bench_fail("read: %s", strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_read(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	const struct protect_side *s = ctx;
	const uint8_t *data = slot->req.data;

	if (slot->req.length_bytes != s->request)
		return bench_fail("%u bytes came instead of %u", (unsigned)slot->req.length_bytes,
				  s->request);
	for (uint64_t i = 0; i < s->request; i += WEKA_BLOCK) {
		uint64_t number;

		memcpy(&number, data + i, sizeof(number));
		if (number != (s->at[slot->index] + i) / WEKA_BLOCK) /* (1) */
			return bench_fail(
				"block %llu came instead of %llu", (unsigned long long)number,
				(unsigned long long)(s->at[slot->index] + i) / WEKA_BLOCK);
	}
	run->ops++;
	run->bytes += s->request;
	return 0;
}

static int submit_write(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct protect_side *s = ctx;
	const uint64_t pieces = s->bytes / s->request, piece = s->next++;
	const uint64_t offset = piece % pieces * s->request;
	uint64_t *word = (void *)window_of(slot);
	int err;

	ASSERT(s->now != PROTECT_TURN || slot->index == 0); /* (2) */
	if (s->fills && piece >= pieces)
		return BENCH_LOAD_NO_MORE;
	for (uint64_t i = 0; i < s->request / sizeof(*word); i += WEKA_BLOCK / sizeof(*word)) {
		word[i] = (offset + i * sizeof(*word)) / WEKA_BLOCK; /* (1) */
		word[i + 1] = rand_u64(&s->rand);
	}
	err = weka_submit_write(client, &slot->req, &s->handle, offset, s->request, 0,
				&slot->window);
	return err ? bench_fail("write: %s", strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_write(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	const struct protect_side *s = ctx;

	(void)slot;
	run->ops++;
	run->bytes += s->request;
	return 0;
}

/* ---- small files -------------------------------------------------------------------------- */

static int submit_create(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct protect_side *s = ctx;
	struct protect_names *n = &s->names[slot->index];
	int err;

	if ((s->created += FILES) > s->bytes_max / WEKA_BLOCK)
		return BENCH_LOAD_NO_MORE;
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
	const struct protect_names *n = &s->names[slot->index];

	for (uint32_t i = 0; i < FILES; i++)
		if (n->item[i].status)
			return bench_fail("put %s: %s", n->path[i], strerror(-n->item[i].status));
	run->ops += FILES;
	run->bytes += FILES * WEKA_BLOCK;
	return 0;
}

static int begin_directory(struct protect_side *s)
{
	char path[32];

	s->created = 0;
	snprintf(path, sizeof(path), "/d%u", s->directory);
	return weka_mkdir(s->client, path, 0700) ? bench_fail("%s: %s", path, weka_error(s->client))
						 : 0;
}

static int end_directory(struct protect_side *s)
{
	char path[32];

	snprintf(path, sizeof(path), "/d%u", s->directory++);
	return weka_rmtree(s->client, path) ? bench_fail("%s: %s", path, weka_error(s->client)) : 0;
}

/* ---- all of them -------------------------------------------------------------------------- */

static const struct {
	struct bench_load_ops ops;
	uint32_t depth, request_max;
} loads[PROTECT_LOADS] = {
	[PROTECT_READ] = { { submit_read, finish_read, NULL, "random reads" },
			   PROTECT_DEPTH,
			   WEKA_BLOCK },
	[PROTECT_STREAM] = { { submit_read, finish_read, NULL, "reads in order" },
			     8,
			     PROTECT_PIECE },
	[PROTECT_WRITE] = { { submit_write, finish_write, NULL, "writes" }, 8, PROTECT_PIECE },
	[PROTECT_TURN] = { { submit_write, finish_write, NULL, "writes" }, 1, WEKA_WRITE_MAX },
	[PROTECT_CREATE] = { { submit_create, finish_create, NULL, "new files" },
			     8,
			     FILES *WEKA_BLOCK },
};

static uint64_t window_bytes(uint32_t load)
{
	return loads[load].request_max + (load == PROTECT_READ ? 0 : 2 * WEKA_BLOCK);
}

uint64_t protect__pool_bytes(void)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < PROTECT_LOADS; i++)
		bytes += loads[i].depth * (window_bytes(i) + (64u << 10));
	return bytes;
}

int protect__loads_open(struct protect_side *s)
{
	int err = 0;

	s->names = calloc(loads[PROTECT_CREATE].depth, sizeof(*s->names));
	if (!s->names)
		return bench_fail("out of memory");
	for (uint32_t i = 0; i < PROTECT_LOADS && !err; i++) {
		ASSERT(loads[i].depth <= PROTECT_DEPTH);
		err = bench_load_create(&s->load[i], s->client, loads[i].depth, window_bytes(i),
					&loads[i].ops, s);
	}
	return err;
}

void protect__loads_close(struct protect_side *s)
{
	for (uint32_t i = 0; i < PROTECT_LOADS; i++)
		bench_load_destroy(s->load[i]);
	free(s->names);
}

int protect_run(struct protect_side *s, enum protect_load load, uint32_t bytes, double seconds,
		struct bench_run *run)
{
	int err;

	ASSERT(load < PROTECT_LOADS && run->bytes == 0);
	ASSERT(bytes > 0 && bytes <= loads[load].request_max && bytes % WEKA_BLOCK == 0);
	s->now = load;
	s->request = bytes;
	if (load == PROTECT_CREATE && begin_directory(s))
		return 1;
	err = bench_load_run(s->load[load], seconds, run);
	if (load == PROTECT_CREATE)
		err |= end_directory(s);
	return err;
}
