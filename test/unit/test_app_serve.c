/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The whole appliance but main(): a core's thread, a control thread, a memory drive, and clients of
 * libweka-client over both transports.  Reads must return the bytes of a model.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "test/lib/app_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 6 << 20 };

static struct weka_client *client;

struct way {
	char transport[8];
};
static struct way ways[] = { { "shm" }, { "tcp" } };

static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };

/* The clients are closed by then, or not: the appliance ends its sessions. */
static void end(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

static void fill(struct rand_state *r, uint8_t *bytes, size_t size_bytes)
{
	for (size_t i = 0; i < size_bytes; i++)
		bytes[i] = (uint8_t)(rand_u64(r) | 1); /* never 0: a hole cannot pass for it */
}

#define BOTH(test)                                                                                 \
	ParameterizedTestParameters(app_serve, test)                                               \
	{                                                                                          \
		return cr_make_param_array(struct way, ways, 2);                                   \
	}                                                                                          \
	ParameterizedTest(struct way *way, app_serve, test)

TestSuite(app_serve, .timeout = 120);

BOTH(whole_files_come_back_as_they_were_put)
{
	static const size_t sizes[] = {
		0,    1,      43,      511,           512,     513,           4095,   4096,
		4097, 100000, 1 << 20, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 5 << 20
	};
	uint8_t *bytes = malloc(FILE_MAX);
	struct rand_state r;
	char path[64];
	void *got;
	size_t size;

	client = app_rig_begin_over(&rig, way->transport);
	rand_seed(&r, 1);
	fill(&r, bytes, FILE_MAX);
	cr_assert_eq(weka_mkdir(client, "/d", 0755), 0, "%s", weka_error(client));
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		snprintf(path, sizeof(path), "/d/%zu", sizes[i]);
		cr_assert_eq(weka_write_file(client, path, bytes + i, sizes[i], NULL), 0, "%s: %s",
			     path, weka_error(client));
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		snprintf(path, sizeof(path), "d/%zu", sizes[i]);
		cr_assert_eq(weka_read_file(client, path, &got, &size), 0, "%s: %s", path,
			     weka_error(client));
		cr_assert_eq(size, sizes[i], "%s", path);
		cr_assert_eq(memcmp(got, bytes + i, size), 0, "%s", path);
		free(got);
	}
	free(bytes);
	end();
}

/* One random change; the model does the same. */
static void change(struct rand_state *r, const struct weka_handle *h, uint8_t *model, size_t *size,
		   uint8_t *bytes)
{
	uint64_t span = 1ull << (4 + rand_below(r, 19)); /* small files and large ones */
	size_t length = 1 + rand_below(r, min_u64(span, 1 << 20)), at = rand_below(r, span);
	int64_t rc;

	fill(r, bytes, length);
	switch (rand_below(r, 4)) {
	case 0:
		if (*size + length > FILE_MAX)
			return;
		rc = weka_append(client, h, bytes, length);
		memcpy(model + *size, bytes, length);
		*size += length;
		break;
	case 1:
		rc = weka_truncate(client, h, at);
		cr_assert_eq(rc, 0, "truncate to %zu: %s", at, weka_error(client));
		if (at < *size)
			memset(model + at, 0, *size - at);
		*size = at;
		return;
	default:
		if (at + length > FILE_MAX)
			return;
		rc = weka_pwrite(client, h, bytes, length, at);
		memcpy(model + at, bytes, length);
		*size = max_u64(*size, at + length);
	}
	cr_assert_eq(rc, (int64_t)length, "%zu bytes at %zu of %zu: %s", length, at, *size,
		     weka_error(client));
}

static void compare(const struct weka_handle *h, const uint8_t *model, size_t size, uint8_t *bytes)
{
	int64_t got = weka_pread(client, h, bytes, FILE_MAX, 0);

	cr_assert_eq(got, (int64_t)size, "%lld, %s", (long long)got, weka_error(client));
	for (size_t i = 0; i < size; i++)
		cr_assert_eq(bytes[i], model[i], "byte %zu of %zu", i, size);
}

