/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The permissions of POSIX.1-2017 (4.5 "File Access Permissions", and the EACCES and EPERM of each
 * function), through the client library and a whole appliance: keys with a uid.
 *
 *   root   a key without one        ann  1000, groups 100        cy   1002, groups 300
 *   zero   uid 0: the same          bea  1001, groups 100, 200
 *                                    fay  as ann, below /closed/inner
 *
 * Each case begins as root, in a directory of root's with mode 755.  test/lib/posix_words.h has the
 * words; "here:" where we had a choice.
 */
#include "base/num.h"
#include "test/lib/app_rig.h"
#include "test/lib/fab_rig.h"
#include "test/lib/posix_words.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct posix_case cases[] = {
	/* ---- search: each directory on the way ---- */
	{ "search", "EACCES: search permission is denied for a component of the path prefix",
	  "mkdir d; file d/a text; chmod d 700; as ann; stat d/a = EACCES; load d/a = EACCES; "
	  "stat d" },
	{ "search", "... and asking for what is not there tells nothing",
	  "mkdir d; chmod d 700; as ann; stat d/no = EACCES" },
	{ "search", "... a component far up",
	  "mkdir d; mkdir d/e; mkdir d/e/f; file d/e/f/a; chmod d 700; as ann; "
	  "stat d/e/f/a = EACCES" },
	{ "search", "execute permission alone is enough to go through",
	  "mkdir d; file d/a text; chmod d 711; as ann; holds d/a text; stat d/no = ENOENT" },
	{ "search", "read permission alone is not",
	  "mkdir d; file d/a; chmod d 744; as ann; stat d/a = EACCES" },
	{ "search", "of the directory that a symbolic link leads through",
	  "mkdir d; file d/a; symlink d l; chmod d 700; as ann; stat l/a = EACCES; lstat l" },
	{ "search", "... dot-dot is a name in it",
	  "mkdir d; mkdir d/e; chmod d/e 700; as ann; stat d/e/.. = EACCES" },
	{ "search", "... and so is dot", "mkdir d; chmod d 700; as ann; stat d/. = EACCES" },
	{ "search", "the owner's bits are the owner's, also if others have more",
	  "chmod . 777; as ann; mkdir d; file d/a; chmod d 077; stat d/a = EACCES; as cy; "
	  "stat d/a" },
	{ "search", "the group's bits are the group's, also if others have more",
	  "chmod . 777; as ann; mkdir d; file d/a; chmod d 707; as bea; stat d/a = EACCES; as cy; "
	  "stat d/a" },
	{ "search", "supplementary groups count",
	  "mkdir d; file d/a; chown d 0 200; chmod d 070; as bea; stat d/a; as ann; "
	  "stat d/a = EACCES" },
	{ "search", "a key without a uid is not asked",
	  "chmod . 777; as ann; mkdir d; file d/a text; chmod d 0; chmod d/a 0 = EACCES; as root; "
	  "holds d/a text; unlink d/a" },
	{ "search", "... nor is the superuser",
	  "mkdir d; file d/a text; chmod d 0; as zero; holds d/a text; write d/a more; "
	  "unlink d/a" },

	/* ---- reading ---- */
	{ "read", "EACCES: the file is not readable",
	  "file a text; chmod a 600; as ann; load a = EACCES; stat a" },
	{ "read", "by others' bits", "file a text; chmod a 604; as ann; holds a text" },
	{ "read", "by the group's",
	  "file a text; chown a 0 100; chmod a 640; as ann; holds a text; as cy; load a = EACCES" },
	{ "read", "the owner's class alone decides for the owner",
	  "chmod . 777; as ann; file a text; chmod a 044; load a = EACCES; as bea; holds a text" },
	{ "read", "by handle the owner may (here: as if it had been opened before)",
	  "chmod . 777; as ann; file a text; open a; chmod a 0; ends 0 text" },
	{ "read", "... and others are asked each time",
	  "file a text; as bea; open a; ends 0 text; as root; chmod a 600; as bea; "
	  "read 0 = EACCES" },
	{ "readlink", "a symbolic link's own mode is not looked at",
	  "symlink x l; as ann; text l x; readlink l" },
	{ "list", "EACCES: the directory is not readable",
	  "mkdir d; file d/a; chmod d 711; as ann; list d = EACCES; chmod d 755 = EPERM" },
	{ "list", "attributes come with the names (here: so it must be searchable, too)",
	  "mkdir d; file d/a; chmod d 744; as ann; list d = EACCES; as root; chmod d 755; as ann; "
	  "lookin d 1 a" },
	{ "stat", "needs no right to the file itself", "file a; chmod a 0; as ann; mode a 0" },

	/* ---- writing ---- */
	{ "write", "EACCES: the file is not writable",
	  "file a text; as ann; write a more = EACCES; holds a text" },
	{ "write", "by others' bits, without a right to read",
	  "file a text; chmod a 602; as ann; write a more; load a = EACCES; as root; "
	  "holds a more" },
	{ "write", "by the group's",
	  "file a text; chown a 0 200; chmod a 460; as bea; write a more; holds a more; as cy; "
	  "write a less = EACCES" },
	{ "write", "truncation is writing", "file a text; as ann; open a t = EACCES; size a 4" },
	{ "write", "... also for the owner, and of what is empty",
	  "chmod . 777; as ann; file a text; chmod a 444; open a t = EACCES; open a ct = EACCES; "
	  "size a 4; file b; chmod b 444; open b t = EACCES; as root; file c; as ann; "
	  "open c t = EACCES; open c" },
	{ "write", "... EEXIST goes before it", "file a text; as ann; open a cxt = EEXIST" },
	{ "write", "... by handle, too", "file a text; as ann; open a; cut 1 = EACCES; size a 4" },
	{ "write", "... and appending", "file a text; as ann; open a; append x = EACCES" },
	{ "write", "who makes a file may write it, whatever mode he gives it",
	  "chmod . 777; as ann; open a cx 0444; put 0 text; ends 0 text; mode a 444" },
	{ "write", "set-user-ID and set-group-ID are cleared",
	  "chmod . 777; as ann; file a text; chmod a 6755; mode a 6755; write a more; mode a 755" },

	/* ---- names: made ---- */
	{ "create", "EACCES: the directory is not writable",
	  "as ann; file a = EACCES; open a c = EACCES; mkdir d = EACCES; symlink x l = EACCES; "
	  "gone a; gone d; gone l" },
	{ "create", "... writable and not searchable",
	  "mkdir d; chmod d 776; as cy; file d/a = EACCES; mkdir d/e = EACCES; as root; "
	  "entries d 0" },
	{ "create", "EEXIST goes before it", "mkdir d; as ann; mkdir d = EEXIST" },
	{ "create", "the user ID is the process's, the group one of its own",
	  "chmod . 777; as ann; file a; owner a 1000 100; mkdir d; owner d 1000 100; symlink x l; "
	  "open b c; owner b 1000 100; as bea; file e; owner e 1001 100" },
	{ "create", "... or, where it has the bit, the directory's, which directories pass on",
	  "mkdir d; chown d 0 200; chmod d 2777; as ann; file d/a; owner d/a 1000 200; mkdir d/e; "
	  "owner d/e 1000 200; mode d/e 2755; file d/e/a; owner d/e/a 1000 200" },
	{ "create", "a file that is there is replaced (here: as rename() would), and another's",
	  "chmod . 777; file a text; chmod a 4644; as ann; file a more; owner a 1000 100; "
	  "mode a 644" },
	{ "create", "... which a directory that is not writable prevents (here)",
	  "file a text; chmod a 666; as ann; file a more = EACCES; write a more; holds a more" },
	{ "link", "EACCES: the directory of the new name is not writable",
	  "chmod . 777; file a; mkdir d; as ann; link a d/a = EACCES; link a b; links a 2" },

	/* ---- names: removed ---- */
	{ "unlink", "EACCES: the directory is not writable",
	  "file a; chmod a 666; as ann; unlink a = EACCES; is a file" },
	{ "unlink", "ENOENT goes before it", "as ann; unlink a = ENOENT" },
	{ "unlink", "the file's own mode and owner do not count",
	  "chmod . 777; file a; chmod a 0; as ann; unlink a; gone a" },
	{ "rmdir", "EACCES: the parent is not writable",
	  "mkdir d; chmod d 777; as ann; rmdir d = EACCES" },
	{ "rmdir", "the directory's own mode does not count",
	  "chmod . 777; mkdir d; chmod d 0; as ann; rmdir d; gone d" },
	{ "rename", "EACCES: the old directory is not writable",
	  "mkdir d; chmod d 777; file a; as ann; rename a d/a = EACCES; is a file" },
	{ "rename", "EACCES: the new one is not",
	  "mkdir d; chmod d 777; file d/a; as ann; rename d/a a = EACCES; is d/a file" },
	{ "rename", "of a file, whatever its mode",
	  "mkdir d; chmod d 777; file d/a; chmod d/a 0; as ann; rename d/a d/b; gone d/a" },
	{ "rename", "EACCES: a directory that is not writable gets another parent",
	  "chmod . 777; mkdir d; chmod d 777; mkdir s; as ann; rename s d/s = EACCES; rename s t; "
	  "is t dir" },
	{ "rename", "... that is",
	  "chmod . 777; mkdir d; chmod d 777; mkdir s; chmod s 777; as ann; "
	  "rename s d/s; is d/s dir" },
	{ "exchange", "both directories must be writable",
	  "mkdir d; chmod d 777; file d/a; file a; as ann; exchange d/a a = EACCES; "
	  "exchange a d/a = EACCES" },

	/* ---- the sticky bit ---- */
	{ "sticky", "EPERM: neither the file nor the directory is the user's",
	  "chmod . 1777; file a text; as ann; unlink a = EPERM; rename a b = EPERM; "
	  "file a more = EPERM; holds a text" },
	{ "sticky", "the file's owner may", "chmod . 1777; as ann; file a; rename a b; unlink b" },
	{ "sticky", "the directory's owner may",
	  "chmod . 777; as ann; mkdir d; chmod d 1777; as cy; file d/a; mkdir d/e; as ann; "
	  "unlink d/a; rmdir d/e" },
	{ "sticky", "EPERM: ... of a directory",
	  "chmod . 1777; mkdir d; as ann; rmdir d = EPERM; rename d e = EPERM" },
	{ "sticky", "EPERM: what another's file would replace",
	  "chmod . 1777; file b; as ann; file a; rename a b = EPERM; exchange a b = EPERM" },
	{ "sticky", "new names are anybody's", "chmod . 1777; file b; as ann; link b a; file c" },

	/* ---- chmod(), chown(), utimensat() ---- */
	{ "chmod", "EPERM: the user is not the owner",
	  "file a; chmod a 666; as ann; chmod a 600 = EPERM; mode a 666" },
	{ "chmod", "the owner may, whatever the mode",
	  "chmod . 777; as ann; file a; chmod a 0; chmod a 640; mode a 640" },
	{ "chmod", "set-group-ID of a group that is not the user's is cleared",
	  "file a; chown a 1000 300; as ann; chmod a 2755; mode a 755" },
	{ "chown", "EPERM: the user ID becomes another's",
	  "chmod . 777; as ann; file a; chown a 1001 100 = EPERM; owner a 1000 100" },
	{ "chown", "EPERM: the group is none of the owner's",
	  "chmod . 777; as ann; file a; chown a 1000 200 = EPERM; owner a 1000 100" },
	{ "chown", "the group becomes another of the owner's",
	  "chmod . 777; as bea; file a; chown a 1001 200; owner a 1001 200" },
	{ "chown", "EPERM: it is another's file",
	  "file a; chmod a 666; as bea; chown a 0 200 = EPERM" },
	{ "chown", "set-user-ID and set-group-ID are cleared",
	  "chmod . 777; as bea; file a; chmod a 6755; chown a 1001 200; mode a 755" },
	{ "utimensat", "EPERM: times are given, and the user is not the owner",
	  "file a; chmod a 666; as ann; utime a 5 = EPERM" },
	{ "utimensat", "the owner may",
	  "chmod . 777; as ann; file a; chmod a 0; utime a 5; time a 5" },

	/* ---- extended attributes of Linux: those of user. ---- */
	{ "getxattr", "EACCES: the file is not readable",
	  "file a; set a user.n v; chmod a 622; as ann; get a user.n = EACCES; names a" },
	{ "setxattr", "EACCES: the file is not writable",
	  "file a; set a user.n v; as ann; set a user.n w = EACCES; remove a user.n = EACCES; "
	  "has a user.n v" },
	{ "setxattr", "EPERM: a directory with the sticky bit, which is another's",
	  "mkdir d; chmod d 1777; set d user.n v; as ann; set d user.n w = EPERM; "
	  "set d user.m w = EPERM; remove d user.n = EPERM; has d user.n v" },
	{ "setxattr", "... which is the user's",
	  "chmod . 777; as ann; mkdir d; chmod d 1755; set d user.n v; remove d user.n" },
	{ "setxattr", "... and a file's counts for nothing",
	  "file a; chmod a 1666; as ann; set a user.n v; has a user.n v" },
	{ "setxattr", "by others' bits",
	  "file a; chmod a 666; as ann; set a user.n v; "
	  "has a user.n v" },
};

