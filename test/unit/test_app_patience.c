/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that take no writes for a while, under the appliance whole but for main(): what is durable
 * is read, changes wait, and go on by themselves.
 */
#define _GNU_SOURCE
#include "appliance/media/app_lines.h"
#include "appliance/media/app_media.h"
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
	char name[16];
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

/* A flush that failed is not asked for again: the data may be gone.  A write to a drive that has
 * lost its cache is not repeated either. */
Test(app_patience, what_cannot_help_is_not_tried)
{
	struct meta_io must = { .must = true }, may = { .must = false };
	struct app_patience p = { .limit_ns = NS_PER_S };
	struct app_io io = { .meta = &must };

	app_patience_init(&p);
	list_init(&io.link);
	io.nvme = (struct nvme_io){ .op = NVME_FLUSH, .status = -EIO };
	cr_assert(!app_patience_park(&p, &io, 1));
	io.nvme = (struct nvme_io){ .op = NVME_WRITE, .status = -EROFS };
	cr_assert(!app_patience_park(&p, &io, 1));
	io.nvme = (struct nvme_io){ .op = NVME_WRITE, .status = -EIO, .quarantined = true };
	cr_assert(!app_patience_park(&p, &io, 1));
	io.nvme = (struct nvme_io){ .op = NVME_WRITE, .status = -EIO };
	io.meta = &may;
	cr_assert(!app_patience_park(&p, &io, 1));
	io.meta = &must;
	cr_assert(app_patience_park(&p, &io, 1));
	cr_assert_eq(p.count, 1);
}

/* ... but it is kept for a daemon that restarts itself, which is told to open the drives again. */
Test(app_patience, what_cannot_help_is_kept_for_who_begins_anew)
{
	struct meta_io must = { .must = true };
	struct app_patience p = { .limit_ns = NS_PER_S, .kept = true };
	struct app_io io = { .meta = &must, .nvme = { .op = NVME_FLUSH, .status = -EIO } };

	app_patience_init(&p);
	list_init(&io.link);
	cr_assert(app_patience_park(&p, &io, 1));
	cr_assert(p.gave_up && p.lost);
	cr_assert_null(app_patience_next(&p, 2 * NS_PER_S));
	p.kept = false; /* it cannot be */
	cr_assert_eq(app_patience_next(&p, 2 * NS_PER_S), &io);
	cr_assert(!app_patience_park(&p, &io, 3 * NS_PER_S));
}

/* A write of a client's data waits like any other: the client sends it again after the restart. */
Test(app_patience, data_that_a_drive_refuses_is_kept)
{
	struct app_patience p = { .limit_ns = NS_PER_S };
	struct app_io io = { .drive = 1 };

	app_patience_init(&p);
	list_init(&io.link);
	io.nvme = (struct nvme_io){ .op = NVME_WRITE, .status = -EROFS };
	cr_assert(!app_patience_hold(&p, &io), "the daemon cannot restart");
	p.kept = true;
	io.nvme.status = -EIO;
	cr_assert(!app_patience_hold(&p, &io), "a restart does not help");
	io.nvme = (struct nvme_io){ .op = NVME_READ, .status = -EROFS };
	cr_assert(!app_patience_hold(&p, &io));
	cr_assert(!p.gave_up);
	io.nvme.op = NVME_WRITE;
	cr_assert(app_patience_hold(&p, &io));
	cr_assert(p.gave_up && p.lost);
	cr_assert_null(app_patience_next(&p, 2 * NS_PER_S));
	p.kept = false; /* it cannot be, after all */
	cr_assert_eq(app_patience_next(&p, 2 * NS_PER_S), &io);
	cr_assert(!app_patience_hold(&p, &io));
	app_patience_done(&p, &io);
	cr_assert_eq(p.count, 0);
}

static void all_writes_fail(bool yes)
{
	const struct sim_faults faults = { .write_error_ppm = yes ? 1000000 : 0 };

	for (uint32_t d = 0; d < DRIVES; d++)
		sim_drive_faults(sim[d], &faults);
}

static uint64_t writes(void)
{
	return sim_drive_counts(sim[0]).write_count + sim_drive_counts(sim[1]).write_count;
}

static void *put_one(void *arg)
{
	struct weka_client *c = app_rig_connect(&rig);
	intptr_t err = put(c, arg);

	weka_close(c);
	return (void *)err;
}

