/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/rot_salvage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dir_todo {
	char path[1400];
	uint64_t dir;
	bool doubt;
};

static enum rot_saved compare_bytes(struct meta_raw *r, const struct rot_item *it,
				    const struct meta_attr *a, bool *doubt)
{
	static uint8_t want[BLOCK_SIZE], zeros[BLOCK_SIZE];
	uint64_t index = 0, next = 0, blocks = div_up(a->size, BLOCK_SIZE), found = 0;

	for (;; index++) {
		uint8_t block[BLOCK_SIZE];
		bool old;
		int err;

		err = meta_raw_block_next(r, &it->handle, &index, block, &old);
		*doubt |= old;
		if (err == -EIO || (err && a->blocks != UINT64_MAX && found != a->blocks))
			return ROT_LOST;
		found += !err;
		for (; next < (err ? blocks : min_u64(index + 1, blocks)); next++) {
			uint64_t n = min_u64(a->size - next * BLOCK_SIZE, BLOCK_SIZE);

			if (model_node_read(it->node, next * BLOCK_SIZE, want, n) != (int64_t)n ||
			    memcmp(want, !err && next == index ? block : zeros, n) != 0)
				return ROT_OTHER;
		}
		if (err)
			return ROT_SAVED;
	}
}

static enum rot_saved compare_xattrs(struct meta_raw *r, const struct rot_item *it)
{
	static uint8_t value[META_XATTR_MAX];
	struct meta_raw_place at = { 0 };
	char name[META_XATTR_NAME_MAX + 1];
	uint32_t len, count = 0, want = 0, has_len;
	const char *has;
	const void *has_value;
	int err;

	while ((err = meta_raw_xattr_next(r, &it->handle, &at, name, value, &len)) == 0) {
		bool same = false;

		for (uint32_t i = 0; model_node_xattr(it->node, i, &has, &has_value, &has_len); i++)
			same |= strcmp(has, name) == 0 && has_len == len &&
				memcmp(value, has_value, len) == 0;
		if (!same)
			return ROT_OTHER;
		count++;
	}
	while (model_node_xattr(it->node, want, &has, &has_value, &has_len))
		want++;
	return err != -ENOENT ? ROT_LOST : count == want ? ROT_SAVED : ROT_OTHER;
}

static enum rot_saved compare(struct meta_raw *r, const struct rot_item *it, bool doubt)
{
	char text[META_PATH_MAX + 1];
	enum rot_saved as = ROT_SAVED;
	struct meta_attr a;
	bool old;

	if (meta_raw_attr(r, &it->handle, &a, &old))
		return ROT_LOST;
	doubt |= old;
	if (a.type != it->attr.type || a.mode != it->attr.mode || a.uid != it->attr.uid ||
	    a.gid != it->attr.gid)
		as = ROT_OTHER;
	if (a.type == META_TYPE_SYMLINK)
		as = meta_raw_link(r, &it->handle, text)            ? ROT_LOST
		     : strcmp(text, model_node_text(it->node)) == 0 ? as
								    : ROT_OTHER;
	else if (a.type == META_TYPE_FILE &&
		 (a.size != it->attr.size || a.mtime_ns != it->attr.mtime_ns))
		as = ROT_OTHER;
	if (a.type == META_TYPE_FILE && as == ROT_SAVED)
		as = compare_bytes(r, it, &a, &doubt);
	if (as == ROT_SAVED)
		as = compare_xattrs(r, it);
	return as == ROT_LOST ? as : doubt ? ROT_OLDER : as;
}

static const struct rot_item *find(const struct rot_map *map, const char *path, uint32_t *at)
{
	for (*at = 0; *at < map->items; ++*at)
		if (strcmp(map->item[*at].path, path) == 0)
			return &map->item[*at];
	return NULL;
}

static void entry(struct meta_raw *r, const struct rot_map *map, const char *path,
		  const struct meta_raw_entry *e, bool doubt, struct rot_salvage *out)
{
	uint32_t at;
	const struct rot_item *it = find(map, path, &at);

	if (it && meta__handle_eq(&it->handle, &e->handle))
		out->item[at] = compare(r, it, doubt);
	else
		out->strangers += !doubt;
}

void rot_salvage(struct meta_box *b, const struct rot_map *map, struct rot_salvage *out)
{
	struct dir_todo *todo = calloc(ROT_ITEMS_MAX, sizeof(*todo));
	uint32_t todos = 1;
	struct raw_mem mem;
	struct meta_raw *r;

	ASSERT(todo);
	memset(out, 0, sizeof(*out));
	raw_mem_init(&mem, b->w.drive, META_BOX_DRIVES, b->drive_bytes);
	ASSERT(meta_raw_open(&r, &mem.from) == 0);
	ASSERT(meta_raw_salvage(r, &out->loss) == 0);
	todo[0].dir = META_ROOT_DIR;
	entry(r, map, "/", &(struct meta_raw_entry){ .handle = map->item[0].handle }, false, out);
	for (uint32_t i = 0; i < todos; i++) {
		struct meta_raw_place at = { 0 };
		struct meta_raw_entry e;

		while (meta_raw_entry_next(r, todo[i].dir, &at, &e) == 0) {
			char path[1700];
			bool doubt = e.doubt || todo[i].doubt;

			(void)snprintf(path, sizeof(path), "%s/%s", todo[i].path, e.name);
			entry(r, map, path, &e, doubt, out);
			if (e.type != META_TYPE_DIR || todos == ROT_ITEMS_MAX)
				continue;
			todo[todos].dir = e.dir;
			todo[todos].doubt = doubt;
			ASSERT(strlen(path) < sizeof(todo[todos].path));
			memcpy(todo[todos++].path, path, strlen(path) + 1);
		}
	}
	meta_raw_close(r);
	free(todo);
}
