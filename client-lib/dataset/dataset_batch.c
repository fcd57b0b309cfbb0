/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One batch of an epoch: its samples, found by number, and the requests that read them.
 *
 *    lease   |  part 0: blocks, checksums, answers  |  part 1: ...  |
 *            0                                      parts[1].window_at
 *
 * A part is one FAB_READ_BATCH: as many samples as a request and its window may have.  The manifest
 * says how long each sample is, so the windows are exactly as large as they must be.  A sample that
 * is larger than any window is in no part, and has -EMSGSIZE.
 *
 *    new -> plan -> send -> await -> finish -> held by the caller -> release -> new
 *                    ^--------'  (a request that failed is sent again)
 *
 * Invariants:
 *  (1) The parts' windows lie one after the other in the lease.
 *  (2) A part that is sent and not done has its request under way: its memory must not move.
 */
#include "client-lib/dataset/dataset_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct dataset__batch *dataset__batch_new(uint32_t room)
{
	struct dataset__batch *b = calloc(1, sizeof(*b));

	ASSERT(room > 0 && room <= WEKA_STREAM_BATCH_MAX);
	if (!b)
		return NULL;
	b->room = room;
	b->items = calloc(room, sizeof(*b->items));
	b->samples = calloc(room, sizeof(*b->samples));
	b->labels = calloc(room, sizeof(*b->labels));
	b->lengths = calloc(room, sizeof(*b->lengths));
	b->parts_room = room / WEKA_BATCH_MAX + 4;
	b->parts = calloc(b->parts_room, sizeof(*b->parts));
	if (b->items && b->samples && b->labels && b->lengths && b->parts)
		return b;
	dataset__batch_free(b);
	return NULL;
}

void dataset__batch_free(struct dataset__batch *b)
{
	ASSERT(!b->pub.lease && !dataset__batch_is_sent(b)); /* (2) */
	free(b->items);
	free(b->samples);
	free(b->labels);
	free(b->lengths);
	free(b->parts);
	free(b->text);
	free(b);
}

/* ---- the samples ------------------------------------------------------------------------- */

/* Adds a sample's path to the text.  Its place may still move: items get it at the end. */
static int path_add(struct dataset__batch *b, struct weka_dataset *d,
		    const struct dataset__record *r, uint64_t *text_bytes)
{
	if (b->text_room - *text_bytes < r->name_bytes) {
		uint64_t room = max_u64(b->text_room * 2, *text_bytes + WEKA_PATH_MAX);
		char *text = realloc(b->text, room);

		if (!text)
			return dataset__fail(d, -ENOMEM, "no memory for the paths of a batch");
		b->text = text;
		b->text_room = room;
	}
	*text_bytes += r->name_bytes;
	return dataset__path(d, r, b->text + *text_bytes - r->name_bytes);
}

static void item_set(struct dataset__batch *b, uint32_t i, const struct dataset__record *r,
		     bool by_path)
{
	ASSERT(i < b->room && r->ctime_ns != 0);
	b->items[i] = (struct weka_read_item){
		.ref = { .by = by_path ? WEKA_BY_PATH : WEKA_BY_HANDLE,
			 .name_bytes = by_path ? r->name_bytes : 0,
			 .handle = r->handle },
		.offset_bytes = r->offset_bytes,
		.length_bytes = max_u64(r->length_bytes, 1), /* no request reads 0 bytes */
		.ctime_ns = r->ctime_ns,
	};
	b->lengths[i] = r->length_bytes;
	b->labels[i] = r->label;
}

/* Finds the sample at a position. */
static int sample_find(struct weka_dataset *d, struct dataset__draw *draw, uint64_t position,
		       uint64_t *sample, struct dataset__record *r)
{
	uint32_t label = WEKA_NO_LABEL;
	int err;

	if (draw->weights)
		*sample = dataset__weights_at(draw->weights, position, &label);
	else
		*sample = draw->in_order ? position : dataset__order_at(&draw->order, position);
	err = dataset__record(d, *sample, r);
	if (!err && label != WEKA_NO_LABEL && r->label != label)
		err = dataset__fail(d, -EPROTO, "its classes are not in the order of its paths");
	return err;
}

