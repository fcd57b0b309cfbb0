/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/order_ask.h"

#include "appliance/core/app_op.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "fabric/client/fab_client_internal.h"
#include "meta/plans/meta_plan.h"

#include <stdio.h>
#include <string.h>

#define SUMS_AT (96u << 10)
#define SLOTS   1024u

struct ask {
	struct order_answer is;
	struct sim_call *call;
	uint64_t id;
	uint32_t core;
	struct fab_name name[1];
	struct fab_put_item put;
	struct fab_read_item read;
};

struct order_run order;

static struct ask ask[SIM_CALLS_MAX];
static uint32_t contents;
static bool trees; /* some are removed in this epoch */
static bool own;   /* each connection keeps to a directory: its shard may be lent */
static uint32_t own_dir[SIM_CORES_MAX];

/* ---- the witness ----------------------------------------------------------------------------- */

static struct {
	uint64_t id, moment;
} moment_of[SIM_CORES_MAX][SLOTS];
static uint64_t moments;

void __real_meta__tx_begin(struct meta *m, struct meta_op *op);
void __wrap_meta__tx_begin(struct meta *m, struct meta_op *op);
void __wrap_meta__tx_begin(struct meta *m, struct meta_op *op)
{
	const struct app_op *a = container_of(op, struct app_op, meta);

	moments++;
	if ((int)op->type < META__OP_FREE_ORPHAN && op->owner == a && a->session) {
		const struct fab_req *req = a->batch ? a->batch->req : a->req;

		moment_of[a->core->cfg.index][req->id % SLOTS].id = req->id;
		moment_of[a->core->cfg.index][req->id % SLOTS].moment = moments;
	}
	__real_meta__tx_begin(m, op);
}

/* ---- what is asked --------------------------------------------------------------------------- */

static uint32_t below(uint32_t bound)
{
	return (uint32_t)rand_below(&order.rnd, bound);
}

uint32_t order_bytes_of(uint32_t content)
{
	static const uint32_t bytes[] = { 8, 96, 2500, 5004 };

	return bytes[content % ARRAY_LEN(bytes)];
}

static void pick_path(char out[ORDER_PATH], bool absolute)
{
	const uint32_t parts = own ? 1 : 1 + below(4);
	uint32_t at = 0;

	if (absolute)
		out[at++] = '/';
	for (uint32_t i = 0; i < parts; i++) {
		const bool dots = !own && below(100) < 8;

		if (dots)
			at += (uint32_t)snprintf(out + at, ORDER_PATH - at, "%s",
						 below(3) ? ".." : ".");
		else
			out[at++] = (char)('a' + below(ORDER_NAMES));
		if (i + 1 < parts)
			out[at++] = '/';
	}
	out[at] = 0;
}

/* One that is known; mostly one that is there. */
static uint32_t pick_node(bool dir)
{
	for (int tries = 0; tries < 20; tries++) {
		uint32_t n = below(order.model.nodes);

		if (order.node_is[n].known && (!dir || order.model.node[n].type == ORDER_DIR) &&
		    (!order.model.node[n].gone || (tries > 12 && !order.model.node[n].with_tree)))
			return n;
	}
	return ORDER_NONE;
}

static enum order_kind pick_kind(void)
{
	static const struct {
		uint32_t percent;
		enum order_kind kind;
	} mix[] = {
		{ 17, ORDER_PUT },      { 14, ORDER_MKDIR }, { 6, ORDER_SYMLINK },
		{ 7, ORDER_UNLINK },    { 6, ORDER_RMDIR },  { 16, ORDER_RENAME },
		{ 5, ORDER_GIVE_LINK }, { 2, ORDER_RMTREE }, { 11, ORDER_STAT },
		{ 4, ORDER_STAT_NODE }, { 8, ORDER_READ },   { 4, ORDER_READLINK },
	};
	uint32_t at = below(100);

	for (uint32_t i = 0; i < ARRAY_LEN(mix); i++) {
		if (at < mix[i].percent)
			return mix[i].kind == ORDER_RMTREE && !trees ? ORDER_STAT : mix[i].kind;
		at -= mix[i].percent;
	}
	return ORDER_STAT;
}

static struct fab_name by_path(const struct order_op *o, const char *path)
{
	struct fab_name n = {
		.by = o->dir == ORDER_ROOT ? FAB_BY_PATH : FAB_BY_DIR,
		.nofollow = o->nofollow,
		.name = path,
		.name_bytes = (uint16_t)strlen(path),
		.dir = o->dir == ORDER_ROOT ? 0 : order.node_is[o->dir].dir,
	};

	return n;
}

