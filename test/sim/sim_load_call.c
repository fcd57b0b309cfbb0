/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The requests of sim_load.c's operations, and what people are told of them. */
#include "test/sim/sim_load_internal.h"
#include "base/crc32c.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SUMS_AT (96u << 10) /* in a window: behind any payload */
#define PIECE   20480u      /* of a long put                   */

static const char *const kind_names[SIM_KINDS] = {
	"put",      "write",   "append", "truncate", "unlink",   "mkdir", "rmdir",
	"rename",   "symlink", "chmod",  "read",     "long put", "link",  "exchange",
	"move dir", "rmtree",  "punch",  "seek",     "list",     "open",  "let go",
};

static struct fab_name by_path(const char *path)
{
	return (struct fab_name){
		.by = FAB_BY_PATH,
		.nofollow = true,
		.name = path,
		.name_bytes = (uint16_t)strlen(path),
	};
}

static struct fab_name by_handle(const struct fab_handle *handle)
{
	return (struct fab_name){ .by = FAB_BY_HANDLE, .handle = *handle };
}

/* Payload into the window, and the sum of each piece of a block of the file behind it. */
static void fill(struct sim_call *c, const uint8_t *bytes, uint32_t size, uint64_t file_offset)
{
	uint32_t *sums = (uint32_t *)(void *)(c->window + SUMS_AT);
	uint32_t at = 0, n = 0;

	ASSERT(size <= SUMS_AT);
	if (size)
		memcpy(c->window, bytes, size);
	while (at < size) {
		uint32_t piece = min_u32(size - at,
					 BLOCK_SIZE - (uint32_t)((file_offset + at) % BLOCK_SIZE));

		sums[n++] = crc32c_block(bytes + at, piece);
		at += piece;
	}
}

static void request_put(struct sim_op *o, struct sim_call *c, struct fab_put_item *item)
{
	fill(c, o->content->bytes, o->content->size, 0);
	*item = (struct fab_put_item){
		.name = by_path(o->path),
		.mode = o->content->mode,
		.mtime_ns = 1,
		.size_bytes = o->content->size,
		.payload_at = 0,
		.sums_at = SUMS_AT,
	};
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = item;
}

static void request_write(struct sim_op *o, struct sim_call *c, uint64_t offset, uint32_t from,
			  uint32_t length, uint32_t flags)
{
	fill(c, o->content->bytes + from, length, flags & FAB_WRITE_APPEND ? 0 : offset);
	c->call.type = FAB_WRITE;
	c->call.args.write.handle = o->handle;
	c->call.args.write.offset_bytes = offset;
	c->call.args.write.length_bytes = length;
	c->call.args.write.flags = flags;
	c->call.args.write.sums_at = SUMS_AT;
}

static void request_open(struct sim_op *o, struct sim_call *c)
{
	c->call.type = FAB_OPEN;
	c->call.args.open.name = by_path(o->path);
}

/* A long put: 0 begin, 1 pieces, 2 commit. */
static void request_long_put(struct sim_op *o, struct sim_call *c, bool again)
{
	if (o->stage == 1 && !again && o->length == o->content->size)
		o->stage = 2;
	if (o->stage == 0) {
		c->call.type = FAB_PUT_BEGIN;
		c->call.args.make.name = by_path(o->path);
		c->call.args.make.mode = o->content->mode;
		c->call.args.make.mtime_ns = 1;
		c->call.args.make.size_bytes = o->content->size;
	} else if (o->stage == 1) {
		if (!again) {
			o->offset = o->length;
			o->length = min_u32(o->length + PIECE, o->content->size);
		}
		request_write(o, c, o->offset, (uint32_t)o->offset, o->length - (uint32_t)o->offset,
			      0);
	} else {
		c->call.type = FAB_PUT_COMMIT;
		c->call.args.size.handle = o->handle;
		c->call.args.size.size_bytes = o->content->size;
	}
}

