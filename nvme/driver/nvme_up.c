/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Brings up a controller, by the stages of one table; each begins something and ends when the
 * controller has answered, or its time is over.
 *
 *   settled --> disabled --> enabled --> controller --> limits --> list --> descriptors -->
 *   namespace --> queue count --> doorbells in memory --> events --> up
 *
 *   settled     a controller that is being enabled by other software must not be disabled before
 *   list        the active namespaces, a page of 1024 at a time, until ours has been found
 *   namespace   after a reset this leads back to `list` for each further namespace that is a
 *               drive; one that becomes a drive later takes these three stages only
 *
 * Invariants, true between any two steps:
 *
 *  (1) At most one command of ours is in flight, and none after an error
 *      [test_nvme_up:command_that_never_ends_is_lost_whichever_stage_it_belongs_to].
 *  (2) The controller's answers go into `found`; the drive takes them over at the end, all at once,
 *      and after a reset only if it is still the same drive
 *      [test_nvme_up:other_drive_than_before_is_refused].
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MIN_NS (5 * NS_PER_S) /* controllers promise less than they need */
#define LIST_PAGES_MAX 64u            /* 65,536 namespaces: then it makes fun of us */
#define LIST_ENTRIES   (NVME_PAGE_SIZE / sizeof(le32))
#define VERSION(a, b)  ((uint32_t)(a) << 16 | (uint32_t)(b) << 8)

#define SKIP  1 /* begin: there is nothing to do */
#define AGAIN 1 /* end: begin again          */
#define NEXT  2 /* end: this namespace is examined */

enum stage_of {
	SETTLED,
	DISABLED,
	ENABLED,
	CONTROLLER,
	LIMITS,
	LIST,
	DESCRIPTORS,
	NAMESPACE,
	QUEUE_COUNT,
	SHADOW,
	EVENTS,
	STAGES
};

#define say(up, ...) ((void)snprintf((up)->text, sizeof((up)->text), __VA_ARGS__))

static int gone(struct nvme_up *up)
{
	up->gone = true;
	return -ENODEV;
}

static int wait_csts(struct nvme_up *up, uint32_t mask, uint32_t want)
{
	ASSERT((want & ~mask) == 0);
	up->csts_mask = mask;
	up->csts_want = want;
	return 0;
}

/* The stage's command, with its data on bring-up's page. */
static int command(struct nvme_up *up, struct nvme_sqe sqe)
{
	ASSERT(up->cmd.state != NVME_ADMIN_FLYING); /* (1) */
	sqe.prp1 = le64_of(nvme__admin_page_iova(up->drive, NVME_PAGE_UP));
	memset(nvme__admin_page(up->drive, NVME_PAGE_UP), 0, NVME_PAGE_SIZE);
	up->cmd = (struct nvme_admin_cmd){ .sqe = sqe, .deadline_ns = up->deadline_ns };
	return nvme__admin_submit(up->drive, &up->cmd);
}

static const void *page(const struct nvme_up *up)
{
	return nvme__admin_page(up->drive, NVME_PAGE_UP);
}

/* ---- registers -------------------------------------------------------------------------- */

static uint64_t timeout_ns(const struct nvme_up *up, uint64_t cap)
{
	uint64_t halves = NVME_CAP_TO(cap);

	if (cap & NVME_CAP_CRWMS)
		halves = max_u64(halves, NVME_CRTO_CRWMT((uint32_t)up->reg[UP_CRTO]));
	return max_u64(halves * 500 * NS_PER_MS, TIMEOUT_MIN_NS);
}

static void look_for_cmb(struct nvme_up *up, uint64_t cap)
{
	/* From 1.4 on the size is hidden until it is asked for. */
	if (cap & NVME_CAP_CMBS || up->reg[UP_CMBSZ])
		(void)snprintf(up->found.info.note, sizeof(up->found.info.note),
			       "its controller memory buffer is not used");
}

/* Returns true if this controller has the register, judged by those before it. */
static bool has_register(const struct nvme_up *up, uint32_t i)
{
	ASSERT(i < NVME_UP_REGS);
	if (i == UP_CRTO)
		return up->reg[UP_CAP] & NVME_CAP_CRWMS;
	return i != UP_CMBSZ || (uint32_t)up->reg[UP_VS] >= VERSION(1, 2);
}

