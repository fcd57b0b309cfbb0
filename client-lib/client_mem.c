/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pools, cut into leases.
 *
 * A pool is one piece of memory that the appliance can reach, in units of 4 KiB.  It consists of
 * runs, free or taken.  The first and the last unit of a run record its length, so that a run that
 * is freed finds its neighbours and joins the free ones:
 *
 *     unit  0        4   6              15
 *           [taken 4][f 2][   taken 9   ]
 *     run   4 - - 4  F2 F2 9 - - - - - - 9
 *
 * Free runs are on lists by size class, eight classes for each power of two.  An allocation uses
 * the first class whose runs are all long enough; failing that, it checks a bounded number
 * of runs in the class below.  Both take constant time, and neither touches the pool's own memory,
 * because the appliance writes there.
 *
 * Invariants:
 *
 *  (1) Every unit is in exactly one run; two free runs are never neighbours.
 *  (2) A free run is on the list of its class, and any[] has the class's bit.
 *  (3) A lease's run is freed when the lease was released, no call names it, and it is not in a
 *      window of a broken session: then nobody can write there any more.
 */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUN_FREE  (1u << 31)
#define NONE      UINT32_MAX
#define LOOKS_MAX 16 /* runs checked in a class that has shorter ones */
#define SUB_BITS  3

/* Returns the class of runs of `units`. */
static uint32_t class_of(uint32_t units)
{
	uint32_t log2;

	ASSERT(units > 0);
	if (units < (1u << SUB_BITS))
		return units;
	log2 = 31 - (uint32_t)__builtin_clz(units);
	ASSERT(((log2 - SUB_BITS + 1) << SUB_BITS) + 7 < CLIENT_CLASSES);
	return ((log2 - SUB_BITS + 1) << SUB_BITS) + ((units >> (log2 - SUB_BITS)) & 7);
}

/* Returns the first class in which every run has at least `units`. */
static uint32_t class_above(uint32_t units)
{
	uint32_t class = class_of(units);

	ASSERT(units > 0 && class < CLIENT_CLASSES);
	return units < (1u << SUB_BITS) || class_of(units - 1) != class ? class : class + 1;
}

static void run_set(struct client_pool *p, uint32_t unit, uint32_t units, uint32_t flag)
{
	ASSERT(units > 0 && unit + units <= p->units);
	p->run[unit] = units | flag;
	p->run[unit + units - 1] = units | flag;
}

static void run_link(struct client_pool *p, uint32_t unit, uint32_t units)
{
	uint32_t class = class_of(units);

	ASSERT(class < CLIENT_CLASSES && p->first[class] != unit); /* (2) */
	run_set(p, unit, units, RUN_FREE);
	p->prev[unit] = NONE;
	p->next[unit] = p->first[class];
	if (p->first[class] != NONE)
		p->prev[p->first[class]] = unit;
	p->first[class] = unit;
	p->any[class / 64] |= 1ull << (class % 64);
}

static void run_unlink(struct client_pool *p, uint32_t unit)
{
	uint32_t class = class_of(p->run[unit] & ~RUN_FREE);

	ASSERT(p->run[unit] & RUN_FREE);
	ASSERT(p->any[class / 64] >> (class % 64) & 1);           /* (2) */
	ASSERT(p->prev[unit] != NONE || p->first[class] == unit); /* (2) */
	if (p->next[unit] != NONE)
		p->prev[p->next[unit]] = p->prev[unit];
	if (p->prev[unit] != NONE)
		p->next[p->prev[unit]] = p->next[unit];
	else
		p->first[class] = p->next[unit];
	if (p->first[class] == NONE)
		p->any[class / 64] &= ~(1ull << (class % 64));
}

int client__pool_create(struct client_pool *p, uint64_t size_bytes)
{
	uint64_t units = size_bytes / WEKA_BLOCK;

	ASSERT(!p->run && p->used_units == 0);
	if (units == 0 || units >= RUN_FREE)
		return -EINVAL;
	p->units = (uint32_t)units;
	p->run = calloc(3 * units, sizeof(*p->run));
	if (!p->run)
		return -ENOMEM;
	p->next = p->run + units;
	p->prev = p->next + units;
	memset(p->first, 0xff, sizeof(p->first));
	run_link(p, 0, p->units);
	return 0;
}

void client__pool_destroy(struct client_pool *p)
{
	free(p->run);
	p->run = NULL;
}

