/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A storage system to be measured: an appliance, a local directory, an NFS server, a redis server,
 * or nothing at all.  Every workload of `weka-bench mlperf`, `checkpoint`, `kvcache` and `compare`
 * runs over this interface, so that all systems are measured by the same loop.
 *
 *    workload            target_session (one per thread)          the system
 *   +---------+ submit  +----------------------------+
 *   | groups  | ------> | a group of reads, puts ... | ----->  one request, or one call each
 *   |         | <------ |                            | <-----
 *   +---------+  reap   +----------------------------+
 *
 * The unit is a group: the files or ranges of one batch, which the system may read in any order or
 * all at once.  A system that has requests with many names uses one; a file system opens, reads and
 * closes each file.  The bytes that were read end in memory of the target, are compared with the
 * stamp that their writer made, and are then given up: a benchmark does not keep them.
 */
#ifndef BENCH_TARGET_TARGET_H
#define BENCH_TARGET_TARGET_H

#include "base/assert.h"
#include "base/stat.h"

#include <stdbool.h>
#include <stdint.h>

struct target;
struct target_session;
struct bench_conf;

#define TARGET_TO_END     UINT64_MAX
#define TARGET_PATH_MAX   112
#define TARGET_STAMP_NONE UINT64_MAX
#define TARGET_GROUP_MAX  1024u

enum target_op { TARGET_READ, TARGET_PUT, TARGET_STAT, TARGET_LIST, TARGET_REMOVE };

/* Makes the bytes [offset, offset + count) of file number `file`. */
struct target_content {
	void (*fill)(const struct target_content *content, uint64_t file, uint64_t offset,
		     uint8_t *out, uint64_t count);
};

/* One file, or a range of it.  All ios of a group have the same op. */
struct target_io {
	char path[TARGET_PATH_MAX];           /* below the target's root, no leading slash       */
	uint64_t offset_bytes;                /* READ                                            */
	uint64_t length_bytes;                /* READ: or TARGET_TO_END.  PUT: the file's size   */
	uint64_t file;                        /* its number, for content                         */
	const struct target_content *content; /* PUT                                             */
	uint64_t
		stamp_at; /* READ: offset in the file of 8 bytes that must be the stamp, or NONE  */
	uint64_t stamp;
	const void *named_by; /* target_files: whose names it had last */
	/* Filled in: */
	uint64_t got_bytes; /* READ: bytes; LIST: entries; STAT: size                            */
	int32_t status;     /* 0 or -errno; -EBADMSG: the stamp is another                       */
	/* The target's: */
	uint32_t parts; /* requests in flight */
	uint64_t next_bytes;
};

/* Flags of a group */
#define TARGET_KEEP_OPEN 1u /* ranges of few files: the target may keep them open        */
#define TARGET_DURABLE   2u /* PUT, REMOVE: ends when the change would survive a power cut */

struct target_group {
	enum target_op op;
	uint32_t flags;
	struct target_io *io;
	uint32_t count;
	uint32_t room; /* ios that there are */
	void *user;
	uint64_t began_ns; /* the loop's */
	/* The target's: */
	uint32_t begun;
	uint32_t ended;
	struct target_group *next;
};

/* The promises under which a system got its figures. */
struct target_promise {
	const char *durable;   /* "each put", "fsync" or "no"        */
	const char *cache;     /* "page cache", "none (O_DIRECT)"    */
	const char *checksums; /* "end to end" or "no"               */
	const char *encrypted; /* "no" or "TLS 1.3"                  */
};

struct target_options {
	const char *key_file; /* of a running appliance                                  */
	const char *drive;    /* of an appliance that is started: "mem:2G"               */
	uint32_t threads;     /* of a session of a local directory; 0: the caller's only */
	uint32_t depth;       /* ios in flight in a session; 0: 256                      */
	int core_server;      /* processor of an appliance that is started; -1: any      */
	bool keep;            /* target_close() leaves what was made                       */
};

