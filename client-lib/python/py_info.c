/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Client.info(): what a session has, and what happened to it.
 *
 * Invariants:
 *
 *  (1) The numbers are of the calling thread's session, taken at one moment
 *      [test_threads:test_each_thread_has_its_session].
 */
#include "client-lib/python/py_weka.h"

static PyObject *info_new(const struct weka_limits *l, const struct weka_counters *c)
{
	return Py_BuildValue(
		"{s:s,s:N,s:I,s:I,s:K,s:K,s:I,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "transport",
		l->transport, "address", PyUnicode_DecodeFSDefault(l->address), "lanes", l->lanes,
		"cores", l->cores, "pool_bytes", (unsigned long long)l->pool_bytes,
		"pool_used_bytes", (unsigned long long)c->pool_used_bytes, "requests_max",
		l->requests_max, "submitted", (unsigned long long)c->submitted, "completed",
		(unsigned long long)c->completed, "timeouts", (unsigned long long)c->timeouts,
		"reconnects", (unsigned long long)c->reconnects, "replays",
		(unsigned long long)c->replays, "blocks_checked",
		(unsigned long long)c->blocks_checked, "blocks_wrong",
		(unsigned long long)c->blocks_wrong, "busy", (unsigned long long)c->busy);
}

PyObject *py_client_info(PyObject *self, PyObject *none)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };
	struct weka_counters counters = { .size_bytes = sizeof(counters) };
	struct py_session *s = py_begin((struct py_client *)self);
	int err;

	(void)none;
	if (!s)
		return NULL;
	py_lock(s);
	err = weka_get_limits(s->weka, &limits);
	if (!err)
		err = weka_get_counters(s->weka, &counters);
	py_unlock(s);
	py_end(s);
	if (err) {
		py_raise(err, NULL, NULL);
		return NULL;
	}
	return info_new(&limits, &counters);
}
