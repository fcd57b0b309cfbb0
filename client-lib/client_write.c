/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Writes: whole files in batches, pieces at an offset, and the requests of a long put.
 *
 * The caller fills a window from its start.  After the last byte the library stores one CRC32C for
 * each block, computed from the bytes as they are now: from here to the drive and back to a reader
 * the bytes are protected.
 *
 *   0                                                            end
 *   | file 0 .. | file 1 ......... | checksums 0, 1 | ... | answers |
 *     window_at[0] window_at[1]      (the library's from here on)
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

static int64_t mtime_of(const struct weka_create *create)
{
	return create->flags & WEKA_MTIME_GIVEN ? create->mtime_ns : (int64_t)clock_wall_ns();
}

/* Computes the checksums of `size` bytes that begin `skip` bytes into a block. */
static void sum_blocks(const char *bytes, uint32_t size, uint32_t skip, char *sums)
{
	uint32_t piece, sum;

	DASSERT(skip < WEKA_BLOCK);
	while (size > 0) {
		piece = min_u32(size, WEKA_BLOCK - skip);
		sum = crc32c_block(bytes, piece);
		memcpy(sums, &sum, sizeof(sum)); /* little-endian, as base/le.h asserts */
		sums += sizeof(sum);
		bytes += piece;
		size -= piece;
		skip = 0;
	}
	DASSERT(size == 0);
}

/* ---- whole files ------------------------------------------------------------------- */

/* Returns the start of the library's part of a put's window, after the caller's last byte. */
static int puts_end(const struct weka_put_item *items, uint32_t count, uint64_t size, uint64_t *end)
{
	uint64_t sums = 0;
	uint32_t i;

	*end = 0;
	for (i = 0; i < count; i++) {
		if (items[i].window_at % 64)
			return -EINVAL;
		if (items[i].size_bytes > WEKA_WRITE_MAX)
			return -EMSGSIZE;
		*end = max_u64(*end, (uint64_t)items[i].window_at + items[i].size_bytes);
		sums += 4 * div_up(items[i].size_bytes, WEKA_BLOCK);
	}
	ASSERT(sums % 4 == 0);
	*end = align_up(*end, 4);
	sums += align_up((uint64_t)count * FAB_ANSWER_BYTES, 64);
	return *end + sums <= size ? 0 : -EMSGSIZE;
}

static int put_make(const struct weka_put_item *item, struct fab_put_item *to)
{
	int err = client__create_check(&item->create);

	if (err)
		return err;
	if (item->ref.by == WEKA_BY_HANDLE || item->reserved0 || item->reserved[0] ||
	    item->reserved[1])
		return -EINVAL;
	to->mode = item->create.mode;
	to->uid = item->create.uid;
	to->gid = item->create.gid;
	to->flags = item->create.flags & WEKA_EXCL ? FAB_PUT_EXCL : 0;
	to->mtime_ns = mtime_of(&item->create);
	to->size_bytes = item->size_bytes;
	to->payload_at = item->window_at;
	return client__name(&item->ref, &to->name);
}

int weka_submit_put(struct weka_client *c, struct weka_req *req, struct weka_put_item *items,
		    uint32_t count, const struct weka_window *window)
{
	struct fab_put_item *puts;
	struct client_slot *slot;
	uint64_t sums_at = 0;
	uint32_t i;
	int err;

	CLIENT_NEED(c, items);
	CLIENT_NEED(c, window);
	err = client__take(c, req, FAB_PUT, window, &slot);
	if (err)
		return err;
	err = client__take_batch(c, slot, count);
	if (err)
		return client__drop(c, slot, err, NULL);
	err = puts_end(items, count, window->size_bytes, &sums_at);
	if (err)
		return client__drop(c, slot, err, "where the items lie in the window");
	DASSERT(count == 1 || slot->batch != &slot->one);
	puts = &slot->batch->put;
	for (i = 0; i < count; i++) {
		err = put_make(&items[i], &puts[i]);
		if (err)
			return client__drop_item(c, slot, err, i, &items[i].ref);
	}

	for (i = 0; i < count; i++) {
		char *bytes = client__window(slot);

		sum_blocks(bytes + items[i].window_at, items[i].size_bytes, 0, bytes + sums_at);
		puts[i].sums_at = (uint32_t)sums_at;
		sums_at += 4 * div_up(items[i].size_bytes, WEKA_BLOCK);
	}
	slot->out.puts = items;
	slot->call.args.batch.count = count;
	slot->call.args.batch.puts = puts;
	return client__send(c, slot);
}

int client__put_answer(struct client_slot *slot)
{
	uint32_t count = slot->call.args.batch.count, i;
	struct fab_answer answer;
	int err;

	DASSERT(slot->call.type == FAB_PUT && slot->req && slot->lease);
	for (i = 0; i < count; i++) {
		err = fab_call_answer(&slot->call, i, &answer);
		if (err)
			return err;
		slot->out.puts[i].status = answer.status;
		memcpy(slot->out.puts[i].handle.bytes, answer.handle.bytes,
		       sizeof(answer.handle.bytes));
	}
	return 0;
}

/* ---- pieces ------------------------------------------------------------------------- */

int weka_submit_write(struct weka_client *c, struct weka_req *req, const struct weka_handle *handle,
		      uint64_t offset_bytes, uint32_t length_bytes, uint32_t flags,
		      const struct weka_window *window)
{
	uint32_t skip = flags & WEKA_APPEND ? 0 : offset_bytes % WEKA_BLOCK;
	uint64_t sums_at = align_up(length_bytes, 4);
	uint64_t blocks = div_up((uint64_t)skip + length_bytes, WEKA_BLOCK);
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, handle);
	CLIENT_NEED(c, window);
	CLIENT_REFUSE(c, length_bytes == 0 || (flags & ~WEKA_APPEND), -EINVAL,
		      "a length of 0, or unknown flags");
	CLIENT_REFUSE(c, length_bytes > WEKA_WRITE_MAX, -EMSGSIZE, "more than WEKA_WRITE_MAX");
	CLIENT_REFUSE(c, sums_at + 4 * blocks > window->size_bytes, -EMSGSIZE,
		      "the window is too small: see weka_window_bytes()");
	CLIENT_REFUSE(c,
		      !(flags & WEKA_APPEND) && offset_bytes > (uint64_t)INT64_MAX - length_bytes,
		      -EFBIG, "beyond what a file can have");
	err = client__take(c, req, FAB_WRITE, window, &slot);
	if (err)
		return err;
	DASSERT(slot->lease && blocks > 0);
	sum_blocks(client__window(slot), length_bytes, skip, client__window(slot) + sums_at);
	memcpy(slot->call.args.write.handle.bytes, handle->bytes, sizeof(handle->bytes));
	slot->call.args.write.offset_bytes = flags & WEKA_APPEND ? 0 : offset_bytes;
	slot->call.args.write.length_bytes = length_bytes;
	slot->call.args.write.flags = flags & WEKA_APPEND ? FAB_WRITE_APPEND : 0;
	slot->call.args.write.payload_at = 0;
	slot->call.args.write.sums_at = (uint32_t)sums_at;
	return client__send(c, slot);
}

