/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Compares the log's sequences, zones and marks with one another: with WK_DEBUG only. */
#include "meta/engine/meta_log.h"
#include "meta/engine/meta_self_check.h"

#ifdef WK_DEBUG

/* All blocks that are not durable yet have their buffers. */
static void blocks_check(const struct meta__log *l)
{
	ASSERT(l->durable < l->next);
	ASSERT(l->next - 1 - l->durable <= META__LOG_BUFS); /* meta_log.c (1) */
	for (uint64_t seq = l->durable + 1; seq < l->next; seq++) {
		const struct log_block *b = &l->block[seq % META__LOG_BUFS];

		ASSERT(b->seq == seq);
		ASSERT(b->state != LOG_IDLE);
		ASSERT((b->state == LOG_OPEN) == (l->open && seq + 1 == l->next));
		ASSERT(b->flushing == 0 || b->state == LOG_FLUSHING);
		ASSERT(b->writing == 0 || b->state == LOG_WRITING);
	}
}

static uint32_t zone_check(const struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < META__LOG_COPIES; i++) {
		if (zone[i] == META__ZONE_NONE)
			continue;
		ASSERT(meta__zone_at(m, zone[i])->kind == META__ZONE_LOG);
		ASSERT(meta__zone_at(m, zone[i])->state == ZONE_OPEN);
		count++;
	}
	return count;
}

/* The log's zones are in order, and none is lost. */
static void zones_check(const struct meta *m)
{
	const struct meta__log *l = m->log;
	const struct meta__zones *z = m->zones;
	uint32_t count = zone_check(m, l->ahead) + z->log_opening;

	for (uint32_t i = 0; i < l->zones_count; i++) {
		const struct log_zone *at = &l->zones[i];

		count += zone_check(m, at->zone);
		ASSERT(at->zone[0] != META__ZONE_NONE);
		ASSERT(at->order <= z->log_order);
		ASSERT(i == 0 || at[-1].order < at->order);
		ASSERT(i == 0 || at->last_seq == 0 || at[-1].last_seq < at->last_seq);
	}
	for (uint32_t i = 0; i < META__LOG_COPIES; i++)
		count += z->log_ready[i] != META__ZONE_NONE;
	ASSERT(count == z->log_count);
	ASSERT(l->zones_count == 0 || (l->cur_at >= 1 && l->cur_at <= z->geo.zone_end));
}

static void marks_check(const struct meta__log *l)
{
	ASSERT(l->mark_count <= META__LOG_MARKS);
	for (uint32_t i = 1; i < l->mark_count; i++) {
		const struct log_mark *a = &l->mark[(l->mark_first + i - 1) % META__LOG_MARKS];
		const struct log_mark *b = &l->mark[(l->mark_first + i) % META__LOG_MARKS];

		ASSERT(a->seq < b->seq);
		ASSERT(a->bytes < b->bytes);
	}
	ASSERT(l->bytes_trimmed <= l->bytes);
}

void meta__log_check(const struct meta *m)
{
	const struct meta__log *l = m->log;

	if (!l->started)
		return;
	ASSERT(l->last < l->next);
	ASSERT(l->trim_durable <= l->trim_said); /* meta_log.c (4) */
	ASSERT(l->trim_said <= l->trim);
	ASSERT(l->trim <= l->durable);
	blocks_check(l);
	zones_check(m);
	marks_check(l);
}

#endif
