/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A client with several connections: to several cores, over several links, and without some. */
#include "test/lib/client_seen.h"
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/client_internal.h"
#include "fabric/client/fab_client_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_BYTES 60000u
#define READS      16u

static struct script server, other;
static struct weka_client *client;
static struct weka_options options;
static struct weka_key key;
static struct weka_attr attr;

static struct {
	struct weka_req req;
	struct weka_window window;
	uint64_t offset;
} reads[READS];

static void set_up(void)
{
	script_init(&server);
	script_init(&other);
	script_add(&server, "a", FILE_BYTES);
	script_add(&other, "a", FILE_BYTES);
	key = (struct weka_key){ .secret = server.cfg.key.secret };
	options = (struct weka_options){ .size_bytes = sizeof(options), .pool_bytes = 4 << 20 };
}

static void tear_down(void)
{
	weka_close(client);
	client = NULL;
	script_destroy(&server);
	script_destroy(&other);
}

TestSuite(weka_lanes, .init = set_up, .fini = tear_down, .timeout = 60);

static struct weka_limits limits(void)
{
	struct weka_limits l = { .size_bytes = sizeof(l) };

	cr_assert_eq(weka_get_limits(client, &l), 0);
	return l;
}

static void dial(const char *addresses)
{
	cr_assert_eq(weka_connect(addresses, &key, &options, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(weka_open(client, "a", 0, 0, &attr), 0);
}

static void start(uint32_t cores)
{
	server.cfg.core_count = cores;
	script_start(&server, "tcp");
	dial(server.address);
}

static void wait_lanes(uint32_t count)
{
	struct weka_req *done;

	while (limits().lanes != count) {
		cr_assert_eq(weka_reap(client, &done, 1), 0);
		usleep(100);
	}
}

/* Shuts the socket down: both ends see what they would see of a link that was cut. */
static void cut(uint32_t lane)
{
	cr_assert_eq(client->lanes[lane].at, CLIENT_UP);
	shutdown(client->lanes[lane].conn->fd, SHUT_RDWR);
}

static int submit_read(uint32_t i)
{
	reads[i].offset = (i * 4096u) % align_down(FILE_BYTES - 20000, 4096);
	if (!reads[i].window.lease) {
		reads[i].window.size_bytes = 20480;
		cr_assert_eq(weka_lease(client, 20480, &reads[i].window.lease), 0);
	}
	memset(reads[i].window.lease->data, 0xee, 20480);
	return weka_submit_read(client, &reads[i].req, &attr.handle, reads[i].offset, 20000,
				&reads[i].window);
}

static void check_read(const struct weka_req *req)
{
	const struct weka_req *first = &reads[0].req;
	uint32_t i = (uint32_t)(((const char *)req - (const char *)first) / sizeof(reads[0]));
	static unsigned char want[20000];

	cr_assert_eq(req->status, 0, "%u: %s: %s", i, strerror(-req->status), weka_error(client));
	cr_assert_eq(req->length_bytes, 20000);
	for (uint32_t b = 0; b < 20000; b++)
		want[b] = script_byte("a", reads[i].offset + b);
	cr_assert_eq(memcmp(req->data, want, sizeof(want)), 0);
}

static void reap_reads(uint32_t count)
{
	struct weka_req *done;

	while (count > 0) {
		int got = weka_reap(client, &done, 1);

		cr_assert_geq(got, 0);
		if (got == 0) {
			cr_assert_eq(weka_wait(client, 60 * NS_PER_S), 0);
			continue;
		}
		check_read(done);
		count--;
	}
}

static void release_all(void)
{
	for (uint32_t i = 0; i < READS; i++) {
		weka_release(client, reads[i].window.lease);
		reads[i].window.lease = NULL;
	}
	cr_assert_eq(counters_of(client).pool_used_bytes, 0);
	while (client->own_out) /* what it has closed */
		cr_assert_eq(weka_reap(client, NULL, 0), 0);
	for (uint32_t i = 0; i < CLIENT_LANES_MAX; i++)
		cr_assert_eq(client->lanes[i].load, 0);
}

static uint64_t sessions_of(uint32_t core)
{
	struct fab_server_stat stat;

	fab_server_stat(server.core[core], &stat);
	return stat.sessions;
}

/* ---- how many, and where ------------------------------------------------------------------ */

/* A session has a lane to each: how many cores serve one. */
static uint32_t one_for_each_core(uint32_t cores)
{
	uint32_t serve = 0;

	start(cores);
	wait_lanes(cores);
	cr_assert_eq(limits().lanes_wanted, cores);
	cr_assert_eq(limits().cores, cores);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	reap_reads(READS);
	for (uint32_t i = 0; i < cores; i++)
		serve += sessions_of(i) == 1;
	return serve;
}

Test(weka_lanes, there_is_one_for_each_core_1)
{
	cr_assert_eq(one_for_each_core(1), 1);
}

Test(weka_lanes, there_is_one_for_each_core_2)
{
	cr_assert_eq(one_for_each_core(2), 2);
}

Test(weka_lanes, there_is_one_for_each_core_4)
{
	cr_assert_eq(one_for_each_core(4), 4);
}

Test(weka_lanes, each_is_on_a_core_of_its_own)
{
	start(4);
	wait_lanes(4);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t k = 0; k < i; k++)
			cr_assert_neq(fab_conn_place(client->lanes[i].conn)->core,
				      fab_conn_place(client->lanes[k].conn)->core);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(sessions_of(i), 1);
}

Test(weka_lanes, as_many_as_the_caller_says_and_the_appliance_allows)
{
	options.lanes = 3;
	start(1);
	wait_lanes(3);
	weka_close(client);
	options.lanes = 8;
	dial(server.address);
	wait_lanes(4); /* lanes_max, when nobody sets it */
	cr_assert_eq(limits().lanes_wanted, 4);
	weka_close(client);
	options.lanes = 9;
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), -EINVAL);
	client = NULL;
	cr_assert_not_null(strstr(weka_error(NULL), "8 lanes"), "%s", weka_error(NULL));
}

