/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-appliance - the daemon.
 *
 * main() reads the configuration, opens drives and addresses, starts the polling threads, and is
 * the control thread from then on: it accepts clients, maps their memory, and waits for signals.
 * Nothing is touched before the whole configuration has been checked.  app_daemon.h names the
 * files.
 */
#include "appliance/host/app_daemon.h"
#include "appliance/host/app_machine.h"
#include "base/log.h"
#include "base/log_ring.h"
#include "base/version.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
	const char *config;
	bool check_only;
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

/* Says what to type when there is no store yet: the usual first mistake. */
static void explain(struct app_daemon *d)
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

static int run(struct app_daemon *d)
{
	int err = app_daemon_open_control(d);

	app_notify_open(&d->notify);
	app_machine_files(&d->conf);
	if (!err)
		err = app_daemon_open_drives(d);
	if (!err)
		err = app_daemon_open_addresses(d);
	if (!err)
		err = app_daemon_start_cores(d);
	if (err)
		return err;
	err = app_daemon_watch(d, d->run.event_fd);
	ASSERT(!err);
	if (nvme_poisons_reads())
		log_info("WEKA_POISON_READS: read buffers are overwritten before each read");
	if (app_keys_fd(&d->keys) >= 0)
		err = app_daemon_watch(d, app_keys_fd(&d->keys));
	ASSERT(!err);
	log_info("weka-appliance %s (%s, %s), %u drives, %u cores, the first on cpu %d",
		 version_text, version_commit, version_variant, d->ndrives, d->run.cores,
		 d->cpus[0]);
	app_daemon_control(d);
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
	static struct app_daemon d;
	struct args args = { .config = "/etc/weka-appliance.conf" };
	int err;

	argp_program_version_hook = print_version;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (!args.check_only)
		log_style_set(log_style_of_stderr());
	log_keep(&log);
	app_anew_look(&d.anew, args.config, argv);
	err = app_daemon_check(&d, args.config, args.check_only);
	if (!err && args.check_only) {
		printf("%s: fine\n", args.config);
		return 0;
	}
	if (!err)
		err = run(&d);
	app_daemon_close(&d);
	if (err) {
		log_error("WEKA-100: %s", d.why);
		if (!d.stopping)
			app_anew_try_on(&d.anew);
	} else {
		log_info("stopped");
	}
	return err ? 1 : 0;
}
