/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The work requests that are posted, their order, and the memory that their completions free. */
#include "base/num.h"
#include "base/rand.h"
#include "fabric/link/fab_rdma_plan.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define TXS       64

static struct fab_rdma_plan plan;
static struct fab_rdma_posted ring[DEPTH_MAX];
static struct fab_tx txs[TXS];
static const uint8_t some[2000];

static void begin(uint32_t depth, uint32_t reads, uint32_t chunk, uint32_t every)
{
	struct fab_rdma_limits limits = {
		.depth = depth, .reads_max = reads, .chunk_max = chunk, .signal_every = every
	};

	memset(txs, 0, sizeof(txs));
	fab__rdma_plan_init(&plan, &limits, ring);
}

static struct fab_tx *add(uint32_t i, enum fab_tx_kind kind, uint32_t payload_bytes)
{
	txs[i].kind = kind;
	txs[i].payload_bytes = payload_bytes;
	fab__rdma_plan_add(&plan, &txs[i]);
	return &txs[i];
}

/* Returns the work to post now: "S" a capsule, "S*3" several, "W8" "R8" eight bytes, "!"
 * signalled. */
static const char *posted(void)
{
	static char text[1024];
	struct fab_rdma_work work;
	size_t used = 0;

	text[0] = 0;
	while (fab__rdma_plan_next(&plan, &work)) {
		const char *name = work.op == FAB_RDMA_SEND    ? "S"
				   : work.op == FAB_RDMA_WRITE ? "W"
							       : "R";

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "",
					 name);
		if (work.count > 1)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "*%u",
						 work.count);
		if (work.op != FAB_RDMA_SEND && work.bytes)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%u",
						 work.bytes);
		if (work.signalled)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "!");
	}
	return text;
}

static uint32_t done(void)
{
	uint32_t n = 0;

	while (list_pop_front(&plan.done))
		n++;
	return n;
}

/* Work that is added: S a capsule, Wn a write, Rn a read of n bytes. */
static const struct {
	const char *name;
	uint32_t depth, reads, chunk, every;
	const char *add;
	const char *posted;
} cases[] = {
	{ "a capsule alone is not heard of", 16, 4, 8, 8, "S", "S" },
	{ "a payload's place is wanted back", 16, 4, 8, 8, "W8", "W8!" },
	{ "a reply behind a payload carries the signal of both", 16, 4, 8, 8, "W8 S", "W8 S!" },
	{ "payload is cut to what one request may move", 16, 4, 8, 8, "W20", "W8 W8 W4!" },
	{ "payload that fits exactly is not cut into nothing", 16, 4, 8, 8, "W16", "W8 W8!" },
	{ "one in signal_every is signalled", 16, 4, 8, 4, "S S S S S S S S S",
	  "S S S S! S S S S! S" },
	{ "cut payload counts, too", 16, 4, 8, 2, "W32", "W8 W8! W8 W8!" },
	{ "reads wait for reads only", 16, 1, 8, 8, "R8 R8 S W4", "S W4! R8!" },
	{ "a long read takes one place at a time", 16, 2, 8, 8, "R24", "R8! R8!" },
	{ "no more than the queue holds, and the last is heard of", 4, 1, 8, 2, "W8 S W8 S W8 S",
	  "W8 S! W8 S!" },
	{ "a queue full of capsules is heard of", 8, 1, 8, 4, "S S S S S S S S S",
	  "S S S S! S S S S!" },
	{ "a payload cut by a full queue", 4, 1, 8, 2, "W100", "W8 W8! W8 W8!" },
};

static void add_all(const char *what)
{
	for (uint32_t i = 0; *what; i++) {
		bool body = *what == 'B';
		enum fab_tx_kind kind = *what == 'S' || body ? FAB_TX_REPLY
					: *what == 'W'       ? FAB_TX_PART
							     : FAB_TX_FETCH;
		uint32_t bytes = (uint32_t)strtoul(what + 1, (char **)&what, 10);

		txs[i].body = body ? some : NULL;
		txs[i].body_bytes = body ? bytes : 0;
		add(i, kind, body ? 0 : bytes);
		what += *what == ' ';
	}
}

Test(fab_rdma_plan, posts_what_the_table_says)
{
	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
		begin(cases[i].depth, cases[i].reads, cases[i].chunk, cases[i].every);
		add_all(cases[i].add);
		cr_expect_str_eq(posted(), cases[i].posted, "%s", cases[i].name);
	}
}

/* With up to three headers, or 200 bytes, in a SEND, which wait for up to 16 bytes of payload: Bn
 * is a capsule whose body has n bytes. */
