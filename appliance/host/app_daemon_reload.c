/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * SIGHUP: the configuration is read again while the store serves.
 *
 *   drive           one more, in its domain, is opened and offered to the store
 *                   (app_daemon_drives.c)
 *   listen          addresses come and go (app_listen.c)
 *   metrics         is served elsewhere, or not at all (app_web.c)
 *   spare_drives, rebuild_rate   hold from now on
 *   all others      a line in the log: they take effect at the next start
 *
 * A file with a mistake changes nothing; one log line says why.  Keys have files of their own and
 * are read again in any case (app_daemon_control.c).
 */
#include "appliance/host/app_daemon.h"
#include "appliance/host/app_cfg.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static bool has_drive(const struct app_daemon *d, const char *name)
{
	for (uint32_t i = 0; i < d->ndrives; i++)
		if (strcmp(d->conf.drive[i], name) == 0)
			return true;
	return false;
}

static const char *domain_of(const struct app_conf *c, uint32_t i)
{
	ASSERT(i < c->ndrives);
	return app_domains_name(&c->domains, app_domains_of(&c->domains, c->drive[i]));
}

/* Opens a drive that the configuration did not have before, if it is offered to a store. */
static void take_drive(struct app_daemon *d, const char *name, const char *domain)
{
	struct app_found found;
	uint32_t number = 0;
	int err;

	if (d->ndrives == APP_CONF_DRIVES_MAX)
		return;
	if (*domain && !app_domains_number(&d->conf.domains, domain, &number)) {
		log_error("WEKA-218: %s: domain = %s: there are more than %u since the start: "
			  "restart the daemon to add the drive",
			  name, domain, APP_CONF_DRIVES_MAX);
		return;
	}
	app_domains_put(&d->conf.domains, name, number);
	memcpy(d->conf.drive[d->ndrives], name, APP_CONF_TEXT_MAX);
	err = app_daemon_open_drive(d, 1);
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

/* Logs each changed key that only a start reads. */
static void tell_changed(const struct app_daemon *d, const struct app_conf *fresh)
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

void app_daemon_reload(struct app_daemon *d)
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
			take_drive(d, fresh->drive[i], domain_of(fresh, i));
	app_listen_reload(&d->listen, &d->conf, d->srv, fresh);
	app_web_reload(&d->web, &d->conf, fresh, clock_now_ns());
	d->conf.spare_drives = fresh->spare_drives;
	d->conf.rebuild_rate = fresh->rebuild_rate;
	app_run_rebuild(&d->run, d->conf.rebuild_rate, app_cfg_spare_drives(&d->conf));
	tell_changed(d, fresh);
	log_info("%s was read again", fresh->file);
	free(fresh);
}
