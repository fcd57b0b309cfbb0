/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client - reads and writes files on an appliance, without going through the kernel.
 *
 * A struct weka_client is one session with an appliance, used by one thread at a time: the library
 * takes no lock and starts no thread.  A program with several threads opens one client in each.
 * After fork() the child's copy answers -ESTALE to every call but weka_close(), which the child
 * should call: while it holds the session's descriptors, the appliance cannot notice when the
 * parent exits.  The child opens sessions of its own.
 *
 *    leased buffer                    weka_client                     appliance
 *  +-----------------+ weka_submit_*() +---------+                    +--------+
 *  | 4 KiB | 4 KiB | | --------------> | credits | -- requests -----> |        |
 *  |       |       | |   weka_reap()   |         |                    | drives |
 *  |       |       | | <-------------- |         | <----- answers --- |        |
 *  +-----------------+                 +---------+                    +--------+
 *        ^                                                                 |
 *        +----------- payload, written there by the drive itself ----------+
 *
 * A program submits requests and reaps them:
 *
 *	weka_lease(client, 2 << 20, &lease);
 *	window = (struct weka_window){ lease, 0, 2 << 20 };
 *	weka_submit_read_batch(client, &req, items, 256, &window);
 *	while (weka_reap(client, done, 16) == 0)
 *		weka_wait(client, WEKA_FOREVER);
 *	use(items[i].status, items[i].data, items[i].got_bytes);
 *	weka_release(client, lease);
 *
 * Tools and first programs can use the calls that wait: weka_read_file(), ... in weka_sync.h.
 *
 * Promises.  When a change ends with status 0, it is durable and every client sees it.  The library
 * checks every block that it reads against the CRC32C that the writer made.  If a block does not
 * match, the library reads it once more before it reports -EIO; it never returns wrong bytes.  The
 * library caches nothing, so there is nothing to invalidate.
 *
 * Errors are negative errno values.  Names are bytes.  Paths start at the root, with or without a
 * leading slash, and the appliance resolves them.  Sizes and offsets are in bytes, times in
 * nanoseconds.  Besides the errors that it lists, any call can return -EINVAL (an impossible
 * argument), -ESTALE (after a fork or weka_close()), -EBUSY (another thread is inside the client,
 * or a signal handler called in the middle of a call), -ENOTCONN (no connection, and none could be
 * made for reconnect_ns), -EACCES (the appliance rejects the key).  No mistake of the caller ends
 * the process.
 *
 * Zero every struct before you fill it in: 0 is always the default, and later versions will use the
 * reserved fields.  A reserved field that is not 0 is -EINVAL.
 */
#ifndef WEKA_CLIENT_H
#define WEKA_CLIENT_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEKA_CLIENT_VERSION "0.1.0"
#if defined(__GNUC__)
#define WEKA_MUST_CHECK __attribute__((warn_unused_result))
#else
#define WEKA_MUST_CHECK
#endif
struct weka_client;                /* opaque */
struct weka_dir;                   /* opaque: a listing in progress */
#define WEKA_FOREVER   UINT64_MAX  /* as a timeout: wait without limit             */
#define WEKA_TO_END    UINT64_MAX  /* as a length: to the end of the file          */
#define WEKA_BLOCK     4096u       /* bytes under one checksum; unit of windows    */
#define WEKA_NAME_MAX  255u        /* bytes of one name                            */
#define WEKA_PATH_MAX  4095u       /* bytes of a path, or of a symlink's target    */
#define WEKA_BATCH_MAX 1024u       /* items of one request                         */
#define WEKA_READ_MAX  (64u << 20) /* bytes of one request's window                */
#define WEKA_WRITE_MAX (4u << 20)  /* bytes of one write, or of one file of a put  */
#define WEKA_XATTR_MAX 65536u /* bytes of an extended attribute's value, or of a list of names */

/* ---- a session ------------------------------------------------------------------- */
/* The client's key: a secret of 32 bytes, given here or in a file that only its owner may read.
 * The file has one line, "SECRET" or "ID:SECRET", with the secret as 64 hexadecimal digits.  For an
 * appliance that admits anybody, pass NULL to weka_connect(). */
struct weka_key {
	const char *id;     /* at most 31 bytes; NULL: from the file, or "weka" */
	const void *secret; /* 32 bytes, or NULL ...                     */
	const char *file;   /* ... and then the path of the key file     */
	uint64_t reserved[3];
};

