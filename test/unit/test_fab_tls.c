/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * TLS under a connection: with the right key everything goes through it; with a wrong one, a lower
 * version, none at all, or records that were cut or changed, nothing does, and a line says why.
 */
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "fabric/link/fab_tls.h"
#include "test/lib/fab_rig.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POOL   (4u << 20)
#define LARGE  (1u << 20)
#define WINDOW (LARGE + 4096)

static struct fab_rig rig;

static void serve(void)
{
	fab_rig_serve(&rig, "tls://127.0.0.1:0", NULL);
	cr_assert_eq(strncmp(rig.address, "tls://127.0.0.1:", 16), 0, "%s", rig.address);
}

TestSuite(fab_tls, .timeout = 60);

/* ---- what works ------------------------------------------------------------------------ */

static void numbers(uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
}

/* A READ of `bytes`: PART and REPLY come through it, and nothing else moved. */
static void read_one(uint32_t bytes, uint8_t *source)
{
	struct fab_call call = {
		.type = FAB_READ,
		.args.read.length_bytes = bytes,
		.region = rig.region,
		.window_bytes = WINDOW,
	};
	struct fab_piece piece = { .bytes = source, .length_bytes = bytes };
	uint8_t *window = fab_region_memory(rig.region);
	struct fab_req *req;

	numbers(source, bytes, bytes);
	memset(window, 0, WINDOW);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(fab_send_part(req, &piece), 0);
	fab_reply_read(req, bytes, (uint32_t[FAB_SUMS_INLINE]){ 1 }, bytes);
	for (int i = 0; i < 100000 && !call.status && !call.length_bytes; i++) {
		struct fab_call *done;
		struct fab_event event;

		(void)!fab_server_poll(rig.srv, rig.now_ns, &event, 1);
		(void)!fab_poll(rig.conn, rig.now_ns, &done, 1);
	}
	cr_assert_eq(call.length_bytes, bytes, "%s", fab_conn_error(rig.conn));
	cr_assert_eq(memcmp(window, source, bytes), 0, "%u bytes", bytes);
	cr_assert_eq(window[bytes], 0);
}

Test(fab_tls, payload_of_every_sort_of_size_comes_through)
{
	static const uint32_t sizes[] = { 1, 64, 4095, 4096, 16383, 16384, 16385, 131072, LARGE };
	uint8_t *source = malloc(LARGE);

	serve();
	fab_rig_connect(&rig, POOL);
	cr_assert_str_eq(fab_conn_transport(rig.conn), "tcp");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		read_one(sizes[i], source);
	cr_assert_eq(rig.refused, 0);
	fab_rig_end(&rig);
	free(source);
}

static struct fab_tls *tls_of_server(void)
{
	return rig.srv->open[0]->control.tls;
}

/* More than a socket holds, so that a record stays half-sent, and is taken up again. */
static void expect_all_arrives_later(uint64_t records)
{
	enum { CALLS = 16 };
	struct fab_call call[CALLS], *done;
	struct fab_piece piece[CALLS];
	uint8_t *source = malloc(LARGE);
	uint32_t back = 0;

	serve();
	fab_rig_connect(&rig, POOL);
	fab__tls_rekey_after(rig.conn->tls, records);
	fab__tls_rekey_after(tls_of_server(), records);
	numbers(source, LARGE, 7);
	for (int i = 0; i < CALLS; i++) {
		call[i] = (struct fab_call){ .type = FAB_READ,
					     .args.read.length_bytes = LARGE,
					     .region = rig.region,
					     .window_bytes = WINDOW };
		cr_assert_eq(fab_submit(rig.conn, &call[i]), 0);
	}
	fab_flush(rig.conn);
	for (int i = 0; i < CALLS; i++) { /* nobody takes any of it meanwhile */
		struct fab_event event = { .type = FAB_EVENT_SENT };

		while (event.type != FAB_EVENT_REQUEST)
			if (!fab_server_poll(rig.srv, rig.now_ns, &event, 1))
				event.type = FAB_EVENT_SENT;
		piece[i] = (struct fab_piece){ .bytes = source, .length_bytes = LARGE };
		cr_assert_eq(fab_send_part(event.req, &piece[i]), 0);
		fab_reply_read(event.req, LARGE, NULL, LARGE);
		fab_server_flush(rig.srv);
	}
	for (int i = 0; i < 1000000 && back < CALLS; i++) {
		struct fab_event event;

		(void)!fab_server_poll(rig.srv, rig.now_ns, &event, 1);
		back += fab_poll(rig.conn, rig.now_ns, &done, 1);
	}
	cr_assert_eq(back, CALLS);
	cr_assert_eq(memcmp(fab_region_memory(rig.region), source, LARGE), 0);
	fab_rig_end(&rig);
	free(source);
}

Test(fab_tls, what_a_socket_does_not_take_leaves_later)
{
	expect_all_arrives_later(FAB_TLS_RECORDS_MAX);
}

