/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hedged reads: a drive that is slow beyond a multiple of its usual latency is read around, in a
 * store of several copies (meta_pair.c).
 *
 *   the operation's read     submitted --> READ --back--> the operation goes on
 *                                           | late
 *                                           v
 *                                         HEDGED --back first--> the operation goes on
 *                                           | the twin is back first, and right
 *                                           v
 *                                          LATE --back--> dropped
 *
 *   the twin: the same blocks of the next copy, into staging of its own
 *
 *                             submitted --> TWIN --first, and right--> the operation goes on
 *                                           | second, wrong or failed
 *                                           v
 *                                           dropped
 *
 * The drive of a late read goes on writing where the read was to land, so this memory is not the
 * answer's any more.  It is a part's (app_memory.c), which may hold the bytes of other small files,
 * too, and gets another piece of staging before it is sent:
 *
 *   buf    | file a | late read | file c |        spare  | file a | the twin's | file c |  --> sent
 *            ^ given back; pinned until the late read is back
 *
 * Over shared memory drives write into the client's window.  It cannot be another, and is the
 * client's with the reply, so such reads are timed and never hedged.
 *
 * The latency of a drive is a running mean for each size of read, from submission to the turn that
 * sees it come back.  A longer read counts as twice the usual: a stall, which many reads meet, does
 * not make a drive slow, and a drive that has become slow for good is usual after some hundred
 * reads.
 *
 *  (1) Memory that a late read may still write to is pinned: it is not given out again before.  The
 *      twin's memory is given back only when the twin is back.
 *  (2) Only bytes that match the checksums of the plan are taken from a twin.  (A read that comes
 *      from where it was planned is compared by its reader.)
 *      [test_app_hedge:wrong_bytes_do_not_win].
 *  (3) A read is hedged once.  Whichever read comes second changes nothing but counters, whether
 *      its operation is over or not [test_app_hedge:late_read_touches_nothing].
 *  (4) No more than an eighth of the reads under way are hedged at once, or four if that is more,
 *      and hedging takes no more than an eighth of staging: an overloaded store does not double its
 *      load.
 *  (5) A read is late after `hedge_reads` times the usual latency of its drive, and not before
 *      floor_ns: polling threads may be busy for that long, and memory is always fast.  Before
 *      SEEN_LEAST reads nothing is usual.
 *  (6) A block in a fold has no twin, and its read is not hedged: a sum would take one read of each
 *      other drive of the fold, where this drive only answers late [test_app_hedge_fold].
 */
#include "appliance/core/app_copy.h"

#include "base/crc32c.h"

#include <string.h>

enum { SEEN_LEAST = 16, SEEN_MOST = 256, SHARE = 8, LEAST = 4, LOOKS_MAX = 64 };

void app_hedges_init(struct app_core *core)
{
	struct app_hedges *h = &core->hedges;

	h->multiple = core->cfg.hedge_reads;
	h->floor_ns = core->cfg.hedge_floor_ns ? core->cfg.hedge_floor_ns : APP_HEDGE_FLOOR_NS;
	h->step_ns = h->floor_ns / max_u32(h->multiple, 1);
	list_init(&h->ops);
	for (uint32_t i = 0; i < APP_HEDGES_MAX; i++)
		h->slot[i].core = core;
	ASSERT(h->used == 0 && h->twins_out == 0);
}

/* ---- what is usual --------------------------------------------------------------------- */

static uint32_t size_of(const struct app_io *io)
{
	ASSERT(io->nvme.nblocks > 0 && io->nvme.nblocks <= NVME_IO_BLOCKS_MAX);
	return 31 - (uint32_t)__builtin_clz(io->nvme.nblocks);
}

/* (5) How long it may take; UINT64_MAX: nobody knows yet. */
static uint64_t limit_of(const struct app_hedges *h, const struct app_io *io)
{
	const struct app_hedge_drive *d = &h->drive[io->drive];
	const uint32_t size = size_of(io);

	if (d->seen[size] < SEEN_LEAST)
		return UINT64_MAX;
	return max_u64(h->floor_ns, h->multiple * d->usual_ns[size]);
}

