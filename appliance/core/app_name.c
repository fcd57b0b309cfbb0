/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names and attributes: operations of one call to the store, and open, which may need several.
 *
 *   open   LOOKED_UP --exists--> (truncate) --> answer
 *            ^   \--not, CREATE--> PUT of nothing, -EEXIST: another client was faster: look again
 *            +---------------------------------------------'
 */
#include "appliance/core/app_op.h"

#include <errno.h>
#include <string.h>

enum name_at { NAME_ACCEPTED, NAME_CALLED };
enum open_at { OPEN_ACCEPTED, OPEN_LOOKED_UP, OPEN_MADE };

enum { OPEN_TRIES = 8 };

static void set_of_make(struct app_op *op, uint32_t mode, uint32_t uid, uint32_t gid,
			int64_t mtime_ns)
{
	ASSERT(mode <= 07777);
	op->meta.set_mask = META_SET_MODE | META_SET_UID | META_SET_GID;
	if (mtime_ns)
		op->meta.set_mask |= META_SET_MTIME;
	op->meta.set = (struct meta_attr){
		.mode = mode,
		.uid = uid,
		.gid = gid,
		.mtime_ns = mtime_ns,
	};
}

static void symlink_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	ASSERT(req->args.symlink.target_bytes <= META_PATH_MAX);
	op->name[0] = req->args.symlink.name;
	set_of_make(op, 0777, req->args.symlink.uid, req->args.symlink.gid,
		    req->args.symlink.mtime_ns);
	memcpy(op->small, req->args.symlink.target, req->args.symlink.target_bytes);
	op->meta.inline_buf = op->small;
	op->meta.length = req->args.symlink.target_bytes;
	op->call = META_OP_SYMLINK;
}

static void setattr_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	ASSERT(req->type == FAB_SETATTR);
	static_assert(FAB_SET_MODE == META_SET_MODE && FAB_SET_UID == META_SET_UID &&
			      FAB_SET_GID == META_SET_GID && FAB_SET_MTIME == META_SET_MTIME &&
			      FAB_SET_ATIME == META_SET_ATIME,
		      "one mask");
	op->name[0] = req->args.setattr.name;
	op->meta.set_mask = req->args.setattr.mask;
	op->meta.set = (struct meta_attr){
		.mode = req->args.setattr.mode,
		.uid = req->args.setattr.uid,
		.gid = req->args.setattr.gid,
		.mtime_ns = req->args.setattr.mtime_ns,
		.atime_ns = req->args.setattr.atime_ns,
	};
	op->call = META_OP_SETATTR;
}

static void make_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	ASSERT(req->type == FAB_MKDIR || req->type == FAB_PUT_BEGIN);
	op->name[0] = req->args.make.name;
	set_of_make(op, req->args.make.mode, req->args.make.uid, req->args.make.gid,
		    req->args.make.mtime_ns);
	op->call = req->type == FAB_MKDIR ? META_OP_MKDIR : META_OP_PUT_BEGIN;
	if (req->type == FAB_PUT_BEGIN && req->args.make.flags & FAB_PUT_EXCL)
		op->flags = META_EXCL;
}

/* The name that PUT_BEGIN gave; -ESTALE when this session has no such file. */
static int commit_begin(struct app_op *op)
{
	struct meta_handle handle = app_handle_in(op->req->session, &op->req->args.size.handle);
	struct app_hidden *h = app_hidden_find(op->core, op->req->session, &handle);

	if (!h)
		return -ESTALE;
	ASSERT(!h->busy && h->session == op->req->session);
	h->busy = true;
	op->hidden = h;
	if (op->req->type == FAB_PUT_ABORT) {
		op->target[0] = (struct meta_target){ .handle = handle };
		op->call = META_OP_PUT_ABORT;
		return 0;
	}
	op->target[0] = (struct meta_target){
		.path = h->path, .path_len = h->path_len, .dir = h->dir, .root = h->root
	};
	op->meta.other = (struct meta_target){ .handle = handle };
	op->meta.size = op->req->args.size.size_bytes;
	op->meta.set_mask = h->set_mask;
	op->meta.set = h->set;
	op->flags = h->flags;
	op->names = 0;
	op->call = META_OP_PUT_COMMIT;
	return 0;
}

static void seek_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	ASSERT(req->type == FAB_SEEK);
	op->names = 0;
	op->target[0] = (struct meta_target){ .handle = app_handle_in(req->session,
								      &req->args.range.handle) };
	op->meta.offset = req->args.range.offset_bytes;
	op->flags = req->args.range.flags & FAB_SEEK_HOLE ? META_SEEK_HOLE : 0;
	op->call = META_OP_SEEK;
}

