/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The driver's rules, checked as a whole: what nvme_reset.c, nvme_watch.c, nvme_admin.c,
 * nvme_events.c, nvme_queues.c and nvme_qpair.c say is true between two calls.
 *
 * nvme__drive_check() is for a thread at the helm, nvme__qpair_check() for the queue pair's.
 * Variants with WK_DEBUG (debug, asan, sim) call the first one after each transition of a reset,
 * and both once in NVME_CHECK_CALLS calls otherwise.  They look only at our own memory: nothing
 * that a device writes is asserted.
 */
#include "nvme/nvme_internal.h"

/* ---- the reset: nvme_reset.c --------------------------------------------------------------- */

#define LIVES(a, b, c, d) (1u << (a) | 1u << (b) | 1u << (c) | 1u << (d))

static void check_life(const struct nvme_drive *drive)
{
	const struct nvme_reset *r = &drive->reset;
	const uint32_t life = 1u << r->life;

	ASSERT((r->trouble_ns == 0) == (r->life == NVME_LIVE));
	if (r->qid != 0) /* one queue pair is made again: the controller goes on */
		ASSERT(life & LIVES(NVME_STOPPING, NVME_DELETING, NVME_RETURNING, NVME_CREATING));
	if (r->life == NVME_DELETING)
		ASSERT(r->qid >= 1 && r->qid <= NVME_QPAIRS_MAX);
	if (r->life == NVME_RETURNING || r->life == NVME_RESTING)
		ASSERT(r->stopped); /* nvme_reset.c (2) */
	if (life & LIVES(NVME_RISING, NVME_PROVING, NVME_CREATING, NVME_LIVE))
		ASSERT(!r->stopped && !r->vacant && !r->dead);
	if (r->life == NVME_DEAD)
		ASSERT(r->dead && (r->stopped || r->quarantine)); /* nvme_reset.c (2) */
	if (r->life == NVME_PROVING)
		ASSERT(drive->proving.ns && drive->proving.ns->share.ctl == drive);
}

static void check_reset(const struct nvme_drive *drive)
{
	const struct nvme_reset *r = &drive->reset;

	if (atomic_load_explicit(&r->away, memory_order_relaxed))
		ASSERT(r->qid == 0 && r->life != NVME_LIVE);
	if (r->vacant) /* its server has left: nobody writes */
		ASSERT(r->stopped && (r->life == NVME_RETURNING || r->life == NVME_RESETTING));
	ASSERT(!r->forced || r->dead);
	ASSERT(!r->released || r->dead);
	ASSERT(!r->quarantine || r->life == NVME_DEAD);
	ASSERT(!(r->quarantine && r->stopped));
	ASSERT(r->stopped_epoch <= drive->counts.reset_count);
}

/* ---- the admin queue: nvme_admin.c --------------------------------------------------------- */

static void check_admin(const struct nvme_drive *drive)
{
	const struct nvme_admin *a = &drive->admin;
	uint32_t used = 0, lost_pages = 0;

	for (uint32_t i = 0; i < NVME_ADMIN_DEPTH; i++) {
		const struct nvme_admin_slot *slot = &a->slot[i];

		ASSERT(!(slot->cmd && slot->lost)); /* nvme_admin.c (1) */
		used += slot->cmd || slot->lost;
		if (slot->cmd)
			ASSERT(slot->cmd->state == NVME_ADMIN_FLYING && slot->cmd->slot == i);
		if (!slot->has_page)
			continue;
		ASSERT(slot->lost && !(lost_pages >> slot->page & 1)); /* nvme_admin.c (2) */
		lost_pages |= 1u << slot->page;
	}
	ASSERT(used == a->slots_used); /* nvme_admin.c (1) */
	ASSERT(used < NVME_ADMIN_DEPTH);
	ASSERT((lost_pages & ~a->pages_taken) == 0); /* nvme_admin.c (2) */
	ASSERT(a->pages_taken >> NVME_ADMIN_PAGES == 0);
}

/* nvme_events.c (1) */
static void check_events(const struct nvme_drive *drive)
{
	const struct nvme_events *e = &drive->events;

	ASSERT(e->reading < NVME_READINGS);
	ASSERT(e->wanted >> NVME_READINGS == 0);
	if (e->reading == NVME_READING_NOTHING)
		ASSERT(!e->read.has_page && e->read.state != NVME_ADMIN_FLYING);
	if (e->read.state == NVME_ADMIN_FLYING)
		ASSERT(e->read.has_page && drive->admin.pages_taken >> e->read.page & 1);
}

