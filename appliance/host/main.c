/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-appliance - the daemon.
 *
 * main() reads the configuration, opens drives and addresses, starts the polling threads, and is
 * the control thread from then on: it accepts clients, maps their memory, and waits for signals.
 * Nothing is touched before the whole configuration has been checked.
 *
 *   R1 -> A1   (app_run.c) the cores' threads have stored their results before `at` is set.
 */
#define _GNU_SOURCE
#include "appliance/core/app_account.h"
#include "appliance/core/app_ask.h"
#include "appliance/host/app_anew.h"
#include "appliance/host/app_cfg.h"
#include "appliance/conf/app_conf_metrics.h"
#include "appliance/media/app_drives.h"
#include "appliance/media/app_fault_log.h"
#include "appliance/conf/app_keys.h"
#include "appliance/core/app_full.h"
#include "appliance/media/app_lines.h"
#include "appliance/conf/app_listen.h"
#include "appliance/host/app_machine.h"
#include "appliance/media/app_missing.h"
#include "appliance/media/app_overlay.h"
#include "appliance/host/app_notify.h"
#include "appliance/host/app_run.h"
#include "appliance/host/app_web.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_ring.h"
#include "base/num.h"
#include "base/version.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct args {
	const char *config;
	bool check_only;
};

struct daemon {
	struct app_conf conf;
	struct app_keys keys;
	struct nvme_dma *dma;
	/* Like conf.drive[] in the order of the store, followed by offered drives. */
	struct nvme_drive *drive[APP_CONF_DRIVES_MAX];
	uint32_t ndrives;
	uint32_t store_drives;
	struct app_missing missing;
	bool adding;
	bool no_more;    /* none is added before the next start, or, if: */
	bool failed;     /* ... one could not be added, before SIGHUP */
	bool has_queues; /* the cores have that one's queues, and the store was told: */
	struct app_new_drive tried;
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
	bool stopping; /* a signal asked for it: no restart */
	int unfit;     /* -ENOMEM: it would take more memory than it may */
	uint64_t overlay_bytes;
	int cpus[APP_CORES_MAX];
	int signal_fd;
	int epoll_fd;
	char why[APP_CONF_WHY];
};

enum { OPT_CHECK = 256, OPT_LIST };

