/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The memory that the appliance takes, and the most that it may take: part by part, and in all.
 */
#ifndef APP_ACCOUNT_H
#define APP_ACCOUNT_H

#include "base/assert.h"

#include <stdatomic.h>
#include <stdint.h>

struct app_conf;
struct app_core_cfg;
struct fab_server_cfg;

enum app_account_part {
	APP_ACCOUNT_CACHE,    /* pages of the index, and the log's buffers                     */
	APP_ACCOUNT_STAGING,  /* of all cores                                                  */
	APP_ACCOUNT_SESSIONS, /* as many connections as there may be, each with all it may have */
	APP_ACCOUNT_POOLS,    /* over shm, if there is a listener                            */
	APP_ACCOUNT_QUEUES,   /* of drives                                                     */
	APP_ACCOUNT_TABLES,   /* taken at start from the heap: until then those of open files  */
	APP_ACCOUNT_OVERLAY,  /* read only: writes of the store that no drive accepts          */
	APP_ACCOUNT_PROGRAM,  /* its text, libraries, stacks                                   */
	APP_ACCOUNT_PARTS,
};

/* The account of one appliance.  Written by the control thread before clients come, read by any. */
struct app_account {
	uint64_t max_bytes; /* as configured */
	_Atomic uint64_t part_bytes[APP_ACCOUNT_PARTS];
};

/* The names of parts in the status, and in messages: the configuration's, where one bounds it. */
extern const char *const app_account_name[APP_ACCOUNT_PARTS];

/* Computes all parts from the configuration, except tables without a configured limit. */
void app_account_make(struct app_account *a, const struct app_conf *c,
		      const struct app_core_cfg *core, const struct fab_server_cfg *srv);

/* Everything that is taken at start has been taken. */
void app_account_tables(struct app_account *a);

static inline uint64_t app_account_part(const struct app_account *a, uint32_t part)
{
	return atomic_load_explicit(&a->part_bytes[part], memory_order_relaxed);
}

uint64_t app_account_total(const struct app_account *a);

/* Checks the sum.  -ENOMEM, with the parts in `why` (APP_CONF_WHY bytes). */
must_check int app_account_check(const struct app_account *a, const struct app_conf *c, char *why);

#endif
