/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/nvme_faulty.h"
#include "test/lib/sim_nvme_internal.h"

#include "base/num.h"
#include "base/seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool chance(struct nvme_faulty *f, uint32_t ppm)
{
	return ppm && rand_below(&f->rand, 1000000) < ppm;
}

static bool answers(const struct nvme_faulty *f)
{
	return !f->faults.gone && !f->released;
}

bool nvme_faulty_lives(const struct nvme_faulty *f)
{
	return nvme__soft_ops.read32(f->soft, NVME_REG_CSTS) & NVME_CSTS_RDY;
}

static volatile uint32_t *doorbell_at(struct nvme_faulty *f, uint32_t index) /* MMIO */
{
	return nvme__soft_ops.doorbell(f->soft,
				       NVME_REG_DOORBELLS + index * (4u << NVME_SOFT_DSTRD));
}

/* A controller that is stopped must not be rung: what a real one does then nobody knows. */
static void look_for_rings(struct nvme_faulty *f)
{
	for (uint32_t i = 2; f->watching && i < NVME_FAULTY_DOORBELLS; i++)
		f->late_rings += *doorbell_at(f, i) != f->doorbell[i];
	f->watching = false;
}

uint64_t nvme_faulty_late_rings(struct nvme_faulty *f)
{
	look_for_rings(f);
	return f->late_rings;
}

void nvme_faulty_stop(struct nvme_faulty *f)
{
	uint32_t cc = nvme__soft_ops.read32(f->soft, NVME_REG_CC);
	enum seal_mode was = seal_thread_lift(); /* a device has memory of its own */

	look_for_rings(f);
	for (uint32_t i = 0; i < NVME_FAULTY_DOORBELLS; i++)
		f->doorbell[i] = *doorbell_at(f, i);
	f->watching = true;
	nvme__soft_ops.write32(f->soft, NVME_REG_CC, cc & ~(NVME_CC_EN | NVME_CC_SHN_NORMAL));
	f->faults.fatal = false;
	f->unready = false;
	seal_thread_back(was);
}

/* ---- registers ---------------------------------------------------------------------------- */

static uint32_t read32(void *ctrl, uint32_t offset)
{
	struct nvme_faulty *f = ctrl;
	uint32_t value = nvme__soft_ops.read32(f->soft, offset);

	if (!answers(f))
		return UINT32_MAX;
	if (offset == NVME_REG_CSTS && f->faults.fatal)
		value |= NVME_CSTS_CFS;
	if (offset == NVME_REG_CSTS && f->unready)
		value &= ~NVME_CSTS_RDY;
	return value;
}

static uint64_t read64(void *ctrl, uint32_t offset)
{
	struct nvme_faulty *f = ctrl;

	return answers(f) ? nvme__soft_ops.read64(f->soft, offset) : UINT64_MAX;
}

static void write_cc(struct nvme_faulty *f, uint32_t value)
{
	bool was = nvme__soft_ops.read32(f->soft, NVME_REG_CC) & NVME_CC_EN;

	if (was && !(value & NVME_CC_EN)) {
		f->disable_count++;
		if (f->faults.stuck_ready && !f->unready)
			return;
		nvme_faulty_stop(f);
		return;
	}
	if (!was && value & NVME_CC_EN && f->faults.slow_up) {
		f->faults.slow_up--;
		f->unready = true;
	}
	if (!was && value & NVME_CC_EN)
		look_for_rings(f);
	nvme__soft_ops.write32(f->soft, NVME_REG_CC, value);
}

static void write32(void *ctrl, uint32_t offset, uint32_t value)
{
	struct nvme_faulty *f = ctrl;

	if (!answers(f))
		return;
	if (offset == NVME_REG_CC)
		write_cc(f, value);
	else
		nvme__soft_ops.write32(f->soft, offset, value);
}

static void write64(void *ctrl, uint32_t offset, uint64_t value)
{
	struct nvme_faulty *f = ctrl;

	if (answers(f))
		nvme__soft_ops.write64(f->soft, offset, value);
}

static volatile uint32_t *doorbell(void *ctrl, uint32_t offset) /* MMIO */
{
	return nvme__soft_ops.doorbell(((struct nvme_faulty *)ctrl)->soft, offset);
}

/* ---- completions ---------------------------------------------------------------------------- */

static bool has_room(const struct nvme_soft_queue *q)
{
	uint32_t head = *q->cq_doorbell;
	uint32_t waiting = q->cq_tail >= head ? q->cq_tail - head : q->cq_tail + q->cq_size - head;

	return waiting + q->owed_count + 1 < q->cq_size - 1;
}

static void make_up(struct nvme_faulty *f, struct nvme_soft_queue *q, uint16_t qid, uint16_t cid)
{
	uint16_t own = q->qid;

	if (!has_room(q))
		return;
	q->owed_count++; /* nobody asked, so nothing was owed */
	q->qid = qid;
	nvme__soft_post(q, cid, NVME_SC_SUCCESS, 0);
	q->qid = own;
	f->made_up_count++;
}

/* The id of a command that it has not completed. */
static bool in_flight(const struct nvme_soft_queue *q, uint16_t *cid)
{
	for (uint32_t i = 0; i < q->sq_size; i++) {
		uint32_t at = 0;

		while (at < q->cmd_free_count && q->cmd_free[at] != &q->cmd[i])
			at++;
		*cid = q->cmd[i].cid;
		if (at == q->cmd_free_count)
			return true;
	}
	return false;
}

