/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Polling and sleeping.
 *
 *   step, step, ... nothing to do --spin--> arm --poll once more--> epoll_wait --> disarm, step
 *
 * How long it spins adapts: a sleep that was short would better have been a spin, so the spin
 * doubles, up to spin_max; after a long one it halves, down to ten times what arming costs.
 * There is no periodic tick: an idle core wakes for nothing.
 *
 *   R1 -> A1   (main.c) what the thread has written of itself, before `at` says so.
 */
#define _GNU_SOURCE
#include "appliance/app_run.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/seal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FDS_MAX = 2 * META_DRIVES_MAX + 2 };

#define WALL_EVERY_NS NS_PER_MS

struct pace {
	int epoll_fd;
	uint64_t spin_ns;
	uint64_t spin_max_ns;
	uint64_t arm_ns;        /* what going to sleep costs, lately */
	uint64_t idle_since_ns; /* 0: busy */
	uint64_t wall_at_ns;    /* monotonic time of the last look at the calendar */
	uint64_t wall_offset_ns;
	uint32_t lines; /* of drives, that the control thread was woken for */
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__("yield" ::: "memory");
#endif
}

/* Files' times need no better than a millisecond: most turns spare themselves a second clock. */
static uint64_t wall_ns(struct pace *p, uint64_t now_ns)
{
	if (now_ns - p->wall_at_ns >= WALL_EVERY_NS) {
		p->wall_at_ns = now_ns;
		p->wall_offset_ns = clock_wall_ns() - now_ns;
	}
	return now_ns + p->wall_offset_ns;
}

static int pace_init(struct pace *p, const struct app_run *run)
{
	int fds[FDS_MAX];
	uint32_t count = app_core_fds(run->core, fds, FDS_MAX - 1);

	*p = (struct pace){ .spin_max_ns = run->spin_max_ns, .spin_ns = run->spin_max_ns };
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0)
		return -errno;
	fds[count++] = run->wake_fd;
	for (uint32_t i = 0; i < count; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.fd = fds[i] };

		if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fds[i], &e) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static void adapt(struct pace *p, uint64_t slept_ns)
{
	uint64_t least = min_u64(10 * p->arm_ns, p->spin_max_ns);

	if (slept_ns < p->spin_max_ns)
		p->spin_ns = min_u64(max_u64(2 * p->spin_ns, least), p->spin_max_ns);
	else
		p->spin_ns = max_u64(p->spin_ns / 2, least);
}

static void sleep_until(struct pace *p, struct app_core *core, int wake_fd)
{
	uint64_t start_ns = clock_now_ns(), deadline_ns = app_core_deadline(core), end_ns, left_ns;
	struct epoll_event events[4];
	struct timespec ts;
	uint64_t count;

	if (deadline_ns <= start_ns || !app_core_arm(core))
		return;
	end_ns = clock_now_ns();
	p->arm_ns = (7 * p->arm_ns + (end_ns - start_ns)) / 8;
	left_ns = deadline_ns - start_ns;
	ts = (struct timespec){ (time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S) };
	/* EINTR or an error is a wake-up, too: the next turn finds out what there is. */
	(void)epoll_pwait2(p->epoll_fd, events, ARRAY_LEN(events),
			   deadline_ns == UINT64_MAX ? NULL : &ts, NULL);
	app_core_disarm(core);
	(void)!read(wake_fd, &count, sizeof(count));
	adapt(p, clock_now_ns() - end_ns);
}

static void rest(struct pace *p, struct app_run *run, uint64_t now_ns)
{
	if (!p->idle_since_ns)
		p->idle_since_ns = now_ns;
	if (now_ns - p->idle_since_ns < p->spin_ns) {
		cpu_relax();
		return;
	}
	sleep_until(p, run->core, run->wake_fd);
	p->idle_since_ns = 0;
}

/* Something happened to a drive: who writes lines for people is to write it. */
static wk_cold void wake_control(struct pace *p, struct app_run *run)
{
	uint64_t one = 1;

	p->lines = app_core_lines(run->core);
	(void)!write(run->event_fd, &one, sizeof(one));
}

static void turn(struct pace *p, struct app_run *run)
{
	uint64_t now_ns = clock_now_ns();

	if (app_core_step(run->core, now_ns, wall_ns(p, now_ns)))
		p->idle_since_ns = 0;
	else
		rest(p, run, now_ns);
	if (unlikely(app_core_lines(run->core) != p->lines))
		wake_control(p, run);
}

static void tell(struct app_run *run, enum app_run_at at)
{
	uint64_t one = 1;

	atomic_store_explicit(&run->at, at, memory_order_release); /* R1 */
	(void)!write(run->event_fd, &one, sizeof(one));
}

static int boot(struct app_run *run, struct pace *p)
{
	int err = app_core_create(&run->core, &run->cfg, run->why);

	if (err)
		return err;
	err = pace_init(p, run);
	if (err) {
		snprintf(run->why, sizeof(run->why), "epoll: %s", strerror(-err));
		return err;
	}
	while ((err = app_core_boot_status(run->core)) == -EAGAIN)
		turn(p, run);
	if (err)
		snprintf(run->why, sizeof(run->why), "%s", app_core_error(run->core));
	else if (*app_core_error(run->core))
		log_warn("mounted, but %s", app_core_error(run->core));
	return err;
}

static void serve(struct app_run *run, struct pace *p)
{
	bool stopping = false;
	int err;

	while ((err = app_core_stop_status(run->core)) == -EAGAIN) {
		if (!stopping && atomic_load_explicit(&run->stop, memory_order_relaxed)) {
			stopping = true;
			app_core_stop(run->core);
		}
		turn(p, run);
	}
	run->status = err;
	if (err)
		snprintf(run->why, sizeof(run->why), "%s", app_core_error(run->core));
}

static void *core_thread(void *arg)
{
	struct app_run *run = arg;
	struct pace p = { .epoll_fd = -1 };
	cpu_set_t cpus;

	if (run->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET((size_t)run->cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			log_warn("core %d: cannot be pinned to it: %s", run->cpu, strerror(errno));
	}
	run->status = boot(run, &p);
	if (run->status == 0) {
		tell(run, APP_RUN_SERVING);
		seal_thread();
		serve(run, &p);
		seal_thread_open();
	}
	if (run->core) {
		app_core_abandon(run->core); /* after a clean stop there is nothing in flight */
		app_core_destroy(run->core);
	}
	if (p.epoll_fd >= 0)
		close(p.epoll_fd);
	tell(run, APP_RUN_ENDED);
	return NULL;
}

int app_run_start(struct app_run *run)
{
	int err;

	run->core = NULL;
	run->why[0] = '\0';
	atomic_init(&run->at, APP_RUN_STARTING);
	atomic_init(&run->stop, false);
	run->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (run->wake_fd < 0)
		return -errno;
	err = pthread_create(&run->thread, NULL, core_thread, run);
	if (err)
		close(run->wake_fd);
	return -err;
}

void app_run_stop(struct app_run *run)
{
	uint64_t one = 1;

	atomic_store_explicit(&run->stop, true, memory_order_relaxed);
	(void)!write(run->wake_fd, &one, sizeof(one));
}

void app_run_join(struct app_run *run)
{
	pthread_join(run->thread, NULL);
	close(run->wake_fd);
}
