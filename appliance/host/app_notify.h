/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Tells the service manager how the daemon is: sd_notify(3) without its library.
 *
 *   NOTIFY_SOCKET   READY=1 once clients are served, STOPPING=1 at the end
 *   WATCHDOG_USEC   WATCHDOG=1 twice in that time, while every polling thread turns or sleeps
 */
#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

#include "appliance/host/app_run.h"

#include <sys/socket.h>
#include <sys/un.h>

struct app_notify {
	int fd; /* -1: nobody wants to know */
	struct sockaddr_un to;
	socklen_t to_bytes;
	uint64_t every_ns; /* of the watchdog; 0: there is none */
	uint64_t next_ns;
	uint64_t beats[APP_CORES_MAX]; /* as they were last */
};

/* Reads the environment, and leaves it as it is: the daemon may restart itself. */
void app_notify_open(struct app_notify *n);
void app_notify_ready(const struct app_notify *n);
void app_notify_stopping(const struct app_notify *n);

/* Feeds the watchdog when it is due, unless a polling thread that serves stands still. */
void app_notify_step(struct app_notify *n, struct app_run *run, uint64_t now_ns);
uint64_t app_notify_deadline(const struct app_notify *n); /* UINT64_MAX: never */
void app_notify_close(struct app_notify *n);

#endif
