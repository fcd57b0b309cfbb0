/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mode bits, as the kernel compares them for a mount.  This is no protection: the program has the
 * key.  It makes calls fail as they do on the mount.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <unistd.h>

static bool in_group(const struct preload_who *who, uint32_t gid)
{
	if (who->gid == gid)
		return true;
	for (uint32_t i = 0; i < who->group_count; i++)
		if (who->groups[i] == gid)
			return true;
	return false;
}

bool preload_may(const struct preload_who *who, const struct weka_attr *attr, int want)
{
	uint32_t bits = attr->mode & 7;

	ASSERT((want & ~(R_OK | X_OK)) == 0);
	if (who->uid == attr->uid)
		bits = attr->mode >> 6 & 7;
	else if (in_group(who, attr->gid))
		bits = attr->mode >> 3 & 7;
	if ((bits & (uint32_t)want) == (uint32_t)want)
		return true;
	if (S_ISDIR(attr->mode))
		return who->reads_all;
	if (!(want & X_OK))
		return who->reads_all;
	return who->is_allowed && (attr->mode & 0111);
}