/* Returns the first run in a class from `class` on, or NONE. */
static uint32_t run_from(const struct client_pool *p, uint32_t class)
{
	uint32_t word = class / 64;
	uint64_t bits;

	if (class >= CLIENT_CLASSES)
		return NONE;
	bits = p->any[word] & (~0ull << (class % 64));
	while (!bits && ++word < CLIENT_CLASSES / 64)
		bits = p->any[word];
	ASSERT(word < CLIENT_CLASSES / 64 || !bits);
	ASSERT(!bits || p->first[word * 64 + (uint32_t)__builtin_ctzll(bits)] != NONE); /* (2) */
	return bits ? p->first[word * 64 + (uint32_t)__builtin_ctzll(bits)] : NONE;
}

/* Returns one of the first few runs in the class of `units` that is long enough. */
static uint32_t run_among(const struct client_pool *p, uint32_t units)
{
	uint32_t unit = p->first[class_of(units)];
	int looks;

	ASSERT(units > 0 && units <= p->units);
	for (looks = 0; looks < LOOKS_MAX && unit != NONE; looks++, unit = p->next[unit])
		if ((p->run[unit] & ~RUN_FREE) >= units)
			return unit;
	return NONE;
}

int client__pool_take(struct client_pool *p, uint32_t units, uint32_t *out)
{
	uint32_t unit, have;

	ASSERT(p->run && units > 0 && p->used_units <= p->units);
	if (units > p->units)
		return -EMSGSIZE;
	unit = run_from(p, class_above(units));
	if (unit == NONE)
		unit = run_among(p, units);
	if (unit == NONE)
		return -EAGAIN;

	have = p->run[unit] & ~RUN_FREE;
	run_unlink(p, unit);
	ASSERT(have >= units);
	run_set(p, unit, units, 0);
	if (have > units)
		run_link(p, unit + units, have - units);
	p->used_units += units;
	ASSERT(p->used_units <= p->units && p->run[unit] == units); /* (1) */
	*out = unit;
	return 0;
}

void client__pool_give(struct client_pool *p, uint32_t unit)
{
	uint32_t units = p->run[unit], before, after;

	ASSERT(p->run[unit + units - 1] == units); /* (1) */
	ASSERT(!(units & RUN_FREE) && unit + units <= p->units && units <= p->used_units);
	p->used_units -= units;
	after = unit + units < p->units ? p->run[unit + units] : 0;
	if (after & RUN_FREE) {
		run_unlink(p, unit + units);
		units += after & ~RUN_FREE;
	}
	before = unit > 0 ? p->run[unit - 1] : 0;
	if (before & RUN_FREE) {
		before &= ~RUN_FREE;
		unit -= before;
		run_unlink(p, unit);
		units += before;
	}
	ASSERT(unit == 0 || !(p->run[unit - 1] & RUN_FREE));                    /* (1) */
	ASSERT(unit + units == p->units || !(p->run[unit + units] & RUN_FREE)); /* (1) */
	run_link(p, unit, units);
}

int client__leases_create(struct weka_client *c, uint32_t leases_max)
{
	uint32_t i;

	ASSERT(!c->leases && leases_max > 0);
	c->leases = calloc(leases_max, sizeof(*c->leases));
	if (!c->leases)
		return -ENOMEM;
	c->leases_max = leases_max;
	for (i = leases_max; i-- > 0;) {
		c->leases[i].next_free = c->leases_free;
		c->leases_free = &c->leases[i];
	}
	return 0;
}

/* `added`: a pool of the caller's, or NULL: the library's own. */
static int lease_from(struct weka_client *c, struct weka_pool *added, uint64_t size_bytes,
		      struct weka_lease **out)
{
	struct client_pool *pool = added ? &added->runs : &c->pool;
	struct client_lease *lease = c->leases_free;
	uint64_t units = size_bytes / WEKA_BLOCK + (size_bytes % WEKA_BLOCK != 0);

	ASSERT(pool->run && pool->used_units <= pool->units);
	if (units == 0)
		return client__say(c, -EINVAL, "a lease of no bytes");
	if (units > pool->units)
		return client__say(c, -EMSGSIZE, "a lease of %llu bytes: the pool has %llu",
				   (unsigned long long)size_bytes,
				   (unsigned long long)pool->units * WEKA_BLOCK);
	if (!lease)
		return client__say(c, -EAGAIN, "%u leases are out (leases_max): release some",
				   c->leases_max);
	if (client__pool_take(pool, (uint32_t)units, &lease->unit))
		return client__say(
			c, -EAGAIN,
			"no piece of %llu bytes is free in the pool: release some leases",
			(unsigned long long)size_bytes);

