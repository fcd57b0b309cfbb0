/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Random operations.  Bytes at any offset become whole blocks as they do in the appliance: what
 * is not overwritten is read and merged.
 */
#include "test/lib/meta_random_internal.h"
#include "test/lib/meta_shell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS 4u /* users and groups that are somebody's, mostly */

/* ---- what to do it with ------------------------------------------------------------------- */

static void random_name(struct meta_random *r, char *out)
{
	const uint64_t kind = below(r, 100);

	if (kind < 45)
		snprintf(out, 300, "f%u", (unsigned)below(r, 8));
	else if (kind < 90)
		snprintf(out, 300, "d%u", (unsigned)below(r, 3));
	else if (kind < 94)
		snprintf(out, 300, "s%u", (unsigned)below(r, 3));
	else if (kind < 96)
		memcpy(out, ".", 2);
	else if (kind < 98)
		memcpy(out, "..", 3);
	else {
		memset(out, 'x', 260);
		out[250 + below(r, 9)] = 0;
	}
}

/* Few directories, so that most paths lead somewhere. */
static const char *const dirs[] = { "d0",    "d1",    "d2",    "d0/d0", "d0/d1", "d0/d2",
				    "d1/d0", "d1/d1", "d1/d2", "d2/d0", "d2/d1" };

static void random_path(struct meta_random *r, char *out)
{
	const uint64_t depth = 1 + below(r, 3);

	if (below(r, 10) < 6) {
		snprintf(out, 300, "%s/%c%u", dirs[below(r, ARRAY_LEN(dirs))],
			 "fffffffdns"[below(r, 10)], (unsigned)below(r, 8));
		return;
	}
	if (below(r, 100) == 0) {
		snprintf(out, 300, "%s", below(r, 2) ? "/" : "");
		return;
	}
	out += snprintf(out, 300, "%s", below(r, 2) ? "/" : "");
	for (uint64_t i = 0; i < depth; i++) {
		char name[300];

		random_name(r, name);
		if (i + 1 < depth && name[0] == 'f' && below(r, 10))
			name[0] = 'd', name[1] = (char)('0' + below(r, 3));
		out += snprintf(out, 300, "%s", name);
		if (i + 1 < depth || below(r, 30) == 0)
			out += snprintf(out, 300, "%s", below(r, 20) ? "/" : "//");
	}
}

static uint64_t random_size(struct meta_random *r)
{
	switch (below(r, 20)) {
	case 0:
		return 0;
	case 1:
	case 2:
	case 3:
	case 4:
		return 1 + below(r, META_INLINE_MAX);
	case 5:
		return below(r, 16) * BLOCK_SIZE;
	case 6:
		return below(r, 8) ? 1 + below(r, 600000) : 1 + below(r, 4u << 20);
	default:
		return 1 + below(r, 40000);
	}
}

static void random_bytes(struct meta_random *r, uint64_t size)
{
	uint64_t at = 0;

	for (; at + 8 <= size; at += 8) {
		const uint64_t v =
			at % 512 ? at * 0x9e3779b97f4a7c15ull + r->ops : rand_u64(&r->rand);

		memcpy(r->bytes + at, &v, 8);
	}
	for (; at < size; at++)
		r->bytes[at] = (uint8_t)rand_u64(&r->rand);
}

/* One of few users, who are in one or two of as few groups; or nobody, who may everything. */
static void random_who(struct meta_random *r)
{
	r->who = (struct meta_who){ .uid = 1 + (uint32_t)below(r, IDS - 1) };
	if (below(r, 3) == 0)
		r->who.gids = 1 + (uint32_t)below(r, 2);
	for (uint32_t i = 0; i < r->who.gids; i++)
		r->who.gid[i] = (uint32_t)below(r, IDS);
	model_as(r->fs, r->who.gids ? &r->who : NULL);
}

