/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Several connections of one session: who may join, and who must not. */
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CORES = 4, CONNS = 16, SESSIONS_MAX = 16, LANES_MAX = 4 };

static struct fab_rig rig;
static struct fab_server *core[CORES];
static struct fab_conn *conn[CONNS];
static uint32_t opened[CORES], closed[CORES]; /* sessions, as each core was told */

static void begin_with(const char *transport, const struct fab_key *key, uint32_t cores)
{
	struct fab_server_cfg cfg = {
		.key = *key,
		.core_count = cores,
		.sessions_max = SESSIONS_MAX,
		.lanes_max = LANES_MAX,
	};

	memset(conn, 0, sizeof(conn));
	memset(core, 0, sizeof(core));
	memset(opened, 0, sizeof(opened));
	memset(closed, 0, sizeof(closed));
	fab_rig_serve(&rig, transport, &cfg);
	core[0] = rig.srv;
	for (uint32_t i = 1; i < cores; i++)
		cr_assert_eq(fab_server_add(rig.srv, &core[i]), 0);
}

static void begin(const char *transport)
{
	begin_with(transport, &fab_rig_key, CORES);
}

static void poll_cores(void)
{
	for (uint32_t i = 0; i < CORES && core[i]; i++) {
		struct fab_event event;

		while (fab_server_poll(core[i], rig.now_ns, &event, 1)) {
			opened[i] += event.type == FAB_EVENT_SESSION_NEW;
			closed[i] += event.type == FAB_EVENT_SESSION_CLOSED;
		}
	}
}

static void turns(void)
{
	for (int i = 0; i < 50; i++) {
		fab_rig_control(&rig);
		poll_cores();
	}
}

static void end(void)
{
	for (uint32_t i = 0; i < CONNS; i++)
		if (conn[i])
			fab_close(conn[i]);
	for (uint32_t i = 0; i < CORES && core[i]; i++)
		fab_server_stop(core[i]);
	turns();
	for (uint32_t i = 0; i < CORES && core[i]; i++)
		cr_assert_eq(opened[i], closed[i], "core %u", i);
	for (uint32_t i = 0; i < SESSIONS_MAX; i++) /* sessions and their keys are gone */
		cr_assert_eq(rig.srv->control->lanes.of[i].id, 0);
	for (uint32_t i = CORES; i-- > 1;)
		if (core[i])
			fab_server_destroy(core[i]);
	fab_rig_end(&rig);
}

static int dial(uint32_t i)
{
	struct fab_connect_cfg cfg = { .address = rig.address, .key = fab_rig_key };
	int err = fab_rig_dial(&rig, &cfg, &conn[i]);

	turns();
	return err;
}

static int join(uint32_t i, uint32_t of, uint32_t number, uint32_t wish)
{
	struct fab_connect_cfg cfg = {
		.address = rig.address, .lane_of = conn[of], .lane = number, .core = wish
	};
	int err = fab_rig_dial(&rig, &cfg, &conn[i]);

	turns();
	return err;
}

static void hang_up(uint32_t i)
{
	fab_close(conn[i]);
	conn[i] = NULL;
	turns();
}

static bool lives(uint32_t i)
{
	struct fab_call *done;

	for (int turn = 0; turn < 20; turn++) {
		turns();
		cr_assert_eq(fab_poll(conn[i], rig.now_ns, &done, 1), 0);
	}
	return fab_conn_status(conn[i]) == 0;
}

static void assert_refused(int got, int err, const char *text)
{
	cr_assert_eq(got, err, "%s: %s", strerror(-got), rig.refusal);
	cr_assert_eq(rig.refused, 1, "%u lines", rig.refused);
	cr_assert_not_null(strstr(rig.refusal, text), "\"%s\" does not say \"%s\"", rig.refusal,
			   text);
}

/* ---- who may ---------------------------------------------------------------------------- */

Test(fab_lanes, each_is_on_the_core_that_it_asked_for)
{
	const struct fab_place *first, *lane;

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	first = fab_conn_place(conn[0]);
	cr_assert_eq(first->core_count, CORES);
	cr_assert_eq(first->lanes_max, LANES_MAX);
	cr_assert_eq(opened[first->core], 1);
	for (uint32_t i = 1; i < LANES_MAX; i++) {
		cr_assert_eq(join(i, i - 1, i, (first->core + i) % CORES), 0); /* of any of them */
		lane = fab_conn_place(conn[i]);
		cr_assert_eq(lane->session_id, first->session_id);
		cr_assert_eq(lane->core, (first->core + i) % CORES);
		cr_assert_eq(opened[lane->core], 1);
	}
	cr_assert_eq(rig.refused, 0);
	end();
}

