/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/client_seen.h"

#include "base/assert.h"
#include "base/clock.h"
#include "client-lib/client_internal.h"

#include <unistd.h>

struct weka_req *reap_one(struct weka_client *c)
{
	struct weka_req *done;
	int got;

	while ((got = weka_reap(c, &done, 1)) == 0)
		if (weka_wait(c, 60 * NS_PER_S))
			return NULL;
	return got == 1 ? done : NULL;
}

struct weka_counters counters_of(const struct weka_client *c)
{
	struct weka_counters n = { .size_bytes = sizeof(n) };

	ASSERT(weka_get_counters(c, &n) == 0);
	return n;
}

bool are_held(struct script *s, struct weka_client *c, uint32_t count)
{
	struct weka_req *done;

	while (atomic_load(&s->held) < count) {
		if (weka_reap(c, &done, 1) != 0)
			return false;
		usleep(100);
	}
	return true;
}

void time_is_over(struct weka_client *c, const struct weka_req *req)
{
	uint32_t i = 0;

	while (c->slots[i].req != req)
		ASSERT(++i < c->requests_max);
	c->deadline_ns[i] = 1;
}