/* All that is needed to begin with, one after the other: 0, or -EAGAIN. */
static int read_registers(struct nvme_up *up)
{
	static const struct {
		uint32_t offset, size_bytes;
	} table[NVME_UP_REGS] = {
		[UP_CSTS] = { NVME_REG_CSTS, 4 }, [UP_CC] = { NVME_REG_CC, 4 },
		[UP_CAP] = { NVME_REG_CAP, 8 },   [UP_VS] = { NVME_REG_VS, 4 },
		[UP_CRTO] = { NVME_REG_CRTO, 4 }, [UP_CMBSZ] = { NVME_REG_CMBSZ, 4 },
	};

	for (uint32_t *i = &up->reg_next; *i < NVME_UP_REGS; ++*i) {
		if (has_register(up, *i) &&
		    nvme__ask(up->drive, table[*i].offset, table[*i].size_bytes, &up->reg[*i]))
			return -EAGAIN;
	}
	return 0;
}

static int begin_settle(struct nvme_up *up)
{
	struct nvme_drive *drive = up->drive;
	uint32_t csts = (uint32_t)up->reg[UP_CSTS], cc = (uint32_t)up->reg[UP_CC];
	uint64_t cap = up->reg[UP_CAP];

	if (csts == NVME_CSTS_GONE || cap == UINT64_MAX) /* it may have gone between the two */
		return gone(up);
	if (up->again && NVME_CAP_DSTRD(cap) != NVME_CAP_DSTRD(drive->cap)) {
		say(up, "its doorbells are not where they were");
		return -ENODEV;
	}
	drive->cc = cc;
	drive->cap = cap;
	drive->timeout_ns = timeout_ns(up, drive->cap);
	up->deadline_ns = up->now_ns + drive->timeout_ns;
	up->found.version = (uint32_t)up->reg[UP_VS];
	up->found.info.depth_max = min_u32(NVME_CAP_MQES(drive->cap) + 1, NVME_DEPTH_MAX);
	look_for_cmb(up, drive->cap);
	say(up, "the controller does not speak the NVM command set with pages of 4 KiB");
	if (!(drive->cap & NVME_CAP_CSS_NVM) || NVME_CAP_MPSMIN(drive->cap) > 0)
		return -ENOTSUP;
	if (up->found.info.depth_max < NVME_ADMIN_DEPTH) {
		say(up, "the controller's queues have %u entries at most",
		    up->found.info.depth_max);
		return -ENOTSUP;
	}
	if (!(cc & NVME_CC_EN) || NVME_CC_SHN(cc) || csts & (NVME_CSTS_RDY | NVME_CSTS_CFS))
		return SKIP;
	return wait_csts(up, NVME_CSTS_RDY, NVME_CSTS_RDY);
}

static int begin_disable(struct nvme_up *up)
{
	struct nvme_drive *drive = up->drive;

	drive->cc &= ~NVME_CC_EN;
	drive->ops->write32(drive->ctrl, NVME_REG_CC, drive->cc);
	return wait_csts(up, NVME_CSTS_RDY, 0);
}

static int begin_enable(struct nvme_up *up)
{
	struct nvme_drive *drive = up->drive;
	const struct nvme_ctrl_ops *ops = drive->ops;
	uint64_t iova;

	ASSERT(!(drive->cc & NVME_CC_EN)); /* else it would still use the old queues */
	drive->shadow = false;
	drive->failed = false; /* until it shows otherwise */
	if (drive->admin.mem.size_bytes == 0 && nvme__admin_create(drive)) {
		say(up, "no memory for the admin queue");
		return -ENOMEM;
	}
	nvme__admin_restart(drive);
	iova = drive->admin.mem.iova;
	ops->write32(drive->ctrl, NVME_REG_AQA,
		     (NVME_ADMIN_DEPTH - 1) << 16 | (NVME_ADMIN_DEPTH - 1));
	ops->write64(drive->ctrl, NVME_REG_ASQ, iova);
	ops->write64(drive->ctrl, NVME_REG_ACQ, iova + nvme__rings_cq_offset(NVME_ADMIN_DEPTH));
	drive->cc = NVME_CC_ENTRIES | NVME_CC_EN;
	ops->write32(drive->ctrl, NVME_REG_CC, drive->cc);
	return wait_csts(up, NVME_CSTS_RDY, NVME_CSTS_RDY);
}

