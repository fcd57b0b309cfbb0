/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The log: gather, order, durable sequence.
 *
 *   zone  [header][block 7][block 8 .....][block 9]  2 kept      next zone: header durable already
 *
 *   append --> OPEN --turn--> FLUSHING --drives flushed--> WRITING --durable--> (buffer free)
 *
 * The records of one turn are one block.  Blocks are written once, never rewritten; several are in
 * flight at a time and may complete in any order: a block counts when all before it are durable.
 *
 *  (1) Block s has buffer s % META__LOG_BUFS; at most META__LOG_BUFS are not durable.
 *  (2) A block is submitted only after a flush, begun when its last record had been appended, of
 *      every drive with a volatile cache that its records name, except for blocks that were written
 *      FUA (META_SAFE).  It is written FUA.
 *  (3) A block records which sequence was durable when it was closed.  So an invalid block at or
 *      below that of any valid one was not torn, it is damaged.
 *  (4) Roots cover the trimmed part; but its zones are given back only when a block that records
 *      the trim is durable.  Otherwise a mount could not tell a returned zone from a lost one.
 *  (5) Blocks of records, and those that only vouch, leave META__LOG_KEEP_BLOCKS of a zone unused:
 *      however full the log is, two checkpoints can still record their trims.
 *  (6) A zone of a drive that is being drained is left as soon as there is another, whether it is
 *      being filled or the one ahead [test_meta_drain:store_that_is_used_meanwhile_loses_nothing].
 *  (7) With two drives a block is on both, and on three in a store of three copies: the same bytes
 *      in zones of the same order.  It is durable when all are.  So no block of a log is lost with
 *      one bad place.  In a store of one copy that is nearly full one must do
 *      [test_meta_copies:each_block_is_on_both_drives]; in others each drive that has room has a
 *      copy, until there are enough [test_meta_full_log].
 *  (8) A zone with fewer copies than drives could have is left as soon as one with more is ahead,
 *      or one that was taken when fewer drives served: at most two zones are given up half used
 *      when a drive is added.  Never for a zone that has few for lack of room
 *      [test_meta_drives:log_is_soon_on_both].
 *  (9) While shards are lent, room is reserved for all changes of borrowers that may be in
 *      transit: a checkpoint waits for them, so they must never wait for one
 *      [test_meta_lend:a_checkpoint_finds_all_at_home_and_lends_again].
 * (10) If a drive is dead for good, a block is durable when its other copies are.  The log does not
 *      wait for that drive's flush, since its data is lost anyway: an operation whose data was not
 *      flushed there ends with -EIO.  So the fate of each gathered record is decided, even if the
 *      store can make no more changes [test_meta_dead:log_goes_on_with_one_copy_and_says_so].
 * (11) In a store of several copies no block is written while the loss of a drive is not recorded:
 *      its records may name data that the drive missed, and a mount would replay them though the
 *      drive is back [test_meta_pair_moves:cut_before_a_loss_is_recorded_leaves_two_copies].
 * (12) In a store of two or three copies a zone that is ahead with fewer is given back when there
 *      is room for more, and one that converts has not converted before: else the log would go on
 *      in it when a drive may be lost
 *      [test_meta_protect:zone_that_the_log_takes_next_has_its_copy_at_the_end].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_fresh.h"
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_log.h"
#include "meta/engine/meta_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_TURNS 32u /* without changes, before an empty block vouches for the last */

/* The same for any store: its drives may be of another size than its zones are made for. */
uint64_t meta__log_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)META__LOG_BUFS * META__LOG_BLOCKS_MAX * META__BLOCK;
}

static int block_create(struct log_block *b, uint8_t *buf)
{
	ASSERT(buf);
	b->buf = buf;
	b->flush = calloc(META_DRIVES_MAX, sizeof(*b->flush));
	if (!b->flush)
		return -ENOMEM;
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		b->flush[d] = (struct meta__io){
			.io = { .op = META_IO_FLUSH, .drive = d },
			.kind = META__IO_LOG,
			.owner = b,
		};
		list_init(&b->flush[d].io.link);
	}
	for (uint32_t i = 0; i < META__LOG_COPIES; i++) {
		b->write[i] = (struct meta__io){
			.io = { .op = META_IO_WRITE, .fua = true, .buf = buf },
			.kind = META__IO_LOG,
			.owner = b,
		};
		list_init(&b->write[i].io.link);
	}
	return 0;
}

