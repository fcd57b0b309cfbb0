/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * mem: drives.  A command is a copy, done in run(); nothing is ever outstanding.
 *
 * The copy is the cost of the whole path: 4 KiB from memory that no cache holds.  The
 * processor's prefetcher stops at each page, so while one command is copied the lines of
 * the next one are asked for.
 */
#include "nvme/nvme_soft.h"

#include "base/arena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES    (256u << 10) /* copied in one turn: some 30 us */
#define LINE_BYTES     64u
#define PREFETCH_BYTES 4096u /* of the next command: what it costs to get the prefetcher going */

struct mem_back {
	struct nvme_soft_back back;
	struct arena *arena;
	char *base;
};

struct mem_queue {
	char *base;
	uint64_t copied_bytes;
};

static void prefetch(const char *from, uint32_t size_bytes)
{
	for (uint32_t at = 0; at < min_u32(size_bytes, PREFETCH_BYTES); at += LINE_BYTES)
		__builtin_prefetch(from + at, 0, 3);
}

static void copy(const struct nvme_soft_cmd *cmd, char *drive)
{
	for (uint32_t i = 0; i < cmd->seg_count; i++) {
		if (cmd->opcode == NVME_CMD_READ)
			memcpy(cmd->seg[i].iov_base, drive, cmd->seg[i].iov_len);
		else
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
		if (i + 1 < cmd_count && cmd[i + 1]->opcode == NVME_CMD_READ)
			prefetch(q->base + cmd[i + 1]->offset_bytes, cmd[i + 1]->size_bytes);
		copy(cmd[i], q->base + cmd[i]->offset_bytes);
		q->copied_bytes += cmd[i]->size_bytes;
		cmd[i]->status = NVME_SC_SUCCESS;
		done[i] = cmd[i];
	}
	return cmd_count;
}

static int mem_queue_create(struct nvme_soft_back *back, uint32_t depth, struct nvme_dma *dma,
			    void **queue)
{
	struct mem_queue *q = calloc(1, sizeof(*q));

	(void)depth;
	(void)dma;
	if (!q)
		return -ENOMEM;
	q->base = container_of(back, struct mem_back, back)->base;
	*queue = q;
	return 0;
}

static void mem_queue_destroy(void *queue)
{
	free(queue);
}

static void mem_stats(void *queue, struct nvme_stats *stats)
{
	stats->soft_copied_bytes = ((const struct mem_queue *)queue)->copied_bytes;
}

static void mem_note(struct nvme_soft_back *back, char *text, size_t text_size)
{
	const struct mem_back *m = container_of(back, struct mem_back, back);

	if (arena_pages(m->arena) == ARENA_SMALL)
		snprintf(text, text_size, "no huge pages: random reads will be slower");
}

static void mem_destroy(struct nvme_soft_back *back)
{
	struct mem_back *m = container_of(back, struct mem_back, back);

	arena_destroy(m->arena);
	free(m);
}

int nvme__soft_mem_create(struct nvme_soft_back **out, const struct nvme_name *name,
			  const char *text, char *err_text, size_t err_text_size)
{
	struct mem_back *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	err = arena_create(name->size_bytes, &m->arena);
	if (err) {
		nvme__err_text(err_text, err_text_size, text, "there is not so much memory");
		free(m);
		return err;
	}
	m->base = arena_base(m->arena);
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
		.run = mem_run,
		.note = mem_note,
		.stats = mem_stats,
		.destroy = mem_destroy,
	};
	*out = &m->back;
	return 0;
}
