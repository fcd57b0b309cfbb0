/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Queue pairs: submit, ring and poll.
 *
 *                 sq_tail_rung        sq_tail
 *                      v                 v
 *   sq   [..fetched..] [a] [b] [c] [d]   [ ]     a..d: written, device not yet told
 *
 *   cq   [old phase]   [new] [new]  [old phase]
 *                        ^ cq_head
 *
 * An I/O longer than the drive's limit is several commands that share it: each of their
 * ids points to it, commands_left counts them.
 *
 * After an error the drive's owner gives orders (nvme_reset.c), which the queue pair's thread
 * follows in nvme_poll():
 *
 *   live --bad completion--> failed
 *    |  \--STOP--> halted <--STOP--/
 *    |               |RETURN
 *    |               v                                   nvme_qpair_stop()
 *    +<--RUN-- paused <-- returning     dead <--DEAD--   --> stopped
 *                 all I/Os are back
 *
 *   R1 -> A1   (R1 in nvme_queues.c) the owner's preparations for an order (queues, or that nothing
 *              is written any more) are stored before the order
 *   R6 -> A6   a write that came back from nvme_poll() is counted before a flush that is submitted
 *              after it adds up what it covers
 *   R2 -> A2   (A2 in nvme_reset.c) this thread's last access to the queues and doorbells comes
 *              before it reports that it has obeyed
 *   B1 -> device (mmio.h), device -> B2 (mmio.h)
 *
 * Invariants, true between any two calls:
 *
 *  (1) A command id is either on cid_free or its slot has an I/O, never both.
 *  (2) At most depth - 1 ids exist.  So the submission queue never overflows, and
 *      neither does the completion queue: the device's heads need not be tracked.
 *  (3) An I/O belongs to the driver from nvme_submit() == 0 until nvme_poll() returns it;
 *      io_count counts them, and the ids that point to one are its commands_left.
 *  (4) Values written by the device are checked, never asserted: a wrong completion fails
 *      the queue pair.  Its I/Os come back only when the controller has been stopped, or has given
 *      the queues back: until then it may still write to their buffers
 *      [test_nvme_qpair:unknown_completion_fails_the_queue_and_stop_gives_its_ios_back].
 *  (5) An id's PRP list is written only while the id is being submitted.
 *  (6) Only a live queue pair touches its queues and doorbells
 *      [test_nvme_reset:fatal_status_resets_the_controller_and_nothing_is_taken_meanwhile].
 *  (7) slot.born is 0 for a free slot; the owner of the drive may read it at any time.
 *  (8) Fields that we do not use (metadata, dwords 2, 3, 13 to 15) are zero in all entries
 *      since the rings were made, and are not written again.
 */
#include "nvme/nvme_internal.h"
#include "nvme/mmio.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

static void assert_valid(struct nvme_qpair *qp)
{
#ifdef WK_DEBUG
	if (qp->self_check++ % NVME_CHECK_CALLS == 0)
		nvme__qpair_check(qp);
#endif
	ASSERT(qp->cid_free_count < qp->rings.depth);                     /* (2) */
	ASSERT(qp->io_count <= qp->rings.depth - 1 - qp->cid_free_count); /* (3) */
}

static inline uint32_t take_cid(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t cid = qp->cid_free[--qp->cid_free_count];
	struct nvme_slot *slot = &qp->slot[NVME_CID_SLOT(cid)];

	ASSERT(slot->io == NULL);                                              /* (1) */
	DASSERT(atomic_load_explicit(&slot->born, memory_order_relaxed) == 0); /* (7) */
	DASSERT(qp->state == NVME_QP_LIVE);
	slot->io = io;
	atomic_store_explicit(&slot->born, atomic_load_explicit(&qp->stamp, memory_order_relaxed),
			      memory_order_relaxed);
	return cid;
}

static inline uint32_t next_index(const struct nvme_rings *r, uint32_t index)
{
	return index + 1 == r->depth ? 0 : index + 1;
}

static inline struct nvme_sqe *next_sqe(struct nvme_rings *r)
{
	struct nvme_sqe *sqe = &r->sq[r->sq_tail];

	r->sq_tail = next_index(r, r->sq_tail);
	return sqe;
}

