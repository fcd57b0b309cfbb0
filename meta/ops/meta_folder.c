/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Folding: the firsts of some groups become a fold, and their twins become free (meta_fold.c).
 *
 *   IDLE --pick--> OPEN ------> COPY ----------------> FLUSH -----> HEAD ------> the ring, IDLE
 *                  headers of    of each 32 blocks:     all drives  header of P,    twins are free
 *                  P and Q, with firsts and twins read, of the fold then of Q, with after the next
 *                  no members    compared, summed;              the members      checkpoint
 *                                the sums written
 *
 * One fold at a time, and of it one piece at a time: on NVMe drives that is more than enough to
 * keep up, and clients hardly notice it.  The pace is that of a rebuild (meta_pace.c).
 *
 *  (1) All copies of all blocks are read and compared, and what was compared is summed: so a block
 *      that has rotted in one copy is not folded into the parity while its good copy is lost.  A
 *      zone of which they differ, by rot or since a crash or a mount closed it early, is `unlike`:
 *      collection moves its live data, with its checksums, to others [test_meta_fold:rot].
 *  (2) All drives of the fold are flushed between the last read and the header: a block that was
 *      read from a drive's cache, of a write that no log names, may not be another one after a
 *      power cut [test_meta_fold:power_cuts_while_folds_are_made].
 *  (3) The headers without members are durable before anything is summed into the zones, and those
 *      with members, in a higher incarnation, after it, that of P first.  So headers are true at
 *      any time (meta_fold.c (3)), and until all are durable the groups are whole: a mount that can
 *      read the headers of both P and Q takes the fold if both have members (meta_folds.c (4)).
 *  (4) A fold is given up if a zone of it is empty, a drive leaves, or a check begins, but not once
 *      a header with members is on its way: a header that the next mount believes must be true,
 *      and zones that are free may be deallocated.  So its zones do not become free while they are
 *      folded, a drive that does not take its header is lost, and a check waits for the folder.
 *      The fold is made if one header with members is on a drive that can be read.  If the drive of
 *      P is lost, Q's header is not written: more zones could be lost by then than parity makes up
 *      for, and the groups are still whole (meta_needed.c (5))
 *      [test_meta_fold_late:zones_die_while_the_header_is_written, check_waits_for_folds,
 *      test_meta_double:drives_of_p_and_data_are_lost_before_the_header_of_q].
 *  (5) The zones of parity are taken from the reserve, if that frees others, but not from what
 *      pages and the log may need: collection leaves room above that (meta_fold_space.c (1))
 *      [test_meta_fold:files_fill_what_folds_can_hold].
 *  (6) A fold is as wide as the drives allow.  Narrower ones, of which more is parity, are made
 *      only when room is short and collection has none to win.  Meanwhile collection moves data to
 *      pairs on several drives, and empties narrow folds before others
 *      [test_meta_fold_full:files_take_the_room_of_others_that_go].
 */
#include "base/gf.h"
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_fold.h"
#include "meta/ops/meta_gc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE       32u /* blocks */
#define PIECE_BYTES ((uint64_t)PIECE * META__BLOCK)
#define BUFFERS     (META_FOLD_PARITIES + META_COPIES_MAX)
#define AGE         1u /* checkpoints since a zone was closed, while there is room */

enum folder_stage { FOLDER_IDLE, FOLDER_OPEN, FOLDER_COPY, FOLDER_FLUSH, FOLDER_HEAD };

struct meta__folder {
	enum folder_stage stage;
	struct meta__zone_seen head[META_FOLD_PARITIES]; /* of P and Q, as they will be */
	uint32_t heads;                                  /* that there are: one or two, */
	uint32_t named;                                  /* ... whose writing has begun, */
	bool taken;                                      /* ... and one of them is durable */
	uint32_t twin[META_FOLD_MAX];
	struct meta__io io[META_FOLD_ZONES];
	uint32_t in_flight;
	bool failed;  /* one of them did */
	bool differs; /* ... or the copies of the member that is read */
	bool lost;    /* a buffer may still be written to: nothing is folded any more */
	uint8_t *sum[META_FOLD_PARITIES], *copy[META_COPIES_MAX]; /* PIECE blocks each */
	uint32_t at, n;  /* blocks of the zones: the piece */
	uint32_t i;      /* its member that is being read */
	uint32_t copies; /* ... in so many copies */
	bool summed;     /* the sums of the piece are being written */
	/* when there was nothing to fold: */
	bool tried, tried_short;
	uint64_t tried_epoch;
	uint32_t tried_free, tried_zones, tried_least;
};