int weka_submit_put_begin(struct weka_client *c, struct weka_req *req, const struct weka_ref *ref,
			  const struct weka_create *create, uint64_t size_bytes,
			  struct weka_attr *attr)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, ref);
	CLIENT_NEED(c, create);
	CLIENT_NEED(c, attr);
	CLIENT_REFUSE(c, ref->by == WEKA_BY_HANDLE, -EINVAL, "a handle, where a name is needed");
	CLIENT_REFUSE(c, client__create_check(create), -EINVAL, CLIENT_CREATE_BAD);
	CLIENT_REFUSE(c, size_bytes > INT64_MAX, -EFBIG, "beyond what a file can have");
	err = client__take(c, req, FAB_PUT_BEGIN, NULL, &slot);
	if (err)
		return err;
	err = client__name(ref, &slot->call.args.make.name);
	if (err)
		return client__drop_name(c, slot, err, ref);
	slot->out.attr = attr;
	slot->call.args.make.mode = create->mode;
	slot->call.args.make.uid = create->uid;
	slot->call.args.make.gid = create->gid;
	slot->call.args.make.flags = create->flags & WEKA_EXCL ? FAB_PUT_EXCL : 0;
	slot->call.args.make.mtime_ns = mtime_of(create);
	slot->call.args.make.size_bytes = size_bytes;
	return client__send(c, slot);
}

