/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Checks and decodes a request's body: PROTOCOL.md 5.
 *
 *   | fixed part, by type | items of a batch | names, anywhere in here |
 *   0                     ^ shape.fixed      ^ names_at                ^ body_bytes
 *
 * The body is the appliance's own copy, so checked bytes stay checked: items are decoded again
 * whenever they are asked for (fab_req_read_item() and similar functions).
 */
#include "fabric/fab_internal.h"
#include "fabric/fab_report.h"

#include <errno.h>
#include <string.h>

#define DIR_MAX  ((UINT64_C(1) << FAB_DIR_BITS) - 1)
#define PUT_MAX  (4u << 20)
#define MODE_MAX 07777u

struct shape {
	uint16_t fixed_bytes;
	uint16_t item_bytes; /* of a batch, else 0                         */
	bool names;          /* something may follow                       */
	bool window;         /* there must be one                          */
	bool answers;        /* ... with room for the table at its end     */
};

static const struct shape shapes[FAB_TYPE_END] = {
	[FAB_PING] = { 0 },
	[FAB_READ] = { .fixed_bytes = sizeof(struct fab_read_wire), .window = true },
	[FAB_READ_BATCH] = { sizeof(struct fab_count_wire), sizeof(struct fab_read_item_wire), true,
			     true, true },
	[FAB_OPEN] = { .fixed_bytes = sizeof(struct fab_open_wire), .names = true },
	[FAB_STAT] = { sizeof(struct fab_count_wire), sizeof(struct fab_name_wire), true, false,
		       false },
	[FAB_LIST] = { .fixed_bytes = sizeof(struct fab_list_wire), .names = true, .window = true },
	[FAB_READLINK] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_TOTALS] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_CHECK] = { .fixed_bytes = sizeof(struct fab_read_item_wire), .names = true },
	[FAB_DAMAGED] = { .fixed_bytes = sizeof(le64), .window = true },
	[FAB_LOG] = { .fixed_bytes = sizeof(le64), .window = true },
	[FAB_REPORT] = { .fixed_bytes = FAB_REPORT_BYTES },
	[FAB_STATFS] = { 0 },
	[FAB_STATUS] = { 0 },
	[FAB_PUT] = { sizeof(struct fab_count_wire), sizeof(struct fab_put_item_wire), true, true,
		      true },
	[FAB_PUT_BEGIN] = { .fixed_bytes = sizeof(struct fab_make_wire), .names = true },
	[FAB_PUT_COMMIT] = { .fixed_bytes = sizeof(struct fab_size_wire) },
	[FAB_WRITE] = { .fixed_bytes = sizeof(struct fab_write_wire), .window = true },
	[FAB_TRUNCATE] = { .fixed_bytes = sizeof(struct fab_size_wire) },
	[FAB_SETATTR] = { .fixed_bytes = sizeof(struct fab_setattr_wire), .names = true },
	[FAB_MKDIR] = { .fixed_bytes = sizeof(struct fab_make_wire), .names = true },
	[FAB_RMDIR] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_UNLINK] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_RENAME] = { .fixed_bytes = sizeof(struct fab_rename_wire), .names = true },
	[FAB_SYMLINK] = { .fixed_bytes = sizeof(struct fab_symlink_wire), .names = true },
	[FAB_PUT_ABORT] = { .fixed_bytes = sizeof(struct fab_size_wire) },
	[FAB_PUNCH] = { .fixed_bytes = sizeof(struct fab_range_wire) },
	[FAB_SEEK] = { .fixed_bytes = sizeof(struct fab_range_wire) },
	[FAB_XATTR_GET] = { .fixed_bytes = sizeof(struct fab_xattr_wire), .names = true },
	[FAB_XATTR_SET] = { .fixed_bytes = sizeof(struct fab_xattr_wire), .names = true },
	[FAB_XATTR_LIST] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_XATTR_DEL] = { .fixed_bytes = sizeof(struct fab_xattr_wire), .names = true },
	[FAB_RMTREE] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_UNLINK_BATCH] = { sizeof(struct fab_count_wire), sizeof(struct fab_name_wire), true,
			       false, false },
	[FAB_HOLD] = { sizeof(struct fab_count_wire), sizeof(struct fab_name_wire), true, false,
		       false },
	[FAB_LET_GO] = { sizeof(struct fab_count_wire), sizeof(struct fab_name_wire), true, false,
			 false },
	[FAB_DRAIN] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_UNDRAIN] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_PROTECT] = { .fixed_bytes = sizeof(struct fab_name_wire), .names = true },
	[FAB_LINK] = { .fixed_bytes = sizeof(struct fab_rename_wire), .names = true },
};

