/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Ranges of keys, laid over one another; the caller asks repeatedly which parts are covered so far.
 *
 *   ends of ranges   a       b   c           d
 *   cells            0   1   2 3 4     5     6       2 i: the end itself; then the gap after it
 *
 *  (1) Each cell becomes covered once: open[] leads past the covered cells, and each search
 *      shortens it (a forest of sets, R. E. Tarjan 1975).
 *  (2) sum[] counts the covered cells of a stretch (P. M. Fenwick 1994).  So n ranges,
 *      and as many questions, cost n log n, for a store with millions of leaves.
 */
#include "meta/engine/meta_cover.h"

#include <errno.h>
#include <stdlib.h>

static int point_cmp(const void *a, const void *b)
{
	const struct meta__cover_point *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return meta__key_cmp(&x->key, &y->key);
}

int meta__cover_make(struct meta__cover *c, struct meta__cover_point *ends, uint64_t count)
{
	uint64_t n = 0;

	*c = (struct meta__cover){ .point = ends };
	if (count)
		qsort(ends, count, sizeof(*ends), point_cmp);
	for (uint64_t i = 0; i < count; i++)
		if (n == 0 || point_cmp(&ends[n - 1], &ends[i]) != 0)
			ends[n++] = ends[i];
	c->points = n;
	ASSERT(n < UINT32_MAX / 2);
	c->open = malloc((2 * n + 1) * sizeof(*c->open));
	c->sum = calloc(2 * n + 1, sizeof(*c->sum));
	if (!c->open || !c->sum) {
		meta__cover_free(c);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i <= 2 * n; i++)
		c->open[i] = i; /* the last one stays so */
	return 0;
}

void meta__cover_free(struct meta__cover *c)
{
	free(c->point);
	free(c->open);
	free(c->sum);
	*c = (struct meta__cover){ 0 };
}

/* Returns the cell of a key; 2 * points: it is before all ends. */
static uint32_t cell_of(const struct meta__cover *c, uint32_t shard, const struct meta_key *key)
{
	const struct meta__cover_point want = { .key = *key, .shard = shard };
	uint64_t lo = 0, hi = c->points;

	while (lo < hi) { /* the first end after it */
		const uint64_t mid = (lo + hi) / 2;

		if (point_cmp(&c->point[mid], &want) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	ASSERT(lo <= c->points);
	if (lo == 0)
		return (uint32_t)(2 * c->points);
	return (uint32_t)(2 * (lo - 1) + (point_cmp(&c->point[lo - 1], &want) != 0));
}

static uint32_t first_open(struct meta__cover *c, uint32_t cell)
{
	ASSERT(cell <= 2 * c->points);
	while (c->open[cell] != cell) {
		c->open[cell] = c->open[c->open[cell]];
		cell = c->open[cell];
	}
	return cell;
}

static uint32_t covered_before(const struct meta__cover *c, uint32_t cell)
{
	uint32_t sum = 0;

	ASSERT(cell <= 2 * c->points);
	for (; cell; cell &= cell - 1)
		sum += c->sum[cell];
	return sum;
}

void meta__cover_add(struct meta__cover *c, uint32_t shard, const struct meta_key *first,
		     const struct meta_key *last)
{
	const uint32_t cells = (uint32_t)(2 * c->points), end = cell_of(c, shard, last);
	uint32_t cell = cell_of(c, shard, first);

	ASSERT(cell % 2 == 0 && end % 2 == 0 && end < cells);
	for (cell = first_open(c, cell); cell <= end; cell = first_open(c, cell)) {
		ASSERT(c->open[cell] == cell);             /* (1) */
		c->open[cell] = cell + 1;                  /* (1) */
		DASSERT(covered_before(c, cells) < cells); /* (2) */
		for (uint32_t i = cell + 1; i <= cells; i += i & -i)
			c->sum[i]++;
	}
}

bool meta__cover_has(const struct meta__cover *c, uint32_t shard, const struct meta_key *key)
{
	const uint32_t cell = cell_of(c, shard, key);

	return cell < 2 * c->points && c->open[cell] != cell;
}

bool meta__cover_meets(const struct meta__cover *c, uint32_t shard, const struct meta_key *first,
		       const struct meta_key *last)
{
	const uint32_t from = cell_of(c, shard, first), to = cell_of(c, shard, last);

	DASSERT(c->points > 0 || (from == 0 && to == 0));
	return from <= to && to < 2 * c->points &&
	       covered_before(c, to + 1) > covered_before(c, from);
}
