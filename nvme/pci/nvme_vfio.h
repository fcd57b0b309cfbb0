/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Controllers of this machine, through /dev/vfio: shared by nvme_vfio*.c and their tests. */
#ifndef NVME_VFIO_H
#define NVME_VFIO_H

#include "nvme/nvme_internal.h"
#include "nvme/common/nvme_keeper.h"

/* A name of this kind, opened. */
must_check int nvme__vfio_open(struct nvme__found *out, const struct nvme_name *parsed,
			       const char *name, struct nvme_dma *dma,
			       const struct nvme_options *options, char *err_text,
			       size_t err_text_size);

/* Destination of an error line; `name` is the drive's. */
struct nvme_why {
	const char *name;
	char *text;
	size_t text_size;
};

/* Returns `err`, so that a refusal is one statement. */
int nvme__why(const struct nvme_why *why, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- what sysfs says: nvme_vfio_pci.c ------------------------------------------------- */

struct nvme_pci {
	char address[20];    /* 0000:01:00.0, and longer with a large domain */
	uint32_t class_code; /* 0x010802: NVMe                               */
	uint32_t vendor, device;
	char driver[40]; /* "": none                                     */
	int group;       /* of the IOMMU; -1: none                       */
};

/* `sys` is "/sys", or a tree that a test has made.  -ENODEV: no such device. */
must_check int nvme__pci_read(struct nvme_pci *out, const char *sys, const char *address);

/* "Red Hat, Inc. QEMU NVM Express Controller", or numbers where libpci knows no name. */
void nvme__pci_describe(const struct nvme_pci *pci, char *text, size_t text_size);

/* 0 when it is NVMe, bound to vfio-pci, in a group; else a line that says what to do. */
must_check int nvme__pci_check(const struct nvme_pci *pci, const struct nvme_why *why);

/* Those of its group that keep it from us: "0000:00:1f.2 (ahci), ...". */
void nvme__pci_neighbours(const struct nvme_pci *pci, const char *sys, char *text,
			  size_t text_size);

/* ---- the kernel's answers: nvme_vfio_info.c ------------------------------------------- */

struct nvme_vfio_range {
	uint64_t first;
	uint64_t last;
};

/*
 * The IOVA ranges in an answer to VFIO_IOMMU_GET_INFO of `size` bytes, in order, the gaps
 * between them reserved; -ENOENT: it names none; -EPROTO: it makes no sense.
 */
must_check int nvme__vfio_iova_ranges(const void *info, size_t size, struct nvme_vfio_range *out,
				      uint32_t out_max, uint32_t *count);

/*
 * Reserves in `dma`, of the table's 39 bits, the ranges that the IOMMU cannot map.  -ENOTSUP: it is
 * narrower; -EBUSY: something is mapped there already; -EPROTO.  `why` has the line.
 */
must_check int nvme__vfio_reserve(struct nvme_dma *dma, const void *info, size_t size,
				  const struct nvme_why *why);

/*
 * Returns how many bytes of a region can be mapped from `first` on, by an answer to
 * VFIO_DEVICE_GET_REGION_INFO of `size` bytes; 0: none.
 */
uint64_t nvme__vfio_mappable(const void *info, size_t size, uint64_t first);

/* ---- locked memory: nvme_vfio_lock.c --------------------------------------------------- */

struct nvme_memlock {
	bool unlimited;
	uint64_t limit_bytes;
	uint64_t locked_bytes;
};

/* `proc` is "/proc", or a test's. */
void nvme__memlock_read(struct nvme_memlock *out, const char *proc);

/* Returns true if `more_bytes` may be locked; if not, the line says why and what to type. */
must_check bool nvme__memlock_allows(const struct nvme_memlock *lock, uint64_t more_bytes,
				     char *text, size_t text_size);

/* ---- the IOMMU: nvme_vfio_group.c ------------------------------------------------------ */

struct nvme_vfio_group;
struct nvme_vfio;

/*
 * Put `v`, the device `pci`, into its group, opened and attached to the container of `dma`, in
 * which all that is mapped now or later is mapped too.  A device is in its group once.
 */
must_check int nvme__vfio_join(struct nvme_vfio *v, const struct nvme_pci *pci,
			       struct nvme_dma *dma, uint64_t memory_bytes,
			       const struct nvme_why *why);
/* On any thread, also one that may not call free(): nvme__vfio_bury() does that for all. */
void nvme__vfio_leave(struct nvme_vfio *v);
void nvme__vfio_bury(void);
int nvme__vfio_group_fd(const struct nvme_vfio_group *group);

/* ---- the device: nvme_vfio_device.c ---------------------------------------------------- */

struct nvme_vfio {
	int fd; /* the device; once it was given back, a file of ones: the number stays ours */
	struct nvme_vfio_group *group; /* NULL: in none */
	struct list link;              /* in its group  */
	char address[20];
	_Atomic bool
		released; /* orders nothing: a late call finds `fd` to be a file that refuses it */
	struct nvme_keeper keeper; /* resets it */

	char *bar;                 /* as much of BAR 0 as we need, from its start */
	uint64_t bar_mapped_bytes; /* ... and how much of it is mapped           */
	uint64_t bar_offset;       /* in `fd`                                    */
	uint64_t bar_bytes;
	uint64_t config_offset;
	uint32_t guard;            /* of nvme_vfio_guard.c; 0: none */
	volatile uint32_t nowhere; /* a doorbell that is not read */

	uint32_t vector_count;            /* 0: no MSI-X */
	int wake_fd[NVME_QPAIRS_MAX + 1]; /* -1 until it is first used */
	int request_fd, error_fd, gone_fd;
	int alarm_fd; /* an epoll of these */
};

must_check int nvme__vfio_device_open(struct nvme_vfio *v, const struct nvme_pci *pci,
				      uint32_t qpair_count, const struct nvme_why *why);
void nvme__vfio_device_release(struct nvme_vfio *v);
static inline bool nvme__vfio_is_released(const struct nvme_vfio *v)
{
	return atomic_load_explicit(&v->released, memory_order_relaxed);
}
void nvme__vfio_device_close(struct nvme_vfio *v);
must_check int nvme__vfio_bus_master(struct nvme_vfio *v, bool on);
/* Lets interrupt `index`, `vector`, write to the eventfd `fd`; -1: to none. */
must_check int nvme__vfio_set_irq(struct nvme_vfio *v, uint32_t index, uint32_t vector, int fd);

/* ---- a device that is pulled out: nvme_vfio_guard.c ------------------------------------ */

/*
 * From now on an access to [base, base + size_bytes) that ends in SIGBUS finds memory of ones
 * there instead, and the eventfd `tell_fd` (-1: none) is written.  `size_bytes` is a multiple of
 * the page size.  -ENOSPC: 128 are guarded.
 */
must_check int nvme__guard_add(void *base, uint64_t size_bytes, int tell_fd, uint32_t *guard);
/* Puts ones there; concurrent accesses see the registers or the ones. */
void nvme__guard_trip(uint32_t guard);
/* The memory is about to be unmapped. */
void nvme__guard_remove(uint32_t guard);

#endif
