/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Looking ahead: an index of any size lies mostly in memory that the CPU's caches do not hold,
 * and a lookup is a chain of cold lines, each found through the one before.  Who has many
 * lookups to do asks for the first link of all of them, then for the second of all, and so on:
 * the chains are waited for together.
 *
 * Nothing here changes anything, reads from a drive, or must succeed.
 */
#include "meta/meta_plan.h"
#include "meta/meta_share.h"
#include "meta/meta_tree.h"

#include <string.h>

static_assert(sizeof(((struct meta_ahead *)0)->key) == sizeof(struct meta_key), "the same words");

/* The leaf for key, when all on the way to it is in memory; only its address is looked at. */
static struct meta__frame *leaf_of(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	uint64_t baddr, gen;
	struct meta__frame *f = NULL;

	if (!meta__may_look(m, shard) || m->shard[shard].height == 0)
		return NULL;
	baddr = m->shard[shard].root_baddr;
	for (uint32_t level = m->shard[shard].height; level > 0; level--) {
		if (f)
			meta__inner_child(f->page, meta__inner_find(f->page, key), &baddr, &gen);
		f = meta__cache_find(m, baddr);
		if (!f)
			return NULL;
	}
	return f;
}

/* The directory called name in dir; 0: not known without waiting. */
static uint64_t child_of(struct meta *m, uint64_t dir, const char *name, uint32_t len)
{
	uint64_t hash = meta__name_hash(m, dir, name, len);
	struct meta_key key = meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0), at;
	const struct meta__frame *f = leaf_of(m, meta__dir_shard(m, dir), &key);
	const void *leaf, *value;
	struct meta__name is;
	uint32_t pos, value_len;

	if (!f)
		return 0;
	leaf = f->page;
	(void)meta__leaf_find(leaf, &key, &pos);
	if (pos >= meta__page_count(leaf))
		return 0;
	at = meta__leaf_key(leaf, pos);
	if (meta__key_dir(&at) != dir || meta__key_hash(&at) != hash ||
	    meta__key_class(&at) != META__CLASS_NAME)
		return 0;
	meta__leaf_value(leaf, pos, &value, &value_len);
	return meta__name_parse(value, value_len, &is) ? 0 : is.child;
}

void meta_ahead_begin(struct meta *m, const struct meta_target *t, uint64_t offset,
		      struct meta_ahead *a)
{
	const char *name = t->path, *end = name + t->path_len, *slash;
	uint64_t dir = t->dir;
	struct meta__frame *f;
	struct meta_key key;

	*a = (struct meta_ahead){ .meta = m };
	if (!m->mounted)
		return;
	if (!name) {
		dir = t->handle.dir;
		/* The inode of a small file stands just before; that of a large one is hot. */
		key = meta__key(dir, t->handle.hash, META__CLASS_OBJ, t->handle.uniq,
				META__KIND_EXTENT,
				offset / (META_CHUNK_BLOCKS * (uint64_t)BLOCK_SIZE));
		/* Those of the first few blocks come with the record's own lines. */
		a->block = (uint32_t)(offset / BLOCK_SIZE % META_CHUNK_BLOCKS);
	} else {
		if (name < end && *name == '/')
			dir = META_ROOT_DIR;
		for (; dir && (slash = memchr(name, '/', (size_t)(end - name))); name = slash + 1)
			if (slash > name)
				dir = child_of(m, dir, name, (uint32_t)(slash - name));
		if (!dir || name == end || end - name > META_NAME_MAX)
			return;
		key = meta__key(dir, meta__name_hash(m, dir, name, (uint32_t)(end - name)),
				META__CLASS_NAME, 0, META__KIND_NONE, 0);
	}
	memcpy(a->key, key.w, sizeof(a->key));
	a->shard = meta__dir_shard(m, dir);
	if (!meta__may_look(m, a->shard))
		return;
	f = meta__found_look(m, &key, &a->pos);
	a->known = f != NULL;
	if (f) {
		__builtin_prefetch(f);
	} else {
		f = leaf_of(m, a->shard, &key);
		if (f)
			__builtin_prefetch(f->page);
	}
	a->frame = f;
}

/* The record is here, or on its way: the checksum's line.  A record not yet checked is only
 * looked at: what it says decides which line of its page is asked for, and no more.
 */
static void fetch_checksum(const struct meta_ahead *a, const void *leaf)
{
	const struct meta_extent_disk *d;
	const void *value;
	uint32_t value_len, at;

	if (a->pos >= meta__page_count(leaf))
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

/* Its place is known: the page's head and the slot, then the record if it is still there. */
static void known_step(struct meta_ahead *a, const struct meta_key *key, uint32_t step)
{
	const struct meta__frame *f = a->frame;
	const void *value;
	uint32_t value_len;

	if (step == 0) {
		__builtin_prefetch(f->page);
		meta__leaf_fetch_slot(f->page, a->pos);
	} else if (step == 1 && meta__found_holds(f, a->pos, a->shard, key)) {
		meta__leaf_value(f->page, a->pos, &value, &value_len);
		__builtin_prefetch(value);
		__builtin_prefetch((const char *)value + 64);
	} else if (step == 1) {
		a->frame = NULL; /* who looks for it will walk */
	}
}

void meta_ahead_step(struct meta_ahead *a, uint32_t step)
{
	struct meta__frame *f = a->frame;
	struct meta_key key;

	if (!f)
		return;
	memcpy(key.w, a->key, sizeof(a->key));
	if (step == META_AHEAD_STEPS - 1) {
		if (a->block)
			fetch_checksum(a, f->page);
		return;
	}
	if (a->known) {
		known_step(a, &key, step);
		return;
	}
	a->pos = meta__leaf_fetch(f->page, &key, step);
	if (step == META_AHEAD_STEPS - 2)
		meta__found_note(a->meta, f, a->pos, &key);
}
