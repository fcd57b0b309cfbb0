/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The faults of a drive in one run of test/sim/drive.c, and the ways to recover, from a seed. */
#ifndef DRIVE_SCENARIO_H
#define DRIVE_SCENARIO_H

#include "test/lib/nvme_faulty.h"

enum drive_trigger {
	DRIVE_NOTHING,
	DRIVE_LOSE,
	DRIVE_LATE,
	DRIVE_STATUS,
	DRIVE_TWICE,
	DRIVE_UNKNOWN,
	DRIVE_QUEUE,
	DRIVE_FATAL,
	DRIVE_ONES,
	DRIVE_REQUEST,
	DRIVE_GONE,
	DRIVE_DEAF,
	DRIVE_NAMESPACE,
	DRIVE_BUS,
	DRIVE_TRIGGERS,
};

extern const char *const drive_trigger_name[DRIVE_TRIGGERS];

struct drive_scenario {
	enum drive_trigger trigger;
	bool can_stop;   /* by disabling or reset: the drive may come back */
	bool can_rise;   /* at once */
	bool returns;    /* another drive is there, and then the right one is again */
	bool stays_away; /* it must be away at the end, for nothing comes back */
	bool fatal;      /* it must be dead at the end */
	bool harmless;   /* it must be good at the end */
	bool invisible;  /* and no I/O may have failed */
	uint64_t at_ns;
	struct sim_faults sim;
	struct nvme_faults ctrl;
};

void drive_scenario_pick(struct drive_scenario *s, struct rand_state *r);

#endif
