/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The store's life cycle: creation, turns, end.
 *
 *            meta_io_next()                      meta_io_done()
 *   modules --io_wanted--> caller, drives --> kind names the module --> module
 *
 *  (1) meta_memory_needed() counts memory and meta_create() divides it; each module gets what
 *      it counted.
 *  (2) A turn gathers before it sends: operations run first, then the log closes its block
 *      [test_meta_log:one_turn_is_one_block_by_fua].
 *  (3) When the last drive that takes new blocks has died, the store takes no more changes: no
 *      operation waits for room that cannot come [test_meta_last_drive].
 */
#include "meta/check/meta_scrub.h"
#include "meta/engine/meta_self_check.h"
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_ops.h"
#include "meta/engine/meta_pair.h"
#include "meta/engine/meta_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SELF_CHECK_TURNS 64u /* between two */

/* ---- configuration --------------------------------------------------------- */

static_assert(META__CACHE_FRAMES_MIN * META_PAGE_BYTES == 2u << 20,
	      "the line in meta_conf_problem");

/* Returns how many domains the drives are in: meta_domain.c. */
static uint32_t domains(const struct meta_conf *c)
{
	uint64_t seen = 0;
	uint32_t alone = 0;

	for (uint32_t d = 0; d < c->ndrives; d++)
		if (c->drive[d].domain)
			seen |= 1ull << (c->drive[d].domain - 1);
		else
			alone++;
	ASSERT(c->ndrives <= META_DRIVES_MAX);
	return alone + (uint32_t)__builtin_popcountll(seen);
}

static const char *drives_problem(const struct meta_conf *c)
{
	struct meta__geo geo;

	for (uint32_t d = 0; d < c->ndrives; d++) {
		if (c->drive[d].nblocks == 0)
			continue; /* the store may have none there: the mount finds out */
		if (c->drive[d].nblocks < META_DRIVE_BYTES_MIN / META__BLOCK)
			return "a drive is smaller than 2 MiB";
		if (c->drive[d].nblocks >= (uint64_t)1 << 44)
			return "a drive has 2^44 blocks or more";
	}
	if (c->nshards && (!is_pow2(c->nshards) || c->nshards > META_SHARDS_MAX))
		return "the number of shards is not a power of two up to 4096";
	meta__geo_make(&geo, c, c->nshards ? c->nshards : 1, 0);
	if (geo.nzones < geo.log_zones_max + 12)
		return "the drives are too small for so many shards";
	return NULL;
}

const char *meta_conf_problem(const struct meta_conf *conf)
{
	if (conf->ndrives < 1 || conf->ndrives > META_DRIVES_MAX)
		return "a store has 1 to 64 drives";
	if (conf->cache_bytes % META_PAGE_BYTES || conf->cache_bytes > (uint64_t)1 << 46)
		return "the cache is not a whole number of 16 KiB pages";
	if (conf->cache_bytes / META_PAGE_BYTES < META__CACHE_FRAMES_MIN)
		return "the cache is smaller than 2 MiB";
	if (conf->ops_max < 1)
		return "no operation may run";
	if (conf->copies > META__ROOT_COPIES)
		return "a block has one, two or three copies";
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		if (conf->drive[d].domain > META_DRIVES_MAX)
			return "there are more than 64 failure domains";
	if (conf->nshards && conf->copies > conf->ndrives)
		return "copies of a block need as many drives";
	if (conf->fold &&
	    (conf->copies < 2 || conf->fold < META__FOLD_MIN || conf->fold > META_FOLD_MAX))
		return "a fold is of 2 to 10 zones, in a store of two copies or three";
	if (conf->nshards && conf->fold && conf->fold + conf->copies > conf->ndrives + 1)
		return "a fold needs a drive for each zone of data and of parity";
	if (conf->nshards &&
	    max_u32(conf->copies, conf->fold ? conf->fold + conf->copies - 1 : 1) > domains(conf))
		return conf->fold ? "a fold needs a failure domain for each zone of data and of "
				    "parity"
				  : "copies of a block need as many failure domains";
	return drives_problem(conf);
}

struct module {
	uint64_t (*memory)(const struct meta_conf *c);
	int (*create)(struct meta *m);
	void (*destroy)(struct meta *m);
};

