/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub, as an internal operation that comes and goes:
 *
 *   asleep --its time--> begun --> what next? (meta_scrub.c) --> its turn --> read into staging
 *     ^                               |    ^                                        |
 *     +--- the burst is used up ------+    +------------- compared -----------------+
 *
 * Its rate is kept by its own clock: each read moves `next_ns` on by the time that it may take, and
 * the scrub rests until then.  It works in bursts of a second's worth, so an otherwise idle core
 * wakes once a second for it, and between rounds not at all.  In a burst it reads up to 1 MiB at
 * once, and if there is no other work, the core sleeps until such a large read has ended: a core
 * that spun would spend most of its time waiting for drives.
 *
 *  (1) It reads into staging, which no client can write to, one piece at a time.
 *  (2) It is one more session of one more key, with a share like any other's (app_turn.c); and it
 *      does not begin a burst while requests wait, or little is free, unless it has been delayed
 *      for PUT_OFF_NS.
 *  (3) It does not make up for delays.
 *  (4) The core's end waits for the operation, which begins nothing more then.
 *  (5) It also runs errands, which wait for nothing: probes of drives (app_failing.c), and work
 *      for the list of damaged files (app_damaged.c).  With a rate of 0 it does nothing else.
 *  (6) While a drive is doubted it rests: a read that failed on it is neither good nor bad, and is
 *      repeated when the probe has decided about the drive.  Nothing is read from a drive that has
 *      failed or was given up: its blocks are unreachable, not damaged.
 */
#include "appliance/media/app_lines.h"
#include "appliance/core/app_op.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURSTS_PER_S  1u
#define PUT_OFF_NS    NS_PER_S
#define QUIET_BLOCKS  32u             /* a shorter read is here sooner than a sleep pays off */
#define QUIET_NS      (5 * NS_PER_MS) /* since the last request: a client may well ask again */
#define ROUND_NS      (60 * NS_PER_S) /* a round takes as long at least: a small store rests */
#define STEPS_AT_ONCE 32u             /* that read nothing */
#define STEP_BYTES    4096u           /* ... and cost as much as this */
#define READ_BYTES    (16u << 10)     /* a read costs as much as this, however short */
#define SWEEP_NS      (2 * NS_PER_S)
#define MENDED_NS     (60 * NS_PER_S)

struct app_scrub {
	struct meta_scrub *of;
	struct app_key key;
	struct app_session session;
	uint64_t rate; /* bytes a second */
	bool opened;
	bool under_way;      /* an operation is */
	uint32_t nblocks;    /* that it reads now; 0: none */
	uint64_t next_ns;    /* it may continue */
	uint64_t until_ns;   /* this burst may move next_ns so far */
	uint64_t waiting_ns; /* since then it is put off; 0: it is not */
	uint64_t round_ns;   /* this round began */
	uint64_t ended_ns;   /* wall clock: the last round did */
	bool untold;         /* a line has found no place */
	uint64_t sweep_ns;  /* not before: entries of the list of damage that are no longer so go */
	uint64_t swept_seq; /* ... when the store has changed since, */
	uint64_t swept_far; /* ... or which drives cannot be reached */
	uint64_t told[3];   /* damage in the last line of the log */
	struct meta_damaged entry;
	bool writes;  /* a copy is being mended: the I/O is a write */
	bool probing; /* this drive is being probed: */
	uint32_t probed;
	char last[APP_LINE_SIZE]; /* result */
	char sum[APP_LINE_SIZE];  /* ... in all */
	const char *saying;
	uint64_t mended;    /* copies, since the last line about that */
	uint64_t mended_at; /* the last one */
	uint64_t mended_ns; /* no line about that before */
	char mends[APP_LINE_SIZE];
};

int app_scrub_create(struct app_core *core)
{
	struct app_scrub *s;

	ASSERT(!core->scrub);
	if (!core->meta)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->rate = core->cfg.scrub_rate;
	if (meta_scrub_create(&s->of, core->meta)) {
		free(s);
		return -ENOMEM;
	}
	core->scrub = s;
	return 0;
}

