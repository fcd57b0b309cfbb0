/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Requests in progress: slots, credits, deadlines, and the turn that advances all of them.
 *
 * client_internal.h has a drawing of a slot's states.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A slot is on `free` when FREE, on `pending` or `cut` when PENDING, on no list otherwise.
 *  (2) The fabric has each SENT or ORPHAN slot, and gives it back exactly once, also when the
 *      connection breaks.
 *  (3) A lease's `calls` counts the slots that name it, `orphans` those of them that are
 *      ORPHAN.  So its memory returns to the pool only when nobody can write to it.
 *  (4) A change in slot n is the client's change n, with a number higher than any before; the slot
 *      is not used again before the change is answered or given up.  So the appliance must
 *      remember only the last change of each slot (PROTOCOL.md 5).
 *  (5) A change that may have reached an appliance is marked so when it is sent again, with the
 *      same number, over the same lane after it has come back, or in a new session: only these
 *      begin after the interrupted work has ended.  Until then the change is on `cut`, not on
 *      `pending`.
 *  (6) A request is OUT while a slot has it, then DONE on the list of done requests (or seen by
 *      the call that waits for it), then IDLE.
 */
#include "client-lib/client_internal.h"

#include "base/rand.h"

#include <errno.h>
#include <string.h>

/* ---- slots ------------------------------------------------------------------------- */

static void slot_free(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(!slot->req && !list_linked(&slot->node));
	if (unlikely(slot->opens))
		client__open_end(c, slot);
	if (slot->lease) {
		ASSERT(slot->lease->calls > 0);
		slot->lease->calls--;
		client__lease_put(slot->lease);
		slot->lease = NULL;
	}
	if (slot->batch != &slot->one) {
		slot->batch->next_free = c->batches_free;
		c->batches_free = slot->batch;
		slot->batch = &slot->one;
	}
	slot->state = CLIENT_FREE;
	DASSERT(slot->batch == &slot->one && !slot->lease && !slot->opens);
	if (likely(slot->index < c->requests_max))
		list_push_front(&c->free, &slot->node); /* the one last used is in the cache */
}

static bool window_good(const struct weka_client *c, const struct weka_window *w)
{
	const struct client_lease *lease = client__lease_of(c, w->lease);

	return lease && lease->client && !lease->released && w->size_bytes > 0 &&
	       (w->offset_bytes | w->size_bytes) % WEKA_BLOCK == 0 &&
	       w->size_bytes <= c->window_max_bytes && w->offset_bytes <= lease->pub.size_bytes &&
	       w->size_bytes <= lease->pub.size_bytes - w->offset_bytes && lease->orphans == 0;
}

static uint32_t deadline_us(uint64_t timeout_ns)
{
	if (timeout_ns == WEKA_FOREVER)
		return 0;
	return (uint32_t)min_u64(div_up(timeout_ns, NS_PER_US), UINT32_MAX);
}

/* Reconnects; a program that only submits, or makes waiting calls, has no other place for it. */
static wk_cold int revive(struct weka_client *c)
{
	ASSERT(c->dead && c->at != CLIENT_UP);
	client__progress(c);
	if (!c->dead)
		return 0;
	return client__say(c, c->dead, "no connection: %.200s", c->link_error);
}

static int check(struct weka_client *c, struct weka_req *req, const struct weka_window *window)
{
	if (unlikely(!req || client__req(req)->state != CLIENT_REQ_IDLE ||
		     (req->reserved[0] | req->reserved[1])))
		return client__req_bad(c, req);
	if (window && unlikely(!window_good(c, window)))
		return client__window_bad(c, window);
	if (unlikely(c->dead) && revive(c))
		return c->dead;
	if (unlikely(list_empty(&c->free)))
		return client__say(c, -EAGAIN,
				   "%u requests are in flight (requests_max): reap some",
				   c->requests_max);
	return 0;
}

