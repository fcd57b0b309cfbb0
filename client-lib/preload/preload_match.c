/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Paths as text.  A path leads into the directory if its components are those of the directory, in
 * this order, where "." and "" count for nothing and ".." takes back one that has matched.  Any
 * other component may be a symlink, so only the kernel knows where a path with one leads.
 *
 *  (1) A component that preload_component() returns is not empty, and has no "/".
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <string.h>

const char *preload_component(const char **path, size_t *bytes)
{
	const char *name = *path + strspn(*path, "/");

	*bytes = strcspn(name, "/");
	*path = name + *bytes;
	ASSERT(*bytes == 0 || *name != '/'); /* (1) */
	return name;
}

/* Takes back the last component before `at` in `dir`. */
static const char *back(const char *dir, const char *at)
{
	while (at > dir && *--at != '/')
		;
	return at;
}

const char *preload_match(const char *dir, const char *path)
{
	const char *at = dir; /* matched up to there */

	ASSERT(dir[0] == '/' && dir[1]);
	if (*path != '/')
		return NULL;
	while (*at) {
		const char *want = at, *name;
		size_t bytes, want_bytes;

		name = preload_component(&path, &bytes);
		if (bytes == 0)
			return NULL;
		if (bytes == 1 && *name == '.')
			continue;
		if (bytes == 2 && memcmp(name, "..", 2) == 0) {
			at = back(dir, at);
			continue;
		}
		want = preload_component(&want, &want_bytes);
		if (bytes != want_bytes || memcmp(name, want, bytes) != 0)
			return NULL;
		at = want + bytes;
	}
	return path;
}

bool preload_join(char *to, const char *a, size_t a_bytes, const char *b)
{
	const size_t b_bytes = strlen(b);

	if (a_bytes + 1 + b_bytes + 1 > PRELOAD_TEXT)
		return false;
	memmove(to, a, a_bytes);
	to[a_bytes] = '/';
	memcpy(to + a_bytes + 1, b, b_bytes + 1);
	return true;
}
