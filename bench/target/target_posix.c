/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * posix:DIR and direct:DIR.  A session does the work itself, in submit, or has worker threads as a
 * loader has worker processes: each takes a whole group, so that a hand-over costs one wake-up a
 * batch.
 *
 *   submit -> waiting (list) -> a worker -> finished (list) -> poll
 *
 * Invariant:
 *
 *  (1) A group is in one of the lists, or with one worker.  [test_bench_target]
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/target/target_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct worker {
	struct session *session;
	pthread_t thread;
	bool runs;
	struct target__landing land;
	struct target__kept kept;
};

struct session {
	const struct target__dir *dir;
	pthread_mutex_t lock;
	pthread_cond_t work, finish;
	struct target_group *waiting, **waiting_last;
	struct target_group *finished;
	bool stop;
	uint32_t count;
	struct worker workers[]; /* one more than threads: the last is the caller */
};

static int posix_open(struct target *t, const char *where)
{
	return target__dir_open(t, where, 0);
}

static int cold_open(struct target *t, const char *where)
{
	if (target__dir_open(t, where, 0))
		return 1;
	t->promise.cache = "page cache, its files dropped before each run";
	t->is_cold = true;
	return 0;
}

static int direct_open(struct target *t, const char *where)
{
	return target__dir_open(t, where, O_DIRECT);
}

static void work_on(struct worker *w, struct target_group *g)
{
	int err = 0;

	for (uint32_t i = 0; i < g->count; i++) {
		struct target_io *io = &g->io[i];

		io->status = 0;
		io->got_bytes = 0;
		err = target__dir_io(w->session->dir, g, io, &w->land, &w->kept);
		if (err)
			io->status = err;
	}
	err = target__dir_settle(w->session->dir, g);
	if (err)
		g->io[g->count - 1].status = err;
	g->ended = g->count;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct session *p = w->session;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct target_group *g = p->waiting;

		if (!g && p->stop)
			break;
		if (!g) {
			pthread_cond_wait(&p->work, &p->lock);
			continue;
		}
		p->waiting = g->next;
		if (!p->waiting)
			p->waiting_last = &p->waiting;
		pthread_mutex_unlock(&p->lock);
		work_on(w, g);
		pthread_mutex_lock(&p->lock);
		g->next = p->finished; /* (1) */
		p->finished = g;
		pthread_cond_signal(&p->finish);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void session_close(struct target_session *s)
{
	struct session *p = s->own;

	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i <= p->count; i++) {
		struct worker *w = &p->workers[i];

		if (w->runs)
			pthread_join(w->thread, NULL);
		target__dir_forget(&w->kept);
		if (w->land.memory)
			munmap(w->land.memory, TARGET__RING);
	}
	pthread_cond_destroy(&p->finish);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int make_worker(struct session *p, uint32_t i)
{
	struct worker *w = &p->workers[i];

	w->session = p;
	w->kept.fd = -1;
	w->land.memory = target__pages(TARGET__RING);
	if (!w->land.memory)
		return -ENOMEM;
	if (i == p->count)
		return 0;
	w->runs = pthread_create(&w->thread, NULL, worker_main, w) == 0;
	return w->runs ? 0 : -EAGAIN;
}

static int session_open(struct target_session *s)
{
	const uint32_t threads = s->target->options.threads;
	struct session *p = calloc(1, sizeof(*p) + (threads + 1) * sizeof(p->workers[0]));
	pthread_condattr_t attr;
	int err = 0;

	if (!p)
		return bench_fail("out of memory");
	p->dir = s->target->own;
	p->waiting_last = &p->waiting;
	p->count = threads;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->work, &attr);
	pthread_cond_init(&p->finish, &attr);
	pthread_condattr_destroy(&attr);
	s->own = p;
	for (uint32_t i = 0; i <= threads; i++)
		p->workers[i].kept.fd = -1;
	for (uint32_t i = 0; i <= threads && !err; i++)
		err = make_worker(p, i);
	if (!err)
		return 0;
	session_close(s);
	return bench_fail("cannot start %u threads, with 8 MiB each", threads);
}

static void submit(struct target_session *s, struct target_group *g)
{
	struct session *p = s->own;

	if (p->count == 0) {
		work_on(&p->workers[0], g);
		target__group_ended(s, g);
		return;
	}
	pthread_mutex_lock(&p->lock);
	g->next = NULL;
	*p->waiting_last = g;
	p->waiting_last = &g->next;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

static void poll_finished(struct target_session *s)
{
	struct session *p = s->own;
	struct target_group *g, *next;

	pthread_mutex_lock(&p->lock);
	g = p->finished;
	p->finished = NULL;
	pthread_mutex_unlock(&p->lock);
	for (; g; g = next) {
		next = g->next;
		target__group_ended(s, g);
	}
}

static void wait_finished(struct target_session *s, uint64_t timeout_ns)
{
	struct session *p = s->own;
	struct timespec until;
	uint64_t at = clock_now_ns() + timeout_ns;
	int err = 0;

	until.tv_sec = (time_t)(at / NS_PER_S);
	until.tv_nsec = (long)(at % NS_PER_S);
	pthread_mutex_lock(&p->lock);
	while (!p->finished && err == 0)
		err = pthread_cond_timedwait(&p->finish, &p->lock, &until);
	pthread_mutex_unlock(&p->lock);
}

#define DIRECTORY(NAME, SCHEME, WHAT, OPEN)                                                        \
	const struct target__kind NAME = {                                                         \
		.scheme = SCHEME,                                                                  \
		.what = WHAT,                                                                      \
		.open = OPEN,                                                                      \
		.close = target__dir_close,                                                        \
		.session_open = session_open,                                                      \
		.session_close = session_close,                                                    \
		.submit = submit,                                                                  \
		.poll = poll_finished,                                                             \
		.wait = wait_finished,                                                             \
		.mkdir = target__dir_mkdir,                                                        \
		.drop_caches = target__dir_drop_caches,                                            \
	}

DIRECTORY(target__posix, "posix:", "a local directory, through the page cache", posix_open);
DIRECTORY(target__cold, "cold:", "the same, its files dropped from the cache before each run",
	  cold_open);
DIRECTORY(target__direct, "direct:", "a local directory, O_DIRECT", direct_open);
