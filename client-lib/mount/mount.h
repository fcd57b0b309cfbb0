/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-mount: a FUSE file system over libweka-client.
 *
 *     program --system call--> kernel --request--> worker --weka_submit_*()--> appliance
 *                                     <--reply---  (op)   <----weka_reap()----
 *
 * Each worker is a thread with a session of its own and a clone of /dev/fuse.  It serves up to
 * MOUNT_OPS requests of the kernel at once.  A request is a struct mount_op until it is answered.
 * Workers share the table of inodes and send each other messages; nothing else.
 *
 * This is FUSE's own protocol, <linux/fuse.h>, without libfuse: ARCHITECTURE.md says why.
 */
#ifndef CLIENT_LIB_MOUNT_H
#define CLIENT_LIB_MOUNT_H

#include "base/assert.h"
#include "base/list.h"
#include "client-lib/weka_client.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define MOUNT_OPS         256u /* requests that one worker serves at once       */
#define MOUNT_WORKERS_MAX 16u
#define MOUNT_IO_MAX      (1u << 20) /* bytes of one read or write of the kernel's    */
#define MOUNT_HEAD        80u        /* of a request: its header, and a write's arguments */
#define MOUNT_INLINE      (MOUNT_HEAD + 4608u) /* two names and a symlink's target */
#define MOUNT_DIR_ENTRIES 256u                 /* names of one page of a directory              */

/* ---- the command line --------------------------------------------------------------- */

struct mount_args {
	const char *addresses;
	const char *dir;
	const char *key_file;
	const char *key_id;
	const char *root; /* directory of the appliance that is mounted */
	const char *log_file;
	uint64_t cache_ns;   /* how old a cached name, attribute or page may be */
	uint64_t timeout_ns; /* for one request of the kernel  */
	uint32_t threads;
	unsigned long flags; /* MS_* of mount(2) */
	bool anonymous;
	bool allow_other;
	bool buffered; /* files go through the page cache also with cache=0 */
	bool foreground;
	bool fake; /* mount(8) -f: check only */
};

/* Parses the command line of weka-mount, or of a helper of mount(8).  Returns 0, or an exit status
 * after it has printed a line; *args refers to `argv`. */
int mount_args_parse(struct mount_args *args, int argc, char **argv);

/* ---- inodes ------------------------------------------------------------------------- */

/* An inode that the kernel knows.  Its address is the kernel's number for it. */
struct mount_node {
	struct weka_handle handle;
	uint64_t ino;
	uint64_t generation;
	struct mount_node *next; /* in its bucket */
	uint64_t lookups;        /* references that the kernel holds */
	_Atomic uint32_t mode;   /* as last seen */
	_Atomic uint32_t gid;
	_Atomic int64_t
		pages_ctime_ns; /* state of the file that the page cache may hold; 0: none */
};

#define MOUNT_PARTS 64u

struct mount_part {
	pthread_mutex_t lock;
	struct mount_node **bucket;
	uint64_t count;
	uint64_t mask;
};

struct mount_nodes {
	struct mount_part part[MOUNT_PARTS];
	_Atomic uint64_t generation;
};

int mount_nodes_create(struct mount_nodes *nodes);
void mount_nodes_destroy(struct mount_nodes *nodes);

/* Returns the node of a file, with one more lookup; NULL: no memory. */
struct mount_node *mount_node_get(struct mount_nodes *nodes, const struct weka_attr *attr);

/* Remembers what was seen of the attributes. */
void mount_node_saw(struct mount_node *node, const struct weka_attr *attr);

/* Takes back `lookups` lookups; the node is freed with the last one. */
void mount_node_forget(struct mount_nodes *nodes, struct mount_node *node, uint64_t lookups);

/* ---- files and directories that are open ---------------------------------------------- */

enum mount_message_kind {
	MOUNT_CLOSE, /* close the hold of a file         */
	MOUNT_BREAK, /* the kernel interrupted a request */
};

/* A message to a worker.  The receiver frees the struct that it is in. */
struct mount_message {
	struct mount_message *next;
	enum mount_message_kind kind;
	uint64_t unique; /* MOUNT_BREAK: the request's */
};