static void push(struct nvme_rings *r, const struct nvme_sqe *command)
{
	*next_sqe(r) = *command;
}

/* Commands of no data of the caller's: flush, zeroes, deallocate. */
static void push_other(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t cid = take_cid(qp, io), list = NVME_CID_SLOT(cid) * qp->prp_list_entries;
	uint64_t lba = io->block << qp->lba_per_block_shift;
	uint32_t lba_count = io->nblocks << qp->lba_per_block_shift;
	struct nvme_range *range = (void *)(qp->prp_lists + list); /* (5), for this too */
	struct nvme_sqe sqe = { .cid = le16_of((uint16_t)cid), .nsid = le32_of(qp->nsid) };

	switch (io->op) {
	case NVME_ZERO:
		sqe.opcode = NVME_CMD_WRITE_ZEROES;
		sqe.cdw10 = le32_of((uint32_t)lba);
		sqe.cdw11 = le32_of((uint32_t)(lba >> 32));
		sqe.cdw12 = le32_of((lba_count - 1) | (io->fua ? qp->fua_bit : 0));
		break;
	case NVME_DEALLOCATE:
		sqe.opcode = NVME_CMD_DATASET;
		sqe.prp1 = le64_of(qp->prp_lists_iova + 8ull * list);
		sqe.cdw11 = le32_of(NVME_DATASET_FREE); /* of one range: dword 10 counts less 1 */
		*range =
			(struct nvme_range){ .lba_count = le32_of(lba_count), .lba = le64_of(lba) };
		break;
	default:
		ASSERT(io->op == NVME_FLUSH);
		sqe.opcode = NVME_CMD_FLUSH;
	}
	push(&qp->rings, &sqe);
}

static inline uint32_t fua_bit(const struct nvme_qpair *qp, const struct nvme_io *io)
{
	return likely(!io->fua) || io->op == NVME_READ ? 0 : qp->fua_bit;
}

/*
 * One command: `nblocks` of `io`, from its block `first` on, as if its data lay on one page.
 * Written where the device reads it, and only the fields that any command of ours has: (8).
 */
static inline struct nvme_sqe *push_transfer(struct nvme_qpair *qp, struct nvme_io *io,
					     uint32_t first, uint32_t nblocks)
{
	uint32_t shift = qp->lba_per_block_shift, cid = take_cid(qp, io);
	uint64_t lba = (io->block + first) << shift;
	struct nvme_sqe *sqe = next_sqe(&qp->rings);

	DASSERT((sqe->cdw2.raw | sqe->cdw3.raw) == 0 && sqe->metadata.raw == 0); /* (8) */
	DASSERT((sqe->cdw13.raw | sqe->cdw14.raw | sqe->cdw15.raw) == 0);        /* (8) */
	sqe->opcode = (uint8_t)(NVME_CMD_READ - io->op);
	sqe->flags = 0;
	sqe->cid = le16_of((uint16_t)cid);
	sqe->nsid = le32_of(qp->nsid);
	sqe->prp1 = le64_of(io->iova + ((uint64_t)first << NVME_BLOCK_SHIFT));
	sqe->prp2 = le64_of(0);
	sqe->cdw10 = le32_of((uint32_t)lba);
	sqe->cdw11 = le32_of((uint32_t)(lba >> 32));
	sqe->cdw12 = le32_of(((nblocks << shift) - 1) | fua_bit(qp, io));
	return sqe;
}

static_assert(NVME_CMD_READ - NVME_READ == 2 && NVME_CMD_READ - NVME_WRITE == NVME_CMD_WRITE,
	      "opcodes by subtraction");

