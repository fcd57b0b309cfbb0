/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The configuration file's limits, as a core and the fabric take them. */
#include "appliance/host/app_cfg.h"
#include "base/clock.h"
#include "base/num.h"

#include <string.h>

/* A drive that comes back does so within this; clients wait three times as long for an answer. */
#define PATIENCE_MIN_NS (10 * NS_PER_S)

uint32_t app_cfg_spare_drives(const struct app_conf *c)
{
	return c->spare_drives == APP_AUTO ? META_SPARE_AUTO : (uint32_t)c->spare_drives;
}

void app_cfg_core(const struct app_conf *c, struct app_core_cfg *out)
{
	*out = (struct app_core_cfg){
		.ndrives = c->ndrives,
		.boot = strncmp(c->drive[0], "mem:", 4) == 0 ? APP_BOOT_FORMAT : APP_BOOT_MOUNT,
		.cache_bytes = c->cache_bytes,
		.staging_bytes = c->staging_bytes,
		.ops_max = (uint32_t)c->ops_max,
		.batch_in_flight = (uint32_t)c->batch_in_flight,
		.open_puts_max = (uint32_t)c->open_puts_max,
		.opens_max = (uint32_t)c->opens_max,
		.spare_percent = (uint32_t)c->spare_percent,
		.spare_drives = app_cfg_spare_drives(c),
		.queue_depth = (uint32_t)c->queue_depth,
		.queue_max = (uint32_t)c->queue_max,
		.nshards = (uint32_t)c->shards,
		.copies = app_conf_scheme(c->protect).copies,
		.fold = app_conf_scheme(c->protect).fold,
		.scrub_rate = c->scrub_rate,
		.rebuild_rate = c->rebuild_rate,
		.deallocate = app_conf_tell(c),
		.hedge_reads = (uint32_t)c->hedge_reads,
		.patience_ns = max_u64(PATIENCE_MIN_NS, c->drive_timeout_us * NS_PER_US),
	};
}

void app_cfg_fabric(const struct app_conf *c, struct fab_server_cfg *out)
{
	*out = (struct fab_server_cfg){
		.keys_max = (uint32_t)c->keys_max + 1, /* and root's */
		.core_count = (uint32_t)c->cores,
		.shard_count = (uint32_t)c->shards,
		.limits = {
			.credits = (uint32_t)c->credits,
			.long_bodies = (uint32_t)min_u64(c->long_bodies, c->credits),
			.batch_max = (uint32_t)c->batch_max,
			.window_max_bytes = (uint32_t)c->window_max_bytes,
			.pool_max_bytes = c->session_pools_max_bytes,
		},
		.sessions_max = (uint32_t)c->sessions_max,
		.lanes_max = (uint32_t)c->lanes_max,
		.tls_required = strcmp(c->tls, "required") == 0,
		.pools_max_bytes = c->pools_max_bytes,
	};
}