static struct model_set random_set(struct meta_random *r)
{
	return (struct model_set){
		.mask = (uint32_t)below(r, 32),
		.mode = (uint32_t)below(r, 010000) | (below(r, 2) ? 0333 : 0),
		.uid = (uint32_t)below(r, below(r, 4) ? IDS : 3000),
		.gid = (uint32_t)below(r, below(r, 4) ? IDS : 3000),
		.mtime_ns = (int64_t)below(r, 1000000),
		.atime_ns = (int64_t)below(r, 1000000),
	};
}

static void op_set(struct meta_op *op, const struct model_set *s)
{
	op->set_mask = s->mask;
	op->set = (struct meta_attr){ .mode = s->mode,
				      .uid = s->uid,
				      .gid = s->gid,
				      .mtime_ns = s->mtime_ns,
				      .atime_ns = s->atime_ns };
}

/* Content for a put, write or truncate; false: the store is full. */
static bool op_bytes(struct meta_random *r, struct meta_op *op, const uint8_t *bytes, uint64_t size)
{
	return meta_world_data(r->w, bytes, size, r->runs, &op->nruns, r->crcs) == 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void check_attr(struct meta_random *r, const struct meta_attr *a, const struct model_attr *b)
{
	SAME(r, "type", a->type, b->type);
	SAME(r, "mode", a->mode, b->mode);
	SAME(r, "uid", a->uid, b->uid);
	SAME(r, "gid", a->gid, b->gid);
	SAME(r, "size", a->size, b->size);
	SAME(r, "names", a->nlink, b->nlink);
	SAME(r, "mtime", a->mtime_ns, b->mtime_ns);
	SAME(r, "ctime", a->ctime_ns, b->ctime_ns);
	SAME(r, "atime", a->atime_ns, b->atime_ns);
	SAME(r, "a directory has a number", a->dir != 0, b->type == META_TYPE_DIR);
}

/* Blocks [offset, offset + length) of a file to r->read, in as many pieces as it takes. */
static int read_all(struct meta_random *r, const struct meta_target *t, uint64_t offset,
		    uint64_t length)
{
	uint64_t at = offset / BLOCK_SIZE * BLOCK_SIZE;
	const uint64_t end = offset + length, base = at;

	while (at < end) {
		struct meta_op op = op_new(r, META_OP_READ, "");
		int rc;

		op.target = *t;
		op.offset = at;
		op.length = end - at;
		op.runs_max = 1 + (uint32_t)below(r, 40);
		op.blocks_max = 1 + (uint32_t)below(r, META_IO_BLOCKS_MAX);
		rc = run(r, &op);
		if (rc)
			return rc;
		SAME(r, "a planned read's checksums",
		     meta_world_fetch(r->w, &op, r->read + at - base), 0);
		meta_read_end(r->w->m, &op);
		if (op.nblocks)
			at += (uint64_t)op.nblocks * BLOCK_SIZE;
		else
			return 0; /* the end of the file */
	}
	return 0;
}

static void check_content(struct meta_random *r, const struct meta_target *t,
			  const struct model_node *n, uint64_t size)
{
	ASSERT(size <= META_RANDOM_FILE_MAX);
	SAME(r, "read", read_all(r, t, 0, size), 0);
	SAME(r, "bytes in the model", model_node_read(n, 0, r->bytes, size), size);
	SAME(r, "content", memcmp(r->read, r->bytes, size), 0);
}

static void do_stat(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_STAT, path);
	struct model_attr a;
	int rc, want;

	op.flags = below(r, 2) ? META_NOFOLLOW : 0;
	rc = run(r, &op);
	want = model_stat(r->fs, path, op.flags, &a);
	SAME(r, path, rc, want);
	if (rc == 0)
		check_attr(r, &op.attr, &a);
}

