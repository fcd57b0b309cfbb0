/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Files and symlinks with several names: the first of each, and those to be linked to it. */
#ifndef CTL_LINKS_H
#define CTL_LINKS_H

#include "appliance/ctl/ctl_local.h"

struct ctl_first { /* the name under which the file itself is copied */
	struct ctl_dir *dir;
	bool is_there; /* it has been copied, or was there already */
	char name[];
};

struct ctl_link {
	struct ctl_first *first;
	struct ctl_dir *dir; /* one more name */
	char *name;
};

struct ctl_links_seen {
	uint64_t key[2];         /* whatever tells files apart: device and inode, a handle */
	struct ctl_first *first; /* NULL: nobody's place */
};

struct ctl_links {                   /* zeros: none yet */
	struct ctl_links_seen *seen; /* `room` places, a power of two */
	size_t count, room;
	struct ctl_link *link; /* to be made, in the order in which they came */
	size_t nlinks, links_room;
};

/* Adds a name of a file that has several.  Returns the file's first name if this is it, and the
 * file must be copied under it; NULL if it will be a link to that one. */
struct ctl_first *ctl_links_add(struct ctl_links *l, const uint64_t key[2], struct ctl_dir *dir,
				const char *name);
void ctl_links_destroy(struct ctl_links *l);

#endif
