/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The module weka._weka.
 *
 * Invariants:
 *
 *  (1) One interpreter of a process has it: sessions and the fork hooks are the process's.
 *  (2) The types stay until the process ends: a tensor may outlive the module.
 */
#include "client-lib/python/py_weka.h"

struct py_types py_types;

static int type_add(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **out)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	*out = (PyTypeObject *)type; /* (2): keeps the reference */
	if (!type)
		return -1;
	return name ? PyModule_AddObjectRef(module, name, type) : 0;
}

static int types_add(PyObject *module)
{
	if (type_add(module, &py_client_spec, "Client", &py_types.client) < 0 ||
	    type_add(module, &py_session_spec, NULL, &py_types.session) < 0 ||
	    type_add(module, &py_batch_spec, "Batch", &py_types.batch) < 0 ||
	    type_add(module, &py_item_spec, "Item", &py_types.item) < 0)
		return -1;
	py_types.stat = PyStructSequence_NewType(&py_stat_desc);
	if (!py_types.stat)
		return -1;
	return PyModule_AddObjectRef(module, "Stat", (PyObject *)py_types.stat);
}

static int module_exec(PyObject *module)
{
	if (py_types.client) { /* (1) */
		PyErr_SetString(PyExc_ImportError,
				"weka can be imported by one interpreter of a process only");
		return -1;
	}
	if (types_add(module) < 0 ||
	    PyModule_AddStringConstant(module, "__version__", weka_version()) < 0)
		return -1;
	return py_fork_init(module);
}

static PyMethodDef functions[] = {
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
