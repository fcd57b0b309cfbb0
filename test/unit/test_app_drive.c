/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that fail under the appliance, all of it but main(): clients notice a reset only as a
 * delay; when a drive dies, only its blocks are lost, and they are back with the drive; memory that
 * a drive has not written is never taken for the bytes of a read.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "test/lib/app_rig.h"
#include "test/lib/nvme_faulty.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVES = 2, FILES = 48, FILE_BYTES = 100000, DRIVE_BLOCKS = 16384 };

static struct sim_power power[DRIVES];
static struct sim_drive *sim[DRIVES];
static struct nvme_faulty faulty[DRIVES];
static struct weka_client *client;
static char lines[8192]; /* the control thread's, until it has ended */

static void read_lines(struct app_rig *rig)
{
	char text[256];

	for (int i = 0; i < DRIVES; i++)
		while (nvme_drive_line(rig->drive[i], text, sizeof(text)))
			(void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines),
				       "%d %s\n", i, text);
}

static void open_faulty(struct app_rig *rig, uint32_t i)
{
	struct nvme_options options = { .io_timeout_ns = 400 * NS_PER_MS };
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(nvme_faulty_open(&faulty[i], sim[i], rig->dma, &options, 1, &rig->drive[i],
				      err_text),
		     0, "%s", err_text);
}

static struct app_rig rig = { .transport = "tcp",
			      .cfg = { .ndrives = DRIVES,
				       .nshards = 4,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 },
			      .open_drive = open_faulty,
			      .one_core = true,
			      .turn = read_lines };

static void serve(enum app_boot boot)
{
	lines[0] = 0;
	rig.cfg.boot = boot;
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
}

/* Returns how the store ended. */
static int stop(void)
{
	weka_close(client);
	return app_rig_end(&rig);
}

static void setup(void)
{
	struct sim_drive_options options = { .nblocks = DRIVE_BLOCKS, .volatile_cache = true };

	for (int i = 0; i < DRIVES; i++) {
		sim_power_init(&power[i]);
		options.power = &power[i];
		cr_assert_eq(sim_drive_create(&sim[i], &options), 0);
	}
	serve(APP_BOOT_FORMAT);
}

static void teardown(void)
{
	for (int i = 0; i < DRIVES; i++)
		sim_drive_destroy(sim[i]);
}

TestSuite(app_drive, .init = setup, .fini = teardown, .timeout = 120);

static void fill(uint8_t *bytes, int file)
{
	for (int i = 0; i < FILE_BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + file * 31 + i / 251 + 1);
}

static int put(int file)
{
	uint8_t *bytes = malloc(FILE_BYTES);
	char path[32];
	int err;

	fill(bytes, file);
	(void)snprintf(path, sizeof(path), "/f%d", file);
	err = weka_write_file(client, path, bytes, FILE_BYTES, NULL);
	free(bytes);
	return err;
}

/* 0 and the right bytes, or an error. */
static int get(int file)
{
	uint8_t *bytes = malloc(FILE_BYTES);
	char path[32];
	void *got;
	size_t size;
	int err;

	fill(bytes, file);
	(void)snprintf(path, sizeof(path), "/f%d", file);
	err = weka_read_file(client, path, &got, &size);
	if (!err) {
		cr_assert_eq(size, FILE_BYTES);
		cr_assert_eq(memcmp(got, bytes, size), 0, "%s", path);
		free(got);
	}
	free(bytes);
	return err;
}

Test(app_drive, reset_and_lost_commands_cost_clients_nothing_but_the_delay)
{
	struct app_core_stat stat;

	sim_drive_faults(sim[0], &(struct sim_faults){ .lose_ppm = 30000 });
	for (int i = 0; i < FILES; i++) {
		if (i % 8 == 4)
			faulty[i / 8 % DRIVES].faults.fatal = true;
		cr_assert_eq(put(i), 0, "%s", weka_error(client));
		if (i % 8 == 0)
			usleep(120000); /* a tick: it is found out */
	}
	for (int i = 0; i < FILES; i++)
		cr_assert_eq(get(i), 0, "%s", weka_error(client));
	app_rig_stat(&rig, &stat);
	cr_assert_eq(stat.errors, 0);
	cr_assert_gt(stat.drive_retries, 0, "nothing was in flight");
	cr_assert_eq(stop(), 0, "%s", rig.run.why);
	cr_assert(strstr(lines, "back after a reset"), "%s", lines);
}

