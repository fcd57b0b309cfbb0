/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The directories that have names of a file with several names.
 *
 *   INODE {x}  nlink 3, LINKED, counted 7
 *   LINKS {x, 7}  2        two of its names are in directory 7,
 *   LINKS {x, 9}  1        one is in 9
 *
 *  (1) A file's bytes are counted once, by a directory that has a name of it (meta_totals.c).  When
 *      the last name there is removed, another directory with a name counts them, from the same
 *      apply on [test_meta_totals:one_of_several_names_moves].
 *  (2) LINKS records exist if and only if the file has several names; their numbers add up to
 *      nlink.  So most files have none, and say so by themselves: LINKED is not set
 *      [test_meta_link:only_the_last_of_its_names_frees_it].
 */
#include "meta/plans/meta_plan.h"

#define OTHERS_MAX 16u /* more than one transaction can take names from */

static struct meta_key links_key(const struct meta__inode *in, uint64_t dir)
{
	return meta__obj_key(&in->handle, META__KIND_LINKS, dir);
}

/* 0: none is there. */
static int links_get(struct meta *m, const struct meta__inode *in, uint64_t dir, uint64_t *names)
{
	const struct meta_key key = links_key(in, dir);
	const void *value;
	uint32_t len;
	int rc = meta__get(m, in->shard, &key, &value, &len);

	*names = 0;
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	return meta__links_parse(value, len, names) ? meta__bad_record(m, "links", in->shard, &key)
						    : 0;
}

static int links_put(struct meta *m, const struct meta__inode *in, uint64_t dir, uint64_t names)
{
	const struct meta_key key = links_key(in, dir);
	const le64 value = le64_of(names);

	return names ? meta__tx_put(m, in->shard, &key, &value, sizeof(value))
		     : meta__tx_del(m, in->shard, &key);
}

/* Adds `by` names in `dir` (perhaps -1); *left: the names left there. */
static int links_move(struct meta *m, const struct meta__inode *in, uint64_t dir, int by,
		      uint64_t *left)
{
	const struct meta_key key = links_key(in, dir);
	int rc = links_get(m, in, dir, left);

	DASSERT(by == 1 || by == -1);
	if (rc)
		return rc;
	if (by < 0 && *left == 0)
		return meta__bad_record(m, "links", in->shard, &key);
	*left += (uint64_t)(int64_t)by;
	return links_put(m, in, dir, *left);
}

/* Finds another directory than `but` with a name of the file.  This transaction may have removed
 * the last name from some that the tree still has: rmtree frees several entries at once. */
static int links_other(struct meta *m, const struct meta__inode *in, uint64_t but, uint64_t *dir)
{
	struct meta_key key = links_key(in, META_ROOT_DIR); /* 0 is no directory */
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_LINKS);

	DASSERT(but != 0);
	for (uint32_t i = 0; i < OTHERS_MAX; i++, key = meta__key_next(key)) {
		const void *value;
		uint32_t len;
		uint64_t names;
		int rc = meta__seek(m, in->shard, &key, &last, &value, &len);

		if (rc && rc != -ENOENT)
			return rc;
		if (rc || !meta__key_is_obj(&key, &in->handle, META__KIND_LINKS))
			break;
		*dir = meta__key_index(&key);
		if (*dir == but)
			continue;
		rc = links_get(m, in, *dir, &names); /* a seek sees the tree only */
		if (rc || names)
			return rc;
	}
	key = links_key(in, but);
	return meta__bad_record(m, "links", in->shard, &key);
}

int meta__links_more(struct meta *m, struct meta__inode *in, uint64_t dir)
{
	uint64_t names;
	int rc, miss = 0;

	DASSERT(in->nlink >= 1); /* (2) */
	DASSERT(in->nlink < META_LINKS_MAX);
	if (in->nlink++ == 1) {
		in->flags |= META__INODE_LINKED;
		rc = links_put(m, in, in->counted, 1);
		if (meta__stop(rc, &miss))
			return rc;
	}
	rc = links_move(m, in, dir, 1, &names);
	return rc ? rc : miss;
}

int meta__links_less(struct meta *m, struct meta__inode *in, uint64_t dir)
{
	uint64_t names = 0;
	int rc = links_move(m, in, dir, -1, &names);

	ASSERT(in->nlink > 1); /* (2) */
	if (rc)
		return rc;
	if (names == 0 && in->counted == dir)
		rc = links_other(m, in, dir, &in->counted); /* (1) */
	if (rc || --in->nlink > 1)
		return rc;
	in->flags &= ~(uint32_t)META__INODE_LINKED;
	return links_put(m, in, in->counted, 0); /* for the directory that is left: (2) */
}

int meta__links_moved(struct meta *m, struct meta__inode *in, uint64_t from, uint64_t to)
{
	uint64_t names = 0;
	int rc, miss = 0;

	DASSERT(from != 0);
	DASSERT(to != 0);
	if (in->type == META_TYPE_DIR || from == to)
		return 0;
	if (!(in->flags & META__INODE_LINKED)) {
		in->counted = to;
		return 0;
	}
	rc = links_move(m, in, to, 1, &names);
	if (meta__stop(rc, &miss))
		return rc;
	rc = links_move(m, in, from, -1, &names);
	if (rc == 0 && names == 0 && in->counted == from)
		in->counted = to;
	return rc ? rc : miss;
}