/* Lanes come when they come; where they are must not push two clients onto one core. */
Test(fab_lanes, a_new_session_is_where_the_fewest_begin_whatever_lanes_there_are)
{
	uint32_t first, second, third;

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(dial(1), 0);
	first = fab_conn_place(conn[0])->core;
	second = fab_conn_place(conn[1])->core;
	cr_assert_neq(second, first);
	for (uint32_t i = 2; i < 2 + 4; i++) /* two on each of the others */
		cr_assert_eq(join(i, i % 2, i / 2, (second + 1 + i / 4) % CORES), 0);
	cr_assert_eq(dial(6), 0);
	third = fab_conn_place(conn[6])->core;
	cr_assert(third != first && third != second, "core %u", third);
	hang_up(6);
	hang_up(0);
	cr_assert_eq(join(0, 2, 0, third), 0); /* a first lane that came back elsewhere */
	for (uint32_t i = 7; i < 9; i++) {
		cr_assert_eq(dial(i), 0);
		cr_assert_neq(fab_conn_place(conn[i])->core, second);
		cr_assert_neq(fab_conn_place(conn[i])->core, third);
	}
	end();
}

Test(fab_lanes, a_core_that_there_is_not_is_any)
{
	begin_with("tcp", &fab_rig_key, 1);
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 7), 0);
	cr_assert_eq(fab_conn_place(conn[1])->core, 0);
	end();
}

/* A request on any lane is served, into one and the same memory.  Returns how many were. */
static uint32_t lanes_share_what_the_client_lends_them(const char *transport)
{
	static _Alignas(4096) char text[4096] = "both see it";
	static struct fab_piece piece[2]; /* until they are back */
	struct fab_region *region[2];
	struct fab_event event = { 0 };
	uint8_t *memory = aligned_alloc(2 << 20, 2 << 20);
	struct fab_call *done;
	uint32_t served = 0;

	begin_with(transport, &fab_rig_key, 2);
	fab_server_memory(rig.srv, text, sizeof(text));
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, !fab_conn_place(conn[0])->core), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct fab_call call = { .type = FAB_READLINK };
		uint8_t out[8];

		piece[i] = (struct fab_piece){ .bytes = text, .length_bytes = sizeof(text) };

		call.args.name.name = (struct fab_name){ .by = FAB_BY_PATH, .name = "l" };
		call.args.name.name.name_bytes = 1;
		cr_assert_eq(fab_pool_lend(conn[i], memory, 2 << 20, -1, &region[i]), 0);
		while (fab_region_status(region[i]) == -EINPROGRESS) {
			turns();
			cr_assert_eq(fab_poll(conn[i], rig.now_ns, &done, 1), 0);
		}
		cr_assert_eq(fab_region_status(region[i]), 0);
		call.region = region[i];
		call.window_offset = i * 4096;
		call.window_bytes = 4096;
		cr_assert_eq(fab_submit(conn[i], &call), 0);
		fab_flush(conn[i]);
		while (event.type != FAB_EVENT_REQUEST)
			(void)!fab_server_poll(core[fab_conn_place(conn[i])->core], rig.now_ns,
					       &event, 1);
		(void)!fab_send_part(event.req, &piece[i]);
		fab_reply(event.req, 0, out, fab_build_u64(out, sizeof(text)));
		event = (struct fab_event){ 0 };
		while (fab_poll(conn[i], rig.now_ns, &done, 1) == 0)
			fab_server_flush(core[fab_conn_place(conn[i])->core]);
		cr_assert_eq(done->status, 0);
		cr_assert_str_eq((char *)memory + i * 4096, text);
		served++;
	}
	hang_up(0);
	hang_up(1);
	memory[0] = 1; /* still ours */
	free(memory);
	end();
	return served;
}

Test(fab_lanes, lanes_share_what_the_client_lends_them_tcp)
{
	cr_assert_eq(lanes_share_what_the_client_lends_them("tcp"), 2);
}

/* Each has registered it with its card, and each takes that back. */
Test(fab_lanes, lanes_share_what_the_client_lends_them_rdma)
{
	fake_verbs_begin(&(struct fake_verbs_cfg){ .seed = 1 });
	cr_assert_eq(lanes_share_what_the_client_lends_them("rdma://10.0.0.1:0"), 2);
	cr_assert_eq(fake_verbs_objects(), 0);
	fake_verbs_end();
}

