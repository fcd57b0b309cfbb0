/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Requests of the client library, over both transports, against an appliance that does as it is
 * told. */
#include "test/lib/client_seen.h"
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client;
static struct weka_options options;

static void start(const char *transport)
{
	struct weka_key key = { .secret = server.cfg.key.secret };
	int err;

	script_start(&server, transport);
	options.size_bytes = sizeof(options);
	if (!options.pool_bytes)
		options.pool_bytes = 16 << 20;
	err = weka_connect(server.address, &key, &options, &client);
	cr_assert_eq(err, 0, "%s", weka_error(NULL));
}

static void set_up(void)
{
	script_init(&server);
	script_add(&server, "a", 10000);
	script_add(&server, "b", 4096);
	script_add(&server, "c", 0);
	script_add(&server, "big", 3 << 20);
	memset(&options, 0, sizeof(options));
}

static void tear_down(void)
{
	weka_close(client);
	client = NULL;
	script_destroy(&server);
}

TestSuite(weka_io, .init = set_up, .fini = tear_down, .timeout = 60);

/* Every test of this suite runs over both. */
#define TEST_BOTH(name)                                                                            \
	static void name(void);                                                                    \
	Test(weka_io, name##_shm)                                                                  \
	{                                                                                          \
		start("shm");                                                                      \
		name();                                                                            \
	}                                                                                          \
	Test(weka_io, name##_tcp)                                                                  \
	{                                                                                          \
		start("tcp");                                                                      \
		name();                                                                            \
	}                                                                                          \
	static void name(void)

static struct weka_window window_of(uint64_t bytes)
{
	struct weka_window w = { .size_bytes = align_up(bytes, WEKA_BLOCK) };

	cr_assert_eq(weka_lease(client, w.size_bytes, &w.lease), 0);
	return w;
}

static struct weka_handle handle_of(const char *name)
{
	struct weka_attr attr;

	cr_assert_eq(weka_open(client, name, 0, 0, &attr), 0, "%s", weka_error(client));
	return attr.handle;
}

static void assert_bytes(const char *name, const void *bytes, uint64_t from, uint64_t length)
{
	const unsigned char *b = bytes;
	uint64_t i;

	for (i = 0; i < length; i++)
		if (b[i] != script_byte(name, from + i))
			cr_assert_fail("%s differs at %zu", name, (size_t)(from + i));
}

static void wait_for(_Atomic uint32_t *count, uint32_t at_least)
{
	while (atomic_load(count) < at_least) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
		usleep(100);
	}
}

/* ---- reads --------------------------------------------------------------------------- */

TEST_BOTH(a_read_brings_the_bytes_that_were_asked_for)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
		uint32_t got;
	} cases[] = {
		{ 0, 4096, 4096 }, { 4096, 4096, 4096 }, { 8192, 4096, 1808 }, { 1, 1, 1 },
		{ 4095, 2, 2 },    { 100, 9000, 9000 },  { 9999, 100, 1 },     { 10000, 1, 0 },
		{ 12345, 100, 0 }, { 1000000, 100, 0 },
	};
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(16384);
	struct weka_req req = { .user = &w };
	size_t i;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		cr_assert_eq(
			weka_submit_read(client, &req, &a, cases[i].offset, cases[i].length, &w),
			0);
		cr_assert_eq(reap_one(client), &req);
		cr_assert_eq(req.status, 0);
		cr_assert_eq(req.length_bytes, cases[i].got, "case %zu: %zu", i,
			     (size_t)req.length_bytes);
		assert_bytes("a", req.data, cases[i].offset, cases[i].got);
		cr_assert_eq(req.user, &w);
	}
	cr_assert_gt(counters_of(client).blocks_checked, 0);
}

