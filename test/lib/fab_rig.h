/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An appliance's fabric and a client of it, in one process and one thread: real sockets and real
 * shared memory, stepped by hand.
 */
#ifndef FAB_RIG_H
#define FAB_RIG_H

#include "fabric/fab.h"

#define FAB_RIG_IOVA UINT64_C(0x4000000000) /* of a pool: this plus its address, low bits */

struct fab_rig {
	struct fab_server *srv;
	struct fab_conn *conn;
	struct fab_region *region;
	uint64_t now_ns;
	char address[128];
	/* what the control side has said so far */
	uint32_t pools_added;
	uint32_t pools_gone;
	uint32_t refused;
	char refusal[256]; /* the last one */
	char notice[256];  /* the last one */
};

extern const struct fab_key fab_rig_key;

/* A key of 32 bytes `secret`, for the tree `subtree`. */
struct fab_grant fab_rig_grant(const char *id, uint8_t secret, const char *subtree, bool may_write);

/* A server on `transport` ("shm" or "tcp", or an address); cfg may be NULL. */
void fab_rig_serve(struct fab_rig *rig, const char *transport, const struct fab_server_cfg *cfg);
/* ... and a client of it, with a pool of `pool_bytes` (0: none). */
void fab_rig_connect(struct fab_rig *rig, uint64_t pool_bytes);
/* Connect another; returns what fab_connect_step() ended with. */
int fab_rig_dial(struct fab_rig *rig, const struct fab_connect_cfg *cfg, struct fab_conn **out);
struct fab_region *fab_rig_pool(struct fab_rig *rig, struct fab_conn *conn, uint64_t bytes);

/* One turn of the control side: pools are mapped and unmapped. */
void fab_rig_control(struct fab_rig *rig);
/* One turn of both sides in which the core learns nothing: what was closed goes to control. */
void fab_rig_idle(struct fab_rig *rig);
/* Turns of all until what was begun is done; events are thrown away. */
void fab_rig_settle(struct fab_rig *rig);
/* Turns until the core has an event other than SESSION_NEW, or ASSERTs after many. */
struct fab_event fab_rig_event(struct fab_rig *rig);
struct fab_req *fab_rig_request(struct fab_rig *rig);
/* Turns until the client has a call back. */
struct fab_call *fab_rig_done(struct fab_rig *rig, struct fab_conn *conn);
/* Client gone, server stopped, everything released. */
void fab_rig_end(struct fab_rig *rig);

#endif
