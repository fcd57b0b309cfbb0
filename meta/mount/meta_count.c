/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A mount counts the live blocks of each zone, from the trees.  A stage of meta_boot.c. */
#include "meta/format/meta_page.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

/* A page, or data, must be in a zone whose header has that kind. */
static int zone_of_kind(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	ASSERT(zone < m->boot->geo.nzones);
	ASSERT(kind == META__ZONE_PAGE || kind == META__ZONE_DATA);
	if (!meta__heads_adopt(m, zone, kind))
		return meta__boot_fail(m, -EUCLEAN,
				       "shard %u: something lives in zone %u, which is not for it",
				       m->boot->at, zone);
	if (meta__zone_at(m, zone)->state == ZONE_FREE)
		meta__zone_use(m, zone, kind);
	return 0;
}

static int count_page(struct meta *m, uint64_t baddr)
{
	int err = zone_of_kind(m, meta__zone_of(m, baddr), META__ZONE_PAGE);

	ASSERT(meta__geo_is_page(&m->zones->geo, baddr));
	if (!err)
		meta__zone_page_add(m, baddr);
	return err;
}

/* The ZONE records of a leaf. */
static int count_leaf(struct meta *m, const struct meta__walk *w)
{
	const void *page = meta__walk_page(w);

	ASSERT(w->at[w->depth].level == 0);
	for (uint32_t i = 0; i < w->at[w->depth].count; i++) {
		struct meta_key key;
		const void *value;
		uint32_t len, zone;
		le64 live;
		int err;

		meta__page_record(page, i, &key, &value, &len);
		if (meta__key_dir(&key) || meta__key_class(&key) != META__CLASS_ZONE)
			continue;
		zone = meta__zone_of_key(m, &key);
		if (zone == META__ZONE_NONE || len != sizeof(live))
			return meta__boot_fail(m, -EUCLEAN, "shard %u: a zone record is malformed",
					       w->shard);
		err = zone_of_kind(m, zone, META__ZONE_DATA);
		if (err)
			return err;
		memcpy(&live, value, sizeof(live));
		if (le64_get(live) >= m->boot->geo.zone_end)
			return meta__boot_fail(m, -EUCLEAN, "shard %u: zone %u is overfull",
					       w->shard, zone);
		meta__zone_live_add(m, zone, (int64_t)le64_get(live));
	}
	return 0;
}

static int count_event(struct meta *m, enum meta__walk_event event)
{
	const struct meta__walk *w = &m->boot->walk;
	int err;

	ASSERT(w->shard == m->boot->at);
	switch (event) {
	case WALK_AWAY: /* meta_boot.c (6) */
		m->boot->away_pages++;
		return count_page(m, w->leaf_baddr);
	case WALK_LEAF:
		return count_page(m, w->leaf_baddr);
	case WALK_PAGE:
		err = count_page(m, w->at[w->depth].baddr);
		if (!err && w->at[w->depth].level == 0)
			err = count_leaf(m, w);
		return err;
	case WALK_BAD:
		return meta__boot_fail(m, w->err, "%s", w->why);
	case WALK_WAIT:
	case WALK_END:
		break;
	}
	return 0;
}

/* at: shard. */
int meta__boot_count(struct meta *m)
{
	struct meta__boot *b = m->boot;
	enum meta__walk_event event;
	int err;

	ASSERT(b->log_judged);
	ASSERT(!m->zones->counted);
	ASSERT(b->at <= m->nshards);
	if (b->at == m->nshards) {
		meta__boot_next(m, meta__heads_judge);
		return 0;
	}
	if (b->step == 0) {
		b->walk.all_leaves = false;
		b->walk.until = meta__key(0, 0, META__CLASS_ORPHAN, 0, META__KIND_NONE, 0);
		meta__walk_start(m, &b->walk, b->at);
		b->step = 1;
	}
	do {
		event = meta__walk_step(m, &b->walk);
		err = count_event(m, event);
	} while (!err && (event == WALK_LEAF || event == WALK_PAGE || event == WALK_AWAY));
	if (err)
		return err;
	if (event == WALK_WAIT)
		return -EAGAIN;
	b->at++;
	b->step = 0;
	return 0;
}
