/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* An operation's steps, and its reads and writes of blocks: see app_core.c and app_io.c. */
#ifndef APP_STEP_H
#define APP_STEP_H

#include "appliance/core/app_op.h"

/* Step it until it waits or is done. */
void app_op_run(struct app_op *op);
/* The operation must be on no list: steps it in this turn or the next. */
void app_op_ready(struct app_op *op);
/* NULL: none free. */
struct app_op *app_op_take(struct app_core *core, enum app_op_kind kind, struct fab_req *req);
void app_op_free(struct app_op *op);
/* Returned by a step that is over. */
enum app_next app_op_end(struct app_op *op, int status);
/* Wait for a list of the core's, or for the store. */
void app_op_wait(struct app_op *op, enum app_on on, struct list *list);
/* Submit runs[0 .. nruns) of the store's addresses against `buf`; holes are zeroed by a read. */
void app_op_io(struct app_op *op, enum nvme_op what, const struct meta_run *runs, uint32_t nruns,
	       char *buf, uint64_t iova);
/* One of its I/Os is back. */
void app_io_done(struct app_io *io);
/* Reads runs[i] to block at[i] of `buf`, which begins at iova: each from the copy that it names;
 * blocks that are in a fold from the others there. */
void app_op_io_at(struct app_op *op, const struct meta_run *runs, const uint32_t *at,
		  uint32_t nruns, char *buf, uint64_t iova);

#endif
