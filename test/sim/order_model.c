/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/order_model.h"
#include "base/assert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINKS_MAX 40 /* PROTOCOL.md, names */
#define DEPTH_MAX 64

const char *const order_kind_names[ORDER_KINDS] = {
	"put",    "mkdir", "symlink",   "unlink", "rmdir",    "rename", "link",
	"rmtree", "stat",  "stat node", "read",   "readlink", "list",
};

/* Where a path leads: to a name, free or not, or to a directory as such ("..", "/"). */
struct place {
	bool is_name, dotdot;
	uint32_t dir, node; /* ORDER_NONE: free */
	char name[4];
};

void order_model_begin(struct order_model *m)
{
	memset(m, 0, sizeof(*m));
	m->node[ORDER_ROOT] = (struct order_node){ .type = ORDER_DIR, .parent = ORDER_ROOT };
	m->nodes = 1;
}

bool order_model_has_room(const struct order_model *m, uint32_t more)
{
	return m->nodes + more <= ORDER_NODES && m->entries + more <= ORDER_ENTRIES;
}

/* ---- entries -------------------------------------------------------------------------------- */

static uint32_t find(const struct order_model *m, uint32_t dir, const char *name)
{
	for (uint32_t i = 0; i < m->entries; i++)
		if (m->entry[i].dir == dir && strcmp(m->entry[i].name, name) == 0)
			return i;
	return ORDER_NONE;
}

const struct order_entry *order_model_entry(const struct order_model *m, uint32_t dir,
					    const char *name)
{
	uint32_t i = find(m, dir, name);

	return i == ORDER_NONE ? NULL : &m->entry[i];
}

uint32_t order_model_count(const struct order_model *m, uint32_t dir)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < m->entries; i++)
		count += m->entry[i].dir == dir;
	return count;
}

static void name_set(struct order_model *m, uint32_t dir, const char *name, uint32_t node)
{
	uint32_t i = find(m, dir, name);

	if (i == ORDER_NONE) {
		ASSERT(m->entries < ORDER_ENTRIES);
		i = m->entries++;
		m->entry[i] = (struct order_entry){ .dir = dir, .born = m->moment };
		snprintf(m->entry[i].name, sizeof(m->entry[i].name), "%s", name);
	}
	m->entry[i].node = node;
	if (m->node[node].type == ORDER_DIR)
		m->node[node].parent = dir;
}

static void name_del(struct order_model *m, uint32_t dir, const char *name)
{
	uint32_t i = find(m, dir, name);

	ASSERT(i != ORDER_NONE);
	m->entry[i] = m->entry[--m->entries];
}

static void name_less(struct order_model *m, uint32_t node)
{
	struct order_node *n = &m->node[node];

	n->gone = n->type == ORDER_DIR || --n->names == 0;
}

