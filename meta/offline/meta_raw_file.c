/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names, files and attributes of an unmounted store, from its trees and the records over them.
 *
 *  (1) Every byte returned is verified by a checksum: a page's, the log's, or its block's
 *      [sim/rot].
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <string.h>

/* Returns the next record from `at` on, and moves `at` past it. */
static int next_record(struct meta_raw *r, struct meta_raw_place *at, struct meta_key *key,
		       void *value, uint32_t *len)
{
	struct meta_key after;
	uint64_t lost = 0;
	int err;

	ASSERT(at->shard < r->geo.nshards);
	memcpy(key->w, at->key, sizeof(key->w));
	err = meta__raw_next(r, at->shard, key, value, len, &lost);
	if (err)
		return err;
	after = meta__key_next(*key);
	memcpy(at->key, after.w, sizeof(at->key));
	ASSERT(meta__key_cmp(&after, key) > 0); /* ... so a walk ends */
	return 0;
}

/* Returns whether one wanted record is in doubt. */
static int one_record(struct meta_raw *r, const struct meta_handle *h, enum meta__kind kind,
		      uint64_t index, void *value, uint32_t *len, bool *doubt)
{
	const struct meta_key key = meta__obj_key(h, kind, index);
	struct meta__raw_way way;
	int err;

	ASSERT(doubt);
	r->doubt = false;
	err = meta__raw_get(r, meta__dir_shard(&r->m, h->dir), &key, value, len, &way);
	*doubt |= r->doubt;
	return err;
}

/* ---- names ------------------------------------------------------------------------------ */

/* From the first name of the directory, or fragment, on. */
static void entries_begin(const struct meta_raw *r, uint64_t dir, struct meta_raw_place *at)
{
	const struct meta_key begin = meta__key(dir, 0, META__CLASS_NAME, 0, META__KIND_NONE, 0);

	ASSERT(dir != 0);
	memcpy(at->key, begin.w, sizeof(at->key));
	at->shard = meta__dir_shard(&r->m, dir);
}

/* Returns the directory or fragment to continue with after `dir`; 0: none. */
static uint64_t next_fragment(struct meta_raw *r, uint64_t dir)
{
	const uint64_t whole = meta__whole_of(dir);
	const uint32_t from = meta__is_fragment(dir) ? meta__fragment_index(dir) + 1 : 0;
	const uint32_t left = meta__raw_fragments(r, whole) >> from << from;

	ASSERT(from <= META__FRAGMENTS);
	return left ? meta__fragment_at(whole, (uint32_t)__builtin_ctz(left)) : 0;
}

int meta_raw_entry_next(struct meta_raw *r, uint64_t dir, struct meta_raw_place *at,
			struct meta_raw_entry *out)
{
	uint8_t value[META_VALUE_MAX];
	struct meta_key key;
	uint32_t len;

	if (!at->key[0] && !at->key[1] && !at->key[2])
		entries_begin(r, dir, at);
	memcpy(key.w, at->key, sizeof(key.w));
	dir = meta__key_dir(&key); /* or a fragment of it */
	for (;;) {
		struct meta__name n;

		r->doubt = false;
		if (next_record(r, at, &key, value, &len) || meta__key_dir(&key) != dir) {
			dir = next_fragment(r, dir);
			if (!dir)
				return -ENOENT;
			entries_begin(r, dir, at);
			continue;
		}
		if (meta__key_class(&key) != META__CLASS_NAME ||
		    meta__name_parse(&key, value, len, &n) ||
		    meta__name_hash(&r->m, dir, n.bytes, n.len) != meta__key_hash(&key))
			continue;
		ASSERT(n.len > 0);
		ASSERT(n.len <= META_NAME_MAX);
		*out = (struct meta_raw_entry){
			.handle = n.handle, .type = n.type, .dir = n.child, .doubt = r->doubt
		};
		memcpy(out->name, n.bytes, n.len);
		return 0;
	}
}

/* ---- inodes ------------------------------------------------------------------------------ */

static void attr_of(const struct meta__inode *in, struct meta_attr *out)
{
	ASSERT(in->type >= META_TYPE_FILE);
	ASSERT(in->type <= META_TYPE_SYMLINK);
	*out = (struct meta_attr){
		.handle = in->handle,
		.ino = meta__inode_ino(in->shard, &in->handle),
		.dir = in->child,
		.type = in->type,
		.mode = in->mode,
		.uid = in->uid,
		.gid = in->gid,
		.nlink = in->nlink,
		.size = in->size,
		.blocks = in->flags & META__INODE_TRIMMING
				  ? UINT64_MAX
				  : in->blocks + (in->inline_len || in->tail_len),
		.mtime_ns = in->mtime_ns,
		.ctime_ns = in->ctime_ns,
		.atime_ns = in->atime_ns,
	};
}

