/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Errors of the library as exceptions of Python.
 *
 * OSError itself chooses the subclass by errno: ENOENT is a FileNotFoundError, ETIMEDOUT a
 * TimeoutError, EAGAIN a BlockingIOError.
 *
 * Invariants:
 *
 *  (1) An errno is raised where no exception is set, so that none is lost.
 *  (2) The errno is negative, as everywhere in the library; Python's is positive.
 *  (3) A line may hold a name that is no text, or be cut in the middle of a character
 *      [test_files:test_a_name_that_is_no_text_in_a_line_of_the_library].
 */
#include "client-lib/python/py_weka.h"

#include <string.h>

PyObject *py_error_new(int err, const char *line, PyObject *path)
{
	char words[PY_LINE_BYTES];
	PyObject *text;

	ASSERT(err < 0); /* (2) */
	if (!line || !line[0])
		line = strerror_r(-err, words, sizeof(words));
	text = PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace"); /* (3) */
	if (!text)
		return NULL;
	return path ? PyObject_CallFunction(PyExc_OSError, "iNO", -err, text, path)
		    : PyObject_CallFunction(PyExc_OSError, "iN", -err, text);
}

void py_raise(int err, const char *line, PyObject *path)
{
	PyObject *error;

	ASSERT(!PyErr_Occurred()); /* (1) */
	error = py_error_new(err, line, path);
	if (!error)
		return;
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_DECREF(error);
}

int py_results_add(PyObject *list, PyObject *value, int err, PyObject *path)
{
	int failed;

	if (err) {
		Py_XDECREF(value);
		value = py_error_new(err, NULL, path);
	}
	if (!value)
		return -1;
	failed = PyList_Append(list, value);
	Py_DECREF(value);
	return failed;
}
