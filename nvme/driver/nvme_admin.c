/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The admin queue: several commands at once, each in a slot.
 *
 *            submit                 completion                restart
 *   free ------------> flying ---------------------> free <------------- all
 *                        |                             ^
 *                        +-----> lost -----------------+
 *                        gave up        it completed after all
 *
 * A command id is its slot and a generation: a completion that comes twice, or for an old command,
 * finds another generation and is recognised as wrong.
 *
 *   B1 -> device (mmio.h), device -> B2 (mmio.h)
 *
 * Invariants, true between any two calls:
 *
 *  (1) A slot is free, or has its command in `cmd`, or is lost, never two of these; slots_used
 *      counts those that are not free.  At most depth - 1 are, so no queue overflows.
 *  (2) The page of a lost command is in use until the controller completes it or is stopped,
 *      because until then the controller might still write there
 *      [test_nvme_admin:lost_command_keeps_slot_and_page_until_it_comes_after_all].
 *  (3) A controller that completes a command that it was not given is failed: it gets no more
 *      [test_nvme_admin:completion_that_comes_twice_fails_the_drive].
 */
#include "nvme/nvme_internal.h"
#include "nvme/mmio.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

uint64_t nvme__rings_cq_offset(uint32_t depth)
{
	return align_up(depth * sizeof(struct nvme_sqe), NVME_PAGE_SIZE);
}

uint64_t nvme__rings_bytes(uint32_t depth)
{
	return nvme__rings_cq_offset(depth) +
	       align_up(depth * sizeof(struct nvme_cqe), NVME_PAGE_SIZE);
}

void nvme__rings_init(struct nvme_rings *r, void *memory, uint32_t depth)
{
	ASSERT(depth >= NVME_DEPTH_MIN && depth <= NVME_DEPTH_MAX);
	memset(memory, 0, nvme__rings_bytes(depth));
	r->sq = memory;
	r->cq = (void *)((char *)memory + nvme__rings_cq_offset(depth));
	r->depth = depth;
	r->sq_tail = 0;
	r->sq_tail_rung = 0;
	r->cq_head = 0;
	r->phase = 1; /* the device's first entries; memory is zero */
}

volatile uint32_t *nvme__doorbell(const struct nvme_drive *drive, uint32_t qid, /* MMIO */
				  uint32_t completion)
{
	uint32_t stride = 4u << NVME_CAP_DSTRD(drive->cap);

	ASSERT(qid <= NVME_QPAIRS_MAX && completion <= 1);
	return drive->ops->doorbell(drive->ctrl,
				    NVME_REG_DOORBELLS + (2 * qid + completion) * stride);
}

/* A queue's word on the page of doorbells in memory, or of their events; zero, as the queue is. */
static volatile uint32_t *shadow_word(const struct nvme_drive *drive, uint32_t page, /* DMA */
				      uint32_t index)
{
	uint32_t at = index * (4u << NVME_CAP_DSTRD(drive->cap));
	volatile uint32_t *word; /* DMA */

	ASSERT(at + 4 <= NVME_PAGE_SIZE);
	word = (void *)((char *)nvme__admin_page(drive, page) + at);
	*word = 0;
	return word;
}

void nvme__rings_attach(struct nvme_rings *r, const struct nvme_drive *drive, uint32_t qid)
{
	r->sq_doorbell = nvme__doorbell(drive, qid, 0);
	r->cq_doorbell = nvme__doorbell(drive, qid, 1);
	r->shadow = (struct nvme_shadow){ 0 };
	if (!drive->shadow)
		return;
	r->shadow.sq = shadow_word(drive, NVME_PAGE_SHADOW, 2 * qid);
	r->shadow.cq = shadow_word(drive, NVME_PAGE_SHADOW, 2 * qid + 1);
	r->shadow.sq_event = shadow_word(drive, NVME_PAGE_EVENT, 2 * qid);
	r->shadow.cq_event = shadow_word(drive, NVME_PAGE_EVENT, 2 * qid + 1);
}

/* ---- memory ---------------------------------------------------------------------- */

#define PAGES_AT nvme__rings_bytes(NVME_ADMIN_DEPTH)

static void begin(struct nvme_drive *drive)
{
	struct nvme_admin *a = &drive->admin;

	nvme__rings_init(&a->rings, a->mem.addr, NVME_ADMIN_DEPTH);
	nvme__rings_attach(&a->rings, drive, 0);
	a->slots_used = 0;
	a->pages_taken |= 1u << NVME_PAGE_UP | 1u << NVME_PAGE_SHADOW | 1u << NVME_PAGE_EVENT;
}

