/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Passes the driver's questions (nvme_proof.c) to the store (meta_witness.c). */
#include "appliance/media/app_witness.h"

static_assert(NVME_WITNESS_BLOCKS >= META_WITNESS_BLOCKS, "all of them are read");

static uint32_t choose(void *user, uint64_t block[NVME_WITNESS_BLOCKS])
{
	struct app_witness *w = user;

	ASSERT(w->meta && w->drive < META_DRIVES_MAX);
	meta_witness_take(w->meta, w->drive, &w->taken);
	for (uint32_t i = 0; i < w->taken.count; i++)
		block[i] = w->taken.at[i].block;
	ASSERT(w->taken.count <= NVME_WITNESS_BLOCKS);
	return w->taken.count;
}

static const char *judge(void *user, const void *const block[NVME_WITNESS_BLOCKS])
{
	const struct app_witness *w = user;

	ASSERT(w->taken.count > 0);
	return meta_witness_judge(w->meta, &w->taken, block);
}

void app_witness_on(struct app_witness *w, struct nvme_drive *drive, const struct meta *meta,
		    uint32_t index)
{
	const struct nvme_witness witness = { .choose = choose, .judge = judge, .user = w };

	ASSERT(meta && index < META_DRIVES_MAX);
	*w = (struct app_witness){ .meta = meta, .drive = index };
	nvme_drive_witness(drive, &witness);
}

void app_witness_off(struct nvme_drive *drive)
{
	ASSERT(drive);
	nvme_drive_witness(drive, NULL);
}
