/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Paths that lead into the directory, as text. */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <criterion/criterion.h>
#include <string.h>

#define DIR_IS "/mnt/weka"

static void leads(const char *path, const char *rest)
{
	const char *found = preload_match(DIR_IS, path);

	cr_assert(found, "%s does not lead there", path);
	cr_assert_str_eq(found, rest);
}

static void leads_not(const char *path)
{
	cr_assert_null(preload_match(DIR_IS, path), "%s leads there", path);
}

Test(preload_match, the_directory_and_what_is_below)
{
	leads("/mnt/weka", "");
	leads("/mnt/weka/", "/");
	leads("/mnt/weka/a/b", "/a/b");
	leads("/mnt/weka//a", "//a");
	leads("//mnt///weka/a", "/a");
	leads("/./mnt/./weka/./a", "/./a");
	leads("/mnt/weka/../x", "/../x"); /* preload_walk() takes that one */
}

Test(preload_match, dots_take_back_what_has_matched)
{
	leads("/mnt/../mnt/weka/a", "/a");
	leads("/../../mnt/weka", "");
	leads("/mnt/./../mnt/weka", "");
	leads_not("/mnt/..");
	leads_not("/mnt/../weka");
}

Test(preload_match, another_name_may_be_a_symlink)
{
	leads_not("/");
	leads_not("");
	leads_not("mnt/weka/a");
	leads_not("/mnt");
	leads_not("/mnt/");
	leads_not("/mnt/wek");
	leads_not("/mnt/wekas");
	leads_not("/mnt/weka2/a");
	leads_not("/mntweka");
	leads_not("/other/../mnt/weka/a");
	leads_not("/mnt/other/../weka/a");
	leads_not("/tmp/mnt/weka");
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
