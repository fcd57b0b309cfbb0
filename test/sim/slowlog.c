/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The log is slow, and a checkpoint overtakes it as far as it may.
 *
 *   emptied   mkdir d -> begin a put in d -> rmdir d -> (all quiet) -> the client goes: its put is
 *             aborted, and that was all that d's shard had left.  The tree is empty, no page
 *             carries the sequence of that change: only the root itself is left to wait for the
 *             log.  The power is cut at every write from there on.
 *   evicted   a change -> checkpoint -> so many others are read that no page stays in the cache ->
 *             who reads the changed file is answered when the change is durable, and no sooner:
 *             a power cut then must not undo what was seen.
 *   overtaken changes -> leaves are written early, and these writes are slow -> a checkpoint: when
 *             it is over they are durable, since its roots name them and the log is trimmed.
 *
 * usage: slowlog [--seed N] [--seeds N]
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_load.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400000u
#define ROUNDS    6u
#define NAMES     6000u /* of 450 bytes: more than the least cache */
#define BYTES     450u
#define OTHERS    600u /* are read in a round */
#define SUMS_AT   (96u << 10)

static struct sim_world w, copy;
static struct rand_state rnd;
static bool slow, slow_pages;
static uint32_t version[NAMES];
static struct {
	uint64_t cuts, emptied, looks, early, evicted, tried, overtaken;
} seen;

static bool failed(uint64_t seed, const char *where, const char *why)
{
	printf("not ok seed %llu, %llu cuts: %s: %s\n", (unsigned long long)seed,
	       (unsigned long long)seen.cuts, where, why);
	return false;
}

/* Writes to the log are late, or those of pages.  user: the drive. */
static uint64_t dawdle(void *user, const struct nvme_soft_cmd *cmd)
{
	const struct meta *m = app_core_meta(w.core);
	uint32_t drive = (uint32_t)((struct sim_drive **)user - w.sim), zone;

	zone = meta__geo_zone_of(&m->zones->geo, META_BADDR(drive, cmd->offset_bytes / BLOCK_SIZE));
	if (cmd->opcode != NVME_CMD_WRITE || zone == UINT32_MAX)
		return 0;
	if (meta__zone_at(m, zone)->kind == META__ZONE_PAGE)
		return slow_pages ? 50000000 : 0;
	if (meta__zone_at(m, zone)->kind != META__ZONE_LOG)
		return 0;
	return slow ? 50000000 : rand_below(&rnd, 500000);
}

static void set_faults(void)
{
	for (uint32_t i = 0; i < w.cfg.ndrives; i++) {
		struct sim_faults faults = { .delay_max_ns = 20000,
					     .dawdle_ns = dawdle,
					     .dawdle_user = &w.sim[i] };

		sim_drive_faults(w.sim[i], &faults);
	}
}

/* ---- emptied ------------------------------------------------------------------------------- */

static int call(enum fab_type type, const char *path)
{
	struct sim_call *c = sim_world_call(&w);
	struct fab_name name = { .by = FAB_BY_PATH,
				 .name = path,
				 .name_bytes = (uint16_t)strlen(path) };
	int err;

	c->call.type = type;
	if (type == FAB_RMDIR)
		c->call.args.name.name = name;
	else
		c->call.args.make = (__typeof__(c->call.args.make)){ .name = name, .mode = 0755 };
	err = sim_world_do(&w, c, false);
	return err ? err : c->call.status;
}

static uint32_t empty_shards(const struct meta *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->nshards; i++)
		n += m->shard[i].height == 0;
	return n;
}

static bool is_quiet(const struct meta *m)
{
	return meta__log_durable(m) >= meta__log_last(m) && !meta__ckpt_running(m);
}

static bool cut_here(uint64_t seed)
{
	static struct sim_model nothing;
	int err;

	sim_world_cut_copy(&w, seed * 1000003 + w.power.write_count, &copy);
	err = sim_world_begin(&copy, APP_BOOT_MOUNT);
	if (err)
		return failed(seed, "mount after a cut", copy.why);
	if (!sim_verify(&copy, &nothing, NULL, false) || sim_world_check(&copy))
		return failed(seed, "after a cut", copy.why);
	sim_world_cut(&copy, seed);
	seen.cuts++;
	return true;
}

