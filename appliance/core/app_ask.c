/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Questions to the polling threads: app_ask.h.
 *
 *   R1 -> A1   the snapshot is complete before `answered` says so.
 *   R2 -> A2   the asker has read the last snapshot before `wanted` asks for another.
 *
 *   asker                     the store's core
 *   ask_fd += 1
 *   wanted += 1  -- R2 -> A2 -> asked = wanted, ask_fd = 0
 *                               ...
 *                <- A1 <- R1 -- answered = asked
 *                               answer_fd += 1
 *
 * Each descriptor is raised on the safe side of its counter.  ask_fd goes first: when the core sees
 * the question, ask_fd is raised already, so taking the question empties it, and an idle core
 * sleeps.  A core that wakes in between finds no question and goes on; ask_fd is still readable, so
 * it does not sleep until the question is counted.  answer_fd goes last: the asker that it wakes
 * finds the answer.  That of a question that was given up may come when the next one is out, so the
 * asker looks at the counters, not at answer_fd, and waits again.
 *
 * Invariants:
 *  (1) answered == wanted, or answered + 1 == wanted and a question is out.
 *  (2) A core that sleeps wakes for a question: ask_fd stays readable until the question is taken
 *      [test_app_ask:sleeping_cores_answer].
 *  (3) Once a question is answered ask_fd is empty, until the next one
 *      [test_app_ask:an_answered_question_leaves_nothing_to_wake_for].
 */
#include "appliance/core/app_ask.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"
#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct app_ask {
	_Atomic uint32_t wanted;   /* questions, the asker's count  */
	_Atomic uint32_t answered; /* of them, the core's           */
	int status;                /* of the last answer            */
	int ask_fd;
	int answer_fd;
	struct app_snapshot snapshot;
};

/* ---- the asker's side -------------------------------------------------------------------- */

int app_ask_create(struct app_ask **out)
{
	struct app_ask *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	a->ask_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->ask_fd >= 0 && a->answer_fd >= 0) {
		*out = a;
		return 0;
	}
	err = -errno;
	app_ask_destroy(a);
	return err;
}

void app_ask_destroy(struct app_ask *a)
{
	if (!a)
		return;
	if (a->ask_fd >= 0)
		close(a->ask_fd);
	if (a->answer_fd >= 0)
		close(a->answer_fd);
	free(a);
}

int app_ask_fd(const struct app_ask *a)
{
	ASSERT(a->ask_fd >= 0);
	return a->ask_fd;
}

int app_ask_answer_fd(const struct app_ask *a)
{
	ASSERT(a->answer_fd >= 0);
	return a->answer_fd;
}

static bool is_answered(const struct app_ask *a)
{
	const uint32_t wanted = atomic_load_explicit(&a->wanted, memory_order_relaxed);
	const uint32_t answered = atomic_load_explicit(&a->answered, memory_order_acquire); /* A1 */

	ASSERT(wanted - answered <= 1); /* (1) */
	return answered == wanted;
}

static void raise_fd(int fd)
{
	const uint64_t one = 1;

	ASSERT(fd >= 0);
	(void)!write(fd, &one, sizeof(one));
}

/* Returns false if it was not raised. */
static bool empty_fd(int fd)
{
	uint64_t count;

	ASSERT(fd >= 0);
	return read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

static void ask(struct app_ask *a)
{
	ASSERT(is_answered(a)); /* (1) */
	raise_fd(a->ask_fd);
	atomic_fetch_add_explicit(&a->wanted, 1, memory_order_release); /* R2 */
}

/* Returns -ETIMEDOUT at deadline_ns; a signal that wakes it, or a late answer, does not end it. */
static int wait_until(struct app_ask *a, uint64_t deadline_ns)
{
	struct pollfd answer = { .fd = a->answer_fd, .events = POLLIN };
	uint64_t now_ns;

	for (;;) {
		(void)empty_fd(a->answer_fd);
		if (is_answered(a))
			return 0;
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		(void)poll(&answer, 1, (int)div_up(deadline_ns - now_ns, NS_PER_MS));
	}
}

int app_ask_wait(struct app_ask *a, int timeout_ms, const struct app_snapshot **out)
{
	const uint64_t deadline_ns = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	ASSERT(timeout_ms >= 0);
	if (is_answered(a))
		ask(a);
	if (wait_until(a, deadline_ns))
		return -ETIMEDOUT;
	*out = &a->snapshot;
	return a->status;
}

/* ---- the core's side --------------------------------------------------------------------- */

static void answer(struct app_core *core, int status)
{
	struct app_ask *a = core->cfg.ask;
	const uint32_t answered = atomic_load_explicit(&a->answered, memory_order_relaxed);

	ASSERT(core->asked - answered == 1); /* (1): each question is answered once */
	a->status = status;
	atomic_store_explicit(&a->answered, core->asked, memory_order_release); /* R1 */
	raise_fd(a->answer_fd);
}

/* A core that has no operation free takes the question in a later turn: one will come free. */
static wk_cold void take_question(struct app_core *core, uint32_t wanted)
{
	struct app_ask *a = core->cfg.ask;
	struct app_op *op;

	if (core->life == APP_SERVING && core->op_free_count == 0)
		return;
	ASSERT(wanted - core->asked == 1); /* (1) */
	core->asked = wanted;
	(void)empty_fd(a->ask_fd); /* (3) */
	if (core->life != APP_SERVING) {
		answer(core, -ESHUTDOWN);
		return;
	}
	op = app_op_take(core, APP_OP_SNAPSHOT, NULL);
	op->sums = (uint32_t *)(void *)&a->snapshot;
	op->meta.statfs = (struct meta_statfs *)(void *)op->small;
	app_op_run(op);
}

void app_ask_turn(struct app_core *core)
{
	uint32_t wanted;

	if (!core->cfg.ask || !core->meta)
		return;
	wanted = atomic_load_explicit(&core->cfg.ask->wanted, memory_order_acquire); /* A2 */
	ASSERT(wanted - core->asked <= 1);                                           /* (1) */
	if (unlikely(wanted != core->asked))
		take_question(core, wanted);
}

void app_ask_answer(struct app_op *op)
{
	ASSERT(op->kind == APP_OP_SNAPSHOT && op->asks_out == 0);
	op->sums = NULL; /* the asker's: release() returns the core's part */
	answer(op->core, op->status);
}
