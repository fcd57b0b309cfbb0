/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Jobs, the inside of a batch: made from the caller's sequences, cut into requests, ended.
 *
 *    items   [ 0 | 1 | 2 | ....................... | n - 1 ]    what the batch shows
 *    parts   [  request, lease  ][  request, lease  ] ...       of items that lie together
 *            [ request, lease: items 1, 17, 30 ]                larger than expected: second round
 *
 * How large the files are is known only when they have been read.  The first window is as large as
 * files of the last batches were; files that it does not hold are read again, into a window that is
 * exactly large enough.
 *
 * Invariants:
 *
 *  (1) Every item belongs to the part that read it last, and that part's lease has its bytes
 *      [test_batch:test_larger_than_expected, test_batch:test_hashes_of_everything].
 *  (2) A job is freed only when none of its requests is in flight, or when the client is closed
 *      [test_batch:test_a_batch_that_was_never_waited_for,
 *      test_batch:test_batches_outlive_their_client].
 *  (3) The names are copied, so that a job needs nothing of Python.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- from Python -------------------------------------------------------------------------- */

/* Names one behind the other, growing. */
struct names {
	char *bytes;
	size_t used;
	size_t room;
};

static int names_add(struct names *names, const struct py_path *path)
{
	const size_t need = names->used + path->bytes + 1;

	if (need > names->room) {
		const size_t room = max_u64(need, 2 * names->room);
		char *grown = realloc(names->bytes, room);

		if (!grown) {
			PyErr_NoMemory();
			return -1;
		}
		names->bytes = grown;
		names->room = room;
	}
	memcpy(names->bytes + names->used, path->text, path->bytes);
	names->bytes[need - 1] = 0;
	names->used = need;
	return 0;
}

static int item_set(struct weka_read_item *item, struct names *names, PyObject *name)
{
	struct py_path path;
	int failed;

	if (!py_path_from(name, &path))
		return -1;
	item->ref = py_path_ref(&path);
	item->length_bytes = WEKA_TO_END;
	failed = names_add(names, &path);
	py_path_clear(&path);
	return failed;
}

/* `numbers`, None or a sequence of ints and None, into the field at `at` of each item. */
static int numbers_set(struct py_job *job, PyObject *numbers, const char *what, size_t at,
		       uint64_t otherwise)
{
	PyObject *all;
	uint32_t i;
	int failed = 0;

	if (numbers == Py_None)
		return 0;
	all = py_sequence(numbers, what);
	if (!all)
		return -1;
	if (PyTuple_Size(all) != (Py_ssize_t)job->count) {
		PyErr_Format(PyExc_ValueError, "%s: %zd for %u paths", what, PyTuple_Size(all),
			     job->count);
		failed = -1;
	}
	for (i = 0; i < job->count && !failed; i++)
		failed = py_u64(PyTuple_GetItem(all, i), what, otherwise,
				(uint64_t *)(void *)((char *)&job->items[i] + at));
	Py_DECREF(all);
	return failed;
}

static int items_set(struct py_job *job, PyObject *paths)
{
	struct names names = { 0 };
	const char *name;
	uint32_t i;
	int failed = 0;

	for (i = 0; i < job->count && !failed; i++)
		failed = item_set(&job->items[i], &names, PyTuple_GetItem(paths, i));
	job->names = names.bytes;
	name = names.bytes;
	for (i = 0; i < job->count && !failed; i++) {
		job->items[i].ref.name = name;
		name += job->items[i].ref.name_bytes + 1;
	}
	ASSERT(failed || name == names.bytes + names.used); /* (3) */
	return failed;
}

static int lengths_check(const struct py_job *job)
{
	uint32_t i;

	for (i = 0; i < job->count; i++) {
		if (job->items[i].length_bytes == 0) {
			PyErr_SetString(PyExc_ValueError, "lengths: 1 or more, or None");
			return -1;
		}
	}
	return 0;
}

struct py_job *py_job_alloc(Py_ssize_t count)
{
	struct py_job *job;

	if (count > (Py_ssize_t)PY_ITEMS_MAX) {
		PyErr_Format(PyExc_ValueError, "a batch of %zd files: at most %u", count,
			     PY_ITEMS_MAX);
		return NULL;
	}
	job = calloc(1, sizeof(*job));
	if (job)
		job->items = calloc((size_t)count + 1, sizeof(*job->items));
	if (!job || !job->items) {
		free(job);
		PyErr_NoMemory();
		return NULL;
	}
	job->count = (uint32_t)count;
	return job;
}

