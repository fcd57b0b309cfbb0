/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl keys: manages the key files.
 *
 *   init [FILE]     --> key_file         the first key: ctl_keys_init.c
 *   add ID FILE     --> key_dir/ID.key   secret, rights: the appliance's
 *                   --> FILE             ID:secret: for the client
 *   remove ID       removes the file; a running appliance notices, and ends the key's sessions
 *
 * A secret is never printed, never an argument, and in no file before its permissions are right.
 */
#define _GNU_SOURCE
#include "appliance/conf/app_conf.h"
#include "appliance/conf/app_keys.h"
#include "appliance/ctl/ctl_keys.h"
#include "base/num.h"
#include "base/secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct keys {
	struct ctl *c;
	char dir[APP_CONF_TEXT_MAX];
};

static int dir_find(struct keys *k)
{
	const char *file = k->c->config ? k->c->config : CTL_CONFIG_DEFAULT;
	struct app_conf *conf = malloc(sizeof(*conf));
	char why[APP_CONF_WHY];
	int err;

	ASSERT(conf);
	err = app_conf_load(conf, file, why);
	if (!err)
		snprintf(k->dir, sizeof(k->dir), "%s", conf->key_dir);
	free(conf);
	if (err)
		return ctl_fail("%s", why);
	return k->dir[0] ? 0
			 : ctl_fail("%s: no key_dir is configured; the first key, which needs "
				    "none: wekactl keys init",
				    file);
}

/* ---- list, show ---------------------------------------------------------------------------- */

static void print_text(const struct fab_grant *g, const char *why)
{
	char ops[32] = "-", bytes[32] = "-", uid[32] = "-";
	const struct fab_rights *r = &g->rights;

	if (why) {
		printf("%-20s BAD: %s\n", g->key.id, why);
		return;
	}
	if (r->ops_per_s)
		snprintf(ops, sizeof(ops), "%llu", (unsigned long long)r->ops_per_s);
	if (r->has_uid)
		snprintf(uid, sizeof(uid), "%u", r->uid);
	if (r->bytes_per_s)
		snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)r->bytes_per_s);
	printf("%-20s %-5s ops/s %-10s bytes/s %-14s uid %-10s %s\n", g->key.id,
	       r->may_write ? "write" : "read", ops, bytes, uid, r->subtree[0] ? r->subtree : "/");
}

static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	}
	putchar('"');
}

static void print_user(const struct fab_rights *r)
{
	printf(",\"uid\":%u,\"gids\":[", r->uid);
	for (uint32_t i = 0; i < r->gids; i++)
		printf("%s%u", i ? "," : "", r->gid[i]);
	printf("]");
}

static void print_json(const struct fab_grant *g, const char *why)
{
	const struct fab_rights *r = &g->rights;

	printf("{\"id\":");
	print_quoted(g->key.id);
	if (why) {
		printf(",\"bad\":");
		print_quoted(why);
	} else {
		printf(",\"rights\":\"%s\",\"path\":", r->may_write ? "write" : "read");
		print_quoted(r->subtree[0] ? r->subtree : "/");
		printf(",\"ops_per_s\":%llu,\"bytes_per_s\":%llu", (unsigned long long)r->ops_per_s,
		       (unsigned long long)r->bytes_per_s);
		if (r->has_uid)
			print_user(r);
	}
	printf("}\n");
}

static int show(struct keys *k, const char *id)
{
	struct fab_grant g;
	char why[APP_KEY_WHY];
	const uid_t was = app_keys_as_owner(k->dir);
	int err = app_key_read(&g, k->dir, id, why);

	app_keys_as_before(was);
	secret_wipe(g.key.secret, sizeof(g.key.secret));
	secret_wipe(g.handle_secret, sizeof(g.handle_secret));
	if (err == -ENOENT)
		return ctl_fail("%s", why);
	snprintf(g.key.id, sizeof(g.key.id), "%s", id);
	if (k->c->json)
		print_json(&g, err ? why : NULL);
	else
		print_text(&g, err ? why : NULL);
	return err != 0;
}

static int key_files(const struct dirent *e)
{
	char id[FAB_KEY_ID_MAX + 1];

	return app_key_id_of(e->d_name, id);
}

static int list(struct keys *k)
{
	struct dirent **found;
	char id[FAB_KEY_ID_MAX + 1];
	int status = 0, count = scandir(k->dir, &found, key_files, alphasort);

	if (count < 0)
		return ctl_fail("%s: %s", k->dir, strerror(errno));
	for (int i = 0; i < count; i++) {
		if (app_key_id_of(found[i]->d_name, id))
			status |= show(k, id);
		free(found[i]);
	}
	free(found);
	return status;
}

/* ---- add, remove ----------------------------------------------------------------------------- */

/* "ID:SECRET" for the client. */
static size_t client_text(const struct fab_grant *g, char *out)
{
	size_t bytes = strlen(g->key.id), digits = 2 * (size_t)FAB_KEY_BYTES;
	char all[APP_KEY_TEXT_SIZE];

	(void)app_key_print(g, all); /* "secret = DIGITS\n..." */
	memcpy(out, g->key.id, bytes);
	out[bytes++] = ':';
	memcpy(out + bytes, strchr(all, '=') + 2, digits);
	secret_wipe(all, sizeof(all));
	out[bytes + digits] = '\n';
	return bytes + digits + 1;
}

/* The daemon reads the files of its directory: they belong to the directory's owner. */
static int dir_owner(const char *dir, uid_t *uid, gid_t *gid)
{
	struct stat st;

	if (stat(dir, &st))
		return -errno;
	*uid = geteuid() == 0 ? st.st_uid : geteuid();
	*gid = geteuid() == 0 ? st.st_gid : getegid();
	return 0;
}

