/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that a client of the simulation has open: see wire.c.
 *
 * From the answer to its open until it is closed, a file can be used by its handle, whatever
 * becomes of its names; as long as the appliance lives, and its client or its connection comes back
 * in time: then the library asks for the hold again, and the program does not notice.
 *
 * The simulation relies on that only where it must be so.  For a client with one connection: for
 * KEPT_NS after it sent a request that was answered.  For a client with lanes: for a while, as long
 * as the lane that holds the file has not broken.
 */
#include "test/sim/wire_client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "test/sim/sim_args.h"

#include <errno.h>

#define KEPT_NS  (55 * NS_PER_S) /* an appliance waits for a minute */
#define LANES_NS (30 * NS_PER_S)

static bool file_lane_is(const struct weka_client *c, uint64_t life)
{
	const struct client_lane *lane = &c->lanes[c->file_lane];

	return c->file_lane_life == life && lane->life == life && lane->at == CLIENT_UP;
}

static bool is_sure(const struct wire_client *cl, const struct wire_held *h, uint64_t now_ns)
{
	if (cl->c->lane_count > 1)
		return file_lane_is(cl->c, h->file_lane_life) && now_ns - h->asked_ns < LANES_NS;
	return now_ns - max_u64(h->asked_ns, cl->kept_ns) < KEPT_NS;
}

static void slacken(struct wire_held *h)
{
	if (h->sure)
		wire_hold_end(h->group, h->hold);
	h->sure = false;
}

void wire_holds_turn(struct wire_client *cl, uint64_t now_ns)
{
	for (uint32_t i = 0; i < WIRE_HELD; i++) {
		struct wire_held *h = &cl->held[i];

		if (!h->used || !h->sure || is_sure(cl, h, now_ns))
			continue;
		slacken(h);
		wire_counts.lost++;
	}
}

void wire_holds_end(struct wire_client *cl)
{
	cl->ended_ns = clock_now_ns();
	for (uint32_t i = 0; i < WIRE_HELD; i++)
		slacken(&cl->held[i]);
}

/* All that is open is held by a connection of now. */
void wire__is_kept(struct wire_client *cl, uint64_t asked_ns)
{
	const struct weka_client *c = cl->c;

	if (c->at == CLIENT_UP && c->lane_count <= 1 && file_lane_is(c, c->file_lane_life) &&
	    list_empty(&c->open_due) && !c->own_out)
		cl->kept_ns = max_u64(cl->kept_ns, asked_ns);
}

int wire__ask_open(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	struct weka_ref ref;
	int hold;

	wire__pick_name(cl, it);
	if (!wire_may_ask(it->group, true))
		return -EAGAIN;
	hold = wire_hold_take(it->group);
	if (hold < 0)
		return -EAGAIN;
	wire__open_op(
		cl, it,
		&(struct wire_op){ .kind = WIRE_HOLD, .name = it->name, .hold = (uint32_t)hold });
	if (it->op < 0) {
		wire_hold_end(it->group, (uint32_t)hold);
		return -EAGAIN;
	}
	r->count = 1;
	it->id = (uint32_t)hold;
	ref = weka_ref_path(it->path);
	return weka_submit_open(cl->c, &r->req, &ref, WEKA_HOLD, NULL, &r->attr);
}

static bool close_one(struct wire_client *cl, struct wire_held *h)
{
	int err;

	slacken(h);
	h->used = false;
	err = weka_close_file(cl->c, &h->handle);
	return !err || sim_wrong("client %u: close: %d", cl->index, err);
}

int wire__ask_close(struct wire_client *cl, struct wire_request *r)
{
	struct wire_held *h = &cl->held[rand_below(&cl->rand, WIRE_HELD)];

	(void)r;
	if (h->used && !close_one(cl, h))
		return -EPROTO;
	return -EAGAIN; /* it is no request */
}

bool wire__opened(struct wire_client *cl, struct wire_request *r, int status)
{
	const struct wire_item *it = &r->item[0];
	struct wire_held h = { .used = true,
			       .sure = true,
			       .group = it->group,
			       .hold = it->id,
			       .object = r->attr.uid,
			       .handle = r->attr.handle,
			       .asked_ns = r->asked_ns,
			       .file_lane_life = cl->c->file_lane_life };

	if (!wire_held(it->group, it->op, status, status ? 0 : r->attr.uid))
		return false;
	if (status)
		return true;
	if (r->asked_ns <= cl->ended_ns) /* it was the last answer of one that is gone */
		slacken(&h);
	wire_counts.opened++;
	wire__learn(cl, it->group, r->attr.uid, &h.handle);
	for (uint32_t i = 0; i < WIRE_HELD; i++)
		if (!cl->held[i].used) {
			cl->held[i] = h;
			return true;
		}
	return close_one(cl, &h);
}

bool wire_client_read_held(struct wire_client *cl, bool (*turn)(void))
{
	for (uint32_t i = 0; i < WIRE_HELD; i++)
		if (cl->held[i].sure && !wire__read_held(cl, &cl->held[i], turn))
			return false;
	return true;
}