/* TOTALS, and CHECK, which needs only the file. */
static void totals_begin(struct app_op *op)
{
	ASSERT(op->req->type == FAB_CHECK || op->req->type == FAB_TOTALS);
	if (op->req->type == FAB_CHECK) {
		op->name[0] = op->req->args.check.name;
		op->call = META_OP_STAT;
		return;
	}
	op->name[0] = op->req->args.name.name;
	op->meta.totals = (struct meta_totals *)(void *)op->small;
	op->call = META_OP_TOTALS;
}

static void statfs_begin(struct app_op *op)
{
	op->names = 0;
	op->meta.statfs = (struct meta_statfs *)(void *)op->small;
	op->call = META_OP_STATFS;
}

static void rename_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	ASSERT(req->args.rename.flags <= FAB_RENAME_EXCHANGE);
	op->name[0] = req->args.rename.from;
	op->name[1] = req->args.rename.to;
	op->names = 2;
	op->flags = req->args.rename.flags == FAB_RENAME_NOREPLACE  ? META_EXCL
		    : req->args.rename.flags == FAB_RENAME_EXCHANGE ? META_EXCHANGE
								    : 0;
	op->call = META_OP_RENAME;
}

static bool is_called(const struct fab_name *name, const char *text)
{
	return name->name_bytes && strlen(text) == name->name_bytes &&
	       memcmp(text, name->name, name->name_bytes) == 0;
}

static int drive_by_name(const struct app_core *core, const struct fab_name *name)
{
	ASSERT(core->nqps <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < core->nqps && core->cfg.drive_name; d++)
		if (core->qp[d] && is_called(name, core->cfg.drive_name[d]))
			return (int)d;
	return -ENODEV;
}

/* -EINVAL: several drives have it. */
static int drive_by_serial(const struct app_core *core, const struct fab_name *name)
{
	struct nvme_info info;
	int found = -ENODEV;

	for (uint32_t d = 0; d < core->nqps; d++) {
		if (!core->qp[d])
			continue;
		nvme_drive_info(core->cfg.drive[d], &info);
		if (!is_called(name, info.serial))
			continue;
		if (found >= 0)
			return -EINVAL;
		found = (int)d;
	}
	ASSERT(found < (int)META_DRIVES_MAX);
	return found;
}

/* A drive by the name that it has in the configuration, else its serial number. */
static int drive_begin(struct app_op *op)
{
	const struct fab_name *name = &op->req->args.name.name;
	int d = drive_by_name(op->core, name);

	ASSERT(op->req->type == FAB_DRAIN || op->req->type == FAB_UNDRAIN);
	op->names = 0;
	op->call = META_OP_DRIVE;
	op->flags = op->req->type == FAB_UNDRAIN ? META_UNDRAIN : 0;
	if (d < 0)
		d = drive_by_serial(op->core, name);
	if (d < 0)
		return d;
	op->meta.offset = (uint64_t)d;
	return 0;
}

static int protect_begin(struct app_op *op)
{
	const struct fab_name *name = &op->req->args.name.name;
	struct meta_scheme scheme;

	ASSERT(op->req->type == FAB_PROTECT);
	op->names = 0;
	op->call = META_OP_DRIVE;
	op->flags = META_PROTECT;
	if (name->by != FAB_BY_PATH || !meta_scheme_parse(name->name, name->name_bytes, &scheme) ||
	    scheme.copies < 2)
		return -EINVAL;
	op->meta.offset = scheme.copies;
	op->meta.length = scheme.fold;
	return 0;
}

void app_name_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	op->names = 1;
	switch (req->type) {
	case FAB_OPEN:
		op->name[0] = req->args.open.name;
		op->flags = req->args.open.flags;
		break;
	case FAB_LIST:
		op->name[0] = req->args.list.dir;
		break;
	case FAB_READLINK:
		op->name[0] = req->args.name.name;
		op->meta.inline_buf = op->small;
		op->flags = META_NOFOLLOW;
		op->call = META_OP_READLINK;
		break;
	case FAB_TOTALS:
	case FAB_CHECK:
		totals_begin(op);
		break;
	case FAB_RMDIR:
		op->name[0] = req->args.name.name;
		op->call = META_OP_RMDIR;
		break;
	case FAB_RMTREE:
		op->name[0] = req->args.name.name;
		op->call = META_OP_RMTREE;
		break;
	case FAB_UNLINK:
		op->name[0] = req->args.name.name;
		op->call = META_OP_UNLINK;
		break;
	case FAB_RENAME:
		rename_begin(op);
		break;
	case FAB_LINK:
		op->name[0] = req->args.rename.from;
		op->name[1] = req->args.rename.to;
		op->names = 2;
		op->call = META_OP_LINK;
		break;
	case FAB_MKDIR:
	case FAB_PUT_BEGIN:
		make_begin(op);
		break;
	case FAB_SYMLINK:
		symlink_begin(op);
		break;
	case FAB_SETATTR:
		setattr_begin(op);
		break;
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
		op->begin_status = commit_begin(op);
		op->names = 0;
		break;
	case FAB_SEEK:
		seek_begin(op);
		break;
	case FAB_DRAIN:
	case FAB_UNDRAIN:
	case FAB_PROTECT:
		op->begin_status = req->type == FAB_PROTECT ? protect_begin(op) : drive_begin(op);
		return;
	default: /* STATFS, STATUS, DAMAGED */
		statfs_begin(op);
	}
	if (op->names && op->name[0].nofollow)
		op->flags |= req->type == FAB_OPEN ? 0 : META_NOFOLLOW;
}

