/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The set of drives of a store: chosen by a mount, and changed while it serves.
 *
 * Every superblock names the whole set of drives and its number in the sequence of sets; each
 * change is the next number.
 *
 *   serving --meta_drive_add()--> FREE headers into all zones of the new drive --> it is flushed
 *   --> the new set: into a copy of each drive's superblock, the new drive's first; then into the
 *   other copy of each --> its zones are free: serving
 *
 *   the power is cut        all superblocks have   a mount that is given the
 *                                                  old drives        new one too
 *   before the first        the old set            the old set       refused: not in the set
 *   during them             some the new one       the old set       the new set
 *   after the last          the new set            refused: one is   the new set
 *                                                  missing, by name
 *
 *  (1) No zone of a new drive is used before both superblocks of all drives name it.
 *  (2) So if any whole copy has an older set, the newest one has not been used, and either is
 *      right.  The mount takes the one that matches its drives, and writes that everywhere before
 *      any other write: the older one, with its states of drives, under a number above all others.
 *      (A drive whose adding was cut off, and that came back after mounts without it, has the lower
 *      number: it still has only FREE headers, and may join.)
 *      [test_meta_drives:power_cut_at_any_write_leaves_the_old_set_or_the_new_one]
 *  (3) Of a drive's two superblocks one is whole at any time: one is durable before the other is
 *      written; a damaged one is written first.
 *  (4) Drives that were meant for the same place are distinguished by their tags
 *      [test_meta_drives:drive_that_was_to_have_the_place_of_another_is_refused].
 *  (5) Roots stay where format put them, and zones keep their numbers: a new drive's zones come
 *      last [test_meta_super:superblock_of_a_store_that_grew_comes_back_and_says_where_roots_are].
 *  (6) Nothing depends on a drive that is gone: it is updated if it can be written
 *      [test_meta_drain:last_of_three_leaves_and_the_store_starts_without_it].
 *  (7) A number means one set: the number of a change that failed half-way is not reused.  If two
 *      sets have the same number nevertheless (a drive whose adding was cut off missed the later
 *      changes), neither has been used, or one is refused by its drives (2), (4)
 *      [test_meta_drain:number_of_a_change_that_failed_is_not_used_again].
 *  (8) If superblocks of one set differ in the number of copies, blocks may have as few as the one
 *      says that promises least: the store converts from that number
 *      [test_meta_protect:superblocks_of_one_set_that_differ_in_copies_are_taken_with_care,
 *      test_meta_protect_three:superblocks_of_one_set_that_differ_in_copies_are_taken_with_care].
 *      The mount is refused if only the other one says where a third copy of the roots is.
 *  (9) A mount goes on without drives that are missing only if more are present, of those that
 *      serve in the newest set that it finds, or the operator says so.  For had the store gone on
 *      without all that are present, then in one step after that set; and at most as many are lost
 *      in a step as stay (meta_pair.c (4)), which are among the missing ones
 *      [test_meta_majority:drives_that_are_missing_are_lost_as_the_table_says].
 * (10) If two sets have the same number, and one says that the drive of the other is lost, that one
 *      counts.  The lost drive was alone with the begin of a change; a mount without it went on
 *      under the same number, and the drive has missed all since
 *      [test_meta_majority:set_of_a_drive_that_is_lost_does_not_count].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ZONES_MAX (1u << 16) /* of one drive: its zones are as large as those of the first ones */

/* ---- mount ------------------------------------------------------------------------------- */

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
	ASSERT(sure > 0 && sure <= META__ROOT_COPIES); /* (8) */
	top->copies = max_u32(max_u32(s->copies, top->copies), 2);
	top->converts = sure < top->copies ? sure : 0;
}

