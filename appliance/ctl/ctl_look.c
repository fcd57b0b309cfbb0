/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl format: identifies the content of a drive that is not a file.  Its two ends, which have
 * the signatures, are read through our own driver into a file of its size that is otherwise a hole,
 * and that is examined like any other.
 *
 *    0        1 MiB                                     size - 1 MiB   size
 *    |  read  |                  hole                       |   read   |
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_drives.h"
#include "base/clock.h"
#include "base/num.h"
#include "nvme/nvme.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define END_BLOCKS  256u /* of each end */
#define BUFFER_SIZE ((size_t)2 << 20)
#define DEPTH       64u

struct look {
	struct nvme_drive *drive;
	struct nvme_dma *dma;
	struct nvme_qpair *qp;
	int buffer_fd;
	int image_fd;
	void *buffer;
	uint64_t iova;
};

/* One I/O, waited for.  A drive that does not answer is ended by its own step. */
static int read_blocks(struct look *l, uint64_t block, uint32_t nblocks)
{
	struct nvme_io io = {
		.op = NVME_READ,
		.nblocks = nblocks,
		.block = block,
		.iova = l->iova,
	};
	struct nvme_io *done[1];
	ssize_t bytes = (ssize_t)nblocks * NVME_BLOCK_SIZE;
	int err;

	while ((err = nvme_submit(l->qp, &io)) == -EAGAIN)
		nvme_drive_step(l->drive, clock_now_ns());
	if (err)
		return err;
	nvme_ring(l->qp);
	while (nvme_poll(l->qp, done, 1) == 0)
		nvme_drive_step(l->drive, clock_now_ns());
	if (io.status)
		return io.status == -ENODATA ? -EIO : io.status;
	if (pwrite(l->image_fd, l->buffer, (size_t)bytes, (off_t)(block * NVME_BLOCK_SIZE)) !=
	    bytes)
		return errno ? -errno : -EIO;
	return 0;
}

static int read_range(struct look *l, uint64_t first, uint64_t nblocks)
{
	uint32_t most = min_u32(nvme_qpair_io_blocks_max(l->qp), BUFFER_SIZE / NVME_BLOCK_SIZE);
	int err = 0;

	while (nblocks && !err) {
		uint32_t now = (uint32_t)min_u64(most, nblocks);

		err = read_blocks(l, first, now);
		first += now;
		nblocks -= now;
	}
	return err;
}

static int read_ends(struct look *l)
{
	struct nvme_info info;
	uint64_t end;
	int err;

	nvme_drive_info(l->drive, &info);
	end = min_u64(info.nblocks, END_BLOCKS);
	if (ftruncate(l->image_fd, (off_t)(info.nblocks * NVME_BLOCK_SIZE)))
		return -errno;
	err = read_range(l, 0, end);
	return err ? err : read_range(l, info.nblocks - end, end);
}

static int make(struct look *l)
{
	int err;

	l->image_fd = memfd_create("weka-look", MFD_CLOEXEC);
	l->buffer_fd = memfd_create("weka-look-buffer", MFD_CLOEXEC);
	if (l->image_fd < 0 || l->buffer_fd < 0 || ftruncate(l->buffer_fd, (off_t)BUFFER_SIZE))
		return -errno;
	l->buffer = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, l->buffer_fd, 0);
	if (l->buffer == MAP_FAILED) {
		l->buffer = NULL;
		return -errno;
	}
	err = nvme_dma_map_file(l->dma, l->buffer, BUFFER_SIZE, l->buffer_fd, 0, &l->iova);
	if (err) {
		munmap(l->buffer, BUFFER_SIZE);
		l->buffer = NULL;
		return err;
	}
	return nvme_qpair_create(l->drive, DEPTH, &l->qp);
}

static void unmake(struct look *l)
{
	if (l->qp) {
		nvme_qpair_stop(l->qp);
		nvme_qpair_destroy(l->qp);
	}
	if (l->buffer) {
		nvme_dma_unmap(l->dma, l->iova, BUFFER_SIZE);
		munmap(l->buffer, BUFFER_SIZE);
	}
	if (l->buffer_fd >= 0)
		close(l->buffer_fd);
	if (l->image_fd >= 0)
		close(l->image_fd);
}

int ctl_look(struct nvme_drive *drive, struct nvme_dma *dma, char *text, size_t text_size)
{
	struct look l = { .drive = drive, .dma = dma, .buffer_fd = -1, .image_fd = -1 };
	int found = make(&l);

	if (!found)
		found = read_ends(&l);
	if (!found)
		found = ctl_signature_fd(l.image_fd, text, text_size);
	unmake(&l);
	return found;
}
