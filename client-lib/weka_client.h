/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client - files of an appliance, without a kernel in the way.
 *
 * A struct weka_client is one session with an appliance.  It belongs to one thread at a
 * time: the library takes no lock and starts no thread.  A program with several threads
 * opens one client in each.  After fork() the child's copy answers -ESTALE to everything but
 * weka_close(), which it should call: as long as it holds the session's descriptors the appliance
 * cannot see the parent's end.  What the child needs it connects anew.
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
 * Requests are submitted and reaped:
 *
 *	weka_lease(client, 2 << 20, &lease);
 *	window = (struct weka_window){ lease, 0, 2 << 20 };
 *	weka_submit_read_batch(client, &req, items, 256, &window);
 *	while (weka_reap(client, done, 16) == 0)
 *		weka_wait(client, WEKA_FOREVER);
 *	use(items[i].status, items[i].data, items[i].got_bytes);
 *	weka_release(client, lease);
 *
 * or, for tools and first steps, called one at a time: weka_read_file(), weka_write_file(),
 * weka_stat(), ... of weka_sync.h, which comes with this header.
 *
 * Promises.  What a change's status calls done is durable and seen by every client.  Every
 * block that is read was checked against the CRC32C that its writer made, and is asked for
 * once more before it is reported as -EIO; wrong bytes are never handed out.  Nothing here is
 * cached, so there is nothing to invalidate.
 *
 * Errors are negative errno values.  Names are bytes; paths start at the root, with or without
 * a slash before them, and are resolved by the appliance.  Sizes and offsets are bytes, times
 * nanoseconds.  Any call can answer, besides what it lists: -EINVAL (an argument that cannot be),
 * -ESTALE (after a fork or weka_close()), -EBUSY (another thread is inside the client, or a signal
 * handler calls in the middle), -ENOTCONN (no connection, and none could be made for reconnect_ns),
 * -EACCES (the appliance takes the key no more).  No mistake of the caller ends the process.
 *
 * Structs that the caller fills are zeroed first: 0 is always the default, and fields that
 * later versions add stand in what is reserved now.  A reserved field that is not 0 is -EINVAL.
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

struct weka_client; /* opaque */
struct weka_dir;    /* opaque: a listing under way */

#define WEKA_FOREVER   UINT64_MAX  /* a timeout: none                              */
#define WEKA_TO_END    UINT64_MAX  /* a length: as far as the file goes            */
#define WEKA_BLOCK     4096u       /* what has one checksum; what windows count in */
#define WEKA_NAME_MAX  255u        /* bytes of one name                            */
#define WEKA_PATH_MAX  4095u       /* bytes of a path, or of a symlink's target    */
#define WEKA_BATCH_MAX 1024u       /* items of one request                         */
#define WEKA_READ_MAX  (64u << 20) /* bytes of one request's window                */
#define WEKA_WRITE_MAX (4u << 20)  /* bytes of one write, or of one file of a put  */
#define WEKA_XATTR_MAX 65536u      /* of an extended attribute's value, or of a list of names */

/* ---- a session ------------------------------------------------------------------- */

/* Who asks: a key that the appliance knows, as a secret of 32 bytes, or in a file that nobody but
 * its owner may read: "SECRET" or "ID:SECRET" on one line, the secret as 64 hexadecimal digits.
 * No key at all (NULL for weka_connect()) is good for an appliance that lets anybody in. */
struct weka_key {
	const char *id;     /* at most 31 bytes; NULL: the file's, or "weka" */
	const void *secret; /* 32 bytes, or NULL ...                     */
	const char *file;   /* ... and then the path of a file           */
	uint64_t reserved[3];
};

/* Everything has a limit, taken at connect; 0 is the default. */
struct weka_options {
	uint32_t size_bytes;         /* sizeof(struct weka_options): set it           */
	uint32_t requests_max;       /* in flight at once; 64, at most 1024           */
	uint32_t batches_max;        /* of them with many names at once; 16           */
	uint32_t batch_items_max;    /* items of one of them; 1024                    */
	uint32_t leases_max;         /* leases out at once; 1024                      */
	uint32_t lanes;              /* connections at once, see weka_connect(); at most 8 */
	uint64_t pool_bytes;         /* for leases; 64 MiB, or what is granted, else -ENOSPC */
	uint64_t connect_timeout_ns; /* for weka_connect(); 10 s                      */
	uint64_t timeout_ns;         /* of a request that names none; 30 s            */
	uint64_t reconnect_ns;       /* without an appliance requests wait so long; 30 s */
	uint64_t spin_ns_max;        /* weka_wait() polls at most so long before it sleeps; 1 ms */
	uint32_t opens_max;          /* files that are open at once; 1024             */
	uint32_t reserved0;
	uint64_t reserved[7]; /* 0 */
};

