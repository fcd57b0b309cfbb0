/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The module weka._weka.
 *
 *   I1 -> J1   (I1 in py_weka.h, py_connect.c, py_block.c) a thread's last use of the library comes
 *              before the end of the process
 *
 * Invariants:
 *
 *  (1) One interpreter of a process has it: sessions and the fork hooks are the process's
 *      [test_package:test_another_interpreter_is_refused].
 *  (2) The types stay until the process ends: a tensor may outlive the module
 *      [test_package:test_importing_it_again].
 *  (3) When the interpreter has ended no thread enters the library; those inside leave it soon, but
 *      for one that connects, which is waited for no longer than a second
 *      [test_threads:test_the_end_of_an_interpreter,
 *      test_stream:test_an_end_of_the_process_while_a_thread_waits].
 */
#include "client-lib/python/py_weka.h"

#include <time.h>

#define EXIT_WAITS 1000u /* ms */

struct py_types py_types;
_Atomic uint32_t py_inside;
static PyInterpreterState *home;

static int type_new(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
	*out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *out ? 0 : -1; /* (2): keeps the reference */
}

static int types_new(PyObject *module)
{
	if (type_new(module, &py_client_spec, &py_types.client) < 0 ||
	    type_new(module, &py_session_spec, &py_types.session) < 0 ||
	    type_new(module, &py_batch_spec, &py_types.batch) < 0 ||
	    type_new(module, &py_item_spec, &py_types.item) < 0 ||
	    type_new(module, &py_dataset_spec, &py_types.dataset) < 0 ||
	    type_new(module, &py_stream_spec, &py_types.stream) < 0 ||
	    type_new(module, &py_pool_spec, &py_types.pool) < 0 ||
	    type_new(module, &py_sample_batch_spec, &py_types.sample_batch) < 0)
		return -1;
	py_types.stat = PyStructSequence_NewType(&py_stat_desc);
	py_types.sample = PyStructSequence_NewType(&py_sample_desc);
	return py_types.stat && py_types.sample ? 0 : -1;
}

static int types_add(PyObject *module)
{
	if (PyModule_AddObjectRef(module, "Client", (PyObject *)py_types.client) < 0 ||
	    PyModule_AddObjectRef(module, "Batch", (PyObject *)py_types.batch) < 0 ||
	    PyModule_AddObjectRef(module, "Item", (PyObject *)py_types.item) < 0 ||
	    PyModule_AddObjectRef(module, "Stat", (PyObject *)py_types.stat) < 0 ||
	    PyModule_AddObjectRef(module, "Dataset", (PyObject *)py_types.dataset) < 0 ||
	    PyModule_AddObjectRef(module, "Stream", (PyObject *)py_types.stream) < 0 ||
	    PyModule_AddObjectRef(module, "Pool", (PyObject *)py_types.pool) < 0 ||
	    PyModule_AddObjectRef(module, "SampleBatch", (PyObject *)py_types.sample_batch) < 0 ||
	    PyModule_AddObjectRef(module, "Sample", (PyObject *)py_types.sample) < 0)
		return -1;
	return PyModule_AddStringConstant(module, "__version__", weka_version());
}

static bool is_inside(void)
{
	return atomic_load_explicit(&py_inside, memory_order_acquire) > 0; /* J1 */
}

/* The interpreter has ended.  A thread that comes back for the GIL ends there (3). */
static void wait_for_threads(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	uint32_t i;

	for (i = 0; i < EXIT_WAITS && is_inside(); i++)
		(void)nanosleep(&ms, NULL);
}

static int module_exec(PyObject *module)
{
	if (!home) {
		if (types_new(module) < 0 || py_fork_init(module) < 0)
			return -1;
		if (Py_AtExit(wait_for_threads) < 0) {
			PyErr_SetString(PyExc_ImportError, "no place for a function at exit");
			return -1;
		}
		home = PyInterpreterState_Get();
	}
	if (home == PyInterpreterState_Get()) /* also when it is imported again */
		return types_add(module);
	PyErr_SetString(PyExc_ImportError,
			"weka can be imported by one interpreter of a process only"); /* (1) */
	return -1;
}

static PyMethodDef functions[] = {
	{ "order", (PyCFunction)(void (*)(void))py_order, METH_VARARGS | METH_KEYWORDS,
	  "order(count, seed, epoch, position)\n--\n\n"
	  "Return which of count samples is at a position of an epoch of Dataset.stream(), for\n"
	  "programs that need the same order." },
	{ "_fork_before", py_fork_before, METH_NOARGS, NULL },
	{ "_fork_parent", py_fork_parent, METH_NOARGS, NULL },
	{ "_fork_child", py_fork_child, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, module_exec },
	{ 0, NULL },
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,  .m_name = "weka._weka",  .m_doc = "The C half of the package weka.",
	.m_methods = functions, .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__weka(void); /* -Wmissing-prototypes */

PyMODINIT_FUNC PyInit__weka(void)
{
	return PyModuleDef_Init(&module_def);
}
