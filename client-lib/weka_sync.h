/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client - calls that wait.  Part of weka_client.h: include that header.
 *
 * For tools and first programs.  Each call submits requests, waits for them, and returns 0 or more,
 * or -errno with a line in weka_error().  Other requests of the same client that are in flight make
 * progress meanwhile, and must still be reaped.  Paths are followed through symlinks, except the
 * last name for lstat, readlink, unlink, rename, link and symlink.  While it runs, each call leases
 * a buffer from the pool: 64 KiB, or, for a write, which is atomic, all of its bytes up to 4 MiB.
 * So each call can also return -EAGAIN (no such buffer is free, or requests_max are in flight) and
 * -EMSGSIZE (the pool is smaller than that).
 */
#ifndef WEKA_SYNC_H
#define WEKA_SYNC_H

#include "weka_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * weka_set_pause - have a function called while a call waits
 *
 * While a call of this header or of weka_dataset.h waits, or does long work, it calls `pause` about
 * every 20 ms, in its own thread.  If `pause` does not return 0, the call ends with -ECANCELED.  In
 * the meantime other calls may be made with the client, but not weka_close(), which does nothing.
 * So a program can look for signals, and other threads get a turn.  NULL: no function, as at first.
 */
int weka_set_pause(struct weka_client *client, int (*pause)(void *user), void *user);

/* Like weka_submit_open() with WEKA_HOLD, and with the mode of a new file: a regular file is open
 * until weka_close_file(client, &attr->handle).  `attr` may be NULL for weka_stat() only. */
WEKA_MUST_CHECK int weka_open(struct weka_client *client, const char *path, uint32_t flags,
			      uint32_t mode, struct weka_attr *attr);

/* Return the bytes read (fewer than asked for at the end of the file) or written (all), or -errno.
 * A write that crosses a chunk and fails may have been done in part. */
WEKA_MUST_CHECK int64_t weka_pread(struct weka_client *client, const struct weka_handle *handle,
				   void *bytes, size_t length_bytes, uint64_t offset_bytes);
WEKA_MUST_CHECK int64_t weka_pwrite(struct weka_client *client, const struct weka_handle *handle,
				    const void *bytes, size_t length_bytes, uint64_t offset_bytes);
WEKA_MUST_CHECK int64_t weka_append(struct weka_client *client, const struct weka_handle *handle,
				    const void *bytes, size_t length_bytes);
WEKA_MUST_CHECK int weka_truncate(struct weka_client *client, const struct weka_handle *handle,
				  uint64_t size_bytes);

/* Like weka_submit_punch() and weka_submit_seek(); weka_seek() returns the offset, or -errno. */
WEKA_MUST_CHECK int weka_punch(struct weka_client *client, const struct weka_handle *handle,
			       uint64_t offset_bytes, uint64_t length_bytes);
WEKA_MUST_CHECK int64_t weka_seek(struct weka_client *client, const struct weka_handle *handle,
				  uint64_t offset_bytes, uint32_t flags);

/* Reads a whole file into malloc() memory that the caller frees, and adds a NUL after it. */
WEKA_MUST_CHECK int weka_read_file(struct weka_client *client, const char *path, void **bytes,
				   size_t *size_bytes);

/* Writes a whole file of any size, atomically; `create` NULL: mode 0644, the time of the call, the
 * owner of the process. */
WEKA_MUST_CHECK int weka_write_file(struct weka_client *client, const char *path, const void *bytes,
				    size_t size_bytes, const struct weka_create *create);

/**
 * weka_put_fd - write a whole file from a descriptor, atomically, several pieces in flight
 * weka_get_fd - copy a whole file into a descriptor
 *
 * put_fd reads `size_bytes` from offset 0 of the descriptor (pread).  It returns -ENODATA if there
 * are fewer, also if the file shrinks during the call.  If the session breaks, put_fd and
 * weka_write_file() begin again by themselves, up to four times.  get_fd writes with pwrite from
 * offset 0 and returns the file's size.  Both keep holes: put_fd skips the holes of a regular file;
 * get_fd skips those of the appliance's file if the descriptor is of an empty regular file.
 */
WEKA_MUST_CHECK int weka_put_fd(struct weka_client *client, const struct weka_ref *ref, int fd,
				uint64_t size_bytes, const struct weka_create *create);
WEKA_MUST_CHECK int64_t weka_get_fd(struct weka_client *client, const struct weka_ref *ref, int fd);

WEKA_MUST_CHECK int weka_stat(struct weka_client *client, const char *path, struct weka_attr *attr);
WEKA_MUST_CHECK int weka_lstat(struct weka_client *client, const char *path,
			       struct weka_attr *attr);
WEKA_MUST_CHECK int weka_setattr(struct weka_client *client, const struct weka_ref *ref,
				 const struct weka_setattr *set);
