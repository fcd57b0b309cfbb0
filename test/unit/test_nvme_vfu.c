/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* vfio-user: drives, against a server in a child process. */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfu.h"
#include "base/clock.h"
#include "base/rand.h"
#include "test/lib/vfu_server.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUF_BYTES (8u << 20)

/* A server, memory that it can be given, a drive and a queue pair. */
struct rig {
	char dir[64];
	char path[96];
	char name[128];
	char file[128];
	struct vfu_child child;
	struct nvme_dma *dma;
	uint8_t *buf;
	uint64_t iova;
	struct nvme_drive *drive;
	uint64_t timeout_ns; /* 0: the driver's own */
	struct nvme_qpair *qp;
	char err_text[NVME_ERR_TEXT];
};

static struct rig rig;

static void memory_up(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	cr_assert(fd >= 0 && ftruncate(fd, BUF_BYTES) == 0);
	rig.buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(rig.buf != MAP_FAILED);
	cr_assert_eq(nvme_dma_create(&rig.dma), 0);
	cr_assert_eq(nvme_dma_map_file(rig.dma, rig.buf, BUF_BYTES, fd, 0, &rig.iova), 0);
	close(fd);
}

static void paths_up(void)
{
	snprintf(rig.dir, sizeof(rig.dir), "/tmp/weka-vfu.XXXXXX");
	cr_assert(mkdtemp(rig.dir) != NULL);
	snprintf(rig.path, sizeof(rig.path), "%s/sock", rig.dir);
	snprintf(rig.name, sizeof(rig.name), "vfio-user:%s", rig.path);
	snprintf(rig.file, sizeof(rig.file), "file:%s/drive?size=64M", rig.dir);
}

static int open_drive(void)
{
	struct nvme_options options = { .io_timeout_ns = rig.timeout_ns };

	return nvme_open(&rig.drive, rig.name, rig.dma, &options, rig.err_text,
			 sizeof(rig.err_text));
}

static void rig_up(struct vfu_server_options options)
{
	paths_up();
	options.path = rig.path;
	if (!options.drive)
		options.drive = "mem:64M";
	vfu_child_start(&rig.child, &options);
	memory_up();
}

static void drive_up(uint32_t depth)
{
	int err = open_drive();

	cr_assert_eq(err, 0, "%s", rig.err_text);
	cr_assert_eq(nvme_qpair_create(rig.drive, depth, &rig.qp), 0);
}

static void rig_down(void)
{
	char command[96];

	nvme_qpair_destroy(rig.qp);
	nvme_close(rig.drive);
	if (rig.child.pid)
		cr_assert_eq(vfu_child_stop(&rig.child), 0);
	nvme_dma_unmap(rig.dma, rig.iova, BUF_BYTES);
	nvme_dma_destroy(rig.dma);
	munmap(rig.buf, BUF_BYTES);
	snprintf(command, sizeof(command), "rm -rf %s", rig.dir);
	cr_assert_eq(system(command), 0);
}

static int run_io(enum nvme_op op, uint64_t block, uint32_t nblocks, uint64_t at)
{
	struct nvme_io io = { .op = op, .block = block, .nblocks = nblocks, .iova = rig.iova + at };
	struct nvme_io *done[1];
	uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;

	cr_assert_eq(nvme_submit(rig.qp, &io), 0);
	nvme_ring(rig.qp);
	while (nvme_poll(rig.qp, done, 1) == 0)
		cr_assert(clock_now_ns() < deadline_ns, "no answer to an I/O");
	cr_assert_eq(done[0], &io);
	return io.status;
}

static void fill(uint8_t *bytes, uint64_t size, uint64_t seed)
{
	struct rand_state r;

	rand_seed(&r, seed);
	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t v = rand_u64(&r);

		memcpy(bytes + i, &v, 8);
	}
}

/* Every size, written from one half of the buffer, read into the other, which is poisoned. */
static void expect_written_is_read(void)
{
	static const uint32_t sizes[] = { 1, 2, 3, 16, 32, 33, 64, 255, 256, 257, 1000 };
	uint8_t *to = rig.buf + BUF_BYTES / 2;
	uint64_t block = 7;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint32_t n = min_u32(sizes[i], nvme_qpair_io_blocks_max(rig.qp));
		uint64_t bytes = (uint64_t)n * NVME_BLOCK_SIZE;

		fill(rig.buf, bytes, i + 1);
		memset(to, 0xa5, bytes);
		cr_assert_eq(run_io(NVME_WRITE, block, n, 0), 0);
		cr_assert_eq(run_io(NVME_READ, block, n, BUF_BYTES / 2), 0);
		cr_assert_eq(memcmp(rig.buf, to, bytes), 0, "%u blocks", n);
		block += n + 1;
	}
	cr_assert_eq(run_io(NVME_FLUSH, 0, 0, 0), 0);
}

