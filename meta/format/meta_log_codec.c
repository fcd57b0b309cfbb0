/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Log blocks and records: bytes to mutations and back.
 *
 *   block   [head 64][record][record] ... [zeros to 4096 * nblocks]      one checksum over it all
 *   record  [head 8][part][part] ...                                     one transaction
 *   part    [head 40][mutation][mutation] ...                            one shard's share of it
 *   mutation[head 32][value, padded to 8]
 *
 *  (1) meta__log_open() decides whether there is a block; meta__reader_next() checks every length
 *      in it.  After these two nothing checks the bytes again.  Fuzzed by fuzz_meta_log.c
 *      [fuzz_meta_log].
 */
#include "meta/meta_store.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

#define SEQ_MAX (1ull << 62) /* that no store reaches */

uint64_t meta__log_tag(const struct meta *m, uint64_t epoch, uint64_t order)
{
	le64 words[4] = { le64_of(epoch), le64_of(order) };

	static_assert(sizeof(words) == 2 * sizeof(le64) + sizeof(m->uuid), "all of it is hashed");
	memcpy(&words[2], m->uuid, sizeof(m->uuid));
	return hash_bytes(m->secret, words, sizeof(words));
}

static uint32_t log_crc(const void *block, size_t size_bytes)
{
	static const uint8_t zeros[4];
	const size_t at = offsetof(struct meta_log_disk, crc);
	const uint8_t *p = block;
	uint32_t crc = crc32c_more(crc32c(p, at), zeros, 4);

	ASSERT(size_bytes >= sizeof(struct meta_log_disk));
	return crc32c_more(crc, p + at + 4, size_bytes - at - 4);
}

/* The records are in place after the head; fills the rest of the last 4096 bytes with zeros. */
void meta__log_seal(void *block, const struct meta__log_head *h)
{
	size_t size_bytes = (size_t)h->nblocks * META__BLOCK;
	size_t used = sizeof(struct meta_log_disk) + h->bytes;
	struct meta_log_disk d = {
		.magic = le32_of(META__LOG_MAGIC),
		.tag = le64_of(h->tag),
		.nblocks = le32_of(h->nblocks),
		.epoch = le64_of(h->epoch),
		.seq = le64_of(h->seq),
		.durable = le64_of(h->durable),
		.trim = le64_of(h->trim),
		.bytes = le32_of(h->bytes),
		.records = le32_of(h->records),
	};

	ASSERT(h->nblocks >= 1 && h->nblocks <= META__LOG_BLOCKS_MAX);
	ASSERT(used <= size_bytes);
	ASSERT(h->durable < h->seq && h->trim < h->seq);
	memset((uint8_t *)block + used, 0, size_bytes - used);
	memcpy(block, &d, sizeof(d));
	d.crc = le32_of(log_crc(block, size_bytes));
	memcpy(block, &d, sizeof(d));
}

uint32_t meta__log_peek(const void *block, uint64_t tag)
{
	struct meta_log_disk d;

	memcpy(&d, block, sizeof(d));
	if (le32_get(d.magic) != META__LOG_MAGIC || le64_get(d.tag) != tag)
		return 0;
	return le32_get(d.nblocks);
}

int meta__log_open(const void *block, uint32_t max_blocks, uint64_t tag, struct meta__log_head *out)
{
	struct meta_log_disk d;
	uint32_t nblocks;

	memcpy(&d, block, sizeof(d));
	nblocks = le32_get(d.nblocks);
	if (le32_get(d.magic) != META__LOG_MAGIC || le64_get(d.tag) != tag)
		return -ENODATA;
	if (nblocks < 1 || nblocks > META__LOG_BLOCKS_MAX || nblocks > max_blocks)
		return -ENODATA;
	if (le32_get(d.crc) != log_crc(block, (size_t)nblocks * META__BLOCK))
		return -ENODATA;
	if (le32_get(d.bytes) > nblocks * META__BLOCK - sizeof(d))
		return -ENODATA;
	*out = (struct meta__log_head){
		.tag = tag,
		.epoch = le64_get(d.epoch),
		.seq = le64_get(d.seq),
		.durable = le64_get(d.durable),
		.trim = le64_get(d.trim),
		.nblocks = nblocks,
		.bytes = le32_get(d.bytes),
		.records = le32_get(d.records),
	};
	if (out->seq > SEQ_MAX)
		return -ENODATA;
	return out->durable < out->seq && out->trim < out->seq ? 0 : -ENODATA;
}

