/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * After a fork: the child never uses its parent's sessions.
 *
 *    before     every session is locked, so that no thread is in the middle of a call
 *    parent     every session is unlocked
 *    child      sessions without batches are closed at once: as long as the child holds their
 *               descriptors, the appliance cannot see the parent's end
 *
 * os.fork() and multiprocessing call these three.  A fork that Python does not see is noticed by
 * the generation alone, and inherited sessions are closed when their objects are freed.
 *
 * The memory of a batch stays mapped in the child as long as the child has a view of it.
 *
 * Invariants:
 *
 *  (1) A session is locked by the hooks exactly when `forking` is set, and then by that thread.
 *      Other hooks run between ours, and may use it: for that thread it counts as locked
 *      [test_edges:test_hooks_of_a_fork_may_use_the_client,
 *      test_edges:test_forks_in_two_threads_at_once].
 *  (2) Calls of other threads have no stack in the child: they do not count there
 *      [test_threads:test_a_child_does_not_hold_the_sessions_of_its_parent].
 */
#include "client-lib/python/py_weka.h"

#include <pthread.h>

uint64_t py_generation;

static void generation_next(void)
{
	py_generation++;
	atomic_store_explicit(&py_inside, 0, memory_order_relaxed); /* the threads are not here */
}

PyObject *py_fork_before(PyObject *module, PyObject *none)
{
	const unsigned long me = PyThread_get_thread_ident();
	struct list *node = py_sessions.next;

	(void)module;
	(void)none;
	while (node != &py_sessions) {
		struct py_session *s = list_entry(node, struct py_session, of_all);

		if (s->forking || py_is_stale(s)) {
			node = node->next;
			continue;
		}
		Py_INCREF((PyObject *)s); /* py_lock() lets other threads run, which may drop it */
		py_lock(s);
		s->forking = me;
		Py_DECREF(s);
		node = py_sessions.next;
	}
	Py_RETURN_NONE;
}

PyObject *py_fork_parent(PyObject *module, PyObject *none)
{
	const unsigned long me = PyThread_get_thread_ident();
	struct list *node;

	(void)module;
	(void)none;
	list_for_each (node, &py_sessions) {
		struct py_session *s = list_entry(node, struct py_session, of_all);

		if (s->forking != me)
			continue;
		s->forking = 0;
		py_unlock(s);
	}
	Py_RETURN_NONE;
}

PyObject *py_fork_child(PyObject *module, PyObject *none)
{
	const unsigned long me = PyThread_get_thread_ident();
	struct list *node;

	(void)module;
	(void)none;
	list_for_each (node, &py_sessions) {
		struct py_session *s = list_entry(node, struct py_session, of_all);

		if (!py_is_stale(s)) /* this is no child */
			continue;
		s->forking = 0;
		if (s->thread != me)
			s->calls = 0; /* (2) */
		s->closing = true;
		if (s->calls == 0 && s->jobs == 0) {
			weka_close(s->weka);
			s->weka = NULL;
		}
	}
	Py_RETURN_NONE;
}

/* Registers one of the three with os.register_at_fork(). */
int py_fork_init(PyObject *module)
{
	static const char *const names[] = { "_fork_before", "_fork_parent", "_fork_child" };
	static const char *const when[] = { "before", "after_in_parent", "after_in_child" };
	PyObject *os = PyImport_ImportModule("os"), *call = NULL, *done = NULL, *hooks = NULL;
	PyObject *none = PyTuple_New(0);
	uint32_t i;

	hooks = PyDict_New();
	for (i = 0; hooks && i < ARRAY_LEN(names); i++) {
		PyObject *hook = PyObject_GetAttrString(module, names[i]);

		if (!hook || PyDict_SetItemString(hooks, when[i], hook) < 0)
			Py_CLEAR(hooks);
		Py_XDECREF(hook);
	}
	if (os && hooks)
		call = PyObject_GetAttrString(os, "register_at_fork");
	if (call && none)
		done = PyObject_Call(call, none, hooks);
	Py_XDECREF(call);
	Py_XDECREF(none);
	Py_XDECREF(hooks);
	Py_XDECREF(os);
	if (!done)
		return -1;
	Py_DECREF(done);
	if (pthread_atfork(NULL, NULL, generation_next)) {
		PyErr_NoMemory();
		return -1;
	}
	return 0;
}
