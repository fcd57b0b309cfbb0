/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A header of 512 bytes for each file, its bytes, and zeros up to the next multiple of 512; two
 * blocks of zeros at the end.  Numbers are octal text.
 *
 *   name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | sum 8 | type 1 | ... | magic 6 | ...
 */
#include "appliance/ctl/ctl_tar.h"
#include "base/num.h"

#include <string.h>

#define BLOCK    512u
#define SUM_AT   148u
#define TYPE_AT  156u
#define MAGIC_AT 257u

static const char zeros[2 * BLOCK];

static void put_octal(char *at, int digits, uint64_t value)
{
	char text[24];

	ASSERT(snprintf(text, sizeof(text), "%0*llo", digits, (unsigned long long)value) == digits);
	memcpy(at, text, (size_t)digits);
}

void ctl_tar_add(FILE *to, const char *name, const void *bytes, size_t size, uint64_t mtime_s)
{
	char head[BLOCK] = { 0 };
	unsigned sum = 0;

	ASSERT(strlen(name) <= CTL_TAR_NAME_MAX);
	memcpy(head, name, strlen(name));
	put_octal(head + 100, 7, 0600);
	put_octal(head + 108, 7, 0);
	put_octal(head + 116, 7, 0);
	put_octal(head + 124, 11, size);
	put_octal(head + 136, 11, mtime_s);
	memset(head + SUM_AT, ' ', 8); /* while it is computed */
	head[TYPE_AT] = '0';
	memcpy(head + MAGIC_AT,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)head[i];
	put_octal(head + SUM_AT, 6, sum);
	head[SUM_AT + 6] = '\0';
	fwrite(head, 1, BLOCK, to);
	fwrite(bytes, 1, size, to);
	fwrite(zeros, 1, align_up(size, BLOCK) - size, to);
}

void ctl_tar_end(FILE *to)
{
	fwrite(zeros, 1, sizeof(zeros), to);
}
