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
	struct bench_result *r = calloc(1, sizeof(*r));
	struct bench_pipe *pipe = NULL;
	struct bench_run run, copy;

	ASSERT(r);
	*r = (struct bench_result){ .conf = conf, .workload = "pipe", .runs = conf->runs };
	stat_hist_reset(&r->hist);
	if (bench_pipe_create(&pipe, conf->size_bytes, conf->depth, conf->size_bytes > 65536, conf))
		return bench_fail("no memory for the pipeline (2 GiB)");
	bench_pipe_run(pipe, conf->seconds, &run);
	for (uint32_t i = 0; i < conf->runs; i++) {
		bench_pipe_run(pipe, conf->seconds, &run);
		bench_copy_run(pipe, conf->seconds / 2, &copy);
		r->ops_per_s[i] = bench_rate(&run);
		r->bytes_per_s[i] = r->ops_per_s[i] * (double)conf->size_bytes;
		r->ratio_copy[i] = r->ops_per_s[i] / bench_rate(&copy);
	}
	bench_report(r);
	bench_pipe_destroy(pipe);
	free(r);
	return 0;
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
};

static uint64_t next_block(struct bed *b)
{
	uint64_t places = b->nblocks / b->io_blocks;
	uint64_t i = b->sequential ? b->next++ % places : rand_below(&b->rand, places);

	return i * b->io_blocks;
}

static void submit(struct bed *b, struct nvme_io *io)
{
	io->block = next_block(b);
	b->began[io - b->io] = clock_now_ns();
	ASSERT(nvme_submit(b->qp, io) == 0);
}

static void run_nvme(struct bed *b, const struct bench_conf *conf, double seconds,
		     struct bench_run *run)
{
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now = start;
	struct nvme_io *done[64];
	uint32_t in_flight = conf->depth;

	run->ops = 0;
	for (uint32_t i = 0; i < conf->depth; i++)
		submit(b, &b->io[i]);
	while (in_flight > 0) {
		uint32_t count;

		nvme_ring(b->qp);
		count = nvme_poll(b->qp, done, ARRAY_LEN(done));
		if (count == 0)
			continue;
		now = clock_now_ns();
		run->ops += now < end ? count : 0;
		for (uint32_t i = 0; i < count; i++) {
			ASSERT(done[i]->status == 0);
			if (run->hist)
				stat_hist_record(run->hist, now - b->began[done[i] - b->io]);
			if (now < end)
				submit(b, done[i]);
			else
				in_flight--;
		}
	}
	run->bytes = run->ops * conf->size_bytes;
	run->ns = end - start;
}

static int open_bed(struct bed *b, const struct bench_conf *conf)
{
	struct nvme_options options = { .create = true };
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];
	uint64_t iova, bytes = conf->size_bytes * conf->depth;

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
	struct bench_result *r = calloc(1, sizeof(*r));
	struct bed *b = calloc(1, sizeof(*b));
	struct bench_pipe *pipe = NULL;
	struct bench_run run = { 0 }, copy;
	int err = 1;

	ASSERT(r && b);
	*r = (struct bench_result){ .conf = conf, .workload = "nvme", .runs = conf->runs };
	stat_hist_reset(&r->hist);
	if (conf->size_bytes % NVME_BLOCK_SIZE || conf->size_bytes > (4u << 20)) {
		err = bench_fail("--size of nvme is a multiple of 4K, up to 4M");
		goto out;
	}
	bench_pin(conf->core_client);
	err = open_bed(b, conf);
	if (err)
		goto out;
	if (bench_pipe_create(&pipe, conf->size_bytes, conf->depth, b->sequential, conf)) {
		err = bench_fail("no memory for the comparison (2 GiB)");
		goto out;
	}
	run_nvme(b, conf, conf->seconds / 2, &run);
	run.hist = &r->hist;
	for (uint32_t i = 0; i < conf->runs; i++) {
		run_nvme(b, conf, conf->seconds, &run);
		bench_copy_run(pipe, conf->seconds / 2, &copy);
		r->ops_per_s[i] = bench_rate(&run);
		r->bytes_per_s[i] = r->ops_per_s[i] * (double)conf->size_bytes;
		r->ratio_copy[i] = r->ops_per_s[i] / bench_rate(&copy);
	}
	bench_report(r);
out:
	bench_pipe_destroy(pipe);
	close_bed(b);
	free(b);
	free(r);
	return err;
}
