/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Creates, stops and ends queue pairs, on any thread, also while another steps the drive.
 *
 * A queue pair's memory, one mapping:
 *
 *   | submission queue | completion queue | PRP lists, one a command id |
 *     each part on its own pages; a list's size is a power of two, so none crosses a page
 *
 * Creation: memory, then the queues at the controller; the end is in reverse order, and if the
 * controller does not give a queue back, its memory stays mapped for ever.
 *
 *   create:  an id is taken --> memory, vector --> Create CQ, SQ --> into the drive's table
 *                 |                                   |
 *                 |   a reset comes between: the controller has forgotten them: -EAGAIN
 *
 *   stop:    Delete SQ, CQ --> ended           a reset comes between: wait until it reports that
 *                 |                            the controller writes no more: ended
 *                 +-- refused, or nobody repairs the drive: nvme__halt()
 *
 * Each access to the drive's own state (its table, its admin queue) is at the helm, which is left
 * between two of them, so that the drive's owner makes progress and a reset may come at any time.
 *
 *   R1 -> A1   (A1 in nvme_qpair.c) everything that an order refers to is stored before the order
 *
 * Invariants, true whenever no thread is at the helm:
 *
 *  (1) An id is reserved while its queue pair is in the table, and while it is being created.
 *  (2) An ended queue pair gets no orders, and no reset waits for it.
 *  (3) The table has no queue pair that was created before a reset of the controller and was not
 *      part of it: its creator compares the number of resets, before each command and at the
 *      end [test_nvme_reset:queue_pair_cannot_be_made_amid_a_reset_and_can_after_it].
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS (5 * NS_PER_S) /* for a reset to end */

/* ---- the helm -------------------------------------------------------------------- */

const void *nvme__me(void)
{
	static _Thread_local char me;

	return &me;
}

/* Takes the helm; the thread that has it leaves it without waiting for anything. */
void nvme__helm_take(struct nvme_drive *drive)
{
	while (!nvme__helm_try(drive))
		sched_yield();
}

/* ---- making ---------------------------------------------------------------------- */

/* QEMU's controller says that it has a cache, and takes a write's FUA bit for nothing (7.2). */
static const char IGNORES_FUA[] = "QEMU NVMe Ctrl";

static uint32_t list_entries(const struct nvme_drive *ns)
{
	/* A buffer that begins inside a page touches one page more. */
	uint32_t pages = ns->info.transfer_max_bytes / NVME_PAGE_SIZE + 1;
	uint32_t most = nvme__prp_list_len(pages);
	uint32_t entries = 8; /* a cache line */

	while (!ns->sgl && entries < most)
		entries *= 2;
	ASSERT(entries <= NVME_PAGE_SIZE / sizeof(le64));
	return entries;
}

static void set_limits(struct nvme_qpair *qp, const struct nvme_drive *ns, uint32_t depth)
{
	uint64_t fits;

	qp->transfer_max_blocks = ns->info.transfer_max_bytes / NVME_BLOCK_SIZE;
	ASSERT(qp->transfer_max_blocks > 0);
	fits = (uint64_t)(depth - 1) * qp->transfer_max_blocks;
	qp->io_blocks_max = (uint32_t)min_u64(NVME_IO_BLOCKS_MAX, fits);
	qp->lba_per_block_shift = NVME_BLOCK_SHIFT - ns->lba_shift;
	qp->nsid = ns->nsid;
	qp->sgl = ns->sgl;
	qp->buffer_mask = ns->info.buffer_align - 1;
	qp->fua_bit = ns->info.volatile_cache ? NVME_FUA : 0;
	qp->cached = &ns->cached[qp->qid].done;
	qp->fua_ignored = qp->fua_bit && strcmp(ns->info.model, IGNORES_FUA) == 0;
	qp->zero_max_blocks = ns->info.zero_max_blocks;
	qp->deallocate_max_blocks = ns->info.deallocate_max_blocks;
	qp->cid_free_count = depth - 1;
	for (uint32_t i = 0; i < depth - 1; i++) {
		qp->cid_free[i] = (uint16_t)(depth - 2 - i);
		atomic_init(&qp->slot[i].cid, (uint16_t)i);
	}
}

