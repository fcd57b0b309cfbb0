/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Open files: those that the program has open, and those that the appliance holds for it.
 *
 *   weka_open()  -- OPEN with HOLD answered --> users + 1, held + 1
 *   weka_close_file() ------------------------> users - 1
 *
 *   held > users        --LET_GO--> held - 1       these go in batches, one at a time; only
 *   users > 0, held 0   --HOLD----> held 1         weka_close() waits for one, when users is 0
 *
 * The appliance holds a file for one connection, so all requests about open files use one lane,
 * the *file lane*.  When that breaks, the client assumes that nothing is held (held 0), and asks
 * for its files again by handle, over the next file lane, as soon as there is one.  The appliance
 * keeps them for a while, so a file without a name survives a broken session.  If it is gone
 * nevertheless, its handle is -ESTALE, and opens_lost counts it.  The appliance may have no room
 * for a file whose old hold is on another core: then the client asks for it again later.
 *
 * An OPEN that creates its file goes again over the lane that broke under it.  If that is no
 * longer the file lane when it is back, the OPEN asks for no hold there, since nobody would let go
 * of it; a HOLD follows over the file lane.  Meanwhile the hold of the first OPEN, if there was
 * one, still lingers and keeps the file.
 *
 * Invariants, true between any two calls:
 *
 *  (1) An entry is in a bucket while users or held is not 0, or a request names it; else it is
 *      free.
 *  (2) An entry with work to do is on `open_due`, or, after a refusal, on `open_late` until
 *      open_late_ns.  `own` is in flight for at most one batch, in a slot that no request of the
 *      program can have, and without a deadline: after giving it up the client could not tell how
 *      much of it was done, and would let go too often.
 *  (3) held counts the answers of the file lane on its present connection.
 *  (4) opening counts requests in flight that will take an entry; there is an entry for each.
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LEAVE_NS NS_PER_S          /* longest wait for the appliance in weka_close() */
#define LATE_NS  (200 * NS_PER_MS) /* pause before a refused hold is asked for again       */

static struct list *bucket_of(struct weka_client *c, const uint8_t handle[FAB_HANDLE_BYTES])
{
	ASSERT(is_pow2(c->open_mask + 1ull));
	return &c->open_bucket[hash_bytes(0, handle, FAB_HANDLE_BYTES) & c->open_mask];
}

static struct client_open *find(struct weka_client *c, const uint8_t handle[FAB_HANDLE_BYTES])
{
	struct list *node, *bucket = bucket_of(c, handle);

	list_for_each (node, bucket) {
		struct client_open *o = list_entry(node, struct client_open, link);

		if (memcmp(o->handle.bytes, handle, FAB_HANDLE_BYTES) == 0)
			return o;
	}
	return NULL;
}

/* Restores (1) and (2) after any change of an entry. */
static void settle(struct weka_client *c, struct client_open *o)
{
	const bool is_due = o->held > o->users || (o->users > 0 && o->held == 0 && !o->lost);

	ASSERT(list_linked(&o->link) && c->opens > 0); /* (1) */
	if (is_due && !list_linked(&o->due))
		list_push_back(&c->open_due, &o->due);
	if (!is_due && list_linked(&o->due))
		list_del(&o->due);
	if (o->users > 0 || o->held > 0 || o->asked > 0)
		return;
	ASSERT(!list_linked(&o->due)); /* (1) */
	list_del(&o->link);
	list_push_front(&c->open_free, &o->link);
	c->opens--;
}

/* ---- requests that were refused, and are sent again ------------------------------------------ */

static void late_end(struct weka_client *c)
{
	struct list *node;

	while ((node = list_pop_front(&c->open_late)) != NULL)
		list_push_back(&c->open_due, node);
}

/* All refused holds of this client wait together, at another time than those of other clients. */
static wk_cold void late_begin(struct weka_client *c, struct client_open *o)
{
	struct rand_state jitter;

	if (!list_linked(&o->due))
		return; /* it is no longer open */
	if (list_empty(&c->open_late)) {
		rand_seed(&jitter, c->now_ns ^ (uint64_t)(uintptr_t)c);
		c->open_late_ns =
			client__after(c->now_ns, LATE_NS + rand_below(&jitter, LATE_NS / 4));
	}
	ASSERT(c->open_late_ns > 0); /* (2) */
	list_del(&o->due);
	list_push_back(&c->open_late, &o->due);
}

/* ---- the file lane ----------------------------------------------------------------------- */

static bool is_file_lane(const struct weka_client *c, uint32_t number)
{
	const struct client_lane *lane = &c->lanes[number];

	ASSERT(number < CLIENT_LANES_MAX);
	return c->file_lane == number && lane->at == CLIENT_UP && lane->life == c->file_lane_life;
}

