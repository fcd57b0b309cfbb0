/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An item as a DLPack tensor: numpy.from_dlpack(), torch.from_dlpack() and their like.
 *
 * Invariants:
 *
 *  (1) Each tensor is one export of the batch, taken back exactly once.
 *  (2) A tensor is owned by its capsule while that is called "dltensor"; whoever takes it renames
 *      the capsule, and calls the deleter, in any thread
 *      [test_batch:test_dlpack, test_edges:test_a_capsule_that_was_taken].
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>

#define DLPACK_CPU  1
#define DLPACK_UINT 1

/* As dlpack.h 0.8 lays them out: what leaves the process's C for another library's. */
struct dl_tensor {
	void *data;
	struct {
		int32_t type;
		int32_t id;
	} device;
	int32_t dimensions;
	struct {
		uint8_t code;
		uint8_t bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;
};

struct dl_managed {
	struct dl_tensor tensor;
	void *manager;
	void (*deleter)(struct dl_managed *self);
};

struct item_tensor {
	struct dl_managed managed; /* the first member: the capsule points to it */
	int64_t shape[1];
	struct py_item *item;
};

/* In any thread, with or without the GIL (2). */
static void tensor_delete(struct dl_managed *managed)
{
	struct item_tensor *t = container_of(managed, struct item_tensor, managed);
	PyGILState_STATE state;

	if (!Py_IsInitialized()) /* the interpreter has ended, and the item with it */
		return;
	state = PyGILState_Ensure();
	ASSERT(t->item->batch->exports > 0); /* (1) */
	t->item->batch->exports--;
	Py_DECREF(t->item);
	free(t);
	PyGILState_Release(state);
}

/* It was not taken (2). */
static void capsule_delete(PyObject *capsule)
{
	struct dl_managed *managed;

	if (!PyCapsule_IsValid(capsule, "dltensor"))
		return;
	managed = PyCapsule_GetPointer(capsule, "dltensor");
	managed->deleter(managed);
}

static PyObject *tensor_new(struct py_item *item, void *data, uint64_t bytes)
{
	struct item_tensor *t = calloc(1, sizeof(*t));
	PyObject *capsule;

	if (!t)
		return PyErr_NoMemory();
	t->shape[0] = (int64_t)bytes;
	t->managed.tensor.data = data;
	t->managed.tensor.device.type = DLPACK_CPU;
	t->managed.tensor.dimensions = 1;
	t->managed.tensor.dtype.code = DLPACK_UINT;
	t->managed.tensor.dtype.bits = 8;
	t->managed.tensor.dtype.lanes = 1;
	t->managed.tensor.shape = t->shape;
	t->managed.deleter = tensor_delete;
	t->item = item;
	Py_INCREF((PyObject *)item);
	item->batch->exports++; /* (1) */
	capsule = PyCapsule_New(&t->managed, "dltensor", capsule_delete);
	if (!capsule)
		tensor_delete(&t->managed);
	return capsule;
}

PyObject *py_item_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
	PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
	int type = DLPACK_CPU, id = 0, copies;
	uint64_t bytes;
	void *data;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream,
					 &version, &device, &copy))
		return NULL;
	if (device != Py_None && !PyArg_Parse(device, "(ii)", &type, &id))
		return NULL;
	copies = PyObject_IsTrue(copy);
	if (copies < 0)
		return NULL;
	if (stream != Py_None || type != DLPACK_CPU || id != 0 || copies) {
		PyErr_SetString(PyExc_BufferError,
				"an item is memory of the CPU, and is not copied: stream=None, "
				"dl_device=(1, 0), copy=False");
		return NULL;
	}
	if (py_item_bytes((struct py_item *)self, &data, &bytes) < 0)
		return NULL;
	return tensor_new((struct py_item *)self, data, bytes);
}

PyObject *py_item_dlpack_device(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}