	ASSERT(!lease->client && lease->unit + units <= pool->units);
	if (!added)
		client__poison_taken(c, lease->unit, (uint32_t)units);
	c->leases_free = lease->next_free;
	lease->client = c;
	lease->added = added;
	lease->units = (uint32_t)units;
	lease->calls = 0;
	lease->orphans = 0;
	lease->released = false;
	lease->lost = false;
	lease->pub.data = (added ? added->memory : c->memory) + (uint64_t)lease->unit * WEKA_BLOCK;
	lease->pub.size_bytes = units * WEKA_BLOCK;
	lease->pub.user = NULL;
	*out = &lease->pub;
	return 0;
}

int client__lease(struct weka_client *c, uint64_t size_bytes, struct weka_lease **out)
{
	return lease_from(c, NULL, size_bytes, out);
}

int weka_lease(struct weka_client *c, uint64_t size_bytes, struct weka_lease **out)
{
	CLIENT_NEED(c, out);
	return CLIENT_ENTERED(c, client__lease(c, size_bytes, out));
}

static int pool_lease(struct weka_client *c, struct weka_pool *pool, uint64_t size_bytes,
		      struct weka_lease **out)
{
	if (unlikely(!client__added_is(c, pool)))
		return client__say(c, -EINVAL, "weka_pool_lease: not a pool of this client");
	return lease_from(c, pool, size_bytes, out);
}

int weka_pool_lease(struct weka_client *c, struct weka_pool *pool, uint64_t size_bytes,
		    struct weka_lease **out)
{
	CLIENT_NEED(c, pool);
	CLIENT_NEED(c, out);
	return CLIENT_ENTERED(c, pool_lease(c, pool, size_bytes, out));
}

/* Frees the lease's run if (3) allows it. */
void client__lease_put(struct client_lease *lease)
{
	struct weka_client *c = lease->client;

	ASSERT(c && lease->orphans <= lease->calls);
	if (!lease->released || lease->calls > 0 || lease->lost)
		return;
	if (!lease->added)
		client__poison_given(c, lease->unit, lease->units);
	client__pool_give(client__pool_of(lease), lease->unit);
	ASSERT(lease->orphans == 0); /* (3) */
	lease->client = NULL;
	lease->next_free = c->leases_free;
	c->leases_free = lease;
}

static int release(struct weka_client *c, struct weka_lease *pub)
{
	struct client_lease *lease = client__lease_of(c, pub);

	if (unlikely(!lease))
		return client__say(c, -EINVAL, "weka_release: not a lease of this client");
	if (unlikely(!lease->client || lease->released))
		return client__say(c, -ESTALE, "weka_release: the lease was released before");
	ASSERT(lease->client == c);
	lease->released = true;
	client__lease_put(lease);
	return 0;
}

int weka_release(struct weka_client *c, struct weka_lease *pub)
{
	if (!pub)
		return 0;
	return CLIENT_ENTERED(c, release(c, pub));
}

void client__leases_copy(const struct weka_client *c, char *fresh)
{
	ASSERT(c->memory && fresh && fresh != c->memory);
	for (uint32_t i = 0; i < c->leases_max; i++) {
		const struct client_lease *lease = &c->leases[i];
		uint64_t at = (uint64_t)lease->unit * WEKA_BLOCK;

		if (lease->client && !lease->added && !lease->released)
			memcpy(fresh + at, c->memory + at, (uint64_t)lease->units * WEKA_BLOCK);
	}
}

void client__leases_found(struct weka_client *c)
{
	for (uint32_t i = 0; i < c->leases_max; i++) {
		struct client_lease *lease = &c->leases[i];

		if (!lease->client)
			continue;
		ASSERT(lease->calls >= lease->orphans);
		lease->lost = false;
		client__lease_put(lease);
	}
}

uint32_t weka_window_bytes(uint32_t count, uint64_t bytes_each)
{
	uint64_t blocks = div_up(bytes_each, WEKA_BLOCK), bytes;

	if (count == 0 || count > WEKA_BATCH_MAX || bytes_each > WEKA_READ_MAX)
		return 0;
	/* The blocks; a checksum each; a part (at least 32 items, or 1 MiB over tcp) begins at a
	 * whole block after the checksums of the part before; and the answers. */
	blocks *= count;
	bytes = blocks * WEKA_BLOCK;
	bytes += align_up(blocks * sizeof(uint32_t), WEKA_BLOCK);
	bytes += WEKA_BLOCK * (count / 32 + blocks / 256 + 1);
	bytes += align_up((uint64_t)count * FAB_ANSWER_BYTES, WEKA_BLOCK);
	ASSERT(bytes % WEKA_BLOCK == 0 && bytes >= (uint64_t)count * bytes_each);
	return bytes > WEKA_READ_MAX ? 0 : (uint32_t)bytes;
}
