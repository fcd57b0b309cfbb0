/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Calls on files, each as a case of test/tools/preload_calls.c. */
#define _GNU_SOURCE
#include "test/lib/preload_calls.h"

#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

CASE(open)
{
	static const int flags[] = { 0,
				     O_DIRECTORY,
				     O_NOFOLLOW,
				     O_CLOEXEC,
				     O_NONBLOCK | O_NOCTTY,
				     O_PATH,
				     O_NOFOLLOW | O_DIRECTORY };

	for (size_t n = 0; n < calls_name_count; n++)
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			int fd;

			if ((flags[i] & O_PATH) && !calls_has_mount)
				continue;
			fd = open(in(calls_names[n]), flags[i]);
			say("%s %x: ", calls_names[n], flags[i]);
			if (did("open", fd) < 0)
				continue;
			say("fd %x ", fcntl(fd, F_GETFD));
			if (!(flags[i] & O_PATH))
				say("fl %x ", fcntl(fd, F_GETFL));
			read_all("read", fd);
			did("close", close(fd));
			did("close again", close(fd));
		}
}

static void see_xattrs(const char *path)
{
	char value[100];
	ssize_t n;

	n = did("getxattr", getxattr(path, "user.a", value, sizeof(value)));
	saw("value", value, n > 0 ? n : 0);
	did("lgetxattr", lgetxattr(path, "user.b", value, sizeof(value)));
	did("getxattr 3", getxattr(path, "user.a", value, 3));
	did("getxattr 0", getxattr(path, "user.a", NULL, 0));
	n = did("listxattr", listxattr(path, value, sizeof(value)));
	saw("names", value, n > 0 ? n : 0);
	did("llistxattr", llistxattr(path, value, sizeof(value)));
}

CASE(names)
{
	char target[PATH_MAX];
	struct stat st;
	struct statx x;

	for (size_t n = 0; n < calls_name_count; n++) {
		const char *path = in(calls_names[n]);
		ssize_t length;

		say("%s\n", calls_names[n]);
		if (did("stat", stat(path, &st)) == 0)
			saw_stat("stat", &st);
		if (did("lstat", lstat(path, &st)) == 0)
			saw_stat("lstat", &st);
		if (did("fstatat", fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW)) == 0)
			saw_stat("fstatat", &st);
		if (did("statx", statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &x)) == 0)
			say("statx %o %lld %lld\n", x.stx_mode,
			    S_ISDIR(x.stx_mode) ? 0 : (long long)x.stx_size,
			    (long long)x.stx_mtime.tv_nsec);
		for (int mode = 0; mode < 8; mode++)
			if (!(mode & W_OK) || calls_has_mount)
				did("access", access(path, mode));
		did("access ?", access(path, 99));
		did("euidaccess", euidaccess(path, R_OK));
		did("faccessat", faccessat(AT_FDCWD, path, X_OK, AT_EACCESS));
		length = did("readlink", readlink(path, target, sizeof(target)));
		saw("target", target, length > 0 ? length : 0);
		did("readlink 3", readlink(path, target, 3));
		did("opendir", opendir(path) ? 0 : -1);
		see_xattrs(path);
	}
}

CASE(read)
{
	static char bytes[2 * CALLS_LARGE];
	struct iovec parts[3] = { { bytes, 10 }, { bytes + 100, 0 }, { bytes + 200, 3000 } };
	static const char *const files[] = { "small", "empty", "large" };

	for (int f = 0; f < 3; f++) {
		int fd = get(files[f]);

		did("open", fd);
		did("read 0", read(fd, bytes, 0));
		saw("read 100", bytes, did("read", read(fd, bytes, 100)));
		saw("pread", bytes, did("pread", pread(fd, bytes, 4096, 50)));
		did("pread behind", pread(fd, bytes, 10, 1 << 30));
		did("pread before", pread(fd, bytes, 10, -1));
		did("at", lseek(fd, 0, SEEK_CUR));
		memset(bytes, 0, 4000);
		saw("readv", bytes, did("readv", readv(fd, parts, 3)) < 0 ? 0 : 4000);
		saw("preadv", bytes, did("preadv", preadv(fd, parts, 3, 4900)) < 0 ? 0 : 4000);
		saw("preadv2", bytes, did("preadv2", preadv2(fd, parts, 3, -1, 0)) < 0 ? 0 : 4000);
		did("readv -1", readv(fd, parts, number("-1")));
		did("readv 2000", readv(fd, parts, number("2000")));
		did("at", lseek(fd, 0, SEEK_CUR));
		read_all("the rest", fd);
		did("write", write(fd, "x", 1));
		did("pwrite", pwrite(fd, "x", 1, 0));
		did("ftruncate", calls_has_mount ? ftruncate(fd, 0) : -2);
		did("fsync", fsync(fd));
		did("fdatasync", fdatasync(fd));
		did("close", close(fd));
		did("read closed", read(fd, bytes, 1));
	}
}

