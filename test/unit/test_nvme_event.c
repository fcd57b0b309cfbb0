/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Asynchronous events of a controller: for the drive's owner, and as lines of the log. */
#include "test/lib/nvme_fixture.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

static struct nvme_fixture f;
static struct nvme_soft *soft;
static uint64_t now_ns;
static char line[256];

/* The owner's loop, for a while. */
static void steps(uint32_t count)
{
	while (count-- > 0) {
		now_ns += NS_PER_S / 2;
		(void)nvme_drive_step(f.drive, now_ns);
	}
}

static void setup(void)
{
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256 }, 8);
	soft = fixture_soft(&f);
	now_ns = NS_PER_S;
	steps(4);
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_event, .init = setup, .fini = teardown, .timeout = 60);

/* The next line of the log must contain these words; NULL: there must be no line. */
static void expect_line(const char *words)
{
	bool is = nvme_drive_line(f.drive, line, sizeof(line));

	cr_assert_eq(is, words != NULL, "%s", is ? line : "nothing");
	if (words)
		cr_assert_not_null(strstr(line, words), "%s", line);
}

Test(nvme_event, all_event_commands_wait_and_nothing_else_does)
{
	cr_assert_eq(soft->event_cid_count, NVME_EVENTS_MAX);
	cr_assert_eq(f.drive->admin.slots_used, NVME_EVENTS_MAX);
	cr_assert_eq(soft->event_wanted, 0x31f);
	steps(10);
	cr_assert_eq(f.drive->admin.slots_used, NVME_EVENTS_MAX);
	expect_line(NULL);
}

Test(nvme_event, health_is_known_after_the_first_steps_and_read_again_after_a_minute)
{
	struct nvme_smart smart;

	cr_assert(nvme_drive_smart(f.drive, &smart));
	cr_assert_eq(smart.spare_percent, 100);
	cr_assert_not(smart.has_temperature);
	soft->health = (struct nvme_log_health){ .kelvin = { 0x3b, 0x01 }, .used_percent = 7 };
	soft->health.written_units[0] = le64_of(3);
	soft->health.media_errors[1] = le64_of(1);
	steps(10);
	cr_assert(nvme_drive_smart(f.drive, &smart));
	cr_assert_not(smart.has_temperature, "not yet");
	steps(120);
	cr_assert(nvme_drive_smart(f.drive, &smart));
	cr_assert(smart.has_temperature);
	cr_assert_eq(smart.celsius, 42);
	cr_assert_eq(smart.used_percent, 7);
	cr_assert_eq(smart.written_bytes, 1536000);
	cr_assert_eq(smart.media_errors, UINT64_MAX);
	expect_line(NULL);
}

static void warn(uint8_t warnings)
{
	soft->health.warning = warnings;
	nvme__soft_event(soft, NVME_EVENT_HEALTH, 1, NVME_LOG_HEALTH);
	steps(3);
}

Test(nvme_event, warning_is_told_once_and_again_when_it_comes_back)
{
	soft->health.kelvin[0] = 0x66;
	soft->health.kelvin[1] = 0x01;
	soft->health.spare_percent = 3;
	soft->health.spare_least_percent = 10;
	warn(NVME_WARN_TEMPERATURE);
	expect_line("temperature is out of bounds: 85 C");
	expect_line(NULL);
	warn(NVME_WARN_TEMPERATURE | NVME_WARN_SPARE);
	expect_line("only 3 % of its spare blocks are left (limit 10 %)");
	expect_line(NULL);
	warn(0);
	expect_line(NULL);
	warn(0x80 | NVME_WARN_TEMPERATURE | NVME_WARN_READ_ONLY | NVME_WARN_RELIABILITY |
	     NVME_WARN_BACKUP);
	expect_line("temperature");
	expect_line("no longer reliable");
	expect_line("no more writes");
	expect_line("volatile memory");
	expect_line("unknown: 80");
	expect_line(NULL);
	cr_assert_eq(f.drive->events.event_count, 4, "each log was read: the next event came");
	cr_assert_eq(soft->event_masked, 0);
	cr_assert_eq(soft->event_cid_count, NVME_EVENTS_MAX);
}

Test(nvme_event, errors_and_firmware_are_told_with_what_their_logs_say)
{
	soft->error = (struct nvme_log_error){ .count = le64_of(17),
					       .qid = le16_of(1),
					       .status = le16_of(NVME_SC_UNRECOVERED_READ << 1),
					       .lba = le64_of(4711) };
	nvme__soft_event(soft, NVME_EVENT_ERROR, 4, NVME_LOG_ERROR);
	steps(3);
	expect_line("error 17: unrecovered read error (281), queue 1, LBA 4711");
	nvme__soft_event(soft, NVME_EVENT_NOTICE, NVME_NOTICE_FIRMWARE, NVME_LOG_FIRMWARE);
	steps(3);
	expect_line("new firmware is being activated");
	expect_line("firmware is 1, in slot 1");
	expect_line(NULL);
}

