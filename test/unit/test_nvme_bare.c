/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bare loop that the driver is compared with: that it really reads, and what it refuses. */
#include "nvme/driver/nvme_bare.h"
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define DRIVE "mem:1M" /* 256 blocks */

static struct nvme_fixture f;

static void up(void)
{
	fixture_up_name(&f, DRIVE, 64);
}

static void down(void)
{
	fixture_down(&f);
}

TestSuite(nvme_bare, .init = up, .fini = down, .timeout = 30);

/* Each block of the drive holds its number's seed. */
static void fill_drive(void)
{
	for (uint64_t block = 0; block < f.info.nblocks; block++) {
		struct nvme_io io = write_of(&f, block, 1, block + 1);

		cr_assert_eq(fixture_run(&f, &io), 0);
	}
	fixture_clear(&f);
}

static bool holds_some_block(const uint8_t *bytes)
{
	for (uint64_t block = 0; block < f.info.nblocks; block++)
		if (holds(bytes, NVME_BLOCK_SIZE, block + 1))
			return true;
	return false;
}

Test(nvme_bare, reads_blocks_into_each_buffer_and_leaves_the_queue_pair_as_it_was)
{
	struct nvme_bare bare;
	uint32_t done = 0;

	fill_drive();
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 8, 1, f.iova, f.info.nblocks), 0);
	while (done < 1000) /* more often than either queue is long */
		done += nvme_bare_turn(&bare);
	cr_assert_eq(nvme_bare_end(&bare), 0);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert(holds_some_block(f.buf + i * NVME_BLOCK_SIZE), "buffer %u", i);
	for (uint32_t i = 0; i < 200; i++) {
		struct nvme_io io = read_of(&f, i, 1);

		cr_assert_eq(fixture_run(&f, &io), 0);
		cr_assert(fixture_holds(&f, 1, i + 1), "block %u, by the driver again", i);
	}
}

Test(nvme_bare, longer_reads_have_a_list_each)
{
	struct nvme_bare bare;
	uint32_t done = 0;

	fill_drive();
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 2, 8, f.iova, f.info.nblocks), 0);
	while (done < 100)
		done += nvme_bare_turn(&bare);
	cr_assert_eq(nvme_bare_end(&bare), 0);
	for (uint32_t i = 0; i < 16; i++)
		cr_assert(holds_some_block(f.buf + i * NVME_BLOCK_SIZE), "page %u", i);
}

Test(nvme_bare, an_error_of_the_drive_is_told_at_the_end)
{
	struct nvme_bare bare;

	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 4, 1, f.iova, 1000 * f.info.nblocks), 0);
	for (uint32_t i = 0; i < 100; i++)
		(void)nvme_bare_turn(&bare);
	cr_assert_eq(nvme_bare_end(&bare), -EIO);
}

Test(nvme_bare, what_is_no_single_command_or_does_not_fit_is_refused)
{
	struct nvme_bare bare;
	uint32_t too_long = f.info.transfer_max_bytes / NVME_BLOCK_SIZE + 1;

	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 0, 1, f.iova, 256), -EINVAL);
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 64, 1, f.iova, 256), -EINVAL);
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 257, 1, f.iova, 256), -EINVAL);
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 1, too_long, f.iova, 256), -EINVAL);
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 1, 2, f.iova, 1), -EINVAL);
	cr_assert_eq(nvme_bare_begin(&bare, f.qp, 63, 1, f.iova, 256), 0);
	cr_assert_eq(nvme_bare_end(&bare), 0);
}
