/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The data in a connection request and its answer: PROTOCOL.md 10.
 *
 *   0       4             5             6      8
 *   | WKF1  | version_min | version_max | zero |   the carrier may append zeros
 */
#include "fabric/link/fab_rdma.h"

#include <errno.h>
#include <string.h>

void fab__rdma_greeting_build(uint8_t out[FAB_RDMA_GREETING_BYTES])
{
	static const le32 magic = { FAB_MAGIC };

	memset(out, 0, FAB_RDMA_GREETING_BYTES);
	memcpy(out, &magic, sizeof(magic));
	out[4] = FAB_VERSION_MIN;
	out[5] = FAB_VERSION_MAX;
}

int fab__rdma_greeting_parse(struct fab_rdma_greeting *out, const void *bytes, uint32_t size_bytes)
{
	static const le32 magic = { FAB_MAGIC };
	const uint8_t *b = bytes;

	if (size_bytes < FAB_RDMA_GREETING_BYTES || memcmp(b, &magic, sizeof(magic)) != 0)
		return -EPROTO;
	for (uint32_t i = 6; i < size_bytes; i++)
		if (b[i] != 0)
			return -EPROTO;
	out->version_min = b[4];
	out->version_max = b[5];
	if (out->version_min > out->version_max)
		return -EPROTO;
	if (out->version_min > FAB_VERSION_MAX || out->version_max < FAB_VERSION_MIN)
		return -EPROTONOSUPPORT;
	return 0;
}