/* A body under the knife. */
struct cut {
	const uint8_t *body;
	uint32_t body_bytes;
	uint32_t names_at; /* names lie from here on */
};

static struct fab_handle handle_of(const uint8_t bytes[FAB_HANDLE_BYTES])
{
	struct fab_handle h;

	memcpy(h.bytes, bytes, sizeof(h.bytes));
	return h;
}

/* `bytes` bytes of text at `at`: inside the body, and without a NUL. */
static int text_parse(const char **out, const struct cut *cut, uint32_t at, uint32_t bytes)
{
	DASSERT(cut->names_at <= cut->body_bytes);
	if (bytes == 0 || bytes > FAB_PATH_MAX)
		return -EPROTO;
	if (at < cut->names_at || at > cut->body_bytes || bytes > cut->body_bytes - at)
		return -EPROTO;
	if (memchr(cut->body + at, 0, bytes))
		return -EPROTO;
	*out = (const char *)cut->body + at;
	return 0;
}

/* `bytes` of anything at `at`, or nothing. */
static int value_parse(const void **out, const struct cut *cut, uint32_t at, uint32_t bytes)
{
	DASSERT(cut->names_at <= cut->body_bytes);
	if (at < cut->names_at || at > cut->body_bytes || bytes > cut->body_bytes - at)
		return -EPROTO;
	*out = cut->body + at;
	return 0;
}

static int name_parse(struct fab_name *out, const struct cut *cut, const struct fab_name_wire *w)
{
	uint64_t id[2];

	memcpy(id, w->id, sizeof(id));
	if (w->by < FAB_BY_PATH || w->by > FAB_BY_DIRHANDLE || (w->flags & ~FAB_NAME_NOFOLLOW))
		return -EPROTO;
	*out = (struct fab_name){
		.by = (enum fab_by)w->by,
		.nofollow = w->flags & FAB_NAME_NOFOLLOW,
		.name_bytes = le16_get(w->name_bytes),
	};
	if (out->by == FAB_BY_HANDLE || out->by == FAB_BY_DIRHANDLE)
		out->handle = handle_of(w->id);
	else if (id[1] != 0 || id[0] > (out->by == FAB_BY_DIR ? DIR_MAX : 0))
		return -EPROTO;
	if (out->by == FAB_BY_DIR)
		out->dir = id[0];
	if (out->by == FAB_BY_HANDLE)
		return out->name_bytes || le32_get(w->name_at) ? -EPROTO : 0;
	return text_parse(&out->name, cut, le32_get(w->name_at), out->name_bytes);
}

/* Like name_parse(), for a name to be made, moved or removed: a handle does not say where it is. */
static int place_parse(struct fab_name *out, const struct cut *cut, const struct fab_name_wire *w)
{
	int err = name_parse(out, cut, w);

	return !err && out->by == FAB_BY_HANDLE ? -EPROTO : err;
}

/* Returns the place of item i of a batch, and the cut that has its names. */
static const uint8_t *item_at(struct cut *cut, enum fab_type type, const void *body,
			      uint32_t body_bytes, uint32_t i)
{
	const struct shape *shape = &shapes[type];
	uint32_t count;

	memcpy(&count, body, sizeof(count));
	ASSERT(i < count && count <= FAB_BATCH_MAX);
	cut->body = body;
	cut->body_bytes = body_bytes;
	cut->names_at = shape->fixed_bytes + count * shape->item_bytes;
	DASSERT(cut->names_at <= body_bytes);
	return cut->body + shape->fixed_bytes + i * shape->item_bytes;
}

