/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mount, in stages.  Each sends a bounded number of reads or writes and runs again when all of them
 * have come back.
 *
 *   superblocks -> roots -> zone headers -> log scanned -> trees counted -> damaged copies
 *   repaired -> set of drives settled (meta_drives.c) -> claim -> log replayed -> everything in
 *   roots -> a new log -> roots that name it -> lost headers (meta_heads.c) ->
 *   serving
 *
 *  (1) Nothing is written before the log has been scanned and found whole, and the trees counted:
 *      a mount that is refused has changed nothing
 *      [test_meta_replay:mount_that_is_refused_has_written_nothing].
 *  (2) claim: the root of shard 0 is written again with the number of this mount, before any page
 *      is.  So no two mounts use the same number, and no two pages the same {place, generation}
 *      [test_meta_ckpt:generations_ascend_from_mount_to_mount].
 *  (3) The old log's zones are not reused before all roots name the new log.  A crash in
 *      between leaves some roots on the old log and some on the new: then the old one is replayed
 *      again (the new one is still empty), and each root skips the records that it has.  The new
 *      one's zones are kept until then, too: after another such crash it may be the oldest that a
 *      root names
 *      [test_meta_boot:mounts_that_are_cut_one_after_the_other_lose_no_log_that_a_root_names].
 *  (4) A single damaged copy of anything is tolerated, and named (a crash may have torn it).  If
 *      both are damaged the mount is refused, with a line, except for the header of a zone
 *      (meta_heads.c).  No crash does that: the two are never written at the same time, and the
 *      damaged one first [test_meta_boot:any_one_copy_of_any_root_may_be_damaged].
 *  (5) A store whose superblock, in any copy, names features that this program does not know is
 *      left alone [test_meta_mend:store_with_an_unknown_incompatible_feature_is_refused_by_name].
 *  (6) If a drive is missing, nothing is written to any drive: the caller keeps the writes
 *      (meta.h).  Pages on it are counted with the trees, and the pages below them are left out; so
 *      are changes in the log to leaves that cannot be reached.  Zones on it are never used.  Other
 *      zones may seem free, because ZONE records cannot be reached, and be used for pages: so reads
 *      of files must use the drives, not the kept writes.  The store is frozen when it serves
 *      [test_meta_missing:any_drive_may_be_left_out_while_the_log_counts].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_pair.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- driver ---------------------------------------------------------------- */

uint64_t meta__boot_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)META__BOOT_BLOCKS * META__BLOCK + meta__walk_memory();
}

int meta__boot_create(struct meta *m)
{
	struct meta__boot *b = calloc(1, sizeof(*b));

	ASSERT(!m->boot);
	if (!b)
		return -ENOMEM;
	m->boot = b;
	b->status = -EAGAIN;
	b->buf = meta__mem_take(m, meta__boot_memory(&m->conf));
	for (uint32_t i = 0; i < META__BOOT_BLOCKS; i++)
		list_init(&b->io[i].io.link);
	b->walk.buf = b->buf + (size_t)META__BOOT_BLOCKS * META__BLOCK;
	b->walk.x = (struct meta__io){ .kind = META__IO_BOOT };
	return 0;
}

static void forget(struct meta__boot *b)
{
	ASSERT(b->run_count <= b->run_max);
	free(b->root_seen);
	free(b->head_kind);
	free(b->head_twin);
	free(b->head_twin2);
	free(b->head_pair);
	free(b->fold);
	free(b->span);
	free(b->run);
	b->root_seen = NULL;
	b->head_kind = NULL;
	b->head_twin = NULL;
	b->head_twin2 = NULL;
	b->head_pair = NULL;
	b->fold = NULL;
	b->fold_count = b->fold_max = 0;
	b->span = NULL;
	b->run = NULL;
	b->run_count = b->run_max = 0;
}

void meta__boot_destroy(struct meta *m)
{
	if (!m->boot)
		return;
	forget(m->boot);
	free(m->boot);
	m->boot = NULL;
}

