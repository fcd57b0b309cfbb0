/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/nvme_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUF_BYTES (4u << 20)

static void common_up(struct nvme_fixture *f)
{
	int err = nvme_dma_create(&f->dma);

	ASSERT(err == 0);
	f->buf_bytes = BUF_BYTES;
	f->buf = mmap(NULL, f->buf_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	ASSERT(f->buf != MAP_FAILED);
	err = nvme_dma_map(f->dma, f->buf, f->buf_bytes, &f->iova);
	ASSERT(err == 0);
}

void fixture_up(struct nvme_fixture *f, const struct sim_drive_options *options, uint32_t depth)
{
	fixture_up_traits(f, options, NULL, depth);
}

void fixture_up_traits(struct nvme_fixture *f, const struct sim_drive_options *options,
		       void (*change)(struct nvme_soft_traits *traits), uint32_t depth)
{
	struct sim_drive_options own = *options;
	int err;

	memset(f, 0, sizeof(*f));
	common_up(f);
	sim_power_init(&f->power);
	own.power = &f->power;
	err = sim_drive_create(&f->sim, &own);
	ASSERT(err == 0);
	if (change)
		change(sim_drive_traits(f->sim));
	sim_drive_open(f->sim, f->dma, &f->drive);
	nvme_drive_info(f->drive, &f->info);
	err = nvme_qpair_create(f->drive, depth, &f->qp);
	ASSERT(err == 0);
}

void fixture_up_name(struct nvme_fixture *f, const char *name, uint32_t depth)
{
	struct nvme_options options = { .create = true };
	char err_text[NVME_ERR_TEXT];
	int err;

	memset(f, 0, sizeof(*f));
	common_up(f);
	err = nvme_open(&f->drive, name, f->dma, &options, err_text, sizeof(err_text));
	ASSERT(err == 0);
	nvme_drive_info(f->drive, &f->info);
	err = nvme_qpair_create(f->drive, depth, &f->qp);
	ASSERT(err == 0);
}

void fixture_down(struct nvme_fixture *f)
{
	struct nvme_io *done[8];

	nvme_qpair_stop(f->qp);
	while (nvme_poll(f->qp, done, 8) > 0)
		;
	nvme_qpair_destroy(f->qp);
	nvme_close(f->drive);
	sim_drive_destroy(f->sim);
	nvme_dma_unmap(f->dma, f->iova, f->buf_bytes);
	nvme_dma_destroy(f->dma);
	munmap(f->buf, f->buf_bytes);
}

struct nvme_soft *fixture_soft(const struct nvme_fixture *f)
{
	ASSERT(f->drive->ops == &nvme__soft_ops);
	return f->drive->ctrl;
}

void fixture_reopen(struct nvme_fixture *f)
{
	uint32_t depth = f->qp->rings.depth;
	struct nvme_io *done[8];
	int err;

	nvme_qpair_stop(f->qp);
	while (nvme_poll(f->qp, done, 8) > 0)
		;
	nvme_qpair_destroy(f->qp);
	nvme_close(f->drive);
	sim_power_on(&f->power);
	sim_drive_open(f->sim, f->dma, &f->drive);
	err = nvme_qpair_create(f->drive, depth, &f->qp);
	ASSERT(err == 0);
}

void fixture_move_buf(struct nvme_fixture *f)
{
	void *p = mmap(f->buf, f->buf_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	ASSERT(p == f->buf);
}

struct nvme_io read_of(struct nvme_fixture *f, uint64_t block, uint32_t nblocks)
{
	return (struct nvme_io){
		.op = NVME_READ, .nblocks = nblocks, .block = block, .iova = f->iova, .status = -1
	};
}

static void fill(uint8_t *bytes, uint32_t size_bytes, uint64_t seed)
{
	struct rand_state rand;

	rand_seed(&rand, seed);
	for (uint32_t at = 0; at < size_bytes; at += 8) {
		uint64_t v = rand_u64(&rand);

		memcpy(bytes + at, &v, 8);
	}
}

struct nvme_io write_of(struct nvme_fixture *f, uint64_t block, uint32_t nblocks, uint64_t seed)
{
	fill(f->buf, nblocks * NVME_BLOCK_SIZE, seed);
	return (struct nvme_io){
		.op = NVME_WRITE, .nblocks = nblocks, .block = block, .iova = f->iova, .status = -1
	};
}

struct nvme_io flush_of(void)
{
	return (struct nvme_io){ .op = NVME_FLUSH, .status = -1 };
}

int fixture_finish(struct nvme_fixture *f, struct nvme_io *io)
{
	struct nvme_io *done[1];

	nvme_ring(f->qp);
	while (nvme_poll(f->qp, done, 1) == 0) {
		uint64_t next_ns = f->sim ? sim_power_next_ns(&f->power) : UINT64_MAX;

		if (next_ns != UINT64_MAX && next_ns > f->power.now_ns)
			f->power.now_ns = next_ns;
	}
	ASSERT(done[0] == io);
	return io->status;
}

int fixture_run(struct nvme_fixture *f, struct nvme_io *io)
{
	int err = nvme_submit(f->qp, io);

	return err ? err : fixture_finish(f, io);
}

bool holds(const uint8_t *bytes, uint32_t size_bytes, uint64_t seed)
{
	uint8_t *want = malloc(size_bytes);
	bool same;

	ASSERT(want);
	fill(want, size_bytes, seed);
	same = memcmp(bytes, want, size_bytes) == 0;
	free(want);
	return same;
}

bool fixture_holds(const struct nvme_fixture *f, uint32_t nblocks, uint64_t seed)
{
	return holds(f->buf, nblocks * NVME_BLOCK_SIZE, seed);
}

void fixture_clear(struct nvme_fixture *f)
{
	memset(f->buf, 0, f->buf_bytes);
}
