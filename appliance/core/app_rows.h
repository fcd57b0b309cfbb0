/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Properties of each type of request, and of each kind of operation: app_rows.c.  Included at the
 * end of app_op.h. */
#ifndef APP_ROWS_H
#define APP_ROWS_H

#include "appliance/core/app_op.h"

/* Rights that a request needs besides changes: app_rights.c. */
enum app_needs {
	APP_NEEDS_NOTHING,
	APP_NEEDS_WHOLE,     /* sees the whole store, not a part of its tree */
	APP_NEEDS_ALL_NAMES, /* ... and may read any name                    */
	APP_NEEDS_DRIVES,    /* may change which drives the store uses       */
};

struct app_row {
	const char *name; /* in the status */
	enum app_op_kind kind;
	/* Fills op from the request, or from the item op->index of a batch. */
	void (*begin)(struct app_op *op);
	enum app_needs needs;
	bool is_batch;
	bool changes;    /* it may change the store, and may be repeated       */
	bool makes_room; /* never told to wait: others may wait for its space  */
	bool gives_back; /* never delayed by its key's rate                    */
};

struct app_kind {
	enum app_next (*step)(struct app_op *op);
	void (*answer)(struct app_op *op); /* NULL: it answers no client itself */
};

extern const struct app_row app_rows[FAB_TYPE_END];
extern const struct app_kind app_kinds[APP_OP_KINDS];

static inline bool app_is_batch(enum fab_type type)
{
	DASSERT(type < FAB_TYPE_END);
	return app_rows[type].is_batch;
}

#endif
