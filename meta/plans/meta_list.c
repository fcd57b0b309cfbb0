/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Listing: the names of a directory with the attributes of their files, a page at a time.
 *
 *   hash 17                                   hash 18
 *   NAME 4 | NAME 9 | INODE 4 | EXTENT ...    NAME 5 | INODE 5 | EXTENT 0 | EXTENT 1 ...
 *     ^        ^        `-- seen an object: seek NAME 0 of hash 18, over all extents
 *     `--------`-- entries, in the order of {hash, uniq}: that pair is the cookie
 *
 *   d, then those of its fragments that have records, one after the other (meta_spread.c)
 *
 *  (1) A cookie means: all entries up to and including {fragment, hash, uniq} have been returned.
 *      A name's record keeps its key as long as the name stays, so an entry that stays is returned
 *      once.  The cookie also names the directory: another may have its name by the next page
 *      [test_meta_dir:what_stays_is_listed_once_while_others_come_and_go].
 *  (2) Pages of inodes created elsewhere may be missed one by one; after META__LIST_RERUNS a
 *      listing returns the entries before the next miss, so that it ends with any cache
 *      [test_meta_ops_store:thirty_thousand_files_in_one_directory_and_a_small_cache].
 *  (3) Objects are skipped, including those whose names have moved away, at most META__LIST_STEPS
 *      in a plan; the operation then continues from there, so that only the last page is empty
 *      [test_meta_dir:a_page_without_entries_is_the_end_also_behind_many_objects].
 *  (4) Names in leaves on a missing drive are left out, and so are files whose inodes cannot be
 *      reached.  Then the listing ends with -EIO, after all other entries.  The
 *      cookie remembers that something was left out
 *      [test_meta_missing:any_drive_may_be_left_out_after_a_clean_stop].
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

#define META__LIST_RERUNS 3u
#define META__LIST_MISSES 16u
#define META__LIST_WAITS  16u /* turns: a shard that is lent comes home in fewer */
#define META__LIST_STEPS  2048u
#define META__LEFT_OUT    (1ull << 15) /* in a cookie's fragment: see (4); clients keep 16 bits */

/* Appends an entry; false: it does not fit. */
static bool add_entry(struct meta_op *op, const struct meta__name *n, const struct meta_attr *attr,
		      const struct meta_cookie *next)
{
	const uint32_t bytes = (uint32_t)align_up(sizeof(struct meta_dirent) + n->len, 8);
	uint8_t *to = (uint8_t *)op->list_out + op->list_used_bytes;
	const struct meta_dirent e = {
		.attr = *attr, .next = *next, .name_len = n->len, .entry_bytes = bytes
	};

	DASSERT(op->list_used_bytes <= op->list_max_bytes);
	DASSERT(op->list_used_bytes % 8 == 0);
	if (bytes > op->list_max_bytes - op->list_used_bytes)
		return false;
	memcpy(to, &e, sizeof(e));
	memcpy(to + sizeof(e), n->bytes, n->len);
	memset(to + sizeof(e) + n->len, 0, bytes - sizeof(e) - n->len);
	op->list_used_bytes += bytes;
	op->list_count++;
	return true;
}

/* -ENODEV: its inode is on a missing drive. */
static int entry_attr(struct meta *m, const struct meta__name *n, struct meta_attr *out)
{
	struct meta__inode in;
	int rc = meta__inode_get(m, &n->handle, &in);

	if (unlikely(rc == -EIO && meta__tx_was_away(m)))
		return -ENODEV;
	if (rc)
		return rc == -ESTALE ? -EIO : rc; /* a name's inode is there */
	rc = meta__attr(m, &in, out);
	return rc == -ENOENT ? -EIO : rc;
}

/* Entries gathered by a plan; the operation gets them when nothing was missed. */
struct listing {
	uint64_t whole;          /* the directory                     */
	uint32_t fragments;      /* ... those that have records       */
	uint64_t dir;            /* it, or the fragment that is listed now */
	uint32_t shard;          /* ... of its names                  */
	uint64_t fragment;       /* ... 0: the directory itself, else which fragment + 1 */
	struct meta_cookie last; /* all up to here is gathered or passed over */
	uint32_t entries_max;
	uint32_t steps_max;
	uint32_t steps; /* entries and skips in front of the first miss */
	uint32_t looks; /* ... and after it                             */
	uint32_t misses;
	bool full; /* an entry did not fit */
	bool end;
	bool left_out; /* (4) */
};

static struct meta_cookie cookie_at(const struct listing *l, uint64_t hash, uint64_t uniq)
{
	const uint64_t fragment = l->fragment | (l->left_out ? META__LEFT_OUT : 0);

	return (struct meta_cookie){ fragment, hash, uniq, l->whole };
}

/* All up to here is passed over. */
static void passed(struct listing *l, uint64_t hash, uint64_t uniq)
{
	if (!l->misses)
		l->last = cookie_at(l, hash, uniq);
}

/* (4) *key becomes where the next leaf begins.  -ENOENT: the directory has ended before; -EIO: the
 * leaf of *key is not on a missing drive. */
static int step_over(struct meta *m, struct listing *l, struct meta_key *key)
{
	struct meta__away away;
	uint64_t hash, uniq = 0;

	if (!meta__tx_was_away(m) || !meta__tx_away(m, l->shard, key, &away))
		return -EIO;
	l->left_out = true;
	if (!away.has_end || meta__key_dir(&away.end) != l->dir)
		return -ENOENT;
	hash = meta__key_hash(&away.end);
	if (meta__key_class(&away.end) > META__CLASS_NAME && hash++ == META__MASK40)
		return -ENOENT;
	if (meta__key_class(&away.end) == META__CLASS_NAME)
		uniq = meta__key_uniq(&away.end);
	*key = meta__key(l->dir, hash, META__CLASS_NAME, uniq, META__KIND_NONE, 0);
	DASSERT(hash <= META__MASK40);
	passed(l, hash, uniq ? uniq - 1 : 0);
	return 0;
}

/* Returns 1 if this NAME record is the next entry; 0: skipped, *key is where to continue; -ENOENT:
 * the directory is at its end. */
static int name_at(struct meta *m, struct listing *l, struct meta_key *key, struct meta__name *out)
{
	const struct meta_key last = meta__dir_last(l->dir);
	const void *value;
	uint32_t value_len;
	uint64_t hash;
	int rc = meta__seek(m, l->shard, key, &last, &value, &value_len);

	if (unlikely(rc == -EIO))
		return step_over(m, l, key);
	if (rc)
		return rc;
	hash = meta__key_hash(key);
	if (meta__key_dir(key) != l->dir)
		return -ENOENT;
	if (meta__key_class(key) == META__CLASS_NAME)
		return meta__name_parse(key, value, value_len, out)
			       ? meta__bad_record(m, "name", l->shard, key)
			       : 1;
	if (meta__key_class(key) > META__CLASS_NAME && hash++ == META__MASK40)
		return -ENOENT;
	*key = meta__key(l->dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	passed(l, hash, 0);
	return 0;
}

static int entry_at(struct meta *m, struct meta_op *op, struct listing *l,
		    const struct meta_key *key, const struct meta__name *n)
{
	const struct meta_cookie at = cookie_at(l, meta__key_hash(key), meta__key_uniq(key));
	struct meta_attr attr;
	int rc = entry_attr(m, n, &attr);

	DASSERT(meta__key_class(key) == META__CLASS_NAME);
	DASSERT(meta__key_dir(key) == l->dir);
	if (rc == META__MISSES && ++l->misses < META__LIST_MISSES)
		return 0; /* ask for the next ones too */
	if (unlikely(rc == -ENODEV)) {
		l->left_out = true;
		passed(l, meta__key_hash(key), meta__key_uniq(key));
		return 0;
	}
	if (rc || l->misses)
		return rc;
	l->full = op->list_count == l->entries_max || !add_entry(op, n, &attr, &at);
	if (!l->full)
		l->last = at;
	return 0;
}

/* Continues with `fragment`, as in a cookie, from its first name. */
static void to_fragment(const struct meta *m, struct listing *l, uint64_t fragment)
{
	DASSERT(fragment <= META__FRAGMENTS);
	l->fragment = fragment;
	l->dir = fragment ? meta__fragment_at(l->whole, (uint32_t)fragment - 1) : l->whole;
	l->shard = meta__dir_shard(m, l->dir);
}

/* Names of what l->dir is, from l->last on; l->end: there are no more. */
static int list_names(struct meta *m, struct meta_op *op, struct listing *l)
{
	struct meta_key key = meta__key_next(meta__key(l->dir, l->last.hash, META__CLASS_NAME,
						       l->last.uniq, META__KIND_NONE, 0));
	struct meta__name n;

	while (!l->full && l->steps < l->steps_max && l->looks++ < META__LIST_STEPS) {
		int rc = name_at(m, l, &key, &n);

		l->end = rc == -ENOENT;
		if (l->end)
			return 0;
		if (rc == 1) {
			rc = entry_at(m, op, l, &key, &n);
			key = meta__key_next(key);
		}
		if (rc)
			return rc;
		DASSERT(l->steps <= l->looks); /* (3) */
		DASSERT(l->steps <= META__LIST_STEPS);
		l->steps += l->misses == 0;
	}
	return 0;
}

/* Moves to the next fragment that has a record; false: there are no more fragments. */
static bool next_fragment(const struct meta *m, struct listing *l)
{
	const struct meta__dir has = { .fragments = l->fragments };
	const uint32_t next = meta__fragment_next(&has, (uint32_t)l->fragment);

	if (next == META__FRAGMENTS)
		return false;
	DASSERT(next + 1 > l->fragment);
	to_fragment(m, l, next + 1);
	return true;
}

/* If a page begins where a fragment does, and misses, the next fragments may be just as small and
 * all fit this page: requests their first leaves at once. */
static void ask_for_fragments(struct meta *m, struct listing *l)
{
	struct meta__name n;

	while (next_fragment(m, l)) {
		struct meta_key key = meta__key(l->dir, 0, META__CLASS_NAME, 0, META__KIND_NONE, 0);

		(void)!name_at(m, l, &key, &n);
	}
}

static int list_dir(struct meta *m, struct meta_op *op, struct listing *l)
{
	for (;;) {
		int rc = list_names(m, op, l);

		if (rc == META__MISSES && !op->cookie.hash && !op->cookie.uniq) {
			l->misses++;
			ask_for_fragments(m, l);
		}
		if (rc || !l->end || !next_fragment(m, l))
			return rc;
		l->end = false;
		l->last = cookie_at(l, 0, 0);
	}
}

static struct listing listing_of(const struct meta *m, const struct meta_op *op, uint64_t dir,
				 const struct meta__dir *d)
{
	struct listing l = {
		.whole = dir,
		.fragments = d->fragments,
		.last = op->cookie,
		.entries_max = op->list_max_entries ? op->list_max_entries : UINT32_MAX,
		.steps_max = META__LIST_STEPS,
		.left_out = op->cookie.fragment & META__LEFT_OUT,
	};

	if (op->reruns >= META__LIST_RERUNS && op->keeps.user.list_steps)
		l.steps_max = (uint32_t)op->keeps.user.list_steps;
	to_fragment(m, &l, op->cookie.fragment & ~META__LEFT_OUT);
	return l;
}

/* Only objects so far: run again from here, after other operations had their turn. */
static int go_on(struct meta_op *op)
{
	DASSERT(op->list_count == 0);
	op->reruns = 0;
	op->keeps.user.list_steps = 0;
	return META__MISSES;
}

/* Checks a client's cookie: without fragment i, it could be another directory's. */
static bool is_cookie(const struct meta_cookie *c, const struct meta__dir *d)
{
	const uint64_t fragment = c->fragment & ~META__LEFT_OUT;

	if (c->hash > META__MASK40 || c->uniq > META__MASK40 || fragment > META__FRAGMENTS)
		return false;
	return fragment == 0 || d->fragments >> (fragment - 1) & 1;
}

/* A directory whose record is on a missing drive (4) may have any fragment. */
static int dir_of(struct meta *m, uint64_t dir, struct meta__dir *out, bool *away)
{
	int rc = meta__dir_get(m, dir, out);

	*away = rc == -EIO && meta__tx_was_away(m);
	if (likely(!*away))
		return rc == -ENOENT ? -EIO : rc; /* inode and record come and go together */
	*out = (struct meta__dir){ .fragments = m->spread_at ? (1u << META__FRAGMENTS) - 1 : 0 };
	return 0;
}

int meta__plan_list(struct meta *m, struct meta_op *op)
{
	struct listing l;
	struct meta__inode in;
	struct meta__dir d;
	bool away;
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), &in);

	if (rc)
		return rc;
	if (in.type != META_TYPE_DIR)
		return -ENOTDIR;
	rc = meta__may_use(m, op, &in, META__MAY_R | META__MAY_X); /* attributes come with it */
	if (rc)
		return rc;
	op->list_used_bytes = 0;
	op->list_count = 0;
	rc = dir_of(m, in.child, &d, &away);
	if (rc)
		return rc;
	if (op->cookie.dir && op->cookie.dir != in.child)
		return -ESTALE;
	if (!is_cookie(&op->cookie, &d))
		return -EINVAL;
	l = listing_of(m, op, in.child, &d);
	l.left_out |= away;
	rc = list_dir(m, op, &l);
	op->keeps.user.list_steps = l.steps;
	if (rc == META__NEEDS_ROOM && l.steps && !l.misses &&
	    op->keeps.user.list_waits++ >= META__LIST_WAITS)
		rc = 0; /* its pages fill the cache: the next call continues */
	if (rc || l.misses)
		return rc ? rc : META__MISSES;
	if (op->list_count == 0 && l.full)
		return -EINVAL; /* no room for one entry */
	if (unlikely(l.end && l.left_out) && op->list_count == 0)
		return -EIO; /* (4) */
	DASSERT(op->list_used_bytes <= op->list_max_bytes);
	DASSERT(op->list_count <= l.entries_max);
	op->cookie = l.last; /* set last, because a rerun starts from the old value */
	op->cookie.fragment |= l.left_out ? META__LEFT_OUT : 0;
	op->list_end = l.end && !l.left_out;
	return op->list_count || l.end ? 0 : go_on(op);
}
