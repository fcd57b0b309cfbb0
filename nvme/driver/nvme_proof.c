/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * After a reset the driver checks a drive's content before it uses the drive: a drive that was
 * emptied, or whose server has another file, may have the same serial number and identifiers.
 *
 *   the controller is up --> a queue pair of the driver's own: Create CQ, SQ --> one read of each
 *   named block --> the user's function judges them --> Delete SQ, CQ --> the queue pairs of all
 *   threads are created, and I/Os that wait are submitted again
 *
 * At each reset the witness chooses more blocks, from those that the drive has confirmed since.
 *
 * The rule: no I/O reaches a drive, not even an interrupted one that must be repeated, before one
 * of the blocks has been found unchanged and the witness finds no mismatch.  One is enough: the
 * reset itself may have cut off a write of the other.  A drive without such a block stays away, and
 * is checked again.
 *
 * The queue pair has the id 1: no other has been created yet.  The polling owner does all of this.
 *
 *   B1 -> device (mmio.h), device -> B2 (mmio.h)
 */
#include "nvme/nvme_internal.h"
#include "nvme/mmio.h"

#include <errno.h>
#include <string.h>

#define DEPTH 16u
#define QID   1u

static_assert(DEPTH > NVME_PROOFS_MAX, "a queue holds one read of each block");

static uint64_t page_at(uint32_t i)
{
	return nvme__rings_bytes(DEPTH) + (uint64_t)i * NVME_PAGE_SIZE;
}

int nvme_drive_prove(struct nvme_drive *ns, const struct nvme_proof *proof)
{
	struct nvme_drive *drive = ns->share.ctl;
	struct nvme_mem mem = { 0 };
	int err = 0;

	ASSERT(proof->count > 0 && proof->count <= NVME_PROOF_BLOCKS && proof->holds);
	if (drive->proving.mem.size_bytes == 0)
		err = nvme__mem_alloc(&mem, drive->dma, page_at(NVME_PROOFS_MAX));
	if (err)
		return err;
	nvme__helm_take(drive); /* another of its namespaces may be stepped already */
	if (mem.size_bytes)
		drive->proving.mem = mem;
	ns->proof = *proof;
	nvme__helm_leave(drive);
	return 0;
}

void nvme_drive_witness(struct nvme_drive *ns, const struct nvme_witness *witness)
{
	struct nvme_drive *drive = ns->share.ctl;

	ASSERT(!witness || (witness->choose && witness->judge));
	nvme__helm_take(drive);
	ns->witness = witness ? *witness : (struct nvme_witness){ 0 };
	nvme__helm_leave(drive);
}

struct nvme_drive *nvme__proof_of(struct nvme_drive *ns)
{
	while (ns && ns->proof.count == 0)
		ns = nvme__next_ns(ns);
	return ns;
}

void nvme__proof_begin(struct nvme_drive *drive, struct nvme_drive *ns)
{
	struct nvme_proving *p = &drive->proving;

	ASSERT(ns->share.ctl == drive && ns->proof.count > 0);
	ASSERT(p->mem.size_bytes > 0 && p->cmd.state != NVME_ADMIN_FLYING);
	p->ns = ns;
	p->count = ns->proof.count;
	memcpy(p->block, ns->proof.block, p->count * sizeof(p->block[0]));
	if (ns->witness.choose)
		p->count += ns->witness.choose(ns->witness.user, p->block + p->count);
	ASSERT(p->count <= NVME_PROOFS_MAX);
	p->step = NVME_PROOF_CQ;
	p->cmd = (struct nvme_admin_cmd){ .state = NVME_ADMIN_NEW };
	p->wrong = NULL;
	p->back = p->failed = 0;
	nvme__rings_init(&p->rings, p->mem.addr, DEPTH);
	memset((char *)p->mem.addr + page_at(0), 0, NVME_PROOFS_MAX * NVME_PAGE_SIZE);
}

static void read_blocks(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_proving *p = &drive->proving;
	struct nvme_rings *r = &p->rings;
	uint32_t shift = NVME_BLOCK_SHIFT - p->ns->lba_shift;

	ASSERT(r->sq_tail == 0 && p->count < r->depth); /* all fit, once */
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t lba = p->block[i] << shift;

		r->sq[r->sq_tail++] = (struct nvme_sqe){
			.opcode = NVME_CMD_READ,
			.cid = le16_of((uint16_t)i),
			.nsid = le32_of(p->ns->nsid),
			.prp1 = le64_of(p->mem.iova + page_at(i)),
			.cdw10 = le32_of((uint32_t)lba),
			.cdw11 = le32_of((uint32_t)(lba >> 32)),
			.cdw12 = le32_of((1u << shift) - 1),
		};
	}
	dma_wmb(); /* B1: the entries, before the doorbell that announces them */
	mmio_ring(r->sq_doorbell, r->shadow.sq, r->shadow.sq_event, 0, r->sq_tail);
	p->deadline_ns = now_ns + drive->timeout_ns;
}

