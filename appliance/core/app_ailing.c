/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives with errors: reported by each core to the store's core, which probes them.
 *
 *   app_media.c: an I/O failed --> media.ailing --APP_SAY_AILING--> app_failing.c: doubted
 *   app_scrub.c: next? <-- app_ailing_probe()     app_ailing_probed() <-- the probe was read
 *
 * The result of a probe is a record for the log.
 */
#include "appliance/media/app_missing.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_wants.h"

#include <errno.h>

static uint64_t dead_drives(const struct app_core *core)
{
	uint64_t dead = core->cfg.missing ? 1ull << core->cfg.missing->drive : 0;

	ASSERT(core->nqps <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < core->nqps; d++)
		if (core->qp[d] && nvme_drive_health(core->cfg.drive[d]) == NVME_HEALTH_DEAD)
			dead |= 1ull << d;
	return dead;
}

/* In a store of several copies. */
static void go_without(struct app_core *core, uint64_t drives)
{
	ASSERT(core->meta);
	for (uint64_t left = drives; left && meta_twins_blocks(core->twins); left &= left - 1)
		if (!meta_drive_failed(core->meta, (uint32_t)__builtin_ctzll(left)))
			return; /* one too many: the store says so */
}

wk_cold void app_ailing_tell(struct app_core *core)
{
	ASSERT(core->index == 0 || core->cores);
	if (core->index > 0) {
		if (!app_cores_ailing(core, core->media.ailing))
			return; /* in a later turn */
		core->media.ailing = 0;
		core->suspects_new = false;
		return;
	}
	core->suspects_new = false;
	app_scrub_suspects(core);
	app_wants_look(core, core->media.ailing);
	go_without(core, dead_drives(core));
	app_failing_doubt(&core->failing, core->media.ailing & ~dead_drives(core), core->now_ns);
	core->media.ailing = 0;
}

uint64_t app_ailing_unreachable(const struct app_core *core)
{
	return core->failing.failed | dead_drives(core);
}

bool app_ailing_probe(struct app_op *op, uint32_t *drive)
{
	struct app_core *core = op->core;
	const uint32_t d = app_failing_due(&core->failing, core->now_ns);
	struct nvme_info info;

	ASSERT(core->index == 0 && op->kind == APP_OP_SCRUB);
	if (likely(d == META_DRIVES_MAX))
		return false;
	if (d >= core->nqps || !core->qp[d] ||
	    nvme_drive_health(core->cfg.drive[d]) == NVME_HEALTH_DEAD) {
		app_failing_forget(&core->failing, d); /* app_failing.c (5) */
		return false;
	}
	nvme_drive_info(core->cfg.drive[d], &info);
	ASSERT(!(dead_drives(core) >> d & 1)); /* app_failing.c (5) */
	op->quiet = true;
	op->nblocks = APP_PROBE_PLACES;
	for (uint32_t i = 0; i < APP_PROBE_PLACES; i++)
		op->runs[i] = (struct meta_run){
			.baddr = META_BADDR(d, app_failing_place(info.nblocks, i)),
			.nblocks = 1,
		};
	*drive = d;
	return true;
}

void app_ailing_probed(struct app_op *op, uint32_t drive)
{
	struct app_core *core = op->core;
	enum app_fault_what what;
	struct app_fault f = { .drive = (uint8_t)drive };
	uint32_t good = 0;

	ASSERT(op->quiet && drive < META_DRIVES_MAX);
	ASSERT(op->io_count == APP_PROBE_PLACES);
	for (uint32_t i = 0; i < op->io_count; i++)
		good += op->io[i].nvme.status == 0;
	ASSERT(good <= APP_PROBE_PLACES);
	op->quiet = false;
	if (!app_failing_probed(&core->failing, drive, good, core->now_ns, &what))
		return;
	if (what == APP_FAULT_FAILED)
		go_without(core, 1ull << drive);
	f.what = (uint8_t)what;
	if (core->media.faults && app_faults_push(core->media.faults, &f))
		core->media.fault_calls++;
}
