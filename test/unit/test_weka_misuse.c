/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mistakes of a program that uses libweka-client: each gets an error and a line in weka_error(),
 * and the client works on.
 */
#include "test/lib/client_seen.h"
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/num.h"
#include "client-lib/client_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client, *other;
static struct weka_options options;
static struct weka_key key;
static struct weka_lease *lease;
static struct weka_window window;
static struct weka_req req;
static struct weka_handle handle;
static struct weka_ref ref;
static struct weka_attr attr;

static struct weka_client *connected(void)
{
	struct weka_client *c;

	cr_assert_eq(weka_connect(server.address, &key, &options, &c), 0, "%s", weka_error(NULL));
	return c;
}

static void set_up(void)
{
	script_init(&server);
	script_add(&server, "a", 10000);
	script_start(&server, "shm");
	key = (struct weka_key){ .secret = server.cfg.key.secret };
	options = (struct weka_options){
		.size_bytes = sizeof(options),
		.pool_bytes = 4 << 20,
		.requests_max = 4,
		.batches_max = 1,
		.batch_items_max = 8,
		.leases_max = 8,
		.opens_max = 1,
	};
	client = connected();
	other = connected();
	cr_assert_eq(weka_lease(client, 1 << 20, &lease), 0);
	window = (struct weka_window){ lease, 0, 1 << 20 };
	ref = weka_ref_path("a");
	cr_assert_eq(weka_stat(client, "a", &attr), 0, "%s", weka_error(client));
	handle = attr.handle;
}

/* The client is well: a mistake has left nothing behind. */
static void tear_down(void)
{
	if (client) {
		atomic_store(&server.silent, 0);
		cr_assert_eq(weka_stat(client, "a", &attr), 0, "%s", weka_error(client));
	}
	weka_close(client);
	weka_close(other);
	client = other = NULL;
	script_destroy(&server);
}

TestSuite(weka_misuse, .init = set_up, .fini = tear_down, .timeout = 60);

/* The call answers `err`, and its line says `text`.  A line of another call is no line. */
#define MISTAKE(call, err, text)                                                                   \
	do {                                                                                       \
		(void)!weka_stat(client, "stale", &attr);                                          \
		cr_assert_eq((call), (err), "%s: %s", #call, weka_error(client));                  \
		cr_assert(strstr(weka_error(client), (text)), "%s: \"%s\" does not say \"%s\"",    \
			  #call, weka_error(client), (text));                                      \
	} while (0)

static struct weka_window at(uint64_t offset_bytes, uint64_t size_bytes)
{
	return (struct weka_window){ lease, offset_bytes, size_bytes };
}

/* Waits for cancelled requests: each has a slot until the appliance has let go. */
static void idle(void)
{
	struct weka_req *done;

	while (weka_stat(client, "a", &attr) == -EAGAIN)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
}

/* ---- requests --------------------------------------------------------------------------- */

Test(weka_misuse, a_request_that_is_submitted_twice_is_busy)
{
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	MISTAKE(weka_submit_ping(client, &req), -EBUSY, "in flight");
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &window), -EBUSY, "in flight");
	MISTAKE(weka_submit_ping(other, &req) ? weka_submit_ping(client, &req) : 0, -EBUSY,
		"in flight");
	cr_assert_eq(weka_submit_ping(other, &req), -EBUSY);
	cr_assert(strstr(weka_error(other), "another client"), "%s", weka_error(other));
	cr_assert_eq(weka_cancel(client, &req), 0);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, -ECANCELED);
}

Test(weka_misuse, a_request_that_was_not_reaped_is_busy)
{
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	MISTAKE(weka_submit_ping(client, &req), -EBUSY, "not reaped");
	cr_assert_eq(weka_cancel(client, &req), 0); /* too late */
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(reap_one(client), &req);
}

