/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extended attributes.  A value to set travels in the request's body; a value that is read lands in
 * a window.  The waiting calls lease the window and copy.
 */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <string.h>

static_assert(WEKA_XATTR_CREATE == FAB_XATTR_CREATE && WEKA_XATTR_REPLACE == FAB_XATTR_REPLACE,
	      "passed on as they are");

/* -ERANGE, as on Linux. */
static int submit(struct weka_client *c, struct weka_req *req, enum fab_type type,
		  const struct weka_ref *ref, const char *name, const struct weka_window *window,
		  struct client_slot **out)
{
	size_t bytes = name ? strnlen(name, WEKA_NAME_MAX + 1) : 0;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, name);
	CLIENT_REFUSE(c, bytes == 0 || bytes > WEKA_NAME_MAX, -ERANGE,
		      "the attribute's name has 1 to WEKA_NAME_MAX bytes");
	err = client__take(c, req, type, window, out);
	if (err)
		return err;
	err = client__name(ref, &(*out)->call.args.xattr.name);
	if (err)
		return client__drop_name(c, *out, err, ref);
	(*out)->call.args.xattr.xattr = name;
	ASSERT(bytes > 0 && bytes <= WEKA_NAME_MAX);
	(*out)->call.args.xattr.xattr_bytes = (uint16_t)bytes;
	(*out)->call.args.xattr.value = NULL;
	(*out)->call.args.xattr.value_bytes = 0;
	(*out)->call.args.xattr.flags = 0;
	return 0;
}

int weka_submit_getxattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			 const char *name, const struct weka_window *window)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, window);
	err = submit(c, req, FAB_XATTR_GET, ref, name, window, &slot);
	return err ? err : client__send(c, slot);
}

int weka_submit_setxattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			 const char *name, const void *value, size_t size_bytes, uint32_t flags)
{
	struct client_slot *slot;
	int err;

	CLIENT_REFUSE(c, flags > WEKA_XATTR_REPLACE, -EINVAL, "unknown flags, or two");
	CLIENT_REFUSE(c, !value && size_bytes, -EINVAL, "value is NULL");
	CLIENT_REFUSE(c, size_bytes > WEKA_XATTR_MAX, -E2BIG,
		      "the value is larger than WEKA_XATTR_MAX");
	err = submit(c, req, FAB_XATTR_SET, ref, name, NULL, &slot);
	if (err)
		return err;
	slot->call.args.xattr.value = value;
	slot->call.args.xattr.value_bytes = (uint32_t)size_bytes;
	slot->call.args.xattr.flags = flags;
	return client__send(c, slot);
}

int weka_submit_listxattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			  const struct weka_window *window)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, window);
	err = client__take(c, req, FAB_XATTR_LIST, window, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.name.name);
	return err ? client__drop_name(c, slot, err, ref) : client__send(c, slot);
}

int weka_submit_removexattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			    const char *name)
{
	struct client_slot *slot;
	int err = submit(c, req, FAB_XATTR_DEL, ref, name, NULL, &slot);

	return err ? err : client__send(c, slot);
}

/* ---- one at a time ---------------------------------------------------------------------- */

/* Copies the lease's bytes to out[0 .. size_bytes); with no room at all it only counts them. */
static int64_t take_out(struct weka_client *c, const struct weka_req *req, void *out,
			size_t size_bytes, const char *what, const char *path)
{
	if (size_bytes == 0)
		return (int64_t)req->length_bytes;
	if (req->length_bytes > size_bytes)
		return client__fail(c, -ERANGE, what, path);
	memcpy(out, req->data, req->length_bytes);
	return (int64_t)req->length_bytes;
}

/* `name` NULL: the list of names. */
static int64_t look(struct weka_client *c, const char *path, const char *name, void *out,
		    size_t size_bytes, const char *what)
{
	const uint64_t room = size_bytes ? min_u64(size_bytes, WEKA_XATTR_MAX) : WEKA_XATTR_MAX;
	struct weka_ref ref = weka_ref_path(path);
	struct weka_req req = { 0 };
	struct weka_window window;
	struct weka_lease *lease;
	int64_t got;
	int err;

	CLIENT_REFUSE(c, !path || (!out && size_bytes > 0), -EINVAL,
		      "the path is NULL, or where the bytes go");
	err = client__begin(c);
	if (err)
		return err;
	err = weka_lease(c, room, &lease);
	if (err) {
		err = client__fail_said(c, err, what, path);
		client__finish(c);
		return err;
	}
	ASSERT(lease->size_bytes >= room);
	window = (struct weka_window){ .lease = lease, .size_bytes = lease->size_bytes };
	err = name ? weka_submit_getxattr(c, &req, &ref, name, &window)
		   : weka_submit_listxattr(c, &req, &ref, &window);
	err = client__run(c, &req, err, what, path);
	got = err ? err : take_out(c, &req, out, size_bytes, what, path);
	weka_release(c, lease);
	client__finish(c);
	return got;
}

int64_t weka_getxattr(struct weka_client *c, const char *path, const char *name, void *value,
		      size_t size_bytes)
{
	CLIENT_NEED(c, name);
	return look(c, path, name, value, size_bytes, "getxattr");
}

int64_t weka_listxattr(struct weka_client *c, const char *path, char *names, size_t size_bytes)
{
	return look(c, path, NULL, names, size_bytes, "listxattr");
}

int weka_setxattr(struct weka_client *c, const char *path, const char *name, const void *value,
		  size_t size_bytes, uint32_t flags)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req,
			   weka_submit_setxattr(c, &req, &ref, name, value, size_bytes, flags),
			   "setxattr", path);
}

int weka_removexattr(struct weka_client *c, const char *path, const char *name)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_req req = { 0 };

	return CLIENT_CALL(c, &req, weka_submit_removexattr(c, &req, &ref, name), "removexattr",
			   path);
}
