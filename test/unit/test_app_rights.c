/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Rights, over the whole appliance: clients whose keys may only read, or see one directory only,
 * try to get at the rest in every way there is.
 *
 *   /            root's key sees all          /team/a    alice's, who may write
 *   |- secret    alice must not               /team/b    bob's
 *   `- team/...                               /team/a    carol's, who may read
 */
#include "appliance/core/app_op.h"
#include "base/log.h"
#include "client-lib/client_internal.h"
#include "fabric/client/fab_client_internal.h"
#include "test/lib/app_rig.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct app_rig rig = { .transport = "tcp",
			      .cfg = { .boot = APP_BOOT_FORMAT, .cache_bytes = 64 << 20 } };
static struct weka_client *root, *alice, *bob, *carol;
static struct weka_attr attr;

#define DRIVE "mem:256M"

/* Twenty operations a second. */
static struct fab_grant slow_grant(void)
{
	struct fab_grant g = fab_rig_grant("slow", 4, "", true);

	g.rights.ops_per_s = 20;
	return g;
}

static struct fab_grant user_grant(const char *id, uint8_t secret, uint32_t uid)
{
	struct fab_grant g = fab_rig_grant(id, secret, "", true);

	g.rights.has_uid = true;
	g.rights.uid = uid;
	g.rights.gids = 1;
	g.rights.gid[0] = uid;
	return g;
}

/* On the control thread, whose the keys are. */
static void keys_set(struct app_rig *r)
{
	const struct fab_grant grants[] = { fab_rig_grant("alice", 1, "/team/a", true),
					    fab_rig_grant("bob", 2, "/team/b", true),
					    fab_rig_grant("carol", 3, "/team/a", false),
					    slow_grant(),
					    user_grant("ann", 5, 1000),
					    user_grant("super", 6, 0),
					    fab_rig_grant("reader", 7, "", false) };

	for (uint32_t i = 0; i < ARRAY_LEN(grants); i++)
		cr_assert_geq(fab_server_key_set(r->srv, &grants[i]), 0);
}

static struct weka_client *connect_as(const char *id, uint8_t secret)
{
	return app_rig_connect_as(&rig, id, secret, NULL);
}

static void begin(void)
{
	rig.turn = keys_set;
	app_rig_begin(&rig);
	root = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(root, "/team", 0755), 0);
	cr_assert_eq(weka_mkdir(root, "/team/a", 0755), 0);
	cr_assert_eq(weka_mkdir(root, "/team/b", 0755), 0);
	cr_assert_eq(weka_write_file(root, "/secret", "top", 3, NULL), 0);
	cr_assert_eq(weka_write_file(root, "/team/a/file", "a's", 3, NULL), 0);
	cr_assert_eq(weka_write_file(root, "/team/b/file", "b's", 3, NULL), 0);
	alice = connect_as("alice", 1);
	bob = connect_as("bob", 2);
	carol = connect_as("carol", 3);
}

static void end(void)
{
	weka_close(carol);
	weka_close(bob);
	weka_close(alice);
	weka_close(root);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

static void reads(struct weka_client *c, const char *path, const char *what)
{
	void *bytes;
	size_t size;

	cr_assert_eq(weka_read_file(c, path, &bytes, &size), 0, "%s: %s", path, weka_error(c));
	cr_assert_eq(size, strlen(what));
	cr_assert_eq(memcmp(bytes, what, size), 0);
	free(bytes);
}

static int stat_of(struct weka_client *c, const char *path)
{
	return weka_stat(c, path, &attr);
}

Test(app_rights, a_path_begins_at_the_keys_directory, .timeout = 60)
{
	begin();
	reads(alice, "/file", "a's");
	reads(alice, "file", "a's");
	reads(bob, "/file", "b's");
	reads(carol, "/file", "a's");
	cr_assert_eq(weka_write_file(alice, "/new", "by alice", 8, NULL), 0);
	reads(root, "/team/a/new", "by alice");
	cr_assert_eq(weka_mkdir(alice, "/sub", 0755), 0);
	cr_assert_eq(weka_write_file(alice, "/sub/x", "x", 1, NULL), 0);
	reads(alice, "/sub/../file", "a's"); /* as long as it stays inside */
	reads(alice, "/sub/./x", "x");
	cr_assert_eq(weka_rename(alice, "/sub/x", "/y"), 0);
	reads(root, "/team/a/y", "x");
	end();
}

/* A file that exists and one that does not look alike. */
Test(app_rights, nothing_outside_can_be_named_by_path, .timeout = 60)
{
	static const char *const up[] = {
		"..",          "/..",           "/../../secret", "/../../nothing",
		"/../b/file",  "/../b/nothing", "../a/file",     "/./..//secret",
		"/..//..//..", "/sub/../../b"
	};

	begin();
	cr_assert_eq(weka_mkdir(alice, "/sub", 0755), 0);
	cr_assert_eq(stat_of(alice, "/secret"), -ENOENT);
	cr_assert_eq(stat_of(alice, "/team/b/file"), -ENOENT);
	for (uint32_t i = 0; i < ARRAY_LEN(up); i++) {
		cr_assert_eq(stat_of(alice, up[i]), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_write_file(alice, up[i], "!", 1, NULL), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_mkdir(alice, up[i], 0755), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_unlink(alice, up[i]), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_rmtree(alice, up[i]), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_rename(alice, "/file", up[i]), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_rename(alice, up[i], "/mine"), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_symlink(alice, "x", up[i]), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_link(alice, "/file", up[i]), -EACCES, "%s", up[i]);
		cr_assert_eq(weka_link(alice, up[i], "/mine"), -EACCES, "%s", up[i]);
	}
	reads(root, "/secret", "top");
	reads(root, "/team/b/file", "b's");
	cr_assert_eq(stat_of(root, "/team/a/mine"), -ENOENT);
	end();
}

/* Each name of a batch by itself. */
Test(app_rights, a_batch_of_names_is_confined_name_by_name, .timeout = 60)
{
	struct weka_unlink_item item[] = {
		{ .ref = weka_ref_path("/file") },
		{ .ref = weka_ref_path("/../b/file") },
		{ .ref = weka_ref_path("/team/b/file") },
		{ .ref = weka_ref_in(0, "file") },
	};

	begin();
	cr_assert_eq(stat_of(root, "/team/b"), 0);
	item[3].ref.dir = attr.dir; /* one that alice has not been told */
	cr_assert_eq(weka_unlink_batch(carol, item, 4), -EACCES); /* she may only read */
	reads(root, "/team/a/file", "a's");
	cr_assert_eq(weka_unlink_batch(alice, item, 4), -EACCES);
	cr_assert_eq(item[0].status, 0);
	cr_assert_eq(item[1].status, -EACCES);
	cr_assert_eq(item[2].status, -ENOENT);
	cr_assert_eq(item[3].status, -ENOENT);
	cr_assert_eq(stat_of(root, "/team/a/file"), -ENOENT);
	reads(root, "/team/b/file", "b's");
	end();
}

Test(app_rights, symlinks_lead_nowhere_outside, .timeout = 60)
{
	char target[64];

	begin();
	cr_assert_eq(weka_symlink(alice, "../../secret", "/climbs"), 0);
	cr_assert_eq(weka_symlink(alice, "../../nothing", "/climbs-to-nothing"), 0);
	cr_assert_eq(weka_symlink(alice, "/secret", "/absolute"), 0);
	cr_assert_eq(weka_symlink(alice, "/file", "/inside"), 0);
	cr_assert_eq(weka_symlink(root, "../b", "/team/a/planted"), 0);
	cr_assert_eq(weka_symlink(root, "/team/a", "/team/a/by-root"), 0);
	cr_assert_eq(stat_of(alice, "/climbs"), -EACCES);
	cr_assert_eq(stat_of(alice, "/climbs-to-nothing"), -EACCES);
	cr_assert_eq(stat_of(alice, "/absolute"), -ENOENT);
	cr_assert_eq(stat_of(alice, "/planted/file"), -EACCES);
	cr_assert_eq(stat_of(alice, "/by-root/file"), -ENOENT);
	cr_assert_eq(weka_write_file(alice, "/climbs", "!", 1, NULL), -EACCES);
	cr_assert_eq(weka_write_file(alice, "/planted/file", "!", 1, NULL), -EACCES);
	reads(alice, "/inside", "a's");
	cr_assert_eq(weka_readlink(alice, "/climbs", target, sizeof(target)),
		     12); /* its own text */
	reads(root, "/secret", "top");
	reads(root, "/team/b/file", "b's");
	end();
}

/* A client that may write above the directory cannot replace it by a symlink to another. */
Test(app_rights, a_symlink_is_no_subtree, .timeout = 60)
{
	begin();
	cr_assert_eq(weka_rename(root, "/team/a", "/team/was-a"), 0);
	cr_assert_eq(weka_symlink(root, "b", "/team/a"), 0);
	sleep(2); /* it is looked up again after a second */
	cr_assert_eq(stat_of(alice, "/file"), -ENOENT);
	cr_assert_eq(weka_unlink(root, "/team/a"), 0);
	cr_assert_eq(weka_mkdir(root, "/team/a", 0755), 0);
	cr_assert_eq(weka_write_file(root, "/team/a/file", "new", 3, NULL), 0);
	reads(alice, "/file", "new");
	end();
}

Test(app_rights, a_read_key_changes_nothing, .timeout = 60)
{
	struct weka_ref file = weka_ref_path("/file");
	struct weka_handle handle;
	struct weka_setattr mode = { .mask = WEKA_SET_MODE, .mode = 0777 };
	char byte = '!', *status;

	begin();
	cr_assert_eq(stat_of(carol, "/file"), 0);
	handle = attr.handle;
	cr_assert_eq(weka_write_file(carol, "/new", "!", 1, NULL), -EACCES);
	cr_assert_eq(weka_write_file(carol, "/file", "!", 1, NULL), -EACCES);
	cr_assert_eq(weka_pwrite(carol, &handle, &byte, 1, 0), -EACCES);
	cr_assert_eq(weka_append(carol, &handle, &byte, 1), -EACCES);
	cr_assert_eq(weka_open(carol, "/file", WEKA_CREATE, 0644, &attr), -EACCES);
	cr_assert_eq(weka_open(carol, "/file", WEKA_TRUNC, 0644, &attr), -EACCES);
	cr_assert_eq(weka_open(carol, "/new", WEKA_CREATE, 0644, &attr), -EACCES);
	cr_assert_eq(weka_open(carol, "/file", 0, 0, &attr), 0);
	cr_assert_eq(weka_mkdir(carol, "/d", 0755), -EACCES);
	cr_assert_eq(weka_rmdir(carol, "/d"), -EACCES);
	cr_assert_eq(weka_rmtree(carol, "/d"), -EACCES);
	cr_assert_eq(weka_unlink(carol, "/file"), -EACCES);
	cr_assert_eq(weka_punch(carol, &handle, 0, 1), -EACCES);
	cr_assert_eq(weka_seek(carol, &handle, 0, 0), 0);
	cr_assert_eq(weka_setxattr(root, "/team/a/file", "user.x", "v", 1, 0), 0);
	cr_assert_eq(weka_setxattr(carol, "/file", "user.x", "w", 1, 0), -EACCES);
	cr_assert_eq(weka_removexattr(carol, "/file", "user.x"), -EACCES);
	cr_assert_eq(weka_getxattr(carol, "/file", "user.x", &byte, 1), 1);
	cr_assert_eq(byte, 'v');
	cr_assert_eq(weka_listxattr(carol, "/file", NULL, 0), 7);
	cr_assert_eq(weka_link(carol, "/file", "/more"), -EACCES);
	cr_assert_eq(weka_rename(carol, "/file", "/new"), -EACCES);
	cr_assert_eq(weka_symlink(carol, "x", "/new"), -EACCES);
	cr_assert_eq(weka_setattr(carol, &file, &mode), -EACCES);
	cr_assert_eq(weka_status(carol, &status), -EACCES);
	reads(root, "/team/a/file", "a's");
	cr_assert_eq(stat_of(root, "/team/a/new"), -ENOENT);
	cr_assert_eq(stat_of(root, "/team/a/d"), -ENOENT);
	end();
}

Test(app_rights, a_handle_is_good_for_its_key_only, .timeout = 60)
{
	struct weka_handle of_root, of_alice, of_bob;
	char bytes[4] = "";

	begin();
	cr_assert_eq(stat_of(root, "/secret"), 0);
	of_root = attr.handle;
	cr_assert_eq(stat_of(alice, "/file"), 0);
	of_alice = attr.handle;
	cr_assert_eq(stat_of(bob, "/file"), 0);
	of_bob = attr.handle;
	cr_assert_eq(weka_pread(alice, &of_alice, bytes, 3, 0), 3);
	cr_assert_str_eq(bytes, "a's");
	cr_assert_eq(weka_pread(alice, &of_root, bytes, 3, 0), -ESTALE);
	cr_assert_eq(weka_pread(alice, &of_bob, bytes, 3, 0), -ESTALE);
	cr_assert_eq(weka_pread(bob, &of_alice, bytes, 3, 0), -ESTALE);
	cr_assert_eq(weka_pwrite(alice, &of_bob, "!!!", 3, 0), -ESTALE);
	cr_assert_eq(weka_pwrite(alice, &of_root, "!!!", 3, 0), -ESTALE);
	/* A handle that nobody was given looks the same. */
	of_bob.bytes[7] ^= 1;
	cr_assert_eq(weka_pread(bob, &of_bob, bytes, 3, 0), -ESTALE);
	/* The appliance's own name of alice's file is not hers. */
	cr_assert_eq(stat_of(root, "/team/a/file"), 0);
	cr_assert_eq(weka_pread(alice, &attr.handle, bytes, 3, 0), -ESTALE);
	reads(root, "/secret", "top");
	reads(root, "/team/b/file", "b's");
	end();
}

static int list_count(struct weka_client *c, const struct weka_ref *dir)
{
	struct weka_entry entry;
	struct weka_dir *d;
	int count = 0, rc = weka_list(c, dir, &d);

	if (rc)
		return rc;
	while ((rc = weka_list_next(d, &entry)) == 1)
		count++;
	weka_list_end(d);
	return rc < 0 ? rc : count;
}

static int get(struct weka_client *c, struct weka_ref ref)
{
	FILE *f = tmpfile();
	int64_t got;

	cr_assert_not_null(f);
	got = weka_get_fd(c, &ref, fileno(f));
	fclose(f);
	return (int)got;
}

/*
 * A second client of the same key may see the same files, and finds them by itself: a handle that
 * it did not get is worth nothing to it, and the first one's stays good over a lost connection.
 */
Test(app_rights, a_handle_is_good_for_its_client_only, .timeout = 60)
{
	struct weka_client *other;
	struct weka_handle of_alice;
	char bytes[4] = "";

	begin();
	other = connect_as("alice", 1);
	cr_assert_eq(stat_of(alice, "/file"), 0);
	of_alice = attr.handle;
	cr_assert_eq(stat_of(other, "/file"), 0);
	cr_assert_neq(memcmp(&of_alice, &attr.handle, sizeof(of_alice)), 0);
	cr_assert_eq(weka_pread(other, &attr.handle, bytes, 3, 0), 3);
	cr_assert_eq(weka_pread(other, &of_alice, bytes, 3, 0), -ESTALE);
	cr_assert_eq(weka_pwrite(other, &of_alice, "!!!", 3, 0), -ESTALE);
	cr_assert_eq(weka_pread(alice, &attr.handle, bytes, 3, 0), -ESTALE);
	/* The next session of the same client: its id is what makes it that. */
	memcpy(other->id, alice->id, sizeof(other->id));
	for (uint32_t i = 0; i < CLIENT_LANES_MAX; i++)
		if (other->lanes[i].conn)
			cr_assert_eq(shutdown(other->lanes[i].conn->fd, SHUT_RDWR), 0);
	cr_assert_eq(weka_pread(other, &of_alice, bytes, 3, 0), 3);
	cr_assert_str_eq(bytes, "a's");
	weka_close(other);
	end();
}

Test(app_rights, directories_by_number_or_handle_are_ones_own_or_none, .timeout = 60)
{
	uint64_t team, a, b, sub;
	struct weka_handle ha, hb;
	struct weka_ref by_handle;

	begin();
	cr_assert_eq(weka_mkdir(root, "/team/a/sub", 0755), 0);
	cr_assert_eq(weka_write_file(root, "/team/a/sub/x", "x", 1, NULL), 0);
	cr_assert_eq(stat_of(root, "/team"), 0);
	team = attr.dir;
	cr_assert_eq(stat_of(root, "/team/a/sub"), 0);
	sub = attr.dir;
	cr_assert_eq(stat_of(alice, "/"), 0);
	a = attr.dir;
	ha = attr.handle;
	cr_assert_eq(stat_of(bob, "/"), 0);
	b = attr.dir;
	hb = attr.handle;
	cr_assert_eq(get(alice, weka_ref_in(a, "file")), 3);
	cr_assert_eq(get(alice, weka_ref_in(sub, "x")), 1);
	cr_assert_eq(get(alice, weka_ref_in(sub, "../file")), 3);
	cr_assert_eq(get(alice, weka_ref_in(sub, "../../b/file")), -EACCES);
	cr_assert_eq(get(alice, weka_ref_in(META_ROOT_DIR, "secret")), -ENOENT);
	cr_assert_eq(get(alice, weka_ref_in(team, "b")), -ENOENT);
	cr_assert_eq(get(alice, weka_ref_in(b, "file")), -ENOENT);
	cr_assert_eq(get(alice, weka_ref_in(b, "nothing")), -ENOENT);
	cr_assert_eq(get(alice, weka_ref_in(b + 77777, "file")), -ENOENT); /* is not there */
	cr_assert_eq(get(alice, weka_ref_in(b, "../a/file")), -ENOENT);
	cr_assert_eq(get(alice, weka_ref_at(&ha, "file")), 3);
	cr_assert_eq(get(alice, weka_ref_at(&hb, "file")), -ESTALE);
	by_handle = weka_ref_handle(&hb);
	cr_assert_eq(list_count(alice, &by_handle), -ESTALE);
	by_handle = weka_ref_handle(&ha);
	cr_assert_eq(list_count(alice, &by_handle), 2);
	end();
}

/* Listings, opens and puts hand out the key's handles, too. */
Test(app_rights, every_handle_that_is_given_is_the_keys, .timeout = 60)
{
	struct weka_ref dir = weka_ref_path("/");
	struct weka_entry entry;
	struct weka_dir *d;
	char bytes[4] = "";

	begin();
	cr_assert_eq(weka_open(alice, "/file", 0, 0, &attr), 0);
	cr_assert_eq(weka_pread(alice, &attr.handle, bytes, 3, 0), 3);
	cr_assert_eq(weka_open(alice, "/made", WEKA_CREATE, 0644, &attr), 0);
	cr_assert_eq(weka_append(alice, &attr.handle, "1", 1), 1);
	cr_assert_eq(weka_list(alice, &dir, &d), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(weka_list_next(d, &entry), 1);
		cr_assert_geq(weka_pread(alice, &entry.attr.handle, bytes, 3, 0), 1);
		cr_assert_eq(weka_pread(bob, &entry.attr.handle, bytes, 3, 0), -ESTALE);
		cr_assert_eq(weka_pread(root, &entry.attr.handle, bytes, 3, 0), -ESTALE);
	}
	weka_list_end(d);
	end();
}

/* A put of more than 4 MiB: hidden, written by handle, committed. */
Test(app_rights, long_puts_land_below, .timeout = 60)
{
	static char big[5 << 20];

	begin();
	memset(big, 'x', sizeof(big));
	cr_assert_eq(weka_write_file(alice, "/big", big, sizeof(big), NULL), 0);
	cr_assert_eq(stat_of(root, "/team/a/big"), 0);
	cr_assert_eq(attr.size_bytes, sizeof(big));
	cr_assert_eq(weka_write_file(alice, "/../big", big, sizeof(big), NULL), -EACCES);
	cr_assert_eq(stat_of(root, "/team/big"), -ENOENT);
	cr_assert_eq(weka_write_file(carol, "/big", big, sizeof(big), NULL), -EACCES);
	end();
}

/* The same session goes on, refused or not; nobody learns totals of others. */
Test(app_rights, who_is_confined_hears_of_no_others, .timeout = 60)
{
	struct weka_statfs s;
	char *text;

	begin();
	cr_assert_eq(weka_statfs(root, &s), 0);
	cr_assert_gt(s.files, 0);
	cr_assert_gt(s.dirs, 0);
	cr_assert_eq(weka_statfs(alice, &s), 0);
	cr_assert_eq(s.files, 0);
	cr_assert_eq(s.dirs, 0);
	cr_assert_eq(weka_status(alice, &text), -EACCES);
	reads(alice, "/file", "a's");
	end();
}

/* The library waits as it is told, and asks again: its caller sees but a delay. */
Test(app_rights, who_asks_too_often_is_slowed_and_not_failed, .timeout = 60)
{
	struct weka_client *slow;
	struct app_core_stat stat;

	begin();
	slow = connect_as("slow", 4);
	for (int i = 0; i < 30; i++)
		reads(slow, "/secret", "top");
	app_rig_stat(&rig, &stat);
	cr_assert_gt(stat.busy, 0);
	reads(root, "/secret", "top");
	weka_close(slow);
	end();
}

/* One request takes the share of two seconds: the next one is told to wait. */
Test(app_rights, a_batch_costs_what_its_items_do, .timeout = 60)
{
	static struct weka_unlink_item item[40];
	struct weka_client *slow;
	struct app_core_stat before, after;

	begin();
	slow = connect_as("slow", 4);
	for (uint32_t i = 0; i < ARRAY_LEN(item); i++)
		item[i].ref = weka_ref_path("/nothing");
	app_rig_stat(&rig, &before);
	cr_assert_eq(weka_unlink_batch(slow, item, ARRAY_LEN(item)), -ENOENT);
	reads(slow, "/secret", "top");
	app_rig_stat(&rig, &after);
	cr_assert_gt(after.busy, before.busy);
	weka_close(slow);
	end();
}

static void may_not_drain(const char *id, uint8_t secret)
{
	struct weka_client *c = connect_as(id, secret);

	cr_assert_eq(weka_drain(c, DRIVE), -EACCES, "%s", id);
	cr_assert_eq(weka_undrain(c, DRIVE), -EACCES, "%s", id);
	/* ... whatever is there */
	cr_assert_eq(weka_drain(c, "none"), -EACCES, "%s", id);
	cr_assert_eq(weka_protect(c, "mirror"), -EACCES, "%s", id);
	weka_close(c);
}

/* A key with all rights is told that it is the last drive, which goes on serving. */
Test(app_rights, drives_are_for_who_may_do_everything, .timeout = 60)
{
	static char name[META_DRIVES_MAX][APP_CONF_TEXT_MAX] = { DRIVE };
	struct weka_client *super;

	rig.cfg.drive_name = name;
	begin();
	may_not_drain("alice", 1);
	may_not_drain("carol", 3);
	may_not_drain("ann", 5);
	may_not_drain("reader", 7);
	cr_assert_eq(weka_drain(root, DRIVE), -EPERM);
	cr_assert_eq(weka_undrain(root, DRIVE), -EALREADY);
	cr_assert_eq(weka_drain(root, "none"), -ENODEV);
	super = connect_as("super", 6);
	cr_assert_eq(weka_drain(super, DRIVE), -EPERM);
	cr_assert_eq(weka_undrain(super, DRIVE), -EALREADY);
	cr_assert_eq(weka_protect(super, "mirror"), -EPERM);
	cr_assert_eq(weka_protect(super, "8+2"), -EINVAL);
	weka_close(super);
	end();
}

/* As POSIX has it: modes and owners do not count for root, and what he makes is whose he says. */
Test(app_rights, uid_0_may_what_a_key_without_a_user_may, .timeout = 60)
{
	const struct weka_setattr set = { .mask = WEKA_SET_UID | WEKA_SET_MODE, .uid = 7 };
	struct weka_ref ref = weka_ref_path("/secret");
	struct weka_client *super, *ann;

	begin();
	super = connect_as("super", 6);
	ann = connect_as("ann", 5);
	cr_assert_eq(weka_setattr(super, &ref, &set), 0);
	reads(super, "/secret", "top");
	cr_assert_eq(stat_of(super, "/secret"), 0);
	cr_assert_eq(attr.uid, 7);
	cr_assert_eq(weka_setattr(ann, &ref, &set), -EPERM);
	cr_assert_eq(weka_mkdir(super, "/tree", 0), 0);
	cr_assert_eq(weka_write_file(super, "/tree/x", "x", 1, NULL), 0);
	cr_assert_eq(weka_rmtree(ann, "/tree"), -EPERM);
	cr_assert_eq(weka_rmtree(super, "/tree"), 0);
	weka_close(ann);
	weka_close(super);
	end();
}
