/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Linearizability: all clients must see the same results as one client that makes all their
 * requests, one after the other, in the order in which the store executed them.
 *
 *   requests, many at once --> the whole appliance, 1, 2 or 4 cores --> answers
 *                                       |
 *                                       | the moment of each: its last plan, or its apply
 *                                       v
 *   the same operations in the order of their moments --> order_model.c --> the same answers
 *
 * So an operation takes place in one moment between its request and its answer, whatever it walks
 * through: a path of directories that are moved, exchanged and removed meanwhile, symlinks, "..",
 * shards of several cores.  Compared are status, which file or directory it was (by handle, which
 * is nobody else's, ever), its type, size, names, bytes and target.  A listing in pages has each
 * name that was there throughout exactly once, and nothing that was not there when its page was
 * made.
 *
 * A plan is one moment, since nobody changes the records that it reads until it is over, and an
 * apply follows its plan within it (meta_op.c, meta_borrow.c); meta__tx_begin() shows where a plan
 * begins.
 *
 * usage: order [--seed N] [--ops N]
 */
#include "test/sim/order_ask.h"
#include "test/sim/sim_args.h"

#include "base/num.h"
#include "meta/meta_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEEDS     60u
#define STEPS_MAX 400000u

static uint64_t seed_now;

static struct {
	uint64_t overtaken, pages;
	uint64_t good[ORDER_KINDS], bad[ORDER_KINDS];
} seen;

/* ---- what went wrong ------------------------------------------------------------------------- */

static void describe(const struct order_answer *a)
{
	const struct order_op *o = &a->op;

	printf("# %8llu  %s%s%s%s", (unsigned long long)a->moment, order_kind_names[o->kind],
	       o->nofollow ? " (nofollow)" : "", o->excl ? " (excl)" : "",
	       o->exchange ? " (exchange)" : "");
	if (o->kind == ORDER_STAT_NODE || o->kind == ORDER_LIST)
		printf(" node %u", o->node);
	else
		printf(" %u:%s %s %s", o->dir, o->path, o->other, o->target);
	printf(": %d\n", a->status);
}

static bool wrong(const struct order_answer *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static bool wrong(const struct order_answer *a, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (const struct order_answer *x = order.answers; x <= a; x++)
		describe(x);
	printf("not ok seed %llu, operation %llu: %s: %s\n", (unsigned long long)seed_now,
	       (unsigned long long)order.ops, order_kind_names[a->op.kind], text);
	return false;
}

/* ---- compared -------------------------------------------------------------------------------- */

/* The handle of this node, and of no other, ever. */
static bool handle_is(const struct order_answer *a, uint32_t node, const struct fab_handle *h,
		      uint64_t dir)
{
	if (order.node_is[node].known)
		return memcmp(&order.node_is[node].handle, h, sizeof(*h)) == 0 ||
		       wrong(a, "it is another file than node %u", node);
	for (uint32_t i = 0; i < order.model.nodes; i++)
		if (order.node_is[i].known && memcmp(&order.node_is[i].handle, h, sizeof(*h)) == 0)
			return wrong(a, "node %u has the handle of node %u", node, i);
	if (order.model.node[node].type == ORDER_DIR && !dir)
		return true; /* a put's answer says less; so does nobody of a directory */
	order.node_is[node].known = true;
	order.node_is[node].handle = *h;
	order.node_is[node].dir = dir;
	return true;
}

static bool attr_is(const struct order_answer *a, uint32_t node, const struct fab_attr *attr)
{
	static const mode_t types[] = { S_IFREG, S_IFDIR, S_IFLNK };
	const struct order_node *n = &order.model.node[node];
	const uint64_t size = n->type == ORDER_FILE  ? order_bytes_of(n->content)
			      : n->type == ORDER_DIR ? order_model_count(&order.model, node)
						     : strlen(n->target);

	if ((attr->mode & S_IFMT) != types[n->type])
		return wrong(a, "mode %o", attr->mode);
	if (attr->size_bytes != size && !n->gone)
		return wrong(a, "size %llu, not %llu", (unsigned long long)attr->size_bytes,
			     (unsigned long long)size);
	if (n->type != ORDER_DIR && !n->gone &&
	    (attr->nlink < n->names || attr->nlink > n->names + n->names_late))
		return wrong(a, "%u names, not %u", attr->nlink, n->names);
	return handle_is(a, node, &attr->handle, attr->dir);
}

static bool page_is(const struct order_answer *a)
{
	struct order_listing *l = &order.listing[a->listing];

	if (l->begun == UINT64_MAX)
		l->begun = order.model.moment;
	seen.pages++;
	for (uint32_t i = 0; i < a->entries; i++) {
		const char *name = a->entry[i].name;
		const struct order_entry *e = order_model_entry(&order.model, l->node, name);

		if (!e)
			return wrong(a, "%s is listed, and is not there", name);
		if (!attr_is(a, e->node, &a->entry[i].attr))
			return false;
		l->seen[name[0] - 'a']++;
		if (l->seen[name[0] - 'a'] > 1 && e->born <= l->begun)
			return wrong(a, "%s is listed twice", name);
	}
	for (uint32_t i = 0; a->at_end && i < ORDER_NAMES; i++) {
		const char name[] = { (char)('a' + i), 0 };
		const struct order_entry *e = order_model_entry(&order.model, l->node, name);

		if (e && e->born <= l->begun && l->seen[i] != 1)
			return wrong(a, "%s was there throughout, and was not listed", name);
	}
	l->used = !a->at_end;
	return true;
}

/* The files of a removed tree are freed gradually; until then their handles are good. */
static bool may_differ(const struct order_answer *a, int want)
{
	const struct order_node *n = &order.model.node[a->op.node];
	const bool freed_later = n->with_tree && !n->top;

	if (!want || (a->op.kind != ORDER_LIST && a->op.kind != ORDER_STAT_NODE))
		return false;
	return freed_later || (a->op.kind == ORDER_LIST && a->status == -ENOENT);
}

static bool compare(const struct order_answer *a)
{
	uint32_t node;
	const int want = order_model_do(&order.model, &a->op, &node);

	if (a->status != want && !may_differ(a, want))
		return wrong(a, "%s, not %s", a->status ? strerror(-a->status) : "done",
			     want ? strerror(-want) : "done");
	(a->status ? seen.bad : seen.good)[a->op.kind]++;
	if (a->op.kind == ORDER_LIST && (a->status || want)) {
		order.listing[a->listing].used = false;
		return true;
	}
	if (a->status)
		return true;
	if (a->op.kind == ORDER_LIST)
		return page_is(a);
	if (a->op.kind == ORDER_READ && order.model.node[node].type == ORDER_FILE &&
	    (a->content != order.model.node[node].content ||
	     a->bytes != order_bytes_of(order.model.node[node].content)))
		return wrong(a, "%u bytes of put %u, not %u", a->bytes, a->content,
			     order.model.node[node].content);
	if (a->op.kind == ORDER_READLINK && strcmp(a->target, order.model.node[node].target) != 0)
		return wrong(a, "%s, not %s", a->target, order.model.node[node].target);
	if (a->has_handle && !handle_is(a, node, &a->handle, 0))
		return false;
	return !a->has_attr || attr_is(a, node, &a->attr);
}

static int earlier(const void *a, const void *b)
{
	const struct order_answer *x = a, *y = b;

	return x->moment < y->moment ? -1 : x->moment > y->moment;
}

static bool look(void)
{
	for (uint32_t i = 1; i < order.answered; i++)
		seen.overtaken += order.answers[i].moment < order.answers[i - 1].moment;
	qsort(order.answers, order.answered, sizeof(*order.answers), earlier);
	for (uint32_t i = 0; i < order.answered; i++)
		if (!compare(&order.answers[i]))
			return false;
	order.answered = 0;
	return true;
}

/* ---- runs --------------------------------------------------------------------------------- */

static bool epoch(uint32_t in_flight)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t begun = 0, out = 0;

	in_flight = order_ask_epoch(in_flight);
	for (uint32_t steps = 0; order.answered < ORDER_EPOCH; steps++) {
		uint32_t count;

		if (steps == STEPS_MAX) {
			sim_world_describe(&order.w);
			return sim_wrong("seed %llu: nothing comes back",
					 (unsigned long long)seed_now);
		}
		while (begun < ORDER_EPOCH && out < in_flight && order_ask_one()) {
			begun++;
			out++;
		}
		if (rand_below(&order.rnd, 100) == 0) /* pages get other places */
			meta__ckpt_want(app_core_meta(order.w.core));
		count = sim_world_step(&order.w, done, SIM_CALLS_MAX);
		for (uint32_t i = 0; i < count; i++)
			order_ask_take(done[i]);
		out -= count;
	}
	return look();
}

static bool run(uint64_t seed, uint64_t ops)
{
	static const uint32_t cores[] = { 4, 2, 1, 4, 2 };
	const struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = 2,
		.nblocks = 4096,
		.nshards = 1u << seed % 7,
		.lend_after = 1,
		.ncores = cores[seed % ARRAY_LEN(cores)],
		.ops_max = 8,
		.cache_bytes = 4u << 20,
		.atomic_bytes = 4096,
	};
	const struct sim_faults faults = { .delay_max_ns = seed % 2 ? 60000 : 0 };
	const uint64_t until = order.ops + ops;
	bool good = true;

	seed_now = seed;
	sim_begins(seed);
	rand_seed(&order.rnd, seed);
	order_ask_begin();
	sim_world_create(&order.w, &cfg);
	if (sim_world_begin(&order.w, APP_BOOT_FORMAT))
		return sim_wrong("seed %llu: format: %s", (unsigned long long)seed, order.w.why);
	sim_world_faults(&order.w, &faults);
	while (good && order.ops < until && order_model_has_room(&order.model, ORDER_EPOCH))
		good = epoch(1 + (uint32_t)rand_below(&order.rnd, SIM_CALLS_MAX));
	if (good && sim_world_check(&order.w))
		good = sim_wrong("seed %llu: %s", (unsigned long long)seed, order.w.why);
	sim_world_cut(&order.w, seed);
	sim_world_destroy(&order.w);
	return good;
}

int main(int argc, char **argv)
{
	const struct sim_args args = sim_args(argc, argv, "ops", 6000, 60000);
	const uint64_t seeds = args.one_seed ? 1 : SEEDS;

	for (uint64_t i = 0; i < seeds; i++)
		if (!run(args.seed + i, args.count))
			return 1;
	for (uint32_t i = 0; i < ORDER_KINDS && !args.one_seed; i++)
		if (!seen.good[i] || !seen.bad[i]) {
			printf("not ok %s: %llu succeeded, %llu failed\n", order_kind_names[i],
			       (unsigned long long)seen.good[i], (unsigned long long)seen.bad[i]);
			return 1;
		}
	printf("ok %llu operations in the order of their moments, %llu answered in another; %llu "
	       "pages of listings, %llu changes made on other cores, seeds %llu to %llu\n",
	       (unsigned long long)order.ops, (unsigned long long)seen.overtaken,
	       (unsigned long long)seen.pages, (unsigned long long)sim_world_made,
	       (unsigned long long)args.seed, (unsigned long long)(args.seed + seeds - 1));
	return 0;
}
