/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store gets a second copy of each block, or a third one, and serves meanwhile.
 *
 *   one copy --------meta_protect(2)--> converts --each block has two------> two copies
 *   one copy or two --meta_protect(3)--> converts --each block has three----> three copies
 *                                       (goes on after a mount)
 *
 *   while it converts      is written as                  older blocks
 *   data, pages            groups of as many zones as     move to such groups, as from a drive that
 *                          it is to have copies           is drained: each older group is lone
 *   the log                so many copies, on so many     are trimmed
 *                          drives
 *   the roots              two copies on two drives; a third one is written before the store
 *                          converts to three (meta_roots_move.c (4))
 *
 * Each arrow is a new set of drives, written as for draining one (meta_drain.c), and takes effect
 * when both superblocks of all drives have it.  If the power is cut meanwhile, a mount takes the
 * new set if any superblock has it.
 *
 *  (1) No wider group is opened before the superblocks of all drives say that the store converts: a
 *      program that does not know such groups refuses the store from then on
 *      [test_meta_protect:power_cuts_lose_nothing,
 *      test_meta_protect_three:power_cuts_lose_nothing].
 *  (2) While it converts it promises what it did before: the superblocks say how many copies each
 *      block has for certain, and a mount goes on without fewer drives than that.  From one copy no
 *      drive may be lost (meta_pair.c (7)): a dead or missing drive is what it is in a store of one
 *      copy [test_meta_protect:no_drive_is_lost_before_it_has_two_copies].  From two copies one may
 *      be, and while the store serves another one on which nothing depends (meta_needed.c)
 *      [test_meta_protect_three:one_drive_may_be_lost_or_missing_while_it_converts].
 *  (3) It has converted when no zone is lone, the copies of the roots share no drive, and each zone
 *      of the log has all copies.  A zone is lone until nothing durable names it (meta_zone.c), so
 *      a mount that goes back to the last roots finds no block with fewer copies either
 *      [test_meta_protect:a_drive_may_be_lost_afterwards,
 *      test_meta_protect_three:any_two_drives_may_be_lost_afterwards].
 *  (4) All live data and the room for spare drives fit on such groups when it begins, and the
 *      reserve is free in them at once [test_meta_protect:a_store_that_is_too_full_is_refused].
 *      From then on less room is kept ahead, and new data leaves the room for copies that are to
 *      come (meta_space.c (6)), so the conversion ends
 *      [test_meta_protect:drives_of_different_sizes_that_are_nearly_full,
 *      test_meta_protect_three:drives_of_different_sizes_that_are_nearly_full].
 *  (5) A drive that dies while the last set is written, when its own superblocks are, is lost as
 *      soon as the set takes effect
 *      [test_meta_protect:drive_that_dies_while_the_end_is_written_is_lost].
 *      If the last set cannot be written, all blocks have their copies, and the store still
 *      converts: it says so, and tries again when asked, or after a mount
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
 *  (9) Folds of a store of two copies have one zone of parity, and those of three have two
 *      (meta_fold.h): a store that may have folds gets no third copies
 *      [test_meta_protect_three:store_with_folds_is_refused].  A store of which some blocks lack
 *      copies for another reason is refused, too, since (2) would promise too much
 *      [test_meta_protect_three:store_that_lacks_copies_is_refused].
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
void meta__protect_begun(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->super.copies > m->copies && b->super.converts == m->copies); /* (2) */
	ASSERT(!m->converts && m->fold == 0);                                  /* (9) */
	ASSERT(m->zones->geo.root_copies >= b->super.copies);
	m->converts = m->copies;
	m->copies = b->super.copies;
	meta__zones_all_lone(m);
	meta__twins_show(m); /* (1) */
	meta__supply_shut(m, META_DRIVES_MAX);
	meta__lend_back(m); /* (6) */
	meta__supply_less(m);
	b->drain.cannot = false;
	b->drain.asked = 0;
	meta__gc_look_drains(m);
}

static int begun(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = meta__drives_write(m);

	ASSERT(b->next.converts && b->next.copies == 2); /* else roots come first */
	ASSERT(!b->drain.drives && !b->drain.roots);
	if (err != -EALREADY)
		return err;
	b->super = b->next;
	meta__protect_begun(m);
	meta__drives_end(m, 0);
	return 0;
}

