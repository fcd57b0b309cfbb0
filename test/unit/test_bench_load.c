/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loop that keeps requests in flight, over a client that is played here: its calls stand
 * in this file, so that the library's are not linked.
 */
#include "bench/bench_load.h"
#include "bench/bench.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdlib.h>

#define DEPTH 4

static struct weka_req *queue[64]; /* submitted, not reaped */
static uint32_t queued, queued_max, leases_out;
static int fail_status;   /* of the next request that is reaped */
static bool reap_nothing; /* the appliance has died            */

int weka_lease(struct weka_client *client, uint64_t size_bytes, struct weka_lease **out)
{
	(void)client;
	*out = calloc(1, sizeof(**out));
	(*out)->data = malloc(size_bytes);
	(*out)->size_bytes = size_bytes;
	leases_out++;
	return 0;
}

int weka_release(struct weka_client *client, struct weka_lease *lease)
{
	(void)client;
	free(lease->data);
	free(lease);
	leases_out--;
	return 0;
}

/* One at a time, the oldest first. */
int weka_reap(struct weka_client *client, struct weka_req **done, uint32_t done_max)
{
	(void)client;
	cr_assert_gt(done_max, 0);
	if (queued == 0 || reap_nothing)
		return 0;
	done[0] = queue[0];
	done[0]->status = fail_status;
	queued--;
	for (uint32_t i = 0; i < queued; i++)
		queue[i] = queue[i + 1];
	return 1;
}

int weka_wait(struct weka_client *client, uint64_t timeout_ns)
{
	(void)client;
	(void)timeout_ns;
	return reap_nothing ? -ETIMEDOUT : 0;
}

const char *weka_error(const struct weka_client *client)
{
	(void)client;
	return "nothing came";
}

/* ---- a workload ----------------------------------------------------------------------- */

static uint32_t left, finished, pauses, at_pause;

static int submit(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	(void)ctx;
	(void)client;
	if (left == 0)
		return BENCH_LOAD_NO_MORE;
	left--;
	for (uint32_t i = 0; i < queued; i++)
		cr_assert_neq(queue[i], &slot->req, "a request is submitted once");
	queue[queued++] = &slot->req;
	queued_max = queued > queued_max ? queued : queued_max;
	return BENCH_LOAD_SUBMITTED;
}

static int finish(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	(void)ctx;
	(void)slot;
	finished++;
	run->ops++;
	return 0;
}

static int pause_it(void *ctx, struct bench_slot *slots, uint32_t count)
{
	(void)ctx;
	(void)slots;
	cr_assert_eq(count, DEPTH);
	cr_assert_eq(queued, 0, "nothing is in flight while the clock stands");
	cr_assert_leq(finished - at_pause, DEPTH);
	at_pause = finished;
	pauses++;
	return 0;
}

static struct bench_load_ops ops = { .submit = submit, .finish = finish, .what = "playing" };
static struct bench_load *load;
static struct stat_hist hist;
static struct bench_run run = { .hist = &hist };

static void setup(void)
{
	cr_redirect_stderr();
	stat_hist_reset(&hist);
	cr_assert_eq(bench_load_create(&load, NULL, DEPTH, 8192, &ops, NULL), 0);
}

TestSuite(bench_load, .init = setup);

Test(bench_load, does_all_there_is_with_depth_in_flight)
{
	left = 1001;
	cr_assert_eq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
	cr_assert_eq(run.ops, 1001);
	cr_assert_eq(finished, 1001);
	cr_assert_eq(queued_max, DEPTH);
	cr_assert_eq(stat_hist_count(&hist), 1001);
	bench_load_destroy(load);
	cr_assert_eq(leases_out, 0);
}

Test(bench_load, ends_in_time_and_leaves_nothing_in_flight)
{
	left = UINT32_MAX;
	cr_assert_eq(bench_load_run(load, 0.005, &run), 0);
	cr_assert_eq(queued, 0);
	cr_assert_leq(run.ns, 5000000, "what came later is not counted");
	cr_assert_leq(finished - run.ops, DEPTH);
	bench_load_destroy(load);
}

Test(bench_load, fewer_than_depth_is_fine_and_none_at_all_too)
{
	left = DEPTH - 1;
	cr_assert_eq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
	cr_assert_eq(run.ops, DEPTH - 1);
	cr_assert_eq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
	cr_assert_eq(run.ops, DEPTH - 1);
	left = 1;
	cr_assert_eq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
	cr_assert_eq(run.ops, DEPTH, "there may be more again");
	bench_load_destroy(load);
}

Test(bench_load, goes_in_waves_when_there_is_a_pause)
{
	ops.pause = pause_it;
	left = 10 * DEPTH + 1;
	cr_assert_eq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
	cr_assert_eq(run.ops, 10 * DEPTH + 1);
	cr_assert_eq(at_pause, run.ops, "each was seen in a pause");
	cr_assert_eq(pauses, 11);
	bench_load_destroy(load);
}

Test(bench_load, a_request_that_failed_ends_the_run)
{
	left = 100;
	fail_status = -EIO;
	cr_assert_neq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
	cr_assert_eq(finished, 0);
}

Test(bench_load, silence_ends_the_run)
{
	left = 100;
	reap_nothing = true;
	cr_assert_neq(bench_load_run(load, BENCH_LOAD_ALL, &run), 0);
}
