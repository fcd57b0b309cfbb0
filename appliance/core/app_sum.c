/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads of blocks from the other zones of their fold (meta_fold.c), when their drive is lost, or
 * they could not be read there, or did not match their checksums.
 *
 *   app_sum_want() --> waiting --> parts: a piece of each term --> summed up, in its place
 *                        ^         read at once, into staging          |
 *                        '------------- the next piece ------------------------+--> app_io_done()
 *
 *  (1) The bytes are those of a read like any other: its owner compares their checksums.  If a term
 *      was wrong, it asks again without one of the zones (app_mend.c)
 *      [test_app_fold:other_bytes_on_a_drive_are_never_read].
 *  (2) Reads that wait for staging, or for one of the SUMS, are tried again in each turn.  All of
 *      staging may be held by reads that wait so: one sum at a time, block by block, uses a piece
 *      that is kept for it [test_app_fold:many_clients_read_what_is_summed_up].
 *  (3) A piece of which a term cannot be read is read again without that drive, while there are
 *      enough others [test_app_double:second_drive_that_refuses_is_left_out]; then block by block,
 *      each with all of its terms, and at last its own place: one that cannot be read says nothing
 *      of its neighbours
 *      [test_app_double:blocks_that_cannot_be_read_are_in_the_way_of_no_others].
 *  (4) The zones of the fold are not used again before the read has ended: its plan holds them, as
 *      it would hold the zone alone (meta_twins.h)
 *      [test_app_fold:drive_that_refuses_all_is_read_from_the_others].
 */
#include "appliance/core/app_sum.h"
#include "appliance/core/app_step.h"
#include "base/gf.h"

#include <errno.h>
#include <stdlib.h>

#define SUMS  16u /* at once */
#define PIECE 32u /* blocks */

struct app_sum {
	struct app_core *core;
	struct app_io *of;                 /* NULL: idle */
	struct app_io part[META_FOLD_MAX]; /* one of each term (meta_fold_terms.c) */
	uint8_t by[META_FOLD_MAX];         /* its factor */
	char *piece;                       /* of staging: `step` blocks of each part, or fewer */
	uint32_t step;
	bool lost; /* a drive may still write there */
	uint64_t iova;
	uint32_t terms;      /* the number of them that a sum needs; 0: no sum can be made */
	uint32_t count, out; /* parts: `terms`, or 1 for the block's own place */
	uint32_t at, n;      /* blocks of `of` */
	uint32_t whole;      /* (3) before this one, a piece is a block */
	uint32_t since;      /* the block at which `missed` began */
	uint32_t own;        /* the block after the last that was read in its own place */
	uint64_t out_of;     /* drives, by bits, that are left out */
	uint64_t missed;     /* ... or did not give a term */
	bool misses, failed; /* one of these now; there is no other way */
};

struct app_sums {
	struct app_sum sum[SUMS];
	struct list waiting; /* app_io */
	char *kept;          /* (2) of staging: a block of each part; NULL: not yet */
	bool kept_used;
};

int app_sums_create(struct app_core *core)
{
	struct app_sums *s = calloc(1, sizeof(*s));

	ASSERT(!core->sums);
	if (!s)
		return -ENOMEM;
	list_init(&s->waiting);
	for (uint32_t i = 0; i < SUMS; i++)
		s->sum[i].core = core;
	core->sums = s;
	return 0;
}

void app_sums_destroy(struct app_core *core)
{
	ASSERT(!core->sums || list_empty(&core->sums->waiting));
	free(core->sums);
	core->sums = NULL;
}

/* Returns how many terms there are, on drives that can be read and were not missed; else 0. */
static uint32_t terms_of(const struct app_core *core, uint64_t baddr, uint64_t missed,
			 struct meta_fold_term term[META_FOLD_MAX])
{
	return meta_fold_terms(core->twins, baddr, meta_twins_away(core->twins) | missed, false,
			       term);
}

/* Returns the drive, by its bit, of the zone that a read leaves out.  UINT64_MAX: it is away, or
 * the fold has fewer zones. */