static const struct {
	const char *name;
	uint32_t depth, chunk, every;
	const char *add;
	const char *posted;
} packed[] = {
	{ "capsules go together", 16, 8, 8, "S S S", "S*3" },
	{ "as far as they fit", 16, 8, 8, "S S S S S S S", "S*3 S*3 S" },
	{ "bodies count", 16, 8, 8, "S B72 S S B100 B1024 S", "S*2 S*2 S S S" },
	{ "a long body does not", 16, 8, 8, "S B2000 S", "S*3" },
	{ "behind the payload of all of them", 16, 8, 8, "W8 S W8 S W8 S", "W8 W8 W8 S*3!" },
	{ "but they do not wait for ever", 16, 8, 8, "S W8 S W8 S W8 S", "W8 W8 S*3 W8 S!" },
	{ "nor for a payload that is long", 16, 8, 8, "S W17 S", "S W8 W8 W1 S!" },
	{ "what went before a capsule came is none that it waited for", 16, 8, 8, "W64 S W16 S",
	  "W8 W8 W8 W8 W8 W8 W8 W8! W8 W8 S*2!" },
	{ "the first that does not fit stays behind its like", 16, 8, 8, "S S S S W8",
	  "S*3 W8 S!" },
	{ "each SEND of them waits anew", 16, 8, 8, "S W8 W8 W8 S W8 S", "W8 W8 S W8 W8 S*2!" },
	{ "reads wait for all of them", 16, 8, 8, "R8 S W8 S", "W8 S*2! R8!" },
	{ "a queue that is full is heard of, and the capsules come later", 4, 8, 2,
	  "S W8 W8 S W24 S", "W8 W8! S*2 W8!" },
};

Test(fab_rdma_plan, packs_what_the_table_says)
{
	for (uint32_t i = 0; i < ARRAY_LEN(packed); i++) {
		begin(packed[i].depth, 4, packed[i].chunk, packed[i].every);
		plan.limits.pack_max = 200;
		plan.limits.pass_max = 16;
		add_all(packed[i].add);
		cr_expect_str_eq(posted(), packed[i].posted, "%s", packed[i].name);
	}
}

Test(fab_rdma_plan, a_capsule_is_done_when_posted_and_payload_when_completed)
{
	begin(16, 4, 8, 8);
	add_all("W20 S");
	cr_assert_str_eq(posted(), "W8 W8 W4 S!");
	cr_assert_eq(done(), 1); /* the capsule: its bytes were taken */
	cr_assert_eq(fab__rdma_plan_done(&plan, 1), 0);
	cr_assert_eq(done(), 0); /* two of three pieces */
	cr_assert_eq(fab__rdma_plan_done(&plan, 3), 0);
	cr_assert_eq(done(), 1);
}

Test(fab_rdma_plan, a_completion_makes_room)
{
	begin(4, 1, 8, 2);
	add_all("W8 S W8 S W8 S");
	cr_assert_str_eq(posted(), "W8 S! W8 S!");
	cr_assert_eq(fab__rdma_plan_done(&plan, 1), 0);
	cr_assert_str_eq(posted(), "W8 S!");
	begin(16, 1, 8, 8);
	add_all("R20");
	cr_assert_str_eq(posted(), "R8!");
	cr_assert_eq(fab__rdma_plan_done(&plan, 0), 0);
	cr_assert_str_eq(posted(), "R8!");
	cr_assert_eq(fab__rdma_plan_done(&plan, 1), 0);
	cr_assert_str_eq(posted(), "R4!");
	cr_assert_eq(done(), 0);
	cr_assert_eq(fab__rdma_plan_done(&plan, 2), 0);
	cr_assert_eq(done(), 1);
}

Test(fab_rdma_plan, a_completion_of_what_is_not_in_flight_is_refused)
{
	begin(16, 4, 8, 8);
	cr_assert_eq(fab__rdma_plan_done(&plan, 0), -EPROTO);
	add_all("W8 W8");
	cr_assert_str_eq(posted(), "W8 W8!");
	cr_assert_eq(fab__rdma_plan_done(&plan, 2), -EPROTO);
	cr_assert_eq(fab__rdma_plan_done(&plan, 1), 0);
	cr_assert_eq(fab__rdma_plan_done(&plan, 1), -EPROTO);
	cr_assert_eq(fab__rdma_plan_done(&plan, 0), -EPROTO);
}

Test(fab_rdma_plan, a_long_body_is_told_apart)
{
	begin(16, 4, 8, 8);
	add(0, FAB_TX_BODY, 12);
	cr_assert_str_eq(posted(), "R8! R4!");
	cr_assert_eq(fab__rdma_plan_done(&plan, 0), 0);
	cr_assert_not(plan.body_here);
	cr_assert_eq(fab__rdma_plan_done(&plan, 1), 0);
	cr_assert(plan.body_here);
	cr_assert_eq(done(), 0);
}

Test(fab_rdma_plan, an_end_gives_everything_back_once)
{
	begin(4, 1, 8, 2);
	add_all("W8 S W20 S R20 R8");
	cr_assert_str_eq(posted(), "W8 S! W8 W8!");
	cr_assert_eq(done(), 1);
	fab__rdma_plan_abort(&plan);
	cr_assert_eq(done(), 5);
	cr_assert_eq(plan.reads_out, 0);
	cr_assert_eq(plan.signals_out, 0);
	fab__rdma_plan_abort(&plan);
	cr_assert_eq(done(), 0);
}

