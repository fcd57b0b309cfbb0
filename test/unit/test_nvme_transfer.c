/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Transfers, by table: at every alignment and every length up to twice what one command may
 * carry, with PRPs and with SGLs, on LBAs of both sizes.  Each command is read as a controller
 * reads it, and together they must be the buffer and the blocks, once each and in order; then
 * the controller does them.
 */
#include "test/lib/nvme_fixture.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <string.h>

#define NBLOCKS 1100u
#define DEPTH   8u

static struct nvme_fixture f;
static struct nvme_soft_traits want;

static void setup(void)
{
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = NBLOCKS }, DEPTH);
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_transfer, .init = setup, .fini = teardown, .timeout = 120);

static void change(struct nvme_soft_traits *traits)
{
	traits->mdts = want.mdts;
	traits->sgl = want.sgl;
}

static void other_drive(uint32_t mdts, bool sgl, uint32_t lba_bytes)
{
	fixture_down(&f);
	want.mdts = mdts;
	want.sgl = sgl;
	fixture_up_traits(
		&f, &(struct sim_drive_options){ .nblocks = NBLOCKS, .atomic_bytes = lba_bytes },
		change, DEPTH);
	cr_assert_eq(f.info.transfer_max_bytes, 4096u << mdts);
	cr_assert_eq(f.info.lba_bytes, lba_bytes);
	cr_assert_eq(f.info.buffer_align, 4);
}

/* One command as a controller reads it: the next piece of `io`; returns its bytes. */
static uint64_t read_command(const struct nvme_sqe *sqe, const struct nvme_io *io, uint64_t done)
{
	static struct iovec seg[300];
	struct nvme_soft_cmd cmd = { .seg = seg };
	uint64_t lba = (uint64_t)le32_get(sqe->cdw11) << 32 | le32_get(sqe->cdw10);
	uint32_t bytes = ((le32_get(sqe->cdw12) & 0xffff) + 1) * f.info.lba_bytes;
	uint64_t low = le64_get(sqe->prp1), high = le64_get(sqe->prp2);

	cmd.size_bytes = bytes;
	cr_assert_leq(bytes, f.info.transfer_max_bytes);
	cr_assert_eq(sqe->flags & NVME_SQE_SGL ? nvme__soft_sgl(f.dma, low, high, &cmd, 300)
					       : nvme__soft_prp(f.dma, low, high, &cmd, 300),
		     0);
	cr_assert_eq(cmd.seg_count, 1, "it is contiguous");
	cr_assert_eq(seg[0].iov_base, f.buf + (io->iova - f.iova) + done);
	cr_assert_eq(seg[0].iov_len, bytes);
	cr_assert_eq(lba * f.info.lba_bytes, io->block * 4096 + done);
	cr_assert_eq(sqe->opcode, NVME_CMD_READ);
	cr_assert_eq(le32_get(sqe->nsid), 1);
	cr_assert_eq(le32_get(sqe->cdw12) & ~0xffffu, 0);
	return bytes;
}

static void one(uint32_t offset, uint32_t nblocks)
{
	struct nvme_rings *r = &f.qp->rings;
	uint32_t at = r->sq_tail;
	struct nvme_io io = { .op = NVME_READ,
			      .nblocks = nblocks,
			      .block = nblocks % 7,
			      .iova = f.iova + 4096 + offset };
	uint64_t done = 0;

	cr_assert_eq(nvme_submit(f.qp, &io), 0);
	for (; at != r->sq_tail; at = (at + 1) % DEPTH)
		done += read_command(&r->sq[at], &io, done);
	cr_assert_eq(done, nblocks * 4096ull, "%u blocks at %u", nblocks, offset);
	cr_assert_eq(fixture_finish(&f, &io), 0);
	cr_assert_eq(nvme_dma_fault_count(f.dma), 0);
}