TEST_BOTH(a_long_read_has_its_checksums_in_the_window)
{
	struct weka_handle big = handle_of("big");
	struct weka_window w = window_of(weka_window_bytes(1, 1 << 20));
	struct weka_req req = { 0 };

	cr_assert_eq(weka_submit_read(client, &req, &big, 1 << 20, 1 << 20, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(req.length_bytes, 1 << 20);
	assert_bytes("big", req.data, 1 << 20, 1 << 20);
	cr_assert_eq(counters_of(client).blocks_checked, 256);
	w.size_bytes = 1 << 20;
	cr_assert_eq(weka_submit_read(client, &req, &big, 0, 1 << 20, &w), -EMSGSIZE);
}

TEST_BOTH(a_batch_has_a_status_for_each_file)
{
	struct weka_window w = window_of(weka_window_bytes(6, 10000));
	struct weka_handle b = handle_of("b");
	struct weka_read_item items[6] = {
		{ .ref = weka_ref_path("/a"), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_path("nothing"), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_handle(&b), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_in(7, "c"), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_at(&b, "big"), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_path("a"), .offset_bytes = 5000, .length_bytes = 3000 },
	};
	struct weka_req req = { 0 };

	cr_assert_eq(weka_submit_read_batch(client, &req, items, 6, &w), 0);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, 0);
	cr_assert_eq(items[0].status, 0);
	cr_assert_eq(items[0].got_bytes, 10000);
	assert_bytes("a", items[0].data, 0, 10000);
	cr_assert_eq(items[1].status, -ENOENT);
	cr_assert_null(items[1].data);
	cr_assert_eq(items[2].got_bytes, 4096);
	assert_bytes("b", items[2].data, 0, 4096);
	cr_assert_eq(items[3].status, 0);
	cr_assert_eq(items[3].got_bytes, 0);
	cr_assert_eq(items[4].status, -EMSGSIZE);
	cr_assert_eq(items[4].got_bytes, 3 << 20);
	cr_assert_eq(items[5].status, 0);
	cr_assert_eq(items[5].got_bytes, 3000);
	assert_bytes("a", items[5].data, 5000, 3000);
}

TEST_BOTH(a_batch_of_as_many_as_can_be_fits_the_window_that_the_library_names)
{
	uint32_t count = WEKA_BATCH_MAX, i;
	struct weka_window w = window_of(weka_window_bytes(count, 4096));
	struct weka_read_item *items = calloc(count, sizeof(*items));
	struct weka_req req = { 0 };

	for (i = 0; i < count; i++)
		items[i] = (struct weka_read_item){ .ref = weka_ref_path("b"),
						    .length_bytes = WEKA_TO_END };
	cr_assert_eq(weka_submit_read_batch(client, &req, items, count, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	for (i = 0; i < count; i++)
		cr_assert_eq(items[i].status, 0);
	assert_bytes("b", items[count - 1].data, 0, 4096);
	cr_assert_eq(weka_submit_read_batch(client, &req, items, count + 1, &w), -EMSGSIZE);
	free(items);
}

/* ---- checksums ------------------------------------------------------------------------- */

TEST_BOTH(a_block_that_was_wrong_once_is_asked_again)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(12288);
	struct weka_req req = { 0 };

	atomic_store(&server.lies, 1);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 10000, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	assert_bytes("a", req.data, 0, 10000);
	cr_assert_eq(atomic_load(&server.seen[FAB_READ]), 2);
	cr_assert_eq(counters_of(client).blocks_wrong, 1);
	cr_assert_eq(counters_of(client).blocks_lost, 0);
}

TEST_BOTH(a_block_that_is_wrong_twice_is_an_error)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(12288);
	struct weka_req req = { 0 };

	atomic_store(&server.lies, 1000);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 10000, &w), 0);
	cr_assert_eq(reap_one(client)->status, -EIO);
	cr_assert_eq(atomic_load(&server.seen[FAB_READ]), 2);
	cr_assert_eq(counters_of(client).blocks_lost, 3);
}

