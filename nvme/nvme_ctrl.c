/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bring-up and shutdown of a controller, as stages:
 *
 *   found --> disabled --> enabled --> identified --> has a namespace --> has queues --> in use
 *                                                                                       |
 *   destroyed <-- memory unmapped <-- disabled <-- shut down <--------------------------+
 *
 * Invariants:
 *
 *  (1) The device is disabled before memory that it was told of is unmapped, and memory
 *      is unmapped before it is freed.
 *  (2) Whatever the controller says (sizes, limits, counts) is checked here, once.
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MIN_NS (5 * NS_PER_S) /* controllers promise less than they need */

/* For the failing stage's message. */
struct stage {
	struct nvme_drive *drive;
	const struct nvme_options *options;
	const char *what; /* what went wrong, for people */
};

static uint32_t csts(const struct nvme_drive *drive)
{
	return drive->ops->read32(drive->ctrl, NVME_REG_CSTS);
}

/* Wait until CSTS & mask == want. */
static int wait_csts(struct nvme_drive *drive, uint32_t mask, uint32_t want)
{
	uint64_t deadline_ns = clock_now_ns() + drive->timeout_ns;
	struct timespec pause = { .tv_nsec = 1000000 };

	for (;;) {
		uint32_t now = csts(drive);

		if (now == NVME_CSTS_GONE)
			return -ENODEV;
		if ((now & mask) == want)
			return 0;
		if (now & NVME_CSTS_CFS && want)
			return -EIO;
		if (clock_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

static int disable(struct nvme_drive *drive)
{
	uint32_t cc = drive->ops->read32(drive->ctrl, NVME_REG_CC);

	drive->ops->write32(drive->ctrl, NVME_REG_CC, cc & ~NVME_CC_EN);
	return wait_csts(drive, NVME_CSTS_RDY, 0);
}

static int stage_find(struct stage *s)
{
	struct nvme_drive *drive = s->drive;

	s->what = "no controller answers";
	if (csts(drive) == NVME_CSTS_GONE)
		return -ENODEV;
	drive->cap = drive->ops->read64(drive->ctrl, NVME_REG_CAP);
	drive->timeout_ns = max_u64(NVME_CAP_TO(drive->cap) * 500 * NS_PER_MS, TIMEOUT_MIN_NS);
	drive->info.depth_max = min_u32(NVME_CAP_MQES(drive->cap) + 1, NVME_DEPTH_MAX);
	s->what = "the controller does not speak the NVM command set with pages of 4 KiB";
	if (!(drive->cap & NVME_CAP_CSS_NVM) || NVME_CAP_MPSMIN(drive->cap) > 0)
		return -ENOTSUP;
	if (drive->info.depth_max < NVME_ADMIN_DEPTH)
		return -ENOTSUP;
	return 0;
}

static int stage_disable(struct stage *s)
{
	s->what = "the controller cannot be disabled";
	return disable(s->drive);
}

static int stage_enable(struct stage *s)
{
	struct nvme_drive *drive = s->drive;
	const struct nvme_ctrl_ops *ops = drive->ops;
	int err;

	s->what = "no memory for the admin queue";
	err = nvme__admin_create(drive);
	if (err)
		return err;

	s->what = "the controller does not become ready";
	ops->write32(drive->ctrl, NVME_REG_AQA,
		     (NVME_ADMIN_DEPTH - 1) << 16 | (NVME_ADMIN_DEPTH - 1));
	ops->write64(drive->ctrl, NVME_REG_ASQ, drive->admin.mem.iova);
	ops->write64(drive->ctrl, NVME_REG_ACQ,
		     drive->admin.mem.iova + nvme__rings_cq_offset(NVME_ADMIN_DEPTH));
	ops->write32(drive->ctrl, NVME_REG_CC, NVME_CC_ENTRIES | NVME_CC_EN);
	return wait_csts(drive, NVME_CSTS_RDY, NVME_CSTS_RDY);
}

/* Text of the controller: spaces at its end cut off, and nothing in it that a terminal obeys. */
static void copy_text(char *to, const char *from, size_t size)
{
	size_t len = size;

	while (len > 0 && (from[len - 1] == ' ' || from[len - 1] == 0))
		len--;
	for (size_t i = 0; i < len; i++)
		to[i] = from[i] >= ' ' && from[i] < 127 ? from[i] : '?';
	to[len] = 0;
}

static int admin_identify(struct nvme_drive *drive, uint32_t cns, uint32_t nsid)
{
	struct nvme_sqe sqe = nvme__sqe_identify(cns, nsid);

	sqe.prp1 = le64_of(nvme__admin_page_iova(drive, 0));
	memset(nvme__admin_page(drive, 0), 0, NVME_PAGE_SIZE);
	return nvme__admin(drive, &sqe, NULL);
}

static int stage_identify(struct stage *s)
{
	struct nvme_drive *drive = s->drive;
	const struct nvme_id_ctrl *id = nvme__admin_page(drive, 0);
	struct nvme_info *info = &drive->info;
	uint32_t blocks = NVME_IO_BLOCKS_MAX;
	int err;

	s->what = "identify controller failed";
	err = admin_identify(drive, NVME_CNS_CONTROLLER, 0);
	if (err)
		return err;
	if (id->mdts > 0 && id->mdts < 10)
		blocks = 1u << id->mdts;
	/* A PRP list lies in half a page at most: 256 entries and the first block. */
	info->transfer_max_bytes = min_u32(blocks, 256) * NVME_BLOCK_SIZE;
	info->volatile_cache = id->volatile_write_cache & 1;
	info->atomic_bytes = le16_get(id->awupf) + 1u; /* in LBAs, until the namespace is known */
	copy_text(info->model, id->model, sizeof(id->model));
	copy_text(info->serial, id->serial, sizeof(id->serial));
	copy_text(info->firmware, id->firmware, sizeof(id->firmware));
	return 0;
}

static int stage_namespace(struct stage *s)
{
	struct nvme_drive *drive = s->drive;
	const struct nvme_id_ns *ns = nvme__admin_page(drive, 0);
	const le32 *active = nvme__admin_page(drive, 0);
	uint32_t format;
	int err;

	s->what = "identify namespace failed";
	err = admin_identify(drive, NVME_CNS_ACTIVE_LIST, 0);
	if (err)
		return err;
	drive->nsid = le32_get(active[0]);
	if (drive->nsid == 0) {
		s->what = "the controller has no namespace";
		return -ENOTSUP;
	}
	err = admin_identify(drive, NVME_CNS_NAMESPACE, drive->nsid);
	if (err)
		return err;

	format = (ns->flbas & 0xfu) | (ns->flbas >> 1 & 0x30u);
	drive->lba_shift = ns->lbaf[format].lba_shift;
	if (drive->lba_shift < 9 || drive->lba_shift > NVME_BLOCK_SHIFT ||
	    le16_get(ns->lbaf[format].metadata_bytes) != 0) {
		s->what = "the namespace's format is none of 512 to 4096 bytes without metadata";
		return -ENOTSUP;
	}
	drive->info.nblocks = le64_get(ns->size_lbas) >> (NVME_BLOCK_SHIFT - drive->lba_shift);
	drive->info.atomic_bytes <<= drive->lba_shift;
	if (drive->info.nblocks == 0 || drive->info.nblocks >> 52) {
		s->what = "the namespace has no sensible size";
		return -ENOTSUP;
	}
	return 0;
}

static int stage_queues(struct stage *s)
{
	struct nvme_drive *drive = s->drive;
	uint32_t wanted = s->options ? s->options->qpair_count_max : 0;

	struct nvme_sqe sqe = nvme__sqe_queue_count(min_u32(max_u32(wanted, 1), NVME_QPAIRS_MAX));
	uint32_t result;
	int err;

	s->what = "the controller grants no queues";
	err = nvme__admin(drive, &sqe, &result);
	if (!err)
		drive->info.qpair_count_max = min_u32(min_u32(max_u32(wanted, 1), NVME_QPAIRS_MAX),
						      min_u32(result & 0xffff, result >> 16) + 1);
	return err;
}

/* (1), in this order; a device that cannot be disabled keeps its memory for good. */
static void tear_down(struct nvme_drive *drive)
{
	if (disable(drive) == 0)
		nvme__admin_destroy(drive);
	drive->ops->destroy(drive->ctrl);
	free(drive);
}

int nvme__drive_up(struct nvme_drive **out, const struct nvme_ctrl_ops *ops, void *ctrl,
		   const char *name, struct nvme_dma *dma, const struct nvme_options *options,
		   char *err_text, size_t err_text_size)
{
	static int (*const stages[])(struct stage *) = { stage_find,      stage_disable,
							 stage_enable,    stage_identify,
							 stage_namespace, stage_queues };
	struct nvme_drive *drive = calloc(1, sizeof(*drive));
	struct stage s = { .drive = drive, .options = options };
	int err = 0;

	if (!drive) {
		ops->destroy(ctrl);
		nvme__err_text(err_text, err_text_size, name, "out of memory");
		return -ENOMEM;
	}
	drive->ops = ops;
	drive->ctrl = ctrl;
	drive->dma = dma;
	drive->nsid_wanted = nvme__name_nsid(name);
	for (size_t i = 0; i < ARRAY_LEN(stages) && !err; i++)
		err = stages[i](&s);
	if (err) {
		nvme__err_text(err_text, err_text_size, name, "%s (%s)", s.what, strerror(-err));
		tear_down(drive);
		return err;
	}
	*out = drive;
	return 0;
}

void nvme_close(struct nvme_drive *drive)
{
	uint32_t cc;

	if (!drive)
		return;
	for (uint32_t i = 0; i < ARRAY_LEN(drive->qpair); i++)
		ASSERT(drive->qpair[i] == NULL);
	cc = drive->ops->read32(drive->ctrl, NVME_REG_CC);
	drive->ops->write32(drive->ctrl, NVME_REG_CC, cc | NVME_CC_SHN_NORMAL);
	/* One that does not shut down in time is disabled all the same. */
	(void)!wait_csts(drive, 3u << 2, NVME_CSTS_SHST_DONE << 2);
	tear_down(drive);
}

void nvme_drive_info(const struct nvme_drive *drive, struct nvme_info *info)
{
	*info = drive->info;
	if (drive->ops->note)
		drive->ops->note(drive->ctrl, info->note, sizeof(info->note));
}
