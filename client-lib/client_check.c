/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counts a client's slots, leases, lanes, runs and open files again: with WK_DEBUG only.
 *
 * It looks at the client's own memory, never at requests: those are the caller's.
 */
#include "client-lib/client_internal.h"

#ifdef WK_DEBUG

#include <string.h>

#define WALK_MAX 4096u /* longer tables are not walked */

struct counted {
	uint32_t on_free, pending; /* slots in that state */
	uint32_t leased, orphans, opens;
	uint64_t load[CLIENT_LANES_MAX];
};

/* ---- slots: client_io.c -------------------------------------------------------------------- */

static void slot_check(const struct weka_client *c, const struct client_slot *slot,
		       struct counted *n)
{
	const bool is_out = slot->state == CLIENT_SENT || slot->state == CLIENT_ORPHAN;
	const bool is_own = slot->index == c->requests_max;

	ASSERT(slot->state <= CLIENT_ORPHAN && slot == &c->slots[slot->index]);
	ASSERT((slot->req != NULL) ==
		       (slot->state == CLIENT_PENDING || slot->state == CLIENT_SENT) ||
	       slot->state == CLIENT_ORPHAN); /* client_io.c (6) */
	ASSERT(list_linked(&slot->node) == (!is_out && !(is_own && slot->state == CLIENT_FREE)));
	ASSERT(!is_own || !slot->req || client__is_own(c, slot->req));
	if (slot->state == CLIENT_FREE) {
		ASSERT(!slot->lease && !slot->opens && slot->batch == &slot->one);
		n->on_free += !is_own;
		return;
	}
	n->pending += slot->state == CLIENT_PENDING;
	n->opens += slot->opens;
	n->leased += slot->lease != NULL;
	n->orphans += slot->lease && slot->state == CLIENT_ORPHAN;
	ASSERT(!slot->lease || (slot->lease->client == c && slot->lease->calls > 0));
	if (!is_out)
		return;
	ASSERT(slot->lane < CLIENT_LANES_MAX && c->lanes[slot->lane].at == CLIENT_UP);
	n->load[slot->lane] += client__cost(slot);
}

static uint32_t list_check(const struct list *head, uint8_t state)
{
	uint32_t count = 0;

	for (const struct list *node = head->next; node != head; node = node->next) {
		ASSERT(list_entry(node, const struct client_slot, node)->state == state);
		ASSERT(node->next->prev == node);
		count++;
	}
	return count;
}

/* Changes are numbered once, and no two slots have the same number. */
static void changes_check(const struct weka_client *c)
{
	for (uint32_t i = 0; i < c->requests_max; i++) {
		const struct client_slot *slot = &c->slots[i];

		if (slot->state == CLIENT_FREE || !slot->call.change.number)
			continue;
		ASSERT(slot->call.change.number <= c->changes); /* client_io.c (4) */
		ASSERT(slot->call.change.slot == i);
	}
}

static void slots_check(const struct weka_client *c, struct counted *n)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i <= c->requests_max; i++) {
		slot_check(c, &c->slots[i], n);
		out += i < c->requests_max && c->slots[i].req;
	}
	ASSERT(out == c->out_count);
	ASSERT(list_check(&c->free, CLIENT_FREE) == n->on_free); /* client_io.c (1) */
	ASSERT(list_check(&c->pending, CLIENT_PENDING) + list_check(&c->cut, CLIENT_PENDING) ==
	       n->pending); /* client_io.c (1) */
	changes_check(c);
}

/* ---- lanes: client_lane.c ------------------------------------------------------------------ */

static void lanes_check(const struct weka_client *c, const struct counted *n)
{
	const bool trying = c->at == CLIENT_HELLO || c->at == CLIENT_POOL;
	uint32_t up = 0;

	for (uint32_t i = 0; i < CLIENT_LANES_MAX; i++) {
		const struct client_lane *lane = &c->lanes[i];

		ASSERT(lane->load == n->load[i]); /* client_lane.c (3) */
		ASSERT(lane->at == CLIENT_DOWN || i < c->lane_count);
		ASSERT(lane->at == CLIENT_DOWN || lane->conn);
		ASSERT(lane->at != CLIENT_DOWN || !lane->conn ||
		       !c->memory_ours); /* client_lane.c (2) */
		up += lane->at == CLIENT_UP;
	}
	ASSERT(up == c->lanes_up);                         /* client_lane.c (1) */
	ASSERT((c->at == CLIENT_UP) == (c->lanes_up > 0)); /* client_lane.c (1) */
	ASSERT((c->next.conn != NULL) == trying);          /* client_conn.c (2) */
}

