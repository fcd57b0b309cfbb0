/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The soft controller against a driver that means harm: the input is what it does.
 *
 *   step = what (1 byte), then its bytes:
 *     0 admin command    64 bytes: an SQE into the admin queue
 *     1 I/O command      64 bytes: an SQE into queue `first byte of its reserved part`
 *     2 doorbell         1 byte which, 1 byte value
 *     3 register         1 byte offset, 4 bytes value
 *     4 memory           2 bytes offset, 8 bytes: PRP lists, and queues while they are in use
 *     5 serve            1 byte which queue
 *     6 event            3 bytes: kind, what, log page
 *
 * Addresses are hard to guess, so odd ones are taken as offsets into the mapped memory.  The
 * sanitizers and the asserts are the judges; at the end the controller must come back to life.
 */
#include "test/lib/sim_nvme.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (64u * 4096u)
#define QUEUES       4u
#define DEPTH        8u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct nvme_dma *dma;
static uint8_t *memory;
static uint64_t iova;
static struct sim_drive *sim;
static struct nvme_soft *soft;
static uint32_t admin_tail;

struct input {
	const uint8_t *at;
	size_t left;
};

static uint64_t take(struct input *in, size_t size)
{
	uint64_t v = 0;

	size = min_u64(size, in->left);
	memcpy(&v, in->at, min_u64(size, 8));
	in->at += size;
	in->left -= size;
	return v;
}

static void write_reg(uint32_t offset, uint32_t value)
{
	nvme__soft_ops.write32(soft, offset, value);
}

/* Admin queue on the first two pages, rings of I/O queues wherever the input puts them. */
static void enable(void)
{
	write_reg(NVME_REG_CC, 0);
	memset(memory, 0, MEMORY_BYTES);
	write_reg(NVME_REG_AQA, (DEPTH - 1) << 16 | (DEPTH - 1));
	nvme__soft_ops.write64(soft, NVME_REG_ASQ, iova);
	nvme__soft_ops.write64(soft, NVME_REG_ACQ, iova + 4096);
	write_reg(NVME_REG_CC, NVME_CC_ENTRIES | NVME_CC_EN);
	ASSERT(nvme__soft_ops.read32(soft, NVME_REG_CSTS) == NVME_CSTS_RDY);
	admin_tail = 0;
}

static struct nvme_soft_ns namespaces[] = {
	{ .nsid = 1, .lba_shift = 12, .size_lbas = 16 },
	{ .nsid = 2, .lba_shift = 9, .first_block = 16, .size_lbas = 100 },
	{ .nsid = 7, .lba_shift = 9 },
};

static void start(void)
{
	struct nvme_soft_traits *traits;
	int err = nvme_dma_create(&dma);

	ASSERT(err == 0);
	memory = aligned_alloc(4096, MEMORY_BYTES);
	ASSERT(memory);
	err = nvme_dma_map(dma, memory, MEMORY_BYTES, &iova);
	ASSERT(err == 0);
	err = sim_drive_create(&sim, &(struct sim_drive_options){ .nblocks = 32, .mdts = 3 });
	ASSERT(err == 0);
	traits = sim_drive_traits(sim);
	traits->sgl = true;
	traits->shadow = true;
	traits->deallocate = true;
	traits->cmb = true;
	traits->ns = namespaces;
	traits->ns_count = ARRAY_LEN(namespaces);
	err = nvme__soft_create(&soft, dma, sim_drive_back(sim));
	ASSERT(err == 0);
}

static le64 aim(le64 prp)
{
	uint64_t v = le64_get(prp);

	return v & 1 ? le64_of(iova + (v >> 1) % MEMORY_BYTES) : prp;
}

static struct nvme_sqe take_sqe(struct input *in)
{
	struct nvme_sqe sqe = { 0 };
	size_t size = min_u64(sizeof(sqe), in->left);

	memcpy(&sqe, in->at, size);
	in->at += size;
	in->left -= size;
	sqe.prp1 = aim(sqe.prp1);
	sqe.prp2 = aim(sqe.prp2);
	return sqe;
}

static void ring(uint32_t index, uint32_t value)
{
	*nvme__soft_ops.doorbell(soft, NVME_REG_DOORBELLS + index * (4u << NVME_SOFT_DSTRD)) =
		value;
}

static void admin_command(struct input *in)
{
	struct nvme_sqe sqe = take_sqe(in);

	/* Ids that exist, most of the time. */
	sqe.opcode = sqe.opcode == 0xff ? NVME_ADMIN_DOORBELL_BUFFER : sqe.opcode % 16;
	sqe.cdw10 = le32_of(le32_get(sqe.cdw10) & 0xffff0fff);
	memcpy(memory + admin_tail * sizeof(sqe), &sqe, sizeof(sqe));
	admin_tail = (admin_tail + 1) % DEPTH;
	ring(0, admin_tail);
	nvme__soft_ops.service(soft, 0);
	ring(1, soft->admin.cq_tail);
}

static void io_command(struct input *in)
{
	struct nvme_sqe sqe = take_sqe(in);
	uint32_t qid = 1 + le32_get(sqe.cdw2) % QUEUES;
	struct nvme_soft_queue *q = soft->queue[qid];
	uint32_t tail;

	if (!q)
		return;
	tail = (q->sq_shadow ? *q->sq_shadow : *q->sq_doorbell) % q->sq_size;
	sqe.opcode %= 12;
	memcpy((struct nvme_sqe *)(uintptr_t)q->sq + tail, &sqe, sizeof(sqe));
	ring(2 * qid, (tail + 1) % q->sq_size);
	if (q->sq_shadow)
		*(uint32_t *)(uintptr_t)q->sq_shadow = (tail + 1) % q->sq_size;
}

static void step(struct input *in)
{
	uint32_t which, value;

	switch (take(in, 1) % 7) {
	case 0:
		admin_command(in);
		break;
	case 1:
		io_command(in);
		break;
	case 2:
		which = (uint32_t)take(in, 1) % (2 * (QUEUES + 1));
		ring(which, (uint32_t)take(in, 1));
		break;
	case 3:
		which = (uint32_t)take(in, 1) & 0x3c;
		write_reg(which, (uint32_t)take(in, 4));
		break;
	case 4:
		which = (uint32_t)take(in, 2) * 8 % MEMORY_BYTES;
		memcpy(memory + which, &(le64){ aim(le64_of(take(in, 8))).raw }, 8);
		break;
	case 5:
		value = (uint32_t)take(in, 1) % (QUEUES + 1);
		nvme__soft_ops.service(soft, value);
		break;
	default:
		value = (uint32_t)take(in, 3);
		nvme__soft_event(soft, value & 7, value >> 8 & 0xff, value >> 16 & 0xff);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, size };

	if (!soft)
		start();
	enable();
	while (in.left > 0)
		step(&in);
	for (uint32_t qid = 0; qid <= QUEUES; qid++)
		nvme__soft_ops.service(soft, qid);
	enable();
	return 0;
}
