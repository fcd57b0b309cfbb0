/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The whole appliance, its drives and a client, stepped in one thread by a clock of our own.
 *
 *   client: fab_submit --> fab_server --> app_core --> meta, nvme driver --> simulated drives
 *                    (shm, the shipped code)                                  (sim_drive: caches,
 *                                                                              power cuts, faults)
 *
 * Several cores are stepped in one thread too: in each turn in another order, by the seed, and some
 * of them not at all.  The client has a connection to each, and its calls take turns.
 *
 * Everything above the drives is the shipped code.  At a power cut the appliance and the
 * client are gone, and the drives keep all durable writes and, by the seed, some of the others.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "appliance/core/app_core.h"
#include "appliance/media/app_drives.h"
#include "base/rand.h"
#include "test/lib/sim_nvme.h"

#define SIM_DRIVES_MAX 8
#define SIM_CALLS_MAX  16
#define SIM_CORES_MAX  4
#define SIM_WINDOW     (128u << 10) /* of one call */

#define SIM_QUEUE_DEPTH 64u

struct sim_world;

/* A network that is no part of the host's: sim_lan.h.  Called when the world has its power back,
 * before anything is done as one of the two, after time went on, when the appliance is gone
 * (`told`: its kernel lives and says goodbye), and when all is closed. */
struct sim_lan {
	const char *address;
	void (*up)(struct sim_world *w);
	void (*as)(struct sim_world *w, bool client);
	void (*time)(struct sim_world *w);
	uint64_t (*next)(struct sim_world *w); /* when something happens by itself */
	void (*down)(struct sim_world *w, bool told);
	void (*end)(struct sim_world *w);
};

struct sim_world_cfg {
	uint64_t seed;
	const struct sim_lan *lan; /* NULL: the host's, by shared memory */
	uint32_t ncores;           /* 0: 1; the environment's APP_CORES, if set, instead */
	uint32_t ndrives;
	uint32_t spares;  /* more drives, that may be added while it serves */
	uint32_t nblocks; /* of each drive */
	bool volatile_cache;
	uint32_t atomic_bytes; /* 4096 or 512 */
	bool cut_garbles;      /* what was on its way at a power cut may be garbage or unreadable */
	uint32_t nshards;
	uint32_t copies; /* of each block: format; 0: one */
	uint32_t fold;   /* of two copies: zones of data of a fold: format; 0: none is made */
	uint64_t cache_bytes;
	uint32_t ops_max;
	uint32_t sessions_max; /* 0: 2 */
	/* The core's and the server's, where the least is too small; 0: that. */
	uint64_t staging_bytes;
	uint32_t queue_max;
	uint64_t scrub_rate;     /* 0: no scrub */
	uint32_t hedge_reads;    /* the core's */
	uint64_t hedge_floor_ns; /* ... */
	uint32_t lend_after;     /* the store's: meta.h */
	uint32_t credits;
	uint32_t long_bodies;
	uint32_t window_max_bytes; /* of clients; 0: SIM_WINDOW */
	uint64_t leap_max_ns; /* of the clock, when there is nothing to do; 0: to the next event */
	const char *address;  /* where clients come to; NULL: the world's own, by shared memory */
	const char *address_too; /* ... and here, or NULL */
	/* A zone that has just become free is the next to be used: too early shows at once.  (The
	 * store takes the one that has been free longest; which one is no rule of its own.) */
	bool eager_reuse;
	bool keeps_all; /* the drives have no deallocation */
	bool patient;   /* what the store cannot write is tried again: app_patience.c */
	bool remember;  /* clients name themselves: their changes can be asked for again */
};

/* A call of the client, with its window. */
struct sim_call {
	struct fab_call call;
	uint8_t *window; /* SIM_WINDOW bytes */
	uint32_t lane;   /* the connection  */
	void *user;
	bool in_flight;
};

/* A drive that is being added: sim_drives.c. */
struct sim_join {
	bool looked; /* for one that was offered before this start */
	bool under_way;
	int status; /* of the last one */
	uint32_t number;
	struct nvme_qpair *qp[SIM_CORES_MAX]; /* until its core has it */
	struct meta_drive_info info;
};