static void work(struct nvme_faulty *f, uint32_t qid)
{
	struct nvme_soft_queue *q = qid ? f->soft->queue[qid] : NULL;
	uint32_t tail = q ? q->cq_tail : 0;
	uint16_t cid;

	if (qid == 0 && f->faults.deaf && nvme_faulty_lives(f) &&
	    nvme__soft_can_fetch(&f->soft->admin)) {
		f->faults.deaf--;
		(void)nvme__soft_fetch(&f->soft->admin); /* and never posted */
	}
	nvme__soft_ops.service(f->soft, qid);
	if (!q || q->cq_tail == tail || f->soft->queue[qid] != q)
		return;
	cid = le16_get(q->cq[(q->cq_tail + q->cq_size - 1) % q->cq_size].cid);
	if (chance(f, f->faults.twice_ppm))
		make_up(f, q, q->qid, cid);
	if (chance(f, f->faults.unknown_ppm))
		make_up(f, q, q->qid, (uint16_t)rand_u64(&f->rand) | 0x0800);
	if (chance(f, f->faults.queue_ppm) && in_flight(q, &cid))
		make_up(f, q, q->qid + 1, cid);
}

static void service(void *ctrl, uint32_t qid)
{
	struct nvme_faulty *f = ctrl;

	if (answers(f))
		work(f, qid);
}

void nvme_faulty_run(struct nvme_faulty *f)
{
	for (uint32_t qid = 0; qid < NVME_FAULTY_DOORBELLS; qid++) {
		if (qid == 0 || f->soft->queue[qid])
			work(f, qid);
	}
}

void nvme_faulty_autonomous(struct nvme_faulty *f, bool yes)
{
	f->autonomous = yes;
	f->ops.service = yes ? NULL : service;
}

/* ---- what helps ----------------------------------------------------------------------------- */

static int reset(void *ctrl)
{
	struct nvme_faulty *f = ctrl;
	enum seal_mode was;

	if (f->faults.reset_fails)
		return -EIO;
	if (f->faults.reset_tries) {
		f->faults.reset_tries--;
		return -EAGAIN;
	}
	f->reset_count++;
	nvme_faulty_stop(f);
	f->faults.gone = false;
	if (!f->faults.reset_restarts)
		return 0;
	was = seal_thread_lift();
	sim_power_cut(f->sim->power, rand_u64(&f->rand));
	sim_power_on(f->sim->power);
	seal_thread_back(was);
	return 1;
}

static int bus_master(void *ctrl, bool on)
{
	struct nvme_faulty *f = ctrl;

	if (f->faults.bus_master_fails)
		return -EIO;
	if (!on) {
		f->bus_off_count++;
		nvme_faulty_stop(f);
	}
	return 0;
}

static uint32_t alarm_bits(void *ctrl)
{
	struct nvme_faulty *f = ctrl;
	uint32_t bits = f->faults.alarms;

	f->faults.alarms = 0;
	return bits;
}

static void release(void *ctrl)
{
	struct nvme_faulty *f = ctrl;

	ASSERT(!f->released);
	f->released = true;
	f->release_count++;
	if (f->faults.release_stops)
		nvme_faulty_stop(f);
}

static int wake_fd(void *ctrl, uint32_t qid)
{
	return nvme__soft_ops.wake_fd(((struct nvme_faulty *)ctrl)->soft, qid);
}

static bool arm(void *ctrl, uint32_t qid)
{
	return nvme__soft_ops.arm(((struct nvme_faulty *)ctrl)->soft, qid);
}

static void disarm(void *ctrl, uint32_t qid)
{
	nvme__soft_ops.disarm(((struct nvme_faulty *)ctrl)->soft, qid);
}

static void destroy(void *ctrl)
{
	nvme__soft_ops.destroy(((struct nvme_faulty *)ctrl)->soft);
}

static const struct nvme_ctrl_ops all = {
	.read32 = read32,
	.read64 = read64,
	.write32 = write32,
	.write64 = write64,
	.doorbell = doorbell,
	.service = service,
	.wake_fd = wake_fd,
	.arm = arm,
	.disarm = disarm,
	.reset = reset,
	.bus_master = bus_master,
	.alarm = alarm_bits,
	.release = release,
	.destroy = destroy,
};

void nvme_faulty_set(struct nvme_faulty *f, const struct nvme_faults *faults)
{
	f->faults = *faults;
	f->ops.reset = faults->has_reset ? reset : NULL;
	f->ops.bus_master = faults->has_bus_master ? bus_master : NULL;
	f->ops.release = faults->has_release ? release : NULL;
	f->ops.release_stops = faults->release_stops;
}

int nvme_faulty_open(struct nvme_faulty *f, struct sim_drive *sim, struct nvme_dma *dma,
		     const struct nvme_options *options, uint64_t seed, struct nvme_drive **out,
		     char *err_text)
{
	int err;

	memset(f, 0, sizeof(*f));
	rand_seed(&f->rand, seed);
	f->ops = all;
	nvme_faulty_set(f, &f->faults);
	f->sim = sim;
	sim_drive_opens(sim);
	err = nvme__soft_create(&f->soft, dma, sim_drive_back(sim));
	return err ? err
		   : nvme__drive_up(out, &f->ops, f, "faulty", dma, options, err_text,
				    NVME_ERR_TEXT);
}
