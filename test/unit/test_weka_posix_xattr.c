/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extended attributes through the client library and a whole appliance, errno by errno as
 * setxattr(2), getxattr(2), listxattr(2) and removexattr(2) of Linux say (POSIX has none).
 * test/lib/posix_words.h has the words.
 */
#include "base/num.h"
#include "test/lib/app_rig.h"
#include "test/lib/posix_words.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct posix_case cases[] = {
	/* ---- setxattr() ---- */
	{ "setxattr", "sets the value of the attribute identified by name",
	  "file a; set a user.color red; has a user.color red" },
	{ "setxattr", "if it exists, the value is replaced",
	  "file a; set a user.x red; set a user.x yellow; has a user.x yellow; lists a 1" },
	{ "setxattr", "... by a shorter one",
	  "file a; set a user.x #999; set a user.x r; has a user.x r" },
	{ "setxattr", "a zero-length value is permitted",
	  "file a; set a user.x ''; has a user.x ''; lists a 1 user.x" },
	{ "setxattr", "a value may be made empty",
	  "file a; set a user.x red; set a user.x ''; has a user.x ''" },
	{ "setxattr", "values are arbitrary bytes, zeros among them",
	  "file a; set a user.x #256; has a user.x #256" },
	{ "setxattr", "a value of one byte", "file a; set a user.x #1; has a user.x #1" },
	{ "setxattr", "... as long as stands beside its name, and one more",
	  "file a; set a user.x #1024; has a user.x #1024; set a user.x #1025; "
	  "has a user.x #1025" },
	{ "setxattr", "... of one piece, and one byte more",
	  "file a; set a user.x #2048; has a user.x #2048; set a user.x #2049; "
	  "has a user.x #2049" },
	{ "setxattr", "... that no longer fits a request's short body",
	  "file a; set a user.x #960; has a user.x #960; set a user.x #4097; has a user.x #4097" },
	{ "setxattr", "... of the largest size, 65536",
	  "file a; set a user.x #65536; has a user.x #65536" },
	{ "setxattr", "... of one less", "file a; set a user.x #65535; has a user.x #65535" },
	{ "setxattr", "a large one becomes small, and large again",
	  "file a; set a user.x #65536; set a user.x s; has a user.x s; set a user.x #40000; "
	  "has a user.x #40000" },
	{ "setxattr", "E2BIG: the size is larger than the limit",
	  "file a; set a user.x old; set a user.x #65537 = E2BIG; has a user.x old" },
	{ "setxattr", "E2BIG: ... much larger", "file a; set a user.x #131072 = E2BIG; lists a 0" },
	{ "setxattr", "a name of 255 bytes",
	  "file a; set a user.@250 v; has a user.@250 v; lists a 1 user.@250" },
	{ "setxattr", "ERANGE: the name is longer than 255 bytes",
	  "file a; set a user.@251 v = ERANGE; lists a 0" },
	{ "setxattr", "ERANGE: ... much longer", "file a; set a user.@4000 v = ERANGE" },
	{ "setxattr", "ERANGE: the name is empty", "file a; set a '' v = ERANGE" },
	{ "setxattr", "a name of one byte behind its namespace",
	  "file a; set a user.x v; has a user.x v" },
	{ "setxattr", "EINVAL: nothing is behind the namespace", "file a; set a user. v = EINVAL" },
	{ "setxattr", "names are bytes: dots, slashes, signs of any alphabet",
	  "file a; set a user.a/b..\xc3\xa9=\xff v; has a user.a/b..\xc3\xa9=\xff v; "
	  "lists a 1 user.a/b..\xc3\xa9=\xff" },
	{ "setxattr", "names differ by case",
	  "file a; set a user.x 1; set a user.X 2; has a user.x 1; has a user.X 2; lists a 2" },
	{ "setxattr", "one name may be the beginning of another",
	  "file a; set a user.x 1; set a user.xx 2; has a user.x 1; has a user.xx 2" },
	{ "setxattr", "ENOTSUP: the namespace prefix is not valid (none)",
	  "file a; set a color v = ENOTSUP; lists a 0" },
	{ "setxattr", "ENOTSUP: ... (not ours)", "file a; set a mime.type v = ENOTSUP" },
	{ "setxattr", "ENOTSUP: ... (trusted: here nobody's)",
	  "file a; set a trusted.x v = ENOTSUP" },
	{ "setxattr", "ENOTSUP: ... (security)", "file a; set a security.x v = ENOTSUP" },
	{ "setxattr", "ENOTSUP: ... (system)",
	  "file a; set a system.posix_acl_access v = ENOTSUP" },
	{ "setxattr", "ENOTSUP: ... (without its dot)", "file a; set a user v = ENOTSUP" },
	{ "setxattr", "ENOTSUP: ... (in capitals)", "file a; set a USER.x v = ENOTSUP" },
	{ "setxattr", "XATTR_CREATE: a pure create", "file a; create a user.x v; has a user.x v" },
	{ "setxattr", "EEXIST: XATTR_CREATE, and the attribute exists already",
	  "file a; set a user.x old; create a user.x new = EEXIST; has a user.x old" },
	{ "setxattr", "XATTR_CREATE: another one is none",
	  "file a; set a user.x v; create a user.y w; lists a 2" },
	{ "setxattr", "XATTR_REPLACE: a pure replace",
	  "file a; set a user.x old; replace a user.x new; has a user.x new" },
	{ "setxattr", "ENODATA: XATTR_REPLACE, and the attribute does not exist",
	  "file a; replace a user.x v = ENODATA; hasnt a user.x; lists a 0" },
	{ "setxattr", "ENODATA: ... any more",
	  "file a; set a user.x v; remove a user.x; replace a user.x v = ENODATA" },
	{ "setxattr", "of a directory", "mkdir d; set d user.x v; has d user.x v; entries d 0" },
	{ "setxattr", "of the root", "set / user.r v; has / user.r v; remove / user.r" },
	{ "setxattr", "of dot", "mkdir d; set d/. user.x v; has d user.x v" },
	{ "setxattr", "a symbolic link is followed",
	  "file a; symlink a l; set l user.x v; has a user.x v" },
	{ "setxattr", "marks the last file status change timestamp, not the modification",
	  "file a; note a; set a user.x v; changed a; unmodified a" },
	{ "setxattr", "the contents stay",
	  "file a text; set a user.x #65536; holds a text; is a file" },
	{ "setxattr", "ENOENT: the file does not exist", "set a user.x v = ENOENT" },
	{ "setxattr", "ENOENT: a symbolic link leads nowhere",
	  "symlink no l; set l user.x v = ENOENT" },
	{ "setxattr", "ENOENT: the path is empty", "set '' user.x v = ENOENT" },
	{ "setxattr", "ENOTDIR: a component of the prefix is a file",
	  "file a; set a/b user.x v = ENOTDIR" },
	{ "setxattr", "ENAMETOOLONG: a component is too long", "set @256 user.x v = ENAMETOOLONG" },
	{ "setxattr", "ENAMETOOLONG: the path is too long", "set @long user.x v = ENAMETOOLONG" },
	{ "setxattr", "ELOOP: a loop in symbolic links", "symlink l l; set l user.x v = ELOOP" },

	/* ---- getxattr() ---- */
	{ "getxattr", "ENODATA: the named attribute does not exist",
	  "file a; get a user.x = ENODATA" },
	{ "getxattr", "ENODATA: ... but others", "file a; set a user.y v; get a user.x = ENODATA" },
	{ "getxattr", "ENODATA: ... of a directory", "mkdir d; get d user.x = ENODATA" },
	{ "getxattr", "the buffer may be exactly as large",
	  "file a; set a user.x #100; get a user.x 100" },
	{ "getxattr", "ERANGE: the buffer is too small",
	  "file a; set a user.x #100; get a user.x 99 = ERANGE" },
	{ "getxattr", "ERANGE: ... for a large one",
	  "file a; set a user.x #65536; get a user.x 65535 = ERANGE; get a user.x 65536" },
	{ "getxattr", "ERANGE: ... by blocks",
	  "file a; set a user.x #9000; get a user.x 4096 = ERANGE; get a user.x 9000" },
	{ "getxattr", "an empty value needs no buffer",
	  "file a; set a user.x ''; get a user.x 1; get a user.x 0" },
	{ "getxattr", "ERANGE: the name is too long", "file a; get a user.@251 = ERANGE" },
	{ "getxattr", "ENOTSUP: the namespace is not valid", "file a; get a trusted.x = ENOTSUP" },
	{ "getxattr", "ENOENT: the file does not exist", "get a user.x = ENOENT" },
	{ "getxattr", "does not mark the file",
	  "file a; set a user.x v; note a; get a user.x; unchanged a" },

	/* ---- listxattr() ---- */
	{ "listxattr", "a file without attributes has an empty list",
	  "file a; lists a 0; names a 0" },
	{ "listxattr", "the list is of all names, each once",
	  "file a; set a user.a 1; set a user.b 2; set a user.c 3; lists a 3 user.a; "
	  "lists a 3 user.b; lists a 3 user.c" },
	{ "listxattr", "a directory's", "mkdir d; set d user.a 1; lists d 1 user.a" },
	{ "listxattr", "large values between them",
	  "file a; set a user.a #65536; set a user.b #3000; set a user.c ''; lists a 3 user.c" },
	{ "listxattr", "ERANGE: the buffer is too small (names end in a zero byte)",
	  "file a; set a user.ab v; names a 7 = ERANGE; names a 8" },
	{ "listxattr", "ERANGE: ... for the last of several",
	  "file a; set a user.a 1; set a user.b 2; names a 13 = ERANGE; names a 14" },
	{ "listxattr", "ENOENT: the file does not exist", "names a = ENOENT" },
	{ "listxattr", "ENOTDIR: a component of the prefix is a file",
	  "file a; names a/b = ENOTDIR" },

	/* ---- removexattr() ---- */
	{ "removexattr", "removes the attribute",
	  "file a; set a user.x v; remove a user.x; hasnt a user.x; lists a 0" },
	{ "removexattr", "... a large one",
	  "file a; set a user.x #65536; remove a user.x; hasnt a user.x; set a user.x v; "
	  "has a user.x v" },
	{ "removexattr", "... and no other",
	  "file a; set a user.x 1; set a user.y 2; remove a user.x; has a user.y 2; lists a 1" },
	{ "removexattr", "ENODATA: the attribute does not exist",
	  "file a; remove a user.x = ENODATA" },
	{ "removexattr", "ENODATA: a second time",
	  "file a; set a user.x v; remove a user.x; remove a user.x = ENODATA" },
	{ "removexattr", "ENOTSUP: the namespace is not valid",
	  "file a; remove a security.x = ENOTSUP" },
	{ "removexattr", "ERANGE: the name is too long", "file a; remove a user.@251 = ERANGE" },
	{ "removexattr", "ENOENT: the file does not exist", "remove a user.x = ENOENT" },
	{ "removexattr", "marks the last file status change timestamp",
	  "file a; set a user.x v; note a; remove a user.x; changed a; unmodified a" },

	/* ---- whose they are ---- */
	{ "rename", "they go with the file",
	  "file a; set a user.x #3000; rename a b; has b user.x #3000; "
	  "create a user.x v = ENOENT" },
	{ "rename", "... into another directory",
	  "file a; mkdir d; set a user.x v; rename a d/b; has d/b user.x v" },
	{ "rename", "... with a directory",
	  "mkdir d; mkdir e; set d user.x v; rename d e/f; has e/f user.x v" },
	{ "rename", "those of the one that was replaced are gone",
	  "file a; file b; set a user.x 1; set b user.y 2; rename a b; has b user.x 1; "
	  "hasnt b user.y; lists b 1" },
	{ "exchange", "each keeps its own",
	  "file a; file b; set a user.x 1; set b user.x 2; exchange a b; has a user.x 2; "
	  "has b user.x 1" },
	{ "link", "they are the file's, by whatever name",
	  "file a; set a user.x 1; link a b; has b user.x 1; set b user.x 2; has a user.x 2" },
	{ "unlink", "... and stay while it has a name",
	  "file a; set a user.x v; link a b; unlink a; has b user.x v" },
	{ "unlink", "they die with the file: a new one of its name has none",
	  "file a; set a user.x #65536; unlink a; file a; lists a 0; hasnt a user.x" },
	{ "rmdir", "... and a directory", "mkdir d; set d user.x v; rmdir d; mkdir d; lists d 0" },
	{ "rmdir", "a directory that has some is empty all the same",
	  "mkdir d; set d user.x v; rmdir d; gone d" },
	{ "write", "they stay when the file is written in place",
	  "file a text; set a user.x v; write a more; has a user.x v" },
};

