/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bring-up: controllers that are gone, dead, or of no use; and the soft controller against
 * a driver that asks for nonsense.
 */
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct nvme_fixture f;

static void setup(void)
{
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256, .volatile_cache = true }, 8);
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_ctrl, .init = setup, .fini = teardown, .timeout = 60);

/* ---- controllers that do not come up --------------------------------------------------- */

static struct nvme_ctrl_ops broken;
static uint32_t gone_after; /* reads that are answered before the controller is gone */
static bool refuse_ready;
static uint64_t wrong_asq;

static uint32_t read32(void *ctrl, uint32_t offset)
{
	if (gone_after && --gone_after == 0) {
		gone_after = 1;
		return NVME_CSTS_GONE;
	}
	if (refuse_ready && offset == NVME_REG_CSTS)
		return NVME_CSTS_CFS;
	return nvme__soft_ops.read32(ctrl, offset);
}

static void write64(void *ctrl, uint32_t offset, uint64_t value)
{
	nvme__soft_ops.write64(ctrl, offset,
			       wrong_asq && offset == NVME_REG_ASQ ? wrong_asq : value);
}

/* Brings up a second controller over a simulated drive that `change` has changed. */
static int bring_up(void (*change)(struct nvme_soft_traits *), char *err_text)
{
	struct sim_drive *sim;
	struct nvme_soft *soft;
	struct nvme_drive *drive;
	int err;

	broken = nvme__soft_ops;
	broken.read32 = read32;
	broken.write64 = write64;
	cr_assert_eq(sim_drive_create(&sim, &(struct sim_drive_options){ .nblocks = 16 }), 0);
	if (change)
		change(sim_drive_traits(sim));
	cr_assert_eq(nvme__soft_create(&soft, f.dma, sim_drive_back(sim)), 0);
	err = nvme__drive_up(&drive, &broken, soft, "broken:0", f.dma, NULL, err_text,
			     NVME_ERR_TEXT);
	gone_after = 0;
	refuse_ready = false;
	if (!err)
		nvme_close(drive);
	sim_drive_destroy(sim);
	return err;
}

static void expect_refusal(int want, const char *why, void (*change)(struct nvme_soft_traits *))
{
	char err_text[NVME_ERR_TEXT] = "";

	cr_assert_eq(bring_up(change, err_text), want, "%s", err_text);
	cr_assert_eq(strncmp(err_text, "broken:0: ", 10), 0, "%s", err_text);
	cr_assert_not_null(strstr(err_text, why), "%s", err_text);
}

Test(nvme_ctrl, sound_controller_comes_up)
{
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(bring_up(NULL, err_text), 0);
}

Test(nvme_ctrl, controller_that_is_gone_is_no_device_at_whatever_stage)
{
	gone_after = 1;
	expect_refusal(-ENODEV, "no controller", NULL);
	gone_after = 3;
	expect_refusal(-ENODEV, "disabled", NULL);
}

Test(nvme_ctrl, fatal_controller_is_an_error_not_a_wait)
{
	wrong_asq = 1ull << 38; /* not mapped: it cannot enable */
	expect_refusal(-EIO, "ready", NULL);
	wrong_asq = 0;
	cr_assert_eq(nvme_dma_fault_count(f.dma), 1);
}

static void strange_lbas(struct nvme_soft_traits *traits)
{
	traits->lba_shift = 8;
}

static void no_blocks(struct nvme_soft_traits *traits)
{
	static struct nvme_soft_ns tiny;

	tiny = (struct nvme_soft_ns){ .nsid = 1, .lba_shift = 9, .size_lbas = 7 };
	traits->ns = &tiny;
	traits->ns_count = 1;
}

static void no_namespace(struct nvme_soft_traits *traits)
{
	traits->nblocks = 0;
}

Test(nvme_ctrl, namespace_of_no_use_is_refused)
{
	expect_refusal(-ENOTSUP, "format", strange_lbas);
	expect_refusal(-ENOTSUP, "size", no_blocks);
	expect_refusal(-ENOTSUP, "no namespace", no_namespace);
}

