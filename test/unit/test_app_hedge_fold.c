/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hedged reads of a store with folds, in the time of a simulated world.  A drive holds its reads
 * back for a second: files in pairs are read around it, and those in folds wait for it, but are
 * right.  Blocks of a drive that cannot be read are summed up from others, of which one is slow.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "meta/meta_store.h"
#include "test/lib/runs.h"
#include "test/sim/sim_lan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { DRIVES = 4, BLOCKS = 16384, FILES = 60, FILE_BYTES = 64 << 10, LAST = FILES + 8, SEEDS = 6 };
#define HELD_NS NS_PER_S

static struct sim_world w;
static struct fab_put_item put_item;
static struct fab_read_item item;
static char path[32];
static uint32_t number[DRIVES]; /* of each drive: dawdle_user */
static uint32_t held;           /* reads */
static uint32_t now_holding;    /* drives, by bits */

TestSuite(app_hedge_fold, .timeout = 300);

static uint64_t hold(void *drive, const struct nvme_soft_cmd *cmd)
{
	if (cmd->opcode != NVME_CMD_READ || !(now_holding >> *(uint32_t *)drive & 1))
		return 0;
	held++;
	return HELD_NS;
}

static void fill(uint8_t *to, uint32_t file)
{
	for (uint32_t i = 0; i < FILE_BYTES; i++)
		to[i] = (uint8_t)(file * 37 + i * 11 + i / 251 + w.cfg.seed);
}

static struct sim_call *call(uint32_t file)
{
	struct sim_call *c = sim_world_call(&w);

	(void)snprintf(path, sizeof(path), "/f%u", file);
	c->call.region = w.region[0];
	c->call.window_offset = (uint64_t)(c - w.calls) * SIM_WINDOW;
	c->call.window_bytes = SIM_WINDOW;
	c->call.args.batch.count = 1;
	return c;
}

static struct fab_name name(void)
{
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = path,
				  .name_bytes = (uint16_t)strlen(path) };
}

static void put(uint32_t file)
{
	struct sim_call *c = call(file);
	le32 *sums = (le32 *)(c->window + FILE_BYTES);
	struct fab_answer answer;

	fill(c->window, file);
	for (uint32_t i = 0; i < FILE_BYTES / BLOCK_SIZE; i++)
		sums[i] = le32_of(crc32c_block(c->window + i * BLOCK_SIZE, BLOCK_SIZE));
	put_item = (struct fab_put_item){ .name = name(),
					  .mode = 0600,
					  .mtime_ns = 1,
					  .size_bytes = FILE_BYTES,
					  .sums_at = FILE_BYTES };
	c->call.type = FAB_PUT;
	c->call.args.batch.puts = &put_item;
	cr_assert_eq(sim_world_do(&w, c, false), 0);
	cr_assert_eq(fab_call_answer(&c->call, 0, &answer), 0);
	cr_assert_eq(answer.status, 0, "%s", strerror(-answer.status));
}

/* Returns how long it took. */
static uint64_t get(uint32_t file)
{
	static uint8_t want[FILE_BYTES];
	const uint64_t from_ns = w.power.now_ns;
	struct sim_call *c = call(file);
	struct fab_answer answer;

	item = (struct fab_read_item){ .name = name(), .length_bytes = FAB_TO_END };
	memset(c->window, 0xee, SIM_WINDOW);
	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.reads = &item;
	cr_assert_eq(sim_world_do(&w, c, false), 0);
	cr_assert_eq(fab_call_answer(&c->call, 0, &answer), 0);
	cr_assert_eq(answer.status, 0, "file %u: %s", file, strerror(-answer.status));
	cr_assert_eq(answer.length_bytes, FILE_BYTES);
	fill(want, file);
	cr_assert(memcmp(c->window + answer.data_at, want, FILE_BYTES) == 0, "file %u", file);
	return w.power.now_ns - from_ns;
}

/* The slowest of these. */
static uint64_t get_all(uint32_t from, uint32_t end)
{
	uint64_t most_ns = 0;

	for (uint32_t file = from; file < end; file++)
		most_ns = max_u64(most_ns, get(file));
	return most_ns;
}

static uint64_t hedged(void)
{
	uint64_t n = 0;

	for (uint32_t d = 0; d < DRIVES; d++)
		n += w.core->hedges.drive[d].hedged;
	return n;
}

/* Reads that were answered from elsewhere. */
static uint64_t turned(void)
{
	struct app_core_stat stat;

	app_core_stat(w.core, &stat);
	return stat.turned_reads;
}

