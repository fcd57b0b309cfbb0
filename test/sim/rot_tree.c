/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/rot_tree.h"
#include "test/lib/meta_random_internal.h"
#include "test/lib/meta_shell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------- */

static uint64_t blocks_free(struct meta_box *b, uint64_t *total)
{
	struct meta_statfs st;
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };

	ASSERT(meta_world_run(&b->w, &op) == 0);
	*total = st.blocks_total;
	return st.blocks_free;
}

/* A put whose client may ask for it again. */
static void put_with_receipt(struct meta_random *r, uint32_t i)
{
	char path[16];
	struct meta_op op;
	int err;

	(void)snprintf(path, sizeof(path), "r%u", i);
	op = op_new(r, META_OP_PUT, path);
	op.size = 9000 + i;
	op.receipt = (struct meta_receipt_id){ .client = 77, .number = i + 1, .slot = 3 };
	for (uint32_t k = 0; k < op.size; k++)
		r->bytes[k] = (uint8_t)(k / 100 + i);
	if (meta_world_data(r->w, r->bytes, op.size, r->runs, &op.nruns, r->crcs))
		return;
	err = run(r, &op);
	ASSERT(err == 0);
	ASSERT(model_put(r->fs, path, 0, r->bytes, op.size, NULL, op.wall_ns) == 0);
}

/* One that its session never ended: an orphan, with blocks. */
static void put_hidden(struct meta_random *r)
{
	static uint8_t bytes[3 * BLOCK_SIZE];
	struct meta_handle h;

	memset(bytes, 0x33, sizeof(bytes));
	if (sh_put_begin(r->w, "hidden", &h) == 0)
		(void)!sh_write(r->w, &h, 0, bytes, sizeof(bytes), sizeof(bytes));
}

static void put_large(struct meta_random *r)
{
	const uint64_t size = 150 * BLOCK_SIZE + 10;
	struct meta_op op = op_new(r, META_OP_PUT, "large");

	op.size = size;
	for (uint64_t k = 0; k < size; k++)
		r->bytes[k] = (uint8_t)(k / 4096 + k);
	if (meta_world_data(r->w, r->bytes, size, r->runs, &op.nruns, r->crcs))
		return;
	if (run(r, &op) == 0)
		ASSERT(model_put(r->fs, "large", 0, r->bytes, size, NULL, op.wall_ns) == 0);
}

static void work(struct meta_random *r, struct meta_box *b, uint32_t ops, uint64_t keep_percent)
{
	uint64_t total, left = blocks_free(b, &total);

	for (uint32_t i = 0; i < ops && left * 100 > total * keep_percent; i += 5) {
		meta_random_run(r, 5);
		left = blocks_free(b, &total);
	}
}

void rot_tree_make(struct meta_random *r, struct meta_box *b, uint64_t seed)
{
	static const uint32_t nshards[] = { 1, 2, 4 };

	meta_box_init(b, seed, 2u << 20, nshards[seed / 2 % 3]);
	ASSERT(meta_box_format(b) == 0);
	meta_random_init(r, &b->w, seed);
	put_large(r);
	work(r, b, 250, 45);
	if (seed % 3) {
		ASSERT(meta_box_stop(b) == 0);
		ASSERT(meta_box_mount(b) == 0);
		work(r, b, 40, 35);
	}
	put_hidden(r);
	for (uint32_t i = 0; i < 3; i++)
		put_with_receipt(r, i);
	if (seed % 3) {
		meta_box_rest(b);
		meta_box_drop(b);
	} else {
		ASSERT(meta_box_stop(b) == 0);
	}
	meta_box_keep(b);
}

/* ---- reading ---------------------------------------------------------------------------- */

static enum rot_answer answer_of(int64_t rc)
{
	return rc == -EIO ? ROT_REFUSED : rc == -EBADMSG ? ROT_BAD_BLOCK : ROT_WRONG;
}

