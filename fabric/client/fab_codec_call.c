/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Encodes a call as the bytes of its request: the reverse of fab_codec_req.c.
 *
 * Two passes: fab__call_measure() returns the length of the body, so that the caller can choose a
 * place for it; fab__call_build() writes exactly that many bytes.  The values of the fields are not
 * checked here: fab_submit() runs the appliance's own parser over the result, so that the rules are
 * in one place.
 */
#include "fabric/fab_internal.h"
#include "fabric/fab_report.h"

#include <errno.h>
#include <string.h>

/* The position of the next name; the fixed parts are written by offset. */
struct pen {
	uint8_t *body;
	uint32_t names_at;
};

static uint64_t named(const struct fab_name *name)
{
	return name->by == FAB_BY_HANDLE ? 0 : name->name_bytes;
}

static uint64_t batch_measure(const struct fab_call *call)
{
	uint32_t count = call->args.batch.count;
	uint64_t bytes = sizeof(struct fab_count_wire);

	switch (call->type) {
	case FAB_READ_BATCH:
		bytes += (uint64_t)count * sizeof(struct fab_read_item_wire);
		for (uint32_t i = 0; i < count; i++)
			bytes += named(&call->args.batch.reads[i].name) +
				 (call->args.batch.reads[i].ctime_ns ? sizeof(le64) : 0);
		return bytes;
	case FAB_PUT:
		bytes += (uint64_t)count * sizeof(struct fab_put_item_wire);
		for (uint32_t i = 0; i < count; i++)
			bytes += named(&call->args.batch.puts[i].name);
		return bytes;
	default:
		bytes += (uint64_t)count * sizeof(struct fab_name_wire);
		for (uint32_t i = 0; i < count; i++)
			bytes += named(&call->args.batch.names[i]);
		return bytes;
	}
}

static uint64_t measure(const struct fab_call *call)
{
	switch (call->type) {
	case FAB_READ_BATCH:
	case FAB_PUT:
	case FAB_STAT:
	case FAB_UNLINK_BATCH:
	case FAB_HOLD:
	case FAB_LET_GO:
		return batch_measure(call);
	case FAB_READ:
		return sizeof(struct fab_read_wire);
	case FAB_OPEN:
		return sizeof(struct fab_open_wire) + named(&call->args.open.name);
	case FAB_LIST:
		return sizeof(struct fab_list_wire) + named(&call->args.list.dir);
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
		return sizeof(struct fab_xattr_wire) + named(&call->args.xattr.name) +
		       call->args.xattr.xattr_bytes + (uint64_t)call->args.xattr.value_bytes;
	case FAB_XATTR_LIST:
	case FAB_TOTALS:
	case FAB_READLINK:
	case FAB_RMDIR:
	case FAB_RMTREE:
	case FAB_DRAIN:
	case FAB_UNDRAIN:
	case FAB_PROTECT:
	case FAB_UNLINK:
		return sizeof(struct fab_name_wire) + named(&call->args.name.name);
	case FAB_CHECK:
		return sizeof(struct fab_read_item_wire) + named(&call->args.check.name);
	case FAB_DAMAGED:
	case FAB_LOG:
		return sizeof(le64);
	case FAB_REPORT:
		return FAB_REPORT_BYTES;
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		return sizeof(struct fab_make_wire) + named(&call->args.make.name);
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		return sizeof(struct fab_size_wire);
	case FAB_WRITE:
		return sizeof(struct fab_write_wire);
	case FAB_PUNCH:
	case FAB_SEEK:
		return sizeof(struct fab_range_wire);
	case FAB_SETATTR:
		return sizeof(struct fab_setattr_wire) + named(&call->args.setattr.name);
	case FAB_RENAME:
	case FAB_LINK:
		return sizeof(struct fab_rename_wire) + named(&call->args.rename.from) +
		       named(&call->args.rename.to);
	case FAB_SYMLINK:
		return sizeof(struct fab_symlink_wire) + named(&call->args.symlink.name) +
		       call->args.symlink.target_bytes;
	default:
		return 0;
	}
}

int64_t fab__call_measure(const struct fab_call *call, const struct fab_limits *limits)
{
	bool batch = call->type == FAB_READ_BATCH || call->type == FAB_PUT ||
		     call->type == FAB_STAT || call->type == FAB_UNLINK_BATCH ||
		     call->type == FAB_HOLD || call->type == FAB_LET_GO;
	uint64_t bytes;

	if (call->type < FAB_PING || call->type >= FAB_TYPE_END)
		return -EINVAL;
	if (batch && call->args.batch.count > limits->batch_max)
		return -EMSGSIZE;
	bytes = measure(call);
	DASSERT(batch || bytes >= sizeof(struct fab_name_wire) || call->type != FAB_UNLINK);
	return bytes > FAB_LONG_BODY_MAX ? -EMSGSIZE : (int64_t)bytes;
}

