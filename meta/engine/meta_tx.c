/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The transaction: a plan's reads, and the changes that it wants.  There is one at a time.
 *
 *   meta__tx_begin -> get, seek, put, del ... -> meta__tx_ready -> meta__tx_apply
 *        ^                     | META__MISSES: a page is missing       |
 *        +---------------------+   (the plan runs again later)         +-> one log record,
 *                                                                          pages dirty
 * Invariants:
 *
 *  (1) Nothing outside of the transaction changes before meta__tx_apply(), and then nothing that it
 *      needs can be missing: this plan has walked every path to be changed, which stays in
 *      memory until the next one begins, and meta__tx_ready() has counted frames, page
 *      addresses and log bytes for the worst case.
 *  (2) Each key is wanted once: a later put or delete of a key replaces the earlier.
 *  (3) All changes of a transaction are one log record, whatever shards they touch
 *      [test_meta_tx:is_one_log_record_whatever_shards_it_touches].
 */
#include "meta/engine/meta_fresh.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tx.h"
#include "meta/meta_store.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEEK_AHEAD 7u /* leaves that are read together with the next one of a seek */
#define SEEK_STEPS 6u /* records that a seek checks after the last: usually of one name */
#define SEEK_FETCH 4u /* records further on, of one or two names, that are asked for */

uint64_t meta__tx_memory(const struct meta_conf *c)
{
	(void)c;
	return 0;
}

int meta__tx_create(struct meta *m)
{
	m->tx = calloc(1, sizeof(*m->tx));
	return m->tx ? 0 : -ENOMEM;
}

void meta__tx_destroy(struct meta *m)
{
	free(m->tx);
	m->tx = NULL;
}

void meta__tx_forget(struct meta__tx *tx)
{
	tx->drives_mask = tx->lone_mask = 0;
	tx->nmut = tx->nleaf = tx->nshard = 0;
	tx->clean = (struct meta__page_need){ 0 };
	tx->buffer_used = 0;
	tx->touch = false;
	tx->seek_baddr = 0;
}

void meta__tx_begin(struct meta *m, struct meta_op *op)
{
	struct meta__tx *tx = m->tx;

	ASSERT(op);
	meta__tx_forget(tx);
	tx->op = op;
	tx->logged = true;
	tx->seen = 0;
	m->cache->away = false;
	meta__cache_plan(m);
}

uint64_t meta__tx_seen(const struct meta *m)
{
	return m->tx->seen;
}

void meta__tx_saw(struct meta *m, uint64_t seq)
{
	m->tx->seen = max_u64(m->tx->seen, seq);
}

uint32_t meta__tx_wanted(const struct meta *m)
{
	return m->tx->nmut;
}

/* ---- reading --------------------------------------------------------------------------- */

static int find_mut(const struct meta__tx *tx, uint32_t shard, const struct meta_key *key)
{
	DASSERT(tx->nmut <= META__TX_RECORDS_MAX);
	for (uint32_t i = tx->nmut; i-- > 0;)
		if (tx->mut[i].shard == shard && meta__key_cmp(&tx->mut[i].key, key) == 0)
			return (int)i;
	return -1;
}

/* The records from key to last, as far as there are any, in pages whose last change was `seq`. */
static void saw(struct meta *m, uint32_t shard, const struct meta_key *key,
		const struct meta_key *last, uint64_t seq)
{
	struct meta__tx *tx = m->tx;

	if (seq > tx->seen)
		tx->seen = max_u64(tx->seen, meta__fresh_seq(m, shard, key, last, seq));
}

/* Reads the leaf of key for a search up to last; -ENOENT: the shard is empty. */
static int see_leaf(struct meta *m, uint32_t shard, const struct meta_key *key,
		    const struct meta_key *last, struct meta__hint **hint)
{
	struct meta__tx *tx = m->tx;
	int err = meta__tree_leaf(m, tx->op, shard, key, hint);

	if (err == 0)
		saw(m, shard, key, last, (*hint)->path.seq);
	else if (err == -ENOENT)
		tx->seen = max_u64(tx->seen, m->shard[shard].empty_seq);
	return err;
}

