/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extended attributes: names with values, of a file or a directory.
 *
 *   keys      INODE, TAIL ..., EXTENT ...,
 *             XATTR hash.0.0   | head | user.color | red |            short: all in one record
 *             XATTR hash.0.0   | head | user.large |                  a long value is in pieces:
 *             XATTR hash.0.1   | 2048 bytes |
 *             XATTR hash.0.2   | the rest   |
 *             XATTR hash.1.0   | head | user.twin  | ...|             another name of the same hash
 *
 * The index is 32 bits of the name's hash, 8 bits of its number among names with that hash, 8 of
 * the piece.  So a short one is found by one search in the leaf that has the inode, and a value of
 * META_XATTR_MAX is changed in one transaction: META_XATTR_MAX / META__XATTR_PIECE pieces and a few
 * more records.
 *
 *  (1) An inode counts its attributes; they belong to the inode, whatever names it has.
 *  (2) Twins (of one hash) have numbers in any order, with gaps where one was removed
 *      [test_meta_xattr:two_names_of_one_hash_are_two_attributes].
 *  (3) A value of up to META__XATTR_INLINE bytes is in its head; else the head has nothing of it,
 *      and pieces 1, 2 ... have META__XATTR_PIECE bytes each, except the last
 *      [test_meta_xattr:values_of_every_size].
 *  (4) There are at most META_XATTRS_MAX, so that a list of names fits META_XATTR_MAX.
 */
#include "meta/plans/meta_plan.h"

#include "base/hash.h"

#include <string.h>

#define TWIN      0x100ull
#define HASH      0x10000ull
#define HASH_BITS 32u
#define PREFIX    "user."

#define LIST_HEADS 64u /* read by one plan */

uint64_t meta__xattr_index(const struct meta *m, const char *name, uint32_t len)
{
	DASSERT(len > 0);
	DASSERT(len <= META_XATTR_NAME_MAX);
	return (hash_bytes(m->secret, name, len) & ((1ull << HASH_BITS) - 1)) * HASH;
}

static struct meta_key xattr_key(const struct meta__inode *in, uint64_t index)
{
	return meta__obj_key(&in->handle, META__KIND_XATTR, index);
}

/* The errors and their order are Linux's. */
static int name_check(const struct meta_op *op)
{
	const uint32_t prefix = sizeof(PREFIX) - 1;

	if (op->xattr_len == 0 || op->xattr_len > META_XATTR_NAME_MAX)
		return -ERANGE;
	if (memchr(op->xattr, 0, op->xattr_len))
		return -EINVAL;
	if (op->xattr_len < prefix || memcmp(op->xattr, PREFIX, prefix) != 0)
		return -EOPNOTSUPP;
	return op->xattr_len == prefix ? -EINVAL : 0;
}

/* ---- finding ------------------------------------------------------------------------- */

/* One attribute: where it is, or where it would be. */
struct found {
	bool is;
	bool full;      /* it would be nowhere */
	uint64_t index; /* of its head */
	uint32_t value_len;
	const uint8_t *value; /* NULL: in pieces */
};

/* The next head from *index on, whatever its hash.  -ENOENT: none. */
static int next_head(struct meta *m, const struct meta__inode *in, uint64_t *index,
		     struct meta__xattr *x)
{
	struct meta_key key = xattr_key(in, *index);
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_XATTR);
	const void *value;
	uint32_t value_len;
	int rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);

	if (rc)
		return rc;
	if (!meta__key_is_obj(&key, &in->handle, META__KIND_XATTR))
		return -ENOENT;
	*index = meta__key_index(&key);
	DASSERT(meta__key_cmp(&key, &last) <= 0);
	if (*index % TWIN || meta__xattr_parse(value, value_len, x))
		return meta__bad_record(m, "attribute", in->shard, &key);
	return 0;
}

static int find(struct meta *m, const struct meta__inode *in, const struct meta_op *op,
		struct found *out)
{
	const uint64_t first = meta__xattr_index(m, op->xattr, op->xattr_len);
	uint64_t index = first;
	struct meta__xattr x;

