/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The open files of a load: compared, and let go at its end, when nothing may be left of them. */
#include "test/sim/sim_load_internal.h"
#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>

#define LINGER_NS (61 * NS_PER_S) /* what appliance/core/app_hold.c says, and some */

__attribute__((format(printf, 2, 3))) static bool wrong(struct sim_load *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->why, sizeof(l->why), fmt, ap);
	va_end(ap);
	return false;
}

static struct fab_name name_of(const struct sim_load *l, const struct sim_node *n)
{
	return (struct fab_name){ .by = FAB_BY_HANDLE, .handle = l->hold[n->path[1] - '0'].handle };
}

/* Names that a directory has. */
static uint32_t names_of(const struct sim_load *l, const struct sim_state *s)
{
	uint32_t names = 0;

	for (uint32_t i = 0; i < l->model->count; i++)
		names += l->model->node[i].state == s && !sim_is_hold(l->model->node[i].path);
	return names;
}

static bool links_are(struct sim_load *l, const struct sim_node *n)
{
	struct fab_name name = name_of(l, n);
	struct sim_call *c = sim_world_call(l->w);
	struct fab_attr attr;

	c->call.type = FAB_STAT;
	c->call.args.batch.count = 1;
	c->call.args.batch.names = &name;
	if (sim_world_do(l->w, c, true) || c->call.status)
		return wrong(l, "%s: stat: %d", n->path, c->call.status);
	if (fab_call_attr(&c->call, 0, &attr))
		return wrong(l, "%s: stat: %d", n->path, fab_call_attr(&c->call, 0, &attr));
	return attr.nlink == names_of(l, n->state) ||
	       wrong(l, "%s: %u links, %u names", n->path, attr.nlink, names_of(l, n->state));
}

static bool bytes_are(struct sim_load *l, const struct sim_node *n)
{
	struct fab_read_item item = { .name = name_of(l, n), .length_bytes = FAB_TO_END };
	struct sim_call *c = sim_world_call(l->w);

	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &item;
	return (sim_world_do(l->w, c, true) == 0 && c->call.status == 0 &&
		sim_answer_holds(c, 0, n->state)) ||
	       wrong(l, "%s: not what was written", n->path);
}

bool sim_load_holds(struct sim_load *l)
{
	for (uint32_t i = 0; i < l->model->count; i++) {
		const struct sim_node *n = &l->model->node[i];

		if (sim_is_hold(n->path) && (!links_are(l, n) || !bytes_are(l, n)))
			return false;
	}
	return true;
}

static bool let_go(struct sim_load *l, const struct sim_node *n)
{
	struct fab_name name = name_of(l, n);
	struct sim_call *c = sim_world_call_on(l->w, l->hold[n->path[1] - '0'].lane);

	c->call.type = FAB_LET_GO;
	c->call.args.batch.count = 1;
	c->call.args.batch.names = &name;
	return (sim_world_do(l->w, c, false) == 0 && !c->call.status &&
		!fab_call_status(&c->call, 0)) ||
	       wrong(l, "%s: let go: %d", n->path, c->call.status);
}

bool sim_load_all_let_go(struct sim_load *l, bool closes)
{
	struct sim_world *w = l->w;
	struct meta_check found = { 0 };
	uint64_t until;

	for (uint32_t i = 0; !closes && i < l->model->count; i++)
		if (sim_is_hold(l->model->node[i].path) && !let_go(l, &l->model->node[i]))
			return false;
	sim_model_let_go(l->model);
	sim_world_disconnect(w);
	until = w->power.now_ns + (closes ? LINGER_NS : NS_PER_S);
	while (w->power.now_ns < until)
		sim_world_turn(w);
	sim_world_settle(w);
	if (sim_world_check_all(w, &found))
		return wrong(l, "check: %s", found.first[0]);
	return found.inodes == sim_model_inodes(l->model) + 1 ||
	       wrong(l, "%u files, links and directories are left over",
		     (uint32_t)found.inodes - sim_model_inodes(l->model) - 1);
}
