/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The double of meta_pair.c: a store of one copy, whose only drive never fails. */
#ifndef TEST_META_PAIR_DOUBLE_H
#define TEST_META_PAIR_DOUBLE_H

#include "meta/engine/meta_pair.h"

bool meta__drive_reads(const struct meta *m, uint32_t drive)
{
	(void)m;
	return drive == 0;
}

bool meta__may_lose(const struct meta *m)
{
	return m->copies > 1;
}

bool meta__drive_lose(struct meta *m, uint32_t drive)
{
	(void)m;
	(void)drive;
	return false;
}

bool meta_drive_failed(struct meta *m, uint32_t drive)
{
	return meta__drive_lose(m, drive);
}

uint32_t meta__twin(const struct meta *m, uint32_t zone)
{
	(void)m;
	(void)zone;
	return META__ZONE_NONE;
}

bool meta__in_pairs(const struct meta *m)
{
	(void)m;
	return false;
}

uint32_t meta__groups_total(const struct meta *m)
{
	(void)m;
	return 1024;
}

#endif
