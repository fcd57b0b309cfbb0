/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Waiting calls: each submits, waits, and writes a line about a failure.
 *
 * Their requests are marked `is_sync`: weka_reap() never returns them.  Other requests of the
 * client make progress meanwhile.
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL_READ  (256u << 10) /* a file up to about this size takes one round trip */
#define LEAST_BYTES (64u << 10)
#define PIECE_BYTES (1u << 20)
#define STATUS_MAX  (1u << 20)
#define PUTS_MAX    4u /* of one file, each with a session that breaks during it */

/* ---- common parts --------------------------------------------------------------------- */

int client__fail(struct weka_client *c, int err, const char *what, const char *name)
{
	ASSERT(err < 0 && what[0]);
	name = name ? name : "a handle";
	if (err == c->dead && c->link_error[0]) /* it says why there is no connection */
		return client__say(c, err, "%s %.180s: no connection: %.200s", what, name,
				   c->link_error);
	return client__say(c, err, "%s %.180s: %s", what, name, strerror(-err));
}

int client__fail_said(struct weka_client *c, int err, const char *what, const char *name)
{
	char said[sizeof(c->error)];

	ASSERT(err < 0 && what[0]);
	memcpy(said, c->error, sizeof(said));
	if (strstr(said, strerror(-err)))
		return client__say(c, err, "%s %.180s: %.200s", what, name ? name : "a handle",
				   said);
	return client__say(c, err, "%s %.180s: %s: %.200s", what, name ? name : "a handle",
			   strerror(-err), said);
}

/* A synchronous request is not reaped; its own deadline ends it. */
void client__await(struct weka_client *c, struct weka_req *req)
{
	ASSERT(c->nested > 0 && client__req(req)->state != CLIENT_REQ_IDLE);
	c->in_leaf = true;
	while (client__req(req)->state != CLIENT_REQ_DONE) {
		if (unlikely(c->is_stopped) && client__stop(c, req))
			break;
		(void)!client__wait(c, req, c->pause ? CLIENT_PAUSE_NS : WEKA_FOREVER);
		if (unlikely(c->pause))
			client__pause(c);
	}
	c->in_leaf = false;
	client__req(req)->state = CLIENT_REQ_IDLE;
}

int client__run(struct weka_client *c, struct weka_req *req, int err, const char *what,
		const char *name)
{
	ASSERT(c->nested > 0 && err <= 0);
	if (err)
		return client__fail_said(c, err, what, name);
	client__req(req)->is_sync = true;
	client__await(c, req);
	return req->status ? client__fail(c, req->status, what, name) : 0;
}

int client__lease_some(struct weka_client *c, uint64_t want_bytes, uint64_t least_bytes,
		       struct weka_lease **out)
{
	int err;

	ASSERT(c->nested > 0 && least_bytes > 0 && want_bytes >= least_bytes);
	do {
		err = weka_lease(c, want_bytes, out);
		if (!err || want_bytes == least_bytes)
			return err;
		want_bytes = max_u64(want_bytes / 2, least_bytes);
	} while (err == -EAGAIN || err == -EMSGSIZE);
	return err;
}

static struct weka_window whole(struct weka_lease *lease)
{
	return (struct weka_window){ .lease = lease, .size_bytes = lease->size_bytes };
}

static struct weka_ref unfollowed(const char *path)
{
	struct weka_ref ref = weka_ref_path(path);

	ref.flags = WEKA_NOFOLLOW;
	return ref;
}

/* Returns mode and owner of a new file when the caller gives none. */
static struct weka_create mine(uint32_t mode)
{
	return (struct weka_create){ .mode = mode, .uid = getuid(), .gid = getgid() };
}

/* ---- names ----------------------------------------------------------------------------- */

int weka_open(struct weka_client *c, const char *path, uint32_t flags, uint32_t mode,
	      struct weka_attr *attr)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_create create = mine(mode);
	struct weka_req req = { 0 };
	int err = client__begin(c);

	if (err)
		return err;
	err = weka_submit_open(c, &req, &ref, flags | WEKA_HOLD, &create, attr);
	err = client__run(c, &req, err, "open", path);
	if (err == -EMFILE || err == -ENFILE)
		(void)client__say(c, err,
				  "open %.100s: too many files are open: weka_close_file() those "
				  "that are done with, or raise opens_max, of %s",
				  path,
				  c->opens >= c->opens_max ? "weka_options" : "the appliance");
	client__finish(c);
	return err;
}

