/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A mount chooses the set of drives of the store, from the superblocks of those that are there.
 * The rules have the numbers of meta_drives.c.
 *
 *   a superblock of each drive --> the newest set --> ... without the drives that are missing, or
 *   back to the one before --> do its drives, their sizes and the roots fit?  --> it is written
 *   everywhere before anything else (meta__drives_settle())
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool meta__drives_given(const struct meta *m, uint32_t drive)
{
	return drive < m->conf.ndrives && m->conf.drive[drive].nblocks &&
	       !m->conf.drive[drive].missing;
}

uint32_t meta__drives_missing(const struct meta *m)
{
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		if (m->conf.drive[d].missing)
			return d;
	return META_DRIVES_MAX;
}

static bool is_same_set(const struct meta__super *a, const struct meta__super *b)
{
	ASSERT(a->set == b->set);
	return a->ndrives == b->ndrives && a->copies == b->copies && a->converts == b->converts &&
	       a->fold == b->fold &&
	       memcmp(a->drive_nblocks, b->drive_nblocks, sizeof(a->drive_nblocks)) == 0 &&
	       memcmp(a->drive_tag, b->drive_tag, sizeof(a->drive_tag)) == 0 &&
	       memcmp(a->drive_state, b->drive_state, sizeof(a->drive_state)) == 0 &&
	       memcmp(a->root_zone, b->root_zone, sizeof(a->root_zone)) == 0;
}

/* The set that a mount goes back to if it leaves out the newest drive (2). */
static void before(struct meta__boot *b, const struct meta__super *s)
{
	if (s->ndrives + 1 == b->top.ndrives &&
	    (b->before.ndrives != s->ndrives || s->set > b->before.set))
		b->before = *s;
}

static void top(struct meta__boot *b, const struct meta__super *s)
{
	const struct meta__super was = b->top;

	ASSERT(b->top.ndrives == 0 || s->set > b->top.set);
	b->top = *s;
	before(b, &was);
	b->clash = false;
	b->clash_count = s->ndrives;
}

static bool has_lost(const struct meta__super *s)
{
	ASSERT(s->ndrives >= 1 && s->ndrives <= META_DRIVES_MAX);
	return memchr(s->drive_state, DRIVE_LOST, sizeof(s->drive_state)) != NULL;
}

/* (8) */
static void be_careful(struct meta *m, uint32_t drive, const struct meta__super *s)
{
	struct meta__super *top = &m->boot->top;
	const uint32_t sure = min_u32(meta__super_sure(s), meta__super_sure(top));

	ASSERT(s->set == top->set);
	ASSERT(s->drive == drive && top->ndrives > 0);
	if ((s->copies == top->copies && s->converts == top->converts) || has_lost(s) ||
	    has_lost(top))
		return;
	meta__boot_note(
		m,
		"drive %u: a superblock says %u copies%s, another one of the same set %u%s: "
		"blocks may have %s until the store has converted",
		drive, s->copies, s->converts ? ", converting," : "", top->copies,
		top->converts ? ", converting" : "", sure > 1 ? "two copies" : "one copy");
	ASSERT(sure > 0 && sure <= META__ROOT_COPIES); /* meta_drives.c (8) */
	top->copies = max_u32(max_u32(s->copies, top->copies), 2);
	top->converts = sure < top->copies ? sure : 0;
}

static int clash(struct meta *m, uint32_t drive, const struct meta__super *s)
{
	struct meta__boot *b = m->boot;

	ASSERT(s->set == b->top.set);
	ASSERT(b->top.ndrives > 0 && s->drive == drive);
	if (b->top.drive_state[drive] == DRIVE_LOST && s->drive_state[b->top.drive] == DRIVE_LOST)
		return meta__boot_fail(m, -EUCLEAN, /* (11) */
				       "drives %u and %u each say that the other is lost: the "
				       "store went on with each alone; take out the one whose "
				       "changes are to be given up, and name it in allow_missing",
				       b->top.drive, drive);
	if (b->top.drive_state[drive] == DRIVE_LOST)
		return 0; /* (10) */
	if (s->drive_state[b->top.drive] == DRIVE_LOST) {
		b->top = *s; /* (10) */
		b->clash = false;
		b->clash_count = s->ndrives;
		return 0;
	}
	if ((s->copies > 2) != (b->top.copies > 2) && !meta__super_grew(&b->top))
		return meta__boot_fail(m, -EUCLEAN,
				       "drive %u: a superblock says %u copies, another one of the "
				       "same set %u",
				       drive, s->copies, b->top.copies);
	b->clash = true;
	b->clash_count = min_u32(b->clash_count, s->ndrives);
	be_careful(m, drive, s);
	return 0;
}

