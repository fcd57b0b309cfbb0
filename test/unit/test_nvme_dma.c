/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The table of mapped memory. */
#define _GNU_SOURCE
#include "nvme/nvme_dma.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
	for (uint32_t i = 0; i < NVME_WINDOW_COUNT - NVME_WINDOWS_LOW - 1; i++) {
		cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &next), 0);
		cr_assert_neq(next, first);
		nvme_dma_unmap(dma, next, 4096);
	}
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &next), 0);
	cr_assert_eq(next, first);
}

Test(nvme_dma, full_table_refuses_and_has_room_again_after_an_unmap)
{
	uint64_t half = (uint64_t)(NVME_WINDOW_COUNT - NVME_WINDOWS_LOW) / 2 * NVME_WINDOW_BYTES;
	uint64_t a, b, c;

	cr_assert_eq(nvme_dma_map(dma, at(1), half, &a), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), half, &b), 0);
	cr_assert_geq(a, 1ull << 32);
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &c), -ENOSPC);
	nvme_dma_unmap(dma, a, half);
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &c), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 2 * half, &c), -ENOSPC);
}

Test(nvme_dma, each_mapping_of_a_window_has_a_turn_of_its_own)
{
	uint64_t iova, seen[4];

	for (int i = 0; i < 4; i++) {
		dma->next_window = 75;
		cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &iova), 0);
		cr_assert_eq(iova, 75 * NVME_WINDOW_BYTES);
		seen[i] = atomic_load(&dma->life[75]);
		cr_assert_eq(seen[i] % 2, 1);
		for (int k = 0; k < i; k++)
			cr_assert_neq(seen[i], seen[k]);
		nvme_dma_unmap(dma, iova, 4096);
		cr_assert_eq(atomic_load(&dma->life[75]) % 2, 0);
	}
}

static void unmaps_less(void)
{
	uint64_t iova;

	cr_assert_eq(nvme_dma_map(dma, at(1), 8192, &iova), 0);
	nvme_dma_unmap(dma, iova, 4096);
}

Test(nvme_dma, unmapping_less_than_was_mapped_is_a_bug)
{
	cr_assert(dies_saying(unmaps_less, "== size_bytes"), "%s", death_said());
}

/* ---- targets ----------------------------------------------------------------------- */

/* Remembers what it was told, and refuses one size. */
struct fake_target {
	struct nvme_dma_target target;
	uint64_t refused_bytes;
	uint64_t mapped_bytes;
	uint32_t map_count, unmap_count;
	struct nvme_dma_region last;
	uint64_t last_iova;
};

static int fake_map(struct nvme_dma_target *target, uint64_t iova,
		    const struct nvme_dma_region *region)
{
	struct fake_target *fake = (void *)target;

	if (region->size_bytes == fake->refused_bytes) {
		nvme__dma_say(dma, "%u bytes are too many", (unsigned)region->size_bytes);
		return -ENOMEM;
	}
	fake->map_count++;
	fake->mapped_bytes += region->size_bytes;
	fake->last = *region;
	fake->last_iova = iova;
	return 0;
}

static void fake_unmap(struct nvme_dma_target *target, uint64_t iova, uint64_t size_bytes)
{
	struct fake_target *fake = (void *)target;

	(void)iova;
	fake->unmap_count++;
	fake->mapped_bytes -= size_bytes;
}

static struct fake_target fake_of(uint64_t refused_bytes)
{
	return (struct fake_target){ .target = { .map = fake_map, .unmap = fake_unmap },
				     .refused_bytes = refused_bytes };
}

