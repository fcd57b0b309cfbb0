/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Starts a thread for each member, and lets them begin together. */
#include "bench/target/target_crew.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"

#include <pthread.h>
#include <stdlib.h>

struct one {
	struct target_crew *crew;
	struct target_member member;
	pthread_t thread;
	int err;
};

struct target_crew {
	uint32_t count;
	pthread_barrier_t begin;
	int (*work)(struct target_member *m);
	struct one one[];
};

int target_crew_create(struct target_crew **out, struct target *t, uint32_t count)
{
	struct target_crew *c = calloc(1, sizeof(*c) + count * sizeof(c->one[0]));

	*out = NULL;
	if (!c)
		return bench_fail("out of memory");
	c->count = count;
	if (pthread_barrier_init(&c->begin, NULL, count) != 0) {
		free(c);
		return bench_fail("no barrier for %u threads", count);
	}
	for (uint32_t i = 0; i < count; i++) {
		c->one[i].crew = c;
		c->one[i].member.index = i;
		c->one[i].member.count = count;
		if (target_session_open(t, &c->one[i].member.session)) {
			target_crew_destroy(c);
			return 1;
		}
	}
	*out = c;
	return 0;
}

void target_crew_destroy(struct target_crew *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		target_session_close(c->one[i].member.session);
	pthread_barrier_destroy(&c->begin);
	free(c);
}

static void *run_one(void *arg)
{
	struct one *o = arg;
	struct target_member *m = &o->member;

	(void)pthread_barrier_wait(&o->crew->begin);
	m->began_ns = clock_now_ns();
	o->err = o->crew->work(m);
	if (m->ns == 0)
		m->ns = clock_now_ns() - m->began_ns;
	return NULL;
}

int target_crew_run(struct target_crew *c, int (*work)(struct target_member *m), void *ctx)
{
	int err = 0;

	c->work = work;
	for (uint32_t i = 0; i < c->count; i++) {
		c->one[i].member.ctx = ctx;
		c->one[i].member.bytes = 0;
		c->one[i].member.ns = 0;
		c->one[i].err = 0;
		if (pthread_create(&c->one[i].thread, NULL, run_one, &c->one[i]) != 0) {
			/* Those that began wait for the rest for ever. */
			(void)bench_fail("cannot start %u threads", c->count);
			_Exit(1);
		}
	}
	for (uint32_t i = 0; i < c->count; i++) {
		pthread_join(c->one[i].thread, NULL);
		err |= c->one[i].err;
	}
	return err ? 1 : 0;
}

const struct target_member *target_crew_member(const struct target_crew *c, uint32_t index)
{
	ASSERT(index < c->count);
	return &c->one[index].member;
}

void target_crew_total(const struct target_crew *c, uint64_t *ns, uint64_t *bytes)
{
	*ns = 0;
	*bytes = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		*ns = max_u64(*ns, c->one[i].member.ns);
		*bytes += c->one[i].member.bytes;
	}
}
