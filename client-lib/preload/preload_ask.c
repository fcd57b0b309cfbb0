/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Requests of one call, all in flight at once.  The lease has two parts: attributes and names of
 * many components, and bytes.
 *
 *     | 16 KiB: attributes | the rest: bytes of a file, names of a directory, a target |
 *
 *  (1) When a function returns, no request is in flight [e2e_preload].
 *  (2) The bytes that an open returns are never older than the attributes.  The two requests may be
 *      carried out in any order; a file that was changed a moment before is read again, in the
 *      state that the attributes show [e2e_preload].
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/clock.h"
#include "base/num.h"
#include "client-lib/preload/preload_load.h"

#include <string.h>

#define ATTRS_BYTES (16u << 10)
#define STATS_FREE  9u             /* so many need no window */
#define RECENT_NS   (5 * NS_PER_S) /* a change that may be newer than the bytes */
#define AGAIN_MAX   8u

bool preload_is_away(int err)
{
	switch (-err) {
	case ETIMEDOUT:
	case ENOTCONN:
	case ECONNRESET:
	case ECONNREFUSED:
	case ECANCELED:
	case EPROTO:
	case EAGAIN:
	case EBUSY:
	case EHOSTDOWN:
		return true;
	default:
		return false;
	}
}

/* Waits for `count` requests that were submitted. */
static int await(struct preload_session *s, uint32_t count)
{
	struct weka_req *done[4];
	int err = 0;

	while (count > 0) {
		int got = WEKA->weka_reap(s->client, done, ARRAY_LEN(done));

		if (got < 0)
			return got;
		ASSERT((uint32_t)got <= count);
		count -= (uint32_t)got;
		for (int i = 0; i < got; i++)
			if (preload_is_away(done[i]->status))
				err = done[i]->status;
		if (got == 0)
			(void)!WEKA->weka_wait(s->client, WEKA_FOREVER);
	}
	return err; /* (1) */
}

static int ended(struct preload_session *s, int err)
{
	if (err && preload_is_away(err))
		preload_session_away(s);
	return err;
}

static void windows(struct preload_session *s)
{
	ASSERT(s->lease->size_bytes > ATTRS_BYTES);
	s->window[0] = (struct weka_window){ .lease = s->lease, .size_bytes = ATTRS_BYTES };
	s->window[1] = (struct weka_window){
		.lease = s->lease,
		.offset_bytes = ATTRS_BYTES,
		.size_bytes = s->lease->size_bytes - ATTRS_BYTES,
	};
}

/* The reference of the first `depth` components of the path. */
static struct weka_ref ref_of(const struct preload_walk *w, uint32_t depth)
{
	struct weka_ref ref = { .by = WEKA_BY_PATH, .flags = WEKA_NOFOLLOW, .name = w->text };

	ASSERT(depth <= w->depth);
	ref.name_bytes = w->end[depth];
	if (w->end[depth] == 0) {
		ref.name = "/";
		ref.name_bytes = 1;
	}
	if (w->base == 0 || depth < w->base)
		return ref;
	ref.by = depth == w->base ? WEKA_BY_HANDLE : WEKA_BY_DIRHANDLE;
	ref.handle = w->handle;
	ref.name = depth == w->base ? NULL : w->text + w->end[w->base] + 1;
	ref.name_bytes = depth == w->base ? 0 : w->end[depth] - w->end[w->base] - 1;
	return ref;
}

static int submit_stats(struct preload_session *s, uint32_t from)
{
	const uint32_t count = s->walk.depth - from + 1;

	ASSERT(count >= 1 && count <= PRELOAD_ITEMS);
	for (uint32_t i = 0; i < count; i++)
		s->item[i] = (struct weka_stat_item){ .ref = ref_of(&s->walk, from + i) };
	return WEKA->weka_submit_stat(s->client, &s->req[0], s->item, count,
				      count > STATS_FREE ? &s->window[0] : NULL);
}

static int submit_bytes(struct preload_session *s, int64_t ctime_ns)
{
	struct weka_window window = s->window[1];

	window.size_bytes = WEKA->weka_window_bytes(1, PRELOAD_WHOLE);
	ASSERT(window.size_bytes > 0 && window.size_bytes <= s->window[1].size_bytes);
	s->window[1] = window;
	s->read = (struct weka_read_item){
		.ref = ref_of(&s->walk, s->walk.depth),
		.length_bytes = WEKA_TO_END,
		.ctime_ns = ctime_ns,
	};
	return WEKA->weka_submit_read_batch(s->client, &s->req[1], &s->read, 1, &s->window[1]);
}

static int ask_once(struct preload_session *s, uint32_t from, enum preload_want want)
{
	uint32_t count = 1;
	int err, later = 0;

	windows(s);
	err = submit_stats(s, from);
	if (err)
		return err;
	if (want == PRELOAD_READ)
		later = submit_bytes(s, 0);
	count += want == PRELOAD_READ && !later;
	err = await(s, count);
	if (!err)
		err = later;
	return err;
}