/* Opens the file while this call reads it; if no more files can be open, reads without that. */
static int open_here(struct weka_client *c, const struct weka_ref *ref, struct weka_attr *attr,
		     const char *what)
{
	uint32_t flags = WEKA_HOLD;
	int err;

	ASSERT(c->nested > 0);
	do {
		struct weka_req req = { 0 };

		err = weka_submit_open(c, &req, ref, flags, NULL, attr);
		err = client__run(c, &req, err, what, ref->name);
		flags ^= WEKA_HOLD;
	} while (flags == 0 && (err == -EMFILE || err == -ENFILE));
	return err;
}

static int stat_ref(struct weka_client *c, const struct weka_ref *ref, struct weka_attr *attr)
{
	struct weka_stat_item item = { .ref = *ref };
	struct weka_req req = { 0 };
	int err = client__begin(c);

	if (err)
		return err;
	err = client__run(c, &req, weka_submit_stat(c, &req, &item, 1, NULL), "stat", ref->name);
	if (!err && item.status)
		err = client__fail(c, item.status, "stat", ref->name);
	if (!err && attr)
		*attr = item.attr;
	client__finish(c);
	return err;
}

int weka_stat(struct weka_client *c, const char *path, struct weka_attr *attr)
{
	struct weka_ref ref = weka_ref_path(path);

	return stat_ref(c, &ref, attr);
}

int weka_lstat(struct weka_client *c, const char *path, struct weka_attr *attr)
{
	struct weka_ref ref = unfollowed(path);

	return stat_ref(c, &ref, attr);
}

int weka_setattr(struct weka_client *c, const struct weka_ref *ref, const struct weka_setattr *set)
{
	struct weka_req req = { 0 };

	CLIENT_NEED(c, ref);
	return CLIENT_CALL(c, &req, weka_submit_setattr(c, &req, ref, set), "setattr",
			   ref->by == WEKA_BY_HANDLE ? "a handle" : ref->name);
}

int weka_rename(struct weka_client *c, const char *from, const char *to)
{
	struct weka_ref from_ref = unfollowed(from), to_ref = unfollowed(to);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_rename(c, &req, &from_ref, &to_ref, 0), "rename",
			   from);
}

int weka_link(struct weka_client *c, const char *from, const char *to)
{
	struct weka_ref from_ref = unfollowed(from), to_ref = unfollowed(to);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_link(c, &req, &from_ref, &to_ref), "link", to);
}

int weka_unlink(struct weka_client *c, const char *path)
{
	struct weka_ref ref = unfollowed(path);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_unlink(c, &req, &ref), "unlink", path);
}

/* The largest batch that needs no window. */
#define UNLINK_ITEMS 256u

/* Halves the batch while its names do not fit one request; *count is the number sent. */
static int unlink_some(struct weka_client *c, struct weka_unlink_item *items, uint32_t *count)
{
	struct weka_req req = { 0 };

	ASSERT(c->nested > 0 && *count <= UNLINK_ITEMS);
	for (;; *count /= 2) {
		int err = weka_submit_unlink_batch(c, &req, items, *count, NULL);

		err = client__run(c, &req, err, "unlink", "a batch");
		if (err != -EMSGSIZE || *count == 1)
			return err;
	}
}

static int unlink_all(struct weka_client *c, struct weka_unlink_item *items, size_t count)
{
	const uint32_t most = min_u32(UNLINK_ITEMS, c->batch_items_max);
	int err = 0, first = 0;
	size_t i, next = 0;

	ASSERT(c->nested > 0);
	for (i = 0; i < count; i++) {
		if (i == next && !err) {
			uint32_t some = (uint32_t)min_u64(count - i, most);

			err = unlink_some(c, &items[i], &some);
			next += some;
		}
		ASSERT(err || i < next);
		if (err)
			items[i].status = err;
		if (items[i].status && !first)
			first = client__fail(c, items[i].status, "unlink", "a name of a batch");
	}
	return first;
}

int weka_unlink_batch(struct weka_client *c, struct weka_unlink_item *items, size_t count)
{
	CLIENT_REFUSE(c, !items && count > 0, -EINVAL, "items is NULL");
	return CLIENT_BEGUN(c, unlink_all(c, items, count));
}

int weka_rmdir(struct weka_client *c, const char *path)
{
	struct weka_ref ref = unfollowed(path);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_rmdir(c, &req, &ref), "rmdir", path);
}

int weka_rmtree(struct weka_client *c, const char *path)
{
	struct weka_ref ref = unfollowed(path);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_rmtree(c, &req, &ref), "rmtree", path);
}

