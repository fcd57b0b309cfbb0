/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive under load is told, again and again, to be gone, so that nothing but a function-level
 * reset is tried: a real kernel's, which takes 100 ms and more.
 *
 *	flr DRIVE RESETS
 *
 *   - every block is written, read back and compared, before, during and after
 *   - the drive comes back each time
 *   - meanwhile this thread goes on polling: it waits for no kernel
 *
 * Destroys what the drive holds.
 */
#include "base/arena.h"
#include "base/clock.h"
#include "base/le.h"
#include "nvme/nvme_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16, POLLS_LEAST = 10 };

#define LOAD_NS  (100 * NS_PER_MS) /* between two resets */
#define LIMIT_NS (60 * NS_PER_S)   /* of one             */

struct slot {
	struct nvme_io io;
	uint64_t *bytes; /* NVME_BLOCK_SIZE */
	uint64_t turn;   /* what is, or will be, written to its block */
	bool out;
};

static struct slot slots[SLOTS];
static struct nvme_drive *drive;
static struct nvme_qpair *qp;
static uint64_t compared, again;

static void die(const char *what, int err)
{
	char line[200];

	while (nvme_drive_line(drive, line, sizeof(line)))
		printf("# %s\n", line);
	printf("not ok %s: %s\n", what, strerror(-err));
	exit(1);
}

static void fill(struct slot *s, uint64_t with)
{
	for (uint32_t i = 0; i < NVME_BLOCK_SIZE / sizeof(*s->bytes); i++)
		s->bytes[i] = with;
}

/* Prepares the slot's next I/O: after a write a read; after a read, which is compared, a write of
 * new bytes. */
static void next(struct slot *s)
{
	if (s->io.op == NVME_WRITE) {
		fill(s, 0);
		s->io.op = NVME_READ;
		return;
	}
	for (uint32_t i = 0; i < NVME_BLOCK_SIZE / sizeof(*s->bytes); i++)
		if (s->bytes[i] != s->turn)
			die("a block is not what was written", -EILSEQ);
	compared++;
	fill(s, ++s->turn);
	s->io.op = NVME_WRITE;
}

static void poll_once(bool submit)
{
	struct nvme_io *done[SLOTS];
	uint32_t n;

	(void)nvme_drive_step(drive, clock_now_ns());
	n = nvme_poll(qp, done, SLOTS);
	for (uint32_t i = 0; i < n; i++) {
		struct slot *s = done[i]->owner;

		s->out = false;
		again += done[i]->status && done[i]->retry;
		if (done[i]->status && !done[i]->retry)
			die("an I/O failed", done[i]->status);
		if (done[i]->status == 0)
			next(s);
	}
	for (uint32_t i = 0; submit && i < SLOTS; i++) {
		int err = slots[i].out ? -EAGAIN : nvme_submit(qp, &slots[i].io);

		slots[i].out |= err == 0;
		if (err && err != -EAGAIN)
			die("an I/O was refused", err);
	}
	nvme_ring(qp);
}

static void load(void)
{
	for (uint64_t until = clock_now_ns() + LOAD_NS; clock_now_ns() < until;)
		poll_once(true);
}

/* Returns how often this thread polled while the device was being reset. */
static uint64_t reset(void)
{
	uint64_t until = clock_now_ns() + LIMIT_NS, polls = 0;

	while (!nvme__helm_try(drive))
		;
	nvme__trouble(drive, NVME_CAUSE_GONE, 0, clock_now_ns());
	nvme__helm_leave(drive);
	while (drive->reset.life != NVME_LIVE) {
		poll_once(true);
		polls += drive->reset.life == NVME_RESETTING;
		if (drive->reset.life == NVME_DEAD)
			die("it was given up", -ENODEV);
		if (clock_now_ns() > until)
			die("a reset does not end", -ETIMEDOUT);
	}
	return polls;
}

static void begin(const char *name, struct nvme_dma *dma)
{
	struct arena *memory;
	char why[256];
	uint64_t iova;
	int err = arena_create_file(SLOTS * NVME_BLOCK_SIZE, &memory);

	if (!err)
		err = nvme_dma_map(dma, arena_base(memory), arena_size(memory), &iova);
	if (!err)
		err = nvme_open(&drive, name, dma, NULL, why, sizeof(why));
	if (!err)
		err = nvme_qpair_create(drive, 2 * SLOTS, &qp);
	if (err) {
		printf("not ok %s: %s\n", name, drive ? strerror(-err) : why);
		exit(1);
	}
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		s->bytes = arena_alloc(memory, NVME_BLOCK_SIZE, NVME_BLOCK_SIZE);
		s->turn = i + 1;
		fill(s, s->turn);
		s->io = (struct nvme_io){ .op = NVME_WRITE,
					  .nblocks = 1,
					  .block = i,
					  .owner = s,
					  .iova = iova + i * NVME_BLOCK_SIZE };
	}
}

int main(int argc, char **argv)
{
	int resets = argc == 3 ? atoi(argv[2]) : 0;
	uint64_t least = UINT64_MAX;
	struct nvme_dma *dma;

	if (resets <= 0) {
		fprintf(stderr, "usage: flr DRIVE RESETS\n");
		return 2;
	}
	if (nvme_dma_create(&dma))
		return 1;
	begin(argv[1], dma);
	for (int i = 0; i < resets; i++) {
		uint64_t polls;

		load();
		polls = reset();
		least = polls < least ? polls : least;
	}
	load();
	while (nvme_qpair_in_flight(qp))
		poll_once(false);
	if (least < POLLS_LEAST)
		die("the polling thread waited for the kernel", -EDEADLK);
	if (again == 0)
		die("no I/O was cut off: there was no load", -EINVAL);
	nvme_qpair_destroy(qp);
	nvme_close(drive);
	printf("ok %d function-level resets: %llu blocks compared, %llu I/Os begun again, at "
	       "least %llu polls during each\n",
	       resets, (unsigned long long)compared, (unsigned long long)again,
	       (unsigned long long)least);
	return 0;
}