static uint32_t text_build(struct pen *pen, const void *text, uint32_t bytes)
{
	uint32_t at = pen->names_at;

	DASSERT(pen->names_at + (uint64_t)bytes <= FAB_LONG_BODY_MAX);
	if (bytes)
		memcpy(pen->body + at, text, bytes);
	pen->names_at += bytes;
	return at;
}

static struct fab_name_wire name_build(struct pen *pen, const struct fab_name *name)
{
	struct fab_name_wire w = {
		.by = (uint8_t)name->by,
		.flags = name->nofollow ? FAB_NAME_NOFOLLOW : 0,
	};
	le64 dir = le64_of(name->dir);

	if (name->by == FAB_BY_HANDLE || name->by == FAB_BY_DIRHANDLE)
		memcpy(w.id, name->handle.bytes, sizeof(w.id));
	else if (name->by == FAB_BY_DIR)
		memcpy(w.id, &dir, sizeof(dir));
	if (name->by != FAB_BY_HANDLE) {
		w.name_bytes = le16_of(name->name_bytes);
		w.name_at = le32_of(text_build(pen, name->name, name->name_bytes));
	}
	return w;
}

/* The state that the file must be in stands before its name. */
static struct fab_name_wire state_build(struct pen *pen, const struct fab_read_item *item)
{
	const le64 ctime = le64_of((uint64_t)item->ctime_ns);
	uint32_t at = text_build(pen, &ctime, sizeof(ctime));
	struct fab_name_wire w = name_build(pen, &item->name);

	w.flags |= FAB_NAME_STATE;
	w.name_at = le32_of(at);
	return w;
}

static void reads_build(const struct fab_call *call, struct pen *pen)
{
	uint8_t *at = pen->body + sizeof(struct fab_count_wire);

	ASSERT(call->type == FAB_READ_BATCH);
	pen->names_at = (uint32_t)(sizeof(struct fab_count_wire) +
				   call->args.batch.count * sizeof(struct fab_read_item_wire));
	for (uint32_t i = 0; i < call->args.batch.count; i++) {
		const struct fab_read_item *item = &call->args.batch.reads[i];
		struct fab_read_item_wire w = {
			.name = item->ctime_ns ? state_build(pen, item)
					       : name_build(pen, &item->name),
			.offset_bytes = le64_of(item->offset_bytes),
			.length_bytes = le64_of(item->length_bytes),
		};

		memcpy(at + i * sizeof(w), &w, sizeof(w));
	}
}

static void puts_build(const struct fab_call *call, struct pen *pen)
{
	uint8_t *at = pen->body + sizeof(struct fab_count_wire);

	ASSERT(call->type == FAB_PUT);
	pen->names_at = (uint32_t)(sizeof(struct fab_count_wire) +
				   call->args.batch.count * sizeof(struct fab_put_item_wire));
	for (uint32_t i = 0; i < call->args.batch.count; i++) {
		const struct fab_put_item *item = &call->args.batch.puts[i];
		struct fab_put_item_wire w = {
			.name = name_build(pen, &item->name),
			.mode = le32_of(item->mode),
			.uid = le32_of(item->uid),
			.gid = le32_of(item->gid),
			.flags = le32_of(item->flags),
			.mtime_ns = le64_of((uint64_t)item->mtime_ns),
			.size_bytes = le32_of(item->size_bytes),
			.payload_at = le32_of(item->payload_at),
			.sums_at = le32_of(item->sums_at),
		};

		memcpy(at + i * sizeof(w), &w, sizeof(w));
	}
}

static void names_build(const struct fab_call *call, struct pen *pen)
{
	uint8_t *at = pen->body + sizeof(struct fab_count_wire);

	ASSERT(call->type != FAB_READ_BATCH && call->type != FAB_PUT);
	pen->names_at = (uint32_t)(sizeof(struct fab_count_wire) +
				   call->args.batch.count * sizeof(struct fab_name_wire));
	for (uint32_t i = 0; i < call->args.batch.count; i++) {
		struct fab_name_wire w = name_build(pen, &call->args.batch.names[i]);

		memcpy(at + i * sizeof(w), &w, sizeof(w));
	}
}

static void batch_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_count_wire count = { .count = le32_of(call->args.batch.count) };

	ASSERT(call->args.batch.count <= FAB_BATCH_MAX);
	memcpy(pen->body, &count, sizeof(count));
	if (call->type == FAB_READ_BATCH)
		reads_build(call, pen);
	else if (call->type == FAB_PUT)
		puts_build(call, pen);
	else
		names_build(call, pen);
}

