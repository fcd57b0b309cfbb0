/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Compares both copies of every block that lives in a store of two copies: pages with what their
 * parents say of them, blocks of files with their checksums.
 *
 *	tree --each page--> its place, its twin        extent --each run--> its place, its twin
 *
 *  (1) A copy is judged by the index alone, never by the other copy: so it is known which of two
 *      that differ is the wrong one [test_meta_raw_pair:compare_names_each_copy_that_is_wrong].
 *  (2) The second copy of a block of a fold is the sum of the others, at the place of the parity:
 *      so each block of all its zones at an offset where something lives is looked at
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
	uint8_t *bytes[2]; /* of a run */
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

/* Counts a block or a page, and names each wrong copy. */
static void judge(struct compare *c, const char *what, uint64_t first, uint64_t twin,
		  const char *first_why, const char *twin_why)
{
	struct meta_raw_compared *o = c->out;

	ASSERT(first);
	if (is_lost(c, first))
		first_why = "its drive is lost";
	if (twin && is_lost(c, twin))
		twin_why = "its drive is lost";
	if (!twin) {
		o->single++;
		o->bad_both += first_why != NULL;
	} else {
		o->bad_first += first_why && !twin_why;
		o->bad_second += twin_why && !first_why;
		o->bad_both += first_why && twin_why;
	}
	if (first_why)
		say(c, "%s: %s copy, drive %u block %llu: %s", what, twin ? "first" : "only",
		    META_BADDR_DRIVE(first), (unsigned long long)META_BADDR_BLOCK(first),
		    first_why);
	if (twin && twin_why)
		say(c, "%s: second copy, drive %u block %llu: %s", what, META_BADDR_DRIVE(twin),
		    (unsigned long long)META_BADDR_BLOCK(twin), twin_why);
}

/* ---- pages ------------------------------------------------------------------------------- */

static void compare_page(struct compare *c, const struct meta__raw_step *at)
{
	const struct meta__page_want *want = &at->page;
	uint8_t *page = c->bytes[0];
	uint64_t twin;
	char what[64];
	const char *first_why, *twin_why;

	if (!meta__geo_is_page(&c->r->geo, want->baddr)) {
		c->out->bad_both++;
		say(c, "index, shard %u: no page can be at drive %u block %llu", want->shard,
		    META_BADDR_DRIVE(want->baddr),
		    (unsigned long long)META_BADDR_BLOCK(want->baddr));
		return;
	}
	ASSERT(META_PAGE_BLOCKS <= RUN_BLOCKS);
	twin = meta__raw_twin(c->r, want->baddr);
	first_why = meta__raw_page_at(c->r, want->baddr, want, page);
	twin_why = twin ? meta__raw_page_at(c->r, twin, want, page) : NULL;
	c->out->pages++;
	(void)snprintf(what, sizeof(what), "index, shard %u, page of level %u", want->shard,
		       want->level);
	judge(c, what, want->baddr, twin, first_why, twin_why);
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

/* The block of parity of this one; 0: it is in no fold. */
static uint64_t parity_of(const struct meta_raw *r, uint64_t baddr)
{
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const uint32_t parity = zone == META__ZONE_NONE ? zone : meta__raw_parity(r, zone);

	if (parity == META__ZONE_NONE)
		return 0;
	ASSERT(parity != zone);
	return meta__geo_zone_baddr(&r->geo, parity) + baddr - meta__geo_zone_baddr(&r->geo, zone);
}

static void compare_run(struct compare *c, const struct meta_key *key, struct meta_run run,
			uint64_t block, const uint8_t *crcs)
{
	const uint64_t twin = meta__raw_twin(c->r, run.baddr);
	const uint64_t parity = twin ? 0 : parity_of(c->r, run.baddr);
	bool read[2][RUN_BLOCKS];

	ASSERT(run.nblocks <= RUN_BLOCKS);
	read_run(c, run.baddr, run.nblocks, c->bytes[0], read[0]);
	read_run(c, twin, run.nblocks, c->bytes[1], read[1]);
	for (uint32_t i = 0; i < run.nblocks; i++) {
		const size_t at = (size_t)i * META__BLOCK;
		const char *why[2] = { NULL, NULL };
		char what[128];
		le32 crc;

		ASSERT(run.baddr);
		memcpy(&crc, crcs + i * sizeof(crc), sizeof(crc));
		why[0] = block_why(c, run.baddr + i, read[0][i], c->bytes[0] + at, le32_get(crc));
		if (twin)
			why[1] =
				block_why(c, twin + i, read[1][i], c->bytes[1] + at, le32_get(crc));
		if (parity) /* (2) */
			why[1] = meta__raw_fold_block(c->r, run.baddr + i, le32_get(crc),
						      c->bytes[1] + at);
		(void)snprintf(what, sizeof(what), "file %llx.%llx.%llx, block %llu",
			       (unsigned long long)meta__key_dir(key),
			       (unsigned long long)meta__key_hash(key),
			       (unsigned long long)meta__key_uniq(key),
			       (unsigned long long)block + i);
		c->out->blocks++;
		judge(c, what, run.baddr + i,
		      twin     ? twin + i
		      : parity ? parity + i
			       : 0,
		      why[0], why[1]);
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
	for (int i = 0; !err && i < 2; i++) {
		c.bytes[i] = aligned_alloc(4096, (size_t)RUN_BLOCKS * META__BLOCK);
		err = c.bytes[i] ? 0 : -ENOMEM;
	}
	for (uint32_t shard = 0; !err && shard < r->geo.nshards; shard++) {
		ASSERT(r->over_log);
		compare_tree(&c, shard);
		compare_files(&c, shard);
	}
	free(c.bytes[0]);
	free(c.bytes[1]);
	return err;
}
