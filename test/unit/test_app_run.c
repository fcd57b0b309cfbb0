/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The watchdog's question: do all polling threads turn or sleep? */
#include "base/log.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static struct app_rig rig = { .transport = "shm" };
static struct app_run run;

Test(app_run, a_thread_that_stands_still_is_not_alive)
{
	uint64_t beats[APP_CORES_MAX] = { 0 };

	run.started = 2;
	atomic_store(&run.thread[0].beat, 7);
	atomic_store(&run.thread[1].asleep, true);
	cr_assert(app_run_is_alive(&run, beats), "not all serve yet");
	atomic_store(&run.at, APP_RUN_SERVING);
	cr_assert(app_run_is_alive(&run, beats), "it has turned since nothing was known");
	cr_assert_not(app_run_is_alive(&run, beats), "and has not since");
	atomic_store(&run.thread[0].beat, 8);
	cr_assert(app_run_is_alive(&run, beats));
	atomic_store(&run.thread[0].asleep, true);
	cr_assert(app_run_is_alive(&run, beats), "it sleeps");
	atomic_store(&run.thread[1].asleep, false);
	cr_assert_not(app_run_is_alive(&run, beats), "the other one has woken, and stands still");
	atomic_store(&run.at, APP_RUN_ENDED);
	cr_assert(app_run_is_alive(&run, beats));
}

/* A thread that wants to run may have to wait for a CPU. */
static bool is_alive_soon(uint64_t beats[APP_CORES_MAX])
{
	for (int tries = 0; tries < 10000; tries++) {
		if (app_run_is_alive(&rig.run, beats))
			return true;
		usleep(1000);
	}
	return false;
}

Test(app_run, threads_that_sleep_and_work_are_alive, .timeout = 120)
{
	uint64_t beats[APP_CORES_MAX] = { 0 };
	struct weka_client *c;

	log_level_set(LOG_ERROR);
	rig.cfg.boot = APP_BOOT_FORMAT;
	c = app_rig_begin_over(&rig, "shm");
	for (int i = 0; i < 20; i++) {
		usleep(20000); /* it falls asleep */
		cr_assert(is_alive_soon(beats));
		cr_assert_eq(weka_write_file(c, "/file", "text", 4, NULL), 0);
		cr_assert(is_alive_soon(beats));
	}
	weka_close(c);
	cr_assert_eq(app_rig_end(&rig), 0);
}
