/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by the files of wekactl keys. */
#ifndef CTL_KEYS_H
#define CTL_KEYS_H

#include "appliance/ctl/ctl.h"

#include <stddef.h>
#include <sys/types.h>

#define CTL_CONFIG_DEFAULT "/etc/weka-appliance.conf"

/* The user that weka-appliance.service runs as. */
#define CTL_SERVICE_USER "weka"

struct ctl_owner {
	uid_t uid;
	gid_t gid;
	char name[64];
};

/**
 * ctl_keys_owner - the user that a new file of keys must belong to
 *
 * `user` (--user) if it is given; else the service's user, if we are root and it exists; else us.
 * Returns 0, or 1 after a line on stderr.
 */
must_check int ctl_keys_owner(const char *user, struct ctl_owner *out);

/**
 * ctl_key_file_make - make a new file of mode 600 with these bytes, and make it durable
 *
 * No other user can read it at any moment.  Errors: -EEXIST, system errors.
 */
must_check int ctl_key_file_make(const char *path, const char *text, size_t bytes, uid_t uid,
				 gid_t gid);

/* Syncs a directory.  Errors: system errors. */
must_check int ctl_keys_dir_sync(const char *path);

/* wekactl keys init [FILE]: the first key.  argv: "init", and perhaps the file. */
int ctl_keys_init(struct ctl *c);

#endif
