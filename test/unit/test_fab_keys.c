/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Keys of a server: who gets in, who is thrown out, whose handles are whose. */
#include "test/lib/fab_rig.h"
#include "fabric/hello/fab_server_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct fab_rig rig;

static void set(const struct fab_grant *g)
{
	cr_assert_eq(fab_server_key_set(rig.srv, g), 1);
}

static int dial(const struct fab_grant *g, struct fab_conn **conn)
{
	struct fab_connect_cfg cfg = { .address = rig.address, .key = g->key };

	return fab_rig_dial(&rig, &cfg, conn);
}

/* The core's next event that is no SESSION_NEW, or none in some turns. */
static bool next_event(struct fab_event *out)
{
	for (int i = 0; i < 200; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, out, 1) &&
		    out->type != FAB_EVENT_SESSION_NEW)
			return true;
	}
	return false;
}

static struct fab_session *session_new(void)
{
	struct fab_event e;

	for (int i = 0; i < 200; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &e, 1)) {
			cr_assert_eq(e.type, FAB_EVENT_SESSION_NEW);
			return e.session;
		}
	}
	cr_assert_fail("no session came");
	return NULL;
}

static void end(struct fab_conn *a, struct fab_conn *b)
{
	if (a)
		fab_close(a);
	if (b)
		fab_close(b);
	fab_rig_end(&rig);
}

Test(fab_keys, each_key_gets_its_own_session_with_its_own_rights)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "/a", false),
			 b = fab_rig_grant("bob", 2, "", true);
	struct fab_conn *ca, *cb;
	struct fab_session *sa, *sb;

	fab_rig_serve(&rig, "tcp", NULL);
	a.rights.ops_per_s = 77;
	set(&a);
	set(&b);
	cr_assert_eq(dial(&a, &ca), 0);
	sa = session_new();
	cr_assert_eq(dial(&b, &cb), 0);
	sb = session_new();
	cr_assert_str_eq(sa->key_id, "alice");
	cr_assert_str_eq(sa->rights->subtree, "/a");
	cr_assert_eq(sa->rights->ops_per_s, 77);
	cr_assert(!sa->rights->may_write);
	cr_assert_str_eq(sb->key_id, "bob");
	cr_assert_str_eq(sb->rights->subtree, "");
	cr_assert(sb->rights->may_write);
	end(ca, cb);
}

/* The secret of one key with the name of another is refused. */
Test(fab_keys, secrets_do_not_go_by_other_names)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "", true),
			 b = fab_rig_grant("bob", 2, "", true);
	struct fab_grant mixed = fab_rig_grant("alice", 2, "", true);
	struct fab_conn *conn;

	fab_rig_serve(&rig, "tcp", NULL);
	set(&a);
	set(&b);
	cr_assert_eq(dial(&mixed, &conn), -EACCES);
	end(conn, NULL);
}

/* Returns the status of the connection that is opened after the key was revoked. */
static int revoke_while_served(const char *transport, bool anew)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "", true),
			 b = fab_rig_grant("bob", 2, "", true);
	struct fab_call ping = { .type = FAB_PING }, *done = NULL;
	struct fab_conn *ca, *cb, *again;
	struct fab_req *req;
	struct fab_event e;
	int status;

	fab_rig_serve(&rig, transport, NULL);
	set(&a);
	set(&b);
	cr_assert_eq(dial(&a, &ca), 0);
	(void)session_new();
	cr_assert_eq(dial(&b, &cb), 0);
	(void)session_new();
	cr_assert_eq(fab_submit(ca, &ping), 0);
	fab_flush(ca);
	cr_assert(next_event(&e));
	cr_assert_eq(e.type, FAB_EVENT_REQUEST);
	req = e.req;

	if (anew) { /* other rights: another key */
		a.rights.may_write = false;
		set(&a);
	} else {
		cr_assert_eq(fab_server_key_remove(rig.srv, "alice"), 1);
		cr_assert_eq(fab_server_key_remove(rig.srv, "alice"), -ENOENT);
	}
	cr_assert(next_event(&e));
	cr_assert_eq(e.type, FAB_EVENT_CANCEL);
	cr_assert_eq(e.status, -ECONNRESET);
	cr_assert_eq(e.req, req);
	fab_reply(req, e.status, NULL, 0);
	cr_assert(next_event(&e));
	cr_assert_eq(e.type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_idle(&rig);
	for (int i = 0; i < 1000 && !done; i++) {
		rig.now_ns += 1000000000;
		fab_rig_control(&rig);
		(void)!fab_poll(ca, rig.now_ns, &done, 1);
	}
	cr_assert_eq(done, &ping);
	cr_assert_eq(ping.status, -ECONNRESET);
	status = dial(&a, &again);

	/* Nobody else notices. */
	ping = (struct fab_call){ .type = FAB_PING };
	cr_assert_eq(fab_submit(cb, &ping), 0);
	fab_flush(cb);
	cr_assert(next_event(&e));
	cr_assert_eq(e.type, FAB_EVENT_REQUEST);
	fab_reply(e.req, 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, cb), &ping);
	cr_assert_eq(ping.status, 0);
	fab_close(again);
	end(ca, cb);
	return status;
}

