/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Stream, as Python sees it: an iterator of SampleBatches; its arguments, cursor and figures. */
#include "client-lib/python/py_weka.h"

#include <string.h>

/* ---- arguments ----------------------------------------------------------------------------- */

/* A seed or an epoch: any number of 64 bits. */
static int any_u64(PyObject *object, const char *what, uint64_t *out)
{
	PyObject *number = object ? PyNumber_Index(object) : NULL;

	if (!object)
		return 0;
	if (!number)
		return -1;
	*out = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	if (!PyErr_Occurred())
		return 0;
	if (PyErr_ExceptionMatches(PyExc_OverflowError))
		PyErr_Format(PyExc_ValueError, "%s must be in [0, 2**64)", what);
	return -1;
}

static int range(PyObject *object, const char *what, uint32_t least, uint32_t most, uint32_t *out)
{
	uint64_t value;

	if (!object)
		return 0;
	if (object == Py_None) {
		PyErr_Format(PyExc_TypeError, "%s must be an int", what);
		return -1;
	}
	if (py_u64(object, what, 0, &value) < 0)
		return -1;
	if (value < least || value > most) {
		PyErr_Format(PyExc_ValueError, "%s must be %u to %u", what, least, most);
		return -1;
	}
	*out = (uint32_t)value;
	return 0;
}

static int cursor_from(PyObject *object, struct weka_cursor *out)
{
	Py_buffer view;

	if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0)
		return -1;
	if (view.len == (Py_ssize_t)sizeof(*out))
		memcpy(out, view.buf, sizeof(*out));
	else
		PyErr_Format(PyExc_ValueError, "a cursor has %zu bytes, not %zd", sizeof(*out),
			     view.len);
	PyBuffer_Release(&view);
	return PyErr_Occurred() ? -1 : 0;
}

struct arguments {
	PyObject *batch, *seed, *epoch, *rank, *world, *ahead, *cursor, *pool, *weights, *length;
	int shuffle, drop_last;
};

static int epoch_from(const struct arguments *a, struct weka_epoch *e)
{
	e->world = 1;
	if (!a->batch) {
		PyErr_SetString(PyExc_TypeError, "stream() needs batch=: samples of one batch");
		return -1;
	}
	if (range(a->batch, "batch", 1, WEKA_STREAM_BATCH_MAX, &e->batch) < 0 ||
	    any_u64(a->seed, "seed", &e->seed) < 0 || any_u64(a->epoch, "epoch", &e->epoch) < 0 ||
	    range(a->world, "world", 1, WEKA_WORLD_MAX, &e->world) < 0 ||
	    range(a->rank, "rank", 0, e->world - 1, &e->rank) < 0 ||
	    range(a->ahead, "ahead", 1, 256, &e->ahead) < 0)
		return -1;
	e->flags = (a->shuffle ? 0 : WEKA_IN_ORDER) | (a->drop_last ? WEKA_DROP_LAST : 0);
	return 0;
}

static PyObject *stream_open(struct py_dataset *d, const struct arguments *a,
			     struct weka_epoch *epoch)
{
	struct weka_cursor cursor;
	struct py_weights weights = { 0 };
	PyObject *stream = NULL;

	if (a->cursor != Py_None && cursor_from(a->cursor, &cursor) < 0)
		return NULL;
	if (py_weights_from(&weights, d, a->weights, a->length) == 0) {
		epoch->weights = weights.is_given ? &weights.weka : NULL;
		stream = py_stream_open(d, epoch, a->cursor == Py_None ? NULL : &cursor, a->pool);
	}
	py_weights_clear(&weights);
	return stream;
}

PyObject *py_dataset_stream(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "batch",   "seed",    "epoch",     "rank",   "world",
				 "ahead",   "shuffle", "drop_last", "cursor", "pool",
				 "weights", "length",  NULL };
	struct py_dataset *d = (struct py_dataset *)self;
	struct arguments a = { .cursor = Py_None,
			       .pool = Py_None,
			       .weights = Py_None,
			       .length = Py_None,
			       .shuffle = 1 };
	struct weka_epoch epoch = { 0 };

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOOOppOOOO:stream", names, &a.batch,
					 &a.seed, &a.epoch, &a.rank, &a.world, &a.ahead, &a.shuffle,
					 &a.drop_last, &a.cursor, &a.pool, &a.weights, &a.length) ||
	    epoch_from(&a, &epoch) < 0)
		return NULL;
	if (d->closed) {
		PyErr_SetString(PyExc_ValueError, "the dataset is closed");
		return NULL;
	}
	return stream_open(d, &a, &epoch);
}

PyObject *py_order(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "count", "seed", "epoch", "position", NULL };
	uint64_t count = 0, seed = 0, epoch = 0, position = 0, sample;
	PyObject *number[4];

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO:order", names, &number[0], &number[1],
					 &number[2], &number[3]) ||
	    any_u64(number[0], "count", &count) < 0 || any_u64(number[1], "seed", &seed) < 0 ||
	    any_u64(number[2], "epoch", &epoch) < 0 ||
	    any_u64(number[3], "position", &position) < 0)
		return NULL;
	sample = weka_order(count, seed, epoch, position);
	if (sample != UINT64_MAX)
		return PyLong_FromUnsignedLongLong(sample);
	PyErr_SetString(PyExc_ValueError, "position must be below count, and count at most 2**48");
	return NULL;
}

/* ---- cursor and figures -------------------------------------------------------------------- */