static void slot_begin(struct client_slot *slot, struct weka_req *req, enum fab_type type,
		       const struct weka_window *window)
{
	ASSERT(slot->state == CLIENT_FREE && !slot->lease);
	slot->call.type = type;
	slot->call.region = NULL;
	slot->call.window_offset = 0;
	slot->call.window_bytes = 0;
	if (window) {
		slot->lease = container_of(window->lease, struct client_lease, pub);
		slot->lease->calls++;
		slot->call.window_offset =
			(uint64_t)slot->lease->unit * WEKA_BLOCK + window->offset_bytes;
		slot->call.window_bytes = (uint32_t)window->size_bytes;
	}
	slot->call.change.number = slot->call.doubt = 0;
	slot->req = req;
	DASSERT(!slot->lease || slot->lease->orphans == 0); /* (3) */
	slot->replays = 0;
	slot->broke_life = 0;
	slot->sent = 0;
	slot->asked_again = 0;
	slot->telling = false;
	slot->opens = false;
	slot->again_ns = 0;
}

int client__take(struct weka_client *c, struct weka_req *req, enum fab_type type,
		 const struct weka_window *window, struct client_slot **out)
{
	int err = client__enter(c);

	if (unlikely(err))
		return err;
	err = check(c, req, window);
	if (unlikely(err)) {
		client__leave(c);
		return err;
	}
	DASSERT(!list_empty(&c->free)); /* (1) */
	*out = list_entry(list_pop_front(&c->free), struct client_slot, node);
	slot_begin(*out, req, type, window);
	return 0;
}

int client__own_take(struct weka_client *c, enum fab_type type, struct client_slot **out)
{
	if (c->dead || client__req(&c->own)->state == CLIENT_REQ_OUT)
		return -EAGAIN;
	*out = &c->slots[c->requests_max];
	ASSERT((*out)->state == CLIENT_FREE && !c->own_out);
	slot_begin(*out, &c->own, type, NULL);
	return 0;
}

int client__take_batch(struct weka_client *c, struct client_slot *slot, uint32_t count)
{
	ASSERT(slot->batch == &slot->one);
	if (count == 1)
		return 0;
	if (count == 0)
		return client__say(c, -EINVAL, "a batch of no items");
	if (count > c->batch_items_max)
		return client__say(c, -EMSGSIZE, "a batch of %u items: at most %u are taken", count,
				   c->batch_items_max);
	if (!c->batches_free)
		return client__say(c, -EAGAIN,
				   "batches_max requests with many items are in flight: reap some");
	slot->batch = c->batches_free;
	c->batches_free = slot->batch->next_free;
	return 0;
}

static void slot_drop(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(slot->state == CLIENT_FREE && !slot->sent); /* (2) */
	slot->req = NULL;
	slot_free(c, slot);
}

int client__drop(struct weka_client *c, struct client_slot *slot, int err, const char *what)
{
	slot_drop(c, slot);
	if (what)
		(void)client__say(c, err, "%s: %s", what, strerror(-err));
	client__leave(c);
	return err;
}

/* Returns true for requests that must all use one lane: appends, and put begin and commit. */
static bool is_orderly(const struct fab_call *call)
{
	switch (call->type) {
	case FAB_PUT_BEGIN:
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
		return true;
	case FAB_WRITE:
		return call->args.write.flags & FAB_WRITE_APPEND;
	default:
		return false;
	}
}

/* Returns true for requests about open files, which use the file lane (client_open.c). */
static bool is_kept(const struct client_slot *slot)
{
	return slot->opens || slot->call.type == FAB_HOLD || slot->call.type == FAB_LET_GO;
}

/* Returns true if the request was interrupted in this session and must use its old lane (5). */
static bool is_bound(const struct weka_client *c, const struct client_slot *slot)
{
	return slot->sent && slot->call.change.number && slot->session == c->place.session_id;
}

static struct client_lane *lane_bound(struct weka_client *c, const struct client_slot *slot)
{
	struct client_lane *lane = &c->lanes[slot->lane];

	ASSERT(slot->sent && slot->lane < CLIENT_LANES_MAX);
	return lane->at == CLIENT_UP ? lane : NULL;
}

