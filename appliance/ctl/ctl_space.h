/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#ifndef CTL_SPACE_H
#define CTL_SPACE_H

#include <jansson.h>
#include <stdint.h>

/* The uses of the space of a store's drives. */
struct ctl_space {
	uint64_t drives_bytes;
	/* They add up to that: */
	uint64_t files_bytes, index_bytes, log_bytes, dead_bytes, empty_bytes;
	/* Their sum is dead_bytes + empty_bytes: */
	uint64_t free_bytes, kept_bytes;
};

/* Reads them from the appliance's status. */
void ctl_space_of(const json_t *status, struct ctl_space *out);

#endif
