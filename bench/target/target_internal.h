/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The calls that a kind of target implements.  bench/target/target.h has the rules. */
#ifndef BENCH_TARGET_TARGET_INTERNAL_H
#define BENCH_TARGET_TARGET_INTERNAL_H

#include "bench/target/target.h"

#define TARGET__ROOT_MAX 192u

struct target__kind {
	const char *scheme; /* of names: "posix:" */
	const char *what;
	/* The private part comes in t->own and s->own.  0, or 1 after a line on stderr. */
	int (*open)(struct target *t, const char *where);
	void (*close)(struct target *t);
	int (*session_open)(struct target_session *s);
	void (*session_close)(struct target_session *s);
	void (*submit)(struct target_session *s, struct target_group *g);
	void (*poll)(struct target_session *s); /* NULL: groups end in submit */
	void (*wait)(struct target_session *s, uint64_t timeout_ns);
	int (*mkdir)(struct target_session *s, const char *path); /* NULL: it has no directories */
	int (*drop_caches)(struct target *t);                     /* NULL: -ENOTSUP */
};

struct target {
	const struct target__kind *kind;
	struct target_options options;
	char name[96];
	char root[TARGET__ROOT_MAX]; /* everything is below it */
	struct target_promise promise;
	int server_pid;
	bool is_cold; /* its caches are to be dropped before each run */
	void *own;
};

struct target_session {
	struct target *target;
	struct target_group *done_first; /* ended, not reaped */
	struct target_group **done_last;
	void *own;
};

extern const struct target__kind target__null, target__posix, target__cold, target__direct,
	target__uring, target__weka, target__shm, target__tcp, target__tls, target__rdma,
	target__nfs, target__redis;

/* An io has ended.  After the last one of its group the group can be reaped. */
void target__ended(struct target_session *s, struct target_group *g, struct target_io *io,
		   int status);
/* The group can be reaped. */
void target__group_ended(struct target_session *s, struct target_group *g);
/* `count` bytes of the file arrived at `data`: looks at the stamp, and counts them. */
void target__landed(struct target_io *io, uint64_t offset_bytes, const void *data, uint64_t count);
/* The name of an io below the root, into out. */
void target__path(const struct target *t, const char *path, char *out, uint32_t size);
/* A memory area of whole pages, full of random bytes; NULL: none. */
void *target__pages(uint64_t bytes);
/* Sleeps: nothing is in flight that could end. */
void target__sleep(uint64_t ns);
void target__scramble(void *at, uint64_t bytes);

/* ---- target_dir.c: what local directories share ------------------------------------- */

struct target__dir {
	int fd;         /* the root */
	int read_flags; /* O_DIRECT, or 0 */
};

/* A descriptor of a worker: ranges of few files (TARGET_KEEP_OPEN) find their file open. */
struct target__kept {
	int fd; /* -1: none */
	char path[TARGET_PATH_MAX];
};

#define TARGET__PIECE (4u << 20) /* bytes of one call, at most */
#define TARGET__RING  (8u << 20)

/* Memory where reads end, one behind the other: as in a loader, the next read does not find the
 * buffer of the last one in the processor's nearest cache. */
struct target__landing {
	uint8_t *memory; /* TARGET__RING bytes */
	uint64_t next;
};

/* Makes DIR/weka-bench.PID.N; t->own is a struct target__dir then. */
must_check int target__dir_open(struct target *t, const char *where, int read_flags);
void target__dir_close(struct target *t);
int target__dir_mkdir(struct target_session *s, const char *path);
int target__dir_drop_caches(struct target *t);
/* Does the work of one io: 0 or -errno. */
int target__dir_io(const struct target__dir *dir, const struct target_group *g,
		   struct target_io *io, struct target__landing *land, struct target__kept *kept);
/* After the last io of a group: makes removals durable. */
int target__dir_settle(const struct target__dir *dir, const struct target_group *g);
void target__dir_forget(struct target__kept *kept);

#endif
