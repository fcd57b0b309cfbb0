/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bare pipeline: the least work of any appliance that serves one reader from memory.
 *
 *   core A                       full ring                       core B
 *   memcpy 2 GiB[random] --> buffer i  ------------------------>  CRC32C of each 4 KiB
 *          ^                                                         |
 *          +-------------------- empty ring -------------------------+
 *
 * `depth` page-aligned buffers circulate.  There is no protocol, no name and no drive: so a
 * workload's ratio to it is the share of the machine that the reader gets.
 *
 *  (1) Each buffer is in exactly one ring or in one thread's hands
 *      [test_bench_pipe:all_buffers_are_there_for_the_next_run].
 *  (2) Outside of bench_pipe_run() all of them are in the empty ring
 *      [test_bench_pipe:all_buffers_are_there_for_the_next_run].
 *
 *   R1 -> A1   when the copier sees `running`, what the run set up before is set up;
 *   R2 -> A2   once `stopped` is seen, the copier's last buffer is in the full ring.
 */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"
#include "base/spsc.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_BYTES (2ull << 30)
#define DEPTH_MAX    1024u

struct bench_pipe {
	struct arena *arena;
	uint8_t *source;
	uint64_t source_bytes;
	uint8_t *buffers;
	uint64_t size_bytes;
	uint32_t depth;
	bool sequential;
	int core_copy;
	int core_sum;
	struct spsc full;
	struct spsc empty;
	void *full_slot[DEPTH_MAX];
	void *empty_slot[DEPTH_MAX];
	pthread_t copier;
	sem_t go;
	_Atomic bool quit;
	_Atomic bool running;
	_Atomic bool stopped; /* the copier has stopped filling buffers */
	uint64_t sums;        /* so that no sum is optimized away */
	uint64_t next;
	struct rand_state rand;
};

static const uint8_t *next_piece(struct bench_pipe *p)
{
	uint64_t pieces = p->source_bytes / p->size_bytes;
	uint64_t i = p->sequential ? p->next++ % pieces : rand_below(&p->rand, pieces);

	return p->source + i * p->size_bytes;
}

static void copy_until_stopped(struct bench_pipe *p)
{
	while (atomic_load_explicit(&p->running, memory_order_acquire)) { /* A1 */
		uint8_t *buffer = spsc_pop(&p->empty);

		if (!buffer)
			continue;
		memcpy(buffer, next_piece(p), p->size_bytes);
		ASSERT(spsc_push(&p->full, buffer));
	}
	atomic_store_explicit(&p->stopped, true, memory_order_release); /* R2 */
}

static void *copier_main(void *arg)
{
	struct bench_pipe *p = arg;

	for (;;) {
		while (sem_wait(&p->go) != 0)
			;
		if (atomic_load_explicit(&p->quit, memory_order_relaxed))
			return NULL;
		copy_until_stopped(p);
	}
}

static void sum_one(struct bench_pipe *p, uint8_t *buffer)
{
	for (uint64_t at = 0; at < p->size_bytes; at += BLOCK_SIZE)
		p->sums += crc32c(buffer + at, min_u64(BLOCK_SIZE, p->size_bytes - at));
	ASSERT(spsc_push(&p->empty, buffer));
}

int bench_pipe_run(void *pipe, double seconds, struct bench_run *run)
{
	struct bench_pipe *p = pipe;
	uint64_t start, end, ops = 0, now;
	uint8_t *buffer;

	bench_pin(p->core_sum);
	atomic_store_explicit(&p->stopped, false, memory_order_relaxed);
	atomic_store_explicit(&p->running, true, memory_order_release); /* R1 */
	sem_post(&p->go);
	start = clock_now_ns();
	end = start + (uint64_t)(seconds * 1e9);
	do {
		for (uint32_t spin = 0; spin < 256; spin++) {
			buffer = spsc_pop(&p->full);
			if (buffer) {
				sum_one(p, buffer);
				ops++;
			}
		}
		now = clock_now_ns();
	} while (now < end || ops == 0);
	atomic_store_explicit(&p->running, false, memory_order_release); /* R1 */
	while (!atomic_load_explicit(&p->stopped, memory_order_acquire)) /* A2 */
		;
	while ((buffer = spsc_pop(&p->full)))
		ASSERT(spsc_push(&p->empty, buffer));
	run->ops = ops;
	run->bytes = ops * p->size_bytes;
	run->ns = now - start;
	return 0;
}

