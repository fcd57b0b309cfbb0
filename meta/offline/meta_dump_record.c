/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Prints a record in words, from a page or the log: its kind, key and value.  Each value goes
 * through the store's own parser; a value that it refuses is printed as malformed, with its length.
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

struct words {
	char text[6000];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *fmt, ...)
{
	va_list args;
	int n;

	ASSERT(w->used < sizeof(w->text));
	va_start(args, fmt);
	n = vsnprintf(w->text + w->used, sizeof(w->text) - w->used, fmt, args);
	va_end(args);
	w->used = min_u64(w->used + (n > 0 ? (uint32_t)n : 0), sizeof(w->text) - 1);
	ASSERT(w->used < sizeof(w->text));
	ASSERT(w->text[w->used] == '\0' || w->used == sizeof(w->text) - 1);
}

static void say_handle(struct words *w, const struct meta_handle *h)
{
	ASSERT(h);
	say(w, "%llx.%llx.%llx", (unsigned long long)h->dir, (unsigned long long)h->hash,
	    (unsigned long long)h->uniq);
}

static const char *const types[] = { "?", "file", "directory", "symlink" };

static int say_name(struct words *w, const struct meta_key *key, const void *value, uint32_t len)
{
	struct meta__name n;

	if (meta__name_parse(key, value, len, &n))
		return -EUCLEAN;
	ASSERT(n.type < ARRAY_LEN(types));
	say(w, "'%.*s' is %s ", (int)n.len, n.bytes, types[n.type]);
	say_handle(w, &n.handle);
	if (n.child)
		say(w, ", number %llx", (unsigned long long)n.child);
	return 0;
}

static int say_inode(struct words *w, uint32_t shard, const struct meta_key *key, const void *value,
		     uint32_t len)
{
	const struct meta_handle h = meta__key_handle(key);
	struct meta__inode in;

	if (meta__inode_parse(shard, &h, value, len, &in))
		return -EUCLEAN;
	ASSERT(in.type < ARRAY_LEN(types));
	say(w, "%s, mode %04o, uid %u, gid %u, names %u, size %llu, blocks %llu", types[in.type],
	    in.mode, in.uid, in.gid, in.nlink, (unsigned long long)in.size,
	    (unsigned long long)in.blocks);
	say(w, ", mtime %lld, ctime %lld, atime %lld, ino %llx", (long long)in.mtime_ns,
	    (long long)in.ctime_ns, (long long)in.atime_ns,
	    (unsigned long long)meta__inode_ino(shard, &h));
	if (in.child)
		say(w, ", number %llx", (unsigned long long)in.child);
	if (in.tail_len)
		say(w, ", tail %u bytes with checksum %08x", in.tail_len, in.inline_crc);
	if (in.xattrs)
		say(w, ", attributes %u", in.xattrs);
	if (in.flags & META__INODE_TRIMMING)
		say(w, ", trimming from chunk %llu", (unsigned long long)in.trim_from);
	if (in.counted)
		say(w, ", counted by %llx", (unsigned long long)in.counted);
	if (in.flags & META__INODE_HIDDEN)
		say(w, ", hidden");
	if (in.flags & META__INODE_TREE)
		say(w, ", its tree goes");
	if (in.inline_len && in.type == META_TYPE_SYMLINK)
		say(w, ", leads to '%.*s'", (int)in.inline_len, (const char *)in.inline_bytes);
	else if (in.inline_len)
		say(w, ", inline %u bytes with checksum %08x", in.inline_len, in.inline_crc);
	if (in.inline_len && crc32c_block(in.inline_bytes, in.inline_len) != in.inline_crc)
		say(w, " (they have %08x)", crc32c_block(in.inline_bytes, in.inline_len));
	return 0;
}

static int say_extent(struct words *w, const void *value, uint32_t len)
{
	struct meta__extent x;
	uint32_t at = 0;

	if (meta__extent_parse(value, len, &x))
		return -EUCLEAN;
	say(w, "%u blocks", x.nblocks);
	for (uint32_t i = 0; i < x.nruns; i++) {
		struct meta_run run = meta__extent_run(&x, i);

		say(w, run.baddr ? "; %u:%llu" : "; hole", META_BADDR_DRIVE(run.baddr),
		    (unsigned long long)META_BADDR_BLOCK(run.baddr));
		say(w, " + %u", run.nblocks);
		for (uint32_t k = 0; k < run.nblocks && at < x.nblocks; k++, at++) {
			le32 crc;

			memcpy(&crc, x.crcs + at * sizeof(crc), sizeof(crc));
			if (run.baddr)
				say(w, " %08x", le32_get(crc));
		}
	}
	ASSERT(at <= x.nblocks);
	return 0;
}

