/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The controller interface for a controller in another process.
 *
 *                 reply late, socket closed, nonsense
 *   live ----------------------------------------------> gone     registers read all ones,
 *    ^                                                     |      doorbells have no effect
 *    +------ keeper: connected, set up as before <--- reset()
 *
 * Registers are messages whose answers are collected later; doorbells are words in a page of the
 * server, or, if it offers none, words of ours that service() sends when they have changed.
 * Interrupts are eventfds that the server has from the creation of a queue on: attaching one needs
 * the server's answer, and a core that is about to sleep must not wait.  A server that would be
 * slowed down by writing to them while we poll may coalesce interrupts.
 *
 * A reset or reconnect waits for the server and allocates memory, which a polling thread must not:
 * the drive's own thread, the keeper, does it, while reset() returns -EAGAIN.
 *
 *   R3 -> A3   (nvme_vfu_conn.c) that its server has left
 *   R4 -> A4   (A4 in nvme_vfu.h, too) the polling thread's last use of the device comes before
 *              `released`
 *
 * Invariants, true between any two calls:
 *
 *  (1) The opener opens and closes the connection before the keeper runs; then only the keeper
 *      does.
 *  (2) Doorbell pointers and eventfds stay the same until the drive is destroyed
 *      [test_nvme_vfu:a_killed_server_is_noticed_and_found_again,
 *      test_nvme_vfu:a_server_that_comes_back_as_another_device_is_refused].
 *  (3) NVME_ALARM_GONE is raised once for each connection
 *      [test_nvme_vfu:a_server_that_is_gone_is_said_once_and_reads_all_ones].
 */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfu.h"
#include "nvme/mmio.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIMEOUT_NS     (10 * NS_PER_S)
#define TIMEOUT_MIN_NS (2 * NS_PER_S) /* setting up may take a server longer than a command */

/* ---- registers ------------------------------------------------------------------------- */

static uint32_t vfu_read32(void *ctrl, uint32_t offset)
{
	return (uint32_t)nvme__vfu_reg_read(ctrl, offset, 4);
}

static uint64_t vfu_read64(void *ctrl, uint32_t offset)
{
	return nvme__vfu_reg_read(ctrl, offset, 8);
}

static int vfu_ask(void *ctrl, uint32_t offset, uint32_t size_bytes, uint64_t *value)
{
	return nvme__vfu_reg_ask(ctrl, offset, size_bytes, value);
}

/* Disabled, a controller forgets its doorbells. */
static void forget_doorbells(struct nvme_vfu *vfu)
{
	for (uint32_t i = 0; i < NVME_VFU_DOORBELLS && vfu->doorbell; i++)
		vfu->doorbell[i].word = NVME_VFU_SENT;
}

static void vfu_write32(void *ctrl, uint32_t offset, uint32_t value)
{
	nvme__vfu_reg_write(ctrl, offset, 4, value);
	if (offset == NVME_REG_CC && !(value & NVME_CC_EN))
		forget_doorbells(ctrl);
}

static void vfu_write64(void *ctrl, uint32_t offset, uint64_t value)
{
	nvme__vfu_reg_write(ctrl, offset, 8, value);
}

/* ---- doorbells ------------------------------------------------------------------------- */

static volatile uint32_t *vfu_doorbell(void *ctrl, uint32_t offset) /* MMIO */
{
	struct nvme_vfu *vfu = ctrl;
	uint64_t at = offset - NVME_REG_DOORBELLS;
	struct nvme_vfu_doorbell *d;

	ASSERT(offset >= NVME_REG_DOORBELLS);
	/* One whose capabilities were others when it was set up hears nothing. */
	if (at % vfu->doorbell_stride != 0 || at / vfu->doorbell_stride >= NVME_VFU_DOORBELLS)
		return &vfu->nowhere;
	if (vfu->mapped_doorbells) {
		/* A server that grants more queues than its BAR has doorbells hears nothing. */
		if (offset + sizeof(uint32_t) > vfu->bar.size_bytes)
			return &vfu->nowhere;
		return vfu->mapped_doorbells + at / sizeof(uint32_t);
	}
	d = &vfu->doorbell[at / vfu->doorbell_stride];
	d->word = NVME_VFU_SENT; /* a new queue's */
	return &d->word;
}

