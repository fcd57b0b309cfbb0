/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The table of damaged files.
 *
 *   found --add--> entry, one a file --not found again by a whole round--> dropped
 *                     \--the damaged block is gone, or was rewritten-----> dropped
 *
 *  (1) A file has one entry, found by its handle; entries do not move, so their numbers are
 *      positions of a list.
 *  (2) `stat` is the sum of all entries, at any time.
 *  (3) All damaged blocks of an entry's file are in [from, end).  The scrub finds them in order, so
 *      it counts each once; when it comes to a file, it forgets the findings of single reads.
 */
#include "meta/engine/meta_damage.h"
#include "base/num.h"
#include "meta/format/meta_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int meta__damages_init(struct meta__damages *t)
{
	*t = (struct meta__damages){ .free = META__DAMAGE_NONE };
	t->of = calloc(META__DAMAGE_MAX, sizeof(*t->of));
	t->bucket = malloc(META__DAMAGE_BUCKETS * sizeof(*t->bucket));
	if (!t->of || !t->bucket) {
		meta__damages_fini(t);
		return -ENOMEM;
	}
	memset(t->bucket, 0xff, META__DAMAGE_BUCKETS * sizeof(*t->bucket));
	return 0;
}

void meta__damages_fini(struct meta__damages *t)
{
	free(t->of);
	free(t->bucket);
	t->of = NULL;
	t->bucket = NULL;
}

static uint32_t bucket_of(const struct meta_handle *h)
{
	uint64_t x = h->dir * 0x9e3779b97f4a7c15u ^ h->hash * 0xc2b2ae3d27d4eb4fu ^ h->uniq;

	x *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(x >> 40) % META__DAMAGE_BUCKETS;
}

uint32_t meta__damage_of(const struct meta__damages *t, const struct meta_handle *file)
{
	uint32_t i = t->bucket[bucket_of(file)];

	DASSERT(t->bucket);
	DASSERT(t->of);
	while (i != META__DAMAGE_NONE && !meta__handle_eq(&t->of[i].file, file))
		i = t->of[i].next;
	return i;
}

/* (2) */
static void account(struct meta__damages *t, const struct meta__damage *d, bool in)
{
	const uint64_t one = in ? 1 : UINT64_MAX, blocks = in ? d->blocks : -d->blocks;
	const uint32_t page = 1u << META_DAMAGE_PAGE, far = 1u << META_DAMAGE_UNREACHABLE;
	const bool bad = d->kinds & ~far;

	if (d->kinds == (page | far)) {
		ASSERT(in || t->stat.unreachable_pages > 0); /* (2) */
		t->stat.unreachable_pages += one;
	} else if (d->kinds & page) {
		ASSERT(in || t->stat.pages > 0); /* (2) */
		t->stat.pages += one;
	} else if (bad) {
		ASSERT(in || (t->stat.files > 0 && t->stat.blocks >= d->blocks)); /* (2) */
		t->stat.files += one;
		t->stat.blocks += blocks;
	} else {
		ASSERT(in ||
		       (t->stat.unreachable_files > 0 && t->stat.unreachable_blocks >= d->blocks));
		t->stat.unreachable_files += one;
		t->stat.unreachable_blocks += blocks;
	}
}

static uint32_t take(struct meta__damages *t)
{
	uint32_t i = t->free;

	if (i != META__DAMAGE_NONE) {
		ASSERT(i < t->high);
		ASSERT(!t->of[i].used);
		t->free = t->of[i].next;
		return i;
	}
	if (t->high == META__DAMAGE_MAX) {
		t->overflow++;
		return META__DAMAGE_NONE;
	}
	return t->high++;
}

static uint32_t make(struct meta__damages *t, const struct meta_handle *file)
{
	uint32_t *bucket = &t->bucket[bucket_of(file)], i = take(t);

	if (i == META__DAMAGE_NONE)
		return i;
	DASSERT(meta__damage_of(t, file) == META__DAMAGE_NONE); /* (1) */
	t->of[i] = (struct meta__damage){ .file = *file, .used = true, .next = *bucket };
	*bucket = i;
	t->count++;
	return i;
}

