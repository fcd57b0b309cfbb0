/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Arrivals within TLS: the handshake before the hello, and the hello's bytes through it.
 *
 *   wants_tls --first byte--> tls --handshake--> secured: the hello
 *       |                      |
 *       +-- no TLS: REFUSE     +-- refused: its alert says so
 *
 * Invariant: (1) until it is secured, an arrival that asked for TLS is told nothing but that this
 * address speaks TLS, and asked nothing
 * [test_fab_tls:who_speaks_plainly_is_told_to_use_tls].
 */
#include "fabric/hello/fab_server_internal.h"
#include "fabric/link/fab_tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int secret_of(void *srv, const char *id, uint8_t secret[FAB_KEY_BYTES])
{
	const struct fab_server *of = srv;

	if (strchr(id, ' '))
		return fab__lanes_secret(&of->control->lanes, id, secret);
	return fab_server_key_secret(of, id, secret);
}

int fab__arrival_tls_prepare(struct fab_server *srv)
{
	struct fab_tls_keys keys = { .secret = secret_of, .ctx = srv };

	ASSERT(srv == srv->control->cores[0]);
	if (srv->control->tls)
		return 0;
	return fab__tls_host_create(&srv->control->tls, &keys);
}

/* Is it TLS at all?  Looked at, not taken. */
static int tls_begin(struct fab_server *srv, struct fab_arrival *g, char why[FAB_WHY_MAX])
{
	uint8_t first;
	ssize_t got = recv(g->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	ASSERT(!g->tls && !g->secured);
	if (got < 0 && errno == EAGAIN)
		return -EINPROGRESS;
	if (got <= 0) {
		snprintf(why, FAB_WHY_MAX, "it left before it said anything");
		return -ECONNRESET;
	}
	if (!fab__tls_looks_like(first)) {
		snprintf(why, FAB_WHY_MAX, "this address speaks TLS only: use tls://HOST:PORT");
		return -EPROTONOSUPPORT;
	}
	snprintf(why, FAB_WHY_MAX, "no memory for TLS");
	return fab__tls_accept(&g->tls, srv->control->tls, g->fd);
}

int fab__arrival_secure(struct fab_server *srv, struct fab_arrival *g, char why[FAB_WHY_MAX])
{
	char what[FAB_WHY_MAX];
	int err = g->tls ? 0 : tls_begin(srv, g, why);

	ASSERT(g->wants_tls && !g->secured);
	if (err)
		return err;
	err = fab__tls_step(g->tls, what);
	g->secured = err == 0;
	if (err < 0 && err != -EINPROGRESS)
		snprintf(why, FAB_WHY_MAX, "%s%s%s%.180s", *fab__tls_key_id(g->tls) ? "key \"" : "",
			 fab__tls_key_id(g->tls), *fab__tls_key_id(g->tls) ? "\": " : "", what);
	return err;
}

bool fab__arrival_key_is_tls(const struct fab_arrival *g)
{
	char id[FAB_KEY_ID_MAX + 1];

	ASSERT(g->hello.at == HELLO_DONE);
	memcpy(id, g->hello.key_id, sizeof(id));
	if (fab__hello_joins(&g->hello))
		fab__tls_lane_id(id, le64_get(g->hello.hello.lane.session_id));
	return !g->tls || strcmp(fab__tls_key_id(g->tls), id) == 0;
}

ssize_t fab__arrival_send(struct fab_arrival *g, const void *bytes, size_t size)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, size };
	ssize_t sent;

	ASSERT(size > 0 && g->fd >= 0);
	if (g->rdma)
		return fab__rdma_hello_send(g->rdma, bytes, (uint32_t)size);
	if (g->tls)
		return fab__tls_send(g->tls, &iov, 1);
	sent = send(g->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}

ssize_t fab__arrival_recv(struct fab_arrival *g, void *to, size_t size)
{
	ssize_t got;

	ASSERT(size > 0 && g->fd >= 0);
	if (g->rdma)
		return fab__rdma_hello_recv(g->rdma, to, (uint32_t)size);
	if (g->tls)
		return fab__tls_recv(g->tls, to, size);
	got = recv(g->fd, to, size, MSG_DONTWAIT);
	return got < 0 ? -errno : got;
}
