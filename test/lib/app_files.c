/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/app_files.h"
#include "appliance/core/app_op.h"
#include "appliance/media/app_lines.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BLOCKS 16384u

static void read_lines(struct app_rig *rig)
{
	char text[APP_LINE_SIZE];

	for (uint32_t i = 0; i < rig->cfg.ndrives; i++)
		while (nvme_drive_line(rig->drive[i], text, sizeof(text)))
			;
}

static void open_sim(struct app_rig *rig, uint32_t i)
{
	struct app_files *s = container_of(rig, struct app_files, rig);

	sim_drive_open(s->sim[i], rig->dma, &rig->drive[i]);
}

static void make_drives(struct app_files *s, uint32_t ndrives)
{
	struct sim_drive_options options = { .nblocks = DRIVE_BLOCKS, .volatile_cache = true };

	for (uint32_t i = 0; i < ndrives; i++) {
		sim_power_init(&s->power[i]);
		options.power = &s->power[i];
		cr_assert_eq(sim_drive_create(&s->sim[i], &options), 0);
	}
}

static void begin(struct app_files *s, uint32_t ndrives, uint32_t copies, uint32_t fold)
{
	*s = (struct app_files){ .rig = { .transport = "shm",
					  .cfg = { .ndrives = ndrives,
						   .nshards = 4,
						   .copies = copies,
						   .fold = fold,
						   .cache_bytes = 16 << 20,
						   .staging_bytes = 24 << 20,
						   .ops_max = 32,
						   .scrub_rate = 64 << 20,
						   .boot = APP_BOOT_FORMAT,
						   .patience_ns = 60000000000 },
					  .open_drive = open_sim,
					  .one_core = true,
					  .turn = read_lines } };
	make_drives(s, ndrives);
	app_rig_begin(&s->rig);
	s->client = app_rig_connect(&s->rig);
}

void app_files_begin(struct app_files *s, uint32_t ndrives, uint32_t fold)
{
	begin(s, ndrives, 2, fold);
}

void app_files_begin_three(struct app_files *s, uint32_t ndrives, uint32_t fold)
{
	begin(s, ndrives, 3, fold);
}

static void stop(struct app_files *s)
{
	weka_close(s->client);
	cr_assert_eq(app_rig_end(&s->rig), 0, "%s", s->rig.run.why);
}

void app_files_end(struct app_files *s)
{
	stop(s);
	for (uint32_t i = 0; i < s->rig.cfg.ndrives; i++)
		sim_drive_destroy(s->sim[i]);
}

void app_files_mount(struct app_files *s)
{
	stop(s);
	s->rig.cfg.boot = APP_BOOT_MOUNT;
	app_rig_begin(&s->rig);
	s->client = app_rig_connect(&s->rig);
}

/* ---- files ---------------------------------------------------------------------------------- */

size_t app_files_size(uint32_t i)
{
	return i == APP_FILES - 1 ? 1u << 20 : 3000 + 7001u * (i % 11);
}

void app_files_fill(char *to, uint32_t i, uint32_t round)
{
	for (size_t k = 0; k < app_files_size(i); k += 4)
		memcpy(to + k, &(uint32_t){ (uint32_t)k * 31 + i * 7 + round }, 4);
}

void app_files_put(struct app_files *s, uint32_t round)
{
	char *bytes = malloc(APP_FILES_BYTES), path[32];

	for (uint32_t i = 0; i < APP_FILES; i++) {
		int err;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		app_files_fill(bytes, i, round);
		err = weka_write_file(s->client, path, bytes, app_files_size(i), NULL);
		cr_assert_eq(err, 0, "%s: %s", path, strerror(-err));
	}
	free(bytes);
}

static void compare(struct app_files *s, const char *path, const char *bytes, size_t size)
{
	size_t got_size;
	void *got;
	int err;

	err = weka_read_file(s->client, path, &got, &got_size);
	cr_assert_eq(err, 0, "%s: %s", path, strerror(-err));
	cr_assert(got_size == size && memcmp(got, bytes, size) == 0, "%s", path);
	free(got);
}

void app_files_get(struct app_files *s, uint32_t round)
{
	char *bytes = malloc(APP_FILES_BYTES), path[32];

	for (uint32_t i = 0; i < APP_FILES; i++) {
		(void)snprintf(path, sizeof(path), "/file %u", i);
		app_files_fill(bytes, i, round);
		compare(s, path, bytes, app_files_size(i));
	}
	free(bytes);
}

/* A write, a punch or a cut that changes a part of a block is merged with the old one. */
void app_files_change(struct app_files *s, uint32_t round)
{
	char *bytes = malloc(APP_FILES_BYTES), path[32];
	struct weka_attr attr;

	for (uint32_t i = 0; i < APP_FILES - 1; i++) {
		const size_t size = app_files_size(i) - 100;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		app_files_fill(bytes, i, round);
		cr_assert_eq(weka_open(s->client, path, WEKA_HOLD, 0, &attr), 0);
		cr_assert_eq(weka_pwrite(s->client, &attr.handle, "x", 1, 1), 1, "%s", path);
		cr_assert_eq(weka_truncate(s->client, &attr.handle, size), 0, "%s", path);
		cr_assert_eq(weka_punch(s->client, &attr.handle, 5, 3), 0, "%s", path);
		cr_assert_eq(weka_close_file(s->client, &attr.handle), 0);
		bytes[1] = 'x';
		memset(bytes + 5, 0, 3);
		compare(s, path, bytes, size);
	}
	free(bytes);
}

/* ---- drives --------------------------------------------------------------------------------- */

void app_files_spoil(struct app_files *s, uint32_t drive, uint32_t one_of)
{
	cr_assert_lt(s->spoilt, one_of);
	for (uint64_t block = 600 + s->spoilt; block < DRIVE_BLOCKS - 600; block += one_of)
		sim_drive_flip(s->sim[drive], block * 4096 + 100 + block % 3000, 3);
	s->spoilt++;
}

struct app_core_stat app_files_stat(const struct app_files *s)
{
	struct app_core_stat stat;

	app_rig_stat(&s->rig, &stat);
	return stat;
}

bool app_files_is_lost(const struct app_files *s, uint32_t drive)
{
	return !meta_twins_has(s->rig.run.core->twins, drive);
}
