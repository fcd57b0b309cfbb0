/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The check: every invariant of FORMAT.md, over every page as it is on the drives.
 *
 *   everything into roots -> each shard's tree, left to right -> references between shards
 *
 * Records that are neighbours are compared in place: keys come in order, so a directory's record
 * comes before its names, an inode before its extents, ZONE records before all files.
 *
 * References to other shards are summed: each name adds the hash of the object that it names, and
 * each inode subtracts it as often as it has links; so matching references cancel out.  That takes
 * no memory.  Only if a sum is left the trees are walked twice more: once to learn in which of
 * BUCKETS it is, once to name the records in those.
 *
 *  (1) names and inodes agree on {handle, type, directory number}; the root alone has no name
 *      [test_meta_check:name_of_another_inode].
 *  (2) names of directories and DIR records agree on {number, parent, handle}; for directories that
 *      are removed with their trees, inodes and DIR records agree on {number, handle}.
 *      (Parts of directories have no name: meta_check_sums.c.) [test_meta_check:directory_parent]
 *  (3) inodes without a name, hidden or being trimmed, and ORPHAN records agree on {handle}
 *      [test_meta_check:orphan_record_of_nothing].
 *  (4) A data block belongs to one extent; ZONE records count exactly those; so does memory
 *      [test_meta_check:block_that_belongs_to_two].
 *  (5) Memory is a bit a block and 16 bytes a zone, whatever the number of files
 *      [test_meta_check:sound_store_is_sound_and_counted].
 */
#include "meta/check/meta_check.h"
#include "meta/engine/meta_lend.h"
#include "meta/format/meta_page.h"

#include "base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what refers to other shards ---------------------------------------------------- */

static void tally_inode(struct meta *m, const struct meta_handle *h, enum meta_type type,
			uint64_t child, int64_t times, const char *what)
{
	const uint64_t words[] = { h->dir, h->hash, h->uniq, type, child };

	ASSERT(m->checker->shard < m->nshards);
	meta__tally(m, SUM_INODES, words, 5, times, what);
}

static void tally_dir(struct meta *m, const struct meta_handle *h, uint64_t number, uint64_t parent,
		      int64_t times, const char *what)
{
	const uint64_t words[] = { h->dir, h->hash, h->uniq, number, parent };

	ASSERT(times == 1 || times == -1);
	meta__tally(m, SUM_DIRS, words, 5, times, what);
}

static void tally_orphan(struct meta *m, const struct meta_handle *h, int64_t times,
			 const char *what)
{
	const uint64_t words[] = { h->dir, h->hash, h->uniq, m->checker->shard };

	ASSERT(times >= -1);
	ASSERT(times <= 1);
	meta__tally(m, SUM_ORPHANS, words, 4, times, what);
}

/* ---- directories and names ------------------------------------------------------------ */

static void dir_end(struct meta *m)
{
	struct meta__checker *c = m->checker;

	ASSERT(!c->in_dir || c->dir_subdirs <= c->dir_names);
	if (c->in_dir)
		meta__totals_end(m);
	if (c->in_dir && c->pass == PASS_SUM && c->dir_names != c->dir_says.count)
		meta__problem(m, "directory %llx counts %llu names, %llu are there",
			      (unsigned long long)c->dir, (unsigned long long)c->dir_says.count,
			      (unsigned long long)c->dir_names);
	if (c->in_dir && c->pass == PASS_SUM && c->dir_subdirs != c->dir_says.subdirs)
		meta__problem(m, "directory %llx counts %llu directories, %llu are there",
			      (unsigned long long)c->dir, (unsigned long long)c->dir_says.subdirs,
			      (unsigned long long)c->dir_subdirs);
	c->in_dir = false;
}

static void check_dir(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	struct meta__dir *d = &c->dir_says;

	if (meta__key_index(key) == 1) {
		meta__check_totals(m, key, value, len);
		return;
	}
	ASSERT(meta__key_class(key) == META__CLASS_DIR);
	dir_end(m);
	memset(&c->totals, 0, sizeof(c->totals));
	c->dir = meta__key_dir(key);
	c->dirs += !meta__is_fragment(c->dir);
	if (meta__key_hash(key) || meta__key_uniq(key) || meta__key_kind(key) ||
	    meta__key_index(key) || meta__dir_parse(value, len, d) != 0 ||
	    meta__dir_shard(m, c->dir) != c->shard) {
		meta__problem(m, "shard %u: record of directory %llx is malformed", c->shard,
			      (unsigned long long)c->dir);
		return;
	}
	c->in_dir = true;
	c->dir_names = 0;
	c->dir_subdirs = 0;
	meta__check_fragments(m);
	if (c->dir == META_ROOT_DIR)
		c->root_seen = true;
	else if (!meta__is_fragment(c->dir))
		tally_dir(m, &d->inode, c->dir, d->going ? 0 : d->parent, -1, "directory record");
}