/* Limits, fixed when the session is opened; 0 is the default. */
struct weka_options {
	uint32_t size_bytes;         /* sizeof(struct weka_options): set it           */
	uint32_t requests_max;       /* in flight at once; 64, at most 1024           */
	uint32_t batches_max;        /* of these, requests with many names; 16        */
	uint32_t batch_items_max;    /* items of one such request; 1024               */
	uint32_t leases_max;         /* leases at once; 1024                          */
	uint32_t lanes;              /* connections at once, see weka_connect(); at most 8 */
	uint64_t pool_bytes;         /* for leases; 0: 64 MiB, or less if granted less */
	uint64_t connect_timeout_ns; /* for weka_connect(); 10 s                      */
	uint64_t timeout_ns;         /* for a request whose timeout_ns is 0; 30 s     */
	uint64_t reconnect_ns;       /* how long requests wait for a lost appliance; 30 s */
	uint64_t spin_ns_max;        /* longest poll of weka_wait() before it sleeps; 1 ms */
	uint32_t opens_max;          /* open files; 1024                              */
	uint32_t reserved0;
	uint64_t reserved[7]; /* 0 */
};

/**
 * weka_connect - open a session
 *
 * `addresses` is a list separated by commas, such as
 * "shm:/run/weka.sock,rdma://192.168.1.2:7010,tcp://192.168.1.2:7010".  The library tries shm
 * first, then rdma, then tcp, and addresses of one kind in the order of the list.
 * weka_get_limits() reports the address and the transport in use.  "tls://HOST:PORT" is TCP within
 * TLS 1.3; it never falls back to a plain connection.
 *
 * Over tcp, tls and rdma a session may have several connections, called lanes, which the library
 * spreads over the cores of the appliance and over all addresses in the list that have the kind
 * that answered and lead to the same appliance.  options->lanes sets their number; 0 means as many
 * as the appliance has cores, at most 4, but at least one for each such address.  The appliance
 * limits the number (lanes_max in its configuration, by default 4).  A request goes to the lane
 * with the least in flight.  If a lane breaks, the library does without it and keeps trying it; it
 * sends the reads that were on the lane over the others at once.  Over shm there is always one
 * connection.  `key` and `options` are read only during the call; `options` may be NULL.
 *
 * When the session breaks later, the library opens a new one by itself, inside weka_reap() and the
 * calls that use it, even if the appliance was killed and started again.  It sends again all
 * requests that were in flight, reads and changes alike.  A change that the appliance had already
 * made is not made twice: the request ends with the first result.  Only if the appliance cannot
 * tell does the change end with -ECONNRESET: it may or may not have happened.  Leases keep their
 * address and their bytes.  A put in pieces (weka_submit_put_begin()) ends with its session: its
 * later requests end with -ESTALE, and the caller must begin it again (weka_put_fd() does).
 * Failures that may pass (a connection that was cut, an appliance that is busy or does not answer)
 * are retried with growing pauses until connect_timeout_ns is over.  After any other error the
 * call ends once every address has failed.
 * Owns:    *out is the caller's, until weka_close().
 * Thread:  any.  Waits, at most connect_timeout_ns.
 * Errors:  of the last address; weka_error(NULL) returns one line for people.
 *          -EINVAL (address, key or option), -EACCES (the appliance does not accept this key),
 *          -ECONNREFUSED, -ENOENT, -EPROTO (another kind of server answers there),
 *          -EPROTONOSUPPORT (another version), -ETIMEDOUT, -ECONNRESET and -EBUSY (when the time
 *          is over), -EUSERS (all sessions are taken), -ENOMEM, -ENOSPC (no memory for the pool on
 *          one of the two sides), -EIO (the key file; the line says what).
 */
WEKA_MUST_CHECK int weka_connect(const char *addresses, const struct weka_key *key,
				 const struct weka_options *options, struct weka_client **out);

/**
 * weka_close - end the session and give back all of its memory
 *
 * Drops the requests in flight, gives up all leases and closes all open files.  Waits at most one
 * second for the appliance to confirm the closes.  NULL is fine.  If another thread is inside the
 * client, the client stays open.  Zero the requests that were in flight before you use them again.
 */
void weka_close(struct weka_client *client);

/**
 * weka_error - one line about the last call that failed
 *
 * Calls that succeed do not change it, and neither does the status of a request.  With NULL it
 * describes this thread's last weka_connect() or call without a client.  Never NULL.
 *
 * Owns:    the library; valid until the next call with this client (or, for NULL, of this thread).
 */
const char *weka_error(const struct weka_client *client);

/* Properties of the session.  Set size_bytes before the call. */
struct weka_limits {
	uint32_t size_bytes;
	uint32_t requests_max;
	uint32_t batch_items_max;
	uint32_t window_max_bytes;
	uint64_t pool_bytes;
	char transport[8]; /* "shm", "rdma" or "tcp"; "" while not connected */
	char address[120]; /* the address in use, truncated if it is longer */
	uint32_t lanes;    /* open connections; lanes_wanted: the target */
	uint32_t lanes_wanted;
	uint32_t cores; /* cores of the appliance */
	uint32_t reserved0;
};

