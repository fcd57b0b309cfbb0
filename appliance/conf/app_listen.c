/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/conf/app_listen.h"
#include "base/clock.h"
#include "base/log.h"
#include "fabric/fab.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static_assert(APP_CONF_LISTEN_MAX <= 64, "app_listen.missing");

int app_listen_start(struct app_listen *l, const struct app_conf *conf, struct fab_server *srv,
		     char *why)
{
	char line[256];

	for (uint32_t i = 0; i < conf->nlisten; i++) {
		int err = fab_server_listen(srv, conf->listen[i], line);

		if (err == -EADDRNOTAVAIL) {
			l->missing |= UINT64_C(1) << i;
			log_warn("WEKA-111: listen = %s; trying again every second", line);
		} else if (err) {
			snprintf(why, APP_CONF_WHY, "listen = %s", line);
			return err;
		}
	}
	return 0;
}

void app_listen_step(struct app_listen *l, const struct app_conf *conf, struct fab_server *srv,
		     uint64_t now_ns)
{
	char line[256];

	if (!l->missing || now_ns < l->retry_ns)
		return;
	l->retry_ns = now_ns + NS_PER_S;
	for (uint32_t i = 0; i < conf->nlisten; i++) {
		const uint64_t bit = UINT64_C(1) << i;
		int err;

		if (!(l->missing & bit))
			continue;
		err = fab_server_listen(srv, conf->listen[i], line);
		if (err == -EADDRNOTAVAIL)
			continue;
		l->missing &= ~bit;
		if (err)
			log_error("WEKA-112: listen = %s; it is not served until the next start",
				  line);
		else
			log_info("serving %s", conf->listen[i]);
	}
}

static bool listens(const struct app_conf *c, const char *address)
{
	for (uint32_t i = 0; i < c->nlisten; i++)
		if (strcmp(c->listen[i], address) == 0)
			return true;
	return false;
}

void app_listen_reload(struct app_listen *l, struct app_conf *conf, struct fab_server *srv,
		       const struct app_conf *fresh)
{
	for (uint32_t i = 0; i < conf->nlisten; i++)
		if (!listens(fresh, conf->listen[i]))
			log_warn("WEKA-113: listen = %s is no longer configured; it is served "
				 "until the next start",
				 conf->listen[i]);
	for (uint32_t i = 0; i < fresh->nlisten; i++) {
		if (listens(conf, fresh->listen[i]))
			continue;
		if (conf->nlisten == APP_CONF_LISTEN_MAX) {
			log_error("WEKA-114: listen = %s: %u addresses are served already; it is "
				  "served from the next start on",
				  fresh->listen[i], APP_CONF_LISTEN_MAX);
			return;
		}
		l->missing |= UINT64_C(1) << conf->nlisten;
		memcpy(conf->listen[conf->nlisten++], fresh->listen[i], APP_CONF_TEXT_MAX);
	}
	l->retry_ns = 0;
	app_listen_step(l, conf, srv, clock_now_ns());
}

uint64_t app_listen_deadline(const struct app_listen *l)
{
	return l->missing ? l->retry_ns : UINT64_MAX;
}
