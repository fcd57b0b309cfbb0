/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The operations that a borrower begins, as an appliance's core makes them, with random names. */
#include "test/sim/lend_world.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OWN   300u /* one in this many changes is in any directory */
#define TRIES 3u   /* for a name that exists, or does not */

/* ---- names ----------------------------------------------------------------------------------- */

struct meta_target lend_target(const struct lend_world *w, const struct lend_name *n, char path[16])
{
	const uint32_t all = ARRAY_LEN(w->name[0]), at = (uint32_t)(n - w->name[0]);

	snprintf(path, 16, "%c%u", at % all < LEND_NAMES ? 'f' : 'd', at % all);
	return (struct meta_target){ .dir = w->dir[at / all],
				     .path = path,
				     .path_len = (uint32_t)strlen(path) };
}

static bool begins_there(enum lend_kind kind)
{
	return kind == LEND_PUT || kind == LEND_PUT_BLOCKS || kind == LEND_SYMLINK ||
	       kind == LEND_MKDIR;
}

static struct lend_name *one_of(struct lend_world *w, uint32_t borrower, bool dirs)
{
	const uint32_t own = w->shape->dirs / LEND_BORROWERS;
	const uint32_t dir = lend_pick(w, OWN) ? borrower * own + (uint32_t)lend_pick(w, own)
					       : (uint32_t)lend_pick(w, w->shape->dirs);
	const uint32_t at = dirs ? LEND_NAMES + (uint32_t)lend_pick(w, LEND_SUBDIRS)
				 : (uint32_t)lend_pick(w, w->shape->names);

	return &w->name[dir][at];
}

struct lend_name *lend_name_for(struct lend_world *w, uint32_t borrower, enum lend_kind kind)
{
	const bool dirs = kind == LEND_MKDIR || kind == LEND_RMDIR;
	struct lend_name *n = one_of(w, borrower, dirs);

	for (uint32_t i = 0; i < TRIES; i++) {
		if (!n->busy && (n->now.type != LEND_NONE || begins_there(kind)))
			break;
		n = one_of(w, borrower, dirs);
	}
	return n->busy ? NULL : n;
}

/* ---- one begins ------------------------------------------------------------------------------ */

static void begin(struct lend_world *w, struct lend_slot *s, enum lend_kind kind,
		  struct lend_name *n)
{
	const uint64_t tag = ++w->tag;

	memset(&s->op, 0, sizeof(s->op));
	s->change = (struct lend_change){ .kind = kind, .tag = tag, .name = n };
	s->op.owner = s;
	s->op.wall_ns = (int64_t)tag;
	s->op.target = lend_target(w, n, s->path);
	s->op.set_mask = META_SET_MTIME | META_SET_UID;
	s->op.set.mtime_ns = (int64_t)tag;
	s->op.set.uid = (uint32_t)tag;
	s->is_made = s->saw_after = false;
	s->forgotten = meta_clients_forgotten(w->r.m);
}

/* Returns a name to look at, mostly one that a borrower is changing. */
static struct lend_name *name_to_see(struct lend_world *w, uint32_t borrower)
{
	const uint32_t by = lend_pick(w, 3) ? borrower : (uint32_t)lend_pick(w, LEND_BORROWERS);
	const struct lend_slot *s = &w->slot[by][lend_pick(w, LEND_SLOTS)];

	if (s->stage == LEND_FREE || s->change.kind == LEND_LOOK || lend_pick(w, 4) == 0)
		return one_of(w, borrower, false);
	return s->change.name;
}

static enum lend_kind any_kind(struct lend_world *w)
{
	uint32_t all = 0, kind = 0;
	uint64_t at;

	for (uint32_t i = 0; i < LEND_KINDS; i++)
		all += w->shape->weight[i];
	at = lend_pick(w, all);
	for (; at >= w->shape->weight[kind]; kind++)
		at -= w->shape->weight[kind];
	return (enum lend_kind)kind;
}

/* Some may be asked for again: these leave receipts. */
static void with_receipt(struct lend_world *w, struct lend_slot *s)
{
	if (lend_pick(w, 3) == 0)
		s->op.receipt = (struct meta_receipt_id){ .client = LEND_CLIENT + s->borrower,
							  .number = s->change.tag,
							  .slot = (uint16_t)s->number };
}

bool lend_ask(struct lend_world *w, struct lend_slot *s)
{
	const enum lend_kind kind = any_kind(w);
	struct lend_name *n;

	if (kind == LEND_LOOK) {
		lend_ask_look(w, s, name_to_see(w, s->borrower));
		return true;
	}
	n = lend_name_for(w, s->borrower, kind);
	if (!n)
		return false;
	begin(w, s, kind, n);
	with_receipt(w, s);
	if (!lend_bring(w, s))
		return false;
	lend_model_begin(&s->change);
	w->seen.begun++;
	w->seen.long_xattrs += kind == LEND_XATTR_SET && s->change.bytes > 20000;
	return true;
}

void lend_ask_put(struct lend_world *w, struct lend_slot *s, struct lend_name *n, uint32_t bytes)
{
	begin(w, s, LEND_PUT, n);
	lend_bring_put(s, bytes);
	lend_model_begin(&s->change);
}

void lend_ask_look(struct lend_world *w, struct lend_slot *s, struct lend_name *n)
{
	begin(w, s, LEND_LOOK, n);
	s->op.type = META_OP_READ;
	s->op.flags = META_NOFOLLOW;
	s->op.length = (LEND_BLOCKS + 1) * 4096;
	s->op.runs = s->runs;
	s->op.crcs = s->crcs;
	s->op.runs_max = LEND_RUNS;
	s->op.blocks_max = LEND_BLOCKS + 1;
	s->op.inline_buf = s->bytes;
}
