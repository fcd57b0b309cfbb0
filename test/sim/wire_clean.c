/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checks that nothing is left of clients that have gone. */
#include "test/sim/wire_clean.h"

#include "appliance/core/app_op.h"
#include "test/sim/sim_args.h"
#include "test/sim/wire_model.h"

bool wire_core_is_clean(struct app_core *core)
{
	if (core->requests_open || core->sessions_open || core->parts_out || core->batch_ops)
		return sim_wrong("core %u: %u requests, %u sessions, %u parts, %u items are left",
				 core->index, core->requests_open, core->sessions_open,
				 core->parts_out, core->batch_ops);
	if (core->op_free_count != core->cfg.ops_max)
		return sim_wrong("core %u: %u operations of %u are free", core->index,
				 core->op_free_count, core->cfg.ops_max);
	if (core->staging.pages_used || core->table_bytes)
		return sim_wrong("core %u: %u pages of staging, %llu bytes of tables are used",
				 core->index, core->staging.pages_used,
				 (unsigned long long)core->table_bytes);
	if (core->hidden_free_count != core->cfg.open_puts_max)
		return sim_wrong("core %u: %u hidden files of %u are free", core->index,
				 core->hidden_free_count, core->cfg.open_puts_max);
	if (core->hold_free_count != core->cfg.opens_max)
		return sim_wrong("core %u: %u holds of %u are free", core->index,
				 core->hold_free_count, core->cfg.opens_max);
	for (uint32_t i = 0; i < APP_FILE_BUCKETS; i++)
		if (!list_empty(&core->file[i]))
			return sim_wrong("core %u: a file is still locked", core->index);
	return true;
}

bool wire_holds_are_out(const struct sim_world *w)
{
	for (uint32_t i = 0; i < w->ncores; i++)
		if (w->each[i]->hold_free_count != w->each[i]->cfg.opens_max)
			return true;
	return false;
}

bool wire_store_is_clean(struct sim_world *w)
{
	struct meta_check found = { 0 };
	uint64_t least, most;

	sim_world_settle(w);
	if (sim_world_check_all(w, &found))
		return sim_wrong("%s", found.first[0]);
	wire_inodes(&least, &most);
	return (found.inodes >= least && found.inodes <= most) ||
	       sim_wrong("%llu files and directories are there, not %llu to %llu",
			 (unsigned long long)found.inodes, (unsigned long long)least,
			 (unsigned long long)most);
}
