/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Holes: made inside a file (punch), and found (seek).
 *
 *   file      | block 3 | block 4 | block 5 | block 6 |
 *   punch          [offset ............ + length)
 *   becomes   |ab000000 |  a hole | a hole  |000000yz |
 *                  ^ runs[0]                  ^ runs[1]: replaced, as by a write
 *
 * One punch is one apply: readers see all of it or nothing, and its changes are bounded like those
 * of a write.  A larger punch proceeds from front to back, a piece at a time, and skips holes by
 * seeking: so its time depends on the number of blocks, not on the range.
 *
 *  (1) The size stays, and so does invariant (2) of meta_write.c: the last block of the file is
 *      whole when the punch goes up to the file's last byte
 *      [test_meta_hole:at_the_end_of_the_file_the_last_block_is_whole].
 *  (2) Bytes of the tail (meta_tail.c) are zeroed in place; a tail of which nothing is left
 *      is dropped, and its block is an ordinary hole
 *      [test_meta_hole:bytes_of_a_tail_become_zeros_where_they_lie].
 *  (3) A chunk that is being trimmed is after the end of the file: neither punch nor seek looks
 *      there [test_meta_hole:what_is_behind_the_end_is_not_looked_at].
 */
#include "meta/plans/meta_plan.h"

#define SEEK_CHUNKS_MAX 64u /* read by one plan */

/* ---- punch ------------------------------------------------------------------------------ */

/* The part of the file's blocks [first, end) to be punched. */
struct punch {
	uint64_t from_bytes, end_bytes;
	uint64_t first, end;
	bool head; /* a part of the first block stays, at its start; of the last, at its end: */
	bool tail;
	uint32_t replaced; /* of the operation's blocks, so far */
	struct meta__source source;
};

static bool is_edge(const struct punch *p, uint64_t block)
{
	DASSERT(block >= p->first);
	DASSERT(block < p->end);
	return (p->head && block == p->first) || (p->tail && block == p->end - 1);
}

/* -ENODATA: nothing of it is in the file. */
static int punch_range(const struct meta_op *op, const struct meta__inode *in, struct punch *p)
{
	if (op->length == 0 || op->length > META__FILE_BYTES_MAX ||
	    op->offset > META__FILE_BYTES_MAX)
		return -EINVAL;
	if (op->offset >= in->size)
		return op->nruns ? -EINVAL : -ENODATA;
	p->from_bytes = op->offset;
	p->end_bytes = min_u64(op->offset + op->length, in->size);
	p->first = p->from_bytes / BLOCK_SIZE;
	p->end = div_up(p->end_bytes, BLOCK_SIZE);
	p->head = p->from_bytes % BLOCK_SIZE != 0;
	p->tail = p->end_bytes % BLOCK_SIZE != 0 && p->end_bytes < in->size; /* (1) */
	DASSERT(p->first < p->end);                                          /* (1) */
	DASSERT(p->end_bytes <= in->size);
	p->source = (struct meta__source){ .op = op };
	return p->end - p->first <= META_IO_BLOCKS_MAX ? 0 : -EINVAL;
}

static uint32_t blocks_given(const struct meta_op *op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < op->nruns; i++)
		n += op->runs[i].nblocks;
	return n;
}

/* Slots [from, end) of the chunk: blocks die, edges among them are replaced. */
static int punch_slots(struct punch *p, struct meta__chunk *c, uint64_t index, uint32_t from,
		       uint32_t end)
{
	const uint32_t nblocks = min_u32(end, c->nblocks);

	DASSERT(from < end);
	DASSERT(end <= META_CHUNK_BLOCKS);
	for (uint32_t i = from; i < nblocks; i++) {
		uint64_t baddr = 0;
		uint32_t crc = CRC32C_ZERO_BLOCK;

		if (!c->baddr[i])
			continue;
		if (is_edge(p, index * META_CHUNK_BLOCKS + i)) {
			baddr = meta__source_next(&p->source, &crc);
			if (!baddr)
				return -EINVAL; /* bytes would be lost */
			p->replaced++;
		}
		meta__chunk_set(c, i, baddr, crc);
	}
	return 0;
}

