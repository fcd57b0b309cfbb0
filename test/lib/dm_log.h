/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The log of QEMU's blklogwrites, which has the format of Linux's dm-log-writes. */
#ifndef TEST_LIB_DM_LOG_H
#define TEST_LIB_DM_LOG_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DM_LOG_SECTOR = 512 };

enum dm_log_flag {
	DM_LOG_FLUSH = 1,
	DM_LOG_FUA = 2,
	DM_LOG_DISCARD = 4,
	DM_LOG_MARK = 8,
};

struct dm_log_entry {
	uint64_t sector;
	uint64_t sectors;
	uint64_t flags;
	const uint8_t
		*data; /* `sectors` of them; NULL: a discard, or zeroes (see dm_log_entry()) */
};

struct dm_log {
	const uint8_t *bytes;
	uint64_t size_bytes;
	uint64_t at;
};

/* 0, or -EINVAL: not such a log, or one of another version or sector size. */
must_check int dm_log_open(struct dm_log *log, const void *bytes, uint64_t size_bytes);

/* Returns 1 and the next entry; 0 at the end; -EINVAL if the bytes are not an entry. */
must_check int dm_log_next(struct dm_log *log, struct dm_log_entry *out);

/*
 * One entry that fills `bytes`, as it is when a log lies on a logged drive.  Zeroes are logged
 * as an entry without data, their sectors then written behind it: `data` is NULL.
 * Returns -EINVAL if the bytes are not an entry.
 */
must_check int dm_log_entry(struct dm_log_entry *out, const uint8_t *bytes, uint64_t size_bytes);

#endif
