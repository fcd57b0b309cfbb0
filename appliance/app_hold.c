/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that clients have open.  The store counts holds by file (meta_hold.c); here stands which
 * connection has them, so that each ends.
 *
 *   OPEN with HOLD, HOLD:  free --> op's --the store has it--> its session's --LET_GO--> free
 *                                    | the request failed        | the session closed
 *                                    v                           v
 *                                 LINGERING, until now        LINGERING, for LINGER_NS
 *                                    `--an operation is free--> the store lets it go --> free
 *
 * A connection that breaks is mostly one that comes again, and asks for what it held in its first
 * requests: a file without a name is still there then.  Who does not come back costs its room for
 * so long, and no place that anybody else wants: those who linger go early when places run short.
 *
 * Invariants, true between any two turns:
 *
 *  (1) A hold is on hold_free, in an operation (op->hold), in hold_bucket as its session's, or on
 *      hold_linger.  The store counts those that are TAKEN, and no others of this core.
 *  (2) s->holds are a session's in hold_bucket and in its operations.
 *  (3) hold_linger is in the order of until_ns.
 */
#include "appliance/app_op.h"
#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>

#define LINGER_NS (60 * NS_PER_S) /* longer than clients try to reconnect, if not told otherwise */

static struct list *bucket_of(struct app_core *core, const struct meta_handle *h)
{
	return &core->hold_bucket[hash_bytes(0, h, sizeof(*h)) % APP_HOLD_BUCKETS];
}

static void give_back(struct app_core *core, struct app_hold *h)
{
	list_push_front(&core->hold_free, &h->link);
	core->hold_free_count++;
}

static void linger(struct app_core *core, struct app_hold *h, uint64_t until_ns)
{
	h->session = NULL;
	h->until_ns = until_ns;
	if (until_ns)
		list_push_back(&core->hold_linger, &h->link);
	else
		list_push_front(&core->hold_linger, &h->link); /* (3) */
}

/* ---- of a request ------------------------------------------------------------------------ */

int app_hold_begin(struct app_op *op)
{
	struct app_core *core = op->core;
	struct app_session *s = op->session;

	if (op->hold)
		return 0;
	if (core->hold_free_count == 0)
		return -ENFILE;
	if (s->holds >= core->hold_free_count)
		return -EMFILE; /* as many as it leaves to the others */
	op->hold = list_entry(list_pop_front(&core->hold_free), struct app_hold, link);
	core->hold_free_count--;
	op->hold->session = s;
	op->hold->taken = false;
	s->holds++;
	return 0;
}

void app_hold_looked(struct app_op *op)
{
	if (likely(!op->hold) || op->meta.status || !(op->meta.flags & META_HOLD) ||
	    op->meta.attr.type != META_TYPE_FILE)
		return;
	op->hold->taken = true;
	op->hold->handle = op->meta.attr.handle;
}

void app_hold_settle(struct app_op *op)
{
	struct app_core *core = op->core;
	struct app_hold *h = op->hold;

	op->hold = NULL;
	if (h->session && h->taken && op->status == 0) {
		list_push_front(bucket_of(core, &h->handle), &h->link);
		return;
	}
	if (h->session)
		h->session->holds--;
	if (h->taken)
		linger(core, h, 0);
	else
		give_back(core, h);
}

static struct app_hold *find(struct app_core *core, const struct app_session *s,
			     const struct meta_handle *handle)
{
	struct list *node, *bucket = bucket_of(core, handle);

	list_for_each (node, bucket) {
		struct app_hold *h = list_entry(node, struct app_hold, link);

		if (h->session == s && h->handle.dir == handle->dir &&
		    h->handle.hash == handle->hash && h->handle.uniq == handle->uniq)
			return h;
	}
	return NULL;
}

/* ---- letting go ---------------------------------------------------------------------------- */

enum let_go_at { LET_GO_ACCEPTED, LET_GO_TOLD };

static void let_go_begin(struct app_op *op, const struct meta_handle *handle)
{
	op->hold = find(op->core, op->session, handle);
	if (op->hold)
		list_del(&op->hold->link);
}

enum app_next app_let_go_step(struct app_op *op)
{
	switch ((enum let_go_at)op->at) {
	case LET_GO_ACCEPTED:
		if (!op->hold)
			let_go_begin(op, &op->handle);
		if (!op->hold)
			return app_op_end(op, 0); /* it ended with an earlier session */
		op->at = LET_GO_TOLD;
		op->meta.target = (struct meta_target){ .handle = op->hold->handle };
		op->meta.flags = 0;
		if (!app_op_meta(op, META_OP_LET_GO))
			return APP_WAIT;
		wk_fallthrough;

	case LET_GO_TOLD: /* the store counts it no more, whatever it says */
		op->hold->taken = false;
		return app_op_end(op, op->session ? op->meta.status : 0);
	}
	UNREACHABLE();
}

/* Few places: those who linger are in nobody's way. */
static bool is_over(const struct app_core *core, const struct app_hold *h)
{
	return core->now_ns >= h->until_ns || core->hold_free_count < core->cfg.opens_max / 2;
}

void app_holds_turn(struct app_core *core)
{
	while (unlikely(!list_empty(&core->hold_linger)) && core->op_free_count > 0) {
		struct app_hold *h = list_entry(core->hold_linger.next, struct app_hold, link);
		struct app_op *op;

		if (core->life != APP_SERVING || !is_over(core, h))
			return;
		list_del(&h->link);
		op = app_op_take(core, APP_OP_LET_GO, NULL);
		op->hold = h;
		app_op_run(op);
	}
}

uint64_t app_holds_deadline(const struct app_core *core)
{
	if (list_empty(&core->hold_linger) || core->life != APP_SERVING)
		return UINT64_MAX;
	return list_entry(core->hold_linger.next, struct app_hold, link)->until_ns;
}

/* Every request of it was answered, so none has a hold of it. */
void app_holds_closed(struct app_core *core, struct app_session *s)
{
	for (uint32_t i = 0; s->holds > 0 && i < APP_HOLD_BUCKETS; i++) {
		struct list *node = core->hold_bucket[i].next, *next;

		for (; node != &core->hold_bucket[i]; node = next) {
			struct app_hold *h = list_entry(node, struct app_hold, link);

			next = node->next;
			if (h->session != s)
				continue;
			list_del(&h->link);
			s->holds--;
			linger(core, h, core->now_ns + LINGER_NS);
		}
	}
	ASSERT(s->holds == 0); /* (2) */
}