/* ---- memory: client_mem.c ------------------------------------------------------------------ */

static uint32_t listed_check(const struct client_pool *p)
{
	uint32_t runs = 0;

	for (uint32_t class = 0; class < CLIENT_CLASSES; class ++) {
		const bool any = p->any[class / 64] >> (class % 64) & 1;
		uint32_t unit = p->first[class];

		ASSERT(any == (unit != UINT32_MAX)); /* client_mem.c (2) */
		for (; unit != UINT32_MAX; unit = p->next[unit]) {
			ASSERT(unit < p->units && p->run[unit] >> 31); /* client_mem.c (2) */
			runs++;
		}
	}
	return runs;
}

static void pool_check(const struct client_pool *p)
{
	uint32_t unit = 0, used = 0, runs = 0;
	bool was_free = false;

	while (unit < p->units) {
		const uint32_t run = p->run[unit], units = run & INT32_MAX;
		const bool is_free = run >> 31;

		ASSERT(units > 0 && units <= p->units - unit); /* client_mem.c (1) */
		ASSERT(p->run[unit + units - 1] == run);
		ASSERT(!(is_free && was_free)); /* client_mem.c (1) */
		used += is_free ? 0 : units;
		runs += is_free;
		was_free = is_free;
		unit += units;
	}
	ASSERT(used == p->used_units);
	ASSERT(listed_check(p) == runs); /* client_mem.c (2) */
}

static void leases_check(const struct weka_client *c, const struct counted *n)
{
	uint32_t calls = 0, orphans = 0, units = 0, used = c->pool.used_units;

	for (uint32_t i = 0; i < c->added_count; i++)
		used += c->added[i].runs.used_units;
	for (uint32_t i = 0; i < c->leases_max; i++) {
		struct client_lease *lease = &c->leases[i];

		if (!lease->client)
			continue;
		ASSERT(lease->client == c && lease->orphans <= lease->calls);
		ASSERT(!lease->added || client__added_is(c, lease->added)); /* client_pool.c (2) */
		ASSERT(client__pool_of(lease)->run[lease->unit] == lease->units);
		ASSERT(!lease->released || lease->calls > 0 || lease->lost); /* client_mem.c (3) */
		ASSERT(!c->poisons || lease->added ||
		       !c->poisons[lease->unit]); /* client_poison.c (1) */
		calls += lease->calls;
		orphans += lease->orphans;
		units += lease->units;
	}
	ASSERT(calls == n->leased && orphans == n->orphans); /* client_io.c (3) */
	ASSERT(units == used);
}

/* ---- open files: client_open.c ------------------------------------------------------------- */

static void open_check(const struct client_open *o)
{
	const bool is_due = o->held > o->users || (o->users > 0 && o->held == 0 && !o->lost);

	ASSERT(o->users > 0 || o->held > 0 || o->asked > 0);     /* client_open.c (1) */
	ASSERT(!list_linked(&o->due) || is_due);                 /* client_open.c (2) */
	ASSERT(list_linked(&o->due) || !is_due || o->asked > 0); /* client_open.c (2) */
}

static void opens_check(const struct weka_client *c, const struct counted *n)
{
	uint32_t entries = 0, asked = 0;

	ASSERT(c->opening == n->opens); /* client_open.c (4) */
	ASSERT(c->opens + c->opening <= c->opens_max);
	ASSERT(c->own_count <= CLIENT_OPEN_BATCH);
	if (c->opens_max > WALK_MAX)
		return;
	for (uint32_t i = 0; i <= c->open_mask; i++) {
		const struct list *head = &c->open_bucket[i], *node;

		for (node = head->next; node != head; node = node->next) {
			const struct client_open *o =
				list_entry(node, const struct client_open, link);

			open_check(o);
			asked += o->asked;
			entries++;
		}
	}
	ASSERT(entries == c->opens);   /* client_open.c (1) */
	ASSERT(asked == c->own_count); /* client_open.c (2) */
}

void client__check(const struct weka_client *c)
{
	struct counted n = { 0 };

	slots_check(c, &n);
	lanes_check(c, &n);
	opens_check(c, &n);
	if (!c->pool.run)
		return; /* the first session is not there yet */
	pool_check(&c->pool);
	for (uint32_t i = 0; i < c->added_count; i++)
		pool_check(&c->added[i].runs);
	if (c->leases_max <= WALK_MAX)
		leases_check(c, &n);
}

#endif
