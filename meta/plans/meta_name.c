/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names: their hash, their records, and the walk along a path.
 *
 *   path     /a/link/../c/           one component a step; `dir` is the current directory
 *             | |    |  |
 *             | |    |  `- last, followed by a slash: must be a directory
 *             | |    `---- ".." is in the directory's own record
 *             | `--------- a symlink: its text replaces it, in ops->path[which]
 *             `----------- a NAME record: it has the child's number, so that a component is
 *                          one record, whatever the depth
 *
 * Two names with one hash are two NAME records whose keys differ in the uniquifier: a lookup
 * compares all of them, and meets no object with that hash (its class is higher).  In a spread
 * directory it looks in the fragment for that hash, and in the directory itself (meta_spread.c).
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

int meta__bad_record(struct meta *m, const char *what, uint32_t shard, const struct meta_key *key)
{
	meta__error(m, "bad %s record in shard %u: directory %#llx, hash %#llx, object %#llx, %llu",
		    what, shard, (unsigned long long)meta__key_dir(key),
		    (unsigned long long)meta__key_hash(key),
		    (unsigned long long)meta__key_uniq(key),
		    (unsigned long long)meta__key_index(key));
	return -EIO;
}

/* ---- one name ------------------------------------------------------------------------ */

static bool same_hash(const struct meta_key *k, const struct meta__at *at)
{
	DASSERT(at->hash <= META__MASK40);
	return meta__key_dir(k) == at->dir && meta__key_hash(k) == at->hash &&
	       meta__key_class(k) == META__CLASS_NAME;
}

