/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Connecting, in a thread of its own, so that Ctrl-C ends it.
 *
 *      the caller                      the connecting thread
 *      starts it                         weka_connect(), for as long as connect_timeout
 *      waits, looks for signals          leaves the result, posts `ended`
 *      takes the result                  ends
 *
 * weka_connect() waits, and signals do not end it.  The thread knows nothing of Python.  The caller
 * joins it; only a caller that a signal takes away leaves it behind, and then it closes what it has
 * connected.
 *
 *   H1 -> H2   a holder's last use of the struct comes before the other holder frees it
 *   I1 -> J1   (py_module.c)
 *
 * Invariants:
 *
 *  (1) Caller and thread each hold the struct once; the last one frees it, and closes a client that
 *      was not taken.
 */
#include "client-lib/python/py_weka.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct connecting {
	struct py_config config;
	_Atomic int holders;
	sem_t ended;
	pthread_t thread;
	struct weka_client *client;
	int err;
	char line[PY_LINE_BYTES];
};

static void put(struct connecting *c)
{
	const int held = /* H1, H2 */
		atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel);

	ASSERT(held > 0); /* (1) */
	if (held > 1)
		return;
	weka_close(c->client);
	sem_destroy(&c->ended);
	py_config_clear(&c->config);
	free(c);
}

static void *run(void *arg)
{
	struct connecting *c = arg;
	const struct py_config *config = &c->config;
	const struct weka_key key = {
		.id = config->key_id,
		.secret = config->has_secret ? config->secret : NULL,
		.file = config->key_file,
	};
	const bool has_key = config->has_secret || config->key_file;

	c->err = weka_connect(config->addresses, has_key ? &key : NULL, &config->options,
			      &c->client);
	if (c->err)
		strncpy(c->line, weka_error(NULL), sizeof(c->line) - 1);
	sem_post(&c->ended);
	put(c);
	atomic_fetch_sub_explicit(&py_inside, 1, memory_order_release); /* I1 */
	return NULL;
}

static struct connecting *connecting_new(const struct py_config *from)
{
	struct connecting *c = calloc(1, sizeof(*c));
	struct py_config *to = &c->config;

	if (!c)
		return NULL;
	*to = *from;
	to->addresses = strdup(from->addresses);
	to->key_file = from->key_file ? strdup(from->key_file) : NULL;
	to->key_id = from->key_id ? strdup(from->key_id) : NULL;
	sem_init(&c->ended, 0, 0);
	atomic_init(&c->holders, 1);
	if (to->addresses && !to->key_file == !from->key_file && !to->key_id == !from->key_id)
		return c;
	put(c);
	return NULL;
}

/* Signals are for Python's threads. */
static int start(struct connecting *c)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_store_explicit(&c->holders, 2, memory_order_relaxed);
	atomic_fetch_add_explicit(&py_inside, 1, memory_order_relaxed);
	err = pthread_create(&c->thread, NULL, run, c);
	if (err) {
		atomic_store_explicit(&c->holders, 1, memory_order_relaxed);
		atomic_fetch_sub_explicit(&py_inside, 1, memory_order_relaxed);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

/* Returns 0 when it has ended, -1 with a signal handler's exception. */
static int wait(struct connecting *c)
{
	const uint64_t generation = py_generation;
	struct timespec until;
	uint64_t until_ns;
	int got;

	do {
		Py_BEGIN_ALLOW_THREADS;
		until_ns = clock_now_ns() + PY_SLICE_NS;
		until.tv_sec = (time_t)(until_ns / 1000000000);
		until.tv_nsec = (long)(until_ns % 1000000000);
		got = sem_clockwait(&c->ended, CLOCK_MONOTONIC, &until);
		Py_END_ALLOW_THREADS;
		if (got < 0 && PyErr_CheckSignals())
			return -1;
		if (py_generation !=
		    generation) { /* a signal handler forked: the thread is not here */
			py_raise(-ESTALE, "the process was forked while it connected", NULL);
			return -1;
		}
	} while (got < 0);
	return 0;
}

static PyObject *addresses_of(const struct py_config *config)
{
	return PyUnicode_DecodeFSDefault(config->addresses);
}

struct weka_client *py_connect(const struct py_config *config)
{
	struct connecting *c = connecting_new(config);
	struct weka_client *client = NULL;
	PyObject *addresses;
	int err = c ? start(c) : -ENOMEM;

	if (!err && wait(c) < 0) {
		pthread_detach(c->thread);
		put(c);
		return NULL;
	}
	if (!err) {
		Py_BEGIN_ALLOW_THREADS;
		pthread_join(c->thread, NULL);
		Py_END_ALLOW_THREADS;
		err = c->err;
		client = c->client;
		c->client = NULL;
	}
	if (err) {
		addresses = addresses_of(config);
		if (addresses)
			py_raise(err, c ? c->line : NULL, addresses);
		Py_XDECREF(addresses);
	}
	if (c)
		put(c);
	return client;
}