static void check_name(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	uint64_t dir = meta__key_dir(key);
	struct meta__name n;

	ASSERT(meta__key_class(key) == META__CLASS_NAME);
	if (meta__name_parse(key, value, len, &n) != 0 || meta__key_kind(key) ||
	    meta__key_index(key) ||
	    (meta__is_fragment(dir) &&
	     meta__fragment_of(meta__whole_of(dir), meta__key_hash(key)) != dir) ||
	    meta__name_hash(m, dir, n.bytes, n.len) != meta__key_hash(key)) {
		meta__problem(m, "directory %llx: a name is malformed", (unsigned long long)dir);
		return;
	}
	if (!c->in_dir || c->dir != dir)
		meta__problem(m, "directory %llx has a name and no record",
			      (unsigned long long)dir);
	if (meta__check_is_duplicate(c, key, &n))
		meta__problem(m, "directory %llx has a name twice: %.*s", (unsigned long long)dir,
			      (int)n.len, n.bytes);
	c->dir_names++;
	c->dir_subdirs += n.type == META_TYPE_DIR;
	c->out->names += c->pass == PASS_SUM;
	tally_inode(m, &n.handle, n.type, n.child, 1, "name");
	if (n.type != META_TYPE_DIR)
		meta__tally_links(m, &n.handle, dir, 1, "name");
	else
		tally_dir(m, &n.handle, n.child, dir, 1, "name");
}

/* ---- inodes and extents ------------------------------------------------------------------ */

static void inode_problem(struct meta *m, const struct meta__inode *in, const char *what)
{
	ASSERT(in->shard < m->nshards);
	meta__problem(m, "inode %llx.%llx.%llx: %s", (unsigned long long)in->handle.dir,
		      (unsigned long long)in->handle.hash, (unsigned long long)in->handle.uniq,
		      what);
}

static void tail_end(struct meta *m)
{
	struct meta__checker *c = m->checker;
	const struct meta__inode *in = &c->inode;

	ASSERT(c->in_inode);
	ASSERT(c->tail_len <= sizeof(c->tail));
	if (c->tail_len != in->tail_len)
		inode_problem(m, in, "its tail is not as long as it says");
	else if (c->tail_len && crc32c_block(c->tail, c->tail_len) != in->inline_crc)
		inode_problem(m, in, "its tail does not match its checksum");
	if (c->tail_len && c->tail_block * BLOCK_SIZE + c->tail_len > in->size)
		inode_problem(m, in, "its tail lies behind its end");
}

/* An unnamed file is freed in steps: it may have lost any of its attributes. */
static void xattrs_end(struct meta *m)
{
	struct meta__checker *c = m->checker;
	const struct meta__inode *in = &c->inode;

	ASSERT(c->in_inode);
	if (in->nlink == 0 && !(in->flags & META__INODE_HIDDEN))
		return;
	if (c->xattrs != in->xattrs)
		inode_problem(m, in, "its attributes are not as many as it says");
	if (c->xattr_left)
		inode_problem(m, in, "the end of an attribute's value is not there");
}

static void inode_end(struct meta *m)
{
	struct meta__checker *c = m->checker;

	ASSERT(!c->in_inode || c->inode.shard == c->shard);
	if (c->in_inode && c->pass == PASS_SUM) {
		tail_end(m);
		xattrs_end(m);
		if (!c->counted_seen)
			inode_problem(m, &c->inode, "no name is in the directory that counts it");
	}

	if (c->in_inode && c->pass == PASS_SUM && c->inode_blocks != c->inode.blocks)
		meta__problem(m, "inode %llx.%llx.%llx says %llu blocks, %llu are there",
			      (unsigned long long)c->inode.handle.dir,
			      (unsigned long long)c->inode.handle.hash,
			      (unsigned long long)c->inode.handle.uniq,
			      (unsigned long long)c->inode.blocks,
			      (unsigned long long)c->inode_blocks);
	c->in_inode = false;
}