static void looked_at(struct meta__tx *tx, uint32_t shard, struct meta__frame *leaf, uint32_t pos)
{
	DASSERT(leaf->level == 0);
	DASSERT(pos < meta__page_count(leaf->page));
	tx->seek_baddr = meta__frame_baddr(leaf);
	tx->seek_leaf = leaf;
	tx->seek_shard = shard;
	tx->seek_pos = pos;
}

/* Usually the record after the one read last: an inode after its name, an extent after its inode.
 * The leaf stays the same within a plan. */
static bool is_next(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	struct meta__tx *tx = m->tx;
	struct meta_key at;

	if (!tx->seek_baddr || tx->seek_shard != shard ||
	    tx->seek_pos + 1 >= meta__page_count(tx->seek_leaf->page))
		return false;
	at = meta__leaf_key(tx->seek_leaf->page, tx->seek_pos + 1);
	if (meta__key_cmp(&at, key) != 0)
		return false;
	saw(m, shard, key, key, meta__frame_seq(tx->seek_leaf));
	tx->seek_pos++;
	return true;
}

/* Or the remembered place.  Its last change is in its leaf's seq, wherever the leaf is. */
static bool is_known(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	struct meta__tx *tx = m->tx;
	uint32_t pos;
	struct meta__frame *f = meta__found_look(m, key, &pos);

	if (!f || !meta__may_look(m, shard) || !meta__found_holds(f, pos, shard, key))
		return false;
	meta__cache_mark(m, f);
	saw(m, shard, key, key, meta__frame_seq(f));
	looked_at(tx, shard, f, pos);
	return true;
}

/* The same of a name, by the first key of its hash. */
static bool is_named(struct meta *m, uint32_t shard, const struct meta_key *key,
		     const struct meta_key *last)
{
	struct meta__tx *tx = m->tx;
	uint32_t pos;
	struct meta__frame *f = meta__named_look(m, key, &pos);

	if (!f || !meta__may_look(m, shard) || !meta__named_holds(f, pos, shard, key))
		return false;
	meta__cache_mark(m, f);
	saw(m, shard, key, last, meta__frame_seq(f));
	looked_at(tx, shard, f, pos);
	return true;
}

static int walk_to(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	struct meta__hint *hint;
	int err = see_leaf(m, shard, key, key, &hint);

	if (err)
		return err;
	if (!meta__leaf_find_near(hint->leaf->page, key, &hint->pos))
		return -ENOENT;
	looked_at(m->tx, shard, hint->leaf, hint->pos);
	meta__found_note(m, hint->leaf, hint->pos, key);
	return 0;
}

int meta__tx_get(struct meta *m, uint32_t shard, const struct meta_key *key, const void **value,
		 uint32_t *value_len)
{
	struct meta__tx *tx = m->tx;
	int i = tx->nmut > 0 ? find_mut(tx, shard, key) : -1, err;

	DASSERT(shard < m->nshards);
	DASSERT(tx->op);
	if (i >= 0) {
		if (tx->mut[i].del)
			return -ENOENT;
		*value = tx->mut[i].value;
		*value_len = tx->mut[i].value_len;
		return 0;
	}
	if (!is_next(m, shard, key) && !is_known(m, shard, key)) {
		err = walk_to(m, shard, key);
		if (err)
			return err;
	}
	meta__leaf_value(tx->seek_leaf->page, tx->seek_pos, value, value_len);
	return 0;
}

/* A listing continues from record to record: the first that is not below key is one of the next few
 * of that leaf.  Prefetches later ones: values are in the order of their creation. */
static bool is_ahead(struct meta *m, uint32_t shard, const struct meta_key *key,
		     const struct meta_key *last)
{
	struct meta__tx *tx = m->tx;
	const void *page;
	struct meta_key at;
	uint32_t pos, end;

	if (!tx->seek_baddr || tx->seek_shard != shard)
		return false;
	page = tx->seek_leaf->page;
	at = meta__leaf_key(page, tx->seek_pos);
	if (meta__key_cmp(&at, key) >= 0)
		return false;
	end = min_u32(meta__page_count(page), tx->seek_pos + 1 + SEEK_STEPS);
	for (pos = tx->seek_pos + 1; pos < end; pos++) {
		at = meta__leaf_key(page, pos);
		if (meta__key_cmp(&at, key) >= 0)
			break;
	}
	if (pos == end)
		return false;
	saw(m, shard, key, last, meta__frame_seq(tx->seek_leaf));
	tx->seek_pos = pos;
	if (pos + SEEK_FETCH < meta__page_count(page))
		meta__leaf_ahead(page, pos + SEEK_FETCH);
	return true;
}

