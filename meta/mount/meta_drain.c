/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Removing a drive from the store while it serves.
 *
 *   SERVES --meta_drive_drain()--> DRAINS ------ nothing is there any more ------> GONE
 *      ^                             |            (by itself)                (for ever)
 *      '------meta_drive_undrain()---'
 *
 *   of a drive that DRAINS   leaves by                                     until
 *   data                     collection, a round of its zones (meta_gc.c)  its zones are free
 *   pages                    being made dirty (meta_collect.c)             ... behind checkpoints
 *   log                      the next block: another zone (meta_log.c)     ... behind checkpoints
 *   a copy of the roots      being read, and written to zones of others (meta_roots_move.c)
 *
 * Each arrow is a new set of drives, written as for adding one (meta_drives.c), and takes effect
 * when both superblocks of all drives have it.
 *
 *   the power is cut     all superblocks have   a mount with all drives     ... all but this one
 *   before the first     the old set            the old set                 refused: it is missing
 *   during them          some the new one       the new one                 the new one, if it
 *                                                                           says GONE
 *   after the last       the new set            the new one                 the same
 *
 * Unlike for adding a drive, one whole copy of the new set is enough for a mount to take it: no
 * mount goes back to an older one.  All copies are written for the sake of the next change: a copy
 * that is torn then leaves its drive the other one, which must not be older than the set in use.
 *
 *  (1) From DRAINS on no zone of it is opened, and its open zones are not filled further.  Blocks
 *      promised there earlier may still be written, and are found like all others
 *      [test_meta_drain:nothing_new_is_put_there_and_it_may_stay_after_all].
 *  (2) It becomes GONE when all its zones are free (durable roots name nothing on it, no log that a
 *      mount would read is on it, and every earlier read has ended) and no copy of the roots is on
 *      it.  So either set is right, and the drive may be removed as soon as any other drive has the
 *      new set; its own superblock gets it last.
 *  (3) A copy of the roots moves while no checkpoint runs, and none begins before both superblocks
 *      of all drives name its new place: until then both places hold the same.  If a superblock
 *      cannot be written then, it is unknown which of them a mount would take: the store takes no
 *      more changes [test_meta_drain:checkpoints_wait_for_roots_that_move].
 *  (4) Drives and zones keep their numbers for ever: the number of a drive that is gone is never
 *      used again [test_meta_drain:what_is_said_of_it_is_not_said_of_one_that_is_added].
 *  (5) At least one drive serves, or as many as copies while the store converts, and the live data
 *      fits on those that do when the drain begins; if drives have domains, as many of these as a
 *      block has copies (meta_domain.c (3))
 *      [test_meta_drain:more_than_the_others_can_hold_is_refused,
 *      test_meta_domain:replacement_leaves_as_many_domains_as_copies].
 *  (6) Checkpoints are requested only while they win something: a drain that cannot continue (no
 *      room, unreadable blocks) stops, and tries again when something has changed.
 *  (7) The log's limit is that of the drives that serve, as soon as the log is shorter; a drive is
 *      GONE after that.  A larger limit could reserve all zones of the drives that stay, and leave
 *      none for roots and files
 *      [test_meta_pair_moves:store_whose_large_drive_is_lost_is_bounded_by_what_stays].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_fold.h"
#include "meta/meta_protect.h"
#include "meta/plans/meta_plan.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

#define ASKS_MAX 6u /* checkpoints that win nothing: the log takes three to move away */

/* ---- a new set ------------------------------------------------------------------------------- */

void meta__next_set(struct meta *m)
{
	struct meta__boot *b = m->boot;
	struct meta__geo geo;

	b->next = b->super;
	meta__geo_of(&geo, &b->super);
	memcpy(b->next.root_at, geo.root_area, sizeof(b->next.root_at));
	b->next.set = meta__drives_next_set(m);
	b->next.drained = true;
	ASSERT(b->next.set != b->super.set);
}

