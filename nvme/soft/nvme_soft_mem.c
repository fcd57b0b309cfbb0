/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * mem: drives.  A command is a copy, done in run(); nothing is ever outstanding.
 *
 * The copy is the cost of the whole path: 4 KiB from memory that no cache holds, to memory that
 * another core has just read.  So it is done as a device of this machine would do it: an Intel
 * processor lets a card write into its last cache, others write to memory.  On the latter the
 * stores go past the caches too: an ordinary store first fetches its line, and takes it away from
 * the core that has it.  (On Intel stores past the caches are slower, by 16 % of random reads over
 * shm.)  Memory that is near (nvme_dma_near) is read next by this core, for a socket: there
 * ordinary stores are right.
 *
 * The processor's prefetcher stops at each page, and needs some lines to see where the next one
 * leads: while one command is copied, the first lines of the next are prefetched.  More than these
 * would fill the line buffers and delay the copy itself (298 ns for 4 KiB; 355 with all lines
 * prefetched, 375 without any).
 */
#include "nvme/soft/nvme_soft.h"

#include "base/arena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define BATCH_BYTES    (256u << 10) /* copied in one turn: some 30 us */
#define LINE_BYTES     64u
#define STORE_BYTES    16u   /* of one store past the caches, and its alignment */
#define PREFETCH_BYTES 1024u /* of a command: then the processor has caught on */

struct mem_back {
	struct nvme_soft_back back;
	struct arena *arena;
	char *base;
	enum nvme_mem_copy copy; /* past the caches, through them, or not at all */
};

struct mem_queue {
	char *base;
	struct nvme_dma *dma;
	bool through; /* the caches, whatever is near */
	uint64_t copied_bytes;
	uint64_t through_bytes; /* of these: read with stores through the caches */
};

#if defined(__x86_64__)
/* A line, of which `from` may be unaligned; `to` is aligned. */
static inline void copy_line(char *to, const char *from)
{
	const __m128i *f = (const void *)from;
	__m128i *t = (void *)to;
	const __m128i a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1);
	const __m128i c = _mm_loadu_si128(f + 2), d = _mm_loadu_si128(f + 3);

	_mm_stream_si128(t, a);
	_mm_stream_si128(t + 1, b);
	_mm_stream_si128(t + 2, c);
	_mm_stream_si128(t + 3, d);
}

/* Orders lines that went past the caches before the next store: the completion. */
static inline void copy_end(void)
{
	_mm_sfence();
}
#else
static inline void copy_line(char *to, const char *from)
{
	memcpy(to, from, LINE_BYTES);
}

static inline void copy_end(void)
{
}
#endif

/* Line by line, while as many lines at `next` are asked for, up to PREFETCH_BYTES. */
static void copy_past(char *to, const char *from, size_t size_bytes, const char *next)
{
	size_t at = 0, whole = align_down(size_bytes, LINE_BYTES);
	size_t ahead = min_u64(whole, PREFETCH_BYTES);

	if (unlikely((uintptr_t)to % STORE_BYTES != 0))
		whole = ahead = 0; /* a buffer may begin at any multiple of 4 */
	for (; at < ahead; at += LINE_BYTES) {
		__builtin_prefetch(next + at, 0, 2);
		copy_line(to + at, from + at);
	}
	for (; at < whole; at += LINE_BYTES)
		copy_line(to + at, from + at);
	memcpy(to + at, from + at, size_bytes - at);
}

/* The same through the caches; the processor prefetches long copies by itself. */
static void copy_through(char *to, const char *from, size_t size_bytes, const char *next)
{
	const size_t ahead = min_u64(size_bytes, PREFETCH_BYTES);

	for (size_t at = 0; at < ahead; at += LINE_BYTES)
		__builtin_prefetch(next + at, 0, 2);
	memcpy(to, from, size_bytes);
}

/* Copies to the segments of a read; `next`: source of the next read. */
static void copy_out(const struct nvme_soft_cmd *cmd, const char *drive, const char *next,
		     bool through)
{
	for (uint32_t i = 0; i < cmd->seg_count; i++) {
		if (through)
			copy_through(cmd->seg[i].iov_base, drive, cmd->seg[i].iov_len, next);
		else
			copy_past(cmd->seg[i].iov_base, drive, cmd->seg[i].iov_len, next);
		drive += cmd->seg[i].iov_len;
		next = drive;
	}
}

static void copy_in(const struct nvme_soft_cmd *cmd, char *drive)
{
	for (uint32_t i = 0; i < cmd->seg_count; i++) {
		memcpy(drive, cmd->seg[i].iov_base, cmd->seg[i].iov_len);
		drive += cmd->seg[i].iov_len;
	}
}

