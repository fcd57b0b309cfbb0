/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Snapshots of all counters, asked for by a thread that may wait. */
#define _GNU_SOURCE /* gettid() */
#include "appliance/core/app_ask.h"
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/log.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct app_rig rig = { .transport = "tcp" };
static struct app_ask *ask;

static void setup(void)
{
	log_level_set(LOG_ERROR);
	rig.cfg.boot = APP_BOOT_FORMAT;
	cr_assert_eq(app_ask_create(&ask), 0);
	rig.cfg.ask = ask;
}

static void teardown(void)
{
	app_ask_destroy(ask);
}

TestSuite(app_ask, .init = setup, .fini = teardown, .timeout = 120);

static const struct app_snapshot *asked(void)
{
	const struct app_snapshot *s = NULL;

	cr_assert_eq(app_ask_wait(ask, 60000, &s), 0);
	return s;
}

static uint64_t counted(const struct app_snapshot *s, enum fab_type type)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < APP_TRANSPORTS; i++)
		count += app_latency_count(&s->latency[i][type]);
	return count;
}

Test(app_ask, every_answered_request_is_in_one_bucket)
{
	struct weka_client *c = app_rig_begin_over(&rig, "tcp");
	const struct app_snapshot *s;
	uint64_t all = 0;

	for (int i = 0; i < 100; i++)
		cr_assert_eq(weka_write_file(c, "/file", "text", 4, NULL), 0);
	s = asked();
	cr_assert_eq(s->cores, rig.cores);
	cr_assert_eq(s->sum.requests[FAB_PUT], 100);
	cr_assert_eq(counted(s, FAB_PUT), 100);
	cr_assert_eq(app_latency_count(&s->latency[APP_TCP][FAB_PUT]), 100);
	cr_assert_gt(s->latency[APP_TCP][FAB_PUT].sum_ns, 0);
	for (uint32_t k = FAB_PING; k < FAB_TYPE_END; k++)
		all += counted(s, (enum fab_type)k);
	for (uint32_t i = 0; i < s->cores; i++)
		all -= app_latency_count(&s->core[i].latency);
	cr_assert_eq(all, 0, "the cores' histograms are the same requests");
	cr_assert_geq(s->sessions_open[APP_TCP], rig.cores, "it may have lanes");
	cr_assert_eq(s->sessions_open[APP_SHM], 0);
	weka_close(c);
	cr_assert_eq(app_rig_end(&rig), 0);
}

/* All cores are asleep: the question wakes the first, and that one the others. */
Test(app_ask, sleeping_cores_answer)
{
	struct weka_client *c = app_rig_begin_over(&rig, "shm");
	uint64_t slept_ns = 0, sleeps;

	for (int i = 0; i < 20; i++) {
		sleeps = asked()->sum.sleeps;
		do /* a thread that waits for a processor does not sleep yet */
			usleep(20000);
		while (asked()->sum.sleeps == sleeps);
		cr_assert_gt(asked()->sum.slept_ns, slept_ns);
		slept_ns = asked()->sum.slept_ns;
	}
	weka_close(c);
	cr_assert_eq(app_rig_end(&rig), 0);
}

Test(app_ask, an_appliance_that_has_ended_does_not_answer)
{
	struct weka_client *c = app_rig_begin_over(&rig, "shm");
	const struct app_snapshot *s;

	(void)asked();
	weka_close(c);
	cr_assert_eq(app_rig_end(&rig), 0);
	cr_assert_eq(app_ask_wait(ask, 10, &s), -ETIMEDOUT);
	cr_assert_eq(app_ask_wait(ask, 10, &s), -ETIMEDOUT, "and is not asked twice");
}

/* ---- cores that are stepped by hand ------------------------------------------------------ */

enum { CORES = 3, STEPS = 100000 };

static struct app_cores *group;
static struct app_core *core[CORES];
static struct nvme_drive *drive[1];
static struct nvme_dma *dma;

