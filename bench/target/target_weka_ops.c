/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The ios of a group as requests of libweka-client: as many names in one request as its window
 * takes.  A file of more than APPL__PIECE bytes is read as several items.
 *
 * Invariant:
 *
 *  (1) io->parts pieces of an io are in requests; io->next_bytes of it were asked for.
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/target/target_weka.h"

#include <errno.h>
#include <string.h>

#define LARGE_DEPTH 8u

static struct weka_ref ref_of(const struct appl__session *p, const struct target_io *io)
{
	return (struct weka_ref){ .by = WEKA_BY_DIR, .dir = p->root_dir, .name = io->path };
}

/* ---- reads ------------------------------------------------------------------------------ */

/* The next piece of the group; its length, 0: none is left, or it does not fit beside `largest`. */
static uint64_t next_piece(const struct target_group *g, uint32_t count, uint64_t largest,
			   struct appl__piece *out)
{
	const struct target_io *io = g->begun < g->count ? &g->io[g->begun] : NULL;
	uint64_t bytes;

	if (!io || count == APPL__ITEMS)
		return 0;
	bytes = io->length_bytes == TARGET_TO_END ? APPL__PIECE : io->length_bytes - io->next_bytes;
	bytes = min_u64(bytes, APPL__PIECE);
	largest = max_u64(largest, align_up(bytes, WEKA_BLOCK) + WEKA_BLOCK);
	if (count > 0 && (weka_window_bytes(count + 1, largest) == 0 ||
			  weka_window_bytes(count + 1, largest) > APPL__WINDOW))
		return 0;
	*out = (struct appl__piece){ &g->io[g->begun], io->offset_bytes + io->next_bytes };
	return bytes;
}

static int begin_read(struct appl__session *p, struct appl__slot *slot, struct target_group *g)
{
	uint64_t largest = 0, bytes;

	while ((bytes = next_piece(g, slot->count, largest, &slot->piece[slot->count])) > 0) {
		struct target_io *io = slot->piece[slot->count].io;

		slot->item.read[slot->count] = (struct weka_read_item){
			.ref = ref_of(p, io),
			.offset_bytes = slot->piece[slot->count].offset_bytes,
			.length_bytes = io->length_bytes == TARGET_TO_END ? WEKA_TO_END : bytes,
		};
		io->parts++; /* (1) */
		io->next_bytes += bytes;
		largest = max_u64(largest, align_up(bytes, WEKA_BLOCK) + WEKA_BLOCK);
		slot->count++;
		if (io->length_bytes == TARGET_TO_END || io->next_bytes >= io->length_bytes)
			g->begun++;
	}
	return weka_submit_read_batch(p->client, &slot->req, slot->item.read, slot->count,
				      &slot->window);
}

static void finish_read(struct target_session *s, struct appl__slot *slot)
{
	for (uint32_t i = 0; i < slot->count; i++) {
		const struct weka_read_item *item = &slot->item.read[i];
		struct target_io *io = slot->piece[i].io;

		ASSERT(io->parts > 0); /* (1) */
		io->parts--;
		if (slot->req.status || item->status)
			io->status = slot->req.status ? slot->req.status : item->status;
		else
			target__landed(io, item->offset_bytes, item->data, item->got_bytes);
		if (io->parts > 0 ||
		    (io->length_bytes != TARGET_TO_END && io->next_bytes < io->length_bytes))
			continue;
		if (!io->status && io->length_bytes != TARGET_TO_END &&
		    io->got_bytes != io->length_bytes)
			io->status = -ENODATA;
		target__ended(s, slot->group, io, 0);
	}
}

/* The memory of a slot that writes: bytes that nothing makes smaller. */
static uint8_t *bytes_of(struct appl__slot *slot)
{
	uint8_t *data = (uint8_t *)slot->window.lease->data + slot->window.offset_bytes;

	if (!slot->filled)
		target__scramble(data, APPL__WINDOW);
	slot->filled = true;
	return data;
}

/* ---- puts, stats, removals --------------------------------------------------------------- */

static int begin_put(struct appl__session *p, struct appl__slot *slot, struct target_group *g)
{
	uint8_t *data = bytes_of(slot);
	uint64_t largest = 0, at = 0;

	while (g->begun < g->count && slot->count < APPL__ITEMS) {
		struct target_io *io = &g->io[g->begun];
		uint32_t need;

		largest = max_u64(largest, align_up(io->length_bytes, 64));
		need = weka_window_bytes(slot->count + 1, largest);
		if (slot->count > 0 && (need == 0 || need > APPL__WINDOW))
			break;
		io->content->fill(io->content, io->file, 0, data + at, io->length_bytes);
		slot->piece[slot->count] = (struct appl__piece){ io, 0 };
		slot->item.put[slot->count++] = (struct weka_put_item){
			.ref = ref_of(p, io),
			.create = { .mode = 0600 },
			.window_at = (uint32_t)at,
			.size_bytes = (uint32_t)io->length_bytes,
		};
		at += align_up(io->length_bytes, 64);
		g->begun++;
	}
	return weka_submit_put(p->client, &slot->req, slot->item.put, slot->count, &slot->window);
}