/* ---- a server that behaves --------------------------------------------------------------- */

Test(nvme_vfu, a_drive_in_another_process_keeps_what_is_written, .timeout = 60)
{
	struct nvme_info info;

	rig_up((struct vfu_server_options){ 0 });
	drive_up(64);
	nvme_drive_info(rig.drive, &info);
	cr_assert_eq(info.nblocks, 64u << 20 >> NVME_BLOCK_SHIFT);
	cr_assert_str_eq(info.note, "");
	expect_written_is_read();
	rig_down();
}

Test(nvme_vfu, doorbells_go_as_messages_where_no_page_is_offered, .timeout = 60)
{
	struct nvme_info info;

	rig_up((struct vfu_server_options){ .no_mmap = true });
	drive_up(8);
	nvme_drive_info(rig.drive, &info);
	cr_assert(strstr(info.note, "doorbells are messages"));
	expect_written_is_read();
	rig_down();
}

Test(nvme_vfu, a_queue_pair_made_again_rings_its_first_bell, .timeout = 60)
{
	rig_up((struct vfu_server_options){ .no_mmap = true });
	drive_up(8);
	for (uint32_t i = 0; i < 20; i++) {
		for (uint32_t k = 0; k <= i % 9; k++)
			cr_assert_eq(run_io(NVME_READ, i, 1, 0), 0);
		nvme_qpair_destroy(rig.qp);
		cr_assert_eq(nvme_qpair_create(rig.drive, 8, &rig.qp), 0);
	}
	rig_down();
}

Test(nvme_vfu, the_server_may_read_and_write_our_memory_by_messages, .timeout = 60)
{
	rig_up((struct vfu_server_options){ .ask_memory = true });
	drive_up(8);
	expect_written_is_read();
	rig_down(); /* the server exits with 3 when it could not */
}

Test(nvme_vfu, memory_is_shared_and_taken_back_while_the_drive_runs, .timeout = 60)
{
	int fd = memfd_create("more", MFD_CLOEXEC);
	uint64_t iova;
	void *more;

	rig_up((struct vfu_server_options){ .dma_maps_max = 8 });
	drive_up(8);
	cr_assert_eq(ftruncate(fd, 8 << 20), 0);
	more = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4 << 20);
	cr_assert(more != MAP_FAILED);
	for (uint32_t i = 0; i < 20; i++) { /* more than the server takes at once */
		struct nvme_io io = { .op = NVME_WRITE, .block = i, .nblocks = 1 }, *done[1];

		cr_assert_eq(nvme_dma_map_file(rig.dma, more, 4 << 20, fd, 4 << 20, &iova), 0);
		io.iova = iova + 4096 * i;
		fill((uint8_t *)more + 4096 * i, 4096, i);
		cr_assert_eq(nvme_submit(rig.qp, &io), 0);
		nvme_ring(rig.qp);
		while (nvme_poll(rig.qp, done, 1) == 0)
			;
		cr_assert_eq(io.status, 0);
		nvme_dma_unmap(rig.dma, iova, 4 << 20);
		cr_assert_eq(run_io(NVME_READ, i, 1, 0), 0);
		cr_assert_eq(memcmp(rig.buf, (uint8_t *)more + 4096 * i, 4096), 0);
	}
	munmap(more, 4 << 20);
	close(fd);
	rig_down();
}

static void sleep_until_done(struct nvme_io *io)
{
	struct pollfd p = { .fd = nvme_qpair_fd(rig.qp), .events = POLLIN };
	struct nvme_io *done[1];

	cr_assert(p.fd >= 0);
	cr_assert_eq(nvme_submit(rig.qp, io), 0);
	nvme_ring(rig.qp);
	for (uint32_t i = 0; nvme_poll(rig.qp, done, 1) == 0; i++) {
		cr_assert(i < 100);
		if (nvme_qpair_arm(rig.qp))
			cr_assert_eq(poll(&p, 1, 20000), 1, "nobody woke us");
		nvme_qpair_disarm(rig.qp);
	}
	cr_assert_eq(io->status, 0);
}

