/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sessions: each thread has one of its own for each Client.
 *
 *    thread's dictionary { client->key: session }        a thread that ends lets go of it
 *    a call under way, a batch that is alive             keep it until they end
 *
 * A batch may go to another thread, which waits for it there.  So a session has a lock, which is
 * held for one slice of a wait, or for at most a second while cancelled requests give memory back.
 *
 * Invariants:
 *
 *  (1) The weka_client is closed when nobody uses the session (calls and jobs are 0), and either
 *      it is closing or its last reference is gone.
 *  (2) A session whose generation is another is the parent's of a fork: its weka_client is only
 *      closed, and its lock, which a thread of the parent may hold, is not taken
 *      [test_threads:test_fork_while_another_thread_waits].
 *  (3) A thread that locks frees the jobs that were dropped
 *      [test_batch:test_a_batch_that_was_never_waited_for].
 *  (4) A thread that waits for the lock gets it at the next unlock, even if the thread that had it
 *      locks again at once.  So a thread in a long wait holds up no other thread and no fork
 *      [test_edges:test_a_fork_while_another_thread_waits_long,
 *      test_edges:test_a_batch_is_looked_at_while_its_thread_waits_long].
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <string.h>

struct list py_sessions = { &py_sessions, &py_sessions };

bool py_is_stale(const struct py_session *s)
{
	return s->generation != py_generation;
}

/* ---- the lock --------------------------------------------------------------------------- */

static void free_dropped(struct py_session *s)
{
	while (s->dropped) {
		struct py_job *job = s->dropped;

		s->dropped = job->next;
		py_job_end(s, job);
		py_job_free(job);
	}
	if (s->dropped_feeds)
		py_feeds_end(s, false);
}

/* This thread forks: its hooks, and what other hooks call, have it locked already. */
static bool is_forking(const struct py_session *s)
{
	return s->forking && s->forking == PyThread_get_thread_ident();
}

/* The first of those that wait waits for the lock, all others behind it (4). */
static void lock_in_turn(struct py_session *s)
{
	s->waiting++;
	Py_BEGIN_ALLOW_THREADS;
	PyThread_acquire_lock(s->first, WAIT_LOCK);
	PyThread_acquire_lock(s->lock, WAIT_LOCK);
	PyThread_release_lock(s->first);
	Py_END_ALLOW_THREADS;
	s->waiting--;
}

bool py_trylock(struct py_session *s)
{
	if (py_is_stale(s) || (!is_forking(s) && !PyThread_acquire_lock(s->lock, NOWAIT_LOCK)))
		return false;
	free_dropped(s);
	return true;
}

void py_lock(struct py_session *s)
{
	if (py_is_stale(s))
		return;
	if (!is_forking(s) && (s->waiting > 0 || !PyThread_acquire_lock(s->lock, NOWAIT_LOCK)))
		lock_in_turn(s);
	free_dropped(s);
}

void py_unlock(struct py_session *s)
{
	if (!py_is_stale(s) && !is_forking(s))
		PyThread_release_lock(s->lock);
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Closes it (1).  Jobs, streams and datasets go with it. */
static void finish(struct py_session *s)
{
	struct weka_client *weka = s->weka;
	struct list *node;
	struct py_job *job;

	ASSERT(s->calls == 0 && s->jobs == 0); /* (1) */
	if (weka)
		py_feeds_end(s, true);
	s->weka = NULL;
	if (weka) {
		PY_ENTER_LIBRARY;
		weka_close(weka);
		PY_LEAVE_LIBRARY;
	}
	py_lent_end(s);
	while ((node = s->opened.next) != &s->opened)
		py_opened_unlink(list_entry(node, struct py_opened, of_session));
	while ((job = s->dropped) != NULL) {
		s->dropped = job->next;
		py_job_free(job);
	}
}

void py_session_close(struct py_session *s)
{
	s->closing = true;
	if (s->calls == 0 && s->jobs == 0)
		finish(s);
}

static void session_dealloc(PyObject *self)
{
	struct py_session *s = (struct py_session *)self;
	PyTypeObject *type = Py_TYPE(self);
	PyObject *kind, *value, *trace;

	PyErr_Fetch(&kind, &value, &trace);
	list_del(&s->of_client);
	list_del(&s->of_all);
	finish(s);
	if (s->lock)
		PyThread_free_lock(s->lock);
	if (s->first)
		PyThread_free_lock(s->first);
	PyErr_Restore(kind, value, trace);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ---- the beginning ---------------------------------------------------------------------- */

static void limits_take(struct py_session *s)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };

	if (weka_get_limits(s->weka, &limits) < 0)
		return;
	s->window_max_bytes = limits.window_max_bytes;
	s->batch_items_max = min_u32(limits.batch_items_max, WEKA_BATCH_MAX);
	s->pool_bytes = limits.pool_bytes;
}

