/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One call of each type, with every field set: what golden bytes and round trips are made from. */
#ifndef FAB_SAMPLES_H
#define FAB_SAMPLES_H

#include "fabric/fab.h"

#define FAB_SAMPLE_WINDOW (1u << 20)

/* Filled but for its region; its names and items are static. */
void fab_sample(struct fab_call *call, enum fab_type type);

/* Whether the appliance's view of a request says what the call said. */
bool fab_sample_same(const struct fab_call *call, const struct fab_req *req, const void *body,
		     uint32_t body_bytes);

#endif