/* ---- identification --------------------------------------------------------------------- */

static int begin_controller(struct nvme_up *up)
{
	return command(up, nvme__sqe_identify(NVME_CNS_CONTROLLER, 0));
}

static int end_controller(struct nvme_up *up)
{
	const struct nvme_info *known = &up->drive->info, *now = &up->found.info;
	int err = nvme__read_controller(&up->found, page(up), up->drive->cap, up->text,
					sizeof(up->text));

	if (err || !up->again)
		return err;
	if (strcmp(known->serial, now->serial) == 0 && strcmp(known->model, now->model) == 0)
		return 0;
	say(up, "another drive answers: %s, serial %s", now->model, now->serial);
	return -ENODEV;
}

static int begin_limits(struct nvme_up *up)
{
	if (!(up->found.oncs & (NVME_ONCS_DATASET | NVME_ONCS_ZEROES)))
		return SKIP;
	return command(up, nvme__sqe_identify(NVME_CNS_CONTROLLER_NVM, 0));
}

static int end_limits(struct nvme_up *up)
{
	nvme__read_limits(&up->found, page(up));
	return 0;
}

static int begin_list(struct nvme_up *up)
{
	return command(up, nvme__sqe_identify(NVME_CNS_ACTIVE_LIST, up->list_after));
}

/* For people: which namespaces there are; the first few. */
static void list_one(struct nvme_up *up, uint32_t nsid)
{
	size_t used = strlen(up->list_text);

	if (up->list_count++ < 8 && used + 12 < sizeof(up->list_text))
		(void)snprintf(up->list_text + used, sizeof(up->list_text) - used, "%s%u",
			       used ? ", " : "", nsid);
}

static int not_listed(struct nvme_up *up, uint32_t wanted)
{
	if (wanted && up->list_count)
		say(up, "the controller has no namespace %u, but %s%s", wanted, up->list_text,
		    up->list_count > 8 ? ", ..." : "");
	else
		say(up, "the controller has no namespace");
	return wanted ? -ENODEV : -ENOTSUP;
}

/* Returns true if the namespace is a drive, besides the current one. */
static bool is_a_drive(const struct nvme_up *up, uint32_t nsid)
{
	struct nvme_drive *ns = nvme__first_ns(up->drive);

	while (ns && (ns == up->ns || ns->nsid != nsid))
		ns = nvme__next_ns(ns);
	return ns;
}

static int take_namespace(struct nvme_up *up, uint32_t nsid)
{
	ASSERT(nsid > 0);
	up->found.nsid = nsid;
	if (!is_a_drive(up, nsid))
		return 0;
	say(up, "namespace %u of its controller is already a drive of this process", nsid);
	return -EBUSY;
}

static int end_list(struct nvme_up *up)
{
	const le32 *list = page(up);
	/* After a reset, the same one as before. */
	uint32_t wanted = up->again ? up->ns->nsid : up->ns->nsid_wanted;
	uint32_t i;

	for (i = 0; i < LIST_ENTRIES && le32_get(list[i]) != 0; i++) {
		uint32_t nsid = le32_get(list[i]);

		if (nsid <= up->list_after) {
			say(up, "the controller's list of namespaces is out of order");
			return -EIO;
		}
		up->list_after = nsid;
		list_one(up, nsid);
		if (wanted == 0 || nsid == wanted)
			return take_namespace(up, nsid);
	}
	/* The rest is worth reading only for ours; a list's last id has no list after it. */
	if (i < LIST_ENTRIES || up->list_after > wanted || ++up->list_pages == LIST_PAGES_MAX)
		return not_listed(up, wanted);
	return AGAIN;
}

