/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive is reset, and single queue pairs of it are made anew, under threads that use them.
 *
 * Each thread owns a queue pair of one memory drive, writes and reads back, retries what a reset
 * cut off, and sleeps now and then; one more thread owns the drive, steps it, and finds fault with
 * it all the time.  The controller lives in this process: whoever runs it while it is taken down
 * is seen by TSan, which is the judge, with each byte that is read and each I/O that is counted.
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS   3u
#define DEPTH     8u
#define IOS       4u
#define RESETS    400u
#define IO_BLOCKS 2u
#define IO_BYTES  (IO_BLOCKS * NVME_BLOCK_SIZE)

struct user {
	pthread_t thread;
	struct nvme_qpair *qp;
	uint32_t index;
	uint8_t *buf; /* IOS buffers */
	uint64_t iova;
	struct nvme_io io[IOS];
	bool busy[IOS];
	uint8_t stamp[IOS]; /* what was written last, and is read next */
	uint64_t taken, returned, retried, sleeps;
};

static _Atomic bool over;

static uint8_t *buffer(const struct user *u, uint32_t i)
{
	return u->buf + (uint64_t)i * IO_BYTES;
}

/* Reads follow writes of the same blocks. */
static void next_io(struct user *u, uint32_t i)
{
	bool write = u->io[i].op == NVME_READ;

	u->io[i] = (struct nvme_io){ .op = write ? NVME_WRITE : NVME_READ,
				     .nblocks = IO_BLOCKS,
				     .block = (u->index * IOS + i) * IO_BLOCKS,
				     .iova = u->iova + (uint64_t)i * IO_BYTES,
				     .owner = &u->busy[i] };
	u->stamp[i] = (uint8_t)(u->stamp[i] + write);
	memset(buffer(u, i), write ? u->stamp[i] : 0xff, IO_BYTES);
}

static void came_back(struct user *u, struct nvme_io *io)
{
	uint32_t i = (uint32_t)(io - u->io);

	ASSERT(u->busy[i]); /* once each */
	u->busy[i] = false;
	u->returned++;
	if (io->status) {
		ASSERT(io->status == -ECANCELED && io->retry && !io->quarantined);
		u->retried++;
		return; /* it is submitted again as it is */
	}
	for (uint32_t at = 0; io->op == NVME_READ && at < IO_BYTES; at += 512)
		ASSERT(buffer(u, i)[at] == u->stamp[i]);
	next_io(u, i);
}

static void collect(struct user *u)
{
	struct nvme_io *done[IOS];
	uint32_t count = nvme_poll(u->qp, done, IOS);

	for (uint32_t i = 0; i < count; i++)
		came_back(u, done[i]);
}

static void nap(struct user *u)
{
	struct pollfd fd = { .fd = nvme_qpair_fd(u->qp), .events = POLLIN };

	if (nvme_qpair_arm(u->qp)) {
		(void)poll(&fd, 1, 1);
		u->sleeps++;
	}
	nvme_qpair_disarm(u->qp);
}

static void *user_main(void *arg)
{
	struct user *u = arg;

	for (uint32_t i = 0; i < IOS; i++) {
		u->io[i].op = NVME_READ;
		next_io(u, i);
	}
	for (uint64_t round = 0; !atomic_load_explicit(&over, memory_order_relaxed); round++) {
		for (uint32_t i = 0; i < IOS; i++) {
			int err = u->busy[i] ? -EBUSY : nvme_submit(u->qp, &u->io[i]);

			ASSERT(err == 0 || err == -EBUSY || err == -EAGAIN);
			if (err == 0) {
				u->busy[i] = true;
				u->taken++;
			}
		}
		nvme_ring(u->qp);
		collect(u);
		if (round % 64 == u->index)
			nap(u);
	}
	return NULL;
}

/* Steps until the drive is well again, now and then finding fault with it on the way. */
static void own(struct nvme_drive *drive, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		nvme__trouble(drive, NVME_CAUSE_FATAL, n % 3 == 0 ? 1 + n / 3 % THREADS : 0,
			      clock_now_ns());
		while (nvme_drive_health(drive) != NVME_HEALTH_GOOD) {
			(void)nvme_drive_step(drive, clock_now_ns());
			ASSERT(nvme_drive_health(drive) != NVME_HEALTH_DEAD);
			sched_yield();
		}
		for (uint32_t i = 0; i < n % 16; i++) {
			(void)nvme_drive_step(drive, clock_now_ns());
			sched_yield();
		}
	}
}

static void begin(struct user *u, struct nvme_drive *drive, struct nvme_dma *dma)
{
	int err = nvme_qpair_create(drive, DEPTH, &u->qp);

	ASSERT(err == 0);
	u->buf = aligned_alloc(NVME_BLOCK_SIZE, (uint64_t)IOS * IO_BYTES);
	ASSERT(u->buf);
	err = nvme_dma_map(dma, u->buf, (uint64_t)IOS * IO_BYTES, &u->iova);
	ASSERT(err == 0);
}

static void end(struct user *u, struct nvme_dma *dma)
{
	nvme_qpair_stop(u->qp);
	while (nvme_qpair_in_flight(u->qp)) {
		struct nvme_io *done[IOS];

		u->returned += nvme_poll(u->qp, done, IOS);
	}
	ASSERT(u->taken == u->returned);
	nvme_qpair_destroy(u->qp);
	nvme_dma_unmap(dma, u->iova, (uint64_t)IOS * IO_BYTES);
	free(u->buf);
}

int main(void)
{
	struct nvme_options options = { .qpair_count_max = THREADS };
	static struct user user[THREADS];
	uint64_t taken = 0, retried = 0, sleeps = 0;
	char err_text[NVME_ERR_TEXT];
	struct nvme_drive *drive;
	struct nvme_dma *dma;
	int err = nvme_dma_create(&dma);

	ASSERT(err == 0);
	err = nvme_open(&drive, "mem:4M", dma, &options, err_text, sizeof(err_text));
	ASSERT(err == 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		user[i].index = i;
		begin(&user[i], drive, dma);
	}
	(void)nvme_drive_step(drive, clock_now_ns());
	for (uint32_t i = 0; i < THREADS; i++) {
		err = pthread_create(&user[i].thread, NULL, user_main, &user[i]);
		ASSERT(err == 0);
	}
	own(drive, RESETS);
	atomic_store_explicit(&over, true, memory_order_relaxed);
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(user[i].thread, NULL);
		end(&user[i], dma);
		taken += user[i].taken;
		retried += user[i].retried;
		sleeps += user[i].sleeps;
	}
	ASSERT(retried > 0 && sleeps > 0);
	ASSERT(nvme_dma_fault_count(dma) == 0);
	nvme_close(drive);
	nvme_dma_destroy(dma);
	printf("torture_nvme_reset: %u resets under %u threads, %llu I/Os, %llu of them cut off "
	       "and retried, %llu naps\n",
	       RESETS, THREADS, (unsigned long long)taken, (unsigned long long)retried,
	       (unsigned long long)sleeps);
	return 0;
}
