/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The two parts of `weka-bench protect`, and what they share. */
#ifndef BENCH_PROTECT_RIG_H
#define BENCH_PROTECT_RIG_H

#include "bench/protect/protect_table.h"

struct protect_rig {
	struct protect_conf conf;
	struct protect_table table;
};

/* Operations or bytes a second. */
double protect_rate(const struct bench_run *run, bool is_bytes);

/* All schemes in turn: what writes cost, and all loads on whole stores. */
must_check int protect_whole(struct protect_rig *r);
/* One scheme after the other: reads without one drive, its rebuild, reads without two. */
must_check int protect_losses(struct protect_rig *r);

#endif