/* The caller may restart: it is asked to, and no request is answered before it has refused. */
Test(app_patience, the_caller_begins_anew_and_reads_what_is_durable)
{
	pthread_t thread;
	uint64_t before;
	void *err;

	rig.cfg.anew = true;
	serve(APP_BOOT_FORMAT, 300 * NS_PER_MS);
	cr_assert_eq(put(client, "/before"), 0);
	all_writes_fail(true);
	cr_assert_eq(pthread_create(&thread, NULL, put_one, "/lost"), 0);
	while (atomic_load(&rig.run.wants) != APP_WANTS_ROOM)
		(void)usleep(1000);
	do { /* those under way fail yet, and then it is tried no more */
		before = errors();
		(void)usleep(50000);
	} while (errors() != before);
	app_run_refuse(&rig.run);
	cr_assert_eq(pthread_join(thread, &err), 0);
	cr_assert_eq((int)(intptr_t)err, -EROFS);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), -EROFS);

	rig.cfg.anew = false;
	rig.cfg.read_only = true; /* and no write comes to a drive */
	before = writes();
	serve(APP_BOOT_MOUNT, 0);
	cr_assert_eq(get("/before"), 0);
	cr_assert_eq(put(client, "/refused"), -EROFS);
	cr_assert_eq(get("/refused"), -ENOENT);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0);
	cr_assert_eq(writes(), before);

	all_writes_fail(false);
	rig.cfg.read_only = false;
	serve(APP_BOOT_MOUNT, 0);
	cr_assert_eq(get("/before"), 0);
	cr_assert_eq(put(client, "/after"), 0);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0);
}

/* ---- a drive that is dead for good ---------------------------------------------------------- */

/* As when the host wants it back. */
static void dies(uint32_t d)
{
	struct nvme_drive *drive = rig.drive[d];

	find_trouble(drive, NVME_CAUSE_REQUEST, clock_now_ns());
	nvme__kick(drive);
	while (nvme_drive_health(drive) != NVME_HEALTH_DEAD)
		(void)usleep(1000);
}

static uint32_t acknowledged[3];
static _Atomic bool is_dead;

static void *put_until_refused(void *arg)
{
	const uintptr_t k = (uintptr_t)arg;
	struct weka_client *c = app_rig_connect(&rig);
	intptr_t err = 0;
	char path[32];

	for (uint32_t i = 0; i < 4000 && !err; i++) {
		while (i == 2000 && !atomic_load(&is_dead)) /* some are left for afterwards */
			(void)usleep(1000);
		(void)snprintf(path, sizeof(path), "/%c%u", (int)('a' + k), i);
		err = put(c, path);
		if (!err)
			__atomic_store_n(&acknowledged[k], i + 1, __ATOMIC_RELEASE);
	}
	weka_close(c);
	return (void *)err;
}

static void expect_acknowledged(void)
{
	char path[32];

	for (int k = 0; k < 3; k++)
		for (uint32_t i = 0; i < acknowledged[k]; i++) {
			(void)snprintf(path, sizeof(path), "/%c%u", 'a' + k, i);
			cr_assert_eq(get(path), 0, "%s", path);
		}
}

/* The log has its other copy: changes under way end, others are taken, and all are read at once. */
Test(app_patience, a_drive_that_is_dead_costs_no_change_and_no_read_waits)
{
	pthread_t thread[3];
	uint32_t before;
	void *err;

	memset(acknowledged, 0, sizeof(acknowledged));
	serve(APP_BOOT_FORMAT, 3 * NS_PER_S);
	for (uintptr_t k = 0; k < 3; k++)
		cr_assert_eq(pthread_create(&thread[k], NULL, put_until_refused, (void *)k), 0);
	while (__atomic_load_n(&acknowledged[2], __ATOMIC_ACQUIRE) < 20)
		(void)usleep(1000);
	dies(1);
	before = __atomic_load_n(&acknowledged[2], __ATOMIC_ACQUIRE);
	atomic_store(&is_dead, true);
	for (int k = 0; k < 3; k++) {
		cr_assert_eq(pthread_join(thread[k], &err), 0);
		cr_assert((intptr_t)err == 0 || (intptr_t)err == -EROFS, "%d", (int)(intptr_t)err);
	}
	cr_assert_gt(acknowledged[2], before, "changes went on without the drive: %s", lines);
	expect_acknowledged();
	weka_close(client);
	(void)!app_rig_end(&rig);
	cr_assert_not_null(strstr(lines, "is dead: the log goes on with its copy on another drive"),
			   "%s", lines);

	serve(APP_BOOT_MOUNT, 0); /* it is back, as it was when it died */
	expect_acknowledged();
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0);
}