/* ---- the table and the watch: nvme_queues.c, nvme_watch.c ---------------------------------- */

static void check_table(const struct nvme_drive *drive)
{
	ASSERT(!drive->qpair[0] && !drive->qid_taken[0]);
	for (uint32_t q = 1; q <= NVME_QPAIRS_MAX; q++) {
		const struct nvme_qpair *qp = drive->qpair[q];

		if (!qp)
			continue;
		ASSERT(drive->qid_taken[q]); /* nvme_queues.c (1) */
		ASSERT(qp->qid == q && qp->drive == drive && qp->ns->share.ctl == drive);
		ASSERT(atomic_load_explicit(&qp->stamp, memory_order_relaxed) ==
		       drive->watch.stamp); /* nvme_watch.c (1) */
	}
}

static void check_watch(const struct nvme_drive *drive)
{
	const struct nvme_watch *w = &drive->watch;
	const bool begun = atomic_load_explicit(&w->stepped, memory_order_relaxed);

	ASSERT(w->stamp >= 1 && w->stamp <= 255); /* nvme_watch.c (1) */
	if (begun && w->tick_ns && atomic_load_explicit(&w->on, memory_order_relaxed))
		ASSERT(w->next_tick_ns != UINT64_MAX); /* nvme_watch.c (2) */
	ASSERT(atomic_load_explicit(&w->lines.head, memory_order_relaxed) -
		       atomic_load_explicit(&w->lines.tail, memory_order_relaxed) <=
	       NVME_LINES);
}

/* nvme_share.c (2) */
static void check_share(const struct nvme_drive *drive)
{
	uint32_t count = 0;

	ASSERT(drive->share.ctl == drive);
	for (struct nvme_drive *ns = drive->share.next; ns; ns = nvme__next_ns(ns)) {
		ASSERT(ns->share.ctl == drive && !ns->share.vacant);
		ASSERT(ns->nsid != drive->nsid || drive->share.vacant);
		count++;
	}
	ASSERT(count > 0 || !drive->share.vacant); /* else it would be closed */
}

void nvme__drive_check(const struct nvme_drive *drive)
{
	check_life(drive);
	check_reset(drive);
	check_admin(drive);
	check_events(drive);
	check_table(drive);
	check_watch(drive);
	check_share(drive);
}

/* ---- a queue pair: nvme_qpair.c ------------------------------------------------------------ */

void nvme__rings_check(const struct nvme_rings *r)
{
	ASSERT(r->depth >= NVME_DEPTH_MIN && r->depth <= NVME_DEPTH_MAX);
	ASSERT(r->sq_tail < r->depth && r->sq_tail_rung < r->depth);
	ASSERT(r->cq_head < r->depth && r->phase <= 1);
	ASSERT(!r->shadow.sq == !r->shadow.cq);
}

/* nvme_qpair.c (1): an id that is free, once, and its slot has no I/O. */
static void check_free_ids(const struct nvme_qpair *qp)
{
	uint8_t seen[NVME_DEPTH_MAX / 8] = { 0 };

	ASSERT(qp->cid_free_count < qp->rings.depth); /* nvme_qpair.c (2) */
	for (uint32_t i = 0; i < qp->cid_free_count; i++) {
		const uint32_t at = NVME_CID_SLOT(qp->cid_free[i]);

		ASSERT(at + 1 < qp->rings.depth && !qp->slot[at].io);
		ASSERT(!(seen[at / 8] >> at % 8 & 1));
		ASSERT(atomic_load_explicit(&qp->slot[at].cid, memory_order_relaxed) ==
		       qp->cid_free[i]);
		seen[at / 8] |= (uint8_t)(1u << at % 8);
	}
}

void nvme__qpair_check(const struct nvme_qpair *qp)
{
	uint32_t used = 0;

	nvme__rings_check(&qp->rings);
	check_free_ids(qp);
	for (uint32_t i = 0; i + 1 < qp->rings.depth; i++) {
		const struct nvme_slot *slot = &qp->slot[i];

		ASSERT(!slot->io == !atomic_load_explicit(&slot->born, memory_order_relaxed));
		used += slot->io != NULL;
		if (slot->io)
			ASSERT(slot->io->commands_left >= 1); /* nvme_qpair.c (3) */
	}
	ASSERT(used + qp->cid_free_count == qp->rings.depth - 1); /* nvme_qpair.c (2) */
	ASSERT(qp->io_count <= used && !qp->io_count == !used);   /* nvme_qpair.c (3) */
	if (qp->state == NVME_QP_PAUSED)
		ASSERT(qp->io_count == 0); /* all were returned: the rings are as new */
}
