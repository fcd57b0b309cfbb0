/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An epoch stream: the batches of one rank, read ahead of the consumer.
 *
 *    steps   0 .. next - 1       next .. begun - 1             begun ..
 *            returned: free,     queue: under way or here,     not begun yet
 *            or held             at most `ahead` of them
 *
 * A batch joins the queue with its memory: when the pool has none left, fewer than `ahead` are
 * under way, and the stream goes on as long as there is one.
 *
 * Invariants:
 *  (1) The queue has the steps next .. begun - 1 in their order, and is at most `ahead` long.
 *  (2) A batch is in exactly one of three lists: spare, the queue, held.  Spare ones have no memory
 *      and no request; held ones have no request.
 *  (3) A step that failed stays first in the queue: no sample is left out by an error.
 *  (4) weka_stream_next() is in progress once at most.  While it pauses (weka_set_pause), other
 *      calls may be made: only they release batches, and the stream that they close is freed by
 *      the one that waits [test_app_dataset_disturbed:a_stream_takes_one_call_at_a_time].
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/clock.h"
#include "base/le.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD_DEFAULT 4u
#define AHEAD_MAX     256u
#define FLAGS_KNOWN   (WEKA_IN_ORDER | WEKA_DROP_LAST)

struct weka_stream {
	struct weka_client *client;
	struct weka_dataset *dataset;
	struct dataset__draw draw;
	struct dataset__plan plan;
	struct dataset__limits limits;
	struct dataset__place place; /* of the cursor */
	uint64_t steps;
	uint64_t next;
	uint64_t begun;
	uint32_t ahead;
	uint32_t queued;
	uint64_t timeout_ns;
	struct dataset__batch *spare;
	struct dataset__batch *queue;
	struct dataset__batch *held;
	bool is_inside; /* weka_stream_next() is in progress */
	bool is_closed; /* meanwhile it was closed */
	bool is_short;  /* the last time that batches were begun, there was no room for `ahead` */
	uint64_t opened_ns;
	struct weka_stream_stats stats;
	struct dataset__report report;
};

#ifdef WK_DEBUG
/* The rules above, after each call. */
static void stream_check(const struct weka_stream *s)
{
	const struct dataset__batch *b;
	uint64_t step = s->next;

	for (b = s->queue; b; b = b->next)
		ASSERT(b->is_ready && b->pub.step == step++); /* (1) */
	ASSERT(step == s->begun && s->queued == s->begun - s->next && s->queued <= s->ahead);
	ASSERT(s->begun <= s->steps && s->place.position <= s->plan.count);
	for (b = s->spare; b; b = b->next)
		ASSERT(!b->pub.lease && !b->is_ready && !dataset__batch_is_sent(b)); /* (2) */
	for (b = s->held; b; b = b->next)
		ASSERT(b->pub.step < s->next && !dataset__batch_is_sent(b)); /* (2) */
}
#else
static void stream_check(const struct weka_stream *s)
{
	(void)s;
}
#endif

/* ---- reading ahead ----------------------------------------------------------------------- */

static struct dataset__batch **queue_end(struct weka_stream *s)
{
	struct dataset__batch **at = &s->queue;

	while (*at)
		at = &(*at)->next;
	return at;
}

/* Puts the next step at the end of the queue, planned and not sent. */
static int step_begin(struct weka_stream *s, struct dataset__batch **out)
{
	struct dataset__batch *b = s->spare;
	int err;

	if (!b)
		b = dataset__batch_new(s->plan.batch);
	if (!b)
		return dataset__fail(s->dataset, -ENOMEM, "no memory for a batch");
	s->spare = b->next;
	b->next = NULL;
	b->piece = dataset__piece(&s->plan, s->begun);
	b->pub.step = s->begun;
	err = dataset__batch_plan(b, s->dataset, &s->draw, &s->limits);
	if (err) {
		b->next = s->spare;
		s->spare = b;
		return err;
	}
	*queue_end(s) = *out = b;
	s->begun++;
	s->queued++;
	ASSERT(s->queued == s->begun - s->next && s->queued <= s->ahead); /* (1) */
	return 0;
}

/* Takes the last step out of the queue again: the first one needs its memory. */
static void last_drop(struct weka_stream *s)
{
	struct dataset__batch **at = &s->queue, *b;

	while ((*at)->next)
		at = &(*at)->next;
	b = *at;
	ASSERT(b != s->queue && b->pub.step == s->begun - 1);
	*at = NULL;
	dataset__batch_return(b, s->client);
	b->next = s->spare;
	s->spare = b;
	s->begun--;
	s->queued--;
}

