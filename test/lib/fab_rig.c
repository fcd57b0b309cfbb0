/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/fab_rig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TURNS_MAX 200000

const struct fab_key fab_rig_key = {
	.id = "rig",
	.secret = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 },
};

struct fab_grant fab_rig_grant(const char *id, uint8_t secret, const char *subtree, bool may_write)
{
	struct fab_grant g = { .rights.may_write = may_write };

	snprintf(g.key.id, sizeof(g.key.id), "%s", id);
	memset(g.key.secret, secret, sizeof(g.key.secret));
	memset(g.handle_secret, secret ^ 0x55, sizeof(g.handle_secret));
	snprintf(g.rights.subtree, sizeof(g.rights.subtree), "%s", subtree);
	return g;
}

void fab_rig_serve(struct fab_rig *rig, const char *transport, const struct fab_server_cfg *cfg)
{
	struct fab_server_cfg own = { .key = fab_rig_key };
	static int serial;
	char address[100];

	memset(rig, 0, sizeof(*rig));
	rig->now_ns = 1000000;
	ASSERT(fab_server_create(&rig->srv, cfg ? cfg : &own) == 0);
	if (strcmp(transport, "shm") == 0)
		snprintf(address, sizeof(address), "shm:/tmp/fab_rig_%d_%d.sock", getpid(),
			 serial++);
	else if (strchr(transport, ':'))
		snprintf(address, sizeof(address), "%s", transport);
	else
		snprintf(address, sizeof(address), "tcp://127.0.0.1:0");
	ASSERT(fab_server_listen(rig->srv, address, NULL) == 0);
	snprintf(rig->address, sizeof(rig->address), "%s", fab_server_address(rig->srv, 0));
}

void fab_rig_control(struct fab_rig *rig)
{
	struct fab_control_event events[4];
	uint32_t n = fab_server_control_step(rig->srv, rig->now_ns, events, 4);

	for (uint32_t i = 0; i < n; i++) {
		switch (events[i].type) {
		case FAB_CONTROL_POOL_ADDED:
			rig->pools_added++;
			fab_pool_ready(events[i].pool, 0, FAB_RIG_IOVA);
			break;
		case FAB_CONTROL_POOL_GONE:
			rig->pools_gone++;
			fab_pool_release(events[i].pool);
			break;
		case FAB_CONTROL_REFUSED:
			rig->refused++;
			memcpy(rig->refusal, events[i].text, sizeof(rig->refusal));
			break;
		case FAB_CONTROL_NOTICE:
			memcpy(rig->notice, events[i].text, sizeof(rig->notice));
			break;
		}
	}
}

int fab_rig_dial(struct fab_rig *rig, const struct fab_connect_cfg *cfg, struct fab_conn **out)
{
	int err = fab_connect(out, cfg, rig->now_ns);

	for (int i = 0; i < TURNS_MAX && !err; i++) {
		fab_rig_control(rig);
		err = fab_connect_step(*out, rig->now_ns);
		if (err != -EINPROGRESS)
			return err;
		err = 0;
	}
	return err ? err : -EINPROGRESS;
}

struct fab_region *fab_rig_pool(struct fab_rig *rig, struct fab_conn *conn, uint64_t bytes)
{
	struct fab_region *region;
	struct fab_event event;
	struct fab_call *done;

	ASSERT(fab_pool_add(conn, bytes, &region) == 0);
	for (int i = 0; i < TURNS_MAX && fab_region_status(region) == -EINPROGRESS; i++) {
		fab_rig_control(rig);
		if (fab_server_poll(rig->srv, rig->now_ns, &event, 1))
			ASSERT(event.type == FAB_EVENT_SESSION_NEW);
		ASSERT(fab_poll(conn, rig->now_ns, &done, 1) == 0);
	}
	ASSERT(fab_region_status(region) == 0);
	return region;
}

void fab_rig_connect(struct fab_rig *rig, uint64_t pool_bytes)
{
	struct fab_connect_cfg cfg = { .address = rig->address, .key = fab_rig_key };
	int err = fab_rig_dial(rig, &cfg, &rig->conn);

	if (err)
		fprintf(stderr, "fab_rig: %s: %s\n", strerror(-err), fab_conn_error(rig->conn));
	ASSERT(err == 0);
	if (pool_bytes)
		rig->region = fab_rig_pool(rig, rig->conn, pool_bytes);
}

void fab_rig_idle(struct fab_rig *rig)
{
	struct fab_event none;

	ASSERT(fab_server_poll(rig->srv, rig->now_ns, &none, 1) == 0);
	fab_rig_control(rig);
}

void fab_rig_settle(struct fab_rig *rig)
{
	struct fab_call *done;
	struct fab_event event;

	for (int i = 0; i < 200; i++) {
		fab_rig_control(rig);
		if (rig->conn)
			(void)!fab_poll(rig->conn, rig->now_ns, &done, 1);
		(void)!fab_server_poll(rig->srv, rig->now_ns, &event, 1);
	}
}

struct fab_event fab_rig_event(struct fab_rig *rig)
{
	struct fab_event event;
	struct fab_call *done;

	for (int i = 0; i < TURNS_MAX; i++) {
		fab_rig_control(rig);
		if (rig->conn)
			ASSERT(fab_poll(rig->conn, rig->now_ns, &done, 1) == 0);
		if (fab_server_poll(rig->srv, rig->now_ns, &event, 1) == 1 &&
		    event.type != FAB_EVENT_SESSION_NEW)
			return event;
	}
	UNREACHABLE();
}

struct fab_req *fab_rig_request(struct fab_rig *rig)
{
	struct fab_event event = fab_rig_event(rig);

	ASSERT(event.type == FAB_EVENT_REQUEST);
	return event.req;
}

struct fab_call *fab_rig_done(struct fab_rig *rig, struct fab_conn *conn)
{
	struct fab_call *done;

	for (int i = 0; i < TURNS_MAX; i++) {
		fab_server_flush(rig->srv);
		if (fab_poll(conn, rig->now_ns, &done, 1) == 1)
			return done;
	}
	UNREACHABLE();
}

void fab_rig_end(struct fab_rig *rig)
{
	struct fab_event events[8];

	if (rig->conn)
		fab_close(rig->conn);
	fab_server_stop(rig->srv);
	/* Answers the requests that are still held, as the loop of an appliance would. */
	for (int i = 0; i < 1000; i++) {
		uint32_t n = fab_server_poll(rig->srv, rig->now_ns, events, 8);

		for (uint32_t k = 0; k < n; k++)
			if (events[k].type == FAB_EVENT_CANCEL)
				fab_reply(events[k].req, events[k].status, NULL, 0);
		fab_rig_control(rig);
	}
	ASSERT(rig->pools_added == rig->pools_gone);
	fab_server_destroy(rig->srv);
}
