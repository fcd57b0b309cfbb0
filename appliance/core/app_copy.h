/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The copies of a block, in the order in which they are read. */
#ifndef APP_COPY_H
#define APP_COPY_H

#include "appliance/core/app_op.h"

/* Returns the next copy of a block, after the one at this place, that can be read; 0: none.  It
 * ends: the ring of a block's copies does, in the tables of meta_twins.h. */
static inline uint64_t app_copy_after(const struct app_core *core, uint64_t baddr)
{
	uint64_t at = meta_twin_of(core->twins, baddr);

	while (unlikely(at && !meta_twins_has(core->twins, META_BADDR_DRIVE(at))))
		at = meta_twin_of(core->twins, at);
	return at;
}

#endif
