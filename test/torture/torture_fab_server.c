/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A server's two threads, control and core, while clients of both transports come, work and vanish:
 * sessions, pools and wake-ups cross between them.  For TSan, and for runs of hours:
 * torture_fab_server [rounds].
 */
#include "fabric/fab_internal.h"
#include "test/lib/fab_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, CALLS = 40 };

static struct fab_server *srv;
static _Atomic bool done, core_done;
static uint32_t pools_mapped; /* control's */

static void wait_for(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	ASSERT(poll(&p, 1, ms) >= 0);
}

static void *control(void *arg)
{
	struct fab_control_event events[4];

	(void)arg;
	while (!atomic_load_explicit(&core_done, memory_order_relaxed) || pools_mapped) {
		uint32_t n = fab_server_control_step(srv, 1, events, 4);

		for (uint32_t i = 0; i < n; i++) {
			ASSERT(events[i].type != FAB_CONTROL_REFUSED);
			if (events[i].type == FAB_CONTROL_POOL_ADDED) {
				pools_mapped++;
				fab_pool_ready(events[i].pool, 0, FAB_RIG_IOVA);
			} else {
				fab_pool_release(events[i].pool);
				pools_mapped--;
			}
		}
		if (n == 0)
			wait_for(fab_server_control_fd(srv), 10);
	}
	return NULL;
}

static uint32_t sessions_open;

static void serve(const struct fab_event *e)
{
	static const uint32_t sum = 5;
	uint64_t iova;
	uint8_t *at;

	switch (e->type) {
	case FAB_EVENT_SESSION_NEW:
		sessions_open++;
		return;
	case FAB_EVENT_SESSION_CLOSED:
		sessions_open--;
		return;
	case FAB_EVENT_REQUEST:
		if (e->req->type == FAB_READ) {
			at = fab_window_addr(e->req, 0, BLOCK_SIZE, &iova);
			if (at)
				memset(at, 0x77, BLOCK_SIZE);
			fab_reply_read(e->req, BLOCK_SIZE, &sum, 0);
			return;
		}
		return; /* a ping is answered when it is cancelled, or its client is gone */
	case FAB_EVENT_CANCEL:
		fab_reply(e->req, e->status, NULL, 0);
		return;
	default:
		UNREACHABLE();
	}
}

static void *core(void *arg)
{
	struct fab_event events[8];

	(void)arg;
	while (!atomic_load_explicit(&done, memory_order_relaxed) || sessions_open) {
		uint32_t n = fab_server_poll(srv, 1, events, 8);

		for (uint32_t i = 0; i < n; i++)
			serve(&events[i]);
		if (n == 0 && fab_server_arm(srv)) {
			wait_for(fab_server_fd(srv), 50);
			fab_server_disarm(srv);
		}
	}
	/* Control hears of the last one that closed when the core comes back. */
	ASSERT(fab_server_poll(srv, 1, events, 8) == 0);
	atomic_store_explicit(&core_done, true, memory_order_relaxed);
	return NULL;
}

static struct fab_call *wait_call(struct fab_conn *conn)
{
	struct fab_call *call;

	while (fab_poll(conn, 1, &call, 1) == 0) {
		if (fab_arm(conn)) {
			wait_for(fab_conn_fd(conn), 5000);
			fab_disarm(conn);
		}
	}
	return call;
}

static void visit(const char *address)
{
	struct fab_connect_cfg cfg = { .address = address, .key = fab_rig_key };
	static struct fab_call read, ping;
	struct fab_region *region;
	struct fab_conn *conn;
	int err;

	ASSERT(fab_connect(&conn, &cfg, 0) == 0);
	while ((err = fab_connect_step(conn, 1)) == -EINPROGRESS)
		wait_for(fab_conn_fd(conn), 5000);
	ASSERT(err == 0 && fab_pool_add(conn, 4096, &region) == 0);
	while (fab_region_status(region) == -EINPROGRESS) {
		struct fab_call *none;

		ASSERT(fab_poll(conn, 1, &none, 1) == 0);
		sched_yield();
	}
	read = (struct fab_call){ .type = FAB_READ, .region = region, .window_bytes = 8192 };
	read.args.read.length_bytes = BLOCK_SIZE;
	for (int i = 0; i < CALLS; i++) {
		ASSERT(fab_submit(conn, &read) == 0);
		fab_flush(conn);
		ASSERT(wait_call(conn) == &read && read.status == 0);
	}
	ping = (struct fab_call){ .type = FAB_PING };
	ASSERT(fab_submit(conn, &ping) == 0);
	fab_flush(conn);
	fab_close(conn);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
	struct fab_server_cfg cfg = { .key = fab_rig_key,
				      .limits.credits = 8,
				      .sessions_max = 100 };
	pthread_t threads[2];
	struct fab_rig rig;

	fab_rig_serve(&rig, "shm", &cfg);
	srv = rig.srv;
	ASSERT(fab_server_listen(srv, "tcp://127.0.0.1:0", NULL) == 0);
	ASSERT(pthread_create(&threads[0], NULL, control, NULL) == 0);
	ASSERT(pthread_create(&threads[1], NULL, core, NULL) == 0);
	for (int i = 0; i < rounds; i++)
		visit(fab_server_address(srv, (uint32_t)i % 2));
	atomic_store_explicit(&done, true, memory_order_relaxed);
	fab_server_stop(srv);
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], NULL);
	for (int i = 0; i < 10; i++) /* the last MESSAGE_CLOSED */
		fab_rig_control(&rig);
	fab_server_destroy(srv);
	printf("torture_fab_server: %d visits of %d calls over shm and tcp\n", rounds, CALLS);
	return 0;
}
