/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Reads of blocks from the other zones of their fold: app_sum.c. */
#ifndef APP_SUM_H
#define APP_SUM_H

#include "appliance/core/app_op.h"

/* Errors: -ENOMEM. */
must_check int app_sums_create(struct app_core *core);
void app_sums_destroy(struct app_core *core);

/* Is there another way to read this block: are enough others of its fold there?  Without the zone
 * that is so many places after the block's own in the ring of its fold; 0: with all. */
must_check bool app_sum_can(const struct app_core *core, uint64_t baddr, uint32_t doubts);
/* The read is answered from the others of its blocks' fold, by app_io_done(), in a later turn. */
void app_sum_want(struct app_core *core, struct app_io *io);
/* A read of one of the others is back. */
void app_sum_part_done(struct app_io *io);
/* Begins reads that wait. */
void app_sums_turn(struct app_core *core);

#endif
