/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Zones: the use of each, and when it may be reused.
 *
 *   FREE --> OPENING --> READY --> OPEN --> CLOSED --> EMPTY --> FROZEN --> LEAVING --> FREE
 *   FREE --> DEALLOCATING --> FREE     meta_deallocate.c
 *
 * A block that dies is dead in the tree at once, in the root only after the next checkpoint, and
 * for an earlier reader only when that reader has ended.  So a zone whose last block has died waits
 * for three things, in this order: a checkpoint that freezes without it, the durable roots of that
 * checkpoint, and the end of every read that was planned before the freeze.
 *
 *  (1) Nothing is written to a zone, or promised, before both copies of its header are durable.
 *  (2) A zone that is EMPTY or later has live == 0 and pending == 0.
 *  (3) epoch_oldest <= epoch < epoch_oldest + META__EPOCHS, and no reader is in an older one.
 *      When the window is full the epoch stands still: zones wait longer than they had to.
 *  (4) A log zone is not part of this: it is free when the log says that roots cover it.
 *  (5) free_total counts zones that may be opened, not free zones on a drive that is being drained,
 *      and not a zone with a copy of the roots, which stays until they are elsewhere.  A zone that
 *      is being deallocated (DEALLOCATING) counts, and is free when its drive has answered.
 *  (6) The log's zones come in groups of the same order, a zone a copy: meta_log.c (7).
 *  (7) No zone of a dead drive is opened.  If the drive died while a header was being written, the
 *      zone is ready without it: a supply drops it at once, the log uses others (meta_log.c (10)).
 */
#include "meta/engine/meta_fold.h"
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t meta__zones_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)META__ZONE_IOS * META__BLOCK;
}

int meta__zones_create(struct meta *m)
{
	struct meta__zones *z = calloc(1, sizeof(*z));
	uint8_t *mem;

	if (!z)
		return -ENOMEM;
	mem = meta__mem_take(m, meta__zones_memory(&m->conf));
	for (uint32_t i = 0; i < META__ZONE_IOS; i++) {
		z->io[i].zone = META__ZONE_NONE;
		z->io[i].x.kind = META__IO_ZONE;
		z->io[i].x.owner = &z->io[i];
		z->io[i].x.io.buf = mem + (size_t)i * META__BLOCK;
		list_init(&z->io[i].x.io.link);
	}
	m->zones = z;
	return 0;
}

void meta__zones_destroy(struct meta *m)
{
	if (!m->zones)
		return;
	meta__twins_free(m);
	free(m->zones->zone);
	free(m->zones);
	m->zones = NULL;
}

static uint32_t drive_of(const struct meta *m, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

struct meta__zone *meta__zone_at(const struct meta *m, uint32_t zone)
{
	ASSERT(zone < m->zones->geo.nzones);
	return &m->zones->zone[zone];
}

/* to: of its drive, free or fresh. */
static void set_free_in(struct meta *m, uint32_t zone, struct list *to)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, zone);
	uint32_t drive = drive_of(m, zone);

	ASSERT(at->kind != META__ZONE_PAGE || z->page_zones > 0);
	ASSERT(at->kind != META__ZONE_DATA || z->data_zones > 0);
	ASSERT(z->free_count[drive] < z->geo.zone_count[drive]); /* (5) */
	ASSERT(at->live == 0 && at->pending == 0);
	ASSERT(!meta__in_fold(at)); /* meta_fold.c (2) */
	if (at->kind == META__ZONE_PAGE)
		z->page_zones--;
	if (at->kind == META__ZONE_DATA)
		z->data_zones--;
	meta__zone_lone(m, zone, 0);
	z->unlikes -= at->unlike;
	z->nears -= at->near;
	at->moved = at->upper = at->unlike = at->near = at->folding = at->bare = false;
	at->kept = 0;
	at->state = ZONE_FREE;
	at->kind = META__ZONE_FREE;
	at->used = 0;
	list_push_back(to, &at->link);
	z->free_count[drive]++;
	z->free_total += meta__drive_serves(m, drive); /* (5) */
}

/* Not while its header is being written: no other write of it may run then. */
static bool is_late(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);

	at->freed = at->mending;
	return at->mending;
}

static void set_free(struct meta *m, uint32_t zone)
{
	if (is_late(m, zone))
		return;
	set_free_in(m, zone, &m->zones->free[drive_of(m, zone)]);
}