uint64_t meta__folder_memory(const struct meta_conf *c)
{
	(void)c;
	return BUFFERS * PIECE_BYTES;
}

int meta__folder_create(struct meta *m)
{
	struct meta__folder *f = calloc(1, sizeof(*f));
	uint8_t *mem;

	if (!f)
		return -ENOMEM;
	m->folder = f;
	mem = meta__mem_take(m, meta__folder_memory(&m->conf));
	for (uint32_t i = 0; i < META_FOLD_PARITIES; i++, mem += PIECE_BYTES)
		f->sum[i] = mem;
	for (uint32_t i = 0; i < META_COPIES_MAX; i++, mem += PIECE_BYTES)
		f->copy[i] = mem;
	for (uint32_t i = 0; i < META_FOLD_ZONES; i++)
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
	const uint32_t zone = (uint32_t)(at - m->zones->zone);
	uint32_t twin[META__TWINS_MAX], twins;

	if (at->state != ZONE_CLOSED || at->kind != META__ZONE_DATA || at->live == 0 ||
	    at->pending || at->victim || at->unlike || at->near || at->kept || at->lone ||
	    !at->twin)
		return false;
	ASSERT(!meta__in_fold(at)); /* it has a twin */
	twins = meta__group_others(m, zone, twin);
	if (meta__drives_refuse(m, meta__drives_of(m, zone)) < META_DRIVES_MAX)
		return false;
	for (uint32_t i = 0; i < twins; i++)
		if (meta__zone_at(m, twin[i])->state != ZONE_CLOSED)
			return false;
	return is_needed ||
	       (at->closed + AGE <= m->zones->epoch && at->live >= m->zones->geo.zone_end / 2);
}

/* The group of each domain that is folded next: it was closed first; and how many it has.  A domain
 * has the number of its first drive (meta_domain.c); most have no other. */
struct choice {
	uint32_t zone[META_DRIVES_MAX], count[META_DRIVES_MAX];
	uint32_t domains; /* that have one, and are not for the parity */
	uint32_t parity[META_FOLD_PARITIES], parities;
};

static uint32_t domain_of(const struct meta *m, uint32_t drive)
{
	ASSERT(meta__mates(m, drive));
	return (uint32_t)__builtin_ctzll(meta__mates(m, drive));
}

static void look(const struct meta *m, struct choice *c)
{
	const struct meta__zones *z = m->zones;
	const bool is_needed = is_short(m);

	*c = (struct choice){ 0 };
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		uint32_t d;

		if (!may_be_folded(m, &z->zone[i], is_needed))
			continue;
		d = domain_of(m, drive_of(m, i));
		if (c->count[d]++ == 0 || z->zone[i].closed < z->zone[c->zone[d]].closed)
			c->zone[d] = i;
		c->domains += c->count[d] == 1;
	}
	ASSERT(c->domains <= z->geo.ndrives);
}

/* (5) */
static bool has_room(const struct meta *m)
{
	ASSERT(meta__zone_reserve(m, false) > 0);
	return meta__groups_free(m) + 1 >= meta__zone_reserve(m, false) + meta__fold_parities(m);
}

static bool is_taken(const struct meta *m, const struct choice *c, uint32_t drive)
{
	bool is = false;

	for (uint32_t i = 0; i < c->parities; i++)
		is |= meta__mates(m, c->parity[i]) >> drive & 1;
	return is;
}

/* Takes the emptiest drive for a parity, beside whose domain so many others have a group.  False:
 * none. */
static bool take_parity(const struct meta *m, struct choice *c, uint32_t width)
{
	const struct meta__zones *z = m->zones;
	uint32_t best = META_DRIVES_MAX;
	uint64_t best_share = 0;

	ASSERT(c->parities < META_FOLD_PARITIES);
	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		uint64_t share;

		if (!meta__drive_takes(m, d) || z->free_count[d] == 0 || is_taken(m, c, d) ||
		    c->domains < width + (c->count[domain_of(m, d)] > 0))
			continue;
		share = ((uint64_t)z->free_count[d] << 32) / z->geo.zone_count[d];
		if (best < META_DRIVES_MAX && share <= best_share)
			continue;
		best = d;
		best_share = share;
	}
	if (best == META_DRIVES_MAX)
		return false;
	ASSERT(meta__zone_next(m, best) != META__ZONE_NONE);
	c->parity[c->parities++] = best;
	c->domains -= c->count[domain_of(m, best)] > 0;
	return true;
}

static bool take_parities(const struct meta *m, struct choice *c, uint32_t width)
{
	const struct choice all = *c;

	ASSERT(c->parities == 0 && width >= META__FOLD_MIN);
	while (c->parities < meta__fold_parities(m))
		if (!take_parity(m, c, width)) {
			*c = all;
			return false;
		}
	return true;
}

