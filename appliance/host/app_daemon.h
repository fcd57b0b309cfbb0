/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The daemon: all that its control thread owns, and what it does, in the order in which it does it.
 *
 *   main.c                 arguments, the order of a start, the exit status
 *   app_daemon_check.c     the whole configuration, before anything is touched
 *   app_daemon_start.c     drives, addresses, polling threads: opened, and closed
 *   app_daemon_control.c   serving: clients, signals, log lines
 *   app_daemon_drives.c    ... drives that come and leave
 *   app_daemon_reload.c    ... the configuration, read again
 *
 * All functions are the control thread's, which is the process's first.  A function that can fail
 * returns -errno, with a line in `why`.
 */
#ifndef APP_DAEMON_H
#define APP_DAEMON_H

#include "appliance/conf/app_keys.h"
#include "appliance/conf/app_listen.h"
#include "appliance/core/app_account.h"
#include "appliance/core/app_ask.h"
#include "appliance/core/app_full.h"
#include "appliance/host/app_anew.h"
#include "appliance/host/app_notify.h"
#include "appliance/host/app_run.h"
#include "appliance/host/app_web.h"
#include "appliance/media/app_drives.h"
#include "appliance/media/app_fault_log.h"
#include "appliance/media/app_lines.h"
#include "appliance/media/app_missing.h"

struct app_daemon {
	struct app_conf conf;
	struct app_keys keys;
	struct nvme_dma *dma;
	struct nvme_drive *drive[APP_CONF_DRIVES_MAX]; /* by place, as conf.drive[] */
	uint32_t ndrives;                              /* places that are in use */
	uint32_t store_drives;                         /* ... of which the store has the first */
	struct app_missing missing;
	bool adding;                /* drive[store_drives] is being added to the store */
	bool no_more;               /* no drive is added before the next start; or, with: */
	bool failed;                /* ... one could not be added: before the next SIGHUP */
	bool has_queues;            /* the store refused it, and the cores have its queue pairs: */
	struct app_new_drive tried; /* ... as the store was told of it */
	struct fab_server *srv;
	struct app_run run;
	struct app_account account;
	struct app_lines lines;
	struct app_full full;
	struct app_listen listen;
	struct app_ask *ask;
	struct app_web web;
	struct app_notify notify;
	struct app_faults faults[APP_CORES_MAX];
	struct app_fault_log fault_log;
	struct app_anew anew;
	bool stopping;           /* a signal asked for it: no restart */
	int unfit;               /* -ENOMEM: it would take more memory than it may */
	uint64_t overlay_bytes;  /* of a store that is only read: its writes, in memory */
	int cpus[APP_CORES_MAX]; /* of the polling threads; -1: not pinned */
	int signal_fd;
	int epoll_fd;
	char why[APP_CONF_WHY];
};

/* Reads the file at `path` and checks all of it.  check_only: also looks for drives, addresses. */
must_check int app_daemon_check(struct app_daemon *d, const char *path, bool check_only);
/* Returns true when the store is served without taking changes. */
bool app_daemon_is_read_only(const struct app_daemon *d);

/* Blocks the signals, which app_daemon_control() reads. */
must_check int app_daemon_open_control(struct app_daemon *d);
must_check int app_daemon_open_drives(struct app_daemon *d);
must_check int app_daemon_open_addresses(struct app_daemon *d);
must_check int app_daemon_start_cores(struct app_daemon *d);
/* Wakes app_daemon_control() when fd is readable. */
int app_daemon_watch(struct app_daemon *d, int fd);
/* Serves until the cores have ended; run.status has their result, `unfit` the memory's. */
void app_daemon_control(struct app_daemon *d);
/* Closes whatever is open. */
void app_daemon_close(struct app_daemon *d);

/* Opens the next of conf.drive[], of which `left` are not open. */
must_check int app_daemon_open_drive(struct app_daemon *d, uint32_t left);
/* Places offered drives after all numbers that the store has ever given: once, when it serves. */
void app_daemon_keep_numbers(struct app_daemon *d);
/* Adds the next offered drive to the store, or hears what became of it. */
void app_daemon_add_drives(struct app_daemon *d);
/* Closes drives that the store has let go and that no core uses any more. */
void app_daemon_close_gone(struct app_daemon *d);
/* Reads the configuration again. */
void app_daemon_reload(struct app_daemon *d);

#endif
