/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The admin queue: several commands at once, some of which never end. */
#include "test/lib/nvme_fixture.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define EVENTS NVME_SOFT_EVENTS

static struct nvme_fixture f;
static struct nvme_drive *drive;

static void setup(void)
{
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 64 }, 8);
	drive = f.drive;
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_admin, .init = setup, .fini = teardown, .timeout = 60);

/* One that ends only when the controller has something to say. */
static void listen(struct nvme_admin_cmd *cmd, uint64_t deadline_ns)
{
	*cmd = (struct nvme_admin_cmd){ .sqe = { .opcode = NVME_ADMIN_ASYNC_EVENT },
					.deadline_ns = deadline_ns };
	cr_assert_eq(nvme__admin_submit(drive, cmd), 0);
	(void)nvme__admin_poll(drive);
}

static struct nvme_admin_cmd quick(void)
{
	return (struct nvme_admin_cmd){ .sqe = nvme__sqe_set_feature(NVME_FEAT_EVENTS, 0),
					.deadline_ns = UINT64_MAX };
}

Test(nvme_admin, commands_end_while_others_stay_out)
{
	struct nvme_admin_cmd wait[EVENTS], other = quick();

	for (uint32_t i = 0; i < EVENTS; i++)
		listen(&wait[i], UINT64_MAX);
	for (int round = 0; round < 100; round++) { /* the rings wrap, and wrap */
		cr_assert_eq(nvme__admin_submit(drive, &other), 0);
		cr_assert_eq(nvme__admin_poll(drive), 1);
		cr_assert_eq(other.state, NVME_ADMIN_DONE);
		cr_assert_eq(other.err, 0);
	}
	cr_assert_eq(drive->admin.slots_used, EVENTS);
	nvme__soft_event(fixture_soft(&f), NVME_EVENT_HEALTH, 1, NVME_LOG_HEALTH);
	cr_assert_eq(nvme__admin_poll(drive), 1);
	cr_assert_eq(wait[EVENTS - 1].state, NVME_ADMIN_DONE);
	cr_assert_eq(NVME_EVENT_LOG(wait[EVENTS - 1].result), NVME_LOG_HEALTH);
	cr_assert_eq(wait[0].state, NVME_ADMIN_FLYING);
}

Test(nvme_admin, blocking_commands_pass_those_that_wait)
{
	struct nvme_admin_cmd wait[2];
	struct nvme_qpair *qp;

	listen(&wait[0], UINT64_MAX);
	listen(&wait[1], UINT64_MAX);
	cr_assert_eq(nvme_qpair_create(drive, 8, &qp), 0);
	nvme_qpair_destroy(qp);
	cr_assert_eq(wait[0].state, NVME_ADMIN_FLYING);
}

Test(nvme_admin, full_queue_says_so_and_takes_more_when_there_is_room)
{
	struct nvme_admin_cmd cmd[NVME_ADMIN_DEPTH];

	for (uint32_t i = 0; i < NVME_ADMIN_DEPTH - 1; i++) {
		cmd[i] = quick();
		cr_assert_eq(nvme__admin_submit(drive, &cmd[i]), 0);
	}
	cmd[NVME_ADMIN_DEPTH - 1] = quick();
	cr_assert_eq(nvme__admin_submit(drive, &cmd[NVME_ADMIN_DEPTH - 1]), -EAGAIN);
	cr_assert_eq(nvme__admin_poll(drive), NVME_ADMIN_DEPTH - 1);
	for (uint32_t i = 0; i < NVME_ADMIN_DEPTH - 1; i++)
		cr_assert(cmd[i].state == NVME_ADMIN_DONE && cmd[i].err == 0);
	cr_assert_eq(nvme__admin_submit(drive, &cmd[NVME_ADMIN_DEPTH - 1]), 0);
	cr_assert_eq(nvme__admin_poll(drive), 1);
}

Test(nvme_admin, completion_that_comes_twice_fails_the_drive)
{
	struct nvme_soft *soft = fixture_soft(&f);
	struct nvme_admin_cmd cmd = quick(), next = quick();

	cr_assert_eq(nvme__admin_submit(drive, &cmd), 0);
	cr_assert_eq(nvme__admin_poll(drive), 1);
	/* The next command has the same slot; the id of the last one is another all the same. */
	cr_assert_eq(nvme__admin_submit(drive, &next), 0);
	cr_assert_eq(next.slot, cmd.slot);
	soft->admin.owed_count++;
	nvme__soft_post(&soft->admin, le16_get(cmd.sqe.cid), NVME_SC_SUCCESS, 0);
	(void)nvme__admin_poll(drive);
	cr_assert(drive->failed);
	cr_assert_eq(next.state, NVME_ADMIN_FLYING, "it was not taken for the one before");
	cr_assert_eq(nvme__admin_submit(drive, &cmd), -EIO);
	nvme__admin_lose(drive, &next);
}