int nvme__admin_create(struct nvme_drive *drive)
{
	struct nvme_admin *a = &drive->admin;
	int err;

	ASSERT(a->mem.size_bytes == 0);
	err = nvme__mem_alloc(&a->mem, drive->dma,
			      PAGES_AT + (uint64_t)NVME_ADMIN_PAGES * NVME_PAGE_SIZE);

	if (!err)
		begin(drive);
	return err;
}

void nvme__admin_destroy(struct nvme_drive *drive)
{
	nvme__mem_free(&drive->admin.mem, drive->dma);
}

void *nvme__admin_page(const struct nvme_drive *drive, uint32_t page)
{
	ASSERT(page < NVME_ADMIN_PAGES);
	return (char *)drive->admin.mem.addr + PAGES_AT + (uint64_t)page * NVME_PAGE_SIZE;
}

uint64_t nvme__admin_page_iova(const struct nvme_drive *drive, uint32_t page)
{
	ASSERT(page < NVME_ADMIN_PAGES);
	return drive->admin.mem.iova + PAGES_AT + (uint64_t)page * NVME_PAGE_SIZE;
}

int nvme__admin_page_take(struct nvme_drive *drive, struct nvme_admin_cmd *cmd)
{
	struct nvme_admin *a = &drive->admin;

	ASSERT(!cmd->has_page && cmd->state != NVME_ADMIN_FLYING);
	for (uint32_t i = 0; i < NVME_ADMIN_PAGES; i++) {
		if (a->pages_taken >> i & 1)
			continue;
		a->pages_taken |= 1u << i;
		cmd->has_page = true;
		cmd->page = i;
		memset(nvme__admin_page(drive, i), 0, NVME_PAGE_SIZE);
		return 0;
	}
	return -EAGAIN;
}

void nvme__admin_page_give(struct nvme_drive *drive, struct nvme_admin_cmd *cmd)
{
	ASSERT(cmd->state != NVME_ADMIN_FLYING);
	if (cmd->has_page) {
		ASSERT(drive->admin.pages_taken >> cmd->page & 1);
		drive->admin.pages_taken &= ~(1u << cmd->page);
	}
	cmd->has_page = false;
}

/* ---- submit, poll, lose ------------------------------------------------------------ */

static struct nvme_admin_slot *free_slot(struct nvme_admin *a)
{
	uint32_t i = 0;

	if (a->slots_used >= NVME_ADMIN_DEPTH - 1)
		return NULL;
	while (a->slot[i].cmd || a->slot[i].lost)
		i++; /* (1): one is free */
	ASSERT(i < NVME_ADMIN_DEPTH);
	return &a->slot[i];
}

static uint16_t cid_of(const struct nvme_admin *a, const struct nvme_admin_slot *slot)
{
	return (uint16_t)(slot->round << NVME_ADMIN_SLOT_BITS | (slot - a->slot));
}

int nvme__admin_submit(struct nvme_drive *drive, struct nvme_admin_cmd *cmd)
{
	struct nvme_admin *a = &drive->admin;
	struct nvme_rings *r = &a->rings;
	struct nvme_admin_slot *slot;

	ASSERT(cmd->state != NVME_ADMIN_FLYING);
	if (drive->failed)
		return -EIO;
	slot = free_slot(a);
	if (!slot)
		return -EAGAIN;
	a->slots_used++;
	slot->round++;
	slot->cmd = cmd;
	cmd->slot = (uint32_t)(slot - a->slot);
	cmd->state = NVME_ADMIN_FLYING;
	cmd->err = 0;
	cmd->sqe.cid = le16_of(cid_of(a, slot));
	if (cmd->has_page)
		cmd->sqe.prp1 = le64_of(nvme__admin_page_iova(drive, cmd->page));
	r->sq[r->sq_tail] = cmd->sqe;
	r->sq_tail = r->sq_tail + 1 == r->depth ? 0 : r->sq_tail + 1;
	dma_wmb(); /* B1: the entry, before the doorbell */
	if (r->shadow.sq)
		*r->shadow.sq = r->sq_tail;
	mmio_write32(r->sq_doorbell, r->sq_tail); /* of this queue in any case: base B.5 */
	r->sq_tail_rung = r->sq_tail;
	return 0;
}