/* Makes one descriptor for epoll: for the controller's interrupts and its owner's orders. */
static int open_fds(struct nvme_qpair *qp)
{
	struct epoll_event e = { .events = EPOLLIN };

	qp->wake_fd = -1; /* until there are queues */
	qp->order_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	qp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (qp->order_fd < 0 || qp->epoll_fd < 0 ||
	    epoll_ctl(qp->epoll_fd, EPOLL_CTL_ADD, qp->order_fd, &e))
		return -errno;
	return 0;
}

static int watch_queues(struct nvme_qpair *qp)
{
	struct epoll_event e = { .events = EPOLLIN };

	qp->wake_fd = qp->ops->wake_fd(qp->ctrl, qp->qid);
	if (qp->wake_fd >= 0 && epoll_ctl(qp->epoll_fd, EPOLL_CTL_ADD, qp->wake_fd, &e))
		return -errno;
	return 0;
}

void nvme__qpair_order(struct nvme_qpair *qp, uint32_t order)
{
	uint64_t one = 1;

	ASSERT(nvme__helm_taken(qp->drive));
	ASSERT(!qp->ended); /* (2) */
	/* R1 (A1 in nvme_qpair.c): all that the order speaks of, before the order. */
	atomic_store_explicit(&qp->order, order, memory_order_release);
	(void)!write(qp->order_fd, &one, sizeof(one));
}

static void free_qpair(struct nvme_qpair *qp)
{
	nvme__mem_free(&qp->mem, qp->drive->dma);
	if (qp->order_fd >= 0)
		close(qp->order_fd);
	if (qp->epoll_fd >= 0)
		close(qp->epoll_fd);
	free(qp->cid_free);
	free(qp->slot);
	free(qp);
}

/* All of it but the controller's part. */
static struct nvme_qpair *make_qpair(struct nvme_drive *ns, uint32_t qid, uint32_t depth)
{
	struct nvme_drive *drive = ns->share.ctl;
	struct nvme_qpair *qp = calloc(1, sizeof(*qp));
	uint64_t rings_bytes = nvme__rings_bytes(depth);

	ASSERT(qid >= 1);
	ASSERT(qid <= NVME_QPAIRS_MAX);
	if (!qp)
		return NULL;
	qp->drive = drive;
	qp->ns = ns;
	qp->ops = drive->ops;
	qp->ctrl = drive->ctrl;
	qp->qid = qid;
	qp->order_fd = qp->epoll_fd = -1;
	qp->prp_list_entries = list_entries(ns);
	qp->slot = calloc(depth, sizeof(*qp->slot));
	qp->cid_free = calloc(depth, sizeof(*qp->cid_free));
	if (!qp->slot || !qp->cid_free || open_fds(qp))
		goto free_qp;
	if (nvme__mem_alloc(&qp->mem, drive->dma,
			    rings_bytes + (uint64_t)depth * qp->prp_list_entries * sizeof(le64)))
		goto free_qp;
	nvme__rings_init(&qp->rings, qp->mem.addr, depth);
	qp->prp_lists = (void *)((char *)qp->mem.addr + rings_bytes);
	qp->prp_lists_iova = qp->mem.iova + rings_bytes;
	set_limits(qp, ns, depth);
	qp->strict = drive->poison_reads ? NVME_STRICT_POISON : 0;
	qp->vector = drive->ops->vector ? drive->ops->vector(drive->ctrl, qid) : -1;
	return qp;

free_qp:
	free_qpair(qp);
	return NULL;
}

