/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Dataset, as Python sees it. */
#include "client-lib/python/py_weka.h"

#include <string.h>

static int is_open(const struct py_dataset *d)
{
	if (!d->closed)
		return 0;
	PyErr_SetString(PyExc_ValueError, "the dataset is closed");
	return -1;
}

static Py_ssize_t dataset_length(PyObject *self)
{
	return (Py_ssize_t)((struct py_dataset *)self)->info.samples;
}

/* ---- samples ------------------------------------------------------------------------------- */

static PyStructSequence_Field sample_fields[] = {
	{ "path", "its file" },
	{ "offset", "where it begins in the file" },
	{ "size", "bytes" },
	{ "label", "its class's number, or -1" },
	{ "member", "the record in the file, or empty" },
	{ NULL, NULL },
};
PyStructSequence_Desc py_sample_desc = {
	.name = "weka.Sample",
	.doc = "Where a sample of a dataset is, and its class.",
	.fields = sample_fields,
	.n_in_sequence = 4,
};

static PyObject *sample_new(const struct weka_sample *from)
{
	PyObject *sample = PyStructSequence_New(py_types.sample);
	PyObject *fields[] = {
		py_name(from->path, (Py_ssize_t)strlen(from->path), false),
		PyLong_FromUnsignedLongLong(from->offset_bytes),
		PyLong_FromUnsignedLongLong(from->size_bytes),
		PyLong_FromLong((int32_t)from->label), /* WEKA_NO_LABEL: -1 */
		py_name(from->member, (Py_ssize_t)strlen(from->member), false),
	};
	bool whole = sample != NULL;
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(fields); i++) {
		whole &= fields[i] != NULL;
		if (sample)
			PyStructSequence_SetItem(sample, i, fields[i]);
		else
			Py_XDECREF(fields[i]);
	}
	if (!whole)
		Py_CLEAR(sample);
	return sample;
}

static int sample_get(struct py_dataset *d, uint64_t index, struct weka_sample *out)
{
	struct py_session *s = py_begin(d->client);
	struct py_opened *o = s ? py_opened_get(d, s) : NULL;
	int failed = o ? py_opened_sample(o, s, index, out) : -1;

	if (o)
		py_opened_put(o);
	if (s)
		py_end(s);
	return failed;
}

static PyObject *dataset_sample(PyObject *self, PyObject *number)
{
	struct py_dataset *d = (struct py_dataset *)self;
	struct weka_sample sample;
	uint64_t index;

	if (is_open(d) < 0 || py_u64(number, "the number of a sample", UINT64_MAX, &index) < 0)
		return NULL;
	if (index >= d->info.samples) {
		PyErr_SetString(PyExc_IndexError, "the dataset has no sample of that number");
		return NULL;
	}
	return sample_get(d, index, &sample) < 0 ? NULL : sample_new(&sample);
}

/* ---- the check ----------------------------------------------------------------------------- */

static int verify(struct py_session *s, struct py_opened *o, struct py_progress *progress,
		  uint64_t *changed, uint64_t *first)
{
	const struct weka_progress report = { py_progress_note, progress };
	int err;

	if (py_block(s, progress) < 0)
		return -1;
	PY_ENTER_LIBRARY;
	err = weka_dataset_verify(o->weka, &report, changed, first);
	PY_LEAVE_LIBRARY;
	return py_unblock(s, err, NULL) < 0 ? -1 : py_progress_tell(progress);
}

static PyObject *dataset_verify(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "progress", NULL };
	struct py_dataset *d = (struct py_dataset *)self;
	struct py_progress progress = { 0 };
	uint64_t changed = 0, first = 0;
	struct py_session *s;
	struct py_opened *o;
	PyObject *call = Py_None;
	int failed;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:verify", names, &call) || is_open(d) < 0)
		return NULL;
	if (call != Py_None && !PyCallable_Check(call)) {
		PyErr_SetString(PyExc_TypeError, "progress must be a function, or None");
		return NULL;
	}
	progress.call = call == Py_None ? NULL : call;
	s = py_begin(d->client);
	o = s ? py_opened_get(d, s) : NULL;
	failed = o ? verify(s, o, &progress, &changed, &first) : -1;
	if (o)
		py_opened_put(o);
	if (s)
		py_end(s);
	if (failed)
		return NULL;
	return changed ? Py_BuildValue("(KK)", (unsigned long long)changed,
				       (unsigned long long)first)
		       : Py_BuildValue("(iO)", 0, Py_None);
}

/* ---- the end ------------------------------------------------------------------------------- */

static PyObject *dataset_close(PyObject *self, PyObject *none)
{
	(void)none;
	py_dataset_end((struct py_dataset *)self);
	Py_RETURN_NONE;
}

static PyObject *dataset_enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_INCREF(self);
	return self;
}

static PyObject *dataset_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return dataset_close(self, NULL);
}

/* (client.dataset, (name, version)): it is opened where it arrives. */
static PyObject *dataset_pickle(PyObject *self, PyObject *none)
{
	struct py_dataset *d = (struct py_dataset *)self;
	PyObject *open = PyObject_GetAttrString((PyObject *)d->client, "dataset");

	(void)none;
	return open ? Py_BuildValue("(N(sI))", open, d->name, d->info.version) : NULL;
}

/* ---- attributes ---------------------------------------------------------------------------- */

static PyObject *get_client(PyObject *self, void *none)
{
	PyObject *client = (PyObject *)((struct py_dataset *)self)->client;

	(void)none;
	Py_INCREF(client);
	return client;
}

