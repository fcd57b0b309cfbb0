/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Calls on directories, and relative to them, each as a case of test/tools/preload_calls.c. */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r() is served, too */
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

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *what, DIR *d)
{
	char *seen[100];
	struct dirent *e;
	int count = 0;

	did(what, d ? 0 : -1);
	while (d && count < 100 && (errno = 0, e = readdir(d))) {
		seen[count] = malloc(300);
		snprintf(seen[count++], 300, "%s %d", e->d_name, e->d_type);
	}
	did("end", errno);
	qsort(seen, (size_t)count, sizeof(seen[0]), by_name);
	for (int i = 0; i < count; i++) {
		say("%s\n", seen[i]);
		free(seen[i]);
	}
}

/* The end of a directory is told from an error by errno alone. */
static void ends(const char *what)
{
	DIR *d = opendir(in("dir"));

	errno = 0;
	while (readdir(d))
		;
	did(what, errno);
	closedir(d);
}

CASE(dir)
{
	DIR *d = opendir(in("."));
	struct dirent entry, *e;
	struct stat st;
	char first[300], again[300];
	long place;
	int fd, count = 0;

	for (int i = 0; i < 50; i++)
		ends("the end");
	list("opendir", d);
	rewinddir(d);
	list("again", d);
	rewinddir(d);
	for (int i = 0; i < 5; i++)
		(void)readdir(d);
	place = telldir(d);
	snprintf(first, sizeof(first), "%s", readdir(d)->d_name);
	for (int i = 0; i < 5; i++)
		(void)readdir(d);
	seekdir(d, place);
	snprintf(again, sizeof(again), "%s", readdir(d)->d_name);
	did("seekdir", strcmp(first, again));
	rewinddir(d);
	while (readdir_r(d, &entry, &e) == 0 && e)
		count++;
	did("readdir_r", count);
	fd = dirfd(d);
	did("dirfd", fd);
	did("fstatat", fstatat(fd, "small", &st, 0));
	saw_stat("small", &st);
	did("openat", close(openat(fd, "dir/in", O_RDONLY)));
	did("closedir", closedir(d));
	did("closed", fstat(fd, &st));
}

CASE(at)
{
	int fd = open(in("dir"), O_RDONLY | O_DIRECTORY), file = get("small"), copy;
	char target[100];
	struct stat st;
	DIR *d;

	for (size_t n = 0; n < calls_name_count; n++) {
		int made = openat(fd, calls_names[n], O_RDONLY);

		say("%s ", calls_names[n]);
		if (did("openat", made) >= 0) {
			read_all("read", made);
			close(made);
		}
		did("fstatat", fstatat(fd, calls_names[n], &st, 0));
		did("faccessat", faccessat(fd, calls_names[n], R_OK, 0));
		did("readlinkat", readlinkat(fd, calls_names[n], target, 100));
	}
	did("in a file", openat(file, "x", O_RDONLY));
	did("nowhere", openat(99, "x", O_RDONLY));
	did("in", openat(fd, "in", O_RDONLY));
	copy = dup(fd);
	did("dup", copy);
	did("read", read(fd, target, 10));
	did("fstatat", fstatat(copy, "in", &st, 0));
	close(fd);
	did("fstatat", fstatat(copy, "in", &st, 0));
	list("fdopendir", d = fdopendir(copy));
	did("dirfd", dirfd(d));
	closedir(d);
	did("a file", fdopendir(file) ? 0 : -1);
	close(file);
	closefrom(3);
}

CASE(change)
{
	int fd = open(in("dir"), O_RDONLY | O_DIRECTORY), made;
	char bytes[10];
	struct stat st;

	made = openat(fd, "new", O_RDWR | O_CREAT | O_EXCL, 0640);
	did("create", made);
	did("write", write(made, "new", 3));
	saw("read", bytes, pread(made, bytes, 10, 0));
	close(made);
	did("fstatat", fstatat(fd, "new", &st, 0));
	did("mode", st.st_mode);
	did("renameat", renameat(fd, "new", fd, "newer"));
	did("linkat", linkat(fd, "newer", fd, "other", 0));
	did("symlinkat", symlinkat("newer", fd, "sym"));
	did("mkdirat", mkdirat(fd, "made", 0700));
	did("fchmodat", fchmodat(fd, "newer", 0600, 0));
	did("utimensat", utimensat(fd, "newer", NULL, 0));
	did("unlinkat", unlinkat(fd, "newer", 0));
	did("unlinkat", unlinkat(fd, "other", 0));
	did("unlinkat", unlinkat(fd, "sym", 0));
	did("rmdir", unlinkat(fd, "made", AT_REMOVEDIR));
	did("fstatat", fstatat(fd, "new", &st, 0));
	close(fd);
	did("chdir", chdir(in("dir")));
	made = open("in", O_RDONLY);
	read_all("in", made);
	close(made);
	made = open("../small", O_RDONLY);
	read_all("small", made);
	close(made);
	did("stat", stat("deep/../in", &st));
	did("stat", stat("../../nothing here", &st));
	did("chdir", chdir("/"));
}
