/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A vfio-user server that hangs, at each stage of a drive's life: who polls never waits for it.
 *
 * Not by the clock: every call that could wait is counted while this thread polls.  They are
 * replaced here, for the whole program, by ones that count and go on.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "nvme/pci/nvme_vfu.h"
#include "test/lib/vfu_server.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BUF_BYTES (1u << 20)
#define IOS       6u

static char dir[64], path[96], name[128];
static struct vfu_child child;
static struct nvme_dma *dma;
static uint8_t *buf;
static uint64_t iova;
static struct nvme_drive *drive;
static struct nvme_qpair *qp;

/* ---- what could wait ----------------------------------------------------------------------- */

static _Thread_local bool polling;
static _Thread_local uint32_t waits;

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec t = { timeout_ms / 1000, timeout_ms % 1000 * 1000000 };

	waits += polling && timeout_ms != 0;
	return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &t, NULL, 8);
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	waits += polling;
	return clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left) ? -1 : 0;
}

/* Locks that somebody may hold while he waits for the server. */
static bool is_held_over_waits(const pthread_mutex_t *lock)
{
	const struct nvme_vfu *vfu = drive ? drive->ctrl : NULL;

	return vfu && lock == &vfu->conn.exchange_lock;
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	static int (*real)(pthread_mutex_t * lock);

	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	waits += polling && is_held_over_waits(lock);
	return real(lock);
}

/* ---- the rig --------------------------------------------------------------------------------- */

static void setup(void)
{
	struct nvme_options options = { .io_timeout_ns = 1500 * NS_PER_MS };
	char err_text[NVME_ERR_TEXT];
	int fd = memfd_create("test", MFD_CLOEXEC), err;

	snprintf(dir, sizeof(dir), "/tmp/weka-hang.XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(name, sizeof(name), "vfio-user:%s", path);
	vfu_child_start(&child, &(struct vfu_server_options){
					.path = path, .drive = "mem:64M", .write_through = true });
	cr_assert(fd >= 0 && ftruncate(fd, BUF_BYTES) == 0);
	buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(buf != MAP_FAILED);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_dma_map_file(dma, buf, BUF_BYTES, fd, 0, &iova), 0);
	close(fd);
	err = nvme_open(&drive, name, dma, &options, err_text, sizeof(err_text));
	cr_assert_eq(err, 0, "%s", err_text);
	cr_assert_eq(nvme_qpair_create(drive, 16, &qp), 0);
}

static void teardown(void)
{
	nvme_qpair_destroy(qp);
	nvme_close(drive);
	drive = NULL;
	cr_assert_eq(vfu_child_stop(&child), 0);
	nvme_dma_unmap(dma, iova, BUF_BYTES);
	nvme_dma_destroy(dma);
	munmap(buf, BUF_BYTES);
	cr_assert_eq(rmdir(dir), 0);
}

TestSuite(nvme_hang, .init = setup, .fini = teardown, .timeout = 120);

/* Does what a core does with this drive in one turn.  Returns how many I/Os came back. */
static uint32_t turn(void)
{
	struct nvme_io *done[IOS];
	uint32_t count;

	polling = true;
	nvme_ring(qp);
	count = nvme_poll(qp, done, IOS);
	(void)nvme_drive_step(drive, clock_now_ns());
	polling = false;
	return count;
}

static void submit_some(struct nvme_io *io)
{
	while (nvme_qpair_ordered(qp)) /* to run */
		cr_assert_eq(turn(), 0);
	for (uint32_t i = 0; i < IOS; i++) {
		io[i] = (struct nvme_io){ .op = NVME_READ,
					  .block = i,
					  .nblocks = 1,
					  .iova = iova + i * NVME_BLOCK_SIZE };
		cr_assert_eq(nvme_submit(qp, &io[i]), 0);
	}
}

/* Until the connection is given up, in a drive that cannot be mended before the server goes on. */
static uint32_t turns_until_given_up(void)
{
	const struct nvme_vfu *vfu = drive->ctrl;
	uint64_t deadline_ns = clock_now_ns() + 60 * NS_PER_S;
	uint32_t back = 0;

	while (nvme__vfu_is_live(vfu)) {
		cr_assert(clock_now_ns() < deadline_ns, "life %d", drive->reset.life);
		back += turn();
	}
	return back;
}

static uint32_t turns_until_good(void)
{
	uint64_t deadline_ns = clock_now_ns() + 60 * NS_PER_S;
	uint32_t back = 0;

	while (nvme_drive_health(drive) != NVME_HEALTH_GOOD) {
		cr_assert(clock_now_ns() < deadline_ns, "life %d", drive->reset.life);
		back += turn();
	}
	return back;
}

/* The drive works again.  Returns how many I/Os came back before that. */
static uint32_t goes_on(void)
{
	struct nvme_io io[IOS];
	uint32_t back;

	(void)kill(child.pid, SIGCONT);
	back = turns_until_good();
	submit_some(io);
	for (uint32_t n = 0; n < IOS;)
		n += turn();
	for (uint32_t i = 0; i < IOS; i++)
		cr_assert_eq(io[i].status, 0);
	cr_assert_eq(waits, 0, "who polls has waited %u times", waits);
	return back;
}

/* Once the drive is there: the server hangs, with I/Os in flight.  Disabling is over so soon that
 * nobody would see it.  Returns how many I/Os came back. */
static uint32_t hangs_in(enum nvme_life life)
{
	uint64_t deadline_ns = clock_now_ns() + 60 * NS_PER_S;
	const bool before = life == NVME_LIVE || life == NVME_DISABLING;
	struct nvme_io io[IOS];
	uint32_t back = 0;

	turns_until_good();
	if (before)
		vfu_child_pause(&child);
	submit_some(io);
	nvme__helm_take(drive);
	if (life != NVME_LIVE)
		nvme__trouble(drive, NVME_CAUSE_FATAL, 0, clock_now_ns());
	nvme__helm_leave(drive);
	while (drive->reset.life != life) {
		cr_assert(clock_now_ns() < deadline_ns, "life %d", drive->reset.life);
		back += turn();
	}
	if (!before)
		vfu_child_pause(&child);
	back += turns_until_given_up();
	return back + goes_on();
}

Test(nvme_hang, with_commands_in_flight)
{
	cr_assert_eq(hangs_in(NVME_LIVE), IOS); /* each once */
}

Test(nvme_hang, while_the_controller_is_disabled)
{
	cr_assert_eq(hangs_in(NVME_DISABLING), IOS); /* each once */
}

Test(nvme_hang, while_it_comes_up_again)
{
	cr_assert_eq(hangs_in(NVME_RISING), IOS); /* each once */
}

Test(nvme_hang, while_its_queues_are_made_anew)
{
	cr_assert_eq(hangs_in(NVME_CREATING), IOS); /* each once */
}
