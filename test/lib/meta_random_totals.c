/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Totals of whole trees, compared with sums over all files.  The store chooses the name at which a
 * file counts: a file that also has names outside of a tree may be counted in it, or not.
 */
#include "test/lib/meta_random_internal.h"

#define LINKED_MAX 512u /* files with several names, with a name in one tree */

struct linked {
	uint64_t id;
	uint32_t names;
};

struct sum {
	struct meta_totals least, most;
	struct linked linked[LINKED_MAX];
	uint32_t nlinked;
};

/* One name more of it was met: how many so far. */
static uint32_t names_met(struct sum *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->nlinked; i++)
		if (s->linked[i].id == id)
			return ++s->linked[i].names;
	ASSERT(s->nlinked < LINKED_MAX);
	s->linked[s->nlinked++] = (struct linked){ id, 1 };
	return 1;
}

static void add(struct meta_totals *to, const struct meta_attr *a)
{
	to->bytes += a->size;
	to->blocks += a->blocks;
}

static void add_node(struct meta_random *r, struct sum *s, const char *path, struct model_node *n)
{
	struct meta_op op = op_new(r, META_OP_STAT, path);
	struct model_attr a;
	uint32_t met;

	model_node_attr(n, &a);
	s->least.entries++;
	if (a.type == META_TYPE_DIR) {
		s->least.dirs++;
		return;
	}
	op.flags = META_NOFOLLOW;
	SAME(r, path, run(r, &op), 0);
	met = a.nlink > 1 ? names_met(s, a.id) : 1;
	if (met == a.nlink)
		add(&s->least, &op.attr);
	if (met == 1)
		add(&s->most, &op.attr);
}

static bool is_below(const char *path, const char *dir)
{
	const size_t len = strcmp(dir, "/") ? strlen(dir) : 0;

	return strncmp(path, dir, len) == 0 && path[len] == '/' && path[len + 1];
}

static void compare(struct meta_random *r, const char *dir)
{
	static struct sum s;
	struct meta_totals t;
	struct meta_op op = op_new(r, META_OP_TOTALS, dir);
	char path[META_PATH_MAX + 1] = "";
	struct model_node *n;

	s = (struct sum){ .nlinked = 0 };
	while ((n = model_next(r->fs, path)))
		if (is_below(path, dir))
			add_node(r, &s, path, n);
	op.totals = &t;
	SAME(r, dir, run(r, &op), 0);
	SAME(r, dir, t.settled, true);
	SAME(r, dir, t.entries, s.least.entries);
	SAME(r, dir, t.dirs, s.least.dirs);
	SAME(r, dir, t.bytes < s.least.bytes ? s.least.bytes : t.bytes, t.bytes);
	SAME(r, dir, t.bytes > s.most.bytes ? s.most.bytes : t.bytes, t.bytes);
	SAME(r, dir, t.blocks < s.least.blocks ? s.least.blocks : t.blocks, t.blocks);
	SAME(r, dir, t.blocks > s.most.blocks ? s.most.blocks : t.blocks, t.blocks);
}

void meta_random__compare_totals(struct meta_random *r)
{
	char path[META_PATH_MAX + 1] = "";
	struct model_node *n;

	meta_world_settle(r->w);
	while ((n = model_next(r->fs, path))) {
		struct model_attr a;

		model_node_attr(n, &a);
		if (a.type == META_TYPE_DIR)
			compare(r, path);
	}
}
