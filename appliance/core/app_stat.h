/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A core's counters, and questions about them; private to appliance/core/ and tests. */
#ifndef APP_STAT_H
#define APP_STAT_H

#include "appliance/core/app_op.h"

/* Counts an answer with `status`, which is below 0. */
wk_cold void app_stat_ended(struct app_core *core, int status);
/* Counts bytes of files, to and from a client. */
static inline void app_stat_read(struct app_op *op, uint64_t bytes)
{
	op->core->stat.read_bytes += bytes;
	op->session->read_bytes += bytes;
}
static inline void app_stat_written(struct app_op *op, uint64_t bytes)
{
	op->core->stat.written_bytes += bytes;
	op->session->written_bytes += bytes;
}
/* Adds this core's share. */
void app_stat_add(struct app_core *core, struct app_snapshot *s);
/* The request is being answered.  The answer leaves at the end of this turn, so how long it took is
 * known when the next one begins. */
static inline void app_stat_took(struct app_core *core, const struct fab_req *req)
{
	const struct app_session *s = req->session->user;
	struct app_latency *of = &core->latency[s->over][req->type];

	DASSERT(core->took_count <= APP_TOOK_MAX && core->now_ns >= req->arrived_ns);
	if (likely(core->took_count < APP_TOOK_MAX))
		core->took[core->took_count++] = (struct app_took){ of, req->arrived_ns };
	else
		app_latency_add(of, core->now_ns - req->arrived_ns);
}
/* A turn begins. */
static inline void app_stat_turn(struct app_core *core)
{
	ASSERT(core->took_count <= APP_TOOK_MAX);
	for (uint32_t i = 0; i < core->took_count; i++)
		app_latency_add(core->took[i].of, core->now_ns - core->took[i].arrived_ns);
	core->took_count = 0;
}

/* ---- app_ask.c ----------------------------------------------------------------------------- */

/* Handles a request for a snapshot.  The store's core. */
void app_ask_turn(struct app_core *core);
void app_ask_answer(struct app_op *op);

#endif
