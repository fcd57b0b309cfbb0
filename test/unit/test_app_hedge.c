/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hedged reads, in the time of a simulated world: a drive holds its reads back for a second, and
 * the other one has the same blocks.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "test/sim/sim_lan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum {
	DRIVES = 2,
	BLOCKS = 16384,
	FILES = 48,
	BATCH = 8,
	ROUNDS_MAX = 50,
	BIG_WINDOW = 1 << 20,
	ALL_HOLD = 3
};
#define HELD_NS NS_PER_S

static struct sim_world w;
static struct fab_put_item put_item;
static struct fab_read_item item[FILES + 1];
static char path[FILES + 1][16];
static uint32_t held[DRIVES]; /* reads, so far */
static uint32_t now_holding;  /* drives, by bits */
static uint32_t window_bytes; /* of calls; with more than SIM_WINDOW one at a time */

/* ---- the world ----------------------------------------------------------------------------- */

static uint64_t hold(void *drive, const struct nvme_soft_cmd *cmd)
{
	const uint32_t d = (uint32_t)((uint32_t *)drive - held);

	if (cmd->opcode != NVME_CMD_READ || !(now_holding >> d & 1))
		return 0;
	held[d]++;
	return HELD_NS;
}

/* `faults` are those that drive d has besides. */
static void faults(uint32_t d, struct sim_faults f)
{
	f.dawdle_ns = hold;
	f.dawdle_user = &held[d];
	sim_drive_faults(w.sim[d], &f);
}

static uint8_t byte_of(uint32_t file, uint32_t i)
{
	return (uint8_t)(file * 37 + i * 11 + i / 251 + 1);
}

static void fill(uint8_t *to, uint32_t file, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = byte_of(file, i);
}

static struct fab_name name_of(uint32_t file)
{
	snprintf(path[file], sizeof(path[file]), "/f%u", file);
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = path[file],
				  .name_bytes = (uint16_t)strlen(path[file]) };
}

static struct sim_call *call(void)
{
	struct sim_call *c = sim_world_call(&w);

	c->call.region = w.region[0];
	c->call.window_offset = (uint64_t)(c - w.calls) * SIM_WINDOW;
	c->call.window_bytes = window_bytes;
	return c;
}

static void put(uint32_t file, uint32_t bytes)
{
	struct sim_call *c = call();
	le32 *sums = (le32 *)(c->window + bytes);
	struct fab_answer answer;

	fill(c->window, file, bytes);
	for (uint32_t i = 0; i < bytes / BLOCK_SIZE; i++)
		sums[i] = le32_of(crc32c_block(c->window + i * BLOCK_SIZE, BLOCK_SIZE));
	put_item = (struct fab_put_item){ .name = name_of(file),
					  .mode = 0600,
					  .mtime_ns = 1,
					  .size_bytes = bytes,
					  .sums_at = bytes };
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &put_item;
	cr_assert_eq(sim_world_do(&w, c, false), 0);
	cr_assert_eq(fab_call_answer(&c->call, 0, &answer), 0);
	cr_assert_eq(answer.status, 0, "%s", strerror(-answer.status));
}

static struct sim_call *ask(uint32_t file, uint32_t count)
{
	struct sim_call *c = call();

	for (uint32_t i = file; i < file + count; i++)
		item[i] = (struct fab_read_item){ .name = name_of(i), .length_bytes = FAB_TO_END };
	memset(c->window, 0xee, window_bytes);
	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = count;
	c->call.args.batch.reads = &item[file];
	sim_world_submit(&w, c, false);
	return c;
}

