/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Mode bits, as the kernel compares them. */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <criterion/criterion.h>

static const uint32_t groups[] = { 7, 8 };
static const struct preload_who user = { .uid = 1, .gid = 2, .groups = groups, .group_count = 2 };
static const struct preload_who root = { .reads_all = true, .is_allowed = true };

static bool may(const struct preload_who *who, uint32_t mode, uint32_t uid, uint32_t gid, int want)
{
	const struct weka_attr attr = { .mode = mode, .uid = uid, .gid = gid };

	return preload_may(who, &attr, want);
}

Test(preload_may, the_first_class_that_fits_decides)
{
	cr_assert(may(&user, S_IFREG | 0400, 1, 9, R_OK));
	cr_assert_not(may(&user, S_IFREG | 0077, 1, 2, R_OK)); /* the owner, whatever others may */
	cr_assert(may(&user, S_IFREG | 0040, 9, 2, R_OK));
	cr_assert(may(&user, S_IFREG | 0040, 9, 8, R_OK)); /* another group */
	cr_assert_not(may(&user, S_IFREG | 0404, 9, 7, R_OK));
	cr_assert(may(&user, S_IFREG | 0004, 9, 9, R_OK));
	cr_assert_not(may(&user, S_IFREG | 0440, 9, 9, R_OK));
	cr_assert_not(may(&user, S_IFREG | 0444, 1, 9, R_OK | X_OK));
	cr_assert(may(&user, S_IFREG, 9, 9, F_OK));
}

Test(preload_may, root_reads_all_but_executes_only_programs)
{
	cr_assert(may(&root, S_IFREG, 9, 9, R_OK));
	cr_assert_not(may(&root, S_IFREG | 0666, 9, 9, X_OK));
	cr_assert(may(&root, S_IFREG | 0001, 9, 9, X_OK));
	cr_assert(may(&root, S_IFDIR, 9, 9, R_OK | X_OK));
}
