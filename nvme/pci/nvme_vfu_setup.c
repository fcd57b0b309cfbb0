/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sets up a device behind a socket's path.
 *
 *   connected --> version agreed --> device known --> BAR 0 known --> mapped --> vectors known
 *     --> is NVMe, bus mastering --> doorbells known --> our memory shared --> vectors attached
 *
 *   BAR 0   | registers: messages | doorbells: mapped, or messages |
 *           0                     0x1000
 *
 * A second setup, after the server has gone and come back, puts the new mappings at the old
 * addresses, because the driver has addresses of doorbells.  A server whose device has changed
 * meanwhile is refused.
 *
 *   R2 -> A2   (nvme_vfu_conn.c) a connection is whole before `broken` is false
 *   R3 -> A3   (A3 in nvme_vfu.c) `left` is false before the server gets any of our memory
 *
 * Invariants, true between any two calls:
 *
 *  (1) Mapped addresses stay mapped until nvme__vfu_forget_mappings(), whatever the server does
 *      [test_nvme_vfu:a_server_that_cuts_its_doorbells_off_kills_nobody].
 *  (2) The server has our memory exactly while `attached`
 *      [test_nvme_vfu:memory_is_shared_and_taken_back_while_the_drive_runs].
 */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfio.h"
#include "nvme/pci/nvme_vfu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PCI_COMMAND         0x04u
#define PCI_MEMORY          0x2u
#define PCI_BUS_MASTER      0x4u
#define PCI_CLASS_REV       0x08u
#define PCI_CLASS_NVME      0x010802u
#define DMA_MAPS_MIN        4u /* queues, buffers, and some clients' */
#define DOORBELL_BYTES(vfu) (NVME_VFU_DOORBELLS * (vfu)->doorbell_stride)

static int refuse(struct nvme_vfu *vfu, int err, const char *what)
{
	snprintf(vfu->why, sizeof(vfu->why), "%s", what);
	return err;
}

/* Why an exchange failed: the connection's own word for it, or the server's refusal. */
static int refused(struct nvme_vfu *vfu, int err, const char *what)
{
	const char *why = atomic_load_explicit(&vfu->conn.why, memory_order_relaxed);

	if (atomic_load_explicit(&vfu->conn.broken, memory_order_acquire)) /* A2 */
		snprintf(vfu->why, sizeof(vfu->why), "%s", why ? why : "its server has left");
	else
		snprintf(vfu->why, sizeof(vfu->why), "the server refuses %s (%s)", what,
			 strerror(-err));
	return err;
}

/* ---- the device ------------------------------------------------------------------------- */

static int negotiate(struct nvme_vfu *vfu)
{
	struct vfu_version version = { le16_of(VFU_MAJOR), le16_of(VFU_MINOR) };
	struct nvme_vfu_call call = { .command = VFU_VERSION,
				      .head = &version,
				      .head_bytes = sizeof(version) };
	const char *wrong;
	char json[128];
	int err;

	snprintf(json, sizeof(json),
		 "{\"capabilities\":{\"max_msg_fds\":%u,\"max_data_xfer_size\":%u}}",
		 NVME_VFU_FDS_MAX, NVME_VFU_XFER_MAX);
	call.data = json;
	call.data_bytes = (uint32_t)strlen(json) + 1;
	err = nvme__vfu_begin(&vfu->conn, &call);
	if (!err) {
		wrong = nvme__vfu_parse_version(vfu->conn.body, call.body_bytes, &vfu->caps);
		err = wrong ? nvme__vfu_nonsense(&vfu->conn, wrong) : 0;
	}
	nvme__vfu_end(&vfu->conn, &call);
	if (err)
		return refused(vfu, err, "our version");
	if (vfu->caps.xfer_max < sizeof(uint64_t))
		return refuse(vfu, -ENOTSUP, "the server takes no registers of 8 bytes");
	if (vfu->caps.dma_maps_max < DMA_MAPS_MIN)
		return refuse(vfu, -ENOTSUP, "the server takes too few pieces of memory");
	return 0;
}

static int learn_device(struct nvme_vfu *vfu)
{
	struct vfu_device_info ask = { .argsz = le32_of(sizeof(ask)) };
	struct nvme_vfu_call call = { .command = VFU_DEVICE_GET_INFO,
				      .head = &ask,
				      .head_bytes = sizeof(ask) };
	const char *wrong;
	int err = nvme__vfu_begin(&vfu->conn, &call);

	if (!err) {
		wrong = nvme__vfu_parse_device(vfu->conn.body, call.body_bytes, &vfu->device);
		err = wrong ? nvme__vfu_nonsense(&vfu->conn, wrong) : 0;
	}
	nvme__vfu_end(&vfu->conn, &call);
	return err ? refused(vfu, err, "to describe its device") : 0;
}