Test(weka_misuse, a_request_that_is_cleared_in_flight_is_left_alone)
{
	struct weka_req *done;

	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(weka_flush(client), 0);
	req = (struct weka_req){ .timeout_ns = NS_PER_MS };
	MISTAKE(weka_cancel(client, &req), -EINVAL, "not in flight");
	while (weka_wait(client, NS_PER_MS) == -ETIMEDOUT)
		;
	cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_eq(weka_wait(client, NS_PER_MS), -ENOENT, "it is over");
	cr_assert_eq(req.status, 0);
}

Test(weka_misuse, a_request_that_is_cleared_before_it_is_reaped_is_named)
{
	struct weka_req more = { 0 }, *done;

	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	req = (struct weka_req){ 0 };
	MISTAKE(weka_reap(client, &done, 1), -EINVAL, "before it was reaped");
	cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_eq(weka_submit_ping(client, &more), 0);
	cr_assert_eq(reap_one(client), &more);
}

Test(weka_misuse, a_request_that_was_not_zeroed_is_refused)
{
	memset(&req, 0xa5, sizeof(req));
	MISTAKE(weka_submit_ping(client, &req), -EINVAL, "not zeroed");
	MISTAKE(weka_cancel(client, &req), -EINVAL, "not in flight");
	memset(&req, 1, sizeof(req)); /* looks like one that is in flight */
	cr_assert_lt(weka_submit_ping(client, &req), 0);
	cr_assert_lt(weka_cancel(client, &req), 0);
	req = (struct weka_req){ 0 };
	MISTAKE(weka_cancel(client, &req), -EINVAL, "not in flight");
	req.reserved[1] = 1;
	MISTAKE(weka_submit_ping(client, &req), -EINVAL, "zeroed");
	req.reserved[1] = 0;
}

Test(weka_misuse, a_request_of_another_client_is_not_cancelled)
{
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(other, &req), 0);
	MISTAKE(weka_cancel(client, &req), -EINVAL, "this client");
	cr_assert_eq(weka_cancel(other, &req), 0);
	cr_assert_eq(reap_one(other), &req);
}

Test(weka_misuse, too_many_requests_are_told_so)
{
	struct weka_req more[5] = { 0 };
	struct weka_stat_item items[8] = { { .ref = ref }, { .ref = ref } };

	atomic_store(&server.silent, 1ull << FAB_PING);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(weka_submit_ping(client, &more[i]), 0);
	cr_assert_eq(weka_submit_ping(client, &more[4]), -EAGAIN);
	cr_assert(strstr(weka_error(client), "4 requests"), "%s", weka_error(client));
	cr_assert_eq(weka_stat(client, "a", &attr), -EAGAIN);
	cr_assert(strstr(weka_error(client), "4 requests"), "%s", weka_error(client));
	for (int i = 0; i < 4; i++)
		cr_assert_eq(weka_cancel(client, &more[i]), 0);
	for (int i = 0; i < 4; i++)
		cr_assert_not_null(reap_one(client));
	idle();
	MISTAKE(weka_submit_stat(client, &req, items, 0, NULL), -EINVAL, "no items");
	MISTAKE(weka_submit_stat(client, &req, items, 9, NULL), -EMSGSIZE, "at most 8");
	atomic_store(&server.silent, 1ull << FAB_STAT);
	cr_assert_eq(weka_submit_stat(client, &more[0], items, 2, NULL), 0);
	cr_assert_eq(weka_submit_stat(client, &req, items, 2, NULL), -EAGAIN);
	cr_assert(strstr(weka_error(client), "batches_max"), "%s", weka_error(client));
	cr_assert_eq(weka_cancel(client, &more[0]), 0);
	cr_assert_eq(reap_one(client), &more[0]);
}

/* ---- memory ------------------------------------------------------------------------------ */

Test(weka_misuse, a_lease_is_released_once_and_to_its_client)
{
	struct weka_lease *mine, local = { 0 };

	cr_assert_eq(weka_lease(client, 4096, &mine), 0);
	cr_assert_eq(weka_release(client, mine), 0);
	MISTAKE(weka_release(client, mine), -ESTALE, "released before");
	MISTAKE(weka_release(client, &local), -EINVAL, "not a lease");
	MISTAKE(weka_release(client, (struct weka_lease *)(void *)((char *)lease + 8)), -EINVAL,
		"not a lease");
	MISTAKE(weka_release(other, lease) == -EINVAL ? weka_release(client, &local) : 0, -EINVAL,
		"not a lease");
	cr_assert_eq(weka_release(client, NULL), 0);
}