Test(app_drive, dead_drive_takes_what_lies_on_it_and_no_more_and_nothing_acknowledged_is_lost)
{
	int good = 0, bad = 0, acknowledged = FILES;

	for (int i = 0; i < FILES; i++)
		cr_assert_eq(put(i), 0, "%s", weka_error(client));
	faulty[1].faults.gone = true;
	for (int i = 0; i < FILES; i++) {
		int err = get(i);

		cr_assert(err == 0 || err == -EIO, "%d: %s", err, weka_error(client));
		good += err == 0;
		bad += err != 0;
	}
	cr_assert(good > 0 && bad > 0, "%d good, %d bad", good, bad);
	for (int i = FILES; i < 2 * FILES; i++) { /* with a clear error, or for good */
		int err = put(i);

		if (err)
			break;
		acknowledged = i + 1;
	}
	(void)!stop(); /* it need not end well */
	cr_assert(strstr(lines, "1 faulty: it is gone") && strstr(lines, "1 faulty: given up"),
		  "%s", lines);
	serve(APP_BOOT_MOUNT);
	for (int i = 0; i < acknowledged; i++)
		cr_assert_eq(get(i), 0, "%d: %s", i, weka_error(client));
	cr_assert_eq(stop(), 0, "%s", rig.run.why);
}

/* A serial number may be another drive's name, and need not be one drive's only. */
Test(app_drive, drive_is_drained_by_its_name_before_any_serial_number)
{
	char names[DRIVES][APP_CONF_TEXT_MAX] = { "first", "sim" };
	struct nvme_info info;

	for (int i = 0; i < DRIVES; i++) {
		nvme_drive_info(rig.drive[i], &info);
		cr_assert_str_eq(info.serial, "sim");
	}
	cr_assert_eq(weka_drain(client, "sim"), -EINVAL);
	cr_assert_eq(weka_drain(client, "none"), -ENODEV);
	cr_assert_eq(stop(), 0, "%s", rig.run.why);
	rig.cfg.drive_name = names;
	serve(APP_BOOT_MOUNT);
	cr_assert_eq(weka_drain(client, "sim"), 0, "%s", weka_error(client));
	cr_assert_eq(weka_undrain(client, "first"), -EALREADY, "it is the second one's name");
	cr_assert_eq(stop(), 0, "%s", rig.run.why);
	rig.cfg.drive_name = NULL;
}

static void setup_poisoned(void)
{
	cr_assert_eq(setenv("WEKA_POISON_READS", "1", 1), 0);
	setup();
}

TestSuite(app_drive_poison, .init = setup_poisoned, .fini = teardown, .timeout = 120);

/* Over TCP a read goes through staging memory, where the same blocks lay a moment ago. */
Test(app_drive_poison, drive_that_moves_nothing_is_not_believed)
{
	struct sim_faults lies = { .skip_read_ppm = 1000000 };
	struct weka_counters counters = { .size_bytes = sizeof(counters) };

	cr_assert_eq(put(0), 0, "%s", weka_error(client));
	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(0), 0, "%s", weka_error(client));
	for (int d = 0; d < DRIVES; d++)
		sim_drive_faults(sim[d], &lies);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(0), -EIO, "the old bytes pass");
	cr_assert_eq(weka_get_counters(client, &counters), 0);
	cr_assert_geq(counters.blocks_lost, 3, "not by their checksums");
	for (int d = 0; d < DRIVES; d++)
		sim_drive_faults(sim[d], &(struct sim_faults){ 0 });
	cr_assert_eq(get(0), 0, "%s", weka_error(client));
	cr_assert_eq(stop(), 0, "%s", rig.run.why);
}
