/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pages from a drive.  An input is {le16 n, the first n bytes of the page, its last bytes}, zeros
 * between; its checksum is made right, so that the rest of the parser is reached.  A page that the
 * parser accepts is then used in every way that a tree uses a page: the sanitizers watch.
 */
#include "meta/format/meta_page.h"
#include "base/num.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static _Alignas(8) uint8_t page[META_PAGE_BYTES], right[META_PAGE_BYTES], again[META_PAGE_BYTES];

static bool unpack(const uint8_t *bytes, size_t size)
{
	size_t begin = size >= 2 ? bytes[0] | bytes[1] << 8 : 0;

	if (size < 2 || begin > size - 2 || size - 2 > sizeof(page))
		return false;
	memset(page, 0, sizeof(page));
	memcpy(page, bytes + 2, begin);
	memcpy(page + sizeof(page) - (size - 2 - begin), bytes + 2 + begin, size - 2 - begin);
	return true;
}

static const char *check_sealed(void *p)
{
	struct meta_page_disk *h = p;
	struct meta__page_want want = {
		.baddr = le64_get(h->baddr),
		.gen = le64_get(h->gen),
		.shard = le32_get(h->shard),
		.level = le16_get(h->level),
	};

	h->magic = le32_of(META_PAGE_MAGIC);
	h->crc32c = le32_of(crc32c((uint8_t *)p + 4, META_PAGE_BYTES - 4));
	return meta__page_check(p, &want);
}

static void use_leaf(void)
{
	static const uint8_t large[META_VALUE_MAX] = "large";
	uint32_t count = meta__page_count(page), pos, len, sum = 0;
	struct meta_key key;
	const void *value;

	for (uint32_t i = 0; i < count; i++) {
		meta__page_record(page, i, &key, &value, &len);
		for (uint32_t b = 0; b < len; b++)
			sum += ((const uint8_t *)value)[b];
		ASSERT(meta__leaf_find(page, &key, &pos));
		ASSERT(pos == i);
		if (!meta__leaf_replace(page, pos, large, sum % META_VALUE_MAX))
			meta__leaf_remove(page, pos);
		else
			continue;
		len = min_u32(meta__leaf_free(page), sum % META_VALUE_MAX + 32);
		if (len < 32)
			return;
		meta__leaf_insert(page, pos, &key, large, (len - 32) & ~7u);
	}
}

static void use_inner(void)
{
	uint32_t count = meta__page_count(page);
	uint64_t baddr, gen;
	struct meta_key key;

	for (uint32_t i = 0; i < count; i++) {
		meta__page_child(page, i, &key, &baddr, &gen);
		ASSERT(meta__inner_find(page, &key) == i);
	}
	if (count < META_INNER_MAX)
		meta__inner_insert(page, count / 2, &key, 64, 0);
	meta__inner_remove(page, count / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct meta__page_look look;
	struct meta_key first;
	uint32_t count;

	if (!unpack(bytes, size) || check_sealed(page))
		return 0;
	ASSERT(meta__page_look(page, &look) == 0);
	count = meta__page_count(page);
	ASSERT(count > 0);
	memcpy(again, page, sizeof(page));

	first = meta__page_first(page);
	meta__page_init(right, look.shard, look.level, &first);
	meta__page_split(page, right, count / 2);
	meta__page_append(page, right);
	ASSERT(meta__page_count(page) == count);
	ASSERT(!check_sealed(page)); /* sound as before */

	memcpy(page, again, sizeof(page));
	if (look.level == 0)
		use_leaf();
	else
		use_inner();
	ASSERT(meta__page_count(page) == 0 || look.level > 0 || !check_sealed(page));
	return 0;
}