Test(weka_misuse, leases_that_cannot_be_had_say_why)
{
	struct weka_lease *more[8];
	int n = 0;

	MISTAKE(weka_lease(client, 0, &more[0]), -EINVAL, "no bytes");
	MISTAKE(weka_lease(client, UINT64_MAX, &more[0]), -EMSGSIZE, "the pool has");
	MISTAKE(weka_lease(client, 4 << 20, &more[0]), -EAGAIN, "4194304");
	MISTAKE(weka_lease(client, 4096, NULL), -EINVAL, "out is NULL");
	while (weka_lease(client, 4096, &more[n]) == 0)
		n++;
	cr_assert_eq(n, 7);
	cr_assert(strstr(weka_error(client), "8 leases"), "%s", weka_error(client));
	while (n > 0)
		cr_assert_eq(weka_release(client, more[--n]), 0);
}

Test(weka_misuse, windows_that_cannot_be_are_named)
{
	struct weka_window w = at(1, 4096);
	struct weka_lease local = { .size_bytes = 1 << 20 };

	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &w), -EINVAL, "multiples");
	w = at(0, 4097);
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &w), -EINVAL, "multiples");
	w = at(1 << 20, 4096);
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &w), -EINVAL, "its lease has");
	w = at(4096, 1 << 20);
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &w), -EINVAL, "its lease has");
	w = at(UINT64_MAX - 4095, 8192);
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &w), -EINVAL, "its lease has");
	w = at(0, 1ull << 40);
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 100, &w), -EMSGSIZE, "at most");
	w = at(0, 0);
	MISTAKE(weka_submit_status(client, &req, &w), -EINVAL, "0 bytes");
	w.lease = NULL;
	MISTAKE(weka_submit_status(client, &req, &w), -EINVAL, "lease");
	w = (struct weka_window){ &local, 0, 4096 };
	MISTAKE(weka_submit_status(client, &req, &w), -EINVAL, "this client");
	cr_assert_eq(weka_submit_status(other, &req, &window), -EINVAL);
	cr_assert(strstr(weka_error(other), "this client"), "%s", weka_error(other));
	cr_assert_eq(weka_release(client, lease), 0);
	MISTAKE(weka_submit_status(client, &req, &window), -ESTALE, "released");
}

Test(weka_misuse, a_window_that_is_still_lent_is_busy)
{
	atomic_store(&server.silent, 1ull << FAB_STATUS);
	atomic_store(&server.deaf_to_cancels, true);
	cr_assert_eq(weka_submit_status(client, &req, &window), 0);
	cr_assert(are_held(&server, client, 1));
	cr_assert_eq(weka_cancel(client, &req), 0);
	cr_assert_eq(reap_one(client), &req);
	MISTAKE(weka_submit_status(client, &req, &window), -EBUSY, "let go");
}

Test(weka_misuse, lengths_that_overflow_are_refused)
{
	char byte = 0;

	MISTAKE(weka_submit_read(client, &req, &handle, UINT64_MAX, 100, &window), -EINVAL,
		"range");
	MISTAKE(weka_submit_read(client, &req, &handle, 0, UINT32_MAX, &window), -EMSGSIZE,
		"too small");
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 0, &window), -EINVAL, "length of 0");
	MISTAKE(weka_submit_write(client, &req, &handle, 0, UINT32_MAX, 0, &window), -EMSGSIZE,
		"WEKA_WRITE_MAX");
	MISTAKE(weka_submit_write(client, &req, &handle, 0, 1 << 20, 0, &window), -EMSGSIZE,
		"too small");
	MISTAKE(weka_submit_write(client, &req, &handle, 0, 1, ~0u, &window), -EINVAL, "flags");
	MISTAKE(weka_submit_punch(client, &req, &handle, 1, INT64_MAX), -EFBIG, "beyond");
	MISTAKE(weka_submit_truncate(client, &req, &handle, UINT64_MAX), -EFBIG, "beyond");
	MISTAKE(weka_submit_seek(client, &req, &handle, UINT64_MAX, 0), -ENXIO, "so long");
	MISTAKE(weka_pread(client, &handle, &byte, SIZE_MAX, 1), -EINVAL, "range");
	MISTAKE(weka_pwrite(client, &handle, &byte, SIZE_MAX / 2, UINT64_MAX - 7), -EFBIG, "range");
	MISTAKE(weka_append(client, &handle, &byte, SIZE_MAX), -EINVAL, "range");
	cr_assert_eq(weka_wait(client, 0), -ENOENT); /* none of them is in flight */
}

