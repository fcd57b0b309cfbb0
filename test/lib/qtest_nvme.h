/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * QEMU's model of an NVMe controller, without a guest: an independent witness for the driver.
 *
 *   this process                                QEMU, its processors stopped
 *   driver --> seam --> registers, doorbells --> qtest socket --> NVMe model --> images
 *        \--> queues, buffers <------ the guest's memory, a file of both --------/
 *
 * The driver's memory is laid into the guest's: when the table of IOVAs maps something, pages of
 * the guest's memory take its place, at the address that the IOVA is.
 */
#ifndef QTEST_NVME_H
#define QTEST_NVME_H

#include "nvme/nvme_internal.h"

#define QTEST_SENT      UINT32_MAX
#define QTEST_ARGS_MAX  64u
#define QTEST_DOORBELLS 64u /* words, one behind the other: 31 queue pairs and the admin queue */

struct qtest_nvme {
	int pid;
	int fd; /* the qtest socket */
	int ram_fd;
	struct nvme_dma *dma;
	struct nvme_dma_target target;
	uint32_t device;                             /* on bus 0 */
	volatile uint32_t doorbell[QTEST_DOORBELLS]; /* QTEST_SENT: not written since it was sent */
	uint64_t message_count;
};

extern const struct nvme_ctrl_ops qtest_nvme_ops;

/* Whether there is a qemu-system-x86_64 to run. */
bool qtest_nvme_there(void);

/*
 * QEMU with these further arguments, which make an NVMe controller with "addr=4"; `dma` is empty
 * of anything that it should not reach.  Ends the process when it does not start: ctrl_ops.destroy
 * stops it.
 */
struct qtest_nvme *qtest_nvme_start(struct nvme_dma *dma, const char *const *args);

#endif
