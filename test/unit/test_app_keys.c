/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Files of keys: what one may hold, who may read it, and that a change is noticed. */
#include "appliance/conf/app_conf.h"
#include "appliance/conf/app_keys.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS  "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
#define SECRET  "secret = " DIGITS "\n"
#define HANDLES "handles = " DIGITS "\n"

static char why[APP_KEY_WHY];
static struct fab_grant grant;

static int parse(const char *text)
{
	return app_key_parse(&grant, "alice", text, strlen(text), why);
}

Test(app_keys, a_file_says_secret_and_rights)
{
	cr_assert_eq(parse("# alice's\n" SECRET "  path = //team/a/\n" HANDLES
			   "rights=write\r\nops = 10K\nbytes = 100M"),
		     0, "%s", why);
	cr_assert_str_eq(grant.key.id, "alice");
	cr_assert_eq(grant.key.secret[1], 0x11);
	cr_assert_eq(grant.key.secret[31], 0xff);
	cr_assert_eq(grant.handle_secret[15], 0xff);
	cr_assert_str_eq(grant.rights.subtree, "/team/a");
	cr_assert(grant.rights.may_write);
	cr_assert_eq(grant.rights.ops_per_s, 10240);
	cr_assert_eq(grant.rights.bytes_per_s, 100 << 20);
}

Test(app_keys, a_file_says_whose_files_it_is_for)
{
	cr_assert_eq(parse(SECRET HANDLES "uid = 1000\ngids = 100 ,7,\t4294967294\n"), 0, "%s",
		     why);
	cr_assert(grant.rights.has_uid);
	cr_assert_eq(grant.rights.uid, 1000);
	cr_assert_eq(grant.rights.gids, 3);
	cr_assert_eq(grant.rights.gid[0], 100);
	cr_assert_eq(grant.rights.gid[1], 7);
	cr_assert_eq(grant.rights.gid[2], 4294967294u);
	cr_assert_eq(parse(SECRET HANDLES "gids = 0\nuid = 0\n"), 0, "%s", why);
	cr_assert(grant.rights.has_uid);
	cr_assert_eq(parse(SECRET HANDLES "uid = 1\ngids = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"),
		     0);
	cr_assert_eq(grant.rights.gids, FAB_GROUPS_MAX);
}

Test(app_keys, what_is_not_said_is_the_least)
{
	cr_assert_eq(parse(SECRET), 0, "%s", why);
	cr_assert(!grant.rights.may_write);
	cr_assert_str_eq(grant.rights.subtree, "");
	cr_assert_eq(grant.rights.ops_per_s, 0);
	cr_assert_not(grant.rights.has_uid);
}

Test(app_keys, what_was_printed_is_read_as_the_same)
{
	struct fab_grant was;
	char text[APP_KEY_TEXT_SIZE];

	cr_assert_eq(parse(SECRET HANDLES "path = /team/a\nrights = write\nops = 7\nbytes = 9\n"
					  "uid = 1000\ngids = 100,101\n"),
		     0);
	was = grant;
	cr_assert_eq(app_key_parse(&grant, "alice", text, app_key_print(&was, text), why), 0);
	cr_assert_eq(memcmp(&was, &grant, sizeof(was)), 0);
}

static const struct {
	const char *text, *why;
} bad[] = {
	{ "", "secret: not given" },
	{ "secret = 0011\n", "line 1: secret: 64 hexadecimal digits" },
	{ "secret = " DIGITS "0\n", "line 1: secret: 64 hexadecimal digits" },
	{ "\nsecret = g0112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n",
	  "line 2: secret" },
	{ SECRET SECRET, "line 2: secret: given before" },
	{ SECRET "path = /a\n", "handles: not given" },
	{ SECRET HANDLES "path = a\n", "line 3: path" },
	{ SECRET HANDLES "path = /a/../b\n", "line 3: path" },
	{ SECRET HANDLES "path = /a /\n", "line 3: path" },
	{ SECRET HANDLES "path = /a\001b\n", "line 3: path" },
	{ SECRET HANDLES "path = /a/.\n", "line 3: path" },
	{ SECRET "rights = admin\n", "line 2: rights: read or write" },
	{ SECRET "rights = \n", "line 2: rights: read or write" },
	{ SECRET "ops = -1\n", "line 2: ops" },
	{ SECRET "bytes = 7 parsecs\n", "line 2: bytes" },
	{ SECRET HANDLES "uid = 7\n", "uid and gids: both, or neither" },
	{ SECRET HANDLES "gids = 7\n", "uid and gids: both, or neither" },
	{ SECRET "uid = 7\ngids = 7\n", "handles: not given" },
	{ SECRET HANDLES "uid = -1\n", "line 3: uid: a number" },
	{ SECRET HANDLES "uid = alice\n", "line 3: uid: a number" },
	{ SECRET HANDLES "uid = \n", "line 3: uid: a number" },
	{ SECRET HANDLES "uid = 4294967295\n", "line 3: uid: a number" },
	{ SECRET HANDLES "uid = 10000000000000\n", "line 3: uid: a number" },
	{ SECRET HANDLES "gids = 1,,2\n", "line 3: gids: 1 to 16" },
	{ SECRET HANDLES "gids = 1,2,\n", "line 3: gids: 1 to 16" },
	{ SECRET HANDLES "gids = 1 2\n", "line 3: gids: 1 to 16" },
	{ SECRET HANDLES "gids = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n",
	  "line 3: gids: 1 to 16" },
	{ SECRET "colour = red\n", "line 2: unknown name" },
	{ SECRET "nonsense\n", "line 2: not of the form" },
};

