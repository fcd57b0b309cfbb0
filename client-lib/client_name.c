/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names: lookup, listing, creation, moves and removal; and the encoding of a name.
 *
 * The library resolves nothing: the appliance walks paths and symlinks, in one round trip.
 */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <string.h>

static_assert((int)WEKA_BY_PATH == FAB_BY_PATH && (int)WEKA_BY_DIRHANDLE == FAB_BY_DIRHANDLE,
	      "passed on as they are");
static_assert(WEKA_CREATE == FAB_OPEN_CREATE && WEKA_EXCL == FAB_OPEN_EXCL &&
		      WEKA_TRUNC == FAB_OPEN_TRUNC && WEKA_DIRECTORY == FAB_OPEN_DIRECTORY,
	      "passed on as they are");
static_assert(WEKA_SET_MODE == FAB_SET_MODE && WEKA_SET_ATIME == FAB_SET_ATIME, "as they are");
static_assert(sizeof(struct weka_cookie) == FAB_COOKIE_BYTES, "room");
static_assert(sizeof(struct weka_handle) == FAB_HANDLE_BYTES, "room");

struct weka_ref weka_ref_path(const char *path)
{
	return (struct weka_ref){ .by = WEKA_BY_PATH, .name = path };
}

/* NULL handle: a reference that every call refuses. */
struct weka_ref weka_ref_handle(const struct weka_handle *handle)
{
	if (!handle)
		return (struct weka_ref){ 0 };
	return (struct weka_ref){ .by = WEKA_BY_HANDLE, .handle = *handle };
}

struct weka_ref weka_ref_in(uint64_t dir, const char *name)
{
	return (struct weka_ref){ .by = WEKA_BY_DIR, .dir = dir, .name = name };
}

struct weka_ref weka_ref_at(const struct weka_handle *dir, const char *name)
{
	if (!dir)
		return (struct weka_ref){ 0 };
	return (struct weka_ref){ .by = WEKA_BY_DIRHANDLE, .handle = *dir, .name = name };
}

int client__name(const struct weka_ref *ref, struct fab_name *out)
{
	size_t bytes = 0;

	if (ref->by < WEKA_BY_PATH || ref->by > WEKA_BY_DIRHANDLE ||
	    (ref->flags & ~WEKA_NOFOLLOW) || ref->reserved0)
		return -EINVAL;
	if (ref->by != WEKA_BY_HANDLE) {
		if (!ref->name)
			return -EINVAL;
		bytes = ref->name_bytes ? ref->name_bytes : strnlen(ref->name, WEKA_PATH_MAX + 1);
		if (bytes == 0)
			return -ENOENT; /* as POSIX requires for an empty path */
		if (bytes > WEKA_PATH_MAX)
			return -ENAMETOOLONG;
	}
	ASSERT(bytes <= WEKA_PATH_MAX);
	out->by = (enum fab_by)ref->by;
	out->nofollow = ref->flags & WEKA_NOFOLLOW;
	out->name_bytes = (uint16_t)bytes;
	out->name = ref->name;
	out->dir = ref->dir;
	memcpy(out->handle.bytes, ref->handle.bytes, sizeof(out->handle.bytes));
	return 0;
}

/* Returns the reason of an error of client__name(). */
static const char *name_why(const struct weka_ref *ref, int err)
{
	ASSERT(err < 0);
	if (err == -ENAMETOOLONG)
		return "the name is longer than WEKA_PATH_MAX";
	if (err == -ENOENT)
		return "the name is empty";
	if (ref->by < WEKA_BY_PATH || ref->by > WEKA_BY_DIRHANDLE)
		return "the reference is of no kind (enum weka_by)";
	if (ref->by != WEKA_BY_HANDLE && !ref->name)
		return "the name is NULL";
	if (ref->flags & ~WEKA_NOFOLLOW)
		return "the reference has unknown flags";
	return ref->reserved0 ? "a reserved field is not 0" : strerror(-err);
}

int client__drop_name(struct weka_client *c, struct client_slot *slot, int err,
		      const struct weka_ref *ref)
{
	ASSERT(err < 0);
	(void)client__say(c, err, "%s", name_why(ref, err));
	return client__drop(c, slot, err, NULL);
}

int client__drop_item(struct weka_client *c, struct client_slot *slot, int err, uint32_t i,
		      const struct weka_ref *ref)
{
	ASSERT(err < 0);
	(void)client__say(c, err, "item %u: %s", i, name_why(ref, err));
	return client__drop(c, slot, err, NULL);
}

