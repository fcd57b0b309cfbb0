/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The process: WEKA_PRELOAD is read once, before main().  Without it, or after a mistake in it, all
 * hooks only pass their calls on.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#define OWN_ROOM    256u
#define DEVICE_NONE 0x77656b61u /* st_dev without a mount */

struct preload_setup preload_setup;

static _Thread_local bool begun_vfork __attribute__((tls_model("initial-exec")));
static pid_t process;

/* ---- vfork() ------------------------------------------------------------------------------- */

void preload_vfork_begins(void)
{
	begun_vfork = true;
}

bool preload_in_vfork(void)
{
	if (likely(!begun_vfork))
		return false;
	if (getpid() != process)
		return true;
	begun_vfork = false; /* the parent goes on */
	return false;
}

/* ---- the mount ------------------------------------------------------------------------------ */

bool preload_is_mounted(void)
{
	struct statfs fs;

	return REAL->statfs(preload_setup.args.dir, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC;
}

uint64_t preload_device(void)
{
	static _Atomic uint64_t device;
	uint64_t is = atomic_load_explicit(&device, memory_order_relaxed);
	struct stat st;

	if (likely(is))
		return is;
	is = DEVICE_NONE;
	if (preload_is_mounted() && REAL->fstatat(AT_FDCWD, preload_setup.args.dir, &st, 0) == 0)
		is = st.st_dev;
	atomic_store_explicit(&device, is, memory_order_relaxed);
	return is;
}

/* Programs take the lowest numbers, and some expect to get 3.  A larger table of descriptors makes
 * each fork() slower. */
int preload_own_first(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1024)
		return 1024 - OWN_ROOM;
	return (int)(limit.rlim_cur > 2 * OWN_ROOM ? limit.rlim_cur - OWN_ROOM
						   : limit.rlim_cur / 2);
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* The name of the directory with the symlinks of its parent resolved, as getcwd() would say it. */
static const char *canonical(const char *dir)
{
	const char *name = strrchr(dir, '/');
	char *parent = strndup(dir, name == dir ? 1 : (size_t)(name - dir)), *real, *out;

	ASSERT(name && name[1]);
	real = parent ? realpath(parent, NULL) : NULL;
	free(parent);
	if (!real)
		return dir;
	out = malloc(PRELOAD_TEXT);
	if (!out || !preload_join(out, real, strcmp(real, "/") == 0 ? 0 : strlen(real), name + 1)) {
		free(out);
		out = NULL;
	}
	free(real);
	return out ? out : dir;
}

static void child_begins(void)
{
	process = getpid();
}

__attribute__((constructor)) static void setup(void)
{
	const char *text = getenv("WEKA_PRELOAD"), *why;
	char *copy;

	process = getpid();
	if (!text)
		return;
	copy = strdup(text);
	if (!copy)
		return;
	why = preload_args_parse(&preload_setup.args, copy);
	if (why) {
		fprintf(stderr, "libweka-preload: WEKA_PRELOAD: %s; nothing is served\n", why);
		free(copy);
		return;
	}
	preload_setup.canonical = canonical(preload_setup.args.dir);
	pthread_atfork(NULL, NULL, child_begins);
	preload_session_setup();
	preload_setup.is_active = true;
}
