/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One row a type of request, and one a kind of operation: what the appliance knows of it.
 *
 * A new request is a type (fab_call.h), its bytes (fabric/wire/fab_codec_req.c and the client's
 * fabric/client/fab_codec_call.c), a row here, what begins, steps and answers it, and a test.
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_snapshot.h"

const struct app_row app_rows[FAB_TYPE_END] = {
	[FAB_PING] = { .name = "ping", .makes_room = true }, /* answered at once */
	[FAB_READ] = { "read", APP_OP_READ, app_read_begin },
	[FAB_READ_BATCH] = { "read_batch", APP_OP_READ, app_read_item_begin, .is_batch = true },
	[FAB_OPEN] = { "open", APP_OP_OPEN, app_name_begin, .changes = true },
	[FAB_STAT] = { "stat", APP_OP_NAME, app_stat_item_begin, .is_batch = true },
	[FAB_LIST] = { "list", APP_OP_LIST, app_name_begin },
	[FAB_READLINK] = { "readlink", APP_OP_NAME, app_name_begin },
	[FAB_STATFS] = { "statfs", APP_OP_NAME, app_name_begin },
	[FAB_TOTALS] = { "totals", APP_OP_NAME, app_name_begin },
	[FAB_STATUS] = { "status", APP_OP_STATUS, app_name_begin, .needs = APP_NEEDS_WHOLE },
	[FAB_PUT] = { "put", APP_OP_PUT, app_put_item_begin, .is_batch = true, .changes = true },
	[FAB_PUT_BEGIN] = { "put_begin", APP_OP_NAME, app_name_begin, .changes = true },
	[FAB_PUT_COMMIT] = { "put_commit", APP_OP_NAME, app_name_begin, .changes = true,
			     .makes_room = true },
	[FAB_WRITE] = { "write", APP_OP_WRITE, app_write_begin, .changes = true },
	[FAB_TRUNCATE] = { "truncate", APP_OP_TRUNCATE, app_truncate_begin, .changes = true },
	[FAB_SETATTR] = { "setattr", APP_OP_NAME, app_name_begin, .changes = true },
	[FAB_MKDIR] = { "mkdir", APP_OP_NAME, app_name_begin, .changes = true },
	[FAB_RMDIR] = { "rmdir", APP_OP_NAME, app_name_begin, .changes = true, .makes_room = true },
	[FAB_UNLINK] = { "unlink", APP_OP_NAME, app_name_begin, .changes = true,
			 .makes_room = true },
	[FAB_RENAME] = { "rename", APP_OP_NAME, app_name_begin, .changes = true },
	[FAB_SYMLINK] = { "symlink", APP_OP_NAME, app_name_begin, .changes = true },
	[FAB_PUT_ABORT] = { "put_abort", APP_OP_NAME, app_name_begin, .changes = true,
			    .makes_room = true, .gives_back = true },
	[FAB_LINK] = { "link", APP_OP_NAME, app_name_begin, .changes = true },
	[FAB_PUNCH] = { "punch", APP_OP_PUNCH, app_punch_begin, .changes = true },
	[FAB_SEEK] = { "seek", APP_OP_NAME, app_name_begin },
	[FAB_RMTREE] = { "rmtree", APP_OP_NAME, app_name_begin, .changes = true,
			 .makes_room = true },
	[FAB_XATTR_GET] = { "xattr_get", APP_OP_XATTR, app_xattr_begin },
	[FAB_XATTR_SET] = { "xattr_set", APP_OP_XATTR, app_xattr_begin, .changes = true },
	[FAB_XATTR_LIST] = { "xattr_list", APP_OP_XATTR, app_xattr_begin },
	[FAB_XATTR_DEL] = { "xattr_del", APP_OP_XATTR, app_xattr_begin, .changes = true },
	[FAB_UNLINK_BATCH] = { "unlink_batch", APP_OP_NAME, app_unlink_item_begin, .is_batch = true,
			       .changes = true, .makes_room = true },
	[FAB_DRAIN] = { "drain", APP_OP_NAME, app_name_begin, .needs = APP_NEEDS_DRIVES,
			.changes = true },
	[FAB_UNDRAIN] = { "undrain", APP_OP_NAME, app_name_begin, .needs = APP_NEEDS_DRIVES,
			  .changes = true },
	[FAB_HOLD] = { "hold", APP_OP_NAME, app_hold_item_begin, .is_batch = true },
	[FAB_LET_GO] = { "let_go", APP_OP_LET_GO, app_hold_item_begin, .is_batch = true,
			 .makes_room = true, .gives_back = true },
	[FAB_CHECK] = { "check", APP_OP_NAME, app_name_begin },
	[FAB_DAMAGED] = { "damaged", APP_OP_STATUS, app_name_begin, .needs = APP_NEEDS_ALL_NAMES },
};

const struct app_kind app_kinds[APP_OP_KINDS] = {
	[APP_OP_READ] = { app_read_step, app_read_answer },
	[APP_OP_PUT] = { app_put_step, NULL },
	[APP_OP_WRITE] = { app_write_step, app_write_answer },
	[APP_OP_TRUNCATE] = { app_truncate_step, app_name_answer },
	[APP_OP_PUNCH] = { app_punch_step, app_name_answer },
	[APP_OP_OPEN] = { app_open_step, app_name_answer },
	[APP_OP_NAME] = { app_name_step, app_name_answer },
	[APP_OP_LIST] = { app_list_step, app_list_answer },
	[APP_OP_XATTR] = { app_xattr_step, app_xattr_answer },
	[APP_OP_STATUS] = { app_status_step, app_status_answer },
	[APP_OP_ABORT] = { app_abort_step, NULL },
	[APP_OP_LET_GO] = { app_let_go_step, NULL },
	[APP_OP_BATCH_END] = { app_batch_end_step, app_batch_end_answer },
	[APP_OP_SCRUB] = { app_scrub_step, NULL },
	[APP_OP_SNAPSHOT] = { app_status_step, NULL },
};

const char *app_request_name(uint32_t type)
{
	return type < FAB_TYPE_END ? app_rows[type].name : NULL;
}
