/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Small files that are read with their lookup, so that open, read and close cost one round trip.
 *
 *     LOOKUP --> STAT ------- attributes --> answer
 *           \--> READ_BATCH -- all bytes --> place of the handle --> OPEN takes them --> READ
 *
 * Only with cache=SECONDS, which allows bytes to be as old as their lookup.  The two requests are
 * sent together; the answer to the lookup waits for both.  A place has one file; another file with
 * the same place replaces it, so memory is bounded.  Bytes that are taken belong to the open file.
 *
 * Whether it pays is not known when a name is looked up.  So each worker keeps a score: bytes that
 * an OPEN takes raise it; a request that brings none (the name is new, or the file is large), and
 * bytes that are replaced unused, lower it.  When it is low, only one lookup in LOOKS_TRY is tried.
 *
 * A change of bytes through this mount must be seen at once.  So a place notes when the last one of
 * its files was answered, and bytes whose lookup came before that are not used.
 *
 * Invariants, true while no thread holds the lock of the place:
 *
 *  (1) A place with bytes has the whole content that its file had at one time, of the size that the
 *      lookup answered.
 *  (2) Bytes belong to a place or to one open file.  Another worker may free them as soon as the
 *      kernel has the answer to the last read: the kernel orders the two.
 */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES_MAX (32u << 10) /* of a file that is read ahead */
#define SCORE_MAX 64u
#define SCORE_LOW 16u
#define LOOKS_TRY 16u

static struct mount_place *place_of(struct mount_fs *fs, const struct weka_handle *handle)
{
	static_assert((MOUNT_PLACES & (MOUNT_PLACES - 1)) == 0, "a mask");
	return &fs->place[hash_bytes(1, handle->bytes, sizeof(handle->bytes)) & (MOUNT_PLACES - 1)];
}

int mount_ahead_create(struct mount_fs *fs)
{
	if (fs->args.cache_ns == 0)
		return 0;
	fs->place = calloc(MOUNT_PLACES, sizeof(*fs->place));
	if (!fs->place)
		return -ENOMEM;
	for (uint32_t i = 0; i < MOUNT_PLACES; i++)
		pthread_mutex_init(&fs->place[i].lock, NULL);
	return 0;
}

void mount_ahead_destroy(struct mount_fs *fs)
{
	for (uint32_t i = 0; fs->place && i < MOUNT_PLACES; i++)
		free(fs->place[i].bytes);
	free(fs->place);
	fs->place = NULL;
}

/* ---- asked for --------------------------------------------------------------------------- */

static bool is_worth_it(struct mount_worker *w)
{
	if (!w->fs->place)
		return false;
	w->lookups++;
	return w->ahead_score >= SCORE_LOW || w->lookups % LOOKS_TRY == 0;
}

void mount_ahead_begin(struct mount_worker *w, struct mount_op *op)
{
	struct mount_ahead *a;
	struct weka_window window = { 0 };

	ASSERT(!op->ahead && op->in_flight);
	if (!is_worth_it(w))
		return;
	a = calloc(1, sizeof(*a));
	if (!a)
		return;
	op->ahead = a;
	a->item.ref = mount_ref_in(op->at, op->name[0]);
	a->item.length_bytes = WEKA_TO_END;
	a->req.user = op;
	a->req.timeout_ns = op->req.timeout_ns;
	window.size_bytes = weka_window_bytes(1, BYTES_MAX);
	if (weka_lease(w->client, window.size_bytes, &a->lease))
		return;
	window.lease = a->lease;
	a->in_flight = weka_submit_read_batch(w->client, &a->req, &a->item, 1, &window) == 0;
}

void mount_ahead_end(struct mount_worker *w, struct mount_op *op)
{
	if (!op->ahead)
		return;
	ASSERT(!op->ahead->in_flight);
	if (op->ahead->lease)
		(void)weka_release(w->client, op->ahead->lease);
	free(op->ahead);
	op->ahead = NULL;
}

/* ---- kept, taken -------------------------------------------------------------------------- */

