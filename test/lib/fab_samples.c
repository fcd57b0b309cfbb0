/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/fab_samples.h"
#include "fabric/fab_internal.h"
#include "fabric/fab_report.h"

#include <string.h>

static const struct fab_name by_path = { .by = FAB_BY_PATH, .name = "/data/a", .name_bytes = 7 };
static const struct fab_name by_handle = {
	.by = FAB_BY_HANDLE,
	.nofollow = true,
	.handle.bytes = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
};
static const struct fab_name by_dir = {
	.by = FAB_BY_DIR,
	.dir = 0x665544332211,
	.name = "caf\xc3\xa9",
	.name_bytes = 5,
};
static const struct fab_name by_dirhandle = {
	.by = FAB_BY_DIRHANDLE,
	.nofollow = true,
	.name = "x",
	.name_bytes = 1,
	.handle.bytes = { 0xff, 0xee, 0xdd },
};

static void batch_sample(struct fab_call *call)
{
	static struct fab_read_item reads[4];
	static struct fab_put_item puts[2];
	static struct fab_name names[4];

	names[0] = by_path;
	names[1] = call->type == FAB_UNLINK_BATCH ? by_path : by_handle;
	names[2] = by_dir;
	names[3] = by_dirhandle;
	for (uint32_t i = 0; call->type == FAB_LET_GO && i < 4; i++)
		names[i] = by_handle;
	for (uint32_t i = 0; i < 4; i++)
		reads[i] = (struct fab_read_item){
			.name = names[i],
			.offset_bytes = UINT64_C(0x123456789) + i,
			.length_bytes = i ? 4096 * i : FAB_TO_END,
		};
	for (uint32_t i = 0; i < 2; i++)
		puts[i] = (struct fab_put_item){
			.name = i ? by_dir : by_path,
			.mode = 0644,
			.uid = 1000,
			.gid = 100 + i,
			.flags = FAB_PUT_EXCL,
			.mtime_ns = INT64_C(1700000000123456789),
			.size_bytes = 5000,
			.payload_at = i * 8192,
			.sums_at = 65536 + 8 * i,
		};
	call->args.batch.reads = reads;
	call->args.batch.puts = puts;
	call->args.batch.names = names;
	call->args.batch.count = call->type == FAB_PUT ? 2 : 4;
}

static void make_sample(struct fab_call *call)
{
	call->args.make.name = by_dir;
	call->args.make.mode = 0750;
	call->args.make.uid = 7;
	call->args.make.gid = 8;
	call->args.make.mtime_ns = -1;
	if (call->type == FAB_PUT_BEGIN) {
		call->args.make.flags = FAB_PUT_EXCL;
		call->args.make.size_bytes = UINT64_C(1) << 40;
	}
}

static void read_sample(struct fab_call *call)
{
	call->args.read.handle = by_handle.handle;
	call->args.read.offset_bytes = UINT64_C(0xa1b2c3d4e5f60718) >> 1;
	call->args.read.length_bytes = 4096;
}

static void open_sample(struct fab_call *call)
{
	call->args.open.name = by_dir;
	call->args.open.flags = FAB_OPEN_CREATE | FAB_OPEN_EXCL;
	call->args.open.mode = 0600;
	call->args.open.uid = 3;
	call->args.open.gid = 4;
}

static void write_sample(struct fab_call *call)
{
	call->args.write.handle = by_handle.handle;
	call->args.write.offset_bytes = 12345678901;
	call->args.write.length_bytes = 100000;
	call->args.write.payload_at = 64;
	call->args.write.sums_at = 200000;
}

static void report_sample(struct fab_call *call)
{
	static const struct fab_report report = { 1, 4, 5, 6, 7, 8, 9, "pets@2", "not starved" };
	static uint8_t body[FAB_REPORT_BYTES];

	fab_report_build(body, &report);
	call->args.report.body = body;
}

static void damage_sample(struct fab_call *call)
{
	if (call->type == FAB_REPORT)
		report_sample(call);
	if (call->type == FAB_DAMAGED || call->type == FAB_LOG)
		call->args.page.from = 4711;
	if (call->type == FAB_CHECK)
		call->args.check = (struct fab_read_item){ .name = by_path,
							   .offset_bytes = 12345678901,
							   .length_bytes = 4096 };
}

static void range_sample(struct fab_call *call)
{
	call->args.range.handle = by_handle.handle;
	call->args.range.offset_bytes = 12345678901;
	if (call->type == FAB_PUNCH)
		call->args.range.length_bytes = UINT64_C(1) << 50;
	else
		call->args.range.flags = FAB_SEEK_HOLE;
}