static uint64_t doubted(const struct app_core *core, uint64_t baddr, uint32_t doubts)
{
	uint64_t place[META_FOLD_ZONES], drive;
	uint32_t count;

	if (likely(doubts == 0))
		return 0;
	count = meta_fold_of(core->twins, baddr, place);
	if (doubts >= count) /* the last place is the block's own */
		return UINT64_MAX;
	drive = 1ull << META_BADDR_DRIVE(META_FOLD_AT(place[doubts - 1]));
	return meta_twins_away(core->twins) & drive ? UINT64_MAX : drive;
}

bool app_sum_can(const struct app_core *core, uint64_t baddr, uint32_t doubts)
{
	struct meta_fold_term term[META_FOLD_MAX];

	ASSERT(core->twins && doubts <= META_FOLD_ZONES);
	return terms_of(core, baddr, doubted(core, baddr, doubts), term) > 0;
}

void app_sum_want(struct app_core *core, struct app_io *io)
{
	ASSERT(io->nvme.op == NVME_READ && io->owner);
	list_init(&io->link);
	list_push_back(&core->sums->waiting, &io->link);
	core->stat.turned_reads++;
}

static char *place_of(const struct app_io *io)
{
	const struct app_op *op = io->owner;

	ASSERT(op->io_buf && io->nvme.iova >= op->io_buf_iova);
	return op->io_buf + (io->nvme.iova - op->io_buf_iova);
}

/* (3): the last way. */
static bool find_own(struct app_sum *s, uint64_t from, struct meta_fold_term *term)
{
	ASSERT(s->n == 1 && s->since == s->at);
	if (s->own == s->at + 1 || meta_twins_away(s->core->twins) >> s->of->drive & 1)
		return false;
	s->own = s->at + 1;
	s->count = 1;
	*term = (struct meta_fold_term){ .at = from, .by = 1 };
	return true;
}

/* Finds the next piece, and its terms.  False: its first block has no other way (3). */
static bool find_piece(struct app_sum *s, struct meta_fold_term term[META_FOLD_MAX])
{
	const uint64_t from = META_BADDR(s->of->drive, s->of->nvme.block) + s->at;

	ASSERT(s->since <= s->at && s->at < s->of->nvme.nblocks);
	s->n = s->at < s->whole ? 1 : min_u32(s->step, s->of->nvme.nblocks - s->at);
	s->count = s->terms;
	if (terms_of(s->core, from, s->missed, term) == s->terms)
		return true;
	if (s->since == s->at && s->n == 1)
		return find_own(s, from, term);
	s->whole = max_u32(s->whole, s->at + s->n);
	s->since = s->at;
	s->missed = s->out_of;
	s->n = 1;
	return terms_of(s->core, from, s->missed, term) == s->terms || find_own(s, from, term);
}

/* Reads the next piece of all parts.  Its terms may be others than those of the last one. */
static void read_parts(struct app_sum *s)
{
	struct meta_fold_term term[META_FOLD_MAX];

	ASSERT(s->out == 0);
	s->misses = false;
	s->failed |= !find_piece(s, term);
	for (uint32_t i = 0; i < s->count && !s->failed; i++) {
		struct app_io *io = &s->part[i];

		*io = (struct app_io){ .owner = s, .part = true, .quiet = s->of->quiet };
		io->drive = META_BADDR_DRIVE(term[i].at);
		io->nvme = (struct nvme_io){
			.op = NVME_READ,
			.nblocks = s->n,
			.block = META_BADDR_BLOCK(term[i].at),
			.iova = s->iova + (uint64_t)i * s->step * BLOCK_SIZE,
		};
		s->by[i] = term[i].by;
		s->out++;
		app_media_submit(&s->core->media, io);
	}
}

/* False: there is no staging now. */
static bool take_piece(struct app_sum *s)
{
	struct app_sums *all = s->core->sums;

	ASSERT(!s->piece && s->terms <= META_FOLD_MAX);
	s->lost = false;
	s->step = PIECE;
	s->piece = app_take_spare(s->core, max_u32(1, s->terms) * PIECE * BLOCK_SIZE);
	if (!s->piece && all->kept && !all->kept_used) { /* (2) */
		s->piece = all->kept;
		s->step = 1;
		all->kept_used = true;
	}
	if (s->piece)
		s->iova = app_staging_iova(&s->core->staging, s->piece);
	return s->piece;
}

