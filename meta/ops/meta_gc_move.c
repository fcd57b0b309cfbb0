/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection of data zones: the mover.  It moves the only copy of users' data.
 *
 *   IDLE --> LOOK --> READ --> ROOM --> WRITE --> APPLY --> IDLE, or LOOK for the next ones
 *            which    their    places   to the    the extent names the new places for blocks that
 *            blocks   sums     in the   new       are still where they were found
 *            of it    match    zone of  places
 *                              moved data
 *
 * Nothing is locked or pinned meanwhile: the file may be written, cut or removed at any time, and
 * the zone may even be emptied and reused.  So the findings are checked at the end:
 *
 *  (1) A block moves if, in the turn of the apply, its slot of the extent names the address at
 *      which it was found, and the zone is in the same use (incarnation) as then.  Together
 *      these prove that the block was this file's all the time, and so were the bytes read there
 *      [test_meta_gc:block_of_a_zone_that_was_used_again_meanwhile_is_left_alone].
 *  (2) Only bytes whose CRC32C matches the one in the extent are written anywhere; the sum itself
 *      is kept, never recomputed.  A rotten or unreadable block stays where it is, is named in
 *      meta_error(), if (1) holds for it, and the blocks beside it move.  In a store of several
 *      copies that is a block of which all are bad
 *      [test_meta_pair_moves:blocks_with_a_bad_first_copy_are_moved].
 *  (3) The new places are complete on their drive before the record names them, and its log block
 *      waits for a flush of that drive: as for any write (FORMAT.md 6.3)
 *      [test_meta_gc:power_cuts_all_the_time].
 *  (4) Places that are not named in the end are dead, and counted so: they were pending till then.
 *  (5) A buffer that a drive may still write to is never reused.
 *  (6) Blocks of a fold whose drive cannot be read, or that are bad, are summed up from their terms
 *      (meta_fold_terms.c), one after the other, and their checksums decide as in (2)
 *      [test_meta_fold:drive_that_dies_loses_nothing_and_leaves].  If a term cannot be read, or a
 *      sum is wrong, these blocks are summed up again without each other drive in turn, as far as
 *      the fold has enough parity
 *      [test_meta_double:second_drive_dies_during_the_rebuild, rot_beside_a_lost_drive].
 *  (7) A read of many blocks that fails is repeated block by block: one that cannot be read says
 *      nothing of its neighbours
 *      [test_meta_double:block_that_cannot_be_read_keeps_no_others,
 *      test_meta_gc:block_that_cannot_be_read_is_named_and_stays].
 */
#include "base/gf.h"
#include "meta/engine/meta_fold.h"
#include "meta/engine/meta_self_check.h"
#include "meta/ops/meta_gc.h"

#include <string.h>

/* ---- search -------------------------------------------------------------------------------- */

/* Ends a move and gives back its resources. */
static void end(struct meta *m, struct meta__gc_move *v)
{
	ASSERT(m->gc->moving > 0);
	ASSERT(v->in_flight == 0);
	if (v->nruns)
		meta_data_free(m, v->runs, v->nruns);
	v->nruns = 0;
	m->gc->moving--;
	if (v->stage != GC_LOST) /* (5) */
		v->stage = GC_IDLE;
}

/* The next blocks of the chunk that are in one victim. */
int meta__plan_gc_look(struct meta *m, struct meta_op *op)
{
	struct meta__gc_move *v = op->owner;
	struct meta__chunk *c = &m->ops->chunk;
	struct meta__inode in;
	int rc = meta__inode_load(m, &v->handle, &in);

	v->n = 0;
	v->next = META_CHUNK_BLOCKS;
	if (rc)
		return rc == -ENOENT ? 0 : rc; /* gone */
	rc = meta__chunk_get(m, &in, v->chunk, c);
	for (uint32_t i = v->from; rc == 0 && i < c->nblocks; i++) {
		const uint32_t zone = c->baddr[i] ? meta__zone_of(m, c->baddr[i]) : META__ZONE_NONE;

		if (zone == META__ZONE_NONE || !meta__zone_at(m, zone)->victim)
			continue;
		if (v->n == META__GC_BLOCKS || (v->n > 0 && zone != v->zone)) {
			v->next = min_u32(v->next, i);
			continue;
		}
		v->zone = zone;
		v->block[v->n++] =
			(struct meta__gc_block){ .old = c->baddr[i], .crc = c->crc[i], .slot = i };
	}
	ASSERT(v->n <= META__GC_BLOCKS);
	ASSERT(v->next <= META_CHUNK_BLOCKS);
	return rc;
}