Test(fab_lanes, over_rdma_a_lane_is_a_queue_pair)
{
	fake_verbs_begin(&(struct fake_verbs_cfg){ .seed = 2 });
	begin("rdma://10.0.0.1:0");
	cr_assert_eq(dial(0), 0);
	for (uint32_t i = 1; i < LANES_MAX; i++) {
		cr_assert_eq(join(i, 0, i, i), 0);
		cr_assert_eq(fab_conn_place(conn[i])->core, i);
	}
	hang_up(1);
	cr_assert(lives(0) && lives(2) && lives(3));
	cr_assert_eq(join(1, 2, 1, 1), 0);
	conn[4] = NULL;
	conn[3]->key->secret[0] ^= 1;
	cr_assert_eq(join(4, 3, 3, 1), -EACCES);
	cr_assert(lives(3)); /* who does not hold the key throws nobody out */
	end();
	fake_verbs_end();
}

Test(fab_lanes, a_lane_that_ends_takes_nobody_with_it_and_comes_again)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 1), 0);
	cr_assert_eq(join(2, 0, 2, 2), 0);
	hang_up(0); /* the first is one like the others */
	cr_assert(lives(1) && lives(2));
	cr_assert_eq(join(0, 2, 0, 0), 0);
	cr_assert(lives(0) && lives(1));
	end();
}

/* The client knows first that a connection is gone: its successor need not wait for the appliance.
 */
Test(fab_lanes, a_number_is_its_last_owners)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 1), 0);
	cr_assert_eq(join(2, 0, 1, 1), 0);
	cr_assert(lives(2) && lives(0));
	cr_assert_not(lives(1));
	end();
}

/* Lanes that a client's earlier session still holds count towards its share. */
Test(fab_lanes, when_all_are_taken_a_successor_waits_for_the_place)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	for (uint32_t i = 1; i < LANES_MAX; i++)
		cr_assert_eq(join(i, 0, i, i), 0);
	cr_assert_eq(join(4, 0, 1, 1), -EUSERS);
	fab_close(conn[4]);
	cr_assert_not(lives(1));
	cr_assert_eq(join(4, 0, 1, 1), 0);
	cr_assert(lives(0) && lives(2) && lives(3) && lives(4));
	end();
}

Test(fab_lanes, over_shm_a_session_has_one)
{
	begin("shm");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 1), -EOPNOTSUPP);
	end();
}

/* ---- who must not ------------------------------------------------------------------------- */

Test(fab_lanes, there_are_so_many_and_no_more)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	for (uint32_t i = 1; i < LANES_MAX; i++)
		cr_assert_eq(join(i, 0, i, i), 0);
	assert_refused(join(4, 0, LANES_MAX, 0), -EUSERS, "as many connections as it may");
	for (uint32_t i = 0; i < LANES_MAX; i++)
		cr_assert(lives(i));
	end();
}

Test(fab_lanes, lanes_leave_a_quarter_of_all_places_to_others)
{
	uint32_t i;

	begin("tcp");
	for (i = 0; i < SESSIONS_MAX * 3 / 4; i += 4) {
		cr_assert_eq(dial(i), 0);
		for (uint32_t k = 1; k < 4; k++)
			cr_assert_eq(join(i + k, i, k, k), 0);
	}
	cr_assert_eq(dial(i), 0);
	cr_assert_eq(join(i + 1, i, 1, 1), -EUSERS);
	fab_close(conn[i + 1]);
	for (i++; i < SESSIONS_MAX; i++)
		cr_assert_eq(dial(i), 0);
	end();
}

Test(fab_lanes, another_sessions_id_with_ones_own_key)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(dial(1), 0); /* the same client key: not the same session's */
	conn[1]->hello.place.session_id = fab_conn_place(conn[0])->session_id;
	cr_assert_eq(join(2, 1, 1, 1), -EACCES);
	fab_close(conn[2]);
	conn[2] = NULL;
	turns();
	assert_refused(-EACCES, -EACCES, "its secret is another");
	cr_assert(lives(0) && lives(1));
	end();
}

Test(fab_lanes, the_clients_key_does_not_open_a_session)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	*conn[0]->key = fab_rig_key;
	cr_assert_eq(join(1, 0, 1, 1), -EACCES);
	cr_assert(lives(0));
	end();
}

