/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Answers of vfio: a fixed part, then capabilities, each with the offset of the next.
 *
 *   | argsz, flags, cap_offset ... | capability | capability | ...
 *                        |            ^     |        ^
 *                        +------------+     +--next--+        0 ends the chain
 *
 * The kernel is trusted, but may be of another version: everything is checked against the answer's
 * size.  Capabilities are aligned to 4 bytes only, so they are copied out before their 64-bit
 * fields are read.
 *
 * Invariant: (1) an offset in the chain is larger than the one before, so that it ends
 * [test_nvme_vfio:answers_without_ranges_are_told_from_those_that_make_no_sense].
 */
#include "nvme/pci/nvme_vfio.h"

#include <errno.h>
#include <linux/vfio.h>
#include <string.h>

#define RANGES_MAX 64u

struct answer {
	const char *bytes;
	size_t size;
};

/* Copies the bytes at `at`; false if the answer ends before. */
static bool take(const struct answer *a, uint64_t at, void *out, size_t out_size)
{
	if (at > a->size || out_size > a->size - at)
		return false;
	memcpy(out, a->bytes + at, out_size);
	return true;
}

/* Returns the start of the capability `id` in the chain from `at` on; 0: not found. */
static uint64_t find(const struct answer *a, uint32_t at, uint16_t id)
{
	struct vfio_info_cap_header header;

	while (at > 0 && take(a, at, &header, sizeof(header))) {
		if (header.id == id)
			return at;
		if (header.next <= at) /* (1) */
			break;
		at = header.next;
	}
	return 0;
}

/* In order, not empty, not touching one another. */
static bool in_order(const struct nvme_vfio_range *ranges, uint32_t i)
{
	return ranges[i].first <= ranges[i].last &&
	       (i == 0 || ranges[i - 1].last < ranges[i].first);
}

int nvme__vfio_iova_ranges(const void *info, size_t size, struct nvme_vfio_range *out,
			   uint32_t out_max, uint32_t *count)
{
	const struct answer a = { info, size };
	struct vfio_iommu_type1_info fixed;
	struct vfio_iommu_type1_info_cap_iova_range cap;
	struct vfio_iova_range range;
	uint64_t at;

	*count = 0;
	if (!take(&a, 0, &fixed, sizeof(fixed)) || !(fixed.flags & VFIO_IOMMU_INFO_CAPS))
		return -ENOENT;
	at = find(&a, fixed.cap_offset, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE);
	if (!at)
		return -ENOENT;
	if (!take(&a, at, &cap, sizeof(cap)) || cap.nr_iovas == 0 || cap.nr_iovas > out_max)
		return -EPROTO;
	for (uint32_t i = 0; i < cap.nr_iovas; i++) {
		if (!take(&a, at + sizeof(cap) + (uint64_t)i * sizeof(range), &range,
			  sizeof(range)))
			return -EPROTO;
		out[i] = (struct nvme_vfio_range){ range.start, range.end };
		if (!in_order(out, i))
			return -EPROTO;
	}
	*count = cap.nr_iovas;
	return 0;
}

int nvme__vfio_reserve(struct nvme_dma *dma, const void *info, size_t size,
		       const struct nvme_why *why)
{
	struct nvme_vfio_range range[RANGES_MAX];
	uint64_t next = 0, last;
	uint32_t count;
	int err = nvme__vfio_iova_ranges(info, size, range, RANGES_MAX, &count);

	if (err == -ENOENT) /* an old kernel: it refuses ranges that it cannot map */
		return 0;
	if (err)
		return nvme__why(why, err, "the IOMMU's ranges make no sense");
	last = range[count - 1].last;
	if (last < (1ull << NVME_IOVA_BITS) - 1)
		return nvme__why(why, -ENOTSUP,
				 "its IOMMU has addresses up to %llx only; %u bits are needed",
				 (unsigned long long)last, NVME_IOVA_BITS);
	for (uint32_t i = 0; i < count && !err; i++) {
		if (range[i].first > next)
			err = nvme__dma_reserve(dma, next, range[i].first - 1);
		next = range[i].last + 1;
	}
	return err ? nvme__why(why, err, "memory is mapped where its IOMMU cannot map any") : 0;
}

uint64_t nvme__vfio_mappable(const void *info, size_t size, uint64_t first)
{
	const struct answer a = { info, size };
	struct vfio_region_info_cap_sparse_mmap sparse;
	struct vfio_region_sparse_mmap_area area;
	struct vfio_region_info fixed;
	uint64_t at, end;

	if (!take(&a, 0, &fixed, sizeof(fixed)) || !(fixed.flags & VFIO_REGION_INFO_FLAG_MMAP) ||
	    first >= fixed.size)
		return 0;
	at = fixed.flags & VFIO_REGION_INFO_FLAG_CAPS
		     ? find(&a, fixed.cap_offset, VFIO_REGION_INFO_CAP_SPARSE_MMAP)
		     : 0;
	if (!at)
		return fixed.size - first;
	if (!take(&a, at, &sparse, sizeof(sparse)))
		return 0;
	for (uint32_t i = 0; i < sparse.nr_areas; i++) {
		if (!take(&a, at + sizeof(sparse) + (uint64_t)i * sizeof(area), &area,
			  sizeof(area)))
			return 0;
		if (add_overflows(area.offset, area.size, &end) || end > fixed.size)
			return 0;
		if (area.offset <= first && first < end)
			return end - first;
	}
	return 0;
}
