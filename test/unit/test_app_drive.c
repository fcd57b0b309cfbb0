/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that go wrong under the appliance, all of it but main(): a reset costs clients nothing
 * but the delay; a drive that dies takes what lies on it, and nothing else, and nothing for good.
 */
#define _GNU_SOURCE
#include "appliance/app_run.h"
#include "base/clock.h"
#include "client-lib/weka_client.h"
#include "test/lib/nvme_faulty.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { DRIVES = 2, FILES = 48, FILE_BYTES = 100000, DRIVE_BLOCKS = 16384 };

static struct sim_power power[DRIVES];
static struct sim_drive *sim[DRIVES];
static struct nvme_faulty faulty[DRIVES];
static struct nvme_dma *dma;
static struct nvme_drive *drive[DRIVES];
static struct fab_server *srv;
static struct app_run run;
static pthread_t control;
static struct weka_client *client;
static uint8_t secret[FAB_KEY_BYTES] = "any thirty-two bytes are a key.";
static char lines[8192]; /* the control thread's, until it has ended */

static void read_lines(void)
{
	char text[256];

	for (int i = 0; i < DRIVES; i++)
		while (nvme_drive_line(drive[i], text, sizeof(text)))
			(void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines),
				       "%d %s\n", i, text);
}

static void *control_thread(void *arg)
{
	struct pollfd fds[2] = { { .fd = fab_server_control_fd(srv), .events = POLLIN },
				 { .fd = run.event_fd, .events = POLLIN } };
	uint64_t count;

	(void)arg;
	while (atomic_load(&run.at) != APP_RUN_ENDED) {
		read_lines();
		if (!app_control_step(srv, dma, clock_now_ns()))
			(void)poll(fds, 2, 100);
		(void)!read(run.event_fd, &count, sizeof(count));
	}
	read_lines();
	return NULL;
}

static void serve(enum app_boot boot)
{
	struct fab_server_cfg cfg = { .key = { .id = "weka" }, .core_count = 1, .shard_count = 4 };
	struct nvme_options options = { .io_timeout_ns = 400 * NS_PER_MS };
	struct weka_key key = { .id = "weka", .secret = secret };
	char why[256] = "", err_text[NVME_ERR_TEXT];

	memcpy(cfg.key.secret, secret, sizeof(secret));
	cr_assert_eq(nvme_dma_create(&dma), 0);
	for (int i = 0; i < DRIVES; i++)
		cr_assert_eq(
			nvme_faulty_open(&faulty[i], sim[i], dma, &options, 1, &drive[i], err_text),
			0, "%s", err_text);
	cr_assert_eq(fab_server_create(&srv, &cfg), 0);
	cr_assert_eq(fab_server_listen(srv, "tcp://127.0.0.1:0", why), 0, "%s", why);
	run = (struct app_run){
		.cfg = { .dma = dma,
			 .drive = drive,
			 .ndrives = DRIVES,
			 .srv = srv,
			 .boot = boot,
			 .nshards = 4,
			 .cache_bytes = 16 << 20,
			 .staging_bytes = 24 << 20,
			 .ops_max = 32,
			 .secret = 7,
			 .wall_ns = (int64_t)clock_wall_ns() },
		.cpu = -1,
		.spin_max_ns = 50 * NS_PER_US,
		.event_fd = eventfd(0, EFD_NONBLOCK),
	};
	lines[0] = 0;
	cr_assert_eq(app_run_start(&run), 0);
	while (atomic_load(&run.at) == APP_RUN_STARTING)
		usleep(1000);
	cr_assert_eq(atomic_load(&run.at), APP_RUN_SERVING, "%s", run.why);
	cr_assert_eq(pthread_create(&control, NULL, control_thread, NULL), 0);
	cr_assert_eq(weka_connect(fab_server_address(srv, 0), &key, NULL, &client), 0, "%s",
		     weka_error(NULL));
}

/* Returns how the store ended. */
static int stop(void)
{
	weka_close(client);
	app_run_stop(&run);
	app_run_join(&run);
	pthread_join(control, NULL);
	while (app_control_step(srv, dma, clock_now_ns()))
		;
	fab_server_destroy(srv);
	for (int i = 0; i < DRIVES; i++)
		nvme_close(drive[i]);
	cr_assert_eq(nvme_dma_fault_count(dma), 0);
	nvme_dma_destroy(dma);
	close(run.event_fd);
	return run.status;
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
	app_core_stat(run.core, &stat);
	cr_assert_eq(stat.errors, 0);
	cr_assert_gt(stat.drive_retries, 0, "nothing was in flight");
	cr_assert_eq(stop(), 0, "%s", run.why);
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
	cr_assert_eq(stop(), 0, "%s", run.why);
}