int weka_drain(struct weka_client *c, const char *drive)
{
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_drain(c, &req, drive), "drain", drive);
}

int weka_undrain(struct weka_client *c, const char *drive)
{
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_undrain(c, &req, drive), "undrain", drive);
}

int weka_protect(struct weka_client *c, const char *scheme)
{
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, client__submit_protect(c, &req, scheme), "protect", scheme);
}

int weka_remove(struct weka_client *c, const char *path)
{
	int err = client__begin(c);

	if (err)
		return err;
	err = weka_unlink(c, path);
	if (err == -EISDIR || err == -EPERM)
		err = weka_rmdir(c, path);
	client__finish(c);
	return err;
}

int weka_mkdir(struct weka_client *c, const char *path, uint32_t mode)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_create create = mine(mode);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_mkdir(c, &req, &ref, &create, NULL), "mkdir", path);
}

int weka_symlink(struct weka_client *c, const char *target, const char *path)
{
	struct weka_ref ref = unfollowed(path);
	struct weka_create create = mine(0777);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_symlink(c, &req, &ref, target, &create, NULL),
			   "symlink", path);
}

static int64_t read_link(struct weka_client *c, const char *path, char *target, size_t size_bytes)
{
	struct weka_ref ref = unfollowed(path);
	struct weka_req req = { 0 };
	struct weka_lease *lease;
	struct weka_window window;
	int err = weka_lease(c, WEKA_PATH_MAX, &lease);

	if (err)
		return client__fail_said(c, err, "readlink", path);
	window = whole(lease);
	err = client__run(c, &req, weka_submit_readlink(c, &req, &ref, &window), "readlink", path);
	if (!err && req.length_bytes >= size_bytes)
		err = client__fail(c, -ERANGE, "readlink", path);
	if (!err) {
		memcpy(target, req.data, req.length_bytes);
		target[req.length_bytes] = 0;
	}
	weka_release(c, lease);
	return err ? err : (int64_t)req.length_bytes;
}

int64_t weka_readlink(struct weka_client *c, const char *path, char *target, size_t size_bytes)
{
	CLIENT_NEED(c, target);
	return CLIENT_BEGUN(c, read_link(c, path, target, size_bytes));
}

int weka_totals(struct weka_client *c, const char *path, struct weka_totals *out)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_totals(c, &req, &ref, out), "totals", path);
}

int weka_statfs(struct weka_client *c, struct weka_statfs *out)
{
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_statfs(c, &req, out), "statfs", "");
}

/* Text from the appliance: its status, or a page of a list. */
static int text_of(struct weka_client *c, const char *what, uint8_t type, uint64_t from,
		   char **text)
{
	struct weka_req req = { 0 };
	struct weka_lease *lease;
	struct weka_window window;
	int err = client__lease_some(c, STATUS_MAX, LEAST_BYTES, &lease);

	if (err)
		return client__fail_said(c, err, what, "");
	ASSERT(lease->size_bytes >= LEAST_BYTES);
	window = whole(lease);
	err = type == FAB_STATUS ? weka_submit_status(c, &req, &window)
				 : client__submit_page(c, &req, type, from, &window);
	err = client__run(c, &req, err, what, "");
	if (!err) {
		*text = strndup(req.data, req.length_bytes);
		if (!*text)
			err = client__fail(c, -ENOMEM, what, "");
	}
	weka_release(c, lease);
	return err;
}

static int text_call(struct weka_client *c, const char *what, uint8_t type, uint64_t from,
		     char **text)
{
	CLIENT_NEED(c, text);
	return CLIENT_BEGUN(c, text_of(c, what, type, from, text));
}

int weka_status(struct weka_client *c, char **text)
{
	return text_call(c, "status", FAB_STATUS, 0, text);
}

int weka_damaged(struct weka_client *c, uint64_t from, char **text)
{
	return text_call(c, "damaged", FAB_DAMAGED, from, text);
}

