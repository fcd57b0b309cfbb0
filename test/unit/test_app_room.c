/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of which more than half is in use is emptied and filled again, by many writes at once:
 * zones are free only when a checkpoint has ended and nobody reads what was there, and staging
 * holds the bytes of writes that wait for them.  Nobody waits for ever.
 */
#include "client-lib/weka_client.h"
#include "client-lib/weka_sync.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
	CLIENTS = 6,
	AT_ONCE = 8, /* of a client: together three times what staging holds */
	PIECE = 1 << 20,
	PIECES = 24, /* of a client: together more than half of the drive */
	ROUNDS = 12,
};

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT,
				       .nshards = 4,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 16 << 20,
				       .ops_max = 64 } };

struct writer {
	pthread_t thread;
	struct weka_client *client;
	struct weka_lease *lease;
	struct weka_req req[AT_ONCE];
	bool busy[AT_ONCE];
	struct weka_attr attr;
	char path[16];
	uint32_t out;     /* in flight */
	uint32_t written; /* pieces, in all rounds */
	int err;
};

static void take_err(struct writer *w, int err)
{
	if (w->err == 0 && err < 0)
		w->err = err;
}

/* Until so many are left in flight. */
static void reap(struct writer *w, uint32_t left)
{
	struct weka_req *done[AT_ONCE];

	while (w->out > left && w->err == 0) {
		int n = weka_reap(w->client, done, AT_ONCE);

		take_err(w, n);
		for (int i = 0; i < n; i++) {
			take_err(w, done[i]->status);
			w->busy[done[i] - w->req] = false;
			w->out--;
			w->written++;
		}
		if (n == 0)
			take_err(w, weka_wait(w->client, WEKA_FOREVER));
	}
}

static void submit(struct writer *w, uint32_t piece)
{
	uint32_t i = 0;
	struct weka_window window = { w->lease, 0, PIECE + 8192 };

	while (w->busy[i])
		i++;
	w->busy[i] = true;
	window.offset_bytes = i * (uint64_t)(PIECE + 8192);
	memset((char *)w->lease->data + window.offset_bytes, (int)piece + 1, PIECE);
	take_err(w, weka_submit_write(w->client, &w->req[i], &w->attr.handle,
				      (uint64_t)piece * PIECE, PIECE, 0, &window));
}

/* One file: made, written, cut inside of a block while others write, and removed. */
static void round_of(struct writer *w)
{
	take_err(w, weka_open(w->client, w->path, WEKA_CREATE, 0666, &w->attr));
	for (uint32_t piece = 0; piece < PIECES && w->err == 0; piece++) {
		reap(w, AT_ONCE - 1);
		submit(w, piece);
		w->out++;
	}
	reap(w, 0);
	take_err(w, weka_truncate(w->client, &w->attr.handle, PIECES * (uint64_t)PIECE - 5000));
	take_err(w, weka_close_file(w->client, &w->attr.handle));
	take_err(w, weka_unlink(w->client, w->path));
}

static void *write_all(void *arg)
{
	struct writer *w = arg;

	for (uint32_t round = 0; round < ROUNDS && w->err == 0; round++)
		round_of(w);
	return NULL;
}

Test(app_room, writes_that_wait_for_staging_keep_no_zone_from_being_free, .timeout = 120)
{
	static struct writer writer[CLIENTS];
	struct app_core_stat stat;

	app_rig_begin(&rig);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		struct writer *w = &writer[c];

		(void)snprintf(w->path, sizeof(w->path), "/file %u", c);
		w->client = app_rig_connect(&rig);
		cr_assert_eq(weka_lease(w->client, AT_ONCE * (PIECE + 8192ull), &w->lease), 0);
	}
	for (uint32_t c = 0; c < CLIENTS; c++)
		cr_assert_eq(pthread_create(&writer[c].thread, NULL, write_all, &writer[c]), 0);
	for (uint32_t c = 0; c < CLIENTS; c++)
		cr_assert_eq(pthread_join(writer[c].thread, NULL), 0);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		cr_assert_eq(writer[c].err, 0, "%s: %s", writer[c].path, strerror(-writer[c].err));
		cr_assert_eq(writer[c].written, ROUNDS * PIECES);
		weka_close(writer[c].client);
	}
	app_rig_stat(&rig, &stat);
	cr_assert_gt(stat.staging_waits, 0, "nothing waited: it shows nothing");
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}
