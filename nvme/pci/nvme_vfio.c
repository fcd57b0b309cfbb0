/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * pci: drives: a controller of this machine, through vfio.
 *
 *   nvme_vfio.c          this: a drive from a name; the controller interface
 *   nvme_vfio_pci.c      the device in sysfs
 *   nvme_vfio_group.c    its IOMMU group, and the container with all mappings
 *   nvme_vfio_lock.c     the limit of locked memory
 *   nvme_vfio_device.c   its registers, interrupts, bus mastering
 *   nvme_vfio_info.c     parses the kernel's answers
 *   nvme_vfio_guard.c    its registers, after it has been pulled out
 *
 * A queue pair's interrupt is its own vector.  Arming it costs two system calls in all.
 * Completions that arrive before arming cause no wake-up: poll once more after arming.
 *
 * Invariant: (1) after release() the device is untouched: registers are ones, and the file
 * descriptor refers to an empty file.
 */
#include "nvme/pci/nvme_vfio.h"
#include "nvme/mmio.h"

#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- registers ------------------------------------------------------------------------- */

static volatile uint32_t *reg(struct nvme_vfio *v, uint32_t offset) /* MMIO */
{
	ASSERT(offset % 4 == 0 && offset + 4 <= v->bar_mapped_bytes);
	return (volatile uint32_t *)(void *)(v->bar + offset); /* MMIO */
}

static uint32_t vfio_read32(void *ctrl, uint32_t offset)
{
	return mmio_read32(reg(ctrl, offset));
}

static void vfio_write32(void *ctrl, uint32_t offset, uint32_t value)
{
	mmio_write32(reg(ctrl, offset), value);
}

/* In halves, the lower first: every controller must take that, and some take nothing else. */
static uint64_t vfio_read64(void *ctrl, uint32_t offset)
{
	uint32_t low = vfio_read32(ctrl, offset);

	return (uint64_t)vfio_read32(ctrl, offset + 4) << 32 | low;
}

static void vfio_write64(void *ctrl, uint32_t offset, uint64_t value)
{
	vfio_write32(ctrl, offset, (uint32_t)value);
	vfio_write32(ctrl, offset + 4, (uint32_t)(value >> 32));
}

static volatile uint32_t *vfio_doorbell(void *ctrl, uint32_t offset) /* MMIO */
{
	struct nvme_vfio *v = ctrl;

	/* One whose capabilities were others when it was mapped hears nothing. */
	return offset + 4ull <= v->bar_mapped_bytes ? reg(v, offset) : &v->nowhere;
}

/* ---- sleep ----------------------------------------------------------------------------- */

static int vfio_vector(void *ctrl, uint32_t qid)
{
	const struct nvme_vfio *v = ctrl;

	return qid < v->vector_count ? (int)qid : -1;
}

static int vfio_wake_fd(void *ctrl, uint32_t qid)
{
	struct nvme_vfio *v = ctrl;

	ASSERT(qid <= NVME_QPAIRS_MAX);
	if (qid < v->vector_count && v->wake_fd[qid] < 0)
		v->wake_fd[qid] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return v->wake_fd[qid];
}

static bool vfio_arm(void *ctrl, uint32_t qid)
{
	struct nvme_vfio *v = ctrl;

	if (nvme__vfio_is_released(v))
		return true; /* nothing more will come */
	return v->wake_fd[qid] >= 0 &&
	       nvme__vfio_set_irq(v, VFIO_PCI_MSIX_IRQ_INDEX, qid, v->wake_fd[qid]) == 0;
}

static void vfio_disarm(void *ctrl, uint32_t qid)
{
	struct nvme_vfio *v = ctrl;
	uint64_t count;

	if (v->wake_fd[qid] < 0)
		return;
	if (!nvme__vfio_is_released(v))
		(void)!nvme__vfio_set_irq(v, VFIO_PCI_MSIX_IRQ_INDEX, qid, -1);
	(void)!read(v->wake_fd[qid], &count, sizeof(count)); /* drained, or it was empty */
}

/* ---- when it goes wrong ---------------------------------------------------------------- */

/* The keeper's: a function-level reset takes 100 ms and more, and the kernel waits for it. */
static int reset_device(void *of)
{
	struct nvme_vfio *v = of;

	if (ioctl(v->fd, VFIO_DEVICE_RESET))
		return errno == EAGAIN ? -EIO : -errno;
	(void)!nvme__vfio_bus_master(v, true); /* without, it does not come up: seen then */
	return 0;
}

