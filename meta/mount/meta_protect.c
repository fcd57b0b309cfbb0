/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of one copy gets a second copy of each block, and serves meanwhile.
 *
 *   one copy --meta_protect()--> converts --no block has only one copy--> two copies
 *                                (goes on after a mount)
 *
 *   while it converts      is written as                  older blocks
 *   data, pages            pairs of zones (meta_pair.c)   move to pairs, as from a drive that is
 *                                                         drained: each single zone is lone
 *   the log, the roots     two copies on two drives, as in every store of two drives
 *
 * Each arrow is a new set of drives, written as for draining one (meta_drain.c), and takes effect
 * when both superblocks of all drives have it.  If the power is cut meanwhile, a mount takes the
 * new set if any superblock has it.
 *
 *  (1) No pair is opened before the superblocks of all drives say that the store converts: a
 *      program that does not know pairs refuses the store from then on
 *      [test_meta_protect:power_cuts_lose_nothing].
 *  (2) While it converts no drive may be lost (meta_pair.c (7)): a dead or missing drive is what it
 *      is in a store of one copy [test_meta_protect:no_drive_is_lost_before_it_has_two_copies].
 *  (3) It has converted when no zone is lone, the copies of the roots share no drive, and each zone
 *      of the log has its copy.  A zone is lone until nothing durable names it (meta_zone.c), so a
 *      mount that goes back to the last roots finds no block with one copy either
 *      [test_meta_protect:a_drive_may_be_lost_afterwards].
 *  (4) All live data and the room for spare drives fit on the pairs when it begins, and the reserve
 *      is free in pairs at once [test_meta_protect:a_store_that_is_too_full_is_refused].
 *      From then on half as much room is kept ahead, and new data leaves the room for second copies
 *      (meta_space.c (6)), so the conversion ends
 *      [test_meta_protect:drives_of_different_sizes_that_are_nearly_full].
 *  (5) A drive that dies while the last set is written, when its own superblocks are, is lost as
 *      soon as the set takes effect
 *      [test_meta_protect:drive_that_dies_while_the_end_is_written_is_lost].
 *      If the last set cannot be written, all blocks have two copies, and the store still converts:
 *      it says so, and tries again when asked, or after a mount
 *      [test_meta_protect:end_that_cannot_be_written_is_told_and_tried_again].
 *  (6) Unused blanks of borrowers lie in lone zones, and come back when it begins
 *      [test_meta_lend:a_store_gets_second_copies_though_shards_are_lent].
 *  (7) No fold is made before the superblocks of all drives say that there may be some: a program
 *      that does not know them refuses the store from then on
 *      [test_meta_fold:a_store_of_two_copies_is_folded_from_now_on].
 *  (8) Folds of another width are refused if they leave fewer places than there are live blocks.
 *      While the superblocks are written new data leaves the room that such folds take.  So all
 *      files can be replaced when they take effect
 *      [test_meta_fold_full:all_can_be_replaced_when_other_folds_are_accepted].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_log.h"
#include "meta/engine/meta_pair.h"
#include "meta/meta_protect.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

#define BRIM_ZONES 4u /* (8): some are not quite full, and the index takes a few more */

/* Writes `next`, and calls `done` when all superblocks have it. */
static void change(struct meta *m, int *status, int (*stage)(struct meta *m))
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->adding);
	ASSERT(m->mounted && !m->failed);
	ASSERT(b->next.copies > 1);
	b->write_from = 0;
	b->write_both = false;
	b->drain.drives = 0;
	b->drain.to = DRIVE_SERVES;
	b->drain.roots = false;
	meta__drives_begin(m, status, stage);
}

/* All zones in use are lone now, and none of them is filled further. */
static int begun(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = meta__drives_write(m);

	ASSERT(b->next.converts && m->copies == 1);
	ASSERT(!b->drain.drives && !b->drain.roots);
	if (err != -EALREADY)
		return err;
	b->super = b->next;
	m->copies = b->super.copies;
	m->converts = true;
	meta__zones_all_lone(m);
	meta__twins_show(m); /* (1) */
	meta__supply_shut(m, META_DRIVES_MAX);
	meta__lend_back(m); /* (6) */
	meta__supply_less(m);
	b->drain.cannot = false;
	b->drain.asked = 0;
	meta__gc_look_drains(m);
	meta__drives_end(m, 0);
	return 0;
}