/* Returns the position of the first record >= key in the leaf, usually the one after the last. */
static uint32_t seek_in_leaf(const struct meta__tx *tx, struct meta__hint *hint, uint32_t shard,
			     const struct meta_key *key)
{
	if (tx->seek_baddr == hint->baddr && tx->seek_shard == shard)
		hint->pos = tx->seek_pos;
	(void)meta__leaf_find_near(hint->leaf->page, key, &hint->pos);
	return hint->pos;
}

/* The first record >= key is then the one at tx->seek_pos of tx->seek_leaf. */
static int seek_to(struct meta *m, uint32_t shard, struct meta_key *key,
		   const struct meta_key *last)
{
	struct meta__tx *tx = m->tx;
	struct meta__hint *hint;
	uint32_t pos;
	int err;

	/* No leaf is empty: the record is in the leaf of key or in the next one. */
	for (uint32_t leaves = 0; leaves < 2; leaves++) {
		err = see_leaf(m, shard, key, last, &hint);
		if (err == META__MISSES && tx->seek_baddr && tx->seek_shard == shard)
			meta__tree_ahead(m, shard, key,
					 SEEK_AHEAD); /* it came from a leaf before */
		if (err)
			return err;
		pos = seek_in_leaf(tx, hint, shard, key);
		if (pos < meta__page_count(hint->leaf->page)) {
			looked_at(tx, shard, hint->leaf, pos);
			meta__named_note(m, hint->leaf, pos, key);
			meta__leaf_ahead(hint->leaf->page, pos);
			return 0;
		}
		if (!hint->path.has_hi || meta__key_cmp(&hint->path.hi, last) > 0)
			return -ENOENT;
		*key = hint->path.hi;
	}
	meta__error(m, "shard %u has a leaf without records", shard);
	return -EIO;
}

int meta__tx_seek(struct meta *m, uint32_t shard, struct meta_key *key, const struct meta_key *last,
		  const void **value, uint32_t *value_len)
{
	const struct meta__tx *tx = m->tx;

	DASSERT(shard < m->nshards);
	DASSERT(tx->op);
	DASSERT(meta__key_cmp(key, last) <= 0);
	if (!is_ahead(m, shard, key, last) && !is_named(m, shard, key, last)) {
		int err = seek_to(m, shard, key, last);

		if (err)
			return err;
	}
	*key = meta__leaf_key(tx->seek_leaf->page, tx->seek_pos);
	meta__leaf_value(tx->seek_leaf->page, tx->seek_pos, value, value_len);
	return 0;
}

bool meta__tx_leaf(struct meta *m, uint32_t shard, const struct meta_key *key,
		   struct meta__leaf_seen *out)
{
	struct meta__hint *hint;

	if (meta__tree_leaf(m, m->tx->op, shard, key, &hint))
		return false;
	*out = (struct meta__leaf_seen){ .page = hint->leaf->page,
					 .seq = hint->path.seq,
					 .lo = hint->path.lo,
					 .hi = hint->path.hi,
					 .has_hi = hint->path.has_hi };
	return out->seq < META_SEEN_MADE;
}

bool meta__tx_was_away(struct meta *m)
{
	const bool away = m->cache->away;

	m->cache->away = false;
	return away;
}

bool meta__tx_away(struct meta *m, uint32_t shard, const struct meta_key *key,
		   struct meta__away *out)
{
	struct meta__path path;
	const int err = meta__tree_walk(m, m->tx->op, shard, key, 0, &path);

	*out = (struct meta__away){ path.hi, path.has_hi };
	return meta__tx_was_away(m) && err == -EIO;
}