/* ---- names, items, pointers ------------------------------------------------------------------ */

Test(weka_misuse, items_that_cannot_be_are_named)
{
	struct weka_read_item reads[2] = { { .ref = ref, .length_bytes = 1 }, { .ref = ref } };
	struct weka_put_item puts[2] = { { .ref = ref }, { .ref = ref, .window_at = 1 } };
	struct weka_unlink_item names[2] = { { .ref = ref }, { .ref = weka_ref_handle(&handle) } };
	struct weka_stat_item stats[2] = { { .ref = ref }, { .ref = ref } };

	MISTAKE(weka_submit_read_batch(client, &req, reads, 2, &window), -EINVAL, "item 1");
	MISTAKE(weka_submit_read_batch(client, &req, NULL, 2, &window), -EINVAL, "items is NULL");
	MISTAKE(weka_submit_put(client, &req, puts, 2, &window), -EINVAL, "in the window");
	MISTAKE(weka_submit_put(client, &req, NULL, 2, &window), -EINVAL, "items is NULL");
	MISTAKE(weka_submit_unlink_batch(client, &req, names, 2, NULL), -EINVAL, "item 1");
	MISTAKE(weka_submit_unlink_batch(client, &req, NULL, 2, NULL), -EINVAL, "items is NULL");
	MISTAKE(weka_submit_stat(client, &req, NULL, 2, NULL), -EINVAL, "items is NULL");
	MISTAKE(weka_unlink_batch(client, NULL, 2), -EINVAL, "items is NULL");
	stats[1].ref.name = NULL;
	MISTAKE(weka_submit_stat(client, &req, stats, 2, NULL), -EINVAL, "item 1");
	stats[1].ref = weka_ref_handle(NULL);
	MISTAKE(weka_submit_stat(client, &req, stats, 2, NULL), -EINVAL, "item 1");
	cr_assert_eq(weka_wait(client, 0), -ENOENT); /* none of them is in flight */
}

Test(weka_misuse, reserved_fields_are_zero)
{
	struct weka_read_item item = { .ref = ref, .length_bytes = 1 };
	struct weka_stat_item stat = { .ref = ref };
	struct weka_create create = { .mode = 0644, .reserved = { 1 } };
	struct weka_setattr set = { .reserved = { 0, 1 } };
	struct weka_client *none;

	item.reserved[0] = 1;
	MISTAKE(weka_submit_read_batch(client, &req, &item, 1, &window), -EINVAL, "item 0");
	stat.ref.reserved0 = 1;
	MISTAKE(weka_submit_stat(client, &req, &stat, 1, NULL), -EINVAL, "item 0");
	MISTAKE(weka_submit_mkdir(client, &req, &ref, &create, NULL), -EINVAL, "reserved");
	MISTAKE(weka_write_file(client, "b", "b", 1, &create), -EINVAL, "item 0");
	MISTAKE(weka_submit_setattr(client, &req, &ref, &set), -EINVAL, "reserved");
	options.reserved[6] = 1;
	cr_assert_eq(weka_connect(server.address, &key, &options, &none), -EINVAL);
	cr_assert(strstr(weka_error(NULL), "not 0"), "%s", weka_error(NULL));
	options.reserved[6] = 0;
	key.reserved[0] = 1;
	cr_assert_eq(weka_connect(server.address, &key, &options, &none), -EINVAL);
	cr_assert(strstr(weka_error(NULL), "not 0"), "%s", weka_error(NULL));
	key.reserved[0] = 0;
}

