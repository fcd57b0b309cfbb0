/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* When a drive has failed, and what the log says of drives with errors. */
#include "appliance/media/app_failing.h"
#include "appliance/media/app_fault_log.h"
#include "base/clock.h"
#include "nvme/nvme_spec.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(app_failing, .timeout = 30);

static struct app_failing failing;
static uint64_t now_ns = 1000 * NS_PER_S;

static bool probed(uint32_t good, enum app_fault_what *what)
{
	cr_assert_eq(app_failing_due(&failing, now_ns), 3);
	return app_failing_probed(&failing, 3, good, now_ns, what);
}

static void fail_drive(void)
{
	enum app_fault_what what;

	app_failing_doubt(&failing, 1ull << 3, now_ns);
	cr_assert_not(probed(0, &what));
	now_ns += NS_PER_S;
	cr_assert(probed(0, &what));
	cr_assert_eq(what, APP_FAULT_FAILED);
}

Test(app_failing, one_bad_sector_makes_no_drive_fail)
{
	enum app_fault_what what;

	cr_assert_eq(app_failing_deadline(&failing), UINT64_MAX);
	for (uint32_t i = 0; i < 100; i++) { /* the same one, again and again */
		app_failing_doubt(&failing, 1ull << 3, now_ns);
		if (app_failing_due(&failing, now_ns) == META_DRIVES_MAX)
			continue;
		cr_assert(failing.doubted);
		cr_assert_not(probed(APP_PROBE_PLACES, &what));
		cr_assert_eq(failing.doubted | failing.failed, 0);
		now_ns += NS_PER_S / 10;
	}
	cr_assert_eq(app_failing_deadline(&failing), UINT64_MAX);
}

Test(app_failing, nor_does_a_short_fault_nor_a_drive_of_which_one_block_can_be_read)
{
	enum app_fault_what what;

	app_failing_doubt(&failing, 1ull << 3, now_ns);
	cr_assert_not(probed(0, &what));
	cr_assert_eq(app_failing_due(&failing, now_ns), META_DRIVES_MAX);
	cr_assert_eq(app_failing_deadline(&failing), now_ns + NS_PER_S);
	now_ns += NS_PER_S;
	cr_assert_not(probed(1, &what));
	cr_assert_eq(failing.doubted | failing.failed, 0);
}

Test(app_failing, drive_from_which_nothing_can_be_read_has_failed_until_it_answers)
{
	enum app_fault_what what;

	fail_drive();
	cr_assert_eq(failing.failed, 1ull << 3);
	cr_assert_eq(failing.doubted, 0);
	app_failing_doubt(&failing, 1ull << 3, now_ns); /* known */
	cr_assert_eq(failing.doubted, 0);
	for (uint32_t i = 0; i < 10; i++) {
		cr_assert_eq(app_failing_due(&failing, now_ns), META_DRIVES_MAX);
		now_ns = app_failing_deadline(&failing);
		cr_assert_not(probed(0, &what));
	}
	now_ns = app_failing_deadline(&failing);
	cr_assert(probed(1, &what));
	cr_assert_eq(what, APP_FAULT_ANSWERS);
	cr_assert_eq(failing.failed, 0);
	cr_assert_eq(app_failing_deadline(&failing), UINT64_MAX);
}

Test(app_failing, drive_that_has_left_is_nobodys_to_probe)
{
	fail_drive();
	app_failing_forget(&failing, 3);
	cr_assert_eq(app_failing_deadline(&failing), UINT64_MAX);
}

Test(app_failing, probe_reads_all_over_the_drive_and_never_its_first_block)
{
	static const uint64_t nblocks[] = { 2, 3, 8, 9, 512, 1000, 1ull << 40 };

	for (size_t i = 0; i < ARRAY_LEN(nblocks); i++) {
		cr_assert_eq(app_failing_place(nblocks[i], 0), 1);
		cr_assert_eq(app_failing_place(nblocks[i], APP_PROBE_PLACES - 1), nblocks[i] - 1);
		for (uint32_t k = 1; k < APP_PROBE_PLACES; k++)
			cr_assert_geq(app_failing_place(nblocks[i], k),
				      app_failing_place(nblocks[i], k - 1));
	}
}

/* ---- the log ------------------------------------------------------------------------------ */

static struct app_faults faults[2];
static struct app_fault_log fault_log;
static char name[META_DRIVES_MAX][APP_CONF_TEXT_MAX] = { "file:/a", "file:/b" };
static char text[APP_FAULT_LINE];

static void fault(uint32_t core, uint32_t drive, enum app_fault_op op, uint64_t block)
{
	const struct app_fault f = { .block = block,
				     .nblocks = 8,
				     .err = -ENODATA,
				     .nvme_status = NVME_SC_UNRECOVERED_READ,
				     .drive = (uint8_t)drive,
				     .op = (uint8_t)op };

	(void)app_faults_push(&faults[core], &f);
}

