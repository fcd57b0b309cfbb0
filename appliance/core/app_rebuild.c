/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The progress of a rebuild or a drain (meta_pair.c, meta_drain.c), for people.
 *
 *   core 0, once a second while it turns --count--> app_rebuild_look() --> a ring of samples
 *   a snapshot                           --count--'                        the last half minute
 *
 * No timer belongs to this: a core that has nothing to move sleeps.  "Done" counts from the begin
 * of the rebuild, or from the start of the daemon: the store knows only what is left.
 *
 * Its pace (meta_pace.c) is bound here, too: while clients have requests, it moves one extent at a
 * time, and the rate of the configuration is given as credit, turn by turn.
 *
 *  (1) There is no rate before something moved for MEASURE_NS, and none of a time in which nothing
 *      did [test_app_rebuild].
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_rebuild.h"

#include "base/clock.h"

#define EVERY_NS   NS_PER_S
#define MEASURE_NS (2 * NS_PER_S)
#define STALL_NS   (30 * NS_PER_S)
#define BURST_NS   (NS_PER_S / 8)
#define QUIET_NS   (5 * NS_PER_MS) /* since the last request: a client may well ask again */

/* ---- samples ------------------------------------------------------------------------------- */

static void begin(struct app_rebuild *r, const struct meta_rebuild *store, uint64_t now_ns)
{
	ASSERT(store->what != META_REBUILD_NONE);
	*r = (struct app_rebuild){
		.store = *store,
		.rate = r->rate,
		.paid_ns = r->paid_ns,
		.began_ns = now_ns,
		.moved_ns = now_ns,
		.most_blocks = store->left_blocks,
		.least_blocks = store->left_blocks,
	};
}

void app_rebuild_look(struct app_rebuild *r, const struct meta_rebuild *store, uint64_t now_ns)
{
	const uint32_t last = (r->samples - 1) % APP_REBUILD_SAMPLES;

	if (store->what != r->store.what || store->drive != r->store.drive) {
		if (store->what != META_REBUILD_NONE)
			begin(r, store, now_ns);
		else
			*r = (struct app_rebuild){
				.store = *store,
				.rate = r->rate,
				.paid_ns = r->paid_ns,
			};
	}
	r->store = *store;
	r->next_ns = now_ns + EVERY_NS;
	if (store->what == META_REBUILD_NONE)
		return;
	ASSERT(now_ns >= r->began_ns);
	ASSERT(r->least_blocks <= r->most_blocks);
	if (store->left_blocks < r->least_blocks)
		r->moved_ns = now_ns;
	r->least_blocks = min_u64(r->least_blocks, store->left_blocks);
	r->most_blocks = max_u64(r->most_blocks, store->left_blocks);
	if (r->samples && now_ns - r->sample[last].at_ns < EVERY_NS)
		return;
	r->sample[r->samples % APP_REBUILD_SAMPLES].at_ns = now_ns;
	r->sample[r->samples % APP_REBUILD_SAMPLES].left_blocks = store->left_blocks;
	r->samples++;
}

/* (1) */
static void measure(const struct app_rebuild *r, uint64_t now_ns, struct app_rebuild_snapshot *out)
{
	const uint32_t kept = min_u32(r->samples, APP_REBUILD_SAMPLES);
	const uint32_t oldest = (r->samples - kept) % APP_REBUILD_SAMPLES;
	uint64_t blocks, ns;

	if (kept == 0 || r->sample[oldest].left_blocks <= r->store.left_blocks)
		return;
	ASSERT(now_ns >= r->sample[oldest].at_ns);
	ns = now_ns - r->sample[oldest].at_ns;
	blocks = r->sample[oldest].left_blocks - r->store.left_blocks;
	if (ns < MEASURE_NS || blocks * NS_PER_S < ns)
		return;
	ASSERT(blocks > 0 && ns > 0); /* (1) */
	out->measured = true;
	out->blocks_per_second = (uint64_t)((double)blocks * NS_PER_S / (double)ns);
	out->blocks_per_second = max_u64(1, out->blocks_per_second);
	out->seconds_left = div_up(r->store.left_blocks, out->blocks_per_second);
}

void app_rebuild_stat(const struct app_rebuild *r, uint64_t now_ns,
		      struct app_rebuild_snapshot *out)
{
	*out = (struct app_rebuild_snapshot){ .store = r->store, .limit = r->rate };
	if (r->store.what == META_REBUILD_NONE)
		return;
	ASSERT(r->most_blocks >= r->store.left_blocks);
	out->age_ns = now_ns - r->began_ns;
	out->done_blocks = r->most_blocks - r->store.left_blocks;
	out->stalled = now_ns - r->moved_ns >= STALL_NS;
	measure(r, now_ns, out);
}

/* ---- what it means ------------------------------------------------------------------------- */

const char *app_rebuild_what_name(const struct app_rebuild_snapshot *s)
{
	static const char *const name[] = {
		[META_REBUILD_LOST] = "lost",
		[META_REBUILD_DRAIN] = "drain",
		[META_REBUILD_COPIES] = "copies",
	};

	ASSERT(s->store.what > META_REBUILD_NONE && s->store.what < ARRAY_LEN(name));
	return name[s->store.what];
}

