/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl: the kernel's information about the machine, in /sys, /proc and /dev.
 *
 * Every path is behind `root`: "" is this machine, a directory is a machine that a test has made.
 * The content is foreign text: it may be empty, endless, not text at all, or absent.
 */
#ifndef CTL_SYSFS_H
#define CTL_SYSFS_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CTL_PATH_SIZE  1024u
#define CTL_ENTRY_SIZE 256u /* of a name in a directory, with its NUL */
#define CTL_FILE_MAX   (16u << 20)

/* root + what fmt says into `out`.  Errors: -ENAMETOOLONG. */
__attribute__((format(printf, 3, 4))) must_check int ctl_sysfs_path(char out[CTL_PATH_SIZE],
								    const char *root,
								    const char *fmt, ...);

/*
 * Reads one attribute into `out`, without blanks at its ends; bytes that are not printable ASCII
 * become '?'.  Truncated when it is too long.  On failure `out` is empty.  Errors: those of open()
 * and read(); -EINVAL when it is not a regular file.
 */
__attribute__((format(printf, 4, 5))) must_check int ctl_sysfs_read(char *out, size_t out_size,
								    const char *root,
								    const char *fmt, ...);

/*
 * Reads a whole file, free()d by the caller, followed by a NUL (and perhaps with others in it).
 * Errors: also -EFBIG beyond CTL_FILE_MAX.
 */
__attribute__((format(printf, 4, 5))) must_check int ctl_sysfs_slurp(char **out, size_t *out_bytes,
								     const char *root,
								     const char *fmt, ...);

/* Reads a number: decimal, or hexadecimal after 0x.  Errors: also -EINVAL. */
__attribute__((format(printf, 3, 4))) must_check int ctl_sysfs_i64(int64_t *out, const char *root,
								   const char *fmt, ...);

/* Reads the last component of a link's target.  On failure `out` is empty. */
__attribute__((format(printf, 4, 5))) must_check int ctl_sysfs_link(char *out, size_t out_size,
								    const char *root,
								    const char *fmt, ...);

__attribute__((format(printf, 2, 3))) bool ctl_sysfs_exists(const char *root, const char *fmt, ...);

struct ctl_entries { /* of a directory, sorted */
	uint32_t count;
	char (*name)[CTL_ENTRY_SIZE];
};

/* Lists a directory; ctl_entries_free() also after a failure. */
__attribute__((format(printf, 3, 4))) must_check int ctl_sysfs_list(struct ctl_entries *out,
								    const char *root,
								    const char *fmt, ...);
void ctl_entries_free(struct ctl_entries *e);

/*
 * Write `text` in one write() into a file that is there: what makes the kernel do something.  In a
 * file of its own, so that a test puts a kernel that it has made in its place.
 */
must_check int ctl_sysfs_write(const char *root, const char *path, const char *text);

/* A number that fills the whole text.  Errors: -EINVAL. */
must_check int ctl_parse_i64(const char *text, int64_t *out);

/* `text` with '?' for every byte that a terminal or a program could trip over. */
void ctl_printable(char *text);

#endif