static void freed(struct meta *m, uint32_t zone)
{
	struct meta__zones *z = m->zones;
	const uint32_t drive = drive_of(m, zone);

	if (is_late(m, zone))
		return;
	set_free_in(m, zone,
		    meta__deallocate_wanted(m, drive) && !meta__zone_at(m, zone)->bare
			    ? &z->fresh[drive]
			    : &z->free[drive]);
}

/* It was in use: its drive may be told.  So may those of its twins.  With the first zone of a fold
 * the parity is free; the others follow in this turn. */
void meta__zone_freed(struct meta *m, uint32_t zone)
{
	uint32_t twin[META__TWINS_MAX], parity[META_FOLD_PARITIES], parities = 0;
	const uint32_t twins = meta__group_end(m, zone, twin);

	if (meta__in_fold(meta__zone_at(m, zone))) {
		ASSERT(meta__fold_is_empty(m, zone)); /* meta_fold.c (2) */
		parities = meta__fold_end(m, zone, parity);
	}
	for (uint32_t i = 0; i < parities; i++)
		freed(m, parity[i]);
	for (uint32_t i = 0; i < twins; i++)
		freed(m, twin[i]);
	freed(m, zone);
}

static void unset_free(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->state == ZONE_FREE);
	ASSERT(at->live == 0); /* (2) */
	ASSERT(at->pending == 0);
	ASSERT(z->free_count[drive_of(m, zone)] > 0);
	ASSERT(z->free_total > 0 || !meta__drive_serves(m, drive_of(m, zone))); /* (5) */
	list_del(&at->link);
	z->free_count[drive_of(m, zone)]--;
	z->free_total -= meta__drive_serves(m, drive_of(m, zone));
	at->kind = (uint8_t)kind;
	if (kind == META__ZONE_PAGE)
		z->page_zones++;
	if (kind == META__ZONE_DATA)
		z->data_zones++;
	meta__zone_lone(m, zone, meta__narrow(m, zone));
}

int meta__zones_setup(struct meta *m, const struct meta__geo *geo)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *zone = calloc(geo->nzones, sizeof(*zone));

	ASSERT(geo->ndrives >= 1);
	ASSERT(geo->ndrives <= META_DRIVES_MAX);
	if (!zone)
		return -ENOMEM;
	free(z->zone);
	z->zone = zone;
	z->geo = *geo;
	for (uint32_t d = 0; d < geo->ndrives; d++)
		if (meta__twins_join(m, geo, d))
			return -ENOMEM;
	if (m->copies > 1)
		meta__twins_show(m);
	z->free_total = z->coming = z->coming_data = z->log_count = z->page_zones = z->data_zones =
		0;
	z->leaving_us = z->drain_zones = z->lone = z->folds = z->folded = z->unlikes = z->nears = 0;
	memset(z->naming, 0, sizeof(z->naming));
	memset(z->lone_on, 0, sizeof(z->lone_on));
	memset(z->lone_by, 0, sizeof(z->lone_by));
	z->given_blocks = z->claim = z->deaths = z->live_pages = z->live_blocks = z->log_order =
		z->log_oldest = 0;
	meta__log_no_copies(z->log_ready);
	z->log_opening = 0;
	z->counted = false;
	z->epoch = z->epoch_oldest = 1;
	z->wear_least_zones = 0;
	memset(&z->marks, 0, sizeof(z->marks));
	memset(z->readers, 0, sizeof(z->readers));
	z->dirty_pages_max = meta__cache_dirty_max(&m->conf);
	list_init(&z->empty);
	list_init(&z->frozen);
	list_init(&z->leaving);
	meta__deallocate_init(m);
	for (uint32_t d = 0; d < geo->ndrives; d++) {
		list_init(&z->free[d]);
		z->free_count[d] = 0;
		z->gone |= (uint64_t)(geo->state[d] == DRIVE_GONE) << d;
	}
	for (uint32_t i = 0; i < geo->nzones; i++) {
		list_init(&zone[i].link);
		if (meta__geo_zone_there(geo, i))
			set_free(m, i);
		else
			zone[i].state = ZONE_GONE;
		if (meta__geo_zone_roots(geo, i))
			meta__zone_use(m, i, META__ZONE_ROOT);
	}
	meta__supply_init(m);
	return 0;
}