static void step(uint32_t i)
{
	static uint64_t now_ns = NS_PER_S;

	now_ns += NS_PER_US;
	(void)app_core_step(core[i], now_ns, now_ns);
}

static void cores_begin(void)
{
	struct nvme_options wanted = { .qpair_count_max = CORES };
	struct app_core_cfg cfg = { .boot = APP_BOOT_FORMAT, .ndrives = 1, .nshards = 4 };
	char why[APP_WHY];

	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_open(&drive[0], "mem:256M", dma, &wanted, why, sizeof(why)), 0, "%s",
		     why);
	cr_assert_eq(app_cores_create(&group, CORES, 0), 0);
	cfg.dma = dma;
	cfg.drive = drive;
	cfg.cores = group;
	cfg.ask = ask;
	for (cfg.index = 0; cfg.index < CORES; cfg.index++)
		cr_assert_eq(app_core_create(&core[cfg.index], &cfg, why), 0, "%s", why);
	for (int n = 0; app_core_boot_status(core[CORES - 1]) == -EAGAIN && n < STEPS; n++)
		for (uint32_t i = 0; i < CORES; i++)
			step(i);
	cr_assert_eq(app_core_boot_status(core[CORES - 1]), 0);
}

static void cores_end(void)
{
	for (uint32_t i = 0; i < CORES; i++)
		app_core_abandon(core[i]);
	for (uint32_t i = 0; i < CORES; i++)
		app_core_destroy(core[i]);
	app_cores_destroy(group);
	nvme_close(drive[0]);
	nvme_dma_destroy(dma);
}

static bool all_stopped(void)
{
	for (uint32_t i = 0; i < CORES; i++)
		if (app_core_stop_status(core[i]) == -EAGAIN)
			return false;
	return true;
}

/*
 * Core 1 is told to stop, and has nothing to do, before core 0 hears of it and asks it for its
 * counters.  If it had left by then nobody would answer, and core 0 would never end.
 */
Test(app_ask, no_core_leaves_while_another_may_ask_it)
{
	const struct app_snapshot *s;
	int n = 0;

	cores_begin();
	app_core_stop(core[1]);
	for (int i = 0; i < 100; i++)
		step(1);
	cr_assert_eq(app_core_stop_status(core[1]), -EAGAIN);
	cr_assert_eq(app_ask_wait(ask, 0, &s), -ETIMEDOUT);
	step(0);
	app_core_stop(core[0]);
	app_core_stop(core[2]);
	for (; !all_stopped() && n < STEPS; n++)
		for (uint32_t i = 0; i < CORES; i++)
			if (app_core_stop_status(core[i]) == -EAGAIN)
				step(i);
	cr_assert(all_stopped(), "the cores do not end");
	cr_assert_eq(app_ask_wait(ask, 0, &s), -ETIMEDOUT, "the answer of before was not taken");
	cores_end();
}

static void step_all(void)
{
	for (uint32_t i = 0; i < CORES; i++)
		step(i);
}

static void *step_until(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		step_all();
	return NULL;
}

Test(app_ask, a_core_that_stops_says_so)
{
	const struct app_snapshot *s;
	atomic_bool stop = false;
	pthread_t thread;

	cores_begin();
	app_core_stop(core[0]);
	cr_assert_eq(pthread_create(&thread, NULL, step_until, &stop), 0);
	cr_assert_eq(app_ask_wait(ask, 60000, &s), -ESHUTDOWN);
	cr_assert_eq(app_ask_wait(ask, 60000, &s), -ESHUTDOWN);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	cores_end();
}

Test(app_ask, a_late_answer_is_not_taken_for_the_next)
{
	const struct app_snapshot *s = NULL;

	cores_begin();
	cr_assert_eq(app_ask_wait(ask, 0, &s), -ETIMEDOUT);
	cr_assert_eq(app_ask_wait(ask, 0, &s), -ETIMEDOUT, "one question is out");
	for (int n = 0; n < 100; n++)
		step_all();
	cr_assert_eq(app_ask_wait(ask, 0, &s), -ETIMEDOUT, "a new one");
	for (int n = 0; n < 100; n++)
		step_all();
	cores_end();
}