/* A path that names a descriptor: a new open file of the same. */
CASE(named)
{
	static const char *const dirs[] = { "/dev/fd", "/proc/self/fd", "/proc/thread-self/fd" };
	char path[100];

	for (size_t i = 0; i < 3; i++) {
		int fd = get(i == 1 ? "large" : "small"), other;

		did("read", read(fd, path, 10));
		snprintf(path, sizeof(path), "%s/%d", dirs[i], fd);
		did("access", access(path, R_OK));
		other = open(path, O_RDONLY);
		did("open", other);
		read_all("read", other);
		did("at", lseek(fd, 0, SEEK_CUR));
		close(other);
		close(fd);
	}
}

CASE(seek)
{
	static const off_t offsets[] = { 0, 1, -1, 4999, 5000, 5001, 1 << 20, INT64_MIN };
	int fd = get("small");

	for (int whence = 0; whence < 7; whence++)
		for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
			char byte = 0;

			did("seek", lseek(fd, 17, SEEK_SET));
			say("%d %lld: ", whence, (long long)offsets[i]);
			/* Where holes are is for each file system to say. */
			if ((whence == SEEK_DATA || whence == SEEK_HOLE) && offsets[i] == 4999)
				continue;
			did("lseek", lseek(fd, offsets[i], whence));
			did("read", read(fd, &byte, 1));
			say("%d\n", byte);
		}
	close(fd);
}

CASE(fstat)
{
	char value[100];
	static const char *const files[] = { "small", "empty", "large", "dir", "link" };
	struct stat st;
	struct statx x;

	for (int f = 0; f < 5; f++) {
		int fd = get(files[f]);

		did("fstat", fstat(fd, &st));
		saw_stat("fstat", &st);
		did("fstatat", fstatat(fd, "", &st, AT_EMPTY_PATH));
		saw_stat("fstatat", &st);
		did("statx", statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x));
		say("statx %o\n", x.stx_mode);
		did("isatty", isatty(fd));
		say("%s\n", strerrorname_np(errno));
		did("fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
		did("fadvise", posix_fadvise(fd, 0, 0, 99));
		did("fgetxattr", fgetxattr(fd, "user.a", value, sizeof(value)));
		did("flistxattr", flistxattr(fd, value, sizeof(value)));
		did("fpathconf", fpathconf(fd, _PC_NAME_MAX));
		close(fd);
		did("fstat", fstat(fd, &st));
	}
	did("fstat -1", fstat(-1, &st));
}

static void both(const char *what, int a, int b)
{
	char bytes[64];

	did(what, b);
	saw("a", bytes, did("read a", read(a, bytes, 30)));
	saw("b", bytes, did("read b", read(b, bytes, 30)));
	did("a at", lseek(a, 0, SEEK_CUR));
	did("b at", lseek(b, 0, SEEK_CUR));
	say("flags %x %x %x %x\n", fcntl(a, F_GETFL), fcntl(b, F_GETFL), fcntl(a, F_GETFD),
	    fcntl(b, F_GETFD));
}

