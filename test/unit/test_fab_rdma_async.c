/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The events of devices, and the connections that they end; over verbs in memory. */
#include "base/clock.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POOL (4u << 20)

static struct fab_rig rig;
static struct fab_conn *other; /* a second client */
static uint32_t without;       /* objects that there are before any client */

static void begin(uint64_t seed)
{
	struct fake_verbs_cfg verbs = { .seed = seed };
	struct fab_connect_cfg cfg = { .key = fab_rig_key };

	fake_verbs_begin(&verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", NULL);
	without = fake_verbs_objects();
	fab_rig_connect(&rig, POOL);
	cfg.address = rig.address;
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &other), 0);
	fab_rig_settle(&rig);
}

/* A port that was down is up again: what could not say goodbye does so now. */
static void port_back(void)
{
	fab_close(rig.conn);
	rig.conn = NULL;
	fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
	for (uint32_t i = 0; i < 3; i++) {
		fab_rig_settle(&rig);
		rig.now_ns += NS_PER_S;
	}
}

static void end(void)
{
	fab_close(other);
	fab_rig_end(&rig);
	fake_verbs_end();
}

/* How many sessions have ended, after some turns in which no time passes. */
static uint32_t ended(void)
{
	struct fab_event event;
	uint32_t n = 0;

	for (int i = 0; i < 200; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1))
			n += event.type == FAB_EVENT_SESSION_CLOSED;
	}
	return n;
}

/* Does a client's call come back, and with what? */
static int asked(struct fab_conn *conn)
{
	struct fab_call call = { .type = FAB_PING }, *done;
	struct fab_event event;

	if (fab_submit(conn, &call))
		return -ENOTCONN;
	for (int i = 0; i < 1000; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1) &&
		    event.type == FAB_EVENT_REQUEST)
			fab_reply(event.req, 0, NULL, 0);
		if (fab_poll(conn, rig.now_ns, &done, 1))
			return call.status;
	}
	return -EINPROGRESS;
}

Test(fab_rdma_async, a_port_that_is_down_ends_its_connections_at_once_and_all_come_back)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_conn *again;

	begin(41);
	cfg.address = rig.address;
	fake_verbs_event(IBV_EVENT_PORT_ERR);
	cr_assert_eq(ended(), 2);
	cr_assert_str_eq(rig.notice, "rdma: fake0, port 1: port error: 2 connections ended");
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &again), -ENETDOWN);
	fab_close(again);
	fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
	fab_rig_settle(&rig);
	cr_assert_str_eq(rig.notice, "rdma: fake0, port 1: event: 0 connections ended");
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &again), 0);
	cr_assert_eq(asked(again), 0);
	fab_close(again);
	end();
}

Test(fab_rdma_async, a_client_that_sleeps_is_woken_when_its_port_is_down)
{
	struct fab_call call = { .type = FAB_PING }, *done = NULL;
	struct fab_req *req;

	begin(42);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	for (int i = 0; i < 100 && !fab_arm(rig.conn); i++)
		cr_assert_eq(fab_poll(rig.conn, rig.now_ns, &done, 1), 0);
	cr_assert_not(fake_verbs_readable(fab_conn_fd(rig.conn)));
	fake_verbs_event(IBV_EVENT_PORT_ERR);
	cr_assert(fake_verbs_readable(fab_conn_fd(rig.conn)));
	for (int i = 0; i < 10 && !done; i++) { /* as its loop does: no time passes */
		fab_disarm(rig.conn);
		if (!fab_poll(rig.conn, rig.now_ns, &done, 1))
			(void)!fab_arm(rig.conn);
	}
	cr_assert_eq(done, &call);
	cr_assert_eq(call.status, -ECONNRESET);
	cr_assert_str_eq(fab_conn_error(rig.conn), "RDMA: this host's port: Network is down");
	fab_reply(req, -ECONNRESET, NULL, 0);
	port_back();
	end();
}

Test(fab_rdma_async, a_client_that_polls_looks_at_its_port_when_nothing_comes)
{
	struct fab_call call = { .type = FAB_PING }, *done = NULL;
	struct fab_req *req;

	begin(43);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	fake_verbs_event(IBV_EVENT_PORT_ERR);
	for (int i = 0; i < 20 && !done; i++)
		(void)!fab_poll(rig.conn, rig.now_ns += NS_PER_S / 50, &done, 1);
	cr_assert_eq(done, &call);
	cr_assert_eq(call.status, -ECONNRESET);
	fab_reply(req, -ECONNRESET, NULL, 0);
	port_back();
	end();
}

Test(fab_rdma_async, a_port_that_was_down_for_a_moment_ends_nobody)
{
	begin(44);
	fake_verbs_event(IBV_EVENT_PORT_ERR);
	fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
	cr_assert_eq(ended(), 0);
	cr_assert_eq(asked(rig.conn), 0);
	cr_assert_eq(asked(other), 0);
	end();
}

Test(fab_rdma_async, a_queue_pair_that_fails_ends_its_connection_and_no_other)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
						     IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_CQ_ERR };

	for (uint32_t i = 0; i < ARRAY_LEN(types); i++) {
		begin(50 + i);
		fake_verbs_event(types[i]);
		cr_assert_eq(ended(), 1, "event %d", types[i]);
		cr_assert_str_eq(rig.notice, "rdma: fake0: event: 1 connection ended");
		cr_assert_eq((asked(rig.conn) == 0) + (asked(other) == 0), 1);
		end();
	}
}

