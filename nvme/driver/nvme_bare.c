/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A bare loop over the rings of a queue pair.  Command `cid` always reads into buffer `cid`, so
 * its entry is written once, and only the place changes:
 *
 *   entry[cid] {READ, cid, PRPs of buffer cid} --place--> sq[tail] --doorbell--> device
 *        ^                                                                         |
 *        +---------------------------- phase bit in cq[head] <---------------------+
 *
 *   B1 -> device (mmio.h), device -> B2 (mmio.h)
 *
 * Invariants, true between any two calls:
 *
 *  (1) in_flight ids of [0, depth) are the device's, and depth < the rings' depth: neither
 *      queue overflows.
 *  (2) The driver's own ids are all free: the slots and the stack of ids are not touched
 *      [test_nvme_bare:reads_blocks_into_each_buffer_and_leaves_the_queue_pair_as_it_was].
 */
#include "nvme/driver/nvme_bare.h"
#include "nvme/mmio.h"
#include "nvme/nvme_internal.h"

#include <errno.h>
#include <stdlib.h>

static void push(struct nvme_bare *bare, uint16_t cid)
{
	struct nvme_qpair *qp = bare->qp;
	struct nvme_rings *r = &qp->rings;
	uint64_t block = rand_below(&bare->rand, bare->places) * bare->io_blocks;
	uint64_t lba = block << qp->lba_per_block_shift;
	struct nvme_sqe *sqe = &r->sq[r->sq_tail];

	*sqe = bare->entry[cid];
	sqe->cdw10 = le32_of((uint32_t)lba);
	sqe->cdw11 = le32_of((uint32_t)(lba >> 32));
	r->sq_tail = r->sq_tail + 1 == r->depth ? 0 : r->sq_tail + 1;
	bare->in_flight++;
	DASSERT(bare->in_flight <= bare->depth); /* (1) */
}

/* All that was pushed since `was`. */
static void ring(struct nvme_rings *r, uint32_t was)
{
	dma_wmb(); /* B1: the entries, before the doorbell that announces them */
	mmio_ring(r->sq_doorbell, r->shadow.sq, r->shadow.sq_event, was, r->sq_tail);
	r->sq_tail_rung = r->sq_tail;
}

static struct nvme_sqe entry_of(struct nvme_qpair *qp, uint32_t cid, uint32_t io_blocks,
				uint64_t iova)
{
	uint32_t list = cid * qp->prp_list_entries;
	struct nvme_prp_pair prp = nvme__prp_fill(iova, io_blocks, qp->prp_lists + list,
						  qp->prp_lists_iova + 8ull * list);

	return (struct nvme_sqe){
		.opcode = NVME_CMD_READ,
		.cid = le16_of((uint16_t)cid),
		.nsid = le32_of(qp->nsid),
		.prp1 = le64_of(prp.prp1),
		.prp2 = le64_of(prp.prp2),
		.cdw12 = le32_of((io_blocks << qp->lba_per_block_shift) - 1),
	};
}

int nvme_bare_begin(struct nvme_bare *bare, struct nvme_qpair *qp, uint32_t depth,
		    uint32_t io_blocks, uint64_t iova, uint64_t nblocks)
{
	ASSERT(nvme_qpair_in_flight(qp) == 0);
	ASSERT(iova % NVME_PAGE_SIZE == 0);
	if (depth == 0 || depth > NVME_BARE_DEPTH_MAX || depth >= qp->rings.depth || /* (1) */
	    io_blocks == 0 || io_blocks > qp->transfer_max_blocks || nblocks < io_blocks)
		return -EINVAL;
	*bare = (struct nvme_bare){
		.qp = qp, .io_blocks = io_blocks, .depth = depth, .places = nblocks / io_blocks
	};
	ASSERT(depth < qp->rings.depth); /* (1) */
	bare->entry = calloc(depth, sizeof(*bare->entry));
	if (!bare->entry)
		return -ENOMEM;
	rand_seed(&bare->rand, 3);
	for (uint32_t cid = 0; cid < depth; cid++) {
		bare->entry[cid] = entry_of(qp, cid, io_blocks,
					    iova + cid * (uint64_t)io_blocks * NVME_BLOCK_SIZE);
		push(bare, (uint16_t)cid);
	}
	ring(&qp->rings, qp->rings.sq_tail_rung);
	return 0;
}

/* Takes one completion: its id, or -1. */
static int take(struct nvme_bare *bare)
{
	struct nvme_rings *r = &bare->qp->rings;
	volatile struct nvme_cqe *cqe = &r->cq[r->cq_head]; /* DMA */
	uint32_t status = cqe->status.raw, cid;

	if ((status & 1) != r->phase)
		return -1;
	dma_rmb(); /* B2: the phase bit, before the rest of the entry */
	cid = le16_get((le16){ cqe->cid.raw });
	if (unlikely(status >> 1 != 0 || cid >= bare->depth)) {
		bare->wrong++;
		cid = 0; /* one that is there */
	}
	DASSERT(bare->in_flight > 0);
	bare->in_flight--;
	if (++r->cq_head == r->depth) {
		r->cq_head = 0;
		r->phase ^= 1;
	}
	return (int)cid;
}

/* `again`: each is followed by another. */
static uint32_t turn(struct nvme_bare *bare, bool again)
{
	struct nvme_qpair *qp = bare->qp;
	struct nvme_rings *r = &qp->rings;
	uint32_t count = 0, head = r->cq_head, tail = r->sq_tail;
	int cid;

	if (qp->ops->service)
		qp->ops->service(qp->ctrl, qp->qid);
	while (bare->in_flight > 0 && (cid = take(bare)) >= 0) {
		if (again)
			push(bare, (uint16_t)cid);
		count++;
	}
	if (count == 0)
		return 0;
	if (again)
		ring(r, tail);
	mmio_ring(r->cq_doorbell, r->shadow.cq, r->shadow.cq_event, head, r->cq_head);
	return count;
}

uint32_t nvme_bare_turn(struct nvme_bare *bare)
{
	return turn(bare, true);
}

int nvme_bare_end(struct nvme_bare *bare)
{
	while (bare->in_flight > 0)
		(void)turn(bare, false);
	free(bare->entry);
	bare->entry = NULL;
	return bare->wrong ? -EIO : 0;
}
