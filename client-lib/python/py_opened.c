/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A dataset as one session has it open.
 *
 *    Dataset --- opened --+-- py_opened -- session of thread 1
 *                         +-- py_opened -- session of thread 2, or of the child after a fork
 *
 * Each thread that uses a Dataset opens the same version over its own session.
 *
 * Invariants:
 *
 *  (1) A py_opened is in both lists or in none.  Both lists together count as one reference.
 *  (2) All that are in a Dataset's list have the same content
 *      [test_dataset:test_a_dataset_that_was_made_anew].
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>
#include <string.h>

void py_opened_put(struct py_opened *o)
{
	ASSERT(o->refs > 0);
	if (--o->refs > 0)
		return;
	ASSERT(!list_linked(&o->of_dataset) && !list_linked(&o->of_session)); /* (1) */
	weka_dataset_close(o->weka);
	free(o);
}

void py_opened_unlink(struct py_opened *o)
{
	ASSERT(list_linked(&o->of_dataset) && list_linked(&o->of_session)); /* (1) */
	list_del(&o->of_dataset);
	list_del(&o->of_session);
	o->session = NULL;
	py_opened_put(o); /* (1) */
}

static struct py_opened *find(const struct py_dataset *d, const struct py_session *s)
{
	struct list *node;

	list_for_each (node, &d->opened) {
		struct py_opened *o = list_entry(node, struct py_opened, of_dataset);

		if (o->session == s)
			return o;
	}
	return NULL;
}

/* Compares contents (2): a version may have been removed, and another one made under its number. */
static bool is_same(const struct py_dataset *d, const struct weka_dataset *weka)
{
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };

	return weka_dataset_get_info(weka, &info) == 0 && info.samples == d->info.samples &&
	       info.created_ns == d->info.created_ns &&
	       memcmp(info.content, d->info.content, sizeof(info.content)) == 0;
}

/* Opens it in this session.  A Dataset that has no version yet takes that of this one. */
static int open_here(struct py_dataset *d, struct py_session *s, struct py_opened *o)
{
	PyObject *name = PyUnicode_FromString(d->name);
	int err;

	if (!name || py_block(s, NULL) < 0) {
		Py_XDECREF(name);
		return -1;
	}
	PY_ENTER_LIBRARY;
	err = weka_dataset_open(s->weka, d->name, d->info.version, &o->weka);
	PY_LEAVE_LIBRARY;
	err = py_unblock(s, err, name);
	if (!err && d->classes && !is_same(d, o->weka)) {
		py_raise(-ESTALE, "the dataset was removed, and made anew under its old version",
			 name);
		err = -1;
	}
	Py_DECREF(name);
	return err;
}

struct py_opened *py_opened_get(struct py_dataset *d, struct py_session *s)
{
	struct py_opened *o = find(d, s);

	if (o) {
		o->refs++;
		return o;
	}
	o = calloc(1, sizeof(*o));
	if (!o) {
		PyErr_NoMemory();
		return NULL;
	}
	o->refs = 1;
	list_init(&o->of_dataset);
	list_init(&o->of_session);
	if (open_here(d, s, o) < 0) {
		py_opened_put(o);
		return NULL;
	}
	if (d->closed || find(d, s)) /* by a signal handler during the wait */
		return o;
	o->session = s;
	list_push_back(&d->opened, &o->of_dataset);
	list_push_back(&s->opened, &o->of_session);
	o->refs++; /* (1) */
	return o;
}

int py_opened_sample(struct py_opened *o, struct py_session *s, uint64_t index,
		     struct weka_sample *out)
{
	int err;

	if (py_is_stale(s)) {
		py_raise(-ESTALE, "the batch is of the process that forked this one", NULL);
		return -1;
	}
	if (py_block(s, NULL) < 0)
		return -1;
	PY_ENTER_LIBRARY;
	err = weka_dataset_sample(o->weka, index, out);
	PY_LEAVE_LIBRARY;
	return py_unblock(s, err, NULL);
}
