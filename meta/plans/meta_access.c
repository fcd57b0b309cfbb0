/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Access rights: mode bits, owner and groups, as in POSIX.1-2017.
 *
 *   each directory on a path                   x           meta__walk()
 *   ... above a directory named by a handle    x           meta__resolve()
 *   a name made, removed, replaced in it       w and x     meta__may_change(); with the sticky bit
 *                                                          only the owner of the file or directory
 *   bytes, attributes of a file                r or w      meta__may_use()
 *   a file kept while it is open               r or w      meta__may_hold(): either
 *   attributes of a directory changed          w           meta__may_mark(); with the sticky bit
 *                                                          only its owner
 *   mode, times, group                         the owner   meta__may_set()
 *
 *  (1) An operation without meta_op.who may do everything, and reads no extra record for checks
 *      [test_meta_op:random_operations_give_what_the_model_gives].
 *  (2) Rights are checked in the plan that is applied, so no right is older than the change
 *      [test_weka_posix_access:every_case_is_as_the_standard_says].
 *  (3) By handle the owner may read and write, whatever the mode: a file stays usable for the user
 *      that opened it.  Other users are checked again with each operation
 *      [test_weka_posix_access:a_files_handle_outlives_the_closing_of_its_path].
 *  (4) New files of a user belong to that user: the owner in a request is ignored, and the group
 *      must be one of the user's [test_weka_posix_access:every_case_is_as_the_standard_says].
 */
#include "meta/plans/meta_plan.h"

#define MODE_SUID   04000u
#define MODE_SGID   02000u
#define MODE_VTX    01000u
#define MODE_GROUPX 010u

static bool is_member(const struct meta_who *who, uint32_t gid)
{
	DASSERT(who->gids >= 1);
	DASSERT(who->gids <= META_GROUPS_MAX);
	for (uint32_t i = 0; i < who->gids; i++)
		if (who->gid[i] == gid)
			return true;
	return false;
}

/* The first class that he is of decides, also if the next would allow more. */
static bool has(const struct meta_who *who, const struct meta__inode *in, uint32_t want)
{
	uint32_t bits = in->mode;

	DASSERT(want >= 1);
	DASSERT(want <= 7);
	if (who->uid == in->uid)
		bits >>= 6;
	else if (is_member(who, in->gid))
		bits >>= 3;
	return (bits & want) == want;
}

int meta__may_use(struct meta *m, const struct meta_op *op, const struct meta__inode *in,
		  uint32_t want)
{
	const struct meta_who *who = m->ops->who;

	DASSERT(want >= 1);
	DASSERT(want <= 7);
	if (likely(!who) || has(who, in, want))
		return 0;
	if (!op->target.path && in->type == META_TYPE_FILE && who->uid == in->uid) /* (3) */
		return 0;
	return -EACCES;
}

int meta__may_hold(struct meta *m, const struct meta_op *op, const struct meta__inode *in)
{
	struct meta_op by_handle = { .target = { .handle = in->handle } };
	int rc;

	DASSERT(meta__handle_ok(&in->handle));
	if (!(op->flags & (META_HOLD | META_MAY_HOLD)) || in->type != META_TYPE_FILE)
		return 0;
	if (in->flags & META__INODE_HIDDEN)
		return -EINVAL; /* its session's alone */
	rc = meta__may_use(m, &by_handle, in, META__MAY_R);
	return rc ? meta__may_use(m, &by_handle, in, META__MAY_W) : 0;
}

int meta__may_mark(struct meta *m, const struct meta_op *op, const struct meta__inode *in)
{
	const struct meta_who *who = m->ops->who;

	if (who && in->type == META_TYPE_DIR && in->mode & MODE_VTX && who->uid != in->uid)
		return -EPERM;
	return meta__may_use(m, op, in, META__MAY_W);
}

static int dir_inode(struct meta *m, uint64_t dir, struct meta__inode *out)
{
	struct meta__dir d;
	int rc = meta__dir_get(m, meta__whole_of(dir), &d);

	DASSERT(dir != 0);
	DASSERT(dir <= META__MASK48);
	return rc ? rc : meta__inode_get(m, &d.inode, out);
}

