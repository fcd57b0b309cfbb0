/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The model: a tree of nodes in memory.  Nothing here is shared with the store, so that a mistake
 * there is not repeated here; nothing here is clever, so that it is seen to be right.
 *
 *  (1) A directory's entries are sorted by name.
 *  (2) Contents are blocks of 4096 bytes; NULL reads as zeros; bytes behind the size are zeros.
 */
#include "test/lib/fs_model_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ------------------------------------------------------------------------------ */

static struct model_node *node_new(struct model *fs, enum meta_type type, uint32_t mode,
				   int64_t now_ns)
{
	struct model_node *n = model__must(calloc(1, sizeof(*n)));

	n->fs = fs;
	n->attr = (struct model_attr){
		.id = fs->id_next++,
		.type = type,
		.mode = mode,
		.nlink = 1,
		.mtime_ns = now_ns,
		.ctime_ns = now_ns,
		.atime_ns = now_ns,
	};
	n->next = fs->all;
	n->link = &fs->all;
	if (n->next)
		n->next->link = &n->next;
	fs->all = n;
	fs->count++;
	return n;
}

static void node_set(struct model_node *n, const struct model_set *set)
{
	if (!set)
		return;
	if (set->mask & META_SET_MODE)
		n->attr.mode = set->mode & 07777;
	if (set->mask & META_SET_UID)
		n->attr.uid = set->uid;
	if (set->mask & META_SET_GID)
		n->attr.gid = set->gid;
	if (set->mask & META_SET_MTIME)
		n->attr.mtime_ns = set->mtime_ns;
	if (set->mask & META_SET_ATIME)
		n->attr.atime_ns = set->atime_ns;
}

static void node_free(struct model_node *n)
{
	*n->link = n->next;
	if (n->next)
		n->next->link = n->link;
	n->fs->count--;
	for (uint32_t i = 0; i < n->entries; i++)
		free(n->entry[i]);
	free(n->entry);
	for (uint64_t i = 0; i < n->blocks; i++)
		free(n->block[i]);
	free(n->block);
	free(n->text);
	model__xattrs_free(&n->xattr);
	free(n);
}

/* One of its names went. */
static void node_unlink(struct model_node *n, int64_t now_ns)
{
	model__ctime_raise(n, now_ns);
	if (--n->attr.nlink == 0)
		node_free(n);
}

struct model *model_new(int64_t now_ns)
{
	struct model *fs = model__must(calloc(1, sizeof(*fs)));

	fs->id_next = 1;
	fs->root = node_new(fs, META_TYPE_DIR, 0755, now_ns);
	fs->root->parent = fs->root;
	return fs;
}

void model_end(struct model *fs)
{
	while (fs->all)
		node_free(fs->all);
	free(fs);
}

struct model_node *model_by_id(struct model *fs, uint64_t id)
{
	for (struct model_node *n = fs->all; n; n = n->next)
		if (n->attr.id == id)
			return n;
	return NULL;
}

bool model_first_visit(struct model_node *n, uint64_t round)
{
	const uint64_t last = n->round;

	n->round = round;
	return last != round;
}

uint64_t model_count(const struct model *fs)
{
	return fs->count;
}

void model_node_attr(const struct model_node *n, struct model_attr *out)
{
	*out = n->attr;
	if (n->attr.type != META_TYPE_DIR)
		return;
	out->size = n->entries;
	out->nlink = 2;
	for (uint32_t i = 0; i < n->entries; i++)
		out->nlink += n->entry[i]->node->attr.type == META_TYPE_DIR;
}

const char *model_node_text(const struct model_node *n)
{
	return n->text;
}

/* ---- directories ------------------------------------------------------------------------- */

