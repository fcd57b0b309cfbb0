/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Zone headers at mount, and the repair of headers whose copies are both damaged.
 *
 *   headers read --> zones without one: do they have log? --> log read --> trees counted -->
 *   what is such a zone, and may the mount continue? --> ... all roots name the new log --> their
 *   headers written --> serving
 *
 * A zone without a whole header holds data or pages if the index or a record of the log says so,
 * and a copy of the roots if the superblock does.  It holds log if a block of this log is found in
 * it.  Otherwise its content does not count, unless the log may have continued there unseen.
 *
 *  (1) A mount that is refused for such a zone has written nothing
 *      [test_meta_heads:on_a_lone_drive_nothing_is_lost_without_a_word].
 *  (2) Such a zone is not used before all roots name the new log: an older log that a later mount
 *      needs may be in it.  Its header is not written before that either
 *      [test_meta_heads:any_zone_may_lose_both_while_the_log_counts].
 *  (3) A header is written in place only if no copy of it is whole, or from the other copy, or
 *      without the members of a fold that was not made (meta_mend.c), or, while the store serves,
 *      with its previous content, or with the members of a fold (meta_zone_mend.c).  One copy is
 *      durable before the other is written.  So a power cut leaves the header as it
 *      was, or whole [test_meta_heads:cut_while_they_are_written_leaves_them_lost_or_whole].
 *  (4) The log leaves a zone only when it has no room for the largest record, when a drive is
 *      drained, or for zones on more drives.  The copies of a zone lie on different drives, so one
 *      of their headers is whole, or all these drives have lost zones
 *      [test_meta_heads:any_zone_may_lose_both_while_the_log_counts].
 *  (5) No header of a missing drive is read.  Its zones are treated like those without a header,
 *      but the mount does not look for log in them and never uses them.  The log takes zones on two
 *      drives, or on three in a store of three copies, while zones are free there; so if the other
 *      drives have free zones, no zone of fewer missing drives holds the only copy of the log
 *      [test_meta_missing:any_drive_may_be_left_out_while_the_log_counts].
 */
#include "meta/engine/meta_fold.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void no_head(struct meta *m, uint32_t zone)
{
	struct meta__boot *b = m->boot;

	ASSERT(zone < b->geo.nzones);
	ASSERT(!meta__zone_at(m, zone)->head_lost);
	if (b->lost_heads++ == 0)
		b->lost_first = zone;
	meta__zone_at(m, zone)->head_lost = true;
	b->head_kind[zone] =
		meta__geo_zone_roots(&b->geo, zone) ? (uint8_t)META__ZONE_ROOT : HEAD_LOST;
}

/* This says more than a copy that is damaged. */
static void note_lost(struct meta *m, const char *what)
{
	struct meta__boot *b = m->boot;
	const uint64_t at = meta__geo_zone_head(&b->geo, b->lost_first, 0);
	char more[40] = "";

	ASSERT(b->lost_heads > 0);
	ASSERT(b->lost_heads <= b->geo.nzones);
	if (b->lost_heads > 1)
		(void)snprintf(more, sizeof(more), ", and of %u more,", b->lost_heads - 1);
	b->note[0] = '\0';
	meta__boot_note(m, "drive %u block %llu: both copies of the header of zone %u%s are %s",
			META_BADDR_DRIVE(at), (unsigned long long)META_BADDR_BLOCK(at),
			b->lost_first, more, what);
}

/* The content of such a block is unknown: it may be readable tomorrow. */
static bool may_be_whole(const struct meta__io *x)
{
	ASSERT(x->io.op == META_IO_READ);
	return x->io.status && x->io.status != -ENODATA;
}

/* If both copies are whole, the newer one counts: a crash happened between the two writes. */
static int zone_pick(struct meta *m, uint32_t zone, const struct meta__io *x,
		     struct meta__zone_seen *out, uint64_t *mark)
{
	const struct meta__geo *g = &m->boot->geo;
	uint64_t incarnation[2] = { 0 };
	uint32_t found = 0, bad = 0;