/* Checks fields that a later version may use. */
static int reserved_check(uint32_t reserved0, const uint64_t reserved[2])
{
	return reserved0 || reserved[0] || reserved[1] ? -EINVAL : 0;
}

int client__create_check(const struct weka_create *create)
{
	if (create->mode & ~07777u || create->flags & ~(WEKA_EXCL | WEKA_MTIME_GIVEN))
		return -EINVAL;
	return create->reserved[0] | create->reserved[1] ? -EINVAL : 0;
}

void client__attr(const struct fab_attr *from, struct weka_attr *to)
{
	*to = (struct weka_attr){
		.ino = from->ino,
		.dir = from->dir,
		.size_bytes = from->size_bytes,
		.allocated_bytes = from->allocated_bytes,
		.mtime_ns = from->mtime_ns,
		.ctime_ns = from->ctime_ns,
		.atime_ns = from->atime_ns,
		.mode = from->mode,
		.uid = from->uid,
		.gid = from->gid,
		.nlink = from->nlink,
		.xattrs = from->xattrs,
	};
	memcpy(to->handle.bytes, from->handle.bytes, sizeof(to->handle.bytes));
}

/* ---- looking ------------------------------------------------------------------------ */

int weka_submit_open(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
		     uint32_t flags, const struct weka_create *create, struct weka_attr *attr)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_REFUSE(c,
		      flags & ~(WEKA_CREATE | WEKA_EXCL | WEKA_TRUNC | WEKA_DIRECTORY | WEKA_HOLD),
		      -EINVAL, "unknown flags");
	CLIENT_REFUSE(c, (flags & WEKA_CREATE) && !create, -EINVAL,
		      "WEKA_CREATE without a struct weka_create");
	CLIENT_REFUSE(c, (flags & WEKA_CREATE) && client__create_check(create), -EINVAL,
		      CLIENT_CREATE_BAD);
	CLIENT_REFUSE(c, (flags & WEKA_HOLD) && !attr, -EINVAL,
		      "WEKA_HOLD without attr, which brings the handle to close");
	err = client__take(c, req, FAB_OPEN, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.open.name);
	if (err)
		return client__drop_name(c, slot, err, ref);
	err = flags & WEKA_HOLD ? client__open_begin(c, slot) : 0;
	if (err)
		return client__drop(c, slot, err, "opens_max files are open");
	slot->out.attr = attr;
	slot->call.args.open.flags = (flags & ~WEKA_HOLD) | (flags & WEKA_HOLD ? FAB_OPEN_HOLD : 0);
	slot->call.args.open.mode = create ? create->mode : 0;
	slot->call.args.open.uid = create ? create->uid : 0;
	slot->call.args.open.gid = create ? create->gid : 0;
	return client__send(c, slot);
}

int client__attr_answer(struct client_slot *slot)
{
	struct fab_attr attr;
	int err = fab_call_attr(&slot->call, 0, &attr);

	ASSERT(slot->req);
	if (!err && slot->out.attr)
		client__attr(&attr, slot->out.attr);
	return err;
}

int weka_submit_stat(struct weka_client *c, struct weka_req *req, struct weka_stat_item *items,
		     uint32_t count, const struct weka_window *window)
{
	uint64_t room = window ? window->size_bytes : FAB_BODY_MAX;
	struct fab_name *names;
	struct client_slot *slot;
	uint32_t i;
	int err;

	CLIENT_NEED(c, items);
	err = client__take(c, req, FAB_STAT, window, &slot);
	if (err)
		return err;
	err = client__take_batch(c, slot, count);
	if (err)
		return client__drop(c, slot, err, NULL);
	if ((uint64_t)count * FAB_STAT_BYTES > room)
		return client__drop(c, slot, -EMSGSIZE, "the window, at 104 bytes an item");
	ASSERT(count == 1 || slot->batch != &slot->one);
	names = &slot->batch->name;
	for (i = 0; i < count; i++) {
		err = reserved_check(items[i].reserved0, items[i].reserved);
		err = err ? err : client__name(&items[i].ref, &names[i]);
		if (err)
			return client__drop_item(c, slot, err, i, &items[i].ref);
	}
	slot->out.stats = items;
	slot->call.args.batch.count = count;
	slot->call.args.batch.names = names;
	return client__send(c, slot);
}

int client__stat_answer(struct client_slot *slot)
{
	struct fab_attr attr;
	uint32_t i;

	ASSERT(slot->call.type == FAB_STAT && slot->req);
	for (i = 0; i < slot->call.args.batch.count; i++) {
		struct weka_stat_item *item = &slot->out.stats[i];

		item->status = fab_call_attr(&slot->call, i, &attr);
		if (!item->status)
			client__attr(&attr, &item->attr);
	}
	return 0;
}

