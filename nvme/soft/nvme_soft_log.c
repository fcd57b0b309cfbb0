/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Log pages and events of the soft controller (base 5.16, 5.2).
 *
 *   an event --> event[] --+-- a command waits in event_cid[] --> posted
 *                          +-- its kind is masked: it waits until that log is read
 *
 * Invariants, true between any two calls:
 *
 *  (1) Each id in event_cid[] is a fetched command without a completion.
 *  (2) A kind is masked from the posting of an event with a log page until that page is read
 *      [test_nvme_event:warning_is_told_once_and_again_when_it_comes_back].
 */
#include "nvme/soft/nvme_soft.h"

#include <string.h>

static uint32_t kind_of(uint32_t result)
{
	return 1u << NVME_EVENT_TYPE(result);
}

/* The oldest event that may be told now, taken out. */
static bool take_event(struct nvme_soft *soft, uint32_t *result)
{
	uint32_t i = 0;

	ASSERT(soft->event_count <= NVME_SOFT_EVENTS);
	while (i < soft->event_count && soft->event_masked & kind_of(soft->event[i]))
		i++;
	if (i == soft->event_count)
		return false;
	*result = soft->event[i];
	soft->event_count--;
	memmove(&soft->event[i], &soft->event[i + 1],
		(soft->event_count - i) * sizeof(soft->event[0]));
	return true;
}

static void tell(struct nvme_soft *soft)
{
	uint32_t result;

	while (soft->event_cid_count > 0 && take_event(soft, &result)) {
		if (NVME_EVENT_LOG(result))
			soft->event_masked |= kind_of(result); /* (2) */
		ASSERT(soft->event_cid_count <= NVME_SOFT_EVENTS);
		ASSERT(soft->admin.owed_count >= soft->event_cid_count); /* (1) */
		nvme__soft_post(&soft->admin, soft->event_cid[--soft->event_cid_count],
				NVME_SC_SUCCESS, result);
	}
}

void nvme__soft_event(struct nvme_soft *soft, uint32_t type, uint32_t info, uint32_t log_id)
{
	if (!(soft->csts & NVME_CSTS_RDY) || soft->event_count == NVME_SOFT_EVENTS)
		return;
	soft->event[soft->event_count++] = type | info << 8 | log_id << 16;
	tell(soft);
}

uint32_t nvme__soft_wait_event(struct nvme_soft *soft, uint16_t cid)
{
	if (soft->event_cid_count == NVME_SOFT_EVENTS)
		return NVME_SC_EVENT_LIMIT;
	soft->event_cid[soft->event_cid_count++] = cid; /* (1) */
	tell(soft);
	return NVME_SOFT_HELD;
}

void nvme__soft_forget_events(struct nvme_soft *soft)
{
	soft->event_cid_count = 0;
	soft->event_count = 0;
	soft->event_masked = 0;
	soft->event_wanted = 0;
}

/* ---- log pages ------------------------------------------------------------------------ */

union log {
	struct nvme_log_health health;
	struct nvme_log_error error;
	struct nvme_log_firmware firmware;
	le32 changed[NVME_PAGE_SIZE / sizeof(le32)];
	uint8_t bytes[NVME_PAGE_SIZE];
};

/* The page, and which kind of event it answers; false: there is no such log. */
static bool fill(struct nvme_soft *soft, uint32_t log_id, bool retain, union log *log,
		 uint32_t *kind)
{
	switch (log_id) {
	case NVME_LOG_ERROR:
		log->error = soft->error;
		*kind = 1u << NVME_EVENT_ERROR;
		return true;
	case NVME_LOG_HEALTH:
		log->health = soft->health;
		*kind = 1u << NVME_EVENT_HEALTH;
		return true;
	case NVME_LOG_FIRMWARE:
		log->firmware.active = 1;
		memcpy(log->firmware.revision[0], "1       ", 8);
		*kind = 1u << NVME_EVENT_NOTICE;
		return true;
	case NVME_LOG_CHANGED_NS:
		memcpy(log->changed, soft->changed_ns, sizeof(soft->changed_ns));
		if (!retain)
			memset(soft->changed_ns, 0, sizeof(soft->changed_ns));
		*kind = 1u << NVME_EVENT_NOTICE;
		return true;
	default:
		return false;
	}
}

uint32_t nvme__soft_get_log(struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	uint32_t cdw10 = le32_get(sqe->cdw10), kind, status;
	uint64_t dwords = ((uint64_t)(le32_get(sqe->cdw11) & 0xffff) << 16 | cdw10 >> 16) + 1;
	union log log;

	if (dwords * 4 > NVME_PAGE_SIZE || le32_get(sqe->cdw12) || le32_get(sqe->cdw13))
		return NVME_SC_INVALID_FIELD; /* more than there is, or not from the start */
	memset(&log, 0, sizeof(log));
	if (!fill(soft, cdw10 & 0xff, cdw10 & NVME_LOG_RETAIN, &log, &kind))
		return NVME_SC_LOG_INVALID;
	status = nvme__soft_give(soft, sqe, &log, (uint32_t)dwords * 4);
	if (!status && !(cdw10 & NVME_LOG_RETAIN)) {
		soft->event_masked &= ~kind;
		tell(soft);
	}
	return status;
}