WEKA_MUST_CHECK int weka_rename(struct weka_client *client, const char *from, const char *to);
/* Like link(2): if `from` is a symlink, the symlink itself gets the name. */
WEKA_MUST_CHECK int weka_link(struct weka_client *client, const char *from, const char *to);
WEKA_MUST_CHECK int weka_unlink(struct weka_client *client, const char *path);
/* Removes any number of names, 256 a round trip.  Returns 0 when all are gone, else the first item
 * status that is not 0.  If a round trip fails, its error is the status of all items not sent. */
WEKA_MUST_CHECK int weka_unlink_batch(struct weka_client *client, struct weka_unlink_item *items,
				      size_t count);
WEKA_MUST_CHECK int weka_rmdir(struct weka_client *client, const char *path);
WEKA_MUST_CHECK int weka_rmtree(struct weka_client *client, const char *path);
WEKA_MUST_CHECK int weka_drain(struct weka_client *client, const char *drive);
WEKA_MUST_CHECK int weka_undrain(struct weka_client *client, const char *drive);

/**
 * weka_protect - keep more copies of all blocks from now on, or parity
 *
 * `scheme` is "mirror": each block on two drives, or "1+2": on three.  The blocks of before are
 * copied in the background, also after a restart; only then may one drive more be lost, or two.
 * weka_status() reports the progress.  It cannot be taken back.  "2+1" to "10+1": a store of two
 * copies makes parity of blocks that are no longer new, over so many drives and one, and frees
 * their second copies; "2+2" to "10+2": a store of three copies does so with two.
 * Errors:  -EINVAL (another scheme, fewer copies than there are, three copies of a store with
 *          parity, or two of parity without three copies), -EALREADY,
 *          -EPERM (too few drives are in use, or parity is asked for before two copies), -ENODEV (a
 *          drive is dead, missing, or being drained, or blocks lack a copy),
 *          -ENOSPC (no room for the copies, or with such parity), -EFBIG (its roots are too many
 *          to be moved), -EACCES.
 */
WEKA_MUST_CHECK int weka_protect(struct weka_client *client, const char *scheme);

WEKA_MUST_CHECK int weka_remove(struct weka_client *client, const char *path); /* unlink or rmdir */
WEKA_MUST_CHECK int weka_mkdir(struct weka_client *client, const char *path, uint32_t mode);
WEKA_MUST_CHECK int weka_symlink(struct weka_client *client, const char *target, const char *path);

/* Like getxattr(2) and the others: return the bytes of the value or of the names, or -ERANGE when
 * there are more than `size_bytes`.  With 0 they only count. */
WEKA_MUST_CHECK int64_t weka_getxattr(struct weka_client *client, const char *path,
				      const char *name, void *value, size_t size_bytes);
WEKA_MUST_CHECK int64_t weka_listxattr(struct weka_client *client, const char *path, char *names,
				       size_t size_bytes);
WEKA_MUST_CHECK int weka_setxattr(struct weka_client *client, const char *path, const char *name,
				  const void *value, size_t size_bytes, uint32_t flags);
WEKA_MUST_CHECK int weka_removexattr(struct weka_client *client, const char *path,
				     const char *name);

/* Stores the target, NUL-terminated, and returns its length; -ERANGE if it does not fit. */
WEKA_MUST_CHECK int64_t weka_readlink(struct weka_client *client, const char *path, char *target,
				      size_t size_bytes);
WEKA_MUST_CHECK int weka_statfs(struct weka_client *client, struct weka_statfs *out);
WEKA_MUST_CHECK int weka_totals(struct weka_client *client, const char *path,
				struct weka_totals *out);

/* The appliance's counters as JSON text in malloc() memory, NUL-terminated; the caller frees it. */
WEKA_MUST_CHECK int weka_status(struct weka_client *client, char **text);

/*
 * Returns a page of the list of damaged files, likewise; `from` is 0 for the first page, then
 * "next" of the page before; the last page has no "next".  "files" counts the damaged ones,
 * "unreachable_files" those on drives that have failed; "complete" says that the scrub has looked
 * at everything.
 */
WEKA_MUST_CHECK int weka_damaged(struct weka_client *client, uint64_t from, char **text);

/*
 * Returns a page of the last lines of the appliance's log, likewise; `from` is 0 for the oldest
 * line that it keeps, then "next" of the page before.  A page without lines says that
 * all lines have been read; later lines begin at its "next".
 */
WEKA_MUST_CHECK int weka_log(struct weka_client *client, uint64_t from, char **text);

/**
 * weka_list - begin to list a directory
 * weka_list_next - return the next entry, in no order
 * weka_list_end - end the listing; NULL is fine
 *
 * Owns:    *out until weka_list_end(); an entry's name is valid until the next call on *out.
 * Returns: weka_list_next: 1 for an entry, 0 at the end, or -errno.
 */
WEKA_MUST_CHECK int weka_list(struct weka_client *client, const struct weka_ref *dir,
			      struct weka_dir **out);
WEKA_MUST_CHECK int weka_list_next(struct weka_dir *dir, struct weka_entry *entry);
void weka_list_end(struct weka_dir *dir);

#ifdef __cplusplus
}
#endif
#endif