static bool round_of(uint64_t seed, uint32_t n)
{
	struct meta *m = app_core_meta(w.core);
	uint32_t before, steps = 0;
	uint64_t last, writes;
	char dir[16], file[32];

	snprintf(dir, sizeof(dir), "/d%u", n);
	snprintf(file, sizeof(file), "/d%u/x", n);
	if (call(FAB_MKDIR, dir) || call(FAB_PUT_BEGIN, file) || call(FAB_RMDIR, dir))
		return failed(seed, dir, "is not made");
	while (!is_quiet(m) && steps++ < STEPS_MAX)
		sim_world_turn(&w);
	last = meta__log_last(m);
	before = empty_shards(m);
	sim_world_disconnect(&w);
	while (meta__log_last(m) == last && steps++ < STEPS_MAX)
		sim_world_turn(&w);
	seen.emptied += empty_shards(m) > before;
	meta__ckpt_want(m);
	writes = 0;
	do {
		sim_world_turn(&w);
		if (w.power.write_count != writes && !cut_here(seed))
			return false;
		writes = w.power.write_count;
	} while (!is_quiet(m) && steps++ < STEPS_MAX);
	return steps < STEPS_MAX ? sim_world_connect(&w) == 0
				 : failed(seed, "hangs", "the log is not quiet");
}

static bool emptied(uint64_t seed)
{
	struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = 1 + (uint32_t)seed % 2,
		.nblocks = 512,
		.volatile_cache = true,
		.atomic_bytes = 4096,
		.nshards = 4,
		.cache_bytes = 4u << 20,
		.ops_max = 4,
	};
	bool good = true;

	rand_seed(&rnd, seed);
	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	set_faults();
	for (uint32_t n = 0; good && n < ROUNDS; n++)
		good = round_of(seed, n);
	if (!good)
		return false;
	sim_world_cut(&w, seed);
	sim_world_destroy(&w);
	sim_world_destroy(&copy);
	return true;
}

/* ---- evicted ------------------------------------------------------------------------------- */

struct ask { /* what a call's arguments point to */
	struct sim_call *call;
	struct fab_put_item put;
	struct fab_read_item read;
	uint32_t name;
	bool done;
	char path[16];
};

static struct fab_name named(struct ask *a, uint32_t name)
{
	a->name = name;
	a->done = false;
	snprintf(a->path, sizeof(a->path), "/n%u", name);
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = a->path,
				  .name_bytes = (uint16_t)strlen(a->path) };
}

static void bytes_of(uint32_t name, uint32_t v, uint8_t *out)
{
	struct rand_state r;

	rand_seed(&r, (uint64_t)name << 32 | v);
	for (uint32_t i = 0; i < BYTES; i++)
		out[i] = (uint8_t)rand_u64(&r);
}

static void send_put(struct ask *a, uint32_t name, uint32_t v)
{
	a->call = sim_world_call(&w);
	bytes_of(name, v, a->call->window);
	*(uint32_t *)(void *)(a->call->window + SUMS_AT) = crc32c_block(a->call->window, BYTES);
	a->put = (struct fab_put_item){
		.name = named(a, name), .mode = 0640, .size_bytes = BYTES, .sums_at = SUMS_AT
	};
	a->call->call.type = FAB_PUT;
	a->call->call.args.batch.count = 1;
	a->call->call.args.batch.puts = &a->put;
	a->call->user = a;
	sim_world_submit(&w, a->call, true);
}

static void send_read(struct sim_world *to, struct ask *a, uint32_t name)
{
	a->call = sim_world_call(to);
	a->read = (struct fab_read_item){ .name = named(a, name), .length_bytes = FAB_TO_END };
	a->call->call.type = FAB_READ_BATCH;
	a->call->call.args.batch.count = 1;
	a->call->call.args.batch.reads = &a->read;
	a->call->user = a;
}

