/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A controller that says a read is done and has moved nothing (QEMU's, when its DMA faults): the
 * right bytes of an earlier read must not pass for the result.
 */
#include "nvme/nvme_dma.h"
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 11 }; /* at four blocks a command */

static struct nvme_fixture f;
static uint8_t behind; /* each byte of the block behind the ones read */

static void up(const char *poison)
{
	cr_assert_eq(setenv("WEKA_POISON_READS", poison, 1), 0);
	fixture_up(&f,
		   &(struct sim_drive_options){ .nblocks = 256, .volatile_cache = true, .mdts = 2 },
		   16);
}

static void down(void)
{
	fixture_down(&f);
}

TestSuite(nvme_poison, .fini = down, .timeout = 60);

/* BLOCKS from `block` on are written, and read into the buffer; then again, by a drive that lies.
 */
static int read_twice(uint64_t block)
{
	struct nvme_io io = write_of(&f, block, BLOCKS, 42);

	cr_assert_eq(fixture_run(&f, &io), 0);
	fixture_clear(&f);
	behind = f.buf[BLOCKS * 4096];
	io = read_of(&f, block, BLOCKS);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(fixture_holds(&f, BLOCKS, 42));
	sim_drive_faults(f.sim, &(struct sim_faults){ .skip_read_ppm = 1000000 });
	io = read_of(&f, block, BLOCKS);
	return fixture_run(&f, &io);
}

Test(nvme_poison, what_the_drive_did_not_write_is_not_what_was_read)
{
	up("1");
	cr_assert_eq(read_twice(3), 0);
	for (uint32_t i = 0; i < (BLOCKS + 1) * 4096; i++)
		cr_assert_eq(f.buf[i], i < BLOCKS * 4096 ? 0xdb : behind, "byte %u", i);
}

/* What the switch is for: so it looks without. */
Test(nvme_poison, without_it_the_old_bytes_pass)
{
	up("0");
	cr_assert_eq(read_twice(3), 0);
	cr_assert(fixture_holds(&f, BLOCKS, 42));
}

Test(nvme_poison, writes_are_left_alone)
{
	struct nvme_io io;

	up("1");
	io = write_of(&f, 9, BLOCKS, 43);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(holds(sim_drive_visible(f.sim) + 9 * 4096, BLOCKS * 4096, 43));
}

Test(nvme_poison, a_read_that_is_not_taken_leaves_its_buffer_alone)
{
	struct nvme_io io[16], *done[16];
	uint32_t count = 0;

	up("1");
	fixture_clear(&f);
	behind = f.buf[8 * 4096];
	for (uint32_t i = 0; i < 15; i++) {
		io[i] = read_of(&f, i, 1);
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	}
	io[15] = read_of(&f, 15, 1);
	io[15].iova += 8 * 4096;
	cr_assert_eq(nvme_submit(f.qp, &io[15]), -EAGAIN);
	cr_assert_eq(f.buf[8 * 4096], behind);
	nvme_ring(f.qp);
	while (count < 15)
		count += nvme_poll(f.qp, done, 16);
}

Test(nvme_poison, a_buffer_across_windows_of_the_table_is_poisoned_to_its_end)
{
	uint64_t size = NVME_WINDOW_BYTES + 4 * 4096, iova;
	uint8_t *memory = aligned_alloc(4096, size);
	struct nvme_io io;

	up("1");
	memset(memory, 7, size);
	cr_assert_eq(nvme_dma_map(f.dma, memory, size, &iova), 0);
	sim_drive_faults(f.sim, &(struct sim_faults){ .skip_read_ppm = 1000000 });
	io = (struct nvme_io){ .op = NVME_READ,
			       .nblocks = 4,
			       .iova = iova + NVME_WINDOW_BYTES - 2 * 4096 };
	cr_assert_eq(fixture_run(&f, &io), 0);
	for (uint64_t i = size - 6 * 4096; i < size; i++)
		cr_assert_eq(memory[i], i < size - 2 * 4096 ? 0xdb : 7);
	nvme_dma_unmap(f.dma, iova, size);
	free(memory);
}
