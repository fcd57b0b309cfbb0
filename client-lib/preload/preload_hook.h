/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Part of preload.h: functions of libc that have no declaration in its headers. */
#ifndef CLIENT_LIB_PRELOAD_HOOK_H
#define CLIENT_LIB_PRELOAD_HOOK_H

#include "client-lib/preload/preload.h"

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
_Noreturn void __chk_fail(void);
ssize_t __read_chk(int fd, void *bytes, size_t length, size_t room);
ssize_t __pread_chk(int fd, void *bytes, size_t length, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *bytes, size_t length, off64_t at, size_t room);
ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *to, size_t size, size_t room);
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *st, int flags);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room);
int fcntl64(int fd, int command, ...);

#endif
