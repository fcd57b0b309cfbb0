/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pauses of waiting calls: now and then a call that waits leaves the client and enters it again, so
 * that the program can look for signals and other threads get a turn.
 *
 *    waiting call    wait 20 ms | leave   pause()   enter | wait 20 ms | ...
 *                                     others may enter
 *
 * Invariants:
 *  (1) A call pauses only between two waits: the client is then as it is between two calls, except
 *      that requests of the waiting call are in flight, and that the client must not be closed.
 *  (2) A call that is made during a pause does not pause itself.
 *  (3) After a pause that ends the call, all further waits of that call end at once
 *      [test_weka_pause:ends_shm].
 */
#include "client-lib/client_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>

int weka_set_pause(struct weka_client *c, int (*pause)(void *user), void *user)
{
	int err = client__enter(c);

	if (err)
		return err;
	c->pause = pause;
	c->pause_user = user;
	c->paused_ns = clock_now_ns();
	client__leave(c);
	return 0;
}

/* Enters again.  Another thread may be inside, but not for long: it leaves, or pauses as well. */
static int enter_again(struct weka_client *c)
{
	int err;

	ASSERT(c->pauses == 1);
	do {
		err = client__enter(c);
		if (err == -EBUSY)
			sched_yield();
	} while (err == -EBUSY);
	return err;
}

static int pause_now(struct weka_client *c)
{
	const uint32_t nested = c->nested;
	int stop, err;

	ASSERT(nested > 0 && c->in_leaf && c->pause); /* (1) */
	ASSERT(c->pauses == 0);                       /* (2) */
	c->nested = 0;
	c->pauses++;
	client__leave(c);
	stop = c->pause(c->pause_user);
	err = enter_again(c);
	c->pauses--;
	c->nested = nested;
	c->in_leaf = true;
	c->paused_ns = clock_now_ns();
	return err ? err : stop;
}

void client__pause(struct weka_client *c)
{
	const bool is_time = c->now_ns >= c->paused_ns + CLIENT_PAUSE_NS;

	ASSERT(c->nested > 0 || c->pauses > 0);
	if (is_time && !c->is_stopped && c->pauses == 0)
		c->is_stopped = pause_now(c) != 0;
}

bool client__stop(struct weka_client *c, struct weka_req *req)
{
	ASSERT(c->nested > 0 && c->in_leaf && c->is_stopped);
	if (client__forked(
		    c)) { /* by pause(), and this is the child: the request is the parent's */
		req->status = -ESTALE;
		client__req(req)->state = CLIENT_REQ_DONE;
		return true;
	}
	c->in_leaf = false; /* weka_cancel() is one of the calls that a waiting call is made of */
	(void)weka_cancel(c, req);
	c->in_leaf = true;
	return client__req(req)->state == CLIENT_REQ_DONE;
}