static PyObject *stream_cursor(PyObject *self, PyObject *none)
{
	struct py_stream *st = (struct py_stream *)self;

	(void)none;
	return PyBytes_FromStringAndSize((const char *)st->cursor.bytes, sizeof(st->cursor.bytes));
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double share(uint64_t part_ns, uint64_t all_ns)
{
	return all_ns ? (double)part_ns / (double)all_ns : 0;
}

static PyObject *stats_new(const struct weka_stream_stats *s, const char *verdict)
{
	return Py_BuildValue(
		"{s:K,s:K,s:K,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:s}", "batches",
		(unsigned long long)s->batches, "samples", (unsigned long long)s->samples, "bytes",
		(unsigned long long)s->bytes, "seconds", seconds(s->open_ns), "waited_seconds",
		seconds(s->waited_ns), "short_seconds", seconds(s->waited_short_ns),
		"queue_seconds", seconds(s->waited_queue_ns), "network_seconds",
		seconds(s->waited_network_ns), "appliance_seconds", seconds(s->waited_appliance_ns),
		"drive_seconds", seconds(s->waited_drive_ns), "manifest_seconds",
		seconds(s->manifest_ns), "waited_share", share(s->waited_ns, s->open_ns),
		"short_share", share(s->waited_short_ns, s->open_ns), "verdict", verdict);
}

static PyObject *stream_stats(PyObject *self, PyObject *none)
{
	struct py_stream *st = (struct py_stream *)self;
	struct weka_stream_stats now = { .size_bytes = sizeof(now) };
	char verdict[WEKA_VERDICT_BYTES] = "";

	(void)none;
	if (st->feed && py_is_stale(st->session)) {
		py_raise(-ESTALE, "the stream is of the process that forked this one", NULL);
		return NULL;
	}
	if (!st->feed)
		return stats_new(&st->stats, st->verdict);
	py_lock(st->session);
	if (st->feed) { /* py_lock() lets other threads run, which may close it */
		(void)weka_stream_get_stats(st->feed->weka, &now);
		(void)weka_stream_verdict(st->feed->weka, verdict);
	}
	py_unlock(st->session);
	return st->feed ? stats_new(&now, verdict) : stats_new(&st->stats, st->verdict);
}

/* ---- its life ------------------------------------------------------------------------------ */

static void stream_dealloc(PyObject *self)
{
	struct py_stream *st = (struct py_stream *)self;
	PyTypeObject *type = Py_TYPE(self);
	PyObject *kind, *value, *trace;

	PyErr_Fetch(&kind, &value, &trace);
	py_stream_let_go(st);
	Py_DECREF((PyObject *)st->session);
	PyErr_Restore(kind, value, trace);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *stream_close(PyObject *self, PyObject *none)
{
	(void)none;
	py_stream_let_go((struct py_stream *)self);
	Py_RETURN_NONE;
}

static PyObject *stream_iter(PyObject *self)
{
	Py_INCREF(self);
	return self;
}

static PyObject *stream_enter(PyObject *self, PyObject *none)
{
	(void)none;
	return stream_iter(self);
}

static PyObject *stream_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return stream_close(self, NULL);
}

static PyObject *get_closed(PyObject *self, void *none)
{
	(void)none;
	return PyBool_FromLong(((struct py_stream *)self)->closed);
}

static PyMethodDef methods[] = {
	{ "cursor", stream_cursor, METH_NOARGS,
	  "cursor()\n--\n\n"
	  "Return 64 bytes: the place after the last batch that was taken.\n\n"
	  "Saved with the model, they continue the epoch: Dataset.stream(cursor=...), with the\n"
	  "same seed and epoch, and any number of ranks.  All ranks have the same one after the\n"
	  "same step." },
	{ "stats", stream_stats, METH_NOARGS,
	  "stats()\n--\n\n"
	  "Return a dict: batches, samples, bytes, seconds (since it was opened), waited_seconds\n"
	  "(the consumer, for batches), short_seconds (of these, with fewer than `ahead` batches\n"
	  "under way because the pool was full), queue_, network_, appliance_ and drive_seconds\n"
	  "(the rest of these, as the requests spent their time), manifest_seconds (for parts of\n"
	  "the list); waited_share and short_share of all the time; and verdict, a line that says\n"
	  "why it waited." },
	{ "close", stream_close, METH_NOARGS,
	  "close()\n--\n\n"
	  "End it.  Batches that are alive stay usable; what was read ahead goes back with the\n"
	  "last of them.  cursor() and stats() still answer." },
	{ "__enter__", stream_enter, METH_NOARGS, NULL },
	{ "__exit__", stream_exit, METH_VARARGS, "Close." },
	{ "__reduce__", py_not_pickled, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
	{ "closed", get_closed, NULL, "Whether close() was called.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, stream_dealloc },
	{ Py_tp_iter, stream_iter },
	{ Py_tp_iternext, py_stream_next },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_tp_doc,
	  "One rank's way through an epoch: an iterator of SampleBatches, which are read ahead.\n\n"
	  "Waiting for a batch lets other threads run and ends with KeyboardInterrupt; no sample\n"
	  "is lost then, or after any other error: the next call gives the same batch.\n"
	  "BlockingIOError when the batches that are alive have too much of the pool.\n"
	  "In a child of a fork it raises OSError (ESTALE); its Dataset works there." },
	{ 0, NULL },
};
PyType_Spec py_stream_spec = {
	.name = "weka.Stream",
	.basicsize = sizeof(struct py_stream),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