static void expect(struct sim_call *c, uint32_t file, uint32_t count, uint32_t bytes)
{
	static uint8_t want[BIG_WINDOW];
	struct fab_answer answer;

	cr_assert_eq(c->call.status, 0);
	for (uint32_t i = 0; i < count; i++) {
		fill(want, file + i, bytes);
		cr_assert_eq(fab_call_answer(&c->call, i, &answer), 0);
		cr_assert_eq(answer.status, 0);
		cr_assert_eq(answer.length_bytes, bytes);
		cr_assert(memcmp(c->window + answer.data_at, want, bytes) == 0, "file %u",
			  file + i);
	}
	c->in_flight = false;
}

static void await(struct sim_call *c)
{
	struct sim_call *done[1];

	while (sim_world_step(&w, done, 1) == 0)
		;
	cr_assert_eq(done[0], c);
}

/* Returns how long it took. */
static uint64_t get(uint32_t file, uint32_t count, uint32_t bytes)
{
	const uint64_t from_ns = w.power.now_ns;
	struct sim_call *c = ask(file, count);

	await(c);
	expect(c, file, count, bytes);
	return w.power.now_ns - from_ns;
}

/* The slowest of all batches. */
static uint64_t get_all(void)
{
	uint64_t most_ns = 0;

	for (uint32_t i = 0; i < FILES; i += BATCH)
		most_ns = max_u64(most_ns, get(i, BATCH, BLOCK_SIZE));
	return most_ns;
}

static struct app_hedges *hedges(void)
{
	return &w.core->hedges;
}

static uint64_t hedged(uint32_t drive)
{
	return hedges()->drive[drive].hedged;
}

static uint64_t won(uint32_t drive)
{
	return hedges()->drive[drive].won;
}

static void put_all(void)
{
	for (uint32_t i = 0; i < FILES; i++)
		put(i, BLOCK_SIZE);
}

static void learn(void)
{
	for (uint32_t i = 0; i < ROUNDS_MAX; i++)
		cr_assert_lt(get_all(), HELD_NS);
	if (hedges()->multiple)
		for (uint32_t d = 0; d < DRIVES; d++)
			cr_assert_gt(hedges()->drive[d].seen[0], ROUNDS_MAX);
	cr_assert_eq(hedged(0) + hedged(1), 0);
}

static bool all_back(void)
{
	return w.core->media.in_flight == 0 && hedges()->used == 0;
}

/* Waits until late reads have come back; no memory is kept for them then. */
static void settle(void)
{
	struct sim_call *none[1];
	const uint64_t end_ns = w.power.now_ns + 10 * HELD_NS;

	while ((!all_back() || w.core->staging.pages_used > 0) && w.power.now_ns < end_ns)
		(void)sim_world_step(&w, none, 0);
	cr_assert(all_back());
	cr_assert_eq(w.core->staging.pages_used, 0);
	cr_assert_eq(hedges()->held_bytes, 0);
	cr_assert_eq(hedges()->reads_out, 0);
	cr_assert(list_empty(&hedges()->ops));
}

static void begin_with(const struct sim_lan *lan, uint32_t hedge_reads, uint32_t copies)
{
	struct sim_world_cfg cfg = { .seed = 4,
				     .lan = lan,
				     .ndrives = DRIVES,
				     .nblocks = BLOCKS,
				     .volatile_cache = true,
				     .atomic_bytes = 4096,
				     .nshards = 4,
				     .copies = copies,
				     .cache_bytes = 16u << 20,
				     .staging_bytes = 16u << 20,
				     .hedge_reads = hedge_reads,
				     .leap_max_ns = 200000,
				     .window_max_bytes = BIG_WINDOW,
				     .ops_max = 64 };

	now_holding = 0;
	window_bytes = SIM_WINDOW;
	memset(held, 0, sizeof(held));
	sim_world_create(&w, &cfg);
	w.ncores = 1; /* so that its reads are counted in one place */
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
	put_all();
	learn();
	for (uint32_t d = 0; d < DRIVES; d++)
		faults(d, (struct sim_faults){ 0 });
}

static void begin(void)
{
	begin_with(&sim_lan_sockets, 8, 2);
}