static void request_by_handle(struct sim_op *o, struct sim_call *c)
{
	if (o->stage == 0) {
		request_open(o, c);
	} else if (o->kind == SIM_TRUNCATE) {
		c->call.type = FAB_TRUNCATE;
		c->call.args.size.handle = o->handle;
		c->call.args.size.size_bytes = o->length;
	} else if (o->kind == SIM_PUNCH || o->kind == SIM_SEEK) {
		c->call.type = o->kind == SIM_PUNCH ? FAB_PUNCH : FAB_SEEK;
		c->call.args.range.handle = o->handle;
		c->call.args.range.offset_bytes = o->offset;
		c->call.args.range.length_bytes = o->kind == SIM_PUNCH ? o->length : 0;
		c->call.args.range.flags = o->kind == SIM_SEEK && o->swap ? FAB_SEEK_HOLE : 0;
	} else {
		request_write(o, c, o->offset, 0, o->content->size,
			      o->kind == SIM_APPEND ? FAB_WRITE_APPEND : 0);
	}
}

static void request_read(struct sim_op *o, struct sim_call *c, struct fab_read_item *item)
{
	*item = (struct fab_read_item){ .name = by_path(o->path), .length_bytes = FAB_TO_END };
	if (sim_is_hold(o->path))
		item->name = by_handle(&o->handle);
	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = item;
}

static void request_list(struct sim_op *o, struct sim_call *c)
{
	c->call.type = FAB_LIST;
	c->call.args.list.dir = by_path(*o->path ? o->path : "/");
	c->call.args.list.count_max = 3;
	memcpy(c->call.args.list.cookie, o->listing.cookie, FAB_COOKIE_BYTES);
}

static void request_make(struct sim_op *o, struct sim_call *c)
{
	if (o->kind == SIM_MKDIR) {
		c->call.type = FAB_MKDIR;
		c->call.args.make.name = by_path(o->path);
		c->call.args.make.mode = 0755;
	} else {
		c->call.type = FAB_SYMLINK;
		c->call.args.symlink.name = by_path(o->path);
		c->call.args.symlink.target = (const char *)o->content->bytes;
		c->call.args.symlink.target_bytes = (uint16_t)o->content->size;
	}
}

static void request_rename(struct sim_op *o, struct sim_call *c)
{
	bool swap = o->kind == SIM_EXCHANGE || (o->kind == SIM_MOVE_DIR && o->swap);

	c->call.type = o->kind == SIM_GIVE_LINK ? FAB_LINK : FAB_RENAME;
	c->call.args.rename.flags = swap ? FAB_RENAME_EXCHANGE : 0;
	c->call.args.rename.from = by_path(o->path);
	c->call.args.rename.to = by_path(o->other);
}

/* In one request, or in two: 0 open, 1 hold. */
static void request_hold(struct sim_op *o, struct sim_call *c)
{
	const bool lets_go = o->kind == SIM_LET_GO;

	if (!lets_go && o->stage == 0) {
		request_open(o, c);
		c->call.args.open.flags = sim__holds_at_once(o) ? FAB_OPEN_HOLD : 0;
		return;
	}
	c->call.type = lets_go ? FAB_LET_GO : FAB_HOLD;
	o->item.name = by_handle(&o->handle);
	c->call.args.batch.count = 1;
	c->call.args.batch.names = &o->item.name;
}

static void request_removal(struct sim_op *o, struct sim_call *c)
{
	c->call.type = o->kind == SIM_RMDIR    ? FAB_RMDIR
		       : o->kind == SIM_RMTREE ? FAB_RMTREE
		       : o->number % 2         ? FAB_UNLINK_BATCH
					       : FAB_UNLINK;
	if (c->call.type == FAB_UNLINK_BATCH) {
		o->item.name = by_path(o->path);
		c->call.args.batch.count = 1;
		c->call.args.batch.names = &o->item.name;
		return;
	}
	c->call.args.name.name = by_path(o->path);
}

