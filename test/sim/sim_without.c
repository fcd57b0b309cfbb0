/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Starts that are not given a drive that was added, or was to be. */
#include "test/sim/sim_run.h"

#include <errno.h>
#include <string.h>

static bool is_given(const struct sim_world *w, uint32_t d)
{
	return w->listed[d] && !w->pulled[d];
}

uint32_t sim_newest(const struct sim_world *w)
{
	uint32_t given = 0, last = 0;

	for (uint32_t d = 0; d < w->sims; d++)
		if (is_given(w, d)) {
			given++;
			last = d;
		}
	return given > 1 && last >= w->cfg.ndrives ? last : 0;
}

bool sim_is_refused_for(struct sim_world *w, int err)
{
	const uint32_t d = sim_newest(w);

	if (err != -ENODEV || !d || !w->left_out[d])
		return false;
	sim_run_tell(w, "drive %u is not taken: %s", d, w->why);
	sim_world_cut(w, w->power.write_count);
	w->listed[d] = false;
	sim_run.not_taken++;
	return true;
}

int sim_mount_without(struct sim_world *w, uint32_t d, struct sim_model *model, struct sim_load *l,
		      bool leaves)
{
	int err;

	w->listed[d] = false;
	err = sim_world_begin(w, APP_BOOT_MOUNT);
	sim_run_tell(w, "it starts without drive %u: %s", d, err ? w->why : "it serves");
	if (err && (err != -ENODEV || (!strstr(w->why, "is missing") &&
				       !strstr(w->why, "was removed from its store")))) {
		sim_run_failed("mount without a new drive", w->why);
		return -EUCLEAN;
	}
	sim_run.refused_without += err != 0;
	if (err) {
		w->listed[d] = true;
		return err;
	}
	if (w->joined >> d & 1 && !leaves) {
		sim_run_failed("mount without a drive", "it serves without one that it uses");
		return -EUCLEAN;
	}
	w->left_out[d] = true;
	sim_run.served_without++;
	if (sim_verify(w, model, l, false) && !sim_world_check(w))
		return 0;
	sim_run_failed("without a new drive", w->why);
	return -EUCLEAN;
}
