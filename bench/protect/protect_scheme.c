/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The cost of a scheme by arithmetic, for K zones of data and M others:
 *
 *              written at once          later                      on drives in the end
 *   none       1 copy                   -                          1
 *   mirror     2 copies                 -                          2
 *   K+M        M + 1 copies             M zones of parity for K    (K + M) / K
 *                                       zones; M copies go
 *
 * Each durable write has a block of the log, which has as many copies as new data, but two at least
 * if there are two drives.  Pages of the index are left out: for large files they are few.
 *
 *  (1) A block on a lost drive is computed from K others, if it is in a fold, or read from another
 *      copy [test_bench_protect:reads_without_drives].
 */
#include "bench/protect/protect_scheme.h"
#include "base/assert.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

#define LOG_BLOCK 4096.0
#define DATA_MAX  10u
#define MORE_MAX  2u

/* "4+2": K of one or two digits, M of one. */
static bool parse_sum(const char *text, size_t size, struct protect_scheme *out)
{
	int end = 0;

	if (text[0] == '+' || strspn(text, "0123456789+") != size ||
	    sscanf(text, "%2u+%1u%n", &out->data, &out->more, &end) != 2)
		return false;
	return (size_t)end == size && out->data >= 1 && out->data <= DATA_MAX && out->more >= 1 &&
	       out->more <= MORE_MAX;
}

bool protect_scheme_parse(const char *text, size_t size, struct protect_scheme *out)
{
	struct protect_scheme s = { .data = 1 };

	if (size == 0 || size >= sizeof(s.name))
		return false;
	memcpy(s.name, text, size);
	if (strcmp(s.name, "mirror") == 0)
		s.more = 1;
	else if (strcmp(s.name, "none") != 0 && !parse_sum(s.name, size, &s))
		return false;
	*out = s;
	return true;
}

uint32_t protect_scheme_drives(const struct protect_scheme *s)
{
	ASSERT(s->data >= 1 && s->data <= DATA_MAX);
	return s->data + 2 * s->more;
}

double protect_scheme_space(const struct protect_scheme *s)
{
	ASSERT(s->data >= 1);
	return (double)(s->data + s->more) / s->data;
}

double protect_scheme_written(const struct protect_scheme *s, uint32_t bytes, uint32_t drives)
{
	const uint32_t copies = 1 + s->more, log_copies = max_u32(copies, min_u32(drives, 2));

	ASSERT(bytes > 0 && drives >= copies);
	return copies + log_copies * LOG_BLOCK / bytes;
}

double protect_scheme_written_later(const struct protect_scheme *s, uint32_t bytes, uint32_t drives)
{
	const double parity = s->data > 1 ? (double)s->more / s->data : 0;

	ASSERT(bytes > 0);
	return protect_scheme_written(s, bytes, drives) + parity;
}

double protect_scheme_read(const struct protect_scheme *s, uint32_t lost, uint32_t drives)
{
	ASSERT(lost <= s->more && lost < drives); /* else nothing can be read: (1) */
	return 1 + (double)lost / drives * (s->data - 1);
}