/* Data on more than one page: PRPs, or one SGL descriptor where the controller takes them. */
static void describe(struct nvme_qpair *qp, struct nvme_sqe *sqe, uint32_t nblocks)
{
	uint32_t list = NVME_CID_SLOT(le16_get(sqe->cid)) * qp->prp_list_entries;
	uint64_t iova = le64_get(sqe->prp1);
	bool whole = qp->sgl && nvme__prp_pages(iova, nblocks) > 2; /* no list */
	struct nvme_prp_pair data = whole ? nvme__sgl_fill(iova, nblocks)
					  : nvme__prp_fill(iova, nblocks, qp->prp_lists + list,
							   qp->prp_lists_iova + 8ull * list);

	DASSERT(qp->slot[NVME_CID_SLOT(le16_get(sqe->cid))].io); /* (5) */
	DASSERT(next_index(&qp->rings, (uint32_t)(sqe - qp->rings.sq)) ==
		qp->rings.sq_tail); /* (5) */
	sqe->flags = whole ? NVME_SQE_SGL : 0;
	sqe->prp2 = le64_of(data.prp2);
}

static wk_cold int refuse(const struct nvme_qpair *qp)
{
	switch (qp->state) {
	case NVME_QP_STOPPED:
		return -EIO;
	case NVME_QP_DEAD:
		return -ENODEV;
	default: /* the drive's owner repairs it */
		if (nvme_qpair_is_away(qp))
			return -EHOSTDOWN;
		return atomic_load_explicit(&qp->drive->watch.stepped, memory_order_relaxed)
			       ? -EAGAIN
			       : -EIO;
	}
}

/* Counts one more in flight.  The watch sleeps while the count is 0. */
static inline void count_in(struct nvme_qpair *qp)
{
	if (qp->io_count++ == 0 &&
	    unlikely(!atomic_load_explicit(&qp->drive->watch.on, memory_order_relaxed)))
		nvme__kick(qp->drive);
}

/* A flush follows when the drive would take FUA for nothing.  It is counted from the start. */
static inline bool owes_flush(const struct nvme_qpair *qp, const struct nvme_io *io)
{
	return unlikely(qp->fua_ignored) && io->fua &&
	       (io->op == NVME_WRITE || io->op == NVME_ZERO);
}

static wk_cold int submit_other(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t limit = io->op == NVME_ZERO         ? qp->zero_max_blocks
			 : io->op == NVME_DEALLOCATE ? qp->deallocate_max_blocks
						     : 0;

	ASSERT(io->op == NVME_FLUSH || io->nblocks > 0);
	if (qp->state != NVME_QP_LIVE)
		return refuse(qp);
	if (qp->strict & NVME_STRICT_READ_ONLY)
		return -EROFS;
	if (io->op != NVME_FLUSH && io->nblocks > limit)
		return limit ? -EINVAL : -EOPNOTSUPP;
	if (qp->cid_free_count == 0)
		return -EAGAIN;
	io->status = 0;
	io->commands_left = 1 + owes_flush(qp, io);
	io->covers = io->op == NVME_FLUSH ? nvme__cached_count(qp->ns) : 0; /* done before it */
	count_in(qp);
	qp->stats.command_count++;
	push_other(qp, io);
	return 0;
}

/* More commands than one; the caller knows that no more than io_blocks_max are asked for. */
static __attribute__((noinline)) int submit_split(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t most = qp->transfer_max_blocks;
	uint32_t commands = (uint32_t)div_up(io->nblocks, most);

	ASSERT(io->nblocks > 0);
	ASSERT(io->nblocks <= qp->io_blocks_max);
	if (qp->cid_free_count < commands)
		return -EAGAIN;
	io->status = 0;
	io->commands_left = commands + owes_flush(qp, io);
	count_in(qp);
	qp->stats.command_count += commands;
	for (uint32_t first = 0; first < io->nblocks; first += most) {
		uint32_t nblocks = min_u32(io->nblocks - first, most);

		describe(qp, push_transfer(qp, io, first, nblocks), nblocks);
	}
	return 0;
}

/* The rest of a submit, which few commands need: wakes the watch, writes a long command's PRPs. */
static __attribute__((noinline)) int submit_rest(struct nvme_qpair *qp, struct nvme_sqe *sqe,
						 uint32_t nblocks)
{
	describe(qp, sqe, nblocks);
	if (qp->io_count == 1 &&
	    unlikely(!atomic_load_explicit(&qp->drive->watch.on, memory_order_relaxed)))
		nvme__kick(qp->drive);
	return 0;
}