/* In the order of making; they end in reverse. */
static const struct module modules[] = {
	{ meta__zones_memory, meta__zones_create, meta__zones_destroy },
	{ meta__log_memory, meta__log_create, meta__log_destroy },
	{ meta__cache_memory, meta__cache_create, meta__cache_destroy },
	{ meta__tx_memory, meta__tx_create, meta__tx_destroy },
	{ meta__ckpt_memory, meta__ckpt_create, meta__ckpt_destroy },
	{ meta__ops_memory, meta__ops_create, meta__ops_destroy },
	{ meta__boot_memory, meta__boot_create, meta__boot_destroy },
	{ meta__collect_memory, meta__collect_create, meta__collect_destroy },
	{ meta__gc_memory, meta__gc_create, meta__gc_destroy },
	{ meta__folder_memory, meta__folder_create, meta__folder_destroy },
	{ meta__checker_memory, meta__checker_create, meta__checker_destroy },
	{ meta__receipts_memory, meta__receipts_create, meta__receipts_destroy },
	{ meta__fresh_memory, meta__fresh_create, meta__fresh_destroy },
};

uint64_t meta_memory_needed(const struct meta_conf *conf)
{
	uint64_t bytes = 0;

	if (meta_conf_problem(conf))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(modules); i++)
		bytes += align_up(modules[i].memory(conf), META__BLOCK);
	return bytes;
}

/* ---- what lower rooms ask ---------------------------------------------------- */

static void suspect(struct meta *m, const struct meta_handle *file, uint64_t block)
{
	if (m->scrub)
		(void)meta_scrub_suspect(m->scrub, file, block, 1);
}

static void suspect_page(struct meta *m, const struct meta__page_want *page,
			 const struct meta_key *key)
{
	ASSERT(page->level < META_PAGE_LEVELS_MAX);
	if (m->scrub && m->mounted)
		meta__suspect_page(m->scrub, page, key);
}

static const struct meta__above above = {
	.collection_hopes = meta__collect_hopes,
	.collection_busy = meta__collect_busy,
	.start = meta_op_start,
	.suspect = suspect,
	.suspect_page = suspect_page,
};

/* ---- making and ending ----------------------------------------------------- */

int meta_create(struct meta **out, const struct meta_conf *conf)
{
	struct meta *m;
	int err;

	if (meta_conf_problem(conf) || (uintptr_t)conf->memory % META__BLOCK || !conf->memory ||
	    conf->memory_bytes < meta_memory_needed(conf))
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->conf = *conf;
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		m->domain[d] = (uint8_t)conf->drive[d].domain;
		m->mates[d] = 1ull << d;
	}
	m->copies = max_u32(conf->copies, 1); /* a mount takes the store's */
	m->fold = conf->fold;
	m->rows = &meta__op_rows;
	m->above = &above;
	m->mem_next = conf->memory;
	list_init(&m->io_wanted);
	m->shard = calloc(META_SHARDS_MAX, sizeof(*m->shard));
	err = m->shard ? 0 : -ENOMEM;
	for (size_t i = 0; !err && i < ARRAY_LEN(modules); i++)
		err = modules[i].create(m);
	if (err) {
		meta_destroy(m);
		return err;
	}
	ASSERT((uint64_t)(m->mem_next - (uint8_t *)conf->memory) ==
	       meta_memory_needed(conf)); /* (1) */
	*out = m;
	return 0;
}

void meta_destroy(struct meta *m)
{
	ASSERT(!m->scrub); /* it goes before its store: meta_scrub_create() */
	for (size_t i = ARRAY_LEN(modules); i-- > 0;)
		modules[i].destroy(m); /* each knows that it may not have been made */
	meta__share_destroy(m);
	free(m->shard);
	free(m);
}

const char *meta_error(const struct meta *m)
{
	return m->error[0] ? m->error : m->boot->note;
}

/* ---- I/O ------------------------------------------------------------------- */

/* No drive takes new blocks any more. */
static bool none_takes(const struct meta *m)
{
	ASSERT(m->mounted);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		if (meta__drive_takes(m, d))
			return false;
	return true;
}

/* Nothing new is put there. */
static wk_cold void drive_died(struct meta *m, uint32_t drive)
{
	ASSERT(drive < META_DRIVES_MAX);
	if (m->dead >> drive & 1 || meta__drive_lose(m, drive))
		return;
	m->dead |= 1ull << drive;
	if (!m->mounted)
		return;
	meta__supply_shut(m, drive);
	if (!none_takes(m))
		return;
	meta__error(m, "drive %u failed, and no other one takes new blocks", drive);
	meta__fail(m); /* (3) */
}