struct py_session *py_session_new(struct py_client *client, struct weka_client *weka)
{
	struct py_session *s = PyObject_New(struct py_session, py_types.session);

	if (!s)
		return NULL;
	memset((char *)s + sizeof(PyObject), 0, sizeof(*s) - sizeof(PyObject));
	list_init(&s->of_client);
	list_init(&s->of_all);
	list_init(&s->opened);
	s->weka = weka;
	s->thread = PyThread_get_thread_ident();
	s->generation = py_generation;
	s->item_bytes = 16384;
	s->lock = PyThread_allocate_lock();
	s->first = PyThread_allocate_lock();
	if (!s->lock || !s->first) {
		s->weka = NULL; /* the caller closes it */
		Py_DECREF(s);
		PyErr_NoMemory();
		return NULL;
	}
	limits_take(s);
	list_push_back(&client->sessions, &s->of_client);
	list_push_back(&py_sessions, &s->of_all);
	return s;
}

/* This thread's dictionary forgets the sessions of clients that other threads have closed. */
static void forget_closed(PyObject *threads)
{
	PyObject *items = PyDict_Items(threads);
	Py_ssize_t i;

	for (i = 0; items && i < PyList_Size(items); i++) {
		PyObject *item = PyList_GetItem(items, i), *value = PyTuple_GetItem(item, 1);

		if (Py_TYPE(value) == py_types.session && !((struct py_session *)value)->weka &&
		    PyDict_DelItem(threads, PyTuple_GetItem(item, 0)) < 0)
			PyErr_Clear();
	}
	if (!items)
		PyErr_Clear();
	Py_XDECREF(items);
}

static struct py_session *connect(struct py_client *client, PyObject *threads)
{
	struct weka_client *weka = py_connect(&client->config);
	struct py_session *s;

	if (!weka)
		return NULL;
	if (client->closed) { /* in between, by another thread */
		weka_close(weka);
		PyErr_SetString(PyExc_ValueError, "the client is closed");
		return NULL;
	}
	s = py_session_new(client, weka);
	if (!s) {
		weka_close(weka);
		return NULL;
	}
	forget_closed(threads);
	if (PyDict_SetItem(threads, client->key, (PyObject *)s) < 0)
		Py_CLEAR(s);
	return s;
}

struct py_session *py_begin(struct py_client *client)
{
	PyObject *threads = PyThreadState_GetDict();
	struct py_session *s;

	if (client->closed) {
		PyErr_SetString(PyExc_ValueError, "the client is closed");
		return NULL;
	}
	if (!threads) {
		PyErr_SetString(PyExc_RuntimeError, "the interpreter is ending");
		return NULL;
	}
	s = (struct py_session *)PyDict_GetItemWithError(threads, client->key);
	if (!s && PyErr_Occurred())
		return NULL;
	if (s && s->weka && !s->closing && !py_is_stale(s))
		Py_INCREF((PyObject *)s);
	else
		s = connect(client, threads);
	if (s)
		s->calls++;
	return s;
}

void py_end(struct py_session *s)
{
	ASSERT(s->calls > 0);
	s->calls--;
	if (s->closing && s->calls == 0 && s->jobs == 0)
		finish(s);
	Py_DECREF(s);
}

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, session_dealloc },
	{ 0, NULL },
};
PyType_Spec py_session_spec = {
	.name = "weka._weka._Session",
	.basicsize = sizeof(struct py_session),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