static int begin_other(struct appl__session *p, struct appl__slot *slot, struct target_group *g)
{
	while (g->begun < g->count && slot->count < APPL__ITEMS) {
		struct target_io *io = &g->io[g->begun++];

		slot->piece[slot->count] = (struct appl__piece){ io, 0 };
		if (g->op == TARGET_STAT)
			slot->item.stat[slot->count++] =
				(struct weka_stat_item){ .ref = ref_of(p, io) };
		else
			slot->item.unlink[slot->count++] =
				(struct weka_unlink_item){ .ref = ref_of(p, io) };
	}
	if (g->op == TARGET_STAT)
		return weka_submit_stat(p->client, &slot->req, slot->item.stat, slot->count,
					&slot->window);
	return weka_submit_unlink_batch(p->client, &slot->req, slot->item.unlink, slot->count,
					&slot->window);
}

static void finish_other(struct target_session *s, struct appl__slot *slot)
{
	for (uint32_t i = 0; i < slot->count; i++) {
		struct target_io *io = slot->piece[i].io;
		int err = slot->req.status;

		if (slot->group->op == TARGET_PUT)
			err = err ? err : slot->item.put[i].status;
		else if (slot->group->op == TARGET_STAT)
			err = err ? err : slot->item.stat[i].status;
		else
			err = err ? err : slot->item.unlink[i].status;
		if (slot->group->op == TARGET_STAT)
			io->got_bytes = slot->item.stat[i].attr.size_bytes;
		target__ended(s, slot->group, io, err);
	}
}

int appl__begin(struct appl__session *p, struct appl__slot *slot, struct target_group *g)
{
	int err;

	slot->count = 0;
	slot->group = g;
	if (g->op == TARGET_READ)
		err = begin_read(p, slot, g);
	else if (g->op == TARGET_PUT)
		err = begin_put(p, slot, g);
	else
		err = begin_other(p, slot, g);
	slot->busy = true;
	p->busy++;
	return err;
}

void appl__finish(struct target_session *s, struct appl__slot *slot)
{
	struct appl__session *p = s->own;

	ASSERT(slot->busy && p->busy > 0);
	slot->busy = false;
	p->busy--;
	if (slot->group->op == TARGET_READ)
		finish_read(s, slot);
	else
		finish_other(s, slot);
}

/* ---- while the caller waits ----------------------------------------------------------------- */

/* Fills and submits write number `n` of a large file. */
static int write_piece(struct appl__session *p, struct appl__slot *slot, const struct target_io *io,
		       const struct weka_handle *handle, uint64_t at)
{
	uint8_t *data = bytes_of(slot);
	uint64_t bytes = min_u64(io->length_bytes - at, APPL__PIECE);

	io->content->fill(io->content, io->file, at, data, bytes);
	return weka_submit_write(p->client, &slot->req, handle, at, (uint32_t)bytes, 0,
				 &slot->window);
}

static int reap_one(struct appl__session *p, struct appl__slot **slot)
{
	struct weka_req *done;
	int n;

	while ((n = weka_reap(p->client, &done, 1)) == 0)
		(void)!weka_wait(p->client, WEKA_FOREVER);
	if (n < 0)
		return n;
	*slot = done->user;
	return done->status;
}

static int write_all(struct appl__session *p, const struct target_io *io,
		     const struct weka_handle *handle)
{
	struct appl__slot *slot;
	uint64_t at = 0;
	uint32_t in_flight = 0;
	int err = 0;

	for (uint32_t i = 0; i < LARGE_DEPTH && at < io->length_bytes && !err; i++) {
		err = write_piece(p, &p->slot[i], io, handle, at);
		in_flight += !err;
		at += APPL__PIECE;
	}
	while (in_flight > 0) {
		int status = reap_one(p, &slot);

		in_flight--;
		err = err ? err : status;
		if (err || at >= io->length_bytes)
			continue;
		err = write_piece(p, slot, io, handle, at);
		in_flight += !err;
		at += APPL__PIECE;
	}
	return err;
}

int appl__put_large(struct appl__session *p, struct target_io *io)
{
	const struct weka_create create = { .mode = 0600 };
	struct weka_ref ref = ref_of(p, io);
	struct weka_attr attr;
	struct appl__slot *slot;
	int err;

	ASSERT(p->busy == 0);
	err = weka_submit_put_begin(p->client, &p->slot[0].req, &ref, &create, io->length_bytes,
				    &attr);
	err = err ? err : reap_one(p, &slot);
	if (err)
		return err;
	err = write_all(p, io, &attr.handle);
	if (err)
		return err;
	err = weka_submit_put_commit(p->client, &p->slot[0].req, &attr.handle, io->length_bytes);
	return err ? err : reap_one(p, &slot);
}

int appl__list(struct appl__session *p, struct target_io *io)
{
	struct weka_ref ref = ref_of(p, io);
	struct weka_entry entry;
	struct weka_dir *dir;
	int err = weka_list(p->client, &ref, &dir);

	if (err)
		return err;
	while ((err = weka_list_next(dir, &entry)) == 1)
		io->got_bytes++;
	weka_list_end(dir);
	return err;
}
