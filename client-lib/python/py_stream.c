/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stream: the batches of one rank of an epoch.
 *
 *    Stream ----> py_feed: weka_stream <---- py_job: weka_batch <---- SampleBatch <---- views
 *                    |
 *                    +---- closed when the Stream let go of it and the jobs are gone
 *
 * Invariants:
 *
 *  (1) A feed is closed when its Stream let go of it and no batch is left, or with its session.
 *  (2) No sample is lost: a batch that came while a signal ended the call is handed out next
 *      [test_stream:test_a_batch_that_comes_while_a_signal_ends_the_call].
 *  (3) `cursor` is the place after the last batch that was handed out
 *      [test_stream:test_resume].
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char too_large[] = "the sample is larger than a request: read it by its path";

#define NAP_NS   (1000u * 1000)
#define NAPS_MAX 10000u /* for memory that comes back: the appliance may be busy for seconds */

/* ---- feeds --------------------------------------------------------------------------------- */

static void feed_close(struct py_session *s, struct py_feed *f)
{
	if (!py_is_stale(s))
		weka_stream_close(f->weka); /* else the memory is the parent's: it stays */
	py_opened_put(f->opened);
	free(f);
}

void py_feeds_end(struct py_session *s, bool is_last)
{
	struct py_feed **at = &s->dropped_feeds, *f;

	while ((f = *at) != NULL) {
		if (f->jobs > 0 && !is_last) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		ASSERT(f->jobs == 0 || is_last); /* (1) */
		feed_close(s, f);
	}
}

static void job_drop(struct py_session *s, struct py_job *job)
{
	s->jobs++; /* as if a batch had had it */
	py_job_drop(s, job);
}

/* The Stream lets go of its feed.  It is counted among the session's jobs. */
void py_stream_let_go(struct py_stream *st)
{
	struct py_session *s = st->session;
	struct py_feed *f = st->feed;

	st->closed = true;
	if (!f || st->busy) /* the call that is inside does it at its end */
		return;
	st->stats.size_bytes = sizeof(st->stats);
	if (!py_is_stale(s)) {
		(void)weka_stream_get_stats(f->weka, &st->stats);
		(void)weka_stream_verdict(f->weka, st->verdict);
	}
	st->feed = NULL;
	if (st->kept)
		job_drop(s, st->kept);
	st->kept = NULL;
	f->next = s->dropped_feeds;
	s->dropped_feeds = f;
	ASSERT(s->jobs > 0);
	s->jobs--;
	if (s->closing && s->calls == 0 && s->jobs == 0)
		py_session_close(s);
	else if (s->thread == PyThread_get_thread_ident() && py_trylock(s))
		py_unlock(s);
}

/* ---- the next batch ------------------------------------------------------------------------ */

static int check(const struct py_stream *st)
{
	if (st->feed && py_is_stale(st->session)) {
		py_raise(-ESTALE,
			 "the stream is of the process that forked this one: open one here, at its "
			 "cursor()",
			 NULL);
		return -1;
	}
	if (!st->closed && !st->session->closing)
		return 0;
	PyErr_SetString(PyExc_ValueError,
			st->closed ? "the stream is closed" : "the client is closed");
	return -1;
}

/* The job of a batch that was handed out by the library. */
static void job_take(struct py_stream *st, struct py_job *job, struct weka_batch *batch)
{
	job->feed = st->feed;
	job->feed->jobs++;
	job->batch = batch;
	job->items = (struct weka_read_item *)(uintptr_t)batch->items;
	job->count = batch->count;
	job->samples = batch->samples;
	job->labels = batch->labels;
	strncpy(job->line, too_large, sizeof(job->line) - 1);
	if (batch->lease)
		st->session->leased_bytes += batch->lease->size_bytes;
	(void)weka_stream_cursor(st->feed->weka, &st->kept_end);
}

/* Returns 1, and the job has a batch; 0 at the end of the epoch; -EAGAIN: the pool is full, without
 * an exception if memory comes back; -1 with an exception. */
static int take(struct py_stream *st, struct py_job *job)
{
	struct weka_counters counters = { .size_bytes = sizeof(counters) };
	struct py_session *s = st->session;
	struct weka_batch *batch = NULL;
	int rc;

	if (py_block(s, NULL) < 0)
		return -1;
	if (!st->feed || st->busy) { /* closed meanwhile */
		(void)py_unblock(s, 0, NULL);
		return check(st);
	}
	st->busy = true;
	PY_ENTER_LIBRARY;
	rc = weka_stream_next(st->feed->weka, &batch);
	PY_LEAVE_LIBRARY;
	st->busy = false;
	if (rc == 1)
		job_take(st, job, batch);
	if (rc == -EAGAIN && !PyErr_Occurred() && weka_get_counters(s->weka, &counters) == 0 &&
	    counters.pool_used_bytes > s->leased_bytes) {
		(void)py_unblock(s, 0, NULL);
		return -EAGAIN;
	}
	if (py_unblock(s, rc < 0 ? rc : 0, NULL) == 0)
		return rc;
	return rc == 1 ? -EINTR : -1;
}

