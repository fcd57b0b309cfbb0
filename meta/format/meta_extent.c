/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extent records: the addresses of META_CHUNK_BLOCKS blocks of a file, and their checksums.
 *
 *   record   | epoch nruns nblocks | run 0 | run 1 ... | crc of block 0 | crc of block 1 ...
 *
 *   chunk    slot   0     1     2     3     4     5          (the form for changes)
 *            baddr  100   101   0     0     900   -
 *            runs   100 +2      0 +2        900 +1           nblocks 5
 *
 * Invariants of a record:
 *
 *  (1) The runs have 1 .. META_CHUNK_BLOCKS blocks each and nblocks together.
 *  (2) The last run is not a hole: the rest of the chunk is a hole, and takes no bytes.
 *  (3) A run with drive 0 and block 0 is a hole; its checksums are those of zeros.
 *  (4) A run's last block still has a number of 44 bits.
 */
#include "meta/format/meta_record.h"

#include <errno.h>
#include <string.h>

#define RUN_BLOCK_BITS 44u
#define RUN_BLOCK_MASK ((1ull << RUN_BLOCK_BITS) - 1)

struct meta_run meta__extent_run(const struct meta__extent *x, uint32_t index)
{
	struct meta_run_disk d;
	uint64_t packed, block;

	DASSERT(index < x->nruns);
	memcpy(&d, x->runs + (size_t)index * sizeof(d), sizeof(d));
	packed = le64_get(d.packed);
	block = packed >> 8 & RUN_BLOCK_MASK;
	return (struct meta_run){
		.baddr = META_BADDR(packed >> 52, block),
		.nblocks = (uint32_t)(packed & 0xff),
	};
}

static struct meta_run_disk run_pack(const struct meta_run *r)
{
	ASSERT(META_BADDR_DRIVE(r->baddr) < 1u << 12);
	ASSERT(META_BADDR_BLOCK(r->baddr) <= RUN_BLOCK_MASK);
	ASSERT(r->nblocks >= 1 && r->nblocks <= META_CHUNK_BLOCKS);
	DASSERT(META_BADDR_BLOCK(r->baddr) + r->nblocks - 1 <= RUN_BLOCK_MASK); /* (4) */
	return (struct meta_run_disk){ le64_of((uint64_t)META_BADDR_DRIVE(r->baddr) << 52 |
					       META_BADDR_BLOCK(r->baddr) << 8 | r->nblocks) };
}

int meta__extent_parse(const void *value, uint32_t value_len, struct meta__extent *out)
{
	struct meta_extent_disk d;
	struct meta_run r = { 0 };
	uint32_t nblocks = 0;

	if (value_len < sizeof(d))
		return -EIO;
	memcpy(&d, value, sizeof(d));
	out->epoch = le32_get(d.epoch);
	out->nruns = le16_get(d.nruns);
	out->nblocks = le16_get(d.nblocks);
	out->runs = (const uint8_t *)value + sizeof(d);
	out->crcs = out->runs + (size_t)out->nruns * sizeof(struct meta_run_disk);
	if (out->nblocks == 0 || out->nblocks > META_CHUNK_BLOCKS || out->nruns > out->nblocks)
		return -EIO;
	if (value_len !=
	    sizeof(d) + out->nruns * sizeof(struct meta_run_disk) + out->nblocks * sizeof(le32))
		return -EIO;
	for (uint32_t i = 0; i < out->nruns; i++) {
		r = meta__extent_run(out, i);
		if (r.nblocks == 0 || r.nblocks > META_CHUNK_BLOCKS)
			return -EIO;
		if (META_BADDR_BLOCK(r.baddr) + r.nblocks > RUN_BLOCK_MASK)
			return -EIO;
		if (META_BADDR_BLOCK(r.baddr) == 0 && r.baddr != 0)
			return -EIO; /* a superblock's place */
		nblocks += r.nblocks;
	}
	return nblocks == out->nblocks && r.baddr != 0 ? 0 : -EIO;
}

