/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Instructions and cycles of a thread, counted by the processor.  Virtual machines often have
 * no such counters; then nothing is reported ("make bench-instructions" counts otherwise).
 */
#define _GNU_SOURCE
#include "bench/bench.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_counter(uint64_t what)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = what,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void bench_count_begin(struct bench_count *c)
{
	c->instructions_fd = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
	c->cycles_fd = open_counter(PERF_COUNT_HW_CPU_CYCLES);
}

static uint64_t close_counter(int fd)
{
	uint64_t value = 0;

	if (fd < 0)
		return 0;
	if (read(fd, &value, sizeof(value)) != sizeof(value))
		value = 0;
	close(fd);
	return value;
}

void bench_count_end(struct bench_count *c, uint64_t *instructions, uint64_t *cycles)
{
	*instructions = close_counter(c->instructions_fd);
	*cycles = close_counter(c->cycles_fd);
}
