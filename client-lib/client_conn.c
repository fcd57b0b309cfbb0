/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A client and its sessions.  The drawing shows a session's first connection; client_lane.c has the
 * others.
 *
 *          retry_ns        agreed         memory is shared
 *    DOWN ---------> HELLO --------> POOL -------------------> UP
 *     ^ ^              | failed       | failed                 | broke
 *     | +-next address-+--------------+                        |
 *     +--------------------------------------------------------+
 *
 * Over tcp and rdma the pool is the client's own memory, registered with each connection: a new
 * session gets the same.  Over shm the pool is the appliance's memory.  Then the old session's
 * memory stays until the new one's exists, because leases have bytes in it that the caller may be
 * reading in any thread.  Their bytes are copied, and the new memory takes over the old address
 * range in one step.  A drive that still writes for the old session writes to memory that nobody
 * reads.
 *
 * Invariants:
 *
 *  (1) `memory` never changes.  It is the client's own, or that of the region of lane 0, which then
 *      stays, even broken, until another session is UP.
 *  (2) `next` is set in HELLO and POOL only.
 *  (3) In any state but UP the fabric has no call: all came back when the connection broke.
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"
#include "base/rand.h"
#include "base/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define POOL_ALIGN     (2u << 20) /* pools are whole multiples: PROTOCOL.md 4 */
#define BACKOFF_MIN_NS (10 * NS_PER_MS)
#define BACKOFF_MAX_NS NS_PER_S

static _Thread_local char connect_error[512];

const char *weka_version(void)
{
	return WEKA_CLIENT_VERSION;
}

const char *weka_error(const struct weka_client *c)
{
	const char *stray = client__stray(c);

	return stray ? stray : c ? c->error : connect_error;
}

/* ---- connecting ---------------------------------------------------------------------- */