/* (7).  False: the log is still longer. */
static bool log_is_bound(struct meta *m)
{
	struct meta__geo *g = &m->zones->geo, geo;

	if (m->boot->drain.log_bound)
		return true;
	meta__geo_of(&geo, &m->boot->super);
	ASSERT(geo.drives_serving > 0); /* (5) */
	ASSERT(geo.log_zones_max >= 4 && geo.log_bytes_max > 0);
	if (geo.log_zones_max < g->log_zones_max && meta__log_zones(m) + 1 >= geo.log_zones_max)
		return false;
	g->log_bytes_max = geo.log_bytes_max;
	g->log_zones_max = geo.log_zones_max;
	m->boot->drain.log_bound = true;
	return true;
}

static void take_away(struct meta *m, uint32_t drive)
{
	ASSERT(m->boot->super.drive_state[drive] == DRIVE_GONE);
	ASSERT(m->boot->drain.log_bound); /* (7) */
	ASSERT(drive < m->conf.ndrives);
	m->conf.drive[drive] = (struct meta_drive_info){ 0 };
	m->dead &= ~(1ull << drive);
	meta__domains_again(m); /* it does not count any more */
	if (!(m->losing >> drive & 1))
		return;
	m->losing &= ~(1ull << drive); /* it failed when nothing was there any more */
	if (!m->losing)
		meta__log_recorded(m);
}

/* All other drives say that these are lost: what waited for that may count now, unless another one
 * failed meanwhile. */
static void recorded(struct meta *m, uint64_t drives)
{
	ASSERT(drives && !(drives & ~m->losing));
	m->losing &= ~drives;
	m->boot->drain.cannot = false; /* what failed for them may be done on others */
	for (uint64_t left = drives; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		ASSERT(m->zones->geo.state[d] == DRIVE_LOST);
		m->conf.drive[d].volatile_cache = false;
		m->conf.drive[d].deallocate_max_blocks = 0;
	}
	if (!m->losing)
		meta__log_recorded(m);
}

static int change_supers(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const struct meta__drain *dr = &b->drain;
	int err = meta__drives_write(m);

	ASSERT(b->adding && dr->drives);
	if (err != -EALREADY)
		return err;
	b->super = b->next;
	for (uint64_t left = dr->drives; left; left &= left - 1)
		meta__drive_state_set(m, (uint32_t)__builtin_ctzll(left), dr->to);
	if (dr->to == DRIVE_GONE)
		take_away(m, (uint32_t)__builtin_ctzll(dr->drives));
	b->drain.log_bound = false;
	(void)log_is_bound(m);
	if (dr->to == DRIVE_LOST)
		recorded(m, dr->drives);
	b->drain.asked = 0;
	b->drain.epoch = 0;
	meta__gc_look_drains(m); /* a drain waited while another drive was lost */
	meta__drives_end(m, 0);
	return 0;
}

/* The drive's own superblock is written last when it goes (2), else first: if that fails, no other
 * superblock says what a mount would have to write there. */
static void change_all(struct meta *m, uint64_t drives, enum meta__drive_state to, int *status)
{
	struct meta__boot *b = m->boot;
	const uint32_t first = (uint32_t)__builtin_ctzll(drives);

	ASSERT(!b->adding);
	ASSERT(drives && first < b->super.ndrives);
	ASSERT(to == DRIVE_LOST || !(drives & (drives - 1)));
	meta__next_set(m);
	for (uint64_t left = drives; left; left &= left - 1)
		b->next.drive_state[__builtin_ctzll(left)] = (uint8_t)to;
	b->write_from = to >= DRIVE_GONE ? (first + 1) % b->next.ndrives : first;
	b->write_both = to < DRIVE_GONE;
	b->drain.drives = drives;
	b->drain.to = to;
	b->drain.roots = false;
	meta__drives_begin(m, status, change_supers);
}

static void change(struct meta *m, uint32_t drive, enum meta__drive_state to, int *status)
{
	ASSERT(drive < META_DRIVES_MAX);
	ASSERT(to != DRIVE_GONE ||
	       m->zones->free_count[drive] == m->zones->geo.zone_count[drive]);     /* (2) */
	ASSERT(to != DRIVE_GONE || !meta__geo_any_roots_on(&m->zones->geo, drive)); /* (2) */
	change_all(m, 1ull << drive, to, status);
}

