/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Names common to both sides of the fabric: requests with their arguments, file names, attributes
 * and answers, in host integers.  Part of fab.h: include that. */
#ifndef FABRIC_FAB_CALL_H
#define FABRIC_FAB_CALL_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAB_BODY_MAX        1024u        /* a request's or reply's own bytes           */
#define FAB_LONG_BODY_MAX   (256u << 10) /* of a request with many names               */
#define FAB_WINDOW_MAX      (64u << 20)  /* landing or payload window of one request   */
#define FAB_BATCH_MAX       1024u        /* items of one request                       */
#define FAB_PATH_MAX        4095u        /* bytes of a path or a symlink's target      */
#define FAB_HANDLE_BYTES    16u
#define FAB_COOKIE_BYTES    24u
#define FAB_ANSWER_BYTES    24u /* of one item in a batch's table of answers  */
#define FAB_SUMS_INLINE     32u /* a FAB_READ of up to this many blocks has its sums in the reply */
#define FAB_TO_END          UINT64_MAX /* length: as far as the file goes            */
#define FAB_POOLS_MAX       8u         /* of one connection                          */
#define FAB_LANES_MAX       8u         /* connections of one session                 */
#define FAB_APPLIANCE_BYTES 16u

#define FAB_CLIENT_ID_BYTES 16u
#define FAB_CHANGE_SLOTS    64u /* changes of one client that are remembered at a time */

/* PROTOCOL.md 5 has each one's body and reply. */
enum fab_type {
	FAB_PING = 16,
	FAB_READ,       /* one piece of one file by handle: the hot path        */
	FAB_READ_BATCH, /* items, into one window                               */
	FAB_OPEN,       /* look up, perhaps create; handle and attributes       */
	FAB_STAT,       /* names; attributes                                    */
	FAB_LIST,       /* a page of a directory                                */
	FAB_READLINK,
	FAB_STATFS,
	FAB_STATUS,     /* the appliance's counters, JSON text                  */
	FAB_PUT,        /* whole files, each atomic                             */
	FAB_PUT_BEGIN,  /* a hidden file for a put of more than 4 MiB           */
	FAB_PUT_COMMIT, /* ... takes its name                                   */
	FAB_WRITE,      /* a piece, at an offset or at the end                  */
	FAB_TRUNCATE,
	FAB_SETATTR,
	FAB_MKDIR,
	FAB_RMDIR,
	FAB_UNLINK,
	FAB_RENAME,
	FAB_SYMLINK,
	FAB_PUT_ABORT, /* PUT_BEGIN's hidden file will not be committed         */
	FAB_LINK,      /* add a name to a file                              */
	FAB_PUNCH,     /* bytes of a file become a hole                         */
	FAB_SEEK,      /* where its next data, or its next hole, is             */
	FAB_RMTREE,    /* a directory and all that is in it                     */
	FAB_XATTR_GET, /* the value of an extended attribute                    */
	FAB_XATTR_SET,
	FAB_XATTR_LIST, /* the names of all of a file's or directory's           */
	FAB_XATTR_DEL,
	FAB_UNLINK_BATCH, /* many names, each as FAB_UNLINK */
	FAB_DRAIN,        /* a drive is to leave the store                         */
	FAB_UNDRAIN,      /* ... is to stay                                        */
	FAB_HOLD,         /* names: files that stay, unlinked too, until */
	FAB_LET_GO,       /* ... handles: each is held once less                   */
	FAB_TOTALS,       /* of all that is below a directory                      */
	FAB_CHECK,        /* a client's read was damaged: check the blocks         */
	FAB_DAMAGED,      /* a page of the list of damaged files, JSON text        */
	FAB_LOG,          /* a page of the appliance's last log lines, JSON text   */
	FAB_REPORT,       /* how the client's job fares: fab_report.h              */
	FAB_PROTECT,      /* from now on keep copies of blocks, as a scheme's name says */
	FAB_TYPE_END,     /* one past the last */
};

/* A file's or directory's lasting name.  The fabric carries it and does not look inside. */
struct fab_handle {
	uint8_t bytes[FAB_HANDLE_BYTES];
};

enum fab_by {
	FAB_BY_PATH = 1,  /* `name` from the root                               */
	FAB_BY_HANDLE,    /* `handle`; no name                                  */
	FAB_BY_DIR,       /* `name` from the directory with number `dir`        */
	FAB_BY_DIRHANDLE, /* `name` from the directory `handle`                 */
};

/* Names one file.  `name` has no NUL and is not terminated; 1 .. FAB_PATH_MAX bytes. */
struct fab_name {
	enum fab_by by;
	bool nofollow; /* a symlink at the end is meant itself */
	uint16_t name_bytes;
	const char *name;
	uint64_t dir; /* below 2^48 */
	struct fab_handle handle;
};