static void end(void)
{
	sim_world_destroy(&w);
}

TestSuite(app_hedge, .timeout = 60);

/* ---- tests --------------------------------------------------------------------------------- */

Test(app_hedge, slow_drive_is_read_around, .init = begin, .fini = end)
{
	for (uint32_t d = 0; d < DRIVES; d++) {
		now_holding = 1u << d;
		cr_assert_lt(get_all(), HELD_NS);
		cr_assert_gt(won(d), 5);
		cr_assert_eq(won(d), hedged(d));
		now_holding = 0;
		settle();
	}
	cr_assert_eq(hedged(0) + hedged(1), held[0] + held[1]);
	cr_assert_lt(get_all(), HELD_NS);
	cr_assert_eq(hedged(0) + hedged(1), held[0] + held[1]);
}

/* The bytes of late reads are wrong, and those that fail change nothing either. */
static void get_while_late_reads_are_bad(struct sim_faults bad)
{
	uint64_t late = 0;

	for (uint32_t round = 0; round < 5; round++) {
		now_holding = 1;
		faults(0, bad);
		cr_assert_lt(get_all(), HELD_NS);
		now_holding = 0;
		for (uint64_t end_ns = w.power.now_ns + HELD_NS; w.power.now_ns < end_ns;) {
			late += hedges()->used;
			cr_assert_lt(get(FILES, 1, 2 * BLOCK_SIZE), HELD_NS);
			w.power.now_ns += HELD_NS / 40; /* one late read after the other is back */
		}
		settle();
	}
	cr_assert_gt(late, 100, "some were late while other files were read");
}

/* A file of another size, of which nothing is known, on the drive that is not slow. */
static void put_beside(void)
{
	uint32_t before;

	now_holding = 1;
	do {
		before = held[0];
		put(FILES, 2 * BLOCK_SIZE);
		(void)get(FILES, 1, 2 * BLOCK_SIZE);
	} while (held[0] > before);
	now_holding = 0;
	settle();
}

Test(app_hedge, late_read_touches_nothing, .init = begin, .fini = end)
{
	put_beside();
	get_while_late_reads_are_bad((struct sim_faults){ .flip_read_ppm = 1000000 });
	cr_assert_gt(won(0), 20);
}

Test(app_hedge, late_read_that_fails_is_dropped, .init = begin, .fini = end)
{
	put_beside();
	get_while_late_reads_are_bad((struct sim_faults){ .read_error_ppm = 1000000 });
	cr_assert_gt(won(0), 20);
}

/* Returns a file on drive 0. */
static uint32_t one_on_drive_0(void)
{
	uint32_t file = 0;
	uint64_t before;

	now_holding = 1;
	for (;; file++) {
		cr_assert_lt(file, FILES);
		before = hedged(0);
		(void)get(file, 1, BLOCK_SIZE);
		settle();
		if (hedged(0) > before)
			break;
	}
	now_holding = 0;
	return file;
}

Test(app_hedge, wrong_bytes_do_not_win, .init = begin, .fini = end)
{
	const uint32_t file = one_on_drive_0();
	const uint64_t before = won(0);

	now_holding = 1;
	faults(1, (struct sim_faults){ .flip_read_ppm = 1000000 });
	cr_assert_geq(get(file, 1, BLOCK_SIZE), HELD_NS);
	cr_assert_gt(hedged(0), before);
	cr_assert_eq(won(0), before);
	settle();
}

Test(app_hedge, read_of_the_twin_that_fails_does_not_win, .init = begin, .fini = end)
{
	const uint32_t file = one_on_drive_0();
	const uint64_t before = won(0);

	now_holding = 1;
	faults(1, (struct sim_faults){ .read_error_ppm = 1000000 });
	cr_assert_geq(get(file, 1, BLOCK_SIZE), HELD_NS);
	cr_assert_eq(won(0), before);
	settle();
}

