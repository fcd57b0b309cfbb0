/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Many writers of one file: two clients have writes of it in flight at once, of whole blocks and of
 * parts, in it and behind its end; what is there afterwards is what an array of bytes says.
 */
#define _GNU_SOURCE
#include "appliance/core/app_op.h"
#include "base/rand.h"
#include "client-lib/weka_client.h"
#include "client-lib/weka_sync.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
	CLIENTS = 2,
	AT_ONCE = 8, /* of a client */
	PIECE = 64 << 10,
	PLACES = 160, /* pieces of the file: more than two chunks of 4 MiB */
	SLOT = PIECE + 8192,
	ROUNDS = 60,
};

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 16 << 20,
				       .ops_max = 64 } };

static struct weka_client *client[CLIENTS];
static struct weka_lease *lease[CLIENTS];
static struct weka_req req[CLIENTS][AT_ONCE];
static struct weka_attr attr;
static struct rand_state rnd;
static uint8_t model[PLACES * PIECE]; /* ... and zeros where nobody wrote */
static uint64_t model_bytes;

static void begin(void)
{
	app_rig_begin(&rig);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		client[i] = app_rig_connect(&rig);
		cr_assert_eq(weka_lease(client[i], AT_ONCE * SLOT, &lease[i]), 0);
	}
	rand_seed(&rnd, 11);
	cr_assert_eq(weka_open(client[0], "/one", WEKA_CREATE, 0666, &attr), 0);
}

static void end(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		weka_close(client[i]);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(app_write, .init = begin, .fini = end, .timeout = 120);

/* Bytes of a write, in the client's window and in the model. */
static void submit(uint32_t c, uint32_t i, uint64_t at, uint32_t length)
{
	struct weka_window window = { lease[c], i * (uint64_t)SLOT, SLOT };
	uint8_t *bytes = (uint8_t *)lease[c]->data + window.offset_bytes;

	for (uint32_t k = 0; k < length; k += 8) {
		uint64_t word = rand_u64(&rnd);

		memcpy(bytes + k, &word, length - k < 8 ? length - k : 8);
	}
	memcpy(model + at, bytes, length);
	if (at + length > model_bytes)
		model_bytes = at + length;
	cr_assert_eq(weka_submit_write(client[c], &req[c][i], &attr.handle, at, length, 0, &window),
		     0);
}

static void reap(uint32_t c)
{
	struct weka_req *done[AT_ONCE];

	for (uint32_t left = AT_ONCE; left;) {
		int n = weka_reap(client[c], done, AT_ONCE);

		cr_assert_geq(n, 0);
		for (int i = 0; i < n; i++)
			cr_assert_eq(done[i]->status, 0, "%d", done[i]->status);
		left -= (uint32_t)n;
		if (n == 0)
			(void)!weka_wait(client[c], 100000000);
	}
}

static bool is_as_written(void)
{
	void *bytes;
	size_t size;
	bool same;

	if (weka_read_file(client[1], "/one", &bytes, &size))
		return false;
	same = size == model_bytes && memcmp(bytes, model, size) == 0;
	free(bytes);
	return same;
}

/* Puts the first places into a random order, each once. */
static void shuffle(uint32_t place[PLACES], uint32_t places)
{
	for (uint32_t i = 0; i < places; i++)
		place[i] = i;
	for (uint32_t i = 0; i < CLIENTS * AT_ONCE; i++) {
		uint32_t k = i + (uint32_t)rand_below(&rnd, places - i), was = place[i];

		place[i] = place[k];
		place[k] = was;
	}
}

/* One round; `parts` of 16 are not of whole blocks, of which so many of 4 are `small`. */
static void round_of(uint32_t places, uint32_t parts, uint32_t small)
{
	uint32_t place[PLACES];

	shuffle(place, places);
	for (uint32_t i = 0; i < CLIENTS * AT_ONCE; i++) {
		uint64_t at = (uint64_t)place[i] * PIECE;
		uint32_t length = PIECE;

		if (rand_below(&rnd, 16) < parts) {
			uint32_t skip = (uint32_t)rand_below(&rnd, PIECE / 2);

			at += skip;
			length = PIECE - skip - (uint32_t)rand_below(&rnd, PIECE / 3);
			if (rand_below(&rnd, 4) < small)
				length = 1 + length % APP_TAIL_WRITE;
		}
		submit(i % CLIENTS, i / CLIENTS, at, length);
	}
	for (uint32_t c = 0; c < CLIENTS; c++)
		weka_flush(client[c]);
	for (uint32_t c = 0; c < CLIENTS; c++)
		reap(c);
}

static uint64_t waits(void)
{
	struct app_core_stat stat;

	app_rig_stat(&rig, &stat);
	return stat.busy_file_waits;
}

/* Those of other blocks, whole or not. */
Test(app_write, none_waits_for_another)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		round_of(i < ROUNDS / 2 ? 16 + i * 4 : PLACES, i % 2 ? 0 : 6, 0);
		for (uint32_t c = 0; c < CLIENTS; c++)
			for (uint32_t k = 0; k < AT_ONCE; k++)
				cr_assert_leq(req[c][k].length_bytes, model_bytes);
		cr_assert(is_as_written(), "round %u", i);
	}
	cr_assert_eq(waits(), 0);
}

Test(app_write, small_ones_between_them_find_what_is_there)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		round_of(i < ROUNDS / 2 ? 16 + i * 4 : PLACES, 10, 1);
		cr_assert(is_as_written(), "round %u", i);
	}
	cr_assert_gt(waits(), 0);
}

/* When a client writes the same blocks twice, the later write stays; also after one that crosses a
 * multiple of 4 MiB, which is two changes of the store and so takes longer. */
Test(app_write, what_came_later_stays)
{
	const uint64_t at = (4 << 20) - PIECE / 2;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		submit(0, 0, at, PIECE);
		for (uint32_t k = 1; k < AT_ONCE; k++)
			submit(0, k, at + PIECE - k * 4096, 4096);
		weka_flush(client[0]);
		reap(0);
		cr_assert(is_as_written(), "round %u", i);
	}
}
