/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-preload.so: for programs that only read, and that were never changed.  Loaded before
 * libc, it serves calls on paths below one directory from an appliance, without the kernel.
 *
 *     program --open(), read(), stat() ...--> hooks --libweka-client--> appliance
 *                                               |
 *                       all other calls         +--> libc --> kernel --> weka-mount, if any
 *
 * A path is matched as text (preload_match.c), resolved component by component (preload_walk.c)
 * with one round trip (preload_ask.c) by this thread's session (preload_session.c).  An open file
 * has a real descriptor, which is reserved: O_PATH of a symlink, so that a call that the library
 * does not know gets EBADF, or ELOOP, and never wrong bytes.  A table says which descriptors these
 * are (preload_slot.c). Before a call that only the kernel can serve, the descriptor becomes a file
 * of the kernel (preload_settle.c).
 *
 * The hooks are in preload_h*.c; all of them, and only they, are exported (libweka-preload.map).
 */
#ifndef CLIENT_LIB_PRELOAD_H
#define CLIENT_LIB_PRELOAD_H

#include "base/assert.h"
#include "client-lib/weka_client.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define PRELOAD_HOOK __attribute__((visibility("default")))

#define PRELOAD_FDS   65536u       /* larger descriptors are never reserved      */
#define PRELOAD_DEPTH 62u          /* components of a path, below the directory    */
#define PRELOAD_TEXT  8192u        /* bytes of a path while it is resolved         */
#define PRELOAD_WHOLE (256u << 10) /* a file up to this size is read with its open */

/* ---- what WEKA_PRELOAD says (preload_args.c) ---------------------------------------------- */

struct preload_args {
	const char *addresses;
	const char *dir; /* absolute, without "." and "..", "//" and a "/" at the end */
	const char *key_file;
	const char *key_id;
	char *root; /* directory of the appliance that is seen at `dir`; "" for its root */
	uint64_t timeout_ns;
	bool anonymous;
};

/* Parses "[-o OPTION,...] [ADDRESSES] DIR".  `text` is changed and must stay.  Returns NULL, or the
 * text of a mistake. */
const char *preload_args_parse(struct preload_args *args, char *text);

/* ---- paths (preload_match.c) ---------------------------------------------------------------- */

/* Finds the part of an absolute path that is below `dir`, as text; NULL: the path does not lead
 * there, or only the kernel can tell. */
const char *preload_match(const char *dir, const char *path);
/* Takes the next component of *path: its start, and its length in *bytes; 0 at the end. */
const char *preload_component(const char **path, size_t *bytes);
/* Writes a, "/" and b, NUL-terminated; false: they do not fit into PRELOAD_TEXT. */
bool preload_join(char *to, const char *a, size_t a_bytes, const char *b);

/* ---- who may (preload_may.c) --------------------------------------------------------------- */

struct preload_who {
	uint32_t uid;
	uint32_t gid;
	const uint32_t *groups;
	uint32_t group_count;
	bool reads_all;  /* CAP_DAC_OVERRIDE or CAP_DAC_READ_SEARCH */
	bool is_allowed; /* CAP_DAC_OVERRIDE: execute what anybody may execute */
};

/* Returns true if the mode bits allow `want`, of R_OK and X_OK. */
bool preload_may(const struct preload_who *who, const struct weka_attr *attr, int want);

/* ---- libc's own functions (preload_real.c) ------------------------------------------------- */

#include "client-lib/preload/preload_real.h"

/* ---- the process (preload_setup.c) --------------------------------------------------------- */

struct preload_setup {
	bool is_active;
	struct preload_args args;
	const char *canonical; /* args.dir, with the symlinks of its parent resolved */
};

extern struct preload_setup preload_setup;

/* Returns true if weka-mount is mounted on the directory. */
bool preload_is_mounted(void);
/* The device number of files: the mount's, or an invented one. */
uint64_t preload_device(void);
/* True in a child of vfork(), which has its parent's memory: it must change nothing. */
bool preload_in_vfork(void);
void preload_vfork_begins(void);
/* Descriptors of the library itself have this number, or a larger one. */
int preload_own_first(void);

/* ---- a session a thread (preload_session.c) ------------------------------------------------ */

#define PRELOAD_ITEMS (PRELOAD_DEPTH + 2)

