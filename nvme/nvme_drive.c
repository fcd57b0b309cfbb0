/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * From a drive's name to a drive, and from a drive to its queue pairs.
 *
 * A queue pair's memory, one mapping:
 *
 *   | submission queue | completion queue | PRP lists, one a command id |
 *     each part on a page of its own; a list's size is a power of two, so none crosses a page
 *
 * Its life: memory, then the queues at the controller; back in the reverse order, and when the
 * controller does not give a queue back its memory stays mapped for good.
 *
 *   R1 -> A1   (A1 in nvme_qpair.c) all that an order speaks of is there before the order
 */
#include "nvme/nvme_internal.h"
#include "nvme/nvme_soft.h"
#include "nvme/nvme_vfio.h"
#include "nvme/nvme_vfu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int make_back(struct nvme_soft_back **back, const struct nvme_name *parsed, const char *name,
		     const struct nvme_options *options, char *err_text, size_t err_text_size)
{
	switch (parsed->kind) {
	case NVME_NAME_MEM:
		return nvme__soft_mem_create(back, parsed, name, err_text, err_text_size);
	case NVME_NAME_FILE:
		return nvme__soft_file_create(back, parsed, name, options && options->create,
					      err_text, err_text_size);
	case NVME_NAME_PCI:
	case NVME_NAME_VFIO_USER:
		break;
	}
	UNREACHABLE();
}

int nvme__open_soft(struct nvme_drive **out, struct nvme_soft_back *back, const char *name,
		    struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		    size_t err_text_size)
{
	struct nvme_soft *soft;
	int err = nvme__soft_create(&soft, dma, back);

	if (err) {
		nvme__err_text(err_text, err_text_size, name, "out of memory");
		return err;
	}
	err = nvme__drive_up(out, &nvme__soft_ops, soft, name, dma, options, err_text,
			     err_text_size);
	if (!err && back->buffer_align > (*out)->info.buffer_align)
		(*out)->info.buffer_align = back->buffer_align;
	return err;
}

int nvme_open(struct nvme_drive **out, const char *name, struct nvme_dma *dma,
	      const struct nvme_options *options, char *err_text, size_t err_text_size)
{
	struct nvme_name parsed;
	struct nvme_soft_back *back;
	int err;

	err = nvme__name_parse(&parsed, name, err_text, err_text_size);
	if (err)
		return err;
	nvme__err_text(err_text, err_text_size, name, "out of memory"); /* unless it is replaced */
	if (parsed.kind == NVME_NAME_PCI)
		return nvme__vfio_open(out, &parsed, name, dma, options, err_text, err_text_size);
	if (parsed.kind == NVME_NAME_VFIO_USER)
		return nvme__vfu_open(out, &parsed, name, dma, options, err_text, err_text_size);
	err = make_back(&back, &parsed, name, options, err_text, err_text_size);
	if (err)
		return err;
	err = nvme__open_soft(out, back, name, dma, options, err_text, err_text_size);
	if (!err)
		(*out)->watch.tick_ns = 0; /* the kernel below has timeouts of its own */
	return err;
}

/* ---- queue pairs ---------------------------------------------------------------- */

/* QEMU's controller says that it has a cache, and takes a write's FUA bit for nothing (7.2). */
static const char IGNORES_FUA[] = "QEMU NVMe Ctrl";

static uint32_t list_entries(const struct nvme_drive *drive)
{
	/* A buffer that begins inside a page lies on one page more. */
	uint32_t pages = drive->info.transfer_max_bytes / NVME_PAGE_SIZE + 1;
	uint32_t most = nvme__prp_list_len(pages);
	uint32_t entries = 8; /* a cache line */

	while (!drive->sgl && entries < most)
		entries *= 2;
	ASSERT(entries <= NVME_PAGE_SIZE / sizeof(le64));
	return entries;
}

static void set_limits(struct nvme_qpair *qp, const struct nvme_drive *drive, uint32_t depth)
{
	uint64_t fits;

	qp->transfer_max_blocks = drive->info.transfer_max_bytes / NVME_BLOCK_SIZE;
	ASSERT(qp->transfer_max_blocks > 0);
	fits = (uint64_t)(depth - 1) * qp->transfer_max_blocks;
	qp->io_blocks_max = (uint32_t)min_u64(NVME_IO_BLOCKS_MAX, fits);
	qp->lba_per_block_shift = NVME_BLOCK_SHIFT - drive->lba_shift;
	qp->nsid = drive->nsid;
	qp->sgl = drive->sgl;
	qp->buffer_mask = drive->info.buffer_align - 1;
	qp->fua_bit = drive->info.volatile_cache ? NVME_FUA : 0;
	qp->fua_ignored = qp->fua_bit && strcmp(drive->info.model, IGNORES_FUA) == 0;
	qp->zero_max_blocks = drive->info.zero_max_blocks;
	qp->deallocate_max_blocks = drive->info.deallocate_max_blocks;
	qp->cid_free_count = depth - 1;
	for (uint32_t i = 0; i < depth - 1; i++) {
		qp->cid_free[i] = (uint16_t)(depth - 2 - i);
		qp->slot[i].cid = (uint16_t)i;
	}
}