/* ---- the appliance, its keys, and their users --------------------------------------------- */

enum { ROOT, ZERO, ANN, BEA, CY, USERS, FAY = USERS, KEYS };

static struct app_rig rig = { .transport = "tcp",
			      .cfg = { .boot = APP_BOOT_FORMAT, .cache_bytes = 64 << 20 } };
static struct posix_user users[KEYS] = { { "root", NULL }, { "zero", NULL }, { "ann", NULL },
					 { "bea", NULL },  { "cy", NULL },   { "fay", NULL } };

static const struct {
	uint32_t uid, gids, gid[2];
	const char *subtree;
} ids[KEYS] = {
	[ZERO] = { 0, 1, { 0 } },
	[ANN] = { 1000, 1, { 100 } },
	[BEA] = { 1001, 2, { 100, 200 } },
	[CY] = { 1002, 1, { 300 } },
	[FAY] = { 1000, 1, { 100 }, "/closed/inner" },
};

/* On the control thread, whose the keys are. */
static void keys_set(struct app_rig *r)
{
	for (uint32_t i = ZERO; i < KEYS; i++) {
		const char *subtree = ids[i].subtree ? ids[i].subtree : "";
		struct fab_grant g = fab_rig_grant(users[i].name, (uint8_t)i, subtree, true);

		g.rights.has_uid = true;
		g.rights.uid = ids[i].uid;
		g.rights.gids = ids[i].gids;
		memcpy(g.rights.gid, ids[i].gid, sizeof(ids[i].gid));
		cr_assert_geq(fab_server_key_set(r->srv, &g), 0);
	}
}

