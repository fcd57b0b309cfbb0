/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Replies: the appliance's builders, and the client's checked readers.  PROTOCOL.md 6.
 *
 * A reader copies before it checks, because a window in shared memory may change under it.  The
 * names of a listing are the exception: they are returned in place, with a length that is inside
 * the window whatever bytes they have.
 */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <string.h>

#define STATUS_MIN     (-4095)
#define NAME_MAX_BYTES 255u

/* ---- builders ----------------------------------------------------------------------- */

static void attr_build(struct fab_attr_wire *w, const struct fab_attr *attr)
{
	ASSERT(attr->dir >> FAB_DIR_BITS == 0);
	*w = (struct fab_attr_wire){
		.ino = le64_of(attr->ino),
		.dir = le64_of(attr->dir),
		.size_bytes = le64_of(attr->size_bytes),
		.allocated_bytes = le64_of(attr->allocated_bytes),
		.mtime_ns = le64_of((uint64_t)attr->mtime_ns),
		.ctime_ns = le64_of((uint64_t)attr->ctime_ns),
		.atime_ns = le64_of((uint64_t)attr->atime_ns),
		.mode = le32_of(attr->mode),
		.uid = le32_of(attr->uid),
		.gid = le32_of(attr->gid),
		.nlink = le32_of(attr->nlink),
		.xattrs = le32_of(attr->xattrs),
	};
	memcpy(w->handle, attr->handle.bytes, sizeof(w->handle));
}

