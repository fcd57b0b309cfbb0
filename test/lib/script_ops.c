/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scripted appliance's answers: as PROTOCOL.md says, the simple way.
 *
 * A window is made (or pulled) as one image in memory, and sent as two parts: what is at its
 * start, and the table at its end.
 */
#include "test/lib/script_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PART_MAX (4u << 20)

struct image {
	struct script *script;
	struct fab_req *req;
	uint32_t pulls; /* still to come */
	int err;
	uint32_t used;
	uint8_t bytes[];
};

struct out {
	struct fab_piece piece;
	uint8_t bytes[];
};

/* ---- windows ----------------------------------------------------------------------------- */

static struct image *image_new(struct script *s, struct fab_req *req)
{
	struct image *im = calloc(1, sizeof(*im) + req->window.length_bytes);

	ASSERT(im);
	im->script = s;
	im->req = req;
	return im;
}

void script__sent(struct fab_piece *piece)
{
	free(container_of(piece, struct out, piece));
}

static void send_range(struct fab_req *req, const uint8_t *bytes, uint32_t at, uint32_t length)
{
	while (length > 0) {
		uint32_t part = min_u32(length, PART_MAX);
		struct out *o = calloc(1, sizeof(*o) + part);

		ASSERT(o);
		memcpy(o->bytes, bytes + at, part);
		o->piece.window_at = at;
		o->piece.length_bytes = part;
		o->piece.bytes = o->bytes;
		if (fab_send_part(req, &o->piece) != 0)
			free(o);
		at += part;
		length -= part;
	}
}

/* One bit of a block flips on its way, when the test wants that. */
static void lie(struct script *s, uint8_t *block)
{
	uint32_t left = atomic_load(&s->lies);

	if (left > 0 && atomic_compare_exchange_strong(&s->lies, &left, left - 1))
		block[100] ^= 1;
}

/* ---- reads ------------------------------------------------------------------------------- */

static struct script_file *by_handle(struct script *s, const struct fab_handle *h)
{
	uint32_t i;

	memcpy(&i, h->bytes, sizeof(i));
	return i < SCRIPT_FILES_MAX && s->files[i].name ? &s->files[i] : NULL;
}

static struct fab_handle handle_of(struct script *s, const struct script_file *f)
{
	struct fab_handle h = { .bytes = { 0 } };
	uint32_t i = (uint32_t)(f - s->files);

	memcpy(h.bytes, &i, sizeof(i));
	memset(h.bytes + 12, 0xa5, 4);
	return h;
}

static struct script_file *named(struct script *s, const struct fab_name *n)
{
	if (n->by == FAB_BY_HANDLE)
		return by_handle(s, &n->handle);
	return script__find(s, n->name, n->name_bytes);
}

static void attr_of(struct script *s, const struct script_file *f, struct fab_attr *a)
{
	*a = (struct fab_attr){
		.handle = handle_of(s, f),
		.ino = (uint64_t)(f - s->files) + 2,
		.dir = S_ISDIR(f->mode) ? (uint64_t)(f - s->files) + 2 : 0,
		.size_bytes = f->size_bytes,
		.allocated_bytes = align_up(f->size_bytes, BLOCK_SIZE),
		.mtime_ns = f->mtime_ns,
		.mode = f->mode,
		.uid = f->uid,
		.gid = f->gid,
		.nlink = 1,
	};
}

/* Blocks of `f` from `offset` to im->used on; returns bytes. */
static uint64_t blocks_put(struct image *im, const struct script_file *f, uint64_t offset,
			   uint64_t length, uint32_t *sums)
{
	uint64_t left = f->size_bytes > offset ? f->size_bytes - offset : 0, got, i;

	ASSERT(offset % BLOCK_SIZE == 0);
	got = min_u64(left, length);
	for (i = 0; i < div_up(got, BLOCK_SIZE); i++) {
		uint64_t at = offset + i * BLOCK_SIZE;
		uint64_t part = min_u64(f->size_bytes - at, BLOCK_SIZE);

		memcpy(im->bytes + im->used, f->bytes + at, part);
		sums[i] = crc32c_block(im->bytes + im->used, (uint32_t)part);
		lie(im->script, im->bytes + im->used);
		im->used += BLOCK_SIZE;
	}
	return got;
}