struct meta__walk *meta__boot_walk(struct meta *m)
{
	ASSERT(m->boot->walk.buf);
	return &m->boot->walk;
}

void meta__boot_io(struct meta *m, enum meta_io_op op, uint64_t baddr, uint32_t nblocks,
		   uint32_t buf_block)
{
	struct meta__boot *b = m->boot;
	struct meta__io *x = &b->io[b->in_flight];

	ASSERT(b->in_flight < META__BOOT_BLOCKS);
	ASSERT(buf_block + nblocks <= META__BOOT_BLOCKS);
	ASSERT(META_BADDR_DRIVE(baddr) < META_DRIVES_MAX);
	ASSERT(nblocks > 0 || op == META_IO_FLUSH);
	*x = (struct meta__io){
		.io = { .op = op,
			.fua = op == META_IO_WRITE,
			.drive = META_BADDR_DRIVE(baddr),
			.block = META_BADDR_BLOCK(baddr),
			.nblocks = nblocks,
			.buf = b->buf + (size_t)buf_block * META__BLOCK },
		.kind = META__IO_BOOT,
	};
	list_init(&x->io.link);
	b->in_flight++;
	b->sent = true;
	meta__io_want(m, x);
}

uint32_t meta__boot_flush(struct meta *m)
{
	ASSERT(m->boot->in_flight == 0); /* ... so the number in flight is that of the drives */
	for (uint32_t d = 0; d < m->conf.ndrives; d++)
		if (m->conf.drive[d].volatile_cache && m->boot->super.drive_state[d] != DRIVE_GONE)
			meta__boot_io(m, META_IO_FLUSH, META_BADDR(d, 0), 0, 0);
	return m->boot->in_flight;
}

void meta__boot_next(struct meta *m, int (*stage)(struct meta *m))
{
	ASSERT(stage);
	ASSERT(m->boot->in_flight == 0);
	m->boot->stage = stage;
	m->boot->at = m->boot->count = m->boot->step = 0;
	m->boot->sent = false;
}

int meta__boot_fail(struct meta *m, int err, const char *fmt, ...)
{
	va_list args;

	ASSERT(err < 0);
	m->error[0] = '\0'; /* only the error that ends the mount is kept */
	va_start(args, fmt);
	(void)vsnprintf(m->error, sizeof(m->error), fmt, args);
	va_end(args);
	return err;
}

void meta__boot_note(struct meta *m, const char *fmt, ...)
{
	struct meta__boot *b = m->boot;
	va_list args;

	ASSERT(b->note[sizeof(b->note) - 1] == '\0');
	if (b->note[0])
		return;
	va_start(args, fmt);
	(void)vsnprintf(b->note, sizeof(b->note), fmt, args);
	va_end(args);
}

/* Adds the advice for a store that no mount accepts: most of it can still be read. */
static void name_salvage(struct meta *m)
{
	const size_t used = strlen(m->error);

	ASSERT(used < sizeof(m->error));
	(void)snprintf(m->error + used, sizeof(m->error) - used,
		       "; to save what is whole, type: wekactl check --salvage DIR");
}

void meta__boot_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__boot *b = m->boot;

	if (x == &b->walk.x) {
		meta__walk_io_done(&b->walk);
		return;
	}
	/* An answer stays in its place, with its status: in_flight counts down, io[] is kept. */
	ASSERT(b->in_flight > 0);
	ASSERT(x >= b->io);
	ASSERT(x < b->io + META__BOOT_BLOCKS);
	b->in_flight--;
}

int meta__boot_run_op(struct meta *m, uint32_t type)
{
	struct meta__boot *b = m->boot;

	ASSERT(!m->mounted);
	ASSERT(!b->op_over || b->op.type == (enum meta_op_type)type);
	if (b->op_running && !b->op_over)
		return -EAGAIN;
	if (!b->op_running) {
		memset(&b->op, 0, sizeof(b->op));
		b->op.type = (enum meta_op_type)type;
		b->op.wall_ns = m->conf.wall_ns;
		b->op_over = false;
		b->op_running = true;
		if (!meta_op_start(m, &b->op))
			return -EAGAIN;
	}
	b->op_running = false;
	return b->op.status;
}

