/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Moves blocks between memory and drives: the store's own I/O, which the store hands out and takes
 * back, and the data of operations.
 *
 *	app_media_submit(io)          any number of times
 *	app_media_store()             the store's I/Os
 *	app_media_ring()              one doorbell a drive
 *	app_media_poll() -> io        completed I/Os of operations; the store's go to the store
 */
#ifndef APP_MEDIA_H
#define APP_MEDIA_H

#include "appliance/media/app_faults.h"
#include "appliance/media/app_overlay.h"
#include "appliance/media/app_patience.h"
#include "base/list.h"
#include "meta/meta.h"
#include "nvme/nvme.h"

/* One I/O; .nvme and .drive are the submitter's to fill, .owner its to use. */
struct app_io {
	struct nvme_io nvme;
	uint32_t drive;
	uint8_t watch;     /* enum app_watch: app_hedge.h, of an operation's only */
	uint64_t since_ns; /* ... when it was submitted */
	void *owner;
	struct meta_io *meta; /* the store's; NULL: an operation's       */
	uint32_t tries;       /* how often it came back to be retried   */
	bool failed;          /* it failed, and nobody is told: app_patience.c */
	bool quiet;           /* its error is not reported: a probe */
	bool turned;          /* a read that goes to another copy than the first */
	uint8_t copies;       /* a write: drives that get the same bytes; 0: a read */
	bool part;            /* a read for a sum: app_sum.c */
	bool summed;          /* a read that is one: nothing else is left to be read */
	uint8_t doubts;       /* ... the zone of the fold that it leaves out: app_sum_can() */
	struct list link;     /* while the queue is full, or free slots */
};

struct app_media_drive {
	struct nvme_qpair *qp;
	struct list waiting;    /* app_ios for which the queue had no room */
	uint32_t out_count;     /* submitted to the queue, not yet back    */
	bool rung;              /* nothing was submitted since the last ring */
	uint32_t writes_failed; /* writes and flushes in a row; see app_media_refuses_writes() */
};

struct app_media {
	struct meta *meta;
	uint32_t ndrives;
	uint32_t poll_from; /* the drive that the next poll begins with */
	struct app_media_drive drive[META_DRIVES_MAX];
	char *memory; /* the store's, as drives see it: */
	uint64_t memory_bytes;
	uint64_t memory_iova;
	struct app_io *slot; /* the store's I/Os */
	struct list slot_free;
	struct list refused; /* their queue pair has failed: back at the next poll */
	uint32_t in_flight;  /* submitted, not yet returned or handed to the store */
	uint64_t log_lost;   /* drives, by bits: dead, and the log goes on without its copy there */
	struct app_patience patience;
	struct app_overlay *overlay; /* the store's writes go there, and to no drive; NULL: none */
	uint64_t now_ns;
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t error_count;
	uint64_t retry_count; /* submitted again, since the drive had not tried: a reset came */
	struct app_faults *faults; /* for the log; NULL: none */
	uint32_t fault_calls;      /* times that the log's thread was to be woken for them */
	uint64_t ailing; /* drives, by their bits, with errors that app_failing.c has not seen */
};

/* app_media.c (5) */
#define APP_WRITES_FAILED 8u
static inline bool app_media_refuses_writes(const struct app_media *md, uint32_t drive)
{
	return md->drive[drive].writes_failed >= APP_WRITES_FAILED;
}

#define APP_MEDIA_SLOTS 512u

/* Errors: -ENOMEM. */
must_check int app_media_init(struct app_media *md, struct meta *meta, struct nvme_qpair **qp,
			      uint32_t ndrives, void *memory, uint64_t memory_bytes, uint64_t iova);
void app_media_fini(struct app_media *md);
/* One more drive. */
void app_media_drive(struct app_media *md, struct nvme_qpair *qp);
/* It is gone: its queue pair is not looked at any more.  False: something is still on its way. */
bool app_media_leave(struct app_media *md, uint32_t drive);

/*
 * The I/O comes back from app_media_poll(), nvme.status set: -EIO also when the drive has failed.
 * I/Os that a reset stopped are submitted again, so that callers see only the delay.
 */
void app_media_submit(struct app_media *md, struct app_io *io);

/* Copies an operation's I/O that is under way to `to`, which comes back in its place: `from` is the
 * caller's again, and its buffer is not.  False: it has come back already. */
must_check bool app_media_move(struct app_media *md, struct app_io *from, struct app_io *to);

/* Submits the store's I/Os.  Returns their number. */
uint32_t app_media_store(struct app_media *md);

/* Submits failed writes of the store again that are due at now_ns. */
void app_media_again(struct app_media *md, uint64_t now_ns);

void app_media_ring(struct app_media *md);

/* At most done_max operations' I/Os, and about as many of the store's.  *progress: anything came
 * back. */
must_check uint32_t app_media_poll(struct app_media *md, struct app_io **done, uint32_t done_max,
				   bool *progress);

#endif
