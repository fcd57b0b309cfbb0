/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Rights of a session's key: reading or writing, everything or the tree below one directory, and
 * within that the rights of its user by modes and owners (which the store checks: meta_access.c).
 *
 *   request --may only read?--> -EACCES, before any other check
 *      |
 *      +--by path------> the session's root, looked up now and then --> meta_target.root
 *      +--by number----> the same: the store climbs from it to the root, or does not find it
 *      +--by handle----> fab_handle_open(): a handle of another key names nothing: -ESTALE
 *
 * A path begins at the root, as do symlinks that begin with '/'; ".." out of it is refused, in a
 * path and in a symlink.  So nothing outside can be named, and the attempt reveals nothing: the
 * answer is the same whatever exists.
 *
 * Invariant: (1) No target by path is made for a confined session before its root is known.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"

#include <errno.h>
#include <string.h>

#define ROOT_FRESH_NS NS_PER_S /* age after which the directory is looked up again */
#define RETRY_MAX_MS  1000u    /* longest wait; then the client is told again */

/* Only keys that may do everything may drain drives. */
static bool may_drain(const struct fab_rights *rights)
{
	return rights->may_write && !rights->subtree[0] && (!rights->has_uid || rights->uid == 0);
}

/* Names of files, wherever they are. */
static bool may_see_names(const struct fab_rights *rights)
{
	return !rights->subtree[0] && (!rights->has_uid || rights->uid == 0);
}

int app_rights_check(const struct fab_req *req)
{
	const struct fab_rights *rights = req->session->rights;
	const enum app_needs needs = app_rows[req->type].needs;

	DASSERT(rights && req->type >= FAB_PING && req->type < FAB_TYPE_END);
	if (unlikely(needs == APP_NEEDS_DRIVES) && !may_drain(rights)) {
		fab_session_refused(req->session, FAB_REFUSED_WRITE);
		return -EACCES;
	}
	if (unlikely(needs == APP_NEEDS_ALL_NAMES) && !may_see_names(rights)) {
		fab_session_refused(req->session, FAB_REFUSED_STATUS);
		return -EACCES;
	}
	if (likely(rights->may_write && !rights->subtree[0]))
		return 0;
	if (!rights->may_write && fab_is_change(req->type, &req->args)) {
		fab_session_refused(req->session, FAB_REFUSED_WRITE);
		return -EACCES;
	}
	if (needs == APP_NEEDS_WHOLE && rights->subtree[0]) {
		fab_session_refused(req->session, FAB_REFUSED_STATUS);
		return -EACCES;
	}
	return 0;
}

struct meta_who app_who_of(const struct fab_rights *rights)
{
	struct meta_who who = { .uid = rights->uid };

	static_assert(FAB_GROUPS_MAX == META_GROUPS_MAX, "one list");
	if (!rights->has_uid || rights->uid == 0)
		return who;
	ASSERT(rights->gids > 0);
	who.gids = rights->gids;
	memcpy(who.gid, rights->gid, sizeof(who.gid));
	return who;
}

/* ---- rates ----------------------------------------------------------------------------------- */

bool app_rights_busy(struct app_core *core, struct fab_req *req)
{
	uint32_t count = app_is_batch(req->type) ? req->args.batch.count : 1;
	uint64_t wait_ns;

	DASSERT(count > 0);
	if (likely(!req->session->rate))
		return false;
	wait_ns = fab_session_rate_take(req->session, count, core->now_ns);
	if (likely(wait_ns == 0) || app_rows[req->type].gives_back)
		return false;
	core->stat.busy++;
	fab_reply_busy(req, (uint32_t)min_u64(div_up(wait_ns, NS_PER_MS), RETRY_MAX_MS));
	return true;
}

void app_rights_spend(const struct app_op *op)
{
	uint64_t bytes = 0;

	ASSERT(op->req->session->rate);
	if (op->status)
		return;
	if (op->kind == APP_OP_READ)
		bytes = op->done_bytes;
	else if (op->kind == APP_OP_PUT)
		bytes = op->file_size;
	else if (op->kind == APP_OP_WRITE)
		bytes = op->length_bytes;
	else if (op->kind == APP_OP_LIST || op->kind == APP_OP_XATTR)
		bytes = op->meta.list_used_bytes;
	else if (op->kind == APP_OP_NAME && op->req->type == FAB_STAT)
		bytes = FAB_STAT_BYTES;
	else if (op->kind == APP_OP_NAME && op->req->type == FAB_READLINK)
		bytes = op->meta.length;
	fab_session_rate_spend(op->req->session, bytes, op->core->now_ns);
}

/* ---- the root ------------------------------------------------------------------------------ */

bool app_root_due(const struct app_op *op)
{
	const struct app_session *s = op->session;

	DASSERT(op->session);
	if (likely(s->root == META_ROOT_DIR))
		return false;
	return s->root == 0 || op->core->now_ns - s->root_ns > ROOT_FRESH_NS;
}

static enum app_next root_known(struct app_op *op)
{
	struct app_session *s = op->session;

	ASSERT(op->rooting && s);
	op->rooting = false;
	s->root = 0;
	if (op->meta.status == -EIO)
		return app_op_end(op, -EIO);
	/* The key may have been made before its directory. */
	if (op->meta.status || op->meta.attr.dir == 0)
		return app_op_end(op, -ENOENT);
	s->root = op->meta.attr.dir;
	s->root_ns = op->core->now_ns;
	return APP_AGAIN;
}

enum app_next app_root_step(struct app_op *op)
{
	const char *path = op->req->session->rights->subtree;

	ASSERT(app_is_confined(op->req->session));
	if (op->rooting)
		return root_known(op);
	op->rooting = true;
	op->meta.flags = META_NOFOLLOW;
	/* No symlinks: others may write above it, and must not move it. */
	op->meta.target = (struct meta_target){
		.path = path,
		.path_len = (uint32_t)strlen(path),
		.no_links = true,
	};
	return app_op_meta(op, META_OP_STAT) ? APP_AGAIN : APP_WAIT;
}

/* ---- people -------------------------------------------------------------------------------- */

void app_rights_tell(const struct app_op *op)
{
	struct fab_session *session = op->req ? op->req->session : NULL;
	const bool is_somebody = op->session && op->session->who.gids;
	bool by_number = false;

	ASSERT(op->status < 0);
	if (!session || (!app_is_confined(session) && !is_somebody))
		return;
	for (uint32_t i = 0; i < op->names; i++)
		by_number |= op->name[i].by == FAB_BY_DIR;
	if (op->status == -EACCES)
		fab_session_refused(session, is_somebody ? FAB_REFUSED_USER : FAB_REFUSED_PATH);
	else if (op->status == -ESTALE || (op->status == -ENOENT && by_number))
		fab_session_refused(session, FAB_REFUSED_HANDLE);
}
