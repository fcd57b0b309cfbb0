/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Arguments: paths, numbers, seconds, sequences.
 *
 * A path is a str, bytes or os.PathLike.  The appliance's names are bytes: a str is encoded as
 * os.fsencode() does, so that names that are no text come back as they went.  A str of ASCII alone
 * is the same in every encoding that Python takes for file names, and is used where it lies.
 *
 * Invariants:
 *
 *  (1) `text` lives as long as `owner`, which the path holds until py_path_clear().
 *  (2) A path has no NUL byte, and 1 to WEKA_PATH_MAX bytes.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The UTF-8 of a str that is ASCII, or NULL, without an exception. */
static const char *ascii(PyObject *str, Py_ssize_t *bytes)
{
	const char *text = PyUnicode_AsUTF8AndSize(str, bytes);

	if (!text) {
		PyErr_Clear();
		return NULL;
	}
	return *bytes == PyUnicode_GetLength(str) ? text : NULL;
}

/* Finds the text of `owner`, which it replaces by bytes if it must be encoded. */
static const char *text_of(PyObject **owner, Py_ssize_t *bytes)
{
	const char *text = PyUnicode_Check(*owner) ? ascii(*owner, bytes) : NULL;
	PyObject *encoded;
	char *raw;

	if (text)
		return text;
	if (PyUnicode_Check(*owner)) {
		encoded = PyUnicode_EncodeFSDefault(*owner);
		if (!encoded)
			return NULL;
		Py_DECREF(*owner);
		*owner = encoded;
	}
	return PyBytes_AsStringAndSize(*owner, &raw, bytes) < 0 ? NULL : raw;
}

static int path_init(struct py_path *path, PyObject *object)
{
	Py_ssize_t bytes = 0;

	path->owner = PyOS_FSPath(object);
	if (!path->owner)
		return -1;
	path->is_bytes = PyBytes_Check(path->owner);
	path->text = text_of(&path->owner, &bytes);
	if (!path->text)
		return -1;
	if (memchr(path->text, 0, (size_t)bytes)) {
		PyErr_SetString(PyExc_ValueError, "embedded null byte");
		return -1;
	}
	if (bytes == 0 || bytes > (Py_ssize_t)WEKA_PATH_MAX) {
		py_raise(bytes == 0 ? -ENOENT : -ENAMETOOLONG, NULL,
			 object); /* as the system does */
		return -1;
	}
	path->bytes = (uint32_t)bytes;
	path->given = object;
	Py_INCREF(object);
	return 0;
}

void py_path_clear(struct py_path *path)
{
	Py_CLEAR(path->owner);
	Py_CLEAR(path->given);
}

int py_path_from(PyObject *object, void *out)
{
	struct py_path *path = out;

	if (!object) { /* a later argument was wrong */
		py_path_clear(path);
		return 1;
	}
	memset(path, 0, sizeof(*path));
	if (path_init(path, object) < 0) {
		py_path_clear(path);
		return 0;
	}
	return Py_CLEANUP_SUPPORTED;
}

struct weka_ref py_path_ref(const struct py_path *path)
{
	struct weka_ref ref = weka_ref_path(path->text);

	ASSERT(path->owner);                                     /* (1) */
	ASSERT(path->bytes > 0 && path->bytes <= WEKA_PATH_MAX); /* (2) */
	ref.name_bytes = path->bytes;
	return ref;
}

PyObject *py_name(const char *name, Py_ssize_t bytes, bool as_bytes)
{
	return as_bytes ? PyBytes_FromStringAndSize(name, bytes)
			: PyUnicode_DecodeFSDefaultAndSize(name, bytes);
}

PyObject *py_not_pickled(PyObject *self, PyObject *none)
{
	PyObject *name = PyType_GetName(Py_TYPE(self));

	(void)none;
	if (name)
		PyErr_Format(PyExc_TypeError,
			     "a weka.%U is memory of this process, and is not pickled: the bytes "
			     "of an item are, bytes(item)",
			     name);
	Py_XDECREF(name);
	return NULL;
}

int py_u64(PyObject *object, const char *what, uint64_t otherwise, uint64_t *out)
{
	PyObject *number;
	long long value;
	int overflow;

	*out = otherwise;
	if (object == Py_None)
		return 0;
	number = PyNumber_Index(object);
	if (!number)
		return -1;
	value = PyLong_AsLongLongAndOverflow(number, &overflow);
	Py_DECREF(number);
	if (value == -1 && !overflow && PyErr_Occurred())
		return -1;
	if (overflow > 0) {
		PyErr_Format(PyExc_OverflowError, "%s must be below 2**63", what);
		return -1;
	}
	if (overflow < 0 || value < 0) {
		PyErr_Format(PyExc_ValueError, "%s must not be negative", what);
		return -1;
	}
	*out = (uint64_t)value;
	return 0;
}

int py_seconds(PyObject *object, const char *what, uint64_t *out_ns)
{
	double seconds;

	*out_ns = WEKA_FOREVER;
	if (object == Py_None)
		return 0;
	seconds = PyFloat_AsDouble(object);
	if (seconds == -1 && PyErr_Occurred())
		return -1;
	if (isnan(seconds) || seconds < 0) {
		PyErr_Format(PyExc_ValueError, "%s must be a number of seconds, 0 or more", what);
		return -1;
	}
	if (seconds < 1e9)
		*out_ns = (uint64_t)(seconds * 1e9);
	return 0;
}

PyObject *py_sequence(PyObject *object, const char *what)
{
	if (PyUnicode_Check(object) || PyBytes_Check(object)) {
		PyErr_Format(PyExc_TypeError, "%s must be a sequence, not one %s", what,
			     PyUnicode_Check(object) ? "str" : "bytes");
		return NULL;
	}
	return PySequence_Tuple(object);
}