/* One item of a FAB_READ_BATCH. */
struct fab_read_item {
	struct fab_name name;
	uint64_t offset_bytes;
	uint64_t length_bytes; /* FAB_TO_END: all the rest */
	int64_t ctime_ns;      /* READ_BATCH: of the state of the file that is meant; 0: any */
};

/*
 * One whole file of a FAB_PUT, of at most 4 MiB.  Its bytes and their checksums lie in the
 * request's window, at these offsets from its start.
 */
struct fab_put_item {
	struct fab_name name; /* not FAB_BY_HANDLE */
	uint32_t mode;        /* permission bits only */
	uint32_t uid;
	uint32_t gid;
	uint32_t flags; /* FAB_PUT_EXCL */
	int64_t mtime_ns;
	uint32_t size_bytes;
	uint32_t payload_at; /* a multiple of 64             */
	uint32_t sums_at;    /* a multiple of 4; one le32 a block, crc32c_block()s */
};
#define FAB_PUT_EXCL 1u /* -EEXIST rather than replace */

/* 96 bytes on the wire.  Times are nanoseconds since 1970. */
struct fab_attr {
	struct fab_handle handle;
	uint64_t ino; /* a number for people */
	uint64_t dir; /* a directory's number for FAB_BY_DIR; 0: not a directory */
	uint64_t size_bytes;
	uint64_t allocated_bytes;
	int64_t mtime_ns;
	int64_t ctime_ns;
	int64_t atime_ns;
	uint32_t mode; /* with S_IFMT */
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;
	uint32_t xattrs; /* extended attributes */
};

/* One entry of a directory, in the window of a FAB_LIST. */
struct fab_entry {
	struct fab_attr attr;
	uint16_t name_bytes;
	const char *name;
};

struct fab_statfs {
	uint64_t total_bytes;
	uint64_t free_bytes; /* that a writer may still take */
	uint64_t files;
	uint64_t dirs;
	uint32_t name_max;
	uint32_t shard_count;
};

/* Totals of everything below a directory; for anything else, its own size. */
struct fab_totals {
	uint64_t entries;
	uint64_t dirs; /* of the entries */
	uint64_t bytes;
	uint64_t allocated_bytes;
	bool settled; /* exact: else changes of the last seconds may not be in it */
};

/*
 * The answer to one item of a batch, 24 bytes at the end of its window.  READ_BATCH: status,
 * offset, length and checksums.  With -EMSGSIZE `length_bytes` is the number of bytes available
 * (from the item's offset to the end), and the rest is 0.  PUT: status and the new file's handle.
 */
struct fab_answer {
	int32_t status;
	uint32_t data_at; /* in the window; a multiple of 4096       */
	uint64_t length_bytes;
	uint32_t sums_at; /* in the window: one le32 a block         */
	struct fab_handle handle;
};