/* (5) */
static void lose_dead(struct meta *m)
{
	const uint64_t dead = m->dead;
	const uint32_t d = dead ? (uint32_t)__builtin_ctzll(dead) : META_DRIVES_MAX;

	ASSERT(meta__may_lose(m) && !m->losing);
	if (likely(!dead))
		return;
	m->dead &= ~(1ull << d);
	if (!meta__drive_lose(m, d)) { /* another one is dead, too */
		m->dead = dead;
		meta__error(m, "drive %u failed, and another one before it was lost", d);
		meta__fail(m);
	}
	ASSERT(m->dead == dead);
}

static int ended(struct meta *m)
{
	int err = meta__drives_write(m);

	ASSERT(m->converts && !m->boot->next.converts);
	ASSERT(m->copies == 2 && !m->losing); /* (2) */
	if (err != -EALREADY)
		return err;
	m->boot->super = m->boot->next;
	m->converts = false;
	meta__drives_end(m, 0);
	lose_dead(m);
	return 0;
}

/* (4) */
static bool has_room(struct meta *m)
{
	ASSERT(m->copies == 1);
	m->zones->missing_blocks = meta__pairs_short(m);
	if (m->zones->missing_blocks)
		return false;
	if (meta__pairs_free(m) > meta__zone_reserve(m, false))
		return true;
	meta__ckpt_want(m); /* zones in which nothing lives are free when it is asked for again */
	return false;
}

/* Roots that share a drive or domain must move; more zones than these no superblock can name. */
static bool roots_stay(const struct meta__geo *g, const uint64_t *mates)
{
	bool share = false;

	ASSERT(g->root_zones > 0);
	ASSERT(g->root_copies == 2); /* of a store of one copy */
	for (uint32_t d = 0; d < g->ndrives; d++)
		for (uint64_t left = mates[d]; left; left &= left - 1)
			share |= meta__geo_roots_on(g, 0, d) &&
				 meta__geo_roots_on(g, 1, (uint32_t)__builtin_ctzll(left));
	return share && g->root_zones > META__ROOT_ZONES_MAX;
}

static bool all_serve(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(g->drives_serving > 0);
	for (uint32_t d = 0; d < g->ndrives; d++)
		if (g->state[d] != DRIVE_GONE && !meta__drive_takes(m, d))
			return false;
	return true;
}

int meta_protect(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(!m->home);
	if (m->failed)
		return -EROFS;
	if (b->adding || m->stopping || !m->mounted)
		return -EBUSY;
	if (m->copies > 1 && m->converts && b->drain.cannot) {
		b->drain.cannot = false;
		b->drain_status = 0; /* it was of what failed */
		return 0;
	}
	if (m->copies > 1)
		return -EALREADY;
	if (meta__domains_serving(m) < 2 || m->domains_few)
		return -EPERM;
	if (!all_serve(m))
		return -ENODEV;
	if (roots_stay(g, m->mates))
		return -EFBIG;
	if (!has_room(m))
		return -ENOSPC;
	ASSERT(m->zones->lone == 0 && !m->converts);
	meta__next_set(m);
	b->next.copies = 2;
	b->next.converts = true;
	change(m, &b->drain_status, begun);
	return 0;
}

/* (8) */
static bool fold_has_room(struct meta *m, uint32_t zones)
{
	const uint64_t margin = BRIM_ZONES * (uint64_t)(m->zones->geo.zone_end - 1);
	const uint64_t has = m->zones->live_blocks + m->zones->promised + margin;
	const uint64_t before = meta__data_places(m);
	const uint32_t fold = m->fold;
	uint64_t after;

	m->fold = zones; /* as if */
	after = meta__data_places(m);
	m->fold = fold;
	ASSERT(m->zones->yielded == 0); /* no change is under way */
	m->zones->missing_blocks = 0;
	if (after >= before)
		return true;
	m->zones->missing_blocks = has > after ? has - after : 0;
	m->zones->yielded = has > after ? 0 : before - after;
	return has <= after;
}

/* (7) */
static int folds(struct meta *m)
{
	int err = meta__drives_write(m);

	ASSERT(m->copies > 1 && !m->converts);
	ASSERT(m->boot->next.fold >= META__FOLD_MIN);
	if (err != -EALREADY)
		return err;
	m->boot->super = m->boot->next;
	m->fold = m->boot->super.fold;
	meta__drives_end(m, 0);
	return 0;
}