/* One descriptor for epoll: of what the controller has to say, and of what its owner has. */
static int open_fds(struct nvme_qpair *qp)
{
	struct epoll_event e = { .events = EPOLLIN };

	qp->wake_fd = -1; /* until there are queues */
	qp->order_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	qp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (qp->order_fd < 0 || qp->epoll_fd < 0 ||
	    epoll_ctl(qp->epoll_fd, EPOLL_CTL_ADD, qp->order_fd, &e))
		return -errno;
	return 0;
}

static int watch_queues(struct nvme_qpair *qp)
{
	struct epoll_event e = { .events = EPOLLIN };

	qp->wake_fd = qp->ops->wake_fd(qp->ctrl, qp->qid);
	if (qp->wake_fd >= 0 && epoll_ctl(qp->epoll_fd, EPOLL_CTL_ADD, qp->wake_fd, &e))
		return -errno;
	return 0;
}

void nvme__qpair_order(struct nvme_qpair *qp, uint32_t order)
{
	uint64_t one = 1;

	/* R1 (A1 in nvme_qpair.c): all that the order speaks of, before the order. */
	atomic_store_explicit(&qp->order, order, memory_order_release);
	(void)!write(qp->order_fd, &one, sizeof(one));
}

static void free_qpair(struct nvme_qpair *qp)
{
	struct nvme_drive *drive = qp->drive;

	if (drive->reset.quarantine || (drive->failed && !drive->reset.stopped)) {
		drive->counts.quarantined_bytes += qp->mem.size_bytes;
		qp->mem.size_bytes = 0; /* the controller may still write there */
	}
	nvme__mem_free(&qp->mem, drive->dma);
	if (qp->order_fd >= 0)
		close(qp->order_fd);
	if (qp->epoll_fd >= 0)
		close(qp->epoll_fd);
	free(qp->cid_free);
	free(qp->slot);
	free(qp);
}

/* All of it but the controller's part. */
static struct nvme_qpair *make_qpair(struct nvme_drive *drive, uint32_t qid, uint32_t depth)
{
	struct nvme_qpair *qp = calloc(1, sizeof(*qp));
	uint64_t rings_bytes = nvme__rings_bytes(depth);

	if (!qp)
		return NULL;
	qp->drive = drive;
	qp->ops = drive->ops;
	qp->ctrl = drive->ctrl;
	qp->qid = qid;
	qp->order_fd = qp->epoll_fd = -1;
	atomic_init(&qp->stamp, (uint8_t)drive->watch.stamp);
	qp->prp_list_entries = list_entries(drive);
	qp->slot = calloc(depth, sizeof(*qp->slot));
	qp->cid_free = calloc(depth, sizeof(*qp->cid_free));
	if (!qp->slot || !qp->cid_free || open_fds(qp))
		goto free_qp;
	if (nvme__mem_alloc(&qp->mem, drive->dma,
			    rings_bytes + (uint64_t)depth * qp->prp_list_entries * sizeof(le64)))
		goto free_qp;
	nvme__rings_init(&qp->rings, qp->mem.addr, depth);
	nvme__rings_attach(&qp->rings, drive, qid);
	qp->prp_lists = (void *)((char *)qp->mem.addr + rings_bytes);
	qp->prp_lists_iova = qp->mem.iova + rings_bytes;
	set_limits(qp, drive, depth);
	qp->strict = drive->poison_reads ? NVME_STRICT_POISON : 0;
	return qp;

free_qp:
	free_qpair(qp);
	return NULL;
}

int nvme_qpair_create(struct nvme_drive *drive, uint32_t depth, struct nvme_qpair **out)
{
	struct nvme_qpair *qp;
	uint32_t qid = 1;
	int err;

	if (depth < NVME_DEPTH_MIN || depth > drive->info.depth_max)
		return -EINVAL;
	if (drive->reset.life != NVME_LIVE)
		return drive->reset.life == NVME_DEAD ? -ENODEV : -EAGAIN;
	while (qid <= drive->info.qpair_count_max && drive->qpair[qid])
		qid++;
	if (qid > drive->info.qpair_count_max)
		return -ENOSPC;
	qp = make_qpair(drive, qid, depth);
	if (!qp)
		return -ENOMEM;
	err = nvme__admin_create_queues(drive, qid, &qp->mem, depth);
	if (err) {
		free_qpair(qp);
		return err;
	}
	drive->qpair[qid] = qp;
	err = watch_queues(qp);
	if (err) {
		nvme_qpair_destroy(qp);
		return err;
	}
	*out = qp;
	return 0;
}

void nvme_qpair_stop(struct nvme_qpair *qp)
{
	struct nvme_drive *drive = qp->drive;

	nvme__qpair_obey(qp);
	if (qp->state == NVME_QP_STOPPED || qp->state == NVME_QP_DEAD)
		return;
	if (drive->reset.life == NVME_LIVE && !drive->failed) {
		nvme_qpair_disarm(qp);
		qp->state = NVME_QP_FAILED;
		if (nvme__admin_delete_queues(drive, qp->qid) == 0) {
			qp->state = NVME_QP_STOPPED;
			return;
		}
	}
	nvme__halt(drive, qp);
}

void nvme_qpair_destroy(struct nvme_qpair *qp)
{
	if (!qp)
		return;
	nvme_qpair_stop(qp);
	ASSERT(qp->io_count == 0);
	ASSERT(qp->drive->qpair[qp->qid] == qp);
	qp->drive->qpair[qp->qid] = NULL;
	free_qpair(qp);
}
