/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store whose pairs are folded under the appliance whole but for main(): one of its drives
 * refuses reads or writes, or has other bytes, and no client sees anything of that.
 */
#include "appliance/core/app_op.h"
#include "test/lib/app_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVES = 4, SPOILS = 7 };

static struct app_files s;

static void setup(void)
{
	app_files_begin(&s, DRIVES, 3);
}

static void teardown(void)
{
	app_files_end(&s);
}

TestSuite(app_fold, .init = setup, .fini = teardown, .timeout = 120);

/* Zones that are in folds. */
static uint32_t folded(void)
{
	const struct meta_twins *t = s.rig.run.core->twins;
	uint32_t n = 0;

	for (uint32_t d = 0; d < DRIVES; d++)
		for (uint32_t i = 0; i < t->drive[d].count; i++)
			n += atomic_load_explicit(&t->drive[d].ring[i], memory_order_acquire) != 0;
	return n;
}

/* A mount folds what is there. */
static void fold(void)
{
	app_files_mount(&s);
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
	app_files_put(&s, 1);
	fold();
	app_files_get(&s, 1);
	sim_drive_faults(s.sim[1], &(struct sim_faults){ .write_error_ppm = 1000000,
							 .read_error_ppm = 1000000 });
	app_files_get(&s, 1);
	cr_assert_gt(app_files_stat(&s).turned_reads, 5);
	app_files_put(&s, 2);
	cr_assert(app_files_is_lost(&s, 1) && !app_files_is_lost(&s, 0));
	app_files_get(&s, 2);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}

Test(app_fold, drive_that_was_lost_is_read_from_the_others)
{
	char *bytes = malloc(APP_FILES_BYTES);

	for (uint32_t drive = 0; drive < 1; drive++) {
		app_files_put(&s, 1);
		fold();
		sim_drive_faults(s.sim[2], &(struct sim_faults){ .write_error_ppm = 1000000 });
		memset(bytes, 1, APP_FILES_BYTES);
		cr_assert_eq(weka_write_file(s.client, "/more", bytes, APP_FILES_BYTES, NULL), 0);
		cr_assert(app_files_is_lost(&s, 2));
		app_files_get(&s, 1);
	}
	free(bytes);
}

Test(app_fold, reads_that_fail_now_and_then)
{
	app_files_put(&s, 1);
	fold();
	sim_drive_faults(s.sim[0], &(struct sim_faults){ .read_error_ppm = 300000 });
	for (uint32_t round = 0; round < 3; round++)
		app_files_get(&s, 1);
	cr_assert_gt(app_files_stat(&s).turned_reads, 5);
}

Test(app_fold, other_bytes_on_a_drive_are_never_read)
{
	for (uint32_t round = 1; round < 4; round++) {
		app_files_put(&s, round);
		fold();
		app_files_spoil(&s, round, SPOILS);
		app_files_get(&s, round);
		app_files_spoil(&s, round, SPOILS);
		app_files_change(&s, round);
	}
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}

/* Two zones of each fold have other bytes: a block of such a zone is not to be had any more. */
static void spoil_two_of_each(uint32_t first)
{
	const struct meta_twins *t = s.rig.run.core->twins;
	const uint32_t blocks = meta_twins_blocks(t);

	for (uint32_t i = 0; i < t->drive[first].count; i++) {
		const uint64_t next = META_FOLD_AT(
			atomic_load_explicit(&t->drive[first].ring[i], memory_order_acquire));

		if (!next)
			continue;
		for (uint32_t k = 1; k < blocks - 1; k++) {
			sim_drive_flip(s.sim[first],
				       (t->drive[first].at + (uint64_t)i * blocks + k) * 4096 + 77,
				       3);
			sim_drive_flip(s.sim[META_BADDR_DRIVE(next)],
				       (META_BADDR_BLOCK(next) + k) * 4096 + 99, 3);
		}
	}
}

/* Returns how many files cannot be read; what can be is right. */
static uint32_t unreadable(uint32_t round)
{
	char *bytes = malloc(APP_FILES_BYTES), path[32];
	uint32_t bad = 0;
	size_t size;
	void *got;

	for (uint32_t i = 0; i < APP_FILES; i++) {
		int err;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		app_files_fill(bytes, i, round);
		err = weka_read_file(s.client, path, &got, &size);
		cr_assert(err == 0 || err == -EIO, "%s: %d", path, err);
		if (err) {
			bad++;
			continue;
		}
		cr_assert(size == app_files_size(i) && memcmp(got, bytes, size) == 0, "%s", path);
		free(got);
	}
	free(bytes);
	return bad;
}

Test(app_fold, blocks_that_two_drives_have_wrong_are_errors)
{
	uint32_t bad;

	app_files_put(&s, 1);
	fold();
	spoil_two_of_each(1);
	bad = unreadable(1);
	cr_assert_gt(bad, 5);
	for (uint32_t n = 0; n < 3000 && app_files_stat(&s).damaged_files < bad; n++)
		usleep(10000);
	cr_assert_eq(app_files_stat(&s).damaged_files, bad);
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
	char *bytes = malloc(APP_FILES_BYTES), path[32];

	weka_close(s.client);
	cr_assert_eq(app_rig_end(&s.rig), 0, "%s", s.rig.run.why);
	s.rig.transport = transport;
	s.rig.cfg.boot = APP_BOOT_MOUNT;
	s.rig.cfg.scrub_rate = 4096;
	s.rig.cfg.ops_max = 128;
	app_rig_begin(&s.rig);
	s.client = app_rig_connect(&s.rig);
	app_files_put(&s, 1);
	for (uint32_t i = 0; i < 8; i++) {
		memset(bytes, (int)i, APP_FILES_BYTES);
		(void)snprintf(path, sizeof(path), "/large %u", i);
		cr_assert_eq(weka_write_file(s.client, path, bytes, APP_FILES_BYTES, NULL), 0);
	}
	s.rig.cfg.staging_bytes = staging_bytes;
	fold();
	app_run_rebuild(&s.rig.run, 4096, 0);
	usleep(100000);
	sim_drive_faults(s.sim[1], &(struct sim_faults){ .write_error_ppm = 1000000 });
	app_files_put(&s, 2);
	cr_assert(app_files_is_lost(&s, 1));
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

	with_little_staging("tcp", 4 << 20);
	for (uint32_t i = 0; i < LARGE + SMALL; i++) {
		crowd[i] = app_rig_connect(&s.rig);
		cr_assert_eq(pthread_create(&t[i], NULL, crowd_reads, (void *)(uintptr_t)i), 0);
	}
	for (uint32_t round = 0; round < 15; round++) {
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