/* Takes the state off a name: what is left is an ordinary one. */
static int state_parse(int64_t *ctime_ns, const struct cut *cut, struct fab_name_wire *w)
{
	uint32_t at = le32_get(w->name_at);
	const void *state;
	le64 ctime;
	int err;

	*ctime_ns = 0;
	if (!(w->flags & FAB_NAME_STATE))
		return 0;
	err = value_parse(&state, cut, at, sizeof(ctime));
	if (err)
		return err;
	memcpy(&ctime, state, sizeof(ctime));
	*ctime_ns = (int64_t)le64_get(ctime);
	w->flags &= (uint8_t)~FAB_NAME_STATE;
	w->name_at = le32_of(w->by == FAB_BY_HANDLE ? 0 : at + (uint32_t)sizeof(ctime));
	return *ctime_ns == 0 ? -EPROTO : 0;
}

int fab__read_item_parse(struct fab_read_item *out, const void *body, uint32_t body_bytes,
			 uint32_t i)
{
	struct fab_read_item_wire w;
	struct cut cut;
	int err;

	DASSERT(body_bytes > sizeof(struct fab_count_wire));
	memcpy(&w, item_at(&cut, FAB_READ_BATCH, body, body_bytes, i), sizeof(w));
	out->offset_bytes = le64_get(w.offset_bytes);
	out->length_bytes = le64_get(w.length_bytes);
	err = state_parse(&out->ctime_ns, &cut, &w.name);
	return err ? err : name_parse(&out->name, &cut, &w.name);
}

/* A piece of the window: payload or checksums. */
static bool in_window(uint32_t at, uint64_t bytes, uint32_t window_bytes, uint32_t align)
{
	DASSERT(align > 0);
	return at % align == 0 && at <= window_bytes && bytes <= window_bytes - at;
}

int fab__put_item_parse(struct fab_put_item *out, const void *body, uint32_t body_bytes,
			uint32_t window_bytes, uint32_t i)
{
	struct fab_put_item_wire w;
	struct cut cut;
	uint32_t size;

	memcpy(&w, item_at(&cut, FAB_PUT, body, body_bytes, i), sizeof(w));
	size = le32_get(w.size_bytes);
	*out = (struct fab_put_item){
		.mode = le32_get(w.mode),
		.uid = le32_get(w.uid),
		.gid = le32_get(w.gid),
		.flags = le32_get(w.flags),
		.mtime_ns = (int64_t)le64_get(w.mtime_ns),
		.size_bytes = size,
		.payload_at = le32_get(w.payload_at),
		.sums_at = le32_get(w.sums_at),
	};
	if (out->mode > MODE_MAX || (out->flags & ~FAB_PUT_EXCL) || size > PUT_MAX)
		return -EPROTO;
	if (!in_window(out->payload_at, size, window_bytes, 64) ||
	    !in_window(out->sums_at, 4 * div_up(size, BLOCK_SIZE), window_bytes, 4))
		return -EPROTO;
	return place_parse(&out->name, &cut, &w.name);
}

int fab__name_item_parse(struct fab_name *out, enum fab_type type, const void *body,
			 uint32_t body_bytes, uint32_t i)
{
	struct fab_name_wire w;
	struct cut cut;
	int err;

	DASSERT(shapes[type].item_bytes == sizeof(w));
	memcpy(&w, item_at(&cut, type, body, body_bytes, i), sizeof(w));
	if (type == FAB_UNLINK_BATCH)
		return place_parse(out, &cut, &w);
	err = name_parse(out, &cut, &w);
	return !err && type == FAB_LET_GO && out->by != FAB_BY_HANDLE ? -EPROTO : err;
}

/* Of batches of names: without a window they are answered in the reply itself. */
static bool names_have_room(const struct fab_req *req, uint32_t count)
{
	uint32_t each = req->type == FAB_STAT ? FAB_STAT_BYTES : FAB_STATUS_BYTES;

	ASSERT(count > 0 && count <= FAB_BATCH_MAX);
	return count * each <= (req->window.length_bytes ? req->window.length_bytes : FAB_BODY_MAX);
}