BOTH(writes_appends_and_truncates_do_what_a_model_does)
{
	uint8_t *model = calloc(1, FILE_MAX), *bytes = malloc(FILE_MAX);
	struct weka_attr attr;
	struct rand_state r;
	size_t size = 0;
	char path[32];

	client = app_rig_begin_over(&rig, way->transport);
	for (uint32_t round = 0; round < test_runs(12); round++) {
		rand_seed(&r, 100 + round);
		snprintf(path, sizeof(path), "/f%u", round);
		cr_assert_eq(weka_open(client, path, WEKA_CREATE, 0644, &attr), 0, "%s",
			     weka_error(client));
		memset(model, 0, FILE_MAX);
		size = 0;
		for (uint32_t i = 0; i < 25; i++) {
			change(&r, &attr.handle, model, &size, bytes);
			if (i % 3 == 0)
				compare(&attr.handle, model, size, bytes);
		}
		compare(&attr.handle, model, size, bytes);
		cr_assert_eq(weka_unlink(client, path), 0);
	}
	free(model);
	free(bytes);
	end();
}

BOTH(small_changes_of_a_small_file_do_what_a_model_does)
{
	uint8_t *model = calloc(1, FILE_MAX), *bytes = malloc(FILE_MAX);
	struct weka_attr attr;
	struct rand_state r;
	size_t size = 0;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_open(client, "/s", WEKA_CREATE, 0644, &attr), 0);
	rand_seed(&r, 9);
	for (uint32_t i = 0; i < 400; i++) {
		size_t at = rand_below(&r, 700), length = 1 + rand_below(&r, 300);

		if (rand_below(&r, 3) == 0) {
			at = rand_below(&r, 4) ? at : 9000;
			cr_assert_eq(weka_truncate(client, &attr.handle, at), 0, "%s",
				     weka_error(client));
			if (at < size)
				memset(model + at, 0, size - at);
			size = at;
		} else {
			at += rand_below(&r, 8) ? 0 : 4096;
			fill(&r, bytes, length);
			cr_assert_eq(weka_pwrite(client, &attr.handle, bytes, length, at),
				     (int64_t)length, "%u: %s", i, weka_error(client));
			memcpy(model + at, bytes, length);
			size = max_u64(size, at + length);
		}
		compare(&attr.handle, model, size, bytes);
	}
	free(model);
	free(bytes);
	end();
}

enum { MANY = 600 };

BOTH(a_batch_reads_many_files_each_with_its_own_status)
{
	struct weka_read_item *items = calloc(MANY, sizeof(*items));
	uint8_t *bytes = malloc(8192);
	struct weka_window window;
	struct weka_lease *lease;
	struct weka_req req = { 0 }, *done;
	char(*name)[32] = calloc(MANY, sizeof(*name));
	struct weka_attr dir;
	struct rand_state r;

	client = app_rig_begin_over(&rig, way->transport);
	rand_seed(&r, 3);
	fill(&r, bytes, 8192);
	cr_assert_eq(weka_mkdir(client, "/b", 0755), 0);
	cr_assert_eq(weka_stat(client, "/b", &dir), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name[i], sizeof(name[i]), "file%u", i);
		char path[64];

		snprintf(path, sizeof(path), "/b/%s", name[i]);
		if (i % 7)
			cr_assert_eq(weka_write_file(client, path, bytes + i, i * 11 % 7000, NULL),
				     0);
		items[i].ref =
			i % 2 ? weka_ref_in(dir.dir, name[i]) : weka_ref_at(&dir.handle, name[i]);
		items[i].length_bytes = WEKA_TO_END;
	}
	cr_assert_eq(weka_lease(client, weka_window_bytes(MANY, 8192), &lease), 0);
	window = (struct weka_window){ lease, 0, weka_window_bytes(MANY, 8192) };
	for (uint32_t round = 0; round < test_runs(20); round++) {
		memset(lease->data, 0xee, window.size_bytes);
		cr_assert_eq(weka_submit_read_batch(client, &req, items, MANY, &window), 0);
		while (weka_reap(client, &done, 1) == 0)
			(void)!weka_wait(client, WEKA_FOREVER);
		cr_assert_eq(req.status, 0);
		for (uint32_t i = 0; i < MANY; i++) {
			cr_assert_eq(items[i].status, i % 7 ? 0 : -ENOENT, "%u: %d", i,
				     items[i].status);
			if (items[i].status)
				continue;
			cr_assert_eq(items[i].got_bytes, i * 11 % 7000);
			cr_assert_eq(memcmp(items[i].data, bytes + i, items[i].got_bytes), 0);
		}
	}
	weka_release(client, lease);
	free(items);
	free(bytes);
	free(name);
	end();
}

