/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The window of one request of a batch: how large, and where from.
 *
 *    | files, each from a block on | checksums | answers |
 *
 * Invariants:
 *
 *  (1) A part on job->parts has a lease, until it is done and has nothing in it.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t py_window_bytes(uint32_t count, uint64_t blocks)
{
	const uint64_t each = div_up(blocks, count) * WEKA_BLOCK;

	return each > WEKA_READ_MAX ? 0 : weka_window_bytes(count, each);
}

/* The line for people of a batch that finds no lease. */
static void lease_line(const struct py_session *s, struct py_job *job, int err, uint64_t bytes)
{
	snprintf(job->line, sizeof(job->line),
		 "%llu bytes of the pool are needed, of %llu%s: read fewer files at once, or "
		 "connect with a larger pool_bytes",
		 (unsigned long long)bytes, (unsigned long long)s->pool_bytes,
		 err == -EAGAIN ? ", and other batches have too much of it: release some" : "");
}

/* Takes a lease for `bytes`, or for less but at least `least`. */
static int window_take(struct py_session *s, struct py_job *job, struct weka_window *window,
		       uint64_t bytes, uint64_t least)
{
	int err = -EMSGSIZE;

	while (bytes > 0 && least > 0) {
		err = bytes > s->window_max_bytes ? -EMSGSIZE
						  : py_lease_locked(s, bytes, &window->lease);
		if (!err)
			break;
		if (bytes == least || (err != -EAGAIN && err != -EMSGSIZE))
			break;
		bytes = align_up(max_u64(bytes / 2, least), WEKA_BLOCK);
	}
	if (err && bytes > 0 && (err == -EAGAIN || err == -EMSGSIZE))
		lease_line(s, job, err, bytes);
	else if (err)
		snprintf(job->line, sizeof(job->line), "%s",
			 bytes > 0 ? weka_error(s->weka) : "larger than what one request reads");
	window->size_bytes = err ? 0 : window->lease->size_bytes;
	return err;
}

int py_part_add(struct py_session *s, struct py_job *job, struct weka_read_item *items,
		uint32_t *index, uint32_t count, uint64_t blocks, uint64_t blocks_least)
{
	struct py_part *part = calloc(1, sizeof(*part));
	int err;

	if (!part) {
		snprintf(job->line, sizeof(job->line), "no memory");
		return -ENOMEM;
	}
	err = window_take(s, job, &part->window, py_window_bytes(count, blocks),
			  py_window_bytes(count, blocks_least));
	if (err) {
		free(part);
		return err;
	}
	part->items = items;
	part->index = index;
	part->count = count;
	part->next = job->parts;
	job->parts = part;
	atomic_fetch_add_explicit(&job->parts_left, 1, memory_order_relaxed);
	return 0;
}
