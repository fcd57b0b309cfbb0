/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One change of a block of a file at a time: writes, appends, truncates, punches.
 *
 *   file     |       |#######|       |###|            |   blocks held by who changes them
 *   waiting      |-- a --|              |--- b ---|         ... of which they want some
 *                                             |-- c --|   and c some of b's, which came first
 *
 * A write needs to know nothing of the file but its own blocks, so many of them run at once, as
 * many as one large file's writers have in flight, where they change other blocks.  Who looks at
 * the file's end, or its tail, and then changes it, has all of the file.
 *
 * A bucket lists operations in the order they came; one holds its blocks when none before it, of
 * the same file, has or waits for one of them.  So it is fair: who wants all of a file is not
 * overtaken.  And a lock costs no memory of its own.  The store's core has the buckets, for
 * operations of all cores; file_held is its alone, and what it reads of others' operations (handle,
 * blocks) does not change while they are listed.
 */
#include "appliance/core/app_op.h"
#include "base/hash.h"

static struct list *bucket_of(struct app_core *core, const struct app_op *op)
{
	return &core->file[op->file_hash % APP_FILE_BUCKETS];
}

static bool same(const struct app_op *a, const struct app_op *b)
{
	return a->file_hash == b->file_hash && a->handle.dir == b->handle.dir &&
	       a->handle.hash == b->handle.hash && a->handle.uniq == b->handle.uniq;
}

static bool overlap(const struct app_op *a, const struct app_op *b)
{
	return a->file_from < b->file_end && b->file_from < a->file_end;
}

/* None before it is in its way. */
static bool may_hold(struct app_core *core, const struct app_op *op)
{
	struct list *node;

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
	ASSERT(op->file_from < op->file_end);
	if (!list_linked(&op->file_link)) {
		op->file_hash = hash_bytes(0, &op->handle, sizeof(op->handle));
		list_push_back(bucket_of(core, op), &op->file_link);
	}
	if (!op->file_held)
		op->file_held = may_hold(core, op);
	op->locked = op->file_held;
	core->stat.busy_file_waits += !op->locked;
	return op->locked;
}

static void tell(struct app_core *core, struct app_op *next)
{
	next->file_held = true;
	if (next->core != core) {
		app_serve_unlocked(core, next);
	} else {
		ASSERT(next->on == APP_ON_FILE || next->on == APP_ON_READY);
		app_op_ready(next);
	}
}

/* Those that waited for what `gone` had, or wanted, in the order they came. */
static void tell_waiting(struct app_core *core, const struct app_op *gone)
{
	struct list *node;

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
	list_del(&op->file_link);
	op->locked = false;
	op->file_held = false;
	tell_waiting(core, op);
}
