/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Basics for all parts of the store: its memory, its line about the last error, and the queue of
 * I/O that it wants.
 */
#include "meta/meta_store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void *meta__mem_take(struct meta *m, uint64_t bytes)
{
	uint8_t *at = m->mem_next;
	uint8_t *end = (uint8_t *)m->conf.memory + m->conf.memory_bytes;
	ASSERT(at <= end);

	bytes = align_up(bytes, META__BLOCK);
	ASSERT(bytes <= (uint64_t)(end - at)); /* meta.c (1) */
	m->mem_next += bytes;
	return at;
}

/* ---- what went wrong --------------------------------------------------------- */

void meta__error(struct meta *m, const char *fmt, ...)
{
	va_list args;

	if (m->error[0])
		return;
	va_start(args, fmt);
	(void)vsnprintf(m->error, sizeof(m->error), fmt, args);
	va_end(args);
}

void meta__fail(struct meta *m)
{
	ASSERT(!m->home);
	m->failed = -EROFS;
	meta__log_fail(m);
	ASSERT(m->failed == -EROFS);
}

void meta_freeze(struct meta *m)
{
	ASSERT(m->mounted);
	meta__error(m, "its drives cannot be written: it takes no changes until they can");
	meta__fail(m);
}

int meta_health(const struct meta *m)
{
	return m->failed;
}

/* ---- I/O --------------------------------------------------------------------- */

/* Returns true for an I/O whose failure makes the store fail. */
static bool is_must(const struct meta__io *x)
{
	return x->io.op != META_IO_READ &&
	       (x->kind == META__IO_LOG || x->kind == META__IO_ZONE || x->kind == META__IO_CKPT ||
		x->kind == META__IO_PAGE_WRITE);
}

void meta__io_want(struct meta *m, struct meta__io *x)
{
	ASSERT(!m->home);
	ASSERT(x->io.drive < META_DRIVES_MAX);
	ASSERT(x->io.op == META_IO_FLUSH ||
	       x->io.block + x->io.nblocks <= m->conf.drive[x->io.drive].nblocks);
	if (x->io.op == META_IO_WRITE && x->kind != META__IO_LOG && x->kind != META__IO_GC)
		m->index_blocks += x->io.nblocks;
	x->io.must = is_must(x);
	x->io.gone = false;
	x->io.spare = x->kind == META__IO_LOG ? meta__log_spares(m, x) : x->kind == META__IO_ZONE;
	list_push_back(&m->io_wanted, &x->io.link);
}

struct meta_io *meta_io_next(struct meta *m)
{
	struct list *l = list_pop_front(&m->io_wanted);

	return l ? list_entry(l, struct meta_io, link) : NULL;
}
