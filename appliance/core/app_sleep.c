/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * How a core goes to sleep: it arms every source of work, and sleeps on their descriptors until one
 * of them is readable or the deadline comes.
 *
 *  (1) A core sleeps only when every source is armed; if one refuses, because it has work
 *      already, all are disarmed again.
 *  (2) Work that is due at a certain time has its deadline in app_core_deadline()
 *      [test_app_scrub:idle_core_wakes_up_seldom].
 */
#include "appliance/core/app_ask.h"
#include "appliance/core/app_op.h"

#include "base/num.h"

void app_core_disarm(struct app_core *core)
{
	ASSERT(core->nqps <= META_DRIVES_MAX);
	if (core->cfg.srv)
		fab_server_disarm(core->cfg.srv);
	for (uint32_t i = 0; i < core->nqps; i++)
		if (core->qp[i])
			nvme_qpair_disarm(core->qp[i]);
	for (uint32_t i = 0; i < app_drives_looked_after(core); i++)
		if (core->qp[i])
			nvme_drive_disarm(core->cfg.drive[i]);
	if (core->cores)
		app_cores_disarm(core);
}

bool app_core_arm(struct app_core *core)
{
	bool sleep = !core->cfg.srv || fab_server_arm(core->cfg.srv);

	ASSERT(core->fresh_count == 0 && !core->said); /* (1) */
	for (uint32_t i = 0; i < core->nqps; i++)
		sleep &= !core->qp[i] || nvme_qpair_arm(core->qp[i]);
	for (uint32_t i = 0; i < app_drives_looked_after(core); i++)
		sleep &= !core->qp[i] || nvme_drive_arm(core->cfg.drive[i]);
	if (core->cores)
		sleep &= app_cores_arm(core);
	if (!sleep)
		app_core_disarm(core);
	core->stat.sleeps += sleep;
	return sleep;
}

void app_core_rested(struct app_core *core, uint64_t slept_ns, uint64_t spun_ns)
{
	core->stat.slept_ns += slept_ns;
	core->stat.spun_ns += spun_ns;
}

uint32_t app_core_fds(const struct app_core *core, int *fds, uint32_t fds_max)
{
	uint32_t count = 0;

	if (core->cfg.srv && count < fds_max)
		fds[count++] = fab_server_fd(core->cfg.srv);
	if (core->cores && count < fds_max)
		fds[count++] = core->cores->bell[core->index].fd;
	if (core->meta && core->cfg.ask && count < fds_max)
		fds[count++] = app_ask_fd(core->cfg.ask);
	for (uint32_t i = 0; i < core->nqps && count < fds_max; i++)
		if (core->qp[i])
			fds[count++] = nvme_qpair_fd(core->qp[i]);
	for (uint32_t i = 0; i < app_drives_looked_after(core) && count < fds_max; i++)
		if (core->qp[i])
			fds[count++] = nvme_drive_fd(core->cfg.drive[i]);
	ASSERT(count <= fds_max);
	return count;
}

uint64_t app_core_deadline(const struct app_core *core)
{
	uint64_t at_ns = core->cfg.srv ? fab_server_deadline(core->cfg.srv) : UINT64_MAX;

	at_ns = min_u64(at_ns, app_patience_deadline(&core->media.patience));
	at_ns = min_u64(at_ns, app_scrub_deadline(core));
	at_ns = min_u64(at_ns, app_store_deadline(core));
	at_ns = min_u64(at_ns, app_holds_deadline(core));
	at_ns = min_u64(at_ns, app_totals_deadline(core));
	at_ns = min_u64(at_ns, app_vouch_deadline(core));
	at_ns = min_u64(at_ns, app_rebuild_deadline(core));
	at_ns = min_u64(at_ns, app_hedges_deadline(core));
	for (uint32_t i = 0; i < app_drives_looked_after(core); i++)
		if (core->qp[i])
			at_ns = min_u64(at_ns, nvme_drive_deadline(core->cfg.drive[i]));
	return at_ns;
}
