/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Capsules and payload through a reliable queue pair: fab_rdma.c moves them, fab_rdma_open.c makes
 * and destroys the objects for that, fab_rdma_dial.c and fab_rdma_listen.c find the other side.
 */
#ifndef FAB_RDMA_H
#define FAB_RDMA_H

#include "fabric/fab_internal.h"
#include "fabric/link/fab_rdma_plan.h"
#include "fabric/link/fab_rdma_verbs.h"

#define FAB_RDMA_RANGES_MAX 128u /* of an appliance's memory             */
#define FAB_RDMA_CQES_MAX   16u  /* taken from a completion queue at once */

/* How long a card tries before it reports that the peer does not answer: 4.096 us x 2^17, 0.54 s,
 * seven times; cards may take up to four times as long.  Not 7 retries: soft-RoCE takes that as for
 * ever. */
#define FAB_RDMA_ACK_TIMEOUT 17
#define FAB_RDMA_RETRIES     6

/*
 * Capsules in one SEND: a packet of the usual smallest path MTU full; a single one may take a
 * whole receive, FAB_SLOT_BYTES.  They wait for no more payload than this, which takes a link of
 * 10 Gbit/s 50 us.
 */
#define FAB_RDMA_PACK_MAX 1024u
#define FAB_RDMA_PASS_MAX 65536u

/* Work requests of the appliance at once: a reply and its like for each credit, and parts. */
#define FAB_RDMA_SERVER_SENDS(credits) (2u * (credits) + 64u)

/* PROTOCOL.md 10: silence after which the peer's card is probed ... */
#define FAB_RDMA_PROBE_NS UINT64_C(5000000000)
/* ... and the longest that a client waits for the answer, whatever its own card reports; the
 * appliance waits as long as for anything: FAB_STALL_NS. */
#define FAB_RDMA_GONE_NS UINT64_C(10000000000)

/* Data in the connection request and its answer: PROTOCOL.md 10. */
struct fab_rdma_greeting {
	uint8_t version_min;
	uint8_t version_max;
};
#define FAB_RDMA_GREETING_BYTES 8u
#define FAB_RDMA_BUSY           "busy" /* the text of a rejection begins with it: try again */
void fab__rdma_greeting_build(uint8_t out[FAB_RDMA_GREETING_BYTES]);
/* -EPROTO: not ours; -EPROTONOSUPPORT: no version in common. */
must_check int fab__rdma_greeting_parse(struct fab_rdma_greeting *out, const void *bytes,
					uint32_t size_bytes);

/* ---- a device, and its registered memory --------------------------------------------- */

struct fab_rdma_device {
	const struct fab_verbs *v;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	uint32_t users; /* its connections; of a client also those that are being made */
	bool gone;      /* the appliance's: it has failed or was removed */
	bool of_client; /* ends with the last of them, and is in memory of its own */
	struct fab_rdma_offered {
		struct ibv_mr *mr; /* NULL: free */
		uint32_t users;
	} offered[FAB_POOLS_MAX]; /* a client's pools, for all lanes of a session */
	/* Memory in `pd`: grows only. */
	struct ibv_mr *mrs[FAB_RDMA_RANGES_MAX];
	_Atomic uint32_t mr_count;
};

/* ---- one connection ------------------------------------------------------------------- */

struct fab_rdma_cfg {
	bool server;
	/* The appliance's; a client's other lane's, or NULL: one is made, if that is not of `id`.
	 */
	struct fab_rdma_device *device;
	uint32_t receives_max;
	uint32_t sends; /* sends in flight that are wanted */
	uint32_t reads_max;
};

