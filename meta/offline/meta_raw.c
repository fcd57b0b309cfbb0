/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The fixed places of an unmounted store, and its pages by their addresses.
 *
 *   superblocks --> geometry --> places of roots, headers of zones --> trees, log
 *
 *  (1) Everything is read by the store's own parsers, each copy separately; a damaged one
 *      is remembered as such, and the next one is read
 *      [test_meta_dump:changed_byte_of_a_superblock_is_named_by_its_field].
 *  (2) A superblock's geometry is accepted only when the present drives have the size that
 *      it states, and the missing ones are not out of proportion to them [fuzz_meta_dump].
 */
#include "meta/engine/meta_pair.h"
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int meta__raw_read(struct meta_raw *r, uint64_t baddr, uint32_t nblocks, void *buf)
{
	uint32_t d = META_BADDR_DRIVE(baddr);
	uint64_t block = META_BADDR_BLOCK(baddr);

	ASSERT(nblocks > 0);
	ASSERT(buf);
	if (d >= META_DRIVES_MAX || r->drive_at[d] == META__RAW_NOWHERE)
		return -ENODEV;
	d = r->drive_at[d];
	ASSERT(d < r->from.count);
	if (block >= r->from.nblocks[d] || nblocks > r->from.nblocks[d] - block)
		return -ENXIO;
	return r->from.read(r->from.arg, d, block, nblocks, buf);
}

/* ---- superblocks --------------------------------------------------------------------- */

static void read_super(struct meta_raw *r, uint32_t d, uint32_t copy)
{
	uint8_t block[META__BLOCK];
	struct meta__raw_super *s = &r->super[d][copy];
	uint64_t at = copy ? r->from.nblocks[d] - 1 : 0;

	ASSERT(d < r->from.count);
	ASSERT(copy < 2);
	s->err = r->from.nblocks[d] == 0 ? -ENXIO : r->from.read(r->from.arg, d, at, 1, block);
	if (s->err)
		(void)snprintf(s->why, sizeof(s->why), "cannot be read: %s", strerror(-s->err));
	else
		s->err = meta__super_parse(block, &s->s, s->why);
	ASSERT(s->err <= 0);
}

/* (2): of the drives that are there, those that say which they are. */
static bool fits_drives(const struct meta_raw *r, const struct meta__super *s)
{
	uint64_t there = 0, all = 0;

	ASSERT(s->ndrives <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < 2 * r->from.count; i++) {
		const struct meta__raw_super *x = &r->super[i / 2][i % 2];
		uint64_t nblocks = r->from.nblocks[i / 2];

		if (x->err || memcmp(x->s.uuid, s->uuid, sizeof(s->uuid)) != 0 ||
		    x->s.drive_nblocks[x->s.drive] != nblocks)
			continue;
		if (x->s.drive >= s->ndrives || s->drive_nblocks[x->s.drive] != nblocks)
			return false;
		there += nblocks;
	}
	for (uint32_t d = 0; d < s->ndrives; d++)
		all += s->drive_state[d] == DRIVE_GONE ? 0 : s->drive_nblocks[d];
	return all / META__RAW_TIMES <= there;
}

/* Returns the superblock of the newest set, of the store of the first whole one that fits. */
static const struct meta__super *newest_super(const struct meta_raw *r)
{
	const struct meta__super *chosen = NULL;

	ASSERT(r->from.count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < 2 * r->from.count; i++) {
		const struct meta__raw_super *s = &r->super[i / 2][i % 2];

		if (s->err || s->s.drive_nblocks[s->s.drive] != r->from.nblocks[i / 2])
			continue; /* (2) */
		if (chosen && (memcmp(chosen->uuid, s->s.uuid, sizeof(chosen->uuid)) != 0 ||
			       !meta__super_counts(&s->s, chosen)))
			continue;
		if (fits_drives(r, &s->s))
			chosen = &s->s;
	}
	return chosen;
}

/* Also assigns drives to their numbers: a drive that is gone is left out. */
static const struct meta__super *choose_super(struct meta_raw *r)
{
	const struct meta__super *chosen = newest_super(r);

	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		r->drive_at[d] = META__RAW_NOWHERE;
	for (uint32_t i = 0; chosen && i < 2 * r->from.count; i++) {
		const struct meta__raw_super *s = &r->super[i / 2][i % 2];

		if (s->err || s->s.drive_nblocks[s->s.drive] != r->from.nblocks[i / 2] ||
		    memcmp(chosen->uuid, s->s.uuid, sizeof(chosen->uuid)) != 0)
			continue;
		if (s->s.drive < chosen->ndrives && r->drive_at[s->s.drive] == META__RAW_NOWHERE &&
		    chosen->drive_state[s->s.drive] != DRIVE_GONE)
			r->drive_at[s->s.drive] = i / 2;
	}
	ASSERT(!chosen || chosen->ndrives > 0);
	return chosen;
}

