/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The pool's runs, against a map of units. */
#include "client-lib/client_internal.h"

#include "base/rand.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define UNITS 1000u

TestSuite(weka_mem, .timeout = 60);

/* Every run on its list, no two free neighbours, as many units used as the map says. */
static void assert_whole(const struct client_pool *p, const uint8_t *map)
{
	uint32_t unit, used = 0, units;
	bool was_free = false;

	for (unit = 0; unit < p->units; unit += units) {
		bool is_free = p->run[unit] >> 31;

		units = p->run[unit] & ~(1u << 31);
		cr_assert(units > 0 && unit + units <= p->units);
		cr_assert_eq(p->run[unit + units - 1], p->run[unit]);
		cr_assert(!(is_free && was_free), "two free runs side by side at %u", unit);
		for (uint32_t i = unit; i < unit + units; i++)
			cr_assert_eq(map[i] == 0, is_free);
		used += is_free ? 0 : units;
		was_free = is_free;
	}
	cr_assert_eq(used, p->used_units);
}

Test(weka_mem, runs_never_overlap_and_come_together_again)
{
	static uint8_t map[UNITS];
	uint32_t at[256], units[256], count = 0, i;
	struct client_pool p = { 0 };
	struct rand_state r;
	int turn;

	rand_seed(&r, 1);
	cr_assert_eq(client__pool_create(&p, (uint64_t)UNITS * WEKA_BLOCK), 0);
	for (turn = 0; turn < 20000; turn++) {
		if (count < 256 && rand_below(&r, 2)) {
			uint32_t most = rand_below(&r, 10) ? 20 : UNITS;

			units[count] = 1 + (uint32_t)rand_below(&r, most);
			if (client__pool_take(&p, units[count], &at[count]))
				continue;
			for (i = at[count]; i < at[count] + units[count]; i++)
				cr_assert_eq(map[i]++, 0, "unit %u is given twice", i);
			count++;
		} else if (count > 0) {
			uint32_t k = (uint32_t)rand_below(&r, count--);

			client__pool_give(&p, at[k]);
			memset(map + at[k], 0, units[k]);
			at[k] = at[count];
			units[k] = units[count];
		}
		if (turn % 100 == 0)
			assert_whole(&p, map);
	}
	while (count-- > 0)
		client__pool_give(&p, at[count]);
	cr_assert_eq(p.used_units, 0);
	cr_assert_eq(client__pool_take(&p, UNITS, &at[0]), 0);
	cr_assert_eq(at[0], 0);
	cr_assert_eq(client__pool_take(&p, 1, &at[1]), -EAGAIN);
	client__pool_destroy(&p);
}

Test(weka_mem, a_run_of_exactly_the_right_size_is_found)
{
	struct client_pool p = { 0 };
	uint32_t units, unit, other;

	/* 33 and its like lie inside a class whose shortest run would be too short. */
	for (units = 1; units < 600; units++) {
		cr_assert_eq(client__pool_create(&p, (uint64_t)units * WEKA_BLOCK), 0);
		cr_assert_eq(client__pool_take(&p, units + 1, &other), -EMSGSIZE);
		cr_assert_eq(client__pool_take(&p, units, &unit), 0, "of %u", units);
		client__pool_give(&p, unit);
		client__pool_destroy(&p);
	}
}

Test(weka_mem, a_window_has_room_for_blocks_sums_and_answers)
{
	uint32_t count;

	for (count = 1; count <= WEKA_BATCH_MAX; count++) {
		uint64_t least = (uint64_t)count * (8192 + 8 + FAB_ANSWER_BYTES);

		cr_assert_geq(weka_window_bytes(count, 5000), least);
		cr_assert_eq(weka_window_bytes(count, 5000) % WEKA_BLOCK, 0);
	}
	cr_assert_eq(weka_window_bytes(0, 1), 0);
	cr_assert_eq(weka_window_bytes(1, WEKA_READ_MAX), 0);
	cr_assert_eq(weka_window_bytes(1024, 1 << 20), 0);
	cr_assert_gt(weka_window_bytes(1, 0), 0);
}
