/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl_attrs.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define PREFIX   "user."
#define LIST_MAX (1u << 16) /* bytes of names, Linux's XATTR_LIST_MAX */

static void leave(struct ctl_attrs *a, const char *name, int why)
{
	const bool first = a->left++ == 0, worse = why != ENOTSUP && !a->partial;

	a->partial |= why != ENOTSUP;
	if (first || worse) { /* errors are reported before limitations */
		free(a->refused);
		a->refused = ctl_need(strdup(name));
		a->why = why;
	}
}

static void *copy_of(const void *bytes, size_t size_bytes)
{
	void *copy = ctl_need(malloc(size_bytes + 1));

	memcpy(copy, bytes, size_bytes);
	return copy;
}

static void add(struct ctl_attrs *a, const char *name, const void *value, size_t size_bytes)
{
	if (a->count == a->room) {
		a->room = a->room ? 2 * a->room : 4;
		a->attr = ctl_need(realloc(a->attr, a->room * sizeof(*a->attr)));
	}
	a->attr[a->count++] = (struct ctl_attr){
		.name = copy_of(name, strlen(name) + 1),
		.value = copy_of(value, size_bytes),
		.size_bytes = size_bytes,
	};
}

void ctl_attrs_clear(struct ctl_attrs *a)
{
	for (uint32_t i = 0; i < a->count; i++) {
		free(a->attr[i].name);
		free(a->attr[i].value);
	}
	free(a->attr);
	free(a->refused);
	*a = (struct ctl_attrs){ 0 };
}

/* ---- here ------------------------------------------------------------------------------- */

/* A local file: by descriptor if fd >= 0, else by a path of which the last name is not followed. */
struct here {
	int fd;
	const char *path;
};

static ssize_t list_here(const struct here *h, char *names, size_t size_bytes)
{
	return h->fd >= 0 ? flistxattr(h->fd, names, size_bytes)
			  : llistxattr(h->path, names, size_bytes);
}

/* An attribute that went between the list and here is no error. */
static void load_one(struct ctl_attrs *a, const struct here *h, const char *name, void *room)
{
	ssize_t got;

	if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0) {
		leave(a, name, ENOTSUP);
		return;
	}
	got = h->fd >= 0 ? fgetxattr(h->fd, name, room, WEKA_XATTR_MAX)
			 : lgetxattr(h->path, name, room, WEKA_XATTR_MAX);
	if (got >= 0)
		add(a, name, room, (size_t)got);
	else if (errno != ENODATA)
		leave(a, name, errno);
}

static void load(struct ctl_attrs *a, const struct here *h)
{
	ssize_t bytes = list_here(h, NULL, 0);
	char *names, *room;

	*a = (struct ctl_attrs){ 0 };
	if (bytes == 0 || (bytes < 0 && errno == ENOTSUP))
		return;
	names = ctl_need(malloc(LIST_MAX));
	room = ctl_need(malloc(WEKA_XATTR_MAX));
	bytes = list_here(h, names, LIST_MAX);
	if (bytes < 0)
		leave(a, "its attributes", errno);
	for (ssize_t at = 0; at < bytes; at += (ssize_t)strlen(names + at) + 1)
		load_one(a, h, names + at, room);
	free(room);
	free(names);
}

void ctl_attrs_load(struct ctl_attrs *a, const char *local)
{
	load(a, &(struct here){ .fd = -1, .path = local });
}

void ctl_attrs_load_fd(struct ctl_attrs *a, int fd)
{
	load(a, &(struct here){ .fd = fd });
}

void ctl_attrs_load_at(struct ctl_attrs *a, int dir_fd, const char *name)
{
	char path[sizeof("/proc/self/fd//") + 10 + WEKA_NAME_MAX];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
	ctl_attrs_load(a, path);
}

void ctl_attrs_store(struct ctl_attrs *a, int fd)
{
	for (uint32_t i = 0; i < a->count; i++) {
		const struct ctl_attr *x = &a->attr[i];

		if (fsetxattr(fd, x->name, x->value, x->size_bytes, 0) != 0)
			leave(a, x->name, errno);
	}
}