/* Counts of events since weka_connect().  Set size_bytes before the call. */
struct weka_counters {
	uint32_t size_bytes;
	uint32_t reserved0;
	uint64_t submitted;
	uint64_t completed;
	uint64_t timeouts; /* requests that ended at their deadline                 */
	uint64_t reconnects;
	uint64_t replays;         /* requests sent again after a reconnect                 */
	uint64_t blocks_checked;  /* checksums verified                                   */
	uint64_t blocks_wrong;    /* blocks that did not match the first time              */
	uint64_t blocks_lost;     /* blocks that did not match the second time: -EIO       */
	uint64_t sleeps;          /* times that weka_wait() slept                          */
	uint64_t pool_used_bytes; /* in leases, including released ones still in use     */
	uint64_t busy;            /* answers that told a request to wait: see below        */
	uint64_t lanes_lost;      /* connections that broke while another one worked       */
	uint64_t opens_lost; /* open files that the appliance no longer had after a reconnect */
};

/* Fills in *out, up to its size_bytes. */
int weka_get_limits(const struct weka_client *client, struct weka_limits *out);
int weka_get_counters(const struct weka_client *client, struct weka_counters *out);

/* The library's version, which may be newer than this header's WEKA_CLIENT_VERSION. */
const char *weka_version(void);

/* ---- buffers --------------------------------------------------------------------- */
/* A piece of the pool, memory that the appliance can reach.  The library owns the struct. */
struct weka_lease {
	void *data;          /* 4096-aligned; does not move */
	uint64_t size_bytes; /* a multiple of 4096          */
	void *user;          /* for the caller              */
};

/* The part of a lease that a request may use.  Several requests may use one lease at the same time
 * if their windows do not overlap. */
struct weka_window {
	struct weka_lease *lease;
	uint64_t offset_bytes; /* in the lease, a multiple of 4096 */
	uint64_t size_bytes;   /* a multiple of 4096, at most window_max_bytes */
};

/**
 * weka_lease - take a buffer of at least `size_bytes` out of the pool
 *
 * The buffer is not cleared.  Constant time, no system call, no malloc.
 *
 * Owns:    the caller, until weka_release() or weka_close().
 * Errors:  -EAGAIN (no free piece of that size, or leases_max leases are out: release some),
 *          -EMSGSIZE (larger than the pool).
 */
WEKA_MUST_CHECK int weka_lease(struct weka_client *client, uint64_t size_bytes,
			       struct weka_lease **out);

/**
 * weka_release - return a lease to the pool
 *
 * A deadline ends a request, not the lease.  If a request was cancelled or timed out and the
 * appliance has not acknowledged that yet, the appliance may still write into the memory: it
 * returns to the pool by itself once that is over.  NULL is fine.
 * Errors:  -ESTALE (it was released before), -EINVAL (not a lease of this client).
 */
int weka_release(struct weka_client *client, struct weka_lease *lease);

/**
 * weka_window_bytes - the size of a window for `count` items of at most `bytes_each`
 *
 * For batch reads and puts.  Counts payload, checksums and answers, rounded up to
 * 4096.  A single read of up to 128 KiB needs only its blocks.  Returns 0 when the size would be
 * over WEKA_READ_MAX.
 */
uint32_t weka_window_bytes(uint32_t count, uint64_t bytes_each);

/* ---- files, by name and by handle ------------------------------------------------ */
/* A permanent identifier of a file or directory.  It survives renames and reconnects, and is
 * -ESTALE once the file is gone.  An open file (weka_open(), WEKA_HOLD) exists until it is closed:
 * after an unlink, a put or a rename took its last name, its handle still works. */
struct weka_handle {
	uint8_t bytes[16];
};

enum weka_by {
	WEKA_BY_PATH = 1,  /* `name` from the root                        */
	WEKA_BY_HANDLE,    /* `handle`; no name                           */
	WEKA_BY_DIR,       /* `name` from the directory with number `dir` */
	WEKA_BY_DIRHANDLE, /* `name` from the directory `handle`          */
};

#define WEKA_NOFOLLOW 1u /* do not follow a symlink at the end of the path */

/* Names one file.  The bytes of `name` belong to the library as long as the rest of the request. */
struct weka_ref {
	uint32_t by;         /* enum weka_by: which of the fields below count */
	uint32_t flags;      /* WEKA_NOFOLLOW                               */
	const char *name;    /* 1 .. WEKA_PATH_MAX bytes                    */
	uint32_t name_bytes; /* 0: `name` ends at a NUL                     */
	uint32_t reserved0;
	uint64_t dir; /* weka_attr.dir of the directory              */
	struct weka_handle handle;
};

/* Make a reference by path, by handle, or by name in a directory.  They keep the `name` pointer. */
struct weka_ref weka_ref_path(const char *path);
struct weka_ref weka_ref_handle(const struct weka_handle *handle);
struct weka_ref weka_ref_in(uint64_t dir, const char *name);
struct weka_ref weka_ref_at(const struct weka_handle *dir, const char *name);

struct weka_attr {
	struct weka_handle handle;
	uint64_t ino; /* inode number, for display */
	uint64_t dir; /* number for WEKA_BY_DIR; 0: not a directory */
	uint64_t size_bytes;
	uint64_t allocated_bytes;
	int64_t mtime_ns; /* since 1970 */
	int64_t ctime_ns;
	int64_t atime_ns;
	uint32_t mode; /* as st_mode: type and permission bits */
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;  /* for a directory: 2 plus its subdirectories */
	uint32_t xattrs; /* number of extended attributes */
	uint32_t reserved0;
	uint64_t reserved[3];
};

