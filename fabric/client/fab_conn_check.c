/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Counts a connection's slots and regions again: with WK_DEBUG only. */
#include "fabric/client/fab_client_internal.h"

#ifdef WK_DEBUG

static void slot_check(const struct fab_conn *conn, uint32_t i, bool is_free)
{
	const struct fab_slot *slot = &conn->slots[i];
	const bool busy = slot->tx_busy || slot->cancel_busy;

	ASSERT(is_free == (!slot->call && !busy)); /* fab_conn.c (1) */
	ASSERT(!slot->call || fab__call_inside(slot->call)->slot == i);
	ASSERT(!slot->cancel_busy || !slot->call || fab__call_inside(slot->call)->cancelled);
	ASSERT(!busy || !conn->direct); /* over shm a capsule leaves at once */
	if (is_free)
		return;
	ASSERT(slot->long_slot < (int32_t)conn->limits.long_bodies);
	ASSERT(slot->long_slot < 0 || !(conn->long_free >> slot->long_slot & 1));
}

static void slots_check(const struct fab_conn *conn)
{
	const struct fab_limits *l = &conn->limits;
	bool is_free[FAB_CREDITS_MAX] = { false };
	uint32_t longs = 0;

	ASSERT(conn->slot_free_count <= l->credits);
	for (uint32_t i = 0; i < conn->slot_free_count; i++) {
		ASSERT(conn->slot_free[i] < l->credits);
		ASSERT(!is_free[conn->slot_free[i]]); /* fab_conn.c (1) */
		is_free[conn->slot_free[i]] = true;
	}
	for (uint32_t i = 0; i < l->credits; i++) {
		slot_check(conn, i, is_free[i]);
		longs += !is_free[i] && conn->slots[i].long_slot >= 0;
	}
	ASSERT(longs + (uint32_t)__builtin_popcountll(conn->long_free) == l->long_bodies);
}

static void regions_check(const struct fab_conn *conn)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++) {
		const struct fab_region *r = &conn->regions[i];

		ASSERT(r->conn == conn && r->number == i + 1);
		ASSERT(!r->memory || r->size_bytes > 0);
		bytes += r->memory ? r->size_bytes : 0;
	}
	ASSERT(bytes <= conn->pools_bytes && conn->pools_bytes <= conn->limits.pool_max_bytes);
}

void fab__conn_check(const struct fab_conn *conn)
{
	if (conn->at != CONN_OPEN)
		return;
	ASSERT(!(conn->direct && conn->onesided) && conn->broken_next == 0);
	ASSERT(!conn->rx_wants || conn->rx_done <= conn->rx_need);
	ASSERT(!conn->rx_call || conn->rx_wants); /* a reply whose body or payload is coming */
	slots_check(conn);
	regions_check(conn);
}

#endif
