/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories: their records and counters.  meta_mkdir.c makes and removes them.
 *
 *   parent's shard                          shard hash(number)
 *   NAME  {parent, hash, n}  child ----.
 *   INODE {parent, hash, n}  child ----+--> DIR {number}: count, times, parent, handle of its inode
 *                                           NAME, INODE ... of its entries
 *
 *  (1) A DIR record exists from mkdir to rmdir: every plan that makes an entry reads it, so that
 *      none is made in a directory that is gone
 *      [test_meta_dir:nothing_is_made_in_a_directory_that_is_gone].
 *  (2) Its count is the number of NAME records of the directory, `subdirs` of those of directories:
 *      a stat shows two links more, its own name and its "."
 *      [test_meta_dir:a_directory_is_made_counted_and_removed].
 *  (3) A number is used once: it includes the shard of the parent that drew it
 *      [test_meta_dir:directories_spread_over_shards].
 *  (4) A GOING directory (meta_rmtree.c) counts as gone for everybody else
 *      [test_meta_rmtree:nothing_can_be_made_in_a_directory_that_goes].
 *  (5) A large directory has parts (meta_spread.c), each with such a record and count
 *      [test_meta_spread:the_whole_counts_and_a_name_is_there_once].
 */
#include "meta/plans/meta_plan.h"

int meta__dir_load(struct meta *m, uint64_t dir, struct meta__dir *out)
{
	const struct meta_key key = meta__dir_key(dir);
	const uint32_t shard = meta__dir_shard(m, dir);
	const void *value;
	uint32_t value_len;
	int rc = meta__get(m, shard, &key, &value, &value_len);

	DASSERT(dir != 0);
	DASSERT(dir <= META__MASK48);
	if (rc)
		return rc;
	return meta__dir_parse(value, value_len, out) || !meta__dir_fits(dir, out)
		       ? meta__bad_record(m, "directory", shard, &key)
		       : 0;
}

int meta__dir_get(struct meta *m, uint64_t dir, struct meta__dir *out)
{
	int rc = meta__dir_load(m, dir, out);

	return rc == 0 && out->going ? -ENOENT : rc;
}

int meta__dir_put(struct meta *m, uint64_t dir, const struct meta__dir *in)
{
	const struct meta_key key = meta__dir_key(dir);
	struct meta_dir_disk d;

	DASSERT(dir != 0);
	DASSERT(dir <= META__MASK48);
	meta__dir_build(in, &d);
	return meta__tx_put(m, meta__dir_shard(m, dir), &key, &d, sizeof(d));
}

int meta__dir_entry(struct meta *m, uint64_t dir, int names, int subdirs, int64_t wall_ns)
{
	struct meta__dir d;
	int rc =
		meta__is_fragment(dir) ? meta__fragment_get(m, dir, &d) : meta__dir_get(m, dir, &d);

	DASSERT(names >= -1);
	DASSERT(names <= 1);
	DASSERT(subdirs >= -1);
	DASSERT(subdirs <= 1);
	if (rc)
		return rc;
	if ((names < 0 && d.count == 0) || (subdirs < 0 && d.subdirs == 0)) {
		const struct meta_key key = meta__dir_key(dir);

		return meta__bad_record(m, "directory", meta__dir_shard(m, dir), &key);
	}
	d.count += (uint64_t)(int64_t)names;
	d.subdirs += (uint64_t)(int64_t)subdirs;
	d.mtime_ns = wall_ns;
	d.ctime_ns = wall_ns;
	d.mtime_set = false;
	if (names > 0)
		meta__spread_grown(m, dir, &d);
	DASSERT(!d.going); /* (4) */
	if (meta__owed_take(m, dir, &d) || names || subdirs)
		rc = meta__dir_pend(m, dir, &d);
	return rc ? rc : meta__dir_put(m, dir, &d);
}