/* A zone that is on a list is found there by its own address. */
static void zone_moved(struct meta__zone *to, const struct meta__zone *from)
{
	*to = *from;
	if (from->link.next == &from->link) {
		list_init(&to->link);
		return;
	}
	to->link.prev->next = &to->link;
	to->link.next->prev = &to->link;
}

int meta__zones_grow(struct meta *m, const struct meta__geo *geo)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *zone = calloc(geo->nzones, sizeof(*zone));

	if (!zone)
		return -ENOMEM;
	ASSERT(geo->nzones >= z->geo.nzones);
	for (uint32_t i = 0; i < z->geo.nzones; i++)
		zone_moved(&zone[i], &z->zone[i]);
	free(z->zone);
	z->zone = zone;
	return meta__twins_join(m, geo, geo->ndrives - 1);
}

void meta__zones_join(struct meta *m, const struct meta__geo *geo)
{
	struct meta__zones *z = m->zones;
	uint32_t d = geo->ndrives - 1, first = z->geo.nzones;
	const uint64_t log_bytes_max = z->geo.log_bytes_max;
	const uint32_t log_zones_max = z->geo.log_zones_max;

	ASSERT(d == z->geo.ndrives && geo->zone_base[d] == first);
	z->geo = *geo; /* the log may be larger than a mount would let it be by now */
	z->geo.log_bytes_max = max_u64(z->geo.log_bytes_max, log_bytes_max);
	z->geo.log_zones_max = max_u32(z->geo.log_zones_max, log_zones_max);
	z->wear_least_zones = 0; /* its zones were never used: find the least again */
	list_init(&z->free[d]);
	z->free_count[d] = 0;
	ASSERT(z->twins.drive[d].twin); /* meta__zones_grow() */
	meta__supply_join(m, d);
	for (uint32_t i = first; i < geo->nzones; i++) {
		list_init(&z->zone[i].link);
		set_free(m, i);
	}
	if (meta__in_pairs(m))
		meta__supply_shut(m, META_DRIVES_MAX); /* those that were opened alone */
	meta__lend_geo(m);
}

void meta__drive_state_set(struct meta *m, uint32_t drive, enum meta__drive_state state)
{
	struct meta__zones *z = m->zones;
	const uint32_t first = z->geo.zone_base[drive], count = z->geo.zone_count[drive];
	const bool served = meta__drive_serves(m, drive);
	const uint32_t free_now =
		z->free_count[drive] + (z->deallocation[drive].zone != META__ZONE_NONE);
	uint32_t coming = 0;

	ASSERT(drive < z->geo.ndrives);
	ASSERT(first + count <= z->geo.nzones);
	for (uint32_t i = first; i < first + count; i++)
		coming += z->zone[i].state == ZONE_EMPTY || z->zone[i].state == ZONE_FROZEN;
	z->geo.state[drive] = (uint8_t)state;
	meta__lend_back(m);
	if (served != meta__drive_serves(m, drive)) {
		z->coming += served ? -coming : coming;
		z->leaving_us += served ? coming : -coming;
		z->geo.zones_serving += served ? -count : count;
		z->geo.drives_serving += served ? -1 : 1;
		z->free_total += served ? -free_now : free_now;
	}
	z->drain_zones = 0;
	if (state == DRIVE_DRAINS || state == DRIVE_LOST)
		meta__supply_shut(m, drive);
	if (state == DRIVE_DRAINS)
		meta__zones_drain(m, drive);
	if (state != DRIVE_GONE)
		return;
	ASSERT(z->free_count[drive] == count);
	z->gone |= 1ull << drive;
	meta__deallocate_forget(m, drive);
	while (list_pop_front(&z->free[drive]))
		;
	z->free_count[drive] = 0;
	for (uint32_t i = first; i < first + count; i++)
		z->zone[i].state = ZONE_GONE;
	z->wear_least_zones = 0;
}

/* Does what is in the zone move because of these drives?  While fewer drives take zones than a
 * block has copies, a group may still have as many as a new one would: meta_groups.c (2). */
static bool moves(const struct meta *m, uint32_t first, uint64_t drives)
{
	const uint64_t of = meta__drives_of(m, first);

	ASSERT(of & drives);
	if (m->zones->geo.state[__builtin_ctzll(of & drives)] != DRIVE_LOST ||
	    meta__in_fold(meta__zone_at(m, first)))
		return true;
	return meta__drives_read(m, of) < meta__width(m) || meta__zone_at(m, first)->near;
}

