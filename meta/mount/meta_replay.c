/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The log of an earlier mount: scanned as a whole, then replayed.
 *
 *   zones by order   [.. 5 6 7 |stale] [8 9 10 ..] [11 x 13 | never written]
 *                         ^ first = trim + 1            ^ torn: no block vouches for 12
 *
 * The scan steps by 4096 bytes and checks every place where a block of this log could begin, even
 * after a damaged one.  The tag of a block identifies this log and this use of the zone.
 *
 *  (1) first is one more than the highest `trim` in any block.  All blocks from there on must be
 *      present, without a gap, up to the highest sequence that any block (or root) vouches for:
 *      otherwise an acknowledged change is damaged, and the mount is refused by name
 *      [test_meta_replay:gap_is_refused_though_what_follows_is_whole].
 *  (2) After that comes the torn tail: its blocks without a gap are replayed too (they were whole;
 *      no client was told), the rest never happened.  Blocks in flight when the power
 *      failed may also be garbage, or unreadable: such a block counts as damaged
 *      [test_meta_replay:last_block_that_nothing_vouches_for_is_a_torn_tail].
 *  (3) A part of a record is applied to a shard exactly when its number is the shard's next one.
 *      Lower ones are in its tree already.  A higher one means that a record is missing.
 *  (4) Receipts are taken from every part, also from those that are in their trees
 *      [test_meta_receipt:what_was_forgotten_is_not_forgotten].
 *  (5) Each zone that a record names is held before the first page is written: the blocks that the
 *      record names are not in any tree yet
 *      [test_meta_power:store_is_what_was_acknowledged_after_every_cut].
 *  (6) Two or three zones may have the same order, on as many drives: each block is in all, and any
 *      will do.  Blocks are replayed in order of their sequences, whichever zone they are found in:
 *      a zone in which one is missing is read again when another one has supplied it
 *      [test_meta_copies:each_may_lack_what_the_other_one_has].
 *  (7) A lost block was never written, or is damaged; a block that cannot be read for another
 *      reason may be whole, and readable tomorrow.  All copies but one may be such; else the mount
 *      is refused [test_meta_copies:one_that_cannot_be_read_is_not_needed].
 */
#include "meta/meta_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- which zones ------------------------------------------------------------------ */

static bool is_named(const struct meta *m, uint64_t log_epoch)
{
	ASSERT(m->boot->root_seen);
	for (uint32_t i = 0; i < m->nshards; i++)
		if (m->boot->root_seen[i].log_epoch == log_epoch)
			return true;
	return false;
}

void meta__replay_take(struct meta *m, const struct meta__zone_seen *seen)
{
	struct meta__boot *b = m->boot;

	ASSERT(seen->kind == META__ZONE_LOG);
	ASSERT(seen->zone < b->geo.nzones);
	ASSERT(b->span_count + b->later_count < b->geo.nzones);
	if (seen->epoch == b->log_epoch) {
		b->span[b->span_count++] = (struct meta__log_span){
			.zone = seen->zone, .order = seen->order, .oldest_order = seen->oldest_order
		};
	} else if (is_named(m, seen->epoch)) { /* meta_boot.c (3) */
		meta__zone_use(m, seen->zone, META__ZONE_LOG);
		m->zones->log_count++;
		b->span[b->geo.nzones - ++b->later_count].zone = seen->zone;
	}
}

/* ---- going over the zones ----------------------------------------------------- */

static uint8_t *chunk_block(const struct meta__boot *b)
{
	ASSERT(b->chunk_at < META__BOOT_BLOCKS);
	return b->buf + (size_t)b->chunk_at * META__BLOCK;
}