/* Without waiting: what does not fit into the socket now goes the next time. */
static void send_doorbell(struct nvme_vfu *vfu, uint32_t index)
{
	struct nvme_vfu_doorbell *d = &vfu->doorbell[index];
	uint32_t value = d->word;
	struct vfu_region_rw rw = { le64_of(NVME_REG_DOORBELLS + index * vfu->doorbell_stride),
				    le32_of(VFU_REGION_BAR0), le32_of(sizeof(value)) };
	struct nvme_vfu_call call = { .command = VFU_REGION_WRITE,
				      .head = &rw,
				      .head_bytes = sizeof(rw),
				      .data = &value,
				      .data_bytes = sizeof(value) };

	if (value != NVME_VFU_SENT && nvme__vfu_is_live(vfu) &&
	    nvme__vfu_post(&vfu->conn, &call) == 0)
		d->word = NVME_VFU_SENT;
}

/* The completion queue's doorbell goes first, so that the server has room for new commands. */
static void vfu_service(void *ctrl, uint32_t qid)
{
	struct nvme_vfu *vfu = ctrl;

	ASSERT(qid <= NVME_QPAIRS_MAX);
	send_doorbell(vfu, 2 * qid + 1);
	send_doorbell(vfu, 2 * qid);
}

/* ---- sleep ----------------------------------------------------------------------------- */

/* Queue and vector have the same number. */
static int vfu_vector(void *ctrl, uint32_t qid)
{
	struct nvme_vfu *vfu = ctrl;

	if (qid >= vfu->vector_count)
		return -1;
	if (vfu->wake_fd[qid] >= 0)
		return (int)qid;
	vfu->wake_fd[qid] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vfu->wake_fd[qid] < 0)
		return -1;
	if (nvme__vfu_attach_vector(vfu, qid) == 0)
		return (int)qid;
	close(vfu->wake_fd[qid]);
	vfu->wake_fd[qid] = -1;
	return -1;
}

static int vfu_wake_fd(void *ctrl, uint32_t qid)
{
	return ((struct nvme_vfu *)ctrl)->wake_fd[qid];
}

static void drain(const struct nvme_vfu *vfu, uint32_t qid)
{
	uint64_t count;

	(void)!read(vfu->wake_fd[qid], &count, sizeof(count));
}

/* Doorbells of `qid` that the server has yet to hear of, since the socket is full. */
static bool owes_doorbells(struct nvme_vfu *vfu, uint32_t qid)
{
	if (!vfu->doorbell)
		return false;
	vfu_service(vfu, qid);
	return nvme__vfu_is_live(vfu) && (vfu->doorbell[2 * qid].word != NVME_VFU_SENT ||
					  vfu->doorbell[2 * qid + 1].word != NVME_VFU_SENT);
}

/* Events that came while we polled must not end the sleep; later ones do. */
static bool vfu_arm(void *ctrl, uint32_t qid)
{
	struct nvme_vfu *vfu = ctrl;

	if (owes_doorbells(vfu, qid) || vfu->wake_fd[qid] < 0)
		return false;
	drain(vfu, qid);
	return true;
}

static void vfu_disarm(void *ctrl, uint32_t qid)
{
	struct nvme_vfu *vfu = ctrl;

	if (vfu->wake_fd[qid] >= 0)
		drain(vfu, qid);
}

/* ---- when the server goes ---------------------------------------------------------------- */

static int vfu_alarm_fd(void *ctrl)
{
	return ((struct nvme_vfu *)ctrl)->alarm_fd;
}