/* A file of the server that is shorter than promised would kill us on access. */
static bool file_holds(int fd, uint64_t end)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size >= end);
}

/* (1): over the old mapping, when there is one. */
static int map_area(struct nvme_vfu *vfu, uint32_t i, const struct nvme_vfu_area *area, int fd)
{
	struct nvme_vfu_mapping *m = &vfu->map[i];
	uint64_t at = vfu->bar.fd_offset + area->offset;
	int fixed = m->addr ? MAP_FIXED : 0;
	void *addr;

	if (m->addr && (m->offset != area->offset || m->size_bytes != area->size_bytes))
		return refuse(vfu, -ESTALE, "the server came back with another device");
	if (at % NVME_PAGE_SIZE != 0 || !file_holds(fd, at + area->size_bytes))
		return refuse(vfu, -EPROTO, "the server's file does not hold its registers");
	if (area->size_bytes > NVME_VFU_MAPPING_MAX)
		return refuse(vfu, -EPROTO, "the server's registers are larger than any are");
	addr = mmap(m->addr, area->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd,
		    (off_t)at);
	if (addr == MAP_FAILED)
		return refuse(vfu, -errno, "the server's registers cannot be mapped");
	if (!m->addr && nvme__guard_add(addr, area->size_bytes, -1, &m->guard)) {
		munmap(addr, area->size_bytes);
		return refuse(vfu, -ENOSPC, "the server's registers cannot be guarded");
	}
	*m = (struct nvme_vfu_mapping){ addr, area->offset, area->size_bytes, m->guard };
	return 0;
}

static int map_bar(struct nvme_vfu *vfu, const struct nvme_vfu_call *call)
{
	uint32_t count = vfu->bar.area_count;
	int err = 0;

	if (count > 0 && call->reply_fd_count == 0)
		return refuse(vfu, -EPROTO, "the server offers registers to map, but no file");
	if (vfu->map_count > 0 && vfu->map_count != count)
		return refuse(vfu, -ESTALE, "the server came back with another device");
	for (uint32_t i = 0; i < count && !err; i++) {
		err = map_area(vfu, i, &vfu->bar.area[i], call->reply_fd[0]);
		if (!err && vfu->map_count <= i)
			vfu->map_count = i + 1;
	}
	return err;
}

static int learn_bar(struct nvme_vfu *vfu)
{
	struct vfu_region_info ask = { .argsz = le32_of(NVME_VFU_BODY_MAX),
				       .index = le32_of(VFU_REGION_BAR0) };
	struct nvme_vfu_call call = { .command = VFU_GET_REGION_INFO,
				      .head = &ask,
				      .head_bytes = sizeof(ask) };
	const char *wrong;
	int err = nvme__vfu_begin(&vfu->conn, &call);

	if (!err) {
		wrong = nvme__vfu_parse_region(vfu->conn.body, call.body_bytes, VFU_REGION_BAR0,
					       &vfu->bar);
		err = wrong ? nvme__vfu_nonsense(&vfu->conn, wrong) : 0;
	}
	if (err)
		err = refused(vfu, err, "to describe its registers");
	else if (!vfu->bar.readable || !vfu->bar.writable ||
		 vfu->bar.size_bytes < NVME_REG_DOORBELLS + 4 * sizeof(uint32_t))
		err = refuse(vfu, -ENODEV, "the device has no registers as NVMe has them");
	else
		err = map_bar(vfu, &call);
	nvme__vfu_end(&vfu->conn, &call);
	return err;
}

static int learn_vectors(struct nvme_vfu *vfu)
{
	struct vfu_irq_info ask = { .argsz = le32_of(sizeof(ask)), .index = le32_of(VFU_IRQ_MSIX) };
	struct nvme_vfu_call call = { .command = VFU_GET_IRQ_INFO,
				      .head = &ask,
				      .head_bytes = sizeof(ask) };
	const char *wrong;
	int err;

	vfu->vector_count = 0;
	if (vfu->device.irq_count <= VFU_IRQ_MSIX)
		return 0;
	err = nvme__vfu_begin(&vfu->conn, &call);
	if (!err) {
		wrong = nvme__vfu_parse_irq(vfu->conn.body, call.body_bytes, VFU_IRQ_MSIX,
					    &vfu->vector_count);
		err = wrong ? nvme__vfu_nonsense(&vfu->conn, wrong) : 0;
	}
	nvme__vfu_end(&vfu->conn, &call);
	return err ? refused(vfu, err, "to describe its interrupts") : 0;
}

