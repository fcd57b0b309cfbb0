/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Cleans up after a client: its unfinished puts on the core, its memory on the control thread.
 *
 *   PUT_BEGIN --> hidden --PUT_COMMIT--> gone, it has a name
 *                  | \--PUT_ABORT--> freed
 *                   \--its session closed--> aborts --an operation is free--> freed
 */
#include "appliance/core/app_op.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

/* ---- hidden files -------------------------------------------------------------------- */

struct app_hidden *app_hidden_find(struct app_core *core, const struct fab_session *session,
				   const struct meta_handle *handle)
{
	struct list *node;

	ASSERT(session->user);
	list_for_each (node, &core->hidden) {
		struct app_hidden *h = list_entry(node, struct app_hidden, link);

		if (h->session == session && !h->busy && h->handle.dir == handle->dir &&
		    h->handle.hash == handle->hash && h->handle.uniq == handle->uniq)
			return h;
	}
	return NULL;
}

void app_hidden_done(struct app_core *core, struct app_hidden *h)
{
	ASSERT(h->session && core->hidden_free_count < core->cfg.open_puts_max);
	list_del(&h->link);
	list_push_front(&core->hidden_free, &h->link);
	core->hidden_free_count++;
}

/* It had been done before (app_replay.c), or was cancelled. */
wk_cold void app_hidden_untouched(struct app_op *op)
{
	ASSERT(op->hidden->busy && op->hidden->session);
	op->hidden->busy = false;
	op->hidden = NULL;
}

static enum app_transport transport_of(const struct fab_session *session)
{
	switch (session->transport[0]) {
	case 's':
		return APP_SHM;
	case 't':
		return APP_TCP;
	default:
		return APP_RDMA;
	}
}

/* Returns a place that came back, or the next one, whose memory nothing has touched before. */
static struct app_session *take_place(struct app_core *core)
{
	struct list *node = list_pop_front(&core->session_free);
	struct app_session *s;

	if (node)
		return list_entry(node, struct app_session, link);
	ASSERT(core->sessions_used < APP_SESSIONS_MAX); /* the server has no more */
	s = &core->session[core->sessions_used++];
	list_init(&s->link);
	return s;
}

void app_session_opened(struct app_core *core, struct fab_session *session)
{
	struct app_session *s;

	ASSERT(core->life >= APP_SERVING && session->key <= FAB_KEYS_MAX);
	s = take_place(core);
	ASSERT(s->ops == 0 && s->staged_bytes == 0 && s->holds == 0 && s->puts == 0);
	s->fab = session;
	s->opened_ns = core->now_ns;
	s->requests = s->read_bytes = s->written_bytes = 0;
	s->report_ns = 0;
	s->root = app_is_confined(session) ? 0 : META_ROOT_DIR;
	s->who = app_who_of(session->rights);
	s->over = transport_of(session);
	s->streams = s->over != APP_SHM;
	core->sessions_open++;
	core->sessions_over[s->over]++;
	s->tight = false;
	s->proven_bytes = 0;
	session->user = s;
	app_turn_opened(core, s, &core->key[session->key]);
}

/* Every request of it was answered, so none of its files is busy. */
void app_session_closed(struct app_core *core, struct fab_session *session)
{
	struct list *node = core->hidden.next, *next;
	struct app_session *s = session->user;

	ASSERT(core->sessions_open > 0 && core->sessions_over[s->over] > 0);
	ASSERT(s->ops == 0 && s->staged_bytes == 0);
	ASSERT(s->in_flight == 0 && s->parts == 0 && s->table_bytes == 0);
	ASSERT(s->reads == 0 && s->asked_bytes == 0);
	for (; node != &core->hidden; node = next) {
		struct app_hidden *h = list_entry(node, struct app_hidden, link);

		next = node->next;
		if (h->session != session)
			continue;
		ASSERT(!h->busy);
		s->puts--;
		list_del(&h->link);
		list_push_back(&core->aborts, &h->link);
	}
	ASSERT(s->puts == 0);
	core->sessions_open--;
	core->sessions_over[s->over]--;
	app_holds_closed(core, s);
	app_turn_closed(core, s);
	s->fab = NULL;
	list_push_front(&core->session_free, &s->link);
}

void app_aborts_begin(struct app_core *core)
{
	while (unlikely(!list_empty(&core->aborts)) && core->op_free_count > 0) {
		struct app_op *op = app_op_take(core, APP_OP_ABORT, NULL);

		op->hidden = list_entry(list_pop_front(&core->aborts), struct app_hidden, link);
		ASSERT(!op->hidden->busy);
		app_op_run(op);
	}
}

enum app_next app_abort_step(struct app_op *op)
{
	struct app_hidden *h = op->hidden;

	ASSERT(h && !op->session);
	if (op->at == 0) {
		op->at = 1;
		op->meta.target = (struct meta_target){ .handle = h->handle };
		if (!app_op_meta(op, META_OP_PUT_ABORT))
			return APP_WAIT;
	}
	/* If it failed the next mount frees it: it is an orphan of this one. */
	app_hidden_done(op->core, h);
	op->hidden = NULL;
	return app_op_end(op, 0);
}

/* ---- control -------------------------------------------------------------------------- */

enum { EVENTS_MAX = 16 };

bool app_control_step(struct fab_server *srv, struct nvme_dma *dma, uint64_t now_ns)
{
	struct fab_control_event events[EVENTS_MAX];
	uint32_t count = fab_server_control_step(srv, now_ns, events, EVENTS_MAX);
	uint64_t iova;
	int err;

	ASSERT(count <= EVENTS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct fab_control_event *e = &events[i];

		switch (e->type) {
		case FAB_CONTROL_POOL_ADDED:
			err = nvme_dma_map_file(dma, e->memory, e->size_bytes, e->fd, 0, &iova);
			if (err)
				log_warn("WEKA-403: a client's pool of %llu bytes cannot be "
					 "mapped: %s",
					 (unsigned long long)e->size_bytes,
					 *nvme_dma_why(dma) ? nvme_dma_why(dma) : strerror(-err));
			fab_pool_ready(e->pool, err, err ? 0 : iova);
			break;
		case FAB_CONTROL_POOL_GONE:
			nvme_dma_unmap(dma, e->iova, e->size_bytes);
			fab_pool_release(e->pool);
			break;
		case FAB_CONTROL_REFUSED:
			log_warn("WEKA-401: refused: %s", e->text);
			break;
		case FAB_CONTROL_NOTICE:
			log_warn("WEKA-402: %s", e->text);
			break;
		}
	}
	return count == EVENTS_MAX;
}
