/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Metrics and the page as the control thread keeps them. */
#include "appliance/host/app_web.h"
#include "appliance/conf/app_conf_metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"

#include <string.h>

#define RETRY_NS (5 * NS_PER_S)

static void try_to_serve(struct app_web *web, uint64_t now_ns)
{
	const struct app_conf *conf = web->cfg.conf;
	char why[APP_CONF_WHY];

	web->retry_ns = UINT64_MAX;
	if (!conf->metrics[0])
		return;
	if (app_http_start(&web->http, &web->cfg, why) == 0) {
		log_info("serving metrics and the page at http://%s/", conf->metrics);
		return;
	}
	web->retry_ns = now_ns + RETRY_NS;
	if (!web->said)
		log_warn("WEKA-502: %s; clients are served without metrics, trying again every 5 s",
			 why);
	web->said = true;
}

void app_web_start(struct app_web *web, const struct app_conf *conf, struct app_ask *ask,
		   const int *cpus, uint64_t now_ns)
{
	web->cfg = (struct app_http_cfg){
		.conf = conf,
		.ask = ask,
		.version = version_text,
		.commit = version_commit,
		.variant = version_variant,
		.cpus = cpus,
		.cpu_count = (uint32_t)conf->cores,
	};
	web->said = false;
	try_to_serve(web, now_ns);
}

void app_web_step(struct app_web *web, uint64_t now_ns)
{
	if (web->cfg.conf && !web->http && now_ns >= web->retry_ns)
		try_to_serve(web, now_ns);
}

uint64_t app_web_deadline(const struct app_web *web)
{
	return web->cfg.conf && !web->http ? web->retry_ns : UINT64_MAX;
}

void app_web_reload(struct app_web *web, struct app_conf *conf, const struct app_conf *fresh,
		    uint64_t now_ns)
{
	char token[APP_TOKEN_MAX + 1], why[APP_CONF_WHY];
	int err = app_conf_metrics_token(fresh, token, why);

	explicit_bzero(token, sizeof(token));
	if (err) {
		log_error("WEKA-503: %s; metrics are served as before", why);
		return;
	}
	app_web_stop(web);
	memcpy(conf->metrics, fresh->metrics, sizeof(conf->metrics));
	memcpy(conf->metrics_token_file, fresh->metrics_token_file,
	       sizeof(conf->metrics_token_file));
	conf->line[APP_CONF_METRICS] = fresh->line[APP_CONF_METRICS];
	conf->line[APP_CONF_METRICS_TOKEN] = fresh->line[APP_CONF_METRICS_TOKEN];
	web->said = false;
	try_to_serve(web, now_ns);
}

void app_web_stop(struct app_web *web)
{
	app_http_stop(web->http);
	web->http = NULL;
}