Test(weka_lanes, over_shm_there_is_one)
{
	options.lanes = 4;
	server.cfg.core_count = 2;
	script_start(&server, "shm");
	dial(server.address);
	cr_assert_eq(limits().lanes, 1);
	cr_assert_eq(limits().lanes_wanted, 1);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	reap_reads(READS);
}

Test(weka_lanes, what_is_in_flight_is_spread)
{
	uint64_t least = UINT64_MAX, most = 0;

	start(4);
	wait_lanes(4);
	atomic_store(&server.silent, 1ull << FAB_READ);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	for (uint32_t i = 0; i < 4; i++) {
		least = min_u64(least, client->lanes[i].load);
		most = max_u64(most, client->lanes[i].load);
	}
	cr_assert_gt(least, 0);
	cr_assert_eq(least, most);
	cr_assert(are_held(&server, client, READS));
	atomic_store(&server.silent, 0);
	reap_reads(READS);
	release_all();
}

/* The hidden file is known to the core that began it. */
Test(weka_lanes, a_long_put_begins_and_ends_on_one_lane)
{
	struct weka_req req = { 0 };
	struct weka_create how = { .mode = 0644 };
	struct weka_ref ref = weka_ref_path("new");
	uint64_t load;

	start(2);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_READ | 1ull << FAB_PUT_BEGIN);
	cr_assert_eq(submit_read(0), 0); /* so lane 0 has more to do */
	load = client->lanes[0].load;
	cr_assert_gt(load, 0);
	cr_assert_eq(weka_submit_put_begin(client, &req, &ref, &how, 1 << 20, &attr), 0);
	cr_assert_gt(client->lanes[0].load, load);
	cr_assert_eq(client->lanes[1].load, 0);
}

/* ---- a lane breaks -------------------------------------------------------------------------- */

Test(weka_lanes, a_lane_that_breaks_takes_nothing_with_it)
{
	uint32_t mine = 0;

	start(2);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_READ);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	for (uint32_t i = 0; i < client->requests_max; i++)
		mine += client->slots[i].state == CLIENT_SENT && client->slots[i].lane == 1;
	cr_assert_eq(mine, READS / 2);
	cr_assert(are_held(&server, client, READS));
	cut(1);
	atomic_store(&server.silent, 0);
	reap_reads(READS);
	cr_assert_eq(counters_of(client).lanes_lost, 1);
	cr_assert_eq(counters_of(client).replays, mine);
	cr_assert_eq(counters_of(client).reconnects, 0); /* the session goes on */
	wait_lanes(2);
	release_all();
}

