/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Batch, as Python sees it: a sequence of Items.
 *
 * Invariants:
 *
 *  (1) Making an object may collect garbage, and with it run code of the application, which may
 *      release the batch: while a call looks at a job, it counts in `looks`, which keeps it
 *      [test_misuse:test_code_that_runs_when_garbage_is_collected].
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <string.h>

/* ---- its life ------------------------------------------------------------------------------ */

static void batch_dealloc(PyObject *self)
{
	struct py_batch *b = (struct py_batch *)self;
	PyTypeObject *type = Py_TYPE(self);
	PyObject *kind, *value, *trace;

	PyErr_Fetch(&kind, &value, &trace);
	py_batch_let_go(b);
	Py_DECREF(b->session);
	PyErr_Restore(kind, value, trace);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *batch_release(PyObject *self, PyObject *none)
{
	struct py_batch *b = (struct py_batch *)self;

	(void)none;
	if (b->looks > 0 && !py_is_stale(b->session)) {
		PyErr_SetString(PyExc_BufferError, "a call waits for the batch, or looks at it");
		return NULL;
	}
	if (b->exports > 0) {
		PyErr_Format(PyExc_BufferError,
			     "the batch has %llu views or waiters: they must be gone first",
			     (unsigned long long)b->exports);
		return NULL;
	}
	py_batch_let_go(b);
	Py_RETURN_NONE;
}

static PyObject *batch_enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_INCREF(self);
	return self;
}

static PyObject *batch_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return batch_release(self, NULL);
}

/* ---- attributes ---------------------------------------------------------------------------- */

/* A stream's items have numbers, and their names stand in the manifest. */
static PyObject *sample_path(struct py_batch *b, uint32_t index)
{
	struct weka_sample sample;

	if (py_opened_sample(b->job->feed->opened, b->session, b->job->samples[index], &sample) < 0)
		return NULL;
	return py_name(sample.path, (Py_ssize_t)strlen(sample.path), false);
}

PyObject *py_batch_path(struct py_batch *b, uint32_t index)
{
	const struct weka_ref *ref = &b->job->items[index].ref;
	PyObject *path;

	b->looks++; /* (1) */
	path = ref->by == WEKA_BY_PATH ? py_name(ref->name, (Py_ssize_t)ref->name_bytes, false)
				       : sample_path(b, index);
	b->looks--;
	return path;
}

/* The error of an item, or of the batch as a whole. */
static PyObject *error_of(struct py_batch *b, uint32_t index)
{
	const struct py_job *job = b->job;
	const int err = py_job_status(job, index);
	const bool has_line = err == -EMSGSIZE || err == -EAGAIN;
	PyObject *path, *error;

	b->looks++; /* (1) */
	path = py_batch_path(b, index);
	error = path ? py_error_new(err, has_line ? job->line : NULL, path) : NULL;
	Py_XDECREF(path);
	b->looks--;
	return error;
}

const struct weka_read_item *py_batch_item(struct py_batch *b, Py_ssize_t index)
{
	PyObject *error;

	if (py_batch_wait(b, WEKA_FOREVER) < 0)
		return NULL;
	if (index < 0 || index >= (Py_ssize_t)b->job->count) {
		PyErr_SetString(PyExc_IndexError, "the batch has no such item");
		return NULL;
	}
	if (!py_job_status(b->job, (uint32_t)index))
		return &b->job->items[index];
	error = error_of(b, (uint32_t)index);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}

static PyObject *batch_get(PyObject *self, Py_ssize_t index)
{
	struct py_batch *b = (struct py_batch *)self;

	return py_batch_item(b, index) ? py_item_new(b, (uint32_t)index) : NULL;
}

static Py_ssize_t batch_length(PyObject *self)
{
	struct py_batch *b = (struct py_batch *)self;

	if (b->job)
		return (Py_ssize_t)b->job->count;
	PyErr_SetString(PyExc_ValueError, "the batch was released");
	return -1;
}

static PyObject *batch_wait(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "timeout", NULL };
	PyObject *timeout = Py_None;
	uint64_t timeout_ns;
	int got;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:wait", names, &timeout) ||
	    py_seconds(timeout, "timeout", &timeout_ns) < 0)
		return NULL;
	got = py_batch_wait((struct py_batch *)self, timeout_ns);
	return got < 0 ? NULL : PyBool_FromLong(got);
}

static int errors_add(PyObject *errors, struct py_batch *b, uint32_t index)
{
	PyObject *error = error_of(b, index);
	PyObject *at = PyLong_FromUnsignedLong(index);
	int failed = at && error ? PyDict_SetItem(errors, at, error) : -1;

	Py_XDECREF(at);
	Py_XDECREF(error);
	return failed;
}

static PyObject *batch_errors(PyObject *self, PyObject *none)
{
	struct py_batch *b = (struct py_batch *)self;
	PyObject *errors = PyDict_New();
	uint32_t i;
	int failed = errors ? 0 : -1;

	(void)none;
	if (errors && py_batch_wait(b, WEKA_FOREVER) < 0)
		failed = -1;
	b->looks++; /* (1): to the end */
	for (i = 0; !failed && i < b->job->count; i++)
		if (py_job_status(b->job, i))
			failed = errors_add(errors, b, i);
	b->looks--;
	if (failed)
		Py_CLEAR(errors);
	return errors;
}

static PyObject *batch_done(PyObject *self, void *none)
{
	struct py_batch *b = (struct py_batch *)self;
	int got;

	(void)none;
	got = py_batch_wait(b, 0);
	return got < 0 ? NULL : PyBool_FromLong(got);
}

