/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One listener, several polling cores: who serves whom; and a control side out of descriptors. */
#include "base/clock.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>

enum { CORES = 3, CLIENTS = 7, SESSIONS_MAX = 8 };

static struct fab_rig rig;
static struct fab_server *core[CORES];
static struct fab_conn *conn[CLIENTS + 2];

static void begin(const char *transport)
{
	struct fab_server_cfg cfg = {
		.key = fab_rig_key,
		.core_count = CORES,
		.sessions_max = SESSIONS_MAX,
		.pools_max_bytes = 4u << 20,
	};

	fab_rig_serve(&rig, transport, &cfg);
	core[0] = rig.srv;
	for (uint32_t i = 1; i < CORES; i++)
		cr_assert_eq(fab_server_add(rig.srv, &core[i]), 0);
}

static int dial(uint32_t i)
{
	struct fab_connect_cfg cfg = { .address = rig.address, .key = fab_rig_key };

	return fab_rig_dial(&rig, &cfg, &conn[i]);
}

/* Returns the first event of a core's next poll. */
static struct fab_event poll_core(uint32_t i)
{
	struct fab_event event = { .type = (enum fab_event_type) - 1 };

	(void)!fab_server_poll(core[i], rig.now_ns, &event, 1);
	return event;
}

static uint32_t sessions_of(uint32_t i)
{
	uint32_t count = 0;

	while (poll_core(i).type == FAB_EVENT_SESSION_NEW)
		count++;
	return count;
}

static void end(void)
{
	for (uint32_t i = 0; i < CLIENTS + 2; i++)
		if (conn[i])
			fab_close(conn[i]);
	memset(conn, 0, sizeof(conn));
	for (uint32_t i = CORES; i-- > 1;) {
		fab_server_stop(core[i]);
		for (int turn = 0; turn < 100; turn++) {
			(void)poll_core(i);
			fab_rig_control(&rig);
		}
	}
	for (int turn = 0; turn < 100; turn++) {
		(void)poll_core(0);
		fab_rig_control(&rig);
	}
	for (uint32_t i = CORES; i-- > 1;)
		fab_server_destroy(core[i]);
	fab_rig_end(&rig);
}

Test(fab_cores, sessions_are_spread_and_a_place_that_is_free_again_is_filled)
{
	begin("shm");
	for (uint32_t i = 0; i < CLIENTS; i++)
		cr_assert_eq(dial(i), 0);
	cr_assert_eq(sessions_of(0), 3); /* in turn */
	cr_assert_eq(sessions_of(1), 2);
	cr_assert_eq(sessions_of(2), 2);
	fab_close(conn[1]); /* the first of core 1 */
	conn[1] = NULL;
	for (int i = 0; i < 1000 && poll_core(1).type != FAB_EVENT_SESSION_CLOSED; i++)
		fab_rig_control(&rig);
	fab_rig_control(&rig);
	cr_assert_eq(dial(1), 0);
	cr_assert_eq(sessions_of(1), 1);
	cr_assert_eq(sessions_of(0) + sessions_of(2), 0);
	end();
}

Test(fab_cores, limits_are_those_of_all_cores_together)
{
	struct fab_region *a, *b;

	begin("shm");
	for (uint32_t i = 0; i < SESSIONS_MAX; i++)
		cr_assert_eq(dial(i), 0);
	cr_assert_eq(dial(SESSIONS_MAX), -EUSERS);
	cr_assert_eq(fab_pool_add(conn[0], 2u << 20, &a), 0);
	cr_assert_eq(fab_pool_add(conn[1], 4u << 20, &b), 0); /* of another core: 2 MiB are left */
	for (int i = 0; i < 1000; i++) {
		struct fab_call *done;

		fab_rig_control(&rig);
		for (uint32_t k = 0; k < CORES; k++)
			(void)poll_core(k);
		(void)!fab_poll(conn[0], rig.now_ns, &done, 1);
		(void)!fab_poll(conn[1], rig.now_ns, &done, 1);
	}
	cr_assert_eq(fab_region_status(a), 0);
	cr_assert_eq(fab_region_status(b), -ENOSPC);
	end();
}

Test(fab_cores, a_request_comes_to_the_core_of_its_session)
{
	struct fab_call call = { .type = FAB_PING };
	struct fab_event event = { 0 };

	begin("tcp");
	cr_assert_eq(dial(0), 0);
	cr_assert_eq(dial(1), 0);
	cr_assert_eq(sessions_of(0) + sessions_of(1), 2);
	cr_assert_eq(fab_submit(conn[1], &call), 0);
	fab_flush(conn[1]);
	for (int i = 0; i < 100000 && event.type != FAB_EVENT_REQUEST; i++) {
		cr_assert_neq(poll_core(0).type, FAB_EVENT_REQUEST);
		event = poll_core(1);
	}
	cr_assert_eq(event.type, FAB_EVENT_REQUEST);
	fab_reply(event.req, 0, NULL, 0);
	fab_server_flush(core[1]);
	end();
}

Test(fab_cores, nobody_is_let_in_once_the_doors_are_shut)
{
	begin("shm");
	cr_assert_eq(dial(0), 0);
	fab_server_shut(rig.srv);
	cr_assert_neq(dial(1), 0);
	cr_assert_eq(sessions_of(0), 1);
	end();
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

Test(fab_cores, a_control_side_without_a_descriptor_left_does_not_spin)
{
	struct fab_connect_cfg cfg = { .address = rig.address, .key = fab_rig_key };
	struct rlimit was, none;
	int err;

	begin("shm");
	cfg.address = rig.address;
	cr_assert_eq(fab_connect(&conn[0], &cfg, rig.now_ns), 0);
	cr_assert(readable(fab_server_control_fd(rig.srv)));
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 3, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	fab_rig_control(&rig);
	fab_rig_control(&rig);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_assert_eq(rig.refused, 1, "told once, not %u times", rig.refused);
	cr_assert_not(readable(fab_server_control_fd(rig.srv)));
	cr_assert_gt(fab_server_control_deadline(rig.srv), rig.now_ns);
	cr_assert_neq(fab_server_control_deadline(rig.srv), UINT64_MAX);
	rig.now_ns = fab_server_control_deadline(rig.srv); /* there may be descriptors again */
	err = -EINPROGRESS;
	for (int i = 0; i < 1000 && err == -EINPROGRESS; i++) {
		fab_rig_control(&rig);
		err = fab_connect_step(conn[0], rig.now_ns);
	}
	cr_assert_eq(err, 0);
	end();
}