/* ... also those that let payload pass, which fills the queue now; the next plan begins empty. */
Test(fab_rdma_plan, an_end_gives_back_the_capsules_that_wait)
{
	begin(4, 1, 8, 2);
	plan.limits.pack_max = 200;
	plan.limits.pass_max = 64;
	add_all("S W8 W8 W8 W8 S");
	cr_assert_str_eq(posted(), "W8 W8! W8 W8!");
	cr_assert_eq(done(), 0);
	fab__rdma_plan_abort(&plan);
	cr_assert_eq(done(), 6);
	add_all("S W48 S");
	cr_assert_str_eq(posted(), "W8 W8! W8 W8!"); /* of 64 bytes none were passed */
	cr_assert_eq(fab__rdma_plan_done(&plan, 7), 0);
	cr_assert_str_eq(posted(), "W8 W8! S*2");
}

Test(fab_rdma_plan, the_last_that_fits_is_heard_of_wherever_the_signals_fall)
{
	begin(4, 1, 8, 2);
	add_all("R8");
	cr_assert_str_eq(posted(), "R8!");
	add_all("W32");
	cr_assert_str_eq(posted(), "W8 W8! W8"); /* of a payload nothing waits for a piece */
	begin(4, 1, 8, 2);
	add_all("R8");
	cr_assert_str_eq(posted(), "R8!");
	add_all("W8 W8 W8 W8");
	cr_assert_str_eq(posted(), "W8 W8! W8!");
}

static bool gone[TXS]; /* posted, to its last byte */

/* No capsule before one that was added earlier, nor before a payload that was. */
static uint32_t sent_in_order(const struct fab_rdma_work *work, uint32_t sent, uint64_t seed)
{
	const struct list *node = &work->tx->node;

	cr_assert(work->count == 1 || work->bytes <= plan.limits.pack_max);
	for (uint32_t n = 0; n < work->count; n++, node = node->next) {
		uint32_t i = (uint32_t)(list_entry(node, struct fab_tx, node) - txs);

		cr_assert_geq(i, sent, "seed %llu", (unsigned long long)seed);
		gone[i] = true;
		for (; sent < i; sent++)
			cr_assert(gone[sent] || txs[sent].kind == FAB_TX_FETCH, "seed %llu: %u, %u",
				  (unsigned long long)seed, sent, i);
	}
	return sent;
}

/* Whatever comes, nothing overflows, everything ends, and what was added in order stays in it. */
Test(fab_rdma_plan, any_mix_ends_within_the_limits)
{
	struct rand_state rand;

	for (uint64_t seed = 1; seed <= 2000; seed++) {
		uint32_t added = 0, back = 0, last_signal = 0, chunk, turns = 0, written = 0,
			 sent = 0;
		bool any_signal = false;

		memset(gone, 0, sizeof(gone));
		rand_seed(&rand, seed);
		chunk = 1 + (uint32_t)rand_below(&rand, 30);
		begin(4u << rand_below(&rand, 4), 1 + (uint32_t)rand_below(&rand, 3), chunk, 2);
		plan.limits.pack_max = 64 * (uint32_t)rand_below(&rand, 6);
		plan.limits.pass_max = 20 * (uint32_t)rand_below(&rand, 6);
		while ((added < TXS || back < TXS) && turns++ < 10000) {
			struct fab_rdma_work work;

			for (uint64_t n = rand_below(&rand, 4); n > 0 && added < TXS; n--) {
				uint64_t kind = rand_below(&rand, 3);

				add(added++,
				    kind == 0   ? FAB_TX_REPLY
				    : kind == 1 ? FAB_TX_PART
						: FAB_TX_FETCH,
				    kind == 0 ? 0 : 1 + (uint32_t)rand_below(&rand, 100));
			}
			while (fab__rdma_plan_next(&plan, &work)) {
				uint32_t i = (uint32_t)(work.tx - txs);

				cr_assert_leq(plan.posted - plan.retired, plan.limits.depth);
				cr_assert_leq(plan.reads_out, plan.limits.reads_max);
				cr_assert(work.op == FAB_RDMA_SEND || work.bytes <= chunk);
				if (work.op == FAB_RDMA_WRITE) {
					cr_assert_geq(i, written, "seed %llu",
						      (unsigned long long)seed);
					written = i;
					gone[i] = work.at + work.bytes == txs[i].payload_bytes;
				}
				if (work.op == FAB_RDMA_SEND)
					sent = sent_in_order(&work, sent, seed);
				if (work.signalled) {
					last_signal = work.seq;
					any_signal = true;
				}
			}
			back += done();
			/* All that waits is behind no later signal than the last. */
			if (any_signal && last_signal - plan.retired < plan.posted - plan.retired)
				cr_assert_eq(fab__rdma_plan_done(&plan, last_signal), 0);
			back += done();
		}
		cr_assert_eq(back, TXS, "seed %llu: %u of %u came back", (unsigned long long)seed,
			     back, TXS);
	}
}
