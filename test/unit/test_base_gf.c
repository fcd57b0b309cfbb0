/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The field of 256 elements, compared with a multiplication that is done bit by bit. */
#include "base/gf.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <signal.h>

enum { MOST = 4096 };

/* a * b modulo x^8 + x^4 + x^3 + x^2 + 1 */
static uint8_t product(uint8_t a, uint8_t b)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 8; i++)
		sum ^= b >> i & 1 ? (uint32_t)a << i : 0;
	for (uint32_t i = 15; i >= 8; i--)
		sum ^= sum >> i & 1 ? 0x11du << (i - 8) : 0;
	return (uint8_t)sum;
}

Test(base_gf, products_are_those_of_polynomials)
{
	for (uint32_t a = 0; a < 256; a++)
		for (uint32_t b = 0; b < 256; b++)
			cr_assert_eq(gf_times((uint8_t)a, (uint8_t)b),
				     product((uint8_t)a, (uint8_t)b), "%u * %u", a, b);
}

Test(base_gf, each_element_but_zero_has_an_inverse)
{
	for (uint32_t a = 1; a < 256; a++)
		cr_assert_eq(product((uint8_t)a, gf_inverse((uint8_t)a)), 1, "%u", a);
}

Test(base_gf, zero_has_no_inverse, .signal = SIGABRT)
{
	cr_assert_eq(gf_inverse(1), 1);
	(void)gf_inverse(0); /* ends the process */
}

Test(base_gf, powers_of_the_generator_are_all_elements_but_zero)
{
	bool seen[256] = { true };
	uint8_t power = 1;

	for (uint32_t n = 0; n < 255; n++) {
		cr_assert_eq(gf_power(n), power, "power %u", n);
		cr_assert_not(seen[power], "power %u", n);
		seen[power] = true;
		power = product(power, 2);
	}
	cr_assert_eq(power, 1);
}

/* Also of places that are not aligned; the bytes around them stay.  Returns how many are wrong. */
static uint32_t multiply(struct rand_state *r, size_t bytes, uint8_t by, bool adds)
{
	static uint8_t from[MOST + 64], to[MOST + 64], was[MOST + 64];
	const size_t at = rand_below(r, 65), of = rand_below(r, 65);
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < sizeof(to); i++) {
		from[i] = (uint8_t)rand_u64(r);
		to[i] = was[i] = (uint8_t)rand_u64(r);
	}
	(adds ? gf_add : gf_set)(to + at, from + of, bytes, by);
	for (uint32_t i = 0; i < sizeof(to); i++) {
		const bool is_in = i >= at && i < at + bytes;
		const uint8_t more = is_in ? product(from[i - at + of], by) : 0;

		wrong += to[i] != (is_in && !adds ? more : was[i] ^ more);
	}
	return wrong;
}

Test(base_gf, multiples_of_bytes_are_those_of_each_byte)
{
	const size_t sizes[] = { 0, 64, 128, 192, 1024, MOST };
	struct rand_state r;

	rand_seed(&r, 1);
	for (uint32_t by = 0; by < 256; by++) {
		cr_assert_eq(multiply(&r, sizes[by % 6], (uint8_t)by, true), 0, "%u", by);
		cr_assert_eq(multiply(&r, sizes[by % 6], (uint8_t)by, false), 0, "%u", by);
		cr_assert_eq(multiply(&r, MOST, (uint8_t)by, by % 2), 0, "%u", by);
	}
}
