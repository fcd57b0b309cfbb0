/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The requests of a client of the simulation: see wire.c.
 *
 * Each request about a name is an operation of the model, from before it is submitted until its
 * result is known (wire_look.c).
 */
#include "test/sim/wire_client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "test/sim/sim_args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WINDOW_MAX (192u << 10)
#define PIECE_MAX  (12u << 10)

static uint64_t below(struct wire_client *cl, uint64_t bound)
{
	return rand_below(&cl->rand, bound);
}

/* ---- what is asked --------------------------------------------------------------------- */

void wire__open_op(struct wire_client *cl, struct wire_item *it, const struct wire_op *op)
{
	struct wire_op with = *op;

	with.client = cl->index;
	with.life = cl->life;
	it->op = wire_open(it->group, &with);
	it->id = op->id;
	it->size = op->size;
	it->offset = op->offset;
}

void wire__pick_name(struct wire_client *cl, struct wire_item *it)
{
	it->group = (uint32_t)below(cl, WIRE_GROUPS);
	it->name = (uint32_t)below(cl, WIRE_NAMES);
	it->op = -1;
	snprintf(it->path, sizeof(it->path), "/g%u/n%u", it->group, it->name);
}

static const struct wire_known *pick_handle(struct wire_client *cl, struct wire_item *it)
{
	const struct wire_known *k = &cl->known[below(cl, WIRE_HANDLES)];

	wire__pick_name(cl, it);
	if (!k->object)
		return NULL;
	it->group = k->group;
	return k;
}

static uint32_t random_size(struct wire_client *cl)
{
	switch (below(cl, 6)) {
	case 0:
		return 1 + (uint32_t)below(cl, 64);
	case 1:
		return 4096u * (1 + (uint32_t)below(cl, 4));
	case 2:
		return 1 + (uint32_t)below(cl, 30000);
	default:
		return 1 + (uint32_t)below(cl, 6000);
	}
}

static bool take_window(struct wire_client *cl, struct wire_request *r, uint32_t size)
{
	size = (uint32_t)align_up(size, WEKA_BLOCK);
	if (size > WINDOW_MAX)
		return false;
	r->window.lease = wire__lease(cl, size);
	r->window.offset_bytes = 0;
	r->window.size_bytes = size;
	return r->window.lease != NULL;
}

static int ask_read(struct wire_client *cl, struct wire_request *r)
{
	bool whole = below(cl, 4) != 0;

	r->count = 1 + (uint32_t)below(cl, WIRE_ITEMS);
	if (!take_window(cl, r,
			 weka_window_bytes(r->count, below(cl, 6) ? WIRE_FILE_MAX / 2 : 4096)))
		return -EAGAIN;
	for (uint32_t i = 0; i < r->count; i++) {
		struct wire_item *it = &r->item[i];

		wire__pick_name(cl, it);
		if (!wire_may_ask(it->group, wire__is_read(r->ask)))
			return -EAGAIN;
		wire__open_op(cl, it,
			      &(struct wire_op){ .kind = WIRE_READ,
						 .name = it->name,
						 .offset = whole ? 0 : (uint32_t)below(cl, 9000) });
		if (it->op < 0)
			return -EAGAIN;
		r->read[i] = (struct weka_read_item){
			.ref = weka_ref_path(it->path),
			.offset_bytes = it->offset,
			.length_bytes = whole ? WEKA_TO_END : 1 + below(cl, 9000),
		};
	}
	return weka_submit_read_batch(cl->c, &r->req, r->read, r->count, &r->window);
}

static int ask_read_handle(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	const struct wire_known *k = pick_handle(cl, it);
	uint32_t length = 1 + (uint32_t)below(cl, 20000);

	if (!k || !wire_may_ask(k->group, wire__is_read(r->ask)) ||
	    !take_window(cl, r, weka_window_bytes(1, length + 4095)))
		return -EAGAIN;
	wire__open_op(cl, it,
		      &(struct wire_op){ .kind = WIRE_READ_HANDLE,
					 .object = k->object,
					 .offset = (uint32_t)below(cl, 9000),
					 .size = length });
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	return weka_submit_read(cl->c, &r->req, &k->handle, it->offset, length, &r->window);
}

