/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Any message of a vfio-user server: the first byte chooses the parser, the rest is a message's
 * body (or its header).  All parsed values must be within their bounds.
 */
#include "nvme/pci/nvme_vfu.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_region(const uint8_t *body, uint32_t size)
{
	struct nvme_vfu_region r;

	if (nvme__vfu_parse_region(body, size, VFU_REGION_BAR0, &r))
		return;
	ASSERT(r.area_count <= NVME_VFU_AREAS_MAX);
	for (uint32_t i = 0; i < r.area_count; i++) {
		const struct nvme_vfu_area *a = &r.area[i];

		ASSERT(a->size_bytes > 0 && (a->offset | a->size_bytes) % 4096 == 0);
		ASSERT(a->offset <= r.size_bytes && a->size_bytes <= r.size_bytes - a->offset);
		ASSERT(r.fd_offset + a->offset + a->size_bytes <= INT64_MAX);
	}
}

static void check_rw(const uint8_t *body, uint32_t size)
{
	struct vfu_region_rw asked = { le64_of(0x1c), le32_of(0), le32_of(4) };
	const uint8_t *data;

	if (!nvme__vfu_parse_rw(body, size, &asked, &data))
		ASSERT(data >= body && data + 4 == body + size);
	(void)!nvme__vfu_parse_rw(body, size, &asked, NULL);
}

static void check_dma(const uint8_t *body, uint32_t size, bool write)
{
	struct nvme_vfu_dma_request r;

	if (nvme__vfu_parse_dma(body, size, write, &r))
		return;
	ASSERT(r.count <= NVME_VFU_XFER_MAX && r.iova + r.count >= r.iova);
	ASSERT(!write || r.data + r.count == body + size);
}

static void check_head(const uint8_t *body, uint32_t size)
{
	struct nvme_vfu_head h;

	if (size < sizeof(struct vfu_header) || nvme__vfu_parse_head(body, &h))
		return;
	ASSERT(h.body_bytes <= NVME_VFU_BODY_MAX && h.err <= 0 && h.err > -4096);
	ASSERT(h.reply || h.err == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct nvme_vfu_caps caps;
	struct nvme_vfu_device device;
	uint32_t count;
	uint8_t *body; /* of exactly that size: a read beyond it is seen */

	if (size == 0 || size > NVME_VFU_BODY_MAX)
		return 0;
	body = malloc(size - 1 ? size - 1 : 1);
	ASSERT(body);
	memcpy(body, bytes + 1, size - 1);
	switch (bytes[0] % 8) {
	case 0:
		check_head(body, (uint32_t)size - 1);
		break;
	case 1:
		if (!nvme__vfu_parse_version(body, (uint32_t)size - 1, &caps))
			ASSERT(caps.msg_fds_max > 0 && caps.xfer_max > 0 && caps.dma_maps_max > 0);
		break;
	case 2:
		(void)!nvme__vfu_parse_device(body, (uint32_t)size - 1, &device);
		break;
	case 3:
		check_region(body, (uint32_t)size - 1);
		break;
	case 4:
		(void)!nvme__vfu_parse_irq(body, (uint32_t)size - 1, VFU_IRQ_MSIX, &count);
		break;
	case 5:
		check_rw(body, (uint32_t)size - 1);
		break;
	default:
		check_dma(body, (uint32_t)size - 1, bytes[0] % 8 == 7);
		break;
	}
	free(body);
	return 0;
}