static int clash(struct meta *m, uint32_t drive, const struct meta__super *s)
{
	struct meta__boot *b = m->boot;

	ASSERT(s->set == b->top.set);
	ASSERT(b->top.ndrives > 0 && s->drive == drive);
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

/* Sets the fields that later sets state, and that the first set only implies. */
static void number(struct meta__super *s, uint64_t set)
{
	struct meta__geo geo;

	meta__geo_of(&geo, s);
	memcpy(s->root_at, geo.root_area, sizeof(s->root_at)); /* (5) */
	s->set = set;
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
	number(s, s->set + 1);
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
	number(s, s->set + 1);
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
		number(&b->super, b->top.set + 1);
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

/* ---- superblocks ------------------------------------------------------------------------- */

struct turn {
	uint32_t drive;
	bool second;
};

/* One copy of each drive's, then the other of each; or both of one before all others'. */
static struct turn turn_of(const struct meta__boot *b)
{
	const uint32_t n = b->next.ndrives, first = b->write_both ? 2 : 0, others = n - first / 2;
	const uint32_t i = b->at - first;

	ASSERT(b->at < 2 * n);
	ASSERT(b->write_from < n);
	ASSERT(b->at < first || others > 0);
	if (b->at < first)
		return (struct turn){ b->write_from, b->at == 1 };
	return (struct turn){ (b->write_from + first / 2 + i % others) % n, i >= others };
}

static bool is_told(const struct meta *m, uint32_t drive)
{
	const struct meta__boot *b = m->boot;

	ASSERT(drive < b->next.ndrives);
	if (b->super.drive_state[drive] == DRIVE_LOST)
		return false; /* meta_pair.c (4) */
	return m->conf.drive[drive].nblocks && b->next.drive_state[drive] != DRIVE_LOST &&
	       (!b->write_gone || b->next.drive_state[drive] == DRIVE_GONE);
}

static int cannot_write(struct meta *m, uint32_t drive)
{
	const uint32_t other = m->mounted ? meta__drain_drive(m) : META_DRIVES_MAX;

	ASSERT(drive < META_DRIVES_MAX);
	ASSERT(m->boot->sent);
	if (m->losing || (other < META_DRIVES_MAX && m->zones->geo.state[other] == DRIVE_LOST))
		return -EIO; /* a second loss: meta__drive_lose() has said more */
	return meta__boot_fail(m, -EIO,
			       "drive %u: a superblock cannot be written: the store's drives are "
			       "settled by the next mount",
			       drive);
}

/* A drive that is gone need not record the set (6). */
int meta__drives_write(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t n = b->next.ndrives;
	struct meta__geo geo;
	struct turn turn = { 0 };
	uint32_t d;

	ASSERT(b->in_flight == 0); /* (3): one is durable before the other is written */
	ASSERT(b->at <= 2 * n);
	if (b->sent) {
		if (b->io[0].io.status && b->next.drive_state[b->io[0].io.drive] != DRIVE_GONE &&
		    !meta__drive_lose(m, b->io[0].io.drive))
			return cannot_write(m, b->io[0].io.drive);
		b->at++;
	}
	while (b->at < 2 * n && !is_told(m, (turn = turn_of(b)).drive))
		b->at++;
	if (b->at == 2 * n)
		return -EALREADY;
	d = turn.drive;
	ASSERT(d < n);
	meta__geo_of(&geo, &b->next);
	b->next.drive = d;
	b->next.nzones = geo.zone_count[d];
	meta__super_build(&b->next, b->buf);
	meta__boot_io(m, META_IO_WRITE, meta__super_baddr(m, d, b->super_first[d] ^ turn.second), 1,
		      0); /* (3) */
	return 0;
}

/* At its end nothing is asked any more of a drive that is gone. */
int meta__drives_settle(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = -EALREADY;

	ASSERT(!m->mounted);
	ASSERT(b->log_judged);
	b->write_gone = !b->mixed;
	if (b->mixed || b->behind)
		err = meta__drives_write(m);
	if (err != -EALREADY)
		return err;
	b->write_gone = false;
	for (uint32_t d = 0; d < b->super.ndrives; d++)
		if (b->super.drive_state[d] == DRIVE_GONE)
			m->conf.drive[d] = (struct meta_drive_info){ 0 };
	return err;
}

/* ---- one more ---------------------------------------------------------------------------- */

/* (7) */
uint64_t meta__drives_next_set(const struct meta *m)
{
	ASSERT(m->mounted);
	return max_u64(m->boot->super.set, m->boot->set_tried) + 1;
}

void meta__drives_begin(struct meta *m, int *status, int (*stage)(struct meta *m))
{
	struct meta__boot *b = m->boot;

	ASSERT(m->mounted);
	ASSERT(!b->adding);
	b->adding = true;
	b->told = status;
	if (status)
		*status = -EAGAIN;
	meta__boot_next(m, stage);
}

void meta__drives_end(struct meta *m, int status)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->adding);
	ASSERT(b->in_flight == 0);
	ASSERT(status <= 0);
	b->adding = false;
	m->zones->yielded = 0;
	if (b->told)
		*b->told = status;
	b->stage = NULL;
	if (!status)
		return;
	b->set_tried = max_u64(b->set_tried, b->next.set);
	if (b->next.ndrives > m->conf.ndrives) {
		m->conf.drive[m->conf.ndrives] = (struct meta_drive_info){ 0 };
		m->dead &= ~(1ull << m->conf.ndrives); /* the next one to be added is another */
	} else {
		meta__drain_failed(m);
	}
}

/* A check counts the zones that there were when it began. */
static int join(struct meta *m)
{
	struct meta__boot *b = m->boot;
	struct meta__geo geo;

	ASSERT(b->next.ndrives == m->conf.ndrives + 1);
	ASSERT(m->zones->geo.ndrives == m->conf.ndrives); /* (1) */
	if (meta__check_running(m))
		return -EAGAIN;
	b->super = b->next;
	m->conf.ndrives = b->super.ndrives;
	memcpy(b->super.drive_state, m->zones->geo.state, m->zones->geo.ndrives);
	meta__geo_of(&geo, &b->super); /* as before, with one drive more ... */
	meta__zones_join(m, &geo);
	b->super = b->next;
	meta__drain_begun(m); /* ... and then without the one that it replaces */
	meta__domains_again(m);
	meta__gc_look_even(m);
	meta__ckpt_want(m); /* after it collection checks whether drives are equally full */
	meta__drives_end(m, 0);
	if (m->copies > 1 && m->dead >> (geo.ndrives - 1) & 1) { /* it died before it served */
		m->dead &= ~(1ull << (geo.ndrives - 1));
		if (!meta__drive_lose(m, geo.ndrives - 1))
			m->dead |= 1ull << (geo.ndrives - 1);
	}
	return 0;
}

