/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Prints the log in words: its blocks by place, gaps where one is missing, and the records of one
 * block. */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <string.h>

static const struct meta__column log_columns[] = {
	{ "seq", 8 },   { "place", -10 }, { "blocks", 6 }, { "zone", 6 },
	{ "mount", 5 }, { "durable", 8 }, { "trim", 8 },   { "records", 7 },
	{ "bytes", 7 }, { "state", -1 },  { NULL, 0 },
};

static const char *state_of(const struct meta__raw_log *l, const struct meta__raw_block *b)
{
	ASSERT(b->head.nblocks > 0);
	if (b->why)
		return b->why;
	if (b->head.seq < l->first)
		return "trimmed";
	if (b->head.seq > l->last)
		return "behind a gap";
	return b->head.seq > max_u64(l->durable, l->known) ? "replayed; nothing says that it was "
							     "durable"
							   : "replayed";
}

static void block_row(struct meta_raw *r, const struct meta__raw_block *b, struct meta__table *t)
{
	ASSERT(b->zone < r->geo.nzones);
	ASSERT(b->at + b->head.nblocks <= r->geo.zone_end);
	meta__cell(t, b->head.seq);
	meta__cell_place(t, meta__geo_zone_baddr(&r->geo, b->zone) + b->at);
	meta__cell(t, b->head.nblocks);
	meta__cell(t, b->zone);
	meta__cell(t, b->head.epoch);
	meta__cell(t, b->head.durable);
	meta__cell(t, b->head.trim);
	meta__cell(t, b->head.records);
	meta__cell(t, b->head.bytes);
	meta__cell_text(t, "%s", state_of(&r->log, b));
	ASSERT(t->at == 0);
}

/* The gap for which a mount would refuse the store. */
static void gap_row(struct meta_raw *r, struct meta__table *t)
{
	const struct meta__raw_log *l = &r->log;

	ASSERT(l->broken);
	ASSERT(l->last < max_u64(l->durable, l->known));
	meta__cell(t, l->last + 1);
	if (l->gap_baddr)
		meta__cell_place(t, l->gap_baddr);
	else
		meta__cell_text(t, "?");
	for (int i = 0; i < 7; i++)
		meta__cell_text(t, "?");
	meta__cell_text(t, "damaged or missing: there, or behind; %llu was durable",
			(unsigned long long)max_u64(l->durable, l->known));
	ASSERT(t->at == 0);
}

int meta__dump_log_zone(struct meta_raw *r, uint32_t zone, struct meta__table *t)
{
	const struct meta__raw_log *l = &r->log;
	int err = l->broken && zone == META__ZONE_NONE ? -EUCLEAN : 0;

	ASSERT(zone == META__ZONE_NONE || zone < r->geo.nzones);
	ASSERT(l->blocks <= l->blocks_max);
	meta__table_begin(t, "log", log_columns);
	for (uint32_t i = 0; i < l->blocks; i++) {
		if (zone != META__ZONE_NONE && l->block[i].zone != zone)
			continue;
		block_row(r, &l->block[i], t);
		if (l->block[i].why)
			err = -EUCLEAN;
	}
	if (l->broken && zone == META__ZONE_NONE)
		gap_row(r, t);
	return err;
}

/* ---- records ---------------------------------------------------------------------------- */

static const struct meta__column record_columns[] = {
	{ "number", 6 }, { "shard", 5 }, { "part", 8 }, META__RECORD_COLUMNS, { NULL, 0 },
};

static int records(struct meta_raw *r, const struct meta__raw_block *b, struct meta__table *t)
{
	const uint8_t *zone = meta__raw_zone_bytes(r, b->zone);
	struct meta__mut mut[META__TX_RECORDS_MAX];
	struct meta__record_reader reader;
	struct meta__part part;
	uint64_t number = 1;
	int err = 0, rc;

	ASSERT(!b->why);
	ASSERT(b->at > 0);
	if (!zone)
		return -ENOMEM;
	meta__table_begin(t, "record", record_columns);
	meta__reader_init(&reader, zone + (size_t)b->at * META__BLOCK, &b->head, r->geo.nshards);
	while ((rc = meta__reader_next(&reader, &part, mut)) == 1) {
		for (uint32_t i = 0; i < part.count; i++) {
			meta__cell(t, number);
			meta__cell(t, part.shard);
			meta__cell(t, part.seq);
			if (meta__dump_record(t, part.shard, &mut[i].key, mut[i].del, mut[i].value,
					      mut[i].value_len))
				err = -EUCLEAN;
		}
		number += reader.last_part;
	}
	return rc ? -EUCLEAN : err;
}

int meta__dump_log(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	uint64_t seq;

	ASSERT(r->log.wholes <= r->log.blocks);
	if (!arg)
		return meta__dump_log_zone(r, META__ZONE_NONE, t);
	if (meta__dump_number(arg, UINT64_MAX, &seq))
		return -EINVAL;
	for (uint32_t i = 0; i < r->log.blocks; i++) {
		const struct meta__raw_block *b = &r->log.block[i];

		if (b->why || b->head.seq != seq)
			continue;
		meta__table_begin(t, "log", log_columns);
		block_row(r, b, t);
		return records(r, b, t);
	}
	return -ENOENT;
}
