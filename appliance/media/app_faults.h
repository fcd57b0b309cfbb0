/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A ring of drive errors from a polling thread, which writes no log, to the control thread, which
 * does (app_fault_log.c).  Each core has one of these.
 *
 * The core pushes, the control thread takes (base/spsc.h).  When the ring is full the record is
 * dropped; the counters are exact nevertheless, so that only detail is lost.
 */
#ifndef APP_FAULTS_H
#define APP_FAULTS_H

#include "base/assert.h"
#include "base/spsc.h"
#include "meta/meta.h"
#include "nvme/nvme.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define APP_FAULTS 128u

enum app_fault_what {
	APP_FAULT_IO,           /* an I/O failed, retries included                 */
	APP_FAULT_FAILED,       /* nothing can be read from the drive: app_failing.c */
	APP_FAULT_ANSWERS,      /* ... and now it can                              */
	APP_FAULT_NO_WRITES,    /* the drive refuses all writes: app_media.c       */
	APP_FAULT_TAKES_WRITES, /* ... and now takes them                          */
};

enum app_fault_op { APP_FAULT_READ, APP_FAULT_WRITE, APP_FAULT_FLUSH, APP_FAULT_OPS };

struct app_fault {
	uint64_t block;   /* the first one, of the drive */
	uint32_t nblocks; /* 0: a flush */
	int err;          /* -errno, as the driver says */
	uint16_t nvme_status;
	uint8_t drive;
	uint8_t what; /* enum app_fault_what */
	uint8_t op;   /* enum app_fault_op */
	bool store;   /* the store's own: the log, the index, data that is being moved */
};

struct app_faults {
	struct spsc_ends ends;
	_Atomic uint64_t count[META_DRIVES_MAX][APP_FAULT_OPS]; /* I/Os that failed */
	struct app_fault slot[APP_FAULTS];
};

/* The core's.  Returns true when the control thread must be woken: it had taken all that was there.
 */
static inline bool app_faults_push(struct app_faults *f, const struct app_fault *fault)
{
	const uint32_t room = spsc_room(&f->ends, APP_FAULTS);
	uint32_t at;

	ASSERT(fault->what <= APP_FAULT_TAKES_WRITES);
	ASSERT(fault->drive < META_DRIVES_MAX && fault->op < APP_FAULT_OPS);
	if (fault->what == APP_FAULT_IO)
		atomic_fetch_add_explicit(&f->count[fault->drive][fault->op], 1,
					  memory_order_relaxed);
	if (!spsc_place(&f->ends, APP_FAULTS, &at))
		return false;
	f->slot[at] = *fault;
	spsc_put(&f->ends);
	spsc_tell(&f->ends);
	return room == APP_FAULTS;
}

/* Takes one record.  Returns false if the ring is empty.  Thread: the control thread. */
static inline bool app_faults_take(struct app_faults *f, struct app_fault *out)
{
	uint32_t at;

	if (!spsc_oldest(&f->ends, APP_FAULTS, &at))
		return false;
	*out = f->slot[at];
	spsc_free(&f->ends);
	return true;
}

#endif
