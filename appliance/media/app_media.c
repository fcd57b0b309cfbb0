/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * I/Os to queue pairs and back.
 *
 *   submit --> queue pair --> done --> operation, or the store
 *      \-> waiting (queue full), in order -^
 *       \-> refused (drive given up) --------> done
 *
 *   done, but the drive had not tried (it was reset) --> waiting, and again, RETRIES_MAX times
 *   failed, and the store needs it --> app_patience.c, and again after a pause
 *   failed, its drive is dead, and the store can go on without it --> the store, at once: (7)
 *
 * Invariants, true between any two calls:
 *
 *  (1) While a drive has waiting I/Os, later ones queue after them: none overtakes.
 *  (2) The store's I/O buffers are in its own memory, which was mapped as one piece.
 *  (3) A flush is submitted after the writes that it covers have come back: that is the store's
 *      rule, and nothing here depends on the order of a queue [sim/sim].
 *  (4) A retried I/O was not tried, or cut off by a reset: the driver says which.  A repeated write
 *      is harmless, because its blocks are not reused until it has come back.
 *  (5) A drive counts as refusing writes when APP_WRITES_FAILED writes and flushes in a row have
 *      failed; the first that succeeds ends that.  Drives replace bad blocks when they are written,
 *      so one failed write proves little, and eight prove that no write will succeed.
 *  (6) With an overlay no write of the store goes to a drive (and no other write either: the store
 *      gives no blocks for new data).
 *      For a missing drive only blocks in the overlay can be read.
 *  (7) A log write or flush that a dead drive did not take is never repeated: the log continues
 *      with the copies on other drives (meta_log.c (10)).  The same applies to every write and
 *      flush of a store with several copies, and to errors of a drive that lives, unless they may
 *      pass: the store goes on without that drive (meta_pair.c) [test_app_pair].
 */
#include "appliance/media/app_media.h"

#include <errno.h>
#include <stdlib.h>

enum { POLL_BURST = 64, RETRIES_MAX = 8 };

int app_media_init(struct app_media *md, struct meta *meta, struct nvme_qpair **qp,
		   uint32_t ndrives, void *memory, uint64_t memory_bytes, uint64_t iova)
{
	ASSERT(memory || memory_bytes == 0);
	ASSERT(ndrives > 0 && ndrives <= META_DRIVES_MAX);
	*md = (struct app_media){
		.meta = meta,
		.memory = memory,
		.memory_bytes = memory_bytes,
		.memory_iova = iova,
	};
	md->slot = calloc(APP_MEDIA_SLOTS, sizeof(*md->slot));
	if (!md->slot)
		return -ENOMEM;
	list_init(&md->slot_free);
	list_init(&md->refused);
	app_patience_init(&md->patience);
	for (uint32_t i = 0; i < APP_MEDIA_SLOTS; i++) {
		list_init(&md->slot[i].link);
		list_push_back(&md->slot_free, &md->slot[i].link);
	}
	for (uint32_t i = 0; i < ndrives; i++)
		app_media_drive(md, qp[i]);
	return 0;
}

void app_media_drive(struct app_media *md, struct nvme_qpair *qp)
{
	struct app_media_drive *d = &md->drive[md->ndrives++];

	ASSERT(!d->qp && d->out_count == 0);
	ASSERT(md->ndrives <= META_DRIVES_MAX);
	d->qp = qp; /* NULL: no drive in that place */
	d->rung = true;
	list_init(&d->waiting);
}

bool app_media_leave(struct app_media *md, uint32_t drive)
{
	struct app_media_drive *d = &md->drive[drive];

	ASSERT(drive < md->ndrives);
	if (d->out_count || !list_empty(&d->waiting))
		return false;
	d->qp = NULL;
	d->rung = true;
	return true;
}

void app_media_fini(struct app_media *md)
{
	ASSERT(md->in_flight == 0 || !md->slot);
	free(md->slot);
	md->slot = NULL;
	app_overlay_destroy(md->overlay);
	md->overlay = NULL;
}

/* False: no room in the queue now. */
static bool to_queue(struct app_media *md, struct app_io *io)
{
	struct app_media_drive *d = &md->drive[io->drive];
	int err = likely(d->qp) ? nvme_submit(d->qp, &io->nvme) : -ENODEV;

	ASSERT(!list_linked(&io->link));
	if (err == -EAGAIN)
		return false;
	if (unlikely(err)) {
		io->nvme.status = err;
		io->nvme.nvme_status = 0;
		list_push_back(&md->refused, &io->link);
		return true;
	}
	d->out_count++;
	d->rung = false;
	return true;
}

