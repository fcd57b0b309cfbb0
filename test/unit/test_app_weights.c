/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Epochs whose samples are drawn by weight, over a whole appliance.
 *
 *   /data/CLASS/000 ...   3, 20, 7, 1 files; their paths are sorted "a-b/", "a.b/", "a/", "z/"
 */
#include "client-lib/dataset/dataset_internal.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES = 4, FILES = 31 };

static const char *const class_name[CLASSES] = { "a", "a-b", "a.b", "z" }; /* as labels */
static const uint32_t size_of[CLASSES] = { 3, 20, 7, 1 };
static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT, .cache_bytes = 64 << 20 } };
static struct weka_client *client;
static struct weka_dataset *dataset;
static struct weka_stream *stream;
static struct weka_batch *batch;

static void begin(void)
{
	char path[64];

	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(client, "/data", 0755), 0);
	for (uint32_t c = 0; c < CLASSES; c++) {
		snprintf(path, sizeof(path), "/data/%s", class_name[c]);
		cr_assert_eq(weka_mkdir(client, path, 0755), 0);
		for (uint32_t i = 0; i < size_of[c]; i++) {
			snprintf(path, sizeof(path), "/data/%s/%03u", class_name[c], i);
			cr_assert_eq(weka_write_file(client, path, class_name[c], 1, NULL), 0);
		}
	}
	cr_assert_eq(weka_dataset_create(client, "set", "/data", NULL, NULL), 0, "%s",
		     weka_error(client));
	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), 0);
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

TestSuite(app_weights, .timeout = 120);

static uint64_t positions; /* that run() has filled in */
static uint64_t order[10000];
static uint32_t label_at[10000];

/* Appends what one rank's stream gives, for some steps. */
static void run(const struct weka_epoch *epoch, const struct weka_cursor *from, uint64_t steps,
		struct weka_cursor *to)
{
	int rc = 1;

	cr_assert_eq(weka_stream_open(client, dataset, epoch, from, &stream), 0, "%s",
		     weka_error(client));
	while (steps-- > 0 && (rc = weka_stream_next(stream, &batch)) == 1) {
		cr_assert_eq(batch->failed, 0);
		for (uint32_t i = 0; i < batch->count; i++) {
			label_at[positions] = batch->labels[i];
			order[positions++] = batch->samples[i];
		}
		cr_assert_eq(weka_stream_release(stream, batch), 0);
	}
	cr_assert_geq(rc, 0, "%s", weka_error(client));
	if (to)
		cr_assert_eq(weka_stream_cursor(stream, to), 0);
	weka_stream_close(stream);
	stream = NULL;
}

static void expect_labels(uint64_t from, uint64_t to, const uint32_t *expected)
{
	uint32_t came[CLASSES] = { 0 };

	for (uint64_t i = from; i < to; i++)
		came[label_at[i]]++;
	cr_assert_eq(memcmp(came, expected, sizeof(came)), 0, "%u %u %u %u", came[0], came[1],
		     came[2], came[3]);
}

Test(app_weights, classes_are_balanced)
{
	const struct weka_weights balanced = { .by = WEKA_BY_CLASS, .length = 400 };
	const struct weka_epoch epoch = { .seed = 3, .batch = 16, .weights = &balanced };
	uint32_t times[FILES] = { 0 };

	begin();
	positions = 0;
	run(&epoch, NULL, UINT64_MAX, NULL);
	cr_assert_eq(positions, 400);
	for (uint64_t i = 0; i < 400; i += 4)
		expect_labels(i, i + 4, (uint32_t[CLASSES]){ 1, 1, 1, 1 });
	for (uint64_t i = 0; i < 400; i++)
		times[order[i]]++;
	for (uint64_t i = 0; i < FILES; i++) {
		struct weka_sample s;
		uint32_t mean;

		cr_assert_eq(weka_dataset_sample(dataset, i, &s), 0);
		mean = 100 / size_of[s.label];
		cr_assert(times[i] == mean || times[i] == mean + 1, "%s: %u", s.path, times[i]);
	}
	end();
}