struct fab_rdma {
	struct fab_link link;
	const struct fab_verbs *v;
	bool server;
	bool closed;
	int err;          /* sticky */
	bool unreachable; /* it broke because the peer did not answer */
	struct fab_rdma_plan plan;
	struct ibv_qp *qp; /* NULL: none any more */
	struct ibv_cq *cq;
	/* capsules: receives_max places to receive, then plan.limits.depth to send from */
	uint8_t *capsules;
	uint64_t capsules_bytes;
	uint32_t capsules_key; /* local */
	/* receives, counted since the start and beyond 2^32, which is no multiple of receives_max:
	 * done <= posted; taken <= done; freed is taken, or one less while its last capsule is
	 * being looked at */
	uint32_t receives_max;
	uint32_t receives; /* to be posted at any time */
	uint64_t posted;
	uint64_t done;
	uint64_t taken;
	uint64_t freed;
	uint32_t *received_bytes; /* by place */
	uint32_t taken_bytes;     /* of the receive at `taken`, handed out already */
	const uint8_t *behind;    /* the header that was handed out last */
	/* a long body in transit */
	struct fab_remote longs;
	uint32_t longs_count; /* 0: the peer has not said where they are */
	struct fab_tx body;
	bool body_out;
	struct fab_tx probe;
	bool probe_out;
	/* the hello's bytes */
	uint32_t hello_at; /* bytes of the first capsule that were handed out */
	struct fab_tx hello;
	/* made and destroyed by fab_rdma_open.c */
	struct fab_rdma_device *device; /* the appliance's, or our own */
	struct rdma_cm_id *id;
	struct rdma_event_channel *cm; /* goes with it; NULL: it is the listeners', too */
	struct ibv_comp_channel *channel;
	struct ibv_mr *capsules_mr;
	struct ibv_mr *longs_mr;
	struct ibv_mr *pool_mrs[FAB_POOLS_MAX];
	struct fab_rdma_posted *ring;
	bool established;
	void *owner; /* the appliance's: an arrival, then a session */
	bool owner_is_session;
};

/* ---- fab_rdma.c: the transport ---------------------------------------------------------- */

void fab__rdma_link_init(struct fab_rdma *r, const struct fab_verbs *v, bool server);
/* Posts up to `count` receives from now on.  < 0: the queue pair is broken. */
must_check int fab__rdma_receives(struct fab_rdma *r, uint32_t count);
/* The queue pair was destroyed: all that was in flight comes out of sent(). */
void fab__rdma_halted(struct fab_rdma *r);
/* Changes whenever the peer, or its card, has said something. */
static inline uint32_t fab__rdma_heard(const struct fab_rdma *r)
{
	return (uint32_t)r->done + r->plan.retired;
}
/* Asks the peer's card whether it is there, unless a message in flight will show that. */
void fab__rdma_probe(struct fab_rdma *r);
/* `id` gives up a peer that does not answer as FAB_RDMA_ACK_TIMEOUT says. */
void fab__rdma_timeout_set(const struct fab_verbs *v, struct rdma_cm_id *id);
/* Bytes of the hello, capsule by capsule; as recv() and send() with MSG_DONTWAIT: -EAGAIN. */
must_check ssize_t fab__rdma_hello_recv(struct fab_rdma *r, void *dst, uint32_t size_bytes);
must_check ssize_t fab__rdma_hello_send(struct fab_rdma *r, const void *bytes, uint32_t size_bytes);

/* ---- fab_rdma_dial.c: the client's way there ------------------------------------------- */

struct fab_rdma_dial {
	const struct fab_verbs *v;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id; /* NULL: none, or `rdma` has it */
	struct fab_rdma *rdma;
	struct fab_rdma_device *share; /* of another lane, or NULL */
	uint32_t receives_max;
};
/* Begin; `lane_of`: another connection of the session, or NULL.  The descriptor that says when to
 * step is cm->fd, and later rdma->channel->fd, too. */
must_check int fab__rdma_dial(struct fab_rdma_dial *d, const struct fab_addr *to,
			      uint32_t receives_max, const struct fab_rdma *lane_of,
			      char why[FAB_WHY_MAX]);
