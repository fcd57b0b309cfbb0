/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The account of memory.
 *
 *   cache + staging + queues + tables   taken at start: polling threads are sealed against malloc
 *   overlay                             taken at start if the store is mounted read only
 *   sessions                            taken as clients connect, given back after they have ended
 *   pools                               taken when clients of this host ask for it, and given back
 *   program                             mapped by the kernel for it
 *
 * Each part has its own limit, configured or derived; so their sum is a limit, known before
 * anything is taken (for tables: those of open files; the others before the first client is
 * served).  It is not an estimate of the memory in use.  Not included: mem: drives, which are
 * stored data and not the server's memory, and the kernel's own memory, such as socket buffers,
 * which the kernel limits itself (tcp_mem).
 *
 * Invariant: (1) while the daemon serves, its resident memory without mem: drives is at most
 * app_account_total() [e2e_many].
 */
#include "appliance/core/app_account.h"

#include "appliance/conf/app_conf.h"
#include "appliance/core/app_core.h"
#include "appliance/media/app_overlay.h"
#include "base/num.h"
#include "fabric/fab.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

/* Text and libraries are 4 to 7 MiB of it (RssFile); the rest is for stacks, the first arrivals'
 * hellos and malloc's own. */
#define PROGRAM_BYTES (UINT64_C(32) << 20)

/* Connections of metrics and the page, what is being sent over them, and the library's text:
 * app_http.c (4). */
#define HTTP_BYTES (UINT64_C(24) << 20)

const char *const app_account_name[APP_ACCOUNT_PARTS] = {
	[APP_ACCOUNT_CACHE] = "cache",       [APP_ACCOUNT_STAGING] = "staging",
	[APP_ACCOUNT_SESSIONS] = "sessions", [APP_ACCOUNT_POOLS] = "pools",
	[APP_ACCOUNT_QUEUES] = "queues",     [APP_ACCOUNT_TABLES] = "tables",
	[APP_ACCOUNT_OVERLAY] = "overlay",   [APP_ACCOUNT_PROGRAM] = "program",
};

static void set(struct app_account *a, enum app_account_part part, uint64_t bytes)
{
	ASSERT(part < APP_ACCOUNT_PARTS);
	atomic_store_explicit(&a->part_bytes[part], bytes, memory_order_relaxed);
}

static bool listens_shm(const struct app_conf *c)
{
	for (uint32_t i = 0; i < c->nlisten; i++)
		if (strncmp(c->listen[i], "shm:", 4) == 0)
			return true;
	return false;
}

void app_account_make(struct app_account *a, const struct app_conf *c,
		      const struct app_core_cfg *core, const struct fab_server_cfg *srv)
{
	struct app_core_cfg cfg = *core;
	uint64_t first_bytes, staging_bytes, queues_bytes;

	cfg.index = 0;
	first_bytes = app_core_memory_needed(&cfg);
	queues_bytes = app_core_dma_needed(&cfg) - first_bytes;
	cfg.index = 1; /* it has staging, and no store */
	staging_bytes = app_core_memory_needed(&cfg);
	a->max_bytes = c->memory_max_bytes;
	ASSERT(first_bytes >= staging_bytes);
	set(a, APP_ACCOUNT_CACHE, first_bytes - staging_bytes);
	set(a, APP_ACCOUNT_STAGING, c->cores * staging_bytes);
	set(a, APP_ACCOUNT_SESSIONS,
	    (c->sessions_max + FAB_OPERATORS) * fab_server_session_bytes(srv));
	set(a, APP_ACCOUNT_POOLS,
	    listens_shm(c) ? c->pools_max_bytes + FAB_OPERATORS * FAB_OPERATOR_POOL : 0);
	set(a, APP_ACCOUNT_QUEUES, c->cores * queues_bytes);
	set(a, APP_ACCOUNT_TABLES, app_core_holds_bytes(&cfg, (uint32_t)c->cores));
	set(a, APP_ACCOUNT_OVERLAY, core->read_only ? app_overlay_memory(core->overlay_bytes) : 0);
	set(a, APP_ACCOUNT_PROGRAM, PROGRAM_BYTES + (c->metrics[0] ? HTTP_BYTES : 0));
}

void app_account_tables(struct app_account *a)
{
	const uint64_t known = app_account_part(a, APP_ACCOUNT_TABLES);
	struct mallinfo2 info = mallinfo2();

	set(a, APP_ACCOUNT_TABLES, max_u64(known, info.arena + info.hblkhd));
}

/* Returns the keys that limit the part, if its own name is not a key. */
static const char *bounded_by(uint32_t part)
{
	switch (part) {
	case APP_ACCOUNT_SESSIONS:
		return " (sessions_max, long_bodies, credits)";
	case APP_ACCOUNT_POOLS:
		return " (pools_max)";
	case APP_ACCOUNT_TABLES:
		return " (opens_max)";
	default:
		return "";
	}
}

uint64_t app_account_total(const struct app_account *a)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS; i++)
		bytes += app_account_part(a, i);
	return bytes;
}

int app_account_check(const struct app_account *a, const struct app_conf *c, char *why)
{
	char text[APP_CONF_WHY / 2];
	size_t at;

	if (app_account_total(a) <= a->max_bytes)
		return 0;
	at = (size_t)snprintf(text, sizeof(text), "less than %llu MiB, the sum of its parts:",
			      (unsigned long long)div_up(app_account_total(a), 1 << 20));
	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %s%s %llu", i ? "," : "",
				       app_account_name[i], bounded_by(i),
				       (unsigned long long)div_up(app_account_part(a, i), 1 << 20));
	app_conf_blame(c, APP_CONF_MEMORY_MAX, why, text);
	return -ENOMEM;
}