void app_scrub_destroy(struct app_core *core)
{
	if (!core->scrub)
		return;
	ASSERT(core->life == APP_STOPPED || core->life == APP_BOOTING || !core->scrub->under_way);
	meta_scrub_destroy(core->scrub->of);
	free(core->scrub);
	core->scrub = NULL;
}

/* ---- pace --------------------------------------------------------------------------- */

static void pay(struct app_scrub *s, uint64_t bytes)
{
	ASSERT(s->rate > 0);
	s->next_ns += bytes * NS_PER_S / s->rate;
}

/* (2) */
static bool is_busy(const struct app_core *core)
{
	return core->queued > 0 || !list_empty(&core->staging_waiters) ||
	       core->op_free_count <= core->cfg.ops_max / 4;
}

static bool is_put_off(struct app_core *core, struct app_scrub *s)
{
	ASSERT(s->waiting_ns <= core->now_ns);
	if (!is_busy(core) || (s->waiting_ns && core->now_ns - s->waiting_ns >= PUT_OFF_NS)) {
		s->waiting_ns = 0;
		return false;
	}
	if (!s->waiting_ns)
		s->waiting_ns = core->now_ns;
	return true;
}

static void open_turn(struct app_core *core, struct app_scrub *s)
{
	ASSERT(!s->opened && s->session.ops == 0); /* (2) */
	app_turn_opened(core, &s->session, &s->key);
	list_init(&s->session.link);
	s->opened = true;
	s->next_ns = s->round_ns = core->now_ns;
}

/* Returns true if entries of the list of damage may be out of date. */
static bool may_sweep(const struct app_core *core, const struct app_scrub *s)
{
	struct meta_damage_stat stat;

	ASSERT(core->meta);
	return meta_scrub_damaged(s->of, &stat) > 0 &&
	       (meta_durable_seq(core->meta) != s->swept_seq ||
		app_ailing_unreachable(core) != s->swept_far);
}

static bool has_errand(const struct app_core *core, const struct app_scrub *s)
{
	return !list_empty(&core->damage_askers) || meta_scrub_has_errand(s->of);
}

/* (5), (6) */
static uint64_t errand_ns(const struct app_core *core)
{
	const struct app_scrub *s = core->scrub;
	uint64_t at_ns = app_failing_deadline(&core->failing);

	ASSERT(core->scrub);
	if (core->failing.doubted)
		return at_ns;
	if (may_sweep(core, s))
		at_ns = min_u64(at_ns, s->sweep_ns);
	return has_errand(core, s) ? 0 : at_ns;
}

static bool may_go_on(const struct app_core *core, const struct app_scrub *s)
{
	ASSERT(core->scrub == s);
	return s->rate && !core->failing.doubted;
}

/* An errand that comes before the next burst is due reads nothing else. */
static void burst_begin(const struct app_core *core, struct app_scrub *s)
{
	const bool rests = core->now_ns < s->next_ns;

	s->next_ns = max_u64(s->next_ns, core->now_ns); /* (3) */
	s->until_ns = s->next_ns + (rests ? 0 : NS_PER_S / BURSTS_PER_S);
	ASSERT(s->until_ns <= core->now_ns + NS_PER_S / BURSTS_PER_S || rests); /* (3) */
}

void app_scrub_turn(struct app_core *core)
{
	struct app_scrub *s = core->scrub;
	struct app_op *op;
	bool errand;

	if (!s || s->under_way || core->life != APP_SERVING)
		return;
	errand = errand_ns(core) <= core->now_ns;
	if (!errand && (core->now_ns < s->next_ns || !may_go_on(core, s)))
		return;
	if (!s->opened)
		open_turn(core, s);
	if (core->op_free_count == 0 || (!errand && is_put_off(core, s)))
		return;
	op = app_op_take(core, APP_OP_SCRUB, NULL);
	ASSERT(op && core->life == APP_SERVING); /* (4) */
	op->session = &s->session;
	s->session.ops++;
	s->under_way = true;
	burst_begin(core, s);
	app_op_run(op);
}