	*out = (struct found){ .index = first };
	while (in->xattrs && index < first + HASH) {
		const uint64_t from = index;
		int rc = next_head(m, in, &index, &x);

		if (rc == -ENOENT || (rc == 0 && index >= first + HASH))
			break;
		if (rc)
			return rc;
		if (x.name_len == op->xattr_len && memcmp(x.name, op->xattr, x.name_len) == 0) {
			*out = (struct found){ .is = true,
					       .index = index,
					       .value_len = x.value_len,
					       .value = x.value };
			return 0;
		}
		if (out->index == from && index == from)
			out->index = index + TWIN; /* no gap so far: (2) */
		index += TWIN;
	}
	DASSERT(!out->is); /* (2) */
	DASSERT(out->index >= first);
	DASSERT(out->index % TWIN == 0);
	out->full = out->index >= first + HASH;
	return 0;
}

/* Reads an object that may have attributes: -EPERM, or -ENODATA for reads. */
static int xattr_of(struct meta *m, const struct meta_op *op, bool changes, struct meta__inode *in)
{
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), in);

	if (rc)
		return rc;
	if (in->type == META_TYPE_SYMLINK)
		return changes ? -EPERM : -ENODATA;
	return changes ? meta__may_mark(m, op, in) : 0;
}

/* ---- changes -------------------------------------------------------------------------- */

