/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The receives of a queue pair: counted while a session lives, and never read beyond their end. */
#include "base/num.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define CALLS 64u

static struct fab_rig rig;
static const struct fake_verbs_cfg verbs = { .seed = 5, .steps_max = 256 };

/* An appliance grants `credits` to a client that asks for `wished` (0: for the default). */
static void begin(uint32_t credits, uint32_t wished)
{
	struct fab_server_cfg cfg = {
		.key = fab_rig_key,
		.limits = { .credits = credits, .long_bodies = 2 },
	};
	struct fab_connect_cfg dial = { .key = fab_rig_key, .want.credits = wished };

	fake_verbs_begin(&verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", &cfg);
	dial.address = rig.address;
	cr_assert_eq(fab_rig_dial(&rig, &dial, &rig.conn), 0);
	fab_rig_settle(&rig);
}

static void end(void)
{
	fab_rig_end(&rig);
	fake_verbs_end();
}

static struct fab_rdma *client_side(void)
{
	return container_of(rig.conn->link, struct fab_rdma, link);
}

static struct fab_rdma *server_side(void)
{
	return rig.srv->open[0]->rdma;
}

/* ---- sessions that live long --------------------------------------------------------------- */

/* As if all but `left` of 2^32 receives had been taken; those that are posted keep their places. */
static void age(struct fab_rdma *r, uint32_t left)
{
	uint64_t by = UINT32_MAX - left - r->posted;

	by -= by % r->receives_max;
	r->posted += by;
	r->done += by;
	r->taken += by;
	r->freed += by;
}

/* All requests, then all replies, are there before the other side looks, each in its own SEND. */
static void ask_round(uint32_t n)
{
	struct fab_call calls[CALLS];
	struct fab_req *reqs[CALLS];
	struct ibv_wc none;

	for (uint32_t i = 0; i < n; i++) {
		calls[i] = (struct fab_call){ .type = FAB_PING };
		cr_assert_eq(fab_submit(rig.conn, &calls[i]), 0);
		fab_flush(rig.conn);
	}
	for (uint32_t i = 0; i < n; i++) {
		reqs[i] = fab_rig_request(&rig);
		for (uint32_t k = 0; k < i; k++)
			cr_assert_neq(reqs[k]->id, reqs[i]->id,
				      "a request is seen twice, another never");
	}
	for (uint32_t i = 0; i < n; i++) {
		fab_reply(reqs[i], 0, NULL, 0);
		fab_server_flush(rig.srv);
	}
	for (uint32_t i = 0; i < 100; i++) /* a card at work: nobody looks */
		cr_assert_eq(server_side()->v->poll_cq(server_side()->cq, 0, &none), 0);
	for (uint32_t i = 0; i < n; i++) {
		struct fab_call *done = fab_rig_done(&rig, rig.conn);

		cr_assert_eq(done, &calls[i]);
		cr_assert_eq(done->status, 0, "%s", fab_conn_error(rig.conn));
	}
}

/* Not a power of two: the places of 2^32 and 0 differ. */
Test(fab_rdma_receives, an_appliance_counts_its_receives_beyond_2_to_the_32)
{
	begin(100, 0);
	cr_assert_neq((UINT64_C(1) << 32) % server_side()->receives_max, 0);
	age(server_side(), 150);
	for (uint32_t round = 0; round < 10; round++)
		ask_round(CALLS);
	cr_assert_gt(server_side()->taken, UINT32_MAX);
	end();
}

Test(fab_rdma_receives, a_client_counts_its_receives_beyond_2_to_the_32)
{
	begin(100, CALLS);
	cr_assert_neq((UINT64_C(1) << 32) % client_side()->receives_max, 0);
	age(client_side(), 150);
	for (uint32_t round = 0; round < 10; round++)
		ask_round(CALLS);
	cr_assert_gt(client_side()->taken, UINT32_MAX);
	end();
}

/* ---- completions that say more than a receive holds ---------------------------------------- */

static const struct fab_verbs *honest;
static struct ibv_cq *lied_to;
static struct ibv_wc lie;

static int poll_and_lie(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = honest->poll_cq(cq, max, wc);

	for (int i = 0; i < n; i++)
		if (cq == lied_to && wc[i].opcode == IBV_WC_RECV) {
			wc[i].opcode = lie.opcode;
			wc[i].byte_len = lie.byte_len;
		}
	return n;
}

/* A capsule is in every place of its receives: none is handed out, and the connection is over. */
static void is_refused(struct fab_rdma *r)
{
	struct fab_verbs liar = *r->v;
	struct fab_hdr_wire hdr;
	struct ibv_cq *cq = r->cq;

	honest = r->v;
	liar.poll_cq = poll_and_lie;
	lied_to = cq;
	r->v = &liar;
	fab__hdr_build(&hdr, FAB_REPLY, 1);
	hdr.check = le32_of(fab__hdr_check(&hdr));
	for (uint32_t at = 0; at < r->receives_max * FAB_SLOT_BYTES; at += sizeof(hdr))
		memcpy(r->capsules + at, &hdr, sizeof(hdr));
	for (int i = 0; i < 100 && r->err == 0; i++)
		cr_assert_leq(r->link.ops->recv_header(&r->link, &hdr), 0);
	cr_assert_eq(r->err, -EPROTO);
	r->v = honest;
}

static const struct ibv_wc lies[] = {
	{ .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 1u << 20 },
	{ .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = sizeof(struct fab_hdr_wire) },
	{ .opcode = IBV_WC_RECV, .byte_len = FAB_SLOT_BYTES + sizeof(struct fab_hdr_wire) },
};

Test(fab_rdma_receives, nothing_is_taken_from_beyond_a_receive)
{
	for (uint32_t i = 0; i < 2 * ARRAY_LEN(lies); i++) {
		struct fab_call call = { .type = FAB_PING };
		bool of_client = i % 2;

		begin(8, 0);
		lie = lies[i / 2];
		cr_assert_eq(fab_submit(rig.conn, &call), 0);
		if (of_client) {
			fab_reply(fab_rig_request(&rig), 0, NULL, 0);
			fab_server_flush(rig.srv);
		} else {
			fab_flush(rig.conn);
		}
		is_refused(of_client ? client_side() : server_side());
		end();
	}
}

/* ---- capsules that take no credit ---------------------------------------------------------- */

/* PROTOCOL.md 10: the card tries again, and what was held up is neither lost nor doubled. */
Test(fab_rdma_receives, what_follows_a_cancel_waits_for_its_receive_and_is_served)
{
	struct fab_call calls[2] = { { .type = FAB_PING }, { .type = FAB_PING } }, *done = NULL;
	struct fab_req *req;

	begin(1, 0);
	cr_assert_eq(fab_submit(rig.conn, &calls[0]), 0);
	fab_cancel(rig.conn, &calls[0]);
	fab_flush(rig.conn); /* one SEND */
	req = fab_rig_request(&rig);
	fab_reply(req, 0, NULL, 0); /* the CANCEL was not yet looked at */
	fab_server_flush(rig.srv);
	while (!fab_poll(rig.conn, rig.now_ns, &done, 1))
		;
	cr_assert_eq(done, &calls[0]);
	cr_assert_eq(fab_submit(rig.conn, &calls[1]), 0);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(fab_poll(rig.conn, rig.now_ns, &done, 1), 0);
	cr_assert_gt(fake_verbs_stat.rnr, 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &calls[1]);
	cr_assert_eq(calls[1].status, 0);
	end();
}

static uint32_t replies; /* that were posted by poised() */

static int poised(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (qp == server_side()->qp) {
		cr_assert_eq(fake_verbs_receives(true), server_side()->receives);
		replies++;
	}
	return honest->post_send(qp, wr, bad);
}

/* A card may bring the next request before post_send() has returned. */
Test(fab_rdma_receives, a_reply_is_posted_when_its_receive_is)
{
	struct fab_call call = { .type = FAB_PING };
	struct fab_verbs watched;

	begin(8, 0);
	honest = server_side()->v;
	watched = *honest;
	watched.post_send = poised;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fake_verbs_receives(true), server_side()->receives - 1);
	server_side()->v = &watched;
	fab_server_flush(rig.srv);
	server_side()->v = honest;
	cr_assert_eq(replies, 1);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	end();
}