/* ---- registers ---------------------------------------------------------------------------- */

static int access(struct nvme_vfu *vfu, uint16_t command, uint32_t region, uint64_t offset,
		  uint32_t size_bytes, uint64_t *value)
{
	struct vfu_region_rw rw = { le64_of(offset), le32_of(region), le32_of(size_bytes) };
	struct nvme_vfu_call call = { .command = command, .head = &rw, .head_bytes = sizeof(rw) };
	bool write = command == VFU_REGION_WRITE;
	const uint8_t *data;
	const char *wrong;
	int err;

	ASSERT(size_bytes <= sizeof(*value));
	if (write) {
		call.data = value;
		call.data_bytes = size_bytes;
	}
	err = nvme__vfu_begin(&vfu->conn, &call);
	if (!err) {
		wrong = nvme__vfu_parse_rw(vfu->conn.body, call.body_bytes, &rw,
					   write ? NULL : &data);
		err = wrong ? nvme__vfu_nonsense(&vfu->conn, wrong) : 0;
	}
	if (!err && !write) {
		*value = 0;
		memcpy(value, data, size_bytes);
	}
	nvme__vfu_end(&vfu->conn, &call);
	return err;
}

int nvme__vfu_read(struct nvme_vfu *vfu, uint32_t region, uint64_t offset, uint32_t size_bytes,
		   uint64_t *value)
{
	int err = access(vfu, VFU_REGION_READ, region, offset, size_bytes, value);

	if (err)
		*value = UINT64_MAX;
	return err;
}

int nvme__vfu_write(struct nvme_vfu *vfu, uint32_t region, uint64_t offset, uint32_t size_bytes,
		    uint64_t value)
{
	return access(vfu, VFU_REGION_WRITE, region, offset, size_bytes, &value);
}

int nvme__vfu_bus_master(struct nvme_vfu *vfu, bool on)
{
	uint64_t command;
	int err = nvme__vfu_read(vfu, VFU_REGION_CONFIG, PCI_COMMAND, 2, &command);

	if (err)
		return err;
	command |= PCI_MEMORY;
	command = on ? command | PCI_BUS_MASTER : command & ~(uint64_t)PCI_BUS_MASTER;
	return nvme__vfu_write(vfu, VFU_REGION_CONFIG, PCI_COMMAND, 2, command);
}

static int claim_device(struct nvme_vfu *vfu)
{
	uint64_t class_rev;
	int err = nvme__vfu_read(vfu, VFU_REGION_CONFIG, PCI_CLASS_REV, 4, &class_rev);

	if (!err && class_rev >> 8 != PCI_CLASS_NVME)
		return refuse(vfu, -ENODEV, "the server's device is no NVMe controller");
	if (!err)
		err = nvme__vfu_bus_master(vfu, true);
	return err ? refused(vfu, err, "its configuration space") : 0;
}

/* How they are written is decided once: the driver holds their addresses. */
static int keep_doorbells(struct nvme_vfu *vfu, void *found)
{
	if (vfu->doorbell)
		return 0;
	if (vfu->mapped_doorbells)
		return found == vfu->mapped_doorbells
			       ? 0
			       : refuse(vfu, -ESTALE, "the server came back with another device");
	vfu->mapped_doorbells = found;
	if (found)
		return 0;
	vfu->doorbell = aligned_alloc(_Alignof(struct nvme_vfu_doorbell),
				      NVME_VFU_DOORBELLS * sizeof(*vfu->doorbell));
	if (!vfu->doorbell)
		return refuse(vfu, -ENOMEM, "out of memory");
	memset(vfu->doorbell, 0xff, NVME_VFU_DOORBELLS * sizeof(*vfu->doorbell)); /* sent */
	return 0;
}

/* Mapped, when one mapping holds all that the BAR has; else each is a message. */
static int find_doorbells(struct nvme_vfu *vfu)
{
	void *found = NULL;
	uint64_t cap, begin = NVME_REG_DOORBELLS, end;
	int err = nvme__vfu_read(vfu, VFU_REGION_BAR0, NVME_REG_CAP, 8, &cap);

	if (err)
		return refused(vfu, err, "its capabilities register");
	vfu->doorbell_stride = 4ull << NVME_CAP_DSTRD(cap);
	end = min_u64(vfu->bar.size_bytes, begin + DOORBELL_BYTES(vfu));
	for (uint32_t i = 0; i < vfu->map_count; i++) {
		const struct nvme_vfu_mapping *m = &vfu->map[i];

		if (m->offset <= begin && m->offset + m->size_bytes >= end)
			found = m->addr + (begin - m->offset);
	}
	return keep_doorbells(vfu, found);
}

