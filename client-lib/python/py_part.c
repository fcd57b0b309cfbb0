/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One request of a batch: a window, sent, answered.
 *
 *    waits ---------> out ----------> done
 *          submitted      reaped       |  files that did not fit: new parts, exactly large enough
 *
 * All of this runs with the session locked, and without the interpreter's lock.
 *
 *   R1 -> A1   (A1 in py_weka.h, py_wait.c)
 *   R2 -> A2   (py_weka.h)
 *
 * Invariants:
 *
 *  (1) parts_left counts the parts that are not done; the batch is whole when it is 0.
 *  (2) A part that is out is not freed: py_job.c (2)
 *      [test_batch:test_a_batch_that_was_never_waited_for].
 *  (3) An item that failed has a status below 0, and no data.
 */
#include "client-lib/python/py_weka.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 4u /* a file that grows each time is given up */

/* ---- answers ------------------------------------------------------------------------------- */

static struct weka_read_item *item_of(struct py_job *job, struct py_part *part, uint32_t i)
{
	return part->index ? &job->items[part->index[i]] : &part->items[i];
}

static void item_fail(struct weka_read_item *item, int err)
{
	ASSERT(err < 0); /* (3) */
	item->status = err;
	item->data = NULL;
	item->got_bytes = 0;
}

/* Takes the answers into the job's items. */
static void items_take(struct py_job *job, struct py_part *part)
{
	uint32_t i;

	for (i = 0; i < part->count; i++) {
		struct weka_read_item *to = item_of(job, part, i);

		if (part->op.req.status)
			part->items[i].status = part->op.req.status;
		to->status = part->items[i].status;
		to->data = part->items[i].data;
		to->got_bytes = part->items[i].got_bytes;
		if (to->status && to->status != -EMSGSIZE)
			item_fail(to, to->status);
	}
}

static uint64_t blocks_got(const struct weka_read_item *item)
{
	return div_up(item->offset_bytes % WEKA_BLOCK + item->got_bytes, WEKA_BLOCK);
}

/* A part for the files [0, count) of `index`, which did not fit.  It owns `index`. */
static void again(struct py_session *s, struct py_job *job, uint32_t *index, uint32_t count,
		  uint64_t blocks, uint32_t round)
{
	struct weka_read_item *items = calloc(count, sizeof(*items));
	int err = items ? 0 : -ENOMEM;
	uint32_t i;

	for (i = 0; i < count && items; i++) {
		const struct weka_read_item *from = &job->items[index[i]];

		items[i].ref = from->ref;
		items[i].offset_bytes = from->offset_bytes;
		items[i].length_bytes = from->length_bytes;
		items[i].ctime_ns = from->ctime_ns;
	}
	if (!err)
		err = py_part_add(s, job, items, index, count, blocks, blocks);
	if (!err) {
		job->parts->round = round;
		return;
	}
	for (i = 0; i < count; i++)
		item_fail(&job->items[index[i]], err);
	free(items);
	free(index);
}

/* Small windows find room between others, and if the pool is full most files are there. */
static bool fits(const struct py_session *s, uint32_t count, uint64_t blocks)
{
	const uint64_t bytes = py_window_bytes(count, blocks);

	return bytes > 0 && bytes <= min_u64(s->window_max_bytes / 2, s->pool_bytes / 4);
}

/* The next files of the part that did not fit, from *at on, as many as one window holds. */
static uint32_t *pick(struct py_session *s, struct py_job *job, struct py_part *part, uint32_t *at,
		      uint32_t *count, uint64_t *blocks)
{
	uint32_t *index = malloc(part->count * sizeof(*index));

	*count = 0;
	*blocks = 0;
	for (; *at < part->count; (*at)++) {
		struct weka_read_item *item = item_of(job, part, *at);

		if (item->status != -EMSGSIZE)
			continue;
		if (!index || part->round == ROUNDS_MAX) {
			item_fail(item, index ? -EMSGSIZE : -ENOMEM);
			continue;
		}
		if (*count > 0 && !fits(s, *count + 1, *blocks + blocks_got(item)))
			break;
		*blocks += blocks_got(item);
		index[(*count)++] = part->index ? part->index[*at] : (uint32_t)(item - job->items);
	}
	if (*count > 0)
		return index;
	free(index);
	return NULL;
}

/* Learns how large files are. */
static void sizes_learn(struct py_session *s, const struct py_part *part)
{
	uint64_t bytes = 0;
	uint32_t i, count = 0;

	for (i = 0; i < part->count; i++) {
		if (part->items[i].length_bytes <= PY_EXACT_MAX ||
		    (part->items[i].status && part->items[i].status != -EMSGSIZE))
			continue;
		bytes += part->items[i].got_bytes;
		count++;
	}
	if (count == 0)
		return;
	s->item_bytes = (uint32_t)min_u64(bytes / count, WEKA_READ_MAX);
}

void py_part_finish(struct py_session *s, struct py_job *job, struct py_part *part)
{
	uint32_t at = 0, count, kept = 0, i;
	uint32_t *index;
	uint64_t blocks;

	ASSERT(part->is_out && py_op_done(&part->op));
	ASSERT(!py_job_is_whole(job)); /* (1), py_batch.c (3) */
	part->is_out = false;
	part->is_done = true;
	if (part->round == 0 && !part->op.req.status)
		sizes_learn(s, part);
	items_take(job, part);
	for (i = 0; i < part->count; i++)
		kept += item_of(job, part, i)->status == 0;
	if (kept == 0) { /* its lease may be what the next round needs */
		py_release_locked(s, part->window.lease);
		part->window.lease = NULL;
	}
	while ((index = pick(s, job, part, &at, &count, &blocks)) != NULL)
		again(s, job, index, count, blocks, part->round + 1);
	atomic_fetch_sub_explicit(&job->parts_left, 1, memory_order_release); /* R2 */
}

/* ---- a turn -------------------------------------------------------------------------------- */

/* Sends it.  Returns false when the session takes no more now. */
static bool part_send(struct py_session *s, struct py_job *job, struct py_part *part)
{
	int err = weka_submit_read_batch(s->weka, &part->op.req, part->items, part->count,
					 &part->window);

	ASSERT(part->window.lease); /* py_window.c (1) */
	if (err == -EAGAIN)
		return false;
	part->is_out = true;
	if (!err)
		return true;
	snprintf(job->line, sizeof(job->line), "%s", weka_error(s->weka));
	part->op.req.status = err;
	atomic_store_explicit(&part->op.done, true, memory_order_release); /* R1 */
	return true;
}

/* The session is gone: of a fork, or closed. */
static void all_failed(struct py_job *job, int err)
{
	struct py_part *part;

	for (part = job->parts; part; part = part->next) {
		part->is_out = false;
		part->is_done = true;
	}
	job->error = err;
	atomic_store_explicit(&job->parts_left, 0, memory_order_release); /* R2 */
}

void py_job_turn(struct py_session *s, struct py_job *job, uint64_t wait_ns)
{
	struct py_part *part, *next;
	int err;

	for (part = job->parts; part; part = part->next)
		if (!part->is_out && !part->is_done && !part_send(s, job, part))
			break;
	for (part = job->parts; part && wait_ns > 0; part = part->next)
		if (part->is_out && py_op_done(&part->op))
			wait_ns = 0;
	err = py_turn(s, wait_ns);
	if (err == -ESTALE || err == -EINVAL) {
		all_failed(job, err);
		return;
	}
	for (part = job->parts; part; part = next) {
		next = part->next; /* new ones come before it */
		if (part->is_out && py_op_done(&part->op))
			py_part_finish(s, job, part);
	}
}