static bool holds(const struct ask *a, uint32_t v)
{
	uint8_t bytes[BYTES];
	struct fab_answer answer;

	bytes_of(a->name, v, bytes);
	return !a->call->call.status && !fab_call_answer(&a->call->call, 0, &answer) &&
	       !answer.status && answer.length_bytes == BYTES &&
	       memcmp(a->call->window + answer.data_at, bytes, BYTES) == 0;
}

/* One turn; who came back is done. */
static void step(void)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t count = sim_world_step(&w, done, SIM_CALLS_MAX);

	for (uint32_t i = 0; i < count; i++) {
		((struct ask *)done[i]->user)->done = true;
		done[i]->in_flight = false;
	}
}

/* It was seen before it was acknowledged: is it there after a cut now? */
static bool stays(uint64_t seed, uint32_t name)
{
	struct ask a;
	bool good;

	seen.early++;
	sim_world_cut_copy(&w, seed + seen.cuts++, &copy);
	if (sim_world_begin(&copy, APP_BOOT_MOUNT))
		return failed(seed, "mount after a cut", copy.why);
	send_read(&copy, &a, name);
	good = sim_world_do(&copy, a.call, true) == 0 && holds(&a, version[name] + 1);
	sim_world_cut(&copy, seed);
	return good || failed(seed, a.path, "its change had been seen, and is gone");
}

/* While the log is slow, reads so many other files that the file's pages leave the cache. */
static bool read_others(uint64_t seed, uint32_t but)
{
	static struct ask other[8];
	struct meta *m = app_core_meta(w.core);
	struct meta_statfs fs = { 0 };
	uint32_t begun = 0, ended = 0, steps = 0;
	uint64_t before;

	meta__cache_stat(m, &fs);
	before = fs.page_reads;
	for (uint32_t i = 0; i < ARRAY_LEN(other); i++)
		other[i] = (struct ask){ .done = true };
	while (ended < OTHERS && meta__log_durable(m) < meta__log_last(m)) {
		for (uint32_t i = 0; i < ARRAY_LEN(other); i++) {
			uint32_t name = (uint32_t)rand_below(&rnd, NAMES);

			if (!other[i].done || name == but || begun == OTHERS)
				continue;
			send_read(&w, &other[i], name);
			sim_world_submit(&w, other[i].call, true);
			begun++;
		}
		step();
		for (uint32_t i = 0; i < ARRAY_LEN(other); i++) {
			if (!other[i].done || !other[i].call)
				continue;
			if (!holds(&other[i], version[other[i].name]))
				return failed(seed, other[i].path, "another's bytes");
			other[i].call = NULL;
			ended++;
		}
		if (steps++ == STEPS_MAX)
			return failed(seed, "hangs", "nothing comes back");
	}
	meta__cache_stat(m, &fs);
	seen.evicted += fs.page_reads - before;
	return true; /* some still wait for the log */
}

static bool look_at_a_change(uint64_t seed)
{
	static struct ask change, look;
	struct meta *m = app_core_meta(w.core);
	uint32_t name = (uint32_t)rand_below(&rnd, NAMES), steps = 0;
	uint64_t last = meta__log_last(m);

	slow = true;
	send_put(&change, name, version[name] + 1);
	while (meta__log_last(m) == last)
		step();
	meta__ckpt_want(m);
	if (!read_others(seed, name))
		return false;
	send_read(&w, &look, name);
	sim_world_submit(&w, look.call, true);
	while (!look.done && steps++ < STEPS_MAX)
		step();
	seen.looks++;
	if (!holds(&look, version[name] + 1))
		return failed(seed, look.path, "not what it was changed to");
	if (!change.done && !stays(seed, name))
		return false;
	slow = false;
	while ((!change.done || !is_quiet(m)) && steps++ < STEPS_MAX)
		step();
	for (uint32_t i = 0; i < SIM_CALLS_MAX; i++)
		while (w.calls[i].in_flight && steps++ < STEPS_MAX)
			step();
	version[name]++;
	return steps < STEPS_MAX || failed(seed, "hangs", "nothing comes back");
}

/* ---- overtaken ----------------------------------------------------------------------------- */

#define CHANGES 12u