static void expect_sleeper_is_woken(void)
{
	struct nvme_io io = { .op = NVME_READ, .block = 1, .nblocks = 1 };
	struct pollfd p;

	io.iova = rig.iova;
	for (uint32_t i = 0; i < 100; i++)
		sleep_until_done(&io);
	/* Completions that polling has taken already do not end a later sleep. */
	cr_assert_eq(run_io(NVME_READ, 1, 1, 0), 0);
	cr_assert(nvme_qpair_arm(rig.qp));
	p = (struct pollfd){ .fd = nvme_qpair_fd(rig.qp), .events = POLLIN };
	cr_assert_eq(poll(&p, 1, 50), 0);
	nvme_qpair_disarm(rig.qp);
}

Test(nvme_vfu, a_sleeper_is_woken_by_the_server, .timeout = 60)
{
	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	expect_sleeper_is_woken();
	rig_down();
}

Test(nvme_vfu, a_sleeper_is_woken_also_where_doorbells_are_messages, .timeout = 60)
{
	rig_up((struct vfu_server_options){ .no_mmap = true });
	drive_up(8);
	expect_sleeper_is_woken();
	rig_down();
}

/* The server reads no messages for a while; a bell that it has yet to hear is not slept over. */
Test(nvme_vfu, nobody_sleeps_over_a_bell_that_did_not_fit_into_the_socket, .timeout = 60)
{
	struct vfu_region_rw rw = { le64_of(NVME_REG_INTMS), le32_of(VFU_REGION_BAR0),
				    le32_of(sizeof(uint32_t)) };
	uint32_t zero = 0;
	struct nvme_vfu_call call = { .command = VFU_REGION_WRITE,
				      .head = &rw,
				      .head_bytes = sizeof(rw),
				      .data = &zero,
				      .data_bytes = sizeof(zero) };
	struct nvme_io io = { .op = NVME_READ, .block = 1, .nblocks = 1 }, *done[1];
	struct nvme_vfu *vfu;

	rig_up((struct vfu_server_options){ .no_mmap = true });
	drive_up(8);
	vfu = rig.drive->ctrl;
	io.iova = rig.iova;
	vfu_child_pause(&rig.child);
	while (nvme__vfu_post(&vfu->conn, &call) == 0)
		;
	cr_assert_eq(nvme_submit(rig.qp, &io), 0);
	nvme_ring(rig.qp);
	cr_assert_eq(nvme_poll(rig.qp, done, 1), 0);
	cr_assert_not(nvme_qpair_arm(rig.qp));
	nvme_qpair_disarm(rig.qp);
	kill(rig.child.pid, SIGCONT);
	while (nvme_poll(rig.qp, done, 1) == 0)
		;
	cr_assert_eq(io.status, 0);
	rig_down();
}

Test(nvme_vfu, a_doorbell_that_the_device_cannot_have_is_nobodys, .timeout = 60)
{
	rig_up((struct vfu_server_options){ .no_mmap = true });
	drive_up(8);
	for (uint32_t at = 0; at < 33u << 20; at += 2 << 17)
		*rig.drive->ops->doorbell(rig.drive->ctrl, NVME_REG_DOORBELLS + at + 2) = 1;
	expect_written_is_read();
	rig_down();
}

/* The server's page of doorbells goes from under us: that is a drive less, not a process. */
Test(nvme_vfu, a_server_that_cuts_its_doorbells_off_kills_nobody, .timeout = 60)
{
	struct nvme_vfu *vfu;
	char path[64], target[64];
	int cut = 0;

	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	vfu = rig.drive->ctrl;
	cr_assert_gt(vfu->map_count, 0);
	vfu_child_pause(&rig.child); /* it would die of it itself */
	for (int fd = 0; fd < 64; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", rig.child.pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		if (strstr(target, "vfu-bar"))
			cut += truncate(path, 0) == 0;
	}
	cr_assert_eq(cut, 1);
	*rig.qp->rings.sq_doorbell = 1;
	cr_assert_eq(*rig.qp->rings.sq_doorbell, 1, "memory of our own");
	vfu_child_kill(&rig.child);
	rig_down();
}

