/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/loss_drives.h"

#include <string.h>

struct meta_drive_stat loss_stat(const struct rig *r, uint32_t drive)
{
	struct meta_drive_stat s;

	meta_drive_stat(r->m, drive, &s);
	return s;
}

bool loss_serves(const struct rig *r, uint32_t drive)
{
	const struct meta_drive_stat s = loss_stat(r, drive);

	return !s.gone && !s.lost && !s.draining;
}

uint32_t loss_serving(const struct rig *r)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < meta_drives(r->m); d++)
		n += loss_serves(r, d);
	return n;
}

uint32_t loss_any_serving(const struct rig *r, struct rand_state *rnd, uint32_t but)
{
	uint32_t d;

	ASSERT(loss_serving(r) > (uint32_t)__builtin_popcount(but));
	do
		d = (uint32_t)rand_below(rnd, meta_drives(r->m));
	while (!loss_serves(r, d) || but >> d & 1);
	return d;
}

void loss_heal(struct rig *r)
{
	r->dead = r->dying = r->failing = r->bad_writes = r->bad_reads = r->never = 0;
	r->hanging = r->silent = 0;
	r->hiccups = 0;
	r->dies_at = 0;
}

void loss_wreck(struct rig *r, struct rand_state *rnd, uint32_t drive, uint64_t bytes)
{
	const int with = rand_below(rnd, 2) ? 0xee : 0;

	memset(r->view[drive], with, bytes);
	memset(r->image[drive], with, bytes);
}

bool loss_has_room(struct rig *r)
{
	struct meta_statfs st = { 0 };
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };

	return rig_run(r, &op) == 0 && st.blocks_free > 600;
}
