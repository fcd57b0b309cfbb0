/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The account of memory: what each limit adds to it, and that it is kept. */
#include "appliance/core/app_account.h"
#include "appliance/conf/app_conf.h"
#include "appliance/core/app_core.h"
#include "appliance/core/app_op.h"
#include "appliance/media/app_overlay.h"
#include "base/seal.h"
#include "fabric/fab.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct app_conf conf;
static struct app_core_cfg core;
static struct fab_server_cfg srv;
static struct app_account account;
static char why[APP_CONF_WHY];

static uint64_t part(enum app_account_part which)
{
	return atomic_load(&account.part_bytes[which]);
}

static void make(void)
{
	core = (struct app_core_cfg){
		.ndrives = 2,
		.cache_bytes = conf.cache_bytes,
		.staging_bytes = conf.staging_bytes,
		.ops_max = (uint32_t)conf.ops_max,
	};
	srv = (struct fab_server_cfg){ .sessions_max = (uint32_t)conf.sessions_max };
	app_account_make(&account, &conf, &core, &srv);
}

static uint64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void listen_on(const char *address)
{
	snprintf(conf.listen[conf.nlisten++], APP_CONF_TEXT_MAX, "%s", address);
}

static void begin(void)
{
	app_conf_defaults(&conf);
	snprintf(conf.file, sizeof(conf.file), "w.conf");
	listen_on("tcp://127.0.0.1:7010");
	make();
}

TestSuite(app_account, .init = begin, .timeout = 10);

Test(app_account, each_limit_is_in_it)
{
	cr_assert_geq(part(APP_ACCOUNT_CACHE), conf.cache_bytes);
	cr_assert_lt(part(APP_ACCOUNT_CACHE), conf.cache_bytes + (64 << 20)); /* log buffers */
	cr_assert_eq(part(APP_ACCOUNT_STAGING), conf.staging_bytes);
	cr_assert_eq(part(APP_ACCOUNT_SESSIONS),
		     (conf.sessions_max + FAB_OPERATORS) * fab_server_session_bytes(&srv));
	cr_assert_gt(part(APP_ACCOUNT_QUEUES), 0);
}

/* Before any are taken: a core's own, and the store's of all. */
Test(app_account, tables_of_open_files_are_in_it)
{
	const uint64_t usual = part(APP_ACCOUNT_TABLES);

	core.opens_max = 1 << 20;
	app_account_make(&account, &conf, &core, &srv);
	cr_assert_geq(part(APP_ACCOUNT_TABLES),
		      usual + ((1 << 20) - 16384) *
				      (sizeof(struct app_hold) + sizeof(struct list)));
	conf.cores = 3;
	core.opens_max = 0;
	app_account_make(&account, &conf, &core, &srv);
	cr_assert_geq(part(APP_ACCOUNT_TABLES), 3 * usual);
}

Test(app_account, so_they_are_refused_before_they_are_taken)
{
	core.opens_max = 1 << 20;
	conf.memory_max_bytes = app_account_total(&account);
	app_account_make(&account, &conf, &core, &srv);
	cr_assert_eq(app_account_check(&account, &conf, why), -ENOMEM);
	cr_assert(strstr(why, ", tables (opens_max) "), "%s", why);
}

/* A store takes as much memory for them as it reports. */
Test(app_account, what_a_store_takes_for_open_files_is_what_is_counted)
{
	struct meta_conf mc = { .ndrives = 1,
				.cache_bytes = 16 << 20,
				.ops_max = 32,
				.nshards = 4,
				.drive[0].nblocks = 1u << 20 };
	uint64_t heap[2], base;

	if (SEAL_SANITIZED)
		cr_skip_test("malloc belongs to the sanitizer");
	for (uint32_t i = 0; i < 2; i++) {
		struct meta *m;

		mc.holds_max = i ? 200000 : 1;
		mc.memory_bytes = meta_memory_needed(&mc);
		mc.memory = aligned_alloc(4096, mc.memory_bytes);
		base = heap_bytes();
		cr_assert_eq(meta_create(&m, &mc), 0);
		heap[i] = heap_bytes() - base;
		meta_destroy(m);
		free(mc.memory);
	}
	/* malloc rounds: to pages, or not. */
	cr_assert_leq(heap[1], heap[0] + meta_holds_bytes(200000) + (64 << 10));
	cr_assert_geq(heap[1] + (64 << 10), heap[0] + meta_holds_bytes(200000));
}