static int samples_find(struct dataset__batch *b, struct weka_dataset *d,
			struct dataset__draw *draw)
{
	uint64_t text_bytes = 0;
	const char *at;

	for (uint32_t i = 0; i < b->piece.count; i++) {
		struct dataset__record r;
		int err = sample_find(d, draw, b->piece.at + i, &b->samples[i], &r);

		if (!err && d->by_path)
			err = path_add(b, d, &r, &text_bytes);
		if (err)
			return err;
		item_set(b, i, &r, d->by_path);
	}
	at = b->text;
	for (uint32_t i = 0; d->by_path && i < b->piece.count; i++) {
		b->items[i].ref.name = at;
		at += b->items[i].ref.name_bytes;
	}
	return 0;
}

/* ---- the requests ------------------------------------------------------------------------ */

static uint64_t blocks_of(const struct weka_read_item *item)
{
	ASSERT(item->length_bytes > 0);
	return div_up(item->offset_bytes % WEKA_BLOCK + item->length_bytes, WEKA_BLOCK);
}

/* A window for so many items and blocks: blocks, a checksum each, answers. */
static uint64_t window_of(uint32_t count, uint64_t blocks)
{
	uint64_t bytes = blocks * (WEKA_BLOCK + sizeof(uint32_t));

	ASSERT(count > 0 && blocks >= count);
	return align_up(bytes + align_up((uint64_t)count * FAB_ANSWER_BYTES, 64), WEKA_BLOCK);
}

static struct dataset__part *part_add(struct dataset__batch *b, uint32_t first)
{
	if (b->part_count == b->parts_room) {
		uint32_t room = b->parts_room * 2;
		struct dataset__part *parts = realloc(b->parts, room * sizeof(*parts));

		if (!parts)
			return NULL;
		b->parts = parts;
		b->parts_room = room;
	}
	b->parts[b->part_count] = (struct dataset__part){ .first = first };
	return &b->parts[b->part_count++];
}

static int parts_plan(struct dataset__batch *b, struct weka_dataset *d,
		      const struct dataset__limits *limits)
{
	struct dataset__part *part = NULL;
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < b->piece.count; i++) {
		const uint64_t more = blocks_of(&b->items[i]);

		if (window_of(1, more) > limits->window_max) {
			b->items[i].status = -EMSGSIZE; /* it is read in pieces, by its path */
			part = NULL;
			continue;
		}
		if (!part || part->count == limits->items_max ||
		    window_of(part->count + 1, blocks + more) > limits->window_max) {
			part = part_add(b, i);
			if (!part)
				return dataset__fail(d, -ENOMEM, "no memory for a batch");
			blocks = 0;
		}
		part->count++;
		blocks += more;
		part->window_bytes = window_of(part->count, blocks);
	}
	for (uint32_t i = 0; i < b->part_count; i++) {
		b->parts[i].window_at = b->lease_bytes;
		b->lease_bytes += b->parts[i].window_bytes;
		ASSERT(b->parts[i].window_bytes <= limits->window_max);
	}
	return 0;
}

int dataset__batch_plan(struct dataset__batch *b, struct weka_dataset *d,
			struct dataset__draw *draw, const struct dataset__limits *limits)
{
	int err;

	ASSERT(!b->is_ready && !b->pub.lease && b->piece.count <= b->room);
	b->part_count = 0;
	b->lease_bytes = 0;
	b->pool = limits->pool;
	err = samples_find(b, d, draw);
	if (!err)
		err = parts_plan(b, d, limits);
	if (err)
		return err;
	if (b->lease_bytes > limits->pool_max)
		return client__say(d->client, -EMSGSIZE,
				   "a batch of %u samples takes %llu MiB, and the pool has %llu: "
				   "raise pool_bytes, or make the batch smaller",
				   b->piece.count, (unsigned long long)(b->lease_bytes >> 20) + 1,
				   (unsigned long long)(limits->pool_max >> 20));
	b->is_ready = true;
	return 0;
}

