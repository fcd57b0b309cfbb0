/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Folding: the firsts of some pairs become a fold, and their twins become free (meta_fold.c).
 *
 *   IDLE --pick--> OPEN ------> COPY ----------------> FLUSH -----> HEAD ------> the ring, IDLE
 *                  the parity's  of each 32 blocks:     all drives  the parity's    twins are free
 *                  header, with  firsts and twins read, of the fold header, with    after the next
 *                  no members    compared, summed;              its members      checkpoint
 *                                the sum written
 *
 * One fold at a time, and of it one piece at a time: on NVMe drives that is more than enough to
 * keep up, and clients hardly notice it.  The pace is that of a rebuild (meta_pace.c).
 *
 *  (1) Both copies of all blocks are read and compared, and what was compared is summed: so a block
 *      that has rotted in one copy is not folded into the parity while its good copy is lost.  A
 *      zone of which they differ, by rot or since a crash or a mount closed it early, is `unlike`:
 *      collection moves its live data, with its checksums, to others [test_meta_fold:rot].
 *  (2) All drives of the fold are flushed between the last read and the header: a block that was
 *      read from a drive's cache, of a write that no log names, may not be another one after a
 *      power cut [test_meta_fold:power_cuts_while_folds_are_made].
 *  (3) The header without members is durable before anything is summed into the zone, the one with
 *      members, in a higher incarnation, after it.  So what a header says is true at any time
 *      (meta_fold.c (3)), and until the second is durable the pairs are whole.
 *  (4) A fold is given up if a zone of it is empty, a drive leaves, or a check begins, but not once
 *      its header with members is on its way: a header that the next mount believes must be true,
 *      and zones that are free may be deallocated.  So its zones do not become free while they are
 *      folded, a drive that does not take the header is lost, and a check waits for the folder
 *      [test_meta_fold_late:zones_die_while_the_header_is_written, check_waits_for_folds].
 *  (5) The zone of parity is taken from the reserve, if that frees others, but not from what pages
 *      and the log may need: collection leaves it room above that (meta_fold_space.c (1))
 *      [test_meta_fold:files_fill_what_folds_can_hold].
 *  (6) A fold is as wide as the drives allow.  Narrower ones, of which more is parity, are made
 *      only when room is short and collection has none to win.  Meanwhile collection moves data to
 *      pairs on several drives, and empties narrow folds before others
 *      [test_meta_fold_full:files_take_the_room_of_others_that_go].
 */
#include "base/xor.h"
#include "meta/engine/meta_fold.h"
#include "meta/ops/meta_gc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 32u /* blocks */
#define AGE   1u  /* checkpoints since a zone was closed, while there is room */

enum folder_stage { FOLDER_IDLE, FOLDER_OPEN, FOLDER_COPY, FOLDER_FLUSH, FOLDER_HEAD };

struct meta__folder {
	enum folder_stage stage;
	struct meta__zone_seen head; /* of the parity, as it will be */
	uint32_t twin[META_FOLD_MAX];
	struct meta__io io[META_FOLD_MAX + 1];
	uint32_t in_flight;
	bool failed;              /* one of them did */
	bool differs;             /* ... or the two copies of the member that is read */
	bool lost;                /* a buffer may still be written to: nothing is folded any more */
	uint8_t *sum, *one, *two; /* PIECE blocks each */
	uint32_t at, n;           /* blocks of the zones: the piece */
	uint32_t i;               /* its member that is being read */
	bool summed;              /* the sum of the piece is being written */
	/* when there was nothing to fold: */
	bool tried, tried_short;
	uint64_t tried_epoch;
	uint32_t tried_free, tried_zones, tried_least;
};

uint64_t meta__folder_memory(const struct meta_conf *c)
{
	(void)c;
	return 3 * (uint64_t)PIECE * META__BLOCK;
}

int meta__folder_create(struct meta *m)
{
	struct meta__folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	m->folder = f;
	f->sum = meta__mem_take(m, meta__folder_memory(&m->conf));
	f->one = f->sum + (size_t)PIECE * META__BLOCK;
	f->two = f->one + (size_t)PIECE * META__BLOCK;
	for (uint32_t i = 0; i <= META_FOLD_MAX; i++)
		list_init(&f->io[i].io.link);
	return 0;
}