/* ---- records --------------------------------------------------------------- */

static uint32_t mut_bytes(const struct meta__mut *mut)
{
	ASSERT(mut->value_len <= META_VALUE_MAX);
	return (uint32_t)sizeof(struct meta_mut_disk) +
	       (mut->del ? 0 : (uint32_t)align_up(mut->value_len, 8));
}

/* Is this the first mutation of its shard? */
static bool opens_part(const struct meta__mut *mut, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (mut[k].shard == mut[i].shard)
			return false;
	return true;
}

uint32_t meta__log_record_bytes(const struct meta__mut *mut, uint32_t count)
{
	uint32_t bytes = sizeof(struct meta_record_disk);

	DASSERT(count <= META__TX_RECORDS_MAX);
	for (uint32_t i = 0; i < count; i++)
		bytes += mut_bytes(&mut[i]) +
			 (opens_part(mut, i) ? (uint32_t)sizeof(struct meta_part_disk) : 0);
	return bytes;
}

static uint8_t *mut_write(uint8_t *at, const struct meta__mut *mut)
{
	uint32_t size_bytes = mut_bytes(mut);
	struct meta_mut_disk d = {
		.key = { { le64_of(mut->key.w[0]), le64_of(mut->key.w[1]),
			   le64_of(mut->key.w[2]) } },
		.value_len = le16_of(mut->del ? 0 : (uint16_t)mut->value_len),
		.del = mut->del,
	};

	DASSERT(mut->value_len == 0 || mut->del || mut->value);
	memset(at, 0, size_bytes);
	memcpy(at, &d, sizeof(d));
	if (!mut->del && mut->value_len)
		memcpy(at + sizeof(d), mut->value, mut->value_len);
	return at + size_bytes;
}

/* All of one shard's, in the order in which they were wanted. */
static uint8_t *part_write(const struct meta *m, uint8_t *at, const struct meta__mut *mut,
			   uint32_t count, uint32_t first)
{
	const struct meta__shard *s = &m->shard[mut[first].shard];
	struct meta_part_disk d = {
		.shard = le32_of(mut[first].shard),
		.seq = le64_of(s->seq),
		.uniq_next = le64_of(s->uniq_next),
		.dir_next = le64_of(s->dir_next),
		.files = le64_of(s->files),
		.dirs = le64_of(s->dirs),
	};
	uint8_t *head = at;
	uint32_t muts = 0;

	DASSERT(mut[first].shard < m->nshards);
	at += sizeof(d);
	for (uint32_t i = first; i < count; i++) {
		if (mut[i].shard != mut[first].shard)
			continue;
		at = mut_write(at, &mut[i]);
		muts++;
	}
	DASSERT(muts > 0);
	DASSERT(muts <= count);
	d.muts = le32_of(muts);
	memcpy(head, &d, sizeof(d));
	return at;
}

uint32_t meta__record_write(const struct meta *m, void *out, const struct meta__mut *mut,
			    uint32_t count)
{
	uint8_t *at = (uint8_t *)out + sizeof(struct meta_record_disk);
	struct meta_record_disk d;
	uint32_t parts = 0, bytes;

	ASSERT(count >= 1 && count <= META__TX_RECORDS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (!opens_part(mut, i))
			continue;
		at = part_write(m, at, mut, count, i);
		parts++;
	}
	bytes = (uint32_t)(at - (uint8_t *)out);
	d = (struct meta_record_disk){ .bytes = le32_of(bytes), .parts = le32_of(parts) };
	memcpy(out, &d, sizeof(d));
	ASSERT(bytes == meta__log_record_bytes(mut, count));
	return bytes;
}