static void free_the_slot(struct nvme_admin *a, struct nvme_admin_slot *slot)
{
	ASSERT(a->slots_used > 0); /* (1) */
	a->slots_used--;
	if (slot->lost && slot->has_page)
		a->pages_taken &= ~(1u << slot->page); /* (2) */
	slot->cmd = NULL;
	slot->lost = false;
	slot->has_page = false;
}

static void end(struct nvme_admin *a, struct nvme_admin_slot *slot, uint32_t result,
		uint32_t status, int err)
{
	struct nvme_admin_cmd *cmd = slot->cmd;

	free_the_slot(a, slot);
	if (!cmd)
		return; /* lost, and no caller waits for it any more */
	ASSERT(cmd->state == NVME_ADMIN_FLYING);
	cmd->state = NVME_ADMIN_DONE;
	cmd->result = result;
	cmd->status = status;
	cmd->err = err;
}

/* The command that a completion is for, or NULL: then the controller made it up. */
static struct nvme_admin_slot *slot_of(struct nvme_admin *a, uint16_t cid)
{
	struct nvme_admin_slot *slot = &a->slot[cid & (NVME_ADMIN_DEPTH - 1)];

	return (slot->cmd || slot->lost) && cid_of(a, slot) == cid ? slot : NULL;
}

uint32_t nvme__admin_poll(struct nvme_drive *drive)
{
	struct nvme_admin *a = &drive->admin;
	struct nvme_rings *r = &a->rings;
	uint32_t ended = 0;

	if (drive->ops->service)
		drive->ops->service(drive->ctrl, 0);
	/* At most as many as were in flight, also if the controller never stops completing. */
	for (uint32_t left = NVME_ADMIN_DEPTH; left > 0 && !drive->failed; left--) {
		volatile struct nvme_cqe *cqe = &r->cq[r->cq_head]; /* DMA */
		uint32_t status = cqe->status.raw;
		struct nvme_admin_slot *slot;

		if ((status & 1) != r->phase)
			break;
		dma_rmb(); /* B2: the phase bit, before the rest of the entry */
		slot = slot_of(a, cqe->cid.raw);
		if (!slot) {
			drive->failed = true; /* (3) */
			break;
		}
		status = status >> 1 & NVME_STATUS_MASK;
		end(a, slot, cqe->result.raw, status, nvme__status_errno(status));
		ended++;
		if (++r->cq_head == r->depth) {
			r->cq_head = 0;
			r->phase ^= 1;
		}
	}
	if (ended && r->shadow.cq)
		*r->shadow.cq = r->cq_head;
	if (ended)
		mmio_write32(r->cq_doorbell, r->cq_head);
	return ended;
}

void nvme__admin_lose(struct nvme_drive *drive, struct nvme_admin_cmd *cmd)
{
	struct nvme_admin_slot *slot = &drive->admin.slot[cmd->slot];

	ASSERT(cmd->state == NVME_ADMIN_FLYING && slot->cmd == cmd);
	slot->cmd = NULL;
	slot->lost = true;
	slot->has_page = cmd->has_page; /* (2) */
	slot->page = cmd->page;
	drive->admin.lost_count++;
	cmd->has_page = false;
	cmd->state = NVME_ADMIN_LOST;
	cmd->err = -ETIMEDOUT;
}

void nvme__admin_restart(struct nvme_drive *drive)
{
	struct nvme_admin *a = &drive->admin;

	for (uint32_t i = 0; i < NVME_ADMIN_DEPTH; i++) {
		if (a->slot[i].cmd || a->slot[i].lost)
			end(a, &a->slot[i], 0, 0, -ECANCELED);
	}
	ASSERT(a->slots_used == 0); /* (1) */
	begin(drive);
}

struct nvme_admin_cmd *nvme__admin_overdue(const struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_admin_cmd *worst = NULL;

	for (uint32_t i = 0; i < NVME_ADMIN_DEPTH; i++) {
		struct nvme_admin_cmd *cmd = drive->admin.slot[i].cmd;

		if (cmd && cmd->deadline_ns <= now_ns &&
		    (!worst || cmd->deadline_ns < worst->deadline_ns))
			worst = cmd;
	}
	return worst;
}

