/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The calls that wait, over both transports. */
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/num.h"
#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client;

static void start(const char *transport, uint64_t pool_bytes)
{
	struct weka_key key = { .secret = server.cfg.key.secret };
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = pool_bytes };

	script_start(&server, transport);
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
}

static void set_up(void)
{
	script_init(&server);
	script_add(&server, "a", 10000);
	script_add(&server, "big", 9000001);
	script_add(&server, "empty", 0);
}

static void tear_down(void)
{
	struct weka_counters c = { .size_bytes = sizeof(c) };

	cr_assert_eq(weka_get_counters(client, &c), 0);
	cr_assert_eq(c.pool_used_bytes, 0, "leases were leaked");
	weka_close(client);
	client = NULL;
	script_destroy(&server);
}

TestSuite(weka_sync, .init = set_up, .fini = tear_down, .timeout = 100);

#define TEST_BOTH(name)                                                                            \
	static void name(void);                                                                    \
	Test(weka_sync, name##_shm)                                                                \
	{                                                                                          \
		start("shm", 32 << 20);                                                            \
		name();                                                                            \
	}                                                                                          \
	Test(weka_sync, name##_tcp)                                                                \
	{                                                                                          \
		start("tcp", 32 << 20);                                                            \
		name();                                                                            \
	}                                                                                          \
	static void name(void)

static char *made(const char *name, size_t bytes)
{
	char *p = malloc(bytes + 1);
	size_t i;

	for (i = 0; i < bytes; i++)
		p[i] = (char)script_byte(name, i);
	return p;
}

static void assert_file(const char *name, const char *bytes, size_t size)
{
	const struct script_file *f = script_find(&server, name);

	cr_assert_not_null(f, "%s", name);
	cr_assert_eq(f->size_bytes, size, "%s has %zu bytes", name, (size_t)f->size_bytes);
	cr_assert_eq(memcmp(f->bytes, bytes, size), 0, "%s differs", name);
}

/* ---- whole files ------------------------------------------------------------------------- */

static void files_of_any_size_come_back(void)
{
	static const size_t sizes[] = {
		0, 1, 4096, 65536, 300000, 4 << 20, (4 << 20) + 1, 9000001
	};
	size_t i, size;
	char *bytes = made("w", 9000001);
	void *got;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		cr_assert_eq(weka_write_file(client, "w", bytes, sizes[i], NULL), 0, "%zu: %s",
			     sizes[i], weka_error(client));
		assert_file("w", bytes, sizes[i]);
		cr_assert_eq(weka_read_file(client, "w", &got, &size), 0, "%zu: %s", sizes[i],
			     weka_error(client));
		cr_assert_eq(size, sizes[i]);
		cr_assert_eq(memcmp(got, bytes, size), 0);
		cr_assert_eq(((char *)got)[size], 0);
		free(got);
	}
	free(bytes);
}

TEST_BOTH(whole_files_are_written_and_read)
{
	struct weka_create create = { .mode = 0600, .flags = WEKA_EXCL };
	size_t size;
	void *got;

	files_of_any_size_come_back();
	cr_assert_eq(script_find(&server, "w")->mode & 07777, 0644);
	cr_assert_eq(weka_write_file(client, "w", "x", 1, &create), -EEXIST);
	cr_assert_str_eq(weka_error(client), "put w: File exists");
	cr_assert_eq(weka_read_file(client, "nothing", &got, &size), -ENOENT);
	cr_assert_str_eq(weka_error(client), "read nothing: No such file or directory");
}

Test(weka_sync, a_small_pool_makes_smaller_pieces)
{
	char *bytes = made("w", 3000000);
	size_t size;
	void *got;

	start("shm", 2 << 20);
	cr_assert_eq(weka_read_file(client, "big", &got, &size), 0, "%s", weka_error(client));
	cr_assert_eq(size, 9000001);
	cr_assert_eq(memcmp(got, script_find(&server, "big")->bytes, size), 0);
	free(got);
	/* A write that must be atomic and does not fit is refused, not split. */
	cr_assert_eq(weka_write_file(client, "w", bytes, 3000000, NULL), -EMSGSIZE);
	cr_assert_eq(weka_write_file(client, "w", bytes, 1000000, NULL), 0, "%s",
		     weka_error(client));
	assert_file("w", bytes, 1000000);
	free(bytes);
}

TEST_BOTH(descriptors_are_put_and_got)
{
	struct weka_ref big = weka_ref_path("big"), copy = weka_ref_path("copy");
	struct weka_create create = { .mode = 0755, .flags = WEKA_MTIME_GIVEN, .mtime_ns = 12345 };
	const struct script_file *f = script_find(&server, "big");
	char path[] = "/tmp/weka-sync-XXXXXX", *bytes = malloc(f->size_bytes);
	int fd = mkstemp(path);

	(void)unlink(path);
	cr_assert_eq(weka_get_fd(client, &big, fd), (int64_t)f->size_bytes, "%s",
		     weka_error(client));
	cr_assert_eq(pread(fd, bytes, f->size_bytes, 0), (ssize_t)f->size_bytes);
	cr_assert_eq(memcmp(bytes, f->bytes, f->size_bytes), 0);

	cr_assert_eq(weka_put_fd(client, &copy, fd, f->size_bytes, &create), 0, "%s",
		     weka_error(client));
	assert_file("copy", bytes, f->size_bytes);
	cr_assert_eq(script_find(&server, "copy")->mtime_ns, 12345);
	cr_assert_eq(script_find(&server, "copy")->mode & 07777, 0755);

	/* A source that is shorter than was said: an error, and no such file. */
	copy = weka_ref_path("short");
	cr_assert_eq(weka_put_fd(client, &copy, fd, f->size_bytes + 1, NULL), -ENODATA);
	cr_assert_null(script_find(&server, "short"));
	free(bytes);
	close(fd);
}

TEST_BOTH(pieces_are_read_and_written_anywhere)
{
	struct weka_attr attr;
	char *bytes = made("p", 5000000), *back = malloc(5000000);

	cr_assert_eq(weka_open(client, "p", WEKA_CREATE, 0644, &attr), 0);
	cr_assert_eq(weka_pwrite(client, &attr.handle, bytes, 4999999, 1), 4999999, "%s",
		     weka_error(client));
	cr_assert_eq(weka_pread(client, &attr.handle, back, 5000000, 0), 5000000);
	cr_assert_eq(back[0], 0);
	cr_assert_eq(memcmp(back + 1, bytes, 4999999), 0);
	cr_assert_eq(weka_pread(client, &attr.handle, back, 100, 4999990), 10);
	cr_assert_eq(weka_pread(client, &attr.handle, back, 100, 6000000), 0);
	cr_assert_eq(weka_pread(client, &attr.handle, back, 0, 0), 0);
	cr_assert_eq(weka_truncate(client, &attr.handle, 100), 0);
	cr_assert_eq(weka_append(client, &attr.handle, "end", 3), 3);
	cr_assert_eq(weka_stat(client, "p", &attr), 0);
	cr_assert_eq(attr.size_bytes, 103);
	cr_assert_eq(weka_open(client, "p", WEKA_CREATE | WEKA_EXCL, 0644, &attr), -EEXIST);
	cr_assert_eq(weka_open(client, "p", WEKA_TRUNC, 0, &attr), 0);
	cr_assert_eq(attr.size_bytes, 0);
	free(bytes);
	free(back);
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST_BOTH(names_are_made_moved_and_removed)
{
	struct weka_setattr set = { .mask = WEKA_SET_MODE | WEKA_SET_MTIME,
				    .mode = 0400,
				    .mtime_ns = 77 };
	struct weka_ref a = weka_ref_path("a");
	struct weka_attr attr;
	char target[16];

	cr_assert_eq(weka_mkdir(client, "d", 0755), 0);
	cr_assert_eq(weka_mkdir(client, "d", 0755), -EEXIST);
	cr_assert_eq(weka_stat(client, "d", &attr), 0);
	cr_assert(S_ISDIR(attr.mode) && attr.dir != 0);
	cr_assert_eq(weka_symlink(client, "a/target", "l"), 0);
	cr_assert_eq(weka_readlink(client, "l", target, sizeof(target)), 8);
	cr_assert_str_eq(target, "a/target");
	cr_assert_eq(weka_readlink(client, "l", target, 8), -ERANGE);
	cr_assert_eq(weka_readlink(client, "a", target, 8), -EINVAL);
	cr_assert_eq(weka_lstat(client, "l", &attr), 0);
	cr_assert(S_ISLNK(attr.mode));
	cr_assert_eq(weka_setattr(client, &a, &set), 0);
	cr_assert_eq(weka_stat(client, "a", &attr), 0);
	cr_assert_eq(attr.mode & 07777, 0400);
	cr_assert_eq(attr.mtime_ns, 77);
	cr_assert_eq(weka_link(client, "a", "b"), 0);
	cr_assert_eq(weka_link(client, "a", "b"), -EEXIST);
	cr_assert_not_null(strstr(weka_error(client), "link b"), "%s", weka_error(client));
	cr_assert_eq(weka_link(client, "d", "c"), -EPERM);
	cr_assert_eq(weka_remove(client, "b"), 0);
	cr_assert_eq(weka_rename(client, "a", "l"), 0);
	cr_assert_eq(weka_stat(client, "a", &attr), -ENOENT);
	cr_assert_eq(weka_unlink(client, "d"), -EISDIR);
	cr_assert_eq(weka_rmdir(client, "l"), -ENOTDIR);
	cr_assert_eq(weka_remove(client, "d"), 0);
	cr_assert_eq(weka_remove(client, "l"), 0);
	cr_assert_eq(weka_remove(client, "l"), -ENOENT);
}

TEST_BOTH(a_listing_shows_every_name_once)
{
	struct weka_ref root = weka_ref_path("/");
	uint8_t seen[1000] = { 0 };
	struct weka_entry entry;
	struct weka_dir *dir;
	char name[64];
	int i, err, others = 0;

	for (i = 0; i < 1000; i++) {
		/* Lengths that end just so, and just not, at a multiple of eight. */
		snprintf(name, sizeof(name), "n%0*d", 3 + i % 17, i);
		script_add(&server, name, (uint64_t)i);
	}
	cr_assert_eq(weka_list(client, &root, &dir), 0, "%s", weka_error(client));
	while ((err = weka_list_next(dir, &entry)) == 1) {
		cr_assert_eq(strlen(entry.name), entry.name_bytes);
		if (sscanf(entry.name, "n%d", &i) != 1) {
			others++;
			continue;
		}
		cr_assert_eq(seen[i]++, 0);
		cr_assert_eq(entry.attr.size_bytes, (uint64_t)i);
	}
	cr_assert_eq(err, 0);
	cr_assert_eq(others, 3);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(seen[i], 1);
	weka_list_end(dir);
}

TEST_BOTH(the_appliance_says_how_it_is)
{
	struct weka_statfs fs;
	char *text;

	cr_assert_eq(weka_statfs(client, &fs), 0);
	cr_assert_eq(fs.total_bytes, 1 << 30);
	cr_assert_eq(fs.shard_count, 64);
	cr_assert_eq(weka_status(client, &text), 0, "%s", weka_error(client));
	cr_assert_str_eq(text, "{\"up\":true}");
	free(text);
}

TEST_BOTH(many_names_are_looked_up_at_once)
{
	struct weka_stat_item items[20] = { 0 };
	struct weka_window w = { .size_bytes = 4096 };
	struct weka_req req = { 0 }, *done;
	int i;

	for (i = 0; i < 20; i++)
		items[i].ref = weka_ref_path(i % 2 ? "a" : "nothing");
	cr_assert_eq(weka_submit_stat(client, &req, items, 20, NULL), -EMSGSIZE);
	cr_assert_eq(weka_lease(client, 4096, &w.lease), 0);
	cr_assert_eq(weka_submit_stat(client, &req, items, 20, &w), 0);
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, 0);
	for (i = 0; i < 20; i++) {
		cr_assert_eq(items[i].status, i % 2 ? 0 : -ENOENT);
		if (i % 2)
			cr_assert_eq(items[i].attr.size_bytes, 10000);
	}
	weka_release(client, w.lease);
}

/* In round trips of 256, whatever their number. */
TEST_BOTH(many_names_are_removed_at_once)
{
	static struct weka_unlink_item items[600];
	static char names[600][8];
	struct weka_attr attr;
	uint32_t i;

	for (i = 0; i < 600; i++) {
		snprintf(names[i], sizeof(names[i]), i % 3 ? "n%u" : "u%u", i);
		items[i] = (struct weka_unlink_item){ .ref = weka_ref_path(names[i]), .status = 1 };
		if (i % 3 == 0)
			cr_assert_eq(weka_write_file(client, names[i], "x", 1, NULL), 0);
	}
	cr_assert_eq(weka_unlink_batch(client, items, 600), -ENOENT);
	for (i = 0; i < 600; i++)
		cr_assert_eq(items[i].status, i % 3 ? -ENOENT : 0, "%u: %d", i, items[i].status);
	cr_assert_eq(weka_stat(client, "u597", &attr), -ENOENT);
	cr_assert_eq(weka_unlink_batch(client, items, 0), 0);
	cr_assert_eq(weka_write_file(client, names[3], "x", 1, NULL), 0);
	cr_assert_eq(weka_unlink_batch(client, &items[3], 1), 0);
	items[1].ref = weka_ref_handle(&attr.handle);
	cr_assert_eq(weka_unlink_batch(client, items, 2), -EINVAL); /* nothing was asked */
	cr_assert_eq(items[0].status, -EINVAL);
}

/* 256 of them are more than the body of a request holds. */
TEST_BOTH(many_long_names_are_removed_at_once)
{
	static struct weka_unlink_item items[300];
	static char names[300][2000];
	struct weka_attr attr;
	uint32_t i, at;

	for (i = 0; i < 300; i++) {
		for (at = 0; at < 1900; at += 2)
			memcpy(&names[i][at], "./", 2);
		snprintf(&names[i][at], sizeof(names[i]) - at, i % 100 ? "n%u" : "u%u", i);
		items[i] = (struct weka_unlink_item){ .ref = weka_ref_path(names[i]), .status = 1 };
		if (i % 100 == 0)
			cr_assert_eq(weka_write_file(client, names[i], "x", 1, NULL), 0);
	}
	cr_assert_eq(weka_unlink_batch(client, items, 300), -ENOENT);
	for (i = 0; i < 300; i++)
		cr_assert_eq(items[i].status, i % 100 ? -ENOENT : 0, "%u: %d", i, items[i].status);
	cr_assert_eq(weka_stat(client, names[200], &attr), -ENOENT);
}

TEST_BOTH(more_names_than_a_reply_holds_need_a_window)
{
	static struct weka_unlink_item items[300];
	struct weka_window w = { .size_bytes = 4096 };
	struct weka_req req = { 0 }, *done;
	uint32_t i;

	for (i = 0; i < 300; i++)
		items[i].ref = weka_ref_path(i == 299 ? "a" : "nothing");
	cr_assert_eq(weka_submit_unlink_batch(client, &req, items, 300, NULL), -EMSGSIZE);
	cr_assert_eq(weka_submit_unlink_batch(client, &req, items, 0, NULL), -EINVAL);
	cr_assert_eq(weka_lease(client, 4096, &w.lease), 0);
	cr_assert_eq(weka_submit_unlink_batch(client, &req, items, 300, &w), 0);
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, 0);
	for (i = 0; i < 300; i++)
		cr_assert_eq(items[i].status, i == 299 ? 0 : -ENOENT);
	weka_release(client, w.lease);
}

TEST_BOTH(what_is_in_flight_stays_to_be_reaped)
{
	struct weka_req ping = { 0 }, *done;
	struct weka_attr attr;

	cr_assert_eq(weka_submit_ping(client, &ping), 0);
	cr_assert_eq(weka_stat(client, "a", &attr), 0);
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(done, &ping);
}
