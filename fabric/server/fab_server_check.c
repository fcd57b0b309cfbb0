/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counts sessions, their requests, pieces and pools again, and compares the results with the
 * counters: with WK_DEBUG only.  The core's part reads only what the core owns, the control side's
 * part only what that side owns: the two may run at the same time.
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>

#ifdef WK_DEBUG

#define PLACES_MOST 8192u /* more than sessions_max can be */

static uint32_t list_count(const struct list *l)
{
	uint32_t n = 0;

	for (const struct list *at = l->next; at != l; at = at->next, n++)
		ASSERT(n < 1u << 24); /* or it goes round in a circle */
	return n;
}

/* ---- the core's: requests, the numbers are fab_session.c's ---------------------------------- */

static void req_check(const struct fab__session *s, const struct fab__req *req, bool is_free)
{
	const bool comes = s->rx.req == req;

	ASSERT(req->pub.session == &s->pub);
	ASSERT(req->live + comes + is_free <= 1); /* fab_session.c (1) */
	ASSERT(req->live || !list_linked(&req->cancel_node));
	ASSERT(!is_free || !req->part);
	ASSERT(req->live || comes || is_free || !s->direct); /* a reply over shm leaves at once */
	ASSERT(!req->live || req->pub.deadline_ns >= s->next_deadline_ns || req->cancel_status);
	ASSERT(!req->live || s->at == SESSION_OPEN ||
	       req->cancel_status == -ECONNRESET); /* fab_session.c (3) */
	ASSERT(is_free || req->long_slot < (int32_t)s->pub.limits.long_bodies);
	ASSERT(is_free || req->long_slot < 0 || !(s->long_free >> req->long_slot & 1));
}

static void reqs_check(const struct fab__session *s)
{
	const struct fab_limits *l = &s->pub.limits;
	bool is_free[FAB_CREDITS_MAX] = { false };
	uint32_t longs = 0;

	ASSERT(s->req_free_count <= l->credits); /* fab_session.c (2) */
	for (uint32_t i = 0; i < s->req_free_count; i++) {
		ASSERT(s->req_free[i] < l->credits);
		ASSERT(!is_free[s->req_free[i]]); /* fab_session.c (1) */
		is_free[s->req_free[i]] = true;
	}
	for (uint32_t i = 0; i < l->credits; i++) {
		req_check(s, &s->reqs[i], is_free[i]);
		longs += !is_free[i] && s->reqs[i].long_slot >= 0;
	}
	ASSERT(longs + (uint32_t)__builtin_popcountll(s->long_free) == l->long_bodies);
}

/* ---- pieces: fab_payload.c's ----------------------------------------------------------------- */

static void pieces_check(const struct fab__session *s)
{
	uint32_t pulls = 0;

	for (uint32_t i = 0; i < FAB_PULLS_MAX; i++) {
		const struct fab_piece *piece = s->pulls[i];

		pulls += piece != NULL;
		ASSERT(!piece || piece->req->session == &s->pub);
		ASSERT(s->at != SESSION_OPEN || (piece == NULL) == (s->pull_free >> i & 1));
	}
	ASSERT(!s->rx.piece || s->pulls[s->rx.piece_hdr.pull] == s->rx.piece);
	ASSERT(!s->held || (!s->direct && !s->onesided && s->at == SESSION_OPEN));
	pulls += list_count(&s->pull_waits);
	ASSERT(pulls + (s->held != NULL) <= s->pieces_out); /* fab_payload.c (1) */
	ASSERT(!s->direct || s->pieces_out == 0);
	ASSERT(s->at == SESSION_OPEN || pulls == 0);
	ASSERT(s->onesided || s->at != SESSION_OPEN ||
	       (s->stall_ns == UINT64_MAX) == (s->pull_free == UINT32_MAX));
}

/* Pools that are not shared memory are the core's. */
static void pools_check(const struct fab__session *s)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++) {
		ASSERT(s->pools[i].session == s && s->pools[i].region == i + 1);
		ASSERT(s->direct || !s->pools[i].memory);
		bytes += s->pools[i].size_bytes;
	}
	ASSERT(s->direct || bytes == s->pools_bytes);
	ASSERT(s->direct || bytes <= s->pub.limits.pool_max_bytes);
}

static void session_check(const struct fab_server *srv, const struct fab__session *s)
{
	ASSERT(s->srv == srv && s->at != SESSION_FREE); /* fab_server.c (1) */
	ASSERT(!(s->direct && s->onesided));
	ASSERT(s->at == SESSION_OPEN || !list_linked(&s->dirty_node)); /* fab_session.c (3) */
	ASSERT(!s->halting || (s->onesided && s->at == SESSION_CLOSING));
	ASSERT(!s->is_slow || s->full_ns != UINT64_MAX);
	reqs_check(s);
	pieces_check(s);
	if (!s->direct)
		pools_check(s);
}