static void setattr_sample(struct fab_call *call)
{
	call->args.setattr.name = by_path;
	call->args.setattr.mask =
		FAB_SET_MODE | FAB_SET_UID | FAB_SET_GID | FAB_SET_MTIME | FAB_SET_ATIME;
	call->args.setattr.mode = 04755;
	call->args.setattr.uid = 1;
	call->args.setattr.gid = 2;
	call->args.setattr.mtime_ns = 3;
	call->args.setattr.atime_ns = -4;
}

static void symlink_sample(struct fab_call *call)
{
	call->args.symlink.name = by_dirhandle;
	call->args.symlink.target = "../elsewhere";
	call->args.symlink.target_bytes = 12;
	call->args.symlink.uid = 5;
	call->args.symlink.gid = 6;
	call->args.symlink.mtime_ns = 77;
}

static void xattr_sample(struct fab_call *call)
{
	call->args.xattr.name = by_path;
	call->args.xattr.xattr = "user.color";
	call->args.xattr.xattr_bytes = 10;
	if (call->type != FAB_XATTR_SET)
		return;
	call->args.xattr.value = "\0red";
	call->args.xattr.value_bytes = 4;
	call->args.xattr.flags = FAB_XATTR_REPLACE;
}

static bool is_batch(enum fab_type type)
{
	return type == FAB_READ_BATCH || type == FAB_PUT || type == FAB_STAT ||
	       type == FAB_UNLINK_BATCH || type == FAB_HOLD || type == FAB_LET_GO;
}

static void list_sample(struct fab_call *call)
{
	call->args.list.dir = by_handle;
	memset(call->args.list.cookie, 0xc0, FAB_COOKIE_BYTES);
	call->args.list.count_max = 1000;
}

void fab_sample(struct fab_call *call, enum fab_type type)
{
	memset(call, 0, sizeof(*call));
	call->type = type;
	call->window_bytes = FAB_SAMPLE_WINDOW;
	call->deadline_us = 1500000;
	if (is_batch(type)) {
		batch_sample(call);
		return;
	}
	switch (type) {
	case FAB_READ:
		read_sample(call);
		return;
	case FAB_OPEN:
		open_sample(call);
		return;
	case FAB_LIST:
		list_sample(call);
		return;
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		make_sample(call);
		return;
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		call->args.size.handle = by_dirhandle.handle;
		call->args.size.size_bytes = 99999999999;
		return;
	case FAB_WRITE:
		write_sample(call);
		return;
	case FAB_SETATTR:
		setattr_sample(call);
		return;
	case FAB_RENAME:
		call->args.rename.from = by_path;
		call->args.rename.to = by_dirhandle;
		call->args.rename.flags = FAB_RENAME_NOREPLACE;
		return;
	case FAB_PUNCH:
	case FAB_SEEK:
		range_sample(call);
		return;
	case FAB_LINK:
		call->args.rename.from = by_dir;
		call->args.rename.to = by_path;
		return;
	case FAB_SYMLINK:
		symlink_sample(call);
		return;
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
		xattr_sample(call);
		return;
	case FAB_XATTR_LIST:
	case FAB_TOTALS:
	case FAB_READLINK:
	case FAB_RMDIR:
	case FAB_RMTREE:
	case FAB_DRAIN:
	case FAB_UNDRAIN:
	case FAB_PROTECT:
	case FAB_UNLINK:
		call->args.name.name = by_dir;
		return;
	default:
		damage_sample(call);
	}
}

/* ---- comparing ---------------------------------------------------------------------- */