/* The arguments of a request, by type.  FAB_PING and FAB_STATFS and FAB_STATUS have none. */
union fab_args {
	struct {
		struct fab_handle handle;
		uint64_t offset_bytes;
		uint32_t length_bytes; /* 1 .. the window's length */
	} read;
	struct {
		/* FAB_READ_BATCH, FAB_PUT, FAB_STAT, FAB_UNLINK_BATCH, FAB_HOLD and FAB_LET_GO:
		 * the client's arrays, by type; the appliance asks fab_req_read_item() and its like
		 * instead. */
		uint32_t count;
		const struct fab_read_item *reads;
		const struct fab_put_item *puts;
		const struct fab_name *names;
	} batch;
	struct {
		struct fab_name name;
		uint32_t flags; /* FAB_OPEN_* */
		uint32_t mode;  /* permission bits, when it creates */
		uint32_t uid;
		uint32_t gid;
	} open;
	struct {
		struct fab_name dir;
		uint8_t cookie[FAB_COOKIE_BYTES]; /* zero: from the start */
		uint32_t count_max;
	} list;
	struct {
		struct fab_name
			name; /* READLINK, RMDIR, UNLINK, RMTREE, XATTR_LIST, TOTALS; DRAIN */
	} name;
	struct {
		struct fab_name name; /* PUT_BEGIN, MKDIR */
		uint32_t mode;
		uint32_t uid;
		uint32_t gid;
		uint32_t flags;      /* PUT_BEGIN: FAB_PUT_EXCL           */
		int64_t mtime_ns;    /* MKDIR: 0 is now                   */
		uint64_t size_bytes; /* PUT_BEGIN: what will be written   */
	} make;
	struct {
		struct fab_handle handle;
		uint64_t
			size_bytes; /* TRUNCATE: the new one; PUT_COMMIT: the whole; PUT_ABORT: 0 */
	} size;
	struct {
		struct fab_handle handle;
		uint64_t offset_bytes; /* not looked at with FAB_WRITE_APPEND   */
		uint32_t length_bytes; /* 1 .. 4 MiB                            */
		uint32_t flags;        /* FAB_WRITE_APPEND                      */
		uint32_t payload_at;   /* in the window; a multiple of 64       */
		/* In the window, a multiple of 4: one le32 for each block of the file that
		 * is touched: crc32c_block() of the bytes that go into it.  An append counts
		 * blocks from its own first byte. */
		uint32_t sums_at;
	} write;
	struct fab_read_item check; /* CHECK: length_bytes 1 and more, or FAB_TO_END */
	struct {
		uint64_t from; /* DAMAGED, LOG: "next" of the page before, or 0 */
	} page;
	struct {
		const uint8_t *body; /* REPORT: fab_report_build(), FAB_REPORT_BYTES */
	} report;
	struct {
		struct fab_handle handle; /* PUNCH, SEEK */
		uint64_t offset_bytes;
		uint64_t length_bytes; /* PUNCH: 1 and more; SEEK: 0 */
		uint32_t flags;        /* SEEK: FAB_SEEK_HOLE        */
	} range;
	struct {
		struct fab_name name;
		uint32_t mask; /* FAB_SET_*: which of those below */
		uint32_t mode;
		uint32_t uid;
		uint32_t gid;
		int64_t mtime_ns;
		int64_t atime_ns;
	} setattr;
	struct {
		struct fab_name from; /* RENAME, LINK: the existing name */
		struct fab_name to;
		uint32_t flags; /* FAB_RENAME_*, one at most; LINK: 0 */
	} rename;
	struct {
		struct fab_name name; /* XATTR_GET, XATTR_SET, XATTR_DEL: whose */
		uint16_t xattr_bytes; /* 1 .. FAB_PATH_MAX */
		const char *xattr;
		/* XATTR_SET, else 0s: */
		uint32_t value_bytes;
		const void *value;
		uint32_t flags; /* FAB_XATTR_*, one at most */
	} xattr;
	struct {
		struct fab_name name;
		uint16_t target_bytes; /* 1 .. FAB_PATH_MAX */
		const char *target;
		uint32_t uid;
		uint32_t gid;
		int64_t mtime_ns; /* 0: now */
	} symlink;
};

#define FAB_OPEN_CREATE      1u
#define FAB_OPEN_EXCL        2u
#define FAB_OPEN_TRUNC       4u
#define FAB_OPEN_DIRECTORY   8u
#define FAB_OPEN_HOLD        16u /* and FAB_HOLD it, if it is a file */
#define FAB_WRITE_APPEND     1u
#define FAB_RENAME_NOREPLACE 1u
#define FAB_RENAME_EXCHANGE  2u
#define FAB_SEEK_HOLE        1u
#define FAB_XATTR_CREATE     1u /* -EEXIST rather than replace */
#define FAB_XATTR_REPLACE    2u /* -ENODATA rather than create */
#define FAB_SET_MODE         1u
#define FAB_SET_UID          2u
#define FAB_SET_GID          4u
#define FAB_SET_MTIME        8u
#define FAB_SET_ATIME        16u

/* May the request change anything?  A key that only reads may not send it, and a client does not
 * send it again when it is not known what became of it. */
bool fab_is_change(enum fab_type type, const union fab_args *args);

/* Limits agreed in the hello. */
struct fab_limits {
	uint32_t credits;          /* requests in flight, 1 .. 1024                */
	uint32_t long_bodies;      /* of these, requests with a body over FAB_BODY_MAX */
	uint32_t batch_max;        /* items, <= FAB_BATCH_MAX                      */
	uint32_t window_max_bytes; /* <= FAB_WINDOW_MAX                            */
	uint64_t pool_max_bytes;   /* all pools of the session together            */
};

#define FAB_FEATURE_REPORT 1u /* it takes REPORT */

/* The core, session and lane of a connection. */
struct fab_place {
	uint64_t session_id; /* that of all its lanes                           */
	uint32_t core;       /* that serves this connection                     */
	uint32_t core_count;
	uint32_t shard_count;
	uint32_t lanes_max; /* connections of one session                      */
	uint32_t features;  /* FAB_FEATURE_...: of the appliance               */
	uint8_t appliance[FAB_APPLIANCE_BYTES]; /* random, of this run of it    */
};

#endif