Test(nvme_dma, target_is_told_of_what_there_was_and_of_what_comes)
{
	struct fake_target fake = fake_of(0);
	uint64_t a, b;
	int fd = memfd_create("test", 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(nvme_dma_map_file(dma, at(9), 8192, fd, 4096, &a), 0);
	cr_assert_eq(nvme__dma_attach(dma, &fake.target), 0);
	cr_assert_eq(fake.last.addr, at(9));
	cr_assert_eq(fake.last.fd_offset, 4096);
	cr_assert(fake.last.fd >= 0 && fake.last.fd != fd, "the table has its own");
	cr_assert_eq(fcntl(fake.last.fd, F_GETFD), FD_CLOEXEC);
	cr_assert_eq(fake.last_iova, a);
	cr_assert_eq(nvme_dma_map(dma, at(100), 3 * NVME_WINDOW_BYTES, &b), 0);
	cr_assert_eq(fake.last.fd, -1);
	cr_assert_eq(fake.last_iova, b);
	cr_assert_eq(fake.mapped_bytes, 8192 + 3 * NVME_WINDOW_BYTES);
	cr_assert_eq(nvme__dma_mapped_bytes(dma), fake.mapped_bytes);
	nvme_dma_unmap(dma, b, 3 * NVME_WINDOW_BYTES);
	cr_assert_eq(fake.mapped_bytes, 8192);
	nvme__dma_detach(dma, &fake.target);
	nvme_dma_unmap(dma, a, 8192);
	cr_assert_eq(fake.unmap_count, 1, "a target that left hears nothing");
	close(fd);
}

Test(nvme_dma, mapping_that_one_target_refuses_is_nobodys)
{
	struct fake_target first = fake_of(0), second = fake_of(8192), third = fake_of(0);
	uint64_t iova, next;

	cr_assert_eq(nvme__dma_attach(dma, &first.target), 0);
	cr_assert_eq(nvme__dma_attach(dma, &second.target), 0);
	cr_assert_eq(nvme__dma_attach(dma, &third.target), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &iova), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 8192, &next), -ENOMEM);
	cr_assert_str_eq(nvme_dma_why(dma), "8192 bytes are too many");
	cr_assert_eq(first.mapped_bytes, 4096);
	cr_assert_eq(first.unmap_count, 1);
	cr_assert_eq(second.mapped_bytes, 4096);
	cr_assert_eq(third.map_count, 1);
	expect(iova + NVME_WINDOW_BYTES, 1, NULL, 0);
	cr_assert_eq(nvme__dma_mapped_bytes(dma), 4096);
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &next), 0);
	cr_assert_str_eq(nvme_dma_why(dma), "");
	nvme__dma_detach(dma, &first.target);
	nvme__dma_detach(dma, &second.target);
	nvme__dma_detach(dma, &third.target);
}

Test(nvme_dma, target_that_refuses_what_there_is_gets_none_of_it)
{
	struct fake_target fake = fake_of(12288);
	uint64_t iova;

	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &iova), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 8192, &iova), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 12288, &iova), 0);
	cr_assert_eq(nvme_dma_map(dma, at(1), 16384, &iova), 0);
	cr_assert_eq(nvme__dma_attach(dma, &fake.target), -ENOMEM);
	cr_assert_eq(fake.map_count, 2);
	cr_assert_eq(fake.mapped_bytes, 0);
	cr_assert_null(nvme__dma_target(dma, fake_map));
}

Test(nvme_dma, reserved_ranges_are_never_handed_out_nor_reserved_under_a_mapping)
{
	uint64_t base = (uint64_t)NVME_WINDOWS_LOW * NVME_WINDOW_BYTES, iova;

	cr_assert_eq(nvme__dma_reserve(dma, base + 100, base + NVME_WINDOW_BYTES), 0);
	cr_assert_eq(nvme__dma_reserve(dma, 1ull << 38, UINT64_MAX), 0);
	cr_assert_eq(nvme__dma_reserve(dma, 1ull << 39, UINT64_MAX), 0, "beyond the table");
	cr_assert_eq(nvme_dma_map(dma, at(1), 4096, &iova), 0);
	cr_assert_eq(iova, base + 2 * NVME_WINDOW_BYTES);
	cr_assert_eq(nvme__dma_reserve(dma, 0, iova), -EBUSY);
	cr_assert_eq(nvme_dma_map(dma, at(1), 1ull << 38, &iova), -ENOSPC);
}

