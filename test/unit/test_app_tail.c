/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that grow by small appends: what the drives are given for it, and what becomes of the last
 * bytes, which lie in the index until a block is full.  A core, a control thread, a memory drive,
 * a client of libweka-client over shared memory.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/weka_client.h"
#include "meta/meta_internal.h"
#include "test/lib/app_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct weka_client *client;
static uint8_t bytes[256 << 10], back[256 << 10];
static uint8_t large[4 << 20];

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 16 << 20,
				       .ops_max = 64 } };

static void begin(void)
{
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251 + 1);
}

static void end(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(app_tail, .init = begin, .fini = end, .timeout = 120);

static uint64_t counter(const char *name)
{
	char quoted[64], *text, *at;
	uint64_t value;

	snprintf(quoted, sizeof(quoted), "\"%s\":", name);
	cr_assert_eq(weka_status(client, &text), 0);
	at = strstr(text, quoted);
	cr_assert_not_null(at, "%s", name);
	value = strtoull(at + strlen(quoted), NULL, 10);
	free(text);
	return value;
}

enum { FILES = 48, APPEND = 100, ROUNDS = 410 };

static struct weka_attr attr[FILES];
static struct weka_req req[FILES];

static void make_files(uint32_t count)
{
	char path[32];

	for (uint32_t i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/log%u", i);
		cr_assert_eq(weka_open(client, path, WEKA_CREATE, 0644, &attr[i]), 0, "%s",
			     weka_error(client));
	}
}

/* Appends the next part of `bytes`, from `at` on, to each of `count` files, all at once. */
static void append_round(struct weka_lease *lease, uint32_t count, size_t at)
{
	struct weka_req *done[FILES];
	uint32_t reaped = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct weka_window w = { lease, i * 4096ull, 4096 };

		memcpy((char *)lease->data + i * 4096ull, bytes + at, APPEND);
		cr_assert_eq(weka_submit_write(client, &req[i], &attr[i].handle, 0, APPEND,
					       WEKA_APPEND, &w),
			     0);
	}
	while (reaped < count) {
		int n = weka_reap(client, done, FILES);

		for (int i = 0; i < n; i++)
			cr_assert_eq(done[i]->status, 0, "%d", done[i]->status);
		reaped += (uint32_t)n;
	}
}

/* Drive bytes for each byte appended, by `count` files at once. */
static double amplification(uint32_t count)
{
	struct weka_lease *lease;
	uint64_t before;

	cr_assert_eq(weka_lease(client, FILES * 4096, &lease), 0);
	make_files(count);
	before = counter("drive_written");
	for (uint32_t i = 0; i < ROUNDS; i++)
		append_round(lease, count, (size_t)i * APPEND);
	before = counter("drive_written") - before;
	weka_release(client, lease);
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_eq(weka_pread(client, &attr[i].handle, back, sizeof(back), 0),
			     ROUNDS * APPEND, "%s", weka_error(client));
		cr_assert_eq(memcmp(back, bytes, (size_t)ROUNDS * APPEND), 0);
	}
	printf("%u at once: %.0f bytes to the drive for an append of %d\n", count,
	       (double)before / ROUNDS / count, APPEND);
	return (double)before / ((double)ROUNDS * count * APPEND);
}

Test(app_tail, small_appends_do_not_write_a_block_each)
{
	cr_assert_lt(amplification(FILES), 15);
}

/* It writes only the log block that the client waits for, and the one that vouches for it. */
Test(app_tail, a_lonely_append_writes_no_block_beside_the_log)
{
	cr_assert_lt(amplification(1), 100);
}

static void fill(struct rand_state *r, uint8_t *to, size_t size_bytes)
{
	for (size_t i = 0; i < size_bytes; i++)
		to[i] = (uint8_t)(rand_u64(r) | 1); /* never 0: a hole cannot pass for it */
}

/* Around the end, in small pieces: where tails come, grow, are cut, become blocks and stay behind.
 */
static void change(struct rand_state *r, const struct weka_handle *h, size_t *size)
{
	size_t length = 1 + rand_below(r, rand_below(r, 4) ? 700 : 5000), at;
	int64_t rc;

	switch (rand_below(r, 8)) {
	case 0:
		at = rand_below(r, *size + 6000);
		at = min_u64(rand_below(r, 3) ? at : at / 4096 * 4096, sizeof(bytes));
		cr_assert_eq(weka_truncate(client, h, at), 0, "to %zu: %s", at, weka_error(client));
		memset(bytes + at, 0, sizeof(bytes) - at);
		*size = at;
		return;
	case 1 ... 2:
		at = rand_below(r, *size + 5000);
		break;
	case 3:
		length = 4096 - *size % 4096; /* exactly full */
		at = *size;
		break;
	default:
		at = *size;
	}
	if (at + length > sizeof(bytes))
		return;
	fill(r, bytes + at, length);
	rc = at == *size && rand_below(r, 2) ? weka_append(client, h, bytes + at, length)
					     : weka_pwrite(client, h, bytes + at, length, at);
	cr_assert_eq(rc, (int64_t)length, "%zu bytes at %zu of %zu: %s", length, at, *size,
		     weka_error(client));
	*size = max_u64(*size, at + length);
}