BOTH(what_does_not_fit_the_window_says_how_large_it_is)
{
	struct weka_read_item items[3] = { 0 };
	uint8_t *bytes = calloc(1, 100000);
	struct weka_window window;
	struct weka_lease *lease;
	struct weka_req req = { 0 }, *done;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_write_file(client, "/small", bytes, 5000, NULL), 0);
	cr_assert_eq(weka_write_file(client, "/large", bytes, 100000, NULL), 0);
	items[0].ref = weka_ref_path("/large");
	items[1].ref = weka_ref_path("/small");
	items[2].ref = weka_ref_path("/large");
	for (int i = 0; i < 3; i++)
		items[i].length_bytes = WEKA_TO_END;
	items[2].length_bytes = 3000;
	cr_assert_eq(weka_lease(client, 20480, &lease), 0);
	window = (struct weka_window){ lease, 0, 20480 };
	cr_assert_eq(weka_submit_read_batch(client, &req, items, 3, &window), 0);
	while (weka_reap(client, &done, 1) == 0)
		(void)!weka_wait(client, WEKA_FOREVER);
	cr_assert_eq(items[0].status, -EMSGSIZE);
	cr_assert_eq(items[0].got_bytes, 100000);
	cr_assert_eq(items[1].status, 0);
	cr_assert_eq(items[1].got_bytes, 5000);
	cr_assert_eq(items[2].status, 0);
	cr_assert_eq(items[2].got_bytes, 3000);
	weka_release(client, lease);
	free(bytes);
	end();
}

BOTH(names_are_made_listed_moved_and_removed)
{
	struct weka_client *other;
	struct weka_attr attr;
	struct weka_dir *dir;
	struct weka_entry entry;
	struct weka_ref root;
	char target[64], path[64];
	uint8_t seen[300] = { 0 };
	uint32_t n = 0;
	char *text;

	client = app_rig_begin_over(&rig, way->transport);
	other = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(client, "/a", 0750), 0);
	cr_assert_eq(weka_mkdir(other, "/a", 0750), -EEXIST, "seen by the other at once");
	for (uint32_t i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "/a/%u", i);
		cr_assert_eq(weka_write_file(client, path, path, strlen(path), NULL), 0);
	}
	root = weka_ref_path("/a");
	cr_assert_eq(weka_list(other, &root, &dir), 0);
	while (weka_list_next(dir, &entry) == 1) {
		cr_assert_eq(entry.attr.size_bytes, strlen(entry.name) + 3);
		seen[atoi(entry.name)]++;
		n++;
	}
	weka_list_end(dir);
	cr_assert_eq(n, 300);
	for (uint32_t i = 0; i < 300; i++)
		cr_assert_eq(seen[i], 1);
	cr_assert_eq(weka_rename(client, "/a/7", "/a/8"), 0);
	cr_assert_eq(weka_stat(other, "/a/7", &attr), -ENOENT);
	cr_assert_eq(weka_stat(other, "/a/8", &attr), 0);
	cr_assert_eq(attr.size_bytes, 4);
	cr_assert_eq(weka_symlink(client, "a/8", "/link"), 0);
	cr_assert_eq(weka_readlink(other, "/link", target, sizeof(target)), 3);
	cr_assert_str_eq(target, "a/8");
	cr_assert_eq(weka_stat(other, "/link", &attr), 0);
	cr_assert_eq(weka_rmdir(client, "/a"), -ENOTEMPTY);
	cr_assert_eq(weka_unlink(client, "/link"), 0);
	cr_assert_eq(weka_status(client, &text), 0, "%s", weka_error(client));
	cr_assert(strstr(text, "\"payload_copied\":0,"), "%s", text);
	free(text);
	weka_close(other);
	end();
}

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

