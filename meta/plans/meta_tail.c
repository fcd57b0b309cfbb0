/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The tail: the bytes of one block of a file that are kept in the index, until the block is full.
 *
 *   file      | block 0 | block 1 | block 2 ...... |          size
 *   extents   | on a drive        | a hole         |
 *   tail                          | piece 0 | piece 1 | pie|  zeros
 *                                   256 B     256 B     1 .. 256 B, nothing after them
 *   keys      INODE, TAIL 2*16+0, TAIL 2*16+1, TAIL 2*16+2, EXTENT ...
 *
 * Why in pieces.  A record is logged whole, so an append of n bytes to a tail of one record would
 * log 2 KiB of old bytes on average; with pieces of P bytes it logs the last one, P/2 on average,
 * and nothing of the others.  The cost of an append of 100 bytes in the log (head and part 48,
 * inode 128, pieces, 16 deletes and the new block and extent once in 41 appends):
 *
 *   P        one record   1024    512    256    128
 *   bytes    about 2500    950    700    590    555      a block each time: 4096 and 1100 of log
 *
 * 256: smaller ones gain little there, and cost a slot of 32 bytes each in the leaf.  Writes of
 * more than about 2 KiB are better off with a block; the appliance decides that.
 *
 * The sum of the block, made when its bytes were verified, is in the inode: a reader verifies a
 * tail like any other block, and thus notices a lost or old piece.
 *
 *  (1) A file has at most one tail: up to META_INLINE_MAX bytes of block 0 in the inode record
 *      (inline_len), else 1 .. META_TAIL_MAX bytes in TAIL records (tail_len); a tiny file
 *      consists of its tail.
 *  (2) The pieces of a tail have META__TAIL_PIECE bytes each, except the last; there are no
 *      others.
 *  (3) The tail's block is a hole in the extents, and within the size; zeros follow the tail's
 *      bytes.  It need not be the last block: a file that is made longer keeps its tail
 *      where it is [test_meta_tail:stays_where_it_is_when_the_file_grows_behind_it].
 *  (4) No chunk that is being trimmed has the tail
 *      [test_meta_tail:is_cut_and_dropped_by_truncates].
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

static struct meta_key piece_key(const struct meta__inode *in, uint64_t block, uint32_t piece)
{
	DASSERT(piece < META__TAIL_PIECES);
	return meta__obj_key(&in->handle, META__KIND_TAIL, block * META__TAIL_PIECES + piece);
}

static uint32_t pieces_of(uint32_t len)
{
	DASSERT(len <= META_TAIL_MAX);
	return (uint32_t)div_up(len, META__TAIL_PIECE);
}

static uint32_t piece_len(uint32_t len, uint32_t piece)
{
	DASSERT(piece * META__TAIL_PIECE < len);
	return min_u32(len - piece * META__TAIL_PIECE, META__TAIL_PIECE);
}

int meta__tail_find(struct meta *m, const struct meta__inode *in, struct meta__tail *out)
{
	struct meta_key key = meta__obj_key(&in->handle, META__KIND_TAIL, 0);
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_TAIL);
	const void *value;
	uint32_t value_len;
	int rc;

	*out = (struct meta__tail){ .len = in->inline_len, .in_inode = true };
	if (in->type != META_TYPE_FILE || in->tail_len == 0)
		return 0;
	rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);
	if (rc && rc != -ENOENT)
		return rc;
	if (rc || !meta__key_is_obj(&key, &in->handle, META__KIND_TAIL) ||
	    meta__key_index(&key) % META__TAIL_PIECES) {
		key = meta__obj_key(&in->handle, META__KIND_TAIL, 0);
		return meta__bad_record(m, "tail", in->shard, &key);
	}
	out->len = in->tail_len;
	out->in_inode = false;
	out->block = meta__key_index(&key) / META__TAIL_PIECES;
	if (out->block * BLOCK_SIZE + out->len > in->size) /* (3) */
		return meta__bad_record(m, "tail", in->shard, &key);
	return 0;
}

/* A piece that must be there, and as long as it must be. */
static int piece_get(struct meta *m, const struct meta__inode *in, const struct meta__tail *t,
		     uint32_t piece, const void **value)
{
	const struct meta_key key = piece_key(in, t->block, piece);
	uint32_t len;
	int rc = meta__get(m, in->shard, &key, value, &len);

	if (rc == -ENOENT || (rc == 0 && len != piece_len(t->len, piece)))
		return meta__bad_record(m, "tail", in->shard, &key); /* (2) */
	return rc;
}