/* Reads or writes contiguous blocks from number i on, at this place. */
static void send_at(struct meta *m, struct meta__gc_move *v, struct meta__io *x, enum meta_io_op op,
		    uint64_t at, uint8_t *buf, uint32_t i, uint32_t len)
{
	ASSERT(len > 0 && i + len <= META__GC_BLOCKS);
	x->kind = META__IO_GC;
	x->owner = v;
	x->io.op = op;
	x->io.fua = false;
	x->io.drive = META_BADDR_DRIVE(at);
	x->io.block = META_BADDR_BLOCK(at);
	x->io.nblocks = len;
	x->io.buf = buf + (size_t)i * BLOCK_SIZE;
	x->io.status = 0;
	x->io.lost = false;
	v->in_flight++;
	meta__io_want(m, x);
}

static void send(struct meta *m, struct meta__gc_move *v, struct meta__io *x, enum meta_io_op op,
		 uint32_t i, uint32_t len)
{
	send_at(m, v, x, op, op == META_IO_READ ? v->block[i].old : v->block[i].new, v->buf, i,
		len);
}

static void transfer(struct meta *m, struct meta__gc_move *v, enum meta_io_op op, uint32_t n)
{
	uint32_t len;

	ASSERT(n > 0); /* (5) */
	ASSERT(n <= META__GC_BLOCKS);
	ASSERT(v->in_flight == 0);
	for (uint32_t i = 0, ios = 0; i < n; i += len, ios++) {
		const uint64_t at = op == META_IO_READ ? v->block[i].old : v->block[i].new;

		for (len = 1; i + len < n; len++)
			if ((op == META_IO_READ ? v->block[i + len].old : v->block[i + len].new) !=
			    at + len)
				break;
		ASSERT(op != META_IO_WRITE || !v->block[i].bad); /* (2) */
		send(m, v, &v->io[ios], op, i, len);
	}
}

static void have_read(struct meta *m, struct meta__gc_move *v);

/* Its drive may not be asked, and only the others of its fold have it: all blocks are bad. */
static bool is_unreachable(struct meta *m, struct meta__gc_move *v)
{
	if (likely(m->copies < 2) || !meta__in_fold(meta__zone_at(m, v->zone)) ||
	    meta__drive_reads(m, META_BADDR_DRIVE(v->block[0].old)))
		return false;
	ASSERT(v->n > 0 && v->n <= META__GC_BLOCKS);
	for (uint32_t i = 0; i < v->n; i++)
		v->block[i].bad = true;
	return true;
}

static void looked(struct meta *m, struct meta__gc_move *v)
{
	ASSERT(v->stage == GC_LOOK);
	if (v->op.status || v->n == 0) {
		end(m, v);
		return;
	}
	v->incarnation = meta__zone_at(m, v->zone)->incarnation;
	v->stage = GC_READ;
	v->again = 0;
	v->part = v->terms = 0;
	v->doubted = 1ull << META_BADDR_DRIVE(v->block[0].old); /* no sum needs it */
	if (m->gc->drains)
		meta__pace_take(m, v->n);
	if (unlikely(is_unreachable(m, v)))
		have_read(m, v);
	else
		transfer(m, v, META_IO_READ, v->n);
}

static void look(struct meta *m, struct meta__gc_move *v)
{
	v->stage = GC_LOOK;
	v->op = (struct meta_op){ .type = (enum meta_op_type)META__OP_GC_LOOK, .owner = v };
	if (meta_op_start(m, &v->op))
		looked(m, v);
}

