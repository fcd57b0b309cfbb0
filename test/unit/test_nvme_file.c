/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * file: and mem: drives: what they keep, what they promise the kernel, how they refuse, and
 * how they let one sleep.
 */
#define _GNU_SOURCE /* setresuid */
#include "test/lib/nvme_fixture.h"

#include "nvme/soft/nvme_soft_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct nvme_fixture f;
static char dir[64], path[80], name[128], err_text[NVME_ERR_TEXT];

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/var/tmp/test_nvme_file.%d", (int)getpid());
	cr_assert_eq(mkdir(dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/d0", dir);
	snprintf(name, sizeof(name), "file:%s?size=16M", path);
}

static void teardown(void)
{
	unlink(path);
	rmdir(dir);
}

TestSuite(nvme_file, .init = setup, .fini = teardown, .timeout = 60);

static int open_it(const char *drive_name, bool create)
{
	struct nvme_options options = { .create = create };
	struct nvme_drive *drive;
	struct nvme_dma *dma;
	int err;

	cr_assert_eq(nvme_dma_create(&dma), 0);
	err_text[0] = 0;
	err = nvme_open(&drive, drive_name, dma, &options, err_text, sizeof(err_text));
	if (!err)
		nvme_close(drive);
	nvme_dma_destroy(dma);
	return err;
}

static void write_read_every_length(void)
{
	for (uint32_t nblocks = 1; nblocks <= 300; nblocks += nblocks < 40 ? 1 : 37) {
		struct nvme_io io = write_of(&f, 2 * nblocks, nblocks, nblocks);

		io.fua = nblocks % 3 == 0;
		cr_assert_eq(fixture_run(&f, &io), 0);
		fixture_clear(&f);
		io = read_of(&f, 2 * nblocks, nblocks);
		cr_assert_eq(fixture_run(&f, &io), 0);
		cr_assert(fixture_holds(&f, nblocks, nblocks), "%u blocks", nblocks);
	}
	cr_assert_eq(nvme_dma_fault_count(f.dma), 0);
}

/* Zeroes 1 and 38 blocks, and looks at them and their neighbours.  Returns what the drive answers
 * to more blocks than it zeroes at once. */
static int write_zeroes(void)
{
	struct nvme_io io = write_of(&f, 10, 40, 3);

	cr_assert_eq(fixture_run(&f, &io), 0);
	for (uint32_t nblocks = 1; nblocks <= 38; nblocks += 37) {
		io = (struct nvme_io){
			.op = NVME_ZERO, .block = 11, .nblocks = nblocks, .fua = nblocks == 1
		};
		cr_assert_eq(fixture_run(&f, &io), 0);
		io = read_of(&f, 10, 40);
		cr_assert_eq(fixture_run(&f, &io), 0);
		cr_assert(fixture_holds(&f, 1, 3), "the block before");
		for (uint32_t i = 4096; i < (1 + nblocks) * 4096; i++)
			cr_assert_eq(f.buf[i], 0);
		cr_assert_neq(f.buf[(1 + nblocks) * 4096], 0, "the block behind");
	}
	io = (struct nvme_io){ .op = NVME_ZERO, .nblocks = min_u32(f.info.zero_max_blocks, 4096) };
	cr_assert_gt(io.nblocks, 100);
	cr_assert_eq(fixture_run(&f, &io), 0);
	io.nblocks = f.info.zero_max_blocks + 1;
	return nvme_submit(f.qp, &io);
}

Test(nvme_file, zeroes_are_written_without_a_buffer)
{
	fixture_up_name(&f, name, 32);
	cr_assert_eq(write_zeroes(), -EINVAL);
	fixture_down(&f);
	fixture_up_name(&f, "mem:16M", 32);
	cr_assert_eq(write_zeroes(), -EINVAL);
	fixture_down(&f);
}

/* 0: it is done. */
static int deallocate(uint64_t block, uint32_t nblocks)
{
	struct nvme_io io = { .op = NVME_DEALLOCATE, .block = block, .nblocks = nblocks };

	return fixture_run(&f, &io);
}

static uint64_t file_blocks(void)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return (uint64_t)st.st_blocks;
}

