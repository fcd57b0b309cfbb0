/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The configured addresses: serves those that exist, and retries the others. */
#ifndef APP_LISTEN_H
#define APP_LISTEN_H

#include "appliance/conf/app_conf.h"

struct fab_server;

/* Zeroed memory is one that waits for nothing. */
struct app_listen {
	uint64_t missing; /* bits of conf->listen[]: addresses that no interface has yet */
	uint64_t retry_ns;
};

/**
 * app_listen_start - listen on every address of `conf` that this machine has
 *
 * An address that no interface has yet is not an error: at boot a lease may come later.  It is
 * logged, and app_listen_step() tries again.
 *
 * Errors:  what fab_server_listen() says of other addresses, with a line in `why` (APP_CONF_WHY).
 */
must_check int app_listen_start(struct app_listen *l, const struct app_conf *conf,
				struct fab_server *srv, char *why);

/* Tries the missing addresses again, once a second; logs each that has come. */
void app_listen_step(struct app_listen *l, const struct app_conf *conf, struct fab_server *srv,
		     uint64_t now_ns);

/**
 * app_listen_reload - add the new addresses of `fresh` to `conf`, and serve them
 *
 * An address that is no longer among them is logged and served until the next start.
 */
void app_listen_reload(struct app_listen *l, struct app_conf *conf, struct fab_server *srv,
		       const struct app_conf *fresh);

/* Returns when app_listen_step() is due; UINT64_MAX: nothing is missing. */
uint64_t app_listen_deadline(const struct app_listen *l);

#endif
