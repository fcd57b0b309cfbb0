/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A read: from offset and length to runs of blocks and their checksums.
 *
 *   file      |  chunk 0  |  chunk 1  |  chunk 2  | ...
 *   wanted          [first ......... first + nblocks)
 *   records      EXTENT 0    (none)      EXTENT 2
 *   result       runs from 0, a hole,    runs from 2
 *
 *  (1) The result is as long as asked for, clipped to the file, to blocks_max and to the runs
 *      that runs_max holds; it has no gaps: holes are runs with baddr 0.
 *  (2) Chunks from trim_from on are holes, whatever records still exist
 *      [test_meta_orphan:growing_again_after_a_cut_reads_as_zeros].
 *  (3) The tail's block is a hole, too, except for its checksum; its bytes come separately.
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

static bool run_ok(const struct meta *m, const struct meta_run *r)
{
	const uint32_t drive = META_BADDR_DRIVE(r->baddr);

	if (r->baddr == 0)
		return true;
	return drive < META_DRIVES_MAX &&
	       META_BADDR_BLOCK(r->baddr) + r->nblocks <= m->conf.drive[drive].nblocks;
}

int meta__extent_check(struct meta *m, const struct meta__inode *in, const struct meta_key *key,
		       const void *value, uint32_t value_len, struct meta__extent *out)
{
	if (meta__extent_parse(value, value_len, out))
		return meta__bad_record(m, "extent", in->shard, key);
	for (uint32_t i = 0; i < out->nruns; i++) {
		const struct meta_run r = meta__extent_run(out, i);

		if (!run_ok(m, &r))
			return meta__bad_record(m, "extent", in->shard, key);
	}
	return 0;
}

int meta__chunk_get(struct meta *m, const struct meta__inode *in, uint64_t index,
		    struct meta__chunk *out)
{
	const struct meta_key key = meta__obj_key(&in->handle, META__KIND_EXTENT, index);
	struct meta__extent x;
	const void *value;
	uint32_t value_len;
	int rc = meta__get(m, in->shard, &key, &value, &value_len);

	DASSERT(out == &m->ops->chunk || out == &m->ops->dead_chunk || !m->home);
	meta__chunk_init(out, in->epoch);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	rc = meta__extent_check(m, in, &key, value, value_len, &x);
	if (!rc)
		meta__chunk_load(out, &x);
	return rc;
}

/* ---- results -------------------------------------------------------------------------- */

/* False: runs_max is reached. */
static bool add_run(struct meta_op *op, uint64_t baddr, uint32_t nblocks)
{
	struct meta_run *last = op->nruns ? &op->runs[op->nruns - 1] : NULL;

	DASSERT(nblocks > 0);
	DASSERT(op->nruns <= op->runs_max);
	if (last && (baddr ? last->baddr && last->baddr + last->nblocks == baddr : !last->baddr)) {
		last->nblocks += nblocks;
	} else {
		if (op->nruns == op->runs_max)
			return false;
		op->runs[op->nruns++] = (struct meta_run){ baddr, nblocks };
	}
	op->nblocks += nblocks;
	DASSERT(op->nblocks <= op->blocks_max); /* (1) */
	DASSERT(op->nblocks <= META_IO_BLOCKS_MAX);
	return true;
}

static bool add_hole(struct meta_op *op, uint32_t nblocks)
{
	const uint32_t from = op->nblocks;

	if (nblocks == 0)
		return true;
	if (!add_run(op, 0, nblocks))
		return false;
	for (uint32_t i = from; i < op->nblocks; i++)
		op->crcs[i] = CRC32C_ZERO_BLOCK;
	return true;
}

/* Blocks [from, from + nblocks) of the record's chunk, all of them within it. */
static bool add_extent(struct meta_op *op, const struct meta__extent *x, uint32_t from,
		       uint32_t nblocks)
{
	const uint32_t end = from + nblocks;
	uint32_t at = 0; /* the run's first block in the chunk */

	DASSERT(end <= x->nblocks || nblocks == 0);
	for (uint32_t i = 0; i < x->nruns && at < end; i++) {
		const struct meta_run r = meta__extent_run(x, i);
		const uint32_t lo = max_u32(at, from), hi = min_u32(at + r.nblocks, end);

		if (lo < hi) {
			const uint32_t to = op->nblocks;

			if (!add_run(op, r.baddr ? r.baddr + (lo - at) : 0, hi - lo))
				return false;
			memcpy(&op->crcs[to], x->crcs + (size_t)lo * 4, (size_t)(hi - lo) * 4);
		}
		at += r.nblocks;
	}
	return true;
}