static void learn(struct app_core *core, const struct app_io *io)
{
	struct app_hedge_drive *d = &core->hedges.drive[io->drive];
	const struct app_hedges *h = &core->hedges;
	const uint32_t size = size_of(io);
	uint64_t took_ns = core->now_ns - io->since_ns;

	ASSERT(core->now_ns >= io->since_ns && h->multiple > 0); /* (5) */
	if (io->nvme.status)
		return;
	if (likely(d->seen[size] >= SEEN_LEAST))
		took_ns = min_u64(took_ns, max_u64(2 * d->usual_ns[size], h->step_ns));
	if (likely(d->seen[size] == SEEN_MOST)) { /* without a division */
		d->usual_ns[size] -= d->usual_ns[size] / SEEN_MOST;
		d->usual_ns[size] += took_ns / SEEN_MOST;
		return;
	}
	d->seen[size]++;
	d->usual_ns[size] -= d->usual_ns[size] / d->seen[size];
	d->usual_ns[size] += took_ns / d->seen[size];
}

/* ---- reads of operations --------------------------------------------------------------- */

bool app_hedge_may(const struct app_op *op, const struct app_io *io)
{
	ASSERT(op->kind == APP_OP_READ && io->nvme.op == NVME_READ);
	return op->part && !io->turned && !op->doubt;
}

void app_hedge_unwatch(struct app_op *op)
{
	ASSERT(op->watched);
	list_del(&op->watch_link);
	op->watched = false;
}

void app_hedge_watch(struct app_io *io)
{
	struct app_op *op = io->owner;
	struct app_core *core = op->core;

	ASSERT(io->watch == APP_WATCH_READ || io->watch == APP_WATCH_TIME);
	io->since_ns = core->now_ns;
	if (io->watch == APP_WATCH_TIME)
		return;
	core->hedges.reads_out++;
	if (op->watched)
		return;
	op->watched = true;
	op->watched_ns = core->now_ns;
	list_init(&op->watch_link);
	list_push_back(&core->hedges.ops, &op->watch_link);
}

/* It is not waited for any more, having come back or not. */
static void no_more(struct app_core *core, struct app_io *io)
{
	ASSERT(io->watch != APP_WATCH_TWIN && io->watch != APP_WATCH_LATE);
	if (io->watch != APP_WATCH_TIME) {
		ASSERT(core->hedges.reads_out > 0);
		core->hedges.reads_out--;
	}
	io->watch = APP_WATCH_NONE;
}

/* ---- hedges ---------------------------------------------------------------------------- */

static uint64_t rounded(const struct app_core *core, const void *piece)
{
	return app_staging_size(&core->staging, piece);
}

static void give(struct app_core *core, void *piece)
{
	ASSERT(core->hedges.held_bytes >= rounded(core, piece));
	core->hedges.held_bytes -= rounded(core, piece);
	app_give(core, NULL, piece);
}

static void *take(struct app_core *core, uint32_t bytes)
{
	void *piece = NULL;

	if (core->hedges.held_bytes + app_staging_rounded(bytes) <=
	    core->cfg.staging_bytes / SHARE) /* (4) */
		piece = app_take_spare(core, bytes);
	core->hedges.held_bytes += piece ? rounded(core, piece) : 0;
	ASSERT(core->hedges.held_bytes <= core->cfg.staging_bytes / SHARE); /* (4) */
	return piece;
}

/* Ends the hedge if nothing of it is under way, and nobody needs its bytes. */
static void end_if_over(struct app_hedge *s)
{
	struct app_hedges *h = &s->core->hedges;

	ASSERT(s->used && h->used > 0);
	if (s->twin_out || s->late_out || s->part)
		return;
	ASSERT(!s->slow);
	if (s->buf)
		give(s->core, s->buf); /* (1) */
	s->buf = NULL;
	s->used = false;
	h->used--;
	h->again_ns = 0;
}

static bool may_begin(const struct app_hedges *h)
{
	ASSERT(h->twins_out <= h->used && h->used <= APP_HEDGES_MAX);
	return h->used < APP_HEDGES_MAX && h->twins_out < max_u64(LEAST, h->reads_out / SHARE);
}

static struct app_hedge *free_slot(struct app_hedges *h)
{
	ASSERT(h->used < APP_HEDGES_MAX);
	for (uint32_t i = 0; i < APP_HEDGES_MAX; i++)
		if (!h->slot[i].used)
			return &h->slot[i];
	UNREACHABLE();
}

static bool take_memory(struct app_core *core, struct app_part *part, uint32_t bytes, char **buf)
{
	ASSERT(part->buf && !part->in_flight && part->filling > 0);
	*buf = take(core, bytes);
	if (!*buf)
		return false;
	if (!part->spare)
		part->spare = take(core, part->capacity_bytes);
	if (part->spare)
		return true;
	give(core, *buf);
	return false;
}

