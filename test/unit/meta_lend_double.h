/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Where there are no readers: nothing is lent.  Included by one test at a time. */
#ifndef TEST_META_LEND_DOUBLE_H
#define TEST_META_LEND_DOUBLE_H

#include "meta/engine/meta_lend.h"

int meta__lend_create(struct meta *m)
{
	(void)m;
	UNREACHABLE();
}

void meta__lend_destroy(struct meta *m)
{
	(void)m;
	UNREACHABLE();
}

bool meta__lend_home(struct meta *m, uint32_t shard)
{
	(void)m;
	(void)shard;
	UNREACHABLE();
}

bool meta__lend_all_home(struct meta *m)
{
	(void)m;
	return true;
}

void meta__lend_changed(struct meta *m, uint32_t shard)
{
	(void)m;
	(void)shard;
	UNREACHABLE();
}

void meta__lend_others(struct meta *m, uint32_t shard)
{
	(void)m;
	(void)shard;
	UNREACHABLE();
}

void meta__borrow_begin(struct meta *m, uint32_t shard)
{
	(void)m;
	(void)shard;
	UNREACHABLE();
}

int meta__borrow_ready(struct meta *m)
{
	(void)m;
	UNREACHABLE();
}

void meta__borrow_log(struct meta *m)
{
	(void)m;
	UNREACHABLE();
}

void meta__borrow_changed(struct meta *m, struct meta__frame *f)
{
	(void)m;
	(void)f;
	UNREACHABLE();
}

void meta__borrow_live(struct meta *m, uint32_t zone, int64_t blocks)
{
	(void)m;
	(void)zone;
	(void)blocks;
	UNREACHABLE();
}

bool meta__borrow_receipt(struct meta *m, const struct meta__mut *mut)
{
	(void)m;
	(void)mut;
	UNREACHABLE();
}

struct meta__frame *meta__borrow_frame(struct meta *m, uint32_t level)
{
	(void)m;
	(void)level;
	UNREACHABLE();
}

void meta__borrow_placed(struct meta *m, struct meta__frame *f)
{
	(void)m;
	(void)f;
	UNREACHABLE();
}

void meta__borrow_dead(struct meta *m, struct meta__frame *f)
{
	(void)m;
	(void)f;
	UNREACHABLE();
}

#endif