/* Adds the live blocks and pages in the zones of one of these drives, and in their folds; of a
 * group or fold with several of them on the first only. */
static void add_live(const struct meta *m, uint32_t drive, uint64_t drives, uint64_t *blocks,
		     uint64_t *pages)
{
	const struct meta__zones *z = m->zones;

	ASSERT(drive < z->geo.ndrives && drives >> drive & 1);
	for (uint32_t i = 0; i < z->geo.zone_count[drive]; i++) {
		const uint32_t first = meta__pair_first(m, z->geo.zone_base[drive] + i);
		const struct meta__zone *at = &z->zone[first];

		if (at->kind != META__ZONE_DATA && at->kind != META__ZONE_PAGE)
			continue;
		if ((uint32_t)__builtin_ctzll(meta__drives_of(m, first) & drives) != drive ||
		    !moves(m, first, drives))
			continue;
		if (at->kind == META__ZONE_DATA)
			*blocks += meta__in_fold(at) ? meta__fold_live(m, first) : at->live;
		else
			*pages += div_up(at->live, META_PAGE_BLOCKS);
	}
}

/* Several may be lost. */
void meta__zones_drain(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	const uint8_t state = z->geo.state[drive];
	uint64_t blocks = 0, pages = 0, drives = 1ull << drive;

	ASSERT(drive < z->geo.ndrives);
	z->drain_zones = 0;
	if (state == DRIVE_LOST && !meta__in_pairs(m))
		return; /* no other drive has room for further copies: nothing moves */
	for (uint32_t d = 0; state == DRIVE_LOST && d < z->geo.ndrives; d++)
		drives |= (uint64_t)(z->geo.state[d] == DRIVE_LOST) << d;
	for (uint64_t left = drives; left; left &= left - 1)
		add_live(m, (uint32_t)__builtin_ctzll(left), drives, &blocks, &pages);
	z->drain_zones =
		(uint32_t)(div_up(blocks, z->geo.zone_end - 1) + div_up(pages, z->geo.zone_pages));
}

/* The roots are in these zones now, and no longer in those before. */
void meta__zones_root(struct meta *m, const struct meta__geo *geo)
{
	struct meta__zones *z = m->zones;
	const struct meta__geo was = z->geo;

	z->geo.root_copies = geo->root_copies;
	memcpy(z->geo.root_zone, geo->root_zone, sizeof(z->geo.root_zone));
	for (uint32_t i = 0; i < META__ROOT_COPIES * META__ROOT_ZONES_MAX; i++) {
		uint32_t zone = was.root_zone[i % META__ROOT_COPIES][i / META__ROOT_COPIES];

		if (zone && !meta__geo_zone_roots(&z->geo, zone - 1))
			set_free(m, zone - 1);
	}
}

void meta__zone_give_root(struct meta *m, uint32_t zone)
{
	ASSERT(meta__zone_at(m, zone)->kind == META__ZONE_ROOT);
	set_free(m, zone);
}

bool meta__drive_takes(const struct meta *m, uint32_t drive)
{
	return meta__drive_serves(m, drive) && !(m->dead >> drive & 1);
}

bool meta__drive_serves(const struct meta *m, uint32_t drive)
{
	DASSERT(drive < META_DRIVES_MAX);
	return m->zones->geo.state[drive] == DRIVE_SERVES;
}

/* ---- names of zones -------------------------------------------------------- */

uint32_t meta__zone_of(const struct meta *m, uint64_t baddr)
{
	return meta__geo_zone_of(&m->zones->geo, baddr);
}

struct meta_key meta__zone_key(const struct meta *m, uint32_t zone)
{
	uint32_t drive = drive_of(m, zone);

	return meta__key(0, 0, META__CLASS_ZONE, drive, META__KIND_NONE,
			 zone - m->zones->geo.zone_base[drive]);
}

/* META__ZONE_NONE: there is no such zone. */
uint32_t meta__zone_of_key(const struct meta *m, const struct meta_key *key)
{
	const struct meta__geo *g = &m->zones->geo;
	uint64_t drive = meta__key_uniq(key), index = meta__key_index(key);

	if (meta__key_dir(key) || meta__key_hash(key) || meta__key_class(key) != META__CLASS_ZONE)
		return META__ZONE_NONE;
	if (meta__key_kind(key) != META__KIND_NONE)
		return META__ZONE_NONE;
	if (drive >= g->ndrives || index >= g->zone_count[drive])
		return META__ZONE_NONE;
	return g->zone_base[drive] + (uint32_t)index;
}

