/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The body of a request: | type | window blocks, 2 | body |.  A request that the parser accepts
 * stays inside the body and the window, whatever an appliance asks of it afterwards.
 */
#include "fabric/fab_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct fab_limits limits = {
	.credits = 8,
	.long_bodies = 2,
	.batch_max = 512,
	.window_max_bytes = FAB_WINDOW_MAX,
};

/* Read every byte of a name: the sanitizer sees one too many. */
static void name_walk(const struct fab_name *name, const uint8_t *body, uint32_t size)
{
	ASSERT(name->by >= FAB_BY_PATH && name->by <= FAB_BY_DIRHANDLE);
	if (name->by == FAB_BY_HANDLE)
		return;
	ASSERT(name->name_bytes > 0 && name->name_bytes <= FAB_PATH_MAX);
	ASSERT((const uint8_t *)name->name > body);
	ASSERT((const uint8_t *)name->name + name->name_bytes <= body + size);
	ASSERT(!memchr(name->name, 0, name->name_bytes));
	ASSERT(name->dir < UINT64_C(1) << FAB_DIR_BITS);
}

static void put_walk(const struct fab_put_item *put, uint32_t window, const uint8_t *body,
		     uint32_t size)
{
	ASSERT((uint64_t)put->payload_at + put->size_bytes <= window);
	ASSERT(put->sums_at + 4 * div_up(put->size_bytes, BLOCK_SIZE) <= window);
	name_walk(&put->name, body, size);
}

static void batch_walk(const struct fab_req *req, const uint8_t *body, uint32_t size)
{
	struct fab_read_item read;
	struct fab_put_item put;
	struct fab_name name;

	ASSERT(req->args.batch.count > 0 && req->args.batch.count <= limits.batch_max);
	for (uint32_t i = 0; i < req->args.batch.count; i++) {
		if (req->type == FAB_READ_BATCH) {
			ASSERT(fab__read_item_parse(&read, body, size, i) == 0);
			name_walk(&read.name, body, size);
		} else if (req->type == FAB_PUT) {
			ASSERT(fab__put_item_parse(&put, body, size, req->window.length_bytes, i) ==
			       0);
			put_walk(&put, req->window.length_bytes, body, size);
		} else {
			ASSERT(fab__name_item_parse(&name, req->type, body, size, i) == 0);
			ASSERT(req->type != FAB_UNLINK_BATCH || name.by != FAB_BY_HANDLE);
			ASSERT(req->type != FAB_LET_GO || name.by == FAB_BY_HANDLE);
			name_walk(&name, body, size);
		}
	}
}

static void xattr_walk(const struct fab_req *req, const uint8_t *body, uint32_t size)
{
	const char *xattr = req->args.xattr.xattr;
	const uint8_t *value = req->args.xattr.value;
	uint32_t len = req->args.xattr.value_bytes;
	uint8_t sum = 0;

	name_walk(&req->args.xattr.name, body, size);
	ASSERT(req->args.xattr.xattr_bytes > 0 && !memchr(xattr, 0, req->args.xattr.xattr_bytes));
	ASSERT((const uint8_t *)xattr + req->args.xattr.xattr_bytes <= body + size);
	ASSERT(req->type == FAB_XATTR_SET || (!value && len == 0 && req->args.xattr.flags == 0));
	for (uint32_t i = 0; i < len; i++)
		sum |= value[i];
	ASSERT(len == 0 || (sum >= value[0] && value + len <= body + size));
}

static void walk(const struct fab_req *req, const uint8_t *body, uint32_t size)
{
	switch (req->type) {
	case FAB_READ_BATCH:
	case FAB_PUT:
	case FAB_STAT:
	case FAB_UNLINK_BATCH:
	case FAB_HOLD:
	case FAB_LET_GO:
		batch_walk(req, body, size);
		return;
	case FAB_READ:
		ASSERT(req->args.read.length_bytes > 0);
		ASSERT(req->args.read.length_bytes <= req->window.length_bytes);
		return;
	case FAB_WRITE:
		ASSERT((uint64_t)req->args.write.payload_at + req->args.write.length_bytes <=
		       req->window.length_bytes);
		ASSERT(req->args.write.sums_at < req->window.length_bytes);
		return;
	case FAB_OPEN:
		name_walk(&req->args.open.name, body, size);
		return;
	case FAB_LIST:
		name_walk(&req->args.list.dir, body, size);
		return;
	case FAB_RENAME:
	case FAB_LINK:
		name_walk(&req->args.rename.from, body, size);
		name_walk(&req->args.rename.to, body, size);
		return;
	case FAB_SYMLINK:
		name_walk(&req->args.symlink.name, body, size);
		ASSERT(!memchr(req->args.symlink.target, 0, req->args.symlink.target_bytes));
		return;
	case FAB_SETATTR:
		name_walk(&req->args.setattr.name, body, size);
		return;
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		name_walk(&req->args.make.name, body, size);
		return;
	case FAB_XATTR_GET:
	case FAB_XATTR_SET:
	case FAB_XATTR_DEL:
		xattr_walk(req, body, size);
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
		name_walk(&req->args.name.name, body, size);
		return;
	case FAB_CHECK:
		name_walk(&req->args.check.name, body, size);
		return;
	default:
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fab_req req = { 0 };
	uint8_t *body;
	uint32_t body_bytes;

	if (size < 3 || size - 3 > FAB_LONG_BODY_MAX)
		return 0;
	body_bytes = (uint32_t)size - 3;
	req.type = (enum fab_type)(FAB_PING + bytes[0] % (FAB_TYPE_END - FAB_PING));
	req.window.length_bytes = (bytes[1] | (uint32_t)bytes[2] << 8) * BLOCK_SIZE;
	body = malloc(body_bytes + 1); /* its own, so that its end is watched */
	ASSERT(body);
	body = realloc(body, body_bytes ? body_bytes : 1);
	ASSERT(body);
	memcpy(body, bytes + 3, body_bytes);
	if (fab__req_parse(&req, body, body_bytes, &limits) == 0)
		walk(&req, body, body_bytes);
	free(body);
	return 0;
}
