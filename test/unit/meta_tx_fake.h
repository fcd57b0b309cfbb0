/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Under the operations: a sorted array in place of trees, pages, log and zones.
 *
 *   record   {shard, key} -> value, sorted: what is committed
 *   page     the records of a directory that have the same 6 bits of hash: it is there, or it was
 *            missed and is "read" in a later step
 *   block    of the two drives: free, pending (allocated), or known to an applied change
 *
 * Included by one test program at a time: it defines what the rest of meta/ defines in a store.
 * It is stricter than the real one: a delete of a missing record, a counter that is taken without a
 * change in its shard, and a block that dies twice end the test.
 */
#ifndef TEST_META_TX_FAKE_H
#define TEST_META_TX_FAKE_H

#include "meta/engine/meta_lend.h"
#include "meta/plans/meta_plan.h"
#include "meta/meta_store.h"
#include "base/hash.h"
#include "test/lib/meta_world.h"
#include "test/unit/meta_away_fake.h"
#include "test/unit/meta_pair_double.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES       2u
#define DRIVE_BLOCKS 16384u
#define ZONE_BLOCKS  32u /* small: files lie in many of them */
#define ZONES        (DRIVES * DRIVE_BLOCKS / ZONE_BLOCKS)
#define SHARDS       8u
#define SPREAD_AT    3u
#define PAGES        4096u
#define WAITS_MAX    65536u

struct record {
	uint32_t shard;
	struct meta_key key;
	uint8_t *value;
	uint32_t len;
	uint64_t seq;
};

struct wait {
	struct meta_op *op;
	uint32_t page;
};

struct fake {
	struct meta_world w;
	struct meta m;
	struct record *record;
	uint32_t records, records_max;
	uint32_t miss_percent, busy_percent, fail_pages;
	bool page[PAGES];
	struct wait wait[WAITS_MAX];
	uint32_t waits;
	uint64_t last, durable;
	uint32_t pending[ZONES], used[ZONES];
	int64_t live[ZONES];
	uint32_t zone_open[DRIVES];
	uint32_t readers;
	int space_ok;
	int touch;    /* what plans of collection say   */
	int orphans;  /* ... and applies of orphans' */
	int drive;    /* ... and plans of draining   */
	bool spoiled; /* a test changes records as no operation would */
	/* the transaction */
	struct meta_op *op;
	uint32_t busy_at; /* this plan's so many-th look is told to come later; 0: none */
	struct record mut[META__TX_RECORDS_MAX];
	bool del[META__TX_RECORDS_MAX];
	uint32_t muts;
	uint64_t applied; /* mutations, by all transactions so far */
	uint64_t seen;
	uint64_t uniq[SHARDS], dir[SHARDS];
};

static struct fake *fake_of(const struct meta *m)
{
	return container_of((struct meta *)(uintptr_t)m, struct fake, m);
}

static bool chance(struct fake *f, uint32_t percent)
{
	return rand_below(&f->w.rand, 100) < percent;
}

/* ---- records ----------------------------------------------------------------------------- */

static int cmp(const struct record *r, uint32_t shard, const struct meta_key *key)
{
	if (r->shard != shard)
		return r->shard < shard ? -1 : 1;
	return meta__key_cmp(&r->key, key);
}

