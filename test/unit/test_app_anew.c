/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* When the daemon restarts itself, and a restart that failed. */
#include "appliance/host/app_anew.h"
#include "base/clock.h"
#include "base/log.h"
#include "test/lib/nvme_faulty.h"

#include <criterion/criterion.h>
#include <signal.h>

static void block(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	cr_assert_eq(sigprocmask(SIG_BLOCK, set, NULL), 0);
}

/* The signals are as the restarting process left them: blocked, and without a descriptor. */
Test(app_anew, signal_to_stop_ends_the_pause_and_one_to_reload_does_not, .timeout = 30)
{
	const struct app_anew a = { .file = "/nowhere", .is = true, .read_only = true, .tries = 4 };
	sigset_t set, left;

	block(&set);
	cr_assert_eq(raise(SIGHUP), 0);
	cr_assert_eq(raise(SIGTERM), 0);
	app_anew_try_on(&a); /* else in 60 s */
	cr_assert_eq(sigpending(&left), 0);
	cr_assert(!sigismember(&left, SIGTERM) && sigismember(&left, SIGHUP));
}

static struct nvme_faulty faulty;
static struct sim_power power;
static struct sim_drive *sim;
static struct nvme_dma *dma;
static struct nvme_drive *drive;

static void open_drive(void)
{
	const struct sim_drive_options of_sim = { .nblocks = 1000, .power = &power };
	const struct nvme_options options = { .io_timeout_ns = NS_PER_S };
	char text[NVME_ERR_TEXT];

	sim_power_init(&power);
	cr_assert_eq(sim_drive_create(&sim, &of_sim), 0);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_faulty_open(&faulty, sim, dma, &options, 1, &drive, text), 0, "%s", text);
}

static void close_drive(void)
{
	nvme_close(drive);
	sim_drive_destroy(sim);
	nvme_dma_destroy(dma);
}

static void dies(void)
{
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_release = true,
							.release_stops = true,
							.alarms = NVME_ALARM_REQUEST });
	for (uint64_t i = 1; i < 1000 && nvme_drive_health(drive) != NVME_HEALTH_DEAD; i++)
		(void)nvme_drive_step(drive, NS_PER_S + i * NS_PER_MS);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
}

/* It says so where it would begin, and cannot: no such configuration. */
static bool would_begin(struct app_anew *a, struct app_run *run)
{
	const uint64_t lines = log_thread_count();

	app_anew_step(a, run, app_anew_deadline(a));
	return log_thread_count() > lines;
}

/* Rule (2): what a mount without that drive would refuse is served from the others. */
Test(app_anew, while_a_drive_is_dead_what_serves_to_read_goes_on, .timeout = 30)
{
	struct app_anew a = { .file = "/nowhere", .is = true, .read_only = true };
	struct app_run run = { .cfg = { .drive = &drive, .ndrives = 1 } };

	open_drive();
	app_anew_serves(&a, NS_PER_S);
	cr_assert(would_begin(&a, &run));
	dies();
	cr_assert(!would_begin(&a, &run));
	cr_assert_lt(app_anew_deadline(&a), UINT64_MAX, "it is tried again");
	close_drive();
}