static void do_read(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_READ, path);
	int64_t want;
	int rc;

	op.offset = below(r, 60000);
	op.length = 1 + below(r, 60000);
	rc = run(r, &op);
	want = model_read(r->fs, path, op.offset / BLOCK_SIZE * BLOCK_SIZE, r->bytes,
			  op.length + op.offset % BLOCK_SIZE);
	SAME(r, path, rc, want < 0 ? want : 0);
	if (rc)
		return;
	if (op.offset >= op.attr.size) {
		SAME(r, "blocks behind the end", op.nblocks + op.inline_len, 0);
	} else {
		SAME(r, "fetch", meta_world_fetch(r->w, &op, r->read), 0);
		SAME(r, "blocks", op.nblocks, div_up((uint64_t)want, BLOCK_SIZE));
		SAME(r, "content", memcmp(r->read, r->bytes, (size_t)want), 0);
	}
	meta_read_end(r->w->m, &op);
}

static void do_readlink(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_READLINK, path);
	char text[META_PATH_MAX + 1];
	const int rc = run(r, &op);
	const int64_t want = model_readlink(r->fs, path, text);

	SAME(r, path, rc, want < 0 ? want : 0);
	if (rc)
		return;
	SAME(r, "length", op.length, want);
	SAME(r, "text", strcmp(r->inline_buf, text), 0);
}

/* Every entry once, in pieces of random size, each with the attributes that stat shows. */
static void check_list(struct meta_random *r, const char *path, const struct model_node *dir)
{
	_Alignas(8) static uint8_t buf[8192];
	static bool seen[65536];
	struct meta_op op = op_new(r, META_OP_LIST, path);
	uint32_t count = 0, entries = 0;
	struct model_node *n;
	const char *name;

	while (model_entry(dir, entries, &name, &n))
		seen[entries++] = false;
	op.list_out = buf;
	do {
		op.list_max_bytes = 600 + (uint32_t)below(r, sizeof(buf) - 600);
		op.list_max_entries = (uint32_t)below(r, 20);
		SAME(r, path, run(r, &op), 0);
		for (uint32_t at = 0, i = 0; i < op.list_count; i++) {
			struct meta_dirent e;
			struct model_attr a;
			uint32_t k = 0;

			memcpy(&e, buf + at, sizeof(e));
			while (model_entry(dir, k, &name, &n) &&
			       (strlen(name) != e.name_len ||
				memcmp(name, buf + at + sizeof(e), e.name_len)))
				k++;
			SAME(r, "a name of the listing is in the model", k < entries, true);
			SAME(r, "a name comes once", seen[k], false);
			seen[k] = true;
			count++;
			model_node_attr(n, &a);
			check_attr(r, &e.attr, &a);
			at += e.entry_bytes;
		}
	} while (!op.list_end);
	SAME(r, "entries listed", count, entries);
}

static void do_list(struct meta_random *r, const char *path)
{
	_Alignas(8) uint8_t buf[4096];
	struct meta_op op = op_new(r, META_OP_LIST, path);
	struct model_node *n;
	int err, rc;

	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	op.list_max_entries = 2;
	rc = run(r, &op);
	n = model_node(r->fs, path, 0, &err);
	if (n) {
		struct model_attr a;

		model_node_attr(n, &a);
		err = a.type == META_TYPE_DIR ? model_may_list(n) : -ENOTDIR;
	}
	SAME(r, path, rc, err);
	if (rc == 0)
		check_list(r, path, n);
}

/* ---- changing ------------------------------------------------------------------------------- */

static void do_put(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_PUT, path);
	const struct model_set set = random_set(r);
	int rc;

	op.size = random_size(r);
	op.flags = below(r, 6) ? 0 : (uint32_t)(1u << below(r, 4) & ~(uint32_t)META_BY_INLINE);
	op_set(&op, &set);
	random_bytes(r, op.size);
	if (op.size <= META_INLINE_MAX && below(r, 8)) {
		op.flags |= META_BY_INLINE;
		op.inline_len = (uint32_t)op.size;
		memcpy(r->inline_buf, r->bytes, op.size);
	} else if (!op_bytes(r, &op, r->bytes, op.size)) {
		return;
	}
	rc = run(r, &op);
	if (rc == -ENOSPC || rc == -EFBIG) /* full; zones too small for so much at once */
		return;
	note(r, path, rc, model_put(r->fs, path, op.flags, r->bytes, op.size, &set, op.wall_ns));
}

