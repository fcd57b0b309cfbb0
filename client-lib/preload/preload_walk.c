/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Resolves a path as the kernel would on the mount.
 *
 *     rest --components--> text --one round trip--> each a directory? --> found
 *       ^                                             |
 *       +---- the target of a symlink, and the rest --+    ".." is taken once its directory
 *                                                          is known, so it costs one more trip
 *
 * The appliance could follow symlinks, but relative to its own root: a link that leads out of the
 * directory would miss.  So all components are asked for at once, unfollowed, and the last one a
 * second time with its bytes.  If none is a symlink, which is the usual case, that was all.
 *
 *  (1) Components before `first` are directories that may be searched, and no symlinks
 *      [e2e_preload].
 *  (2) text is the root, and behind it `depth` times "/" and a component.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/num.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>

#define LINK      10 /* a symlink or a ".." was taken: take another step */
#define LINKS_MAX 40u
#define STEPS_MAX 1000u

/* ---- the caller --------------------------------------------------------------------------- */

/* Returns effective capabilities. */
static uint64_t capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) != 0)
		return 0;
	return data[0].effective;
}

static bool has(uint64_t caps, uint32_t cap)
{
	return caps >> cap & 1;
}

static void who_begin(struct preload_session *s, uint32_t flags)
{
	const bool real = flags & PRELOAD_REAL_IDS;
	const uid_t uid = real ? getuid() : geteuid();
	/* access() asks for the real user without capabilities, unless that is root. */
	const uint64_t caps = real && uid != 0 ? 0 : capabilities();
	int count = 0;

	static_assert(sizeof(gid_t) == sizeof(s->groups[0]), "one type");
	if (!has(caps, CAP_DAC_OVERRIDE))
		count = getgroups(ARRAY_LEN(s->groups), s->groups);
	s->who = (struct preload_who){
		.uid = uid,
		.gid = real ? getgid() : getegid(),
		.groups = s->groups,
		.group_count = count > 0 ? (uint32_t)count : 0,
		.reads_all = has(caps, CAP_DAC_OVERRIDE) || has(caps, CAP_DAC_READ_SEARCH),
		.is_allowed = has(caps, CAP_DAC_OVERRIDE),
	};
}

/* ---- components ---------------------------------------------------------------------------- */

/* Adds a component. */
static int push(struct preload_walk *w, const char *name, size_t bytes)
{
	const uint32_t at = w->end[w->depth];

	if (w->depth == PRELOAD_DEPTH || at + 1 + bytes + 1 > PRELOAD_TEXT)
		return PRELOAD_PASS;
	w->text[at] = '/';
	memcpy(w->text + at + 1, name, bytes);
	w->text[at + 1 + bytes] = 0;
	w->end[++w->depth] = at + 1 + (uint32_t)bytes;
	ASSERT(w->text[w->end[w->depth - 1]] == '/'); /* (2) */
	return 0;
}

static void pop(struct preload_walk *w)
{
	ASSERT(w->depth > 0);
	w->text[w->end[--w->depth]] = 0;
	w->first = min_u32(w->first, w->depth);
	if (w->depth < w->base)
		w->base = 0;
}

/* The rest of the path begins at an absolute path: back into the directory, or out. */
static int restart(struct preload_walk *w, const char *path)
{
	const char *rest = preload_match(preload_setup.canonical, path);

	if (!rest)
		rest = preload_match(preload_setup.args.dir, path);
	if (!rest) {
		memmove(w->spare, path, strlen(path) + 1);
		return PRELOAD_OUTSIDE;
	}
	memmove(w->rest, rest, strlen(rest) + 1);
	w->depth = w->first = w->base = 0;
	w->text[w->end[0]] = 0;
	return LINK;
}

/* ".." of the root leads out of the directory, to its parent. */
static int leave(struct preload_walk *w)
{
	const char *dir = preload_setup.canonical, *slash = strrchr(dir, '/');

	ASSERT(w->depth == 0 && slash);
	if (!preload_join(w->link, dir, (size_t)(slash - dir), w->rest))
		return -ENAMETOOLONG;
	return restart(w, w->link);
}

/* Follows the symlink that is component `at`: its target, and then the components after it, come
 * before the rest. */
