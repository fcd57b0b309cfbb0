/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/meta_shell.h"

#include <string.h>

static struct meta_run runs[META_IO_BLOCKS_MAX];
static uint32_t crcs[META_IO_BLOCKS_MAX + 1];
static char text_buf[META_PATH_MAX + 1];
static int64_t now_ns = 1000;

struct meta_op sh_op(enum meta_op_type type, const char *path)
{
	return (struct meta_op){
		.type = type,
		.target = { .path = path, .path_len = path ? (uint32_t)strlen(path) : 0 },
		.wall_ns = ++now_ns,
		.runs = runs,
		.crcs = crcs,
		.runs_max = META_IO_BLOCKS_MAX,
		.blocks_max = META_IO_BLOCKS_MAX,
		.inline_buf = text_buf,
	};
}

static struct meta_op op_of(enum meta_op_type type, const struct meta_handle *h)
{
	struct meta_op op = sh_op(type, NULL);

	op.target.handle = *h;
	return op;
}

static int plain(struct meta_world *w, enum meta_op_type type, const char *path)
{
	struct meta_op op = sh_op(type, path);

	return meta_world_run(w, &op);
}

int sh_mkdir(struct meta_world *w, const char *path)
{
	return plain(w, META_OP_MKDIR, path);
}

int sh_unlink(struct meta_world *w, const char *path)
{
	return plain(w, META_OP_UNLINK, path);
}

int sh_rmdir(struct meta_world *w, const char *path)
{
	return plain(w, META_OP_RMDIR, path);
}

int sh_rename(struct meta_world *w, const char *from, const char *to, uint32_t flags)
{
	struct meta_op op = sh_op(META_OP_RENAME, from);

	op.other = (struct meta_target){ .path = to, .path_len = (uint32_t)strlen(to) };
	op.flags = flags;
	return meta_world_run(w, &op);
}

int sh_link(struct meta_world *w, const char *from, const char *to)
{
	struct meta_op op = sh_op(META_OP_LINK, from);

	op.other = (struct meta_target){ .path = to, .path_len = (uint32_t)strlen(to) };
	op.flags = META_NOFOLLOW;
	return meta_world_run(w, &op);
}

int sh_symlink(struct meta_world *w, const char *text, const char *path)
{
	struct meta_op op = sh_op(META_OP_SYMLINK, path);

	op.length = strlen(text);
	memcpy(text_buf, text, min_u64(op.length, META_PATH_MAX));
	return meta_world_run(w, &op);
}

int sh_readlink(struct meta_world *w, const char *path, char *text)
{
	struct meta_op op = sh_op(META_OP_READLINK, path);

	op.inline_buf = text;
	return meta_world_run(w, &op);
}

int sh_stat(struct meta_world *w, const char *path, uint32_t flags, struct meta_attr *out)
{
	struct meta_op op = sh_op(META_OP_STAT, path);
	int rc;

	op.flags = flags;
	rc = meta_world_run(w, &op);
	*out = op.attr;
	return rc;
}

int sh_stat_handle(struct meta_world *w, const struct meta_handle *h, struct meta_attr *out)
{
	struct meta_op op = op_of(META_OP_STAT, h);
	int rc = meta_world_run(w, &op);

	*out = op.attr;
	return rc;
}

int sh_put(struct meta_world *w, const char *path, uint32_t flags, const void *bytes, uint64_t size)
{
	struct meta_op op = sh_op(META_OP_PUT, path);
	int rc;

	op.flags = flags;
	op.size = size;
	if (size <= META_INLINE_MAX) {
		op.flags |= META_BY_INLINE;
		op.inline_len = (uint32_t)size;
		memcpy(text_buf, bytes, size);
	} else {
		rc = meta_world_data(w, bytes, size, runs, &op.nruns, crcs);
		if (rc)
			return rc;
	}
	return meta_world_run(w, &op);
}

int sh_put_begin(struct meta_world *w, const char *path, struct meta_handle *out)
{
	struct meta_op op = sh_op(META_OP_PUT_BEGIN, path);
	int rc = meta_world_run(w, &op);

	*out = op.attr.handle;
	return rc;
}

