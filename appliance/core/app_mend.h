/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Blocks that do not match their checksums, from their other copies: see app_mend.c. */
#ifndef APP_MEND_H
#define APP_MEND_H

#include "appliance/core/app_op.h"

/* Compares the blocks that have landed, from block `skip` of the plan on.  Returns true if wrong
 * ones are being read from other copies; call it again when they are here. */
bool app_mend_read(struct app_op *op, uint32_t skip);

/* An old block, of which op->runs[0] is the place, was read to be merged with new bytes. */
struct app_old_block {
	struct meta_handle file;
	uint64_t block; /* of the file */
	char *at;
	uint32_t sum;
};
/* Returns true if it was wrong, and is being read from another copy; call it again when that is
 * here. */
must_check bool app_mend_block(struct app_op *op, const struct app_old_block *old);

#endif
