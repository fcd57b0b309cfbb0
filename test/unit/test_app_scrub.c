/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub in the appliance: its pace on a clock of ours, rest, load, lines, and the end.
 * test_meta_scrub and test/sim/flip.c test its findings.
 */
#include "appliance/media/app_lines.h"
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "meta/format/meta_page.h"
#include "test/sim/sim_load.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 1024, FILES_MAX = 400 };

static struct sim_world w;
static struct sim_model model;
static struct sim_load load;

/* A store with some files, written without a scrub; then mounted with one. */
static void begin(uint64_t rate)
{
	struct sim_world_cfg cfg = { .seed = 3,
				     .ndrives = 2,
				     .nblocks = BLOCKS,
				     .volatile_cache = true,
				     .atomic_bytes = 4096,
				     .nshards = 4,
				     .cache_bytes = 4u << 20,
				     .ops_max = 4 };
	struct sim_call *none[1];

	sim_world_create(&w, &cfg);
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
	sim_load_init(&load, &w, &model, 3);
	while (load.done < FILES_MAX || !sim_load_idle(&load))
		cr_assert(sim_load_step(&load, load.done < FILES_MAX), "%s", load.why);
	while (meta_totals_pending(w.core->meta)) /* or pages are to change yet */
		(void)sim_world_step(&w, none, 0);
	cr_assert_eq(sim_world_stop(&w), 0, "%s", w.why);
	w.cfg.scrub_rate = rate;
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_MOUNT), 0, "%s", w.why);
}

static void end(void)
{
	sim_world_destroy(&w);
	sim_model_clear(&model);
}

TestSuite(app_scrub, .fini = end, .timeout = 120);

static struct app_core_stat stat(void)
{
	struct app_core_stat s;

	app_core_stat(w.core, &s);
	return s;
}

static uint64_t bytes_of(const struct app_core_stat *s)
{
	return s->scrub_blocks * BLOCK_SIZE + s->scrub_pages * META_PAGE_BYTES;
}

static void until_round(uint64_t rounds)
{
	struct sim_call *none[1];

	for (uint32_t i = 0; stat().scrub_rounds < rounds; i++) {
		cr_assert_lt(i, 1000000);
		(void)sim_world_step(&w, none, 0);
	}
}

Test(app_scrub, round_looks_at_what_a_check_counts)
{
	struct meta_check check;
	struct app_core_stat s;

	begin(1ull << 40);
	cr_assert_eq(sim_world_check_all(&w, &check), 0);
	until_round(1);
	until_round(2);
	s = stat();
	until_round(3);
	cr_assert_eq(stat().scrub_pages - s.scrub_pages, check.pages);
	cr_assert_eq(stat().scrub_blocks - s.scrub_blocks, check.blocks);
	cr_assert_gt(check.blocks, 10);
	cr_assert_eq(stat().scrub_bad_blocks + stat().scrub_bad_pages, 0);
	cr_assert_gt(stat().scrub_ended_ns, s.scrub_ended_ns);
	cr_assert_str_eq(app_core_scrub_line(w.core), "");
}

/* Of so many bytes a second no more, at any time, than that and a burst. */
Test(app_scrub, rate_is_kept)
{
	uint64_t rate = 1u << 20, begin_ns, step_ns = 0, last_ns;
	struct sim_call *none[1];
	struct app_core_stat s;

	begin(rate);
	begin_ns = last_ns = w.power.now_ns;
	for (uint32_t i = 0; stat().scrub_rounds < 1; i++) {
		cr_assert_lt(i, 1000000);
		(void)sim_world_step(&w, none, 0);
		step_ns = max_u64(step_ns, w.power.now_ns - last_ns);
		last_ns = w.power.now_ns;
		s = stat();
		cr_assert_leq(bytes_of(&s), (w.power.now_ns - begin_ns) * rate / NS_PER_S + rate +
						    2ull * META_SCRUB_BLOCKS_MAX * BLOCK_SIZE);
	}
	s = stat();
	cr_assert_gt((w.power.now_ns - begin_ns) * rate / NS_PER_S + 2 * rate, bytes_of(&s));
	cr_assert_gt(step_ns, NS_PER_S / 4); /* it slept in between, for some of a burst's time */
}

/* An idle core begins for it once a second; it has one more deadline a second of its own. */
Test(app_scrub, idle_core_wakes_up_seldom)
{
	uint64_t rate = 256u << 10, begin_ns, last_ns, wakes = 0, seconds;
	struct sim_call *none[1];

	begin(rate);
	begin_ns = last_ns = w.power.now_ns;
	for (uint32_t i = 0; stat().scrub_rounds < 1; i++) {
		cr_assert_lt(i, 1000000);
		(void)sim_world_step(&w, none, 0);
		wakes += w.power.now_ns - last_ns > 10 * NS_PER_MS; /* longer than a read takes */
		last_ns = w.power.now_ns;
	}
	seconds = (w.power.now_ns - begin_ns) / NS_PER_S;
	cr_assert_gt(seconds, 3);
	cr_assert_leq(wakes, 2 * seconds + 2, "%llu in %llu s", (unsigned long long)wakes,
		      (unsigned long long)seconds);
}

/* The core spins for a client that has just asked, whatever the scrub reads. */
Test(app_scrub, core_spins_for_a_client_that_has_just_asked)
{
	struct sim_call *none[1];

	begin(256u << 10);
	for (uint32_t i = 0; stat().scrub_rounds < 1; i++) {
		cr_assert_lt(i, 1000000);
		w.core->asked_ns = w.power.now_ns;
		(void)sim_world_step(&w, none, 0);
		cr_assert_not(app_core_scrubs_alone(w.core));
	}
}

