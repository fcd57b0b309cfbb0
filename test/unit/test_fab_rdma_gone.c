/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Peers that vanish (power, a cable, a queue pair that broke on one side only), over verbs in
 * memory whose cards never report that the peer does not answer. */
#include "base/clock.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <errno.h>

#define POOL (4u << 20)

static struct fab_rig rig;
static uint32_t without; /* objects that there are without any client */

static void begin(uint64_t seed)
{
	struct fake_verbs_cfg verbs = { .seed = seed };

	fake_verbs_begin(&verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", NULL);
	fab_rig_connect(&rig, POOL); /* the device is there from now on */
	fab_close(rig.conn);
	rig.conn = NULL;
	fab_rig_settle(&rig);
	without = fake_verbs_objects();
	fab_rig_connect(&rig, POOL);
	fab_rig_settle(&rig);
}

static void end(void)
{
	fab_rig_end(&rig);
	fake_verbs_end();
}

/* An appliance that sleeps as long as it may, until `until_ns`; the client's program does nothing.
 * Returns how often it was woken by the clock; *closed: its session has ended. */
static uint32_t sleeps(uint64_t until_ns, bool *closed)
{
	struct fab_event event;
	uint32_t wakes = 0;

	*closed = false;
	while (!*closed && fab_server_deadline(rig.srv) <= until_ns) {
		rig.now_ns = max_u64(rig.now_ns, fab_server_deadline(rig.srv));
		wakes++;
		for (int i = 0; i < 50; i++) {
			if (fab_server_poll(rig.srv, rig.now_ns, &event, 1))
				*closed |= event.type == FAB_EVENT_SESSION_CLOSED;
			fab_rig_control(&rig);
		}
	}
	return wakes;
}

/* A client that waits for its answer, and sleeps as long as it may. */
static struct fab_call *waited(uint64_t until_ns)
{
	struct fab_call *done = NULL;

	while (!done && fab_conn_deadline(rig.conn) <= until_ns) {
		rig.now_ns = max_u64(rig.now_ns, fab_conn_deadline(rig.conn));
		for (int i = 0; i < 50 && !done; i++)
			(void)!fab_poll(rig.conn, rig.now_ns, &done, 1);
	}
	return done;
}

Test(fab_rdma_gone, a_client_that_lost_power_while_it_did_nothing_is_noticed)
{
	uint64_t begin_ns;
	bool closed;

	begin(31);
	begin_ns = rig.now_ns;
	fake_verbs_freeze(true);
	(void)sleeps(begin_ns + 60 * NS_PER_S, &closed);
	cr_assert(closed);
	cr_assert_leq(rig.now_ns - begin_ns, 2 * FAB_RDMA_PROBE_NS + FAB_STALL_NS);
	fake_verbs_freeze(false);
	fab_close(rig.conn);
	rig.conn = NULL;
	fab_rig_settle(&rig);
	cr_assert_eq(fake_verbs_objects(), without);
	fab_rig_connect(&rig, POOL); /* and its place is free */
	end();
}

Test(fab_rdma_gone, a_client_that_is_there_keeps_its_session_and_costs_a_look_every_5_s)
{
	uint64_t begin_ns;
	uint32_t wakes;
	bool closed;

	begin(32);
	begin_ns = rig.now_ns;
	wakes = sleeps(begin_ns + 600 * NS_PER_S, &closed);
	cr_assert_not(closed);
	cr_assert_leq(wakes, 2 * 600 / 5 + 2); /* an answer is owed for a moment: a second look */
	cr_assert_geq(fake_verbs_stat.probes, 600 / 10 - 2); /* its answer is a word */
	cr_assert_leq(fake_verbs_stat.probes, 600 / 10 + 2);
	cr_assert_eq(fab_conn_deadline(rig.conn), UINT64_MAX); /* who waits for nothing: no clock */
	end();
	cr_assert_eq(rig.refused, 0);
}

Test(fab_rdma_gone, who_is_heard_of_is_not_asked)
{
	uint32_t before;

	begin(33);
	before = fake_verbs_stat.probes;
	for (uint32_t i = 0; i < 60; i++) {
		struct fab_call call = { .type = FAB_PING };

		rig.now_ns += NS_PER_S;
		cr_assert_eq(fab_submit(rig.conn, &call), 0);
		fab_reply(fab_rig_request(&rig), 0, NULL, 0);
		cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	}
	cr_assert_eq(fake_verbs_stat.probes, before);
	end();
}

Test(fab_rdma_gone, a_client_that_waits_learns_that_the_appliance_is_gone)
{
	struct fab_call call = { .type = FAB_PING };
	uint64_t begin_ns;

	begin(34);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	fab_flush(rig.conn);
	(void)fab_rig_request(&rig); /* it has arrived; then the power fails */
	begin_ns = rig.now_ns;
	fake_verbs_freeze(true);
	cr_assert_eq(waited(begin_ns + 60 * NS_PER_S), &call);
	cr_assert_eq(call.status, -ECONNRESET);
	cr_assert_leq(rig.now_ns - begin_ns, 2 * FAB_RDMA_PROBE_NS + FAB_RDMA_GONE_NS);
	cr_assert_str_eq(fab_conn_error(rig.conn), "the appliance's card does not answer");
	fake_verbs_freeze(false);
	end();
}

Test(fab_rdma_gone, a_client_waits_for_an_appliance_that_thinks_for_long)
{
	struct fab_call call = { .type = FAB_PING };
	uint64_t begin_ns;
	struct fab_req *req;

	begin(35);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	begin_ns = rig.now_ns;
	cr_assert_null(waited(begin_ns + 600 * NS_PER_S)); /* its card answers */
	cr_assert_geq(fake_verbs_stat.probes, 600 / 10 - 2);
	fab_reply(req, 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	cr_assert_eq(call.status, 0);
	end();
}

Test(fab_rdma_gone, who_did_nothing_for_an_hour_is_not_taken_for_dead)
{
	struct fab_call call = { .type = FAB_PING }, *done;

	begin(36);
	rig.now_ns += 3600 * NS_PER_S;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(fab_poll(rig.conn, rig.now_ns, &done, 1), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	cr_assert_eq(call.status, 0);
	end();
}