/* Takes the domains that have most groups. */
static void choose(struct meta *m, struct choice *c, uint32_t width)
{
	struct meta__folder *f = m->folder;
	struct meta__zone_seen head = { .kind = META__ZONE_PARITY };

	ASSERT(width >= META__FOLD_MIN && width <= META_FOLD_MAX);
	for (uint32_t i = 0; i < c->parities; i++)
		c->count[domain_of(m, c->parity[i])] = 0;
	for (; head.members < width; head.members++) {
		uint32_t best = 0;

		for (uint32_t d = 1; d < m->zones->geo.ndrives; d++)
			if (c->count[d] > c->count[best])
				best = d;
		ASSERT(c->count[best] > 0 && !is_taken(m, c, best)); /* meta_domain.c (1) */
		c->count[best] = 0;
		head.member[head.members] = c->zone[best];
		head.member_incarnation[head.members] =
			meta__zone_at(m, c->zone[best])->incarnation;
		f->twin[head.members] = meta__twin(m, c->zone[best]);
		meta__zone_at(m, c->zone[best])->folding = true;
	}
	f->heads = c->parities;
	for (uint32_t i = 0; i < f->heads; i++) {
		f->head[i] = head;
		f->head[i].role = i;
		f->head[i].zone = meta__zone_next(m, c->parity[i]);
	}
	for (uint32_t i = 0; f->heads > 1 && i < f->heads; i++)
		f->head[i].twin = f->head[i ^ 1].zone + 1;
}

static bool begin(struct meta *m)
{
	struct meta__folder *f = m->folder;
	const uint32_t least = least_width(m);
	uint32_t width = meta__fold_width(m);
	bool found = false;
	struct choice c;

	ASSERT(f->stage == FOLDER_IDLE && f->in_flight == 0);
	if (is_same(m) || meta__zone_ios_idle(m->zones) < meta__fold_parities(m))
		return false;
	if (has_room(m)) {
		look(m, &c);
		for (; width >= least && !found; width--)
			found = take_parities(m, &c, width);
	}
	if (!found) {
		tried(m);
		return false;
	}
	choose(m, &c, width + 1);
	f->failed = f->differs = f->summed = f->taken = false;
	f->at = 1;
	f->i = f->named = 0;
	f->stage = FOLDER_OPEN;
	for (uint32_t i = 0; i < f->heads; i++)
		ASSERT(meta__zone_open(m, f->head[i].zone, META__ZONE_PARITY)); /* (3) */
	return true;
}

/* ---- its end --------------------------------------------------------------------------------- */

static void forget(struct meta *m)
{
	struct meta__folder *f = m->folder;
	const struct meta__zone_seen *head = &f->head[0];

	ASSERT(f->in_flight == 0 && f->stage != FOLDER_IDLE);
	for (uint32_t i = 0; i < head->members; i++) {
		ASSERT(meta__zone_at(m, head->member[i])->folding); /* (4) */
		meta__zone_at(m, head->member[i])->folding = false;
	}
	for (uint32_t i = 0; i < head->members; i++)
		meta__zone_settle(m, head->member[i]);
	memset(m->zones->naming, 0, sizeof(m->zones->naming));
	f->stage = FOLDER_IDLE;
	f->tried = false;
}

/* Is a header with the members on its way, or durable? */
static bool is_naming(const struct meta *m)
{
	const struct meta__folder *f = m->folder;

	for (uint32_t i = 0; i < META_FOLD_PARITIES; i++)
		ASSERT(m->zones->naming[i] == (i < f->named ? &f->head[i] : NULL));
	return f->named > 0;
}

/* The zones of parity are free again. */
static void give_up(struct meta *m)
{
	const struct meta__folder *f = m->folder;

	forget(m);
	for (uint32_t i = 0; i < f->heads; i++) {
		const struct meta__zone *at = meta__zone_at(m, f->head[i].zone);

		ASSERT(at->kind == META__ZONE_PARITY && !at->parity);
		meta__zone_freed(m, f->head[i].zone);
	}
}