Test(weka_misuse, pointers_that_are_missing_are_named)
{
	struct weka_create create = { .mode = 0644 };
	struct weka_cookie cookie = { 0 };
	struct weka_entry entry;
	struct weka_req *done;
	struct weka_dir *dir;
	char text[8];
	void *bytes;

	MISTAKE(weka_submit_ping(client, NULL), -EINVAL, "request is NULL");
	MISTAKE(weka_submit_read(client, &req, NULL, 0, 1, &window), -EINVAL, "handle is NULL");
	MISTAKE(weka_submit_read(client, &req, &handle, 0, 1, NULL), -EINVAL, "window is NULL");
	MISTAKE(weka_submit_write(client, &req, NULL, 0, 1, 0, &window), -EINVAL, "handle is NULL");
	MISTAKE(weka_submit_open(client, &req, NULL, 0, NULL, &attr), -EINVAL, "ref is NULL");
	MISTAKE(weka_submit_open(client, &req, &ref, WEKA_CREATE, NULL, &attr), -EINVAL, "create");
	MISTAKE(weka_submit_put_begin(client, &req, &ref, NULL, 1, &attr), -EINVAL, "create");
	MISTAKE(weka_submit_put_begin(client, &req, &ref, &create, 1, NULL), -EINVAL, "attr");
	MISTAKE(weka_submit_put_commit(client, &req, NULL, 1), -EINVAL, "handle is NULL");
	MISTAKE(weka_submit_list(client, &req, &ref, &cookie, NULL, 1, &window), -EINVAL,
		"entries");
	MISTAKE(weka_submit_list(client, &req, &ref, NULL, &entry, 1, &window), -EINVAL, "cookie");
	MISTAKE(weka_submit_statfs(client, &req, NULL), -EINVAL, "out is NULL");
	MISTAKE(weka_submit_totals(client, &req, &ref, NULL), -EINVAL, "out is NULL");
	MISTAKE(weka_submit_setattr(client, &req, &ref, NULL), -EINVAL, "set is NULL");
	MISTAKE(weka_submit_rename(client, &req, &ref, NULL, 0), -EINVAL, "to is NULL");
	MISTAKE(weka_submit_unlink(client, &req, NULL), -EINVAL, "ref is NULL");
	MISTAKE(weka_submit_symlink(client, &req, &ref, NULL, &create, NULL), -EINVAL, "target");
	MISTAKE(weka_submit_getxattr(client, &req, &ref, NULL, &window), -EINVAL, "name is NULL");
	MISTAKE(weka_submit_setxattr(client, &req, &ref, "user.a", NULL, 1, 0), -EINVAL, "value");
	MISTAKE(weka_reap(client, NULL, 1), -EINVAL, "done is NULL");
	MISTAKE(weka_cancel(client, NULL), -EINVAL, "req is NULL");
	MISTAKE(weka_close_file(client, NULL), -EINVAL, "handle is NULL");
	MISTAKE(weka_close_file(client, &handle), -EBADF, "not open");
	MISTAKE(weka_get_limits(client, NULL), -EINVAL, "out is NULL");
	MISTAKE(weka_get_counters(client, NULL), -EINVAL, "out is NULL");
	MISTAKE(weka_stat(client, NULL, &attr), -EINVAL, "name");
	MISTAKE(weka_open(client, "a", 0, 0, NULL), -EINVAL, "attr");
	MISTAKE(weka_read_file(client, "a", &bytes, NULL), -EINVAL, "size_bytes is NULL");
	MISTAKE(weka_write_file(client, "b", NULL, 1, NULL), -EINVAL, "bytes is NULL");
	MISTAKE(weka_pread(client, NULL, text, 1, 0), -EINVAL, "handle is NULL");
	MISTAKE(weka_pwrite(client, &handle, NULL, 1, 0), -EINVAL, "bytes is NULL");
	MISTAKE(weka_put_fd(client, NULL, 0, 1, NULL), -EINVAL, "ref is NULL");
	MISTAKE(weka_get_fd(client, NULL, 0), -EINVAL, "ref is NULL");
	MISTAKE(weka_readlink(client, "a", NULL, 1), -EINVAL, "target is NULL");
	MISTAKE(weka_status(client, NULL), -EINVAL, "text is NULL");
	MISTAKE(weka_statfs(client, NULL), -EINVAL, "out is NULL");
	MISTAKE(weka_drain(client, NULL), -EINVAL, "name");
	MISTAKE(weka_getxattr(client, "a", NULL, text, 8), -EINVAL, "name is NULL");
	MISTAKE(weka_listxattr(client, "a", NULL, 8), -EINVAL, "NULL");
	MISTAKE(weka_list(client, NULL, &dir), -EINVAL, "dir is NULL");
	cr_assert_eq(weka_list_next(NULL, &entry), -EINVAL);
	cr_assert(strstr(weka_error(NULL), "NULL"), "%s", weka_error(NULL));
	weka_list_end(NULL);
	MISTAKE(weka_submit_mkdir(client, &req, &(struct weka_ref){ 0 }, &create, NULL), -EINVAL,
		"no kind");
	cr_assert_eq(weka_reap(client, &done, 1), 0);
}