/* A path that is being resolved.  text: root of the appliance's tree, "/", components. */
struct preload_walk {
	char text[PRELOAD_TEXT];
	uint32_t depth;                  /* components after the root */
	uint32_t end[PRELOAD_DEPTH + 1]; /* bytes of text that name the first n components */
	uint32_t first;                  /* first component that is not known to be a directory */
	uint32_t base; /* components that `handle` stands for; 0: it is not used */
	struct weka_handle handle;
	struct weka_attr attr;    /* of the file that was found */
	char rest[PRELOAD_TEXT];  /* what is still to be resolved */
	char spare[PRELOAD_TEXT]; /* the next rest; a path that leaves the directory */
	char link[PRELOAD_TEXT];  /* a symlink's target */
	uint32_t links;           /* symlinks that were followed */
};

struct preload_session {
	struct weka_client *client;
	struct weka_lease *lease;
	struct preload_session *next; /* of all, or of those without a thread */
	bool is_idle;
	uint64_t retry_ns; /* before that, the appliance counts as away */
	struct weka_stat_item item[PRELOAD_ITEMS];
	struct weka_read_item read;
	struct weka_req req[2];
	struct weka_window window[2];
	struct preload_walk walk;
	struct preload_who who; /* of the present call */
	uint32_t groups[256];
};

/* True while this thread is inside libweka-client: then its calls are the library's. */
extern _Thread_local bool preload_inside __attribute__((tls_model("initial-exec")));

/* Returns this thread's session, for one call.  Returns NULL if the thread has none, if a signal
 * handler interrupted a call that uses it, or if the appliance does not answer: then it sets
 * *is_away.  A caller with a session ends with preload_session_leave(), which restores errno. */
struct preload_session *preload_session_enter(bool *is_away);
void preload_session_leave(struct preload_session *s);
/* A request did not reach the appliance: for a moment it counts as away. */
void preload_session_away(struct preload_session *s);
/* Sets up handlers for fork() and the end of threads. */
void preload_session_setup(void);

/* ---- one round trip (preload_ask.c) -------------------------------------------------------- */

enum preload_want { PRELOAD_STAT, PRELOAD_READ };

/* Asks for the attributes of components `from` to walk.depth of the path, into item[0 ...], and for
 * all bytes of the last one, into read.  Returns 0, or -errno when the appliance is away. */
int preload_ask(struct preload_session *s, uint32_t from, enum preload_want want);
/* Asks for a symlink's target, into `to` of PRELOAD_TEXT bytes: its length, or -errno. */
int preload_ask_target(struct preload_session *s, const struct weka_ref *ref, char *to);
/* Reads a page of a directory. */
int preload_ask_list(struct preload_session *s, const struct weka_handle *dir,
		     struct weka_cookie *cookie, struct weka_entry *entries, uint32_t entries_max,
		     uint32_t *count, bool *at_end);
/* Looks whether a path of the appliance's still is the file `ino`, and gets this session's
 * handle for it: a handle of a key that is confined to a subtree is good in one session only. */
int preload_ask_again(struct preload_session *s, const char *path, uint64_t ino,
		      struct weka_handle *handle);
int preload_ask_handle(struct preload_session *s, const struct weka_handle *handle,
		       struct weka_attr *attr);
int64_t preload_ask_bytes(struct preload_session *s, const struct weka_handle *handle, void *bytes,
			  size_t length_bytes, uint64_t offset_bytes);
/* Returns true if the status says that the appliance did not answer. */
bool preload_is_away(int err);

/* ---- resolving (preload_walk.c) ------------------------------------------------------------ */

#define PRELOAD_NOFOLLOW 1u /* a symlink at the end is the file */
#define PRELOAD_REAL_IDS 2u /* check the real user, not the effective one */

enum preload_found {
	PRELOAD_FOUND = 0,
	PRELOAD_OUTSIDE, /* the path leads out: walk.spare is the real path  */
	PRELOAD_AWAY,    /* the appliance does not answer: ask the real path */
	PRELOAD_PASS,    /* it is too long to be resolved here */
};

/* Resolves walk.rest.  Returns enum preload_found or -errno. */
int preload_walk(struct preload_session *s, enum preload_want want, uint32_t flags);
/* Returns true if the mode of the file that was found allows `want`. */
bool preload_walk_may(const struct preload_session *s, int want);

/* A path that a program gave, during one hook. */
struct preload_path {
	struct preload_session *s; /* NULL: nothing, the real call must */
	int dirfd;                 /* for the real call: these two */
	const char *path;
	bool is_away;  /* the real call stands in for the appliance */
	char *outside; /* `path`, when it leads out of the directory */
	int opened;    /* descriptor of the mount's directory, which `dirfd` then is; -1: none */
};

/* Looks up a path of the program's.  Returns true if the appliance answered: then *err is 0 or
 * -errno, and preload_path_leave() must follow.  False: the real call must be made, with
 * p->dirfd and p->path, and its result go through preload_path_real(). */
