/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Doubles, in memory, of the parts that cache, tree, transactions and checkpoints call: a drive,
 * zones that are single pages, and a log of records that becomes durable when the test says so.
 * Included by one test at a time: it defines what meta.c, meta_zone.c, meta_log.c, meta_super.c
 * and meta_op.c define in a store.
 */
#ifndef TEST_META_DOUBLE_H
#define TEST_META_DOUBLE_H

#include "meta/meta_store.h"
#include "meta/engine/meta_tree.h"
#include "test/unit/meta_lend_double.h"
#include "test/unit/meta_pair_double.h"
#include "base/num.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define D_PAGES   4096u /* of the drive */
#define D_SHARDS  4u
#define D_RECORDS 200000u

enum d_page { D_FREE, D_LIVE, D_DYING, D_FROZEN };

struct d_record {
	uint64_t block; /* of the log */
	uint64_t shard_seq;
	struct meta__mut mut;
	uint8_t value[64];
};

/* All of a test's world. */
static struct {
	struct meta m;
	uint8_t *drive;
	enum d_page page[D_PAGES];
	uint32_t page_next, pages_live;
	uint64_t log_last, log_durable, log_trimmed;
	bool log_open, log_full, log_in_flight, log_keep, zone_short;
	struct d_record *record;
	uint32_t nrecords;
	int64_t zone_live;
	struct meta__root root[D_SHARDS]; /* durable */
	uint32_t reads, writes, flushes, roots, fail_reads, fail_writes;
	uint64_t collected;  /* collection has just read this page */
	uint64_t flip_baddr; /* reads of this page have a flipped bit, so many times */
	uint32_t flips;
	uint32_t suspects; /* pages that nobody could read */
	struct meta__page_want suspect;
	int page_status;
	uint32_t page_done;
	struct rand_state rand;
	char order[4096]; /* what was done in which order: p f r t z */
	uint32_t norder;
} d;

static inline void d_note(char c)
{
	if (d.norder + 1 < sizeof(d.order))
		d.order[d.norder++] = c;
}

/* ---- meta.c, meta_op.c ---- */

void *meta__mem_take(struct meta *m, uint64_t bytes)
{
	void *p = m->mem_next;

	m->mem_next += align_up(bytes, 4096);
	ASSERT(m->mem_next <= (uint8_t *)m->conf.memory + m->conf.memory_bytes);
	return p;
}

