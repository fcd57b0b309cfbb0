/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The arguments weights= and length= of Dataset.stream().
 *
 * Weights are a sequence of int, or a buffer of unsigned int (array("I"), numpy.uint32), with one
 * for each class or for each sample, or "balanced".
 *
 * Invariants:
 *
 *  (1) `own` is a copy of the caller's, so that Python code, which runs while a stream is opened,
 *      cannot free it; py_weights_clear() does.
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>
#include <string.h>

void py_weights_clear(struct py_weights *w)
{
	free(w->own); /* (1) */
	w->own = NULL;
}

static int is_balanced(PyObject *object)
{
	if (!PyUnicode_Check(object))
		return 0;
	if (PyUnicode_CompareWithASCIIString(object, "balanced") == 0)
		return 1;
	PyErr_SetString(PyExc_ValueError, "weights must be ints, or \"balanced\"");
	return -1;
}

static int own_make(struct py_weights *w, Py_ssize_t count)
{
	ASSERT(!w->own && count >= 0);
	w->own = malloc((size_t)count * sizeof(*w->own) + 1);
	if (!w->own)
		PyErr_NoMemory();
	w->weka.weight = w->own;
	w->weka.count = (uint64_t)count;
	return w->own ? 0 : -1;
}

/* Returns 1 if the object is a buffer of unsigned ints, which are copied; 0: it is something else.
 */
static int from_buffer(PyObject *object, struct py_weights *w)
{
	Py_buffer view;
	int rc = 0;

	if (!PyObject_CheckBuffer(object))
		return 0;
	if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
		PyErr_Clear();
		return 0;
	}
	if (view.ndim == 1 && view.itemsize == sizeof(*w->own) && view.format &&
	    strcmp(view.format, "I") == 0) {
		rc = own_make(w, view.len / view.itemsize) < 0 ? -1 : 1;
		if (rc == 1)
			memcpy(w->own, view.buf, (size_t)view.len);
	}
	PyBuffer_Release(&view);
	return rc;
}

static int from_sequence(PyObject *object, struct py_weights *w)
{
	PyObject *all = py_sequence(object, "weights");
	int rc = all ? own_make(w, PyTuple_Size(all)) : -1;
	uint64_t value;

	for (uint64_t i = 0; rc == 0 && i < w->weka.count; i++) {
		rc = py_u64(PyTuple_GetItem(all, (Py_ssize_t)i), "a weight", UINT64_MAX, &value);
		if (rc == 0 && value > UINT32_MAX) {
			PyErr_SetString(PyExc_ValueError, "a weight must be in [0, 2**32)");
			rc = -1;
		}
		if (rc == 0)
			w->own[i] = (uint32_t)value;
	}
	Py_XDECREF(all);
	return rc;
}

/* By class or by sample: the number of weights decides. */
static int by_count(const struct py_dataset *d, struct py_weights *w)
{
	if (w->weka.count == d->info.classes && d->info.classes > 0) {
		w->weka.by = WEKA_BY_CLASS;
		return 0;
	}
	w->weka.by = WEKA_BY_SAMPLE;
	if (w->weka.count == d->info.samples)
		return 0;
	PyErr_Format(PyExc_ValueError,
		     "%llu weights, but the dataset has %u classes and %llu samples",
		     (unsigned long long)w->weka.count, d->info.classes,
		     (unsigned long long)d->info.samples);
	return -1;
}

int py_weights_from(struct py_weights *w, const struct py_dataset *d, PyObject *weights,
		    PyObject *length)
{
	int rc;

	*w = (struct py_weights){ .weka = { .by = WEKA_BY_CLASS } };
	if (weights == Py_None) {
		if (length == Py_None)
			return 0;
		PyErr_SetString(PyExc_ValueError, "length needs weights: without them each sample "
						  "comes once");
		return -1;
	}
	w->is_given = true;
	if (py_u64(length, "length", 0, &w->weka.length) < 0)
		return -1;
	if (length != Py_None && w->weka.length == 0) {
		PyErr_SetString(PyExc_ValueError, "length must be 1 or more");
		return -1;
	}
	rc = is_balanced(weights);
	if (rc)
		return rc < 0 ? -1 : 0;
	rc = from_buffer(weights, w);
	if (rc == 0)
		rc = from_sequence(weights, w);
	if (rc < 0)
		return -1;
	ASSERT(w->weka.weight == w->own && w->own); /* (1) */
	return by_count(d, w);
}
