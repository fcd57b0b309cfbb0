/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The arithmetic that weka-bench protect shows beside what it measures. */
#include "bench/protect/protect_scheme.h"

#include <criterion/criterion.h>
#include <string.h>

static struct protect_scheme scheme(const char *text)
{
	struct protect_scheme s;

	cr_assert(protect_scheme_parse(text, strlen(text), &s), "%s", text);
	cr_assert_str_eq(s.name, text);
	return s;
}

Test(bench_protect, schemes_are_those_of_format)
{
	static const char *const none[] = {
		"",     "1+0",  "2+",   "+2",      "2+3", "11+1", "mirro", "4+2 ",
		"4+22", "-1+1", " 2+1", "mirror2", "0+1", "+2+1", "2+ 1",
	};
	struct protect_scheme s = scheme("none");

	cr_assert_eq(s.data, 1);
	cr_assert_eq(s.more, 0);
	s = scheme("mirror");
	cr_assert_eq(s.data + s.more, 2);
	s = scheme("10+2");
	cr_assert_eq(s.data, 10);
	cr_assert_eq(s.more, 2);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		cr_assert_not(protect_scheme_parse(none[i], strlen(none[i]), &s), "%s", none[i]);
	cr_assert(protect_scheme_parse("4+2,none", 3, &s));
	cr_assert_str_eq(s.name, "4+2");
}

Test(bench_protect, space_is_all_zones_over_those_of_data)
{
	const struct protect_scheme none = scheme("none"), mirror = scheme("mirror"),
				    six = scheme("4+2"), ten = scheme("8+2");

	cr_assert_float_eq(protect_scheme_space(&none), 1, 1e-9);
	cr_assert_float_eq(protect_scheme_space(&mirror), 2, 1e-9);
	cr_assert_float_eq(protect_scheme_space(&six), 1.5, 1e-9);
	cr_assert_float_eq(protect_scheme_space(&ten), 1.25, 1e-9);
	cr_assert_eq(protect_scheme_drives(&ten), 12);
	cr_assert_eq(protect_scheme_drives(&none), 1);
}

Test(bench_protect, new_data_is_copied_and_then_folded)
{
	const struct protect_scheme none = scheme("none"), mirror = scheme("1+1"),
				    three = scheme("1+2"), ten = scheme("8+2");

	cr_assert_float_eq(protect_scheme_written(&none, 4096, 1), 2, 1e-9);
	cr_assert_float_eq(protect_scheme_written(&none, 4096, 2), 3, 1e-9);
	cr_assert_float_eq(protect_scheme_written(&mirror, 4096, 3), 4, 1e-9);
	cr_assert_float_eq(protect_scheme_written_later(&mirror, 4096, 3), 4, 1e-9);
	cr_assert_float_eq(protect_scheme_written_later(&three, 1 << 20, 3), 3 + 3 / 256.0, 1e-9);
	cr_assert_float_eq(protect_scheme_written(&ten, 1 << 20, 12), 3 + 3 / 256.0, 1e-9);
	cr_assert_float_eq(protect_scheme_written_later(&ten, 1 << 20, 12), 3.25 + 3 / 256.0, 1e-9);
}

Test(bench_protect, reads_without_drives)
{
	const struct protect_scheme mirror = scheme("mirror"), ten = scheme("8+2");

	cr_assert_float_eq(protect_scheme_read(&mirror, 1, 3), 1, 1e-9);
	cr_assert_float_eq(protect_scheme_read(&ten, 0, 12), 1, 1e-9);
	cr_assert_float_eq(protect_scheme_read(&ten, 1, 14), 1.5, 1e-9);
	cr_assert_float_eq(protect_scheme_read(&ten, 2, 14), 2, 1e-9);
}