static uint32_t node_new(struct order_model *m, enum order_type type)
{
	ASSERT(m->nodes < ORDER_NODES);
	m->node[m->nodes] = (struct order_node){ .type = type, .names = 1 };
	return m->nodes++;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static int walk(const struct order_model *m, uint32_t dir, const char *path, bool follow,
		struct place *at)
{
	char left[LINKS_MAX * ORDER_PATH + ORDER_PATH], rest[sizeof(left)];
	int links = 0;

	snprintf(left, sizeof(left), "%s", path);
	*at = (struct place){ .node = ORDER_NONE };
	if (left[0] == '/')
		dir = ORDER_ROOT;
	for (const char *p = left + (left[0] == '/'); *p;) {
		size_t len = strcspn(p, "/");
		const bool slash = p[len] == '/';
		uint32_t i;

		ASSERT(len > 0 && len < sizeof(at->name));
		memcpy(at->name, p, len);
		at->name[len] = 0;
		p += len + slash;
		if (strcmp(at->name, ".") == 0 || strcmp(at->name, "..") == 0) {
			if (m->node[dir].gone)
				return -ENOENT;
			at->dotdot = at->name[1] == '.';
			dir = at->dotdot ? m->node[dir].parent : dir;
			continue;
		}
		i = find(m, dir, at->name);
		at->dir = dir;
		at->node = i == ORDER_NONE ? ORDER_NONE : m->entry[i].node;
		if (at->node != ORDER_NONE && m->node[at->node].type == ORDER_LINK &&
		    (slash || follow)) {
			if (++links > LINKS_MAX)
				return -ELOOP;
			snprintf(rest, sizeof(rest), "%s%s%s", m->node[at->node].target,
				 slash ? "/" : "", p);
			memcpy(left, rest, sizeof(left));
			p = left + (left[0] == '/');
			dir = left[0] == '/' ? ORDER_ROOT : dir;
			at->dotdot = false;
			continue;
		}
		if (!*p) {
			at->is_name = true;
			/* Nothing is made in a directory that is gone. */
			return at->node == ORDER_NONE && m->node[dir].gone ? -ENOENT : 0;
		}
		if (at->node == ORDER_NONE)
			return -ENOENT;
		if (m->node[at->node].type != ORDER_DIR)
			return -ENOTDIR;
		dir = at->node;
	}
	at->dir = at->node = dir;
	return m->node[dir].gone ? -ENOENT : 0;
}

static bool is_dir(const struct order_model *m, uint32_t node)
{
	return m->node[node].type == ORDER_DIR;
}

/* ---- what is made ------------------------------------------------------------------------ */

static int do_put(struct order_model *m, const struct order_op *op, uint32_t *node)
{
	struct place at;
	int rc = walk(m, op->dir, op->path, !op->nofollow && !op->excl, &at);

	if (rc)
		return rc;
	if (op->excl && at.node != ORDER_NONE)
		return -EEXIST;
	if (!at.is_name || (at.node != ORDER_NONE && is_dir(m, at.node)))
		return -EISDIR;
	if (at.node != ORDER_NONE)
		name_less(m, at.node);
	*node = node_new(m, ORDER_FILE);
	m->node[*node].content = op->content;
	name_set(m, at.dir, at.name, *node);
	return 0;
}

static int do_make(struct order_model *m, const struct order_op *op, uint32_t *node)
{
	struct place at;
	int rc = walk(m, op->dir, op->path, false, &at);

	if (rc)
		return rc;
	if (at.node != ORDER_NONE)
		return -EEXIST;
	*node = node_new(m, op->kind == ORDER_MKDIR ? ORDER_DIR : ORDER_LINK);
	memcpy(m->node[*node].target, op->target, ORDER_PATH);
	name_set(m, at.dir, at.name, *node);
	return 0;
}

static int do_link(struct order_model *m, const struct order_op *op, uint32_t *node)
{
	struct place a, b;
	int rc = walk(m, op->dir, op->path, !op->nofollow, &a);

	if (!rc)
		rc = walk(m, op->dir, op->other, false, &b);
	if (rc)
		return rc;
	if (a.node == ORDER_NONE)
		return -ENOENT;
	if (b.node != ORDER_NONE)
		return -EEXIST;
	if (is_dir(m, a.node))
		return -EPERM;
	m->node[a.node].names++;
	name_set(m, b.dir, b.name, a.node);
	*node = a.node;
	return 0;
}

/* ---- what is removed ---------------------------------------------------------------------- */

static int do_unlink(struct order_model *m, const struct order_op *op)
{
	struct place at;
	int rc = walk(m, op->dir, op->path, false, &at);

	if (rc)
		return rc;
	if (at.node == ORDER_NONE)
		return -ENOENT;
	if (is_dir(m, at.node))
		return -EISDIR;
	name_less(m, at.node);
	name_del(m, at.dir, at.name);
	return 0;
}

static int do_rmdir(struct order_model *m, const struct order_op *op)
{
	struct place at;
	int rc = walk(m, op->dir, op->path, false, &at);

	if (rc)
		return rc;
	if (!at.is_name)
		return at.dotdot && op->kind == ORDER_RMDIR ? -ENOTEMPTY : -EINVAL;
	if (at.node == ORDER_NONE)
		return -ENOENT;
	if (!is_dir(m, at.node))
		return -ENOTDIR;
	if (order_model_count(m, at.node) > 0)
		return -ENOTEMPTY;
	name_less(m, at.node);
	name_del(m, at.dir, at.name);
	return 0;
}

/* Removes all names in the tree. */
static void empty(struct order_model *m, uint32_t dir)
{
	m->node[dir].with_tree = true;
	for (uint32_t i = 0; i < m->entries;) {
		const struct order_entry e = m->entry[i];

		if (!m->node[e.dir].with_tree) {
			i++;
			continue;
		}
		m->entry[i] = m->entry[--m->entries];
		name_less(m, e.node);
		m->node[e.node].names_late++;
		m->node[e.node].with_tree = m->node[e.node].gone;
		i = 0; /* of this directory, too */
	}
	m->node[dir].top = true;
}

static int do_rmtree(struct order_model *m, const struct order_op *op)
{
	struct place at;
	int rc = walk(m, op->dir, op->path, false, &at);

	if (rc)
		return rc;
	if (!at.is_name)
		return -EINVAL;
	if (at.node == ORDER_NONE)
		return -ENOENT;
	if (!is_dir(m, at.node))
		return -ENOTDIR;
	name_del(m, at.dir, at.name);
	name_less(m, at.node);
	empty(m, at.node);
	return 0;
}

/* ---- rename ---------------------------------------------------------------------------------- */

static int no_cycle(const struct order_model *m, uint32_t node, uint32_t from, uint32_t to)
{
	if (!is_dir(m, node) || from == to)
		return 0;
	for (; to != node; to = m->node[to].parent)
		if (to == ORDER_ROOT)
			return 0;
	return -EINVAL;
}

/* 1: both are one file. */
static int may_rename(const struct order_model *m, const struct order_op *op, const struct place *a,
		      const struct place *b)
{
	int rc;

	if (!a->is_name || !b->is_name)
		return -EINVAL;
	if (a->node == ORDER_NONE || (b->node == ORDER_NONE && op->exchange))
		return -ENOENT;
	if (b->node != ORDER_NONE && op->excl)
		return -EEXIST;
	if (b->node == a->node)
		return 1;
	if (b->node != ORDER_NONE && !op->exchange && is_dir(m, a->node) != is_dir(m, b->node))
		return is_dir(m, a->node) ? -ENOTDIR : -EISDIR;
	rc = no_cycle(m, a->node, a->dir, b->dir);
	if (!rc && op->exchange)
		rc = no_cycle(m, b->node, b->dir, a->dir);
	if (!rc && b->node != ORDER_NONE && !op->exchange && is_dir(m, b->node) &&
	    order_model_count(m, b->node) > 0)
		rc = -ENOTEMPTY;
	return rc;
}

static int do_rename(struct order_model *m, const struct order_op *op)
{
	struct place a, b;
	int rc = walk(m, op->dir, op->path, false, &a);

	if (!rc)
		rc = walk(m, op->dir, op->other, false, &b);
	if (!rc)
		rc = may_rename(m, op, &a, &b);
	if (rc)
		return rc < 0 ? rc : 0;
	if (op->exchange) {
		name_set(m, a.dir, a.name, b.node);
	} else {
		if (b.node != ORDER_NONE)
			name_less(m, b.node);
		name_del(m, a.dir, a.name);
	}
	name_set(m, b.dir, b.name, a.node);
	return 0;
}

/* ---- what is looked at ----------------------------------------------------------------------- */

static int do_look(const struct order_model *m, const struct order_op *op, uint32_t *node)
{
	struct place at;
	int rc = walk(m, op->dir, op->path, !op->nofollow, &at);

	if (rc)
		return rc;
	if (at.node == ORDER_NONE)
		return -ENOENT;
	if (op->kind == ORDER_READLINK && m->node[at.node].type != ORDER_LINK)
		return -EINVAL;
	if (op->kind == ORDER_READ && is_dir(m, at.node))
		return -EISDIR;
	*node = at.node;
	return 0;
}

static int do_node(const struct order_model *m, const struct order_op *op, uint32_t *node)
{
	*node = op->node;
	return m->node[op->node].gone ? -ESTALE : 0;
}

int order_model_do(struct order_model *m, const struct order_op *op, uint32_t *node)
{
	*node = ORDER_NONE;
	m->moment++;
	switch (op->kind) {
	case ORDER_PUT:
		return do_put(m, op, node);
	case ORDER_MKDIR:
	case ORDER_SYMLINK:
		return do_make(m, op, node);
	case ORDER_UNLINK:
		return do_unlink(m, op);
	case ORDER_RMDIR:
		return do_rmdir(m, op);
	case ORDER_RENAME:
		return do_rename(m, op);
	case ORDER_GIVE_LINK:
		return do_link(m, op, node);
	case ORDER_RMTREE:
		return do_rmtree(m, op);
	case ORDER_STAT:
	case ORDER_READ:
	case ORDER_READLINK:
		return do_look(m, op, node);
	default:
		return do_node(m, op, node);
	}
}