void meta__gc_move_start(struct meta *m, const struct meta__gc_found *found)
{
	struct meta__gc_move *v = m->gc->move;

	while (v->stage != GC_IDLE)
		v++;
	ASSERT(v < m->gc->move + META__GC_MOVES);
	ASSERT(m->gc->moving < META__GC_MOVES); /* (5) */
	ASSERT(v->in_flight == 0);
	m->gc->moving++;
	v->handle = found->handle;
	v->chunk = found->chunk;
	v->from = 0;
	v->nruns = 0;
	look(m, v);
}

/* ---- read, write ------------------------------------------------------------------------ */

/* The places that are named from now on are counted. */
static int count_live(struct meta *m, const struct meta__gc_move *v, uint32_t shard, int64_t *moves)
{
	int miss = 0;

	ASSERT(v->nruns <= META__GC_BLOCKS);
	*moves = 0;
	for (uint32_t r = 0, i = 0; r < v->nruns; r++) {
		int64_t live = 0;
		int rc = 0;

		for (uint32_t k = 0; k < v->runs[r].nblocks; k++)
			live += v->block[i++].still;
		if (live)
			rc = meta__tx_live(m, shard, v->runs[r].baddr, live);
		if (meta__stop(rc, &miss))
			return rc;
		*moves += live;
	}
	return miss;
}

/* (1), (2): which are still the file's, and where they go. */
int meta__plan_gc_move(struct meta *m, struct meta_op *op)
{
	struct meta__gc_move *v = op->owner;
	struct meta__chunk *c = &m->ops->chunk;
	struct meta__inode in;
	int64_t moves;
	int rc = meta__inode_load(m, &v->handle, &in), miss = 0;

	ASSERT(v->stage == GC_APPLY);
	ASSERT(v->n <= META__GC_BLOCKS);
	for (uint32_t i = 0; i < v->n; i++)
		v->block[i].still = false;
	if (rc || meta__zone_at(m, v->zone)->incarnation != v->incarnation)
		return rc == -ENOENT ? 0 : rc;
	rc = meta__chunk_get(m, &in, v->chunk, c);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < v->n; i++) {
		struct meta__gc_block *b = &v->block[i];

		b->still = b->slot < c->nblocks && c->baddr[b->slot] == b->old &&
			   c->crc[b->slot] == b->crc;
		if (b->still && !b->bad)
			meta__chunk_set(c, b->slot, b->new, b->crc);
	}
	rc = count_live(m, v, in.shard, &moves);
	if (meta__stop(rc, &miss) || moves == 0)
		return rc ? rc : miss;
	rc = meta__tx_live(m, in.shard, v->block[0].old, -moves);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__chunk_put(m, &in, v->chunk, true, c);
	meta__tx_data(m, v->runs, v->nruns); /* (3) */
	return rc ? rc : miss;
}

static void say_bad(struct meta *m, const struct meta__gc_move *v, const struct meta__gc_block *b)
{
	m->gc->bad_blocks++;
	m->above->suspect(m, &v->handle, v->chunk * META_CHUNK_BLOCKS + b->slot);
	meta__error(
		m,
		"file %llx.%llx.%llx: block %llu (drive %u, block %llu) is not what was written "
		"there, or cannot be read: it stays where it is",
		(unsigned long long)v->handle.dir, (unsigned long long)v->handle.hash,
		(unsigned long long)v->handle.uniq,
		(unsigned long long)(v->chunk * META_CHUNK_BLOCKS + b->slot),
		META_BADDR_DRIVE(b->old), (unsigned long long)META_BADDR_BLOCK(b->old));
}