void app_media_submit(struct app_media *md, struct app_io *io)
{
	struct app_media_drive *d = &md->drive[io->drive];

	ASSERT(io->drive < md->ndrives);
	io->nvme.owner = io;
	io->tries = 0;
	io->failed = false;
	list_init(&io->link);
	md->in_flight++;
	if (!list_empty(&d->waiting) || !to_queue(md, io)) /* (1) */
		list_push_back(&d->waiting, &io->link);
}

wk_cold bool app_media_move(struct app_media *md, struct app_io *from, struct app_io *to)
{
	struct app_media_drive *d = &md->drive[from->drive];

	ASSERT(!from->meta && !from->failed);
	*to = *from;
	to->nvme.owner = to;
	list_init(&to->link);
	if (!list_linked(&from->link))
		return d->qp && nvme_move(d->qp, &from->nvme, &to->nvme);
	list_push_back(&from->link, &to->link); /* (1): before it, in the same list */
	list_del(&from->link);
	return true;
}

/* Tries again. */
static void submit_again(struct app_media *md, struct app_io *io)
{
	struct app_media_drive *d = &md->drive[io->drive];

	ASSERT(io->meta && io->failed);
	io->tries = 0;
	if (!list_empty(&d->waiting) || !to_queue(md, io)) /* (1) */
		list_push_back(&d->waiting, &io->link);
}

void app_media_again(struct app_media *md, uint64_t now_ns)
{
	struct app_io *io;

	ASSERT(now_ns >= md->now_ns);
	md->now_ns = now_ns;
	while (unlikely((io = app_patience_next(&md->patience, now_ns)) != NULL)) {
		if (md->patience.gave_up)
			list_push_back(&md->refused, &io->link);
		else
			submit_again(md, io);
	}
}

static enum nvme_op op_of(enum meta_io_op op)
{
	switch (op) {
	case META_IO_READ:
		return NVME_READ;
	case META_IO_WRITE:
		return NVME_WRITE;
	case META_IO_FLUSH:
		return NVME_FLUSH;
	case META_IO_DEALLOCATE:
		return NVME_DEALLOCATE;
	}
	UNREACHABLE();
}

/* (6): it comes back at the next poll, like an I/O that a drive refuses. */
static wk_cold void write_over(struct app_media *md, struct app_io *io)
{
	const struct meta_io *want = io->meta;

	ASSERT(md->overlay && want->op != META_IO_READ); /* (6) */
	io->nvme.status = 0;
	if (want->op == META_IO_WRITE)
		io->nvme.status =
			app_overlay_write(md->overlay, META_BADDR(want->drive, want->block),
					  want->nblocks, want->buf);
	list_init(&io->link);
	md->in_flight++;
	list_push_back(&md->refused, &io->link);
}

static wk_cold void read_over(struct app_media *md, struct app_io *io)
{
	const struct meta_io *want = io->meta;

	ASSERT(md->overlay);
	if (want->op == META_IO_READ && !io->nvme.quarantined &&
	    app_overlay_read(md->overlay, META_BADDR(want->drive, want->block), want->nblocks,
			     want->buf) == want->nblocks)
		io->nvme.status = 0;
}

uint32_t app_media_store(struct app_media *md)
{
	struct meta_io *want;
	struct app_io *io;
	uint32_t count = 0;
	uint64_t at;

	while (!list_empty(&md->slot_free) && (want = meta_io_next(md->meta))) {
		io = list_entry(list_pop_front(&md->slot_free), struct app_io, link);
		at = (uint64_t)((char *)want->buf - md->memory);
		if (want->op == META_IO_FLUSH || want->op == META_IO_DEALLOCATE)
			at = 0;
		else
			ASSERT(at + ((uint64_t)want->nblocks << NVME_BLOCK_SHIFT) <=
			       md->memory_bytes); /* (2) */
		io->meta = want;
		ASSERT(want->drive < md->ndrives);
		io->failed = false;
		io->drive = want->drive;
		io->nvme = (struct nvme_io){
			.op = op_of(want->op),
			.fua = want->fua,
			.nblocks = want->nblocks,
			.block = want->block,
			.iova = md->memory_iova + at,
		};
		if (unlikely(md->overlay) && want->op != META_IO_READ)
			write_over(md, io);
		else
			app_media_submit(md, io);
		count++;
	}
	return count;
}

