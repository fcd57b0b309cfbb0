/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Metrics and the live page over HTTP, by libmicrohttpd.
 *
 *   GET /metrics       Prometheus' text format     GET /   the page, which asks for
 *   GET /status.json   wekactl-status(5)                   /status.json once a second
 *
 * One thread serves all connections.  It may wait and allocate; polling threads only answer its
 * questions (app_ask.h), at most two a second, however many requests come.
 */
#ifndef APP_HTTP_H
#define APP_HTTP_H

#include "appliance/conf/app_conf.h"
#include "appliance/core/app_ask.h"

struct app_http;

struct app_http_cfg {
	const struct app_conf *conf; /* metrics, metrics_token_file, limits of clients */
	struct app_ask *ask;
	const char *version, *commit, *variant;
	/* CPUs of the polling threads: the thread stays off these, if there are others. */
	const int *cpus;
	uint32_t cpu_count;
};

#define APP_HTTP_CONNECTIONS_MAX 256u

/**
 * app_http_start - listen at `metrics`, and serve
 *
 * Owns:    `ask` and `version`, `commit`, `variant` outlive it; the rest is copied.  It is the only
 *          asker of `ask`.
 * Errors:  what socket calls say, and app_conf_metrics_token(); -EIO; with one line in `why`
 *          (APP_CONF_WHY bytes).
 */
must_check int app_http_start(struct app_http **out, const struct app_http_cfg *cfg, char *why);

/* Closes all connections and ends the thread; waits for half a second at most.  NULL is nothing. */
void app_http_stop(struct app_http *http);

#endif