void meta_io_done(struct meta *m, struct meta_io *io)
{
	struct meta__io *x;

	if (unlikely(io->status && io->gone))
		drive_died(m, io->drive);
	x = meta__io_back(m, io);
	if (!x)
		return;
	switch (x->kind) {
	case META__IO_PAGE_READ:
		meta__cache_io_done(m, x);
		return;
	case META__IO_PAGE_WRITE:
	case META__IO_CKPT:
		meta__ckpt_io_done(m, x);
		return;
	case META__IO_LOG:
		meta__log_io_done(m, x);
		return;
	case META__IO_ZONE:
		meta__zone_io_done(m, x);
		return;
	case META__IO_BOOT:
		meta__boot_io_done(m, x);
		return;
	case META__IO_COLLECT:
		meta__collect_io_done(m, x);
		return;
	case META__IO_CHECK:
		meta__check_io_done(m, x);
		return;
	case META__IO_GC:
		meta__gc_io_done(m, x);
		return;
	case META__IO_FOLD:
		meta__folder_io_done(m, x);
		return;
	case META__IO_DEALLOCATE:
		meta__deallocate_io_done(m, x);
		return;
	}
	UNREACHABLE();
}

/* ---- turning --------------------------------------------------------------- */

/* Is every change in a durable root? */
static bool is_rooted(const struct meta *m)
{
	for (uint32_t s = 0; s < m->nshards; s++)
		if (m->shard[s].changed || m->shard[s].seq != m->shard[s].durable_seq)
			return false;
	return !meta__ckpt_running(m);
}

/* ... and does the log say so? */
static bool is_settled(const struct meta *m)
{
	return is_rooted(m) && meta__log_quiet(m) && meta__gc_idle(m) && meta__collect_idle(m) &&
	       meta__deallocate_idle(m) && meta__folder_idle(m) && !m->boot->adding;
}

void meta_stop_start(struct meta *m)
{
	ASSERT(!m->home);
	m->stopping = true;
}

int meta_stop_status(const struct meta *m)
{
	if (m->failed)
		return m->failed;
	return m->stopping && is_settled(m) ? 0 : -EAGAIN;
}

/* Frees what all readers have left. */
static bool share_turn(struct meta *m)
{
	bool more = false;

	ASSERT(m->share);
	ASSERT(m->lend);
	meta__share_turn(m);
	if (m->mounted)
		more = meta__cache_turn(m);
	if (meta__ops_stalled(m)) /* perhaps until a reader's read ends, of which no event tells */
		more |= !list_empty(&m->zones->leaving);
	return more;
}

/* Counts again what counters say, in variants that look for our own mistakes. */
static void self_check(struct meta *m)
{
#ifdef WK_DEBUG
	if (m->self_check++ % SELF_CHECK_TURNS)
		return;
	if (m->mounted) {
		meta__zones_check(m);
		meta__cache_check(m);
		meta__log_check(m);
		meta__share_check(m);
		meta__receipts_check(m);
		meta__collect_check(m);
		meta__gc_check(m);
	}
	meta__ops_check(m);
#else
	(void)m;
#endif
}

bool meta_turn(struct meta *m)
{
	bool more = m->mounted ? meta__drives_turn(m) : meta__boot_turn(m);

	ASSERT(!m->home);
	if (unlikely(m->share))
		more |= share_turn(m);
	more |= meta__ops_turn(m);
	if (m->mounted) {
		more |= meta__collect_turn(m);
		more |= meta__gc_turn(m);
		more |= meta__folder_turn(m);
		more |= meta__check_turn(m);
	}
	/* Not for the log's sake: each that carries receipts over has more to say in it. */
	if (m->stopping && !m->failed && !meta__ckpt_running(m) && !is_rooted(m))
		meta__ckpt_want(m);
	more |= meta__ckpt_turn(m);
	more |= meta__log_turn(m); /* (2); operations that waited for room may run again */
	meta__zone_turn(m);
	meta__deallocate_turn(m); /* after all that wanted a zone in this turn */
	if (unlikely(m->share)) {
		more |= meta__lend_turn(m);
		more |= meta__share_more(m);
	}
	self_check(m);
	return more || meta__log_more(m);
}
