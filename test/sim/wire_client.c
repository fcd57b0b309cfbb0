/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A client of the simulation: see wire.c.
 *
 *   lease -> poison -> fill -> submit ... reap -> look at what came -> poison -> rest -> look ->
 * lease
 *                                 |          \
 *                                 |           the appliance may still write there: released, unseen
 *                                 every request ends once, in time
 *
 * A request's end is told to the model: what was answered, or that nobody knows.
 */
#include "test/sim/wire_client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "fabric/client/fab_client_internal.h"
#include "test/lib/sim_sock.h"
#include "test/sim/sim_args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POISON       0xa5
#define TURNS        (CLIENT_TURNS + 1) /* so that it looks at the clock */
#define SLACK_NS     (3 * WIRE_LEAP_NS) /* of a deadline: when it is looked at */
#define HURRIED      600u /* requests of a client that are asked as soon as there is room */
#define RECONNECT_NS (3 * NS_PER_S)

static uint64_t below(struct wire_client *cl, uint64_t bound)
{
	return rand_below(&cl->rand, bound);
}

/* ---- leases ---------------------------------------------------------------------------- */

static void poison(struct weka_lease *l)
{
	memset(l->data, POISON, l->size_bytes);
}

static bool poisoned(const struct wire_client *cl, const struct weka_lease *l)
{
	const uint8_t *at = l->data;

	if (at[0] == POISON && memcmp(at, at + 1, l->size_bytes - 1) == 0) {
		wire_counts.rested++;
		return true;
	}
	for (uint64_t i = 0; i < l->size_bytes; i++)
		if (at[i] != POISON)
			return sim_wrong("client %u: byte %llu of a buffer at rest was written: "
					 "0x%02x",
					 cl->index, (unsigned long long)i, at[i]);
	UNREACHABLE();
}

struct weka_lease *wire__lease(struct wire_client *cl, uint32_t size)
{
	struct weka_lease *l;

	if (weka_lease(cl->c, size, &l))
		return NULL;
	poison(l);
	return l;
}

/* It is ours again: poisoned, and left alone for a while, or back. */
void wire__rest(struct wire_client *cl, struct weka_lease *l)
{
	uint32_t i = (uint32_t)below(cl, WIRE_RESTING);

	if (cl->resting[i]) {
		weka_release(cl->c, l);
		return;
	}
	poison(l);
	cl->resting[i] = l;
}

static bool look_at_rest(struct wire_client *cl)
{
	uint32_t i = (uint32_t)below(cl, WIRE_RESTING);
	struct weka_lease *l = cl->resting[i];

	if (!l || below(cl, 8))
		return true;
	if (!poisoned(cl, l))
		return false;
	if (below(cl, 4) == 0) {
		weka_release(cl->c, l);
		cl->resting[i] = NULL;
	}
	return true;
}

/* ---- turns ----------------------------------------------------------------------------- */

static void cancel_some(struct wire_client *cl)
{
	struct wire_request *r = &cl->request[below(cl, WIRE_REQUESTS)];

	if (!r->used || below(cl, 600) || r->req.timeout_ns == 20 * NS_PER_S)
		return;
	r->cancelled = true;
	weka_cancel(cl->c, &r->req);
}

/* Every request ends, at its deadline at the latest; while it had no turn nobody could tell it. */
static bool in_time(const struct wire_client *cl, uint64_t now_ns)
{
	for (uint32_t i = 0; i < WIRE_REQUESTS; i++) {
		const struct wire_request *r = &cl->request[i];

		if (r->used &&
		    now_ns - r->asked_ns > r->timeout_ns + SLACK_NS + (cl->late_ns - r->late_ns))
			return sim_wrong("client %u: a request of %llu ms is not over after %llu",
					 cl->index, (unsigned long long)(r->timeout_ns / NS_PER_MS),
					 (unsigned long long)((now_ns - r->asked_ns) / NS_PER_MS));
	}
	return true;
}

bool wire_as_another_thread(bool (*step)(void))
{
	static struct client_seat *other;
	struct client_seat *waits = client__seat;
	bool good;

	client__seat = other;
	good = step();
	other = client__seat;
	client__seat = waits;
	return good;
}

static bool take_in(struct wire_client *cl, uint64_t now_ns)
{
	struct weka_req *done[4];
	int count;

	for (uint32_t i = 0; i < TURNS; i++) {
		count = weka_reap(cl->c, done, 1 + (uint32_t)below(cl, ARRAY_LEN(done)));
		if (count < 0)
			return sim_wrong("client %u: reap: %d (%s)", cl->index, count,
					 weka_error(cl->c));
		for (int k = 0; k < count; k++)
			if (!wire__reaped(cl, container_of(done[k], struct wire_request, req),
					  now_ns))
				return false;
	}
	return true;
}