int meta__name_in(struct meta *m, uint64_t dir, struct meta__at *at)
{
	struct meta_key key, last;
	const void *value;
	uint32_t value_len;
	int rc;

	DASSERT(dir != 0);
	DASSERT(at->len <= META_NAME_MAX);
	at->dir = dir;
	at->shard = meta__dir_shard(m, dir);
	key = meta__key(dir, at->hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	last = meta__key(dir, at->hash, META__CLASS_NAME, META__MASK40, META__KIND_NONE, 0);
	for (;; key = meta__key_next(key)) {
		rc = meta__seek(m, at->shard, &key, &last, &value, &value_len);
		if (rc)
			return rc == -ENOENT ? 0 : rc;
		if (!same_hash(&key, at))
			return 0;
		if (meta__name_parse(&key, value, value_len, &at->is) || meta__key_uniq(&key) == 0)
			return meta__bad_record(m, "name", at->shard, &key);
		if (at->is.len == at->len && memcmp(at->is.bytes, at->name, at->len) == 0)
			break;
	}
	at->found = true;
	at->name_uniq = meta__key_uniq(&key);
	return 0;
}

/* The directory itself has no such name.  It is not remembered as spread: reads whether it is, and
 * then looks in the fragment for the hash. */
static int look_in_fragment(struct meta *m, struct meta__at *at)
{
	int rc = meta__is_spread(m, at->dir);

	DASSERT(!at->found);
	DASSERT(!meta__is_fragment(at->dir));
	return rc <= 0 ? rc : meta__name_in(m, meta__fragment_of(at->dir, at->hash), at);
}

/* The fragment for the hash has no such name: looks in the directory itself, unless it is
 * remembered that the directory has no name of this hash. */
static int look_in_whole(struct meta *m, struct meta__at *at)
{
	const uint64_t fragment = at->dir, whole = meta__whole_of(fragment);
	uint64_t seq;
	int rc;

	DASSERT(!at->found);
	DASSERT(meta__is_fragment(at->dir));
	if (meta__home_lacks(m, whole, at->hash, &seq)) {
		meta__tx_saw(m, seq);
		return 0;
	}
	rc = meta__name_in(m, whole, at);
	if (rc || at->found)
		return rc;
	meta__home_note(m, whole, at->hash);
	at->dir = fragment;
	at->shard = meta__dir_shard(m, fragment);
	return 0;
}

int meta__lookup(struct meta *m, uint64_t dir, const char *name, uint32_t len, struct meta__at *at)
{
	const bool known = meta__spread_known(m, dir);
	int rc;

	DASSERT(dir != 0);
	DASSERT(len > 0);
	DASSERT(len <= META_NAME_MAX);
	at->name = name;
	at->len = len;
	at->hash = meta__name_hash(m, dir, name, len);
	at->found = false;
	rc = meta__name_in(m, known ? meta__fragment_of(dir, at->hash) : dir, at);
	if (rc || at->found)
		return rc;
	return known ? look_in_whole(m, at) : look_in_fragment(m, at);
}

static struct meta_key name_key(const struct meta__at *at)
{
	return meta__key(at->dir, at->hash, META__CLASS_NAME, at->name_uniq, META__KIND_NONE, 0);
}

int meta__name_put(struct meta *m, const struct meta__at *at, const struct meta_handle *h,
		   uint64_t child, enum meta_type type)
{
	const struct meta__name n = {
		.handle = *h, .child = child, .type = type, .len = at->len, .bytes = at->name
	};
	const struct meta_key key = name_key(at);

	DASSERT(at->shard == meta__dir_shard(m, at->dir));
	DASSERT(at->len > 0);
	ASSERT(at->last == META__LAST_NAME && at->name_uniq != 0);
	return meta__tx_put(m, at->shard, &key, m->ops->value,
			    meta__name_build(&key, &n, m->ops->value));
}

int meta__name_del(struct meta *m, const struct meta__at *at)
{
	const struct meta_key key = name_key(at);

	DASSERT(at->shard == meta__dir_shard(m, at->dir));
	ASSERT(at->found);
	return meta__tx_del(m, at->shard, &key);
}

/* ---- a path ---------------------------------------------------------------------------- */

struct walk {
	const char *p; /* what is left */
	const char *end;
	char *buf; /* META_PATH_MAX bytes, for what symlinks make of it */
	uint64_t dir;
	uint64_t root; /* nothing above it can be named */
	uint32_t links;
	bool no_links;
};

/* Takes the next component: [*name, + *len); moves w->p past it and the slashes that follow. */
static int component(struct walk *w, const char **name, uint32_t *len, bool *slash)
{
	const char *q = memchr(w->p, '/', (size_t)(w->end - w->p));

	DASSERT(w->p < w->end);
	*name = w->p;
	if (!q)
		q = w->end;
	if (q - w->p > META_NAME_MAX)
		return -ENAMETOOLONG;
	*len = (uint32_t)(q - w->p);
	if (memchr(w->p, 0, *len))
		return -EINVAL;
	*slash = q != w->end;
	while (q != w->end && *q == '/')
		q++;
	w->p = q;
	return 0;
}

static void skip_slashes(struct walk *w)
{
	while (w->p != w->end && *w->p == '/')
		w->p++;
}

/* Replaces the rest of the path by the link's text and the old rest. */
static int follow_link(struct meta *m, struct walk *w, const struct meta__at *at, bool slash)
{
	struct meta__inode link;
	uint64_t left = (uint64_t)(w->end - w->p) + slash, text;
	int rc;

	DASSERT(at->found);
	DASSERT(at->is.type == META_TYPE_SYMLINK);
	if (++w->links > META_SYMLINKS_MAX || w->no_links)
		return -ELOOP;
	rc = meta__inode_get(m, &at->is.handle, &link);
	if (rc)
		return rc == -ESTALE ? -EIO : rc;
	text = link.size;
	if (link.type != META_TYPE_SYMLINK || text == 0 || text > META_PATH_MAX)
		return -EIO;
	if (text + left > META_PATH_MAX)
		return -ENAMETOOLONG;
	memmove(w->buf + text + slash, w->p, left - slash);
	if (slash)
		w->buf[text] = '/';
	DASSERT(w->end - w->p + (int64_t)slash == (int64_t)left);
	rc = meta__link_text(m, &link, w->buf);
	if (rc)
		return rc;
	w->p = w->buf;
	w->end = w->buf + text + left;
	if (*w->p == '/')
		w->dir = w->root;
	skip_slashes(w);
	return 0;
}

/* The path ended at a directory as such, not at a name in one. */
static int end_at_dir(struct meta *m, uint64_t dir, enum meta__last last, struct meta__at *at)
{
	struct meta__dir d;
	int rc = meta__dir_get(m, dir, &d);

	DASSERT(last != META__LAST_NAME);
	at->last = last;
	at->found = true;
	at->slash = true;
	at->dir = dir;
	at->len = 0;
	at->is = (struct meta__name){ .handle = d.inode, .child = dir, .type = META_TYPE_DIR };
	return rc;
}

static int dot_step(struct meta *m, struct walk *w, uint32_t len)
{
	struct meta__dir d;
	int rc;

	DASSERT(len == 1 || len == 2);
	if (len == 2 && w->dir == w->root && w->root != META_ROOT_DIR)
		return -EACCES;
	rc = meta__dir_get(m, w->dir, &d);
	if (!rc && len == 2)
		w->dir = meta__whole_of(d.parent);
	return rc;
}

static int walk_steps(struct meta *m, struct walk *w, bool follow, struct meta__at *at)
{
	enum meta__last last = META__LAST_ROOT;

	while (w->p != w->end) {
		const char *name;
		uint32_t len;
		bool slash, dot;
		int rc = component(w, &name, &len, &slash);

		if (rc)
			return rc;
		rc = meta__may_search(m, w->dir);
		if (rc)
			return rc;
		dot = name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
		if (dot) {
			rc = dot_step(m, w, len);
			if (rc)
				return rc;
			last = len == 1 ? META__LAST_DOT : META__LAST_DOTDOT;
			continue;
		}
		rc = meta__lookup(m, w->dir, name, len, at);
		if (rc)
			return rc;
		if (at->found && at->is.type == META_TYPE_SYMLINK && (slash || follow)) {
			rc = follow_link(m, w, at, slash);
			if (rc)
				return rc;
			last = META__LAST_ROOT;
			continue;
		}
		DASSERT(!at->found || at->is.len == len);
		if (w->p == w->end) {
			at->last = META__LAST_NAME;
			at->slash = slash;
			return slash && at->found && at->is.type != META_TYPE_DIR ? -ENOTDIR : 0;
		}
		if (!at->found)
			return -ENOENT;
		if (at->is.type != META_TYPE_DIR)
			return -ENOTDIR;
		w->dir = at->is.child;
	}
	return end_at_dir(m, w->dir, last, at);
}

int meta__climb(struct meta *m, uint64_t dir, uint64_t root)
{
	int may = 0;

	DASSERT(root != 0);
	for (uint32_t depth = 0; dir != root; depth++) {
		struct meta__dir d;
		int rc = dir == META_ROOT_DIR || depth == META__DEPTH_MAX
				 ? -ENOENT
				 : meta__dir_get(m, dir, &d);

		if (rc)
			return rc;
		dir = meta__whole_of(d.parent);
		rc = may ? 0 : meta__may_search(m, dir);
		if (rc == -EACCES)
			may = rc; /* said only if all of the way is below the root */
		else if (rc)
			return rc;
	}
	return may;
}

/* A directory named by its number, which can be guessed: one outside the root, or that the user
 * could not have reached, looks like one that does not exist. */
static int check_below(struct meta *m, const struct walk *w)
{
	int rc = meta__climb(m, w->dir, w->root);

	DASSERT(w->dir != 0);
	DASSERT(w->root != 0);
	return rc == -EACCES ? -ENOENT : rc;
}

int meta__walk(struct meta *m, const struct meta_target *t, uint32_t which, bool follow,
	       struct meta__at *at)
{
	const uint64_t root = t->root ? t->root : META_ROOT_DIR;
	struct walk w = {
		.p = t->path,
		.end = t->path + t->path_len,
		.buf = m->ops->path[which],
		.dir = t->dir ? t->dir : root,
		.root = root,
		.no_links = t->no_links,
	};
	int rc;

	DASSERT(which < ARRAY_LEN(m->ops->path));
	if (!t->path)
		return -EINVAL;
	if (t->path_len == 0)
		return -ENOENT;
	if (t->path_len > META_PATH_MAX)
		return -ENAMETOOLONG;
	if (w.dir > META__MASK48 || meta__is_fragment(w.dir))
		return -ENOENT;
	if (*w.p == '/')
		w.dir = root;
	if (root != META_ROOT_DIR || unlikely(m->ops->who)) {
		rc = check_below(m, &w);
		if (rc)
			return rc;
	}
	skip_slashes(&w);
	return walk_steps(m, &w, follow, at);
}
