/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The values of attribute, directory, links and orphan records: bytes to checked structs and back.
 * (Those of names and inodes: meta_object.c.)
 *
 * A parser accepts:
 *
 *  (1) a handle that names an object (directory not 0, all within their bits) [test_meta_spoil];
 *  (2) lengths that agree with the length of the value, reserved bytes zero [test_meta_spoil].
 */
#include "meta/format/meta_record.h"

#include <errno.h>
#include <string.h>

static bool all_zero(const uint8_t *bytes, size_t size_bytes)
{
	uint8_t any = 0;

	while (size_bytes--)
		any |= *bytes++;
	return any == 0;
}

static struct meta_handle handle_of(le64 dir, le64 hash, le64 uniq)
{
	return (struct meta_handle){ le64_get(dir), le64_get(hash), le64_get(uniq) };
}

int meta__xattr_parse(const void *value, uint32_t value_len, struct meta__xattr *out)
{
	struct meta_xattr_disk d;
	uint32_t there;

	if (value_len < sizeof(d))
		return -EIO;
	memcpy(&d, value, sizeof(d));
	*out = (struct meta__xattr){
		.value_len = le32_get(d.value_len),
		.name_len = d.name_len,
		.name = (const char *)value + sizeof(d),
	};
	if (out->value_len > META_XATTR_MAX || out->name_len == 0 ||
	    !all_zero(d.reserved, sizeof(d.reserved)))
		return -EIO;
	there = meta__xattr_pieces(out->value_len) ? 0 : out->value_len;
	if (value_len != sizeof(d) + out->name_len + there || memchr(out->name, 0, out->name_len))
		return -EIO;
	if (!meta__xattr_pieces(out->value_len))
		out->value = (const uint8_t *)out->name + out->name_len;
	return 0;
}

uint32_t meta__xattr_build(const struct meta__xattr *in, void *buf)
{
	const struct meta_xattr_disk d = { .value_len = le32_of(in->value_len),
					   .name_len = (uint8_t)in->name_len };
	const uint32_t there = meta__xattr_pieces(in->value_len) ? 0 : in->value_len;
	uint8_t *p = buf;

	ASSERT(in->name_len > 0 && in->name_len <= META_XATTR_NAME_MAX);
	ASSERT(in->value_len <= META_XATTR_MAX);
	memcpy(p, &d, sizeof(d));
	memcpy(p + sizeof(d), in->name, in->name_len);
	if (there)
		memcpy(p + sizeof(d) + in->name_len, in->value, there);
	return (uint32_t)sizeof(d) + in->name_len + there;
}

int meta__dir_parse(const void *value, uint32_t value_len, struct meta__dir *out)
{
	struct meta_dir_disk d;
	uint64_t flags;

	if (value_len != sizeof(d))
		return -EIO;
	memcpy(&d, value, sizeof(d));
	flags = le64_get(d.flags);
	*out = (struct meta__dir){
		.count = le64_get(d.count),
		.subdirs = le64_get(d.subdirs),
		.mtime_ns = (int64_t)le64_get(d.mtime_ns),
		.ctime_ns = (int64_t)le64_get(d.ctime_ns),
		.inode = handle_of(d.inode_dir, d.inode_hash, d.inode_uniq),
		.parent = le64_get(d.parent),
		.going = flags & META__DIR_GOING,
		.pending = flags & META__DIR_PENDING,
		.spread = flags & META__DIR_SPREAD,
		.mtime_set = flags & META__DIR_MTIME_SET,
		.fragments = (uint32_t)(flags >> META__DIR_FRAGMENTS_SHIFT) & 0xffff,
		.resets = (uint32_t)(flags >> META__DIR_RESETS_SHIFT),
		.own_bytes = le64_get(d.own_bytes),
		.own_blocks = le64_get(d.own_blocks),
	};
	if (!meta__handle_ok(&out->inode) || out->parent == 0 || out->parent > META__MASK48)
		return -EIO;
	if (out->count > META__MASK48 || out->subdirs > out->count)
		return -EIO;
	if (out->going && out->pending)
		return -EIO;
	if (!out->spread && (out->mtime_set || out->fragments))
		return -EIO;
	return (flags & 0xffff) <= META__DIR_FLAGS ? 0 : -EIO;
}