static struct weka_client *connect_as(uint32_t user)
{
	return app_rig_connect_as(&rig, users[user].name, (uint8_t)user, NULL);
}

static void setup(void)
{
	rig.turn = keys_set;
	app_rig_begin(&rig);
	users[ROOT].client = app_rig_connect(&rig);
	for (uint32_t i = ZERO; i < KEYS; i++)
		users[i].client = connect_as(i);
}

static void teardown(void)
{
	for (uint32_t i = 0; i < KEYS; i++)
		weka_close(users[i].client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(weka_posix_access, .init = setup, .fini = teardown, .timeout = 120);

Test(weka_posix_access, every_case_is_as_the_standard_says)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++)
		wrong += !posix_case_holds_as(users, USERS, &cases[i], i);
	cr_assert_eq(wrong, 0, "%u of %zu cases", wrong, ARRAY_LEN(cases));
}

static struct weka_client *root_makes_a_closed_directory(struct weka_attr *inner)
{
	struct weka_client *root = users[ROOT].client;

	cr_assert_eq(weka_mkdir(root, "/closed", 0700), 0);
	cr_assert_eq(weka_mkdir(root, "/closed/inner", 0777), 0);
	cr_assert_eq(weka_write_file(root, "/closed/inner/file", "text", 4, NULL), 0);
	cr_assert_eq(weka_stat(root, "/closed/inner", inner), 0);
	return root;
}

