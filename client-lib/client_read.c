/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads: by handle at an offset, and whole batches by name; every block is verified.
 *
 * A window after a batch of two files, 5,000 and 100 bytes long:
 *
 *   0          4096       8192       12288                       end
 *   | file 0   | file 0 00| file 1 00| 3 checksums | ...  | answers |
 *     data_at[0]            data_at[1] sums_at[0], [1]
 *
 * The client asks the appliance for whole blocks only: the part of the first block before the
 * caller's offset (`skip`) is read and verified with it, and not returned.
 *
 * If a block does not match its checksum, it may have been overwritten between two answers, or
 * damaged in transit: the client sends the whole request again, once.  The caller has seen nothing
 * of it before.  A block that is wrong the second time is -EIO.  Before the request ends, the
 * client reports it (FAB_CHECK), since the appliance verifies no checksums when it serves reads;
 * the appliance then checks the block itself.
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

int weka_submit_read(struct weka_client *c, struct weka_req *req, const struct weka_handle *handle,
		     uint64_t offset_bytes, uint32_t length_bytes, const struct weka_window *window)
{
	uint32_t skip = offset_bytes % WEKA_BLOCK;
	uint64_t blocks = div_up((uint64_t)skip + length_bytes, WEKA_BLOCK), need;
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, handle);
	CLIENT_NEED(c, window);
	CLIENT_REFUSE(c, length_bytes == 0 || offset_bytes > (uint64_t)INT64_MAX - length_bytes,
		      -EINVAL, "a length of 0, or a range that no file has");
	need = blocks * WEKA_BLOCK;
	if (blocks > FAB_SUMS_INLINE)
		need += blocks * sizeof(uint32_t);
	CLIENT_REFUSE(c, need > window->size_bytes, -EMSGSIZE,
		      "the window is too small: see weka_window_bytes()");
	err = client__take(c, req, FAB_READ, window, &slot);
	if (unlikely(err))
		return err;
	DASSERT(slot->lease && need <= slot->call.window_bytes);
	memcpy(slot->call.args.read.handle.bytes, handle->bytes, sizeof(handle->bytes));
	slot->out.skip = skip;
	slot->call.args.read.offset_bytes = offset_bytes - skip;
	slot->call.args.read.length_bytes = skip + length_bytes;
	return client__send(c, slot);
}

/* Returns how many of `blocks` blocks at `data` are wrong; sums from the call or an answer. */
static uint32_t wrong_blocks(struct weka_client *c, const struct client_slot *slot,
			     const struct fab_answer *answer, const char *data, uint64_t blocks)
{
	uint32_t wrong = 0, sum, is, i;

	DASSERT(blocks <= slot->call.window_bytes / WEKA_BLOCK);
	for (i = 0; i < blocks; i++, data += WEKA_BLOCK) {
		sum = answer ? fab_answer_sum(&slot->call, answer, i)
			     : fab_call_sum(&slot->call, i);
		is = i + 1 < blocks ? crc32c_block_before(data, data + WEKA_BLOCK)
				    : crc32c(data, WEKA_BLOCK);
		wrong += is != sum;
	}
	c->counters.blocks_checked += blocks;
	if (unlikely(wrong > 0)) {
		c->counters.blocks_wrong += slot->asked_again ? 0 : wrong;
		c->counters.blocks_lost += slot->asked_again ? wrong : 0;
	}
	return wrong;
}

/* ---- reporting damage ----------------------------------------------------------------- */

#define TO_BE_TOLD UINT64_MAX /* got_bytes of an item to be reported */

static void call_check(struct client_slot *slot, const struct fab_name *name, uint64_t offset_bytes,
		       uint64_t length_bytes)
{
	ASSERT(slot->state == CLIENT_SENT);
	slot->telling = true;
	slot->call.doubt = false;
	slot->call.type = FAB_CHECK;
	slot->call.window_offset = 0;
	slot->call.window_bytes = 0;
	slot->call.args.check = (struct fab_read_item){ .name = *name,
							.offset_bytes = offset_bytes,
							.length_bytes = length_bytes };
}

/* Turns the slot's call into a FAB_CHECK of the blocks that it read. */
static wk_cold int tell_read(struct client_slot *slot)
{
	const struct fab_name name = { .by = FAB_BY_HANDLE, .handle = slot->call.args.read.handle };

	ASSERT(slot->call.type == FAB_READ && slot->asked_again);
	slot->tell_status = -EIO;
	slot->tell_at = slot->tell_end = 0;
	call_check(slot, &name, slot->call.args.read.offset_bytes, slot->call.length_bytes);
	return CLIENT_TELL;
}

/* The same for the next wrong item of a batch.  Returns false if no item is left. */
wk_cold bool client__tell_next(struct client_slot *slot)
{
	ASSERT(slot->tell_at <= slot->tell_end);
	while (slot->tell_at < slot->tell_end) {
		struct weka_read_item *item = &slot->out.reads[slot->tell_at++];
		struct fab_name name;

		if (item->got_bytes != TO_BE_TOLD)
			continue;
		item->got_bytes = 0;
		if (client__name(&item->ref, &name) == 0) {
			call_check(slot, &name, item->offset_bytes, item->length_bytes);
			return true;
		}
	}
	return false;
}

static wk_cold int tell_batch(struct client_slot *slot)
{
	ASSERT(slot->call.type == FAB_READ_BATCH && slot->asked_again);
	slot->tell_status = 0;
	slot->tell_at = 0;
	slot->tell_end = slot->call.args.batch.count;
	return client__tell_next(slot) ? CLIENT_TELL : 0;
}

