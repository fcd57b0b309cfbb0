/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Work of the scrub besides its rounds:
 *
 *   suspects   blocks of a file that a read found damaged, or that a client reported: read and
 *              compared here, so that no report is trusted
 *              (meta_errand_page.c: pages of the index that an operation could not read)
 *   a sweep    removes entries of the table of damage whose file is gone, or was rewritten
 *   a list     entry by entry: is it still damaged, and what is the file's name now?
 *
 *  (1) A suspect is handled between two steps, with the round's cursor put aside; it is compared
 *      and recorded as in a round [test_meta_damage:suspects_do_not_disturb_a_round].
 *  (2) An entry stays while the index has its first block at the same address, with the same
 *      checksum.  If not, and more than that block was damaged, the others become suspects
 *      [test_meta_damage:what_is_removed_or_written_anew_leaves_the_list].
 *  (3) As everywhere in the scrub, a step begins at the root, so anything may change in between
 *      [test_meta_scrub:what_changes_under_it_is_no_damage].
 */
#include "meta/check/meta_scrub.h"

#include <string.h>

/* ---- suspects ------------------------------------------------------------------------------ */

bool meta_scrub_suspect(struct meta_scrub *s, const struct meta_handle *file, uint64_t block,
			uint64_t nblocks)
{
	struct meta__suspect *last = &s->suspect[(s->suspect_head - 1) % META__SUSPECTS];
	const uint32_t known = meta__damage_of(&s->damages, file);

	ASSERT(s->suspect_head - s->suspect_tail <= META__SUSPECTS);
	if (nblocks == 0 || nblocks > META__SUSPECT_BLOCKS || block > META__MASK48)
		return true;
	if (known != META__DAMAGE_NONE && block >= s->damages.of[known].from &&
	    block + nblocks <= s->damages.of[known].end)
		return true;
	if (s->suspect_head != s->suspect_tail && meta__handle_eq(&last->file, file) &&
	    last->block <= block && block + nblocks <= last->block + last->nblocks)
		return true;
	if (s->suspect_head - s->suspect_tail == META__SUSPECTS)
		return false;
	s->suspect[s->suspect_head++ % META__SUSPECTS] =
		(struct meta__suspect){ .file = *file, .block = block, .nblocks = nblocks };
	return true;
}

bool meta__check_begin(struct meta_scrub *s)
{
	const struct meta__suspect *x = &s->suspect[s->suspect_tail % META__SUSPECTS];

	ASSERT(s->suspect_head - s->suspect_tail <= META__SUSPECTS);
	ASSERT(!s->naming.on);
	if (s->checking)
		return true;
	if (s->suspect_head == s->suspect_tail)
		return false;
	s->aside = s->cur;
	s->cur = (struct meta__scrub_cursor){
		.shard = meta__dir_shard(s->m, x->file.dir),
		.at = meta__obj_key(&x->file, META__KIND_EXTENT, x->block / META_CHUNK_BLOCKS),
		.block = x->block % META_CHUNK_BLOCKS,
	};
	ASSERT(s->cur.shard < s->m->nshards);
	s->heal.tried = 0;
	s->check = *x;
	s->checking = true;
	s->suspect_tail++;
	return true;
}

void meta__check_end(struct meta_scrub *s)
{
	ASSERT(s->checking);
	ASSERT(!s->aside.doubt_fails || s->aside.doubt_baddr); /* (1): the round's, as it was */
	s->checking = false;
	s->cur = s->aside;
}

bool meta__check_goes_on(const struct meta_scrub *s, const struct meta_key *key)
{
	const struct meta_handle of = meta__key_handle(key);

	ASSERT(s->checking);
	return meta__key_class(key) == META__CLASS_OBJ &&
	       meta__key_kind(key) == META__KIND_EXTENT && meta__handle_eq(&of, &s->check.file) &&
	       meta__key_index(key) * META_CHUNK_BLOCKS < s->check.block + s->check.nblocks;
}