/* Flags of weka_submit_open(); struct weka_create takes WEKA_EXCL and WEKA_MTIME_GIVEN only. */
#define WEKA_CREATE      1u
#define WEKA_EXCL        2u  /* -EEXIST if the name exists              */
#define WEKA_TRUNC       4u  /* truncate to 0 bytes                     */
#define WEKA_DIRECTORY   8u  /* -ENOTDIR for anything else              */
#define WEKA_MTIME_GIVEN 16u /* use mtime_ns; without it: now           */
#define WEKA_HOLD        32u /* open the file until weka_close_file()   */

/* Mode, owner and time of a new file, directory or symlink. */
struct weka_create {
	uint32_t mode; /* permission bits */
	uint32_t uid;  /* if the key has a user: that user, and gid one of its groups */
	uint32_t gid;
	uint32_t flags; /* WEKA_EXCL, WEKA_MTIME_GIVEN */
	int64_t mtime_ns;
	uint64_t reserved[2];
};

/* One file of a batch read: the request, and after weka_reap() the result. */
struct weka_read_item {
	struct weka_ref ref;
	uint64_t offset_bytes;
	uint64_t length_bytes; /* WEKA_TO_END: to the end of the file */
	int64_t ctime_ns;      /* not 0: -ESTALE if the file changed since it had that ctime_ns */
	/* Filled in: */
	const void *data;   /* in the window, at offset % 4096 of a block; NULL: error */
	uint64_t got_bytes; /* bytes at `data`; with -EMSGSIZE the bytes available */
	int32_t status;     /* 0 or -errno                            */
	uint32_t reserved0;
	uint64_t reserved[1];
};

/* One whole file of a batch put. */
struct weka_put_item {
	struct weka_ref ref; /* not WEKA_BY_HANDLE */
	struct weka_create create;
	uint32_t window_at;  /* offset of its bytes in the window, a multiple of 64 */
	uint32_t size_bytes; /* at most WEKA_WRITE_MAX                              */
	/* Filled in: */
	struct weka_handle handle; /* the new file's */
	int32_t status;
	uint32_t reserved0;
	uint64_t reserved[2];
};

/* One name of a batch stat. */
struct weka_stat_item {
	struct weka_ref ref;
	/* Filled in: */
	struct weka_attr attr;
	int32_t status;
	uint32_t reserved0;
	uint64_t reserved[2];
};

/* One name of a batch unlink. */
struct weka_unlink_item {
	struct weka_ref ref; /* not WEKA_BY_HANDLE */
	/* Filled in: */
	int32_t status;
	uint32_t reserved0;
	uint64_t reserved[2];
};

/* One entry of a directory. */
struct weka_entry {
	struct weka_attr attr;
	const char *name; /* NUL-terminated by weka_list_next(), not by weka_submit_list() */
	uint32_t name_bytes;
	uint32_t reserved0;
};

/* The position of a listing; all zero: the start. */
struct weka_cookie {
	uint8_t bytes[24];
};

struct weka_statfs {
	uint64_t total_bytes;
	uint64_t free_bytes; /* available to writers, before the cost of names and checksums */
	uint64_t files;
	uint64_t dirs;
	uint32_t name_max;
	uint32_t shard_count;
	uint64_t reserved[6];
};

/* Totals of everything below a directory; for anything else, its own size. */
struct weka_totals {
	uint64_t entries;
	uint64_t dirs;            /* of the entries */
	uint64_t bytes;           /* a file with several names counts at one of them */
	uint64_t allocated_bytes; /* without data in the index: files of about 100 bytes */
	uint32_t settled;         /* 1: exact.  0: the last 5 s may be missing */
	uint32_t reserved0;
	uint64_t reserved[3];
};

#define WEKA_SET_MODE  1u
#define WEKA_SET_UID   2u
#define WEKA_SET_GID   4u
#define WEKA_SET_MTIME 8u
#define WEKA_SET_ATIME 16u

struct weka_setattr {
	uint32_t mask; /* WEKA_SET_*: fields to set */
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_ns;
	int64_t atime_ns;
	uint64_t reserved[2];
};

/* ---- requests -------------------------------------------------------------------- */
/*
 * One request.  From weka_submit_*() until weka_reap() returns it, the caller must not move or
 * change it, nor the memory that it points to: names, items, handles, the lease.  Set `user` and
 * `timeout_ns`; zero the rest before the first use.  Later uses need no clearing.
 */