static void check_inode(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	const struct meta_handle h = meta__key_handle(key);
	struct meta__inode *in = &c->inode;
	bool orphan;

	ASSERT(meta__key_kind(key) == META__KIND_INODE);
	inode_end(m);
	if (meta__inode_parse(c->shard, &h, value, len, in) != 0 || meta__key_index(key) ||
	    meta__dir_shard(m, meta__key_dir(key)) != c->shard) {
		meta__problem(m, "shard %u: inode %llx.%llx.%llx is malformed", c->shard,
			      (unsigned long long)h.dir, (unsigned long long)h.hash,
			      (unsigned long long)h.uniq);
		return;
	}
	c->in_inode = true;
	c->inode_blocks = 0;
	c->tail_len = 0;
	c->xattrs = 0;
	c->counted_seen = !(in->flags & META__INODE_LINKED);
	c->xattr_left = 0;
	c->tail_block = in->inline_len ? 0 : META_NO_TAIL;
	c->files++;
	c->out->inodes += c->pass == PASS_SUM;
	if (in->inline_len && crc32c_block(in->inline_bytes, in->inline_len) != in->inline_crc)
		inode_problem(m, in, "its bytes do not match their checksum");
	if (in->handle.uniq >= m->shard[c->shard].uniq_next && in->handle.uniq)
		meta__problem(m, "inode %llx.%llx.%llx: its number was never given out",
			      (unsigned long long)in->handle.dir,
			      (unsigned long long)in->handle.hash,
			      (unsigned long long)in->handle.uniq);
	orphan = in->nlink == 0 || in->flags & (META__INODE_TRIMMING | META__INODE_HIDDEN);
	tally_orphan(m, &in->handle, orphan ? 1 : 0, "inode");
	meta__tally_own(m, in);
	if (in->flags & META__INODE_TREE)
		tally_dir(m, &in->handle, in->child, 0, 1, "inode of a tree that goes");
	if (in->child != META_ROOT_DIR)
		tally_inode(m, &in->handle, in->type, in->child, -(int64_t)in->nlink, "inode");
}

/* The next piece of a tail; c->tail_len says what there is so far. */
static void check_tail(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	uint64_t index = meta__key_index(key);

	ASSERT(meta__key_kind(key) == META__KIND_TAIL);
	if (!c->in_inode || !meta__key_is_obj(key, &c->inode.handle, META__KIND_TAIL)) {
		meta__problem(m, "shard %u: a tail of %llx.%llx.%llx, which is not there", c->shard,
			      (unsigned long long)meta__key_dir(key),
			      (unsigned long long)meta__key_hash(key),
			      (unsigned long long)meta__key_uniq(key));
		return;
	}
	if (c->tail_len == 0)
		c->tail_block = index / META__TAIL_PIECES;
	if (len == 0 || len > META__TAIL_PIECE || len > META_TAIL_MAX - c->tail_len ||
	    c->tail_len % META__TAIL_PIECE ||
	    index != c->tail_block * META__TAIL_PIECES + c->tail_len / META__TAIL_PIECE) {
		inode_problem(m, &c->inode, "a piece of its tail is malformed");
		return;
	}
	ASSERT(c->tail_len + len <= sizeof(c->tail));
	memcpy(c->tail + c->tail_len, value, len);
	c->tail_len += len;
}

static void check_xattr_head(struct meta *m, uint64_t index, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	struct meta__xattr x;

	ASSERT((index & 0xff) == 0);
	ASSERT(c->in_inode);
	if (c->xattr_left)
		inode_problem(m, &c->inode, "the end of an attribute's value is not there");
	c->xattr_left = 0;
	if (meta__xattr_parse(value, len, &x) != 0 ||
	    meta__xattr_index(m, x.name, x.name_len) >> 16 != index >> 16) {
		inode_problem(m, &c->inode, "an attribute is malformed");
		return;
	}
	c->xattrs++;
	c->xattr_at = index;
	c->xattr_left = meta__xattr_pieces(x.value_len) ? x.value_len : 0;
}