Test(app_hedge, both_copies_are_slow, .init = begin, .fini = end)
{
	uint64_t most_ns;

	now_holding = ALL_HOLD;
	most_ns = get_all();
	cr_assert(most_ns >= HELD_NS && most_ns < 2 * HELD_NS);
	cr_assert_gt(hedged(0) + hedged(1), 0);
	cr_assert_eq(won(0) + won(1), 0);
	settle();
}

Test(app_hedge, few_are_hedged_at_once, .init = begin, .fini = end)
{
	struct sim_call *c[FILES / BATCH], *done[1];
	uint32_t back = 0, twins = 0, reads = 0;

	now_holding = ALL_HOLD;
	for (uint32_t i = 0; i < FILES / BATCH; i++)
		c[i] = ask(i * BATCH, BATCH);
	while (back < FILES / BATCH) {
		back += sim_world_step(&w, done, 1);
		twins = max_u32(twins, hedges()->twins_out);
		reads = max_u32(reads, (uint32_t)hedges()->reads_out);
	}
	for (uint32_t i = 0; i < FILES / BATCH; i++)
		expect(c[i], i * BATCH, BATCH, BLOCK_SIZE);
	cr_assert_gt(reads, 30);
	cr_assert_gt(twins, 0);
	cr_assert_leq(twins, max_u32(4, reads / 8));
	settle();
}

Test(app_hedge, client_goes_while_reads_are_hedged, .init = begin, .fini = end)
{
	struct sim_call *none[1];

	for (uint32_t round = 0; round < 2; round++) {
		now_holding = round ? ALL_HOLD : 1;
		for (uint32_t i = 0; i < FILES; i += BATCH)
			(void)ask(i, BATCH);
		while (hedges()->used == 0)
			(void)sim_world_step(&w, none, 0);
		sim_world_disconnect(&w);
		for (uint32_t i = 0; i < 10000 && !all_back(); i++)
			sim_world_turn(&w);
		for (uint32_t i = 0; i < 1000; i++)
			sim_world_turn(&w);
		now_holding = 0;
		cr_assert(all_back());
		cr_assert_eq(w.core->staging.pages_used, 0);
		cr_assert_eq(sim_world_connect(&w), 0, "%s", w.why);
		(void)get_all();
	}
}

/* It comes in several slices, some of them late. */
Test(app_hedge, larger_files_are_read_around_too, .init = begin, .fini = end)
{
	const uint32_t bytes = 200 * BLOCK_SIZE;
	uint64_t before;

	window_bytes = BIG_WINDOW;
	for (uint32_t i = 0; i < 4; i++)
		put(i, bytes);
	for (uint32_t k = 0; k < 30; k++)
		for (uint32_t i = 0; i < 4; i++)
			(void)get(i, 1, bytes);
	for (uint32_t d = 0; d < DRIVES; d++) {
		now_holding = 1u << d;
		before = held[d];
		for (uint32_t i = 0; i < 4; i++)
			cr_assert_lt(get(i, 1, bytes), HELD_NS);
		cr_assert_eq(won(d), held[d] - before);
		now_holding = 0;
		settle();
	}
	cr_assert_gt(won(0) + won(1), 3 * 4, "a file is read in several slices");
}

static uint64_t a_little(void *drive, const struct nvme_soft_cmd *cmd)
{
	uint32_t *count = drive;

	return cmd->opcode == NVME_CMD_READ && ++*count % 4 == 0 ? 9 * NS_PER_MS / 10 : 0;
}

Test(app_hedge, fast_drive_is_not_late_before_the_floor, .init = begin, .fini = end)
{
	for (uint32_t d = 0; d < DRIVES; d++)
		sim_drive_faults(w.sim[d], &(struct sim_faults){ .dawdle_ns = a_little,
								 .dawdle_user = &held[d] });
	for (uint32_t d = 0; d < DRIVES; d++)
		cr_assert_lt(8 * hedges()->drive[d].usual_ns[0], 9 * NS_PER_MS / 10);
	cr_assert_gt(get_all(), 8 * NS_PER_MS / 10);
	cr_assert_eq(hedged(0) + hedged(1), 0);
	settle();
}