static bool ready_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) > 0;
}

struct asker {
	pthread_t thread;
	_Atomic pid_t tid;
	atomic_bool ended;
	int status;
};

static void *ask_once(void *arg)
{
	const struct app_snapshot *s;
	struct asker *asker = arg;

	atomic_store(&asker->tid, gettid());
	asker->status = app_ask_wait(ask, 60000, &s);
	atomic_store(&asker->ended, true);
	return NULL;
}

static void asker_begin(struct asker *asker)
{
	*asker = (struct asker){ .status = 1 };
	cr_assert_eq(pthread_create(&asker->thread, NULL, ask_once, asker), 0);
}

static void asker_end(struct asker *asker)
{
	while (!atomic_load(&asker->ended))
		step_all();
	pthread_join(asker->thread, NULL);
	cr_assert_eq(asker->status, 0);
}

/* Does the thread wait in the kernel? */
static bool sleeps(struct asker *asker)
{
	char path[64], text[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&asker->tid));
	f = fopen(path, "r");
	if (f && !fgets(text, sizeof(text), f))
		text[0] = 0;
	if (f)
		fclose(f);
	return strstr(text, ") S ") != NULL;
}

/*
 * The asker is stopped in the middle of asking: ask_fd is full, and blocks.  Whatever the cores do
 * meanwhile, ask_fd is empty after the answer.  Else core 0, which sleeps on it, would be awake
 * until the next question.
 */
Test(app_ask, an_answered_question_leaves_nothing_to_wake_for)
{
	const int fd = app_ask_fd(ask), flags = fcntl(fd, F_GETFL);
	const uint64_t full = UINT64_MAX - 1;
	struct asker asker;
	uint64_t count;

	cores_begin();
	cr_assert_eq(write(fd, &full, sizeof(full)), (ssize_t)sizeof(full));
	cr_assert_eq(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
	asker_begin(&asker);
	while (!sleeps(&asker))
		sched_yield();
	for (int n = 0; n < 100; n++)
		step_all();
	cr_assert_eq(fcntl(fd, F_SETFL, flags), 0);
	if (!ready_for(fd, POLLOUT))
		cr_assert_eq(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	asker_end(&asker);
	cr_assert_not(ready_for(fd, POLLIN));
	cores_end();
}

/* The answer of a question that was given up may raise answer_fd when the next one is out. */
Test(app_ask, a_late_wake_up_is_not_taken_for_the_answer)
{
	const int fd = app_ask_answer_fd(ask);
	const uint64_t one = 1;
	struct asker asker;

	cores_begin();
	asker_begin(&asker);
	while (!ready_for(app_ask_fd(ask), POLLIN))
		sched_yield();
	cr_assert_eq(write(fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	while (ready_for(fd, POLLIN) && !atomic_load(&asker.ended))
		sched_yield();
	asker_end(&asker);
	cores_end();
}

/* ---- the histogram ----------------------------------------------------------------------- */

Test(app_ask, a_bucket_holds_what_is_below_its_end)
{
	for (uint64_t us = 0; us < 1 << 25; us = us < 64 ? us + 1 : us + us / 64) {
		const uint32_t bucket = app_latency_bucket(us);

		cr_assert_lt(bucket, APP_LATENCY_BUCKETS);
		if (bucket == APP_LATENCY_BUCKETS - 1) {
			cr_assert_geq(us, 1ull << APP_LATENCY_POWERS);
			continue;
		}
		cr_assert_lt(us, app_latency_end_us(bucket), "%llu us", (unsigned long long)us);
		cr_assert(bucket == 0 || us >= app_latency_end_us(bucket - 1), "%llu us",
			  (unsigned long long)us);
	}
	cr_assert_eq(app_latency_bucket(UINT64_MAX), APP_LATENCY_BUCKETS - 1);
}