static void do_read(struct script *s, struct fab_req *req)
{
	const struct script_file *f = by_handle(s, &req->args.read.handle);
	uint32_t blocks = (uint32_t)div_up(req->args.read.length_bytes, BLOCK_SIZE);
	struct image *im = image_new(s, req);
	uint32_t *sums = calloc(blocks, sizeof(*sums)), sums_at;
	uint64_t got;

	if (!f) {
		fab_reply(req, -ESTALE, NULL, 0);
	} else {
		got = blocks_put(im, f, req->args.read.offset_bytes, req->args.read.length_bytes,
				 sums);
		blocks = (uint32_t)div_up(got, BLOCK_SIZE);
		sums_at = im->used;
		if (blocks > FAB_SUMS_INLINE) {
			memcpy(im->bytes + sums_at, sums, 4 * blocks);
			im->used += 4 * blocks;
		}
		send_range(req, im->bytes, 0, im->used);
		fab_reply_read(req, (uint32_t)got, blocks > FAB_SUMS_INLINE ? NULL : sums, sums_at);
	}
	free(sums);
	free(im);
}

/* Its blocks; sums go to *sums, and stand in the window later. */
static void read_item(struct image *im, uint32_t i, uint32_t limit, uint32_t **sums,
		      struct fab_answer *a)
{
	struct fab_read_item item;
	const struct script_file *f;
	uint64_t have, blocks;

	fab_req_read_item(im->req, i, &item);
	f = named(im->script, &item.name);
	*a = (struct fab_answer){ .status = 0 };
	if (!f || !S_ISREG(f->mode)) {
		a->status = f ? -EISDIR : -ENOENT;
		return;
	}
	have = f->size_bytes > item.offset_bytes ? f->size_bytes - item.offset_bytes : 0;
	have = min_u64(have, item.length_bytes);
	blocks = div_up(have, BLOCK_SIZE);
	if (im->used + blocks * BLOCK_SIZE + 4 * (im->used / BLOCK_SIZE + blocks) > limit) {
		a->status = -EMSGSIZE;
		a->length_bytes = have;
		return;
	}
	a->data_at = im->used;
	a->length_bytes = blocks_put(im, f, item.offset_bytes, item.length_bytes, *sums);
	*sums += blocks;
}

/* All blocks, then all their checksums: one part. */
static void do_read_batch(struct script *s, struct fab_req *req)
{
	uint32_t count = req->args.batch.count, i;
	uint32_t table = fab_answers_at(req->window.length_bytes, count);
	struct image *im = image_new(s, req);
	uint32_t *sums = calloc(req->window.length_bytes / BLOCK_SIZE, sizeof(*sums)), *next = sums;
	struct fab_answer *answers = calloc(count, sizeof(*answers));

	for (i = 0; i < count; i++)
		read_item(im, i, table, &next, &answers[i]);
	for (i = 0; i < count; i++) {
		answers[i].sums_at =
			answers[i].status ? 0 : im->used + answers[i].data_at / BLOCK_SIZE * 4;
		fab_build_answer_read(im->bytes + table + i * FAB_ANSWER_BYTES, &answers[i]);
	}
	memcpy(im->bytes + im->used, sums, (size_t)((char *)next - (char *)sums));
	im->used += (uint32_t)((char *)next - (char *)sums);
	send_range(req, im->bytes, 0, im->used);
	send_range(req, im->bytes, table, req->window.length_bytes - table);
	fab_reply(req, 0, NULL, 0);
	free(answers);
	free(sums);
	free(im);
}

/* ---- names --------------------------------------------------------------------------------- */

static void reply_attr(struct script *s, struct fab_req *req, const struct script_file *f)
{
	uint8_t body[FAB_STAT_BYTES];
	struct fab_attr a;

	attr_of(s, f, &a);
	fab_reply(req, 0, body, fab_build_stat(body, 0, &a));
}

