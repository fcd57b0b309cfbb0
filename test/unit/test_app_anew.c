/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A start that was anew and failed: a signal ends the pause before the next one. */
#include "appliance/app_anew.h"

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

/* As the process that began anew left them: blocked, and nobody has made a descriptor of them. */
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