int sh_put_commit(struct meta_world *w, const struct meta_handle *h, const char *path)
{
	struct meta_op op = sh_op(META_OP_PUT_COMMIT, path);

	op.other.handle = *h;
	return meta_world_run(w, &op);
}

int sh_put_abort(struct meta_world *w, const struct meta_handle *h)
{
	struct meta_op op = op_of(META_OP_PUT_ABORT, h);

	return meta_world_run(w, &op);
}

int sh_write(struct meta_world *w, const struct meta_handle *h, uint64_t offset, const void *bytes,
	     uint64_t length, uint64_t size)
{
	struct meta_op op = op_of(META_OP_WRITE, h);
	int rc;

	op.offset = offset;
	op.size = size;
	rc = meta_world_data(w, bytes, length, runs, &op.nruns, crcs);
	return rc ? rc : meta_world_run(w, &op);
}

int sh_truncate(struct meta_world *w, const struct meta_handle *h, uint64_t size)
{
	struct meta_op op = op_of(META_OP_TRUNCATE, h);

	op.size = size;
	return meta_world_run(w, &op);
}

/* Copies block `block` of the file to `out`, with zeros in [from, end).  Returns 1, 0 for a hole,
 * or -errno. */
static int punch_edge(struct meta_world *w, const struct meta_target *t, uint64_t block,
		      uint64_t from, uint64_t end, uint8_t *out)
{
	static struct meta_run run;
	static uint32_t crc;
	struct meta_op op = sh_op(META_OP_READ, NULL);
	const uint64_t at = block * BLOCK_SIZE, lo = max_u64(from, at);
	int rc;

	op.target = *t;
	op.offset = at;
	op.length = 1;
	op.runs = &run;
	op.crcs = &crc;
	op.blocks_max = op.runs_max = 1;
	rc = meta_world_run(w, &op);
	if (rc == 0 && op.nblocks)
		rc = meta_world_fetch(w, &op, out);
	meta_read_end(w->m, &op);
	if (rc || op.nblocks == 0 || !run.baddr)
		return rc;
	if (end > lo)
		memset(out + (lo - at), 0, min_u64(end, at + BLOCK_SIZE) - lo);
	return 1;
}

int sh_punch_edges(struct meta_world *w, struct meta_op *op, uint64_t offset, uint64_t length)
{
	static uint8_t bytes[2 * BLOCK_SIZE];
	struct meta_op st = sh_op(META_OP_STAT, NULL);
	const uint64_t first = offset / BLOCK_SIZE;
	uint64_t end, last;
	int rc, n = 0;

	op->offset = offset;
	op->length = length;
	st.target = op->target;
	rc = meta_world_run(w, &st);
	end = min_u64(offset + length, st.attr.size);
	if (rc || end <= offset)
		return rc;
	last = (end - 1) / BLOCK_SIZE;
	if (offset % BLOCK_SIZE)
		n = punch_edge(w, &op->target, first, offset, end, bytes);
	if (n < 0)
		return n;
	if (end % BLOCK_SIZE && end < st.attr.size && !(last == first && offset % BLOCK_SIZE)) {
		rc = punch_edge(w, &op->target, last, offset, end, bytes + n * BLOCK_SIZE);
		n += rc;
	}
	if (rc < 0 || n == 0)
		return rc < 0 ? rc : 0;
	return meta_world_data(w, bytes, (uint64_t)n * BLOCK_SIZE, op->runs, &op->nruns, op->crcs);
}

int sh_punch(struct meta_world *w, const struct meta_handle *h, uint64_t offset, uint64_t length)
{
	struct meta_op op = op_of(META_OP_PUNCH, h);
	int rc = sh_punch_edges(w, &op, offset, length);

	return rc ? rc : meta_world_run(w, &op);
}

