/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The store, compared with what all were told. */
#include "test/sim/lend_world.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/* Nobody's: with buffers of its own, so that what is under way keeps what it has. */
static struct lend_slot asks;

static void look(struct lend_world *w, struct lend_name *n)
{
	lend_ask_look(w, &asks, n);
	asks.op.owner = NULL;
	(void)rig_run(&w->r, &asks.op);
	meta_read_end(w->r.m, &asks.op);
}

/* ---- what was under way ---------------------------------------------------------------------- */

struct fit {
	bool now, after;
};

/* The look stands: it may be compared with more. */
static struct fit fit_of(struct lend_world *w, struct lend_name *n)
{
	look(w, n);
	return (struct fit){ lend_state_is(&w->r, &n->now, &asks.op),
			     lend_state_is(&w->r, &n->after, &asks.op) };
}

/* Asks for the receipt of a change, like a client that repeats it in a later session. */
static int recall(struct lend_world *w, const struct lend_slot *s, const struct lend_receipt *r)
{
	struct meta_op op = {
		.type = META_OP_RECALL,
		.receipt = { .client = LEND_CLIENT + s->borrower,
			     .number = r->number,
			     .slot = (uint16_t)s->number,
			     .sure = true,
			     .forgotten = r->forgotten },
	};

	return rig_run(&w->r, &op);
}

/* A change must be there if and only if its receipt is. */
static void receipt_is(struct lend_world *w, const struct lend_slot *s, struct fit f)
{
	struct lend_receipt *r = &w->receipt[s->borrower][s->number];
	const struct lend_receipt is = { s->change.tag, s->forgotten };

	if (!s->op.receipt.client || s->change.want)
		return;
	if (f.now && f.after) /* a file was given its own name: who knows? */
		r->number = 0;
	else if (s->forgotten == meta_clients_forgotten(w->r.m) &&
		 (recall(w, s, &is) == 0) != f.after)
		lend_wrong(w, "%s: change %llu is %sthere, its receipt is not so", s->path,
			   (unsigned long long)s->change.tag, f.after ? "" : "not ");
	if (!f.now)
		*r = is;
}

/* Only changes that the store has heard of may be there; those that it said are over must be. */
static void settle(struct lend_world *w, struct lend_slot *s)
{
	struct lend_change *c = &s->change;
	struct fit f = fit_of(w, c->name);
	bool seen = c->name->seen;

	if (s->stage == LEND_BACK && s->op.status != c->want && s->op.status != -EROFS)
		f.after = false;
	if (c->to) {
		const struct fit other = fit_of(w, c->to);

		f.now &= other.now;
		f.after &= other.after;
		seen |= c->to->seen;
	}
	if (!f.now && !f.after)
		lend_wrong(w, "%s: kind %d is half there", s->path, (int)c->kind);
	else if (!f.after && seen)
		lend_wrong(w, "%s: kind %d had been seen, and is gone", s->path, (int)c->kind);
	else if (!f.after && s->stage == LEND_BACK && s->op.status == 0)
		lend_wrong(w, "%s: kind %d is durable, and gone", s->path, (int)c->kind);
	else if (!f.now && s->stage < LEND_STORE)
		lend_wrong(w, "%s: kind %d is there unheard of", s->path, (int)c->kind);
	w->seen.seen_kept += seen;
	receipt_is(w, s, f);
	lend_model_end(c, !f.now, NULL);
}

static bool is_change(const struct lend_slot *s)
{
	return s->stage != LEND_FREE && s->change.kind != LEND_LOOK;
}

void lend_verify_settle(struct lend_world *w)
{
	lend_cores_leave(w);
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		for (uint32_t k = 0; k < LEND_SLOTS && !w->wrong; k++)
			if (is_change(&w->slot[i][k]))
				settle(w, &w->slot[i][k]);
	lend_cores_forget(w);
	lend_cores_enter(w);
}

/* ---- everything ------------------------------------------------------------------------------ */

static void xattr_is(struct lend_world *w, const struct lend_name *n, uint32_t i)
{
	char path[16], name[] = { 'u', 's', 'e', 'r', '.', (char)('0' + i), 0 };
	struct meta_op op = {
		.type = META_OP_XATTR_GET,
		.flags = META_NOFOLLOW,
		.target = lend_target(w, n, path),
		.xattr = name,
		.xattr_len = sizeof(name) - 1,
		.list_out = asks.value,
		.list_max_bytes = sizeof(asks.value),
	};
	const int err = rig_run(&w->r, &op);
	bool good = !err && op.list_used_bytes == n->now.xattr[i].bytes;

	for (uint32_t k = 0; good && k < op.list_used_bytes; k++)
		good = asks.value[k] == (uint8_t)n->now.xattr[i].tag;
	if (!good)
		lend_wrong(w, "%s: %s has %u bytes of %u, and is not what was set (%d)", path, name,
			   op.list_used_bytes, n->now.xattr[i].bytes, err);
}

static void name_is(struct lend_world *w, struct lend_name *n)
{
	ASSERT(!n->busy);
	look(w, n);
	if (!lend_state_is(&w->r, &n->now, &asks.op)) {
		lend_wrong(w, "%s: is not what was acknowledged: %d, mtime %lld, not %llu",
			   asks.path, asks.op.status, (long long)asks.op.attr.mtime_ns,
			   (unsigned long long)n->now.tag);
		return;
	}
	if (asks.op.status == 0)
		n->handle = asks.op.attr.handle;
	for (uint32_t i = 0; i < LEND_XATTRS && n->now.type == LEND_FILE; i++)
		if (n->now.xattr[i].tag)
			xattr_is(w, n, i);
}

/* A store that has no room for them forgets whose they are, and says so: it never says that one was
 * not made. */
static bool is_known(struct lend_world *w, const struct lend_slot *s, const struct lend_receipt *r)
{
	const int status = recall(w, s, r);

	return status == 0 ||
	       (status == -ECONNRESET && r->forgotten != meta_clients_forgotten(w->r.m));
}

static void receipts_are(struct lend_world *w)
{
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		for (uint32_t k = 0; k < LEND_SLOTS; k++)
			if (w->receipt[i][k].number &&
			    !is_known(w, &w->slot[i][k], &w->receipt[i][k]))
				lend_wrong(w, "the receipt of change %llu is gone",
					   (unsigned long long)w->receipt[i][k].number);
}

void lend_verify(struct lend_world *w, const char *when)
{
	static struct meta_check check;

	if (w->wrong)
		return;
	lend_cores_leave(w);
	if (rig_check(&w->r, &check))
		lend_wrong(w, "check %s: %s", when, check.first[0]);
	for (uint32_t d = 0; d < w->shape->dirs && !w->wrong; d++) {
		for (uint32_t n = 0; n < w->shape->names && !w->wrong; n++)
			name_is(w, &w->name[d][n]);
		for (uint32_t n = 0; n < LEND_SUBDIRS && !w->wrong; n++)
			name_is(w, &w->name[d][LEND_NAMES + n]);
	}
	receipts_are(w);
	lend_cores_enter(w);
}
