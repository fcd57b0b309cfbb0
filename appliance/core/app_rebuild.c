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
 *  (1) There is no rate before something moved for MEASURE_NS, and none of a time in which nothing
 *      did [test_app_rebuild].
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_rebuild.h"

#include "base/clock.h"

#define EVERY_NS   NS_PER_S
#define MEASURE_NS (2 * NS_PER_S)
#define STALL_NS   (30 * NS_PER_S)

/* ---- samples ------------------------------------------------------------------------------- */

static void begin(struct app_rebuild *r, const struct meta_rebuild *store, uint64_t now_ns)
{
	ASSERT(store->what != META_REBUILD_NONE);
	*r = (struct app_rebuild){
		.store = *store,
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
			*r = (struct app_rebuild){ .store = *store };
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
	*out = (struct app_rebuild_snapshot){ .store = r->store };
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

/* ---- the core's ---------------------------------------------------------------------------- */

static void count(struct app_core *core)
{
	struct meta_rebuild store;

	ASSERT(core->meta);
	meta_rebuild_count(core->meta, &store);
	app_rebuild_look(&core->rebuild, &store, core->now_ns);
}

void app_rebuild_turn(struct app_core *core)
{
	struct meta_rebuild what;

	ASSERT(core->life == APP_SERVING && core->meta);
	ASSERT(core->index == 0);
	if (likely(core->now_ns < core->rebuild.next_ns))
		return;
	core->rebuild.next_ns = core->now_ns + EVERY_NS;
	meta_rebuild_what(core->meta, &what);
	if (what.what != META_REBUILD_NONE || core->rebuild.store.what != META_REBUILD_NONE)
		count(core);
}

void app_core_spare_drives(struct app_core *core, uint32_t count)
{
	ASSERT(core->index == 0 && core->meta);
	meta_rebuild_spare(core->meta, count);
}

void app_rebuild_add(struct app_core *core, struct app_rebuild_snapshot *out)
{
	count(core);
	app_rebuild_stat(&core->rebuild, core->now_ns, out);
}
