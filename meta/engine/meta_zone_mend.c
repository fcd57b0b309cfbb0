/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Repairs the header of a zone, with its present content, while the store serves.
 *
 *   any but OPENING, DEALLOCATING: a copy is damaged --> written by FUA --> the other one -->
 *       as before; if it is free: out of the list of free zones meanwhile
 *
 *  (1) Only one copy of a header is written at a time, by one writer: a zone is not free, and so is
 *      not opened, while its header is being written.
 *  (2) A copy is written with the content of the other copy, or else with the state in memory.  So
 *      whatever a power cut leaves of the write, the header is true
 *      [test_meta_scrub_heads:cut_while_it_is_written_leaves_a_store].
 *  (3) Nothing depends on the write: if it fails, the header is as it was.  A write that fails is
 *      not repeated, unlike one that the store needs (meta_io.must)
 *      [test_meta_scrub_heads:store_can_do_without_it].
 *  (4) A free zone keeps its place in the order in which free zones are opened.  Each checkpoint
 *      writes the headers of the same zones (meta_mark.c): sent to the end of the list each time,
 *      they would never be opened, and all others would wear for them
 *      [test_meta_gc:zones_wear_alike_though_files_come_and_go].
 *  (5) A drained, empty drive may be about to be removed: its zones stay free
 *      [test_meta_drain:no_header_is_mended_on_a_drive_that_is_about_to_go].
 *  (6) The headers of parity that name the members of a fold are written here, too, and the store
 *      needs them: each is a `must`, and a drive that does not take it is lost.  From its first
 *      write on, whoever writes it again writes the members, though the fold is made in a later
 *      turn
 *      [test_meta_fold_late:header_that_is_written_again_at_once_has_its_members].
 */
#include "meta/engine/meta_fold.h"

#include <errno.h>

struct meta__zone_seen meta__zone_head(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);
	struct meta__zone_seen head = { .zone = zone,
					.kind = (enum meta__zone_kind)at->kind,
					.incarnation = at->incarnation,
					.epoch = m->epoch };

	meta__group_head(m, meta__pair_first(m, zone), &head);
	if (at->kind == META__ZONE_TWIN && !at->twin)
		head.kind = META__ZONE_FREE; /* a fold has freed it: soon it is */
	if (at->parity)
		meta__fold_head(m, zone, &head);
	for (uint32_t i = 0; i < META_FOLD_PARITIES; i++)
		if (m->zones->naming[i] && m->zones->naming[i]->zone == zone) /* (6) */
			head = *m->zones->naming[i];
	if (at->kind == META__ZONE_LOG) {
		head.order = at->order;
		head.oldest_order = m->zones->log_oldest;
	}
	return head;
}

static void write_copy(struct meta *m, struct meta__zone_io *io)
{
	const uint32_t copy = (uint32_t)__builtin_ctz(io->copies);
	const uint64_t baddr = meta__geo_zone_head(&m->zones->geo, io->zone, copy);

	ASSERT(io->copies);
	io->copies &= (uint8_t) ~(1u << copy);
	io->x.io.op = META_IO_WRITE;
	io->x.io.fua = true;
	io->x.io.drive = META_BADDR_DRIVE(baddr);
	io->x.io.block = META_BADDR_BLOCK(baddr);
	io->x.io.nblocks = 1;
	io->x.io.status = 0;
	meta__io_want(m, &io->x);
	io->x.io.must = io->names; /* (3), (6) */
}

static bool is_head(const struct meta__zones *z, const struct list *node, uint32_t drive)
{
	return node == &z->free[drive] || node == &z->fresh[drive];
}

/* (4) Takes a free zone out of its list.  Returns the zone after it, or META__ZONE_NONE. */
static uint32_t take_out(struct meta *m, struct meta__zone *at, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	struct list *next = at->link.next;

	ASSERT(at->state == ZONE_FREE && z->free_count[drive] > 0);
	list_del(&at->link);
	list_init(&at->link);
	at->state = ZONE_MENDING;
	z->free_count[drive]--;
	z->free_total -= meta__drive_serves(m, drive);
	if (is_head(z, next, drive))
		return META__ZONE_NONE;
	return (uint32_t)(list_entry(next, struct meta__zone, link) - z->zone);
}

