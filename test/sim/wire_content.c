/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The contents of files, as numbers: each is a node of a tree, a change of another content, so that
 * equal histories have equal numbers; and so have histories with equal bytes.
 */
#include "test/sim/wire_model_internal.h"

#include "base/assert.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

struct content {
	enum wire_kind kind;
	uint32_t parent, id, offset, length, size;
	uint32_t next;  /* of the same change, on top of another */
	uint32_t same;  /* the content that has the same bytes */
	uint32_t alike; /* in the same bucket                   */
	uint64_t hash;
	uint64_t compared; /* with this answer last, and */
	bool equal;
};

static struct {
	struct content *at;
	uint32_t count, room;
	uint32_t bucket[BUCKETS], by_id[BUCKETS];
	uint32_t cached; /* content whose bytes are in `bytes` */
	uint8_t bytes[WIRE_FILE_MAX];
} model;

static uint32_t content_new(const struct content *c)
{
	if (model.count == model.room) {
		model.room = max_u32(2 * model.room, 1024);
		model.at = realloc(model.at, model.room * sizeof(*model.at));
		ASSERT(model.at);
	}
	model.at[model.count] = *c;
	return model.count++;
}

void wire_bytes(uint32_t id, uint32_t offset, uint8_t *to, uint32_t size)
{
	uint32_t i = 0;

	while (i < size) {
		uint64_t word = (uint64_t)id << 32 | (offset + i) / 8;
		uint32_t skip = (offset + i) % 8, n = min_u32(8 - skip, size - i);

		memcpy(to + i, (const uint8_t *)&word + skip, n);
		i += n;
	}
}

/* From the oldest change to the newest. */
static const uint8_t *content_bytes(uint32_t content)
{
	uint32_t chain[4096], depth = 0, end = 0;

	if (model.cached == content)
		return model.bytes;
	for (uint32_t at = content; at; at = model.at[at].parent) {
		ASSERT(depth < ARRAY_LEN(chain));
		chain[depth++] = at;
	}
	while (depth > 0) {
		const struct content *c = &model.at[chain[--depth]];

		ASSERT(c->size <= WIRE_FILE_MAX);
		if (c->kind == WIRE_PUNCH) {
			if (c->offset < end)
				memset(model.bytes + c->offset, 0,
				       min_u32(c->length, end - c->offset));
		} else if (c->kind != WIRE_TRUNCATE) {
			if (c->offset > end)
				memset(model.bytes + end, 0, c->offset - end);
			wire_bytes(c->id, 0, model.bytes + c->offset, c->length);
		} else if (c->size > end) {
			memset(model.bytes + end, 0, c->size - end);
		}
		end = c->size;
	}
	model.cached = content;
	return model.bytes;
}

/* The first content that has these bytes: histories that nobody can tell apart are one. */
static uint32_t content_same(uint32_t content)
{
	const uint8_t *bytes = content_bytes(content);
	uint64_t h = model.at[content].size;

	for (uint32_t i = 0; i < model.at[content].size; i++)
		h = (h ^ bytes[i]) * 1099511628211u;
	h ^= h >> 29;
	model.at[content].hash = h;
	for (uint32_t at = model.bucket[h % BUCKETS]; at; at = model.at[at].alike)
		if (model.at[at].hash == h && model.at[at].size == model.at[content].size)
			return at;
	model.at[content].alike = model.bucket[h % BUCKETS];
	model.bucket[h % BUCKETS] = content;
	return content;
}

/* `parent` with the change on top. */
uint32_t wire__content_with(uint32_t parent, const struct wire_op *op)
{
	uint32_t *first = &model.by_id[op->id % BUCKETS], size = model.at[parent].size, at;
	struct content c = { .kind = op->kind, .parent = parent, .id = op->id };

	for (at = *first; at; at = model.at[at].next)
		if (model.at[at].id == op->id && model.at[at].parent == parent)
			return model.at[at].same;
	c.offset = op->kind == WIRE_APPEND ? size : op->offset;
	c.length = op->size;
	if (op->kind == WIRE_TRUNCATE || op->kind == WIRE_PUT)
		c.size = op->size;
	else if (op->kind == WIRE_PUNCH)
		c.size = size;
	else
		c.size = max_u32(size, c.offset + c.length);
	c.next = *first;
	at = content_new(&c);
	*first = at;
	model.at[at].same = content_same(at);
	return model.at[at].same;
}

uint32_t wire__content_size(uint32_t content)
{
	return model.at[content].size;
}

bool wire__content_has(uint32_t content, const uint8_t *bytes, uint32_t offset, uint32_t size,
		       uint64_t answer)
{
	if (model.at[content].compared != answer) {
		model.at[content].equal = memcmp(content_bytes(content) + offset, bytes, size) == 0;
		model.at[content].compared = answer;
	}
	return model.at[content].equal;
}

void wire__content_describe(uint32_t content)
{
	printf(" %u bytes:", model.at[content].size);
	for (uint32_t at = content; at; at = model.at[at].parent)
		printf(" %s %u (%u+%u)", wire__kind_name(model.at[at].kind), model.at[at].id,
		       model.at[at].offset, model.at[at].length);
}

void wire__contents_begin(void)
{
	(void)content_new(&(struct content){ 0 }); /* 0 is absent */
}

void wire__contents_end(void)
{
	free(model.at);
	memset(&model, 0, sizeof(model));
}
