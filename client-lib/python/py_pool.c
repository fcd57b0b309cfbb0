/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pool: memory of the application's, from which batches of one session are leased.
 *
 *    buffer <---- Py_buffer, of the session ----> struct weka_pool <---- Pool <---- Stream
 *
 * Invariants:
 *
 *  (1) The buffer is held until the session's weka_client is closed: the appliance may write to it
 *      until then [test_pool:test_the_memory_is_kept].
 *  (2) A Pool is used by streams of its own session only
 *      [test_pool:test_a_pool_of_another_session].
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>
#include <string.h>

void py_lent_end(struct py_session *s)
{
	struct py_added *added;

	ASSERT(!s->weka); /* (1) */
	while ((added = s->added) != NULL) {
		s->added = added->next;
		PyBuffer_Release(&added->view);
		free(added);
	}
}

int py_pool_from(PyObject *object, const struct py_session *s, struct weka_pool **out)
{
	struct py_pool *pool = (struct py_pool *)object;

	*out = NULL;
	if (object == Py_None)
		return 0;
	if (Py_TYPE(object) != py_types.pool) {
		PyErr_SetString(PyExc_TypeError, "pool must be a weka.Pool or None");
		return -1;
	}
	if (pool->session != s) { /* (2) */
		PyErr_SetString(PyExc_ValueError,
				"the pool is of another client, thread or process");
		return -1;
	}
	*out = pool->weka;
	return 0;
}

static struct py_pool *pool_new(struct py_session *s, struct weka_pool *weka, uint64_t bytes)
{
	struct py_pool *pool = PyObject_New(struct py_pool, py_types.pool);

	if (!pool)
		return NULL;
	pool->session = s;
	Py_INCREF((PyObject *)s);
	pool->weka = weka;
	pool->bytes = bytes;
	return pool;
}

static int add(struct py_session *s, struct py_added *added, int fd, struct weka_pool **out)
{
	const struct weka_memory memory = {
		.kind = fd < 0 ? WEKA_MEMORY_HOST : WEKA_MEMORY_FD,
		.fd = fd,
		.data = added->view.buf,
		.size_bytes = (uint64_t)added->view.len,
	};
	int err;

	if (py_block(s, NULL) < 0)
		return -1;
	PY_ENTER_LIBRARY;
	err = weka_pool_add(s->weka, &memory, out);
	PY_LEAVE_LIBRARY;
	if (!err) { /* whatever follows, the appliance has it */
		added->next = s->added;
		s->added = added;
	}
	return py_unblock(s, err, NULL);
}

/* Returns the buffer, held; NULL with an exception. */
static struct py_added *added_new(PyObject *buffer)
{
	struct py_added *added = calloc(1, sizeof(*added));

	if (!added)
		return (struct py_added *)PyErr_NoMemory();
	if (PyObject_GetBuffer(buffer, &added->view, PyBUF_WRITABLE) == 0)
		return added;
	free(added);
	return NULL;
}

PyObject *py_client_pool_add(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "buffer", "fd", NULL };
	struct weka_pool *weka = NULL;
	struct py_pool *pool = NULL;
	struct py_session *s;
	struct py_added *added;
	PyObject *buffer;
	uint64_t bytes;
	int fd = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$i:pool_add", names, &buffer, &fd))
		return NULL;
	added = added_new(buffer);
	s = added ? py_begin((struct py_client *)self) : NULL;
	bytes = added ? (uint64_t)added->view.len : 0;
	if (s && add(s, added, fd, &weka) == 0)
		pool = pool_new(s, weka, bytes);
	if (added && !weka) {
		PyBuffer_Release(&added->view);
		free(added);
	}
	if (s)
		py_end(s);
	return (PyObject *)pool;
}

static void pool_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	Py_DECREF((PyObject *)((struct py_pool *)self)->session);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *get_bytes(PyObject *self, void *none)
{
	(void)none;
	return PyLong_FromUnsignedLongLong(((struct py_pool *)self)->bytes);
}

static PyMethodDef methods[] = {
	{ "__reduce__", py_not_pickled, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
	{ "bytes", get_bytes, NULL, "Its size.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, pool_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_tp_doc,
	  "Memory of the application's, where batches of one thread's streams are read into.\n\n"
	  "Client.pool_add() makes one." },
	{ 0, NULL },
};
PyType_Spec py_pool_spec = {
	.name = "weka.Pool",
	.basicsize = sizeof(struct py_pool),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
