/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories that programs read.  The kernel asks for the entries from an offset on; the appliance
 * lists page by page, from a cookie on.
 *
 *     offset   0   1    2 .. 257      258 ..
 *              "." ".." | page 0 |    | page 1 | ...     an entry's number is its offset
 *                       start[0]      start[1]       number of its first entry, and cookie
 *
 * A struct mount_dir holds one page, and the start of each page.  A program that reads on finds the
 * rest of its page unchanged, even if it removes names meanwhile.  After a seek back, the page is
 * fetched again from its cookie.  Offset 0 begins a new listing.
 *
 * With READDIRPLUS each entry is a lookup, too.  The mount asks the kernel for it only with
 * cache=SECONDS: otherwise the kernel would look up each name again.
 *
 *   D1 -> D2   a request's last use of the directory comes before the next request's first
 *
 * Invariants, true while no request has the directory:
 *
 *  (1) The page has the entries with the numbers first .. first + count - 1.
 *  (2) start[] has the pages seen so far, in order; the present one is start[page].
 *  (3) One request at a time uses a struct mount_dir; the kernel sees to that, and a second one is
 *      -EBUSY.
 */
#include "client-lib/mount/mount.h"

#include "base/num.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DOTS        2u
#define NAMES_BYTES (64u << 10) /* window of one page: names with their attributes */
#define ROOM_MAX    (MOUNT_IO_MAX / 4)

struct start {
	struct weka_cookie cookie;
	uint64_t first;
};

struct mount_dir {
	struct weka_entry entry[MOUNT_DIR_ENTRIES]; /* the page; names are in `names` */
	struct weka_cookie next;                    /* where the page after this one begins */
	struct start *start;
	uint64_t first;
	uint32_t start_count;
	uint32_t page;
	uint32_t count;
	bool has_page;
	bool at_end; /* no page after this one */
	atomic_flag in_use;
	char names[MOUNT_DIR_ENTRIES * (WEKA_NAME_MAX + 1)];
};

static struct mount_dir *dir_of(const struct fuse_read_in *in)
{
	return (struct mount_dir *)(uintptr_t)in->fh;
}

/* ---- opened, closed -------------------------------------------------------------------------- */

int mount_opendir_begin(struct mount_worker *w, struct mount_op *op)
{
	struct mount_dir *d = calloc(1, sizeof(*d));
	struct fuse_open_out out = { .fh = (uint64_t)(uintptr_t)d };

	if (!d)
		return -ENOMEM;
	d->start = calloc(1, sizeof(*d->start));
	if (!d->start) {
		free(d);
		return -ENOMEM;
	}
	d->start_count = 1;
	d->start[0].first = DOTS;
	return mount_reply(w, op, &out, sizeof(out));
}

int mount_releasedir_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_release_in *in = (const void *)op->args;
	struct mount_dir *d = (struct mount_dir *)(uintptr_t)in->fh;

	free(d->start);
	free(d);
	return mount_reply(w, op, NULL, 0);
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Copies the page, which is in the window, to where it stays. */
static void page_keep(struct mount_dir *d, uint32_t count, bool at_end)
{
	char *to = d->names;

	for (uint32_t i = 0; i < count; i++) {
		struct weka_entry *e = &d->entry[i];

		ASSERT(e->name_bytes <= WEKA_NAME_MAX);
		memcpy(to, e->name, e->name_bytes);
		to[e->name_bytes] = 0;
		e->name = to;
		to += e->name_bytes + 1;
	}
	ASSERT(to <= d->names + sizeof(d->names));
	d->count = count;
	d->at_end = at_end;
	d->has_page = true;
}

