/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A read that is planned more than once, since there was no staging for it: what it returns is
 * one version of its file, over both transports, with little staging and many who want it.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct weka_client *client;
static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };

struct way {
	char transport[8];
};
static struct way ways[] = { { "shm" }, { "tcp" } };

TestSuite(app_again, .timeout = 120);

enum { LARGE = 4 << 20, HOGS = 6 };

static void wait_all(uint32_t wanted)
{
	struct weka_req *done[16];

	while (wanted > 0) {
		int n = weka_reap(client, done, ARRAY_LEN(done));

		cr_assert_geq(n, 0);
		for (int i = 0; i < n; i++)
			cr_assert_eq(done[i]->status, 0, "%d", done[i]->status);
		wanted -= (uint32_t)n;
		if (n == 0)
			(void)!weka_wait(client, WEKA_FOREVER);
	}
}

struct grower {
	_Atomic bool stop;
	struct weka_handle handle;
	uint8_t *bytes;
	_Atomic uint32_t at; /* the version that was written last */
	_Atomic int err;
};

enum { GROWS = 4000, GROW_FIRST = 500, GROW_BY = 13 };

static size_t grown(uint32_t version)
{
	return GROW_FIRST + (size_t)version * GROW_BY;
}

/* Writes the whole file, longer each time, with other bytes: a change each. */
static void *grow(void *arg)
{
	struct grower *g = arg;
	struct weka_client *c = app_rig_connect(&rig);
	int64_t n;

	for (uint32_t v = 1; v < GROWS && !atomic_load(&g->stop); v++) {
		memset(g->bytes, (int)(v % 251), grown(v));
		n = weka_pwrite(c, &g->handle, g->bytes, grown(v), 0);
		if (n != (int64_t)grown(v))
			atomic_store_explicit(&g->err, n < 0 ? (int)n : -EIO, memory_order_relaxed);
		atomic_store_explicit(&g->at, v, memory_order_relaxed);
	}
	weka_close(c);
	return NULL;
}

/* The bytes and the length of a read must belong to one version. */
static void be_one_version(const uint8_t *bytes, uint64_t size_bytes)
{
	const uint32_t v = (uint32_t)(size_bytes - GROW_FIRST) / GROW_BY;

	cr_assert_geq(size_bytes, GROW_FIRST);
	cr_assert_eq(grown(v), size_bytes, "%llu bytes", (unsigned long long)size_bytes);
	for (uint64_t i = 0; i < size_bytes; i++)
		cr_assert_eq(bytes[i], v % 251, "byte %llu of %llu is version %u's",
			     (unsigned long long)i, (unsigned long long)size_bytes, bytes[i]);
}

ParameterizedTestParameters(app_again, a_growing_file_is_as_long_as_its_bytes_say)
{
	return cr_make_param_array(struct way, ways, 2);
}
ParameterizedTest(struct way *way, app_again, a_growing_file_is_as_long_as_its_bytes_say)
{
	struct grower g = { .bytes = calloc(1, 1 << 20) };
	struct weka_lease *lease[HOGS], *small[2];
	struct weka_req req[HOGS + 2] = { 0 };
	struct weka_window window;
	struct weka_read_item item = { 0 };
	struct weka_attr big, attr;
	int err;
	uint32_t rounds = 0;
	pthread_t thread;
	uint8_t *bytes = calloc(1, LARGE);

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_write_file(client, "/big", bytes, LARGE, NULL), 0);
	cr_assert_eq(weka_stat(client, "/big", &big), 0);
	cr_assert_eq(weka_write_file(client, "/grows", bytes, grown(0), NULL), 0);
	cr_assert_eq(weka_stat(client, "/grows", &attr), 0);
	g.handle = attr.handle;
	for (uint32_t i = 0; i < HOGS; i++)
		cr_assert_eq(weka_lease(client, weka_window_bytes(1, LARGE), &lease[i]), 0);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(weka_lease(client, 1 << 20, &small[i]), 0);
	cr_assert_eq(pthread_create(&thread, NULL, grow, &g), 0);
	while (rounds < 200 || atomic_load_explicit(&g.at, memory_order_relaxed) < 200) {
		for (uint32_t i = 0; i < HOGS; i++) {
			window = (struct weka_window){ lease[i], 0, weka_window_bytes(1, LARGE) };
			cr_assert_eq(
				weka_submit_read(client, &req[i], &big.handle, 0, LARGE, &window),
				0);
		}
		window = (struct weka_window){ small[0], 0, 1 << 20 };
		cr_assert_eq(weka_submit_read(client, &req[HOGS], &attr.handle, 0, 600000, &window),
			     0);
		window = (struct weka_window){ small[1], 0, 1 << 20 };
		item.ref = rounds % 2 ? weka_ref_path("/grows") : weka_ref_handle(&attr.handle);
		item.length_bytes = 600000;
		cr_assert_eq(weka_submit_read_batch(client, &req[HOGS + 1], &item, 1, &window), 0);
		wait_all(HOGS + 2);
		be_one_version(req[HOGS].data, req[HOGS].length_bytes);
		cr_assert_eq(item.status, 0, "%d", item.status);
		be_one_version(item.data, item.got_bytes);
		rounds++;
		if (atomic_load_explicit(&g.at, memory_order_relaxed) + 1 == GROWS)
			break;
	}
	atomic_store(&g.stop, true);
	pthread_join(thread, NULL);
	err = atomic_load_explicit(&g.err, memory_order_relaxed);
	cr_assert_eq(err, 0, "%d", err);
	for (uint32_t i = 0; i < HOGS; i++)
		weka_release(client, lease[i]);
	weka_release(client, small[0]);
	weka_release(client, small[1]);
	free(g.bytes);
	free(bytes);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}
