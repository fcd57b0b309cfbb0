/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Superblocks, roots and zone headers from a drive.  An input is {which, bytes}; the checksum is
 * made right, so that the rest of the parser is reached.  A structure that the parser accepts must
 * be usable.
 */
#include "base/num.h"
#include "meta/meta_store.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static _Alignas(8) uint8_t block[4096];
static const uint8_t uuid[16] = "fuzz";

static void seal(uint8_t *p, uint32_t size_bytes, uint32_t crc_at)
{
	uint32_t crc;

	memset(p + crc_at, 0, 4);
	crc = crc32c(p, size_bytes);
	memcpy(p + crc_at, &crc, 4);
}

static void use_super(void)
{
	struct meta__super s;
	struct meta__geo g;
	char why[128];
	uint64_t magic = META__SUPER_MAGIC;
	int err;

	memcpy(block, &magic, 8);
	seal(block, sizeof(block), 8);
	err = meta__super_parse(block, &s, why);
	ASSERT(memchr(why, 0, sizeof(why)) != NULL);
	ASSERT((why[0] == 0) == (err == 0));
	if (err)
		return;
	meta__geo_of(&g, &s);
	ASSERT(g.root_copies == max_u32(2, s.copies) && g.root_copies <= META__ROOT_COPIES);
	for (uint32_t copy = 0; copy < g.root_copies; copy++) {
		ASSERT(meta__geo_zone_of(&g, g.root_area[copy]) == META__ZONE_NONE);
		ASSERT(META_BADDR_DRIVE(meta__geo_root(&g, copy, 0, 0)) < g.ndrives);
	}
	if (g.nzones) {
		/* A drive that is gone keeps its numbers, and has no zones any more. */
		const uint32_t last = g.nzones - 1;
		const bool there = meta__geo_zone_there(&g, last);

		ASSERT(meta__geo_zone_of(&g, meta__geo_zone_baddr(&g, last)) ==
		       (there ? last : META__ZONE_NONE));
	}
}

static void use_root(void)
{
	struct meta__root_seen r;
	uint32_t magic = META__ROOT_MAGIC;

	memcpy(block, &magic, 4);
	memcpy(block + 8, uuid, 16);
	seal(block, sizeof(block), 4);
	if (meta__root_parse(block, uuid, &r) == 0)
		ASSERT(r.root.height <= META_PAGE_LEVELS_MAX);
}

static void use_zone(void)
{
	struct meta__zone_seen z;
	uint32_t magic = META__ZONE_MAGIC, zone = 3;

	memcpy(block, &magic, 4);
	memcpy(block + 8, uuid, 16);
	memcpy(block + 24, &zone, 4);
	seal(block, sizeof(block), 4);
	if (meta__zone_parse(block, uuid, zone, &z))
		return;
	ASSERT(z.zone == zone && z.kind <= META__ZONE_PARITY);
	ASSERT(z.kind != META__ZONE_TWIN || z.twin > 0);
	ASSERT(z.twin2 == 0 || (z.twin > 0 && z.twin != z.twin2));
	if (z.members > 0) {
		ASSERT(z.kind == META__ZONE_PARITY && z.pair > 0);
		ASSERT(z.members >= META__FOLD_MIN && z.members <= META_FOLD_MAX);
		ASSERT(z.twin2 == 0 && z.role <= (z.twin > 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (size < 1 || size - 1 > sizeof(block))
		return 0;
	memset(block, 0, sizeof(block));
	memcpy(block, bytes + 1, size - 1);
	switch (bytes[0] % 3) {
	case 0:
		use_super();
		break;
	case 1:
		use_root();
		break;
	default:
		use_zone();
	}
	return 0;
}