static bool is_placed(const struct meta_raw *r, uint32_t d)
{
	ASSERT(d < r->from.count);
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++)
		if (r->drive_at[i] == d)
			return true;
	return false;
}

/* A drive with both superblocks lost is the missing one, if it has its size. */
static void place_rest(struct meta_raw *r, const struct meta__super *s)
{
	ASSERT(r->from.count <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < r->from.count; d++)
		for (uint32_t i = 0; i < s->ndrives && !is_placed(r, d); i++)
			if (r->drive_at[i] == META__RAW_NOWHERE &&
			    s->drive_state[i] != DRIVE_GONE &&
			    s->drive_nblocks[i] == r->from.nblocks[d])
				r->drive_at[i] = d;
}

static bool take_super(struct meta_raw *r, const struct meta__super *s)
{
	r->m.conf.ndrives = s->ndrives;
	for (uint32_t d = 0; d < s->ndrives; d++)
		r->m.conf.drive[d].nblocks = s->drive_nblocks[d];
	memcpy(r->m.uuid, s->uuid, sizeof(r->m.uuid));
	r->m.secret = s->secret;
	r->m.nshards = s->nshards;
	r->m.copies = s->copies;
	r->m.fold = s->fold;
	meta__geo_of(&r->geo, s);
	return r->geo.nzones > 0;
}

/* ---- roots, headers ------------------------------------------------------------------- */

static bool is_slot_lost(const struct meta_raw *r, const struct meta__raw_root *root, uint32_t slot)
{
	uint32_t lost = 0;

	ASSERT(slot < 2 && r->geo.root_copies <= META__RAW_COPIES);
	for (uint32_t copy = 0; copy < r->geo.root_copies; copy++)
		lost += root->err[slot][copy] != 0;
	return lost == r->geo.root_copies;
}

static void read_root(struct meta_raw *r, uint32_t shard)
{
	uint8_t block[META__BLOCK];
	struct meta__raw_root *root = &r->root[shard];

	ASSERT(shard < r->geo.nshards);
	root->slot = root->copy = -1;
	for (int i = 0; i < 2 * (int)r->geo.root_copies; i++) {
		int slot = i / (int)r->geo.root_copies, copy = i % (int)r->geo.root_copies;
		int *err = &root->err[slot][copy];
		struct meta__root_seen *seen = &root->seen[slot][copy];
		uint64_t baddr = meta__geo_root(&r->geo, (uint32_t)copy, (uint32_t)slot, shard);

		*err = meta__raw_believes(r, META_BADDR_DRIVE(baddr))
			       ? meta__raw_read(r, baddr, 1, block)
			       : -ENODEV;
		if (!*err)
			*err = meta__root_parse(block, r->m.uuid, seen);
		if (!*err && !meta__root_belongs(seen, shard, (uint32_t)slot))
			*err = -EUCLEAN;
		if (*err)
			continue;
		if (root->slot < 0 || seen->version > root->seen[root->slot][root->copy].version) {
			root->slot = slot;
			root->copy = copy;
		}
	}
	ASSERT((root->slot < 0) == (root->copy < 0));
	root->lost = is_slot_lost(r, root, 0) || is_slot_lost(r, root, 1);
}

static void read_header(struct meta_raw *r, uint32_t zone)
{
	uint8_t block[META__BLOCK];
	struct meta__raw_zone *z = &r->zone[zone];

	ASSERT(zone < r->geo.nzones);
	z->copy = -1;
	for (int copy = 0; copy < 2; copy++) {
		uint64_t baddr = meta__geo_zone_head(&r->geo, zone, (uint32_t)copy);

		z->err[copy] = meta__raw_believes(r, META_BADDR_DRIVE(baddr))
				       ? meta__raw_read(r, baddr, 1, block)
				       : -ENODEV;
		if (!z->err[copy])
			z->err[copy] = meta__zone_parse(block, r->m.uuid, zone, &z->seen[copy]);
		if (!z->err[copy] &&
		    (z->copy < 0 || z->seen[copy].incarnation > z->seen[z->copy].incarnation))
			z->copy = copy;
	}
	ASSERT(z->copy < 2);
}

const struct meta__root_seen *meta__raw_root(const struct meta_raw *r, uint32_t shard)
{
	const struct meta__raw_root *root = &r->root[shard];

	ASSERT(shard < r->geo.nshards);
	return root->slot < 0 ? NULL : &root->seen[root->slot][root->copy];
}