static void check_xattr(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;
	const uint64_t index = meta__key_index(key);
	const uint32_t piece = (uint32_t)(index & 0xff);

	ASSERT(meta__key_kind(key) == META__KIND_XATTR);
	if (!c->in_inode || !meta__key_is_obj(key, &c->inode.handle, META__KIND_XATTR)) {
		meta__problem(m, "shard %u: an attribute of %llx.%llx.%llx, which is not there",
			      c->shard, (unsigned long long)meta__key_dir(key),
			      (unsigned long long)meta__key_hash(key),
			      (unsigned long long)meta__key_uniq(key));
		return;
	}
	if (c->pass != PASS_SUM || (c->inode.nlink == 0 && !(c->inode.flags & META__INODE_HIDDEN)))
		return;
	if (piece == 0) {
		check_xattr_head(m, index, value, len);
		return;
	}
	if (c->xattr_left == 0 || index != ++c->xattr_at ||
	    len != min_u32(c->xattr_left, META__XATTR_PIECE)) {
		inode_problem(m, &c->inode, "a piece of an attribute's value is malformed");
		return;
	}
	ASSERT(len <= c->xattr_left);
	c->xattr_left -= len;
}

/* Blocks [from, from + nblocks) of the file lie on drives: the tail's must not. */
static void check_no_tail(struct meta *m, uint64_t from, uint32_t nblocks)
{
	const struct meta__checker *c = m->checker;

	ASSERT(nblocks > 0);
	ASSERT(c->in_inode);
	if (c->tail_block >= from && c->tail_block - from < nblocks)
		inode_problem(m, &c->inode, "its tail lies on a drive, too");
}

/* The blocks of a run: in a data zone, which is in no other file (4). */
static void check_run(struct meta *m, struct meta_run run)
{
	struct meta__checker *c = m->checker;
	const struct meta__geo *g = &m->zones->geo;
	uint32_t zone = meta__geo_zone_of(g, run.baddr);
	uint64_t first;

	ASSERT(c->pass == PASS_SUM); /* (4): each is counted once */
	ASSERT(run.baddr);
	c->inode_blocks += run.nblocks;
	c->out->blocks += run.nblocks;
	first = zone == META__ZONE_NONE ? 0 : run.baddr - meta__geo_zone_baddr(g, zone);
	if (first == 0 || first + run.nblocks > g->zone_end ||
	    meta__zone_at(m, zone)->kind != META__ZONE_DATA) {
		meta__problem(
			m, "inode %llx.%llx.%llx has blocks where no data is: drive %u block %llu",
			(unsigned long long)c->inode.handle.dir,
			(unsigned long long)c->inode.handle.hash,
			(unsigned long long)c->inode.handle.uniq, META_BADDR_DRIVE(run.baddr),
			(unsigned long long)META_BADDR_BLOCK(run.baddr));
		return;
	}
	ASSERT(zone < g->nzones);
	c->zone_counted[zone] += run.nblocks;
	for (uint64_t b = (uint64_t)zone * g->zone_blocks + first, n = 0; n < run.nblocks;
	     n++, b++) {
		if (c->used[b / 8] >> b % 8 & 1)
			meta__problem(
				m,
				"drive %u block %llu belongs to two extents, one of %llx.%llx.%llx",
				META_BADDR_DRIVE(run.baddr),
				(unsigned long long)(META_BADDR_BLOCK(run.baddr) + n),
				(unsigned long long)c->inode.handle.dir,
				(unsigned long long)c->inode.handle.hash,
				(unsigned long long)c->inode.handle.uniq);
		c->used[b / 8] |= (uint8_t)(1u << b % 8);
	}
}

static void check_extent(struct meta *m, const struct meta_key *key, const void *value,
			 uint32_t len)
{
	struct meta__checker *c = m->checker;
	uint64_t block = meta__key_index(key) * META_CHUNK_BLOCKS;
	struct meta__extent x;

	ASSERT(meta__key_kind(key) == META__KIND_EXTENT);
	if (!c->in_inode || !meta__key_is_obj(key, &c->inode.handle, META__KIND_EXTENT)) {
		meta__problem(m, "shard %u: an extent of %llx.%llx.%llx, which is not there",
			      c->shard, (unsigned long long)meta__key_dir(key),
			      (unsigned long long)meta__key_hash(key),
			      (unsigned long long)meta__key_uniq(key));
		return;
	}
	if (meta__extent_parse(value, len, &x) != 0) {
		meta__problem(m, "inode %llx.%llx.%llx: extent %llu is malformed",
			      (unsigned long long)c->inode.handle.dir,
			      (unsigned long long)c->inode.handle.hash,
			      (unsigned long long)c->inode.handle.uniq,
			      (unsigned long long)meta__key_index(key));
		return;
	}
	if (c->pass != PASS_SUM)
		return;
	c->out->extents++;
	for (uint32_t i = 0; i < x.nruns; i++) {
		struct meta_run run = meta__extent_run(&x, i);

		if (run.baddr) {
			check_no_tail(m, block, run.nblocks);
			check_run(m, run);
		}
		block += run.nblocks;
	}
}