static void control_characters(struct nvme_soft_traits *traits)
{
	memcpy(traits->model, "ev\033[2Jil", 9);
}

Test(nvme_ctrl, controllers_texts_are_harmless)
{
	char err_text[NVME_ERR_TEXT];
	struct nvme_info info;
	struct sim_drive *sim;
	struct nvme_drive *drive;

	cr_assert_eq(bring_up(control_characters, err_text), 0);
	cr_assert_eq(sim_drive_create(&sim, &(struct sim_drive_options){ .nblocks = 16 }), 0);
	control_characters(sim_drive_traits(sim));
	sim_drive_open(sim, f.dma, &drive);
	nvme_drive_info(drive, &info);
	cr_assert_str_eq(info.model, "ev?[2Jil");
	nvme_close(drive);
	sim_drive_destroy(sim);
}

Test(nvme_ctrl, info_says_what_the_drive_is)
{
	struct nvme_info info;

	nvme_drive_info(f.drive, &info);
	cr_assert_eq(info.nblocks, 256);
	cr_assert_eq(info.transfer_max_bytes, 128 << 10);
	cr_assert(info.volatile_cache);
	cr_assert_eq(info.atomic_bytes, 4096);
	cr_assert_str_eq(info.model, "simulated");
	cr_assert_eq(info.depth_max, 4096);
}

Test(nvme_ctrl, drives_of_512_byte_lbas_are_seen_in_blocks)
{
	fixture_down(&f);
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 100, .atomic_bytes = 512 }, 8);
	cr_assert_eq(f.info.nblocks, 100);
	struct nvme_io io = write_of(&f, 98, 2, 3);

	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(holds(sim_drive_visible(f.sim) + 98 * 4096, 8192, 3));
	io = read_of(&f, 99, 2);
	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
}

/* ---- queue pairs -------------------------------------------------------------------------- */

Test(nvme_ctrl, queue_pairs_end_where_the_grant_ends_and_their_ids_are_used_again)
{
	struct nvme_qpair *qp[7];
	struct nvme_qpair *more;

	cr_assert_eq(f.drive->info.qpair_count_max, 8);
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 7; i++)
			cr_assert_eq(nvme_qpair_create(f.drive, 4, &qp[i]), 0);
		cr_assert_eq(nvme_qpair_create(f.drive, 4, &more), -ENOSPC);
		for (uint32_t i = 0; i < 7; i++)
			nvme_qpair_destroy(qp[(3 * i) % 7]);
	}
}

Test(nvme_ctrl, depth_out_of_range_is_refused)
{
	struct nvme_qpair *qp;

	cr_assert_eq(nvme_qpair_create(f.drive, 0, &qp), -EINVAL);
	cr_assert_eq(nvme_qpair_create(f.drive, 1, &qp), -EINVAL);
	cr_assert_eq(nvme_qpair_create(f.drive, 4097, &qp), -EINVAL);
	cr_assert_eq(nvme_qpair_create(f.drive, 4096, &qp), 0);
	nvme_qpair_destroy(qp);
	cr_assert_eq(nvme_qpair_create(f.drive, 2, &qp), 0);
	nvme_qpair_destroy(qp);
}

/* ---- the soft controller against its driver --------------------------------------------- */

static int admin(uint8_t opcode, uint64_t prp1, uint32_t cdw10, uint32_t cdw11)
{
	return nvme__admin(f.drive,
			   &(struct nvme_sqe){ .opcode = opcode,
					       .prp1 = le64_of(prp1),
					       .cdw10 = le32_of(cdw10),
					       .cdw11 = le32_of(cdw11) },
			   NULL);
}

