/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The answers to a client of the simulation.  Each is given to the model, which knows whether it is
 * possible; so is the loss of an answer, after which the result is unknown.
 */
#include "test/sim/wire_client.h"

#include "base/assert.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "test/sim/sim_args.h"

#include <errno.h>
#include <string.h>

struct wire_counts wire_counts;

/* ---- ends ------------------------------------------------------------------------------ */

void wire__learn(struct wire_client *cl, uint32_t group, uint32_t object,
		 const struct weka_handle *handle)
{
	cl->known[rand_below(&cl->rand, WIRE_HANDLES)] =
		(struct wire_known){ .group = group, .object = object, .handle = *handle };
}

/* Nobody will be told what came of it. */
void wire__unknown(const struct wire_request *r, const struct wire_item *it)
{
	if (it->op < 0)
		return;
	if (wire__is_read(r->ask)) {
		wire_dropped(it->group, it->op);
		return;
	}
	wire_ended(it->group, it->op);
	wire_counts.unsure++;
}

bool wire__is_read(enum wire_ask ask)
{
	return ask == ASK_READ || ask == ASK_READ_HANDLE || ask == ASK_STAT || ask == ASK_LIST ||
	       ask == ASK_OPEN || ask == ASK_GET_ATTR;
}

static bool is_unknown(int status)
{
	return status == -ETIMEDOUT || status == -ECANCELED || status == -ECONNRESET ||
	       status == -ENOTCONN;
}

/* The appliance said that it did not do it. */
static bool is_refusal(int status)
{
	return status == -ENOSPC || status == -EMFILE || status == -EBUSY || status == -EFBIG;
}

/* Each status of an item, or of a request for all of its items.  0: look at what came. */
static bool item_failed(struct wire_client *cl, struct wire_request *r, struct wire_item *it,
			int status)
{
	if (is_unknown(status)) {
		wire__unknown(r, it);
		return true;
	}
	if (it->op < 0)
		return true;
	if (is_refusal(status) && !wire__is_read(r->ask)) {
		wire_counts.refused++;
		return wire_not_done(it->group, it->op);
	}
	if (r->ask == ASK_OPEN && (is_refusal(status) || status == -ENFILE)) {
		wire_counts.refused++;
		wire_dropped(it->group, it->op);
		return true;
	}
	/* The session that began it is gone, and the hidden file with it. */
	if (r->ask == ASK_LONG_PUT && (status == -ESTALE || status == -ENOENT))
		return wire_not_done(it->group, it->op);
	return sim_wrong("client %u: request %d of %s ended with %d", cl->index, r->ask, it->path,
			 status);
}

static bool look_read(struct wire_request *r, uint32_t i)
{
	struct weka_read_item *a = &r->read[i];
	struct wire_item *it = &r->item[i];
	uint32_t asked = a->length_bytes == WEKA_TO_END ? UINT32_MAX : (uint32_t)a->length_bytes;

	if (a->status == -EMSGSIZE) { /* so much there is */
		if (it->offset > 0 || asked != UINT32_MAX) {
			wire_dropped(it->group, it->op);
			return true;
		}
		return wire_saw(it->group, it->op, 0, a->got_bytes);
	}
	return wire_found(it->group, it->op, a->status, a->data, it->offset, asked,
			  (uint32_t)a->got_bytes);
}

static bool look_list(struct wire_request *r)
{
	uint64_t size[WIRE_NAMES] = { 0 };
	bool there[WIRE_NAMES] = { false };

	if (r->req.status) /* the directory is gone */
		r->req.count = 0;
	else if (r->req.length_bytes != 0 || r->req.count > WIRE_NAMES)
		return sim_wrong("a listing of /g%u has %u names", r->item[0].group, r->req.count);
	for (uint32_t i = 0; i < r->req.count; i++) {
		const struct weka_entry *e = &r->entry[i];
		uint32_t n = e->name_bytes == 2 ? (uint32_t)(e->name[1] - '0') : WIRE_NAMES;

		if (n >= WIRE_NAMES || there[n])
			return sim_wrong("a listing of /g%u has %.*s, perhaps twice",
					 r->item[0].group, (int)e->name_bytes, e->name);
		there[n] = true;
		size[n] = e->attr.size_bytes;
	}
	for (uint32_t n = 0; n < WIRE_NAMES; n++)
		if (!wire_saw(r->item[n].group, r->item[n].op, there[n] ? 0 : -ENOENT, size[n]))
			return false;
	return true;
}

static bool look_attr(struct wire_request *r)
{
	uint64_t value = 0;

	if (!r->req.status && r->req.length_bytes != sizeof(value))
		return sim_wrong("an attribute has %llu bytes",
				 (unsigned long long)r->req.length_bytes);
	if (!r->req.status)
		memcpy(&value, r->window.lease->data, sizeof(value));
	return wire_did(r->item[0].group, r->item[0].op, r->req.status, value);
}