static void do_open(struct script *s, struct fab_req *req)
{
	struct script_file *f = named(s, &req->args.open.name);

	if (f && (req->args.open.flags & FAB_OPEN_EXCL)) {
		fab_reply(req, -EEXIST, NULL, 0);
		return;
	}
	if (f && (req->args.open.flags & FAB_OPEN_DIRECTORY) && !S_ISDIR(f->mode)) {
		fab_reply(req, -ENOTDIR, NULL, 0);
		return;
	}
	if (!f && (req->args.open.flags & FAB_OPEN_CREATE)) {
		f = script__make(s, req->args.open.name.name, req->args.open.name.name_bytes);
		f->mode = S_IFREG | req->args.open.mode;
	}
	if (!f) {
		fab_reply(req, -ENOENT, NULL, 0);
		return;
	}
	if (req->args.open.flags & FAB_OPEN_TRUNC)
		f->size_bytes = 0;
	reply_attr(s, req, f);
}

static void do_stat(struct script *s, struct fab_req *req)
{
	uint32_t count = req->args.batch.count, i;
	uint8_t *table = calloc(count, FAB_STAT_BYTES);

	for (i = 0; i < count; i++) {
		struct script_file *f;
		struct fab_name name;
		struct fab_attr a;

		fab_req_name(req, i, &name);
		f = named(s, &name);
		if (f)
			attr_of(s, f, &a);
		fab_build_stat(table + i * FAB_STAT_BYTES, f ? 0 : -ENOENT, &a);
	}
	if (req->window.length_bytes == 0) {
		fab_reply(req, 0, table, count * FAB_STAT_BYTES);
	} else {
		send_range(req, table, 0, count * FAB_STAT_BYTES);
		fab_reply(req, 0, NULL, 0);
	}
	free(table);
}

/* The cookie is the number of the file to go on from.  A directory lists all files but itself. */
static void do_list(struct script *s, struct fab_req *req)
{
	const struct script_file *self = named(s, &req->args.list.dir);
	struct image *im = image_new(s, req);
	uint8_t cookie[FAB_COOKIE_BYTES], body[FAB_LISTED_BYTES];
	uint32_t count = 0, i;

	memcpy(cookie, req->args.list.cookie, sizeof(cookie));
	memcpy(&i, cookie, sizeof(i));
	for (; i < SCRIPT_FILES_MAX && count < req->args.list.count_max; i++) {
		struct fab_entry e = { .name = s->files[i].name };

		if (!e.name || s->files[i].hidden || &s->files[i] == self)
			continue;
		e.name_bytes = (uint16_t)strlen(e.name);
		if (im->used + fab_entry_bytes(e.name_bytes) > req->window.length_bytes)
			break;
		attr_of(s, &s->files[i], &e.attr);
		im->used += fab_build_entry(im->bytes + im->used, &e);
		count++;
	}
	memcpy(cookie, &i, sizeof(i));
	send_range(req, im->bytes, 0, im->used);
	fab_reply(req, 0, body,
		  fab_build_listed(body, count, im->used, i == SCRIPT_FILES_MAX, cookie));
	free(im);
}

static void reply_text(struct fab_req *req, const char *text, uint64_t bytes)
{
	uint8_t body[8];

	if (req->window.length_bytes == 0) {
		fab_reply(req, 0, text, (uint32_t)bytes);
		return;
	}
	send_range(req, (const uint8_t *)text, 0, (uint32_t)bytes);
	fab_reply(req, 0, body, fab_build_u64(body, bytes));
}

static void do_readlink(struct script *s, struct fab_req *req)
{
	const struct script_file *f = named(s, &req->args.name.name);

	if (!f || !S_ISLNK(f->mode))
		fab_reply(req, f ? -EINVAL : -ENOENT, NULL, 0);
	else
		reply_text(req, f->bytes, f->size_bytes);
}

static void file_drop(struct script_file *f)
{
	free(f->name);
	free(f->bytes);
	memset(f, 0, sizeof(*f));
}

