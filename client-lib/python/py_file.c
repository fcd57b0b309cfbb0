/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files: read() and readinto(); opening and closing.
 *
 * A read of up to SMALL_BYTES opens, reads and closes in one round trip.  A larger read opens the
 * file first, so that all its pieces are of one version of the file.
 *
 * Invariants:
 *
 *  (1) Each call closes the file that it opened, and releases its leases, also after an exception
 *      [test_memory:test_nothing_is_left_behind].
 *  (2) Memory of the application is used while its Py_buffer is held, or before anybody else has
 *      seen it [test_misuse:test_a_buffer_that_is_being_read_into].
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SMALL_BYTES (128u << 10)

struct weka_create py_create(uint32_t mode, bool exclusive)
{
	return (struct weka_create){
		.mode = mode, .uid = getuid(), .gid = getgid(), .flags = exclusive ? WEKA_EXCL : 0
	};
}

/* ---- open and close ------------------------------------------------------------------------ */

int py_open(struct py_session *s, const struct py_path *path, uint32_t flags, uint32_t mode,
	    struct weka_attr *attr)
{
	const struct weka_ref ref = py_path_ref(path);
	const struct weka_create create = py_create(mode, false);
	struct py_op op = { .settles = flags & WEKA_HOLD };
	const int failed =
		py_run(s, &op,
		       PY_SUBMIT(s, weka_submit_open(s->weka, &op.req, &ref, flags,
						     flags & WEKA_CREATE ? &create : NULL, attr)),
		       path->given);

	if (op.settled && op.req.status == 0)
		py_close_file(s, &attr->handle); /* nobody else knows that it is held */
	return failed;
}

void py_close_file(struct py_session *s, const struct weka_handle *handle)
{
	py_lock(s);
	(void)weka_close_file(s->weka, handle);
	py_unlock(s);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* One request by name.  Returns -1 with an exception, 1 when the file is larger than the lease. */
static int read_small(struct py_session *s, const struct py_path *path, struct weka_lease *lease,
		      struct weka_read_item *item)
{
	const struct weka_window window = { .lease = lease, .size_bytes = lease->size_bytes };
	struct py_op op = { 0 };

	if (py_run(s, &op, PY_SUBMIT(s, weka_submit_read_batch(s->weka, &op.req, item, 1, &window)),
		   path->given) < 0)
		return -1;
	if (item->status && item->status != -EMSGSIZE)
		py_raise(item->status, NULL, path->given);
	return !item->status ? 0 : item->status == -EMSGSIZE ? 1 : -1;
}

static struct weka_lease *lease_small(struct py_session *s, uint64_t length_bytes)
{
	const uint64_t most = min_u64(length_bytes, SMALL_BYTES) + 2 * (WEKA_BLOCK - 1);

	return py_lease(s, weka_window_bytes(1, most), weka_window_bytes(1, WEKA_BLOCK));
}

static int open_to_read(struct py_session *s, const struct py_path *path, struct weka_attr *attr)
{
	if (py_open(s, path, WEKA_HOLD, 0, attr) < 0)
		return -1;
	if (attr->dir == 0)
		return 0;
	py_raise(-EISDIR, NULL, path->given);
	return -1;
}

static PyObject *read_large(struct py_session *s, const struct py_path *path, uint64_t offset,
			    uint64_t length)
{
	struct py_bulk bulk = { .offset_bytes = offset };
	PyObject *bytes = NULL, *part;
	struct weka_attr attr;

	if (open_to_read(s, path, &attr) < 0)
		return NULL;
	if (attr.size_bytes > offset)
		bulk.length_bytes = min_u64(length, attr.size_bytes - offset);
	if (bulk.length_bytes > PY_SSIZE_T_MAX)
		PyErr_NoMemory();
	else
		bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bulk.length_bytes);
	if (bytes) {
		bulk.handle = attr.handle;
		bulk.memory = PyBytes_AsString(bytes);
		if (py_bulk(s, &bulk, path->given) < 0)
			Py_CLEAR(bytes);
	}
	py_close_file(s, &attr.handle);
	if (!bytes || bulk.done_bytes == bulk.length_bytes)
		return bytes;
	/* It has been truncated since. */
	part = PyBytes_FromStringAndSize(PyBytes_AsString(bytes), (Py_ssize_t)bulk.done_bytes);
	Py_DECREF(bytes);
	return part;
}

static PyObject *read_any(struct py_session *s, const struct py_path *path, uint64_t offset,
			  uint64_t length)
{
	struct weka_read_item item = { .ref = py_path_ref(path),
				       .offset_bytes = offset,
				       .length_bytes = length };
	struct weka_lease *lease = lease_small(s, length);
	PyObject *bytes = NULL;
	int got;

	if (!lease)
		return NULL;
	got = read_small(s, path, lease, &item);
	if (got == 0)
		bytes = PyBytes_FromStringAndSize(item.data, (Py_ssize_t)item.got_bytes);
	py_release(s, lease);
	return got <= 0 ? bytes : read_large(s, path, offset, length);
}

PyObject *py_client_read(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "path", "offset", "length", NULL };
	PyObject *from = Py_None, *count = Py_None, *bytes = NULL;
	uint64_t offset, length;
	struct py_session *s;
	struct py_path path;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|OO:read", names, py_path_from, &path,
					 &from, &count))
		return NULL;
	if (py_u64(from, "offset", 0, &offset) == 0 &&
	    py_u64(count, "length", WEKA_TO_END, &length) == 0) {
		s = py_begin((struct py_client *)self);
		if (s) { /* of no bytes: whether it is there */
			bytes = read_any(s, &path, offset, max_u64(length, 1));
			py_end(s);
		}
		if (bytes && length == 0) {
			Py_DECREF(bytes);
			bytes = PyBytes_FromStringAndSize(NULL, 0);
		}
	}
	py_path_clear(&path);
	return bytes;
}

/* Returns how many bytes were read, or -1. */
static int64_t read_into(struct py_session *s, const struct py_path *path, const Py_buffer *to,
			 uint64_t offset)
{
	struct py_bulk bulk = { .offset_bytes = offset,
				.memory = to->buf,
				.length_bytes = (uint64_t)to->len };
	struct weka_attr attr;
	int failed;

	if (open_to_read(s, path, &attr) < 0)
		return -1;
	bulk.handle = attr.handle;
	failed = py_bulk(s, &bulk, path->given);
	py_close_file(s, &attr.handle);
	return failed ? -1 : (int64_t)bulk.done_bytes;
}

PyObject *py_client_readinto(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "path", "buffer", "offset", NULL };
	PyObject *from = Py_None;
	struct py_session *s;
	struct py_path path;
	uint64_t offset;
	int64_t got = -1;
	Py_buffer to;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&w*|O:readinto", names, py_path_from,
					 &path, &to, &from))
		return NULL;
	s = py_u64(from, "offset", 0, &offset) == 0 ? py_begin((struct py_client *)self) : NULL;
	if (s) {
		got = read_into(s, &path, &to, offset);
		py_end(s);
	}
	PyBuffer_Release(&to);
	py_path_clear(&path);
	return got < 0 ? NULL : PyLong_FromLongLong(got);
}
