/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Batch: many files, read with few requests.
 *
 *    pending ----------> whole ----------> released
 *            wait(), or        release(), or the last reference is gone
 *            any access
 *
 * Invariants:
 *
 *  (1) A batch with exports has its job: the leases stay until the last view is gone.
 *  (2) A batch that has a job is counted in session->jobs, and holds the session.
 *  (3) The items of a whole batch do not change.
 */
#include "client-lib/python/py_weka.h"

#include "base/clock.h"

#include <errno.h>

/* ---- waiting ------------------------------------------------------------------------------ */

static int job_check(struct py_batch *b)
{
	if (!b->job) {
		PyErr_SetString(PyExc_ValueError, "the batch was released");
		return -1;
	}
	if (!py_is_stale(b->session))
		return 0;
	py_raise(-ESTALE, "the batch is of the process that forked this one: read it anew", NULL);
	return -1;
}

/* One slice.  The caller keeps the job, which another thread or a signal handler may release. */
static void slice(struct py_session *s, struct py_job *job, uint64_t wait_ns)
{
	py_lock(s);
	PY_ENTER_LIBRARY;
	py_job_turn(s, job, wait_ns);
	PY_LEAVE_LIBRARY;
	py_unlock(s);
}

int py_batch_wait(struct py_batch *b, uint64_t timeout_ns)
{
	const uint64_t begin_ns = timeout_ns == WEKA_FOREVER ? 0 : clock_now_ns();
	uint64_t left_ns = timeout_ns, gone_ns;

	for (;;) {
		if (job_check(b) < 0)
			return -1;
		if (py_job_is_whole(b->job))
			return 1;
		b->looks++; /* it is not released during this */
		slice(b->session, b->job, left_ns);
		b->looks--;
		if (py_job_is_whole(b->job))
			return 1;
		if (PyErr_CheckSignals() < 0)
			return -1;
		gone_ns = timeout_ns == WEKA_FOREVER ? 0 : clock_now_ns() - begin_ns;
		if (gone_ns >= timeout_ns)
			return 0;
		left_ns = timeout_ns - gone_ns;
	}
}

/* ---- making ------------------------------------------------------------------------------- */

/* Plans, sends, and perhaps waits for a first slice, all without the GIL. */
static int begin(struct py_session *s, struct py_job *job, bool wait)
{
	int err;

	py_lock(s);
	PY_ENTER_LIBRARY;
	err = py_job_plan(s, job);
	if (!err)
		py_job_turn(s, job, wait && job->count > 0 ? PY_SLICE_NS : 0);
	PY_LEAVE_LIBRARY;
	if (err)
		py_job_end(s, job);
	py_unlock(s);
	if (err)
		py_raise(err, job->line, NULL);
	return err;
}

struct py_batch *py_batch_new(struct py_session *s, struct py_job *job, PyTypeObject *type)
{
	struct py_batch *b = PyObject_New(struct py_batch, type);

	if (!b)
		return NULL;
	b->session = s;
	b->job = job;
	b->exports = 0;
	b->looks = 0;
	Py_INCREF((PyObject *)s);
	s->jobs++; /* (2) */
	return b;
}

struct py_batch *py_job_submit(struct py_session *s, struct py_job *job, bool wait,
			       PyTypeObject *type)
{
	struct py_batch *b = py_batch_new(s, job, type);

	if (!b) {
		py_job_free(job);
		return NULL;
	}
	if (begin(s, job, wait) < 0 || (wait && py_batch_wait(b, WEKA_FOREVER) < 0))
		Py_CLEAR(b);
	return b;
}

PyObject *py_batch_submit(struct py_client *client, PyObject *args, PyObject *kwargs, bool wait)
{
	static char *names[] = { "paths", "offsets", "lengths", NULL };
	PyObject *paths, *offsets = Py_None, *lengths = Py_None;
	struct py_session *s;
	struct py_batch *b;
	struct py_job *job;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO", names, &paths, &offsets, &lengths))
		return NULL;
	job = py_job_new(paths, offsets, lengths);
	if (!job)
		return NULL;
	s = py_begin(client);
	if (!s) {
		py_job_free(job);
		return NULL;
	}
	b = py_job_submit(s, job, wait, py_types.batch);
	py_end(s);
	return (PyObject *)b;
}

/* ---- the end ------------------------------------------------------------------------------- */

void py_batch_let_go(struct py_batch *b)
{
	struct py_job *job = b->job;

	ASSERT(b->exports == 0); /* (1) */
	b->job = NULL;
	if (job)
		py_job_drop(b->session, job);
}
