/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive's own thread for calls that wait: a polling thread asks, and takes the answer later.
 *
 *    IDLE --ask--> WANTED --work()--> DONE --ask--> IDLE
 *      any of them --end--> END: last(), and the thread ends
 */
#ifndef NVME_KEEPER_H
#define NVME_KEEPER_H

#include "base/assert.h"

#include <pthread.h>
#include <stdbool.h>

enum nvme_keeper_job { NVME_KEEPER_IDLE, NVME_KEEPER_WANTED, NVME_KEEPER_DONE, NVME_KEEPER_END };

struct nvme_keeper {
	pthread_t thread;
	pthread_mutex_t lock; /* guards job and result, and further data of its owner */
	pthread_cond_t changed;
	enum nvme_keeper_job job;
	int result;
	bool running;
	int (*work)(void *of);  /* 0, 1, -errno; -EAGAIN: the next call begins it again */
	void (*last)(void *of); /* or NULL                                                   */
	void *of;
};

/* One that does not run yet; nvme__keeper_destroy() it in any case. */
void nvme__keeper_init(struct nvme_keeper *k, int (*work)(void *of), void (*last)(void *of),
		       void *of);
must_check int nvme__keeper_start(struct nvme_keeper *k);

/* From one thread, which does not wait: what work() said; -EAGAIN: it is at it, ask again. */
must_check int nvme__keeper_ask(struct nvme_keeper *k);

/* The last that it hears; from any thread, which does not wait. */
void nvme__keeper_end(struct nvme_keeper *k);

/* Returns true for its own thread, and for any thread while it does not run. */
bool nvme__keeper_is_me(const struct nvme_keeper *k);

/* Ends it, and waits until it is over. */
void nvme__keeper_destroy(struct nvme_keeper *k);

#endif