/* Both ends ask for new keys all the time, also while the other cannot send. */
Test(fab_tls, keys_are_replaced_around_half_sent_records)
{
	expect_all_arrives_later(5);
}

Test(fab_tls, required_makes_every_tcp_address_one)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .tls_required = true };

	fab_rig_serve(&rig, "tcp", &cfg);
	cr_assert_eq(strncmp(rig.address, "tls://", 6), 0, "%s", rig.address);
	fab_rig_connect(&rig, 0);
	fab_rig_end(&rig);
}

/* ---- new keys ------------------------------------------------------------------------------- */

/* Sixteen records are 256 KiB: each end's counting makes the other's keys new as well. */
static void expect_session_outlives_its_keys(bool client_counts)
{
	enum { RECORDS = 16, ROUNDS = 40 };
	struct fab_tls *server, *client;
	uint8_t *source = malloc(LARGE);

	serve();
	fab_rig_connect(&rig, POOL);
	read_one(64, source);
	server = tls_of_server();
	client = rig.conn->tls;
	fab__tls_rekey_after(client_counts ? client : server, RECORDS);
	for (uint32_t i = 0; i < ROUNDS; i++)
		read_one(LARGE - 64 * i, source);
	/* A MiB is 64 records and more from the appliance. */
	cr_assert_geq(fab__tls_rekeys(server, true), client_counts ? ROUNDS / 2 : 4 * ROUNDS);
	cr_assert_eq(fab__tls_rekeys(server, true), fab__tls_rekeys(client, false));
	cr_assert_geq(fab__tls_rekeys(client, true), ROUNDS / 2);
	fab_rig_end(&rig);
	free(source);
}

Test(fab_tls, session_outlives_the_keys_of_who_sends_much)
{
	expect_session_outlives_its_keys(false);
}

Test(fab_tls, session_outlives_the_keys_of_who_receives_much)
{
	expect_session_outlives_its_keys(true);
}

Test(fab_tls, keys_are_not_replaced_before_it_is_time)
{
	uint8_t *source = malloc(LARGE);

	serve();
	fab_rig_connect(&rig, POOL);
	for (uint32_t i = 0; i < 20; i++)
		read_one(LARGE, source);
	cr_assert_eq(fab__tls_rekeys(tls_of_server(), true), 0);
	cr_assert_eq(fab__tls_rekeys(rig.conn->tls, true), 0);
	fab_rig_end(&rig);
	free(source);
}

/* ---- who does not get in ------------------------------------------------------------------ */

static void expect_refused(const struct fab_connect_cfg *cfg, int err, const char *here,
			   const char *there)
{
	struct fab_conn *conn;

	cr_assert_eq(fab_rig_dial(&rig, cfg, &conn), err, "%s", fab_conn_error(conn));
	cr_assert_not_null(strstr(fab_conn_error(conn), here), "%s", fab_conn_error(conn));
	for (int i = 0; i < 100 && rig.refused == 0; i++)
		fab_rig_control(&rig);
	cr_assert_eq(rig.refused, 1);
	cr_assert_not_null(strstr(rig.refusal, there), "%s", rig.refusal);
	cr_assert_null(strchr(rig.refusal, '\n'));
	fab_close(conn);
}

Test(fab_tls, wrong_secret)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };

	serve();
	cfg.address = rig.address;
	cfg.key.secret[31] ^= 1;
	expect_refused(&cfg, -EACCES, "TLS: the key is unknown there, or its secret is another",
		       "key \"rig\": TLS: its key is unknown here, or its secret is another");
	fab_rig_end(&rig);
}

/* The same words to both: whether a key exists is not told. */
Test(fab_tls, unknown_key)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };

	serve();
	cfg.address = rig.address;
	memcpy(cfg.key.id, "nobody", 7);
	expect_refused(&cfg, -EACCES, "TLS: the key is unknown there, or its secret is another",
		       "key \"nobody\": TLS: its key is unknown here, or its secret is another");
	fab_rig_end(&rig);
}

static const char *port(void)
{
	return strrchr(rig.address, ':');
}

Test(fab_tls, who_speaks_plainly_is_told_to_use_tls)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	char address[64];

	serve();
	snprintf(address, sizeof(address), "tcp://127.0.0.1%s", port());
	cfg.address = address;
	expect_refused(&cfg, -EPROTO, "this address speaks TLS only: use tls://HOST:PORT",
		       "this address speaks TLS only");
	fab_rig_end(&rig);
}

/* A client that was told tls:// does not fall back: it sends nothing to an appliance without
 * TLS. */
Test(fab_tls, no_downgrade_at_an_appliance_without_it)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	char address[64];

	fab_rig_serve(&rig, "tcp", NULL);
	snprintf(address, sizeof(address), "tls://127.0.0.1%s", port());
	cfg.address = address;
	expect_refused(&cfg, -EPROTO, "TLS: the peer speaks something else: it may want tcp://",
		       "speaks another protocol");
	fab_rig_end(&rig);
}

