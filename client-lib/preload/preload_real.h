/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Part of preload.h: libc's own functions, behind the hooks. */
#ifndef CLIENT_LIB_PRELOAD_REAL_H
#define CLIENT_LIB_PRELOAD_REAL_H

#ifndef _GNU_SOURCE
#error "the file must define _GNU_SOURCE first: the hooks are declared as libc does"
#endif

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

/* clang-format off */
#define PRELOAD_REALS(X) \
	X(open) X(openat) X(fopen) X(fdopen) X(read) X(pread) X(readv) X(preadv) X(preadv2) \
	X(lseek) X(close) X(close_range) X(fstatat) X(statx) X(faccessat) X(readlinkat) \
	X(getcwd) X(statfs) X(opendir) X(fdopendir) X(readdir) X(readdir_r) X(closedir) \
	X(rewinddir) X(seekdir) X(telldir) X(dirfd) X(dup) X(dup2) X(dup3) X(fcntl) X(ioctl) \
	X(mmap) X(sendfile) X(copy_file_range) X(splice) X(poll) X(ppoll) X(select) X(pselect) \
	X(epoll_ctl) X(flock) X(lockf) X(fsync) X(fdatasync) X(syncfs) X(fchmod) X(fchown) \
	X(futimens) X(futimes) X(fsetxattr) X(fgetxattr) X(flistxattr) X(fremovexattr) \
	X(getxattr) X(lgetxattr) X(listxattr) X(llistxattr) X(fstatfs) X(fstatvfs) \
	X(fpathconf) X(fchdir) X(ftruncate) X(readahead) X(posix_fadvise) X(isatty) \
	X(tcgetattr) X(sendmsg) X(recvmsg) X(getdents64) X(aio_read) X(unlinkat) X(mkdirat) \
	X(mknodat) X(mkfifoat) X(symlinkat) X(linkat) X(renameat) X(renameat2) X(fchmodat) \
	X(fchownat) X(utimensat) X(futimesat) X(name_to_handle_at) X(posix_spawn) \
	X(posix_spawnp) X(execve) X(execvpe) X(fexecve) X(execveat) X(system) X(popen) \
	X(socket) X(chroot) X(epoll_create1) X(eventfd) X(timerfd_create) X(memfd_create) \
	X(vfork)
/* clang-format on */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r() */
struct preload_real {
#define PRELOAD_ONE(name) __typeof__(&name) name;
	PRELOAD_REALS(PRELOAD_ONE)
#undef PRELOAD_ONE
};
#pragma GCC diagnostic pop

/* Returns the table, and fills it in at the first call: a constructor of another library may call a
 * hook before this library's. */
const struct preload_real *preload_real(void);

#define REAL (preload_real())

#endif