int meta_fold(struct meta *m, uint32_t zones)
{
	struct meta__boot *b = m->boot;

	ASSERT(!m->home);
	if (m->failed)
		return -EROFS;
	if (b->adding || m->stopping || !m->mounted)
		return -EBUSY;
	if (zones < META__FOLD_MIN || zones > META_FOLD_MAX)
		return -EINVAL;
	if (m->fold == zones)
		return -EALREADY;
	if (m->copies < 2 || m->converts ||
	    meta__domains_serving(m) < zones + m->copies - 1) /* one of parity for each loss */
		return -EPERM;
	if (!fold_has_room(m, zones))
		return -ENOSPC;
	ASSERT(b->super.copies == m->copies && !b->super.converts);
	meta__next_set(m);
	b->next.fold = zones;
	change(m, &b->drain_status, folds);
	return 0;
}

bool meta_scheme_parse(const char *text, size_t len, struct meta_scheme *out)
{
	uint32_t zones = 0;
	size_t i = 0;

	ASSERT(text || len == 0);
	*out = (struct meta_scheme){ .copies = 2 };
	if (len == strlen("mirror") && memcmp(text, "mirror", len) == 0)
		return true;
	if (len == strlen("none") && memcmp(text, "none", len) == 0) {
		out->copies = 1;
		return true;
	}
	for (; i < len && i < 2 && text[i] >= '0' && text[i] <= '9'; i++)
		zones = zones * 10 + (uint32_t)(text[i] - '0');
	if (len - i != 2 || text[i] != '+' || (text[i + 1] != '1' && text[i + 1] != '2'))
		return false;
	out->copies = text[i + 1] == '1' ? 2 : 3; /* as many may be lost, and one is left */
	out->fold = zones > 1 ? zones : 0;
	return zones >= 1 && zones <= META_FOLD_MAX && text[0] != '0';
}

int meta_scheme_begin(struct meta *m, const struct meta_scheme *scheme)
{
	ASSERT(scheme->copies > 0 && scheme->copies <= META__ROOT_COPIES);
	if (scheme->copies < 2)
		return -EINVAL;
	if (scheme->copies > 2 && m->copies != scheme->copies)
		return -EINVAL;
	if (scheme->fold)
		return scheme->copies < m->copies ? -EINVAL : meta_fold(m, scheme->fold);
	if (scheme->copies > 2)
		return -EALREADY;
	return m->copies > 2 ? -EINVAL : meta_protect(m);
}

struct meta_copies meta_copies(const struct meta *m)
{
	struct meta_copies out = {
		.copies = max_u32(m->copies, 1),
		.converts = m->converts,
		.cannot = m->converts && m->boot->drain.cannot,
		.few = m->copies > 1 && m->domains_few,
		.near = m->zones->nears > 0,
		.domains = meta__domains_count(m),
	};

	ASSERT(!m->home && !(m->losing & ~m->dead));
	for (uint64_t left = m->copies > 1 ? m->dead : 0; unlikely(left); left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		if (d < m->zones->geo.ndrives && m->zones->geo.state[d] == DRIVE_LOST)
			out.lost |= 1ull << d;
	}
	out.lost_domains = meta__domains_in(m, out.lost);
	return out;
}

bool meta__log_is_copied(const struct meta *m)
{
	const struct meta__log *l = m->log;
	const uint32_t copies = meta__log_copies_max(m);

	ASSERT(l->zones_count <= m->zones->geo.log_zones_max);
	if (l->ahead[0] != META__ZONE_NONE && meta__log_copies(l->ahead) < copies)
		return false; /* meta_log.c (12) */
	for (uint32_t i = 0; i < l->zones_count; i++)
		if (meta__log_copies(l->zones[i].zone) < copies)
			return false;
	return true;
}

/* (3), but for the roots, which its caller has seen to. */
static bool has_converted(const struct meta *m)
{
	ASSERT(m->converts);
	return m->zones->lone == 0 && all_serve(m) && meta__log_is_copied(m);
}

bool meta__protect_turn(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->adding);
	ASSERT(!m->converts || b->super.converts); /* (2): a mount will know it */
	if (!m->converts || b->drain.cannot || !has_converted(m))
		return false;
	meta__next_set(m);
	b->next.converts = false;
	change(m, NULL, ended);
	return true;
}