int meta__drives_take(struct meta *m, uint32_t drive, const struct meta__super *s)
{
	struct meta__boot *b = m->boot;
	const bool first = b->top.ndrives == 0;
	int err = 0;

	ASSERT(drive < m->conf.ndrives);
	if (!first && memcmp(s->uuid, b->top.uuid, sizeof(s->uuid)) != 0)
		return meta__boot_fail(m, -ENODEV, "drive %u is of another store", drive);
	if (s->drive != drive)
		return meta__boot_fail(m, -ENODEV,
				       "in place %u stands drive %u of the store: drive %u%s%s is "
				       "missing",
				       drive, s->drive, drive, *s->drive_name[drive] ? ", " : "",
				       s->drive_name[drive]);
	b->tag[drive] = s->drive_tag[drive];
	if (s->drive_state[drive] > b->says[drive])
		b->says[drive] = s->drive_state[drive];
	if (first || s->set > b->top.set)
		top(b, s);
	else if (s->set == b->top.set && !is_same_set(s, &b->top))
		err = clash(m, drive, s);
	else if (s->set < b->top.set)
		before(b, s);
	if (b->old_count[drive] == 0 || s->set < b->old_set[drive]) {
		b->old_set[drive] = s->set;
		b->old_count[drive] = s->ndrives;
	}
	ASSERT(b->old_set[drive] <= b->top.set);
	return err;
}

static int fits(struct meta *m, const struct meta__super *s)
{
	ASSERT(s->ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < s->ndrives; d++) {
		if (!meta__drives_given(m, d) || s->drive_state[d] == DRIVE_LOST)
			continue;
		if (m->boot->tag[d] != s->drive_tag[d]) /* (4) */
			return meta__boot_fail(
				m, -ENODEV, "drive %u is not the one that the store has there", d);
		if (s->drive_nblocks[d] != m->conf.drive[d].nblocks)
			return meta__boot_fail(m, -ENODEV,
					       "drive %u has %llu blocks, formatted were %llu", d,
					       (unsigned long long)m->conf.drive[d].nblocks,
					       (unsigned long long)s->drive_nblocks[d]);
	}
	return 0;
}

/* Returns how many drives the oldest set has, by comparing all.  A drive that is gone only says
 * whether it knows that: it may come back long after. */
static uint32_t compare(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint32_t least = b->top.ndrives;

	b->mixed = b->clash;
	b->behind = false;
	if (b->clash)
		least = b->clash_count;
	for (uint32_t d = 0; d < b->top.ndrives; d++) {
		if (!meta__drives_given(m, d) || b->top.drive_state[d] == DRIVE_LOST)
			continue;
		if (b->top.drive_state[d] == DRIVE_GONE) {
			b->behind |= b->says[d] != DRIVE_GONE;
		} else if (b->old_set[d] != b->top.set) {
			b->mixed = true;
			least = min_u32(least, b->old_count[d]);
		}
	}
	ASSERT(least <= b->top.ndrives);
	return least;
}

/* (2): the set without its newest drive, for which another one may have begun to drain. */
static void leave_out(struct meta__super *s, const struct meta__super *old)
{
	const uint32_t d = --s->ndrives;

	if (old->ndrives == d)
		memcpy(s->drive_state, old->drive_state, sizeof(s->drive_state));

	ASSERT(d > 0); /* the first set of a store has one drive at least */
	ASSERT(d < META_DRIVES_MAX);
	meta__super_number(s, s->set + 1);
	s->drive_nblocks[d] = s->drive_tag[d] = 0;
	memset(s->drive_name[d], 0, sizeof(s->drive_name[d]));
}

/* Checks that the drive may be left out: it is in the set, and holds something. */
static int may_miss(struct meta *m, const struct meta__super *s)
{
	const uint32_t d = meta__drives_missing(m);

	ASSERT(s->ndrives <= META_DRIVES_MAX);
	if (d == META_DRIVES_MAX || (d < s->ndrives && s->drive_state[d] != DRIVE_GONE))
		return 0;
	return meta__boot_fail(
		m, -ENODEV,
		"drive %u is not one of the store's: without allow_missing the store starts", d);
}

/* There must be a drive that takes zones, whatever the others are. */
static bool any_serves(const struct meta *m, const struct meta__super *s)
{
	bool any = false;

	ASSERT(s->ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < s->ndrives; d++)
		any |= s->drive_state[d] == DRIVE_SERVES && meta__drives_given(m, d);
	return any;
}

