/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Paths that lead into the directory, as text. */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <criterion/criterion.h>
#include <string.h>

#define DIR_IS "/mnt/weka"

/* Returns the part of a path behind the directory, or "-" if the path does not lead there. */
static const char *rest(const char *path)
{
	const char *found = preload_match(DIR_IS, path);

	return found ? found : "-";
}

Test(preload_match, the_directory_and_what_is_below)
{
	cr_assert_str_eq(rest("/mnt/weka"), "");
	cr_assert_str_eq(rest("/mnt/weka/"), "/");
	cr_assert_str_eq(rest("/mnt/weka/a/b"), "/a/b");
	cr_assert_str_eq(rest("/mnt/weka//a"), "//a");
	cr_assert_str_eq(rest("//mnt///weka/a"), "/a");
	cr_assert_str_eq(rest("/./mnt/./weka/./a"), "/./a");
	cr_assert_str_eq(rest("/mnt/weka/../x"), "/../x"); /* preload_walk() takes that one */
}

Test(preload_match, dots_take_back_what_has_matched)
{
	cr_assert_str_eq(rest("/mnt/../mnt/weka/a"), "/a");
	cr_assert_str_eq(rest("/../../mnt/weka"), "");
	cr_assert_str_eq(rest("/mnt/./../mnt/weka"), "");
	cr_assert_str_eq(rest("/mnt/.."), "-");
	cr_assert_str_eq(rest("/mnt/../weka"), "-");
}

Test(preload_match, another_name_may_be_a_symlink)
{
	cr_assert_str_eq(rest("/"), "-");
	cr_assert_str_eq(rest(""), "-");
	cr_assert_str_eq(rest("mnt/weka/a"), "-");
	cr_assert_str_eq(rest("/mnt"), "-");
	cr_assert_str_eq(rest("/mnt/"), "-");
	cr_assert_str_eq(rest("/mnt/wek"), "-");
	cr_assert_str_eq(rest("/mnt/wekas"), "-");
	cr_assert_str_eq(rest("/mnt/weka2/a"), "-");
	cr_assert_str_eq(rest("/mntweka"), "-");
	cr_assert_str_eq(rest("/other/../mnt/weka/a"), "-");
	cr_assert_str_eq(rest("/mnt/other/../weka/a"), "-");
	cr_assert_str_eq(rest("/tmp/mnt/weka"), "-");
}

Test(preload_match, components)
{
	const char *path = "//a///bc/", *name;
	size_t bytes;

	name = preload_component(&path, &bytes);
	cr_assert(bytes == 1 && *name == 'a');
	name = preload_component(&path, &bytes);
	cr_assert(bytes == 2 && memcmp(name, "bc", 2) == 0);
	cr_assert_str_eq(path, "/");
	(void)preload_component(&path, &bytes);
	cr_assert_eq(bytes, 0);
}

Test(preload_match, joined_paths_fit_or_are_refused)
{
	static char to[PRELOAD_TEXT], tail[PRELOAD_TEXT];

	cr_assert(preload_join(to, "/a/b", 4, "c"));
	cr_assert_str_eq(to, "/a/b/c");
	cr_assert(preload_join(to, "/a/b", 0, "c"));
	cr_assert_str_eq(to, "/c");
	memset(tail, 'x', PRELOAD_TEXT - 3);
	cr_assert(preload_join(to, "a", 1, tail));
	cr_assert_eq(strlen(to), PRELOAD_TEXT - 1);
	tail[PRELOAD_TEXT - 3] = 'x';
	cr_assert_not(preload_join(to, "a", 1, tail));
}