uint32_t fab_build_stat(void *out, int status, const struct fab_attr *attr)
{
	struct fab_stat_wire w = { .status = le32_of((uint32_t)status) };

	ASSERT(status <= 0 && status >= STATUS_MIN);
	if (status == 0)
		attr_build(&w.attr, attr);
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_build_status(void *out, int status)
{
	le32 w = le32_of((uint32_t)status);

	ASSERT(status <= 0 && status >= STATUS_MIN);
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_build_answer_read(void *out, const struct fab_answer *answer)
{
	struct fab_answer_read_wire w = {
		.status = le32_of((uint32_t)answer->status),
		.data_at = le32_of(answer->data_at),
		.length_bytes = le64_of(answer->length_bytes),
		.sums_at = le32_of(answer->sums_at),
	};

	ASSERT(answer->status <= 0 && answer->status >= STATUS_MIN);
	ASSERT(answer->status || answer->data_at % BLOCK_SIZE == 0);
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_build_answer_put(void *out, const struct fab_answer *answer)
{
	struct fab_answer_put_wire w = { .status = le32_of((uint32_t)answer->status) };

	ASSERT(answer->status <= 0 && answer->status >= STATUS_MIN);
	memcpy(w.handle, answer->handle.bytes, sizeof(w.handle));
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_entry_bytes(uint32_t name_bytes)
{
	ASSERT(name_bytes > 0 && name_bytes <= UINT16_MAX / 2);
	return (uint32_t)align_up(sizeof(struct fab_entry_wire) + name_bytes, 8);
}

uint32_t fab_build_entry(void *out, const struct fab_entry *entry)
{
	uint32_t bytes = fab_entry_bytes(entry->name_bytes);
	struct fab_entry_wire w = {
		.entry_bytes = le16_of((uint16_t)bytes),
		.name_bytes = le16_of(entry->name_bytes),
	};
	uint8_t *at = out;

	ASSERT(entry->name_bytes > 0 && entry->name_bytes <= NAME_MAX_BYTES);
	attr_build(&w.attr, &entry->attr);
	memcpy(at, &w, sizeof(w));
	memcpy(at + sizeof(w), entry->name, entry->name_bytes);
	memset(at + sizeof(w) + entry->name_bytes, 0, bytes - sizeof(w) - entry->name_bytes);
	return bytes;
}

uint32_t fab_build_listed(void *out, uint32_t count, uint32_t total_bytes, bool at_end,
			  const uint8_t cookie[FAB_COOKIE_BYTES])
{
	struct fab_listed_wire w = {
		.count = le32_of(count),
		.total_bytes = le32_of(total_bytes),
		.at_end = le32_of(at_end),
	};

	ASSERT(count == 0 || total_bytes > 0);
	ASSERT(total_bytes <= FAB_WINDOW_MAX);
	memcpy(w.cookie, cookie, sizeof(w.cookie));
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_build_statfs(void *out, const struct fab_statfs *statfs)
{
	struct fab_statfs_wire w = {
		.total_bytes = le64_of(statfs->total_bytes),
		.free_bytes = le64_of(statfs->free_bytes),
		.files = le64_of(statfs->files),
		.dirs = le64_of(statfs->dirs),
		.name_max = le32_of(statfs->name_max),
		.shard_count = le32_of(statfs->shard_count),
	};

	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_build_totals(void *out, const struct fab_totals *totals)
{
	struct fab_totals_wire w = {
		.entries = le64_of(totals->entries),
		.dirs = le64_of(totals->dirs),
		.bytes = le64_of(totals->bytes),
		.allocated_bytes = le64_of(totals->allocated_bytes),
		.settled = le32_of(totals->settled),
	};

	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

uint32_t fab_build_u64(void *out, uint64_t value)
{
	le64 w = le64_of(value);

	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

/* ---- readers: the reply itself ------------------------------------------------------ */

static const uint8_t *window_of(const struct fab_call *call)
{
	DASSERT(call->region && call->region->memory);
	return (const uint8_t *)call->region->memory + call->window_offset;
}

static bool in_window(const struct fab_call *call, uint32_t at, uint64_t bytes)
{
	DASSERT(call->region);
	return at <= call->window_bytes && bytes <= call->window_bytes - at;
}

static int read_reply_parse(struct fab_call *call)
{
	struct fab_read_reply_wire w;
	uint32_t blocks, sums_at;

	DASSERT(call->type == FAB_READ && call->status == 0);
	if (call->body_bytes < sizeof(w))
		return -EPROTO;
	memcpy(&w, call->body, sizeof(w));
	call->length_bytes = le32_get(w.length_bytes);
	sums_at = le32_get(w.sums_at);
	if (call->length_bytes > call->args.read.length_bytes)
		return -EPROTO;
	blocks = (uint32_t)div_up(call->length_bytes, BLOCK_SIZE);
	if (blocks <= FAB_SUMS_INLINE) {
		call->data = call->body + sizeof(w);
		return call->body_bytes == sizeof(w) + 4 * blocks ? 0 : -EPROTO;
	}
	if (sums_at % 4 != 0 || !in_window(call, sums_at, UINT64_C(4) * blocks))
		return -EPROTO;
	call->data = window_of(call) + sums_at;
	return 0;
}

/* Text: in the body, or its length there and itself in the window. */
static int text_reply_parse(struct fab_call *call)
{
	le64 length;

	DASSERT(call->status == 0);
	if (!call->region) {
		call->data = call->body;
		call->length_bytes = call->body_bytes;
		return 0;
	}
	if (call->body_bytes != sizeof(length))
		return -EPROTO;
	memcpy(&length, call->body, sizeof(length));
	call->length_bytes = le64_get(length);
	call->data = window_of(call);
	return call->length_bytes <= call->window_bytes ? 0 : -EPROTO;
}

static int names_reply_parse(struct fab_call *call, uint32_t each)
{
	uint32_t bytes = call->args.batch.count * each;

	ASSERT(each == FAB_STAT_BYTES || each == FAB_STATUS_BYTES);
	call->data = call->region ? window_of(call) : call->body;
	return call->body_bytes == (call->region ? 0 : bytes) ? 0 : -EPROTO;
}

static int listed_reply_parse(struct fab_call *call)
{
	struct fab_listed_wire w;

	DASSERT(call->type == FAB_LIST);
	if (call->body_bytes != sizeof(w))
		return -EPROTO;
	memcpy(&w, call->body, sizeof(w));
	call->data = window_of(call);
	call->length_bytes = le32_get(w.total_bytes);
	if (call->length_bytes > call->window_bytes || le32_get(w.at_end) > 1)
		return -EPROTO;
	return 0;
}

static int size_reply_parse(struct fab_call *call)
{
	le64 size;

	DASSERT(call->type == FAB_WRITE || call->type == FAB_SEEK);
	if (call->body_bytes != sizeof(size))
		return -EPROTO;
	memcpy(&size, call->body, sizeof(size));
	call->length_bytes = le64_get(size);
	return call->length_bytes <= INT64_MAX ? 0 : -EPROTO;
}

int fab__reply_parse(struct fab_call *call, int status, uint32_t body_bytes)
{
	DASSERT(body_bytes <= FAB_BODY_MAX);
	call->status = status;
	call->body_bytes = body_bytes;
	call->length_bytes = 0;
	call->data = call->body;
	if (status > 0 || status < STATUS_MIN)
		return -EPROTO;
	if (status < 0)
		return body_bytes ? -EPROTO : 0;

	switch (call->type) {
	case FAB_READ:
		return read_reply_parse(call);
	case FAB_READLINK:
	case FAB_STATUS:
	case FAB_DAMAGED:
	case FAB_LOG:
	case FAB_XATTR_GET:
	case FAB_XATTR_LIST:
		return text_reply_parse(call);
	case FAB_STAT:
		return names_reply_parse(call, FAB_STAT_BYTES);
	case FAB_UNLINK_BATCH:
	case FAB_HOLD:
	case FAB_LET_GO:
		return names_reply_parse(call, FAB_STATUS_BYTES);
	case FAB_OPEN:
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
	case FAB_SYMLINK:
		return body_bytes == FAB_STAT_BYTES ? 0 : -EPROTO;
	case FAB_LIST:
		return listed_reply_parse(call);
	case FAB_STATFS:
		return body_bytes == FAB_STATFS_BYTES ? 0 : -EPROTO;
	case FAB_TOTALS:
		return body_bytes == FAB_TOTALS_BYTES ? 0 : -EPROTO;
	case FAB_WRITE:
	case FAB_SEEK:
		return size_reply_parse(call);
	default:
		return body_bytes ? -EPROTO : 0;
	}
}

/* ---- readers: the body -------------------------------------------------------------- */

static int answer_read_parse(const struct fab_call *call, const uint8_t *at, struct fab_answer *out)
{
	struct fab_answer_read_wire w;
	uint64_t blocks;

	DASSERT(call->type == FAB_READ_BATCH);
	memcpy(&w, at, sizeof(w));
	*out = (struct fab_answer){
		.status = (int32_t)le32_get(w.status),
		.data_at = le32_get(w.data_at),
		.length_bytes = le64_get(w.length_bytes),
		.sums_at = le32_get(w.sums_at),
	};
	if (out->status > 0 || out->status < STATUS_MIN)
		return -EPROTO;
	if (out->status)
		return 0;
	blocks = div_up(out->length_bytes, BLOCK_SIZE);
	if (out->data_at % BLOCK_SIZE != 0 || out->sums_at % 4 != 0)
		return -EPROTO;
	/* First the length itself: a huge one must not wrap when it is multiplied. */
	if (out->length_bytes > call->window_bytes ||
	    !in_window(call, out->data_at, blocks * BLOCK_SIZE) ||
	    !in_window(call, out->sums_at, 4 * blocks))
		return -EPROTO;
	return 0;
}

int fab_call_answer(const struct fab_call *call, uint32_t i, struct fab_answer *out)
{
	uint32_t count = call->args.batch.count;
	const uint8_t *at;
	struct fab_answer_put_wire w;

	ASSERT(count * FAB_ANSWER_BYTES <= call->window_bytes);
	ASSERT(call->type == FAB_READ_BATCH || call->type == FAB_PUT);
	ASSERT(call->status == 0 && i < count);
	at = window_of(call) + fab_answers_at(call->window_bytes, count) + i * FAB_ANSWER_BYTES;
	if (call->type == FAB_READ_BATCH)
		return answer_read_parse(call, at, out);
	memcpy(&w, at, sizeof(w));
	*out = (struct fab_answer){ .status = (int32_t)le32_get(w.status) };
	memcpy(out->handle.bytes, w.handle, sizeof(w.handle));
	return out->status > 0 || out->status < STATUS_MIN ? -EPROTO : 0;
}

static uint32_t sum_at(const uint8_t *sums, uint32_t block)
{
	le32 sum;

	memcpy(&sum, sums + 4 * (size_t)block, sizeof(sum));
	return le32_get(sum);
}

uint32_t fab_call_sum(const struct fab_call *call, uint32_t block)
{
	ASSERT(call->type == FAB_READ && call->status == 0);
	ASSERT(block < div_up(call->length_bytes, BLOCK_SIZE));
	return sum_at(call->data, block);
}

uint32_t fab_answer_sum(const struct fab_call *call, const struct fab_answer *answer,
			uint32_t block)
{
	DASSERT(call->type == FAB_READ_BATCH);
	ASSERT(answer->status == 0 && block < div_up(answer->length_bytes, BLOCK_SIZE));
	return sum_at(window_of(call) + answer->sums_at, block);
}

static void attr_parse(struct fab_attr *out, const struct fab_attr_wire *w)
{
	*out = (struct fab_attr){
		.ino = le64_get(w->ino),
		.dir = le64_get(w->dir),
		.size_bytes = le64_get(w->size_bytes),
		.allocated_bytes = le64_get(w->allocated_bytes),
		.mtime_ns = (int64_t)le64_get(w->mtime_ns),
		.ctime_ns = (int64_t)le64_get(w->ctime_ns),
		.atime_ns = (int64_t)le64_get(w->atime_ns),
		.mode = le32_get(w->mode),
		.uid = le32_get(w->uid),
		.gid = le32_get(w->gid),
		.nlink = le32_get(w->nlink),
		.xattrs = le32_get(w->xattrs),
	};
	memcpy(out->handle.bytes, w->handle, sizeof(w->handle));
}

int fab_call_attr(const struct fab_call *call, uint32_t i, struct fab_attr *out)
{
	struct fab_stat_wire w;
	int32_t status;

	ASSERT(call->status == 0);
	ASSERT(i < (call->type == FAB_STAT ? call->args.batch.count : 1));
	memcpy(&w, (const uint8_t *)call->data + i * sizeof(w), sizeof(w));
	status = (int32_t)le32_get(w.status);
	if (status > 0 || status < STATUS_MIN)
		return -EPROTO;
	attr_parse(out, &w.attr);
	return status;
}

int fab_call_status(const struct fab_call *call, uint32_t i)
{
	int32_t status;
	le32 w;

	ASSERT(call->type == FAB_UNLINK_BATCH || call->type == FAB_HOLD ||
	       call->type == FAB_LET_GO);
	ASSERT(call->status == 0);
	ASSERT(i < call->args.batch.count);
	memcpy(&w, (const uint8_t *)call->data + i * sizeof(w), sizeof(w));
	status = (int32_t)le32_get(w);
	return status > 0 || status < STATUS_MIN ? -EPROTO : status;
}

int fab_call_statfs(const struct fab_call *call, struct fab_statfs *out)
{
	struct fab_statfs_wire w;

	ASSERT(call->type == FAB_STATFS && call->status == 0);
	memcpy(&w, call->body, sizeof(w));
	*out = (struct fab_statfs){
		.total_bytes = le64_get(w.total_bytes),
		.free_bytes = le64_get(w.free_bytes),
		.files = le64_get(w.files),
		.dirs = le64_get(w.dirs),
		.name_max = le32_get(w.name_max),
		.shard_count = le32_get(w.shard_count),
	};
	return 0;
}

int fab_call_totals(const struct fab_call *call, struct fab_totals *out)
{
	struct fab_totals_wire w;

	ASSERT(call->type == FAB_TOTALS && call->status == 0);
	memcpy(&w, call->body, sizeof(w));
	*out = (struct fab_totals){
		.entries = le64_get(w.entries),
		.dirs = le64_get(w.dirs),
		.bytes = le64_get(w.bytes),
		.allocated_bytes = le64_get(w.allocated_bytes),
		.settled = le32_get(w.settled) != 0,
	};
	return 0;
}

int fab_call_listed(const struct fab_call *call, uint32_t *count, bool *at_end,
		    uint8_t cookie[FAB_COOKIE_BYTES])
{
	struct fab_listed_wire w;

	ASSERT(call->type == FAB_LIST && call->status == 0);
	memcpy(&w, call->body, sizeof(w));
	*count = le32_get(w.count);
	*at_end = le32_get(w.at_end) == 1;
	memcpy(cookie, w.cookie, sizeof(w.cookie));
	return 0;
}

int fab_call_entry(const struct fab_call *call, uint32_t *at, struct fab_entry *out)
{
	uint64_t total = call->length_bytes;
	const uint8_t *base = call->data;
	struct fab_entry_wire w;
	uint32_t name_bytes;

	ASSERT(call->type == FAB_LIST && call->status == 0);
	ASSERT(*at <= total);
	if (*at == total)
		return 0;
	if (total - *at < sizeof(w))
		return -EPROTO;
	memcpy(&w, base + *at, sizeof(w));
	name_bytes = le16_get(w.name_bytes);
	if (name_bytes == 0 || name_bytes > NAME_MAX_BYTES ||
	    le16_get(w.entry_bytes) != fab_entry_bytes(name_bytes) ||
	    le16_get(w.entry_bytes) > total - *at)
		return -EPROTO;
	attr_parse(&out->attr, &w.attr);
	out->name_bytes = (uint16_t)name_bytes;
	out->name = (const char *)base + *at + sizeof(w);
	*at += le16_get(w.entry_bytes);
	return 1;
}
