/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Calls of the library that wait by themselves: those of datasets and streams.
 *
 *    py_block()   lock | without the GIL: the call ... pause ... the call |   unlock   py_unblock()
 *                                                |
 *                             unlock, signal handlers, progress, lock
 *
 *   I1 -> J1   (py_module.c)
 *
 * Invariants:
 *
 *  (1) One such call at a time uses a session; other calls use it during the pauses.
 *  (2) A pause holds the GIL and not the lock while code of Python's runs
 *      [test_stream:test_what_a_signal_handler_may_do].
 *  (3) A pause after the end of the interpreter ends its thread.  PyEval_RestoreThread() looks for
 *      that first, while PyGILState_Ensure() uses what is gone by then
 *      [test_stream:test_an_end_of_the_process_while_a_thread_waits].
 */
#include "client-lib/python/py_weka.h"

#include <string.h>
#include <time.h>

#define NAP_NS (1000u * 1000)

int py_progress_note(void *user, uint64_t done, uint64_t total)
{
	struct py_progress *p = user;

	p->done = done;
	p->total = total;
	return 0;
}

int py_progress_tell(struct py_progress *p)
{
	PyObject *result;

	if (!p || !p->call || p->done == p->told)
		return 0;
	p->told = p->done;
	result = PyObject_CallFunction(p->call, "KK", (unsigned long long)p->done,
				       (unsigned long long)p->total);
	Py_XDECREF(result);
	return result ? 0 : -1;
}

/* Returns 1, with an exception, if the call must end. */
static int pause_call(void *user)
{
	struct py_session *s = user;
	int stop;

	atomic_fetch_sub_explicit(&py_inside, 1, memory_order_release); /* I1 */
	PyEval_RestoreThread(s->state);                                 /* (3) */
	py_unlock(s);                                                   /* (2) */
	stop = PyErr_CheckSignals() < 0 || py_progress_tell(s->progress) < 0;
	py_lock(s);
	s->state = PyEval_SaveThread();
	atomic_fetch_add_explicit(&py_inside, 1, memory_order_relaxed);
	return stop;
}

/* Waits until no other thread is in such a call (1). */
static int wait_for_others(const struct py_session *s)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	while (s->blocking) {
		if (s->blocking == PyThread_get_thread_ident()) {
			PyErr_SetString(PyExc_RuntimeError,
					"this thread is in the middle of another call of a dataset "
					"or stream (a signal handler, or progress?)");
			return -1;
		}
		Py_BEGIN_ALLOW_THREADS;
		(void)nanosleep(&nap, NULL);
		Py_END_ALLOW_THREADS;
		if (PyErr_CheckSignals() < 0)
			return -1;
	}
	return 0;
}

int py_block(struct py_session *s, struct py_progress *progress)
{
	if (wait_for_others(s) < 0)
		return -1;
	ASSERT(!s->blocking); /* (1) */
	s->blocking = PyThread_get_thread_ident();
	s->state = PyThreadState_Get();
	s->progress = progress;
	py_lock(s);
	(void)weka_set_pause(s->weka, pause_call, s);
	return 0;
}

int py_unblock(struct py_session *s, int err, PyObject *path)
{
	char line[PY_LINE_BYTES] = "";

	if (err)
		strncpy(line, weka_error(s->weka), sizeof(line) - 1);
	(void)weka_set_pause(s->weka, NULL, NULL);
	py_unlock(s);
	s->blocking = 0;
	s->progress = NULL;
	if (PyErr_Occurred()) { /* of a pause */
		s->interrupts++;
		return -1;
	}
	if (err == -EINVAL)
		PyErr_SetString(PyExc_ValueError, line);
	else if (err)
		py_raise(err, line, path);
	return err ? -1 : 0;
}