/* Reads the same blocks of the twin.  False: there is no memory for that now. */
static bool begin(struct app_core *core, struct app_op *op, struct app_io *io, uint64_t twin)
{
	const uint32_t bytes = io->nvme.nblocks * BLOCK_SIZE;
	struct app_hedges *h = &core->hedges;
	struct app_hedge *s = free_slot(h);

	ASSERT(op->part && io->watch == APP_WATCH_READ); /* (3) */
	if (!take_memory(core, op->part, bytes, &s->buf))
		return false;
	io->watch = APP_WATCH_HEDGED;
	s->used = s->twin_out = true;
	s->slow = io;
	s->bytes = bytes;
	s->twin = (struct app_io){
		.drive = META_BADDR_DRIVE(twin),
		.watch = APP_WATCH_TWIN,
		.since_ns = core->now_ns,
		.owner = s,
		.turned = true,
		.nvme = { .op = NVME_READ,
			  .nblocks = io->nvme.nblocks,
			  .block = META_BADDR_BLOCK(twin),
			  .iova = app_staging_iova(&core->staging, s->buf) },
	};
	h->used++;
	h->twins_out++;
	h->drive[io->drive].hedged++;
	core->progress = true; /* it is rung for in the next turn */
	app_media_submit(&core->media, &s->twin);
	return true;
}

/* Hedges those of op's reads that are late.  False: no more now. */
static bool look(struct app_core *core, struct app_op *op)
{
	struct app_hedges *h = &core->hedges;
	bool more = op->io_next < op->io_count;

	ASSERT(op->watched && op->ios_out > 0);
	for (uint32_t i = 0; i < op->io_next; i++) {
		struct app_io *io = &op->io[i];
		uint64_t twin;

		if (io->watch != APP_WATCH_READ)
			continue;
		if (core->now_ns - io->since_ns < limit_of(h, io)) {
			more = true;
			continue;
		}
		twin = app_copy_after(core, META_BADDR(io->drive, io->nvme.block));
		if (!twin) {
			h->reads_out--;
			io->watch = APP_WATCH_TIME;
		} else if (!may_begin(h) || !begin(core, op, io, twin)) { /* (4) */
			return false;
		}
	}
	if (!more)
		app_hedge_unwatch(op);
	return true;
}

wk_cold void app_hedges_turn(struct app_core *core)
{
	struct app_hedges *h = &core->hedges;
	struct list *node = h->ops.next, *next;

	ASSERT(h->multiple > 0);
	if (core->now_ns < h->again_ns)
		return;
	for (uint32_t i = 0; i < LOOKS_MAX && node != &h->ops; i++, node = next) {
		struct app_op *op = list_entry(node, struct app_op, watch_link);

		next = node->next;
		if (core->now_ns - op->watched_ns < h->floor_ns)
			return;
		if (!look(core, op)) {
			h->again_ns = core->now_ns + h->floor_ns;
			return;
		}
	}
}

uint64_t app_hedges_deadline(const struct app_core *core)
{
	const struct app_hedges *h = &core->hedges;
	uint64_t at_ns = UINT64_MAX, limit_ns;
	struct list *node = h->ops.next;

	for (uint32_t k = 0; k < LOOKS_MAX && node != &h->ops; k++, node = node->next) {
		const struct app_op *op = list_entry(node, struct app_op, watch_link);

		ASSERT(op->watched);
		for (uint32_t i = 0; i < op->io_next; i++) {
			limit_ns = limit_of(h, &op->io[i]);
			if (op->io[i].watch == APP_WATCH_READ && limit_ns != UINT64_MAX)
				at_ns = min_u64(at_ns, op->io[i].since_ns + limit_ns);
		}
	}
	return at_ns == UINT64_MAX ? at_ns : max_u64(at_ns, h->again_ns);
}

/* ---- they come back -------------------------------------------------------------------- */

/* (2) */
static bool is_right(const struct app_hedge *s)
{
	const struct app_op *op = s->slow->owner;
	const uint32_t at = (uint32_t)((s->slow->nvme.iova - op->landing_iova) / BLOCK_SIZE);
	const uint32_t *sums = op->crcs + (op->nblocks_done - op->chunk_from) + at;

	ASSERT(at + s->slow->nvme.nblocks <= op->nblocks_landing);
	for (uint32_t i = 0; i < s->slow->nvme.nblocks; i++)
		if (crc32c(s->buf + (size_t)i * BLOCK_SIZE, BLOCK_SIZE) != sums[i])
			return false;
	return true;
}