static PyObject *get_name(PyObject *self, void *none)
{
	(void)none;
	return PyUnicode_FromString(((struct py_dataset *)self)->name);
}

static PyObject *get_version(PyObject *self, void *none)
{
	(void)none;
	return PyLong_FromUnsignedLong(((struct py_dataset *)self)->info.version);
}

static PyObject *get_content(PyObject *self, void *none)
{
	const uint8_t *content = ((struct py_dataset *)self)->info.content;
	char text[65];
	uint32_t i;

	(void)none;
	for (i = 0; i < 32; i++) {
		text[2 * i] = "0123456789abcdef"[content[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[content[i] & 15];
	}
	return PyUnicode_FromStringAndSize(text, 64);
}

static PyObject *get_classes(PyObject *self, void *none)
{
	PyObject *classes = ((struct py_dataset *)self)->classes;

	(void)none;
	Py_INCREF(classes);
	return classes;
}

static PyObject *get_bytes(PyObject *self, void *none)
{
	(void)none;
	return PyLong_FromUnsignedLongLong(((struct py_dataset *)self)->info.total_bytes);
}

static PyObject *get_largest(PyObject *self, void *none)
{
	(void)none;
	return PyLong_FromUnsignedLongLong(((struct py_dataset *)self)->info.largest_bytes);
}

static PyObject *get_created_ns(PyObject *self, void *none)
{
	(void)none;
	return PyLong_FromLongLong(((struct py_dataset *)self)->info.created_ns);
}

static PyObject *get_quick(PyObject *self, void *none)
{
	(void)none;
	return PyBool_FromLong(((struct py_dataset *)self)->info.is_quick);
}

static PyObject *get_closed(PyObject *self, void *none)
{
	(void)none;
	return PyBool_FromLong(((struct py_dataset *)self)->closed);
}

static PyMethodDef methods[] = {
	{ "sample", dataset_sample, METH_O,
	  "sample(index, /)\n--\n\nReturn the Sample of that number: path, offset, size, label." },
	{ "read_batch", py_dataset_read_batch, METH_O,
	  "read_batch(indices, /)\n--\n\n"
	  "Read samples by their numbers, with few requests, and return their SampleBatch.  An\n"
	  "epoch in an order of its own; Dataset.stream() reads ahead." },
	{ "stream", (PyCFunction)(void (*)(void))py_dataset_stream, METH_VARARGS | METH_KEYWORDS,
	  "stream(*, batch, seed=0, epoch=0, rank=0, world=1, ahead=4, shuffle=True, "
	  "drop_last=False, cursor=None, pool=None, weights=None, length=None)\n--\n\n"
	  "Begin an epoch, and return its Stream: an iterator of SampleBatches.\n\n"
	  "Every sample comes once over all ranks, in an order that only seed and epoch decide,\n"
	  "for any world.  Step s is the next world * batch samples, and rank r gets the r-th\n"
	  "batch of them.  ahead batches are read ahead.  shuffle=False: in the order of the\n"
	  "dataset.  drop_last: without a last step that is not full.  cursor: of\n"
	  "Stream.cursor(), to go on there, with any number of ranks.  ValueError for a cursor of\n"
	  "another dataset, seed or epoch.  pool: a Pool, where the batches are to be.\n\n"
	  "weights: draw samples by weight: an int for each class, or for each sample; or\n"
	  "\"balanced\": all classes alike.  length: positions of the epoch then, by default as\n"
	  "many as there are samples.  In each round of sum(weights) positions a class comes as\n"
	  "often as its weight says, and each of its samples once before any comes twice." },
	{ "verify", (PyCFunction)(void (*)(void))dataset_verify, METH_VARARGS | METH_KEYWORDS,
	  "verify(progress=None)\n--\n\n"
	  "Read all samples again, and return (changed, first): how many are not what they were\n"
	  "when the dataset was made, and the number of the first of them, or None." },
	{ "close", dataset_close, METH_NOARGS,
	  "close()\n--\n\nForget what was read of its list.  Its streams go on." },
	{ "__enter__", dataset_enter, METH_NOARGS, NULL },
	{ "__exit__", dataset_exit, METH_VARARGS, "Close." },
	{ "__reduce__", dataset_pickle, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
	{ "client", get_client, NULL, "The Client that opened it.", NULL },
	{ "name", get_name, NULL, "Its name.", NULL },
	{ "version", get_version, NULL, "Its version, from 1 on.", NULL },
	{ "content", get_content, NULL,
	  "SHA-256 of its samples, in hex: what a model was trained on.", NULL },
	{ "classes", get_classes, NULL, "The classes' names: label i is classes[i].", NULL },
	{ "bytes", get_bytes, NULL, "Bytes of all samples.", NULL },
	{ "largest", get_largest, NULL, "Bytes of the largest sample.", NULL },
	{ "created_ns", get_created_ns, NULL, "When it was made: ns since 1970.", NULL },
	{ "quick", get_quick, NULL, "Whether `content` covers times instead of bytes.", NULL },
	{ "closed", get_closed, NULL, "Whether close() was called.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, py_dataset_dealloc },
	{ Py_sq_length, dataset_length },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_tp_doc,
	  "One version of a dataset: an immutable list of samples.  len() counts them.\n\n"
	  "Made by Client.create_dataset(), opened by Client.dataset().  Any thread may use it,\n"
	  "and a child of a fork; each opens it over its own connection.  It can be pickled." },
	{ 0, NULL },
};
PyType_Spec py_dataset_spec = {
	.name = "weka.Dataset",
	.basicsize = sizeof(struct py_dataset),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