/* (1): an id, and in *epoch how many resets there have been; or why there can be none. */
static int reserve(struct nvme_drive *drive, uint32_t *qid, uint64_t *epoch)
{
	uint32_t id = 1;
	int err = 0;

	nvme__helm_take(drive);
	*epoch = drive->counts.reset_count;
	while (id <= drive->info.qpair_count_max && drive->qid_taken[id])
		id++;
	if (drive->reset.life != NVME_LIVE)
		err = drive->reset.life == NVME_DEAD ? -ENODEV : -EAGAIN;
	else if (id > drive->info.qpair_count_max)
		err = -ENOSPC;
	else
		drive->qid_taken[id] = true;
	nvme__helm_leave(drive);
	*qid = id;
	return err;
}

/* The reverse.  A controller that nothing has stopped may still write to `mem`: it is lost. */
static void unreserve(struct nvme_drive *drive, uint32_t qid, struct nvme_mem *mem, bool lose)
{
	nvme__helm_take(drive);
	ASSERT(drive->qid_taken[qid]); /* (1) */
	drive->qpair[qid] = NULL;
	drive->qid_taken[qid] = false;
	if (lose || drive->reset.quarantine || (drive->failed && !drive->reset.stopped)) {
		drive->counts.quarantined_bytes += mem->size_bytes;
		mem->size_bytes = 0;
	}
	nvme__helm_leave(drive);
}

/* Returns true if a controller that may know its memory must still be stopped, and will be. */
static bool is_to_be_stopped(struct nvme_drive *drive, uint64_t epoch)
{
	const struct nvme_reset *r = &drive->reset;
	bool yes;

	nvme__helm_take(drive);
	yes = r->life != NVME_DEAD && r->stopped_epoch <= epoch &&
	      (drive->counts.reset_count != epoch || (drive->failed && drive->watch.owner));
	nvme__helm_leave(drive);
	return yes;
}

/* It could not be made.  A reset that takes too long costs its memory. */
static void unmake(struct nvme_qpair *qp, uint64_t epoch)
{
	struct nvme_drive *drive = qp->drive;
	uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
	struct timespec pause = { .tv_nsec = 50000 };
	bool wait = is_to_be_stopped(drive, epoch);

	while (wait && clock_now_ns() < deadline_ns) {
		nanosleep(&pause, NULL);
		wait = is_to_be_stopped(drive, epoch);
	}
	unreserve(drive, qp->qid, &qp->mem, wait);
	free_qpair(qp);
}

/* From here on it is the drive's owner's, too. */
static int enter_table(struct nvme_drive *drive, struct nvme_qpair *qp, uint64_t epoch)
{
	int err = 0;

	nvme__helm_take(drive);
	if (drive->counts.reset_count != epoch) { /* (3) */
		err = -ECANCELED;
	} else {
		ASSERT(drive->qid_taken[qp->qid]); /* (1) */
		ASSERT(drive->qpair[qp->qid] == NULL);
		atomic_init(&qp->stamp, (uint8_t)drive->watch.stamp);
		qp->strict |= qp->ns->read_only ? NVME_STRICT_READ_ONLY : 0;
		drive->qpair[qp->qid] = qp;
		err = watch_queues(qp);
	}
	nvme__helm_leave(drive);
	return err;
}

int nvme_qpair_create(struct nvme_drive *ns, uint32_t depth, struct nvme_qpair **out)
{
	struct nvme_drive *drive = ns->share.ctl;
	struct nvme_qpair *qp;
	uint64_t epoch;
	uint32_t qid;
	int err;

	if (depth < NVME_DEPTH_MIN || depth > drive->info.depth_max)
		return -EINVAL;
	err = reserve(drive, &qid, &epoch);
	if (err)
		return err;
	qp = make_qpair(ns, qid, depth);
	if (!qp) {
		unreserve(drive, qid, &(struct nvme_mem){ 0 }, false);
		return -ENOMEM;
	}
	err = nvme__admin_create_queues(drive, qp, epoch);
	if (!err)
		err = enter_table(drive, qp, epoch);
	if (err && drive->qpair[qid]) {
		nvme_qpair_destroy(qp);
		return err;
	}
	if (err) {
		unmake(qp, epoch);
		return err == -ECANCELED ? -EAGAIN : err;
	}
	*out = qp;
	return 0;
}

