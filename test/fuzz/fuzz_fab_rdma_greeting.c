/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The private data of a connection request: what is taken for a greeting can be built again. */
#include "fabric/link/fab_rdma.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t again[FAB_RDMA_GREETING_BYTES];
	struct fab_rdma_greeting g;

	if (size > 256 || fab__rdma_greeting_parse(&g, bytes, (uint32_t)size))
		return 0;
	ASSERT(g.version_min <= FAB_VERSION_MAX && g.version_max >= FAB_VERSION_MIN);
	fab__rdma_greeting_build(again);
	again[4] = g.version_min;
	again[5] = g.version_max;
	ASSERT(memcmp(again, bytes, sizeof(again)) == 0);
	for (size_t i = sizeof(again); i < size; i++)
		ASSERT(bytes[i] == 0);
	return 0;
}
