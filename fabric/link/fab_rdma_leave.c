/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The end of a connection: its id, whose destruction sends a goodbye to the peer.
 *
 *   fab__rdma_leave --port up, address present, peer reachable--> destroyed
 *         |
 *         +--> left --port up, address present, at two checks LATER_NS apart--> destroyed
 *
 * A goodbye has to go out through the port.  One that finds no way out is harmful: the soft-RoCE of
 * Linux 6.1 takes that for the end of the queue pair which carries all messages of the connection
 * manager, and then nobody on that host can connect any more until the device is removed.  So while
 * a port is down, or has lost our address, nothing is sent through it.  The same holds for a moment
 * after a queue pair could not reach its peer ("hush"), because a route can be gone before its port
 * is seen to be down.
 *
 * Two checks, because one may come just when the port goes down again: the message is sent some
 * milliseconds later.  A link that was down for five of every six seconds, and checked each second,
 * had that happen once in about thirty times.
 *
 * Invariant: (1) ids left here have no queue pair any more and belong to the manager alone: they
 * reach no memory of ours.
 */
#include "fabric/link/fab_rdma.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LATER_NS UINT64_C(1000000000)

struct left {
	struct left *next;
	const struct fab_verbs *v;
	struct rdma_cm_id *id;
	struct rdma_event_channel *cm; /* goes with it, unless NULL */
	pid_t owner;                   /* after a fork it is the parent's */
	uint64_t due_ns;               /* 0: nobody has looked yet */
	bool was_up;                   /* at the last look */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct left *first; /* a process has one connection manager */

/* ---- hush ------------------------------------------------------------------------------------ */

/* The last few ports through which a peer could not be reached. */
static struct hush {
	const struct ibv_context *verbs;
	uint8_t port;
	uint64_t until_ns; /* 0: nobody has looked yet */
} hushes[8];
static uint32_t hush_count;

void fab__rdma_unreachable(const struct rdma_cm_id *id)
{
	ASSERT(pthread_mutex_lock(&lock) == 0);
	hushes[hush_count++ % ARRAY_LEN(hushes)] =
		(struct hush){ .verbs = id->verbs, .port = id->port_num };
	ASSERT(pthread_mutex_unlock(&lock) == 0);
}

bool fab__rdma_hushed(const struct rdma_cm_id *id, uint64_t now_ns)
{
	bool hushed = false;

	ASSERT(pthread_mutex_lock(&lock) == 0);
	for (uint32_t i = 0; i < ARRAY_LEN(hushes); i++) {
		struct hush *h = &hushes[i];

		if (h->verbs != id->verbs || h->port != id->port_num)
			continue;
		if (h->until_ns == 0)
			h->until_ns = now_ns + LATER_NS;
		hushed |= now_ns < h->until_ns;
	}
	ASSERT(pthread_mutex_unlock(&lock) == 0);
	return hushed;
}

/* ---- ids that are left ---------------------------------------------------------------------- */

bool fab__rdma_port_up(const struct fab_verbs *v, const struct rdma_cm_id *id)
{
	struct ibv_port_attr port;

	ASSERT(v && id);
	if (!id->verbs)
		return true;
	memset(&port, 0, sizeof(port));
	/* A device that is gone waits for us to let go. */
	if (v->query_port(id->verbs, id->port_num, (void *)&port))
		return true;
	return port.state == IBV_PORT_ACTIVE;
}

bool fab__rdma_has_address(const struct fab_verbs *v, const struct rdma_cm_id *id)
{
	static const union ibv_gid unknown;
	const union ibv_gid *own = &id->route.addr.addr.ibaddr.sgid;
	struct ibv_port_attr port;
	union ibv_gid gid;

	memset(&port, 0, sizeof(port));
	if (!id->verbs || memcmp(own, &unknown, sizeof(unknown)) == 0 ||
	    v->query_port(id->verbs, id->port_num, (void *)&port))
		return true;
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (v->query_gid(id->verbs, id->port_num, i, &gid) == 0 &&
		    memcmp(&gid, own, sizeof(gid)) == 0)
			return true;
	return false;
}

bool fab__rdma_may_speak(const struct fab_verbs *v, const struct rdma_cm_id *id)
{
	return fab__rdma_port_up(v, id) && fab__rdma_has_address(v, id);
}

static void destroy(struct left *l)
{
	ASSERT(l->id && !l->id->context); /* (1) */
	(void)l->v->destroy_id(l->id);
	if (l->cm)
		l->v->destroy_event_channel(l->cm);
}

void fab__rdma_leave(const struct fab_verbs *v, struct rdma_cm_id *id,
		     struct rdma_event_channel *cm, bool unreachable)
{
	struct left now = { .v = v, .id = id, .cm = cm, .owner = getpid() };
	struct left *l = NULL;

	ASSERT(v && id);
	id->context = NULL;
	if (unreachable || !fab__rdma_may_speak(v, id))
		l = malloc(sizeof(*l));
	if (!l) {
		destroy(&now);
		return;
	}
	*l = now;
	ASSERT(pthread_mutex_lock(&lock) == 0);
	l->next = first;
	first = l;
	ASSERT(pthread_mutex_unlock(&lock) == 0);
}

static bool is_due(struct left *l, uint64_t now_ns)
{
	bool is_up;

	ASSERT(l->id);
	if (l->due_ns > now_ns || l->owner != getpid())
		return false;
	is_up = l->due_ns > 0 && fab__rdma_may_speak(l->v, l->id);
	if (is_up && l->was_up)
		return true;
	l->was_up = is_up;
	l->due_ns = now_ns + LATER_NS;
	return false;
}

/* Those of `cm`, or those that are due. */
static void sweep(const struct rdma_event_channel *cm, uint64_t now_ns)
{
	struct left **at = &first;

	ASSERT(pthread_mutex_lock(&lock) == 0);
	while (*at) {
		struct left *l = *at;

		if (cm ? l->id->channel != cm : !is_due(l, now_ns)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		destroy(l);
		free(l);
	}
	ASSERT(pthread_mutex_unlock(&lock) == 0);
}

void fab__rdma_leave_step(uint64_t now_ns)
{
	sweep(NULL, now_ns);
}

void fab__rdma_leave_all(const struct rdma_event_channel *cm)
{
	ASSERT(cm);
	sweep(cm, 0);
}

uint64_t fab__rdma_leave_deadline(void)
{
	uint64_t deadline = UINT64_MAX;

	ASSERT(pthread_mutex_lock(&lock) == 0);
	for (const struct left *l = first; l; l = l->next)
		deadline = min_u64(deadline, l->due_ns);
	ASSERT(pthread_mutex_unlock(&lock) == 0);
	return deadline;
}