Test(nvme_file, what_is_deallocated_is_a_hole_and_reads_as_zeros_and_the_rest_stays)
{
	struct nvme_io io;
	uint64_t before;

	fixture_up_name(&f, name, 32);
	cr_assert(f.info.thin, "others may have the space before it is written again");
	cr_assert_eq(f.info.deallocate_max_blocks, NVME_RANGE_BLOCKS_MAX);
	for (uint32_t i = 0; i < 4; i++) {
		io = write_of(&f, (uint64_t)i * 16, 16, 7);
		cr_assert_eq(fixture_run(&f, &io), 0);
	}
	io = (struct nvme_io){ .op = NVME_FLUSH };
	cr_assert_eq(fixture_run(&f, &io), 0);
	before = file_blocks();
	cr_assert_eq(deallocate(16, 32), 0);
	/* Where the file lies in pieces, one more may take a block for the list of them. */
	cr_assert_geq(file_blocks(), before - 32 * 8, "32 blocks of 4096");
	cr_assert_leq(file_blocks(), before - 30 * 8);
	cr_assert_eq(deallocate(4095, 2), -ERANGE);
	io = read_of(&f, 24, 16);
	cr_assert_eq(fixture_run(&f, &io), 0);
	for (uint32_t i = 0; i < 16 * 4096; i++)
		cr_assert_eq(f.buf[i], 0, "%u", i);
	for (uint32_t i = 0; i < 4; i += 3) {
		io = read_of(&f, (uint64_t)i * 16, 16);
		cr_assert_eq(fixture_run(&f, &io), 0);
		cr_assert(fixture_holds(&f, 16, 7), "%u", i);
	}
	io = write_of(&f, 20, 1, 9);
	cr_assert_eq(fixture_run(&f, &io), 0);
	fixture_down(&f);
}

Test(nvme_file, memory_is_prefaulted_and_locked_and_is_not_given_back)
{
	struct nvme_io io = { .op = NVME_DEALLOCATE, .block = 0, .nblocks = 1 };

	fixture_up_name(&f, "mem:16M", 32);
	cr_assert_eq(f.info.deallocate_max_blocks, 0);
	cr_assert_eq(nvme_submit(f.qp, &io), -EOPNOTSUPP);
	fixture_down(&f);
}

Test(nvme_file, what_was_written_is_read_back_over_many_lengths)
{
	fixture_up_name(&f, name, 64);
	cr_assert_eq(f.info.nblocks, 4096);
	cr_assert(f.info.volatile_cache, "a file's writes are in a cache until they are synced");
	cr_assert_eq(f.info.atomic_bytes, 512);
	write_read_every_length();
	fixture_down(&f);
}

Test(nvme_file, memory_drive_reads_back_too_and_has_no_volatile_cache)
{
	struct nvme_stats stats;

	fixture_up_name(&f, "mem:16M", 64);
	cr_assert_eq(f.info.nblocks, 4096);
	cr_assert_not(f.info.volatile_cache);
	write_read_every_length();
	nvme_qpair_stats(f.qp, &stats);
	cr_assert_gt(stats.soft_copied_bytes, 0);
	cr_assert_eq(stats.syscall_count, 0);
	fixture_down(&f);
}

Test(nvme_file, memory_drive_reads_back_into_memory_that_is_near)
{
	struct nvme_stats far, near;

	fixture_up_name(&f, "mem:16M?copy=past", 64);
	write_read_every_length();
	nvme_qpair_stats(f.qp, &far);
	cr_assert_eq(far.soft_through_bytes, 0);
	nvme_dma_near(f.dma, f.iova, f.buf_bytes);
	write_read_every_length();
	nvme_qpair_stats(f.qp, &near);
	cr_assert_eq(near.soft_through_bytes * 2, near.soft_copied_bytes - far.soft_copied_bytes,
		     "what was read, and not what was written");
	nvme_dma_unmap(f.dma, f.iova, f.buf_bytes);
	cr_assert_not(nvme__dma_is_near(f.dma, (uint32_t)(f.iova >> NVME_WINDOW_SHIFT)));
	cr_assert_eq(nvme_dma_map(f.dma, f.buf, f.buf_bytes, &f.iova), 0);
	fixture_down(&f);
}

Test(nvme_file, memory_drive_reads_back_through_the_caches)
{
	struct nvme_stats stats;

	fixture_up_name(&f, "mem:16M?copy=through", 64);
	write_read_every_length();
	nvme_qpair_stats(f.qp, &stats);
	cr_assert_eq(stats.soft_through_bytes * 2, stats.soft_copied_bytes);
	fixture_down(&f);
}

Test(nvme_file, memory_that_the_machine_does_not_have_is_refused_not_taken)
{
	cr_assert_eq(open_it("mem:1000T", false), -ENOMEM);
	cr_assert_not_null(strstr(err_text, "mem:1000T: only "), "%s", err_text);
}