enum { AT_ONCE = 12, LARGE = 4 << 20 };

BOTH(large_requests_at_once_share_little_staging)
{
	struct weka_req req[AT_ONCE] = { 0 };
	struct weka_lease *lease[AT_ONCE];
	struct weka_attr attr[AT_ONCE];
	struct weka_window window[AT_ONCE];
	struct rand_state r;
	char path[32];

	client = app_rig_begin_over(&rig, way->transport);
	rand_seed(&r, 5);
	for (uint32_t i = 0; i < AT_ONCE; i++) {
		uint32_t bytes = weka_window_bytes(1, LARGE + 4095);

		snprintf(path, sizeof(path), "/l%u", i);
		cr_assert_eq(weka_open(client, path, WEKA_CREATE, 0644, &attr[i]), 0);
		if (weka_lease(client, bytes, &lease[i])) {
			cr_assert_gt(i, 8, "a pool of 64 MiB");
			lease[i] = NULL;
			continue;
		}
		window[i] = (struct weka_window){ lease[i], 0, bytes };
		fill(&r, lease[i]->data, LARGE);
	}
	for (uint32_t round = 0; round < 3; round++) {
		uint32_t out = 0;

		for (uint32_t i = 0; i < AT_ONCE;
		     i++) /* unaligned: two changes each, 8 MiB pieces */
			if (lease[i] && ++out)
				cr_assert_eq(weka_submit_write(client, &req[i], &attr[i].handle,
							       5000 + round, LARGE, 0, &window[i]),
					     0);
		wait_all(out);
		out = 0;
		for (uint32_t i = 0; i < AT_ONCE; i++)
			if (lease[i] && ++out)
				cr_assert_eq(weka_submit_read(client, &req[i], &attr[i].handle,
							      8192, LARGE - 8192, &window[i]),
					     0);
		wait_all(out);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			if (lease[i])
				cr_assert_eq(req[i].length_bytes, LARGE - 8192);
	}
	for (uint32_t i = 0; i < AT_ONCE; i++)
		weka_release(client, lease[i]);
	end();
}

BOTH(bytes_that_changed_after_they_were_summed_are_refused)
{
	struct weka_put_item item = { .size_bytes = 9000 };
	struct weka_window window;
	struct weka_lease *lease;
	struct weka_req req = { 0 }, *done;
	struct weka_attr attr;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_lease(client, 65536, &lease), 0);
	window = (struct weka_window){ lease, 0, 65536 };
	memset(lease->data, 7, 9000);
	item.ref = weka_ref_path("/x");
	cr_assert_eq(weka_submit_put(client, &req, &item, 1, &window), 0);
	((char *)lease->data)[8999] = 8;
	while (weka_reap(client, &done, 1) == 0)
		(void)!weka_wait(client, WEKA_FOREVER);
	cr_assert_eq(item.status, -EBADMSG, "%d", item.status);
	cr_assert_eq(weka_stat(client, "/x", &attr), -ENOENT);
	cr_assert_eq(weka_open(client, "/x", WEKA_CREATE, 0644, &attr), 0);
	cr_assert_eq(weka_submit_write(client, &req, &attr.handle, 100, 9000, 0, &window), 0);
	((char *)lease->data)[0] = 9;
	while (weka_reap(client, &done, 1) == 0)
		(void)!weka_wait(client, WEKA_FOREVER);
	cr_assert_eq(req.status, -EBADMSG, "%d", req.status);
	cr_assert_eq(weka_stat(client, "/x", &attr), 0);
	cr_assert_eq(attr.size_bytes, 0);
	weka_release(client, lease);
	end();
}