static bool line(void)
{
	return app_fault_log_line(&fault_log, faults, 2, name, now_ns, text);
}

static void expect_says(const char *what)
{
	cr_assert_not_null(strstr(text, what), "'%s' not in: %s", what, text);
}

Test(app_failing, log_names_drive_operation_block_and_nvme_status)
{
	cr_assert_not(line());
	fault(1, 1, APP_FAULT_READ, 1234);
	cr_assert(line());
	cr_assert_str_eq(
		text, "WEKA-205: drive 1 (file:/b): read of block 1234 to 1241 failed: NVMe status "
		      "type 2h (media), code 81h: unrecovered read error");
	cr_assert_not(line());
	cr_assert_eq(app_fault_log_deadline(&fault_log, faults, 2), UINT64_MAX);
}

Test(app_failing, log_of_what_the_driver_ended_says_so)
{
	struct app_fault f = { .err = -ENODEV, .op = APP_FAULT_FLUSH, .store = true };

	cr_assert(app_faults_push(&faults[0], &f));
	cr_assert(line());
	cr_assert_str_eq(
		text, "WEKA-205: drive 0 (file:/a): the store's flush failed: no NVMe status, the "
		      "driver ended it: No such device");
}

/* All of them are told of, however many, and however many records find no place. */
Test(app_failing, log_has_few_lines_of_many_errors_and_counts_them_all)
{
	uint32_t lines = 0;

	for (uint64_t i = 0; i < 60000; i++) {
		fault(i % 2, 0, i % 3 ? APP_FAULT_READ : APP_FAULT_WRITE, i);
		lines += line();
	}
	fault(0, 1, APP_FAULT_READ, 7); /* of another drive: not hidden behind them */
	cr_assert(line());
	expect_says("WEKA-205: drive 1 (file:/b): read of block 7 to 14");
	cr_assert_eq(lines, APP_FAULT_FULL);
	cr_assert_not(line());
	cr_assert_eq(app_fault_log_deadline(&fault_log, faults, 2), now_ns + 60 * NS_PER_S);
	now_ns += 60 * NS_PER_S;
	cr_assert(line());
	expect_says("WEKA-206: drive 0 (file:/a): 39994 more reads, 19996 more writes failed; the "
		    "last one: "
		    "read of block 59999 to 60006, NVMe status type 2h");
	cr_assert_not(line());
	cr_assert_eq(app_fault_log_deadline(&fault_log, faults, 2), UINT64_MAX);
}

Test(app_failing, log_is_quieter_in_the_minutes_that_follow)
{
	uint32_t lines = 0;

	for (uint32_t minute = 0; minute < 3; minute++, now_ns += 60 * NS_PER_S)
		for (uint32_t i = 0; i < 1000; i++) {
			fault(0, 0, APP_FAULT_READ, i);
			lines += line();
		}
	cr_assert_leq(lines, APP_FAULT_FULL + 2 * 3);
}

Test(app_failing, log_counts_what_found_no_place_in_the_ring)
{
	for (uint64_t i = 0; i < 10 * APP_FAULTS; i++)
		fault(0, 0, APP_FAULT_READ, i);
	for (uint32_t i = 0; i < APP_FAULT_FULL; i++)
		cr_assert(line());
	expect_says("(further errors of this drive are counted");
	cr_assert_not(line());
	now_ns += 60 * NS_PER_S;
	cr_assert(line());
	expect_says("1270 more reads failed");
}

Test(app_failing, log_says_when_a_drive_fails_and_when_it_answers)
{
	struct app_fault f = { .drive = 1, .what = APP_FAULT_FAILED };

	(void)app_faults_push(&faults[0], &f);
	cr_assert(line());
	expect_says("WEKA-201: drive 1 (file:/b): has failed: nothing can be read from it");
	f.what = APP_FAULT_ANSWERS;
	(void)app_faults_push(&faults[0], &f);
	cr_assert(line());
	expect_says("WEKA-202: drive 1 (file:/b): answers again");
}

Test(app_failing, control_thread_is_woken_once_for_what_it_has_not_taken)
{
	const struct app_fault f = { .what = APP_FAULT_IO };
	struct app_fault out;

	cr_assert(app_faults_push(&faults[0], &f));
	cr_assert_not(app_faults_push(&faults[0], &f));
	cr_assert(app_faults_take(&faults[0], &out));
	cr_assert(app_faults_take(&faults[0], &out));
	cr_assert_not(app_faults_take(&faults[0], &out));
	cr_assert(app_faults_push(&faults[0], &f));
}
