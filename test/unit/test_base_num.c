/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/num.h"

#include <criterion/criterion.h>

Test(base_num, powers_of_two)
{
	cr_assert(is_pow2(1));
	cr_assert(is_pow2((uint64_t)1 << 63));
	cr_assert_not(is_pow2(0));
	cr_assert_not(is_pow2(3));
	cr_assert_not(is_pow2(UINT64_MAX));
}

Test(base_num, dividing_up_at_the_edges)
{
	cr_assert_eq(div_up(0, 7), 0);
	cr_assert_eq(div_up(1, 7), 1);
	cr_assert_eq(div_up(7, 7), 1);
	cr_assert_eq(div_up(8, 7), 2);
	cr_assert_eq(div_up(UINT64_MAX, 2), (uint64_t)1 << 63);
}

Test(base_num, aligning_up_and_down)
{
	cr_assert_eq(align_up(0, 4096), 0);
	cr_assert_eq(align_up(1, 4096), 4096);
	cr_assert_eq(align_up(4096, 4096), 4096);
	cr_assert_eq(align_down(4095, 4096), 0);
	cr_assert_eq(align_down(8191, 4096), 4096);
}

Test(base_num, overflow_is_told)
{
	uint64_t out;

	cr_assert_not(add_overflows(UINT64_MAX - 1, 1, &out));
	cr_assert_eq(out, UINT64_MAX);
	cr_assert(add_overflows(UINT64_MAX, 1, &out));
	cr_assert_not(mul_overflows(UINT32_MAX, UINT32_MAX, &out));
	cr_assert(mul_overflows((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
}
