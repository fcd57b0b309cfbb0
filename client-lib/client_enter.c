/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Makes sure that one thread at a time is inside a client.  A caller's mistake gets an error and a
 * line.
 *
 * Each thread that uses the library has a *seat*, which says what client it is inside.  A client
 * has an *owner*, the seat that entered it last.  The owner enters with two plain stores and loads
 * and no locked instruction; another thread takes the client over first:
 *
 *     owner:     E1 seat->in = c             other:    T1 c->owner = other, pending
 *                E2 c->owner == seat?                  T2 membarrier()
 *                   no: leave, take it over            T3 owner's seat->in == c?  then EBUSY
 *     leaves:    E3 seat->in = NULL                    T4 c->owner = other
 *
 * membarrier() makes every thread of the process pass a barrier between E1 and E2, before E1, or
 * after E2.  So either the owner sees at E2 that it is no longer the owner, or the other thread
 * sees at T3 that the owner is inside.  A kernel without membarrier() gets an exchange, which
 * misses a mistake now and then.
 *
 *   E1 -> T3   with the barrier, as said: the owner is seen inside, or sees that it is no longer
 *              the owner;
 *   E3 -> T3   the thread that takes the client over sees the owner's writes from inside;
 *   T1 -> E2   with the barrier, or in one order with E1 and T2: the other end of E1 -> T3;
 *   T2 -> E2   without membarrier(): one order of all seq_cst accesses has E1 or T2 first;
 *   T4 -> T0   a thread that asks for the owner sees the last one that took the client over.
 *
 *   C1 -> C2   a closed client is written to before a later close frees it.
 *
 *   E5 -> T5   a seat is filled in before `seats` leads to it.
 *
 * Seats are never freed, because a client may still name the seat of a thread that has ended.  A
 * new thread gets such a seat.
 *
 * A closed client is kept for a while, so that a late call gets an error.
 */
#define _GNU_SOURCE /* gettid */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSED_KEPT 32u  /* closed clients that are still recognised as closed */
#define YIELDS_MAX  100u /* while another thread takes a client over */

_Thread_local struct client_seat *client__seat CLIENT_TLS;

static _Atomic(struct client_seat *) seats;
static _Atomic(struct weka_client *) closed[CLOSED_KEPT];
static _Atomic uint32_t closed_next;

/* The last error of a call that had to be refused without writing into the client. */
static _Thread_local const struct weka_client *stray_client;
static _Thread_local char stray_line[sizeof(((struct weka_client *)0)->error)];

/* ---- lines ------------------------------------------------------------------------------ */

static int stray(const struct weka_client *c, int err, const char *text)
{
	ASSERT(err < 0 && text[0]);
	stray_client = c;
	snprintf(stray_line, sizeof(stray_line), "%s", text);
	return err;
}

const char *client__stray(const struct weka_client *c)
{
	return stray_client == c && stray_line[0] ? stray_line : NULL;
}

void client__stray_forget(const struct weka_client *c)
{
	if (unlikely(stray_client == c))
		stray_line[0] = 0;
}

int client__stray_fail(int err, const char *text)
{
	return stray(NULL, err, text);
}

int client__say(struct weka_client *c, int err, const char *format, ...)
{
	va_list args;

	ASSERT(err < 0);
	client__stray_forget(c);
	va_start(args, format);
	vsnprintf(c->error, sizeof(c->error), format, args);
	va_end(args);
	return err;
}

int client__refuse(struct weka_client *c, int err, const char *function, const char *text)
{
	int entered = client__enter(c);

	ASSERT(err < 0);
	if (entered)
		return entered;
	ASSERT(atomic_load_explicit(&client__seat->in, memory_order_relaxed) == c);
	(void)client__say(c, err, "%s: %s", function, text);
	client__leave(c);
	return err;
}

/* ---- seats ------------------------------------------------------------------------------ */

static bool thread_ended(const struct client_seat *seat, pid_t thread)
{
	return seat->process == getpid() && syscall(SYS_tgkill, seat->process, thread, 0) < 0 &&
	       errno == ESRCH;
}

/* Gives this thread a seat: that of a thread that has ended, or a new one.  A thread that was
 * cancelled in the middle of a call keeps its seat, and its client stays busy. */
static struct client_seat *seat_take(void)
{
	struct client_seat *seat = atomic_load_explicit(&seats, memory_order_acquire); /* T5 */
	const pid_t me = gettid();

	for (; seat; seat = seat->next) {
		pid_t thread = atomic_load_explicit(&seat->thread, memory_order_relaxed);

		if (!atomic_load_explicit(&seat->in, memory_order_relaxed) &&
		    thread_ended(seat, thread) &&
		    atomic_compare_exchange_strong_explicit(
			    &seat->thread, &thread, me, memory_order_relaxed, memory_order_relaxed))
			return seat;
	}
	seat = calloc(1, sizeof(*seat));
	if (!seat)
		return NULL;
	seat->process = getpid();
	ASSERT(((uintptr_t)seat & 1) == 0); /* pending() has the bit */
	atomic_init(&seat->thread, me);
	seat->next = atomic_load_explicit(&seats, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&seats, &seat->next, seat, /* E5 */
						      memory_order_release, memory_order_relaxed))
		;
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	return seat;
}