static uint32_t mem_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			struct nvme_soft_cmd **done, uint32_t done_max)
{
	struct mem_queue *q = queue;

	ASSERT(cmd_count <= done_max);
	for (uint32_t i = 0; i < cmd_count; i++) {
		const struct nvme_soft_cmd *next = cmd[i + 1 < cmd_count ? i + 1 : i];
		bool through = q->through || nvme__dma_is_near(q->dma, cmd[i]->window);
		char *drive = q->base + cmd[i]->offset_bytes;

		if (cmd[i]->opcode == NVME_CMD_READ)
			copy_out(cmd[i], drive, q->base + next->offset_bytes, through);
		else
			copy_in(cmd[i], drive);
		if (through && cmd[i]->opcode == NVME_CMD_READ)
			q->through_bytes += cmd[i]->size_bytes;
		q->copied_bytes += cmd[i]->size_bytes;
		cmd[i]->status = NVME_SC_SUCCESS;
		done[i] = cmd[i];
	}
	copy_end();
	return cmd_count;
}

/* mem:SIZE?copy=off: leaves the cost of the driver, the rings and the controller. */
static uint32_t idle_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			 struct nvme_soft_cmd **done, uint32_t done_max)
{
	(void)queue;
	ASSERT(cmd_count <= done_max);
	for (uint32_t i = 0; i < cmd_count; i++) {
		cmd[i]->status = NVME_SC_SUCCESS;
		done[i] = cmd[i];
	}
	return cmd_count;
}

/* Intel's Data Direct I/O, since 2012. */
static bool cards_reach_cache(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	return __builtin_cpu_is("intel");
#else
	return false;
#endif
}

static int mem_queue_create(struct nvme_soft_back *back, uint32_t depth, struct nvme_dma *dma,
			    void **queue)
{
	struct mem_queue *q = calloc(1, sizeof(*q));

	(void)depth;
	if (!q)
		return -ENOMEM;
	q->dma = dma;
	q->base = container_of(back, struct mem_back, back)->base;
	q->through = container_of(back, struct mem_back, back)->copy == NVME_COPY_THROUGH;
	*queue = q;
	return 0;
}

static void mem_queue_destroy(void *queue)
{
	free(queue);
}

static void mem_stats(void *queue, struct nvme_stats *stats)
{
	const struct mem_queue *q = queue;

	stats->soft_copied_bytes = q->copied_bytes;
	stats->soft_through_bytes = q->through_bytes;
}

static void mem_note(struct nvme_soft_back *back, char *text, size_t text_size)
{
	const struct mem_back *m = container_of(back, struct mem_back, back);

	if (m->copy == NVME_COPY_OFF)
		snprintf(text, text_size, "copy=off: it moves no data, and keeps none");
	else if (arena_pages(m->arena) == ARENA_SMALL)
		snprintf(text, text_size, "no huge pages: random reads will be slower");
}

static void mem_destroy(struct nvme_soft_back *back)
{
	struct mem_back *m = container_of(back, struct mem_back, back);

	arena_destroy(m->arena);
	free(m);
}

/* Returns the memory that the kernel can give without swapping; UINT64_MAX if it does not say. */
static uint64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = UINT64_MAX >> 10;
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	}
	if (file)
		fclose(file);
	return (uint64_t)kib << 10;
}

int nvme__soft_mem_create(struct nvme_soft_back **out, const struct nvme_name *name,
			  const char *text, char *err_text, size_t err_text_size)
{
	uint64_t available = available_bytes();
	struct mem_back *m;
	int err;

	/* Taking more than is available would not fail: the kernel would kill a process. */
	if (name->size_bytes > available) {
		nvme__err_text(err_text, err_text_size, text, "only %llu MiB of memory are free",
			       (unsigned long long)available >> 20);
		return -ENOMEM;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	err = arena_create(name->size_bytes, &m->arena);
	if (err) {
		nvme__err_text(err_text, err_text_size, text, "there is not so much memory");
		free(m);
		return err;
	}
	m->base = arena_base(m->arena);
	m->copy = name->copy;
	if (m->copy == NVME_COPY_AS_CARDS)
		m->copy = cards_reach_cache() ? NVME_COPY_THROUGH : NVME_COPY_PAST;
	m->back = (struct nvme_soft_back){
		.traits = { .nblocks = name->size_bytes / NVME_BLOCK_SIZE,
			    .lba_shift = NVME_BLOCK_SHIFT,
			    .atomic_lbas = 1,
			    .mdts = 5,
			    .model = "weka soft controller, memory",
			    .serial = "mem" },
		.batch_bytes = BATCH_BYTES,
		.queue_create = mem_queue_create,
		.queue_destroy = mem_queue_destroy,
		.run = m->copy == NVME_COPY_OFF ? idle_run : mem_run,
		.note = mem_note,
		.stats = mem_stats,
		.destroy = mem_destroy,
	};
	*out = &m->back;
	return 0;
}