static bool handle_same(const struct fab_handle *a, const struct fab_handle *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool name_same(const struct fab_name *a, const struct fab_name *b)
{
	return a->by == b->by && a->nofollow == b->nofollow && a->dir == b->dir &&
	       handle_same(&a->handle, &b->handle) && a->name_bytes == b->name_bytes &&
	       (a->by == FAB_BY_HANDLE || memcmp(a->name, b->name, a->name_bytes) == 0);
}

static bool put_same(const struct fab_put_item *a, const struct fab_put_item *b)
{
	return name_same(&a->name, &b->name) && a->mode == b->mode && a->uid == b->uid &&
	       a->gid == b->gid && a->flags == b->flags && a->mtime_ns == b->mtime_ns &&
	       a->size_bytes == b->size_bytes && a->payload_at == b->payload_at &&
	       a->sums_at == b->sums_at;
}

static bool batch_same(const struct fab_call *call, const struct fab_req *req, const void *body,
		       uint32_t bytes)
{
	struct fab_read_item read;
	struct fab_put_item put;
	struct fab_name name;

	if (req->args.batch.count != call->args.batch.count)
		return false;
	for (uint32_t i = 0; i < call->args.batch.count; i++) {
		const struct fab_read_item *want = &call->args.batch.reads[i];

		if (call->type == FAB_READ_BATCH &&
		    (fab__read_item_parse(&read, body, bytes, i) ||
		     !name_same(&read.name, &want->name) ||
		     read.offset_bytes != want->offset_bytes || read.ctime_ns != want->ctime_ns ||
		     read.length_bytes != want->length_bytes))
			return false;
		if (call->type == FAB_PUT &&
		    (fab__put_item_parse(&put, body, bytes, FAB_SAMPLE_WINDOW, i) ||
		     !put_same(&put, &call->args.batch.puts[i])))
			return false;
		if (call->type != FAB_READ_BATCH && call->type != FAB_PUT &&
		    (fab__name_item_parse(&name, call->type, body, bytes, i) ||
		     !name_same(&name, &call->args.batch.names[i])))
			return false;
	}
	return true;
}

/* Compares types without pointers as bytes, names and texts by their content. */
#define FIELDS_SAME(a, b, first, last)                                                             \
	(memcmp(&(a).first, &(b).first,                                                            \
		(size_t)((const char *)(&(a).last + 1) - (const char *)&(a).first)) == 0)

static bool xattr_same(const struct fab_call *call, const struct fab_req *req)
{
	const union fab_args *a = &call->args, *b = &req->args;

	return name_same(&a->xattr.name, &b->xattr.name) &&
	       a->xattr.xattr_bytes == b->xattr.xattr_bytes &&
	       memcmp(a->xattr.xattr, b->xattr.xattr, a->xattr.xattr_bytes) == 0 &&
	       a->xattr.value_bytes == b->xattr.value_bytes && a->xattr.flags == b->xattr.flags &&
	       (call->type != FAB_XATTR_SET ||
		memcmp(a->xattr.value, b->xattr.value, a->xattr.value_bytes) == 0);
}

bool fab_sample_same(const struct fab_call *call, const struct fab_req *req, const void *body,
		     uint32_t body_bytes)
{
	const union fab_args *a = &call->args, *b = &req->args;

	if (call->type != req->type)
		return false;
	if (is_batch(call->type))
		return batch_same(call, req, body, body_bytes);
	switch (call->type) {
	case FAB_READ:
		return FIELDS_SAME(a->read, b->read, handle, length_bytes);
	case FAB_OPEN:
		return name_same(&a->open.name, &b->open.name) &&
		       FIELDS_SAME(a->open, b->open, flags, gid);
	case FAB_LIST:
		return name_same(&a->list.dir, &b->list.dir) &&
		       FIELDS_SAME(a->list, b->list, cookie, count_max);
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		return name_same(&a->make.name, &b->make.name) &&
		       FIELDS_SAME(a->make, b->make, mode, size_bytes);
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		return FIELDS_SAME(a->size, b->size, handle, size_bytes);
	case FAB_WRITE:
		return FIELDS_SAME(a->write, b->write, handle, sums_at);
	case FAB_PUNCH:
	case FAB_SEEK:
		return FIELDS_SAME(a->range, b->range, handle, flags);
	case FAB_SETATTR:
		return name_same(&a->setattr.name, &b->setattr.name) &&
		       FIELDS_SAME(a->setattr, b->setattr, mask, atime_ns);
	case FAB_RENAME:
	case FAB_LINK:
		return name_same(&a->rename.from, &b->rename.from) &&
		       name_same(&a->rename.to, &b->rename.to) &&
		       a->rename.flags == b->rename.flags;
	case FAB_SYMLINK:
		return name_same(&a->symlink.name, &b->symlink.name) &&
		       a->symlink.target_bytes == b->symlink.target_bytes &&
		       memcmp(a->symlink.target, b->symlink.target, a->symlink.target_bytes) == 0 &&
		       FIELDS_SAME(a->symlink, b->symlink, uid, mtime_ns);
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
		return xattr_same(call, req);
	case FAB_XATTR_LIST:
	case FAB_TOTALS:
	case FAB_READLINK:
	case FAB_RMDIR:
	case FAB_RMTREE:
	case FAB_DRAIN:
	case FAB_UNDRAIN:
	case FAB_PROTECT:
	case FAB_UNLINK:
		return name_same(&a->name.name, &b->name.name);
	case FAB_CHECK:
		return name_same(&a->check.name, &b->check.name) &&
		       FIELDS_SAME(a->check, b->check, offset_bytes, length_bytes);
	case FAB_DAMAGED:
	case FAB_LOG:
		return a->page.from == b->page.from;
	case FAB_REPORT:
		return memcmp(a->report.body, b->report.body, FAB_REPORT_BYTES) == 0;
	default:
		return true;
	}
}