/* Finds a whole block from chunk_at on.  Stops where one begins that the chunk cuts off. */
static bool find_block(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint64_t tag = meta__log_tag(m, b->log_epoch, b->span[b->span_at].order);

	ASSERT(b->chunk_at <= b->chunk_end);
	ASSERT(b->chunk_end <= META__BOOT_BLOCKS);
	for (; b->chunk_at < b->chunk_end; b->chunk_at++) {
		uint32_t here = b->chunk_end - b->chunk_at;
		uint32_t says = meta__log_peek(chunk_block(b), tag);

		if (b->chunk_at > 0 && says > here && says <= META__LOG_BLOCKS_MAX &&
		    b->block_at + b->chunk_at + says <= b->geo.zone_end)
			return false;
		if (says && meta__log_open(chunk_block(b), here, tag, &b->head) == 0)
			return true;
	}
	return false;
}

/* Returns the start of the chunk. */
static uint64_t chunk_baddr(const struct meta__boot *b)
{
	ASSERT(b->span_at < b->span_count);
	ASSERT(b->block_at < b->geo.zone_end);
	return meta__geo_zone_baddr(&b->geo, b->span[b->span_at].zone) + b->block_at;
}

/* Those of one order: a zone, or all copies of it, side by side. */
struct group {
	uint32_t first, count;
	uint64_t last; /* the highest sequence in it */
};

static struct group group_of(const struct meta__boot *b)
{
	const uint64_t order = b->span[b->span_at].order;
	struct group g = { .first = b->span_at, .count = 1 };

	ASSERT(b->span_at < b->span_count);
	while (g.first > 0 && b->span[g.first - 1].order == order)
		g.first--;
	g.count = b->span_at - g.first + 1;
	while (g.first + g.count < b->span_count && b->span[g.first + g.count].order == order)
		g.count++;
	ASSERT(g.count <= META__LOG_COPIES); /* (6): is_too_many() */
	for (uint32_t i = 0; i < g.count; i++)
		g.last = max_u64(g.last, b->span[g.first + i].last_seq);
	return g;
}

/* A copy without a block that is known to be durable was whole once.  (Sequences known from roots
 * only may be a torn tail that an earlier mount found in the other copy.) */
static void copies_judge(struct meta *m, const struct group *g)
{
	struct meta__boot *b = m->boot;
	const uint64_t end = min_u64(g->last, b->durable) + 1;

	ASSERT(g->first + g->count <= b->span_count);
	ASSERT(g->count > 0);
	for (uint32_t i = 0; g->count > 1 && i < g->count; i++) {
		const struct meta__log_span *s = &b->span[g->first + i];

		if (end > b->group_first && s->count < end - b->group_first)
			meta__boot_note(m,
					"drive %u: a copy of the log is damaged in zone %u; the "
					"other one is whole there",
					META_BADDR_DRIVE(meta__geo_zone_baddr(&b->geo, s->zone)),
					s->zone);
	}
	b->group_first = max_u64(b->group_first, b->seq_next);
}

/* Chooses the next span during replay, until all copies of a zone are exhausted. */
static uint32_t span_next(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const struct group g = group_of(b);
	const bool got_some = b->got_some;

	ASSERT(b->span_at < b->span_count);
	if (!b->replaying || b->span_at + 1 < g.first + g.count)
		return b->span_at + 1;
	b->got_some = false;
	if (got_some && b->seq_next <= min_u64(g.last, b->last))
		return g.first; /* (6) */
	copies_judge(m, &g);
	return g.first + g.count;
}

/* Reads the next chunk of this zone, or of the next one; -EALREADY: no more. */
static int read_chunk(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->in_block);
	ASSERT(b->block_at + b->chunk_at <= b->geo.zone_end);
	b->block_at += b->chunk_at;
	b->chunk_at = b->chunk_end = 0;
	if (b->block_at == b->geo.zone_end) {
		b->block_at = 1;
		b->span_at = span_next(m);
	}
	if (b->span_at == b->span_count)
		return -EALREADY;
	b->chunk_end = min_u32(META__BOOT_BLOCKS, b->geo.zone_end - b->block_at);
	b->count = 1;
	meta__boot_io(m, META_IO_READ, chunk_baddr(b), b->chunk_end, 0);
	return 0;
}