Test(nvme_file, bytes_outlive_the_drive_that_wrote_them)
{
	struct nvme_io io;

	fixture_up_name(&f, name, 8);
	io = write_of(&f, 7, 3, 42);
	cr_assert_eq(fixture_run(&f, &io), 0);
	fixture_down(&f);
	snprintf(name, sizeof(name), "file:%s", path);
	fixture_up_name(&f, name, 8);
	io = read_of(&f, 7, 3);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(fixture_holds(&f, 3, 42));
	fixture_down(&f);
}

Test(nvme_file, many_in_flight_all_come_back_once_with_their_own_bytes)
{
	enum { COUNT = 200 };
	static struct nvme_io io[COUNT], *done[16];
	uint32_t next = 0, back = 0;

	fixture_up_name(&f, name, 64);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct nvme_io w = write_of(&f, i, 1, i);

		cr_assert_eq(fixture_run(&f, &w), 0);
	}
	while (back < COUNT) {
		uint32_t count;

		for (; next < COUNT; next++) {
			io[next] = read_of(&f, next, 1);
			io[next].iova += (uint64_t)next * NVME_BLOCK_SIZE;
			if (nvme_submit(f.qp, &io[next]))
				break;
		}
		nvme_ring(f.qp);
		count = nvme_poll(f.qp, done, ARRAY_LEN(done));
		for (uint32_t i = 0; i < count; i++) {
			cr_assert_eq(done[i]->status, 0);
			done[i]->status = 1; /* a second return would be seen */
		}
		back += count;
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(io[i].status, 1);
		cr_assert(holds(f.buf + i * NVME_BLOCK_SIZE, NVME_BLOCK_SIZE, i));
	}
	fixture_down(&f);
}

/* The SQE that the ring was given last. */
static const struct io_uring_sqe *last_sqe(void)
{
	struct nvme_soft_queue *q = ((struct nvme_soft *)f.drive->ctrl)->queue[f.qp->qid];
	struct nvme_uring *ring = q->back_queue;

	return &ring->ring.sq.sqes[(ring->ring.sq.sqe_tail - 1) & *ring->ring.sq.kring_mask];
}