static int write_piece(struct meta_random *r, const struct meta_handle *h, uint64_t block,
		       uint64_t bytes, uint64_t size)
{
	struct meta_op op = op_new(r, META_OP_WRITE, "");

	op.target.path = NULL;
	op.target.handle = *h;
	op.offset = block * BLOCK_SIZE;
	op.size = size;
	if (!op_bytes(r, &op, r->bytes + block * BLOCK_SIZE, bytes))
		return -ENOSPC;
	return run(r, &op);
}

/* A put in pieces: hidden, written by handle, then named or given up. */
static void do_put_long(struct meta_random *r, const char *path)
{
	struct meta_op begin = op_new(r, META_OP_PUT_BEGIN, path), end;
	const struct model_set set = random_set(r);
	const uint64_t size = below(r, 10) ? random_size(r) : 1 + below(r, META_RANDOM_FILE_MAX);
	int rc = run(r, &begin);

	if (rc)
		return;
	SAME(r, "a hidden file has no name: stat", begin.attr.nlink, 0);
	random_bytes(r, size);
	memset(r->bytes + size, 0, BLOCK_SIZE);
	for (uint64_t b = 0; b < div_up(size, BLOCK_SIZE) && !rc;) {
		const uint64_t n =
			min_u64(1 + below(r, META_IO_BLOCKS_MAX), div_up(size, BLOCK_SIZE) - b);

		rc = write_piece(r, &begin.attr.handle, b, n * BLOCK_SIZE,
				 min_u64(size, (b + n) * BLOCK_SIZE));
		b += n;
	}
	end = op_new(r, META_OP_PUT_COMMIT, path);
	end.other.handle = begin.attr.handle;
	op_set(&end, &set);
	end.set_mask |= META_SET_MODE | META_SET_UID | META_SET_GID | META_SET_ATIME;
	if (!rc && below(r, 3)) {
		struct model_set all = set;

		rc = run(r, &end);
		all.mask = end.set_mask;
		if (rc != -ENOSPC && rc != -EFBIG)
			note(r, path, rc,
			     model_put(r->fs, path, 0, r->bytes, size, &all, end.wall_ns));
		if (!rc)
			return;
	}
	end = op_new(r, META_OP_PUT_ABORT, path);
	end.target.path = NULL;
	end.target.handle = begin.attr.handle;
	SAME(r, "abort", run(r, &end), 0);
	SAME(r, "abort twice", run(r, &end), -ESTALE);
}

static bool stat_file(struct meta_random *r, const char *path, struct meta_attr *out)
{
	struct meta_op op = op_new(r, META_OP_STAT, path);

	if (run(r, &op) || op.attr.type != META_TYPE_FILE)
		return false;
	*out = op.attr;
	return true;
}

static uint64_t tail_offset(struct meta_random *r, const struct meta_handle *h)
{
	struct meta_op op = op_new(r, META_OP_READ, "");

	op.target.path = NULL;
	op.target.handle = *h;
	op.length = 1;
	SAME(r, "read of the first byte", run(r, &op), 0);
	meta_read_end(r->w->m, &op);
	return op.tail_offset;
}

