/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Checkpoints: changes in the log and in memory become pages and roots, and the log is trimmed.
 *
 *   idle --> carry --freeze--> pages ---------> flush ---------> roots --------> idle
 *            receipts          written when     all drives that  copy 0, then    zones and log
 *            go into the       the log that     have a cache     then the next,  blocks are free
 *            log again         changed them                      by FUA          again
 *                              is durable
 *
 * Invariants:
 *
 *  (1) A root is written only when all pages that it names are durable, and the log up to the
 *      freeze is: so no root holds half of a transaction whose other half is lost.
 *  (2) The log is trimmed, and zones are given back, only when all roots of the freeze are durable.
 *  (3) Records that are logged after the freeze are not covered by its roots: shard.seq in each
 *      root says which are [test_meta_ckpt:what_changes_after_the_freeze_is_not_in_its_roots].
 *  (4) Pages that become dirty after the freeze belong to the next generation.
 *  (5) Carried receipts, and everything after them, are not trimmed
 *      [test_meta_receipt:a_mount_that_is_cut_off_loses_none].
 *
 * Names come in random order, so each dirty leaf may have a page above it that is dirty for this
 * leaf alone.  Therefore leaves are written early, before a checkpoint, and are clean then; the
 * pages above are written once for many of them:
 *
 *   of the pages that may be dirty:
 *   |--- above leaves ---|--- leaves ---|--- as much room --|       15/16 above leaves:
 *                          more of them: those that are           a checkpoint
 *                          dirty for longest are written
 *
 * So leaves wait for other changes, however many pages above them are dirty, and a leaf that
 * changes all the time is not written with each block of the log.
 *
 *  (6) A leaf that was written early is, on the drives, not part of any tree: no root and no page
 *      above names it before a checkpoint; until then its changes are in the log
 *      [test_meta_ckpt:elsewhere_leaves_are_written_early_and_nothing_names_them].
 *  (7) A mount that replays the log meets about EARLY_MAX of them, and the dirty pages; during a
 *      checkpoint those of two generations; while checkpoints are held back, as many as the
 *      log has room for.
 *      There may be several of one leaf, of the same generation: their order says which is newer
 *      [test_meta_ckpt:a_leaf_that_changes_while_it_is_written_early_is_found_as_it_was_changed].
 *  (8) A leaf that changes again after that has its second new place in a generation.  So none is
 *      written early when zones are short: then a checkpoint begins at half
 *      [test_meta_ckpt:where_zones_are_short_starts_when_half_of_what_may_be_is_dirty].
 *  (9) Each drive is marked with the checkpoint before a root records the mark (meta_mark.c)
 *      [test_meta_mark:power_cut_puts_no_drive_behind].
 * (10) While the loss of a drive is not recorded no checkpoint begins to write roots, and none
 *      ends: the drive may be back at the next mount.  It may have missed pages that a root names
 *      [test_meta_pair_moves:checkpoint_is_cut_before_a_loss_is_recorded], or roots: then what its
 *      older ones name must be there
 *      [test_meta_loss_log:no_checkpoint_ends_before_a_loss_is_recorded].
 */
#include "meta/engine/meta_pair.h"
#include "meta/engine/meta_lend.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>

#define CKPT_WRITES_MAX 32u /* pages in flight                                        */
#define CKPT_SEALS_MAX  8u  /* pages sealed in one step: 1.5 us each, others are waiting */
#define CKPT_ROOTS_MAX  16u
#define EARLY_MAX       50000u /* a mount reads as many in some seconds: (7) */

enum ckpt_stage { CKPT_IDLE, CKPT_CARRY, CKPT_PAGES, CKPT_FLUSH, CKPT_ROOTS };

struct ckpt_root {
	struct meta__io io;
	void *block;
	bool busy;
	uint32_t shard;
	uint32_t copy, written; /* the one that is written now; how many are */
	uint32_t copies;
	uint64_t baddr[META__ROOT_COPIES]; /* in the order of writing */
};

struct meta__ckpt {
	enum ckpt_stage stage;
	bool wanted;
	bool pressed;     /* an operation waits for clean leaves        */
	bool held;        /* the roots are on their way to another drive: none begins */
	uint64_t freezes; /* of this mount: the low half of generations */
	uint32_t order;   /* of the place that a page got last          */
	uint64_t log_seq; /* of the newest record at the freeze         */
	uint64_t done;    /* checkpoints                                */
	uint64_t early_done;
	uint32_t in_flight;
	uint32_t early, early_in_flight; /* leaves, of the generation of now */
	uint32_t next_shard;             /* whose root may still have to be written  */
	struct ckpt_root root[CKPT_ROOTS_MAX];
	struct meta__io flush[META_DRIVES_MAX];
};