bool app_core_scrubs_alone(const struct app_core *core)
{
	const struct app_scrub *s = core->scrub;

	return s && s->nblocks >= QUIET_BLOCKS && core->op_free_count == core->cfg.ops_max - 1 &&
	       core->requests_open == 0 && core->queued == 0 &&
	       core->now_ns - core->asked_ns > QUIET_NS;
}

uint64_t app_scrub_deadline(const struct app_core *core)
{
	const struct app_scrub *s = core->scrub;

	uint64_t at_ns;

	if (!s || s->under_way || core->life != APP_SERVING)
		return UINT64_MAX;
	at_ns = s->waiting_ns ? s->waiting_ns + PUT_OFF_NS : s->next_ns;
	return min_u64(errand_ns(core), may_go_on(core, s) ? at_ns : UINT64_MAX);
}

/* ---- the operation ------------------------------------------------------------------ */

/* False: there is no place for it now. */
static bool tell(struct app_core *core, struct app_scrub *s)
{
	ASSERT(s->saying);
	if (core->cfg.lines && !app_lines_push(core->cfg.lines, s->saying))
		return false;
	core->lines++;
	return true;
}

static enum app_next rest(struct app_op *op, struct app_scrub *s)
{
	ASSERT(s->under_way && s->nblocks == 0);
	s->under_way = false;
	return app_op_end(op, 0);
}

static void round_end(struct app_core *core, struct app_scrub *s)
{
	s->ended_ns = (uint64_t)core->wall_ns;
	s->next_ns = max_u64(s->next_ns, s->round_ns + ROUND_NS);
	s->round_ns = s->next_ns;
	ASSERT(s->next_ns >= s->round_ns);
}

/* At a round's end: logs all known damage, if it differs from the last line. */
static void sum_up(struct app_scrub *s)
{
	struct meta_damage_stat d;

	ASSERT(!s->untold);
	(void)meta_scrub_damaged(s->of, &d);
	if (s->told[0] == d.files && s->told[1] == d.blocks + d.pages &&
	    s->told[2] == d.unreachable_files)
		return;
	s->told[0] = d.files;
	s->told[1] = d.blocks + d.pages;
	s->told[2] = d.unreachable_files;
	(void)snprintf(s->sum, sizeof(s->sum),
		       "WEKA-304: scrub: a round has ended: %llu damaged files (%llu blocks), "
		       "%llu damaged pages of the index, %llu files on drives that have failed: "
		       "wekactl damaged lists them",
		       (unsigned long long)d.files, (unsigned long long)d.blocks,
		       (unsigned long long)d.pages, (unsigned long long)d.unreachable_files);
	s->saying = s->sum;
	s->untold = true;
}

/* A drive with many bad blocks is one line in a while. */
static void tell_mended(const struct app_core *core, struct app_scrub *s)
{
	if (likely(s->mended == 0) || s->untold || core->now_ns < s->mended_ns)
		return;
	ASSERT(s->mended_at);
	(void)snprintf(s->mends, sizeof(s->mends),
		       "WEKA-312: %llu damaged cop%s of pages or blocks written again from the "
		       "other drive, the last on drive %u, block %llu",
		       (unsigned long long)s->mended, s->mended == 1 ? "y" : "ies",
		       META_BADDR_DRIVE(s->mended_at),
		       (unsigned long long)META_BADDR_BLOCK(s->mended_at));
	s->mended = 0;
	s->mended_ns = core->now_ns + MENDED_NS;
	s->saying = s->mends;
	s->untold = true;
}