/**
 * weka_connect - open a session
 *
 * `addresses`, separated by commas, are tried best first, shm, rdma, tcp, else in their order:
 * "shm:/run/weka.sock,rdma://192.168.1.2:7010,tcp://192.168.1.2:7010".  Which one it was, and
 * with it the transport, weka_get_limits() says.  "tls://HOST:PORT" is TCP within TLS 1.3; it never
 * falls back to a plain connection.
 * Over tcp, tls and rdma the session may have several connections, its lanes, which the library
 * opens and uses together: one to each core of the appliance, and over all addresses of its list
 * that are of the kind that answered and lead to the same appliance.  options->lanes says how many;
 * 0: as many as the appliance has cores, at most 4, but at least one for each such address.  Never
 * more than the appliance allows (lanes_max of its configuration, 4 by itself).  A request goes
 * where least is in flight.  A lane that breaks, or an address that is dead, is left out and tried
 * again by and by; reads that were on it are asked again over the others at once.  Over shm there
 * is one. `key` and `options` are read only during the call; `options` may be NULL.
 *
 * When the session breaks later, the library makes a new one by itself (inside weka_reap() and
 * what calls it), also with an appliance that was killed and started again.  What was in flight is
 * asked again, reads and changes alike: a change that was made before is not made twice, its first
 * result comes.  Only when that cannot be told does it end with -ECONNRESET: it may or may not
 * have happened.  Leases keep their address and their bytes.  A put in pieces
 * (weka_submit_put_begin()) ends with its session: what follows of it is answered with -ESTALE;
 * begin it anew.
 *
 * Failures that may pass (a connection that is cut off, an appliance that is busy or does not
 * answer) are tried again, with growing pauses, until connect_timeout_ns is over.  All other
 * errors end the call once every address has failed.
 * Owns:    *out is the caller's, until weka_close().
 * Thread:  any.  Waits, at most connect_timeout_ns.
 * Errors:  of the last address; weka_error(NULL) has one line for people.
 *          -EINVAL (address, key or option), -EACCES (the appliance does not take this key),
 *          -ECONNREFUSED, -ENOENT, -EPROTO (something else answers there), -EPROTONOSUPPORT
 *          (another version), -ETIMEDOUT, -ECONNRESET and -EBUSY (at the end of the time), -EUSERS
 *          (it is full), -ENOMEM, -ENOSPC (no memory here or there for the pool), -EIO (the key
 *          file; the line says what).
 */
WEKA_MUST_CHECK int weka_connect(const char *addresses, const struct weka_key *key,
				 const struct weka_options *options, struct weka_client **out);

/**
 * weka_close - end the session and give back all of its memory
 *
 * Requests in flight are forgotten, leases are gone, files that are open are closed: for the
 * appliance's word on that it waits, for a second at most.  NULL is fine.  A client that another
 * thread is inside stays open.  Zero requests that were in flight before using them again.
 */
void weka_close(struct weka_client *client);

/**
 * weka_error - one line about the last call that failed
 *
 * Calls that succeed, and what requests end with, leave it alone.  With NULL: of this thread's last
 * weka_connect(), or call without a client.  Never NULL.
 *
 * Owns:    the library; valid until the next call with this client (this thread).
 */
const char *weka_error(const struct weka_client *client);

/* What the session has been given.  Set size_bytes before the call. */
struct weka_limits {
	uint32_t size_bytes;
	uint32_t requests_max;
	uint32_t batch_items_max;
	uint32_t window_max_bytes;
	uint64_t pool_bytes;
	char transport[8]; /* "shm", "rdma" or "tcp"; "" while there is none */
	char address[120]; /* the one that answered, cut where it is longer */
	uint32_t lanes;    /* connections that are open, and that it would have */
	uint32_t lanes_wanted;
	uint32_t cores; /* of the appliance */
	uint32_t reserved0;
};