CASE(dup)
{
	static const char *const files[] = { "small", "large" };
	char bytes[100];

	for (int f = 0; f < 2; f++) {
		int fd = get(files[f]), other = get("dir/in"), more[5];

		did("read", read(fd, bytes, 7));
		both("dup", fd, more[0] = dup(fd));
		both("dup2", fd, more[1] = dup2(fd, 90));
		both("dup3", fd, more[2] = dup3(fd, 91, O_CLOEXEC));
		both("F_DUPFD", fd, more[3] = fcntl(fd, F_DUPFD, 50));
		both("F_DUPFD_CLOEXEC", fd, more[4] = fcntl(fd, F_DUPFD_CLOEXEC, 0));
		did("dup2 over a served one", dup2(fd, other));
		both("the same", fd, other);
		did("dup2 itself", dup2(fd, fd));
		did("dup3 itself", dup3(fd, fd, 0));
		did("dup2 bad", dup2(fd, -1));
		did("dup closed", dup(99));
		close(fd);
		saw("after close", bytes, read(more[0], bytes, 100));
		for (int i = 0; i < 5; i++)
			did("close", close(more[i]));
		close(other);
	}
}

/* The numbers of descriptors are used again by other files. */
CASE(numbers)
{
	char bytes[100] = "";
	int pipes[2], fd = get("small"), again;

	close(fd);
	again = open("/dev/zero", O_RDONLY);
	did("the same number", again == fd);
	saw("zeros", bytes, read(again, bytes, 100));
	close(again);
	fd = get("small");
	close(fd);
	did("pipe", pipe(pipes));
	did("write", write(pipes[1], "pipe", 4));
	saw("pipe", bytes, read(pipes[0], bytes, 100));
	close(pipes[0]);
	close(pipes[1]);
	/* Closed without libc's knowing. */
	fd = get("small");
	did("syscall", syscall(SYS_close, fd));
	again = open("/dev/zero", O_RDONLY);
	did("the same number", again == fd);
	saw("zeros", bytes, read(again, bytes, 100));
	close(again);
	fd = get("small");
	did("syscall", syscall(SYS_close, fd));
	fd = get("dir/in");
	saw("in", bytes, read(fd, bytes, 100));
	did("close_range", close_range((unsigned)fd, (unsigned)fd, 0));
	did("read", read(fd, bytes, 1));
	fd = get("small");
	did("close_range", close_range((unsigned)fd, (unsigned)fd + 5, CLOSE_RANGE_CLOEXEC));
	say("fd %x\n", fcntl(fd, F_GETFD));
	saw("small", bytes, read(fd, bytes, 100));
	closefrom(fd);
	did("read", read(fd, bytes, 1));
	fd = get("small");
	saw("small", bytes, read(fd, bytes, 100));
	did("the lowest number", fd);
	close(fd);
}

CASE(map)
{
	static const char *const files[] = { "small", "large" };

	for (int f = 0; f < 2; f++) {
		int fd = get(files[f]);
		struct stat st;
		char *at, byte;

		did("read", read(fd, &byte, 1));
		did("fstat", fstat(fd, &st));
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		did("mmap", at == MAP_FAILED ? -1 : 0);
		saw("mapped", at, st.st_size);
		munmap(at, (size_t)st.st_size);
		at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		did("private", at == MAP_FAILED ? -1 : 0);
		at[0]++;
		saw("mapped", at, st.st_size);
		munmap(at, (size_t)st.st_size);
		at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		did("shared for writing", at == MAP_FAILED ? -1 : 0);
		did("write", write(fd, "x", 1));
		did("at", lseek(fd, 0, SEEK_CUR));
		read_all("the rest", fd);
		did("fstat", fstat(fd, &st));
		saw_stat("fstat", &st);
		close(fd);
	}
}

CASE(stream)
{
	static char bytes[CALLS_LARGE];

	for (size_t n = 0; n < calls_name_count; n++) {
		struct stat st;
		FILE *f;

		if (!calls_has_mount && stat(in(calls_names[n]), &st) == 0 && S_ISDIR(st.st_mode))
			continue;
		f = fopen(in(calls_names[n]), "r");
		say("%s ", calls_names[n]);
		if (did("fopen", f ? fileno(f) : -1) < 0)
			continue;
		saw("fread", bytes, (ssize_t)fread(bytes, 1, CALLS_LARGE, f));
		did("feof", feof(f) != 0);
		if (ferror(f)) { /* a directory */
			did("fclose", fclose(f));
			continue;
		}
		did("fseek", fseek(f, 10, SEEK_SET));
		errno = 0;
		did("fgetc", fgetc(f));
		did("ftell", ftell(f));
		did("fclose", fclose(f));
	}
	for (int i = 0; i < 2; i++) {
		int fd = get("small");
		FILE *f;

		did("read", read(fd, bytes, 3));
		f = fdopen(fd, i ? "r" : "rb");
		saw("fread", bytes, (ssize_t)fread(bytes, 1, 50, f));
		did("fclose", fclose(f));
		fd = get("dir/in"); /* the same number: closed by libc, not by a hook */
		did("number", fd);
		saw("in", bytes, read(fd, bytes, 200));
		close(fd);
	}
}