static int ask_put(struct wire_client *cl, struct wire_request *r)
{
	uint32_t at = 0, sizes[WIRE_ITEMS], blocks = 0;

	r->count = 1 + (uint32_t)below(cl, WIRE_ITEMS);
	for (uint32_t i = 0; i < r->count; i++) {
		sizes[i] = random_size(cl);
		at += (uint32_t)align_up(sizes[i], 64);
		blocks += (uint32_t)div_up(sizes[i], WEKA_BLOCK);
	}
	if (!take_window(cl, r, at + 4 * blocks + 64 * (r->count + 1)))
		return -EAGAIN;
	at = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		struct wire_item *it = &r->item[i];

		wire__pick_name(cl, it);
		if (!wire_may_ask(it->group, wire__is_read(r->ask)))
			return -EAGAIN;
		wire__open_op(cl, it,
			      &(struct wire_op){ .kind = WIRE_PUT,
						 .name = it->name,
						 .id = wire_id(),
						 .size = sizes[i] });
		if (it->op < 0)
			return -EAGAIN;
		wire_bytes(it->id, 0, (uint8_t *)r->window.lease->data + at, sizes[i]);
		r->put[i] = (struct weka_put_item){
			.ref = weka_ref_path(it->path),
			.create = { .mode = 0644, .uid = it->id },
			.window_at = at,
			.size_bytes = sizes[i],
		};
		at += (uint32_t)align_up(sizes[i], 64);
	}
	return weka_submit_put(cl->c, &r->req, r->put, r->count, &r->window);
}

static int ask_write(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	const struct wire_known *k = pick_handle(cl, it);
	bool append = r->ask == ASK_APPEND;
	struct wire_op op = { .kind = append ? WIRE_APPEND : WIRE_WRITE };

	op.size = append && below(cl, 3) ? 1 + (uint32_t)below(cl, 300) : random_size(cl);
	if (!append)
		op.offset = (uint32_t)below(cl, 12000);
	if (!append && below(cl, 2)) { /* whole blocks: several of them at once */
		op.offset = (uint32_t)below(cl, 4) * WEKA_BLOCK;
		op.size = (1 + (uint32_t)below(cl, 2)) * WEKA_BLOCK;
	}
	if (!k || !wire_may_ask(k->group, wire__is_read(r->ask)) ||
	    wire_size_most(k->group) + op.offset + op.size > WIRE_FILE_MAX ||
	    !take_window(cl, r, weka_window_bytes(1, op.size + 4095)))
		return -EAGAIN;
	op.object = k->object;
	op.id = wire_id();
	wire__open_op(cl, it, &op);
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	wire_bytes(it->id, 0, r->window.lease->data, it->size);
	return weka_submit_write(cl->c, &r->req, &k->handle, it->offset, it->size,
				 append ? WEKA_APPEND : 0, &r->window);
}

static int ask_truncate(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	const struct wire_known *k = pick_handle(cl, it);

	if (!k || !wire_may_ask(k->group, wire__is_read(r->ask)))
		return -EAGAIN;
	wire__open_op(cl, it,
		      &(struct wire_op){ .kind = WIRE_TRUNCATE,
					 .object = k->object,
					 .id = wire_id(),
					 .size = (uint32_t)below(cl, 9000) });
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	return weka_submit_truncate(cl->c, &r->req, &k->handle, it->size);
}

static int ask_punch(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	const struct wire_known *k = pick_handle(cl, it);
	uint32_t offset = (uint32_t)below(cl, 9000);

	if (!k || !wire_may_ask(k->group, wire__is_read(r->ask)))
		return -EAGAIN;
	wire__open_op(cl, it,
		      &(struct wire_op){ .kind = WIRE_PUNCH,
					 .object = k->object,
					 .id = wire_id(),
					 .offset = below(cl, 2) ? offset : 0,
					 .size = 1 + (uint32_t)below(cl, 9000) });
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	return weka_submit_punch(cl->c, &r->req, &k->handle, it->offset, it->size);
}

static enum wire_kind kind_of(enum wire_ask ask)
{
	return ask == ASK_UNLINK   ? WIRE_UNLINK
	       : ask == ASK_RENAME ? WIRE_RENAME
	       : ask == ASK_LINK   ? WIRE_LINK
				   : WIRE_EXCHANGE;
}

