/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories: listdir() and scandir(), page by page.
 *
 * Invariants:
 *
 *  (1) An entry's name lies in the lease, and is used before the next page is asked for
 *      [test_files:test_many_names].
 *  (2) The lease goes back, also after an exception [test_memory:test_nothing_is_left_behind].
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE_ENTRIES 1024u
#define PAGE_BYTES   (256u << 10)
#define PAGE_LEAST   (16u << 10)

struct listing {
	struct py_session *session;
	const struct py_path *path;
	struct weka_lease *lease;
	struct weka_entry *entries;
	struct weka_cookie cookie;
	bool with_stat;
};

static PyObject *entry_new(const struct listing *l, const struct weka_entry *entry)
{
	PyObject *name = py_name(entry->name, (Py_ssize_t)entry->name_bytes, l->path->is_bytes);
	PyObject *stat, *pair = NULL;

	if (!name || !l->with_stat)
		return name;
	stat = py_stat_new(&entry->attr);
	if (stat)
		pair = PyTuple_Pack(2, name, stat);
	Py_DECREF(name);
	Py_XDECREF(stat);
	return pair;
}

/* Returns 1 when there is another page, 0 at the end, -1 with an exception. */
static int page(struct listing *l, PyObject *list)
{
	const struct weka_window window = { .lease = l->lease, .size_bytes = l->lease->size_bytes };
	const struct weka_ref ref = py_path_ref(l->path);
	struct py_session *s = l->session;
	struct py_op op = { 0 };
	uint32_t i;
	int failed = 0;

	if (py_run(s, &op,
		   PY_SUBMIT(s, weka_submit_list(s->weka, &op.req, &ref, &l->cookie, l->entries,
						 PAGE_ENTRIES, &window)),
		   l->path->given) < 0)
		return -1;
	for (i = 0; i < op.req.count && !failed; i++)
		failed = py_results_add(list, entry_new(l, &l->entries[i]), 0, NULL);
	if (failed)
		return -1;
	if (op.req.count > 0 || op.req.length_bytes == 0)
		return op.req.length_bytes > 0;
	py_raise(-EPROTO, NULL, l->path->given); /* it would never end */
	return -1;
}

static PyObject *list_all(struct listing *l)
{
	PyObject *list = PyList_New(0);
	int more = list ? 1 : -1;

	l->entries = calloc(PAGE_ENTRIES, sizeof(*l->entries));
	if (list && !l->entries) {
		PyErr_NoMemory();
		more = -1;
	}
	while (more > 0)
		more = page(l, list);
	free(l->entries);
	if (more < 0)
		Py_CLEAR(list);
	return list;
}

static PyObject *list_dir(PyObject *self, PyObject *args, PyObject *kwargs, bool with_stat)
{
	static char *names[] = { "path", NULL };
	struct listing l = { .with_stat = with_stat };
	PyObject *list = NULL;
	struct py_path path;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&", names, py_path_from, &path))
		return NULL;
	l.path = &path;
	l.session = py_begin((struct py_client *)self);
	if (l.session) {
		l.lease = py_lease(l.session, PAGE_BYTES, PAGE_LEAST);
		if (l.lease) {
			list = list_all(&l);
			py_release(l.session, l.lease); /* (2) */
		}
		py_end(l.session);
	}
	py_path_clear(&path);
	return list;
}

PyObject *py_client_listdir(PyObject *self, PyObject *args, PyObject *kwargs)
{
	return list_dir(self, args, kwargs, false);
}

PyObject *py_client_scandir(PyObject *self, PyObject *args, PyObject *kwargs)
{
	return list_dir(self, args, kwargs, true);
}