static bool holds(const struct nvme_proving *p)
{
	const struct nvme_proof *proof = &p->ns->proof;
	bool some = false;

	for (uint32_t i = 0; i < proof->count; i++)
		some |= !(p->failed >> i & 1) &&
			proof->holds(proof->of, (char *)p->mem.addr + page_at(i));
	return some;
}

static const char *judge(const struct nvme_proving *p)
{
	const struct nvme_witness *w = &p->ns->witness;
	const void *block[NVME_WITNESS_BLOCKS] = { 0 };

	if (!holds(p))
		return "its content has changed: it was emptied, or another drive has its name";
	for (uint32_t i = p->ns->proof.count, k = 0; i < p->count; i++, k++)
		block[k] = p->failed >> i & 1 ? NULL : (char *)p->mem.addr + page_at(i);
	return w->choose ? w->judge(w->user, block) : NULL;
}

/* 1: they are not all back; 0, or -errno. */
static int await_blocks(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_proving *p = &drive->proving;
	struct nvme_rings *r = &p->rings;

	if (drive->ops->service)
		drive->ops->service(drive->ctrl, QID);
	while (p->back < p->count) {
		volatile struct nvme_cqe *cqe = &r->cq[r->cq_head]; /* DMA */
		uint32_t status = cqe->status.raw, i;

		if ((status & 1) != r->phase)
			return now_ns >= p->deadline_ns ? -ETIMEDOUT : 1;
		dma_rmb(); /* B2: the phase bit, before the rest of the entry */
		i = cqe->cid.raw;
		if (i >= p->count)
			return -EIO; /* the device made it up */
		p->failed |= (status >> 1 & NVME_STATUS_MASK ? 1u : 0) << i;
		r->cq_head++;
		p->back++;
		ASSERT(r->cq_head == p->back && r->cq_head < r->depth); /* no wrap */
	}
	p->wrong = judge(p);
	return 0;
}

static struct nvme_sqe command_of(struct nvme_drive *drive)
{
	struct nvme_proving *p = &drive->proving;
	uint64_t iova = p->mem.iova;

	switch (p->step) {
	case NVME_PROOF_CQ:
		nvme__rings_attach(&p->rings, drive, QID);
		return nvme__sqe_create_cq(QID, iova + nvme__rings_cq_offset(DEPTH), DEPTH, -1);
	case NVME_PROOF_SQ:
		return nvme__sqe_create_sq(QID, iova, DEPTH);
	case NVME_PROOF_NO_SQ:
		return nvme__sqe_delete(NVME_ADMIN_DELETE_SQ, QID);
	default:
		return nvme__sqe_delete(NVME_ADMIN_DELETE_CQ, QID);
	}
}

/* One admin command; 1: it flies. */
static int run_command(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_proving *p = &drive->proving;
	int err;

	if (drive->failed)
		return -EIO;
	if (p->cmd.state == NVME_ADMIN_NEW) {
		p->cmd = (struct nvme_admin_cmd){ .sqe = command_of(drive),
						  .deadline_ns = now_ns + drive->timeout_ns };
		err = nvme__admin_submit(drive, &p->cmd);
		return err == -EAGAIN ? 1 : err ? err : 1;
	}
	if (p->cmd.state == NVME_ADMIN_FLYING)
		return now_ns >= p->cmd.deadline_ns ? -ETIMEDOUT : 1;
	err = p->cmd.err;
	p->cmd.state = NVME_ADMIN_NEW;
	return err;
}

/* 1: it waits. */
static int step(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_proving *p = &drive->proving;
	int rc;

	while (p->step != NVME_PROOF_DONE) {
		rc = p->step == NVME_PROOF_READ ? await_blocks(drive, now_ns)
						: run_command(drive, now_ns);
		if (rc)
			return rc;
		p->step++;
		if (p->step == NVME_PROOF_READ)
			read_blocks(drive, now_ns);
	}
	return p->wrong ? -EBADF : 0;
}

int nvme__proof_step(struct nvme_drive *drive, uint64_t now_ns)
{
	int rc = step(drive, now_ns);

	if (rc < 0)
		nvme__proof_end(drive);
	return rc;
}

void nvme__proof_end(struct nvme_drive *drive)
{
	struct nvme_proving *p = &drive->proving;

	if (p->cmd.state == NVME_ADMIN_FLYING)
		nvme__admin_lose(drive, &p->cmd);
	ASSERT(p->cmd.state != NVME_ADMIN_FLYING);
}
