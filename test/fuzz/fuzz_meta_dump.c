/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store in words, when its drives say whatever they like.
 *
 * A golden store with patches: {drive, le16 block, le16 offset, length, bytes}, until the input
 * ends.  Bits 6 and 5 of the first `drive` select the store: of one copy; 6: of two, on three
 * drives; 5: of three, on four; both: of three with folds that have two zones of parity.  Bit 7 of
 * each `drive`: the checksum of the patched structure is made right again, where the block's own
 * type says what it is, so that the parsers behind it are reached.  Then everything is shown, as
 * text or as JSON, compared, and salvaged; the sanitizers watch.
 */
#include "meta/offline/meta_raw_internal.h"
#include "test/lib/golden_image.h"
#include "test/lib/raw_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define DRIVE_BYTES (2u << 20)
#define BLOCKS      (DRIVE_BYTES / 4096)

static struct store {
	const char *path;
	uint32_t ndrives;
	uint8_t *golden[4], *drive[4];
} stores[4] = { { .path = "test/golden/store-4.img", .ndrives = 2 },
		{ .path = "test/golden/store-4-three.img", .ndrives = 4 },
		{ .path = "test/golden/store-4-pairs.img", .ndrives = 3 },
		{ .path = "test/golden/store-4-double.img", .ndrives = 4 } };

static void load(struct store *s)
{
	for (uint32_t d = 0; d < s->ndrives; d++) {
		s->golden[d] = calloc(1, DRIVE_BYTES);
		s->drive[d] = calloc(1, DRIVE_BYTES);
		ASSERT(s->golden[d] && s->drive[d]);
	}
	ASSERT(golden_image_load(s->path, s->golden, s->ndrives, DRIVE_BYTES) == 0);
	for (uint32_t d = 0; d < s->ndrives; d++)
		memcpy(s->drive[d], s->golden[d], DRIVE_BYTES);
}

static void crc_at(uint8_t *p, uint32_t at, size_t size_bytes)
{
	uint32_t crc;

	memset(p + at, 0, 4);
	crc = crc32c(p, size_bytes);
	memcpy(p + at, &crc, 4);
}

/* Corrects the checksum of the structure that begins in this block, or of the page around it. */
static void seal(uint8_t *all, uint32_t block)
{
	uint8_t *p = all + block * 4096ul;
	uint32_t magic, nblocks;

	memcpy(&magic, p, 4);
	memcpy(&nblocks, p + 20, 4);
	if (memcmp(p, "WEKASTOR", 8) == 0)
		crc_at(p, 8, 4096);
	else if (magic == META__ROOT_MAGIC || magic == META__ZONE_MAGIC)
		crc_at(p, 4, 4096);
	else if (magic == META__LOG_MAGIC && nblocks && nblocks <= BLOCKS - block)
		crc_at(p, 4, nblocks * 4096ul);
	for (uint32_t back = 0; back < META_PAGE_BLOCKS && back <= block; back++) {
		uint8_t *page = all + (block - back) * 4096ul;

		memcpy(&magic, page + 4, 4);
		if (magic == META_PAGE_MAGIC && block - back + META_PAGE_BLOCKS <= BLOCKS) {
			uint32_t crc = crc32c(page + 4, META_PAGE_BYTES - 4);

			memcpy(page, &crc, 4);
			return;
		}
	}
}

/* With undo set the golden bytes come back. */
static void patch(struct store *s, const uint8_t *bytes, size_t size, bool undo)
{
	while (size > 6) {
		const uint32_t d = (bytes[0] & (s->ndrives > 2 ? 3u : 1u)) % s->ndrives;
		uint8_t *all = s->drive[d];
		uint32_t block = (bytes[1] | (uint32_t)bytes[2] << 8) % BLOCKS;
		uint32_t offset = (bytes[3] | (uint32_t)bytes[4] << 8) % 4096;
		uint32_t n = min_u32(bytes[5], min_u32((uint32_t)size - 6, 4096 - offset));
		uint32_t from = block < META_PAGE_BLOCKS ? 0 : block - META_PAGE_BLOCKS;

		if (undo) /* and the checksum's, at the begin of a page */
			memcpy(all + from * 4096ul, s->golden[d] + from * 4096ul,
			       (block - from + 1) * 4096ul);
		else
			memcpy(all + block * 4096ul + offset, bytes + 6, n);
		if (!undo && bytes[0] & 0x80)
			seal(all, block);
		bytes += 6 + n;
		size -= 6 + n;
	}
}