/* ---- wanting to change ------------------------------------------------------------------- */

struct meta__tx_shard *meta__tx_shard_of(struct meta__tx *tx, uint32_t shard)
{
	for (uint32_t i = 0; i < tx->nshard; i++)
		if (tx->shard[i].shard == shard)
			return &tx->shard[i];
	ASSERT(tx->nshard < META__TX_RECORDS_MAX);
	tx->shard[tx->nshard] = (struct meta__tx_shard){ .shard = shard };
	return &tx->shard[tx->nshard++];
}

/* The pages of a path that are not dirty yet will be: count each once. */
void meta__tx_count_path(struct meta *m, const struct meta__path *path, uint32_t level)
{
	DASSERT(path->height <= META_PAGE_LEVELS_MAX);
	for (uint32_t l = level; l < path->height; l++) {
		struct meta__frame *f = path->at[l].frame;

		if (meta__frame_state(f) == FRAME_DIRTY || f->counted == m->cache->plan)
			continue;
		f->counted = m->cache->plan;
		*(l ? &m->tx->clean.uppers : &m->tx->clean.leaves) += 1;
	}
}

/* The leaf of key as one that this transaction changes. */
static int change_leaf(struct meta *m, uint32_t shard, const struct meta_key *key,
		       struct meta__tx_leaf **out)
{
	struct meta__tx *tx = m->tx;
	struct meta__tx_leaf *leaf;
	struct meta__hint *hint;
	int err;

	for (uint32_t i = 0; i < tx->nleaf; i++) {
		leaf = &tx->leaf[i];
		if (leaf->shard == shard && meta__key_cmp(&leaf->lo, key) <= 0 &&
		    (!leaf->has_hi || meta__key_cmp(key, &leaf->hi) < 0)) {
			*out = leaf;
			return 0;
		}
	}
	err = meta__tree_path(m, tx->op, shard, key, &hint);
	if (err && err != -ENOENT)
		return err;
	/* Only open to us: nothing of it is ours to write, not even counts. */
	if (unlikely(m->home) && m->shard[shard].turn != m->turn)
		return META__MISSES;
	DASSERT(tx->nleaf < META__TX_RECORDS_MAX);
	leaf = &tx->leaf[tx->nleaf++];
	*leaf = (struct meta__tx_leaf){ .shard = shard }; /* of an empty tree: all keys */
	if (err == 0) {
		leaf->frame = hint->leaf;
		leaf->pos = hint->pos;
		leaf->lo = hint->path.lo;
		leaf->hi = hint->path.hi;
		leaf->has_hi = hint->path.has_hi;
		if (meta__frame_state(hint->leaf) != FRAME_DIRTY) /* else all of the path is */
			meta__tx_count_path(m, &hint->path, 0);
	}
	*out = leaf;
	return 0;
}

/* Note a change in its leaf; *existed: the tree has the key. */
static int change(struct meta *m, const struct meta__mut *mut, bool *existed)
{
	uint32_t bytes = meta__leaf_bytes(mut->value_len), old_bytes = 0, len;
	struct meta__tx_leaf *leaf = NULL;
	const void *value;
	int err = change_leaf(m, mut->shard, &mut->key, &leaf);

	DASSERT(!mut->del || mut->value_len == 0);
	if (err)
		return err;
	*existed = leaf->frame && meta__leaf_find_near(leaf->frame->page, &mut->key, &leaf->pos);
	if (*existed) {
		meta__leaf_value(leaf->frame->page, leaf->pos, &value, &len);
		old_bytes = meta__leaf_bytes(len);
	}
	if (mut->del) {
		leaf->shrink_bytes += old_bytes;
	} else {
		leaf->puts++;
		leaf->grow_bytes += bytes > old_bytes ? bytes - old_bytes : 0;
		leaf->shrink_bytes += bytes < old_bytes ? old_bytes - bytes : 0;
	}
	return 0;
}