static void fill(struct ask *a)
{
	const uint32_t bytes = order_bytes_of(a->is.op.content);
	uint32_t *words = (uint32_t *)(void *)a->call->window;
	uint32_t *sums = (uint32_t *)(void *)(a->call->window + SUMS_AT);

	for (uint32_t i = 0; i < bytes / 4; i++)
		words[i] = a->is.op.content;
	for (uint32_t at = 0; at < bytes; at += BLOCK_SIZE)
		*sums++ = crc32c_block(a->call->window + at, min_u32(bytes - at, BLOCK_SIZE));
	a->put = (struct fab_put_item){
		.name = a->name[0],
		.mode = 0640,
		.flags = a->is.op.excl ? FAB_PUT_EXCL : 0,
		.mtime_ns = 1,
		.size_bytes = bytes,
		.sums_at = SUMS_AT,
	};
}

static void request(struct ask *a)
{
	const struct order_op *o = &a->is.op;
	struct fab_call *c = &a->call->call;
	static const enum fab_type types[ORDER_KINDS] = {
		FAB_PUT,        FAB_MKDIR,    FAB_SYMLINK, FAB_UNLINK, FAB_RMDIR,
		FAB_RENAME,     FAB_LINK,     FAB_RMTREE,  FAB_STAT,   FAB_STAT,
		FAB_READ_BATCH, FAB_READLINK, FAB_LIST,
	};

	c->type = types[o->kind];
	a->name[0] = by_path(o, o->path);
	switch (o->kind) {
	case ORDER_PUT:
		fill(a);
		c->args.batch.count = 1;
		c->args.batch.puts = &a->put;
		break;
	case ORDER_READ:
		a->read = (struct fab_read_item){ .name = a->name[0], .length_bytes = FAB_TO_END };
		c->args.batch.count = 1;
		c->args.batch.reads = &a->read;
		break;
	case ORDER_STAT_NODE:
	case ORDER_STAT:
		if (o->kind == ORDER_STAT_NODE)
			a->name[0] = (struct fab_name){ .by = FAB_BY_HANDLE,
							.handle = order.node_is[o->node].handle };
		c->args.batch.count = 1;
		c->args.batch.names = a->name;
		break;
	case ORDER_LIST:
		c->args.list.dir = (struct fab_name){ .by = FAB_BY_HANDLE,
						      .handle = order.node_is[o->node].handle };
		c->args.list.count_max = ORDER_PAGE;
		memcpy(c->args.list.cookie, order.listing[a->is.listing].cookie, FAB_COOKIE_BYTES);
		break;
	case ORDER_MKDIR:
		c->args.make.name = a->name[0];
		c->args.make.mode = 0755;
		break;
	case ORDER_SYMLINK:
		c->args.symlink.name = a->name[0];
		c->args.symlink.target = o->target;
		c->args.symlink.target_bytes = (uint16_t)strlen(o->target);
		break;
	case ORDER_RENAME:
	case ORDER_GIVE_LINK:
		c->args.rename.from = a->name[0];
		c->args.rename.to = by_path(o, o->other);
		c->args.rename.to.nofollow = false;
		if (o->kind == ORDER_RENAME)
			c->args.rename.from.nofollow = false;
		c->args.rename.flags = o->exchange ? FAB_RENAME_EXCHANGE
				       : o->excl   ? FAB_RENAME_NOREPLACE
						   : 0;
		break;
	default:
		c->args.name.name = a->name[0];
	}
}

static bool needs_window(enum order_kind kind)
{
	return kind == ORDER_PUT || kind == ORDER_READ || kind == ORDER_LIST ||
	       kind == ORDER_STAT || kind == ORDER_STAT_NODE;
}

static void submit(struct ask *a)
{
	const struct fab_conn *conn = order.w.conn[a->call->lane];

	request(a);
	a->call->user = a;
	sim_world_submit(&order.w, a->call, needs_window(a->is.op.kind));
	a->core = fab_conn_place(conn)->core;
	a->id = conn->slots[fab__call_inside(&a->call->call)->slot].id;
	order.ops++;
}

static void pick(struct order_op *o, uint32_t lane)
{
	*o = (struct order_op){ .kind = pick_kind(), .dir = ORDER_ROOT };
	if (own && (o->kind == ORDER_MKDIR || o->kind == ORDER_RMDIR))
		o->kind = o->kind == ORDER_MKDIR ? ORDER_PUT : ORDER_UNLINK; /* of one shard */
	if (o->kind == ORDER_STAT_NODE) {
		o->node = pick_node(false);
		if (o->node == ORDER_NONE)
			o->kind = ORDER_STAT;
	}
	/* The number of a directory in a removed tree is good for a while, with undefined
	 * results. */
	if (own)
		o->dir = own_dir[lane];
	else if (!trees && below(4) == 0)
		o->dir = pick_node(true);
	if (o->dir == ORDER_NONE)
		o->dir = ORDER_ROOT;
	pick_path(o->path, false);
	o->nofollow =
		o->kind == ORDER_READLINK ||
		((o->kind == ORDER_STAT || o->kind == ORDER_PUT || o->kind == ORDER_GIVE_LINK) &&
		 below(3) == 0);
	if (o->kind == ORDER_PUT) {
		o->content = ++contents;
		o->excl = below(4) == 0;
	}
	if (o->kind == ORDER_SYMLINK)
		pick_path(o->target, below(2));
	if (o->kind == ORDER_RENAME || o->kind == ORDER_GIVE_LINK)
		pick_path(o->other, false);
	if (o->kind == ORDER_RENAME) {
		o->exchange = below(4) == 0;
		o->excl = !o->exchange && below(5) == 0;
	}
}