Test(nvme_dma, files_are_wanted_while_a_target_wants_them)
{
	struct fake_target any = fake_of(0), files = fake_of(0);

	files.target.wants_files = true;
	cr_assert_eq(nvme__dma_attach(dma, &any.target), 0);
	cr_assert_not(nvme_dma_wants_files(dma));
	cr_assert_eq(nvme__dma_attach(dma, &files.target), 0);
	cr_assert(nvme_dma_wants_files(dma));
	cr_assert_eq(nvme__dma_target(dma, fake_map), &files.target);
	nvme__dma_detach(dma, &files.target);
	cr_assert_not(nvme_dma_wants_files(dma));
	nvme__dma_detach(dma, &any.target);
}

/* ---- the driver's own memory: nvme_mem.c ------------------------------------------- */

Test(nvme_dma, driver_memory_is_zeroed_a_files_and_crosses_no_two_mebibytes)
{
	struct fake_target fake = fake_of(0);
	struct nvme_mem mem[40];

	cr_assert_eq(nvme__dma_attach(dma, &fake.target), 0);
	for (uint32_t i = 0; i < 40; i++) {
		cr_assert_eq(nvme__mem_alloc(&mem[i], dma, (i % 7 + 1) * 60000), 0);
		cr_assert_geq(mem[i].size_bytes, (i % 7 + 1) * 60000);
		cr_assert_eq(mem[i].iova >> 21, (mem[i].iova + mem[i].size_bytes - 1) >> 21);
		cr_assert_eq((mem[i].iova ^ (uintptr_t)mem[i].addr) % (2u << 20), 0);
		for (uint64_t k = 0; k < mem[i].size_bytes; k += 512)
			cr_assert_eq(((char *)mem[i].addr)[k], 0);
		memset(mem[i].addr, 0xee, mem[i].size_bytes);
		if (i % 3 == 2)
			nvme__mem_free(&mem[i], dma);
	}
	cr_assert_geq(fake.last.fd, 0);
	cr_assert_lt(fake.map_count, 10, "%u slabs", fake.map_count);
	for (uint32_t i = 0; i < 40; i++) {
		for (uint64_t k = 0; k < mem[i].size_bytes; k += 512)
			cr_assert_eq(((uint8_t *)mem[i].addr)[k], 0xee, "nobody else has it");
		nvme__mem_free(&mem[i], dma);
	}
	cr_assert_eq(fake.mapped_bytes, 0);
	nvme__dma_detach(dma, &fake.target);
}

Test(nvme_dma, driver_memory_may_be_larger_than_a_slab)
{
	struct nvme_mem large, small;

	cr_assert_eq(nvme__mem_alloc(&large, dma, 9u << 20), 0);
	cr_assert_eq(nvme__mem_alloc(&small, dma, 1), 0);
	cr_assert_eq(small.size_bytes, 4096);
	memset(large.addr, 1, large.size_bytes);
	cr_assert_eq(*(char *)small.addr, 0);
	expect(large.iova, 4096, large.addr, 4096);
	nvme__mem_free(&large, dma);
	expect(large.iova, 1, NULL, 0);
	nvme__mem_free(&small, dma);
	cr_assert_eq(nvme__dma_mapped_bytes(dma), 0);
}

Test(nvme_dma, driver_memory_that_a_target_refuses_is_an_error_and_no_leak)
{
	struct fake_target fake = fake_of(2u << 20);
	struct nvme_mem mem;

	cr_assert_eq(nvme__dma_attach(dma, &fake.target), 0);
	cr_assert_eq(nvme__mem_alloc(&mem, dma, 4096), -ENOMEM);
	cr_assert_eq(mem.size_bytes, 0);
	cr_assert(list_empty(&dma->slabs));
	nvme__dma_detach(dma, &fake.target);
}