int meta__tx_want(struct meta *m, const struct meta__mut *mut)
{
	struct meta__tx *tx = m->tx;
	int i = find_mut(tx, mut->shard, &mut->key), err;
	bool existed = false;

	if (i < 0 && tx->nmut == META__TX_RECORDS_MAX)
		return -E2BIG;
	/* Receipts are kept in the log only, never in the tree. */
	err = meta__key_class(&mut->key) == META__CLASS_RECEIPT ? 0 : change(m, mut, &existed);
	if (err)
		return err;
	meta__tx_shard_of(tx, mut->shard)->put = true;
	if (i < 0) {
		i = (int)tx->nmut++;
		tx->existed[i] = existed;
	}
	tx->mut[i] = *mut;
	DASSERT(find_mut(tx, mut->shard, &mut->key) == i); /* (2) */
	return 0;
}

int meta__tx_put(struct meta *m, uint32_t shard, const struct meta_key *key, const void *value,
		 uint32_t value_len)
{
	struct meta__tx *tx = m->tx;
	const struct meta__mut mut = {
		.shard = shard,
		.key = *key,
		.value = tx->buffer + tx->buffer_used,
		.value_len = value_len,
	};

	ASSERT(value_len <= META_VALUE_MAX);
	if (tx->buffer_used + value_len > META__TX_BUFFER_BYTES)
		return -E2BIG;
	if (value_len > 0)
		memcpy(tx->buffer + tx->buffer_used, value, value_len);
	tx->buffer_used += (uint32_t)align_up(value_len, 8);
	DASSERT(tx->buffer_used <= META__TX_BUFFER_BYTES);
	return meta__tx_want(m, &mut);
}

int meta__tx_del(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	const struct meta__mut mut = { .shard = shard, .del = true, .key = *key };

	return meta__tx_want(m, &mut);
}

int meta__tx_live(struct meta *m, uint32_t shard, uint64_t baddr, int64_t nblocks)
{
	const struct meta_key key = meta__zone_key(m, meta__zone_of(m, baddr));
	const void *value;
	uint32_t len;
	int64_t live = 0;
	le64 disk;
	int err = meta__tx_get(m, shard, &key, &value, &len);

	if (err && err != -ENOENT)
		return err;
	if (err == 0 && len == sizeof(disk)) {
		memcpy(&disk, value, sizeof(disk));
		live = (int64_t)le64_get(disk);
	}
	live += nblocks;
	if (live < 0) { /* a record that was wrong on the drive: not ours to hide */
		meta__error(m, "shard %u, zone %u: more blocks die than lived", shard,
			    meta__zone_of(m, baddr));
		return -EIO;
	}
	if (live == 0)
		return meta__tx_del(m, shard, &key);
	disk = le64_of((uint64_t)live);
	return meta__tx_put(m, shard, &key, &disk, sizeof(disk));
}

uint64_t meta__tx_uniq(struct meta *m, uint32_t shard)
{
	DASSERT(shard < m->nshards);
	return max_u64(m->shard[shard].uniq_next, 1) + meta__tx_shard_of(m->tx, shard)->uniq++;
}

/* Directory 0 is the store's own, 1 the root: no shard gives these out. */
uint64_t meta__tx_dir(struct meta *m, uint32_t shard)
{
	uint64_t next = max_u64(m->shard[shard].dir_next, META_ROOT_DIR + 1);

	DASSERT(shard < m->nshards);
	return (uint64_t)shard << 36 | (next + meta__tx_shard_of(m->tx, shard)->dir++);
}

void meta__tx_data(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	/* a borrower asks the table of all cores */
	const struct meta_twins *t = m->home ? &m->home->zones->twins : &m->zones->twins;

	DASSERT(nruns == 0 || runs);
	for (uint32_t i = 0; i < nruns; i++) {
		uint64_t twin = runs[i].baddr ? meta_twin_of(t, runs[i].baddr) : 0;
		const uint64_t drive = 1ull << META_BADDR_DRIVE(runs[i].baddr) % 64;

		if (!runs[i].baddr)
			continue;
		m->tx->drives_mask |= drive;
		if (!twin)
			m->tx->lone_mask |= drive;
		for (; twin; twin = meta_twin_of(t, twin))
			m->tx->drives_mask |= 1ull << META_BADDR_DRIVE(twin) % 64;
	}
}
