/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Dataset: one version of a list of samples.
 *
 * It is a name and a version; each thread opens it over its own session when it first uses it
 * there, and so does a child of a fork.  It is pickled as client, name and version.
 *
 * Invariants:
 *
 *  (1) `classes` is NULL until the version is known; then nothing of `info` changes any more.
 */
#include "client-lib/python/py_weka.h"

#include <string.h>

/* ---- its life ------------------------------------------------------------------------------- */

void py_dataset_end(struct py_dataset *d)
{
	struct list *node;

	d->closed = true;
	while ((node = d->opened.next) != &d->opened)
		py_opened_unlink(list_entry(node, struct py_opened, of_dataset));
}

void py_dataset_dealloc(PyObject *self)
{
	struct py_dataset *d = (struct py_dataset *)self;
	PyTypeObject *type = Py_TYPE(self);

	py_dataset_end(d);
	Py_XDECREF(d->classes);
	Py_DECREF((PyObject *)d->client);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *classes_of(const struct weka_dataset *weka, uint32_t count)
{
	PyObject *classes = PyTuple_New(count), *name;
	uint32_t i;

	for (i = 0; classes && i < count; i++) {
		const char *text = weka_dataset_class(weka, i);

		name = py_name(text, (Py_ssize_t)strlen(text), false);
		if (!name || PyTuple_SetItem(classes, i, name) < 0)
			Py_CLEAR(classes);
	}
	return classes;
}

/* Opens it in the calling thread's session, and learns what it is (1). */
static int dataset_init(struct py_dataset *d)
{
	struct py_session *s = py_begin(d->client);
	struct py_opened *o = s ? py_opened_get(d, s) : NULL;

	ASSERT(!d->classes); /* (1) */
	if (o) {
		d->info.size_bytes = sizeof(d->info);
		if (weka_dataset_get_info(o->weka, &d->info) == 0)
			d->classes = classes_of(o->weka, d->info.classes);
		py_opened_put(o);
	}
	if (s)
		py_end(s);
	return d->classes ? 0 : -1;
}

static PyObject *dataset_new(struct py_client *client, const char *name, uint32_t version)
{
	struct py_dataset *d;

	if (strlen(name) > WEKA_DATASET_NAME_MAX) {
		PyErr_SetString(PyExc_ValueError, "the name of a dataset has 1 to 100 bytes");
		return NULL;
	}
	d = PyObject_New(struct py_dataset, py_types.dataset);
	if (!d)
		return NULL;
	memset((char *)d + sizeof(PyObject), 0, sizeof(*d) - sizeof(PyObject));
	list_init(&d->opened);
	d->client = client;
	Py_INCREF((PyObject *)client);
	memcpy(d->name, name, strlen(name));
	d->info.version = version;
	if (dataset_init(d) == 0)
		return (PyObject *)d;
	Py_DECREF(d);
	return NULL;
}

static int version_from(PyObject *object, uint32_t *out)
{
	uint64_t version;

	if (py_u64(object, "version", 0, &version) < 0)
		return -1;
	if (version > UINT32_MAX) {
		PyErr_SetString(PyExc_OverflowError, "version must be below 2**32");
		return -1;
	}
	*out = (uint32_t)version;
	return 0;
}

PyObject *py_client_dataset(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "version", NULL };
	PyObject *number = Py_None;
	uint32_t version;
	const char *name;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|O:dataset", names, &name, &number) ||
	    version_from(number, &version) < 0)
		return NULL;
	return dataset_new((struct py_client *)self, name, version);
}

/* ---- making and removing ------------------------------------------------------------------- */

static int create(struct py_session *s, const char *name, const struct py_path *path,
		  struct weka_dataset_make *how, struct py_progress *progress,
		  struct weka_dataset_info *info)
{
	const struct weka_progress report = { py_progress_note, progress };
	int err;

	how->progress = &report;
	if (py_block(s, progress) < 0)
		return -1;
	PY_ENTER_LIBRARY;
	err = weka_dataset_create(s->weka, name, path->text, how, info);
	PY_LEAVE_LIBRARY;
	if (py_unblock(s, err, path->given) < 0)
		return -1;
	return py_progress_tell(progress); /* that it is done */
}

PyObject *py_client_create_dataset(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name",  "path",     "glob",    "labels",
				 "quick", "progress", "records", NULL };
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };
	struct weka_dataset_make how = { 0 };
	struct py_progress progress = { 0 };
	PyObject *call = Py_None;
	struct py_session *s;
	struct py_path path;
	int labels = 1, quick = 0, failed = -1;
	const char *name;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO&|zppOz:create_dataset", names, &name,
					 py_path_from, &path, &how.glob, &labels, &quick, &call,
					 &how.records))
		return NULL;
	how.flags = (labels ? 0 : WEKA_DATASET_NO_LABEL) | (quick ? WEKA_DATASET_QUICK : 0);
	progress.call = call == Py_None ? NULL : call;
	if (call != Py_None && !PyCallable_Check(call)) {
		PyErr_SetString(PyExc_TypeError, "progress must be a function, or None");
		s = NULL;
	} else {
		s = py_begin((struct py_client *)self);
	}
	if (s) {
		failed = create(s, name, &path, &how, &progress, &info);
		py_end(s);
	}
	py_path_clear(&path);
	return failed ? NULL : dataset_new((struct py_client *)self, name, info.version);
}

PyObject *py_client_drop_dataset(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "version", NULL };
	PyObject *number, *text;
	struct py_session *s;
	uint32_t version;
	int err = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UO:drop_dataset", names, &text, &number) ||
	    version_from(number, &version) < 0)
		return NULL;
	s = py_begin((struct py_client *)self);
	if (s && py_block(s, NULL) == 0) {
		const char *name = PyUnicode_AsUTF8AndSize(text, NULL);

		PY_ENTER_LIBRARY;
		err = name ? weka_dataset_drop(s->weka, name, version) : 0;
		PY_LEAVE_LIBRARY;
		err = py_unblock(s, err, text);
	}
	if (s)
		py_end(s);
	if (err)
		return NULL;
	Py_RETURN_NONE;
}
