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
 * (11) If each of them says that the drive of the other is lost, the store has gone on twice, and
 *      the mount is refused: the operator says which of the two is to be missing
 *      [test_meta_majority:drives_that_each_say_that_the_other_is_lost_are_refused].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ZONES_MAX (1u << 16) /* of one drive: its zones are as large as those of the first ones */

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
	meta__super_number(&b->next, meta__drives_next_set(m));
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