void app_media_ring(struct app_media *md)
{
	for (uint32_t i = 0; i < md->ndrives; i++) {
		struct app_media_drive *d = &md->drive[i];

		if (d->rung)
			continue;
		ASSERT(d->qp);
		nvme_ring(d->qp);
		d->rung = true;
	}
}

static wk_cold void tell(struct app_media *md, const struct app_fault *f)
{
	if (md->faults && app_faults_push(md->faults, f))
		md->fault_calls++;
}

/* Reports an I/O that failed permanently to the log and to app_failing.c. */
static wk_cold void failed(struct app_media *md, const struct app_io *io)
{
	struct app_media_drive *d = &md->drive[io->drive];
	struct app_fault f = {
		.block = io->nvme.block,
		.nblocks = io->nvme.nblocks,
		.err = io->nvme.status,
		.nvme_status = io->nvme.nvme_status,
		.drive = (uint8_t)io->drive,
		.op = io->nvme.op == NVME_READ    ? APP_FAULT_READ
		      : io->nvme.op == NVME_FLUSH ? APP_FAULT_FLUSH
						  : APP_FAULT_WRITE,
		.store = io->meta != NULL,
	};

	ASSERT(io->nvme.status != 0 && io->drive < md->ndrives);
	if (io->quiet || !d->qp) /* it is missing, which was said when the store was mounted */
		return;
	md->error_count++;
	md->ailing |= 1ull << io->drive;
	tell(md, &f);
	if (f.op == APP_FAULT_READ || f.err == -ENODEV || f.err == -EHOSTDOWN || f.err == -EROFS)
		return; /* given up, away or read-only: its driver reports that */
	if (++d->writes_failed != APP_WRITES_FAILED) /* (5) */
		return;
	ASSERT(app_media_refuses_writes(md, io->drive)); /* (5) */
	f.what = APP_FAULT_NO_WRITES;
	tell(md, &f);
}

static wk_cold void takes_writes(struct app_media *md, uint32_t drive)
{
	const struct app_fault f = { .drive = (uint8_t)drive, .what = APP_FAULT_TAKES_WRITES };

	ASSERT(md->drive[drive].writes_failed > 0);
	if (app_media_refuses_writes(md, drive))
		tell(md, &f);
	md->drive[drive].writes_failed = 0;
	ASSERT(!app_media_refuses_writes(md, drive)); /* (5) */
}

static void count(struct app_media *md, const struct app_io *of)
{
	const struct nvme_io *io = &of->nvme;
	uint64_t bytes = (uint64_t)io->nblocks << NVME_BLOCK_SHIFT;

	if (io->op == NVME_READ)
		md->read_bytes += bytes;
	else if (io->op == NVME_WRITE)
		md->written_bytes += bytes;
	if (unlikely(io->status) && io->op != NVME_DEALLOCATE) /* that one is a hint */
		failed(md, of);
	else if (unlikely(md->drive[of->drive].writes_failed) && io->op != NVME_READ &&
		 io->op != NVME_DEALLOCATE)
		takes_writes(md, of->drive);
}

/* Translates a drive's errors for the layers above: -EIO.  Our own mistakes keep their errno.
 * The store also learns whether only these blocks are lost.
 */
static wk_cold int error_of(int status, bool to_store)
{
	ASSERT(status < 0);
	if (to_store && status == -ENODATA)
		return status;
	switch (status) {
	case -ENODEV:
	case -EHOSTDOWN:
	case -EROFS:
	case -EBUSY:
	case -ECANCELED:
	case -ENODATA:
		return -EIO;
	default:
		return status;
	}
}

/* The drive has tried for good: the same write would fail again. */
static bool does_not_pass(int status)
{
	ASSERT(status < 0);
	return status == -ENODEV || status == -EIO || status == -ENODATA || status == -EROFS;
}

