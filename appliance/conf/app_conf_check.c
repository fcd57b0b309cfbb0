/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Finds mistakes in a configuration that no single line shows: missing keys, and keys that
 * contradict each other. */
#include "appliance/conf/app_conf.h"
#include "appliance/conf/app_conf_metrics.h"
#include "appliance/conf/app_keys.h"
#include "fabric/fab.h"

#include <errno.h>
#include <string.h>

int app_conf_check(const struct app_conf *c, char *why)
{
	struct fab_server_cfg shm = { 0 };
	struct fab_rights rights;
	uint32_t mem_count = 0;

	for (uint32_t i = 0; i < c->ndrives; i++)
		mem_count += strncmp(c->drive[i], "mem:", 4) == 0;
	if (app_conf_shm(c, &shm, why) || app_conf_metrics_check(c, why))
		return -EINVAL;
	if (c->ndrives == 0)
		app_conf_blame(c, APP_CONF_DRIVE, why, "not given: at least one drive is needed");
	else if (mem_count != 0 && mem_count != c->ndrives)
		app_conf_blame(c, APP_CONF_DRIVE, why,
			       "mem: drives, lost at each stop, do not mix with others");
	else if (c->allow_missing[0] && mem_count)
		app_conf_blame(c, APP_CONF_ALLOW_MISSING, why,
			       "mem: drives make a new store at each start: none can be missing");
	else if (c->allow_missing[0] && !app_conf_drive_named(c->allow_missing))
		app_conf_blame(
			c, APP_CONF_ALLOW_MISSING, why,
			"allowed are a drive's number in the store, 0 to 63, or its name, as the "
			"start prints it");
	else if (c->nlisten == 0)
		app_conf_blame(c, APP_CONF_LISTEN, why,
			       "not given: at least one address is needed");
	else if (!c->key_file[0] && !c->key_dir[0] && !app_conf_anonymous(c, &rights))
		app_conf_blame(c, APP_CONF_KEY_FILE, why,
			       "not given, and neither is key_dir: clients must prove a key");
	else if (strcmp(c->anonymous, "none") != 0 && app_key_rights_parse(c->anonymous, &rights))
		app_conf_blame(c, APP_CONF_ANONYMOUS, why,
			       "allowed are none, read, write, read:/PATH and write:/PATH");
	else if (strcmp(c->anonymous_from, "loopback") != 0 &&
		 strcmp(c->anonymous_from, "any") != 0)
		app_conf_blame(c, APP_CONF_ANONYMOUS_FROM, why, "allowed are loopback and any");
	else if (app_key_id_reserved(c->key_id))
		app_conf_blame(c, APP_CONF_KEY_ID, why, "this name has a meaning of its own");
	else if (strcmp(c->tls, "off") != 0 && strcmp(c->tls, "required") != 0)
		app_conf_blame(c, APP_CONF_TLS, why, "allowed are off and required");
	else if (strcmp(c->deallocate, "own") != 0 && strcmp(c->deallocate, "all") != 0 &&
		 strcmp(c->deallocate, "none") != 0)
		app_conf_blame(c, APP_CONF_DEALLOCATE, why, "allowed are own, all and none");
	else if (app_conf_scheme(c->protect).copies == 0)
		app_conf_blame(c, APP_CONF_PROTECT, why, "not none, mirror, K+1 or K+2");
	else if (c->session_pools_max_bytes > c->pools_max_bytes && c->line[APP_CONF_SESSION_POOLS])
		app_conf_blame(c, APP_CONF_SESSION_POOLS, why,
			       "more than pools_max, of all clients");
	else if (c->window_max_bytes % 4096)
		app_conf_blame(c, APP_CONF_WINDOW_MAX, why, "not a multiple of 4096");
	else if (c->core != APP_CORE_AUTO && c->core != APP_CORE_NONE && c->core + 1 < c->cores)
		app_conf_blame(c, APP_CONF_CORES, why,
			       "more than there are CPUs from `core` downwards");
	else
		return 0;
	return -EINVAL;
}
