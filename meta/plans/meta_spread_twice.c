/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A plan of the check (meta_check_twice.c): finds one of some names of a spread directory that is
 * also in a part.  Separate from the check, which planning does not need.
 */
#include "meta/plans/meta_plan.h"

#include <errno.h>
#include <string.h>

#define TWICE_LOOKS 32u /* records of a plan */

/* scratch: [0] the directory, [1] to [3] the key to continue from; results: [4] 1: no more names,
 * [5] 1: the name left in inline_buf is in a part, too. */
int meta__plan_twice(struct meta *m, struct meta_op *op)
{
	const uint64_t dir = op->scratch[0];
	struct meta__at home, at;
	struct meta_key key;

	ASSERT(!m->home);
	ASSERT(op->inline_buf);
	memcpy(&key, &op->scratch[1], sizeof(key));
	for (uint32_t i = 0; i < TWICE_LOOKS && !op->scratch[5]; i++) {
		int rc = meta__entry_next(m, dir, &key, &home);

		op->scratch[4] = rc == -ENOENT;
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc;
		at = (struct meta__at){ .name = home.is.bytes,
					.len = home.is.len,
					.hash = home.hash };
		rc = rc ? meta__name_in(m, meta__part_of(dir, home.hash), &at) : 0;
		if (rc)
			return rc;
		if (at.found) {
			op->scratch[5] = 1;
			op->inline_len = at.len;
			memcpy(op->inline_buf, at.name, at.len);
		}
		memcpy(&op->scratch[1], &key, sizeof(key)); /* a plan may run again */
	}
	return 0;
}
