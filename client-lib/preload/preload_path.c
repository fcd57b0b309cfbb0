/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A path that a program gives: is it the appliance's, and what does the appliance say of it?
 *
 *     absolute ------------ matched as text --------+
 *     relative ------------ behind getcwd() --------+--> preload_walk()
 *     relative to a descriptor: of a served directory --> by its handle
 *
 *  (1) The session is in use from preload_path_enter(), if that returns true, to
 *      preload_path_leave().
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <limits.h>
#include <string.h>

/* Copies the part of a path that is below the directory; false: it does not lead there. */
static bool match(char *rest, const char *path)
{
	const char *found = preload_match(preload_setup.canonical, path);

	if (!found)
		found = preload_match(preload_setup.args.dir, path);
	if (!found)
		return false;
	if (rest)
		memcpy(rest, found, strlen(found) + 1);
	return true;
}

static bool match_cwd(char *rest, const char *path)
{
	char cwd[PRELOAD_TEXT];

	return REAL->getcwd(cwd, PATH_MAX) && preload_join(cwd, cwd, strlen(cwd), path) &&
	       match(rest, cwd);
}

/* Returns the file of a served directory, if the path is relative to it. */
static const struct preload_file *base_of(int dirfd, const char *path)
{
	const struct preload_file *base;

	if (dirfd == AT_FDCWD || (path && *path == '/'))
		return NULL;
	base = preload_slot_get(dirfd, PRELOAD_SERVED);
	if (base && base->kind != PRELOAD_DIR) {
		preload_slot_put(dirfd);
		base = NULL;
	}
	return base;
}

/* Returns true if the appliance has to be asked. */
static bool is_ours(int dirfd, const char *path, const struct preload_file **base)
{
	*base = NULL;
	if (!preload_setup.is_active || preload_inside || !path || !*path)
		return false;
	if (strnlen(path, PATH_MAX) == PATH_MAX)
		return false;
	if (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0)
		preload_settle_named(path);
	if (*path == '/')
		return match(NULL, path);
	if (dirfd == AT_FDCWD)
		return match_cwd(NULL, path);
	*base = base_of(dirfd, path);
	return *base;
}

static void begin(struct preload_walk *w, const char *path, const struct preload_file *base)
{
	const char *root = preload_setup.args.root;
	const char *at = base ? base->path : "", *name;
	size_t bytes;

	w->depth = w->first = w->base = w->links = 0;
	w->end[0] = (uint32_t)strlen(root);
	memcpy(w->text, root, w->end[0] + 1);
	for (;;) {
		name = preload_component(&at, &bytes);
		if (bytes == 0)
			break;
		ASSERT(w->depth < PRELOAD_DEPTH);
		w->text[w->end[w->depth]] = '/';
		memcpy(w->text + w->end[w->depth] + 1, name, bytes + 1);
		w->end[w->depth + 1] = w->end[w->depth] + 1 + (uint32_t)bytes;
		w->text[w->end[++w->depth]] = 0;
	}
	if (base)
		w->handle = base->attr.handle;
	w->base = w->depth;
	if (*path == '/')
		(void)match(w->rest, path);
	else if (!base)
		(void)match_cwd(w->rest, path);
	else
		memcpy(w->rest, path, strlen(path) + 1);
}

/* The real call needs a real directory: the mount's.  The served one stays. */
static bool open_base(struct preload_path *p, const struct preload_file *base)
{
	if (!base)
		return true;
	p->opened = preload_own_high(preload_settle_own(base, O_PATH | O_DIRECTORY));
	if (p->opened >= 0)
		p->dirfd = p->opened;
	return p->opened >= 0;
}

static struct preload_path plain(int dirfd, const char *path)
{
	return (struct preload_path){ .dirfd = dirfd, .path = path, .opened = -1 };
}

bool preload_path_lend(struct preload_path *p, int dirfd, const char *path)
{
	const struct preload_file *base = base_of(dirfd, path);
	bool is_good;

	*p = plain(dirfd, path);
	is_good = open_base(p, base);
	if (base)
		preload_slot_put(dirfd);
	return is_good;
}

static char *keep_outside(const char *path)
{
	const size_t bytes = strlen(path) + 1;
	char *kept = preload_memory_take(bytes);

	ASSERT(bytes <= PRELOAD_TEXT);
	return kept ? memcpy(kept, path, bytes) : NULL;
}

bool preload_path_enter(struct preload_path *p, int dirfd, const char *path, enum preload_want want,
			uint32_t flags, int *err)
{
	const struct preload_file *base;
	int found;

	*p = plain(dirfd, path);
	if (likely(!is_ours(dirfd, path, &base)))
		return false;
	p->s = preload_session_enter(&p->is_away);
	if (p->s)
		begin(&p->s->walk, path, base);
	found = p->s ? preload_walk(p->s, want, flags) : PRELOAD_PASS;
	*err = found;
	p->is_away = p->is_away || found == PRELOAD_AWAY;
	if (found == PRELOAD_OUTSIDE)
		p->path = p->outside = keep_outside(p->s->walk.spare);
	if (found > 0 && p->s)
		preload_path_leave(p);
	if (found > 0 && found != PRELOAD_OUTSIDE && !open_base(p, base))
		p->is_away = true;
	if (base)
		preload_slot_put(dirfd);
	return found <= 0; /* (1) */
}

void preload_path_leave(struct preload_path *p)
{
	ASSERT(p->s); /* (1) */
	preload_session_leave(p->s);
	p->s = NULL;
}

long preload_path_real(struct preload_path *p, long result)
{
	const int err = errno;

	preload_memory_give(p->outside);
	p->outside = NULL;
	if (p->opened >= 0)
		(void)REAL->close(p->opened);
	if (result < 0 && p->is_away && (err == ENOENT || err == ENOTDIR) && !preload_is_mounted())
		errno = EIO;
	else
		errno = err;
	return result;
}
