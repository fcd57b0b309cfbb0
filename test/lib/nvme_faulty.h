/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A controller that misbehaves: a filter over the soft controller's registers and completions.
 * Faults of data and time are in the layer below (sim_nvme.h).
 *
 *   driver --> registers, doorbells --> [ nvme_faulty ] --> soft controller --> sim_drive
 *
 * While `autonomous` it works in nvme_faulty_run(), not when the driver polls: like a device, also
 * after the driver has given it up.
 */
#ifndef NVME_FAULTY_H
#define NVME_FAULTY_H

#include "test/lib/sim_nvme.h"

#define NVME_FAULTY_DOORBELLS 16u /* that are watched: of the first queues */

struct nvme_faults {
	/* How many of a million completions are followed by another one: */
	uint32_t twice_ppm;   /* the same again                            */
	uint32_t unknown_ppm; /* of an id that the driver does not use     */
	uint32_t queue_ppm;   /* of an id in flight, but of another queue  */
	/* Registers. */
	bool gone;        /* all ones, writes are lost, nothing works */
	bool fatal;       /* CSTS.CFS until it is disabled or reset   */
	bool stuck_ready; /* CC.EN = 0 does nothing                   */
	uint32_t slow_up; /* so many times it does not become ready   */
	uint32_t deaf;    /* so many admin commands are not looked at */
	/* The ways to recover; without its `has_` flag a function is NULL. */
	bool has_reset, has_bus_master, has_release;
	uint32_t reset_tries; /* that reset() says -EAGAIN first          */
	bool reset_fails;
	bool reset_restarts; /* and the cache is lost: another incarnation */
	bool bus_master_fails;
	bool release_stops;
	uint32_t alarms; /* for the next alarm() */
};

struct nvme_faulty {
	struct nvme_ctrl_ops ops;
	struct nvme_soft *soft;
	struct sim_drive *sim;
	struct rand_state rand;
	struct nvme_faults faults;
	bool autonomous;
	bool unready;  /* this time, it does not become ready */
	bool released; /* it does not answer any more         */
	uint64_t made_up_count;
	uint64_t late_rings;                      /* of doorbells, after it was stopped */
	uint32_t doorbell[NVME_FAULTY_DOORBELLS]; /* as they were then */
	bool watching;
	uint64_t disable_count, reset_count, bus_off_count, release_count;
};

/*
 * A drive over `sim`, which is closed; nvme_close() ends it, but `f` stays until then.  It behaves
 * until f->faults say otherwise.
 *
 * Errors: what nvme__drive_up() says, with `err_text` (NVME_ERR_TEXT).
 */
must_check int nvme_faulty_open(struct nvme_faulty *f, struct sim_drive *sim, struct nvme_dma *dma,
				const struct nvme_options *options, uint64_t seed,
				struct nvme_drive **out, char *err_text);

/* Faults from now on; all zero: none, and it has none of reset, bus mastering, release. */
void nvme_faulty_set(struct nvme_faulty *f, const struct nvme_faults *faults);

/* Let it work, on every queue it knows of. */
void nvme_faulty_run(struct nvme_faulty *f);

/* The driver polls, it works: for the calls that wait (create, stop, close).  Or not any more. */
void nvme_faulty_autonomous(struct nvme_faulty *f, bool yes);

/* Whether it could write to memory now: it is not stopped. */
bool nvme_faulty_lives(const struct nvme_faulty *f);

/* How many doorbells were rung after it had been stopped, so far. */
uint64_t nvme_faulty_late_rings(struct nvme_faulty *f);

/* All it knows of queues is gone, as after any reset. */
void nvme_faulty_stop(struct nvme_faulty *f);

#endif
