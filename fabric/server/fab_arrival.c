/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Arrivals: connections that have not proved a key yet.
 *
 *   begin -> hello ... --- agreed ---> fab__control_open(): a session
 *              |            \-- kept until earlier connections of the same client have ended
 *              |
 *              |    +--- all places are taken, and it is the oldest: REFUSE with -EBUSY, to come
 *              |         back later; the newcomer gets its place
 *              +--- refused: REFUSE sent, read on until the peer closes or the deadline passes
 *                   (closing at once would reset what it has not read yet)
 *
 * Invariants:
 *  (1) An arrival has a descriptor, some hundred bytes and a deadline; there are at most
 *      FAB_HELLOS_MAX.
 *  (2) Every refusal goes through fab__refused() [e2e_refusals].
 *  (3) Peers without a key cannot keep out clients with one: a place is safe for at most
 *      FAB_HELLO_GRACE_NS, and an honest hello needs a small part of that
 *      [test_fab_hostile:a_crowd_that_never_leaves_does_not_keep_others_out].
 *  (4) A client is admitted when all work of its earlier connections has ended: a change that it
 *      then sends again has been made, or never will be [sim/wire].
 */
#include "fabric/hello/fab_server_internal.h"
#include "fabric/link/fab_tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#define LINGER_NS UINT64_C(1000000000)

static void arrival_close(struct fab_arrival *g)
{
	ASSERT(g->fd >= 0);
	fab__tls_free(g->tls);
	g->tls = NULL;
	if (g->rdma)
		fab__rdma_free(g->rdma); /* g->fd is its channel's */
	else
		close(g->fd);
	g->rdma = NULL;
	g->fd = -1;
}

static const char *transport_name(uint8_t transport)
{
	static const char *const names[] = {
		[FAB_TRANSPORT_TCP] = "tcp",
		[FAB_TRANSPORT_SHM] = "shm",
		[FAB_TRANSPORT_RDMA] = "rdma",
	};

	ASSERT(transport < ARRAY_LEN(names) && names[transport]);
	return names[transport];
}

/* With the key that it named, if it has done so; the peer is not told this line. */
static void refused(struct fab_server *srv, const struct fab_arrival *g, const char *why)
{
	char line[FAB_WHY_MAX];

	/* A client that ends may still be opening lanes: these are no logins. */
	if ((g->hello.key_id[0] && !fab__hello_joins(&g->hello)) || (g->wants_tls && !g->secured))
		atomic_fetch_add_explicit(&srv->control->refused_logins, 1, memory_order_relaxed);
	if (g->hello.key_id[0])
		snprintf(line, sizeof(line), "key \"%s\"%s: %.180s", g->hello.key_id,
			 g->hello.key_slot == FAB_KEY_NONE ? " (no such key)" : "", why);
	else
		snprintf(line, sizeof(line), "%s", why);
	fab__refused(srv, transport_name(g->transport), g->peer, line);
}

/* Sends the hello's output; an arrival that does not read loses it. */
static void arrival_push(struct fab_arrival *g)
{
	struct fab_hello *h = &g->hello;

	while (h->out_bytes > 0) {
		ssize_t sent = fab__arrival_send(g, h->out, h->out_bytes);

		if (sent <= 0)
			return;
		memmove(h->out, h->out + sent, h->out_bytes - (size_t)sent);
		h->out_bytes -= (uint32_t)sent;
	}
}

static void arrival_refuse(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns)
{
	ASSERT(!g->refused && g->fd >= 0);
	refused(srv, g, g->hello.why);
	arrival_push(g);
	if (!g->rdma)
		shutdown(g->fd, SHUT_WR);
	g->refused = true;
	g->deadline_ns = now_ns + LINGER_NS;
}

static void arrival_deny(struct fab_server *srv, struct fab_arrival *g, int err, const char *why,
			 uint64_t now_ns)
{
	ASSERT(err < 0);
	snprintf(g->hello.why, sizeof(g->hello.why), "%s", why);
	fab__hello_refuse(&g->hello, err, why);
	arrival_refuse(srv, g, now_ns);
}

/* Returns a free place, or that of the oldest arrival. */
static struct fab_arrival *first_of(const struct fab_server *srv)
{
	struct fab_arrival *first = &srv->control->arrivals[0];

	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++) {
		struct fab_arrival *g = &srv->control->arrivals[i];

		if (g->fd < 0)
			return g;
		if (g->since_ns < first->since_ns)
			first = g;
	}
	ASSERT(first->fd >= 0);
	return first;
}

/*
 * Makes room for a newcomer.  An honest client is told when to try again.  Its bytes are read
 * first: closing a socket with unread bytes resets it, and the peer may lose the refusal.
 */
