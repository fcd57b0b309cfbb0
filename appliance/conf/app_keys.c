/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The daemon's keys: read at start, and again whenever their directory changes.
 *
 *   inotify --> every file again --+--> new or changed: fab_server_key_set()
 *                                  +--> gone, or bad: fab_server_key_remove()
 *
 * So removing a file revokes its key, and wekactl needs no connection to the daemon.
 *
 * Invariants:
 *  (1) A key is valid only if it is in a file that nobody but root or we can read or change, except
 *      for the anonymous one, which the configuration names, and root's, which is good for root
 *      only
 *      [test_app_keys:what_others_can_read_is_refused,
 *      test_app_keys:what_somebody_else_owns_is_refused].
 *  (2) Secrets are in k->grant, in the fabric's table, and, during app_key_read(), on the
 *      stack; nowhere else.
 *  (3) When in doubt no client is admitted: a directory that cannot be read has no keys
 *      [test_app_keys:without_its_directory_nobody_gets_in].
 */
#define _GNU_SOURCE
#include "appliance/conf/app_keys.h"
#include "appliance/conf/app_conf.h"
#include "base/log.h"
#include "base/num.h"
#include "base/secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_NS UINT64_C(1000000000) /* between checks of a directory that is not there */

/* ---- one file ------------------------------------------------------------------------------ */

static int safe(int fd, mode_t type, const char **what)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_mode & S_IFMT) != type) {
		*what = type == S_IFDIR ? "not a directory" : "not a regular file";
		return -EINVAL;
	}
	if ((st.st_mode & 077) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()))
		return 0;
	*what = type == S_IFDIR ? "others may read it (chmod 700, owned by us or root)"
				: "not private to its owner (chmod 600, owned by us or root)";
	return -EACCES;
}

static int read_text(int fd, char *out, size_t out_size, size_t *bytes)
{
	for (*bytes = 0; *bytes < out_size;) {
		ssize_t n = read(fd, out + *bytes, out_size - *bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		*bytes += n > 0 ? (size_t)n : 0;
	}
	return -EFBIG;
}

int app_key_read(struct fab_grant *out, const char *dir, const char *id, char *why)
{
	char text[APP_KEY_FILE_MAX], path[APP_CONF_TEXT_MAX + 64], bad[APP_KEY_WHY];
	const char *what = NULL;
	size_t bytes;
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s" APP_KEY_SUFFIX, dir, id);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	err = fd < 0 ? -errno : safe(fd, S_IFREG, &what);
	if (!err)
		err = read_text(fd, text, sizeof(text), &bytes);
	if (!err) {
		err = app_key_parse(out, id, text, bytes, bad);
		what = bad;
	}
	secret_wipe(text, sizeof(text));
	if (fd >= 0)
		close(fd);
	if (err == -EACCES && !what)
		snprintf(why, APP_KEY_WHY,
			 "%.220s: the daemon's user may not read it; type: chown %u %.220s", path,
			 geteuid(), path);
	else if (err)
		snprintf(why, APP_KEY_WHY, "%.250s: %.250s", path, what ? what : strerror(-err));
	return err;
}

/* ---- the directory --------------------------------------------------------------------------- */

/* Its next file that is a key's.  1, or 0 at the end. */
static int next_id(DIR *d, char id[FAB_KEY_ID_MAX + 1])
{
	const struct dirent *e;

	while ((e = readdir(d)))
		if (app_key_id_of(e->d_name, id))
			return 1;
	return 0;
}

static int dir_open(const char *path, DIR **out, char *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY), err;
	const char *what = NULL;

	err = fd < 0 ? -errno : safe(fd, S_IFDIR, &what);
	if (!err) {
		*out = fdopendir(fd);
		err = *out ? 0 : -errno;
	}
	if (err == -EACCES && !what)
		snprintf(why, APP_KEY_WHY,
			 "key_dir: %.200s: the daemon's user may not read it; type: chown -R %u "
			 "%.200s",
			 path, geteuid(), path);
	else if (err)
		snprintf(why, APP_KEY_WHY, "key_dir: %s: %s", path, what ? what : strerror(-err));
	if (err && fd >= 0)
		close(fd);
	return err;
}

static const char *access_text(const struct fab_rights *r)
{
	return r->may_write ? "write" : "read";
}

/* Describes the user as the store sees it: app_who_of(). */
static const char *user_text(const struct fab_rights *r)
{
	if (!r->has_uid)
		return "";
	return r->uid ? ", as modes and owners allow its user"
		      : ", as uid 0: modes and owners do not count";
}

