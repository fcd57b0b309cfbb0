/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The daemon restarts itself: the same process, as after kill -9 and a start.
 *
 *   serving --a write of the store fails for good---------> restart, to serve
 *   serving --the drives have no room for 10 s------------> restart, to read --pause--> to serve
 *   ... but not while a drive does not answer: then the store takes no changes until it does
 *   a restart that fails: to serve -> to read -> pause -> to serve ...
 */
#ifndef APP_ANEW_H
#define APP_ANEW_H

#include "appliance/host/app_run.h"

struct app_anew {
	const char *file; /* the configuration */
	char **argv;
	bool is;             /* this process has restarted itself */
	bool read_only;      /* ... to read: the drives could not be written */
	uint32_t tries;      /* starts in a row of which none served for long */
	uint64_t serving_ns; /* since when this one serves; 0: it does not yet */
	bool refused;        /* it could not then: a drive did not answer */
	uint64_t again_ns;   /* it is tried again then */
};

/* Reads the state that this process left before it executed itself. */
void app_anew_look(struct app_anew *a, const char *file, char **argv);

void app_anew_serves(struct app_anew *a, uint64_t now_ns);
/* Call it while serving.  Does not return when it restarts the daemon. */
void app_anew_step(struct app_anew *a, struct app_run *run, uint64_t now_ns);
uint64_t app_anew_deadline(const struct app_anew *a);

/* After a failed start, with everything closed.  Returns if it was not a restart, or a signal asks
 * the daemon to stop. */
void app_anew_try_on(const struct app_anew *a);

#endif