/* A transfer on a drive that takes no writes, or in a test. */
static wk_cold bool refused(const struct nvme_qpair *qp, const struct nvme_io *io)
{
	bool fits = (uint64_t)qp->cid_free_count * qp->transfer_max_blocks >= io->nblocks;

	if (io->op == NVME_WRITE)
		return qp->strict & NVME_STRICT_READ_ONLY;
	if (qp->strict & NVME_STRICT_POISON && fits) /* else it stays the caller's buffer */
		nvme__poison(qp->drive->dma, io->iova, (uint64_t)io->nblocks << NVME_BLOCK_SHIFT);
	return false;
}

int nvme_submit(struct nvme_qpair *qp, struct nvme_io *io)
{
	struct nvme_sqe *sqe;

	if (unlikely(io->op > NVME_WRITE))
		return submit_other(qp, io);
	ASSERT((io->iova & qp->buffer_mask) == 0);
	if (unlikely(qp->state != NVME_QP_LIVE))
		return refuse(qp);
	if (unlikely(qp->strict) && refused(qp, io))
		return -EROFS;
	if (unlikely(io->nblocks - 1 >= qp->transfer_max_blocks)) /* 0, too */
		return submit_split(qp, io);
	if (unlikely(qp->cid_free_count == 0))
		return -EAGAIN;

	io->status = 0;
	io->commands_left = 1 + owes_flush(qp, io);
	qp->io_count++;
	qp->stats.command_count++;
	sqe = push_transfer(qp, io, 0, io->nblocks);
	if (unlikely((io->iova % NVME_PAGE_SIZE | (io->nblocks - 1)) != 0 || qp->io_count == 1))
		return submit_rest(qp, sqe, io->nblocks);
	return 0;
}

wk_cold bool nvme_move(struct nvme_qpair *qp, const struct nvme_io *from, struct nvme_io *to)
{
	uint32_t commands = 0;

	for (uint32_t i = 0; i + 1 < qp->rings.depth; i++) {
		if (qp->slot[i].io != from)
			continue;
		qp->slot[i].io = to;
		commands++;
	}
	ASSERT(commands <= to->commands_left); /* (3); a flush that it owes has no id yet */
	return commands > 0;
}

void nvme_ring(struct nvme_qpair *qp)
{
	struct nvme_rings *r = &qp->rings;

	if (r->sq_tail == r->sq_tail_rung || qp->state != NVME_QP_LIVE)
		return;
	dma_wmb(); /* B1: the entries, before the doorbell that announces them */
	mmio_ring(r->sq_doorbell, r->shadow.sq, r->shadow.sq_event, r->sq_tail_rung, r->sq_tail);
	r->sq_tail_rung = r->sq_tail;
	qp->stats.ring_count++;
}

/* An I/O gets its first error; it may be retried if all of its errors allow that. */
static wk_cold void note_error(struct nvme_qpair *qp, struct nvme_io *io, int err, bool retry,
			       uint32_t nvme_status)
{
	qp->stats.error_count++;
	if (io->status == 0) {
		io->status = err;
		io->nvme_status = (uint16_t)nvme_status;
		io->retry = retry;
		io->quarantined = false;
	}
	io->retry &= retry;
}

/* The drive's cache has the bytes of `io`.  Returns true if a flush was sent, with a freed id. */
static wk_cold bool flush_after(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t cid;

	if (io->status) /* it is returned as it is */
		return false;
	cid = take_cid(qp, io);
	push(&qp->rings, &(struct nvme_sqe){ .opcode = NVME_CMD_FLUSH,
					     .cid = le16_of((uint16_t)cid),
					     .nsid = le32_of(qp->nsid) });
	qp->stats.command_count++;
	nvme_ring(qp);
	return true;
}

/* One of its commands is done, and not the last.  True: that was a flush, and it failed. */
static wk_cold bool is_over(struct nvme_qpair *qp, struct nvme_io *io)
{
	ASSERT(io->commands_left != UINT32_MAX); /* (3): it had none */
	if (io->commands_left > 1 || !owes_flush(qp, io) || flush_after(qp, io))
		return false;
	io->commands_left = 0;
	return true;
}

