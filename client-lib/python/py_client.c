/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Client: an appliance, for all threads of a process and for its children.
 *
 * It connects when a thread first uses it, except that Client() itself connects the thread that
 * makes it, so that a wrong address or key is told at once.
 *
 * Invariants:
 *
 *  (1) Every session on `sessions` is this client's; a session that outlives it is on no list.
 */
#include "client-lib/python/py_weka.h"

#include <string.h>

/* Ends its sessions: those in use end when their calls and batches do. */
static void sessions_close(struct py_client *c)
{
	struct list *node;

	while ((node = list_pop_front(&c->sessions)) != NULL) {
		struct py_session *s = list_entry(node, struct py_session, of_client);

		Py_INCREF((PyObject *)s);
		py_session_close(s);
		Py_DECREF(s);
	}
}

/* This thread's dictionary forgets it. */
static void thread_forget(struct py_client *c)
{
	PyObject *threads = PyThreadState_GetDict();

	if (threads && c->key && PyDict_DelItem(threads, c->key) < 0)
		PyErr_Clear();
}

static void client_close(struct py_client *c)
{
	c->closed = true;
	sessions_close(c);
	thread_forget(c);
}

static void client_dealloc(PyObject *self)
{
	struct py_client *c = (struct py_client *)self;
	PyTypeObject *type = Py_TYPE(self);
	PyObject *kind, *value, *trace;

	PyErr_Fetch(&kind, &value, &trace);
	client_close(c);
	ASSERT(list_empty(&c->sessions)); /* (1) */
	Py_XDECREF(c->key);
	py_config_clear(&c->config);
	PyErr_Restore(kind, value, trace);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct py_client *c = PyObject_New(struct py_client, type);
	struct py_session *s = NULL;

	if (!c)
		return NULL;
	memset((char *)c + sizeof(PyObject), 0, sizeof(*c) - sizeof(PyObject));
	list_init(&c->sessions);
	c->key = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
	if (c->key && py_config_init(&c->config, args, kwargs) == 0)
		s = py_begin(c);
	if (!s) {
		Py_DECREF(c);
		return NULL;
	}
	py_end(s);
	return (PyObject *)c;
}

static PyObject *close_method(PyObject *self, PyObject *none)
{
	(void)none;
	client_close((struct py_client *)self);
	Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_INCREF(self);
	return self;
}

static PyObject *leave(PyObject *self, PyObject *args)
{
	(void)args;
	return close_method(self, NULL);
}

/* For every protocol: (copyreg.__newobj_ex__, (type, args, kwargs)). */
static PyObject *pickle(PyObject *self, PyObject *none)
{
	PyObject *made = py_config_pickle(&((struct py_client *)self)->config);
	PyObject *copyreg = made ? PyImport_ImportModule("copyreg") : NULL;
	PyObject *call = copyreg ? PyObject_GetAttrString(copyreg, "__newobj_ex__") : NULL;
	PyObject *all = NULL;

	(void)none;
	if (call)
		all = Py_BuildValue("O(OOO)", call, (PyObject *)Py_TYPE(self),
				    PyTuple_GetItem(made, 0), PyTuple_GetItem(made, 1));
	Py_XDECREF(call);
	Py_XDECREF(copyreg);
	Py_XDECREF(made);
	return all;
}

static PyObject *read_batch(PyObject *self, PyObject *args, PyObject *kwargs)
{
	return py_batch_submit((struct py_client *)self, args, kwargs, true);
}

static PyObject *submit_batch(PyObject *self, PyObject *args, PyObject *kwargs)
{
	return py_batch_submit((struct py_client *)self, args, kwargs, false);
}

static PyObject *closed(PyObject *self, void *none)
{
	(void)none;
	return PyBool_FromLong(((struct py_client *)self)->closed);
}

static PyObject *addresses(PyObject *self, void *none)
{
	(void)none;
	return PyUnicode_DecodeFSDefault(((struct py_client *)self)->config.addresses);
}