uint64_t meta__ckpt_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)CKPT_ROOTS_MAX * BLOCK_SIZE;
}

int meta__ckpt_create(struct meta *m)
{
	struct meta__ckpt *c = calloc(1, sizeof(*c));
	uint8_t *blocks;

	if (!c)
		return -ENOMEM;
	m->ckpt = c;
	blocks = meta__mem_take(m, meta__ckpt_memory(&m->conf));
	for (uint32_t i = 0; i < CKPT_ROOTS_MAX; i++) {
		c->root[i].block = blocks + (uint64_t)i * BLOCK_SIZE;
		list_init(&c->root[i].io.io.link);
	}
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++)
		list_init(&c->flush[i].io.link);
	return 0;
}

void meta__ckpt_destroy(struct meta *m)
{
	free(m->ckpt);
	m->ckpt = NULL;
}

uint64_t meta__ckpt_gen(const struct meta *m)
{
	DASSERT(!m->home);
	DASSERT(m->epoch < 1ull << 32);
	return m->epoch << 32 | m->ckpt->freezes;
}

uint32_t meta__ckpt_order(struct meta *m)
{
	ASSERT(m->ckpt->order < UINT32_MAX);
	return ++m->ckpt->order;
}

void meta__ckpt_want(struct meta *m)
{
	m->ckpt->wanted = true;
}

void meta__ckpt_dirtied(struct meta *m)
{
	if (meta__cache_uppers_dirty(m) || m->ckpt->early >= EARLY_MAX ||
	    (meta__cache_half_dirty(m) && meta__zone_short(m)))
		m->ckpt->wanted = true;
}

void meta__ckpt_make_room(struct meta *m, uint32_t pages)
{
	struct meta__ckpt *c = m->ckpt;

	if (meta__cache_leaves_room(m, pages) && !meta__zone_short(m) &&
	    (c->early_in_flight || meta__cache_leaves_dirty(m)))
		c->pressed = true;
	else
		c->wanted = true;
}

void meta__ckpt_hold(struct meta *m, bool hold)
{
	ASSERT(m->ckpt->held != hold);
	m->ckpt->held = hold;
}

bool meta__ckpt_was_early(const struct meta *m)
{
	return m->ckpt->early > 0;
}

static bool is_due(const struct meta *m)
{
	return !m->ckpt->held && (m->ckpt->wanted || meta__log_wants_ckpt(m));
}

uint32_t meta__ckpt_order_now(const struct meta *m)
{
	return m->ckpt->order;
}

void meta__ckpt_order_least(struct meta *m, uint32_t order)
{
	m->ckpt->order = max_u32(m->ckpt->order, order);
}

bool meta__ckpt_freezes(const struct meta *m)
{
	return m->ckpt->stage == CKPT_CARRY || (m->ckpt->stage == CKPT_IDLE && is_due(m));
}

bool meta__ckpt_running(const struct meta *m)
{
	return m->ckpt->stage != CKPT_IDLE;
}

void meta__ckpt_stat(const struct meta *m, struct meta_statfs *out)
{
	out->checkpoints = m->ckpt->done;
	out->leaves_early = m->ckpt->early_done;
}

static wk_cold void fail(struct meta *m, const char *what, const struct meta_io *io)
{
	meta__error(m, "checkpoint: %s of drive %u, block %llu failed: %d", what, io->drive,
		    (unsigned long long)io->block, io->status);
	meta__fail(m);
}

/* ---- idle -> pages ----------------------------------------------------------------------- */

static void freeze(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;

	ASSERT(!m->lend || m->lend->away_count == 0); /* meta_lend.c (3) */
	ASSERT(c->stage == CKPT_CARRY);               /* (4) */
	ASSERT(c->freezes < UINT32_MAX);
	ASSERT(c->in_flight == 0);
	(void)meta__log_turn(m); /* later records go into later blocks: (2) */
	c->log_seq = meta__log_last(m);
	for (uint32_t i = 0; i < m->nshards; i++) {
		struct meta__shard *s = &m->shard[i];

		ASSERT(!s->root_pending);
		if (!s->changed)
			continue;
		s->changed = false;
		s->root_pending = true;
		s->frozen = (struct meta__root){
			.root_baddr = s->root_baddr,
			.root_gen = s->root_gen,
			.seq = s->seq,
			.log_seq = c->log_seq,
			.uniq_next = s->uniq_next,
			.dir_next = s->dir_next,
			.files = s->files,
			.dirs = s->dirs,
			.height = s->height,
		};
	}
	meta__cache_freeze(m);
	c->in_flight = c->early_in_flight; /* they are this checkpoint's: (1) */
	c->early = c->early_in_flight = 0;
	meta__zone_freeze(m);
	c->freezes++; /* (4) */
	meta__marks_begin(m, meta__ckpt_gen(m));
	c->order = 0;
	c->wanted = false;
	c->next_shard = 0;
	c->stage = CKPT_PAGES;
}