static int say_xattr(struct words *w, uint64_t index, const void *value, uint32_t len)
{
	struct meta__xattr x;

	if (index & 0xff) {
		say(w, "piece %u, %u bytes", (uint32_t)(index & 0xff), len);
		return len && len <= META__XATTR_PIECE ? 0 : -EUCLEAN;
	}
	if (meta__xattr_parse(value, len, &x))
		return -EUCLEAN;
	ASSERT((index & 0xff) == 0);
	ASSERT(x.name_len > 0);
	say(w, "'%.*s', %u bytes", (int)x.name_len, x.name, x.value_len);
	if (!x.value)
		say(w, " in pieces");
	return 0;
}

static int say_dir(struct words *w, const void *value, uint32_t len)
{
	struct meta__dir d;

	if (meta__dir_parse(value, len, &d))
		return -EUCLEAN;
	ASSERT(value);
	say(w, "%llu names, %llu of directories, parent %llx, inode ", (unsigned long long)d.count,
	    (unsigned long long)d.subdirs, (unsigned long long)d.parent);
	say_handle(w, &d.inode);
	say(w, ", mtime %lld, ctime %lld, %llu bytes and %llu blocks of files",
	    (long long)d.mtime_ns, (long long)d.ctime_ns, (unsigned long long)d.own_bytes,
	    (unsigned long long)d.own_blocks);
	say(w, "%s", d.going ? ", goes with its tree" : d.pending ? ", pending" : "");
	if (d.spread)
		say(w, ", spread over parts %04x%s", d.fragments, d.mtime_set ? ", mtime set" : "");
	if (d.resets)
		say(w, ", resets %u", d.resets);
	return 0;
}

static void say_sums(struct words *w, const char *what, const struct meta__sums *s)
{
	ASSERT(what);
	say(w, "%s %llu entries, %llu directories, %llu bytes, %llu blocks", what,
	    (unsigned long long)s->entries, (unsigned long long)s->dirs,
	    (unsigned long long)s->bytes, (unsigned long long)s->blocks);
}

static int say_totals(struct words *w, const void *value, uint32_t len)
{
	struct meta__totals t;

	if (meta__totals_parse(value, len, &t))
		return -EUCLEAN;
	ASSERT(value);
	say_sums(w, "below", &t.below);
	say_sums(w, "; passed up", &t.passed);
	return 0;
}

static int say_links(struct words *w, const void *value, uint32_t len)
{
	uint64_t names;

	if (meta__links_parse(value, len, &names))
		return -EUCLEAN;
	ASSERT(value);
	say(w, "%llu names", (unsigned long long)names);
	return 0;
}

static int say_orphan(struct words *w, const void *value, uint32_t len)
{
	struct meta__orphan o;

	if (meta__orphan_parse(value, len, &o))
		return -EUCLEAN;
	ASSERT(value);
	say_handle(w, &o.handle);
	if (o.mount_epoch)
		say(w, ", held by mount %llu", (unsigned long long)o.mount_epoch);
	return 0;
}

static int say_pending(struct words *w, const void *value, uint32_t len)
{
	le64 round;

	if (len != sizeof(round))
		return -EUCLEAN;
	ASSERT(value);
	memcpy(&round, value, sizeof(round));
	say(w, "round %llu", (unsigned long long)le64_get(round));
	return 0;
}

static int say_zone(struct words *w, const void *value, uint32_t len)
{
	le64 live;

	if (len != sizeof(live))
		return -EUCLEAN;
	ASSERT(value);
	memcpy(&live, value, sizeof(live));
	say(w, "%llu blocks live", (unsigned long long)le64_get(live));
	return 0;
}

static int say_receipt(struct words *w, const struct meta_key *key, const void *value, uint32_t len)
{
	const struct meta__mut mut = { .key = *key, .value = value, .value_len = len };
	le64 words[3];

	if (meta__receipt_check(&mut) || len > sizeof(words))
		return -EUCLEAN;
	ASSERT(len <= sizeof(words));
	memcpy(words, value, len);
	say(w, "slot %u, number %llu", (uint32_t)meta__key_kind(key) & 63,
	    (unsigned long long)meta__key_index(key));
	for (uint32_t i = 0; i < len / sizeof(words[0]); i++)
		say(w, "%s%llx", i ? "." : ": ", (unsigned long long)le64_get(words[i]));
	return 0;
}

