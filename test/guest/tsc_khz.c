/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * How fast this machine's time stamp counter goes, in kHz: QEMU without KVM hands it to the guest
 * as it is.  A guest that measures it on a busy machine believes in hours that were minutes.
 */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

/* The counter, and when it was read: the try of several that took least. */
static uint64_t look(uint64_t *now_ns)
{
	uint64_t best_ns = UINT64_MAX, ticks = 0;

	for (int i = 0; i < 20; i++) {
		uint64_t before_ns = clock_now_ns(), t = __rdtsc(), after_ns = clock_now_ns();

		if (after_ns - before_ns >= best_ns)
			continue;
		best_ns = after_ns - before_ns;
		*now_ns = before_ns + best_ns / 2;
		ticks = t;
	}
	return ticks;
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 50000000 };
	uint64_t begin_ns, end_ns, begin = look(&begin_ns), end;

	nanosleep(&pause, NULL);
	end = look(&end_ns);
	printf("%" PRIu64 "\n", (end - begin) * 1000000 / (end_ns - begin_ns));
	return 0;
}