int weka_submit_list(struct weka_client *c, struct weka_req *req, const struct weka_ref *dir,
		     struct weka_cookie *cookie, struct weka_entry *entries, uint32_t count_max,
		     const struct weka_window *window)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, dir);
	CLIENT_NEED(c, cookie);
	CLIENT_NEED(c, entries);
	CLIENT_NEED(c, window);
	CLIENT_REFUSE(c, count_max == 0, -EINVAL, "count_max is 0");
	err = client__take(c, req, FAB_LIST, window, &slot);
	if (err)
		return err;
	err = client__name(dir, &slot->call.args.list.dir);
	if (err)
		return client__drop_name(c, slot, err, dir);
	slot->out.list.cookie = cookie;
	slot->out.list.entries = entries;
	memcpy(slot->call.args.list.cookie, cookie->bytes, sizeof(cookie->bytes));
	slot->call.args.list.count_max = count_max;
	return client__send(c, slot);
}

int client__list_answer(struct client_slot *slot)
{
	struct weka_entry *entries = slot->out.list.entries;
	uint32_t count, at = 0, i;
	struct fab_entry entry;
	uint8_t cookie[FAB_COOKIE_BYTES];
	bool at_end;
	int more, err = fab_call_listed(&slot->call, &count, &at_end, cookie);

	ASSERT(slot->call.type == FAB_LIST && slot->req && slot->lease);
	if (err)
		return err;
	for (i = 0; (more = fab_call_entry(&slot->call, &at, &entry)) > 0; i++) {
		if (i == slot->call.args.list.count_max)
			return -EPROTO;
		ASSERT(entry.name_bytes <= WEKA_NAME_MAX);
		client__attr(&entry.attr, &entries[i].attr);
		entries[i].name = entry.name;
		entries[i].name_bytes = entry.name_bytes;
		entries[i].reserved0 = 0;
	}
	if (more < 0 || i != count)
		return -EPROTO;
	memcpy(slot->out.list.cookie->bytes, cookie, sizeof(cookie));
	slot->req->count = count;
	slot->req->length_bytes = !at_end;
	return 0;
}

static int submit_text(struct weka_client *c, struct weka_req *req, enum fab_type type,
		       const struct weka_ref *ref, const struct weka_window *window)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, window);
	err = client__take(c, req, type, window, &slot);
	if (err)
		return err;
	err = ref ? client__name(ref, &slot->call.args.name.name) : 0;
	if (err)
		return client__drop_name(c, slot, err, ref);
	return client__send(c, slot);
}

int weka_submit_readlink(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			 const struct weka_window *window)
{
	CLIENT_NEED(c, ref);
	return submit_text(c, req, FAB_READLINK, ref, window);
}

int weka_submit_status(struct weka_client *c, struct weka_req *req,
		       const struct weka_window *window)
{
	return submit_text(c, req, FAB_STATUS, NULL, window);
}

int client__submit_page(struct weka_client *c, struct weka_req *req, uint8_t type, uint64_t from,
			const struct weka_window *window)
{
	struct client_slot *slot;
	int err;

	ASSERT(type == FAB_DAMAGED || type == FAB_LOG);
	CLIENT_NEED(c, window);
	err = client__take(c, req, type, window, &slot);
	if (err)
		return err;
	slot->call.args.page.from = from;
	return client__send(c, slot);
}

int client__text_answer(struct client_slot *slot)
{
	ASSERT(slot->req && slot->lease && slot->call.length_bytes <= slot->call.window_bytes);
	slot->req->length_bytes = slot->call.length_bytes;
	slot->req->data = client__window(slot);
	return 0;
}

int weka_submit_statfs(struct weka_client *c, struct weka_req *req, struct weka_statfs *out)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, out);
	err = client__take(c, req, FAB_STATFS, NULL, &slot);
	if (err)
		return err;
	slot->out.statfs = out;
	return client__send(c, slot);
}

int client__statfs_answer(struct client_slot *slot)
{
	struct fab_statfs from;
	int err = fab_call_statfs(&slot->call, &from);

	ASSERT(slot->call.type == FAB_STATFS && slot->out.statfs);
	if (err)
		return err;
	*slot->out.statfs = (struct weka_statfs){
		.total_bytes = from.total_bytes,
		.free_bytes = from.free_bytes,
		.files = from.files,
		.dirs = from.dirs,
		.name_max = from.name_max,
		.shard_count = from.shard_count,
	};
	return 0;
}