/* Writes random bytes anywhere in the file: whole blocks, merged with the old content. */
static int write_merged(struct meta_random *r, const struct meta_attr *a, uint64_t offset,
			uint64_t length)
{
	struct meta_op op = op_new(r, META_OP_WRITE, "");
	const uint64_t first = offset / BLOCK_SIZE, end = offset + length;
	const uint64_t last = (end - 1) / BLOCK_SIZE * BLOCK_SIZE, size = max_u64(end, a->size);
	const uint64_t bytes = end - first * BLOCK_SIZE, tail = tail_offset(r, &a->handle);
	uint64_t in_blocks = div_up(bytes, BLOCK_SIZE) * BLOCK_SIZE;

	op.target.path = NULL;
	op.target.handle = a->handle;
	op.offset = first * BLOCK_SIZE;
	op.size = end;
	memset(r->read, 0, div_up(bytes, BLOCK_SIZE) * BLOCK_SIZE);
	SAME(r, "read for a merge", read_all(r, &op.target, op.offset, bytes), 0);
	memcpy(r->read + offset - op.offset, r->bytes, length);
	if ((tail == META_NO_TAIL || (tail >= op.offset && tail <= last)) &&
	    size - last < BLOCK_SIZE && below(r, 8)) { /* the last block may be the tail */
		op.flags = META_BY_INLINE;
		op.inline_len = (uint32_t)(size - last);
		in_blocks = last - op.offset;
		memcpy(r->inline_buf, r->read + in_blocks, op.inline_len);
	}
	if (in_blocks && !op_bytes(r, &op, r->read, in_blocks))
		return -ENOSPC;
	op.wall_ns = ++r->now_ns;
	return run(r, &op);
}

static void do_write(struct meta_random *r, const char *path)
{
	uint64_t offset, length;
	struct meta_attr a;
	int rc;

	if (!stat_file(r, path, &a))
		return;
	offset = below(r, 4) ? below(r, a.size + 5000) : below(r, META_RANDOM_FILE_MAX / 2);
	length = below(r, 3) ? 1 + below(r, 20000) : BLOCK_SIZE;
	if (length == BLOCK_SIZE)
		offset = offset / BLOCK_SIZE * BLOCK_SIZE;
	if (below(r, 4) == 0) { /* within what a record holds, often */
		offset = below(r, min_u64(a.size + 1, META_INLINE_MAX));
		length = 1 + below(r, 200);
	}
	if (offset + length > min_u64(META_RANDOM_FILE_MAX, META_IO_BLOCKS_MAX * BLOCK_SIZE))
		return;
	random_bytes(r, length);
	rc = write_merged(r, &a, offset, length);
	if (rc == -ENOSPC || rc == -EFBIG) /* full; zones too small for so much at once */
		return;
	note(r, path, rc, model_write(r->fs, path, offset, r->bytes, length, r->now_ns));
}

/* The last block that stays, with zeros behind the new end; 0 runs when it is a hole. */
static int truncate_tail(struct meta_random *r, struct meta_op *op)
{
	struct meta_op rd = op_new(r, META_OP_READ, "");

	rd.target = op->target;
	rd.offset = op->size / BLOCK_SIZE * BLOCK_SIZE;
	rd.length = 1;
	rd.blocks_max = 1;
	SAME(r, "read of a tail", run(r, &rd), 0);
	SAME(r, "fetch of a tail", meta_world_fetch(r->w, &rd, r->read), 0);
	meta_read_end(r->w->m, &rd);
	op->nruns = 0;
	if (!rd.nblocks || !rd.runs[0].baddr)
		return 0;
	memset(r->read + op->size % BLOCK_SIZE, 0, BLOCK_SIZE - op->size % BLOCK_SIZE);
	if (rd.tail_offset >= rd.offset && below(r, 2)) {
		op->flags = META_BY_INLINE;
		op->inline_len = op->size % BLOCK_SIZE;
		memcpy(r->inline_buf, r->read, op->inline_len);
		return 0;
	}
	return op_bytes(r, op, r->read, BLOCK_SIZE) ? 0 : -ENOSPC;
}

static void do_truncate(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_TRUNCATE, "");
	struct meta_attr a;
	int rc;

	if (!stat_file(r, path, &a))
		return;
	op.target.path = NULL;
	op.target.handle = a.handle;
	op.size = below(r, 3) ? below(r, a.size + 1) : below(r, META_RANDOM_FILE_MAX);
	if (below(r, 8) == 0)
		op.size = below(r, META_INLINE_MAX);
	if (op.size < a.size && op.size % BLOCK_SIZE && truncate_tail(r, &op)) {
		return;
	}
	op.wall_ns = ++r->now_ns;
	rc = run(r, &op);
	note(r, path, rc, model_truncate(r->fs, path, op.size, op.wall_ns));
}

