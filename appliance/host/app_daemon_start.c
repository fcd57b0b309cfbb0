/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The resources of a daemon that serves: opened in this order, and closed in the other one.
 *
 *   app_daemon_open_control()     signals, epoll          (app_daemon_control.c)
 *   app_daemon_open_drives()      drives, in the order of the store
 *   app_daemon_open_addresses()   sessions' memory, keys, addresses
 *   app_daemon_start_cores()      one polling thread a core; core 0 mounts the store
 *   app_daemon_close()            after the cores have ended, or when one of these has failed
 */
#define _GNU_SOURCE
#include "appliance/host/app_daemon.h"
#include "appliance/host/app_cfg.h"
#include "appliance/host/app_machine.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

/* Returns the memory of all cores that drives reach. */
static uint64_t dma_needed(const struct app_core_cfg *of_first, uint64_t cores)
{
	struct app_core_cfg cfg = *of_first;
	uint64_t bytes = app_core_dma_needed(&cfg);

	cfg.index = 1; /* it has no store */
	return bytes + (cores - 1) * app_core_dma_needed(&cfg);
}

/* Returns how many drives of the configuration are namespaces of the same controller as `name`. */
static uint32_t namespaces(const struct app_conf *c, const char *name)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->ndrives; i++)
		count += nvme_name_shares(c->drive[i], name);
	return count;
}

int app_daemon_open_drive(struct app_daemon *d, uint32_t left)
{
	struct nvme_options wanted = { .io_timeout_ns = d->conf.drive_timeout_us * NS_PER_US,
				       .qpair_count_max = (uint32_t)d->conf.cores };
	const char *name = d->conf.drive[d->ndrives];
	struct app_core_cfg cfg;
	struct nvme_info info;
	int err;

	app_cfg_core(&d->conf, &cfg);
	cfg.ndrives = left;
	wanted.memory_bytes = dma_needed(&cfg, d->conf.cores);
	wanted.namespace_count = namespaces(&d->conf, name);
	err = nvme_open(&d->drive[d->ndrives], name, d->dma, &wanted, d->why, NVME_ERR_TEXT);
	if (err)
		return err;
	nvme_drive_info(d->drive[d->ndrives], &info);
	if (*info.note)
		log_warn("WEKA-208: %s: %s", name, info.note);
	d->ndrives++;
	return 0;
}

int app_daemon_open_drives(struct app_daemon *d)
{
	int err = nvme_dma_create(&d->dma);

	if (err) {
		snprintf(d->why, sizeof(d->why), "no memory");
		return err;
	}
	d->missing.allow = d->conf.allow_missing;
	d->missing.domains = &d->conf.domains;
	while (!err && d->ndrives < d->conf.ndrives) {
		err = app_daemon_open_drive(d, d->conf.ndrives - d->ndrives);
		if (err && app_missing_leaves_out(&d->missing, &d->conf, d->ndrives, d->why))
			err = 0;
		else if (err &&
			 app_missing_puts_off(&d->missing, &d->conf, d->ndrives, err, d->why))
			err = 0;
	}
	if (err)
		return err;
	err = app_drives_sort_without(d->drive, d->conf.drive, &d->ndrives, d->dma,
				      &d->store_drives, &d->missing, d->why, sizeof(d->why));
	return app_missing_put_off(&d->missing, err, d->why);
}

int app_daemon_open_addresses(struct app_daemon *d)
{
	const struct app_conf *c = &d->conf;
	struct fab_server_cfg cfg;
	int err;

	app_cfg_fabric(c, &cfg);
	err = app_conf_shm(c, &cfg, d->why);
	if (err)
		return err;
	err = fab_server_create(&d->srv, &cfg);
	if (err) {
		snprintf(d->why, sizeof(d->why), "%s: the limits of clients: %s", c->file,
			 strerror(-err));
		return err;
	}
	err = app_keys_start(&d->keys, &d->conf, d->srv, d->why);
	if (!fab_server_keys_locked(d->srv))
		log_warn("WEKA-102: keys may be written to swap: the limit of locked memory is "
			 "too low (LimitMEMLOCK=, ulimit -l)");
	if (!err)
		err = app_listen_start(&d->listen, c, d->srv, d->why);
	for (uint32_t i = 1; i < c->cores && !err; i++) {
		err = fab_server_add(d->srv, &d->run.srv[i]);
		if (err)
			snprintf(d->why, sizeof(d->why), "%s: clients of core %u: %s", c->file, i,
				 strerror(-err));
	}
	return err;
}

int app_daemon_start_cores(struct app_daemon *d)
{
	struct app_run *run = &d->run;
	int err;

	app_cfg_core(&d->conf, &run->cfg);
	run->cfg.dma = d->dma;
	run->cfg.drive = d->drive;
	run->cfg.drive_name = d->conf.drive;
	run->cfg.domains = &d->conf.domains;
	run->cfg.ndrives = d->store_drives;
	run->cfg.srv = d->srv;
	run->cfg.account = &d->account;
	run->cfg.lines = &d->lines;
	run->cfg.faults = d->faults;
	run->cfg.full = &d->full;
	run->cfg.ask = d->ask;
	run->cfg.read_only = app_daemon_is_read_only(d);
	run->cfg.overlay_bytes = d->overlay_bytes;
	if (d->missing.drive < META_DRIVES_MAX && d->missing.copies > 1)
		run->cfg.told_missing = d->missing.told;
	else if (d->missing.drive < META_DRIVES_MAX)
		run->cfg.missing = &d->missing;
	run->cfg.anew = run->cfg.boot == APP_BOOT_MOUNT && !run->cfg.read_only;
	if (run->cfg.read_only)
		run->cfg.scrub_rate = 0; /* it would find the writes that the drives refused */
	run->cfg.wall_ns = (int64_t)clock_wall_ns();
	run->cores = (uint32_t)d->conf.cores;
	app_machine_cpus(&d->conf, d->cpus);
	run->cpus = d->cpus;
	run->spin_max_ns = d->conf.spin_max_us * NS_PER_US;
	if (getrandom(run->cfg.uuid, sizeof(run->cfg.uuid), 0) != sizeof(run->cfg.uuid) ||
	    getrandom(&run->cfg.secret, sizeof(run->cfg.secret), 0) != sizeof(run->cfg.secret)) {
		snprintf(d->why, sizeof(d->why), "no random numbers: %s", strerror(errno));
		return -errno;
	}
	run->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = run->event_fd < 0 ? -errno : app_run_start(run);
	if (err)
		snprintf(d->why, sizeof(d->why), "cannot start a thread for the core: %s",
			 strerror(-err));
	return err;
}

void app_daemon_close(struct app_daemon *d)
{
	if (d->srv) {
		fab_server_stop(d->srv);
		while (app_control_step(d->srv, d->dma, clock_now_ns()))
			;
		for (uint32_t i = APP_CORES_MAX; i-- > 1;)
			if (d->run.srv[i])
				fab_server_destroy(d->run.srv[i]);
		app_keys_stop(&d->keys);
		fab_server_destroy(d->srv);
	}
	while (d->ndrives)
		if (d->drive[--d->ndrives])
			nvme_close(d->drive[d->ndrives]);
	if (d->dma)
		nvme_dma_destroy(d->dma);
	app_ask_destroy(d->ask);
}
