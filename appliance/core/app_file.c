/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Locks for changes of a file: one change of a block at a time; for writes, appends, truncates,
 * punches.
 *
 *   file     |       |#######|       |###|            |   blocks locked by running changes
 *   waiting      |-- a --|              |--- b ---|         want some of these blocks
 *                                             |-- c --|   and c some of b's, which came first
 *
 * A write needs only its own blocks of the file, so all writes that the writers of one large file
 * have in flight run at once, if they change different blocks.  A change that reads the file's end,
 * or its tail, locks all of the file.
 *
 * A bucket lists operations in order of arrival; one has its lock when none before it, for the same
 * file, has or waits for one of its blocks.  A lock of a whole file is not
 * overtaken.  And a lock costs no memory of its own.  The store's core has the buckets, for
 * operations of all cores; it alone uses file_held, and the fields that it reads of other cores'
 * operations (handle, blocks) do not change while they are listed.
 */
#include "appliance/core/app_op.h"
#include "base/hash.h"

static struct list *bucket_of(struct app_core *core, const struct app_op *op)
{
	DASSERT(core->index == 0);
	return &core->file[op->file_hash % APP_FILE_BUCKETS];
}

static bool same(const struct app_op *a, const struct app_op *b)
{
	return a->file_hash == b->file_hash && a->handle.dir == b->handle.dir &&
	       a->handle.hash == b->handle.hash && a->handle.uniq == b->handle.uniq;
}

static bool overlap(const struct app_op *a, const struct app_op *b)
{
	DASSERT(a->file_from < a->file_end && b->file_from < b->file_end);
	return a->file_from < b->file_end && b->file_from < a->file_end;
}

/* None before it is in its way. */
static bool may_hold(struct app_core *core, const struct app_op *op)
{
	struct list *node;

	ASSERT(list_linked(&op->file_link));
	list_for_each (node, bucket_of(core, op)) {
		const struct app_op *other = list_entry(node, struct app_op, file_link);

		if (other == op)
			return true;
		if (same(other, op) && overlap(other, op))
			return false;
	}
	UNREACHABLE();
}

bool app_file_lock_here(struct app_core *core, struct app_op *op)
{
	ASSERT(!op->locked);
	ASSERT(op->file_from < op->file_end);
	if (!list_linked(&op->file_link)) {
		op->file_hash = hash_bytes(0, &op->handle, sizeof(op->handle));
		list_push_back(bucket_of(core, op), &op->file_link);
	}
	if (!op->file_held)
		op->file_held = may_hold(core, op);
	op->locked = op->file_held;
	core->stat.busy_file_waits += !op->locked;
	ASSERT(!op->file_held || list_linked(&op->file_link));
	return op->locked;
}

static void tell(struct app_core *core, struct app_op *next)
{
	ASSERT(!next->file_held && list_linked(&next->file_link));
	next->file_held = true;
	if (next->core != core) {
		app_serve_unlocked(core, next);
	} else {
		ASSERT(next->on == APP_ON_FILE || next->on == APP_ON_READY);
		app_op_ready(next);
	}
}

/* Those that waited for the range of `gone`, in the order in which they came. */
static void tell_waiting(struct app_core *core, const struct app_op *gone)
{
	struct list *node;

	ASSERT(!list_linked(&gone->file_link));
	list_for_each (node, bucket_of(core, gone)) {
		struct app_op *next = list_entry(node, struct app_op, file_link);

		if (next->file_held || !same(next, gone) || !overlap(next, gone))
			continue;
		if (may_hold(core, next))
			tell(core, next);
	}
}

void app_file_unlock_here(struct app_core *core, struct app_op *op)
{
	ASSERT(list_linked(&op->file_link) && op->locked <= op->file_held);
	list_del(&op->file_link);
	op->locked = false;
	op->file_held = false;
	tell_waiting(core, op);
}
