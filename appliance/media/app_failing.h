/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Distinguishes a failed drive, from which nothing can be read, from one with bad sectors.  Belongs
 * to the core that has the store.  See app_failing.c.
 */
#ifndef APP_FAILING_H
#define APP_FAILING_H

#include "appliance/media/app_faults.h"

#define APP_PROBE_PLACES 8u

struct app_failing {
	uint64_t doubted; /* drives, by their bits */
	uint64_t failed;
	struct {
		uint64_t probe_ns;   /* the next probe is due then, or now when it has passed */
		uint64_t good_ns;    /* the last good probe; 0: none */
		uint32_t bad_probes; /* in a row */
	} drive[META_DRIVES_MAX];
};

/* An I/O of each of these drives has failed. */
void app_failing_doubt(struct app_failing *f, uint64_t drives, uint64_t now_ns);
/* Returns a drive whose probe is due, or META_DRIVES_MAX. */
uint32_t app_failing_due(const struct app_failing *f, uint64_t now_ns);
uint64_t app_failing_deadline(const struct app_failing *f); /* UINT64_MAX: no probe is to come */
/* The block that probe number i reads, of a drive of nblocks. */
uint64_t app_failing_place(uint64_t nblocks, uint32_t i);
/* Ends a probe; `good` blocks could be read.  Returns true when the drive failed, or answers again:
 * *what is the line for the log. */
bool app_failing_probed(struct app_failing *f, uint32_t drive, uint32_t good, uint64_t now_ns,
			enum app_fault_what *what);
/* The drive has left the store. */
void app_failing_forget(struct app_failing *f, uint32_t drive);

#endif
