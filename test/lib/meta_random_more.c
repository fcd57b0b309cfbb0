/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Random operations: holes and extended attributes. */
#include "test/lib/meta_random_internal.h"
#include "test/lib/meta_shell.h"

#include <errno.h>
#include <string.h>

static bool stat_file(struct meta_random *r, const char *path, struct meta_attr *out)
{
	struct meta_op op = op_new(r, META_OP_STAT, path);

	if (run(r, &op) || op.attr.type != META_TYPE_FILE)
		return false;
	*out = op.attr;
	return true;
}

/* ---- holes --------------------------------------------------------------------------- */

/* Zeros anywhere in it, whole blocks often. */
void meta_random__punch(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_PUNCH, "");
	uint64_t offset, length;
	struct meta_attr a;
	int rc, err;

	if (!stat_file(r, path, &a))
		return;
	op.target.path = NULL;
	op.target.handle = a.handle;
	offset = below(r, a.size + 2);
	length = 1 + (below(r, 2) ? below(r, 20000) : below(r, a.size + 5000));
	if (below(r, 2))
		offset = offset / BLOCK_SIZE * BLOCK_SIZE;
	if (length > (META_IO_BLOCKS_MAX - 1) * BLOCK_SIZE ||
	    sh_punch_edges(r->w, &op, offset, length))
		return; /* full */
	op.wall_ns = ++r->now_ns;
	rc = run(r, &op);
	if (rc == -EFBIG) /* zones too small for so much at once */
		return;
	SAME(r, "a punch", rc, 0);
	note(r, path, rc,
	     model_node_punch(model_node(r->fs, path, 0, &err), offset, length, op.wall_ns));
}

/* Seeks, and checks that the holes found are zeros. */
void meta_random__seek(struct meta_random *r, const char *path)
{
	uint64_t offset, end;
	struct meta_attr a;
	int64_t at;
	int err;

	if (!stat_file(r, path, &a))
		return;
	offset = below(r, a.size + 2);
	at = sh_seek(r->w, &a.handle, offset, false);
	SAME(r, "a seek", at >= (int64_t)offset || at == -ENXIO, 1);
	end = at < 0 ? a.size : (uint64_t)at;
	for (; offset < end; offset += BLOCK_SIZE) {
		const uint64_t piece = min_u64(end - offset, BLOCK_SIZE);

		SAME(r, "bytes of a hole",
		     model_node_read(model_node(r->fs, path, 0, &err), offset, r->bytes, piece),
		     piece);
		for (uint64_t i = 0; i < piece; i++)
			SAME(r, "a byte of a hole", r->bytes[i], 0);
	}
	if (at < 0)
		return;
	offset = (uint64_t)at;
	at = sh_seek(r->w, &a.handle, offset, true);
	SAME(r, "data has an end", at > (int64_t)offset && at <= (int64_t)a.size, 1);
}

/* ---- extended attributes ------------------------------------------------------------- */

static void random_xattr(struct meta_random *r, char *out)
{
	if (below(r, 40) == 0)
		snprintf(out, 300, "%s", below(r, 2) ? "trusted.x" : "user.");
	else
		snprintf(out, 300, "user.%u", (unsigned)below(r, 6));
}

/* Values of a head, of pieces, and of all there may be. */
static uint32_t xattr_bytes(struct meta_random *r)
{
	static const uint32_t most[] = { 40, 40, 40, 1100, 5000, META_XATTR_MAX };

	return (uint32_t)below(r, most[below(r, ARRAY_LEN(most))] + 1);
}

void meta_random__xattr_change(struct meta_random *r, const char *path)
{
	const bool del = below(r, 4) == 0;
	struct meta_op op = op_new(r, del ? META_OP_XATTR_DEL : META_OP_XATTR_SET, path);
	const uint32_t len = del ? 0 : xattr_bytes(r);
	char name[300];
	int rc;

	random_xattr(r, name);
	op.flags =
		META_NOFOLLOW | (below(r, 6) ? 0 : META_EXCL) | (below(r, 6) ? 0 : META_MUST_EXIST);
	op.xattr = name;
	op.xattr_len = (uint32_t)strlen(name);
	for (uint32_t i = 0; i < len; i++)
		r->bytes[i] = (uint8_t)(i * 31 + r->ops);
	op.list_out = r->bytes;
	op.list_used_bytes = len;
	rc = run(r, &op);
	if (rc == -E2BIG || rc == -ENOSPC) /* zones too small for so much at once; full */
		return;
	note(r, path, rc,
	     del ? model_xattr_del(r->fs, path, name, op.wall_ns)
		 : model_xattr_set(r->fs, path, name, r->bytes, len, op.flags, op.wall_ns));
}

void meta_random__xattr_get(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_XATTR_GET, path);
	char name[300];
	int64_t want;
	int rc;

	random_xattr(r, name);
	op.flags = META_NOFOLLOW;
	op.xattr = name;
	op.xattr_len = (uint32_t)strlen(name);
	op.list_out = r->read;
	op.list_max_bytes = META_XATTR_MAX;
	rc = run(r, &op);
	want = model_xattr_get(r->fs, path, name, r->bytes);
	SAME(r, "an attribute", rc ? rc : (int64_t)op.list_used_bytes, want);
	SAME(r, "its value", want > 0 ? memcmp(r->read, r->bytes, (size_t)want) : 0, 0);
}

void meta_random__compare_xattrs(struct meta_random *r, const char *path, struct model_node *n)
{
	uint32_t index = 0, len, bytes = 0;
	const char *name;
	const void *value;

	for (; model_node_xattr(n, index, &name, &value, &len); index++) {
		bytes += (uint32_t)strlen(name) + 1;
		SAME(r, "an attribute", sh_xattr_get(r->w, path, name, r->read, META_XATTR_MAX),
		     len);
		SAME(r, "its value", memcmp(r->read, value, len), 0);
	}
	if (index)
		SAME(r, "the list", sh_xattr_list(r->w, path, r->read, META_XATTR_MAX), bytes);
}
