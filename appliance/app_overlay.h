/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Keeps the store's writes in memory, above the drives' contents, while the drives take no writes.
 *
 * A mount writes: roots, headers of zones, the log's end as pages.  With an overlay it can be made
 * of drives that are full or write-protected, and nothing on them changes; then the store serves
 * reads.  Threads: the core's that has the store, before it is sealed; reads later, too.
 */
#ifndef APP_OVERLAY_H
#define APP_OVERLAY_H

#include "base/assert.h"

#include <stdint.h>

struct app_overlay;

/* Errors: -ENOMEM. */
must_check int app_overlay_create(struct app_overlay **out);
void app_overlay_destroy(struct app_overlay *o);

/* Blocks from META_BADDR() `baddr` on.  Errors: -ENOSPC: it has as much as it may. */
must_check int app_overlay_write(struct app_overlay *o, uint64_t baddr, uint32_t nblocks,
				 const void *bytes);
/* Puts the blocks that it has over what was read.  Returns how many. */
uint32_t app_overlay_read(const struct app_overlay *o, uint64_t baddr, uint32_t nblocks,
			  void *bytes);

#endif
