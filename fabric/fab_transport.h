/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The interface of a transport, in eight calls.  A transport moves capsules and, if windows are not
 * shared memory, the payload after them; it knows nothing of requests.  One struct fab_link is one
 * end of one connection; fab_shm.c and fab_tcp.c embed it first in their structs, and so does the
 * simulated network of the tests.
 */
#ifndef FAB_TRANSPORT_H
#define FAB_TRANSPORT_H

#include "base/list.h"
#include "fabric/fab.h"
#include "fabric/fab_wire.h"

/* The owner of a capsule to send, which decides what happens after it was sent. */
enum fab_tx_kind {
	FAB_TX_REPLY,   /* of a request: its credit is free       */
	FAB_TX_PART,    /* of a piece: FAB_EVENT_SENT             */
	FAB_TX_CONTROL, /* nobody waits                           */
	FAB_TX_REQUEST, /* of a call                              */
	FAB_TX_DATA,    /* answers a PULL                         */
	FAB_TX_FETCH,   /* onesided: payload is read: FAB_EVENT_PULLED */
	FAB_TX_BODY,    /* the transport's own: a long body is read    */
	FAB_TX_PROBE,   /* ... and: does the peer answer?              */
};

/* Memory of the other side, as registered with its card. */
struct fab_remote {
	uint64_t address;
	uint32_t key;
};

/*
 * A capsule to be sent.  It is embedded in its owner, so a transport's queue has no size of its
 * own: credits, pieces and pools bound it.
 */
struct fab_tx {
	struct list node;
	struct fab_hdr_wire hdr;  /* check is the transport's */
	const void *body;         /* over FAB_SMALL_MAX, else NULL */
	const void *payload;      /* after PART, DATA, REPLY, or NULL; for FETCH the destination */
	struct fab_remote remote; /* onesided: the payload's other place */
	uint32_t body_bytes;
	uint32_t payload_bytes;
	enum fab_tx_kind kind;
};

struct fab_link {
	const struct fab_transport *ops;
	bool later;          /* nothing waits for these bytes: fab_flush_later() */
	uint64_t left_bytes; /* a stream: that the kernel has taken so far ... */
	bool is_full;        /* ... and it takes no more now                   */
};

struct fab_transport {
	const char *name;
	bool direct; /* windows are memory of both sides: no PART, PULL, DATA */
	/* The appliance reaches the client's memory itself: PART is written and FETCH read at
	 * tx->remote, without a capsule; long bodies lie in slots, as in shared memory. */
	bool onesided;

	/* The next header, unchecked but for a stream's check.  1: there, 0: none yet, < 0: broken.
	 */
	int (*recv_header)(struct fab_link *link, struct fab_hdr_wire *out);

	/*
	 * Receives the bytes after the last header: its body (`slot` is the header's) or payload.
	 * Continues at dst + *done_bytes; 1: all `size_bytes` received, 0: not yet, < 0: broken.
	 */
	int (*recv_bytes)(struct fab_link *link, uint32_t slot, void *dst, uint32_t size_bytes,
			  uint32_t *done_bytes);

	/* 1: it has left, `tx` is the caller's; 0: sent() will return it. */
	int (*send)(struct fab_link *link, struct fab_tx *tx);
	struct fab_tx *(*sent)(struct fab_link *link);

	/* Sends the queue and wakes the other side.  < 0: broken. */
	int (*flush)(struct fab_link *link);

	/* The other side is to wake us.  False: something is here already. */
	bool (*arm)(struct fab_link *link);
	void (*disarm)(struct fab_link *link);

	/*
	 * Stops touching memory; sent() returns the capsules that were not sent.  For an
	 * appliance's onesided link only after the control side has destroyed the queue pair
	 * (fab_rdma.h).
	 */
	void (*close)(struct fab_link *link);
};

#endif
