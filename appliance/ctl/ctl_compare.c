/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl check --copies: compares all copies of each block of a store of several copies, after a
 * check that found nothing.  The drives are only read; the scrub of a running appliance mends.
 */
#include "appliance/ctl/ctl.h"
#include "meta/offline/meta_raw.h"

#include <errno.h>
#include <string.h>

#define LINES_MAX 50u

static void say(void *arg, const char *line)
{
	uint64_t *count = arg;

	if (++*count <= LINES_MAX)
		(void)ctl_fail("check: %s", line);
	else if (*count == LINES_MAX + 1)
		(void)ctl_fail("check: more copies are wrong, which are counted only");
}

static int report(const struct ctl *c, const struct meta_raw_compared *o, uint32_t copies)
{
	const unsigned long long pages = o->pages, blocks = o->blocks, few = o->few,
				 first = o->bad[0], second = o->bad[1], third = o->bad[2],
				 all = o->bad_all;

	if (c->json)
		printf("{\"command\":\"compare\",\"pages\":%llu,\"blocks\":%llu,\"single\":%llu,"
		       "\"bad_first\":%llu,\"bad_second\":%llu,\"bad_third\":%llu,"
		       "\"bad_both\":%llu}\n",
		       pages, blocks, few, first, second, third, all);
	else if (copies > 2)
		printf("copies: %llu pages and %llu blocks compared, %llu of them have fewer than "
		       "three copies; %llu first copies are wrong, %llu second, %llu third, %llu "
		       "all\n",
		       pages, blocks, few, first, second, third, all);
	else
		printf("copies: %llu pages and %llu blocks compared, %llu of them have one copy; "
		       "%llu first copies are wrong, %llu second, %llu both\n",
		       pages, blocks, few, first, second, all);
	return first + second + third + all > 0;
}

int ctl_compare(struct ctl *c)
{
	struct meta_raw_compared found;
	uint64_t lines = 0;
	struct ctl_raw *raw;
	int status = ctl_raw_open(c, &raw), err;

	if (status)
		return status;
	if (meta_raw_copies(ctl_raw_store(raw)) == 1) {
		status = ctl_fail("check: --copies: the store has one copy of each block");
	} else {
		err = meta_raw_compare(ctl_raw_store(raw), &found, say, &lines);
		status = !err ? report(c, &found, meta_raw_copies(ctl_raw_store(raw)))
			 : err == -ENODATA
				 ? ctl_fail("check: %s", meta_raw_problem(ctl_raw_store(raw)))
				 : ctl_fail("check: %s", strerror(-err));
	}
	ctl_raw_close(raw);
	return status;
}