static void check_obj(struct meta *m, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__checker *c = m->checker;

	ASSERT(meta__key_class(key) == META__CLASS_OBJ);
	switch (meta__key_kind(key)) {
	case META__KIND_INODE:
		check_inode(m, key, value, len);
		return;
	case META__KIND_TAIL:
		check_tail(m, key, value, len);
		return;
	case META__KIND_EXTENT:
		check_extent(m, key, value, len);
		return;
	case META__KIND_XATTR:
		check_xattr(m, key, value, len);
		return;
	case META__KIND_LINKS:
		meta__check_links(m, key, value, len);
		return;
	case META__KIND_LINK:
		if (!c->in_inode || !meta__key_is_obj(key, &c->inode.handle, META__KIND_LINK) ||
		    c->inode.type != META_TYPE_SYMLINK)
			meta__problem(m, "shard %u: a symlink's text without its inode", c->shard);
		return;
	default:
		meta__problem(m, "shard %u: a record of an unknown kind", c->shard);
	}
}

/* ---- the store's own records ---------------------------------------------------------------- */

static void check_zone_record(struct meta *m, const struct meta_key *key, const void *value,
			      uint32_t len)
{
	uint32_t zone = meta__zone_of_key(m, key);
	le64 live;

	ASSERT(meta__key_dir(key) == 0);
	if (zone == META__ZONE_NONE || len != sizeof(live)) {
		meta__problem(m, "shard %u: a zone record is malformed", m->checker->shard);
		return;
	}
	ASSERT(zone < m->zones->geo.nzones);
	memcpy(&live, value, sizeof(live));
	m->checker->zone_record[zone] = (uint32_t)le64_get(live);
}

static void check_orphan(struct meta *m, const struct meta_key *key, const void *value,
			 uint32_t len)
{
	struct meta__orphan o;

	ASSERT(meta__key_dir(key) == 0);
	ASSERT(meta__key_class(key) == META__CLASS_ORPHAN);
	if (meta__orphan_parse(value, len, &o) != 0 || o.handle.uniq != meta__key_uniq(key)) {
		meta__problem(m, "shard %u: an orphan record is malformed", m->checker->shard);
		return;
	}
	tally_orphan(m, &o.handle, -1, "orphan record");
}

static void check_record(struct meta *m, const struct meta_key *key, const void *value,
			 uint32_t len)
{
	struct meta__checker *c = m->checker;
	bool own = meta__key_dir(key) == 0;

	ASSERT(c->shard < m->nshards);
	ASSERT(c->walking);
	if (c->in_dir && meta__key_dir(key) != c->dir)
		dir_end(m);
	switch (meta__key_class(key)) {
	case META__CLASS_DIR:
		check_dir(m, key, value, len);
		return;
	case META__CLASS_NAME:
		check_name(m, key, value, len);
		return;
	case META__CLASS_OBJ:
		check_obj(m, key, value, len);
		return;
	case META__CLASS_ZONE:
		if (!own)
			break;
		check_zone_record(m, key, value, len);
		return;
	case META__CLASS_ORPHAN:
		if (!own)
			break;
		check_orphan(m, key, value, len);
		return;
	case META__CLASS_PENDING:
		if (!own)
			break;
		meta__check_pending(m, key, len);
		return;
	case META__CLASS_RECEIPT: /* in no tree */
		break;
	}
	meta__problem(m, "shard %u: a record of an unknown class", c->shard);
}

/* ---- walking -------------------------------------------------------------------------------- */

