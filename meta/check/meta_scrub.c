/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub: reads and verifies every live page and block, round after round.
 *
 *   next record --> its leaf (meta_scrub_walk.c) --> an extent: its next run --> read --> compare
 *        ^                                                                          |        |
 *        +----------------- good: after it -----------------------------------------+--------+
 *        +----------------- not: again from the tree; FAILS times: found, named ----+
 *
 * A round goes over all shards, and over the keys of each from the lowest on.  A step keeps nothing
 * of the tree but the key where it continues, so files may come, go and move meanwhile.
 *
 *  (1) The bytes read are compared with the tree's earlier checksum; if they do not match, the tree
 *      is asked again.  Only a mismatch that the tree confirms after FAILS reads is damage: blocks
 *      of a file that was freed meanwhile, and reused, are not
 *      [test_meta_scrub:what_changes_under_it_is_no_damage].
 *  (2) A damaged block is reported once, by {place, checksum or generation}, and counted in each
 *      round [test_meta_scrub:damaged_block_is_named_once_and_counted_in_each_round].  Lines are
 *      limited; further blocks of a file may use only half of them
 *      [test_meta_damage:every_damaged_file_has_a_line_beside_large_ones].
 *  (3) While a name is looked up, and while a line waits to be taken, the round stands still.
 *  (4) Each step is bounded: a leaf's records, or one read.
 *  (5) Nothing is read from a drive that cannot be reached.  Its blocks are counted separately:
 *      they may be whole, and no line names them
 *      [test_meta_damage:files_on_a_drive_that_has_failed_are_unreachable_and_no_line_names_them].
 */
#include "meta/check/meta_scrub.h"
#include "meta/engine/meta_fold.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAILS 3u

int meta_scrub_create(struct meta_scrub **out, struct meta *m)
{
	struct meta_scrub *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	ASSERT(!m->scrub);
	s->m = m;
	s->page[0].bytes = aligned_alloc(8, (size_t)META_PAGE_LEVELS_MAX * META_PAGE_BYTES);
	if (!s->page[0].bytes) {
		free(s);
		return -ENOMEM;
	}
	if (meta__damages_init(&s->damages) || meta__heal_init(s) || meta__scrub_folds_init(s)) {
		meta_scrub_destroy(s);
		return -ENOMEM;
	}
	s->round = 1;
	m->scrub = s;
	for (uint32_t i = 1; i < META_PAGE_LEVELS_MAX; i++)
		s->page[i].bytes = s->page[0].bytes + (size_t)i * META_PAGE_BYTES;
	*out = s;
	return 0;
}

void meta_scrub_destroy(struct meta_scrub *s)
{
	if (!s)
		return;
	s->m->scrub = NULL;
	s->heal.stage = HEAL_NONE;
	meta__heal_fini(s);
	meta__scrub_folds_fini(s);
	meta__damages_fini(&s->damages);
	free(s->page[0].bytes);
	free(s);
}

const char *meta_scrub_line(const struct meta_scrub *s)
{
	ASSERT(memchr(s->line, '\0', sizeof(s->line)));
	return s->line;
}

/* Keys are hashes: of a shard as much is done as of the keys. */
void meta_scrub_stat(const struct meta_scrub *s, struct meta_scrub_stat *out)
{
	uint64_t shard = s->in_round ? s->cur.shard : 0;

	ASSERT(!s->in_round || s->cur.shard <= s->m->nshards);
	*out = s->stat;
	out->position_permille = shard * 1000 / max_u32(s->m->nshards, 1);
	if (s->cur.names_only)
		out->position_permille = 1000;
	out->unreachable_pages = max_u64(s->stat.unreachable_pages, s->last_unreachable_pages);
	out->unreachable_blocks = max_u64(s->stat.unreachable_blocks, s->last_unreachable_blocks);
}

void meta_scrub_unreachable(struct meta_scrub *s, uint64_t drives)
{
	s->unreachable = drives;
}

/* ---- findings ----------------------------------------------------------------------- */

bool meta__scrub_is_told(const struct meta_scrub *s, uint64_t baddr, uint64_t id)
{
	ASSERT(s->told_count <= META__SCRUB_TOLD);
	for (uint32_t i = 0; i < s->told_count; i++)
		if (s->told[i].baddr == baddr && s->told[i].id == id)
			return true;
	return false;
}

static bool was_told(struct meta_scrub *s, uint64_t baddr, uint64_t id, bool more)
{
	if (meta__scrub_is_told(s, baddr, id))
		return true;
	if (s->told_count >= (more ? META__SCRUB_TOLD_MORE : META__SCRUB_TOLD))
		return true; /* enough has been said; they are counted */
	s->told[s->told_count].baddr = baddr;
	s->told[s->told_count++].id = id;
	return false;
}