int weka_log(struct weka_client *c, uint64_t from, char **text)
{
	return text_call(c, "log", FAB_LOG, from, text);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static wk_cold int bulk_failed(struct weka_client *c, const struct client_bulk *b, int err,
			       const char *what, const char *name)
{
	ASSERT(err < 0 && c->nested > 0);
	return b->is_said ? client__fail_said(c, err, what, name)
			  : client__fail(c, err, what, name);
}

/* Many pieces, to or from memory. */
static int64_t bulk(struct weka_client *c, enum client_bulk_op op, const struct weka_handle *handle,
		    char *bytes, size_t length_bytes, uint64_t offset_bytes)
{
	struct client_bulk b = {
		.op = op,
		.offset_bytes = offset_bytes,
		.length_bytes = length_bytes,
		.memory = bytes,
		.fd = -1,
		.piece_bytes = WEKA_WRITE_MAX, /* so that each chunk is atomic */
		.is_whole = op == CLIENT_BULK_WRITE,
	};
	int err;

	CLIENT_NEED(c, handle);
	CLIENT_REFUSE(c, !bytes && length_bytes > 0, -EINVAL, "bytes is NULL");
	CLIENT_REFUSE(c, length_bytes > INT64_MAX, -EINVAL, "a range that no file has");
	CLIENT_REFUSE(c, offset_bytes > (uint64_t)INT64_MAX - length_bytes,
		      op == CLIENT_BULK_READ ? -EINVAL : -EFBIG, "a range that no file has");
	b.handle = *handle;
	err = client__begin(c);
	if (err)
		return err;
	err = client__bulk(c, &b);
	if (err)
		err = bulk_failed(c, &b, err, op == CLIENT_BULK_READ ? "read" : "write", NULL);
	ASSERT(b.done_bytes <= length_bytes);
	client__finish(c);
	return err ? err : (int64_t)b.done_bytes;
}

int64_t weka_pread(struct weka_client *c, const struct weka_handle *handle, void *bytes,
		   size_t length_bytes, uint64_t offset_bytes)
{
	return bulk(c, CLIENT_BULK_READ, handle, bytes, length_bytes, offset_bytes);
}

int64_t weka_pwrite(struct weka_client *c, const struct weka_handle *handle, const void *bytes,
		    size_t length_bytes, uint64_t offset_bytes)
{
	return bulk(c, CLIENT_BULK_WRITE, handle, (char *)(uintptr_t)bytes, length_bytes,
		    offset_bytes);
}

/* Sends the pieces one after the other, since each begins where the one before it ended. */
static int64_t append(struct weka_client *c, const struct weka_handle *handle, const void *bytes,
		      size_t length_bytes)
{
	size_t done = 0;
	int err = 0;

	ASSERT(c->nested > 0);
	while (done < length_bytes && !err) {
		uint32_t piece = (uint32_t)min_u64(length_bytes - done, WEKA_WRITE_MAX);
		struct weka_req req = { 0 };
		struct weka_window window;
		struct weka_lease *lease;

		err = weka_lease(c, weka_window_bytes(1, piece), &lease);
		if (err)
			return client__fail_said(c, err, "append", "to a handle");
		memcpy(lease->data, (const char *)bytes + done, piece);
		window = whole(lease);
		err = weka_submit_write(c, &req, handle, 0, piece, WEKA_APPEND, &window);
		err = client__run(c, &req, err, "append", "to a handle");
		weka_release(c, lease);
		done += piece;
		ASSERT(piece > 0 && done <= length_bytes);
	}
	return err ? err : (int64_t)done;
}

int64_t weka_append(struct weka_client *c, const struct weka_handle *handle, const void *bytes,
		    size_t length_bytes)
{
	CLIENT_NEED(c, handle);
	CLIENT_REFUSE(c, !bytes && length_bytes > 0, -EINVAL, "bytes is NULL");
	CLIENT_REFUSE(c, length_bytes > INT64_MAX, -EINVAL, "a range that no file has");
	return CLIENT_BEGUN(c, append(c, handle, bytes, length_bytes));
}

int weka_truncate(struct weka_client *c, const struct weka_handle *handle, uint64_t size_bytes)
{
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_truncate(c, &req, handle, size_bytes), "truncate",
			   "a handle");
}

int weka_punch(struct weka_client *c, const struct weka_handle *handle, uint64_t offset_bytes,
	       uint64_t length_bytes)
{
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_punch(c, &req, handle, offset_bytes, length_bytes),
			   "punch", "a handle");
}

int64_t weka_seek(struct weka_client *c, const struct weka_handle *handle, uint64_t offset_bytes,
		  uint32_t flags)
{
	struct weka_req req = { 0 };
	int err = CLIENT_CALL(c, &req, weka_submit_seek(c, &req, handle, offset_bytes, flags),
			      "seek", "a handle");

	return err ? err : (int64_t)req.length_bytes;
}

/* ---- whole files ------------------------------------------------------------------------ */