Test(fab_keys, a_revoked_key_ends_its_sessions_over_tcp)
{
	cr_assert_eq(revoke_while_served("tcp", false), -EACCES);
}

Test(fab_keys, a_revoked_key_ends_its_sessions_over_shm)
{
	cr_assert_eq(revoke_while_served("shm", false), -EACCES);
}

Test(fab_keys, other_rights_are_another_key)
{
	cr_assert_eq(revoke_while_served("tcp", true), 0);
}

/* 1: what was there has ended. */
Test(fab_keys, another_user_is_another_key)
{
	struct fab_grant g = fab_rig_grant("alice", 1, "/a", true);

	fab_rig_serve(&rig, "tcp", NULL);
	g.rights.has_uid = true;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), -EINVAL, "a user has a group");
	g.rights.gids = FAB_GROUPS_MAX + 1;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), -EINVAL);
	g.rights.gids = 2;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), 1);
	cr_assert_eq(fab_server_key_set(rig.srv, &g), 0);
	g.rights.uid = 7;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), 1);
	g.rights.gid[1] = 7;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), 1);
	g.rights.gids = 1;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), 1);
	g.rights.has_uid = false;
	cr_assert_eq(fab_server_key_set(rig.srv, &g), 1);
	fab_rig_end(&rig);
}

Test(fab_keys, what_is_set_again_as_it_was_disturbs_nobody)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "/a", true);
	struct fab_conn *conn;
	struct fab_event e;

	fab_rig_serve(&rig, "tcp", NULL);
	set(&a);
	cr_assert_eq(dial(&a, &conn), 0);
	(void)session_new();
	cr_assert_eq(fab_server_key_set(rig.srv, &a), 0);
	cr_assert(!next_event(&e));
	cr_assert_eq(fab_conn_status(conn), 0);
	end(conn, NULL);
}

/* Between HELLO and PROOF. */
Test(fab_keys, a_key_that_is_revoked_in_the_middle_of_the_hello_is_refused)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "", true);
	struct fab_limits most = { 4, 1, 4, 1 << 20, 1 << 20 };
	struct fab_hello client, server;
	struct fab__keys keys = { 0 };
	uint8_t nonce[32] = { 3 };
	uint32_t ended;

	cr_assert_eq(fab__keys_create(&keys, 2), 0);
	cr_assert_eq(fab__keys_set(&keys, &a, &ended), 1);
	fab__hello_client(&client, &a.key, FAB_TRANSPORT_TCP, &most, NULL, nonce, NULL);
	fab__hello_server(&server, &keys, FAB_TRANSPORT_TCP, &most, nonce);
	memcpy(server.in, client.out, 64);
	server.in_bytes = 64;
	cr_assert_eq(fab__hello_step(&server), 0);
	memcpy(server.in + 64, client.out + 64, 128);
	server.in_bytes = 192;
	cr_assert_eq(fab__hello_step(&server), 0);
	memcpy(client.in, server.out, 64);
	client.in_bytes = 64;
	client.out_bytes = 0;
	cr_assert_eq(fab__hello_step(&client), 0);
	memcpy(client.in + 64, server.out + 64, 128);
	client.in_bytes = 192;
	cr_assert_eq(fab__hello_step(&client), 0);
	cr_assert_eq(fab__keys_remove(&keys, "alice", &ended), 0);
	memcpy(server.in, client.out, 64);
	server.in_bytes = 64;
	server.out_bytes = 0;
	cr_assert_eq(fab__hello_step(&server), 0);
	memcpy(server.in + 64, client.out + 64, 32);
	server.in_bytes = 96;
	cr_assert_eq(fab__hello_step(&server), -EACCES);
	fab__keys_destroy(&keys);
}

