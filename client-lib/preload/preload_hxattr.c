/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: extended attributes that are read.  `ls -l` and `cp -a` ask for those of each file.
 *
 * The appliance has only names that begin with "user."; access control lists and security labels
 * are not supported, as on the mount.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include "client-lib/preload/preload_load.h"

#include <string.h>

/* Asks for the attribute `name` of the file with the path walk.text, or for all names. */
static ssize_t ask(struct preload_session *s, const char *name, void *to, size_t size)
{
	const char *path = s->walk.text[0] ? s->walk.text : "/";
	int64_t got;

	if (S_ISLNK(s->walk.attr.mode))
		return name ? -ENODATA : 0; /* symlinks have none */
	if (name && strncmp(name, "user.", 5) != 0)
		return -EOPNOTSUPP;
	if (s->walk.attr.xattrs == 0)
		return name ? -ENODATA : 0;
	got = name ? WEKA->weka_getxattr(s->client, path, name, to, size)
		   : WEKA->weka_listxattr(s->client, path, to, size);
	return got < 0 && preload_is_away((int)got) ? -EIO : got;
}

/* Returns true if the appliance answered: *result is the result of the call. */
static bool serve_path(struct preload_path *p, const char *path, const char *name, void *to,
		       size_t size, uint32_t flags, ssize_t *result)
{
	ssize_t got;
	int err;

	if (!preload_path_enter(p, AT_FDCWD, path, PRELOAD_STAT, flags, &err))
		return false;
	got = err ? err : ask(p->s, name, to, size);
	if (!err && name && got >= 0 && !preload_walk_may(p->s, R_OK))
		got = -EACCES;
	preload_path_leave(p);
	*result = got < 0 ? preload_fail((int)got) : got;
	return true;
}

static bool serve_fd(int fd, const char *name, void *to, size_t size, ssize_t *result)
{
	const struct preload_file *file = preload_slot_get(fd, PRELOAD_SERVED | PRELOAD_SHADOW);
	const char *root = preload_setup.args.root;
	struct preload_session *s;
	ssize_t got = -EIO;
	bool is_away;

	if (!file)
		return false;
	s = preload_session_enter(&is_away);
	if (s) {
		got = -ENAMETOOLONG;
		s->walk.attr = file->attr;
		if (preload_join(s->walk.text, root, strlen(root),
				 file->path + (*file->path == '/')))
			got = ask(s, name, to, size);
		preload_session_leave(s);
	}
	preload_slot_put(fd);
	*result = got < 0 ? preload_fail((int)got) : got;
	return true;
}

/* Defines a hook for a path. */
#define BY_PATH(hook, flags, name, to, args, ...)                                                  \
	PRELOAD_HOOK ssize_t hook args                                                             \
	{                                                                                          \
		struct preload_path p;                                                             \
		ssize_t got;                                                                       \
		if (serve_path(&p, path, name, to, size, flags, &got))                             \
			return got;                                                                \
		return preload_path_real(&p, REAL->hook(p.path, __VA_ARGS__));                     \
	}

/* clang-format off */
BY_PATH(getxattr, 0, name, value,
	(const char *path, const char *name, void *value, size_t size), name, value, size)
BY_PATH(lgetxattr, PRELOAD_NOFOLLOW, name, value,
	(const char *path, const char *name, void *value, size_t size), name, value, size)
BY_PATH(listxattr, 0, NULL, list, (const char *path, char *list, size_t size), list, size)
BY_PATH(llistxattr, PRELOAD_NOFOLLOW, NULL, list, (const char *path, char *list, size_t size),
	list, size)
/* clang-format on */

PRELOAD_HOOK ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
	ssize_t got;

	return serve_fd(fd, name, value, size, &got) ? got : REAL->fgetxattr(fd, name, value, size);
}

PRELOAD_HOOK ssize_t flistxattr(int fd, char *list, size_t size)
{
	ssize_t got;

	return serve_fd(fd, NULL, list, size, &got) ? got : REAL->flistxattr(fd, list, size);
}