/* The twin was first, and is right.  The operation goes on without its read, which is `late`. */
static void win(struct app_hedge *s)
{
	struct app_core *core = s->core;
	struct app_io *slow = s->slow;
	const struct app_op *op = slow->owner;
	const char *landing = op->landing + (slow->nvme.iova - op->landing_iova);

	ASSERT(!s->twin_out && op->part && slow->watch == APP_WATCH_HEDGED); /* (1) */
	s->late.owner = s;
	s->late.watch = APP_WATCH_LATE;
	s->late_out = true;
	app_staging_pin(&core->staging, slow->nvme.iova); /* (1) */
	s->part = op->part;
	s->at = (uint32_t)(landing - s->part->buf);
	ASSERT(s->at + s->bytes <= s->part->piece.length_bytes);
	s->slow = NULL;
	core->hedges.drive[slow->drive].won++;
	no_more(core, slow);
	slow->nvme.status = 0;
	app_io_done(slow);
}

static void twin_done(struct app_hedge *s)
{
	struct app_core *core = s->core;
	const struct app_op *op;

	ASSERT(s->used && s->twin_out && core->hedges.twins_out > 0);
	s->twin_out = false;
	core->hedges.twins_out--;
	core->hedges.again_ns = 0;
	if (s->twin.nvme.quarantined && s->twin.nvme.status)
		app_staging_lose(&core->staging, s->twin.nvme.iova, s->bytes);
	learn(core, &s->twin);
	if (s->slow && s->twin.nvme.status == 0 && !is_right(s)) {
		op = s->slow->owner;
		(void)app_suspect(core, &op->target[0].handle,
				  op->offset_bytes / BLOCK_SIZE + op->nblocks_done,
				  op->nblocks_landing);
	} else if (s->slow && s->twin.nvme.status == 0 &&
		   app_media_move(&core->media, s->slow, &s->late)) {
		win(s);
	}
	s->slow = NULL; /* it stays HEDGED: (3) */
	end_if_over(s);
}

static void late_done(struct app_hedge *s)
{
	ASSERT(s->used && s->late_out && !s->slow);
	s->late_out = false;
	if (s->late.nvme.quarantined && s->late.nvme.status)
		app_staging_lose(&s->core->staging, s->late.nvme.iova, s->bytes);
	learn(s->core, &s->late);
	app_unpin(s->core, s->late.nvme.iova); /* (1) */
	end_if_over(s);
}

/* The operation's read was first, or nothing is known of a hedge. */
static void read_done(struct app_io *io)
{
	struct app_core *core = ((struct app_op *)io->owner)->core;

	ASSERT(io->watch != APP_WATCH_NONE);
	learn(core, io);
	if (io->watch == APP_WATCH_HEDGED)
		for (uint32_t i = 0; i < APP_HEDGES_MAX; i++)
			if (core->hedges.slot[i].slow == io)
				core->hedges.slot[i].slow = NULL;
	no_more(core, io);
}

bool app_hedge_done(struct app_io *io)
{
	switch ((enum app_watch)io->watch) {
	case APP_WATCH_TWIN:
		twin_done(io->owner);
		return true;
	case APP_WATCH_LATE:
		late_done(io->owner);
		return true;
	default:
		read_done(io);
		return false;
	}
}

/* ---- parts ----------------------------------------------------------------------------- */

wk_cold void app_hedges_settle(struct app_core *core, struct app_part *part)
{
	uint32_t wins = 0;

	ASSERT(part->spare && part->filling == 0 && !part->in_flight);
	for (uint32_t i = 0; i < APP_HEDGES_MAX; i++)
		wins += core->hedges.slot[i].part == part;
	if (wins == 0) {
		give(core, part->spare);
		part->spare = NULL;
		return;
	}
	core->stat.payload_copied_bytes += part->piece.length_bytes;
	memcpy(part->spare, part->buf, part->piece.length_bytes);
	for (uint32_t i = 0; i < APP_HEDGES_MAX; i++) {
		struct app_hedge *s = &core->hedges.slot[i];

		if (s->part != part)
			continue;
		memcpy(part->spare + s->at, s->buf, s->bytes);
		s->part = NULL;
		give(core, s->buf);
		s->buf = NULL;
		end_if_over(s);
	}
	core->hedges.held_bytes -= rounded(core, part->spare); /* the part's from now on */
	app_part_swap(core, part);
}
