/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A hostile client beside an honest one, on the whole appliance, in one thread, from a seed.
 *
 *   - the honest client reads the bytes that it wrote, whatever the other says meanwhile
 *   - each of its requests is answered within STEPS_MAX turns: else something hangs
 *   - when a hostile session ends, all that it held is free again: operations, staging, batches,
 *     hidden files, sessions
 *   - the process does not grow; at the end the store's check is clean and the stop is too
 *   - replies go to requests that were made
 *
 * And so that this proves something: requests of each type succeed, and fail, and payload is
 * pulled; at least a fifth of the capsules gets past the parser.
 *
 * usage: hostile [--seed N] [--capsules N]
 */
#include "test/sim/hostile_peer.h"
#include "test/sim/sim_args.h"
#include "test/sim/sim_world.h"
#include "appliance/core/app_op.h"
#include "base/log.h"
#include "base/log_ring.h"
#include "base/num.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 6, SUMS_AT = 64 << 10, CHECK_ONE_IN = 40, CAPSULES_A_WORLD = 40000 };

#define LEAP_MAX_NS 100000u
#define STEPS_MAX   400000u
#define GROWTH_MAX  (64u << 10) /* what malloc keeps varies; two bytes a session would be more */

/* A 24 byte answer is at the window's end. */
static const uint32_t sizes[FILES] = { 100, 1000, 4096, 5000, 40000, 60000 };
static const struct fab_limits limits = { .credits = 8,
					  .long_bodies = 1,
					  .batch_max = 64,
					  .window_max_bytes = SIM_WINDOW,
					  .pool_max_bytes = 4u << 20 };

static struct sim_world w;
static struct sim_net net;
static struct rand_state rnd;
static struct hostile_seen seen;
static struct hostile peer = { .net = &net, .rand = &rnd, .seen = &seen };
static struct fab_handle handle;
static uint64_t dir, honest_reads;

/* ---- the honest client ---------------------------------------------------------------------- */

static struct fab_name path_of(uint32_t i)
{
	static char text[32];

	snprintf(text, sizeof(text), "/honest/of-its-own-%u", i);
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = text,
				  .name_bytes = (uint16_t)strlen(text) };
}

static uint8_t byte_of(uint32_t i, uint32_t at)
{
	return (uint8_t)(i * 37 + at * 11 + at / 4099 + 1);
}

static bool make(const char *path, enum fab_type type, struct fab_attr *attr)
{
	struct sim_call *c = sim_world_call(&w);
	struct fab_name name = { .by = FAB_BY_PATH,
				 .name = path,
				 .name_bytes = (uint16_t)strlen(path) };

	c->call.type = type;
	if (type == FAB_MKDIR) {
		c->call.args.make.name = name;
		c->call.args.make.mode = 0755;
	} else {
		c->call.args.open.name = name;
		c->call.args.open.flags = FAB_OPEN_CREATE;
		c->call.args.open.mode = 0644;
	}
	if (sim_world_do(&w, c, false) || c->call.status || fab_call_attr(&c->call, 0, attr))
		return sim_wrong("%s: %d", path, c->call.status);
	return true;
}

static bool put(uint32_t i)
{
	struct sim_call *c = sim_world_call(&w);
	le32 *sums = (le32 *)(void *)(c->window + SUMS_AT);
	struct fab_put_item item = {
		.name = path_of(i), .mode = 0600, .size_bytes = sizes[i], .sums_at = SUMS_AT
	};
	struct fab_answer a;

	for (uint32_t at = 0; at < sizes[i]; at++)
		c->window[at] = byte_of(i, at);
	for (uint32_t at = 0; at < sizes[i]; at += BLOCK_SIZE)
		sums[at / BLOCK_SIZE] =
			le32_of(crc32c_block(c->window + at, min_u32(sizes[i] - at, BLOCK_SIZE)));
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &item;
	if (sim_world_do(&w, c, true) || c->call.status || fab_call_answer(&c->call, 0, &a) ||
	    a.status)
		return sim_wrong("put %u: %d", i, c->call.status);
	return true;
}

