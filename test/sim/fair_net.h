/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A network of bounded bandwidth in simulated time: where fab_tcp.c stands, for hundreds of
 * sessions of one appliance, and clients that are a few lines each.
 *
 *   client --request--> mail (a constant delay) --> lane->in --> the appliance
 *   client <--reply---- (the delay) <-- the wire <-- socket buffer (bounded) <-- lane->out
 *                                        64 KiB of each lane in turn, as a switch does it
 *
 * Payload is counted and not carried.  A lane that is deaf takes RECEIVE_BYTES and no more.
 */
#ifndef FAIR_NET_H
#define FAIR_NET_H

#include "fabric/hello/fab_server_internal.h"

struct fair_net;

struct fair_lane {
	struct fab_link link;
	struct fair_net *net;
	struct fab__session
		*session; /* the appliance's end; NULL: it has not begun, or has ended */
	void *client;
	bool deaf, cut;
	/* private */
	bool stuck;
	struct list in, out, done, marks, turn;
	uint64_t out_at;                /* bytes of the first of `out` that have left */
	uint64_t put_bytes, wire_bytes; /* into the socket, onto the wire             */
	uint32_t slot;                  /* of the letter that is being read           */
};

struct fair_reply { /* what a client hears */
	struct fair_lane *lane;
	uint64_t id;
	int32_t status;
	uint32_t retry_ms;
};

struct fair_net {
	uint64_t now_ns;
	uint64_t delay_ns;
	uint64_t bytes_per_s;
	/* The appliance's work, for fair.c, which computes its time. */
	uint64_t recv_count, send_count, sent_bytes, capsule_count;
	/* private */
	uint64_t wire_free_ns;
	struct list mail, wire, replies;
};

void fair_net_init(struct fair_net *net);
/* A session of `srv` at the other end, as after a hello, with a pool of `pool_bytes` in region 1.
 */
void fair_open(struct fair_net *net, struct fair_lane *lane, struct fab_server *srv,
	       const struct fab_limits *limits, uint32_t key, uint64_t pool_bytes);
void fair_cut(struct fair_lane *lane);
/* The appliance has let go of it: it may be opened again. */
bool fair_is_gone(const struct fair_lane *lane);
void fair_net_fini(struct fair_net *net, struct fair_lane *lanes, size_t stride, uint32_t count);

/* A header, and behind it what does not fit into it.  The check is made here. */
void fair_send(struct fair_lane *lane, struct fab_hdr_wire *hdr, const void *body, uint32_t bytes);
/* Let arrive what has arrived by now_ns.  1: *out is a reply that a client has now. */
int fair_hear(struct fair_net *net, struct fair_reply *out);
/* When something arrives or may be sent; UINT64_MAX. */
uint64_t fair_net_next_ns(const struct fair_net *net);

#endif