/* A socket is known by its place, however it is written. */
Test(nvme_vfu, namespace_of_a_server_is_a_drive_once, .timeout = 60)
{
	char name[160], text[NVME_ERR_TEXT];
	struct nvme_drive *other;

	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	snprintf(name, sizeof(name), "vfio-user:%s/../%s/sock", rig.dir, strrchr(rig.dir, '/') + 1);
	cr_assert_eq(nvme_open(&other, name, rig.dma, NULL, text, sizeof(text)), -EBUSY, "%s",
		     text);
	cr_assert(strstr(text, "already a drive of this process"), "%s", text);
	expect_written_is_read();
	rig_down();
}

static void expect_block(struct nvme_drive *drive, struct nvme_qpair *qp, enum nvme_op op,
			 uint8_t fill)
{
	struct nvme_io io = { .op = op, .fua = true, .block = 5, .nblocks = 1, .iova = rig.iova };
	uint64_t deadline_ns = clock_now_ns() + 30 * NS_PER_S;
	struct nvme_io *done[1];

	memset(rig.buf, op == NVME_WRITE ? fill : 0, NVME_BLOCK_SIZE);
	while (nvme_submit(qp, &io)) {
		(void)!nvme_poll(qp, done, 1);
		(void)nvme_drive_step(drive, clock_now_ns());
		cr_assert_lt(clock_now_ns(), deadline_ns);
	}
	nvme_ring(qp);
	while (nvme_poll(qp, done, 1) == 0)
		cr_assert_lt(clock_now_ns(), deadline_ns);
	cr_assert_eq(io.status, 0);
	cr_assert(rig.buf[0] == fill && rig.buf[NVME_BLOCK_SIZE - 1] == fill);
}

static void expect_good(struct nvme_drive *drive[2], struct nvme_qpair *qp[2])
{
	uint64_t deadline_ns = clock_now_ns() + 30 * NS_PER_S;
	struct nvme_io *done[1];

	do {
		for (uint32_t i = 0; i < 2; i++) {
			(void)!nvme_poll(qp[i], done, 1);
			(void)nvme_drive_step(drive[i], clock_now_ns());
		}
		cr_assert_lt(clock_now_ns(), deadline_ns);
	} while (nvme_drive_health(drive[0]) != NVME_HEALTH_GOOD ||
		 nvme_drive_health(drive[1]) != NVME_HEALTH_GOOD);
}

/* Two namespaces, each a drive: their server is killed, and both are back with the next one. */
Test(nvme_vfu, namespaces_of_one_server_are_drives_that_come_back_together, .timeout = 60)
{
	struct vfu_server_options options = { .path = rig.path, .namespaces = 2 };
	struct nvme_options how = { .namespace_count = 2 };
	struct nvme_drive *drive[2];
	struct nvme_qpair *qp[2];
	char name[160];

	paths_up();
	options.drive = rig.file;
	vfu_child_start(&rig.child, &options);
	memory_up();
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s?nsid=%u", rig.name, i + 1);
		cr_assert_eq(nvme_open(&drive[i], name, rig.dma, &how, rig.err_text,
				       sizeof(rig.err_text)),
			     0, "%s", rig.err_text);
		cr_assert_eq(nvme_qpair_create(drive[i], 8, &qp[i]), 0);
		(void)nvme_drive_step(drive[i], clock_now_ns());
		expect_block(drive[i], qp[i], NVME_WRITE, (uint8_t)(0x51 + i));
	}
	vfu_child_kill(&rig.child);
	vfu_child_start(&rig.child, &options);
	while (nvme_drive_health(drive[0]) == NVME_HEALTH_GOOD)
		(void)nvme_drive_step(drive[0], clock_now_ns());
	expect_good(drive, qp);
	for (uint32_t i = 0; i < 2; i++)
		expect_block(drive[i], qp[i], NVME_READ, (uint8_t)(0x51 + i));
	for (uint32_t i = 0; i < 2; i++) { /* the first one, which has the controller, goes first */
		nvme_qpair_destroy(qp[i]);
		nvme_close(drive[i]);
		if (i == 0)
			expect_block(drive[1], qp[1], NVME_READ, 0x52);
	}
	rig.qp = NULL;
	rig.drive = NULL;
	rig_down();
}