/* To where a symlink leads, or, if it is said so, in its place. */
BOTH(a_put_follows_a_symlink_or_replaces_it)
{
	struct weka_put_item item[2] = { { .size_bytes = 100 }, { .size_bytes = 200 } };
	struct weka_window window;
	struct weka_lease *lease;
	struct weka_req req = { 0 }, *done;
	struct weka_attr attr;
	char text[8];

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_lease(client, 65536, &lease), 0);
	memset(lease->data, 7, 65536);
	cr_assert_eq(weka_symlink(client, "a", "/follow"), 0);
	cr_assert_eq(weka_symlink(client, "b", "/replace"), 0);
	window = (struct weka_window){ lease, 0, 65536 };
	item[0].ref = weka_ref_path("/follow");
	item[1].ref = weka_ref_path("/replace");
	item[1].ref.flags = WEKA_NOFOLLOW;
	item[1].window_at = 4096;
	cr_assert_eq(weka_submit_put(client, &req, item, 2, &window), 0);
	while (weka_reap(client, &done, 1) == 0)
		(void)!weka_wait(client, WEKA_FOREVER);
	cr_assert_eq(item[0].status, 0);
	cr_assert_eq(item[1].status, 0);
	cr_assert_eq(weka_readlink(client, "/follow", text, sizeof(text)), 1);
	cr_assert_eq(weka_stat(client, "/a", &attr), 0);
	cr_assert_eq(attr.size_bytes, 100);
	cr_assert_eq(weka_readlink(client, "/replace", text, sizeof(text)), -EINVAL);
	cr_assert_eq(weka_stat(client, "/replace", &attr), 0);
	cr_assert_eq(attr.size_bytes, 200);
	cr_assert_eq(weka_stat(client, "/b", &attr), -ENOENT);
	weka_release(client, lease);
	end();
}

BOTH(a_put_that_is_not_committed_vanishes_with_its_session)
{
	struct weka_client *other;
	struct weka_create create = { .mode = 0644 };
	struct weka_ref ref = weka_ref_path("/never");
	struct weka_req req = { 0 }, *done;
	struct weka_statfs before, after;
	struct weka_attr attr;
	uint8_t *bytes = calloc(1, 1 << 20);

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_write_file(client, "/first", bytes, 1 << 20, NULL), 0);
	cr_assert_eq(weka_statfs(client, &before), 0);
	other = app_rig_connect(&rig);
	cr_assert_eq(weka_submit_put_begin(other, &req, &ref, &create, 5 << 20, &attr), 0);
	while (weka_reap(other, &done, 1) == 0)
		(void)!weka_wait(other, WEKA_FOREVER);
	cr_assert_eq(req.status, 0, "%d", req.status);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(weka_pwrite(other, &attr.handle, bytes, 1 << 20, i << 20), 1 << 20);
	cr_assert_eq(weka_submit_put_commit(client, &req, &attr.handle, 5 << 20), 0);
	while (weka_reap(client, &done, 1) == 0)
		(void)!weka_wait(client, WEKA_FOREVER);
	cr_assert_eq(req.status, -ESTALE, "not this session's");
	weka_close(other);
	for (uint32_t tries = 0; tries < 500; tries++) {
		cr_assert_eq(weka_statfs(client, &after), 0);
		if (weka_pread(client, &attr.handle, bytes, 100, 0) == -ESTALE)
			break;
		usleep(10000);
	}
	cr_assert_eq(weka_pread(client, &attr.handle, bytes, 100, 0), -ESTALE);
	cr_assert_eq(weka_open(client, "/never", 0, 0, &attr), -ENOENT);
	free(bytes);
	end();
}

