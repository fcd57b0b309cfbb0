/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Much of one file, between it and memory: pieces, several in flight.
 *
 *    lanes   |  piece 4  |  piece 1  |  piece 2  |  piece 3  |     each with its lease
 *                  ^ the oldest is waited for, its bytes are copied, then it goes on
 *
 * Pieces end at multiples of PIECE_BYTES.  A read ends where the file does: the first piece that
 * came short says where.
 *
 * Invariants:
 *
 *  (1) A lane that is busy has a request in flight, or one that is done and was not looked at.
 *  (2) No lane has a request in flight when py_bulk() returns, also with an exception.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <string.h>

#define LANES       4u
#define PIECE_BYTES (1u << 20)

struct lane {
	struct py_op op;
	struct weka_lease *lease;
	uint64_t at; /* of the piece, from where the whole begins */
	uint32_t length_bytes;
	bool busy;
};

static void move(void *to, const void *from, uint64_t bytes)
{
	Py_BEGIN_ALLOW_THREADS;
	memcpy(to, from, bytes);
	Py_END_ALLOW_THREADS;
}

static uint64_t piece_max(uint64_t length_bytes)
{
	return min_u64(length_bytes, PIECE_BYTES) + 2 * (WEKA_BLOCK - 1);
}

/* The lane's window, as large as the piece needs. */
static struct weka_window window_of(const struct lane *lane)
{
	return (struct weka_window){ .lease = lane->lease, .size_bytes = lane->lease->size_bytes };
}

static int lane_submit(struct py_session *s, const struct py_bulk *b, struct lane *lane)
{
	const struct weka_window window = window_of(lane);
	const uint64_t offset = b->offset_bytes + lane->at;

	if (b->is_write)
		return weka_submit_write(s->weka, &lane->op.req, &b->handle, offset,
					 lane->length_bytes, 0, &window);
	return weka_submit_read(s->weka, &lane->op.req, &b->handle, offset, lane->length_bytes,
				&window);
}

/* Sends the piece at *next, which it moves on. */
static int lane_start(struct py_session *s, struct py_bulk *b, struct lane *lane, uint64_t *next,
		      PyObject *path)
{
	const uint64_t offset = b->offset_bytes + *next;
	char line[PY_LINE_BYTES] = "";
	int err;

	ASSERT(!lane->busy);
	lane->at = *next;
	lane->length_bytes =
		(uint32_t)min_u64(b->length_bytes - *next, PIECE_BYTES - offset % PIECE_BYTES);
	lane->op = (struct py_op){ 0 };
	if (b->is_write)
		move(lane->lease->data, b->memory + lane->at, lane->length_bytes);
	err = PY_SUBMIT(s, lane_submit(s, b, lane));
	if (err)
		strncpy(line, weka_error(s->weka), sizeof(line) - 1);
	py_unlock(s);
	if (err && !PyErr_Occurred())
		py_raise(err, line, path);
	if (err)
		return -1;
	lane->busy = true; /* (1) */
	*next += lane->length_bytes;
	return 0;
}

/* Waits for its piece; *end moves to where the file ends. */
static int lane_finish(struct py_session *s, const struct py_bulk *b, struct lane *lane,
		       uint64_t *end, PyObject *path)
{
	const struct weka_req *req = &lane->op.req;

	ASSERT(lane->busy); /* (1) */
	lane->busy = false;
	if (py_wait(s, &lane->op) < 0)
		return -1;
	if (req->status) {
		py_raise(req->status, NULL, path);
		return -1;
	}
	if (b->is_write)
		return 0;
	if (req->length_bytes < lane->length_bytes)
		*end = min_u64(*end, lane->at + req->length_bytes);
	if (req->length_bytes > 0)
		move(b->memory + lane->at, req->data, req->length_bytes);
	return 0;
}

static int run(struct py_session *s, struct py_bulk *b, struct lane *lanes, uint32_t count,
	       PyObject *path)
{
	uint64_t next = 0, end = b->length_bytes;
	uint32_t i, busy = 0;

	for (i = 0;; i = (i + 1) % count) {
		struct lane *lane = &lanes[i];

		if (lane->busy) {
			busy--;
			if (lane_finish(s, b, lane, &end, path) < 0)
				return -1;
		}
		if (next < end && end == b->length_bytes) {
			if (lane_start(s, b, lane, &next, path) < 0)
				return -1;
			busy++;
		}
		if (busy == 0)
			break;
	}
	b->done_bytes = end;
	return 0;
}

/* Takes back what an exception left in flight (2). */
static void lanes_end(struct py_session *s, struct lane *lanes, uint32_t count)
{
	uint32_t i;

	py_lock(s);
	for (i = 0; i < count; i++) {
		if (lanes[i].busy)
			py_forsake(s, &lanes[i].op);
		ASSERT(!lanes[i].busy || py_op_done(&lanes[i].op)); /* (2) */
		py_release_locked(s, lanes[i].lease);
	}
	py_unlock(s);
}

int py_bulk(struct py_session *s, struct py_bulk *b, PyObject *path)
{
	const uint32_t want = weka_window_bytes(1, piece_max(b->length_bytes));
	const uint64_t pieces = b->length_bytes / PIECE_BYTES + 2;
	struct lane lanes[LANES] = { 0 };
	uint32_t count = 0;
	int failed;

	b->done_bytes = 0;
	if (b->length_bytes == 0)
		return 0;
	while (count < min_u64(LANES, pieces)) {
		lanes[count].lease = py_lease(s, want, want);
		if (!lanes[count].lease)
			break;
		count++;
	}
	if (count == 0)
		return -1;
	PyErr_Clear(); /* fewer lanes do, too */
	failed = run(s, b, lanes, count, path);
	lanes_end(s, lanes, count);
	return failed;
}