void meta__folder_destroy(struct meta *m)
{
	free(m->folder);
	m->folder = NULL;
}

bool meta__folder_idle(const struct meta *m)
{
	ASSERT(m->folder->stage <= FOLDER_HEAD);
	return m->folder->stage == FOLDER_IDLE || m->failed;
}

/* ---- when, and what ------------------------------------------------------------------------- */

static uint32_t drive_of(const struct meta *m, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

/* Room is wanted soon: any pair is folded, and folds may be narrower. */
static bool is_short(const struct meta *m)
{
	ASSERT(meta__zones_kept(m) > 0 && m->fold > 0);
	return meta__groups_free(m) + m->zones->coming / 2 <
	       meta__zones_kept(m) + max_u32(2, meta__groups_total(m) / 32);
}

static bool may(const struct meta *m)
{
	ASSERT(!m->fold || m->copies > 1);
	return meta__fold_width(m) > 0 && m->mounted && !m->failed && !m->stopping &&
	       !m->converts && !m->losing && !m->folder->lost && !meta__check_running(m);
}

/* Narrow folds waste room: they are made only if there is no other way to win some (6). */
static uint32_t least_width(const struct meta *m)
{
	const uint32_t most = meta__fold_width(m);

	ASSERT(most == 0 || most >= META__FOLD_MIN);
	return is_short(m) && !meta__gc_hopes(m) ? META__FOLD_MIN : most;
}

static bool is_same(const struct meta *m)
{
	const struct meta__folder *f = m->folder;
	const struct meta__zones *z = m->zones;

	ASSERT(!f->tried || f->tried_epoch <= z->epoch);
	return f->tried && f->tried_epoch == z->epoch && f->tried_free == z->free_total &&
	       f->tried_zones == z->data_zones && f->tried_short == is_short(m) &&
	       f->tried_least == least_width(m);
}

static void tried(struct meta *m)
{
	struct meta__folder *f = m->folder;
	const struct meta__zones *z = m->zones;

	ASSERT(f->stage == FOLDER_IDLE && f->in_flight == 0);
	f->tried = true;
	f->tried_epoch = z->epoch;
	f->tried_free = z->free_total;
	f->tried_zones = z->data_zones;
	f->tried_short = is_short(m);
	f->tried_least = least_width(m);
}

bool meta__folder_hopes(const struct meta *m)
{
	if (likely(m->fold == 0) || !may(m))
		return false;
	return m->folder->stage != FOLDER_IDLE || (is_short(m) && !is_same(m));
}

static bool may_be_folded(const struct meta *m, const struct meta__zone *at, bool is_needed)
{
	const uint32_t zone = (uint32_t)(at - m->zones->zone), twin = meta__twin(m, zone);

	if (at->state != ZONE_CLOSED || at->kind != META__ZONE_DATA || at->live == 0 ||
	    at->pending || at->victim || at->unlike || at->kept || twin == META__ZONE_NONE)
		return false;
	ASSERT(!meta__in_fold(at)); /* it has a twin */
	if (meta__drives_refuse(m, meta__drives_of(m, zone)) < META_DRIVES_MAX ||
	    meta__zone_at(m, twin)->state != ZONE_CLOSED)
		return false;
	return is_needed ||
	       (at->closed + AGE <= m->zones->epoch && at->live >= m->zones->geo.zone_end / 2);
}

/* The pair of each drive that is folded next: it was closed first; and how many pairs it has. */
struct choice {
	uint32_t zone[META_DRIVES_MAX], count[META_DRIVES_MAX];
	uint32_t drives; /* that have one */
};

static void look(const struct meta *m, struct choice *c)
{
	const struct meta__zones *z = m->zones;
	const bool is_needed = is_short(m);

	*c = (struct choice){ 0 };
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		uint32_t d;

		if (!may_be_folded(m, &z->zone[i], is_needed))
			continue;
		d = drive_of(m, i);
		if (c->count[d]++ == 0 || z->zone[i].closed < z->zone[c->zone[d]].closed)
			c->zone[d] = i;
		c->drives += c->count[d] == 1;
	}
	ASSERT(c->drives <= z->geo.ndrives);
}

/* (5) */
static bool has_room(const struct meta *m)
{
	ASSERT(meta__zone_reserve(m, false) > 0);
	return meta__groups_free(m) >= meta__zone_reserve(m, false);
}