Test(app_account, shared_pools_count_where_they_can_be_had)
{
	cr_assert_eq(part(APP_ACCOUNT_POOLS), 0);
	listen_on("shm:/run/weka/weka.sock");
	make();
	cr_assert_eq(part(APP_ACCOUNT_POOLS),
		     conf.pools_max_bytes + FAB_OPERATORS * FAB_OPERATOR_POOL);
}

Test(app_account, a_core_more_has_its_own_staging_and_queues)
{
	uint64_t cache = part(APP_ACCOUNT_CACHE), queues = part(APP_ACCOUNT_QUEUES);

	conf.cores = 3;
	make();
	cr_assert_eq(part(APP_ACCOUNT_CACHE), cache); /* the index is one */
	cr_assert_eq(part(APP_ACCOUNT_STAGING), 3 * conf.staging_bytes);
	cr_assert_eq(part(APP_ACCOUNT_QUEUES), 3 * queues);
}

Test(app_account, a_connection_counts_with_all_it_may_have)
{
	struct fab_server_cfg more = srv;
	uint64_t bytes = fab_server_session_bytes(&srv);

	more.limits.long_bodies = 64; /* instead of 8 */
	cr_assert_geq(fab_server_session_bytes(&more), bytes + UINT64_C(56) * FAB_LONG_BODY_MAX);
	more.limits.credits = 1u << 20;
	cr_assert_eq(fab_server_session_bytes(&more), 0);
}

Test(app_account, what_does_not_fit_is_refused_and_says_what_it_is_made_of)
{
	conf.memory_max_bytes = app_account_total(&account);
	conf.line[APP_CONF_MEMORY_MAX] = 9;
	make();
	cr_assert_eq(app_account_check(&account, &conf, why), 0);
	conf.memory_max_bytes--;
	make();
	cr_assert_eq(app_account_check(&account, &conf, why), -ENOMEM);
	cr_assert(strstr(why, "w.conf:9: memory_max: less than "), "%s", why);
	cr_assert(strstr(why, "cache "), "%s", why);
	cr_assert(strstr(why, ", staging 64, sessions (sessions_max, long_bodies, credits) "), "%s",
		  why);
	cr_assert(strstr(why, ", pools (pools_max) "), "%s", why);
	cr_assert(strstr(why, ", program "), "it ends where its room does: %s", why);
}

Test(app_account, tables_are_known_when_they_have_been_taken)
{
	uint64_t before = app_account_total(&account) - part(APP_ACCOUNT_TABLES);
	void *table;

	if (SEAL_SANITIZED)
		cr_skip_test("malloc belongs to the sanitizer");
	table = malloc(8 << 20);
	cr_assert(table);
	app_account_tables(&account);
	cr_assert_geq(part(APP_ACCOUNT_TABLES), 8 << 20);
	cr_assert_eq(app_account_total(&account), before + part(APP_ACCOUNT_TABLES));
	free(table);
}

/* Where the store is read only: what it writes is kept in memory. */
Test(app_account, what_no_drive_takes_is_in_it)
{
	const uint64_t total = app_account_total(&account);
	struct app_overlay *overlay;
	static uint8_t block[4096];

	cr_assert_eq(part(APP_ACCOUNT_OVERLAY), 0);
	core.read_only = true;
	core.overlay_bytes = 8 * sizeof(block);
	app_account_make(&account, &conf, &core, &srv);
	cr_assert_geq(part(APP_ACCOUNT_OVERLAY), 8 * sizeof(block));
	cr_assert_eq(app_account_total(&account), total + part(APP_ACCOUNT_OVERLAY));
	cr_assert_eq(app_overlay_create(&overlay, core.overlay_bytes), 0);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(app_overlay_write(overlay, i, 1, block), 0);
	cr_assert_eq(app_overlay_write(overlay, 8, 1, block), -ENOSPC);
	app_overlay_destroy(overlay);
	core.overlay_bytes = 0;
	app_account_make(&account, &conf, &core, &srv);
	cr_assert_geq(part(APP_ACCOUNT_OVERLAY), APP_OVERLAY_MAX);
	conf.memory_max_bytes = total;
	app_account_make(&account, &conf, &core, &srv);
	cr_assert_eq(app_account_check(&account, &conf, why), -ENOMEM);
	cr_assert(strstr(why, ", overlay "), "%s", why);
}