/* (7) */
static bool other_copy_is_read(const struct meta__boot *b)
{
	const struct group g = group_of(b);

	ASSERT(g.count > 0);
	for (uint32_t i = g.first; i < g.first + g.count; i++)
		if (i != b->span_at && !b->span[i].unread)
			return true;
	return false;
}

/* A chunk that cannot be read is read block by block; a lost block does not belong to the log (2).
 * 0: the chunk is here; -EAGAIN: it is being read again. */
static int chunk_here(struct meta *m)
{
	struct meta__boot *b = m->boot;
	bool again = false;

	ASSERT(b->count <= META__BOOT_BLOCKS);
	for (uint32_t i = 0; b->sent && i < b->count; i++) {
		const struct meta_io *io = &b->io[i].io;

		if (io->status == 0)
			continue;
		if (io->status != -ENODATA && !other_copy_is_read(b))
			return meta__boot_fail(m, -EIO,
					       "drive %u block %llu: the log cannot be read",
					       io->drive, (unsigned long long)io->block);
		b->span[b->span_at].unread |= io->status != -ENODATA;
		again = io->nblocks > 1;
		if (again)
			break;
		memset(io->buf, 0, META__BLOCK);
		meta__boot_note(m,
				"drive %u block %llu: cannot be read; it is taken for no part of "
				"the log",
				io->drive, (unsigned long long)io->block);
	}
	b->sent = false;
	if (!again)
		return 0;
	b->count = b->chunk_end;
	for (uint32_t i = 0; i < b->count; i++)
		meta__boot_io(m, META_IO_READ, chunk_baddr(b) + i, 1, i);
	return -EAGAIN;
}

/* visit() each block in its turn; it may say -EAGAIN and is called again for the same block. */
static int go_over(struct meta *m, int (*visit)(struct meta *m))
{
	struct meta__boot *b = m->boot;
	int err = chunk_here(m);

	if (err)
		return err;
	while (b->in_block || find_block(m)) {
		b->in_block = true;
		err = visit(m);
		if (err)
			return err;
		b->in_block = false;
		ASSERT(b->chunk_at + b->head.nblocks <= b->chunk_end);
		b->chunk_at += b->head.nblocks;
	}
	return read_chunk(m);
}

static void go_over_start(struct meta__boot *b)
{
	ASSERT(b->in_flight == 0);
	b->span_at = 0;
	b->block_at = 1;
	b->chunk_at = b->chunk_end = 0;
	b->in_block = b->in_record = false;
}

/* ---- first pass: finding blocks ------------------------------------------------ */

static int hold_zone(struct meta *m, const struct meta__mut *mut)
{
	const struct meta_key *key = &mut->key;
	uint32_t zone;

	ASSERT(mut->value_len <= META_PAGE_BYTES);
	if (meta__key_dir(key) || meta__key_class(key) != META__CLASS_ZONE)
		return 0;
	zone = meta__zone_of_key(m, key);
	if (zone == META__ZONE_NONE || !meta__heads_adopt(m, zone, META__ZONE_DATA) ||
	    (!mut->del && mut->value_len != sizeof(le64)))
		return meta__boot_fail(m, -EUCLEAN, "log block %llu names a zone that is not one",
				       (unsigned long long)m->boot->head.seq);
	ASSERT(!m->zones->counted);     /* (5): no page has been written */
	meta__zone_hold(m, zone, true); /* (5) */
	return 0;
}

static int receipts_check(struct meta *m)
{
	ASSERT(m->boot->part.count <= META__TX_RECORDS_MAX);
	for (uint32_t i = 0; i < m->boot->part.count; i++)
		if (meta__receipt_check(&m->boot->mut[i]))
			return meta__boot_fail(m, -EUCLEAN,
					       "log block %llu: a receipt is malformed",
					       (unsigned long long)m->boot->head.seq);
	return 0;
}

