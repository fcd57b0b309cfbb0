/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_log.c and meta_self_check_log.c: what the log keeps in memory. */
#ifndef META_LOG_H
#define META_LOG_H

#include "meta/meta_store.h"

#define META__LOG_MARKS 256u /* points of the log with a known position in bytes                */

enum log_state { LOG_IDLE, LOG_OPEN, LOG_FLUSHING, LOG_WRITING, LOG_DURABLE };

struct log_block {
	enum log_state state;
	uint8_t *buf;
	uint64_t seq;
	uint64_t trim; /* as it says */
	uint64_t drives_mask;
	uint32_t zone[META__LOG_COPIES]; /* meta__log_copies() */
	uint32_t at;                     /* block of the zone */
	uint32_t bytes;                  /* of records */
	uint32_t records;
	uint32_t flushing, writing;
	uint32_t written; /* copies */
	struct meta__io write[META__LOG_COPIES];
	struct meta__io *flush; /* META_DRIVES_MAX */
};

struct log_zone {
	uint32_t zone[META__LOG_COPIES];
	uint64_t order;
	uint64_t last_seq;
};

struct log_mark {
	uint64_t seq;
	uint64_t bytes; /* of all blocks up to seq */
};

struct meta__log {
	struct log_block block[META__LOG_BUFS];
	uint32_t block_bytes_max; /* largest block that fits a zone */
	bool started;
	bool broken; /* a block could not be written: it is never durable, nor is any behind it */
	uint64_t epoch, base;
	uint64_t next;    /* sequence of the next block to be opened */
	uint64_t durable; /* all up to this are */
	uint64_t last;    /* the newest with a record */
	uint64_t trim;    /* roots cover all up to this */
	uint64_t trim_said;
	uint64_t trim_durable;
	bool open;      /* block next - 1 is open */
	bool unvouched; /* the newest block has records and no block after it */
	uint32_t quiet_turns;
	uint32_t cur_at;                  /* next free block of the zone that is being filled */
	uint32_t ahead[META__LOG_COPIES]; /* zones whose headers are durable, or NONE */
	uint32_t ahead_drives;            /* that served when these were taken        */
	struct log_zone *zones;           /* oldest first; the last one is being filled */
	uint32_t zones_count;
	uint64_t bytes, bytes_trimmed;
	struct log_mark mark[META__LOG_MARKS];
	uint32_t mark_first, mark_count;
	uint64_t blocks_written;
	struct log_newest {
		uint64_t baddr; /* 0: none */
		uint8_t head[sizeof(struct meta_log_disk)];
	} newest[META_DRIVES_MAX]; /* of the durable blocks, the last one on each drive */
};

#endif