/* From now on it is lost. */
static void lose_missing(struct meta *m, struct meta__super *s, uint32_t drive)
{
	ASSERT(s->drive_state[drive] < DRIVE_GONE);
	ASSERT(!m->mounted && !m->boot->log_judged);
	m->conf.drive[drive].missing = false;
	m->conf.drive[drive].nblocks = 0;
	s->drive_state[drive] = DRIVE_LOST;
	meta__boot_note(m,
			"drive %u%s%s is missing: it counts as lost, and its blocks are read from "
			"other drives",
			drive, *s->drive_name[drive] ? ", " : "", s->drive_name[drive]);
}

/* Drives may be missing if each block has a copy more than domains are lost then (9). */
static void do_without(struct meta *m, struct meta__super *s)
{
	uint64_t absent = 0, lost = 0;
	uint32_t away, present = 0, told = true;

	for (uint32_t d = 0; d < s->ndrives; d++) {
		if (s->drive_state[d] == DRIVE_GONE)
			continue;
		if (s->drive_state[d] == DRIVE_LOST) {
			m->conf.drive[d].missing = false; /* it is missed no more than others */
			lost |= 1ull << d;
		} else if (meta__drives_given(m, d)) {
			present++;
		} else {
			told &= m->conf.drive[d].missing;
			absent |= 1ull << d;
		}
	}
	away = (uint32_t)__builtin_popcountll(absent);
	if (away == 0 || meta__domains_in(m, lost | absent) >= meta__super_sure(s) ||
	    !any_serves(m, s) || (present <= away && !told))
		return;
	m->boot->told_missing = told;
	for (uint64_t left = absent; left; left &= left - 1)
		lose_missing(m, s, (uint32_t)__builtin_ctzll(left));
	meta__super_number(s, s->set + 1);
	s->drained = true;
	m->boot->mixed = true; /* all others are told, before anything else is written */
}

/* Nothing is asked of it; its addresses are still in the index. */
static void leave_lost(struct meta *m, uint32_t drive)
{
	ASSERT(m->boot->super.drive_state[drive] == DRIVE_LOST);
	ASSERT(!m->mounted);
	m->conf.drive[drive] = (struct meta_drive_info){
		.nblocks = m->boot->super.drive_nblocks[drive],
	};
	m->dead |= 1ull << drive;
	meta__twins_without(m, drive);
}

/* Adds the others that are not there: ", drive 3 too", ", drive 1 is lost". */
static void name_others(const struct meta *m, const struct meta__super *s, uint32_t but, char *out,
			size_t size)
{
	size_t used = 0;

	ASSERT(size > 0);
	out[0] = '\0';
	for (uint32_t d = 0; d < s->ndrives && used < size; d++) {
		const bool lost = s->drive_state[d] == DRIVE_LOST;

		if (d == but || s->drive_state[d] == DRIVE_GONE ||
		    (!lost && meta__drives_given(m, d)))
			continue;
		used += (size_t)snprintf(out + used, size - used, ", drive %u %s", d,
					 lost ? "is lost" : "too");
	}
}

/* Names the way out if these drives, by bits, are not found.  do_without() says when allow_missing
 * is one. */
static void name_way_out(const struct meta__super *s, uint64_t absent, char *out, size_t size)
{
	const uint32_t count = (uint32_t)__builtin_popcountll(absent), sure = meta__super_sure(s);
	uint32_t lost = 0;
	int used;

	for (uint32_t d = 0; d < s->ndrives; d++)
		lost += s->drive_state[d] == DRIVE_LOST;
	ASSERT(absent && size > 0);
	out[0] = '\0';
	if (lost + count > max_u32(sure - 1, 1))
		return;
	used = snprintf(out, size, "allow_missing = ");
	for (uint64_t left = absent; left && (size_t)used < size; left &= left - 1)
		used += snprintf(out + used, size - (size_t)used, "%u%s",
				 (uint32_t)__builtin_ctzll(left), left & (left - 1) ? "," : "");
	if ((size_t)used < size)
		(void)snprintf(out + used, size - (size_t)used, "%s",
			       sure == 1   ? " serves what does not lie there, "
			       : count > 1 ? " starts if they have not gone on without the others, "
					   : " starts if it has not gone on without the others, ");
}

