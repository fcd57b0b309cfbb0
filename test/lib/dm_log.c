/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The one parser of the log that QEMU's blklogwrites writes.
 *
 *   sector 0    1        2 ..               n        n+1
 *   | super   | entry  | data of it ...   | entry  | data ...   | zeroes
 *
 * An entry is a sector {sector, sectors, flags, 0}; data follows but for discards.  The
 * superblock's count of entries is only as new as the last flush, so it is not used: a log begins
 * as an empty file, and the first sector that is no entry (all zero, or beyond the end) ends it.
 */
#include "test/lib/dm_log.h"

#include "base/le.h"

#include <errno.h>
#include <string.h>

#define MAGIC 0x6a736677736872ull

enum { VERSION = 1, FLAGS_KNOWN = DM_LOG_FLUSH | DM_LOG_FUA | DM_LOG_DISCARD | DM_LOG_MARK };

LAYOUT_BEGIN
struct super_disk {
	le64 magic;
	le64 version;
	le64 entry_count;
	le32 sector_bytes;
	le32 pad;
};

struct entry_disk {
	le64 sector;
	le64 sectors;
	le64 flags;
	le64 data_bytes; /* of a mark; QEMU writes 0 */
};
LAYOUT_END
static_assert(sizeof(struct entry_disk) == 32, "dm-log-writes");

int dm_log_open(struct dm_log *log, const void *bytes, uint64_t size_bytes)
{
	struct super_disk super;

	if (size_bytes < DM_LOG_SECTOR)
		return -EINVAL;
	memcpy(&super, bytes, sizeof(super));
	if (le64_get(super.magic) != MAGIC || le64_get(super.version) != VERSION ||
	    le32_get(super.sector_bytes) != DM_LOG_SECTOR)
		return -EINVAL;
	*log = (struct dm_log){ .bytes = bytes, .size_bytes = size_bytes, .at = DM_LOG_SECTOR };
	return 0;
}

/* 0 and an entry's header; -EINVAL when it makes no sense. */
static int header(struct dm_log_entry *out, const uint8_t *bytes)
{
	struct entry_disk entry;

	memcpy(&entry, bytes, sizeof(entry));
	*out = (struct dm_log_entry){
		.sector = le64_get(entry.sector),
		.sectors = le64_get(entry.sectors),
		.flags = le64_get(entry.flags),
	};
	if (out->flags & ~(uint64_t)FLAGS_KNOWN || out->sectors > UINT32_MAX ||
	    out->sector > UINT64_MAX / DM_LOG_SECTOR - out->sectors)
		return -EINVAL;
	if (out->sectors == 0 && !(out->flags & (DM_LOG_FLUSH | DM_LOG_MARK)))
		return -EINVAL;
	return 0;
}

int dm_log_next(struct dm_log *log, struct dm_log_entry *out)
{
	static const uint8_t none[DM_LOG_SECTOR];
	uint64_t left = log->size_bytes - log->at, data_bytes;
	int err;

	ASSERT(log->at <= log->size_bytes);
	if (left < DM_LOG_SECTOR || memcmp(log->bytes + log->at, none, sizeof(none)) == 0)
		return 0;
	err = header(out, log->bytes + log->at);
	if (err)
		return err;
	data_bytes = out->flags & DM_LOG_DISCARD ? 0 : out->sectors * DM_LOG_SECTOR;
	if (data_bytes > left - DM_LOG_SECTOR)
		return 0; /* cut off: QEMU was killed */
	if (data_bytes > 0)
		out->data = log->bytes + log->at + DM_LOG_SECTOR;
	log->at += DM_LOG_SECTOR + data_bytes;
	return 1;
}

int dm_log_entry(struct dm_log_entry *out, const uint8_t *bytes, uint64_t size_bytes)
{
	int err = size_bytes < DM_LOG_SECTOR ? -EINVAL : header(out, bytes);

	if (err)
		return err;
	if (size_bytes == DM_LOG_SECTOR)
		return 0;
	if (out->flags & DM_LOG_DISCARD || size_bytes != (out->sectors + 1) * DM_LOG_SECTOR)
		return -EINVAL;
	out->data = bytes + DM_LOG_SECTOR;
	return 0;
}