/* Memory of cancelled requests comes back by itself. */
static int nap(void)
{
	const struct timespec ms = { .tv_nsec = NAP_NS };

	Py_BEGIN_ALLOW_THREADS;
	(void)nanosleep(&ms, NULL);
	Py_END_ALLOW_THREADS;
	return PyErr_CheckSignals();
}

/* A job with a batch; NULL at the end of the epoch, or with an exception. */
static struct py_job *job_next(struct py_stream *st)
{
	struct py_job *job = st->kept;
	uint32_t naps = 0;
	int rc = 1;

	if (check(st) < 0)
		return NULL;
	st->kept = NULL;
	if (job)
		return job;
	job = calloc(1, sizeof(*job));
	if (!job) {
		PyErr_NoMemory();
		return NULL;
	}
	while ((rc = take(st, job)) == -EAGAIN && !PyErr_Occurred()) {
		if (naps++ == NAPS_MAX)
			py_raise(-EAGAIN,
				 "the pool has no room for a batch: release batches, or raise "
				 "pool_bytes",
				 NULL);
		else if (nap() == 0 && check(st) == 0)
			continue;
		break;
	}
	if (rc == 1)
		return job;
	if (rc == -EINTR) /* (2) */
		st->kept = job;
	else
		free(job);
	return NULL;
}

PyObject *py_stream_next(PyObject *self)
{
	struct py_stream *st = (struct py_stream *)self;
	struct py_job *job = job_next(st);
	struct py_batch *batch = NULL;

	if (job && st->closed) { /* during the call, by a signal handler or another thread */
		job_drop(st->session, job);
		(void)check(st);
	} else if (job) {
		batch = py_batch_new(st->session, job, py_types.sample_batch);
		if (batch)
			st->cursor = st->kept_end; /* (3) */
		else
			st->kept = job;
	}
	if (st->closed)
		py_stream_let_go(st);
	return (PyObject *)batch;
}

/* ---- opening ------------------------------------------------------------------------------- */

static struct py_stream *stream_new(struct py_session *s, struct py_feed *f)
{
	struct py_stream *st = PyObject_New(struct py_stream, py_types.stream);

	if (!st)
		return NULL;
	memset((char *)st + sizeof(PyObject), 0, sizeof(*st) - sizeof(PyObject));
	st->session = s;
	Py_INCREF((PyObject *)s);
	st->feed = f;
	s->jobs++;
	(void)weka_stream_cursor(f->weka, &st->cursor);
	return st;
}

/* A cursor that does not fit is a wrong argument. */
static void cursor_error(bool has_cursor)
{
	PyObject *kind, *value, *trace, *text;

	if (!has_cursor || !PyErr_ExceptionMatches(PyExc_OSError))
		return;
	PyErr_Fetch(&kind, &value, &trace);
	PyErr_NormalizeException(&kind, &value, &trace);
	text = value ? PyObject_GetAttrString(value, "strerror") : NULL;
	if (text)
		PyErr_SetObject(PyExc_ValueError, text);
	Py_XDECREF(text);
	Py_XDECREF(kind);
	Py_XDECREF(value);
	Py_XDECREF(trace);
}

static int feed_open(struct py_session *s, struct py_feed *f, const struct weka_epoch *epoch,
		     const struct weka_cursor *cursor)
{
	int err;

	if (py_block(s, NULL) < 0)
		return -1;
	PY_ENTER_LIBRARY;
	err = weka_stream_open(s->weka, f->opened->weka, epoch, cursor, &f->weka);
	PY_LEAVE_LIBRARY;
	if (py_unblock(s, err, NULL) == 0)
		return 0;
	if (err == -ESTALE && !py_is_stale(s))
		cursor_error(cursor != NULL);
	return -1;
}

PyObject *py_stream_open(struct py_dataset *d, struct weka_epoch *epoch,
			 const struct weka_cursor *cursor, PyObject *pool)
{
	struct py_feed *f = calloc(1, sizeof(*f));
	struct py_stream *st = NULL;
	struct py_session *s;

	if (!f)
		return PyErr_NoMemory();
	s = py_begin(d->client);
	if (s && py_pool_from(pool, s, &epoch->pool) == 0)
		f->opened = py_opened_get(d, s);
	if (f->opened && feed_open(s, f, epoch, cursor) == 0)
		st = stream_new(s, f);
	if (!st) {
		if (f->weka)
			weka_stream_close(f->weka);
		if (f->opened)
			py_opened_put(f->opened);
		free(f);
	}
	if (s)
		py_end(s);
	return (PyObject *)st;
}
