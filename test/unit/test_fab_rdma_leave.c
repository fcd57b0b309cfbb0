/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* When an id that is left says goodbye: fab_rdma_leave.c. */
#include "base/clock.h"
#include "fabric/link/fab_rdma.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <fcntl.h>

static const struct fake_verbs_cfg verbs = { .seed = 3 };
static const struct fab_verbs *v;
static struct rdma_event_channel *cm;
static struct rdma_cm_id *id;

static void set_up(void)
{
	char why[256];

	fake_verbs_begin(&verbs);
	v = fab__verbs(why);
	cm = v->create_event_channel();
	cr_assert_eq(fcntl(cm->fd, F_SETFL, O_NONBLOCK), 0); /* as everybody has it */
	cr_assert_eq(v->create_id(cm, &id, NULL, RDMA_PS_TCP), 0);
}

static void tear_down(void)
{
	fake_verbs_end(); /* nothing is left */
}

TestSuite(fab_rdma_leave, .init = set_up, .fini = tear_down, .timeout = 60);

/* Steps whenever one is due, and a little before; when the id and its channel were destroyed. */
static uint64_t gone_ns(uint64_t now_ns)
{
	while (fake_verbs_objects() > 0) {
		uint64_t due_ns = fab__rdma_leave_deadline();

		cr_assert_neq(due_ns, UINT64_MAX);
		if (due_ns > now_ns) {
			uint32_t before = fake_verbs_objects();

			fab__rdma_leave_step(due_ns - 1);
			cr_assert_eq(fake_verbs_objects(), before);
			now_ns = due_ns;
		}
		fab__rdma_leave_step(now_ns);
	}
	cr_assert_eq(fab__rdma_leave_deadline(), UINT64_MAX);
	return now_ns;
}

Test(fab_rdma_leave, who_can_speak_goes_at_once)
{
	fab__rdma_leave(v, id, cm, false);
	cr_assert_eq(fake_verbs_objects(), 0);
}

/* The port looks up, but somebody was not reached through it: it may be about to go down. */
Test(fab_rdma_leave, who_reached_nobody_goes_after_two_looks_a_second_apart)
{
	fab__rdma_leave(v, id, cm, true);
	cr_assert_eq(fab__rdma_leave_deadline(), 0);
	cr_assert_eq(gone_ns(5 * NS_PER_S), 7 * NS_PER_S);
}

Test(fab_rdma_leave, with_its_channel_it_goes_at_once)
{
	fab__rdma_leave(v, id, NULL, true);
	fab__rdma_leave_step(NS_PER_S);
	fab__rdma_leave_all(cm);
	v->destroy_event_channel(cm);
	cr_assert_eq(fab__rdma_leave_deadline(), UINT64_MAX);
}

Test(fab_rdma_leave, a_port_through_which_nobody_was_reached_is_hushed_for_a_second)
{
	struct rdma_cm_id other = { .verbs = id->verbs, .port_num = (uint8_t)(id->port_num + 1) };

	fab__rdma_unreachable(id);
	cr_assert(fab__rdma_hushed(id, 10 * NS_PER_S)); /* the first look starts its clock */
	cr_assert_not(fab__rdma_hushed(&other, 10 * NS_PER_S));
	cr_assert(fab__rdma_hushed(id, 11 * NS_PER_S - 1));
	cr_assert_not(fab__rdma_hushed(id, 11 * NS_PER_S));
	fab__rdma_leave(v, id, cm, false);
}