BOTH(a_stop_answers_what_is_open)
{
	struct weka_req req[16] = { 0 }, *done[16];
	struct weka_window window;
	struct weka_lease *lease;
	struct weka_attr attr;
	uint8_t bytes[4096] = { 1 };
	uint32_t wanted = 16, good = 0;
	struct app_core_stat stat;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_write_file(client, "/f", bytes, sizeof(bytes), NULL), 0);
	cr_assert_eq(weka_stat(client, "/f", &attr), 0);
	cr_assert_eq(weka_lease(client, 16 * 8192, &lease), 0);
	for (uint32_t i = 0; i < 16; i++) {
		window = (struct weka_window){ lease, i * 8192, 8192 };
		req[i].timeout_ns = 60 * NS_PER_S;
		memcpy((char *)lease->data + i * 8192, bytes, sizeof(bytes));
		cr_assert_eq(weka_submit_write(client, &req[i], &attr.handle, i * 4096, 4096, 0,
					       &window),
			     0);
	}
	do {
		weka_flush(client);
		app_rig_stat(&rig, &stat);
	} while (stat.requests[FAB_WRITE] < 16);
	app_rig_stop(&rig);
	while (wanted) {
		int n = weka_reap(client, done, 16);

		for (int i = 0; i < n; i++) {
			good += done[i]->status == 0;
			cr_assert(done[i]->status == 0 || done[i]->status == -ECONNRESET ||
					  done[i]->status == -ETIMEDOUT ||
					  done[i]->status == -ENOTCONN,
				  "%d", done[i]->status);
		}
		wanted -= (uint32_t)n;
		if (n == 0)
			(void)!weka_wait(client, 100000000);
	}
	cr_assert_eq(good, 16);
	end();
}

/* A peer that asks for a great deal over TCP and then reads nothing. */
static struct fab_conn *stall(const struct weka_attr *file)
{
	struct fab_connect_cfg cfg = { .address = fab_server_address(rig.srv, 0),
				       .key = { .id = "weka" } };
	static struct fab_call calls[20][64], *done[1];
	static uint32_t n;
	struct fab_region *region;
	struct fab_conn *conn;

	memcpy(cfg.key.secret, app_rig_secret, FAB_KEY_BYTES);
	cr_assert_eq(fab_connect(&conn, &cfg, clock_now_ns()), 0);
	while (fab_connect_step(conn, clock_now_ns()) == -EINPROGRESS)
		usleep(1000);
	cr_assert_eq(fab_conn_status(conn), 0);
	cr_assert_eq(fab_pool_add(conn, 8 << 20, &region), 0);
	while (fab_region_status(region) == -EINPROGRESS)
		cr_assert_eq(fab_poll(conn, clock_now_ns(), done, 1), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(calls[0]); i++) {
		calls[n][i] = (struct fab_call){ .type = FAB_READ,
						 .region = region,
						 .window_bytes = 5 << 20 };
		memcpy(calls[n][i].args.read.handle.bytes, file->handle.bytes, 16);
		calls[n][i].args.read.length_bytes = 4 << 20;
		if (fab_submit(conn, &calls[n][i]))
			break;
	}
	fab_flush(conn);
	n++;
	return conn;
}