	ASSERT(zone < g->nzones);
	for (uint32_t copy = 0; copy < 2; copy++) {
		const struct meta_io *io = &x[copy].io;
		struct meta__zone_seen seen;

		if (io->status || meta__zone_parse(io->buf, m->uuid, zone, &seen) != 0) {
			meta__zone_at(m, zone)->head_first = (uint8_t)copy; /* meta_super.c (2) */
			meta__boot_note(m,
					"drive %u block %llu: a copy of the header of zone %u is "
					"damaged, or torn by a crash; written again from the other",
					io->drive, (unsigned long long)io->block, zone);
			bad = copy;
			continue;
		}
		*mark = min_u64(*mark, seen.mark);
		incarnation[copy] = seen.incarnation;
		if (found++ == 0 || seen.incarnation > out->incarnation)
			*out = seen;
	}
	if (found == 2 && incarnation[0] != incarnation[1] && out->kind == META__ZONE_PARITY) {
		bad = incarnation[1] < incarnation[0]; /* else a fold hangs on one copy */
		found = 1;
	}
	if (found == 1)
		meta__mend_want(m, meta__geo_zone_head(g, zone, bad ^ 1),
				meta__geo_zone_head(g, zone, bad), zone);
	if (found)
		return 0;
	if (may_be_whole(&x[0]) || may_be_whole(&x[1]))
		return meta__boot_fail(m, -EIO,
				       "drive %u block %llu: the header of zone %u cannot be read",
				       x->io.drive, (unsigned long long)x->io.block, zone);
	no_head(m, zone);
	return -ENOENT;
}

/* x: of both copies. */
static int zone_take(struct meta *m, uint32_t zone, const struct meta__io *x)
{
	struct meta__boot *b = m->boot;
	struct meta__zone_seen seen = { 0 };
	const uint32_t drive = meta__mark_drive(m, zone);
	uint64_t mark = UINT64_MAX; /* what every whole copy says, at least */
	int err = zone_pick(m, zone, x, &seen, &mark);

	ASSERT(zone < b->geo.nzones);
	ASSERT(!b->log_judged);
	if (err)
		return err == -ENOENT ? 0 : err;
	meta__zone_at(m, zone)->incarnation = seen.incarnation;
	if (drive < META_DRIVES_MAX) {
		b->first_head[drive] = seen;
		m->zones->marks.of[drive] = mark;
	}
	b->head_kind[zone] = (uint8_t)seen.kind;
	b->head_twin[zone] = seen.twin;
	b->head_twin2[zone] = seen.twin2;
	b->head_pair[zone] = seen.pair;
	if (meta__geo_zone_roots(&b->geo, zone) && seen.kind != META__ZONE_ROOT)
		return meta__boot_fail(m, -EUCLEAN,
				       "roots are to be in zone %u, which is not for them", zone);
	if (seen.kind == META__ZONE_LOG)
		meta__replay_take(m, &seen);
	if (seen.kind == META__ZONE_PARITY)
		return meta__folds_take(m, &seen);
	return 0;
}

static bool is_away(const struct meta *m, uint32_t zone)
{
	const uint64_t baddr = meta__geo_zone_baddr(&m->boot->geo, zone);

	ASSERT(zone < m->boot->geo.nzones);
	return meta__is_away(m, baddr) || m->boot->geo.state[META_BADDR_DRIVE(baddr)] == DRIVE_LOST;
}

bool meta__head_unknown(const struct meta *m, uint32_t zone)
{
	ASSERT(zone < m->boot->geo.nzones && !m->mounted);
	return meta__zone_at(m, zone)->head_lost || is_away(m, zone);
}

static bool can_be_read(const struct meta *m, uint32_t zone)
{
	ASSERT(zone < m->boot->geo.nzones);
	return meta__geo_zone_there(&m->boot->geo, zone) && !is_away(m, zone);
}

