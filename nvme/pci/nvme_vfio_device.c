/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A vfio device: maps its registers, makes its interrupts, opens its way to memory; and undoes all
 * of that.
 *
 *   fd:   | BAR 0 ...                    | ... | PCI configuration space | ...
 *           |
 *           +-- mapped from its start up to the last doorbell that we use
 *
 *   vectors: allocated once, without listeners; arming attaches an eventfd, disarming
 *            detaches it (vfio cannot mask vectors one by one)
 *
 * After it was given back, the file descriptor's number stays open, on a file that answers no
 * ioctl, and the BAR's memory is memory of ones: other threads may be about to use either.
 */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfio.h"
#include "nvme/mmio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define INFO_BYTES_MAX 65536u

/* ---- regions --------------------------------------------------------------------------- */

/* Returns the kernel's description of region `index`: malloced, `size` bytes. */
static int region_info(int fd, uint32_t index, void **out, size_t *size)
{
	struct vfio_region_info fixed = { .argsz = sizeof(fixed), .index = index };
	struct vfio_region_info *info;

	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &fixed))
		return -errno;
	if (fixed.argsz < sizeof(fixed) || fixed.argsz > INFO_BYTES_MAX)
		return -EPROTO;
	*size = fixed.argsz;
	info = calloc(1, *size);
	if (!info)
		return -ENOMEM;
	info->argsz = fixed.argsz;
	info->index = index;
	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, info)) {
		free(info);
		return -errno;
	}
	*out = info;
	return 0;
}

/* Returns the bytes from the BAR's start to the end of the doorbells of `qpair_count` queue pairs
 * and the admin queue. */
static uint64_t doorbells_end(const struct nvme_vfio *v, uint32_t qpair_count)
{
	uint32_t cap_high = 0;
	uint64_t stride;

	/* Not mapped yet.  If this fails, the device has no registers: bring-up reports that. */
	(void)!pread(v->fd, &cap_high, sizeof(cap_high), (off_t)v->bar_offset + NVME_REG_CAP + 4);
	stride = 4ull << NVME_CAP_DSTRD((uint64_t)cap_high << 32);
	return NVME_REG_DOORBELLS + 2 * (qpair_count + 1) * stride;
}

static int map_bar(struct nvme_vfio *v, uint64_t mappable_bytes, uint32_t qpair_count,
		   const struct nvme_why *why)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t want = align_up(doorbells_end(v, qpair_count), page);
	int err;

	if (want > align_up(mappable_bytes, page))
		return nvme__why(why, -ENOTSUP,
				 "its doorbells cannot be mapped: %llu bytes of BAR 0 are needed, "
				 "%llu can be",
				 (unsigned long long)want, (unsigned long long)mappable_bytes);
	v->bar_mapped_bytes = want;
	v->bar = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, (off_t)v->bar_offset);
	if (v->bar == MAP_FAILED) {
		v->bar = NULL;
		return nvme__why(why, -errno, "BAR 0 cannot be mapped: %s", strerror(errno));
	}
	err = nvme__guard_add(v->bar, want, v->gone_fd, &v->guard);
	return err ? nvme__why(why, err, "BAR 0 cannot be guarded: %s", strerror(-err)) : 0;
}

static int open_regions(struct nvme_vfio *v, uint32_t qpair_count, const struct nvme_why *why)
{
	struct vfio_region_info *info;
	uint64_t mappable_bytes;
	size_t size;
	void *p;
	int err = region_info(v->fd, VFIO_PCI_CONFIG_REGION_INDEX, &p, &size);

	if (err)
		return nvme__why(why, err, "no PCI configuration space: %s", strerror(-err));
	info = p;
	v->config_offset = info->offset;
	free(info);
	err = region_info(v->fd, VFIO_PCI_BAR0_REGION_INDEX, &p, &size);
	if (err)
		return nvme__why(why, err, "no BAR 0: %s", strerror(-err));
	info = p;
	v->bar_offset = info->offset;
	v->bar_bytes = info->size;
	mappable_bytes = nvme__vfio_mappable(info, size, 0);
	free(info);
	return map_bar(v, mappable_bytes, qpair_count, why);
}

int nvme__vfio_bus_master(struct nvme_vfio *v, bool on)
{
	off_t at = (off_t)v->config_offset + PCI_COMMAND;
	uint16_t command;

	if (nvme__vfio_is_released(v))
		return on ? -ENODEV : 0;
	if (pread(v->fd, &command, sizeof(command), at) != sizeof(command))
		return -EIO;
	command = (uint16_t)(command | PCI_COMMAND_MEMORY);
	command = (uint16_t)(on ? command | PCI_COMMAND_MASTER : command & ~PCI_COMMAND_MASTER);
	return pwrite(v->fd, &command, sizeof(command), at) == sizeof(command) ? 0 : -EIO;
}

/* ---- interrupts ------------------------------------------------------------------------ */