void meta__scrub_found(struct meta_scrub *s, const struct meta__scrub_bad *bad, uint64_t id)
{
	if (!was_told(s, bad->baddr, id, bad->more)) /* (2) */
		meta__scrub_name_begin(s, bad);
}

/* Into the table: blocks of the file that the cursor is at, from this one of its chunk on.  Returns
 * true if damage of the file was in it. */
static bool found_file(struct meta_scrub *s, enum meta_damage_kind kind, uint32_t block,
		       const struct meta_run *run, uint32_t crc)
{
	const struct meta__damage_find find = {
		.file = meta__key_handle(&s->cur.at),
		.kind = kind,
		.block = meta__key_index(&s->cur.at) * META_CHUNK_BLOCKS + block,
		.nblocks = run->nblocks,
		.baddr = run->baddr,
		.id = crc,
		.round = s->round,
		.by_scrub = !s->checking,
	};
	const uint32_t entry = meta__damage_of(&s->damages, &find.file);
	const bool known = entry != META__DAMAGE_NONE &&
			   s->damages.of[entry].kinds & ~(1u << META_DAMAGE_UNREACHABLE);

	ASSERT(run->nblocks > 0);
	ASSERT(meta__key_kind(&s->cur.at) == META__KIND_EXTENT);
	(void)meta__damage_add(&s->damages, &find);
	return known;
}

static void found_block(struct meta_scrub *s)
{
	struct meta__scrub_bad bad = {
		.unreadable = s->cur.doubt_unreadable,
		.file = { meta__key_dir(&s->cur.at), meta__key_hash(&s->cur.at),
			  meta__key_uniq(&s->cur.at) },
		.block = meta__key_index(&s->cur.at) * META_CHUNK_BLOCKS + s->cur.block,
		.baddr = s->cur.doubt_baddr,
		.shard = s->cur.shard,
	};

	ASSERT(s->cur.doubt_fails == FAILS); /* (1) */
	ASSERT(s->cur.block < META_CHUNK_BLOCKS);
	s->stat.bad_blocks += !s->checking;
	bad.more = found_file(s, bad.unreadable ? META_DAMAGE_UNREADABLE : META_DAMAGE_SUM,
			      s->cur.block, &(struct meta_run){ .baddr = bad.baddr, .nblocks = 1 },
			      s->cur.doubt_crc);
	meta__scrub_found(s, &bad, s->cur.doubt_crc);
	s->cur.doubt_fails = 0;
	s->cur.block++;
}

/* ---- a chunk ------------------------------------------------------------------------ */

static uint32_t crc_at(const struct meta__extent *x, uint32_t block)
{
	le32 crc;

	ASSERT(block < x->nblocks);
	memcpy(&crc, x->crcs + block * sizeof(crc), sizeof(crc));
	return le32_get(crc);
}

/* Finds the first block from s->cur.block on that is not a hole, and the length of its run. */
static bool next_run(const struct meta_scrub *s, const struct meta__extent *x, uint32_t *block,
		     struct meta_run *run)
{
	uint32_t at = 0;

	ASSERT(s->cur.block <= META_CHUNK_BLOCKS);
	for (uint32_t i = 0; i < x->nruns; i++) {
		uint32_t skip;

		*run = meta__extent_run(x, i);
		if (run->baddr && at + run->nblocks > s->cur.block) {
			skip = s->cur.block > at ? s->cur.block - at : 0;
			*block = at + skip;
			run->baddr += skip;
			run->nblocks = min_u32(run->nblocks - skip, META_SCRUB_BLOCKS_MAX);
			ASSERT(run->nblocks > 0);
			ASSERT(run->nblocks <= META_SCRUB_BLOCKS_MAX); /* (4) */
			return true;
		}
		at += run->nblocks;
	}
	return false;
}

/* The next run that can be reached (5). */
static bool next_near_run(struct meta_scrub *s, const struct meta__extent *x, uint32_t *block)
{
	while (next_run(s, x, block, &s->run)) {
		struct meta_fold_term term[META_FOLD_MAX];

		if (likely(meta__heal_reaches(s, s->run.baddr)) ||
		    meta__heal_other(s, s->run.baddr))
			return true;
		/* on its way to other drives */
		if (meta__fold_terms(s->m, s->run.baddr, 0, term)) {
			s->cur.block = *block + s->run.nblocks;
			continue;
		}
		(void)found_file(s, META_DAMAGE_UNREACHABLE, *block, &s->run, crc_at(x, *block));
		if (!s->checking)
			s->stat.unreachable_blocks += s->run.nblocks;
		s->cur.block = *block + s->run.nblocks;
	}
	ASSERT(s->cur.block <= META_CHUNK_BLOCKS);
	return false;
}