uint64_t nvme__admin_deadline_ns(const struct nvme_drive *drive)
{
	uint64_t first_ns = UINT64_MAX;

	for (uint32_t i = 0; i < NVME_ADMIN_DEPTH; i++) {
		if (drive->admin.slot[i].cmd)
			first_ns = min_u64(first_ns, drive->admin.slot[i].cmd->deadline_ns);
	}
	return first_ns;
}

/* ---- the commands' bytes ------------------------------------------------------------ */

struct nvme_sqe nvme__sqe_identify(uint32_t cns, uint32_t nsid)
{
	return (struct nvme_sqe){
		.opcode = NVME_ADMIN_IDENTIFY,
		.nsid = le32_of(nsid),
		.cdw10 = le32_of(cns),
	};
}

struct nvme_sqe nvme__sqe_get_log(uint32_t log_id, uint32_t nsid, uint32_t size_bytes)
{
	ASSERT(size_bytes % 4 == 0 && size_bytes > 0 && size_bytes <= NVME_PAGE_SIZE);
	return (struct nvme_sqe){
		.opcode = NVME_ADMIN_GET_LOG,
		.nsid = le32_of(nsid),
		.cdw10 = le32_of(log_id | (size_bytes / 4 - 1) << 16),
	};
}

struct nvme_sqe nvme__sqe_set_feature(uint32_t feature, uint32_t value)
{
	return (struct nvme_sqe){
		.opcode = NVME_ADMIN_SET_FEATURES,
		.cdw10 = le32_of(feature),
		.cdw11 = le32_of(value),
	};
}

struct nvme_sqe nvme__sqe_queue_count(uint32_t wanted)
{
	ASSERT(wanted > 0 && wanted <= 0xfffe);
	return nvme__sqe_set_feature(NVME_FEAT_QUEUE_COUNT, (wanted - 1) << 16 | (wanted - 1));
}

struct nvme_sqe nvme__sqe_create_cq(uint32_t qid, uint64_t iova, uint32_t depth, int vector)
{
	uint32_t interrupt = vector < 0 ? 0 : NVME_QUEUE_INTERRUPT | (uint32_t)vector << 16;

	ASSERT(qid >= 1 && qid <= NVME_QPAIRS_MAX && iova % NVME_PAGE_SIZE == 0);
	ASSERT(depth >= NVME_DEPTH_MIN && depth <= NVME_DEPTH_MAX);
	return (struct nvme_sqe){
		.opcode = NVME_ADMIN_CREATE_CQ,
		.prp1 = le64_of(iova),
		.cdw10 = le32_of((depth - 1) << 16 | qid),
		.cdw11 = le32_of(interrupt | NVME_QUEUE_CONTIGUOUS),
	};
}

struct nvme_sqe nvme__sqe_create_sq(uint32_t qid, uint64_t iova, uint32_t depth)
{
	ASSERT(qid >= 1 && qid <= NVME_QPAIRS_MAX && iova % NVME_PAGE_SIZE == 0);
	ASSERT(depth >= NVME_DEPTH_MIN && depth <= NVME_DEPTH_MAX);
	return (struct nvme_sqe){
		.opcode = NVME_ADMIN_CREATE_SQ,
		.prp1 = le64_of(iova),
		.cdw10 = le32_of((depth - 1) << 16 | qid),
		.cdw11 = le32_of(qid << 16 | NVME_QUEUE_CONTIGUOUS),
	};
}

struct nvme_sqe nvme__sqe_delete(uint8_t opcode, uint32_t qid)
{
	ASSERT(opcode == NVME_ADMIN_DELETE_SQ || opcode == NVME_ADMIN_DELETE_CQ);
	return (struct nvme_sqe){ .opcode = opcode, .cdw10 = le32_of(qid) };
}

struct nvme_sqe nvme__sqe_abort(uint32_t qid, uint32_t cid)
{
	ASSERT(qid >= 1 && cid <= UINT16_MAX);
	return (struct nvme_sqe){
		.opcode = NVME_ADMIN_ABORT,
		.cdw10 = le32_of(cid << 16 | qid),
	};
}

/* ---- waited for ----------------------------------------------------------------------- */

