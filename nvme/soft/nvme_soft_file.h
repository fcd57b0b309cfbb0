/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A file or block device behind the soft controller: nvme_soft_file.c, nvme_soft_uring.c. */
#ifndef NVME_SOFT_FILE_H
#define NVME_SOFT_FILE_H

#include "nvme/soft/nvme_soft.h"

#include <liburing.h>

struct nvme_file_back {
	struct nvme_soft_back back;
	int fd;
	bool direct; /* O_DIRECT */
	/*
	 * An fdatasync has failed.  The kernel reports that once and then forgets which pages it
	 * lost: from then on no write is accepted and no flush succeeds.
	 */
	_Atomic bool sync_failed;
	_Atomic bool buffers_refused; /* the kernel would not pin them: memlock */
};

/* One queue: a ring. */
struct nvme_uring {
	struct io_uring ring;
	struct nvme_file_back *file;
	struct nvme_dma *dma;
	uint32_t depth;
	uint32_t in_flight;
	uint32_t unmap_seen; /* dma->unmap_count when pinned[] was last gone through */
	bool fixed_file;
	bool pins; /* the ring has a table of buffers */
	int event_fd;
	uint64_t syscall_count;
	uint32_t pinned[NVME_WINDOW_COUNT];
};

must_check int nvme__uring_create(struct nvme_soft_back *back, uint32_t depth, struct nvme_dma *dma,
				  void **queue);
void nvme__uring_destroy(void *queue);
uint32_t nvme__uring_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			 struct nvme_soft_cmd **done, uint32_t done_max);
int nvme__uring_wake_fd(void *queue);
bool nvme__uring_arm(void *queue);
void nvme__uring_disarm(void *queue);
void nvme__uring_stats(void *queue, struct nvme_stats *stats);
/* 0, or -errno: this kernel does not let us have a ring. */
must_check int nvme__uring_probe(void);

#endif