/* The next page of a listing, or the first one of another. */
static bool pick_listing(struct order_answer *a)
{
	struct order_listing *l = &order.listing[a->listing = below(ORDER_LISTINGS)];

	if (l->busy)
		return false;
	if (!l->used) {
		uint32_t node = pick_node(true);

		if (node == ORDER_NONE)
			return false;
		*l = (struct order_listing){ .used = true, .node = node, .begun = UINT64_MAX };
	}
	l->busy = true;
	a->op = (struct order_op){ .kind = ORDER_LIST, .node = l->node };
	return true;
}

bool order_ask_one(void)
{
	struct sim_call *c =
		own ? sim_world_call_on(&order.w, below(order.w.ncores)) : sim_world_call(&order.w);

	for (uint32_t i = 0; c && i < SIM_CALLS_MAX; i++) {
		struct ask *a = &ask[i];

		if (a->call)
			continue;
		*a = (struct ask){ .call = c };
		if (own || below(8) != 0 || !pick_listing(&a->is))
			pick(&a->is.op, c->lane);
		submit(a);
		return true;
	}
	return false;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void take_file(struct ask *a)
{
	struct fab_answer item;
	const uint32_t *words;

	ASSERT(fab_call_answer(&a->call->call, 0, &item) == 0);
	a->is.status = item.status;
	if (item.status)
		return;
	if (a->is.op.kind == ORDER_PUT) {
		a->is.has_handle = true;
		a->is.handle = item.handle;
		return;
	}
	words = (const uint32_t *)(const void *)(a->call->window + item.data_at);
	a->is.bytes = (uint32_t)item.length_bytes;
	a->is.content = a->is.bytes >= 4 ? words[0] : 0;
	for (uint32_t i = 0; i < a->is.bytes / 4; i++)
		if (words[i] != a->is.content)
			a->is.content = 0; /* of several puts */
}

static void take_list(struct ask *a)
{
	struct fab_entry e;
	uint32_t at = 0, count;
	int got;

	ASSERT(fab_call_listed(&a->call->call, &count, &a->is.at_end,
			       order.listing[a->is.listing].cookie) == 0);
	while ((got = fab_call_entry(&a->call->call, &at, &e)) == 1) {
		ASSERT(a->is.entries < ORDER_PAGE && e.name_bytes < sizeof(a->is.entry[0].name));
		snprintf(a->is.entry[a->is.entries].name, sizeof(a->is.entry[0].name), "%.*s",
			 (int)e.name_bytes, e.name);
		a->is.entry[a->is.entries++].attr = e.attr;
	}
	ASSERT(got == 0);
}

void order_ask_take(struct sim_call *back)
{
	struct ask *a = back->user;
	const struct fab_call *c = &a->call->call;
	const enum order_kind kind = a->is.op.kind;

	a->is.status = c->status;
	ASSERT(moment_of[a->core][a->id % SLOTS].id == a->id);
	a->is.moment = moment_of[a->core][a->id % SLOTS].moment;
	if (c->status == 0 && (kind == ORDER_PUT || kind == ORDER_READ)) {
		take_file(a);
	} else if (c->status == 0 && kind == ORDER_LIST) {
		take_list(a);
	} else if (c->status == 0 && kind == ORDER_READLINK) {
		snprintf(a->is.target, sizeof(a->is.target), "%.*s", (int)c->length_bytes,
			 (const char *)c->data);
	} else if (c->status == 0 && (kind == ORDER_STAT || kind == ORDER_STAT_NODE ||
				      kind == ORDER_MKDIR || kind == ORDER_SYMLINK)) {
		a->is.status = fab_call_attr(c, 0, &a->is.attr);
		a->is.has_attr = a->is.status == 0;
	}
	if (kind == ORDER_LIST)
		order.listing[a->is.listing].busy = false;
	order.answers[order.answered++] = a->is;
	a->call->in_flight = false;
	a->call = NULL;
}

/* ---- runs, epochs ---------------------------------------------------------------------------- */

void order_ask_begin(void)
{
	memset(ask, 0, sizeof(ask));
	memset(moment_of, 0, sizeof(moment_of));
	memset(order.listing, 0, sizeof(order.listing));
	memset(order.node_is, 0, sizeof(order.node_is));
	order.answered = 0;
	order_model_begin(&order.model);
}

uint32_t order_ask_epoch(uint32_t in_flight)
{
	own = below(3) == 0;
	trees = !own && below(4) == 0;
	for (uint32_t i = 0; i < order.w.ncores; i++)
		own_dir[i] = pick_node(true);
	return own ? min_u32(in_flight, order.w.ncores) : in_flight; /* no change waits: lent */
}
