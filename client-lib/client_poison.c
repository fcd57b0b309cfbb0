/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * For tests, with WEKA_POISON_WINDOWS set: detects writes into a window that was given back.
 *
 * A late payload (an RDMA WRITE for a request that was cancelled, or of a session that broke) would
 * land in memory that belongs to another request by then, and be noticed only where somebody
 * compares bytes.  So memory is filled when it is given back, and compared when it is taken:
 *
 *     taken --give--> [db db db db db db db db] --take--> taken
 *                        no writes here          all db?
 *
 * Memory that was never taken is not filled, so a client that leases little pays little.
 *
 * Invariant: (1) every byte of a unit that poisons[] names is POISON, and the unit is free.
 */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xdb }; /* has no meaning in any format */

static unsigned char *unit_at(const struct weka_client *c, uint32_t unit)
{
	ASSERT(c->memory && unit < c->pool.units);
	return (unsigned char *)c->memory + (uint64_t)unit * WEKA_BLOCK;
}

static wk_cold _Noreturn void was_written(const struct weka_client *c, uint32_t unit, uint64_t byte,
					  uint64_t bytes)
{
	const unsigned char *at = unit_at(c, unit);

	ASSERT(bytes > 0 && byte < bytes);
	while (*at == POISON) {
		at++;
		byte++;
	}
	fprintf(stderr,
		"weka: byte %llu of a free window of %llu bytes was written to: somebody wrote "
		"into it after it was given back\n",
		(unsigned long long)byte, (unsigned long long)bytes);
	abort();
}

static void look(struct weka_client *c, uint32_t unit, uint32_t units)
{
	ASSERT(c->poisons && unit + units <= c->pool.units);
	c->poison_looks++;
	for (uint32_t i = 0; i < units; i++) {
		const unsigned char *at = unit_at(c, unit + i);

		if (!c->poisons[unit + i])
			continue;
		c->poisons[unit + i] = 0;
		if (at[0] != POISON || memcmp(at, at + 1, WEKA_BLOCK - 1) != 0)
			was_written(c, unit + i, (uint64_t)i * WEKA_BLOCK,
				    (uint64_t)units * WEKA_BLOCK);
	}
}

int client__poison_begin(struct weka_client *c)
{
	const char *value = getenv("WEKA_POISON_WINDOWS");

	ASSERT(!c->poisons && c->pool.units > 0);
	if (!value || !*value || strcmp(value, "0") == 0)
		return 0;
	c->poisons = calloc(c->pool.units, sizeof(*c->poisons));
	return c->poisons ? 0 : -ENOMEM;
}

void client__poison_forget(struct weka_client *c)
{
	if (c->poisons)
		memset(c->poisons, 0, c->pool.units);
}

void client__poison_end(struct weka_client *c)
{
	if (c->poisons && !client__forked(c))
		look(c, 0, c->pool.units);
	free(c->poisons);
	c->poisons = NULL;
}

void client__poison_given(struct weka_client *c, uint32_t unit, uint32_t units)
{
	if (likely(!c->poisons))
		return;
	ASSERT(units > 0 && !c->poisons[unit]); /* (1) */
	memset(unit_at(c, unit), POISON, (uint64_t)units * WEKA_BLOCK);
	memset(c->poisons + unit, 1, units);
}

void client__poison_taken(struct weka_client *c, uint32_t unit, uint32_t units)
{
	if (unlikely(c->poisons))
		look(c, unit, units);
	ASSERT(!c->poisons || !c->poisons[unit]); /* (1) */
}
