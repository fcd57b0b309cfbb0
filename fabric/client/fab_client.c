/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The client's descriptors of an open connection: pools, polling, sleep, close.  fab_conn.c handles
 * the messages.
 *
 * All descriptors are edge-triggered in one epoll.  fab_arm() empties it first, and lets its caller
 * sleep only if it was empty and there was nothing to receive either.
 */
#include "fabric/client/fab_client_internal.h"
#include "fabric/link/fab_tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define SOCKET_QUIET_NS UINT64_C(100000000) /* without an answer, before the socket is asked */

const char *fab_conn_error(const struct fab_conn *conn)
{
	return conn->why;
}

void fab_close(struct fab_conn *conn)
{
	/* First: after it no card knows the memory below. */
	fab__rdma_dial_free(&conn->rdma, conn->owner != getpid());
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		fab__region_unmap(&conn->regions[i]);
	if (conn->shm.memory)
		fab__memory_unmap(conn->shm.memory, conn->shm.memory_bytes);
	for (int i = 0; i < 2; i++)
		if (conn->doorbells[i] >= 0)
			close(conn->doorbells[i]);
	fab__conn_free(conn);
	free(conn->tcp);
	fab__tls_free(conn->tls);
	if (conn->in_fd >= 0)
		close(conn->in_fd);
	if (conn->fd >= 0) {
		/* A child process may share it.  End the session now, but never from a child. */
		if (conn->owner == getpid())
			shutdown(conn->fd, SHUT_RDWR);
		close(conn->fd);
	}
	if (conn->epoll_fd >= 0)
		close(conn->epoll_fd);
	fab__conn_key_forget(conn);
	free(conn);
}

/* ---- pools -------------------------------------------------------------------------- */

static struct fab_region *region_free(struct fab_conn *conn)
{
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		if (!conn->regions[i].memory && conn->regions[i].status != -EINPROGRESS)
			return &conn->regions[i];
	return NULL;
}

