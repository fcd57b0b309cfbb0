/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories that are spread over shards: a huge one is changed and read in many of them.
 *
 *   DIR {d}        count 4096, spread, fragments 0, 7 --.   shard hash(d)
 *   NAME {d, h}    older names                          |
 *                                                       |
 *   DIR {d.0}      count 911, parent d <----------------+   shard hash(d.0)
 *   NAME {d.0, h}  of hashes that begin with 0          |
 *                                                       |
 *   DIR {d.7}      count 870, parent d <----------------'   shard hash(d.7)
 *   NAME {d.7, h}  of hashes that begin with 7
 *
 * A fragment is a directory that clients do not see: it has a number, and so a shard, a record, a
 * count, and totals, which it passes up to d like a directory in d.  Objects created in it have its
 * number in their handles, and a directory there has it as its parent.  So trees, listings, names
 * of damaged files and sums need to know little of fragments.
 *
 *  (1) A name's hash selects its fragment, and d's number gives a fragment's number: nothing has
 *      to be read for it.  d's record says which fragments have a record; a fragment gets it with
 *      its first name
 *      [test_meta_spread:names_go_to_the_fragments_for_their_hashes_from_a_number_on].
 *  (2) Spread is for ever, and nothing is moved: a name stays where it was put.  A lookup that does
 *      not find it there looks in the other place.  So a directory once seen to be spread may be
 *      remembered, and never needs to be checked again
 *      [test_meta_spread:names_move_between_the_directory_and_its_fragments].
 *  (3) The directory is d: inode, rights, parent.  No fragment has a name or an inode (its record
 *      has d's), none can be named by its number, and ".." of an entry in a fragment is d
 *      [test_meta_spread:no_fragment_is_named_by_its_number].
 *  (4) count, mtime and ctime of the whole are added up for a stat: d's and its fragments'.
 *      mtime may be set: fragments that have not changed since, by their `resets`, do not count
 *      [test_meta_spread:mtime_is_that_of_the_last_change_or_as_set].
 *  (5) A plan that makes a name in a fragment must know that it is not in d, which never gets new
 *      ones (2).  So the hashes that d lacks are remembered, too, leaf by leaf as they are read, in
 *      as many bits as a few thousand names need; and their log sequence, which a plan that relies
 *      upon them has seen
 *      [test_meta_spread_store:who_knows_that_it_is_not_there_has_seen_what_took_it_away].
 *  (6) An empty spread directory is freed like a tree (meta_rmtree.c): its fragments in the
 *      background [test_meta_spread:an_empty_one_is_removed_with_its_fragments].
 */
#include "meta/format/meta_page.h"
#include "meta/plans/meta_plan.h"
#include "base/num.h"

#include <string.h>

#define SPREAD_AT 4096u /* DESIGN: a small directory is listed from one place */

uint32_t meta__spread_at(const struct meta_conf *c)
{
	return c->spread_at ? c->spread_at : SPREAD_AT;
}

uint64_t meta__names_in(const struct meta *m, uint64_t dir, const char *name, uint64_t len)
{
	if (!meta__spread_known(m, dir) || len > META_NAME_MAX)
		return dir;
	return meta__fragment_of(dir, meta__name_hash(m, dir, name, (uint32_t)len));
}

/* ---- names that were there before: (5) ------------------------------------------------- */

#define OTHERS_MAX       255u /* names of other directories, until one gets the place */
#define HOME_SEEN_SHIFT  (META__HASH_BITS - 10u)
#define HOME_MAYBE_SHIFT (META__HASH_BITS - 15u)
static_assert(META__HOME_SEEN == 1u << 10 && META__HOME_MAYBE == 1u << 15, "bits of a hash");

static struct meta__home *home_at(const struct meta *m, uint64_t dir)
{
	static_assert(META__HOMES == 1u << 6, "as many as six bits say");
	return &m->ops->home[dir * 0x9e3779b97f4a7c15ull >> 58];
}

static bool bit_of(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint64_t i)
{
	DASSERT(i < META__HOME_MAYBE);
	bits[i / 64] |= 1ull << i % 64;
}

bool meta__home_lacks(const struct meta *m, uint64_t dir, uint64_t hash, uint64_t *seq)
{
	const struct meta__home *h = home_at(m, dir);

	DASSERT(!meta__is_fragment(dir));
	DASSERT(hash <= META__MASK40);
	*seq = h->seq;
	return h->dir == dir && bit_of(h->seen, hash >> HOME_SEEN_SHIFT) &&
	       !bit_of(h->maybe, hash >> HOME_MAYBE_SHIFT);
}

/* Notes, for the ranges of hashes that the leaf has whole, those with a name. */
static void note_names(struct meta__home *h, const struct meta__leaf_seen *l)
{
	DASSERT(h->dir != 0);
	for (uint32_t i = 0; i < meta__page_count(l->page); i++) {
		const struct meta_key key = meta__leaf_key(l->page, i);

		if (meta__key_dir(&key) == h->dir && meta__key_class(&key) == META__CLASS_NAME)
			bit_set(h->maybe, meta__key_hash(&key) >> HOME_MAYBE_SHIFT);
	}
}

void meta__home_note(struct meta *m, uint64_t dir, uint64_t hash)
{
	const struct meta_key key = meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	struct meta__home *h = home_at(m, dir);
	struct meta__leaf_seen l;
	uint64_t from, to;

	DASSERT(!meta__is_fragment(dir));
	DASSERT(hash <= META__MASK40);
	if (h->dir != dir) {
		if (h->dir && h->others++ < OTHERS_MAX)
			return;
		memset(h, 0, sizeof(*h));
		h->dir = dir;
	}
	if (bit_of(h->seen, hash >> HOME_SEEN_SHIFT) ||
	    !meta__tx_leaf(m, meta__dir_shard(m, dir), &key, &l))
		return;
	/* Whole ranges: those that begin after the first key, and end before the next leaf's. */
	from = meta__key_dir(&l.lo) < dir ? 0 : (meta__key_hash(&l.lo) >> HOME_SEEN_SHIFT) + 1;
	to = !l.has_hi || meta__key_dir(&l.hi) > dir ? META__HOME_SEEN
						     : meta__key_hash(&l.hi) >> HOME_SEEN_SHIFT;
	DASSERT(from <= META__HOME_SEEN);
	DASSERT(to <= META__HOME_SEEN);
	note_names(h, &l);
	for (; from < to; from++)
		bit_set(h->seen, from);
	h->seq = max_u64(h->seq, l.seq);
}

int meta__is_spread(struct meta *m, uint64_t dir)
{
	struct meta__dir d;
	int rc = meta__dir_load(m, dir, &d);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	if (d.spread)
		m->spread[meta__spread_place(dir)] = dir; /* (2) */
	return d.spread;
}

void meta__spread_grown(const struct meta *m, uint64_t dir, struct meta__dir *d)
{
	DASSERT(d->count > 0);
	if (m->spread_at && d->count >= m->spread_at && !meta__is_fragment(dir) &&
	    meta__may_spread(dir))
		d->spread = true;
}

static int fragment_missing(struct meta *m, uint64_t fragment)
{
	const struct meta_key key = meta__dir_key(fragment);

	DASSERT(meta__is_fragment(fragment));
	return meta__bad_record(m, "part of a directory", meta__dir_shard(m, fragment), &key);
}

int meta__fragment_get(struct meta *m, uint64_t fragment, struct meta__dir *out)
{
	const uint64_t dir = meta__whole_of(fragment);
	const uint32_t bit = 1u << meta__fragment_index(fragment);
	struct meta__dir whole;
	int rc = meta__dir_get(m, dir, &whole), miss = 0;
	bool there;

	DASSERT(meta__is_fragment(fragment)); /* (1) */
	DASSERT(meta__fragment_index(fragment) < META__FRAGMENTS);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_get(m, fragment, out);
	there = rc == 0;
	if (rc != -ENOENT && meta__stop(rc, &miss))
		return rc;
	if (miss)
		return miss;
	if (!whole.spread || there != !!(whole.fragments & bit))
		return fragment_missing(m, fragment);
	if (there) {
		out->resets = whole.resets; /* (4) */
		return 0;
	}
	*out = (struct meta__dir){ .inode = whole.inode, .parent = dir, .resets = whole.resets };
	whole.fragments |= bit;
	return meta__dir_put(m, dir, &whole);
}

uint32_t meta__fragment_next(const struct meta__dir *d, uint32_t from)
{
	const uint32_t left = from < META__FRAGMENTS ? d->fragments >> from << from : 0;

	DASSERT(d->fragments < 1u << META__FRAGMENTS);
	return left ? (uint32_t)__builtin_ctz(left) : META__FRAGMENTS;
}

int meta__dir_whole(struct meta *m, uint64_t dir, struct meta__dir *out)
{
	int rc = meta__dir_get(m, dir, out), miss = 0;
	bool counts;

	if (rc)
		return rc;
	counts = !out->mtime_set;
	for (uint32_t i = meta__fragment_next(out, 0); i < META__FRAGMENTS;
	     i = meta__fragment_next(out, i + 1)) {
		struct meta__dir fragment;

		rc = meta__dir_load(m, meta__fragment_at(dir, i), &fragment);
		if (rc == -ENOENT)
			return fragment_missing(m, meta__fragment_at(dir, i));
		if (meta__stop(rc, &miss))
			return rc;
		if (rc)
			continue;
		out->count += fragment.count;
		out->subdirs += fragment.subdirs;
		out->ctime_ns =
			fragment.ctime_ns > out->ctime_ns ? fragment.ctime_ns : out->ctime_ns;
		if (fragment.resets != out->resets) /* (4) */
			continue;
		if (!counts || fragment.mtime_ns > out->mtime_ns)
			out->mtime_ns = fragment.mtime_ns;
		counts = true;
	}
	return miss;
}