Test(weka_lanes, the_first_lane_may_break_too)
{
	start(2);
	wait_lanes(2);
	cut(0);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	reap_reads(READS);
	wait_lanes(2);
	cr_assert_eq(counters_of(client).lanes_lost, 1);
	cr_assert_eq(counters_of(client).reconnects, 0);
	release_all();
}

/* The slot of a request that is at an appliance. */
static const struct client_slot *slot_of(const struct weka_req *req)
{
	for (uint32_t i = 0; i < client->requests_max; i++)
		if (client->slots[i].req == req && client->slots[i].state == CLIENT_SENT)
			return &client->slots[i];
	cr_assert_fail("it is not sent");
	return NULL;
}

/* The lane that it goes by is cut, and that is seen. */
static void cut_under(const struct weka_req *req)
{
	uint64_t lost = counters_of(client).lanes_lost, again = counters_of(client).reconnects;
	struct weka_req *done;

	cut(slot_of(req)->lane);
	while (counters_of(client).lanes_lost == lost && counters_of(client).reconnects == again)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
}

/* One fault, met lane by lane: it is one try of a request, however many lanes it goes through. */
Test(weka_lanes, lanes_that_break_of_the_same_are_one_try)
{
	char nowhere[] = "tcp://127.0.0.1:1", *there;
	const struct client_slot *slot;
	struct weka_req *done;

	server.cfg.lanes_max = 8;
	options.lanes = 8;
	start(4);
	wait_lanes(8);
	there = client->addresses[0];
	client->addresses[0] = nowhere; /* none of them comes back meanwhile */
	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(submit_read(0), 0);
	for (uint32_t i = 0; i < 7; i++) {
		while (atomic_load(&server.seen[FAB_READ]) <= i)
			cr_assert_eq(weka_reap(client, &done, 1), 0);
		cut_under(&reads[0].req);
	}
	slot = slot_of(&reads[0].req);
	cr_assert_eq(slot->replays, 1);
	atomic_store(&server.silent, 0);
	reap_reads(1);
	cr_assert_eq(atomic_load(&server.seen[FAB_READ]), 8);
	client->addresses[0] = there;
	/* who has its slot next knows nothing of that fault */
	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(submit_read(1), 0);
	while (atomic_load(&server.seen[FAB_READ]) < 9)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_eq(slot_of(&reads[1].req), slot);
	cut_under(&reads[1].req);
	cr_assert_eq(slot->replays, 1);
	atomic_store(&server.silent, 0);
	reap_reads(1);
	release_all();
}

/* ... and so is the end of the session, with the newest of them. */
Test(weka_lanes, a_session_that_breaks_lane_by_lane_is_one_try)
{
	char nowhere[] = "tcp://127.0.0.1:1", *there;
	const struct client_slot *slot;
	struct weka_req *done;

	start(2);
	wait_lanes(2);
	there = client->addresses[0];
	client->addresses[0] = nowhere;
	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(submit_read(0), 0);
	weka_flush(client);
	slot = slot_of(&reads[0].req);
	cut_under(&reads[0].req);
	while (slot->state != CLIENT_SENT)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_eq(client->lanes[slot->lane].life, client->lives);
	client->addresses[0] = there;
	cut_under(&reads[0].req);
	cr_assert_eq(counters_of(client).reconnects, 1);
	cr_assert_eq(slot->replays, 1);
	atomic_store(&server.silent, 0);
	reap_reads(1);
	release_all();
}

Test(weka_lanes, a_change_on_a_lane_that_breaks_waits_for_it_and_one_elsewhere_does_not)
{
	struct weka_req change[2] = { { 0 }, { 0 } }, *done;
	struct weka_ref ref[2] = { weka_ref_path("x"), weka_ref_path("y") };
	struct weka_create how = { .mode = 0755 };
	struct weka_attr made[2];

	start(2);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_MKDIR);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(weka_submit_mkdir(client, &change[i], &ref[i], &how, &made[i]), 0);
	cr_assert_eq(client->lanes[0].load, client->lanes[1].load);
	cr_assert(are_held(&server, client, 2));
	cut(1);
	while (counters_of(client).lanes_lost == 0 || atomic_load(&server.seen[FAB_MKDIR]) < 3 ||
	       atomic_load(&server.held) != 2)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	atomic_store(&server.silent, 0);
	for (uint32_t i = 0; i < 2; i++) {
		while (weka_reap(client, &done, 1) == 0)
			usleep(100);
		cr_assert_eq(done->status, 0);
	}
	cr_assert_eq(counters_of(client).replays, 1);
	cr_assert_eq(counters_of(client).reconnects, 0);
	cr_assert_eq(atomic_load(&server.seen[FAB_MKDIR]), 3);
	cr_assert(atomic_load(&server.change_again));
	wait_lanes(2);
}