static void give_piece(struct app_sum *s)
{
	struct app_sums *all = s->core->sums;
	const bool kept = s->piece == all->kept;

	ASSERT(s->piece && s->out == 0);
	ASSERT(!kept || all->kept_used);
	if (kept) {
		all->kept_used = false;
		all->kept = s->lost ? NULL : all->kept;
	}
	if (!kept || s->lost)
		app_give(s->core, NULL, s->piece);
	s->piece = NULL;
}

static void end(struct app_sum *s)
{
	struct app_io *io = s->of;

	ASSERT(s->out == 0);
	give_piece(s);
	s->core->freed = true;
	s->of = NULL;
	io->nvme.status = s->failed ? -EIO : 0;
	io->nvme.quarantined = false;
	io->summed = true; /* there is no other way any more */
	app_io_done(io);
}

/* False: there is no staging now. */
static bool begin(struct app_sum *s, struct app_io *io)
{
	struct meta_fold_term term[META_FOLD_MAX];

	ASSERT(!s->of && s->out == 0);
	s->out_of = doubted(s->core, META_BADDR(io->drive, io->nvme.block), io->doubts);
	s->missed = s->out_of;
	s->terms = terms_of(s->core, META_BADDR(io->drive, io->nvme.block), s->missed, term);
	if (!take_piece(s))
		return false;
	s->of = io;
	s->at = s->whole = s->since = s->own = 0;
	s->failed = s->terms == 0;
	if (!s->failed)
		read_parts(s);
	if (s->failed)
		end(s);
	return true;
}

static void sum_up(struct app_sum *s)
{
	char *to = place_of(s->of) + (size_t)s->at * BLOCK_SIZE;
	const size_t bytes = (size_t)s->n * BLOCK_SIZE;

	ASSERT(s->out == 0 && s->count > 0);
	gf_set(to, s->piece, bytes, s->by[0]);
	for (uint32_t i = 1; i < s->count; i++)
		gf_add(to, s->piece + (size_t)i * s->step * BLOCK_SIZE, bytes, s->by[i]);
}

void app_sum_part_done(struct app_io *io)
{
	struct app_sum *s = io->owner;

	ASSERT(s->of && s->out > 0);
	s->out--;
	if (io->nvme.status) {
		s->misses = true;
		s->missed |= 1ull << io->drive;
	}
	s->lost |= io->nvme.status && io->nvme.quarantined;
	if (io->nvme.status && io->nvme.quarantined)
		app_staging_lose(&s->core->staging, io->nvme.iova,
				 (uint64_t)io->nvme.nblocks * BLOCK_SIZE);
	if (s->out > 0)
		return;
	s->failed |= s->lost; /* it would be read into the same piece */
	if (!s->misses) {
		sum_up(s);
		s->at += s->n;
	}
	if (!s->failed && s->at < s->of->nvme.nblocks) /* (3) */
		read_parts(s);
	if (s->out == 0)
		end(s);
}

void app_sums_turn(struct app_core *core)
{
	struct app_sums *s = core->sums;
	uint32_t i = 0;

	ASSERT(s);
	if (unlikely(!s->kept) &&
	    atomic_load_explicit(&core->twins->folds, memory_order_relaxed)) /* (2) */
		s->kept = app_take_spare(core, META_FOLD_MAX * BLOCK_SIZE);
	while (unlikely(!list_empty(&s->waiting))) {
		struct app_io *io = list_entry(s->waiting.next, struct app_io, link);

		while (i < SUMS && s->sum[i].of)
			i++;
		if (i == SUMS)
			return;
		list_del(&io->link);
		list_init(&io->link);
		if (!begin(&s->sum[i], io)) {
			list_push_front(&s->waiting, &io->link); /* (2) */
			return;
		}
		core->progress = true;
	}
}