#define WITH_KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
static PyMethodDef methods[] = {
	{ "read", WITH_KEYWORDS(py_client_read),
	  "read(path, offset=0, length=None)\n--\n\n"
	  "Return bytes of a file: length of them, None: all from offset on.\n\n"
	  "Fewer when the file ends before.  One version of the file, also when it is replaced\n"
	  "meanwhile.  Bytes are checked against their checksums: OSError (EIO) otherwise." },
	{ "readinto", WITH_KEYWORDS(py_client_readinto),
	  "readinto(path, buffer, offset=0)\n--\n\n"
	  "Read into a writable buffer of the caller's, and return how many bytes came." },
	{ "write", WITH_KEYWORDS(py_client_write),
	  "write(path, data, offset=0)\n--\n\n"
	  "Write into a file, which is made if it is not there, and return len(data).\n\n"
	  "Durable when it returns.  Atomic within each 4 MiB of the file, not as a whole:\n"
	  "put() is." },
	{ "put", WITH_KEYWORDS(py_client_put),
	  "put(path, data, *, mode=0o644, exclusive=False)\n--\n\n"
	  "Write a whole file, at any size atomically, in place of what has that name.\n\n"
	  "Durable when it returns.  exclusive: FileExistsError when the name is taken." },
	{ "truncate", WITH_KEYWORDS(py_client_truncate),
	  "truncate(path, size)\n--\n\n"
	  "Make a file size bytes long; what is added reads as zeros." },
	{ "stat", WITH_KEYWORDS(py_client_stat),
	  "stat(path, *, follow_symlinks=True)\n--\n\nReturn the Stat of a file or directory." },
	{ "listdir", WITH_KEYWORDS(py_client_listdir),
	  "listdir(path)\n--\n\n"
	  "Return the names in a directory, in no order; bytes if path is bytes." },
	{ "scandir", WITH_KEYWORDS(py_client_scandir),
	  "scandir(path)\n--\n\nReturn a list of (name, Stat); the Stats come with the names." },
	{ "remove", WITH_KEYWORDS(py_client_remove),
	  "remove(path)\n--\n\nRemove a file or an empty directory." },
	{ "rmtree", WITH_KEYWORDS(py_client_rmtree),
	  "rmtree(path)\n--\n\n"
	  "Remove a directory and all that is in it.  The name goes at once, the room comes back\n"
	  "in the background." },
	{ "rename", WITH_KEYWORDS(py_client_rename),
	  "rename(src, dst, *, replace=True)\n--\n\n"
	  "Rename, atomically.  replace=False: FileExistsError when dst is there." },
	{ "mkdir", WITH_KEYWORDS(py_client_mkdir),
	  "mkdir(path, mode=0o755)\n--\n\nMake a directory." },
	{ "read_batch", WITH_KEYWORDS(read_batch),
	  "read_batch(paths, offsets=None, lengths=None)\n--\n\n"
	  "Read many files with few requests: submit_batch(), and wait for it." },
	{ "submit_batch", WITH_KEYWORDS(submit_batch),
	  "submit_batch(paths, offsets=None, lengths=None)\n--\n\n"
	  "Ask for many files with few requests, and return their Batch without waiting.\n\n"
	  "paths: a sequence of up to 1,048,576 str, bytes or os.PathLike.  offsets, lengths:\n"
	  "sequences of as many ints, bytes each, or None: from 0, as far as the file goes.\n"
	  "The batch keeps its memory in the session's pool (pool_bytes) until it is released;\n"
	  "BlockingIOError when other batches have too much of it, OSError (EMSGSIZE) for a file\n"
	  "that no request can hold.  A file that is not there fails when its item is looked at." },
	{ "put_batch", WITH_KEYWORDS(py_client_put_batch),
	  "put_batch(items, *, mode=0o644, exclusive=False, return_exceptions=False)\n--\n\n"
	  "Write many whole files, each atomically; items: a sequence of (path, bytes-like).\n\n"
	  "Returns a list with None for each.  Raises the first OSError when all were tried, or\n"
	  "puts each in the list with return_exceptions." },
	{ "stat_batch", WITH_KEYWORDS(py_client_stat_batch),
	  "stat_batch(paths, *, return_exceptions=False)\n--\n\n"
	  "Return the Stats of many names; errors as with put_batch()." },
	{ "remove_batch", WITH_KEYWORDS(py_client_remove_batch),
	  "remove_batch(paths, *, return_exceptions=False)\n--\n\n"
	  "Remove many files; errors as with put_batch()." },
	{ "create_dataset", WITH_KEYWORDS(py_client_create_dataset),
	  "create_dataset(name, path, glob=None, labels=True, quick=False, "
	  "progress=None, records=None)\n--\n\n"
	  "Make a new version of a dataset from the files below a directory, and return it.\n\n"
	  "Samples are all files below path whose path below it matches glob (None: all), in the\n"
	  "order of their paths.  labels: if every sample lies in a subdirectory, the first\n"
	  "directory of its path is its class.  Reads every byte for the content hash; quick:\n"
	  "takes sizes and times instead.  progress(done, total) is called now and then; an\n"
	  "exception that it raises ends the work.  records: samples are not files but pieces of\n"
	  "them: \"tar\" (WebDataset: members with the same name up to the first dot),\n"
	  "\"tfrecord\", \"npy\" or \"npz:NAME\" (rows of an array).  OSError\n"
	  "(ENODATA) when no file matches, (ESTALE) when a file was changed meanwhile." },
	{ "dataset", WITH_KEYWORDS(py_client_dataset),
	  "dataset(name, version=0)\n--\n\n"
	  "Open a version of a dataset, 0: the newest, and return its Dataset." },
	{ "drop_dataset", WITH_KEYWORDS(py_client_drop_dataset),
	  "drop_dataset(name, version)\n--\n\n"
	  "Remove a version of a dataset, or with 0 all versions.  The samples' files stay." },
	{ "pool_add", WITH_KEYWORDS(py_client_pool_add),
	  "pool_add(buffer, *, fd=-1)\n--\n\n"
	  "Make memory of the application's a Pool of this thread's session, for batches of\n"
	  "Dataset.stream(pool=...): page-locked memory, or memory that processes share.\n\n"
	  "buffer: writable, at a multiple of 4096, its size a multiple of 2 MiB.  Over shm\n"
	  "it must be a mapping of all of fd, a memfd made with MFD_ALLOW_SEALING.  The\n"
	  "session keeps it until it is closed.  ValueError for memory that cannot be used,\n"
	  "OSError (EOPNOTSUPP) over shm without fd, (ENOSPC) when the appliance grants no\n"
	  "more." },
	{ "info", py_client_info, METH_NOARGS,
	  "info()\n--\n\n"
	  "Return a dict about this thread's session: transport, address, lanes, pool_bytes,\n"
	  "pool_used_bytes, and counters since it connected." },
	{ "close", close_method, METH_NOARGS,
	  "close()\n--\n\n"
	  "End the sessions of all threads.  Batches that are alive stay usable; their sessions\n"
	  "end with them.  Everything else raises ValueError afterwards." },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", leave, METH_VARARGS, "Close." },
	{ "__reduce__", pickle, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
	{ "closed", closed, NULL, "Whether close() was called.", NULL },
	{ "addresses", addresses, NULL, "Where it connects.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, client_new },
	{ Py_tp_dealloc, client_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_tp_doc,
	  "Client(addresses=None, *, key_file=None, key_id=None, key=None, pool_bytes=None, "
	  "requests_max=None, lanes=None, timeout=None, connect_timeout=None, "
	  "reconnect_timeout=None)\n--\n\n"
	  "A connection to an appliance.\n\n"
	  "addresses: \"shm:/run/weka.sock,tcp://HOST:7010\", the best that answers is taken;\n"
	  "None: $WEKA_ADDRESS.  key_file: path of the key (None: $WEKA_KEY_FILE, or no key),\n"
	  "or key: its 32 bytes; key_id: its id.  pool_bytes: memory for batches, of each\n"
	  "thread (64 MiB).  Timeouts are seconds: of a request (30), of connecting (10), of\n"
	  "waiting for an appliance that is away (30).\n\n"
	  "Each thread that uses it gets a connection of its own, and so does a child of a fork.\n"
	  "It may be pickled, and connects where it arrives; not with key=.\n"
	  "Paths are str (as os.fsencode), bytes or os.PathLike.  Errors of the appliance are\n"
	  "OSErrors with errno and filename: FileNotFoundError, PermissionError, TimeoutError.\n"
	  "Whatever waits lets other threads run, and ends with KeyboardInterrupt." },
	{ 0, NULL },
};
PyType_Spec py_client_spec = {
	.name = "weka.Client",
	.basicsize = sizeof(struct py_client),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