static void compare(const char *path, const struct weka_handle *h, size_t size, size_t from)
{
	size_t got_size;
	int64_t got = weka_pread(client, h, back, sizeof(back), from);
	void *whole;

	cr_assert_eq(got, size > from ? (int64_t)(size - from) : 0, "%lld of %zu: %s",
		     (long long)got, size, weka_error(client));
	for (size_t i = from; i < size; i++)
		cr_assert_eq(back[i - from], bytes[i], "byte %zu of %zu", i, size);
	cr_assert_eq(weka_read_file(client, path, &whole, &got_size), 0, "%s", weka_error(client));
	cr_assert_eq(got_size, size);
	cr_assert_eq(memcmp(whole, bytes, size), 0);
	free(whole);
}

Test(app_tail, changes_around_the_end_do_what_a_model_does)
{
	struct rand_state r;
	char path[32];

	for (uint32_t round = 0; round < test_runs(12); round++) {
		size_t size = 0;

		rand_seed(&r, 300 + round);
		snprintf(path, sizeof(path), "/f%u", round);
		cr_assert_eq(weka_open(client, path, WEKA_CREATE, 0644, attr), 0);
		memset(bytes, 0, sizeof(bytes));
		for (uint32_t i = 0; i < 150; i++) {
			change(&r, &attr->handle, &size);
			compare(path, &attr->handle, size, rand_below(&r, size + 1));
		}
	}
	cr_assert_gt(counter("inline"), 1000);
	cr_assert_eq(counter("payload_copied"), 0);
}

/* A byte of the tail goes bad in memory: nobody reads it as good, nobody makes a new sum over it.
 */
Test(app_tail, a_bad_byte_of_it_is_noticed)
{
	static const char mark[] = "a text that is nowhere else in memory";
	struct meta *m = app_core_meta(rig.run.core);
	uint8_t *at = m->conf.memory, *const stop = at + m->conf.memory_bytes;
	uint32_t found = 0;

	make_files(1);
	cr_assert_eq(weka_append(client, &attr->handle, bytes, 1000), 1000);
	cr_assert_eq(weka_append(client, &attr->handle, bytes, 100), 100);
	cr_assert_eq(weka_append(client, &attr->handle, mark, sizeof(mark)), sizeof(mark));
	cr_assert_eq(weka_pread(client, &attr->handle, back, 10, 1100), 10);
	while ((at = memmem(at, (size_t)(stop - at), mark, sizeof(mark) - 1))) {
		at[3] ^= 1;
		found++;
	}
	cr_assert_gt(found, 0);
	cr_assert_eq(weka_pread(client, &attr->handle, back, 10, 1100), -EIO);
	cr_assert_eq(weka_append(client, &attr->handle, "more", 4), -EIO);
	cr_assert_eq(weka_truncate(client, &attr->handle, 1110), -EIO);
	cr_assert_eq(weka_truncate(client, &attr->handle, 0), 0);
	cr_assert_eq(weka_append(client, &attr->handle, "more", 4), 4);
}

/* Files of `size` until the store is full; returns how many. */
static uint32_t fill_store(const char *name, size_t size, uint32_t count_max)
{
	char path[32];
	int rc;

	for (uint32_t i = 0; i < count_max; i++) {
		snprintf(path, sizeof(path), "/%s%u", name, i);
		rc = weka_write_file(client, path, large, size, NULL);
		if (rc == -ENOSPC)
			return i;
		cr_assert_eq(rc, 0, "%s: %s", path, weka_error(client));
	}
	cr_assert(false, "it does not get full");
	return 0;
}

/* There is no block for what stays of the last one: it goes into the index. */
Test(app_tail, a_full_store_cuts_files_inside_blocks)
{
	static const size_t sizes[] = { (3 << 20) + 4095, (2 << 20) + 2000, 3000 };
	struct weka_attr a;

	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (uint8_t)(i * 11 + i / 257);
	cr_assert_gt(fill_store("a", sizeof(large), 1000), 3);
	(void)fill_store("b", 64 << 10, 1000);
	(void)fill_store("c", 4096, 10000);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		void *whole;
		size_t size;

		cr_assert_eq(weka_open(client, "/a1", 0, 0, &a), 0);
		cr_assert_eq(weka_truncate(client, &a.handle, sizes[i]), 0, "to %zu: %s", sizes[i],
			     weka_error(client));
		cr_assert_eq(weka_read_file(client, "/a1", &whole, &size), 0, "%s",
			     weka_error(client));
		cr_assert_eq(size, sizes[i]);
		cr_assert_eq(memcmp(whole, large, size), 0);
		free(whole);
	}
}