int meta__log_create(struct meta *m)
{
	struct meta__log *l = calloc(1, sizeof(*l));
	uint8_t *mem;

	m->log = l;
	if (!l)
		return -ENOMEM;
	meta__log_no_copies(l->ahead);
	l->zones = calloc(META__LOG_ZONES_MAX, sizeof(*l->zones));
	if (!l->zones)
		return -ENOMEM;
	mem = meta__mem_take(m, meta__log_memory(&m->conf));
	for (uint32_t i = 0; i < META__LOG_BUFS; i++) {
		int err = block_create(&l->block[i],
				       mem + (size_t)i * META__LOG_BLOCKS_MAX * META__BLOCK);

		if (err)
			return err;
	}
	return 0;
}

void meta__log_destroy(struct meta *m)
{
	if (!m->log)
		return;
	for (uint32_t i = 0; i < META__LOG_BUFS; i++)
		free(m->log->block[i].flush);
	free(m->log->zones);
	free(m->log);
	m->log = NULL;
}

bool meta__log_lives(const struct meta *m)
{
	return m->log->started && !m->log->broken;
}

void meta__log_fail(struct meta *m)
{
	m->log->broken |= !m->dead || m->losing;
}

/* (10) */
bool meta__log_spares(const struct meta *m, const struct meta__io *x)
{
	const struct log_block *b = x->owner;

	return m->log->started && (x->io.op == META_IO_FLUSH || meta__log_copies(b->zone) > 1);
}

static bool has_ahead(const struct meta__log *l)
{
	return l->ahead[0] != META__ZONE_NONE;
}

/* ---- boot ------------------------------------------------------------------ */

void meta__log_replaying(struct meta *m, uint64_t epoch, uint64_t base, uint64_t seq)
{
	ASSERT(!m->log->started);
	m->log->epoch = epoch;
	m->log->base = base;
	m->log->last = m->log->durable = seq;
}

void meta__log_start(struct meta *m, uint64_t base)
{
	struct meta__log *l = m->log;

	ASSERT(!l->started);
	ASSERT(m->zones->geo.zone_end > 1 + META__LOG_KEEP_BLOCKS); /* (5) */
	l->started = true;
	l->block_bytes_max =
		min_u32(META__LOG_BLOCKS_MAX, m->zones->geo.zone_end - 1 - META__LOG_KEEP_BLOCKS) *
		META__BLOCK;
	l->epoch = m->epoch;
	l->base = l->durable = l->last = l->trim = l->trim_said = l->trim_durable = base;
	l->next = base + 1;
	m->zones->log_order = m->zones->log_oldest = 0;
}

bool meta__log_ready(const struct meta *m)
{
	return m->log->started && has_ahead(m->log);
}

/* ---- zones ----------------------------------------------------------------- */

static uint32_t blocks_of(uint32_t bytes)
{
	return (uint32_t)div_up(sizeof(struct meta_log_disk) + bytes, META__BLOCK);
}

/* The log needs none of these any more. */
static void give_copies(struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	for (uint32_t i = 0; i < meta__log_copies(zone); i++) {
		ASSERT(meta__zone_at(m, zone[i])->state == ZONE_OPEN);
		meta__zone_give_log(m, zone[i]);
	}
}

/* Returns true if there is a zone for one more copy. */
static bool more_fit(const struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	uint64_t drives = 0;

	for (uint32_t i = 0; i < meta__log_copies(zone); i++)
		drives |= meta__mates(
			m, META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone[i])));
	ASSERT(drives);
	return meta__zone_pick_but(m, drives) != META__ZONE_NONE;
}

/* (12) */
static void leave_thin(struct meta *m)
{
	struct meta__log *l = m->log;

	if (likely(m->copies < 2 || !has_ahead(l) ||
		   meta__log_copies(l->ahead) == meta__log_copies_max(m)) ||
	    !meta__in_pairs(m) || meta__groups_free(m) <= meta__zones_of_reserve(m) + 1 ||
	    !more_fit(m, l->ahead) || meta__lend_log_bytes(m) > 0) /* (9) */
		return;
	give_copies(m, l->ahead);
	meta__log_no_copies(l->ahead);
}