Test(nvme_admin, lost_command_keeps_slot_and_page_until_it_comes_after_all)
{
	struct nvme_admin_cmd cmd;
	uint32_t taken = drive->admin.pages_taken;

	memset(&cmd, 0, sizeof(cmd));
	cr_assert_eq(nvme__admin_page_take(drive, &cmd), 0);
	cmd.sqe.opcode = NVME_ADMIN_ASYNC_EVENT;
	cmd.deadline_ns = 100;
	cr_assert_eq(nvme__admin_submit(drive, &cmd), 0);
	(void)nvme__admin_poll(drive);
	nvme__admin_lose(drive, &cmd);
	cr_assert_eq(cmd.state, NVME_ADMIN_LOST);
	cr_assert_eq(cmd.err, -ETIMEDOUT);
	cr_assert_neq(drive->admin.pages_taken, taken, "the controller may still write there");
	cr_assert_eq(drive->admin.slots_used, 1);
	nvme__admin_page_give(drive, &cmd);
	cr_assert_neq(drive->admin.pages_taken, taken, "it was not ours to give");
	memset(&cmd, 0xee, sizeof(cmd)); /* nobody looks at it any more */
	nvme__soft_event(fixture_soft(&f), NVME_EVENT_HEALTH, 0, 0);
	cr_assert_eq(nvme__admin_poll(drive), 1);
	cr_assert_eq(drive->admin.pages_taken, taken);
	cr_assert_eq(drive->admin.slots_used, 0);
	cr_assert_not(drive->failed);
}

Test(nvme_admin, pages_end_and_come_back_as_zeroes)
{
	struct nvme_admin_cmd cmd[NVME_ADMIN_PAGES];
	uint32_t count = 0;

	memset(cmd, 0, sizeof(cmd));
	while (nvme__admin_page_take(drive, &cmd[count]) == 0) {
		memset(nvme__admin_page(drive, cmd[count].page), 0xee, NVME_PAGE_SIZE);
		count++;
	}
	cr_assert_eq(count, NVME_ADMIN_PAGES - 3, "three are taken for good");
	nvme__admin_page_give(drive, &cmd[2]);
	cr_assert_eq(nvme__admin_page_take(drive, &cmd[count]), 0);
	cr_assert_eq(cmd[count].page, 5);
	cr_assert_eq(*(uint64_t *)nvme__admin_page(drive, 5), 0);
}

Test(nvme_admin, restart_ends_all_and_begins_anew)
{
	struct nvme_admin_cmd cmd[3], after = quick();

	listen(&cmd[0], UINT64_MAX);
	listen(&cmd[1], 50);
	listen(&cmd[2], UINT64_MAX);
	nvme__admin_lose(drive, &cmd[1]);
	drive->ops->write32(drive->ctrl, NVME_REG_CC, NVME_CC_ENTRIES);
	nvme__admin_restart(drive);
	cr_assert_eq(cmd[0].state, NVME_ADMIN_DONE);
	cr_assert_eq(cmd[0].err, -ECANCELED);
	cr_assert_eq(cmd[1].state, NVME_ADMIN_LOST, "that was over before");
	cr_assert_eq(cmd[2].err, -ECANCELED);
	cr_assert_eq(drive->admin.slots_used, 0);
	drive->ops->write32(drive->ctrl, NVME_REG_CC, NVME_CC_ENTRIES | NVME_CC_EN);
	cr_assert_eq(nvme__admin_submit(drive, &after), 0);
	cr_assert_eq(nvme__admin_poll(drive), 1);
}

Test(nvme_admin, who_is_longest_over_its_time_is_named_first)
{
	struct nvme_admin_cmd cmd[3];

	cr_assert_eq(nvme__admin_deadline_ns(drive), UINT64_MAX);
	listen(&cmd[0], 300);
	listen(&cmd[1], 200);
	listen(&cmd[2], UINT64_MAX);
	cr_assert_eq(nvme__admin_deadline_ns(drive), 200);
	cr_assert_null(nvme__admin_overdue(drive, 199));
	cr_assert_eq(nvme__admin_overdue(drive, 1000), &cmd[1]);
	nvme__admin_lose(drive, &cmd[1]);
	cr_assert_eq(nvme__admin_overdue(drive, 1000), &cmd[0]);
	nvme__admin_lose(drive, &cmd[0]);
	cr_assert_null(nvme__admin_overdue(drive, 1000));
	nvme__admin_lose(drive, &cmd[2]);
}