/* (4) */
static bool is_over(const struct meta *m)
{
	const struct meta__folder *f = m->folder;
	const struct meta__zone_seen *head = &f->head[0];

	ASSERT(f->in_flight == 0 && head->members >= META__FOLD_MIN);
	if (f->failed || f->lost || m->stopping || meta__check_running(m))
		return true;
	for (uint32_t i = 0; i < f->heads; i++)
		if (!meta__drive_takes(m, drive_of(m, f->head[i].zone)))
			return true;
	for (uint32_t i = 0; i < head->members; i++) {
		const struct meta__zone *at = meta__zone_at(m, head->member[i]);

		ASSERT(at->state == ZONE_CLOSED && at->folding); /* (4) */
		ASSERT(at->incarnation == head->member_incarnation[i]);
		ASSERT(meta__twin(m, head->member[i]) == f->twin[i]);
		if (at->live == 0 ||
		    meta__drives_refuse(m, meta__drives_of(m, head->member[i])) < META_DRIVES_MAX)
			return true;
		ASSERT(at->pending == 0 && !at->victim);
	}
	return false;
}

/* (1), (4) */
static void say_differs(struct meta *m)
{
	struct meta__folder *f = m->folder;
	struct meta__zone *at = meta__zone_at(m, f->head[0].member[f->i]);

	ASSERT(f->differs && f->stage == FOLDER_COPY);
	ASSERT(at->folding && !at->unlike);
	at->unlike = true;
	m->zones->unlikes++;
	meta__gc_look_drains(m);
}

static void made(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->taken && f->at == m->zones->geo.zone_end); /* (3) */
	for (uint32_t i = 0; i < f->named; i++) /* that of Q is not if its drive was lost before */
		ASSERT(meta__zone_at(m, f->head[i].zone)->incarnation == f->head[i].incarnation);
	meta__fold_make(m, &f->head[0]);
	for (uint32_t i = 0; i < f->head[0].members; i++)
		meta__zone_untwin(m, f->head[0].member[i]);
	forget(m);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void send(struct meta *m, enum meta_io_op op, uint32_t zone, void *buf)
{
	struct meta__folder *f = m->folder;
	struct meta__io *x = &f->io[f->in_flight++];
	const uint64_t baddr = meta__geo_zone_baddr(&m->zones->geo, zone) + f->at;
	const bool flush = op == META_IO_FLUSH;

	ASSERT(f->in_flight <= META_FOLD_ZONES);
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

/* A copy of the first member goes where P is summed up. */
static uint8_t *bytes_of(const struct meta__folder *f, uint32_t copy)
{
	ASSERT(copy < f->copies);
	return copy == 0 && f->i == 0 ? f->sum[0] : f->copy[copy];
}

static void read_member(struct meta *m)
{
	struct meta__folder *f = m->folder;
	uint32_t twin[META__TWINS_MAX];

	ASSERT(f->i < f->head[0].members && f->in_flight == 0);
	ASSERT(!f->summed && f->at < m->zones->geo.zone_end);
	f->n = min_u32(PIECE, m->zones->geo.zone_end - f->at);
	f->copies = 1 + meta__group_others(m, f->head[0].member[f->i], twin);
	ASSERT(f->copies == m->copies && twin[0] == f->twin[f->i]);
	meta__pace_take(m, f->n);
	send(m, META_IO_READ, f->head[0].member[f->i], bytes_of(f, 0));
	for (uint32_t i = 1; i < f->copies; i++)
		send(m, META_IO_READ, twin[i - 1], bytes_of(f, i));
}

/* (1) Blocks that were never written to in this use of the zone need not be alike. */
static bool is_alike(const struct meta *m)
{
	const struct meta__folder *f = m->folder;
	const uint32_t used = meta__zone_at(m, f->head[0].member[f->i])->used;
	const uint32_t n = used > f->at ? min_u32(f->n, used - f->at) : 0;
	bool alike = true;

	ASSERT(f->n > 0 && n <= f->n);
	ASSERT(used <= m->zones->geo.zone_end);
	for (uint32_t i = 1; i < f->copies; i++)
		alike &= memcmp(bytes_of(f, 0), bytes_of(f, i), (size_t)n * META__BLOCK) == 0;
	return alike;
}

/* Adds the member to the sums: meta_fold_terms.c. */
static void sum_up(struct meta__folder *f)
{
	const size_t bytes = (size_t)f->n * META__BLOCK;

	ASSERT(f->n > 0 && f->heads >= 1 && f->heads <= META_FOLD_PARITIES);
	if (f->i > 0)
		xor_into(f->sum[0], f->copy[0], bytes);
	if (likely(f->heads == 1))
		return;
	if (f->i > 0)
		gf_add(f->sum[1], f->copy[0], bytes, gf_power(f->i));
	else
		memcpy(f->sum[1], f->sum[0], bytes);
}

/* The reads of a member are here, or the writes of the sums are done. */
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
	sum_up(f);
	if (++f->i < f->head[0].members)
		return;
	f->summed = true;
	m->zones->parity_blocks += f->n * f->heads;
	for (uint32_t i = 0; i < f->heads; i++)
		send(m, META_IO_WRITE, f->head[i].zone, f->sum[i]);
}