/* Opens one zone ahead, within the log's limit.  True: there is one now. */
static bool zone_ahead(struct meta *m)
{
	struct meta__log *l = m->log;
	int err;

	leave_thin(m);
	if (has_ahead(l) || l->zones_count + 1 > m->zones->geo.log_zones_max)
		return false;
	m->zones->log_oldest = l->zones_count ? l->zones[0].order : m->zones->log_order + 1;
	err = meta__zone_take_log(m, l->ahead);
	if (err) /* a header is under way, or a zone must die first */
		meta__log_no_copies(l->ahead);
	l->ahead_drives = meta__domains_serving(m);
	ASSERT(err || has_ahead(l));
	return !err;
}

/* The log leaves the zone of a drive that is being drained, full or not. */
static bool serves(const struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	for (uint32_t i = 0; i < meta__log_copies(zone); i++)
		if (!meta__drive_takes(
			    m, META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone[i]))))
			return false;
	return true;
}

/* (8) */
static bool wants_copies(const struct meta *m, const uint32_t now[META__LOG_COPIES])
{
	const struct meta__log *l = m->log;
	const uint32_t copies = meta__log_copies_now(m);

	if (meta__log_copies(now) >= copies)
		return false;
	return meta__log_copies(l->ahead) > meta__log_copies(now) || l->ahead_drives < copies;
}

static struct log_zone *zone_now(const struct meta__log *l)
{
	return l->zones_count ? &l->zones[l->zones_count - 1] : NULL;
}

static void zone_switch(struct meta *m)
{
	struct meta__log *l = m->log;

	ASSERT(has_ahead(l));
	ASSERT(l->zones_count < m->zones->geo.log_zones_max);
	l->zones[l->zones_count] = (struct log_zone){
		.order = m->zones->log_order, /* no other was opened since */
	};
	memcpy(l->zones[l->zones_count++].zone, l->ahead, sizeof(l->ahead));
	l->cur_at = 1;
	meta__log_no_copies(l->ahead);
}

/* Gives back zones whose trim a durable block records (4). */
static void zones_release(struct meta *m)
{
	struct meta__log *l = m->log;
	uint32_t gone = 0;

	ASSERT(l->trim_durable <= l->trim_said); /* (4) */
	ASSERT(l->trim_said <= l->trim);
	for (; gone + 1 < l->zones_count && l->zones[gone].last_seq <= l->trim_durable; gone++)
		give_copies(m, l->zones[gone].zone);
	ASSERT(gone == 0 || gone < l->zones_count); /* the one that is being filled stays */
	l->zones_count -= gone;
	for (uint32_t i = 0; gone && i < l->zones_count; i++)
		l->zones[i] = l->zones[i + gone];
}

/* ---- room ------------------------------------------------------------------ */

static struct log_block *block_of(struct meta__log *l, uint64_t seq)
{
	return &l->block[seq % META__LOG_BUFS];
}

static uint64_t bytes_used(const struct meta__log *l)
{
	DASSERT(l->bytes >= l->bytes_trimmed);
	return l->bytes - l->bytes_trimmed;
}

/* Does a new block of nblocks fit at block `at` of the current zone, or else in the next? */
static bool can_place(const struct meta *m, uint32_t at, uint32_t nblocks, uint32_t keep)
{
	const struct meta__log *l = m->log;

	if (l->zones_count && at + nblocks + keep <= m->zones->geo.zone_end)
		return true;
	return has_ahead(l);
}

static bool fits_open(const struct meta *m, const struct log_block *b, uint32_t bytes)
{
	uint32_t nblocks = blocks_of(b->bytes + bytes);

	return sizeof(struct meta_log_disk) + b->bytes + bytes <= m->log->block_bytes_max &&
	       b->at + nblocks + META__LOG_KEEP_BLOCKS <= m->zones->geo.zone_end;
}

static bool has_room(struct meta *m, uint32_t bytes)
{
	struct meta__log *l = m->log;
	uint32_t at = l->cur_at;

	ASSERT(bytes <= META__RECORD_BYTES_MAX);
	if (!meta__log_lives(m))
		return false;
	if (l->open) {
		const struct log_block *b = block_of(l, l->next - 1);

		if (fits_open(m, b, bytes))
			return true;
		at = b->at + blocks_of(b->bytes);
	}
	return l->next - l->durable <= META__LOG_BUFS &&
	       can_place(m, at, blocks_of(bytes), META__LOG_KEEP_BLOCKS);
}