struct weka_req {
	void *user;          /* for the caller; the library never touches it             */
	uint64_t timeout_ns; /* counted from the next weka_reap(), in steps of about 1 ms;
				0: options.timeout_ns; WEKA_FOREVER: none */
	/* Filled in: */
	int32_t status;        /* 0 or -errno; each item of a batch has its own too        */
	uint32_t count;        /* LIST: number of entries                                  */
	uint64_t length_bytes; /* READ: bytes read, 0 at the end of the file.  READLINK,
				  STATUS: bytes of text.  WRITE: the file's size after it. */
	void *data;            /* READ, READLINK, STATUS: the first byte, in the window */
	uint32_t queue_us;     /* a batch read's time: in this client before it was sent, */
	uint32_t network_us;   /* there and back with the payload, in the                 */
	uint32_t appliance_us; /* appliance without any I/O of a drive, and               */
	uint32_t drive_us;     /* with at least one                                       */
	uint64_t reserved[2];
	uint64_t opaque[6];
};

/*
 * Back-off.  An appliance that is overloaded, or a key that has used up its share of a second,
 * answers with the time to wait.  The library waits that long (at most 2 s, plus a random quarter)
 * and sends the request again, as often as its deadline allows; requests submitted meanwhile wait
 * behind it.  The caller sees a delay or -ETIMEDOUT, never -EBUSY.
 *
 * All weka_submit_*() queue a request and return.  weka_reap() (or weka_flush()) sends it.
 *
 * Owns:    `req` and the memory given with it belong to the library until weka_reap() returns
 *          `req`.  A window stays in use until the appliance can no longer write to it.
 * Thread:  the client's.  Never block, allocate, lock or call the system.
 * Errors:  returned at once; nothing was submitted:
 *            -EAGAIN     requests_max (or, with many items, batches_max) are in flight: reap first
 *            -EMSGSIZE   the window is too small for the request; too many items or bytes
 *            -EBUSY      the lease still has a request that ended before it was acknowledged; or
 *                        `req` is in flight or not reaped.  -ESTALE: the lease was released
 *            -EINVAL     an impossible argument: unaligned window, a name of 0 bytes, ...
 *            -ENAMETOOLONG
 *          in req->status:
 *            -ETIMEDOUT  the deadline passed.  A change may or may not have happened
 *            -ECANCELED  weka_cancel() ended it; a change may or may not have happened
 *            -ECONNRESET a change may or may not have happened: the session broke; the appliance
 *                        did not answer for ten minutes, could not be reached in reconnect_ns, has
 *                        forgotten the result (more than 64 changes in flight, or thousands of
 *                        clients since), broke four sessions in a row under the request, or made
 *                        part of a write of several MiB before a power failure
 *            -EIO        a block's checksum was wrong twice; or the appliance could not read it
 *            -EPROTO     the appliance sent a malformed answer
 *          and errors about names and files: -ENOENT, -ENOTDIR, -EISDIR, -EEXIST, -ENOTEMPTY,
 *          -ELOOP, -EMLINK, -ENOSPC, -EFBIG, -EROFS, -EACCES, -ESTALE (the handle of a file that
 *          is gone), -EBADMSG (the bytes changed after the library computed their checksums).
 */

/**
 * weka_submit_read - read a piece of a file by handle
 *
 * The block of the file that holds `offset` lands at the start of the window, so req->data is
 * offset % 4096 bytes after it.  The window must have room for all blocks that the piece touches,
 * and, for a piece of more than 32 blocks (128 KiB), for their checksums: weka_window_bytes(1,
 * length + 4095).
 */
WEKA_MUST_CHECK int weka_submit_read(struct weka_client *client, struct weka_req *req,
				     const struct weka_handle *handle, uint64_t offset_bytes,
				     uint32_t length_bytes, const struct weka_window *window);

/**
 * weka_submit_read_batch - open, read and close `count` files in one round trip
 *
 * An item that does not fit into the window ends with -EMSGSIZE; got_bytes is the number of bytes
 * available.
 */
WEKA_MUST_CHECK int weka_submit_read_batch(struct weka_client *client, struct weka_req *req,
					   struct weka_read_item *items, uint32_t count,
					   const struct weka_window *window);

/**
 * weka_submit_put - write `count` whole files, each atomically, replacing existing files
 *
 * The bytes must already be in the window.  After the last one the library needs room for checksums
 * and answers: see weka_window_bytes().  The parent directory must exist.
 */
WEKA_MUST_CHECK int weka_submit_put(struct weka_client *client, struct weka_req *req,
				    struct weka_put_item *items, uint32_t count,
				    const struct weka_window *window);

/**
 * weka_submit_put_begin, _commit, _abort - write a whole file of any size, atomically, in pieces
 *
 * Begin makes a hidden file and returns its handle in *attr.  weka_submit_write() fills it, in any
 * order, several at once.  Commit gives it its name.  Without commit it is removed by abort or at
 * the end of the session.  Begin ends with -EMFILE when too many puts, in this session or in all,
 * were begun and neither committed nor aborted.
 */
WEKA_MUST_CHECK int weka_submit_put_begin(struct weka_client *client, struct weka_req *req,
					  const struct weka_ref *ref,
					  const struct weka_create *create, uint64_t size_bytes,
					  struct weka_attr *attr);