/* What has happened since weka_connect().  Set size_bytes before the call. */
struct weka_counters {
	uint32_t size_bytes;
	uint32_t reserved0;
	uint64_t submitted;
	uint64_t completed;
	uint64_t timeouts; /* requests that their deadline ended                    */
	uint64_t reconnects;
	uint64_t replays;         /* requests asked again after one                        */
	uint64_t blocks_checked;  /* checksums verified                                   */
	uint64_t blocks_wrong;    /* ... that did not match, the first time                */
	uint64_t blocks_lost;     /* ... and did not the second time either: -EIO          */
	uint64_t sleeps;          /* of weka_wait()                                        */
	uint64_t pool_used_bytes; /* in leases, also those waiting for their requests    */
	uint64_t busy;            /* requests that the appliance put off: asked again      */
	uint64_t lanes_lost;      /* connections that broke while another lived            */
	uint64_t opens_lost;      /* open files that were gone when a new session asked for them */
};

/* Fill *out, as far as its size_bytes goes. */
int weka_get_limits(const struct weka_client *client, struct weka_limits *out);
int weka_get_counters(const struct weka_client *client, struct weka_counters *out);

/* The library's version, which may be newer than this header's WEKA_CLIENT_VERSION. */
const char *weka_version(void);

/* ---- buffers --------------------------------------------------------------------- */

/* A piece of the pool: memory that the appliance reaches.  The library keeps the struct. */
struct weka_lease {
	void *data;          /* 4096-aligned; does not move */
	uint64_t size_bytes; /* a multiple of 4096          */
	void *user;          /* yours                       */
};

/* The part of a lease that a request may use.  Several requests may use one lease at once, in
 * parts that do not overlap. */
struct weka_window {
	struct weka_lease *lease;
	uint64_t offset_bytes; /* in the lease, a multiple of 4096 */
	uint64_t size_bytes;   /* a multiple of 4096, at most window_max_bytes */
};

/**
 * weka_lease - take a buffer of at least `size_bytes` out of the pool
 *
 * Its bytes are whatever they were.  Constant time, no system call, no malloc.
 *
 * Owns:    the caller, until weka_release() or weka_close().
 * Errors:  -EAGAIN (the pool has no such piece now, or leases_max are out: release some),
 *          -EMSGSIZE (larger than the pool).
 */
WEKA_MUST_CHECK int weka_lease(struct weka_client *client, uint64_t size_bytes,
			       struct weka_lease **out);

/**
 * weka_release - give it back
 *
 * A deadline ends a request, not the lease: while the appliance may still write into it (a
 * request that was cancelled or timed out, and not yet acknowledged) the memory stays out of the
 * pool, and comes back by itself.  NULL is fine.
 * Errors:  -ESTALE (it was released before), -EINVAL (not a lease of this client).
 */
int weka_release(struct weka_client *client, struct weka_lease *lease);

/**
 * weka_window_bytes - how large a window must be for `count` items of at most `bytes_each`
 *
 * For reads and for puts: payload, checksums and the table of answers, rounded up to 4096.
 * A single read needs nothing but its blocks, up to 128 KiB.  0 when it would be over
 * WEKA_READ_MAX.
 */
uint32_t weka_window_bytes(uint32_t count, uint64_t bytes_each);

/* ---- files, by name and by handle ------------------------------------------------ */

/* A file's or directory's lasting name: survives renames and reconnects; -ESTALE once it is gone.
 * A file that is open (weka_open(), WEKA_HOLD) is not gone before it is closed: it may lose its
 * last name, to an unlink, a put or a rename, and is read, written and asked about by its handle
 * all the same. */
struct weka_handle {
	uint8_t bytes[16];
};

enum weka_by {
	WEKA_BY_PATH = 1,  /* `name` from the root                        */
	WEKA_BY_HANDLE,    /* `handle`; no name                           */
	WEKA_BY_DIR,       /* `name` from the directory with number `dir` */
	WEKA_BY_DIRHANDLE, /* `name` from the directory `handle`          */
};

#define WEKA_NOFOLLOW 1u /* a symlink at the end is meant itself */

/* Which file is meant.  The name's bytes are lent like the rest of a request. */
struct weka_ref {
	uint32_t by;         /* enum weka_by                                */
	uint32_t flags;      /* WEKA_NOFOLLOW                               */
	const char *name;    /* 1 .. WEKA_PATH_MAX bytes                    */
	uint32_t name_bytes; /* 0: as far as a NUL                          */
	uint32_t reserved0;
	uint64_t dir; /* weka_attr.dir of a directory                */
	struct weka_handle handle;
};

