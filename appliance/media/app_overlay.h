/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Keeps the store's writes in memory, above the drives' contents, while the drives take no writes.
 *
 * A mount writes: it replays the log, so it makes pages and roots, and takes zones into use.  With
 * an overlay a mount works with drives that are full or write-protected, or with one missing, and
 * nothing on them changes; then the store serves reads.
 *
 * Thread: the core that has the store.  It writes during the mount, and then only reads.
 */
#ifndef APP_OVERLAY_H
#define APP_OVERLAY_H

#include "base/assert.h"

#include <stdint.h>

#define APP_OVERLAY_MAX (256u << 20) /* bytes of blocks */

struct app_overlay;

/* Creates an overlay for at most `bytes_max` of blocks; 0: APP_OVERLAY_MAX.  Errors: -ENOMEM. */
must_check int app_overlay_create(struct app_overlay **out, uint64_t bytes_max);
void app_overlay_destroy(struct app_overlay *o);

/* The most memory that such an overlay may use, its table included. */
uint64_t app_overlay_memory(uint64_t bytes_max);

/* Writes blocks from META_BADDR() `baddr` on.  Errors: -ENOSPC: it is full. */
must_check int app_overlay_write(struct app_overlay *o, uint64_t baddr, uint32_t nblocks,
				 const void *bytes);
/* Copies its blocks over the bytes that were read.  Returns their number. */
uint32_t app_overlay_read(const struct app_overlay *o, uint64_t baddr, uint32_t nblocks,
			  void *bytes);

#endif
