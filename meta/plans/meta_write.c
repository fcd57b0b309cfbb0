/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Writes and truncates: blocks of a file are replaced by others, or end.
 *
 *   runs      |----- 200 -----|-------- 900 --------|      (complete on their drives)
 *   file      |      chunk 3     |      chunk 4     |
 *                     [offset ............. + nblocks)
 *   dead              the old blocks of these slots: meta__dead_blocks()
 *
 *  (1) A block that is the file's tail (meta_tail.c) is a hole in the extents
 *      [test_meta_tail:moves_with_what_is_written_over_it].
 *  (2) No block is after the block with the file's last byte; bytes after the last
 *      byte, in its block, are zeros: the caller's promise
 *      [test_meta_write:what_cannot_be_is_refused_and_its_blocks_are_dead].
 *  (3) While chunks from trim_from on are being freed, none of them is written, and the file
 *      does not grow over them: such operations wait (META__TRIMS).
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

#define CHUNK_BYTES ((uint64_t)META_CHUNK_BLOCKS * BLOCK_SIZE)

int meta__runs_check(const struct meta_op *op, uint64_t nblocks)
{
	uint64_t sum = 0;

	if (op->nruns && (!op->runs || !op->crcs))
		return -EINVAL;
	for (uint32_t i = 0; i < op->nruns; i++) {
		if (op->runs[i].nblocks == 0)
			return -EINVAL;
		sum += op->runs[i].nblocks;
	}
	return sum == nblocks && sum <= META_IO_BLOCKS_MAX ? 0 : -EINVAL;
}

int meta__chunk_put(struct meta *m, const struct meta__inode *in, uint64_t index, bool had,
		    const struct meta__chunk *c)
{
	const struct meta_key key = meta__obj_key(&in->handle, META__KIND_EXTENT, index);
	const uint32_t len = meta__chunk_build(c, m->ops->value);

	DASSERT(len <= META_VALUE_MAX);
	if (len)
		return meta__tx_put(m, in->shard, &key, m->ops->value, len);
	return had ? meta__tx_del(m, in->shard, &key) : 0;
}

/* ---- runs into chunks ----------------------------------------------------------------- */

uint64_t meta__source_next(struct meta__source *s, uint32_t *crc)
{
	const struct meta_run *r = &s->op->runs[s->run];
	uint64_t baddr;

	DASSERT(s->run <= s->op->nruns);
	if (s->run == s->op->nruns) { /* the tail after them: (1) */
		*crc = CRC32C_ZERO_BLOCK;
		return 0;
	}
	baddr = r->baddr ? r->baddr + s->used : 0;
	*crc = s->op->crcs[s->at++];
	if (++s->used == r->nblocks) {
		s->run++;
		s->used = 0;
	}
	return baddr;
}

static uint64_t blocks_in(const struct meta__chunk *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->nblocks; i++)
		n += c->baddr[i] != 0;
	return n;
}

void meta__kill_slots(const struct meta__chunk *c, uint32_t from, uint32_t end,
		      struct meta__chunk *dead)
{
	DASSERT(c != dead);
	DASSERT(from <= end);
	meta__chunk_init(dead, c->epoch);
	for (uint32_t i = from; i < min_u32(end, c->nblocks); i++)
		if (c->baddr[i])
			meta__chunk_set(dead, i, c->baddr[i], c->crc[i]);
}

void meta__blocks_moved(struct meta__inode *in, uint64_t came, const struct meta__chunk *dead)
{
	in->blocks += came;
	in->blocks -= min_u64(blocks_in(dead), in->blocks);
}