/* (5) */
static void away_heads(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->span_count == 0);
	for (uint32_t i = 0; i < b->geo.nzones; i++)
		if (is_away(m, i))
			b->head_kind[i] = meta__geo_zone_roots(&b->geo, i)
						  ? (uint8_t)META__ZONE_ROOT
						  : HEAD_LOST;
}

static int look(struct meta *m);

int meta__heads_read(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = 0;

	ASSERT(!b->log_judged);
	ASSERT(b->at <= b->geo.nzones);
	ASSERT(b->count <= META__BOOT_BLOCKS);
	for (uint32_t i = 0; b->sent && !err && i < b->count; i++)
		err = zone_take(m, b->at + i, &b->io[2 * i]);
	if (err)
		return err;
	if (b->sent)
		b->at += b->count;
	else
		away_heads(m);
	while (b->at < b->geo.nzones && !can_be_read(m, b->at))
		b->at++;
	if (b->at == b->geo.nzones) {
		if (b->lost_heads)
			note_lost(m, "damaged; written again from what the index says");
		if (m->copies > 1) {
			meta__pairs_find(m);
			meta__folds_find(m);
		}
		meta__boot_next(m, b->lost_heads ? look : meta__replay_scan);
		return meta__marks_judge(m);
	}
	for (b->count = 1; b->count < META__BOOT_BLOCKS / 2; b->count++)
		if (b->at + b->count == b->geo.nzones || !can_be_read(m, b->at + b->count))
			break;
	for (uint32_t i = 0; i < 2 * b->count; i++)
		meta__boot_io(m, META_IO_READ, meta__geo_zone_head(&b->geo, b->at + i / 2, i & 1),
			      1, i);
	return 0;
}

/* ---- zones without a header: is log there? ---------------------------------------------- */

static bool is_lost(const struct meta *m, uint32_t zone)
{
	ASSERT(zone < m->boot->geo.nzones);
	return meta__zone_at(m, zone)->head_lost;
}

static void next_lost(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->at <= b->geo.nzones);
	while (b->at < b->geo.nzones && !is_lost(m, b->at))
		b->at++;
}

/* Returns the range of orders of zones that the log may need, known from headers or later. */
static void orders(const struct meta__boot *b, uint64_t *oldest, uint64_t *newest)
{
	ASSERT(b->span_count <= b->geo.nzones);
	*oldest = 1;
	*newest = 0;
	for (uint32_t i = 0; i < b->span_count; i++) {
		if (b->span[i].order <= *newest)
			continue;
		*newest = b->span[i].order;
		*oldest = b->span[i].oldest_order;
	}
	*newest += b->lost_heads;
}

/* Returns the order of the block's log zone; 0 if the block is not of this log. */
static uint64_t order_of(const struct meta *m, const void *block)
{
	const struct meta__boot *b = m->boot;
	struct meta_log_disk d;
	uint64_t oldest, newest;

	ASSERT(!b->log_judged);
	memcpy(&d, block, sizeof(d));
	if (le32_get(d.magic) != META__LOG_MAGIC || le64_get(d.epoch) != b->log_epoch)
		return 0;
	orders(b, &oldest, &newest);
	for (uint64_t order = oldest; order <= newest; order++)
		if (meta__log_peek(block, meta__log_tag(m, b->log_epoch, order)))
			return order;
	return 0;
}

static void found_log(struct meta *m, uint32_t zone, uint64_t order)
{
	const struct meta__zone_seen seen = {
		.zone = zone, .kind = META__ZONE_LOG, .epoch = m->boot->log_epoch, .order = order
	};

	ASSERT(order > 0);
	ASSERT(is_lost(m, zone));
	m->boot->head_kind[zone] = META__ZONE_LOG;
	meta__replay_take(m, &seen);
}

