/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lent shards: a core that alone changes a shard changes it in place, in its own thread.
 *
 *               AFTER changes in a row by one reader, and nobody else waits
 *    CLOSED ---------------------------------------------------------------> LENT
 *      ^                                                                      | a reader wants
 *      |                                                                      | it, or the store
 *      |  all its changes are in the log                                      v does
 *      +---------------------------- COMING <---- it has left (meta_share.c) -+
 *
 *   borrower (meta_borrow.c)                        the store
 *   plan, apply in its pages, record  -- ring -->   log, zones' sums, counters, pages' lists
 *   blank frames with places          <----------   ... given ahead
 *
 * There is one log, written here: records are ordered by their arrival.  Another thread sees the
 * changes of a lent shard when the shard is home, and then its records have arrived.
 *
 *   L1 -> M1   (M1 in meta_reader.c) the layout of the drives is stored before its address
 *   L2 -> M2   (L2 in meta_reader.c) a borrower's change is whole before `made` counts it
 *   L3 -> M3   (M3 in meta_borrow.c) a blank frame is in its slot before head counts it
 *   L4 -> M4   (L4 in meta_borrow.c) a borrower has read a slot before tail frees it
 *   S1 -> T1   (meta_share.c)
 *
 * Invariants, true between any two calls:
 *
 *  (1) While a shard is away, this thread reads none of its pages and evicts none; m->shard[] has
 *      the log's view of it, and its former root.
 *  (2) A borrower reads and changes only shards lent to it, in a turn in which they were; so
 *      when it has left, it does no more.
 *  (3) Nothing is lent while a checkpoint freezes: all records in transit are in the log before.
 *  (4) The log has room for everything that a borrower may have in transit, whatever else is
 *      written.
 *  (5) A blank page has a frame, counted as dirty, and a place, counted as live.  Unused blanks
 *      come back when room is short, drives come or go, or all pages are counted.
 *  (6) No file of a lent shard is held: an unlink there depends on its records alone.
 */
#include "meta/engine/meta_fresh.h"
#include "meta/engine/meta_lend.h"

#include "meta/engine/meta_cache.h"
#include "meta/engine/meta_ops.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

#define AFTER       16u /* changes in a row: a loan costs about as much as two of them */
#define BLANKS_PART 32u /* of the cache: one borrower's at most */

/* ---- made, ended --------------------------------------------------------------------------- */

int meta__lend_create(struct meta *m)
{
	struct meta__lend *l = aligned_alloc(META__LINE, align_up(sizeof(*l), META__LINE));

	m->lend = l;
	if (!l)
		return -ENOMEM;
	memset(l, 0, sizeof(*l));
	l->geo = calloc(META_DRIVES_MAX + 1, sizeof(*l->geo));
	if (!l->geo)
		return -ENOMEM;
	list_init(&l->waiting);
	l->after = m->conf.lend_after ? m->conf.lend_after : AFTER;
	return 0;
}

void meta__lend_destroy(struct meta *m)
{
	struct meta__lend *l = m->lend;

	if (!l)
		return;
	free(l->geo);
	free(l);
	m->lend = NULL;
}

void meta__lend_to(struct meta *m, struct meta *reader)
{
	ASSERT(reader->home == m);
	ASSERT(reader->reader < META_READERS_MAX);
	m->lend->by[reader->reader].m = reader;
	m->lend->readers++;
}

/* Returns the limit of everything in transit, a small part of the log and of one zone: (4). */
static uint32_t made_max(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	const uint64_t blocks = min_u64(g->log_bytes_max / META__BLOCK / 8, g->zone_end / 2);

	ASSERT(m->lend->readers > 0);
	return (uint32_t)min_u64(META__MADES_MAX, blocks / m->lend->readers);
}

/* Borrowers use the old ones until they have seen the new one. */
static void tell_geo(struct meta *m)
{
	struct meta__lend *l = m->lend;
	struct meta__geo *geo = &l->geo[l->geos++];

	ASSERT(l->geos <= META_DRIVES_MAX + 1);
	*geo = m->zones->geo;
	atomic_store_explicit(&m->share->geo, geo, memory_order_release); /* L1 */
}

void meta__lend_geo(struct meta *m)
{
	if (m->lend && m->lend->geos > 0)
		tell_geo(m);
}

/* Before anything is lent. */
static void begin(struct meta *m)
{
	m->lend->made_max = made_max(m);
	tell_geo(m);
}

/* ---- room in the log: (4) -------------------- */

/* Each may come alone in a block. */
static uint64_t log_bytes(const struct meta *m)
{
	return (uint64_t)m->lend->readers * m->lend->made_max * META__BLOCK;
}