Test(fab_keys, a_local_key_is_unknown_to_peers_from_elsewhere)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "", true);
	struct fab__keys keys = { 0 };
	uint32_t ended, slot;

	a.rights.peer = FAB_PEER_LOCAL;
	cr_assert_eq(fab__keys_create(&keys, 2), 0);
	cr_assert_eq(fab__keys_set(&keys, &a, &ended), 1);
	cr_assert_eq(memcmp(fab__keys_find(&keys, a.key.id, FAB_PEER_LOCAL, &slot), &a.key,
			    sizeof(a.key)),
		     0);
	cr_assert_eq(slot, 0);
	cr_assert_neq(
		memcmp(fab__keys_find(&keys, a.key.id, FAB_PEER_ANY, &slot), &a.key, sizeof(a.key)),
		0);
	cr_assert_eq(slot, FAB_KEY_NONE);
	fab__keys_destroy(&keys);
}

Test(fab_keys, roots_key_is_unknown_to_every_other_user)
{
	struct fab_grant a = fab_rig_grant(FAB_KEY_ROOT, 0, "", true);
	struct fab__keys keys = { 0 };
	uint32_t ended, slot;

	a.rights.peer = FAB_PEER_OWNER;
	cr_assert_eq(fab__keys_create(&keys, 2), 0);
	cr_assert_eq(fab__keys_set(&keys, &a, &ended), 1);
	(void)fab__keys_find(&keys, a.key.id, FAB_PEER_OWNER, &slot);
	cr_assert_eq(slot, 0);
	cr_assert_neq(memcmp(fab__keys_find(&keys, a.key.id, FAB_PEER_LOCAL, &slot), &a.key,
			     sizeof(a.key)),
		      0);
	cr_assert_eq(slot, FAB_KEY_NONE);
	a.rights.peer = FAB_PEER_ANY; /* other rights, so another key */
	cr_assert_eq(fab__keys_set(&keys, &a, &ended), 1);
	cr_assert_eq(ended, 0);
	fab__keys_destroy(&keys);
}

Test(fab_keys, the_table_has_an_end_and_places_are_used_again)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .keys_max = 3 };
	struct fab_grant g;
	uint8_t secret[FAB_KEY_BYTES];
	char id[16];

	fab_rig_serve(&rig, "tcp", &cfg);
	for (int i = 0; i < 2; i++) {
		snprintf(id, sizeof(id), "key%d", i);
		g = fab_rig_grant(id, (uint8_t)i, "", true);
		set(&g);
	}
	g = fab_rig_grant("one-too-many", 9, "", true);
	cr_assert_eq(fab_server_key_set(rig.srv, &g), -ENOSPC);
	g = fab_rig_grant("key1", 9, "", true);
	set(&g); /* another secret: in its own place */
	cr_assert_eq(fab_server_key_secret(rig.srv, "key1", secret), 0);
	cr_assert_eq(secret[5], 9);
	cr_assert_eq(fab_server_key_remove(rig.srv, "key0"), 0);
	cr_assert_eq(fab_server_key_secret(rig.srv, "key0", secret), -ENOENT);
	g = fab_rig_grant("one-too-many", 9, "", true);
	set(&g);
	cr_assert_not_null(fab_server_key_id(rig.srv, 2));
	cr_assert_null(fab_server_key_id(rig.srv, 3));
	fab_rig_end(&rig);
}

Test(fab_keys, nonsense_is_no_key)
{
	static const char *const ids[] = { "", "with space", "tab\tbed", "not-ascii-\xc3\xa9" };
	static const char *const paths[] = { "/", "a", "/a/", "a/b" };
	struct fab_grant g;

	fab_rig_serve(&rig, "tcp", NULL);
	for (uint32_t i = 0; i < ARRAY_LEN(ids); i++) {
		g = fab_rig_grant(ids[i], 1, "", true);
		cr_assert_eq(fab_server_key_set(rig.srv, &g), -EINVAL, "%s", ids[i]);
	}
	for (uint32_t i = 0; i < ARRAY_LEN(paths); i++) {
		g = fab_rig_grant("ok", 1, paths[i], true);
		cr_assert_eq(fab_server_key_set(rig.srv, &g), -EINVAL, "%s", paths[i]);
	}
	fab_rig_end(&rig);
}

