/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A controller's events and health, handled by the drive's owner.  Private to nvme/ and its tests.
 */
#ifndef NVME_EVENTS_H
#define NVME_EVENTS_H

#include "nvme/nvme.h"
#include "nvme/nvme_admin.h"

#define NVME_EVENTS_MAX 4u /* event commands that we keep outstanding at most */

/* The page that is being read, or waits to be: a log page, or our namespace again. */
enum nvme_reading {
	NVME_READING_NOTHING,
	NVME_READING_HEALTH,
	NVME_READING_ERROR,
	NVME_READING_FIRMWARE,
	NVME_READING_CHANGED,
	NVME_READING_NAMESPACE,
	NVME_READING_OTHER, /* a log that means nothing to us: read, so that its event may come
			       again */
	NVME_READINGS,
};

struct nvme_events {
	struct nvme_admin_cmd wait[NVME_EVENTS_MAX];
	bool off[NVME_EVENTS_MAX]; /* it was refused: not asked again */
	struct nvme_admin_cmd read;
	enum nvme_reading reading;
	uint32_t wanted; /* a bit each: enum nvme_reading */
	uint32_t other_log;
	uint32_t nsid; /* that is read: NVME_READING_NAMESPACE */
	uint64_t next_health_ns;
	struct nvme_smart smart;
	bool smart_known;
	uint32_t told; /* warnings that people have been told of */
	uint64_t event_count;
	bool lost_namespace; /* it vanished, or is another one: the drive is of no use any more */
};

/*
 * nvme__events_step - after nvme__admin_poll(): hear, read, listen again; never blocks
 *
 * A live drive's.  Once events.lost_namespace is set it stays so, and a line has said why.
 */
void nvme__events_step(struct nvme_drive *drive, uint64_t now_ns);

/* nvme_health.c: a log page, as numbers. */
void nvme__read_health(struct nvme_smart *smart, const struct nvme_log_health *log);
/* Returns the next new problem as a line for people; false: no more. */
must_check bool nvme__health_line(uint32_t *told, const struct nvme_smart *smart, char *text,
				  size_t text_size);

#endif
