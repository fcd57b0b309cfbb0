/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* PRPs, by table: what the driver makes of buffers, and what the soft controller reads. */
#include "nvme/soft/nvme_soft.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PAGE  4096ull
#define PAGES 2048u
#define SEGS  600u

static struct nvme_dma *dma;
static uint8_t *memory; /* PAGES pages, mapped at iova */
static uint64_t iova;
static struct iovec segs[SEGS];
static struct nvme_soft_cmd cmd;

static void setup(void)
{
	cr_assert_eq(nvme_dma_create(&dma), 0);
	memory = aligned_alloc(PAGE, PAGES * PAGE);
	cr_assert_not_null(memory);
	memset(memory, 0, PAGES * PAGE);
	cr_assert_eq(nvme_dma_map(dma, memory, PAGES * PAGE, &iova), 0);
	cmd.seg = segs;
}

static void teardown(void)
{
	nvme_dma_unmap(dma, iova, PAGES * PAGE);
	nvme_dma_destroy(dma);
	free(memory);
}

TestSuite(nvme_prp, .init = setup, .fini = teardown, .timeout = 30);

static uint32_t decode(uint64_t prp1, uint64_t prp2, uint32_t size_bytes, uint32_t seg_max)
{
	cmd.size_bytes = size_bytes;
	return nvme__soft_prp(dma, prp1, prp2, &cmd, seg_max);
}

static le64 *list_at(uint64_t list_iova)
{
	return (le64 *)(void *)(memory + (list_iova - iova));
}

Test(nvme_prp, driver_fills_pair_and_list_by_length)
{
	static const struct {
		uint64_t offset;
		uint32_t nblocks, entries;
		uint64_t prp2;
	} rows[] = { { 0, 1, 0, 0 },
		     { 0, 2, 0, 0x10001000 },
		     { 0, 3, 2, 0x20000000 },
		     { 0, 33, 32, 0x20000000 },
		     { 0, 257, 256, 0x20000000 },
		     { 4, 1, 0, 0x10001000 },
		     { 4092, 1, 0, 0x10001000 },
		     { 4, 2, 2, 0x20000000 },
		     { 512, 32, 32, 0x20000000 },
		     { 2048, 256, 256, 0x20000000 } };
	le64 list[512];

	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		uint64_t at = 0x10000000 + rows[r].offset;
		struct nvme_prp_pair prp;

		memset(list, 0xee, sizeof(list));
		prp = nvme__prp_fill(at, rows[r].nblocks, list, 0x20000000);
		cr_assert_eq(prp.prp1, at);
		cr_assert_eq(prp.prp2, rows[r].prp2, "%u blocks", rows[r].nblocks);
		for (uint32_t i = 0; i < rows[r].entries; i++)
			cr_assert_eq(le64_get(list[i]), 0x10000000 + (i + 1) * PAGE);
		cr_assert_eq(le64_get(list[rows[r].entries]), 0xeeeeeeeeeeeeeeee, "one too many");
	}
}

/* The controller has found one piece: `size_bytes` from `at` on. */
static void expect_whole(uint64_t at, uint64_t size_bytes)
{
	cr_assert_eq(cmd.seg_count, 1, "%lx, %lu bytes", at, size_bytes);
	cr_assert_eq(segs[0].iov_base, memory + (at - iova));
	cr_assert_eq(segs[0].iov_len, size_bytes);
	cr_assert_eq(cmd.window, iova >> NVME_WINDOW_SHIFT);
}

Test(nvme_prp, transfer_of_any_length_at_any_place_is_what_the_controller_reads)
{
	for (uint32_t offset = 0; offset < PAGE; offset += 4) {
		uint64_t data = iova + 16 * PAGE + offset;

		/* Every length at a few places, every place at a few lengths. */
		for (uint32_t nblocks = 1; nblocks <= 512;
		     nblocks += offset % 500 < 8 || nblocks < 40 ? 1 : 59) {
			uint32_t pages = nblocks + (offset != 0);
			uint64_t list = iova + (nblocks % 8) * 8;
			struct nvme_prp_pair prp;

			if (pages - 1 + nblocks % 8 > 512)
				break; /* the list would not lie in a page */
			prp = nvme__prp_fill(data, nblocks, list_at(list), list);
			cr_assert_eq(decode(prp.prp1, prp.prp2, nblocks * 4096, SEGS), 0,
				     "%u blocks at %u", nblocks, offset);
			expect_whole(data, nblocks * PAGE);
		}
	}
}

Test(nvme_prp, sgl_of_any_length_at_any_place_is_what_the_controller_reads)
{
	for (uint32_t offset = 0; offset < PAGE; offset += 4) {
		for (uint32_t nblocks = 1; nblocks <= 1024; nblocks += 31) {
			uint64_t data = iova + 16 * PAGE + offset;
			struct nvme_prp_pair sgl = nvme__sgl_fill(data, nblocks);

			cmd.size_bytes = nblocks * 4096;
			cr_assert_eq(nvme__soft_sgl(dma, sgl.prp1, sgl.prp2, &cmd, SEGS), 0);
			expect_whole(data, nblocks * PAGE);
		}
	}
}