static bool are_there(uint64_t seed, const struct ask *change)
{
	struct ask a;
	bool good = true;

	sim_world_cut_copy(&w, seed + seen.cuts++, &copy);
	if (sim_world_begin(&copy, APP_BOOT_MOUNT))
		return failed(seed, "mount after a cut", copy.why);
	for (uint32_t i = 0; good && i < CHANGES; i++) {
		send_read(&copy, &a, change[i].name);
		good = sim_world_do(&copy, a.call, true) == 0 && holds(&a, version[a.name]);
	}
	if (!good)
		return failed(seed, a.path, "a root was written before a leaf was durable");
	sim_world_cut(&copy, seed);
	return true;
}

static bool overtake_leaves(uint64_t seed)
{
	static struct ask change[CHANGES];
	struct meta *m = app_core_meta(w.core);
	const uint32_t first = (uint32_t)rand_below(&rnd, NAMES);
	struct meta_statfs was = { 0 }, fs = { 0 };
	uint32_t steps = 0;

	meta__ckpt_stat(m, &was);
	slow_pages = true;
	for (uint32_t i = 0; i < CHANGES; i++) {
		const uint32_t name = (first + i * (NAMES / CHANGES)) % NAMES;

		send_put(&change[i], name, ++version[name]);
		while (!change[i].done && steps++ < STEPS_MAX)
			step();
	}
	slow_pages = false;
	meta__ckpt_stat(m, &fs);
	seen.overtaken += fs.leaves_early - was.leaves_early;
	was = fs;
	meta__ckpt_want(m);
	for (; fs.checkpoints == was.checkpoints && steps++ < STEPS_MAX; meta__ckpt_stat(m, &fs))
		step();
	if (!are_there(seed, change))
		return false;
	while (!is_quiet(m) && steps++ < STEPS_MAX)
		step();
	return steps < STEPS_MAX || failed(seed, "hangs", "nothing comes back");
}

static bool evicted(uint64_t seed, uint32_t rounds)
{
	struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = 1,
		.nblocks = 8192,
		.volatile_cache = true,
		.atomic_bytes = 4096,
		.nshards = 2,
		.cache_bytes = 2u << 20,
		.ops_max = 4,
	};
	static struct ask a;
	bool good = true;

	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	for (uint32_t i = 0; good && i < NAMES; i++) {
		version[i] = 0;
		send_put(&a, i, 0);
		while (!a.done)
			step();
		good = a.call->call.status == 0;
	}
	if (!good)
		return failed(seed, a.path, "is not put");
	set_faults();
	for (uint32_t i = 0; good && i < rounds; i++)
		good = look_at_a_change(seed) && overtake_leaves(seed);
	seen.tried += seed % 3; /* of others few are early: sim_world.c */
	if (!good)
		return false;
	sim_world_cut(&w, seed);
	sim_world_destroy(&w);
	sim_world_destroy(&copy);
	return true;
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "seeds", 20, 300);

	sim_world_tell_cuts(&seen.cuts);
	for (uint64_t seed = args.seed; seed < args.seed + args.count; seed++)
		if (!emptied(seed) || (seed % 10 == 1 && !evicted(seed, 20)))
			return 1;
	if (!seen.emptied || !seen.looks || seen.evicted < 50 * seen.looks ||
	    (seen.tried && !seen.overtaken)) {
		printf("not ok: what this is about has not happened: %llu times emptied, %llu "
		       "looks, %llu page reads, %llu leaves overtaken\n",
		       (unsigned long long)seen.emptied, (unsigned long long)seen.looks,
		       (unsigned long long)seen.evicted, (unsigned long long)seen.overtaken);
		return 1;
	}
	printf("ok %llu cuts; %llu times a shard was emptied; %llu looks at a change under way, "
	       "%llu of them before its answer, after %llu page reads; %llu slow leaves\n",
	       (unsigned long long)seen.cuts, (unsigned long long)seen.emptied,
	       (unsigned long long)seen.looks, (unsigned long long)seen.early,
	       (unsigned long long)seen.evicted, (unsigned long long)seen.overtaken);
	return 0;
}