/* (7) */
static wk_cold bool goes_without(struct app_media *md, const struct app_io *io)
{
	const bool hasty = io->meta->hasty && does_not_pass(io->nvme.status);
	const bool yes = hasty || (io->meta->spare && io->nvme.status == -ENODEV);

	ASSERT(io->meta && io->nvme.status);
	if (yes && !hasty && io->nvme.op == NVME_WRITE)
		md->log_lost |= 1ull << io->drive;
	ASSERT(!yes || io->nvme.op != NVME_READ); /* (7) */
	return yes;
}

/* True: it is an operation's.  The store's goes back to the store. */
static bool take_back(struct app_media *md, struct app_io *io)
{
	struct meta_io *meta = io->meta;

	DASSERT(!list_linked(&io->link));
	ASSERT(md->in_flight > 0);
	count(md, io);
	if (unlikely(io->nvme.status) && meta && !goes_without(md, io) &&
	    app_patience_park(&md->patience, io, md->now_ns))
		return false;
	if (unlikely(io->nvme.status) && !meta && app_patience_hold(&md->patience, io))
		return false;
	md->in_flight--;
	if (unlikely(io->failed))
		app_patience_done(&md->patience, io);
	if (meta)
		meta->gone = io->nvme.status == -ENODEV;
	if (unlikely(io->nvme.status))
		io->nvme.status = error_of(io->nvme.status, meta != NULL);
	if (!meta)
		return true;
	if (unlikely(md->overlay))
		read_over(md, io);
	meta->status = io->nvme.status;
	meta->lost = meta->status && io->nvme.quarantined;
	list_push_front(&md->slot_free, &io->link);
	meta_io_done(md->meta, meta);
	return false;
}

/* (4); but a hint is not repeated, because it may have caused the reset. */
static bool again(struct app_media *md, struct app_media_drive *d, struct app_io *io)
{
	DASSERT(d == &md->drive[io->drive]);
	if (likely(io->nvme.status == 0) || !io->nvme.retry || ++io->tries > RETRIES_MAX)
		return false;
	if (io->nvme.op == NVME_DEALLOCATE)
		return false;
	ASSERT(io->nvme.status && io->tries <= RETRIES_MAX); /* (4) */
	md->retry_count++;
	list_push_back(&d->waiting, &io->link); /* (1) */
	return true;
}

static uint32_t poll_drive(struct app_media *md, struct app_media_drive *d, struct app_io **done,
			   uint32_t done_max, bool *progress)
{
	struct nvme_io *back[POLL_BURST];
	uint32_t back_count, done_count = 0;

	ASSERT(done_max > 0);
	back_count = nvme_poll(d->qp, back, min_u32(done_max, POLL_BURST));
	ASSERT(back_count <= d->out_count);
	d->out_count -= back_count;
	for (uint32_t i = 0; i < back_count; i++) {
		struct app_io *io = back[i]->owner;

		if (!again(md, d, io) && take_back(md, io))
			done[done_count++] = io;
	}
	while ((back_count || d->out_count == 0) && !list_empty(&d->waiting)) {
		struct app_io *io = list_entry(d->waiting.next, struct app_io, link);

		list_del(&io->link);
		if (to_queue(md, io)) {
			*progress = true; /* it may have been refused: another poll returns it */
			continue;
		}
		ASSERT(!list_linked(&io->link)); /* (1): it goes back to where it was */
		list_push_front(&d->waiting, &io->link);
		break;
	}
	*progress |= back_count > 0;
	return done_count;
}

uint32_t app_media_poll(struct app_media *md, struct app_io **done, uint32_t done_max,
			bool *progress)
{
	uint32_t done_count = 0;
	struct list *node;

	*progress = false;
	while (done_count < done_max && unlikely(!list_empty(&md->refused))) {
		node = list_pop_front(&md->refused);
		if (take_back(md, list_entry(node, struct app_io, link)))
			done[done_count++] = list_entry(node, struct app_io, link);
		*progress = true;
	}
	for (uint32_t i = 0; i < md->ndrives && done_count < done_max; i++) {
		struct app_media_drive *d = &md->drive[(md->poll_from + i) % md->ndrives];

		if (d->out_count || unlikely(!list_empty(&d->waiting)) ||
		    unlikely(d->qp && nvme_qpair_ordered(d->qp)))
			done_count += poll_drive(md, d, done + done_count, done_max - done_count,
						 progress);
	}
	md->poll_from = md->poll_from + 1 == md->ndrives ? 0 : md->poll_from + 1;
	ASSERT(done_count <= done_max && md->poll_from < md->ndrives);
	return done_count;
}