/* Of a path, of a handle, of a name in a directory.  They keep the pointer to `name`. */
struct weka_ref weka_ref_path(const char *path);
struct weka_ref weka_ref_handle(const struct weka_handle *handle);
struct weka_ref weka_ref_in(uint64_t dir, const char *name);
struct weka_ref weka_ref_at(const struct weka_handle *dir, const char *name);

struct weka_attr {
	struct weka_handle handle;
	uint64_t ino; /* a number for people */
	uint64_t dir; /* a directory's number for WEKA_BY_DIR; 0: not a directory */
	uint64_t size_bytes;
	uint64_t allocated_bytes;
	int64_t mtime_ns; /* since 1970 */
	int64_t ctime_ns;
	int64_t atime_ns;
	uint32_t mode; /* as st_mode: type and permission bits */
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;  /* of a directory: 2, and one for each directory in it */
	uint32_t xattrs; /* extended attributes */
	uint32_t reserved0;
	uint64_t reserved[3];
};

/* Flags of weka_submit_open(), and of struct weka_create the second and the fifth. */
#define WEKA_CREATE      1u
#define WEKA_EXCL        2u  /* -EEXIST when it is there                */
#define WEKA_TRUNC       4u  /* ... to nothing                          */
#define WEKA_DIRECTORY   8u  /* -ENOTDIR for anything else              */
#define WEKA_MTIME_GIVEN 16u /* mtime_ns is to be taken; without: now   */
#define WEKA_HOLD        32u /* it stays until weka_close_file()        */

/* How something new begins. */
struct weka_create {
	uint32_t mode; /* permission bits */
	uint32_t uid;  /* of a key that has a user: that user's, and gid one of its groups */
	uint32_t gid;
	uint32_t flags; /* WEKA_EXCL, WEKA_MTIME_GIVEN */
	int64_t mtime_ns;
	uint64_t reserved[2];
};

/* One file of a batch read: what is wanted, and after weka_reap() what came. */
struct weka_read_item {
	struct weka_ref ref;
	uint64_t offset_bytes;
	uint64_t length_bytes; /* WEKA_TO_END: all the rest           */
	/* Filled in: */
	const void *data;   /* in the window, offset % 4096 behind a multiple of it; NULL: error */
	uint64_t got_bytes; /* of data; with -EMSGSIZE what there is to get */
	int32_t status;     /* 0 or -errno                            */
	uint32_t reserved0;
	uint64_t reserved[2];
};