/* at: zone; step: the next block of it. */
static int look(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->lost_heads > 0);
	ASSERT(b->step <= b->geo.zone_end);
	for (uint32_t i = 0; b->sent && i < b->count; i++) {
		const struct meta_io *io = &b->io[i].io;
		const uint64_t order = io->status ? 0 : order_of(m, io->buf);

		if (order == 0 || b->head_kind[b->at] != HEAD_LOST)
			continue;
		found_log(m, b->at, order);
		b->step = b->geo.zone_end;
	}
	next_lost(m);
	if (b->step == 0)
		b->step = 1;
	if (b->at < b->geo.nzones && b->step >= b->geo.zone_end) {
		b->at++;
		b->step = 1;
		next_lost(m);
	}
	if (b->at == b->geo.nzones) {
		meta__boot_next(m, meta__replay_scan);
		return 0;
	}
	b->count = min_u32(META__BOOT_BLOCKS, b->geo.zone_end - b->step);
	for (uint32_t i = 0; i < b->count; i++)
		meta__boot_io(m, META_IO_READ, meta__geo_zone_baddr(&b->geo, b->at) + b->step + i,
			      1, i);
	b->step += b->count;
	return 0;
}

/* A log found there is an older one that is not needed. */
static void forget_log(struct meta *m, uint32_t zone)
{
	struct meta__boot *b = m->boot;
	const struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->head_lost);
	ASSERT(b->head_kind[zone] == META__ZONE_LOG);
	if (at->state == ZONE_CLOSED && at->kind == META__ZONE_LOG) {
		uint32_t i = 0;

		while (i < b->span_count && b->span[i].zone != zone)
			i++;
		if (b->log_judged || i == b->span_count)
			return; /* it is needed */
		b->span[i].stale = true;
		meta__zone_give_log(m, zone);
	}
	b->head_kind[zone] = HEAD_LOST;
}

bool meta__heads_adopt(struct meta *m, uint32_t zone, enum meta__zone_kind kind)
{
	uint8_t *is = &m->boot->head_kind[zone];

	ASSERT(zone < m->boot->geo.nzones);
	ASSERT(kind == META__ZONE_PAGE || kind == META__ZONE_DATA);
	if (meta__zone_at(m, zone)->head_lost && *is == META__ZONE_LOG)
		forget_log(m, zone);
	if (*is == HEAD_LOST)
		*is = (uint8_t)kind;
	return *is == kind;
}

/* ---- may the mount continue? --------------------------------------------------------------- */

/* As meta_zone.c does. */
static bool opens_copies(const struct meta *m)
{
	ASSERT(m->boot->log_judged);
	return meta__groups_free(m) > meta__zones_of_reserve(m) + 4;
}

/* (4) */
static bool log_is_here(const struct meta *m, uint32_t drives)
{
	const struct meta__boot *b = m->boot;
	const uint32_t record = (uint32_t)div_up(
		sizeof(struct meta_log_disk) + meta__log_record_max(m), META__BLOCK);
	bool drains = false;

	ASSERT(drives > 0);
	ASSERT(b->log_judged);
	for (uint32_t d = 0; d < b->geo.ndrives; d++)
		drains |= b->geo.state[d] == DRIVE_DRAINS;
	if (drives < b->log_copies)
		return true;
	if (drives < meta__log_copies_max(m) && b->lost_heads == 0 && opens_copies(m)) /* (5) */
		return true;
	return !drains && (uint64_t)b->log_end + record + META__LOG_KEEP_BLOCKS <= b->geo.zone_end;
}

static int may_hide_log(struct meta *m, uint32_t zone)
{
	const uint64_t at = meta__geo_zone_head(&m->boot->geo, zone, 0);

	ASSERT(zone < m->boot->geo.nzones);
	return meta__boot_fail(m, -EUCLEAN,
			       "drive %u block %llu: both copies of the header of zone %u are "
			       "%s, and the log may have gone on there",
			       META_BADDR_DRIVE(at), (unsigned long long)META_BADDR_BLOCK(at), zone,
			       is_away(m, zone) ? "missing with their drive" : "damaged");
}

/* Out of use, as log is: (2). */
static void hold(struct meta *m, uint32_t zone)
{
	ASSERT(is_lost(m, zone));
	ASSERT(meta__zone_at(m, zone)->state == ZONE_FREE);
	m->boot->head_kind[zone] = HEAD_LOST;
	meta__zone_use(m, zone, META__ZONE_LOG);
	m->zones->log_count++;
}