TEST_BOTH(in_a_batch_only_the_file_with_the_wrong_block_fails)
{
	struct weka_window w = window_of(weka_window_bytes(2, 10000));
	struct weka_read_item items[2] = {
		{ .ref = weka_ref_path("b"), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_path("a"), .length_bytes = WEKA_TO_END },
	};
	struct weka_req req = { 0 };

	atomic_store(&server.lies, 5); /* the four of the first answer, and b's of the second */
	cr_assert_eq(weka_submit_read_batch(client, &req, items, 2, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(items[0].status, -EIO);
	cr_assert_null(items[0].data);
	cr_assert_eq(items[1].status, 0);
	assert_bytes("a", items[1].data, 0, 10000);
}

/* ---- writes ------------------------------------------------------------------------------ */

TEST_BOTH(what_is_put_carries_checksums_that_the_appliance_can_verify)
{
	struct weka_window w = window_of(weka_window_bytes(3, 9000));
	struct weka_put_item items[3] = {
		{ .ref = weka_ref_path("x"), .create = { .mode = 0640 }, .size_bytes = 9000 },
		{ .ref = weka_ref_path("y"), .window_at = 9024, .size_bytes = 1 },
		{ .ref = weka_ref_path("a"), .create.flags = WEKA_EXCL },
	};
	const struct script_file *f;
	struct weka_req req = { 0 };
	char *bytes = w.lease->data;
	uint32_t i;

	for (i = 0; i < 9000; i++)
		bytes[i] = (char)script_byte("x", i);
	bytes[9024] = 'y';
	cr_assert_eq(weka_submit_put(client, &req, items, 3, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(items[0].status, 0);
	cr_assert_eq(items[1].status, 0);
	cr_assert_eq(items[2].status, -EEXIST);
	f = script_find(&server, "x");
	cr_assert_eq(f->size_bytes, 9000);
	cr_assert_eq(f->mode & 07777, 0640);
	cr_assert_gt(f->mtime_ns, 1500000000 * (int64_t)NS_PER_S);
	assert_bytes("x", f->bytes, 0, 9000);
	cr_assert_eq(script_find(&server, "y")->bytes[0], 'y');
}

TEST_BOTH(what_changes_after_it_was_summed_is_refused)
{
	struct weka_window w = window_of(weka_window_bytes(1, 9000));
	struct weka_put_item item = { .ref = weka_ref_path("x"), .size_bytes = 9000 };
	struct weka_req req = { 0 };

	atomic_store(&server.silent, 1ull << FAB_PUT);
	cr_assert_eq(weka_submit_put(client, &req, &item, 1, &w), 0);
	wait_for(&server.held, 1);
	((char *)w.lease->data)[5000] ^= 1;
	atomic_store(&server.silent, 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(item.status, -EBADMSG);
	cr_assert_null(script_find(&server, "x"));
}

TEST_BOTH(a_write_goes_where_it_is_told_and_an_append_to_the_end)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(weka_window_bytes(1, 6000 + 4095));
	const struct script_file *f;
	struct weka_req req = { 0 };

	memset(w.lease->data, 'w', 6000);
	cr_assert_eq(weka_submit_write(client, &req, &a, 3000, 6000, 0, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(req.length_bytes, 10000);
	memset(w.lease->data, 'e', 6000);
	cr_assert_eq(weka_submit_write(client, &req, &a, 0, 6000, WEKA_APPEND, &w), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(req.length_bytes, 16000);
	f = script_find(&server, "a");
	assert_bytes("a", f->bytes, 0, 3000);
	cr_assert_eq(f->bytes[3000], 'w');
	cr_assert_eq(f->bytes[8999], 'w');
	assert_bytes("a", f->bytes + 9000, 9000, 1000);
	cr_assert_eq(f->bytes[10000], 'e');
	cr_assert_eq(f->bytes[15999], 'e');
}

/* ---- what cannot be ------------------------------------------------------------------------ */

TEST_BOTH(what_cannot_be_is_refused_and_leaves_nothing_behind)
{
	struct weka_window w = window_of(16384), odd = w, none = { .size_bytes = 4096 };
	struct weka_handle a = handle_of("a");
	struct weka_req req = { 0 };
	struct weka_read_item item = { .ref = weka_ref_path(""), .length_bytes = 1 };
	struct weka_put_item put = { .ref = weka_ref_path("p"), .size_bytes = 16384 };
	char *long_name = calloc(1, WEKA_PATH_MAX + 2);
	uint64_t before = counters_of(client).submitted;

	odd.offset_bytes = 1;
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 1, &odd), -EINVAL);
	odd.offset_bytes = 4096;
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 1, &odd), -EINVAL);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 1, &none), -EINVAL);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 0, &w), -EINVAL);
	cr_assert_eq(weka_submit_read(client, &req, &a, UINT64_MAX, 1, &w), -EINVAL);
	cr_assert_eq(weka_submit_read(client, &req, &a, 1, 16384, &w), -EMSGSIZE);
	cr_assert_eq(weka_submit_read_batch(client, &req, &item, 1, &w), -ENOENT, "no name");
	cr_assert_eq(weka_submit_read_batch(client, &req, &item, 0, &w), -EINVAL);
	memset(long_name, 'n', WEKA_PATH_MAX + 1);
	item.ref = weka_ref_path(long_name);
	cr_assert_eq(weka_submit_read_batch(client, &req, &item, 1, &w), -ENAMETOOLONG);
	cr_assert_eq(weka_submit_put(client, &req, &put, 1, &w), -EMSGSIZE);
	put.size_bytes = 1;
	put.window_at = 1;
	cr_assert_eq(weka_submit_put(client, &req, &put, 1, &w), -EINVAL);
	put.window_at = 0;
	put.ref = weka_ref_handle(&a);
	cr_assert_eq(weka_submit_put(client, &req, &put, 1, &w), -EINVAL);
	cr_assert_eq(counters_of(client).submitted, before);

	/* Nothing was leaked: as many requests as ever can be in flight, and the lease is free. */
	weka_release(client, w.lease);
	cr_assert_eq(counters_of(client).pool_used_bytes, 0);
	free(long_name);
}