/* A record of `nblocks` may fill the rest of its zone, and most of the one ahead.  Returns true if
 * there is still room for `kept` bytes: in the zone ahead, after the record, or in one more. */
static bool keeps(const struct meta *m, uint32_t nblocks, uint64_t kept)
{
	const struct meta__log *l = m->log;
	const uint32_t open = blocks_of(META__RECORD_BYTES_MAX);
	const uint32_t end = m->zones->geo.zone_end - META__LOG_KEEP_BLOCKS;

	return l->cur_at + open + nblocks <= end || 1 + nblocks + kept / META__BLOCK <= end ||
	       (l->zones_count + 1 < m->zones->geo.log_zones_max && m->zones->free_total > 0);
}

/* Returns true if it fits the log's limit, with `kept` bytes reserved for others (9). */
static bool within(const struct meta *m, uint64_t bytes, uint32_t nblocks, uint64_t kept)
{
	const struct meta__log *l = m->log;
	const uint32_t blocks = blocks_of(META__RECORD_BYTES_MAX);

	if (bytes_used(l) + bytes + kept > m->zones->geo.log_bytes_max)
		return false;
	if (kept == 0)
		return true;
	if (has_ahead(l))
		return keeps(m, nblocks, kept);
	return l->cur_at + 2 * blocks + kept / META__BLOCK + META__LOG_KEEP_BLOCKS <=
	       m->zones->geo.zone_end;
}

bool meta__log_room(struct meta *m, uint32_t bytes)
{
	const uint32_t nblocks = blocks_of(bytes);

	return within(m, (uint64_t)nblocks * META__BLOCK, nblocks, meta__lend_log_bytes(m)) &&
	       has_room(m, bytes);
}

bool meta__log_room_made(struct meta *m, uint32_t bytes)
{
	return has_room(m, bytes);
}

bool meta__log_lends(const struct meta *m, uint64_t bytes)
{
	return m->log->started && within(m, m->zones->geo.log_bytes_max / 4, 0, bytes);
}

/* There will be none without a checkpoint: it is not only blocks, or a zone's header, in flight. */
bool meta__log_full(const struct meta *m, uint32_t bytes)
{
	const struct meta__log *l = m->log;

	if (bytes_used(l) + (uint64_t)blocks_of(bytes) * META__BLOCK > m->zones->geo.log_bytes_max)
		return true;
	if (has_ahead(l))
		return false;
	return l->zones_count + 1 > m->zones->geo.log_zones_max ||
	       (m->zones->free_total == 0 && !m->zones->log_opening);
}

/* ---- sending --------------------------------------------------------------- */

/* (11): later, if a loss is not recorded yet. */
static void block_write(struct meta *m, struct log_block *b)
{
	ASSERT(b->state == LOG_FLUSHING); /* (2) */
	ASSERT(b->flushing == 0);
	ASSERT(b->at + blocks_of(b->bytes) <= m->zones->geo.zone_end);
	if (unlikely(m->losing))
		return;
	b->state = LOG_WRITING;
	for (uint32_t i = 0; i < meta__log_copies(b->zone); i++) {
		struct meta_io *io = &b->write[i].io;
		uint64_t baddr;

		baddr = meta__geo_zone_baddr(&m->zones->geo, b->zone[i]) + b->at;
		io->drive = META_BADDR_DRIVE(baddr);
		io->block = META_BADDR_BLOCK(baddr);
		io->nblocks = blocks_of(b->bytes);
		if (meta__may_lose(m) && !meta__drive_reads(m, io->drive))
			continue; /* meta_pair.c (4) */
		b->writing++;
		meta__io_want(m, &b->write[i]);
	}
	if (unlikely(b->writing == 0)) {
		m->log->broken = true; /* (10) */
		meta__error(m, "the log has no copy on a drive that serves");
		meta__fail(m);
	}
}

/* Flushes the drives with data that the block's records name (2). */
static void block_flush(struct meta *m, struct log_block *b)
{
	ASSERT(b->state == LOG_OPEN);
	ASSERT(b->flushing == 0);
	ASSERT(b->writing == 0);
	b->state = LOG_FLUSHING;
	for (uint32_t d = 0; d < m->conf.ndrives; d++) {
		if (!(b->drives_mask >> (d % 64) & 1) || !m->conf.drive[d].volatile_cache)
			continue;
		if (meta__may_lose(m) && !meta__drive_reads(m, d))
			continue;
		b->flushing++;
		meta__io_want(m, &b->flush[d]);
	}
	if (b->flushing == 0)
		block_write(m, b);
}