static int stat_by(struct weka_client *c, const struct weka_ref *ref)
{
	struct weka_stat_item item = { .ref = *ref };
	struct weka_req req = { 0 }, *done;
	int err = weka_submit_stat(c, &req, &item, 1, NULL);

	if (err)
		return err;
	while (weka_reap(c, &done, 1) == 0)
		if (weka_wait(c, WEKA_FOREVER) < 0)
			break;
	return req.status ? req.status : item.status;
}

/* Numbers can be guessed; a directory is reached by its number as by its path, or is not there. */
Test(weka_posix_access, a_number_leads_no_further_than_the_path)
{
	struct weka_attr inner;
	struct weka_client *root = root_makes_a_closed_directory(&inner);
	struct weka_ref file = weka_ref_in(inner.dir, "file");

	cr_assert_eq(stat_by(root, &file), 0);
	cr_assert_eq(stat_by(users[ZERO].client, &file), 0);
	cr_assert_eq(stat_by(users[ANN].client, &file), -ENOENT);
	file = weka_ref_in(inner.dir, "no");
	cr_assert_eq(stat_by(users[ANN].client, &file), -ENOENT);
	file = weka_ref_in(inner.dir + 77777, "file"); /* is not there */
	cr_assert_eq(stat_by(users[ANN].client, &file), -ENOENT);
}

