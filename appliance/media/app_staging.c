/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Buddies: a piece of order k starts at a page whose number is a multiple of 2^k; its
 * buddy is the one whose number differs in bit k.
 *
 * Invariants, true between any two calls:
 *
 *  (1) Every page belongs to exactly one piece; page[first].starts marks its first page.
 *  (2) A free piece is on free[its order], and its buddy of that order is not free whole.
 *  (3) A lost page is in a piece that is used, or that was given back and is on no list.
 *  (4) A pinned piece is used: it is on no list, and counts as used, until its last pin is gone.
 */
#include "appliance/media/app_staging.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE_SHIFT 12

static void put_free(struct app_staging *s, uint32_t at, uint32_t order)
{
	struct app_staging_page *p = &s->page[at];

	DASSERT(order < APP_STAGING_ORDERS && at % (1u << order) == 0); /* (1) */
	DASSERT(at + (1u << order) <= s->npages);
	p->order = (uint8_t)order;
	p->free = true;
	p->starts = true;
	list_push_front(&s->free[order], &p->link);
}

static uint32_t take_off(struct app_staging *s, struct app_staging_page *p)
{
	DASSERT(p->free && p->starts && list_linked(&p->link)); /* (2) */
	list_del(&p->link);
	p->free = false;
	return (uint32_t)(p - s->page);
}

int app_staging_init(struct app_staging *s, void *base, uint64_t size_bytes, uint64_t iova)
{
	uint32_t at = 0;

	ASSERT((uintptr_t)base % 4096 == 0 && size_bytes >> PAGE_SHIFT <= UINT32_MAX);
	*s = (struct app_staging){ .base = base, .iova = iova };
	s->npages = (uint32_t)(size_bytes >> PAGE_SHIFT);
	s->page = calloc(s->npages, sizeof(*s->page));
	if (!s->page)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->npages; i++)
		list_init(&s->page[i].link);
	for (uint32_t order = 0; order < APP_STAGING_ORDERS; order++)
		list_init(&s->free[order]);
	for (uint32_t order = APP_STAGING_ORDERS; order-- > 0;) {
		for (; at + (1u << order) <= s->npages; at += 1u << order)
			put_free(s, at, order);
	}
	ASSERT(at == s->npages); /* (1) */
	return 0;
}

void app_staging_fini(struct app_staging *s)
{
	ASSERT(s->pages_used == 0);
	free(s->page);
	s->page = NULL;
}

static uint32_t order_of(uint32_t size_bytes)
{
	uint32_t npages = (uint32_t)div_up(size_bytes, 1u << PAGE_SHIFT);

	ASSERT(size_bytes > 0 && size_bytes <= APP_STAGING_PIECE_MAX);
	return npages == 1 ? 0 : 32 - (uint32_t)__builtin_clz(npages - 1);
}

void *app_staging_take(struct app_staging *s, uint32_t size_bytes)
{
	uint32_t order = order_of(size_bytes), from = order, at;

	while (from < APP_STAGING_ORDERS && list_empty(&s->free[from]))
		from++;
	if (from == APP_STAGING_ORDERS)
		return NULL;
	at = take_off(s, list_entry(s->free[from].next, struct app_staging_page, link));
	while (from > order) {
		from--;
		put_free(s, at + (1u << from), from); /* (2): its buddy is split further */
	}
	s->page[at].order = (uint8_t)order;
	s->pages_used += 1u << order;
	DASSERT(s->page[at].starts && !s->page[at].free);    /* (1) */
	ASSERT(s->page[at].pins == 0 && !s->page[at].given); /* (4) */
	ASSERT(s->pages_used + s->pages_lost <= s->npages);
	return s->base + ((uint64_t)at << PAGE_SHIFT);
}

