/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Names as a terminal may see them: none of their bytes controls it. */
#define _GNU_SOURCE /* open_memstream */
#include "appliance/ctl/ctl_print.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static void expect_printed(const char *name, const char *want)
{
	size_t size;
	char *text;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_print_name(f, name, true);
	cr_assert_eq(fclose(f), 0);
	cr_assert_str_eq(text, want);
	free(text);
}

Test(ctl_print, names_of_letters_are_printed_as_they_are)
{
	expect_printed("a file, with 'signs'", "a file, with 'signs'");
	expect_printed("\u00e4\u20ac\U0001f600", "\u00e4\u20ac\U0001f600");
}

Test(ctl_print, control_characters_and_backslashes_are_escaped)
{
	expect_printed("a\033[2Jb", "a\\033[2Jb");
	expect_printed("new\nline\x7f", "new\\012line\\177");
	expect_printed("\\033", "\\\\033");
	expect_printed("\xc2\x9b"
		       "2J",
		       "\\302\\2332J"); /* CSI, U+009B */
}

Test(ctl_print, what_is_no_utf8_is_escaped)
{
	expect_printed("\x9b"
		       "2J",
		       "\\2332J");
	expect_printed("cut\xe2\x82", "cut\\342\\202");
	expect_printed("\xc0\xaf", "\\300\\257");          /* longer than need be */
	expect_printed("\xed\xa0\x80", "\\355\\240\\200"); /* a surrogate */
	expect_printed("\xf5\x80\x80\x80", "\\365\\200\\200\\200");
	expect_printed("\xe4.txt", "\\344.txt");
}

Test(ctl_print, names_for_programs_are_left_alone)
{
	size_t size;
	char *text;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_print_name(f, "a\033\\\xff", false);
	cr_assert_eq(fclose(f), 0);
	cr_assert_str_eq(text, "a\033\\\xff");
	free(text);
}