struct mount_worker;

struct mount_file {
	struct mount_message message; /* first: MOUNT_CLOSE, to the holder */
	struct weka_handle handle;
	struct mount_worker *holder; /* the worker that opened it: its session holds the file */
	bool held;
	bool opening; /* the holder has no answer yet: the hold is under way */
	bool closed;  /* RELEASE came meanwhile */
	/* Read with the lookup; NULL: not.  They do not change. */
	char *bytes;
	uint32_t size_bytes;
	uint64_t begun_ns; /* when the lookup came */
	uint64_t until_ns; /* after that they are too old */
};

/* The content of a small file that was looked up, until an OPEN takes it (mount_ahead.c). */
#define MOUNT_PLACES 1024u

struct mount_place {
	pthread_mutex_t lock;
	struct weka_handle handle;
	char *bytes;
	uint32_t size_bytes;
	uint64_t begun_ns;
	uint64_t until_ns;
	_Atomic uint64_t changed_ns; /* last change of such a file through this mount */
};

/* The second request of a lookup. */
struct mount_ahead {
	struct weka_req req;
	struct weka_read_item item;
	struct weka_lease *lease;
	bool in_flight;
};

struct mount_dir; /* mount_dir.c */

/* ---- requests of the kernel ------------------------------------------------------------ */

enum mount_result {
	MOUNT_WAIT = 0, /* a request to the appliance is in flight; step() follows */
	MOUNT_DONE = 1, /* the kernel has its answer */
};

struct mount_shape;

/* One request of the kernel, from its arrival to its answer. */
struct mount_op {
	struct list node; /* in free, waiting, or running of its worker */
	struct weka_req req;
	const struct mount_shape *shape;
	struct mount_node *at; /* the inode that the header names */
	uint64_t begun_ns;     /* its arrival */
	uint64_t deadline_ns;
	uint32_t stage;   /* requests that were sent for it */
	uint32_t doing;   /* what the last one does: an enum of the file that serves it */
	bool in_flight;   /* req is the library's */
	bool again;       /* waits for a lease or a place in the session */
	bool interrupted; /* its deadline was shortened */
	const char *args; /* in `bytes` or `big`: the request after its header */
	uint32_t args_bytes;
	const char *name[2]; /* names, NUL-terminated */
	char *big; /* malloc(): a request that is longer than `bytes`, or a write's data */
	struct weka_lease *lease;
	struct weka_attr attr;
	union {
		struct weka_stat_item stat;
		struct weka_statfs statfs;
		struct weka_setattr set;
		struct weka_create create;
	};
	struct weka_ref ref[2];
	struct weka_window window;
	struct mount_file *file; /* made by this request, not given to the kernel yet */
	struct mount_dir *dir;
	struct mount_ahead *ahead;
	_Alignas(8) char bytes[MOUNT_INLINE];
};

static inline const struct fuse_in_header *mount_head(const struct mount_op *op)
{
	return (const struct fuse_in_header *)(const void *)op->bytes;
}

/* The layout of a request, and the functions that serve it.  begin() and step() return MOUNT_WAIT,
 * MOUNT_DONE, or -errno, which becomes the answer.  After -EAGAIN, which says that nothing was
 * submitted, they are called again. */
struct mount_shape {
	const char *text;
	uint16_t fixed_bytes; /* of arguments before the names */
	uint8_t names;
	uint8_t flags; /* MOUNT_SHAPE_* */
	int (*begin)(struct mount_worker *w, struct mount_op *op);
	int (*step)(struct mount_worker *w, struct mount_op *op);
};

#define MOUNT_SHAPE_DATA  1u /* the arguments end with data of any length */
#define MOUNT_SHAPE_MUTE  2u /* has no answer */
#define MOUNT_SHAPE_WRITE 4u /* the data stay in the lease into which they were read */

/* Returns the row of a request, or NULL if the mount does not know it. */
const struct mount_shape *mount_shape_of(uint32_t opcode);

/* Finds arguments and names in op->bytes, or op->big, `got` bytes; -errno if they are malformed. */
int mount_parse(struct mount_op *op, uint32_t got);

