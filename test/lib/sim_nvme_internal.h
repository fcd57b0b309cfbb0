/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by sim_nvme.c (commands) and sim_nvme_power.c (what survives). */
#ifndef SIM_NVME_INTERNAL_H
#define SIM_NVME_INTERNAL_H

#include "test/lib/sim_nvme.h"

#define SIM_QUEUES 8u

/* A command that the drive works on. */
struct sim_pending {
	struct nvme_soft_cmd *cmd;
	uint64_t due_ns;
	uint64_t arrival;   /* breaks ties of due_ns */
	uint64_t flush_seq; /* a flush: the last write that had completed when it came */
	uint32_t status;
	bool drop; /* a lie: nothing is written */
	bool lost; /* it goes on and on */
};

struct sim_queue {
	struct sim_drive *sim;
	struct sim_pending *pending;
	uint32_t pending_count;
	uint32_t depth;
};

/* A completed write that is not durable; its bytes lie in sim->log_bytes. */
struct sim_write {
	uint64_t seq;
	uint64_t offset_bytes;
	uint64_t log_at;
	uint32_t size_bytes;
};

struct sim_drive {
	struct nvme_soft_back back;
	struct sim_power own_power;
	struct sim_power *power;
	struct sim_faults faults;
	struct sim_counts counts;
	struct rand_state rand;
	uint64_t size_bytes;
	uint32_t atomic_bytes;
	uint8_t *visible;
	uint8_t *durable;
	uint64_t *durable_seq; /* by atomic unit: the write that it is from */
	bool *visible_bad;     /* by atomic unit: reads of it fail */
	bool *durable_bad;
	bool *freed; /* by atomic unit: deallocated, and neither garbage nor written since */
	/* By atomic unit: 1 + the durable_seq of the drive `copy_of`, if this unit is a copy of
	 * that one's, visible and durable; 0: it is not. */
	uint64_t *copy_seq;
	const struct sim_drive *copy_of;
	uint64_t copy_image;
	uint64_t image; /* sim__image_new() */
	uint64_t seq;   /* of the last completed write */
	uint64_t arrival;
	struct sim_write *write; /* oldest first */
	uint32_t write_count;
	uint32_t write_max;
	uint8_t *log;
	uint64_t log_used;
	uint64_t log_max;
	struct sim_queue *queue[SIM_QUEUES];
	bool open;
	bool cut_garbles;
};

/* sim_nvme_power.c */
void sim__write_done(struct sim_drive *sim, const struct nvme_soft_cmd *cmd, bool durable);
void sim__write_failed(struct sim_drive *sim, const struct nvme_soft_cmd *cmd);
bool sim__unreadable(const struct sim_drive *sim, const struct nvme_soft_cmd *cmd);
/* The image is another, by no write: what is known of copies is not true any more. */
void sim__image_new(struct sim_drive *sim);
void sim__flush(struct sim_drive *sim, uint64_t seq);
void sim__free(struct sim_drive *sim, const struct nvme_soft_cmd *cmd);

#endif