static const struct argp_option options[] = {
	{ "config", 'c', "FILE", 0, "the configuration (/etc/weka-appliance.conf)", 0 },
	{ "check-config", OPT_CHECK, NULL, 0, "check it, touch nothing, and say so", 0 },
	{ "list-keys", OPT_LIST, NULL, 0, "every key with unit, range, default and meaning", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *args = state->input;

	switch (key) {
	case 'c':
		args->config = arg;
		return 0;
	case OPT_CHECK:
		args->check_only = true;
		return 0;
	case OPT_LIST:
		app_conf_print(stdout);
		exit(fflush(stdout) ? 1 : 0);
	case ARGP_KEY_ARG:
		argp_error(state, "%s: unexpected argument", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void print_version(FILE *to, struct argp_state *state)
{
	(void)state;
	fprintf(to, "weka-appliance %s (%s, %s)\n", version_text, version_commit, version_variant);
}

/* ---- before anything is touched ------------------------------------------------------ */

/* Reads the keys, for --check-config as the service's user does. */
static int check_keys(struct daemon *d, bool check_only)
{
	const char *of = d->conf.key_file[0] ? d->conf.key_file : d->conf.key_dir;
	uid_t was = check_only ? app_keys_as_owner(of) : geteuid();
	int err = app_keys_check(&d->conf, d->why);
	char token[APP_TOKEN_MAX + 1];

	if (!err)
		err = app_conf_metrics_token(&d->conf, token, d->why);
	explicit_bzero(token, sizeof(token));
	app_keys_as_before(was);
	return err;
}

static bool is_read_only(const struct daemon *d)
{
	return d->anew.read_only || (d->conf.allow_missing[0] && d->missing.copies < 2);
}

/* A restart to read only is not configured: its overlay gets the memory that memory_max leaves,
 * except for the heap taken at start. */
static void count_memory(struct daemon *d, struct app_core_cfg *cfg,
			 const struct fab_server_cfg *fabric)
{
	uint64_t total;

	d->overlay_bytes = APP_OVERLAY_MAX;
	app_account_make(&d->account, &d->conf, cfg, fabric);
	if (!is_read_only(d))
		return;
	total = app_account_total(&d->account);
	if (!d->conf.allow_missing[0] && total < d->account.max_bytes)
		d->overlay_bytes = min_u64(APP_OVERLAY_MAX, (d->account.max_bytes - total) / 2);
	cfg->read_only = true;
	cfg->overlay_bytes = d->overlay_bytes;
	app_account_make(&d->account, &d->conf, cfg, fabric);
}

static int check(struct daemon *d, const char *path, bool check_only)
{
	char err_text[NVME_ERR_TEXT];
	struct fab_server_cfg fabric;
	struct app_core_cfg cfg;
	const char *problem;
	int err = app_conf_load(&d->conf, path, d->why);

	if (err)
		return err;
	for (uint32_t i = 0; i < d->conf.ndrives; i++) {
		err = nvme_name_check(d->conf.drive[i], err_text, sizeof(err_text));
		if (err) {
			app_conf_blame(&d->conf, APP_CONF_DRIVE, d->why, err_text);
			return err;
		}
	}
	app_cfg_core(&d->conf, &cfg);
	problem = app_core_cfg_problem(&cfg);
	if (problem) {
		app_conf_blame(&d->conf, APP_CONF_CACHE, d->why, problem);
		return -EINVAL;
	}
	app_cfg_fabric(&d->conf, &fabric);
	count_memory(d, &cfg, &fabric);
	err = app_account_check(&d->account, &d->conf, d->why);
	if (!err)
		err = app_machine_check(&d->conf, &d->account, d->why);
	if (!err)
		err = check_keys(d, check_only);
	if (!err && check_only)
		err = app_machine_look(&d->conf, stdout, d->why);
	return err;
}

/* ---- resources -------------------------------------------------------------------------- */

/* Returns the memory of all cores that drives reach. */
static uint64_t dma_needed(const struct app_core_cfg *of_first, uint64_t cores)
{
	struct app_core_cfg cfg = *of_first;
	uint64_t bytes = app_core_dma_needed(&cfg);

	cfg.index = 1; /* it has no store */
	return bytes + (cores - 1) * app_core_dma_needed(&cfg);
}

/* Drives of the configuration that are namespaces of the same controller as this one. */
static uint32_t namespaces(const struct app_conf *c, const char *name)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->ndrives; i++)
		count += nvme_name_shares(c->drive[i], name);
	return count;
}

/* The next of conf.drive[], of which `left` are not open. */
static int open_drive(struct daemon *d, uint32_t left)
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

static int open_drives(struct daemon *d)
{
	int err = nvme_dma_create(&d->dma);

	if (err) {
		snprintf(d->why, sizeof(d->why), "no memory");
		return err;
	}
	d->missing.allow = d->conf.allow_missing;
	while (!err && d->ndrives < d->conf.ndrives) {
		err = open_drive(d, d->conf.ndrives - d->ndrives);
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

static int open_addresses(struct daemon *d)
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

static int start_cores(struct daemon *d)
{
	struct app_run *run = &d->run;
	int err;

	app_cfg_core(&d->conf, &run->cfg);
	run->cfg.dma = d->dma;
	run->cfg.drive = d->drive;
	run->cfg.drive_name = d->conf.drive;
	run->cfg.ndrives = d->store_drives;
	run->cfg.srv = d->srv;
	run->cfg.account = &d->account;
	run->cfg.lines = &d->lines;
	run->cfg.faults = d->faults;
	run->cfg.full = &d->full;
	run->cfg.ask = d->ask;
	run->cfg.read_only = is_read_only(d);
	run->cfg.overlay_bytes = d->overlay_bytes;
	if (d->missing.drive < META_DRIVES_MAX && d->missing.copies > 1)
		run->cfg.told_missing = d->missing.drive + 1;
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

/* ---- the control thread ---------------------------------------------------------------- */

static int watch(struct daemon *d, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int open_control(struct daemon *d)
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
	err = d->signal_fd < 0 || d->epoll_fd < 0 ? -errno : watch(d, d->signal_fd);
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

/* The signal that has come, or 0. */
static uint32_t signalled(struct daemon *d)
{
	struct signalfd_siginfo info;

	return read(d->signal_fd, &info, sizeof(info)) == sizeof(info) ? info.ssi_signo : 0;
}

static void write_lines(struct daemon *d)
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

/* ---- drives that come while it serves ------------------------------------------------------ */

/* It was offered in the place of a drive of this store. */
static uint32_t replaced(struct daemon *d, const struct meta_offer *offer)
{
	uint8_t uuid[16];

	meta_store_uuid(app_core_meta(d->run.core), uuid);
	if (!offer->replaces || memcmp(uuid, offer->uuid, sizeof(uuid)) != 0)
		return 0;
	log_info("%s: takes the place of drive %u, which is drained from then on",
		 d->conf.drive[d->store_drives], offer->drive);
	return offer->drive + 1;
}

/* The next one that was offered. */
static int add_drive(struct daemon *d)
{
	struct nvme_drive *drive = d->drive[d->store_drives];
	struct app_new_drive new = { .info = { 0 } };
	struct app_found found;
	int err = app_drive_look(drive, d->dma, &found);

	if (!err && found.kind != APP_FOUND_OFFER)
		err = -ENODEV;
	if (!err)
		err = app_run_queues(&d->run, drive, (uint32_t)d->conf.queue_depth, &new);
	if (err)
		return err;
	app_drive_info(drive, d->conf.drive[d->store_drives], found.offer.tag,
		       app_conf_tell(&d->conf), &new.info);
	new.info.replaces = replaced(d, &found.offer);
	new.number = d->store_drives;
	log_info("%s: being added to the store", d->conf.drive[d->store_drives]);
	app_run_drive(&d->run, &new);
	d->tried = new;
	d->adding = true;
	return 0;
}

/* The cores have its queues, and nothing else may look at it. */
static int add_again(struct daemon *d)
{
	ASSERT(d->has_queues && !d->adding);
	log_info("%s: being added to the store", d->conf.drive[d->store_drives]);
	app_run_drive_again(&d->run, &d->tried);
	d->adding = true;
	return 0;
}

/* One after the other. */
static void add_drives(struct daemon *d)
{
	int err = d->adding ? app_run_drive_status(&d->run) : 0;

	if (err == -EAGAIN)
		return;
	if (d->adding)
		d->has_queues = err != 0;
	if (d->adding && !err) {
		log_info("%s: is drive %u of the store now", d->conf.drive[d->store_drives],
			 d->store_drives);
		d->store_drives++;
	}
	d->adding = false;
	if (!err && !d->no_more && d->store_drives < d->ndrives)
		err = d->has_queues ? add_again(d) : add_drive(d);
	if (!err || d->no_more)
		return;
	d->no_more = d->failed = true;
	log_error("WEKA-213: %s: cannot be added to the store: %s; SIGHUP or a start tries again",
		  d->conf.drive[d->store_drives],
		  err == -ENOSPC ? "it is too small for what lives on the drive that it replaces"
				 : strerror(-err));
}

/* ---- drives that leave while it serves ----------------------------------------------------- */

/* Numbers that were gone before this start, without a drive: offered drives come after them. */
static void keep_numbers(struct daemon *d)
{
	const uint32_t places = meta_drives(app_core_meta(d->run.core));
	const uint32_t shift = places - d->store_drives;

	if (d->ndrives + shift > APP_CONF_DRIVES_MAX) {
		d->no_more = d->ndrives > d->store_drives;
		return;
	}
	for (uint32_t i = d->ndrives; shift && i-- > d->store_drives;) {
		d->drive[i + shift] = d->drive[i];
		memcpy(d->conf.drive[i + shift], d->conf.drive[i], APP_CONF_TEXT_MAX);
		d->drive[i] = NULL;
		d->conf.drive[i][0] = '\0';
	}
	d->ndrives += shift;
	d->store_drives = places;
}

/* No core uses them any more. */
static void close_gone(struct daemon *d)
{
	int i;

	while ((i = app_run_drive_gone(&d->run)) >= 0) {
		if ((uint32_t)i >= d->ndrives || !d->drive[i])
			continue;
		log_info("%s: empty and removed from the store; its line in the configuration can "
			 "be removed",
			 d->conf.drive[i]);
		nvme_close(d->drive[i]);
		d->drive[i] = NULL;
		d->conf.drive[i][0] = '\0';
	}
}

static bool has_drive(const struct daemon *d, const char *name)
{
	for (uint32_t i = 0; i < d->ndrives; i++)
		if (strcmp(d->conf.drive[i], name) == 0)
			return true;
	return false;
}

/* A drive that was added to the configuration since it was read last. */
static void take_drive(struct daemon *d, const char *name)
{
	struct app_found found;
	int err;

	if (d->ndrives == APP_CONF_DRIVES_MAX)
		return;
	memcpy(d->conf.drive[d->ndrives], name, APP_CONF_TEXT_MAX);
	err = open_drive(d, 1);
	if (err) {
		log_error("WEKA-217: %s", d->why);
		return;
	}
	err = app_drive_look(d->drive[d->ndrives - 1], d->dma, &found);
	if (!err && found.kind == APP_FOUND_OFFER)
		return;
	nvme_close(d->drive[--d->ndrives]);
	d->drive[d->ndrives] = NULL;
	if (!err && found.gone)
		log_error("WEKA-216: %s: was removed from its store; to add it again, type: "
			  "wekactl drives add --force '%s'",
			  name, name);
	else if (err)
		log_error("WEKA-215: %s: cannot be read: %s", name, strerror(-err));
	else
		log_error("WEKA-214: %s: is not offered to a store; type: wekactl drives add '%s'",
			  name, name);
}

/* Names the keys that only a start reads. */
static void tell_changed(const struct daemon *d, const struct app_conf *fresh)
{
	char line[APP_CONF_WHY];

	for (uint32_t i = 0; i < APP_CONF_KEYS; i++) {
		if (!app_conf_differs(&d->conf, fresh, (enum app_conf_key)i) ||
		    (i == APP_CONF_KEY_ID && !fresh->line[i])) /* key_file names it */
			continue;
		app_conf_blame(fresh, (enum app_conf_key)i, line,
			       "has changed; that takes effect at the next start");
		log_warn("WEKA-108: %s", line);
	}
}

static void reload_conf(struct daemon *d)
{
	struct app_conf *fresh = malloc(sizeof(*fresh));

	if (!fresh || app_conf_load(fresh, d->conf.file, d->why)) {
		log_error("WEKA-107: %s; nothing was reloaded but keys",
			  fresh ? d->why : "no memory");
		free(fresh);
		return;
	}
	if (d->failed)
		d->no_more = d->failed = false;
	for (uint32_t i = 0; i < fresh->ndrives; i++)
		if (!d->run.cfg.missing && !has_drive(d, fresh->drive[i]))
			take_drive(d, fresh->drive[i]);
	app_listen_reload(&d->listen, &d->conf, d->srv, fresh);
	app_web_reload(&d->web, &d->conf, fresh, clock_now_ns());
	d->conf.spare_drives = fresh->spare_drives;
	d->conf.rebuild_rate = fresh->rebuild_rate;
	app_run_rebuild(&d->run, d->conf.rebuild_rate, app_cfg_spare_drives(&d->conf));
	tell_changed(d, fresh);
	log_info("%s was read again", fresh->file);
	free(fresh);
}

static uint64_t control_deadline(const struct daemon *d)
{
	uint64_t at_ns = min_u64(fab_server_control_deadline(d->srv), app_keys_deadline(&d->keys));

	at_ns = min_u64(at_ns,
			min_u64(app_listen_deadline(&d->listen), app_anew_deadline(&d->anew)));
	at_ns = min_u64(at_ns, app_web_deadline(&d->web));
	at_ns = min_u64(at_ns, app_notify_deadline(&d->notify));
	return min_u64(at_ns, app_fault_log_deadline(&d->fault_log, d->faults, d->run.cores));
}

/* Until the core has ended.  Clients are let in once it serves, and no more once it is stopping. */
static void shut(struct daemon *d)
{
	fab_server_shut(d->srv);
	app_run_stop(&d->run);
}

/* Everything is taken that ever will be, but what clients have: before the first comes. */
static bool fits(struct daemon *d)
{
	app_account_tables(&d->account);
	d->unfit = app_account_check(&d->account, &d->conf, d->why);
	if (!d->unfit)
		log_info("memory: at most %llu MiB",
			 (unsigned long long)div_up(app_account_total(&d->account), 1 << 20));
	return !d->unfit;
}

static void control(struct daemon *d)
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
				reload_conf(d);
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
			close_gone(d);
			add_drives(d);
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
		(void)watch(d, fab_server_control_fd(d->srv));
		for (uint32_t i = 0; fab_server_address(d->srv, i); i++)
			log_info("serving %s", fab_server_address(d->srv, i));
		app_web_start(&d->web, &d->conf, d->ask, d->cpus, clock_now_ns());
		keep_numbers(d);
		close_gone(d);
		add_drives(d);
		app_notify_ready(&d->notify);
	}
	app_web_stop(&d->web);
	app_run_join(&d->run);
	write_lines(d);
}

static void close_all(struct daemon *d)
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

/* A store that is not there yet is the usual first mistake: say what to type. */
static void explain(struct daemon *d)
{
	size_t at;

	snprintf(d->why, sizeof(d->why), "%s", d->run.why);
	if (d->run.status != -ENODATA || !strstr(d->run.why, "no superblock"))
		return; /* a damaged store can be salvaged, so no advice to format it */
	at = (size_t)snprintf(d->why, sizeof(d->why), "no store on it; type: wekactl format");
	for (uint32_t i = 0; i < d->conf.ndrives && at < sizeof(d->why); i++)
		if (*d->conf.drive[i])
			at += (size_t)snprintf(d->why + at, sizeof(d->why) - at, " '%s'",
					       d->conf.drive[i]);
}

static int run(struct daemon *d)
{
	int err = open_control(d);

	app_notify_open(&d->notify);
	app_machine_files(&d->conf);
	if (!err)
		err = open_drives(d);
	if (!err)
		err = open_addresses(d);
	if (!err)
		err = start_cores(d);
	if (err)
		return err;
	err = watch(d, d->run.event_fd);
	ASSERT(!err);
	if (nvme_poisons_reads())
		log_info("WEKA_POISON_READS: read buffers are overwritten before each read");
	if (app_keys_fd(&d->keys) >= 0)
		err = watch(d, app_keys_fd(&d->keys));
	ASSERT(!err);
	log_info("weka-appliance %s (%s, %s), %u drives, %u cores, the first on cpu %d",
		 version_text, version_commit, version_variant, d->ndrives, d->run.cores,
		 d->cpus[0]);
	control(d);
	if (d->run.status)
		explain(d);
	return d->run.status ? d->run.status : d->unfit;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Serve files on NVMe drives to data loaders.",
	};
	static struct log_ring log;
	static struct daemon d;
	struct args args = { .config = "/etc/weka-appliance.conf" };
	int err;

	argp_program_version_hook = print_version;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (!args.check_only)
		log_style_set(log_style_of_stderr());
	log_keep(&log);
	app_anew_look(&d.anew, args.config, argv);
	err = check(&d, args.config, args.check_only);
	if (!err && args.check_only) {
		printf("%s: fine\n", args.config);
		return 0;
	}
	if (!err)
		err = run(&d);
	close_all(&d);
	if (err) {
		log_error("WEKA-100: %s", d.why);
		if (!d.stopping)
			app_anew_try_on(&d.anew);
	} else {
		log_info("stopped");
	}
	return err ? 1 : 0;
}