/* Give the id back; its I/O when that was the last of its commands, else NULL. */
static inline struct nvme_io *retire(struct nvme_qpair *qp, struct nvme_slot *slot, uint32_t was)
{
	struct nvme_io *io = slot->io;
	uint16_t cid = (uint16_t)NVME_CID_NEXT(was);

	slot->io = NULL;
	atomic_store_explicit(&slot->cid, cid, memory_order_relaxed);
	atomic_store_explicit(&slot->born, 0, memory_order_relaxed); /* (7) */
	qp->cid_free[qp->cid_free_count++] = cid;
	ASSERT(qp->cid_free_count < qp->rings.depth); /* (2) */
	if (unlikely(--io->commands_left != 0) && !is_over(qp, io))
		return NULL;
	qp->io_count--; /* (3): assert_valid() would see it go below zero */
	return io;
}

/* ---- cached writes: struct nvme_cached ------------------------------------------------- */

uint64_t nvme__cached_count(const struct nvme_drive *drive)
{
	uint64_t sum = 0;

	for (uint32_t q = 1; q <= drive->info.qpair_count_max; q++)
		sum += atomic_load_explicit(&drive->cached[q].done, memory_order_acquire); /* A6 */
	return sum;
}

/* A flush that failed covers nothing; a deallocation that is lost is a hint that is lost. */
static inline void count_done(struct nvme_qpair *qp, const struct nvme_io *io)
{
	_Atomic uint64_t *flushed;
	uint64_t was;

	if (io->op == NVME_READ || unlikely(io->status) || !qp->fua_bit)
		return;
	if (io->op == NVME_FLUSH) {
		flushed = &qp->ns->flushed;
		was = atomic_load_explicit(flushed, memory_order_relaxed);
		while (was < io->covers && !atomic_compare_exchange_weak_explicit(
						   flushed, &was, io->covers, memory_order_relaxed,
						   memory_order_relaxed))
			;
	} else if (io->op != NVME_DEALLOCATE && !io->fua) {
		was = atomic_load_explicit(qp->cached, memory_order_relaxed);
		atomic_store_explicit(qp->cached, was + 1, memory_order_release); /* R6 */
	}
}

/* ---- when it goes wrong -------------------------------------------------------------- */

static bool gives_back(const struct nvme_qpair *qp)
{
	return qp->state == NVME_QP_RETURNING || qp->state == NVME_QP_STOPPED ||
	       qp->state == NVME_QP_DEAD;
}

/* The order that was heard, and not one that may have come since. */
static void say_obeyed(struct nvme_qpair *qp)
{
	atomic_store_explicit(&qp->obeyed, qp->heard, memory_order_release); /* R2 */
	nvme__kick(qp->drive);
}

/* Its I/Os are back: the rings as new, for the queues that will be made. */
static void pause_it(struct nvme_qpair *qp)
{
	ASSERT(qp->io_count == 0 && qp->cid_free_count == qp->rings.depth - 1); /* (1) */
	nvme__rings_init(&qp->rings, qp->mem.addr, qp->rings.depth);
	qp->state = NVME_QP_PAUSED;
	say_obeyed(qp);
}

static void run_it(struct nvme_qpair *qp)
{
	struct epoll_event e = { .events = EPOLLIN };
	int fd = qp->ops->wake_fd(qp->ctrl, qp->qid);

	ASSERT(qp->io_count == 0); /* its owner waited for that */
	/* Another one, or another of the same number, or the same: then it is there already. */
	if (qp->wake_fd >= 0 && qp->wake_fd != fd)
		(void)epoll_ctl(qp->epoll_fd, EPOLL_CTL_DEL, qp->wake_fd, NULL);
	if (fd >= 0)
		(void)epoll_ctl(qp->epoll_fd, EPOLL_CTL_ADD, fd, &e);
	qp->wake_fd = fd;
	qp->state = NVME_QP_LIVE;
	say_obeyed(qp);
}