/* Requests are awaited, since the memory of a cancelled one comes back later. */
bool dataset__stream_shrink(struct weka_stream *s)
{
	const bool some = s->queue;

	ASSERT(!s->is_inside && s->client->nested > 0);
	while (s->queue) {
		struct dataset__batch *b = s->queue;

		(void)!dataset__batch_await(b, s->client);
		dataset__batch_return(b, s->client);
		s->queue = b->next;
		b->next = s->spare;
		s->spare = b;
	}
	s->begun = s->next;
	s->queued = 0;
	stream_check(s);
	return some;
}

/* Begins and sends what there is room for.  -EAGAIN: not all `ahead`. */
static int fill(struct weka_stream *s)
{
	struct dataset__batch *b;
	int err = 0;

	for (b = s->queue; b && !err; b = b->next)
		err = dataset__batch_send(b, s->client, s->timeout_ns);
	while (!err && s->queued < s->ahead && s->begun < s->steps) {
		err = step_begin(s, &b);
		if (!err)
			err = dataset__batch_send(b, s->client, s->timeout_ns);
	}
	s->is_short = err == -EAGAIN;
	return err;
}

/* ---- the consumer ------------------------------------------------------------------------ */

/* Waits until the first batch of the queue is here.  Each turn of the loop awaits what was sent,
 * sends more, or makes room for it. */
static int first_wait(struct weka_stream *s)
{
	struct dataset__batch *b = s->queue;
	int err = 0;

	while (!dataset__batch_is_here(b)) {
		err = dataset__batch_await(b, s->client);
		if (err || dataset__batch_is_here(b))
			break;
		err = dataset__batch_send(b, s->client, s->timeout_ns);
		if (err == -EAGAIN && dataset__batch_is_sent(b))
			err = 0; /* the others follow when these have been answered */
		if (err && (err != -EAGAIN || !b->next))
			break;
		if (err)
			last_drop(s);
		err = 0;
	}
	return err;
}

static int first_await(struct weka_stream *s)
{
	const bool is_short = s->is_short;
	uint64_t began, waited;
	int err;

	/* A batch that failed while nobody waited for it is asked for again: what its request met,
	 * such as a lost connection, may be over, and is told with the batch that waited. */
	if (dataset__batch_is_here(s->queue) && dataset__batch_await(s->queue, s->client) == 0)
		return 0;
	began = clock_now_ns();
	err = first_wait(s);
	waited = clock_now_ns() - began;
	dataset__waited(&s->stats, s->queue, waited, is_short);
	return err ? err : dataset__batch_await(s->queue, s->client);
}

static void take_first(struct weka_stream *s, struct weka_batch **out)
{
	struct dataset__batch *b = s->queue;

	ASSERT(b->pub.step == s->next && b->piece.end > s->place.position);
	dataset__batch_finish(b);
	s->queue = b->next;
	s->queued--;
	b->next = s->held;
	s->held = b;
	s->next++;
	s->place.position = b->piece.end;
	s->stats.batches++;
	s->stats.samples += b->piece.count;
	for (uint32_t i = 0; i < b->piece.count; i++)
		s->stats.bytes += b->items[i].got_bytes;
	*out = &b->pub;
}

static int next(struct weka_stream *s, struct weka_batch **out)
{
	int err;

	ASSERT(s->next <= s->begun && s->begun <= s->steps);
	if (s->next == s->steps)
		return 0;
	client__progress(s->client); /* memory of cancelled requests comes back */
	err = fill(s);
	/* A later step that cannot be begun is no reason to keep back the first one. */
	if (err && !s->queue)
		return err;
	ASSERT(s->queue && s->queue->pub.step == s->next); /* (1), (3) */
	err = first_await(s);
	if (err)
		return err;
	take_first(s, out);
	(void)fill(s); /* while the consumer works; an error comes with the next call */
	dataset__report(&s->report, s, s->dataset, &s->plan, s->client);
	client__flush(s->client);
	return 1;
}

static void batches_free(struct weka_stream *s, struct dataset__batch *b)
{
	while (b) {
		struct dataset__batch *following = b->next;

		dataset__batch_return(b, s->client);
		dataset__batch_free(b);
		b = following;
	}
}