Test(nvme_prp, sgls_that_are_no_data_block_of_that_length_get_their_status)
{
	uint64_t faults = nvme_dma_fault_count(dma);

	cmd.size_bytes = 4096;
	cr_assert_eq(nvme__soft_sgl(dma, iova, 4096 | 3ull << 60, &cmd, SEGS), NVME_SC_SGL_TYPE);
	cr_assert_eq(nvme__soft_sgl(dma, iova, 4096 | 1ull << 56, &cmd, SEGS), NVME_SC_SGL_TYPE);
	cr_assert_eq(nvme__soft_sgl(dma, iova, 4096 | 1ull << 40, &cmd, SEGS),
		     NVME_SC_INVALID_FIELD);
	cr_assert_eq(nvme__soft_sgl(dma, iova, 4092, &cmd, SEGS), NVME_SC_SGL_LENGTH);
	cr_assert_eq(nvme__soft_sgl(dma, iova, 8192, &cmd, SEGS), NVME_SC_SGL_LENGTH);
	cr_assert_eq(nvme_dma_fault_count(dma), faults);
	cr_assert_eq(nvme__soft_sgl(dma, 1ull << 38, 4096, &cmd, SEGS), NVME_SC_DATA_TRANSFER);
	cr_assert_eq(nvme_dma_fault_count(dma), faults + 1);
}

Test(nvme_prp, scattered_pages_are_a_segment_each_in_their_order)
{
	for (uint32_t i = 0; i < 8; i++)
		list_at(iova)[i] = le64_of(iova + (100 - 2 * i) * PAGE);
	cr_assert_eq(decode(iova + 50 * PAGE, iova, 9 * 4096, SEGS), 0);
	cr_assert_eq(cmd.seg_count, 9);
	cr_assert_eq(segs[0].iov_base, memory + 50 * PAGE);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(segs[i + 1].iov_base, memory + (100 - 2 * i) * PAGE);
}

Test(nvme_prp, first_page_may_begin_inside)
{
	cr_assert_eq(decode(iova + 512, 0, 512, SEGS), 0);
	cr_assert_eq(segs[0].iov_base, memory + 512);
	cr_assert_eq(segs[0].iov_len, 512);
	/* 4096 bytes from the middle of a page: two pages. */
	cr_assert_eq(decode(iova + 2048, iova + 8 * PAGE, 4096, SEGS), 0);
	cr_assert_eq(cmd.seg_count, 2);
	cr_assert_eq(segs[1].iov_base, memory + 8 * PAGE);
	cr_assert_eq(segs[1].iov_len, 2048);
}

Test(nvme_prp, list_at_its_pages_end_leads_to_the_next_list)
{
	uint64_t lists = iova + 510 * 8, data = iova + 100 * PAGE;

	list_at(lists)[0] = le64_of(data + PAGE);
	list_at(lists)[1] = le64_of(iova + PAGE); /* not data: the next list */
	list_at(iova + PAGE)[0] = le64_of(data + 2 * PAGE);
	list_at(iova + PAGE)[1] = le64_of(data + 3 * PAGE);
	cr_assert_eq(decode(data, lists, 4 * 4096, SEGS), 0);
	cr_assert_eq(cmd.seg_count, 1);
	cr_assert_eq(segs[0].iov_len, 4 * PAGE);
	/* With one page less, the last entry of the page is data. */
	list_at(lists)[1] = le64_of(data + 2 * PAGE);
	cr_assert_eq(decode(data, lists, 3 * 4096, SEGS), 0);
	cr_assert_eq(segs[0].iov_len, 3 * PAGE);
}

Test(nvme_prp, what_is_wrong_gets_its_status)
{
	uint64_t faults = nvme_dma_fault_count(dma), out = 1ull << 38;

	list_at(iova)[0] = le64_of(iova + 100);
	cr_assert_eq(decode(iova + 2, 0, 512, SEGS), NVME_SC_PRP_OFFSET);
	cr_assert_eq(decode(iova, iova + 512, 8192, SEGS), NVME_SC_PRP_OFFSET);
	cr_assert_eq(decode(iova, iova + 4, 4 * 4096, SEGS), NVME_SC_PRP_OFFSET);
	cr_assert_eq(decode(iova, iova, 4 * 4096, SEGS), NVME_SC_PRP_OFFSET, "entry inside a page");
	cr_assert_eq(nvme_dma_fault_count(dma), faults);
	cr_assert_eq(decode(out, 0, 4096, SEGS), NVME_SC_DATA_TRANSFER);
	cr_assert_eq(decode(iova, out, 8192, SEGS), NVME_SC_DATA_TRANSFER);
	cr_assert_eq(decode(iova, out, 4 * 4096, SEGS), NVME_SC_DATA_TRANSFER);
	cr_assert_eq(decode(iova + (PAGES - 1) * PAGE, iova + PAGES * PAGE, 8192, SEGS),
		     NVME_SC_DATA_TRANSFER, "runs out of the mapping");
	cr_assert_eq(nvme_dma_fault_count(dma), faults + 4);
}

Test(nvme_prp, list_that_leads_to_itself_ends)
{
	list_at(iova)[511] = le64_of(iova);
	for (uint32_t i = 0; i < 511; i++)
		list_at(iova)[i] = le64_of(iova + 2 * i % PAGES * PAGE);
	cr_assert_eq(decode(iova, iova, 256 * 4096, SEGS), 0);
	cr_assert_eq(decode(iova, iova, 2000 * 4096, SEGS), NVME_SC_DATA_TRANSFER,
		     "more segments than there is room for");
}