static int punch_chunk(struct meta *m, struct meta__inode *in, struct punch *p, uint64_t index,
		       uint32_t from, uint32_t end)
{
	struct meta__chunk *c = &m->ops->chunk, *dead = &m->ops->dead_chunk;
	const uint32_t had = p->replaced;
	int rc = meta__chunk_get(m, in, index, c), miss = 0;

	DASSERT(from < end);
	DASSERT(end <= META_CHUNK_BLOCKS);
	if (rc)
		return rc;
	meta__kill_slots(c, from, end, dead);
	if (dead->nblocks == 0)
		return 0; /* holes were holes */
	rc = punch_slots(p, c, index, from, end);
	if (rc)
		return rc;
	meta__blocks_moved(in, p->replaced - had, dead);
	rc = meta__chunk_put(m, in, index, true, c);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dead_blocks(m, in, index, dead);
	return rc ? rc : miss;
}

static int punch_blocks(struct meta *m, const struct meta_op *op, struct meta__inode *in,
			struct punch *p)
{
	int rc = meta__runs_live(m, op, in->shard), miss = 0;

	DASSERT(p->first < p->end);
	if (meta__stop(rc, &miss))
		return rc;
	for (uint64_t block = p->first; in->blocks && block < p->end;) {
		const uint64_t index = block / META_CHUNK_BLOCKS;
		const uint64_t base = index * META_CHUNK_BLOCKS;
		const uint64_t stop = min_u64(base + META_CHUNK_BLOCKS, p->end);

		rc = punch_chunk(m, in, p, index, (uint32_t)(block - base),
				 (uint32_t)(stop - base));
		if (meta__stop(rc, &miss))
			return rc;
		block = stop;
	}
	if (!miss && p->replaced != blocks_given(op))
		return -EINVAL; /* not a block */
	meta__tx_data(m, op->runs, op->nruns);
	return miss;
}

/* (2) */
static int punch_tail(struct meta *m, struct meta__inode *in, const struct punch *p)
{
	struct meta__tail t;
	uint64_t at;
	int rc = meta__tail_find(m, in, &t);

	if (rc || t.len == 0 || t.block < p->first || t.block >= p->end)
		return rc;
	at = t.block * BLOCK_SIZE;
	return meta__tail_punch(m, in, &t, (uint32_t)(max_u64(p->from_bytes, at) - at),
				(uint32_t)(min_u64(p->end_bytes, at + BLOCK_SIZE) - at));
}

int meta__plan_punch(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct punch p = { 0 };
	int rc = meta__file_of(m, op, META__MAY_W, &in), miss = 0;

	if (rc)
		return rc;
	rc = punch_range(op, &in, &p);
	if (rc)
		return rc == -ENODATA ? meta__attr(m, &in, &op->attr) : rc;
	rc = punch_tail(m, &in, &p);
	if (meta__stop(rc, &miss))
		return rc;
	rc = punch_blocks(m, op, &in, &p);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__file_changed(m, op, &in);
	return rc ? rc : miss;
}

/* ---- seek ---------------------------------------------------------------------------------- */

/* Returns the first slot from `from` on that is data (or a hole); META_CHUNK_BLOCKS: none. */
static uint32_t slot_find(const struct meta__extent *x, uint32_t from, bool hole)
{
	uint32_t at = 0;

	DASSERT(from < META_CHUNK_BLOCKS);
	for (uint32_t i = 0; i < x->nruns; i++) {
		const struct meta_run r = meta__extent_run(x, i);

		at += r.nblocks;
		if (at > from && (r.baddr == 0) == hole)
			return max_u32(from, at - r.nblocks);
	}
	return hole ? max_u32(from, at) : META_CHUNK_BLOCKS; /* after the runs all is hole */
}

