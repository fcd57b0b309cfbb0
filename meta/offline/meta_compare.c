/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Compares all copies of every block that lives in a store of several copies: pages with what their
 * parents say of them, blocks of files with their checksums.
 *
 *	tree --each page--> its place, its twins       extent --each run--> its place, its twins
 *
 *  (1) A copy is judged by the index alone, never by another copy: so it is known which of those
 *      that differ is the wrong one [test_meta_raw_pair:compare_names_each_copy_that_is_wrong].
 *  (2) The second copy of a block of a fold is the sum of the others and P, at the place of P, and
 *      the third one that of the others and Q: so each block of all its zones at an offset where
 *      something lives is looked at
 *      [test_meta_raw_fold:compare_names_each_block_that_is_wrong].
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define RUN_BLOCKS 128u

struct compare {
	struct meta_raw *r;
	struct meta_raw_compared *out;
	void (*say)(void *arg, const char *line);
	void *arg;
	uint8_t *bytes[META__RAW_COPIES]; /* of a run */
};

__attribute__((format(printf, 2, 3))) static void say(struct compare *c, const char *fmt, ...)
{
	char line[320];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	ASSERT(line[0]);
	c->say(c->arg, line);
}

static bool is_lost(const struct compare *c, uint64_t at)
{
	const uint32_t d = META_BADDR_DRIVE(at); /* of an extent: as the drive says */

	ASSERT(at);
	return d < META_DRIVES_MAX && c->r->geo.state[d] == DRIVE_LOST;
}

/* The copies of a page or block, or of the first of a run, the first one first. */
struct copies {
	uint32_t count;
	bool folded; /* the last one is the sum of its fold */
	uint64_t at[META__RAW_COPIES];
	const char *why[META__RAW_COPIES]; /* NULL: it is as the index says */
};

static struct copies copies_of(const struct compare *c, uint64_t baddr)
{
	struct copies x = { .count = 0 };

	ASSERT(baddr);
	for (uint64_t at = baddr; at; at = meta__raw_twin(c->r, at)) {
		ASSERT(x.count < META__RAW_COPIES); /* meta_raw_pair.c (1) */
		x.at[x.count++] = at;
	}
	return x;
}

static const char *name_of(const struct copies *x, uint32_t i)
{
	static const char *const names[META__RAW_COPIES] = { "first", "second", "third" };

	ASSERT(i < x->count);
	return x->count == 1 ? "only" : names[i];
}

/* Counts a block or a page, and names each wrong copy. */
static void judge(struct compare *c, const char *what, struct copies *x)
{
	struct meta_raw_compared *o = c->out;
	uint32_t bad = 0;

	ASSERT(x->count > 0 && x->count <= META__RAW_COPIES);
	for (uint32_t i = 0; i < x->count; i++) {
		if (is_lost(c, x->at[i]))
			x->why[i] = "its drive is lost";
		bad += x->why[i] != NULL;
	}
	o->few += x->count < c->r->m.copies && !x->folded;
	o->bad_all += bad == x->count;
	for (uint32_t i = 0; i < x->count; i++) {
		if (!x->why[i])
			continue;
		o->bad[i] += bad < x->count;
		say(c, "%s: %s copy, drive %u block %llu: %s", what, name_of(x, i),
		    META_BADDR_DRIVE(x->at[i]), (unsigned long long)META_BADDR_BLOCK(x->at[i]),
		    x->why[i]);
	}
}

/* ---- pages ------------------------------------------------------------------------------- */

static void compare_page(struct compare *c, const struct meta__raw_step *at)
{
	const struct meta__page_want *want = &at->page;
	struct copies x;
	char what[64];

	if (!meta__geo_is_page(&c->r->geo, want->baddr)) {
		c->out->bad_all++;
		say(c, "index, shard %u: no page can be at drive %u block %llu", want->shard,
		    META_BADDR_DRIVE(want->baddr),
		    (unsigned long long)META_BADDR_BLOCK(want->baddr));
		return;
	}
	ASSERT(META_PAGE_BLOCKS <= RUN_BLOCKS);
	x = copies_of(c, want->baddr);
	for (uint32_t i = 0; i < x.count; i++)
		x.why[i] = meta__raw_page_at(c->r, x.at[i], want, c->bytes[0]);
	c->out->pages++;
	(void)snprintf(what, sizeof(what), "index, shard %u, page of level %u", want->shard,
		       want->level);
	judge(c, what, &x);
}

/* Every page of a shard's tree, once: a leaf, and those above of which it is the first. */
static void compare_tree(struct compare *c, uint32_t shard)
{
	struct meta_key key = { { 0 } };
	struct meta__raw_way way;

	ASSERT(shard < c->r->geo.nshards);
	for (bool more = true; more;) {
		const struct meta__raw_step *s;

		(void)!meta__raw_go(c->r, shard, &key, 0, &way);
		s = &way.step[way.steps ? way.steps - 1 : 0];
		for (uint32_t i = way.steps, fresh = 1; i-- > 0 && fresh;) {
			compare_page(c, &way.step[i]);
			fresh = i && way.step[i - 1].pos == 0;
		}
		more = way.steps && s->has_hi && meta__key_cmp(&s->hi, &key) > 0;
		key = s->hi;
	}
}

/* ---- blocks of files --------------------------------------------------------------------- */

