/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A vfio-user server that is slow, hangs, dies, or is replaced: the drive comes back when the right
 * one is there again, however long that takes, and lines of the log say so meanwhile.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "nvme/pci/nvme_vfu.h"
#include "test/lib/vfu_server.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BUF_BYTES (1u << 20)
#define WAIT_NS   (60 * NS_PER_S)

static char dir[64], path[96], name[128], file[128], other[128];
static struct vfu_child child;
static struct nvme_dma *dma;
static int fd;
static uint8_t *buf;
static uint64_t iova;
static struct nvme_drive *drive;
static struct nvme_qpair *qp;
static char lines[8192];

static void up(uint64_t timeout_ns)
{
	struct nvme_options options = { .io_timeout_ns = timeout_ns };
	struct vfu_server_options server = { .path = path, .drive = file, .write_through = true };
	char err_text[NVME_ERR_TEXT];

	snprintf(dir, sizeof(dir), "/tmp/weka-away.XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/cntrl", dir); /* found by its directory's name */
	snprintf(name, sizeof(name), "vfio-user:%s", dir);
	snprintf(file, sizeof(file), "file:%s/drive?size=64M", dir);
	snprintf(other, sizeof(other), "file:%s/other?size=64M", dir);
	vfu_child_start(&child, &server);
	fd = memfd_create("away", MFD_CLOEXEC);
	cr_assert(fd >= 0 && ftruncate(fd, BUF_BYTES) == 0);
	buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(buf != MAP_FAILED);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_dma_map_file(dma, buf, BUF_BYTES, fd, 0, &iova), 0);
	cr_assert_eq(nvme_open(&drive, name, dma, &options, err_text, sizeof(err_text)), 0, "%s",
		     err_text);
	cr_assert_eq(nvme_qpair_create(drive, 8, &qp), 0);
	(void)nvme_drive_step(drive, clock_now_ns());
}