/* Clears `users` of all open files unless `used`, and `held` unless `held`. */
static wk_cold void each_open(struct weka_client *c, bool used, bool held)
{
	for (uint32_t i = 0; i <= c->open_mask; i++) {
		struct list *node = c->open_bucket[i].next, *next;

		for (; node != &c->open_bucket[i]; node = next) {
			struct client_open *o = list_entry(node, struct client_open, link);

			next = node->next;
			o->users = used ? o->users : 0;
			o->held = held ? o->held : 0;
			settle(c, o);
		}
	}
}

/* The connection of a new file lane holds nothing yet: (3). */
static wk_cold void file_lane_new(struct weka_client *c)
{
	struct client_lane *lane = client__lane_first(c);

	ASSERT(lane->at == CLIENT_UP && lane->life > 0);
	c->file_lane = (uint32_t)(lane - c->lanes);
	c->file_lane_life = lane->life;
	each_open(c, true, false);
	ASSERT(is_file_lane(c, c->file_lane)); /* (3) */
	late_end(c);                           /* its connection may be on another core */
}

struct client_lane *client__file_lane(struct weka_client *c)
{
	ASSERT(c->at == CLIENT_UP);
	if (unlikely(!is_file_lane(c, c->file_lane)))
		file_lane_new(c);
	return &c->lanes[c->file_lane];
}

/* ---- opened, closed ------------------------------------------------------------------------- */

int client__open_begin(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(!slot->opens && slot->call.type == FAB_OPEN);
	if (c->opens + c->opening >= c->opens_max)
		return -EMFILE;
	c->opening++;
	slot->opens = true;
	ASSERT(c->opens + c->opening <= c->opens_max); /* (4) */
	return 0;
}

void client__open_end(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(slot->opens && slot->call.type == FAB_OPEN);
	ASSERT(c->opening > 0);
	c->opening--;
	slot->opens = false;
}

void client__open_by(struct weka_client *c, struct client_slot *slot,
		     const struct client_lane *lane)
{
	ASSERT(slot->opens && lane->at == CLIENT_UP);
	slot->call.args.open.flags &= ~FAB_OPEN_HOLD;
	if (lane == client__file_lane(c))
		slot->call.args.open.flags |= FAB_OPEN_HOLD;
}

void client__opened(struct weka_client *c, struct client_slot *slot, bool wanted)
{
	const bool asked = slot->call.args.open.flags & FAB_OPEN_HOLD;
	const bool kept = asked && is_file_lane(c, slot->lane);
	struct fab_attr attr;
	struct client_open *o;

	ASSERT(slot->opens && c->opening > 0); /* (4) */
	if (fab_call_attr(&slot->call, 0, &attr) || !S_ISREG(attr.mode))
		return;
	if (!wanted && !kept)
		return; /* the hold ends with its lane */
	o = find(c, attr.handle.bytes);
	if (!o) {
		ASSERT(!list_empty(&c->open_free) && c->opens < c->opens_max);           /* (4) */
		o = list_entry(list_pop_front(&c->open_free), struct client_open, link); /* (4) */
		*o = (struct client_open){ .handle = attr.handle };
		list_init(&o->link);
		list_init(&o->due);
		list_push_front(bucket_of(c, o->handle.bytes), &o->link);
		c->opens++;
	}
	o->users += wanted;
	o->held += kept;
	o->lost &= !kept;
	settle(c, o);
}

static int close_file(struct weka_client *c, const struct weka_handle *handle)
{
	struct client_open *o = find(c, handle->bytes);

	if (!o || o->users == 0)
		return client__say(c, -EBADF, "weka_close_file: the file is not open");
	o->users--;
	ASSERT(c->opens > 0);
	settle(c, o);
	if (c->at == CLIENT_UP) {
		client__flush(c); /* a call waits for the submitted requests */
		client__opens_step(c);
		fab_flush_later(client__file_lane(c)->conn); /* usually with the next request */
	}
	return 0;
}

int weka_close_file(struct weka_client *c, const struct weka_handle *handle)
{
	CLIENT_NEED(c, handle);
	return CLIENT_ENTERED(c, close_file(c, handle));
}

/* ---- asking --------------------------------------------------------------------------------- */

/* Builds a batch of the entries of open_due that are of the first one's kind. */
static uint32_t own_fill(struct weka_client *c, enum fab_type *type)
{
	uint32_t count = 0, most = min_u32(CLIENT_OPEN_BATCH, c->batch_items_max);

	ASSERT(c->own_count == 0); /* (2) */
	while (count < most && !list_empty(&c->open_due)) {
		struct client_open *o = list_entry(c->open_due.next, struct client_open, due);
		enum fab_type is = o->held > o->users ? FAB_LET_GO : FAB_HOLD;
		uint32_t times = is == FAB_HOLD ? 1 : o->held - o->users;

		if (count > 0 && is != *type)
			break;
		*type = is;
		list_del(&o->due); /* settle() puts it back when the answer is here */
		for (; times > 0 && count < most; times--) {
			c->own_name[count] =
				(struct fab_name){ .by = FAB_BY_HANDLE, .handle = o->handle };
			c->own_open[count++] = o;
			o->asked++;
		}
	}
	ASSERT(count <= CLIENT_OPEN_BATCH);
	return count;
}