static void check_page(struct meta *m, const struct meta__walk *w)
{
	struct meta__checker *c = m->checker;
	const struct meta__walk_level *at = &w->at[w->depth];
	uint32_t zone = meta__zone_of(m, at->baddr);

	ASSERT(w->shard == c->shard);
	ASSERT(zone < m->zones->geo.nzones);
	if (c->pass == PASS_SUM) {
		c->out->pages++;
		c->zone_total[zone] += META_PAGE_BLOCKS;
		if (meta__zone_at(m, zone)->kind != META__ZONE_PAGE)
			meta__problem(m, "shard %u: a page lies in zone %u, which is not for pages",
				      c->shard, zone);
	}
	for (uint32_t i = 0; at->level == 0 && i < at->count; i++) {
		struct meta_key key;
		const void *value;
		uint32_t len;

		meta__page_record(meta__walk_page(w), i, &key, &value, &len);
		check_record(m, &key, value, len);
	}
}

static void shard_end(struct meta *m)
{
	struct meta__checker *c = m->checker;

	dir_end(m);
	inode_end(m);
	if (c->pass != PASS_SUM)
		return;
	if (c->files != m->shard[c->shard].files)
		meta__problem(m, "shard %u counts %llu inodes, %llu are there", c->shard,
			      (unsigned long long)m->shard[c->shard].files,
			      (unsigned long long)c->files);
	if (c->dirs != m->shard[c->shard].dirs)
		meta__problem(m, "shard %u counts %llu directories, %llu are there", c->shard,
			      (unsigned long long)m->shard[c->shard].dirs,
			      (unsigned long long)c->dirs);
	for (uint32_t z = 0; z < m->zones->geo.nzones; z++) {
		if (c->zone_record[z] != c->zone_counted[z])
			meta__problem(m, "shard %u says that %u blocks of zone %u live, %u do",
				      c->shard, c->zone_record[z], z, c->zone_counted[z]);
		c->zone_total[z] += c->zone_counted[z];
		c->zone_record[z] = c->zone_counted[z] = 0;
	}
	ASSERT(!c->in_dir);
	ASSERT(!c->in_inode);
}

static int walk_shards(struct meta *m);

/* The store must have stood still: if it did not, all of it again. */
static int shards_end(struct meta *m)
{
	struct meta__checker *c = m->checker;
	bool left = false;

	ASSERT(c->shard == m->nshards);
	ASSERT(!c->walking);
	if (c->pass == PASS_SUM) {
		if (!c->root_seen)
			meta__problem(m, "the root directory is missing");
		for (uint32_t z = 0; z < m->zones->geo.nzones; z++)
			if (c->zone_total[z] != meta__zone_at(m, z)->live)
				meta__problem(m, "zone %u: %u blocks are thought to live, %u do", z,
					      meta__zone_at(m, z)->live, c->zone_total[z]);
		for (uint32_t i = 0; i < SUMS; i++)
			left |= c->sum[i] != 0;
	} else {
		left = c->pass == PASS_BUCKET;
		if (!left && c->out->problems == 0)
			meta__problem(m, "records do not add up, of what is not there");
	}
	if (!left) {
		c->stage = meta__check_duplicates;
		return 0;
	}
	ASSERT(c->pass < PASS_NAME);
	c->pass++;
	c->shard = 0;
	return 0;
}

static int walk_shards(struct meta *m)
{
	struct meta__checker *c = m->checker;
	struct meta__walk *w = meta__boot_walk(m);
	enum meta__walk_event event;

	ASSERT(c->shard <= m->nshards);
	ASSERT(c->pass <= PASS_NAME);
	if (c->shard == m->nshards)
		return shards_end(m);
	if (!c->walking) {
		w->x.kind = META__IO_CHECK;
		w->all_leaves = true;
		meta__walk_start(m, w, c->shard);
		c->walking = true;
		c->files = 0;
		c->dirs = 0;
		c->name_len = 0;
	}
	event = meta__walk_step(m, w);
	if (event == WALK_WAIT)
		return -EAGAIN;
	if (event == WALK_PAGE) {
		check_page(m, w);
		return 0;
	}
	if (event == WALK_BAD)
		meta__problem(m, "%s", w->why);
	c->walking = false;
	shard_end(m);
	c->shard++;
	return 0;
}

/* ---- begin, turn, end ------------------------------------------------------------------- */

/* Moves when any tree does. */
static uint64_t state_now(const struct meta *m)
{
	uint64_t state = 0;

	ASSERT(m->mounted);
	for (uint32_t s = 0; s < m->nshards; s++) {
		const uint64_t words[] = { state, m->shard[s].seq, m->shard[s].root_baddr,
					   m->shard[s].root_gen };

		state = hash_bytes(s, words, sizeof(words));
	}
	return state;
}