/* Over tcp the pool is ours, at a multiple of 2 MiB like the appliance's own. */
static int region_map(struct fab_region *r, uint64_t size)
{
	uint64_t reserve = align_up(size, FAB_POOL_ALIGN) + FAB_POOL_ALIGN;
	uint8_t *hull =
		mmap(NULL, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at;

	ASSERT(!r->memory && size > 0);
	if (hull == MAP_FAILED)
		return -ENOMEM;
	at = (uint8_t *)align_up((uintptr_t)hull, FAB_POOL_ALIGN);
	size = align_up(size, FAB_POOL_ALIGN);
	if (at > hull)
		munmap(hull, (size_t)(at - hull));
	if (at + size < hull + reserve)
		munmap(at + size, (size_t)(hull + reserve - at - size));
	(void)madvise(at, size, MADV_HUGEPAGE);
	ASSERT((uintptr_t)at % FAB_POOL_ALIGN == 0);
	r->memory = at;
	return 0;
}

/* Registers the memory with the card, then offers it to the appliance. */
static int pool_offer(struct fab_conn *conn, struct fab_region *r)
{
	struct fab_offer_wire body;
	struct fab_remote at;
	int err = fab__rdma_offer(conn->rdma.rdma, r->number, r->memory, r->size_bytes, &at);

	ASSERT(conn->onesided && r->memory);
	if (err)
		return err;
	body = (struct fab_offer_wire){
		.size_bytes = le64_of(r->size_bytes),
		.address = le64_of(at.address),
		.key = le32_of(at.key),
	};
	fab__tx_body(&r->tx, &body, sizeof(body));
	return 0;
}

/* `fd`: over shm, the caller's memory; or -1. */
static int pool_request(struct fab_conn *conn, struct fab_region *r, int fd)
{
	struct fab_pool_wire body = { .size_bytes = le64_of(r->size_bytes) };
	int err = 0;

	ASSERT(r->number >= 1 && r->number <= FAB_POOLS_MAX);
	ASSERT(r->size_bytes > 0 && r->size_bytes % FAB_POOL_ALIGN == 0);
	fab__hdr_build(&r->tx.hdr, FAB_POOL_ADD, 0);
	r->tx.hdr.window_region = le16_of((uint16_t)r->number);
	fab__tx_body(&r->tx, &body, sizeof(body));
	r->tx.kind = FAB_TX_CONTROL;
	if (conn->onesided)
		err = pool_offer(conn, r);
	if (err)
		return err;
	if (!conn->direct) {
		(void)conn->link->ops->send(conn->link, &r->tx);
		return 0;
	}
	r->tx.hdr.check = le32_of(fab__hdr_check(&r->tx.hdr));
	if (fab__send_fds(conn->fd, &r->tx.hdr, sizeof(r->tx.hdr), &fd, fd >= 0) !=
	    sizeof(r->tx.hdr))
		return fab__conn_broken(conn, -ECONNRESET, "the appliance closed the connection");
	return 0;
}

/* `memory`: the caller's memory, or NULL; `fd`: its file, for shm. */
static int pool_add(struct fab_conn *conn, void *memory, uint64_t size_bytes, int fd,
		    struct fab_region **out)
{
	struct fab_region *r;
	uint64_t left = conn->limits.pool_max_bytes - conn->pools_bytes;
	int err;

	ASSERT(conn->pools_bytes <= conn->limits.pool_max_bytes || conn->at != CONN_OPEN);
	if (conn->at != CONN_OPEN)
		return -ENOTCONN;
	r = region_free(conn);
	if (!r || size_bytes > left || align_up(size_bytes, FAB_POOL_ALIGN) > left)
		return -ENOSPC;
	if (size_bytes == 0)
		return -EINVAL;
	size_bytes = align_up(size_bytes, FAB_POOL_ALIGN);
	r->caller_owned = memory != NULL;
	r->memory = memory;
	if (!conn->direct && !memory) {
		err = region_map(r, size_bytes);
		if (err)
			return err;
	}
	r->size_bytes = size_bytes;
	err = pool_request(conn, r, conn->direct ? fd : -1);
	if (err) {
		fab__region_unmap(r);
		return err;
	}
	r->status = -EINPROGRESS;
	conn->pools_bytes += size_bytes;
	ASSERT(conn->pools_bytes <= conn->limits.pool_max_bytes);
	*out = r;
	return 0;
}

int fab_pool_add(struct fab_conn *conn, uint64_t size_bytes, struct fab_region **out)
{
	return pool_add(conn, NULL, size_bytes, -1, out);
}

int fab_pool_lend(struct fab_conn *conn, void *memory, uint64_t size_bytes, int fd,
		  struct fab_region **out)
{
	ASSERT(memory && size_bytes % FAB_POOL_ALIGN == 0);
	if (conn->at == CONN_OPEN && conn->direct && fd < 0)
		return -EOPNOTSUPP;
	return pool_add(conn, memory, size_bytes, fd, out);
}

void fab_region_keep(struct fab_region *region)
{
	ASSERT(region->memory && region->size_bytes > 0);
	region->caller_owned = true;
}

/* mremap() takes the old pages away and puts the new ones there in one step: a thread that
 * reads there meanwhile waits, and sees the one or the other. */
int fab_region_replace(struct fab_region *fresh, void *old, uint64_t old_bytes)
{
	ASSERT(fresh->memory && !fresh->caller_owned && fresh->size_bytes >= old_bytes);
	if (mremap(fresh->memory, old_bytes, old_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, old) != old)
		return -errno;
	if (fresh->size_bytes > old_bytes)
		fab__memory_unmap((uint8_t *)fresh->memory + old_bytes,
				  fresh->size_bytes - old_bytes);
	fresh->memory = old;
	fresh->size_bytes = old_bytes;
	return 0;
}

/* shm: POOL_ADDED comes in the unix socket, with a descriptor; its end is the session's. */
static void socket_input(struct fab_conn *conn)
{
	struct fab_hdr_wire w;

	ASSERT(conn->direct && conn->in_bytes < sizeof(conn->in));
	conn->socket_due = false;
	while (conn->at == CONN_OPEN) {
		uint32_t fd_count;
		int fd = -1;
		ssize_t got = fab__recv_fds(conn->fd, conn->in + conn->in_bytes,
					    sizeof(conn->in) - conn->in_bytes, &fd, 1, &fd_count);

		if (got == -EAGAIN)
			return;
		if (got <= 0) {
			fab__conn_broken(conn, -ECONNRESET, "the appliance closed the connection");
			return;
		}
		if (fd_count == 1 && conn->in_fd < 0)
			conn->in_fd = fd;
		else if (fd_count == 1)
			close(fd);
		conn->in_bytes += (uint32_t)got;
		if (conn->in_bytes < sizeof(w))
			continue;
		memcpy(&w, conn->in, sizeof(w));
		conn->in_bytes = 0;
		if (fab__hdr_check(&w) != le32_get(w.check) || w.type != FAB_POOL_ADDED)
			fab__conn_broken(conn, -EPROTO, "the appliance sent nonsense about a pool");
		else
			(void)!fab__region_added(conn, &w, conn->in_fd);
		if (conn->in_fd >= 0)
			close(conn->in_fd);
		conn->in_fd = -1;
	}
}

/* Empties the epoll.  Was there anything? */
static bool harvest(struct fab_conn *conn)
{
	struct epoll_event evs[4];
	int count = epoll_wait(conn->epoll_fd, evs, ARRAY_LEN(evs), 0);

	for (int i = 0; i < count && conn->onesided; i++)
		conn->port_due |= evs[i].data.fd == conn->rdma.rdma->id->verbs->async_fd;
	return count > 0;
}

/* rdma: the connection manager reports that the connection has ended, or a device that its port may
 * be down. */
static void manager_input(struct fab_conn *conn, uint64_t now_ns)
{
	char why[FAB_WHY_MAX];
	int err = fab__rdma_dial_events(&conn->rdma, why);

	ASSERT(conn->onesided && conn->rdma.rdma);
	(void)harvest(conn); /* a caller that never sleeps has not polled it */
	fab__rdma_leave_step(now_ns);
	conn->socket_due = false;
	if (!err && conn->port_due)
		err = fab__rdma_dial_port(&conn->rdma, why);
	conn->port_due = false;
	if (err)
		fab__conn_broken(conn, err, why);
}

/* ---- poll and sleep ----------------------------------------------------------------- */

static bool pool_expected(const struct fab_conn *conn)
{
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		if (conn->regions[i].status == -EINPROGRESS)
			return true;
	return false;
}

/* Is an answer owed to us, by the appliance? */
static bool waits(const struct fab_conn *conn)
{
	DASSERT(conn->slot_free_count <= conn->limits.credits);
	return conn->slot_free_count < conn->limits.credits || pool_expected(conn);
}

/*
 * rdma: while the client waits for an answer, it probes the appliance from time to time: a card
 * reports that the peer's queue pair is gone only when something is sent there.
 */
static wk_cold void probe(struct fab_conn *conn, uint64_t now_ns)
{
	uint32_t heard = fab__rdma_heard(conn->rdma.rdma);

	ASSERT(conn->onesided && conn->at == CONN_OPEN);
	conn->probe_ns = now_ns + FAB_RDMA_PROBE_NS;
	if (heard != conn->heard || !waits(conn)) {
		conn->heard = heard;
		conn->asked_ns = 0;
		return;
	}
	if (conn->asked_ns && now_ns - conn->asked_ns >= FAB_RDMA_GONE_NS) {
		fab__conn_broken(conn, -ETIMEDOUT, "the appliance's card does not answer");
		return;
	}
	if (!conn->asked_ns)
		conn->asked_ns = now_ns;
	fab__rdma_probe(conn->rdma.rdma);
}

uint32_t fab_poll(struct fab_conn *conn, uint64_t now_ns, struct fab_call **done, uint32_t done_max)
{
	uint32_t n;

	if (conn->at < CONN_OPEN)
		return 0;
	fab_flush(conn);
	n = fab__conn_poll(conn, done, done_max);
	conn->found = n > 0;
	if (n > 0)
		conn->answered_ns = now_ns;
	if (n > 0 || (!conn->direct && !conn->onesided))
		return n;
	if (conn->onesided && unlikely(now_ns >= conn->probe_ns) && conn->at == CONN_OPEN)
		probe(conn, now_ns);
	/* A client that polls without ever sleeping notices here that the appliance has died. */
	if (conn->at == CONN_OPEN &&
	    (conn->socket_due || now_ns - conn->answered_ns >= SOCKET_QUIET_NS ||
	     pool_expected(conn))) {
		conn->answered_ns = now_ns;
		if (conn->direct)
			socket_input(conn);
		else
			manager_input(conn, now_ns);
	}
	return 0;
}

bool fab_arm(struct fab_conn *conn)
{
	if (conn->at != CONN_OPEN || conn->found) /* there may be more: a poll is to say no */
		return false;
	fab_flush(conn);
	if (harvest(conn)) {
		if (conn->direct)
			fab__shm_bell_read(conn->doorbells[1]);
		conn->socket_due = true;
		return false;
	}
	if (conn->at == CONN_OPEN && conn->link->ops->arm(conn->link))
		return true;
	fab_disarm(conn);
	return false;
}

void fab_disarm(struct fab_conn *conn)
{
	if (conn->at != CONN_OPEN)
		return;
	DASSERT(conn->link);
	conn->link->ops->disarm(conn->link);
	conn->socket_due = true;
}

int fab_conn_fd(const struct fab_conn *conn)
{
	return conn->epoll_fd;
}

uint64_t fab_conn_deadline(const struct fab_conn *conn)
{
	if (conn->at < CONN_OPEN)
		return conn->deadline_ns;
	return conn->at == CONN_OPEN && conn->onesided && waits(conn) ? conn->probe_ns : UINT64_MAX;
}
