/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store whose pairs are folded under the appliance whole but for main(): one of its drives
 * refuses reads or writes, or has other bytes, and no client sees anything of that.
 */
#include "appliance/core/app_op.h"
#include "appliance/media/app_lines.h"
#include "test/lib/app_rig.h"
#include "test/lib/sim_nvme.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVES = 4, DRIVE_BLOCKS = 16384, FILES = 60, SPOILS = 7 };

static struct sim_power power[DRIVES];
static struct sim_drive *sim[DRIVES];
static struct weka_client *client;

static void read_lines(struct app_rig *rig)
{
	char text[APP_LINE_SIZE];

	for (uint32_t i = 0; i < DRIVES; i++)
		while (nvme_drive_line(rig->drive[i], text, sizeof(text)))
			;
}

static void open_sim(struct app_rig *rig, uint32_t i)
{
	sim_drive_open(sim[i], rig->dma, &rig->drive[i]);
}

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .ndrives = DRIVES,
				       .nshards = 4,
				       .copies = 2,
				       .fold = 3,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32,
				       .scrub_rate = 64 << 20,
				       .boot = APP_BOOT_FORMAT,
				       .patience_ns = 60000000000 },
			      .open_drive = open_sim,
			      .one_core = true,
			      .turn = read_lines };

static void setup(void)
{
	struct sim_drive_options options = { .nblocks = DRIVE_BLOCKS, .volatile_cache = true };

	for (int i = 0; i < DRIVES; i++) {
		sim_power_init(&power[i]);
		options.power = &power[i];
		cr_assert_eq(sim_drive_create(&sim[i], &options), 0);
	}
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
}

static void teardown(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	for (int i = 0; i < DRIVES; i++)
		sim_drive_destroy(sim[i]);
}

TestSuite(app_fold, .init = setup, .fini = teardown, .timeout = 120);

static size_t size_of(uint32_t i)
{
	return i == FILES - 1 ? 1u << 20 : 3000 + 7001u * (i % 11);
}

static void fill(char *to, uint32_t i, uint32_t round)
{
	for (size_t k = 0; k < size_of(i); k += 4)
		memcpy(to + k, &(uint32_t){ (uint32_t)k * 31 + i * 7 + round }, 4);
}

static void put_all(uint32_t round)
{
	char *bytes = malloc(2u << 20), path[32];
	int err;

	for (uint32_t i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/file %u", i);
		fill(bytes, i, round);
		err = weka_write_file(client, path, bytes, size_of(i), NULL);
		cr_assert_eq(err, 0, "%s: %s", path, strerror(-err));
	}
	free(bytes);
}

static void get_all(uint32_t round)
{
	char *bytes = malloc(2u << 20), path[32];
	size_t size;
	void *got;

	for (uint32_t i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/file %u", i);
		fill(bytes, i, round);
		cr_assert_eq(weka_read_file(client, path, &got, &size), 0, "%s", path);
		cr_assert(size == size_of(i) && memcmp(got, bytes, size) == 0, "%s", path);
		free(got);
	}
	free(bytes);
}

static struct app_core_stat stat_now(void)
{
	struct app_core_stat stat;

	app_rig_stat(&rig, &stat);
	return stat;
}

/* Does the store go on without this drive? */
static bool is_lost(uint32_t drive)
{
	return !meta_twins_has(rig.run.core->twins, drive);
}

/* Zones that are in folds. */
static uint32_t folded(void)
{
	const struct meta_twins *t = rig.run.core->twins;
	uint32_t n = 0;

	for (uint32_t d = 0; d < DRIVES; d++)
		for (uint32_t i = 0; i < t->drive[d].count; i++)
			n += atomic_load_explicit(&t->drive[d].ring[i], memory_order_acquire) != 0;
	return n;
}

/* A mount folds what is there. */
static void fold(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	rig.cfg.boot = APP_BOOT_MOUNT;
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	for (uint32_t last = 0, same = 0; same < 20;) {
		const uint32_t now = folded();

		same = now == last && now > 0 ? same + 1 : 0;
		last = now;
		usleep(10000);
	}
	cr_assert_gt(folded(), 8);
}

