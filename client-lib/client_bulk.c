/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Transfers of large files: a few pieces in flight at once, between the file and memory or a
 * descriptor.
 *
 *    lanes      |  piece 4  |  piece 1  |  piece 2  |  piece 3  |     each with its lease
 *                     ^ when its answer has been copied, this lane takes piece 5
 *
 * Pieces never cross a multiple of piece_bytes.  A read ends at the end of the file: the first
 * short piece says where that is; later pieces read nothing.  In a sparse file no piece touches a
 * hole.
 */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LANES       4u
#define LEAST_PIECE (16u << 10)

struct lane {
	struct weka_req req;
	struct weka_lease *lease;
	uint64_t at; /* offset of the piece in the transfer */
	uint32_t length_bytes;
	bool busy;
};

/* Runs pread or pwrite until all is done: 0, -errno, -ENODATA when the source ends too early. */
static int descriptor_move(int fd, bool in, char *bytes, uint64_t length_bytes, uint64_t at)
{
	ssize_t got;

	ASSERT(bytes);
	while (length_bytes > 0) {
		if (in)
			got = pread(fd, bytes, length_bytes, (off_t)at);
		else
			got = pwrite(fd, bytes, length_bytes, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : in ? -ENODATA : -EIO;
		bytes += got;
		at += (uint64_t)got;
		length_bytes -= (uint64_t)got;
	}
	return 0;
}

/* Sends the next piece.  Returns 1 if no piece is left, or -errno. */
static int lane_start(struct weka_client *c, struct client_bulk *b, struct lane *lane,
		      uint64_t *next)
{
	struct weka_window window = { .lease = lane->lease, .size_bytes = lane->lease->size_bytes };
	uint64_t offset_bytes;
	int err = 0;

	ASSERT(!lane->busy && *next <= b->length_bytes);
	b->is_said = true;
	if (b->is_sparse && *next >= b->data_end && *next < b->length_bytes)
		err = client__bulk_data(c, b, next);
	if (err) {
		b->is_said = false;
		return err;
	}
	if (*next >= b->length_bytes)
		return 1;
	offset_bytes = b->offset_bytes + *next;
	lane->at = *next;
	lane->length_bytes =
		(uint32_t)min_u64((b->is_sparse ? b->data_end : b->length_bytes) - *next,
				  b->piece_bytes - offset_bytes % b->piece_bytes);
	ASSERT(lane->length_bytes > 0 && lane->length_bytes <= b->piece_bytes);
	if (b->op == CLIENT_BULK_READ) {
		err = weka_submit_read(c, &lane->req, &b->handle, offset_bytes, lane->length_bytes,
				       &window);
	} else {
		if (b->memory)
			memcpy(lane->lease->data, b->memory + lane->at, lane->length_bytes);
		else
			err = descriptor_move(b->fd, true, lane->lease->data, lane->length_bytes,
					      lane->at);
		b->is_said = !err;
		if (!err)
			err = weka_submit_write(c, &lane->req, &b->handle, offset_bytes,
						lane->length_bytes, 0, &window);
	}
	if (err)
		return err;
	client__req(&lane->req)->is_sync = true;
	ASSERT(*next + lane->length_bytes <= b->length_bytes);
	lane->busy = true;
	*next += lane->length_bytes;
	return 0;
}

/* Handles a piece's answer.  Sets *end to the end of the file if the piece is short. */
static int lane_finish(const struct client_bulk *b, struct lane *lane, uint64_t *end)
{
	uint64_t got = lane->req.length_bytes;

	ASSERT(lane->busy && client__req(&lane->req)->state == CLIENT_REQ_IDLE);
	lane->busy = false;
	if (lane->req.status || b->op == CLIENT_BULK_WRITE)
		return lane->req.status;
	ASSERT(got <= lane->length_bytes); /* client__read_answer() */
	if (got < lane->length_bytes)
		*end = min_u64(*end, lane->at + got);
	if (b->memory) {
		memcpy(b->memory + lane->at, lane->req.data, got);
		return 0;
	}
	return descriptor_move(b->fd, false, lane->req.data, got, lane->at);
}

/* Uses the lanes in turn and waits for the oldest piece, so lanes become free in order. */
static int run(struct weka_client *c, struct client_bulk *b, struct lane *lanes, uint32_t count)
{
	uint64_t next = 0, end = b->length_bytes;
	uint32_t i, busy = 0;
	int err = 0, got;

	ASSERT(count > 0 && count <= LANES);
	for (i = 0;; i = (i + 1) % count) {
		struct lane *lane = &lanes[i];

		if (lane->busy) {
			client__await(c, &lane->req);
			got = lane_finish(b, lane, &end);
			if (got && !err) {
				err = got;
				b->is_said = false;
			}
			busy--;
		}
		got = err || end < b->length_bytes ? 1
						   : lane_start(c, b, lane, &next); /* has a line */
		if (got == -EAGAIN && busy > 0)
			got = 1; /* all requests are in use: continue with fewer lanes */
		if (got == 0)
			busy++;
		else if (got < 0)
			err = got;
		if (busy == 0 && (err || got == 1))
			break;
	}
	ASSERT(busy == 0 && end <= b->length_bytes && next <= b->length_bytes);
	b->done_bytes = end;
	return err;
}

int client__bulk(struct weka_client *c, struct client_bulk *b)
{
	struct lane lanes[LANES] = { 0 };
	uint32_t count = 0, want = weka_window_bytes(1, b->piece_bytes + WEKA_BLOCK);
	uint64_t pieces;
	int err = 0;

	ASSERT(is_pow2(b->piece_bytes));
	ASSERT(c->nested > 0);
	b->done_bytes = 0;
	b->is_said = true;
	if (b->length_bytes == 0)
		return 0;
	pieces = b->length_bytes / b->piece_bytes + 2;
	if (b->length_bytes <= b->piece_bytes - b->offset_bytes % b->piece_bytes) {
		pieces = 1;
		want = weka_window_bytes(1, b->length_bytes + WEKA_BLOCK);
	}
	while (!err && count < min_u64(LANES, pieces)) {
		err = weka_lease(c, want, &lanes[count].lease);
		if (!err)
			count++;
		else if (count == 0 && !b->is_whole && b->piece_bytes > LEAST_PIECE) {
			b->piece_bytes /= 2; /* the pool is small or busy: smaller pieces */
			want = weka_window_bytes(1, b->piece_bytes + WEKA_BLOCK);
			err = 0;
		}
	}
	ASSERT(err || count > 0);
	b->data_end = 0;
	if (count > 0)
		err = run(c, b, lanes, count);
	while (count > 0)
		weka_release(c, lanes[--count].lease);
	ASSERT(b->done_bytes <= b->length_bytes);
	return err;
}
