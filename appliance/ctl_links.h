/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Files with several names, on their way: which came first, and which are to be links to it. */
#ifndef CTL_LINKS_H
#define CTL_LINKS_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctl_link {
	const char *first; /* the name under which the file itself is copied */
	char *name;        /* one more */
};

struct ctl_links_seen {
	uint64_t key[2]; /* whatever tells files apart: device and inode, a handle */
	char *first;     /* NULL: nobody's place */
};

struct ctl_links {                   /* zeros: none yet */
	struct ctl_links_seen *seen; /* `room` places, a power of two */
	size_t count, room;
	struct ctl_link *link; /* to be made, in the order in which they came */
	size_t nlinks, links_room;
};

/* A name of a file that has several.  false: it is the first, and the file is copied under it.
 * true: it will be a link to that one. */
bool ctl_links_add(struct ctl_links *l, const uint64_t key[2], const char *name);
void ctl_links_destroy(struct ctl_links *l);

#endif