static void do_rename(struct meta_random *r, const char *from, const char *to)
{
	struct meta_op op = op_new(r, META_OP_RENAME, from);

	op.other = (struct meta_target){ .path = to, .path_len = (uint32_t)strlen(to) };
	op.flags = below(r, 8) ? (below(r, 3) ? 0 : META_EXCHANGE) : META_EXCL;
	note(r, to, run(r, &op), model_rename(r->fs, from, to, op.flags, op.wall_ns));
}

/* The file that the path names, by its handle. */
static void link_by_handle(struct meta_random *r, struct meta_op *op)
{
	struct meta_op look = { .type = META_OP_STAT,
				.target = op->target,
				.flags = META_NOFOLLOW,
				.wall_ns = op->wall_ns };

	if (run(r, &look))
		return;
	op->target.path = NULL;
	op->target.handle = look.attr.handle;
}

static void do_link(struct meta_random *r, const char *from, const char *to)
{
	struct meta_op op = op_new(r, META_OP_LINK, from);

	op.other = (struct meta_target){ .path = to, .path_len = (uint32_t)strlen(to) };
	op.flags = below(r, 2) ? META_NOFOLLOW : 0;
	if (op.flags && op.wall_ns % 2)
		link_by_handle(r, &op);
	note(r, to, run(r, &op), model_link(r->fs, from, to, op.flags, op.wall_ns));
}

static void do_symlink(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_SYMLINK, path);
	const struct model_set set = random_set(r);
	char text[META_PATH_MAX + 1];

	uint64_t dots = below(r, 10) ? 0 : below(r, 1400);

	for (uint64_t i = 0; i < dots; i++)
		memcpy(text + 2 * i, "./", 2);
	random_path(r, text + 2 * dots);
	op.inline_buf = text;
	op.length = strlen(text);
	op_set(&op, &set);
	note(r, path, run(r, &op), model_symlink(r->fs, text, path, &set, op.wall_ns));
}

static void do_mkdir(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_MKDIR, path);
	const struct model_set set = random_set(r);

	op_set(&op, &set);
	note(r, path, run(r, &op), model_mkdir(r->fs, path, &set, op.wall_ns));
}

static void do_setattr(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_SETATTR, path);
	const struct model_set set = random_set(r);

	op.flags = below(r, 2) ? META_NOFOLLOW : 0;
	op_set(&op, &set);
	note(r, path, run(r, &op), model_setattr(r->fs, path, op.flags, &set, op.wall_ns));
}

static void do_unlink(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_UNLINK, path);
	struct meta_attr a;
	const bool had = stat_file(r, path, &a);
	const int rc = run(r, &op);

	note(r, path, rc, model_unlink(r->fs, path, op.wall_ns));
	(void)had;
}

static void do_rmdir(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_RMDIR, path);

	note(r, path, run(r, &op), model_rmdir(r->fs, path, op.wall_ns));
}

static void do_rmtree(struct meta_random *r, const char *path)
{
	struct meta_op op = op_new(r, META_OP_RMTREE, path);

	note(r, path, run(r, &op), model_rmtree(r->fs, path, op.wall_ns));
	meta_world_settle(r->w); /* until then files with names elsewhere have all their links */
}

/* Makes a call that is one operation of the store, as a random user. */
static void as_somebody(struct meta_random *r, const char *a, const char *b)
{
	static void (*const does[])(struct meta_random *, const char *) = {
		do_put,
		do_put,
		do_put_long,
		do_mkdir,
		do_rmdir,
		do_rmtree,
		do_unlink,
		do_symlink,
		do_setattr,
		do_setattr,
		do_list,
		do_read,
		do_readlink,
		do_stat,
		meta_random__xattr_change,
		meta_random__xattr_get,
	};
	const uint64_t which = below(r, ARRAY_LEN(does) + 4);

	random_who(r);
	if (which < ARRAY_LEN(does))
		does[which](r, a);
	else if (which % 2)
		do_rename(r, a, b);
	else
		do_link(r, a, b);
	r->who.gids = 0;
	model_as(r->fs, NULL);
}