int meta__tail_read(struct meta *m, const struct meta__inode *in, const struct meta__tail *t,
		    void *bytes)
{
	const void *value;
	int rc, miss = 0;

	DASSERT(t->len <= META_TAIL_MAX); /* (1) */
	DASSERT((!t->in_inode || t->len <= META_INLINE_MAX));
	if (t->in_inode) {
		memcpy(bytes, in->inline_bytes, t->len);
		return 0;
	}
	for (uint32_t i = 0; i < pieces_of(t->len); i++) {
		rc = piece_get(m, in, t, i, &value);
		if (meta__stop(rc, &miss))
			return rc;
		if (rc == 0)
			memcpy((uint8_t *)bytes + i * META__TAIL_PIECE, value,
			       piece_len(t->len, i));
	}
	return miss;
}

static int pieces_del(struct meta *m, const struct meta__inode *in, const struct meta__tail *t,
		      uint32_t from)
{
	int miss = 0;

	DASSERT(!t->in_inode);
	for (uint32_t i = from; i < pieces_of(t->len); i++) {
		const struct meta_key key = piece_key(in, t->block, i);
		int rc = meta__tx_del(m, in->shard, &key);

		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

int meta__tail_drop(struct meta *m, struct meta__inode *in, const struct meta__tail *t)
{
	int rc = t->in_inode ? 0 : pieces_del(m, in, t, 0);

	in->inline_len = 0;
	in->inline_crc = 0;
	in->tail_len = 0;
	return rc;
}

/* Pieces of `bytes`, but for those that are there already (in `old`). */
static int pieces_put(struct meta *m, const struct meta__inode *in, const struct meta__tail *t,
		      const struct meta__tail *old, const uint8_t *bytes)
{
	int miss = 0;

	DASSERT(t->len > 0); /* (2) */
	DASSERT(pieces_of(t->len) <= META__TAIL_PIECES);
	for (uint32_t i = 0; i < pieces_of(t->len); i++, bytes += META__TAIL_PIECE) {
		const struct meta_key key = piece_key(in, t->block, i);
		const uint32_t len = piece_len(t->len, i);
		const void *value;
		int rc = 0;

		if (old && i < pieces_of(old->len) && piece_len(old->len, i) == len) {
			rc = piece_get(m, in, old, i, &value);
			if (rc == 0 && memcmp(value, bytes, len) == 0)
				continue;
		}
		if (meta__stop(rc, &miss))
			return rc;
		rc = meta__tx_put(m, in->shard, &key, bytes, len);
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

int meta__tail_put(struct meta *m, struct meta__inode *in, const struct meta__tail *old,
		   const struct meta__tail *t, const void *bytes)
{
	const bool in_inode = t->block == 0 && t->len <= META_INLINE_MAX;
	const bool same = !in_inode && !old->in_inode && old->block == t->block;
	int rc = same ? pieces_del(m, in, old, pieces_of(t->len)) : meta__tail_drop(m, in, old);
	int miss = 0;

	ASSERT(t->len > 0 && t->len <= META_TAIL_MAX);
	if (meta__stop(rc, &miss))
		return rc;
	in->inline_crc = crc32c_block(bytes, t->len);
	if (in_inode) {
		in->inline_len = t->len;
		in->inline_bytes = bytes;
		DASSERT(in->tail_len == 0); /* (1) */
		return miss;
	}
	in->inline_len = 0;
	in->tail_len = t->len;
	rc = pieces_put(m, in, t, same ? old : NULL, bytes);
	return rc ? rc : miss;
}

/* Its bytes, to be changed, in ops->tail: no new sum over bad ones. */
static int tail_load(struct meta *m, const struct meta__inode *in, const struct meta__tail *t)
{
	const struct meta_key key = piece_key(in, t->block, 0);
	int rc = meta__tail_read(m, in, t, m->ops->tail);

	DASSERT(t->len > 0);
	if (rc == 0 && crc32c_block(m->ops->tail, t->len) != in->inline_crc)
		return meta__bad_record(m, "tail", in->shard, &key);
	return rc;
}

int meta__tail_cut(struct meta *m, struct meta__inode *in, const struct meta__tail *old,
		   uint32_t keep)
{
	struct meta__tail t = { .block = old->block, .len = keep };
	int rc;

	if (keep >= old->len)
		return 0;
	if (keep == 0)
		return meta__tail_drop(m, in, old);
	DASSERT(keep < old->len);
	rc = tail_load(m, in, old);
	return rc ? rc : meta__tail_put(m, in, old, &t, m->ops->tail);
}

int meta__tail_punch(struct meta *m, struct meta__inode *in, const struct meta__tail *old,
		     uint32_t from, uint32_t end)
{
	int rc;

	ASSERT(from < end);
	if (from >= old->len)
		return 0; /* zeros already */
	if (end >= old->len)
		return meta__tail_cut(m, in, old, from);
	rc = tail_load(m, in, old);
	if (rc)
		return rc;
	memset(m->ops->tail + from, 0, end - from);
	return meta__tail_put(m, in, old, old, m->ops->tail);
}
