/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Tests from a hostile review of the fabric: of orders, repetitions and blocked neighbours. */
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fab_rig rig;

/* ---- a cancel never names what was replied to ------------------------------------------ */

/*
 * A put is being pulled when its client leaves: its piece comes back and its cancel is due, in one
 * poll.  The appliance replies as soon as the piece is back; whatever names the request after
 * that in the same array would be a use after its end.
 */
Test(fab_review, a_cancel_comes_before_the_piece_whose_return_ends_the_request)
{
	static uint8_t bytes[8192];
	struct fab_piece piece = { .bytes = bytes, .length_bytes = sizeof(bytes) };
	struct fab_put_item item = {
		.name = { .by = FAB_BY_PATH, .name = "f", .name_bytes = 1 },
		.size_bytes = sizeof(bytes),
		.sums_at = sizeof(bytes),
	};
	struct fab_call *call = calloc(1, sizeof(*call));
	struct fab_event events[8];
	struct fab_req *req, *gone = NULL;
	uint32_t cancels = 0;

	fab_rig_serve(&rig, "tcp", NULL);
	fab_rig_connect(&rig, 2 << 20);
	call->type = FAB_PUT;
	call->args.batch.count = 1;
	call->args.batch.puts = &item;
	call->region = rig.region;
	call->window_bytes = 1 << 20;
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(fab_pull(req, &piece), 0);
	fab_close(rig.conn);
	rig.conn = NULL;
	for (int i = 0; i < 1000 && !gone; i++) {
		uint32_t n = fab_server_poll(rig.srv, rig.now_ns, events, 8);

		for (uint32_t k = 0; k < n; k++) {
			if (events[k].type == FAB_EVENT_CANCEL) {
				cr_assert_neq(events[k].req, gone, "named after its reply");
				cancels++;
			}
			if (events[k].type == FAB_EVENT_PULLED) {
				cr_assert_eq(events[k].status, -ECONNRESET);
				fab_reply(req, -ECONNRESET, NULL, 0);
				gone = req;
			}
		}
	}
	cr_assert_eq(gone, req);
	cr_assert_eq(cancels, 1);
	free(call);
	fab_rig_end(&rig);
}

/* ---- capsules without an answer --------------------------------------------------------- */

/* A link whose peer never stops sending cancels: they need no credit. */
struct flood {
	struct fab_link link;
	uint32_t received;
};

static int flood_header(struct fab_link *link, struct fab_hdr_wire *out)
{
	struct flood *f = container_of(link, struct flood, link);

	ASSERT(++f->received < 100000); /* one poll took them all in */
	fab__hdr_build(out, FAB_CANCEL, 42);
	return 1;
}

static struct fab_tx *flood_sent(struct fab_link *link)
{
	(void)link;
	return NULL;
}

static void flood_close(struct fab_link *link)
{
	(void)link;
}

static const struct fab_transport flood_transport = {
	.name = "flood",
	.direct = true,
	.recv_header = flood_header,
	.sent = flood_sent,
	.close = flood_close,
};

Test(fab_review, a_flood_of_cancels_ends_a_poll_like_a_flood_of_requests)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key };
	struct fab_limits limits = { .credits = 4, .window_max_bytes = 4096 };
	struct flood flood = { .link = { .ops = &flood_transport } };
	struct fab_event events[64];
	struct fab__session *s;
	struct fab_server *srv;

	cr_assert_eq(fab_server_create(&srv, &cfg), 0);
	s = &srv->sessions[0];
	fab__session_open(s, &flood.link, &limits, "rig", 1);
	s->at = SESSION_OPEN;
	cr_assert_eq(fab__session_poll(s, 1, events, 64), 0);
	cr_assert_leq(flood.received, 1000);
	cr_assert(s->active, "there is more: it must be asked again");
	s->at = SESSION_FREE;
	fab_server_destroy(srv);
}

/* ---- a client that forked ------------------------------------------------------------------ */

struct transport {
	char name[4];
};
static struct transport transports[] = { { "shm" }, { "tcp" } };

/* The appliance's core until `type` comes; false: it does not. */
static bool comes(enum fab_event_type type)
{
	struct fab_event event;

	for (int i = 0; i < 2000; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1) == 1 && event.type == type)
			return true;
		usleep(100);
	}
	return false;
}

/* A part of a capsule and the end of the stream are one event of an edge-triggered epoll. */
Test(fab_review, a_session_ends_when_its_client_dies_in_the_middle_of_a_capsule)
{
	static const uint8_t part[56];

	fab_rig_serve(&rig, "tcp", NULL);
	fab_rig_connect(&rig, 0);
	cr_assert(comes(FAB_EVENT_SESSION_NEW));
	for (int i = 0; i < 100; i++)
		fab_rig_idle(&rig); /* what was told so far is over */
	cr_assert_eq(send(rig.conn->fd, part, sizeof(part), MSG_NOSIGNAL), (ssize_t)sizeof(part));
	fab_close(rig.conn);
	rig.conn = NULL;
	cr_assert(comes(FAB_EVENT_SESSION_CLOSED));
	fab_rig_end(&rig);
}

/* A child process that sleeps keeps a copy of every descriptor: closing ours is not enough. */
ParameterizedTestParameters(fab_review, a_session_ends_though_a_child_has_its_socket)
{
	return cr_make_param_array(struct transport, transports, 2);
}

ParameterizedTest(struct transport *t, fab_review, a_session_ends_though_a_child_has_its_socket)
{
	pid_t child;
	bool ended;

	fab_rig_serve(&rig, t->name, NULL);
	fab_rig_connect(&rig, 2 << 20);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	fab_close(rig.conn);
	rig.conn = NULL;
	ended = comes(FAB_EVENT_SESSION_CLOSED);
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_assert(ended);
	fab_rig_end(&rig);
}

/* ... and what the child closes is still its parent's. */
ParameterizedTestParameters(fab_review, a_child_that_closes_leaves_the_session_to_its_parent)
{
	return cr_make_param_array(struct transport, transports, 2);
}

ParameterizedTest(struct transport *t, fab_review,
		  a_child_that_closes_leaves_the_session_to_its_parent)
{
	struct fab_call *call = calloc(1, sizeof(*call));
	pid_t child;

	fab_rig_serve(&rig, t->name, NULL);
	fab_rig_connect(&rig, 2 << 20);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		fab_close(rig.conn);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, NULL, 0), child);
	call->type = FAB_PING;
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	cr_assert_eq(call->status, 0);
	free(call);
	fab_rig_end(&rig);
}
