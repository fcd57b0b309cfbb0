/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Two workloads without an appliance: the bare pipeline itself, and blocks of a drive
 * through the driver on one core.  `nvme` makes the drive it is given (a file: drive is
 * created when missing, and overwritten by --write).
 */
#include "bench/bench.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "nvme/nvme.h"

#include <stdlib.h>
#include <string.h>

int bench_workload_pipe(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct bench_pipe *pipe = NULL;
	int err;

	if (bench_pipe_create(&pipe, conf->size_bytes, conf->depth, conf->size_bytes > 65536, conf))
		return bench_fail("no memory for the pipeline (2 GiB)");
	part[BENCH_WORK] = (struct bench_part){ bench_pipe_run, pipe };
	part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, pipe };
	err = bench_measure(conf, "pipe", "none", part);
	bench_pipe_destroy(pipe);
	return err;
}

struct bed {
	struct arena *arena;
	struct nvme_dma *dma;
	struct nvme_drive *drive;
	struct nvme_qpair *qp;
	struct nvme_io io[256];
	uint64_t began[256];
	uint8_t *buffers;
	uint64_t nblocks; /* of the drive */
	uint32_t io_blocks;
	uint64_t next;
	bool sequential;
	struct rand_state rand;
	const struct bench_conf *conf;
};

static uint64_t next_block(struct bed *b)
{
	uint64_t places = b->nblocks / b->io_blocks;
	uint64_t i = b->sequential ? b->next++ % places : rand_below(&b->rand, places);

	return i * b->io_blocks;
}

static int submit(struct bed *b, struct nvme_io *io, uint64_t now)
{
	int err;

	io->block = next_block(b);
	b->began[io - b->io] = now;
	err = nvme_submit(b->qp, io);
	return err ? bench_fail("%s: submit: %s", b->conf->drive, strerror(-err)) : 0;
}

/* An I/O has ended at `now`: count it, and begin the next one unless time is up. */
static int turn(struct bed *b, struct nvme_io *io, uint64_t now, bool on, struct bench_run *run)
{
	if (io->status)
		return bench_fail("%s: block %llu: %s", b->conf->drive,
				  (unsigned long long)io->block, strerror(-io->status));
	if (!on)
		return 0;
	run->ops++;
	if (run->hist)
		stat_hist_record(run->hist, now - b->began[io - b->io]);
	return submit(b, io, now);
}

static int run_nvme(void *bed, double seconds, struct bench_run *run)
{
	struct bed *b = bed;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now = start;
	struct nvme_io *done[64];
	int err = 0;

	for (uint32_t i = 0; !err && i < b->conf->depth; i++)
		err = submit(b, &b->io[i], start);
	while (!err && nvme_qpair_in_flight(b->qp) > 0) {
		uint32_t count;

		nvme_ring(b->qp);
		count = nvme_poll(b->qp, done, ARRAY_LEN(done));
		if (count == 0)
			continue;
		now = clock_now_ns();
		for (uint32_t i = 0; !err && i < count; i++)
			err = turn(b, done[i], now, now < end && !bench_interrupted(), run);
	}
	run->bytes = run->ops * b->conf->size_bytes;
	run->ns = end - start;
	return err;
}

static int open_bed(struct bed *b, const struct bench_conf *conf)
{
	struct nvme_options options = { .create = true };
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];
	uint64_t iova, bytes = conf->size_bytes * conf->depth;

	b->conf = conf;
	b->io_blocks = (uint32_t)(conf->size_bytes / NVME_BLOCK_SIZE);
	b->sequential = conf->size_bytes > 65536;
	rand_seed(&b->rand, 3);
	if (nvme_dma_create(&b->dma) || arena_create(bytes, &b->arena))
		return bench_fail("no memory");
	b->buffers = arena_alloc(b->arena, bytes, NVME_BLOCK_SIZE);
	if (nvme_dma_map(b->dma, b->buffers, bytes, &iova))
		return bench_fail("cannot map buffers");
	if (nvme_open(&b->drive, conf->drive, b->dma, &options, err_text, sizeof(err_text)))
		return bench_fail("%s", err_text);
	nvme_drive_info(b->drive, &info);
	b->nblocks = info.nblocks;
	if (nvme_qpair_create(b->drive, min_u32(info.depth_max, 1024), &b->qp))
		return bench_fail("%s: no queue pair", conf->drive);
	for (uint32_t i = 0; i < conf->depth; i++)
		b->io[i] = (struct nvme_io){
			.op = conf->write ? NVME_WRITE : NVME_READ,
			.nblocks = b->io_blocks,
			.iova = iova + i * conf->size_bytes,
		};
	return 0;
}

static void close_bed(struct bed *b)
{
	if (b->qp)
		nvme_qpair_destroy(b->qp);
	if (b->drive)
		nvme_close(b->drive);
	if (b->dma)
		nvme_dma_destroy(b->dma);
	arena_destroy(b->arena);
}

int bench_workload_nvme(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct bench_pipe *pipe = NULL;
	struct bed *b;
	int err;

	if (conf->size_bytes % NVME_BLOCK_SIZE || conf->size_bytes > (4u << 20))
		return bench_fail("--size of nvme is a multiple of 4K, up to 4M");
	b = calloc(1, sizeof(*b));
	if (!b)
		return bench_fail("out of memory");
	bench_pin(conf->core_client);
	err = open_bed(b, conf);
	if (!err &&
	    bench_pipe_create(&pipe, conf->size_bytes, conf->depth, b->sequential, conf) != 0)
		err = bench_fail("no memory for the comparison (2 GiB)");
	part[BENCH_WORK] = (struct bench_part){ run_nvme, b };
	part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, pipe };
	if (!err)
		err = bench_measure(conf, "nvme", "none", part);
	bench_pipe_destroy(pipe);
	close_bed(b);
	free(b);
	return err;
}