static int dial_raw(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)atoi(port() + 1)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* A stranger's TLS client, of one version, without our key. */
static void expect_stranger_refused(int version, const char *why)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;
	int fd;

	serve();
	fd = dial_raw();
	cr_assert(ctx && SSL_CTX_set_max_proto_version(ctx, version));
	ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fd);
	SSL_set_connect_state(ssl);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 1000 && rig.refused == 0; i++) {
		cr_assert_neq(SSL_do_handshake(ssl), 1);
		fab_rig_control(&rig);
	}
	cr_assert_eq(rig.refused, 1);
	cr_assert_not_null(strstr(rig.refusal, why), "%s", rig.refusal);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	fab_rig_end(&rig);
}

Test(fab_tls, version_1_2_is_refused)
{
	expect_stranger_refused(TLS1_2_VERSION, "TLS: the peer has no version 1.3");
}

Test(fab_tls, who_offers_no_key_is_refused)
{
	expect_stranger_refused(TLS1_3_VERSION, "TLS: the peer offers no pre-shared key");
}

Test(fab_tls, another_key_in_the_hello_than_in_tls)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_grant grant = { .key = { .id = "second", .secret = { 9 } } };
	struct fab_conn *conn;
	int err;

	serve();
	cr_assert_geq(fab_server_key_set(rig.srv, &grant), 0);
	cfg.address = rig.address;
	cr_assert_eq(fab_connect(&conn, &cfg, rig.now_ns), 0);
	/* Its TLS proves "rig", its hello "second". */
	fab__hello_client(&conn->hello, &grant.key, FAB_TRANSPORT_TCP, &cfg.want, NULL,
			  (uint8_t[32]){ 1 }, NULL);
	do {
		fab_rig_control(&rig);
		err = fab_connect_step(conn, rig.now_ns);
	} while (err == -EINPROGRESS);
	cr_assert_eq(err, -EACCES);
	cr_assert_not_null(strstr(rig.refusal, "another key than that of TLS"), "%s", rig.refusal);
	fab_close(conn);
	fab_rig_end(&rig);
}

/* ---- what is cut or changed on its way ------------------------------------------------------- */

/* A session is there; then its client's socket says `bytes`, past TLS.  Returns its last event. */
static enum fab_event_type after_the_hello(const void *bytes, size_t size, bool close_then)
{
	struct fab_event event = { 0 };

	serve();
	fab_rig_connect(&rig, POOL);
	cr_assert_eq(send(rig.conn->fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
	if (close_then)
		shutdown(rig.conn->fd, SHUT_WR);
	for (int i = 0; i < 100000 && event.type != FAB_EVENT_SESSION_CLOSED; i++)
		if (!fab_server_poll(rig.srv, rig.now_ns, &event, 1))
			event.type = FAB_EVENT_SESSION_NEW;
	fab_rig_end(&rig);
	return event.type;
}

Test(fab_tls, forged_record_ends_the_session)
{
	static const uint8_t record[] = { 23, 3,  3,  0,  32, 1,  2,  3,  4,  5,  6,  7,  8,
					  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
					  22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 };

	cr_assert_eq(after_the_hello(record, sizeof(record), false), FAB_EVENT_SESSION_CLOSED);
}

Test(fab_tls, plain_capsule_behind_the_handshake_ends_the_session)
{
	struct fab_hdr_wire hdr;

	fab__hdr_build(&hdr, FAB_PING, 1);
	hdr.check = le32_of(fab__hdr_check(&hdr));
	cr_assert_eq(after_the_hello(&hdr, sizeof(hdr), false), FAB_EVENT_SESSION_CLOSED);
}

Test(fab_tls, truncated_record_ends_the_session)
{
	static const uint8_t record[] = { 23, 3, 3, 0, 32, 1, 2, 3 };

	cr_assert_eq(after_the_hello(record, sizeof(record), true), FAB_EVENT_SESSION_CLOSED);
}

/* Bytes of a handshake that stop: the deadline of the hello ends it. */
Test(fab_tls, handshake_that_stops_times_out)
{
	static const uint8_t begin[] = { 22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 };
	int fd;

	serve();
	fd = dial_raw();
	cr_assert_eq(send(fd, begin, sizeof(begin), 0), (ssize_t)sizeof(begin));
	for (int i = 0; i < 100; i++)
		fab_rig_control(&rig);
	cr_assert_eq(rig.refused, 0);
	rig.now_ns += 6000000000u;
	fab_rig_control(&rig);
	fab_rig_control(&rig);
	cr_assert_eq(rig.refused, 1);
	cr_assert_not_null(strstr(rig.refusal, "too long"), "%s", rig.refusal);
	close(fd);
	fab_rig_end(&rig);
}