Test(nvme_file, flush_is_fdatasync_and_fua_is_dsync_and_a_plain_write_is_neither)
{
	struct nvme_io io;

	fixture_up_name(&f, name, 8);
	io = write_of(&f, 0, 1, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(last_sqe()->rw_flags, 0);
	io = write_of(&f, 0, 1, 1);
	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(last_sqe()->rw_flags, RWF_DSYNC);
	io = read_of(&f, 0, 1);
	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(last_sqe()->rw_flags, 0);
	io = flush_of();
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(last_sqe()->opcode, IORING_OP_FSYNC);
	cr_assert_eq(last_sqe()->fsync_flags, IORING_FSYNC_DATASYNC);
	fixture_down(&f);
}

Test(nvme_file, after_a_failed_sync_no_write_and_no_flush_succeeds_again)
{
	struct nvme_soft_back *back;
	struct nvme_io io;

	fixture_up_name(&f, name, 8);
	back = ((struct nvme_soft *)f.drive->ctrl)->back;
	atomic_store_explicit(&container_of(back, struct nvme_file_back, back)->sync_failed, true,
			      memory_order_relaxed);
	io = write_of(&f, 0, 1, 1);
	cr_assert_eq(fixture_run(&f, &io), -EIO);
	io = flush_of();
	cr_assert_eq(fixture_run(&f, &io), -EIO);
	io = read_of(&f, 0, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	fixture_down(&f);
}

Test(nvme_file, file_cut_short_under_us_is_a_read_error)
{
	struct nvme_io io;

	fixture_up_name(&f, name, 8);
	cr_assert_eq(truncate(path, 1 << 20), 0);
	io = read_of(&f, 1000, 2);
	cr_assert_eq(fixture_run(&f, &io), -ENODATA);
	io = read_of(&f, 255, 2); /* half of it is there */
	cr_assert_eq(fixture_run(&f, &io), -ENODATA);
	fixture_down(&f);
}

Test(nvme_file, idle_drive_makes_no_system_calls)
{
	struct nvme_io io, *done[1];
	struct nvme_stats before, after;

	fixture_up_name(&f, name, 8);
	io = read_of(&f, 0, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	nvme_qpair_stats(f.qp, &before);
	cr_assert_gt(before.syscall_count, 0);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(nvme_poll(f.qp, done, 1), 0);
	nvme_qpair_stats(f.qp, &after);
	cr_assert_eq(after.syscall_count, before.syscall_count);
	fixture_down(&f);
}

Test(nvme_file, sleeper_is_woken_by_a_completion)
{
	struct nvme_io io, *done[1];
	struct pollfd pfd = { .events = POLLIN };

	fixture_up_name(&f, name, 8);
	pfd.fd = nvme_qpair_fd(f.qp);
	cr_assert_geq(pfd.fd, 0);
	for (int i = 0; i < 100; i++) {
		io = i % 2 ? flush_of() : read_of(&f, (uint64_t)i, 4);
		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		nvme_ring(f.qp);
		while (nvme_poll(f.qp, done, 1) == 0) {
			if (nvme_qpair_arm(f.qp))
				cr_assert(poll(&pfd, 1, 60000) != 0, "slept for ever");
			nvme_qpair_disarm(f.qp);
		}
		cr_assert_eq(io.status, 0);
	}
	cr_assert(nvme_qpair_arm(f.qp));
	cr_assert_eq(poll(&pfd, 1, 0), 0, "nothing in flight, nothing to wake for");
	nvme_qpair_disarm(f.qp);
	fixture_down(&f);
}

/* ---- pinned memory ---------------------------------------------------------------------- */

static struct nvme_uring *ring_of(void)
{
	return ((struct nvme_soft *)f.drive->ctrl)->queue[f.qp->qid]->back_queue;
}

Test(nvme_file, memory_mapped_anew_at_the_same_place_is_pinned_anew)
{
	uint32_t window, turn;
	struct nvme_io io;

	fixture_up_name(&f, name, 8);
	if (!ring_of()->file->direct)
		cr_skip("no O_DIRECT here");
	window = (uint32_t)(f.iova >> NVME_WINDOW_SHIFT);
	io = write_of(&f, 0, 2, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	turn = ring_of()->pinned[window];
	cr_assert_neq(turn, 0);
	cr_assert_eq(last_sqe()->opcode, IORING_OP_WRITE_FIXED);

	/* The same window, the same address, other pages. */
	nvme_dma_unmap(f.dma, f.iova, f.buf_bytes);
	fixture_move_buf(&f);
	f.dma->next_window = window;
	cr_assert_eq(nvme_dma_map(f.dma, f.buf, f.buf_bytes, &f.iova), 0);
	cr_assert_eq(f.iova >> NVME_WINDOW_SHIFT, window);
	io = read_of(&f, 0, 2);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(fixture_holds(&f, 2, 1), "read into the pages that are there now");
	cr_assert_neq(ring_of()->pinned[window], turn);

	/* Unmapped, and let go at the next turn. */
	nvme_dma_unmap(f.dma, f.iova, f.buf_bytes);
	io = flush_of();
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(ring_of()->pinned[window], 0);
	cr_assert_eq(nvme_dma_map(f.dma, f.buf, f.buf_bytes, &f.iova), 0);
	fixture_down(&f);
}

Test(nvme_file, without_leave_to_pin_it_works_and_says_so)
{
	struct rlimit little = { 1 << 20, 1 << 20 }; /* a ring fits, the buffer does not */
	const uid_t alone = 20000 + (uid_t)getpid() % 40000;
	struct nvme_info info;
	struct nvme_io io;

	fixture_up_name(&f, name, 8);
	if (!ring_of()->file->direct)
		cr_skip("no O_DIRECT here");
	nvme_qpair_destroy(f.qp);
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &little), 0);
	/* Root may pin all the same.  And the limit is for all that a user has pinned, in whatever
	 * process: so this one has a user of its own. */
	if (geteuid() == 0)
		cr_assert_eq(setresuid(alone, alone, 0), 0);
	cr_assert_eq(nvme_qpair_create(f.drive, 8, &f.qp), 0);
	io = write_of(&f, 0, 2, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	io = read_of(&f, 0, 2);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(fixture_holds(&f, 2, 1));
	nvme_drive_info(f.drive, &info);
	cr_assert_not_null(strstr(info.note, "memlock"), "%s", info.note);
	if (getuid() == alone)
		cr_assert_eq(setresuid(0, 0, 0), 0);
	fixture_down(&f);
}

/* ---- refusals --------------------------------------------------------------------------- */

Test(nvme_file, missing_file_is_refused_and_not_made_unless_asked_for)
{
	cr_assert_eq(open_it(name, false), -ENOENT);
	cr_assert_not_null(strstr(err_text, "no such file"), "%s", err_text);
	cr_assert_neq(access(path, F_OK), 0);
	cr_assert_eq(open_it(name, true), 0);
	cr_assert_eq(access(path, F_OK), 0);
}

Test(nvme_file, new_file_needs_a_size)
{
	snprintf(name, sizeof(name), "file:%s", path);
	cr_assert_eq(open_it(name, true), -EINVAL);
	cr_assert_not_null(strstr(err_text, "?size="), "%s", err_text);
	cr_assert_neq(access(path, F_OK), 0);
}

Test(nvme_file, new_file_has_its_space)
{
	struct stat st;

	cr_assert_eq(open_it(name, true), 0);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_size, 16 << 20);
	cr_assert_geq(st.st_blocks * 512, 16 << 20);
}

Test(nvme_file, file_of_another_size_is_refused_as_it_is)
{
	struct stat st;

	cr_assert_eq(open_it(name, true), 0);
	snprintf(name, sizeof(name), "file:%s?size=32M", path);
	cr_assert_eq(open_it(name, true), -EINVAL);
	cr_assert_not_null(strstr(err_text, "16777216"), "%s", err_text);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_size, 16 << 20);
}

Test(nvme_file, more_than_the_disk_holds_leaves_nothing_behind)
{
	snprintf(name, sizeof(name), "file:%s?size=500T", path);
	cr_assert_lt(open_it(name, true), 0);
	cr_assert_not_null(strstr(err_text, "no room"), "%s", err_text);
	cr_assert_neq(access(path, F_OK), 0);
}

Test(nvme_file, what_is_no_file_is_refused)
{
	snprintf(name, sizeof(name), "file:%s", dir);
	cr_assert_lt(open_it(name, false), 0);
	cr_assert_eq(open_it("file:/dev/null", false), -EINVAL);
	cr_assert_not_null(strstr(err_text, "neither"), "%s", err_text);
	cr_assert_eq(open_it("file:/proc/self/nothing/there", false), -ENOENT);
}

Test(nvme_file, file_in_use_is_refused_after_a_while)
{
	int fd;

	cr_assert_eq(open_it(name, true), 0);
	fd = open(path, O_RDWR);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_eq(open_it(name, false), -EBUSY);
	cr_assert_not_null(strstr(err_text, "in use"), "%s", err_text);
	close(fd);
	cr_assert_eq(open_it(name, false), 0);
}

Test(nvme_file, file_of_a_process_that_is_dying_is_waited_for)
{
	int fds[2], fd;
	char byte;

	cr_assert_eq(open_it(name, true), 0);
	cr_assert_eq(pipe(fds), 0);
	if (fork() == 0) {
		fd = open(path, O_RDWR);
		if (flock(fd, LOCK_EX) || write(fds[1], "x", 1) != 1)
			_exit(1);
		usleep(200000);
		_exit(0);
	}
	cr_assert_eq(read(fds[0], &byte, 1), 1);
	cr_assert_eq(open_it(name, false), 0);
	cr_assert_neq(wait(NULL), -1);
}

/* As when its last writes take long: the process is gone, the lock is not. */
Test(nvme_file, file_of_a_process_that_is_gone_is_waited_for_longer)
{
	int fds[2], fd;
	char byte;
	pid_t pid;

	cr_assert_eq(open_it(name, true), 0);
	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		fd = open(path, O_RDWR);
		if (flock(fd, LOCK_EX) || fork() > 0)
			_exit(0);
		(void)!write(fds[1], "x", 1);
		usleep(6500000);
		_exit(0);
	}
	cr_assert_eq(read(fds[0], &byte, 1), 1);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(open_it(name, false), 0, "%s", err_text);
}

/* Writes as fast as it can until it is killed. */
static void write_for_ever(void)
{
	static struct nvme_io io[48], *done[48];
	uint32_t count = 48;

	fixture_up_name(&f, name, 64);
	for (uint32_t i = 0; i < 48; i++)
		done[i] = &io[i];
	for (uint32_t n = 0;; count = nvme_poll(f.qp, done, 48)) {
		for (uint32_t i = 0; i < count; i++) {
			*done[i] = (struct nvme_io){ .op = NVME_WRITE,
						     .nblocks = 32,
						     .block = n++ % 64 * 32,
						     .fua = n % 2,
						     .iova = f.iova };
			if (nvme_submit(f.qp, done[i]))
				_exit(1);
		}
		nvme_ring(f.qp);
	}
}

Test(nvme_file, drive_of_a_process_killed_in_its_writes_is_there_again)
{
	int status;
	pid_t pid;

	cr_assert_eq(open_it(name, true), 0);
	for (int i = 0; i < 5; i++) {
		pid = fork();
		if (pid == 0)
			write_for_ever();
		usleep(100000);
		cr_assert_eq(kill(pid, SIGKILL), 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status), "it was writing until then");
		cr_assert_eq(open_it(name, false), 0, "%s", err_text);
	}
}
