/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A plan of the check (meta_check_duplicate.c): finds one of some names of a spread directory that
 * is also in a fragment.  Separate from the check, which planning does not need.
 */
#include "meta/plans/meta_plan.h"

#include <errno.h>
#include <string.h>

#define DUPLICATE_LOOKS 32u /* records of a plan */

/* Looks for a name of the directory that is in one of its fragments, too: keeps.duplicate. */
int meta__plan_duplicate(struct meta *m, struct meta_op *op)
{
	const uint64_t dir = op->keeps.duplicate.dir;
	struct meta__at home, at;
	struct meta_key key;

	ASSERT(!m->home);
	ASSERT(op->inline_buf);
	memcpy(&key, op->keeps.duplicate.key, sizeof(key));
	for (uint32_t i = 0; i < DUPLICATE_LOOKS && !op->keeps.duplicate.found; i++) {
		int rc = meta__entry_next(m, dir, &key, &home);

		op->keeps.duplicate.over = rc == -ENOENT;
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc;
		at = (struct meta__at){ .name = home.is.bytes,
					.len = home.is.len,
					.hash = home.hash };
		rc = rc ? meta__name_in(m, meta__fragment_of(dir, home.hash), &at) : 0;
		if (rc)
			return rc;
		if (at.found) {
			op->keeps.duplicate.found = true;
			op->inline_len = at.len;
			memcpy(op->inline_buf, at.name, at.len);
		}
		memcpy(op->keeps.duplicate.key, &key, sizeof(key)); /* a plan may run again */
	}
	return 0;
}