/* A drive with a number of its own every 4 bytes, so that what is read can be told apart. */
static void number_drive(void)
{
	uint32_t *buf = (uint32_t *)(void *)f.buf;
	uint32_t step = min_u32(100, nvme_qpair_io_blocks_max(f.qp));

	for (uint32_t block = 0; block < NBLOCKS; block += step) {
		uint32_t nblocks = min_u32(step, NBLOCKS - block);
		struct nvme_io io = {
			.op = NVME_WRITE, .nblocks = nblocks, .block = block, .iova = f.iova
		};

		for (uint32_t i = 0; i < nblocks * 1024; i++)
			buf[i] = block * 1024 + i;
		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		cr_assert_eq(fixture_finish(&f, &io), 0);
	}
}

static void expect_numbers(uint32_t offset, uint32_t nblocks)
{
	const uint32_t *buf = (const uint32_t *)(const void *)(f.buf + 4096 + offset);

	cr_assert_eq(buf[-1], 0xeeeeeeee);
	cr_assert_eq(buf[nblocks * 1024], 0xeeeeeeee);
	for (uint32_t i = 0; i < nblocks * 1024; i++)
		cr_assert_eq(buf[i], nblocks % 7 * 1024 + i, "%u blocks at %u: %u", nblocks, offset,
			     i);
}

static void table(uint32_t mdts, bool sgl, uint32_t lba_bytes)
{
	uint32_t most = 2u << mdts;

	other_drive(mdts, sgl, lba_bytes);
	for (uint32_t offset = 0; offset < 4096; offset += 4)
		for (uint32_t nblocks = 1; nblocks <= most; nblocks++)
			if (most <= 8 || offset % 1020 < 8 || nblocks == 1 + offset / 4 % most)
				one(offset, nblocks);
	number_drive();
	for (uint32_t offset = 0; offset < 4096; offset += offset < 8 ? 4 : 1020) {
		for (uint32_t nblocks = 1; nblocks <= most; nblocks += 1 + nblocks / 8) {
			memset(f.buf, 0xee, (nblocks + 3) * 4096ull);
			one(offset, nblocks);
			expect_numbers(offset, nblocks);
		}
	}
}

Test(nvme_transfer, prps_cover_every_alignment_and_length)
{
	for (uint32_t mdts = 1; mdts <= 6; mdts++)
		table(mdts, false, 4096);
}

Test(nvme_transfer, prps_cover_long_commands)
{
	table(8, false, 4096);
}

Test(nvme_transfer, prps_cover_lbas_of_512_bytes)
{
	table(1, false, 512);
	table(5, false, 512);
}

Test(nvme_transfer, sgls_cover_every_alignment_and_length)
{
	for (uint32_t mdts = 1; mdts <= 6; mdts++)
		table(mdts, true, mdts % 2 ? 4096 : 512);
}

Test(nvme_transfer, sgls_cover_long_commands)
{
	table(8, true, 4096);
}

static void submits_a_buffer_inside_a_dword(void)
{
	struct nvme_io io = { .op = NVME_READ, .nblocks = 1, .iova = f.iova + 2 };

	(void)!nvme_submit(f.qp, &io);
}

Test(nvme_transfer, buffer_inside_a_dword_is_our_mistake)
{
	cr_assert(dies_saying(submits_a_buffer_inside_a_dword, "buffer_mask"), "%s", death_said());
}

static void submits_nothing(void)
{
	struct nvme_io io = { .op = NVME_READ, .nblocks = 0, .iova = f.iova };

	(void)!nvme_submit(f.qp, &io);
}

Test(nvme_transfer, transfer_of_nothing_is_our_mistake)
{
	cr_assert(dies_saying(submits_nothing, "nblocks"), "%s", death_said());
}

static void submits_too_much(void)
{
	struct nvme_io io = { .op = NVME_READ,
			      .nblocks = nvme_qpair_io_blocks_max(f.qp) + 1,
			      .iova = f.iova };

	(void)!nvme_submit(f.qp, &io);
}

Test(nvme_transfer, transfer_beyond_what_fits_is_our_mistake)
{
	cr_assert(dies_saying(submits_too_much, "io_blocks_max"), "%s", death_said());
}