Test(app_keys, nonsense_is_named_with_its_line_and_without_its_value)
{
	for (uint32_t i = 0; i < ARRAY_LEN(bad); i++) {
		cr_assert_eq(parse(bad[i].text), -EINVAL, "%s", bad[i].text);
		cr_assert_not_null(strstr(why, bad[i].why), "%s: %s", bad[i].text, why);
		cr_assert_null(strstr(why, "0011"), "%s", why);
	}
	cr_assert_eq(app_key_parse(&grant, "alice", "secret\0 = x", 11, why), -EINVAL);
	cr_assert_eq(app_key_parse(&grant, "a b", SECRET, strlen(SECRET), why), -EINVAL);
}

Test(app_keys, names_of_files_are_ids_or_not)
{
	static const char *const none[] = {
		".key",          "alice",   "alice.key~",
		".alice.new",    "-rf.key", "a b.key",
		"anonymous.key", "a:b.key", "x234567890123456789012345678901x.key"
	};
	char id[FAB_KEY_ID_MAX + 1];

	cr_assert(app_key_id_of("alice.key", id));
	cr_assert_str_eq(id, "alice");
	cr_assert(app_key_id_of("a.b@c.key", id));
	for (uint32_t i = 0; i < ARRAY_LEN(none); i++)
		cr_assert(!app_key_id_of(none[i], id), "%s", none[i]);
}

/* ---- a directory ------------------------------------------------------------------------ */

static struct app_conf conf;
static struct fab_server *srv;
static struct app_keys keys;
static char dir[64];
static uint64_t now_ns = 1;

static void put(const char *name, const char *text, mode_t mode)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
	cr_assert_eq(chmod(path, mode), 0);
}

static void drop(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(unlink(path), 0);
}

static void begin(void)
{
	struct fab_server_cfg cfg = { .sessions_max = 1 };

	snprintf(dir, sizeof(dir), "/tmp/test_app_keys.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	app_conf_defaults(&conf);
	snprintf(conf.key_dir, sizeof(conf.key_dir), "%s", dir);
	cr_assert_eq(fab_server_create(&srv, &cfg), 0);
}

static int start(void)
{
	return app_keys_start(&keys, &conf, srv, why);
}

static void end(void)
{
	char command[128];

	app_keys_stop(&keys);
	fab_server_destroy(srv);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_assert_eq(system(command), 0);
}

static bool has(const char *id)
{
	uint8_t secret[FAB_KEY_BYTES];

	return fab_server_key_secret(srv, id, secret) == 0;
}

static void step(void)
{
	now_ns += 2000000000;
	app_keys_step(&keys, now_ns);
}

Test(app_keys, every_file_is_a_key)
{
	begin();
	put("alice.key", SECRET, 0600);
	put("bob.key", SECRET HANDLES "path = /b\n", 0400);
	put("README", "no key", 0644);
	cr_assert_eq(start(), 0, "%s", why);
	cr_assert(has("alice") && has("bob"));
	cr_assert(has(FAB_KEY_ROOT));
	cr_assert_null(fab_server_key_id(srv, 3));
	end();
}

Test(app_keys, what_others_can_read_is_refused)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0601, 0666 };

	begin();
	for (uint32_t i = 0; i < ARRAY_LEN(modes); i++) {
		put("alice.key", SECRET, modes[i]);
		cr_assert_eq(start(), -EACCES, "%o", modes[i]);
		cr_assert_not_null(strstr(why, "alice.key: not private to its owner"), "%s", why);
		app_keys_stop(&keys);
	}
	put("alice.key", SECRET, 0600);
	cr_assert_eq(chmod(dir, 0755), 0);
	cr_assert_eq(start(), -EACCES);
	cr_assert_not_null(strstr(why, "others may read it"), "%s", why);
	end();
}