struct py_job *py_job_new(PyObject *paths, PyObject *offsets, PyObject *lengths)
{
	PyObject *all = py_sequence(paths, "paths");
	struct py_job *job = all ? py_job_alloc(PyTuple_Size(all)) : NULL;

	if (job && (items_set(job, all) < 0 ||
		    numbers_set(job, offsets, "offsets",
				offsetof(struct weka_read_item, offset_bytes), 0) < 0 ||
		    numbers_set(job, lengths, "lengths",
				offsetof(struct weka_read_item, length_bytes), WEKA_TO_END) < 0 ||
		    lengths_check(job) < 0)) {
		py_job_free(job);
		job = NULL;
	}
	Py_XDECREF(all);
	return job;
}

/* ---- into requests ------------------------------------------------------------------------ */

/* Blocks of a piece whose length is known, or 0. */
static uint64_t blocks_known(const struct weka_read_item *item)
{
	if (item->length_bytes > PY_EXACT_MAX)
		return 0;
	return div_up(item->offset_bytes % WEKA_BLOCK + item->length_bytes, WEKA_BLOCK) + 1;
}

/* Blocks of a file of the size that files had lately. */
static uint64_t blocks_usual(const struct py_session *s)
{
	return div_up(s->item_bytes + s->item_bytes / 8, WEKA_BLOCK) + 1;
}

/* A part takes no more of the pool than this, so that several batches have room. */
static uint64_t part_blocks_max(const struct py_session *s)
{
	return max_u64(min_u64(s->pool_bytes / 4, s->window_max_bytes / 2) / WEKA_BLOCK, 1);
}

/* A guess takes a part of the free memory, so that wrong guesses leave room for the next. */
static uint64_t free_blocks(const struct py_session *s)
{
	return (s->pool_bytes - min_u64(s->leased_bytes, s->pool_bytes)) / WEKA_BLOCK;
}

/* How many items from `items` on, at most `count`, one request takes; *blocks: its window.  A guess
 * never makes it fewer: files that were large say nothing about these. */
static uint32_t part_of(const struct py_session *s, const struct weka_read_item *items,
			uint32_t count, uint64_t *blocks)
{
	const uint64_t blocks_max = part_blocks_max(s);
	uint64_t known = 0, guessed = 0;
	uint32_t names = 0, i;

	for (i = 0; i < min_u32(count, s->batch_items_max); i++) {
		const uint64_t more = blocks_known(&items[i]);

		names += items[i].ref.name_bytes;
		if (i > 0 && (known + more > blocks_max || names > PY_NAMES_MAX))
			break;
		known += more;
		guessed += more ? 0 : blocks_usual(s);
	}
	guessed = min_u64(guessed, free_blocks(s) / 4);
	*blocks = max_u64(min_u64(known + guessed, blocks_max), 1);
	return i;
}

int py_job_plan(struct py_session *s, struct py_job *job)
{
	uint32_t first = 0, count;
	uint64_t blocks;
	int err = 0;

	while (first < job->count && !err) {
		count = part_of(s, &job->items[first], job->count - first, &blocks);
		err = py_part_add(s, job, &job->items[first], NULL, count, blocks, 0);
		first += count;
	}
	return err;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* A stream's batch goes back to its stream. */
static void lent_end(struct py_session *s, struct py_job *job)
{
	if (job->batch->lease)
		s->leased_bytes -= job->batch->lease->size_bytes;
	(void)weka_stream_release(job->feed->weka, job->batch);
	job->feed->jobs--;
}

void py_job_end(struct py_session *s, struct py_job *job)
{
	struct py_part *part;

	if (job->feed)
		lent_end(s, job);
	for (part = job->parts; part; part = part->next) {
		if (part->is_out)
			py_forsake(s, &part->op);
		part->is_out = false;
		py_release_locked(s, part->window.lease);
		part->window.lease = NULL;
	}
}

void py_job_free(struct py_job *job)
{
	struct py_part *part;

	while ((part = job->parts) != NULL) {
		job->parts = part->next;
		if (part->index) /* else they are the job's */
			free(part->items);
		free(part->index);
		free(part);
	}
	if (!job->feed)
		free(job->items);
	free(job->names);
	free(job->lengths);
	free(job);
}

void py_job_drop(struct py_session *s, struct py_job *job)
{
	ASSERT(s->jobs > 0); /* py_batch.c (2) */
	s->jobs--;
	job->next = s->dropped;
	s->dropped = job;
	if (s->closing && s->calls == 0 && s->jobs == 0)
		py_session_close(s);
	else if (s->thread == PyThread_get_thread_ident() && py_trylock(s))
		py_unlock(s);
}
