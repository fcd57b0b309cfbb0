/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The store's check of its drives: after each reset of a drive the driver asks whether the drive
 * has everything that the store was told to be durable.
 */
#ifndef APP_WITNESS_H
#define APP_WITNESS_H

#include "meta/meta_witness.h"
#include "nvme/nvme.h"

struct app_witness {
	const struct meta *meta;
	uint32_t drive;
	struct meta_witness taken; /* at the last reset */
};

/* From now on the mounted store is asked about `drive`, its drive number `index`; by the thread
 * that turns its crank and looks after its drives.  `w` stays until app_witness_off(). */
void app_witness_on(struct app_witness *w, struct nvme_drive *drive, const struct meta *meta,
		    uint32_t index);
void app_witness_off(struct nvme_drive *drive);

#endif
