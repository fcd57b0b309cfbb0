/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Creates and destroys a server, with all the memory that its limits require.
 *
 *   arena, for each session:  | requests | long bodies | free list | stream buffer |
 *
 * The arena is mapped without being touched: a session that never comes costs no page, and one that
 * has ended costs none any more.
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define SESSIONS_DEFAULT 64u
#define SESSIONS_LIMIT   (4096u + FAB_OPERATORS)
#define LANES_DEFAULT    4u
#define POOLS_DEFAULT    (UINT64_C(1) << 30)
#define HELLO_DEFAULT_NS UINT64_C(5000000000)

/* OpenSSL's of a connection, and ours: both ends of one together have 396 KiB of malloc's, whatever
 * went through it. */
#define TLS_BYTES (UINT64_C(256) << 10)

static const struct fab_limits limits_default = {
	.credits = 128,
	.long_bodies = 8,
	.batch_max = FAB_BATCH_MAX,
	.window_max_bytes = FAB_WINDOW_MAX,
	.pool_max_bytes = POOLS_DEFAULT,
};

void fab__wake(int fd)
{
	uint64_t one = 1;

	/* Full is as good: then it is readable. */
	ASSERT(write(fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

static int cfg_complete(struct fab_server_cfg *cfg)
{
	struct fab_limits *l = &cfg->limits;

	if (!l->credits)
		l->credits = limits_default.credits;
	if (!l->long_bodies)
		l->long_bodies = limits_default.long_bodies;
	if (!l->batch_max)
		l->batch_max = limits_default.batch_max;
	if (!l->window_max_bytes)
		l->window_max_bytes = limits_default.window_max_bytes;
	if (!l->pool_max_bytes)
		l->pool_max_bytes = limits_default.pool_max_bytes;
	if (!cfg->sessions_max)
		cfg->sessions_max = SESSIONS_DEFAULT;
	if (!cfg->lanes_max)
		cfg->lanes_max = LANES_DEFAULT;
	if (!cfg->pools_max_bytes)
		cfg->pools_max_bytes = POOLS_DEFAULT;
	if (!cfg->hello_timeout_ns)
		cfg->hello_timeout_ns = HELLO_DEFAULT_NS;
	if (!cfg->keys_max)
		cfg->keys_max = FAB_KEYS_DEFAULT;
	if (!cfg->core_count)
		cfg->core_count = 1;
	if (l->credits > FAB_CREDITS_MAX || l->long_bodies > FAB_LONG_MAX ||
	    l->batch_max > FAB_BATCH_MAX || l->window_max_bytes > FAB_WINDOW_MAX ||
	    l->window_max_bytes % BLOCK_SIZE != 0 || cfg->sessions_max > SESSIONS_LIMIT ||
	    cfg->keys_max > FAB_KEYS_MAX || cfg->lanes_max > FAB_LANES_MAX)
		return -EINVAL;
	return 0;
}

struct slice {
	uint64_t reqs, longs, frees, tcp, all; /* bytes */
};

static struct slice slice_of(const struct fab_limits *l)
{
	struct slice s = {
		.reqs = align_up(l->credits * sizeof(struct fab__req), BLOCK_SIZE),
		.longs = (uint64_t)l->long_bodies * FAB_LONG_BODY_MAX,
		.frees = align_up(l->credits * sizeof(uint16_t), BLOCK_SIZE),
		.tcp = align_up(sizeof(struct fab_tcp), BLOCK_SIZE),
	};

	s.all = s.reqs + s.longs + s.frees + s.tcp;
	ASSERT(s.all % BLOCK_SIZE == 0);
	return s;
}

uint64_t fab_server_session_bytes(const struct fab_server_cfg *given)
{
	struct fab_server_cfg cfg = *given;
	struct fab_shm_layout rings;
	uint64_t more;

	if (cfg_complete(&cfg))
		return 0;
	fab__shm_layout(&rings, &cfg.limits);
	more = max_u64(
		rings.size_bytes,
		fab__rdma_bytes(cfg.limits.credits, FAB_RDMA_SERVER_SENDS(cfg.limits.credits)));
	return slice_of(&cfg.limits).all + max_u64(more, TLS_BYTES);
}

/* One mapping for all that sessions need; the kernel gives pages as they are touched. */
static int arena_create(struct fab_server *srv)
{
	const struct slice slice = slice_of(&srv->cfg.limits);
	uint8_t *at;

	srv->arena_bytes = srv->cfg.sessions_max * slice.all;
	srv->arena = mmap(NULL, srv->arena_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (srv->arena == MAP_FAILED)
		return -ENOMEM;
	at = srv->arena;
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++) {
		struct fab__session *s = &srv->sessions[i];

		s->srv = srv;
		s->reqs = (void *)at;
		s->longs = at + slice.reqs;
		s->req_free = (void *)(at + slice.reqs + slice.longs);
		s->tcp = (void *)(at + slice.reqs + slice.longs + slice.frees);
		at += slice.all;
	}
	ASSERT(at == (uint8_t *)srv->arena + srv->arena_bytes);
	return 0;
}

void fab__session_pages_free(struct fab__session *s)
{
	ASSERT(s->at == SESSION_FREE);
	ASSERT((uintptr_t)s->reqs % BLOCK_SIZE == 0);
	/* Where all memory is locked it stays, as the daemon then wants it. */
	(void)madvise(s->reqs, slice_of(&s->srv->cfg.limits).all, MADV_DONTNEED);
}

static uint32_t ring_size(uint32_t messages)
{
	uint32_t size = 1;

	ASSERT(messages > 0 && messages <= 1u << 30);
	while (size < messages)
		size <<= 1;
	return size;
}

static int tables_create(struct fab_server *srv)
{
	/* For each place at most: LOST of the session before, OPENED, LOST, HALTED. */
	uint32_t size = ring_size(4 * srv->cfg.sessions_max);

	srv->sessions = calloc(srv->cfg.sessions_max, sizeof(*srv->sessions));
	srv->open = calloc(srv->cfg.sessions_max, sizeof(*srv->open));
	srv->slots = calloc((size_t)2 * size, sizeof(*srv->slots));
	if (!srv->sessions || !srv->open || !srv->slots)
		return -ENOMEM;
	spsc_init(&srv->to_core, srv->slots, size);
	spsc_init(&srv->to_control, srv->slots + size, size);
	return 0;
}

static int epoll_create_woken(struct fab_server *srv)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = NULL };

	ASSERT(srv->epoll_fd < 0 && srv->wake_fd < 0);
	srv->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (srv->epoll_fd < 0)
		return -errno;
	srv->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (srv->wake_fd < 0)
		return -errno;
	return epoll_ctl(srv->epoll_fd, EPOLL_CTL_ADD, srv->wake_fd, &ev) < 0 ? -errno : 0;
}

static void server_free(struct fab_server *srv)
{
	ASSERT(srv->open_count == 0 && srv->closing_count == 0);
	if (srv->wake_fd >= 0)
		close(srv->wake_fd);
	if (srv->epoll_fd >= 0)
		close(srv->epoll_fd);
	if (srv->arena)
		munmap(srv->arena, srv->arena_bytes);
	free(srv->slots);
	free(srv->open);
	free(srv->sessions);
	free(srv);
}

/* `first`: NULL, or whose control side it shares. */
static int create(struct fab_server **out, const struct fab_server_cfg *cfg,
		  struct fab_server *first)
{
	struct fab_server *srv = aligned_alloc(64, align_up(sizeof(*srv), 64));
	int err;

	if (!srv)
		return -ENOMEM;
	memset(srv, 0, sizeof(*srv));
	srv->cfg = *cfg;
	secret_wipe(&srv->cfg.key, sizeof(srv->cfg.key));
	srv->epoll_fd = -1;
	srv->wake_fd = -1;
	srv->next_deadline_ns = UINT64_MAX;
	srv->probe_ns = UINT64_MAX;
	list_init(&srv->dirty);
	list_init(&srv->closed);
	list_init(&srv->cancels);
	list_init(&srv->back);
	err = cfg_complete(&srv->cfg);
	if (!first) /* else they are in the first one's */
		srv->cfg.sessions_max += FAB_OPERATORS;
	if (!err)
		err = tables_create(srv);
	if (!err)
		err = arena_create(srv);
	if (!err)
		err = epoll_create_woken(srv);
	if (!err && !first)
		err = fab__control_create(srv, &cfg->key);
	if (err) {
		server_free(srv);
		return err;
	}
	if (first) {
		ASSERT(first->control->core_count < FAB_CORES_MAX);
		srv->control = first->control;
		srv->control->cores[srv->control->core_count++] = srv;
	}
	*out = srv;
	return 0;
}

int fab_server_create(struct fab_server **out, const struct fab_server_cfg *cfg)
{
	return create(out, cfg, NULL);
}

int fab_server_add(struct fab_server *first, struct fab_server **out)
{
	ASSERT(first->control->cores[0] == first);
	if (first->control->core_count == FAB_CORES_MAX)
		return -EINVAL;
	return create(out, &first->cfg, first);
}

void fab_server_destroy(struct fab_server *srv)
{
	ASSERT(list_empty(&srv->closed)); /* it was polled once more */
	ASSERT(list_empty(&srv->cancels) && list_empty(&srv->back));
	ASSERT(srv->open_count == 0);
	fab__control_destroy(srv);
	server_free(srv);
}

void fab_server_stop(struct fab_server *srv)
{
	atomic_store_explicit(&srv->stop, true, memory_order_relaxed);
	fab__wake(srv->wake_fd);
	fab__wake(srv->control->wake_fd);
}