Test(app_fold, drive_that_refuses_all_is_read_from_the_others)
{
	put_all(1);
	fold();
	get_all(1);
	sim_drive_faults(sim[1], &(struct sim_faults){ .write_error_ppm = 1000000,
						       .read_error_ppm = 1000000 });
	get_all(1);
	cr_assert_gt(stat_now().turned_reads, 5);
	put_all(2);
	cr_assert(is_lost(1) && !is_lost(0));
	get_all(2);
	cr_assert_eq(stat_now().damaged_files, 0);
}

Test(app_fold, drive_that_was_lost_is_read_from_the_others)
{
	char *bytes = malloc(2u << 20);

	for (uint32_t drive = 0; drive < 1; drive++) {
		put_all(1);
		fold();
		sim_drive_faults(sim[2], &(struct sim_faults){ .write_error_ppm = 1000000 });
		memset(bytes, 1, 2u << 20);
		cr_assert_eq(weka_write_file(client, "/more", bytes, 2u << 20, NULL), 0);
		cr_assert(is_lost(2));
		get_all(1);
	}
	free(bytes);
}

Test(app_fold, reads_that_fail_now_and_then)
{
	put_all(1);
	fold();
	sim_drive_faults(sim[0], &(struct sim_faults){ .read_error_ppm = 300000 });
	for (uint32_t round = 0; round < 3; round++)
		get_all(1);
	cr_assert_gt(stat_now().turned_reads, 5);
}

/* A write, a punch or a cut that changes a part of a block is merged with the old one. */
static void change_all(char *shadow, uint32_t round)
{
	struct weka_attr attr;
	char path[32];

	for (uint32_t i = 0; i < FILES - 1; i++) {
		const size_t size = size_of(i) - 100;
		void *got;
		size_t n;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		fill(shadow, i, round);
		cr_assert_eq(weka_open(client, path, WEKA_HOLD, 0, &attr), 0);
		cr_assert_eq(weka_pwrite(client, &attr.handle, "x", 1, 1), 1, "%s", path);
		cr_assert_eq(weka_truncate(client, &attr.handle, size), 0, "%s", path);
		cr_assert_eq(weka_punch(client, &attr.handle, 5, 3), 0, "%s", path);
		cr_assert_eq(weka_close_file(client, &attr.handle), 0);
		shadow[1] = 'x';
		memset(shadow + 5, 0, 3);
		cr_assert_eq(weka_read_file(client, path, &got, &n), 0);
		cr_assert(n == size && memcmp(got, shadow, n) == 0, "%s", path);
		free(got);
	}
}

/* Each time other blocks, of one drive. */
static void spoil(struct sim_drive *drive)
{
	static uint32_t times;

	cr_assert_lt(times, SPOILS);
	for (uint64_t block = 600 + times++; block < DRIVE_BLOCKS - 600; block += SPOILS)
		sim_drive_flip(drive, block * 4096 + 100 + block % 3000, 3);
}

Test(app_fold, other_bytes_on_a_drive_are_never_read)
{
	char *shadow = malloc(2u << 20);

	for (uint32_t round = 1; round < 4; round++) {
		put_all(round);
		fold();
		spoil(sim[round]);
		get_all(round);
		spoil(sim[round]);
		change_all(shadow, round);
	}
	cr_assert_eq(stat_now().damaged_files, 0);
	free(shadow);
}

/* Two zones of each fold have other bytes: a block of such a zone is not to be had any more. */
static void spoil_two_of_each(uint32_t first)
{
	const struct meta_twins *t = rig.run.core->twins;
	const uint32_t blocks = meta_twins_blocks(t);

	for (uint32_t i = 0; i < t->drive[first].count; i++) {
		const uint64_t next = META_FOLD_AT(
			atomic_load_explicit(&t->drive[first].ring[i], memory_order_acquire));

		if (!next)
			continue;
		for (uint32_t k = 1; k < blocks - 1; k++) {
			sim_drive_flip(sim[first],
				       (t->drive[first].at + (uint64_t)i * blocks + k) * 4096 + 77,
				       3);
			sim_drive_flip(sim[META_BADDR_DRIVE(next)],
				       (META_BADDR_BLOCK(next) + k) * 4096 + 99, 3);
		}
	}
}

/* Returns how many files cannot be read; what can be is right. */
static uint32_t unreadable(uint32_t round)
{
	char *bytes = malloc(2u << 20), path[32];
	uint32_t bad = 0;
	size_t size;
	void *got;

	for (uint32_t i = 0; i < FILES; i++) {
		int err;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		fill(bytes, i, round);
		err = weka_read_file(client, path, &got, &size);
		cr_assert(err == 0 || err == -EIO, "%s: %d", path, err);
		if (err) {
			bad++;
			continue;
		}
		cr_assert(size == size_of(i) && memcmp(got, bytes, size) == 0, "%s", path);
		free(got);
	}
	free(bytes);
	return bad;
}