/* The first record that is not before {shard, key}. */
static uint32_t place_of(const struct fake *f, uint32_t shard, const struct meta_key *key)
{
	uint32_t lo = 0, hi = f->records;

	while (lo < hi) {
		const uint32_t mid = (lo + hi) / 2;

		if (cmp(&f->record[mid], shard, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool record_at(const struct fake *f, uint32_t at, uint32_t shard, const struct meta_key *key)
{
	return at < f->records && cmp(&f->record[at], shard, key) == 0;
}

/* 0, or a miss of the page that would hold it. */
static int look(struct fake *f, uint32_t shard, const struct meta_key *key)
{
	const uint32_t page = (uint32_t)(hash_u64(shard, key->w[0] >> 10) % PAGES);

	ASSERT(shard < SHARDS);
	if (f->busy_at && --f->busy_at == 0)
		return META__NEEDS_ROOM;
	if (f->page[page] || !f->miss_percent)
		return 0;
	ASSERT(f->waits < WAITS_MAX);
	f->op->misses++;
	f->wait[f->waits++] = (struct wait){ f->op, page };
	return META__MISSES;
}

/* ---- the transaction ------------------------------------------------------------------------- */

void meta__tx_begin(struct meta *m, struct meta_op *op)
{
	struct fake *f = fake_of(m);

	for (uint32_t i = 0; i < f->muts; i++)
		free(f->mut[i].value);
	f->muts = 0;
	f->op = op;
	f->seen = 0;
	f->busy_at = chance(f, f->busy_percent) ? 1 + (uint32_t)rand_below(&f->w.rand, 40) : 0;
	memset(f->uniq, 0, sizeof(f->uniq));
	memset(f->dir, 0, sizeof(f->dir));
}

static int find_mut(const struct fake *f, uint32_t shard, const struct meta_key *key)
{
	for (uint32_t i = 0; i < f->muts; i++)
		if (cmp(&f->mut[i], shard, key) == 0)
			return (int)i;
	return -1;
}

int meta__tx_get(struct meta *m, uint32_t shard, const struct meta_key *key, const void **value,
		 uint32_t *value_len)
{
	struct fake *f = fake_of(m);
	int i = find_mut(f, shard, key), rc = look(f, shard, key);
	const struct record *r;
	uint32_t at;

	if (rc)
		return rc;
	if (i >= 0 && f->del[i])
		return -ENOENT;
	at = place_of(f, shard, key);
	if (i < 0 && !record_at(f, at, shard, key))
		return -ENOENT;
	r = i >= 0 ? &f->mut[i] : &f->record[at];
	f->seen = max_u64(f->seen, r->seq);
	*value = r->value;
	*value_len = r->len;
	return 0;
}

int meta__tx_seek(struct meta *m, uint32_t shard, struct meta_key *key, const struct meta_key *last,
		  const void **value, uint32_t *value_len)
{
	struct fake *f = fake_of(m);
	const uint32_t at = place_of(f, shard, key);
	int rc = look(f, shard, key);

	if (rc)
		return rc;
	if (at == f->records || f->record[at].shard != shard ||
	    meta__key_cmp(&f->record[at].key, last) > 0)
		return -ENOENT;
	rc = look(f, shard, &f->record[at].key);
	if (rc)
		return rc;
	f->seen = max_u64(f->seen, f->record[at].seq);
	*key = f->record[at].key;
	*value = f->record[at].value;
	*value_len = f->record[at].len;
	return 0;
}

static int want(struct fake *f, uint32_t shard, const struct meta_key *key, bool del,
		const void *value, uint32_t len)
{
	int i = find_mut(f, shard, key), rc = look(f, shard, key);

	ASSERT(len <= META_VALUE_MAX);
	if (rc)
		return rc;
	if (i < 0 && f->muts == META__TX_RECORDS_MAX)
		return -E2BIG;
	if (i < 0) {
		i = (int)f->muts++;
		f->mut[i].value = NULL;
	}
	free(f->mut[i].value);
	f->mut[i] = (struct record){ .shard = shard, .key = *key, .len = len };
	f->mut[i].value = malloc(len + 1);
	ASSERT(f->mut[i].value);
	if (len)
		memcpy(f->mut[i].value, value, len);
	f->del[i] = del;
	return 0;
}

int meta__tx_put(struct meta *m, uint32_t shard, const struct meta_key *key, const void *value,
		 uint32_t value_len)
{
	return want(fake_of(m), shard, key, false, value, value_len);
}

int meta__tx_del(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	return want(fake_of(m), shard, key, true, NULL, 0);
}

int meta__tx_live(struct meta *m, uint32_t shard, uint64_t baddr, int64_t nblocks)
{
	const struct meta_key key = meta__zone_key(m, meta__zone_of(m, baddr));
	int64_t live = 0;
	const void *value;
	uint32_t len;
	int rc = meta__tx_get(m, shard, &key, &value, &len);

	if (rc && rc != -ENOENT)
		return rc;
	if (rc == 0)
		memcpy(&live, value, sizeof(live));
	live += nblocks;
	if (live < 0 && fake_of(m)->spoiled)
		return -EIO; /* as the real one */
	ASSERT(live >= 0);
	return live ? meta__tx_put(m, shard, &key, &live, sizeof(live))
		    : meta__tx_del(m, shard, &key);
}

uint64_t meta__tx_uniq(struct meta *m, uint32_t shard)
{
	return m->shard[shard].uniq_next + fake_of(m)->uniq[shard]++;
}

uint64_t meta__tx_dir(struct meta *m, uint32_t shard)
{
	return (uint64_t)shard << 36 | (m->shard[shard].dir_next + fake_of(m)->dir[shard]++);
}

void meta__tx_data(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	(void)m, (void)runs;
	(void)nruns;
}

int meta__tx_ready(struct meta *m)
{
	struct fake *f = fake_of(m);

	if ((int)f->op->type == META__OP_FREE_ORPHAN && f->orphans)
		return f->orphans;
	return chance(f, f->busy_percent) ? META__NEEDS_ROOM : 0;
}

/* It has no pages. */
bool meta__tx_splits(const struct meta *m)
{
	(void)m;
	return false;
}

uint64_t meta__tx_seen(const struct meta *m)
{
	return fake_of(m)->seen;
}

void meta__tx_saw(struct meta *m, uint64_t seq)
{
	fake_of(m)->seen = max_u64(fake_of(m)->seen, seq);
}

bool meta__tx_leaf(struct meta *m, uint32_t shard, const struct meta_key *key,
		   struct meta__leaf_seen *out)
{
	(void)m, (void)shard, (void)key, (void)out;
	return false;
}

uint32_t meta__tx_wanted(const struct meta *m)
{
	return fake_of(m)->muts;
}

static void commit(struct fake *f, struct record *mut, bool del)
{
	const bool zone = meta__key_class(&mut->key) == META__CLASS_ZONE;
	const uint32_t at = place_of(f, mut->shard, &mut->key);
	const bool there = record_at(f, at, mut->shard, &mut->key);
	const bool inode = meta__key_kind(&mut->key) == META__KIND_INODE;
	const bool dir = meta__key_dir(&mut->key) &&
			 meta__key_class(&mut->key) == META__CLASS_DIR &&
			 meta__key_index(&mut->key) == 0;
	int64_t was = 0, is = 0;

	if (zone && there)
		memcpy(&was, f->record[at].value, sizeof(was));
	if (zone && !del)
		memcpy(&is, mut->value, sizeof(is));
	if (zone)
		f->live[meta__key_index(&mut->key)] += is - was;
	ASSERT(there || !del || zone || f->spoiled);
	if (del && !there)
		return;
	if (there)
		free(f->record[at].value);
	if (del && there) {
		f->records--;
		memmove(&f->record[at], &f->record[at + 1], (f->records - at) * sizeof(*f->record));
	}
	f->m.shard[mut->shard].files += (uint64_t)(inode && !del && !there);
	f->m.shard[mut->shard].files -= (uint64_t)(inode && del);
	f->m.shard[mut->shard].dirs += (uint64_t)(dir && !del && !there);
	f->m.shard[mut->shard].dirs -= (uint64_t)(dir && del);
	if (del)
		return;
	if (!there) {
		if (f->records == f->records_max) {
			f->records_max = f->records_max ? 2 * f->records_max : 1024;
			f->record = realloc(f->record, f->records_max * sizeof(*f->record));
			ASSERT(f->record);
		}
		memmove(&f->record[at + 1], &f->record[at], (f->records - at) * sizeof(*f->record));
		f->records++;
	}
	f->record[at] = *mut;
	f->record[at].seq = f->last;
	mut->value = NULL;
}

void meta__tx_apply(struct meta *m)
{
	struct fake *f = fake_of(m);
	bool touched[SHARDS] = { false };

	if (f->muts == 0)
		return;
	f->op->seen_seq = ++f->last;
	f->applied += f->muts;
	for (uint32_t i = 0; i < f->muts; i++) {
		touched[f->mut[i].shard] = true;
		commit(f, &f->mut[i], f->del[i]);
	}
	for (uint32_t s = 0; s < SHARDS; s++) {
		ASSERT(touched[s] || (!f->uniq[s] && !f->dir[s]));
		m->shard[s].uniq_next += f->uniq[s];
		m->shard[s].dir_next += f->dir[s];
	}
}

/* ---- zones and blocks
 * ---------------------------------------------------------------------------- */

uint32_t meta__zone_of(const struct meta *m, uint64_t baddr)
{
	(void)m;
	return META_BADDR_DRIVE(baddr) * (DRIVE_BLOCKS / ZONE_BLOCKS) +
	       (uint32_t)(META_BADDR_BLOCK(baddr) / ZONE_BLOCKS);
}

struct meta_key meta__zone_key(const struct meta *m, uint32_t zone)
{
	(void)m;
	return meta__key(0, 0, META__CLASS_ZONE, 0, META__KIND_NONE, zone);
}

static bool zone_free(const struct fake *f, uint32_t zone)
{
	return f->live[zone] == 0 && f->pending[zone] == 0 && !f->readers &&
	       zone % (DRIVE_BLOCKS / ZONE_BLOCKS) != 0; /* block 0 is no data */
}

/* The drive's open zone, with room in it; ZONES: none. */
static uint32_t open_zone(struct fake *f, uint32_t drive)
{
	const uint32_t zones = DRIVE_BLOCKS / ZONE_BLOCKS, open = f->zone_open[drive];

	if (open && f->used[open] < ZONE_BLOCKS)
		return open;
	for (uint32_t i = 1; i <= zones; i++) {
		const uint32_t z = drive * zones + (open + i) % zones;

		if (!zone_free(f, z))
			continue;
		f->used[z] = 1; /* its header */
		f->zone_open[drive] = z;
		return z;
	}
	return ZONES;
}

int meta_data_alloc(struct meta *m, uint64_t spread, uint32_t nblocks, struct meta_run *runs,
		    uint32_t runs_max, uint32_t *nruns)
{
	struct fake *f = fake_of(m);

	*nruns = 0;
	while (nblocks > 0) {
		const uint32_t z = open_zone(f, (uint32_t)(spread % DRIVES));
		const uint32_t zones = DRIVE_BLOCKS / ZONE_BLOCKS;
		uint32_t n;

		if (z == ZONES || *nruns == runs_max) {
			meta_data_free(m, runs, *nruns);
			return -ENOSPC;
		}
		n = min_u32(nblocks, ZONE_BLOCKS - f->used[z]);
		runs[(*nruns)++] = (struct meta_run){
			META_BADDR(z / zones, (uint64_t)(z % zones) * ZONE_BLOCKS + f->used[z]), n
		};
		f->used[z] += n;
		f->pending[z] += n;
		nblocks -= n;
	}
	return 0;
}

static void no_longer_pending(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	struct fake *f = fake_of(m);

	for (uint32_t i = 0; i < nruns; i++) {
		const uint32_t z = meta__zone_of(m, runs[i].baddr);

		ASSERT(f->pending[z] >= runs[i].nblocks);
		f->pending[z] -= runs[i].nblocks;
	}
}

void meta_data_free(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	no_longer_pending(m, runs, nruns);
}

void meta__data_applied(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	for (uint32_t i = 0; i < nruns; i++)
		ASSERT(fake_of(m)->live[meta__zone_of(m, runs[i].baddr)] >= 0 ||
		       fake_of(m)->spoiled);
	no_longer_pending(m, runs, nruns);
}

void meta__data_dropped(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	no_longer_pending(m, runs, nruns);
}

int meta__data_check(const struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	for (uint32_t i = 0; i < nruns; i++)
		if (META_BADDR_DRIVE(runs[i].baddr) >= DRIVES ||
		    META_BADDR_BLOCK(runs[i].baddr) + runs[i].nblocks > DRIVE_BLOCKS ||
		    fake_of(m)->pending[meta__zone_of(m, runs[i].baddr)] < runs[i].nblocks)
			return -EINVAL;
	return 0;
}

int meta__space_ok(const struct meta *m)
{
	return fake_of(m)->space_ok;
}

uint64_t meta__epoch_enter(struct meta *m)
{
	fake_of(m)->readers++;
	return 1;
}

void meta__epoch_leave(struct meta *m, uint64_t epoch)
{
	ASSERT(epoch == 1 && fake_of(m)->readers > 0);
	fake_of(m)->readers--;
}

/* ---- the rest of a store -------------------------------------------------------------------- */

/* meta_receipt.c: nobody asks for any. */

int meta__receipt_want(struct meta *m, const struct meta_op *op)
{
	(void)m, (void)op;
	UNREACHABLE();
}

int meta__plan_recall(struct meta *m, struct meta_op *op)
{
	(void)m, (void)op;
	UNREACHABLE();
}

void meta__error(struct meta *m, const char *fmt, ...)
{
	va_list ap;

	if (m->error[0])
		return;
	va_start(ap, fmt);
	vsnprintf(m->error, sizeof(m->error), fmt, ap);
	va_end(ap);
}

bool meta__log_lives(const struct meta *m)
{
	return !m->failed;
}

uint64_t meta__log_durable(const struct meta *m)
{
	return fake_of(m)->durable;
}

void meta__log_stat(const struct meta *m, struct meta_statfs *out)
{
	out->log_blocks = meta__log_blocks(m);
}

uint64_t meta__log_blocks(const struct meta *m)
{
	return fake_of(m)->last;
}

void meta__statfs_space(const struct meta *m, struct meta_statfs *out)
{
	(void)m;
	out->zones_total = ZONES;
}

void meta__cache_stat(const struct meta *m, struct meta_statfs *out)
{
	(void)m;
	out->cache_pages = PAGES;
}

void meta__ckpt_stat(const struct meta *m, struct meta_statfs *out)
{
	(void)m;
	out->checkpoints = out->leaves_early = 0;
}

static void own_op_done(struct meta *m, struct meta_op *op)
{
	(void)m;
	op->owner = NULL; /* a test that begins one of its own looks there */
}

void meta__zone_wear(struct meta *m, struct meta_statfs *out)
{
	(void)m, (void)out;
}

void meta__gc_stat(const struct meta *m, struct meta_statfs *out)
{
	(void)m, (void)out;
}

static int plan_touch(struct meta *m, struct meta_op *op)
{
	(void)op;
	return fake_of(m)->touch;
}

/* The store's own that are of names; nobody runs the others here. */
static const struct meta__op_row own_rows[] = {
	[META__OP_FREE_ORPHAN - META__OP_FREE_ORPHAN] = { .plan = meta__plan_free_orphan,
							  .done = meta__orphan_op_done },
	[META__OP_TOUCH - META__OP_FREE_ORPHAN] = { .plan = plan_touch, .done = own_op_done },
	[META__OP_MKROOT -
		META__OP_FREE_ORPHAN] = { .plan = meta__plan_mkroot, .done = own_op_done },
	[META__OP_TOTALS_UP - META__OP_FREE_ORPHAN] = { .plan = meta__plan_totals_up,
							.done = meta__totals_up_op_done },
	[META__OP_DUPLICATE -
		META__OP_FREE_ORPHAN] = { .plan = meta__plan_duplicate, .done = own_op_done },
};

static const struct meta__op_rows fake_rows = { .user = meta__user_rows, .own = own_rows };
static const struct meta__above fake_above = { .start = meta_op_start };

int meta__borrow_ready(struct meta *m)
{
	(void)m;
	UNREACHABLE();
}

int meta__plan_drive(struct meta *m, struct meta_op *op)
{
	(void)op;
	return fake_of(m)->drive;
}

/* ---- the crank --------------------------------------------------------------------- */

static void fake_step(struct meta_world *w)
{
	struct fake *f = container_of(w, struct fake, w);
	const uint32_t n = f->waits;

	for (uint32_t i = 0; i < n; i++) {
		const struct wait x = f->wait[i];
		const bool bad = f->fail_pages > 0;

		f->fail_pages -= bad;
		f->page[x.page] = !bad;
		meta__op_page_done(&f->m, x.op, bad ? -EIO : 0);
	}
	ASSERT(f->waits == n);
	f->waits = 0;
	for (uint32_t i = 0; f->miss_percent && i < PAGES * f->miss_percent / 200; i++)
		f->page[rand_below(&w->rand, PAGES)] = false;
	if (chance(f, 50))
		f->durable = f->last;
	meta__ops_turn(&f->m);
}

static void fake_remount(struct meta_world *w)
{
	struct fake *f = container_of(w, struct fake, w);

	f->durable = f->last;
	f->waits = 0; /* of the background's operations, which end here */
	meta__ops_destroy(&f->m);
	ASSERT(meta__ops_create(&f->m) == 0);
	f->m.epoch++;
	meta__ops_mounted(&f->m);
}

static void fake_end(struct meta_world *w)
{
	struct fake *f = container_of(w, struct fake, w);

	for (uint32_t i = 0; i < f->records; i++)
		free(f->record[i].value);
	for (uint32_t i = 0; i < f->muts; i++)
		free(f->mut[i].value);
	for (uint32_t d = 0; d < DRIVES; d++)
		free(w->drive[d]);
	meta__ops_destroy(&f->m);
	free(f->record);
	free(f->m.shard);
	free(f);
}

struct meta_world *meta_world_fake(uint64_t seed, uint32_t miss_percent, uint32_t busy_percent)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct meta_op op = { .type = (enum meta_op_type)META__OP_MKROOT, .wall_ns = 1 };

	ASSERT(f);
	f->w.m = &f->m;
	f->w.step = fake_step;
	f->w.remount = fake_remount;
	f->w.end = fake_end;
	rand_seed(&f->w.rand, seed);
	f->m.conf.ndrives = DRIVES;
	for (uint32_t d = 0; d < DRIVES; d++) {
		f->m.conf.drive[d].nblocks = DRIVE_BLOCKS;
		f->w.drive[d] = calloc(DRIVE_BLOCKS, BLOCK_SIZE);
		ASSERT(f->w.drive[d]);
	}
	f->m.conf.ops_max = 16;
	f->m.rows = &fake_rows;
	f->m.above = &fake_above;
	f->m.nshards = SHARDS;
	f->m.secret = seed;
	f->m.spread_at = seed % 2 ? SPREAD_AT : 0;
	f->m.epoch = 7;
	f->m.mounted = true;
	f->m.shard = calloc(SHARDS, sizeof(*f->m.shard));
	ASSERT(f->m.shard);
	for (uint32_t s = 0; s < SHARDS; s++) {
		f->m.shard[s].uniq_next = 1;
		f->m.shard[s].dir_next = 2;
	}
	ASSERT(meta__ops_create(&f->m) == 0);
	ASSERT(meta_op_start(&f->m, &op) && op.status == 0);
	f->durable = f->last;
	meta__ops_mounted(&f->m);
	f->miss_percent = miss_percent;
	f->busy_percent = busy_percent;
	return &f->w;
}

/* ---- what tests ask ---------------------------------------------------------------- */

uint64_t meta_fake_records(const struct meta_world *w)
{
	return container_of((struct meta_world *)(uintptr_t)w, struct fake, w)->records;
}

uint64_t meta_fake_mutations(const struct meta_world *w)
{
	return container_of((struct meta_world *)(uintptr_t)w, struct fake, w)->applied;
}

uint64_t meta_fake_kind(const struct meta_world *w, enum meta__kind kind)
{
	const struct fake *f = container_of((struct meta_world *)(uintptr_t)w, struct fake, w);
	uint64_t n = 0;

	for (uint32_t i = 0; i < f->records; i++)
		n += meta__key_kind(&f->record[i].key) == kind;
	return n;
}

uint64_t meta_fake_live(const struct meta_world *w)
{
	const struct fake *f = container_of((struct meta_world *)(uintptr_t)w, struct fake, w);
	int64_t live = 0;

	for (uint32_t z = 0; z < ZONES; z++)
		live += f->live[z];
	return (uint64_t)live;
}

uint64_t meta_fake_pending(const struct meta_world *w)
{
	const struct fake *f = container_of((struct meta_world *)(uintptr_t)w, struct fake, w);
	uint64_t n = 0;

	for (uint32_t z = 0; z < ZONES; z++)
		n += f->pending[z];
	return n;
}

bool meta_fake_record(struct meta_world *w, uint64_t index, uint32_t *shard, struct meta_key *key,
		      void **value, uint32_t *value_len)
{
	struct fake *f = container_of(w, struct fake, w);

	if (index >= f->records)
		return false;
	*shard = f->record[index].shard;
	*key = f->record[index].key;
	*value = f->record[index].value;
	*value_len = f->record[index].len;
	return true;
}

void meta_fake_fail_pages(struct meta_world *w, uint32_t count)
{
	container_of(w, struct fake, w)->fail_pages = count;
}

void meta_fake_space(struct meta_world *w, int space_ok)
{
	container_of(w, struct fake, w)->space_ok = space_ok;
}

void meta_fake_touch(struct meta_world *w, int status)
{
	container_of(w, struct fake, w)->touch = status;
}

void meta_fake_drive(struct meta_world *w, int status)
{
	container_of(w, struct fake, w)->drive = status;
}

void meta_fake_busy(struct meta_world *w, uint32_t percent)
{
	container_of(w, struct fake, w)->busy_percent = percent;
}

void meta_fake_orphans(struct meta_world *w, int status)
{
	container_of(w, struct fake, w)->orphans = status;
}

#endif
