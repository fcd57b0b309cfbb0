/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files with several names: import and export copy them once, and make the other names when all
 * copies are complete.
 *
 *   name --key--> seen? --no---> its place in `seen`: the first; copied
 *                    \---yes---> link[]: {first, name}
 *
 *  (1) Less than half of the places are used, so that a search ends soon.
 */
#include "appliance/ctl/ctl_links.h"
#include "appliance/ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

static struct ctl_links_seen *place_of(struct ctl_links *l, const uint64_t key[2])
{
	size_t at = (size_t)((key[0] * 0xff51afd7ed558ccdu ^ key[1]) * 0xc4ceb9fe1a85ec53u >> 20);

	for (;; at++) {
		struct ctl_links_seen *s = &l->seen[at & (l->room - 1)];

		if (!s->first || (s->key[0] == key[0] && s->key[1] == key[1]))
			return s;
	}
}

static void grow(struct ctl_links *l)
{
	struct ctl_links_seen *old = l->seen;
	size_t room = l->room;

	if (2 * (l->count + 1) < room) /* (1) */
		return;
	l->room = room ? 2 * room : 64;
	l->seen = ctl_need(calloc(l->room, sizeof(*l->seen)));
	for (size_t i = 0; i < room; i++)
		if (old[i].first)
			*place_of(l, old[i].key) = old[i];
	free(old);
}

static struct ctl_first *first_of(struct ctl_dir *dir, const char *name)
{
	const size_t bytes = strlen(name) + 1;
	struct ctl_first *first = ctl_need(calloc(1, sizeof(*first) + bytes));

	first->dir = dir;
	memcpy(first->name, name, bytes);
	return first;
}

struct ctl_first *ctl_links_add(struct ctl_links *l, const uint64_t key[2], struct ctl_dir *dir,
				const char *name)
{
	struct ctl_links_seen *s;

	grow(l);
	s = place_of(l, key);
	if (!s->first) {
		*s = (struct ctl_links_seen){ { key[0], key[1] }, first_of(dir, name) };
		l->count++;
		ASSERT(2 * l->count < l->room); /* (1) */
		return s->first;
	}
	if (l->nlinks == l->links_room) {
		l->links_room = l->links_room ? 2 * l->links_room : 64;
		l->link = ctl_need(realloc(l->link, l->links_room * sizeof(*l->link)));
	}
	l->link[l->nlinks++] = (struct ctl_link){ s->first, dir, ctl_need(strdup(name)) };
	return NULL;
}

void ctl_links_destroy(struct ctl_links *l)
{
	for (size_t i = 0; i < l->nlinks; i++)
		free(l->link[i].name);
	for (size_t i = 0; i < l->room; i++)
		free(l->seen[i].first);
	free(l->link);
	free(l->seen);
	*l = (struct ctl_links){ 0 };
}