/* (5): from one copy it could not be lost before. */
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
	const uint32_t before = m->converts;

	ASSERT(before && !m->boot->next.converts);
	ASSERT(before > 1 || !m->losing); /* (2) */
	if (err != -EALREADY)
		return err;
	m->boot->super = m->boot->next;
	m->converts = 0;
	meta__drives_end(m, 0);
	if (before == 1)
		lose_dead(m);
	return 0;
}

/* (4) */
static bool has_room(struct meta *m, uint32_t copies)
{
	ASSERT(m->copies < copies);
	m->zones->missing_blocks = meta__wider_short(m, copies);
	if (m->zones->missing_blocks)
		return false;
	if (meta__wider_free(m, copies) > meta__zone_reserve(m, false))
		return true;
	meta__ckpt_want(m); /* zones in which nothing lives are free when it is asked for again */
	return false;
}

/* Are two copies of a part of the roots on one drive, or in one domain? */
static bool roots_share(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	bool share = false;

	ASSERT(g->root_copies > 1);
	for (uint32_t copy = 1; copy < g->root_copies; copy++)
		share |= meta__geo_roots_share(g, copy, m->mates);
	return share;
}

/* Roots that share a drive or domain must be moved, and a third copy is in zones; more zones than
 * these no superblock can name. */
static bool roots_stay(const struct meta *m, uint32_t copies)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(copies <= META__ROOT_COPIES);
	return g->root_zones > META__ROOT_ZONES_MAX && (copies > g->root_copies || roots_share(m));
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

/* (4), (9) */
static int may_convert(struct meta *m, uint32_t copies)
{
	ASSERT(copies > m->copies && copies <= META__ROOT_COPIES);
	ASSERT(m->mounted && !m->failed);
	if (m->fold)
		return -EINVAL;
	if (meta__domains_serving(m) < copies || m->domains_few)
		return -EPERM;
	if (!all_serve(m) || m->converts || m->zones->lone || (m->copies > 1 && m->zones->nears))
		return -ENODEV;
	if (roots_stay(m, copies))
		return -EFBIG;
	return has_room(m, copies) ? 0 : -ENOSPC;
}

int meta_protect(struct meta *m, uint32_t copies)
{
	struct meta__boot *b = m->boot;
	int err;

	ASSERT(!m->home && copies <= META__ROOT_COPIES);
	if (m->failed)
		return -EROFS;
	if (b->adding || m->stopping || !m->mounted)
		return -EBUSY;
	if (copies < 2 || copies < m->copies)
		return -EINVAL;
	if (m->copies == copies && m->converts && b->drain.cannot) {
		b->drain.cannot = false;
		b->drain_status = 0; /* it was of what failed */
		return 0;
	}
	if (m->copies == copies)
		return -EALREADY;
	err = may_convert(m, copies);
	if (err)
		return err;
	ASSERT(m->zones->lone == 0 && !m->converts);
	b->drain.cannot = false;
	meta__next_set(m);
	b->next.copies = copies;
	b->next.converts = m->copies;
	if (copies > m->zones->geo.root_copies)
		meta__roots_third(m, &b->drain_status);
	else
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
	if (!scheme->fold)
		return meta_protect(m, scheme->copies);
	if (scheme->copies < m->copies || (scheme->copies > 2 && scheme->copies != m->copies))
		return -EINVAL;
	return meta_fold(m, scheme->fold);
}

struct meta_copies meta_copies(const struct meta *m)
{
	struct meta_copies out = {
		.copies = max_u32(m->copies, 1),
		.sure = m->converts ? m->converts : max_u32(m->copies, 1),
		.converts = m->converts > 0,
		.whole = m->zones->lone == 0 && !m->converts,
		.folds = m->fold > 0,
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

/* (3) */
static bool has_converted(const struct meta *m)
{
	ASSERT(m->converts);
	return m->zones->lone == 0 && all_serve(m) && meta__taking(m) >= m->copies &&
	       !roots_share(m) && meta__log_is_copied(m);
}

bool meta__protect_turn(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->adding);
	ASSERT(m->converts == b->super.converts); /* (2): a mount will know it */
	if (!m->converts || b->drain.cannot || !has_converted(m))
		return false;
	meta__next_set(m);
	b->next.converts = 0;
	change(m, NULL, ended);
	return true;
}
