/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The check's last question: is a name both in a spread directory and in a fragment of it?
 *
 *   the walk       DIR {d}, spread                       --> d is remembered
 *   after it       of each d:  NAME {d, h}, a few a plan --> and is one in the fragment of h?
 *
 * Names in the directory itself are older than its spreading (meta_spread.c (2)): at most a few
 * thousand.  So the number of lookups is small, however many names are in its fragments.
 */
#include "meta/check/meta_check.h"
#include "meta/plans/meta_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool meta__check_is_duplicate(struct meta__checker *c, const struct meta_key *key,
			      const struct meta__name *n)
{
	bool same = meta__key_dir(&c->name_key) == meta__key_dir(key) &&
		    meta__key_hash(&c->name_key) == meta__key_hash(key) && c->name_len == n->len &&
		    memcmp(c->name, n->bytes, n->len) == 0;

	ASSERT(n->len <= sizeof(c->name));
	ASSERT(c->name_len <= sizeof(c->name));
	c->name_key = *key;
	c->name_len = n->len;
	memcpy(c->name, n->bytes, n->len);
	return same;
}

void meta__duplicate_remember(struct meta__checker *c, uint64_t dir)
{
	struct meta__duplicate *t = &c->duplicate;
	uint64_t *more;

	ASSERT(t->count <= t->room);
	ASSERT(!t->busy);
	if (t->count == t->room) {
		more = realloc(t->dir, (2 * t->room + 64) * sizeof(*t->dir));
		t->lost |= !more;
		if (!more)
			return;
		t->dir = more;
		t->room = 2 * t->room + 64;
	}
	t->dir[t->count++] = dir;
	ASSERT(t->count <= t->room);
}

void meta__duplicate_forget(struct meta__checker *c)
{
	ASSERT(!c->duplicate.busy);
	free(c->duplicate.dir);
	c->duplicate = (struct meta__duplicate){ 0 };
}

void meta__duplicate_op_done(struct meta *m, struct meta_op *op)
{
	struct meta__checker *c = m->checker;
	struct meta__duplicate *t = &c->duplicate;
	const unsigned long long dir = op->keeps.duplicate.dir;

	ASSERT(t->busy && op == &t->op);
	t->busy = false;
	if (!c->stage) /* the store failed during the check, which ended */
		return;
	if (op->status)
		meta__problem(m, "directory %llx: its names cannot be looked for in its parts: %s",
			      dir, strerror(-op->status));
	else if (op->keeps.duplicate.found)
		meta__problem(m, "directory %llx has a name twice, in itself and in a part: %.*s",
			      dir, (int)op->inline_len, c->name);
	memcpy(&t->from, op->keeps.duplicate.key, sizeof(t->from));
	t->begun = !op->status && !op->keeps.duplicate.over;
	t->at += !t->begun;
	ASSERT(t->at <= t->count);
}

int meta__check_duplicates(struct meta *m)
{
	struct meta__duplicate *t = &m->checker->duplicate;

	ASSERT(t->at <= t->count);
	if (t->busy)
		return -EAGAIN;
	if (t->lost)
		return -ENOMEM;
	if (t->at == t->count)
		return -EALREADY;
	t->op = (struct meta_op){ .type = (enum meta_op_type)META__OP_DUPLICATE };
	if (!t->begun)
		t->from = meta__key(t->dir[t->at], 0, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	t->op.keeps.duplicate.dir = t->dir[t->at];
	memcpy(t->op.keeps.duplicate.key, &t->from, sizeof(t->from));
	t->op.inline_buf = m->checker->name;
	t->busy = true;
	if (meta_op_start(m, &t->op))
		meta__duplicate_op_done(m, &t->op);
	return 0;
}