/* Lets the world do what it wants to, until that has passed. */
static void wait(uint64_t ns)
{
	const uint64_t end_ns = w.power.now_ns + ns;
	struct sim_call *none[1];

	while (w.power.now_ns < end_ns)
		(void)sim_world_step(&w, none, 0);
}

static void faults(uint32_t d, struct sim_faults f)
{
	number[d] = d;
	f.dawdle_ns = hold;
	f.dawdle_user = &number[d];
	sim_drive_faults(w.sim[d], &f);
}

/* A mount closes what was open, and folds are made then; later files are in pairs. */
static void begin(uint64_t seed)
{
	struct sim_world_cfg cfg = { .seed = seed,
				     .lan = &sim_lan_sockets,
				     .ndrives = DRIVES,
				     .nblocks = BLOCKS,
				     .volatile_cache = seed % 2,
				     .atomic_bytes = 4096,
				     .nshards = 4,
				     .copies = 2,
				     .fold = 3,
				     .cache_bytes = 16u << 20,
				     .staging_bytes = 24u << 20,
				     .hedge_reads = 4 + (uint32_t)seed % 8,
				     .leap_max_ns = 200000,
				     .ops_max = 64 };

	now_holding = held = 0;
	sim_world_create(&w, &cfg);
	w.ncores = 1; /* so that its reads are counted in one place */
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
	for (uint32_t file = 0; file < FILES; file++)
		put(file);
	cr_assert_eq(sim_world_stop(&w), 0);
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_MOUNT), 0, "%s", w.why);
	meta__ckpt_want(w.core->meta);
	wait(NS_PER_S);
	cr_assert_gt(w.core->meta->zones->folds, 2, "seed %u", (uint32_t)seed);
	for (uint32_t file = FILES; file < LAST; file++)
		put(file);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_lt(get_all(0, LAST), HELD_NS);
	cr_assert_eq(hedged(), 0);
	for (uint32_t d = 0; d < DRIVES; d++)
		faults(d, (struct sim_faults){ 0 });
}

static void end(void)
{
	now_holding = 0;
	wait(2 * HELD_NS);
	cr_assert_eq(w.core->media.in_flight, 0);
	cr_assert_eq(w.core->hedges.used, 0);
	sim_world_destroy(&w);
}

/* A block in a fold has no twin: its read is not hedged, and takes as long as its drive does.
 * Returns how many reads of pairs were hedged; *most_ns: the longest read of all, in folds, too. */
static uint64_t each_drive_is_slow(uint64_t *most_ns)
{
	uint64_t hedges_of_pairs = 0;

	*most_ns = 0;
	for (uint32_t d = 0; d < DRIVES; d++) {
		now_holding = 1u << d;
		*most_ns = max_u64(*most_ns, get_all(0, FILES));
		hedges_of_pairs -= hedged();
		cr_assert_lt(get_all(FILES, LAST), HELD_NS, "drive %u", d);
		hedges_of_pairs += hedged();
		now_holding = 0;
		wait(2 * HELD_NS);
	}
	return hedges_of_pairs;
}

Test(app_hedge_fold, slow_drive_is_read_around_in_pairs_and_waited_for_in_folds)
{
	for (uint64_t seed = 1; seed <= test_runs(SEEDS); seed++) {
		uint64_t most_ns;

		begin(seed);
		cr_assert_gt(each_drive_is_slow(&most_ns), 0);
		cr_assert_geq(most_ns, HELD_NS);
		cr_assert_lt(most_ns, 3 * HELD_NS);
		end();
	}
}

/* Some reads of one drive fail, or all; another one of the same folds is slow. */
Test(app_hedge_fold, sums_of_a_slow_drive_are_right)
{
	for (uint64_t seed = 1; seed <= test_runs(SEEDS); seed++)
		for (uint32_t k = 0; k < 2; k++) {
			const uint32_t bad = (uint32_t)(seed + k) % DRIVES;
			uint64_t most_ns;

			begin(seed);
			faults(bad, (struct sim_faults){ .read_error_ppm = k ? 1000000 : 300000 });
			now_holding = 1u << (bad + 1 + seed % (DRIVES - 1)) % DRIVES;
			most_ns = get_all(0, LAST);
			cr_assert_lt(most_ns, 8 * HELD_NS, "seed %u", (uint32_t)seed);
			cr_assert_gt(turned(), 0);
			cr_assert_gt(held, 0);
			end();
		}
}