void meta__boot_op_done(struct meta *m, struct meta_op *op)
{
	ASSERT(op == &m->boot->op);
	ASSERT(m->boot->op_running);
	m->boot->op_over = true;
}

bool meta__boot_run(struct meta *m, int *rc)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->status == -EAGAIN || b->adding);
	*rc = 0;
	for (uint32_t i = 0; i < 16 && *rc == 0 && b->stage && b->in_flight == 0; i++) {
		*rc = m->failed ? -EIO : b->stage(m);
		if (b->in_flight == 0 && *rc == 0)
			b->sent = false;
	}
	return *rc == 0 || *rc == -EAGAIN;
}

/* A mount that has begun to write cannot record that a drive is lost; the next one can:
 * meta_pair.c (8). */
static void look_at_drives(struct meta *m)
{
	ASSERT(!m->mounted);
	if (!meta__may_lose(m) || !m->boot->log_judged || m->failed)
		return;
	for (uint64_t left = m->dead; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		ASSERT(d < m->boot->geo.ndrives);
		if (m->boot->geo.state[d] >= DRIVE_GONE)
			continue;
		m->error[0] = '\0';
		meta__error(m,
			    "drive %u failed while the store was started: the next start does "
			    "without it",
			    d);
		meta__fail(m);
		return;
	}
}

bool meta__boot_turn(struct meta *m)
{
	struct meta__boot *b = m->boot;
	struct meta_op *over;
	int rc;

	if (!b->stage || b->status != -EAGAIN)
		return false;
	ASSERT(!m->mounted);
	look_at_drives(m);
	over = meta_op_poll(m); /* runs what waited for pages */
	ASSERT(over == NULL);   /* no other store's is there */
	if (!meta__boot_run(m, &rc)) {
		if (rc == -EUCLEAN)
			name_salvage(m);
		ASSERT(rc < 0);
		b->status = rc;
		b->stage = NULL;
		forget(b);
	}
	return b->status == -EAGAIN; /* it waits for much; a boot may spin */
}

void meta_format_start(struct meta *m)
{
	ASSERT(!m->mounted);
	ASSERT(!m->boot->stage);
	meta__boot_next(m, meta__format_begin);
}

int meta_boot_status(const struct meta *m)
{
	ASSERT(m->boot->status <= 0);
	return m->boot->status;
}

/* ---- superblocks ----------------------------------------------------------- */

/* One whole copy is enough. */
static int super_take(struct meta *m, uint32_t drive)
{
	static const char *const names[2] = { "first", "second" };
	struct meta__boot *b = m->boot;
	struct meta__super copies[2];
	char why[2][128] = { "cannot be read", "cannot be read" };
	int err[2] = { -EIO, -EIO };
	uint32_t bad;

	ASSERT(drive < m->conf.ndrives);
	ASSERT(!b->log_judged);
	for (uint32_t copy = 0; copy < 2; copy++)
		if (b->io[copy].io.status == 0)
			err[copy] = meta__super_parse(b->io[copy].io.buf, &copies[copy], why[copy]);
	for (uint32_t copy = 0; copy < 2; copy++) /* a write of another drive's went astray */
		if (!err[0] && !err[1] && copies[copy].drive != drive &&
		    copies[copy ^ 1].drive == drive) {
			err[copy] = -EUCLEAN;
			(void)snprintf(why[copy], sizeof(why[copy]), "is that of drive %u",
				       copies[copy].drive);
		}
	for (uint32_t copy = 0; copy < 2; copy++) /* (5) */
		if (err[copy] == -EPROTONOSUPPORT)
			return meta__boot_fail(m, err[copy], "drive %u: %s", drive, why[copy]);
	bad = err[0] == -EIO ? 1 : 0; /* a readable copy says more */
	if (err[0] && err[1]) {
		b->unread[drive] = err[bad];
		memcpy(b->unread_why[drive], why[bad], sizeof(why[bad]));
		return 0; /* whether that matters the others say */
	}
	b->super_first[drive] = err[0] ? 0 : 1; /* meta_drives.c (3) */
	bad = err[0] ? 0 : 1;
	if (err[bad]) {
		meta__boot_note(m, "drive %u: %s superblock: %s; written again from the %s", drive,
				names[bad], why[bad], names[bad ^ 1]);
		meta__mend_want(m, meta__super_baddr(m, drive, bad ^ 1),
				meta__super_baddr(m, drive, bad), META__ZONE_NONE);
	}
	for (uint32_t copy = 0; copy < 2; copy++) {
		int no = err[copy] ? 0 : meta__drives_take(m, drive, &copies[copy]);

		if (no)
			return no;
	}
	return 0;
}