/* The emptiest drive for the parity, beside which so many others have a pair.  META_DRIVES_MAX:
 * none. */
static uint32_t parity_drive(const struct meta *m, const struct choice *c, uint32_t width)
{
	const struct meta__zones *z = m->zones;
	uint32_t best = META_DRIVES_MAX;
	uint64_t best_share = 0;

	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		uint64_t share;

		if (!meta__drive_takes(m, d) || z->free_count[d] == 0 ||
		    c->drives - (c->count[d] > 0) < width)
			continue;
		share = ((uint64_t)z->free_count[d] << 32) / z->geo.zone_count[d];
		if (best < META_DRIVES_MAX && share <= best_share)
			continue;
		best = d;
		best_share = share;
	}
	ASSERT(best == META_DRIVES_MAX || meta__zone_next(m, best) != META__ZONE_NONE);
	return best;
}

/* Takes the drives that have most pairs. */
static void choose(struct meta *m, struct choice *c, uint32_t width, uint32_t parity)
{
	struct meta__folder *f = m->folder;

	ASSERT(width >= META__FOLD_MIN && width <= META_FOLD_MAX);
	c->count[drive_of(m, parity)] = 0;
	f->head = (struct meta__zone_seen){ .zone = parity, .kind = META__ZONE_PARITY };
	for (; f->head.members < width; f->head.members++) {
		uint32_t best = 0;

		for (uint32_t d = 1; d < m->zones->geo.ndrives; d++)
			if (c->count[d] > c->count[best])
				best = d;
		ASSERT(c->count[best] > 0 && best != drive_of(m, parity)); /* meta_fold.c (1) */
		c->count[best] = 0;
		f->head.member[f->head.members] = c->zone[best];
		f->head.member_incarnation[f->head.members] =
			meta__zone_at(m, c->zone[best])->incarnation;
		f->twin[f->head.members] = meta__twin(m, c->zone[best]);
		meta__zone_at(m, c->zone[best])->folding = true;
	}
}

static bool begin(struct meta *m)
{
	struct meta__folder *f = m->folder;
	const uint32_t most = meta__fold_width(m), least = least_width(m);
	uint32_t drive = META_DRIVES_MAX, width = most;
	struct choice c;

	ASSERT(f->stage == FOLDER_IDLE && f->in_flight == 0);
	if (is_same(m) || meta__zone_ios_idle(m->zones) == 0)
		return false;
	if (has_room(m)) {
		look(m, &c);
		for (; width >= least && drive == META_DRIVES_MAX; width--)
			drive = parity_drive(m, &c, width);
	}
	if (drive == META_DRIVES_MAX) {
		tried(m);
		return false;
	}
	choose(m, &c, width + 1, meta__zone_next(m, drive));
	f->failed = f->differs = f->summed = false;
	f->at = 1;
	f->i = 0;
	f->stage = FOLDER_OPEN;
	ASSERT(meta__zone_open(m, f->head.zone, META__ZONE_PARITY)); /* (3) */
	return true;
}

/* ---- its end --------------------------------------------------------------------------------- */

static void forget(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->in_flight == 0 && f->stage != FOLDER_IDLE);
	for (uint32_t i = 0; i < f->head.members; i++) {
		ASSERT(meta__zone_at(m, f->head.member[i])->folding); /* (4) */
		meta__zone_at(m, f->head.member[i])->folding = false;
	}
	for (uint32_t i = 0; i < f->head.members; i++)
		meta__zone_settle(m, f->head.member[i]);
	m->zones->naming = NULL;
	f->stage = FOLDER_IDLE;
	f->tried = false;
}

/* Is the header with the members on its way, or durable? */
static bool is_naming(const struct meta *m)
{
	ASSERT(!m->zones->naming || m->zones->naming == &m->folder->head);
	return m->zones->naming != NULL;
}

/* The zone of parity is free again. */
static void give_up(struct meta *m)
{
	struct meta__zone *at = meta__zone_at(m, m->folder->head.zone);

	ASSERT(at->kind == META__ZONE_PARITY && !at->parity);
	forget(m);
	meta__zone_freed(m, (uint32_t)(at - m->zones->zone));
}

