/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/arena.h"
#include "base/num.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define MIB (1ull << 20)

static struct arena *arena;

static void setup(void)
{
	cr_assert_eq(arena_create(3 * MIB, &arena), 0);
}

static void teardown(void)
{
	arena_destroy(arena);
}

TestSuite(base_arena, .init = setup, .fini = teardown);

Test(base_arena, is_rounded_up_and_aligned_to_a_huge_page)
{
	cr_assert_eq(arena_size(arena), 4 * MIB);
	cr_assert_eq((uintptr_t)arena_base(arena) % (2 * MIB), 0);
	cr_assert_eq(arena_used(arena), 0);
	cr_assert(arena_pages(arena) >= ARENA_HUGETLB && arena_pages(arena) <= ARENA_SMALL);
}

Test(base_arena, hands_out_zeroed_bytes_side_by_side)
{
	char *a = arena_alloc(arena, 100, 1), *b = arena_alloc(arena, 100, 1);

	cr_assert_eq(a, arena_base(arena));
	cr_assert_eq(b, a + 100);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(a[i], 0);
}

Test(base_arena, honours_every_alignment_up_to_a_huge_page)
{
	for (uint64_t align = 1; align <= 2 * MIB; align *= 2) {
		char *p = arena_alloc(arena, 1, align);

		cr_assert(p);
		cr_assert_eq((uintptr_t)p % align, 0);
	}
}

Test(base_arena, gives_its_last_byte_and_then_null)
{
	cr_assert(arena_alloc(arena, 4 * MIB - 1, 1));
	cr_assert_null(arena_alloc(arena, 2, 1));
	cr_assert(arena_alloc(arena, 1, 1));
	cr_assert_null(arena_alloc(arena, 1, 1));
	cr_assert_eq(arena_used(arena), arena_size(arena));
}

Test(base_arena, refuses_sizes_that_cannot_be)
{
	struct arena *none;

	cr_assert_eq(arena_create(0, &none), -EINVAL);
	cr_assert_eq(arena_create(UINT64_MAX, &none), -EINVAL);
	cr_assert_eq(arena_create((uint64_t)1 << 60, &none), -ENOMEM);
	cr_assert_null(arena_alloc(arena, 0, 1));
	cr_assert_null(arena_alloc(arena, UINT64_MAX, 1));
}

Test(base_arena, knows_what_lies_in_it)
{
	char *base = arena_base(arena);

	cr_assert(arena_has(arena, base, 4 * MIB));
	cr_assert(arena_has(arena, base + 4 * MIB - 1, 1));
	cr_assert_not(arena_has(arena, base + 4 * MIB - 1, 2));
	cr_assert_not(arena_has(arena, base + 4 * MIB, 1));
	cr_assert_not(arena_has(arena, base - 1, 1));
	cr_assert_not(arena_has(arena, base, UINT64_MAX));
}

Test(base_arena, turns_addresses_into_iovas_by_one_constant)
{
	char *p = arena_alloc(arena, 8192, 4096);

	arena_set_iova(arena, 0x40000000);
	cr_assert_eq(arena_iova(arena, p), 0x40000000);
	cr_assert_eq(arena_iova(arena, p + 5000), 0x40000000 + 5000);
}

static void asks_for_a_stranger(void)
{
	char stranger = 0;

	(void)arena_iova(arena, &stranger);
}

Test(base_arena, has_no_iova_for_a_stranger)
{
	cr_assert(dies_saying(asks_for_a_stranger, "arena_has(a, p, 1)"), "%s", death_said());
}

Test(base_arena, of_a_file_is_that_files_memory)
{
	struct arena *shared;
	char *elsewhere;

	cr_assert_eq(arena_fd(arena), -1);
	cr_assert_eq(arena_create_file(3 * MIB, &shared), 0);
	cr_assert_eq(arena_size(shared), 4 * MIB);
	cr_assert_eq((uintptr_t)arena_base(shared) % (2 * MIB), 0);
	elsewhere = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd(shared), 0);
	cr_assert_neq(elsewhere, MAP_FAILED);
	memset(arena_base(shared), 0x5a, 4 * MIB);
	cr_assert_eq(elsewhere[0], 0x5a);
	cr_assert_eq(elsewhere[4 * MIB - 1], 0x5a);
	elsewhere[12345] = 1;
	cr_assert_eq(((char *)arena_base(shared))[12345], 1);
	munmap(elsewhere, 4 * MIB);
	arena_destroy(shared);
	cr_assert_eq(arena_create_file((uint64_t)1 << 60, &shared), -ENOMEM);
	cr_assert_eq(arena_create_file(0, &shared), -EINVAL);
}
