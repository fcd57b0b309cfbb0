/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Leases.
 *
 * A lease whose request was cancelled stays out of the pool until the appliance lets go of it,
 * which is soon.  When such leases have a part of a full pool, py_lease_locked() waits for them, at
 * most for a second.
 *
 * Invariants:
 *
 *  (1) leased_bytes counts the leases that were taken and not released, those of a stream's batches
 *      included.  Bytes that the pool has in use beyond that come back by themselves, or were read
 *      ahead by a stream.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define WAITS_MAX 2000u
#define WAIT_NS   (500u * 1000)

/* Cancelled requests have some of the pool (1). */
static bool comes_back(const struct py_session *s)
{
	struct weka_counters counters = { .size_bytes = sizeof(counters) };

	return weka_get_counters(s->weka, &counters) == 0 &&
	       counters.pool_used_bytes > s->leased_bytes;
}

int py_lease_locked(struct py_session *s, uint64_t bytes, struct weka_lease **out)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	int err = weka_lease(s->weka, bytes, out);
	uint32_t i;

	for (i = 0; i < WAITS_MAX && err == -EAGAIN && comes_back(s); i++) {
		(void)py_turn(s, 0);
		(void)nanosleep(&pause, NULL);
		err = weka_lease(s->weka, bytes, out);
	}
	if (!err)
		s->leased_bytes += (*out)->size_bytes;
	return err;
}

void py_release_locked(struct py_session *s, struct weka_lease *lease)
{
	if (!lease)
		return;
	ASSERT(s->leased_bytes >= lease->size_bytes); /* (1) */
	s->leased_bytes -= lease->size_bytes;
	(void)weka_release(s->weka, lease);
}

struct weka_lease *py_lease(struct py_session *s, uint64_t bytes, uint64_t least)
{
	struct weka_lease *lease = NULL;
	char line[PY_LINE_BYTES] = "";
	int err;

	py_lock(s);
	PY_ENTER_LIBRARY;
	for (;;) {
		bytes = max_u64(bytes, least);
		err = py_lease_locked(s, bytes, &lease);
		if (bytes == least || (err != -EAGAIN && err != -EMSGSIZE))
			break;
		bytes /= 2;
	}
	if (err)
		strncpy(line, weka_error(s->weka), sizeof(line) - 1);
	PY_LEAVE_LIBRARY;
	py_unlock(s);
	if (err)
		py_raise(err, line, NULL);
	return lease;
}

void py_release(struct py_session *s, struct weka_lease *lease)
{
	py_lock(s);
	py_release_locked(s, lease);
	py_unlock(s);
}
