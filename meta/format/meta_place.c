/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Where a name belongs, as FORMAT.md says: its hash in its directory, and the directory's shard. */
#include "meta/format/meta_record.h"

#include "base/hash.h"

uint64_t meta__name_hash(const struct meta *m, uint64_t dir, const char *name, uint32_t len)
{
	const uint64_t seed = m->secret + meta__whole_of(dir) * 0x9e3779b97f4a7c15ull;

	return hash_bytes(seed, name, len) & META__MASK40;
}

uint32_t meta__dir_shard(const struct meta *m, uint64_t dir)
{
	DASSERT(is_pow2(m->nshards));
	return (uint32_t)(hash_u64(m->secret, dir) & (m->nshards - 1));
}