Test(app_keys, what_somebody_else_owns_is_refused)
{
	char path[128];

	if (geteuid() != 0)
		cr_skip_test("needs root to give a file away");
	begin();
	put("alice.key", SECRET, 0600);
	snprintf(path, sizeof(path), "%s/alice.key", dir);
	cr_assert_eq(chown(path, 12345, 12345), 0);
	cr_assert_eq(start(), -EACCES);
	end();
}

Test(app_keys, links_and_directories_are_no_keys)
{
	char from[128], to[128];

	begin();
	put("real", SECRET, 0600);
	snprintf(from, sizeof(from), "%s/real", dir);
	snprintf(to, sizeof(to), "%s/alice.key", dir);
	cr_assert_eq(symlink(from, to), 0);
	cr_assert_eq(start(), -ELOOP);
	app_keys_stop(&keys);
	cr_assert_eq(unlink(to), 0);
	cr_assert_eq(mkdir(to, 0700), 0);
	cr_assert_eq(start(), -EINVAL);
	end();
}

Test(app_keys, changes_are_noticed_when_they_happen)
{
	begin();
	put("alice.key", SECRET, 0600);
	cr_assert_eq(start(), 0, "%s", why);
	put("bob.key", SECRET, 0600);
	step();
	cr_assert(has("alice") && has("bob"));
	drop("alice.key");
	step();
	cr_assert(!has("alice") && has("bob"));
	put("bob.key", "secret = 12\n", 0600); /* a bad file is no key */
	step();
	cr_assert(!has("bob"));
	put("bob.key", SECRET, 0600);
	step();
	cr_assert(has("bob"));
	put("bob.key", SECRET, 0644); /* as soon as others can read it */
	step();
	cr_assert(!has("bob"));
	end();
}

/* It goes away as a whole, and another comes. */
Test(app_keys, without_its_directory_nobody_gets_in)
{
	char moved[128];

	begin();
	put("alice.key", SECRET, 0600);
	cr_assert_eq(start(), 0, "%s", why);
	snprintf(moved, sizeof(moved), "%s.old", dir);
	cr_assert_eq(rename(dir, moved), 0);
	step();
	cr_assert(!has("alice"));
	cr_assert_leq(app_keys_deadline(&keys), now_ns + 1000000000);
	cr_assert_eq(mkdir(dir, 0700), 0);
	put("bob.key", SECRET, 0600);
	step();
	cr_assert(has("bob"));
	cr_assert_eq(app_keys_deadline(&keys), UINT64_MAX);
	drop("bob.key"); /* and this one is watched */
	step();
	cr_assert(!has("bob"));
	cr_assert_eq(rename(moved, dir), 0);
	step();
	cr_assert(has("alice"));
	end();
}

Test(app_keys, nobody_comes_without_a_key_unless_it_says_so)
{
	begin();
	cr_assert_eq(start(), 0, "%s", why);
	cr_assert(!has(FAB_KEY_ANONYMOUS));
	app_keys_stop(&keys);
	snprintf(conf.anonymous, sizeof(conf.anonymous), "read:/public");
	cr_assert_eq(start(), 0, "%s", why);
	cr_assert(has(FAB_KEY_ANONYMOUS));
	put("alice.key", SECRET, 0600);
	step(); /* it is not the directory's */
	cr_assert(has(FAB_KEY_ANONYMOUS));
	end();
}

Test(app_keys, root_has_a_place_even_if_keys_take_all_of_theirs)
{
	begin();
	put("@root.key", SECRET, 0600); /* no key may have this id */
	cr_assert_eq(start(), 0, "%s", why);
	cr_assert(has(FAB_KEY_ROOT));
	put("alice.key", SECRET, 0600);
	step(); /* it is not the directory's */
	cr_assert(has(FAB_KEY_ROOT) && has("alice"));
	conf.keys_max = 1;
	cr_assert_eq(app_keys_check(&conf, why), 0, "%s", why);
	end();
}

Test(app_keys, two_keys_of_one_id_are_refused)
{
	char path[160];

	begin();
	put("weka.key", SECRET, 0600);
	put("one", DIGITS "\n", 0600);
	snprintf(path, sizeof(path), "%s/one", dir);
	snprintf(conf.key_file, sizeof(conf.key_file), "%s", path);
	cr_assert_eq(start(), -EEXIST);
	cr_assert_not_null(strstr(why, "weka: the key of key_file has this id"), "%s", why);
	end();
}