/* Reads one file by name into `lease`: 0, -EMSGSIZE with its size in item->got_bytes, or -errno. */
static int read_small(struct weka_client *c, const struct weka_ref *ref, struct weka_lease *lease,
		      struct weka_read_item *item)
{
	struct weka_window window = whole(lease);
	struct weka_req req = { 0 };
	int err;

	ASSERT(c->nested > 0 && lease->size_bytes > 0);
	*item = (struct weka_read_item){ .ref = *ref, .length_bytes = WEKA_TO_END };
	err = client__run(c, &req, weka_submit_read_batch(c, &req, item, 1, &window), "read",
			  ref->name);
	return err ? err : item->status;
}

/* Reads a file larger than a window; its size may change during that. */
static int read_large(struct weka_client *c, const char *path, char **bytes, size_t *size_bytes)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_attr attr;
	int64_t got = 0;
	int err = open_here(c, &ref, &attr, "read");

	ASSERT(c->nested > 0);
	if (err)
		return err;
	*bytes = attr.size_bytes < SIZE_MAX ? malloc(attr.size_bytes + 1) : NULL;
	if (*bytes)
		got = weka_pread(c, &attr.handle, *bytes, attr.size_bytes, 0);
	else
		err = client__fail(c, attr.size_bytes < SIZE_MAX ? -ENOMEM : -EFBIG, "read", path);
	(void)weka_close_file(c, &attr.handle);
	if (got < 0) {
		free(*bytes);
		return (int)got;
	}
	ASSERT(err || (uint64_t)got <= attr.size_bytes);
	*size_bytes = (size_t)got;
	return err;
}

static int read_file(struct weka_client *c, const char *path, void **bytes, size_t *size_bytes)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_read_item item;
	struct weka_lease *lease;
	char *copy = NULL;
	int err = client__lease_some(c, SMALL_READ, LEAST_BYTES, &lease);

	if (err)
		return client__fail_said(c, err, "read", path);
	err = read_small(c, &ref, lease, &item);
	if (!err) {
		*size_bytes = item.got_bytes;
		copy = malloc(item.got_bytes + 1);
		if (copy && item.got_bytes > 0)
			memcpy(copy, item.data, item.got_bytes);
		err = copy ? 0 : -ENOMEM;
	}
	weka_release(c, lease);
	if (err == -EMSGSIZE)
		err = read_large(c, path, &copy, size_bytes);
	else if (err)
		client__fail(c, err, "read", path);
	if (err)
		return err;
	ASSERT(copy);
	copy[*size_bytes] = 0;
	*bytes = copy;
	return 0;
}

int weka_read_file(struct weka_client *c, const char *path, void **bytes, size_t *size_bytes)
{
	CLIENT_NEED(c, bytes);
	CLIENT_NEED(c, size_bytes);
	return CLIENT_BEGUN(c, read_file(c, path, bytes, size_bytes));
}

/* Puts one file of at most 4 MiB, from memory. */
static int put_small(struct weka_client *c, const struct weka_ref *ref, const void *bytes,
		     uint32_t size_bytes, const struct weka_create *create)
{
	struct weka_put_item item = { .ref = *ref, .create = *create, .size_bytes = size_bytes };
	struct weka_req req = { 0 };
	struct weka_window window;
	struct weka_lease *lease;
	int err = weka_lease(c, weka_window_bytes(1, size_bytes), &lease);

	if (err)
		return client__fail_said(c, err, "put", ref->name);
	ASSERT(lease->size_bytes >= size_bytes);
	if (size_bytes > 0)
		memcpy(lease->data, bytes, size_bytes);
	window = whole(lease);
	err = client__run(c, &req, weka_submit_put(c, &req, &item, 1, &window), "put", ref->name);
	if (!err && item.status)
		err = client__fail(c, item.status, "put", ref->name);
	weka_release(c, lease);
	return err;
}

/* A hole found in a file that became shorter is not a hole. */
static int still_has(int fd, uint64_t size_bytes)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	return S_ISREG(st.st_mode) && (uint64_t)st.st_size < size_bytes ? -ENODATA : 0;
}

/* Puts any file, from memory or from a descriptor: begin, pieces, commit.  *begun: the appliance
 * has accepted the beginning. */
