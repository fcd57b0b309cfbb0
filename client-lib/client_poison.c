/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * For tests, with WEKA_POISON_WINDOWS set: nobody writes into a window that was given back.
 *
 * A payload that is late (an RDMA WRITE of a request that was cancelled, of a session that broke)
 * would land in memory that another request has by now, and be seen only where somebody compares
 * bytes, if at all.  So memory is filled when it is given back, and looked at when it is taken:
 *
 *     taken --give--> [db db db db db db db db] --take--> taken
 *                        nobody writes here      all db?
 *
 * Invariant: (1) every byte of a free run is POISON.
 */
#include "client-lib/client_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xdb }; /* of no meaning in any format */

static unsigned char *unit_at(const struct weka_client *c, uint32_t unit)
{
	return (unsigned char *)c->memory + (uint64_t)unit * WEKA_BLOCK;
}

static void look(struct weka_client *c, uint32_t unit, uint32_t units)
{
	const unsigned char *at = unit_at(c, unit);
	uint64_t bytes = (uint64_t)units * WEKA_BLOCK, i = 0;

	c->poison_looks++;
	if (at[0] == POISON && memcmp(at, at + 1, bytes - 1) == 0)
		return;
	while (at[i] == POISON)
		i++;
	fprintf(stderr,
		"weka: byte %llu of a free window of %llu bytes was written to: somebody wrote "
		"into it after it was given back\n",
		(unsigned long long)i, (unsigned long long)bytes);
	abort();
}

static void fill(struct weka_client *c, uint32_t unit, uint32_t units)
{
	memset(unit_at(c, unit), POISON, (uint64_t)units * WEKA_BLOCK);
}

static void each_free(struct weka_client *c, void (*act)(struct weka_client *, uint32_t, uint32_t))
{
	uint32_t unit = 0, units;

	if (!c->poisons || client__forked(c))
		return;
	for (; unit < c->pool.units; unit += units) {
		units = client__pool_run(&c->pool, unit);
		if (client__pool_is_free(&c->pool, unit))
			act(c, unit, units);
	}
}

void client__poison_begin(struct weka_client *c)
{
	const char *value = getenv("WEKA_POISON_WINDOWS");

	c->poisons = value && *value && strcmp(value, "0") != 0;
	client__poison_fill_free(c);
}

void client__poison_fill_free(struct weka_client *c)
{
	each_free(c, fill);
}

void client__poison_look_free(struct weka_client *c)
{
	each_free(c, look);
}

void client__poison_given(struct weka_client *c, uint32_t unit, uint32_t units)
{
	if (unlikely(c->poisons))
		fill(c, unit, units);
}

void client__poison_taken(struct weka_client *c, uint32_t unit, uint32_t units)
{
	if (unlikely(c->poisons))
		look(c, unit, units);
}
