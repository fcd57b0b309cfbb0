/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl check --copies: compares both copies of each block of a store of two copies, after a
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

static int report(const struct ctl *c, const struct meta_raw_compared *o)
{
	if (c->json)
		printf("{\"command\":\"compare\",\"pages\":%llu,\"blocks\":%llu,\"single\":%llu,"
		       "\"bad_first\":%llu,\"bad_second\":%llu,\"bad_both\":%llu}\n",
		       (unsigned long long)o->pages, (unsigned long long)o->blocks,
		       (unsigned long long)o->single, (unsigned long long)o->bad_first,
		       (unsigned long long)o->bad_second, (unsigned long long)o->bad_both);
	else
		printf("copies: %llu pages and %llu blocks compared, %llu of them have one copy; "
		       "%llu first copies are wrong, %llu second, %llu both\n",
		       (unsigned long long)o->pages, (unsigned long long)o->blocks,
		       (unsigned long long)o->single, (unsigned long long)o->bad_first,
		       (unsigned long long)o->bad_second, (unsigned long long)o->bad_both);
	return o->bad_first + o->bad_second + o->bad_both > 0;
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
		status = !err ? report(c, &found)
			 : err == -ENODATA
				 ? ctl_fail("check: %s", meta_raw_problem(ctl_raw_store(raw)))
				 : ctl_fail("check: %s", strerror(-err));
	}
	ctl_raw_close(raw);
	return status;
}