/* Between rounds it asks for nothing before a minute has passed since the round began. */
Test(app_scrub, small_store_rests_between_rounds)
{
	struct sim_call *none[1];
	uint64_t turns, began_ns;

	begin(1ull << 40);
	began_ns = w.power.now_ns;
	until_round(1);
	for (int i = 0; i < 100; i++)
		(void)sim_world_step(&w, none, 0);
	turns = stat().turns;
	cr_assert_geq(app_core_deadline(w.core), turns ? began_ns : 0);
	until_round(2);
	cr_assert_geq(w.power.now_ns - began_ns, 60 * NS_PER_S);
}

/* A suspect is read soon; this neither begins the next round nor takes part in it. */
Test(app_scrub, an_errand_does_not_end_the_rest)
{
	const struct meta_handle nobody = { .dir = META_ROOT_DIR, .hash = 1, .uniq = 1 };
	struct sim_call *none[1];
	uint64_t began_ns;

	begin(1ull << 40);
	began_ns = w.power.now_ns;
	until_round(1);
	cr_assert(app_suspect(w.core, &nobody, 0, 1));
	until_round(2);
	cr_assert_geq(w.power.now_ns - began_ns, 60 * NS_PER_S);
	while (w.core->suspects_new)
		(void)sim_world_step(&w, none, 0);
}

/* Returns how long the first round takes with an errand every `every_ns`; 0: none. */
static uint64_t round_with_errands(uint64_t rate, uint64_t every_ns)
{
	struct meta_handle nobody = { .dir = META_ROOT_DIR, .hash = 1 };
	struct sim_call *none[1];
	uint64_t begin_ns, next_ns;
	struct app_core_stat s;

	begin(rate);
	begin_ns = next_ns = w.power.now_ns;
	for (uint32_t i = 0; stat().scrub_rounds < 1; i++) {
		cr_assert_lt(i, 1000000);
		if (every_ns && w.power.now_ns >= next_ns) {
			nobody.uniq++;
			cr_assert(app_suspect(w.core, &nobody, 0, 1));
			next_ns = w.power.now_ns + every_ns;
		}
		(void)sim_world_step(&w, none, 0);
		s = stat();
		cr_assert_leq(bytes_of(&s), (w.power.now_ns - begin_ns) * rate / NS_PER_S + rate +
						    2ull * META_SCRUB_BLOCKS_MAX * BLOCK_SIZE);
	}
	cr_assert(!every_ns || nobody.uniq > 10);
	return w.power.now_ns - begin_ns;
}

/* Errands several times a second: a round takes as long as without them. */
Test(app_scrub, errands_neither_hurry_a_round_nor_delay_it)
{
	const uint64_t rate = 256u << 10, alone_ns = round_with_errands(rate, 0);
	uint64_t with_ns;

	end();
	with_ns = round_with_errands(rate, NS_PER_S / 5);
	cr_assert_leq(with_ns, alone_ns + 2 * NS_PER_S);
	cr_assert_geq(with_ns + 2 * NS_PER_S, alone_ns);
}

Test(app_scrub, none_is_wanted_none_is_there)
{
	struct sim_call *none[1];

	begin(0);
	for (int i = 0; i < 1000; i++)
		(void)sim_world_step(&w, none, 0);
	cr_assert_eq(stat().scrub_rate, 0);
	cr_assert_eq(stat().scrub_pages, 0);
}

/* Requests wait: it does not begin; after a second of that it does. */
Test(app_scrub, what_waits_goes_first_but_not_for_ever)
{
	struct sim_call *none[1];
	struct app_op *busy[3];
	uint64_t pages, due_ns, waited_ns = 0;

	begin(1ull << 40);
	until_round(1);
	pages = stat().scrub_pages;
	for (uint32_t i = 0; i < ARRAY_LEN(busy); i++) /* of four: few are free */
		busy[i] = app_op_take(w.core, APP_OP_SNAPSHOT, NULL);
	w.power.now_ns += 61 * NS_PER_S;
	due_ns = w.power.now_ns;
	while (stat().scrub_pages == pages) {
		waited_ns = w.power.now_ns - due_ns;
		cr_assert_leq(waited_ns, 2 * NS_PER_S);
		(void)sim_world_step(&w, none, 0);
	}
	cr_assert_geq(waited_ns, NS_PER_S);
	for (uint32_t i = 0; i < ARRAY_LEN(busy); i++)
		app_op_free(busy[i]);
}

/* At any moment of a round. */
Test(app_scrub, it_is_stopped_at_any_time)
{
	struct sim_call *none[1];

	begin(1ull << 40);
	for (uint32_t turns = 0; turns < 60; turns++) {
		for (uint32_t i = 0; i < turns; i++)
			(void)sim_world_step(&w, none, 0);
		cr_assert_eq(sim_world_stop(&w), 0, "%s", w.why);
		cr_assert_eq(sim_world_begin(&w, APP_BOOT_MOUNT), 0, "%s", w.why);
	}
}

/* ---- lines -------------------------------------------------------------------------- */

Test(app_scrub, lines_come_in_order_and_wait_for_a_place)
{
	static struct app_lines lines;
	char text[APP_LINE_SIZE], want[16];
	uint32_t pushed = 0, taken = 0;

	begin(0);
	while (taken < 100) {
		(void)snprintf(want, sizeof(want), "line %u", pushed);
		if (app_lines_push(&lines, want)) {
			pushed++;
			continue;
		}
		cr_assert_eq(pushed - taken, APP_LINES);
		for (int i = 0; i < 5; i++) {
			cr_assert(app_lines_take(&lines, text));
			(void)snprintf(want, sizeof(want), "line %u", taken++);
			cr_assert_str_eq(text, want);
		}
	}
	cr_assert_eq(app_lines_count(&lines), pushed);
}