static int batch_parse(struct fab_req *req, const struct cut *cut, const struct shape *shape,
		       const struct fab_limits *limits)
{
	struct fab_read_item read;
	struct fab_put_item put;
	struct fab_name name;
	uint32_t count;
	int err = 0;

	ASSERT(shape->item_bytes > 0 && limits->batch_max <= FAB_BATCH_MAX);
	ASSERT(cut->body_bytes >= shape->fixed_bytes);
	memcpy(&count, cut->body, sizeof(count));
	if (count == 0 || count > limits->batch_max)
		return -EPROTO;
	if (count * shape->item_bytes > cut->body_bytes - shape->fixed_bytes)
		return -EPROTO;
	if (shape->answers && align_up(count * FAB_ANSWER_BYTES, 64) > req->window.length_bytes)
		return -EPROTO;
	if (!shape->answers && !names_have_room(req, count))
		return -EPROTO;
	req->args.batch.count = count;
	for (uint32_t i = 0; i < count && !err; i++) {
		if (req->type == FAB_READ_BATCH)
			err = fab__read_item_parse(&read, cut->body, cut->body_bytes, i);
		else if (req->type == FAB_PUT)
			err = fab__put_item_parse(&put, cut->body, cut->body_bytes,
						  req->window.length_bytes, i);
		else
			err = fab__name_item_parse(&name, req->type, cut->body, cut->body_bytes, i);
	}
	return err;
}

static int read_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_read_wire w;

	DASSERT(cut->body_bytes == sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.read.handle = handle_of(w.handle);
	req->args.read.offset_bytes = le32_get(w.offset_low) | (uint64_t)le32_get(w.offset_high)
								       << 32;
	req->args.read.length_bytes = le32_get(w.length_bytes);
	if (req->args.read.length_bytes - 1 >= req->window.length_bytes)
		return -EPROTO;
	return 0;
}

static int write_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_write_wire w;
	uint64_t blocks;

	DASSERT(cut->body_bytes == sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.write.handle = handle_of(w.handle);
	req->args.write.offset_bytes = le64_get(w.offset_bytes);
	req->args.write.length_bytes = le32_get(w.length_bytes);
	req->args.write.flags = le32_get(w.flags);
	req->args.write.payload_at = le32_get(w.payload_at);
	req->args.write.sums_at = le32_get(w.sums_at);
	if (req->args.write.flags & ~FAB_WRITE_APPEND)
		return -EPROTO;
	if (req->args.write.flags & FAB_WRITE_APPEND)
		req->args.write.offset_bytes = 0;
	if (req->args.write.length_bytes - 1 >= PUT_MAX)
		return -EPROTO;
	if (req->args.write.offset_bytes > (uint64_t)INT64_MAX - PUT_MAX)
		return -EPROTO;
	blocks = div_up(req->args.write.offset_bytes % BLOCK_SIZE + req->args.write.length_bytes,
			BLOCK_SIZE);
	if (!in_window(req->args.write.payload_at, req->args.write.length_bytes,
		       req->window.length_bytes, 64) ||
	    !in_window(req->args.write.sums_at, 4 * blocks, req->window.length_bytes, 4))
		return -EPROTO;
	return 0;
}

static int open_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_open_wire w;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.open.flags = le32_get(w.flags);
	req->args.open.mode = le32_get(w.mode);
	req->args.open.uid = le32_get(w.uid);
	req->args.open.gid = le32_get(w.gid);
	if (req->args.open.flags > 31 || req->args.open.mode > MODE_MAX)
		return -EPROTO;
	return req->args.open.flags & FAB_OPEN_CREATE
		       ? place_parse(&req->args.open.name, cut, &w.name)
		       : name_parse(&req->args.open.name, cut, &w.name);
}

static int list_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_list_wire w;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	memcpy(req->args.list.cookie, w.cookie, sizeof(w.cookie));
	req->args.list.count_max = le32_get(w.count_max);
	if (req->args.list.count_max == 0)
		return -EPROTO;
	return name_parse(&req->args.list.dir, cut, &w.dir);
}

static int make_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_make_wire w;

	DASSERT(req->type == FAB_PUT_BEGIN || req->type == FAB_MKDIR);
	memcpy(&w, cut->body, sizeof(w));
	req->args.make.mode = le32_get(w.mode);
	req->args.make.uid = le32_get(w.uid);
	req->args.make.gid = le32_get(w.gid);
	req->args.make.flags = le32_get(w.flags);
	req->args.make.mtime_ns = (int64_t)le64_get(w.mtime_ns);
	req->args.make.size_bytes = le64_get(w.size_bytes);
	if (req->args.make.mode > MODE_MAX || req->args.make.size_bytes > INT64_MAX)
		return -EPROTO;
	if (req->args.make.flags & ~(req->type == FAB_MKDIR ? 0 : FAB_PUT_EXCL))
		return -EPROTO;
	return place_parse(&req->args.make.name, cut, &w.name);
}