static int write_chunk(struct meta *m, struct meta__source *s, struct meta__inode *in,
		       uint64_t index, uint32_t from, uint32_t end, bool fresh)
{
	struct meta__chunk *c = &m->ops->chunk, *dead = &m->ops->dead_chunk;
	uint64_t came = 0;
	int rc = 0, miss = 0;
	bool had;

	DASSERT(from < end);
	DASSERT(end <= META_CHUNK_BLOCKS);
	meta__chunk_init(c, in->epoch);
	if (!fresh)
		rc = meta__chunk_get(m, in, index, c);
	if (meta__stop(rc, &miss))
		return rc;
	had = c->nblocks > 0;
	meta__kill_slots(c, from, end, dead);
	rc = dead->nblocks ? meta__dead_blocks(m, in, index, dead) : 0;
	if (meta__stop(rc, &miss))
		return rc;
	for (uint32_t i = from; i < end; i++) {
		uint32_t crc;
		const uint64_t baddr = meta__source_next(s, &crc);

		meta__chunk_set(c, i, baddr, crc);
		came += baddr != 0;
	}
	if (came == 0 && dead->nblocks == 0)
		return miss; /* holes were holes */
	c->epoch = in->epoch;
	meta__blocks_moved(in, came, dead);
	rc = meta__chunk_put(m, in, index, had, c);
	return rc ? rc : miss;
}

/* Records of a transaction beside those of zones: an inode, a name, a directory; its extents; the
 * same again for an orphan of dead blocks; a tail that goes; a receipt; totals of directories, and
 * the names that the file has that is replaced. */
#define RECORDS_FIXED (32u + META__TAIL_PIECES)