/* ---- life and death -------------------------------------------------------- */

static void use(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	struct meta__zone *at = meta__zone_at(m, zone);

	unset_free(m, zone, kind);
	at->state = ZONE_CLOSED;
	at->used = m->zones->geo.zone_end;
}

/* All its zones, or, if this one is of another kind by now, only this one. */
static void use_fold(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	uint32_t at = zone, parity_of[META_FOLD_PARITIES];

	ASSERT(!m->mounted);
	if (kind != META__ZONE_DATA) {
		(void)meta__fold_end(m, zone, parity_of);
		use(m, zone, kind);
		return;
	}
	do {
		const bool parity = meta__zone_at(m, at)->parity > 0;

		use(m, at, parity ? META__ZONE_PARITY : META__ZONE_DATA);
		m->boot->head_kind[at] = parity ? META__ZONE_PARITY : META__ZONE_DATA;
		at = meta__zone_at(m, at)->next - 1;
	} while (at != zone);
}

void meta__zone_use(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	uint32_t twin[META__TWINS_MAX];
	const uint32_t twins = meta__group_others(m, zone, twin);

	ASSERT(kind != META__ZONE_TWIN && kind != META__ZONE_PARITY);
	if (meta__in_fold(meta__zone_at(m, zone))) {
		use_fold(m, zone, kind);
		return;
	}
	use(m, zone, kind);
	for (uint32_t i = 0; i < twins; i++)
		use(m, twin[i], META__ZONE_TWIN);
}

void meta__zone_coming(struct meta *m, uint32_t zone, bool more)
{
	struct meta__zones *z = m->zones;

	ASSERT(more || (meta__drive_serves(m, drive_of(m, zone)) ? z->coming : z->leaving_us) > 0);
	*(meta__drive_serves(m, drive_of(m, zone)) ? &z->coming : &z->leaving_us) += more ? 1 : -1;
}

static void revive_one(struct meta *m, struct meta__zone *at)
{
	if (at->state != ZONE_EMPTY && at->state != ZONE_FROZEN && at->state != ZONE_LEAVING)
		return;
	if (at->state != ZONE_LEAVING)
		meta__zone_coming(m, (uint32_t)(at - m->zones->zone), false);
	list_del(&at->link);
	at->state = ZONE_CLOSED;
}

/* Back from EMPTY or FROZEN, when replay adds live blocks to it; with all of its fold. */
static void revive(struct meta *m, struct meta__zone *at)
{
	const uint32_t zone = (uint32_t)(at - m->zones->zone);
	uint32_t member[META_FOLD_MAX], count = 0;

	DASSERT(at->live || at->pending);
	revive_one(m, at);
	if (unlikely(meta__in_fold(at)))
		count = meta__fold_members(m, zone, member);
	for (uint32_t i = 0; i < count; i++)
		revive_one(m, meta__zone_at(m, member[i]));
}

/* Nothing lives there any more: it waits for a checkpoint. */
static void settle_one(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->kind == META__ZONE_PAGE || at->kind == META__ZONE_DATA ||
	       at->kind == META__ZONE_TWIN);                           /* (4) */
	ASSERT(at->state == ZONE_CLOSED && !at->live && !at->pending); /* (2) */
	at->state = ZONE_EMPTY;
	at->victim = false;
	m->zones->coming_data +=
		at->kind != META__ZONE_PAGE && meta__drive_serves(m, drive_of(m, zone));
	list_push_back(&m->zones->empty, &at->link);
	meta__zone_coming(m, zone, true);
}

void meta__zone_settle(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);
	uint32_t member[META_FOLD_MAX], count;

	if (at->state != ZONE_CLOSED || at->live || at->pending || at->kind == META__ZONE_LOG)
		return;
	if (at->kind == META__ZONE_ROOT || at->folding) /* (5); meta_folder.c (4) */
		return;
	if (likely(!meta__in_fold(at))) {
		settle_one(m, zone);
		return;
	}
	if (!meta__fold_is_empty(m, zone)) /* meta_fold.c (2) */
		return;
	count = meta__fold_members(m, zone, member);
	for (uint32_t i = 0; i < count; i++)
		settle_one(m, member[i]);
}