Test(app_weights, weights_by_class_and_by_sample)
{
	static uint32_t weight[FILES];
	struct weka_weights by = { .by = WEKA_BY_CLASS,
				   .weight = (uint32_t[]){ 5, 0, 2, 3 },
				   .count = CLASSES,
				   .length = 100 };
	const struct weka_epoch epoch = { .batch = 7, .weights = &by };
	uint32_t times[FILES] = { 0 };

	begin();
	positions = 0;
	run(&epoch, NULL, UINT64_MAX, NULL);
	for (uint64_t i = 0; i < 100; i += 10)
		expect_labels(i, i + 10, by.weight);
	for (uint32_t i = 0; i < FILES; i++)
		weight[i] = i % 3;
	by = (struct weka_weights){
		.by = WEKA_BY_SAMPLE, .weight = weight, .count = FILES, .length = 300
	};
	positions = 0;
	run(&epoch, NULL, UINT64_MAX, NULL);
	for (uint64_t i = 0; i < 300; i++)
		times[order[i]]++;
	for (uint32_t i = 0; i < FILES; i++)
		cr_assert_eq(times[i], 10 * weight[i]);
	by.length = 0;
	positions = 0;
	run(&epoch, NULL, UINT64_MAX, NULL);
	cr_assert_eq(positions, FILES); /* as many as there are samples */
	end();
}

Test(app_weights, the_order_is_the_same_for_every_world)
{
	const struct weka_weights by = { .by = WEKA_BY_CLASS, .length = 500 };
	struct weka_epoch epoch = { .seed = 9, .epoch = 4, .batch = 1, .weights = &by };
	uint64_t whole[500];

	begin();
	positions = 0;
	run(&epoch, NULL, UINT64_MAX, NULL);
	memcpy(whole, order, sizeof(whole));
	epoch.world = 3;
	epoch.batch = 20;
	for (epoch.rank = 0; epoch.rank < 3; epoch.rank++) {
		positions = 0;
		run(&epoch, NULL, 8, NULL); /* 480 of them */
		for (uint64_t i = 0; i < 160; i++)
			cr_assert_eq(order[i], whole[i / 20 * 60 + epoch.rank * 20 + i % 20]);
	}
	end();
}

Test(app_weights, a_cursor_goes_on_with_another_world)
{
	const struct weka_weights by = { .by = WEKA_BY_CLASS, .length = 500 };
	struct weka_epoch epoch = { .seed = 9, .batch = 10, .weights = &by };
	struct weka_cursor cursor;
	uint64_t whole[500];

	begin();
	positions = 0;
	run(&epoch, NULL, UINT64_MAX, NULL);
	memcpy(whole, order, sizeof(whole));
	positions = 0;
	run(&epoch, NULL, 33, &cursor);
	epoch.batch = 85;
	epoch.world = 2;
	run(&epoch, &cursor, UINT64_MAX, NULL);
	epoch.rank = 1;
	run(&epoch, &cursor, UINT64_MAX, &cursor);
	cr_assert_eq(positions, 500);
	cr_assert_eq(memcmp(order, whole, sizeof(whole)), 0);
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &cursor, &stream), 0);
	cr_assert_eq(weka_stream_next(stream, &batch), 0); /* position 500, of 31 samples */
	end();
}

static void refused(const struct weka_epoch *epoch, const struct weka_cursor *cursor, int err,
		    const char *why)
{
	cr_assert_eq(weka_stream_open(client, dataset, epoch, cursor, &stream), err, "%s",
		     weka_error(client));
	cr_assert(strstr(weka_error(client), why), "%s", weka_error(client));
	stream = NULL;
}

Test(app_weights, cursors_of_other_weights_are_refused)
{
	uint32_t weight[CLASSES] = { 1, 2, 3, 4 };
	struct weka_weights by = { .by = WEKA_BY_CLASS, .weight = weight, .count = CLASSES };
	struct weka_epoch epoch = { .batch = 5, .weights = &by };
	struct weka_cursor cursor, plain;
	struct dataset__place place;

	begin();
	run(&epoch, NULL, 2, &cursor);
	weight[3] = 5;
	refused(&epoch, &cursor, -ESTALE, "other weights");
	weight[3] = 4;
	by.length = 50;
	refused(&epoch, &cursor, -ESTALE, "other weights");
	by.length = 0;
	epoch.weights = NULL;
	refused(&epoch, &cursor, -ESTALE, "another order");
	run(&epoch, NULL, 2, &plain);
	epoch.weights = &by;
	refused(&epoch, &plain, -ESTALE, "another order");
	cr_assert_null(dataset__cursor_parse(&place, &cursor));
	place.position = 32; /* behind the epoch's 31 */
	dataset__cursor_build(&plain, &place);
	refused(&epoch, &plain, -EINVAL, "behind the end");
	cr_assert_eq(place.position, 32);
	end();
}