Test(weka_misuse, a_client_that_is_none_is_refused)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };
	struct weka_client *none;
	struct weka_lease *got;
	struct weka_req *done;

	cr_assert_eq(weka_submit_ping(NULL, &req), -EINVAL);
	cr_assert(strstr(weka_error(NULL), "client is NULL"), "%s", weka_error(NULL));
	cr_assert_eq(weka_lease(NULL, 4096, &got), -EINVAL);
	cr_assert_eq(weka_release(NULL, lease), -EINVAL);
	cr_assert_eq(weka_reap(NULL, &done, 1), -EINVAL);
	cr_assert_eq(weka_wait(NULL, 0), -EINVAL);
	cr_assert_eq(weka_arm(NULL), -EINVAL);
	cr_assert_eq(weka_fd(NULL), -EINVAL);
	cr_assert_eq(weka_flush(NULL), -EINVAL);
	cr_assert_eq(weka_cancel(NULL, &req), -EINVAL);
	cr_assert_eq(weka_get_limits(NULL, &limits), -EINVAL);
	cr_assert_eq(weka_stat(NULL, "a", &attr), -EINVAL);
	cr_assert_eq(weka_pread(NULL, &handle, &attr, 1, 0), -EINVAL);
	cr_assert_eq(weka_connect(NULL, &key, &options, &none), -EINVAL);
	cr_assert(strstr(weka_error(NULL), "addresses is NULL"), "%s", weka_error(NULL));
	cr_assert_eq(weka_connect(server.address, &key, &options, NULL), -EINVAL);
	cr_assert(strstr(weka_error(NULL), "out is NULL"), "%s", weka_error(NULL));
	weka_close(NULL);
}

Test(weka_misuse, open_files_beyond_the_limit_say_so)
{
	struct weka_attr first, second;

	cr_assert_eq(weka_open(client, "a", 0, 0, &first), 0, "%s", weka_error(client));
	MISTAKE(weka_open(client, "a", 0, 0, &second), -EMFILE, "opens_max");
	MISTAKE(weka_open(client, "a", ~0u, 0, &second), -EINVAL, "flags");
	cr_assert_eq(weka_close_file(client, &first.handle), 0);
	MISTAKE(weka_close_file(client, &first.handle), -EBADF, "not open");
}

Test(weka_misuse, waiting_for_nothing_says_so)
{
	MISTAKE(weka_wait(client, WEKA_FOREVER), -ENOENT, "no request");
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(weka_wait(client, NS_PER_MS), -ETIMEDOUT);
	cr_assert(strstr(weka_error(client), "nothing came"), "%s", weka_error(client));
	cr_assert_eq(weka_cancel(client, &req), 0);
	cr_assert_eq(reap_one(client), &req);
}