static void applied(struct meta *m, struct meta__gc_move *v)
{
	ASSERT(v->stage == GC_APPLY);
	for (uint32_t i = 0; i < v->n && v->op.status == 0; i++) {
		const struct meta__gc_block *b = &v->block[i];

		if (b->still && b->bad)
			say_bad(m, v, b);
		m->gc->moved_blocks += b->still && !b->bad;
	}
	if (v->op.status == -ENOSPC || v->op.status == -EROFS)
		m->gc->no_room = true;
	if (v->nruns && v->op.status == 0)
		meta__data_applied(m, v->runs, v->nruns); /* (4) */
	else if (v->nruns)
		meta__data_dropped(m, v->runs, v->nruns);
	v->nruns = 0;
	if (v->op.status || v->next == META_CHUNK_BLOCKS) {
		end(m, v);
		return;
	}
	ASSERT(v->next > v->from);
	v->from = v->next;
	look(m, v);
}

static void apply(struct meta *m, struct meta__gc_move *v)
{
	ASSERT(v->in_flight == 0);
	v->stage = GC_APPLY;
	v->op = (struct meta_op){ .type = (enum meta_op_type)META__OP_GC_MOVE, .owner = v };
	if (meta_op_start(m, &v->op))
		applied(m, v);
}

/* Places for them all, or later. */
static void room(struct meta *m, struct meta__gc_move *v)
{
	int err = -ECANCELED;

	ASSERT(v->good > 0);
	ASSERT(v->good <= v->n);
	ASSERT(v->in_flight == 0);
	if (meta__gc_may(m))
		err = meta__moved_alloc(m, v->good, v->runs, META__GC_BLOCKS, &v->nruns);

	v->stage = GC_ROOM;
	if (err == -EAGAIN)
		return;
	if (err) {
		m->gc->no_room |= err == -ENOSPC;
		end(m, v);
		return;
	}
	for (uint32_t r = 0, i = 0; r < v->nruns; r++)
		for (uint32_t k = 0; k < v->runs[r].nblocks; k++)
			v->block[i++].new = v->runs[r].baddr + k;
	v->stage = GC_WRITE;
	v->failed = false;
	transfer(m, v, META_IO_WRITE, v->good);
}

/* (2) */
static void judge(struct meta__gc_move *v)
{
	for (uint32_t i = 0; i < v->n; i++) {
		const uint8_t *bytes = v->buf + (size_t)i * BLOCK_SIZE;

		v->block[i].bad |= crc32c_block(bytes, BLOCK_SIZE) != v->block[i].crc;
	}
}

/* In a store of several copies.  False: none is bad, or these are the last ones. */
static bool reads_again(struct meta *m, struct meta__gc_move *v)
{
	uint32_t ios = 0;

	ASSERT(v->in_flight == 0);
	if (v->again + 1u >= m->copies)
		return false;
	v->again++;
	for (uint32_t i = 0; i < v->n; i++) {
		if (!v->block[i].bad || meta__in_fold(meta__zone_at(m, v->zone)))
			continue;
		v->block[i].bad = false;
		v->io[ios].skips = v->again;
		send(m, v, &v->io[ios++], META_IO_READ, i, 1);
	}
	return ios > 0;
}

/* ---- from the others of a fold (6) -------------------------------------------------------- */

/* Returns the place of a term of block i: all blocks of a move are in one zone. */
static uint64_t place_of(const struct meta__gc_move *v, const struct meta_fold_term *term,
			 uint32_t i)
{
	ASSERT(i < v->n);
	ASSERT(META_BADDR_DRIVE(v->block[i].old) == META_BADDR_DRIVE(v->block[0].old)); /* (6) */
	return term->at + (v->block[i].old - v->block[0].old);
}

static bool is_summed(const struct meta__gc_block *b)
{
	return b->bad && !b->missed;
}

/* Reads the next term of all blocks that are summed up.  Returns false if no block needs it, or its
 * drive has been lost. */
static bool read_term(struct meta *m, struct meta__gc_move *v)
{
	const struct meta_fold_term *term = &v->term[v->part];
	uint32_t len, ios = 0;

	ASSERT(v->in_flight == 0 && v->part < v->terms); /* (6) */
	ASSERT(v->n <= META__GC_BLOCKS);
	if (!meta__drive_reads(m, META_BADDR_DRIVE(term->at)))
		return false; /* it has been lost: another way does without it */
	for (uint32_t i = 0; i < v->n; i += len) {
		len = 1;
		if (!is_summed(&v->block[i]))
			continue;
		while (i + len < v->n && is_summed(&v->block[i + len]) &&
		       v->block[i + len].old == v->block[i].old + len)
			len++;
		send_at(m, v, &v->io[ios++], META_IO_READ, place_of(v, term, i), v->sum, i, len);
	}
	return ios > 0;
}

