/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of two or three copies on simulated drives, under the appliance whole but for main(), and
 * files in it that are written and compared.  The store is formatted at the beginning.
 *
 *	static struct app_files s;
 *
 *	app_files_begin(&s, 4, 3);
 *	app_files_put(&s, 1);
 *	app_files_get(&s, 1);
 *	app_files_end(&s);
 *
 * Each file has another content in each round.  Whatever is not as it should be fails the test.
 */
#ifndef TEST_LIB_APP_FILES_H
#define TEST_LIB_APP_FILES_H

#include "test/lib/app_rig.h"
#include "test/lib/sim_nvme.h"

enum { APP_FILES = 60, APP_FILES_BYTES = 2 << 20 /* more than any of them has */ };

struct app_files {
	struct app_rig rig;
	struct sim_power power[APP_RIG_DRIVES];
	struct sim_drive *sim[APP_RIG_DRIVES];
	struct weka_client *client;
	uint32_t spoilt; /* times */
};

/* Two copies; fold: data zones of a fold, 0: the store has pairs only. */
void app_files_begin(struct app_files *s, uint32_t ndrives, uint32_t fold);
/* Three copies; fold: as there. */
void app_files_begin_three(struct app_files *s, uint32_t ndrives, uint32_t fold);
void app_files_end(struct app_files *s);
/* Stops the appliance, and mounts the store again. */
void app_files_mount(struct app_files *s);

size_t app_files_size(uint32_t i);
void app_files_fill(char *to, uint32_t i, uint32_t round);
void app_files_put(struct app_files *s, uint32_t round);
void app_files_get(struct app_files *s, uint32_t round);
/* Changes a byte, cuts and punches each file but the last, and compares it. */
void app_files_change(struct app_files *s, uint32_t round);

/* Spoils one of so many blocks of a drive, each time others: one that is mended and spoilt again
 * would count as damaged, as it should (meta_scrub_heal.c (3)). */
void app_files_spoil(struct app_files *s, uint32_t drive, uint32_t one_of);

struct app_core_stat app_files_stat(const struct app_files *s);
/* Does the store go on without this drive? */
bool app_files_is_lost(const struct app_files *s, uint32_t drive);

#endif