/* Modes above the subtree are not its key's, and nothing there shows, closed or open. */
Test(weka_posix_access, a_number_outside_the_subtree_tells_nothing)
{
	struct weka_attr inner, closed, hidden, open;
	struct weka_client *root = root_makes_a_closed_directory(&inner), *fay = users[FAY].client;
	struct weka_ref ref = weka_ref_in(inner.dir, "file");

	cr_assert_eq(weka_stat(root, "/closed", &closed), 0);
	cr_assert_eq(weka_mkdir(root, "/closed/hidden", 0700), 0);
	cr_assert_eq(weka_stat(root, "/closed/hidden", &hidden), 0);
	cr_assert_eq(weka_mkdir(root, "/open", 0777), 0);
	cr_assert_eq(weka_stat(root, "/open", &open), 0);
	cr_assert_eq(stat_by(fay, &ref), 0);
	ref = weka_ref_path("/file");
	cr_assert_eq(stat_by(fay, &ref), 0);
	ref = weka_ref_in(closed.dir, "no");
	cr_assert_eq(stat_by(fay, &ref), -ENOENT);
	ref = weka_ref_in(hidden.dir, "no");
	cr_assert_eq(stat_by(fay, &ref), -ENOENT);
	ref = weka_ref_in(open.dir, "no");
	cr_assert_eq(stat_by(fay, &ref), -ENOENT);
}

Test(weka_posix_access, a_handle_is_good_for_whom_it_was_given_to)
{
	struct weka_attr inner;
	struct weka_client *root = root_makes_a_closed_directory(&inner);
	struct weka_ref dir = weka_ref_handle(&inner.handle);
	struct weka_ref file = weka_ref_at(&inner.handle, "file");

	cr_assert_eq(stat_by(root, &dir), 0);
	cr_assert_eq(stat_by(root, &file), 0);
	cr_assert_eq(stat_by(users[ANN].client, &dir), -ESTALE);
	cr_assert_eq(stat_by(users[ANN].client, &file), -ESTALE);
}

static int list_by(struct weka_client *c, const struct weka_ref *dir)
{
	struct weka_entry entry;
	struct weka_dir *d;
	int rc = weka_list(c, dir, &d), count = 0;

	if (rc)
		return rc;
	while ((rc = weka_list_next(d, &entry)) == 1)
		count++;
	weka_list_end(d);
	return rc ? rc : count;
}

/* /p/x is ann's, with a file of hers; then /p is closed. */
static struct weka_client *ann_is_shut_out(struct weka_attr *x, struct weka_attr *file)
{
	struct weka_client *root = users[ROOT].client, *ann = users[ANN].client;
	const struct weka_setattr open = { .mask = WEKA_SET_MODE, .mode = 0777 };
	const struct weka_setattr shut = { .mask = WEKA_SET_MODE, .mode = 0700 };
	const struct weka_ref p = weka_ref_path("/p");
	struct weka_ref dir;

	cr_assert_eq(weka_mkdir(root, "/p", 0755), 0);
	cr_assert_eq(weka_setattr(root, &p, &open), 0);
	cr_assert_eq(weka_mkdir(ann, "/p/x", 0755), 0);
	cr_assert_eq(weka_write_file(ann, "/p/x/file", "text", 4, NULL), 0);
	cr_assert_eq(weka_stat(ann, "/p/x", x), 0);
	cr_assert_eq(weka_open(ann, "/p/x/file", 0, 0, file), 0);
	dir = weka_ref_handle(&x->handle);
	cr_assert_eq(list_by(ann, &dir), 1);
	cr_assert_eq(weka_setattr(root, &p, &shut), 0);
	return ann;
}

