/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Waiting for requests, without the interpreter's lock, so that a signal handler runs meanwhile.
 *
 *    py_wait()   lock  | without the GIL: py_turn(), one slice |  unlock  signals?  again
 *                                  |
 *                                  +--> done: of this call, of another's, of a batch's part
 *
 * A call that a signal handler's exception ends cancels its request and takes it back.  A request
 * that leaves something at the appliance, which its caller must give back, is waited for a second
 * more.  A signal handler may itself use the session, and reap what the call that it interrupted
 * waits for.
 *
 *   R1 -> A1   (A1 in py_weka.h) a request's results are stored before its `done`
 *
 * Invariants:
 *
 *  (1) Every request in flight is the `req` of a py_op.
 *  (2) A py_op is not touched by the library once it is done.
 *  (3) The exception of a signal handler is raised, however the request then ended
 *      [test_edges:test_interrupts_as_large_puts_begin_leave_nothing].
 */
#include "client-lib/python/py_weka.h"

#include "base/clock.h"

#include <string.h>
#include <time.h>

#define DONE_MAX  32u
#define NAP_NS    (1000u * 1000)
#define NAPS_MAX  30000u /* as long as a request may take, unless the caller says otherwise */
#define SETTLE_NS (1000u * 1000 * 1000) /* as long as a person waits after Ctrl-C */

static int reap(struct py_session *s)
{
	struct weka_req *done[DONE_MAX];
	int got = weka_reap(s->weka, done, DONE_MAX), i;

	for (i = 0; i < got; i++) {
		struct py_op *op = container_of(done[i], struct py_op, req); /* (1) */

		ASSERT(!py_op_done(op));                                      /* (1), (2) */
		atomic_store_explicit(&op->done, true, memory_order_release); /* R1 */
	}
	return got;
}

int py_turn(struct py_session *s, uint64_t wait_ns)
{
	int got = reap(s), err;

	if (got != 0 || wait_ns == 0)
		return got < 0 ? got : 0;
	err = weka_wait(s->weka, min_u64(wait_ns, PY_SLICE_NS));
	if (err == -ETIMEDOUT || err == -EINTR)
		return 0;
	if (err)
		return err;
	got = reap(s);
	return got < 0 ? got : 0;
}

void py_forsake(struct py_session *s, struct py_op *op)
{
	if (py_op_done(op))
		return;
	(void)weka_cancel(s->weka, &op->req); /* it fails when it has ended already */
	while (!py_op_done(op) && reap(s) > 0)
		;
	/* R1; or the session has ended: no more writes (2) */
	atomic_store_explicit(&op->done, true, memory_order_release);
}

/* One slice. */
static int slice(struct py_session *s, struct py_op *op)
{
	int err = 0;

	py_lock(s);
	if (!py_op_done(op)) { /* another thread may have reaped it */
		PY_ENTER_LIBRARY;
		err = py_turn(s, PY_SLICE_NS);
		PY_LEAVE_LIBRARY;
	}
	py_unlock(s);
	return err;
}

bool py_room(struct py_session *s, uint32_t *naps)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	int err;

	if (*naps == NAPS_MAX)
		return false;
	PY_ENTER_LIBRARY;
	err = py_turn(s, PY_SLICE_NS);
	if (err == -ENOENT) { /* all that is in flight was cancelled */
		err = 0;
		++*naps;
		(void)nanosleep(&nap, NULL);
	}
	PY_LEAVE_LIBRARY;
	py_unlock(s);
	if (!err && PyErr_CheckSignals() == 0)
		return true;
	s->interrupts += !err;
	py_lock(s);
	return false;
}

static void give_up(struct py_session *s, struct py_op *op)
{
	py_lock(s);
	py_forsake(s, op);
	py_unlock(s);
}

/* After a signal handler's exception; another one ends it. */
static void settle(struct py_session *s, struct py_op *op)
{
	const uint64_t until_ns = clock_now_ns() + SETTLE_NS;
	PyObject *kind, *value, *trace;
	int err = 0;

	ASSERT(PyErr_Occurred());
	PyErr_Fetch(&kind, &value, &trace);
	while (!py_op_done(op) && !err && clock_now_ns() < until_ns)
		err = slice(s, op) || PyErr_CheckSignals() < 0;
	op->settled = py_op_done(op);
	if (!PyErr_Occurred()) {
		PyErr_Restore(kind, value, trace); /* (3) */
		return;
	}
	Py_XDECREF(kind);
	Py_XDECREF(value);
	Py_XDECREF(trace);
}

static int wait_done(struct py_session *s, struct py_op *op)
{
	int err = 0;

	while (!py_op_done(op) && !err) {
		err = slice(s, op);
		if (!py_op_done(op) && PyErr_CheckSignals() < 0) {
			s->interrupts++;
			if (op->settles)
				settle(s, op);
			give_up(s, op);
			return -1;
		}
	}
	if (py_op_done(op))
		return 0;
	give_up(s, op);
	py_raise(err, NULL, NULL);
	return -1;
}

int py_wait(struct py_session *s, struct py_op *op)
{
	const int failed = wait_done(s, op);

	ASSERT(py_op_done(op)); /* py_many.c (1), py_name.c (1) */
	return failed;
}

int py_sent(struct py_session *s, struct py_op *op, int err, PyObject *path)
{
	char line[PY_LINE_BYTES] = "";

	if (err)
		strncpy(line, weka_error(s->weka), sizeof(line) - 1);
	py_unlock(s);
	if (err && !PyErr_Occurred()) /* py_room() */
		py_raise(err, line, path);
	return err ? -1 : py_wait(s, op);
}

int py_run(struct py_session *s, struct py_op *op, int err, PyObject *path)
{
	if (py_sent(s, op, err, path) < 0)
		return -1;
	if (op->req.status)
		py_raise(op->req.status, NULL, path);
	return op->req.status ? -1 : 0;
}