uint64_t meta__lend_log_bytes(const struct meta *m)
{
	return likely(!m->lend) || m->lend->away_count == 0 ? 0 : log_bytes(m);
}

/* ---- home -------------------- */

static void call_home(struct meta *m, uint32_t shard)
{
	struct meta__share *s = m->share;
	struct meta__lend *l = m->lend;

	ASSERT(s->away[shard] > 0);
	atomic_store_explicit(&s->lent[shard], 0, memory_order_relaxed); /* S3 */
	atomic_fetch_sub_explicit(&s->lends, 1, memory_order_relaxed);
	s->closed[shard] = meta__share_leave(m);
	l->need[shard] = UINT64_MAX;
	if (m->ops->by != META__BY_STORE && m->ops->by != s->away[shard])
		l->score[shard] = 0; /* others need it, too */
}

/* Its tree is where the borrower has left it; its counters came with the log. */
static void came_home(struct meta *m, uint32_t shard, struct meta__borrower *b)
{
	const struct meta__shard *from = &b->m->shard[shard];
	struct meta__shard *to = &m->shard[shard];

	ASSERT(m->share->away[shard] > 0);
	ASSERT(m->lend->away_count > 0);
	ASSERT(b->away > 0);
	if (from->opened == m->lend->as[shard]) { /* else it never read */
		ASSERT(from->seq == to->seq && from->files == to->files);
		to->root_baddr = from->root_baddr;
		to->root_gen = from->root_gen;
		to->height = from->height;
		to->shape = from->shape;
		meta__ckpt_order_least(m, from->order);
	}
	m->share->away[shard] = 0;
	m->lend->away_count--;
	b->away--;
}

bool meta__lend_home(struct meta *m, uint32_t shard)
{
	struct meta__share *s = m->share;
	struct meta__lend *l = m->lend;
	const uint32_t i = s->away[shard] - 1u;

	ASSERT(!m->home);
	ASSERT(s->away[shard] > 0);
	if (atomic_load_explicit(&s->lent[shard], memory_order_relaxed))
		call_home(m, shard);
	if (meta__share_left(m, s->closed[shard])) {
		if (l->need[shard] == UINT64_MAX)
			l->need[shard] =
				/* M2 */
				atomic_load_explicit(&s->row[i].made, memory_order_acquire);
		if (l->by[i].taken >= l->need[shard]) {
			came_home(m, shard, &l->by[i]);
			return true;
		}
	}
	s->waits = max_u64(s->waits, s->closed[shard]);
	return false;
}

static bool call_all_home(struct meta *m)
{
	const uint32_t by = m->ops->by;
	bool home = true;

	m->ops->by = META__BY_STORE;
	for (uint32_t i = 0; i < m->nshards && m->lend->away_count > 0; i++)
		if (m->share->away[i])
			home &= meta__lend_home(m, i);
	m->share->waits = 0;
	m->ops->by = by;
	return home;
}

/* ---- blanks: (5) -------------------- */

static bool give_blank(struct meta *m, struct meta__blanks *b, uint32_t level)
{
	const struct meta__page_need one = { .leaves = level == 0, .uppers = level > 0 };
	const uint32_t head = atomic_load_explicit(&b->head, memory_order_relaxed);
	struct meta__frame *f;

	if (meta__cache_room(m) <= m->cache->dirty_max / 4 || meta__page_ready(m, one, false))
		return false;
	f = meta__frame_get(m);
	if (!f)
		return false;
	f->level = level;
	ASSERT(meta__frame_state(f) == FRAME_FREE);
	meta__frame_state_set(m->cache, f, FRAME_BLANK);
	b->slot[head % META__BLANKS] =
		(struct meta__blank){ .frame = f, .baddr = meta__page_take(m, level) };
	atomic_store_explicit(&b->head, head + 1, memory_order_release); /* L3 */
	return true;
}

static uint32_t blanks_in(const struct meta__blanks *b)
{
	return atomic_load_explicit(&b->head, memory_order_relaxed) -
	       atomic_load_explicit(&b->tail, memory_order_acquire); /* M4 */
}

static void give_blanks(struct meta *m, struct meta__borrower *b)
{
	const uint32_t part = m->cache->nframes / BLANKS_PART;

	while (blanks_in(&b->blanks[0]) < min_u32(part, META__BLANKS) &&
	       give_blank(m, &b->blanks[0], 0))
		;
	while (blanks_in(&b->blanks[1]) < div_up(min_u32(part, META__BLANKS), 4) &&
	       give_blank(m, &b->blanks[1], 1))
		;
}