WEKA_MUST_CHECK int weka_submit_put_commit(struct weka_client *client, struct weka_req *req,
					   const struct weka_handle *handle, uint64_t size_bytes);
WEKA_MUST_CHECK int weka_submit_put_abort(struct weka_client *client, struct weka_req *req,
					  const struct weka_handle *handle);

#define WEKA_APPEND 1u /* write at the end of the file; offset_bytes is ignored */
/**
 * weka_submit_write - write the window's first `length` bytes into a file
 *
 * At most WEKA_WRITE_MAX bytes; atomic within a chunk of 4 MiB of the file.  The window holds the
 * bytes and, after them, room for checksums: weka_window_bytes(1, length + 4095).  The bytes must
 * not change until the request is reaped.  Several writes to one file that change different blocks
 * run at once and in no order; to order two writes, reap the first before you submit the second.
 */
WEKA_MUST_CHECK int weka_submit_write(struct weka_client *client, struct weka_req *req,
				      const struct weka_handle *handle, uint64_t offset_bytes,
				      uint32_t length_bytes, uint32_t flags,
				      const struct weka_window *window);

/**
 * weka_submit_open - look up a name, or create it; its attributes and handle come in *attr
 *
 * `create` (NULL without WEKA_CREATE) gives mode and owner of a new file.  With WEKA_HOLD a regular
 * file is open from then on, as in POSIX: after its last name is removed, the file stays usable by
 * its handle, with a link count of 0, until all who opened it have closed it.  Call
 * weka_close_file() once for each open.  Without WEKA_HOLD nothing is opened and nothing needs to
 * be closed: once the file is removed, its handle is -ESTALE.  Batches open nothing either.
 *
 * An open file stays open when the session breaks, if the library makes a new one within a minute.
 * It is closed when the client is closed, and when the appliance itself is restarted: then a file
 * without a name is gone, and its handle is -ESTALE (counted in opens_lost).
 * Errors:  of WEKA_HOLD: -EMFILE (opens_max are open, or the appliance grants this client no more:
 *          close some), -ENFILE (the appliance can hold no more open files), -EACCES (the key's
 *          user may neither read nor write it).
 */
WEKA_MUST_CHECK int weka_submit_open(struct weka_client *client, struct weka_req *req,
				     const struct weka_ref *ref, uint32_t flags,
				     const struct weka_create *create, struct weka_attr *attr);

/**
 * weka_close_file - close a file that was opened with weka_open() or WEKA_HOLD
 *
 * The close travels with the next requests, many in one message, so there is nothing to wait for.
 * When a file without a name is closed for the last time, its space is freed.
 *
 * Thread:  the client's.  Never blocks.
 * Errors:  -EBADF (it is not open, or was not a regular file), -ESTALE (after a fork).
 */
int weka_close_file(struct weka_client *client, const struct weka_handle *handle);

/**
 * weka_submit_stat - attributes of `count` names
 *
 * Up to 9 need no window (NULL); more need 104 bytes each.
 */
WEKA_MUST_CHECK int weka_submit_stat(struct weka_client *client, struct weka_req *req,
				     struct weka_stat_item *items, uint32_t count,
				     const struct weka_window *window);

/**
 * weka_submit_list - read a page of a directory, with attributes
 *
 * Fills entries[0 .. req->count), at most `count_max`, and sets *cookie to the position of the next
 * page.  req->length_bytes is 0 at the end of the directory, else 1.  The names are in the window.
 * An entry that exists during the whole listing appears exactly once.
 */
WEKA_MUST_CHECK int weka_submit_list(struct weka_client *client, struct weka_req *req,
				     const struct weka_ref *dir, struct weka_cookie *cookie,
				     struct weka_entry *entries, uint32_t count_max,
				     const struct weka_window *window);

/* The target of a symlink, not terminated, in the window: at most WEKA_PATH_MAX bytes. */
WEKA_MUST_CHECK int weka_submit_readlink(struct weka_client *client, struct weka_req *req,
					 const struct weka_ref *ref,
					 const struct weka_window *window);
WEKA_MUST_CHECK int weka_submit_statfs(struct weka_client *client, struct weka_req *req,
				       struct weka_statfs *out);
/**
 * weka_submit_totals - the number of names and of bytes below a directory
 *
 * Costs one lookup, whatever the size: the store keeps totals for each directory and updates them
 * within 5 s of a change below it.  A key with a user needs permission to read and search that
 * directory and to search the path to it, but none for anything below.
 *
 * Errors:  -ENOENT, -ENOTDIR, -ELOOP, -EACCES.
 */
WEKA_MUST_CHECK int weka_submit_totals(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *ref, struct weka_totals *out);
/* The appliance's counters as JSON text in the window; 512 KiB are enough. */
WEKA_MUST_CHECK int weka_submit_status(struct weka_client *client, struct weka_req *req,
				       const struct weka_window *window);

