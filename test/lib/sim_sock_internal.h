/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* sim_sock.c: what travels; sim_sock_call.c: the calls of a kernel. */
#ifndef SIM_SOCK_INTERNAL_H
#define SIM_SOCK_INTERNAL_H

#include "base/assert.h"
#include "base/num.h"
#include "test/lib/sim_sock.h"

#define SIM_FD_BASE  (1 << 20) /* the system's are far below */
#define SIM_FDS_MAX  1024u
#define SIM_WATCHES  64u
#define SIM_BACKLOG  64u
#define SIM_MOODS_NS UINT64_C(20000000) /* about how long a flow stays as slow as it is */

enum sim_obj_type { SIM_FREE, SIM_STREAM, SIM_LISTENER, SIM_EPOLL, SIM_EVENTFD, SIM_TIMER };

enum sim_segment_type { SIM_DATA, SIM_FIN, SIM_RESET };

struct sim_segment {
	struct list node;
	enum sim_segment_type type;
	uint64_t sent_ns, arrives_ns;
	uint32_t at, size;
	uint8_t bytes[];
};

struct sim_flow {             /* what one end sends */
	struct list way;      /* sim_segment, in order                         */
	struct list ready;    /* ... that has arrived and is not yet read      */
	uint64_t arrives_ns;  /* of the last one: order is kept             */
	uint64_t progress_ns; /* when something arrived last                */
	uint64_t mood_ns, delay_max_ns;
	uint32_t way_bytes, ready_bytes;
	uint32_t send_max, receive_max;
	bool lost;  /* what is sent from now on does not arrive         */
	bool fin;   /* has arrived                                      */
	bool stuck; /* a send() found no room                           */
};

struct sim_watch {
	int fd; /* -1: none */
	uint32_t events;
	uint64_t seen; /* edge-triggered: obj->event that was told last */
	uint64_t data;
};

struct sim_obj { /* what a descriptor means */
	enum sim_obj_type type;
	uint32_t host;
	uint32_t address; /* a listener's, of the host's */
	bool dead;        /* its process is */
	uint64_t event;   /* grows with each thing that an edge is    */
	/* SIM_STREAM */
	struct sim_conn *conn; /* NULL: neither connected nor connecting */
	int end;               /* 0: that connected, 1: that accepted    */
	int err;               /* to be told                             */
	bool shut_read, shut_write, keepalive;
	uint32_t user_timeout_ms, idle_s, probe_s, probes;
	/* SIM_LISTENER */
	uint16_t port;
	bool listens;
	struct sim_conn *queue[SIM_BACKLOG];
	uint32_t queued;
	/* SIM_EPOLL */
	struct sim_watch watch[SIM_WATCHES];
	uint32_t watches; /* all from here on were never used */
	uint32_t next;
	/* SIM_EVENTFD, SIM_TIMER */
	uint64_t count, due_ns;
};

enum sim_conn_at { SIM_SYN, SIM_OPEN, SIM_REFUSED };

struct sim_conn {
	struct list node;
	enum sim_conn_at at;
	uint32_t host[2]; /* where each end is: an address */
	uint16_t port[2];
	uint32_t tries;
	uint64_t syn_ns;  /* when the peer hears of it                 */
	uint64_t open_ns; /* when the one that connected hears of that */
	bool open_told;
	struct sim_obj *end[2];  /* NULL: closed                             */
	bool gone[2];            /* that kernel knows nothing of it          */
	bool queued;             /* not yet accepted                         */
	uint64_t away_ns[2];     /* since when that end's peer cannot be reached; 0: it can */
	uint64_t reset_ns[2];    /* when that end hears of a reset out of order */
	struct sim_flow flow[2]; /* from end 0, from end 1                  */
};

struct sim_host {
	uint32_t owner; /* 0: a host; else only another address of that one: a link of its own */
	bool off;
	uint64_t to_until_ns, from_until_ns; /* partitions */
	uint64_t refuse_until_ns;
	uint64_t delay_max_ns;
	const bool *fails;
};

struct sim_sock {
	struct rand_state rand;
	uint64_t now_ns, next_ns;
	uint32_t host_now;
	uint16_t port_next;
	void (*idle)(void);
	bool waits, in_idle;
	struct list conns;
	struct sim_host host[SIM_HOSTS_MAX];
	struct sim_obj *fd[SIM_FDS_MAX];
	uint32_t fds; /* all from here on were never used */
};
extern struct sim_sock *sim__sock; /* that is in use */

/* sim_sock.c */
struct sim_conn *sim__conn_new(struct sim_obj *from, uint32_t host, uint16_t port);
void sim__send(struct sim_conn *c, int end, enum sim_segment_type type, const void *bytes,
	       uint32_t size);
uint32_t sim__send_room(const struct sim_flow *f);
/* The end is closed, by its process or with it; frees the connection with the second end. */
void sim__end_close(struct sim_conn *c, int end);

/* sim_sock_call.c */
struct sim_obj *sim__obj(int fd);
struct sim_obj *sim__listener(uint32_t address, uint16_t port);

/* Returns the host that has this address. */
static inline struct sim_host *sim__owner(uint32_t address)
{
	struct sim_host *h = &sim__sock->host[address];

	return h->owner ? &sim__sock->host[h->owner] : h;
}

static inline void sim__event(struct sim_obj *o)
{
	if (o)
		o->event++;
}

#endif