/* Lanes in `tried` have no credit left. */
static struct client_lane *lane_for(struct weka_client *c, const struct client_slot *slot,
				    uint32_t tried)
{
	DASSERT(slot->state != CLIENT_SENT && slot->state != CLIENT_ORPHAN);
	if (unlikely(is_bound(c, slot)))
		return tried ? NULL : lane_bound(c, slot);
	if (likely(c->lanes_up == 1) || is_orderly(&slot->call) || is_kept(slot)) {
		if (tried || c->at != CLIENT_UP)
			return NULL;
		return is_kept(slot) ? client__file_lane(c) : client__lane_first(c);
	}
	return client__lane_pick(c, tried);
}

/* Numbers the change (4). */
static void change_number(struct weka_client *c, struct client_slot *slot)
{
	DASSERT(!slot->sent); /* (5): else it keeps its number */
	if (likely(!fab_is_change(slot->call.type, &slot->call.args)) ||
	    slot->index >= FAB_CHANGE_SLOTS)
		return;
	slot->call.change = (struct fab_change){ .number = ++c->changes, .slot = slot->index };
	DASSERT(slot->call.change.number > 0); /* (4) */
}

/* Prepares the request to be sent, for the first time or again (5). */
static void change_mark(struct client_slot *slot, const struct fab_conn *conn)
{
	ASSERT(slot->call.change.number > 0 && slot->call.change.slot == slot->index); /* (4) */
	if (!slot->sent)
		slot->mark = fab_conn_mark(conn);
	slot->call.change.again = slot->sent;
	slot->call.change.sure = slot->sent && slot->mark >= fab_conn_forgotten(conn);
	ASSERT(!slot->call.change.sure || slot->call.change.again); /* (5) */
}

/* Hands the request to the fabric, or lets it wait.  Errors: those that waiting does not cure. */
static int slot_submit(struct weka_client *c, struct client_slot *slot)
{
	struct client_lane *lane;
	uint32_t tried = 0;
	int err;

	DASSERT(slot->req && !list_linked(&slot->node)); /* (1) */
	while ((lane = lane_for(c, slot, tried)) != NULL) {
		slot->lane = (uint8_t)(lane - c->lanes);
		DASSERT(lane->at == CLIENT_UP && !(tried >> slot->lane & 1));
		slot->call.region = client__region(slot, lane);
		if (slot->call.change.number)
			change_mark(slot, lane->conn);
		if (unlikely(slot->opens))
			client__open_by(c, slot, lane);
		err = fab_submit(lane->conn, &slot->call);
		if (likely(!err)) {
			slot->state = CLIENT_SENT;
			slot->sent = 1;
			slot->sent_ns = client__stamp(slot);
			slot->session = c->place.session_id;
			lane->load += client__cost(slot);
			return 0;
		}
		if (err != -EAGAIN && err != -ENOTCONN && err != -ECONNRESET)
			return err;
		tried |= 1u << slot->lane;
	}
	slot->state = CLIENT_PENDING;
	return 0;
}

/* Sends the request or lets it wait.  After an error the slot is still the caller's. */
static int slot_send(struct weka_client *c, struct client_slot *slot)
{
	struct weka_req *req = slot->req;
	struct client_req *priv = client__req(req);
	uint64_t timeout_ns = req->timeout_ns ? req->timeout_ns : c->timeout_ns;
	int err = 0;

	DASSERT(slot->state == CLIENT_FREE); /* (1) */
	slot->call.deadline_us = deadline_us(timeout_ns);
	slot->begun_ns = client__stamp(slot);
	change_number(c, slot);
	if (list_empty(&c->pending))
		err = slot_submit(c, slot);
	else
		slot->state = CLIENT_PENDING;
	if (unlikely(err))
		return err;
	if (slot->state == CLIENT_PENDING)
		list_push_back(&c->pending, &slot->node);
	c->deadline_ns[slot->index] = timeout_ns == WEKA_FOREVER ? UINT64_MAX : 0;
	priv->state = CLIENT_REQ_OUT;
	priv->slot = slot->index;
	priv->is_sync = false;
	priv->next = NULL;
	return 0;
}

int client__send(struct weka_client *c, struct client_slot *slot)
{
	int err = slot_send(c, slot);

	if (unlikely(err))
		return client__drop(c, slot, err, "the request");
	c->out_count++;
	DASSERT(c->out_count <= c->requests_max);
	c->counters.submitted++;
	client__leave(c);
	return 0;
}