static enum rot_answer read_bytes(struct meta_box *b, const struct rot_item *it)
{
	static uint8_t *got, *want;
	int64_t size;

	if (!got) {
		got = malloc(2 * (META_RANDOM_FILE_MAX + 2ul * BLOCK_SIZE));
		ASSERT(got);
		want = got + META_RANDOM_FILE_MAX + 2ul * BLOCK_SIZE;
	}
	size = sh_read(&b->w, it->path, got, META_RANDOM_FILE_MAX);
	if (size < 0)
		return answer_of(size);
	ASSERT(model_node_read(it->node, 0, want, it->attr.size) == (int64_t)it->attr.size);
	return (uint64_t)size == it->attr.size && memcmp(got, want, it->attr.size) == 0 ? ROT_GOOD
											: ROT_WRONG;
}

static enum rot_answer read_text(struct meta_box *b, const struct rot_item *it)
{
	char text[META_PATH_MAX + 1];
	int rc = sh_readlink(&b->w, it->path, text);

	if (rc)
		return answer_of(rc);
	return strcmp(text, model_node_text(it->node)) == 0 ? ROT_GOOD : ROT_WRONG;
}

static bool is_entry(const struct rot_item *it, const char *name, uint32_t len)
{
	struct model_node *n;
	const char *has;

	for (uint32_t i = 0; model_entry(it->node, i, &has, &n); i++)
		if (strlen(has) == len && memcmp(has, name, len) == 0)
			return true;
	return false;
}

static enum rot_answer read_list(struct meta_box *b, const struct rot_item *it)
{
	static _Alignas(8) uint8_t buf[16384];
	struct meta_op op = sh_op(META_OP_LIST, it->path);
	uint32_t count = 0, want = 0;
	struct model_node *n;
	const char *name;

	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	op.list_max_entries = 40;
	do {
		int rc = meta_world_run(&b->w, &op);

		if (rc)
			return answer_of(rc);
		for (uint32_t at = 0, i = 0; i < op.list_count; i++, count++) {
			struct meta_dirent e;

			memcpy(&e, buf + at, sizeof(e));
			if (!is_entry(it, (const char *)buf + at + sizeof(e), e.name_len))
				return ROT_WRONG;
			at += e.entry_bytes;
		}
	} while (!op.list_end);
	while (model_entry(it->node, want, &name, &n))
		want++;
	return count == want ? ROT_GOOD : ROT_WRONG;
}

static enum rot_answer read_xattrs(struct meta_box *b, const struct rot_item *it)
{
	static uint8_t got[META_XATTR_MAX + 1];
	const char *name;
	const void *value;
	uint32_t len;

	for (uint32_t i = 0; model_node_xattr(it->node, i, &name, &value, &len); i++) {
		int64_t rc = sh_xattr_get(&b->w, it->path, name, got, sizeof(got));

		if (rc < 0)
			return answer_of(rc);
		if (rc != (int64_t)len || memcmp(got, value, len) != 0)
			return ROT_WRONG;
	}
	return ROT_GOOD;
}

enum rot_answer rot_read(struct meta_box *b, const struct rot_item *it)
{
	const struct model_attr *a = &it->attr;
	struct meta_attr got;
	enum rot_answer as;
	int rc = sh_stat(&b->w, it->path, META_NOFOLLOW, &got);

	if (rc)
		return answer_of(rc);
	if (got.type != a->type || got.mode != a->mode || got.uid != a->uid || got.gid != a->gid ||
	    got.size != a->size || got.nlink != a->nlink || got.mtime_ns != a->mtime_ns ||
	    got.ctime_ns != a->ctime_ns || got.atime_ns != a->atime_ns)
		return ROT_WRONG;
	as = a->type == META_TYPE_FILE  ? read_bytes(b, it)
	     : a->type == META_TYPE_DIR ? read_list(b, it)
					: read_text(b, it);
	return as == ROT_GOOD ? read_xattrs(b, it) : as;
}