int weka_submit_totals(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
		       struct weka_totals *out)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, out);
	err = client__take(c, req, FAB_TOTALS, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.name.name);
	if (err)
		return client__drop_name(c, slot, err, ref);
	slot->out.totals = out;
	return client__send(c, slot);
}

int client__totals_answer(struct client_slot *slot)
{
	struct fab_totals from;
	int err = fab_call_totals(&slot->call, &from);

	ASSERT(slot->call.type == FAB_TOTALS && slot->out.totals);
	if (err)
		return err;
	*slot->out.totals = (struct weka_totals){
		.entries = from.entries,
		.dirs = from.dirs,
		.bytes = from.bytes,
		.allocated_bytes = from.allocated_bytes,
		.settled = from.settled,
	};
	return 0;
}

int weka_submit_ping(struct weka_client *c, struct weka_req *req)
{
	struct client_slot *slot;
	int err = client__take(c, req, FAB_PING, NULL, &slot);

	return err ? err : client__send(c, slot);
}

/* ---- changing ----------------------------------------------------------------------- */

int weka_submit_setattr(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			const struct weka_setattr *set)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, set);
	CLIENT_REFUSE(c,
		      set->mask & ~(WEKA_SET_MODE | WEKA_SET_UID | WEKA_SET_GID | WEKA_SET_MTIME |
				    WEKA_SET_ATIME),
		      -EINVAL, "unknown bits in mask");
	CLIENT_REFUSE(c, (set->mask & WEKA_SET_MODE) && (set->mode & ~07777u), -EINVAL,
		      "mode is more than permission bits");
	CLIENT_REFUSE(c, set->reserved[0] | set->reserved[1], -EINVAL, "a reserved field is not 0");
	err = client__take(c, req, FAB_SETATTR, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.setattr.name);
	if (err)
		return client__drop_name(c, slot, err, ref);
	slot->call.args.setattr.mask = set->mask;
	slot->call.args.setattr.mode = set->mode & 07777u;
	slot->call.args.setattr.uid = set->uid;
	slot->call.args.setattr.gid = set->gid;
	slot->call.args.setattr.mtime_ns = set->mtime_ns;
	slot->call.args.setattr.atime_ns = set->atime_ns;
	return client__send(c, slot);
}

static int submit_two(struct weka_client *c, struct weka_req *req, enum fab_type type,
		      const struct weka_ref *from, const struct weka_ref *to, uint32_t flags)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, from);
	CLIENT_NEED(c, to);
	CLIENT_REFUSE(c,
		      (from->by == WEKA_BY_HANDLE && type != FAB_LINK) || to->by == WEKA_BY_HANDLE,
		      -EINVAL, "a handle, where a name is needed");
	err = client__take(c, req, type, NULL, &slot);
	if (err)
		return err;
	err = client__name(from, &slot->call.args.rename.from);
	if (err)
		return client__drop_name(c, slot, err, from);
	err = client__name(to, &slot->call.args.rename.to);
	if (err)
		return client__drop_name(c, slot, err, to);
	slot->call.args.rename.flags = flags;
	return client__send(c, slot);
}

int weka_submit_rename(struct weka_client *c, struct weka_req *req, const struct weka_ref *from,
		       const struct weka_ref *to, uint32_t flags)
{
	static_assert(WEKA_NOREPLACE == FAB_RENAME_NOREPLACE &&
			      WEKA_EXCHANGE == FAB_RENAME_EXCHANGE,
		      "one set of flags");
	CLIENT_REFUSE(c, flags > WEKA_EXCHANGE, -EINVAL, "unknown flags, or two");
	return submit_two(c, req, FAB_RENAME, from, to, flags);
}

int weka_submit_link(struct weka_client *c, struct weka_req *req, const struct weka_ref *from,
		     const struct weka_ref *to)
{
	return submit_two(c, req, FAB_LINK, from, to, 0);
}

static int submit_name(struct weka_client *c, struct weka_req *req, enum fab_type type,
		       const struct weka_ref *ref)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_REFUSE(c, ref->by == WEKA_BY_HANDLE, -EINVAL, "a handle, where a name is needed");
	err = client__take(c, req, type, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.name.name);
	return err ? client__drop_name(c, slot, err, ref) : client__send(c, slot);
}

int weka_submit_unlink(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref)
{
	return submit_name(c, req, FAB_UNLINK, ref);
}