/* Begins a sweep or a list that is due.  Returns true if the scrub has an errand. */
static bool begin_errand(struct app_core *core, struct app_scrub *s)
{
	ASSERT(core->scrub == s);
	if (may_sweep(core, s) && core->now_ns >= s->sweep_ns) {
		s->sweep_ns = core->now_ns + SWEEP_NS;
		s->swept_seq = meta_durable_seq(core->meta);
		s->swept_far = app_ailing_unreachable(core);
		meta_scrub_sweep(s->of);
	}
	app_damage_begin(core, s->of, &s->entry);
	return meta_scrub_has_errand(s->of);
}

/* Decides the next step.  APP_WAIT: op->runs[0] must be read. */
static enum app_next what_next(struct app_op *op, struct app_scrub *s)
{
	bool errand;

	ASSERT(s->under_way && !op->buf); /* (1) */
	tell_mended(op->core, s);
	if (s->untold && !tell(op->core, s))
		return rest(op, s);
	s->untold = false;
	if (op->core->life != APP_SERVING)
		return rest(op, s);
	s->writes = false;
	s->probing = app_ailing_probe(op, &s->probed);
	if (s->probing)
		return APP_WAIT;
	if (op->core->failing.doubted || op->tries++ == STEPS_AT_ONCE)
		return rest(op, s);
	meta_scrub_unreachable(s->of, app_ailing_unreachable(op->core));
	errand = begin_errand(op->core, s);
	if (!errand && (!may_go_on(op->core, s) || s->next_ns >= s->until_ns))
		return rest(op, s);
	ASSERT(errand || s->rate > 0); /* (5) */
	switch (errand ? meta_scrub_errand(s->of, &op->runs[0])
		       : meta_scrub_next(s->of, &op->runs[0])) {
	case META_SCRUB_READ:
		s->writes = false;
		return APP_WAIT;
	case META_SCRUB_WRITE:
		s->writes = true;
		return APP_WAIT;
	case META_SCRUB_MORE:
		if (!errand)
			pay(s, STEP_BYTES);
		return APP_AGAIN;
	case META_SCRUB_LISTED:
		app_damage_listed(op->core, s->of, &s->entry);
		return APP_AGAIN;
	case META_SCRUB_IDLE:
		return rest(op, s);
	case META_SCRUB_FOUND:
		(void)snprintf(s->last, sizeof(s->last), "WEKA-303: scrub: %.490s",
			       meta_scrub_line(s->of));
		s->saying = s->last;
		s->untold = true;
		return APP_AGAIN;
	case META_SCRUB_ROUND:
		round_end(op->core, s);
		sum_up(s);
		return s->untold ? APP_AGAIN : rest(op, s);
	}
	UNREACHABLE();
}

/* Hands the result of a read to the scrub: none, if the drive has come into doubt (6). */
static void take_in(struct app_op *op, struct app_scrub *s)
{
	const uint64_t drive = 1ull << META_BADDR_DRIVE(op->runs[0].baddr);
	int status = op->io_status;

	ASSERT(op->buf && op->ios_out == 0);
	if (s->probing) {
		app_ailing_probed(op, s->probed);
		return;
	}
	if (s->writes) {
		s->mended += status == 0;
		s->mended_at = op->runs[0].baddr;
		meta_scrub_written(s->of, status);
		return;
	}
	if (unlikely(status))
		app_ailing_tell(op->core);
	if (status && (op->core->failing.doubted | op->core->failing.failed) & drive)
		status = -EAGAIN;
	ASSERT(status != -EIO ||
	       !((op->core->failing.doubted | op->core->failing.failed) & drive)); /* (6) */
	meta_scrub_done(s->of, op->buf, status);
}

/* Each copy by itself: the scrub compares both. */
static void transfer(struct app_op *op, const struct app_scrub *s)
{
	const bool writes = s->writes && !s->probing;

	ASSERT(op->buf && op->nblocks > 0);
	op->one_copy = true;
	op->safe = writes; /* durable before it counts */
	if (writes)
		memcpy(op->buf, meta_scrub_bytes(s->of), (size_t)op->nblocks * BLOCK_SIZE);
	app_op_io(op, writes ? NVME_WRITE : NVME_READ, op->runs, op->nruns, op->buf,
		  app_staging_iova(&op->core->staging, op->buf));
}