bool preload_path_enter(struct preload_path *p, int dirfd, const char *path, enum preload_want want,
			uint32_t flags, int *err);
void preload_path_leave(struct preload_path *p);
/* Prepares a real call on a path relative to a directory, which may be served.  Returns false if
 * only a mount could make the call, and the directory has no mount.  The caller must pass the
 * result through preload_path_real(). */
bool preload_path_lend(struct preload_path *p, int dirfd, const char *path);
/* Keeps the errno of the real call right: a file that is not there because the appliance is away is
 * EIO, not ENOENT. */
long preload_path_real(struct preload_path *p, long result);

/* ---- memory of open files (preload_memory.c) ----------------------------------------------- */

/* Returns memory for an open file, or NULL.  `bytes` and a head of 16 bytes may be 512 KiB
 * together.  A signal handler that has interrupted malloc(), or one of these two, may call both. */
void *preload_memory_take(size_t bytes);
void preload_memory_give(void *bytes);

/* ---- descriptors (preload_slot.c) ---------------------------------------------------------- */

enum preload_kind { PRELOAD_BYTES, PRELOAD_HANDLE, PRELOAD_DIR };

#define PRELOAD_GONE UINT64_MAX /* offset of a file that is being given to the kernel */

/* An open file.  Only `offset` and, while it is given to the kernel, the last two change. */
struct preload_file {
	enum preload_kind kind;
	int flags; /* of open() */
	_Atomic uint64_t offset;
	struct weka_attr attr; /* as of its open */
	const char *path;      /* below the appliance's root, for walk.text */
	const char *bytes;     /* PRELOAD_BYTES: attr.size_bytes of them */
	uint64_t kernel_dev;
	uint64_t kernel_ino;
};

#define PRELOAD_SERVED 1u /* reserved: the library has the file */
#define PRELOAD_SHADOW 2u /* the kernel has a copy; the library still knows the attributes */

/* Makes the descriptor that of `file`, which then belongs to the table; false: the place is
 * busy. */
bool preload_slot_publish(int fd, struct preload_file *file);
/* Returns the file of a descriptor that is in one of the states `want`, until
 * preload_slot_put(). */
struct preload_file *preload_slot_get(int fd, uint32_t want);
void preload_slot_put(int fd);
/* The descriptor is about to be closed, or replaced. */
void preload_slot_drop(int fd);
/* Takes a served file in order to give it to the kernel.  0: it is not served (any more). */
struct preload_file *preload_slot_move(int fd);
/* Ends that: as a shadow, as a file of the kernel's alone, or as it was. */
void preload_slot_moved(int fd, uint32_t state);
/* The largest descriptor that was ever served, or the library's own. */
int preload_slot_last(void);
/* Descriptors of the library itself, which programs cannot close. */
int preload_own(int fd);
/* Only gives it a high number: the next descriptor of the program is the one that it expects. */
int preload_own_high(int fd);
bool preload_is_own(int fd);
void preload_own_closed(int fd);

/* ---- to the kernel (preload_settle.c) ------------------------------------------------------ */

enum preload_settle {
	PRELOAD_CONTENT,  /* its bytes matter  */
	PRELOAD_IDENTITY, /* the file itself: locks, modes; the mount's own, if there is one */
};

/* Makes a descriptor a file of the kernel.  Returns 0 also for any other descriptor; -1 and
 * errno. */
int preload_settle(int fd, enum preload_settle how);
/* The same for the descriptor that a path such as /dev/fd/5 names. */
void preload_settle_named(const char *path);
/* The same for all; only those that exec() keeps, if told so. */
void preload_settle_all(bool kept_only);
/* Returns a new descriptor of a copy in memory. */
int preload_settle_copy(const struct preload_file *file, struct preload_session *s);
/* Returns a descriptor of the mount's own file, or -1. */
int preload_settle_own(const struct preload_file *file, int flags);
/* Reserves a descriptor; -1 and errno. */
int preload_reserve(int flags);

/* ---- open files (preload_open.c) ----------------------------------------------------------- */

/* Opens the file that was found: a descriptor, or -errno. */
int preload_open_found(struct preload_session *s, int flags);
/* Opens a path for reading; `open_mode` for the real call. */
int preload_open(int dirfd, const char *path, int flags, unsigned open_mode);
void preload_stat_fill(struct stat *st, const struct weka_attr *attr);
/* Attributes of a descriptor that is served; false: the real call must be made. */
bool preload_stat_fd(int fd, struct weka_attr *attr);
/* Sets errno; returns -1. */
static inline int preload_fail(int err);

#include <errno.h>

static inline int preload_fail(int err)
{
	ASSERT(err < 0);
	errno = -err;
	return -1;
}

#endif