/* ---- the whole ------------------------------------------------------------------------- */

struct mount_worker {
	struct mount_fs *fs;
	struct weka_client *client;
	int fuse_fd;
	int epoll_fd;
	int wake_fd;
	pthread_t thread;
	uint32_t index;
	_Atomic(struct mount_message *) inbox;
	struct mount_op *ops;
	struct list free;
	struct list running;
	struct list waiting; /* for a lease or a place: submitted again when something has ended */
	uint32_t busy_count; /* running and waiting */
	uint32_t interrupted_count;
	uint32_t lookups;
	uint32_t ahead_score; /* how often bytes that were read ahead are used */
	uint64_t busy_until_ns;
	uint64_t now_ns;
	struct weka_lease
		*landing; /* where the rest of the next request is read into; may be NULL */
	char *spare;      /* and where without a lease */
	struct weka_attr root_attr; /* as last seen by this worker */
	struct weka_statfs statfs;
};

struct mount_fs {
	struct mount_args args;
	struct mount_nodes nodes;
	struct mount_place *place; /* MOUNT_PLACES; NULL: nothing is read ahead */
	struct mount_node *root;
	struct weka_attr root_attr;
	struct mount_worker worker[MOUNT_WORKERS_MAX];
	uint32_t worker_count;
	bool direct; /* files are read and written past the page cache */
	bool is_background;
};

/* Opens a session for each worker, and finds the root.  Prints a line on failure. */
int mount_connect(struct mount_fs *fs);
void mount_disconnect(struct mount_fs *fs);

/* Mounts: returns a descriptor of /dev/fuse, or -errno after a line. */
int mount_kernel(const struct mount_args *args);
/* Takes the mount away, even when it is in use. */
int mount_unmount(const struct mount_args *args);
/* Returns the absolute path of a directory, which the caller frees; NULL and errno. */
char *mount_directory(const char *dir);
/* Takes a mount of ours away whose process is gone, if there is one on args->dir. */
int mount_clear(const struct mount_args *args);
/* Returns true if the topmost mount on `path` is a weka-mount, by a table as /proc/self/mounts. */
bool mount_is_ours(const char *mounts, const char *path);
/* Answers FUSE_INIT. */
int mount_negotiate(struct mount_fs *fs, int fuse_fd);
/* Returns another descriptor of the same mount. */
int mount_clone(int fuse_fd);

int mount_worker_create(struct mount_worker *w);
void mount_worker_destroy(struct mount_worker *w);
/* Serves requests until the file system is unmounted. */
void mount_worker_run(struct mount_worker *w);
void mount_send(struct mount_worker *to, struct mount_message *message);

