/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The connections of a session: to several cores of the appliance, and over several links.
 *
 *            retry_ns       agreed        it knows the pool
 *    DOWN ----------> HELLO -------> POOL ----------------> UP        for each lane
 *     ^                 | failed       | failed               | broke
 *     +-----------------+--------------+----------------------+
 *
 * client_conn.c makes the session with lane 0.  The other lanes join it here, and so does lane 0
 * after it broke while another lane was UP.  When the last lane that is UP breaks, the session is
 * over, and client_conn.c makes a new one.
 *
 * A *rail* is an address of the same kind as the one that answered.  Lane i uses the i-th rail
 * after that one (cyclically), and the i-th core after the first lane's.  If a rail is dead, its
 * lanes retry less and less often, and requests use the other lanes meanwhile.  But an interrupted
 * change waits for its own lane, which then comes back over a working rail.  There the lane is
 * *away*: it gets no other work, ends when the change has been answered, and tries its own rail
 * again.  An address that turns out to be another appliance's is not a rail of this session.
 *
 * Invariants, true between any two calls:
 *
 *  (1) lanes_up counts the lanes that are UP; while c->at is CLIENT_UP it is not 0.
 *  (2) Lanes share the pool, which is the client's own memory: so a lane that broke is closed at
 *      once, and nobody writes for it any more.  Over shm, where the pool is the appliance's, there
 *      is one lane, which is kept until the next session's memory has replaced its own.
 *  (3) `load` is the sum of client__cost() over the calls that a lane has in flight.
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LANES_USUAL   4u /* default number of lanes */
#define RETRY_MIN_NS  (10 * NS_PER_MS)
#define RETRY_MAX_NS  NS_PER_S
#define RETRY_FULL_NS (30 * NS_PER_S) /* the appliance has no room for one more lane */
#define ROUNDS_MAX    10u

/* ---- which ------------------------------------------------------------------------------- */

/* "tcp", "tls", "rdma": addresses of one scheme prove the same rights in the same way. */
static bool same_scheme(const char *a, const char *b)
{
	size_t bytes = strcspn(a, ":");

	return bytes == strcspn(b, ":") && memcmp(a, b, bytes) == 0;
}

static uint32_t rails_find(const struct weka_client *c, uint8_t rails[CLIENT_ADDRESSES])
{
	uint32_t n = 0;

	ASSERT(c->address_up < c->address_count);
	for (uint32_t i = 0; i < c->address_count; i++) {
		uint32_t at = (c->address_up + i) %
			      c->address_count; /* the first is the one that answered */

		if (!(c->foreign >> at & 1) &&
		    same_scheme(c->addresses[at], c->addresses[c->address_up]))
			rails[n++] = (uint8_t)at;
	}
	ASSERT(n <= c->address_count);
	return n;
}

static uint32_t lanes_wanted(const struct weka_client *c, uint32_t rails)
{
	uint32_t wanted = c->lanes_asked;

	ASSERT(rails > 0 && c->lanes_asked <= CLIENT_LANES_MAX);
	if (wanted == 0)
		wanted = max_u32(min_u32(c->place.core_count, LANES_USUAL), rails);
	return max_u32(min_u32(wanted, min_u32(c->place.lanes_max, CLIENT_LANES_MAX)), 1);
}

void client__lanes_plan(struct weka_client *c)
{
	uint8_t rails[CLIENT_ADDRESSES];
	uint32_t count = rails_find(c, rails), i;

	/* An appliance that was restarted does not know the session: then its last address may go
	 * before the client notices that the lanes to the old one are dead, since it has no
	 * others. */
	c->lane_count = count == 0 ? 0 : c->memory_ours ? lanes_wanted(c, count) : 1;
	for (i = 0; i < CLIENT_LANES_MAX; i++) {
		if (c->lanes[i].at != CLIENT_DOWN)
			c->lane_count = max_u32(c->lane_count, i + 1);
		else if (count > 0)
			c->lanes[i].address = rails[i % count];
	}
	ASSERT(c->lane_count <= CLIENT_LANES_MAX);
	c->lanes_ns = 0;
}

/* Lanes that are away come after all others. */
static uint64_t load_of(const struct client_lane *lane)
{
	return client__lane_is_away(lane) ? lane->load + UINT64_MAX / 2 : lane->load;
}

/* Returns the lane with the least in flight that is not in `tried` (bits), or NULL. */
struct client_lane *client__lane_pick(struct weka_client *c, uint32_t tried)
{
	struct client_lane *best = NULL;

