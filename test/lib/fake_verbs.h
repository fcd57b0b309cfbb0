/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Verbs in memory: queue pairs, registrations and the connection manager of one process in one
 * thread, from a seed.  It takes the place of the host's libraries, so that both ends' shipped code
 * runs on it unchanged, and it ASSERTs against misuse by which a card or its driver would silently
 * spoil data: queues that overflow, memory that is not registered, memory that is freed while work
 * on it is in flight.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include "fabric/link/fab_rdma_verbs.h"

#include <stdbool.h>
#include <stdint.h>

struct fake_verbs_cfg {
	uint64_t seed;
	int max_qp_wr; /* 0s: generous */
	int max_sge;
	int max_cqe;
	int max_qp_rd_atom;
	uint32_t max_inline; /* a queue pair that wants more cannot be made */
	uint32_t max_msg_sz;
	uint32_t steps_max; /* work requests carried out in one look at a completion queue */
};

/* From now on fab__verbs() returns these. */
void fake_verbs_begin(const struct fake_verbs_cfg *cfg);
/* ASSERTs that nothing is left of all that was made. */
void fake_verbs_end(void);

/* Objects there are: domains, registrations, queues, channels, ids. */
uint32_t fake_verbs_objects(void);
/* Receives posted to the queue pair that was accepted (server) or connected last. */
uint32_t fake_verbs_receives(bool server);
/* Nothing moves any more, and nothing completes: a peer that is gone. */
void fake_verbs_freeze(bool frozen);
/*
 * The queue pairs break: each side sees one completion with an error.  Posted work is "in the
 * card": it may still be carried out until its queue pair is destroyed.
 */
void fake_verbs_break(void);
/*
 * The port goes down, and all queue pairs with it; or is up again.  If the
 * connection manager has to send a message in between, it never delivers a message again.
 */
void fake_verbs_port(bool up);
/* A device's event: of one queue pair that was accepted (QP_*), its completion queue (CQ_ERR), or
 * port 1 (the others), which PORT_ERR brings down and PORT_ACTIVE up again. */
void fake_verbs_event(enum ibv_event_type type);
/* Does a descriptor that somebody sleeps on say so now? */
bool fake_verbs_readable(int fd);
/* The port's address from now on; in the beginning 1. */
void fake_verbs_address(uint8_t address);
/* The connection manager reports to each id on the device that it was removed; listening fails
 * until the device is added again. */
void fake_verbs_remove(void);
void fake_verbs_add(void);
/* Sets whether a query of the port's state says "up" while it is down. */
void fake_verbs_port_seen(bool up);
/* Is [at, at + bytes) named by work that may still be carried out? */
bool fake_verbs_busy(const void *at, uint64_t bytes);

/* Counts since begin. */
struct fake_verbs_stat {
	uint32_t sends;
	uint32_t writes;
	uint32_t reads;
	uint32_t probes; /* writes of no bytes */
	uint32_t signalled;
	uint32_t inlined;
	uint64_t locked_bytes; /* registered now */
	uint32_t rnr;          /* sends that met no receive */
	uint32_t chunk_max_bytes;
	uint32_t reads_out_max;
};
extern struct fake_verbs_stat fake_verbs_stat;

#endif
