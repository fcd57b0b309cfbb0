/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Access to the sockets of shm: addresses: shm_mode, shm_group and shm_users. */
#include "appliance/conf/app_conf.h"
#include "fabric/fab.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int blame(const struct app_conf *c, enum app_conf_key key, char *why, const char *what,
		 const char *name)
{
	char text[APP_CONF_TEXT_MAX + 64];

	snprintf(text, sizeof(text), "%s: %s", name, what);
	app_conf_blame(c, key, why, text);
	return -EINVAL;
}

static bool parse_id(const char *text, uint32_t *out)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	value = strtoul(text, &end, 10);
	*out = (uint32_t)value;
	return *end == 0 && value < UINT32_MAX;
}

static int parse_users(const struct app_conf *c, struct fab_server_cfg *out, char *why)
{
	char names[APP_CONF_TEXT_MAX], *save, *name;

	memcpy(names, c->shm_users, sizeof(names));
	for (name = strtok_r(names, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
		uint32_t *uid = &out->shm_user[out->shm_user_count];
		const struct passwd *user;

		if (out->shm_user_count == FAB_SHM_USERS_MAX)
			return blame(c, APP_CONF_SHM_USERS, why, "too many users", name);
		if (!parse_id(name, uid)) {
			user = getpwnam(name);
			if (!user)
				return blame(c, APP_CONF_SHM_USERS, why, "no such user", name);
			*uid = user->pw_uid;
		}
		out->shm_user_count++;
	}
	return 0;
}

int app_conf_shm(const struct app_conf *c, struct fab_server_cfg *out, char *why)
{
	const struct group *group;
	char *end;

	out->shm_mode = (uint32_t)strtoul(c->shm_mode, &end, 8);
	if (*end || out->shm_mode == 0 || out->shm_mode > 0777) {
		app_conf_blame(c, APP_CONF_SHM_MODE, why,
			       "allowed are octal permission bits, such as 0660");
		return -EINVAL;
	}
	out->shm_user_count = 0;
	out->shm_has_group = c->shm_group[0] != 0;
	if (out->shm_has_group && !parse_id(c->shm_group, &out->shm_group)) {
		group = getgrnam(c->shm_group);
		if (!group)
			return blame(c, APP_CONF_SHM_GROUP, why, "no such group", c->shm_group);
		out->shm_group = group->gr_gid;
	}
	return parse_users(c, out, why);
}
