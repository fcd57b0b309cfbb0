/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Concurrent requests: a wait for one also reaps others that end meanwhile, and marks them.  A
 * burst is many small requests, CTL_BURST of them in flight, because each is a durable change that
 * takes as long as the drives need.
 */
#include "appliance/ctl/ctl_req.h"
#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Waits until something has ended. */
static int reap(struct ctl *c)
{
	struct weka_req *done[CTL_BURST];
	int count = weka_reap(c->client, done, CTL_BURST);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++)
		((struct ctl_req *)done[i]->user)->in_flight = false;
	if (count == 0 && weka_wait(c->client, WEKA_FOREVER) == -ENOENT)
		return -EIO;
	return 0;
}

int ctl_req_wait(struct ctl *c, struct ctl_req *r)
{
	while (r->in_flight) {
		int err = reap(c);

		if (err)
			return err;
	}
	return r->req.status;
}

int ctl_req_run(struct ctl *c, struct ctl_req *r, int submitted)
{
	if (submitted)
		return submitted;
	r->req.user = r;
	r->in_flight = true;
	return ctl_req_wait(c, r);
}

struct slot {
	struct ctl_req r;
	uint32_t i;
	bool busy;
};

static void slot_end(struct ctl *c, const struct ctl_burst *b, struct slot *s)
{
	int status;

	if (!s->busy)
		return;
	status = ctl_req_wait(c, &s->r);
	s->r.in_flight = false;
	s->busy = false;
	b->answer(b->arg, s->i, &s->r.req, status);
}

/* Returns the submit's result.  When the client has no free slot, waits for other requests of the
 * burst. */
static int slot_start(struct ctl *c, const struct ctl_burst *b, struct slot *slots, struct slot *s,
		      uint32_t i)
{
	uint32_t other = 0;
	int err;

	while ((err = b->submit(b->arg, i, &s->r.req)) == -EAGAIN) {
		while (other < CTL_BURST && !slots[other].busy)
			other++;
		if (other < CTL_BURST)
			slot_end(c, b, &slots[other]);
		else if (reap(c))
			return err;
	}
	return err;
}

void ctl_burst_run(struct ctl *c, const struct ctl_burst *b, uint32_t count)
{
	struct slot slots[CTL_BURST] = { 0 };
	struct weka_limits limits = { .size_bytes = sizeof(limits) };

	ASSERT(weka_get_limits(c->client, &limits) == 0 && limits.requests_max >= CTL_REQUESTS);
	for (uint32_t i = 0; i < count; i++) {
		struct slot *s = &slots[i % CTL_BURST];
		int err;

		slot_end(c, b, s);
		s->r.req.user = &s->r;
		err = slot_start(c, b, slots, s, i);
		if (err < 0)
			b->answer(b->arg, i, &s->r.req, err);
		if (err)
			continue;
		s->i = i;
		s->busy = true;
		s->r.in_flight = true;
		weka_flush(c->client);
	}
	for (uint32_t i = 0; i < CTL_BURST; i++)
		slot_end(c, b, &slots[(count + i) % CTL_BURST]);
}

/* Not from 0 on: a process of the same number may have left some of its names. */
void ctl_part_name(char name[CTL_PART_NAME])
{
	static _Atomic uint64_t count;
	uint64_t none = 0;

	atomic_compare_exchange_strong_explicit(&count, &none, clock_wall_ns(),
						memory_order_relaxed, memory_order_relaxed);
	snprintf(name, CTL_PART_NAME, ".wk-part-%d-%llx", (int)getpid(),
		 (unsigned long long)atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
}

bool ctl_is_fatal(int err)
{
	return err == -ENOTCONN || err == -ECONNRESET || err == -ETIMEDOUT || err == -ENOSPC ||
	       err == -EROFS || err == -EPROTO;
}