void meta__dir_build(const struct meta__dir *in, struct meta_dir_disk *out)
{
	const uint64_t flags =
		(in->going ? META__DIR_GOING : 0) | (in->pending ? META__DIR_PENDING : 0) |
		(in->spread ? META__DIR_SPREAD : 0) | (in->mtime_set ? META__DIR_MTIME_SET : 0);

	DASSERT(in->parent != 0); /* (1) */
	DASSERT(meta__handle_ok(&in->inode));
	DASSERT(in->spread || (!in->mtime_set && !in->fragments));
	ASSERT(!(in->going && in->pending));
	*out = (struct meta_dir_disk){
		.count = le64_of(in->count),
		.subdirs = le64_of(in->subdirs),
		.mtime_ns = le64_of((uint64_t)in->mtime_ns),
		.ctime_ns = le64_of((uint64_t)in->ctime_ns),
		.inode_dir = le64_of(in->inode.dir),
		.inode_hash = le64_of(in->inode.hash),
		.inode_uniq = le64_of(in->inode.uniq),
		.parent = le64_of(in->parent),
		.flags = le64_of(flags | (uint64_t)in->fragments << META__DIR_FRAGMENTS_SHIFT |
				 (uint64_t)in->resets << META__DIR_RESETS_SHIFT),
		.own_bytes = le64_of(in->own_bytes),
		.own_blocks = le64_of(in->own_blocks),
	};
}

static struct meta__sums sums_get(const struct meta_sums_disk *d)
{
	return (struct meta__sums){ le64_get(d->entries), le64_get(d->dirs), le64_get(d->bytes),
				    le64_get(d->blocks) };
}

static struct meta_sums_disk sums_put(const struct meta__sums *s)
{
	return (struct meta_sums_disk){ le64_of(s->entries), le64_of(s->dirs), le64_of(s->bytes),
					le64_of(s->blocks) };
}

int meta__totals_parse(const void *value, uint32_t value_len, struct meta__totals *out)
{
	struct meta_totals_disk d;

	if (value_len != sizeof(d))
		return -EIO;
	memcpy(&d, value, sizeof(d));
	*out = (struct meta__totals){ .below = sums_get(&d.below), .passed = sums_get(&d.passed) };
	return 0;
}

void meta__totals_build(const struct meta__totals *in, struct meta_totals_disk *out)
{
	*out = (struct meta_totals_disk){ sums_put(&in->below), sums_put(&in->passed) };
}

int meta__links_parse(const void *value, uint32_t value_len, uint64_t *names)
{
	le64 d;

	if (value_len != sizeof(d))
		return -EIO;
	memcpy(&d, value, sizeof(d));
	*names = le64_get(d);
	return *names && *names <= META_LINKS_MAX ? 0 : -EIO;
}

int meta__orphan_parse(const void *value, uint32_t value_len, struct meta__orphan *out)
{
	struct meta_orphan_disk d;

	if (value_len != sizeof(d))
		return -EIO;
	memcpy(&d, value, sizeof(d));
	*out = (struct meta__orphan){
		.handle = handle_of(d.inode_dir, d.inode_hash, d.inode_uniq),
		.mount_epoch = le64_get(d.mount_epoch),
	};
	return meta__handle_ok(&out->handle) ? 0 : -EIO;
}

void meta__orphan_build(const struct meta__orphan *in, struct meta_orphan_disk *out)
{
	ASSERT(meta__handle_ok(&in->handle)); /* (1) */
	*out = (struct meta_orphan_disk){
		.inode_dir = le64_of(in->handle.dir),
		.inode_hash = le64_of(in->handle.hash),
		.inode_uniq = le64_of(in->handle.uniq),
		.mount_epoch = le64_of(in->mount_epoch),
	};
}
