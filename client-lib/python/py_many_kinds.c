/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * put_batch(): many small files with one request.  stat_batch(), remove_batch().
 *
 *    lease   [ file 0 | file 1 | ... | file n - 1 |   checksums, answers ]
 *
 * Invariants:
 *
 *  (1) All bytes are copied into the lease, so that the application may change its own as soon as
 *      the call returns, also by an exception.
 *  (2) A file over WEKA_WRITE_MAX is a group by itself.
 */
#include "client-lib/python/py_many.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- put ------------------------------------------------------------------------------------ */

static int put_take(struct py_one *one, PyObject *object)
{
	if (!PyTuple_Check(object)) {
		PyErr_SetString(PyExc_TypeError, "items must be tuples (path, data)");
		return -1;
	}
	return PyArg_ParseTuple(object, "O&y*;items must be tuples (path, data)", py_path_from,
				&one->path, &one->data)
		       ? 0
		       : -1;
}

/* Lays the bytes into the lease, without the GIL. */
static void puts_lay(struct py_group *g, struct weka_lease *lease)
{
	uint64_t at = 0;
	uint32_t i;

	Py_BEGIN_ALLOW_THREADS;
	for (i = 0; i < g->count; i++) {
		const Py_buffer *data = &g->one[i]->data;

		ASSERT(data->len <= (Py_ssize_t)WEKA_WRITE_MAX); /* (2) */
		g->items.put[i] = (struct weka_put_item){
			.ref = py_path_ref(&g->one[i]->path),
			.create = g->create,
			.window_at = (uint32_t)at,
			.size_bytes = (uint32_t)data->len,
		};
		if (data->len > 0)
			memcpy((char *)lease->data + at, data->buf, (size_t)data->len);
		at = align_up(at + (uint64_t)data->len, 64);
	}
	ASSERT(at <= lease->size_bytes); /* (1) */
	Py_END_ALLOW_THREADS;
}

static int puts_add(struct py_group *g)
{
	uint32_t i;
	int failed = 0;

	for (i = 0; i < g->count && !failed; i++) {
		Py_INCREF(Py_None);
		failed = py_results_add(g->results, Py_None, g->items.put[i].status,
					g->one[i]->path.given);
	}
	return failed;
}

/* A file that is too large for a request with others. */
static int put_alone(struct py_session *s, struct py_group *g)
{
	const struct py_one *one = g->one[0];
	const uint32_t interrupts = s->interrupts;
	PyObject *kind, *value, *trace;

	if (py_put(s, &one->path, one->data.buf, (uint64_t)one->data.len, &g->create) == 0) {
		Py_INCREF(Py_None);
		return py_results_add(g->results, Py_None, 0, NULL);
	}
	if (s->interrupts != interrupts || !PyErr_ExceptionMatches(PyExc_OSError))
		return -1; /* a signal handler may raise an OSError, too */
	PyErr_Fetch(&kind, &value, &trace);
	PyErr_NormalizeException(&kind, &value, &trace);
	Py_XDECREF(kind);
	Py_XDECREF(trace);
	return py_results_add(g->results, value, 0, NULL);
}

static int put_run(struct py_session *s, struct py_group *g)
{
	struct weka_window window = { 0 };
	struct py_op op = { 0 };
	uint64_t each;
	uint32_t want;
	int failed;

	if (g->count == 1 && g->payload_bytes > WEKA_WRITE_MAX)
		return put_alone(s, g);
	each = div_up(g->payload_bytes, g->count) + WEKA_BLOCK;
	want = weka_window_bytes(g->count, each);
	window.lease = py_lease(s, want, want);
	if (!window.lease)
		return -1;
	window.size_bytes = window.lease->size_bytes;
	puts_lay(g, window.lease);
	failed = py_run(
		s, &op,
		PY_SUBMIT(s, weka_submit_put(s->weka, &op.req, g->items.put, g->count, &window)),
		NULL);
	py_release(s, window.lease);
	return failed ? -1 : puts_add(g);
}

/* ---- stat, remove --------------------------------------------------------------------------- */

static int path_take(struct py_one *one, PyObject *object)
{
	return py_path_from(object, &one->path) ? 0 : -1;
}

static int stat_run(struct py_session *s, struct py_group *g)
{
	struct weka_window window = { 0 };
	struct py_op op = { 0 };
	uint32_t i;
	int failed;

	for (i = 0; i < g->count; i++)
		g->items.stat[i] = (struct weka_stat_item){ .ref = py_path_ref(&g->one[i]->path) };
	if (g->count > PY_STATS_INLINE) {
		window.lease = py_lease(s, g->count * PY_STAT_BYTES, g->count * PY_STAT_BYTES);
		if (!window.lease)
			return -1;
		window.size_bytes = window.lease->size_bytes;
	}
	failed = py_run(s, &op,
			PY_SUBMIT(s, weka_submit_stat(s->weka, &op.req, g->items.stat, g->count,
						      window.lease ? &window : NULL)),
			NULL);
	py_release(s, window.lease);
	for (i = 0; i < g->count && !failed; i++) {
		const struct weka_stat_item *item = &g->items.stat[i];

		failed = py_results_add(g->results, item->status ? NULL : py_stat_new(&item->attr),
					item->status, g->one[i]->path.given);
	}
	return failed;
}

static int remove_run(struct py_session *s, struct py_group *g)
{
	struct py_op op = { 0 };
	uint32_t i;
	int failed;

	for (i = 0; i < g->count; i++)
		g->items.unlink[i] =
			(struct weka_unlink_item){ .ref = py_path_ref(&g->one[i]->path) };
	failed = py_run(s, &op,
			PY_SUBMIT(s, weka_submit_unlink_batch(s->weka, &op.req, g->items.unlink,
							      g->count, NULL)),
			NULL);
	for (i = 0; i < g->count && !failed; i++) {
		Py_INCREF(Py_None);
		failed = py_results_add(g->results, Py_None, g->items.unlink[i].status,
					g->one[i]->path.given);
	}
	return failed;
}

PyObject *py_client_put_batch(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "items", "mode", "exclusive", "return_exceptions", NULL };
	static const struct py_kind kind = { put_take, put_run };
	int mode = 0644, exclusive = 0, errors = 0;
	struct weka_create create;
	PyObject *items;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$ipp:put_batch", names, &items, &mode,
					 &exclusive, &errors))
		return NULL;
	create = py_create((uint32_t)mode & 07777, exclusive);
	return py_many((struct py_client *)self, items, "items", &kind, &create, errors);
}

static PyObject *with_paths(PyObject *self, PyObject *args, PyObject *kwargs, const char *format,
			    const struct py_kind *kind)
{
	static char *names[] = { "paths", "return_exceptions", NULL };
	PyObject *paths;
	int errors = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &paths, &errors))
		return NULL;
	return py_many((struct py_client *)self, paths, "paths", kind, NULL, errors);
}

PyObject *py_client_stat_batch(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const struct py_kind kind = { path_take, stat_run };

	return with_paths(self, args, kwargs, "O|$p:stat_batch", &kind);
}

PyObject *py_client_remove_batch(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const struct py_kind kind = { path_take, remove_run };

	return with_paths(self, args, kwargs, "O|$p:remove_batch", &kind);
}