int client__own_put(struct weka_client *c, struct client_slot *slot)
{
	int err = slot_send(c, slot);

	ASSERT(client__is_own(c, slot->req));
	if (err)
		slot_drop(c, slot);
	return err;
}

/* ---- ends -------------------------------------------------------------------------- */

/* Takes the request off its slot and puts it on the list of done requests. */
static void req_done(struct weka_client *c, struct client_slot *slot, int status)
{
	struct weka_req *req = slot->req;
	struct client_req *priv = client__req(req);

	slot->req = NULL;
	if (likely(!client__is_own(c, req))) {
		ASSERT(c->out_count > 0);
		c->out_count--;
		c->counters.completed++;
	}
	/* Its memory is the caller's, who has changed it in flight: it may be anything by now. */
	if (unlikely(priv->state != CLIENT_REQ_OUT || priv->slot != slot->index))
		return;
	req->status = status;
	priv->state = CLIENT_REQ_DONE; /* (6) */
	priv->next = NULL;
	if (unlikely(client__is_own(c, req)) || priv->is_sync)
		return;
	*c->done_last = req;
	c->done_last = &priv->next;
}

void client__end(struct weka_client *c, struct client_slot *slot, int status)
{
	DASSERT(slot->state != CLIENT_FREE); /* (2): it ends once */
	if (slot->state == CLIENT_PENDING)
		list_del(&slot->node);
	if (slot->state == CLIENT_ORPHAN && slot->lease) {
		ASSERT(slot->lease->orphans > 0);
		slot->lease->orphans--;
	}
	if (slot->req)
		req_done(c, slot, status);
	slot_free(c, slot);
}

static void orphan(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(slot->state == CLIENT_SENT);
	fab_cancel(c->lanes[slot->lane].conn, &slot->call);
	slot->state = CLIENT_ORPHAN;
	if (slot->lease)
		slot->lease->orphans++;
}

/* Ends the request; the slot stays until the appliance no longer uses the window. */
static void slot_orphan(struct weka_client *c, struct client_slot *slot, int status)
{
	ASSERT(slot->req && (slot->state == CLIENT_PENDING || slot->state == CLIENT_SENT));
	if (slot->state == CLIENT_PENDING) {
		client__end(c, slot, status);
		return;
	}
	orphan(c, slot);
	req_done(c, slot, status);
}

void client__forget_all(struct weka_client *c)
{
	for (uint32_t i = 0; i < c->requests_max; i++) {
		struct client_slot *slot = &c->slots[i];

		if (!slot->req)
			continue;
		slot->req = NULL;
		c->out_count--;
		if (slot->state == CLIENT_PENDING)
			client__end(c, slot, -ECANCELED);
		else
			orphan(c, slot);
	}
}

static bool is_change(const struct client_slot *slot)
{
	return fab_is_change(slot->call.type, &slot->call.args);
}

void client__end_pending(struct weka_client *c, int status)
{
	struct list *node;

	ASSERT(status < 0 && c->at != CLIENT_UP);
	while ((node = list_pop_front(&c->cut)) != NULL)
		list_push_back(&c->pending, node);
	while (!list_empty(&c->pending)) {
		struct client_slot *slot = list_entry(c->pending.next, struct client_slot, node);

		client__end(c, slot, slot->sent && is_change(slot) ? -ECONNRESET : status);
	}
	ASSERT(list_empty(&c->cut) && list_empty(&c->pending));
}

/* ---- answers ----------------------------------------------------------------------- */