/* A request whose end came first is cancelled where it is, and its memory waits for that lane. */
Test(weka_lanes, memory_waits_for_the_lane_that_may_write_there)
{
	start(2);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_READ);
	atomic_store(&server.deaf_to_cancels, true);
	for (uint32_t i = 0; i < 2; i++) {
		reads[i].req.timeout_ns = 20 * NS_PER_MS;
		cr_assert_eq(submit_read(i), 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct weka_req *done;

		while (weka_reap(client, &done, 1) == 0)
			usleep(100);
		cr_assert_eq(done->status, -ETIMEDOUT);
	}
	while (atomic_load(&server.cancels) < 2)
		weka_flush(client);
	weka_release(client, reads[0].window.lease);
	weka_release(client, reads[1].window.lease);
	cr_assert_eq(counters_of(client).pool_used_bytes, 2 * 20480);
	cut(1); /* and it is closed: half of it is free */
	while (counters_of(client).lanes_lost == 0) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
	cr_assert_eq(counters_of(client).pool_used_bytes, 20480);
	cr_assert_eq(client->lanes[1].load, 0);
	atomic_store(&server.silent, 0); /* the other is answered after all */
	while (counters_of(client).pool_used_bytes > 0) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
	reads[0].window.lease = reads[1].window.lease = NULL;
	release_all();
}

/* Without a deadline nobody but the client ends it: the appliance must hear of it where it is. */
Test(weka_lanes, a_request_is_cancelled_on_its_own_lane)
{
	struct weka_req *done;

	start(2);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_READ);
	for (uint32_t i = 0; i < 2; i++) {
		reads[i].req.timeout_ns = WEKA_FOREVER;
		cr_assert_eq(submit_read(i), 0);
	}
	cr_assert_eq(client->lanes[0].load, client->lanes[1].load);
	cr_assert(are_held(&server, client, 2));
	for (uint32_t i = 0; i < 2; i++)
		weka_cancel(client, &reads[i].req);
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(weka_reap(client, &done, 1), 1);
		cr_assert_eq(done->status, -ECANCELED);
	}
	for (uint32_t i = 0; i < READS; i++) {
		weka_release(client, reads[i].window.lease);
		reads[i].window.lease = NULL;
	}
	while (counters_of(client).pool_used_bytes > 0)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_eq(atomic_load(&server.cancels), 2);
	release_all();
}

/* Any lane at any time, also all of them: every byte comes, nothing is left behind.  How many were
 * lost. */
static uint64_t lanes_break_under_load(uint32_t cores)
{
	struct rand_state rand;
	uint64_t done_count = 0, cuts = 0;
	bool out[READS] = { false };

	rand_seed(&rand, 4711);
	options.lanes = 4;
	start(cores);
	wait_lanes(4);
	while (cuts < 60 || done_count < 600) {
		struct weka_req *done[READS];
		uint32_t lane = (uint32_t)rand_below(&rand, 4);
		int got;

		for (uint32_t i = 0; i < READS; i++)
			if (!out[i])
				out[i] = submit_read(i) == 0;
		if (rand_below(&rand, 8) == 0 && client->lanes[lane].at == CLIENT_UP) {
			cut(lane);
			cuts++;
		}
		got = weka_reap(client, done, READS);
		cr_assert_geq(got, 0);
		for (int k = 0; k < got; k++) {
			const struct weka_req *first = &reads[0].req;
			size_t i = (size_t)((const char *)done[k] - (const char *)first) /
				   sizeof(reads[0]);

			out[i] = false;
			/* more than three faults may meet one read */
			if (done[k]->status != -ECONNRESET)
				check_read(done[k]);
			done_count += done[k]->status == 0;
		}
	}
	for (uint32_t i = 0; i < READS; i++) {
		struct weka_req *done;

		while (out[i] && weka_reap(client, &done, 1) == 0)
			usleep(100);
	}
	wait_lanes(4);
	release_all();
	return counters_of(client).lanes_lost;
}

