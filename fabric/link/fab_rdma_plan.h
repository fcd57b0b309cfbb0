/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Decides which work requests a queue pair gets, in which order, and what to do when one completes.
 * It knows no verbs: fab_rdma.c posts what this plans.
 */
#ifndef FAB_RDMA_PLAN_H
#define FAB_RDMA_PLAN_H

#include "base/list.h"
#include "fabric/fab_transport.h"

/* Limits of device, port and peer. */
struct fab_rdma_limits {
	uint32_t depth;        /* of the send queue: a power of two, at least 4 */
	uint32_t reads_max;    /* RDMA READs in flight; 0: none ever            */
	uint32_t chunk_max;    /* bytes of one work request                     */
	uint32_t inline_max;   /* bytes that may go with the work request       */
	uint32_t signal_every; /* at least one of this many is signalled        */
	uint32_t pack_max;     /* bytes of several capsules in one SEND         */
	uint32_t pass_max;     /* payload that a pack may let pass             */
};

enum fab_rdma_op { FAB_RDMA_SEND, FAB_RDMA_WRITE, FAB_RDMA_READ };

struct fab_rdma_work {
	enum fab_rdma_op op;
	struct fab_tx *tx; /* for a SEND the first of `count` in a row on `done` */
	uint32_t count;
	uint32_t at;    /* of the payload, this piece */
	uint32_t bytes; /* of it; of a SEND all there is in it */
	uint32_t seq;   /* names it in its completion; seq % depth is like no other's in flight */
	bool signalled;
};

struct fab_rdma_posted {
	struct fab_tx *tx; /* done when this completes; NULL: nothing waits for it */
	bool is_read;
	bool signalled;
};

struct fab_rdma_plan {
	struct fab_rdma_limits limits;
	struct list out;   /* fab_tx: capsules and writes, in order */
	struct list pack;  /* fab_tx: capsules of the next SEND     */
	struct list reads; /* fab_tx: reads, in order               */
	struct list done;  /* fab_tx                                */
	uint32_t out_at;   /* posted bytes of the first's payload */
	uint32_t reads_at;
	uint32_t pack_count;
	uint32_t pack_bytes;
	uint32_t passed; /* bytes of payload posted since the pack was begun */
	uint32_t posted; /* work requests since the start, modulo 2^32 */
	uint32_t retired;
	uint32_t reads_out;
	uint32_t signals_out;
	uint32_t unsignalled;         /* in a row, up to the last posted           */
	bool holds;                   /* a buffer waits for one of these           */
	bool body_here;               /* a BODY has completed: it is not on `done` */
	struct fab_rdma_posted *ring; /* limits.depth, by seq                      */
};

void fab__rdma_plan_init(struct fab_rdma_plan *plan, const struct fab_rdma_limits *limits,
			 struct fab_rdma_posted *ring);

/* One more to go: by its kind a capsule, a write (PART; PROBE: of no bytes), a read (FETCH, BODY).
 */
void fab__rdma_plan_add(struct fab_rdma_plan *plan, struct fab_tx *tx);

/* Returns the bytes of a capsule in a SEND: its header, and its body unless that is long. */
static inline uint32_t fab__rdma_capsule_bytes(const struct fab_tx *tx)
{
	bool behind = tx->body && tx->body_bytes <= FAB_BODY_MAX;

	return (uint32_t)sizeof(tx->hdr) + (behind ? tx->body_bytes : 0);
}

/*
 * Returns the next work request to post; false: none now.  The capsules of a SEND are on `done`:
 * copy their bytes before you call the plan again.
 */
must_check bool fab__rdma_plan_next(struct fab_rdma_plan *plan, struct fab_rdma_work *out);

/* `seq` has completed, and so has all before it.  -EPROTO: it is not in flight. */
must_check int fab__rdma_plan_done(struct fab_rdma_plan *plan, uint32_t seq);

/* Is something on its way, or about to be, whose completion says that the peer's card answers? */
must_check bool fab__rdma_plan_waits(const struct fab_rdma_plan *plan);

/* The queue pair is no more: all that was in flight is done. */
void fab__rdma_plan_abort(struct fab_rdma_plan *plan);

#endif