/* No log was put there after its superblocks said that it is lost. */
static bool was_lost(const struct meta *m, uint32_t zone)
{
	const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(&m->boot->geo, zone));

	ASSERT(d < m->boot->geo.ndrives);
	return m->boot->top.drive_state[d] == DRIVE_LOST;
}

int meta__heads_judge(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint64_t drives = 0;
	uint32_t last = META__ZONE_NONE;
	int err = meta__pairs_judge(m);

	ASSERT(b->log_judged);
	ASSERT(!b->replaying); /* (1): and no page has been written */
	if (err)
		return err;
	for (uint32_t i = 0; i < b->geo.nzones; i++) {
		if (b->head_kind[i] != HEAD_LOST || was_lost(m, i))
			continue;
		drives |= 1ull << META_BADDR_DRIVE(meta__geo_zone_baddr(&b->geo, i));
		last = i;
	}
	if (drives && !log_is_here(m, (uint32_t)__builtin_popcountll(drives)))
		return may_hide_log(m, last);
	for (uint32_t i = 0; b->lost_heads && i < b->geo.nzones; i++)
		if (is_lost(m, i) && meta__zone_at(m, i)->state == ZONE_FREE)
			hold(m, i);
	meta__boot_next(m, meta__boot_claim);
	return 0;
}

/* ---- written again ------------------------------------------------------------------------- */

/* The zone's own incarnation is lost, so it gets the highest of all zones. */
static uint64_t incarnation_of(const struct meta *m)
{
	uint64_t most = 1;

	for (uint32_t i = 0; i < m->zones->geo.nzones; i++)
		most = max_u64(most, meta__zone_at(m, i)->incarnation);
	ASSERT(most > 0);
	return most;
}

static struct meta__zone_seen head_of(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);
	const bool lives = at->state == ZONE_CLOSED && at->kind != META__ZONE_LOG;
	struct meta__zone_seen head = { .zone = zone, .kind = META__ZONE_FREE, .epoch = m->epoch };

	ASSERT(at->head_lost);
	ASSERT(at->state != ZONE_OPENING);
	if (!meta__in_fold(at) || at->parity)
		at->incarnation = incarnation_of(m); /* else: meta_folds.c (3) */
	head.incarnation = at->incarnation;
	if (!lives)
		return head;
	head.kind = (enum meta__zone_kind)at->kind;
	meta__group_head(m, meta__pair_first(m, zone), &head);
	if (at->parity)
		meta__fold_head(m, zone, &head);
	return head;
}

/* One that cannot be written is left as it is, and if nothing lives in its zone, that is not used.
 */
static void written(struct meta *m, uint32_t zone)
{
	struct meta__boot *b = m->boot;
	const bool held = b->head_kind[zone] == HEAD_LOST;

	ASSERT(zone < b->geo.nzones);
	ASSERT(!meta__zone_at(m, zone)->mending);
	if (!meta__zone_at(m, zone)->mend_failed) {
		if (held)
			meta__zone_give_log(m, zone);
		return;
	}
	m->zones->log_count -= held;
	note_lost(m, "damaged, and not all can be written again");
}

/* at: zone; step 1: it is being written. */
int meta__heads_write(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->step <= 1);
	ASSERT(b->replaying); /* (2): the old log is in the trees, and all roots name the new one */
	for (;; b->at++, b->step = 0) {
		struct meta__zone *at;

		next_lost(m);
		if (b->at == b->geo.nzones) {
			meta__boot_next(m, meta__boot_serve);
			return 0;
		}
		at = meta__zone_at(m, b->at);
		if (at->mending || at->state == ZONE_OPENING)
			return -EAGAIN;
		if (b->step == 0) {
			const struct meta__zone_seen head = head_of(m, b->at);

			b->step = meta__zone_mend(m, &head, 3);
			return -EAGAIN;
		}
		at->head_lost = false;
		written(m, b->at);
	}
}