static void mark_block(struct meta *m, uint64_t seq)
{
	struct meta__log *l = m->log;
	uint64_t step = m->zones->geo.log_bytes_max / (META__LOG_MARKS / 2);
	uint32_t newest = (l->mark_first + l->mark_count + META__LOG_MARKS - 1) % META__LOG_MARKS;

	ASSERT(l->mark_count <= META__LOG_MARKS);
	ASSERT(l->mark_first < META__LOG_MARKS);
	if (l->mark_count && l->bytes - l->mark[newest].bytes < step)
		return;
	if (l->mark_count == META__LOG_MARKS)
		return; /* the bytes up to here count as long as later ones do */
	l->mark[(newest + 1) % META__LOG_MARKS] =
		(struct log_mark){ .seq = seq, .bytes = l->bytes };
	l->mark_count++;
}

static void block_close(struct meta *m)
{
	struct meta__log *l = m->log;
	struct log_block *b = block_of(l, l->next - 1);
	uint32_t nblocks = blocks_of(b->bytes);
	struct meta__log_head head = {
		.tag = meta__log_tag(m, l->epoch, zone_now(l)->order),
		.epoch = l->epoch,
		.seq = b->seq,
		.durable = l->durable,
		.trim = l->trim,
		.nblocks = nblocks,
		.bytes = b->bytes,
		.records = b->records,
	};

	ASSERT(l->open && b->state == LOG_OPEN);
	ASSERT(b->seq == l->next - 1); /* (3) */
	ASSERT(head.durable < b->seq);
	ASSERT(nblocks * META__BLOCK <= l->block_bytes_max);
	l->open = false;
	b->trim = l->trim;
	l->trim_said = l->trim;
	l->unvouched = b->records > 0;
	l->cur_at = b->at + nblocks;
	zone_now(l)->last_seq = b->seq;
	l->bytes += (uint64_t)nblocks * META__BLOCK;
	l->blocks_written += nblocks;
	mark_block(m, b->seq);
	meta__log_seal(b->buf, &head);
	block_flush(m, b);
}

/* For the one ahead, with room in it: (6), (8). */
static bool is_left(const struct meta *m, const uint32_t now[META__LOG_COPIES])
{
	return !serves(m, now) || !serves(m, m->log->ahead) || wants_copies(m, now);
}

static void block_open(struct meta *m, uint32_t nblocks, uint32_t keep)
{
	struct meta__log *l = m->log;
	struct log_block *b = block_of(l, l->next);

	ASSERT(!l->open && b->state == LOG_IDLE);
	ASSERT(l->next - l->durable <= META__LOG_BUFS); /* (1) */
	if (!zone_now(l) || l->cur_at + nblocks + keep > m->zones->geo.zone_end ||
	    (has_ahead(l) && is_left(m, zone_now(l)->zone)))
		zone_switch(m);
	b->state = LOG_OPEN;
	b->seq = l->next++;
	memcpy(b->zone, zone_now(l)->zone, sizeof(b->zone));
	b->at = l->cur_at;
	b->bytes = b->records = b->flushing = b->writing = b->written = 0;
	b->drives_mask = 0;
	l->open = true;
	ASSERT(b->at >= 1);
	ASSERT(b->at + nblocks <= m->zones->geo.zone_end);
}

/* Returns the place of one more record of `bytes`; there must be room. */
static uint8_t *take_place(struct meta *m, uint32_t bytes, uint64_t drives_mask)
{
	struct meta__log *l = m->log;
	struct log_block *b;
	uint8_t *at;

	ASSERT(has_room(m, bytes));
	if (l->open && !fits_open(m, block_of(l, l->next - 1), bytes))
		block_close(m);
	if (!l->open)
		block_open(m, blocks_of(bytes), META__LOG_KEEP_BLOCKS);
	b = block_of(l, l->next - 1);
	at = b->buf + sizeof(struct meta_log_disk) + b->bytes;
	b->bytes += bytes;
	b->records++;
	b->drives_mask |= drives_mask;
	ASSERT(b->at + blocks_of(b->bytes) + META__LOG_KEEP_BLOCKS <=
	       m->zones->geo.zone_end); /* (5) */
	ASSERT(b->seq >= l->last);
	l->last = b->seq;
	l->quiet_turns = 0;
	return at;
}

