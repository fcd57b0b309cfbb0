/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The log's lines about a store that is full. */
#include "appliance/core/app_full.h"
#include "base/log.h"

#include <criterion/criterion.h>
#include <string.h>

Test(app_full, a_full_store_is_a_warning_and_one_with_room_again_is_not)
{
	enum log_level level = LOG_ERROR;
	struct app_full full = { 0 };
	const char *line;

	cr_assert_null(app_full_line(&full, &level));
	atomic_store(&full.is_full, true);
	line = app_full_line(&full, &level);
	cr_assert(line && strstr(line, "the store is full"));
	cr_assert_eq(level, LOG_WARN);
	cr_assert_null(app_full_line(&full, &level));
	atomic_store(&full.is_full, false);
	line = app_full_line(&full, &level);
	cr_assert(line && strstr(line, "room again"));
	cr_assert_eq(level, LOG_INFO);
}