/* A suspect is some blocks of its file.  False: it is over. */
static bool clip(struct meta_scrub *s, uint32_t block)
{
	const uint64_t at = meta__key_index(&s->cur.at) * META_CHUNK_BLOCKS + block;
	const uint64_t end = s->check.block + s->check.nblocks;

	ASSERT(s->run.nblocks > 0);
	ASSERT(!s->checking || end > s->check.block);
	if (!s->checking)
		return true;
	if (at >= end)
		return false;
	s->run.nblocks = (uint32_t)min_u64(s->run.nblocks, end - at);
	return true;
}

/* Turns to the copy of the run that is read next.  False: all were, or cannot be. */
static bool take_copy(struct meta_scrub *s, uint32_t block)
{
	struct meta__scrub_cursor *c = &s->cur;

	ASSERT(block < META_CHUNK_BLOCKS && s->run.nblocks > 0);
	if (likely(s->m->copies < 2))
		return true;
	if (c->copy == 0 || block >= c->copy_until) {
		c->copy = 0;
		c->copy_until = block + s->run.nblocks;
	}
	s->run.nblocks = min_u32(s->run.nblocks, c->copy_until - block);
	for (; c->copy < s->m->copies; c->copy++) {
		const uint64_t at = meta__heal_copy(s, s->run.baddr, c->copy);

		if (!at || !meta__heal_reaches(s, at))
			continue;
		s->run.baddr = at;
		return true;
	}
	return false;
}

/* Finds the next run to be read.  Returns false if this chunk has no more. */
static bool next_copy(struct meta_scrub *s, const struct meta__extent *x, uint32_t *block)
{
	ASSERT(!s->reading);
	while (next_near_run(s, x, block) && clip(s, *block)) {
		if (take_copy(s, *block))
			return true;
		s->cur.block = *block + s->run.nblocks;
		s->cur.copy = 0;
	}
	return false;
}

/* Returns true if something of this chunk must be read, or was found.  False: nothing more. */
static bool chunk(struct meta_scrub *s, const void *value, uint32_t len, enum meta_scrub_next *out)
{
	struct meta__extent x;
	uint32_t block;

	if (meta__extent_parse(value, len, &x) != 0 || !next_copy(s, &x, &block))
		return false;
	if (block != s->cur.block || s->run.baddr != s->cur.doubt_baddr ||
	    crc_at(&x, block) != s->cur.doubt_crc)
		s->cur.doubt_fails = 0; /* (1) */
	s->cur.block = block;
	if (s->cur.doubt_fails == FAILS) {
		found_block(s);
		*out = META_SCRUB_MORE;
		return true;
	}
	ASSERT(s->cur.doubt_fails < FAILS);
	ASSERT(s->run.nblocks <= META_SCRUB_BLOCKS_MAX); /* (4) */
	if (s->cur.doubt_fails > 0)
		meta__heal_hold(s);
	if (s->cur.doubt_fails > 0 || block < s->cur.single_until)
		s->run.nblocks = 1;
	for (uint32_t i = 0; i < s->run.nblocks; i++)
		s->crc[i] = crc_at(&x, block + i);
	s->reading_page = false;
	*out = META_SCRUB_READ;
	return true;
}

/* This block did not match: it is read again, alone. */
static void doubt(struct meta_scrub *s, uint32_t i, bool unreadable)
{
	ASSERT(i < s->run.nblocks);
	s->stat.doubts++;
	if (s->run.baddr + i != s->cur.doubt_baddr || s->crc[i] != s->cur.doubt_crc)
		s->cur.doubt_fails = 0;
	s->cur.doubt_baddr = s->run.baddr + i;
	s->cur.doubt_crc = s->crc[i];
	s->cur.doubt_unreadable = unreadable;
	s->cur.doubt_fails++;
	ASSERT(s->cur.doubt_fails <= FAILS);
	if (!meta__heal_block(s, s->cur.doubt_baddr, s->cur.doubt_crc))
		meta__heal_let_go(s);
}

/* The first n blocks of the run are good: their next copies follow, or what is behind them. */
static void are_good(struct meta_scrub *s, uint32_t n)
{
	ASSERT(s->heal.stage == HEAL_NONE);
	ASSERT(n > 0 && n <= s->run.nblocks);
	meta__heal_let_go(s);
	s->cur.doubt_fails = 0;
	s->stat.blocks += s->checking || s->cur.copy ? 0 : n;
	s->cur.copy_until = s->cur.block + n;
	if (likely(s->m->copies < 2))
		s->cur.block += n;
	else
		s->cur.copy++;
}