int meta__runs_live(struct meta *m, const struct meta_op *op, uint32_t shard)
{
	struct meta__dead *dead = &m->ops->dead;
	uint32_t zones = 0, last = UINT32_MAX, left;
	int miss = 0;

	for (uint32_t i = 0; i < op->nruns; i++) {
		const uint32_t z = op->runs[i].baddr ? meta__zone_of(m, op->runs[i].baddr) : last;

		zones += z != last;
		last = z;
	}
	left = zones + RECORDS_FIXED < META__TX_RECORDS_MAX
		       ? META__TX_RECORDS_MAX - RECORDS_FIXED - zones
		       : 0;
	DASSERT(dead->zones == 0 || dead->zones <= dead->budget);
	dead->budget = min_u32(dead->budget, left);
	for (uint32_t i = 0; i < op->nruns; i++) {
		int rc = 0;

		if (op->runs[i].baddr)
			rc = meta__tx_live(m, shard, op->runs[i].baddr, op->runs[i].nblocks);
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

int meta__write_runs(struct meta *m, const struct meta_op *op, struct meta__inode *in,
		     uint64_t first, uint64_t end, bool fresh)
{
	struct meta__source s = { .op = op };
	int rc = meta__runs_live(m, op, in->shard), miss = 0;

	DASSERT(first <= end);
	DASSERT(!(in->flags & META__INODE_TRIMMING) ||
		end <= in->trim_from * META_CHUNK_BLOCKS); /* (3) */
	if (meta__stop(rc, &miss))
		return rc;
	for (uint64_t block = first; block < end;) {
		const uint64_t index = block / META_CHUNK_BLOCKS;
		const uint64_t stop = min_u64((index + 1) * META_CHUNK_BLOCKS, end);

		rc = write_chunk(m, &s, in, index, (uint32_t)(block - index * META_CHUNK_BLOCKS),
				 (uint32_t)(stop - index * META_CHUNK_BLOCKS), fresh);
		if (meta__stop(rc, &miss))
			return rc;
		block = stop;
	}
	if (!(op->flags & META_SAFE))
		meta__tx_data(m, op->runs, op->nruns);
	return miss;
}

/* ---- write ------------------------------------------------------------------------------- */

int meta__file_of(struct meta *m, const struct meta_op *op, uint32_t want, struct meta__inode *in)
{
	int rc = meta__resolve(m, &op->target, true, in);

	if (rc)
		return rc;
	if (in->type != META_TYPE_FILE)
		return in->type == META_TYPE_DIR ? -EISDIR : -EINVAL;
	if (op->size > META__FILE_BYTES_MAX)
		return -EFBIG;
	return meta__may_use(m, op, in, want);
}

int meta__file_changed(struct meta *m, struct meta_op *op, struct meta__inode *in)
{
	int rc;

	in->mtime_ns = op->wall_ns;
	meta__ctime_raise(in, op->wall_ns);
	meta__written(m, in);
	rc = meta__inode_put(m, in);
	return rc ? rc : meta__attr(m, in, &op->attr);
}

static int put_changed(struct meta *m, struct meta_op *op, struct meta__inode *in, int miss)
{
	int rc = meta__file_changed(m, op, in);

	DASSERT(miss == 0 || miss == META__MISSES);
	return rc ? rc : miss;
}

static bool must_wait(const struct meta__inode *in, uint64_t size)
{
	return in->flags & META__INODE_TRIMMING && size > in->size &&
	       size > in->trim_from * CHUNK_BYTES; /* (3) */
}

/* Checks a write's blocks [first, *end). */
static int write_check(const struct meta_op *op, uint64_t first, uint64_t *end)
{
	const bool to_tail = op->flags & META_BY_INLINE;
	uint64_t nblocks = 0;

	for (uint32_t i = 0; i < op->nruns; i++)
		nblocks += op->runs[i].nblocks;
	if (op->offset % BLOCK_SIZE || nblocks + to_tail == 0 || meta__runs_check(op, nblocks))
		return -EINVAL;
	if (to_tail && op->inline_len == 0)
		return -EINVAL;
	if (op->offset > META__FILE_BYTES_MAX - (nblocks + to_tail) * BLOCK_SIZE)
		return -EFBIG;
	*end = first + nblocks + to_tail;
	DASSERT(*end > first);
	DASSERT(*end <= META__FILE_BYTES_MAX / BLOCK_SIZE);
	return 0;
}

/* The tail of a file, when its blocks [first, end) are replaced. */
static int write_tail(struct meta *m, const struct meta_op *op, struct meta__inode *in,
		      const struct meta__tail *old, uint64_t first, uint64_t end)
{
	const struct meta__tail t = { .block = end - 1, .len = op->inline_len };
	const bool replaced = old->len && old->block >= first && old->block < end;

	DASSERT(end > first);
	if (!(op->flags & META_BY_INLINE))
		return replaced ? meta__tail_drop(m, in, old) : 0;
	if (old->len && (!replaced || (old->block == t.block && t.len < old->len)))
		return -EINVAL; /* another, and one only; bytes would be lost */
	return meta__tail_put(m, in, old, &t, op->inline_buf);
}

int meta__plan_write(struct meta *m, struct meta_op *op)
{
	const uint64_t first = op->offset / BLOCK_SIZE;
	struct meta__inode in;
	struct meta__tail old;
	uint64_t end, size;
	int rc = meta__file_of(m, op, META__MAY_W, &in), miss = 0;

	if (!rc)
		rc = write_check(op, first, &end);
	if (rc)
		return rc;
	size = max_u64(in.size, op->size);
	if (op->flags & META_BY_INLINE)
		size = max_u64(size, (end - 1) * BLOCK_SIZE + op->inline_len);
	if (end > div_up(size, BLOCK_SIZE))
		return -EINVAL; /* (2) */
	if (must_wait(&in, size) ||
	    (in.flags & META__INODE_TRIMMING && (end - 1) / META_CHUNK_BLOCKS >= in.trim_from))
		return META__TRIMS;
	rc = meta__tail_find(m, &in, &old);
	if (rc)
		return rc;
	in.size = size;
	if (op->nruns || (in.blocks && !(old.len && old.block == first)))
		rc = meta__write_runs(m, op, &in, first, end, false);
	if (meta__stop(rc, &miss))
		return rc;
	rc = write_tail(m, op, &in, &old, first, end);
	if (meta__stop(rc, &miss))
		return rc;
	return put_changed(m, op, &in, miss);
}

/* ---- truncate ---------------------------------------------------------------------------- */

/* Cuts the chunk at the new end: later blocks die, and its last block is replaced by the
 * operation's one, which ends in zeros, or by a hole, with a tail in the index. */
static int cut_chunk(struct meta *m, const struct meta_op *op, struct meta__inode *in)
{
	const uint64_t last = op->size / BLOCK_SIZE, index = last / META_CHUNK_BLOCKS;
	const uint32_t at = (uint32_t)(last % META_CHUNK_BLOCKS);
	const bool inside = op->size % BLOCK_SIZE != 0, to_tail = op->flags & META_BY_INLINE;
	const bool keep = inside && !to_tail, has_block = op->nruns && !to_tail;
	struct meta__chunk *c = &m->ops->chunk, *dead = &m->ops->dead_chunk;
	int rc, miss = 0;
	bool had;

	DASSERT(op->size < in->size);
	if (!inside && at == 0)
		return has_block ? -EINVAL : 0; /* between two chunks */
	if (!in->blocks && !has_block)
		return 0;
	rc = meta__chunk_get(m, in, index, c);
	if (rc)
		return rc;
	if (keep ? !has_block && at < c->nblocks && c->baddr[at] : has_block)
		return -EINVAL;
	had = c->nblocks > 0;
	if (!had && !has_block)
		return 0;
	meta__kill_slots(c, has_block || !keep ? at : at + 1, META_CHUNK_BLOCKS, dead);
	if (dead->nblocks)
		rc = meta__dead_blocks(m, in, index, dead);
	if (meta__stop(rc, &miss))
		return rc;
	meta__blocks_moved(in, has_block, dead);
	meta__chunk_trim(c, keep ? at + 1 : at);
	if (has_block)
		meta__chunk_set(c, at, op->runs[0].baddr, op->crcs[0]);
	rc = meta__chunk_put(m, in, index, had, c);
	if (meta__stop(rc, &miss) || !has_block)
		return rc ? rc : miss;
	rc = meta__runs_live(m, op, in->shard);
	meta__tx_data(m, op->runs, op->nruns);
	return rc ? rc : miss;
}

/* The tail of a file that ends at op->size from now on. */
static int cut_tail(struct meta *m, const struct meta_op *op, struct meta__inode *in)
{
	const uint64_t last = op->size / BLOCK_SIZE;
	const uint32_t keep = (uint32_t)(op->size % BLOCK_SIZE);
	const struct meta__tail t = { .block = last, .len = keep };
	struct meta__tail old;
	int rc = meta__tail_find(m, in, &old);

	DASSERT(op->size < in->size);
	if (rc)
		return rc;
	if (op->flags & META_BY_INLINE && op->inline_len != keep)
		return -EINVAL;
	if (op->flags & META_BY_INLINE && keep) {
		if (old.len && old.block < last)
			return -EINVAL; /* another, and one only */
		return meta__tail_put(m, in, &old, &t, op->inline_buf);
	}
	if (old.len == 0 || old.block < last)
		return 0;
	if (old.block > last || keep == 0)
		return meta__tail_drop(m, in, &old);
	return op->nruns ? -EINVAL : meta__tail_cut(m, in, &old, keep);
}

static int truncate_down(struct meta *m, const struct meta_op *op, struct meta__inode *in)
{
	int rc = cut_tail(m, op, in), miss = 0;

	DASSERT(op->size < in->size);
	DASSERT(in->type == META_TYPE_FILE);
	if (meta__stop(rc, &miss))
		return rc;
	rc = cut_chunk(m, op, in);
	if (meta__stop(rc, &miss))
		return rc;
	in->size = op->size;
	rc = meta__free_chunks(m, in, div_up(op->size, CHUNK_BYTES));
	return rc ? rc : miss;
}

int meta__plan_truncate(struct meta *m, struct meta_op *op)
{
	const bool has_block = op->nruns && !(op->flags & META_BY_INLINE);
	struct meta__inode in;
	int rc = meta__file_of(m, op, META__MAY_W, &in);

	if (rc)
		return rc;
	if (in.flags & META__INODE_HIDDEN)
		return -EINVAL; /* its ORPHAN record is taken */
	if (has_block && (op->nruns != 1 || meta__runs_check(op, 1)))
		return -EINVAL;
	if (op->size >= in.size) {
		if (has_block)
			return -EINVAL;
		if (must_wait(&in, op->size))
			return META__TRIMS;
		in.size = op->size;
		m->ops->lengthens = true;
	} else {
		rc = truncate_down(m, op, &in);
		if (rc && rc != META__MISSES)
			return rc;
	}
	return put_changed(m, op, &in, rc);
}
