/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Datasets of odd files: sums that overflow, a tar that changes meanwhile, names with a NUL. */
#include "client-lib/dataset/dataset_internal.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT, .cache_bytes = 64 << 20 } };
static struct weka_client *client;
static struct weka_dataset *dataset;

static void begin(void)
{
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(client, "/data", 0755), 0);
}

static void end(void)
{
	weka_dataset_close(dataset);
	dataset = NULL;
	weka_close(client);
	client = NULL;
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(app_dataset_odd, .init = begin, .fini = end, .timeout = 120);

static void sparse_make(const char *path, uint64_t size)
{
	struct weka_attr attr;

	cr_assert_eq(weka_write_file(client, path, "", 0, NULL), 0);
	cr_assert_eq(weka_stat(client, path, &attr), 0);
	cr_assert_eq(weka_truncate(client, &attr.handle, size), 0, "%s", weka_error(client));
}

/* 4096 names of a sparse file of 2^52 bytes: 2^64 bytes together. */
Test(app_dataset_odd, a_sum_of_sizes_that_no_number_holds_is_refused)
{
	struct weka_dataset_make how = { .flags = WEKA_DATASET_QUICK };
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };
	char path[64];

	sparse_make("/data/0000", UINT64_C(1) << 52);
	for (uint32_t i = 1; i < 4095; i++) {
		snprintf(path, sizeof(path), "/data/%04u", i);
		cr_assert_eq(weka_link(client, "/data/0000", path), 0, "%s", weka_error(client));
	}
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &how, &info), 0, "%s",
		     weka_error(client));
	cr_assert_eq(info.total_bytes, UINT64_C(4095) << 52);
	cr_assert_eq(weka_link(client, "/data/0000", "/data/4095"), 0);
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &how, &info), -EFBIG);
	cr_assert(strstr(weka_error(client), "2^64"), "%s", weka_error(client));
}

/* ---- a tar that changes between the walk and its index ------------------------------------- */

static int index_after(void (*change)(const struct weka_attr *attr))
{
	struct dataset__files files = { 0 };
	static char tar[4096];
	struct weka_attr attr;
	uint32_t sum = 0;
	int err;

	memset(tar, 0, sizeof(tar)); /* an empty member "a.txt", and the end */
	memcpy(tar, "a.txt", 5);
	memcpy(tar + 124, "00000000000", 12);
	tar[156] = '0';
	memset(tar + 148, ' ', 8); /* as the sum counts its own field */
	for (uint32_t i = 0; i < 512; i++)
		sum += (uint8_t)tar[i];
	snprintf(tar + 148, 8, "%06o", sum);
	cr_assert_eq(weka_write_file(client, "/data/a.tar", tar, sizeof(tar), NULL), 0);
	cr_assert_eq(weka_stat(client, "/data/a.tar", &attr), 0);
	cr_assert_eq(client__begin(client), 0);
	cr_assert_eq(dataset__walk(client, "/data", NULL, &files), 0);
	change(&attr);
	err = dataset__records(client, "tar", true, &files);
	cr_assert(err || files.count == 1);
	client__finish(client);
	dataset__files_free(&files);
	return err;
}

static void no_change(const struct weka_attr *attr)
{
	(void)attr;
}

static void damage(const struct weka_attr *attr)
{
	cr_assert_eq(weka_pwrite(client, &attr->handle, "b", 1, 0), 1);
}

static void cut(const struct weka_attr *attr)
{
	cr_assert_eq(weka_truncate(client, &attr->handle, 100), 0);
}

static void replace(const struct weka_attr *attr)
{
	(void)attr;
	cr_assert_eq(weka_unlink(client, "/data/a.tar"), 0);
}

Test(app_dataset_odd, a_tar_that_changes_meanwhile_is_stale_and_not_damaged)
{
	cr_assert_eq(index_after(no_change), 0, "%s", weka_error(client));
	cr_assert_eq(index_after(damage), -ESTALE, "%s", weka_error(client));
	cr_assert(strstr(weka_error(client), "changed while the dataset was made"), "%s",
		  weka_error(client));
	cr_assert_eq(index_after(cut), -ESTALE, "%s", weka_error(client));
	cr_assert_eq(index_after(replace), -ESTALE, "%s", weka_error(client));
}

/* ---- names in a manifest ------------------------------------------------------------------- */

/* A client with the right to write below WEKA_DATASETS can put any bytes into a manifest. */
Test(app_dataset_odd, a_nul_in_a_path_of_a_manifest_is_refused)
{
	struct weka_sample sample;
	struct weka_attr attr;
	char path[64];

	for (uint32_t i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "/data/%03u", i);
		cr_assert_eq(weka_write_file(client, path, "x", 1, NULL), 0);
	}
	cr_assert_eq(weka_dataset_create(client, "set", "/data", NULL, NULL), 0);
	cr_assert_eq(weka_stat(client, WEKA_DATASETS "/set/1", &attr), 0);
	/* "/data/004": 4 names of 9 bytes before it. */
	cr_assert_eq(weka_pwrite(client, &attr.handle, "", 1,
				 DATASET__HEADER_BYTES + 10 * DATASET__RECORD_BYTES + 4 * 9 + 7),
		     1);
	cr_assert_eq(weka_dataset_open(client, "set", 1, &dataset), -EPROTO, "%s",
		     weka_error(client));
	cr_assert(strstr(weka_error(client), "a path"), "%s", weka_error(client));
	cr_assert_eq(weka_pwrite(client, &attr.handle, "4", 1,
				 DATASET__HEADER_BYTES + 10 * DATASET__RECORD_BYTES + 4 * 9 + 7),
		     1);
	cr_assert_eq(weka_pwrite(client, &attr.handle, "", 1,
				 DATASET__HEADER_BYTES + 10 * DATASET__RECORD_BYTES + 3 * 9 + 8),
		     1);
	cr_assert_eq(weka_dataset_open(client, "set", 1, &dataset), 0, "%s", weka_error(client));
	cr_assert_eq(weka_dataset_sample(dataset, 2, &sample), 0);
	cr_assert_eq(weka_dataset_sample(dataset, 3, &sample), -EPROTO);
	cr_assert(strstr(weka_error(client), "a path"), "%s", weka_error(client));
}