static int remove_named(struct script *s, const struct fab_name *name, bool dir)
{
	struct script_file *f = named(s, name);

	if (!f)
		return -ENOENT;
	if (S_ISDIR(f->mode) != dir)
		return dir ? -ENOTDIR : -EISDIR;
	file_drop(f);
	return 0;
}

static void do_unlink_batch(struct script *s, struct fab_req *req)
{
	uint32_t count = req->args.batch.count, bytes = count * FAB_STATUS_BYTES, i;
	uint8_t *table = calloc(count, FAB_STATUS_BYTES);

	for (i = 0; i < count; i++) {
		struct fab_name name;

		fab_req_name(req, i, &name);
		fab_build_status(table + i * FAB_STATUS_BYTES, remove_named(s, &name, false));
	}
	if (req->window.length_bytes)
		send_range(req, table, 0, bytes);
	fab_reply(req, 0, table, req->window.length_bytes ? 0 : bytes);
	free(table);
}

/* Nothing is ever removed that a test has open. */
static void do_holds(struct fab_req *req)
{
	uint8_t table[FAB_BODY_MAX];
	uint32_t count = req->args.batch.count, i;

	ASSERT(count * FAB_STATUS_BYTES <= sizeof(table));
	for (i = 0; i < count; i++)
		fab_build_status(table + i * FAB_STATUS_BYTES, 0);
	fab_reply(req, 0, table, count * FAB_STATUS_BYTES);
}

static int do_rename(struct script *s, struct fab_req *req)
{
	struct script_file *f = named(s, &req->args.rename.from);
	struct script_file *over = named(s, &req->args.rename.to);

	if (!f)
		return -ENOENT;
	if (over && (req->args.rename.flags & FAB_RENAME_NOREPLACE))
		return -EEXIST;
	if (over)
		file_drop(over);
	free(f->name);
	f->name = strndup(req->args.rename.to.name, req->args.rename.to.name_bytes);
	return 0;
}

/* A copy of what there is now: nobody here writes to a file that has two names. */
static int do_link(struct script *s, struct fab_req *req)
{
	const struct script_file *from = named(s, &req->args.rename.from);
	struct script_file *f;

	if (!from)
		return -ENOENT;
	if (S_ISDIR(from->mode))
		return -EPERM;
	if (named(s, &req->args.rename.to))
		return -EEXIST;
	f = script__make(s, req->args.rename.to.name, req->args.rename.to.name_bytes);
	f->mode = from->mode;
	f->uid = from->uid;
	f->gid = from->gid;
	f->mtime_ns = from->mtime_ns;
	f->size_bytes = from->size_bytes;
	free(f->bytes);
	f->bytes = malloc(from->size_bytes + 1);
	ASSERT(f->bytes);
	if (from->size_bytes)
		memcpy(f->bytes, from->bytes, from->size_bytes);
	return 0;
}

static void resize(struct script_file *f, uint64_t size_bytes)
{
	char *bytes = realloc(f->bytes, size_bytes + 1);

	ASSERT(bytes);
	if (size_bytes > f->size_bytes)
		memset(bytes + f->size_bytes, 0, size_bytes - f->size_bytes);
	f->bytes = bytes;
	f->size_bytes = size_bytes;
}

static int do_size(struct script *s, struct fab_req *req)
{
	struct script_file *f = by_handle(s, &req->args.size.handle);

	if (!f)
		return -ESTALE;
	if (req->type == FAB_TRUNCATE) {
		resize(f, req->args.size.size_bytes);
		return 0;
	}
	if (req->type == FAB_PUT_ABORT && f->hidden) {
		file_drop(f);
		return 0;
	}
	if (!f->hidden || f->size_bytes != req->args.size.size_bytes)
		return -EINVAL;
	for (uint32_t i = 0; i < SCRIPT_FILES_MAX; i++)
		if (s->files[i].name && !s->files[i].hidden &&
		    strcmp(s->files[i].name, f->name) == 0)
			file_drop(&s->files[i]);
	f->hidden = false;
	return 0;
}

