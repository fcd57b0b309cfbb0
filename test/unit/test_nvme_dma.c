/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The table of mapped memory. */
#include "nvme/nvme_dma.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>

static struct nvme_dma *dma;

/* Addresses that the table only remembers. */
static void *at(uint64_t page)
{
	return (void *)(uintptr_t)(page * NVME_BLOCK_SIZE);
}

static void setup(void)
{
	cr_assert_eq(nvme_dma_create(&dma), 0);
}

static void teardown(void)
{
	nvme_dma_destroy(dma);
}

TestSuite(nvme_dma, .init = setup, .fini = teardown, .timeout = 30);

static void expect(uint64_t iova, uint64_t want_bytes, void *addr, uint64_t got_bytes)
{
	uint64_t size_bytes = want_bytes;

	cr_assert_eq(nvme__dma_at(dma, iova, &size_bytes), addr, "iova %llx",
		     (unsigned long long)iova);
	if (addr)
		cr_assert_eq(size_bytes, got_bytes, "iova %llx", (unsigned long long)iova);
}

Test(nvme_dma, every_byte_of_a_mapping_is_found_and_none_beside_it)
{
	uint64_t iova;

	cr_assert_eq(nvme_dma_map(dma, at(1000), 3 * 4096, &iova), 0);
	expect(iova, 4096, at(1000), 4096);
	expect(iova + 5000, 100, (char *)at(1000) + 5000, 100);
	expect(iova + 3 * 4096 - 1, 100, (char *)at(1000) + 3 * 4096 - 1, 1);
	expect(iova + 3 * 4096, 1, NULL, 0);
	expect(iova - 1, 1, NULL, 0);
	expect(0, 1, NULL, 0);
	expect(1ull << 39, 1, NULL, 0);
	expect(UINT64_MAX, 1, NULL, 0);
	nvme_dma_unmap(dma, iova, 3 * 4096);
	expect(iova, 1, NULL, 0);
}

Test(nvme_dma, large_mapping_goes_on_over_windows_in_one_range_of_iovas)
{
	uint64_t iova, size_bytes = 3 * NVME_WINDOW_BYTES - 4096;

	cr_assert_eq(nvme_dma_map(dma, at(7), size_bytes, &iova), 0);
	expect(iova + NVME_WINDOW_BYTES - 4096, 8192, (char *)at(7) + NVME_WINDOW_BYTES - 4096,
	       4096);
	expect(iova + NVME_WINDOW_BYTES, 8192, (char *)at(7) + NVME_WINDOW_BYTES, 8192);
	expect(iova + size_bytes - 1, 8, (char *)at(7) + size_bytes - 1, 1);
	expect(iova + size_bytes, 1, NULL, 0);
	nvme_dma_unmap(dma, iova, size_bytes);
	expect(iova + NVME_WINDOW_BYTES, 1, NULL, 0);
}

Test(nvme_dma, iova_is_small_never_zero_and_never_the_address)
{
	uint64_t iova;

	for (uint32_t i = 0; i < 3 * NVME_WINDOW_COUNT; i++) {
		cr_assert_eq(nvme_dma_map(dma, at(16384 * (i % 5 + 1)), 4096, &iova), 0);
		cr_assert(iova > 0 && iova >> NVME_IOVA_BITS == 0);
		cr_assert_eq(iova % NVME_WINDOW_BYTES, 0);
		nvme_dma_unmap(dma, iova, 4096);
	}
}

Test(nvme_dma, unmapped_iova_comes_back_only_after_all_others)
{
	uint64_t first, next;

	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &first), 0);
	nvme_dma_unmap(dma, first, 4096);
	for (uint32_t i = 0; i < NVME_WINDOW_COUNT - 2; i++) {
		cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &next), 0);
		cr_assert_neq(next, first);
		nvme_dma_unmap(dma, next, 4096);
	}
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &next), 0);
	cr_assert_eq(next, first);
}

Test(nvme_dma, full_table_refuses_and_has_room_again_after_an_unmap)
{
	uint64_t half = (uint64_t)NVME_WINDOW_COUNT / 2 * NVME_WINDOW_BYTES, a, b, c;

	cr_assert_eq(nvme_dma_map(dma, at(1), half, &a), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), half - NVME_WINDOW_BYTES, &b), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &c), -ENOSPC);
	nvme_dma_unmap(dma, a, half);
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &c), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 2 * half, &c), -ENOSPC);
}

Test(nvme_dma, each_mapping_of_a_window_has_a_turn_of_its_own)
{
	uint64_t iova, seen[4];

	for (int i = 0; i < 4; i++) {
		dma->next_window = 5;
		cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &iova), 0);
		cr_assert_eq(iova, 5 * NVME_WINDOW_BYTES);
		seen[i] = atomic_load(&dma->turn[5]);
		cr_assert_eq(seen[i] % 2, 1);
		for (int k = 0; k < i; k++)
			cr_assert_neq(seen[i], seen[k]);
		nvme_dma_unmap(dma, iova, 4096);
		cr_assert_eq(atomic_load(&dma->turn[5]) % 2, 0);
	}
}

Test(nvme_dma, unmapping_less_than_was_mapped_is_a_bug, .signal = SIGABRT)
{
	uint64_t iova;

	cr_assert_eq(nvme_dma_map(dma, at(1), 8192, &iova), 0);
	nvme_dma_unmap(dma, iova, 4096);
}