static void show(struct meta_raw *r, const char *what, const char *arg, FILE *out, bool json)
{
	rewind(out);
	(void)!meta_dump(r, what, arg, out, json);
}

static void show_all(struct meta_raw *r, FILE *out, bool json)
{
	static const char *const paths[] = { "/", "/dir/f07", "/holes", "/long link", "/late" };
	char arg[24];

	show(r, "super", NULL, out, json);
	show(r, "set", NULL, out, json);
	show(r, "roots", NULL, out, json);
	show(r, "zones", NULL, out, json);
	show(r, "log", NULL, out, json);
	for (uint32_t i = 0; i < 12; i++) {
		(void)snprintf(arg, sizeof(arg), "%u", i);
		show(r, "zone", arg, out, json);
		(void)snprintf(arg, sizeof(arg), "%u", i + 56);
		show(r, "log", arg, out, json);
	}
	for (uint32_t i = 0; i < 8; i++) {
		(void)snprintf(arg, sizeof(arg), "%u:%u", i / 4, 10 + i % 4 * 8);
		show(r, "page", arg, out, json);
	}
	for (uint32_t i = 0; i < ARRAY_LEN(paths); i++) {
		show(r, "path", paths[i], out, json);
		show(r, "file", paths[i], out, json);
	}
}

static void hear(void *arg, const char *line)
{
	(void)arg;
	ASSERT(strlen(line) > 0);
}

/* Every object that is left, with all that it has. */
static void salvage(struct meta_raw *r)
{
	static uint8_t value[META_XATTR_MAX];
	struct meta_raw_loss loss;
	struct meta_raw_place at = { 0 };
	struct meta_attr a;
	bool flag;

	if (meta_raw_salvage(r, &loss))
		return;
	while (meta_raw_object_next(r, &at, &a, &flag) == 0) {
		struct meta_raw_place names = { 0 }, xattrs = { 0 };
		struct meta_raw_entry e;
		char text[META_PATH_MAX + 1];
		uint64_t block = 0;
		uint32_t len;
		int err = 0;

		for (; err != -ENOENT; block++)
			err = meta_raw_block_next(r, &a.handle, &block, value, &flag);
		while (a.dir && meta_raw_entry_next(r, a.dir, &names, &e) == 0)
			ASSERT(strlen(e.name) > 0);
		while (meta_raw_xattr_next(r, &a.handle, &xattrs, text, value, &len) == 0)
			ASSERT(len <= sizeof(value));
		if (meta_raw_link(r, &a.handle, text) == 0)
			ASSERT(strlen(text) <= META_PATH_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct store *s = &stores[size ? bytes[0] >> 5 & 3 : 0];
	struct meta_raw_compared compared;
	struct meta_raw *r;
	struct raw_mem mem;
	char *text = NULL;
	size_t text_size;
	FILE *out = open_memstream(&text, &text_size);

	if (!s->golden[0])
		load(s);
	ASSERT(out);
	patch(s, bytes, size, false);
	raw_mem_init(&mem, s->drive, s->ndrives, DRIVE_BYTES);
	ASSERT(meta_raw_open(&r, &mem.from) == 0);
	show_all(r, out, size & 1);
	(void)!meta_raw_compare(r, &compared, hear, NULL);
	salvage(r);
	meta_raw_close(r);
	ASSERT(fclose(out) == 0);
	free(text);
	patch(s, bytes, size, true);
	return 0;
}