static int do_setattr(struct script *s, struct fab_req *req)
{
	struct script_file *f = named(s, &req->args.setattr.name);

	if (!f)
		return -ENOENT;
	if (req->args.setattr.mask & FAB_SET_MODE)
		f->mode = (f->mode & S_IFMT) | req->args.setattr.mode;
	if (req->args.setattr.mask & FAB_SET_MTIME)
		f->mtime_ns = req->args.setattr.mtime_ns;
	return 0;
}

/* PUT_BEGIN, MKDIR, SYMLINK. */
static void do_make(struct script *s, struct fab_req *req)
{
	const struct fab_name *name =
		req->type == FAB_SYMLINK ? &req->args.symlink.name : &req->args.make.name;
	struct script_file *f = script__find(s, name->name, name->name_bytes);

	if (f && req->type != FAB_PUT_BEGIN) {
		fab_reply(req, -EEXIST, NULL, 0);
		return;
	}
	f = script__make(s, name->name, name->name_bytes);
	if (req->type == FAB_SYMLINK) {
		f->mode = S_IFLNK | 0777;
		resize(f, req->args.symlink.target_bytes);
		memcpy(f->bytes, req->args.symlink.target, f->size_bytes);
	} else {
		f->hidden = req->type == FAB_PUT_BEGIN;
		f->mode = req->args.make.mode | (f->hidden ? S_IFREG : S_IFDIR);
		f->uid = req->args.make.uid;
		f->gid = req->args.make.gid;
		f->mtime_ns = req->args.make.mtime_ns;
	}
	reply_attr(s, req, f);
}

/* ---- what brings bytes ---------------------------------------------------------------------- */

/* Returns true if the client's checksums match the received bytes. */
static bool sums_match(const uint8_t *bytes, uint32_t size, uint32_t skip, const uint8_t *sums)
{
	while (size > 0) {
		uint32_t part = min_u32(size, BLOCK_SIZE - skip), sum;

		memcpy(&sum, sums, sizeof(sum));
		if (crc32c_block(bytes, part) != sum)
			return false;
		bytes += part;
		size -= part;
		sums += sizeof(sum);
		skip = 0;
	}
	return true;
}

static int put_item(struct image *im, uint32_t i, struct fab_answer *a)
{
	struct script *s = im->script;
	struct fab_put_item item;
	struct script_file *f;

	fab_req_put_item(im->req, i, &item);
	f = script__find(s, item.name.name, item.name.name_bytes);
	if (f && (item.flags & FAB_PUT_EXCL))
		return -EEXIST;
	if (!sums_match(im->bytes + item.payload_at, item.size_bytes, 0, im->bytes + item.sums_at))
		return -EBADMSG;
	if (f)
		file_drop(f);
	f = script__make(s, item.name.name, item.name.name_bytes);
	f->mode = S_IFREG | item.mode;
	f->uid = item.uid;
	f->gid = item.gid;
	f->mtime_ns = item.mtime_ns;
	resize(f, item.size_bytes);
	memcpy(f->bytes, im->bytes + item.payload_at, item.size_bytes);
	a->handle = handle_of(s, f);
	return 0;
}

static void put_have(struct image *im)
{
	uint32_t count = im->req->args.batch.count, i;
	uint32_t table = fab_answers_at(im->req->window.length_bytes, count);

	for (i = 0; i < count; i++) {
		struct fab_answer a = { .status = 0 };

		a.status = put_item(im, i, &a);
		fab_build_answer_put(im->bytes + table + i * FAB_ANSWER_BYTES, &a);
	}
	send_range(im->req, im->bytes, table, im->req->window.length_bytes - table);
	fab_reply(im->req, 0, NULL, 0);
}

static void write_have(struct image *im)
{
	struct fab_req *req = im->req;
	struct script_file *f = by_handle(im->script, &req->args.write.handle);
	bool append = req->args.write.flags & FAB_WRITE_APPEND;
	uint64_t at, end;
	uint32_t length = req->args.write.length_bytes;
	uint8_t body[8];

	if (!f || !sums_match(im->bytes + req->args.write.payload_at, length,
			      append ? 0 : req->args.write.offset_bytes % BLOCK_SIZE,
			      im->bytes + req->args.write.sums_at)) {
		fab_reply(req, f ? -EBADMSG : -ESTALE, NULL, 0);
		return;
	}
	at = append ? f->size_bytes : req->args.write.offset_bytes;
	end = at + length;
	if (end > f->size_bytes)
		resize(f, end);
	memcpy(f->bytes + at, im->bytes + req->args.write.payload_at, length);
	fab_reply(req, 0, body, fab_build_u64(body, f->size_bytes));
}