/* ---- limits ---------------------------------------------------------------------------------- */

TEST_BOTH(more_requests_than_credits_wait_their_turn)
{
	struct weka_handle a = handle_of("a");
	struct weka_req reqs[64] = { 0 }, one_more = { 0 }, *done[8];
	struct weka_window w = window_of(64 * 4096);
	uint64_t seen = 0;
	int i, got;

	for (i = 0; i < 64; i++) {
		struct weka_window own = w;

		own.offset_bytes = (uint64_t)i * 4096;
		own.size_bytes = 4096;
		reqs[i].user = &reqs[i];
		cr_assert_eq(weka_submit_read(client, &reqs[i], &a, (uint64_t)(i % 3) * 4096, 1000,
					      &own),
			     0);
	}
	cr_assert_eq(weka_submit_ping(client, &one_more), -EAGAIN);
	while (seen != UINT64_MAX) {
		got = weka_reap(client, done, 8);
		cr_assert(got >= 0 && got <= 8);
		while (got-- > 0) {
			i = (int)(done[got] - reqs);
			cr_assert_eq(done[got]->user, done[got]);
			cr_assert_eq(done[got]->status, 0);
			cr_assert_eq(seen & (1ull << i), 0, "reaped twice");
			seen |= 1ull << i;
			assert_bytes("a", done[got]->data, (uint64_t)(i % 3) * 4096, 1000);
		}
	}
	cr_assert_eq(weka_wait(client, WEKA_FOREVER), -ENOENT);
}

Test(weka_io, four_credits_serve_64_requests)
{
	struct weka_req pings[8];

	server.cfg.limits.credits = 4;
	start("shm");
	atomic_store(&server.silent, 1ull << FAB_PING);
	for (int i = 0; i < 8; i++) {
		pings[i] = (struct weka_req){ .timeout_ns = WEKA_FOREVER };
		cr_assert_eq(weka_submit_ping(client, &pings[i]), 0);
	}
	cr_assert(are_held(&server, client, 4));
	cr_assert_eq(weka_wait(client, 20 * NS_PER_MS), -ETIMEDOUT);
	cr_assert_eq(atomic_load(&server.held), 4, "the others wait for a credit");
	atomic_store(&server.silent, 0);
	for (int i = 0; i < 8; i++)
		cr_assert_eq(reap_one(client)->status, 0);
	more_requests_than_credits_wait_their_turn();
}

Test(weka_io, no_more_batches_than_there_are_arrays_for)
{
	struct weka_read_item items[2] = {
		{ .ref = weka_ref_path("b"), .length_bytes = WEKA_TO_END },
		{ .ref = weka_ref_path("a"), .length_bytes = WEKA_TO_END },
	};
	struct weka_read_item alone = items[0];
	struct weka_req one = { 0 }, two = { 0 }, single = { 0 };
	struct weka_window w, other;

	options.batches_max = 1;
	start("shm");
	w = window_of(weka_window_bytes(2, 10000));
	other = window_of(weka_window_bytes(1, 10000));
	atomic_store(&server.silent, 1ull << FAB_READ_BATCH);
	cr_assert_eq(weka_submit_read_batch(client, &one, items, 2, &w), 0);
	cr_assert_eq(weka_submit_read_batch(client, &two, items, 2, &w), -EAGAIN);
	cr_assert_eq(weka_submit_read_batch(client, &single, &alone, 1, &other), 0);
	atomic_store(&server.silent, 0);
	(void)reap_one(client);
	(void)reap_one(client);
	cr_assert_eq(weka_submit_read_batch(client, &two, items, 2, &w), 0);
	cr_assert_eq(reap_one(client), &two);
	cr_assert_eq(items[1].status, 0);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

TEST_BOTH(a_deadline_ends_a_request_not_the_lease)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(4096);
	struct weka_req req = { .timeout_ns = 20 * NS_PER_MS }, again = { 0 };

	atomic_store(&server.silent, 1ull << FAB_READ);
	atomic_store(&server.deaf_to_cancels, true);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 4096, &w), 0);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, -ETIMEDOUT);
	cr_assert_eq(counters_of(client).timeouts, 1);

	/* The appliance has not let go: the lease takes nothing new, and its memory stays out. */
	cr_assert_eq(weka_submit_read(client, &again, &a, 0, 4096, &w), -EBUSY);
	weka_release(client, w.lease);
	cr_assert_eq(counters_of(client).pool_used_bytes, 4096);

	/* It does: the memory is there again, and nobody is told of the late answer. */
	atomic_store(&server.silent, 0);
	while (counters_of(client).pool_used_bytes > 0) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
}

