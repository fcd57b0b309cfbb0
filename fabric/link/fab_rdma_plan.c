/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Planning work requests.
 *
 *   add --> out: capsule, write, capsule ... -- writes -------+          retired    posted
 *       |     `-- capsules --> pack ------------------------+-> next --> ring: [ in flight | ]
 *       +-> reads: read, read ... (reads_max in flight) ----+                done <-- retire
 *
 * A packet costs the card (or the kernel in its place) as much as the 64 bytes of a reply cost us.
 * So capsules that are queued together go together, in one SEND after the payload of all of them: a
 * capsule at the front of `out` moves into the pack.  The pack leaves when nothing is left that it
 * could wait for, when the next capsule does not fit, or before it would wait for more than
 * pass_max bytes.  A capsule is never sent earlier than without the pack, so payload that was added
 * before its reply has arrived when the reply is seen: a queue pair guarantees that.  Reads are not
 * ordered against capsules, and have their own queue, since one too many would stop all work
 * requests after it in the card.
 *
 * Completion moderation: a completion means that everything before it is done, too.  So only these
 * ask for one: a read (its place is needed again), every signal_every-th, and the last work request
 * that can be posted now if a buffer waits for an earlier one.
 *
 * Invariants, true between any two calls:
 *
 *  (1) At most limits.depth are in flight, of which one in signal_every is signalled: so the
 *      send queue never overflows, and never fills up with unsignalled work requests.
 *  (2) A fab_tx is on exactly one of: out, pack, reads, done, or the ring at its last work request.
 *  (3) No work request that a buffer waits for is after the last signalled one in flight, unless
 *      something can still be posted.
 *  (4) pack_count and pack_bytes describe pack; everything that was added before a capsule in it
 *      was posted.
 */
#include "fabric/link/fab_rdma_plan.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

void fab__rdma_plan_init(struct fab_rdma_plan *plan, const struct fab_rdma_limits *limits,
			 struct fab_rdma_posted *ring)
{
	ASSERT(is_pow2(limits->depth) && limits->depth >= 4 && limits->chunk_max > 0);
	ASSERT(limits->signal_every > 0 && limits->signal_every <= limits->depth / 2);
	*plan = (struct fab_rdma_plan){ .limits = *limits, .ring = ring };
	list_init(&plan->out);
	list_init(&plan->pack);
	list_init(&plan->reads);
	list_init(&plan->done);
}

static bool is_read(const struct fab_tx *tx)
{
	return tx->kind == FAB_TX_FETCH || tx->kind == FAB_TX_BODY;
}

static bool is_write(const struct fab_tx *tx)
{
	return tx->kind == FAB_TX_PART || tx->kind == FAB_TX_PROBE;
}

void fab__rdma_plan_add(struct fab_rdma_plan *plan, struct fab_tx *tx)
{
	ASSERT(tx->kind != FAB_TX_FETCH || tx->payload_bytes > 0);
	ASSERT(!is_read(tx) || plan->limits.reads_max > 0);
	ASSERT(tx->kind != FAB_TX_PART || tx->payload_bytes > 0);
	list_init(&tx->node);
	list_push_back(is_read(tx) ? &plan->reads : &plan->out, &tx->node);
}

static bool full(const struct fab_rdma_plan *plan)
{
	ASSERT(plan->posted - plan->retired <= plan->limits.depth); /* (1) */
	return plan->posted - plan->retired == plan->limits.depth;
}

/* Counts again what counters say, in variants that look for our own mistakes. */
static void self_check(const struct fab_rdma_plan *plan)
{
#ifdef WK_DEBUG
	uint32_t packed = 0, bytes = 0, reads = 0, signals = 0, in_a_row = 0;
	struct list *pos;

	list_for_each (pos, &plan->pack) {
		packed++;
		bytes += fab__rdma_capsule_bytes(list_entry(pos, struct fab_tx, node));
	}
	ASSERT(packed == plan->pack_count && bytes == plan->pack_bytes); /* (4) */
	for (uint32_t seq = plan->retired; seq != plan->posted; seq++) {
		const struct fab_rdma_posted *p = &plan->ring[seq & (plan->limits.depth - 1)];

		reads += p->is_read;
		signals += p->signalled;
		in_a_row = p->signalled ? 0 : in_a_row + 1;
		ASSERT(!p->tx || !list_linked(&p->tx->node)); /* (2) */
		ASSERT(in_a_row < plan->limits.signal_every); /* (1) */
	}
	ASSERT(reads == plan->reads_out && signals == plan->signals_out);
	ASSERT(reads <= plan->limits.reads_max);
#else
	(void)plan;
#endif
}

/* Of capsules and writes; then only reads can be posted, each of which is signalled. */
static bool nothing_follows(const struct fab_rdma_plan *plan)
{
	return list_empty(&plan->out) && list_empty(&plan->pack);
}

static struct fab_tx *first(const struct list *queue)
{
	return list_empty(queue) ? NULL : list_entry(queue->next, struct fab_tx, node);
}

/* Capsules at the front step aside, as far as they fit: the first always does. */
static void pack_fill(struct fab_rdma_plan *plan)
{
	struct fab_tx *tx;

	while ((tx = first(&plan->out)) != NULL && !is_write(tx)) {
		uint32_t bytes = fab__rdma_capsule_bytes(tx);
		ASSERT(bytes <= sizeof(tx->hdr) + FAB_BODY_MAX);

		if (plan->pack_count > 0 && plan->pack_bytes + bytes > plan->limits.pack_max)
			return;
		list_del(&tx->node);
		list_push_back(&plan->pack, &tx->node);
		plan->pack_count++;
		plan->pack_bytes += bytes;
	}
}

/* Returns true if the pack must leave before the first entry of `out`. */
static bool pack_leaves(const struct fab_rdma_plan *plan)
{
	const struct fab_tx *next = first(&plan->out);

	ASSERT((plan->pack_count == 0) == (plan->pack_bytes == 0)); /* (4) */
	ASSERT(plan->passed <= plan->limits.pass_max);
	if (plan->pack_count == 0)
		return false;
	return !next || !is_write(next) ||
	       next->payload_bytes - plan->out_at > plan->limits.pass_max - plan->passed;
}

static void pack_cut(struct fab_rdma_plan *plan, struct fab_rdma_work *out)
{
	struct list *node;

	ASSERT(plan->pack_count > 0 && out->op == FAB_RDMA_SEND);
	out->tx = first(&plan->pack);
	out->count = plan->pack_count;
	out->bytes = plan->pack_bytes;
	while ((node = list_pop_front(&plan->pack)) != NULL)
		list_push_back(&plan->done, node);
	plan->pack_count = 0;
	plan->pack_bytes = 0;
	plan->passed = 0;
}

/* A piece of the first on `queue`; off it comes with the last. */
static void cut(struct fab_rdma_work *out, struct list *queue, uint32_t *at, uint32_t chunk_max)
{
	struct fab_tx *tx = list_entry(queue->next, struct fab_tx, node);

	ASSERT(*at <= tx->payload_bytes);
	out->tx = tx;
	out->at = *at;
	out->bytes = min_u32(tx->payload_bytes - *at, chunk_max);
	ASSERT(out->bytes > 0 || tx->kind == FAB_TX_PROBE);
	*at += out->bytes;
	if (*at < tx->payload_bytes)
		return;
	*at = 0;
	list_del(&tx->node);
}

static void post(struct fab_rdma_plan *plan, struct fab_rdma_work *out)
{
	bool last = out->op != FAB_RDMA_SEND && out->at + out->bytes == out->tx->payload_bytes;
	struct fab_rdma_posted *p = &plan->ring[plan->posted & (plan->limits.depth - 1)];

	ASSERT(!full(plan));                           /* (1) */
	ASSERT(!last || !list_linked(&out->tx->node)); /* (2) */
	out->seq = plan->posted++;
	*p = (struct fab_rdma_posted){
		.tx = last ? out->tx : NULL,
		.is_read = out->op == FAB_RDMA_READ,
	};
	plan->holds |= last;
	plan->unsignalled++;
	out->signalled = out->op == FAB_RDMA_READ ||
			 plan->unsignalled >= plan->limits.signal_every ||
			 (plan->holds && (nothing_follows(plan) || full(plan)));
	if (!out->signalled)
		return;
	p->signalled = true;
	plan->signals_out++;
	plan->unsignalled = 0;
	plan->holds = false; /* (3) */
	ASSERT(plan->signals_out <= plan->limits.depth);
}

bool fab__rdma_plan_next(struct fab_rdma_plan *plan, struct fab_rdma_work *out)
{
	const struct fab_rdma_limits *l = &plan->limits;

	if (full(plan))
		return false;
	pack_fill(plan);
	*out = (struct fab_rdma_work){ .op = FAB_RDMA_SEND };
	if (pack_leaves(plan)) {
		pack_cut(plan, out);
	} else if (!list_empty(&plan->out)) {
		out->op = FAB_RDMA_WRITE;
		cut(out, &plan->out, &plan->out_at, l->chunk_max);
		plan->passed += plan->pack_count > 0 ? out->bytes : 0;
	} else if (!list_empty(&plan->reads) && plan->reads_out < l->reads_max) {
		out->op = FAB_RDMA_READ;
		cut(out, &plan->reads, &plan->reads_at, l->chunk_max);
		plan->reads_out++;
		ASSERT(plan->reads_out <= l->reads_max);
	} else {
		ASSERT(!plan->holds); /* (3) */
		return false;
	}
	post(plan, out);
	return true;
}

int fab__rdma_plan_done(struct fab_rdma_plan *plan, uint32_t seq)
{
	if (seq - plan->retired >= plan->posted - plan->retired)
		return -EPROTO;
	while (plan->retired != seq + 1) {
		struct fab_rdma_posted *p = &plan->ring[plan->retired & (plan->limits.depth - 1)];
		ASSERT(plan->reads_out >= p->is_read && plan->signals_out >= p->signalled);

		if (p->tx && p->tx->kind == FAB_TX_BODY)
			plan->body_here = true;
		else if (p->tx)
			list_push_back(&plan->done, &p->tx->node);
		plan->reads_out -= p->is_read;
		plan->signals_out -= p->signalled;
		plan->retired++;
	}
	self_check(plan);
	if (plan->retired == plan->posted) {
		plan->unsignalled = 0;
		plan->holds = false;
	}
	ASSERT(plan->posted - plan->retired <= plan->limits.depth);
	return 0;
}

bool fab__rdma_plan_waits(const struct fab_rdma_plan *plan)
{
	return plan->signals_out > 0 || !nothing_follows(plan) || !list_empty(&plan->reads);
}

void fab__rdma_plan_abort(struct fab_rdma_plan *plan)
{
	struct list *node;

	if (plan->posted != plan->retired)
		ASSERT(fab__rdma_plan_done(plan, plan->posted - 1) == 0);
	while ((node = list_pop_front(&plan->pack)) != NULL)
		list_push_back(&plan->done, node);
	while ((node = list_pop_front(&plan->out)) != NULL)
		list_push_back(&plan->done, node);
	while ((node = list_pop_front(&plan->reads)) != NULL)
		list_push_back(&plan->done, node);
	plan->pack_count = 0;
	plan->pack_bytes = 0;
	plan->passed = 0;
	plan->out_at = 0;
	plan->reads_at = 0;
	ASSERT(plan->posted == plan->retired && plan->signals_out == 0);
	ASSERT(list_empty(&plan->out) && list_empty(&plan->pack) && list_empty(&plan->reads));
}