static int begin_descriptors(struct nvme_up *up)
{
	ASSERT(up->found.nsid > 0);
	if (up->found.version < VERSION(1, 3))
		return SKIP;
	return command(up, nvme__sqe_identify(NVME_CNS_DESCRIPTORS, up->found.nsid));
}

static int end_descriptors(struct nvme_up *up)
{
	return nvme__read_descriptors(page(up), up->text, sizeof(up->text));
}

static int begin_namespace(struct nvme_up *up)
{
	ASSERT(up->found.nsid > 0);
	return command(up, nvme__sqe_identify(NVME_CNS_NAMESPACE, up->found.nsid));
}

/* Checks what the layers above rely on: it may have grown, and must not differ otherwise. */
static int check_again(struct nvme_up *up)
{
	const struct nvme_info *known = &up->ns->info, *now = &up->found.info;

	ASSERT(up->again && up->found.nsid == up->ns->nsid);
	say(up, "namespace %u is not what it was: %llu blocks of %u bytes, now %llu of %u",
	    up->found.nsid, (unsigned long long)known->nblocks, known->lba_bytes,
	    (unsigned long long)now->nblocks, now->lba_bytes);
	if (now->nblocks < known->nblocks || now->lba_bytes != known->lba_bytes)
		return -ENODEV;
	if (memcmp(up->found.ns_id, up->ns->ns_id, sizeof(up->ns->ns_id)) != 0) {
		say(up, "namespace %u is another one: its NGUID or EUI64 has changed",
		    up->found.nsid);
		return -ENODEV;
	}
	if (now->atomic_bytes < known->atomic_bytes ||
	    now->zero_max_blocks < known->zero_max_blocks ||
	    now->deallocate_max_blocks < known->deallocate_max_blocks ||
	    now->transfer_max_bytes < known->transfer_max_bytes || up->found.sgl != up->ns->sgl ||
	    now->depth_max < known->depth_max || now->volatile_cache != known->volatile_cache) {
		say(up, "the controller's limits are not what they were");
		return -ENODEV;
	}
	return 0;
}

static int end_namespace(struct nvme_up *up)
{
	int err = nvme__read_namespace(&up->found, page(up), up->text, sizeof(up->text));

	if (!err && up->again)
		err = check_again(up);
	return err ? err : NEXT;
}

/* ---- agreements with it ------------------------------------------------------------------ */

static int begin_queue_count(struct nvme_up *up)
{
	return command(up, nvme__sqe_queue_count(up->qpair_count_wanted));
}

static int end_queue_count(struct nvme_up *up)
{
	uint32_t sq_count = (up->cmd.result & 0xffff) + 1, cq_count = (up->cmd.result >> 16) + 1;
	uint32_t granted = min_u32(up->qpair_count_wanted, min_u32(sq_count, cq_count));

	ASSERT(granted > 0 && granted <= NVME_QPAIRS_MAX);
	up->found.info.qpair_count_max = granted;
	if (!up->again || granted >= up->drive->info.qpair_count_max)
		return 0;
	say(up, "the controller grants %u queues, where it granted %u before", granted,
	    up->drive->info.qpair_count_max);
	return -ENODEV;
}

static int begin_shadow(struct nvme_up *up)
{
	struct nvme_drive *drive = up->drive;
	uint32_t stride = 4u << NVME_CAP_DSTRD(drive->cap);
	uint32_t words = 2 * (up->found.info.qpair_count_max + 1);
	struct nvme_sqe sqe = { .opcode = NVME_ADMIN_DOORBELL_BUFFER };

	if (!(up->found.oacs & NVME_OACS_DOORBELL_BUFFER) || words * stride > NVME_PAGE_SIZE)
		return SKIP;
	memset(nvme__admin_page(drive, NVME_PAGE_SHADOW), 0, NVME_PAGE_SIZE);
	memset(nvme__admin_page(drive, NVME_PAGE_EVENT), 0, NVME_PAGE_SIZE);
	up->cmd = (struct nvme_admin_cmd){ .sqe = sqe, .deadline_ns = up->deadline_ns };
	up->cmd.sqe.prp1 = le64_of(nvme__admin_page_iova(drive, NVME_PAGE_SHADOW));
	up->cmd.sqe.prp2 = le64_of(nvme__admin_page_iova(drive, NVME_PAGE_EVENT));
	return nvme__admin_submit(drive, &up->cmd);
}

