/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Listing: the names of a directory with the attributes of what they name, a page at a time.
 *
 *   hash 17                                   hash 18
 *   NAME 4 | NAME 9 | INODE 4 | EXTENT ...    NAME 5 | INODE 5 | EXTENT 0 | EXTENT 1 ...
 *     ^        ^        `-- seen an object: seek NAME 0 of hash 18, over all extents
 *     `--------`-- entries, in the order of {hash, uniq}: that pair is the cookie
 *
 *  (1) A cookie says: all entries up to and with {hash, uniq} have been returned.  A name's
 *      record keeps its key as long as the name stays, so an entry that stays is returned once.
 *  (2) Pages of inodes born elsewhere may be missed one by one; after META__LIST_RERUNS a listing
 *      is content with the entries in front of the next miss, so that it ends in any cache.
 */
#include "meta/meta_plan.h"

#include <string.h>

#define META__LIST_RERUNS 3u
#define META__LIST_MISSES 16u

/* Copied behind what is there; false: it does not fit. */
static bool add_entry(struct meta_op *op, const struct meta__name *n, const struct meta_attr *attr,
		      const struct meta_cookie *next)
{
	const uint32_t bytes = (uint32_t)align_up(sizeof(struct meta_dirent) + n->len, 8);
	uint8_t *to = (uint8_t *)op->list_out + op->list_used_bytes;
	const struct meta_dirent e = {
		.attr = *attr, .next = *next, .name_len = n->len, .entry_bytes = bytes
	};

	if (bytes > op->list_max_bytes - op->list_used_bytes)
		return false;
	memcpy(to, &e, sizeof(e));
	memcpy(to + sizeof(e), n->bytes, n->len);
	memset(to + sizeof(e) + n->len, 0, bytes - sizeof(e) - n->len);
	op->list_used_bytes += bytes;
	op->list_count++;
	return true;
}

static int entry_attr(struct meta *m, const struct meta__name *n, struct meta_attr *out)
{
	struct meta__inode in;
	int rc = meta__inode_get(m, &n->handle, &in);

	if (rc)
		return rc == -ESTALE ? -EIO : rc; /* a name's inode is there */
	rc = meta__attr(m, &in, out);
	return rc == -ENOENT ? -EIO : rc;
}

/* The next NAME record of `dir` at or behind *key; -ENOENT: none. */
static int next_name(struct meta *m, uint64_t dir, uint32_t shard, struct meta_key *key,
		     struct meta__name *out)
{
	for (;;) {
		const void *value;
		uint32_t value_len;
		int rc = meta__seek(m, shard, key, &value, &value_len);

		if (rc)
			return rc;
		if (meta__key_dir(key) != dir)
			return -ENOENT;
		if (meta__key_class(key) == META__CLASS_NAME)
			return meta__name_parse(value, value_len, out)
				       ? meta__bad_record(m, "name", shard, key)
				       : 0;
		if (meta__key_class(key) < META__CLASS_NAME) {
			*key = meta__key(dir, 0, META__CLASS_NAME, 0, META__KIND_NONE, 0);
		} else {
			const uint64_t hash = meta__key_hash(key);

			if (hash == META__MASK40)
				return -ENOENT;
			*key = meta__key(dir, hash + 1, META__CLASS_NAME, 0, META__KIND_NONE, 0);
		}
	}
}

/* What a plan has gathered; the operation gets it when nothing was missed. */
struct listing {
	struct meta_cookie last;
	uint32_t entries_max;
	uint32_t misses;
	bool full;
	bool end;
};

static int list_one(struct meta *m, struct meta_op *op, struct listing *l, uint32_t shard,
		    const struct meta_key *key, const struct meta__name *n)
{
	const struct meta_cookie at = { shard, meta__key_hash(key), meta__key_uniq(key) };
	struct meta_attr attr;
	int rc = entry_attr(m, n, &attr);

	if (rc == -EAGAIN && ++l->misses < META__LIST_MISSES)
		return 0; /* ask for the next ones too */
	if (rc || l->misses)
		return rc;
	l->full = op->list_count == l->entries_max || !add_entry(op, n, &attr, &at);
	if (!l->full)
		l->last = at;
	return 0;
}

static int list_dir(struct meta *m, struct meta_op *op, struct listing *l, uint64_t dir)
{
	const uint32_t shard = meta__dir_shard(m, dir);
	struct meta_key key =
		meta__key(dir, l->last.hash, META__CLASS_NAME, l->last.uniq, META__KIND_NONE, 0);

	while (!l->full) {
		struct meta__name n;
		int rc;

		key = meta__key_next(key);
		rc = next_name(m, dir, shard, &key, &n);
		l->end = rc == -ENOENT;
		if (l->end)
			return 0;
		if (!rc)
			rc = list_one(m, op, l, shard, &key, &n);
		if (rc)
			return rc;
	}
	return 0;
}

/* scratch[0]: entries that the last run found in front of its first miss; see (2). */
int meta__plan_list(struct meta *m, struct meta_op *op)
{
	struct listing l = { .last = op->cookie, .entries_max = op->list_max_entries };
	struct meta__inode in;
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), &in);

	if (rc)
		return rc;
	if (in.type != META_TYPE_DIR)
		return -ENOTDIR;
	if (op->cookie.hash > META__MASK40 || op->cookie.uniq > META__MASK40)
		return -EINVAL;
	if (l.entries_max == 0)
		l.entries_max = UINT32_MAX;
	if (op->reruns >= META__LIST_RERUNS && op->scratch[0])
		l.entries_max = min_u32(l.entries_max, (uint32_t)op->scratch[0]);
	op->list_used_bytes = 0;
	op->list_count = 0;
	rc = list_dir(m, op, &l, in.child);
	op->scratch[0] = op->list_count;
	if (rc == -EBUSY && op->list_count && !l.misses)
		rc = 0; /* its pages fill the cache: the next call goes on */
	if (rc || l.misses)
		return rc ? rc : -EAGAIN;
	if (op->list_count == 0 && !l.end)
		return -EINVAL; /* no room for one entry */
	rc = meta__attr(m, &in, &op->attr);
	if (rc)
		return rc;
	op->cookie = l.last; /* now that no rerun will start from it */
	op->list_end = l.end;
	return 0;
}