Test(weka_lanes, they_break_under_load_1_core)
{
	cr_assert_gt(lanes_break_under_load(1), 0);
}

Test(weka_lanes, they_break_under_load_2_cores)
{
	cr_assert_gt(lanes_break_under_load(2), 0);
}

Test(weka_lanes, they_break_under_load_4_cores)
{
	cr_assert_gt(lanes_break_under_load(4), 0);
}

/* All at once: the next session is as the first was, in the same memory. */
Test(weka_lanes, an_appliance_that_comes_again_gets_all_lanes_again)
{
	void *data;

	start(2);
	wait_lanes(2);
	cr_assert_eq(submit_read(0), 0);
	reap_reads(1);
	data = reads[0].window.lease->data;
	atomic_store(&server.silent, 1ull << FAB_READ);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	cr_assert(are_held(&server, client, READS));
	script_stop(&server);
	atomic_store(&server.silent, 0);
	script_restart(&server);
	reap_reads(READS);
	cr_assert_eq(reads[0].window.lease->data, data);
	cr_assert_eq(counters_of(client).reconnects, 1);
	wait_lanes(2);
	release_all();
}

/* ---- links ---------------------------------------------------------------------------------- */

static in_addr_t peer_of(uint32_t lane)
{
	struct sockaddr_in in;
	socklen_t bytes = sizeof(in);

	cr_assert_eq(getpeername(client->lanes[lane].conn->fd, (struct sockaddr *)&in, &bytes), 0);
	return ntohl(in.sin_addr.s_addr);
}

static void port_of(const char *address, char *other_host, size_t size)
{
	snprintf(other_host, size, "tcp://127.0.0.2%s", strrchr(address, ':'));
}

Test(weka_lanes, links_of_one_appliance_are_used_together)
{
	char second[64], both[200];

	script_start(&server, "tcp");
	port_of(server.address, second, sizeof(second));
	atomic_store(&server.listen_too, second);
	while (atomic_load(&server.listen_too))
		usleep(100);
	snprintf(both, sizeof(both), "%s,%s", server.address, second);
	dial(both); /* one core, two links */
	wait_lanes(2);
	cr_assert_eq(peer_of(0), 0x7f000001);
	cr_assert_eq(peer_of(1), 0x7f000002);
	atomic_store(&server.silent, 1ull << FAB_READ);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	cr_assert_eq(client->lanes[0].load, client->lanes[1].load);
	cr_assert(are_held(&server, client, READS));
	cut(0);
	atomic_store(&server.silent, 0);
	reap_reads(READS);
	wait_lanes(2);
	cr_assert_eq(peer_of(0), 0x7f000001); /* its own link again */
	release_all();
}

Test(weka_lanes, a_dead_link_is_left_out_and_used_when_it_lives)
{
	char second[64], both[200];

	script_start(&server, "tcp");
	port_of(server.address, second, sizeof(second));
	snprintf(both, sizeof(both), "%s,%s", server.address, second);
	dial(both);
	while (client->lanes[1].rounds < 4) {
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
		usleep(100);
	}
	cr_assert_eq(limits().lanes, 1);
	cr_assert_eq(limits().lanes_wanted, 2);
	cr_assert_gt(client->lanes[1].retry_ns, client->now_ns); /* later and later */
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	reap_reads(READS);
	cr_assert_eq(counters_of(client).lanes_lost, 0);
	atomic_store(&server.listen_too, second);
	wait_lanes(2);
	cr_assert_eq(peer_of(1), 0x7f000002);
	release_all();
}

/* A change that was cut off needs its lane, not its link: the lane comes over another, and leaves.
 */