void meta__drain_failed(struct meta *m)
{
	struct meta__drain *dr = &m->boot->drain;

	ASSERT(!m->boot->adding);
	if (dr->to == DRIVE_LOST && !dr->roots) {
		meta__fail(m); /* nobody may be told of a change any more: meta_pair.c (3) */
		return;
	}
	dr->cannot = true; /* as it was is well, too: until it is asked for again */
	if (!dr->roots)
		return;
	meta__roots_release(m);
	if (memcmp(m->boot->next.root_zone, m->boot->super.root_zone,
		   sizeof(m->boot->next.root_zone)) != 0)
		meta__fail(m); /* (3) */
}

/* On drives with so many zones each, of which so many groups can be made.  The log takes a group
 * for each of its zones, or two single zones. */
static bool live_fits(const struct meta *m, const uint32_t *on, uint64_t groups)
{
	const struct meta__zones *z = m->zones;
	const struct meta__geo *g = &z->geo;
	const uint64_t log = 2 * (uint64_t)g->log_zones_max;
	const uint64_t zones = div_up(z->live_blocks + z->live_blocks / 32, g->zone_end - 1);
	uint64_t need = max_u64(log + 12 + meta__fold_room(m), (groups * 3 + 99) / 100);

	ASSERT(g->root_zones > 0);
	need += meta__fold_groups(m, on, zones);
	need += div_up(z->live_pages + z->live_pages / 2, g->zone_pages);
	return need + g->root_copies * (uint64_t)g->root_zones <= groups;
}

/* (5): `more` zones are about to be added, on a drive that takes the place of this one. */
static bool rest_has_room(const struct meta *m, uint32_t drive, uint32_t more)
{
	const struct meta__geo *g = &m->zones->geo;
	const uint32_t rest = g->zones_serving - g->zone_count[drive] + more;
	const uint32_t drives = g->drives_serving - 1 + (more > 0);
	uint32_t on[META_DRIVES_MAX];

	ASSERT(g->zone_count[drive] <= g->zones_serving);
	meta__zones_taking(m, on);
	on[drive] = more; /* folds are as wide as they can be then */
	if (m->domains)
		return live_fits(
			m, on,
			meta__groups_on(m, on,
					max_u32(1, min_u32(m->copies, meta__domains_on(m, on)))));
	return live_fits(m, on, rest / max_u32(1, min_u32(drives, m->copies)));
}

static int may_change(const struct meta *m, uint32_t drive)
{
	ASSERT(m->boot->super.ndrives == m->conf.ndrives);
	if (m->failed)
		return -EROFS;
	if (m->boot->adding || m->stopping || !m->mounted)
		return -EBUSY;
	if (drive >= m->zones->geo.ndrives || m->zones->geo.state[drive] >= DRIVE_GONE)
		return -ENODEV;
	return 0;
}

/* Tries again to write what could not be written before. */
static int try_again(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(meta__drain_drive(m) < META_DRIVES_MAX);
	if (!b->drain.cannot)
		return -EALREADY;
	b->drain.cannot = false;
	b->drain.asked = 0;
	b->drain_status = 0;
	return 0;
}

int meta_drive_drain(struct meta *m, uint32_t drive)
{
	const struct meta__geo *g = &m->zones->geo;
	int err = may_change(m, drive);

	if (err)
		return err;
	if (g->state[drive] == DRIVE_DRAINS)
		return try_again(m);
	if (g->zones_serving == g->zone_count[drive] ||
	    (m->converts && g->drives_serving <= m->copies) ||
	    !meta__domains_allow(m, drive, META_DRIVES_MAX))
		return -EPERM; /* (5) */
	if (g->root_zones > META__ROOT_ZONES_MAX && meta__geo_any_roots_on(g, drive))
		return -EFBIG;
	if (!rest_has_room(m, drive, 0))
		return -ENOSPC;
	ASSERT(g->zone_count[drive] < g->zones_serving); /* (5) */
	m->boot->drain.cannot = false;
	change(m, drive, DRIVE_DRAINS, &m->boot->drain_status);
	return 0;
}

/* The drive that is being added takes the place of this one: one set says both.  A drive that is
 * lost or gone leaves by itself. */
