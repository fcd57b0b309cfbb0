/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The queue pair over a simulated drive: what a full ring does, what a wrap does, what
 * splitting does, what a lying controller does.  Each test name is a sentence about the code.
 */
#include "test/lib/nvme_fixture.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <errno.h>

static struct nvme_fixture f;

static void setup(void)
{
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256, .mdts = 2 }, 8);
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_qpair, .init = setup, .fini = teardown, .timeout = 30);

Test(nvme_qpair, full_ring_refuses_one_more_and_takes_it_after_a_poll)
{
	struct nvme_io io[8], *done[8];

	for (uint32_t i = 0; i < 7; i++) {
		io[i] = read_of(&f, i, 1);
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	}
	io[7] = read_of(&f, 7, 1);
	cr_assert_eq(nvme_submit(f.qp, &io[7]), -EAGAIN);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 7);

	nvme_ring(f.qp);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 7);
	cr_assert_eq(done[0], &io[0]);
	cr_assert_eq(io[6].status, 0);
	cr_assert_eq(nvme_submit(f.qp, &io[7]), 0);
	cr_assert_eq(fixture_finish(&f, &io[7]), 0);
}

Test(nvme_qpair, batch_costs_one_doorbell_and_nothing_runs_before_it)
{
	struct nvme_io io[3], *done[8];
	struct nvme_stats stats;

	for (uint32_t i = 0; i < 3; i++) {
		io[i] = read_of(&f, i, 1);
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	}
	cr_assert_eq(nvme_poll(f.qp, done, 8), 0, "not rung yet: the device sees nothing");
	cr_assert_eq(sim_drive_counts(f.sim).read_count, 0);
	nvme_ring(f.qp);
	nvme_ring(f.qp);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 3);
	nvme_qpair_stats(f.qp, &stats);
	cr_assert_eq(stats.ring_count, 1);
	cr_assert_eq(stats.command_count, 3);
}

Test(nvme_qpair, keeps_phase_over_many_wraps)
{
	for (uint64_t block = 0; block < 100; block++) {
		struct nvme_io io = read_of(&f, block, 1);

		cr_assert_eq(fixture_run(&f, &io), 0);
	}
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 0);
}

Test(nvme_qpair, poll_returns_no_more_than_it_was_asked_for_and_the_rest_later)
{
	struct nvme_io io[5], *done[5];

	for (uint32_t i = 0; i < 5; i++) {
		io[i] = read_of(&f, i, 1);
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	}
	nvme_ring(f.qp);
	cr_assert_eq(nvme_poll(f.qp, done, 2), 2);
	cr_assert_eq(nvme_poll(f.qp, done, 2), 2);
	cr_assert_eq(nvme_poll(f.qp, done, 2), 1);
	cr_assert_eq(done[0], &io[4]);
	cr_assert_eq(nvme_poll(f.qp, done, 2), 0);
}

Test(nvme_qpair, what_was_written_is_read_back_over_every_length)
{
	for (uint32_t nblocks = 1; nblocks <= f.qp->io_blocks_max; nblocks++) {
		struct nvme_io io = write_of(&f, 3 * nblocks, nblocks, nblocks);

		cr_assert_eq(fixture_run(&f, &io), 0);
		fixture_clear(&f);
		io = read_of(&f, 3 * nblocks, nblocks);
		cr_assert_eq(fixture_run(&f, &io), 0);
		cr_assert(fixture_holds(&f, nblocks, nblocks), "%u blocks", nblocks);
	}
	cr_assert_eq(nvme_dma_fault_count(f.dma), 0);
}

Test(nvme_qpair, long_io_is_split_at_the_drives_limit_and_comes_back_once)
{
	struct nvme_io io = read_of(&f, 0, 10), *done[8]; /* 4 + 4 + 2 blocks */
	struct nvme_stats stats;

	cr_assert_eq(f.info.transfer_max_bytes, 4 * NVME_BLOCK_SIZE);
	cr_assert_eq(nvme_submit(f.qp, &io), 0);
	nvme_ring(f.qp);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 1);
	cr_assert_eq(done[0], &io);
	cr_assert_eq(sim_drive_counts(f.sim).read_count, 3);
	nvme_qpair_stats(f.qp, &stats);
	cr_assert_eq(stats.command_count, 3);
}