void app_stat_item_begin(struct app_op *op)
{
	DASSERT(op->batch && op->index < op->batch->count);
	fab_req_name(op->req, op->index, &op->name[0]);
	op->names = 1;
	op->flags = op->name[0].nofollow ? META_NOFOLLOW : 0;
	op->call = META_OP_STAT;
}

/* A name to be held, or a handle to be let go. */
void app_hold_item_begin(struct app_op *op)
{
	struct fab_name name;

	ASSERT(op->batch && op->index < op->batch->count);
	if (op->req->type == FAB_HOLD) {
		app_stat_item_begin(op);
		op->flags |= META_HOLD;
		return;
	}
	fab_req_name(op->req, op->index, &name);
	op->handle = app_handle_in(op->req->session, &name.handle);
	op->target[0] = (struct meta_target){ .handle = op->handle };
}

void app_unlink_item_begin(struct app_op *op)
{
	ASSERT(op->req->type == FAB_UNLINK_BATCH);
	fab_req_name(op->req, op->index, &op->name[0]);
	op->names = 1;
	op->flags = op->name[0].nofollow ? META_NOFOLLOW : 0;
	op->call = META_OP_UNLINK;
}

/* ---- one call ------------------------------------------------------------------------ */

/* PUT_BEGIN needs a place to remember the name in until PUT_COMMIT. */
static int hidden_take(struct app_op *op)
{
	struct app_core *core = op->core;
	struct app_session *s = op->session;
	struct app_hidden *h;

	ASSERT(!op->hidden && s);
	/* As many as it leaves to the others: something is always left. */
	if (core->hidden_free_count == 0 || s->puts >= core->hidden_free_count)
		return -EMFILE;
	h = list_entry(list_pop_front(&core->hidden_free), struct app_hidden, link);
	core->hidden_free_count--;
	ASSERT(op->target[0].path_len <= META_PATH_MAX);
	s->puts++;
	h->session = op->req->session;
	h->busy = true;
	h->set = op->meta.set;
	h->set_mask = op->meta.set_mask;
	h->flags = op->flags;
	h->dir = op->target[0].dir;
	h->root = op->target[0].root;
	h->path_len = op->target[0].path_len;
	memcpy(h->path, op->target[0].path, h->path_len);
	list_push_back(&core->hidden, &h->link);
	op->hidden = h;
	return 0;
}

/* Settles the hidden file of a PUT_BEGIN, PUT_COMMIT or PUT_ABORT.  A file that could not be
 * aborted is an orphan, which the next mount frees. */
static void hidden_settle(struct app_op *op)
{
	struct app_hidden *h = op->hidden;
	bool good = op->meta.status == 0;
	bool exists = op->req->type == FAB_PUT_BEGIN ? good : !good;

	ASSERT(h->busy && h->session == op->req->session);
	if (op->req->type == FAB_PUT_ABORT)
		exists = false;

	if (op->req->type == FAB_PUT_BEGIN)
		h->handle = op->meta.attr.handle;
	h->busy = false;
	op->hidden = NULL;
	if (exists)
		return;
	ASSERT(op->session->puts > 0);
	op->session->puts--;
	app_hidden_done(op->core, h);
}

/* Blocks of a file that its client could not use: they are looked at, whatever it says.  False:
 * later, when there is a place for them. */
