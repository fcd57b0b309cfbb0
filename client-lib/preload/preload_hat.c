/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: calls that change names relative to a directory's descriptor.  The mount makes the change;
 * without a mount the call fails.  Paths that begin with "/" or at the working directory
 * reach the mount without a hook.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#define CHANGE(name, args, ...)                                                                    \
	PRELOAD_HOOK int name args                                                                 \
	{                                                                                          \
		struct preload_path p;                                                             \
		if (!preload_path_lend(&p, dirfd, path))                                           \
			return preload_fail(-EROFS);                                               \
		dirfd = p.dirfd;                                                                   \
		return (int)preload_path_real(&p, REAL->name(__VA_ARGS__));                        \
	}
#define CHANGE_TWO(name, args, ...)                                                                \
	PRELOAD_HOOK int name args                                                                 \
	{                                                                                          \
		struct preload_path p, p2;                                                         \
		int result = -1;                                                                   \
		if (preload_path_lend(&p, dirfd, path) && preload_path_lend(&p2, to_dirfd, to)) {  \
			dirfd = p.dirfd;                                                           \
			to_dirfd = p2.dirfd;                                                       \
			result = (int)preload_path_real(&p2, REAL->name(__VA_ARGS__));             \
		} else {                                                                           \
			errno = EROFS;                                                             \
		}                                                                                  \
		return (int)preload_path_real(&p, result);                                         \
	}

/* clang-format off */
CHANGE(unlinkat, (int dirfd, const char *path, int flags), dirfd, path, flags)
CHANGE(mkdirat, (int dirfd, const char *path, mode_t mode), dirfd, path, mode)
CHANGE(mknodat, (int dirfd, const char *path, mode_t mode, dev_t dev), dirfd, path, mode, dev)
CHANGE(mkfifoat, (int dirfd, const char *path, mode_t mode), dirfd, path, mode)
CHANGE(symlinkat, (const char *to, int dirfd, const char *path), to, dirfd, path)
CHANGE(fchmodat, (int dirfd, const char *path, mode_t mode, int flags), dirfd, path, mode, flags)
CHANGE(fchownat, (int dirfd, const char *path, uid_t uid, gid_t gid, int flags),
       dirfd, path, uid, gid, flags)
CHANGE(utimensat, (int dirfd, const char *path, const struct timespec t[2], int flags),
       dirfd, path, t, flags)
CHANGE(futimesat, (int dirfd, const char *path, const struct timeval t[2]), dirfd, path, t)
CHANGE(name_to_handle_at, (int dirfd, const char *path, struct file_handle *handle,
       int *mount, int flags), dirfd, path, handle, mount, flags)
CHANGE_TWO(linkat, (int dirfd, const char *path, int to_dirfd, const char *to, int flags),
	   dirfd, path, to_dirfd, to, flags)
CHANGE_TWO(renameat, (int dirfd, const char *path, int to_dirfd, const char *to),
	   dirfd, path, to_dirfd, to)
CHANGE_TWO(renameat2, (int dirfd, const char *path, int to_dirfd, const char *to, unsigned flags),
	   dirfd, path, to_dirfd, to, flags)
/* clang-format on */