/* Returns true if the bytes may be older than the attributes, or of another length. */
static bool is_doubtful(const struct preload_session *s, uint32_t from)
{
	const struct weka_stat_item *last = &s->item[s->walk.depth - from];
	const struct weka_attr *a = &last->attr;

	if (last->status || !S_ISREG(a->mode) || a->size_bytes > PRELOAD_WHOLE)
		return false;
	if (s->read.status)
		return s->read.status == -EMSGSIZE || s->read.status == -ENOENT;
	return s->read.got_bytes != a->size_bytes ||
	       a->ctime_ns > (int64_t)clock_wall_ns() - (int64_t)RECENT_NS;
}

/* Reads again, in the state of the attributes; if that has passed, begins again. */
static int ask_newer(struct preload_session *s, uint32_t from)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < AGAIN_MAX; i++) {
		const struct weka_attr *a = &s->item[s->walk.depth - from].attr;

		windows(s);
		err = submit_bytes(s, a->ctime_ns);
		if (!err)
			err = await(s, 1);
		if (err || s->read.status != -ESTALE)
			return err;
		err = ask_once(s, from, PRELOAD_READ);
		if (!err && !is_doubtful(s, from))
			return 0;
	}
	return err;
}

int preload_ask(struct preload_session *s, uint32_t from, enum preload_want want)
{
	int err;

	ASSERT(from <= s->walk.depth);
	err = ask_once(s, from, want);
	if (!err && want == PRELOAD_READ && is_doubtful(s, from))
		err = ask_newer(s, from); /* (2) */
	return ended(s, err);
}

int preload_ask_target(struct preload_session *s, const struct weka_ref *ref, char *to)
{
	int err;

	windows(s);
	s->window[1].size_bytes = WEKA_BLOCK * 4;
	err = WEKA->weka_submit_readlink(s->client, &s->req[0], ref, &s->window[1]);
	if (!err)
		err = await(s, 1);
	if (!err)
		err = s->req[0].status;
	if (err)
		return ended(s, err);
	ASSERT(s->req[0].length_bytes < PRELOAD_TEXT);
	memcpy(to, s->req[0].data, s->req[0].length_bytes);
	to[s->req[0].length_bytes] = 0;
	return (int)s->req[0].length_bytes;
}

int preload_ask_list(struct preload_session *s, const struct weka_handle *dir,
		     struct weka_cookie *cookie, struct weka_entry *entries, uint32_t entries_max,
		     uint32_t *count, bool *at_end)
{
	const struct weka_ref ref = { .by = WEKA_BY_HANDLE, .handle = *dir };
	int err;

	windows(s);
	err = WEKA->weka_submit_list(s->client, &s->req[0], &ref, cookie, entries, entries_max,
				     &s->window[1]);
	if (!err)
		err = await(s, 1);
	if (!err)
		err = s->req[0].status;
	*count = err ? 0 : s->req[0].count;
	*at_end = err || s->req[0].length_bytes == 0 || *count == 0;
	return ended(s, err);
}

int preload_ask_again(struct preload_session *s, const char *path, uint64_t ino,
		      struct weka_handle *handle)
{
	const char *root = preload_setup.args.root;
	const struct weka_stat_item *item = &s->item[0];
	int err;

	if (!preload_join(s->walk.text, root, strlen(root), path + (*path == '/')))
		return -ENAMETOOLONG;
	windows(s);
	s->item[0] = (struct weka_stat_item){
		.ref = { .by = WEKA_BY_PATH, .flags = WEKA_NOFOLLOW, .name = s->walk.text },
	};
	err = WEKA->weka_submit_stat(s->client, &s->req[0], s->item, 1, NULL);
	if (!err)
		err = await(s, 1);
	if (!err)
		err = s->req[0].status ? s->req[0].status : item->status;
	if (!err && item->attr.ino != ino)
		err = -ESTALE;
	if (!err)
		*handle = item->attr.handle;
	return ended(s, err);
}

int preload_ask_handle(struct preload_session *s, const struct weka_handle *handle,
		       struct weka_attr *attr)
{
	int err;

	windows(s);
	s->item[0] = (struct weka_stat_item){
		.ref = { .by = WEKA_BY_HANDLE, .handle = *handle },
	};
	err = WEKA->weka_submit_stat(s->client, &s->req[0], s->item, 1, NULL);
	if (!err)
		err = await(s, 1);
	if (!err)
		err = s->req[0].status ? s->req[0].status : s->item[0].status;
	*attr = s->item[0].attr;
	return ended(s, err);
}

int64_t preload_ask_bytes(struct preload_session *s, const struct weka_handle *handle, void *bytes,
			  size_t length_bytes, uint64_t offset_bytes)
{
	int64_t got = WEKA->weka_pread(s->client, handle, bytes, length_bytes, offset_bytes);

	if (got < 0)
		(void)ended(s, (int)got);
	return got;
}
