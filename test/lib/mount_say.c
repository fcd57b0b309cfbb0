/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Messages of weka-mount, whose main is not in unit tests. */
#include "client-lib/mount/mount.h"

#include <stdarg.h>
#include <stdio.h>

void mount_say(const struct mount_fs *fs, const char *format, ...)
{
	va_list args;

	(void)fs;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
}