/* One whole file of a batch put. */
struct weka_put_item {
	struct weka_ref ref; /* not WEKA_BY_HANDLE */
	struct weka_create create;
	uint32_t window_at;  /* where in the window its bytes lie: a multiple of 64 */
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

/* Where a listing goes on; all zero: at the start. */
struct weka_cookie {
	uint8_t bytes[24];
};

struct weka_statfs {
	uint64_t total_bytes;
	uint64_t free_bytes; /* that a writer may still take; files' names and sums come off it */
	uint64_t files;
	uint64_t dirs;
	uint32_t name_max;
	uint32_t shard_count;
	uint64_t reserved[6];
};

/* Of all that is below a directory; of anything else its own size. */
struct weka_totals {
	uint64_t entries;
	uint64_t dirs;            /* of the entries */
	uint64_t bytes;           /* a file with several names counts where one of them is */
	uint64_t allocated_bytes; /* without what lies in the index: files of some 100 bytes */
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
	uint32_t mask; /* WEKA_SET_*: which of these */
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_ns;
	int64_t atime_ns;
	uint64_t reserved[2];
};

/* ---- requests -------------------------------------------------------------------- */

/*
 * One request.  The caller keeps it where it is from weka_submit_*() until weka_reap() returns
 * it, and with it all that it points to: names, items, handles, the lease.  Set `user` and
 * `timeout_ns`; zero the rest before its first use, afterwards it can be used again as it is.
 */
struct weka_req {
	void *user;          /* yours; never touched                                     */
	uint64_t timeout_ns; /* from the first weka_reap() after it on, in steps of about 1 ms;
				0: the client's; WEKA_FOREVER: none */
	/* Filled in: */
	int32_t status;        /* 0 or -errno; a batch has one an item beside              */
	uint32_t count;        /* LIST: entries                                            */
	uint64_t length_bytes; /* READ: what was read, 0 at the end of the file.  READLINK,
				  STATUS: of the text.  WRITE: the file's size after it. */
	void *data;            /* READ, READLINK, STATUS: the first byte, in the window */
	uint64_t reserved[2];
	uint64_t opaque[8];
};

/*
 * An appliance that has more to do than it takes in, or a key that has had its share of a second,
 * puts a request off and says for how long.  The library waits that long (at most 2 s, and up to a
 * quarter longer, so that clients do not come back together) and asks again, as often as the
 * request's deadline allows; what is submitted meanwhile waits behind it.  Its caller sees a delay,
 * or -ETIMEDOUT, and never -EBUSY for it.  weka_counters.busy counts.
 *
 * All weka_submit_*() have this in common:
 *
 * They queue, and return.  weka_reap() (or weka_flush()) makes the appliance look.
 *
 * Owns:    `req` and all that was given is lent to the library until weka_reap() returns `req`.
 *          A window stays lent until the appliance has let go of it (weka_release() knows).
 * Thread:  the client's.  Never block, allocate, lock or call the system.
 * Errors:  now, and then nothing was submitted:
 *            -EAGAIN     requests_max (or, with many items, batches_max) are in flight: reap first
 *            -EMSGSIZE   the window is too small for what is asked; too many items or bytes
 *            -EBUSY      the lease still has a request that ended before it was acknowledged; or
 *                        `req` is in flight or not reaped.  -ESTALE: the lease was released
 *            -EINVAL     what cannot be: unaligned window, a name of 0 bytes, ...
 *            -ENAMETOOLONG
 *          in req->status:
 *            -ETIMEDOUT  its deadline passed.  Of a change: it may or may not have happened
 *            -ECANCELED  by weka_cancel(); the same holds
 *            -ECONNRESET a change whose session broke, and of which the appliance cannot tell
 *                        whether it was made: it does not answer for more than ten minutes, has
 *                        forgotten (more than 64 changes in flight, or thousands of other
 *                        clients since), could not be reached in reconnect_ns, or sessions broke
 *                        under it four times; or a write of several MiB of which a power failure
 *                        left a part.  The same holds
 *            -EIO        a block's checksum is wrong, twice; or the appliance could not read it
 *            -EPROTO     the appliance answered nonsense
 *          and what the appliance says of names and files: -ENOENT, -ENOTDIR, -EISDIR, -EEXIST,
 *          -ENOTEMPTY, -ELOOP, -EMLINK, -ENOSPC, -EFBIG, -EROFS, -EACCES, -ESTALE (a handle of
 *          what is gone), -EBADMSG (what was written had changed since it was summed).
 */

/**
 * weka_submit_read - read a piece of a file by handle
 *
 * The block of the file that holds `offset` lands at the window's start, so req->data stands
 * offset % 4096 behind it.  The window holds all blocks that the piece touches; a piece of more
 * than 32 blocks (128 KiB) also its checksums: weka_window_bytes(1, length + 4095).
 */
WEKA_MUST_CHECK int weka_submit_read(struct weka_client *client, struct weka_req *req,
				     const struct weka_handle *handle, uint64_t offset_bytes,
				     uint32_t length_bytes, const struct weka_window *window);

/**
 * weka_submit_read_batch - open, read and close `count` files in one round trip
 *
 * What does not fit the window gets -EMSGSIZE, and its size, item by item.
 */
WEKA_MUST_CHECK int weka_submit_read_batch(struct weka_client *client, struct weka_req *req,
					   struct weka_read_item *items, uint32_t count,
					   const struct weka_window *window);

/**
 * weka_submit_put - write `count` whole files, each atomically, replacing what is there
 *
 * Their bytes lie in the window already; behind the last one the library needs
 * weka_window_bytes() for checksums and answers.  A directory above must be there.
 */
WEKA_MUST_CHECK int weka_submit_put(struct weka_client *client, struct weka_req *req,
				    struct weka_put_item *items, uint32_t count,
				    const struct weka_window *window);

/**
 * weka_submit_put_begin, _commit, _abort - a whole file of any size, atomically, in pieces
 *
 * Begin makes a hidden file, whose handle is in *attr; weka_submit_write() fills it, in any
 * order, several at once; commit gives it its name.  Without commit it vanishes by abort, or with
 * the session.  -EMFILE from begin: too many that are neither, of this session or in all.
 */
WEKA_MUST_CHECK int weka_submit_put_begin(struct weka_client *client, struct weka_req *req,
					  const struct weka_ref *ref,
					  const struct weka_create *create, uint64_t size_bytes,
					  struct weka_attr *attr);
WEKA_MUST_CHECK int weka_submit_put_commit(struct weka_client *client, struct weka_req *req,
					   const struct weka_handle *handle, uint64_t size_bytes);
WEKA_MUST_CHECK int weka_submit_put_abort(struct weka_client *client, struct weka_req *req,
					  const struct weka_handle *handle);

#define WEKA_APPEND 1u /* at the end, wherever that is then: offset is not looked at */
/**
 * weka_submit_write - write the window's first `length` bytes into a file
 *
 * At most WEKA_WRITE_MAX; atomic within a chunk of 4 MiB of the file.  The window holds the bytes
 * and room for checksums behind them: weka_window_bytes(1, length + 4095).  The bytes must not
 * change until the request is reaped.  Several of one file in flight are under way at once, as far
 * as they change other blocks, and have no order: who wants one waits for the one before.
 */
WEKA_MUST_CHECK int weka_submit_write(struct weka_client *client, struct weka_req *req,
				      const struct weka_handle *handle, uint64_t offset_bytes,
				      uint32_t length_bytes, uint32_t flags,
				      const struct weka_window *window);

/**
 * weka_submit_open - look a name up, perhaps create it: its attributes, with the handle, in *attr
 *
 * `create` (NULL without WEKA_CREATE) gives mode and owner of a new file.  With WEKA_HOLD a regular
 * file is open from then on, as POSIX's are: when its last name goes, it stays what it is for its
 * handle, with a link count of 0, until all who opened it have closed it: weka_close_file(), once
 * for each time.  Without it (and in batches: they open, read and close) nothing is kept, there is
 * no close, and the handle of a file that is removed is -ESTALE.
 *
 * What is open stays so when the session breaks and the library makes a new one within a minute; it
 * ends with the client, and when the appliance itself is restarted: then a file without a name is
 * gone, and its handle -ESTALE (counted in opens_lost).
 * Errors:  of WEKA_HOLD: -EMFILE (opens_max are open, or the appliance leaves this client no more:
 *          close some), -ENFILE (the appliance has no place for anybody), -EACCES (the key's user
 *          may neither read nor write it).
 */
WEKA_MUST_CHECK int weka_submit_open(struct weka_client *client, struct weka_req *req,
				     const struct weka_ref *ref, uint32_t flags,
				     const struct weka_create *create, struct weka_attr *attr);

/**
 * weka_close_file - a file that was opened with weka_open() or WEKA_HOLD is not needed any more
 *
 * The appliance is told with what is sent next, of many files at once: there is nothing to wait
 * for.  The last one who closes a file without a name gives its room back.
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
 * weka_submit_list - a page of a directory, with attributes
 *
 * Fills entries[0 .. req->count), at most `count_max`, and moves *cookie to where to go on;
 * req->length_bytes is 0 at the end, else 1.  Names lie in the window.  What is there throughout
 * a listing appears exactly once.
 */
WEKA_MUST_CHECK int weka_submit_list(struct weka_client *client, struct weka_req *req,
				     const struct weka_ref *dir, struct weka_cookie *cookie,
				     struct weka_entry *entries, uint32_t count_max,
				     const struct weka_window *window);

/* The target's text, not terminated, in the window: at most WEKA_PATH_MAX bytes. */
WEKA_MUST_CHECK int weka_submit_readlink(struct weka_client *client, struct weka_req *req,
					 const struct weka_ref *ref,
					 const struct weka_window *window);
WEKA_MUST_CHECK int weka_submit_statfs(struct weka_client *client, struct weka_req *req,
				       struct weka_statfs *out);
/**
 * weka_submit_totals - how many names, and how many bytes, are below a directory
 *
 * One lookup, however many they are: the totals of each directory are kept, and follow what is
 * changed below it within 5 s.  A key with a user needs to read and search that directory, and to
 * search what leads to it; nothing below.
 *
 * Errors:  -ENOENT, -ENOTDIR, -ELOOP, -EACCES.
 */
WEKA_MUST_CHECK int weka_submit_totals(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *ref, struct weka_totals *out);
/* The appliance's counters as JSON text in the window; 64 KiB are enough. */
WEKA_MUST_CHECK int weka_submit_status(struct weka_client *client, struct weka_req *req,
				       const struct weka_window *window);

/* Nothing but the round trip. */
WEKA_MUST_CHECK int weka_submit_ping(struct weka_client *client, struct weka_req *req);
WEKA_MUST_CHECK int weka_submit_truncate(struct weka_client *client, struct weka_req *req,
					 const struct weka_handle *handle, uint64_t size_bytes);

/**
 * weka_submit_punch - a hole: the bytes become zeros, and whole blocks of 4096 are given back
 *
 * The size stays; what lies behind the end is not looked at.  Made from front to back, in steps
 * that end at multiples of 4 MiB, each atomic: a request that ended early may have been done in
 * part.  It may take as long as there is data in the range.
 * Errors:  -EINVAL (no length), -EFBIG, -EISDIR, -ESTALE, -ENOSPC (only for the two blocks that
 *          stay in part).
 */
WEKA_MUST_CHECK int weka_submit_punch(struct weka_client *client, struct weka_req *req,
				      const struct weka_handle *handle, uint64_t offset_bytes,
				      uint64_t length_bytes);

#define WEKA_SEEK_HOLE 1u /* where the next hole is, rather than the next data */
/**
 * weka_submit_seek - where data is, from an offset on: req->length_bytes
 *
 * As SEEK_DATA and SEEK_HOLE of lseek(2): the end of the file is a hole, too; blocks of 4096 bytes
 * are data as a whole.  What lies in holes need not be read: it is zeros.
 * Errors:  -ENXIO (at or behind the end; or no data follows), -EISDIR, -ESTALE.
 */
WEKA_MUST_CHECK int weka_submit_seek(struct weka_client *client, struct weka_req *req,
				     const struct weka_handle *handle, uint64_t offset_bytes,
				     uint32_t flags);
WEKA_MUST_CHECK int weka_submit_setattr(struct weka_client *client, struct weka_req *req,
					const struct weka_ref *ref, const struct weka_setattr *set);

#define WEKA_NOREPLACE 1u /* -EEXIST rather than replace */
#define WEKA_EXCHANGE  2u /* both are there, and get each other's name */
/**
 * weka_submit_rename - `from` becomes `to`, at one moment for all who look
 *
 * What `to` named loses that name; a directory goes over an empty one only.  If both name the same
 * file nothing is done.  Symlinks are renamed themselves.  One flag at most.
 * Errors:  -ENOENT, -EEXIST (WEKA_NOREPLACE), -ENOTDIR, -EISDIR, -ENOTEMPTY, -EINVAL (a directory
 *          below itself; "." or ".." at the end).
 */
WEKA_MUST_CHECK int weka_submit_rename(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *from, const struct weka_ref *to,
				       uint32_t flags);

/**
 * weka_submit_link - one more name, `to`, for the file that `from` names
 *
 * A symlink that `from` ends at is followed, unless its ref says WEKA_NOFOLLOW: then it gets the
 * name itself.  Both names are the file's from then on, and it is there until its last name goes.
 * Errors:  -EPERM (a directory), -EEXIST, -ENOENT, -EMLINK (it has as many as there may be).
 */
WEKA_MUST_CHECK int weka_submit_link(struct weka_client *client, struct weka_req *req,
				     const struct weka_ref *from, const struct weka_ref *to);
WEKA_MUST_CHECK int weka_submit_unlink(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *ref);

/**
 * weka_submit_unlink_batch - remove `count` names in one round trip
 *
 * Each by itself, in no order, as weka_submit_unlink() would: items[i].status says what became of
 * it.  Up to 256 need no window (NULL); more need 4 bytes each.
 */
WEKA_MUST_CHECK int weka_submit_unlink_batch(struct weka_client *client, struct weka_req *req,
					     struct weka_unlink_item *items, uint32_t count,
					     const struct weka_window *window);

WEKA_MUST_CHECK int weka_submit_rmdir(struct weka_client *client, struct weka_req *req,
				      const struct weka_ref *ref);

/**
 * weka_submit_rmtree - a directory and all that is in it are gone, however much it is
 *
 * Its name goes at one moment, durably, and with it every path through it.  What was in it is
 * freed by the appliance in the background, also after a restart: so room comes back by and by,
 * and a file with a name elsewhere has the links of this tree until its turn has come.
 * Errors:  -ENOENT, -ENOTDIR (weka_submit_unlink() is for files), -EINVAL ("." or ".." at the end,
 *          the root).
 */
WEKA_MUST_CHECK int weka_submit_rmtree(struct weka_client *client, struct weka_req *req,
				       const struct weka_ref *ref);

/**
 * weka_submit_drain, _undrain - a drive of the appliance is to leave the store; to stay after all
 *
 * drive: as in the appliance's configuration, or its serial number.  From then on, also after a
 * crash, nothing new is put there, and what lives there goes to the others; when nothing is left
 * the appliance takes it out.  weka_status() says how far it is.
 * Errors:  -ENODEV (no such drive), -EALREADY (it is so), -EPERM (the last that is used), -ENOSPC
 *          (no room for what lives), -EFBIG (roots are there, and zones too small), -EACCES.
 */
WEKA_MUST_CHECK int weka_submit_drain(struct weka_client *client, struct weka_req *req,
				      const char *drive);
WEKA_MUST_CHECK int weka_submit_undrain(struct weka_client *client, struct weka_req *req,
					const char *drive);

/* The new one's attributes come in *attr, which may be NULL. */
WEKA_MUST_CHECK int weka_submit_mkdir(struct weka_client *client, struct weka_req *req,
				      const struct weka_ref *ref, const struct weka_create *create,
				      struct weka_attr *attr);
WEKA_MUST_CHECK int weka_submit_symlink(struct weka_client *client, struct weka_req *req,
					const struct weka_ref *ref, const char *target,
					const struct weka_create *create, struct weka_attr *attr);

#define WEKA_XATTR_CREATE  1u /* -EEXIST rather than replace */
#define WEKA_XATTR_REPLACE 2u /* -ENODATA rather than create */
/**
 * weka_submit_getxattr - the value of an extended attribute, in the window: req->length_bytes of it
 * weka_submit_setxattr - `value`, which must stay until the request is reaped, becomes it, whole
 * weka_submit_listxattr - the names of all, a 0 behind each, in the window
 * weka_submit_removexattr - it is gone
 *
 * Of a file or directory; they go with it when it is renamed, and when it goes.  A name begins with
 * "user." and has WEKA_NAME_MAX bytes at most, a value WEKA_XATTR_MAX; one has at most 256.
 * Errors:  -ENODATA (there is none), -ERANGE (the window is too small; a name's length), -EEXIST,
 *          -EOPNOTSUPP (another name), -EINVAL ("user." alone; two flags), -E2BIG, -ENOSPC (there
 *          are 256, too), -EPERM (a symlink).
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
 * Sends what was submitted, takes in answers, checks blocks, ends what is past its deadline, and
 * mends the connection.
 *
 * Returns: how many of done[] it filled, 0 when nothing has ended.
 * Owns:    each returned request is the caller's again.
 * Thread:  the client's.  Never blocks; calls the system only to send over TCP, to wake a sleeping
 *          appliance, to look (seldom, when nothing comes) whether it is gone, and to connect.
 * Errors:  -ESTALE.
 */
WEKA_MUST_CHECK int weka_reap(struct weka_client *client, struct weka_req **done,
			      uint32_t done_max);

/* Send what was submitted, when no weka_reap() will follow soon. */
int weka_flush(struct weka_client *client);
/**
 * weka_cancel - end a request early
 *
 * It is still to be reaped: with -ECANCELED, or with its result when that came first.
 * Errors:  -EINVAL (it is not in flight with this client).
 */
int weka_cancel(struct weka_client *client, struct weka_req *req);

/**
 * weka_wait - wait until there is something to reap
 *
 * Polls for a while, as long as answers lately took to come; then sleeps.
 *
 * Returns: 0: reap now.  -ETIMEDOUT: nothing came.  -EINTR: a signal did.  -ENOENT: nothing is in
 *          flight, so that nothing will come.
 */
WEKA_MUST_CHECK int weka_wait(struct weka_client *client, uint64_t timeout_ns);

/**
 * weka_fd - a descriptor for poll, epoll and their like
 * weka_arm - about to sleep: make it readable when there is something to reap
 *
 * The descriptor stays the same, also through reconnects.  It says something only after
 * weka_arm(), which asks the appliance to knock (this costs system calls: arm before sleeping,
 * not while busy).  The next weka_reap() disarms.
 *
 * Returns: weka_arm: 1: sleep on the descriptor.  0: there is something already: reap.
 * Errors:  weka_arm: -ESTALE.
 */
int weka_fd(const struct weka_client *client);
WEKA_MUST_CHECK int weka_arm(struct weka_client *client);

#ifdef __cplusplus
}
#endif

#include "weka_sync.h" /* called one at a time, for tools and first steps */

#endif