/* Takes the layout from the superblock. */
static int supers_done(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = meta__drives_choose(m);

	if (err)
		return err;
	memcpy(m->uuid, b->super.uuid, sizeof(m->uuid));
	m->secret = b->super.secret;
	m->nshards = b->super.nshards;
	m->copies = b->super.copies;
	m->converts = b->super.converts;
	m->fold = b->super.fold;
	m->spread_at = b->super.spread ? meta__spread_at(&m->conf) : 0;
	meta__geo_of(&b->geo, &b->super);
	if ((b->super.set == 0 && b->super.zone_blocks != meta__geo_zone_blocks(&m->conf)) ||
	    b->super.nzones != b->geo.zone_count[b->super.drive] ||
	    b->geo.zones_serving < b->geo.log_zones_max + 12)
		return meta__boot_fail(m, -EUCLEAN, "the superblock's zones do not fit the drives");
	if (meta__drives_missing(m) < META_DRIVES_MAX)
		meta__geo_away(&b->geo, meta__drives_missing(m));
	b->root_seen = calloc(m->nshards, sizeof(*b->root_seen));
	b->head_kind = calloc(b->geo.nzones, 1);
	b->head_twin = calloc(b->geo.nzones, sizeof(*b->head_twin));
	b->head_twin2 = calloc(b->geo.nzones, sizeof(*b->head_twin2));
	b->head_pair = calloc(b->geo.nzones, sizeof(*b->head_pair));
	b->span = calloc(b->geo.nzones, sizeof(*b->span));
	if (!b->root_seen || !b->head_kind || !b->head_twin || !b->head_twin2 || !b->head_pair ||
	    !b->span || meta__zones_setup(m, &b->geo) != 0)
		return meta__boot_fail(m, -ENOMEM, "no memory for %u zones", b->geo.nzones);
	ASSERT(m->nshards > 0);
	ASSERT(b->geo.ndrives == m->conf.ndrives);
	meta__boot_next(m, meta__roots_read);
	return 0;
}

static int mount_supers(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err;

	ASSERT(b->at <= m->conf.ndrives);
	if (b->sent) {
		err = super_take(m, b->at);
		if (err)
			return err;
		b->at++;
	}
	while (b->at < m->conf.ndrives && !meta__drives_given(m, b->at))
		b->at++;
	if (b->at < m->conf.ndrives) {
		meta__boot_io(m, META_IO_READ, meta__super_baddr(m, b->at, 0), 1, 0);
		meta__boot_io(m, META_IO_READ, meta__super_baddr(m, b->at, 1), 1, 1);
		return 0;
	}
	return supers_done(m);
}

void meta_mount_start(struct meta *m)
{
	ASSERT(!m->mounted);
	ASSERT(!m->boot->stage);
	meta__boot_next(m, mount_supers);
}

/* ---- claim (2) ------------------------------------------------------------- */