static int answer(struct weka_client *c, struct client_slot *slot)
{
	DASSERT(slot->state == CLIENT_SENT && slot->req);
	switch (slot->call.type) {
	case FAB_READ:
		return client__read_answer(c, slot);
	case FAB_READ_BATCH:
		return client__batch_answer(c, slot);
	case FAB_PUT:
		return client__put_answer(slot);
	case FAB_STAT:
		return client__stat_answer(slot);
	case FAB_UNLINK_BATCH:
		return client__unlink_answer(slot);
	case FAB_OPEN:
		if (slot->opens)
			client__opened(c, slot, true);
		return client__attr_answer(slot);
	case FAB_HOLD:
	case FAB_LET_GO:
		return client__own_answer(c, slot);
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
	case FAB_SYMLINK:
		return client__attr_answer(slot);
	case FAB_LIST:
		return client__list_answer(slot);
	case FAB_READLINK:
	case FAB_STATUS:
	case FAB_DAMAGED:
	case FAB_LOG:
	case FAB_XATTR_GET:
	case FAB_XATTR_LIST:
		return client__text_answer(slot);
	case FAB_STATFS:
		return client__statfs_answer(slot);
	case FAB_TOTALS:
		return client__totals_answer(slot);
	case FAB_WRITE:
	case FAB_SEEK:
		slot->req->length_bytes = slot->call.length_bytes;
		return 0;
	default:
		return 0;
	}
}

/* Queues the request again, to be sent when there is a credit. */
static void again(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(slot->req && !list_linked(&slot->node)); /* (1) */
	slot->state = CLIENT_PENDING;
	list_push_back(is_bound(c, slot) ? &c->cut : &c->pending, &slot->node);
}

/*
 * Sends the request again after the time that the appliance asked for, and up to a quarter more, so
 * that clients that were told the same do not come back together.  Requests submitted meanwhile
 * wait behind it.  The time is bounded, whatever the appliance asks for.
 */
static wk_cold void hold(struct weka_client *c, struct client_slot *slot, uint32_t retry_ms)
{
	uint64_t wait_ns = min_u64(retry_ms, CLIENT_HOLD_MAX_MS) * NS_PER_MS;
	struct rand_state jitter;

	ASSERT(slot->state == CLIENT_SENT && retry_ms > 0);
	rand_seed(&jitter, c->now_ns ^ (uint64_t)(uintptr_t)slot);
	slot->again_ns = client__after(c->now_ns, wait_ns + rand_below(&jitter, wait_ns / 4));
	c->counters.busy++;
}

/*
 * Counts the faults under a request, because the request may be their cause.  Connections that were
 * all up when the first of them broke count as one fault, although they are noticed one by one.  A
 * connection that still works has brought the answer that its appliance cannot tell (PROTOCOL.md
 * 5): each such answer counts.
 */
static bool may_ask_again(const struct weka_client *c, struct client_slot *slot)
{
	const struct client_lane *lane = &c->lanes[slot->lane];

	ASSERT(slot->lane < CLIENT_LANES_MAX && lane->conn && slot->broke_life <= c->lives);
	if (fab_conn_status(lane->conn) && lane->life <= slot->broke_life)
		return true;
	slot->broke_life = c->lives;
	ASSERT(slot->replays <= CLIENT_REPLAYS_MAX);
	return slot->replays++ < CLIENT_REPLAYS_MAX;
}

static wk_cold void session_broke(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(slot->state == CLIENT_SENT || slot->state == CLIENT_ORPHAN);
	if (slot->lease && client__is_shared(c))
		slot->lease->lost = true;
	if (slot->state == CLIENT_SENT && (slot->call.change.number || !is_change(slot)) &&
	    may_ask_again(c, slot)) {
		c->counters.replays++;
		if (slot->call.type == FAB_PUT_BEGIN) { /* begins again, on any lane */
			slot->sent = 0;
			change_number(c, slot);
		}
		again(c, slot);
		return;
	}
	client__end(c, slot, -ECONNRESET);
}

/* Continues after the appliance was told of an item's damage, or could not be: with the next item,
 * or with the end of the request. */
static wk_cold void told(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(slot->telling && slot->call.type == FAB_CHECK);
	if (slot->state == CLIENT_SENT && slot->call.status != -ECONNRESET &&
	    client__tell_next(slot))
		again(c, slot);
	else
		client__end(c, slot, slot->tell_status);
}