Test(weka_lanes, a_lane_that_came_for_a_change_over_another_link_goes_back_to_its_own)
{
	struct weka_req change[2] = { { 0 }, { 0 } }, *done;
	struct weka_ref ref[2] = { weka_ref_path("x"), weka_ref_path("y") };
	struct weka_create how = { .mode = 0755 };
	struct weka_attr made[2];
	char second[64], both[200];

	script_start(&server, "tcp");
	port_of(server.address, second, sizeof(second));
	atomic_store(&server.listen_too, second);
	while (atomic_load(&server.listen_too))
		usleep(100);
	snprintf(both, sizeof(both), "%s,%s", server.address, second);
	dial(both);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_MKDIR | 1ull << FAB_READ);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(weka_submit_mkdir(client, &change[i], &ref[i], &how, &made[i]), 0);
	cr_assert(are_held(&server, client, 2));
	client->addresses[1][strlen("tcp://127.0.0.")] = '3'; /* nobody is there */
	cut(1);
	while (atomic_load(&server.seen[FAB_MKDIR]) < 3)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_eq(peer_of(1), 0x7f000001);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	cr_assert_eq(client->lanes[1].load, 1); /* the change, nothing else */
	atomic_store(&server.silent, 0);
	for (uint32_t i = 0; i < 2 + READS; i++) {
		while (weka_reap(client, &done, 1) == 0)
			usleep(100);
		cr_assert_eq(done->status, 0);
	}
	wait_lanes(1);
	second[strlen("tcp://127.0.0.")] = '3';
	atomic_store(&server.listen_too, second);
	wait_lanes(2);
	cr_assert_eq(peer_of(1), 0x7f000003);
	cr_assert_eq(counters_of(client).lanes_lost, 1); /* to leave is no loss */
	cr_assert_eq(counters_of(client).reconnects, 0);
	release_all();
}

/* Same key, same list: but not the same files. */
Test(weka_lanes, another_appliance_is_an_alternative_and_no_link)
{
	char both[300];

	script_start(&server, "tcp");
	script_start(&other, "tcp");
	snprintf(both, sizeof(both), "%s,%s", server.address, other.address);
	options.lanes = 2;
	dial(both);
	wait_lanes(2);
	while (client->foreign == 0) { /* found out by the lane that went there */
		struct weka_req *done;

		cr_assert_eq(weka_reap(client, &done, 1), 0);
	}
	cr_assert_eq(client->foreign, 1u << 1);
	for (uint32_t i = 0; i < READS; i++)
		cr_assert_eq(submit_read(i), 0);
	reap_reads(READS);
	cr_assert_eq(atomic_load(&other.seen[FAB_READ]), 0);
	cr_assert_eq(atomic_load(&other.sessions), 0);
	script_stop(&server);
	cr_assert_eq(weka_open(client, "a", 0, 0, &attr), 0);
	cr_assert_str_eq(limits().address, other.address);
	cr_assert_gt(atomic_load(&other.sessions), 0);
	release_all();
}

/* ---- sleep ---------------------------------------------------------------------------------- */

static bool is_readable(int timeout_ms)
{
	struct pollfd fd = { .fd = weka_fd(client), .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

static void arm(void)
{
	struct weka_req *done;

	while (weka_arm(client) == 0)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
}

Test(weka_lanes, an_idle_client_sleeps_and_any_lane_wakes_it)
{
	start(4);
	wait_lanes(4);
	arm();
	cr_assert_not(is_readable(50), "nothing is in flight");
	for (uint32_t lane = 0; lane < 4; lane++) {
		struct weka_req *done = NULL;
		uint32_t i;

		/* Only this lane has room: its answer alone is what may wake us. */
		for (i = 0; i < 4; i++)
			client->lanes[i].load = i != lane;
		atomic_store(&server.silent, 1ull << FAB_READ);
		cr_assert_eq(submit_read(0), 0);
		for (i = 0; i < 4; i++)
			client->lanes[i].load -= i != lane;
		cr_assert_gt(client->lanes[lane].load, 0);
		cr_assert(are_held(&server, client, 1));
		arm();
		cr_assert_not(is_readable(20), "nothing was answered");
		atomic_store(&server.silent, 0);
		do {
			cr_assert(weka_arm(client) == 0 || is_readable(60000));
		} while (weka_reap(client, &done, 1) == 0);
		check_read(done);
	}
	release_all();
}

Test(weka_lanes, a_lane_that_breaks_wakes_who_sleeps_and_comes_again_while_he_waits)
{
	start(2);
	wait_lanes(2);
	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(submit_read(0), 0);
	cr_assert(are_held(&server, client, 1));
	cut(1);
	do
		cr_assert_eq(weka_wait(client, 200 * NS_PER_MS), -ETIMEDOUT);
	while (counters_of(client).lanes_lost == 0 || limits().lanes < 2);
	cr_assert_eq(counters_of(client).lanes_lost, 1);
	atomic_store(&server.silent, 0);
	reap_reads(1);
	release_all();
}