static void blocks_done(struct meta_scrub *s, const uint8_t *bytes, int status)
{
	ASSERT(s->run.nblocks <= META_SCRUB_BLOCKS_MAX);
	ASSERT(s->run.nblocks > 0);
	for (uint32_t i = 0; i < s->run.nblocks; i++) {
		if (status && s->run.nblocks > 1) {
			s->cur.single_until = s->cur.block + s->run.nblocks;
			return; /* it is unknown which one */
		}
		if (status || crc32c(bytes + (size_t)i * BLOCK_SIZE, BLOCK_SIZE) != s->crc[i]) {
			if (i > 0)
				are_good(s, i); /* this one is read again, at the head of a run */
			else
				doubt(s, i, status != 0);
			return;
		}
	}
	are_good(s, s->run.nblocks);
}

void meta_scrub_done(struct meta_scrub *s, const void *bytes, int status)
{
	ASSERT(!s->reading_head || s->run.nblocks == 1);
	ASSERT(s->reading);
	s->reading = false;
	if (s->heal.stage == HEAL_READING) {
		meta__heal_read(s, bytes, status);
	} else if (s->folds.reading) {
		meta__scrub_fold_done(s, bytes, status);
	} else if (status == -EAGAIN) {
		s->reading_head = s->reading_super = false;
		meta__heal_let_go(s);
	} else if (s->reading_head) {
		s->reading_head = false;
		meta__scrub_head_done(s, bytes, status);
	} else if (s->reading_super) {
		s->reading_super = false;
		meta__scrub_super_done(s, bytes, status);
	} else if (s->reading_page) {
		meta__scrub_page_done(s, bytes, status);
	} else {
		blocks_done(s, bytes, status);
	}
}

/* ---- the round ---------------------------------------------------------------------- */

static void go_to(struct meta_scrub *s, const struct meta_key *key)
{
	s->cur.at = *key;
	s->cur.block = s->cur.single_until = s->cur.doubt_fails = 0;
	s->cur.copy = 0;
	ASSERT(s->cur.shard < s->m->nshards || s->cur.shard == s->m->nshards);
}

static void next_shard(struct meta_scrub *s)
{
	const struct meta_key first = { { 0, 0, 0 } };

	ASSERT(!s->checking);
	ASSERT(s->cur.shard < s->m->nshards);
	s->cur.shard++;
	go_to(s, &first);
}

static void go_behind(struct meta_scrub *s, const struct meta__scrub_place *at)
{
	if (at->has_hi)
		go_to(s, &at->hi);
	else if (s->checking)
		meta__check_end(s);
	else
		next_shard(s);
}

/* Returns the next step for the leaf's records from s->cur.at on. */
static enum meta_scrub_next leaf(struct meta_scrub *s, const struct meta__scrub_place *at)
{
	enum meta_scrub_next next = META_SCRUB_MORE;
	uint32_t pos, len;
	const void *value;

	ASSERT(at->leaf);
	ASSERT(!s->naming.on); /* (3) */
	(void)meta__leaf_find(at->leaf, &s->cur.at, &pos);
	for (; pos < meta__page_count(at->leaf); pos++) { /* (4) */
		const struct meta_key key = meta__leaf_key(at->leaf, pos);

		if (s->checking && !meta__check_goes_on(s, &key)) {
			meta__check_end(s);
			return META_SCRUB_MORE;
		}
		if (meta__key_cmp(&key, &s->cur.at) != 0)
			go_to(s, &key);
		meta__leaf_value(at->leaf, pos, &value, &len);
		if (s->cur.names_only) {
			const struct meta_key after = meta__key_next(key);

			go_to(s, &after);
			meta__scrub_name_seen(s, &key, value, len);
			if (s->naming.on)
				return META_SCRUB_MORE;
		} else if (meta__key_class(&key) == META__CLASS_OBJ &&
			   meta__key_kind(&key) == META__KIND_EXTENT &&
			   chunk(s, value, len, &next)) {
			return next;
		}
	}
	go_behind(s, at);
	return META_SCRUB_MORE;
}