static void turn_out(struct fab_server *srv, struct fab_arrival *g)
{
	static const char text[] = "the appliance has too many hellos under way: try again";
	uint8_t rest[256];

	ASSERT(!g->refused);
	refused(srv, g, "its hello had not ended, and others were waiting");
	if (g->hello.out_bytes > 0 || (g->wants_tls && !g->secured))
		return; /* it would not understand */
	fab__hello_refuse_busy(&g->hello, FAB_BUSY_MS, text);
	arrival_push(g);
	(void)!fab__arrival_recv(g, rest, sizeof(rest));
}

uint64_t fab__arrival_place_ns(const struct fab_server *srv)
{
	const struct fab_arrival *g = first_of(srv);

	return g->fd < 0 ? 0 : g->since_ns + FAB_HELLO_GRACE_NS;
}

struct fab_arrival *fab__arrival_place(struct fab_server *srv, uint64_t now_ns)
{
	struct fab_arrival *g = first_of(srv);

	if (g->fd < 0)
		return g;
	if (now_ns < g->since_ns + FAB_HELLO_GRACE_NS)
		return NULL;
	if (!g->refused)
		turn_out(srv, g);
	arrival_close(g);
	return g;
}

void fab__arrival_begin(struct fab_server *srv, struct fab_arrival *g, int fd, uint8_t transport,
			uint64_t now_ns)
{
	struct fab_limits limits = srv->cfg.limits;
	uint8_t nonce[32];
	char why[FAB_WHY_MAX];
	int err;

	ASSERT(fd >= 0 && g->fd < 0); /* (1) */
	ASSERT(srv->cfg.hello_timeout_ns > 0);
	/* A kernel that has no random bytes refuses this arrival below. */
	err = getrandom(nonce, sizeof(nonce), 0) < 0 ? -errno : 0;
	g->fd = fd;
	g->transport = transport;
	g->refused = false;
	g->held = false;
	g->wants_tls = false;
	g->secured = false;
	g->tls = NULL;
	if (g->rdma)
		fab__inet_text(&g->rdma->id->route.addr.dst_addr, g->peer, sizeof(g->peer));
	else
		fab__peer_text(fd, g->peer);
	g->since_ns = now_ns;
	g->deadline_ns = now_ns + srv->cfg.hello_timeout_ns;
	g->watch.type = WATCH_HELLO;
	if (g->rdma) /* a device may have room for fewer */
		limits.credits = min_u32(limits.credits, g->rdma->receives_max);
	fab__hello_server(&g->hello, &srv->control->keys, transport, &limits, nonce);
	g->hello.peer = g->rdma ? FAB_PEER_ANY : fab__peer_of(fd, transport);
	g->hello.lanes = &srv->control->lanes;
	g->hello.place = (struct fab_place){
		.core_count = srv->cfg.core_count,
		.shard_count = srv->cfg.shard_count,
		.lanes_max = srv->cfg.lanes_max,
		.features = FAB_FEATURE_REPORT,
	};
	memcpy(g->hello.place.appliance, srv->control->appliance, FAB_APPLIANCE_BYTES);
	if (!err)
		err = fab__control_watch(srv, fd, &g->watch);
	if (err) {
		arrival_deny(srv, g, err, "the appliance cannot watch one more connection", now_ns);
		arrival_close(g);
		return;
	}
	if (transport == FAB_TRANSPORT_SHM) {
		if (srv->cfg.shm_user_count > 0 &&
		    fab__peer_uid_check(fd, srv->cfg.shm_user, srv->cfg.shm_user_count, why))
			arrival_deny(srv, g, -EACCES, why, now_ns);
		return;
	}
	if (transport == FAB_TRANSPORT_RDMA)
		fab__arrival_input(srv, g, now_ns); /* its channel is to say when more comes */
	else
		(void)!fab__tcp_options(fd); /* it may have gone since */
}

static void arrival_discard(struct fab_arrival *g)
{
	uint8_t rest[256];
	ssize_t got = fab__arrival_recv(g, rest, sizeof(rest));

	if (got == 0 || (got < 0 && got != -EAGAIN))
		arrival_close(g);
}

/* The peer reads the REFUSE and leaves; watch for that. */
static void arrival_rewatch(struct fab_server *srv, struct fab_arrival *g)
{
	ASSERT(g->refused);
	if (g->fd >= 0 && fab__control_watch(srv, g->fd, &g->watch))
		arrival_close(g);
}

static const char *welcome_failed(const struct fab_arrival *g, int err)
{
	if (err == -EOPNOTSUPP)
		return "a session over shm has one connection";
	if (err == -EUSERS && fab__hello_joins(&g->hello))
		return "its session has as many connections as it may";
	if (err == -EUSERS)
		return "the appliance serves as many sessions as it may";
	return "the appliance could not make the session's memory";
}