int nvme__vfio_set_irq(struct nvme_vfio *v, uint32_t index, uint32_t vector, int fd)
{
	union {
		struct vfio_irq_set set;
		char bytes[sizeof(struct vfio_irq_set) + sizeof(fd)];
	} u = { .set = { .argsz = sizeof(u.bytes),
			 .flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			 .index = index,
			 .start = vector,
			 .count = 1 } };

	memcpy(u.bytes + sizeof(u.set), &fd, sizeof(fd));
	return ioctl(v->fd, VFIO_DEVICE_SET_IRQS, u.bytes) ? -errno : 0;
}

static uint32_t irq_count(const struct nvme_vfio *v, uint32_t index)
{
	struct vfio_irq_info info = { .argsz = sizeof(info), .index = index };

	if (ioctl(v->fd, VFIO_DEVICE_GET_IRQ_INFO, &info) || !(info.flags & VFIO_IRQ_INFO_EVENTFD))
		return 0;
	return info.count;
}

/* Without it cores poll; so it is no reason to refuse the drive. */
static void open_vectors(struct nvme_vfio *v, uint32_t qpair_count)
{
	uint32_t count = min_u32(irq_count(v, VFIO_PCI_MSIX_IRQ_INDEX), qpair_count + 1);
	size_t size = sizeof(struct vfio_irq_set) + count * sizeof(int32_t);
	struct vfio_irq_set *set = calloc(1, size);

	if (count == 0 || !set)
		goto free_set;
	set->argsz = (uint32_t)size;
	set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
	set->index = VFIO_PCI_MSIX_IRQ_INDEX;
	set->count = count;
	memset(set->data, 0xff, count * sizeof(int32_t)); /* -1: none */
	if (ioctl(v->fd, VFIO_DEVICE_SET_IRQS, set) == 0)
		v->vector_count = count;
free_set:
	free(set);
}

static int watch(const struct nvme_vfio *v, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(v->alarm_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/* Makes an eventfd for the host's notices, if the kernel supports them. */
static int listen_to(struct nvme_vfio *v, uint32_t index)
{
	int fd;

	if (irq_count(v, index) == 0)
		return -1;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd >= 0 && (watch(v, fd) || nvme__vfio_set_irq(v, index, 0, fd))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_alarms(struct nvme_vfio *v, const struct nvme_why *why)
{
	int err;

	v->alarm_fd = epoll_create1(EPOLL_CLOEXEC);
	v->gone_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = watch(v, v->gone_fd);
	if (err)
		return nvme__why(why, err, "%s", strerror(-err));
	v->request_fd = listen_to(v, VFIO_PCI_REQ_IRQ_INDEX);
	v->error_fd = listen_to(v, VFIO_PCI_ERR_IRQ_INDEX);
	return 0;
}

/* ---- all of it ------------------------------------------------------------------------- */

int nvme__vfio_device_open(struct nvme_vfio *v, const struct nvme_pci *pci, uint32_t qpair_count,
			   const struct nvme_why *why)
{
	struct vfio_device_info info = { .argsz = sizeof(info) };
	int err;

	v->fd = ioctl(nvme__vfio_group_fd(v->group), VFIO_GROUP_GET_DEVICE_FD, pci->address);
	if (v->fd < 0)
		return nvme__why(why, -errno, "vfio does not open it: %s (dmesg may say more)",
				 strerror(errno));
	if (ioctl(v->fd, VFIO_DEVICE_GET_INFO, &info) || !(info.flags & VFIO_DEVICE_FLAGS_PCI))
		return nvme__why(why, -ENOTSUP, "vfio does not know it as a PCI device");
	err = open_alarms(v, why);
	if (!err)
		err = open_regions(v, qpair_count, why);
	if (err)
		return err;
	open_vectors(v, qpair_count);
	err = nvme__vfio_bus_master(v, true);
	return err ? nvme__why(why, err, "it cannot be made a bus master") : 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The order matters: nothing may hold the device open when its file is closed. */
void nvme__vfio_device_release(struct nvme_vfio *v)
{
	int nothing;

	if (nvme__vfio_is_released(v))
		return;
	(void)!nvme__vfio_bus_master(v, false); /* a device that is gone does not mind */
	atomic_store_explicit(&v->released, true, memory_order_relaxed);
	if (v->guard)
		nvme__guard_trip(v->guard);
	nothing = eventfd(0, EFD_CLOEXEC);
	if (v->fd >= 0 && nothing >= 0)
		(void)dup3(nothing, v->fd, O_CLOEXEC);
	else if (v->fd >= 0)
		close_fd(&v->fd);
	close_fd(&nothing);
	ASSERT(!v->guard || mmio_read32((void *)v->bar) == UINT32_MAX); /* nvme_vfio.c (1) */
	nvme__vfio_leave(v);
}

void nvme__vfio_device_close(struct nvme_vfio *v)
{
	nvme__vfio_device_release(v);
	nvme__vfio_bury();
	if (v->guard)
		nvme__guard_remove(v->guard);
	if (v->bar)
		munmap(v->bar, v->bar_mapped_bytes);
	for (uint32_t i = 0; i < ARRAY_LEN(v->wake_fd); i++)
		close_fd(&v->wake_fd[i]);
	close_fd(&v->request_fd);
	close_fd(&v->error_fd);
	close_fd(&v->gone_fd);
	close_fd(&v->alarm_fd);
	close_fd(&v->fd);
}
