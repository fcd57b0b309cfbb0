/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Writes small files into a tar archive: the format of POSIX, ustar. */
#ifndef CTL_TAR_H
#define CTL_TAR_H

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CTL_TAR_NAME_MAX 99u

/* Adds a file of mode 0600 that belongs to root.  Errors of `to` are those of ferror(). */
void ctl_tar_add(FILE *to, const char *name, const void *bytes, size_t size, uint64_t mtime_s);
void ctl_tar_end(FILE *to);

#endif