static int look_at_records(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int rc, err;

	meta__reader_init(&b->reader, chunk_block(b), &b->head, m->nshards);
	while ((rc = meta__reader_next(&b->reader, &b->part, b->mut)) == 1) {
		err = receipts_check(m);
		if (err)
			return err;
		ASSERT(b->part.shard < m->nshards);
		if (b->part.seq <= m->shard[b->part.shard].seq)
			continue; /* (3) */
		for (uint32_t i = 0; i < b->part.count; i++) {
			err = hold_zone(m, &b->mut[i]);
			if (err)
				return err;
		}
	}
	if (rc)
		return meta__boot_fail(m, -EUCLEAN, "log block %llu: a record is malformed",
				       (unsigned long long)b->head.seq);
	return 0;
}

/* A block without neighbours is a run.  There may be as many as zones that were trimmed and reused:
 * the blocks in the gaps are not needed, which (1) ensures. */
static int run_begin(struct meta *m, uint32_t at, uint64_t seq)
{
	struct meta__boot *b = m->boot;

	ASSERT(at <= b->run_count);
	ASSERT(b->run_count <= b->run_max);
	if (b->run_count == b->run_max) {
		uint32_t max = b->run_max ? 2 * b->run_max : 64;
		struct meta__seq_run *run = realloc(b->run, max * sizeof(*run));

		if (!run)
			return meta__boot_fail(m, -ENOMEM, "no memory for %u gaps of the log", max);
		b->run = run;
		b->run_max = max;
	}
	memmove(&b->run[at + 1], &b->run[at], (b->run_count++ - at) * sizeof(*b->run));
	b->run[at] = (struct meta__seq_run){ seq, seq };
	return 0;
}

/* In any order: a copy may have blocks that the other one lacks (6). */
static int run_add(struct meta *m, uint64_t seq)
{
	struct meta__boot *b = m->boot;
	struct meta__seq_run *run = b->run;
	uint32_t at = b->run_count;
	bool follows, leads;

	while (at > 0 && run[at - 1].first > seq)
		at--;
	ASSERT(at == b->run_count || run[at].first > seq);
	ASSERT(at < 2 || run[at - 2].last + 1 < run[at - 1].first); /* else they were one */
	if (at > 0 && seq <= run[at - 1].last)
		return 0;
	follows = at > 0 && run[at - 1].last + 1 == seq;
	leads = at < b->run_count && run[at].first == seq + 1;
	if (follows && leads) {
		run[at - 1].last = run[at].last;
		memmove(&run[at], &run[at + 1], (--b->run_count - at) * sizeof(*run));
	} else if (follows) {
		run[at - 1].last = seq;
	} else if (leads) {
		run[at].first = seq;
	} else {
		return run_begin(m, at, seq);
	}
	return 0;
}

static int look_at_block(struct meta *m)
{
	struct meta__boot *b = m->boot;
	struct meta__log_span *span = &b->span[b->span_at];
	const struct meta__log_head *h = &b->head;
	int err;

	ASSERT(!b->replaying);
	ASSERT(b->span_at < b->span_count);
	if (h->epoch != b->log_epoch)
		return meta__boot_fail(m, -EUCLEAN,
				       "log block %llu is of mount %llu, in the log of %llu",
				       (unsigned long long)h->seq, (unsigned long long)h->epoch,
				       (unsigned long long)b->log_epoch);
	b->durable = max_u64(b->durable, h->durable);
	b->trim = max_u64(b->trim, h->trim);
	span->last_seq = max_u64(span->last_seq, h->seq);
	span->end = max_u32(span->end, b->block_at + b->chunk_at + h->nblocks);
	err = run_add(m, h->seq);
	return err ? err : look_at_records(m);
}

/* Frees zones without blocks to replay: a full store needs them to mount. */
static void drop_spans(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint32_t kept = 0;

	for (b->span_at = 0; b->span_at < b->span_count;) {
		const struct group g = group_of(b);

		for (uint32_t i = 0; i < g.count; i++, b->span_at++) {
			if (b->span[b->span_at].stale)
				continue;
			if (g.last < b->first)
				meta__zone_give_log(m, b->span[b->span_at].zone);
			else
				b->span[kept++] = b->span[b->span_at];
		}
	}
	b->span_count = kept;
	ASSERT(b->span_count <= b->geo.nzones);
	ASSERT(!b->log_judged);
}

