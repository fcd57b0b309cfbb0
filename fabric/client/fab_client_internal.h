/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The client's end: fab_conn.c and fab_conn_in.c without a socket, fab_dial.c and fab_client.c with
 * one. */
#ifndef FAB_CLIENT_INTERNAL_H
#define FAB_CLIENT_INTERNAL_H

#include "fabric/fab_internal.h"
#include "fabric/link/fab_rdma.h"

enum fab_conn_at { CONN_DIALS, CONN_HELLO, CONN_OPEN, CONN_BROKEN };

struct fab__call { /* in fab_call.opaque */
	uint64_t id;
	uint32_t slot;
	bool cancelled;
};

static inline struct fab__call *fab__call_inside(struct fab_call *call)
{
	static_assert(sizeof(struct fab__call) <= sizeof(call->opaque), "room in fab_call");
	return (struct fab__call *)(void *)call->opaque;
}

/* One credit: the request that uses it. */
struct fab_slot {
	struct fab_call *call; /* NULL: none waits for it */
	uint64_t id;
	int32_t long_slot; /* -1: none */
	bool tx_busy;      /* the transport still has `tx` */
	bool cancel_busy;  /* ... or `cancel`               */
	struct fab_tx tx;
	struct fab_tx cancel;
	_Alignas(64) uint8_t body[FAB_BODY_MAX];
};

struct fab_answer_tx { /* DATA */
	struct fab_tx tx;
	bool busy;
};

struct fab_conn {
	enum fab_conn_at at;
	int status; /* why it is broken */
	bool direct;
	bool onesided;
	struct fab_link *link;
	struct fab_limits limits;
	struct fab_slot *slots; /* limits.credits */
	uint16_t *slot_free;    /* stack */
	uint32_t slot_free_count;
	uint32_t broken_next; /* slots up to here were given back after the break */
	uint64_t sequence;
	uint16_t change_at[FAB_CHANGE_SLOTS]; /* the slot of the change that was sent last by it */
	uint64_t long_free;                   /* bits */
	uint8_t *longs;                       /* tcp, rdma: ours; shm: shared */
	struct fab_region regions[FAB_POOLS_MAX];
	uint64_t pools_bytes;
	struct fab_answer_tx answers[FAB_PULLS_MAX]; /* by the PULL's number */
	/* a capsule that is coming in */
	bool rx_wants;
	uint64_t rx_count; /* received headers */
	struct fab_hdr rx_hdr;
	struct fab_call *rx_call; /* NULL: payload of a PART */
	uint8_t *rx_payload; /* destination of the payload after the reply's body; NULL: none */
	uint8_t *rx_dst;
	uint32_t rx_need;
	uint32_t rx_done;
	uint64_t rx_before; /* payload bytes after that header that were received earlier */
	/* fab_client.c */
	struct fab_addr addr;
	struct fab_key *key; /* in a page of its own; after the hello it is the session's */
	pid_t owner;         /* the process that connected */
	struct fab_limits want;
	bool joins; /* a session of others: `join` */
	struct fab__join join;
	uint8_t client_id[FAB_CLIENT_ID_BYTES];
	struct fab_hello hello;
	uint64_t deadline_ns; /* of the hello */
	uint64_t answered_ns; /* when bytes came last, or the socket was asked */
	bool port_due;        /* rdma: an event of the device: check its port */
	bool found;           /* the last poll found something */
	bool socket_due; /* epoll reported an event: shm: check the unix socket; rdma: its events */
	uint64_t probe_ns; /* rdma: when to check next whether the appliance is still there */
	uint64_t asked_ns; /* ... and since when its card has owed an answer; 0: it does not */
	uint32_t heard;    /* ... fab__rdma_heard() at the last check */
	int fd;
	int epoll_fd;
	int doorbells[2]; /* shm: the appliance's, ours */
	struct fab_shm shm;
	struct fab_tcp *tcp;
	struct fab_tls *tls; /* tls:// */
	bool secured;        /* its handshake is done */
	struct fab_rdma_dial rdma;
	struct fab_tx longs_tx; /* rdma: POOL_ADD of region 0 */
	uint32_t in_bytes;      /* shm: of a POOL_ADDED */
	int in_fd;              /* descriptor that came with it */
	uint8_t in[sizeof(struct fab_hdr_wire)];
	char why[FAB_WHY_MAX];
	uint32_t self_check; /* polls, in variants with WK_DEBUG */
};

/* Memory for slots and, over tcp, long bodies; `link` stays the caller's. */
must_check int fab__conn_open(struct fab_conn *conn, struct fab_link *link,
			      const struct fab_limits *limits, uint8_t *shared_longs);
void fab__conn_free(struct fab_conn *conn);
/* Receive; returns how many of done[]. */
must_check uint32_t fab__conn_poll(struct fab_conn *conn, struct fab_call **done,
				   uint32_t done_max);
#ifdef WK_DEBUG
#define FAB_CONN_CHECK_TURNS 64u
/* fab_conn_check.c: called each so many polls. */
void fab__conn_check(const struct fab_conn *conn);
#endif
/* A slot that neither a call nor the transport needs any more is free again. */
void fab__slot_settle(struct fab_conn *conn, struct fab_slot *slot);
void fab__conn_break(struct fab_conn *conn, int err, const char *why);
/* As fab__conn_break(), and returns err; `why` may be the connection's own line.  fab_dial.c */
int fab__conn_broken(struct fab_conn *conn, int err, const char *why);
void fab__conn_key_forget(struct fab_conn *conn);
/* Unless it is the caller's. */
void fab__region_unmap(struct fab_region *r);
/* POOL_ADDED has come, on whichever way. */
must_check int fab__region_added(struct fab_conn *conn, const struct fab_hdr_wire *w, int fd);

#endif