/* ---- handles ---------------------------------------------------------------------------- */

static struct fab_session session_as(struct fab__scope *scope, uint8_t secret, uint64_t client,
				     uint8_t session, const struct fab_rights *rights)
{
	uint8_t handle_secret[FAB_KEY_BYTES], session_secret[FAB_KEY_BYTES];

	memset(handle_secret, secret, sizeof(handle_secret));
	memset(session_secret, session, sizeof(session_secret));
	fab__scope_init(scope, handle_secret, client, session_secret, rights);
	return (struct fab_session){ .scope = scope };
}

/* `client` and `session`: whose, by which session's secret; the key's own is `secret`. */
static struct fab_session session_of(struct fab__scope *scope, uint8_t secret, uint64_t client,
				     uint8_t session)
{
	const struct fab_rights rights = { .may_write = true };

	return session_as(scope, secret, client, session, &rights);
}

static bool opens(const struct fab_session *by, const struct fab_handle *sealed,
		  const struct fab_handle *h)
{
	struct fab_handle opened = fab_handle_open(by, sealed);

	return memcmp(&opened, h, sizeof(opened)) == 0;
}

Test(fab_keys, a_handle_is_good_for_the_client_it_was_given_to_only)
{
	const struct fab_handle h = { { 1, 2, 3 } };
	struct fab__scope scope[6];
	const struct fab_session all = { 0 }, alice = session_of(&scope[0], 1, 7, 1),
				 again = session_of(&scope[1], 1, 7, 2),
				 colleague = session_of(&scope[2], 1, 8, 1),
				 bob = session_of(&scope[3], 2, 7, 1),
				 nameless = session_of(&scope[4], 1, 0, 1),
				 nameless_again = session_of(&scope[5], 1, 0, 2);
	struct fab_handle sealed = fab_handle_seal(&alice, &h);

	cr_assert(opens(&alice, &sealed, &h));
	cr_assert(opens(&again, &sealed, &h)); /* in its next session, at a restarted appliance */
	cr_assert_not(opens(&colleague, &sealed, &h));
	cr_assert_not(opens(&bob, &sealed, &h));
	cr_assert_not(opens(&nameless, &sealed, &h));
	/* Sessions whose handles are sealed refuse the appliance's own, unsealed handle. */
	cr_assert_not(opens(&all, &sealed, &h));
	cr_assert_not(opens(&alice, &h, &h));
	/* A client without an id cannot use its handles in a later session. */
	sealed = fab_handle_seal(&nameless, &h);
	cr_assert(opens(&nameless, &sealed, &h));
	cr_assert_not(opens(&nameless_again, &sealed, &h));
	/* A key with all rights gets unsealed handles. */
	cr_assert(opens(&all, &h, &h));
}

/* A key's file may be changed: who is another user then has been nowhere yet. */
Test(fab_keys, a_handle_is_good_for_the_user_it_was_given_to_only)
{
	const struct fab_handle h = { { 1, 2, 3 } };
	const struct fab_rights rights[] = {
		{ .has_uid = true, .uid = 7, .gids = 1, .gid = { 8 } },
		{ .has_uid = true, .uid = 8, .gids = 1, .gid = { 8 } },
		{ .has_uid = true, .uid = 7, .gids = 1, .gid = { 9 } },
		{ .has_uid = true, .uid = 7, .gids = 2, .gid = { 8, 0 } },
		{ .has_uid = true, .uid = 0, .gids = 1, .gid = { 0 } },
		{ .has_uid = false },
	};
	struct fab__scope scope[2];
	struct fab_session as = session_as(&scope[0], 1, 7, 1, &rights[0]);
	const struct fab_handle sealed = fab_handle_seal(&as, &h);

	for (uint32_t i = 0; i < ARRAY_LEN(rights); i++) {
		as = session_as(&scope[1], 1, 7, 2, &rights[i]);
		cr_assert_eq(opens(&as, &sealed, &h), i == 0, "%u", i);
	}
}