static uint32_t vfu_alarm(void *ctrl)
{
	struct nvme_vfu *vfu = ctrl;
	uint32_t bits = 0;

	pthread_mutex_lock(&vfu->keeper.lock);
	if (!vfu->told && !nvme__vfu_look(&vfu->conn)) {
		vfu->told = true;
		bits = NVME_ALARM_GONE;
		if (vfu->conn.fd >= 0)
			(void)!epoll_ctl(vfu->alarm_fd, EPOLL_CTL_DEL, vfu->conn.fd, NULL);
	}
	pthread_mutex_unlock(&vfu->keeper.lock);
	return bits;
}

/* The connection is new: watch it. */
static int watch(struct nvme_vfu *vfu)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (epoll_ctl(vfu->alarm_fd, EPOLL_CTL_ADD, vfu->conn.fd, &ev) == 0)
		return 0;
	return errno == EEXIST ? 0 : -errno;
}

static int reset_device(struct nvme_vfu *vfu)
{
	struct nvme_vfu_call call = { .command = VFU_DEVICE_RESET };
	int err;

	if (!vfu->device.resets)
		return -ENOTSUP;
	err = nvme__vfu_begin(&vfu->conn, &call);
	nvme__vfu_end(&vfu->conn, &call);
	return err ? err : nvme__vfu_bus_master(vfu, true);
}

static int reconnect(struct nvme_vfu *vfu)
{
	int err;

	nvme__vfu_take_down(vfu);
	err = nvme__vfu_setup(vfu);
	if (err)
		return err;
	pthread_mutex_lock(&vfu->keeper.lock);
	err = watch(vfu);
	vfu->told = false;
	pthread_mutex_unlock(&vfu->keeper.lock);
	return err ? err : 1;
}

/*
 * The keeper's: 0: the device is reset; 1: it is back, and whether it is the same incarnation
 * nobody can know; -EAGAIN as long as there is no server to connect to.
 */
static int reset_or_reconnect(void *of)
{
	struct nvme_vfu *vfu = of;
	int err = nvme__vfu_is_live(vfu) ? reset_device(vfu) : -ENODEV;

	if (err == -ENOTSUP) /* to a new connection it is a device that was just made */
		nvme__vfu_conn_break(&vfu->conn, "its server cannot reset it");
	if (!nvme__vfu_is_live(vfu) && !atomic_load_explicit(&vfu->released, memory_order_relaxed))
		err = reconnect(vfu);
	return err >= 0 || err == -ESTALE || err == -ENOTSUP ? err : -EAGAIN;
}

static void give_back(void *of)
{
	struct nvme_vfu *vfu = of;

	if (!atomic_load_explicit(&vfu->released, memory_order_acquire)) /* A4 */
		return;
	nvme__vfu_take_down(vfu);
	nvme__vfu_unmap(vfu);
}

static int vfu_reset(void *ctrl)
{
	struct nvme_vfu *vfu = ctrl;

	if (atomic_load_explicit(&vfu->released, memory_order_relaxed))
		return -ENODEV;
	return nvme__keeper_ask(&vfu->keeper);
}

/*
 * Called by a polling thread, so it neither waits nor frees: the keeper gives everything back after
 * its current job.
 */
static void vfu_release(void *ctrl)
{
	struct nvme_vfu *vfu = ctrl;

	atomic_store_explicit(&vfu->released, true, memory_order_release); /* R4 */
	nvme__vfu_conn_break(&vfu->conn, "it was given back");
	nvme__keeper_end(&vfu->keeper);
}

/* The keeper keeps trying to connect; if it has succeeded, the server has not left. */
static bool vfu_left(void *ctrl)
{
	/* A3 */
	return atomic_load_explicit(&((struct nvme_vfu *)ctrl)->conn.left, memory_order_acquire);
}

static const char *vfu_why(void *ctrl)
{
	const struct nvme_vfu *vfu = ctrl;
	const char *why = atomic_load_explicit(&vfu->conn.why, memory_order_relaxed);

	return why ? why : "its registers read all ones";
}