/* ---- there ------------------------------------------------------------------------------ */

/* Returns the bytes that the window has got, or -errno. */
static int64_t get(struct ctl *c, const struct weka_ref *ref, const char *name,
		   struct weka_lease *lease)
{
	struct weka_window window = { .lease = lease, .size_bytes = lease->size_bytes };
	struct ctl_req r = { 0 };
	int err = name ? weka_submit_getxattr(c->client, &r.req, ref, name, &window)
		       : weka_submit_listxattr(c->client, &r.req, ref, &window);

	err = ctl_req_run(c, &r, err);
	return err ? err : (int64_t)r.req.length_bytes;
}

int ctl_attrs_fetch(struct ctl_attrs *a, struct ctl *c, const struct weka_ref *ref)
{
	struct weka_lease *lease;
	char *names;
	int64_t bytes, got = weka_lease(c->client, WEKA_XATTR_MAX, &lease);

	*a = (struct ctl_attrs){ 0 };
	if (got)
		return (int)got;
	bytes = get(c, ref, NULL, lease);
	names = copy_of(lease->data, bytes > 0 ? (size_t)bytes : 0);
	names[bytes > 0 ? bytes : 0] = 0; /* a peer's: it may not end */
	for (int64_t at = 0; at < bytes; at += (int64_t)strlen(names + at) + 1) {
		if (strncmp(names + at, PREFIX, sizeof(PREFIX) - 1) != 0) {
			leave(a, names + at, EPROTO); /* other namespaces control access */
			continue;
		}
		got = get(c, ref, names + at, lease);
		if (got >= 0)
			add(a, names + at, lease->data, (size_t)got);
		else if (got != -ENODATA) /* which was removed in between */
			break;
		got = 0;
	}
	free(names);
	weka_release(c->client, lease);
	return bytes < 0 ? (int)bytes : (int)got;
}

static const struct ctl_attr *find(const struct ctl_attrs *a, const char *name)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (!strcmp(a->attr[i].name, name))
			return &a->attr[i];
	return NULL;
}

static bool is_there(const struct ctl_attrs *there, const struct ctl_attr *x)
{
	const struct ctl_attr *old = find(there, x->name);

	return old && old->size_bytes == x->size_bytes &&
	       memcmp(old->value, x->value, x->size_bytes) == 0;
}

int ctl_attrs_send(const struct ctl_attrs *a, struct ctl *c, const struct weka_ref *ref,
		   uint32_t count)
{
	struct ctl_attrs there = { 0 };
	struct ctl_req r = { 0 };
	int err = count ? ctl_attrs_fetch(&there, c, ref) : 0;

	for (uint32_t i = 0; i < there.count && !err && !a->partial; i++)
		if (!find(a, there.attr[i].name))
			err = ctl_req_run(c, &r,
					  weka_submit_removexattr(c->client, &r.req, ref,
								  there.attr[i].name));
	for (uint32_t i = 0; i < a->count && !err; i++)
		if (!is_there(&there, &a->attr[i]))
			err = ctl_req_run(c, &r,
					  weka_submit_setxattr(c->client, &r.req, ref,
							       a->attr[i].name, a->attr[i].value,
							       a->attr[i].size_bytes, 0));
	ctl_attrs_clear(&there);
	return err;
}

/* ---- people ------------------------------------------------------------------------------- */

void ctl_attrs_tell(const struct ctl_attrs *a, struct ctl_tally *t, struct ctl_progress *p,
		    const char *path, bool is_error)
{
	static const char more[] = "others like it are counted, and not named";

	if (a->left && is_error && t->attrs_failed++ == 0)
		ctl_tally_error(t, p, "%s: attribute %s: %s (%s)", path, a->refused,
				strerror(a->why), more);
	else if (a->left && !is_error && t->attrs_left == 0)
		ctl_tally_note(
			p, "%s: attribute %s stays here: the appliance has those of \"%s\" (%s)",
			path, a->refused, PREFIX, more);
	t->attrs_left += a->left;
	t->attrs += is_error ? a->count - min_u32(a->left, a->count) : a->count;
}
