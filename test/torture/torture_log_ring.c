/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Three threads put lines, one reads them: each line that it gets is whole.  Run under TSan. */
#include "base/log_ring.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WRITERS = 3, LINES = 30000 };
static struct log_ring ring;

/* A line of one letter: mixed letters would be of two lines. */
static void *writer(void *arg)
{
	char text[LOG_RING_TEXT];

	for (uint32_t i = 0; i < LINES; i++) {
		memset(text, 'a' + (int)(i % 26), sizeof(text) - 1);
		text[sizeof(text) - 1] = 0;
		log_ring_put(&ring, (uint64_t)text[0], LOG_INFO, text);
	}
	return arg;
}

int main(void)
{
	static struct log_ring_line line;
	pthread_t thread[WRITERS];
	uint64_t from = 0, got = 0;

	for (uint32_t i = 0; i < WRITERS; i++)
		ASSERT(pthread_create(&thread[i], NULL, writer, NULL) == 0);
	while (from < (uint64_t)WRITERS * LINES) {
		if (!log_ring_get(&ring, from, &line)) {
			if (atomic_load(&ring.next) == (uint64_t)WRITERS * LINES)
				break; /* the rest was dropped */
			continue;
		}
		ASSERT(line.number >= from && line.wall_ns == (uint64_t)line.text[0]);
		ASSERT(strspn(line.text, (char[]){ line.text[0], 0 }) == LOG_RING_TEXT - 1);
		from = line.number + 1;
		got++;
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		ASSERT(pthread_join(thread[i], NULL) == 0);
	ASSERT(got > 0);
	printf("torture_log_ring: %llu lines read, whole\n", (unsigned long long)got);
	return 0;
}
