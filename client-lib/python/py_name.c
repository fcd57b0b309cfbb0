/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names: stat(), remove(), rmtree(), rename(), mkdir(); and Stat, which says what a name is of.
 *
 * Invariants:
 *
 *  (1) A request's references point into py_paths that outlive it: py_run() returns when it is
 *      done.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <string.h>

/* ---- Stat ----------------------------------------------------------------------------------- */

static PyStructSequence_Field fields[] = {
	{ "st_mode", "type and permission bits, for the module stat" },
	{ "st_ino", "a number for people; a file keeps it" },
	{ "st_nlink", "names; of a directory: 2, and one for each directory in it" },
	{ "st_uid", "owner" },
	{ "st_gid", "group" },
	{ "st_size", "bytes" },
	{ "st_allocated", "bytes that it takes on the drives" },
	{ "st_atime_ns", "last read, nanoseconds since 1970" },
	{ "st_mtime_ns", "last change of the content" },
	{ "st_ctime_ns", "last change of anything" },
	{ "handle", "16 bytes that name the file for as long as it lives" },
	{ NULL, NULL },
};
PyStructSequence_Desc py_stat_desc = {
	.name = "weka.Stat",
	.doc = "What Client.stat() says.  Sizes are bytes, times nanoseconds.",
	.fields = fields,
	.n_in_sequence = ARRAY_LEN(fields) - 1,
};

PyObject *py_stat_new(const struct weka_attr *attr)
{
	PyObject *values[] = {
		PyLong_FromUnsignedLong(attr->mode),
		PyLong_FromUnsignedLongLong(attr->ino),
		PyLong_FromUnsignedLong(attr->nlink),
		PyLong_FromUnsignedLong(attr->uid),
		PyLong_FromUnsignedLong(attr->gid),
		PyLong_FromUnsignedLongLong(attr->size_bytes),
		PyLong_FromUnsignedLongLong(attr->allocated_bytes),
		PyLong_FromLongLong(attr->atime_ns),
		PyLong_FromLongLong(attr->mtime_ns),
		PyLong_FromLongLong(attr->ctime_ns),
		PyBytes_FromStringAndSize((const char *)attr->handle.bytes,
					  sizeof(attr->handle.bytes)),
	};
	PyObject *stat = PyStructSequence_New(py_types.stat);
	bool is_whole = stat != NULL;
	uint32_t i;

	static_assert(ARRAY_LEN(values) == ARRAY_LEN(fields) - 1, "each has its value");
	for (i = 0; i < ARRAY_LEN(values); i++) {
		is_whole &= values[i] != NULL;
		if (stat)
			PyStructSequence_SetItem(stat, (Py_ssize_t)i, values[i]);
		else
			Py_XDECREF(values[i]);
	}
	if (!is_whole)
		Py_CLEAR(stat);
	return stat;
}

/* ---- one name ------------------------------------------------------------------------------- */

PyObject *py_client_stat(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "path", "follow_symlinks", NULL };
	struct weka_stat_item item = { 0 };
	PyObject *stat = NULL;
	struct py_op op = { 0 };
	struct py_session *s;
	struct py_path path;
	int follow = 1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$p:stat", names, py_path_from, &path,
					 &follow))
		return NULL;
	item.ref = py_path_ref(&path);
	item.ref.flags = follow ? 0 : WEKA_NOFOLLOW;
	s = py_begin((struct py_client *)self);
	if (s) {
		if (py_run(s, &op, PY_SUBMIT(s, weka_submit_stat(s->weka, &op.req, &item, 1, NULL)),
			   path.given) < 0)
			stat = NULL;
		else if (item.status)
			py_raise(item.status, NULL, path.given);
		else
			stat = py_stat_new(&item.attr);
		py_end(s);
	}
	py_path_clear(&path);
	return stat;
}

static int unlink_or_rmdir(struct py_session *s, const struct py_path *path)
{
	const struct weka_ref ref = py_path_ref(path);
	struct py_op file = { 0 }, dir = { 0 };

	if (py_sent(s, &file, PY_SUBMIT(s, weka_submit_unlink(s->weka, &file.req, &ref)),
		    path->given) < 0)
		return -1;
	if (file.req.status == -EISDIR || file.req.status == -EPERM)
		return py_run(s, &dir, PY_SUBMIT(s, weka_submit_rmdir(s->weka, &dir.req, &ref)),
			      path->given);
	if (file.req.status)
		py_raise(file.req.status, NULL, path->given);
	return file.req.status ? -1 : 0;
}

static int rmtree(struct py_session *s, const struct py_path *path)
{
	const struct weka_ref ref = py_path_ref(path);
	struct py_op op = { 0 };

	return py_run(s, &op, PY_SUBMIT(s, weka_submit_rmtree(s->weka, &op.req, &ref)),
		      path->given);
}

/* A call with one path, which answers None. */
static PyObject *with_path(PyObject *self, PyObject *args, PyObject *kwargs, const char *format,
			   int (*call)(struct py_session *s, const struct py_path *path))
{
	static char *names[] = { "path", NULL };
	struct py_session *s;
	struct py_path path;
	int failed = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, py_path_from, &path))
		return NULL;
	s = py_begin((struct py_client *)self);
	if (s) {
		failed = call(s, &path);
		py_end(s);
	}
	py_path_clear(&path);
	if (failed)
		return NULL;
	Py_RETURN_NONE;
}

PyObject *py_client_remove(PyObject *self, PyObject *args, PyObject *kwargs)
{
	return with_path(self, args, kwargs, "O&:remove", unlink_or_rmdir);
}

PyObject *py_client_rmtree(PyObject *self, PyObject *args, PyObject *kwargs)
{
	return with_path(self, args, kwargs, "O&:rmtree", rmtree);
}

PyObject *py_client_mkdir(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "path", "mode", NULL };
	struct py_op op = { 0 };
	struct weka_create create;
	struct py_session *s;
	struct py_path path;
	struct weka_ref ref;
	int mode = 0755, failed = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|i:mkdir", names, py_path_from, &path,
					 &mode))
		return NULL;
	ref = py_path_ref(&path);
	create = py_create((uint32_t)mode & 07777, false);
	s = py_begin((struct py_client *)self);
	if (s) {
		failed = py_run(
			s, &op,
			PY_SUBMIT(s, weka_submit_mkdir(s->weka, &op.req, &ref, &create, NULL)),
			path.given);
		py_end(s);
	}
	py_path_clear(&path);
	if (failed)
		return NULL;
	Py_RETURN_NONE;
}

static int rename_to(struct py_session *s, const struct py_path *from, const struct py_path *to,
		     bool replace)
{
	const struct weka_ref old = py_path_ref(from), new = py_path_ref(to);
	struct py_op op = { 0 };

	return py_run(s, &op,
		      PY_SUBMIT(s, weka_submit_rename(s->weka, &op.req, &old, &new,
						      replace ? 0 : WEKA_NOREPLACE)),
		      from->given);
}

PyObject *py_client_rename(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "src", "dst", "replace", NULL };
	struct py_path from, to;
	struct py_session *s;
	int replace = 1, failed = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$p:rename", names, py_path_from, &from,
					 py_path_from, &to, &replace))
		return NULL;
	s = py_begin((struct py_client *)self);
	if (s) {
		failed = rename_to(s, &from, &to, replace);
		py_end(s);
	}
	py_path_clear(&from);
	py_path_clear(&to);
	if (failed)
		return NULL;
	Py_RETURN_NONE;
}