/* ---- is it still so? ----------------------------------------------------------------------- */

enum still { STILL_SO, STILL_NOT, STILL_READ, STILL_LATER };

static bool same_block(const struct meta__damage *d, const void *value, uint32_t len)
{
	struct meta__extent x;
	uint32_t at = 0, block = (uint32_t)(d->from % META_CHUNK_BLOCKS);
	struct meta_run run;
	le32 crc;

	ASSERT(d->used);
	ASSERT(d->end > d->from);
	if (meta__extent_parse(value, len, &x))
		return true; /* it cannot be read: no reason to believe that it is well */
	for (uint32_t i = 0; i < x.nruns; at += run.nblocks, i++) {
		run = meta__extent_run(&x, i);
		if (block < at || block >= at + run.nblocks)
			continue;
		memcpy(&crc, x.crcs + block * sizeof(crc), sizeof(crc));
		return run.baddr && run.baddr + (block - at) == d->baddr && le32_get(crc) == d->id;
	}
	return false;
}

/* It was only out of reach, and its drive answers again. */
static bool is_back(const struct meta_scrub *s, const struct meta__damage *d)
{
	const uint32_t page = 1u << META_DAMAGE_PAGE, far = 1u << META_DAMAGE_UNREACHABLE;

	ASSERT(d->used);
	return (d->kinds | page) == (far | page) && d->kinds & far && !(d->drives & s->unreachable);
}

static enum still look_at(struct meta_scrub *s, const struct meta__damage *d)
{
	const struct meta_key key =
		meta__obj_key(&d->file, META__KIND_EXTENT, d->from / META_CHUNK_BLOCKS);
	struct meta__scrub_place at;
	const void *value;
	uint32_t pos, len;

	ASSERT(d->used);
	ASSERT(!s->reading);
	if (is_back(s, d))
		return STILL_NOT;
	if (d->kinds & 1u << META_DAMAGE_PAGE)
		return STILL_SO; /* only a round finds out */
	switch (meta__scrub_walk(s, meta__dir_shard(s->m, d->file.dir), &key, false, &at)) {
	case SCRUB_READ:
		return STILL_READ;
	case SCRUB_AWAY:
		return STILL_LATER;
	case SCRUB_EMPTY:
		return STILL_NOT;
	case SCRUB_DAMAGED:
		return STILL_SO;
	case SCRUB_LEAF:
		break;
	}
	if (!meta__leaf_find(at.leaf, &key, &pos))
		return STILL_NOT;
	meta__leaf_value(at.leaf, pos, &value, &len);
	return same_block(d, value, len) ? STILL_SO : STILL_NOT;
}

/* (2) */
static void drop(struct meta_scrub *s, uint32_t i)
{
	const struct meta__damage d = s->damages.of[i];

	ASSERT(i < s->damages.high);
	ASSERT(s->damages.count > 0);
	meta__damage_drop(&s->damages, i);
	if (d.end - d.from > 1 && d.end - d.from - 1 <= META__SUSPECT_BLOCKS)
		(void)meta_scrub_suspect(s, &d.file, d.from + 1, d.end - d.from - 1);
}

/* Sets *at to the next entry from there on that is still damaged.  STILL_NOT: no entry is left. */
static enum still next_entry(struct meta_scrub *s, uint32_t *at)
{
	enum still still;

	ASSERT(*at <= s->damages.high);
	while (*at < s->damages.high && !s->damages.of[*at].used)
		++*at;
	if (*at == s->damages.high)
		return STILL_NOT;
	still = look_at(s, &s->damages.of[*at]);
	if (still != STILL_NOT)
		return still;
	drop(s, *at);
	return STILL_LATER;
}

/* ---- sweep --------------------------------------------------------------------------------- */

void meta_scrub_sweep(struct meta_scrub *s)
{
	if (s->sweeping || s->damages.count == 0)
		return;
	ASSERT(s->damages.count <= s->damages.high);
	s->sweeping = true;
	s->sweep_at = 0;
}

