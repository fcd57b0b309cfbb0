/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client - calls that wait.  Part of weka_client.h, which is to be included.
 *
 * For tools and first steps.  Each submits, waits, and returns what came: 0 or more, or -errno
 * with a line in weka_error().  Requests of the same client that are in flight go on meanwhile,
 * and stay to be reaped.  Paths are followed through symlinks, but for the last name of
 * lstat, readlink, unlink, rename, link and symlink.  They lease what they need from the pool for
 * as long as they run: 64 KiB, and a write, being atomic, all of its bytes up to 4 MiB.  So all of
 * them can also answer -EAGAIN (no such lease now, or requests_max are in flight) and -EMSGSIZE
 * (the pool is smaller than that).
 */
#ifndef WEKA_SYNC_H
#define WEKA_SYNC_H

#include "weka_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As weka_submit_open() with WEKA_HOLD, and a new file's mode: a regular file is open until
 * weka_close_file(client, &attr->handle).  `attr` may be NULL for weka_stat only. */
WEKA_MUST_CHECK int weka_open(struct weka_client *client, const char *path, uint32_t flags,
			      uint32_t mode, struct weka_attr *attr);

/* Return the bytes read (less than asked: the file ends) or written (all), or -errno.  A write
 * over more than a chunk that fails may have been done in part. */
WEKA_MUST_CHECK int64_t weka_pread(struct weka_client *client, const struct weka_handle *handle,
				   void *bytes, size_t length_bytes, uint64_t offset_bytes);
WEKA_MUST_CHECK int64_t weka_pwrite(struct weka_client *client, const struct weka_handle *handle,
				    const void *bytes, size_t length_bytes, uint64_t offset_bytes);
WEKA_MUST_CHECK int64_t weka_append(struct weka_client *client, const struct weka_handle *handle,
				    const void *bytes, size_t length_bytes);
WEKA_MUST_CHECK int weka_truncate(struct weka_client *client, const struct weka_handle *handle,
				  uint64_t size_bytes);

/* As weka_submit_punch(); and as weka_submit_seek(): the offset, or -errno. */
WEKA_MUST_CHECK int weka_punch(struct weka_client *client, const struct weka_handle *handle,
			       uint64_t offset_bytes, uint64_t length_bytes);
WEKA_MUST_CHECK int64_t weka_seek(struct weka_client *client, const struct weka_handle *handle,
				  uint64_t offset_bytes, uint32_t flags);

/* A whole file into memory of malloc(), which the caller frees; a NUL stands behind it. */
WEKA_MUST_CHECK int weka_read_file(struct weka_client *client, const char *path, void **bytes,
				   size_t *size_bytes);

/* A whole file, atomically at any size; `create` NULL: mode 0644, now, the process's owner. */
WEKA_MUST_CHECK int weka_write_file(struct weka_client *client, const char *path, const void *bytes,
				    size_t size_bytes, const struct weka_create *create);

/**
 * weka_put_fd - write a whole file from a descriptor, atomically, several pieces in flight
 * weka_get_fd - write a whole file into one
 *
 * put_fd reads `size_bytes` from the descriptor's start (pread) and answers -ENODATA when there are
 * fewer, also when a file became shorter meanwhile.  get_fd writes with pwrite from offset 0 and
 * returns the file's size.  Holes stay holes: put_fd leaves out those of a regular file, get_fd
 * those of the appliance's file if the descriptor is of an empty regular file.
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
/* As link(2): a symlink at `from` gets the name itself. */
WEKA_MUST_CHECK int weka_link(struct weka_client *client, const char *from, const char *to);
WEKA_MUST_CHECK int weka_unlink(struct weka_client *client, const char *path);
/* Any number of names, 256 a round trip: 0 when all are gone, else the first item's status that is
 * not 0.  Each item has its own; of what was not asked any more it is the round trip's error. */
WEKA_MUST_CHECK int weka_unlink_batch(struct weka_client *client, struct weka_unlink_item *items,
				      size_t count);
WEKA_MUST_CHECK int weka_rmdir(struct weka_client *client, const char *path);
WEKA_MUST_CHECK int weka_rmtree(struct weka_client *client, const char *path);
WEKA_MUST_CHECK int weka_drain(struct weka_client *client, const char *drive);
WEKA_MUST_CHECK int weka_undrain(struct weka_client *client, const char *drive);
WEKA_MUST_CHECK int weka_remove(struct weka_client *client, const char *path); /* either */
WEKA_MUST_CHECK int weka_mkdir(struct weka_client *client, const char *path, uint32_t mode);
WEKA_MUST_CHECK int weka_symlink(struct weka_client *client, const char *target, const char *path);

/* As getxattr(2) and its like: bytes of the value, or of the names; of no more than `size_bytes`,
 * else -ERANGE; with 0 they are counted only. */
WEKA_MUST_CHECK int64_t weka_getxattr(struct weka_client *client, const char *path,
				      const char *name, void *value, size_t size_bytes);
WEKA_MUST_CHECK int64_t weka_listxattr(struct weka_client *client, const char *path, char *names,
				       size_t size_bytes);
WEKA_MUST_CHECK int weka_setxattr(struct weka_client *client, const char *path, const char *name,
				  const void *value, size_t size_bytes, uint32_t flags);
WEKA_MUST_CHECK int weka_removexattr(struct weka_client *client, const char *path,
				     const char *name);

/* The target, NUL-terminated, and its length; -ERANGE when `size_bytes` cannot hold both. */
WEKA_MUST_CHECK int64_t weka_readlink(struct weka_client *client, const char *path, char *target,
				      size_t size_bytes);
WEKA_MUST_CHECK int weka_statfs(struct weka_client *client, struct weka_statfs *out);
WEKA_MUST_CHECK int weka_totals(struct weka_client *client, const char *path,
				struct weka_totals *out);

/* The appliance's counters as JSON text of malloc(), NUL-terminated; the caller frees it. */
WEKA_MUST_CHECK int weka_status(struct weka_client *client, char **text);

/*
 * Returns a page of the list of damaged files, likewise; `from` is 0 for the first page, then
 * "next" of the page before; the last page has no "next".  "files" counts the damaged ones,
 * "unreachable_files" those on drives that have failed; "complete" says that the scrub has looked
 * at everything.
 */
WEKA_MUST_CHECK int weka_damaged(struct weka_client *client, uint64_t from, char **text);

/**
 * weka_list - begin to list a directory
 * weka_list_next - the next entry, in no order
 * weka_list_end - the listing is over; NULL is fine
 *
 * Owns:    *out until weka_list_end(); an entry's name is valid until the next call on it.
 * Returns: weka_list_next: 1 an entry, 0 no more, -errno.
 */
WEKA_MUST_CHECK int weka_list(struct weka_client *client, const struct weka_ref *dir,
			      struct weka_dir **out);
WEKA_MUST_CHECK int weka_list_next(struct weka_dir *dir, struct weka_entry *entry);
void weka_list_end(struct weka_dir *dir);

#ifdef __cplusplus
}
#endif
#endif