void meta__chunk_init(struct meta__chunk *c, uint32_t epoch)
{
	c->epoch = epoch;
	c->nblocks = 0;
}

void meta__chunk_load(struct meta__chunk *c, const struct meta__extent *x)
{
	uint32_t at = 0;

	DASSERT(x->nblocks <= META_CHUNK_BLOCKS); /* (1) */
	DASSERT(x->nruns <= x->nblocks);
	c->epoch = x->epoch;
	c->nblocks = x->nblocks;
	memcpy(c->crc, x->crcs, x->nblocks * sizeof(c->crc[0])); /* le.h: this host is too */
	for (uint32_t i = 0; i < x->nruns; i++) {
		const struct meta_run r = meta__extent_run(x, i);

		for (uint32_t k = 0; k < r.nblocks; k++)
			c->baddr[at++] = r.baddr ? r.baddr + k : 0;
	}
	ASSERT(at == x->nblocks); /* (1), as parsed */
}

static void shrink(struct meta__chunk *c)
{
	DASSERT(c->nblocks <= META_CHUNK_BLOCKS);
	while (c->nblocks > 0 && c->baddr[c->nblocks - 1] == 0)
		c->nblocks--; /* (2) */
}

void meta__chunk_set(struct meta__chunk *c, uint32_t at, uint64_t baddr, uint32_t crc)
{
	ASSERT(at < META_CHUNK_BLOCKS);
	for (; c->nblocks <= at; c->nblocks++) {
		c->baddr[c->nblocks] = 0;
		c->crc[c->nblocks] = CRC32C_ZERO_BLOCK;
	}
	c->baddr[at] = baddr;
	c->crc[at] = baddr ? crc : CRC32C_ZERO_BLOCK;             /* (3) */
	DASSERT(c->baddr[at] || c->crc[at] == CRC32C_ZERO_BLOCK); /* (3) */
	shrink(c);
}

void meta__chunk_trim(struct meta__chunk *c, uint32_t from)
{
	c->nblocks = min_u32(c->nblocks, from);
	shrink(c);
}

bool meta__chunk_next_run(const struct meta__chunk *c, uint32_t *at, struct meta_run *out)
{
	uint32_t i = *at;

	if (i >= c->nblocks)
		return false;
	*out = (struct meta_run){ c->baddr[i], 1 };
	for (i++; i < c->nblocks; i++, out->nblocks++)
		if (c->baddr[i] != (out->baddr ? out->baddr + out->nblocks : 0))
			break;
	DASSERT(i > *at);
	DASSERT(out->nblocks == i - *at);
	*at = i;
	return true;
}

uint32_t meta__chunk_build(const struct meta__chunk *c, void *buf)
{
	uint8_t *p = (uint8_t *)buf + sizeof(struct meta_extent_disk);
	uint16_t nruns = 0;
	struct meta_run run;
	uint32_t at = 0;

	if (c->nblocks == 0)
		return 0;
	ASSERT(c->baddr[c->nblocks - 1] != 0); /* (2) */
	for (; meta__chunk_next_run(c, &at, &run); nruns++) {
		const struct meta_run_disk d = run_pack(&run);

		memcpy(p, &d, sizeof(d));
		p += sizeof(d);
	}
	DASSERT(at == c->nblocks); /* (1) */
	DASSERT(nruns <= c->nblocks);
	memcpy(p, c->crc, c->nblocks * sizeof(c->crc[0]));
	p += c->nblocks * sizeof(c->crc[0]);
	memcpy(buf,
	       &(struct meta_extent_disk){ le32_of(c->epoch), le16_of(nruns),
					   le16_of((uint16_t)c->nblocks) },
	       sizeof(struct meta_extent_disk));
	return (uint32_t)(p - (uint8_t *)buf);
}