Test(app_serve, one_who_does_not_read_what_he_asked_for_does_not_stop_the_others)
{
	struct way tcp = { "tcp" };
	struct fab_conn *stalled[2];
	uint8_t *bytes = calloc(1, 4 << 20);
	struct app_core_stat stat;
	struct weka_attr attr;

	client = app_rig_begin_over(&rig, tcp.transport);
	cr_assert_eq(weka_write_file(client, "/big", bytes, 4 << 20, NULL), 0);
	cr_assert_eq(weka_stat(client, "/big", &attr), 0);
	stalled[0] = stall(&attr);
	stalled[1] = stall(&attr);
	do
		app_rig_stat(&rig, &stat);
	while (stat.staging_waits == 0); /* they have all that they will get */
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(weka_write_file(client, "/other", bytes, 1 << 20, NULL), 0, "%s",
			     weka_error(client));
		cr_assert_eq(weka_pread(client, &attr.handle, bytes, 4 << 20, 0), 4 << 20, "%s",
			     weka_error(client));
	}
	fab_close(stalled[0]);
	fab_close(stalled[1]);
	free(bytes);
	end();
}

Test(app_serve, many_who_do_not_read_what_they_asked_for_do_not_stop_the_others)
{
	struct fab_conn *stalled[20];
	uint8_t *bytes = calloc(1, 4 << 20);
	struct fab_call *done[1];
	struct weka_attr attr;

	client = app_rig_begin_over(&rig, "tcp");
	cr_assert_eq(weka_write_file(client, "/big", bytes, 4 << 20, NULL), 0);
	cr_assert_eq(weka_stat(client, "/big", &attr), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(stalled); i++)
		stalled[i] = stall(&attr);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(weka_pread(client, &attr.handle, bytes, 4 << 20, 0), 4 << 20, "%s",
			     weka_error(client));
	/* They are still there: nobody had to be ended for that. */
	for (uint32_t i = 0; i < ARRAY_LEN(stalled); i++) {
		while (fab_poll(stalled[i], clock_now_ns(), done, 1) == 0)
			usleep(1000);
		cr_assert_eq(fab_conn_status(stalled[i]), 0);
		cr_assert_eq(done[0]->status, 0);
		fab_close(stalled[i]);
	}
	free(bytes);
	end();
}

struct replacer {
	_Atomic bool stop;
	uint8_t *bytes;
	size_t size_bytes;
	_Atomic uint32_t puts;
	_Atomic int err;
};

/* Puts files of one byte each, another every time, over one name. */
static void *replace(void *arg)
{
	struct replacer *r = arg;
	struct weka_client *c = app_rig_connect(&rig);
	uint32_t puts = 0;
	int err;

	while (!atomic_load(&r->stop)) {
		memset(r->bytes, 'a' + (int)(puts++ % 26), r->size_bytes);
		err = weka_write_file(c, "/torn", r->bytes, r->size_bytes, NULL);
		atomic_store_explicit(&r->err, err, memory_order_relaxed);
		atomic_store_explicit(&r->puts, puts, memory_order_relaxed);
	}
	weka_close(c);
	return NULL;
}

BOTH(a_file_that_is_replaced_while_it_is_read_is_one_or_the_other)
{
	struct replacer r = { .size_bytes = 9 << 20, .bytes = malloc(9 << 20) };
	struct weka_read_item item = { .length_bytes = WEKA_TO_END };
	struct weka_window window;
	struct weka_lease *lease;
	struct weka_req req = { 0 };
	pthread_t thread;
	int err;

	client = app_rig_begin_over(&rig, way->transport);
	memset(r.bytes, 'z', r.size_bytes);
	cr_assert_eq(weka_write_file(client, "/torn", r.bytes, r.size_bytes, NULL), 0);
	cr_assert_eq(weka_lease(client, 32 << 20, &lease), 0);
	window = (struct weka_window){ lease, 0, 32 << 20 };
	cr_assert_eq(pthread_create(&thread, NULL, replace, &r), 0);
	while (atomic_load_explicit(&r.puts, memory_order_relaxed) < 6 &&
	       atomic_load_explicit(&r.err, memory_order_relaxed) == 0) {
		const char *got;

		item.ref = weka_ref_path("/torn");
		cr_assert_eq(weka_submit_read_batch(client, &req, &item, 1, &window), 0);
		wait_all(1);
		if (item.status == -EMSGSIZE)
			continue; /* replaced so often that its window was used up */
		cr_assert_eq(item.status, 0, "%d", item.status);
		cr_assert_eq(item.got_bytes, r.size_bytes);
		got = item.data;
		cr_assert_eq(memcmp(got, got + 1, r.size_bytes - 1), 0, "two files in one");
	}
	atomic_store(&r.stop, true);
	pthread_join(thread, NULL);
	err = atomic_load_explicit(&r.err, memory_order_relaxed);
	cr_assert_eq(err, 0, "%d", err);
	weka_release(client, lease);
	free(r.bytes);
	end();
}