static int put_pieces(struct weka_client *c, const struct weka_ref *ref, const void *bytes, int fd,
		      uint64_t size_bytes, const struct weka_create *create, bool *begun)
{
	struct client_bulk b = {
		.op = CLIENT_BULK_WRITE,
		.length_bytes = size_bytes,
		.memory = (char *)(uintptr_t)bytes,
		.fd = fd,
		.piece_bytes = PIECE_BYTES,
	};
	const off_t at = bytes ? 0 : lseek(fd, 0, SEEK_CUR); /* seeking holes moves it */
	struct weka_req req = { 0 };
	struct weka_attr attr;
	struct stat st;
	int err = weka_submit_put_begin(c, &req, ref, create, size_bytes, &attr);

	ASSERT(c->nested > 0);
	err = client__run(c, &req, err, "put", ref->name);
	*begun = !err;
	if (err)
		return err;
	b.handle = attr.handle;
	b.is_sparse = !bytes && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	err = client__bulk(c, &b);
	if (!bytes && at >= 0)
		(void)lseek(fd, at, SEEK_SET);
	if (!err && !bytes)
		err = still_has(fd, size_bytes);
	if (!err)
		err = client__run(c, &req,
				  weka_submit_put_commit(c, &req, &attr.handle, size_bytes), "put",
				  ref->name);
	if (!err)
		return 0;
	/* The error is known; the abort only frees the put, as a broken session has done. */
	req.timeout_ns = NS_PER_S;
	if (err != -ECONNRESET)
		(void)!client__run(c, &req, weka_submit_put_abort(c, &req, &attr.handle), "put",
				   ref->name);
	return client__fail(c, err, "put", ref->name);
}

/* A put in pieces ends with its session (-ESTALE).  All bytes are still here, so it begins again,
 * as requests that are sent again do, unless that happens PUTS_MAX times in a row. */
static int put_large(struct weka_client *c, const struct weka_ref *ref, const void *bytes, int fd,
		     uint64_t size_bytes, const struct weka_create *create)
{
	uint32_t puts = 0;
	bool begun;
	int err;

	do {
		err = put_pieces(c, ref, bytes, fd, size_bytes, create, &begun);
	} while (err == -ESTALE && begun && ++puts < PUTS_MAX);
	if (!err && puts > 0)
		c->error[0] = '\0'; /* it was about an earlier try */
	return err;
}

int weka_write_file(struct weka_client *c, const char *path, const void *bytes, size_t size_bytes,
		    const struct weka_create *create)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_create by_me = mine(0644);
	int err;

	CLIENT_REFUSE(c, !bytes && size_bytes > 0, -EINVAL, "bytes is NULL");
	err = client__begin(c);
	if (err)
		return err;
	if (!create)
		create = &by_me;
	if (size_bytes <= WEKA_WRITE_MAX)
		err = put_small(c, &ref, bytes, (uint32_t)size_bytes, create);
	else
		err = put_large(c, &ref, bytes, -1, size_bytes, create);
	client__finish(c);
	return err;
}

int weka_put_fd(struct weka_client *c, const struct weka_ref *ref, int fd, uint64_t size_bytes,
		const struct weka_create *create)
{
	struct weka_create by_me = mine(0644);

	CLIENT_NEED(c, ref);
	return CLIENT_BEGUN(c, put_large(c, ref, NULL, fd, size_bytes, create ? create : &by_me));
}

static int64_t get_fd(struct weka_client *c, const struct weka_ref *ref, int fd)
{
	struct client_bulk b = {
		.op = CLIENT_BULK_READ,
		.length_bytes = WEKA_TO_END,
		.fd = fd,
		.piece_bytes = PIECE_BYTES,
	};
	const char *name = ref->by == WEKA_BY_HANDLE ? "a handle" : ref->name;
	struct weka_attr attr = { .handle = ref->handle };
	int err = ref->by == WEKA_BY_HANDLE ? stat_ref(c, ref, &attr)
					    : open_here(c, ref, &attr, "get");

	ASSERT(c->nested > 0);
	if (err)
		return err;
	b.handle = attr.handle;
	b.is_sparse = client__keeps_holes(fd, &attr);
	if (b.is_sparse)
		b.length_bytes = attr.size_bytes;
	err = client__bulk(c, &b);
	if (!err && b.length_bytes != WEKA_TO_END && ftruncate(fd, (off_t)b.done_bytes) != 0) {
		err = -errno; /* a hole at the end */
		b.is_said = false;
	}
	if (ref->by != WEKA_BY_HANDLE)
		(void)weka_close_file(c, &attr.handle);
	return err ? bulk_failed(c, &b, err, "get", name) : (int64_t)b.done_bytes;
}

int64_t weka_get_fd(struct weka_client *c, const struct weka_ref *ref, int fd)
{
	CLIENT_NEED(c, ref);
	return CLIENT_BEGUN(c, get_fd(c, ref, fd));
}