/* A round trip without any work. */
WEKA_MUST_CHECK int weka_submit_ping(struct weka_client *client, struct weka_req *req);
WEKA_MUST_CHECK int weka_submit_truncate(struct weka_client *client, struct weka_req *req,
					 const struct weka_handle *handle, uint64_t size_bytes);

/**
 * weka_submit_punch - make a hole: the bytes become zeros, and whole blocks of 4096 are freed
 *
 * The size stays; a range beyond the end of the file is ignored.  The hole is made from front to
 * back, in steps that end at multiples of 4 MiB, each atomic: a request that ended early may have
 * been done in part.  The time grows with the amount of data in the range.
 * Errors:  -EINVAL (no length), -EFBIG, -EISDIR, -ESTALE, -ENOSPC (only for the two blocks at the
 *          edges of the hole that keep part of their data).
 */
WEKA_MUST_CHECK int weka_submit_punch(struct weka_client *client, struct weka_req *req,
				      const struct weka_handle *handle, uint64_t offset_bytes,
				      uint64_t length_bytes);

#define WEKA_SEEK_HOLE 1u /* find the next hole, not the next data */
/**
 * weka_submit_seek - find data or a hole from an offset on: req->length_bytes is its offset
 *
 * Like SEEK_DATA and SEEK_HOLE of lseek(2): the end of the file counts as a hole; data comes in
 * whole blocks of 4096 bytes.  Holes need not be read: they are zeros.
 * Errors:  -ENXIO (at or after the end; or no data follows), -EISDIR, -ESTALE.
 */
WEKA_MUST_CHECK int weka_submit_seek(struct weka_client *client, struct weka_req *req,
				     const struct weka_handle *handle, uint64_t offset_bytes,
				     uint32_t flags);
WEKA_MUST_CHECK int weka_submit_setattr(struct weka_client *client, struct weka_req *req,
					const struct weka_ref *ref, const struct weka_setattr *set);

#define WEKA_NOREPLACE 1u /* -EEXIST rather than replace */
#define WEKA_EXCHANGE  2u /* swap two existing names */
/**
 * weka_submit_rename - rename `from` to `to`, atomically
 *
 * A file that had the name `to` loses that name; a directory may replace an empty directory only.
 * If both name the same file, nothing happens.  Symlinks are not followed.  At most
 * one flag.
 * Errors:  -ENOENT, -EEXIST (WEKA_NOREPLACE), -ENOTDIR, -EISDIR, -ENOTEMPTY, -EINVAL (a directory
 *          moved below itself; "." or ".." at the end).
 */
WEKA_MUST_CHECK int weka_submit_rename(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *from, const struct weka_ref *to,
				       uint32_t flags);

/**
 * weka_submit_link - add a name, `to`, to the file that `from` names
 *
 * If `from` is a symlink, its target gets the name, unless the reference has WEKA_NOFOLLOW: then
 * the symlink itself does.  `from` may be a handle.  The file exists until its last name is gone.
 * Errors:  -EPERM (a directory), -EEXIST, -ENOENT (also of a held file without a name), -EMLINK.
 */
WEKA_MUST_CHECK int weka_submit_link(struct weka_client *client, struct weka_req *req,
				     const struct weka_ref *from, const struct weka_ref *to);
WEKA_MUST_CHECK int weka_submit_unlink(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *ref);

/**
 * weka_submit_unlink_batch - remove `count` names in one round trip
 *
 * Removes each as weka_submit_unlink() would, in no order; items[i].status is its result.  Up to
 * 256 need no window (NULL); more need 4 bytes each.
 */
WEKA_MUST_CHECK int weka_submit_unlink_batch(struct weka_client *client, struct weka_req *req,
					     struct weka_unlink_item *items, uint32_t count,
					     const struct weka_window *window);

WEKA_MUST_CHECK int weka_submit_rmdir(struct weka_client *client, struct weka_req *req,
				      const struct weka_ref *ref);

/**
 * weka_submit_rmtree - remove a directory and everything in it, whatever its size
 *
 * The directory's name is removed atomically and durably, and with it every path through it.  The
 * appliance frees the contents in the background, and goes on after a restart: space returns
 * slowly, and a file with a name elsewhere keeps the links of this tree until the
 * appliance has reached them.
 * Errors:  -ENOENT, -ENOTDIR (use weka_submit_unlink() for files), -EINVAL ("." or ".." at the end,
 *          the root).
 */
WEKA_MUST_CHECK int weka_submit_rmtree(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *ref);

/**
 * weka_submit_drain, _undrain - begin to remove a drive from the store; cancel that
 *
 * `drive` is the name in the appliance's configuration, or the serial number.  From then on, also
 * after a crash, the store puts nothing new on the drive and moves its live data to the others;
 * when it is empty, the appliance removes it.  weka_status() reports the progress.
 * Errors:  -ENODEV (no such drive), -EALREADY (nothing to change), -EPERM (the last drive in use),
 *          -ENOSPC (no room for the live data), -EFBIG (the drive has the roots, and the zones of
 *          the others are too small for them), -EACCES.
 */