/* While the other is at it: it may have what it likes in flight. */
static bool read_back(void)
{
	uint32_t i = (uint32_t)rand_below(&rnd, FILES);
	struct fab_read_item item = { .name = path_of(i), .length_bytes = FAB_TO_END };
	struct sim_call *c = sim_world_call(&w);
	struct fab_answer a;

	memset(c->window, 0xee, SIM_WINDOW);
	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &item;
	if (sim_world_do(&w, c, true) || c->call.status || fab_call_answer(&c->call, 0, &a))
		return sim_wrong("honest read %u: %d", i, c->call.status);
	if (a.status || a.length_bytes != sizes[i])
		return sim_wrong("honest read %u: %d, %llu bytes", i, a.status,
				 (unsigned long long)a.length_bytes);
	for (uint32_t at = 0; at < sizes[i]; at++)
		if (c->window[a.data_at + at] != byte_of(i, at))
			return sim_wrong("honest read %u: byte %u is wrong", i, at);
	honest_reads++;
	return true;
}

/* ---- what may be left ------------------------------------------------------------------------ */

/* The resources that the appliance holds between two calls for the honest client alone. */
static struct left {
	uint32_t ops, staging, hidden, sessions;
	uint64_t tables;
} at_rest;

static struct left left_now(void)
{
	return (struct left){ .ops = w.core->op_free_count,
			      .staging = w.core->staging.pages_used,
			      .hidden = w.core->hidden_free_count,
			      .sessions = w.core->sessions_open,
			      .tables = w.core->table_bytes };
}

static bool is_at_rest(void)
{
	struct left now = left_now();

	return now.ops == at_rest.ops && now.staging == at_rest.staging &&
	       now.hidden == at_rest.hidden && now.sessions == at_rest.sessions &&
	       now.tables == at_rest.tables && w.core->turns.waiting == 0;
}

static void step(uint32_t turns)
{
	struct sim_call *done[1];

	for (uint32_t i = 0; i < turns; i++) {
		(void)!sim_world_step(&w, done, 1);
		net.now_ns = w.power.now_ns;
	}
}

static bool rests(void)
{
	for (uint32_t steps = 0; !is_at_rest(); steps++) {
		struct left now = left_now();

		if (steps > STEPS_MAX)
			return sim_wrong(
				"left of a hostile session: %u operations, %u pages of staging, "
				"%u hidden files, %u sessions, %llu of tables",
				at_rest.ops - now.ops, now.staging - at_rest.staging,
				at_rest.hidden - now.hidden, now.sessions - at_rest.sessions,
				(unsigned long long)(now.tables - at_rest.tables));
		step(1);
	}
	return true;
}

/* ---- a world --------------------------------------------------------------------------------- */

static bool attack(void)
{
	hostile_begin(&peer, w.srv[0], &limits);
	for (uint32_t n = 1 + (uint32_t)rand_below(&rnd, 200); n; n--) {
		hostile_say(&peer);
		step((uint32_t)rand_below(&rnd, 4) ? (uint32_t)rand_below(&rnd, 3)
						   : (uint32_t)rand_below(&rnd, 60));
		if (rand_below(&rnd, 4) && !hostile_hear(&peer))
			break;
		if (rand_below(&rnd, CHECK_ONE_IN) == 0 && !read_back())
			return false;
	}
	(void)hostile_hear(&peer);
	if (rand_below(&rnd, 50) ==
	    0) /* it falls silent: the clock leaps to where that is too long */
		w.cfg.leap_max_ns = 0;
	step((uint32_t)rand_below(&rnd, 100));
	w.cfg.leap_max_ns = LEAP_MAX_NS;
	hostile_end(&peer);
	if (!rests())
		return false;
	sim_link_free(&peer.server_end);
	sim_link_free(&peer.client_end);
	if (seen.strange)
		return sim_wrong("a capsule of type %d that nobody had asked for",
				 seen.strange_type);
	return true;
}

