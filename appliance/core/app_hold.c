/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that clients have open.  The store counts holds by file (meta_hold.c); this file records
 * the connection of each hold, so that each ends.
 *
 *   OPEN with HOLD, HOLD:  free --> op's --the store has it--> its session's --LET_GO--> free
 *                                    | the request failed        | the session closed
 *                                    v                           v           HOLD by the
 *                                 LINGERING, until now        LINGERING, --- same client --> op's
 *                                    |                        for LINGER_NS
 *                                    `--an operation is free-----+--> the store lets it go --> free
 *
 * A client whose connection breaks usually comes back, and asks for its holds in its first
 * requests: a file without a name still exists then.  On the same core it gets the lingering hold
 * itself, so a returning client needs no extra places.  A client that does not come back keeps its
 * space for that time, but no place that another client needs: the oldest lingering holds end early
 * when less than a RESERVE of the places is free.
 *
 * Invariants, true between any two turns:
 *
 *  (1) A hold is on hold_free, in an operation (op->hold), or in hold_bucket: as its session's, or
 *      also on hold_linger.  The store counts those that are TAKEN, and no others of this core.
 *  (2) s->holds counts a session's holds in hold_bucket and in its operations.
 *  (3) hold_linger is in the order of until_ns.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>

#define LINGER_NS (60 * NS_PER_S) /* longer than clients try to reconnect by default */
#define RESERVE   8u              /* an eighth of opens_max */

static struct list *bucket_of(struct app_core *core, const struct meta_handle *h)
{
	return &core->hold_bucket[hash_bytes(0, h, sizeof(*h)) % APP_HOLD_BUCKETS];
}

static void give_back(struct app_core *core, struct app_hold *h)
{
	ASSERT(!h->taken && !list_linked(&h->link) && !list_linked(&h->late)); /* (1) */
	ASSERT(core->hold_free_count < core->cfg.opens_max);
	list_push_front(&core->hold_free, &h->link);
	core->hold_free_count++;
}

static void linger(struct app_core *core, struct app_hold *h, uint64_t until_ns)
{
	ASSERT(h->taken && !list_linked(&h->link) && !list_linked(&h->late)); /* (1) */
	h->session = NULL;
	h->until_ns = until_ns;
	core->hold_linger_count++;
	list_push_front(bucket_of(core, &h->handle), &h->link);
	if (until_ns)
		list_push_back(&core->hold_linger, &h->late);
	else
		list_push_front(&core->hold_linger, &h->late); /* (3) */
	ASSERT(!until_ns || h->late.prev == &core->hold_linger ||
	       list_entry(h->late.prev, struct app_hold, late)->until_ns <= until_ns); /* (3) */
}

static void linger_end(struct app_core *core, struct app_hold *h)
{
	ASSERT(!h->session && core->hold_linger_count > 0);
	list_del(&h->late);
	list_del(&h->link);
	core->hold_linger_count--;
}

/* A session's, or (NULL) what lingers of a client's. */
static struct app_hold *find(struct app_core *core, const struct app_session *s, uint64_t client,
			     const struct meta_handle *handle)
{
	struct list *node, *bucket = bucket_of(core, handle);

	ASSERT(s || client || core->hold_linger_count == 0);
	list_for_each (node, bucket) {
		struct app_hold *h = list_entry(node, struct app_hold, link);

		if (h->session == s && (s || h->client == client) && h->handle.dir == handle->dir &&
		    h->handle.hash == handle->hash && h->handle.uniq == handle->uniq)
			return h;
	}
	return NULL;
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
	if (s->holds >= core->hold_free_count + core->hold_linger_count)
		return -EMFILE; /* as many as it leaves to the others */
	op->hold = list_entry(list_pop_front(&core->hold_free), struct app_hold, link);
	core->hold_free_count--;
	ASSERT(!list_linked(&op->hold->late) && !op->hold->taken);
	op->hold->session = s;
	op->hold->client = op->req->session->client;
	op->hold->taken = false;
	s->holds++;
	return 0;
}

/* By handle: a name may be another file's by now. */
bool app_hold_again(struct app_op *op)
{
	const uint64_t client = op->req->session->client;
	struct app_hold *h = NULL;

	if (op->hold)
		return true;
	if (client && op->name[0].by == FAB_BY_HANDLE)
		h = find(op->core, NULL, client, &op->target[0].handle);
	if (!h)
		return false;
	linger_end(op->core, h);
	h->session = op->session;
	h->session->holds++;
	op->hold = h;
	ASSERT(h->taken && h->session->holds > 0); /* (2) */
	return true;
}

void app_hold_looked(struct app_op *op)
{
	if (likely(!op->hold) || op->meta.status || !(op->meta.flags & META_HOLD) ||
	    op->meta.attr.type != META_TYPE_FILE)
		return;
	ASSERT(!list_linked(&op->hold->link)); /* (1) */
	op->hold->taken = true;
	op->hold->handle = op->meta.attr.handle;
}

void app_hold_settle(struct app_op *op)
{
	struct app_core *core = op->core;
	struct app_hold *h = op->hold;

	ASSERT(h && !list_linked(&h->link));                               /* (1) */
	ASSERT(h->session ? h->session->holds > 0 : core->hold_going > 0); /* (2) */
	op->hold = NULL;
	if (h->session && h->taken && op->status == 0) {
		list_push_front(bucket_of(core, &h->handle), &h->link);
		return;
	}
	if (h->session)
		h->session->holds--;
	else
		core->hold_going--;
	if (h->taken)
		linger(core, h, 0);
	else
		give_back(core, h);
}

/* ---- letting go ---------------------------------------------------------------------------- */

enum let_go_at { LET_GO_ACCEPTED, LET_GO_TOLD };

static void let_go_begin(struct app_op *op, const struct meta_handle *handle)
{
	ASSERT(!op->hold);
	op->hold = find(op->core, op->session, 0, handle);
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
		ASSERT(op->hold && op->hold->taken); /* (1) */
		op->hold->taken = false;
		return app_op_end(op, op->session ? op->meta.status : 0);
	}
	UNREACHABLE();
}

/* Few places: the clients that have been away longest make room. */
static bool is_over(const struct app_core *core, const struct app_hold *h)
{
	const uint32_t soon_free = core->hold_free_count + core->hold_going;
	const bool short_of = soon_free < core->cfg.opens_max / RESERVE;

	ASSERT(core->hold_going <= core->cfg.opens_max);
	return core->now_ns >= h->until_ns || short_of;
}

void app_holds_turn(struct app_core *core)
{
	while (unlikely(!list_empty(&core->hold_linger)) && core->op_free_count > 0) {
		struct app_hold *h = list_entry(core->hold_linger.next, struct app_hold, late);
		struct app_op *op;

		if (core->life != APP_SERVING || !is_over(core, h))
			return;
		linger_end(core, h);
		ASSERT(h->taken && !h->session); /* (1) */
		core->hold_going++;
		op = app_op_take(core, APP_OP_LET_GO, NULL);
		op->hold = h;
		app_op_run(op);
	}
}

uint64_t app_holds_deadline(const struct app_core *core)
{
	ASSERT(core->hold_linger_count > 0 || list_empty(&core->hold_linger));
	if (list_empty(&core->hold_linger) || core->life != APP_SERVING)
		return UINT64_MAX;
	return list_entry(core->hold_linger.next, struct app_hold, late)->until_ns;
}

/* Every request of it was answered, so none has a hold of it. */
void app_holds_closed(struct app_core *core, struct app_session *s)
{
	ASSERT(s->ops == 0);
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