int meta_raw_object_next(struct meta_raw *r, struct meta_raw_place *at, struct meta_attr *out,
			 bool *going)
{
	uint8_t value[META_VALUE_MAX];
	struct meta_key key;
	struct meta__inode in;
	uint32_t len;

	ASSERT(at->shard <= r->geo.nshards);
	while (at->shard < r->geo.nshards) {
		const uint32_t shard = at->shard;
		struct meta_handle h;

		if (next_record(r, at, &key, value, &len)) {
			*at = (struct meta_raw_place){ .shard = shard + 1 };
			continue;
		}
		h = meta__key_handle(&key);
		if (meta__key_dir(&key) && meta__key_class(&key) == META__CLASS_OBJ &&
		    meta__key_kind(&key) == META__KIND_INODE &&
		    meta__inode_parse(shard, &h, value, len, &in) == 0) {
			attr_of(&in, out);
			*going = in.nlink == 0 || in.flags & META__INODE_HIDDEN;
			return 0;
		}
	}
	return -ENOENT;
}

static int get_inode(struct meta_raw *r, const struct meta_handle *h, void *value,
		     struct meta__inode *in, bool *doubt)
{
	uint32_t len;

	ASSERT(doubt);
	if (one_record(r, h, META__KIND_INODE, 0, value, &len, doubt) ||
	    meta__inode_parse(meta__dir_shard(&r->m, h->dir), h, value, len, in))
		return -ENOENT;
	return 0;
}