/* PROTOCOL.md 12 says how the mark is made; here the dataset is another. */
Test(app_weights, the_mark_of_a_cursor)
{
	const struct weka_weights by = { .by = WEKA_BY_CLASS,
					 .weight = (uint32_t[]){ 5, 0, 2, 3 },
					 .count = CLASSES,
					 .length = 77 };
	const struct weka_epoch epoch = { .batch = 5, .weights = &by };
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };
	struct weka_cursor cursor;
	uint64_t mark = dataset__key(77, 1), in_cursor;

	begin();
	run(&epoch, NULL, 0, &cursor);
	for (uint32_t i = 0; i < CLASSES; i++)
		mark = dataset__key(mark, by.weight[i]);
	memcpy(&in_cursor, cursor.bytes + 52, sizeof(in_cursor));
	cr_assert_eq(in_cursor, mark);
	cr_assert_eq(weka_dataset_get_info(dataset, &info), 0);
	cr_assert_eq(memcmp(cursor.bytes + 40, info.content, 12), 0);
	end();
}

Test(app_weights, weights_that_cannot_be)
{
	static uint32_t zero[FILES];
	struct weka_weights by = { .by = WEKA_BY_CLASS, .weight = zero, .count = CLASSES };
	struct weka_dataset_make how = { .flags = WEKA_DATASET_NO_LABEL };
	struct weka_epoch epoch = { .batch = 5, .weights = &by };

	begin();
	refused(&epoch, NULL, -EINVAL, "all weights are 0");
	by.count = 3;
	refused(&epoch, NULL, -EINVAL, "a weight for each class");
	by.by = WEKA_BY_SAMPLE;
	refused(&epoch, NULL, -EINVAL, "a weight for each class, or sample");
	by.by = 3;
	refused(&epoch, NULL, -EINVAL, "by class or by sample");
	by = (struct weka_weights){ .by = WEKA_BY_CLASS, .length = (1ull << 48) + 1 };
	refused(&epoch, NULL, -EINVAL, "2^48");
	by = (struct weka_weights){ .by = WEKA_BY_CLASS, .reserved = { 1 } };
	refused(&epoch, NULL, -EINVAL, "reserved");
	by = (struct weka_weights){ .by = WEKA_BY_CLASS };
	epoch.flags = WEKA_IN_ORDER;
	refused(&epoch, NULL, -EINVAL, "shuffled");
	epoch.flags = 0;
	weka_dataset_close(dataset);
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &how, NULL), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), 0);
	refused(&epoch, NULL, -EINVAL, "has classes");
	end();
}

/* A manifest whose labels lie is refused, and nobody is given a sample of another class. */
Test(app_weights, classes_that_are_not_together_are_refused)
{
	const struct weka_weights by = { .by = WEKA_BY_CLASS, .length = 400 };
	const struct weka_epoch epoch = { .batch = 5, .weights = &by };
	const uint8_t label[4] = { 3 };
	struct weka_attr attr;
	int rc;

	begin();
	weka_dataset_close(dataset);
	dataset = NULL;
	cr_assert_eq(weka_stat(client, WEKA_DATASETS "/set/1", &attr), 0);
	/* Sample 4 is one of "a-b". */
	cr_assert_eq(weka_pwrite(client, &attr.handle, label, sizeof(label),
				 DATASET__HEADER_BYTES + 4 * DATASET__RECORD_BYTES + 52),
		     sizeof(label));
	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), 0, "%s", weka_error(client));
	rc = weka_stream_open(client, dataset, &epoch, NULL, &stream);
	while (rc == 0 && (rc = weka_stream_next(stream, &batch)) == 1)
		rc = weka_stream_release(stream, batch);
	cr_assert_eq(rc, -EPROTO, "%s", weka_error(client));
	end();
}
