/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/lend_model.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/* ---- what a change makes of a name ---------------------------------------------------------- */

static void put(const struct lend_change *c, struct lend_state *s)
{
	*s = (struct lend_state){
		.type = c->kind == LEND_SYMLINK ? LEND_LINK
			: c->kind == LEND_MKDIR ? LEND_DIR
						: LEND_FILE,
		.tag = c->tag,
		.changed = c->tag,
		.blocks = c->blocks,
		.content = c->tag,
		.end_bytes = c->bytes,
		.end = c->tag,
		.uid = (uint32_t)c->tag,
	};
}

static int put_if_free(const struct lend_change *c, struct lend_state *s)
{
	if (s->type != LEND_NONE)
		return -EEXIST;
	put(c, s);
	return 0;
}

static int grow(const struct lend_change *c, struct lend_state *s)
{
	ASSERT(s->type == LEND_FILE && c->bytes >= s->end_bytes);
	s->tag = s->changed = s->end = c->tag;
	s->end_bytes = c->bytes;
	return 0;
}

static int cut(const struct lend_change *c, struct lend_state *s)
{
	ASSERT(s->type == LEND_FILE && c->blocks <= s->blocks);
	s->tag = s->changed = c->tag;
	s->blocks = c->blocks;
	s->end_bytes = 0;
	return 0;
}

static int clear(struct lend_state *s)
{
	if (s->type == LEND_NONE)
		return -ENOENT;
	*s = (struct lend_state){ .type = LEND_NONE };
	return 0;
}

static int set(const struct lend_change *c, struct lend_state *s)
{
	const bool has = s->xattr[c->xattr].tag != 0;

	if (s->type == LEND_NONE)
		return -ENOENT;
	if (c->kind != LEND_SETATTR && s->type == LEND_LINK)
		return -EPERM;
	if (c->kind == LEND_XATTR_DEL && !has)
		return -ENODATA;
	s->changed = c->tag;
	if (c->kind == LEND_SETATTR) {
		s->uid = (uint32_t)c->tag;
		return 0;
	}
	s->xattr[c->xattr].tag = c->kind == LEND_XATTR_SET ? c->tag : 0;
	s->xattr[c->xattr].bytes = c->bytes;
	return 0;
}

static int rename_to(const struct lend_change *c)
{
	struct lend_name *from = c->name, *to = c->to;

	if (from->now.type == LEND_NONE)
		return -ENOENT;
	if (from == to)
		return 0;
	to->after = from->now;
	to->after.changed = c->tag;
	return clear(&from->after);
}

static int made_of(struct lend_change *c)
{
	struct lend_state *s = &c->name->after;

	switch (c->kind) {
	case LEND_PUT:
	case LEND_PUT_BLOCKS:
		put(c, s);
		return 0;
	case LEND_GROW:
		return grow(c, s);
	case LEND_CUT:
		return cut(c, s);
	case LEND_UNLINK:
	case LEND_RMDIR:
		return clear(s);
	case LEND_RENAME:
		return rename_to(c);
	case LEND_SYMLINK:
	case LEND_MKDIR:
		return put_if_free(c, s);
	case LEND_SETATTR:
	case LEND_XATTR_SET:
	case LEND_XATTR_DEL:
		return set(c, s);
	case LEND_LOOK:
	case LEND_KINDS:
		break;
	}
	UNREACHABLE();
}

/* ---- begin, end ------------------------------------------------------------------------------ */

static void name_begin(struct lend_name *n)
{
	n->after = n->now;
	n->busy = true;
	n->seen = false;
	n->versions++;
}

void lend_model_begin(struct lend_change *c)
{
	ASSERT(!c->name->busy && !(c->to && c->to->busy));
	name_begin(c->name);
	if (c->to && c->to != c->name)
		name_begin(c->to);
	c->want = made_of(c);
}

static void name_end(struct lend_name *n, bool made)
{
	if (made)
		n->now = n->after;
	n->busy = n->seen = false;
	n->versions++;
}

void lend_model_end(struct lend_change *c, bool made, const struct meta_handle *handle)
{
	const struct meta_handle moved = c->name->handle;

	name_end(c->name, made);
	if (made && handle)
		c->name->handle = *handle;
	if (!c->to || c->to == c->name)
		return;
	name_end(c->to, made);
	if (made)
		c->to->handle = moved;
}

/* A store that is full, or whose zones are too small for one record, says so; removing works. */
bool lend_model_may_fail(const struct lend_change *c, int status)
{
	switch (c->kind) {
	case LEND_UNLINK:
	case LEND_RMDIR:
	case LEND_CUT:
	case LEND_XATTR_DEL:
		return false;
	case LEND_XATTR_SET:
		return status == -ENOSPC || status == -E2BIG;
	default:
		return status == -ENOSPC || status == -EFBIG;
	}
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool blocks_are(struct rig *r, const struct lend_state *s, const struct meta_op *op)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < op->nruns; i++)
		for (uint32_t k = 0; k < op->runs[i].nblocks; k++, at++)
			if (at < s->blocks &&
			    !rig_is_data(r, op->runs[i].baddr + k, s->content, at, op->crcs[at]))
				return false;
	return op->nblocks == s->blocks + (s->end_bytes > 0) || op->nruns == op->runs_max;
}

static bool end_is(const struct lend_state *s, const struct meta_op *op)
{
	const uint8_t *bytes = op->inline_buf;

	if (op->nruns == op->runs_max)
		return true; /* it does not come so far */
	for (uint32_t i = 0; i < s->end_bytes; i++)
		if (bytes[i] != (uint8_t)s->end)
			return false;
	return op->inline_len == s->end_bytes && (s->end_bytes == 0 || op->inline_at == s->blocks);
}

static bool file_is(struct rig *r, const struct lend_state *s, const struct meta_op *op)
{
	uint32_t xattrs = 0;

	for (uint32_t i = 0; i < LEND_XATTRS; i++)
		xattrs += s->xattr[i].tag != 0;
	return (uint64_t)op->attr.mtime_ns == s->tag && (uint64_t)op->attr.ctime_ns == s->changed &&
	       op->attr.uid == s->uid && op->attr.xattrs == xattrs &&
	       op->attr.size == (uint64_t)s->blocks * 4096 + s->end_bytes && blocks_are(r, s, op) &&
	       end_is(s, op);
}

bool lend_state_is(struct rig *r, const struct lend_state *s, const struct meta_op *op)
{
	switch (s->type) {
	case LEND_NONE:
		return op->status == -ENOENT;
	case LEND_LINK:
		return op->status == -ELOOP;
	case LEND_DIR:
		return op->status == -EISDIR;
	case LEND_FILE:
		break;
	}
	return op->status == 0 && file_is(r, s, op);
}
