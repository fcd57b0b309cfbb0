/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Reads /sys, /proc and /dev, behind a root: see ctl_sysfs.h. */
#include "appliance/ctl/ctl_sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_of(char out[CTL_PATH_SIZE], const char *root, const char *fmt, va_list ap)
{
	int at = snprintf(out, CTL_PATH_SIZE, "%s", root), more;

	if (at < 0 || (uint32_t)at >= CTL_PATH_SIZE)
		return -ENAMETOOLONG;
	more = vsnprintf(out + at, CTL_PATH_SIZE - (uint32_t)at, fmt, ap);
	return more < 0 || (uint32_t)(at + more) >= CTL_PATH_SIZE ? -ENAMETOOLONG : 0;
}

/* `path` of the caller's root and fmt; `err` says whether it fits. */
#define PATH_OF_ARGUMENTS(path, err)                                                               \
	do {                                                                                       \
		va_list ap;                                                                        \
		va_start(ap, fmt);                                                                 \
		err = path_of(path, root, fmt, ap);                                                \
		va_end(ap);                                                                        \
	} while (0)

int ctl_sysfs_path(char out[CTL_PATH_SIZE], const char *root, const char *fmt, ...)
{
	int err;

	PATH_OF_ARGUMENTS(out, err);
	return err;
}

void ctl_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Only regular files: a FIFO or a device in a place of text must not hold us up. */
static int open_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

/* As much as there is and fits; the count, or -errno. */
static ssize_t read_some(int fd, char *to, size_t size)
{
	size_t at = 0;

	while (at < size) {
		ssize_t got = read(fd, to + at, size - at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		at += (size_t)got;
	}
	return (ssize_t)at;
}

int ctl_sysfs_read(char *out, size_t out_size, const char *root, const char *fmt, ...)
{
	char path[CTL_PATH_SIZE], *from = out, *end;
	ssize_t got;
	int fd, err;

	ASSERT(out_size > 1);
	out[0] = '\0';
	PATH_OF_ARGUMENTS(path, err);
	fd = err ? err : open_text(path);
	if (fd < 0)
		return fd;
	got = read_some(fd, out, out_size - 1);
	close(fd);
	out[got < 0 ? 0 : got] = '\0';
	if (got < 0)
		return (int)got;
	while (is_blank(*from))
		from++;
	end = from + strlen(from);
	while (end > from && is_blank(end[-1]))
		end--;
	*end = '\0';
	memmove(out, from, (size_t)(end - from) + 1);
	ctl_printable(out);
	return 0;
}

int ctl_sysfs_slurp(char **out, size_t *out_bytes, const char *root, const char *fmt, ...)
{
	char path[CTL_PATH_SIZE], *text = NULL;
	size_t size = 16384;
	ssize_t at = 0, got;
	int fd, err;

	*out = NULL;
	*out_bytes = 0;
	PATH_OF_ARGUMENTS(path, err);
	fd = err ? err : open_text(path);
	if (fd < 0)
		return fd;
	do { /* files of /proc do not say how long they are */
		size *= 2;
		text = realloc(text, size);
		ASSERT(text);
		got = read_some(fd, text + at, size - 1 - (size_t)at);
		at += got < 0 ? 0 : got;
	} while (got >= 0 && (size_t)at == size - 1 && size <= CTL_FILE_MAX);
	close(fd);
	if (got < 0 || (size_t)at > CTL_FILE_MAX) {
		free(text);
		return got < 0 ? (int)got : -EFBIG;
	}
	text[at] = '\0';
	*out = text;
	*out_bytes = (size_t)at;
	return 0;
}

int ctl_parse_i64(const char *text, int64_t *out)
{
	char *end;
	long long v;
	int base = strncmp(text, "0x", 2) == 0 ? 16 : 10;

	errno = 0;
	v = strtoll(text, &end, base);
	if (errno || end == text || *end || is_blank(*text) || *text == '+')
		return -EINVAL;
	*out = v;
	return 0;
}

int ctl_sysfs_i64(int64_t *out, const char *root, const char *fmt, ...)
{
	char path[CTL_PATH_SIZE], text[64];
	int err;

	PATH_OF_ARGUMENTS(path, err);
	if (!err)
		err = ctl_sysfs_read(text, sizeof(text), "", "%s", path);
	return err ? err : ctl_parse_i64(text, out);
}

int ctl_sysfs_link(char *out, size_t out_size, const char *root, const char *fmt, ...)
{
	char path[CTL_PATH_SIZE], to[PATH_MAX];
	const char *last;
	ssize_t got;
	int err;

	out[0] = '\0';
	PATH_OF_ARGUMENTS(path, err);
	if (err)
		return err;
	got = readlink(path, to, sizeof(to) - 1);
	if (got < 0)
		return -errno;
	to[got] = '\0';
	last = strrchr(to, '/');
	last = last ? last + 1 : to;
	if (!*last || strlen(last) >= out_size)
		return -EINVAL;
	memcpy(out, last, strlen(last) + 1);
	ctl_printable(out);
	return 0;
}

bool ctl_sysfs_exists(const char *root, const char *fmt, ...)
{
	char path[CTL_PATH_SIZE];
	int err;

	PATH_OF_ARGUMENTS(path, err);
	return !err && access(path, F_OK) == 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

int ctl_sysfs_list(struct ctl_entries *out, const char *root, const char *fmt, ...)
{
	char path[CTL_PATH_SIZE];
	uint32_t room = 0;
	struct dirent *e;
	DIR *dir;
	int err;

	*out = (struct ctl_entries){ 0 };
	PATH_OF_ARGUMENTS(path, err);
	if (err)
		return err;
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		if (out->count == room) {
			room = room ? 2 * room : 16;
			out->name = realloc(out->name, (size_t)room * CTL_ENTRY_SIZE);
			ASSERT(out->name);
		}
		snprintf(out->name[out->count++], CTL_ENTRY_SIZE, "%s", e->d_name);
	}
	closedir(dir);
	if (out->count)
		qsort(out->name, out->count, CTL_ENTRY_SIZE, by_name);
	return 0;
}

void ctl_entries_free(struct ctl_entries *e)
{
	free(e->name);
	*e = (struct ctl_entries){ 0 };
}