static int submit_size(struct weka_client *c, struct weka_req *req, enum fab_type type,
		       const struct weka_handle *handle, uint64_t size_bytes)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, handle);
	CLIENT_REFUSE(c, size_bytes > INT64_MAX, -EFBIG, "beyond what a file can have");
	err = client__take(c, req, type, NULL, &slot);
	if (err)
		return err;
	DASSERT(type == FAB_PUT_COMMIT || type == FAB_PUT_ABORT || type == FAB_TRUNCATE);
	memcpy(slot->call.args.size.handle.bytes, handle->bytes, sizeof(handle->bytes));
	slot->call.args.size.size_bytes = size_bytes;
	return client__send(c, slot);
}

int weka_submit_put_commit(struct weka_client *c, struct weka_req *req,
			   const struct weka_handle *handle, uint64_t size_bytes)
{
	return submit_size(c, req, FAB_PUT_COMMIT, handle, size_bytes);
}

int weka_submit_put_abort(struct weka_client *c, struct weka_req *req,
			  const struct weka_handle *handle)
{
	return submit_size(c, req, FAB_PUT_ABORT, handle, 0);
}

int weka_submit_truncate(struct weka_client *c, struct weka_req *req,
			 const struct weka_handle *handle, uint64_t size_bytes)
{
	return submit_size(c, req, FAB_TRUNCATE, handle, size_bytes);
}

static int submit_range(struct weka_client *c, struct weka_req *req, enum fab_type type,
			const struct weka_handle *handle, uint64_t offset_bytes,
			uint64_t length_bytes, uint32_t flags)
{
	struct client_slot *slot;
	int err;

	CLIENT_NEED(c, handle);
	err = client__take(c, req, type, NULL, &slot);
	if (err)
		return err;
	DASSERT(type == FAB_PUNCH || type == FAB_SEEK);
	memcpy(slot->call.args.range.handle.bytes, handle->bytes, sizeof(handle->bytes));
	slot->call.args.range.offset_bytes = offset_bytes;
	slot->call.args.range.length_bytes = length_bytes;
	slot->call.args.range.flags = flags;
	return client__send(c, slot);
}

int weka_submit_punch(struct weka_client *c, struct weka_req *req, const struct weka_handle *handle,
		      uint64_t offset_bytes, uint64_t length_bytes)
{
	CLIENT_REFUSE(c, length_bytes == 0 || offset_bytes > INT64_MAX, -EINVAL,
		      "a length of 0, or an offset that no file has");
	CLIENT_REFUSE(c, length_bytes > INT64_MAX - offset_bytes, -EFBIG,
		      "beyond what a file can have");
	return submit_range(c, req, FAB_PUNCH, handle, offset_bytes, length_bytes, 0);
}

int weka_submit_seek(struct weka_client *c, struct weka_req *req, const struct weka_handle *handle,
		     uint64_t offset_bytes, uint32_t flags)
{
	static_assert(WEKA_SEEK_HOLE == FAB_SEEK_HOLE, "passed on as it is");
	CLIENT_REFUSE(c, flags & ~WEKA_SEEK_HOLE, -EINVAL, "unknown flags");
	CLIENT_REFUSE(c, offset_bytes > INT64_MAX, -ENXIO, "no file is so long");
	return submit_range(c, req, FAB_SEEK, handle, offset_bytes, 0, flags);
}