/* ---- rates ------------------------------------------------------------------------------- */

/* A client that asks at every permitted moment gets exactly the key's rate, idle times included. */
Test(fab_keys, a_key_gets_its_operations_a_second_and_no_more)
{
	const struct fab_rights rights = { .ops_per_s = 1000 };
	struct fab__rate rate = { 0 };
	uint64_t now_ns = 5000000000, begin_ns, went = 0, wait_ns;

	for (int round = 0; round < 3; round++) {
		begin_ns = now_ns;
		went = 0;
		while (now_ns - begin_ns < 1000000000) {
			wait_ns = fab__rate_take(&rate, &rights, 1, now_ns);
			went += wait_ns == 0;
			now_ns += wait_ns; /* as it was told */
		}
		cr_assert_geq(went, round ? 999 : 1000, "%llu", (unsigned long long)went);
		cr_assert_leq(went, round ? 1001 : 1101, "%llu", (unsigned long long)went);
	}
	/* An hour without is no stock for an hour. */
	now_ns += 3600000000000;
	for (went = 0; fab__rate_take(&rate, &rights, 1, now_ns) == 0; went++)
		;
	cr_assert_leq(went, 101);
}

Test(fab_keys, each_item_of_a_batch_is_an_operation)
{
	const struct fab_rights rights = { .ops_per_s = 100 };
	struct fab__rate rate = { 0 };
	uint64_t now_ns = 1000000000;

	cr_assert_eq(fab__rate_take(&rate, &rights, 1024, now_ns), 0);
	cr_assert_eq(fab__rate_take(&rate, &rights, 1, now_ns), 10140000000);
	cr_assert_eq(fab__rate_take(&rate, &rights, 1024, now_ns + 10139999999), 1);
	cr_assert_eq(fab__rate_take(&rate, &rights, 1024, now_ns + 10140000000), 0);
}

Test(fab_keys, bytes_are_paid_for_by_what_comes_after_them)
{
	const struct fab_rights rights = { .bytes_per_s = 1 << 20 };
	struct fab__rate rate = { 0 };
	uint64_t now_ns = 1000000000;

	cr_assert_eq(fab__rate_take(&rate, &rights, 1, now_ns), 0);
	fab__rate_spend(&rate, &rights, 4 << 20, now_ns); /* four seconds' */
	cr_assert_eq(fab__rate_take(&rate, &rights, 1, now_ns), 3900000000);
	cr_assert_eq(fab__rate_take(&rate, &rights, 1, now_ns + 3899999999), 1);
	cr_assert_eq(fab__rate_take(&rate, &rights, 1, now_ns + 3900000000), 0);
}

Test(fab_keys, sessions_of_one_key_share_its_rate_and_others_have_theirs)
{
	struct fab_grant a = fab_rig_grant("alice", 1, "", true),
			 b = fab_rig_grant("bob", 2, "", true);
	struct fab_session *s[3];
	struct fab_conn *conn[3];
	uint32_t went[3] = { 0 };

	fab_rig_serve(&rig, "tcp", NULL);
	a.rights.ops_per_s = b.rights.ops_per_s = 100;
	set(&a);
	set(&b);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(dial(i < 2 ? &a : &b, &conn[i]), 0);
		s[i] = session_new();
	}
	for (uint64_t now_ns = 1000000000; now_ns < 2000000000; now_ns += 1000000)
		for (int i = 0; i < 3; i++)
			went[i] += fab_session_rate_take(s[i], 1, now_ns) == 0;
	cr_assert_leq(went[0] + went[1], 111);
	cr_assert_geq(went[0] + went[1], 100);
	cr_assert_geq(went[2], 100);
	fab_close(conn[2]);
	end(conn[0], conn[1]);
}

Test(fab_keys, who_is_told_to_wait_hears_for_how_long)
{
	struct fab_call ping = { .type = FAB_PING };

	fab_rig_serve(&rig, "tcp", NULL);
	fab_rig_connect(&rig, 0);
	cr_assert_eq(fab_submit(rig.conn, &ping), 0);
	fab_flush(rig.conn);
	fab_reply_busy(fab_rig_request(&rig), 250);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &ping);
	cr_assert_eq(ping.status, -EBUSY);
	cr_assert_eq(ping.retry_ms, 250);
	fab_rig_end(&rig);
}
