/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Sessions that cannot be had, that break, and that come again. */
#include "test/lib/client_seen.h"
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "fabric/fab_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client;
static struct weka_options options;
static struct weka_key key;

static void set_up(void)
{
	script_init(&server);
	script_add(&server, "a", 10000);
	key = (struct weka_key){ .secret = server.cfg.key.secret };
	options = (struct weka_options){ .size_bytes = sizeof(options), .pool_bytes = 4 << 20 };
}

static void tear_down(void)
{
	weka_close(client);
	client = NULL;
	script_destroy(&server);
}

TestSuite(weka_conn, .init = set_up, .fini = tear_down, .timeout = 60);

static void start(const char *transport)
{
	script_start(&server, transport);
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
}

/* ---- what is had at the second try -------------------------------------------------------- */

/* Stands before the server: the first connections are cut off, or told to come back. */
struct door {
	int fd;
	int turned_away; /* so many */
	bool says_busy;
	_Atomic int knocks;
	char behind[128];
	char address[64];
	pthread_t thread;
};

static void turn_away(int fd, bool says_busy)
{
	struct fab_hello hello = { .server = true };
	const struct linger reset = { .l_onoff = 1 };

	if (says_busy) {
		fab__hello_refuse_busy(&hello, 30, "too many");
		cr_assert_eq(send(fd, hello.out, hello.out_bytes, MSG_NOSIGNAL), hello.out_bytes);
		shutdown(fd, SHUT_WR);
		while (recv(fd, hello.in, sizeof(hello.in), 0) > 0)
			;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	close(fd);
}

/* Carries bytes between the two until either has gone. */
static void carry(int a, int b)
{
	struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };
	char bytes[4096];

	while (poll(p, 2, -1) > 0)
		for (int i = 0; i < 2; i++) {
			ssize_t got;

			if (!p[i].revents)
				continue;
			got = recv(p[i].fd, bytes, sizeof(bytes), 0);
			if (got <= 0 || send(p[!i].fd, bytes, (size_t)got, MSG_NOSIGNAL) != got) {
				close(a);
				close(b);
				return;
			}
		}
}

static void *door_main(void *arg)
{
	struct door *d = arg;
	struct fab_addr addr;
	char why[FAB_WHY_MAX];
	int fd;

	for (;;) {
		int in = accept(d->fd, NULL, NULL);

		if (in < 0)
			return NULL;
		if (atomic_fetch_add(&d->knocks, 1) < d->turned_away) {
			turn_away(in, d->says_busy);
			continue;
		}
		cr_assert_eq(fab__addr_parse(&addr, d->behind, why), 0);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		cr_assert_eq(connect(fd, &addr.sa, addr.bytes), 0);
		carry(in, fd);
	}
}

static void door_open(struct door *d)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(in);

	script_start(&server, "tcp");
	snprintf(d->behind, sizeof(d->behind), "%s", server.address);
	d->fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(d->fd, (struct sockaddr *)&in, sizeof(in)), 0);
	cr_assert_eq(listen(d->fd, 16), 0);
	cr_assert_eq(getsockname(d->fd, (struct sockaddr *)&in, &bytes), 0);
	snprintf(d->address, sizeof(d->address), "tcp://127.0.0.1:%u", ntohs(in.sin_port));
	cr_assert_eq(pthread_create(&d->thread, NULL, door_main, d), 0);
}

