/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The content that test/sim/drive.c writes: every word names its block and version. */
#ifndef DRIVE_CONTENT_H
#define DRIVE_CONTENT_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t drive_word(uint32_t block, uint32_t version, uint32_t index);

/* Whether each unit of 512 bytes is of one version, from `low` to `high` (0: never written); else
 * a line in `why`. */
must_check bool drive_block_fits(const uint64_t *words, uint32_t block, uint32_t low, uint32_t high,
				 char *why, size_t why_size);

#endif
