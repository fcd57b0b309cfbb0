/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The command line:
 *
 *     weka-mount [-f] [-o OPTION,...] ADDRESSES DIR     by hand
 *     mount.weka ADDRESSES DIR [-fnsvw] [-o OPTION,...] called by mount(8), also as mount.fuse.weka
 *
 * The options of an fstab line that are for mount(8), systemd and people are ignored; any other
 * unknown option is an error, with one line.
 */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define USAGE                                                                                      \
	"usage: weka-mount [-f] [-o OPTION,...] ADDRESSES DIR; weka-mount(8) has the options\n"

static const struct {
	const char *name;
	unsigned long set, clear;
} flags[] = {
	{ "ro", MS_RDONLY, 0 },
	{ "rw", 0, MS_RDONLY },
	{ "nosuid", MS_NOSUID, 0 },
	{ "suid", 0, MS_NOSUID },
	{ "nodev", MS_NODEV, 0 },
	{ "noexec", MS_NOEXEC, 0 },
	{ "exec", 0, MS_NOEXEC },
	{ "noatime", MS_NOATIME, 0 },
	{ "nodiratime", MS_NODIRATIME, 0 },
	{ "relatime", MS_RELATIME, 0 },
	{ "strictatime", MS_STRICTATIME, 0 },
	{ "sync", MS_SYNCHRONOUS, 0 },
	{ "dirsync", MS_DIRSYNC, 0 },
	{ "async", 0, MS_SYNCHRONOUS },
};

static const char *const ignored[] = { "defaults", "auto",   "noauto",
				       "user",     "nouser", "users",
				       "_netdev",  "nofail", "default_permissions" };

static int bad(const char *what, const char *text)
{
	fprintf(stderr, "weka-mount: %s: %s\n", what, text);
	return 2;
}

/* Returns seconds as nanoseconds, or UINT64_MAX. */
static uint64_t seconds(const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0 && s <= 1e6))
		return UINT64_MAX;
	return (uint64_t)(s * (double)NS_PER_S);
}

static int set_flag(struct mount_args *a, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (strcmp(flags[i].name, name) == 0) {
			a->flags = (a->flags & ~flags[i].clear) | flags[i].set;
			return 0;
		}
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (strcmp(ignored[i], name) == 0)
			return 0;
	if (strncmp(name, "x-", 2) == 0)
		return 0;
	if (strcmp(name, "allow_other") == 0)
		a->allow_other = true;
	else if (strcmp(name, "buffered") == 0)
		a->buffered = true;
	else if (strcmp(name, "anonymous") == 0)
		a->anonymous = true;
	else
		return bad("unknown option", name);
	return 0;
}

static int set_time(uint64_t *to_ns, const char *name, const char *text)
{
	*to_ns = seconds(text);
	return *to_ns == UINT64_MAX ? bad(name, "this is not a number of seconds") : 0;
}

static int set_threads(struct mount_args *a, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n < 1 || n > MOUNT_WORKERS_MAX)
		return bad("threads", "this is not a number from 1 to 16");
	a->threads = (uint32_t)n;
	return 0;
}

/* One option, which is changed: NAME or NAME=VALUE. */
static int set_option(struct mount_args *a, char *option)
{
	char *value = strchr(option, '=');

	if (!value || strncmp(option, "x-", 2) == 0)
		return *option ? set_flag(a, option) : 0;
	*value++ = 0;
	if (strcmp(option, "key") == 0)
		a->key_file = value;
	else if (strcmp(option, "key_id") == 0)
		a->key_id = value;
	else if (strcmp(option, "root") == 0)
		a->root = value;
	else if (strcmp(option, "log") == 0)
		a->log_file = value;
	else if (strcmp(option, "cache") == 0)
		return set_time(&a->cache_ns, option, value);
	else if (strcmp(option, "timeout") == 0)
		return set_time(&a->timeout_ns, option, value);
	else if (strcmp(option, "threads") == 0)
		return set_threads(a, value);
	else if (strcmp(option, "comment") != 0)
		return bad("unknown option", option);
	return 0;
}

static int set_options(struct mount_args *a, char *text)
{
	int err = 0;

	while (text && !err) {
		char *comma = strchr(text, ',');

		if (comma)
			*comma++ = 0;
		err = set_option(a, text);
		text = comma;
	}
	return err;
}

static int check(const struct mount_args *a)
{
	if (!a->addresses || !a->dir) {
		fprintf(stderr, USAGE);
		return 2;
	}
	if (a->timeout_ns < NS_PER_S)
		return bad("timeout", "at least 1 second");
	if (a->anonymous && a->key_file)
		return bad("key", "not together with anonymous");
	/* An appliance knows root of its own machine. */
	if (!a->anonymous && !a->key_file &&
	    (geteuid() != 0 || strncmp(a->addresses, "shm:", 4) != 0))
		return bad("key", "name a key file: -o key=FILE, or WEKA_KEY_FILE");
	return 0;
}

/* Letters as mount(8) gives them to a helper, where -f says that nothing is mounted. */
static int set_letter(struct mount_args *a, int letter, bool is_helper)
{
	switch (letter) {
	case 'f':
		if (is_helper)
			a->fake = true;
		else
			a->foreground = true;
		return 0;
	case 'o':
		return set_options(a, optarg);
	case 'r':
		return set_flag(a, "ro");
	case 'V':
		printf("weka-mount %s\n", version_text);
		exit(0);
	case 'h':
		printf(USAGE);
		exit(0);
	case '?':
		fprintf(stderr, USAGE);
		return 2;
	default: /* -n, -s, -v, -w, and -t TYPE */
		return 0;
	}
}

int mount_args_parse(struct mount_args *a, int argc, char **argv)
{
	const bool is_helper = strncmp(program_invocation_short_name, "mount.", 6) == 0;
	int letter, err = 0;

	*a = (struct mount_args){
		.key_file = getenv("WEKA_KEY_FILE"),
		.root = "/",
		.timeout_ns = 30 * NS_PER_S,
		.flags = MS_NOSUID | MS_NODEV,
	};
	opterr = 0;
	while (!err && (letter = getopt(argc, argv, "fnsvwrt:o:Vh")) != -1)
		err = set_letter(a, letter, is_helper);
	if (err)
		return err;
	if (argc - optind == 2) {
		a->addresses = argv[optind];
		a->dir = argv[optind + 1];
	} else if (argc - optind == 1 && getenv("WEKA_ADDRESS")) {
		a->addresses = getenv("WEKA_ADDRESS");
		a->dir = argv[optind];
	}
	if (a->anonymous && a->key_file == getenv("WEKA_KEY_FILE"))
		a->key_file = NULL;
	return check(a);
}