static int end_shadow(struct nvme_up *up)
{
	struct nvme_rings *admin = &up->drive->admin.rings;

	up->drive->shadow = true;
	nvme__rings_attach(admin, up->drive, 0);
	*admin->shadow.sq = admin->sq_tail; /* where it is, among those that begin at zero */
	*admin->shadow.cq = admin->cq_head;
	return 0;
}

static int begin_events(struct nvme_up *up)
{
	uint32_t wanted = NVME_EVENT_WANT_NAMESPACES | NVME_EVENT_WANT_FIRMWARE;

	return command(up,
		       nvme__sqe_set_feature(NVME_FEAT_EVENTS,
					     NVME_EVENT_WANT_HEALTH | (up->found.oaes & wanted)));
}

static void begin_namespace_list(struct nvme_up *up, struct nvme_drive *ns)
{
	ASSERT(ns && ns->share.ctl == up->drive);
	up->ns = ns;
	up->stage = LIST;
	up->list_after = up->list_count = up->list_pages = 0;
	up->list_text[0] = 0;
}

/* ---- the way ------------------------------------------------------------------------------ */

static const struct stage {
	const char *what; /* when it fails, unless the stage itself says */
	int (*begin)(struct nvme_up *up);
	int (*end)(struct nvme_up *up);
	bool registers; /* it waits for CSTS; else for its command */
	bool may_fail;  /* by being refused, or (settle) by its time being over */
} stages[STAGES] = {
	[SETTLED] = { "no controller answers", begin_settle, NULL, true, true },
	[DISABLED] = { "the controller cannot be disabled", begin_disable, NULL, true, false },
	[ENABLED] = { "the controller does not become ready", begin_enable, NULL, true, false },
	[CONTROLLER] = { "identify controller failed", begin_controller, end_controller, false,
			 false },
	[LIMITS] = { "identify limits failed", begin_limits, end_limits, false, true },
	[LIST] = { "the list of namespaces cannot be read", begin_list, end_list, false, false },
	[DESCRIPTORS] = { "identify descriptors failed", begin_descriptors, end_descriptors, false,
			  true },
	[NAMESPACE] = { "identify namespace failed", begin_namespace, end_namespace, false, false },
	[QUEUE_COUNT] = { "the controller grants no queues", begin_queue_count, end_queue_count,
			  false, false },
	[SHADOW] = { "doorbells in memory are refused", begin_shadow, end_shadow, false, true },
	[EVENTS] = { "events are refused", begin_events, NULL, false, true },
};

#define WAIT   1
#define REPEAT 2

/* A namespace has been looked at: REPEAT, with the next one; 0: it was the last. */
static int next_namespace(struct nvme_up *up)
{
	struct nvme_drive *next = up->again ? nvme__next_ns(up->ns) : NULL;

	ASSERT(up->stage == NAMESPACE);
	if (!next)
		return 0;
	begin_namespace_list(up, next);
	return REPEAT;
}

static int look_at_csts(struct nvme_up *up)
{
	uint32_t csts;

	if (nvme__ask_csts(up->drive, &csts))
		return WAIT; /* it is answered, or gone, before long */
	if (csts == NVME_CSTS_GONE)
		return gone(up);
	if ((csts & up->csts_mask) == up->csts_want)
		return 0;
	if (csts & NVME_CSTS_CFS && up->csts_want)
		return -EIO;
	return up->now_ns > up->deadline_ns ? -ETIMEDOUT : WAIT;
}

static int look_at_command(struct nvme_up *up)
{
	struct nvme_drive *drive = up->drive;
	uint32_t csts = 0;
	int err = 0;

	ASSERT(up->cmd.state == NVME_ADMIN_FLYING || up->cmd.state == NVME_ADMIN_DONE);
	(void)nvme__admin_poll(drive);
	if (up->cmd.state == NVME_ADMIN_DONE)
		return up->cmd.err;
	(void)!nvme__ask_csts(drive, &csts); /* the next time, if it has not answered */
	if (csts == NVME_CSTS_GONE)
		err = gone(up);
	else if (drive->failed || csts & NVME_CSTS_CFS)
		err = -EIO;
	else if (up->now_ns > up->deadline_ns)
		err = -ETIMEDOUT;
	if (!err)
		return WAIT;
	nvme__admin_lose(drive, &up->cmd); /* (1) */
	drive->failed = true;
	return err;
}