Test(nvme_qpair, moved_io_comes_back_as_its_copy)
{
	struct nvme_io io = read_of(&f, 0, 10), other = read_of(&f, 20, 1), copy, *done[8];

	cr_assert_eq(nvme_submit(f.qp, &io), 0); /* three commands */
	cr_assert_eq(nvme_submit(f.qp, &other), 0);
	copy = io;
	cr_assert(nvme_move(f.qp, &io, &copy));
	io.commands_left = 1000; /* nobody looks at it any more */
	cr_assert_not(nvme_move(f.qp, &io, &copy));
	nvme_ring(f.qp);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 2);
	cr_assert(done[0] == &copy && done[1] == &other);
	cr_assert(copy.status == 0 && copy.commands_left == 0 && io.commands_left == 1000);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 0);
	cr_assert_not(nvme_move(f.qp, &copy, &io), "it is back");
}

Test(nvme_qpair, split_io_that_does_not_fit_leaves_nothing_behind)
{
	struct nvme_io small = read_of(&f, 0, 1), big = read_of(&f, 0, 28);

	cr_assert_eq(nvme_qpair_io_blocks_max(f.qp), 28);
	cr_assert_eq(nvme_submit(f.qp, &small), 0);
	cr_assert_eq(nvme_submit(f.qp, &big), -EAGAIN);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 1);
	cr_assert_eq(fixture_finish(&f, &small), 0);
	cr_assert_eq(fixture_run(&f, &big), 0);
}

Test(nvme_qpair, one_failed_part_fails_the_whole_io_with_the_first_error)
{
	struct nvme_io io = read_of(&f, 0, 12);

	sim_drive_faults(
		f.sim, &(struct sim_faults){ .fail_nth = 2, .fail_status = NVME_SC_ACCESS_DENIED });
	cr_assert_eq(fixture_run(&f, &io), -EACCES);
	cr_assert_eq(io.commands_left, 0);
	io = read_of(&f, 0, 12);
	cr_assert_eq(fixture_run(&f, &io), 0);
	/* Later parts fail too, with another error. */
	sim_drive_faults(f.sim, &(struct sim_faults){ .fail_nth = 1,
						      .fail_status = NVME_SC_ACCESS_DENIED,
						      .read_error_ppm = 1000000 });
	io = read_of(&f, 0, 12);
	cr_assert_eq(fixture_run(&f, &io), -EACCES);
}

Test(nvme_qpair, parts_that_end_out_of_order_are_one_io)
{
	struct nvme_io io = read_of(&f, 0, 28), *done[8];

	sim_drive_faults(f.sim, &(struct sim_faults){ .delay_max_ns = 1000 });
	cr_assert_eq(nvme_submit(f.qp, &io), 0);
	nvme_ring(f.qp);
	while (nvme_poll(f.qp, done, 8) == 0) {
		cr_assert_neq(sim_power_next_ns(&f.power), UINT64_MAX);
		f.power.now_ns = sim_power_next_ns(&f.power);
	}
	cr_assert_eq(done[0], &io);
	cr_assert_eq(sim_power_next_ns(&f.power), UINT64_MAX, "all parts have ended");
}

Test(nvme_qpair, device_errors_become_errnos)
{
	struct nvme_io read = read_of(&f, 0, 1), write = write_of(&f, 0, 1, 1);

	sim_drive_faults(f.sim, &(struct sim_faults){ .read_error_ppm = 1000000,
						      .write_error_ppm = 1000000 });
	cr_assert_eq(fixture_run(&f, &read), -ENODATA);
	cr_assert_eq(fixture_run(&f, &write), -EIO);
}

Test(nvme_qpair, blocks_beyond_the_end_are_an_error_of_the_drive)
{
	struct nvme_io io = read_of(&f, 253, 4);

	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
	io = read_of(&f, UINT64_MAX >> 12, 1);
	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
}

Test(nvme_qpair, unmapped_memory_is_an_error_and_is_counted)
{
	struct nvme_io io = read_of(&f, 0, 1);

	io.iova = 1ull << 38;
	cr_assert_eq(fixture_run(&f, &io), -EFAULT);
	io = read_of(&f, 0, 3);
	io.iova = f.iova + f.buf_bytes - 2 * NVME_BLOCK_SIZE; /* the third block is outside */
	cr_assert_eq(fixture_run(&f, &io), -EFAULT);
	io = read_of(&f, 0, 1);
	io.iova = (uint64_t)(uintptr_t)f.buf; /* an address is no IOVA */
	cr_assert_eq(fixture_run(&f, &io), -EFAULT);
	cr_assert_eq(nvme_dma_fault_count(f.dma), 3);
}

