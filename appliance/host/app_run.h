/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The polling threads of an appliance, one a core: pinned, sealed against malloc once they serve,
 * polling while there is work and sleeping otherwise.
 */
#ifndef APP_RUN_H
#define APP_RUN_H

#include "appliance/core/app_core.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum app_run_at { APP_RUN_STARTING, APP_RUN_SERVING, APP_RUN_ENDED };

struct app_run;

/* A drive that is added while all serve, with a queue pair for each core. */
struct app_new_drive {
	struct nvme_qpair *qp[APP_CORES_MAX];
	struct meta_drive_info info;
	uint32_t number; /* in the store */
	bool again;      /* the threads have its queue pairs: the store did not take it before */
};

struct app_thread {
	struct app_run *run;
	uint32_t index;
	int wake_fd;
	int epoll_fd;
	pthread_t thread;
	struct app_core *core;
	_Atomic uint64_t beat; /* turns of its loop             */
	_Atomic bool asleep;   /* it waits for its descriptors */
	int status;
	char why[APP_WHY];
	uint32_t drives;       /* new ones that it has */
	uint32_t spare_drives; /* number 0: told to its core, and: */
	uint64_t rebuild_rate;
	uint64_t left; /* drives, by their bits, that it has given up: */
	struct nvme_qpair
		*given[META_DRIVES_MAX]; /* ... its queue pair, the control thread's now */
	bool adding;                     /* number 0: the store has been told, too */
};

struct app_run {
	/* The starter's to fill. */
	struct app_core_cfg cfg; /* of core 0; the others': the same limits                 */
	uint32_t cores;          /* 0: 1                                                     */
	struct fab_server *srv[APP_CORES_MAX]; /* of cores 1 .. cores - 1, which have clients too */
	const int *cpus;                       /* one for each; NULL: not pinned                */
	uint64_t spin_max_ns;
	int event_fd; /* readable when `at` or `wants` changes, or there are lines for people */

	_Atomic int at; /* enum app_run_at: all serve, all have ended */
	_Atomic bool stop;
	_Atomic int wants;             /* enum app_wants: of the core that has the store */
	_Atomic bool refused;          /* each core calls app_core_refuse() */
	_Atomic uint32_t spare_drives; /* as the configuration is now, and: */
	_Atomic uint64_t rebuild_rate;
	struct app_new_drive new_drive;
	_Atomic uint32_t drives_wanted; /* counts: new_drive is another one, for every core */
	_Atomic uint32_t drives_had;    /* ... each core, and each of them */
	_Atomic int drive_status;       /* of the last: -EAGAIN, 0: it is the store's, or why not */
	_Atomic uint64_t drives_gone;   /* by their bits: the store has let them go */
	_Atomic uint32_t drives_left[META_DRIVES_MAX]; /* cores that have given up a drive */
	struct app_core *core;                         /* number 0, which has the store */
	int status; /* once ended: 0, or what failed, with a line in `why` */
	char why[APP_WHY];

	/* private: */
	struct app_thread thread[APP_CORES_MAX];
	struct app_cores *group;
	uint32_t started;
	uint64_t closed; /* drives, by their bits, that app_run_drive_gone() has named */
	_Atomic uint32_t serving;
	_Atomic uint32_t ended;
	bool failed; /* one could not be made: none shall begin */
	sem_t made;
	sem_t go;
};

/* Errors: those of pthread_create() or eventfd().  A core's own errors: run->status. */
must_check int app_run_start(struct app_run *run);
/* Ask them to end: open requests are answered, the store is stopped.  Any thread. */
void app_run_stop(struct app_run *run);
/* Refuses the restart that the store's core requests (app_core_refuse()).  Once; any thread. */
void app_run_refuse(struct app_run *run);
/* Changes limits of the store's core while it serves.  Any thread. */
void app_run_rebuild(struct app_run *run, uint64_t rate, uint32_t spare_drives);
/* One more drive, which cfg.drive[] has already, number cfg.ndrives and more with each: its queue
 * pairs are the cores' from now on.  Not while another is -EAGAIN. */
void app_run_drive(struct app_run *run, const struct app_new_drive *drive);
/* The store did not take it: once more, with the queue pairs that the cores have. */
void app_run_drive_again(struct app_run *run, const struct app_new_drive *drive);
/* Makes its queue pairs.  -EINVAL: they are too short for 4 MiB at once. */
must_check int app_run_queues(const struct app_run *run, struct nvme_drive *drive, uint32_t depth,
			      struct app_new_drive *out);
/* -EAGAIN: not yet (event_fd becomes readable); 0: part of the store; else the error. */
int app_run_drive_status(struct app_run *run);
/* A drive that the store has let go and that no core looks at any more: its number, or -1.  Each is
 * named once, and its queue pairs are away. */
int app_run_drive_gone(struct app_run *run);
/* True: every thread has turned since the last call, which left its number in `beats`, or sleeps;
 * or not all serve yet.  Any thread. */
bool app_run_is_alive(const struct app_run *run, uint64_t beats[APP_CORES_MAX]);
/* Waits for the end, which was requested; run->status has the result. */
void app_run_join(struct app_run *run);

#endif
