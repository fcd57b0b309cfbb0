/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The guest's memory, one file:
 *
 *   0          2 GiB                       6 GiB
 *   |  unused  |  guest-physical from 4 GiB on: where IOVAs begin  |
 *
 * A qtest command is a line, its answer another: "readl 0xfe00001c" "OK 0x0000000000000001".
 */
#define _GNU_SOURCE
#include "test/lib/qtest_nvme.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define RAM_BYTES     (6ull << 30)
#define RAM_HIGH      (2ull << 30) /* in the file */
#define RAM_HIGH_IOVA (4ull << 30) /* in the guest */
#define BAR_ADDRESS   0xfe000000ull
#define PCI_DEVICE    4u
#define PCI_COMMAND   0x04u
#define PCI_BAR0      0x10u

/* ---- qtest ------------------------------------------------------------------------------ */

/* One command, and the number of its answer, if it has one. */
static uint64_t qtest(struct qtest_nvme *q, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static uint64_t qtest(struct qtest_nvme *q, const char *format, ...)
{
	char line[128];
	va_list args;
	ssize_t n;
	int len, at = 0;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	ASSERT(len > 0 && len < (int)sizeof(line));
	n = send(q->fd, line, (size_t)len, MSG_NOSIGNAL);
	if (n != len)
		return UINT64_MAX; /* it is gone: all ones, as on a bus */
	q->message_count++;
	do {
		n = read(q->fd, line + at, sizeof(line) - 1 - (size_t)at);
		if (n <= 0)
			return UINT64_MAX;
		at += (int)n;
	} while (line[at - 1] != '\n');
	line[at] = 0;
	ASSERT(strncmp(line, "OK", 2) == 0);
	return line[2] == ' ' ? strtoull(line + 3, NULL, 0) : 0;
}

static uint32_t config_read(struct qtest_nvme *q, uint32_t offset)
{
	(void)qtest(q, "outl 0xcf8 0x%x\n", 0x80000000u | PCI_DEVICE << 11 | offset);
	return (uint32_t)qtest(q, "inl 0xcfc\n");
}

static void config_write(struct qtest_nvme *q, uint32_t offset, uint32_t value)
{
	(void)qtest(q, "outl 0xcf8 0x%x\n", 0x80000000u | PCI_DEVICE << 11 | offset);
	(void)qtest(q, "outl 0xcfc 0x%x\n", value);
}

/* ---- the controller of the seam ----------------------------------------------------------- */

static uint32_t read32(void *ctrl, uint32_t offset)
{
	return (uint32_t)qtest(ctrl, "readl 0x%llx\n", BAR_ADDRESS + offset);
}

static uint64_t read64(void *ctrl, uint32_t offset)
{
	return qtest(ctrl, "readq 0x%llx\n", BAR_ADDRESS + offset);
}

static void forget_doorbells(struct qtest_nvme *q)
{
	for (uint32_t i = 0; i < QTEST_DOORBELLS; i++)
		q->doorbell[i] = QTEST_SENT;
}

static void write32(void *ctrl, uint32_t offset, uint32_t value)
{
	struct qtest_nvme *q = ctrl;

	(void)qtest(q, "writel 0x%llx 0x%x\n", BAR_ADDRESS + offset, value);
	if (offset == NVME_REG_CC && !(value & NVME_CC_EN))
		forget_doorbells(q);
}

static void write64(void *ctrl, uint32_t offset, uint64_t value)
{
	(void)qtest(ctrl, "writeq 0x%llx 0x%llx\n", BAR_ADDRESS + offset,
		    (unsigned long long)value);
}

static volatile uint32_t *doorbell(void *ctrl, uint32_t offset) /* MMIO */
{
	struct qtest_nvme *q = ctrl;
	uint32_t index = (offset - NVME_REG_DOORBELLS) / 4;

	ASSERT(offset % 4 == 0 && index < QTEST_DOORBELLS);
	q->doorbell[index] = QTEST_SENT;
	return &q->doorbell[index];
}

static void ring(struct qtest_nvme *q, uint32_t index)
{
	uint32_t value = q->doorbell[index];

	if (value == QTEST_SENT)
		return;
	q->doorbell[index] = QTEST_SENT;
	(void)qtest(q, "writel 0x%llx 0x%x\n", BAR_ADDRESS + NVME_REG_DOORBELLS + 4ull * index,
		    value);
}

static void service(void *ctrl, uint32_t qid)
{
	struct qtest_nvme *q = ctrl;

	ASSERT(2 * qid + 1 < QTEST_DOORBELLS);
	ring(q, 2 * qid + 1);
	ring(q, 2 * qid);
}

static int wake_fd(void *ctrl, uint32_t qid)
{
	(void)ctrl;
	(void)qid;
	return -1;
}

static bool arm(void *ctrl, uint32_t qid)
{
	(void)ctrl;
	(void)qid;
	return false;
}

static void disarm(void *ctrl, uint32_t qid)
{
	(void)ctrl;
	(void)qid;
}

static int bus_master(void *ctrl, bool on)
{
	config_write(ctrl, PCI_COMMAND, on ? 6 : 2);
	return 0;
}

static void destroy(void *ctrl)
{
	struct qtest_nvme *q = ctrl;

	nvme__dma_detach(q->dma, &q->target);
	(void)kill(q->pid, SIGTERM); /* its images are written out */
	(void)waitpid(q->pid, NULL, 0);
	close(q->fd);
	close(q->ram_fd);
	free(q);
}

const struct nvme_ctrl_ops qtest_nvme_ops = {
	.read32 = read32,
	.read64 = read64,
	.write32 = write32,
	.write64 = write64,
	.doorbell = doorbell,
	.service = service,
	.wake_fd = wake_fd,
	.arm = arm,
	.disarm = disarm,
	.bus_master = bus_master,
	.destroy = destroy,
};

/* ---- its memory ------------------------------------------------------------------------------ */

/* The guest's pages take the place of those that are mapped, with what these hold. */
static int map(struct nvme_dma_target *target, uint64_t iova, const struct nvme_dma_region *region)
{
	struct qtest_nvme *q = container_of(target, struct qtest_nvme, target);
	off_t at = (off_t)(iova - RAM_HIGH_IOVA + RAM_HIGH);
	void *addr;

	if (iova < RAM_HIGH_IOVA || (uint64_t)at + region->size_bytes > RAM_BYTES)
		return -ENOSPC;
	if (pwrite(q->ram_fd, region->addr, region->size_bytes, at) != (ssize_t)region->size_bytes)
		return -errno;
	addr = mmap(region->addr, region->size_bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_FIXED, q->ram_fd, at);
	return addr == region->addr ? 0 : -errno;
}

/* The pages stay where they are: their owner ends them. */
static void unmap(struct nvme_dma_target *target, uint64_t iova, uint64_t size_bytes)
{
	(void)target;
	(void)iova;
	(void)size_bytes;
}

/* ---- its life ------------------------------------------------------------------------------- */

bool qtest_nvme_there(void)
{
	return system("command -v qemu-system-x86_64 >/dev/null") == 0;
}

static void run_qemu(int qtest_fd, int ram_fd, const char *const *args)
{
	char qtest_text[64], ram_text[128];
	/* Debian has no qtest accelerator: TCG does, since no processor runs. */
	const char *argv[QTEST_ARGS_MAX] = {
		/* clang-format off */
		"qemu-system-x86_64", "-nodefaults", "-display", "none", "-S", "-accel", "tcg",
		"-machine", "q35,memory-backend=m0", "-m", "6G", "-object", ram_text,
		"-chardev", qtest_text, "-object", "qtest,id=qt0,chardev=qt,log=/dev/null",
		/* clang-format on */
	};
	size_t argc = 0;

	snprintf(ram_text, sizeof(ram_text),
		 "memory-backend-file,id=m0,size=6G,share=on,prealloc=off,mem-path=/proc/%d/fd/%d",
		 getppid(), ram_fd);
	snprintf(qtest_text, sizeof(qtest_text), "socket,id=qt,fd=%d", qtest_fd);
	while (argv[argc])
		argc++;
	for (; *args; args++) {
		ASSERT(argc + 1 < QTEST_ARGS_MAX);
		argv[argc++] = *args;
	}
	/* A sanitizer's settings are ours, not QEMU's. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

static void find_controller(struct qtest_nvme *q)
{
	uint32_t class_rev = config_read(q, 0x08);

	if (class_rev >> 8 != 0x010802) {
		fprintf(stderr, "qtest_nvme: QEMU does not start, or has no NVMe controller\n");
		abort();
	}
	config_write(q, PCI_BAR0, (uint32_t)BAR_ADDRESS);
	config_write(q, PCI_BAR0 + 4, 0);
	(void)bus_master(q, true);
}

struct qtest_nvme *qtest_nvme_start(struct nvme_dma *dma, const char *const *args)
{
	struct qtest_nvme *q = calloc(1, sizeof(*q));
	int pair[2], err;

	ASSERT(q);
	err = socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	ASSERT(err == 0);
	q->ram_fd = memfd_create("guest-ram", 0);
	ASSERT(q->ram_fd >= 0);
	err = ftruncate(q->ram_fd, (off_t)RAM_BYTES);
	ASSERT(err == 0);
	q->pid = fork();
	ASSERT(q->pid >= 0);
	if (q->pid == 0) {
		close(pair[0]);
		run_qemu(pair[1], q->ram_fd, args);
	}
	close(pair[1]);
	q->fd = pair[0];
	forget_doorbells(q);
	find_controller(q);
	q->dma = dma;
	q->target = (struct nvme_dma_target){ .map = map, .unmap = unmap };
	list_init(&q->target.link);
	err = nvme__dma_attach(dma, &q->target);
	ASSERT(err == 0);
	return q;
}