Test(fab_lanes, a_sessions_key_does_not_open_another)
{
	struct fab_connect_cfg cfg = { .address = rig.address };

	begin("tcp");
	cfg.address = rig.address;
	cr_assert_eq(dial(0), 0);
	cfg.key = *conn[0]->key;
	cr_assert_neq(memcmp(cfg.key.secret, fab_rig_key.secret, FAB_KEY_BYTES), 0);
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn[1]), -EACCES);
	end();
}

Test(fab_lanes, a_session_that_is_over_is_not_joined)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 1), 0);
	fab__conn_break(conn[0], -ECONNRESET, "test");
	shutdown(conn[0]->fd, SHUT_RDWR);
	hang_up(1);
	turns();
	cr_assert_eq(join(1, 0, 1, 1), -EACCES);
	/* Another session has its place in the table now. */
	cr_assert_eq(dial(2), 0);
	cr_assert_eq(join(3, 0, 1, 1), -EACCES);
	end();
}

Test(fab_lanes, a_key_that_is_revoked_ends_all_lanes_and_lets_in_no_more)
{
	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 1), 0);
	cr_assert_eq(fab_server_key_remove(rig.srv, fab_rig_key.id), 2);
	cr_assert_eq(join(2, 0, 2, 2), -EACCES);
	cr_assert_not(lives(0));
	cr_assert_not(lives(1));
	end();
}

Test(fab_lanes, a_key_that_is_set_anew_lets_in_no_lane_of_the_old)
{
	struct fab_grant other = { .key = fab_rig_key, .rights.may_write = false };

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(fab_server_key_set(rig.srv, &other), 1);
	cr_assert_eq(join(1, 0, 1, 1), -EACCES);
	cr_assert_not(lives(0));
	end();
}

/* In the middle of a lane's hello. */
Test(fab_lanes, a_key_that_is_revoked_between_challenge_and_proof)
{
	struct fab_connect_cfg cfg = { .lane = 1 };
	int err;

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cfg.address = rig.address;
	cfg.lane_of = conn[0];
	cr_assert_eq(fab_connect(&conn[1], &cfg, rig.now_ns), 0);
	for (int i = 0; i < 1000 && conn[1]->hello.at != HELLO_PROVED; i++) {
		fab_rig_control(&rig);
		cr_assert_eq(fab_connect_step(conn[1], rig.now_ns), -EINPROGRESS);
	}
	cr_assert_eq(conn[1]->hello.at, HELLO_PROVED);
	cr_assert_eq(fab_server_key_remove(rig.srv, fab_rig_key.id), 1);
	do {
		fab_rig_control(&rig);
		err = fab_connect_step(conn[1], rig.now_ns);
	} while (err == -EINPROGRESS);
	cr_assert_eq(err, -EACCES);
	turns();
	end();
}

Test(fab_lanes, the_same_address_may_be_another_appliance)
{
	struct fab_rig other;
	struct fab_server_cfg cfg = { .key = fab_rig_key };
	char kept[128];

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	fab_rig_serve(&other, "tcp", &cfg);
	memcpy(kept, rig.address, sizeof(kept));
	memcpy(rig.address, other.address, sizeof(kept));
	{
		struct fab_connect_cfg dial_cfg = { .address = other.address,
						    .lane_of = conn[0],
						    .lane = 1 };

		cr_assert_eq(fab_rig_dial(&other, &dial_cfg, &conn[1]), -EXDEV);
	}
	memcpy(rig.address, kept, sizeof(kept));
	fab_close(conn[1]);
	conn[1] = NULL;
	fab_rig_control(&other);
	fab_rig_end(&other);
	cr_assert(lives(0));
	end();
}

/* ---- what was recorded -------------------------------------------------------------------- */

/* A hello by hand: what the client says, kept. */
struct tape {
	uint8_t bytes[1024];
	uint32_t size;
};

static void record(struct tape *t, const struct fab_hello *h, uint32_t *seen)
{
	if (h->out_bytes == *seen)
		return;
	memcpy(t->bytes + t->size, h->out, h->out_bytes);
	t->size += h->out_bytes;
	*seen = h->out_bytes;
}

