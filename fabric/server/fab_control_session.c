/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The control side's part of sessions and their pools: descriptors and mappings.
 *
 *   pool, shm:
 *   POOL_ADD -> MAKING -> OFFERED --fab_pool_ready()--> READY -> (session over) -> ENDED -> FREE
 *                           |  FAB_CONTROL_POOL_ADDED                  FAB_CONTROL_POOL_GONE
 *                           +-- status < 0: FREE
 *
 * A POOL_ADD with a descriptor offers memory of the client's own; one without asks for memory.
 *
 * A pool of 1 GiB has 262,144 pages, which take about a second to make.  Each control step makes
 * STEP_BYTES of the first pool on pools_making and moves it to the end, so that hellos and small
 * pools do not wait for a large one.
 *
 * Invariants:
 *  (1) A session's place is used from fab__control_open() until the core has sent MESSAGE_CLOSED
 *      and every offered pool was released.
 *  (2) A pool's memory is unmapped only when its place is FREE: no command names it any more.
 *  (3) The control side owns a pool's descriptor only until the client has it, or, if it was the
 *      client's, until the memory is mapped.
 */
#include "fabric/hello/fab_server_internal.h"
#include "fabric/link/fab_tls.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STEP_BYTES (UINT64_C(2) << 20)

/* ---- a session begins --------------------------------------------------------------- */

/* A client that asks for few requests asks for them on the first lane only. */
static bool has_fewer(const struct fab_server *a, const struct fab_server *b)
{
	ASSERT(a->firsts <= a->places_used && b->firsts <= b->places_used);
	return a->firsts == b->firsts ? a->places_used < b->places_used : a->firsts < b->firsts;
}

/* The core with the fewest sessions' first lanes; of several, they take turns. */
static struct fab_server *core_find(struct fab_control *c)
{
	struct fab_server *found = c->cores[c->core_next];

	ASSERT(c->core_count > 0 && c->core_count <= FAB_CORES_MAX);
	ASSERT(c->core_next < c->core_count);
	for (uint32_t i = 1; i < c->core_count; i++) {
		struct fab_server *core = c->cores[(c->core_next + i) % c->core_count];

		if (has_fewer(core, found))
			found = core;
	}
	c->core_next = (c->core_next + 1) % c->core_count;
	return found;
}

/* Returns the core that a lane asked for. */
static struct fab_server *core_for(struct fab_control *c, const struct fab_hello *h)
{
	uint32_t wish = le16_get(h->hello.lane.core);

	return fab__hello_joins(h) && wish < c->core_count ? c->cores[wish] : core_find(c);
}

static uint32_t core_number(const struct fab_server *core)
{
	uint32_t i = 0;

	while (core->control->cores[i] != core)
		i++;
	ASSERT(i < core->control->core_count);
	return i;
}

/* Returns true for an operator's session, which is let in with a small pool even when clients have
 * taken all that they may. */
static bool is_operator(const struct fab_control *c, const struct fab_hello *h)
{
	const struct fab_rights *r = fab__keys_rights(&c->keys, h->key_slot);

	ASSERT(h->key_slot != FAB_KEY_NONE);
	return h->limits.credits <= FAB_OPERATOR_CREDITS && !fab__hello_joins(h) && r->may_write &&
	       !r->has_uid && r->subtree[0] == '\0';
}

/* Places that are left; the last are for operators. */
static uint32_t places_free(const struct fab_server *srv, bool for_operator)
{
	uint32_t kept = for_operator ? 0 : FAB_OPERATORS;
	uint32_t used = srv->control->session_count + kept;

	ASSERT(srv->control->session_count <= srv->cfg.sessions_max);
	return srv->cfg.sessions_max - min_u32(used, srv->cfg.sessions_max);
}

static struct fab__session *place_find(const struct fab_server *srv, bool for_operator)
{
	if (places_free(srv, for_operator) == 0)
		return NULL;
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++)
		if (!srv->sessions[i].control.used)
			return &srv->sessions[i];
	return NULL;
}

