/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive known to ignore FUA: durable all the same when the write is done. */
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct nvme_fixture f;

static void is_qemu(struct nvme_soft_traits *traits)
{
	static const char model[] = "QEMU NVMe Ctrl";

	memcpy(traits->model, model, sizeof(model));
}

static void setup(void)
{
	struct sim_faults faults = { .ignore_fua = true };

	fixture_up_traits(
		&f,
		&(struct sim_drive_options){ .nblocks = 256, .volatile_cache = true, .mdts = 2 },
		is_qemu, 8);
	sim_drive_faults(f.sim, &faults);
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_fua, .init = setup, .fini = teardown, .timeout = 60);

Test(nvme_fua, a_write_with_fua_is_durable_when_it_is_done)
{
	struct nvme_io io = write_of(&f, 7, 3, 42);

	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(sim_drive_unflushed(f.sim), 0);
	cr_assert_eq(sim_drive_counts(f.sim).flush_count, 1);
	cr_assert(holds(sim_drive_durable(f.sim) + 7 * 4096, 3 * 4096, 42));
}

Test(nvme_fua, a_write_of_several_commands_is_flushed_once_after_the_last)
{
	struct nvme_io io = write_of(&f, 0, 14, 43); /* four blocks a command */

	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(sim_drive_unflushed(f.sim), 0);
	cr_assert_eq(sim_drive_counts(f.sim).flush_count, 1);
}

Test(nvme_fua, a_plain_write_is_not_flushed)
{
	struct nvme_io io = write_of(&f, 7, 3, 44);

	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(sim_drive_counts(f.sim).flush_count, 0);
}

Test(nvme_fua, a_write_that_failed_comes_back_without_a_flush)
{
	struct sim_faults faults = { .ignore_fua = true, .fail_nth = 1 };
	struct nvme_io io = write_of(&f, 7, 3, 45);

	sim_drive_faults(f.sim, &faults);
	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), -EIO);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 0);
	cr_assert_eq(sim_drive_counts(f.sim).flush_count, 0);
}

Test(nvme_fua, a_flush_that_fails_fails_the_write)
{
	struct sim_faults faults = { .ignore_fua = true, .fail_nth = 2 };
	struct nvme_io io = write_of(&f, 7, 3, 46);

	sim_drive_faults(f.sim, &faults);
	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), -EIO);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 0);
}

/* A full queue: the flushes take the ids of the writes they follow. */
Test(nvme_fua, a_queue_full_of_such_writes_ends)
{
	struct nvme_io io[7], *done[8];
	uint32_t count = 0;

	for (uint32_t i = 0; i < 7; i++) {
		io[i] = write_of(&f, i * 4, 2, 50 + i);
		io[i].fua = true;
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	}
	nvme_ring(f.qp);
	for (uint32_t turn = 0; count < 7 && turn < 1000; turn++) {
		count += nvme_poll(f.qp, done, 8);
		f.power.now_ns += 1000000;
	}
	cr_assert_eq(count, 7);
	cr_assert_eq(sim_drive_unflushed(f.sim), 0);
	cr_assert_eq(sim_drive_counts(f.sim).flush_count, 7);
}