static void read_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_read_wire w = {
		.offset_low = le32_of((uint32_t)call->args.read.offset_bytes),
		.offset_high = le32_of((uint32_t)(call->args.read.offset_bytes >> 32)),
		.length_bytes = le32_of(call->args.read.length_bytes),
	};

	DASSERT(call->type == FAB_READ && pen->names_at == 0);
	memcpy(w.handle, call->args.read.handle.bytes, sizeof(w.handle));
	memcpy(pen->body, &w, sizeof(w));
}

static void write_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_write_wire w = {
		.offset_bytes = le64_of(call->args.write.offset_bytes),
		.length_bytes = le32_of(call->args.write.length_bytes),
		.flags = le32_of(call->args.write.flags),
		.payload_at = le32_of(call->args.write.payload_at),
		.sums_at = le32_of(call->args.write.sums_at),
	};

	ASSERT(call->type == FAB_WRITE);
	memcpy(w.handle, call->args.write.handle.bytes, sizeof(w.handle));
	memcpy(pen->body, &w, sizeof(w));
}

static void open_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_open_wire w;

	ASSERT(call->type == FAB_OPEN);
	pen->names_at = sizeof(w);
	w = (struct fab_open_wire){
		.name = name_build(pen, &call->args.open.name),
		.flags = le32_of(call->args.open.flags),
		.mode = le32_of(call->args.open.mode),
		.uid = le32_of(call->args.open.uid),
		.gid = le32_of(call->args.open.gid),
	};
	memcpy(pen->body, &w, sizeof(w));
}

static void list_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_list_wire w;

	ASSERT(call->type == FAB_LIST);
	pen->names_at = sizeof(w);
	w = (struct fab_list_wire){
		.dir = name_build(pen, &call->args.list.dir),
		.count_max = le32_of(call->args.list.count_max),
	};
	memcpy(w.cookie, call->args.list.cookie, sizeof(w.cookie));
	memcpy(pen->body, &w, sizeof(w));
}

static void make_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_make_wire w;

	ASSERT(call->type == FAB_PUT_BEGIN || call->type == FAB_MKDIR);
	pen->names_at = sizeof(w);
	w = (struct fab_make_wire){
		.name = name_build(pen, &call->args.make.name),
		.mode = le32_of(call->args.make.mode),
		.uid = le32_of(call->args.make.uid),
		.gid = le32_of(call->args.make.gid),
		.flags = le32_of(call->args.make.flags),
		.mtime_ns = le64_of((uint64_t)call->args.make.mtime_ns),
		.size_bytes = le64_of(call->args.make.size_bytes),
	};
	memcpy(pen->body, &w, sizeof(w));
}

static void size_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_size_wire w = { .size_bytes = le64_of(call->args.size.size_bytes) };

	ASSERT(call->type == FAB_PUT_COMMIT || call->type == FAB_PUT_ABORT ||
	       call->type == FAB_TRUNCATE);
	memcpy(w.handle, call->args.size.handle.bytes, sizeof(w.handle));
	memcpy(pen->body, &w, sizeof(w));
}

static void range_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_range_wire w = {
		.offset_bytes = le64_of(call->args.range.offset_bytes),
		.length_bytes = le64_of(call->args.range.length_bytes),
		.flags = le32_of(call->args.range.flags),
	};

	ASSERT(call->type == FAB_PUNCH || call->type == FAB_SEEK);
	memcpy(w.handle, call->args.range.handle.bytes, sizeof(w.handle));
	memcpy(pen->body, &w, sizeof(w));
}

static void setattr_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_setattr_wire w;

	ASSERT(call->type == FAB_SETATTR);
	pen->names_at = sizeof(w);
	w = (struct fab_setattr_wire){
		.name = name_build(pen, &call->args.setattr.name),
		.mask = le32_of(call->args.setattr.mask),
		.mode = le32_of(call->args.setattr.mode),
		.uid = le32_of(call->args.setattr.uid),
		.gid = le32_of(call->args.setattr.gid),
		.mtime_ns = le64_of((uint64_t)call->args.setattr.mtime_ns),
		.atime_ns = le64_of((uint64_t)call->args.setattr.atime_ns),
	};
	memcpy(pen->body, &w, sizeof(w));
}

static void rename_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_rename_wire w = { .flags = le32_of(call->args.rename.flags) };

	ASSERT(call->type == FAB_RENAME || call->type == FAB_LINK);
	pen->names_at = sizeof(w);
	w.from = name_build(pen, &call->args.rename.from);
	w.to = name_build(pen, &call->args.rename.to);
	memcpy(pen->body, &w, sizeof(w));
}