Test(nvme_qpair, unknown_completion_fails_the_queue_and_stop_gives_its_ios_back)
{
	struct nvme_io io[2] = { read_of(&f, 0, 1), read_of(&f, 1, 1) }, *done[8];

	for (int i = 0; i < 2; i++)
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	sim_nvme_lie(f.qp, 7);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 0);
	cr_assert_eq(nvme_submit(f.qp, &io[0]), -EIO);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 0, "the controller may still write to them");
	nvme_qpair_stop(f.qp);
	cr_assert_eq(nvme_poll(f.qp, done, 1), 1);
	cr_assert_eq(nvme_poll(f.qp, done + 1, 7), 1);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 0, "once each");
	cr_assert_eq(io[0].status, -ECANCELED);
	cr_assert_eq(io[1].status, -ECANCELED);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 0);
}

Test(nvme_qpair, completion_of_an_id_out_of_range_fails_the_queue)
{
	struct nvme_io io = read_of(&f, 0, 1), *done[8];

	sim_nvme_lie(f.qp, 0xffff);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 0);
	cr_assert_eq(nvme_submit(f.qp, &io), -EIO);
}

Test(nvme_qpair, drive_lives_on_after_a_queue_pair_failed)
{
	struct nvme_io io = read_of(&f, 0, 1), *done[8];

	sim_nvme_lie(f.qp, 3);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 0);
	nvme_qpair_destroy(f.qp);
	cr_assert_eq(nvme_qpair_create(f.drive, 8, &f.qp), 0);
	cr_assert_eq(fixture_run(&f, &io), 0);
}

/* A drive of the child's own: queues are memory that no child inherits. */
static void destroys_with_an_io_in_flight(void)
{
	struct nvme_fixture own;
	struct nvme_io io;

	fixture_up_name(&own, "mem:1M", 8);
	io = read_of(&own, 0, 1);
	cr_assert_eq(nvme_submit(own.qp, &io), 0);
	nvme_qpair_destroy(own.qp);
}

Test(nvme_qpair, io_in_flight_at_its_destruction_is_a_bug)
{
	cr_assert(dies_saying(destroys_with_an_io_in_flight, "io_count == 0"), "%s", death_said());
}

static void submits_an_odd_buffer(void)
{
	struct nvme_io io = read_of(&f, 0, 1);

	io.iova += 2;
	(void)!nvme_submit(f.qp, &io);
}

Test(nvme_qpair, misaligned_buffer_is_a_bug)
{
	cr_assert(dies_saying(submits_an_odd_buffer, "buffer_mask"), "%s", death_said());
}

Test(nvme_qpair, two_queue_pairs_do_not_see_each_others_completions)
{
	struct nvme_io a = read_of(&f, 0, 1), b = read_of(&f, 1, 1), *done[8];
	struct nvme_qpair *other;

	cr_assert_eq(nvme_qpair_create(f.drive, 4, &other), 0);
	cr_assert_eq(nvme_submit(f.qp, &a), 0);
	cr_assert_eq(nvme_submit(other, &b), 0);
	nvme_ring(f.qp);
	nvme_ring(other);
	cr_assert_eq(nvme_poll(other, done, 8), 1);
	cr_assert_eq(done[0], &b);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 1);
	cr_assert_eq(done[0], &a);
	nvme_qpair_destroy(other);
}

Test(nvme_qpair, memory_drive_never_lets_one_sleep_on_what_it_owes)
{
	struct nvme_io io = read_of(&f, 0, 1);

	cr_assert(nvme_qpair_arm(f.qp), "nothing is in flight");
	nvme_qpair_disarm(f.qp);
	cr_assert_eq(nvme_submit(f.qp, &io), 0);
	cr_assert_not(nvme_qpair_arm(f.qp), "not rung");
	nvme_ring(f.qp);
	cr_assert_not(nvme_qpair_arm(f.qp), "not served");
	cr_assert_geq(nvme_qpair_fd(f.qp), 0, "orders of the drive's owner come through it");
	cr_assert_eq(fixture_finish(&f, &io), 0);
}