/* The whole request again: the appliance compares what it sends this time, if it can (PROTOCOL.md
 * 5, doubt). */
static wk_cold int ask_again(struct client_slot *slot)
{
	ASSERT(!slot->asked_again);
	slot->call.doubt = true;
	return CLIENT_ASK_AGAIN;
}

/* ---- answers -------------------------------------------------------------------------- */

int client__read_answer(struct weka_client *c, struct client_slot *slot)
{
	uint64_t got = slot->call.length_bytes;
	uint32_t skip = slot->out.skip;
	char *window = client__window(slot);

	DASSERT(slot->call.type == FAB_READ && slot->req && slot->lease);
	DASSERT(skip < WEKA_BLOCK && got <= slot->call.args.read.length_bytes);
	if (unlikely(wrong_blocks(c, slot, NULL, window, div_up(got, WEKA_BLOCK)) > 0))
		return slot->asked_again ? tell_read(slot) : ask_again(slot);
	slot->req->length_bytes = got > skip ? got - skip : 0;
	slot->req->data = window + skip;
	return 0;
}

static int item_make(const struct weka_read_item *item, struct fab_read_item *to)
{
	uint32_t skip = item->offset_bytes % WEKA_BLOCK;

	to->offset_bytes = item->offset_bytes - skip;
	to->length_bytes = item->length_bytes;
	to->ctime_ns = item->ctime_ns;
	if (item->reserved0 || item->reserved[0])
		return -EINVAL;
	if (item->length_bytes == 0 || item->offset_bytes > INT64_MAX)
		return -EINVAL;
	if (item->length_bytes != WEKA_TO_END &&
	    add_overflows(item->length_bytes, skip, &to->length_bytes))
		return -EINVAL;
	return client__name(&item->ref, &to->name);
}

int weka_submit_read_batch(struct weka_client *c, struct weka_req *req,
			   struct weka_read_item *items, uint32_t count,
			   const struct weka_window *window)
{
	struct fab_read_item *reads;
	struct client_slot *slot;
	uint32_t i;
	int err;

	CLIENT_NEED(c, items);
	CLIENT_NEED(c, window);
	err = client__take(c, req, FAB_READ_BATCH, window, &slot);
	if (err)
		return err;
	err = client__take_batch(c, slot, count);
	if (err)
		return client__drop(c, slot, err, NULL);
	if ((uint64_t)count * FAB_ANSWER_BYTES + 63 > window->size_bytes)
		return client__drop(c, slot, -EMSGSIZE, "the window, for the table of answers");
	DASSERT(count == 1 || slot->batch != &slot->one);
	reads = &slot->batch->read;
	for (i = 0; i < count; i++) {
		err = item_make(&items[i], &reads[i]);
		if (unlikely(err))
			return client__drop_item(c, slot, err, i, &items[i].ref);
	}
	slot->out.reads = items;
	slot->call.args.batch.count = count;
	slot->call.args.batch.reads = reads;
	return client__send(c, slot);
}

/* Handles one item.  Sets *wrong if its checksums do not match. */
static int item_answer(struct weka_client *c, struct client_slot *slot, uint32_t i, bool *wrong)
{
	struct weka_read_item *item = &slot->out.reads[i];
	uint32_t skip = item->offset_bytes % WEKA_BLOCK;
	const char *blocks;
	struct fab_answer answer;
	int err = fab_call_answer(&slot->call, i, &answer);

	DASSERT(i < slot->call.args.batch.count);
	if (err)
		return err;
	item->status = answer.status;
	item->got_bytes = answer.length_bytes > skip ? answer.length_bytes - skip : 0;
	item->data = NULL;
	if (answer.status)
		return 0;
	if (item->got_bytes > item->length_bytes)
		return -EPROTO;
	blocks = client__window(slot) + answer.data_at;
	if (unlikely(wrong_blocks(c, slot, &answer, blocks,
				  div_up(answer.length_bytes, WEKA_BLOCK)) > 0)) {
		*wrong = true;
		item->status = -EIO;
		item->got_bytes = slot->asked_again ? TO_BE_TOLD : 0;
		return 0;
	}
	item->data = blocks + skip;
	return 0;
}

/* At most 71 minutes. */
static uint32_t microseconds(uint64_t ns)
{
	return (uint32_t)min_u64(ns / 1000, UINT32_MAX);
}

/* The appliance's own times are believed up to the time that passed here. */
static void where_the_time_went(struct client_slot *slot)
{
	struct weka_req *req = slot->req;
	const uint64_t out_ns = clock_now_ns() - slot->sent_ns;
	const uint64_t took_ns = min_u64(slot->call.took_ns, out_ns);
	const uint64_t drive_ns = min_u64(slot->call.drive_ns, took_ns);

	ASSERT(slot->begun_ns > 0 && slot->sent_ns >= slot->begun_ns);
	DASSERT(drive_ns <= took_ns && took_ns <= out_ns);
	req->queue_us = microseconds(slot->sent_ns - slot->begun_ns);
	req->network_us = microseconds(out_ns - took_ns);
	req->appliance_us = microseconds(took_ns - drive_ns);
	req->drive_us = microseconds(drive_ns);
}

int client__batch_answer(struct weka_client *c, struct client_slot *slot)
{
	uint32_t count = slot->call.args.batch.count, i;
	bool wrong = false;
	int err = 0;

	DASSERT(slot->call.type == FAB_READ_BATCH && slot->req && slot->lease);
	where_the_time_went(slot);
	for (i = 0; i < count && !err; i++)
		err = item_answer(c, slot, i, &wrong);
	if (!err && wrong)
		return slot->asked_again ? tell_batch(slot) : ask_again(slot);
	return err;
}
