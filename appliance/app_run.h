/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The thread of one core: pinned, sealed against malloc once it serves, polling while there is
 * work and asleep when there is none.
 */
#ifndef APP_RUN_H
#define APP_RUN_H

#include "appliance/app_core.h"

#include <pthread.h>
#include <stdatomic.h>

enum app_run_at { APP_RUN_STARTING, APP_RUN_SERVING, APP_RUN_ENDED };

struct app_run {
	/* The starter's to fill. */
	struct app_core_cfg cfg;
	int cpu; /* -1: not pinned */
	uint64_t spin_max_ns;
	int event_fd; /* becomes readable when `at` changes */

	_Atomic int at; /* enum app_run_at */
	_Atomic bool stop;
	int wake_fd;
	pthread_t thread;
	struct app_core *core;
	int status; /* once ended: 0, or what failed, with a line in `why` */
	char why[APP_WHY];
};

/* Errors: what pthread_create() or eventfd() say. */
must_check int app_run_start(struct app_run *run);
/* Ask it to end: open requests are answered, the store is stopped.  Any thread. */
void app_run_stop(struct app_run *run);
/* Wait for its end, which somebody has asked for; run->status says how it went. */
void app_run_join(struct app_run *run);

#endif