static void walk_begin(struct meta *m)
{
	struct meta__checker *c = m->checker;
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(c->out);
	meta__duplicate_forget(c);
	c->state = state_now(m);
	c->pass = c->shard = 0;
	c->walking = c->in_dir = c->in_inode = c->root_seen = false;
	memset(c->out, 0, sizeof(*c->out));
	memset(c->sum, 0, sizeof(c->sum));
	memset(c->bucket, 0, SUMS * sizeof(*c->bucket));
	memset(c->used, 0, div_up((uint64_t)g->nzones * g->zone_blocks, 8));
	memset(c->zone_record, 0, g->nzones * sizeof(uint32_t));
	memset(c->zone_counted, 0, g->nzones * sizeof(uint32_t));
	memset(c->zone_total, 0, g->nzones * sizeof(uint32_t));
	c->stage = walk_shards;
}

static int settle(struct meta *m)
{
	int err = -EAGAIN;

	ASSERT(m->checking);
	if (meta__gc_idle(m) && meta__collect_idle(m) && meta__folder_idle(m) &&
	    meta__lend_is_back(m))
		err = meta__boot_settled(m);
	if (!err)
		walk_begin(m);
	return err;
}

static void forget(struct meta__checker *c)
{
	free(c->used);
	free(c->zone_record);
	free(c->zone_counted);
	free(c->zone_total);
	free(c->bucket);
	if (!c->duplicate.busy) /* else the store has failed, and its end is near */
		meta__duplicate_forget(c);
	c->used = NULL;
	c->zone_record = c->zone_counted = c->zone_total = NULL;
	c->bucket = NULL;
	ASSERT(!c->bucket);
	ASSERT(!c->used);
}

void meta_check_start(struct meta *m, struct meta_check *out)
{
	struct meta__checker *c = m->checker;
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(m->mounted);
	ASSERT(!c->stage && !c->duplicate.busy);
	*c = (struct meta__checker){ .out = out, .status = -EAGAIN, .stage = settle };
	m->checking = true;
	memset(out, 0, sizeof(*out));
	c->used = calloc(div_up((uint64_t)g->nzones * g->zone_blocks, 8), 1);
	c->zone_record = calloc(g->nzones, sizeof(uint32_t));
	c->zone_counted = calloc(g->nzones, sizeof(uint32_t));
	c->zone_total = calloc(g->nzones, sizeof(uint32_t));
	c->bucket = calloc(SUMS, sizeof(*c->bucket));
	if (c->used && c->zone_record && c->zone_counted && c->zone_total && c->bucket)
		return;
	forget(c);
	c->stage = NULL;
	m->checking = false;
	c->status = -ENOMEM;
}

int meta_check_status(const struct meta *m)
{
	ASSERT(m->checker->status <= 0);
	return m->checker->status;
}

bool meta__check_turn(struct meta *m)
{
	struct meta__checker *c = m->checker;
	int rc = 0;

	if (!c->stage)
		return false;
	ASSERT(m->checking);
	ASSERT(c->out);
	if (m->failed)
		rc = m->failed;
	for (uint32_t i = 0; i < 64 && rc == 0; i++)
		rc = c->stage(m);
	if (rc == -EALREADY && c->state != state_now(m) && c->again++ < AGAIN_MAX) {
		c->stage = settle; /* background work continued: the store is not idle yet */
		return true;
	}
	if (rc == 0 || rc == -EAGAIN)
		return rc == 0;
	ASSERT(rc < 0);
	c->status = rc != -EALREADY ? rc : c->out->problems ? -EUCLEAN : 0;
	c->stage = NULL;
	m->checking = false;
	forget(c);
	return false;
}

void meta__check_io_done(struct meta *m, struct meta__io *x)
{
	ASSERT(x->kind == META__IO_CHECK);
	ASSERT(m->checking || m->failed);
	meta__walk_io_done(meta__boot_walk(m));
}

uint64_t meta__checker_memory(const struct meta_conf *c)
{
	(void)c;
	return 0; /* it reads into the pages of boot's walk */
}

int meta__checker_create(struct meta *m)
{
	ASSERT(!m->checker);
	m->checker = calloc(1, sizeof(*m->checker));
	return m->checker ? 0 : -ENOMEM;
}

void meta__checker_destroy(struct meta *m)
{
	if (!m->checker)
		return;
	forget(m->checker);
	free(m->checker);
	m->checker = NULL;
}
