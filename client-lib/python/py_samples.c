/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Dataset.read_batch(): samples by their numbers.
 *
 * Each is read by the path that the manifest has, in the state in which it was listed.  So a file
 * that was changed or replaced since is an error.
 *
 * Invariants:
 *
 *  (1) One block of memory has lengths, then samples, then labels.
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>
#include <string.h>

/* The job of these samples; its items are not set yet. */
static struct py_job *job_of(const struct py_dataset *d, PyObject *indices)
{
	PyObject *all = py_sequence(indices, "indices");
	struct py_job *job = all ? py_job_alloc(PyTuple_Size(all)) : NULL;
	uint64_t *samples;
	uint32_t i;
	int failed = 0;

	if (job) {
		job->lengths =
			calloc((size_t)job->count + 1, 2 * sizeof(uint64_t) + sizeof(uint32_t));
		failed = job->lengths ? 0 : -1;
		if (failed)
			PyErr_NoMemory();
	}
	samples = job && !failed ? job->lengths + job->count : NULL; /* (1) */
	for (i = 0; job && i < job->count && !failed; i++) {
		failed = py_u64(PyTuple_GetItem(all, i), "an index", UINT64_MAX, &samples[i]);
		if (!failed && samples[i] >= d->info.samples) {
			PyErr_SetString(PyExc_IndexError,
					"the dataset has no sample of that number");
			failed = -1;
		}
	}
	Py_XDECREF(all);
	if (failed) {
		py_job_free(job);
		return NULL;
	}
	if (job) {
		job->samples = samples;
		job->labels = (const uint32_t *)(samples + job->count);
	}
	return job;
}

/* Sets one item; its name is put at the end of the names. */
static int item_set(struct py_job *job, uint32_t i, const struct weka_sample *sample, size_t *used,
		    size_t *room)
{
	const size_t bytes = strlen(sample->path) + 1;
	char *grown;

	if (*used + bytes > *room) {
		*room = max_u64(*used + bytes, 2 * *room);
		grown = realloc(job->names, *room);
		if (!grown)
			return -ENOMEM;
		job->names = grown;
	}
	memcpy(job->names + *used, sample->path, bytes);
	*used += bytes;
	ASSERT(job->samples == job->lengths + job->count); /* (1) */
	job->items[i].ref.name_bytes = (uint32_t)(bytes - 1);
	job->items[i].offset_bytes = sample->offset_bytes;
	job->items[i].length_bytes = max_u64(sample->size_bytes, 1); /* no request reads 0 bytes */
	job->items[i].ctime_ns = sample->ctime_ns;
	job->lengths[i] = sample->size_bytes;
	((uint32_t *)(uintptr_t)job->labels)[i] = sample->label;
	return 0;
}

/* Without the GIL. */
static int items_set(struct weka_dataset *weka, struct py_job *job)
{
	struct weka_sample sample;
	size_t used = 0, room = 0;
	const char *name;
	uint32_t i, bytes;
	int err = 0;

	for (i = 0; i < job->count && !err; i++) {
		err = weka_dataset_sample(weka, job->samples[i], &sample);
		if (!err)
			err = item_set(job, i, &sample, &used, &room);
	}
	name = job->names;
	for (i = 0; i < job->count && !err; i++) {
		bytes = job->items[i].ref.name_bytes;
		job->items[i].ref = weka_ref_path(name);
		job->items[i].ref.name_bytes = bytes;
		name += bytes + 1;
	}
	return err;
}

static int find(struct py_dataset *d, struct py_session *s, struct py_job *job)
{
	struct py_opened *o = py_opened_get(d, s);
	int err;

	if (!o)
		return -1;
	if (py_block(s, NULL) < 0) {
		py_opened_put(o);
		return -1;
	}
	PY_ENTER_LIBRARY;
	err = items_set(o->weka, job);
	PY_LEAVE_LIBRARY;
	err = py_unblock(s, err, NULL);
	py_opened_put(o);
	return err;
}

PyObject *py_dataset_read_batch(PyObject *self, PyObject *indices)
{
	struct py_dataset *d = (struct py_dataset *)self;
	struct py_batch *batch = NULL;
	struct py_session *s;
	struct py_job *job;

	if (d->closed) {
		PyErr_SetString(PyExc_ValueError, "the dataset is closed");
		return NULL;
	}
	job = job_of(d, indices);
	s = job ? py_begin(d->client) : NULL;
	if (s && find(d, s, job) == 0)
		batch = py_job_submit(s, job, true, py_types.sample_batch);
	else if (job)
		py_job_free(job);
	if (s)
		py_end(s);
	return (PyObject *)batch;
}