/* Room that collection can win does not count as missing, unless nothing moves any more. */
uint64_t app_rebuild_missing(const struct app_rebuild_snapshot *s)
{
	ASSERT(s->store.short_blocks <= s->store.left_blocks || s->store.alone);
	if (s->store.alone || s->store.left_blocks == 0)
		return 0;
	if (s->store.short_blocks)
		return s->store.short_blocks;
	return s->stalled ? s->store.tight_blocks : 0;
}

const char *app_rebuild_state_name(const struct app_rebuild_snapshot *s)
{
	ASSERT(s->store.kept_blocks <= s->store.left_blocks);
	if (s->store.alone)
		return "no_drive";
	if (s->store.cannot)
		return "not_written";
	if (s->store.left_blocks == 0)
		return "ending";
	if (app_rebuild_missing(s))
		return "no_room";
	if (s->store.kept_blocks == s->store.left_blocks)
		return "damaged";
	return s->stalled ? "stalled" : "moving";
}

bool app_rebuild_is_stuck(const struct app_rebuild_snapshot *s)
{
	if (s->store.what == META_REBUILD_NONE)
		return false;
	return s->store.alone || s->store.cannot || app_rebuild_missing(s) > 0 ||
	       (s->store.left_blocks > 0 &&
		(s->stalled || s->store.kept_blocks == s->store.left_blocks));
}

/* ---- pace ---------------------------------------------------------------------------------- */

int64_t app_rebuild_credit(struct app_rebuild *r, int64_t left, uint64_t now_ns)
{
	const double per_block_ns = (double)BLOCK_SIZE * NS_PER_S / (double)r->rate;
	const int64_t burst = (int64_t)max_u64(32, (uint64_t)(BURST_NS / per_block_ns));
	const int64_t blocks = (int64_t)((double)(now_ns - r->paid_ns) / per_block_ns);

	ASSERT(r->rate > 0);
	ASSERT(now_ns >= r->paid_ns);
	if (left >= burst - blocks) {
		r->paid_ns = now_ns; /* a rest is not made up for */
		return burst;
	}
	r->paid_ns += (uint64_t)((double)blocks * per_block_ns);
	return left + blocks;
}

/* ---- the core's ---------------------------------------------------------------------------- */

static void count(struct app_core *core)
{
	struct meta_rebuild store;

	ASSERT(core->meta);
	meta_rebuild_count(core->meta, &store);
	app_rebuild_look(&core->rebuild, &store, core->now_ns);
}

/* Clients have requests, on this core or, as far as this one can see, on others. */
static bool has_clients(const struct app_core *core)
{
	if (core->requests_open > 0 || core->queued > 0 ||
	    (core->asked_ns && core->now_ns - core->asked_ns < QUIET_NS))
		return true;
	for (uint32_t i = 1; core->cores && i < core->cores->count; i++)
		if (!atomic_load_explicit(&core->cores->bell[i].asleep, memory_order_relaxed))
			return true;
	return false;
}

static void pace(struct app_core *core)
{
	struct app_rebuild *r = &core->rebuild;
	const int64_t left = meta_rebuild_credit(core->meta);
	const int64_t now = r->rate ? app_rebuild_credit(r, left, core->now_ns) : META_PACE_FREE;

	ASSERT(core->index == 0);
	ASSERT(r->paid_ns <= core->now_ns);
	meta_rebuild_pace(core->meta, has_clients(core) ? 1 : UINT32_MAX, now);
	core->progress |= left <= 0 && now > 0;
}

uint64_t app_rebuild_deadline(const struct app_core *core)
{
	const struct app_rebuild *r = &core->rebuild;
	int64_t left;

	if (core->life != APP_SERVING || !core->meta || r->rate == 0)
		return UINT64_MAX;
	left = meta_rebuild_credit(core->meta);
	ASSERT(core->index == 0);
	if (left > 0)
		return UINT64_MAX;
	return r->paid_ns +
	       (uint64_t)((double)(1 - left) * BLOCK_SIZE * NS_PER_S / (double)r->rate) + 1;
}

void app_rebuild_turn(struct app_core *core)
{
	struct meta_rebuild what;

	ASSERT(core->life == APP_SERVING && core->meta);
	ASSERT(core->index == 0);
	pace(core);
	if (likely(core->now_ns < core->rebuild.next_ns))
		return;
	core->rebuild.next_ns = core->now_ns + EVERY_NS;
	meta_rebuild_what(core->meta, &what);
	if (what.what != META_REBUILD_NONE || core->rebuild.store.what != META_REBUILD_NONE)
		count(core);
}

void app_core_rebuild(struct app_core *core, uint64_t rate, uint32_t spare_drives)
{
	ASSERT(core->index == 0 && core->meta);
	meta_rebuild_spare(core->meta, spare_drives);
	core->rebuild.rate = rate;
}

void app_rebuild_add(struct app_core *core, struct app_rebuild_snapshot *out)
{
	count(core);
	app_rebuild_stat(&core->rebuild, core->now_ns, out);
}