/* fds: the appliance's doorbell, the client's, and where the latter is rung: for sending only. */
static int doorbells_open(int fds[3])
{
	int pair[2];

	fds[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fds[0] < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fds[1] = pair[0];
	fds[2] = pair[1];
	return shutdown(fds[2], SHUT_RD) ? -errno : 0;
}

static int ring_open(struct fab__session *s, struct fab_arrival *g)
{
	const struct fab_limits *limits = &g->hello.limits;
	struct fab_shm_layout layout;
	void *memory;
	int fds[4] = { -1, -1, -1, -1 };
	ssize_t sent;
	int err;

	ASSERT(s->control.doorbells[0] < 0 && s->control.doorbells[1] < 0);
	fab__shm_layout(&layout, limits);
	err = fab__memfd_create("weka-session", layout.size_bytes, &fds[0], &memory);
	if (err)
		return err;
	/* Not the long bodies: few clients use them, and the first touch makes their pages. */
	err = fab__memory_populate(memory, layout.bodies_at);
	if (!err)
		err = doorbells_open(&fds[1]);
	if (err)
		goto undo;
	sent = fab__send_fds(g->fd, g->hello.out, g->hello.out_bytes, fds, 3);
	if (sent != (ssize_t)g->hello.out_bytes) {
		err = -ECONNRESET;
		goto undo;
	}
	close(fds[0]);
	close(fds[2]);
	s->control.doorbells[0] = fds[1];
	s->control.doorbells[1] = fds[3];
	fab__shm_init(&s->shm, memory, limits, true, fds[3]);
	fab__session_open(s, &s->shm.link, limits, g->hello.key_id, g->hello.place.session_id);
	return 0;

undo:
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	fab__memory_unmap(memory, layout.size_bytes);
	return err;
}

static int stream_open(struct fab__session *s, struct fab_arrival *g)
{
	uint32_t at = 0;

	ASSERT(g->fd >= 0 && !s->control.tls);
	/* The kernel may take it in pieces; a peer without room for so few bytes does not read. */
	while (at < g->hello.out_bytes) {
		ssize_t sent = fab__arrival_send(g, g->hello.out + at, g->hello.out_bytes - at);

		if (sent <= 0)
			return -ECONNRESET;
		at += (uint32_t)sent;
	}
	fab__tcp_init(s->tcp, g->fd, g->tls);
	s->control.tls = g->tls;
	fab__session_open(s, &s->tcp->link, &g->hello.limits, g->hello.key_id,
			  g->hello.place.session_id);
	return 0;
}

/* All receives are posted before the client may use its credits: WELCOME is what tells it. */
static int verbs_open(struct fab__session *s, struct fab_arrival *g)
{
	const struct fab_limits *limits = &g->hello.limits;
	struct fab_rdma *r = g->rdma;
	ssize_t sent;
	int err;

	ASSERT(r && r->owner == g && !r->owner_is_session);
	err = fab__rdma_longs(r, s->longs, (uint64_t)limits->long_bodies * FAB_LONG_BODY_MAX);
	if (!err)
		err = fab__rdma_receives(r, limits->credits);
	if (err)
		return err;
	sent = fab__rdma_hello_send(r, g->hello.out, g->hello.out_bytes);
	if (sent != (ssize_t)g->hello.out_bytes)
		return -ECONNRESET;
	r->owner = s;
	r->owner_is_session = true;
	s->rdma = r;
	g->rdma = NULL;
	fab__session_open(s, &r->link, limits, g->hello.key_id, g->hello.place.session_id);
	return 0;
}

static void key_enter(struct fab__session *s, uint32_t slot)
{
	struct fab__keys *keys = &s->srv->control->keys;

	ASSERT(!s->control.has_key && slot < keys->max);
	s->control.has_key = true;
	s->control.key_slot = slot;
	fab__keys_enter(keys, slot);
	s->pub.key = slot;
	s->pub.rights = fab__keys_rights(keys, slot);
	s->pub.rate = fab__keys_rate(keys, slot);
}

/* Is what this connection began something that the newcomer could ask for again? */
static bool is_before(const struct fab__session *s, const struct fab_hello *h, uint64_t client)
{
	ASSERT(client != 0);
	if (!s->control.used || s->control.core_done || s->pub.client != client)
		return false;
	return !fab__hello_joins(h) || (s->pub.id == le64_get(h->hello.lane.session_id) &&
					s->pub.lane == le16_get(h->hello.lane.number));
}

bool fab__control_alone(struct fab_server *srv, const struct fab_hello *h)
{
	uint64_t client = fab__lanes_client(&srv->control->lanes, h);
	bool alone = true;

	for (uint32_t i = 0; i < srv->control->core_count && client; i++)
		for (uint32_t k = 0; k < srv->cfg.sessions_max; k++) {
			struct fab__session *s = &srv->control->cores[i]->sessions[k];

			if (!is_before(s, h, client))
				continue;
			fab__control_lost(s);
			alone = false;
		}
	return alone;
}

/* Before WELCOME: remembers the client, and then tells it so. */
static void welcome(struct fab__session *s, struct fab_hello *h, uint64_t id, uint64_t client,
		    uint32_t core)
{
	struct fab_control *c = s->srv->control;

	ASSERT(id != 0 && core < s->srv->control->core_count);
	atomic_store_explicit(&s->here, client, memory_order_relaxed);
	h->mark = atomic_load_explicit(&c->mark, memory_order_relaxed);
	h->forgotten = atomic_load_explicit(&c->forgotten, memory_order_relaxed);
	fab__hello_welcome(h, id, core);
}

void fab__control_take(struct fab__session *s, bool first)
{
	struct fab_server *core = s->srv;

	ASSERT(!s->control.used && s->at == SESSION_FREE); /* (1) */
	s->control.used = true;
	s->control.first = first;
	core->places_used++;
	core->firsts += first;
	core->control->session_count++;
	ASSERT(core->places_used <= core->cfg.sessions_max);
	ASSERT(core->control->session_count <= core->cfg.sessions_max);
}

int fab__control_open(struct fab_server *srv, struct fab_arrival *g)
{
	struct fab_control *c = srv->control;
	bool joins = fab__hello_joins(&g->hello);
	struct fab_server *core = core_for(c, &g->hello);
	const bool is_one = is_operator(c, &g->hello);
	struct fab__session *s = place_find(core, is_one), *holder = NULL;
	uint64_t id = le64_get(g->hello.hello.lane.session_id), client;
	int err = 0;

	if (joins)
		err = fab__lanes_may_enter(&c->lanes, &g->hello, places_free(srv, false), &holder);
	if (holder)
		fab__control_lost(holder);
	if (err || !s)
		return err ? err : -EUSERS;
	ASSERT(g->hello.out_bytes == 0);
	ASSERT(g->hello.at == HELLO_DONE && !g->refused);
	if (!joins)
		id = fab__lanes_begin(&c->lanes, &g->hello);
	s->control = (struct fab__session_control){
		.watch.type = WATCH_SESSION,
		.is_operator = is_one,
		.fd = g->fd,
		.doorbells = { -1, -1 },
		.in_fd = -1,
	};
	client = fab__lanes_client(&c->lanes, &g->hello);
	welcome(s, &g->hello, id, client, core_number(core));
	if (g->transport == FAB_TRANSPORT_SHM)
		err = ring_open(s, g);
	else
		err = g->transport == FAB_TRANSPORT_RDMA ? verbs_open(s, g) : stream_open(s, g);
	if (err) {
		atomic_store_explicit(&s->here, 0, memory_order_relaxed);
		if (!joins)
			fab__lanes_undo(&c->lanes, id);
		return err;
	}
	fab__control_take(s, le16_get(g->hello.hello.lane.number) == 0);
	memcpy(s->control.peer, g->peer, sizeof(g->peer));
	key_enter(s, g->hello.key_slot);
	fab__lanes_enter(&c->lanes, s, le16_get(g->hello.hello.lane.number));
	s->pub.client = client;
	s->pub.forgotten = g->hello.forgotten;
	if (s->direct && fab__control_watch(srv, g->fd, &s->control.watch))
		s->control.deaf = true; /* reported to the core below */
	s->opened = (struct fab_message){ .type = MESSAGE_OPENED, .session = s };
	ASSERT(spsc_push(&core->to_core, &s->opened));
	fab__wake(core->wake_fd);
	if (s->control.deaf) /* nobody would hear of its end: it ends now, and comes again */
		fab__control_lost(s);
	return 0;
}

/* ---- pools over shm ----------------------------------------------------------------- */

static struct fab_control *control_of(struct fab_pool *pool)
{
	return pool->session->srv->control;
}

void fab__control_lost(struct fab__session *s)
{
	ASSERT(s->control.used);
	if (s->control.lost_told)
		return;
	s->control.lost_told = true;
	if (s->direct)
		fab__control_unwatch(s->srv, s->control.fd);
	if (s->control.core_done)
		return;
	s->lost = (struct fab_message){ .type = MESSAGE_LOST, .session = s };
	ASSERT(spsc_push(&s->srv->to_core, &s->lost));
	fab__wake(s->srv->wake_fd);
}

static void pool_answer(struct fab_pool *pool, int status)
{
	struct fab__session *s = pool->session;
	struct fab_pool_wire body = { .size_bytes = le64_of(status ? 0 : pool->size_bytes) };
	struct fab_hdr_wire w;

	ASSERT(status <= 0 && s->direct);
	if (s->control.lost_told || s->control.core_done)
		return;
	fab__hdr_build(&w, FAB_POOL_ADDED, 0);
	w.window_region = le16_of((uint16_t)pool->region);
	w.deadline = le32_of((uint32_t)status);
	w.body_bytes = le32_of(sizeof(body));
	memcpy(w.small, &body, sizeof(body));
	w.check = le32_of(fab__hdr_check(&w));
	/* It has room for this much, unless the client has stopped reading. */
	if (fab__send_fds(s->control.fd, &w, sizeof(w), &pool->fd,
			  status == 0 && !pool->client_owned) != sizeof(w))
		fab__control_lost(s);
}

static void pool_forget(struct fab_pool *pool)
{
	struct fab__session *s = pool->session;

	/* (2) */
	ASSERT(pool->at == POOL_MAKING || pool->at == POOL_OFFERED || pool->at == POOL_ENDED);
	ASSERT(s->control.pools_out > 0 && s->pools_bytes >= pool->size_bytes);
	ASSERT(control_of(pool)->pools_bytes >= pool->size_bytes);
	list_del(&pool->due_node);
	if (pool->fd >= 0)
		close(pool->fd);
	pool->fd = -1;
	fab__memory_unmap(pool->memory, pool->size_bytes);
	control_of(pool)->pools_bytes -= pool->size_bytes;
	s->pools_bytes -= pool->size_bytes;
	pool->memory = NULL;
	pool->at = POOL_FREE;
	s->control.pools_out--;
}

static uint64_t pools_left(const struct fab_server *srv, uint64_t most_bytes)
{
	return most_bytes - min_u64(srv->control->pools_bytes, most_bytes);
}

static uint64_t pools_most(const struct fab_server *srv)
{
	return srv->cfg.pools_max_bytes + FAB_OPERATORS * FAB_OPERATOR_POOL;
}

/* Returns the bytes that the session may still have in pools. */
static uint64_t pool_room(const struct fab__session *s)
{
	const struct fab_server *srv = s->srv;
	uint64_t own = s->pub.limits.pool_max_bytes - s->pools_bytes;
	uint64_t left = min_u64(own, pools_left(srv, srv->cfg.pools_max_bytes));

	ASSERT(s->direct && s->control.used);
	ASSERT(s->pools_bytes <= s->pub.limits.pool_max_bytes);
	if (s->control.is_operator && s->pools_bytes == 0)
		left = max_u64(left, min_u64(min_u64(own, FAB_OPERATOR_POOL),
					     pools_left(srv, pools_most(srv))));
	return left;
}

/* `fd`: the client's memory, which is the pool's after success; -1: makes memory. */
static int pool_make(struct fab_pool *pool, uint64_t size, int fd)
{
	struct fab__session *s = pool->session;
	struct fab_server *srv = s->srv;
	uint64_t left = pool_room(s);
	int err;

	ASSERT(pool->at == POOL_FREE && pool->fd < 0);
	ASSERT(!pool->memory && size > 0);
	pool->client_owned = fd >= 0;
	if (size > left || align_up(size, FAB_POOL_ALIGN) > left)
		return -ENOSPC;
	if (pool->client_owned && size % FAB_POOL_ALIGN != 0)
		return -EINVAL;
	size = align_up(size, FAB_POOL_ALIGN);
	err = pool->client_owned ? fab__memfd_take(fd, size, &pool->memory)
				 : fab__memfd_create("weka-pool", size, &pool->fd, &pool->memory);
	if (err)
		return err;
	if (pool->client_owned)
		pool->fd = fd;
	ASSERT(pool->memory && pool->fd >= 0); /* (2), (3) */
	pool->size_bytes = size;
	pool->made_bytes = 0;
	pool->at = POOL_MAKING;
	pool->event_out = false;
	s->pools_bytes += size;
	srv->control->pools_bytes += size;
	s->control.pools_out++;
	ASSERT(s->control.pools_out <= FAB_POOLS_MAX);
	ASSERT(srv->control->pools_bytes <= pools_most(srv));
	list_init(&pool->due_node);
	list_push_back(&srv->control->pools_making, &pool->due_node);
	return 0;
}

void fab__control_pools_step(struct fab_server *srv)
{
	struct list *node = list_pop_front(&srv->control->pools_making);
	struct fab_pool *pool;
	uint64_t bytes;
	int err;

	if (likely(!node))
		return;
	pool = list_entry(node, struct fab_pool, due_node);
	ASSERT(pool->at == POOL_MAKING && pool->made_bytes < pool->size_bytes);
	bytes = min_u64(STEP_BYTES, pool->size_bytes - pool->made_bytes);
	err = fab__memory_populate((uint8_t *)pool->memory + pool->made_bytes, bytes);
	if (err) {
		pool_answer(pool, err);
		pool_forget(pool);
		return;
	}
	pool->made_bytes += bytes;
	if (pool->made_bytes < pool->size_bytes) {
		list_push_back(&srv->control->pools_making, &pool->due_node);
		return;
	}
	ASSERT(pool->made_bytes == pool->size_bytes);
	pool->at = POOL_OFFERED;
	list_push_back(&srv->control->pools_due, &pool->due_node);
}

/* Answers a POOL_ADD.  `fd`: the descriptor that came with it, or -1.  Returns true if the pool has
 * the descriptor. */
static bool pool_request(struct fab__session *s, const struct fab_hdr_wire *w, int fd)
{
	struct fab_pool_wire body;
	struct fab_pool *pool;
	struct fab_hdr hdr;
	int err;

	memcpy(&body, w->small, sizeof(body));
	if (fab__hdr_parse(&hdr, w) || fab__hdr_check(w) != le32_get(w->check) ||
	    hdr.type != FAB_POOL_ADD || hdr.body_bytes != sizeof(body) || hdr.window_region == 0 ||
	    hdr.window_region > FAB_POOLS_MAX || le64_get(body.size_bytes) == 0 ||
	    s->pools[hdr.window_region - 1].at != POOL_FREE) {
		fab__refused(s->srv, "shm", s->control.peer,
			     "its session ended: it broke the protocol at a pool");
		fab__control_lost(s);
		return false;
	}
	pool = &s->pools[hdr.window_region - 1];
	ASSERT(pool->session == s && pool->region == hdr.window_region);
	err = pool_make(pool, le64_get(body.size_bytes), fd);
	if (err)
		pool_answer(pool, err);
	return !err;
}

static void in_fd_close(struct fab__session_control *c)
{
	ASSERT(c->used && c->in_fd >= -1);
	if (c->in_fd >= 0)
		close(c->in_fd);
	c->in_fd = -1;
}

void fab__control_input(struct fab__session *s)
{
	struct fab__session_control *c = &s->control;
	struct fab_hdr_wire w;
	uint32_t fd_count;
	ssize_t got;
	int fd;

	ASSERT(c->in_bytes < sizeof(c->in));
	if (c->lost_told)
		return;
	got = fab__recv_fds(c->fd, c->in + c->in_bytes, sizeof(c->in) - c->in_bytes, &fd, 1,
			    &fd_count);
	if (got == -EAGAIN)
		return;
	if (fd_count == 1) { /* a client that sends several has the last one looked at */
		in_fd_close(c);
		c->in_fd = fd;
	}
	if (got <= 0) {
		fab__control_lost(s);
		return;
	}
	c->in_bytes += (uint32_t)got;
	if (c->in_bytes < sizeof(w))
		return;
	c->in_bytes = 0;
	memcpy(&w, c->in, sizeof(w));
	if (pool_request(s, &w, c->in_fd))
		c->in_fd = -1;
	in_fd_close(c);
}

/* ---- messages of the core ----------------------------------------------------------- */

static void session_release(struct fab__session *s)
{
	struct fab__session_control *c = &s->control;

	if (!c->core_done || c->pools_out > 0)
		return;
	ASSERT(c->used && s->at == SESSION_FREE); /* (1) */
	ASSERT(s->srv->places_used > 0 && s->srv->control->session_count > 0);
	ASSERT(s->srv->firsts >= c->first);
	for (int i = 0; i < 2; i++)
		if (c->doorbells[i] >= 0)
			close(c->doorbells[i]);
	if (s->direct)
		fab__memory_unmap(s->shm.memory, s->shm.memory_bytes);
	if (c->has_key)
		fab__keys_leave(&s->srv->control->keys, c->key_slot);
	c->has_key = false;
	if (c->in_session)
		fab__lanes_leave(&s->srv->control->lanes, s);
	fab__session_pages_free(s);
	c->used = false;
	s->srv->places_used--;
	s->srv->firsts -= c->first;
	s->srv->control->session_count--;
}

static void pool_end(struct fab_pool *pool)
{
	ASSERT(pool->fd < 0 && pool->memory); /* (3) */
	ASSERT(pool->at == POOL_READY);
	pool->at = POOL_ENDED;
	list_push_back(&control_of(pool)->pools_due, &pool->due_node);
}

void fab_pool_ready(struct fab_pool *pool, int status, uint64_t iova)
{
	struct fab__session *s = pool->session;

	ASSERT(status <= 0 && pool->memory && pool->fd >= 0);
	ASSERT(pool->at == POOL_OFFERED && pool->event_out);
	pool->event_out = false;
	if (status) {
		pool_answer(pool, status);
		pool_forget(pool);
		session_release(s);
		return;
	}
	pool->iova = iova;
	pool->at = POOL_READY;
	fab__pool_publish(pool);
	pool_answer(pool, 0);
	close(pool->fd);
	pool->fd = -1;
	if (s->control.core_done)
		pool_end(pool);
}

void fab_pool_release(struct fab_pool *pool)
{
	struct fab__session *s = pool->session;

	ASSERT(pool->at == POOL_ENDED && !list_linked(&pool->due_node));
	pool_forget(pool);
	session_release(s);
}

/* The core has done with a session: its pools go, then its place. */
static void session_ended(struct fab__session *s)
{
	struct fab__session_control *c = &s->control;

	ASSERT(c->used && !c->core_done);
	if (s->direct && !c->lost_told)
		fab__control_unwatch(s->srv, c->fd);
	in_fd_close(c);
	c->lost_told = true;
	c->core_done = true;
	atomic_store_explicit(&s->here, 0, memory_order_relaxed);
	fab__session_refusals(s);
	fab__tls_free(c->tls);
	c->tls = NULL;
	if (s->onesided)
		fab__rdma_free(s->rdma); /* c->fd is its channel's */
	else if (c->fd >= 0)             /* a simulated network has none */
		close(c->fd);
	s->rdma = NULL;
	for (uint32_t i = 0; i < FAB_POOLS_MAX && s->direct; i++) {
		struct fab_pool *pool = &s->pools[i];

		if (pool->at == POOL_READY)
			pool_end(pool);
		else if (pool->at == POOL_MAKING || (pool->at == POOL_OFFERED && !pool->event_out))
			pool_forget(pool); /* it was not announced */
	}
	session_release(s);
}

static void halt(struct fab__session *s)
{
	ASSERT(s->onesided && s->rdma && s->control.used); /* fab_rdma_listen.c (1) */
	fab__rdma_halt(s->rdma);
	s->halted = (struct fab_message){ .type = MESSAGE_HALTED, .session = s };
	ASSERT(spsc_push(&s->srv->to_core, &s->halted));
	fab__wake(s->srv->wake_fd);
}

void fab__control_messages(struct fab_server *srv)
{
	struct fab_message *m;

	for (uint32_t i = 0; i < srv->control->core_count; i++)
		while ((m = spsc_pop(&srv->control->cores[i]->to_control)) != NULL) {
			ASSERT(m->type == MESSAGE_CLOSED || m->type == MESSAGE_HALT);
			if (m->type == MESSAGE_HALT)
				halt(m->session);
			else
				session_ended(m->session);
		}
}

uint32_t fab__control_pool_events(struct fab_server *srv, struct fab_control_event *events,
				  uint32_t events_max)
{
	uint32_t n = 0;

	while (n < events_max && !list_empty(&srv->control->pools_due)) {
		struct fab_pool *pool = list_entry(list_pop_front(&srv->control->pools_due),
						   struct fab_pool, due_node);

		ASSERT(pool->at == POOL_OFFERED || pool->at == POOL_ENDED);
		ASSERT(!pool->event_out && pool->memory);
		pool->event_out = pool->at == POOL_OFFERED;
		events[n++] = (struct fab_control_event){
			.type = pool->at == POOL_OFFERED ? FAB_CONTROL_POOL_ADDED
							 : FAB_CONTROL_POOL_GONE,
			.pool = pool,
			.memory = pool->memory,
			.size_bytes = pool->size_bytes,
			.fd = pool->fd,
			.iova = pool->iova,
		};
	}
	return n;
}
