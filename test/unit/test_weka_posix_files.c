/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * open, stat, lstat, readlink, chmod, chown, utimensat, write, ftruncate and readdir as
 * POSIX.1-2017 says, through the client library and a whole appliance.  test/lib/posix_words.h has
 * the words; "here:" where the standard leaves a choice, or we had to make another.
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
	/* ---- open() ---- */
	{ "open", "establishes the connection between a file and a descriptor",
	  "file a text; open a; ends 0 text" },
	{ "open", "a symbolic link is followed", "file a text; symlink a l; open l; ends 1 ext" },
	{ "open", "O_CREAT: if the file exists, it has no effect",
	  "file a text; open a c; ends 0 text" },
	{ "open", "O_CREAT: the file is created", "open a c; is a file; size a 0" },
	{ "open", "O_CREAT: the permission bits are those of mode", "open a c 0640; mode a 0640" },
	{ "open", "... all twelve of them", "open a c 7777; mode a 7777" },
	{ "open", "... and do not matter if it is there",
	  "open a c 0600; open a c 0644; mode a 0600" },
	{ "open", "O_CREAT: marks the timestamps of the parent directory for update",
	  "mkdir d; note d; open d/a c; changed d; modified d" },
	{ "open", "... not if the file existed",
	  "mkdir d; file d/a; note d; open d/a c; unchanged d" },
	{ "open", "O_CREAT: what a symbolic link leads to is created",
	  "symlink a l; open l c 0640; is a file; mode a 0640; open l; size a 0" },
	{ "open", "... by several of them, in another directory, by a path of its own",
	  "mkdir d; symlink d/m l; symlink ../d/a d/m; open l ct; is d/a file" },
	{ "open", "ENOENT: O_CREAT, and a symbolic link leads into a directory that is not there",
	  "symlink no/a l; open l c = ENOENT" },
	{ "open", "ELOOP: O_CREAT, and symbolic links that lead to each other",
	  "symlink m l; symlink l m; open l c = ELOOP" },
	{ "open", "O_CREAT and O_EXCL: creates", "open a cx; is a file" },
	{ "open", "EEXIST: O_CREAT and O_EXCL, and the file exists",
	  "file a text; open a cx = EEXIST; holds a text" },
	{ "open", "EEXIST: ... a directory", "mkdir d; open d cx = EEXIST" },
	{ "open", "EEXIST: ... path names a symbolic link, whatever it contains",
	  "symlink no l; open l cx = EEXIST; gone no" },
	{ "open", "EEXIST: ... that leads to a file", "file a; symlink a l; open l cx = EEXIST" },
	{ "open", "O_TRUNC: the length is 0, mode and owner stay",
	  "open a c 0600; append text; chown a 7 8; open a t; size a 0; mode a 0600; owner a 7 8" },
	{ "open", "O_TRUNC: marks the last data modification timestamp",
	  "file a text; note a; open a t; modified a; changed a" },
	{ "open", "O_TRUNC: of a file that is created", "open a ct; size a 0" },
	{ "open", "O_TRUNC: by a symbolic link", "file a text; symlink a l; open l t; size a 0" },
	{ "open", "EISDIR: a directory, to be truncated", "mkdir d; file d/a; open d t = EISDIR" },
	{ "open", "... also an empty one, and one that would be created otherwise",
	  "mkdir d; open d t = EISDIR; open d ct = EISDIR; symlink d l; open l ct = EISDIR" },
	{ "open", "a directory may be opened to look", "mkdir d; open d" },
	{ "open", "O_DIRECTORY: of a directory", "mkdir d; open d d" },
	{ "open", "ENOTDIR: O_DIRECTORY, and path is none", "file a; open a d = ENOTDIR" },
	{ "open", "ENOENT: without O_CREAT the file does not exist", "open a = ENOENT; gone a" },
	{ "open", "ENOENT: O_CREAT, and a component of the prefix does not exist",
	  "open no/a c = ENOENT" },
	{ "open", "ENOENT: path is an empty string", "open '' = ENOENT; open '' c = ENOENT" },
	{ "open", "ENOENT: a symbolic link leads nowhere", "symlink no l; open l = ENOENT" },
	{ "open", "ENOTDIR: a component of the prefix is a file",
	  "file a; open a/b = ENOTDIR; open a/b c = ENOTDIR" },
	{ "open", "ENOTDIR: path names a file and ends in a slash", "file a; open a/ = ENOTDIR" },
	{ "open", "ENAMETOOLONG: a component is longer than NAME_MAX",
	  "open @256 = ENAMETOOLONG; open @256 c = ENAMETOOLONG" },
	{ "open", "ENAMETOOLONG: path is longer than PATH_MAX", "open @long = ENAMETOOLONG" },
	{ "open", "a component of NAME_MAX bytes is a name", "open @255 c; is @255 file" },
	{ "open", "ELOOP: a loop in symbolic links",
	  "symlink m l; symlink l m; open l = ELOOP; open l/a c = ELOOP" },
	{ "open", "ELOOP: more than SYMLOOP_MAX of them", "symlink l l; open l = ELOOP" },

	/* ---- stat(), lstat() ---- */
	{ "stat", "of a file: type and size", "file a text; stat a; is a file; size a 4" },
	{ "stat", "a symbolic link is followed, lstat says of itself",
	  "mkdir d; symlink d l; stat l; is l symlink; is d dir" },
	{ "stat", "lstat: the size is that of the contents of the symbolic link",
	  "symlink abcde l; size l 5" },
	{ "stat", "ENOENT: a symbolic link leads nowhere, lstat sees it",
	  "symlink no l; stat l = ENOENT; lstat l" },
	{ "stat", "ENOENT: a component does not exist",
	  "stat a = ENOENT; stat no/a = ENOENT; lstat a = ENOENT" },
	{ "stat", "ENOENT: path is an empty string", "stat '' = ENOENT; lstat '' = ENOENT" },
	{ "stat", "ENOTDIR: a component of the prefix is a file",
	  "file a; stat a/b = ENOTDIR; lstat a/b = ENOTDIR" },
	{ "stat", "ENOTDIR: path names a file and ends in a slash", "file a; stat a/ = ENOTDIR" },
	{ "stat", "... or a symbolic link to one", "file a; symlink a l; stat l/ = ENOTDIR" },
	{ "stat", "ENAMETOOLONG: a component is longer than NAME_MAX",
	  "stat @256 = ENAMETOOLONG; lstat @256 = ENAMETOOLONG" },
	{ "stat", "ENAMETOOLONG: path is longer than PATH_MAX", "stat @long = ENAMETOOLONG" },
	{ "stat", "ELOOP: a loop in symbolic links",
	  "symlink l l; stat l = ELOOP; lstat l; stat l/a = ELOOP" },
	{ "stat", "does not mark the file", "file a; note a; stat a; unchanged a" },
	{ "stat", "dot-dot of the root is the root", "mkdir d; stat d/../../../..; same d d" },

	/* ---- readlink() ---- */
	{ "readlink", "the contents of the symbolic link",
	  "symlink some/where l; text l some/where" },
	{ "readlink", "EINVAL: path names no symbolic link",
	  "file a; readlink a = EINVAL; mkdir d; readlink d = EINVAL" },
	{ "readlink", "ENOENT: path does not exist", "readlink l = ENOENT; readlink '' = ENOENT" },
	{ "readlink", "ENOTDIR: a component of the prefix is a file",
	  "file a; readlink a/l = ENOTDIR" },
	{ "readlink", "ENAMETOOLONG: a component is longer than NAME_MAX",
	  "readlink @256 = ENAMETOOLONG" },
	{ "readlink", "ELOOP: a loop in symbolic links of the prefix",
	  "symlink l l; readlink l/a = ELOOP; readlink l" },
	{ "readlink", "a buffer too small (here ERANGE, rather than cut)",
	  "symlink abc l; readlink l 3 = ERANGE; readlink l 4" },

	/* ---- chmod(), chown() ---- */
	{ "chmod", "changes the permission bits",
	  "file a; chmod a 0400; mode a 0400; chmod a 7777; mode a 7777" },
	{ "chmod", "of a directory", "mkdir d; chmod d 1700; mode d 1700; is d dir" },
	{ "chmod", "marks the last file status change timestamp only",
	  "file a; note a; chmod a 0600; changed a; unmodified a" },
	{ "chmod", "a symbolic link is followed",
	  "file a; symlink a l; chmod l 0600; mode a 0600" },
	{ "chmod", "the file's contents and links stay",
	  "file a text; link a b; chmod a 0; mode b 0; holds b text; links a 2" },
	{ "chmod", "EINVAL: the mode is invalid", "file a; chmod a 10000 = EINVAL" },
	{ "chmod", "ENOENT: path does not exist", "chmod a 0600 = ENOENT; chmod '' 0600 = ENOENT" },
	{ "chmod", "ENOTDIR: a component of the prefix is a file",
	  "file a; chmod a/b 0600 = ENOTDIR" },
	{ "chmod", "ENAMETOOLONG: a component is longer than NAME_MAX",
	  "chmod @256 0600 = ENAMETOOLONG" },
	{ "chmod", "ELOOP: a loop in symbolic links", "symlink l l; chmod l 0600 = ELOOP" },
	{ "chown", "changes user and group", "file a; chown a 12 34; owner a 12 34" },
	{ "chown", "of a directory", "mkdir d; chown d 12 34; owner d 12 34; entries d 0" },
	{ "chown", "marks the last file status change timestamp",
	  "file a; note a; chown a 1 2; changed a; unmodified a" },
	{ "chown", "ENOENT: path does not exist", "chown a 1 2 = ENOENT" },
	{ "chown", "ENOTDIR: a component of the prefix is a file",
	  "file a; chown a/b 1 2 = ENOTDIR" },
	{ "chown", "ELOOP: a loop in symbolic links", "symlink l l; chown l 1 2 = ELOOP" },

	/* ---- utimensat() ---- */
	{ "utimensat", "sets access and modification times, to the nanosecond",
	  "file a; utime a 1234567890123456789; time a 1234567890123456789" },
	{ "utimensat", "... before the epoch, too", "file a; utime a -1; time a -1" },
	{ "utimensat", "of a directory", "mkdir d; utime d 1000; time d 1000" },
	{ "utimensat", "marks the last file status change timestamp",
	  "file a; note a; utime a 5; changed a" },
	{ "utimensat", "ENOENT: path does not exist", "utime a 5 = ENOENT" },
	{ "utimensat", "ENOTDIR: a component of the prefix is a file",
	  "file a; utime a/b 5 = ENOTDIR" },

	/* ---- pwrite(), write() with O_APPEND, ftruncate(), pread() ---- */
	{ "pwrite", "writes at the offset, and leaves the rest",
	  "file a abcdef; open a; put 2 XY; holds a abXYef" },
	{ "pwrite", "... beyond the end the file grows",
	  "file a abc; open a; put 3 def; holds a abcdef; size a 6" },
	{ "pwrite", "... far beyond: zeros are between",
	  "file a a; open a; put 9999 z; size a 10000; ends 9999 z; read 5000" },
	{ "pwrite", "marks both timestamps",
	  "file a abc; open a; note a; put 0 x; changed a; modified a" },
	{ "pwrite", "mode bits do not matter to who has it open",
	  "open a c 0; put 0 text; ends 0 text" },
	{ "pwrite", "EFBIG: beyond the offset maximum",
	  "file a; open a; put 9223372036854775807 x = EFBIG; size a 0" },
	{ "pwrite", "EFBIG: beyond the largest file there is",
	  "file a; open a; put 4503599627370496 x = EFBIG; size a 0" },
	{ "pwrite", "ESTALE: the file is gone",
	  "file a; hold a; unlink a; put 0 x = ESTALE; gone a" },
	{ "pwrite", "a file that is open may be written when it has no name",
	  "file a text; open a; unlink a; put 1 op; ends 0 topt; put 6 x; gone a; close; stale" },
	{ "pwrite", "EISDIR: a directory", "mkdir d; open d; put 0 x = EISDIR" },
	{ "append", "each write is at the end, wherever that is",
	  "open a c; append one; put 5 X; append two; size a 9; ends 5 Xtwo" },
	{ "append", "ESTALE: the file is gone", "file a; hold a; unlink a; append x = ESTALE" },
	{ "append", "a file that is open grows when it has no name",
	  "file a text; open a; unlink a; append s; ends 0 texts" },
	{ "ftruncate", "shorter: the rest is gone",
	  "file a abcdef; open a; cut 3; holds a abc; ends 3 ''" },
	{ "ftruncate", "longer: zeros",
	  "file a abc; open a; cut 9000; size a 9000; ends 9000 ''; read 8999" },
	{ "ftruncate", "shorter, then longer: zeros, not what was there",
	  "file a abcdef; open a; cut 2; cut 3; put 3 x; size a 4; cut 2; holds a ab" },
	{ "ftruncate", "to nothing", "file a abc; open a; cut 0; size a 0; ends 0 ''" },
	{ "ftruncate", "marks both timestamps",
	  "file a abc; open a; note a; cut 1; changed a; modified a" },
	{ "ftruncate", "EFBIG: beyond the maximum",
	  "file a abc; open a; cut 9223372036854775808 = EFBIG; size a 3" },
	{ "ftruncate", "ESTALE: the file is gone", "file a; hold a; unlink a; cut 0 = ESTALE" },
	{ "ftruncate", "a file that is open is cut when it has no name",
	  "file a text; open a; unlink a; cut 2; ends 0 te; cut 0; ends 0 ''" },
	{ "ftruncate", "a directory is not truncated", "mkdir d; open d; cut 0 = EISDIR" },
	{ "pread", "at or behind the end nothing is read",
	  "file a abc; open a; ends 3 ''; ends 99999 ''" },
	{ "pread", "ESTALE: the file is gone", "file a; hold a; unlink a; read 0 = ESTALE" },
	{ "pread", "a file that is open is read when it has no name",
	  "file a text; open a; unlink a; file a other; ends 0 text; holds a other; close; stale" },
	{ "pread", "... and when it was replaced",
	  "file a text; open a; file a other; ends 0 text; holds a other; close; stale" },
	{ "open", "each open is closed by itself",
	  "file a text; open a; open a; unlink a; close; ends 0 text; close; stale" },
	{ "open", "a new file is open, too",
	  "open a c; unlink a; append x; ends 0 x; close; stale" },
	{ "open", "a file that is cut is open, too",
	  "file a text; open a t; unlink a; append x; ends 0 x; close; stale" },
	{ "close", "a file with a name stays", "file a text; open a; close; alive; holds a text" },
	{ "close", "EBADF: it is not open",
	  "file a; hold a; close = EBADF; open a; close; close = EBADF" },
	{ "close", "EBADF: ... nor is a directory, here", "mkdir d; open d; close = EBADF" },
	{ "pread", "EISDIR: a directory", "mkdir d; open d; read 0 = EISDIR" },
	{ "pread", "the file, though renamed meanwhile",
	  "file a abc; open a; rename a b; ends 0 abc" },
	{ "pread", "... though its first name went",
	  "file a abc; link a b; open a; unlink a; ends 0 abc" },

	/* ---- readdir() ---- */
	{ "readdir", "an empty directory has no entries (here: neither dot nor dot-dot)",
	  "mkdir d; lookin d 0" },
	{ "readdir", "each entry once",
	  "mkdir d; file d/a; mkdir d/b; symlink x d/c; lookin d 3 a; lookin d 3 b; lookin d 3 c" },
	{ "readdir", "an entry of two names twice",
	  "mkdir d; file d/a; link d/a d/b; lookin d 2 a; lookin d 2 b" },
	{ "readdir", "what was removed is not there",
	  "mkdir d; file d/a; file d/b; unlink d/a; lookin d 1 b" },
	{ "readdir", "a name of NAME_MAX bytes", "mkdir d; file d/@255; lookin d 1 @255" },
	{ "readdir", "a symbolic link to a directory is followed",
	  "mkdir d; file d/a; symlink d l; lookin l 1 a" },
	{ "readdir", "ENOENT: path does not exist", "list d = ENOENT" },
	{ "readdir", "ENOTDIR: path is no directory",
	  "file a; list a = ENOTDIR; list a/b = ENOTDIR" },
	{ "readdir", "ELOOP: a loop in symbolic links", "symlink l l; list l = ELOOP" },
};