/* A term is here. */
static void sum_up(struct meta__gc_move *v)
{
	ASSERT(v->in_flight == 0);
	ASSERT(v->part < v->terms); /* (6) */
	for (uint32_t i = 0; i < v->n; i++)
		if (is_summed(&v->block[i]))
			(v->part ? gf_add : gf_set)(v->buf + (size_t)i * BLOCK_SIZE,
						    v->sum + (size_t)i * BLOCK_SIZE, BLOCK_SIZE,
						    v->term[v->part].by);
	v->part++;
}

static bool any_bad(const struct meta__gc_move *v)
{
	ASSERT(v->n <= META__GC_BLOCKS);
	for (uint32_t i = 0; i < v->n; i++)
		if (v->block[i].bad)
			return true;
	return false;
}

/* Finds the terms whose sums are the bad blocks, without this drive.  Returns false if parity does
 * not allow it. */
static bool find_terms(struct meta *m, struct meta__gc_move *v, uint64_t without)
{
	v->part = 0;
	v->terms = meta__fold_terms(m, v->block[0].old, without, v->term);
	ASSERT(v->terms <= META_FOLD_MAX);
	for (uint32_t i = 0; i < v->n; i++)
		v->block[i].missed = false;
	return v->terms > 0;
}

/* The way was no help to some: the next one leaves out another drive. */
static bool doubts(struct meta *m, struct meta__gc_move *v)
{
	uint64_t left = meta__in_fold(meta__zone_at(m, v->zone)) ? meta__drives_of(m, v->zone) : 0;

	ASSERT(v->in_flight == 0 && any_bad(v));
	for (left &= ~v->doubted; left; left &= left - 1) {
		v->doubted |= left & -left;
		if (find_terms(m, v, left & -left))
			return true;
	}
	return false;
}

static void judge_sums(struct meta__gc_move *v)
{
	ASSERT(v->part == v->terms && v->terms > 0);
	for (uint32_t i = 0; i < v->n; i++)
		if (is_summed(&v->block[i]))
			v->block[i].bad = crc32c(v->buf + (size_t)i * BLOCK_SIZE, BLOCK_SIZE) !=
					  v->block[i].crc;
}

/* False: nothing is bad, or there is no other way. */
static bool rebuilds(struct meta *m, struct meta__gc_move *v)
{
	bool more = true;

	ASSERT(v->in_flight == 0 && v->stage == GC_READ);
	if (likely(m->zones->folds == 0) || !any_bad(v))
		return false;
	if (v->terms)
		sum_up(v);
	else
		more = find_terms(m, v, 0);
	while (more) {
		if (v->part < v->terms && read_term(m, v))
			return true;
		if (v->part == v->terms)
			judge_sums(v);
		more = any_bad(v) && doubts(m, v);
	}
	return false;
}

/* (7) */
static bool reads_alone(struct meta *m, struct meta__gc_move *v)
{
	uint32_t ios = 0;

	ASSERT(v->in_flight == 0 && v->stage == GC_READ);
	for (uint32_t i = 0; i < v->n; i++) {
		struct meta__gc_block *b = &v->block[i];
		const uint64_t at = v->terms ? place_of(v, &v->term[v->part], i) : b->old;

		if (!b->alone)
			continue;
		b->alone = false;
		if (m->copies > 1 && v->terms && !meta__drive_reads(m, META_BADDR_DRIVE(at)))
			continue;
		*(v->terms ? &b->missed : &b->bad) = false;
		send_at(m, v, &v->io[ios++], META_IO_READ, at, v->terms ? v->sum : v->buf, i, 1);
	}
	return ios > 0;
}

