/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The environment variable WEKA_PRELOAD. */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct preload_args args;
static char text[300];

static const char *parse(const char *of)
{
	snprintf(text, sizeof(text), "%s", of);
	return preload_args_parse(&args, text);
}

static void clear(void)
{
	unsetenv("WEKA_ADDRESS");
	unsetenv("WEKA_KEY_FILE");
}

TestSuite(preload_args, .init = clear);

Test(preload_args, addresses_and_directory)
{
	cr_assert_null(parse("tcp://a:1,tcp://b:2 /mnt/weka"));
	cr_assert_str_eq(args.addresses, "tcp://a:1,tcp://b:2");
	cr_assert_str_eq(args.dir, "/mnt/weka");
	cr_assert_str_eq(args.root, "");
	cr_assert_null(args.key_file);
	cr_assert_eq(args.timeout_ns, 30 * NS_PER_S);
}

Test(preload_args, the_rest_comes_from_the_environment)
{
	setenv("WEKA_ADDRESS", "shm:/s", 1);
	setenv("WEKA_KEY_FILE", "/k", 1);
	cr_assert_null(parse("/mnt"));
	cr_assert_str_eq(args.addresses, "shm:/s");
	cr_assert_str_eq(args.key_file, "/k");
	cr_assert_null(parse("-o anonymous /mnt"));
	cr_assert_null(args.key_file);
}

Test(preload_args, options_as_for_the_mount)
{
	cr_assert_null(parse(
		"-o key=/k,key_id=me,root=//d/./e/,timeout=2.5,ro,cache=5 -oanonymous shm:/s /m"));
	cr_assert_str_eq(args.key_id, "me");
	cr_assert_str_eq(args.root, "/d/e");
	cr_assert_eq(args.timeout_ns, 2500000000u);
	cr_assert(args.anonymous);
	cr_assert_str_eq(args.dir, "/m");
}

Test(preload_args, the_directory_is_cleaned_and_may_have_spaces)
{
	cr_assert_null(parse("  shm:/s   //my/./data set/"));
	cr_assert_str_eq(args.dir, "/my/data set");
}

Test(preload_args, mistakes_have_a_line)
{
	cr_assert_not_null(parse(""));
	cr_assert_not_null(parse("/mnt")); /* no address */
	cr_assert_not_null(parse("shm:/s"));
	cr_assert_not_null(parse("shm:/s mnt"));
	cr_assert_not_null(parse("shm:/s /"));
	cr_assert_not_null(parse("shm:/s /a/../b"));
	cr_assert_not_null(parse("-o colour=red shm:/s /m"));
	cr_assert_not_null(parse("-o timeout=0 shm:/s /m"));
	cr_assert_not_null(parse("-o timeout=x shm:/s /m"));
	cr_assert_not_null(parse("-o root=a shm:/s /m"));
	cr_assert_not_null(parse("-o key shm:/s /m"));
}
