/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A controller's descriptions of itself: identify data and log pages of foreign bytes.
 *
 *   1 byte: bits 0 .. 3 of CAP.MPSMIN, then the pages' bytes; each gets a share, the rest is 0
 *
 * Whatever they say, the driver must find limits that hold and texts that are printable, or refuse
 * the controller with a reason.
 */
#include "nvme/nvme_internal.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

union page {
	struct nvme_id_ctrl ctrl;
	struct nvme_id_ctrl_nvm nvm;
	struct nvme_id_ns ns;
	struct nvme_log_health health;
	uint8_t bytes[NVME_PAGE_SIZE];
};

static union page page;

/* The next `size` bytes, at `at` of an empty page. */
static void fill(const uint8_t **bytes, size_t *left, size_t at, size_t size)
{
	size = min_u64(size, *left);
	memcpy(page.bytes + at, *bytes, size);
	*bytes += size;
	*left -= size;
}

static void check_text(const char *text, size_t size)
{
	size_t len = strnlen(text, size);

	ASSERT(len < size);
	for (size_t i = 0; i < len; i++)
		ASSERT(text[i] >= ' ' && text[i] < 127);
}

static void check(const struct nvme_found *found)
{
	const struct nvme_info *info = &found->info;
	uint32_t lbas = NVME_BLOCK_SIZE / info->lba_bytes;

	check_text(info->model, sizeof(info->model));
	check_text(info->serial, sizeof(info->serial));
	check_text(info->firmware, sizeof(info->firmware));
	ASSERT(info->transfer_max_bytes >= NVME_BLOCK_SIZE);
	ASSERT(info->transfer_max_bytes % NVME_BLOCK_SIZE == 0);
	ASSERT(info->transfer_max_bytes <= NVME_IO_BLOCKS_MAX * NVME_BLOCK_SIZE);
	ASSERT(found->sgl || info->transfer_max_bytes <= 256 * NVME_BLOCK_SIZE);
	ASSERT(info->lba_bytes >= 512 && info->lba_bytes <= 4096 && is_pow2(info->lba_bytes));
	ASSERT(info->nblocks > 0 && info->nblocks <= found->size_lbas / lbas);
	ASSERT(is_pow2(info->atomic_bytes) && info->atomic_bytes >= info->lba_bytes);
	ASSERT(info->atomic_bytes <= info->transfer_max_bytes);
	ASSERT(info->zero_max_blocks * lbas <= 65536);
	ASSERT(info->deallocate_max_blocks <= NVME_RANGE_BLOCKS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct nvme_found found = { .nsid = 1 };
	char text[NVME_UP_TEXT] = "";
	struct nvme_smart smart;
	uint32_t told = 0, lines = 0;
	uint64_t cap;
	int err;

	if (size == 0)
		return 0;
	cap = (uint64_t)(*bytes++ & 0xf) << 48;
	size--;
	fill(&bytes, &size, 0, 64);
	fill(&bytes, &size, 64, 64);
	fill(&bytes, &size, 512, 32);
	fill(&bytes, &size, 256, 16);
	err = nvme__read_controller(&found, &page.ctrl, cap, text, sizeof(text));
	memset(&page, 0, sizeof(page));
	fill(&bytes, &size, 0, 16);
	nvme__read_limits(&found, &page.nvm);
	fill(&bytes, &size, 0, 64);
	err = err ? err : nvme__read_descriptors(page.bytes, text, sizeof(text));
	memset(&page, 0, sizeof(page));
	fill(&bytes, &size, 0, 160);
	err = err ? err : nvme__read_namespace(&found, &page.ns, text, sizeof(text));
	if (!err)
		check(&found);
	else
		ASSERT(text[0] != 0);
	memset(&page, 0, sizeof(page));
	fill(&bytes, &size, 0, 512);
	nvme__read_health(&smart, &page.health);
	while (nvme__health_line(&told, &smart, text, sizeof(text)))
		ASSERT(++lines <= 8 && text[0] != 0);
	memset(&page, 0, sizeof(page));
	fill(&bytes, &size, 0, NVME_PAGE_SIZE);
	(void)!nvme__read_descriptors(page.bytes, text, sizeof(text));
	memset(&page, 0, sizeof(page));
	return 0;
}