int weka_submit_unlink_batch(struct weka_client *c, struct weka_req *req,
			     struct weka_unlink_item *items, uint32_t count,
			     const struct weka_window *window)
{
	uint64_t room = window ? window->size_bytes : FAB_BODY_MAX;
	struct fab_name *names;
	struct client_slot *slot;
	uint32_t i;
	int err;

	CLIENT_NEED(c, items);
	err = client__take(c, req, FAB_UNLINK_BATCH, window, &slot);
	if (err)
		return err;
	err = client__take_batch(c, slot, count);
	if (err)
		return client__drop(c, slot, err, NULL);
	if ((uint64_t)count * FAB_STATUS_BYTES > room)
		return client__drop(c, slot, -EMSGSIZE, "the window, at 4 bytes an item");
	ASSERT(count == 1 || slot->batch != &slot->one);
	names = &slot->batch->name;
	for (i = 0; i < count; i++) {
		err = reserved_check(items[i].reserved0, items[i].reserved);
		if (!err)
			err = items[i].ref.by == WEKA_BY_HANDLE
				      ? -EINVAL
				      : client__name(&items[i].ref, &names[i]);
		if (err)
			return client__drop_item(c, slot, err, i, &items[i].ref);
	}
	slot->out.unlinks = items;
	slot->call.args.batch.count = count;
	slot->call.args.batch.names = names;
	return client__send(c, slot);
}

int client__unlink_answer(struct client_slot *slot)
{
	uint32_t i;

	ASSERT(slot->call.type == FAB_UNLINK_BATCH && slot->req);
	for (i = 0; i < slot->call.args.batch.count; i++)
		slot->out.unlinks[i].status = fab_call_status(&slot->call, i);
	return 0;
}

int weka_submit_rmdir(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref)
{
	return submit_name(c, req, FAB_RMDIR, ref);
}

int weka_submit_rmtree(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref)
{
	return submit_name(c, req, FAB_RMTREE, ref);
}

int weka_submit_drain(struct weka_client *c, struct weka_req *req, const char *drive)
{
	const struct weka_ref ref = weka_ref_path(drive);

	return submit_name(c, req, FAB_DRAIN, &ref);
}

int weka_submit_undrain(struct weka_client *c, struct weka_req *req, const char *drive)
{
	const struct weka_ref ref = weka_ref_path(drive);

	return submit_name(c, req, FAB_UNDRAIN, &ref);
}

int client__submit_protect(struct weka_client *c, struct weka_req *req, const char *scheme)
{
	const struct weka_ref ref = weka_ref_path(scheme);

	return submit_name(c, req, FAB_PROTECT, &ref);
}

int weka_submit_mkdir(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
		      const struct weka_create *create, struct weka_attr *attr)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, create);
	CLIENT_REFUSE(c, ref->by == WEKA_BY_HANDLE, -EINVAL, "a handle, where a name is needed");
	CLIENT_REFUSE(c, client__create_check(create), -EINVAL, CLIENT_CREATE_BAD);
	err = client__take(c, req, FAB_MKDIR, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.make.name);
	if (err)
		return client__drop_name(c, slot, err, ref);
	slot->out.attr = attr;
	slot->call.args.make.mode = create->mode;
	slot->call.args.make.uid = create->uid;
	slot->call.args.make.gid = create->gid;
	slot->call.args.make.flags = 0;
	slot->call.args.make.mtime_ns = create->flags & WEKA_MTIME_GIVEN ? create->mtime_ns : 0;
	slot->call.args.make.size_bytes = 0;
	return client__send(c, slot);
}

int weka_submit_symlink(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			const char *target, const struct weka_create *create,
			struct weka_attr *attr)
{
	size_t target_bytes = target ? strnlen(target, WEKA_PATH_MAX + 1) : 0;
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, target);
	CLIENT_NEED(c, create);
	CLIENT_REFUSE(c, ref->by == WEKA_BY_HANDLE, -EINVAL, "a handle, where a name is needed");
	CLIENT_REFUSE(c, create->reserved[0] | create->reserved[1], -EINVAL,
		      "a reserved field of struct weka_create is not 0");
	CLIENT_REFUSE(c, target_bytes == 0, -ENOENT, "the target is empty");
	CLIENT_REFUSE(c, target_bytes > WEKA_PATH_MAX, -ENAMETOOLONG,
		      "the target is longer than WEKA_PATH_MAX");
	err = client__take(c, req, FAB_SYMLINK, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.symlink.name);
	if (err)
		return client__drop_name(c, slot, err, ref);
	slot->out.attr = attr;
	slot->call.args.symlink.target = target;
	slot->call.args.symlink.target_bytes = (uint16_t)target_bytes;
	slot->call.args.symlink.uid = create->uid;
	slot->call.args.symlink.gid = create->gid;
	slot->call.args.symlink.mtime_ns = create->flags & WEKA_MTIME_GIVEN ? create->mtime_ns : 0;
	return client__send(c, slot);
}