static bool begin(struct meta *m, const struct meta__zone_seen *head, uint32_t copies, bool names)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, head->zone);
	struct meta__zone_io *io = meta__zone_io_idle(z);
	struct meta__zone_seen h = *head;
	const uint32_t drive = META_BADDR_DRIVE(meta__geo_zone_baddr(&z->geo, head->zone));

	ASSERT(copies >= 1 && copies <= 3);
	if (meta__may_lose(m) && !meta__drive_reads(m, drive))
		return false;
	if (m->failed || !io || at->mending || at->state == ZONE_OPENING ||
	    at->state == ZONE_DEALLOCATING || at->state == ZONE_GONE ||
	    meta__drain_empty(m, drive)) /* (5) */
		return false;
	if (at->state == ZONE_FREE) /* (1) */
		io->next = take_out(m, at, drive);
	ASSERT(at->state != ZONE_FREE); /* (1) */
	ASSERT(!at->freed);
	at->mending = true;
	if (meta__mark_drive(m, head->zone) == drive)
		h.mark = max_u64(h.mark, z->marks.of[drive]);
	meta__zone_build(&h, m->uuid, io->x.io.buf);
	io->zone = head->zone;
	io->mends = true;
	io->names = names;
	io->copies = (uint8_t)copies;
	write_copy(m, io);
	return true;
}

bool meta__zone_mend(struct meta *m, const struct meta__zone_seen *head, uint32_t copies)
{
	ASSERT(copies >= 1 && copies <= 3);
	return begin(m, head, copies, false);
}

bool meta__zone_name(struct meta *m, const struct meta__zone_seen *head)
{
	ASSERT(head->role < META_FOLD_PARITIES && !m->zones->naming[head->role]);
	ASSERT(head->kind == META__ZONE_PARITY && head->members >= META__FOLD_MIN);
	if (!begin(m, head, 3, true))
		return false;
	meta__zone_at(m, head->zone)->mend_failed = false; /* of the header before this one */
	m->zones->naming[head->role] = head;
	m->zones->naming_status = -EAGAIN;
	return true;
}

/* (4) If the zone after it has been opened since, so have all before that one. */
static void free_again(struct meta *m, struct meta__zone *at, uint32_t next, uint32_t drive)
{
	struct meta__zones *z = m->zones;

	ASSERT(at->state == ZONE_MENDING);
	ASSERT(at->live == 0);
	ASSERT(at->pending == 0);
	at->state = ZONE_FREE;
	if (next == META__ZONE_NONE)
		list_push_back(&z->free[drive], &at->link);
	else if (z->zone[next].state == ZONE_FREE)
		list_push_back(&z->zone[next].link, &at->link); /* before it */
	else
		list_push_front(&z->free[drive], &at->link);
	z->free_count[drive]++;
	z->free_total += meta__drive_serves(m, drive);
}

void meta__zone_mend_done(struct meta *m, struct meta__zone_io *io)
{
	struct meta__zone *at = meta__zone_at(m, io->zone);
	const uint32_t zone = io->zone;

	ASSERT(io->mends);
	ASSERT(io->zone < m->zones->geo.nzones);
	ASSERT(at->mending);
	if (!io->x.io.status && io->copies) {
		write_copy(m, io);
		return;
	}
	if (io->names)
		m->zones->naming_status = io->x.io.status ? -EIO : 0;
	if (meta__mark_done(m, zone, io->x.io.status == 0))
		;
	else if (io->x.io.status)
		at->mend_failed = true; /* (3) */
	else
		m->zones->mended++;
	io->zone = META__ZONE_NONE;
	io->mends = io->names = false;
	at->mending = false;
	if (at->state == ZONE_MENDING)
		free_again(m, at, io->next, io->x.io.drive);
	else if (at->freed)
		meta__zone_freed(m, zone);
	at->freed = false;
}