/* The client's file first: a key that nobody can use does no harm, one that is lost does. */
static int files_make(const struct keys *k, const struct fab_grant *g, const char *file)
{
	char text[APP_KEY_TEXT_SIZE], path[APP_CONF_TEXT_MAX + 64], fresh[APP_CONF_TEXT_MAX + 64];
	size_t bytes = client_text(g, text);
	int err = ctl_key_file_make(file, text, bytes, geteuid(), getegid());
	uid_t uid = 0;
	gid_t gid = 0;

	if (err) {
		secret_wipe(text, sizeof(text));
		return ctl_fail("%s: %s", file, strerror(-err));
	}
	snprintf(path, sizeof(path), "%s/%s" APP_KEY_SUFFIX, k->dir, g->key.id);
	snprintf(fresh, sizeof(fresh), "%s/.%s.new", k->dir, g->key.id);
	bytes = app_key_print(g, text);
	err = dir_owner(k->dir, &uid, &gid);
	if (!err)
		err = ctl_key_file_make(fresh, text, bytes, uid, gid);
	secret_wipe(text, sizeof(text));
	/* Never over one that is there: two that add the same id do not both succeed. */
	if (!err && renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE)) {
		err = -errno;
		unlink(fresh);
	}
	if (!err)
		err = ctl_keys_dir_sync(k->dir);
	if (!err)
		return 0;
	unlink(file);
	return ctl_fail("%s: %s", err == -EEXIST && access(path, F_OK) ? fresh : path,
			strerror(-err));
}

/* Makes the directory, for the user that the daemon runs as, if it is not there. */
static int make_dir(const struct keys *k)
{
	struct ctl_owner owner = { 0 };

	if (ctl_keys_owner(k->c->user, &owner))
		return 1;
	if (mkdir(k->dir, 0700))
		return errno == EEXIST ? 0 : ctl_fail("%s: %s", k->dir, strerror(errno));
	if (geteuid() == 0 && lchown(k->dir, owner.uid, owner.gid))
		return ctl_fail("%s: %s", k->dir, strerror(errno));
	return 0;
}

static int add(struct keys *k, const char *id, const char *file)
{
	const struct ctl *c = k->c;
	struct fab_grant g = { .rights = { .may_write = c->write,
					   .ops_per_s = c->ops_per_s,
					   .bytes_per_s = c->bytes_per_s } };
	const char *note = "";
	int status;

	if (!app_key_id_good(id))
		return ctl_fail(
			"'%s' is not an id: 1 to 31 printable characters, without / : \" \\, "
			"and not \"anonymous\" or \"@root\"",
			id);
	if (c->path && app_key_subtree(c->path, g.rights.subtree))
		return ctl_fail("--path %s: must be a path from the root, of at most 255 bytes, "
				"without \"..\", control characters, or a blank at its end",
				c->path);
	if ((c->uid || c->gids) &&
	    (!c->uid || !c->gids || app_key_user_parse(c->uid, c->gids, &g.rights)))
		return ctl_fail(
			"--uid and --gids: must be a number, and 1 to 16 numbers separated by "
			"commas, each below 4294967295");
	if (make_dir(k))
		return 1;
	if (g.rights.has_uid && g.rights.uid == 0)
		note = ": modes and owners do not count";
	memcpy(g.key.id, id, strlen(id));
	if (getrandom(g.key.secret, FAB_KEY_BYTES, 0) != FAB_KEY_BYTES ||
	    getrandom(g.handle_secret, FAB_KEY_BYTES, 0) != FAB_KEY_BYTES)
		return ctl_fail("no key was made: the kernel returned no random bytes");
	status = files_make(k, &g, file);
	secret_wipe(&g, sizeof(g));
	if (!status && !c->quiet)
		printf("%s may %s %s%s%s%s; carry %s to the client\n", id,
		       c->write ? "write" : "read", c->path ? c->path : "/",
		       c->uid ? " as uid " : "", c->uid ? c->uid : "", note, file);
	return status;
}

static int remove_key(struct keys *k, const char *id)
{
	char path[APP_CONF_TEXT_MAX + 64];
	int err;

	if (!app_key_id_good(id))
		return ctl_fail("'%s' is not the id of a key", id);
	snprintf(path, sizeof(path), "%s/%s" APP_KEY_SUFFIX, k->dir, id);
	if (unlink(path))
		return ctl_fail("%s: %s", path, strerror(errno));
	err = ctl_keys_dir_sync(k->dir);
	return err ? ctl_fail("%s: %s", k->dir, strerror(-err)) : 0;
}

static bool is_action(const struct ctl *c, const char *name, int argc)
{
	return c->argc == argc && strcmp(c->argv[0], name) == 0;
}

int ctl_cmd_keys(struct ctl *c)
{
	struct keys k = { .c = c };

	if (is_action(c, "init", 1) || is_action(c, "init", 2))
		return ctl_keys_init(c);
	if (c->argc > 0 && !is_action(c, "list", 1) && !is_action(c, "show", 2) &&
	    !is_action(c, "add", 3) && !is_action(c, "remove", 2))
		return ctl_fail("usage: wekactl keys [list], init [FILE], show ID, add ID FILE, "
				"remove ID") +
		       1;
	if (dir_find(&k))
		return 1;
	if (is_action(c, "add", 3))
		return add(&k, c->argv[1], c->argv[2]);
	if (is_action(c, "remove", 2))
		return remove_key(&k, c->argv[1]);
	if (is_action(c, "show", 2))
		return app_key_id_good(c->argv[1])
			       ? show(&k, c->argv[1])
			       : ctl_fail("'%s' is not the id of a key", c->argv[1]);
	return list(&k);
}