enum scrub_at { SCRUB_BEGUN, SCRUB_KNOWN, SCRUB_ITS_TURN, SCRUB_READ_DONE };

enum app_next app_scrub_step(struct app_op *op)
{
	struct app_core *core = op->core;
	struct app_scrub *s = core->scrub;
	enum app_next next;

	ASSERT(op->session == &s->session && s->under_way); /* (2) */
	switch ((enum scrub_at)op->at) {
	case SCRUB_BEGUN:
		next = what_next(op, s);
		if (next != APP_WAIT)
			return next;
		op->nruns = s->probing ? op->nblocks : 1;
		if (!s->probing)
			op->nblocks = op->runs[0].nblocks;
		op->at = SCRUB_KNOWN;
		wk_fallthrough;

	case SCRUB_KNOWN: /* the next read is known */
		ASSERT(op->nblocks > 0 && op->nruns > 0);
		if (!app_turn_resume(op))
			return APP_WAIT;
		op->at = SCRUB_ITS_TURN;
		wk_fallthrough;

	case SCRUB_ITS_TURN:
		ASSERT(!op->buf);                                 /* (1) */
		op->buf = app_take(op, op->nblocks * BLOCK_SIZE); /* (1) */
		if (!op->buf)
			return APP_WAIT;
		op->at = SCRUB_READ_DONE;
		s->nblocks = op->nblocks;
		transfer(op, s);
		return APP_WAIT;

	case SCRUB_READ_DONE:
		ASSERT(op->buf && op->ios_out == 0); /* (1) */
		take_in(op, s);
		app_give(core, op->session, op->buf);
		op->buf = NULL;
		if (s->rate)
			pay(s, max_u64((uint64_t)op->nblocks * BLOCK_SIZE, READ_BYTES));
		s->nblocks = 0;
		op->tries = 0;
		op->at = SCRUB_BEGUN;
		return APP_AGAIN;
	}
	UNREACHABLE();
}

void app_scrub_suspects(struct app_core *core)
{
	if (core->scrub)
		app_suspects_take(core, core->scrub->of);
}

void app_scrub_stop(struct app_core *core)
{
	if (core->scrub)
		app_damage_stop(core, core->scrub->of);
}

/* ---- for people --------------------------------------------------------------------- */

void app_scrub_stat(const struct app_core *core, struct app_core_stat *out)
{
	const struct app_scrub *s = core->scrub;
	struct meta_damage_stat damage;
	struct meta_scrub_stat stat;

	if (!s)
		return;
	meta_scrub_stat(s->of, &stat);
	out->scrub_rate = s->rate;
	out->scrub_rounds = stat.rounds;
	out->scrub_pages = stat.pages;
	out->scrub_healed = stat.healed_pages + stat.healed_blocks;
	out->scrub_blocks = stat.blocks;
	out->scrub_bad_pages = max_u64(stat.bad_pages, stat.last_bad_pages);
	out->scrub_bad_blocks = max_u64(stat.bad_blocks, stat.last_bad_blocks);
	(void)meta_scrub_damaged(s->of, &damage);
	out->damaged_files = damage.files;
	out->damaged_blocks = damage.blocks;
	out->damaged_pages = damage.pages;
	out->unreachable_files = damage.unreachable_files;
	out->unreachable_blocks = damage.unreachable_blocks;
	out->damage_complete = damage.complete;
	out->scrub_unreachable_pages = stat.unreachable_pages;
	out->scrub_unreachable_blocks = stat.unreachable_blocks;
	out->scrub_permille = stat.position_permille;
	out->scrub_ended_ns = s->ended_ns;
}

const char *app_core_scrub_line(const struct app_core *core)
{
	return core->scrub ? core->scrub->last : "";
}
