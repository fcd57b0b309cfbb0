/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Item: one file of a batch, as a buffer of bytes, without a copy.
 *
 *    view, tensor --> Item --> Batch --> leases
 *
 * The bytes may be written: they are the application's until they go back, and torch.frombuffer()
 * wants them so.
 *
 * Invariants:
 *
 *  (1) Each view is one export of the batch, taken back exactly once.
 */
#include "client-lib/python/py_weka.h"

/* ---- the buffer --------------------------------------------------------------------------- */

int py_item_bytes(struct py_item *self, void **data, uint64_t *bytes)
{
	static char nothing[8];
	const struct weka_read_item *item = py_batch_item(self->batch, (Py_ssize_t)self->index);

	if (!item)
		return -1;
	*bytes = item->got_bytes;
	*data = item->data && item->got_bytes > 0 ? (void *)(uintptr_t)item->data : nothing;
	return 0;
}

static int item_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
	struct py_item *item = (struct py_item *)self;
	uint64_t bytes;
	void *data;

	view->obj = NULL;
	if (py_item_bytes(item, &data, &bytes) < 0)
		return -1;
	if (PyBuffer_FillInfo(view, self, data, (Py_ssize_t)bytes, 0, flags) < 0)
		return -1;
	item->batch->exports++; /* (1) */
	return 0;
}

static void item_releasebuffer(PyObject *self, Py_buffer *view)
{
	struct py_item *item = (struct py_item *)self;

	(void)view;
	ASSERT(item->batch->exports > 0); /* (1) */
	item->batch->exports--;
}

/* ---- the object ---------------------------------------------------------------------------- */

PyObject *py_item_new(struct py_batch *batch, uint32_t index)
{
	struct py_item *item = PyObject_New(struct py_item, py_types.item);

	if (!item)
		return NULL;
	item->batch = batch;
	item->index = index;
	Py_INCREF((PyObject *)batch);
	return (PyObject *)item;
}

static void item_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	Py_DECREF(((struct py_item *)self)->batch);
	PyObject_Free(self);
	Py_DECREF(type);
}

static Py_ssize_t item_length(PyObject *self)
{
	uint64_t bytes;
	void *data;

	return py_item_bytes((struct py_item *)self, &data, &bytes) < 0 ? -1 : (Py_ssize_t)bytes;
}

static PyObject *item_nbytes(PyObject *self, void *none)
{
	Py_ssize_t bytes = item_length(self);

	(void)none;
	return bytes < 0 ? NULL : PyLong_FromSsize_t(bytes);
}

static PyObject *item_tobytes(PyObject *self, PyObject *none)
{
	uint64_t bytes;
	void *data;

	(void)none;
	if (py_item_bytes((struct py_item *)self, &data, &bytes) < 0)
		return NULL;
	return PyBytes_FromStringAndSize(data, (Py_ssize_t)bytes);
}

static PyObject *item_path(PyObject *self, void *none)
{
	struct py_item *item = (struct py_item *)self;

	(void)none;
	if (!py_batch_item(item->batch, (Py_ssize_t)item->index))
		return NULL;
	return py_batch_path(item->batch, item->index);
}

static PyMethodDef methods[] = {
	{ "tobytes", item_tobytes, METH_NOARGS, "tobytes()\n--\n\nReturn a copy of the bytes." },
	{ "__bytes__", item_tobytes, METH_NOARGS, NULL },
	{ "__reduce__", py_not_pickled, METH_NOARGS, NULL },
	{ "__dlpack__", (PyCFunction)(void (*)(void))py_item_dlpack, METH_VARARGS | METH_KEYWORDS,
	  "A DLPack capsule over the bytes: uint8, one dimension, memory of the CPU." },
	{ "__dlpack_device__", py_item_dlpack_device, METH_NOARGS, "Return (1, 0): the CPU." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
	{ "nbytes", item_nbytes, NULL, "How many bytes were read.", NULL },
	{ "path", item_path, NULL, "The file's path, as str (os.fsdecode).", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, item_dealloc },
	{ Py_bf_getbuffer, item_getbuffer },
	{ Py_bf_releasebuffer, item_releasebuffer },
	{ Py_sq_length, item_length },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_tp_doc,
	  "One file of a batch: a buffer of its bytes, which are not copied.\n\n"
	  "memoryview(item), numpy.frombuffer(item, numpy.uint8), numpy.from_dlpack(item) and\n"
	  "torch.frombuffer(item, dtype=torch.uint8) show them where they lie; bytes(item) copies\n"
	  "them.  Each view keeps the batch's memory.  torch.frombuffer() takes no empty file." },
	{ 0, NULL },
};
PyType_Spec py_item_spec = {
	.name = "weka.Item",
	.basicsize = sizeof(struct py_item),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