wk_cold void nvme__qpair_obey(struct nvme_qpair *qp)
{
	uint32_t order = atomic_load_explicit(&qp->order, memory_order_acquire); /* A1 */
	uint64_t count;

	if (order == atomic_load_explicit(&qp->obeyed, memory_order_relaxed))
		return;
	(void)!read(qp->order_fd, &count, sizeof(count));
	qp->heard = order;
	if (qp->state == NVME_QP_STOPPED) {
		say_obeyed(qp);
		return;
	}
	switch (NVME_ORDER_WHAT(order)) {
	case NVME_ORDER_STOP:
		qp->state = NVME_QP_HALTED;
		say_obeyed(qp);
		break;
	case NVME_ORDER_RETURN:
		qp->state = NVME_QP_RETURNING;
		if (qp->io_count == 0)
			pause_it(qp);
		break;
	case NVME_ORDER_RUN:
		if (qp->ns->read_only)
			qp->strict |= NVME_STRICT_READ_ONLY;
		run_it(qp);
		break;
	case NVME_ORDER_DEAD:
		qp->state = NVME_QP_DEAD;
		say_obeyed(qp);
		break;
	}
}

/* I/Os of a controller that writes no more, or cannot be made to: nobody else will end them. */
static uint32_t give_back(struct nvme_qpair *qp, struct nvme_io **done, uint32_t done_max)
{
	const struct nvme_reset *reset = &qp->drive->reset;
	bool by_reset = qp->state != NVME_QP_STOPPED;
	bool gone = by_reset && reset->dead && reset->cause != NVME_CAUSE_CLOSING;
	uint32_t done_count = 0;

	for (uint32_t i = 0; i + 1 < qp->rings.depth && done_count < done_max; i++) {
		struct nvme_io *io = qp->slot[i].io;

		if (!io)
			continue;
		note_error(qp, io, gone ? -ENODEV : -ECANCELED, by_reset && !reset->dead, 0);
		io->quarantined = by_reset && reset->quarantine;
		if (retire(qp, &qp->slot[i],
			   atomic_load_explicit(&qp->slot[i].cid, memory_order_relaxed)))
			done[done_count++] = io;
	}
	if (qp->state == NVME_QP_RETURNING && qp->io_count == 0)
		pause_it(qp);
	return done_count;
}

static wk_cold uint32_t poll_cold(struct nvme_qpair *qp, struct nvme_io **done, uint32_t done_max)
{
	return gives_back(qp) ? give_back(qp, done, done_max) : 0;
}

/* (4): the device sent a bad completion.  Reports it to the drive's owner. */
static wk_cold void fail(struct nvme_qpair *qp, enum nvme_complaint what, uint32_t cid)
{
	ASSERT(qp->state == NVME_QP_LIVE);
	qp->state = NVME_QP_FAILED;
	atomic_store_explicit(&qp->complaint, (uint32_t)what << 16 | cid, memory_order_relaxed);
	nvme__kick(qp->drive);
}

/* The slot of the command that `cqe` ends, or NULL: then nothing of it can be believed. */
static inline struct nvme_slot *slot_of(struct nvme_qpair *qp, volatile struct nvme_cqe *cqe)
{
	uint32_t cid = cqe->cid.raw, index = NVME_CID_SLOT(cid);
	struct nvme_slot *slot = &qp->slot[index];

	if (unlikely(cqe->sq_id.raw != qp->qid)) {
		fail(qp, NVME_COMPLAINT_QUEUE, cid);
		return NULL;
	}
	if (unlikely(index >= qp->rings.depth || slot->io == NULL ||
		     atomic_load_explicit(&slot->cid, memory_order_relaxed) != cid)) {
		fail(qp, NVME_COMPLAINT_ID, cid);
		return NULL;
	}
	return slot;
}

bool nvme_qpair_ordered(const struct nvme_qpair *qp)
{
	return atomic_load_explicit(&qp->order, memory_order_relaxed) !=
	       atomic_load_explicit(&qp->obeyed, memory_order_relaxed);
}

bool nvme_qpair_is_away(const struct nvme_qpair *qp)
{
	return atomic_load_explicit(&qp->drive->reset.away, memory_order_relaxed);
}

