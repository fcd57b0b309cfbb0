/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Every buffer alignment x every length up to twice MDTS, for every MDTS: the commands that the
 * driver writes name exactly the buffer's bytes, in order, and the LBAs that go with them.
 *
 * A queue pair with no controller behind it; its entries are taken apart here by the base
 * specification's rules (4.1.1, 4.1.2), a page at a time, and completed by hand.  In a short run
 * the alignments inside a page are a sample: the first and last ones, and every 37th.
 */
#include "nvme/nvme_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH      8u
#define PAGE       4096ull
#define BUFFER     0x4100000000ull
#define LISTS_IOVA 0x5200000000ull
#define FIRST_LBA  0x123456789abull

static struct nvme_drive drive;
static struct nvme_qpair qp;
static const struct nvme_ctrl_ops no_ops;
static volatile uint32_t bell[2]; /* MMIO, played */
static uint32_t next_sqe;

/* `max_blocks` of a command: MDTS; the rest as a drive with 4 KiB LBAs has it. */
static void setup_qpair(uint32_t max_blocks, bool sgl)
{
	uint32_t entries = 8;

	while (entries < max_blocks)
		entries *= 2;
	memset(&qp, 0, sizeof(qp));
	atomic_store(&drive.watch.on, true);
	qp.drive = &drive;
	qp.ops = &no_ops;
	qp.qid = 1;
	qp.order_fd = qp.epoll_fd = qp.wake_fd = -1;
	qp.slot = calloc(DEPTH, sizeof(*qp.slot));
	qp.cid_free = calloc(DEPTH, sizeof(*qp.cid_free));
	qp.prp_lists = aligned_alloc(PAGE, align_up(DEPTH * entries * 8ull, PAGE));
	cr_assert(qp.slot && qp.cid_free && qp.prp_lists);
	nvme__rings_init(&qp.rings, aligned_alloc(PAGE, nvme__rings_bytes(DEPTH)), DEPTH);
	qp.rings.sq_doorbell = &bell[0];
	qp.rings.cq_doorbell = &bell[1];
	qp.prp_list_entries = entries;
	qp.prp_lists_iova = LISTS_IOVA;
	qp.transfer_max_blocks = max_blocks;
	qp.io_blocks_max = NVME_IO_BLOCKS_MAX;
	qp.nsid = 7;
	qp.buffer_mask = 3;
	qp.sgl = sgl;
	qp.cid_free_count = DEPTH - 1;
	for (uint32_t i = 0; i < DEPTH - 1; i++) {
		qp.cid_free[i] = (uint16_t)i;
		atomic_init(&qp.slot[i].cid, (uint16_t)i);
	}
	next_sqe = 0;
}

static void teardown_qpair(void)
{
	free(qp.rings.sq);
	free(qp.prp_lists);
	free(qp.cid_free);
	free(qp.slot);
}

/* The address of the list's entry `i`, which must lie in the id's own part of the lists. */
static uint64_t listed_page(const struct nvme_sqe *sqe, uint64_t i)
{
	uint64_t id = NVME_CID_SLOT(le16_get(sqe->cid));
	uint64_t at = le64_get(sqe->prp2) + 8 * i - LISTS_IOVA;

	if (at / 8 / qp.prp_list_entries != id || le64_get(sqe->prp2) % 8 != 0)
		return 0;
	return le64_get(qp.prp_lists[at / 8]);
}

/* Whether the entry names [iova, iova + bytes), and nothing else. */
static bool names(const struct nvme_sqe *sqe, uint64_t iova, uint64_t bytes)
{
	uint64_t first = PAGE - iova % PAGE, rest = bytes > first ? bytes - first : 0;
	uint64_t page = iova + first, list = le64_get(sqe->prp2);

	if (le64_get(sqe->prp1) != iova)
		return false;
	if (sqe->flags) /* one data block descriptor, of its address and length */
		return qp.sgl && sqe->flags == 0x40 && list == bytes;
	if (rest == 0)
		return list == 0;
	if (rest <= PAGE)
		return list == page;
	if (list / PAGE != (list + 8 * div_up(rest, PAGE) - 1) / PAGE)
		return false; /* it would go on in another list */
	for (uint64_t i = 0; i * PAGE < rest; i++)
		if (listed_page(sqe, i) != page + i * PAGE)
			return false;
	return true;
}

static void complete(const struct nvme_sqe *sqe, uint32_t index)
{
	volatile struct nvme_cqe *cqe = &qp.rings.cq[index % DEPTH];
	uint32_t phase = index / DEPTH % 2 == 0;

	cqe->cid.raw = le16_get(sqe->cid);
	cqe->sq_id.raw = (uint16_t)qp.qid;
	cqe->status.raw = (uint16_t)phase;
}

/* One I/O: its commands cover it, in order; false: they do not. */
static bool covers(enum nvme_op op, uint64_t offset, uint32_t nblocks)
{
	struct nvme_io io = { .op = op, .block = FIRST_LBA, .nblocks = nblocks };
	uint32_t commands = 0, done_blocks = 0;
	struct nvme_io *done[1];
	bool good = true;

	io.iova = BUFFER + offset;
	if (nvme_submit(&qp, &io))
		return false;
	while (next_sqe % DEPTH != qp.rings.sq_tail) {
		const struct nvme_sqe *sqe = &qp.rings.sq[next_sqe % DEPTH];
		uint32_t n = (le32_get(sqe->cdw12) & 0xffff) + 1;
		uint64_t lba = le32_get(sqe->cdw10) | (uint64_t)le32_get(sqe->cdw11) << 32;

		good &= n <= qp.transfer_max_blocks && lba == FIRST_LBA + done_blocks &&
			sqe->opcode == (op == NVME_READ ? 2 : 1) && le32_get(sqe->nsid) == 7 &&
			names(sqe, io.iova + done_blocks * PAGE, n * PAGE);
		complete(sqe, next_sqe++);
		done_blocks += n;
		commands++;
	}
	good &= commands == div_up(nblocks, qp.transfer_max_blocks) && done_blocks == nblocks;
	return nvme_poll(&qp, done, 1) == 1 && done[0] == &io && io.status == 0 && good;
}

static bool wants(uint64_t offset)
{
	const char *length = getenv("TEST_LENGTH");
	bool all = length && strcmp(length, "short") != 0;

	return all || offset < 64 || offset >= PAGE - 64 || offset / 4 % 37 == 0;
}

/* Returns how many I/Os have commands that do not cover them. */
static uint32_t wrong_of(uint32_t max_blocks, bool sgl)
{
	uint32_t most = min_u32(2 * max_blocks, NVME_IO_BLOCKS_MAX), wrong = 0;

	setup_qpair(max_blocks, sgl);
	for (uint64_t offset = 0; offset < PAGE; offset += 4) {
		for (uint32_t n = 1; n <= most && wants(offset); n++)
			wrong += !covers(n % 2 ? NVME_READ : NVME_WRITE, offset, n);
	}
	teardown_qpair();
	return wrong;
}

Test(nvme_product, prps_of_every_alignment_and_length_for_every_mdts, .timeout = 600)
{
	for (uint32_t max_blocks = 1; max_blocks <= 512; max_blocks *= 2)
		cr_assert_eq(wrong_of(max_blocks, false), 0, "%u blocks a command", max_blocks);
}

Test(nvme_product, sgls_of_every_alignment_and_length_for_every_mdts, .timeout = 600)
{
	for (uint32_t max_blocks = 1; max_blocks <= 512; max_blocks *= 2)
		cr_assert_eq(wrong_of(max_blocks, true), 0, "%u blocks a command", max_blocks);
}
