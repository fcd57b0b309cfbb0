/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A client that means harm: it is let in, and then says what no library would.  Half of it is a
 * request that is right but for a thing or two, since nonsense alone gets no further than the
 *parser.
 *
 *	hostile_begin()  a session, as after a hello
 *	hostile_say()    one capsule, from the seed
 *	hostile_hear()   what came back: PULLs are noted, to be answered wrongly, or rightly
 *	hostile_end()    the line is cut, in whatever state all this is
 */
#ifndef HOSTILE_PEER_H
#define HOSTILE_PEER_H

#include "test/lib/sim_net.h"

enum { HOSTILE_IDS = 64, HOSTILE_PULLS = 8 };

/* Counts of the whole run, over all sessions. */
struct hostile_seen {
	uint64_t capsules;
	uint64_t sessions;
	uint64_t ended;                 /* sessions that the appliance closed            */
	uint64_t good[FAB_TYPE_END];    /* replies of status 0 to requests of this type  */
	uint64_t refused[FAB_TYPE_END]; /* ... of another status                         */
	uint64_t pulls;                 /* that it was asked for                         */
	uint64_t strange;               /* replies to requests that it never made: a bug */
	int strange_type;
};

struct hostile {
	struct sim_net *net;
	struct rand_state *rand;
	struct hostile_seen *seen;
	struct sim_link server_end, client_end;
	struct fab_conn *conn;    /* never used: only the line is */
	struct fab_handle handle; /* of a file that is its own */
	uint64_t dir;             /* the number of a directory */
	uint64_t next_id;
	uint32_t malice; /* of 1000 capsules so many break a rule */
	uint32_t credits, in_flight;
	uint32_t pools;
	bool has_pool;                /* region 1 may be named */
	bool odd_ids;                 /* it has used some beside 1 .. next_id */
	uint8_t type_of[HOSTILE_IDS]; /* request `id % HOSTILE_IDS`, when it was a plain one; else 0
				       */
	uint64_t pull_id[HOSTILE_PULLS];
	struct fab_piece_wire pull[HOSTILE_PULLS];
	uint32_t pull_count;
	uint32_t skip_bytes; /* of payload that is on its way */
};

void hostile_begin(struct hostile *h, struct fab_server *srv, const struct fab_limits *limits);
void hostile_say(struct hostile *h);
/* False: the appliance has closed the line. */
bool hostile_hear(struct hostile *h);
void hostile_end(struct hostile *h);

#endif