static void fall_asleep(struct wire_client *cl)
{
	if (!cl->sleeps || below(cl, 20) || wire_client_idle(cl))
		return;
	cl->asleep = weka_arm(cl->c) == 1;
	wire_counts.sleeps += cl->asleep;
}

bool wire_client_turn(struct wire_client *cl, uint64_t now_ns, bool more)
{
	uint64_t gap_ns = now_ns - cl->stepped_ns;

	cl->stepped_ns = now_ns;
	if (cl->asleep && !sim_sock_readable(weka_fd(cl->c)) && below(cl, 2000))
		return !sim_sock_unread(cl->host) ||
		       sim_wrong("client %u: it sleeps, and something has come", cl->index);
	wire_counts.wakes += cl->asleep;
	cl->asleep = false;
	if (gap_ns > WIRE_LEAP_NS + NS_PER_MS)
		cl->late_ns += gap_ns;
	if (!take_in(cl, now_ns) || !in_time(cl, now_ns) || !look_at_rest(cl))
		return false;
	if (more)
		cancel_some(cl);
	if (more && below(cl, cl->asked < HURRIED ? 3 : 1000) == 0 && !wire__ask(cl, now_ns))
		return false;
	if (below(cl, 2))
		weka_flush(cl->c);
	fall_asleep(cl);
	return true;
}

/* ---- life ------------------------------------------------------------------------------ */

void wire_client_begin(struct wire_client *cl, uint32_t index, uint64_t seed)
{
	memset(cl, 0, sizeof(*cl));
	cl->index = index;
	cl->host = WIRE_HOST_CLIENT + index;
	rand_seed(&cl->rand, seed * 31 + index);
	cl->sleeps = below(cl, 3) == 0;
}

bool wire_client_born(struct wire_client *cl, const char *address, uint64_t now_ns)
{
	static const uint8_t secret[32] = { 1, 2, 3 };
	struct weka_key key = { .id = "sim", .secret = secret };
	struct weka_options o = {
		.size_bytes = sizeof(o),
		.requests_max = WIRE_REQUESTS,
		.batches_max = 2,
		.pool_bytes = 2u << 20,
		.connect_timeout_ns = 8 * NS_PER_S,
		.timeout_ns = WIRE_TIMEOUT_NS,
		.reconnect_ns = RECONNECT_NS,
		.leases_max = 64,
		.lanes = (uint32_t)below(cl, 5),
	};
	struct weka_client *c = NULL;
	int err;

	cl->connecting = true;
	sim_sock_waits(true);
	err = weka_connect(address, &key, &o, &c);
	sim_sock_waits(false);
	cl->connecting = false;
	if (err == -EACCES || err == -EPROTO || err == -EINVAL || err == -ENOMEM)
		return sim_wrong("client %u: connect: %d, %s", cl->index, err, weka_error(NULL));
	cl->born_ns = clock_now_ns() + 10 * NS_PER_MS + below(cl, NS_PER_S);
	if (err)
		return true;
	cl->c = c;
	cl->life++;
	cl->asleep = false;
	cl->late_ns = 0;
	cl->stepped_ns = clock_now_ns();
	(void)now_ns;
	wire_counts.births++;
	return true;
}

/* All that the caller has is gone. */
static struct weka_client *parted(struct wire_client *cl)
{
	struct weka_client *c = cl->c;
	struct weka_counters counters = { .size_bytes = sizeof(counters) };

	(void)weka_get_counters(cl->c, &counters);
	wire_counts.reconnects += counters.reconnects;
	for (uint32_t i = 0; i < WIRE_REQUESTS; i++) {
		struct wire_request *r = &cl->request[i];

		for (uint32_t k = 0; r->used && k < r->count; k++)
			wire__unknown(r, &r->item[k]);
		r->used = false;
	}
	memset(cl->resting, 0, sizeof(cl->resting));
	wire_holds_end(cl);
	memset(cl->held, 0, sizeof(cl->held));
	cl->c = NULL;
	cl->asleep = false;
	return c;
}

void wire_client_die(struct wire_client *cl)
{
	client__destroy(parted(cl));
}

void wire_client_leave(struct wire_client *cl)
{
	struct weka_client *c = parted(cl);

	cl->leaving = cl->connecting = true;
	sim_sock_waits(true);
	weka_close(c);
	sim_sock_waits(false);
	cl->leaving = cl->connecting = false;
}

bool wire_client_idle(const struct wire_client *cl)
{
	for (uint32_t i = 0; i < WIRE_REQUESTS; i++)
		if (cl->request[i].used)
			return false;
	return true;
}

/* Of requests that ended before they were answered. */
static bool has_orphans(const struct weka_client *c)
{
	for (uint32_t i = 0; i < c->requests_max; i++)
		if (c->slots[i].state == CLIENT_ORPHAN)
			return true;
	return false;
}