void fab__server_check(const struct fab_server *srv)
{
	uint64_t seen[PLACES_MOST / 64] = { 0 };
	uint32_t closing = 0, streams = 0, onesided = 0;

	ASSERT(srv->cfg.sessions_max <= PLACES_MOST && srv->open_count <= srv->cfg.sessions_max);
	for (uint32_t i = 0; i < srv->open_count; i++) {
		const struct fab__session *s = srv->open[i];
		const uint64_t place = (uint64_t)(s - srv->sessions);

		ASSERT(place < srv->cfg.sessions_max);
		ASSERT(!(seen[place / 64] >> place % 64 & 1)); /* each session once */
		seen[place / 64] |= UINT64_C(1) << place % 64;
		closing += s->at == SESSION_CLOSING;
		streams += !s->direct && !s->onesided;
		onesided += s->onesided;
		session_check(srv, s);
	}
	ASSERT(closing == srv->closing_count); /* fab_server.c (1) */
	ASSERT(streams == srv->stream_count && onesided == srv->onesided_count);
	ASSERT(list_count(&srv->dirty) <= srv->open_count);
	ASSERT(list_count(&srv->cancels) <= srv->open_count * FAB_CREDITS_MAX);
}

/* ---- the control side's: places, keys, sessions' lanes, pools -------------------------------- */

struct places { /* counted over all cores */
	uint32_t used;
	uint64_t pools_bytes;
};

static void place_pools_check(const struct fab__session *s, struct places *sum)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i < FAB_POOLS_MAX && s->direct; i++) {
		const struct fab_pool *pool = &s->pools[i];

		out += pool->at != POOL_FREE;
		sum->pools_bytes += pool->at != POOL_FREE ? pool->size_bytes : 0;
		ASSERT((pool->at == POOL_FREE) == !pool->memory); /* fab_control_session.c (2) */
		ASSERT(pool->made_bytes <= pool->size_bytes || pool->at == POOL_FREE);
		ASSERT(pool->at != POOL_READY || pool->fd < 0); /* fab_control_session.c (3) */
		ASSERT(!pool->event_out || pool->at == POOL_OFFERED);
	}
	ASSERT(out == s->control.pools_out || !s->direct); /* fab_control_session.c (1) */
}

static void core_places_check(const struct fab_server *srv, struct places *sum)
{
	uint32_t used = 0, firsts = 0;

	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++) {
		const struct fab__session *s = &srv->sessions[i];

		if (!s->control.used)
			continue;
		used++;
		firsts += s->control.first;
		ASSERT(!s->control.core_done || s->control.lost_told);
		ASSERT(!s->control.core_done || s->control.pools_out > 0); /* else it is released */
		place_pools_check(s, sum);
	}
	ASSERT(used == srv->places_used && firsts == srv->firsts);
	sum->used += used;
}

/* The sessions' places that have this key, or are lanes of this session. */
static uint32_t places_of(const struct fab_control *c, uint32_t key_slot, uint64_t id)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->core_count; i++)
		for (uint32_t k = 0; k < c->cores[i]->cfg.sessions_max; k++) {
			const struct fab__session *s = &c->cores[i]->sessions[k];

			if (!s->control.used)
				continue;
			n += id ? s->control.in_session && s->pub.id == id
				: s->control.has_key && s->control.key_slot == key_slot;
		}
	return n;
}

static void keys_check(const struct fab_control *c)
{
	for (uint32_t i = 0; i < c->keys.max; i++) {
		const struct fab__key_slot *slot = &c->keys.slot[i];

		ASSERT(slot->at != KEY_FREE || slot->sessions == 0);
		ASSERT(slot->at != KEY_GONE || slot->sessions > 0);
		ASSERT(slot->at == KEY_FREE || slot->sessions == places_of(c, i, 0));
	}
}

static void lanes_check(const struct fab__lanes *lanes, const struct fab_control *c)
{
	for (uint32_t i = 0; i < lanes->max; i++) {
		const struct fab__lanes_of *of = &lanes->of[i];

		if (!of->id)
			continue;
		ASSERT(of->count > 0 && of->count <= lanes->lanes_max); /* fab_lanes.c (1) */
		ASSERT(of->count == places_of(c, FAB_KEY_NONE, of->id));
		for (uint32_t k = 0; k < FAB_LANES_MAX; k++) /* fab_lanes.c (2) */
			ASSERT(!of->lane[k] ||
			       (of->lane[k]->control.used && of->lane[k]->pub.id == of->id &&
				of->lane[k]->pub.lane == k));
	}
}

void fab__control_check(const struct fab_control *c)
{
	struct places sum = { 0 };

	for (uint32_t i = 0; i < c->core_count; i++)
		core_places_check(c->cores[i], &sum);
	ASSERT(sum.used == c->session_count);
	ASSERT(sum.pools_bytes == c->pools_bytes);
	keys_check(c);
	lanes_check(&c->lanes, c);
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		ASSERT(c->arrivals[i].fd >= 0 || (!c->arrivals[i].rdma && !c->arrivals[i].tls));
	ASSERT(list_count(&c->pools_due) + list_count(&c->pools_making) <=
	       c->session_count * FAB_POOLS_MAX);
}

#endif