Test(nvme_vfu, without_interrupts_nobody_sleeps, .timeout = 60)
{
	struct nvme_info info;

	rig_up((struct vfu_server_options){ .no_irqs = true });
	drive_up(8);
	nvme_drive_info(rig.drive, &info);
	cr_assert(strstr(info.note, "do not sleep"));
	cr_assert(!nvme_qpair_arm(rig.qp));
	expect_written_is_read();
	rig_down();
}

/* ---- refusals ---------------------------------------------------------------------------- */

/* nvme_open() refuses a server with these options, in one line that begins with its name. */
static void expect_refused(struct vfu_server_options options, int want, const char *text)
{
	int err;

	rig_up(options);
	if (options.mute_after)
		rig.timeout_ns = 2 * NS_PER_S; /* that is, 4 s */
	err = open_drive();
	cr_assert_eq(err, want, "%d: %s", err, rig.err_text);
	cr_assert(strncmp(rig.err_text, rig.name, strlen(rig.name)) == 0, "%s", rig.err_text);
	cr_assert(strstr(rig.err_text, text), "no '%s' in: %s", text, rig.err_text);
	cr_assert(!strchr(rig.err_text, '\n'));
	rig.drive = NULL;
	rig.qp = NULL;
	rig_down();
}

Test(nvme_vfu, what_speaks_something_else_is_refused, .timeout = 60)
{
	expect_refused((struct vfu_server_options){ .nonsense = true }, -EPROTO,
		       "does not speak vfio-user");
}

Test(nvme_vfu, a_server_that_never_answers_is_given_up, .timeout = 60)
{
	expect_refused((struct vfu_server_options){ .mute_after = 5 }, -ETIMEDOUT,
		       "does not answer");
}

Test(nvme_vfu, a_server_that_falls_silent_at_the_first_register_is_a_device_that_is_gone,
     .timeout = 60)
{
	expect_refused((struct vfu_server_options){ .mute_after = 9 }, -ENODEV,
		       "no controller answers");
}

Test(nvme_vfu, a_device_that_is_no_nvme_controller_is_refused, .timeout = 60)
{
	expect_refused((struct vfu_server_options){ .not_nvme = true }, -ENODEV,
		       "no NVMe controller");
}

Test(nvme_vfu, a_server_that_takes_too_little_memory_is_refused, .timeout = 60)
{
	expect_refused((struct vfu_server_options){ .dma_maps_max = 3 }, -ENOTSUP,
		       "too few pieces");
}

Test(nvme_vfu, a_socket_that_is_not_there_or_has_no_server_is_refused)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	paths_up();
	memory_up();
	cr_assert_eq(open_drive(), -ENOENT);
	cr_assert(strstr(rig.err_text, "no such socket"), "%s", rig.err_text);
	memcpy(at.sun_path, rig.path, strlen(rig.path) + 1);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(open_drive(), -ECONNREFUSED);
	cr_assert(strstr(rig.err_text, "no server listens"), "%s", rig.err_text);
	close(fd);
	snprintf(rig.name, sizeof(rig.name), "vfio-user:/%0110d", 1);
	cr_assert_eq(open_drive(), -ENAMETOOLONG);
	rig_down();
}

Test(nvme_vfu, memory_that_is_no_file_is_refused_in_words, .timeout = 60)
{
	void *own;
	uint64_t iova;

	rig_up((struct vfu_server_options){ 0 });
	own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_eq(nvme_dma_map(rig.dma, own, 4096, &iova), 0);
	cr_assert_eq(open_drive(), -EINVAL);
	cr_assert(strstr(rig.err_text, "memory that is no file"), "%s", rig.err_text);
	nvme_dma_unmap(rig.dma, iova, 4096);

	cr_assert(!nvme_dma_wants_files(rig.dma));
	drive_up(8);
	cr_assert(nvme_dma_wants_files(rig.dma));
	cr_assert_eq(nvme_dma_map(rig.dma, own, 4096, &iova), -EINVAL);
	expect_written_is_read();
	munmap(own, 4096);
	rig_down();
}

/* ---- a server that goes ------------------------------------------------------------------ */

static uint32_t alarm_within(int timeout_ms)
{
	struct pollfd p = { .fd = rig.drive->ops->alarm_fd(rig.drive->ctrl), .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1 ? rig.drive->ops->alarm(rig.drive->ctrl) : 0;
}

/* Returns the result of a reset; -EAGAIN: it did not end within that time. */
static int reset_within(int timeout_ms)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	int err;

	while ((err = rig.drive->ops->reset(rig.drive->ctrl)) == -EAGAIN && timeout_ms-- > 0)
		nanosleep(&pause, NULL);
	return err;
}

