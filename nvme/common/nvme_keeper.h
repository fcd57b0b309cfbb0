/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive's own thread for calls that wait: a polling thread asks, and takes the answer later.
 *
 *    IDLE --ask--> WANTED --work()--> DONE --ask--> IDLE     the asker has the result
 *                    ^                 |
 *                    +------ask--------+                     the result was -EAGAIN
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
	int (*work)(void *of);  /* its result is for the asker; -EAGAIN: to be called again  */
	void (*last)(void *of); /* the thread's last call; or NULL                           */
	void *of;
};

/* Makes a keeper without a thread.  It must be destroyed even if it is never started. */
void nvme__keeper_init(struct nvme_keeper *k, int (*work)(void *of), void (*last)(void *of),
		       void *of);
must_check int nvme__keeper_start(struct nvme_keeper *k);

/* Asks for a call of work(), or takes the result of the last one.  Called by one thread, and never
 * waits.  -EAGAIN: work() has not returned, ask again; -ENODEV: after nvme__keeper_end(). */
must_check int nvme__keeper_ask(struct nvme_keeper *k);

/* Tells the thread to end after the call under way.  From any thread; does not wait. */
void nvme__keeper_end(struct nvme_keeper *k);

/* Returns true for its own thread, and for any thread while it does not run. */
bool nvme__keeper_is_me(const struct nvme_keeper *k);

/* Ends the thread, and waits for it. */
void nvme__keeper_destroy(struct nvme_keeper *k);

#endif
