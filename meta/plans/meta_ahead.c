/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Looking ahead: a large index is mostly in memory that the CPU's caches do not hold, and a lookup
 * is a chain of cache misses, each found through the one before.  A caller with many lookups
 * fetches the first link of all of them, then the second of all, and so on: the misses of all
 * chains overlap.
 *
 *   NAMED --known--> KNOWN (frame, header, slots) --still valid?--> VALUES (checksum)
 *      |                                               no: the plan walks
 *      `--not--> BUCKET (interior pages are hot) -> FRAME -> ENDS -> SLOTS -> VALUES
 *
 * A link names what has been prefetched, and must be read next.
 *
 * This code changes nothing, reads from no drive, and need not succeed.
 */
#include "meta/plans/meta_plan.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tree.h"

#include <string.h>

static_assert(sizeof(((struct meta_ahead *)0)->key) == sizeof(struct meta_key), "the same words");

enum link {
	LINK_NONE,   /* nothing more to ask for                           */
	LINK_NAMED,  /* where the name was found last                     */
	LINK_KNOWN,  /* the record, where it was found last               */
	LINK_BUCKET, /* of the hash, where the leaf's frame stands        */
	LINK_FRAME,  /* it, or another that stands there, and its header  */
	LINK_ENDS,   /* the leaf's first slot and its last                */
	LINK_SLOTS,  /* those about where the key must be                 */
	LINK_VALUES, /* the record: all but a checksum is here            */
};

/* Returns the address of the leaf for key, if all pages above it are in memory; 0: not known. */
static uint64_t leaf_at(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	uint64_t baddr, gen;

	DASSERT(shard < m->nshards);
	if (!meta__may_look(m, shard) || m->shard[shard].height == 0)
		return 0;
	baddr = m->shard[shard].root_baddr;
	for (uint32_t level = m->shard[shard].height - 1; level > 0; level--) {
		const struct meta__frame *f = meta__cache_find(m, baddr);

		if (!f)
			return 0;
		meta__inner_child(f->page, meta__inner_find(f->page, key), &baddr, &gen);
	}
	return baddr;
}

/* The leaf and the slot of the first record that is not below key; NULL: not known. */
static const struct meta__frame *find_name(struct meta *m, uint32_t shard,
					   const struct meta_key *key, uint32_t *pos)
{
	const struct meta__frame *f = meta__named_look(m, key, pos);
	uint64_t baddr;

	if (f && meta__may_look(m, shard) && meta__named_holds(f, *pos, shard, key))
		return f;
	baddr = leaf_at(m, shard, key);
	f = baddr ? meta__cache_find(m, baddr) : NULL;
	if (!f)
		return NULL;
	DASSERT(f->level == 0);
	(void)meta__leaf_find(f->page, key, pos);
	meta__named_note(m, f, *pos, key);
	return *pos < meta__page_count(f->page) ? f : NULL;
}

/* The directory called name in dir; 0: not known without waiting. */
static uint64_t child_of(struct meta *m, uint64_t of, const char *name, uint32_t len)
{
	const uint64_t hash = meta__name_hash(m, of, name, len);
	const uint64_t dir = meta__spread_known(m, of) ? meta__fragment_of(of, hash) : of;
	struct meta_key key = meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0), at;
	const void *value;
	struct meta__name is;
	uint32_t pos, value_len;
	const struct meta__frame *f = find_name(m, meta__dir_shard(m, dir), &key, &pos);

	DASSERT(of != 0);
	DASSERT(len > 0);
	if (!f)
		return 0;
	at = meta__leaf_key(f->page, pos);
	if (meta__key_dir(&at) != dir || meta__key_hash(&at) != hash ||
	    meta__key_class(&at) != META__CLASS_NAME)
		return 0;
	meta__leaf_value(f->page, pos, &value, &value_len);
	return meta__name_parse(&at, value, value_len, &is) ? 0 : is.child;
}

/* Starts a chain for the extent of a handle.  The inode of a small file is just before it; that of
 * a large one is hot. */
static void begin_handle(struct meta *m, const struct meta_target *t, uint64_t offset,
			 struct meta_ahead *a)
{
	const struct meta_key key =
		meta__key(t->handle.dir, t->handle.hash, META__CLASS_OBJ, t->handle.uniq,
			  META__KIND_EXTENT, offset / (META_CHUNK_BLOCKS * (uint64_t)BLOCK_SIZE));

	DASSERT(!t->path);
	memcpy(a->key, key.w, sizeof(a->key));
	a->shard = meta__dir_shard(m, t->handle.dir);
	/* Those of the first few blocks come with the record's own lines. */
	a->block = (uint32_t)(offset / BLOCK_SIZE % META_CHUNK_BLOCKS);
	if (!meta__may_look(m, a->shard))
		return;
	a->frame = meta__found_look(m, &key, &a->pos);
	if (a->frame) {
		meta__cache_fetch(m, a->frame, meta__leaf_slot_at(a->pos));
		a->link = LINK_KNOWN;
		return;
	}
	a->baddr = leaf_at(m, a->shard, &key);
	if (a->baddr)
		meta__cache_fetch_bucket(m, a->baddr);
	a->link = a->baddr ? LINK_BUCKET : LINK_NONE;
}

static void begin_name(struct meta *m, const struct meta_target *t, struct meta_ahead *a)
{
	const char *name = t->path, *end = name + t->path_len, *slash;
	uint64_t dir = t->dir, hash;
	struct meta_key key;

	DASSERT(t->path);
	if (name < end && *name == '/')
		dir = META_ROOT_DIR;
	for (; dir && (slash = memchr(name, '/', (size_t)(end - name))); name = slash + 1)
		if (slash > name)
			dir = child_of(m, dir, name, (uint32_t)(slash - name));
	if (!dir || name == end || end - name > META_NAME_MAX)
		return;
	hash = meta__name_hash(m, dir, name, (uint32_t)(end - name));
	if (meta__spread_known(m, dir))
		dir = meta__fragment_of(dir, hash);
	key = meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	memcpy(a->key, key.w, sizeof(a->key));
	a->shard = meta__dir_shard(m, dir);
	meta__named_fetch(m, &key);
	a->link = LINK_NAMED;
}

void meta_ahead_begin(struct meta *m, const struct meta_target *t, uint64_t offset,
		      struct meta_ahead *a)
{
	*a = (struct meta_ahead){ .meta = m };
	if (!m->mounted)
		return;
	if (t->path)
		begin_name(m, t, a);
	else
		begin_handle(m, t, offset, a);
}

/* ---- links --------------------------------------------------------------------------- */

static uint32_t named(struct meta_ahead *a, const struct meta_key *key)
{
	struct meta *m = a->meta;

	DASSERT(a->link == LINK_NAMED);
	if (!meta__may_look(m, a->shard))
		return LINK_NONE;
	a->frame = meta__named_look(m, key, &a->pos);
	if (a->frame) {
		meta__cache_fetch(m, a->frame, meta__leaf_slot_at(a->pos));
		meta__cache_fetch(m, a->frame, meta__leaf_slot_at(a->pos + 1));
		return LINK_KNOWN;
	}
	a->baddr = leaf_at(m, a->shard, key);
	if (!a->baddr)
		return LINK_NONE;
	meta__cache_fetch_bucket(m, a->baddr);
	return LINK_BUCKET;
}

/* Finds the record of a handle's read, or of a name followed by its inode and first extent. */
static uint32_t known(const struct meta_ahead *a, const struct meta_key *key)
{
	const struct meta__frame *f = a->frame;
	const void *value;
	uint32_t value_len;

	DASSERT(a->link == LINK_KNOWN);
	DASSERT(f);
	if (meta__key_class(key) == META__CLASS_NAME) {
		if (meta__named_holds(f, a->pos, a->shard, key))
			meta__leaf_ahead(f->page, a->pos);
		return LINK_NONE;
	}
	if (!meta__found_holds(f, a->pos, a->shard, key))
		return LINK_NONE; /* the plan will walk */
	meta__leaf_value(f->page, a->pos, &value, &value_len);
	__builtin_prefetch(value);
	__builtin_prefetch((const char *)value + 64);
	return LINK_VALUES;
}

static uint32_t slots(struct meta_ahead *a, const struct meta_key *key)
{
	const struct meta__frame *f = a->frame;

	DASSERT(a->link == LINK_SLOTS);
	DASSERT(f);
	a->pos = meta__leaf_fetch(f->page, key, 2);
	meta__found_note(a->meta, f, a->pos, key);
	meta__named_note(a->meta, f, a->pos, key);
	return LINK_VALUES;
}

/* Fetches the checksum's line of a record in cache or on its way.  The record is not checked yet:
 * it only selects the line of its page to prefetch. */
static void fetch_checksum(const struct meta_ahead *a)
{
	const void *leaf = ((const struct meta__frame *)a->frame)->page, *value;
	const struct meta_extent_disk *d;
	uint32_t value_len, at;

	DASSERT(a->link == LINK_VALUES);
	DASSERT(a->block < META_CHUNK_BLOCKS);
	if (a->block == 0 || a->pos >= meta__page_count(leaf))
		return;
	meta__leaf_value(leaf, a->pos, &value, &value_len);
	if (value_len < sizeof(*d))
		return;
	d = value;
	at = (uint32_t)sizeof(*d) + le16_get(d->nruns) * (uint32_t)sizeof(struct meta_run_disk) +
	     a->block * (uint32_t)sizeof(le32);
	if (at < value_len)
		__builtin_prefetch((const char *)value + at);
}

/* Reads the link that has arrived, prefetches the next. */
static uint32_t follow(struct meta_ahead *a)
{
	struct meta__frame *f = a->frame;
	struct meta_key key;

	memcpy(key.w, a->key, sizeof(a->key));
	switch ((enum link)a->link) {
	case LINK_NONE:
		return LINK_NONE;
	case LINK_NAMED:
		return named(a, &key);
	case LINK_KNOWN:
		return known(a, &key);
	case LINK_BUCKET:
		return meta__cache_fetch_frame(a->meta, a->baddr) ? LINK_FRAME : LINK_NONE;
	case LINK_FRAME:
		a->frame = meta__cache_find(a->meta, a->baddr);
		if (!a->frame)
			return LINK_NONE;
		f = a->frame;
		(void)meta__leaf_fetch(f->page, &key, 0);
		return LINK_ENDS;
	case LINK_ENDS:
		a->pos = meta__leaf_fetch(f->page, &key, 1);
		return LINK_SLOTS;
	case LINK_SLOTS:
		return slots(a, &key);
	case LINK_VALUES:
		fetch_checksum(a);
		return LINK_NONE;
	}
	UNREACHABLE();
}

void meta_ahead_run(struct meta_ahead *a, uint32_t count)
{
	bool more = true;
	uint32_t was;

	while (more) {
		more = false;
		for (uint32_t i = 0; i < count; i++) {
			if (a[i].link == LINK_NONE)
				continue;
			was = a[i].link;
			a[i].link = follow(&a[i]);
			DASSERT(a[i].link == LINK_NONE || a[i].link > was); /* so it ends */
			more |= a[i].link != LINK_NONE;
		}
	}
}