Test(fab_lanes, a_recorded_hello_of_a_lane_is_worth_nothing)
{
	struct fab__lanes *lanes;
	struct fab_hello client, server;
	struct tape tape = { 0 };
	struct fab__join how = { .number = 1 };
	uint8_t nonce[32] = { 1 };
	uint32_t seen = 0, at = 0;
	int err = 0;

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	lanes = &rig.srv->control->lanes;
	how.session_id = fab_conn_place(conn[0])->session_id;
	for (int run = 0; run < 2; run++) { /* live, then from the tape */
		nonce[1] = (uint8_t)run;
		fab__hello_server(&server, &rig.srv->control->keys, FAB_TRANSPORT_TCP,
				  &rig.srv->cfg.limits, nonce);
		server.lanes = lanes;
		if (run == 1)
			break;
		fab__hello_client(&client, conn[0]->key, FAB_TRANSPORT_TCP, &rig.srv->cfg.limits,
				  NULL, nonce, &how);
		for (int i = 0; i < 2; i++) {
			seen = 0;
			record(&tape, &client, &seen);
			for (at = 0; at < client.out_bytes && err == 0;) {
				uint32_t n =
					min_u32(fab__hello_want(&server), client.out_bytes - at);

				memcpy(server.in + server.in_bytes, client.out + at, n);
				server.in_bytes += n;
				at += n;
				err = fab__hello_step(&server);
			}
			client.out_bytes = 0;
			for (at = 0; at < server.out_bytes;) {
				uint32_t n =
					min_u32(fab__hello_want(&client), server.out_bytes - at);

				memcpy(client.in + client.in_bytes, server.out + at, n);
				client.in_bytes += n;
				at += n;
				cr_assert_eq(fab__hello_step(&client), 0);
			}
			server.out_bytes = 0;
		}
		cr_assert_eq(err, 1);
	}
	err = 0;
	for (at = 0; at < tape.size && err == 0;) {
		uint32_t n = min_u32(fab__hello_want(&server), tape.size - at);

		memcpy(server.in + server.in_bytes, tape.bytes + at, n);
		server.in_bytes += n;
		at += n;
		err = fab__hello_step(&server);
	}
	cr_assert_eq(err, -EACCES);
	end();
}

/* A session that joins no other must send zero as its lane. */
Test(fab_lanes, who_joins_nobody_names_no_lane)
{
	struct fab_hello client, server;
	uint8_t nonce[32] = { 1 };

	begin("tcp");
	for (int i = 0; i < 4; i++) {
		struct fab__join how = { .number = i == 0, .core = i == 1 };
		int err = 0;

		if (i == 3)
			how = (struct fab__join){ .session_id = 4096, .number = FAB_LANES_MAX };
		fab__hello_client(&client, &fab_rig_key, FAB_TRANSPORT_TCP, &rig.srv->cfg.limits,
				  NULL, nonce, &how);
		if (i == 2) {
			struct fab_hdr_wire w;

			client.hello.lane.zero = le32_of(1);
			memcpy(client.out + 64, &client.hello, sizeof(client.hello));
			memcpy(&w, client.out, 64);
			w.body.crc32c = le32_of(crc32c(&client.hello, sizeof(client.hello)));
			w.check = le32_of(fab__hdr_check(&w));
			memcpy(client.out, &w, 64);
		}
		fab__hello_server(&server, &rig.srv->control->keys, FAB_TRANSPORT_TCP,
				  &rig.srv->cfg.limits, nonce);
		server.lanes = &rig.srv->control->lanes;
		for (uint32_t at = 0; at < client.out_bytes && err == 0;) {
			uint32_t n = min_u32(fab__hello_want(&server), client.out_bytes - at);

			memcpy(server.in + server.in_bytes, client.out + at, n);
			server.in_bytes += n;
			at += n;
			err = fab__hello_step(&server);
		}
		cr_assert_eq(err, -EPROTO, "%d", i);
	}
	end();
}

/* ---- within TLS --------------------------------------------------------------------------- */

Test(fab_lanes, lanes_prove_the_sessions_key_within_tls_too)
{
	begin("tls://127.0.0.1:0");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(join(1, 0, 1, 1), 0, "%s", fab_conn_error(conn[1]));
	cr_assert_eq(fab_conn_place(conn[1])->core, 1);
	cr_assert(lives(0) && lives(1));
	conn[1]->key->secret[0] ^= 1;
	cr_assert_eq(join(2, 1, 2, 2), -EACCES);
	fab_close(conn[2]);
	conn[2] = NULL;
	turns();
	cr_assert_eq(rig.refused, 1);
	conn[1]->key->secret[0] ^= 1;
	cr_assert_eq(fab_server_key_remove(rig.srv, fab_rig_key.id), 2);
	cr_assert_eq(join(2, 0, 2, 2), -EACCES);
	end();
}