static int ask_name(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	struct weka_ref ref, to;
	uint32_t other;

	wire__pick_name(cl, it);
	other = (it->name + 1 + (uint32_t)below(cl, WIRE_NAMES - 1)) % WIRE_NAMES;
	if (!wire_may_ask(it->group, wire__is_read(r->ask)))
		return -EAGAIN;
	wire__open_op(
		cl, it,
		&(struct wire_op){
			.kind = kind_of(r->ask), .name = it->name, .to = other, .id = wire_id() });
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	ref = weka_ref_path(it->path);
	if (r->ask == ASK_UNLINK)
		return weka_submit_unlink(cl->c, &r->req, &ref);
	snprintf(it->to, sizeof(it->to), "/g%u/n%u", it->group, other);
	to = weka_ref_path(it->to);
	if (r->ask == ASK_LINK)
		return weka_submit_link(cl->c, &r->req, &ref, &to);
	return weka_submit_rename(cl->c, &r->req, &ref, &to,
				  r->ask == ASK_EXCHANGE ? WEKA_EXCHANGE : 0);
}

static int ask_attr(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	const struct wire_known *k = pick_handle(cl, it);
	const bool sets = r->ask == ASK_SET_ATTR;
	struct wire_op op = { .kind = sets ? WIRE_SET_ATTR : WIRE_GET_ATTR };
	struct weka_ref ref;

	if (!k || !wire_may_ask(k->group, wire__is_read(r->ask)) ||
	    (!sets && !take_window(cl, r, WEKA_BLOCK)))
		return -EAGAIN;
	op.object = k->object;
	r->value = op.id = wire_id();
	wire__open_op(cl, it, &op);
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	ref = weka_ref_handle(&k->handle);
	if (sets)
		return weka_submit_setxattr(cl->c, &r->req, &ref, "user.a", &r->value,
					    sizeof(r->value), 0);
	return weka_submit_getxattr(cl->c, &r->req, &ref, "user.a", &r->window);
}

/* One of the directories that come and go. */
static int ask_tree(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	const struct weka_create create = { .mode = 0755 };
	struct weka_ref ref;

	it->group = (uint32_t)below(cl, WIRE_TREES);
	if (!wire_may_ask(it->group, false))
		return -EAGAIN;
	wire__open_op(cl, it,
		      &(struct wire_op){ .kind = r->ask == ASK_MKDIR ? WIRE_MKDIR : WIRE_RMTREE,
					 .id = wire_id() });
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	snprintf(it->path, sizeof(it->path), "/g%u", it->group);
	ref = weka_ref_path(it->path);
	if (r->ask == ASK_MKDIR)
		return weka_submit_mkdir(cl->c, &r->req, &ref, &create, NULL);
	return weka_submit_rmtree(cl->c, &r->req, &ref);
}

static int ask_stat(struct wire_client *cl, struct wire_request *r)
{
	r->count = 1 + (uint32_t)below(cl, WIRE_ITEMS);
	for (uint32_t i = 0; i < r->count; i++) {
		struct wire_item *it = &r->item[i];

		wire__pick_name(cl, it);
		if (!wire_may_ask(it->group, wire__is_read(r->ask)))
			return -EAGAIN;
		wire__open_op(cl, it, &(struct wire_op){ .kind = WIRE_READ, .name = it->name });
		if (it->op < 0)
			return -EAGAIN;
		r->stat[i] = (struct weka_stat_item){ .ref = weka_ref_path(it->path) };
	}
	return weka_submit_stat(cl->c, &r->req, r->stat, r->count, NULL);
}

static int ask_list(struct wire_client *cl, struct wire_request *r)
{
	uint32_t group = (uint32_t)below(cl, WIRE_GROUPS);
	struct weka_ref ref;

	if (!wire_may_ask(group, wire__is_read(r->ask)) || !take_window(cl, r, 8192))
		return -EAGAIN;
	for (r->count = 0; r->count < WIRE_NAMES; r->count++) {
		struct wire_item *it = &r->item[r->count];

		it->group = group;
		it->name = r->count;
		it->op = -1;
		wire__open_op(cl, it, &(struct wire_op){ .kind = WIRE_READ, .name = it->name });
		if (it->op < 0)
			return -EAGAIN;
	}
	memset(&r->cookie, 0, sizeof(r->cookie));
	snprintf(r->item[0].path, sizeof(r->item[0].path), "/g%u", group);
	ref = weka_ref_path(r->item[0].path);
	return weka_submit_list(cl->c, &r->req, &ref, &r->cookie, r->entry, ARRAY_LEN(r->entry),
				&r->window);
}