int meta__may_search(struct meta *m, uint64_t dir)
{
	const struct meta_who *who = m->ops->who;
	struct meta__inode in;
	int rc;

	DASSERT(dir != 0);
	if (likely(!who))
		return 0;
	rc = dir_inode(m, dir, &in);
	if (rc)
		return rc;
	return has(who, &in, META__MAY_X) ? 0 : -EACCES;
}

int meta__may_change(struct meta *m, struct meta__at *at)
{
	const struct meta_who *who = m->ops->who;
	struct meta__inode dir, in;
	int rc;

	DASSERT(at->dir != 0);
	at->group_given = false;
	if (likely(!who))
		return 0;
	rc = dir_inode(m, at->dir, &dir);
	if (rc)
		return rc;
	at->group_given = dir.mode & MODE_SGID;
	at->group = dir.gid;
	if (!has(who, &dir, META__MAY_W | META__MAY_X))
		return -EACCES;
	if (!at->found || !(dir.mode & MODE_VTX) || who->uid == dir.uid)
		return 0;
	rc = meta__inode_get(m, &at->is.handle, &in);
	if (rc)
		return rc == -ESTALE ? -EIO : rc; /* of a name: it is there */
	return who->uid == in.uid ? 0 : -EPERM;
}

int meta__may_move(struct meta *m, const struct meta__at *at, uint64_t to)
{
	const struct meta_who *who = m->ops->who;
	struct meta__inode in;
	int rc;

	DASSERT(at->found);
	DASSERT(to != 0);
	if (likely(!who) || at->is.type != META_TYPE_DIR ||
	    meta__whole_of(at->dir) == meta__whole_of(to))
		return 0;
	rc = meta__inode_get(m, &at->is.handle, &in);
	if (rc)
		return rc == -ESTALE ? -EIO : rc;
	return has(who, &in, META__MAY_W) ? 0 : -EACCES;
}

void meta__born(struct meta *m, const struct meta_op *op, const struct meta__at *at,
		struct meta__inode *in)
{
	const struct meta_who *who = m->ops->who;

	if (likely(!who))
		return;
	DASSERT(who->gids >= 1);
	in->uid = who->uid; /* (4) */
	in->gid = who->gid[0];
	if (op->set_mask & META_SET_GID && is_member(who, op->set.gid))
		in->gid = op->set.gid;
	if (at->group_given)
		in->gid = at->group;
	if (at->group_given && in->type == META_TYPE_DIR)
		in->mode |= MODE_SGID;
	else if (!is_member(who, in->gid))
		in->mode &= ~MODE_SGID;
}

void meta__written(struct meta *m, struct meta__inode *in)
{
	DASSERT(!(in->mode & ~07777u));
	if (likely(!m->ops->who))
		return;
	in->mode &= ~MODE_SUID;
	if (in->mode & MODE_GROUPX)
		in->mode &= ~MODE_SGID;
}

int meta__may_set(struct meta *m, const struct meta_op *op, const struct meta__inode *in)
{
	const struct meta_who *who = m->ops->who;

	if (likely(!who))
		return 0;
	if (who->uid != in->uid)
		return -EPERM;
	if (op->set_mask & META_SET_UID && op->set.uid != in->uid)
		return -EPERM;
	if (op->set_mask & META_SET_GID && op->set.gid != in->gid && !is_member(who, op->set.gid))
		return -EPERM;
	return 0;
}

void meta__was_set(struct meta *m, const struct meta_op *op, struct meta__inode *in)
{
	const struct meta_who *who = m->ops->who;

	DASSERT(!(in->mode & ~07777u));
	if (likely(!who))
		return;
	if (op->set_mask & (META_SET_UID | META_SET_GID) && in->type == META_TYPE_FILE &&
	    !(op->set_mask & META_SET_MODE))
		meta__written(m, in);
	if (op->set_mask & META_SET_MODE && !is_member(who, in->gid))
		in->mode &= ~MODE_SGID;
}