bool meta__drain_empty(const struct meta *m, uint32_t drive) /* every drive here serves */
{
	(void)m;
	(void)drive;
	return false;
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

void meta__fail(struct meta *m)
{
	m->failed = -EROFS;
}

void meta__io_want(struct meta *m, struct meta__io *x)
{
	list_push_back(&m->io_wanted, &x->io.link);
}

void meta__op_page_done(struct meta *m, struct meta_op *op, int status)
{
	(void)m;
	op->misses--;
	d.page_done++;
	if (status)
		d.page_status = status;
}

/* ---- meta_receipt.c: nobody asks for any ---- */

bool meta__receipt_apply(struct meta *m, const struct meta__mut *mut, uint64_t seq)
{
	(void)m;
	(void)mut;
	(void)seq;
	return false;
}

void meta__receipts_carry_start(struct meta *m)
{
	(void)m;
}

bool meta__receipts_carry(struct meta *m)
{
	(void)m;
	return true;
}

uint64_t meta__receipts_trim(const struct meta *m)
{
	(void)m;
	return UINT64_MAX;
}

/* ---- meta_zone.c: a page is a zone ---- */

uint32_t meta__page_room(struct meta *m)
{
	(void)m;
	return D_PAGES - 1 - d.pages_live;
}

int meta__page_ready(struct meta *m, struct meta__page_need need, bool collects)
{
	(void)collects;
	if (need.leaves + need.uppers <= meta__page_room(m))
		return 0;
	meta__ckpt_want(m);
	return META__NEEDS_ROOM;
}

uint64_t meta__page_take(struct meta *m, uint32_t level)
{
	(void)m;
	(void)level;
	for (;;) {
		d.page_next = d.page_next + 1 == D_PAGES ? 1 : d.page_next + 1;
		if (d.page[d.page_next] == D_FREE)
			break;
	}
	d.page[d.page_next] = D_LIVE;
	d.pages_live++;
	memset(d.drive + (uint64_t)d.page_next * META_PAGE_BYTES, 0xee, META_PAGE_BYTES);
	return META_BADDR(0, (uint64_t)d.page_next * META_PAGE_BLOCKS);
}

void meta__page_dead(struct meta *m, uint64_t baddr)
{
	(void)m;
	ASSERT(d.page[baddr / META_PAGE_BLOCKS] == D_LIVE);
	d.page[baddr / META_PAGE_BLOCKS] = D_DYING;
}

static inline void d_age(enum d_page from, enum d_page to)
{
	for (uint32_t i = 1; i < D_PAGES; i++) {
		if (d.page[i] != from)
			continue;
		d.page[i] = to;
		if (to == D_FREE)
			d.pages_live--;
	}
}

const void *meta__collect_page(const struct meta *m, uint64_t baddr)
{
	(void)m;
	return d.collected == baddr ? d.drive + baddr * 4096 : NULL;
}

bool meta__zone_short(const struct meta *m)
{
	(void)m;
	return d.zone_short;
}

void meta__zone_freeze(struct meta *m)
{
	(void)m;
	d_age(D_DYING, D_FROZEN);
}

void meta__zone_rooted(struct meta *m)
{
	(void)m;
	d_note('z');
	d_age(D_FROZEN, D_FREE);
}

uint32_t meta__zone_of(const struct meta *m, uint64_t baddr)
{
	(void)m;
	return (uint32_t)(baddr / 100);
}

struct meta_key meta__zone_key(const struct meta *m, uint32_t zone)
{
	(void)m;
	return meta__key(0, 0, META__CLASS_ZONE, 0, META__KIND_NONE, zone);
}

uint32_t meta__zone_of_key(const struct meta *m, const struct meta_key *key)
{
	(void)m;
	return (uint32_t)meta__key_index(key);
}

void meta__zone_live_add(struct meta *m, uint32_t zone, int64_t delta)
{
	(void)m;
	(void)zone;
	d.zone_live += delta;
}

/* ---- meta_mark.c: no drive is marked ---- */

void meta__marks_begin(struct meta *m, uint64_t mark)
{
	(void)m;
	(void)mark;
}

bool meta__marks_turn(struct meta *m)
{
	(void)m;
	return true;
}

/* ---- meta_log.c ---- */

uint32_t meta__log_record_max(const struct meta *m)
{
	(void)m;
	return META__RECORD_BYTES_MAX;
}

uint32_t meta__log_record_bytes(const struct meta__mut *mut, uint32_t count)
{
	uint32_t bytes = 64;

	for (uint32_t i = 0; i < count; i++)
		bytes += 40 + mut[i].value_len;
	return bytes;
}

bool meta__log_room(struct meta *m, uint32_t bytes)
{
	(void)m;
	(void)bytes;
	return !d.log_full && !d.log_in_flight && d.nrecords + META__TX_RECORDS_MAX <= D_RECORDS;
}

bool meta__log_full(const struct meta *m, uint32_t bytes)
{
	(void)m;
	(void)bytes;
	return !d.log_in_flight;
}

uint64_t meta__log_append(struct meta *m, const struct meta__mut *mut, uint32_t count,
			  uint64_t drives_mask)
{
	(void)drives_mask;
	if (!d.log_open) {
		d.log_open = true;
		d.log_last++;
	}
	for (uint32_t i = 0; i < count && d.log_keep; i++) {
		struct d_record *r = &d.record[d.nrecords++];

		*r = (struct d_record){
			.block = d.log_last,
			.shard_seq = m->shard[mut[i].shard].seq,
			.mut = mut[i],
		};
		ASSERT(mut[i].value_len <= sizeof(r->value));
		if (!mut[i].del)
			memcpy(r->value, mut[i].value, mut[i].value_len);
	}
	return d.log_last;
}

bool meta__log_lives(const struct meta *m)
{
	return !m->failed;
}

uint64_t meta__log_durable(const struct meta *m)
{
	(void)m;
	return d.log_durable;
}

uint64_t meta__log_last(const struct meta *m)
{
	(void)m;
	return d.log_last;
}

bool meta__log_turn(struct meta *m)
{
	(void)m;
	d.log_open = false;
	return false;
}

bool meta__log_wants_ckpt(const struct meta *m)
{
	(void)m;
	return false;
}

void meta__log_trim(struct meta *m, uint64_t seq)
{
	(void)m;
	d_note('t');
	ASSERT(seq <= d.log_durable);
	d.log_trimmed = seq;
}

/* ---- meta_super.c: the root of shard s in blocks s of "drive 1" ---- */

uint32_t meta__root_build(struct meta *m, uint32_t shard, const struct meta__root *r, void *block,
			  uint64_t copy_baddr_out[META__ROOT_COPIES])
{
	(void)m;
	memcpy(block, r, sizeof(*r));
	copy_baddr_out[0] = META_BADDR(1, shard + 1);
	copy_baddr_out[1] = META_BADDR(1, shard + 1 + D_SHARDS);
	return 2;
}

void meta__root_durable(struct meta *m, uint32_t shard, const struct meta__root *r)
{
	m->shard[shard].durable_seq = r->seq;
}

/* ---- the drives ---- */

static inline void d_page_io(struct meta_io *io)
{
	uint8_t *at = d.drive + io->block * 4096;

	ASSERT(io->block + io->nblocks <= (uint64_t)D_PAGES * META_PAGE_BLOCKS);
	if (io->op == META_IO_READ) {
		d.reads++;
		memcpy(io->buf, at, (size_t)io->nblocks * 4096);
		if (d.flips && io->block == d.flip_baddr) {
			d.flips--;
			((uint8_t *)io->buf)[5000] ^= 1;
		}
		if (d.fail_reads) {
			d.fail_reads--;
			io->status = -EIO;
		}
		return;
	}
	d_note('p');
	d.writes++;
	ASSERT(d.page[io->block / META_PAGE_BLOCKS] != D_FREE);
	memcpy(at, io->buf, (size_t)io->nblocks * 4096);
	if (d.fail_writes) {
		d.fail_writes--;
		io->status = -EIO;
	}
}

static inline void d_serve(struct meta__io *x)
{
	struct meta_io *io = &x->io;

	io->status = 0;
	if (io->op == META_IO_FLUSH) {
		d_note('f');
		d.flushes++;
	} else if (io->drive == 0) {
		d_page_io(io);
	} else {
		d_note('r');
		ASSERT(io->fua && io->op == META_IO_WRITE);
		d.roots++;
		if (io->block > D_SHARDS)
			memcpy(&d.root[io->block - 1 - D_SHARDS], io->buf, sizeof(d.root[0]));
	}
	if (x->kind == META__IO_PAGE_READ)
		meta__cache_io_done(&d.m, x);
	else
		meta__ckpt_io_done(&d.m, x);
}

/* Serve one I/O, any of those that wait; false: none does. */
static inline bool d_pump_one(void)
{
	uint32_t n = 0, pick;
	struct list *pos;

	list_for_each (pos, &d.m.io_wanted)
		n++;
	if (n == 0)
		return false;
	pick = (uint32_t)rand_below(&d.rand, n);
	for (pos = d.m.io_wanted.next; pick > 0; pick--)
		pos = pos->next;
	list_del(pos);
	d_serve(container_of(pos, struct meta__io, io.link));
	return true;
}

static inline void d_pump(void)
{
	while (d_pump_one())
		;
}

/* ---- a world's begin and end ---- */

static void d_suspect_page(struct meta *m, const struct meta__page_want *page,
			   const struct meta_key *key)
{
	(void)m;
	(void)key;
	d.suspects++;
	d.suspect = *page;
}

static const struct meta__above d_above = { .suspect_page = d_suspect_page };

static inline void d_open(uint32_t frames)
{
	struct meta *m = &d.m;

	m->above = &d_above;
	m->conf.ndrives = 2;
	m->conf.drive[0].nblocks = (uint64_t)D_PAGES * META_PAGE_BLOCKS;
	m->conf.drive[0].volatile_cache = true;
	m->conf.drive[1].nblocks = 64;
	m->conf.cache_bytes = (uint64_t)frames * META_PAGE_BYTES;
	m->conf.memory_bytes = meta__cache_memory(&m->conf) + meta__ckpt_memory(&m->conf) +
			       meta__tx_memory(&m->conf);
	m->conf.memory = aligned_alloc(4096, m->conf.memory_bytes);
	m->mem_next = m->conf.memory;
	m->nshards = D_SHARDS;
	m->shard = calloc(D_SHARDS, sizeof(*m->shard));
	m->epoch++;
	list_init(&m->io_wanted);
	cr_assert_eq(meta__cache_create(m), 0);
	cr_assert_eq(meta__fresh_create(m), 0);
	cr_assert_eq(meta__tx_create(m), 0);
	cr_assert_eq(meta__ckpt_create(m), 0);
}

static inline void d_close(void)
{
	struct meta *m = &d.m;

	meta__ckpt_destroy(m);
	meta__tx_destroy(m);
	meta__fresh_destroy(m);
	meta__cache_destroy(m);
	free(m->shard);
	free(m->conf.memory);
}

static inline void d_start(uint32_t frames, uint64_t seed)
{
	memset(&d, 0, sizeof(d));
	rand_seed(&d.rand, seed);
	d.drive = calloc(D_PAGES, META_PAGE_BYTES);
	d.record = calloc(D_RECORDS, sizeof(*d.record));
	d_open(frames);
}

static inline void d_end(void)
{
	d_close();
	free(d.record);
	free(d.drive);
}

/* All that is logged is durable from now on, and a checkpoint may take a step. */
static inline void d_turn(void)
{
	d.log_open = false;
	d.log_durable = d.log_last;
	meta__ckpt_turn(&d.m);
	d_pump();
}

/* The same, but only some of the I/O is done. */
static inline void d_step(void)
{
	uint64_t some = rand_below(&d.rand, 12);

	d.log_open = false;
	d.log_durable = d.log_last;
	meta__ckpt_turn(&d.m);
	while (some-- > 0 && d_pump_one())
		;
}

/* A plan returned err.  Returns true if it could not continue yet and must run again. */
static inline bool d_again(struct meta_op *op, int err)
{
	if (err != META__MISSES && err != META__NEEDS_ROOM)
		return false;
	for (uint32_t i = 0; i < 1000 && op->misses > 0; i++)
		d_pump_one();
	cr_assert_eq(op->misses, 0);
	if (err == META__NEEDS_ROOM)
		d_turn();
	return true;
}

static inline void d_checkpoint(void)
{
	uint64_t done = 0;
	struct meta_statfs st;

	meta__ckpt_stat(&d.m, &st);
	done = st.checkpoints;
	while (meta__ckpt_running(&d.m))
		d_turn();
	meta__ckpt_want(&d.m);
	do {
		d_turn();
		meta__ckpt_stat(&d.m, &st);
	} while (st.checkpoints <= done || meta__ckpt_running(&d.m));
}

static inline int d_put(uint32_t shard, struct meta_key key, const void *value, uint32_t len)
{
	struct meta_op op = { .type = META_OP_STAT };
	int err;

	do {
		meta__tx_begin(&d.m, &op);
		err = meta__tx_put(&d.m, shard, &key, value, len);
		if (!err)
			err = meta__tx_ready(&d.m);
	} while (d_again(&op, err));
	if (!err)
		meta__tx_apply(&d.m);
	return err;
}

static inline int d_del(uint32_t shard, struct meta_key key)
{
	struct meta_op op = { .type = META_OP_STAT };
	int err;

	do {
		meta__tx_begin(&d.m, &op);
		err = meta__tx_del(&d.m, shard, &key);
		if (!err)
			err = meta__tx_ready(&d.m);
	} while (d_again(&op, err));
	if (!err)
		meta__tx_apply(&d.m);
	return err;
}

static inline int d_get(uint32_t shard, struct meta_key key, const void **value, uint32_t *len)
{
	struct meta_op op = { .type = META_OP_STAT };
	int err;

	do {
		meta__tx_begin(&d.m, &op);
		err = meta__tx_get(&d.m, shard, &key, value, len);
	} while (d_again(&op, err));
	return err;
}

static inline int d_seek(uint32_t shard, struct meta_key *key, const void **value, uint32_t *len)
{
	const struct meta_key last = { { UINT64_MAX, UINT64_MAX, UINT64_MAX } };
	struct meta_op op = { .type = META_OP_STAT };
	int err;

	do {
		meta__tx_begin(&d.m, &op);
		err = meta__tx_seek(&d.m, shard, key, &last, value, len);
	} while (d_again(&op, err));
	return err;
}

/* As if the power had gone: memory is lost, the roots are as they are on the drive. */
static inline void d_cut(uint32_t frames)
{
	d_close();
	d_open(frames);
	for (uint32_t s = 0; s < D_SHARDS; s++) {
		d.m.shard[s].root_baddr = d.root[s].root_baddr;
		d.m.shard[s].root_gen = d.root[s].root_gen;
		d.m.shard[s].height = d.root[s].height;
		d.m.shard[s].seq = d.root[s].seq;
		d.m.shard[s].files = d.root[s].files;
		d.m.shard[s].dirs = d.root[s].dirs;
		d.m.shard[s].uniq_next = d.root[s].uniq_next;
		d.m.shard[s].dir_next = d.root[s].dir_next;
	}
}

static inline uint32_t d_mark_page(uint64_t baddr, uint32_t level)
{
	struct meta__page_look look;

	cr_assert_eq(meta__page_look(d.drive + baddr * 4096, &look), 0);
	cr_assert_eq(look.level, level);
	d.page[baddr / META_PAGE_BLOCKS] = D_LIVE;
	return look.count;
}

/* Count the pages of a tree as it lies on the drive: what a remount does with zones. */
static inline uint32_t d_count_pages(uint64_t root, uint32_t height)
{
	uint64_t baddr[META_PAGE_LEVELS_MAX] = { 0 }, gen;
	uint32_t left[META_PAGE_LEVELS_MAX] = { 0 }, count[META_PAGE_LEVELS_MAX], n = 1;
	uint32_t level = height - 1;
	struct meta_key key;

	baddr[level] = root;
	count[level] = left[level] = d_mark_page(root, level);
	while (level < height) {
		if (level == 0 || left[level] == 0) {
			level++;
			continue;
		}
		meta__page_child(d.drive + baddr[level] * 4096, count[level] - left[level], &key,
				 &baddr[level - 1], &gen);
		left[level]--;
		level--;
		count[level] = left[level] = d_mark_page(baddr[level], level);
		n++;
	}
	return n;
}

/* After d_cut(): counts the live pages again. */
static inline void d_recount(void)
{
	memset(d.page, 0, sizeof(d.page));
	d.pages_live = 0;
	for (uint32_t s = 0; s < D_SHARDS; s++)
		if (d.root[s].height)
			d.pages_live += d_count_pages(d.root[s].root_baddr, d.root[s].height);
}

#endif
