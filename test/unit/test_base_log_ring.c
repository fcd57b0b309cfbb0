/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/log_ring.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct log_ring ring;
static struct log_ring_line line;

static void put(uint32_t count)
{
	char text[32];

	for (uint32_t i = 0; i < count; i++) {
		const uint64_t next = atomic_load_explicit(&ring.next, memory_order_relaxed);

		snprintf(text, sizeof(text), "line %u", (unsigned)next);
		log_ring_put(&ring, 1000 + next, LOG_WARN, text);
	}
}

Test(base_log_ring, lines_come_back_in_their_order)
{
	cr_assert(!log_ring_get(&ring, 0, &line));
	put(3);
	for (uint32_t i = 0; i < 3; i++) {
		char want[32];

		snprintf(want, sizeof(want), "line %u", i);
		cr_assert(log_ring_get(&ring, i, &line));
		cr_expect_eq(line.number, i);
		cr_expect_eq(line.wall_ns, 1000 + i);
		cr_expect_eq(line.level, LOG_WARN);
		cr_expect_str_eq(line.text, want);
	}
	cr_assert(!log_ring_get(&ring, 3, &line));
}

Test(base_log_ring, old_lines_make_room)
{
	put(LOG_RING_LINES + 5);
	cr_assert(log_ring_get(&ring, 0, &line));
	cr_expect_eq(line.number, 5);
	cr_expect_str_eq(line.text, "line 5");
	cr_assert(log_ring_get(&ring, LOG_RING_LINES + 4, &line));
	cr_assert(!log_ring_get(&ring, LOG_RING_LINES + 5, &line));
	cr_assert(!log_ring_get(&ring, UINT64_MAX, &line));
	cr_assert_eq(atomic_load_explicit(&ring.dropped, memory_order_relaxed), 0);
}

Test(base_log_ring, a_long_line_is_cut)
{
	char text[2 * LOG_RING_TEXT];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	log_ring_put(&ring, 0, LOG_ERROR, text);
	cr_assert(log_ring_get(&ring, 0, &line));
	cr_assert_eq(strlen(line.text), LOG_RING_TEXT - 1);
}

Test(base_log_ring, a_slot_in_use_drops_the_line)
{
	put(1);
	atomic_store_explicit(&ring.slot[1].stamp, 3,
			      memory_order_relaxed); /* somebody is writing line 1 ... */
	cr_assert(!log_ring_get(&ring, 1, &line));
	atomic_store_explicit(&ring.next, LOG_RING_LINES + 1, memory_order_relaxed);
	put(1); /* ... and a whole round later still is */
	cr_assert_eq(atomic_load_explicit(&ring.dropped, memory_order_relaxed), 1);
	cr_assert(!log_ring_get(&ring, LOG_RING_LINES + 1, &line));
}

Test(base_log_ring, what_is_logged_is_kept_without_its_head)
{
	int null = open("/dev/null", O_WRONLY);

	cr_assert_geq(null, 0);
	cr_assert_eq(dup2(null, STDERR_FILENO), STDERR_FILENO);
	log_keep(&ring);
	cr_assert_eq(log_kept(), &ring);
	log_warn("WEKA-%d: a\nb", 218);
	log_debug("is not written");
	cr_assert(log_ring_get(&ring, 0, &line));
	cr_expect_str_eq(line.text, "WEKA-218: a?b");
	cr_expect_eq(line.level, LOG_WARN);
	cr_assert(!log_ring_get(&ring, 1, &line));
}
