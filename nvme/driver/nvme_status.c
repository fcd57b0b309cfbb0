/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Translates a command's status for the caller.
 *
 *   -EIO         the drive failed; the same command may fail again
 *   -ENODATA     the content of these blocks is lost (a medium error); a write repairs them
 *   -EINVAL      the drive refused the command: a limit that we exceeded
 *   -EFAULT      it could not reach our memory
 *   -ERANGE      blocks that it does not have
 *   -ENOSPC      it has no room (thin provisioning)
 *   -ECANCELED   it was told to stop, or lost its power
 *   -EBUSY       not now
 *
 * An unknown status is -EIO: a newer controller may know more than this table.
 */
#include "nvme/nvme_internal.h"

#include <errno.h>

static const struct status_row {
	uint32_t status;
	int err;
	const char *text;
	bool retry; /* it was not tried, or says that it passes */
} rows[] = {
	{ NVME_SC_SUCCESS, 0, "success", false },
	{ NVME_SC_INVALID_OPCODE, -EOPNOTSUPP, "invalid opcode", false },
	{ NVME_SC_INVALID_FIELD, -EINVAL, "invalid field", false },
	{ NVME_SC_CID_CONFLICT, -EINVAL, "command id conflict", false },
	{ NVME_SC_DATA_TRANSFER, -EFAULT, "data transfer error", false },
	{ NVME_SC_POWER_LOSS, -ECANCELED, "aborted due to power loss", false },
	{ NVME_SC_INTERNAL, -EIO, "internal error", false },
	{ NVME_SC_ABORT_REQUESTED, -ECANCELED, "abort requested", true },
	{ NVME_SC_ABORT_SQ_DELETED, -ECANCELED, "aborted, queue deleted", true },
	{ NVME_SC_INVALID_NAMESPACE, -EINVAL, "invalid namespace", false },
	{ NVME_SC_PRP_OFFSET, -EINVAL, "invalid PRP offset", false },
	{ NVME_SC_LBA_RANGE, -ERANGE, "LBA out of range", false },
	{ NVME_SC_CAPACITY, -ENOSPC, "capacity exceeded", false },
	{ NVME_SC_NS_NOT_READY, -EBUSY, "namespace not ready", true },
	{ NVME_SC_INTERRUPTED, -EBUSY, "command interrupted", true },
	{ NVME_SC_TRANSIENT, -EIO, "transient transport error", true },
	{ NVME_SC_PATH_INTERNAL, -EIO, "internal path error", false },
	{ NVME_SC_PATH_TRANSITION, -EBUSY, "path in transition", true },
	{ NVME_SC_CQ_INVALID, -EINVAL, "completion queue invalid", false },
	{ NVME_SC_QID_INVALID, -EINVAL, "invalid queue identifier", false },
	{ NVME_SC_QUEUE_SIZE, -EINVAL, "invalid queue size", false },
	{ NVME_SC_QUEUE_DELETION, -EINVAL, "invalid queue deletion", false },
	{ NVME_SC_WRITE_FAULT, -EIO, "write fault", false },
	{ NVME_SC_UNRECOVERED_READ, -ENODATA, "unrecovered read error", false },
	{ NVME_SC_GUARD_CHECK, -ENODATA, "guard check error", false },
	{ NVME_SC_ACCESS_DENIED, -EACCES, "access denied", false },
};

static wk_cold const struct status_row *row_of(uint32_t status)
{
	static const struct status_row unknown = { 0, -EIO, "unknown status", false };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].status == status)
			return &rows[i];
	}
	return &unknown;
}

int nvme__status_errno(uint32_t status)
{
	return likely(status == NVME_SC_SUCCESS) ? 0 : row_of(status)->err;
}

/*
 * A failed flush or write is not repaired by a second one that succeeds: only a command that the
 * drive did not try is tried again.
 */
bool nvme__status_retry(uint32_t status)
{
	return !(status & NVME_STATUS_NO_RETRY) && row_of(status & NVME_STATUS_MASK)->retry;
}

const char *nvme__status_text(uint32_t status)
{
	return row_of(status)->text;
}

const char *nvme_status_text(uint32_t nvme_status)
{
	return nvme_status ? nvme__status_text(nvme_status) : "no answer from the drive";
}