static struct meta__root root_now(const struct meta *m, uint32_t shard)
{
	const struct meta__shard *s = &m->shard[shard];

	ASSERT(shard < m->nshards);
	ASSERT((s->height == 0) == (s->root_baddr == 0));
	return (struct meta__root){
		.root_baddr = s->root_baddr,
		.root_gen = s->root_gen,
		.seq = s->seq,
		.log_seq = m->boot->claims ? m->boot->must : meta__log_last(m),
		.uniq_next = s->uniq_next,
		.dir_next = s->dir_next,
		.files = s->files,
		.dirs = s->dirs,
		.height = s->height,
	};
}

/* step: copy, in the order of writing; after the last one: the next shards.  A root's copies are
 * written one after the other. */
static int write_roots(struct meta *m, uint32_t shards)
{
	struct meta__boot *b = m->boot;
	const uint32_t copies = b->geo.root_copies;
	uint64_t copy[META__ROOT_COPIES];

	ASSERT(b->step <= copies);
	ASSERT(shards <= m->nshards);
	ASSERT(b->at <= shards);
	for (uint32_t i = 0; b->sent && i < b->in_turn; i++)
		if (b->io[i].io.status)
			return meta__boot_fail(m, -EIO, "drive %u: a root cannot be written",
					       b->io[i].io.drive);
	if (b->step == copies) {
		for (uint32_t i = 0; i < b->count; i++) {
			const struct meta__root r = root_now(m, b->at + i);

			meta__root_durable(m, b->at + i, &r);
		}
		b->at += b->count;
		b->step = 0;
	}
	if (b->at == shards)
		return -EALREADY;
	b->count = min_u32(META__BOOT_BLOCKS, shards - b->at);
	for (uint32_t i = 0; i < b->count; i++) {
		const struct meta__root r = root_now(m, b->at + i);

		(void)meta__root_build(m, b->at + i, &r, b->buf + (size_t)i * META__BLOCK, copy);
		if (b->geo.state[META_BADDR_DRIVE(copy[b->step])] != DRIVE_LOST)
			meta__boot_io(m, META_IO_WRITE, copy[b->step], 1, i);
	}
	b->in_turn = b->in_flight;
	b->step++;
	return 0;
}

static int claim(struct meta *m)
{
	int err;

	ASSERT(m->boot->log_judged); /* (1) */
	ASSERT(!m->boot->replaying); /* (2): no page has been written */
	m->boot->claims = true;      /* a torn tail is not in any tree yet: it may be lost still */
	err = write_roots(m, 1);
	if (err != -EALREADY)
		return err;
	m->boot->claims = false;
	meta__boot_next(m, meta__replay_begin);
	return 0;
}

static int settle_drives(struct meta *m)
{
	int err = meta__drives_settle(m);

	ASSERT(m->boot->log_judged); /* (1) */
	if (err != -EALREADY)
		return err;
	meta__boot_next(m, claim);
	return 0;
}

static int mend(struct meta *m)
{
	int err = meta__mend(m);

	ASSERT(m->boot->log_judged); /* (1) */
	if (err != -EALREADY)
		return err;
	meta__boot_next(m, settle_drives);
	return 0;
}

/* Bytes of the log may still be in a drive's cache, after a crash of this process only: the root
 * claims that they are durable, so they must be flushed now. */
int meta__boot_claim(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->log_judged); /* (1) */
	for (uint32_t i = 0; b->sent && i < b->count; i++)
		if (b->io[i].io.status)
			return meta__boot_fail(m, -EIO, "drive %u: cannot be flushed",
					       b->io[i].io.drive);
	if (b->step++ == 0) {
		b->count = meta__boot_flush(m);
		return 0;
	}
	meta__boot_next(m, mend);
	return 0;
}

/* ---- the end of it ----------------------------------------------------- */

static int carry(struct meta *m);

