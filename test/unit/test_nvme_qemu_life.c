/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * QEMU's model of a controller: its health, events, namespaces that go; buffers that begin
 * anywhere; a memory buffer; a second way up.
 */
#include "test/lib/qtest_nvme.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUF_BYTES        (1u << 20)
#define IMAGE_BYTES      (16u << 20)
#define FEAT_TEMPERATURE 0x04
#define ADMIN_NS_ATTACH  0x15

static char image[64];
static struct nvme_dma *dma;
static uint8_t *buf;
static uint64_t iova;
static struct nvme_drive *drive;
static struct nvme_qpair *qp;
static struct nvme_info info;
static char line[256];

static void make_image(void)
{
	int fd;

	snprintf(image, sizeof(image), "/tmp/weka-qemu.XXXXXX");
	fd = mkstemp(image);
	cr_assert(fd >= 0 && ftruncate(fd, IMAGE_BYTES) == 0);
	close(fd);
}

/* QEMU with one namespace; `more` to its arguments, and to the controller's. */
static int open_with(const char *more, const char *more_ns, char *err_text)
{
	char blockdev[128], controller[128], namespace[256];
	const char *args[] = { "-device",   "nvme-subsys,id=s0,nqn=life",
			       "-blockdev", blockdev,
			       "-device",   controller,
			       "-device",   namespace,
			       NULL };

	if (!qtest_nvme_there()) {
		fprintf(stderr, "skip: no qemu-system-x86_64 here (package qemu-system-x86)\n");
		cr_skip_test("no qemu-system-x86_64");
	}
	make_image();
	snprintf(blockdev, sizeof(blockdev), "driver=file,discard=unmap,node-name=d0,filename=%s",
		 image);
	snprintf(controller, sizeof(controller), "nvme,id=nv,serial=LIFE,addr=4,subsys=s0%s", more);
	snprintf(
		namespace, sizeof(namespace),
		"nvme-ns,bus=nv,drive=d0,nsid=1,logical_block_size=4096,physical_block_size=4096%s",
		more_ns);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(buf != MAP_FAILED);
	cr_assert_eq(nvme_dma_map(dma, buf, BUF_BYTES, &iova), 0);
	return nvme__drive_up(&drive, &qtest_nvme_ops, qtest_nvme_start(dma, args), "qemu", dma,
			      NULL, err_text, NVME_ERR_TEXT);
}

static void up(const char *more)
{
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(open_with(more, "", err_text), 0, "%s", err_text);
	nvme_drive_info(drive, &info);
	cr_assert_eq(nvme_qpair_create(drive, 16, &qp), 0);
}

static void down(void)
{
	nvme_qpair_destroy(qp);
	nvme_close(drive);
	nvme_dma_unmap(dma, iova, BUF_BYTES);
	nvme_dma_destroy(dma);
	munmap(buf, BUF_BYTES);
	cr_assert_eq(unlink(image), 0);
}

static int run(struct nvme_io io)
{
	uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;
	struct nvme_io *done[1];

	cr_assert_eq(nvme_submit(qp, &io), 0);
	nvme_ring(qp);
	while (nvme_poll(qp, done, 1) == 0) {
		cr_assert(clock_now_ns() < deadline_ns, "no answer to an I/O");
		sched_yield();
	}
	return io.status;
}

/* The owner's loop until there is a line with `words`, whatever else it says before. */
static void step_until_line(const char *words)
{
	uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;

	do {
		struct nvme_io *done[1];

		cr_assert(clock_now_ns() < deadline_ns, "no line says: %s", words);
		(void)nvme_drive_step(drive, clock_now_ns());
		cr_assert_eq(nvme_poll(qp, done, 1), 0);
		sched_yield();
		line[0] = 0;
	} while (!nvme_drive_line(drive, line, sizeof(line)) || !strstr(line, words));
}

static void step_until_health_is_known(struct nvme_smart *smart)
{
	uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;

	while (!nvme_drive_smart(drive, smart)) {
		cr_assert(clock_now_ns() < deadline_ns);
		(void)nvme_drive_step(drive, clock_now_ns());
	}
}

Test(nvme_qemu_life, what_it_offers_is_used, .timeout = 60)
{
	up(",cmb_size_mb=16");
	cr_assert(drive->shadow);
	cr_assert(drive->sgl);
	cr_assert_not_null(strstr(info.note, "controller memory buffer is not used"), "%s",
			   info.note);
	cr_assert_gt(info.zero_max_blocks, 0);
	cr_assert_gt(info.deallocate_max_blocks, 0);
	cr_assert_eq(info.atomic_bytes, 4096);
	down();
}

static void expect_refusal(const char *more_ns, const char *why)
{
	char err_text[NVME_ERR_TEXT] = "";

	cr_assert_eq(open_with("", more_ns, err_text), -ENOTSUP, "%s", err_text);
	cr_assert_not_null(strstr(err_text, why), "%s", err_text);
	drive = NULL;
	qp = NULL;
	down();
}

Test(nvme_qemu_life, namespace_that_is_no_plain_store_of_blocks_is_refused_by_name, .timeout = 60)
{
	expect_refusal(",zoned=true,zoned.zone_size=4M", "the namespace is zoned");
	expect_refusal(",ms=8,pi=1", "8 bytes of metadata a block and protection information");
}