static int follow(struct preload_session *s, uint32_t at, const struct weka_attr *link)
{
	struct preload_walk *w = &s->walk;
	const struct weka_ref ref = { .by = WEKA_BY_HANDLE, .handle = link->handle };
	const uint32_t after = w->end[at] + 1;
	int bytes = preload_ask_target(s, &ref, w->link);

	if (bytes < 0)
		return bytes;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (at < w->depth) {
		if (!preload_join(w->spare, w->text + after, w->end[w->depth] - after, w->rest))
			return -ENAMETOOLONG;
		if (!w->rest[0]) /* no slash behind the last name */
			w->spare[strlen(w->spare) - 1] = 0;
		memcpy(w->rest, w->spare, strlen(w->spare) + 1);
	}
	if (w->rest[0] && !preload_join(w->spare, w->link, (size_t)bytes, w->rest))
		return -ENAMETOOLONG;
	memcpy(w->rest, w->rest[0] ? w->spare : w->link, PRELOAD_TEXT);
	while (w->depth >= at)
		pop(w);
	if (w->rest[0] != '/')
		return LINK;
	memcpy(w->link, w->rest, PRELOAD_TEXT);
	return restart(w, w->link);
}

/* ---- one trip ------------------------------------------------------------------------------ */

/* Looks at the components from `from` on.  `is_last`: nothing comes behind them. */
static int judge(struct preload_session *s, uint32_t from, bool is_last, bool nofollow, bool is_dir)
{
	struct preload_walk *w = &s->walk;

	for (uint32_t i = from; i <= w->depth; i++) {
		const struct weka_stat_item *item = &s->item[i - from];
		const bool is_end = is_last && i == w->depth;

		if (item->status)
			return item->status;
		if (S_ISLNK(item->attr.mode) && !(is_end && nofollow && !is_dir))
			return follow(s, i, &item->attr);
		if ((!is_end || is_dir) && !S_ISDIR(item->attr.mode))
			return -ENOTDIR;
		if (!is_end && !preload_may(&s->who, &item->attr, X_OK))
			return -EACCES;
	}
	w->attr = s->item[w->depth - from].attr;
	if (!is_last)
		w->first = w->depth + 1; /* (1) */
	return 0;
}

enum last { LAST, DOTS, LONG };

/* Moves components from the rest to the text, up to the end, a "..", or one that is too long.
 * *is_dir: a slash or a "." comes last. */
static int take(struct preload_walk *w, enum last *last, bool *is_dir)
{
	const char *at = w->rest, *name;
	size_t bytes;
	int err = 0;

	*last = LAST;
	*is_dir = false;
	while (!err && *last == LAST) {
		name = preload_component(&at, &bytes);
		if (bytes == 0)
			break;
		*is_dir = *at == '/' || (bytes == 1 && *name == '.');
		if (bytes == 1 && *name == '.')
			continue;
		if (bytes == 2 && memcmp(name, "..", 2) == 0)
			*last = DOTS;
		else if (bytes > WEKA_NAME_MAX)
			*last = LONG;
		else
			err = push(w, name, bytes);
	}
	if (*last != LAST)
		at = name; /* it is looked at again, if a symlink comes before it */
	else if (*is_dir)
		at = "/";
	memmove(w->rest, at, strlen(at) + 1);
	return err;
}

/* Takes the ".." at the start of the rest, whose directory is known. */
static int go_up(struct preload_walk *w)
{
	const char *at = w->rest;
	size_t bytes;

	(void)preload_component(&at, &bytes);
	ASSERT(bytes == 2);
	if (!*at)
		at = "/"; /* what is left must be a directory */
	memmove(w->rest, at, strlen(at) + 1);
	if (w->depth == 0)
		return leave(w);
	pop(w);
	return LINK;
}

static int step(struct preload_session *s, enum preload_want want, uint32_t flags)
{
	struct preload_walk *w = &s->walk;
	enum last last;
	bool is_dir;
	int err = take(w, &last, &is_dir);
	uint32_t from;

	if (err)
		return err;
	/* The root is a directory, and so is the one that a handle stands for. */
	w->first = max_u32(w->first, w->base + s->who.reads_all);
	from = min_u32(w->first, w->depth);
	err = preload_ask(s, from, last == LAST ? want : PRELOAD_STAT);
	if (!err)
		err = judge(s, from, last == LAST, flags & PRELOAD_NOFOLLOW, is_dir);
	if (err == -ESTALE && w->base > 0) { /* another session's handle, or it was removed */
		w->base = w->first = 0;
		return LINK;
	}
	if (err || last == LAST)
		return err;
	return last == DOTS ? go_up(w) : -ENAMETOOLONG;
}

int preload_walk(struct preload_session *s, enum preload_want want, uint32_t flags)
{
	int err = LINK;

	who_begin(s, flags);
	for (uint32_t i = 0; err == LINK; i++) {
		if (i > STEPS_MAX)
			return -ELOOP;
		err = step(s, want, flags);
	}
	return err < 0 && preload_is_away(err) ? PRELOAD_AWAY : err;
}

bool preload_walk_may(const struct preload_session *s, int want)
{
	return preload_may(&s->who, &s->walk.attr, want);
}