uint32_t nvme_poll(struct nvme_qpair *qp, struct nvme_io **done, uint32_t done_max)
{
	struct nvme_rings *r = &qp->rings;
	uint32_t done_count = 0, head, phase;

	if (unlikely(nvme_qpair_ordered(qp)))
		nvme__qpair_obey(qp);
	if (unlikely(qp->state != NVME_QP_LIVE))
		return poll_cold(qp, done, done_max);
	if (qp->ops->service)
		qp->ops->service(qp->ctrl, qp->qid);
	head = r->cq_head;
	phase = r->phase;
	while (done_count < done_max) {
		volatile struct nvme_cqe *cqe = &r->cq[head];
		uint32_t status = cqe->status.raw;
		struct nvme_slot *slot;
		struct nvme_io *io;

		if ((status & 1) != phase)
			break;
		dma_rmb(); /* B2: the phase bit, before the rest of the entry */
		slot = slot_of(qp, cqe);
		if (unlikely(!slot))
			break;
		status >>= 1;
		if (unlikely(status & NVME_STATUS_MASK))
			note_error(qp, slot->io, nvme__status_errno(status & NVME_STATUS_MASK),
				   nvme__status_retry(status), status & NVME_STATUS_MASK);
		io = retire(qp, slot, atomic_load_explicit(&slot->cid, memory_order_relaxed));
		if (io) {
			count_done(qp, io);
			done[done_count++] = io;
		}
		if (++head == r->depth) {
			head = 0;
			phase ^= 1;
		}
	}
	if (head != r->cq_head) {
		mmio_ring(r->cq_doorbell, r->shadow.cq, r->shadow.cq_event, r->cq_head, head);
		r->cq_head = head;
		r->phase = phase;
	}
	assert_valid(qp);
	return done_count;
}

uint32_t nvme_qpair_io_blocks_max(const struct nvme_qpair *qp)
{
	return qp->io_blocks_max;
}

uint32_t nvme_qpair_in_flight(const struct nvme_qpair *qp)
{
	return qp->io_count;
}

/* ---- sleep --------------------------------------------------------------------------- */

int nvme_qpair_fd(const struct nvme_qpair *qp)
{
	return qp->epoll_fd;
}

bool nvme_qpair_arm(struct nvme_qpair *qp)
{
	const struct nvme_rings *r = &qp->rings;
	bool quiet = !gives_back(qp) || qp->io_count == 0;
	uint64_t count;

	/* An order is stored, then its descriptor written: a poll between the two obeys it, and the
	 * later write would keep a sleeper awake for ever.  An order that comes now is seen below,
	 * or its descriptor is written after this. */
	(void)!read(qp->order_fd, &count, sizeof(count));
	if (qp->state == NVME_QP_LIVE) {
		if (!qp->ops->arm(qp->ctrl, qp->qid))
			return false;
		/* Completions that arrive before arming do not raise the eventfd. */
		quiet = r->sq_tail == r->sq_tail_rung &&
			(r->cq[r->cq_head].status.raw & 1) != r->phase;
	}
	if (unlikely(qp->state == NVME_QP_PAUSED || qp->state == NVME_QP_HALTED) &&
	    nvme_qpair_is_away(qp) != qp->saw_away) {
		/* The read above may have taken its wake-up: I/Os that wait must be submitted once
		 * more. */
		qp->saw_away = !qp->saw_away;
		return false;
	}
	/* A1 */
	return quiet && atomic_load_explicit(&qp->order, memory_order_acquire) ==
				atomic_load_explicit(&qp->obeyed, memory_order_relaxed);
}

void nvme_qpair_disarm(struct nvme_qpair *qp)
{
	if (qp->state == NVME_QP_LIVE)
		qp->ops->disarm(qp->ctrl, qp->qid);
}

void nvme_qpair_stats(const struct nvme_qpair *qp, struct nvme_stats *stats)
{
	*stats = qp->stats;
	if (qp->ops->stats && qp->state == NVME_QP_LIVE)
		qp->ops->stats(qp->ctrl, qp->qid, stats);
}