static void round_begin(struct meta_scrub *s)
{
	const struct meta_key first = { { 0, 0, 0 } };

	ASSERT(!s->in_round);
	ASSERT(!s->checking);
	s->in_round = true;
	s->cur.names_only = false;
	s->cur.shard = 0;
	s->lost_count = 0;
	s->stat.bad_pages = s->stat.bad_blocks = 0;
	s->stat.unreachable_pages = s->stat.unreachable_blocks = 0;
	s->heal.tried = 0;
	meta__scrub_heads_begin(s);
	meta__scrub_supers_begin(s);
	meta__scrub_folds_begin(s);
	go_to(s, &first);
	for (uint32_t i = 0; i < META_PAGE_LEVELS_MAX; i++) { /* good pages are read again */
		s->page[i].baddr = s->page[i].seen_baddr = 0;
		s->page[i].fails = 0;
	}
}

/* After all shards: handles files whose names are still unknown. */
static enum meta_scrub_next round_end(struct meta_scrub *s)
{
	ASSERT(s->in_round);
	ASSERT(s->cur.shard == s->m->nshards);
	ASSERT(!s->naming.on); /* (3) */
	if ((s->lost_count > 0 || s->damages.unnamed) && !s->cur.names_only) {
		s->cur.names_only = true;
		s->cur.shard = 0;
		go_to(s, &(struct meta_key){ { 0, 0, 0 } });
		return META_SCRUB_MORE;
	}
	if (meta__scrub_name_none(s)) {
		s->has_line = false;
		return META_SCRUB_FOUND;
	}
	if (!s->heads.done)
		return meta__scrub_heads_step(s);
	if (!s->supers.done)
		return meta__scrub_supers_step(s);
	if (!s->folds.done)
		return meta__scrub_folds_step(s);
	meta__damage_walked(&s->damages);
	s->in_round = s->cur.names_only = false;
	meta__damage_round_end(&s->damages, s->round++,
			       s->stat.bad_pages + s->stat.unreachable_pages > 0);
	s->stat.rounds++;
	s->stat.last_bad_pages = s->stat.bad_pages;
	s->stat.last_bad_blocks = s->stat.bad_blocks;
	s->last_unreachable_pages = s->stat.unreachable_pages;
	s->last_unreachable_blocks = s->stat.unreachable_blocks;
	return META_SCRUB_ROUND;
}

static enum meta_scrub_next step(struct meta_scrub *s)
{
	struct meta__scrub_place at;

	ASSERT(!s->has_line); /* (3) */
	ASSERT(s->cur.shard <= s->m->nshards);
	const bool verify = !s->cur.names_only && !s->checking;

	if (s->cur.shard == s->m->nshards)
		return round_end(s);
	switch (meta__scrub_walk(s, s->cur.shard, &s->cur.at, verify, &at)) {
	case SCRUB_READ:
		return META_SCRUB_READ;
	case SCRUB_EMPTY:
		at.has_hi = false;
		go_behind(s, &at);
		return META_SCRUB_MORE;
	case SCRUB_AWAY:
		return META_SCRUB_MORE;
	case SCRUB_DAMAGED: /* pages below it cannot be found */
		if (s->checking)
			at.has_hi = false;
		go_behind(s, &at);
		return META_SCRUB_MORE;
	case SCRUB_LEAF:
		return leaf(s, &at);
	}
	UNREACHABLE();
}

/* Does an errand, if there is one, or else a step of the round.  META_SCRUB_IDLE: there is no
 * errand, and `round` is false. */
static enum meta_scrub_next next_of(struct meta_scrub *s, bool round)
{
	enum meta_scrub_next next;

	if (meta__heal_step(s, &next))
		return next;
	if (s->has_line) {
		s->has_line = false;
		return META_SCRUB_FOUND;
	}
	if (s->naming.on)
		return meta__scrub_name_step(s); /* (3) */
	if (meta__check_begin(s))
		return step(s);
	if (meta__errand_step(s, &next))
		return next;
	if (!round)
		return META_SCRUB_IDLE;
	if (!s->in_round)
		round_begin(s);
	return step(s);
}

static enum meta_scrub_next go_on(struct meta_scrub *s, struct meta_run *read, bool round)
{
	enum meta_scrub_next next;

	ASSERT(!s->reading);
	ASSERT(s->m->mounted);
	next = next_of(s, round);
	ASSERT(next != META_SCRUB_READ || s->run.nblocks > 0);
	ASSERT(next != META_SCRUB_READ || s->run.nblocks <= META_SCRUB_BLOCKS_MAX); /* (4) */
	s->reading = next == META_SCRUB_READ;
	*read = s->run;
	return next;
}

enum meta_scrub_next meta_scrub_next(struct meta_scrub *s, struct meta_run *read)
{
	ASSERT(s->m->scrub == s);
	return go_on(s, read, true);
}

enum meta_scrub_next meta_scrub_errand(struct meta_scrub *s, struct meta_run *read)
{
	ASSERT(s->m->scrub == s);
	return go_on(s, read, false);
}