static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };

TestSuite(weka_posix_xattr, .timeout = 120);

static uint32_t wrong_over(const char *transport)
{
	struct weka_client *client = app_rig_begin_over(&rig, transport);
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++)
		wrong += !posix_case_holds(client, &cases[i], i);
	weka_close(client);
	return wrong + (app_rig_end(&rig) != 0);
}

Test(weka_posix_xattr, every_case_is_as_linux_says)
{
	static_assert(ARRAY_LEN(cases) >= 60, "all of it");
	cr_assert_eq(wrong_over("shm"), 0);
}

Test(weka_posix_xattr, over_tcp_too)
{
	cr_assert_eq(wrong_over("tcp"), 0);
}

/* A case that cannot fail proves nothing: each of these must fail. */
Test(weka_posix_xattr, a_wrong_case_is_seen)
{
	static const struct posix_case bad[] = {
		{ "bad", "another value", "file a; set a user.x red; has a user.x der" },
		{ "bad", "a longer value", "file a; set a user.x red; has a user.x redd" },
		{ "bad", "one that is there", "file a; set a user.x red; hasnt a user.x" },
		{ "bad", "too many", "file a; set a user.x red; lists a 2" },
		{ "bad", "not this one", "file a; set a user.x red; lists a 1 user.y" },
		{ "bad", "room enough", "file a; set a user.x red; get a user.x 3 = ERANGE" },
		{ "bad", "an error that does not come", "file a; set a user.x red = ENOTSUP" },
	};
	struct weka_client *client = app_rig_begin_over(&rig, "shm");

	for (uint32_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_not(posix_case_holds(client, &bad[i], i), "%s", bad[i].words);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- as many as there may be ------------------------------------------------------------- */

static const char *numbered(uint32_t i)
{
	static char name[WEKA_NAME_MAX + 2];

	snprintf(name, sizeof(name), "user.%0250u", i);
	return name;
}

/* Each of `count` numbers from `first` on is in the list once, and nothing else. */
static bool lists_numbers(const char *names, int64_t bytes, uint32_t first, uint32_t count)
{
	uint32_t seen[512] = { 0 };

	if (bytes != (int64_t)count * 256)
		return false;
	for (int64_t at = 0; at < bytes; at += 256) {
		uint32_t i = (uint32_t)strtoul(names + at + 5, NULL, 10);

		if (i < first || i >= first + count || seen[i]++ || strcmp(names + at, numbered(i)))
			return false;
	}
	return true;
}

Test(weka_posix_xattr, as_many_as_there_may_be)
{
	static char names[WEKA_XATTR_MAX];
	struct weka_client *client = app_rig_begin_over(&rig, "shm");
	char value[8];

	cr_assert_eq(weka_write_file(client, "/f", "text", 4, NULL), 0);
	for (uint32_t i = 0; i < 256; i++)
		cr_assert_eq(weka_setxattr(client, "/f", numbered(i), &i, sizeof(i), 0), 0, "%u",
			     i);
	cr_assert_eq(weka_setxattr(client, "/f", numbered(256), "", 0, 0), -E2BIG);
	cr_assert_eq(weka_setxattr(client, "/f", numbered(7), "seven", 5, 0), 0);
	cr_assert_eq(weka_listxattr(client, "/f", NULL, 0), 65536);
	cr_assert_eq(weka_listxattr(client, "/f", names, sizeof(names) - 1), -ERANGE);
	cr_assert(lists_numbers(names, weka_listxattr(client, "/f", names, sizeof(names)), 0, 256));
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(weka_removexattr(client, "/f", numbered(i)), 0, "%u", i);
	cr_assert_eq(weka_setxattr(client, "/f", numbered(256), "", 0, 0), 0);
	cr_assert(
		lists_numbers(names, weka_listxattr(client, "/f", names, sizeof(names)), 100, 157));
	for (uint32_t i = 100; i < 256; i++) {
		cr_assert_eq(weka_getxattr(client, "/f", numbered(i), value, sizeof(value)), 4);
		cr_assert_eq(memcmp(value, &i, 4), 0, "%u", i);
	}
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- what the words do not say ------------------------------------------------------------ */

Test(weka_posix_xattr, of_a_symlink_itself_and_by_handle)
{
	struct weka_client *client = app_rig_begin_over(&rig, "shm");
	struct weka_ref ref = weka_ref_path("/l");
	struct weka_req req = { 0 }, *done;
	struct weka_attr attr;

	ref.flags = WEKA_NOFOLLOW;
	cr_assert_eq(weka_write_file(client, "/f", "text", 4, NULL), 0);
	cr_assert_eq(weka_symlink(client, "f", "/l"), 0);
	cr_assert_eq(weka_submit_setxattr(client, &req, &ref, "user.x", "v", 1, 0), 0);
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, -EPERM, "a symlink has none");
	cr_assert_eq(weka_stat(client, "/f", &attr), 0);
	ref = weka_ref_handle(&attr.handle);
	cr_assert_eq(weka_submit_setxattr(client, &req, &ref, "user.x", "v", 1, 0), 0);
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, 0);
	cr_assert_eq(weka_getxattr(client, "/l", "user.x", NULL, 0), 1);
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	cr_assert_eq(weka_submit_removexattr(client, &req, &ref, "user.x"), 0);
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, -ESTALE, "the file is gone");
	cr_assert_eq(weka_setxattr(client, "/", "user.x", "v", 1, 3), -EINVAL, "one flag at most");
	cr_assert_eq(weka_setxattr(client, "/", "user.x", NULL, 1, 0), -EINVAL);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}
