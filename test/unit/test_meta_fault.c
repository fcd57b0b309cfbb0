/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * From the n-th write on the drives fail, for every n: the store takes no more changes, says why,
 * goes on reading, and has what it acknowledged when it is mounted on sound drives again.
 */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILES 30u

static struct rig r;

TestSuite(meta_fault, .timeout = 60);

static void path_of(uint32_t i, char path[32])
{
	(void)snprintf(path, 32, "/file %u", i);
}

static void is_there(uint32_t i)
{
	char path[32];
	uint32_t blocks;
	uint64_t fill;

	path_of(i, path);
	cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0, "%s: %s", path, meta_error(r.m));
	cr_assert_eq(fill, i + 1);
	cr_assert_eq(blocks, i % 3);
}

static void run(uint64_t fail_after, bool *failed)
{
	struct meta_check check;
	uint32_t acknowledged = 0;
	int err = 0;

	rig_make(&r, fail_after, 2, 4u << 20, 2, fail_after % 2);
	cr_assert_eq(rig_format(&r), 0);
	r.fail_at = r.writes + fail_after;
	for (uint32_t i = 0; i < FILES && err == 0; i++) {
		char path[32];

		path_of(i, path);
		err = rig_put(&r, path, i % 3, i + 1);
		acknowledged += err == 0;
		if (i % 8 == 7)
			meta__ckpt_want(r.m);
	}
	cr_assert(err == 0 || err == -EROFS, "%d", err);
	rig_idle(&r);
	*failed = meta_health(r.m) != 0;
	if (*failed)
		cr_assert_neq(strlen(meta_error(r.m)), 0, "it says why");
	for (uint32_t i = 0; i < acknowledged; i++)
		is_there(i); /* from memory or the drives */
	r.fail_at = 0;
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0, "write %llu: %s", (unsigned long long)fail_after,
		     meta_error(r.m));
	for (uint32_t i = 0; i < acknowledged; i++)
		is_there(i);
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
	rig_end(&r);
}

Test(meta_fault, failing_writes_lose_nothing_that_was_acknowledged)
{
	uint32_t failures = 0;

	for (uint64_t n = 1; n < 100; n++) {
		bool failed;

		run(n, &failed);
		failures += failed;
	}
	cr_assert_gt(failures, 50);
}

Test(meta_fault, format_and_mount_on_failing_drives_end_with_an_error)
{
	for (uint64_t n = 1; n < 110; n++) {
		int err;

		rig_make(&r, n, 1, 2u << 20, 1, n % 2);
		r.fail_at = n;
		err = rig_format(&r);
		if (err) {
			cr_assert_eq(err, -EIO);
			cr_assert_neq(strlen(meta_error(r.m)), 0);
		}
		rig_end(&r);
	}
	for (uint64_t n = 1; n < 20; n++) {
		int err;

		rig_make(&r, n, 1, 2u << 20, 1, n % 2);
		cr_assert_eq(rig_format(&r), 0);
		cr_assert_eq(rig_put(&r, "/file", 2, 1), 0);
		rig_power_cut(&r);
		r.fail_at = r.writes + n;
		err = rig_mount(&r);
		cr_assert(err == 0 || err == -EIO, "%d", err);
		rig_power_cut(&r);
		r.fail_at = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		rig_end(&r);
	}
}