uint64_t meta__log_append(struct meta *m, const struct meta__mut *mut, uint32_t count,
			  uint64_t drives_mask)
{
	const uint32_t bytes = meta__log_record_bytes(mut, count);
	uint8_t *at = take_place(m, bytes, drives_mask);

	ASSERT(meta__record_write(m, at, mut, count) == bytes);
	return m->log->last;
}

uint64_t meta__log_append_made(struct meta *m, const void *record, uint32_t bytes,
			       uint64_t drives_mask)
{
	ASSERT(bytes > 0);
	ASSERT(bytes <= META__RECORD_BYTES_MAX);
	memcpy(take_place(m, bytes, drives_mask), record, bytes);
	return m->log->last;
}

static void send_empty(struct meta *m, uint32_t keep)
{
	struct meta__log *l = m->log;

	ASSERT(!l->open);
	if (l->next - l->durable > META__LOG_BUFS || !can_place(m, l->cur_at, 1, keep))
		return;
	block_open(m, 1, keep);
	block_close(m);
}

bool meta__log_turn(struct meta *m)
{
	struct meta__log *l = m->log;
	bool room;

	if (!meta__log_lives(m))
		return false;
	if (l->open)
		block_close(m);
	if (m->failed)
		return false;
	room = zone_ahead(m);
	if (l->trim != l->trim_said)
		send_empty(m, 0);
	if (!meta_log_unvouched(m) || m->conf.vouch_later)
		l->quiet_turns = 0;
	else if (++l->quiet_turns >= QUIET_TURNS)
		send_empty(m, META__LOG_KEEP_BLOCKS);
	return room;
}

bool meta_log_unvouched(const struct meta *m)
{
	const struct meta__log *l = m->log;

	return l->started && l->unvouched && l->durable + 1 == l->next && !m->failed;
}

void meta_log_vouch(struct meta *m)
{
	if (meta_log_unvouched(m))
		send_empty(m, META__LOG_KEEP_BLOCKS);
}

/* ---- answers --------------------------------------------------------------- */

/* Notes where the block is: meta_witness.c may have to find it there. */
static void note_newest(struct meta *m, const struct log_block *b)
{
	ASSERT(b->state == LOG_DURABLE);
	for (uint32_t i = 0; i < meta__log_copies(b->zone); i++) {
		struct log_newest *n = &m->log->newest[b->write[i].io.drive];

		n->baddr = meta__geo_zone_baddr(&m->zones->geo, b->zone[i]) + b->at;
		memcpy(n->head, b->buf, sizeof(n->head));
	}
}

bool meta__log_newest(const struct meta *m, uint32_t drive, uint64_t *baddr, void *head)
{
	const struct log_newest *n = &m->log->newest[drive];
	const uint32_t zone = n->baddr ? meta__zone_of(m, n->baddr) : META__ZONE_NONE;
	bool has = false;

	ASSERT(drive < META_DRIVES_MAX);
	for (uint32_t i = 0; i < m->log->zones_count && zone != META__ZONE_NONE; i++)
		for (uint32_t copy = 0; copy < META__LOG_COPIES; copy++)
			has |= m->log->zones[i].zone[copy] == zone;
	if (has) {
		*baddr = n->baddr;
		memcpy(head, n->head, sizeof(n->head));
	}
	return has;
}

static void advance_durable(struct meta *m)
{
	struct meta__log *l = m->log;

	while (l->durable + 1 < l->next) {
		struct log_block *b = block_of(l, l->durable + 1);

		if (b->state != LOG_DURABLE || m->losing) /* meta_pair.c (3) */
			break;
		ASSERT(b->seq == l->durable + 1);
		note_newest(m, b);
		b->state = LOG_IDLE;
		l->durable++;
		meta__fresh_durable(m, l->durable);
		ASSERT(b->trim >= l->trim_durable); /* (4) */
		ASSERT(b->trim <= l->trim_said);
		l->trim_durable = b->trim;
	}
	zones_release(m);
}

