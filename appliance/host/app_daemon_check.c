/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * What the daemon checks before it touches anything.
 *
 *   the file --> drives' names --> limits of a core --> memory --> the machine --> keys
 *                                                          |
 *                            --check-config, besides: are the drives and addresses there?
 *
 * The first problem ends the check, as a line in `why`.  Nothing is opened for writing and nothing
 * is changed, so --check-config may run beside a daemon that serves.
 */
#include "appliance/host/app_daemon.h"
#include "appliance/conf/app_conf_metrics.h"
#include "appliance/host/app_cfg.h"
#include "appliance/host/app_machine.h"
#include "appliance/media/app_overlay.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Reads the keys, for --check-config as the service's user does. */
static int check_keys(struct app_daemon *d, bool check_only)
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

bool app_daemon_is_read_only(const struct app_daemon *d)
{
	return d->anew.read_only || (d->conf.allow_missing[0] && d->missing.copies < 2);
}

/* Computes the account.  No key configures the overlay of a restart to read only: it gets half of
 * the memory that memory_max leaves. */
static void count_memory(struct app_daemon *d, struct app_core_cfg *cfg,
			 const struct fab_server_cfg *fabric)
{
	uint64_t total;

	d->overlay_bytes = APP_OVERLAY_MAX;
	app_account_make(&d->account, &d->conf, cfg, fabric);
	if (!app_daemon_is_read_only(d))
		return;
	total = app_account_total(&d->account);
	if (!d->conf.allow_missing[0] && total < d->account.max_bytes)
		d->overlay_bytes = min_u64(APP_OVERLAY_MAX, (d->account.max_bytes - total) / 2);
	cfg->read_only = true;
	cfg->overlay_bytes = d->overlay_bytes;
	app_account_make(&d->account, &d->conf, cfg, fabric);
}

int app_daemon_check(struct app_daemon *d, const char *path, bool check_only)
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