static bool look_item(struct wire_client *cl, struct wire_request *r, uint32_t i)
{
	struct wire_item *it = &r->item[i];
	int status = r->req.status;

	switch (r->ask) {
	case ASK_READ:
		return look_read(r, i);
	case ASK_READ_HANDLE:
		return wire_found(it->group, it->op, status, r->req.data, it->offset, it->size,
				  (uint32_t)r->req.length_bytes);
	case ASK_PUT:
		if (r->put[i].status && r->put[i].status != -ENOENT)
			return item_failed(cl, r, it, r->put[i].status);
		wire__learn(cl, it->group, it->id, &r->put[i].handle);
		return wire_did(it->group, it->op, r->put[i].status, 0);
	case ASK_STAT:
		return wire_saw(it->group, it->op, r->stat[i].status, r->stat[i].attr.size_bytes);
	case ASK_GET_ATTR:
		return look_attr(r);
	case ASK_OPEN:
		return wire__opened(cl, r, status);
	case ASK_LONG_PUT:
		wire__learn(cl, it->group, it->id, &r->attr.handle);
		return wire_did(it->group, it->op, status, 0);
	default:
		return wire_did(it->group, it->op, status, r->req.length_bytes);
	}
}

/* Answers that say something about names and files. */
static bool is_answer(enum wire_ask ask, int status)
{
	if (ask == ASK_UNLINK || ask == ASK_RENAME || ask == ASK_EXCHANGE || ask == ASK_OPEN)
		return status == 0 || status == -ENOENT;
	if (ask == ASK_LINK || ask == ASK_MKDIR || ask == ASK_RMTREE)
		return status == 0 || status == -ENOENT || status == -EEXIST;
	if (ask == ASK_GET_ATTR && status == -ENODATA)
		return true;
	if (ask == ASK_LIST && status == -ENOENT)
		return true;
	if (ask == ASK_SET_ATTR || ask == ASK_GET_ATTR || ask == ASK_READ_HANDLE ||
	    ask == ASK_APPEND || ask == ASK_WRITE || ask == ASK_TRUNCATE || ask == ASK_PUNCH)
		return status == 0 || status == -ESTALE;
	return status == 0;
}

static void count(struct wire_client *cl, const struct wire_request *r, uint64_t now_ns)
{
	int status = r->req.status;

	wire_counts.timeouts += status == -ETIMEDOUT;
	wire_counts.cancels += status == -ECANCELED;
	wire_counts.resets += status == -ECONNRESET;
	wire_counts.lost_contact += status == -ENOTCONN;
	if (is_unknown(status))
		return;
	wire_counts.answered++;
	wire__is_kept(cl, r->asked_ns);
	wire_counts.by_ask[r->ask]++;
	cl->answered_ns = now_ns;
}

static void request_free(struct wire_client *cl, struct wire_request *r)
{
	int status = r->req.status;

	r->used = false;
	if (!r->window.lease)
		return;
	if (status == -ETIMEDOUT || status == -ECANCELED)
		weka_release(cl->c, r->window.lease); /* the appliance may still write there */
	else
		wire__rest(cl, r->window.lease);
	r->window.lease = NULL;
}

/* Takes in the result of an answered request. */
static bool look(struct wire_client *cl, struct wire_request *r)
{
	if (r->ask == ASK_LIST)
		return look_list(r);
	for (uint32_t i = 0; i < r->count; i++)
		if (!look_item(cl, r, i))
			return false;
	return true;
}

static bool failed(struct wire_client *cl, struct wire_request *r)
{
	int status = r->req.status;

	for (uint32_t i = 0; i < r->count; i++)
		if (!item_failed(cl, r, &r->item[i], status))
			return false;
	if (r->count > 0 || is_unknown(status) || is_refusal(status))
		return true;
	if (r->ask == ASK_LONG_PUT && status == -ESTALE) /* its session had gone */
		return true;
	return sim_wrong("client %u: request %d ended with %d", cl->index, r->ask, status);
}

/* One that has ended: once, as it may, and with what. */
bool wire__reaped(struct wire_client *cl, struct wire_request *r, uint64_t now_ns)
{
	int status = r->req.status;
	bool good;

	if (!r->used)
		return sim_wrong("client %u: a request came back twice", cl->index);
	if (status == -ECANCELED && !r->cancelled)
		return sim_wrong("client %u: a request that nobody cancelled was", cl->index);
	if (status == -ETIMEDOUT && now_ns - r->asked_ns < r->timeout_ns)
		return sim_wrong("client %u: a request timed out after %llu of %llu us", cl->index,
				 (unsigned long long)(now_ns - r->asked_ns) / 1000,
				 (unsigned long long)r->timeout_ns / 1000);
	count(cl, r, now_ns);
	if (r->ask == ASK_LONG_PUT && status == 0 && r->stage < 2)
		return wire__sent(cl, r, wire__long_next(cl, r), now_ns);
	good = is_answer(r->ask, status) ? look(cl, r) : failed(cl, r);
	request_free(cl, r);
	return good;
}