int meta_raw_attr(struct meta_raw *r, const struct meta_handle *h, struct meta_attr *out,
		  bool *doubt)
{
	uint8_t value[META_VALUE_MAX];
	struct meta__inode in;
	int err;

	ASSERT(out);
	*doubt = false;
	err = get_inode(r, h, value, &in, doubt);
	if (!err)
		attr_of(&in, out);
	return err;
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* The block's tail, from its pieces: 0, or -EIO: they are not all there, or do not match. */
static int read_tail(struct meta_raw *r, const struct meta_handle *h, const struct meta__inode *in,
		     uint64_t block, uint8_t *out, bool *doubt)
{
	uint32_t have = 0;

	ASSERT(block != META_NO_TAIL);
	ASSERT(in->tail_len <= META__BLOCK);
	memset(out, 0, META__BLOCK);
	while (have < in->tail_len) {
		uint8_t value[META_VALUE_MAX];
		uint32_t len;
		uint64_t index = block * META__TAIL_PIECES + have / META__TAIL_PIECE;

		if (one_record(r, h, META__KIND_TAIL, index, value, &len, doubt) ||
		    len != min_u32(in->tail_len - have, META__TAIL_PIECE))
			return -EIO;
		ASSERT(have + len <= META__BLOCK);
		memcpy(out + have, value, len);
		have += len;
	}
	return crc32c(out, META__BLOCK) == in->inline_crc ? 0 : -EIO;
}

/* Returns the block of the tail: that of its first piece. */
static uint64_t tail_block(struct meta_raw *r, const struct meta_handle *h)
{
	struct meta_key key = meta__obj_key(h, META__KIND_TAIL, 0);
	uint8_t value[META_VALUE_MAX];
	uint64_t lost = 0;
	uint32_t len;

	if (meta__raw_next(r, meta__dir_shard(&r->m, h->dir), &key, value, &len, &lost) ||
	    !meta__key_is_obj(&key, h, META__KIND_TAIL))
		return META_NO_TAIL;
	ASSERT(meta__key_kind(&key) == META__KIND_TAIL);
	return meta__key_index(&key) / META__TAIL_PIECES;
}

/* Finds the first block of the extents from *index on: its place and checksum. */
static bool extent_block(struct meta_raw *r, const struct meta_handle *h,
			 const struct meta__inode *in, uint64_t *index, uint64_t *baddr,
			 uint32_t *crc, bool *doubt)
{
	struct meta_key key = meta__obj_key(h, META__KIND_EXTENT, *index / META_CHUNK_BLOCKS);
	const uint32_t shard = meta__dir_shard(&r->m, h->dir);
	uint8_t value[META_VALUE_MAX];
	uint64_t lost = 0;
	uint32_t len;

	ASSERT(in->type == META_TYPE_FILE);
	for (;; key = meta__key_next(key)) {
		struct meta__extent x;
		uint64_t at;
		uint32_t slot = 0;

		r->doubt = false;
		if (meta__raw_next(r, shard, &key, value, &len, &lost) ||
		    !meta__key_is_obj(&key, h, META__KIND_EXTENT))
			return false;
		if (in->flags & META__INODE_TRIMMING && meta__key_index(&key) >= in->trim_from)
			return false;
		if (meta__extent_parse(value, len, &x))
			continue;
		at = meta__key_index(&key) * META_CHUNK_BLOCKS;
		for (uint32_t i = 0; i < x.nruns; i++) {
			struct meta_run run = meta__extent_run(&x, i);
			le32 sum;

			for (uint32_t k = 0; k < run.nblocks && slot < x.nblocks; k++, slot++) {
				if (!run.baddr || at + slot < *index)
					continue;
				memcpy(&sum, x.crcs + slot * sizeof(sum), sizeof(sum));
				*crc = le32_get(sum);
				*index = at + slot;
				*baddr = run.baddr + k;
				*doubt |= r->doubt;
				ASSERT(slot < x.nblocks);
				return true;
			}
		}
	}
}

int meta_raw_block_next(struct meta_raw *r, const struct meta_handle *h, uint64_t *index,
			void *block, bool *doubt)
{
	uint8_t value[META_VALUE_MAX];
	struct meta__inode in;
	uint64_t at = *index, baddr, tail = META_NO_TAIL;
	bool has;
	uint32_t crc;

	*doubt = false;
	if (get_inode(r, h, value, &in, doubt) || in.type != META_TYPE_FILE)
		return -ENOENT;
	if (in.inline_len && *index == 0) {
		memset(block, 0, META__BLOCK);
		memcpy(block, in.inline_bytes, in.inline_len);
		return crc32c(block, META__BLOCK) == in.inline_crc ? 0 : -EIO;
	}
	if (in.tail_len)
		tail = tail_block(r, h);
	has = extent_block(r, h, &in, &at, &baddr, &crc, doubt);
	if (tail != META_NO_TAIL && tail >= *index && (!has || tail < at)) {
		*index = tail;
		return read_tail(r, h, &in, tail, block, doubt);
	}
	if (!has)
		return -ENOENT;
	*index = at;
	ASSERT(baddr);
	return meta__raw_block_either(r, baddr, crc, block) ? -EIO : 0; /* (1) */
}

/* ---- symlinks, attributes ------------------------------------------------------------------- */

int meta_raw_link(struct meta_raw *r, const struct meta_handle *h, char *text)
{
	uint8_t value[META_VALUE_MAX];
	struct meta__inode in;
	bool doubt = false;
	uint64_t have = 0;

	if (get_inode(r, h, value, &in, &doubt) || in.type != META_TYPE_SYMLINK ||
	    in.size > META_PATH_MAX)
		return -EIO;
	ASSERT(in.size <= META_PATH_MAX);
	text[in.size] = 0;
	if (in.inline_len) {
		memcpy(text, in.inline_bytes, in.inline_len);
		return in.inline_len == in.size ? 0 : -EIO;
	}
	while (have < in.size) {
		uint32_t len;

		if (one_record(r, h, META__KIND_LINK, have / META__LINK_PIECE, value, &len,
			       &doubt) ||
		    len != min_u64(in.size - have, META__LINK_PIECE))
			return -EIO;
		ASSERT(have + len <= in.size);
		memcpy(text + have, value, len);
		have += len;
	}
	return 0;
}

/* All have been seen: as many as the inode says? */
static int xattrs_end(struct meta_raw *r, const struct meta_handle *h, uint32_t seen)
{
	uint8_t value[META_VALUE_MAX];
	struct meta__inode in;
	bool doubt = false;

	ASSERT(r->geo.nshards > 0);
	return get_inode(r, h, value, &in, &doubt) == 0 && in.xattrs > seen ? -EUCLEAN : -ENOENT;
}

int meta_raw_xattr_next(struct meta_raw *r, const struct meta_handle *h, struct meta_raw_place *at,
			char *name, void *value, uint32_t *value_len)
{
	const struct meta_key begin = meta__obj_key(h, META__KIND_XATTR, 0);
	uint8_t head[META_VALUE_MAX], piece[META_VALUE_MAX];
	struct meta__xattr x;
	struct meta_key key;
	bool doubt = false;
	uint32_t len, have = 0;

	if (!at->key[0] && !at->key[1] && !at->key[2]) {
		memcpy(at->key, begin.w, sizeof(at->key));
		at->shard = meta__dir_shard(&r->m, h->dir);
	}
	r->doubt = false;
	do {
		if (next_record(r, at, &key, head, &len) ||
		    !meta__key_is_obj(&key, h, META__KIND_XATTR))
			return xattrs_end(r, h, at->seen);
	} while (meta__key_index(&key) & 0xff || meta__xattr_parse(head, len, &x));
	doubt = r->doubt;
	at->seen++;
	ASSERT(x.name_len <= META_XATTR_NAME_MAX);
	ASSERT(x.value_len <= META_XATTR_MAX);
	memcpy(name, x.name, x.name_len);
	name[x.name_len] = 0;
	*value_len = x.value_len;
	if (x.value)
		memcpy(value, x.value, x.value_len);
	for (uint32_t i = 1; i <= meta__xattr_pieces(x.value_len); i++) {
		if (one_record(r, h, META__KIND_XATTR, meta__key_index(&key) + i, piece, &len,
			       &doubt) ||
		    len != min_u32(x.value_len - have, META__XATTR_PIECE))
			return -EIO;
		ASSERT(have + len <= x.value_len);
		memcpy((uint8_t *)value + have, piece, len);
		have += len;
	}
	return doubt ? -EIO : 0; /* its newest value is lost */
}
