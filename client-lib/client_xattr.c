/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extended attributes.  A value that is set travels in the request's body, and one that is asked
 * for lands in a window; the blocking calls lease that, and copy.
 */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <string.h>

static_assert(WEKA_XATTR_CREATE == FAB_XATTR_CREATE && WEKA_XATTR_REPLACE == FAB_XATTR_REPLACE,
	      "passed on as they are");

/* As Linux has it: -ERANGE. */
static int submit(struct weka_client *c, struct weka_req *req, enum fab_type type,
		  const struct weka_ref *ref, const char *name, const struct weka_window *window,
		  struct client_slot **out)
{
	size_t bytes = name ? strnlen(name, WEKA_NAME_MAX + 1) : 0;
	int err;

	if (bytes == 0 || bytes > WEKA_NAME_MAX)
		return -ERANGE;
	err = client__take(c, req, type, window, out);
	if (err)
		return err;
	err = client__name(ref, &(*out)->call.args.xattr.name);
	if (err)
		return client__drop(c, *out, err);
	(*out)->call.args.xattr.xattr = name;
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
	int err = window ? submit(c, req, FAB_XATTR_GET, ref, name, window, &slot) : -EINVAL;

	return err ? err : client__send(c, slot);
}

int weka_submit_setxattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			 const char *name, const void *value, size_t size_bytes, uint32_t flags)
{
	struct client_slot *slot;
	int err;

	if (flags > WEKA_XATTR_REPLACE || (!value && size_bytes)) /* one flag at most */
		return -EINVAL;
	if (size_bytes > WEKA_XATTR_MAX)
		return -E2BIG;
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

	if (!window)
		return -EINVAL;
	err = client__take(c, req, FAB_XATTR_LIST, window, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.name.name);
	return err ? client__drop(c, slot, err) : client__send(c, slot);
}

int weka_submit_removexattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			    const char *name)
{
	struct client_slot *slot;
	int err = submit(c, req, FAB_XATTR_DEL, ref, name, NULL, &slot);

	return err ? err : client__send(c, slot);
}

/* ---- one at a time ---------------------------------------------------------------------- */

/* What is in the lease goes into out[0 .. size_bytes), or, without room at all, is only measured.
 */
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
	int err = weka_lease(c, room, &lease);

	if (err)
		return client__fail(c, err, what, path);
	window = (struct weka_window){ .lease = lease, .size_bytes = lease->size_bytes };
	err = name ? weka_submit_getxattr(c, &req, &ref, name, &window)
		   : weka_submit_listxattr(c, &req, &ref, &window);
	err = client__run(c, &req, err, what, path);
	got = err ? err : take_out(c, &req, out, size_bytes, what, path);
	weka_release(c, lease);
	return got;
}

int64_t weka_getxattr(struct weka_client *c, const char *path, const char *name, void *value,
		      size_t size_bytes)
{
	return name ? look(c, path, name, value, size_bytes, "getxattr") : -EINVAL;
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
	int err = weka_submit_setxattr(c, &req, &ref, name, value, size_bytes, flags);

	return client__run(c, &req, err, "setxattr", path);
}

int weka_removexattr(struct weka_client *c, const char *path, const char *name)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_req req = { 0 };

	return client__run(c, &req, weka_submit_removexattr(c, &req, &ref, name), "removexattr",
			   path);
}