static bool check_told(struct app_op *op)
{
	const struct fab_read_item *item = &op->req->args.check;
	const uint64_t size = op->meta.attr.size, from = min_u64(item->offset_bytes, size);
	const uint64_t bytes = min_u64(item->length_bytes, min_u64(size - from, FAB_WINDOW_MAX));

	ASSERT(op->req->type == FAB_CHECK && from <= size);
	if (op->meta.attr.type != META_TYPE_FILE || bytes == 0)
		return true;
	return app_suspect(op->core, &op->meta.attr.handle, from / BLOCK_SIZE,
			   div_up(from + bytes, BLOCK_SIZE) - from / BLOCK_SIZE) ||
	       op->cancel || op->core->life != APP_SERVING;
}

enum app_next app_name_step(struct app_op *op)
{
	int err = 0;

	DASSERT(op->names_done == op->names);
	switch ((enum name_at)op->at) {
	case NAME_ACCEPTED:
		if (op->begin_status)
			return app_op_end(op, op->begin_status);
		if (op->call == META_OP_PUT_BEGIN)
			err = hidden_take(op);
		else if (op->flags & META_HOLD && !app_hold_again(op))
			err = app_hold_begin(op);
		if (err)
			return app_op_end(op, err);
		op->meta.target = op->target[0];
		if (op->names == 2)
			op->meta.other = op->target[1];
		op->meta.flags = op->flags;
		if (op->hold && op->hold->taken)
			op->meta.flags ^= META_HOLD | META_MAY_HOLD;
		op->at = NAME_CALLED;
		if (!app_op_meta(op, op->call))
			return APP_WAIT;
		wk_fallthrough;

	case NAME_CALLED: /* over; a change is durable */
		if (op->call == META_OP_SEEK && !op->meta.status && op->meta.seek_more) {
			op->meta.offset = op->meta.length;
			op->at = NAME_ACCEPTED;
			return APP_AGAIN;
		}
		if (unlikely(op->req->type == FAB_CHECK) && !op->meta.status && !check_told(op)) {
			app_op_ready(op);
			return APP_WAIT;
		}
		if (op->hidden)
			hidden_settle(op);
		app_hold_looked(op);
		return app_op_end(op, op->meta.status);
	}
	UNREACHABLE();
}

/* ---- open ------------------------------------------------------------------------------ */

static bool is_to_be_new(const struct app_op *op)
{
	return op->flags & FAB_OPEN_EXCL && op->flags & FAB_OPEN_CREATE;
}

static bool look_up(struct app_op *op)
{
	ASSERT(op->req->type == FAB_OPEN);
	op->meta.target = op->target[0];
	op->meta.flags = op->name[0].nofollow ? META_NOFOLLOW : 0;
	/* Asked here: by the handle that TRUNCATE gets the owner may always, and one that is empty
	 * does not come to it. */
	if (op->flags & FAB_OPEN_TRUNC && !is_to_be_new(op))
		op->meta.flags |= META_TO_WRITE;
	if (op->flags & FAB_OPEN_HOLD && !is_to_be_new(op))
		op->meta.flags |= META_HOLD;
	op->at = OPEN_LOOKED_UP;
	return app_op_meta(op, META_OP_STAT);
}

static bool make(struct app_op *op)
{
	const struct fab_req *req = op->req;

	ASSERT(op->flags & FAB_OPEN_CREATE);
	set_of_make(op, req->args.open.mode, req->args.open.uid, req->args.open.gid, 0);
	op->meta.target = op->target[0];
	op->meta.flags = META_EXCL | META_BY_INLINE;
	if (!is_to_be_new(op) && !op->name[0].nofollow) /* the target of a symlink is made */
		op->meta.flags |= META_FOLLOW;
	if (op->flags & FAB_OPEN_HOLD)
		op->meta.flags |= META_HOLD;
	op->meta.size = 0;
	op->meta.inline_buf = op->small;
	op->meta.inline_len = 0;
	op->at = OPEN_MADE;
	return app_op_meta(op, META_OP_PUT);
}

static enum app_next found(struct app_op *op)
{
	ASSERT(op->meta.status == 0);
	if (is_to_be_new(op))
		return app_op_end(op, -EEXIST);
	if (op->flags & FAB_OPEN_DIRECTORY && op->meta.attr.type != META_TYPE_DIR)
		return app_op_end(op, -ENOTDIR);
	if (!(op->flags & FAB_OPEN_TRUNC))
		return app_op_end(op, 0);
	if (op->meta.attr.type != META_TYPE_FILE)
		return app_op_end(op, op->meta.attr.type == META_TYPE_DIR ? -EISDIR : -ELOOP);
	if (op->meta.attr.size == 0)
		return app_op_end(op, 0);
	op->handle = op->meta.attr.handle;
	op->target[0] = (struct meta_target){ .handle = op->handle };
	op->length_bytes = 0;
	op->kind = APP_OP_TRUNCATE; /* which answers with the attributes that it leaves */
	op->at = 0;
	return APP_AGAIN;
}