int64_t sh_seek(struct meta_world *w, const struct meta_handle *h, uint64_t offset, bool hole)
{
	struct meta_op op;
	int rc;

	do {
		op = op_of(META_OP_SEEK, h);
		op.offset = offset;
		op.flags = hole ? META_SEEK_HOLE : 0;
		rc = meta_world_run(w, &op);
		offset = op.length;
	} while (rc == 0 && op.seek_more);
	return rc ? rc : (int64_t)op.length;
}

static struct meta_op xattr_op(enum meta_op_type type, const char *path, const char *name)
{
	struct meta_op op = sh_op(type, path);

	op.xattr = name;
	op.xattr_len = name ? (uint32_t)strlen(name) : 0;
	return op;
}

int sh_xattr_set(struct meta_world *w, const char *path, const char *name, const void *value,
		 uint32_t len, uint32_t flags)
{
	static uint8_t copy[META_XATTR_MAX + 1];
	struct meta_op op = xattr_op(META_OP_XATTR_SET, path, name);

	memcpy(copy, value, len);
	op.list_out = copy;
	op.list_used_bytes = len;
	op.flags = flags;
	return meta_world_run(w, &op);
}

int sh_xattr_del(struct meta_world *w, const char *path, const char *name)
{
	struct meta_op op = xattr_op(META_OP_XATTR_DEL, path, name);

	return meta_world_run(w, &op);
}

int64_t sh_xattr_get(struct meta_world *w, const char *path, const char *name, void *value,
		     uint32_t max)
{
	struct meta_op op = xattr_op(META_OP_XATTR_GET, path, name);
	int rc;

	op.list_out = value;
	op.list_max_bytes = max;
	rc = meta_world_run(w, &op);
	return rc ? rc : (int64_t)op.list_used_bytes;
}

int64_t sh_xattr_list(struct meta_world *w, const char *path, void *names, uint32_t max)
{
	uint64_t index = 0;
	uint32_t used = 0;
	bool more;

	do {
		struct meta_op op = xattr_op(META_OP_XATTR_LIST, path, NULL);
		int rc;

		op.offset = index;
		op.list_out = (char *)names + used;
		op.list_max_bytes = max - used;
		rc = meta_world_run(w, &op);
		if (rc)
			return rc;
		used += op.list_used_bytes;
		index = op.length;
		more = op.seek_more;
	} while (more);
	return used;
}

static int64_t read_target(struct meta_world *w, const struct meta_target *t, uint8_t *bytes,
			   uint64_t bytes_max)
{
	uint64_t at = 0;

	for (;;) {
		struct meta_op op = sh_op(META_OP_READ, NULL);
		int rc;

		op.target = *t;
		op.offset = at;
		op.length = bytes_max;
		rc = meta_world_run(w, &op);
		if (!rc && op.attr.size > bytes_max)
			rc = -EMSGSIZE;
		if (!rc && at < op.attr.size)
			rc = meta_world_fetch(w, &op, bytes + at);
		meta_read_end(w->m, &op);
		if (rc || at >= op.attr.size)
			return rc ? rc : (int64_t)op.attr.size;
		at += (uint64_t)op.nblocks * BLOCK_SIZE;
	}
}

int64_t sh_read(struct meta_world *w, const char *path, void *bytes, uint64_t bytes_max)
{
	const struct meta_target t = { .path = path, .path_len = (uint32_t)strlen(path) };

	return read_target(w, &t, bytes, bytes_max);
}

int64_t sh_read_handle(struct meta_world *w, const struct meta_handle *h, void *bytes,
		       uint64_t bytes_max)
{
	const struct meta_target t = { .handle = *h };

	return read_target(w, &t, bytes, bytes_max);
}

int64_t sh_count(struct meta_world *w, const char *path, uint32_t entries_max)
{
	static _Alignas(8) uint8_t buf[16384];
	struct meta_op op = sh_op(META_OP_LIST, path);
	int64_t count = 0;

	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	op.list_max_entries = entries_max;
	do {
		int rc = meta_world_run(w, &op);

		if (rc)
			return rc;
		count += op.list_count;
	} while (!op.list_end);
	return count;
}