static uint32_t csts(void)
{
	return rig.drive->ops->read32(rig.drive->ctrl, NVME_REG_CSTS);
}

/* The owner's and the queue pair's turn; I/Os that came back are counted in *back. */
static void turn(uint32_t *back)
{
	struct nvme_io *done[8];
	uint32_t n = nvme_poll(rig.qp, done, ARRAY_LEN(done));

	for (uint32_t i = 0; i < n; i++)
		cr_assert(done[i]->status == 0 || (done[i]->status == -ECANCELED && done[i]->retry),
			  "%d", done[i]->status);
	*back += n;
	(void)nvme_drive_step(rig.drive, clock_now_ns());
}

static void until_health(enum nvme_health health, uint32_t *back)
{
	uint64_t deadline_ns = clock_now_ns() + 30 * NS_PER_S;

	while (nvme_drive_health(rig.drive) != health) {
		cr_assert(clock_now_ns() < deadline_ns, "it is %d", nvme_drive_health(rig.drive));
		turn(back);
	}
}

/* Again and again until the drive has written them; each submit comes back once. */
static void write_them(struct nvme_io *io, uint32_t count)
{
	uint64_t deadline_ns = clock_now_ns() + 30 * NS_PER_S;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t back = 0;

		do {
			cr_assert(clock_now_ns() < deadline_ns);
			while (nvme_submit(rig.qp, &io[i]) == -EAGAIN)
				turn(&back);
			nvme_ring(rig.qp);
			for (back = 0; back == 0;)
				turn(&back);
			cr_assert_eq(back, 1);
		} while (io[i].status);
	}
}

static bool was_told(const char *text)
{
	char line[256];
	bool told = false;

	while (nvme_drive_line(rig.drive, line, sizeof(line)))
		told |= strstr(line, text) != NULL;
	return told;
}

/* A drive that outlives its server. */
static void file_up(struct vfu_server_options options)
{
	paths_up();
	options.path = rig.path;
	options.drive = rig.file;
	vfu_child_start(&rig.child, &options);
	memory_up();
	drive_up(8);
}

/* Killed with writes in flight, and started again over the same file, three times. */
static void expect_server_lost_and_found(struct vfu_server_options options)
{
	struct nvme_io io[6];
	uint32_t back = 0;

	file_up(options);
	for (uint32_t i = 0; i < 3; i++) {
		turn(&back);
		fill(rig.buf, 6 * 16384, i);
		for (uint32_t k = 0; k < 6; k++) {
			io[k] = (struct nvme_io){ .op = NVME_WRITE, .block = 4 * k, .nblocks = 4 };
			io[k].iova = rig.iova + 16384 * k;
			cr_assert_eq(nvme_submit(rig.qp, &io[k]), 0);
		}
		nvme_ring(rig.qp);
		vfu_child_kill(&rig.child);
		back = 0;
		until_health(NVME_HEALTH_RESETTING, &back);
		cr_assert_eq(csts(), NVME_CSTS_GONE);
		vfu_child_start(&rig.child, &rig.child.options);
		until_health(NVME_HEALTH_GOOD, &back);
		cr_assert_eq(back, 6, "%u of 6 came back", back);
		cr_assert(was_told("its server has left"));
		write_them(io, 6);
		memset(rig.buf + BUF_BYTES / 2, 0, 6 * 16384);
		cr_assert_eq(run_io(NVME_READ, 0, 24, BUF_BYTES / 2), 0);
		cr_assert_eq(memcmp(rig.buf, rig.buf + BUF_BYTES / 2, 6 * 16384), 0);
		io[0] = (struct nvme_io){ .op = NVME_READ, .nblocks = 1, .iova = rig.iova };
		sleep_until_done(&io[0]); /* the new server knows our eventfds */
	}
	rig_down();
}

Test(nvme_vfu, a_killed_server_is_noticed_and_found_again, .timeout = 60)
{
	expect_server_lost_and_found((struct vfu_server_options){ .write_through = true });
}

Test(nvme_vfu, a_killed_server_without_mapped_doorbells_is_found_again, .timeout = 60)
{
	expect_server_lost_and_found(
		(struct vfu_server_options){ .write_through = true, .no_mmap = true });
}

