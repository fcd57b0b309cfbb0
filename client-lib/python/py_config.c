/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The arguments of Client(): where to connect, with which key, within which limits.
 *
 * They are kept, because every thread and every child process connects by itself.  A client is
 * pickled as its arguments, so that a child that was spawned gets one of its own.  A secret that
 * was given as bytes is never pickled: pickles lie in files and pipes.
 *
 * Invariants:
 *
 *  (1) A py_config is zero or owns all that it points to, also after an error
 *      [test_misuse:test_clients_that_cannot_be, e2e_python_asan].
 */
#include "client-lib/python/py_weka.h"

#include <stdlib.h>
#include <string.h>

static int copy(char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	if (text && !*to) {
		PyErr_NoMemory();
		return -1;
	}
	return 0;
}

static int secret_from(struct py_config *config, PyObject *key)
{
	char *bytes;
	Py_ssize_t size;

	if (key == Py_None)
		return 0;
	if (PyBytes_AsStringAndSize(key, &bytes, &size) < 0)
		return -1;
	if (size != sizeof(config->secret)) {
		PyErr_Format(PyExc_ValueError, "key must have 32 bytes, not %zd", size);
		return -1;
	}
	memcpy(config->secret, bytes, sizeof(config->secret));
	config->has_secret = true;
	return 0;
}

/* A path for key_file=; the environment's if neither it nor a secret is given. */
static int key_file_from(struct py_config *config, PyObject *file)
{
	PyObject *bytes = NULL;
	int failed;

	if (file == Py_None)
		return copy(&config->key_file, config->has_secret ? NULL : getenv("WEKA_KEY_FILE"));
	if (config->has_secret) {
		PyErr_SetString(PyExc_ValueError, "key and key_file: give one of them");
		return -1;
	}
	if (!PyUnicode_FSConverter(file, &bytes))
		return -1;
	failed = copy(&config->key_file, PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	return failed;
}

static int seconds_from(PyObject *seconds, const char *what, uint64_t *out_ns)
{
	if (seconds == Py_None)
		return 0;
	if (py_seconds(seconds, what, out_ns) < 0)
		return -1;
	if (*out_ns == 0) {
		PyErr_Format(PyExc_ValueError, "%s must be more than 0 s", what);
		return -1;
	}
	return 0;
}

static int u32_from(PyObject *number, const char *what, uint32_t *out)
{
	uint64_t value;

	if (py_u64(number, what, 0, &value) < 0)
		return -1;
	if (value > UINT32_MAX) {
		PyErr_Format(PyExc_OverflowError, "%s must be below 2**32", what);
		return -1;
	}
	*out = (uint32_t)value;
	return 0;
}

static int addresses_set(struct py_config *config, const char *addresses)
{
	if (!addresses || !addresses[0]) {
		PyErr_SetString(PyExc_ValueError,
				"no address: give one, such as \"shm:/run/weka.sock\" or "
				"\"tcp://HOST:7010\", or set WEKA_ADDRESS");
		return -1;
	}
	return copy(&config->addresses, addresses);
}

/* A str for addresses=, which may hold the path of a socket; or the environment's. */
static int addresses_from(struct py_config *config, PyObject *addresses)
{
	PyObject *bytes = NULL;
	int failed;

	if (addresses == Py_None)
		return addresses_set(config, getenv("WEKA_ADDRESS"));
	if (!PyUnicode_Check(addresses)) {
		PyErr_SetString(PyExc_TypeError, "addresses must be one str, or None");
		return -1;
	}
	if (!PyUnicode_FSConverter(addresses, &bytes))
		return -1;
	failed = addresses_set(config, PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	return failed;
}

int py_config_init(struct py_config *config, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "addresses",       "key_file",          "key_id", "key",
				 "pool_bytes",      "requests_max",      "lanes",  "timeout",
				 "connect_timeout", "reconnect_timeout", NULL };
	PyObject *file = Py_None, *key = Py_None, *pool = Py_None, *requests = Py_None;
	PyObject *lanes = Py_None, *timeout = Py_None, *to_connect = Py_None;
	PyObject *to_reconnect = Py_None;
	PyObject *addresses = Py_None;
	const char *key_id = NULL;
	struct weka_options *o = &config->options;

	o->size_bytes = sizeof(*o);
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OzOOOOOOO:Client", names, &addresses,
					 &file, &key_id, &key, &pool, &requests, &lanes, &timeout,
					 &to_connect, &to_reconnect))
		return -1;
	if (addresses_from(config, addresses) < 0 || secret_from(config, key) < 0 ||
	    key_file_from(config, file) < 0 || copy(&config->key_id, key_id) < 0)
		return -1;
	if (py_u64(pool, "pool_bytes", 0, &o->pool_bytes) < 0 ||
	    u32_from(requests, "requests_max", &o->requests_max) < 0 ||
	    u32_from(lanes, "lanes", &o->lanes) < 0)
		return -1;
	if (seconds_from(timeout, "timeout", &o->timeout_ns) < 0 ||
	    seconds_from(to_connect, "connect_timeout", &o->connect_timeout_ns) < 0)
		return -1;
	return seconds_from(to_reconnect, "reconnect_timeout", &o->reconnect_ns);
}

void py_config_clear(struct py_config *config)
{
	free(config->addresses);
	free(config->key_file);
	free(config->key_id);
	explicit_bzero(config, sizeof(*config));
}

static PyObject *seconds_of(uint64_t ns)
{
	if (ns == 0)
		Py_RETURN_NONE;
	return PyFloat_FromDouble(ns == WEKA_FOREVER ? Py_HUGE_VAL : (double)ns / 1e9);
}

/* The path of the key's file as Python takes it back. */
static PyObject *file_of(const struct py_config *config)
{
	if (!config->key_file)
		Py_RETURN_NONE;
	return PyUnicode_DecodeFSDefault(config->key_file);
}

PyObject *py_config_pickle(const struct py_config *config)
{
	const struct weka_options *o = &config->options;

	if (config->has_secret) {
		PyErr_SetString(PyExc_TypeError, "a client with key= is not pickled, since the "
						 "pickle would show the secret: use key_file=");
		return NULL;
	}
	return Py_BuildValue("(N){s:N,s:z,s:K,s:I,s:I,s:N,s:N,s:N}",
			     PyUnicode_DecodeFSDefault(config->addresses), "key_file",
			     file_of(config), "key_id", config->key_id, "pool_bytes",
			     (unsigned long long)o->pool_bytes, "requests_max", o->requests_max,
			     "lanes", o->lanes, "timeout", seconds_of(o->timeout_ns),
			     "connect_timeout", seconds_of(o->connect_timeout_ns),
			     "reconnect_timeout", seconds_of(o->reconnect_ns));
}