/* ---- our memory, our eventfds --------------------------------------------------------------- */

static int share_memory(struct nvme_vfu *vfu)
{
	int err;

	atomic_store_explicit(&vfu->conn.left, false,
			      memory_order_release); /* R3: it may have it */
	err = nvme__dma_attach(vfu->dma, &vfu->target);
	vfu->attached = err == 0; /* (2) */
	if (err == -EINVAL && vfu->refused_memory)
		return refuse(vfu, err, "memory that is no file cannot be shared with a server");
	if (err == -ENOSPC)
		return refuse(vfu, err, "the server takes no more pieces of memory");
	if (!err && atomic_load_explicit(&vfu->conn.broken, memory_order_acquire)) /* A2 */
		err = -ENODEV;
	return err ? refused(vfu, err, "our memory") : 0;
}

int nvme__vfu_attach_vector(struct nvme_vfu *vfu, uint32_t vector)
{
	struct vfu_irq_set set = { .argsz = le32_of(sizeof(set)),
				   .flags = le32_of(VFU_IRQ_DATA_EVENTFD | VFU_IRQ_ACTION_TRIGGER),
				   .index = le32_of(VFU_IRQ_MSIX),
				   .start = le32_of(vector),
				   .count = le32_of(1) };
	struct nvme_vfu_call call = { .command = VFU_SET_IRQS,
				      .head = &set,
				      .head_bytes = sizeof(set),
				      .fds = &vfu->wake_fd[vector],
				      .fd_count = 1 };
	int err = nvme__vfu_begin(&vfu->conn, &call);

	nvme__vfu_end(&vfu->conn, &call);
	return err;
}

static int attach_vectors(struct nvme_vfu *vfu)
{
	int err = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(vfu->wake_fd) && !err; i++) {
		if (vfu->wake_fd[i] < 0)
			continue;
		if (i >= vfu->vector_count)
			return refuse(vfu, -ESTALE, "the server came back with another device");
		err = nvme__vfu_attach_vector(vfu, i);
	}
	return err ? refused(vfu, err, "our eventfds") : 0;
}

/* ---- all of it
 * ----------------------------------------------------------------------------------- */

static int connect_to(struct nvme_vfu *vfu)
{
	int err = nvme__vfu_conn_open(&vfu->conn, vfu->path);

	if (err == -ENOENT)
		return refuse(vfu, err, "there is no such socket: is the server running?");
	if (err == -ECONNREFUSED)
		return refuse(vfu, err, "no server listens at this socket");
	if (err == -EAGAIN)
		return refuse(vfu, -EBUSY, "the server takes no more connections");
	if (err)
		return refuse(vfu, err, strerror(-err));
	return 0;
}

int nvme__vfu_setup(struct nvme_vfu *vfu)
{
	static int (*const steps[])(struct nvme_vfu *) = {
		negotiate,    learn_device,   learn_bar,    learn_vectors,
		claim_device, find_doorbells, share_memory, attach_vectors,
	};
	int err;

	ASSERT(nvme__keeper_is_me(&vfu->keeper)); /* nvme_vfu.c (1) */
	err = connect_to(vfu);
	for (size_t i = 0; i < ARRAY_LEN(steps) && !err; i++)
		err = steps[i](vfu);
	if (err)
		nvme__vfu_take_down(vfu);
	return err;
}

void nvme__vfu_take_down(struct nvme_vfu *vfu)
{
	ASSERT(nvme__keeper_is_me(&vfu->keeper)); /* nvme_vfu.c (1) */
	if (vfu->attached)
		nvme__dma_detach(vfu->dma, &vfu->target);
	vfu->attached = false;
	vfu->dma_map_count = 0;
	nvme__vfu_conn_close(&vfu->conn);
}

/* (1): the addresses stay valid, for a last doorbell. */
void nvme__vfu_unmap(struct nvme_vfu *vfu)
{
	for (uint32_t i = 0; i < vfu->map_count; i++) {
		struct nvme_vfu_mapping *m = &vfu->map[i];
		void *addr = mmap(m->addr, m->size_bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		ASSERT(addr == (void *)m->addr);
	}
}

void nvme__vfu_forget_mappings(struct nvme_vfu *vfu)
{
	for (uint32_t i = 0; i < vfu->map_count; i++) {
		nvme__guard_remove(vfu->map[i].guard);
		munmap(vfu->map[i].addr, vfu->map[i].size_bytes);
	}
	vfu->map_count = 0;
}