static void answered(struct weka_client *c, struct client_slot *slot)
{
	int status = slot->call.status;

	ASSERT(slot->state == CLIENT_SENT || slot->state == CLIENT_ORPHAN); /* (2) */
	DASSERT(c->lanes[slot->lane].load >= client__cost(slot));           /* client_lane.c (3) */
	c->lanes[slot->lane].load -= client__cost(slot);
	if (unlikely(slot->telling)) {
		told(c, slot);
		return;
	}
	if (unlikely(status == -ECONNRESET)) {
		session_broke(c, slot);
		return;
	}
	if (likely(!status && slot->state == CLIENT_SENT))
		status = answer(c, slot);
	else if (unlikely(!status && slot->opens))
		client__opened(c, slot, false);
	if (unlikely(status == -EBUSY && slot->call.retry_ms && slot->state == CLIENT_SENT)) {
		hold(c, slot, slot->call.retry_ms);
		again(c, slot); /* nothing was done; only the deadline ends it */
		return;
	}
	if (unlikely(status == CLIENT_ASK_AGAIN)) {
		slot->asked_again = 1;
		again(c, slot);
		return;
	}
	if (unlikely(status == CLIENT_TELL)) {
		again(c, slot);
		return;
	}
	client__end(c, slot, status);
}

/* ---- the turn ---------------------------------------------------------------------- */

/* Sends interrupted changes first, if their lane or a new session is up. */
static wk_cold void cut_pending(struct weka_client *c)
{
	struct list *node = c->cut.next, *next;

	for (; node != &c->cut; node = next) {
		struct client_slot *slot = list_entry(node, struct client_slot, node);
		ASSERT(slot->state == CLIENT_PENDING && slot->sent); /* (5) */

		next = node->next;
		if (is_bound(c, slot) && !lane_bound(c, slot))
			continue;
		list_del(node);
		list_push_front(&c->pending, node);
	}
}

static void send_pending(struct weka_client *c)
{
	struct client_slot *slot;
	int err;

	if (unlikely(!list_empty(&c->cut)) && c->at == CLIENT_UP)
		cut_pending(c);
	while (!list_empty(&c->pending) && c->at == CLIENT_UP) {
		slot = list_entry(c->pending.next, struct client_slot, node);
		ASSERT(slot->state == CLIENT_PENDING); /* (1) */
		if (unlikely(slot->again_ns > c->now_ns))
			return;
		list_del(&slot->node);
		err = slot_submit(c, slot);
		if (slot->state == CLIENT_PENDING && !err && is_bound(c, slot) &&
		    !lane_bound(c, slot)) {
			list_push_back(&c->cut, &slot->node);
			continue;
		}
		if (slot->state == CLIENT_PENDING && !err) {
			list_push_front(&c->pending, &slot->node);
			return;
		}
		if (err) {
			slot->state = CLIENT_SENT; /* it is on no list, as if it had been sent */
			client__end(c, slot, err);
		}
	}
}

/* A deadline counts from the first time that it is checked. */
static void scan_deadlines(struct weka_client *c, uint64_t now_ns)
{
	uint32_t i;

	c->scan_ns = now_ns + CLIENT_SCAN_NS;
	for (i = 0; i < c->requests_max && c->out_count > 0; i++) {
		struct client_slot *slot = &c->slots[i];

		if (c->deadline_ns[i] > now_ns || !slot->req)
			continue;
		if (c->deadline_ns[i] == 0) {
			c->deadline_ns[i] =
				client__after(now_ns, slot->req->timeout_ns ? slot->req->timeout_ns
									    : c->timeout_ns);
			continue;
		}
		c->counters.timeouts++;
		slot_orphan(c, slot, -ETIMEDOUT);
	}
}

/* Takes only some of the answers, so that the caller's next requests are on their way while the
 * rest is received, and neither side waits for the other. */
static uint32_t done_most(const struct weka_client *c)
{
	return min_u32(max_u32(c->out_count / 4, CLIENT_DONE_FEW), CLIENT_DONE_BATCH);
}

static void take_in(struct weka_client *c, struct client_lane *lane, uint64_t now_ns)
{
	struct fab_call *done[CLIENT_DONE_BATCH];
	const uint32_t most = done_most(c);
	uint32_t count, i;
	bool was_broken;

	do { /* if it breaks, until every call is back (2) */
		was_broken = fab_conn_status(lane->conn) != 0;
		count = fab_poll(lane->conn, now_ns, done, most);
		DASSERT(count <= most);
		for (i = 0; i < count; i++)
			answered(c, container_of(done[i], struct client_slot, call));
	} while (unlikely(fab_conn_status(lane->conn)) && (count > 0 || !was_broken));
	if (unlikely(fab_conn_status(lane->conn)))
		client__lane_lost(c, lane, now_ns);
}