Test(fab_rdma_async, who_has_another_address_now_begins_anew)
{
	begin(45);
	fake_verbs_event(IBV_EVENT_GID_CHANGE); /* of somebody else */
	cr_assert_eq(ended(), 0);
	cr_assert_str_eq(rig.notice, "");
	fake_verbs_address(2);
	fake_verbs_event(IBV_EVENT_GID_CHANGE);
	cr_assert_eq(ended(), 2);
	cr_assert_str_eq(rig.notice, "rdma: fake0, port 1: event: 2 connections ended");
	fab_close(rig.conn);
	rig.conn = NULL;
	for (uint32_t i = 0; i < 3; i++) { /* goodbyes from there would be the last of this host */
		fab_rig_settle(&rig);
		rig.now_ns += NS_PER_S;
	}
	fab_rig_connect(&rig, POOL);
	cr_assert_eq(asked(rig.conn), 0);
	fab_close(rig.conn);
	rig.conn = NULL;
	fake_verbs_address(1);
	for (uint32_t i = 0; i < 3; i++) {
		fab_rig_settle(&rig);
		rig.now_ns += NS_PER_S;
	}
	end();
}

/* Control's turns, a second later. */
static uint32_t objects_later(void)
{
	rig.now_ns += NS_PER_S;
	fab_rig_settle(&rig);
	return fake_verbs_objects();
}

Test(fab_rdma_async, a_port_that_goes_up_and_down_hears_no_goodbye)
{
	uint32_t left;

	begin(49);
	fake_verbs_event(IBV_EVENT_PORT_ERR);
	cr_assert_eq(ended(), 2);
	fab_close(rig.conn);
	rig.conn = NULL;
	left = objects_later();
	for (uint32_t i = 0; i < 5; i++) { /* up for a second, and for one look */
		fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
		cr_assert_eq(objects_later(), left, "round %u", i);
		fake_verbs_event(IBV_EVENT_PORT_ERR);
		cr_assert_eq(objects_later(), left, "round %u", i);
	}
	fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
	cr_assert_eq(objects_later(), left);
	cr_assert_lt(objects_later(), left, "it is up to stay");
	end();
}

static void both_leave(void)
{
	fab_close(rig.conn);
	fab_close(other);
	rig.conn = NULL;
	fab_rig_settle(&rig);
}

Test(fab_rdma_async, a_device_that_failed_is_let_go)
{
	begin(46);
	fake_verbs_event(IBV_EVENT_DEVICE_FATAL);
	cr_assert_eq(ended(), 2);
	cr_assert_str_eq(rig.notice, "rdma: fake0: device fatal: 2 connections ended");
	both_leave();
	cr_assert_eq(fake_verbs_objects(), without); /* its domain and memory, too */
	fab_rig_connect(&rig, POOL);                 /* it is back */
	cr_assert_eq(asked(rig.conn), 0);
	fab_rig_end(&rig);
	fake_verbs_end();
}

Test(fab_rdma_async, a_device_that_was_removed_and_is_back_is_listened_to_again)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	char line[200];

	begin(48);
	cfg.address = rig.address;
	fake_verbs_remove();
	cr_assert_eq(ended(), 2);
	snprintf(line, sizeof(line), "%s: its device was removed: not served until it is back",
		 rig.address);
	cr_assert_str_eq(rig.notice, line);
	both_leave();
	cr_assert_eq(fake_verbs_objects(), without - 1); /* the listener has gone, too */
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_leq(fab_server_control_deadline(rig.srv), rig.now_ns + NS_PER_S);
		rig.now_ns += NS_PER_S;
		fab_rig_settle(&rig);
		cr_assert_eq(fab_rig_dial(&rig, &cfg, &other), -ECONNREFUSED);
		fab_close(other);
	}
	fake_verbs_add();
	rig.now_ns += NS_PER_S;
	fab_rig_settle(&rig);
	snprintf(line, sizeof(line), "serving %s again", rig.address); /* the same port */
	cr_assert_str_eq(rig.notice, line);
	cr_assert_gt(fab_server_control_deadline(rig.srv), rig.now_ns + NS_PER_S);
	fab_rig_connect(&rig, POOL);
	cr_assert_eq(asked(rig.conn), 0);
	fab_rig_end(&rig);
	fake_verbs_end();
}

Test(fab_rdma_async, what_a_session_does_not_end_of_is_taken_and_forgotten)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_COMM_EST,   IBV_EVENT_SQ_DRAINED,          IBV_EVENT_PATH_MIG,
		IBV_EVENT_LID_CHANGE, IBV_EVENT_QP_LAST_WQE_REACHED,
	};

	begin(47);
	for (uint32_t i = 0; i < ARRAY_LEN(types); i++)
		fake_verbs_event(types[i]);
	cr_assert_eq(ended(), 0);
	cr_assert_str_eq(rig.notice, "");
	cr_assert_eq(asked(rig.conn), 0);
	end();
}
