/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl config: checks and explains the configuration, by the daemon beside this program. */
#include "appliance/ctl/ctl.h"
#include "base/num.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DAEMON "weka-appliance"

/* The daemon in the directory of this program. */
static int daemon_path(char out[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", out, PATH_MAX - sizeof(DAEMON) - 1);
	char *slash;

	if (bytes < 0)
		return -errno;
	out[bytes] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return -ENOENT;
	memcpy(slash + 1, DAEMON, sizeof(DAEMON));
	return 0;
}

int ctl_cmd_config(struct ctl *c)
{
	const bool checks = strcmp(c->argv[0], "check") == 0;
	const char *file = c->argc > 1 ? c->argv[1] : c->config;
	const char *const check[] = { DAEMON, "--check-config", "--config", file, NULL };
	const char *const list[] = { DAEMON, "--list-keys", NULL };
	char path[PATH_MAX];
	int err = daemon_path(path);

	if (!checks && strcmp(c->argv[0], "keys") != 0)
		return ctl_fail("config: '%s' is neither check nor keys", c->argv[0]) + 1;
	if (!err)
		err = execv(path, (char *const *)(uintptr_t)(checks ? check : list)) ? -errno : 0;
	return ctl_fail("config: %s: %s", path, strerror(-err));
}
