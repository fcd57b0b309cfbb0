/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * What a hostile reader of the appliance asked: who holds what others wait for?  A core, a control
 * thread, a memory drive, and clients of libweka-client over tcp; little staging, few operations.
 */
#define _GNU_SOURCE
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/num.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PUTS_MAX = 8 };

static struct app_rig rig = { .transport = "tcp",
			      .cfg = { .boot = APP_BOOT_FORMAT,
				       .cache_bytes = 96 << 20,
				       .staging_bytes = 16 << 20,
				       .open_puts_max = PUTS_MAX } };

static void serve(uint32_t ops_max)
{
	rig.cfg.ops_max = ops_max;
	app_rig_begin(&rig);
}

/* One request, to its end. */
static int finish(struct weka_client *c, struct weka_req *req, int submitted)
{
	struct weka_req *done;

	cr_assert_eq(submitted, 0);
	while (weka_reap(c, &done, 1) == 0)
		(void)!weka_wait(c, WEKA_FOREVER);
	return req->status;
}

static void end(void)
{
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

enum { BATCHES = 16, ITEMS = 24, FILE_BYTES = 30000 };

/*
 * Many batches of one client at once.  Each holds a part that is not yet full, and its next item
 * wants an operation; operations are all taken by batches that wait for room for a part.
 */
Test(app_review, batches_whose_parts_are_half_full_do_not_starve_one_another, .timeout = 60)
{
	static struct weka_read_item items[BATCHES][ITEMS];
	static struct weka_req reqs[BATCHES];
	uint32_t bytes = 2 * weka_window_bytes(ITEMS, FILE_BYTES), reaped = 0;
	struct weka_lease *lease[BATCHES];
	struct weka_req *done;
	struct weka_client *c;
	char *file;

	serve(512);
	c = app_rig_connect(&rig);
	file = calloc(1, FILE_BYTES);
	memset(file, 0x5a, FILE_BYTES);
	cr_assert_eq(weka_write_file(c, "/f", file, FILE_BYTES, NULL), 0, "%s", weka_error(c));
	for (int b = 0; b < BATCHES; b++) {
		struct weka_window window;

		cr_assert_eq(weka_lease(c, bytes, &lease[b]), 0);
		window = (struct weka_window){ lease[b], 0, lease[b]->size_bytes };
		for (int i = 0; i < ITEMS; i++) {
			items[b][i].ref = weka_ref_path("/f");
			items[b][i].length_bytes = WEKA_TO_END;
		}
		reqs[b].timeout_ns = 10 * NS_PER_S;
		cr_assert_eq(weka_submit_read_batch(c, &reqs[b], items[b], ITEMS, &window), 0);
	}
	while (reaped < BATCHES) {
		cr_assert_eq(weka_wait(c, 20 * NS_PER_S), 0);
		while (weka_reap(c, &done, 1) == 1) {
			cr_assert_eq(done->status, 0, "%s", strerror(-done->status));
			reaped++;
		}
	}
	for (int b = 0; b < BATCHES; b++) {
		for (int i = 0; i < ITEMS; i++)
			cr_assert_eq(items[b][i].got_bytes, FILE_BYTES);
		weka_release(c, lease[b]);
	}
	free(file);
	weka_close(c);
	end();
}

enum { READS = 40, READ_BYTES = 256 << 10 };

/*
 * A client asks for much and looks elsewhere for a while: what carries answers to it runs out.
 * Answers wait for it then; nobody is told -EAGAIN.
 */
Test(app_review, who_asks_for_much_and_looks_elsewhere_gets_all_of_it, .timeout = 60)
{
	static struct weka_read_item items[READS];
	static struct weka_req reqs[READS];
	struct weka_lease *lease[READS];
	struct weka_req *done;
	struct weka_client *c;
	uint32_t reaped = 0;
	char *file;

	serve(16);
	c = app_rig_connect(&rig);
	file = malloc(READ_BYTES);
	memset(file, 0x5a, READ_BYTES);
	cr_assert_eq(weka_write_file(c, "/f", file, READ_BYTES, NULL), 0, "%s", weka_error(c));
	for (int i = 0; i < READS; i++) {
		struct weka_window window;

		cr_assert_eq(weka_lease(c, weka_window_bytes(1, READ_BYTES), &lease[i]), 0);
		window = (struct weka_window){ lease[i], 0, lease[i]->size_bytes };
		items[i].ref = weka_ref_path("/f");
		items[i].length_bytes = WEKA_TO_END;
		cr_assert_eq(weka_submit_read_batch(c, &reqs[i], &items[i], 1, &window), 0);
	}
	weka_flush(c);
	usleep(300000);
	while (reaped < READS) {
		cr_assert_eq(weka_wait(c, 20 * NS_PER_S), 0);
		while (weka_reap(c, &done, 1) == 1) {
			cr_assert_eq(done->status, 0, "%s", strerror(-done->status));
			reaped++;
		}
	}
	for (int i = 0; i < READS; i++) {
		cr_assert_eq(items[i].got_bytes, READ_BYTES);
		weka_release(c, lease[i]);
	}
	free(file);
	weka_close(c);
	end();
}

/* Sixty-four clients are connected, and one of them works: it has half of all operations. */
Test(app_review, idle_sessions_take_no_share)
{
	struct app_core *core = calloc(1, sizeof(*core));
	struct app_session one = { .ops = 63 }, other = { 0 };

	core->cfg.ops_max = 128;
	core->sessions_open = 64;
	core->op_free_count = 65;
	cr_assert_not(app_session_full(core, &one));
	one.ops = core->op_free_count = 64;
	cr_assert(app_session_full(core, &one));
	cr_assert_not(app_session_full(core, &other));
	other.ops = core->op_free_count = 32; /* the first one stalls: there is room for a third */
	cr_assert(app_session_full(core, &other));
	free(core);
}

static int put_begin(struct weka_client *c, struct weka_attr *attr)
{
	struct weka_create create = { .mode = 0644 };
	struct weka_ref ref = weka_ref_path("/long");
	struct weka_req req = { 0 };

	return finish(c, &req, weka_submit_put_begin(c, &req, &ref, &create, 5 << 20, attr));
}

static int put_abort(struct weka_client *c, const struct weka_attr *attr)
{
	struct weka_req req = { 0 };

	return finish(c, &req, weka_submit_put_abort(c, &req, &attr->handle));
}

static int put_commit(struct weka_client *c, const struct weka_attr *attr)
{
	struct weka_req req = { 0 };

	return finish(c, &req, weka_submit_put_commit(c, &req, &attr->handle, 0));
}

/* Puts that are begun and neither committed nor aborted: nobody has all places. */
Test(app_review, one_session_does_not_take_all_puts, .timeout = 60)
{
	struct weka_attr mine[PUTS_MAX + 1], other;
	struct weka_client *greedy, *late;
	uint32_t count = 0;
	uint8_t byte = 1;

	serve(32);
	greedy = app_rig_connect(&rig);
	late = app_rig_connect(&rig);
	while (count <= PUTS_MAX && put_begin(greedy, &mine[count]) == 0)
		count++;
	cr_assert_eq(count, PUTS_MAX / 2);
	cr_assert_eq(put_begin(greedy, &mine[count]), -EMFILE);
	cr_assert_eq(put_begin(late, &other), 0);
	cr_assert_eq(put_abort(late, &mine[0]), -ESTALE, "not this session's");
	cr_assert_eq(put_abort(greedy, &mine[0]), 0);
	cr_assert_eq(put_abort(greedy, &mine[0]), -ESTALE);
	cr_assert_eq(put_commit(greedy, &mine[0]), -ESTALE);
	cr_assert_eq(weka_pwrite(greedy, &mine[0].handle, &byte, 1, 0), -ESTALE);
	cr_assert_eq(put_commit(greedy, &mine[1]), 0);
	cr_assert_eq(put_abort(greedy, &mine[1]), -ESTALE, "it has a name");
	cr_assert_eq(put_begin(greedy, &mine[0]), 0);
	cr_assert_eq(put_commit(late, &other), 0);
	weka_close(greedy);
	weka_close(late);
	end();
}

/* A put that fails half-way gives its place back, and says what was wrong. */
Test(app_review, puts_that_fail_keep_no_places, .timeout = 60)
{
	struct weka_create create = { .mode = 0644 };
	struct weka_ref ref = weka_ref_path("/short");
	struct weka_client *c;
	struct weka_attr attr;
	FILE *f = tmpfile();

	serve(32);
	c = app_rig_connect(&rig);
	cr_assert_not_null(f);
	cr_assert_eq(ftruncate(fileno(f), 3 << 20), 0);
	for (uint32_t i = 0; i < 3 * PUTS_MAX; i++) {
		int err = weka_put_fd(c, &ref, fileno(f), 5 << 20, &create);

		cr_assert(err != 0 && err != -EMFILE && err != -ESTALE, "%u: %d, %s", i, err,
			  weka_error(c));
	}
	cr_assert_eq(weka_stat(c, "/short", &attr), -ENOENT);
	for (uint32_t i = 0; i < PUTS_MAX / 2; i++)
		cr_assert_eq(put_begin(c, &attr), 0, "place %u", i);
	fclose(f);
	weka_close(c);
	end();
}