static enum meta_scrub_next sweep_step(struct meta_scrub *s)
{
	ASSERT(s->sweeping);
	ASSERT(!s->listed);
	switch (next_entry(s, &s->sweep_at)) {
	case STILL_READ:
		return META_SCRUB_READ;
	case STILL_LATER:
		return META_SCRUB_MORE;
	case STILL_SO:
		s->sweep_at++;
		return META_SCRUB_MORE;
	case STILL_NOT:
		s->sweeping = false;
		return META_SCRUB_MORE;
	}
	UNREACHABLE();
}

/* ---- list ---------------------------------------------------------------------------------- */

void meta_scrub_list(struct meta_scrub *s, uint32_t from, struct meta_damaged *out)
{
	ASSERT(out);
	ASSERT(!s->list_named);
	ASSERT(!s->listed);
	s->listed = out;
	s->list_at = min_u32(from, s->damages.high);
	*out = (struct meta_damaged){ 0 };
}

void meta_scrub_list_end(struct meta_scrub *s)
{
	if (s->naming.on && s->naming.for_list)
		s->naming.on = false;
	s->list_named = false;
	s->listed = NULL;
	ASSERT(!s->naming.on || !s->naming.for_list);
}

static enum meta_scrub_next listed(struct meta_scrub *s)
{
	ASSERT(s->listed);
	ASSERT(!s->list_named);
	s->listed = NULL;
	return META_SCRUB_LISTED;
}

void meta__listed(struct meta_scrub *s, const char *path, uint32_t len)
{
	ASSERT(s->naming.for_list);
	ASSERT(s->listed);
	ASSERT(len < sizeof(s->listed->path));
	memcpy(s->listed->path, path, len);
	s->listed->path[len] = '\0';
	s->listed->path_len = len;
	s->list_named = true;
	s->naming.on = false;
}

static enum meta_scrub_next list_step(struct meta_scrub *s)
{
	struct meta_damaged *out = s->listed;
	const struct meta__damage *d;

	ASSERT(out);
	ASSERT(!s->naming.on);
	if (s->list_named) {
		s->list_named = false;
		return listed(s);
	}
	switch (next_entry(s, &s->list_at)) {
	case STILL_READ:
		return META_SCRUB_READ;
	case STILL_LATER:
		return META_SCRUB_MORE;
	case STILL_NOT:
		out->end = true;
		return listed(s);
	case STILL_SO:
		break;
	}
	ASSERT(s->list_at < s->damages.high);
	d = &s->damages.of[s->list_at];
	*out = (struct meta_damaged){
		.next = s->list_at + 1,
		.kinds = d->kinds,
		.file = d->file,
		.block = d->from,
		.end_block = d->end,
		.blocks = d->blocks,
		.drives = d->drives,
		.baddr = d->baddr,
	};
	meta__scrub_name_list(s, s->list_at);
	return META_SCRUB_MORE;
}

/* ---- which of them ------------------------------------------------------------------------- */

bool meta_scrub_has_errand(const struct meta_scrub *s)
{
	ASSERT(s->suspect_head - s->suspect_tail <= META__SUSPECTS);
	return s->heal.stage != HEAL_NONE || s->has_line || s->naming.on || s->checking ||
	       s->listed || s->sweeping || s->suspect_head != s->suspect_tail ||
	       meta__has_suspect_page(s);
}

bool meta__errand_step(struct meta_scrub *s, enum meta_scrub_next *out)
{
	ASSERT(!s->checking);
	ASSERT(!s->has_line);
	if (meta__suspect_page_step(s, out))
		return true;
	if (s->listed)
		*out = list_step(s);
	else if (s->sweeping)
		*out = sweep_step(s);
	else
		return false;
	return true;
}

uint32_t meta_scrub_damaged(const struct meta_scrub *s, struct meta_damage_stat *out)
{
	ASSERT(s->damages.count <= s->damages.high);
	*out = s->damages.stat;
	out->complete &= s->damages.overflow == 0;
	return s->damages.count;
}