/* A stage that may fail was refused, and the controller is sound. */
static bool is_harmless(const struct nvme_up *up, const struct stage *stage, int err)
{
	if (!stage->may_fail || err == -ENODEV)
		return false;
	return stage->registers || up->cmd.state == NVME_ADMIN_DONE;
}

/* WAIT, REPEAT, 0: the stage is over, or -errno. */
static int step(struct nvme_up *up, const struct stage *stage)
{
	int rc;

	if (!up->begun) {
		up->deadline_ns = up->now_ns + up->drive->timeout_ns;
		say(up, "%s", stage->what);
		rc = stage->begin(up);
		if (rc)
			return rc == SKIP ? 0 : rc;
		up->begun = true;
	}
	rc = stage->registers ? look_at_csts(up) : look_at_command(up);
	if (rc == WAIT)
		return WAIT;
	up->begun = false;
	if (rc)
		return is_harmless(up, stage, rc) ? 0 : rc;
	rc = stage->end ? stage->end(up) : 0;
	if (rc == NEXT)
		return next_namespace(up);
	return rc == AGAIN ? REPEAT : rc;
}

static void settle_ns(const struct nvme_up *up)
{
	struct nvme_drive *ns = up->ns;

	ASSERT(!up->again && ns->share.ctl == up->drive); /* (2) */
	ASSERT(up->found.nsid > 0);
	ns->info = up->found.info;
	ns->nsid = up->found.nsid;
	memcpy(ns->ns_id, up->found.ns_id, sizeof(ns->ns_id));
	ns->lba_shift = up->found.lba_shift;
	ns->sgl = up->found.sgl;
}

/* (2) */
static void settle(struct nvme_up *up)
{
	struct nvme_drive *drive = up->drive;

	ASSERT(up->stage == STAGES);                /* (2) */
	ASSERT(up->cmd.state != NVME_ADMIN_FLYING); /* (1) */
	drive->warning_kelvin = up->found.warning_kelvin;
	drive->shutdown_ns = max_u64(up->found.shutdown_ns, drive->timeout_ns);
	drive->oaes = up->found.oaes;
	drive->event_commands = up->found.event_commands;
	if (!up->again)
		settle_ns(up);
}

void nvme__up_begin(struct nvme_up *up, struct nvme_drive *drive, bool again,
		    uint32_t qpair_count_wanted)
{
	ASSERT(qpair_count_wanted >= 1 && qpair_count_wanted <= NVME_QPAIRS_MAX);
	*up = (struct nvme_up){ .drive = drive,
				.ns = nvme__first_ns(drive),
				.again = again,
				.stages_end = STAGES,
				.qpair_count_wanted = qpair_count_wanted };
}

void nvme__up_begin_ns(struct nvme_up *up, struct nvme_drive *ns)
{
	struct nvme_drive *ctl = ns->share.ctl;

	ASSERT(ns != ctl);
	*up = (struct nvme_up){ .drive = ctl,
				.stages_end = NAMESPACE + 1,
				.reg_next = NVME_UP_REGS,
				.found = ctl->up.found };
	up->found.info = ctl->info;
	begin_namespace_list(up, ns);
}

int nvme__up_step(struct nvme_up *up, uint64_t now_ns)
{
	int rc;

	up->now_ns = now_ns;
	if (read_registers(up))
		return WAIT;
	while (up->stage < up->stages_end) {
		rc = step(up, &stages[up->stage]);
		if (rc == REPEAT)
			continue;
		if (rc)
			return rc;
		up->stage++;
		if (up->stage == STAGES)
			settle(up);
		else if (up->stage == up->stages_end)
			settle_ns(up);
	}
	ASSERT(up->stage == up->stages_end && !up->begun);
	return 0;
}