/* Files below a closed directory are closed, also for a client that has been there before. */
Test(weka_posix_access, a_directorys_handle_leads_no_further_than_its_path)
{
	struct weka_attr x, file;
	struct weka_client *ann = ann_is_shut_out(&x, &file);
	const struct weka_ref dir = weka_ref_handle(&x.handle);
	const struct weka_ref name = weka_ref_at(&x.handle, "file");
	const struct weka_setattr mode = { .mask = WEKA_SET_MODE, .mode = 0700 };

	cr_assert_eq(list_by(ann, &dir), -EACCES);
	cr_assert_eq(stat_by(ann, &dir), -EACCES);
	cr_assert_eq(stat_by(ann, &name), -EACCES);
	cr_assert_eq(weka_setattr(ann, &dir, &mode), -EACCES);
}

Test(weka_posix_access, a_files_handle_outlives_the_closing_of_its_path)
{
	struct weka_attr x, file;
	struct weka_client *ann = ann_is_shut_out(&x, &file);
	char bytes[4];

	cr_assert_eq(weka_stat(ann, "/p/x/file", NULL), -EACCES);
	cr_assert_eq(weka_pread(ann, &file.handle, bytes, 4, 0), 4);
	cr_assert_eq(weka_pwrite(ann, &file.handle, "more", 4, 0), 4);
}

/* By handle as by path: directories above the subtree do not count, even if they are closed. */
Test(weka_posix_access, a_handle_in_a_subtree_climbs_to_its_directory_only)
{
	struct weka_attr inner, sub;
	struct weka_client *root = root_makes_a_closed_directory(&inner), *fay = users[FAY].client;
	struct weka_ref ref;

	cr_assert_eq(weka_mkdir(root, "/closed/inner/sub", 0755), 0);
	cr_assert_eq(weka_stat(fay, "/sub", &sub), 0);
	ref = weka_ref_handle(&sub.handle);
	cr_assert_eq(list_by(fay, &ref), 0);
	cr_assert_eq(weka_rename(root, "/closed/inner/sub", "/sub"), 0);
	cr_assert_eq(list_by(fay, &ref), -ESTALE);
}

/* Refused attempts are logged, like attempts to leave a key's subtree. */
Test(weka_posix_access, attempts_are_told_to_people)
{
	struct weka_attr inner;
	struct fab_server_stat before, after;

	root_makes_a_closed_directory(&inner);
	fab_server_stat(rig.srv, &before);
	after = before;
	cr_assert_eq(weka_stat(users[ANN].client, "/closed/inner/file", NULL), -EACCES);
	for (int tries = 0; after.refused == before.refused && tries < 1000; tries++) {
		usleep(10000); /* the control thread has not woken yet */
		fab_server_stat(rig.srv, &after);
	}
	cr_assert_gt(after.refused, before.refused);
}

/* Each directory below would have to be asked. */
Test(weka_posix_access, a_whole_tree_goes_for_nobody_but_the_superuser)
{
	struct weka_client *root = users[ROOT].client, *ann = users[ANN].client;

	cr_assert_eq(weka_mkdir(root, "/open", 0777), 0);
	cr_assert_eq(weka_mkdir(root, "/open/tree", 0777), 0);
	cr_assert_eq(weka_rmtree(ann, "/open/tree"), -EPERM);
	cr_assert_eq(weka_stat(ann, "/open/tree", NULL), 0);
	cr_assert_eq(weka_rmtree(users[ZERO].client, "/open/tree"), 0);
	cr_assert_eq(weka_stat(ann, "/open/tree", NULL), -ENOENT);
}

/* A check that cannot fail shows nothing: root may do all of this. */
Test(weka_posix_access, a_user_who_may_everything_is_seen)
{
	uint32_t held = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct posix_user same[USERS];

		for (uint32_t k = 0; k < USERS; k++)
			same[k] = (struct posix_user){ users[k].name, users[ROOT].client };
		if (strstr(cases[i].script, " = EACCES") || strstr(cases[i].script, " = EPERM"))
			held += posix_case_holds_as(same, USERS, &cases[i], 1000 + i);
	}
	cr_assert_eq(held, 0, "%u cases that refuse hold for who may everything", held);
}