static void barrier_all(void)
{
	static _Atomic uint32_t exchanged;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) < 0)
		atomic_fetch_add_explicit(&exchanged, 1, memory_order_seq_cst); /* T2 */
}

static struct client_seat *pending(struct client_seat *seat)
{
	ASSERT(seat && ((uintptr_t)seat & 1) == 0);
	return (void *)((uintptr_t)seat | 1);
}

static struct client_seat *owner_of(const struct weka_client *c)
{
	return atomic_load_explicit(&c->owner, memory_order_seq_cst); /* T0 */
}

/* Makes this thread the owner, unless the owner is inside. */
static bool take_over(struct weka_client *c, struct client_seat *seat)
{
	struct client_seat *was = owner_of(c);

	for (uint32_t i = 0; (uintptr_t)was & 1; was = owner_of(c)) {
		if (i++ == YIELDS_MAX)
			return false;
		sched_yield();
	}
	if (!atomic_compare_exchange_strong_explicit(&c->owner, &was, pending(seat), /* T1 */
						     memory_order_seq_cst, memory_order_seq_cst))
		return false;
	barrier_all();                                                          /* T2 */
	if (was && atomic_load_explicit(&was->in, memory_order_acquire) == c) { /* T3 */
		atomic_store_explicit(&c->owner, was, memory_order_seq_cst);    /* T4 */
		return false;
	}
	atomic_store_explicit(&c->owner, seat, memory_order_seq_cst); /* T4 */
	return true;
}

/* ---- in and out --------------------------------------------------------------------------- */

/* A waiting call (weka_sync.h) submits and reaps through the public calls. */
static int enter_nested(struct weka_client *c)
{
	ASSERT(atomic_load_explicit(&client__seat->in, memory_order_relaxed) == c);
	if (c->nested == 0 || c->in_leaf)
		return stray(c, -EBUSY,
			     "the client is in the middle of another call (a signal handler?)");
	c->in_leaf = true;
	return 0;
}

int client__enter_slow(const struct weka_client *of)
{
	struct weka_client *c = (struct weka_client *)(uintptr_t)of;
	struct client_seat *seat;

	if (!c)
		return stray(NULL, -EINVAL, "the client is NULL");
	if (c->is_closed)
		return stray(c, -ESTALE, "the client was closed");
	if (client__forked(c))
		return stray(c, -ESTALE,
			     "the client is of the process that forked this one: connect anew");
	if (!client__seat)
		client__seat = seat_take();
	seat = client__seat;
	if (!seat)
		return stray(c, -ENOMEM, "no memory");
	if (atomic_load_explicit(&seat->in, memory_order_relaxed) == c)
		return enter_nested(c);
	if (atomic_load_explicit(&seat->in, memory_order_relaxed))
		return stray(c, -EBUSY,
			     "this thread is in the middle of a call with another client "
			     "(a signal handler?)");
	if (owner_of(c) != seat && !take_over(c, seat))
		return stray(c, -EBUSY,
			     "another thread is in the middle of a call with this client");
	atomic_store_explicit(&seat->in, c, memory_order_seq_cst);            /* E1 */
	if (atomic_load_explicit(&c->owner, memory_order_seq_cst) != seat) {  /* E2 */
		atomic_store_explicit(&seat->in, NULL, memory_order_release); /* E3 */
		return stray(c, -EBUSY, "another thread uses this client at the same time");
	}
	client__stray_forget(c);
	return 0;
}

int client__begin(struct weka_client *c)
{
	int err = client__enter(c);

	if (err)
		return err;
	c->is_stopped = c->is_stopped && c->nested > 0;
	c->nested++;
	ASSERT(c->nested > 0 && c->pauses <= 1);
	c->in_leaf = false;
	return 0;
}

void client__finish(struct weka_client *c)
{
	ASSERT(c->nested > 0);
	if (--c->nested == 0)
		client__leave(c);
}

/* ---- the end -------------------------------------------------------------------------------- */

void client__retire(struct weka_client *c)
{
	const uint32_t at =
		atomic_fetch_add_explicit(&closed_next, 1, memory_order_relaxed) % CLOSED_KEPT;

	ASSERT(!c->is_closed);
	memset(c, 0, sizeof(*c));
	c->is_closed = true;
	if (client__seat && atomic_load_explicit(&client__seat->in, memory_order_relaxed) == c)
		atomic_store_explicit(&client__seat->in, NULL, memory_order_release); /* E3 */
	free(atomic_exchange_explicit(&closed[at], c, memory_order_acq_rel));         /* C1, C2 */
}
