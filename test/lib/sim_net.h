/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A network in memory, from a seed: what is sent arrives later, in pieces, in order; a cut
 * connection loses what is on its way.  It stands where fab_tcp.c stands, so that the code of
 * both ends runs unchanged, in one thread and in simulated time.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "base/rand.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"

struct sim_net {
	struct rand_state rand;
	uint64_t now_ns;
	uint64_t delay_max_ns; /* of one message; 0: at once */
};

struct sim_link {
	struct fab_link link;
	struct sim_net *net;
	struct sim_link *peer;
	struct list in;        /* sim_message, oldest first */
	struct list in_flight; /* fab_tx that sent() has not returned */
	bool cut;
	uint64_t arrives_ns;     /* of the last message sent to us: order is kept */
	struct fab_hdr_wire hdr; /* that is coming in */
	uint32_t hdr_bytes;      /* of it, so far */
};

void sim_net_init(struct sim_net *net, uint64_t seed, uint64_t delay_max_ns);

/* Two ends.  sim_link_free() both when nobody uses them any more. */
void sim_link_pair(struct sim_net *net, struct sim_link *a, struct sim_link *b);
void sim_link_cut(struct sim_link *link);
void sim_link_free(struct sim_link *link);

/* Put bytes into the end's stream as they are: what a hostile peer would send. */
void sim_link_inject(struct sim_link *link, const void *bytes, uint32_t size_bytes);

/* A session and a client on the two ends, as after a hello. */
struct fab_conn *sim_net_connect(struct fab_server *srv, struct sim_link *server_end,
				 struct sim_link *client_end, const struct fab_limits *limits);
/* Cuts it, and frees all of it, the appliance too; so many sessions were said to be closed. */
uint32_t sim_net_end(struct fab_server *srv, struct fab_conn *conn, struct sim_link ends[2]);

#endif