Test(nvme_event, unknown_events_and_logs_do_no_harm)
{
	struct nvme_io io;

	nvme__soft_event(soft, 7, 0xff, 0xc0);
	nvme__soft_event(soft, 5, 0, 0);
	nvme__soft_event(soft, NVME_EVENT_NOTICE, 0xee, 0);
	steps(5);
	expect_line(NULL);
	cr_assert_eq(f.drive->events.event_count, 3);
	io = read_of(&f, 0, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
}

static void change_namespace(uint32_t nsid)
{
	soft->changed_ns[0] = le32_of(nsid);
	nvme__soft_event(soft, NVME_EVENT_NOTICE, NVME_NOTICE_NAMESPACE, NVME_LOG_CHANGED_NS);
	steps(6);
}

Test(nvme_event, namespace_that_grew_or_is_anothers_is_no_trouble)
{
	struct nvme_io io;

	change_namespace(5);
	expect_line(NULL);
	soft->own_ns.size_lbas = 300;
	change_namespace(1);
	expect_line("namespace 1 has grown from 256 blocks to 300");
	io = read_of(&f, 255, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	change_namespace(NVME_NSID_ALL); /* too many have changed to list them */
	expect_line("has grown");
	expect_line(NULL);
	cr_assert_eq(nvme_drive_health(f.drive), NVME_HEALTH_GOOD);
}

/* The drive serves nobody until its namespace is back; whoever polls it gets every I/O back. */
static void expect_away(void)
{
	struct nvme_io io = read_of(&f, 0, 1), *done[1];

	for (uint32_t i = 0; i < 100 && nvme_drive_health(f.drive) != NVME_HEALTH_AWAY; i++) {
		cr_assert_eq(nvme_poll(f.qp, done, 1), 0);
		steps(1);
	}
	cr_assert_eq(nvme_drive_health(f.drive), NVME_HEALTH_AWAY);
	cr_assert_eq(nvme_submit(f.qp, &io), -EHOSTDOWN);
}

Test(nvme_event, namespace_that_vanished_ends_the_drive_by_name)
{
	soft->own_ns.size_lbas = 0;
	change_namespace(1);
	expect_line("namespace 1 has vanished");
	expect_away();
}

Test(nvme_event, namespace_that_shrank_ends_the_drive_by_name)
{
	soft->own_ns.size_lbas = 255;
	change_namespace(1);
	expect_line("namespace 1 has changed: 256 blocks with LBAs of 4096 bytes, now 255 of 4096");
	expect_away();
}

Test(nvme_event, namespace_of_another_format_ends_the_drive_by_name)
{
	soft->own_ns.metadata_bytes = 8;
	change_namespace(1);
	expect_line("namespace 1 has changed: the namespace's format has 8 bytes of metadata");
	expect_away();
}

Test(nvme_event, controller_that_takes_fewer_event_commands_than_it_said_is_not_asked_again)
{
	struct nvme_admin_cmd more = { .sqe = { .opcode = NVME_ADMIN_ASYNC_EVENT },
				       .deadline_ns = UINT64_MAX };

	cr_assert_eq(nvme__admin_submit(f.drive, &more), 0);
	(void)nvme__admin_poll(f.drive);
	cr_assert_eq(more.status, NVME_SC_EVENT_LIMIT);
	/* As if one of ours had met that. */
	nvme__soft_event(soft, NVME_EVENT_HEALTH, 0, 0);
	(void)nvme__admin_poll(f.drive);
	for (uint32_t i = 0; i < NVME_EVENTS_MAX; i++) {
		struct nvme_admin_cmd *cmd = &f.drive->events.wait[i];

		if (cmd->state != NVME_ADMIN_DONE)
			continue;
		cmd->err = -EIO;
		steps(4);
		cr_assert(f.drive->events.off[i]);
		cr_assert_eq(cmd->state, NVME_ADMIN_DONE);
	}
	cr_assert_eq(soft->event_cid_count, NVME_EVENTS_MAX - 1);
}

Test(nvme_event, listening_goes_on_after_a_reset)
{
	struct nvme_io *done[1];

	find_trouble(f.drive, NVME_CAUSE_FATAL, now_ns);
	for (uint32_t i = 0; i < 40; i++) {
		cr_assert_eq(nvme_poll(f.qp, done, 1), 0);
		steps(1);
	}
	cr_assert_eq(nvme_drive_health(f.drive), NVME_HEALTH_GOOD);
	while (nvme_drive_line(f.drive, line, sizeof(line)))
		;
	cr_assert_eq(soft->event_cid_count, NVME_EVENTS_MAX);
	warn(NVME_WARN_SPARE);
	expect_line("spare blocks");
}