Test(weka_misuse, a_pool_larger_than_what_is_granted_is_an_error)
{
	struct weka_client *none;

	options.pool_bytes = 8ull << 30;
	cr_assert_eq(weka_connect(server.address, &key, &options, &none), -ENOSPC);
	cr_assert(strstr(weka_error(NULL), "session_pools_max"), "%s", weka_error(NULL));
}

/* ---- too late, elsewhere, twice ----------------------------------------------------------- */

Test(weka_misuse, a_closed_client_is_stale)
{
	struct weka_client *gone = other;
	struct weka_lease *got;

	weka_close(other);
	other = NULL;
	cr_assert_eq(weka_submit_ping(gone, &req), -ESTALE);
	cr_assert(strstr(weka_error(gone), "closed"), "%s", weka_error(gone));
	cr_assert_eq(weka_lease(gone, 4096, &got), -ESTALE);
	cr_assert_eq(weka_release(gone, lease), -ESTALE);
	cr_assert_eq(weka_stat(gone, "a", &attr), -ESTALE);
	weka_close(gone);
	cr_assert(strstr(weka_error(gone), "closed"), "%s", weka_error(gone));
}

Test(weka_misuse, a_forked_client_is_stale_and_says_so)
{
	pid_t pid = fork();
	int status;

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		bool good = weka_stat(client, "a", &attr) == -ESTALE &&
			    strstr(weka_error(client), "fork") &&
			    weka_submit_ping(client, &req) == -ESTALE &&
			    weka_release(client, lease) == -ESTALE;

		weka_close(client);
		_exit(good ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static void *stat_elsewhere(void *arg)
{
	struct weka_attr out;
	int *err = arg;

	*err = weka_stat(client, "a", &out);
	if (*err == -EBUSY && !strstr(weka_error(client), "another thread"))
		*err = -ENOMSG;
	return NULL;
}

Test(weka_misuse, a_client_may_go_from_thread_to_thread)
{
	for (int i = 0; i < 100; i++) {
		pthread_t thread;
		int err = 1;

		cr_assert_eq(pthread_create(&thread, NULL, stat_elsewhere, &err), 0);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert_eq(err, 0);
		cr_assert_eq(weka_stat(client, "a", &attr), 0, "%s", weka_error(client));
	}
}

Test(weka_misuse, a_second_thread_is_busy_while_the_first_waits)
{
	pthread_t thread;
	int err = 1;

	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(pthread_create(&thread, NULL, stat_elsewhere, &err), 0);
	for (int i = 0; i < 1000 && __atomic_load_n(&err, __ATOMIC_RELAXED) == 1; i++)
		cr_assert_lt(weka_wait(client, NS_PER_MS), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert(err == -EBUSY || err == 0, "%d", err);
	cr_assert_eq(weka_cancel(client, &req), 0);
	cr_assert_eq(reap_one(client), &req);
}

static _Atomic int stop_crowd;

static void *crowd(void *arg)
{
	uint64_t *turns = arg;
	struct weka_lease *got;
	struct weka_attr out;

	while (!atomic_load(&stop_crowd)) {
		int err = weka_stat(client, "a", &out);

		cr_assert(err == 0 || err == -EBUSY, "%d: %s", err, weka_error(client));
		__atomic_fetch_add(&turns[err == 0], 1, __ATOMIC_RELAXED);
		if (weka_lease(client, 4096, &got) == 0)
			while (weka_release(client, got) == -EBUSY)
				;
		(void)weka_flush(client);
	}
	return NULL;
}

static uint64_t served(uint64_t turns[4][2])
{
	uint64_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += __atomic_load_n(&turns[i][1], __ATOMIC_RELAXED);
	return sum;
}

Test(weka_misuse, many_threads_in_one_client_get_busy_and_nothing_worse)
{
	uint64_t turns[4][2] = { { 0 } };
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, crowd, turns[i]), 0);
	do /* they may have to wait for a processor */
		usleep(500000);
	while (served(turns) == 0);
	atomic_store(&stop_crowd, 1);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
}

static volatile sig_atomic_t in_handler = 1;

/* The first signals may come before the call, and some when it does not sleep yet. */
static void on_alarm(int signal)
{
	struct weka_req *done;

	(void)signal;
	if (in_handler != -EBUSY)
		in_handler = weka_reap(client, &done, 1);
}

Test(weka_misuse, a_signal_handler_in_the_middle_of_a_call_is_busy)
{
	const struct itimerval soon = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 };
	struct sigaction act = { .sa_handler = on_alarm };

	cr_assert_eq(sigaction(SIGALRM, &act, NULL), 0);
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(setitimer(ITIMER_REAL, &soon, NULL), 0);
	cr_assert_eq(weka_wait(client, 60 * NS_PER_S), -EINTR);
	cr_assert_eq(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL), 0);
	cr_assert_eq(in_handler, -EBUSY);
	cr_assert(strstr(weka_error(client), "a signal came"), "%s", weka_error(client));
	cr_assert_eq(weka_cancel(client, &req), 0);
	cr_assert_eq(reap_one(client), &req);
}

