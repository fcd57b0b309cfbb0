/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Streams and checks that are disturbed: by a pool that is full, by calls during a pause, and by a
 * dataset that is closed early.
 *
 *   /data/000 ...   10 KB each; all bytes of file i are i
 */
#include "client-lib/weka_dataset.h"
#include "test/lib/app_rig.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 120, SIZE = 10000 };

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT, .cache_bytes = 64 << 20 } };
static struct weka_client *client;
static struct weka_dataset *dataset;
static struct weka_stream *stream;
static struct weka_batch *batch;

static void begin(void)
{
	static uint8_t bytes[SIZE];
	char path[64];

	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(client, "/data", 0755), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/data/%03u", i);
		memset(bytes, (int)i, sizeof(bytes));
		cr_assert_eq(weka_write_file(client, path, bytes, sizeof(bytes), NULL), 0);
	}
}

static void end(void)
{
	weka_stream_close(stream);
	weka_dataset_close(dataset);
	stream = NULL;
	dataset = NULL;
	weka_close(client);
	client = NULL;
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(app_dataset_disturbed, .timeout = 120);

static void open_new(const char *path)
{
	cr_assert_eq(weka_dataset_create(client, "set", path, NULL, NULL), 0, "%s",
		     weka_error(client));
	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), 0, "%s", weka_error(client));
}

static void expect_item(const struct weka_read_item *item, uint64_t sample)
{
	const uint8_t *data = item->data;

	cr_assert_eq(item->status, 0);
	cr_assert_eq(item->got_bytes, SIZE);
	for (uint32_t k = 0; k < SIZE; k++)
		cr_assert_eq(data[k], sample);
}

static uint64_t leases_out(void)
{
	struct weka_counters now = { .size_bytes = sizeof(now) };

	cr_assert_eq(weka_get_counters(client, &now), 0);
	return now.pool_used_bytes;
}

/* ---- samples that are read in pieces -------------------------------------------------------- */

/* Makes an empty sample of `size` bytes, all of them a hole. */
static void sparse_make(const char *path, uint64_t size)
{
	struct weka_attr attr;

	cr_assert_eq(weka_write_file(client, path, "", 0, NULL), 0);
	cr_assert_eq(weka_stat(client, path, &attr), 0);
	cr_assert_eq(weka_truncate(client, &attr.handle, size), 0, "%s", weka_error(client));
}

static void connect_pool(uint64_t pool_bytes)
{
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = pool_bytes };
	const struct weka_key key = { .secret = app_rig_secret };

	weka_close(client);
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &client), 0);
}

/* Batches that are read ahead take the whole pool; the pieces need some of it. */
Test(app_dataset_disturbed, pieces_get_memory_from_what_was_read_ahead)
{
	uint64_t changed = 9, first;
	char path[64];

	begin();
	connect_pool(2 << 20);
	cr_assert_eq(weka_mkdir(client, "/big", 0755), 0);
	sparse_make("/big/0", WEKA_READ_MAX + 1);
	for (uint32_t i = 1; i < 9; i++) { /* each takes a quarter of the pool */
		snprintf(path, sizeof(path), "/big/%u", i);
		sparse_make(path, 127 * WEKA_BLOCK);
	}
	open_new("/big");
	cr_assert_eq(weka_dataset_verify(dataset, NULL, &changed, &first), 0, "%s",
		     weka_error(client));
	cr_assert_eq(changed, 0);
	cr_assert_eq(leases_out(), 0);
	end();
}

static int stop_now(void *user)
{
	(void)user;
	return 1;
}

/* A sample that was not read to its end is not one that was changed. */
Test(app_dataset_disturbed, a_check_that_is_stopped_finds_nothing)
{
	uint64_t changed = 9, first;

	begin();
	cr_assert_eq(weka_mkdir(client, "/big", 0755), 0);
	sparse_make("/big/0", WEKA_READ_MAX + 1);
	open_new("/big");
	cr_assert_eq(weka_set_pause(client, stop_now, NULL), 0);
	usleep(25 * 1000); /* it is time for a pause */
	cr_assert_eq(weka_dataset_verify(dataset, NULL, &changed, &first), -ECANCELED);
	cr_assert_eq(changed, 0);
	cr_assert_eq(weka_set_pause(client, NULL, NULL), 0);
	end();
}

/* ---- calls in the middle of a call ---------------------------------------------------------- */

/* Calls that another thread, or a signal handler, makes while weka_stream_next() waits. */
static struct {
	int calls;
	int next;
	struct weka_stream *close_stream;
	struct weka_dataset *close_dataset;
} meanwhile;

static int interfere(void *user)
{
	struct weka_batch *other = NULL;

	if (meanwhile.calls++ > 0)
		return 0;
	meanwhile.next = weka_stream_next(user, &other);
	weka_stream_close(meanwhile.close_stream);
	weka_dataset_close(meanwhile.close_dataset);
	return 0;
}

static int next_disturbed(void)
{
	int rc;

	meanwhile.calls = 0;
	cr_assert_eq(weka_set_pause(client, interfere, stream), 0);
	usleep(25 * 1000); /* it is time for a pause */
	rc = weka_stream_next(stream, &batch);
	cr_assert_gt(meanwhile.calls, 0);
	cr_assert_eq(weka_set_pause(client, NULL, NULL), 0);
	return rc;
}

Test(app_dataset_disturbed, a_stream_takes_one_call_at_a_time)
{
	const struct weka_epoch epoch = { .batch = 30 };

	begin();
	open_new("/data");
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	cr_assert_eq(next_disturbed(), 1, "%s", weka_error(client));
	cr_assert_eq(meanwhile.next, -EBUSY);
	cr_assert_eq(batch->step, 0);
	for (uint32_t i = 0; i < batch->count; i++)
		expect_item(&batch->items[i], batch->samples[i]);
	cr_assert_eq(weka_stream_next(stream, &batch), 1, "%s", weka_error(client));
	cr_assert_eq(batch->step, 1);
	weka_stream_close(stream);

	/* It is closed while it waits, with its dataset. */
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	meanwhile.close_stream = stream;
	meanwhile.close_dataset = dataset;
	dataset = NULL;
	cr_assert_eq(next_disturbed(), -ESTALE);
	stream = NULL;
	for (uint32_t i = 0; i < 5000 && leases_out() > 0; i++, usleep(1000))
		cr_assert_eq(weka_stat(client, "/data", NULL), 0); /* memory comes back later */
	cr_assert_eq(leases_out(), 0);
	end();
}

/* A stream keeps what it needs of its dataset. */
Test(app_dataset_disturbed, a_dataset_may_be_closed_before_its_stream)
{
	uint64_t samples = 0;

	begin();
	open_new("/data");
	cr_assert_eq(weka_stream_open(client, dataset, &(struct weka_epoch){ .batch = 7 }, NULL,
				      &stream),
		     0);
	weka_dataset_close(dataset);
	dataset = NULL;
	while (weka_stream_next(stream, &batch) == 1) {
		samples += batch->count;
		cr_assert_eq(batch->failed, 0);
		cr_assert_eq(weka_stream_release(stream, batch), 0);
	}
	cr_assert_eq(samples, FILES);
	end();
}
