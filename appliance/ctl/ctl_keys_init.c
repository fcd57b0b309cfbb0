/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl keys init: the key of key_file, which may do everything.
 *
 * The daemon accepts a key only from a file that only its owner can read, and that owner must be
 * root or the daemon's own user.  The service does not run as root, so the file is made for the
 * service's user.
 */
#define _GNU_SOURCE
#include "appliance/conf/app_conf.h"
#include "appliance/conf/app_keys.h"
#include "appliance/ctl/ctl_keys.h"
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

int ctl_keys_owner(const char *user, struct ctl_owner *out)
{
	const bool asked = user != NULL;
	const struct passwd *pw;

	if (!user && geteuid() == 0)
		user = CTL_SERVICE_USER;
	pw = user ? getpwnam(user) : getpwuid(geteuid());
	if (asked && !pw)
		return ctl_fail("--user %s: there is no such user", user);
	out->uid = pw ? pw->pw_uid : geteuid();
	out->gid = pw ? pw->pw_gid : getegid();
	if (pw)
		snprintf(out->name, sizeof(out->name), "%s", pw->pw_name);
	else
		snprintf(out->name, sizeof(out->name), geteuid() ? "%u" : "root", geteuid());
	return 0;
}

int ctl_key_file_make(const char *path, const char *text, size_t bytes, uid_t uid, gid_t gid)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t wrote;
	int err = 0;

	if (fd < 0)
		return -errno;
	wrote = write(fd, text, bytes);
	if (wrote != (ssize_t)bytes)
		err = wrote < 0 ? -errno : -EIO;
	if (!err && (uid != geteuid() || gid != getegid()) && fchown(fd, uid, gid))
		err = -errno;
	if (!err && (fchmod(fd, 0600) || fsync(fd)))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (err)
		unlink(path);
	return err;
}

int ctl_keys_dir_sync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

/* Writes "ID:DIGITS" and a newline.  Returns its bytes; 0 if the kernel has no random bytes. */
static size_t key_text(const char *id, char *out, size_t size)
{
	uint8_t secret[FAB_KEY_BYTES];
	size_t at = (size_t)snprintf(out, size, "%s:", id);

	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return 0;
	for (size_t i = 0; i < sizeof(secret); i++)
		at += (size_t)snprintf(out + at, size - at, "%02x", secret[i]);
	secret_wipe(secret, sizeof(secret));
	ASSERT(at + 1 < size);
	out[at++] = '\n';
	return at;
}

/* Finds the file and the id in the configuration. */
static int from_config(struct ctl *c, struct app_conf *conf)
{
	const char *file = c->config ? c->config : CTL_CONFIG_DEFAULT;
	char why[APP_CONF_WHY];

	if (app_conf_load(conf, file, why))
		return ctl_fail("%s (or name the key file: wekactl keys init FILE)", why);
	if (!conf->key_file[0])
		return ctl_fail("%s: it has no key_file, only key_dir: type: wekactl keys --write "
				"add ID FILE",
				file);
	return 0;
}

static void tell(const struct ctl *c, const char *path, const char *id,
		 const struct ctl_owner *owner, bool configured)
{
	const char *with = c->config ? " --config " : "", *conf = c->config ? c->config : "";

	if (c->quiet)
		return;
	printf("%s: has the key \"%s\", with mode 600 and owner %s; it may do everything\nNext:\n",
	       path, id, owner->name);
	if (!configured)
		printf("  put this line into the daemon's configuration:\n      key_file = %s\n",
		       path);
	printf("  make an empty store on its drives:    wekactl%s%s format\n", with, conf);
	if (c->config)
		printf("  start the daemon:                     weka-appliance%s%s\n", with, conf);
	else
		printf("  start the daemon:                     systemctl start weka-appliance\n");
	printf("  check it:                             wekactl%s%s status\n", with, conf);
	fputs("  give a copy of the file to each client, readable by its user only, for\n"
	      "  wekactl --key FILE and weka_connect().  Keys with fewer rights: wekactl keys "
	      "add\n",
	      stdout);
}

static int init(struct ctl *c, struct app_conf *conf)
{
	const bool configured = c->argc == 1;
	char text[256], dir[APP_CONF_TEXT_MAX];
	struct ctl_owner owner = { 0 };
	const char *path, *id, *slash;
	size_t bytes;
	int err;

	if (configured && from_config(c, conf))
		return 1;
	path = configured ? conf->key_file : c->argv[1];
	id = c->key_id ? c->key_id : configured ? conf->key_id : "weka";
	if (!app_key_id_good(id))
		return ctl_fail("'%s' is not a valid key id", id);
	if (ctl_keys_owner(c->user, &owner))
		return 1;
	bytes = key_text(id, text, sizeof(text));
	if (!bytes)
		return ctl_fail("no key was made: the kernel returned no random bytes");
	err = ctl_key_file_make(path, text, bytes, owner.uid, owner.gid);
	secret_wipe(text, sizeof(text));
	slash = strrchr(path, '/');
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	if (!err)
		err = ctl_keys_dir_sync(dir);
	if (err == -EEXIST)
		return ctl_fail(
			"%s: exists already and was not changed; clients that have this key need "
			"it.  For a new key remove the file first",
			path);
	if (err)
		return ctl_fail("%s: %s", path, strerror(-err));
	tell(c, path, id, &owner, configured);
	return 0;
}

int ctl_keys_init(struct ctl *c)
{
	struct app_conf *conf = ctl_need(malloc(sizeof(*conf)));
	int status;

	app_conf_defaults(conf);
	status = init(c, conf);
	free(conf);
	return status;
}