static void stream_free(struct weka_stream *s)
{
	ASSERT(!s->is_inside); /* (4) */
	dataset__report_end(&s->report, s->client);
	batches_free(s, s->queue);
	batches_free(s, s->held);
	batches_free(s, s->spare);
	dataset__leave(s->dataset);
	dataset__weights_free(s->draw.weights);
	free(s);
}

static int next_alone(struct weka_stream *s, struct weka_batch **out)
{
	struct weka_client *c = s->client;
	int rc;

	if (s->is_inside)
		return client__say(c, -EBUSY, "weka_stream_next: another thread waits in it");
	s->is_inside = true;
	rc = next(s, out);
	s->is_inside = false;
	if (!s->is_closed) {
		stream_check(s);
		return rc;
	}
	stream_free(s);
	return client__say(c, -ESTALE, "weka_stream_next: the stream was closed meanwhile");
}

int weka_stream_next(struct weka_stream *s, struct weka_batch **out)
{
	struct weka_client *c = s ? s->client : NULL; /* s may be freed in next_alone() */

	if (!s)
		return client__stray_fail(-EINVAL, "weka_stream_next: the stream is NULL");
	CLIENT_NEED(c, out);
	return CLIENT_BEGUN(c, next_alone(s, out));
}

static int give_back(struct weka_stream *s, struct weka_batch *batch)
{
	struct dataset__batch **at = &s->held, *b;

	while (*at && &(*at)->pub != batch)
		at = &(*at)->next;
	if (!*at)
		return client__say(s->client, -EINVAL,
				   "weka_stream_release: the batch is not held: it was released");
	b = *at;
	*at = b->next;
	dataset__batch_return(b, s->client);
	b->next = s->spare; /* (2) */
	s->spare = b;
	return 0;
}

int weka_stream_release(struct weka_stream *s, struct weka_batch *batch)
{
	int rc;

	if (!s)
		return client__stray_fail(-EINVAL, "weka_stream_release: the stream is NULL");
	CLIENT_NEED(s->client, batch);
	rc = CLIENT_BEGUN(s->client, give_back(s, batch));
	stream_check(s);
	return rc;
}

int weka_stream_cursor(const struct weka_stream *s, struct weka_cursor *out)
{
	if (!s || !out)
		return client__stray_fail(-EINVAL, "weka_stream_cursor: NULL");
	dataset__cursor_build(out, &s->place);
	return 0;
}

void dataset__stats(const struct weka_stream *s, struct weka_stream_stats *out)
{
	*out = s->stats;
	out->open_ns = clock_now_ns() - s->opened_ns;
	out->manifest_ns = s->dataset->manifest_ns;
	out->size_bytes = sizeof(*out);
}

/* ---- opening and closing ----------------------------------------------------------------- */

static const char *epoch_wrong(const struct weka_epoch *e)
{
	const uint32_t world = e->world ? e->world : 1;

	if (world > WEKA_WORLD_MAX)
		return "a world has at most WEKA_WORLD_MAX ranks";
	if (e->rank >= world)
		return "the rank must be below world";
	if (e->batch == 0 || e->batch > WEKA_STREAM_BATCH_MAX)
		return "a batch has 1 to WEKA_STREAM_BATCH_MAX samples";
	if (e->ahead > AHEAD_MAX)
		return "at most 256 batches are read ahead";
	if (e->flags & ~FLAGS_KNOWN)
		return "a flag that does not exist";
	if (e->weights && e->flags & WEKA_IN_ORDER)
		return "an epoch with weights is shuffled";
	for (uint32_t i = 0; i < 2; i++)
		if (e->reserved[i] || e->reserved0)
			return "a reserved field is not 0";
	return NULL;
}

/* The cursor must be of this very order. */
static int cursor_take(struct weka_stream *s, const struct weka_cursor *cursor)
{
	struct dataset__place from;
	const char *wrong = dataset__cursor_parse(&from, cursor);

	if (wrong)
		return dataset__fail(s->dataset, -EINVAL, wrong);
	if (from.count != s->place.count ||
	    memcmp(from.content, s->place.content, DATASET__CURSOR_CONTENT) != 0)
		return dataset__fail(s->dataset, -ESTALE,
				     "the cursor is of another dataset or version");
	if (from.epoch != s->place.epoch)
		return client__say(s->client, -ESTALE, "the cursor is of epoch %llu, not of %llu",
				   (unsigned long long)from.epoch,
				   (unsigned long long)s->place.epoch);
	if (from.seed != s->place.seed || from.in_order != s->place.in_order ||
	    from.is_weighted != s->place.is_weighted)
		return dataset__fail(s->dataset, -ESTALE,
				     "the cursor is of another seed, or of another order");
	if (memcmp(from.content, s->place.content, sizeof(from.content)) != 0)
		return dataset__fail(s->dataset, -ESTALE,
				     "the cursor is of other weights, or of another version");
	if (from.position > s->plan.count)
		return dataset__fail(s->dataset, -EINVAL,
				     "the cursor is behind the end of its epoch");
	ASSERT(s->next == 0);
	s->plan.from = s->place.position = from.position;
	return 0;
}

