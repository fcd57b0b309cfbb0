/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The start and the end of a drive, on a thread that may wait:
 *
 *   controller found --> up (nvme_up.c) --> in use
 *                         |                   |
 *   destroyed <-- memory unmapped <-- disabled <-- shut down
 *
 * Invariants:
 *
 *  (1) The device is disabled before memory that it knows is unmapped, and memory
 *      is unmapped before it is freed.
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Wait until CSTS & mask == want. */
static int wait_csts(struct nvme_drive *drive, uint32_t mask, uint32_t want, uint64_t limit_ns)
{
	uint64_t deadline_ns = clock_now_ns() + limit_ns;
	struct timespec pause = { .tv_nsec = 1000000 };

	for (;;) {
		uint32_t csts = drive->ops->read32(drive->ctrl, NVME_REG_CSTS);

		if (csts == NVME_CSTS_GONE)
			return -ENODEV;
		if ((csts & mask) == want)
			return 0;
		if (clock_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

static int disable(struct nvme_drive *drive)
{
	uint32_t cc = drive->ops->read32(drive->ctrl, NVME_REG_CC);

	drive->ops->write32(drive->ctrl, NVME_REG_CC, cc & ~NVME_CC_EN);
	return wait_csts(drive, NVME_CSTS_RDY, 0, drive->timeout_ns);
}

struct nvme_drive *nvme__drive_alloc(struct nvme_drive *ctl, const char *name)
{
	const size_t counts_bytes = (NVME_QPAIRS_MAX + 1) * sizeof(struct nvme_cached);
	struct nvme_drive *drive = calloc(1, sizeof(*drive));

	if (!drive)
		return NULL;
	drive->cached = aligned_alloc(_Alignof(struct nvme_cached), counts_bytes);
	if (!drive->cached) {
		free(drive);
		return NULL;
	}
	memset(drive->cached, 0, counts_bytes);
	drive->share.ctl = ctl ? ctl : drive;
	drive->share.fd = -1;
	drive->share.count = 1;
	list_init(&drive->share.node);
	drive->nsid_wanted = nvme__name_nsid(name);
	(void)snprintf(drive->name, sizeof(drive->name), "%s", name);
	return drive;
}

void nvme__drive_free(struct nvme_drive *drive)
{
	if (drive->share.fd >= 0)
		close(drive->share.fd);
	free(drive->share.where);
	free(drive->cached);
	free(drive);
}

/* Returns true if the device may still use its memory. */
static bool is_enabled(struct nvme_drive *drive)
{
	const uint32_t csts = drive->ops->read32(drive->ctrl, NVME_REG_CSTS);

	return !drive->reset.stopped && csts != NVME_CSTS_GONE && csts & NVME_CSTS_RDY;
}

/* A device that cannot be disabled keeps its memory for ever. */
static void tear_down(struct nvme_drive *drive)
{
	if (drive->reset.stopped || (!drive->reset.quarantine && disable(drive) == 0)) {
		ASSERT(!is_enabled(drive)); /* (1) */
		nvme__admin_destroy(drive);
		nvme__mem_free(&drive->proving.mem, drive->dma);
	}
	nvme__watch_fini(drive);
	drive->ops->destroy(drive->ctrl);
	nvme__drive_free(drive);
}

static int come_up(struct nvme_drive *drive, const struct nvme_options *options)
{
	uint32_t wanted = options ? options->qpair_count_max : 0;
	struct timespec pause = { .tv_nsec = 100000 };
	int rc;

	nvme__up_begin(&drive->up, drive, false, min_u32(max_u32(wanted, 1), NVME_QPAIRS_MAX));
	for (;;) {
		rc = nvme__up_step(&drive->up, clock_now_ns());
		if (rc <= 0)
			return rc;
		nanosleep(&pause, NULL);
	}
}

int nvme__drive_up(struct nvme_drive **out, const struct nvme_ctrl_ops *ops, void *ctrl,
		   const char *name, struct nvme_dma *dma, const struct nvme_options *options,
		   char *err_text, size_t err_text_size)
{
	struct nvme_drive *drive = nvme__drive_alloc(NULL, name);
	int err;

	if (!drive) {
		ops->destroy(ctrl);
		nvme__err_text(err_text, err_text_size, name, "out of memory");
		return -ENOMEM;
	}
	drive->ops = ops;
	drive->ctrl = ctrl;
	drive->dma = dma;
	drive->poison_reads = nvme_poisons_reads();
	drive->up.text[0] = 0;
	err = nvme__watch_init(drive, options ? options->io_timeout_ns : 0);
	if (!err)
		err = come_up(drive, options);
	if (err) {
		nvme__err_text(err_text, err_text_size, name, "%s (%s)", drive->up.text,
			       strerror(-err));
		tear_down(drive);
		return err;
	}
	*out = drive;
	return 0;
}

static void shut_down(struct nvme_drive *drive)
{
	uint32_t cc;

	if (drive->reset.life != NVME_DEAD) {
		cc = drive->ops->read32(drive->ctrl, NVME_REG_CC);
		drive->ops->write32(drive->ctrl, NVME_REG_CC, cc | NVME_CC_SHN_NORMAL);
		/* One that does not shut down in time is disabled all the same. */
		(void)!wait_csts(drive, 3u << 2, NVME_CSTS_SHST_DONE << 2, drive->shutdown_ns);
	}
	tear_down(drive);
}

void nvme_close(struct nvme_drive *drive)
{
	struct nvme_drive *ctl;
	struct nvme_dma *dma;

	if (!drive)
		return;
	ctl = drive->share.ctl;
	dma = ctl->dma;
	for (uint32_t i = 0; i < ARRAY_LEN(ctl->qpair); i++)
		ASSERT(ctl->qpair[i] == NULL || ctl->qpair[i]->ns != drive);
	pthread_mutex_lock(&dma->open_lock);
	if (nvme__share_leave(drive))
		shut_down(ctl);
	if (drive != ctl)
		nvme__drive_free(drive);
	pthread_mutex_unlock(&dma->open_lock);
}

void nvme_drive_info(const struct nvme_drive *drive, struct nvme_info *info)
{
	const struct nvme_drive *ctl = drive->share.ctl;
	size_t used;

	*info = drive->info;
	info->qpair_count_max = max_u32(info->qpair_count_max / ctl->share.count, 1);
	used = strlen(info->note);
	if (used && used + 2 < sizeof(info->note)) {
		(void)snprintf(info->note + used, sizeof(info->note) - used, "; ");
		used += 2;
	}
	if (ctl->ops->note)
		ctl->ops->note(ctl->ctrl, info->note + used, sizeof(info->note) - used);
	if (used && info->note[used] == 0)
		info->note[used - 2] = 0; /* nothing followed */
}
