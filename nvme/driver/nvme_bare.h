/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The minimum that can be done with a queue pair: reads at random places, one doorbell a turn, and
 * no check but the phase bit.  For measuring the cost of the driver.
 *
 *	nvme_bare_begin(&bare, qp, ...);
 *	while (time is left)
 *		ops += nvme_bare_turn(&bare);
 *	err = nvme_bare_end(&bare);
 */
#ifndef NVME_BARE_H
#define NVME_BARE_H

#include "nvme/nvme.h"

#include "base/rand.h"

#define NVME_BARE_DEPTH_MAX 256u

struct nvme_sqe;

struct nvme_bare {
	struct nvme_qpair *qp;
	struct nvme_sqe *entry; /* one a command id */
	uint32_t io_blocks;
	uint32_t depth;
	uint32_t in_flight;
	uint32_t wrong; /* completions that were no success */
	uint64_t places;
	struct rand_state rand;
};

/**
 * nvme_bare_begin - put `depth` reads of `io_blocks` blocks on a queue pair that is taken over
 *
 * Nothing is in flight on it.  Buffers of io_blocks blocks each follow one another at `iova`, a
 * multiple of 4096; places are multiples of io_blocks below `nblocks`.
 *
 * Thread:  the queue pair's; nobody else uses it before nvme_bare_end().
 * Owns:    ended by nvme_bare_end(), also after a failure of the device.
 * Errors:  -EINVAL when a read is no single command, or the depth does not fit; -ENOMEM.
 */
must_check int nvme_bare_begin(struct nvme_bare *bare, struct nvme_qpair *qp, uint32_t depth,
			       uint32_t io_blocks, uint64_t iova, uint64_t nblocks);

/* nvme_bare_turn - those that are done, counted; each is followed by another. */
uint32_t nvme_bare_turn(struct nvme_bare *bare);

/* nvme_bare_end - wait for those in flight; 0, or -EIO when any of them had failed. */
must_check int nvme_bare_end(struct nvme_bare *bare);

#endif