static int order_open(struct weka_stream *s, const struct weka_epoch *e)
{
	le64 mark;
	int err;

	s->draw.in_order = s->place.in_order;
	if (!e->weights) {
		dataset__order_init(&s->draw.order, s->place.count, e->seed, e->epoch);
		return 0;
	}
	err = dataset__weights_make(&s->draw.weights, s->dataset, e->weights, e->seed, e->epoch);
	if (err)
		return err;
	s->plan.count = s->draw.weights->length;
	s->place.is_weighted = true;
	mark = le64_of(s->draw.weights->mark);
	memcpy(s->place.content + DATASET__CURSOR_CONTENT, &mark, sizeof(mark));
	return 0;
}

static int limits_open(struct weka_stream *s, const struct weka_epoch *e)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };
	int err = weka_get_limits(s->client, &limits);

	s->limits = (struct dataset__limits){
		.items_max = limits.batch_items_max,
		.window_max = limits.window_max_bytes,
		.pool_max = e->pool ? client__added_bytes(s->client, e->pool) : limits.pool_bytes,
		.pool = e->pool,
	};
	if (!err && s->limits.pool_max == 0)
		err = client__say(s->client, -EINVAL,
				  "weka_stream_open: not a pool of this client");
	return err;
}

static int open_stream(struct weka_stream *s, const struct weka_epoch *e,
		       const struct weka_cursor *cursor)
{
	int err = limits_open(s, e);

	s->place = (struct dataset__place){
		.count = s->dataset->header.samples,
		.seed = e->seed,
		.epoch = e->epoch,
		.in_order = e->flags & WEKA_IN_ORDER,
	};
	memcpy(s->place.content, s->dataset->header.content, sizeof(s->place.content));
	s->plan = (struct dataset__plan){
		.count = s->place.count,
		.rank = e->rank,
		.world = e->world ? e->world : 1,
		.batch = e->batch,
		.drop_last = e->flags & WEKA_DROP_LAST,
	};
	s->ahead = e->ahead ? e->ahead : AHEAD_DEFAULT;
	s->timeout_ns = e->timeout_ns;
	s->opened_ns = clock_now_ns();
	if (!err)
		err = order_open(s, e);
	if (!err && cursor)
		err = cursor_take(s, cursor);
	ASSERT(s->plan.rank < s->plan.world && s->ahead <= AHEAD_MAX);
	s->steps = err ? 0 : dataset__steps(&s->plan);
	return err;
}

int weka_stream_open(struct weka_client *c, struct weka_dataset *d, const struct weka_epoch *epoch,
		     const struct weka_cursor *cursor, struct weka_stream **out)
{
	struct weka_stream *s;
	const char *wrong;
	int err;

	CLIENT_NEED(c, d);
	CLIENT_NEED(c, epoch);
	CLIENT_NEED(c, out);
	wrong = epoch_wrong(epoch);
	CLIENT_REFUSE(c, wrong, -EINVAL, wrong);
	CLIENT_REFUSE(c, d->client != c, -EINVAL, "the dataset was opened by another client");
	s = calloc(1, sizeof(*s));
	CLIENT_REFUSE(c, !s, -ENOMEM, "no memory");
	s->client = c;
	s->dataset = d;
	dataset__use(d); /* weights read the manifest, and pauses let it be closed */
	err = CLIENT_BEGUN(c, open_stream(s, epoch, cursor));
	if (err) {
		dataset__weights_free(s->draw.weights);
		dataset__leave(d);
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

static int close_stream(struct weka_stream *s)
{
	if (s->is_inside)
		s->is_closed = true; /* (4) */
	else
		stream_free(s);
	return 0;
}

/*
 * After a fork the child must not touch the requests, which are its parent's; nor may anybody whose
 * client is closed or in another thread's hands.  Then the memory stays where it is.
 */
void weka_stream_close(struct weka_stream *s)
{
	struct weka_client *c = s ? s->client : NULL;

	if (s)
		(void)CLIENT_BEGUN(c, close_stream(s));
}