/* 0: there; -EINPROGRESS; or how it failed. */
must_check int fab__rdma_dial_step(struct fab_rdma_dial *d, uint64_t now_ns, char why[FAB_WHY_MAX]);
/* Once there: < 0 when the connection has ended. */
must_check int fab__rdma_dial_events(struct fab_rdma_dial *d, char why[FAB_WHY_MAX]);
/* ... and when our port is down: to be asked when the device has said something. */
must_check int fab__rdma_dial_port(const struct fab_rdma_dial *d, char why[FAB_WHY_MAX]);
/* In a child process only memory goes: the queue pair is the parent's. */
void fab__rdma_dial_free(struct fab_rdma_dial *d, bool child);

/* ---- fab_rdma_leave.c ------------------------------------------------------------------- */

/* No peer was reached through this id's port ... */
void fab__rdma_unreachable(const struct rdma_cm_id *id);
/* Returns true while it is unknown whether the peer's port is down: nothing is sent through it. */
must_check bool fab__rdma_hushed(const struct rdma_cm_id *id, uint64_t now_ns);
/* Returns true if the port that the connection's id uses is up. */
must_check bool fab__rdma_port_up(const struct fab_verbs *v, const struct rdma_cm_id *id);
/* Returns true if the port still has the connection's address. */
must_check bool fab__rdma_has_address(const struct fab_verbs *v, const struct rdma_cm_id *id);
/* Both: a goodbye finds its way. */
must_check bool fab__rdma_may_speak(const struct fab_verbs *v, const struct rdma_cm_id *id);
/* Destroys `id`, which has no queue pair, and `cm` (or NULL): now, or when it may say goodbye. */
void fab__rdma_leave(const struct fab_verbs *v, struct rdma_cm_id *id,
		     struct rdma_event_channel *cm, bool unreachable);
/* Those of this process that are due. */
void fab__rdma_leave_step(uint64_t now_ns);
must_check uint64_t fab__rdma_leave_deadline(void);
/* Those with this event channel, at once: it will be destroyed. */
void fab__rdma_leave_all(const struct rdma_event_channel *cm);

/* ---- fab_rdma_open.c -------------------------------------------------------------------- */

/* -EOPNOTSUPP: the device can too little; `why` gets a line. */
must_check int fab__rdma_device_open(struct fab_rdma_device *dev, const struct fab_verbs *v,
				     struct ibv_context *verbs, char why[FAB_WHY_MAX]);
void fab__rdma_device_close(struct fab_rdma_device *dev);
/* One user less.  In a child process only memory goes. */
void fab__rdma_device_put(struct fab_rdma_device *dev, bool child);
/* The appliance's memory may be moved to and from; control's. */
must_check int fab__rdma_device_add(struct fab_rdma_device *dev, void *base, uint64_t size_bytes);

/* A queue pair on `id`, with everything it wants.  On failure nothing is left but `id`. */
must_check int fab__rdma_open(struct fab_rdma **out, const struct fab_verbs *v,
			      struct rdma_cm_id *id, const struct fab_rdma_cfg *cfg,
			      char why[FAB_WHY_MAX]);
/* At most so much memory it takes, the queues of its card's library included. */
uint64_t fab__rdma_bytes(uint32_t receives, uint32_t sends);
/* No work request of ours is carried out after this. */
void fab__rdma_halt(struct fab_rdma *r);
/* Undoes fab__rdma_open(), and destroys `id`. */
void fab__rdma_free(struct fab_rdma *r);
void fab__rdma_forget(struct fab_rdma *r); /* only our memory: after a fork, in the child */
/* Our memory for the other side to reach: region 0 are the long bodies. */
must_check int fab__rdma_offer(struct fab_rdma *r, uint32_t region, void *memory,
			       uint64_t size_bytes, struct fab_remote *out);
/* Our memory for long bodies to be read into. */
must_check int fab__rdma_longs(struct fab_rdma *r, void *memory, uint64_t size_bytes);

#endif