/* Errors that may pass: many clients connect at once, or a peer was cut off. */
bool client__may_pass(int err)
{
	ASSERT(err < 0);
	switch (err) {
	case -EAGAIN:
	case -EBUSY:
	case -ECONNABORTED:
	case -ECONNRESET:
	case -EPIPE:
	case -ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/*
 * Every address has failed.  The pause before the next round grows, and half of it is random, so
 * that clients that failed together do not come back together.
 */
static wk_cold void round_failed(struct weka_client *c)
{
	uint64_t pause_ns = min_u64(BACKOFF_MIN_NS << min_u32(c->rounds, 10), BACKOFF_MAX_NS);
	struct rand_state jitter;

	ASSERT(c->at == CLIENT_DOWN && !c->next.conn); /* (2) */
	ASSERT(c->address_at == c->address_count);
	pause_ns = max_u64(pause_ns, min_u64(c->busy_ns, CLIENT_HOLD_MAX_MS * NS_PER_MS));
	rand_seed(&jitter, c->retry_ns ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)c);
	c->retry_ns += pause_ns / 2 + rand_below(&jitter, pause_ns);
	c->address_at = 0;
	c->rounds++;
	c->may_pass = c->passing;
	if (c->memory && c->denied && !c->passing && !c->dead) {
		c->dead = -EACCES;
		client__end_pending(c, c->dead);
	}
	c->passing = false;
	c->denied = false;
	c->busy_ns = 0;
}

static wk_cold void try_failed(struct weka_client *c, uint64_t now_ns, int err, const char *why)
{
	ASSERT(err < 0 && c->at != CLIENT_UP && c->lanes_up == 0);
	ASSERT(c->address_at < c->address_count);
	c->conn_error = err;
	c->passing |= client__may_pass(err);
	c->denied |= err == -EACCES;
	if (c->next.conn)
		c->busy_ns =
			max_u64(c->busy_ns, fab_conn_retry_ms(c->next.conn) * (uint64_t)NS_PER_MS);
	if (!why || !why[0])
		why = strerror(-err);
	snprintf(c->link_error, sizeof(c->link_error), "%.110s: %.140s",
		 c->addresses[c->address_at], why);
	client__unwatch(c, &c->next);
	if (c->next.conn)
		fab_close(c->next.conn);
	c->next.conn = NULL;
	c->next.region = NULL;
	memset(c->next.added, 0, sizeof(c->next.added));
	c->at = CLIENT_DOWN;
	c->retry_ns = now_ns;
	c->address_at++;
	if (c->address_at == c->address_count)
		round_failed(c);
}

static void try_begin(struct weka_client *c, uint64_t now_ns)
{
	struct fab_connect_cfg cfg = {
		.address = c->addresses[c->address_at],
		.key = *c->key,
		.want = c->want,
	};
	int err;

	ASSERT(c->at == CLIENT_DOWN && !c->next.conn); /* (2) */
	ASSERT(c->address_at < c->address_count && c->key);
	memcpy(cfg.client_id, c->id, sizeof(cfg.client_id));
	err = fab_connect(&c->next.conn, &cfg, now_ns);
	secret_wipe(&cfg.key, sizeof(cfg.key));
	if (err) {
		try_failed(c, now_ns, err, c->next.conn ? fab_conn_error(c->next.conn) : NULL);
		return;
	}
	c->at = CLIENT_HELLO;
}

/* Registers the client's own pool again, if the transport can. */
static int pool_begin(struct weka_client *c)
{
	uint64_t bytes = align_down(fab_conn_limits(c->next.conn)->pool_max_bytes, POOL_ALIGN);
	int err = -EOPNOTSUPP;

	ASSERT(c->next.conn && !c->next.region);
	ASSERT(!c->memory_ours || c->memory); /* (1) */
	if (c->memory_ours)
		err = fab_pool_lend(c->next.conn, c->memory, c->pool_bytes, -1, &c->next.region);
	if (err == -EOPNOTSUPP)
		err = fab_pool_add(c->next.conn, min_u64(c->pool_bytes, bytes), &c->next.region);
	return err ? err : client__added_begin(c, &c->next);
}

/* A caller that asked for a pool size does not get a smaller pool. */
static wk_cold void pool_refused(struct weka_client *c, uint64_t now_ns)
{
	char why[200];

	ASSERT(c->at == CLIENT_HELLO);
	snprintf(why, sizeof(why),
		 "pool_bytes is %llu, but a client is granted %llu: ask for less, or raise "
		 "session_pools_max",
		 (unsigned long long)c->pool_wish_bytes,
		 (unsigned long long)fab_conn_limits(c->next.conn)->pool_max_bytes);
	try_failed(c, now_ns, -ENOSPC, why);
}

static void try_hello(struct weka_client *c, uint64_t now_ns)
{
	int err = fab_connect_step(c->next.conn, now_ns);

	ASSERT(c->next.conn && !c->next.region); /* (2) */
	if (err == -EINPROGRESS)
		return;
	if (!err && c->pool_wish_bytes > fab_conn_limits(c->next.conn)->pool_max_bytes) {
		pool_refused(c, now_ns);
		return;
	}
	if (!err)
		err = pool_begin(c);
	if (err) {
		try_failed(c, now_ns, err,
			   err == -EOPNOTSUPP ? "memory of weka_pool_add() is no memfd, and shm "
						"needs one"
					      : fab_conn_error(c->next.conn));
		return;
	}
	c->at = CLIENT_POOL;
	c->try_until_ns = client__after(now_ns, c->connect_timeout_ns);
}

/* Maps the new memory over the old, if there is one. */
static int memory_adopt(struct weka_client *c, struct fab_region *region)
{
	char *fresh = fab_region_memory(region);
	int err;

	ASSERT(fresh && fab_region_size(region) > 0);
	if (fresh == c->memory)
		return 0;
	/* Takes page faults now; pages that fail here fault later. */
	(void)madvise(fresh, fab_region_size(region), MADV_POPULATE_WRITE);
	if (c->memory) {
		if (fab_region_size(region) < c->pool_bytes)
			return -ENOSPC;
		client__leases_copy(c, fresh);
		err = fab_region_replace(region, c->memory, c->pool_bytes);
		if (err)
			return err;
		if (c->lanes[0].region)
			fab_region_keep(c->lanes[0].region); /* it no longer has memory */
		client__leases_found(c);
	} else {
		c->memory = fresh;
		c->pool_bytes = fab_region_size(region);
	}
	client__poison_forget(c);
	c->memory_ours = strcmp(fab_conn_transport(c->next.conn), "shm") != 0;
	if (c->memory_ours)
		fab_region_keep(region);
	return 0;
}

/* Switches to the new session, whose memory is ready. */
static int adopt(struct weka_client *c)
{
	const struct fab_limits *limits = fab_conn_limits(c->next.conn);
	bool is_first = c->memory == NULL;
	int err = memory_adopt(c, c->next.region);

	ASSERT(c->at == CLIENT_POOL && c->next.conn && c->next.region); /* (2) */
	ASSERT(c->lanes_up == 0);                                       /* (3) */
	if (err)
		return err;
	client__lanes_close(c); /* over shm: it no longer has memory */
	c->counters.reconnects += !is_first;
	c->lanes[0].conn = c->next.conn;
	c->lanes[0].region = c->next.region;
	memcpy(c->lanes[0].added, c->next.added, sizeof(c->lanes[0].added));
	ASSERT(client__added_status(c, &c->lanes[0]) == 0); /* client_pool.c (1) */
	c->lanes[0].watched = c->next.watched;
	ASSERT(!c->next.armed);
	c->lanes[0].at = CLIENT_UP;
	c->lanes[0].life = ++c->lives;
	c->lanes_up = 1;
	c->next = (struct client_lane){ .watched = -1 };
	ASSERT(fab_region_memory(c->lanes[0].region) == c->memory); /* (1) */
	c->place = *fab_conn_place(c->lanes[0].conn);
	c->foreign = 0;
	c->window_max_bytes = limits->window_max_bytes;
	c->batch_items_max = min_u32(c->want.batch_max, limits->batch_max);
	c->address_up = c->address_at;
	c->lanes[0].address = c->lanes[0].via = (uint8_t)c->address_up;
	c->address_at = 0;
	c->rounds = 0;
	c->dead = 0;
	c->at = CLIENT_UP;
	client__lanes_plan(c);
	ASSERT(!c->next.conn && c->lane_count > 0); /* (2) */
	return 0;
}

static void try_pool(struct weka_client *c, uint64_t now_ns)
{
	struct fab_call *none;
	int err;

	ASSERT(c->next.conn && c->next.region); /* (2) */
	ASSERT(fab_poll(c->next.conn, now_ns, &none, 1) == 0);
	err = fab_region_status(c->next.region);
	if (!err)
		err = client__added_status(c, &c->next);
	if (err == -EINPROGRESS)
		err = fab_conn_status(c->next.conn) ? -ECONNRESET : -EINPROGRESS;
	if (err == -EINPROGRESS && now_ns < c->try_until_ns)
		return;
	if (err == -EINPROGRESS)
		err = -ETIMEDOUT;
	if (!err)
		err = adopt(c);
	if (err)
		try_failed(c, now_ns, err,
			   err == -ENOSPC ? "no memory for the pool: ask for a smaller "
					    "pool_bytes, or raise pools_max of the appliance"
					  : NULL);
}

void client__conn_step(struct weka_client *c, uint64_t now_ns)
{
	ASSERT(c->at != CLIENT_UP && c->lanes_up == 0);
	if (!c->dead && c->memory && now_ns - c->down_ns > c->reconnect_ns) {
		c->dead = -ENOTCONN;
		client__end_pending(c, c->dead);
	}
	if (c->at == CLIENT_DOWN && now_ns >= c->retry_ns)
		try_begin(c, now_ns);
	if (c->at == CLIENT_HELLO)
		try_hello(c, now_ns);
	if (c->at == CLIENT_POOL)
		try_pool(c, now_ns);
}

void client__conn_lost(struct weka_client *c, uint64_t now_ns)
{
	ASSERT(c->at == CLIENT_UP && !c->next.conn && c->lanes_up == 0);
	c->at = CLIENT_DOWN;
	c->down_ns = clock_now_ns(); /* now_ns is old if the caller has not called for a while */
	c->retry_ns = now_ns;
}

/* ---- a client -------------------------------------------------------------------------- */

static uint32_t or_default(uint32_t v, uint32_t otherwise)
{
	return v ? v : otherwise;
}

static uint64_t or_default_u64(uint64_t v, uint64_t otherwise)
{
	return v ? v : otherwise;
}

/* Options of a later version end here. */
#define OPTIONS_MAX 4096u

static bool is_zero(const void *of, size_t at, size_t bytes)
{
	const char *byte = (const char *)of + at;

	while (bytes > 0 && *byte == 0) {
		byte++;
		bytes--;
	}
	return bytes == 0;
}

static int options_check(struct weka_options *o, const struct weka_options *given, char *why)
{
	memset(o, 0, sizeof(*o));
	if (given) {
		if (given->size_bytes < offsetof(struct weka_options, reserved) ||
		    given->size_bytes > OPTIONS_MAX) {
			snprintf(why, sizeof(connect_error), "options: size_bytes is not set");
			return -EINVAL;
		}
		if (!is_zero(given, offsetof(struct weka_options, reserved0),
			     sizeof(given->reserved0)) ||
		    !is_zero(given, offsetof(struct weka_options, reserved),
			     given->size_bytes - offsetof(struct weka_options, reserved))) {
			snprintf(why, sizeof(connect_error),
				 "options: a field that this version does not know is not 0");
			return -EINVAL;
		}
		memcpy(o, given, min_u64(given->size_bytes, sizeof(*o)));
	}
	o->requests_max = or_default(o->requests_max, 64);
	o->batches_max = or_default(o->batches_max, 16);
	o->batch_items_max = or_default(o->batch_items_max, WEKA_BATCH_MAX);
	o->leases_max = or_default(o->leases_max, 1024);
	o->opens_max = or_default(o->opens_max, 1024);
	o->pool_bytes = or_default_u64(o->pool_bytes, 64ull << 20);
	o->connect_timeout_ns = or_default_u64(o->connect_timeout_ns, 10 * NS_PER_S);
	o->timeout_ns = or_default_u64(o->timeout_ns, 30 * NS_PER_S);
	o->reconnect_ns = or_default_u64(o->reconnect_ns, 30 * NS_PER_S);
	o->spin_ns_max = or_default_u64(o->spin_ns_max, NS_PER_MS);
	if (o->lanes > CLIENT_LANES_MAX) {
		snprintf(why, sizeof(connect_error), "options: at most %u lanes", CLIENT_LANES_MAX);
		return -EINVAL;
	}
	if (o->requests_max > 1024 || o->batches_max > 1024 ||
	    o->batch_items_max > WEKA_BATCH_MAX || o->leases_max > (1u << 24) ||
	    o->opens_max > (1u << 20) || o->pool_bytes > (1ull << 40)) {
		snprintf(why, sizeof(connect_error),
			 "options: at most 1024 requests, batches and items, 2^24 leases, "
			 "2^20 open files, 1 TiB");
		return -EINVAL;
	}
	ASSERT(o->requests_max > 0 && o->batches_max > 0 && o->batch_items_max > 0);
	ASSERT(o->leases_max > 0 && o->opens_max > 0 && o->pool_bytes > 0);
	return 0;
}

/* Touches all memory of the request path now, not on the hot path. */
static int slots_create(struct weka_client *c, const struct weka_options *o)
{
	size_t batch_bytes = sizeof(union client_batch) * o->batch_items_max;
	uint32_t i;

	ASSERT(!c->slots && o->requests_max > 0 && o->batches_max > 0);
	list_init(&c->free);
	list_init(&c->pending);
	list_init(&c->cut);
	c->done_last = &c->done_first;
	c->slots = calloc(o->requests_max + 1, sizeof(*c->slots));
	c->deadline_ns = calloc(o->requests_max + 1, sizeof(*c->deadline_ns));
	c->batch_memory = malloc(batch_bytes * o->batches_max);
	if (!c->slots || !c->deadline_ns || !c->batch_memory)
		return -ENOMEM;
	memset(c->batch_memory, 0, batch_bytes * o->batches_max);
	c->requests_max = o->requests_max;
	for (i = 0; i <= o->requests_max; i++) { /* the last is the library's own */
		list_init(&c->slots[i].node);
		c->slots[i].index = i;
		c->slots[i].batch = &c->slots[i].one;
		if (i < o->requests_max)
			list_push_back(&c->free, &c->slots[i].node);
	}
	for (i = 0; i < o->batches_max; i++) {
		union client_batch *b = (void *)((char *)c->batch_memory + i * batch_bytes);

		b->next_free = c->batches_free;
		c->batches_free = b;
	}
	ASSERT(!list_empty(&c->free) && list_empty(&c->pending) && list_empty(&c->cut));
	return 0;
}

static int alive_create(struct weka_client *c)
{
	char *page =
		mmap(NULL, WEKA_BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(!c->alive);
	if (page == MAP_FAILED)
		return -ENOMEM;
	*page = 1;
	c->alive = page;
	return madvise(page, WEKA_BLOCK, MADV_WIPEONFORK) < 0 ? -errno : 0;
}

/* When the time to connect is over, the last failure says more than "timed out". */
static wk_cold int connect_late(struct weka_client *c)
{
	ASSERT(c->at != CLIENT_UP && c->address_at < c->address_count);
	if (!c->conn_error)
		return client__say(c, -ETIMEDOUT, "%.200s: no answer", c->addresses[c->address_at]);
	return client__say(c, c->conn_error, "%.200s (tried for %llu ms)", c->link_error,
			   (unsigned long long)(c->connect_timeout_ns / NS_PER_MS));
}

/* Opens the first session: tries every address, repeatedly while an error may pass. */
static int connect_first(struct weka_client *c)
{
	uint64_t until_ns = client__after(clock_now_ns(), c->connect_timeout_ns);
	int err;

	ASSERT(c->at == CLIENT_DOWN && !c->memory);
	for (;;) {
		client__progress(c);
		if (c->at == CLIENT_UP)
			break;
		if (c->rounds > 0 && !c->may_pass)
			return c->conn_error;
		if (client__sleep(c, until_ns) == -ETIMEDOUT || c->now_ns >= until_ns)
			return connect_late(c);
	}
	ASSERT(c->memory && c->pool_bytes > 0); /* (1) */
	err = client__pool_create(&c->pool, c->pool_bytes);
	return err ? err : client__poison_begin(c);
}

static int key_create(struct weka_client *c, const struct weka_key *key)
{
	void *memory;
	int err = secret_create(sizeof(*c->key), &memory, NULL);

	ASSERT(!c->key);
	if (err)
		return err;
	c->key = memory;
	return client__key(key, c->key, c->error);
}

static int client_create(struct weka_client *c, const char *addresses, const struct weka_key *key,
			 const struct weka_options *options)
{
	struct weka_options o;
	int err = options_check(&o, options, c->error);

	if (!err)
		err = client__addresses(c, addresses, c->error);
	if (!err)
		err = client__resolve(c, c->error);
	if (!err)
		err = key_create(c, key);
	if (err)
		return err;
	ASSERT(c->address_count > 0 && c->address_count <= CLIENT_ADDRESSES);
	c->timeout_ns = o.timeout_ns;
	c->reconnect_ns = o.reconnect_ns;
	c->connect_timeout_ns = o.connect_timeout_ns;
	c->spin_ns_max = o.spin_ns_max;
	c->pool_bytes = o.pool_bytes;
	c->pool_wish_bytes = options ? options->pool_bytes : 0;
	c->lanes_asked = o.lanes;
	c->want.credits = o.requests_max;
	c->want.long_bodies = min_u32(o.batches_max, o.requests_max);
	c->want.batch_max = o.batch_items_max;
	if (getrandom(c->id, sizeof(c->id), 0) != sizeof(c->id))
		return -errno;
	err = alive_create(c);
	if (!err)
		err = slots_create(c, &o);
	if (!err)
		err = client__leases_create(c, o.leases_max);
	if (!err)
		err = client__opens_create(c, o.opens_max);
	if (!err)
		err = client__sleep_create(c);
	return err ? err : connect_first(c);
}

int weka_connect(const char *addresses, const struct weka_key *key,
		 const struct weka_options *options, struct weka_client **out)
{
	struct weka_client *c;
	int err = -ENOMEM;

	client__stray_forget(NULL);
	if (!addresses || !out) {
		snprintf(connect_error, sizeof(connect_error), "weka_connect: %s is NULL",
			 out ? "addresses" : "out");
		return -EINVAL;
	}
	c = calloc(1, sizeof(*c));
	if (c) {
		c->epoll = -1;
		c->timer = -1;
		c->next.watched = -1;
		for (uint32_t i = 0; i < CLIENT_LANES_MAX; i++)
			c->lanes[i].watched = -1;
		err = client_create(c, addresses, key, options);
	}
	ASSERT(err <= 0);
	if (!err) {
		ASSERT(c->at == CLIENT_UP && c->memory && c->out_count == 0);
		c->error[0] = 0;
		*out = c;
		return 0;
	}
	snprintf(connect_error, sizeof(connect_error), "%s",
		 c && c->error[0]        ? c->error
		 : c && c->link_error[0] ? c->link_error
					 : strerror(-err));
	if (c)
		client__destroy(c);
	return err;
}

void client__destroy(struct weka_client *c)
{
	uint32_t i;

	ASSERT(!c->is_closed);
	if (c->next.conn)
		fab_close(c->next.conn);
	if (!c->memory_ours)
		client__poison_end(c); /* the memory goes with the session */
	client__lanes_close(c);
	ASSERT(!c->poisons || c->memory_ours);
	if (c->memory_ours)
		client__poison_end(c); /* no card has it registered any more */
	if (c->memory_ours)
		munmap(c->memory, c->pool_bytes);
	client__added_destroy(c);
	client__sleep_destroy(c);
	client__pool_destroy(&c->pool);
	client__opens_destroy(c);
	free(c->leases);
	free(c->batch_memory);
	free(c->deadline_ns);
	free(c->slots);
	for (i = 0; i < c->address_count; i++)
		free(c->addresses[i]);
	if (c->alive)
		munmap((void *)(uintptr_t)c->alive, WEKA_BLOCK);
	secret_destroy(c->key, sizeof(*c->key));
	client__retire(c);
}

void weka_close(struct weka_client *c)
{
	const bool is_childs = c && !c->is_closed && client__forked(c);

	if (!c || (!is_childs && client__enter(c)))
		return;
	if (!is_childs && (c->nested > 0 || c->pauses > 0)) { /* called by a signal handler */
		client__leave(c);
		return;
	}
	if (!is_childs)
		client__opens_leave(c);
	client__destroy(c);
}

/* ---- asking about it ------------------------------------------------------------------- */

/* For the line about a call that failed. */
#define OF(c) ((struct weka_client *)(uintptr_t)(c))

int weka_get_limits(const struct weka_client *c, struct weka_limits *out)
{
	struct weka_limits l;
	const struct client_lane *lane;
	int err;

	CLIENT_NEED(OF(c), out);
	CLIENT_REFUSE(OF(c), out->size_bytes < sizeof(out->size_bytes), -EINVAL,
		      "size_bytes is not set");
	err = client__enter(c);
	if (err)
		return err;
	lane = c->lanes;
	l = (struct weka_limits){
		.size_bytes = out->size_bytes,
		.requests_max = c->requests_max,
		.batch_items_max = c->batch_items_max,
		.window_max_bytes = c->window_max_bytes,
		.pool_bytes = c->pool_bytes,
		.lanes = c->lanes_up,
		.lanes_wanted = c->lane_count,
		.cores = c->place.core_count,
	};
	if (c->at == CLIENT_UP) {
		ASSERT(c->lanes_up > 0 && c->lanes_up <= c->lane_count); /* one of them is UP */
		while (lane->at != CLIENT_UP)
			lane++;
		snprintf(l.transport, sizeof(l.transport), "%s", fab_conn_transport(lane->conn));
		snprintf(l.address, sizeof(l.address), "%.119s", c->addresses[lane->via]);
	}
	memcpy(out, &l, min_u64(out->size_bytes, sizeof(l)));
	client__leave(c);
	return 0;
}

int weka_get_counters(const struct weka_client *c, struct weka_counters *out)
{
	struct weka_counters all;
	int err;

	CLIENT_NEED(OF(c), out);
	CLIENT_REFUSE(OF(c), out->size_bytes < sizeof(out->size_bytes), -EINVAL,
		      "size_bytes is not set");
	err = client__enter(c);
	if (err)
		return err;
	ASSERT(c->counters.completed <= c->counters.submitted);
	all = c->counters;
	all.size_bytes = out->size_bytes;
	all.pool_used_bytes = (uint64_t)c->pool.used_units * WEKA_BLOCK;
	for (uint32_t i = 0; i < c->added_count; i++)
		all.pool_used_bytes += (uint64_t)c->added[i].runs.used_units * WEKA_BLOCK;
	memcpy(out, &all, min_u64(out->size_bytes, sizeof(all)));
	client__leave(c);
	return 0;
}