Test(nvme_ctrl, soft_controller_refuses_senseless_admin_commands)
{
	uint64_t good = f.iova, out = 1ull << 38;
	uint32_t faults = 0;

	cr_assert_eq(admin(0xc5, 0, 0, 0), -EOPNOTSUPP);
	cr_assert_eq(admin(NVME_ADMIN_IDENTIFY, out, 1, 0), -EFAULT);
	faults++;
	cr_assert_eq(admin(NVME_ADMIN_IDENTIFY, good + 8, 1, 0), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_IDENTIFY, good, 0x77, 0), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_IDENTIFY, good, 0, 0), -EINVAL, "namespace 0");
	cr_assert_eq(admin(NVME_ADMIN_GET_FEATURES, 0, 0x7f, 0), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_SET_FEATURES, 0, NVME_FEAT_QUEUE_COUNT, 0xffff), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_SET_FEATURES, 0, NVME_FEAT_WRITE_CACHE, 0), -EINVAL);

	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 7 << 16 | 0, 1), -EINVAL, "id 0");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 7 << 16 | 1, 1), -EINVAL, "id in use");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 7 << 16 | 999, 1), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 0 << 16 | 2, 1), -EINVAL, "one entry");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 0xffffu << 16 | 2, 1), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 7 << 16 | 2, 0), -EINVAL, "in pieces");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, out, 7 << 16 | 2, 1), -EFAULT);
	faults++;
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good + 64, 7 << 16 | 2, 1), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_CREATE_SQ, good, 7 << 16 | 2, 2 << 16 | 1), -EINVAL,
		     "without its completion queue");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 7 << 16 | 2, 1), 0);
	cr_assert_eq(admin(NVME_ADMIN_CREATE_CQ, good, 7 << 16 | 2, 1), -EINVAL, "twice");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_SQ, good, 7 << 16 | 2, 3 << 16 | 1), -EINVAL,
		     "another's completion queue");
	cr_assert_eq(admin(NVME_ADMIN_CREATE_SQ, out, 7 << 16 | 2, 2 << 16 | 1), -EFAULT);
	faults++;
	cr_assert_eq(admin(NVME_ADMIN_DELETE_SQ, 0, 2, 0), -EINVAL);
	cr_assert_eq(admin(NVME_ADMIN_DELETE_CQ, 0, 1, 0), -EINVAL, "its submission queue lives");
	cr_assert_eq(admin(NVME_ADMIN_DELETE_CQ, 0, 2, 0), 0);
	cr_assert_eq(admin(NVME_ADMIN_DELETE_CQ, 0, 2, 0), -EINVAL);
	cr_assert_eq(nvme_dma_fault_count(f.dma), faults);
}

Test(nvme_ctrl, admin_completion_of_another_command_fails_the_drive)
{
	struct nvme_soft *soft = f.drive->ctrl;
	struct nvme_qpair *qp;

	soft->admin.owed_count++;
	nvme__soft_post(&soft->admin, 0x1234, NVME_SC_SUCCESS, 0);
	cr_assert_eq(nvme_qpair_create(f.drive, 8, &qp), -EIO);
	cr_assert(f.drive->failed);
	cr_assert_eq(nvme_qpair_create(f.drive, 8, &qp), -EIO, "it gets no further command");
}

/* One raw command on the I/O queue; its status. */
static int raw(struct nvme_sqe sqe)
{
	struct nvme_rings *r = &f.qp->rings;
	struct nvme_io io = flush_of();

	cr_assert_eq(nvme_submit(f.qp, &io), 0);
	sqe.cid = r->sq[(r->sq_tail + r->depth - 1) % r->depth].cid;
	r->sq[(r->sq_tail + r->depth - 1) % r->depth] = sqe;
	return fixture_finish(&f, &io);
}