/* ---- its life ---------------------------------------------------------------------------- */

static void vfu_note(void *ctrl, char *text, size_t text_size)
{
	const struct nvme_vfu *vfu = ctrl;

	if (vfu->vector_count == 0)
		snprintf(text, text_size,
			 "the server has no eventfd interrupts: cores do not sleep");
	else if (vfu->doorbell)
		snprintf(text, text_size,
			 "doorbells are messages: the server offers no page for them");
}

static void vfu_destroy(void *ctrl)
{
	struct nvme_vfu *vfu = ctrl;

	nvme__keeper_destroy(&vfu->keeper);
	nvme__vfu_take_down(vfu);
	nvme__vfu_forget_mappings(vfu);
	for (uint32_t i = 0; i < ARRAY_LEN(vfu->wake_fd); i++) {
		if (vfu->wake_fd[i] >= 0)
			close(vfu->wake_fd[i]);
	}
	if (vfu->alarm_fd >= 0)
		close(vfu->alarm_fd);
	nvme__vfu_conn_destroy(&vfu->conn);
	free(vfu->doorbell);
	free(vfu);
}

/*
 * Doorbells that are messages need service() too: such a drive has a table of its own.  There is no
 * bus_master: it would be one more word of a server that has just not kept two others.
 */
static const struct nvme_ctrl_ops vfu_ops = {
	.read32 = vfu_read32,
	.read64 = vfu_read64,
	.ask = vfu_ask,
	.write32 = vfu_write32,
	.write64 = vfu_write64,
	.doorbell = vfu_doorbell,
	.wake_fd = vfu_wake_fd,
	.arm = vfu_arm,
	.disarm = vfu_disarm,
	.vector = vfu_vector,
	.reset = vfu_reset,
	.alarm_fd = vfu_alarm_fd,
	.alarm = vfu_alarm,
	.release = vfu_release,
	.left = vfu_left,
	.why = vfu_why,
	.note = vfu_note,
	.destroy = vfu_destroy,
};

static int dma_map(struct nvme_dma_target *target, uint64_t iova,
		   const struct nvme_dma_region *region)
{
	struct nvme_vfu *vfu = container_of(target, struct nvme_vfu, target);
	struct vfu_dma_map map = { .argsz = le32_of(sizeof(map)),
				   .flags = le32_of(VFU_DMA_READABLE | VFU_DMA_WRITABLE),
				   .fd_offset = le64_of(region->fd_offset),
				   .iova = le64_of(iova),
				   .size = le64_of(region->size_bytes) };
	struct nvme_vfu_call call = { .command = VFU_DMA_MAP,
				      .head = &map,
				      .head_bytes = sizeof(map),
				      .fds = &region->fd,
				      .fd_count = 1 };
	int err;

	vfu->refused_memory = region->fd < 0;
	if (region->fd < 0)
		return -EINVAL;
	if (vfu->dma_map_count >= vfu->caps.dma_maps_max)
		return -ENOSPC;
	err = nvme__vfu_begin(&vfu->conn, &call);
	nvme__vfu_end(&vfu->conn, &call);
	if (!nvme__vfu_is_live(vfu))
		return 0; /* it is told of all mappings when it comes back */
	if (!err)
		vfu->dma_map_count++;
	return err;
}

/* On return the server has unmapped it; a server that does not confirm is disconnected. */
static void dma_unmap(struct nvme_dma_target *target, uint64_t iova, uint64_t size_bytes)
{
	struct nvme_vfu *vfu = container_of(target, struct nvme_vfu, target);
	struct vfu_dma_unmap unmap = { .argsz = le32_of(sizeof(unmap)),
				       .iova = le64_of(iova),
				       .size = le64_of(size_bytes) };
	struct nvme_vfu_call call = { .command = VFU_DMA_UNMAP,
				      .head = &unmap,
				      .head_bytes = sizeof(unmap) };
	int err = nvme__vfu_begin(&vfu->conn, &call);

	if (err && nvme__vfu_is_live(vfu))
		(void)nvme__vfu_nonsense(&vfu->conn, "the server does not let go of memory");
	nvme__vfu_end(&vfu->conn, &call);
	if (!err)
		vfu->dma_map_count--;
}