static wk_cold void log_failed(struct meta *m, const struct meta__io *x)
{
	m->log->broken = true; /* (10) */
	meta__error(m, "drive %u: the log could not be %s (error %d)", x->io.drive,
		    x->io.op == META_IO_FLUSH ? "flushed for" : "written", -x->io.status);
	meta__fail(m);
}

/* (10): the drive is dead, and another copy is written, or may yet be. */
static bool does_without(struct meta *m, const struct log_block *b, const struct meta__io *x)
{
	if (x->io.op == META_IO_WRITE && b->written == 0 && b->writing <= 1)
		return false;
	return meta__drive_lose(m, x->io.drive) || x->io.gone;
}

void meta__log_recorded(struct meta *m)
{
	const struct meta__log *l = m->log;

	ASSERT(!m->losing);
	for (uint64_t seq = l->durable + 1; seq < l->next && meta__log_lives(m); seq++) {
		struct log_block *b = block_of(m->log, seq);

		if (b->state == LOG_FLUSHING && b->flushing == 0)
			block_write(m, b);
	}
	advance_durable(m);
}

void meta__log_io_done(struct meta *m, struct meta__io *x)
{
	struct log_block *b = x->owner;

	ASSERT(x->kind == META__IO_LOG);
	ASSERT(x->io.drive < META_DRIVES_MAX);
	if (x->io.status && !does_without(m, b, x)) {
		log_failed(m, x);
		return;
	}
	if (x->io.op == META_IO_FLUSH) {
		ASSERT(b->state == LOG_FLUSHING && b->flushing > 0);
		if (--b->flushing == 0 && meta__log_lives(m))
			block_write(m, b);
		return;
	}
	ASSERT(b->state == LOG_WRITING && b->writing > 0);
	b->written += !x->io.status;
	if (--b->writing > 0)
		return; /* (7) */
	ASSERT(b->written > 0);
	b->state = LOG_DURABLE;
	advance_durable(m);
}

uint32_t meta__log_record_max(const struct meta *m)
{
	return m->zones->geo.zone_blocks < META__ZONE_BLOCKS_SMALL ? META__RECORD_BYTES_SMALL
								   : META__RECORD_BYTES_MAX;
}

uint64_t meta__log_durable(const struct meta *m)
{
	return m->log->durable;
}

uint64_t meta__log_last(const struct meta *m)
{
	return m->log->last;
}

bool meta__log_wants_ckpt(const struct meta *m)
{
	const struct meta__log *l = m->log;

	if (!l->started || l->trim >= l->last)
		return false;
	return bytes_used(l) > m->zones->geo.log_bytes_max / 2 ||
	       2 * l->zones_count > m->zones->geo.log_zones_max;
}

/* Is a turn needed soon though no I/O is in flight? */
bool meta__log_more(const struct meta *m)
{
	const struct meta__log *l = m->log;

	return meta_log_unvouched(m) && !m->conf.vouch_later && l->quiet_turns < QUIET_TURNS;
}

bool meta__log_moves(const struct meta *m)
{
	return m->log->durable + 1 != m->log->next || m->zones->log_opening ||
	       m->zones->log_ready[0] != META__ZONE_NONE;
}

uint32_t meta__log_zones(const struct meta *m)
{
	return m->log->zones_count + has_ahead(m->log) +
	       (m->zones->log_opening || m->zones->log_ready[0] != META__ZONE_NONE);
}

/* Returns true if nothing is gathered or in flight, and all trims are recorded. */
bool meta__log_quiet(const struct meta *m)
{
	const struct meta__log *l = m->log;

	return !l->open && l->durable + 1 == l->next && l->trim_durable == l->trim;
}

void meta__log_trim(struct meta *m, uint64_t seq)
{
	struct meta__log *l = m->log;

	if (!l->started || seq <= l->trim)
		return;
	ASSERT(seq <= l->durable);
	l->trim = seq;
	while (l->mark_count && l->mark[l->mark_first].seq <= seq) {
		l->bytes_trimmed = l->mark[l->mark_first].bytes;
		l->mark_first = (l->mark_first + 1) % META__LOG_MARKS;
		l->mark_count--;
	}
	if (l->trim + 1 == l->next)
		l->bytes_trimmed = l->bytes;
	ASSERT(l->bytes_trimmed <= l->bytes);
	ASSERT(l->trim < l->next);
}
