/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's keys: a directory with a file for each, and notices of its changes.
 *
 *   /etc/weka/keys/ID.key     0600, ours or root's      secret = 64 hexadecimal digits
 *                                                       path = /team/a        (everything)
 *                                                       rights = write        (read)
 *                                                       handles = 64 digits   (with a path)
 *                                                       ops, bytes = a second (no limit)
 *                                                       uid = 1000, gids = 100, 101
 *                                                             (no owner or mode is checked)
 */
#ifndef APP_KEYS_H
#define APP_KEYS_H

#include "fabric/fab.h"

#include <stdint.h>
#include <sys/types.h>

#define APP_KEYS_MAX      4096u
#define APP_KEY_FILE_MAX  4096u /* bytes */
#define APP_KEY_WHY       512u
#define APP_KEY_SUFFIX    ".key"
#define APP_KEY_TEXT_SIZE 1024u /* enough for app_key_print() */

/**
 * app_key_parse - parse a key's file, `size_bytes` of `text`, into *out
 *
 * `id` is from the file's name.  On failure `why` (APP_KEY_WHY bytes) gets "line N: ...", without a
 * byte of any value that may be a secret.  The caller wipes both text and *out.
 *
 * Errors:  -EINVAL.
 */
must_check int app_key_parse(struct fab_grant *out, const char *id, const char *text,
			     size_t size_bytes, char *why);

/* The same back, as a file: returns its bytes; `out` has APP_KEY_TEXT_SIZE. */
uint32_t app_key_print(const struct fab_grant *grant, char *out);

/* "ID.key" -> ID; false: no key's file.  `id` has FAB_KEY_ID_MAX + 1 bytes. */
bool app_key_id_of(const char *file, char *id);
/* Returns true if the id is one that no key may have: "anonymous" or "@root". */
bool app_key_id_reserved(const char *id);

/* Returns true if the id is valid for a key's file: a possible file name, and not reserved. */
bool app_key_id_good(const char *id);

/* "read:/a", "write" and the like, of `anonymous = ` and wekactl keys add.  Errors: -EINVAL. */
must_check int app_key_rights_parse(const char *text, struct fab_rights *out);

/* "1000", "100,101" into has_uid, uid, gids, gid.  Errors: -EINVAL. */
must_check int app_key_user_parse(const char *uid, const char *gids, struct fab_rights *out);

/* "/a//b/" -> "/a/b", "/" -> "".  Errors: -EINVAL (no path from the root, "..", too long). */
must_check int app_key_subtree(const char *path, char out[FAB_SUBTREE_MAX + 1]);

/**
 * app_key_read - a key's file, by its directory
 *
 * Errors:  -EACCES: others could read or change it; -EINVAL; what open() says.  `why` gets a line
 *          that names the file.
 */
must_check int app_key_read(struct fab_grant *out, const char *dir, const char *id, char *why);

/* ---- the daemon's ---------------------------------------------------------------------- */

struct app_conf;

struct app_keys {
	struct app_conf *conf;
	struct fab_server *srv;
	int inotify_fd; /* -1: none */
	bool quiet;     /* nothing into the log */
	bool watched;   /* the directory exists, and its changes are reported */
	uint64_t retry_ns;
	struct fab_grant *grant;          /* in separate pages: the key being read */
	char (*seen)[FAB_KEY_ID_MAX + 1]; /* ids of files, while they are read */
	uint32_t seen_count;
};

/**
 * app_keys_start - the keys of the configuration into `srv`: one that is bad and nothing is served
 * app_keys_check - read them all and do nothing: for --check-config
 *
 * Errors:  what app_key_read() says; `why` (APP_KEY_WHY bytes) gets a line.
 */
must_check int app_keys_start(struct app_keys *k, struct app_conf *conf, struct fab_server *srv,
			      char *why);
must_check int app_keys_check(struct app_conf *conf, char *why);
void app_keys_stop(struct app_keys *k);

/* app_keys_reload - read the directory again: each change is a line in the log.  A file that became
 * bad is no longer a key; if the directory is gone, no key is left. */
void app_keys_reload(struct app_keys *k, uint64_t now_ns);

/* Reloads if something has changed, or when the next check is due. */
void app_keys_step(struct app_keys *k, uint64_t now_ns);
int app_keys_fd(const struct app_keys *k);            /* -1: none */
uint64_t app_keys_deadline(const struct app_keys *k); /* UINT64_MAX: none */

/**
 * app_keys_as_owner - if we are root, become the user that `path`, a file of keys, belongs to
 *
 * The daemon takes keys of root and of its own user only.  A root that looks at the keys of a
 * service that has a user sees them as that service would.
 *
 * Thread:  a process with one thread only.  Returns what app_keys_as_before() wants.
 */
uid_t app_keys_as_owner(const char *path);
void app_keys_as_before(uid_t was);

#endif