/* ---- the plan ----------------------------------------------------------------------------- */

/* One chunk's share of the result; *more: false when runs_max is reached. */
static int read_chunk(struct meta *m, struct meta_op *op, const struct meta__inode *in,
		      uint64_t block, uint32_t nblocks, bool *more)
{
	const uint64_t chunk = block / META_CHUNK_BLOCKS;
	const uint32_t from = (uint32_t)(block % META_CHUNK_BLOCKS);
	const struct meta_key key = meta__obj_key(&in->handle, META__KIND_EXTENT, chunk);
	struct meta__extent x;
	const void *value;
	uint32_t value_len, there;
	int rc = -ENOENT;

	DASSERT(nblocks > 0);
	DASSERT(from + nblocks <= META_CHUNK_BLOCKS);
	if (!(in->flags & META__INODE_TRIMMING) || chunk < in->trim_from)
		rc = meta__get(m, in->shard, &key, &value, &value_len);
	if (rc == -ENOENT) {
		*more = add_hole(op, nblocks);
		return 0;
	}
	if (rc)
		return rc;
	if (meta__extent_check(m, in, &key, value, value_len, &x))
		return -EIO;
	there = x.nblocks > from ? min_u32(x.nblocks - from, nblocks) : 0;
	*more = add_extent(op, &x, from, there) && add_hole(op, nblocks - there);
	return 0;
}

static int read_blocks(struct meta *m, struct meta_op *op, const struct meta__inode *in,
		       uint64_t first, uint64_t end, bool *more)
{
	int miss = 0;

	for (uint64_t block = first; block < end && *more;) {
		const uint64_t chunk_end = (block / META_CHUNK_BLOCKS + 1) * META_CHUNK_BLOCKS;
		const uint32_t n = (uint32_t)(min_u64(chunk_end, end) - block);
		int rc = read_chunk(m, op, in, block, n, more);

		if (meta__stop(rc, &miss))
			return rc;
		block += n;
	}
	return miss;
}

/* Reads a range with the tail's block in it: before the tail, the tail, after it. */
static int read_around(struct meta *m, struct meta_op *op, const struct meta__inode *in,
		       const struct meta__tail *tail, uint64_t first, uint64_t end)
{
	bool more = true;
	int rc = read_blocks(m, op, in, first, tail->block, &more), miss = 0;

	DASSERT(tail->len > 0);
	DASSERT(tail->block >= first);
	DASSERT(tail->block < end);
	if (meta__stop(rc, &miss))
		return rc;
	if (!more || !add_hole(op, 1))
		return miss;
	op->inline_at = op->nblocks - 1;
	DASSERT(op->runs[op->nruns - 1].baddr == 0); /* (3) */
	op->inline_len = tail->len;
	op->crcs[op->inline_at] = in->inline_crc;
	rc = meta__tail_read(m, in, tail, op->inline_buf);
	if (meta__stop(rc, &miss))
		return rc;
	rc = read_blocks(m, op, in, tail->block + 1, end, &more);
	return rc ? rc : miss;
}

int meta__plan_read(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__tail tail;
	uint64_t first, end;
	bool more = true;
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), &in);

	if (rc)
		return rc;
	if (in.type != META_TYPE_FILE)
		return in.type == META_TYPE_DIR ? -EISDIR : -ELOOP;
	rc = meta__may_use(m, op, &in, op->flags & META_TO_WRITE ? META__MAY_W : META__MAY_R);
	if (rc)
		return rc;
	if (unlikely(op->ctime_ns && op->ctime_ns != in.ctime_ns))
		return -ESTALE;
	op->nruns = 0;
	op->nblocks = 0;
	op->inline_len = 0;
	op->inline_at = 0;
	op->tail_offset = META_NO_TAIL;
	rc = meta__attr(m, &in, &op->attr);
	if (rc || op->length == 0 || op->offset >= in.size)
		return rc;
	rc = meta__tail_find(m, &in, &tail);
	if (rc)
		return rc;
	if (tail.len)
		op->tail_offset = tail.block * BLOCK_SIZE;
	first = op->offset / BLOCK_SIZE;
	end = op->length < in.size - op->offset ? op->offset + op->length : in.size;
	end = min_u64(div_up(end, BLOCK_SIZE), first + min_u32(op->blocks_max, META_IO_BLOCKS_MAX));
	DASSERT(first <= end); /* (1) */
	DASSERT(end <= div_up(in.size, BLOCK_SIZE));
	if (tail.len && tail.block >= first && tail.block < end)
		return read_around(m, op, &in, &tail, first, end);
	return read_blocks(m, op, &in, first, end, &more);
}