static void one(struct meta_random *r)
{
	char a[1200], b[1200];

	random_path(r, a);
	random_path(r, b);
	if (below(r, 2)) {
		as_somebody(r, a, b);
		return;
	}
	switch (below(r, 34)) {
	case 0 ... 3:
		do_put(r, a);
		break;
	case 4:
		do_put_long(r, a);
		break;
	case 5 ... 7:
		do_write(r, a);
		break;
	case 8 ... 9:
		do_truncate(r, a);
		break;
	case 10 ... 11:
		do_mkdir(r, a);
		break;
	case 12:
		if (below(r, 3))
			do_rmdir(r, a);
		else
			do_rmtree(r, a);
		break;
	case 13:
		do_unlink(r, a);
		break;
	case 14 ... 15:
		do_rename(r, a, b);
		break;
	case 16:
		do_symlink(r, a);
		break;
	case 17:
		do_setattr(r, a);
		break;
	case 18:
		do_readlink(r, a);
		break;
	case 19:
		do_list(r, a);
		break;
	case 20 ... 21:
		do_read(r, a);
		break;
	case 22 ... 23:
		do_link(r, a, b);
		break;
	case 24 ... 25:
		meta_random__punch(r, a);
		break;
	case 26:
		meta_random__seek(r, a);
		break;
	case 27 ... 29:
		meta_random__xattr_change(r, a);
		break;
	case 30 ... 31:
		meta_random__xattr_get(r, a);
		break;
	default:
		do_stat(r, a);
	}
}

/* ---- all of it ------------------------------------------------------------------------------ */

uint64_t meta_random_compare(struct meta_random *r)
{
	char path[META_PATH_MAX + 1] = "";
	struct model_node *n;
	uint64_t blocks = 0;

	while ((n = model_next(r->fs, path))) {
		struct meta_op op = op_new(r, META_OP_STAT, path);
		struct model_attr a;

		op.flags = META_NOFOLLOW;
		model_node_attr(n, &a);
		SAME(r, path, run(r, &op), 0);
		check_attr(r, &op.attr, &a);
		if (model_first_visit(n, r->ops + 1))
			blocks += op.attr.blocks;
		op.target.path = NULL;
		op.target.handle = op.attr.handle;
		if (a.type == META_TYPE_FILE)
			check_content(r, &op.target, n, a.size);
		else if (a.type == META_TYPE_DIR)
			check_list(r, path, n);
		else
			do_readlink(r, path);
		meta_random__compare_xattrs(r, path, n);
	}
	meta_random__compare_totals(r);
	return blocks;
}

void meta_random_run(struct meta_random *r, uint64_t ops)
{
	for (const uint64_t end = r->ops + ops; r->ops < end; r->ops++) {
		one(r);
		if (r->ops % 16 == 0)
			meta_totals_round(r->w->m);
		if (r->remounts_every && below(r, r->remounts_every) == 0)
			r->w->remount(r->w);
	}
}

void meta_random_init(struct meta_random *r, struct meta_world *w, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->w = w;
	r->now_ns = 1;
	r->fs = model_new(r->now_ns);
	rand_seed(&r->rand, seed);
	r->bytes = calloc(2, META_RANDOM_FILE_MAX + 2 * BLOCK_SIZE);
	ASSERT(r->bytes);
	r->read = r->bytes + META_RANDOM_FILE_MAX + 2 * BLOCK_SIZE;
	for (uint32_t i = 0; i < ARRAY_LEN(dirs); i++)
		do_mkdir(r, dirs[i]);
}

void meta_random_end(struct meta_random *r)
{
	model_end(r->fs);
	free(r->bytes);
}
