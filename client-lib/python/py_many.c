/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Many names at once: the groups.
 *
 * Each name has a result of its own.  The first error is raised when all has been tried, or, with
 * return_exceptions, every error stands in the list.
 *
 * Invariants:
 *
 *  (1) A group's paths and buffers are held until its request is done.
 *  (2) The result of name i is at index i of the list.
 */
#include "client-lib/python/py_many.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void one_free(struct py_one *one)
{
	if (one->data.obj)
		PyBuffer_Release(&one->data);
	py_path_clear(&one->path);
	free(one);
}

static void group_clear(struct py_group *g)
{
	while (g->count > 0)
		one_free(g->one[--g->count]);
	g->name_bytes = 0;
	g->payload_bytes = 0;
}

/* The next goes into a group of its own. */
static bool is_full(const struct py_session *s, const struct py_group *g, const struct py_one *next)
{
	const uint64_t bytes = g->payload_bytes + (uint64_t)next->data.len;

	return g->count == min_u32(PY_GROUP_MAX, s->batch_items_max) ||
	       g->name_bytes + next->path.bytes > PY_NAMES_MAX ||
	       bytes > min_u64(PY_GROUP_BYTES, s->pool_bytes / 4) ||
	       next->data.len > (Py_ssize_t)WEKA_WRITE_MAX || g->payload_bytes > WEKA_WRITE_MAX;
}

static int flush(struct py_session *s, struct py_group *g, const struct py_kind *kind)
{
	const Py_ssize_t done = PyList_Size(g->results);
	int failed = g->count > 0 ? kind->run(s, g) : 0;

	ASSERT(failed || PyList_Size(g->results) == done + (Py_ssize_t)g->count); /* (2) */
	group_clear(g);
	return failed;
}

static struct py_one *one_new(const struct py_kind *kind, PyObject *object)
{
	struct py_one *one = calloc(1, sizeof(*one));

	if (!one) {
		PyErr_NoMemory();
		return NULL;
	}
	if (kind->take(one, object) == 0)
		return one;
	free(one);
	return NULL;
}

static int run_all(struct py_session *s, struct py_group *g, const struct py_kind *kind,
		   PyObject *all)
{
	const Py_ssize_t count = PyTuple_Size(all);
	Py_ssize_t i;

	for (i = 0; i < count; i++) {
		struct py_one *one = one_new(kind, PyTuple_GetItem(all, i));

		if (!one)
			return -1;
		if (g->count > 0 && is_full(s, g, one) && flush(s, g, kind) < 0) {
			one_free(one);
			return -1;
		}
		g->one[g->count++] = one; /* (1) */
		g->name_bytes += one->path.bytes;
		g->payload_bytes += align_up((uint64_t)one->data.len, 64);
	}
	return flush(s, g, kind);
}

/* Raises the first error of the list. */
static int first_error(PyObject *results)
{
	Py_ssize_t i;

	for (i = 0; i < PyList_Size(results); i++) {
		PyObject *result = PyList_GetItem(results, i);

		if (!PyObject_IsInstance(result, PyExc_OSError))
			continue;
		PyErr_SetObject((PyObject *)Py_TYPE(result), result);
		return -1;
	}
	return 0;
}

PyObject *py_many(struct py_client *client, PyObject *sequence, const char *what,
		  const struct py_kind *kind, const struct weka_create *create, bool return_errors)
{
	PyObject *all = py_sequence(sequence, what);
	struct py_group *g = calloc(1, sizeof(*g));
	struct py_session *s = NULL;
	PyObject *results = NULL;
	int failed = -1;

	if (all && !g)
		PyErr_NoMemory();
	else if (all)
		s = py_begin(client);
	if (s) {
		results = g->results = PyList_New(0);
		if (create)
			g->create = *create;
		if (results)
			failed = run_all(s, g, kind, all);
		if (!failed && !return_errors)
			failed = first_error(results);
		group_clear(g);
		py_end(s);
	}
	free(g);
	Py_XDECREF(all);
	if (failed)
		Py_CLEAR(results);
	return results;
}
