/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes of the model's files. */
#include "test/lib/fs_model_internal.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void blocks_grow(struct model_node *n, uint64_t blocks)
{
	if (blocks <= n->blocks)
		return;
	n->block = model__must(realloc(n->block, blocks * sizeof(*n->block)));
	memset(n->block + n->blocks, 0, (blocks - n->blocks) * sizeof(*n->block));
	n->blocks = blocks;
}

void model__write(struct model_node *n, uint64_t offset, const uint8_t *bytes, uint64_t length)
{
	blocks_grow(n, div_up(offset + length, BLOCK_SIZE));
	while (length > 0) {
		const uint64_t i = offset / BLOCK_SIZE, at = offset % BLOCK_SIZE;
		const uint64_t piece = min_u64(length, BLOCK_SIZE - at);

		if (!n->block[i])
			n->block[i] = model__must(calloc(1, BLOCK_SIZE));
		memcpy(n->block[i] + at, bytes, piece);
		offset += piece;
		bytes += piece;
		length -= piece;
	}
}

/* Blocks behind the size go, and the rest of the last one becomes zeros: (2). */
void model__cut(struct model_node *n, uint64_t size)
{
	const uint64_t keep = div_up(size, BLOCK_SIZE), tail = size % BLOCK_SIZE;

	for (uint64_t i = keep; i < n->blocks; i++) {
		free(n->block[i]);
		n->block[i] = NULL;
	}
	if (tail && keep <= n->blocks && n->block[keep - 1])
		memset(n->block[keep - 1] + tail, 0, BLOCK_SIZE - tail);
}

int64_t model_node_read(const struct model_node *n, uint64_t offset, void *buf, uint64_t length)
{
	uint64_t done = 0;

	if (n->attr.type != META_TYPE_FILE)
		return n->attr.type == META_TYPE_DIR ? -EISDIR : -ELOOP;
	if (offset >= n->attr.size)
		return 0;
	length = min_u64(length, n->attr.size - offset);
	while (done < length) {
		const uint64_t i = (offset + done) / BLOCK_SIZE, at = (offset + done) % BLOCK_SIZE;
		const uint64_t piece = min_u64(length - done, BLOCK_SIZE - at);

		if (i < n->blocks && n->block[i])
			memcpy((uint8_t *)buf + done, n->block[i] + at, piece);
		else
			memset((uint8_t *)buf + done, 0, piece);
		done += piece;
	}
	return (int64_t)done;
}

int model__file_only(const struct model_node *n)
{
	if (n->attr.type == META_TYPE_FILE)
		return 0;
	return n->attr.type == META_TYPE_DIR ? -EISDIR : -EINVAL;
}

int model_node_write(struct model_node *n, uint64_t offset, const void *bytes, uint64_t length,
		     int64_t now_ns)
{
	int err = model__file_only(n);

	if (err)
		return err;
	model__write(n, offset, bytes, length);
	n->attr.size = max_u64(n->attr.size, offset + length);
	n->attr.mtime_ns = now_ns;
	model__ctime_raise(n, now_ns);
	return 0;
}

int model_node_truncate(struct model_node *n, uint64_t size, int64_t now_ns)
{
	int err = model__file_only(n);

	if (err)
		return err;
	if (size < n->attr.size)
		model__cut(n, size);
	n->attr.size = size;
	n->attr.mtime_ns = now_ns;
	model__ctime_raise(n, now_ns);
	return 0;
}

int model_node_punch(struct model_node *n, uint64_t offset, uint64_t length, int64_t now_ns)
{
	const uint64_t end = min_u64(offset + length, n->attr.size);
	int err = model__file_only(n);

	if (err || offset >= n->attr.size)
		return err;
	for (uint64_t at = offset; at < end;) {
		const uint64_t i = at / BLOCK_SIZE, from = at % BLOCK_SIZE;
		const uint64_t piece = min_u64(end - at, BLOCK_SIZE - from);
		const bool whole = from == 0 && (piece == BLOCK_SIZE || end == n->attr.size);

		if (i < n->blocks && n->block[i] && whole) {
			free(n->block[i]);
			n->block[i] = NULL;
		} else if (i < n->blocks && n->block[i]) {
			memset(n->block[i] + from, 0, piece);
		}
		at += piece;
	}
	n->attr.mtime_ns = now_ns;
	model__ctime_raise(n, now_ns);
	return 0;
}
