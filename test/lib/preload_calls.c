/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The tree of test/tools/preload_calls.c, and what its cases share. */
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

#define LOG (1u << 20)

static char *text; /* what this run has seen */
static size_t text_bytes;
const char *calls_dir;
bool calls_has_mount;

void say(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text + text_bytes, LOG - text_bytes, format, args);
	va_end(args);
	text_bytes += n > 0 && text_bytes + (size_t)n < LOG ? (size_t)n : 0;
}

long did(const char *what, long result)
{
	const int err = errno;

	if (result == -1)
		say("%s -1 %s\n", what, strerrorname_np(err));
	else
		say("%s %ld\n", what, result);
	return result;
}

void saw(const char *what, const void *bytes, ssize_t length)
{
	uint64_t sum = 1469598103934665603u;

	for (ssize_t i = 0; i < length; i++)
		sum = (sum ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
	say("%s %zd bytes %016llx\n", what, length, (unsigned long long)sum);
}

void saw_stat(const char *what, const struct stat *st)
{
	say("%s mode %o links %d uid %d gid %d size %lld mtime %lld.%09ld\n", what, st->st_mode,
	    S_ISDIR(st->st_mode) ? 0 : (int)st->st_nlink, (int)st->st_uid, (int)st->st_gid,
	    S_ISDIR(st->st_mode) ? 0 : (long long)st->st_size, (long long)st->st_mtim.tv_sec,
	    st->st_mtim.tv_nsec);
}

const char *in(const char *name)
{
	static char path[4][PATH_MAX + 100];
	static unsigned next;
	char *to = path[next++ % 4];

	snprintf(to, sizeof(path[0]), "%s/%s", calls_dir, name);
	return to;
}

int number(const char *of)
{
	return (int)strtol(of, NULL, 10);
}

int get(const char *name)
{
	return open(in(name), O_RDONLY);
}

void read_all(const char *what, int fd)
{
	static char bytes[CALLS_LARGE + 4096];
	ssize_t n, sum = 0;

	while ((n = read(fd, bytes + sum, sizeof(bytes) - (size_t)sum)) > 0)
		sum += n;
	did(what, n);
	saw(what, bytes, sum);
}

const char *const calls_names[] = {
	"small",
	"empty",
	"large",
	"dir",
	"dir/in",
	"dir/deep/er",
	"dir/",
	"dir/.",
	"dir/..",
	"dir/../small",
	"dir/deep/../in",
	"dir/deep/../../small",
	"small/",
	"small/x",
	"small/.",
	"small/..",
	"missing",
	"missing/x",
	"missing/..",
	"link",
	"link/",
	"dirlink",
	"dirlink/",
	"dirlink/in",
	"dirlink/..",
	"dirlink/../small",
	"uplink",
	"uplink/small",
	"outlink",
	"outlink/",
	"dangling",
	"dangling/",
	"loop",
	"loop/x",
	"long-link",
	"chain",
	".",
	"./",
	"",
	"//small",
	"./small",
	"dir//in",
	"secret",
	"closed",
	"closed/in",
	"writeonly",
	"executable",
	"../calls/small",
};
const size_t calls_name_count = sizeof(calls_names) / sizeof(calls_names[0]);

/* ---- the tree -------------------------------------------------------------------------------- */

static void must(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(2);
	}
}

static void put(const char *name, size_t bytes, mode_t mode)
{
	const struct timespec times[2] = { { 1000000000, 5 }, { 1100000000, 123456789 } };
	int fd = open(in(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	static uint8_t piece[CALLS_LARGE];

	must(fd >= 0, name);
	for (size_t i = 0; i < bytes; i++)
		piece[i] = (uint8_t)(i * 7 + i / 251 + bytes);
	must(write(fd, piece, bytes) == (ssize_t)bytes, name);
	must(fchmod(fd, mode) == 0 && futimens(fd, times) == 0, name);
	close(fd);
}

void calls_make(void)
{
	static const char *const dirs[] = { "link",     "dirlink",     "uplink",   "outlink",
					    "dangling", "loop",        "chain",    "long-link",
					    "closed",   "dir/deep/er", "dir/deep", "dir",
					    "." };
	const struct timespec times[2] = { { 1000000000, 5 }, { 1200000000, 7 } };
	char target[300];

	must(mkdir(calls_dir, 0755) == 0 && mkdir(in("dir"), 0755) == 0, calls_dir);
	must(mkdir(in("dir/deep"), 0755) == 0 && mkdir(in("dir/deep/er"), 0711) == 0, "dir/deep");
	must(mkdir(in("closed"), 0755) == 0, "closed");
	put("small", CALLS_SMALL, 0644);
	put("empty", 0, 0644);
	put("large", CALLS_LARGE, 0644);
	put("dir/in", 100, 0640);
	put("closed/in", 10, 0644);
	put("secret", 10, 0600);
	put("writeonly", 10, 0222);
	put("executable", 10, 0755);
	must(symlink("small", in("link")) == 0 && symlink("dir", in("dirlink")) == 0, "link");
	must(symlink("dir/..", in("uplink")) == 0, "link");
	must(symlink("/etc/passwd", in("outlink")) == 0, "link");
	must(symlink("nowhere", in("dangling")) == 0 && symlink("loop", in("loop")) == 0, "link");
	must(symlink("dirlink/../link", in("chain")) == 0, "link");
	for (int i = 0; i < 260; i++)
		target[i] = i % 2 ? '/' : '.';
	memcpy(target + 260, "small", 6);
	must(symlink(target, in("long-link")) == 0, "link");
	must(setxattr(in("small"), "user.a", "value", 5, 0) == 0, "user.a");
	must(chmod(in("closed"), 0600) == 0, "closed");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		must(utimensat(AT_FDCWD, in(dirs[i]), times, AT_SYMLINK_NOFOLLOW) == 0, dirs[i]);
}

void calls_begin(const char *dir)
{
	text = calloc(1, LOG);
	text_bytes = 0;
	calls_dir = dir;
	must(text != NULL, "memory");
}

char *calls_seen(void)
{
	return text;
}