CASE(copies)
{
	static char bytes[CALLS_LARGE];
	int pipes[2], out = open("/dev/shm", O_TMPFILE | O_RDWR, 0600), fd = get("small");
	struct stat st;
	off_t at = 100;
	ssize_t n;

	did("out", out >= 0 ? 0 : -1);
	did("sendfile", sendfile(out, fd, NULL, 1000));
	did("at", lseek(fd, 0, SEEK_CUR));
	did("sendfile", sendfile(out, fd, &at, 1000));
	did("at", lseek(fd, 0, SEEK_CUR));
	did("fstat", fstat(out, &st));
	saw("sent", bytes, pread(out, bytes, CALLS_LARGE, 0));
	close(fd);
	fd = get("small");
	did("pipe", pipe(pipes));
	did("splice", splice(fd, NULL, pipes[1], NULL, 500, 0));
	n = read(pipes[0], bytes, 1000);
	saw("spliced", bytes, n);
	close(fd);
	fd = get("small");
	n = copy_file_range(fd, NULL, out, NULL, 100, 0);
	did("copy_file_range", n == 100 || (n < 0 && errno == EXDEV) ? 0 : -1);
	did("at", n == 100 ? 0 : lseek(fd, 0, SEEK_CUR));
	close(fd);
	close(out);
	close(pipes[0]);
	close(pipes[1]);
}

CASE(wait)
{
	int fd = get("small"), epoll = epoll_create1(0);
	struct pollfd p = { fd, POLLIN, 0 };
	struct epoll_event e = { .events = EPOLLIN };
	struct timeval none = { 0, 0 };
	fd_set set;
	int n;

	did("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e));
	did("poll", poll(&p, 1, 0));
	say("%x\n", p.revents);
	close(fd);
	fd = get("small");
	FD_ZERO(&set);
	FD_SET(fd, &set);
	did("select", select(fd + 1, &set, NULL, NULL, &none));
	did("set", FD_ISSET(fd, &set));
	close(fd);
	fd = get("small");
	did("FIONREAD", ioctl(fd, FIONREAD, &n));
	say("%d\n", n);
	read_all("read", fd);
	close(fd);
	close(epoll);
}

CASE(locks)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 10 };
	int fd = get("small"), other;
	char bytes[20];

	did("read", read(fd, bytes, 20));
	did("flock", flock(fd, LOCK_SH));
	did("fcntl lock", fcntl(fd, F_SETLK, &lock));
	did("at", lseek(fd, 0, SEEK_CUR));
	other = get("small");
	did("another", flock(other, LOCK_SH | LOCK_NB));
	if (calls_has_mount) /* else each has a copy */
		did("exclusive", flock(other, LOCK_EX | LOCK_NB));
	close(other);
	read_all("read", fd);
	close(fd);
}

CASE(attributes)
{
	int fd = get("dir/in");
	struct timespec times[2] = { { 1000000001, 5 }, { 1100000002, 1 } };
	struct statvfs fs;
	struct stat st;
	char value[20];

	did("fchmod", fchmod(fd, 0604));
	did("futimens", futimens(fd, times));
	did("fsetxattr", fsetxattr(fd, "user.a", "value", 5, 0));
	saw("fgetxattr", value, did("fgetxattr", fgetxattr(fd, "user.a", value, sizeof(value))));
	did("fremovexattr", fremovexattr(fd, "user.a"));
	did("fstatvfs", fstatvfs(fd, &fs));
	did("fstat", fstat(fd, &st));
	saw_stat("fstat", &st);
	close(fd);
	did("stat", stat(in("dir/in"), &st));
	saw_stat("stat", &st);
}