/* Those that are whole come first, in the buffer too. */
static void sort_out(struct meta__gc_move *v)
{
	struct meta__gc_block bad[META__GC_BLOCKS];
	uint32_t bads = 0;

	v->good = 0;
	for (uint32_t i = 0; i < v->n; i++) {
		const uint8_t *bytes = v->buf + (size_t)i * BLOCK_SIZE;

		if (v->block[i].bad) {
			bad[bads++] = v->block[i];
			continue;
		}
		if (v->good != i) {
			memmove(v->buf + (size_t)v->good * BLOCK_SIZE, bytes, BLOCK_SIZE);
			v->block[v->good] = v->block[i];
		}
		v->good++;
	}
	memcpy(v->block + v->good, bad, bads * sizeof(bad[0]));
	ASSERT(v->good + bads == v->n); /* (2) */
}

static void have_read(struct meta *m, struct meta__gc_move *v)
{
	ASSERT(v->in_flight == 0 && v->stage == GC_READ);
	if (reads_alone(m, v))
		return;
	if (!v->terms)
		judge(v);
	if ((!v->terms && reads_again(m, v)) || rebuilds(m, v))
		return;
	sort_out(v);
	if (v->good)
		room(m, v);
	else
		apply(m, v); /* moves nothing: says whether it was the file's */
}

void meta__gc_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__gc_move *v = x->owner;
	const uint32_t first =
		(uint32_t)(((uint8_t *)x->io.buf - v->buf) / BLOCK_SIZE) % META__GC_BLOCKS;
	const bool reads = x->io.op == META_IO_READ;

	ASSERT(v->in_flight > 0);
	ASSERT(first + x->io.nblocks <= META__GC_BLOCKS);
	v->in_flight--;
	for (uint32_t i = 0; reads && x->io.status && i < x->io.nblocks; i++) {
		struct meta__gc_block *b = &v->block[first + i];

		*(v->terms ? &b->missed : &b->bad) = true;
		b->alone = x->io.nblocks > 1; /* (7) */
	}
	v->failed |= !reads && x->io.status;
	if (x->io.lost)
		v->stage = GC_LOST;
	if (v->in_flight)
		return;
	if (v->stage == GC_LOST || (!reads && v->failed)) {
		end(m, v);
		return;
	}
	if (!reads) {
		apply(m, v);
		return;
	}
	have_read(m, v);
}

void meta__gc_op_done(struct meta *m, struct meta_op *op)
{
	switch ((int)op->type) {
	case META__OP_GC_FIND:
		meta__gc_find_done(m);
		return;
	case META__OP_GC_LOOK:
		looked(m, op->owner);
		return;
	default:
		applied(m, op->owner);
	}
}

void meta__gc_moves_turn(struct meta *m)
{
	for (uint32_t i = 0; i < META__GC_MOVES; i++)
		if (m->gc->move[i].stage == GC_ROOM)
			room(m, &m->gc->move[i]);
}

#ifdef WK_DEBUG

static bool is_victim(const struct meta__gc *g, uint32_t zone)
{
	for (uint32_t i = 0; i < g->victims; i++)
		if (g->victim[i] == zone)
			return true;
	return false;
}

void meta__gc_check(const struct meta *m)
{
	const struct meta__gc *g = m->gc;
	uint32_t moving = 0, lost = 0;

	ASSERT(g->victims <= META__GC_VICTIMS);
	ASSERT(g->finding || g->found_at <= g->found_count); /* its plan counts again */
	for (uint32_t i = 0; i < META__GC_MOVES; i++) {
		const struct meta__gc_move *v = &g->move[i];

		moving += v->stage != GC_IDLE;
		lost += v->stage == GC_LOST;
		ASSERT(v->stage != GC_IDLE || (v->nruns == 0 && v->in_flight == 0)); /* (4), (5) */
	}
	ASSERT(g->moving <= moving);
	ASSERT(moving - lost <= g->moving);
	for (uint32_t i = 0; i < m->zones->geo.nzones; i++)
		ASSERT(!m->zones->zone[i].victim || is_victim(g, i));
}

#endif