/* A line for the operator: on stderr, and to syslog when in the background. */
void mount_say(const struct mount_fs *fs, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- answers (mount_reply.c) ------------------------------------------------------------ */

/* Each sends an answer and returns MOUNT_DONE. */
int mount_reply(struct mount_worker *w, const struct mount_op *op, const void *bytes, size_t size);
/* The same with an answer that begins with a struct fuse_entry_out, whose lookup is taken back if
 * the kernel does not take it. */
int mount_reply_node(struct mount_worker *w, const struct mount_op *op, const void *bytes,
		     size_t size);
int mount_reply_error(struct mount_worker *w, const struct mount_op *op, int err);
int mount_reply_attr(struct mount_worker *w, struct mount_op *op);  /* of op->attr */
int mount_reply_entry(struct mount_worker *w, struct mount_op *op); /* and a lookup for it */

/* Fills in what the kernel wants to know of an inode. */
void mount_attr_out(const struct mount_fs *fs, const struct weka_attr *in, struct fuse_attr *out);
/* Fills in an entry and counts the lookup; -ENOMEM. */
int mount_entry_out(struct mount_fs *fs, const struct weka_attr *in, struct fuse_entry_out *out);

/* ---- help for begin() and step() ---------------------------------------------------------- */

/* Sets the request's deadline.  Each submit is preceded by this. */
struct weka_req *mount_req(struct mount_worker *w, struct mount_op *op);
/* Notes that a submit succeeded: returns MOUNT_WAIT, or its error. */
int mount_sent(struct mount_op *op, int err);
/* Asks for the attributes of op->at, or of a name in it, into op->stat. */
int mount_ask(struct mount_worker *w, struct mount_op *op, const struct weka_ref *ref);
/* Returns the status of mount_ask(), with op->attr filled in when it is 0. */
int mount_asked(struct mount_op *op);
struct weka_ref mount_ref(const struct mount_node *node);
struct weka_ref mount_ref_in(const struct mount_node *dir, const char *name);
/* Takes a lease for the whole of op->window. */
int mount_lease(struct mount_worker *w, struct mount_op *op, uint64_t size_bytes);
/* The inode with the kernel's number. */
struct mount_node *mount_node_of(struct mount_fs *fs, uint64_t nodeid);

/* ---- small files that are read with their lookup (mount_ahead.c) -------------------------- */

int mount_ahead_create(struct mount_fs *fs);
void mount_ahead_destroy(struct mount_fs *fs);
/* Asks for the bytes of the name that op looks up, if that may be of use. */
void mount_ahead_begin(struct mount_worker *w, struct mount_op *op);
/* Keeps the bytes that came for the next OPEN.  Without `attr` there is no such name. */
void mount_ahead_keep(struct mount_worker *w, struct mount_op *op, const struct weka_attr *attr);
void mount_ahead_end(struct mount_worker *w, struct mount_op *op);
/* Moves the bytes of a file to an open file; false: there are none. */
bool mount_ahead_take(struct mount_worker *w, const struct weka_handle *handle,
		      struct mount_file *file);
/* Bytes of the file were changed through this mount: those that were read before are of no use. */
void mount_ahead_changed(struct mount_worker *w, const struct weka_handle *handle);
/* Answers a read from such bytes; false: it must be asked for. */
bool mount_ahead_read(struct mount_worker *w, const struct mount_op *op);

/* ---- begin() and step() ---------------------------------------------------------------------- */

#define MOUNT_DECLARE(name)                                                                        \
	int mount_##name##_begin(struct mount_worker *w, struct mount_op *op);                     \
	int mount_##name##_step(struct mount_worker *w, struct mount_op *op)

MOUNT_DECLARE(lookup);
MOUNT_DECLARE(getattr);
MOUNT_DECLARE(setattr);
MOUNT_DECLARE(readlink);
MOUNT_DECLARE(statfs);
MOUNT_DECLARE(open);
MOUNT_DECLARE(create);
MOUNT_DECLARE(read);
MOUNT_DECLARE(write);
MOUNT_DECLARE(lseek);
MOUNT_DECLARE(fallocate);
MOUNT_DECLARE(readdir);
MOUNT_DECLARE(readdirplus);
MOUNT_DECLARE(mkdir);
MOUNT_DECLARE(mknod);
MOUNT_DECLARE(symlink);
MOUNT_DECLARE(link);
MOUNT_DECLARE(unlink);
MOUNT_DECLARE(rmdir);
MOUNT_DECLARE(rename);
MOUNT_DECLARE(rename2);
MOUNT_DECLARE(getxattr);
MOUNT_DECLARE(setxattr);
MOUNT_DECLARE(listxattr);
MOUNT_DECLARE(removexattr);

/* These answer at once. */
int mount_forget_begin(struct mount_worker *w, struct mount_op *op);
int mount_batch_forget_begin(struct mount_worker *w, struct mount_op *op);
int mount_interrupt_begin(struct mount_worker *w, struct mount_op *op);
int mount_release_begin(struct mount_worker *w, struct mount_op *op);
int mount_opendir_begin(struct mount_worker *w, struct mount_op *op);
int mount_releasedir_begin(struct mount_worker *w, struct mount_op *op);
int mount_destroy_begin(struct mount_worker *w, struct mount_op *op);
/* Mode, owner and group of what this request makes in op->at. */
void mount_owner(const struct mount_op *op, uint32_t mode, struct weka_create *create);
int mount_file_close(struct mount_worker *w, struct mount_file *file);

#endif