void meta__zone_untwin(struct meta *m, uint32_t first)
{
	uint32_t twin[META__TWINS_MAX];
	const uint32_t twins = meta__group_end(m, first, twin);

	ASSERT(twins > 0 && meta__in_fold(meta__zone_at(m, first))); /* meta_fold.c (1) */
	for (uint32_t i = 0; i < twins; i++) {
		struct meta__zone *at = meta__zone_at(m, twin[i]);

		ASSERT(at->state == ZONE_CLOSED && at->kind == META__ZONE_TWIN);
		at->bare = true; /* meta_fold.c (3) */
		settle_one(m, twin[i]);
	}
}

void meta__zone_close(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->used >= 1);
	ASSERT(at->used <= m->zones->geo.zone_end);
	ASSERT(at->state == ZONE_OPEN);
	at->state = ZONE_CLOSED;
	at->closed = m->zones->epoch;
	meta__zone_settle(m, zone);
}

/* More may die than lived only when records on a drive are wrong: said, not asserted. */
static uint32_t live_moved(struct meta *m, uint32_t zone, int64_t delta)
{
	struct meta__zone *at = meta__zone_at(m, zone);
	int64_t live = (int64_t)at->live + delta;
	uint32_t before = at->live;

	if (live < 0 || live > m->zones->geo.zone_blocks) {
		meta__error(m, "zone %u: %lld live blocks", zone, (long long)live);
		live = live < 0 ? 0 : m->zones->geo.zone_blocks;
	}
	at->live = (uint32_t)live;
	return before;
}

void meta__zone_live_add(struct meta *m, uint32_t zone, int64_t delta)
{
	struct meta__zone *at = meta__zone_at(m, zone);
	uint32_t before = live_moved(m, zone, delta);

	m->zones->live_blocks += (uint64_t)at->live - before;
	if (at->live < before)
		m->zones->deaths += before - at->live;
	if (at->live)
		revive(m, at);
	else
		meta__zone_settle(m, zone);
	DASSERT(at->live <= m->zones->geo.zone_blocks);
}

void meta__zone_page_add(struct meta *m, uint64_t baddr)
{
	uint32_t zone = meta__zone_of(m, baddr);

	if (meta__zone_at(m, zone)->state == ZONE_FREE)
		meta__zone_use(m, zone, META__ZONE_PAGE);
	(void)live_moved(m, zone, META_PAGE_BLOCKS);
	m->zones->live_pages++;
}

void meta__page_dead(struct meta *m, uint64_t baddr)
{
	uint32_t zone = meta__zone_of(m, baddr);

	ASSERT(zone != META__ZONE_NONE);
	ASSERT(m->zones->live_pages > 0);
	(void)live_moved(m, zone, -(int64_t)META_PAGE_BLOCKS);
	meta__zone_at(m, zone)->stuck = false;
	m->zones->live_pages--;
	meta__zone_settle(m, zone);
}

void meta__zone_hold(struct meta *m, uint32_t zone, bool hold)
{
	struct meta__zone *at = meta__zone_at(m, zone);

	if (hold) {
		if (at->state == ZONE_FREE)
			meta__zone_use(m, zone, META__ZONE_DATA);
		at->pending = 1;
		revive(m, at);
	} else if (at->state == ZONE_CLOSED && at->kind == META__ZONE_DATA) {
		at->pending = 0;
		meta__zone_settle(m, zone);
	}
}

/* ---- opening: the header, durable before use (1) --------------------------- */

struct meta__zone_io *meta__zone_io_idle(struct meta__zones *z)
{
	for (uint32_t i = 0; i < META__ZONE_IOS; i++)
		if (z->io[i].zone == META__ZONE_NONE)
			return &z->io[i];
	return NULL;
}

/* One of the log's next zones is there already, or its header is under way. */
static bool log_has_begun(const struct meta__zones *z)
{
	return z->log_opening > 0 || z->log_ready[0] != META__ZONE_NONE;
}