/* (4) */
static bool is_over(const struct meta *m)
{
	const struct meta__folder *f = m->folder;

	ASSERT(f->in_flight == 0 && f->head.members >= META__FOLD_MIN);
	if (f->failed || f->lost || m->stopping || meta__check_running(m) ||
	    !meta__drive_takes(m, drive_of(m, f->head.zone)))
		return true;
	for (uint32_t i = 0; i < f->head.members; i++) {
		const struct meta__zone *at = meta__zone_at(m, f->head.member[i]);

		ASSERT(at->state == ZONE_CLOSED && at->folding); /* (4) */
		ASSERT(at->incarnation == f->head.member_incarnation[i]);
		ASSERT(meta__twin(m, f->head.member[i]) == f->twin[i]);
		if (at->live == 0 ||
		    meta__drives_refuse(m, meta__drives_of(m, f->head.member[i])) < META_DRIVES_MAX)
			return true;
		ASSERT(at->pending == 0 && !at->victim);
	}
	return false;
}

/* (1), (4) */
static void say_differs(struct meta *m)
{
	struct meta__folder *f = m->folder;
	struct meta__zone *at = meta__zone_at(m, f->head.member[f->i]);

	ASSERT(f->differs && f->stage == FOLDER_COPY);
	ASSERT(at->folding && !at->unlike);
	at->unlike = true;
	m->zones->unlikes++;
	meta__gc_look_drains(m);
}

static void made(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(m->zones->naming_status == 0 && f->at == m->zones->geo.zone_end); /* (3) */
	ASSERT(meta__zone_at(m, f->head.zone)->incarnation == f->head.incarnation);
	meta__fold_make(m, &f->head);
	for (uint32_t i = 0; i < f->head.members; i++)
		meta__zone_untwin(m, f->head.member[i]);
	forget(m);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void send(struct meta *m, enum meta_io_op op, uint32_t zone, void *buf)
{
	struct meta__folder *f = m->folder;
	struct meta__io *x = &f->io[f->in_flight++];
	const uint64_t baddr = meta__geo_zone_baddr(&m->zones->geo, zone) + f->at;
	const bool flush = op == META_IO_FLUSH;

	ASSERT(f->in_flight <= META_FOLD_MAX + 1);
	ASSERT(flush || (f->at >= 1 && f->at + f->n <= m->zones->geo.zone_end));
	x->kind = META__IO_FOLD;
	x->owner = f;
	x->io.op = op;
	x->io.fua = false;
	x->io.drive = META_BADDR_DRIVE(baddr);
	x->io.block = flush ? 0 : META_BADDR_BLOCK(baddr);
	x->io.nblocks = flush ? 0 : f->n;
	x->io.buf = buf;
	x->io.status = 0;
	x->io.lost = false;
	x->turned = 0;
	meta__io_want(m, x);
}

void meta__folder_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->in_flight > 0 && x->kind == META__IO_FOLD);
	ASSERT(f->stage == FOLDER_COPY || f->stage == FOLDER_FLUSH);
	f->in_flight--;
	f->lost |= x->io.lost;
	if (!x->io.status && !x->turned)
		return;
	f->differs |= x->io.op == META_IO_READ && meta__drive_takes(m, x->io.drive) && !x->io.gone;
	f->failed = true;
}

static void read_member(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->i < f->head.members && f->in_flight == 0);
	ASSERT(!f->summed && f->at < m->zones->geo.zone_end);
	f->n = min_u32(PIECE, m->zones->geo.zone_end - f->at);
	meta__pace_take(m, f->n);
	send(m, META_IO_READ, f->head.member[f->i], f->i ? f->one : f->sum);
	send(m, META_IO_READ, f->twin[f->i], f->two);
}

/* (1) Blocks that were never written to in this use of the zone need not be alike. */
static bool is_alike(const struct meta *m)
{
	const struct meta__folder *f = m->folder;
	const uint32_t used = meta__zone_at(m, f->head.member[f->i])->used;
	const uint32_t n = used > f->at ? min_u32(f->n, used - f->at) : 0;

	ASSERT(f->n > 0 && n <= f->n);
	ASSERT(used <= m->zones->geo.zone_end);
	return memcmp(f->i ? f->one : f->sum, f->two, (size_t)n * META__BLOCK) == 0;
}