/* 0: everything that was replayed, or put by a format, is in durable roots. */
int meta__boot_settled(struct meta *m)
{
	bool dirty = false;

	for (uint32_t i = 0; i < m->nshards; i++) {
		ASSERT(m->shard[i].durable_seq <= m->shard[i].seq);
		dirty |= m->shard[i].changed || m->shard[i].seq != m->shard[i].durable_seq;
	}
	if (!dirty && !meta__ckpt_running(m))
		return 0;
	if (dirty)
		meta__ckpt_want(m);
	return -EAGAIN;
}

int meta__boot_settle(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->step <= 1);
	ASSERT(b->seq_next == b->last + 1); /* all of the log has been replayed */
	if (b->step == 0) {
		if (meta__boot_settled(m) != 0)
			return -EAGAIN;
		meta__log_start(m, meta__log_last(m));
		b->step = 1;
	}
	if (!meta__log_ready(m)) {
		const struct meta__zones *z = m->zones;

		if (z->free_total || z->coming || !list_empty(&z->leaving) || z->log_opening ||
		    z->log_ready[0] != META__ZONE_NONE)
			return -EAGAIN;
		return meta__boot_fail(m, -ENOSPC, "no zone is free for the log");
	}
	meta__boot_next(m, carry);
	return 0;
}

static int mark_drives(struct meta *m);
static int name_log(struct meta *m);

/* Receipts go into the new log before a root names it. */
static int carry(struct meta *m)
{
	ASSERT(m->boot->step <= 1);
	if (m->boot->step == 0)
		meta__receipts_carry_start(m);
	m->boot->step = 1;
	if (!meta__receipts_carry(m) || meta__log_durable(m) < meta__log_last(m))
		return -EAGAIN;
	meta__boot_next(m, mark_drives);
	return 0;
}

/* Writes the marks: from here on the store shows that each drive has seen this mount. */
static int mark_drives(struct meta *m)
{
	ASSERT(meta__log_durable(m) >= meta__log_last(m)); /* what the roots will say */
	if (m->boot->step++ == 0)
		meta__marks_begin(m, m->epoch << 32);
	if (!meta__marks_turn(m))
		return -EAGAIN;
	meta__boot_next(m, name_log);
	return 0;
}

static int name_log(struct meta *m)
{
	int err = write_roots(m, m->nshards);

	ASSERT(!m->boot->claims);
	ASSERT(meta__log_durable(m) >= meta__log_last(m)); /* what the roots will say */
	if (err != -EALREADY)
		return err;
	meta__boot_next(m, meta__heads_write);
	return 0;
}

/* Says in one line what cannot be reached (6), and takes no more changes. */
static void freeze_without(struct meta *m, uint32_t drive)
{
	const struct meta__boot *b = m->boot;

	ASSERT(drive < m->conf.ndrives);
	ASSERT(m->conf.drive[drive].missing);
	m->error[0] = '\0';
	meta__error(m,
		    "read only, drive %u missing: %llu pages of the index and %llu changes of the "
		    "log cannot be reached; files and directories there are answered with "
		    "Input/output error",
		    drive, (unsigned long long)b->away_pages, (unsigned long long)b->away_changes);
	meta_freeze(m);
}

int meta__boot_serve(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(!m->mounted);
	ASSERT(b->in_flight == 0);
	ASSERT(b->span_count + b->later_count <= b->geo.nzones);
	for (uint32_t i = 0; i < b->span_count; i++) /* (3) */
		meta__zone_give_log(m, b->span[i].zone);
	for (uint32_t i = 0; i < b->later_count; i++)
		meta__zone_give_log(m, b->span[b->geo.nzones - 1 - i].zone);
	for (uint32_t i = 0; i < m->zones->geo.nzones; i++)
		meta__zone_hold(m, i, false);
	m->mounted = true;
	b->status = 0;
	b->stage = NULL;
	forget(b);
	meta__domains_look(m);
	meta__ops_mounted(m);
	if (meta__drives_missing(m) < META_DRIVES_MAX)
		freeze_without(m, meta__drives_missing(m));
	return 0;
}