int bench_copy_run(void *pipe, double seconds, struct bench_run *run)
{
	struct bench_pipe *p = pipe;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), ops = 0, now;

	do {
		for (uint32_t i = 0; i < p->depth; i++)
			memcpy(p->buffers + i * align_up(p->size_bytes, BLOCK_SIZE), next_piece(p),
			       p->size_bytes);
		ops += p->depth;
		now = clock_now_ns();
	} while (now < end);
	run->ops = ops;
	run->bytes = ops * p->size_bytes;
	run->ns = now - start;
	return 0;
}

static int take_memory(struct bench_pipe *p)
{
	uint64_t stride = align_up(p->size_bytes, BLOCK_SIZE);
	int err = arena_create(p->source_bytes + p->depth * stride + (2u << 20), &p->arena);

	if (err)
		return err;
	p->source = arena_alloc(p->arena, p->source_bytes, BLOCK_SIZE);
	p->buffers = arena_alloc(p->arena, p->depth * stride, BLOCK_SIZE);
	ASSERT(p->source && p->buffers);
	for (uint64_t i = 0; i < p->source_bytes / sizeof(uint64_t); i += 8)
		((uint64_t *)(void *)p->source)[i] = rand_u64(&p->rand);
	for (uint32_t i = 0; i < p->depth; i++)
		ASSERT(spsc_push(&p->empty, p->buffers + i * stride));
	return 0;
}

/* Pinned from its first instruction: under a real-time policy it would never run beside us. */
static int start_copier(struct bench_pipe *p)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int err = -pthread_attr_init(&attr);

	if (err)
		return err;
	CPU_ZERO(&set);
	if (p->core_copy >= 0) {
		CPU_SET((size_t)p->core_copy, &set);
		err = -pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	}
	if (!err)
		err = -pthread_create(&p->copier, &attr, copier_main, p);
	pthread_attr_destroy(&attr);
	return err;
}

int bench__pipe_create(struct bench_pipe **out, uint64_t source_bytes, uint64_t size_bytes,
		       uint32_t depth, bool sequential, const struct bench_conf *conf)
{
	struct bench_pipe *p;
	uint32_t slots = 1;
	int err;

	if (depth == 0 || depth > DEPTH_MAX || size_bytes == 0 || size_bytes > source_bytes)
		return -EINVAL;
	while (slots < depth)
		slots *= 2;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->source_bytes = source_bytes;
	p->size_bytes = size_bytes;
	p->depth = depth;
	p->sequential = sequential;
	p->core_copy = conf->core_appliance;
	p->core_sum = conf->core_client;
	rand_seed(&p->rand, 1);
	spsc_init(&p->full, p->full_slot, slots);
	spsc_init(&p->empty, p->empty_slot, slots);
	err = take_memory(p);
	if (err)
		goto free_pipe;
	sem_init(&p->go, 0, 0);
	err = start_copier(p);
	if (err)
		goto destroy_arena;
	*out = p;
	return 0;

destroy_arena:
	arena_destroy(p->arena);
free_pipe:
	free(p);
	return err;
}

int bench_pipe_create(struct bench_pipe **out, uint64_t size_bytes, uint32_t depth, bool sequential,
		      const struct bench_conf *conf)
{
	return bench__pipe_create(out, SOURCE_BYTES, size_bytes, depth, sequential, conf);
}

const uint8_t *bench_pipe_source(const struct bench_pipe *p, uint64_t *bytes)
{
	*bytes = p->source_bytes;
	return p->source;
}

void bench_pipe_destroy(struct bench_pipe *p)
{
	if (!p)
		return;
	atomic_store_explicit(&p->quit, true, memory_order_relaxed);
	sem_post(&p->go);
	pthread_join(p->copier, NULL);
	sem_destroy(&p->go);
	arena_destroy(p->arena);
	free(p);
}