/* A reply may take as long as a command: some servers answer when the work is done. */
static uint64_t reply_ns(const struct nvme_options *options)
{
	uint64_t io_ns = options && options->io_timeout_ns ? options->io_timeout_ns : TIMEOUT_NS;

	return max_u64(min_u64(io_ns, NVME_TIMEOUT_MAX), TIMEOUT_MIN_NS);
}

static struct nvme_vfu *make(const struct nvme_name *parsed, struct nvme_dma *dma,
			     const struct nvme_options *options)
{
	struct nvme_vfu *vfu = calloc(1, sizeof(*vfu));

	if (!vfu || nvme__vfu_conn_init(&vfu->conn, dma, reply_ns(options))) {
		free(vfu);
		return NULL;
	}
	vfu->dma = dma;
	vfu->target =
		(struct nvme_dma_target){ .wants_files = true, .map = dma_map, .unmap = dma_unmap };
	list_init(&vfu->target.link);
	for (uint32_t i = 0; i < ARRAY_LEN(vfu->wake_fd); i++)
		vfu->wake_fd[i] = -1;
	ASSERT(strlen(parsed->path) < sizeof(vfu->path)); /* nvme__vfu_open() saw to it */
	memcpy(vfu->path, parsed->path, strlen(parsed->path) + 1);
	nvme__keeper_init(&vfu->keeper, reset_or_reconnect, give_back, vfu);
	vfu->alarm_fd = epoll_create1(EPOLL_CLOEXEC);
	return vfu;
}

static int start(struct nvme_vfu *vfu)
{
	int err;

	if (vfu->alarm_fd < 0) {
		snprintf(vfu->why, sizeof(vfu->why), "no file descriptor for it");
		return -EMFILE;
	}
	err = nvme__vfu_setup(vfu);
	if (err)
		return err;
	snprintf(vfu->why, sizeof(vfu->why), "no thread for it");
	(void)vfu_vector(vfu, 0); /* of the admin queue; without it no thread sleeps */
	err = watch(vfu);
	return err ? err : nvme__keeper_start(&vfu->keeper);
}

void nvme__vfu_find_socket(struct nvme_name *name)
{
	size_t used = strlen(name->path);
	struct stat st;

	if (name->kind == NVME_NAME_VFIO_USER && stat(name->path, &st) == 0 &&
	    S_ISDIR(st.st_mode) && used + sizeof("/cntrl") <= sizeof(name->path))
		memcpy(name->path + used, "/cntrl", sizeof("/cntrl"));
}

int nvme__vfu_open(struct nvme__found *out, const struct nvme_name *parsed, const char *name,
		   struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		   size_t err_text_size)
{
	struct nvme_vfu *vfu;
	int err;

	if (strlen(parsed->path) >= sizeof(vfu->path)) {
		nvme__err_text(err_text, err_text_size, name,
			       "a socket's path has at most %zu bytes", sizeof(vfu->path) - 1);
		return -ENAMETOOLONG;
	}
	vfu = make(parsed, dma, options);
	if (!vfu) {
		nvme__err_text(err_text, err_text_size, name, "out of memory");
		return -ENOMEM;
	}
	err = start(vfu);
	if (err) {
		nvme__err_text(err_text, err_text_size, name, "%s", vfu->why);
		vfu_destroy(vfu);
		return err;
	}
	vfu->ops = vfu_ops;
	vfu->ops.service = vfu->doorbell ? vfu_service : NULL;
	*out = (struct nvme__found){ &vfu->ops, vfu };
	return 0;
}