/* ---- pages -> flush ---------------------------------------------------------------------- */

/* True: more can go out at once. */
static bool write_pages(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;
	uint64_t durable = meta__log_durable(m);
	struct meta__frame *f;

	for (uint32_t n = 0; n < CKPT_SEALS_MAX && c->in_flight < CKPT_WRITES_MAX; n++) {
		f = meta__cache_frozen(m, durable);
		ASSERT(!f || f->gen < meta__ckpt_gen(m)); /* (4) */
		if (!f)
			return false;
		c->in_flight++;
		meta__io_want(m, &f->io);
	}
	return c->in_flight < CKPT_WRITES_MAX;
}

/* (6); whatever the checkpoint does. */
static bool write_early(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;
	uint64_t durable = meta__log_durable(m);
	const bool pressed = c->pressed && c->early_in_flight == 0;
	struct meta__frame *f;

	c->pressed = false; /* operations that still wait ask again in each turn */
	for (uint32_t n = 0; n < CKPT_SEALS_MAX && c->early_in_flight < CKPT_WRITES_MAX; n++) {
		if (!(pressed || meta__cache_early_due(m)) || meta__zone_short(m)) /* (8) */
			return false;
		f = meta__cache_early(m, durable);
		if (!f)
			return false;
		ASSERT(f->level == 0); /* (6) */
		ASSERT(f->gen == meta__ckpt_gen(m));
		c->early++;
		c->early_done++;
		c->early_in_flight++;
		meta__io_want(m, &f->io);
	}
	return c->early_in_flight < CKPT_WRITES_MAX;
}

static void flush_drives(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;

	ASSERT(c->stage == CKPT_PAGES); /* (1) */
	ASSERT(meta__cache_frozen_count(m) == 0);
	ASSERT(c->in_flight == 0);
	c->stage = CKPT_FLUSH;
	for (uint32_t d = 0; d < m->conf.ndrives; d++) {
		if (!m->conf.drive[d].volatile_cache)
			continue;
		if (meta__drain_empty(m, d)) /* it may be one that fails */
			continue;
		if (meta__may_lose(m) && !meta__drive_reads(m, d))
			continue;
		c->flush[d].kind = META__IO_CKPT;
		c->flush[d].owner = NULL;
		c->flush[d].io.op = META_IO_FLUSH;
		c->flush[d].io.drive = d;
		c->flush[d].io.status = 0;
		c->in_flight++;
		meta__io_want(m, &c->flush[d]);
	}
}

/* ---- flush -> roots ---------------------------------------------------------------------- */

static void write_copy(struct meta *m, struct ckpt_root *r)
{
	ASSERT(r->busy);
	ASSERT(r->copy < r->copies);
	r->io.kind = META__IO_CKPT;
	r->io.owner = r;
	r->io.io.op = META_IO_WRITE;
	r->io.io.fua = true;
	r->io.io.drive = META_BADDR_DRIVE(r->baddr[r->copy]);
	r->io.io.block = META_BADDR_BLOCK(r->baddr[r->copy]);
	r->io.io.nblocks = 1;
	r->io.io.buf = r->block;
	r->io.io.status = 0;
	m->ckpt->in_flight++;
	meta__io_want(m, &r->io);
}

/* Writes the next copy whose drive is not lost.  False: there is no other. */
static bool write_next_copy(struct meta *m, struct ckpt_root *r)
{
	ASSERT(r->copy <= r->copies && r->copies <= META__ROOT_COPIES);
	ASSERT(r->busy);
	while (r->copy < r->copies && meta__may_lose(m) &&
	       !meta__drive_reads(m, META_BADDR_DRIVE(r->baddr[r->copy])))
		r->copy++;
	if (r->copy < r->copies)
		write_copy(m, r);
	return r->copy < r->copies;
}

