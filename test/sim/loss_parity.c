/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The rules of FORMAT.md 2.7 for folds, tested on the bytes of the drives.  Nothing here is shared
 * with the code that makes folds: headers are parsed by their offsets, and the field of 256
 * elements is written as it is taught.
 *
 *   block n   data 0   d0 --.
 *             data 1   d1 --+--> P = d0 + d1 + d2 ...
 *             data 2   d2 --'    Q = d0 + 2 d1 + 4 d2 ...
 *
 *  (1) The header of a zone of parity names the data: each zone is of data, in that incarnation,
 *      and on a drive of its own [sim/losses].
 *  (2) P and Q match all blocks between the copies of the headers: dead ones, and those that were
 *      never written, too [sim/losses].
 *  (3) So they do after a power cut at any time: what is durable matches by itself [sim/losses].
 */
#include "test/sim/loss_parity.h"
#include "test/sim/sim_args.h"
#include "base/crc32c.h"
#include "meta/engine/meta_fold.h"

#include <string.h>

#define BLOCK    4096u
#define DATA     3u /* kinds of zones */
#define PARITY   6u
#define MEMBERS  10u
#define POLYNOME 0x11du /* x^8 + x^4 + x^3 + x^2 + 1 */

struct header {
	uint32_t zone, kind, twin, members, role;
	uint64_t incarnation, number;
	uint32_t member[MEMBERS];
	uint64_t member_incarnation[MEMBERS];
};

/* ---- the field -------------------------------------------------------------------------- */

static uint8_t product_of(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = 0; bit < 8; bit++)
		if (b >> bit & 1)
			product ^= a << bit;
	for (uint32_t bit = 15; bit >= 8; bit--)
		if (product >> bit & 1)
			product ^= POLYNOME << (bit - 8);
	return (uint8_t)product;
}

/* Returns the multiples of 2^i: all 256. */
static const uint8_t *multiples(uint32_t i)
{
	static uint8_t table[MEMBERS][256];
	uint32_t power = 1;

	ASSERT(i < MEMBERS);
	if (table[i][1])
		return table[i];
	for (uint32_t n = 0; n < i; n++)
		power = product_of(power, 2);
	for (uint32_t x = 0; x < 256; x++)
		table[i][x] = product_of(x, power);
	return table[i];
}

/* ---- the drives ------------------------------------------------------------------------- */

static uint32_t drive_of(const struct rig *r, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&r->m->zones->geo, zone));
}

/* Block n of a zone, on the medium or as the drive has it in its cache. */
static const uint8_t *block_of(const struct rig *r, bool durable, uint32_t zone, uint32_t n)
{
	const uint64_t at = meta__geo_zone_baddr(&r->m->zones->geo, zone) + n;
	uint8_t *const *drives = durable ? r->image : r->view;

	ASSERT(zone < r->m->zones->geo.nzones);
	return drives[META_BADDR_DRIVE(at)] + META_BADDR_BLOCK(at) * BLOCK;
}

