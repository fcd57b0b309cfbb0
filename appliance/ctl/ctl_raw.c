/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl dump and check --salvage: reads drives that are not in use, block by block.
 *
 *	drive --read--> a buffer of ours --copied--> meta_raw
 *
 * An error fails the whole read: meta_raw then reads each block by itself.
 *
 *  (1) No write is ever submitted here [e2e_salvage:cksum].
 *  (2) A store of several copies is read without the drives that cannot be opened; a drive in use
 *      is an error [e2e_salvage].
 */
#define _GNU_SOURCE
#include "appliance/conf/app_conf.h"
#include "appliance/ctl/ctl.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/offline/meta_raw.h"
#include "nvme/nvme.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)2 << 20)
#define DEPTH       64u

struct ctl_raw {
	struct app_conf *conf; /* when the names come from it */
	const char *name[CTL_DRIVES_MAX];
	uint32_t count;
	uint32_t left_out_count;
	char left_out[NVME_ERR_TEXT]; /* why the first of them could not be opened */
	struct nvme_dma *dma;
	struct nvme_drive *drive[CTL_DRIVES_MAX];
	struct nvme_qpair *qp[CTL_DRIVES_MAX];
	int buffer_fd;
	void *buffer;
	uint64_t iova;
	struct meta_raw *store;
};

/* One I/O, waited for.  A drive that does not answer is ended by its own step. */
static int read_piece(struct ctl_raw *raw, uint32_t d, uint64_t block, uint32_t nblocks)
{
	struct nvme_io io = {
		.op = NVME_READ,
		.nblocks = nblocks,
		.block = block,
		.iova = raw->iova,
	};
	struct nvme_io *done[1];
	int err;

	while ((err = nvme_submit(raw->qp[d], &io)) == -EAGAIN)
		nvme_drive_step(raw->drive[d], clock_now_ns());
	if (err)
		return err;
	nvme_ring(raw->qp[d]);
	while (nvme_poll(raw->qp[d], done, 1) == 0)
		nvme_drive_step(raw->drive[d], clock_now_ns());
	return io.status;
}

static int read_blocks(void *arg, uint32_t d, uint64_t block, uint32_t nblocks, void *buf)
{
	struct ctl_raw *raw = arg;
	uint32_t most = min_u32(nvme_qpair_io_blocks_max(raw->qp[d]),
				(uint32_t)(BUFFER_SIZE / NVME_BLOCK_SIZE));
	uint8_t *to = buf;

	while (nblocks) {
		uint32_t now = min_u32(most, nblocks);
		size_t bytes = (size_t)now * NVME_BLOCK_SIZE;
		int err = read_piece(raw, d, block, now);

		if (err)
			return err;
		memcpy(to, raw->buffer, bytes);
		to += bytes;
		block += now;
		nblocks -= now;
	}
	return 0;
}

/* Those that are namespaces of the same controller. */
static uint32_t namespaces(const struct ctl_raw *raw, const char *name)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < raw->count; i++)
		count += nvme_name_shares(raw->name[i], name);
	return count;
}

/* (2) */
static void leave_out(struct ctl_raw *raw, uint32_t i, const char *why)
{
	ASSERT(i < raw->count);
	if (raw->left_out_count++ == 0)
		(void)snprintf(raw->left_out, sizeof(raw->left_out), "%s", why);
	raw->count--;
	memmove(raw->name + i, raw->name + i + 1, (raw->count - i) * sizeof(raw->name[0]));
}

static int open_each(struct ctl_raw *raw)
{
	struct nvme_options options = { .memory_bytes = BUFFER_SIZE };
	char err_text[NVME_ERR_TEXT];
	int err;

	for (uint32_t i = 0; i < raw->count; i++) {
		options.namespace_count = namespaces(raw, raw->name[i]);
		err = nvme_open(&raw->drive[i], raw->name[i], raw->dma, &options, err_text,
				sizeof(err_text));
		if (!err)
			continue;
		if (err == -EBUSY || raw->count == 1)
			return ctl_fail("%s", err_text);
		leave_out(raw, i--, err_text);
	}
	return 0;
}

static int open_drives(struct ctl_raw *raw)
{
	int status;

	if (nvme_dma_create(&raw->dma))
		return ctl_fail("no memory");
	status = open_each(raw);
	if (status)
		return status;
	raw->buffer_fd = memfd_create("weka-raw", MFD_CLOEXEC);
	if (raw->buffer_fd < 0 || ftruncate(raw->buffer_fd, (off_t)BUFFER_SIZE))
		return ctl_fail("no memory: %s", strerror(errno));
	raw->buffer =
		mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, raw->buffer_fd, 0);
	if (raw->buffer == MAP_FAILED) {
		raw->buffer = NULL;
		return ctl_fail("no memory: %s", strerror(errno));
	}
	if (nvme_dma_map_file(raw->dma, raw->buffer, BUFFER_SIZE, raw->buffer_fd, 0, &raw->iova)) {
		raw->iova = 0;
		return ctl_fail("cannot map memory for the drives");
	}
	for (uint32_t i = 0; i < raw->count; i++)
		if (nvme_qpair_create(raw->drive[i], DEPTH, &raw->qp[i]))
			return ctl_fail("%s: no queue pair", raw->name[i]);
	return 0;
}

static int open_store(struct ctl_raw *raw)
{
	struct meta_raw_drives from = { .count = raw->count, .read = read_blocks, .arg = raw };
	int err;

	for (uint32_t i = 0; i < raw->count; i++) {
		struct nvme_info info;

		nvme_drive_info(raw->drive[i], &info);
		from.nblocks[i] = info.nblocks;
	}
	err = meta_raw_open(&raw->store, &from);
	if (err)
		return ctl_fail("%s", strerror(-err));
	if (raw->left_out_count && meta_raw_copies(raw->store) == 1)
		return ctl_fail("%s", raw->left_out);
	if (raw->left_out_count)
		fprintf(stderr, "wekactl: %u drive%s left out: %s\n", raw->left_out_count,
			raw->left_out_count == 1 ? " is" : "s are", raw->left_out);
	return 0;
}

int ctl_raw_open(struct ctl *c, struct ctl_raw **out)
{
	struct ctl_raw *raw = calloc(1, sizeof(*raw));
	int status;

	ASSERT(raw);
	raw->buffer_fd = -1;
	status = ctl_drive_names(c, &raw->conf, raw->name, &raw->count);
	if (!status)
		status = open_drives(raw);
	if (!status)
		status = open_store(raw);
	if (status)
		ctl_raw_close(raw);
	else
		*out = raw;
	return status;
}

void ctl_raw_close(struct ctl_raw *raw)
{
	if (raw->store)
		meta_raw_close(raw->store);
	for (uint32_t i = 0; i < raw->count; i++) {
		if (!raw->qp[i])
			continue;
		nvme_qpair_stop(raw->qp[i]);
		nvme_qpair_destroy(raw->qp[i]);
	}
	if (raw->iova)
		nvme_dma_unmap(raw->dma, raw->iova, BUFFER_SIZE);
	if (raw->buffer)
		munmap(raw->buffer, BUFFER_SIZE);
	if (raw->buffer_fd >= 0)
		close(raw->buffer_fd);
	for (uint32_t i = 0; i < raw->count; i++)
		if (raw->drive[i])
			nvme_close(raw->drive[i]);
	if (raw->dma)
		nvme_dma_destroy(raw->dma);
	free(raw->conf);
	free(raw);
}

struct meta_raw *ctl_raw_store(struct ctl_raw *raw)
{
	return raw->store;
}