static int vfio_reset(void *ctrl)
{
	struct nvme_vfio *v = ctrl;

	if (nvme__vfio_is_released(v))
		return -ENODEV;
	return nvme__keeper_ask(&v->keeper);
}

static int vfio_bus_master(void *ctrl, bool on)
{
	return nvme__vfio_bus_master(ctrl, on);
}

static int vfio_alarm_fd(void *ctrl)
{
	return ((struct nvme_vfio *)ctrl)->alarm_fd;
}

static bool was_signalled(int fd)
{
	uint64_t count;

	return fd >= 0 && read(fd, &count, sizeof(count)) == sizeof(count);
}

static uint32_t vfio_alarm(void *ctrl)
{
	struct nvme_vfio *v = ctrl;
	uint32_t bits = 0;

	if (was_signalled(v->request_fd))
		bits |= NVME_ALARM_REQUEST;
	if (was_signalled(v->error_fd))
		bits |= NVME_ALARM_ERROR;
	if (was_signalled(v->gone_fd))
		bits |= NVME_ALARM_GONE;
	return bits;
}

static void vfio_release(void *ctrl)
{
	nvme__vfio_device_release(ctrl);
}

static void vfio_note(void *ctrl, char *text, size_t text_size)
{
	const struct nvme_vfio *v = ctrl;

	if (v->vector_count == 0)
		(void)snprintf(text, text_size,
			       "no MSI-X interrupts: a core with this drive never sleeps");
}

static void vfio_destroy(void *ctrl)
{
	struct nvme_vfio *v = ctrl;

	nvme__keeper_destroy(&v->keeper);
	nvme__vfio_device_close(v);
	free(v);
}

static const struct nvme_ctrl_ops vfio_ops = {
	.read32 = vfio_read32,
	.read64 = vfio_read64,
	.write32 = vfio_write32,
	.write64 = vfio_write64,
	.doorbell = vfio_doorbell,
	.wake_fd = vfio_wake_fd,
	.arm = vfio_arm,
	.disarm = vfio_disarm,
	.vector = vfio_vector,
	.reset = vfio_reset,
	.bus_master = vfio_bus_master,
	.alarm_fd = vfio_alarm_fd,
	.alarm = vfio_alarm,
	.release = vfio_release,
	.release_stops = true, /* the group is left: the IOMMU lets nothing through any more */
	.note = vfio_note,
	.destroy = vfio_destroy,
};

/* ---- open ------------------------------------------------------------------------------ */

static struct nvme_vfio *make(void)
{
	struct nvme_vfio *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->fd = v->request_fd = v->error_fd = v->gone_fd = v->alarm_fd = -1;
	for (uint32_t i = 0; i < ARRAY_LEN(v->wake_fd); i++)
		v->wake_fd[i] = -1;
	nvme__keeper_init(&v->keeper, reset_device, NULL, v);
	return v;
}

int nvme__vfio_open(struct nvme__found *out, const struct nvme_name *parsed, const char *name,
		    struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		    size_t err_text_size)
{
	const struct nvme_why why = { name, err_text, err_text_size };
	uint32_t wanted = options ? options->qpair_count_max : 0;
	struct nvme_vfio *v = make();
	struct nvme_pci pci;
	int err;

	if (!v)
		return nvme__why(&why, -ENOMEM, "out of memory");
	err = nvme__pci_read(&pci, "/sys", parsed->path);
	if (err)
		err = nvme__why(&why, err, "there is no PCI device at this address");
	if (!err)
		err = nvme__pci_check(&pci, &why);
	if (!err)
		err = nvme__vfio_join(v, &pci, dma, options ? options->memory_bytes : 0, &why);
	if (!err)
		err = nvme__vfio_device_open(v, &pci, min_u32(max_u32(wanted, 1), NVME_QPAIRS_MAX),
					     &why);
	if (!err) {
		err = nvme__keeper_start(&v->keeper);
		if (err)
			err = nvme__why(&why, err, "no thread for it: %s", strerror(-err));
	}
	if (err) {
		vfio_destroy(v);
		return err;
	}
	*out = (struct nvme__found){ &vfio_ops, v };
	return 0;
}