/* Notes where the page after the present one begins. */
static int start_add(struct mount_dir *d)
{
	struct start *more;

	if (d->page + 1 < d->start_count)
		return 0; /* it was seen before */
	more = realloc(d->start, (d->start_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	d->start = more;
	d->start[d->start_count++] =
		(struct start){ .cookie = d->next, .first = d->first + d->count };
	ASSERT(d->page + 1 < d->start_count); /* (2) */
	return 0;
}

/* Chooses the page in which `number` is: the next one, or one that was seen. */
static int page_choose(struct mount_dir *d, uint64_t number)
{
	if (d->has_page && number >= d->first + d->count && !d->at_end) {
		int err = start_add(d);

		if (err)
			return err;
		d->page++;
	} else {
		while (d->page > 0 && d->start[d->page].first > number)
			d->page--;
	}
	ASSERT(d->page < d->start_count); /* (2) */
	d->first = d->start[d->page].first;
	d->next = d->start[d->page].cookie;
	d->count = 0;
	d->has_page = false;
	return 0;
}

static bool has(const struct mount_dir *d, uint64_t number)
{
	return d->has_page && number >= d->first &&
	       (number < d->first + d->count || d->at_end); /* (1) */
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The payload of an answer: room for `size` bytes, `used` of them taken. */
struct room {
	char *bytes;
	uint32_t size;
	uint32_t used;
	bool plus;
};

/* Adds an entry; returns false when there is no room. */
static bool add(struct mount_fs *fs, struct room *r, uint64_t number, const struct weka_attr *attr,
		const char *name, bool looks_up)
{
	const uint32_t name_bytes = (uint32_t)strlen(name);
	const uint32_t head = r->plus ? (uint32_t)offsetof(struct fuse_direntplus, dirent) : 0;
	const uint32_t bytes = (uint32_t)align_up(
		head + offsetof(struct fuse_dirent, name) + name_bytes, sizeof(uint64_t));
	struct fuse_entry_out entry = { 0 };
	struct fuse_dirent out = {
		.ino = attr->ino,
		.off = number + 1,
		.namelen = name_bytes,
		.type = (attr->mode & S_IFMT) >> 12,
	};
	char *at = r->bytes + r->used;

	if (bytes > r->size - r->used)
		return false;
	if (looks_up && mount_entry_out(fs, attr, &entry))
		return false;
	memset(at, 0, bytes);
	memcpy(at, &entry, head);
	memcpy(at + head, &out, offsetof(struct fuse_dirent, name));
	memcpy(at + head + offsetof(struct fuse_dirent, name), name, name_bytes);
	r->used += bytes;
	return true;
}

/* Adds the entries from `number` on that are in the page. */
static void fill(struct mount_fs *fs, struct mount_op *op, struct mount_dir *d, struct room *r,
		 uint64_t number)
{
	static const char *const dots[DOTS] = { ".", ".." };
	const struct weka_attr self = { .ino = op->at->ino, .mode = S_IFDIR };

	for (; number < DOTS; number++)
		if (!add(fs, r, number, &self, dots[number], false))
			return;
	for (; number < d->first + d->count; number++) {
		const struct weka_entry *e = &d->entry[number - d->first];

		ASSERT(number >= d->first); /* (1) */
		if (!add(fs, r, number, &e->attr, e->name, r->plus))
			return;
	}
}

/* Ends the use of the directory, unless the request goes on. */
static int end(struct mount_op *op, int result)
{
	if (result == MOUNT_WAIT || result == -EAGAIN)
		return result;
	atomic_flag_clear_explicit(&op->dir->in_use, memory_order_release); /* D1 */
	op->dir = NULL;
	return result;
}

/* Answers from the page.  The use of the directory ends first: with the answer in its hands the
 * kernel may send the next request to another worker. */
static int answer(struct mount_worker *w, struct mount_op *op, bool plus)
{
	const struct fuse_read_in *in = (const void *)op->args;
	struct room r = { .size = min_u32(in->size, ROOM_MAX), .plus = plus };

	r.bytes = malloc(max_u32(r.size, 1));
	if (!r.bytes)
		return end(op, -ENOMEM);
	fill(w->fs, op, op->dir, &r, in->offset);
	(void)end(op, MOUNT_DONE);
	(void)mount_reply(w, op, r.bytes, r.used);
	free(r.bytes);
	return MOUNT_DONE;
}

/* ---- requests -------------------------------------------------------------------------------- */

enum { WANTS_PAGE = 1, FETCHES };

static int fetch(struct mount_worker *w, struct mount_op *op, struct mount_dir *d)
{
	int err = mount_lease(w, op, NAMES_BYTES);

	op->doing = WANTS_PAGE;
	if (err)
		return err;
	op->ref[0] = mount_ref(op->at);
	err = weka_submit_list(w->client, mount_req(w, op), &op->ref[0], &d->next, d->entry,
			       MOUNT_DIR_ENTRIES, &op->window);
	if (!err)
		op->doing = FETCHES;
	return mount_sent(op, err);
}

static int from(struct mount_worker *w, struct mount_op *op, bool plus)
{
	const struct fuse_read_in *in = (const void *)op->args;
	const uint64_t number = max_u64(in->offset, DOTS);
	struct mount_dir *d = dir_of(in);
	int err;

	if (!op->dir && /* D2 */
	    atomic_flag_test_and_set_explicit(&d->in_use, memory_order_acquire))
		return -EBUSY; /* (3) */
	if (!op->dir && in->offset == 0) {
		d->has_page = false;
		d->start_count = 1;
		d->page = 0;
	}
	if (!op->dir && has(d, number)) {
		op->dir = d;
		return answer(w, op, plus);
	}
	err = op->dir ? 0 : page_choose(d, number);
	op->dir = d;
	return end(op, err ? err : fetch(w, op, d));
}

static int listed(struct mount_worker *w, struct mount_op *op, bool plus)
{
	const struct fuse_read_in *in = (const void *)op->args;
	struct mount_dir *d = op->dir;
	int err = op->req.status;

	ASSERT(d && op->doing != 0); /* (3) */
	if (op->doing == WANTS_PAGE) /* it waited for a lease */
		return end(op, fetch(w, op, d));
	if (err)
		return end(op, err);
	page_keep(d, op->req.count, op->req.length_bytes == 0);
	if (has(d, max_u64(in->offset, DOTS)) || d->at_end)
		return answer(w, op, plus);
	err = page_choose(d, d->first + d->count);
	return end(op, err ? err : fetch(w, op, d));
}

int mount_readdir_begin(struct mount_worker *w, struct mount_op *op)
{
	return from(w, op, false);
}

int mount_readdir_step(struct mount_worker *w, struct mount_op *op)
{
	return listed(w, op, false);
}

int mount_readdirplus_begin(struct mount_worker *w, struct mount_op *op)
{
	return from(w, op, true);
}

int mount_readdirplus_step(struct mount_worker *w, struct mount_op *op)
{
	return listed(w, op, true);
}
