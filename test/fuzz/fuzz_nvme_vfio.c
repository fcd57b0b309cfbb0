/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Answers of vfio, which may come from a kernel that we do not know. */
#include "nvme/pci/nvme_vfio.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct nvme_vfio_range ranges[8];
	uint64_t first = 0, mappable;
	uint32_t count;

	if (nvme__vfio_iova_ranges(bytes, size, ranges, 8, &count) == 0) {
		ASSERT(count > 0 && count <= 8);
		for (uint32_t i = 0; i < count; i++) {
			ASSERT(ranges[i].first <= ranges[i].last);
			ASSERT(i == 0 || ranges[i].first > ranges[i - 1].last);
		}
	} else {
		ASSERT(count == 0);
	}
	if (size > 0)
		first = (uint64_t)bytes[size - 1] << 8;
	mappable = nvme__vfio_mappable(bytes, size, first);
	ASSERT(mappable <= UINT64_MAX - first);
	return 0;
}
