/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes, blocks and values of each kind of change. */
#include "test/sim/lend_world.h"

#include "base/num.h"

#include <stdio.h>
#include <string.h>

void lend_bring_put(struct lend_slot *s, uint32_t bytes)
{
	struct meta_op *op = &s->op;

	s->change.bytes = bytes;
	memset(s->bytes, (uint8_t)s->change.tag, bytes);
	op->type = META_OP_PUT;
	op->flags = META_BY_INLINE | META_NOFOLLOW;
	op->inline_buf = s->bytes;
	op->inline_len = bytes;
	op->size = bytes;
}

static bool bring_put_blocks(struct lend_world *w, struct lend_slot *s)
{
	struct meta_op *op = &s->op;
	const uint32_t most = lend_pick(w, 12) ? 6 : w->shape->blocks;

	s->change.blocks = 1 + (uint32_t)lend_pick(w, most);
	if (meta_data_alloc(w->r.m, lend_pick(w, 9), s->change.blocks, s->runs, LEND_RUNS,
			    &op->nruns))
		return false;
	rig_data(&w->r, s->runs, op->nruns, s->change.tag, s->crcs);
	if (w->r.cut) /* in the midst of them */
		return false;
	op->type = META_OP_PUT;
	op->flags = META_NOFOLLOW;
	op->runs = s->runs;
	op->crcs = s->crcs;
	op->nblocks = s->change.blocks;
	op->size = (uint64_t)s->change.blocks * 4096;
	return true;
}

/* A tail is written whole.  One of more than 512 bytes leaves its inode, which is then smaller,
 * and lies beside it: what was one record is many, and a leaf that was full is split. */
static bool bring_grow(struct lend_world *w, struct lend_slot *s)
{
	const struct lend_state *is = &s->change.name->now;
	uint32_t bytes = 500 + (uint32_t)lend_pick(w, lend_pick(w, 8) ? 1000 : 3500);

	if (is->type != LEND_FILE)
		return false;
	bytes = max_u32(bytes, is->end_bytes);
	s->change.bytes = bytes;
	memset(s->bytes, (uint8_t)s->change.tag, bytes);
	s->op.type = META_OP_WRITE;
	s->op.target = (struct meta_target){ .handle = s->change.name->handle };
	s->op.flags = META_BY_INLINE;
	s->op.inline_buf = s->bytes;
	s->op.inline_len = bytes;
	s->op.offset = (uint64_t)is->blocks * 4096;
	s->op.size = s->op.offset + bytes;
	return true;
}

static bool bring_cut(struct lend_world *w, struct lend_slot *s)
{
	const struct lend_state *is = &s->change.name->now;

	if (is->type != LEND_FILE || is->blocks + (is->end_bytes > 0) == 0)
		return false;
	s->change.blocks = (uint32_t)lend_pick(w, is->blocks + (is->end_bytes > 0));
	s->op.type = META_OP_TRUNCATE;
	s->op.flags = META_NOFOLLOW;
	s->op.size = (uint64_t)s->change.blocks * 4096;
	return true;
}

static bool bring_rename(struct lend_world *w, struct lend_slot *s)
{
	struct lend_name *to = lend_name_for(w, s->borrower, LEND_PUT);

	if (!to)
		return false;
	s->change.to = to;
	s->op.type = META_OP_RENAME;
	s->op.other = lend_target(w, to, s->to_path);
	return true;
}

static void bring_symlink(struct lend_world *w, struct lend_slot *s)
{
	s->change.bytes = 1 + (uint32_t)lend_pick(w, lend_pick(w, 3) ? 300 : 4000);
	memset(s->bytes, 'x', s->change.bytes);
	s->op.type = META_OP_SYMLINK;
	s->op.inline_buf = s->bytes;
	s->op.length = s->change.bytes;
}

/* One in three may be long: its record in the log is larger than a borrower can make. */
static void bring_xattr(struct lend_world *w, struct lend_slot *s)
{
	struct meta_op *op = &s->op;

	s->change.xattr = (uint32_t)lend_pick(w, LEND_XATTRS);
	snprintf(s->xattr, sizeof(s->xattr), "user.%u", s->change.xattr);
	op->flags = META_NOFOLLOW;
	op->xattr = s->xattr;
	op->xattr_len = (uint32_t)strlen(s->xattr);
	op->type = META_OP_XATTR_DEL;
	if (s->change.kind == LEND_XATTR_DEL)
		return;
	s->change.bytes = (uint32_t)lend_pick(w, lend_pick(w, 3) ? 300 : w->shape->xattr_bytes);
	memset(s->value, (uint8_t)s->change.tag, s->change.bytes);
	op->type = META_OP_XATTR_SET;
	op->list_out = s->value;
	op->list_used_bytes = s->change.bytes;
}

static void bring_other(struct lend_slot *s)
{
	struct meta_op *op = &s->op;

	switch (s->change.kind) {
	case LEND_UNLINK:
		op->type = META_OP_UNLINK;
		break;
	case LEND_MKDIR:
		op->type = META_OP_MKDIR;
		break;
	case LEND_RMDIR:
		op->type = META_OP_RMDIR;
		break;
	default:
		op->type = META_OP_SETATTR;
		op->flags = META_NOFOLLOW;
		op->set_mask = META_SET_UID;
	}
}

bool lend_bring(struct lend_world *w, struct lend_slot *s)
{
	switch (s->change.kind) {
	case LEND_PUT:
		lend_bring_put(s, (uint32_t)lend_pick(w, META_INLINE_MAX + 1));
		return true;
	case LEND_PUT_BLOCKS:
		return bring_put_blocks(w, s);
	case LEND_GROW:
		return bring_grow(w, s);
	case LEND_CUT:
		return bring_cut(w, s);
	case LEND_RENAME:
		return bring_rename(w, s);
	case LEND_SYMLINK:
		bring_symlink(w, s);
		return true;
	case LEND_XATTR_SET:
	case LEND_XATTR_DEL:
		bring_xattr(w, s);
		return true;
	default:
		bring_other(s);
		return true;
	}
}
