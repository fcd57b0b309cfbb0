/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Why the whole process restarts: the state of a store that is in memory and not on drives must be
 * dropped, on all cores at once, and with it every plan, pin and lock made from it; drives must be
 * opened again that have lost cached writes; and the next mount's findings count.  A start after a
 * crash does the same, and all tests of crashes prove it.  Clients of libweka-client reconnect and
 * send their requests again; receipts ensure that no change is made twice.  The kernel takes back
 * memory, sockets and devices as it does from a process that is killed.
 *
 *  (1) No client was told about a change that was in progress: app_patience.c (7)
 *      [test_app_patience:the_caller_begins_anew_and_reads_what_is_durable].
 *  (2) Never if a start makes a new store (memory drives), and not while a drive is dead: serving
 *      from the other drives is better than a mount that is refused
 *      [test_app_anew:while_a_drive_is_dead_what_serves_to_read_goes_on].
 */
#define _GNU_SOURCE
#include "appliance/host/app_anew.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORD     "WEKA_ANEW" /* "serve 3", "read 0" */
#define LONG_NS  (60 * NS_PER_S)
#define PAUSE_NS (5 * NS_PER_S)

void app_anew_look(struct app_anew *a, const char *file, char **argv)
{
	const char *word = getenv(WORD);
	char how[8] = "";

	*a = (struct app_anew){ .file = file, .argv = argv };
	if (word && sscanf(word, "%7s %u", how, &a->tries) == 2)
		a->is = strcmp(how, "serve") == 0 || strcmp(how, "read") == 0;
	a->read_only = a->is && how[0] == 'r';
}

static uint64_t pause_ns(const struct app_anew *a)
{
	return min_u64(PAUSE_NS << min_u32(a->tries, 4), LONG_NS);
}

/* (2) */
static bool all_answer(const struct app_core_cfg *cfg)
{
	for (uint32_t i = 0; i < cfg->ndrives; i++) {
		const enum nvme_health health =
			cfg->drive[i] ? nvme_drive_health(cfg->drive[i]) : NVME_HEALTH_GOOD;

		if (health != NVME_HEALTH_GOOD && health != NVME_HEALTH_READ_ONLY)
			return false;
	}
	return true;
}

/* Returns true if the next start can read the configuration, which may have changed since this
 * one. */
static bool conf_is_whole(const char *file)
{
	struct app_conf *conf = malloc(sizeof(*conf));
	char why[APP_CONF_WHY];
	const bool whole = conf && app_conf_load(conf, file, why) == 0;

	if (conf && !whole)
		log_error("WEKA-109: cannot begin anew: %s", why);
	free(conf);
	return whole;
}

/* Returns when it cannot. */
static void begin(const struct app_anew *a, bool read_only, uint64_t now_ns)
{
	const bool served = !a->read_only && a->serving_ns && now_ns - a->serving_ns >= LONG_NS;
	char word[32];

	if (!conf_is_whole(a->file))
		return;
	(void)snprintf(word, sizeof(word), "%s %u", read_only ? "read" : "serve",
		       served ? 0 : a->tries + !read_only);
	if (setenv(WORD, word, 1) == 0)
		(void)execv("/proc/self/exe", a->argv);
	log_error("WEKA-110: cannot begin anew: %s", strerror(errno));
}

void app_anew_step(struct app_anew *a, struct app_run *run, uint64_t now_ns)
{
	const int wants = atomic_load_explicit(&run->wants, memory_order_relaxed);

	if (now_ns >= app_anew_deadline(a)) {
		if (all_answer(&run->cfg))
			begin(a, false, now_ns);
		a->again_ns = now_ns + pause_ns(a);
	}
	if (wants == APP_WANTS_NOTHING || a->refused)
		return;
	if (all_answer(&run->cfg)) {
		log_error("WEKA-310: the index could not be written: restarting from the durable "
			  "state, %s; clients reconnect by themselves",
			  wants == APP_WANTS_ROOM ? "to read only, until there is room"
						  : "and the drives are opened again");
		begin(a, wants == APP_WANTS_ROOM, now_ns);
	}
	log_error("WEKA-311: the store takes no changes until all drives answer");
	a->refused = true;
	a->again_ns = now_ns + pause_ns(a);
	app_run_refuse(run);
}

void app_anew_serves(struct app_anew *a, uint64_t now_ns)
{
	a->serving_ns = now_ns;
	a->again_ns = now_ns + pause_ns(a);
}

uint64_t app_anew_deadline(const struct app_anew *a)
{
	return a->serving_ns && (a->read_only || a->refused) ? a->again_ns : UINT64_MAX;
}

/* Waits `ns` for a signal to stop.  The restarted process inherits these signals blocked, whatever
 * its progress. */
static bool must_stop_within(uint64_t ns)
{
	const struct timespec limit = { .tv_sec = (time_t)(ns / NS_PER_S),
					.tv_nsec = (long)(ns % NS_PER_S) };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return sigtimedwait(&set, NULL, &limit) > 0;
}

void app_anew_try_on(const struct app_anew *a)
{
	if (!a->is || a->serving_ns || must_stop_within(a->read_only ? pause_ns(a) : 0))
		return;
	begin(a, !a->read_only, 0);
}