bool wire_client_is_quiet(const struct wire_client *cl)
{
	return wire_client_idle(cl) && cl->c->at == CLIENT_UP && !has_orphans(cl->c) &&
	       !cl->c->own_out && list_empty(&cl->c->open_due);
}

uint32_t wire_client_misses(const struct wire_client *cl, const char *dead)
{
	const struct weka_client *c = cl->c;

	for (uint32_t i = 0; i < c->lane_count; i++)
		if ((c->lanes[i].at != CLIENT_UP || client__lane_is_away(&c->lanes[i])) &&
		    strcmp(c->addresses[c->lanes[i].address], dead) != 0)
			return i;
	return CLIENT_LANES_MAX;
}

/* Every connection has all of its credits. */
static bool credits_are_back(const struct wire_client *cl)
{
	for (uint32_t i = 0; i < cl->c->lane_count; i++) {
		const struct client_lane *lane = &cl->c->lanes[i];

		if (lane->at == CLIENT_UP &&
		    lane->conn->slot_free_count != lane->conn->limits.credits)
			return sim_wrong("client %u, lane %u: %u credits of %u are back", cl->index,
					 i, lane->conn->slot_free_count,
					 lane->conn->limits.credits);
	}
	return true;
}

bool wire_client_is_clean(struct wire_client *cl)
{
	struct weka_counters counters = { .size_bytes = sizeof(counters) };

	for (uint32_t i = 0; i < WIRE_RESTING; i++) {
		if (cl->resting[i] && !poisoned(cl, cl->resting[i]))
			return false;
		weka_release(cl->c, cl->resting[i]);
		cl->resting[i] = NULL;
	}
	(void)weka_get_counters(cl->c, &counters);
	if (counters.pool_used_bytes)
		return sim_wrong("client %u: %llu bytes of its pool are not back", cl->index,
				 (unsigned long long)counters.pool_used_bytes);
	return credits_are_back(cl);
}

/* ---- what is not sure ------------------------------------------------------------------ */

/*
 * Nobody can carry it out any more: no connection that its client has given up is still served, and
 * what it cancelled of those that it has was acknowledged.
 */
static bool is_over(const struct wire_op *op, const struct wire_client *cl)
{
	if (sim_sock_lingers(cl->host) || (cl->leaving && cl->connecting))
		return false;
	return !cl->c || cl->life != op->life || !has_orphans(cl->c);
}

void wire_settle(struct wire_client *clients, uint32_t count)
{
	for (uint32_t g = 0; g < WIRE_GROUPS; g++)
		for (int i = 0; i < (int)WIRE_OPEN; i++) {
			const struct wire_op *op = &wire_group[g].op[i];

			ASSERT(!op->used || op->client < count);
			if (op->used && op->ended && is_over(op, &clients[op->client]))
				wire_closed(g, i);
		}
}

/* ---- reading everything ---------------------------------------------------------------- */

bool wire_client_read_all(struct wire_client *cl, bool (*turn)(void))
{
	for (uint32_t g = 0; g < WIRE_GROUPS; g++)
		for (uint32_t n = 0; n < WIRE_NAMES; n++)
			if (!wire__read_one(cl, g, n, turn))
				return false;
	return true;
}

void wire_client_report(void)
{
	printf("# %llu connections, %llu refused, %llu cut, %llu reset, %llu given up; "
	       "%llu reconnects, %llu births; %llu pieces, %llu times full\n",
	       (unsigned long long)sim_sock_stat.connections,
	       (unsigned long long)sim_sock_stat.refused, (unsigned long long)sim_sock_stat.cuts,
	       (unsigned long long)sim_sock_stat.resets, (unsigned long long)sim_sock_stat.timeouts,
	       (unsigned long long)wire_counts.reconnects, (unsigned long long)wire_counts.births,
	       (unsigned long long)sim_sock_stat.segments, (unsigned long long)sim_sock_stat.full);
	printf("# %llu requests: %llu answered, %llu timeouts, %llu cancelled, %llu reset, "
	       "%llu lost contact, %llu refused; %llu changes unsure; %llu buffers at rest; "
	       "%llu sleeps\n",
	       (unsigned long long)wire_counts.requests, (unsigned long long)wire_counts.answered,
	       (unsigned long long)wire_counts.timeouts, (unsigned long long)wire_counts.cancels,
	       (unsigned long long)wire_counts.resets, (unsigned long long)wire_counts.lost_contact,
	       (unsigned long long)wire_counts.refused, (unsigned long long)wire_counts.unsure,
	       (unsigned long long)wire_counts.rested, (unsigned long long)wire_counts.sleeps);
	printf("# %llu files opened; %llu answers about one without a name, all held; %llu holds "
	       "that were sure no more\n",
	       (unsigned long long)wire_counts.opened, (unsigned long long)wire_nameless,
	       (unsigned long long)wire_counts.lost);
}
