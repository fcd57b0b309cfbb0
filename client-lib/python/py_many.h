/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Many names at once: put_batch(), stat_batch(), remove_batch().
 *
 *    sequence --> groups of so many that one request takes --> a list of results
 */
#ifndef PY_MANY_H
#define PY_MANY_H

#include "client-lib/python/py_weka.h"

#define PY_GROUP_MAX   256u
#define PY_GROUP_BYTES (8u << 20)

/* One name of a group, in all three. */
struct py_one {
	struct py_path path;
	Py_buffer data; /* put_batch(); buf NULL: none */
};

struct py_group {
	struct py_one *one[PY_GROUP_MAX];
	union {
		struct weka_put_item put[PY_GROUP_MAX];
		struct weka_stat_item stat[PY_GROUP_MAX];
		struct weka_unlink_item unlink[PY_GROUP_MAX];
	} items;
	uint32_t count;
	uint32_t name_bytes;
	uint64_t payload_bytes;
	struct weka_create create;
	PyObject *results;
};

/* One of the three. */
struct py_kind {
	/* Takes the next of the sequence into one[count], or returns -1. */
	int (*take)(struct py_one *one, PyObject *object);
	/* Does the group, and adds its results. */
	int (*run)(struct py_session *s, struct py_group *g);
};

/* Returns the list of results, or NULL with an exception. */
PyObject *py_many(struct py_client *client, PyObject *sequence, const char *what,
		  const struct py_kind *kind, const struct weka_create *create, bool return_errors);

#endif
