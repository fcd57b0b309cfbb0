/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A ring of drive errors from a polling thread, which writes no log, to the control thread, which
 * does (app_fault_log.c).  Each core has one of these.
 *
 * The core pushes, the control thread takes.  When the ring is full the record is dropped; the
 * counters are exact nevertheless, so that only detail is lost.
 *
 *   R1 -> A1   a record is stored before head includes it;
 *   R2 -> A2   a record is copied out before tail frees its place.
 */
#ifndef APP_FAULTS_H
#define APP_FAULTS_H

#include "base/assert.h"
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
	_Atomic uint32_t head;                                  /* the core's           */
	_Atomic uint32_t tail;                                  /* the control thread's */
	_Atomic uint64_t count[META_DRIVES_MAX][APP_FAULT_OPS]; /* I/Os that failed */
	struct app_fault slot[APP_FAULTS];
};

/* The core's.  Returns true when the control thread must be woken: it had taken all that was there.
 */
static inline bool app_faults_push(struct app_faults *f, const struct app_fault *fault)
{
	uint32_t head = atomic_load_explicit(&f->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&f->tail, memory_order_acquire); /* A2 */

	ASSERT(fault->what <= APP_FAULT_TAKES_WRITES);
	ASSERT(fault->drive < META_DRIVES_MAX && fault->op < APP_FAULT_OPS);
	if (fault->what == APP_FAULT_IO)
		atomic_fetch_add_explicit(&f->count[fault->drive][fault->op], 1,
					  memory_order_relaxed);
	if (head - tail == APP_FAULTS)
		return false;
	f->slot[head % APP_FAULTS] = *fault;
	atomic_store_explicit(&f->head, head + 1, memory_order_release); /* R1 */
	return head == tail;
}

/* Takes one record.  Returns false if the ring is empty.  Thread: the control thread. */
static inline bool app_faults_take(struct app_faults *f, struct app_fault *out)
{
	uint32_t tail = atomic_load_explicit(&f->tail, memory_order_relaxed);

	if (atomic_load_explicit(&f->head, memory_order_acquire) == tail) /* A1 */
		return false;
	*out = f->slot[tail % APP_FAULTS];
	atomic_store_explicit(&f->tail, tail + 1, memory_order_release); /* R2 */
	return true;
}

#endif