/* Nothing is lent to it. */
static void take_blanks(struct meta *m, struct meta__borrower *b)
{
	ASSERT(b->away == 0);
	for (uint32_t i = 0; i < ARRAY_LEN(b->blanks); i++) {
		struct meta__blanks *of = &b->blanks[i];
		uint32_t tail = atomic_load_explicit(&of->tail, memory_order_acquire); /* M4 */

		for (; blanks_in(of) > 0; tail++) {
			const struct meta__blank *x = &of->slot[tail % META__BLANKS];

			ASSERT(meta__frame_state(x->frame) == FRAME_BLANK); /* (5) */
			meta__page_dead(m, x->baddr);
			meta__frame_state_set(m->cache, x->frame, FRAME_FREE);
			list_push_front(&m->cache->free, &x->frame->link);
			atomic_store_explicit(&of->tail, tail + 1, memory_order_relaxed);
		}
	}
}

bool meta__lend_all_home(struct meta *m)
{
	return likely(!m->lend) || call_all_home(m);
}

bool meta__lend_is_back(const struct meta *m)
{
	return !m->lend || (m->lend->away_count == 0 && m->cache->count[FRAME_BLANK] == 0);
}

void meta__lend_back(struct meta *m)
{
	if (m->lend)
		m->lend->back = true;
}

/* Takes all of it back, blanks included: memory is short, or the drives change. */
static void all_back(struct meta *m)
{
	if (!call_all_home(m))
		return;
	m->lend->back = false;
	for (uint32_t i = 0; i < META_READERS_MAX && m->cache->count[FRAME_BLANK] > 0; i++)
		take_blanks(m, &m->lend->by[i]);
	ASSERT(m->cache->count[FRAME_BLANK] == 0); /* (5) */
}

/* ---- to the log -------------------- */

static void pages_changed(struct meta *m, const struct meta__made *made, uint64_t seq)
{
	ASSERT(made->nfresh <= META__MADE_PAGES);
	ASSERT(made->nchanged <= META__MADE_LEAVES);
	ASSERT(made->ndead <= META__MADE_PAGES);
	for (uint32_t i = 0; i < made->nfresh; i++) {
		meta__frame_seq_set(made->fresh[i], seq);
		meta__cache_adopt(m, made->fresh[i]);
	}
	for (uint32_t i = 0; i < made->nchanged; i++)
		meta__frame_seq_set(made->changed[i], seq); /* sequences ascend */
	for (uint32_t i = 0; i < made->ndead; i++)
		meta__cache_replaced(m, made->dead[i]);
}

static void shard_changed(struct meta *m, const struct meta__part *p)
{
	struct meta__shard *s = &m->shard[p->shard];

	ASSERT(p->seq == s->seq + 1);
	s->seq = p->seq;
	s->uniq_next = p->uniq_next;
	s->dir_next = p->dir_next;
	s->files = p->files;
	s->dirs = p->dirs;
	s->changed = true;
	m->changes++;
}

/* As in meta__tx_apply(): counters, the record, and their consequences. */
static void take(struct meta *m, struct meta_op *op, const struct meta__made *made)
{
	uint64_t seq = META_SEEN_MADE - 1; /* never durable */

	ASSERT(op->reader > 0);
	ASSERT(op->reader <= META_READERS_MAX);
	ASSERT(m->lend->by[op->reader - 1].taken <
	       atomic_load_explicit(&m->share->row[op->reader - 1].made,
				    memory_order_acquire)); /* meta_borrow.c (2).  M2 */
	shard_changed(m, &made->part);
	if (likely(meta__log_lives(m)))
		seq = meta__log_append_made(m, made->record, made->bytes, made->drives_mask);
	for (uint32_t i = 0; i < made->nzones; i++)
		meta__zone_live_add(m, made->live[i].zone, made->live[i].blocks);
	meta__fresh_note_shard(m, made->part.shard, seq);
	pages_changed(m, made, seq);
	if (made->has_receipt)
		(void)meta__receipt_apply(m, &made->receipt, seq);
	m->lend->by[op->reader - 1].taken++;
	op->seen_seq = seq;
	meta__ckpt_dirtied(m);
}

/* In the order in which they came. */
static void take_waiting(struct meta *m)
{
	struct list *l = &m->lend->waiting;

	while (!list_empty(l)) {
		struct meta_op *op = list_entry(l->next, struct meta_op, link);
		struct meta__made *made = op->made;

		if (made && made->bytes > 0) {
			if (meta__log_lives(m) && !meta__log_room_made(m, made->bytes))
				return;
			op->data_drives = made->lone_mask;
			take(m, op, made);
		} else {
			op->seen_seq = meta__log_last(m); /* all that it has seen came before */
		}
		list_del(&op->link);
		if (made)
			meta__op_settle_made(m, op);
		meta_op_wait_durable(m, op);
	}
}