WEKA_MUST_CHECK int weka_submit_drain(struct weka_client *client, struct weka_req *req,
				      const char *drive);
WEKA_MUST_CHECK int weka_submit_undrain(struct weka_client *client, struct weka_req *req,
					const char *drive);

/* The attributes of the new directory come in *attr, which may be NULL. */
WEKA_MUST_CHECK int weka_submit_mkdir(struct weka_client *client, struct weka_req *req,
				      const struct weka_ref *ref, const struct weka_create *create,
				      struct weka_attr *attr);
WEKA_MUST_CHECK int weka_submit_symlink(struct weka_client *client, struct weka_req *req,
					const struct weka_ref *ref, const char *target,
					const struct weka_create *create, struct weka_attr *attr);

#define WEKA_XATTR_CREATE  1u /* -EEXIST rather than replace */
#define WEKA_XATTR_REPLACE 2u /* -ENODATA rather than create */
/**
 * weka_submit_getxattr - read an extended attribute into the window: req->length_bytes long
 * weka_submit_setxattr - set one to `value`, which must stay unchanged until the request is reaped
 * weka_submit_listxattr - read the names of all into the window, each followed by a 0 byte
 * weka_submit_removexattr - remove one
 *
 * Files and directories have extended attributes; they survive a rename and go with the last name.
 * Names begin with "user." and have at most WEKA_NAME_MAX bytes, values WEKA_XATTR_MAX; 256 a file.
 * Errors:  -ENODATA (no such attribute), -ERANGE (the window is too small; the length of the name),
 *          -EEXIST, -EOPNOTSUPP (the name has another prefix), -EINVAL ("user." alone; two flags),
 *          -E2BIG, -ENOSPC (no room, or 256 exist already), -EPERM (a symlink).
 */
WEKA_MUST_CHECK int weka_submit_getxattr(struct weka_client *client, struct weka_req *req,
					 const struct weka_ref *ref, const char *name,
					 const struct weka_window *window);
WEKA_MUST_CHECK int weka_submit_setxattr(struct weka_client *client, struct weka_req *req,
					 const struct weka_ref *ref, const char *name,
					 const void *value, size_t size_bytes, uint32_t flags);
WEKA_MUST_CHECK int weka_submit_listxattr(struct weka_client *client, struct weka_req *req,
					  const struct weka_ref *ref,
					  const struct weka_window *window);
WEKA_MUST_CHECK int weka_submit_removexattr(struct weka_client *client, struct weka_req *req,
					    const struct weka_ref *ref, const char *name);

/**
 * weka_reap - collect requests that have ended
 *
 * Sends the submitted requests, receives answers, verifies blocks, ends requests whose deadline has
 * passed, and reconnects if the connection broke.
 *
 * Returns: the number of done[] filled in, 0 when no request has ended.
 * Owns:    each returned request is the caller's again.
 * Thread:  the client's.  Never blocks.  Calls the system only to send over TCP, to wake a sleeping
 *          appliance, to check now and then (when nothing arrives) that the appliance is still
 *          there, and to connect.
 * Errors:  -ESTALE.  -EINVAL: the caller changed a request that had ended, before it was returned.
 */
WEKA_MUST_CHECK int weka_reap(struct weka_client *client, struct weka_req **done,
			      uint32_t done_max);

/* Sends the submitted requests; for callers that will not call weka_reap() soon. */
int weka_flush(struct weka_client *client);
/**
 * weka_cancel - end a request early
 *
 * The request must still be reaped: its status is -ECANCELED, or its result if that came first.
 * Errors:  -EINVAL (it is not in flight with this client).
 */
int weka_cancel(struct weka_client *client, struct weka_req *req);

/**
 * weka_wait - wait until a request can be reaped
 *
 * Polls for about as long as recent answers took, then sleeps.
 *
 * Returns: 0: call weka_reap().  -ETIMEDOUT: the time is over.  -EINTR: a signal arrived.
 *          -ENOENT: no request is in flight, so there is nothing to wait for.
 */
WEKA_MUST_CHECK int weka_wait(struct weka_client *client, uint64_t timeout_ns);

/**
 * weka_fd - a descriptor for poll, epoll and similar calls
 * weka_arm - prepare to sleep: make the descriptor readable when a request can be reaped
 *
 * The descriptor never changes, even when the library reconnects.  It works only after weka_arm(),
 * which asks the appliance for a wake-up.  Arming costs system calls: do it before sleeping, not
 * while busy.  The next weka_reap() disarms.
 *
 * Returns: weka_arm: 1: sleep on the descriptor.  0: there is something to reap already.
 * Errors:  weka_arm: -ESTALE.
 */
int weka_fd(const struct weka_client *client);
WEKA_MUST_CHECK int weka_arm(struct weka_client *client);

#ifdef __cplusplus
}
#endif
#include "weka_dataset.h"
#include "weka_pool.h"
#include "weka_sync.h"
#endif
