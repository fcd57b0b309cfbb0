/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The fixture of the driver's tests: a drive, a queue pair, a buffer, and I/Os in one line. */
#ifndef NVME_FIXTURE_H
#define NVME_FIXTURE_H

#include "test/lib/sim_nvme.h"

struct nvme_fixture {
	struct nvme_dma *dma;
	struct sim_power power;
	struct sim_drive *sim; /* NULL: the drive is a real one */
	struct nvme_drive *drive;
	struct nvme_qpair *qp;
	struct nvme_info info;
	uint8_t *buf;
	uint64_t buf_bytes;
	uint64_t iova; /* of buf */
};

/* Over a simulated drive, or (fixture_up_name) over one that nvme_open() knows. */
void fixture_up(struct nvme_fixture *f, const struct sim_drive_options *options, uint32_t depth);
/* The same, after `change` has made another kind of controller of it. */
void fixture_up_traits(struct nvme_fixture *f, const struct sim_drive_options *options,
		       void (*change)(struct nvme_soft_traits *traits), uint32_t depth);
void fixture_up_name(struct nvme_fixture *f, const char *name, uint32_t depth);
void fixture_down(struct nvme_fixture *f);

/* The controller under the drive, a soft one. */
struct nvme_soft *fixture_soft(const struct nvme_fixture *f);

/* Close the drive and open it again, with a new queue pair; its power is on. */
void fixture_reopen(struct nvme_fixture *f);

/* Other, empty pages at buf's address, for a test that maps and unmaps them itself. */
void fixture_move_buf(struct nvme_fixture *f);

/* I/Os of the start of buf; a write fills it from `seed` first. */
struct nvme_io read_of(struct nvme_fixture *f, uint64_t block, uint32_t nblocks);
struct nvme_io write_of(struct nvme_fixture *f, uint64_t block, uint32_t nblocks, uint64_t seed);
struct nvme_io flush_of(void);

/* Submit, ring and poll (moving a simulated drive's time) until it is done; its status. */
int fixture_run(struct nvme_fixture *f, struct nvme_io *io);
/* The same for one that was submitted. */
int fixture_finish(struct nvme_fixture *f, struct nvme_io *io);

/* Return true if buf, or `bytes`, holds the bytes of write_of(seed). fixture_clear() clears buf. */
bool fixture_holds(const struct nvme_fixture *f, uint32_t nblocks, uint64_t seed);
bool holds(const uint8_t *bytes, uint32_t size_bytes, uint64_t seed);
void fixture_clear(struct nvme_fixture *f);

#endif