static int size_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_size_wire w;

	DASSERT(cut->body_bytes == sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.size.handle = handle_of(w.handle);
	req->args.size.size_bytes = le64_get(w.size_bytes);
	return req->args.size.size_bytes > INT64_MAX ? -EPROTO : 0;
}

static int range_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_range_wire w;

	DASSERT(req->type == FAB_PUNCH || req->type == FAB_SEEK);
	memcpy(&w, cut->body, sizeof(w));
	req->args.range.handle = handle_of(w.handle);
	req->args.range.offset_bytes = le64_get(w.offset_bytes);
	req->args.range.length_bytes = le64_get(w.length_bytes);
	req->args.range.flags = le32_get(w.flags);
	if (req->args.range.offset_bytes > INT64_MAX ||
	    req->args.range.length_bytes > INT64_MAX - req->args.range.offset_bytes)
		return -EPROTO;
	if (req->args.range.flags & ~(req->type == FAB_SEEK ? FAB_SEEK_HOLE : 0))
		return -EPROTO;
	return (req->type == FAB_PUNCH) == (req->args.range.length_bytes > 0) ? 0 : -EPROTO;
}

static int setattr_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_setattr_wire w;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.setattr.mask = le32_get(w.mask);
	req->args.setattr.mode = le32_get(w.mode);
	req->args.setattr.uid = le32_get(w.uid);
	req->args.setattr.gid = le32_get(w.gid);
	req->args.setattr.mtime_ns = (int64_t)le64_get(w.mtime_ns);
	req->args.setattr.atime_ns = (int64_t)le64_get(w.atime_ns);
	if (req->args.setattr.mask > 31 || req->args.setattr.mode > MODE_MAX)
		return -EPROTO;
	return name_parse(&req->args.setattr.name, cut, &w.name);
}

static int rename_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_rename_wire w;
	int err;

	DASSERT(req->type == FAB_RENAME || req->type == FAB_LINK);
	memcpy(&w, cut->body, sizeof(w));
	req->args.rename.flags = le32_get(w.flags);
	if (req->args.rename.flags > (req->type == FAB_LINK ? 0 : FAB_RENAME_EXCHANGE))
		return -EPROTO;
	err = req->type == FAB_LINK ? name_parse(&req->args.rename.from, cut, &w.from)
				    : place_parse(&req->args.rename.from, cut, &w.from);
	return err ? err : place_parse(&req->args.rename.to, cut, &w.to);
}

static int symlink_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_symlink_wire w;
	int err;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.symlink.target_bytes = le16_get(w.target_bytes);
	req->args.symlink.uid = le32_get(w.uid);
	req->args.symlink.gid = le32_get(w.gid);
	req->args.symlink.mtime_ns = (int64_t)le64_get(w.mtime_ns);
	err = text_parse(&req->args.symlink.target, cut, le32_get(w.target_at),
			 req->args.symlink.target_bytes);
	return err ? err : place_parse(&req->args.symlink.name, cut, &w.name);
}

static int xattr_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_xattr_wire w;
	int err;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.xattr.xattr_bytes = le16_get(w.xattr_bytes);
	req->args.xattr.value_bytes = le32_get(w.value_bytes);
	req->args.xattr.value = NULL;
	req->args.xattr.flags = le32_get(w.flags);
	err = text_parse(&req->args.xattr.xattr, cut, le32_get(w.xattr_at),
			 req->args.xattr.xattr_bytes);
	if (!err && req->type == FAB_XATTR_SET)
		err = value_parse(&req->args.xattr.value, cut, le32_get(w.value_at),
				  req->args.xattr.value_bytes);
	else if (le32_get(w.value_at) | req->args.xattr.value_bytes | req->args.xattr.flags |
		 le32_get(w.zero1))
		err = -EPROTO;
	if (req->args.xattr.flags > FAB_XATTR_REPLACE)
		return -EPROTO;
	return err ? err : name_parse(&req->args.xattr.name, cut, &w.name);
}