/* ---- stopping -------------------------------------------------------------------------- */

/* The next step for a queue pair that must stop. */
enum way {
	WAY_DELETE, /* the drive is well: take the queues away           */
	WAY_ENDED,  /* the controller has forgotten them, or is no more   */
	WAY_WAIT,   /* a reset is in progress                               */
	WAY_HALT,   /* and does not end: stop the drive      */
};

static enum way way_now(const struct nvme_drive *drive, const struct nvme_qpair *qp, bool patient)
{
	const struct nvme_reset *r = &drive->reset;

	ASSERT(nvme__helm_taken(drive) && qp->drive == drive);
	if (r->life == NVME_DEAD)
		return WAY_ENDED;
	if (r->life == NVME_LIVE && !drive->failed)
		return WAY_DELETE;
	if (r->life == NVME_RETURNING && (r->qid == 0 || r->qid == qp->qid))
		return WAY_ENDED;
	if (r->stopped && r->qid == 0) /* and has not come back yet */
		return WAY_ENDED;
	/* The owner repairs the drive, unless this thread is the owner, or there is no owner. */
	return patient && drive->watch.owner && drive->watch.owner != nvme__me() ? WAY_WAIT
										 : WAY_HALT;
}

/* This thread obeys on: a reset waits for that. */
static enum way find_way(struct nvme_qpair *qp)
{
	struct nvme_drive *drive = qp->drive;
	uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
	struct timespec pause = { .tv_nsec = 50000 };
	enum way way;

	for (;;) {
		nvme__qpair_obey(qp);
		nvme__helm_take(drive);
		way = way_now(drive, qp, clock_now_ns() < deadline_ns);
		qp->leaving |= way == WAY_DELETE;
		qp->ended |= way == WAY_ENDED; /* (2) */
		nvme__helm_leave(drive);
		if (way != WAY_WAIT)
			return way;
		nanosleep(&pause, NULL);
	}
}

/* 0: the controller has given them back; -ECANCELED: a reset has come between, or must come. */
static int delete_queues(struct nvme_qpair *qp)
{
	struct nvme_drive *drive = qp->drive;
	int err = nvme__admin_delete_queues(drive, qp->qid);

	ASSERT(qp->leaving && !qp->ended);
	nvme__helm_take(drive);
	qp->ended |= err == 0; /* (2) */
	if (err && drive->failed)
		err = -ECANCELED;
	nvme__helm_leave(drive);
	return err;
}

void nvme_qpair_stop(struct nvme_qpair *qp)
{
	int err = -ECANCELED;

	nvme__qpair_obey(qp);
	if (qp->state == NVME_QP_STOPPED || qp->state == NVME_QP_DEAD)
		return;
	nvme_qpair_disarm(qp);
	while (err == -ECANCELED) {
		switch (find_way(qp)) {
		case WAY_DELETE:
			err = delete_queues(qp);
			break;
		case WAY_ENDED:
			err = 0;
			break;
		default:
			err = -EIO;
		}
	}
	if (err) {
		nvme__halt(qp->drive, qp);
		return;
	}
	nvme__qpair_obey(qp);
	if (qp->state != NVME_QP_DEAD)
		qp->state = NVME_QP_STOPPED;
}

void nvme_qpair_destroy(struct nvme_qpair *qp)
{
	if (!qp)
		return;
	nvme_qpair_stop(qp);
	ASSERT(qp->io_count == 0);
	ASSERT(qp->drive->qpair[qp->qid] == qp);
	unreserve(qp->drive, qp->qid, &qp->mem, false);
	free_qpair(qp);
}
