/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "bench/bench_cold.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int bench_cold_begin(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	ssize_t wrote = -1;

	if (fd >= 0) {
		sync(); /* only clean pages can be dropped */
		wrote = write(fd, "3\n", 2);
		close(fd);
	}
	return wrote == 2 ? 0 : O_DIRECT;
}

/* "36,100" */
static void print_rate(char out[32], double rate)
{
	char digits[32];
	int n = snprintf(digits, sizeof(digits), "%.0f", rate), at = 0;

	for (int i = 0; i < n && at < 30; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = '\0';
}

void bench_cold_table(const struct bench_cold_row *rows, uint32_t count, uint32_t base)
{
	char files[32], mb[32];

	printf("  %-44s %10s %8s %10s\n", "who reads the files", "files/s", "MB/s", "x disk");
	for (uint32_t i = 0; i < count; i++) {
		print_rate(files, rows[i].files_per_s);
		print_rate(mb, rows[i].bytes_per_s / 1e6);
		printf("  %-44s %10s %8s %10.1f\n", rows[i].name, files, mb,
		       rows[base].files_per_s > 0 ? rows[i].files_per_s / rows[base].files_per_s
						  : 0);
	}
	fflush(stdout);
}