/* Notes how far the newest zone of the log is filled: for meta_heads.c (4). */
static void note_end(struct meta__boot *b)
{
	uint32_t i = b->span_count;
	struct group g;

	ASSERT(b->span_count <= b->geo.nzones);
	b->log_end = UINT32_MAX;
	while (i > 0 && b->span[i - 1].stale)
		i--;
	if (i == 0)
		return;
	b->span_at = i - 1;
	g = group_of(b);
	b->log_copies = g.count;
	b->log_end = 0;
	for (i = g.first; i < g.first + g.count; i++)
		b->log_end = max_u32(b->log_end, b->span[i].end);
}

/* What must be there, is it?  (1), (2) */
static int judge(struct meta *m)
{
	struct meta__boot *b = m->boot;

	b->must = max_u64(b->durable, b->log_known);
	b->first = max_u64(b->trim, b->log_base) + 1;
	b->last = b->first - 1;
	for (uint32_t i = 0; i < b->run_count; i++)
		if (b->run[i].first <= b->first && b->run[i].last >= b->first)
			b->last = b->run[i].last;
	if (b->last < b->must)
		return meta__boot_fail(
			m, -EUCLEAN, "log block %llu is damaged or missing, and %llu was durable",
			(unsigned long long)b->last + 1, (unsigned long long)b->must);
	ASSERT(b->last >= b->must); /* (1) */
	note_end(b);
	drop_spans(m);
	b->log_judged = true;
	meta__log_replaying(m, b->log_epoch, b->log_base, b->last);
	meta__boot_next(m, meta__boot_count);
	return 0;
}

static uint32_t drive_of(const struct meta__boot *b, uint32_t span)
{
	ASSERT(span < b->span_count);
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&b->geo, b->span[span].zone));
}

/* Is it one copy too many of its zone, or on the drive of another one? */
static bool is_too_many(const struct meta *m, uint32_t i)
{
	const struct meta__boot *b = m->boot;
	uint32_t copies = 1;

	ASSERT(i < b->span_count);
	for (uint32_t k = i; k > 0 && b->span[k - 1].order == b->span[i].order; k--, copies++)
		if (drive_of(b, k - 1) == drive_of(b, i))
			return true;
	return copies > meta__log_copies_max(m);
}

/* By order, and without those that a newer one says are not needed. */
static int sort_spans(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint64_t newest = 0, oldest = 0;
	uint32_t kept = 0;

	ASSERT(!b->log_judged);
	for (uint32_t i = 0; i < b->span_count; i++) {
		if (b->span[i].order <= newest)
			continue;
		newest = b->span[i].order;
		oldest = b->span[i].oldest_order;
	}
	for (uint32_t i = 0; i < b->span_count; i++) {
		struct meta__log_span s = b->span[i];
		uint32_t k = kept;

		if (s.order < oldest)
			continue;
		for (; k > 0 && b->span[k - 1].order > s.order; k--)
			b->span[k] = b->span[k - 1];
		b->span[k] = s;
		kept++;
	}
	b->span_count = kept;
	for (uint32_t i = 0; i < kept; i++) {
		if (is_too_many(m, i))
			return meta__boot_fail(m, -EUCLEAN, "zones %u and %u: the same log zone",
					       b->span[i].zone, b->span[i - 1].zone);
		ASSERT(i == 0 || b->span[i - 1].order <= b->span[i].order);
		meta__zone_use(m, b->span[i].zone, META__ZONE_LOG);
		m->zones->log_count++;
	}
	return 0;
}

int meta__replay_scan(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err;

	ASSERT(!b->log_judged);
	ASSERT(!b->replaying);
	if (b->step++ == 0) {
		err = sort_spans(m);
		if (err)
			return err;
		go_over_start(b);
	}
	err = go_over(m, look_at_block);
	return err == -EALREADY ? judge(m) : err;
}