static void *wait_for_long(void *arg)
{
	(void)arg;
	(void)!weka_wait(client, 60 * NS_PER_S);
	return NULL;
}

static void *stat_other(void *arg)
{
	struct weka_attr out;

	*(int *)arg = weka_stat(other, "a", &out);
	return NULL;
}

/* Its client stays busy; the next thread has nothing to do with that. */
Test(weka_misuse, a_thread_that_is_cancelled_in_a_call_harms_no_other)
{
	pthread_t thread;
	int err = 1;

	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_long, NULL), 0);
	usleep(50000);
	cr_assert_eq(pthread_cancel(thread), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(pthread_create(&thread, NULL, stat_other, &err), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(err, 0);
	cr_assert_eq(weka_stat(client, "a", &attr), -EBUSY);
	client = NULL;
}

static _Atomic int watch_errno;

/* The library's epoll watches those of its connections: only that fails. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	char path[64], what[64] = { 0 };

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (op == EPOLL_CTL_ADD && atomic_load(&watch_errno) &&
	    readlink(path, what, sizeof(what) - 1) > 0 && strstr(what, "eventpoll")) {
		errno = atomic_load(&watch_errno);
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

Test(weka_misuse, a_kernel_that_watches_no_more_is_an_error)
{
	struct weka_client *c;
	struct weka_req more = { 0 };

	atomic_store(&watch_errno, ENOSPC);
	c = connected(); /* it looks again and again */
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(c, &more), 0);
	cr_assert_eq(weka_arm(c), -ENOSPC);
	cr_assert(strstr(weka_error(c), "max_user_watches"), "%s", weka_error(c));
	cr_assert_eq(weka_wait(c, NS_PER_S), -ENOSPC);
	cr_assert_eq(weka_stat(c, "a", &attr), 0, "%s", weka_error(c));
	atomic_store(&watch_errno, 0);
	cr_assert_eq(weka_wait(c, NS_PER_MS), -ETIMEDOUT);
	weka_close(c);
}

/* The program closes a descriptor of the library. */
Test(weka_misuse, a_descriptor_that_was_closed_is_an_error)
{
	struct weka_req more = { 0 };
	int fd = weka_fd(other);

	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_geq(fd, 0);
	cr_assert_eq(close(fd), 0);
	cr_assert_eq(weka_submit_ping(other, &more), 0);
	cr_assert_eq(weka_wait(other, NS_PER_S), -EBADF);
	cr_assert(strstr(weka_error(other), "weka_fd"), "%s", weka_error(other));
	cr_assert_eq(weka_stat(other, "a", &attr), 0, "%s", weka_error(other));
	cr_assert_eq(weka_cancel(other, &more), 0);
	weka_close(other);
	other = NULL;
}