static void expect_connects_after(int turned_away, bool says_busy)
{
	static struct door d;

	d = (struct door){ .turned_away = turned_away, .says_busy = says_busy };
	door_open(&d);
	options.lanes = 1;
	cr_assert_eq(weka_connect(d.address, &key, &options, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(atomic_load(&d.knocks), turned_away + 1);
}

Test(weka_conn, a_connection_that_is_cut_off_in_the_hello_is_tried_again)
{
	expect_connects_after(3, false);
}

Test(weka_conn, an_appliance_that_is_busy_is_asked_again)
{
	expect_connects_after(3, true);
}

Test(weka_conn, who_is_cut_off_all_the_time_is_told_why)
{
	static struct door d = { .turned_away = 1000000 };
	uint32_t ms = 300;
	char tried[16];
	int err;

	door_open(&d);
	do { /* a machine that stands still meanwhile comes to one try, or to none */
		cr_assert_lt(ms, 100000, "%s", weka_error(NULL));
		atomic_store(&d.knocks, 0);
		options.connect_timeout_ns = ms * NS_PER_MS;
		err = weka_connect(d.address, &key, &options, &client);
		snprintf(tried, sizeof(tried), "%u ms", ms);
		ms *= 4;
	} while (err == -ETIMEDOUT || atomic_load(&d.knocks) <= 1);
	cr_assert_eq(err, -ECONNRESET, "%s", weka_error(NULL));
	cr_assert(strstr(weka_error(NULL), tried), "%s", weka_error(NULL));
}

/* ---- what cannot be had ----------------------------------------------------------------- */

static void expect_refused(const char *address, int err, const char *text)
{
	struct weka_client *none = NULL;

	cr_assert_eq(weka_connect(address, &key, &options, &none), err, "%s: %s", address,
		     weka_error(NULL));
	cr_assert_null(none);
	cr_assert(strstr(weka_error(NULL), text), "\"%s\" does not say \"%s\"", weka_error(NULL),
		  text);
}

Test(weka_conn, an_address_that_is_none_is_named)
{
	expect_refused("", -EINVAL, "addresses");
	expect_refused("tcp://127.0.0.1:1,", -EINVAL, "addresses");
	expect_refused("ftp://x", -EINVAL, "ftp://x");
	expect_refused("shm:/nonexistent/socket", -ENOENT, "/nonexistent/socket");
	expect_refused("tcp://127.0.0.1:1", -ECONNREFUSED, "tcp://127.0.0.1:1");
}

Test(weka_conn, a_key_that_the_appliance_does_not_hold_is_refused)
{
	uint8_t wrong[32] = { 1, 2, 3 };

	script_start(&server, "tcp");
	key.secret = wrong;
	expect_refused(server.address, -EACCES, server.address);
	key.secret = server.cfg.key.secret;
	key.id = "somebody";
	expect_refused(server.address, -EACCES, server.address);
	key.id = "a name that is far too long for any key";
	expect_refused(server.address, -EINVAL, "id");
}

Test(weka_conn, options_out_of_range_are_refused)
{
	script_start(&server, "shm");
	options.requests_max = 5000;
	expect_refused(server.address, -EINVAL, "1024");
	options.requests_max = 0;
	options.size_bytes = 0;
	expect_refused(server.address, -EINVAL, "size_bytes");
}

Test(weka_conn, the_next_address_is_tried)
{
	char both[200];
	struct weka_limits limits = { .size_bytes = sizeof(limits) };

	script_start(&server, "tcp");
	snprintf(both, sizeof(both), "shm:/nonexistent/socket,%s", server.address);
	cr_assert_eq(weka_connect(both, &key, NULL, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(weka_get_limits(client, &limits), 0);
	cr_assert_str_eq(limits.transport, "tcp");
	cr_assert_str_eq(limits.address, server.address);
	cr_assert_eq(limits.requests_max, 64);
	cr_assert_eq(limits.pool_bytes, 64 << 20);
}

/* The end of the time must not come before its beginning. */
Test(weka_conn, who_has_for_ever_to_connect_connects)
{
	struct weka_attr attr;

	options.connect_timeout_ns = WEKA_FOREVER;
	start("tcp");
	cr_assert_eq(weka_stat(client, "a", &attr), 0, "%s", weka_error(client));
}

Test(weka_conn, a_request_that_has_nearly_for_ever_is_not_over_at_once)
{
	struct weka_req req = { .timeout_ns = WEKA_FOREVER - 1 }, *done;

	start("tcp");
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	cr_assert(are_held(&server, client, 1));
	for (int i = 0; i < 20; i++) { /* its deadline is looked at each millisecond */
		cr_assert_eq(weka_reap(client, &done, 1), 0, "%d", req.status);
		usleep(1000);
	}
}

Test(weka_conn, the_best_address_is_tried_first_and_the_next_where_there_is_no_card)
{
	char all[300];
	struct weka_limits limits = { .size_bytes = sizeof(limits) };

	script_start(&server, "tcp");
	snprintf(all, sizeof(all),
		 "%s,tcp://127.0.0.1:1,rdma://127.0.0.1:1,shm:/nonexistent/socket", server.address);
	cr_assert_eq(weka_connect(all, &key, NULL, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(weka_get_limits(client, &limits), 0);
	cr_assert_str_eq(limits.transport, "tcp");
}

/* The names of /etc/hosts: where they come from is the system's business. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	static struct sockaddr_in in[CLIENT_ADDRESSES + 1];
	static struct addrinfo list[CLIENT_ADDRESSES + 1];
	const bool many = strcmp(host, "many.example") == 0;
	const uint32_t count = many ? ARRAY_LEN(list) : 2;

	(void)service;
	(void)hints;
	if (!many && strcmp(host, "store.example") != 0)
		return EAI_NONAME;
	for (uint32_t i = 0; i < count; i++) {
		in[i] = (struct sockaddr_in){ .sin_family = AF_INET };
		in[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK + (many ? 10 + i : i ? 0 : 5));
		list[i] = (struct addrinfo){ .ai_addr = (struct sockaddr *)&in[i],
					     .ai_next = i + 1 < count ? &list[i + 1] : NULL };
	}
	*out = list;
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	(void)list;
}

Test(weka_conn, a_host_name_is_looked_up_and_each_of_its_addresses_is_tried)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };
	char address[100];

	script_start(&server, "tcp");
	snprintf(address, sizeof(address), "tcp://store.example:%s",
		 strrchr(server.address, ':') + 1);
	cr_assert_eq(weka_connect(address, &key, &options, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(weka_get_limits(client, &limits), 0);
	cr_assert_str_eq(limits.address, server.address);
}

Test(weka_conn, a_host_name_with_many_addresses_leaves_a_place_to_the_next_one)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };
	char list[200];

	script_start(&server, "tcp");
	snprintf(list, sizeof(list), "tcp://many.example:%s,%s", strrchr(server.address, ':') + 1,
		 server.address);
	cr_assert_eq(weka_connect(list, &key, &options, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(weka_get_limits(client, &limits), 0);
	cr_assert_str_eq(limits.address, server.address);
}

Test(weka_conn, a_host_name_that_there_is_not_is_named)
{
	expect_refused("tcp://nowhere.example:1", -ENOENT, "nowhere.example");
}

Test(weka_conn, addresses_are_ranked_by_what_they_are)
{
	struct weka_client c = { 0 };
	char why[256];

	cr_assert_eq(client__addresses(&c, "tcp://b:1,rdma://d:1,tcp://a:1,shm:/e,rdma://c:1", why),
		     0);
	cr_assert_eq(c.address_count, 5);
	cr_assert_str_eq(c.addresses[0], "shm:/e");
	cr_assert_str_eq(c.addresses[1], "rdma://d:1");
	cr_assert_str_eq(c.addresses[2], "rdma://c:1");
	cr_assert_str_eq(c.addresses[3], "tcp://b:1");
	cr_assert_str_eq(c.addresses[4], "tcp://a:1");
	for (uint32_t i = 0; i < 5; i++)
		free(c.addresses[i]);
}

/* A listening socket on a free port, and its address. */
static int somebody_else(char *address, size_t size)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	cr_assert_eq(listen(fd, 4), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&in, &bytes), 0);
	snprintf(address, size, "tcp://127.0.0.1:%d", ntohs(in.sin_port));
	return fd;
}

Test(weka_conn, a_peer_that_says_nothing_is_not_waited_for_for_ever)
{
	char address[64];
	int fd = somebody_else(address, sizeof(address));

	options.connect_timeout_ns = 100 * NS_PER_MS;
	expect_refused(address, -ETIMEDOUT, address);
	close(fd);
}

static void *speak_http(void *arg)
{
	static const char text[200] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	int fd = accept(*(int *)arg, NULL, NULL);

	cr_assert_eq(write(fd, text, sizeof(text)), sizeof(text));
	return (void *)(intptr_t)fd;
}

Test(weka_conn, a_peer_of_another_protocol_is_recognized)
{
	char address[64];
	int fd = somebody_else(address, sizeof(address));
	pthread_t thread;
	void *peer;

	cr_assert_eq(pthread_create(&thread, NULL, speak_http, &fd), 0);
	expect_refused(address, -EPROTO, address);
	cr_assert_eq(pthread_join(thread, &peer), 0);
	close((int)(intptr_t)peer);
	close(fd);
}

static void key_file(const char *path, const char *text, mode_t mode)
{
	int fd;

	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

Test(weka_conn, a_key_comes_from_a_file_that_only_its_owner_may_read)
{
	char path[64], digits[80] = "", named[96];
	int i;

	for (i = 0; i < 32; i++)
		memcpy(digits + 2 * i, "07", 3);
	snprintf(path, sizeof(path), "/tmp/weka-key-%d", getpid());
	key = (struct weka_key){ .file = path };
	script_start(&server, "shm");

	expect_refused(server.address, -ENOENT, path);
	key_file(path, digits, 0644);
	expect_refused(server.address, -EACCES, "owner");
	key_file(path, "0707", 0600);
	expect_refused(server.address, -EINVAL, "hexadecimal");
	digits[10] = 'x';
	key_file(path, digits, 0600);
	expect_refused(server.address, -EINVAL, "hexadecimal");
	memcpy(digits + 10, "07\n", 1);
	memcpy(digits + 64, "\n", 2);
	key_file(path, digits, 0600);
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
	weka_close(client);

	snprintf(named, sizeof(named), "weka:%s", digits);
	key_file(path, named, 0600);
	key.id = "other";
	expect_refused(server.address, -EINVAL, "not other");
	key.id = NULL;
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
	(void)unlink(path);
}

/* ---- what breaks, and comes again ----------------------------------------------------------- */

static void expect_asked_again_after_a_cut(const char *transport)
{
	struct weka_put_item put = { .ref = weka_ref_path("new"), .size_bytes = 100 };
	struct weka_req read = { 0 }, change = { 0 }, named = { 0 };
	uint64_t number;
	struct weka_window w = { .size_bytes = 16384 }, kept = w;
	struct weka_attr attr;
	char *address;
	int i;

	start(transport);
	cr_assert_eq(weka_open(client, "a", 0, 0, &attr), 0);
	cr_assert_eq(weka_lease(client, 16384, &w.lease), 0);
	cr_assert_eq(weka_lease(client, 16384, &kept.lease), 0);
	address = kept.lease->data;
	memset(address, 'k', 16384);

	atomic_store(&server.silent, 1ull << FAB_READ | 1ull << FAB_PUT);
	cr_assert_eq(weka_submit_read(client, &read, &attr.handle, 0, 10000, &w), 0);
	kept.size_bytes = 8192;
	kept.offset_bytes = 8192;
	cr_assert_eq(weka_submit_put(client, &change, &put, 1, &kept), 0);
	cr_assert(are_held(&server, client, 2));
	number = atomic_load(&server.change);
	cr_assert_gt(number, 0);
	cr_assert_not(atomic_load(&server.change_again));
	script_stop(&server);

	/* A request that is submitted in between waits for the new session. */
	cr_assert_eq(weka_submit_ping(client, &named), 0);
	atomic_store(&server.silent, 0);
	script_restart(&server);
	for (i = 0; i < 3; i++) {
		struct weka_req *done = reap_one(client);

		cr_assert_eq(done->status, 0, "%s: %s (%s)",
			     done == &read     ? "read"
			     : done == &change ? "put"
					       : "ping",
			     strerror(-done->status), weka_error(client));
	}
	cr_assert_eq(atomic_load(&server.change), number, "it is the same change");
	cr_assert(atomic_load(&server.change_again));
	cr_assert(atomic_load(&server.change_sure), "an appliance that forgot nobody");
	cr_assert_eq(put.status, 0);
	cr_assert_arr_eq(script_find(&server, "new")->bytes, kept.lease->data, 100);
	cr_assert_eq(read.length_bytes, 10000);
	for (i = 0; i < 10000; i++)
		cr_assert_eq(((unsigned char *)read.data)[i], script_byte("a", (uint64_t)i));

	/* The lease is where it was, and holds what it held. */
	cr_assert_eq(kept.lease->data, address);
	for (i = 0; i < 8192; i++)
		cr_assert_eq(address[i], 'k');
	cr_assert_eq(counters_of(client).reconnects, 1);
	/* The ping may have been sent before the end was seen. */
	cr_assert(counters_of(client).replays == 2 || counters_of(client).replays == 3);

	/* And it is known to the new appliance. */
	memset(address, 'n', 100);
	kept.offset_bytes = 0;
	cr_assert_eq(weka_submit_put(client, &change, &put, 1, &kept), 0);
	cr_assert_eq(reap_one(client)->status, 0);
	cr_assert_eq(put.status, 0);
	cr_assert_eq(script_find(&server, "new")->bytes[99], 'n');
	weka_release(client, w.lease);
	weka_release(client, kept.lease);
	cr_assert_eq(counters_of(client).pool_used_bytes, 0);
}

Test(weka_conn, what_was_cut_off_is_asked_again_shm)
{
	expect_asked_again_after_a_cut("shm");
}

Test(weka_conn, what_was_cut_off_is_asked_again_tcp)
{
	expect_asked_again_after_a_cut("tcp");
}

/* It says whether the appliance may have forgotten it, and gives up after a while. */
Test(weka_conn, a_change_is_asked_again_three_times)
{
	struct weka_ref d = weka_ref_path("d");
	struct weka_req change = { 0 };

	start("tcp");
	atomic_store(&server.silent, 1ull << FAB_MKDIR);
	cr_assert_eq(
		weka_submit_mkdir(client, &change, &d, &(struct weka_create){ .mode = 0755 }, NULL),
		0);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert(are_held(&server, client, 1));
		cr_assert_eq(atomic_load(&server.change_again), i > 0);
		cr_assert_eq(atomic_load(&server.change_sure), i > 0 && i < 2);
		script_stop(&server);
		atomic_store(&server.forgotten, i >= 1 ? 7 : 0);
		script_restart(&server);
	}
	cr_assert_eq(reap_one(client)->status, -ECONNRESET);
	cr_assert_eq(counters_of(client).replays, 3);
}

static void expect_memory_of_a_broken_session(const char *transport, uint64_t used_bytes)
{
	struct weka_req read = { .timeout_ns = WEKA_FOREVER };
	struct weka_window w = { .size_bytes = 4096 };
	struct weka_attr attr;

	start(transport);
	cr_assert_eq(weka_open(client, "a", 0, 0, &attr), 0);
	cr_assert_eq(weka_lease(client, 4096, &w.lease), 0);
	atomic_store(&server.silent, 1ull << FAB_READ);
	cr_assert_eq(weka_submit_read(client, &read, &attr.handle, 0, 4096, &w), 0);
	cr_assert(are_held(&server, client, 1));
	script_stop(&server);
	time_is_over(client, &read);
	cr_assert_eq(reap_one(client)->status, -ETIMEDOUT);
	weka_release(client, w.lease);
	cr_assert_eq(counters_of(client).pool_used_bytes, used_bytes);
	atomic_store(&server.silent, 0);
	script_restart(&server);
	cr_assert_eq(weka_stat(client, "a", &attr), 0);
	cr_assert_eq(counters_of(client).pool_used_bytes, 0);
}

Test(weka_conn, memory_in_a_broken_session_is_not_given_out_again_shm)
{
	expect_memory_of_a_broken_session("shm", 4096);
}

/* Over tcp nobody writes there but we, from a socket that is closed by then. */
Test(weka_conn, memory_of_a_closed_connection_is_free_at_once)
{
	expect_memory_of_a_broken_session("tcp", 0);
}

Test(weka_conn, without_an_appliance_requests_end_after_a_while)
{
	struct weka_req waits = { .timeout_ns = WEKA_FOREVER }, next = { 0 };
	struct weka_attr attr;
	int err;

	options.reconnect_ns = 50 * NS_PER_MS;
	start("shm");
	script_stop(&server);
	cr_assert_eq(weka_submit_ping(client, &waits), 0);
	cr_assert_eq(reap_one(client), &waits);
	cr_assert(waits.status == -ENOTCONN || waits.status == -ECONNRESET);
	do { /* the ping may have met the old session's end */
		err = weka_submit_ping(client, &next);
		if (!err)
			(void)reap_one(client);
	} while (err == 0);
	cr_assert_eq(err, -ENOTCONN);
	cr_assert_eq(weka_stat(client, "a", &attr), -ENOTCONN);
	cr_assert(strstr(weka_error(client), server.address), "%s", weka_error(client));

	/* It comes back, and so do we. */
	script_restart(&server);
	while ((err = weka_stat(client, "a", &attr)) == -ENOTCONN)
		usleep(1000);
	cr_assert_eq(err, 0);
	cr_assert_eq(attr.size_bytes, 10000);
}

/* Nothing that waits would be answered any more. */
Test(weka_conn, a_key_that_is_taken_back_ends_what_waits)
{
	struct weka_req sent = { .timeout_ns = WEKA_FOREVER }, later = sent;

	options.reconnect_ns = 3600 * NS_PER_S;
	start("tcp");
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &sent), 0);
	cr_assert(are_held(&server, client, 1));
	script_stop(&server);
	cr_assert_eq(weka_submit_ping(client, &later), 0);
	server.cfg.key.secret[0] ^= 1;
	script_restart(&server);
	cr_assert_eq(reap_one(client)->status, -EACCES);
	cr_assert_eq(reap_one(client)->status, -EACCES);
	cr_assert_eq(weka_submit_ping(client, &later), -EACCES);
}

/* The time without an appliance begins when the session ends, not when the caller was here last. */
Test(weka_conn, a_client_that_was_idle_for_long_comes_back_as_well)
{
	struct weka_req ping = { 0 };

	options.reconnect_ns = 3 * NS_PER_S;
	start("tcp");
	usleep(3300000);
	script_stop(&server);
	script_restart(&server);
	client->turns = 1; /* the next turn does not look at the clock */
	cr_assert_eq(weka_submit_ping(client, &ping), 0);
	cr_assert_eq(reap_one(client), &ping);
	cr_assert_eq(ping.status, 0, "%d: %s", ping.status, weka_error(client));
}

Test(weka_conn, a_read_that_ends_every_session_is_not_asked_for_ever)
{
	struct weka_req req = { .timeout_ns = WEKA_FOREVER }, *done;
	int sessions;

	start("shm");
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	for (sessions = 0; sessions < 4; sessions++) {
		cr_assert(are_held(&server, client, 1));
		script_stop(&server);
		if (sessions < 3)
			script_restart(&server);
	}
	while (weka_reap(client, &done, 1) == 0)
		usleep(1000);
	cr_assert_eq(req.status, -ECONNRESET);
	cr_assert_eq(counters_of(client).replays, 3);
	cr_assert_eq(counters_of(client).reconnects, 3);
}

/* ---- sleep ---------------------------------------------------------------------------------- */

static bool is_readable(int timeout_ms)
{
	struct pollfd fd = { .fd = weka_fd(client), .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

static void expect_the_descriptor_to_say_when_to_reap(const char *transport)
{
	struct weka_req req = { .timeout_ns = WEKA_FOREVER }, late = { 0 }, *done;
	int fd, got;

	start(transport);
	fd = weka_fd(client);
	while (weka_arm(client) == 0)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_not(is_readable(20), "nothing is in flight");

	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	while (weka_arm(client) == 0)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert(are_held(&server, client, 1));
	while (weka_arm(client) == 0)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	cr_assert_not(is_readable(20), "nothing was answered");
	atomic_store(&server.silent, 0);
	do {
		cr_assert(weka_arm(client) == 0 || is_readable(60000));
		got = weka_reap(client, &done, 1);
	} while (got == 0);
	cr_assert_eq(done, &req);
	cr_assert_eq(req.status, 0);

	/* A deadline makes it readable too. */
	atomic_store(&server.silent, 1ull << FAB_PING);
	late.timeout_ns = 10 * NS_PER_MS;
	cr_assert_eq(weka_submit_ping(client, &late), 0);
	do {
		cr_assert(weka_arm(client) == 0 || is_readable(60000));
		got = weka_reap(client, &done, 1);
	} while (got == 0);
	cr_assert_eq(late.status, -ETIMEDOUT);
	cr_assert_eq(weka_fd(client), fd);
}

Test(weka_conn, the_descriptor_says_when_to_reap_shm)
{
	expect_the_descriptor_to_say_when_to_reap("shm");
}

Test(weka_conn, the_descriptor_says_when_to_reap_tcp)
{
	expect_the_descriptor_to_say_when_to_reap("tcp");
}

Test(weka_conn, waiting_ends_with_its_timeout_and_sleeps)
{
	struct weka_req req = { .timeout_ns = WEKA_FOREVER };

	start("shm");
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_wait(client, NS_PER_S), -ENOENT);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	do /* the time may be over before it sleeps, where there is no processor for it */
		cr_assert_eq(weka_wait(client, 30 * NS_PER_MS), -ETIMEDOUT);
	while (counters_of(client).sleeps == 0);
	atomic_store(&server.silent, 0);
	cr_assert_eq(reap_one(client), &req);
}

/* It answers -ECONNRESET while it lives: the change may or may not be done (PROTOCOL.md 5). */
Test(weka_conn, an_appliance_that_cannot_tell_is_not_asked_for_ever)
{
	struct weka_ref d = weka_ref_path("d");
	struct weka_create how = { .mode = 0755 };
	struct weka_req change = { .timeout_ns = WEKA_FOREVER };

	start("tcp");
	atomic_store(&server.silent, 1ull << FAB_MKDIR);
	cr_assert_eq(weka_submit_mkdir(client, &change, &d, &how, NULL), 0);
	cr_assert(are_held(&server, client, 1));
	script_stop(&server);
	atomic_store(&server.silent, 0);
	atomic_store(&server.seen[FAB_MKDIR], 0);
	atomic_store(&server.cannot_tell, 1ull << FAB_MKDIR);
	script_restart(&server);
	cr_assert_eq(reap_one(client), &change);
	cr_assert_eq(change.status, -ECONNRESET);
	cr_assert_eq(atomic_load(&server.seen[FAB_MKDIR]), CLIENT_REPLAYS_MAX);
}
