/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that take no writes for a while, under the appliance whole but for main(): what is durable
 * is read, changes wait, and go on by themselves.
 */
#define _GNU_SOURCE
#include "appliance/app_lines.h"
#include "base/clock.h"
#include "test/lib/app_rig.h"
#include "test/lib/sim_nvme.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVES = 2, DRIVE_BLOCKS = 16384 };

static struct sim_power power[DRIVES];
static struct sim_drive *sim[DRIVES];
static struct weka_client *client;
static struct app_lines said;
static char lines[8192]; /* the control thread's, until it has ended */

static void read_lines(struct app_rig *rig)
{
	char text[APP_LINE_SIZE];

	for (uint32_t i = 0; i < DRIVES; i++)
		while (nvme_drive_line(rig->drive[i], text, sizeof(text)))
			;
	while (app_lines_take(&said, text))
		(void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", text);
}

static void open_sim(struct app_rig *rig, uint32_t i)
{
	sim_drive_open(sim[i], rig->dma, &rig->drive[i]);
}

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .ndrives = DRIVES,
				       .nshards = 4,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32,
				       .lines = &said },
			      .open_drive = open_sim,
			      .one_core = true,
			      .turn = read_lines };

static void serve(enum app_boot boot, uint64_t patience_ns)
{
	lines[0] = '\0';
	rig.cfg.boot = boot;
	rig.cfg.patience_ns = patience_ns;
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
}

static void setup(void)
{
	struct sim_drive_options options = { .nblocks = DRIVE_BLOCKS, .volatile_cache = true };

	for (int i = 0; i < DRIVES; i++) {
		sim_power_init(&power[i]);
		options.power = &power[i];
		cr_assert_eq(sim_drive_create(&sim[i], &options), 0);
	}
}

static void teardown(void)
{
	for (int i = 0; i < DRIVES; i++)
		sim_drive_destroy(sim[i]);
}

TestSuite(app_patience, .init = setup, .fini = teardown, .timeout = 120);

static int put(struct weka_client *c, const char *path)
{
	return weka_write_file(c, path, path, strlen(path), NULL); /* it lies in the index */
}

static int get(const char *path)
{
	size_t size;
	void *got;
	int err = weka_read_file(client, path, &got, &size);

	if (!err) {
		cr_assert(size == strlen(path) && memcmp(got, path, size) == 0, "%s", path);
		free(got);
	}
	return err;
}

static void *put_many(void *arg)
{
	struct weka_client *c = app_rig_connect(&rig);
	intptr_t err = 0;
	char path[32];

	for (int i = 0; i < 50 && !err; i++) {
		(void)snprintf(path, sizeof(path), "%s%d", (const char *)arg, i);
		err = put(c, path);
	}
	weka_close(c);
	return (void *)err;
}

static uint64_t errors(void)
{
	struct app_core_stat stat;

	app_rig_stat(&rig, &stat);
	return stat.drive_errors;
}

static void wait_for_errors(uint64_t more)
{
	const uint64_t enough = errors() + more;

	while (errors() < enough)
		(void)usleep(1000);
}

/* Each drive for itself, then both. */
Test(app_patience, changes_wait_until_the_log_can_be_written_again)
{
	const struct sim_faults faults = { .write_error_ppm = 1000000 };
	pthread_t thread;
	char name[8];
	void *err;

	serve(APP_BOOT_FORMAT, 60 * NS_PER_S);
	cr_assert_eq(put(client, "/before"), 0);
	for (uint32_t i = 0; i < DRIVES + 1; i++) {
		(void)snprintf(name, sizeof(name), "/%c", 'a' + i);
		for (uint32_t d = 0; d < DRIVES; d++)
			if (i == DRIVES || i == d)
				sim_drive_faults(sim[d], &faults);
		cr_assert_eq(pthread_create(&thread, NULL, put_many, name), 0);
		wait_for_errors(6);
		for (uint32_t d = 0; d < DRIVES; d++)
			sim_drive_faults(sim[d], &(struct sim_faults){ 0 });
		cr_assert_eq(pthread_join(thread, &err), 0);
		cr_assert_eq((intptr_t)err, 0, "%u: %s", i, strerror(-(int)(intptr_t)err));
	}
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);

	serve(APP_BOOT_MOUNT, 0);
	for (int i = 0; i < 50; i++)
		for (char c = 'a'; c <= 'c'; c++) {
			(void)snprintf(name, sizeof(name), "/%c%d", c, i);
			cr_assert_eq(get(name), 0, "%s", name);
		}
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0);
}

/* One that stays so: with a reason for people, once. */
Test(app_patience, it_ends)
{
	serve(APP_BOOT_FORMAT, 300 * NS_PER_MS);
	cr_assert_eq(put(client, "/before"), 0);
	sim_drive_faults(sim[0], &(struct sim_faults){ .write_error_ppm = 1000000 });
	sim_drive_faults(sim[1], &(struct sim_faults){ .write_error_ppm = 1000000 });
	cr_assert_eq(put(client, "/lost"), -EROFS);
	cr_assert_eq(put(client, "/refused"), -EROFS);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), -EROFS);
	cr_assert_not_null(strstr(lines, "could not be written"), "%s", lines);
	cr_assert_not_null(strstr(lines, "takes no more changes"), "%s", lines);
}

/* A flush that failed is not asked for again: what it was to make durable may be gone. */
Test(app_patience, it_has_none_with_a_failed_flush)
{
	uint8_t bytes[8192] = { 1 };

	serve(APP_BOOT_FORMAT, 60 * NS_PER_S);
	sim_drive_faults(sim[0], &(struct sim_faults){ .flush_error_ppm = 1000000 });
	sim_drive_faults(sim[1], &(struct sim_faults){ .flush_error_ppm = 1000000 });
	cr_assert_eq(weka_write_file(client, "/a", bytes, sizeof(bytes), NULL), -EROFS);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), -EROFS);
}
