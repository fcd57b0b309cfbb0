/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One row for each operation: all properties of its kind, except the plan itself.
 *
 * A new operation is a value of enum meta_op_type, a row here, a plan in meta/plans, and a test.
 */
#include "meta/engine/meta_ops.h"
#include "meta/plans/meta_plan.h"

const struct meta__op_row meta__user_rows[] = {
	[META_OP_STAT] = { .plan = meta__plan_stat, .kind = OP_NO_CHANGE },
	[META_OP_READ] = { .plan = meta__plan_read, .kind = OP_NO_CHANGE },
	[META_OP_LIST] = { .plan = meta__plan_list, .kind = OP_NO_CHANGE },
	[META_OP_READLINK] = { .plan = meta__plan_readlink, .kind = OP_NO_CHANGE },
	[META_OP_STATFS] = { .plan = meta__plan_statfs, .kind = OP_NO_CHANGE, .store_only = true },
	[META_OP_PUT] = { .plan = meta__plan_put,
			  .kind = OP_FILLS,
			  .inline_max = META_INLINE_MAX,
			  .brings = META__BRINGS_BLOCKS_OR_INLINE },
	[META_OP_PUT_BEGIN] = { .plan = meta__plan_put_begin,
				.kind = OP_FILLS,
				.inline_max = META_TAIL_MAX,
				.store_only = true },
	[META_OP_PUT_COMMIT] = { .plan = meta__plan_put_commit,
				 .kind = OP_FILLS,
				 .inline_max = META_TAIL_MAX,
				 .store_only = true },
	[META_OP_PUT_ABORT] = { .plan = meta__plan_put_abort,
				.inline_max = META_TAIL_MAX,
				.store_only = true },
	[META_OP_WRITE] = { .plan = meta__plan_write,
			    .kind = OP_FILLS,
			    .inline_max = META_TAIL_MAX,
			    .brings = META__BRINGS_BLOCKS },
	[META_OP_TRUNCATE] = { .plan = meta__plan_truncate,
			       .inline_kind = OP_FILLS,
			       .inline_max = META_TAIL_MAX,
			       .brings = META__BRINGS_BLOCKS_OR_INLINE },
	[META_OP_PUNCH] = { .plan = meta__plan_punch,
			    .inline_max = META_TAIL_MAX,
			    .brings = META__BRINGS_BLOCKS },
	[META_OP_SEEK] = { .plan = meta__plan_seek, .kind = OP_NO_CHANGE },
	[META_OP_SETATTR] = { .plan = meta__plan_setattr,
			      .kind = OP_LENGTHENS,
			      .inline_max = META_TAIL_MAX },
	[META_OP_MKDIR] = { .plan = meta__plan_mkdir,
			    .kind = OP_FILLS,
			    .inline_max = META_TAIL_MAX },
	[META_OP_SYMLINK] = { .plan = meta__plan_symlink,
			      .kind = OP_FILLS,
			      .inline_max = META_TAIL_MAX },
	[META_OP_UNLINK] = { .plan = meta__plan_unlink, .inline_max = META_TAIL_MAX },
	[META_OP_RMDIR] = { .plan = meta__plan_rmdir, .inline_max = META_TAIL_MAX },
	[META_OP_RENAME] = { .plan = meta__plan_rename,
			     .kind = OP_LENGTHENS,
			     .inline_max = META_TAIL_MAX },
	[META_OP_LINK] = { .plan = meta__plan_link, .kind = OP_FILLS, .inline_max = META_TAIL_MAX },
	[META_OP_RMTREE] = { .plan = meta__plan_rmtree,
			     .inline_max = META_TAIL_MAX,
			     .store_only = true },
	[META_OP_XATTR_SET] = { .plan = meta__plan_xattr_set,
				.kind = OP_FILLS,
				.inline_max = META_TAIL_MAX,
				.may_be_too_long = true },
	[META_OP_XATTR_DEL] = { .plan = meta__plan_xattr_del, .inline_max = META_TAIL_MAX },
	[META_OP_XATTR_GET] = { .plan = meta__plan_xattr_get, .kind = OP_NO_CHANGE },
	[META_OP_XATTR_LIST] = { .plan = meta__plan_xattr_list, .kind = OP_NO_CHANGE },
	[META_OP_LET_GO] = { .plan = meta__plan_let_go,
			     .inline_max = META_TAIL_MAX,
			     .store_only = true },
	[META_OP_TOTALS] = { .plan = meta__plan_totals, .kind = OP_NO_CHANGE, .store_only = true },
	[META_OP_DRIVE] = { .plan = meta__plan_drive,
			    .kind = OP_NO_CHANGE,
			    .store_only = true,
			    .of_drives = true },
	[META_OP_RECALL] = { .plan = meta__plan_recall, .kind = OP_NO_CHANGE, .store_only = true },
};

bool meta_op_changes(const struct meta_op *op)
{
	ASSERT((uint32_t)op->type < ARRAY_LEN(meta__user_rows));
	return !(meta__op_row_kind(&meta__user_rows[op->type], op) & OP_NO_CHANGE);
}