enum { CANCELS = 12 };

BOTH(what_is_cancelled_ends_and_the_rest_goes_on)
{
	static struct weka_read_item items[CANCELS][64];
	struct weka_req req[CANCELS] = { 0 }, *done[CANCELS];
	struct weka_lease *lease[CANCELS];
	uint32_t cancelled = 0, good = 0;
	uint8_t *bytes = calloc(1, 1 << 20);
	struct weka_window window;
	struct weka_attr attr;
	struct rand_state r;

	client = app_rig_begin_over(&rig, way->transport);
	rand_seed(&r, 11);
	cr_assert_eq(weka_write_file(client, "/c", bytes, 1 << 20, NULL), 0);
	cr_assert_eq(weka_stat(client, "/c", &attr), 0);
	for (uint32_t i = 0; i < CANCELS; i++)
		cr_assert_eq(weka_lease(client, 4 << 20, &lease[i]), 0);
	for (uint32_t round = 0; round < test_runs(30); round++) {
		uint32_t wanted = CANCELS;

		for (uint32_t i = 0; i < CANCELS; i++) {
			window = (struct weka_window){ lease[i], 0, 4 << 20 };
			for (uint32_t k = 0; k < 64; k++) {
				items[i][k].ref =
					k % 2 ? weka_ref_path("/c") : weka_ref_handle(&attr.handle);
				items[i][k].length_bytes = 60000;
			}
			if (i % 3 == 0)
				cr_assert_eq(weka_submit_read(client, &req[i], &attr.handle, 0,
							      1 << 20, &window),
					     0);
			else if (i % 3 == 1)
				cr_assert_eq(weka_submit_write(client, &req[i], &attr.handle, 0,
							       1 << 20, 0, &window),
					     0);
			else
				cr_assert_eq(weka_submit_read_batch(client, &req[i], items[i], 64,
								    &window),
					     0);
		}
		weka_flush(client);
		for (uint32_t i = 0; i < CANCELS; i++)
			if (rand_below(&r, 2))
				weka_cancel(client, &req[i]);
		while (wanted) {
			int n = weka_reap(client, done, CANCELS);

			for (int i = 0; i < n; i++) {
				cr_assert(done[i]->status == 0 || done[i]->status == -ECANCELED,
					  "%d", done[i]->status);
				good += done[i]->status == 0;
				cancelled += done[i]->status != 0;
			}
			wanted -= (uint32_t)n;
			if (n == 0)
				(void)!weka_wait(client, WEKA_FOREVER);
		}
		for (uint32_t i = 0; i < CANCELS; i++)
			weka_release(client, lease[i]);
		for (uint32_t i = 0; i < CANCELS; i++)
			while (weka_lease(client, 4 << 20, &lease[i]) == -EAGAIN)
				(void)!weka_reap(client, done, 1); /* until it is let go of */
	}
	cr_assert(good > 0 && cancelled > 0, "%u, %u", good, cancelled);
	for (uint32_t i = 0; i < CANCELS; i++)
		weka_release(client, lease[i]);
	free(bytes);
	end();
}
