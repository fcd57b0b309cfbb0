/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Definitions of the vfio-user protocol specification only (version 0.9 of the text, 0.x on the
 * wire).  A message is a header and a body; sizes count the header.
 *
 *	| id 2 | command 2 | size 4 | flags 4 | error 4 | body ...
 *
 * The numbers of regions, interrupts and flags are those of <linux/vfio.h>.
 */
#ifndef NVME_VFU_SPEC_H
#define NVME_VFU_SPEC_H

#include "base/le.h"

#include <stddef.h>

#define VFU_MAJOR 0u
#define VFU_MINOR 1u

enum {
	VFU_VERSION = 1,
	VFU_DMA_MAP = 2,
	VFU_DMA_UNMAP = 3,
	VFU_DEVICE_GET_INFO = 4,
	VFU_GET_REGION_INFO = 5,
	VFU_GET_IRQ_INFO = 7,
	VFU_SET_IRQS = 8,
	VFU_REGION_READ = 9,
	VFU_REGION_WRITE = 10,
	VFU_DMA_READ = 11,  /* the server asks */
	VFU_DMA_WRITE = 12, /* the server asks */
	VFU_DEVICE_RESET = 13,
};

#define VFU_TYPE_MASK    0xfu
#define VFU_TYPE_COMMAND 0u
#define VFU_TYPE_REPLY   1u
#define VFU_NO_REPLY     (1u << 4) /* in a command */
#define VFU_ERROR        (1u << 5) /* in a reply; `error` is an errno, or 0 */

/* Valid until the other side has sent other values. */
#define VFU_DEFAULT_MSG_FDS  1u
#define VFU_DEFAULT_XFER_MAX 1048576u
#define VFU_DEFAULT_DMA_MAPS 65535u

#define VFU_DEVICE_RESETS (1u << 0) /* flags of the device info */
#define VFU_DEVICE_PCI    (1u << 1)

enum { VFU_REGION_BAR0 = 0, VFU_REGION_CONFIG = 7, VFU_REGION_COUNT = 9 };

#define VFU_REGION_READABLE (1u << 0)
#define VFU_REGION_WRITABLE (1u << 1)
#define VFU_REGION_MMAP     (1u << 2) /* a file descriptor comes with the reply */
#define VFU_REGION_CAPS     (1u << 3)

#define VFU_CAP_SPARSE_MMAP 1u

enum { VFU_IRQ_INTX = 0, VFU_IRQ_MSI = 1, VFU_IRQ_MSIX = 2, VFU_IRQ_COUNT = 5 };

#define VFU_IRQ_HAS_EVENTFD (1u << 0) /* flags of the interrupt info */

#define VFU_IRQ_DATA_NONE      (1u << 0) /* flags of SET_IRQS */
#define VFU_IRQ_DATA_EVENTFD   (1u << 2)
#define VFU_IRQ_ACTION_TRIGGER (1u << 5)

#define VFU_DMA_READABLE (1u << 0)
#define VFU_DMA_WRITABLE (1u << 1)

LAYOUT_BEGIN
struct vfu_header {
	le16 id;
	le16 command;
	le32 size;
	le32 flags;
	le32 error;
};

/* VFU_VERSION, both ways; followed by JSON and a NUL, or nothing. */
struct vfu_version {
	le16 major;
	le16 minor;
};

struct vfu_dma_map {
	le32 argsz;
	le32 flags;
	le64 fd_offset;
	le64 iova;
	le64 size;
};

/* Both ways. */
struct vfu_dma_unmap {
	le32 argsz;
	le32 flags;
	le64 iova;
	le64 size;
};

struct vfu_device_info {
	le32 argsz;
	le32 flags;
	le32 region_count;
	le32 irq_count;
};

/* Behind it in a reply with VFU_REGION_CAPS: a chain of vfu_cap, offsets from its start. */
struct vfu_region_info {
	le32 argsz;
	le32 flags;
	le32 index;
	le32 cap_offset;
	le64 size;
	le64 fd_offset;
};

struct vfu_cap {
	le16 id;
	le16 version;
	le32 next; /* 0: the last one */
};

/* Behind it: area_count of vfu_area. */
struct vfu_cap_sparse {
	struct vfu_cap cap;
	le32 area_count;
	le32 reserved;
};

struct vfu_area {
	le64 offset;
	le64 size;
};

struct vfu_irq_info {
	le32 argsz;
	le32 flags;
	le32 index;
	le32 count;
};

/* VFU_IRQ_DATA_EVENTFD: `count` descriptors come with it, or none, which takes them back. */
struct vfu_irq_set {
	le32 argsz;
	le32 flags;
	le32 index;
	le32 start;
	le32 count;
};

/* VFU_REGION_READ and _WRITE; followed by a write's data, or a read's answer. */
struct vfu_region_rw {
	le64 offset;
	le32 region;
	le32 count;
};

/* VFU_DMA_READ and _WRITE, the same. */
struct vfu_dma_rw {
	le64 iova;
	le64 count;
};
LAYOUT_END

static_assert(sizeof(struct vfu_header) == 16, "layout");
static_assert(offsetof(struct vfu_header, flags) == 8, "layout");
static_assert(sizeof(struct vfu_version) == 4, "layout");
static_assert(sizeof(struct vfu_dma_map) == 32, "layout");
static_assert(offsetof(struct vfu_dma_map, iova) == 16, "layout");
static_assert(sizeof(struct vfu_dma_unmap) == 24, "layout");
static_assert(sizeof(struct vfu_device_info) == 16, "layout");
static_assert(sizeof(struct vfu_region_info) == 32, "layout");
static_assert(offsetof(struct vfu_region_info, size) == 16, "layout");
static_assert(sizeof(struct vfu_cap) == 8, "layout");
static_assert(sizeof(struct vfu_cap_sparse) == 16, "layout");
static_assert(sizeof(struct vfu_area) == 16, "layout");
static_assert(sizeof(struct vfu_irq_info) == 16, "layout");
static_assert(sizeof(struct vfu_irq_set) == 20, "layout");
static_assert(sizeof(struct vfu_region_rw) == 16, "layout");
static_assert(sizeof(struct vfu_dma_rw) == 16, "layout");

#endif