void client__progress(struct weka_client *c)
{
	/* Reading the clock costs as much as polling for answers, so not in every turn. */
	bool is_time = c->turns++ % CLIENT_TURNS == 0 || c->at != CLIENT_UP;
	uint64_t now_ns;
	uint32_t i;

	if (is_time)
		c->now_ns = clock_now_ns();
	now_ns = c->now_ns;
	if (unlikely(c->armed))
		client__disarm(c);
	if (unlikely(c->at != CLIENT_UP))
		client__conn_step(c, now_ns);
	DASSERT(c->lane_count <= CLIENT_LANES_MAX && (c->at != CLIENT_UP || c->lanes_up > 0));
	for (i = 0; i < c->lane_count; i++)
		if (c->lanes[i].at == CLIENT_UP)
			take_in(c, &c->lanes[i], now_ns); /* fab_poll() sends first */
	if (unlikely(now_ns >= c->lanes_ns) && c->at == CLIENT_UP && is_time)
		client__lanes_step(c, now_ns);
	if (unlikely(c->opens > 0) && c->at == CLIENT_UP)
		client__opens_step(c);
	if (unlikely(now_ns >= c->scan_ns))
		scan_deadlines(c, now_ns);
	if (unlikely(!list_empty(&c->pending) || !list_empty(&c->cut)))
		send_pending(c);
	if (c->turns % CLIENT_CHECK_TURNS == 1)
		client__check(c);
}

/* The list of done requests goes through the callers' memory: where one was changed, it ends. */
static wk_cold int done_broke(struct weka_client *c)
{
	c->done_first = NULL;
	c->done_last = &c->done_first;
	return client__say(c, -EINVAL,
			   "a request was changed after it had ended and before it was reaped: it "
			   "and others that have ended are lost");
}

int weka_reap(struct weka_client *c, struct weka_req **done, uint32_t done_max)
{
	uint32_t count;
	int err;

	CLIENT_REFUSE(c, !done && done_max > 0, -EINVAL, "done is NULL");
	err = client__enter(c);
	if (unlikely(err))
		return err;
	client__progress(c);
	for (count = 0; count < done_max && c->done_first; count++) {
		struct weka_req *req = c->done_first;
		struct client_req *priv = client__req(req);

		if (unlikely(priv->state != CLIENT_REQ_DONE)) {
			err = done_broke(c);
			break;
		}
		c->done_first = priv->next;
		if (!c->done_first)
			c->done_last = &c->done_first;
		priv->state = CLIENT_REQ_IDLE;
		done[count] = req;
	}
	client__leave(c);
	return count > 0 ? (int)count : err;
}

int weka_flush(struct weka_client *c)
{
	int err = client__enter(c);

	if (unlikely(err))
		return err;
	client__flush(c);
	client__leave(c);
	return 0;
}

struct client_slot *client__slot_of(const struct weka_client *c, struct weka_req *req)
{
	const struct client_req *priv = client__req(req);

	return priv->state == CLIENT_REQ_OUT && priv->slot < c->requests_max &&
			       c->slots[priv->slot].req == req
		       ? &c->slots[priv->slot]
		       : NULL;
}

static int cancel(struct weka_client *c, struct weka_req *req)
{
	struct client_slot *slot = client__slot_of(c, req);

	if (slot) {
		slot_orphan(c, slot, -ECANCELED);
		return 0;
	}
	if (client__req(req)->state == CLIENT_REQ_DONE)
		return 0; /* too late: the result was first */
	return client__say(c, -EINVAL,
			   "weka_cancel: the request is not in flight with this client");
}

int weka_cancel(struct weka_client *c, struct weka_req *req)
{
	CLIENT_NEED(c, req);
	return CLIENT_ENTERED(c, cancel(c, req));
}