int meta__drain_replaced(struct meta *m, uint32_t drive)
{
	struct meta__boot *b = m->boot;
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(b->next.ndrives == b->super.ndrives + 1);
	if (drive >= g->ndrives)
		return -ENODEV;
	if (g->state[drive] != DRIVE_SERVES || (m->losing >> drive & 1))
		return 0;
	ASSERT(b->super.drive_state[drive] == DRIVE_SERVES);
	if (g->root_zones > META__ROOT_ZONES_MAX && meta__geo_any_roots_on(g, drive))
		return -EFBIG;
	if (!meta__domains_allow(m, drive, b->super.ndrives))
		return -EPERM; /* (5) */
	if (!rest_has_room(m, drive, b->geo.zone_count[b->super.ndrives]))
		return -ENOSPC;
	b->next.drive_state[drive] = DRIVE_DRAINS;
	b->next.drained = true;
	return 0;
}

/* The set with the new drive counts: what it says of others takes effect. */
void meta__drain_begun(struct meta *m)
{
	const struct meta__super *s = &m->boot->super;

	ASSERT(m->zones->geo.ndrives == s->ndrives);
	for (uint32_t d = 0; d + 1 < s->ndrives; d++) {
		if (s->drive_state[d] != DRIVE_DRAINS || !meta__drive_serves(m, d))
			continue;
		meta__drive_state_set(m, d, DRIVE_DRAINS);
		m->boot->drain.cannot = false;
		m->boot->drain.asked = 0;
		m->boot->drain.epoch = 0;
		meta__gc_look_drains(m);
	}
}

int meta_drive_undrain(struct meta *m, uint32_t drive)
{
	int err = may_change(m, drive);

	if (err || meta__drive_serves(m, drive))
		return err ? err : -EALREADY;
	ASSERT(m->zones->geo.state[drive] == DRIVE_DRAINS);
	change(m, drive, DRIVE_SERVES, &m->boot->drain_status);
	return 0;
}

int meta_drive_drain_status(const struct meta *m)
{
	ASSERT(m->boot->drain_status <= 0);
	return m->boot->drain_status;
}