/* Is nothing of the key that was read before left? */
static bool is_wiped(const struct fab_grant *g)
{
	static const uint8_t none[FAB_KEY_BYTES];

	return memcmp(g->key.secret, none, sizeof(none)) == 0 &&
	       memcmp(g->handle_secret, none, sizeof(none)) == 0;
}

/* Read and set one.  `why` is for the caller to tell. */
static int take(struct app_keys *k, const char *id, char *why)
{
	int err;

	ASSERT(is_wiped(k->grant) && id[0]); /* (2) */
	err = app_key_read(k->grant, k->conf->key_dir, id, why);
	if (!err && k->conf->key_file[0] && strcmp(id, k->conf->key_id) == 0) {
		snprintf(why, APP_KEY_WHY, "%s: the key of key_file has this id too", id);
		err = -EEXIST;
	}
	if (!err) {
		err = fab_server_key_set(k->srv, k->grant);
		if (err == -ENOSPC)
			snprintf(why, APP_KEY_WHY, "%s: more keys than keys_max", id);
		if (err > 0 && !k->quiet)
			log_info("key %s: may %s %s%s", id, access_text(&k->grant->rights),
				 k->grant->rights.subtree[0] ? k->grant->rights.subtree : "/",
				 user_text(&k->grant->rights));
	}
	secret_wipe(k->grant, sizeof(*k->grant));
	return err < 0 ? err : 0;
}

static bool is_seen(const struct app_keys *k, const char *id)
{
	for (uint32_t i = 0; i < k->seen_count; i++)
		if (strcmp(k->seen[i], id) == 0)
			return true;
	return false;
}

/* Not of the directory's. */
static bool is_fixed(const struct app_keys *k, const char *id)
{
	return app_key_id_reserved(id) ||
	       (k->conf->key_file[0] && strcmp(id, k->conf->key_id) == 0);
}

static void remove_unseen(struct app_keys *k)
{
	char id[FAB_KEY_ID_MAX + 1];
	const char *at;
	uint32_t i = 0;

	while ((at = fab_server_key_id(k->srv, i)) != NULL) {
		if (is_fixed(k, at) || is_seen(k, at)) {
			i++;
			continue;
		}
		snprintf(id, sizeof(id), "%s", at);
		log_info("key %s: revoked; %d sessions end", id, fab_server_key_remove(k->srv, id));
	}
}

/* Every file; at start the first that is bad ends it, later it is a key that is not there. */
static int read_all(struct app_keys *k, bool starting, char *why)
{
	DIR *d = NULL;
	int err = dir_open(k->conf->key_dir, &d, why);

	k->seen_count = 0;
	while (!err && k->seen_count < APP_KEYS_MAX && next_id(d, k->seen[k->seen_count])) {
		err = take(k, k->seen[k->seen_count], why);
		if (!err)
			k->seen_count++;
		else if (!starting)
			log_error("WEKA-404: %s: it lets nobody in", why);
		err = starting ? err : 0;
	}
	if (d)
		closedir(d);
	return err;
}

static void watch(struct app_keys *k, uint64_t now_ns)
{
	const uint32_t what = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB |
			      IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

	k->watched = inotify_add_watch(k->inotify_fd, k->conf->key_dir, what) >= 0;
	k->retry_ns = now_ns + RETRY_NS;
}

void app_keys_reload(struct app_keys *k, uint64_t now_ns)
{
	bool was_watched = k->watched;
	char why[APP_KEY_WHY];

	if (k->inotify_fd < 0)
		return;
	watch(k, now_ns); /* before it is read: what changes from now on is seen again */
	if (read_all(k, false, why) && was_watched)
		log_error("WEKA-405: %s: its keys let nobody in", why); /* (3) */
	remove_unseen(k);
}

/* ---- start, step, stop ---------------------------------------------------------------------- */

static int key_file_take(struct app_keys *k, char *why)
{
	int err;

	ASSERT(is_wiped(k->grant) && k->conf->key_file[0]); /* (2) */
	*k->grant = (struct fab_grant){ .rights.may_write = true };
	err = app_conf_read_key(k->conf, k->grant->key.secret, why); /* which may name its id */
	if (!err) {
		snprintf(k->grant->key.id, sizeof(k->grant->key.id), "%.31s", k->conf->key_id);
		err = fab_server_key_set(k->srv, k->grant);
	}
	secret_wipe(k->grant, sizeof(*k->grant));
	return err < 0 ? err : 0;
}