/**
 * target_open - find a system by its name
 *
 *   weka:shm weka:tcp weka:tls      an appliance that is started on a fresh drive
 *   shm:/PATH tcp:// tls:// rdma:// a running appliance (options->key_file)
 *   posix:DIR cold:DIR              a directory, through the page cache, or with it dropped
 *   direct:DIR uring:DIR            ... with O_DIRECT; with io_uring and O_DIRECT
 *   nfs://HOST/EXPORT               an NFS server (version 3), by libnfs
 *   redis://HOST:PORT               a redis server: an object per file
 *   null:                           nothing: what the loop itself costs
 *
 * Everything is made below a directory of this process, which target_close() removes.
 *
 * Owns:    *out is the caller's, until target_close().
 * Errors:  1, after a line on stderr.
 */
must_check int target_open(struct target **out, const char *name,
			   const struct target_options *options);
void target_close(struct target *t);
const char *target_name(const struct target *t);
const struct target_promise *target_promise(const struct target *t);
/* The process that serves, for its CPU time; 0: this one, the kernel, or another machine. */
int target_server_pid(const struct target *t);

/**
 * target_session_open - a thread's way to the system
 *
 * Thread:  only one thread uses a session.
 * Errors:  1, after a line on stderr.
 */
must_check int target_session_open(struct target *t, struct target_session **out);
void target_session_close(struct target_session *s);

/**
 * target_submit - begin a group; the group and its ios are the target's until it is reaped
 *
 * A local directory without threads does the work before it returns.
 */
void target_submit(struct target_session *s, struct target_group *g);
/* A group that has ended, or NULL.  Its ios have their status. */
struct target_group *target_reap(struct target_session *s);
/* Sleeps until a group may have ended, or the time is over. */
void target_wait(struct target_session *s, uint64_t timeout_ns);
/* Submits a group and waits for it: 0, or the first status that is not 0. */
must_check int target_do(struct target_session *s, struct target_group *g);

/* A directory below the root; one that exists is fine.  0 or -errno. */
must_check int target_mkdir(struct target_session *s, const char *path);
/* A directory of this machine. */
bool target_is_local(const struct target *t);
/* cold: its caches are to be dropped before each run. */
bool target_is_cold(const struct target *t);
/* Drops what the machine holds in its caches of this target: 0; -ENOTSUP: it has none, or none that
 * we may drop. */
int target_drop_caches(struct target *t);

/* ---- target_loop.c: one loop for all ------------------------------------------------- */

struct target_loop {
	struct target_session *session;
	struct target_group *groups; /* `depth` of them, with their ios */
	uint32_t depth;
	/* Makes the next group.  Returns false after the last one. */
	bool (*next)(void *ctx, struct target_group *g);
	void *ctx;
};

struct target_figures {
	uint64_t ops; /* ios that ended well */
	uint64_t bytes;
	uint64_t ns;
	struct stat_hist *hist; /* ns of a group; NULL: not wanted */
};

/* Keeps `depth` groups in flight until `seconds` are over or no group is left.  0; 1 after a line
 * on stderr, when an io failed. */
must_check int target_loop_run(struct target_loop *loop, double seconds,
			       struct target_figures *out);

/* ---- target_files.c: files of a directory, for that loop --------------------------------- */

/* Files DIR/f00000000 and so on, in hexadecimal, in order or at random.  After the first group only
 * `next` may change. */
struct target_files {
	char dir[64];
	uint32_t dir_bytes; /* of its name, set by next()   */
	uint64_t first;     /* number of the first one          */
	uint64_t count;     /* how many                         */
	uint64_t bytes;     /* of each                          */
	enum target_op op;
	uint32_t flags;
	bool random;   /* draws with repetition, for ever */
	uint64_t next; /* in order: the next one          */
	uint64_t random_state;
	uint64_t range; /* not 0: reads pieces of that size of file `first`, `count` of them */
};

/* `depth` groups of `count` ios, for target_loop.groups: NULL: no memory. */
struct target_group *target_groups_create(uint32_t depth, uint32_t count);
void target_groups_destroy(struct target_group *groups);
/* target_loop.next with a struct target_files; `g->count` is what the group was created with. */
bool target_files_next(void *files, struct target_group *g);

/* The 8 bytes that the writer of `file` put at its stamp. */
static inline uint64_t target_stamp(uint64_t file)
{
	return (file + 1) * 0x9e3779b97f4a7c15ull;
}

/* The random bytes of a session's buffers, with the stamp at offset 0 of each file. */
extern const struct target_content target_plain;

#endif
