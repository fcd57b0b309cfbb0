/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Access rights in the model, of the user fs->who; NULL: a user who may do everything. */
#include "test/lib/fs_model_internal.h"

#include <errno.h>

void model_as(struct model *fs, const struct meta_who *who)
{
	fs->who = who;
}

static bool in_group(const struct meta_who *who, uint32_t gid)
{
	bool is = false;

	for (uint32_t i = 0; i < who->gids; i++)
		is |= who->gid[i] == gid;
	return is;
}

bool model__may(const struct model_node *n, const char *want)
{
	static const char *const letters = "xwr";
	const struct meta_who *who = n->fs->who;
	uint32_t class = 0;

	if (!who)
		return true;
	if (n->attr.uid == who->uid)
		class = 2;
	else if (in_group(who, n->attr.gid))
		class = 1;
	for (; *want; want++)
		for (uint32_t bit = 0; bit < 3; bit++)
			if (letters[bit] == *want && !(n->attr.mode >> (3 * class + bit) & 1))
				return false;
	return true;
}

bool model__is_others_sticky_dir(const struct model_node *n)
{
	const struct meta_who *who = n->fs->who;

	return who && n->attr.type == META_TYPE_DIR && n->attr.mode & 01000 &&
	       n->attr.uid != who->uid;
}

int model_may_list(const struct model_node *dir)
{
	return model__may(dir, "rx") ? 0 : -EACCES;
}

int model__may_change(const struct model_node *dir, const struct model_node *old)
{
	const struct meta_who *who = dir->fs->who;

	if (!model__may(dir, "wx"))
		return -EACCES;
	if (who && old && dir->attr.mode & 01000 && dir->attr.uid != who->uid &&
	    old->attr.uid != who->uid)
		return -EPERM;
	return 0;
}

void model__born(struct model_node *n, const struct model_node *dir, const struct model_set *set)
{
	const struct meta_who *who = n->fs->who;
	const bool inherits = dir->attr.mode & 02000;

	if (!who)
		return;
	n->attr.uid = who->uid;
	n->attr.gid = who->gid[0];
	if (set && set->mask & META_SET_GID && in_group(who, set->gid))
		n->attr.gid = set->gid;
	if (inherits)
		n->attr.gid = dir->attr.gid;
	if (inherits && n->attr.type == META_TYPE_DIR)
		n->attr.mode |= 02000;
	else if (!in_group(who, n->attr.gid))
		n->attr.mode &= 05777;
}

int model__may_set(const struct model_node *n, const struct model_set *set)
{
	const struct meta_who *who = n->fs->who;

	if (!who)
		return 0;
	if (n->attr.uid != who->uid)
		return -EPERM;
	if (set->mask & META_SET_UID && set->uid != who->uid)
		return -EPERM;
	if (set->mask & META_SET_GID && set->gid != n->attr.gid && !in_group(who, set->gid))
		return -EPERM;
	return 0;
}

void model__was_set(struct model_node *n, const struct model_set *set)
{
	const struct meta_who *who = n->fs->who;

	if (!who)
		return;
	if (set->mask & META_SET_MODE) {
		if (!in_group(who, n->attr.gid))
			n->attr.mode &= 05777;
	} else if (set->mask & (META_SET_UID | META_SET_GID) && n->attr.type == META_TYPE_FILE) {
		n->attr.mode &= n->attr.mode & 010 ? 01777 : 03777;
	}
}