const struct meta__zone_seen *meta__raw_zone(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return r->zone[zone].copy < 0 ? NULL : &r->zone[zone].seen[r->zone[zone].copy];
}

/* ---- pages, zones ---------------------------------------------------------------------- */

const void *meta__raw_page(struct meta_raw *r, const struct meta__page_want *want, const char **why)
{
	uint32_t at = (uint32_t)(want->baddr / META_PAGE_BLOCKS % META__RAW_PAGES);
	struct meta__page_want *is = &r->page_is[at];
	uint8_t *page = r->pages + (size_t)at * META_PAGE_BYTES;

	ASSERT(at < META__RAW_PAGES);
	if (is->baddr != want->baddr || is->gen != want->gen || is->shard != want->shard ||
	    is->level != want->level) {
		*is = *want;
		if (!meta__geo_is_page(&r->geo, want->baddr))
			r->page_why[at] = "no page can be there";
		else
			r->page_why[at] = meta__raw_page_either(r, want, page);
	}
	*why = r->page_why[at];
	return *why ? NULL : page;
}

const uint8_t *meta__raw_zone_bytes(struct meta_raw *r, uint32_t zone)
{
	const uint32_t piece = 64;
	uint64_t baddr = meta__geo_zone_baddr(&r->geo, zone);

	ASSERT(zone < r->geo.nzones);
	if (!r->zone_buf)
		r->zone_buf = aligned_alloc(4096, (size_t)r->geo.zone_blocks * META__BLOCK);
	for (uint32_t at = 0; r->zone_buf && at < r->geo.zone_blocks; at += piece) {
		uint32_t n = min_u32(piece, r->geo.zone_blocks - at);
		uint8_t *to = r->zone_buf + (size_t)at * META__BLOCK;

		if (meta__raw_read(r, baddr + at, n, to) == 0)
			continue;
		for (uint32_t i = 0; i < n; i++, to += META__BLOCK)
			if (meta__raw_read(r, baddr + at + i, 1, to))
				memset(to, 0, META__BLOCK);
	}
	return r->zone_buf;
}

/* ---- open, close ------------------------------------------------------------------------- */

static int read_all(struct meta_raw *r)
{
	const struct meta__super *s;

	for (uint32_t i = 0; i < 2 * r->from.count; i++)
		read_super(r, i / 2, i % 2);
	s = choose_super(r);
	if (!s || !take_super(r, s)) {
		(void)snprintf(r->problem, sizeof(r->problem), "no whole superblock: %.120s",
			       r->super[0][0].err ? r->super[0][0].why
						  : "it says other drives than these");
		return 0;
	}
	place_rest(r, s);
	r->root = calloc(r->geo.nshards, sizeof(*r->root));
	r->zone = calloc(r->geo.nzones, sizeof(*r->zone));
	r->pages = aligned_alloc(4096, (size_t)META__RAW_PAGES * META_PAGE_BYTES);
	if (!r->root || !r->zone || !r->pages)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->geo.nshards; i++)
		read_root(r, i);
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		r->zone[i].copy = -1;
		if (meta__geo_zone_there(&r->geo, i))
			read_header(r, i);
	}
	ASSERT(r->geo.nshards > 0);
	meta__raw_pairs_find(r);
	if (meta__raw_folds_find(r))
		return -ENOMEM;
	return meta__raw_log_scan(r);
}

int meta_raw_open(struct meta_raw **out, const struct meta_raw_drives *drives)
{
	struct meta_raw *r = calloc(1, sizeof(*r));
	int err;

	ASSERT(drives->count <= META_DRIVES_MAX);
	if (!r)
		return -ENOMEM;
	ASSERT(drives->read);
	r->from = *drives;
	for (uint32_t i = 0; i < META__RAW_PAGES; i++) {
		r->page_is[i].baddr = UINT64_MAX;
		r->page_why[i] = "no page can be there"; /* a root may name that place, too */
	}
	err = read_all(r);
	if (err)
		meta_raw_close(r);
	else
		*out = r;
	return err;
}

void meta_raw_close(struct meta_raw *r)
{
	free(r->root);
	free(r->zone);
	free(r->pages);
	free(r->zone_buf);
	free(r->page_taken);
	free(r->log.zone);
	free(r->log.block);
	free(r->log.whole);
	free(r->over);
	free(r->over_bytes);
	free(r);
}

const char *meta_raw_problem(const struct meta_raw *r)
{
	ASSERT(memchr(r->problem, '\0', sizeof(r->problem)));
	return r->problem;
}
