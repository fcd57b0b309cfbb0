/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A client's report of the job that it reads for: PROTOCOL.md 5, REPORT.  `wekactl jobs` prints it.
 *
 * It is for people only.  The appliance keeps the last one of each connection and believes nothing
 * of it.
 */
#ifndef FABRIC_FAB_REPORT_H
#define FABRIC_FAB_REPORT_H

#include "base/assert.h"

#include <stdint.h>

#define FAB_REPORT_FORMAT  1u
#define FAB_REPORT_DATASET 112u /* bytes of "NAME@N" with its NUL */
#define FAB_REPORT_VERDICT 160u /* of a line for people, likewise */

struct fab_report {
	uint32_t rank;
	uint32_t world;         /* ranks of the job                       */
	uint64_t samples;       /* that were read ...                     */
	uint64_t samples_total; /* ... of those of this rank in the epoch */
	uint64_t bytes;
	uint64_t open_ns;   /* since the epoch was begun  */
	uint64_t waited_ns; /* of that, by the consumer   */
	char dataset[FAB_REPORT_DATASET];
	char verdict[FAB_REPORT_VERDICT];
};

#define FAB_REPORT_BYTES 328u /* of its body */

void fab_report_build(uint8_t body[FAB_REPORT_BYTES], const struct fab_report *report);

/* Errors: -EOPNOTSUPP (another format), -EPROTO (a text is not printable or has no end). */
must_check int fab_report_parse(struct fab_report *out, const uint8_t body[FAB_REPORT_BYTES]);

#endif