static void flush(struct meta *m, uint32_t zone)
{
	ASSERT(m->folder->stage == FOLDER_FLUSH);
	if (m->conf.drive[drive_of(m, zone)].volatile_cache)
		send(m, META_IO_FLUSH, zone, NULL);
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
		for (uint32_t i = 0; i < f->head[0].members; i++) /* (2) */
			flush(m, f->head[0].member[i]);
		for (uint32_t i = 0; i < f->heads; i++)
			flush(m, f->head[i].zone);
		return f->in_flight == 0;
	}
	if (meta__pace_extents(m) == 0 && !is_short(m))
		return false;
	read_member(m);
	return false;
}

/* (3) Of P, or of Q when that of P is durable. */
static void write_head(struct meta *m)
{
	struct meta__folder *f = m->folder;
	struct meta__zones *z = m->zones;
	struct meta__zone_seen *head = &f->head[f->named];
	struct meta__zone *at = meta__zone_at(m, head->zone);

	ASSERT(f->stage == FOLDER_HEAD && f->named < f->heads);
	head->incarnation = at->incarnation + 1;
	head->epoch = m->epoch;
	head->pair = f->named ? f->head[0].pair : z->pair_last + 1;
	ASSERT(!at->parity && at->kind == META__ZONE_PARITY); /* (3) */
	if (!meta__zone_name(m, head))
		return;
	if (at->incarnation == z->wear_least && z->wear_least_zones)
		z->wear_least_zones--;
	at->incarnation = head->incarnation;
	z->wear_most = max_u64(z->wear_most, at->incarnation);
	z->pair_last = max_u64(z->pair_last, head->pair);
	f->named++;
}

/* It may be there, or not, and the drive cannot be lost: nothing may become free any more. */
static wk_cold void cannot_write(struct meta *m, uint32_t zone)
{
	ASSERT(is_naming(m));
	meta__error(m, "zone %u: its header could not be written", zone);
	meta__fail(m);
}

/* (4) Is a header with members on a drive that can be read? */
static bool any_counts(const struct meta *m)
{
	const struct meta__folder *f = m->folder;
	bool any = false;

	ASSERT(f->named > 0);
	for (uint32_t i = 0; i < f->named; i++) /* a drive that did not take it is lost */
		any |= meta__drive_reads(m, drive_of(m, f->head[i].zone));
	return f->taken && any;
}

/* (4) Is there another header to be written?  Not on a drive that has been lost since. */
static bool has_next(const struct meta *m)
{
	const struct meta__folder *f = m->folder;

	ASSERT(f->named <= f->heads);
	if (f->named == 0)
		return true;
	return f->named < f->heads && any_counts(m) &&
	       meta__drive_reads(m, drive_of(m, f->head[f->named].zone));
}

static bool head(struct meta *m)
{
	struct meta__folder *f = m->folder;
	const uint32_t zone = f->head[f->named ? f->named - 1 : 0].zone;

	ASSERT(f->stage == FOLDER_HEAD && f->in_flight == 0);
	if (is_naming(m) && m->zones->naming_status == 0)
		f->taken = true;
	else if (is_naming(m) && !meta__drive_lose(m, drive_of(m, zone))) { /* (4) */
		cannot_write(m, zone);
		return true;
	}
	if (has_next(m)) {
		write_head(m);
		return false;
	}
	if (any_counts(m))
		made(m);
	else
		give_up(m);
	return true;
}

static bool step(struct meta *m)
{
	struct meta__folder *f = m->folder;

	ASSERT(f->in_flight == 0 && !m->failed);
	ASSERT(f->stage == FOLDER_IDLE ||
	       meta__zone_at(m, f->head[0].zone)->kind == META__ZONE_PARITY);
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

static bool is_opening(const struct meta *m)
{
	const struct meta__folder *f = m->folder;

	for (uint32_t i = 0; i < f->heads; i++)
		if (meta__zone_at(m, f->head[i].zone)->state != ZONE_CLOSED)
			return true;
	return false;
}

bool meta__folder_turn(struct meta *m)
{
	struct meta__folder *f = m->folder;

	if (likely(m->fold == 0) || m->failed || f->in_flight)
		return false;
	if (f->stage == FOLDER_IDLE)
		return step(m);
	if (is_opening(m) || (is_naming(m) && m->zones->naming_status == -EAGAIN))
		return false;              /* a header is being written */
	if (!is_naming(m) && is_over(m)) { /* (4) */
		if (f->differs)
			say_differs(m);
		give_up(m);
		return true;
	}
	return step(m);
}