static void request_kind(struct sim_op *o, struct sim_call *c, bool again)
{
	switch (o->kind) {
	case SIM_PUT:
		request_put(o, c, &o->item.put);
		return;
	case SIM_READ:
		request_read(o, c, &o->item.read);
		return;
	case SIM_LIST:
		request_list(o, c);
		return;
	case SIM_LONG_PUT:
		request_long_put(o, c, again);
		return;
	case SIM_WRITE:
	case SIM_APPEND:
	case SIM_TRUNCATE:
	case SIM_PUNCH:
	case SIM_SEEK:
		request_by_handle(o, c);
		return;
	case SIM_MKDIR:
	case SIM_SYMLINK:
		request_make(o, c);
		return;
	case SIM_OPEN:
	case SIM_LET_GO:
		request_hold(o, c);
		return;
	case SIM_CHMOD:
		c->call.type = FAB_SETATTR;
		c->call.args.setattr.name = by_path(o->path);
		c->call.args.setattr.mask = FAB_SET_MODE;
		c->call.args.setattr.mode = o->length;
		return;
	case SIM_RENAME:
	case SIM_EXCHANGE:
	case SIM_MOVE_DIR:
	case SIM_GIVE_LINK:
		request_rename(o, c);
		return;
	default:
		request_removal(o, c);
		return;
	}
}

/* Gives the change its number; a repeated request keeps it. */
static void name_change(struct sim_load *l, struct sim_op *o, bool again)
{
	struct sim_call *c = o->call;

	if (!l->w->cfg.remember || !fab_is_change(c->call.type, &c->call.args))
		return;
	if (!again) {
		o->change_id = (struct fab_change){ .number = ++l->changes,
						    .slot = (uint32_t)(o - l->op) };
		o->mark = fab_conn_mark(l->w->conn[c->lane]);
	}
	c->call.change = o->change_id;
	c->call.change.again = again;
	c->call.change.sure = again && o->mark >= fab_conn_forgotten(l->w->conn[c->lane]);
	l->again += again;
}

void sim__request(struct sim_load *l, struct sim_op *o, bool again)
{
	struct sim_call *c = o->call;
	enum fab_type type;

	request_kind(o, c, again);
	type = c->call.type;
	name_change(l, o, again);
	if (o->stage == 0 && o->kind == SIM_LONG_PUT)
		o->begun = l->session;
	c->user = o;
	sim__tell(l, o, again ? "is asked again" : "is asked", 0);
	sim_world_submit(l->w, c,
			 type == FAB_PUT || type == FAB_WRITE || type == FAB_READ_BATCH ||
				 type == FAB_LIST);
}

void sim__tell(const struct sim_load *l, const struct sim_op *o, const char *what, int status)
{
	if (!l->tell)
		return;
	printf("# %12.6f  op %llu  %s%s /%s", (double)l->w->power.now_ns / 1e9,
	       (unsigned long long)o->number, kind_names[o->kind],
	       o->kind == SIM_MOVE_DIR && o->swap ? " (exchange)" : "", o->path);
	if (*o->other)
		printf(" /%s", o->other);
	if (o->content)
		printf(", %u bytes", o->content->size);
	if (o->kind == SIM_WRITE || o->kind == SIM_PUNCH || o->kind == SIM_SEEK)
		printf(", at %llu", (unsigned long long)o->offset);
	if (o->kind == SIM_TRUNCATE || o->kind == SIM_PUNCH)
		printf(", length %u", o->length);
	if (o->stage)
		printf(", stage %u", o->stage);
	printf(": %s", what);
	if (status)
		printf(" %d", status);
	printf("\n");
}

bool sim__wrong(struct sim_load *l, const struct sim_op *o, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(l->why, sizeof(l->why),
			 "op %llu, %s /%s /%s: ", (unsigned long long)o->number,
			 kind_names[o->kind], o->path, o->other);

	va_start(ap, fmt);
	vsnprintf(l->why + n, sizeof(l->why) - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}