static void write_roots(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;

	ASSERT(meta__cache_frozen_count(m) == 0); /* (1) */
	ASSERT(meta__log_durable(m) >= c->log_seq);
	for (uint32_t i = 0; i < CKPT_ROOTS_MAX; i++) {
		struct ckpt_root *r = &c->root[i];

		if (r->busy)
			continue;
		while (c->next_shard < m->nshards && !m->shard[c->next_shard].root_pending)
			c->next_shard++;
		if (c->next_shard == m->nshards)
			return;
		r->busy = true;
		r->shard = c->next_shard++;
		r->copy = r->written = 0;
		r->copies = meta__root_build(m, r->shard, &m->shard[r->shard].frozen, r->block,
					     r->baddr);
		(void)write_next_copy(m, r); /* one drive of them serves */
		ASSERT(r->copy < r->copies);
	}
}

static void root_written(struct meta *m, struct ckpt_root *r)
{
	struct meta__shard *s = &m->shard[r->shard];

	ASSERT(r->busy);
	ASSERT(r->shard < m->nshards);
	r->written += r->io.io.status == 0;
	r->copy++;
	if (write_next_copy(m, r))
		return;
	if (r->written == 0) {
		fail(m, "write", &r->io.io);
		return;
	}
	ASSERT(s->root_pending);
	s->root_pending = false;
	r->busy = false;
	meta__root_durable(m, r->shard, &s->frozen);
}

/* ---- roots -> idle ------------------------------------------------------------------------- */

static void finish(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;

	ASSERT(!m->losing);                  /* (10) */
	ASSERT(c->next_shard == m->nshards); /* (2) */
	ASSERT(c->in_flight == 0);
	c->stage = CKPT_IDLE;
	c->done++;
	meta__zone_rooted(m);                                           /* (2) */
	meta__log_trim(m, min_u64(c->log_seq, meta__receipts_trim(m))); /* (5) */
}

/* ---- the crank ----------------------------------------------------------------------------- */

bool meta__ckpt_turn(struct meta *m)
{
	struct meta__ckpt *c = m->ckpt;
	bool more;

	if (m->failed || !m->shard)
		return false;
	more = write_early(m);
	if (c->stage == CKPT_IDLE && is_due(m)) {
		meta__receipts_carry_start(m);
		c->stage = CKPT_CARRY;
	}
	if (c->stage == CKPT_CARRY) {
		/* Before a mount serves they are in the log that it replays. */
		if (m->mounted && !meta__receipts_carry(m))
			return true;
		if (!meta__lend_all_home(m))
			return true;
		freeze(m);
	}
	if (c->stage == CKPT_PAGES) {
		more |= write_pages(m);
		if (meta__cache_frozen_count(m) == 0 && meta__log_durable(m) >= c->log_seq)
			flush_drives(m); /* (1) */
	}
	if ((c->stage == CKPT_PAGES || c->stage == CKPT_FLUSH) && meta__marks_turn(m) &&
	    c->stage == CKPT_FLUSH && c->in_flight == 0 && !m->losing) /* (10) */
		c->stage = CKPT_ROOTS;
	if (c->stage == CKPT_ROOTS) {
		write_roots(m);
		if (c->in_flight == 0 && likely(!m->losing)) /* (10) */
			finish(m);
	}
	return more || (c->stage == CKPT_IDLE && is_due(m));
}

/* A leaf that was written early, and no checkpoint was begun since. */
static bool is_of_now(const struct meta *m, const struct meta__io *x)
{
	const struct meta__frame *f = x->owner;

	return x->kind == META__IO_PAGE_WRITE && f->gen == meta__ckpt_gen(m);
}

void meta__ckpt_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__ckpt *c = m->ckpt;

	ASSERT(x->kind == META__IO_PAGE_WRITE || x->kind == META__IO_CKPT);
	uint32_t *in_flight = is_of_now(m, x) ? &c->early_in_flight : &c->in_flight;

	ASSERT(*in_flight > 0);
	*in_flight -= 1;
	if (m->failed)
		return;
	if (x->io.status && !meta__drive_lose(m, x->io.drive)) {
		fail(m, x->io.op == META_IO_FLUSH ? "flush" : "write", &x->io);
		return;
	}
	if (x->kind == META__IO_PAGE_WRITE)
		meta__cache_written(m, x->owner);
	else if (x->io.op == META_IO_WRITE)
		root_written(m, x->owner);
	meta__ckpt_turn(m); /* the next write goes out at once */
}