static int pieces_put(struct meta *m, const struct meta__inode *in, const struct meta_op *op,
		      uint64_t index)
{
	const uint32_t len = op->list_used_bytes;
	int miss = 0;

	DASSERT(len <= META_XATTR_MAX);
	DASSERT(index % TWIN == 0);
	for (uint32_t i = 0; i < meta__xattr_pieces(len); i++) {
		const uint32_t at = i * META__XATTR_PIECE;
		const struct meta_key key = xattr_key(in, index + 1 + i);
		int rc = meta__tx_put(m, in->shard, &key, (const uint8_t *)op->list_out + at,
				      min_u32(len - at, META__XATTR_PIECE));

		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

/* Pieces [from, of the old value's) go. */
static int pieces_del(struct meta *m, const struct meta__inode *in, const struct found *f,
		      uint32_t from)
{
	int miss = 0;

	DASSERT(!f->is || f->index % TWIN == 0);
	for (uint32_t i = from; f->is && i < meta__xattr_pieces(f->value_len); i++) {
		const struct meta_key key = xattr_key(in, f->index + 1 + i);
		int rc = meta__tx_del(m, in->shard, &key);

		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

static int inode_changed(struct meta *m, struct meta_op *op, struct meta__inode *in, int miss)
{
	int rc;

	DASSERT(in->xattrs <= META_XATTRS_MAX); /* (4) */
	meta__ctime_raise(in, op->wall_ns);
	rc = meta__inode_put(m, in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, in, &op->attr);
	return rc ? rc : miss;
}

static int put(struct meta *m, const struct meta_op *op, const struct meta__inode *in,
	       const struct found *f)
{
	const struct meta_key key = xattr_key(in, f->index);
	const struct meta__xattr x = {
		.value_len = op->list_used_bytes,
		.name_len = op->xattr_len,
		.name = op->xattr,
		.value = op->list_out,
	};
	int rc = meta__tx_put(m, in->shard, &key, m->ops->value,
			      meta__xattr_build(&x, m->ops->value)),
	    miss = 0;

	DASSERT(f->is || !f->full);
	if (meta__stop(rc, &miss))
		return rc;
	rc = pieces_put(m, in, op, f->index);
	if (meta__stop(rc, &miss))
		return rc;
	rc = pieces_del(m, in, f, meta__xattr_pieces(x.value_len));
	return rc ? rc : miss;
}

int meta__plan_xattr_set(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct found f;
	int rc = name_check(op), miss = 0;

	if (!rc && op->list_used_bytes > META_XATTR_MAX)
		rc = -E2BIG;
	if (!rc)
		rc = xattr_of(m, op, true, &in);
	if (!rc)
		rc = find(m, &in, op, &f);
	if (rc)
		return rc;
	if (f.is && op->flags & META_EXCL)
		return -EEXIST;
	if (!f.is && op->flags & META_MUST_EXIST)
		return -ENODATA;
	if (!f.is && (f.full || in.xattrs == META_XATTRS_MAX))
		return -E2BIG; /* (4) */
	rc = put(m, op, &in, &f);
	if (meta__stop(rc, &miss))
		return rc;
	in.xattrs += !f.is;
	return inode_changed(m, op, &in, miss);
}

int meta__plan_xattr_del(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta_key key;
	struct found f;
	int rc = name_check(op), miss = 0;

	if (!rc)
		rc = xattr_of(m, op, true, &in);
	if (!rc)
		rc = find(m, &in, op, &f);
	if (rc)
		return rc;
	if (!f.is)
		return -ENODATA;
	key = xattr_key(&in, f.index);
	rc = meta__tx_del(m, in.shard, &key);
	if (meta__stop(rc, &miss))
		return rc;
	rc = pieces_del(m, &in, &f, 0);
	if (meta__stop(rc, &miss))
		return rc;
	DASSERT(in.xattrs > 0); /* (1) */
	in.xattrs--;
	return inode_changed(m, op, &in, miss);
}

/* ---- looking ----------------------------------------------------------------------------- */

static int value_get(struct meta *m, const struct meta__inode *in, const struct found *f,
		     uint8_t *out)
{
	int miss = 0;

	DASSERT(f->is); /* (3) */
	DASSERT(f->value_len <= META_XATTR_MAX);
	if (f->value) {
		memcpy(out, f->value, f->value_len);
		return 0;
	}
	for (uint32_t at = 0; at < f->value_len; at += META__XATTR_PIECE) {
		const struct meta_key key = xattr_key(in, f->index + 1 + at / META__XATTR_PIECE);
		const uint32_t len = min_u32(f->value_len - at, META__XATTR_PIECE);
		const void *value;
		uint32_t value_len;
		int rc = meta__get(m, in->shard, &key, &value, &value_len);

		if (rc == -ENOENT || (rc == 0 && value_len != len)) /* (3) */
			return meta__bad_record(m, "attribute", in->shard, &key);
		if (meta__stop(rc, &miss))
			return rc;
		if (rc == 0)
			memcpy(out + at, value, len);
	}
	return miss;
}

int meta__plan_xattr_get(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct found f;
	int rc = name_check(op);

	if (!rc)
		rc = xattr_of(m, op, false, &in);
	if (!rc)
		rc = meta__may_use(m, op, &in, META__MAY_R);
	if (!rc)
		rc = find(m, &in, op, &f);
	if (rc)
		return rc;
	if (!f.is)
		return -ENODATA;
	if (f.value_len > op->list_max_bytes)
		return -ERANGE;
	op->list_used_bytes = f.value_len;
	return value_get(m, &in, &f, op->list_out);
}

int meta__plan_xattr_list(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__xattr x;
	uint64_t index = op->offset;
	uint32_t used = 0;
	int rc = xattr_of(m, op, false, &in);

	op->list_used_bytes = 0;
	op->seek_more = false;
	if (rc)
		return rc == -ENODATA ? 0 : rc; /* a symlink: none */
	for (uint32_t n = 0; in.xattrs && n < LIST_HEADS; n++) {
		rc = next_head(m, &in, &index, &x);
		if (rc == -ENOENT)
			break;
		if (rc)
			return rc;
		op->seek_more = n == LIST_HEADS - 1;
		if (x.name_len + 1 > op->list_max_bytes - used)
			return -ERANGE;
		memcpy((char *)op->list_out + used, x.name, x.name_len);
		used += x.name_len;
		((char *)op->list_out)[used++] = 0;
		index |= TWIN - 1; /* after all pieces that it may have */
	}
	DASSERT(used <= op->list_max_bytes);
	op->list_used_bytes = used;
	op->length = index;
	return 0;
}

/* ---- their end ------------------------------------------------------------------------------ */

int meta__xattrs_fit(struct meta *m, const struct meta__inode *in)
{
	struct meta_key key = xattr_key(in, 0);
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_XATTR);

	for (uint32_t n = 0;; n++, key = meta__key_next(key)) {
		const void *value;
		uint32_t value_len;
		int rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);

		if (rc == -ENOENT ||
		    (rc == 0 && !meta__key_is_obj(&key, &in->handle, META__KIND_XATTR)))
			return 0;
		if (rc)
			return rc;
		if (n == META__XATTR_FREE)
			return -E2BIG;
	}
}

int meta__xattrs_free(struct meta *m, const struct meta__inode *in, bool *all)
{
	struct meta_key key = xattr_key(in, 0);
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_XATTR);
	int miss = 0;

	*all = false;
	for (uint32_t n = 0; n <= META__XATTR_FREE; n++, key = meta__key_next(key)) {
		const void *value;
		uint32_t value_len;
		int rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);

		if (rc == -ENOENT ||
		    (rc == 0 && !meta__key_is_obj(&key, &in->handle, META__KIND_XATTR))) {
			*all = true;
			return miss;
		}
		if (rc)
			return rc;
		rc = n < META__XATTR_FREE ? meta__tx_del(m, in->shard, &key) : 0;
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}