static void symlink_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_symlink_wire w = {
		.target_bytes = le16_of(call->args.symlink.target_bytes),
		.uid = le32_of(call->args.symlink.uid),
		.gid = le32_of(call->args.symlink.gid),
		.mtime_ns = le64_of((uint64_t)call->args.symlink.mtime_ns),
	};

	ASSERT(call->type == FAB_SYMLINK);
	pen->names_at = sizeof(w);
	w.name = name_build(pen, &call->args.symlink.name);
	w.target_at = le32_of(
		text_build(pen, call->args.symlink.target, call->args.symlink.target_bytes));
	memcpy(pen->body, &w, sizeof(w));
}

static void xattr_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_xattr_wire w = {
		.xattr_bytes = le16_of(call->args.xattr.xattr_bytes),
		.value_bytes = le32_of(call->args.xattr.value_bytes),
		.flags = le32_of(call->args.xattr.flags),
	};

	ASSERT(call->type == FAB_XATTR_GET || call->type == FAB_XATTR_SET ||
	       call->type == FAB_XATTR_DEL);
	pen->names_at = sizeof(w);
	w.name = name_build(pen, &call->args.xattr.name);
	w.xattr_at = le32_of(text_build(pen, call->args.xattr.xattr, call->args.xattr.xattr_bytes));
	if (call->type == FAB_XATTR_SET)
		w.value_at = le32_of(
			text_build(pen, call->args.xattr.value, call->args.xattr.value_bytes));
	memcpy(pen->body, &w, sizeof(w));
}

static void name_only_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_name_wire w;

	ASSERT(pen->names_at == 0);
	pen->names_at = sizeof(w);
	w = name_build(pen, &call->args.name.name);
	memcpy(pen->body, &w, sizeof(w));
}

static void check_build(const struct fab_call *call, struct pen *pen)
{
	struct fab_read_item_wire w;

	ASSERT(call->type == FAB_CHECK);
	pen->names_at = sizeof(w);
	w = (struct fab_read_item_wire){
		.name = name_build(pen, &call->args.check.name),
		.offset_bytes = le64_of(call->args.check.offset_bytes),
		.length_bytes = le64_of(call->args.check.length_bytes),
	};
	memcpy(pen->body, &w, sizeof(w));
}

static void page_build(const struct fab_call *call, struct pen *pen)
{
	const le64 from = le64_of(call->args.page.from);

	ASSERT(call->type == FAB_DAMAGED || call->type == FAB_LOG);
	memcpy(pen->body, &from, sizeof(from));
}

static void rest_build(const struct fab_call *call, struct pen *pen)
{
	switch (call->type) {
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
		xattr_build(call, pen);
		return;
	case FAB_CHECK:
		check_build(call, pen);
		return;
	case FAB_DAMAGED:
	case FAB_LOG:
		page_build(call, pen);
		return;
	case FAB_SYMLINK:
		symlink_build(call, pen);
		return;
	case FAB_REPORT:
		memcpy(pen->body, call->args.report.body, FAB_REPORT_BYTES);
		return;
	case FAB_PING:
	case FAB_STATFS:
	case FAB_STATUS:
		return; /* they have no body */
	default:
		name_only_build(call, pen);
	}
}

void fab__call_build(const struct fab_call *call, void *out)
{
	struct pen pen = { .body = out };

	switch (call->type) {
	case FAB_READ:
		read_build(call, &pen);
		return;
	case FAB_READ_BATCH:
	case FAB_STAT:
	case FAB_PUT:
	case FAB_UNLINK_BATCH:
	case FAB_HOLD:
	case FAB_LET_GO:
		batch_build(call, &pen);
		return;
	case FAB_WRITE:
		write_build(call, &pen);
		return;
	case FAB_OPEN:
		open_build(call, &pen);
		return;
	case FAB_LIST:
		list_build(call, &pen);
		return;
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		make_build(call, &pen);
		return;
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		size_build(call, &pen);
		return;
	case FAB_PUNCH:
	case FAB_SEEK:
		range_build(call, &pen);
		return;
	case FAB_SETATTR:
		setattr_build(call, &pen);
		return;
	case FAB_RENAME:
	case FAB_LINK:
		rename_build(call, &pen);
		return;
	case FAB_SYMLINK:
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
	case FAB_XATTR_LIST:
	case FAB_TOTALS:
	case FAB_READLINK:
	case FAB_RMDIR:
	case FAB_RMTREE:
	case FAB_DRAIN:
	case FAB_UNDRAIN:
	case FAB_PROTECT:
	case FAB_UNLINK:
	case FAB_CHECK:
	case FAB_DAMAGED:
	case FAB_LOG:
	case FAB_REPORT:
	case FAB_PING:
	case FAB_STATFS:
	case FAB_STATUS:
		rest_build(call, &pen);
		return;
	case FAB_TYPE_END:
		break;
	}
	UNREACHABLE(); /* fab__call_measure() refused it */
}