Test(nvme_ctrl, soft_controller_refuses_senseless_io_commands)
{
	struct nvme_sqe good = { .opcode = NVME_CMD_READ,
				 .nsid = le32_of(1),
				 .prp1 = le64_of(f.iova) };
	struct nvme_sqe bad;

	cr_assert_eq(raw(good), 0);
	bad = good;
	bad.opcode = 0x99;
	cr_assert_eq(raw(bad), -EOPNOTSUPP);
	bad = good;
	bad.nsid = le32_of(2);
	cr_assert_eq(raw(bad), -EINVAL);
	bad = good;
	bad.flags = 0x40; /* SGL */
	cr_assert_eq(raw(bad), -EINVAL);
	bad = good;
	bad.cdw12 = le32_of(0xffff); /* beyond MDTS */
	cr_assert_eq(raw(bad), -EINVAL);
	bad = good;
	bad.cdw11 = le32_of(0xffffffff);
	bad.cdw10 = le32_of(0xffffffff);
	bad.cdw12 = le32_of(1); /* first + count wraps */
	cr_assert_eq(raw(bad), -ERANGE);
}

Test(nvme_ctrl, doorbell_out_of_range_halts_that_queue_only)
{
	struct nvme_io io = read_of(&f, 0, 1), *done[1];
	struct nvme_qpair *other, *mine = f.qp;

	cr_assert_eq(nvme_qpair_create(f.drive, 8, &other), 0);
	*mine->rings.sq_doorbell = 77;
	cr_assert_eq(nvme_poll(mine, done, 1), 0);
	*mine->rings.sq_doorbell = 1;
	cr_assert_eq(nvme_poll(mine, done, 1), 0);
	cr_assert_eq(((struct nvme_soft *)f.drive->ctrl)->queue[mine->qid]->sq_head, 0,
		     "halted for good: nothing was fetched");
	f.qp = other;
	cr_assert_eq(fixture_run(&f, &io), 0);
	nvme_qpair_destroy(other);
	f.qp = mine;
}

Test(nvme_ctrl, completions_that_nobody_collects_stop_the_fetching_and_nothing_else)
{
	struct nvme_soft_queue *q = ((struct nvme_soft *)f.drive->ctrl)->queue[1];
	struct nvme_io io[7], *done[8];

	for (uint32_t i = 0; i < 7; i++) {
		io[i] = read_of(&f, i, 1);
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
	}
	nvme_ring(f.qp);
	q->cq_size = 8;
	*f.qp->rings.cq_doorbell = 3; /* as if places 3 .. 7 held what nobody collected */
	cr_assert_eq(nvme_poll(f.qp, done, 8), 2);
	cr_assert_eq(nvme_poll(f.qp, done, 8), 5, "the driver's doorbell made room");
}

Test(nvme_ctrl, disabled_controller_forgets_its_queues)
{
	struct nvme_soft *soft = f.drive->ctrl;

	cr_assert_not_null(soft->queue[1]);
	f.drive->ops->write32(soft, NVME_REG_CC, NVME_CC_ENTRIES);
	cr_assert_null(soft->queue[1]);
	cr_assert_eq(soft->csts & NVME_CSTS_RDY, 0);
	f.drive->ops->write32(soft, NVME_REG_CC, NVME_CC_ENTRIES | NVME_CC_EN);
	cr_assert_eq(soft->csts, NVME_CSTS_RDY);
	/* In a real reset the driver's rings begin again, too; here no command follows. */
	nvme__admin_restart(f.drive);
	cr_assert_eq(nvme__admin_create_queues(f.drive, f.qp, 0), 0);
}

Test(nvme_ctrl, status_of_every_kind_has_an_errno_and_a_text)
{
	cr_assert_eq(nvme__status_errno(0), 0);
	cr_assert_str_eq(nvme__status_text(0), "success");
	for (uint32_t status = 1; status <= NVME_STATUS_MASK; status++) {
		cr_assert_lt(nvme__status_errno(status), 0, "%x", status);
		cr_assert_not_null(nvme__status_text(status));
	}
	cr_assert_eq(nvme__status_errno(NVME_SC_CAPACITY), -ENOSPC);
	cr_assert_eq(nvme__status_errno(0x7ff), -EIO);
}