void meta_op_made(struct meta *m, struct meta_op *op)
{
	ASSERT(m->lend);
	ASSERT(!m->home);
	list_init(&op->link);
	list_push_back(&m->lend->waiting, &op->link);
	take_waiting(m);
}

/* ---- choosing shards to lend ------------- */

void meta__lend_changed(struct meta *m, uint32_t shard)
{
	struct meta__lend *l = m->lend;
	const struct meta_op *op = m->tx->op;
	const uint32_t by = m->ops->by;

	ASSERT(shard < m->nshards);
	if (by == META__BY_STORE)
		return;
	if (by > 0 && op->unseen != shard) /* closed, in transit: it could overtake an open one */
		meta_reader_asked(m, op->unseen);
	if (by == 0 || by != l->last[shard])
		l->score[shard] = 0;
	l->last[shard] = (uint8_t)by;
	if (l->score[shard] < UINT8_MAX)
		l->score[shard]++;
	if (by == 0 || l->score[shard] < l->after || l->listed[shard])
		return;
	ASSERT(l->count < m->nshards);
	l->listed[shard] = true;
	l->list[l->count++] = shard;
}

void meta__lend_others(struct meta *m, uint32_t shard)
{
	m->lend->score[shard] = 0;
}

/* Is there room enough, and nothing for which all would be called home? */
static bool may_lend(const struct meta *m)
{
	return m->mounted && !m->stopping && !m->failed && !m->ops->alone &&
	       !meta__check_running(m) && !m->lend->back && meta__log_lends(m, log_bytes(m)) &&
	       !meta__cache_is_short(m) && !meta__zone_short(m) && meta__space_ok(m) == 0;
}

static bool wants_it(const struct meta *m, uint32_t shard)
{
	return m->lend->score[shard] >= m->lend->after && m->lend->last[shard] > 0 &&
	       m->shard[shard].height > 0 && !meta__holds_of(m, shard) &&
	       !meta__orphans_of(m, shard);
}

static void lend(struct meta *m, uint32_t shard)
{
	struct meta__share *s = m->share;
	struct meta__lend *l = m->lend;
	const uint32_t to = l->last[shard];

	ASSERT(to > 0 && l->by[to - 1].m && m->shard[shard].height > 0);
	ASSERT(!s->away[shard]); /* (6) */
	ASSERT(!meta__holds_of(m, shard));
	ASSERT(meta__log_lends(m, log_bytes(m))); /* (4) */
	ASSERT(!meta__ckpt_freezes(m));           /* (3) */
	s->away[shard] = (uint8_t)to;
	l->by[to - 1].away++;
	l->away_count++;
	l->order[shard] = meta__ckpt_order_now(m);
	l->as[shard] = ++l->times << 8 | to;
	atomic_fetch_add_explicit(&s->lends, 1, memory_order_relaxed);
	atomic_store_explicit(&s->lent[shard], l->as[shard], memory_order_release); /* S1 */
}

static void lend_listed(struct meta *m)
{
	struct meta__lend *l = m->lend;

	while (l->count > 0) {
		const uint32_t shard = l->list[--l->count];

		ASSERT(shard < m->nshards);
		ASSERT(l->listed[shard]);
		l->listed[shard] = false;
		if (!m->share->away[shard] && wants_it(m, shard) && meta__share_take(m, shard))
			lend(m, shard);
	}
	m->share->waits = 0;
}

bool meta__lend_turn(struct meta *m)
{
	struct meta__lend *l = m->lend;
	const bool any =
		l->count > 0 || l->away_count > 0 || l->back || m->cache->count[FRAME_BLANK] > 0;
	bool may;

	take_waiting(m);
	if (unlikely(any && l->geos == 0 && m->mounted))
		begin(m);
	may = any && l->made_max > 0 && may_lend(m); /* (4): that limit counts in it */
	if (!may && (l->away_count > 0 || l->back || m->cache->count[FRAME_BLANK] > 0))
		all_back(m);
	if (may && !meta__ckpt_freezes(m) && !meta__share_change_waits(m)) /* (3) */
		lend_listed(m);
	for (uint32_t i = 0; may && i < META_READERS_MAX; i++)
		if (l->by[i].away > 0)
			give_blanks(m, &l->by[i]);
	return !list_empty(&l->waiting);
}

bool meta_reader_has(const struct meta *m, const struct meta_op *op)
{
	const uint32_t shard = op->unseen < m->nshards ? op->unseen : op->into;

	ASSERT(!m->home);
	return shard < m->nshards && op->reader > 0 && m->share->away[shard] == op->reader &&
	       atomic_load_explicit(&m->share->lent[shard], memory_order_relaxed) != 0;
}