/* ---- second pass: replay --------------------------------------------------------- */

int meta__plan_replay(struct meta *m, struct meta_op *op)
{
	struct meta__boot *b = m->boot;
	uint32_t away;
	int err = meta__tx_replay(m, op, b->mut, b->part.count, &away);

	ASSERT(op == &b->op);
	ASSERT(b->part.seq == m->shard[b->part.shard].seq + 1); /* (3) */
	if (!err)
		b->away_changes += away;
	return err;
}

static int replay_part(struct meta *m)
{
	const struct meta__part *p = &m->boot->part;
	struct meta__shard *s = &m->shard[p->shard];
	int err;

	ASSERT(p->shard < m->nshards);
	ASSERT(p->count <= META__TX_RECORDS_MAX);
	if (p->seq != s->seq + 1)
		return meta__boot_fail(m, -EUCLEAN, "shard %u: record %llu follows %llu in the log",
				       p->shard, (unsigned long long)p->seq,
				       (unsigned long long)s->seq);
	err = meta__boot_run_op(m, META__OP_REPLAY);
	if (err)
		return err;
	s->seq = p->seq;
	s->uniq_next = p->uniq_next;
	s->dir_next = p->dir_next;
	s->files = p->files;
	s->dirs = p->dirs;
	s->changed = true;
	return 0;
}

/* Counts once each block that must be in both. */
static void block_counts(struct meta__boot *b)
{
	struct meta__log_span *s = &b->span[b->span_at];
	const uint64_t seq = b->head.seq;

	ASSERT(b->replaying);
	ASSERT(s->counted <= b->durable);
	if (seq < b->group_first || seq > b->durable || seq <= s->counted)
		return;
	s->counted = seq;
	s->count++;
}

static int replay_block(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int rc;

	ASSERT(b->replaying);
	ASSERT(b->seq_next - 1 <= b->last);
	if (!b->in_record)
		block_counts(b);
	if (b->head.seq != b->seq_next || b->head.seq > b->last)
		return 0;
	if (!b->in_record)
		meta__reader_init(&b->reader, chunk_block(b), &b->head, m->nshards);
	for (;;) {
		if (!b->in_record) {
			rc = meta__reader_next(&b->reader, &b->part, b->mut);
			if (rc == 0) {
				b->seq_next++;
				b->got_some = true;
				return 0;
			}
			if (rc < 0)
				return meta__boot_fail(m, rc, "the log changes while it is read");
			if (b->part.seq <= m->shard[b->part.shard].seq) {
				for (uint32_t i = 0; i < b->part.count; i++)
					(void)meta__receipt_apply(m, &b->mut[i], 0); /* (4) */
				continue;                                            /* (3) */
			}
		}
		b->in_record = true;
		rc = replay_part(m);
		if (rc)
			return rc;
		b->in_record = false;
	}
}

static int replay(struct meta *m)
{
	int err = go_over(m, replay_block);

	if (err != -EALREADY)
		return err;
	if (m->boot->seq_next <= m->boot->last)
		return meta__boot_fail(m, -EIO, "log block %llu was there, and cannot be read now",
				       (unsigned long long)m->boot->seq_next);
	ASSERT(m->boot->seq_next == m->boot->last + 1);
	meta__boot_next(m, meta__boot_settle);
	return 0;
}

int meta__replay_begin(struct meta *m)
{
	ASSERT(m->boot->log_judged);
	ASSERT(!m->boot->replaying);
	if (m->copies > 1) {
		meta__pairs_settle(m);
		meta__folds_settle(m);
	}
	m->zones->counted = true;
	meta__receipts_replaying(m, m->boot->first);
	m->boot->seq_next = m->boot->group_first = m->boot->first;
	m->boot->replaying = true;
	go_over_start(m->boot);
	meta__boot_next(m, replay);
	return 0;
}