/* ---- put off -------------------------------------------------------------------------------- */

TEST_BOTH(who_is_put_off_waits_and_asks_again)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(4096);
	struct weka_req req = { 0 };
	uint64_t begun_ns = clock_now_ns();

	atomic_store(&server.put_off_ms, 40);
	atomic_store(&server.put_off, 2);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 4096, &w), 0);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, 0);
	cr_assert_eq(atomic_load(&server.seen[FAB_READ]), 3);
	cr_assert_eq(counters_of(client).busy, 2);
	cr_assert_geq(clock_now_ns() - begun_ns, 2 * 40 * NS_PER_MS);
}

/* Nothing is sent past it: its second try stands before what was submitted meanwhile. */
TEST_BOTH(what_comes_after_who_is_put_off_waits_behind_it)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(4096);
	struct weka_req req = { 0 }, ping = { 0 };

	atomic_store(&server.put_off_ms, 40);
	atomic_store(&server.put_off, 1);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 4096, &w), 0);
	while (counters_of(client).busy == 0) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
	/* Nothing is sent but in weka_reap().  Its second try is not answered: the ping comes
	 * first. */
	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(weka_submit_ping(client, &ping), 0);
	cr_assert_eq(reap_one(client), &ping);
	cr_assert_eq(atomic_load(&server.seen[FAB_READ]), 2);
	atomic_store(&server.silent, 0);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, 0);
}

/* The deadline holds, and then nothing stands before the others. */
TEST_BOTH(who_is_put_off_for_too_long_times_out)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(4096);
	struct weka_req req = { .timeout_ns = 10 * NS_PER_S },
			ping = { .timeout_ns = WEKA_FOREVER };

	atomic_store(&server.put_off_ms, 30000);
	atomic_store(&server.put_off, 1);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 4096, &w), 0);
	while (counters_of(client).busy == 0) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
	cr_assert_eq(weka_submit_ping(client, &ping), 0);
	time_is_over(client, &req);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, -ETIMEDOUT);
	cr_assert_eq(reap_one(client), &ping);
	cr_assert_eq(ping.status, 0);
	cr_assert_eq(atomic_load(&server.seen[FAB_READ]), 1);
}

TEST_BOTH(an_acknowledged_cancel_makes_the_lease_usable_again)
{
	struct weka_handle a = handle_of("a");
	struct weka_window w = window_of(4096);
	struct weka_req req = { 0 };
	int err;

	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(weka_submit_read(client, &req, &a, 0, 4096, &w), 0);
	wait_for(&server.held, 1);
	weka_cancel(client, &req);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, -ECANCELED);
	weka_cancel(client, &req); /* too late: nothing */

	while ((err = weka_submit_read(client, &req, &a, 0, 4096, &w)) == -EBUSY) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
	cr_assert_eq(err, 0);
	atomic_store(&server.silent, 0);
	cr_assert_eq(reap_one(client), &req);
	cr_assert_eq(req.status, 0);
	cr_assert_eq(atomic_load(&server.cancels), 1);
}

Test(weka_io, a_request_that_waits_for_a_credit_times_out_too)
{
	struct weka_req reqs[2] = { { .timeout_ns = WEKA_FOREVER },
				    { .timeout_ns = 20 * NS_PER_MS } };

	server.cfg.limits.credits = 1;
	start("shm");
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &reqs[0]), 0);
	cr_assert_eq(weka_submit_ping(client, &reqs[1]), 0);
	cr_assert_eq(reap_one(client), &reqs[1]);
	cr_assert_eq(reqs[1].status, -ETIMEDOUT);
	atomic_store(&server.silent, 0);
	cr_assert_eq(reap_one(client), &reqs[0]);
	cr_assert_eq(reqs[0].status, 0);
}

/* ---- fork
 * ---------------------------------------------------------------------------------------- */

TEST_BOTH(after_a_fork_the_child_has_nothing_and_the_parent_goes_on)
{
	struct weka_req req = { 0 }, *done;
	struct weka_attr attr;
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct weka_lease *lease;
		bool stale = weka_submit_ping(client, &req) == -ESTALE &&
			     weka_reap(client, &done, 1) == -ESTALE &&
			     weka_lease(client, 1, &lease) == -ESTALE &&
			     weka_wait(client, 0) == -ESTALE && weka_arm(client) == -ESTALE &&
			     weka_stat(client, "a", &attr) == -ESTALE;

		weka_close(client);
		_exit(stale ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(weka_stat(client, "a", &attr), 0, "%s", weka_error(client));
	cr_assert_eq(attr.size_bytes, 10000);
	cr_assert_eq(counters_of(client).reconnects, 0);
}