static void image_have(struct image *im)
{
	if (im->err)
		fab_reply(im->req, im->err, NULL, 0);
	else if (im->req->type == FAB_PUT)
		put_have(im);
	else
		write_have(im);
	free(im);
}

void script__pulled(struct script *s, struct fab_piece *piece)
{
	struct image *im = piece->user;

	(void)s;
	im->err = im->err ? im->err : piece->status;
	free(piece);
	if (--im->pulls == 0)
		image_have(im);
}

/* All of the window, then the rest. */
static void do_pull(struct script *s, struct fab_req *req)
{
	struct image *im = image_new(s, req);
	uint32_t at, part;
	int got;

	im->pulls = 1;
	for (at = 0; at < req->window.length_bytes; at += part) {
		struct fab_piece *piece = calloc(1, sizeof(*piece));

		ASSERT(piece);
		part = min_u32(req->window.length_bytes - at, PART_MAX);
		piece->user = im;
		piece->window_at = at;
		piece->length_bytes = part;
		piece->bytes = im->bytes + at;
		got = fab_pull(req, piece);
		if (got == 0) {
			im->pulls++;
			continue;
		}
		free(piece);
		im->err = got < 0 ? got : im->err;
	}
	if (--im->pulls == 0)
		image_have(im);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void do_statfs(struct fab_req *req)
{
	struct fab_statfs fs = { .total_bytes = 1 << 30,
				 .free_bytes = 1 << 29,
				 .files = 3,
				 .dirs = 1,
				 .name_max = 255,
				 .shard_count = 64 };
	uint8_t body[FAB_STATFS_BYTES];

	fab_reply(req, 0, body, fab_build_statfs(body, &fs));
}

static void do_totals(struct fab_req *req)
{
	struct fab_totals t = {
		.entries = 7, .dirs = 2, .bytes = 12345, .allocated_bytes = 16384, .settled = true
	};
	uint8_t body[FAB_TOTALS_BYTES];

	fab_reply(req, 0, body, fab_build_totals(body, &t));
}

static int simple(struct script *s, struct fab_req *req)
{
	switch (req->type) {
	case FAB_RMDIR:
	case FAB_UNLINK:
		return remove_named(s, &req->args.name.name, req->type == FAB_RMDIR);
	case FAB_RENAME:
		return do_rename(s, req);
	case FAB_LINK:
		return do_link(s, req);
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		return do_size(s, req);
	case FAB_SETATTR:
		return do_setattr(s, req);
	case FAB_PING:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

void script__request(struct script *s, struct fab_req *req)
{
	switch (req->type) {
	case FAB_READ:
		do_read(s, req);
		return;
	case FAB_READ_BATCH:
		do_read_batch(s, req);
		return;
	case FAB_OPEN:
		do_open(s, req);
		return;
	case FAB_STAT:
		do_stat(s, req);
		return;
	case FAB_UNLINK_BATCH:
		do_unlink_batch(s, req);
		return;
	case FAB_HOLD:
	case FAB_LET_GO:
		do_holds(req);
		return;
	case FAB_LIST:
		do_list(s, req);
		return;
	case FAB_READLINK:
		do_readlink(s, req);
		return;
	case FAB_STATUS:
		reply_text(req, "{\"up\":true}", 11);
		return;
	case FAB_STATFS:
		do_statfs(req);
		return;
	case FAB_TOTALS:
		do_totals(req);
		return;
	case FAB_PUT:
	case FAB_WRITE:
		do_pull(s, req);
		return;
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
	case FAB_SYMLINK:
		do_make(s, req);
		return;
	default:
		fab_reply(req, simple(s, req), NULL, 0);
		return;
	}
}
