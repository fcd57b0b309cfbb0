/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Prints the set of drives in words: the newest superblock's list, and which of them are here. */
#include "meta/engine/meta_pair.h"
#include "meta/offline/meta_raw_internal.h"

#include <string.h>

static const struct meta__column set_columns[] = {
	{ "set", 6 },   { "copies", 6 },     { "converts", -8 }, { "drives", 6 },
	{ "pairs", 6 }, { "last_pair", -1 }, { NULL, 0 },
};

static const struct meta__column drive_columns[] = {
	{ "drive", 5 }, { "state", -6 }, { "here", -12 }, { "blocks", 10 }, { "zones", 7 },
	{ "pairs", 5 }, { "roots", -6 }, { "tag", -16 },  { "name", -1 },   { NULL, 0 },
};

static const char *const states[] = { "serves", "drains", "gone", "lost" };

/* Returns the superblock of the newest set, by which everything was placed. */
static const struct meta__super *newest(const struct meta_raw *r)
{
	const struct meta__super *chosen = NULL;

	ASSERT(!r->problem[0]);
	for (uint32_t i = 0; i < 2 * r->from.count; i++) {
		const struct meta__raw_super *s = &r->super[i / 2][i % 2];

		if (!s->err && memcmp(s->s.uuid, r->m.uuid, sizeof(r->m.uuid)) == 0 &&
		    (!chosen || meta__super_counts(&s->s, chosen)))
			chosen = &s->s;
	}
	ASSERT(chosen);
	ASSERT(chosen->ndrives <= META_DRIVES_MAX);
	return chosen;
}

/* Groups whose first zone is on a drive, or on any; and the highest number of one. */
static uint32_t pairs_on(const struct meta_raw *r, uint32_t drive, uint64_t *last)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		const uint64_t at = meta__geo_zone_baddr(&r->geo, i);

		if (!r->zone[i].pair || r->zone[i].is_twin ||
		    (drive < META_DRIVES_MAX && META_BADDR_DRIVE(at) != drive))
			continue;
		ASSERT(r->zone[i].pair > 0);
		count++;
		*last = max_u64(*last, r->zone[i].pair);
	}
	ASSERT(count <= r->geo.nzones / 2);
	return count;
}

/* The copies of the root area that are on a drive, in part at least. */
static void copies_on(const struct meta_raw *r, uint32_t drive, char out[2 * META__RAW_COPIES])
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t copy = 0; copy < r->geo.root_copies; copy++) {
		if (!meta__geo_roots_on(&r->geo, copy, drive))
			continue;
		used += (size_t)snprintf(out + used, 2 * META__RAW_COPIES - used, "%s%u",
					 used ? " " : "", copy);
	}
	ASSERT(used < 2 * META__RAW_COPIES);
}

static void drive_row(struct meta_raw *r, const struct meta__super *s, uint32_t d,
		      struct meta__table *t)
{
	const bool here = r->drive_at[d] != META__RAW_NOWHERE;
	char roots[2 * META__RAW_COPIES];
	uint64_t last = 0;

	ASSERT(d < s->ndrives);
	ASSERT(s->drive_state[d] < ARRAY_LEN(states));
	meta__cell(t, d);
	meta__cell_text(t, "%s", states[s->drive_state[d]]);
	meta__cell_text(t, "%s",
			s->drive_state[d] == DRIVE_GONE   ? ""
			: !here                           ? "missing"
			: s->drive_state[d] == DRIVE_LOST ? "not believed"
							  : "yes");
	meta__cell(t, s->drive_nblocks[d]);
	meta__cell(t, r->geo.zone_count[d]);
	meta__cell(t, pairs_on(r, d, &last));
	copies_on(r, d, roots);
	meta__cell_text(t, "%s", roots);
	meta__cell_text(t, "%016llx", (unsigned long long)s->drive_tag[d]);
	meta__cell_text(t, "%.*s", (int)META_DRIVE_NAME, s->drive_name[d]);
	ASSERT(t->at == 0);
}

int meta__dump_set(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	const struct meta__super *s = newest(r);
	uint64_t last = 0;
	uint32_t pairs = pairs_on(r, META_DRIVES_MAX, &last);

	ASSERT(!arg);
	ASSERT(s->ndrives == r->geo.ndrives);
	meta__table_begin(t, "set", set_columns);
	meta__cell(t, s->set);
	meta__cell(t, max_u32(s->copies, 1));
	meta__cell_text(t, "%s", s->converts ? "yes" : "");
	meta__cell(t, s->ndrives);
	meta__cell(t, pairs);
	meta__cell(t, last);
	meta__table_begin(t, "drive", drive_columns);
	for (uint32_t d = 0; d < s->ndrives; d++)
		drive_row(r, s, d, t);
	return 0;
}