void meta__reader_init(struct meta__record_reader *r, const void *block,
		       const struct meta__log_head *h, uint32_t nshards)
{
	ASSERT(h->bytes <= h->nblocks * META__BLOCK - sizeof(struct meta_log_disk));
	*r = (struct meta__record_reader){
		.at = (const uint8_t *)block + sizeof(struct meta_log_disk),
		.records_left = h->records,
		.nshards = nshards,
	};
	r->end = r->at + h->bytes;
	r->record_end = r->at;
}

/* `size_bytes` more of [at, end), or NULL. */
static const uint8_t *take(struct meta__record_reader *r, const uint8_t *end, size_t size_bytes)
{
	const uint8_t *at = r->at;

	DASSERT(at <= end);
	DASSERT(end <= r->end);
	if ((size_t)(end - at) < size_bytes)
		return NULL;
	r->at += size_bytes;
	return at;
}

static int record_next(struct meta__record_reader *r)
{
	struct meta_record_disk d;
	const uint8_t *start = r->at, *at = take(r, r->end, sizeof(d));
	uint32_t bytes;

	if (!at)
		return -EUCLEAN;
	memcpy(&d, at, sizeof(d));
	bytes = le32_get(d.bytes);
	if (bytes % 8 || bytes < sizeof(d) || bytes > (size_t)(r->end - start))
		return -EUCLEAN;
	if (le32_get(d.parts) == 0 || le32_get(d.parts) > META__TX_RECORDS_MAX)
		return -EUCLEAN;
	r->record_end = start + bytes;
	r->parts_left = le32_get(d.parts);
	r->records_left--;
	return 0;
}

static int mut_next(struct meta__record_reader *r, uint32_t shard, struct meta__mut *out)
{
	struct meta_mut_disk d;
	const uint8_t *at = take(r, r->record_end, sizeof(d));
	uint32_t value_len;

	if (!at)
		return -EUCLEAN;
	memcpy(&d, at, sizeof(d));
	value_len = le16_get(d.value_len);
	if (d.del > 1 || value_len > META_VALUE_MAX || (d.del && value_len))
		return -EUCLEAN;
	*out = (struct meta__mut){
		.shard = shard,
		.del = d.del,
		.key = { { le64_get(d.key.w[0]), le64_get(d.key.w[1]), le64_get(d.key.w[2]) } },
		.value_len = value_len,
	};
	out->value = take(r, r->record_end, align_up(value_len, 8));
	return out->value && !meta__key_is_last(&out->key) ? 0 : -EUCLEAN;
}

int meta__reader_next(struct meta__record_reader *r, struct meta__part *part,
		      struct meta__mut mut[META__TX_RECORDS_MAX])
{
	struct meta_part_disk d;
	const uint8_t *at;
	int err;

	DASSERT(r->at <= r->record_end);
	DASSERT(r->record_end <= r->end);
	if (r->parts_left == 0) {
		if (r->at != r->record_end)
			return -EUCLEAN;
		if (r->records_left == 0)
			return r->at == r->end ? 0 : -EUCLEAN;
		err = record_next(r);
		if (err)
			return err;
	}
	at = take(r, r->record_end, sizeof(d));
	if (!at)
		return -EUCLEAN;
	memcpy(&d, at, sizeof(d));
	*part = (struct meta__part){
		.shard = le32_get(d.shard),
		.count = le32_get(d.muts),
		.seq = le64_get(d.seq),
		.uniq_next = le64_get(d.uniq_next),
		.dir_next = le64_get(d.dir_next),
		.files = le64_get(d.files),
		.dirs = le64_get(d.dirs),
	};
	if (part->shard >= r->nshards || part->count == 0 || part->count > META__TX_RECORDS_MAX)
		return -EUCLEAN;
	for (uint32_t i = 0; i < part->count; i++) {
		err = mut_next(r, part->shard, &mut[i]);
		if (err)
			return err;
	}
	r->last_part = --r->parts_left == 0;
	return 1;
}