	DASSERT(c->lane_count <= CLIENT_LANES_MAX);
	for (uint32_t i = 0; i < c->lane_count; i++) {
		struct client_lane *lane = &c->lanes[i];

		if (lane->at == CLIENT_UP && !(tried >> i & 1) &&
		    (!best || load_of(lane) < load_of(best)))
			best = lane;
	}
	return best;
}

/* ---- joining ----------------------------------------------------------------------------- */

static void lane_close(struct weka_client *c, struct client_lane *lane)
{
	ASSERT(!lane->armed || lane->conn);
	client__unwatch(c, lane);
	if (lane->conn)
		fab_close(lane->conn);
	lane->conn = NULL;
	lane->region = NULL;
	memset(lane->added, 0, sizeof(lane->added));
	lane->at = CLIENT_DOWN;
}

static wk_cold void join_failed(struct weka_client *c, struct client_lane *lane, uint64_t now_ns,
				int err)
{
	uint64_t pause_ns =
		min_u64(RETRY_MIN_NS << min_u32(lane->rounds, ROUNDS_MAX), RETRY_MAX_NS);
	uint64_t busy_ms =
		lane->conn ? min_u32(fab_conn_retry_ms(lane->conn), CLIENT_HOLD_MAX_MS) : 0;

	ASSERT(err < 0 && lane->at != CLIENT_UP && lane->load == 0);
	snprintf(c->link_error, sizeof(c->link_error), "%.120s: a further connection: %.100s",
		 c->addresses[lane->via],
		 lane->conn && *fab_conn_error(lane->conn) ? fab_conn_error(lane->conn)
							   : strerror(-err));
	lane_close(c, lane);
	lane->rounds++;
	if (err == -EUSERS)
		pause_ns = RETRY_FULL_NS;
	pause_ns = max_u64(pause_ns, busy_ms * NS_PER_MS);
	lane->retry_ns = client__after(now_ns, pause_ns);
	if (err == -EXDEV) { /* later sessions may still use the address */
		c->foreign |= 1u << lane->via;
		client__lanes_plan(c);
	}
}

static void join_begin(struct weka_client *c, struct client_lane *lane, uint64_t now_ns)
{
	uint32_t number = (uint32_t)(lane - c->lanes);
	const struct client_lane *other = client__lane_pick(c, 0);
	/* Changes that wait for this lane need not wait for its own link. */
	bool by_another = lane->rounds % 2 && client__lane_is_missed(c, number);
	struct fab_connect_cfg cfg = {
		.want = c->want,
		.lane_of = other->conn,
		.lane = number,
		.core = (c->place.core + number) % c->place.core_count,
	};
	int err;

	ASSERT(lane->at == CLIENT_DOWN && !lane->conn); /* (2) */
	ASSERT(other && c->memory_ours && number < c->lane_count);
	lane->via = by_another ? other->via : lane->address;
	cfg.address = c->addresses[lane->via];
	err = fab_connect(&lane->conn, &cfg, now_ns);
	if (err)
		join_failed(c, lane, now_ns, err);
	else
		lane->at = CLIENT_HELLO;
}

static void join_hello(struct weka_client *c, struct client_lane *lane, uint64_t now_ns)
{
	int err = fab_connect_step(lane->conn, now_ns);

	ASSERT(lane->conn && !lane->region);
	if (err == -EINPROGRESS)
		return;
	if (!err)
		err = fab_pool_lend(lane->conn, c->memory, c->pool_bytes, -1, &lane->region);
	if (!err)
		err = client__added_begin(c, lane);
	if (err) {
		join_failed(c, lane, now_ns, err);
		return;
	}
	lane->at = CLIENT_POOL;
	lane->try_until_ns = client__after(now_ns, c->connect_timeout_ns);
}

static void join_pool(struct weka_client *c, struct client_lane *lane, uint64_t now_ns)
{
	struct fab_call *none;
	int err;

	ASSERT(lane->conn && lane->region);
	ASSERT(fab_poll(lane->conn, now_ns, &none, 1) == 0);
	err = fab_region_status(lane->region);
	if (!err)
		err = client__added_status(c, lane);
	if (err == -EINPROGRESS)
		err = fab_conn_status(lane->conn) ? -ECONNRESET : -EINPROGRESS;
	if (err == -EINPROGRESS && now_ns < lane->try_until_ns)
		return;
	if (err) {
		join_failed(c, lane, now_ns, err == -EINPROGRESS ? -ETIMEDOUT : err);
		return;
	}
	lane->at = CLIENT_UP;
	lane->life = ++c->lives;
	lane->rounds = 0;
	ASSERT(lane->load == 0);
	c->lanes_up++;
}