static int add_supers(struct meta *m)
{
	int err = meta__drives_write(m);

	ASSERT(m->zones->geo.ndrives < m->boot->next.ndrives); /* (1) */
	if (err != -EALREADY)
		return err;
	meta__boot_next(m, join); /* (1) */
	return 0;
}

static int add_flush(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t d = m->conf.ndrives;

	ASSERT(d < META_DRIVES_MAX);
	ASSERT(m->zones->geo.ndrives == d); /* (1) */
	if (b->sent && b->io[0].io.status)
		return meta__boot_fail(m, -EIO, "drive %u: cannot be flushed", d);
	if (b->step++ == 0 && m->conf.drive[d].volatile_cache) {
		meta__boot_io(m, META_IO_FLUSH, META_BADDR(d, 0), 0, 0);
		return 0;
	}
	meta__boot_next(m, add_supers);
	return 0;
}

/* at: zone of the new drive. */
static int add_heads(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t d = m->conf.ndrives;

	ASSERT(m->zones->geo.ndrives == d); /* (1) */
	ASSERT(b->count <= META__BOOT_BLOCKS);
	for (uint32_t i = 0; b->sent && i < b->count; i++)
		if (b->io[i].io.status)
			return meta__boot_fail(m, -EIO, "drive %u: block %llu cannot be written", d,
					       (unsigned long long)b->io[i].io.block);
	b->at += b->sent ? b->count / 2 : 0;
	ASSERT(b->at <= b->geo.zone_count[d]);
	if (b->at == b->geo.zone_count[d]) {
		meta__boot_next(m, add_flush);
		return 0;
	}
	b->count = 2 * min_u32(META__BOOT_BLOCKS / 2, b->geo.zone_count[d] - b->at);
	for (uint32_t i = 0; i < b->count; i++) {
		const struct meta__zone_seen z = { .zone = b->geo.zone_base[d] + b->at + i / 2,
						   .kind = META__ZONE_FREE };

		meta__zone_build(&z, m->uuid, b->buf + (size_t)i * META__BLOCK);
		meta__boot_io(m, META_IO_WRITE, meta__geo_zone_head(&b->geo, z.zone, i & 1), 1, i);
		b->io[i].io.fua = false; /* the flush comes before anything names them */
	}
	return 0;
}

int meta_drive_add(struct meta *m, const struct meta_drive_info *drive)
{
	struct meta__boot *b = m->boot;
	const uint32_t d = m->conf.ndrives;
	int err;

	if (m->failed)
		return -EROFS;
	if (b->adding || m->stopping || !m->mounted)
		return -EBUSY;
	if (d == META_DRIVES_MAX)
		return -ENOSPC;
	if (drive->nblocks < META_DRIVE_BYTES_MIN / META__BLOCK)
		return -EINVAL;
	b->next = b->super;
	number(&b->next, meta__drives_next_set(m));
	b->next.ndrives = d + 1;
	m->domain[d] = (uint8_t)drive->domain;
	b->next.drive_nblocks[d] = drive->nblocks;
	b->next.drive_tag[d] = drive->tag;
	memcpy(b->next.drive_name[d], drive->name, META_DRIVE_NAME);
	if (drive->nblocks / b->next.zone_blocks > ZONES_MAX)
		return -EFBIG;
	meta__geo_of(&b->geo, &b->next);
	if (b->geo.zone_count[d] == 0)
		return -EINVAL;
	err = drive->replaces ? meta__drain_replaced(m, drive->replaces - 1) : 0;
	if (!err)
		err = meta__zones_grow(m, &b->geo);
	if (err)
		return err;
	m->conf.drive[d] = *drive;
	m->conf.drive[d].replaces = 0;
	b->super_first[d] = 1;
	b->write_from = d;
	b->write_both = false;
	ASSERT(b->geo.ndrives == d + 1);
	ASSERT(b->geo.zone_base[d] == m->zones->geo.nzones); /* (5): its zones come last */
	meta__drives_begin(m, &b->add_status, add_heads);
	return 0;
}

int meta_drive_add_status(const struct meta *m)
{
	ASSERT(m->boot->add_status <= 0);
	return m->boot->add_status;
}

uint32_t meta_drives(const struct meta *m)
{
	ASSERT(m->conf.ndrives <= META_DRIVES_MAX);
	return m->conf.ndrives;
}

bool meta__drives_turn(struct meta *m)
{
	int rc;

	ASSERT(m->mounted);
	if (!m->boot->adding)
		meta__drain_turn(m);
	if (!m->boot->adding)
		return false;
	if (!meta__boot_run(m, &rc))
		meta__drives_end(m, rc);
	return m->boot->adding && m->boot->in_flight == 0;
}
