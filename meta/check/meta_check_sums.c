/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sums of the check: what directories count of files, and pass up to each other.  As for names, it
 * sums hashes, here of {directory, which sum}, as often as the sum says: no memory.
 *
 *  (1) DIR records count the bytes and blocks of the inodes that name them
 *      [test_meta_check:directory_that_does_not_count_a_file].
 *  (2) A TOTALS record's `below` is the sum that its subdirectories have passed up
 *      [test_meta_check:sums_of_a_directory].
 *  (3) A directory that has not passed up its total is pending; DIR and PENDING records agree
 *      [test_meta_check:directory_that_is_pending_without_a_record].
 *  (4) Names of files agree with LINKS records, or else with the one directory that counts
 *      [test_meta_check:names_of_a_file_that_has_several].
 *  (5) Directories and their fragments agree about each other
 *      [test_meta_spread_store:a_fragment_that_the_directory_does_not_know_is_wrong].
 */
#include "meta/check/meta_check.h"

#include "base/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void meta__problem(struct meta *m, const char *fmt, ...)
{
	struct meta__checker *c = m->checker;
	va_list args;

	ASSERT(c->out);
	if (c->out->problems < ARRAY_LEN(c->out->first)) {
		va_start(args, fmt);
		(void)vsnprintf(c->out->first[c->out->problems], sizeof(c->out->first[0]), fmt,
				args);
		va_end(args);
	}
	c->out->problems++;
}

/* Adds `times` (perhaps negative) occurrences; `what` names the source in a report.  An odd number
 * times a value that is not 0 is not 0, even for 2^63: one wrong sum is always found. */
void meta__tally(struct meta *m, enum sum sum, const uint64_t *words, uint32_t nwords,
		 int64_t times, const char *what)
{
	struct meta__checker *c = m->checker;
	const uint64_t hash = hash_bytes(m->secret + sum, words, nwords * sizeof(*words)) | 1;
	uint64_t *bucket = &c->bucket[sum][(hash >> 1) % BUCKETS];

	ASSERT(sum < SUMS);
	ASSERT(c->pass <= PASS_NAME);
	if (times == 0)
		return;
	if (c->pass == PASS_SUM)
		c->sum[sum] += hash * (uint64_t)times;
	else if (c->pass == PASS_BUCKET)
		*bucket += hash * (uint64_t)times;
	else if (*bucket)
		meta__problem(m,
			      "shard %u: %s of %llx.%llx.%llx: nothing, or something else, agrees",
			      c->shard, what, (unsigned long long)words[0],
			      (unsigned long long)words[1], (unsigned long long)words[2]);
}

/* Adds `times` names of the object in this directory. */
void meta__tally_links(struct meta *m, const struct meta_handle *h, uint64_t dir, int64_t times,
		       const char *what)
{
	const uint64_t words[] = { h->dir, h->hash, h->uniq, dir };

	ASSERT(m->checker->shard < m->nshards);
	meta__tally(m, SUM_LINKS, words, 4, times, what);
}

/* Adds the sums of a directory.  A report names only the directory that has them. */
static void tally_sums(struct meta *m, enum sum sum, uint64_t dir, const uint64_t *sums,
		       uint64_t nsums, bool minus, const char *what)
{
	ASSERT(sum == SUM_OWN || sum == SUM_BELOW);
	ASSERT(nsums == (sum == SUM_OWN ? 2 : 4));
	for (uint64_t i = 0; i < nsums; i++) {
		const uint64_t words[] = { dir, i, nsums };

		if (m->checker->pass != PASS_NAME)
			meta__tally(m, sum, words, 3, (int64_t)(minus ? 0 - sums[i] : sums[i]),
				    what);
		else if (minus)
			meta__tally(m, sum, words, 3, 1, what); /* though it be zero */
	}
}

void meta__tally_own(struct meta *m, const struct meta__inode *in)
{
	const uint64_t own[] = { in->size, in->blocks };

	ASSERT(m->checker->in_inode);
	if (!meta__inode_counts(in))
		return;
	tally_sums(m, SUM_OWN, in->counted, own, 2, false, "");
	if (!(in->flags & META__INODE_LINKED))
		meta__tally_links(m, &in->handle, in->counted, -1, "inode");
}