/* One copy after the other: a crash leaves one whole. */
static void write_head(struct meta *m, struct meta__zone_io *io)
{
	uint32_t copy = meta__zone_at(m, io->zone)->head_first ^ (uint32_t)io->second;
	uint64_t baddr = meta__geo_zone_head(&m->zones->geo, io->zone, copy);

	ASSERT(meta__zone_at(m, io->zone)->state == ZONE_OPENING);
	io->x.io.op = META_IO_WRITE;
	io->x.io.fua = true;
	io->x.io.drive = META_BADDR_DRIVE(baddr);
	io->x.io.block = META_BADDR_BLOCK(baddr);
	io->x.io.nblocks = 1;
	meta__io_want(m, &io->x);
}

/* One zone, of the group of this first one or alone; there is an idle I/O. */
static void open_one(struct meta *m, uint32_t first, uint32_t zone, enum meta__zone_kind kind)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, zone);
	struct meta__zone_io *io = meta__zone_io_idle(z);
	struct meta__zone_seen head = { .zone = zone, .kind = kind, .epoch = m->epoch };

	ASSERT(io);
	ASSERT(meta__drive_takes(m, drive_of(m, zone))); /* (7) */
	unset_free(m, zone, kind);
	at->state = ZONE_OPENING;
	if (at->incarnation == z->wear_least && z->wear_least_zones)
		z->wear_least_zones--;
	meta__group_head(m, first, &head);
	head.incarnation = ++at->incarnation;
	z->wear_most = max_u64(z->wear_most, at->incarnation);
	if (kind == META__ZONE_LOG) {
		z->log_order += !log_has_begun(z); /* (6) */
		head.order = z->log_order;
		head.oldest_order = z->log_oldest;
		at->order = head.order;
		z->log_opening++;
		z->log_count++;
	}
	if (meta__mark_drive(m, zone) < META_DRIVES_MAX)
		head.mark = z->marks.of[drive_of(m, zone)];
	meta__zone_build(&head, m->uuid, io->x.io.buf);
	io->zone = zone;
	io->second = false;
	write_head(m, io);
}

/* For data a group is as wide as it can be now; pages take what is left. */
bool meta__zone_open(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	struct meta__zones *z = m->zones;
	const bool grouped = kind == META__ZONE_PAGE || kind == META__ZONE_DATA;
	const uint32_t width = grouped ? meta__width(m) : 1;
	uint32_t of[META_COPIES_MAX] = { zone }, count = 1;

	if (unlikely(width > 1))
		count += meta__zone_pick_twins(m, zone, width - 1, of + 1);
	if (meta__zone_ios_idle(z) < count)
		return false;
	if (count < width && kind == META__ZONE_DATA)
		return false;
	meta__zone_at(m, zone)->heads = count;
	if (count > 1)
		meta__group_make(m, of, count, z->pair_last + 1);
	for (uint32_t i = 1; i < count; i++)
		open_one(m, zone, of[i], META__ZONE_TWIN);
	open_one(m, zone, zone, kind);
	return true;
}

/* The header of a zone is durable, or its drive is dead.  With the last one a group is ready. */
static void opened(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);
	const uint32_t first = meta__pair_first(m, zone);

	ASSERT(at->state == ZONE_OPENING);
	if (at->kind == META__ZONE_TWIN) {
		at->state = ZONE_CLOSED;
		at->used = m->zones->geo.zone_end;
	}
	at = meta__zone_at(m, first);
	ASSERT(at->heads > 0 && at->state == ZONE_OPENING);
	if (--at->heads > 0)
		return;
	at->state = ZONE_READY;
	at->used = 1;
	meta__supply_ready(m, first);
}

void meta__zone_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__zone_io *io = x->owner;
	struct meta__zone *at = meta__zone_at(m, io->zone);
	uint32_t zone = io->zone;

	if (io->mends) {
		meta__zone_mend_done(m, io);
		return;
	}
	ASSERT(at->state == ZONE_OPENING);
	ASSERT(x->kind == META__IO_ZONE);
	ASSERT(at->live == 0);
	ASSERT(at->pending == 0);
	if (!x->io.status && !io->second) {
		io->second = true;
		write_head(m, io);
		return;
	}
	io->zone = META__ZONE_NONE;
	if (x->io.status && !x->io.gone && !meta__drive_lose(m, x->io.drive)) {
		meta__error(m, "zone %u: its header could not be written (error %d)", zone,
			    -x->io.status);
		meta__fail(m);
		return; /* stays OPENING: it is never written */
	}
	at->head_lost = x->io.status; /* (7) */
	at->mend_failed = false;
	opened(m, zone);
}
