/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Records from a page: the first byte of an input says which kind, the rest is the value; for names
 * and inodes the three words of the key stand before it.  A record that its parser accepts is built
 * again, and must give the same bytes; an extent's blocks are set, trimmed and walked in every way
 * that a plan does.
 */
#include "meta/format/meta_record.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

static void xattr(const uint8_t *value, uint32_t len)
{
	uint8_t buf[META__XATTR_VALUE_MAX];
	struct meta__xattr x;

	if (meta__xattr_parse(value, len, &x))
		return;
	ASSERT(x.name_len <= META_XATTR_NAME_MAX && x.value_len <= META_XATTR_MAX);
	ASSERT((x.value == NULL) == (meta__xattr_pieces(x.value_len) > 0));
	ASSERT(meta__xattr_build(&x, buf) == len && memcmp(buf, value, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

/* The key in front of a value, which gets memory of its own: the sanitizer sees where it begins. */
static const uint8_t *key_and_value(const uint8_t *bytes, uint32_t *len, struct meta_key *key)
{
	uint8_t *value;

	if (*len <= sizeof(*key))
		return NULL;
	memcpy(key, bytes, sizeof(*key));
	*len -= (uint32_t)sizeof(*key);
	value = malloc(*len);
	ASSERT(value);
	memcpy(value, bytes + sizeof(*key), *len);
	return value;
}

static void name(const uint8_t *bytes, uint32_t len)
{
	uint8_t again[META__NAME_VALUE_MAX];
	struct meta__name n;
	struct meta_key key;
	const uint8_t *value = key_and_value(bytes, &len, &key);

	if (value && meta__name_parse(&key, value, len, &n) == 0) {
		ASSERT(meta__handle_ok(&n.handle));
		ASSERT(n.len > 0 && n.len <= META_NAME_MAX);
		ASSERT(!memchr(n.bytes, 0, n.len) && !memchr(n.bytes, '/', n.len));
		ASSERT((n.type == META_TYPE_DIR) == (n.child != 0));
		ASSERT(meta__name_build(&key, &n, again) == len);
		ASSERT(memcmp(again, value, len) == 0);
	}
	free((void *)(uintptr_t)value);
}

static void inode(const uint8_t *bytes, uint32_t len)
{
	uint8_t again[META__INODE_VALUE_MAX];
	struct meta__inode in;
	struct meta_handle h;
	struct meta_key key;
	const uint8_t *value = key_and_value(bytes, &len, &key);

	if (value) {
		h = meta__key_handle(&key);
		if (meta__inode_parse(key.w[2] & 0xfff, &h, value, len, &in) == 0) {
			ASSERT(in.size <= META__FILE_BYTES_MAX);
			ASSERT(meta__inode_counts(&in) == (in.counted != 0));
			ASSERT(meta__inode_build(&in, again) == len);
			ASSERT(memcmp(again, value, len) == 0);
		}
	}
	free((void *)(uintptr_t)value);
}

static void dir(const uint8_t *value, uint32_t len)
{
	struct meta_dir_disk again;
	struct meta__dir d;

	if (meta__dir_parse(value, len, &d))
		return;
	meta__dir_build(&d, &again);
	ASSERT(sizeof(again) == len && memcmp(&again, value, len) == 0);
}

static void totals(const uint8_t *value, uint32_t len)
{
	struct meta_totals_disk again;
	struct meta__totals t;

	if (meta__totals_parse(value, len, &t))
		return;
	meta__totals_build(&t, &again);
	ASSERT(sizeof(again) == len && memcmp(&again, value, len) == 0);
}

static void links(const uint8_t *value, uint32_t len)
{
	uint64_t names;

	if (meta__links_parse(value, len, &names))
		return;
	ASSERT(names > 0 && names <= META_LINKS_MAX);
}

static void orphan(const uint8_t *value, uint32_t len)
{
	struct meta_orphan_disk again;
	struct meta__orphan o;

	if (meta__orphan_parse(value, len, &o))
		return;
	meta__orphan_build(&o, &again);
	ASSERT(sizeof(again) == len && memcmp(&again, value, len) == 0);
}

/* Two chunks hold the same blocks up to `end`. */
static void same(const struct meta__chunk *a, const struct meta__chunk *b, uint32_t end)
{
	for (uint32_t i = 0; i < end; i++) {
		const uint64_t at_a = i < a->nblocks ? a->baddr[i] : 0;
		const uint64_t at_b = i < b->nblocks ? b->baddr[i] : 0;

		ASSERT(at_a == at_b);
		ASSERT(!at_a || a->crc[i] == b->crc[i]);
	}
}

static void extent(const uint8_t *value, uint32_t len)
{
	static struct meta__chunk c, again;
	uint8_t buf[META__EXTENT_VALUE_MAX];
	struct meta__extent x;
	uint32_t at, built, sum = 0;
	struct meta_run run;

	if (meta__extent_parse(value, len, &x))
		return;
	meta__chunk_load(&c, &x);
	for (at = 0; meta__chunk_next_run(&c, &at, &run);)
		sum += run.nblocks;
	ASSERT(sum == x.nblocks && c.nblocks == sum);
	built = meta__chunk_build(&c, buf);
	ASSERT(built > 0 && built <= len); /* runs that touch are one */
	ASSERT(meta__extent_parse(buf, built, &x) == 0);
	meta__chunk_load(&again, &x);
	same(&c, &again, META_CHUNK_BLOCKS);
	at = value[len - 1] % META_CHUNK_BLOCKS;
	meta__chunk_trim(&again, at);
	same(&c, &again, at);
	ASSERT(again.nblocks <= at);
	meta__chunk_set(&again, at, META_BADDR(1, 77), 7);
	same(&c, &again, at);
	ASSERT(again.nblocks == at + 1 && again.baddr[at] == META_BADDR(1, 77));
	meta__chunk_set(&again, at, 0, 0);
	ASSERT(again.nblocks <= at);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
	static void (*const kinds[])(const uint8_t *, uint32_t) = { name,   inode, dir,    orphan,
								    extent, xattr, totals, links };
	uint8_t *value;

	if (size_bytes < 2 || size_bytes > META_VALUE_MAX)
		return 0;
	value = malloc(size_bytes - 1); /* its own, so that the sanitizer sees the end */
	ASSERT(value);
	memcpy(value, bytes + 1, size_bytes - 1);
	kinds[bytes[0] % ARRAY_LEN(kinds)](value, (uint32_t)size_bytes - 1);
	free(value);
	return 0;
}