/* (7), of the directory that ends here. */
void meta__totals_end(struct meta *m)
{
	struct meta__checker *c = m->checker;
	const struct meta__dir *d = &c->dir_says;
	const struct meta__totals *t = &c->totals;
	const struct meta__sums total = meta__total_of(d, t);
	const uint64_t own[] = { d->own_bytes, d->own_blocks };
	const uint64_t below[] = { t->below.entries, t->below.dirs, t->below.bytes,
				   t->below.blocks };
	const uint64_t passed[] = { t->passed.entries, t->passed.dirs, t->passed.bytes,
				    t->passed.blocks };
	const bool passes = c->dir != META_ROOT_DIR && !d->going;
	const uint64_t number[] = { c->dir, 0, 0 };

	ASSERT(c->in_dir);
	tally_sums(m, SUM_OWN, c->dir, own, 2, true, "bytes and blocks of files");
	tally_sums(m, SUM_BELOW, c->dir, below, 4, true, "totals of directories below");
	if (passes)
		tally_sums(m, SUM_BELOW, d->parent, passed, 4, false, "");
	meta__tally(m, SUM_PENDING, number, 3, d->pending, "directory that is pending");
	if (c->pass == PASS_SUM && passes && !d->pending &&
	    memcmp(&total, &t->passed, sizeof(total)) != 0)
		meta__problem(m, "directory %llx has not passed up its total, and is not pending",
			      (unsigned long long)c->dir);
	if (c->pass == PASS_SUM && c->dir == META_ROOT_DIR && d->pending)
		meta__problem(m, "the root directory is pending");
}

static void tally_fragment(struct meta *m, uint64_t fragment, const struct meta_handle *h,
			   int64_t times, const char *what)
{
	const uint64_t words[] = {
		fragment, meta__whole_of(fragment), 0, h->dir, h->hash, h->uniq
	};

	ASSERT(meta__is_fragment(fragment));
	ASSERT(times == 1 || times == -1);
	meta__tally(m, SUM_FRAGMENTS, words, 6, times, what);
}

void meta__check_fragments(struct meta *m)
{
	struct meta__checker *c = m->checker;
	const struct meta__dir *d = &c->dir_says;

	ASSERT(c->in_dir);
	for (uint32_t i = 0; i < META__FRAGMENTS; i++)
		if (d->fragments >> i & 1)
			tally_fragment(m, meta__fragment_at(c->dir, i), &d->inode, 1, "directory");
	if (meta__is_fragment(c->dir))
		tally_fragment(m, c->dir, &d->inode, -1, "part of a directory");
	if (c->pass != PASS_SUM)
		return;
	if (!meta__dir_fits(c->dir, d))
		meta__problem(m, "%s %llx is not what it should be",
			      meta__is_fragment(c->dir) ? "part of a directory" : "directory",
			      (unsigned long long)c->dir);
	if (d->spread)
		meta__duplicate_remember(c, c->dir);
	if (!meta__is_fragment(c->dir) && !d->spread && d->resets)
		meta__problem(m, "directory %llx is not spread, and says how often it was set",
			      (unsigned long long)c->dir);
}

void meta__check_totals(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;

	ASSERT(meta__key_class(key) == META__CLASS_DIR);
	ASSERT(meta__key_index(key) == 1);
	if (!c->in_dir || meta__key_dir(key) != c->dir || meta__key_hash(key) ||
	    meta__key_uniq(key) || meta__key_kind(key) ||
	    meta__totals_parse(value, len, &c->totals) != 0)
		meta__problem(m, "shard %u: totals of directory %llx are malformed", c->shard,
			      (unsigned long long)meta__key_dir(key));
}

void meta__check_links(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	uint64_t names;

	ASSERT(meta__key_kind(key) == META__KIND_LINKS);
	if (!c->in_inode || !meta__key_is_obj(key, &c->inode.handle, META__KIND_LINKS) ||
	    !(c->inode.flags & META__INODE_LINKED) || meta__links_parse(value, len, &names) != 0) {
		meta__problem(m, "shard %u: a record of names of %llx.%llx.%llx is malformed",
			      c->shard, (unsigned long long)meta__key_dir(key),
			      (unsigned long long)meta__key_hash(key),
			      (unsigned long long)meta__key_uniq(key));
		return;
	}
	c->counted_seen |= meta__key_index(key) == c->inode.counted;
	meta__tally_links(m, &c->inode.handle, meta__key_index(key), -(int64_t)names,
			  "record of names");
}

void meta__check_pending(struct meta *m, const struct meta_key *key, uint32_t len)
{
	const uint64_t number[] = { meta__key_index(key), 0, 0 };

	ASSERT(meta__key_dir(key) == 0);
	ASSERT(meta__key_class(key) == META__CLASS_PENDING);
	if (len != 8 || meta__key_hash(key) || meta__key_uniq(key) || meta__key_kind(key) ||
	    meta__dir_shard(m, number[0]) != m->checker->shard)
		meta__problem(m, "shard %u: a pending record is malformed", m->checker->shard);
	else
		meta__tally(m, SUM_PENDING, number, 3, -1, "pending record");
}
