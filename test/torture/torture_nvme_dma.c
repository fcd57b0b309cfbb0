/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory is mapped and unmapped under polling queue pairs.
 *
 * Each polling thread has a queue pair of one memory drive and reads and writes through
 * mappings that a control thread makes, hands over, and takes back after the last I/O
 * that named them: the shape in which clients come and go.  TSan is the judge, and each
 * byte that is read.
 */
#include "nvme/nvme.h"

#include "base/num.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sched.h>

#define POLLERS   2u
#define ROUNDS    5000u
#define BUF_PAGES 4u

struct poller {
	pthread_t thread;
	struct nvme_qpair *qp;
	uint64_t first_block; /* blocks of its own */
	/* R1 -> A1: what the mapping is, before the turn that hands it over; and back. */
	_Atomic uint32_t turn; /* odd: the poller's; even: the control thread's */
	uint8_t *buf;
	uint64_t iova;
};

static void run(struct nvme_qpair *qp, struct nvme_io *io)
{
	struct nvme_io *done[1];
	int err = nvme_submit(qp, io);

	ASSERT(err == 0);
	nvme_ring(qp);
	while (nvme_poll(qp, done, 1) == 0)
		;
	ASSERT(done[0] == io && io->status == 0);
}

static void *poller_main(void *arg)
{
	struct poller *p = arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct nvme_io io = { .op = NVME_WRITE, .nblocks = BUF_PAGES };

		while (atomic_load_explicit(&p->turn, memory_order_acquire) != 2 * i + 1) /* A1 */
			sched_yield();
		io.block = p->first_block;
		io.iova = p->iova;
		memset(p->buf, (int)(i & 0xff), BUF_PAGES * NVME_BLOCK_SIZE);
		run(p->qp, &io);
		memset(p->buf, 0xff, BUF_PAGES * NVME_BLOCK_SIZE);
		io.op = NVME_READ;
		run(p->qp, &io);
		for (uint32_t at = 0; at < BUF_PAGES * NVME_BLOCK_SIZE; at += 512)
			ASSERT(p->buf[at] == (i & 0xff));
		atomic_store_explicit(&p->turn, 2 * i + 2, memory_order_release); /* R1 */
	}
	return NULL;
}

static void hand_over(struct nvme_dma *dma, struct poller *p, uint32_t round)
{
	int err;

	p->buf = aligned_alloc(NVME_BLOCK_SIZE, BUF_PAGES * NVME_BLOCK_SIZE);
	ASSERT(p->buf);
	err = nvme_dma_map(dma, p->buf, BUF_PAGES * NVME_BLOCK_SIZE, &p->iova);
	ASSERT(err == 0);
	atomic_store_explicit(&p->turn, 2 * round + 1, memory_order_release); /* R1 */
}

static void take_back(struct nvme_dma *dma, struct poller *p, uint32_t round)
{
	while (atomic_load_explicit(&p->turn, memory_order_acquire) != 2 * round + 2) /* A1 */
		sched_yield();
	nvme_dma_unmap(dma, p->iova, BUF_PAGES * NVME_BLOCK_SIZE);
	free(p->buf);
}

int main(void)
{
	struct nvme_options options = { .qpair_count_max = POLLERS };
	static struct poller poller[POLLERS];
	char err_text[NVME_ERR_TEXT];
	struct nvme_drive *drive;
	struct nvme_dma *dma;
	int err = nvme_dma_create(&dma);

	ASSERT(err == 0);
	err = nvme_open(&drive, "mem:4M", dma, &options, err_text, sizeof(err_text));
	ASSERT(err == 0);
	for (uint32_t i = 0; i < POLLERS; i++) {
		err = nvme_qpair_create(drive, 8, &poller[i].qp);
		ASSERT(err == 0);
		poller[i].first_block = 100ull * i;
		err = pthread_create(&poller[i].thread, NULL, poller_main, &poller[i]);
		ASSERT(err == 0);
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < POLLERS; i++)
			hand_over(dma, &poller[i], round);
		for (uint32_t i = 0; i < POLLERS; i++)
			take_back(dma, &poller[i], round);
	}
	for (uint32_t i = 0; i < POLLERS; i++) {
		pthread_join(poller[i].thread, NULL);
		nvme_qpair_destroy(poller[i].qp);
	}
	ASSERT(nvme_dma_fault_count(dma) == 0);
	nvme_close(drive);
	nvme_dma_destroy(dma);
	printf("torture_nvme_dma: %u mappings came and went under %u polling queue pairs\n",
	       ROUNDS * POLLERS, POLLERS);
	return 0;
}