static int name_only_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_name_wire w;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	return req->type == FAB_READLINK || req->type == FAB_XATTR_LIST || req->type == FAB_TOTALS
		       ? name_parse(&req->args.name.name, cut, &w)
		       : place_parse(&req->args.name.name, cut, &w);
}

static int check_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_read_item_wire w;

	DASSERT(cut->body_bytes >= sizeof(w));
	memcpy(&w, cut->body, sizeof(w));
	req->args.check.offset_bytes = le64_get(w.offset_bytes);
	req->args.check.length_bytes = le64_get(w.length_bytes);
	if (req->args.check.length_bytes == 0)
		return -EPROTO;
	return name_parse(&req->args.check.name, cut, &w.name);
}

static int page_parse(struct fab_req *req, const struct cut *cut)
{
	le64 from;

	DASSERT(cut->body_bytes == sizeof(from));
	memcpy(&from, cut->body, sizeof(from));
	req->args.page.from = le64_get(from);
	return 0;
}

/* A format that this side does not know is only answered. */
static int report_parse(struct fab_req *req, const struct cut *cut)
{
	struct fab_report report;

	DASSERT(cut->body_bytes == FAB_REPORT_BYTES);
	req->args.report.body = cut->body;
	return fab_report_parse(&report, cut->body) == -EPROTO ? -EPROTO : 0;
}

/* Checks what the table says of body and window. */
static bool sizes_ok(const struct fab_req *req, uint32_t body_bytes,
		     const struct fab_limits *limits)
{
	const struct shape *shape = &shapes[req->type];

	ASSERT(shape->fixed_bytes <= FAB_BODY_MAX);
	ASSERT(limits->window_max_bytes <= FAB_WINDOW_MAX);
	if (shape->names ? body_bytes < shape->fixed_bytes : body_bytes != shape->fixed_bytes)
		return false;
	return req->window.length_bytes <= limits->window_max_bytes &&
	       (!shape->window || req->window.length_bytes > 0);
}

int fab__req_parse(struct fab_req *req, const void *body, uint32_t body_bytes,
		   const struct fab_limits *limits)
{
	const struct shape *shape = &shapes[req->type];
	struct cut cut = { body, body_bytes, shape->fixed_bytes };

	DASSERT(req->type >= FAB_PING && req->type < FAB_TYPE_END);
	if (!sizes_ok(req, body_bytes, limits))
		return -EPROTO;
	switch (req->type) {
	case FAB_READ:
		return read_parse(req, &cut);
	case FAB_READ_BATCH:
	case FAB_STAT:
	case FAB_PUT:
	case FAB_UNLINK_BATCH:
	case FAB_HOLD:
	case FAB_LET_GO:
		return batch_parse(req, &cut, shape, limits);
	case FAB_WRITE:
		return write_parse(req, &cut);
	case FAB_OPEN:
		return open_parse(req, &cut);
	case FAB_LIST:
		return list_parse(req, &cut);
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		return make_parse(req, &cut);
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		return size_parse(req, &cut);
	case FAB_PUNCH:
	case FAB_SEEK:
		return range_parse(req, &cut);
	case FAB_SETATTR:
		return setattr_parse(req, &cut);
	case FAB_RENAME:
	case FAB_LINK:
		return rename_parse(req, &cut);
	case FAB_SYMLINK:
		return symlink_parse(req, &cut);
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
		return xattr_parse(req, &cut);
	case FAB_XATTR_LIST:
	case FAB_TOTALS:
	case FAB_READLINK:
	case FAB_RMDIR:
	case FAB_RMTREE:
	case FAB_DRAIN:
	case FAB_UNDRAIN:
	case FAB_PROTECT:
	case FAB_UNLINK:
		return name_only_parse(req, &cut);
	case FAB_CHECK:
		return check_parse(req, &cut);
	case FAB_DAMAGED:
	case FAB_LOG:
		return page_parse(req, &cut);
	case FAB_REPORT:
		return report_parse(req, &cut);
	case FAB_PING:
	case FAB_STATFS:
	case FAB_STATUS:
		return 0;
	case FAB_TYPE_END:
		break;
	}
	UNREACHABLE(); /* fab__hdr_parse() let it through */
}