static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };

TestSuite(weka_posix_files, .timeout = 120);

Test(weka_posix_files, every_case_is_as_the_standard_says)
{
	struct weka_client *client = app_rig_begin_over(&rig, "shm");
	uint32_t wrong = 0;

	static_assert(ARRAY_LEN(cases) + 174 + 43 >= 300, "with those of names and of holes");
	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++)
		wrong += !posix_case_holds(client, &cases[i], i);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	cr_assert_eq(wrong, 0, "%u of %zu cases", wrong, ARRAY_LEN(cases));
}

/* A case that cannot fail proves nothing: each of these must fail. */
Test(weka_posix_files, a_wrong_case_is_seen)
{
	static const struct posix_case bad[] = {
		{ "bad", "a mode", "open a c 0640; mode a 0600" },
		{ "bad", "an owner", "file a; chown a 1 2; owner a 2 1" },
		{ "bad", "a time", "file a; utime a 5; time a 6" },
		{ "bad", "a size", "file a text; size a 5" },
		{ "bad", "an end", "file a text; open a; ends 0 texts" },
		{ "bad", "a beginning", "file a text; open a; ends 0 tex" },
		{ "bad", "an entry", "mkdir d; file d/a; lookin d 1 b" },
		{ "bad", "a count", "mkdir d; file d/a; lookin d 2" },
		{ "bad", "an open that ends well", "file a; open a cx" },
	};
	struct weka_client *client = app_rig_begin_over(&rig, "shm");

	for (uint32_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_not(posix_case_holds(client, &bad[i], i), "%s", bad[i].words);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- a store that is full ----------------------------------------------------------------- */

static bool says(struct weka_client *client, int err, const char *path)
{
	const char *line = weka_error(client);

	return strstr(line, strerror(-err)) && strstr(line, path);
}

/* ENOSPC: there is no free space remaining.  It says of which file; removing one always works. */
Test(weka_posix_files, a_full_store_says_so_of_the_name)
{
	const size_t size = 24 << 20;
	struct weka_client *client = app_rig_begin_over(&rig, "shm");
	char *bytes = calloc(1, size), path[16];
	int err = 0, n = 0;

	cr_assert_not_null(bytes);
	for (; !err && n < 64; n++) {
		snprintf(path, sizeof(path), "/f%d", n);
		err = weka_write_file(client, path, bytes, size, NULL);
	}
	cr_assert_eq(err, -ENOSPC, "file %d", n);
	cr_assert(says(client, err, path), "%s", weka_error(client));
	cr_assert_eq(weka_stat(client, path, NULL), -ENOENT, "what failed is not there");
	cr_assert_eq(weka_unlink(client, "/f0"), 0);
	err = -ENOSPC;
	for (int i = 0; err == -ENOSPC && i < 1000; i++) /* freed gradually */
		err = weka_write_file(client, path, bytes, size / 2, NULL);
	cr_assert_eq(err, 0, "%s", weka_error(client));
	free(bytes);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}