static int ask_ping(struct wire_client *cl, struct wire_request *r)
{
	return weka_submit_ping(cl->c, &r->req);
}

/* ---- a long put: begin, pieces, commit ------------------------------------------------- */

static int long_begin(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	struct weka_create create = { .mode = 0644 };
	struct weka_ref ref;

	wire__pick_name(cl, it);
	if (it->group < WIRE_TREES) /* it would know the directory that was there when it began */
		return -EAGAIN;
	create.uid = it->id = wire_id();
	it->size = PIECE_MAX + (uint32_t)below(cl, (WIRE_PIECES - 1) * PIECE_MAX);
	r->count = 0; /* nothing that anybody could see, yet */
	r->stage = 0;
	r->at = 0;
	if (!take_window(cl, r, weka_window_bytes(1, PIECE_MAX + 4095)))
		return -EAGAIN;
	ref = weka_ref_path(it->path);
	return weka_submit_put_begin(cl->c, &r->req, &ref, &create, it->size, &r->attr);
}

int wire__long_next(struct wire_client *cl, struct wire_request *r)
{
	struct wire_item *it = &r->item[0];
	uint32_t size = min_u32(PIECE_MAX, it->size - r->at);

	if (r->at < it->size) {
		wire_bytes(it->id, r->at, r->window.lease->data, size);
		r->at += size;
		return weka_submit_write(cl->c, &r->req, &r->attr.handle, r->at - size, size, 0,
					 &r->window);
	}
	r->stage = 2;
	if (!wire_may_ask(it->group, wire__is_read(r->ask)))
		return -EAGAIN;
	wire__open_op(cl, it,
		      &(struct wire_op){
			      .kind = WIRE_PUT, .name = it->name, .id = it->id, .size = it->size });
	if (it->op < 0)
		return -EAGAIN;
	r->count = 1;
	return weka_submit_put_commit(cl->c, &r->req, &r->attr.handle, it->size);
}

/* ---- off it goes ----------------------------------------------------------------------- */

/* It went, or not: then nothing of it was seen. */
bool wire__sent(struct wire_client *cl, struct wire_request *r, int err, uint64_t now_ns)
{
	bool good = true;

	if (!err) {
		r->asked_ns = now_ns;
		r->late_ns = cl->late_ns;
		r->cancelled = false;
		wire_counts.requests++;
		return true;
	}
	if (err != -EAGAIN && err != -ENOTCONN && err != -EMSGSIZE)
		return sim_wrong("client %u: request %d is refused: %d", cl->index, r->ask, err);
	for (uint32_t i = 0; i < WIRE_ITEMS && good; i++) {
		struct wire_item *it = &r->item[i];

		if (it->op >= 0 && wire__is_read(r->ask))
			wire_dropped(it->group, it->op);
		else if (it->op >= 0)
			good = wire_not_done(it->group, it->op);
	}
	r->used = false;
	if (r->window.lease)
		wire__rest(cl, r->window.lease);
	return good;
}

static void set_timeout(struct wire_client *cl, struct wire_request *r)
{
	switch (below(cl, 10)) {
	case 0:
		r->timeout_ns = NS_PER_MS + below(cl, 3 * NS_PER_MS);
		break;
	case 1:
	case 2:
		r->timeout_ns = 20 * NS_PER_MS + below(cl, 300 * NS_PER_MS);
		break;
	case 3:
		r->timeout_ns = 20 * NS_PER_S;
		break;
	default:
		r->timeout_ns = WIRE_TIMEOUT_NS;
		return; /* as the options say */
	}
	r->req.timeout_ns = r->timeout_ns;
}