/* Sends a lane that was away back to its own rail after its change was answered, if other lanes are
 * up. */
static void go_home(struct weka_client *c, struct client_lane *lane, uint64_t now_ns)
{
	ASSERT(client__lane_is_away(lane) && c->lanes_up > 0);
	if (lane->load > 0 || client__lane_is_missed(c, (uint32_t)(lane - c->lanes)) ||
	    client__lane_is_away(client__lane_pick(c, 0)))
		return;
	lane_close(c, lane);
	lane->retry_ns = now_ns;
	c->lanes_up--;
	ASSERT(c->lanes_up > 0); /* (1) */
}

uint64_t client__lane_deadline(const struct client_lane *lane)
{
	if (lane->at == CLIENT_DOWN)
		return lane->retry_ns;
	if (lane->at == CLIENT_POOL)
		return lane->try_until_ns;
	ASSERT(lane->conn);
	return fab_conn_deadline(lane->conn);
}

void client__lanes_step(struct weka_client *c, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	uint32_t i;

	ASSERT(c->at == CLIENT_UP && c->lanes_up > 0); /* (1) */
	for (i = 0; i < c->lane_count; i++) {
		struct client_lane *lane = &c->lanes[i];

		if (unlikely(client__lane_is_away(lane)))
			go_home(c, lane, now_ns);
		if (lane->at == CLIENT_DOWN && now_ns >= lane->retry_ns)
			join_begin(c, lane, now_ns);
		if (lane->at == CLIENT_HELLO)
			join_hello(c, lane, now_ns);
		if (lane->at == CLIENT_POOL)
			join_pool(c, lane, now_ns);
		if (lane->at == CLIENT_DOWN)
			next_ns = min_u64(next_ns, lane->retry_ns);
		else if (lane->at != CLIENT_UP || client__lane_is_away(lane))
			next_ns = now_ns; /* whenever the clock is read */
	}
	c->lanes_ns = next_ns;
	ASSERT(c->lanes_up > 0 && c->lanes_up <= c->lane_count); /* (1) */
}

/* ---- the end ------------------------------------------------------------------------------ */

void client__lane_lost(struct weka_client *c, struct client_lane *lane, uint64_t now_ns)
{
	uint32_t i;

	ASSERT(lane->at == CLIENT_UP && lane->load == 0 && c->lanes_up > 0);
	snprintf(c->link_error, sizeof(c->link_error), "%.120s: the %s broke",
		 c->addresses[lane->via], c->lanes_up > 1 ? "connection" : "session");
	c->lanes_up--;
	if (c->memory_ours) {
		lane_close(c, lane); /* (2) */
	} else {
		client__unwatch(c, lane);
		lane->at = CLIENT_DOWN;
	}
	lane->retry_ns = now_ns;
	c->lanes_ns = 0;
	ASSERT(!c->memory_ours || !lane->conn);     /* (2) */
	ASSERT(c->memory_ours || c->lanes_up == 0); /* (2) */
	if (c->lanes_up > 0) {
		c->counters.lanes_lost++;
		return;
	}
	for (i = 0; i < CLIENT_LANES_MAX; i++)
		if (c->lanes[i].at != CLIENT_DOWN)
			lane_close(c, &c->lanes[i]);
	client__conn_lost(c, now_ns);
}

void client__lanes_close(struct weka_client *c)
{
	uint32_t i;

	for (i = 0; i < CLIENT_LANES_MAX; i++) {
		lane_close(c, &c->lanes[i]);
		c->lanes[i].rounds = 0;
		c->lanes[i].retry_ns = 0;
	}
}

bool client__lane_is_missed(const struct weka_client *c, uint32_t number)
{
	const struct list *node;

	ASSERT(number < CLIENT_LANES_MAX);
	for (node = c->cut.next; node != &c->cut; node = node->next)
		if (list_entry(node, const struct client_slot, node)->lane == number)
			return true;
	return false;
}

void client__flush(struct weka_client *c)
{
	for (uint32_t i = 0; i < c->lane_count; i++)
		if (c->lanes[i].at == CLIENT_UP)
			fab_flush(c->lanes[i].conn);
}