static bool begin(uint64_t seed)
{
	struct sim_world_cfg cfg = { .seed = seed,
				     .ndrives = 2,
				     .nblocks = 1024,
				     .volatile_cache = true,
				     .atomic_bytes = 512,
				     .nshards = 4,
				     .cache_bytes = 4u << 20,
				     .ops_max = 8,
				     .sessions_max = 4,
				     .leap_max_ns = LEAP_MAX_NS };
	struct sim_faults faults = { .delay_min_ns = 2000,
				     .delay_max_ns = 2000 + seed % 5 * 20000 };
	struct fab_attr attr;

	sim_world_create(&w, &cfg);
	if (sim_world_up(&w, APP_BOOT_FORMAT) || sim_world_connect(&w))
		return sim_wrong("format: %s", w.why);
	for (uint32_t i = 0; i < cfg.ndrives; i++)
		sim_drive_faults(w.sim[i], &faults);
	sim_net_init(&net, seed, seed % 2 ? 3000 : 0);
	net.now_ns = w.power.now_ns;
	if (!make("/honest", FAB_MKDIR, &attr) || !make("/h", FAB_MKDIR, &attr))
		return false;
	dir = attr.dir;
	if (!make("/of-the-other's", FAB_OPEN, &attr))
		return false;
	handle = attr.handle;
	for (uint32_t i = 0; i < FILES; i++)
		if (!put(i))
			return false;
	step(200);
	at_rest = left_now();
	return true;
}

static bool end(void)
{
	for (uint32_t i = 0; i < 2 * FILES; i++)
		if (!read_back())
			return false;
	if (sim_world_check(&w) || sim_world_stop(&w))
		return sim_wrong("%s", w.why);
	sim_world_destroy(&w);
	return true;
}

static bool life(uint64_t seed, uint64_t capsules)
{
	rand_seed(&rnd, seed);
	if (!begin(seed))
		return false;
	peer.handle = handle;
	peer.dir = dir;
	for (uint64_t until = seen.capsules + capsules; seen.capsules < until;)
		if (!attack())
			return false;
	return end();
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Batches refuse items, not themselves; the others need nothing that could be missing. */
static bool refuses_items_only(int type)
{
	return type == FAB_PING || type == FAB_STATFS || type == FAB_STATUS || type == FAB_STAT ||
	       type == FAB_READ_BATCH || type == FAB_PUT || type == FAB_UNLINK_BATCH ||
	       type == FAB_HOLD || type == FAB_LET_GO;
}

/* Returns true if each request was granted and refused at least once; otherwise the run proves
 * nothing. */
static bool meant_something(void)
{
	uint64_t answered = 0;

	for (int type = FAB_PING; type < FAB_TYPE_END; type++) {
		answered += seen.good[type] + seen.refused[type];
		if (!seen.good[type] && type != FAB_PUT_COMMIT && type != FAB_PUT_ABORT &&
		    type != FAB_DRAIN && type != FAB_UNDRAIN && /* of a drive that it cannot name */
		    type != FAB_PROTECT)
			return sim_wrong("no request of type %d was ever granted", type);
		if (!seen.refused[type] && !refuses_items_only(type))
			return sim_wrong("no request of type %d was ever refused", type);
	}
	if (!seen.pulls || !seen.ended || !honest_reads)
		return sim_wrong("nothing was pulled, no session ended, or nobody read");
	if (answered < seen.capsules / 5)
		return sim_wrong("only %llu of %llu capsules were answered",
				 (unsigned long long)answered, (unsigned long long)seen.capsules);
	return true;
}

static bool attack_all(uint64_t seed, uint64_t capsules)
{
	size_t first = 0, now = 0;

	for (uint64_t s = seed; seen.capsules < capsules; s++) {
		if (!life(s, min_u64(CAPSULES_A_WORLD, capsules - seen.capsules)))
			return false;
		now = mallinfo2().uordblks;
		first = first ? first : now;
	}
	if (now > first + GROWTH_MAX)
		return sim_wrong("%zu bytes more than after the first world", now - first);
	return meant_something();
}

int main(int argc, char **argv)
{
	static struct log_ring ring;
	struct sim_args args = sim_args(argc, argv, "capsules", 500000, 20000000);

	log_keep(&ring);
	log_level_set(LOG_ERROR); /* that sessions are refused is what this is about */
	if (!attack_all(args.seed, args.count)) {
		printf("not ok seed %llu, after %llu capsules: %s\n", (unsigned long long)args.seed,
		       (unsigned long long)seen.capsules, sim_why);
		return 1;
	}
	printf("ok %llu hostile capsules in %llu sessions, of which the appliance ended %llu; "
	       "%llu pulls, %llu honest reads\n",
	       (unsigned long long)seen.capsules, (unsigned long long)seen.sessions,
	       (unsigned long long)seen.ended, (unsigned long long)seen.pulls,
	       (unsigned long long)honest_reads);
	return 0;
}