/* (3): forgets earlier findings about the file. */
static bool is_new_look(const struct meta__damage *d, const struct meta__damage_find *f)
{
	return d->blocks == 0 || f->kind == META_DAMAGE_PAGE || d->round != f->round ||
	       (f->by_scrub && !d->by_scrub);
}

uint32_t meta__damage_add(struct meta__damages *t, const struct meta__damage_find *f)
{
	uint32_t i = meta__damage_of(t, &f->file);
	struct meta__damage *d;

	ASSERT(f->nblocks > 0);
	if (i == META__DAMAGE_NONE)
		i = make(t, &f->file);
	if (i == META__DAMAGE_NONE)
		return i;
	d = &t->of[i];
	if (d->blocks)
		account(t, d, false);
	if (is_new_look(d, f)) {
		d->blocks = d->drives = 0;
		d->kinds = 0;
		d->from = UINT64_MAX;
		d->end = 0;
	}
	if (f->block < d->from || f->block >= d->end)
		d->blocks += f->nblocks;
	if (f->block < d->from) {
		d->from = f->block;
		d->baddr = f->baddr;
		d->id = f->id;
	}
	d->end = max_u64(d->end, f->block + f->nblocks);
	ASSERT(d->from <= f->block); /* (3) */
	ASSERT(f->block < d->end);
	d->drives |= 1ull << META_BADDR_DRIVE(f->baddr);
	d->kinds |= (uint8_t)(1u << f->kind);
	d->kinds |= (uint8_t)(f->unreachable ? 1u << META_DAMAGE_UNREACHABLE : 0);
	d->round = f->round;
	d->by_scrub = f->by_scrub;
	account(t, d, true);
	return i;
}

void meta__damage_drop(struct meta__damages *t, uint32_t i)
{
	struct meta__damage *d = &t->of[i];
	uint32_t *at = &t->bucket[bucket_of(&d->file)];

	ASSERT(i < t->high);
	ASSERT(t->count > 0);
	ASSERT(d->used);
	while (*at != i)
		at = &t->of[*at].next;
	*at = d->next;
	account(t, d, false);
	t->unnamed -= d->unnamed && !d->walked;
	d->used = false;
	d->next = t->free;
	t->free = i;
	t->count--;
}

/* ---- names -------------------------------------------------------------------------------- */

void meta__damage_unnamed(struct meta__damages *t, uint32_t i)
{
	struct meta__damage *d = &t->of[i];

	ASSERT(i < t->high);
	ASSERT(d->used);
	if (d->unnamed)
		return;
	d->unnamed = true;
	d->walked = false;
	d->dir = 0;
	t->unnamed++;
}

void meta__damage_named(struct meta__damages *t, uint32_t i, uint64_t dir)
{
	struct meta__damage *d = &t->of[i];

	ASSERT(i < t->high);
	ASSERT(d->used);
	t->unnamed -= d->unnamed && !d->walked;
	d->unnamed = false;
	d->dir = dir;
}

void meta__damage_walked(struct meta__damages *t)
{
	for (uint32_t i = 0; i < t->high && t->unnamed; i++) {
		if (!t->of[i].used || !t->of[i].unnamed || t->of[i].walked)
			continue;
		t->of[i].walked = true;
		t->unnamed--;
	}
	ASSERT(t->unnamed == 0);
}

void meta__damage_round_end(struct meta__damages *t, uint64_t round, bool blind)
{
	ASSERT(t->count <= t->high);
	ASSERT(t->high <= META__DAMAGE_MAX);
	for (uint32_t i = 0; i < t->high && !blind; i++)
		if (t->of[i].used && t->of[i].round < round)
			meta__damage_drop(t, i);
	t->stat.complete = !t->overflow && !blind;
	t->overflow = 0;
}