static int is_missing(struct meta *m, const struct meta__super *s, uint32_t given, uint32_t d)
{
	char others[64], out[96];
	uint64_t absent = 0;

	ASSERT(d < s->ndrives);
	for (uint32_t i = 0; i < s->ndrives; i++)
		absent |= (uint64_t)(s->drive_state[i] < DRIVE_GONE && !meta__drives_given(m, i))
			  << i;
	ASSERT(absent >> d & 1);
	name_others(m, s, d, others, sizeof(others));
	name_way_out(s, absent, out, sizeof(out));
	return meta__boot_fail(m, -ENODEV,
			       "the store has %u drives, %u are given: drive %u%s%s is missing%s; "
			       "%swekactl check --salvage DIR saves what can be read",
			       s->ndrives, given, d, *s->drive_name[d] ? ", " : "",
			       s->drive_name[d], others, out);
}

static int all_given(struct meta *m, const struct meta__super *s)
{
	uint32_t given = 0;

	for (uint32_t d = 0; d < m->conf.ndrives; d++)
		given += meta__drives_given(m, d);
	for (uint32_t d = 0; d < s->ndrives; d++)
		if (s->drive_state[d] < DRIVE_GONE && !meta__drives_given(m, d) &&
		    !m->conf.drive[d].missing)
			return is_missing(m, s, given, d);
	for (uint32_t d = s->ndrives; d < m->conf.ndrives; d++)
		if (meta__drives_given(m, d))
			return meta__boot_fail(
				m, -ENODEV,
				"the store has %u drives, and drive %u is not one of them",
				s->ndrives, d);
	if (!any_serves(m, s))
		return meta__boot_fail(m, -ENODEV,
				       "no drive that is given serves: the others are being "
				       "drained, or have left the store");
	return 0;
}

/* A drive that cannot be read is left out, if it is gone (6). */
static int unread(struct meta *m)
{
	struct meta__boot *b = m->boot;

	for (uint32_t d = 0; d < m->conf.ndrives; d++) {
		if (!b->unread[d])
			continue;
		ASSERT(b->unread[d] < 0);
		if (b->top.drive_state[d] != DRIVE_GONE && meta__super_sure(&b->top) > 1) {
			m->conf.drive[d].nblocks = 0; /* as if it were not given */
			continue;
		}
		if (b->top.drive_state[d] != DRIVE_GONE)
			return meta__boot_fail(m, b->unread[d], "drive %u: %s", d,
					       b->unread_why[d]);
		meta__boot_note(m, "drive %u: %s; it was taken out of the store", d,
				b->unread_why[d]);
		m->conf.drive[d] = (struct meta_drive_info){ 0 };
		m->dead &= ~(1ull << d); /* no loss: meta_pair.c (4) */
	}
	return 0;
}

/* One copy of each root is on a drive that is not lost, or the superblock is wrong. */
static int has_roots(struct meta *m, const struct meta__super *s)
{
	struct meta__geo geo;

	ASSERT(!m->mounted);
	meta__geo_of(&geo, s);
	if (meta__geo_roots_left(&geo) > 0)
		return 0;
	return meta__boot_fail(m, -EUCLEAN, "all copies of the roots are on lost drives");
}

int meta__drives_choose(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t newest = b->top.ndrives - 1;
	int err;

	ASSERT(!b->log_judged);
	err = unread(m);
	if (err)
		return err;
	b->super = b->top;
	if (compare(m) == newest && !meta__drives_given(m, newest) && newest >= b->top.copies)
		leave_out(&b->super, &b->before);
	else if (b->clash)
		meta__super_number(&b->super, b->top.set + 1);
	meta__domains_take(m, b->super.copies, b->super.ndrives, b->super.drive_state);
	do_without(m, &b->super);
	err = may_miss(m, &b->super);
	if (!err)
		err = all_given(m, &b->super);
	if (!err)
		err = fits(m, &b->super);
	if (!err)
		err = has_roots(m, &b->super);
	for (uint32_t d = m->conf.ndrives; d < b->super.ndrives; d++)
		m->conf.drive[d] = (struct meta_drive_info){ 0 };
	m->conf.ndrives = b->super.ndrives;
	for (uint32_t d = b->super.ndrives; d < META_DRIVES_MAX; d++)
		m->dead &= ~(1ull << d); /* no loss: it is not one of the store's */
	for (uint32_t d = 0; d < b->super.ndrives; d++)
		if (m->conf.drive[d].missing)
			m->conf.drive[d].nblocks = b->super.drive_nblocks[d];
		else if (b->super.drive_state[d] == DRIVE_LOST)
			leave_lost(m, d);
	b->next = b->super;
	b->write_from = b->super.ndrives - 1;
	b->write_both = false;
	return err;
}
