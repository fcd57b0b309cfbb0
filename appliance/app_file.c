/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One change of a file at a time: writes, appends, truncates.
 *
 * A bucket lists operations in the order they came; of those with the same handle the first
 * holds the file, the others wait.  So it is fair, and a lock costs no memory of its own.
 * The store's core has the buckets, for operations of all cores.
 */
#include "appliance/app_op.h"
#include "base/hash.h"

static bool same(const struct app_op *a, const struct app_op *b)
{
	return a->file_hash == b->file_hash && a->handle.dir == b->handle.dir &&
	       a->handle.hash == b->handle.hash && a->handle.uniq == b->handle.uniq;
}

static struct list *bucket_of(struct app_core *core, const struct app_op *op)
{
	return &core->file[op->file_hash % APP_FILE_BUCKETS];
}

/* The first of the bucket with op's handle: the holder. */
static struct app_op *holder(struct app_core *core, const struct app_op *op)
{
	struct list *node;

	list_for_each (node, bucket_of(core, op)) {
		struct app_op *other = list_entry(node, struct app_op, file_link);

		if (same(other, op))
			return other;
	}
	return NULL;
}

bool app_file_lock_here(struct app_core *core, struct app_op *op)
{
	if (!list_linked(&op->file_link)) {
		op->file_hash = hash_bytes(0, &op->handle, sizeof(op->handle));
		list_push_back(bucket_of(core, op), &op->file_link);
	}
	op->locked = holder(core, op) == op;
	core->stat.busy_file_waits += !op->locked;
	return op->locked;
}

void app_file_unlock_here(struct app_core *core, struct app_op *op)
{
	bool held = holder(core, op) == op; /* though it may have given up before it was told */
	struct app_op *next;

	list_del(&op->file_link);
	op->locked = false;
	next = held ? holder(core, op) : NULL;
	if (next && next->core != core) {
		app_serve_unlocked(core, next);
	} else if (next) {
		ASSERT(next->on == APP_ON_FILE || next->on == APP_ON_READY);
		app_op_ready(next);
	}
}