/* The place of name: its index, or where it would be. */
static bool find(const struct model_node *dir, const char *name, uint32_t *index)
{
	uint32_t lo = 0, hi = dir->entries;

	while (lo < hi) {
		const uint32_t mid = (lo + hi) / 2;
		const int c = strcmp(dir->entry[mid]->name, name);

		if (c == 0) {
			*index = mid;
			return true;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*index = lo;
	return false;
}

static void entry_add(struct model_node *dir, const char *name, struct model_node *node)
{
	struct entry *e = model__must(malloc(sizeof(*e)));
	uint32_t at;

	ASSERT(!find(dir, name, &at));
	if (dir->entries == dir->entries_max) {
		dir->entries_max = dir->entries_max ? 2 * dir->entries_max : 8;
		dir->entry =
			model__must(realloc(dir->entry, dir->entries_max * sizeof(*dir->entry)));
	}
	memmove(&dir->entry[at + 1], &dir->entry[at], (dir->entries - at) * sizeof(*dir->entry));
	memcpy(e->name, name, strlen(name) + 1);
	e->node = node;
	dir->entry[at] = e;
	dir->entries++;
}

static void entry_del(struct model_node *dir, const char *name)
{
	uint32_t at;

	ASSERT(find(dir, name, &at));
	free(dir->entry[at]);
	dir->entries--;
	memmove(&dir->entry[at], &dir->entry[at + 1], (dir->entries - at) * sizeof(*dir->entry));
}

static void dir_changed(struct model_node *dir, int64_t now_ns)
{
	dir->attr.mtime_ns = now_ns;
	dir->attr.ctime_ns = now_ns;
}

bool model_entry(const struct model_node *dir, uint32_t index, const char **name,
		 struct model_node **node)
{
	if (index >= dir->entries)
		return false;
	*name = dir->entry[index]->name;
	*node = dir->entry[index]->node;
	return true;
}

/* ---- paths --------------------------------------------------------------------------------- */

/* dir, name: the last component, name "" when the path ends at `node`, a directory, as such: then
 * `dots` tells how: 0 the root (or what a symlink led to), 1 ".", 2 "..". */
struct place {
	struct model_node *dir;
	struct model_node *node; /* NULL: not there */
	char name[META_NAME_MAX + 1];
	int dots;
	bool slash;
};

static int splice(char *rest, const char *text, const char *tail)
{
	char all[2 * META_PATH_MAX + 4];
	const size_t t = strlen(text), l = strlen(tail);

	if (t + l > META_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(all, text, t);
	memcpy(all + t, tail, l + 1);
	memcpy(rest, all, t + l + 1);
	return 0;
}

static int place(struct model *fs, const char *path, bool follow, struct place *out)
{
	char rest[META_PATH_MAX + 1], *p = rest;
	struct model_node *at = fs->root;
	uint32_t links = 0, index;

	*out = (struct place){ .dots = 0 };
	if (strlen(path) > META_PATH_MAX)
		return -ENAMETOOLONG;
	if (!*path)
		return -ENOENT;
	memcpy(rest, path, strlen(path) + 1);
	for (;;) {
		size_t len;
		char *tail;

		while (*p == '/')
			p++;
		if (!*p)
			break;
		len = strcspn(p, "/");
		if (len > META_NAME_MAX)
			return -ENAMETOOLONG;
		if (!model__may(at, "x"))
			return -EACCES;
		memcpy(out->name, p, len);
		out->name[len] = 0;
		tail = p + len;
		p = tail + strspn(tail, "/");
		out->dots = 0;
		if (!strcmp(out->name, ".") || !strcmp(out->name, "..")) {
			out->dots = (int)len;
			at = len == 2 ? at->parent : at;
			continue;
		}
		out->dir = at;
		out->slash = *tail == '/';
		out->node = find(at, out->name, &index) ? at->entry[index]->node : NULL;
		if (out->node && out->node->text && (out->slash || follow)) {
			int err;

			if (++links > META_SYMLINKS_MAX)
				return -ELOOP;
			err = splice(rest, out->node->text, tail);
			if (err)
				return err;
			p = rest;
			if (*p == '/')
				at = fs->root;
			continue;
		}
		if (!*p) {
			if (out->slash && out->node && out->node->attr.type != META_TYPE_DIR)
				return -ENOTDIR;
			return 0;
		}
		if (!out->node)
			return -ENOENT;
		if (out->node->attr.type != META_TYPE_DIR)
			return -ENOTDIR;
		at = out->node;
	}
	out->name[0] = 0;
	out->slash = true;
	out->dir = at;
	out->node = at;
	return 0;
}

struct model_node *model_node(struct model *fs, const char *path, uint32_t flags, int *err)
{
	struct place at;

	*err = place(fs, path, !(flags & META_NOFOLLOW), &at);
	if (*err)
		return NULL;
	*err = at.node ? 0 : -ENOENT;
	return at.node;
}

/* ---- operations ------------------------------------------------------------------------------ */

int model_put(struct model *fs, const char *path, uint32_t flags, const void *bytes, uint64_t size,
	      const struct model_set *set, int64_t now_ns)
{
	struct model_node *n, *old;
	struct place at;
	int err = place(fs, path, !(flags & (META_NOFOLLOW | META_EXCL)), &at);

	if (err)
		return err;
	old = at.node;
	if (flags & META_EXCL && old)
		return -EEXIST;
	if (!at.name[0] || (old && old->attr.type == META_TYPE_DIR))
		return -EISDIR;
	if (!old && flags & META_MUST_EXIST)
		return -ENOENT;
	if (!old && at.slash)
		return -EISDIR;
	err = model__may_change(at.dir, old);
	if (err)
		return err;
	n = node_new(fs, META_TYPE_FILE, 0644, now_ns);
	if (old && old->attr.type == META_TYPE_FILE) {
		n->attr.mode = old->attr.mode;
		n->attr.uid = old->attr.uid;
		n->attr.gid = old->attr.gid;
		if (fs->who && fs->who->uid != old->attr.uid)
			n->attr.mode &= 0777;
	}
	node_set(n, set);
	model__born(n, at.dir, set);
	if (size > 0)
		model__write(n, 0, bytes, size);
	n->attr.size = size;
	if (old) {
		entry_del(at.dir, at.name);
		node_unlink(old, now_ns);
	}
	entry_add(at.dir, at.name, n);
	dir_changed(at.dir, now_ns);
	return 0;
}

int model_mkdir(struct model *fs, const char *path, const struct model_set *set, int64_t now_ns)
{
	struct model_node *n;
	struct place at;
	int err = place(fs, path, false, &at);

	if (err)
		return err;
	if (at.node)
		return -EEXIST;
	err = model__may_change(at.dir, NULL);
	if (err)
		return err;
	n = node_new(fs, META_TYPE_DIR, 0755, now_ns);
	node_set(n, set);
	model__born(n, at.dir, set);
	n->parent = at.dir;
	entry_add(at.dir, at.name, n);
	dir_changed(at.dir, now_ns);
	return 0;
}

int model_symlink(struct model *fs, const char *text, const char *path, const struct model_set *set,
		  int64_t now_ns)
{
	struct model_node *n;
	struct place at;
	int err;

	if (!*text)
		return -ENOENT;
	if (strlen(text) > META_PATH_MAX)
		return -ENAMETOOLONG;
	err = place(fs, path, false, &at);
	if (err)
		return err;
	if (at.node)
		return -EEXIST;
	if (at.slash)
		return -ENOENT;
	err = model__may_change(at.dir, NULL);
	if (err)
		return err;
	n = node_new(fs, META_TYPE_SYMLINK, 0777, now_ns);
	node_set(n, set);
	model__born(n, at.dir, set);
	n->text = model__must(strdup(text));
	n->attr.size = strlen(text);
	entry_add(at.dir, at.name, n);
	dir_changed(at.dir, now_ns);
	return 0;
}

int model_unlink(struct model *fs, const char *path, int64_t now_ns)
{
	struct place at;
	int err = place(fs, path, false, &at);

	if (err)
		return err;
	if (!at.node)
		return -ENOENT;
	if (at.node->attr.type == META_TYPE_DIR)
		return -EISDIR;
	err = model__may_change(at.dir, at.node);
	if (err)
		return err;
	entry_del(at.dir, at.name);
	node_unlink(at.node, now_ns);
	dir_changed(at.dir, now_ns);
	return 0;
}

/* The last entry of the last directory goes first, until top has none. */
static void tree_empty(struct model_node *top, int64_t now_ns)
{
	struct model_node *n = top;

	while (top->entries) {
		struct entry *last = n->entries ? n->entry[n->entries - 1] : NULL;

		if (!last) {
			n = n->parent;
		} else if (last->node->entries) {
			n = last->node;
		} else {
			if (last->node->attr.type == META_TYPE_DIR)
				node_free(last->node);
			else
				node_unlink(last->node, now_ns);
			free(last);
			n->entries--;
		}
	}
}

static int dir_remove(struct model *fs, const char *path, bool whole, int64_t now_ns)
{
	struct place at;
	int err = place(fs, path, false, &at);

	if (err)
		return err;
	if (whole && fs->who)
		return -EPERM;
	if (!at.name[0])
		return at.dots == 2 && !whole ? -ENOTEMPTY : -EINVAL;
	if (!at.node)
		return -ENOENT;
	if (at.node->attr.type != META_TYPE_DIR)
		return -ENOTDIR;
	err = model__may_change(at.dir, at.node);
	if (err)
		return err;
	if (at.node->entries && !whole)
		return -ENOTEMPTY;
	tree_empty(at.node, now_ns);
	entry_del(at.dir, at.name);
	node_free(at.node);
	dir_changed(at.dir, now_ns);
	return 0;
}

int model_rmdir(struct model *fs, const char *path, int64_t now_ns)
{
	return dir_remove(fs, path, false, now_ns);
}

int model_rmtree(struct model *fs, const char *path, int64_t now_ns)
{
	return dir_remove(fs, path, true, now_ns);
}

/* Is `dir` the node, or below it? */
static bool is_below(const struct model_node *dir, const struct model_node *node)
{
	while (dir != node && dir->parent != dir)
		dir = dir->parent;
	return dir == node;
}

/* Its dot-dot changes. */
static int may_move(const struct place *at, const struct model_node *to)
{
	if (at->node->attr.type != META_TYPE_DIR || at->dir == to)
		return 0;
	return model__may(at->node, "w") ? 0 : -EACCES;
}

/* 1: nothing to do. */
static int rename_allowed(const struct place *a, const struct place *b, uint32_t flags)
{
	const bool swap = flags & META_EXCHANGE;
	bool is_dir;
	int err;

	if (!a->name[0] || !b->name[0])
		return -EINVAL;
	if (!a->node || (swap && !b->node))
		return -ENOENT;
	is_dir = a->node->attr.type == META_TYPE_DIR;
	if (!b->node && b->slash && !is_dir)
		return -ENOTDIR;
	if (b->node && flags & META_EXCL)
		return -EEXIST;
	if (b->node == a->node)
		return 1;
	if (!swap && b->node && is_dir != (b->node->attr.type == META_TYPE_DIR))
		return is_dir ? -ENOTDIR : -EISDIR;
	err = model__may_change(a->dir, a->node);
	if (!err)
		err = model__may_change(b->dir, b->node);
	if (!err)
		err = may_move(a, b->dir);
	if (!err && swap)
		err = may_move(b, a->dir);
	if (err)
		return err;
	if (is_below(b->dir, a->node) || (swap && is_below(a->dir, b->node)))
		return -EINVAL;
	return !swap && b->node && b->node->entries ? -ENOTEMPTY : 0;
}

static void entry_give(struct place *at, struct model_node *n, int64_t now_ns)
{
	entry_add(at->dir, at->name, n);
	model__ctime_raise(n, now_ns);
	if (n->attr.type == META_TYPE_DIR)
		n->parent = at->dir;
	dir_changed(at->dir, now_ns);
}

int model_rename(struct model *fs, const char *from, const char *to, uint32_t flags, int64_t now_ns)
{
	const bool swap = flags & META_EXCHANGE;
	struct place a, b;
	int err = swap && flags & META_EXCL ? -EINVAL : place(fs, from, false, &a);

	if (!err)
		err = place(fs, to, false, &b);
	if (!err)
		err = rename_allowed(&a, &b, flags);
	if (err)
		return err < 0 ? err : 0;
	if (b.node)
		entry_del(b.dir, b.name);
	if (b.node && !swap)
		node_unlink(b.node, now_ns);
	entry_del(a.dir, a.name);
	dir_changed(a.dir, now_ns);
	entry_give(&b, a.node, now_ns);
	if (swap)
		entry_give(&a, b.node, now_ns);
	return 0;
}

int model_link(struct model *fs, const char *from, const char *to, uint32_t flags, int64_t now_ns)
{
	struct place a, b;
	int err = place(fs, from, !(flags & META_NOFOLLOW), &a);

	if (!err)
		err = place(fs, to, false, &b);
	if (err)
		return err;
	if (!a.node)
		return -ENOENT;
	if (b.node)
		return -EEXIST;
	if (a.node->attr.type == META_TYPE_DIR)
		return -EPERM;
	if (b.slash)
		return -ENOENT;
	err = model__may_change(b.dir, NULL);
	if (err)
		return err;
	entry_add(b.dir, b.name, a.node);
	a.node->attr.nlink++;
	model__ctime_raise(a.node, now_ns);
	dir_changed(b.dir, now_ns);
	return 0;
}

int model_setattr(struct model *fs, const char *path, uint32_t flags, const struct model_set *set,
		  int64_t now_ns)
{
	int err;
	struct model_node *n = model_node(fs, path, flags, &err);

	if (n)
		err = model__may_set(n, set);
	if (err)
		return err;
	node_set(n, set);
	model__was_set(n, set);
	model__ctime_raise(n, now_ns);
	return 0;
}

int model_write(struct model *fs, const char *path, uint64_t offset, const void *bytes,
		uint64_t length, int64_t now_ns)
{
	int err;
	struct model_node *n = model_node(fs, path, 0, &err);

	return n ? model_node_write(n, offset, bytes, length, now_ns) : err;
}

int model_truncate(struct model *fs, const char *path, uint64_t size, int64_t now_ns)
{
	int err;
	struct model_node *n = model_node(fs, path, 0, &err);

	return n ? model_node_truncate(n, size, now_ns) : err;
}

struct model_xattr **model__node_xattrs(struct model_node *n)
{
	return &n->xattr;
}

void model__node_changed(struct model_node *n, int64_t now_ns)
{
	model__ctime_raise(n, now_ns);
}

int model_stat(struct model *fs, const char *path, uint32_t flags, struct model_attr *out)
{
	int err;
	struct model_node *n = model_node(fs, path, flags, &err);

	if (n)
		model_node_attr(n, out);
	return err;
}

int64_t model_read(struct model *fs, const char *path, uint64_t offset, void *buf, uint64_t length)
{
	int err;
	struct model_node *n = model_node(fs, path, 0, &err);

	if (n && n->attr.type == META_TYPE_FILE && !model__may(n, "r"))
		return -EACCES;
	return n ? model_node_read(n, offset, buf, length) : err;
}

int64_t model_readlink(struct model *fs, const char *path, char *buf)
{
	int err;
	struct model_node *n = model_node(fs, path, META_NOFOLLOW, &err);

	if (!n)
		return err;
	if (!n->text)
		return -EINVAL;
	memcpy(buf, n->text, n->attr.size + 1);
	return (int64_t)n->attr.size;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void path_add(char *path, const char *name)
{
	const size_t len = strlen(path);
	const bool root = !strcmp(path, "/");

	ASSERT(len + strlen(name) + 2 <= META_PATH_MAX + 1);
	if (!root)
		path[len] = '/';
	memcpy(path + len + !root, name, strlen(name) + 1);
}

struct model_node *model_next(struct model *fs, char *path)
{
	struct model_node *n;
	int err;

	if (!*path) {
		memcpy(path, "/", 2);
		return fs->root;
	}
	n = model_node(fs, path, META_NOFOLLOW, &err);
	ASSERT(n);
	if (n->entries) {
		path_add(path, n->entry[0]->name);
		return n->entry[0]->node;
	}
	while (strcmp(path, "/") != 0) { /* the next in the parent, or in the parent's ... */
		char *slash = strrchr(path, '/');
		char name[META_NAME_MAX + 1];
		uint32_t at;

		memcpy(name, slash + 1, strlen(slash));
		slash[slash == path] = 0;
		n = model_node(fs, path, META_NOFOLLOW, &err);
		ASSERT(n && find(n, name, &at));
		if (at + 1 < n->entries) {
			path_add(path, n->entry[at + 1]->name);
			return n->entry[at + 1]->node;
		}
	}
	return NULL;
}