static uint32_t u32_at(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t u64_at(const uint8_t *at)
{
	return u32_at(at) | (uint64_t)u32_at(at + 4) << 32;
}

/* One copy of a header; false: it is not whole. */
static bool take_apart(const uint8_t *from, uint32_t zone, struct header *h)
{
	uint8_t copy[BLOCK];

	memcpy(copy, from, BLOCK);
	memset(copy + 4, 0, 4);
	if (memcmp(from, "ZONE", 4) != 0 || crc32c(copy, BLOCK) != u32_at(from + 4) ||
	    u32_at(from + 24) != zone || u32_at(from + 96) > MEMBERS)
		return false;
	*h = (struct header){
		.zone = zone,
		.kind = u32_at(from + 28),
		.incarnation = u64_at(from + 32),
		.twin = u32_at(from + 80),
		.number = u64_at(from + 88),
		.members = u32_at(from + 96),
		.role = u32_at(from + 100),
	};
	for (uint32_t i = 0; i < h->members; i++) {
		h->member[i] = u32_at(from + 104 + (size_t)16 * i);
		h->member_incarnation[i] = u64_at(from + 112 + (size_t)16 * i);
	}
	return true;
}

/* The copy with the higher incarnation counts. */
static bool read_header(const struct rig *r, uint32_t zone, struct header *h)
{
	struct header b;
	bool first, last;

	memset(h, 0, sizeof(*h));
	first = take_apart(block_of(r, true, zone, 0), zone, h);
	last = take_apart(block_of(r, true, zone, r->m->zones->geo.zone_end), zone, &b);
	if (last && (!first || b.incarnation > h->incarnation))
		*h = b;
	return first || last || sim_wrong("zone %u: no header is whole", zone);
}

/* ---- a fold ----------------------------------------------------------------------------- */

static bool member_is_right(const struct rig *r, const struct header *p, uint32_t i)
{
	const uint32_t zone = p->member[i];
	struct header h;

	if (zone >= r->m->zones->geo.nzones)
		return sim_wrong("zone %u: its fold has zone %u", p->zone, zone);
	if (!read_header(r, zone, &h))
		return false;
	if (h.kind != DATA || h.incarnation != p->member_incarnation[i])
		return sim_wrong("zone %u: zone %u of its fold is of kind %u, in life %llu, not "
				 "%llu",
				 p->zone, zone, h.kind, (unsigned long long)h.incarnation,
				 (unsigned long long)p->member_incarnation[i]);
	return meta__in_fold(meta__zone_at(r->m, zone)) ||
	       sim_wrong("zone %u: the store has zone %u in no fold", p->zone, zone);
}

/* (1) */
static bool members_are_right(const struct rig *r, const struct header *p)
{
	uint64_t drives = 1ull << drive_of(r, p->zone);

	for (uint32_t i = 0; i < p->members; i++) {
		if (!member_is_right(r, p, i))
			return false;
		if (drives >> drive_of(r, p->member[i]) & 1)
			return sim_wrong("zone %u: a drive has two zones of its fold", p->zone);
		drives |= 1ull << drive_of(r, p->member[i]);
	}
	if (p->twin && drives >> drive_of(r, p->twin - 1) & 1)
		return sim_wrong("zone %u: the drive of Q has two zones of its fold", p->zone);
	return true;
}

static bool q_is_right(const struct rig *r, const struct header *p, struct header *q)
{
	if (p->twin > r->m->zones->geo.nzones)
		return sim_wrong("zone %u: Q is zone %u", p->zone, p->twin - 1);
	if (!read_header(r, p->twin - 1, q))
		return false;
	return (q->kind == PARITY && q->role == 1 && q->twin == p->zone + 1 &&
		q->number == p->number && q->members == p->members &&
		memcmp(q->member, p->member, sizeof(p->member)) == 0 &&
		memcmp(q->member_incarnation, p->member_incarnation,
		       sizeof(p->member_incarnation)) == 0) ||
	       sim_wrong("zones %u and %u: headers of P and Q disagree", p->zone, q->zone);
}

/* (2) */
static bool block_is_right(const struct rig *r, bool durable, const struct header *p, uint32_t n)
{
	uint8_t sum[2][BLOCK] = { { 0 } };

	for (uint32_t i = 0; i < p->members; i++) {
		const uint8_t *data = block_of(r, durable, p->member[i], n);
		const uint8_t *by = multiples(i);

		for (uint32_t k = 0; k < BLOCK; k++) {
			sum[0][k] ^= data[k];
			sum[1][k] ^= by[data[k]];
		}
	}
	if (memcmp(sum[0], block_of(r, durable, p->zone, n), BLOCK) != 0)
		return sim_wrong("zone %u: block %u of P is not that of its %u zones%s", p->zone, n,
				 p->members, durable ? ", durable" : "");
	if (p->twin && memcmp(sum[1], block_of(r, durable, p->twin - 1, n), BLOCK) != 0)
		return sim_wrong("zone %u: block %u of Q is not that of its %u zones%s",
				 p->twin - 1, n, p->members, durable ? ", durable" : "");
	return true;
}

static bool fold_is_right(const struct rig *r, uint32_t zone, struct loss_parity *seen)
{
	struct header p, q = { 0 };

	if (!read_header(r, zone, &p))
		return false;
	if (p.kind != PARITY || p.role != 0 || p.members < 2)
		return sim_wrong("zone %u: its header says no fold", zone);
	if (!members_are_right(r, &p) || (p.twin && !q_is_right(r, &p, &q)))
		return false;
	if (!p.twin != (r->conf.copies == 2))
		return sim_wrong("zone %u: a fold with %u zones of parity", zone, p.twin ? 2 : 1);
	for (uint32_t n = 1; n < r->m->zones->geo.zone_end; n++)
		if (!block_is_right(r, false, &p, n) || !block_is_right(r, true, &p, n)) /* (3) */
			return false;
	seen->folds[p.twin ? 2 : 1]++;
	seen->widths |= 1ull << p.members;
	seen->blocks += r->m->zones->geo.zone_end - 1;
	return true;
}

bool loss_parity_is_right(struct rig *r, struct loss_parity *seen)
{
	for (uint32_t i = 0; i < r->m->zones->geo.nzones; i++)
		if (meta__zone_at(r->m, i)->parity == META__PARITY_P && meta__fold_reads(r->m, i) &&
		    !fold_is_right(r, i, seen))
			return false;
	return true;
}