static PyObject *batch_released(PyObject *self, void *none)
{
	(void)none;
	return PyBool_FromLong(!((struct py_batch *)self)->job);
}

static PyMethodDef methods[] = {
	{ "wait", (PyCFunction)(void (*)(void))batch_wait, METH_VARARGS | METH_KEYWORDS,
	  "wait(timeout=None)\n--\n\n"
	  "Wait until every file was read, at most timeout seconds (None: as long as it takes).\n\n"
	  "Returns True when the batch is whole, False when the time is over.  Any thread may\n"
	  "wait.  Without the GIL.  Files that could not be read are in errors()." },
	{ "errors", batch_errors, METH_NOARGS,
	  "errors()\n--\n\nWait, and return {index: OSError} of the files that were not read." },
	{ "release", batch_release, METH_NOARGS,
	  "release()\n--\n\n"
	  "Give the memory back now.  Raises BufferError while a view of an item is alive.\n"
	  "Afterwards items raise ValueError.  Releasing twice is fine." },
	{ "__enter__", batch_enter, METH_NOARGS, NULL },
	{ "__exit__", batch_exit, METH_VARARGS, "Release." },
	{ "__reduce__", py_not_pickled, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
	{ "done", batch_done, NULL, "Whether the batch is whole.  Takes in what has come.", NULL },
	{ "released", batch_released, NULL, "Whether the memory was given back.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, batch_dealloc },
	{ Py_sq_length, batch_length },
	{ Py_sq_item, batch_get },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_tp_doc,
	  "Files that were read together: a sequence of Items, in the order of the paths.\n\n"
	  "batch[i] waits for the batch, and raises the OSError of a file that was not read; the\n"
	  "other items are there all the same.  Items are buffers over memory of the session: no\n"
	  "bytes are copied.  The memory goes back when the batch, its items and all their views\n"
	  "are gone, or by release() or the end of a with block.\n\n"
	  "A batch may be used by any thread, and lives on when its client is closed.  In a child\n"
	  "of a fork it raises OSError (ESTALE)." },
	{ 0, NULL },
};
PyType_Spec py_batch_spec = {
	.name = "weka.Batch",
	.basicsize = sizeof(struct py_batch),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};

/* ---- a stream's batches ---------------------------------------------------------------------- */

/* A memoryview of a copy: it keeps none of the pool's memory. */
static PyObject *numbers(struct py_batch *b, bool labels)
{
	const struct py_job *job = b->job;
	PyObject *bytes, *array = NULL, *module, *view = NULL;

	if (batch_length((PyObject *)b) < 0)
		return NULL;
	if (py_is_stale(b->session)) {
		py_raise(-ESTALE, "the batch is of the process that forked this one", NULL);
		return NULL;
	}
	bytes = labels ? PyBytes_FromStringAndSize((const char *)job->labels,
						   (Py_ssize_t)(sizeof(uint32_t) * job->count))
		       : PyBytes_FromStringAndSize((const char *)job->samples,
						   (Py_ssize_t)(sizeof(uint64_t) * job->count));
	module = bytes ? PyImport_ImportModule("array") : NULL;
	if (module)
		array = PyObject_CallMethod(module, "array", "sO", labels ? "i" : "q", bytes);
	if (array)
		view = PyMemoryView_FromObject(array);
	Py_XDECREF(array);
	Py_XDECREF(module);
	Py_XDECREF(bytes);
	return view;
}

static PyObject *get_samples(PyObject *self, void *none)
{
	(void)none;
	return numbers((struct py_batch *)self, false);
}

static PyObject *get_labels(PyObject *self, void *none)
{
	(void)none;
	return numbers((struct py_batch *)self, true);
}

static PyObject *get_step(PyObject *self, void *none)
{
	struct py_batch *b = (struct py_batch *)self;

	(void)none;
	if (batch_length(self) < 0 || py_batch_wait(b, 0) < 0)
		return NULL;
	if (!b->job->batch)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(b->job->batch->step);
}

static PyGetSetDef sample_getset[] = {
	{ "done", batch_done, NULL, "Whether the batch is whole.", NULL },
	{ "released", batch_released, NULL, "Whether the memory was given back.", NULL },
	{ "samples", get_samples, NULL,
	  "The samples' numbers in the dataset: a memoryview of int64, a copy.", NULL },
	{ "labels", get_labels, NULL,
	  "The samples' labels: a memoryview of int32, a copy; -1 without labels.", NULL },
	{ "step", get_step, NULL,
	  "From 0 on, since the stream was opened; None: it is not a stream's.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot sample_slots[] = {
	{ Py_tp_dealloc, batch_dealloc },
	{ Py_sq_length, batch_length },
	{ Py_sq_item, batch_get },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, sample_getset },
	{ Py_tp_doc,
	  "Samples of a dataset: as a Batch, a sequence of Items, and their numbers and labels.\n\n"
	  "batch[i] raises the OSError of a sample that could not be read, with the name of its\n"
	  "file: ESTALE when the file was changed or removed since the dataset was made.  The\n"
	  "other items are there all the same; errors() has all errors.  It may be empty when\n"
	  "fewer samples than ranks were left." },
	{ 0, NULL },
};
PyType_Spec py_sample_batch_spec = {
	.name = "weka.SampleBatch",
	.basicsize = sizeof(struct py_batch),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = sample_slots,
};