struct sim_world {
	struct sim_world_cfg cfg;
	struct sim_power power;
	struct sim_drive *sim[SIM_DRIVES_MAX]; /* outlive power cuts */
	uint32_t sims;                         /* with the spares */
	bool pulled[SIM_DRIVES_MAX];           /* from the next power-up on this place is empty */
	bool listed[SIM_DRIVES_MAX];           /* in the appliance's configuration */
	bool left_out[SIM_DRIVES_MAX];         /* a mount did without it, since it was offered */
	uint32_t joined;                       /* bits: that it is part of the store was said */
	void *memory[SIM_CORES_MAX];           /* of the cores; outlives power cuts too */
	uint64_t memory_bytes[SIM_CORES_MAX];
	uint32_t ncores;
	struct rand_state order;
	void *net;                 /* the lan's */
	void *pool[SIM_CORES_MAX]; /* the client's memory, with a lan: outlives connections */
	/* For one power-up: */
	uint64_t memory_iova[SIM_CORES_MAX];
	struct nvme_dma *dma;
	struct nvme_drive *drive[SIM_DRIVES_MAX];
	uint32_t places; /* that the store has, as far as its superblocks say */
	struct sim_join join;
	uint32_t left; /* bits: drives that left while it served */
	bool serving;
	struct fab_server *srv[SIM_CORES_MAX];
	struct app_cores *cores;
	struct app_core *core; /* that has the store: each[0] */
	struct app_core *each[SIM_CORES_MAX];
	struct fab_conn *conn[SIM_CORES_MAX];
	struct fab_region *region[SIM_CORES_MAX];
	bool (*booting)(struct sim_world *w);   /* after each turn of a boot; false ends it */
	struct list *free_last[SIM_DRIVES_MAX]; /* of the free zones, after the last turn */
	uint32_t called;
	struct sim_call calls[SIM_CALLS_MAX];
	char address[128];
	char why[APP_WHY]; /* of the last failure */
};

/* Drives with nothing on them; no power yet. */
void sim_world_create(struct sim_world *w, const struct sim_world_cfg *cfg);
void sim_world_destroy(struct sim_world *w);

/* 0, or -errno with a line in w->why.  -ECANCELED: the power failed meanwhile. */
must_check int sim_world_up(struct sim_world *w, enum app_boot boot);
/* sim_world_up(), and a client.  w->why says why not, always. */
must_check int sim_world_begin(struct sim_world *w, enum app_boot boot);
/* All drives have these faults from now on. */
void sim_world_faults(struct sim_world *w, const struct sim_faults *faults);
/* A clean stop: everything answered and checkpointed. */
must_check int sim_world_stop(struct sim_world *w);
/* The power fails now (if it has not yet): appliance and client are gone, and what the drives did
 * not have to keep is, by the seed, kept, lost or torn. */
void sim_world_cut(struct sim_world *w, uint64_t seed);
/* The process dies, the drives do not: what they had not to keep stays in their caches. */
void sim_world_kill(struct sim_world *w, uint64_t seed);
/* `to`, which has no power, gets drives as a power cut of `from` would leave them now. */
void sim_world_cut_copy(const struct sim_world *from, uint64_t seed, struct sim_world *to);

/* Prints the state of a store that hangs, in lines that begin with "# ". */
void sim_world_describe(const struct sim_world *w);

/* If an assertion ends the program, it says after how many cuts. */
void sim_world_tell_cuts(const uint64_t *cuts);

/* A client that talks to the appliance; 0 or -ECANCELED. */
must_check int sim_world_connect(struct sim_world *w);

/* One turn of everything.  Returns the calls that came back, in done[]; who has looked at one sets
 * its in_flight to false: until then it is not given out again. */
uint32_t sim_world_step(struct sim_world *w, struct sim_call **done, uint32_t done_max);
/* The same of a world whose client has gone. */
void sim_world_turn(struct sim_world *w);
/* The client goes. */
void sim_world_disconnect(struct sim_world *w);
/* A free call, emptied; NULL: all are in flight. */
struct sim_call *sim_world_call(struct sim_world *w);
/* ... of this connection: for what a session has begun. */
struct sim_call *sim_world_call_on(struct sim_world *w, uint32_t lane);
void sim_world_submit(struct sim_world *w, struct sim_call *c, bool with_window);
/* Submit and step until it is back (the only one in flight): 0, see call.status; -ECANCELED. */
must_check int sim_world_do(struct sim_world *w, struct sim_call *c, bool with_window);
/* Turn until no file waits to be freed. */
void sim_world_settle(struct sim_world *w);
/* The store's own check: 0, or -EUCLEAN with w->why. */
must_check int sim_world_check(struct sim_world *w);
/* The same; what it found. */
must_check int sim_world_check_all(struct sim_world *w, struct meta_check *found);

/* Changes that were made on other cores than the store's, in what these were lent. */
extern uint64_t sim_world_made;

#endif