static void teardown(void)
{
	char command[128];

	nvme_qpair_destroy(qp);
	nvme_close(drive);
	if (child.pid)
		vfu_child_kill(&child);
	nvme_dma_unmap(dma, iova, BUF_BYTES);
	nvme_dma_destroy(dma);
	munmap(buf, BUF_BYTES);
	close(fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_assert_eq(system(command), 0);
}

TestSuite(nvme_away, .fini = teardown, .timeout = 180);

/* One turn of the owner and the queue pair: I/Os that came back. */
static uint32_t turn(void)
{
	struct timespec pause = { .tv_nsec = 100000 };
	struct nvme_io *done[8];
	char line[NVME_LINE_BYTES];
	uint32_t back = nvme_poll(qp, done, 8);

	if (!nvme_drive_step(drive, clock_now_ns()) && back == 0)
		nanosleep(&pause, NULL);
	while (nvme_drive_line(drive, line, sizeof(line)))
		(void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", line);
	return back;
}

static uint32_t until(enum nvme_health health)
{
	uint64_t end_ns = clock_now_ns() + WAIT_NS;
	uint32_t back = 0;

	while (nvme_drive_health(drive) != health) {
		cr_assert_lt(clock_now_ns(), end_ns, "it is %d: %s", nvme_drive_health(drive),
			     lines);
		back += turn();
	}
	return back;
}

static struct nvme_io an_io(enum nvme_op op)
{
	return (struct nvme_io){ .op = op, .nblocks = 1, .block = 7, .iova = iova };
}

static void submit(struct nvme_io *io)
{
	cr_assert_eq(nvme_submit(qp, io), 0);
	nvme_ring(qp);
}

static int run(enum nvme_op op)
{
	struct nvme_io io = an_io(op);
	int err;

	while ((err = nvme_submit(qp, &io)) == -EAGAIN) /* it has yet to hear that it may */
		(void)turn();
	cr_assert_eq(err, 0);
	nvme_ring(qp);
	while (turn() == 0)
		;
	return io.status;
}

static uint64_t resets(void)
{
	struct nvme_drive_counts counts;

	nvme_drive_counts(drive, &counts);
	return counts.reset_count;
}

/* The server goes on after 2.6 s: more than any answer was given before. */
static void *wake_it(void *arg)
{
	struct timespec pause = { 2, 600000000 };

	(void)arg;
	nanosleep(&pause, NULL);
	(void)kill(child.pid, SIGCONT);
	return NULL;
}

Test(nvme_away, server_that_stops_for_less_than_a_command_may_take_costs_a_delay)
{
	struct nvme_io io;
	pthread_t thread;
	uint64_t second;

	up(20 * NS_PER_S);
	io = an_io(NVME_WRITE);
	submit(&io);
	vfu_child_pause(&child);
	cr_assert_eq(pthread_create(&thread, NULL, wake_it, NULL), 0);
	drive->watch.csts_wanted = true; /* a register is asked for, as at each tick */
	drive->watch.next_look_ns = 0;
	(void)turn();
	/* A client connects: its memory is shared with the server, which answers when it can. */
	cr_assert_eq(nvme_dma_map_file(dma, buf, BUF_BYTES, fd, 0, &second), 0);
	while (io.commands_left)
		(void)turn();
	pthread_join(thread, NULL);
	nvme_dma_unmap(dma, second, BUF_BYTES);
	cr_assert_eq(io.status, 0);
	cr_assert_eq(resets(), 0, "%s", lines);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
}

/* I/Os in flight come back as soon as the server has let go of our memory; others are told. */
Test(nvme_away, dead_server_gives_its_ios_back_and_is_used_again_when_it_is_back)
{
	struct nvme_io io, more;

	up(2 * NS_PER_S);
	cr_assert_eq(run(NVME_WRITE), 0);
	vfu_child_pause(&child);
	io = more = an_io(NVME_READ);
	submit(&io);
	vfu_child_kill(&child);
	cr_assert_eq(until(NVME_HEALTH_AWAY), 1);
	cr_assert_eq(io.status, -ECANCELED);
	cr_assert(io.retry && !io.quarantined);
	cr_assert_eq(nvme_submit(qp, &more), -EHOSTDOWN);
	cr_assert(strstr(lines, "its server has left"), "%s", lines);
	vfu_child_start(&child, &child.options);
	(void)until(NVME_HEALTH_GOOD);
	cr_assert_not(nvme_qpair_is_away(qp), "the next trouble may be short");
	cr_assert_eq(run(NVME_READ), 0);
	cr_assert(strstr(lines, "connected to a server again"), "%s", lines);
}

/* A hung server may still write to our memory: its I/Os wait until it answers or dies. */
Test(nvme_away, hung_server_keeps_its_ios_until_it_goes_on)
{
	struct nvme_io io, more;

	up(2 * NS_PER_S);
	vfu_child_pause(&child);
	io = more = an_io(NVME_READ);
	submit(&io);
	cr_assert_eq(until(NVME_HEALTH_AWAY), 0);
	cr_assert_eq(nvme_submit(qp, &more), -EHOSTDOWN);
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_eq(turn(), 0, "it may still be read into");
	cr_assert_eq(kill(child.pid, SIGCONT), 0);
	cr_assert_eq(until(NVME_HEALTH_GOOD), 1);
	cr_assert(io.status == 0 || (io.status == -ECANCELED && io.retry), "%d", io.status);
	cr_assert_eq(run(NVME_WRITE), 0);
	cr_assert(strstr(lines, "its server does not answer") || strstr(lines, "do not end"), "%s",
		  lines);
}

Test(nvme_away, server_of_another_drive_is_not_written_to_and_the_right_one_is_taken_again)
{
	struct vfu_server_options right;
	struct nvme_io io;

	up(2 * NS_PER_S);
	right = child.options;
	vfu_child_kill(&child);
	child.options.drive = other;
	vfu_child_start(&child, &child.options);
	(void)until(NVME_HEALTH_AWAY);
	io = an_io(NVME_WRITE);
	cr_assert_eq(nvme_submit(qp, &io), -EHOSTDOWN);
	cr_assert(strstr(lines, "another drive answers"), "%s", lines);
	vfu_child_kill(&child);
	vfu_child_start(&child, &right);
	(void)until(NVME_HEALTH_GOOD);
	cr_assert_eq(run(NVME_WRITE), 0);
}

static bool holds_mark(const uint8_t of[32], const void *block)
{
	return memcmp(block, of, 32) == 0;
}

static void write_file(uint64_t at, const uint8_t *bytes, size_t count)
{
	char drive_path[128];
	FILE *f;

	snprintf(drive_path, sizeof(drive_path), "%s/drive", dir);
	f = fopen(drive_path, "r+");
	cr_assert(f);
	cr_assert_eq(fseek(f, (long)at, SEEK_SET), 0);
	cr_assert_eq(fwrite(bytes, 1, count, f), count);
	cr_assert_eq(fclose(f), 0);
}

/* The same file, and so the same serial number; what was in it is gone.  Then it is there again. */
Test(nvme_away, emptied_drive_is_not_believed_until_its_content_is_back)
{
	struct nvme_proof proof = { .count = 2, .block = { 0, 99 }, .holds = holds_mark };
	static const uint8_t nothing[32];
	struct nvme_io io;

	up(2 * NS_PER_S);
	memset(proof.of, 0x5a, sizeof(proof.of));
	cr_assert_eq(nvme_drive_prove(drive, &proof), 0);
	memset(buf, 0x5a, 32);
	io = an_io(NVME_WRITE);
	io.block = 99;
	submit(&io);
	while (turn() == 0)
		;
	cr_assert_eq(io.status, 0);
	vfu_child_kill(&child);
	(void)until(NVME_HEALTH_RESETTING);
	vfu_child_start(&child, &child.options);
	(void)until(NVME_HEALTH_GOOD); /* one of the two blocks is enough */
	vfu_child_kill(&child);
	write_file(99 * 4096, nothing, sizeof(nothing));
	vfu_child_start(&child, &child.options);
	(void)until(NVME_HEALTH_AWAY);
	io = an_io(NVME_WRITE);
	cr_assert_eq(nvme_submit(qp, &io), -EHOSTDOWN);
	cr_assert(strstr(lines, "its content has changed"), "%s", lines);
	vfu_child_kill(&child);
	write_file(0, proof.of, sizeof(proof.of));
	vfu_child_start(&child, &child.options);
	(void)until(NVME_HEALTH_GOOD);
	cr_assert_eq(run(NVME_WRITE), 0);
}

/* Another build of the server, whose device looks otherwise: it may be replaced again. */
Test(nvme_away, server_of_another_kind_is_refused_until_the_right_one_is_back)
{
	struct vfu_server_options right;

	up(2 * NS_PER_S);
	right = child.options;
	vfu_child_kill(&child);
	child.options.no_mmap = true;
	vfu_child_start(&child, &child.options);
	(void)until(NVME_HEALTH_AWAY);
	vfu_child_kill(&child);
	vfu_child_start(&child, &right);
	(void)until(NVME_HEALTH_GOOD);
	cr_assert_eq(run(NVME_WRITE), 0);
}