static const struct {
	int (*ask)(struct wire_client *cl, struct wire_request *r);
	uint32_t weight;
} asks[ASK_KINDS] = {
	[ASK_READ] = { ask_read, 20 },      [ASK_READ_HANDLE] = { ask_read_handle, 10 },
	[ASK_PUT] = { ask_put, 16 },        [ASK_APPEND] = { ask_write, 20 },
	[ASK_WRITE] = { ask_write, 10 },    [ASK_TRUNCATE] = { ask_truncate, 4 },
	[ASK_UNLINK] = { ask_name, 4 },     [ASK_RENAME] = { ask_name, 6 },
	[ASK_STAT] = { ask_stat, 6 },       [ASK_LIST] = { ask_list, 4 },
	[ASK_PING] = { ask_ping, 3 },       [ASK_LONG_PUT] = { long_begin, 5 },
	[ASK_PUNCH] = { ask_punch, 4 },     [ASK_EXCHANGE] = { ask_name, 4 },
	[ASK_OPEN] = { wire__ask_open, 8 }, [ASK_CLOSE] = { wire__ask_close, 3 },
	[ASK_LINK] = { ask_name, 5 },       [ASK_SET_ATTR] = { ask_attr, 4 },
	[ASK_GET_ATTR] = { ask_attr, 5 },   [ASK_MKDIR] = { ask_tree, 3 },
	[ASK_RMTREE] = { ask_tree, 1 },
};

static enum wire_ask pick_ask(struct wire_client *cl)
{
	uint32_t all = 0, dice, i = 0;

	for (uint32_t k = 0; k < ASK_KINDS; k++)
		all += asks[k].weight;
	dice = (uint32_t)below(cl, all);
	while (dice >= asks[i].weight)
		dice -= asks[i++].weight;
	return (enum wire_ask)i;
}

bool wire__ask(struct wire_client *cl, uint64_t now_ns)
{
	struct wire_request *r = &cl->request[below(cl, WIRE_REQUESTS)];

	if (r->used)
		return true;
	cl->asked++;
	memset(r, 0, sizeof(*r));
	r->used = true;
	r->ask = pick_ask(cl);
	for (uint32_t i = 0; i < WIRE_ITEMS; i++)
		r->item[i].op = -1;
	set_timeout(cl, r);
	return wire__sent(cl, r, asks[r->ask].ask(cl, r), now_ns);
}

/* It is out, and nothing else: what came of it. */
static bool last_look(struct wire_client *cl, int err, bool (*turn)(void))
{
	struct wire_request *r = &cl->request[0];

	if (!wire__sent(cl, r, err, clock_now_ns()))
		return false;
	if (!r->used)
		return sim_wrong("a last look is not taken");
	while (r->used)
		if (!turn())
			return false;
	return r->req.status == 0 || sim_wrong("a last look ends with %d", r->req.status);
}

static struct wire_request *first_request(struct wire_client *cl, enum wire_ask ask)
{
	struct wire_request *r = &cl->request[0];

	memset(r, 0, sizeof(*r));
	r->used = true;
	r->ask = ask;
	r->count = 1;
	r->timeout_ns = WIRE_TIMEOUT_NS;
	r->item[1].op = r->item[2].op = -1;
	return r;
}

bool wire__read_held(struct wire_client *cl, const struct wire_held *h, bool (*turn)(void))
{
	struct wire_request *r = first_request(cl, ASK_READ_HANDLE);

	r->item[0].group = h->group;
	wire__open_op(cl, &r->item[0],
		      &(struct wire_op){ .kind = WIRE_READ_HANDLE,
					 .object = h->object,
					 .size = WIRE_FILE_MAX });
	if (!take_window(cl, r, weka_window_bytes(1, WIRE_FILE_MAX)))
		return sim_wrong("no lease for a last look");
	return last_look(cl,
			 weka_submit_read(cl->c, &r->req, &h->handle, 0, WIRE_FILE_MAX, &r->window),
			 turn);
}

bool wire__read_one(struct wire_client *cl, uint32_t group, uint32_t name, bool (*turn)(void))
{
	struct wire_request *r = first_request(cl, ASK_READ);

	r->item[0] = (struct wire_item){ .group = group, .name = name };
	snprintf(r->item[0].path, sizeof(r->item[0].path), "/g%u/n%u", group, name);
	wire__open_op(cl, &r->item[0], &(struct wire_op){ .kind = WIRE_READ, .name = name });
	r->read[0] = (struct weka_read_item){ .ref = weka_ref_path(r->item[0].path),
					      .length_bytes = WEKA_TO_END };
	if (!take_window(cl, r, weka_window_bytes(1, WIRE_FILE_MAX)))
		return sim_wrong("no lease for a last look");
	return last_look(cl, weka_submit_read_batch(cl->c, &r->req, r->read, 1, &r->window), turn);
}