static void score_lower(struct mount_worker *w)
{
	w->ahead_score -= w->ahead_score > 0;
}

/* Returns true if the bytes are the whole content of the file.  If their size is another one, the
 * file, or its name, changed between the two requests. */
static bool is_whole(const struct mount_ahead *a, const struct weka_attr *attr)
{
	return a->req.status == 0 && a->item.status == 0 && a->item.got_bytes == attr->size_bytes &&
	       attr->size_bytes > 0 && S_ISREG(attr->mode);
}

void mount_ahead_keep(struct mount_worker *w, struct mount_op *op, const struct weka_attr *attr)
{
	const struct mount_ahead *a = op->ahead;
	struct mount_place *p;
	char *bytes, *old;

	if (!a)
		return;
	if (!attr || !is_whole(a, attr)) {
		score_lower(w);
		return;
	}
	bytes = malloc(attr->size_bytes);
	if (!bytes)
		return;
	memcpy(bytes, a->item.data, attr->size_bytes);
	p = place_of(w->fs, &attr->handle);
	pthread_mutex_lock(&p->lock);
	old = p->bytes;
	p->bytes = bytes; /* (2) */
	p->size_bytes = (uint32_t)attr->size_bytes;
	p->handle = attr->handle;
	p->begun_ns = op->begun_ns;
	p->until_ns = op->begun_ns + w->fs->args.cache_ns;
	ASSERT(p->size_bytes <= BYTES_MAX); /* (1) */
	pthread_mutex_unlock(&p->lock);
	if (old)
		score_lower(w);
	free(old);
}

void mount_ahead_changed(struct mount_worker *w, const struct weka_handle *handle)
{
	/* A lookup of another worker may have come in this turn: not w->now_ns.  The kernel orders
	 * this before a read that follows the change. */
	if (w->fs->place)
		atomic_store_explicit(&place_of(w->fs, handle)->changed_ns, clock_now_ns(),
				      memory_order_relaxed);
}

static bool is_good(struct mount_worker *w, const struct mount_place *p, uint64_t begun_ns,
		    uint64_t until_ns)
{
	return w->now_ns < until_ns &&
	       begun_ns > atomic_load_explicit(&p->changed_ns, memory_order_relaxed);
}

bool mount_ahead_take(struct mount_worker *w, const struct weka_handle *handle,
		      struct mount_file *file)
{
	struct mount_place *p;

	ASSERT(!file->bytes);
	if (!w->fs->place)
		return false;
	p = place_of(w->fs, handle);
	pthread_mutex_lock(&p->lock);
	if (p->bytes && memcmp(&p->handle, handle, sizeof(*handle)) == 0 &&
	    is_good(w, p, p->begun_ns, p->until_ns)) {
		file->bytes = p->bytes; /* (2) */
		file->size_bytes = p->size_bytes;
		file->begun_ns = p->begun_ns;
		file->until_ns = p->until_ns;
		p->bytes = NULL;
	}
	ASSERT(!p->bytes || p->bytes != file->bytes); /* (2) */
	pthread_mutex_unlock(&p->lock);
	if (!file->bytes)
		return false;
	ASSERT(file->size_bytes > 0 && file->size_bytes <= BYTES_MAX); /* (1) */
	w->ahead_score = min_u32(w->ahead_score + 2, SCORE_MAX);
	return true;
}

bool mount_ahead_read(struct mount_worker *w, const struct mount_op *op)
{
	const struct fuse_read_in *in = (const void *)op->args;
	const struct mount_file *file = (const struct mount_file *)(uintptr_t)in->fh;
	uint64_t length;

	if (!file->bytes ||
	    !is_good(w, place_of(w->fs, &file->handle), file->begun_ns, file->until_ns))
		return false;
	length = in->offset < file->size_bytes ? file->size_bytes - in->offset : 0;
	(void)mount_reply(w, op, file->bytes + min_u64(in->offset, file->size_bytes),
			  min_u64(length, in->size));
	return true;
}