/* Reads one copy of a run; block by block where that fails.  Returns which could be read. */
static void read_run(struct compare *c, uint64_t at, uint32_t nblocks, uint8_t *bytes, bool *read)
{
	const bool all = at && meta__raw_read(c->r, at, nblocks, bytes) == 0;

	ASSERT(nblocks > 0);
	ASSERT(nblocks <= RUN_BLOCKS);
	for (uint32_t i = 0; i < nblocks; i++)
		read[i] = all || (at && meta__raw_read(c->r, at + i, 1,
						       bytes + (size_t)i * META__BLOCK) == 0);
}

static const char *block_why(const struct compare *c, uint64_t at, bool read, const uint8_t *bytes,
			     uint32_t crc)
{
	ASSERT(at);
	if (read)
		return crc32c(bytes, META__BLOCK) == crc ? NULL : "does not match its checksum";
	return c->r->drive_at[META_BADDR_DRIVE(at) % META_DRIVES_MAX] == META__RAW_NOWHERE
		       ? "its drive is missing"
		       : "cannot be read";
}

/* Block i of a run whose copies lie at x->at. */
static void compare_block(struct compare *c, const struct copies *run, bool read[][RUN_BLOCKS],
			  uint32_t i, uint32_t crc, const char *what)
{
	const size_t bytes_at = (size_t)i * META__BLOCK;
	uint64_t at[META_FOLD_PARITIES];
	const uint32_t ways = run->count == 1 ? meta__raw_fold_ways(c->r, run->at[0] + i, at) : 0;
	struct copies x = *run;

	ASSERT(i < RUN_BLOCKS && x.count > 0);
	for (uint32_t k = 0; k < x.count; k++) {
		x.at[k] += i;
		x.why[k] = block_why(c, x.at[k], read[k][i], c->bytes[k] + bytes_at, crc);
	}
	ASSERT(ways == 0 || ways + 1 == c->r->m.copies);
	for (uint32_t k = 0; k < ways; k++) { /* (2) */
		x.folded = true;
		x.at[x.count] = at[k];
		x.why[x.count++] =
			meta__raw_fold_way(c->r, x.at[0], k, crc, c->bytes[1 + k] + bytes_at);
	}
	c->out->blocks++;
	judge(c, what, &x);
}

static void compare_run(struct compare *c, const struct meta_key *key, struct meta_run run,
			uint64_t block, const uint8_t *crcs)
{
	const struct copies x = copies_of(c, run.baddr);
	bool read[META__RAW_COPIES][RUN_BLOCKS];

	ASSERT(run.nblocks <= RUN_BLOCKS);
	ASSERT(x.count > 0 && x.at[0] == run.baddr);
	for (uint32_t k = 0; k < x.count; k++)
		read_run(c, x.at[k], run.nblocks, c->bytes[k], read[k]);
	for (uint32_t i = 0; i < run.nblocks; i++) {
		char what[128];
		le32 crc;

		memcpy(&crc, crcs + i * sizeof(crc), sizeof(crc));
		(void)snprintf(what, sizeof(what), "file %llx.%llx.%llx, block %llu",
			       (unsigned long long)meta__key_dir(key),
			       (unsigned long long)meta__key_hash(key),
			       (unsigned long long)meta__key_uniq(key),
			       (unsigned long long)block + i);
		compare_block(c, &x, read, i, le32_get(crc), what);
	}
}

static void compare_extent(struct compare *c, const struct meta_key *key,
			   const struct meta__extent *x)
{
	uint64_t block = meta__key_index(key) * META_CHUNK_BLOCKS;
	uint32_t at = 0;

	ASSERT(meta__key_kind(key) == META__KIND_EXTENT);
	for (uint32_t i = 0; i < x->nruns && at < x->nblocks; i++) {
		struct meta_run run = meta__extent_run(x, i);

		run.nblocks = min_u32(run.nblocks, x->nblocks - at);
		if (run.baddr)
			compare_run(c, key, run, block + at, x->crcs + at * sizeof(le32));
		at += run.nblocks;
	}
	ASSERT(at <= x->nblocks);
}

static void compare_files(struct compare *c, uint32_t shard)
{
	struct meta_key key = { { 0 } };
	uint8_t value[META_VALUE_MAX];
	uint64_t lost = 0;
	uint32_t len;

	ASSERT(shard < c->r->geo.nshards);
	while (meta__raw_next(c->r, shard, &key, value, &len, &lost) == 0) {
		struct meta__extent x;

		if (meta__key_class(&key) == META__CLASS_OBJ &&
		    meta__key_kind(&key) == META__KIND_EXTENT &&
		    meta__extent_parse(value, len, &x) == 0)
			compare_extent(c, &key, &x);
		key = meta__key_next(key);
	}
}

int meta_raw_compare(struct meta_raw *r, struct meta_raw_compared *out,
		     void (*line)(void *arg, const char *line), void *arg)
{
	struct compare c = { .r = r, .out = out, .say = line, .arg = arg };
	int err = r->problem[0] ? -ENODATA : meta__raw_log_over(r, false);

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; !err && i < META__RAW_COPIES; i++) {
		c.bytes[i] = aligned_alloc(4096, (size_t)RUN_BLOCKS * META__BLOCK);
		err = c.bytes[i] ? 0 : -ENOMEM;
	}
	for (uint32_t shard = 0; !err && shard < r->geo.nshards; shard++) {
		ASSERT(r->over_log);
		compare_tree(&c, shard);
		compare_files(&c, shard);
	}
	for (uint32_t i = 0; i < META__RAW_COPIES; i++)
		free(c.bytes[i]);
	return err;
}
