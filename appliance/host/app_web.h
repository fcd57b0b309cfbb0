/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Metrics and the page as the control thread keeps them: started, tried again, changed by a
 * reload. */
#ifndef APP_WEB_H
#define APP_WEB_H

#include "appliance/http/app_http.h"

/* Zeroed memory is one that serves nothing. */
struct app_web {
	struct app_http_cfg cfg; /* cfg.conf is the daemon's */
	struct app_http *http;   /* NULL: nothing is served  */
	uint64_t retry_ns;       /* UINT64_MAX: never        */
	bool said;               /* why it cannot be served  */
};

/* Serves what `conf` says, which outlives it.  An address that cannot be had is logged and tried
 * again: clients are served without metrics.  The polling threads have `cpus`. */
void app_web_start(struct app_web *web, const struct app_conf *conf, struct app_ask *ask,
		   const int *cpus, uint64_t now_ns);
/* Tries again, every 5 s. */
void app_web_step(struct app_web *web, uint64_t now_ns);
/* Returns when app_web_step() is due; UINT64_MAX: never. */
uint64_t app_web_deadline(const struct app_web *web);
/* Takes `metrics` and `metrics_token_file` from `fresh` into `conf`, and listens again.  A token
 * that cannot be read changes nothing, and is logged. */
void app_web_reload(struct app_web *web, struct app_conf *conf, const struct app_conf *fresh,
		    uint64_t now_ns);
void app_web_stop(struct app_web *web);

#endif