/* The key that everybody has: zeros. */
static int anonymous_take(struct app_keys *k)
{
	struct fab_grant g = { .key.id = FAB_KEY_ANONYMOUS };
	int err;

	if (!app_conf_anonymous(k->conf, &g.rights))
		return 0;
	ASSERT(getrandom(g.handle_secret, FAB_KEY_BYTES, 0) == FAB_KEY_BYTES);
	err = fab_server_key_set(k->srv, &g);
	secret_wipe(g.handle_secret, sizeof(g.handle_secret));
	if (!k->quiet)
		log_warn("WEKA-406: anyone %s may %s %s without a key",
			 g.rights.peer == FAB_PEER_LOCAL ? "on this machine" : "at all",
			 access_text(&g.rights), g.rights.subtree[0] ? g.rights.subtree : "/");
	return err < 0 ? err : 0;
}

/* Root on this machine could read every key, and gets in without one; so does our own user. */
static int root_take(struct app_keys *k)
{
	const struct fab_grant g = {
		.key.id = FAB_KEY_ROOT,
		.rights = { .may_write = true, .peer = FAB_PEER_OWNER },
	};
	int err = fab_server_key_set(k->srv, &g);

	return err < 0 ? err : 0;
}

static int begin(struct app_keys *k, struct app_conf *conf, struct fab_server *srv)
{
	const bool quiet = k->quiet;
	void *memory;

	*k = (struct app_keys){ .conf = conf, .srv = srv, .inotify_fd = -1, .quiet = quiet };
	if (secret_create(sizeof(*k->grant), &memory, NULL))
		return -ENOMEM;
	k->grant = memory;
	k->seen = calloc(APP_KEYS_MAX, sizeof(*k->seen));
	return k->seen ? 0 : -ENOMEM;
}

int app_keys_start(struct app_keys *k, struct app_conf *conf, struct fab_server *srv, char *why)
{
	int err = begin(k, conf, srv);

	snprintf(why, APP_KEY_WHY, "keys: %s", strerror(-err));
	if (!err && conf->key_file[0])
		err = key_file_take(k, why);
	if (!err)
		err = anonymous_take(k);
	if (!err)
		err = root_take(k);
	if (err || !conf->key_dir[0])
		return err;
	k->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (k->inotify_fd < 0) {
		snprintf(why, APP_KEY_WHY, "inotify: %s", strerror(errno));
		return -errno;
	}
	watch(k, 0);
	return read_all(k, true, why);
}

uid_t app_keys_as_owner(const char *path)
{
	const uid_t was = geteuid();
	struct stat st;

	/* If it fails the files are read as root, and refused with a line. */
	if (was == 0 && stat(path, &st) == 0 && st.st_uid != 0)
		(void)!seteuid(st.st_uid);
	return was;
}

void app_keys_as_before(uid_t was)
{
	if (geteuid() != was) {
		int err = seteuid(was);

		ASSERT(err == 0);
	}
}

int app_keys_check(struct app_conf *conf, char *why)
{
	const struct fab_server_cfg cfg = { .sessions_max = 1,
					    .keys_max = (uint32_t)conf->keys_max + 1 };
	struct fab_server *srv;
	struct app_keys k = { .quiet = true };
	int err = fab_server_create(&srv, &cfg); /* which listens nowhere */

	if (err) {
		snprintf(why, APP_KEY_WHY, "keys: %s", strerror(-err));
		return err;
	}
	err = app_keys_start(&k, conf, srv, why);
	app_keys_stop(&k);
	fab_server_destroy(srv);
	return err;
}

void app_keys_stop(struct app_keys *k)
{
	if (k->inotify_fd >= 0)
		close(k->inotify_fd);
	secret_destroy(k->grant, sizeof(*k->grant));
	free(k->seen);
	*k = (struct app_keys){ .inotify_fd = -1 };
}

void app_keys_step(struct app_keys *k, uint64_t now_ns)
{
	_Alignas(struct inotify_event) char events[4096];
	bool changed = false;

	if (k->inotify_fd < 0)
		return;
	while (read(k->inotify_fd, events, sizeof(events)) > 0)
		changed = true;
	if (changed || (!k->watched && now_ns >= k->retry_ns))
		app_keys_reload(k, now_ns);
}

int app_keys_fd(const struct app_keys *k)
{
	return k->inotify_fd;
}

uint64_t app_keys_deadline(const struct app_keys *k)
{
	return k->inotify_fd >= 0 && !k->watched ? k->retry_ns : UINT64_MAX;
}