/* The reads of a member are here, or the write of a sum is done. */
static void copied(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->stage == FOLDER_COPY && !f->failed);
	if (f->summed) {
		f->summed = false;
		f->i = 0;
		f->at += f->n;
		return;
	}
	if (!is_alike(m)) {
		f->differs = f->failed = true;
		return;
	}
	if (f->i > 0)
		xor_into(f->sum, f->one, (size_t)f->n * META__BLOCK);
	if (++f->i < f->head.members)
		return;
	f->summed = true;
	m->zones->parity_blocks += f->n;
	send(m, META_IO_WRITE, f->head.zone, f->sum);
}

/* Returns whether there is more to do at once. */
static bool copy(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->in_flight == 0 && f->at <= m->zones->geo.zone_end);
	if (f->n > 0)
		copied(m);
	f->n = f->summed ? f->n : 0;
	if (f->failed || f->in_flight)
		return f->failed;
	if (f->at == m->zones->geo.zone_end) {
		f->stage = FOLDER_FLUSH;
		for (uint32_t i = 0; i <= f->head.members; i++) { /* (2) */
			const uint32_t zone =
				i < f->head.members ? f->head.member[i] : f->head.zone;

			if (m->conf.drive[drive_of(m, zone)].volatile_cache)
				send(m, META_IO_FLUSH, zone, NULL);
		}
		return f->in_flight == 0;
	}
	if (meta__pace_extents(m) == 0 && !is_short(m))
		return false;
	read_member(m);
	return false;
}

/* (3) */
static bool write_head(struct meta *m)
{
	struct meta__folder *f = m->folder;
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, f->head.zone);

	ASSERT(f->stage == FOLDER_HEAD && !is_naming(m));
	f->head.incarnation = at->incarnation + 1;
	f->head.epoch = m->epoch;
	f->head.pair = z->pair_last + 1;
	ASSERT(!at->parity && at->kind == META__ZONE_PARITY); /* (3) */
	if (!meta__zone_name(m, &f->head))
		return false;
	if (at->incarnation == z->wear_least && z->wear_least_zones)
		z->wear_least_zones--;
	at->incarnation = f->head.incarnation;
	z->wear_most = max_u64(z->wear_most, at->incarnation);
	z->pair_last = f->head.pair;
	return true;
}

/* It may be there, or not, and the drive cannot be lost: nothing may become free any more. */
static wk_cold void cannot_write(struct meta *m)
{
	ASSERT(is_naming(m));
	meta__error(m, "zone %u: its header could not be written", m->folder->head.zone);
	meta__fail(m);
}

static bool head(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->stage == FOLDER_HEAD && f->in_flight == 0);
	if (!is_naming(m)) {
		(void)write_head(m);
		return false;
	}
	if (m->zones->naming_status == 0)
		made(m);
	else if (meta__drive_lose(m, drive_of(m, f->head.zone))) /* (4) */
		give_up(m);
	else
		cannot_write(m);
	return true;
}

static bool step(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->in_flight == 0 && !m->failed);
	ASSERT(f->stage == FOLDER_IDLE ||
	       meta__zone_at(m, f->head.zone)->kind == META__ZONE_PARITY);
	switch (f->stage) {
	case FOLDER_IDLE:
		return may(m) && begin(m);
	case FOLDER_OPEN:
		f->stage = FOLDER_COPY;
		f->n = 0;
		return true;
	case FOLDER_COPY:
		return copy(m);
	case FOLDER_FLUSH:
		f->stage = FOLDER_HEAD;
		return true;
	case FOLDER_HEAD:
		return head(m);
	}
	UNREACHABLE();
}

bool meta__folder_turn(struct meta *m)
{
	struct meta__folder *f = m->folder;

	if (likely(m->fold == 0) || m->failed || f->in_flight)
		return false;
	if (f->stage == FOLDER_IDLE)
		return step(m);
	if (meta__zone_at(m, f->head.zone)->state != ZONE_CLOSED ||
	    (is_naming(m) && m->zones->naming_status == -EAGAIN))
		return false;              /* its header is being written */
	if (!is_naming(m) && is_over(m)) { /* (4) */
		if (f->differs)
			say_differs(m);
		give_up(m);
		return true;
	}
	return step(m);
}