void app_staging_give(struct app_staging *s, void *piece)
{
	uint32_t at = (uint32_t)(((char *)piece - s->base) >> PAGE_SHIFT), order, buddy;

	ASSERT(at < s->npages);
	ASSERT(s->page[at].starts && !s->page[at].free);
	if (unlikely(s->page[at].pins)) { /* (4) */
		ASSERT(!s->page[at].given);
		s->page[at].given = true;
		return;
	}
	order = s->page[at].order;
	ASSERT(s->pages_used >= 1u << order);
	DASSERT(((uintptr_t)piece & 4095) == 0);
	s->pages_used -= 1u << order;
	for (uint32_t i = at; i < at + (1u << order); i++) {
		if (unlikely(s->page[i].lost)) {                 /* (3) */
			ASSERT(!list_linked(&s->page[at].link)); /* (3) */
			s->pages_lost += 1u << order;
			return;
		}
	}
	for (; order + 1 < APP_STAGING_ORDERS; order++) {
		buddy = at ^ (1u << order);
		if (buddy >= s->npages || !s->page[buddy].free || s->page[buddy].order != order)
			break;
		take_off(s, &s->page[buddy]);
		s->page[buddy].starts = s->page[at].starts = false;
		at = min_u32(at, buddy);
	}
	put_free(s, at, order);
}

wk_cold void app_staging_lose(struct app_staging *s, uint64_t iova, uint64_t size_bytes)
{
	uint64_t first = (iova - s->iova) >> PAGE_SHIFT, count = size_bytes >> PAGE_SHIFT;

	ASSERT(size_bytes % 4096 == 0);
	if (iova < s->iova || first + count > s->npages)
		return;
	for (uint64_t i = first; i < first + count; i++)
		s->page[i].lost = true;
}

/* The first page of the piece with the memory at `iova`. */
static uint32_t first_of(const struct app_staging *s, uint64_t iova)
{
	uint32_t at = (uint32_t)((iova - s->iova) >> PAGE_SHIFT);

	ASSERT(iova >= s->iova && at < s->npages);
	while (!s->page[at].starts)
		at--;
	ASSERT(!s->page[at].free); /* (1) */
	return at;
}

wk_cold void app_staging_pin(struct app_staging *s, uint64_t iova)
{
	struct app_staging_page *p = &s->page[first_of(s, iova)];

	ASSERT(!p->given && p->pins < UINT16_MAX);
	p->pins++;
}

wk_cold bool app_staging_unpin(struct app_staging *s, uint64_t iova)
{
	const uint32_t at = first_of(s, iova);
	struct app_staging_page *p = &s->page[at];

	ASSERT(p->pins > 0); /* (4) */
	if (--p->pins > 0 || !p->given)
		return false;
	p->given = false;
	app_staging_give(s, s->base + ((uint64_t)at << PAGE_SHIFT));
	return true;
}

#ifdef WK_DEBUG

static void free_check(const struct app_staging *s, uint32_t at)
{
	const struct app_staging_page *p = &s->page[at];
	const uint32_t buddy = at ^ (1u << p->order);

	ASSERT(p->starts && list_linked(&p->link)); /* (2) */
	ASSERT(p->pins == 0 && !p->given);          /* (4) */
	ASSERT(p->order + 1 == APP_STAGING_ORDERS || buddy >= s->npages || !s->page[buddy].free ||
	       s->page[buddy].order != p->order); /* (2) */
}

void app_staging_check(const struct app_staging *s)
{
	uint32_t used = 0;

	for (uint32_t at = 0; at < s->npages;) {
		const struct app_staging_page *p = &s->page[at];
		const uint32_t npages = 1u << p->order;

		ASSERT(p->starts && p->order < APP_STAGING_ORDERS && at % npages == 0); /* (1) */
		ASSERT(at + npages <= s->npages);
		if (p->free)
			free_check(s, at);
		else
			used += npages;
		for (uint32_t i = 1; i < npages; i++)
			ASSERT(!s->page[at + i].starts && !s->page[at + i].free); /* (1) */
		at += npages;
	}
	ASSERT(used == s->pages_used + s->pages_lost); /* (3) */
}

#endif