enum app_next app_open_step(struct app_op *op)
{
	int err = 0;

	ASSERT(op->names_done == op->names);
	switch ((enum open_at)op->at) {
	case OPEN_ACCEPTED:
		if (op->flags & FAB_OPEN_HOLD)
			err = app_hold_begin(op);
		if (err)
			return app_op_end(op, err);
		if (!look_up(op))
			return APP_WAIT;
		wk_fallthrough;

	case OPEN_LOOKED_UP:
		app_hold_looked(op);
		if (op->meta.status == 0)
			return found(op);
		if (op->meta.status != -ENOENT || !(op->flags & FAB_OPEN_CREATE) ||
		    op->flags & FAB_OPEN_DIRECTORY || op->name[0].by == FAB_BY_HANDLE)
			return app_op_end(op, op->meta.status);
		if (!make(op))
			return APP_WAIT;
		wk_fallthrough;

	case OPEN_MADE: /* durable, or another client was faster */
		app_hold_looked(op);
		if (op->meta.status == -EEXIST && !(op->flags & FAB_OPEN_EXCL) &&
		    ++op->tries < OPEN_TRIES) {
			op->at = OPEN_ACCEPTED;
			return APP_AGAIN;
		}
		return app_op_end(op, op->meta.status);
	}
	UNREACHABLE();
}

/* ---- answers ----------------------------------------------------------------------------- */

/* Text of op->small or of a table: in the body, or in the window and its length in the body. */
void app_text_answer(struct app_op *op, const char *text, uint32_t bytes)
{
	struct fab_req *req = op->req;
	uint8_t body[8];
	void *table;

	ASSERT(text || bytes == 0);
	if (req->window.length_bytes == 0 && bytes <= FAB_BODY_MAX) {
		fab_reply(req, 0, text, bytes);
		return;
	}
	if (bytes > req->window.length_bytes) {
		fab_reply(req, -EMSGSIZE, NULL, 0);
		return;
	}
	table = app_table_take(op->core, op->session, bytes);
	if (table)
		memcpy(table, text, bytes);
	if (!table || !app_table_send(op, table, bytes, table, 0, bytes)) {
		fab_reply(req, -EAGAIN, NULL, 0);
		return;
	}
	fab_reply(req, 0, body, fab_build_u64(body, bytes));
}

static uint32_t build_statfs(const struct app_op *op, void *out)
{
	const struct meta_statfs *s = op->meta.statfs;
	struct fab_statfs f = {
		.total_bytes = s->blocks_total * BLOCK_SIZE,
		.free_bytes = s->blocks_free * BLOCK_SIZE,
		/* A confined client does not learn how many files there are elsewhere. */
		.files = app_is_confined(op->req->session) ? 0 : s->files,
		.dirs = app_is_confined(op->req->session) ? 0 : s->dirs,
		.name_max = META_NAME_MAX,
		.shard_count = op->core->cfg.nshards,
	};

	DASSERT(s->blocks_free <= s->blocks_total);
	return fab_build_statfs(out, &f);
}

static uint32_t build_totals(const struct app_op *op, void *out)
{
	const struct meta_totals *t = op->meta.totals;
	struct fab_totals f = {
		.entries = t->entries,
		.dirs = t->dirs,
		.bytes = t->bytes,
		.allocated_bytes = t->blocks * BLOCK_SIZE,
		.settled = t->settled,
	};

	return fab_build_totals(out, &f);
}

void app_name_answer(struct app_op *op)
{
	struct fab_req *req = op->req;
	uint8_t body[FAB_STAT_BYTES];
	struct fab_attr attr;

	DASSERT(!op->hold);
	if (op->status) {
		fab_reply(req, op->status, NULL, 0);
		return;
	}
	switch (req->type) {
	case FAB_OPEN:
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
	case FAB_SYMLINK:
		app_attr_out(req->session, &op->meta.attr, &attr);
		fab_reply(req, 0, body, fab_build_stat(body, 0, &attr));
		return;
	case FAB_READLINK:
		app_text_answer(op, op->small, (uint32_t)op->meta.length);
		return;
	case FAB_SEEK:
		fab_reply(req, 0, body, fab_build_u64(body, op->meta.length));
		return;
	case FAB_STATFS:
		fab_reply(req, 0, body, build_statfs(op, body));
		return;
	case FAB_TOTALS:
		fab_reply(req, 0, body, build_totals(op, body));
		return;
	default:
		fab_reply(req, 0, NULL, 0);
	}
}