Test(app_fold, blocks_that_two_drives_have_wrong_are_errors)
{
	uint32_t bad;

	put_all(1);
	fold();
	spoil_two_of_each(1);
	bad = unreadable(1);
	cr_assert_gt(bad, 5);
	for (uint32_t n = 0; n < 3000 && stat_now().damaged_files < bad; n++)
		usleep(10000);
	cr_assert_eq(stat_now().damaged_files, bad);
	cr_assert_eq(unreadable(1), bad);
	fold();
	cr_assert_eq(unreadable(1), bad);
}

/* ---- little staging ------------------------------------------------------------------------- */

#include <pthread.h>

static bool goes_on(_Atomic uint64_t *count)
{
	const uint64_t was = atomic_load(count);

	for (uint32_t n = 0; n < 100; n++) {
		usleep(100000);
		if (atomic_load(count) > was + 6)
			return true;
	}
	return false;
}

static void with_little_staging(const char *transport, uint64_t staging_bytes)
{
	char *bytes = malloc(2u << 20), path[32];

	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	rig.transport = transport;
	rig.cfg.boot = APP_BOOT_MOUNT;
	rig.cfg.scrub_rate = 4096;
	rig.cfg.ops_max = 128;
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	put_all(1);
	for (uint32_t i = 0; i < 8; i++) {
		memset(bytes, (int)i, 2u << 20);
		(void)snprintf(path, sizeof(path), "/large %u", i);
		cr_assert_eq(weka_write_file(client, path, bytes, 2u << 20, NULL), 0);
	}
	rig.cfg.staging_bytes = staging_bytes;
	fold();
	app_run_rebuild(&rig.run, 4096, 0);
	usleep(100000);
	sim_drive_faults(sim[1], &(struct sim_faults){ .write_error_ppm = 1000000 });
	put_all(2);
	cr_assert(is_lost(1));
	free(bytes);
}

enum { LARGE = 28, SMALL = 32 };
static struct weka_client *crowd[LARGE + SMALL];
static _Atomic uint64_t crowd_done;
static _Atomic bool readers_stop;

static void *crowd_reads(void *arg)
{
	const uint32_t n = (uint32_t)(uintptr_t)arg,
		       bytes_each = n < LARGE ? 512u << 10 : 60u << 10;
	struct weka_client *c = crowd[n];
	char *bytes = malloc(1u << 20), path[32];
	struct weka_attr attr;

	(void)snprintf(path, sizeof(path), "/large %u", n % 8);
	cr_assert_eq(weka_open(c, path, WEKA_HOLD, 0, &attr), 0);
	for (uint64_t i = n; !atomic_load(&readers_stop); i++) {
		const int64_t got =
			weka_pread(c, &attr.handle, bytes, bytes_each, i % 24 * (64u << 10));

		cr_assert(got == (int64_t)bytes_each && bytes[7] == (char)(n % 8), "%ld", got);
		atomic_fetch_add(&crowd_done, 1);
	}
	(void)weka_close_file(c, &attr.handle);
	free(bytes);
	return NULL;
}

Test(app_fold, many_clients_read_what_is_summed_up)
{
	static pthread_t t[LARGE + SMALL];
	const char *length = getenv("TEST_LENGTH");
	const uint32_t rounds = length && strcmp(length, "short") == 0 ? 5 : 15;

	with_little_staging("tcp", 4 << 20);
	for (uint32_t i = 0; i < LARGE + SMALL; i++) {
		crowd[i] = app_rig_connect(&rig);
		cr_assert_eq(pthread_create(&t[i], NULL, crowd_reads, (void *)(uintptr_t)i), 0);
	}
	for (uint32_t round = 0; round < rounds; round++) {
		const bool on = goes_on(&crowd_done);

		cr_assert(on, "no read has ended for 10 s");
		usleep(400000);
	}
	atomic_store(&readers_stop, true);
	for (uint32_t i = 0; i < LARGE + SMALL; i++)
		pthread_join(t[i], NULL);
	for (uint32_t i = 0; i < LARGE + SMALL; i++)
		weka_close(crowd[i]);
}
