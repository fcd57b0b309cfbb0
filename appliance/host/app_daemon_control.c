/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The control thread: accepts clients, maps their memory, logs, and obeys signals, while the
 * polling threads serve.  It may wait, and it may allocate.
 *
 *   APP_RUN_STARTING --> APP_RUN_SERVING ------------------------------> APP_RUN_ENDED
 *     core 0 mounts       clients are let in; drives come and leave;       the threads have ended,
 *                         SIGHUP reads the configuration again             with a status
 *
 *   SIGTERM, SIGINT, or more memory than allowed: no client is let in any more, and the cores end.
 *
 *   R1 -> A1   (app_run.c) the cores' threads have stored their results before `at` is set.
 */
#define _GNU_SOURCE
#include "appliance/host/app_daemon.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

int app_daemon_watch(struct app_daemon *d, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int app_daemon_open_control(struct app_daemon *d)
{
	sigset_t set;
	int err;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE); /* blocked and never read: a peer's end is an errno */
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return -EINVAL;
	sigdelset(&set, SIGPIPE);
	d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = d->signal_fd < 0 || d->epoll_fd < 0 ? -errno : app_daemon_watch(d, d->signal_fd);
	if (!err)
		err = app_ask_create(&d->ask);
	if (err)
		snprintf(d->why, sizeof(d->why), "signalfd, epoll: %s", strerror(-err));
	return err;
}

static int timeout_ms(uint64_t deadline_ns, uint64_t now_ns)
{
	if (deadline_ns == UINT64_MAX)
		return -1;
	if (deadline_ns <= now_ns)
		return 0;
	return (int)min_u64(div_up(deadline_ns - now_ns, NS_PER_MS), 60000);
}

/* Returns the number of a signal that has come, or 0. */
static uint32_t signalled(struct app_daemon *d)
{
	struct signalfd_siginfo info;

	return read(d->signal_fd, &info, sizeof(info)) == sizeof(info) ? info.ssi_signo : 0;
}

static void write_lines(struct app_daemon *d)
{
	enum log_level level;
	const char *full = app_full_line(&d->full, &level);
	char text[256], line[APP_LINE_SIZE];

	if (full)
		log_line(level, "%s", full);
	for (uint32_t i = 0; i < d->ndrives; i++)
		while (d->drive[i] && nvme_drive_line(d->drive[i], text, sizeof(text)))
			log_warn("WEKA-207: %s", text);
	while (app_lines_take(&d->lines, line)) /* what needs nobody has no number */
		log_line(strncmp(line, "WEKA-", 5) == 0 ? LOG_ERROR : LOG_INFO, "%s", line);
	while (app_fault_log_line(&d->fault_log, d->faults, d->run.cores, d->conf.drive,
				  clock_now_ns(), line))
		log_error("%s", line);
}

static uint64_t control_deadline(const struct app_daemon *d)
{
	uint64_t at_ns = min_u64(fab_server_control_deadline(d->srv), app_keys_deadline(&d->keys));

	at_ns = min_u64(at_ns,
			min_u64(app_listen_deadline(&d->listen), app_anew_deadline(&d->anew)));
	at_ns = min_u64(at_ns, app_web_deadline(&d->web));
	at_ns = min_u64(at_ns, app_notify_deadline(&d->notify));
	return min_u64(at_ns, app_fault_log_deadline(&d->fault_log, d->faults, d->run.cores));
}

/* Lets no client in any more, and asks the cores to end. */
static void shut(struct app_daemon *d)
{
	fab_server_shut(d->srv);
	app_run_stop(&d->run);
}

/* Checks the account before the first client is let in: all memory but that of clients is taken
 * now, open files' tables included. */
static bool fits(struct app_daemon *d)
{
	app_account_tables(&d->account);
	d->unfit = app_account_check(&d->account, &d->conf, d->why);
	if (!d->unfit)
		log_info("memory: at most %llu MiB",
			 (unsigned long long)div_up(app_account_total(&d->account), 1 << 20));
	return !d->unfit;
}

void app_daemon_control(struct app_daemon *d)
{
	struct epoll_event events[8];
	enum app_run_at at = APP_RUN_STARTING, was = at;
	uint32_t signal_number;
	uint64_t count;

	while (at != APP_RUN_ENDED) {
		int timeout = timeout_ms(app_notify_deadline(&d->notify), clock_now_ns());

		if (at == APP_RUN_SERVING && !app_control_step(d->srv, d->dma, clock_now_ns()))
			timeout = timeout_ms(control_deadline(d), clock_now_ns());
		else if (at == APP_RUN_SERVING)
			timeout = 0;
		(void)epoll_wait(d->epoll_fd, events, ARRAY_LEN(events), timeout);
		app_notify_step(&d->notify, &d->run, clock_now_ns());
		app_keys_step(&d->keys, clock_now_ns());
		signal_number = signalled(d);
		if (signal_number == SIGHUP) {
			app_keys_reload(&d->keys, clock_now_ns());
			if (at == APP_RUN_SERVING)
				app_daemon_reload(d);
		} else if (signal_number) {
			log_info("stopping");
			app_notify_stopping(&d->notify);
			d->stopping = true;
			shut(d);
		}
		(void)!read(d->run.event_fd, &count, sizeof(count));
		write_lines(d);
		at = (enum app_run_at)atomic_load_explicit(&d->run.at,
							   memory_order_acquire); /* A1 */
		if (at == APP_RUN_SERVING && at == was) {
			if (!d->stopping)
				app_anew_step(&d->anew, &d->run, clock_now_ns());
			app_daemon_close_gone(d);
			app_daemon_add_drives(d);
			app_listen_step(&d->listen, &d->conf, d->srv, clock_now_ns());
			app_web_step(&d->web, clock_now_ns());
		}
		if (at == was)
			continue;
		was = at;
		if (at != APP_RUN_SERVING)
			continue;
		if (!fits(d)) {
			shut(d);
			continue;
		}
		app_anew_serves(&d->anew, clock_now_ns());
		(void)app_daemon_watch(d, fab_server_control_fd(d->srv));
		for (uint32_t i = 0; fab_server_address(d->srv, i); i++)
			log_info("serving %s", fab_server_address(d->srv, i));
		app_web_start(&d->web, &d->conf, d->ask, d->cpus, clock_now_ns());
		app_daemon_keep_numbers(d);
		app_daemon_close_gone(d);
		app_daemon_add_drives(d);
		app_notify_ready(&d->notify);
	}
	app_web_stop(&d->web);
	app_run_join(&d->run);
	write_lines(d);
}