/* A session, if there is room. */
static void arrival_open(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns)
{
	int err;

	ASSERT(g->hello.at == HELLO_DONE && !g->refused);
	ASSERT(g->hello.key_slot != FAB_KEY_NONE);
	g->held = !fab__control_alone(srv, &g->hello);
	if (g->held)
		return;
	err = fab__control_open(srv, g);
	if (!err) {
		g->fd = -1; /* the session's now */
		g->tls = NULL;
		return;
	}
	if (err == -ECONNRESET) { /* a part of WELCOME may have left: nothing can follow it */
		fab__arrival_lost(srv, g);
		return;
	}
	arrival_deny(srv, g, err, welcome_failed(g, err), now_ns);
	arrival_rewatch(srv, g);
}

/* The key is proved. */
static void arrival_welcome(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns)
{
	ASSERT(g->fd >= 0 && !g->held);
	if (!fab__arrival_key_is_tls(g)) {
		arrival_deny(srv, g, -EACCES, "another key than that of TLS", now_ns);
		return;
	}
	fab__control_unwatch(srv, g->fd);
	arrival_open(srv, g, now_ns);
}

/* Denies an arrival that was held after its key was proved. */
static void arrival_unheld(struct fab_server *srv, struct fab_arrival *g, int err, const char *why,
			   uint64_t now_ns)
{
	ASSERT(g->held && !g->refused);
	g->held = false;
	arrival_deny(srv, g, err, why, now_ns);
	arrival_rewatch(srv, g);
}

void fab__arrivals_held(struct fab_server *srv, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++) {
		struct fab_arrival *g = &srv->control->arrivals[i];
		uint32_t slot;

		if (g->fd < 0 || !g->held)
			continue;
		slot = fab__hello_key_slot(&g->hello);
		if (slot == g->hello.key_slot) {
			arrival_open(srv, g, now_ns);
			continue;
		}
		arrival_unheld(srv, g, -EACCES, "its key, or its session, has ended in the hello",
			       now_ns);
	}
}

void fab__arrival_lost(struct fab_server *srv, struct fab_arrival *g)
{
	ASSERT(g->fd >= 0);
	if (!g->refused)
		refused(srv, g,
			g->hello.at == HELLO_CHALLENGED
				? "it left at our proof: its secret is another, or it was cut off"
				: "it left in the middle of the hello");
	arrival_close(g);
}

/* False: not secured yet, or never. */
static bool secured(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns)
{
	char why[FAB_WHY_MAX];
	int err;

	if (!g->wants_tls || g->secured)
		return true;
	err = fab__arrival_secure(srv, g, why);
	if (err == 0 || err == -EINPROGRESS)
		return err == 0;
	if (err == -EPROTONOSUPPORT) { /* it understands us, or we would have to guess */
		arrival_deny(srv, g, -EPROTO, why, now_ns);
		return false;
	}
	refused(srv, g, why);
	fab__tls_free(g->tls); /* its alert has left */
	g->tls = NULL;
	shutdown(g->fd, SHUT_WR);
	g->refused = true;
	g->deadline_ns = now_ns + LINGER_NS;
	return false;
}

/* Reads once.  Returns true if there may be more, which no event would report. */
static bool arrival_turn(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns)
{
	struct fab_hello *h = &g->hello;
	ssize_t got;
	int err;

	ASSERT(h->in_bytes <= sizeof(h->in));
	if (g->held)
		return false;
	if (g->refused) {
		arrival_discard(g);
		return false;
	}
	if (!secured(srv, g, now_ns))
		return false;
	ASSERT(fab__hello_want(h) <= sizeof(h->in) - h->in_bytes);
	got = fab__arrival_recv(g, h->in + h->in_bytes, fab__hello_want(h));
	if (got == -EAGAIN)
		return false;
	if (got <= 0) {
		fab__arrival_lost(srv, g);
		return false;
	}
	h->in_bytes += (uint32_t)got;
	err = fab__hello_step(h);
	if (err < 0)
		arrival_refuse(srv, g, now_ns);
	else if (err == 1)
		arrival_welcome(srv, g, now_ns);
	else
		arrival_push(g);
	return g->rdma || g->tls;
}

void fab__arrival_input(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns)
{
	while (g->fd >= 0 && arrival_turn(srv, g, now_ns))
		;
}

void fab__arrivals_expire(struct fab_server *srv, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++) {
		struct fab_arrival *g = &srv->control->arrivals[i];

		if (g->fd < 0 || now_ns < g->deadline_ns)
			continue;
		if (g->refused) {
			arrival_close(g);
		} else if (g->held) {
			arrival_unheld(srv, g, -ETIMEDOUT, "its earlier session does not end",
				       now_ns);
		} else {
			arrival_deny(srv, g, -ETIMEDOUT, "the hello took too long", now_ns);
		}
	}
}

void fab__arrivals_close(struct fab_server *srv)
{
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		if (srv->control->arrivals[i].fd >= 0)
			arrival_close(&srv->control->arrivals[i]);
}