static int part_send(struct dataset__batch *b, struct dataset__part *part, struct weka_client *c,
		     uint64_t timeout_ns)
{
	const struct weka_window window = { .lease = b->pub.lease,
					    .offset_bytes = part->window_at,
					    .size_bytes = part->window_bytes };
	int err;

	ASSERT(part->window_at + part->window_bytes <= b->lease_bytes); /* (1) */
	part->req.timeout_ns = timeout_ns;
	err = weka_submit_read_batch(c, &part->req, b->items + part->first, part->count, &window);
	if (err)
		return err;
	client__req(&part->req)->is_sync = true;
	part->is_sent = true;
	return 0;
}

int dataset__batch_send(struct dataset__batch *b, struct weka_client *c, uint64_t timeout_ns)
{
	int err = 0;

	ASSERT(b->is_ready);
	if (!b->pub.lease && b->lease_bytes > 0)
		err = b->pool ? weka_pool_lease(c, b->pool, b->lease_bytes, &b->pub.lease)
			      : weka_lease(c, b->lease_bytes, &b->pub.lease);
	for (uint32_t i = 0; i < b->part_count && !err; i++)
		if (!b->parts[i].is_sent && !b->parts[i].is_done)
			err = part_send(b, &b->parts[i], c, timeout_ns);
	return err;
}

bool dataset__batch_is_sent(const struct dataset__batch *b)
{
	for (uint32_t i = 0; i < b->part_count; i++)
		if (b->parts[i].is_sent)
			return true;
	return false;
}

bool dataset__batch_is_here(const struct dataset__batch *b)
{
	for (uint32_t i = 0; i < b->part_count; i++) {
		const struct dataset__part *part = &b->parts[i];

		if (!part->is_done &&
		    (!part->is_sent ||
		     client__req((struct weka_req *)&part->req)->state != CLIENT_REQ_DONE))
			return false;
	}
	return true;
}

/* The appliance may still write to the window of a request that ended early, so what is sent again
 * gets other memory. */
static void lease_return(struct dataset__batch *b, struct weka_client *c)
{
	if (b->pub.lease)
		(void)weka_release(c, b->pub.lease);
	b->pub.lease = NULL;
	for (uint32_t i = 0; i < b->part_count; i++) {
		ASSERT(!b->parts[i].is_sent); /* (2) */
		b->parts[i].is_done = false;
	}
}

void dataset__batch_return(struct dataset__batch *b, struct weka_client *c)
{
	for (uint32_t i = 0; i < b->part_count; i++)
		if (b->parts[i].is_sent) {
			(void)weka_cancel(c, &b->parts[i].req);
			client__await(c, &b->parts[i].req);
			b->parts[i].is_sent = false;
		}
	lease_return(b, c);
	b->is_ready = false;
}

int dataset__batch_await(struct dataset__batch *b, struct weka_client *c)
{
	int err = 0;

	for (uint32_t i = 0; i < b->part_count; i++) {
		struct dataset__part *part = &b->parts[i];

		if (!part->is_sent)
			continue;
		client__await(c, &part->req);
		part->is_sent = false; /* (2) */
		part->is_done = part->req.status == 0;
		if (part->req.status && !err)
			err = part->req.status;
	}
	if (!err)
		return 0;
	lease_return(b, c);
	return client__fail(c, err, "read samples of", "an epoch");
}

/* Data that is not what the manifest says is never handed out. */
static void item_finish(struct weka_read_item *item, uint64_t length_bytes)
{
	ASSERT(item->ctime_ns != 0);
	if (item->status == 0 && item->got_bytes < length_bytes)
		item->status = -ESTALE;
	ASSERT(item->status <= 0 && (item->status || item->data || length_bytes == 0));
	if (item->status) {
		item->data = NULL;
		item->got_bytes = 0;
		return;
	}
	item->got_bytes = length_bytes; /* an empty sample was asked for as one byte */
	item->length_bytes = length_bytes;
}

void dataset__batch_finish(struct dataset__batch *b)
{
	ASSERT(b->is_ready && !dataset__batch_is_sent(b));
	b->pub.failed = 0;
	for (uint32_t i = 0; i < b->piece.count; i++) {
		item_finish(&b->items[i], b->lengths[i]);
		b->pub.failed += b->items[i].status != 0;
	}
	b->pub.items = b->items;
	b->pub.samples = b->samples;
	b->pub.labels = b->labels;
	b->pub.count = b->piece.count;
}