static uint64_t always(void *drive, const struct nvme_soft_cmd *cmd)
{
	(void)drive;
	return cmd->opcode == NVME_CMD_READ ? 5 * NS_PER_MS : 0;
}

Test(app_hedge, what_is_slow_for_good_is_usual, .init = begin, .fini = end)
{
	uint64_t before;

	for (uint32_t d = 0; d < DRIVES; d++)
		sim_drive_faults(w.sim[d], &(struct sim_faults){ .dawdle_ns = always });
	(void)get_all();
	cr_assert_gt(hedged(0) + hedged(1), 0);
	for (uint32_t i = 0; i < 2 * ROUNDS_MAX; i++)
		(void)get_all();
	before = hedged(0) + hedged(1);
	for (uint32_t i = 0; i < ROUNDS_MAX; i++)
		(void)get_all();
	cr_assert_eq(hedged(0) + hedged(1), before);
	settle();
}

/* ---- at random ----------------------------------------------------------------------------- */

static struct rand_state dice;

static uint64_t now_and_then(void *drive, const struct nvme_soft_cmd *cmd)
{
	const uint64_t at = rand_below(&dice, 20);

	(void)drive;
	if (cmd->opcode != NVME_CMD_READ || at > 3)
		return 0;
	return at ? NS_PER_MS * at : HELD_NS / 20;
}

static void dawdle(void)
{
	for (uint32_t d = 0; d < DRIVES; d++)
		sim_drive_faults(w.sim[d], &(struct sim_faults){ .dawdle_ns = now_and_then });
}

static void ask_some(void)
{
	struct sim_call *c = ask((uint32_t)rand_below(&dice, FILES / BATCH) * BATCH,
				 1 + (uint32_t)rand_below(&dice, BATCH));

	c->user = &item[c->call.args.batch.reads - item];
}

static void answered(struct sim_call *c)
{
	expect(c, (uint32_t)((struct fab_read_item *)c->user - item), c->call.args.batch.count,
	       BLOCK_SIZE);
}

Test(app_hedge, any_read_may_be_late, .init = begin, .fini = end)
{
	struct sim_call *done[1];
	uint32_t out = 0, lost;

	rand_seed(&dice, 7);
	hedges()->multiple = 2;
	hedges()->floor_ns = 100000;
	dawdle();
	for (uint32_t i = 0; i < 4000; i++) {
		for (; out < 1 + rand_below(&dice, 6); out++)
			ask_some();
		if (sim_world_step(&w, done, 1)) {
			answered(done[0]);
			out--;
		}
	}
	for (; out > 0; out--) {
		while (sim_world_step(&w, done, 1) == 0)
			;
		answered(done[0]);
	}
	settle();
	lost = (uint32_t)(hedged(0) + hedged(1) - won(0) - won(1));
	cr_assert_gt(won(0) + won(1), 50);
	cr_assert_gt(lost, 10);
}

static void expect_none(void)
{
	now_holding = ALL_HOLD;
	cr_assert_geq(get_all(), HELD_NS);
	cr_assert_gt(held[0], 0);
	cr_assert_eq(hedged(0) + hedged(1), 0);
}

Test(app_hedge, off_by_configuration, .fini = end)
{
	begin_with(&sim_lan_sockets, 0, 2);
	expect_none();
	cr_assert_eq(hedges()->drive[0].seen[0], 0);
}

Test(app_hedge, store_of_one_copy_has_none, .fini = end)
{
	begin_with(&sim_lan_sockets, 0, 1);
	hedges()->multiple = 8;
	expect_none();
	cr_assert_eq(hedges()->drive[0].seen[0], 0);
}