/* Over when the set is durable. */
int meta__plan_drive(struct meta *m, struct meta_op *op)
{
	const uint32_t drive = (uint32_t)op->offset;
	int err;

	ASSERT(!meta__op_is_own(op));
	if (m->boot->adding)
		return META__NEEDS_ROOM;
	if (op->keeps.user.drive_asked)
		return m->boot->drain_status == -EAGAIN ? META__NEEDS_ROOM : m->boot->drain_status;
	op->keeps.user.drive_asked = true;
	if (op->flags & META_PROTECT)
		err = meta_scheme_begin(
			m, &(struct meta_scheme){ .copies = op->offset ? (uint32_t)op->offset : 2,
						  .fold = (uint32_t)op->length });
	else if (op->flags & META_UNDRAIN)
		err = meta_drive_undrain(m, drive);
	else
		err = meta_drive_drain(m, drive);
	return err && err != -EBUSY ? err : META__NEEDS_ROOM;
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* Would a checkpoint let something of it go? */
static bool checkpoint_helps(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;
	const bool all = drive == META_DRIVES_MAX;
	const uint32_t first = all ? 0 : z->geo.zone_base[drive];
	const uint32_t end = all ? z->geo.nzones : first + z->geo.zone_count[drive];

	ASSERT(end <= z->geo.nzones);
	if (all && m->converts && !meta__log_is_copied(m))
		return true;
	for (uint32_t i = first; i < end; i++) {
		const uint32_t pair = meta__pair_first(m, i);
		const struct meta__zone *at = &z->zone[pair];

		if (all && !at->lone && !at->near)
			continue;

		if (at->state == ZONE_EMPTY ||
		    (at->state != ZONE_FREE && at->kind == META__ZONE_LOG))
			return true;
		if (at->state == ZONE_CLOSED && at->kind == META__ZONE_PAGE &&
		    at->closed == z->epoch) /* its pages must be written before they move */
			return true;
	}
	return false;
}

/* (6) */
static void checkpoint(struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;
	struct meta__drain *dr = &m->boot->drain;

	const uint32_t free = drive < META_DRIVES_MAX ? z->free_count[drive] : z->lone + z->nears;

	ASSERT(dr->asked <= ASKS_MAX); /* (6) */
	if (dr->free_count != free || dr->free_total != z->free_total)
		dr->asked = 0;
	else if (dr->epoch == z->epoch && dr->coming == z->coming + z->leaving_us)
		return;
	dr->epoch = z->epoch;
	dr->free_count = free;
	dr->free_total = z->free_total;
	dr->coming = z->coming + z->leaving_us;
	if (dr->asked == ASKS_MAX || !checkpoint_helps(m, drive))
		return;
	dr->asked++;
	meta__ckpt_want(m);
}

/* (7) */
static void trim_log(struct meta *m)
{
	ASSERT(!m->boot->drain.log_bound);
	ASSERT(!m->failed && !m->stopping);
	if (!meta__ckpt_running(m))
		meta__ckpt_want(m);
}

void meta__drain_turn(struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint32_t d = meta__drain_drive(m);
	const struct meta__geo *g = &z->geo;

	ASSERT(!m->boot->adding);
	if (m->losing && !m->failed) {
		change_all(m, m->losing, DRIVE_LOST, NULL);
		return;
	}
	if (m->failed || m->stopping ||
	    (d == META_DRIVES_MAX && !m->boot->drain.taken && m->copies < 2))
		return;
	if (!meta__roots_must_move(m)) {
		meta__roots_drop(m);
		if (d == META_DRIVES_MAX && meta__protect_turn(m))
			return;
		if (d == META_DRIVES_MAX && !meta__any_leaves(m) && !m->converts)
			return;
		if (d == META_DRIVES_MAX) {
			if (!meta__drain_moves(m) && !meta__ckpt_running(m))
				checkpoint(m, d);
			return;
		}
		if (z->free_count[d] == g->zone_count[d] && !log_is_bound(m)) {
			trim_log(m);
			return;
		}
		if (z->free_count[d] == g->zone_count[d] && g->state[d] == DRIVE_LOST && z->lone) {
			if (!meta__drain_moves(m) && !meta__ckpt_running(m))
				checkpoint(m, META_DRIVES_MAX); /* meta_pair.c (4) */
			return;
		}
		if (z->free_count[d] == g->zone_count[d] && !m->boot->drain.cannot) {
			change(m, d, DRIVE_GONE, NULL); /* (2) */
			return;
		}
	} else {
		if (!log_is_bound(m))
			trim_log(m);
		meta__roots_turn(m);
		if (m->boot->adding)
			return;
	}
	if (!meta__drain_moves(m) && !meta__ckpt_running(m))
		checkpoint(m, d);
}

uint64_t meta_drives_gone(const struct meta *m)
{
	return m->zones->gone;
}

/* ---- lines for people ------------------------------------------------------------------------ */

void meta_drive_stat(const struct meta *m, uint32_t drive, struct meta_drive_stat *out)
{
	const struct meta__zones *z = m->zones;
	const struct meta__geo *g = &z->geo;

	*out = (struct meta_drive_stat){ .drive = drive };
	if (!m->mounted || drive >= g->ndrives)
		return;
	out->draining = g->state[drive] == DRIVE_DRAINS;
	out->gone = g->state[drive] == DRIVE_GONE;
	out->missing = g->state[drive] == DRIVE_AWAY;
	out->lost = g->state[drive] == DRIVE_LOST || (m->losing >> drive & 1);
	out->zones = g->zone_count[drive];
	out->domain = m->domain[drive];
	if (out->gone)
		return;
	out->zones_used = g->zone_count[drive] - z->free_count[drive];
	out->roots = meta__geo_any_roots_on(g, drive);
	ASSERT(out->zones_used <= out->zones);
}

void meta_drive_count(const struct meta *m, struct meta_drive_stat *out)
{
	const struct meta__zones *z = m->zones;
	const uint32_t base = m->mounted ? z->geo.zone_base[out->drive] : 0;

	ASSERT(out->drive < META_DRIVES_MAX);
	ASSERT(!m->mounted || out->gone || base + out->zones <= z->geo.nzones);
	out->counted = true;
	for (uint32_t i = base; !out->gone && i < base + out->zones; i++) {
		const uint32_t first = z->zone[i].parity ? i : meta__pair_first(m, i);
		const struct meta__zone *at = &z->zone[first];

		out->live_blocks += at->live;
		if (at->kept && at->live >= at->kept)
			out->kept_blocks += at->kept;
	}
}