/* Returns true for errors that waiting does not cure: of the file as it is, or of the key. */
static bool is_lost(int status)
{
	switch (status) {
	case -ESTALE:
	case -ENOENT:
	case -EACCES:
	case -EPERM:
	case -EINVAL:
		return true;
	default:
		return false;
	}
}

static void own_answered(struct weka_client *c)
{
	const bool kept = c->own.status == 0, refused = !kept && c->own.status != -ECONNRESET;

	ASSERT(c->own_count <= CLIENT_OPEN_BATCH && !c->own_out); /* (2) */
	for (uint32_t i = 0; i < c->own_count; i++) {
		struct client_open *o = c->own_open[i];
		const int status = c->own_status[i];

		ASSERT(o->asked > 0); /* (1) */
		o->asked--;
		if (kept && c->own_type == FAB_LET_GO)
			o->held -= o->held > 0;
		else if (kept && status == 0)
			o->held++;
		else if (kept && o->users > 0 && is_lost(status)) {
			o->lost = true;
			c->counters.opens_lost++;
		}
		settle(c, o);
		if (unlikely(refused || (kept && status)))
			late_begin(c, o);
	}
	c->own_count = 0;
}

/* Runs before the slot is freed. */
int client__own_answer(struct weka_client *c, struct client_slot *slot)
{
	ASSERT(client__is_own(c, slot->req) && slot->call.args.batch.count == c->own_count);
	if (!is_file_lane(c, slot->lane))
		return -ECONNRESET; /* it was on another lane */
	for (uint32_t i = 0; i < c->own_count; i++)
		c->own_status[i] = fab_call_status(&slot->call, i);
	return 0;
}

static void own_send(struct weka_client *c)
{
	struct client_slot *slot;
	int err = client__own_take(c, FAB_HOLD, &slot);

	ASSERT(!c->own_out && !list_empty(&c->open_due)); /* (2) */
	if (err)
		return; /* later */
	c->own.timeout_ns = WEKA_FOREVER;
	c->own_count = own_fill(c, &c->own_type);
	slot->call.type = c->own_type;
	slot->call.args.batch.count = c->own_count;
	slot->call.args.batch.names = c->own_name;
	err = client__own_put(c, slot);
	if (err) {
		c->own.status = err;
		own_answered(c);
		return;
	}
	ASSERT(slot->index == c->requests_max); /* (2) */
	c->own_out = true;
}

void client__opens_step(struct weka_client *c)
{
	ASSERT(c->at == CLIENT_UP);
	(void)client__file_lane(c);
	if (c->own_out && client__req(&c->own)->state == CLIENT_REQ_DONE) {
		c->own_out = false;
		client__req(&c->own)->state = CLIENT_REQ_IDLE;
		own_answered(c);
	}
	if (unlikely(!list_empty(&c->open_late)) && c->now_ns >= c->open_late_ns)
		late_end(c);
	if (!c->own_out && !list_empty(&c->open_due))
		own_send(c);
}

/* Lets go of all files, since otherwise the appliance would keep them for a minute. */
void client__opens_leave(struct weka_client *c)
{
	uint64_t until_ns;

	if (c->at != CLIENT_UP || c->opens + c->opening == 0)
		return;
	until_ns = client__after(clock_now_ns(), LEAVE_NS);
	client__forget_all(c);
	ASSERT(c->out_count == 0);
	each_open(c, false, true);
	while (c->at == CLIENT_UP && c->opens + c->opening > 0) {
		c->turns = 0; /* so that the next turn reads the clock */
		client__progress(c);
		if (c->opens + c->opening == 0 || client__sleep(c, until_ns) == -ETIMEDOUT)
			return;
	}
}

/* ---- made, ended ---------------------------------------------------------------------------- */

int client__opens_create(struct weka_client *c, uint32_t opens_max)
{
	uint32_t buckets = 1;

	ASSERT(!c->open && opens_max > 0);
	while (buckets < opens_max)
		buckets <<= 1;
	ASSERT(buckets >= opens_max && is_pow2(buckets));
	list_init(&c->open_free);
	list_init(&c->open_due);
	list_init(&c->open_late);
	c->opens_max = opens_max;
	c->open_mask = buckets - 1;
	c->open = calloc(opens_max, sizeof(*c->open));
	c->open_bucket = calloc(buckets, sizeof(*c->open_bucket));
	if (!c->open || !c->open_bucket)
		return -ENOMEM;
	for (uint32_t i = 0; i < buckets; i++)
		list_init(&c->open_bucket[i]);
	for (uint32_t i = 0; i < opens_max; i++) {
		list_init(&c->open[i].link);
		list_push_back(&c->open_free, &c->open[i].link);
	}
	return 0;
}

void client__opens_destroy(struct weka_client *c)
{
	free(c->open);
	free(c->open_bucket);
}
