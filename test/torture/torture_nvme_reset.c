/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive is reset, and single queue pairs of it are created again, under threads that use them,
 * and that come and go.
 *
 * Each thread makes itself a queue pair of one memory drive, writes and reads back, retries what a
 * reset cut off, sleeps now and then, stops it with I/Os in flight, and makes another one; one more
 * thread owns the drive, steps it, and requests resets all the time.  The controller lives in this
 * process, so TSan sees a thread that runs it while it is taken down.  Besides, each byte read is
 * compared, and each I/O counted.
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
#include <time.h>

#define THREADS   4u
#define DEPTH     8u
#define IOS       4u
#define RESETS    150u
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
	struct nvme_drive *drive;
	uint64_t taken, returned, retried, sleeps, made, put_off;
};

static _Atomic bool over;
static _Atomic uint32_t gone; /* threads */

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
		ASSERT(io->status == -ECANCELED && !io->quarantined);
		u->retried += io->retry; /* else it was the queue pair's end */
		return;                  /* it is submitted again as it is */
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

/* A reset may be under way, now and again. */
static void come(struct user *u)
{
	struct timespec pause = { .tv_nsec = 50000 };
	int err;

	while ((err = nvme_qpair_create(u->drive, DEPTH, &u->qp))) {
		ASSERT(err == -EAGAIN);
		u->put_off++;
		nanosleep(&pause, NULL);
	}
	u->made++;
}

static void go(struct user *u)
{
	nvme_qpair_stop(u->qp);
	while (nvme_qpair_in_flight(u->qp))
		collect(u);
	nvme_qpair_destroy(u->qp);
}

static void *user_main(void *arg)
{
	struct user *u = arg;

	for (uint32_t i = 0; i < IOS; i++) {
		u->io[i].op = NVME_READ;
		next_io(u, i);
	}
	for (uint64_t round = 1; !atomic_load_explicit(&over, memory_order_relaxed); round++) {
		for (uint32_t i = 0; i < IOS; i++) {
			int err = u->busy[i] ? -EBUSY : nvme_submit(u->qp, &u->io[i]);

			ASSERT(err == 0 || err == -EBUSY || err == -EAGAIN);
			if (err == 0) {
				u->busy[i] = true;
				u->taken++;
			}
		}
		nvme_ring(u->qp);
		if (round % (200 + 50 * u->index) == 0) {
			go(u);
			come(u);
		}
		collect(u);
		if (round % 64 == u->index)
			nap(u);
	}
	go(u);
	atomic_fetch_add_explicit(&gone, 1, memory_order_relaxed);
	return NULL;
}

/* With all of it, or with one queue pair, if that is there to stay. */
static void find_fault(struct nvme_drive *drive, uint32_t qid)
{
	nvme__helm_take(drive);
	if (qid && (!drive->qpair[qid] || drive->qpair[qid]->leaving))
		qid = 0;
	nvme__trouble(drive, NVME_CAUSE_FATAL, qid, clock_now_ns());
	nvme__helm_leave(drive);
}

/* Steps until the drive is well again, now and then finding fault with it on the way. */
static void own(struct nvme_drive *drive, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		find_fault(drive, n % 3 == 0 ? 1 + n / 3 % THREADS : 0);
		while (nvme_drive_health(drive) != NVME_HEALTH_GOOD) {
			(void)nvme_drive_step(drive, clock_now_ns());
			ASSERT(nvme_drive_health(drive) != NVME_HEALTH_DEAD);
			sched_yield();
		}
		for (uint32_t i = 0; i < n % 64; i++) {
			(void)nvme_drive_step(drive, clock_now_ns());
			sched_yield();
		}
	}
}

static void begin(struct user *u, struct nvme_drive *drive, struct nvme_dma *dma)
{
	int err;

	u->drive = drive;
	come(u);
	u->buf = aligned_alloc(NVME_BLOCK_SIZE, (uint64_t)IOS * IO_BYTES);
	ASSERT(u->buf);
	err = nvme_dma_map(dma, u->buf, (uint64_t)IOS * IO_BYTES, &u->iova);
	ASSERT(err == 0);
}

static void end(struct user *u, struct nvme_dma *dma)
{
	ASSERT(u->taken == u->returned);
	nvme_dma_unmap(dma, u->iova, (uint64_t)IOS * IO_BYTES);
	free(u->buf);
}

int main(void)
{
	struct nvme_options options = { .qpair_count_max = THREADS };
	static struct user user[THREADS];
	uint64_t taken = 0, retried = 0, sleeps = 0, made = 0, put_off = 0;
	struct nvme_drive_counts counts;
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
	while (atomic_load_explicit(&gone, memory_order_relaxed) < THREADS) {
		(void)nvme_drive_step(drive, clock_now_ns());
		sched_yield();
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(user[i].thread, NULL);
		end(&user[i], dma);
		taken += user[i].taken;
		retried += user[i].retried;
		sleeps += user[i].sleeps;
		made += user[i].made;
		put_off += user[i].put_off;
	}
	ASSERT(retried > 0 && sleeps > 0 && made > THREADS && put_off > 0);
	nvme_drive_counts(drive, &counts);
	ASSERT(counts.quarantined_bytes == 0);
	ASSERT(nvme_dma_fault_count(dma) == 0);
	nvme_close(drive);
	nvme_dma_destroy(dma);
	printf("torture_nvme_reset: %u resets under %u threads, %llu I/Os, %llu of them cut off "
	       "and retried, %llu naps, %llu queue pairs made, %llu times not at once\n",
	       RESETS, THREADS, (unsigned long long)taken, (unsigned long long)retried,
	       (unsigned long long)sleeps, (unsigned long long)made, (unsigned long long)put_off);
	return 0;
}