Test(nvme_vfu, a_server_that_is_gone_is_said_once_and_reads_all_ones, .timeout = 60)
{
	volatile uint32_t *bell; /* MMIO */

	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	bell = rig.qp->rings.sq_doorbell;
	cr_assert_eq(alarm_within(0), 0);
	vfu_child_kill(&rig.child);
	cr_assert_eq(alarm_within(5000), NVME_ALARM_GONE);
	cr_assert_eq(alarm_within(0), 0, "said twice");
	cr_assert_eq(rig.drive->ops->alarm(rig.drive->ctrl), 0, "said twice");
	cr_assert_eq(csts(), NVME_CSTS_GONE);
	*bell = 5; /* reaches nobody, and hurts nobody */
	cr_assert_eq(reset_within(50), -EAGAIN);
	vfu_child_start(&rig.child, &rig.child.options);
	cr_assert_eq(reset_within(20000), 1);
	cr_assert_eq(csts(), 0, "a new controller, not yet enabled");
	cr_assert_eq(alarm_within(0), 0);
	rig.drive->timeout_ns = 50 * NS_PER_MS; /* it has no admin queue now */
	rig_down();
}

/* Any writes of before may have been in its cache. */
Test(nvme_vfu, a_server_with_a_cache_comes_back_read_only, .timeout = 60)
{
	uint32_t back = 0;

	file_up((struct vfu_server_options){ 0 });
	turn(&back);
	cr_assert_eq(run_io(NVME_WRITE, 1, 1, 0), 0);
	vfu_child_kill(&rig.child);
	until_health(NVME_HEALTH_RESETTING, &back);
	vfu_child_start(&rig.child, &rig.child.options);
	until_health(NVME_HEALTH_READ_ONLY, &back);
	cr_assert(was_told("may be lost"));
	rig_down();
}

Test(nvme_vfu, a_dropped_connection_and_a_server_that_hangs_are_survived, .timeout = 60)
{
	struct nvme_io io[2];

	file_up((struct vfu_server_options){
		.write_through = true, .drop_after = 20, .hang_after = 45, .hang_ms = 2500 });
	for (uint32_t i = 0; i < 70; i += 2) {
		for (uint32_t k = 0; k < 2; k++)
			io[k] = (struct nvme_io){ .op = NVME_WRITE,
						  .block = i + k,
						  .nblocks = 1,
						  .iova = rig.iova + 4096ull * (i + k) };
		fill(rig.buf + 4096ull * i, 8192, i);
		write_them(io, 2);
	}
	write_them(&(struct nvme_io){ .op = NVME_READ,
				      .nblocks = 70,
				      .iova = rig.iova + BUF_BYTES / 2 },
		   1);
	cr_assert_eq(memcmp(rig.buf, rig.buf + BUF_BYTES / 2, 70 * 4096), 0);
	cr_assert(was_told("its server has left"));
	rig_down();
}

Test(nvme_vfu, a_server_that_comes_back_as_another_device_is_refused, .timeout = 60)
{
	struct vfu_server_options changed;

	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	vfu_child_kill(&rig.child);
	changed = rig.child.options;
	changed.no_mmap = true;
	vfu_child_start(&rig.child, &changed);
	cr_assert_eq(reset_within(20000), -ESTALE);
	cr_assert_eq(csts(), NVME_CSTS_GONE);
	rig_down();
}

Test(nvme_vfu, a_reset_disables_the_device_and_keeps_the_connection, .timeout = 60)
{
	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	cr_assert_eq(csts() & NVME_CSTS_RDY, NVME_CSTS_RDY);
	cr_assert_eq(reset_within(20000), 0);
	cr_assert_eq(csts() & NVME_CSTS_RDY, 0);
	cr_assert_eq(alarm_within(0), 0);
	rig.drive->timeout_ns = 50 * NS_PER_MS; /* it has no admin queue now */
	rig_down();
}

Test(nvme_vfu, a_released_device_reads_all_ones_and_takes_no_bell, .timeout = 60)
{
	rig_up((struct vfu_server_options){ 0 });
	drive_up(8);
	rig.drive->ops->release(rig.drive->ctrl);
	cr_assert_eq(csts(), NVME_CSTS_GONE);
	*rig.qp->rings.sq_doorbell = 7;
	cr_assert_eq(rig.drive->ops->reset(rig.drive->ctrl), -ENODEV);
	rig_down();
}
