/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Basics for all parts of the store: its memory, its line about the last error, and the queue of
 * I/O that it wants.
 */
#include "meta/engine/meta_pair.h"

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

static bool is_of_files_or_pages(const struct meta__io *x)
{
	return x->kind == META__IO_PAGE_WRITE || x->kind == META__IO_GC;
}

/* meta_pair.c */
static void choose_copies(struct meta *m, struct meta__io *x)
{
	uint32_t skips = x->skips + (uint32_t)!meta__drive_reads(m, x->io.drive);

	ASSERT(m->copies > 1);
	x->turned = 0;
	for (; x->io.op == META_IO_READ && skips > 0 && meta__io_turns(m, x); skips--)
		x->turned++;
	x->skips = 0;
	if (x->io.op != META_IO_WRITE || !is_of_files_or_pages(x))
		return;
	meta__io_copies(m, x);
	for (uint32_t i = 0; i < x->others; i++)
		list_push_back(&m->io_wanted, &x->other[i].link);
}

void meta__io_want(struct meta *m, struct meta__io *x)
{
	ASSERT(!m->home);
	ASSERT(x->io.drive < META_DRIVES_MAX);
	if (x->io.op == META_IO_WRITE && x->kind != META__IO_LOG && x->kind != META__IO_GC &&
	    x->kind != META__IO_FOLD)
		m->index_blocks += x->io.nblocks;
	x->io.must = is_must(x);
	x->io.gone = false;
	x->io.spare = x->kind == META__IO_LOG ? meta__log_spares(m, x) : x->kind == META__IO_ZONE;
	x->io.hasty = meta__may_lose(m) && x->io.must;
	if (unlikely(m->copies > 1))
		choose_copies(m, x);
	ASSERT(x->io.op == META_IO_FLUSH ||
	       x->io.block + x->io.nblocks <= m->conf.drive[x->io.drive].nblocks);
	list_push_back(&m->io_wanted, &x->io.link);
}

struct meta__io *meta__io_back(struct meta *m, struct meta_io *io)
{
	struct meta__io *x = io->copy ? container_of(io - io->copy + 1, struct meta__io, other[0])
				      : container_of(io, struct meta__io, io);

	ASSERT(!io->copy || io->copy < m->copies);
	if (likely(m->copies < 2))
		return x;
	if (x->out > 0)
		return meta__io_joined(m, x) ? x : NULL;
	if (io->status == 0 || io->op != META_IO_READ || io->lost || x->turned + 1u >= m->copies)
		return x;
	x->turned++;
	if (!meta__io_turns(m, x))
		return x;
	io->status = 0;
	list_push_back(&m->io_wanted, &io->link);
	return NULL;
}

struct meta_io *meta_io_next(struct meta *m)
{
	struct list *l = list_pop_front(&m->io_wanted);

	return l ? list_entry(l, struct meta_io, link) : NULL;
}