static const char *kind_of(const struct meta_key *key)
{
	static const char *const objects[] = { "?",    "inode", "tail", "extent",
					       "link", "xattr", "names" };
	static const char *const stores[] = { "zone", "orphan", "receipt", "pending" };
	uint32_t class_ = meta__key_class(key), kind = meta__key_kind(key);

	ASSERT(META__CLASS_PENDING - META__CLASS_ZONE < ARRAY_LEN(stores));
	if (meta__key_dir(key) == 0)
		return class_ >= META__CLASS_ZONE && class_ <= META__CLASS_PENDING
			       ? stores[class_ - META__CLASS_ZONE]
			       : "?";
	if (class_ == META__CLASS_OBJ)
		return kind < ARRAY_LEN(objects) ? objects[kind] : "?";
	if (class_ == META__CLASS_DIR && meta__key_index(key))
		return "sums";
	return class_ == META__CLASS_DIR ? "dir" : class_ == META__CLASS_NAME ? "name" : "?";
}

static int say_object(struct words *w, uint32_t shard, const struct meta_key *key,
		      const void *value, uint32_t len)
{
	ASSERT(meta__key_class(key) == META__CLASS_OBJ);
	ASSERT(meta__key_dir(key) != 0);
	switch (meta__key_kind(key)) {
	case META__KIND_INODE:
		return say_inode(w, shard, key, value, len);
	case META__KIND_EXTENT:
		return say_extent(w, value, len);
	case META__KIND_TAIL:
		say(w, "block %llu, piece %llu: %u bytes",
		    (unsigned long long)(meta__key_index(key) / META__TAIL_PIECES),
		    (unsigned long long)(meta__key_index(key) % META__TAIL_PIECES), len);
		return len && len <= META__TAIL_PIECE ? 0 : -EUCLEAN;
	case META__KIND_LINK:
		say(w, "piece %llu: '%.*s'", (unsigned long long)meta__key_index(key), (int)len,
		    (const char *)value);
		return len && len <= META__LINK_PIECE ? 0 : -EUCLEAN;
	case META__KIND_XATTR:
		return say_xattr(w, meta__key_index(key), value, len);
	case META__KIND_LINKS:
		return say_links(w, value, len);
	default:
		return -EUCLEAN;
	}
}

static int say_value(struct words *w, uint32_t shard, const struct meta_key *key, const void *value,
		     uint32_t len)
{
	if (kind_of(key)[0] == '?')
		return -EUCLEAN;
	ASSERT(w->used == 0);
	switch (meta__key_class(key)) {
	case META__CLASS_NAME:
		return say_name(w, key, value, len);
	case META__CLASS_OBJ:
		return say_object(w, shard, key, value, len);
	case META__CLASS_DIR:
		return meta__key_index(key) ? say_totals(w, value, len) : say_dir(w, value, len);
	case META__CLASS_ORPHAN:
		return say_orphan(w, value, len);
	case META__CLASS_ZONE:
		return say_zone(w, value, len);
	case META__CLASS_RECEIPT:
		return say_receipt(w, key, value, len);
	case META__CLASS_PENDING:
		return say_pending(w, value, len);
	}
	return -EUCLEAN;
}

int meta__dump_record(struct meta__table *t, uint32_t shard, const struct meta_key *key, bool del,
		      const void *value, uint32_t value_len)
{
	const bool zone = meta__key_dir(key) == 0 && meta__key_class(key) == META__CLASS_ZONE;
	struct words w = { .used = 0 };
	int err = 0;

	w.text[0] = 0;
	meta__cell_text(t, "%s", kind_of(key));
	if (zone)
		meta__cell_text(t, "%llu:%llu", (unsigned long long)meta__key_uniq(key),
				(unsigned long long)meta__key_index(key));
	else
		meta__cell_text(t, "%llx.%llx.%llx %llx", (unsigned long long)meta__key_dir(key),
				(unsigned long long)meta__key_hash(key),
				(unsigned long long)meta__key_uniq(key),
				(unsigned long long)meta__key_index(key));
	if (del) {
		say(&w, "deleted");
	} else if (say_value(&w, shard, key, value, value_len)) {
		err = -EUCLEAN;
		say(&w, "malformed: %u bytes", value_len);
	}
	meta__cell_text(t, "%s", w.text);
	return err;
	ASSERT(w.used < sizeof(w.text));
}