/* ---- may who looks at them sleep? ---------------------------------------------------------- */

Test(fab_rdma_receives, nobody_sleeps_over_what_has_come)
{
	struct fab_call calls[2] = { { .type = FAB_PING }, { .type = FAB_PING } };
	struct fab_link *link;
	struct fab_req *reqs[2];

	begin(8, 0);
	link = &server_side()->link;
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(fab_submit(rig.conn, &calls[i]), 0);
		fab_flush(rig.conn);
	}
	reqs[0] = fab_rig_request(&rig);
	while (server_side()->done != server_side()->taken + 1)
		cr_assert_not(link->ops->arm(link));
	cr_assert_not(link->ops->arm(link)); /* nothing new, but one is there */
	reqs[1] = fab_rig_request(&rig);
	while (!link->ops->arm(link))
		;
	for (uint32_t i = 0; i < 2; i++) {
		fab_reply(reqs[i], 0, NULL, 0);
		cr_assert_eq(fab_rig_done(&rig, rig.conn), &calls[i]);
	}
	end();
}

Test(fab_rdma_receives, nobody_sleeps_over_what_is_to_be_given_back)
{
	struct fab_tx probe = { .kind = FAB_TX_PROBE };
	struct fab_link *link;

	begin(8, 0);
	link = &server_side()->link;
	cr_assert_eq(link->ops->send(link, &probe), 0);
	cr_assert_eq(link->ops->flush(link), 0);
	while (list_empty(&server_side()->plan.done))
		cr_assert_not(link->ops->arm(link));
	cr_assert_not(link->ops->arm(link));
	cr_assert_eq(link->ops->sent(link), &probe);
	cr_assert(link->ops->arm(link));
	end();
}
