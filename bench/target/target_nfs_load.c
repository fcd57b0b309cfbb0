/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Finds libnfs and its calls. */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/target/target_nfs.h"

#include <dlfcn.h>
#include <stddef.h>

#define LIBRARY "libnfs.so.13"

#define CALL(NAME)                                                                                 \
	{                                                                                          \
		"nfs_" #NAME, offsetof(struct nfs__calls, NAME)                                    \
	}

static const struct {
	const char *name;
	size_t at;
} wanted[] = {
	CALL(init_context), CALL(destroy_context), CALL(parse_url_dir), CALL(destroy_url),
	CALL(set_dircache), CALL(mount),           CALL(get_error),     CALL(get_fd),
	CALL(which_events), CALL(service),         CALL(mkdir),         CALL(rmdir),
	CALL(unlink),       CALL(opendir),         CALL(readdir),       CALL(closedir),
	CALL(open),         CALL(close),           CALL(open_async),    CALL(create_async),
	CALL(pread_async),  CALL(pwrite_async),    CALL(fsync_async),   CALL(close_async),
	CALL(stat64_async), CALL(unlink_async),
};

const struct nfs__calls *nfs__load(void)
{
	static struct nfs__calls calls;
	static void *library;

	if (library)
		return &calls;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		(void)bench_fail("%s; on Debian: apt install libnfs13", dlerror());
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		void *call = dlsym(library, wanted[i].name);

		if (!call) {
			(void)bench_fail("%s has no %s", LIBRARY, wanted[i].name);
			library = NULL;
			return NULL;
		}
		*(void **)((char *)&calls + wanted[i].at) = call;
	}
	return &calls;
}