/* Finds the first block from `block` on that is on a drive; UINT64_MAX: none. */
static int seek_block(struct meta *m, const struct meta__inode *in, uint64_t block, uint64_t *out)
{
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_EXTENT);
	struct meta_key key =
		meta__obj_key(&in->handle, META__KIND_EXTENT, block / META_CHUNK_BLOCKS);

	*out = UINT64_MAX;
	for (uint32_t n = 0; n < 2; n++, key = meta__key_next(key)) { /* the second has data */
		struct meta__extent x;
		const void *value;
		uint32_t value_len, slot;
		uint64_t base;
		int rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);

		if (rc == -ENOENT)
			return 0;
		if (rc)
			return rc;
		if (!meta__key_is_obj(&key, &in->handle, META__KIND_EXTENT))
			return 0;
		if (meta__extent_check(m, in, &key, value, value_len, &x))
			return -EIO;
		base = meta__key_index(&key) * META_CHUNK_BLOCKS;
		slot = slot_find(&x, base < block ? (uint32_t)(block - base) : 0, false);
		if (slot < META_CHUNK_BLOCKS) {
			*out = base + slot;
			return 0;
		}
	}
	return 0;
}

static int seek_data(struct meta *m, struct meta_op *op, const struct meta__inode *in,
		     const struct meta__tail *tail)
{
	const uint64_t block = op->offset / BLOCK_SIZE;
	uint64_t at = UINT64_MAX;
	int rc = in->blocks ? seek_block(m, in, block, &at) : 0;

	if (rc)
		return rc;
	if (tail->len && tail->block >= block)
		at = min_u64(at, tail->block);
	if (at == UINT64_MAX || at * BLOCK_SIZE >= in->size)
		return -ENXIO;
	DASSERT(at >= block);
	op->length = max_u64(op->offset, at * BLOCK_SIZE);
	return 0;
}

/* *block: the first hole in its chunk from there on, or where the next chunk begins. */
static int chunk_hole(struct meta *m, const struct meta__inode *in, uint64_t *block)
{
	const uint64_t index = *block / META_CHUNK_BLOCKS, base = index * META_CHUNK_BLOCKS;
	const struct meta_key key = meta__obj_key(&in->handle, META__KIND_EXTENT, index);
	struct meta__extent x;
	const void *value;
	uint32_t value_len;
	int rc = meta__get(m, in->shard, &key, &value, &value_len);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	if (meta__extent_check(m, in, &key, value, value_len, &x))
		return -EIO;
	*block = base + slot_find(&x, (uint32_t)(*block - base), true);
	return 0;
}

static int seek_hole(struct meta *m, struct meta_op *op, const struct meta__inode *in,
		     const struct meta__tail *tail)
{
	uint64_t block = op->offset / BLOCK_SIZE;
	uint32_t chunks = 0;
	int miss = 0;

	DASSERT(op->offset < in->size);
	while (block * BLOCK_SIZE < in->size && chunks < SEEK_CHUNKS_MAX) {
		const uint64_t end = (block / META_CHUNK_BLOCKS + 1) * META_CHUNK_BLOCKS;
		int rc = in->blocks ? chunk_hole(m, in, &block) : 0;

		if (meta__stop(rc, &miss))
			return rc;
		if (rc) {
			block = end; /* to ask for more pages at once */
		} else if (tail->len && block == tail->block) {
			block++;
		} else if (block < end) {
			break;
		}
		chunks++;
	}
	DASSERT(chunks <= SEEK_CHUNKS_MAX);
	op->seek_more = chunks == SEEK_CHUNKS_MAX && block * BLOCK_SIZE < in->size;
	op->length = min_u64(max_u64(op->offset, block * BLOCK_SIZE), in->size);
	return miss;
}

int meta__plan_seek(struct meta *m, struct meta_op *op)
{
	struct meta__tail tail;
	struct meta__inode in;
	const uint32_t want = op->flags & META_TO_WRITE ? META__MAY_W : META__MAY_R;
	int rc = meta__file_of(m, op, want, &in);

	if (rc)
		return rc;
	op->seek_more = false;
	rc = meta__attr(m, &in, &op->attr);
	if (rc)
		return rc;
	if (op->offset >= in.size)
		return -ENXIO;
	DASSERT(in.type == META_TYPE_FILE);
	rc = meta__tail_find(m, &in, &tail);
	if (rc)
		return rc;
	return op->flags & META_SEEK_HOLE ? seek_hole(m, op, &in, &tail)
					  : seek_data(m, op, &in, &tail);
}