/* Gives the controller the command: 0, or why not.  A full queue is emptied first. */
static int start(struct nvme_drive *drive, struct nvme_admin_cmd *cmd, uint64_t epoch)
{
	struct timespec pause = { .tv_nsec = 50000 };
	uint64_t now_ns = clock_now_ns();
	int err;

	for (;;) {
		nvme__helm_take(drive);
		if (cmd->deadline_ns == 0)
			cmd->deadline_ns = now_ns + drive->timeout_ns;
		err = drive->counts.reset_count == epoch ? nvme__admin_submit(drive, cmd)
							 : -ECANCELED;
		nvme__helm_leave(drive);
		if (err != -EAGAIN || clock_now_ns() > cmd->deadline_ns)
			return err;
		nanosleep(&pause, NULL);
	}
}

/* CSTS.CFS, or all ones: it is gone. */
static bool is_broken(const struct nvme_drive *drive)
{
	uint32_t csts;

	return drive->failed || (nvme__ask_csts(drive, &csts) == 0 && csts & NVME_CSTS_CFS);
}

/* Returns 1: in flight.  A command that does not end, or a dead controller, fails the drive. */
static int look_at(struct nvme_drive *drive, struct nvme_admin_cmd *cmd)
{
	int err = 0;

	(void)nvme__admin_poll(drive);
	if (cmd->state == NVME_ADMIN_DONE)
		return cmd->err;
	if (cmd->state == NVME_ADMIN_LOST) /* by the drive's owner, which resets the drive */
		return -ECANCELED;
	if (clock_now_ns() > cmd->deadline_ns)
		err = -ETIMEDOUT;
	else if (drive->reset.life == NVME_LIVE && is_broken(drive))
		err = -EIO;
	if (!err)
		return 1;
	nvme__admin_lose(drive, cmd);
	drive->failed = true;
	return err;
}

static int run(struct nvme_drive *drive, const struct nvme_sqe *command, uint32_t *result,
	       uint64_t epoch)
{
	struct nvme_admin_cmd cmd = { .sqe = *command };
	struct timespec pause = { .tv_nsec = 50000 };
	int rc = start(drive, &cmd, epoch);

	if (rc)
		return rc;
	for (;;) {
		nvme__helm_take(drive);
		rc = look_at(drive, &cmd);
		nvme__helm_leave(drive);
		if (rc <= 0)
			break;
		nanosleep(&pause, NULL);
	}
	nvme__kick(drive); /* something of the owner's may have completed besides */
	if (!rc && result)
		*result = cmd.result;
	return rc;
}

static uint64_t epoch_now(struct nvme_drive *drive)
{
	uint64_t epoch;

	nvme__helm_take(drive);
	epoch = drive->counts.reset_count;
	nvme__helm_leave(drive);
	return epoch;
}

int nvme__admin(struct nvme_drive *drive, const struct nvme_sqe *command, uint32_t *result)
{
	return run(drive, command, result, epoch_now(drive));
}

int nvme__admin_create_queues(struct nvme_drive *drive, struct nvme_qpair *qp, uint64_t epoch)
{
	uint32_t depth = qp->rings.depth, qid = qp->qid;
	uint64_t cq_iova = qp->mem.iova + nvme__rings_cq_offset(depth);
	struct nvme_sqe create_cq = nvme__sqe_create_cq(qid, cq_iova, depth, qp->vector);
	struct nvme_sqe create_sq = nvme__sqe_create_sq(qid, qp->mem.iova, depth);
	struct nvme_sqe delete_cq = nvme__sqe_delete(NVME_ADMIN_DELETE_CQ, qid);
	int err;

	nvme__helm_take(drive); /* a reset changes the doorbells' state */
	nvme__rings_attach(&qp->rings, drive, qid);
	nvme__helm_leave(drive);
	err = run(drive, &create_cq, NULL, epoch);
	if (err)
		return err;
	err = run(drive, &create_sq, NULL, epoch);
	if (err)
		(void)!run(drive, &delete_cq, NULL, epoch); /* the first error counts */
	return err;
}

/* The completion queue's error counts too: after a reset between the two it is forgotten. */
int nvme__admin_delete_queues(struct nvme_drive *drive, uint32_t qid)
{
	struct nvme_sqe delete_sq = nvme__sqe_delete(NVME_ADMIN_DELETE_SQ, qid);
	struct nvme_sqe delete_cq = nvme__sqe_delete(NVME_ADMIN_DELETE_CQ, qid);
	uint64_t epoch = epoch_now(drive);
	int err = run(drive, &delete_sq, NULL, epoch);

	return err ? err : run(drive, &delete_cq, NULL, epoch);
}