Test(nvme_qemu_life, buffers_begin_anywhere, .timeout = 60)
{
	static const uint32_t offsets[] = { 0, 4, 512, 2044, 4092 };

	up(",mdts=4");
	for (uint32_t sgl = 0; sgl < 2; sgl++) {
		nvme_qpair_destroy(qp);
		drive->sgl = sgl;
		cr_assert_eq(nvme_qpair_create(drive, 16, &qp), 0);
		for (size_t o = 0; o < ARRAY_LEN(offsets); o++) {
			for (uint32_t nblocks = 1; nblocks <= 32; nblocks++) {
				uint32_t at = offsets[o], to = 512 * 1024 + 4092 - at;
				struct nvme_io io = { .op = NVME_WRITE,
						      .block = nblocks,
						      .nblocks = nblocks,
						      .iova = iova + at };

				memset(buf, 0xee, BUF_BYTES);
				for (uint32_t i = 0; i < nblocks * 4096; i++)
					buf[at + i] = (uint8_t)(i * 7 + i / 4096 + nblocks);
				cr_assert_eq(run(io), 0);
				io.op = NVME_READ;
				io.iova = iova + to;
				cr_assert_eq(run(io), 0);
				cr_assert_eq(memcmp(buf + at, buf + to, nblocks * 4096), 0,
					     "%u blocks at %u", nblocks, at);
				cr_assert_eq(buf[to - 1], 0xee);
				cr_assert_eq(buf[to + nblocks * 4096], 0xee);
			}
		}
	}
	down();
}

Test(nvme_qemu_life, health_is_read_and_a_warm_drive_is_told_of, .timeout = 60)
{
	struct nvme_sqe lower = nvme__sqe_set_feature(FEAT_TEMPERATURE, 300); /* 27 C */
	struct nvme_smart smart;

	up("");
	cr_assert_not(nvme_drive_smart(drive, &smart));
	step_until_health_is_known(&smart);
	cr_assert(smart.has_temperature);
	cr_assert_eq(smart.celsius, 50, "%d", smart.celsius); /* as QEMU has it: 323 K */
	cr_assert_eq(smart.warnings, 0);
	cr_assert_eq(nvme__admin(drive, &lower, NULL), 0);
	step_until_line("temperature is out of bounds: 50 C");
	cr_assert(nvme_drive_smart(drive, &smart));
	cr_assert_eq(smart.warnings, NVME_WARN_TEMPERATURE);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
	cr_assert_eq(run((struct nvme_io){ .op = NVME_READ, .nblocks = 1, .iova = iova }), 0);
	down();
}

/* Attach (0) or detach (1) namespace 1 from controller 0, as an administrator would. */
static void attach(uint32_t detach)
{
	struct nvme_admin_cmd cmd = { 0 };
	struct nvme_sqe sqe = { .opcode = ADMIN_NS_ATTACH,
				.nsid = le32_of(1),
				.cdw10 = le32_of(detach) };
	le16 *list;

	cr_assert_eq(nvme__admin_page_take(drive, &cmd), 0);
	list = nvme__admin_page(drive, cmd.page);
	list[0] = le16_of(1);
	list[1] = le16_of(0);
	sqe.prp1 = le64_of(nvme__admin_page_iova(drive, cmd.page));
	cr_assert_eq(nvme__admin(drive, &sqe, NULL), 0);
	nvme__admin_page_give(drive, &cmd);
}

Test(nvme_qemu_life, namespace_that_is_taken_away_ends_the_drive_by_name, .timeout = 60)
{
	struct nvme_io io = { .op = NVME_READ, .nblocks = 1 };
	struct nvme_smart smart;

	up("");
	io.iova = iova;
	step_until_health_is_known(&smart); /* it listens by now */
	attach(1);
	step_until_line("namespace 1 has vanished");
	while (nvme_drive_health(drive) != NVME_HEALTH_AWAY) {
		struct nvme_io *done[1];

		(void)nvme_drive_step(drive, clock_now_ns());
		cr_assert_eq(nvme_poll(qp, done, 1), 0);
	}
	cr_assert_eq(nvme_submit(qp, &io), -EHOSTDOWN);
	down();
}

Test(nvme_qemu_life, ranges_are_given_up_and_read_as_zeroes, .timeout = 60)
{
	struct nvme_io io = { .op = NVME_WRITE, .block = 10, .nblocks = 100 };

	up("");
	io.iova = iova;
	memset(buf, 0xab, BUF_BYTES);
	cr_assert_eq(run(io), 0);
	cr_assert_eq(run((struct nvme_io){ .op = NVME_DEALLOCATE, .block = 11, .nblocks = 98 }), 0);
	io.op = NVME_READ;
	memset(buf, 0xcd, BUF_BYTES);
	cr_assert_eq(run(io), 0);
	for (uint32_t i = 0; i < 100 * 4096; i++)
		cr_assert_eq(buf[i], i / 4096 == 0 || i / 4096 == 99 ? 0xab : 0, "byte %u: %02x", i,
			     buf[i]);
	down();
}

Test(nvme_qemu_life, comes_up_again_as_the_same_drive, .timeout = 60)
{
	uint64_t deadline_ns;
	int rc;

	up("");
	for (int round = 0; round < 3; round++) {
		nvme_qpair_destroy(qp);
		nvme__up_begin(&drive->up, drive, true, info.qpair_count_max);
		deadline_ns = clock_now_ns() + 20 * NS_PER_S;
		while ((rc = nvme__up_step(&drive->up, clock_now_ns())) > 0)
			cr_assert(clock_now_ns() < deadline_ns);
		cr_assert_eq(rc, 0, "%s", drive->up.text);
		cr_assert_eq(nvme_qpair_create(drive, 16, &qp), 0);
		cr_assert_eq(run((struct nvme_io){ .op = NVME_READ, .nblocks = 9, .iova = iova }),
			     0);
	}
	down();
}
