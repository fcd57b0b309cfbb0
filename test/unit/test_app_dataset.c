/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Datasets and epoch streams over a whole appliance.
 *
 *   /data/cat/000 ... /data/dog/...   sizes from 0 bytes to a few blocks; byte k of file i is i + k
 */
#include "client-lib/dataset/dataset_internal.h"
#include "test/lib/app_rig.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 120, CLASSES = 3 };

static const char *const class_name[CLASSES] = { "ant", "ant-eater", "zebra" };
static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT, .cache_bytes = 64 << 20 } };
static struct weka_client *client, *alice;
static struct weka_dataset *dataset;
static struct weka_stream *stream;
static struct weka_batch *batch;
static uint8_t bytes[64 << 10];

static uint32_t size_of(uint32_t i)
{
	static const uint32_t size[] = { 0, 1, 100, 4095, 4096, 4097, 9000, 20000 };

	return size[i % ARRAY_LEN(size)];
}

static void path_of(char to[64], const char *root, uint32_t i)
{
	snprintf(to, 64, "%s/%s/%03u", root, class_name[i % CLASSES], i);
}

static void fill(uint32_t i)
{
	for (uint32_t k = 0; k < size_of(i); k++)
		bytes[k] = (uint8_t)(i + k);
}

static void tree_make(struct weka_client *c, const char *root)
{
	char path[64];

	cr_assert_eq(weka_mkdir(c, root, 0755), 0);
	for (uint32_t i = 0; i < CLASSES; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, class_name[i]);
		cr_assert_eq(weka_mkdir(c, path, 0755), 0);
	}
	for (uint32_t i = 0; i < FILES; i++) {
		path_of(path, root, i);
		fill(i);
		cr_assert_eq(weka_write_file(c, path, bytes, size_of(i), NULL), 0);
	}
}

static void begin(const char *transport)
{
	rig.transport = transport;
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	tree_make(client, "/data");
}

static void end(void)
{
	weka_stream_close(stream);
	weka_dataset_close(dataset);
	stream = NULL;
	dataset = NULL;
	weka_close(alice);
	weka_close(client);
	alice = client = NULL;
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(app_dataset, .timeout = 120);

static struct weka_dataset_info create(struct weka_client *c, const char *path)
{
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };

	cr_assert_eq(weka_dataset_create(c, "set", path, NULL, &info), 0, "%s", weka_error(c));
	return info;
}

static void open_newest(struct weka_client *c)
{
	weka_dataset_close(dataset);
	cr_assert_eq(weka_dataset_open(c, "set", 0, &dataset), 0, "%s", weka_error(c));
}

/* The number of the file that a sample is. */
static uint32_t file_of(uint64_t sample)
{
	struct weka_sample s;

	cr_assert_eq(weka_dataset_sample(dataset, sample, &s), 0);
	return (uint32_t)atoi(strrchr(s.path, '/') + 1);
}

static void expect_item(const struct weka_read_item *item, uint64_t sample)
{
	const uint32_t i = file_of(sample);

	fill(i);
	cr_assert_eq(item->status, 0, "sample %llu: %d", (unsigned long long)sample, item->status);
	cr_assert_eq(item->got_bytes, size_of(i));
	cr_assert(size_of(i) == 0 || memcmp(item->data, bytes, size_of(i)) == 0);
}

/* Runs all ranks of a world to the end, or for some steps; counts how often each sample came. */
static void run_world(struct weka_epoch epoch, const struct weka_cursor *from, uint64_t steps_max,
		      struct weka_cursor *to, uint32_t *seen)
{
	for (epoch.rank = 0; epoch.rank < max_u32(epoch.world, 1); epoch.rank++) {
		uint64_t steps = 0;
		int rc = 0;

		cr_assert_eq(weka_stream_open(client, dataset, &epoch, from, &stream), 0, "%s",
			     weka_error(client));
		while (steps++ < steps_max && (rc = weka_stream_next(stream, &batch)) == 1) {
			for (uint32_t i = 0; i < batch->count; i++) {
				expect_item(&batch->items[i], batch->samples[i]);
				seen[batch->samples[i]]++;
			}
			cr_assert_eq(weka_stream_release(stream, batch), 0);
		}
		cr_assert_geq(rc, 0, "%s", weka_error(client));
		if (to)
			cr_assert_eq(weka_stream_cursor(stream, to), 0);
		weka_stream_close(stream);
		stream = NULL;
	}
}

static uint64_t leases_out(void)
{
	struct weka_counters now = { .size_bytes = sizeof(now) };

	cr_assert_eq(weka_get_counters(client, &now), 0);
	return now.pool_used_bytes;
}

/* ---- datasets ------------------------------------------------------------------------------ */

Test(app_dataset, a_tree_becomes_samples_with_labels)
{
	struct weka_dataset_info info, again = { .size_bytes = sizeof(again) };
	uint64_t total = 0;

	begin("shm");
	info = create(client, "/data/");
	open_newest(client);
	cr_assert_eq(weka_dataset_get_info(dataset, &again), 0);
	cr_assert_eq(memcmp(&info, &again, sizeof(info)), 0);
	cr_assert_eq(info.version, 1);
	cr_assert_eq(info.samples, FILES);
	cr_assert_eq(info.classes, CLASSES);
	cr_assert_eq(info.largest_bytes, 20000);
	for (uint32_t i = 0; i < CLASSES; i++) /* "ant" before "ant-eater", as names are sorted */
		cr_assert_str_eq(weka_dataset_class(dataset, i), class_name[i]);
	cr_assert_null(weka_dataset_class(dataset, CLASSES));
	for (uint64_t k = 0; k < FILES; k++) {
		struct weka_sample s;
		char path[64];

		cr_assert_eq(weka_dataset_sample(dataset, k, &s), 0);
		path_of(path, "/data", file_of(k));
		cr_assert_str_eq(s.path, path);
		cr_assert_eq(s.label, file_of(k) % CLASSES);
		total += s.size_bytes;
	}
	cr_assert_eq(total, info.total_bytes);
	end();
}

Test(app_dataset, content_says_what_it_is_and_not_where)
{
	struct weka_dataset_info first, second, third;

	begin("shm");
	tree_make(client, "/copy");
	first = create(client, "/data");
	second = create(client, "/copy");
	cr_assert_eq(second.version, 2);
	cr_assert_eq(memcmp(first.content, second.content, 32), 0);
	cr_assert_eq(weka_write_file(client, "/copy/zebra/002", "!", 1, NULL), 0);
	third = create(client, "/copy");
	cr_assert_neq(memcmp(first.content, third.content, 32), 0);
	end();
}

Test(app_dataset, options_choose_the_samples)
{
	const struct weka_dataset_make quick = { .flags = WEKA_DATASET_QUICK, .glob = "zebra/*" };
	const struct weka_dataset_make no_label = { .flags = WEKA_DATASET_NO_LABEL };
	const struct weka_dataset_make none = { .glob = "*.jpg" }, later = { .reserved = { 1 } };
	static char target[1000]; /* one name of it is longer than a name may be */
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };

	begin("shm");
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &quick, &info), 0);
	cr_assert_eq(info.samples, FILES / CLASSES);
	cr_assert_eq(info.classes, 1);
	cr_assert_eq(info.is_quick, 1);
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &no_label, &info), 0);
	cr_assert_eq(info.classes, 0);
	cr_assert_eq(weka_symlink(client, "/data/ant/000", "/data/link"), 0);
	cr_assert_eq(weka_symlink(client, "/data", "/data/circle"), 0);
	cr_assert_eq(weka_symlink(client, "/nowhere", "/data/broken"), 0);
	cr_assert_eq(weka_symlink(client, "/data/ant/000/no-dir", "/data/file"), 0);
	memset(target, 'x', sizeof(target) - 1);
	cr_assert_eq(weka_symlink(client, target, "/data/long"), 0);
	info = create(client, "/data");
	cr_assert_eq(info.samples, FILES + 1);
	cr_assert_eq(info.classes, 0); /* the link is in no class */
	info = create(client, "/");    /* not the manifests */
	cr_assert_eq(info.samples, FILES + 1);
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &none, NULL), -ENODATA);
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &later, NULL), -EINVAL);
	cr_assert_eq(weka_dataset_create(client, "set", "/nowhere", NULL, NULL), -ENOENT);
	end();
}

Test(app_dataset, a_file_that_changed_is_never_silently_different)
{
	const struct weka_epoch epoch = { .batch = FILES, .flags = WEKA_IN_ORDER };
	struct weka_attr attr;
	uint64_t changed, first;

	begin("shm");
	create(client, "/data");
	open_newest(client);
	cr_assert_eq(weka_dataset_verify(dataset, NULL, &changed, &first), 0);
	cr_assert_eq(changed, 0);
	/* replaced by the same bytes; written to in place; removed; renamed: still the same file */
	fill(3);
	cr_assert_eq(weka_write_file(client, "/data/ant/003", bytes, size_of(3), NULL), 0);
	cr_assert_eq(weka_open(client, "/data/ant/006", 0, 0, &attr), 0);
	cr_assert_eq(weka_pwrite(client, &attr.handle, "x", 1, 5), 1);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	cr_assert_eq(weka_unlink(client, "/data/ant/009"), 0);
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	cr_assert_eq(weka_stream_next(stream, &batch), 1, "%s", weka_error(client));
	cr_assert_eq(batch->failed, 3);
	for (uint32_t i = 0; i < batch->count; i++) {
		const uint32_t file = file_of(batch->samples[i]);
		const bool is_changed = file == 3 || file == 6 || file == 9;

		cr_assert_eq(batch->items[i].status, is_changed ? -ESTALE : 0, "file %u", file);
		if (is_changed)
			cr_assert_null(batch->items[i].data);
		else
			expect_item(&batch->items[i], batch->samples[i]);
	}
	cr_assert_eq(weka_dataset_verify(dataset, NULL, &changed, &first), 0);
	cr_assert_eq(changed, 3);
	cr_assert_eq(file_of(first), 3);
	end();
}

Test(app_dataset, versions_come_and_go)
{
	begin("shm");
	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), -ENOENT);
	cr_assert_eq(create(client, "/data").version, 1);
	cr_assert_eq(create(client, "/data").version, 2);
	cr_assert_eq(weka_dataset_open(client, "set", 3, &dataset), -ENOENT);
	cr_assert_eq(weka_dataset_open(client, "../set", 0, &dataset), -EINVAL);
	cr_assert_eq(weka_dataset_open(client, "", 0, &dataset), -EINVAL);
	cr_assert_eq(weka_dataset_drop(client, "set", 1), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 1, &dataset), -ENOENT);
	cr_assert_eq(weka_dataset_drop(client, "set", 1), -ENOENT);
	open_newest(client);
	cr_assert_eq(weka_dataset_drop(client, "set", 0), 0);
	cr_assert_eq(weka_dataset_drop(client, "set", 0), -ENOENT);
	end();
}

/* A client that may write below WEKA_DATASETS may write nonsense there. */
Test(app_dataset, a_manifest_that_was_tampered_with_is_refused)
{
	struct dataset__header h;
	uint8_t *whole;
	size_t size;
	void *was;

	begin("shm");
	create(client, "/data");
	cr_assert_eq(weka_read_file(client, WEKA_DATASETS "/set/1", &was, &size), 0);
	whole = was;
	cr_assert_eq(weka_write_file(client, WEKA_DATASETS "/set/2", whole, 4000, NULL), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 2, &dataset), -EPROTO);
	cr_assert_eq(weka_write_file(client, WEKA_DATASETS "/set/3", whole, size - 1, NULL), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 3, &dataset), -EPROTO);
	cr_assert_null(dataset__header_parse(&h, whole, size));
	cr_assert_eq(weka_write_file(client, WEKA_DATASETS "/set/6", whole, size, NULL), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 6, &dataset), -EPROTO); /* it is version 1 */
	cr_assert(strstr(weka_error(client), "version 6: "), "%s", weka_error(client));
	memset(whole + 4096, 0xff, 64); /* the first sample's record */
	h.version = 4;
	dataset__header_build(whole, &h);
	cr_assert_eq(weka_write_file(client, WEKA_DATASETS "/set/4", whole, size, NULL), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 4, &dataset), -EPROTO);
	h.version = 5;
	h.classes++;
	dataset__header_build(whole, &h);
	cr_assert_eq(weka_write_file(client, WEKA_DATASETS "/set/5", whole, size, NULL), 0);
	cr_assert_eq(weka_dataset_open(client, "set", 5, &dataset), -EPROTO);
	free(was);
	end();
}

/* More text than the list of files has room for at first. */
Test(app_dataset, paths_of_any_length_are_kept)
{
	enum { LONG = 400, NAME = 200 };
	char path[NAME + 16], name[NAME + 1];
	struct weka_dataset_info info;
	struct weka_sample s;

	begin("shm");
	cr_assert_eq(weka_mkdir(client, "/long", 0755), 0);
	memset(name, 'x', NAME);
	name[NAME] = 0;
	for (uint32_t i = 0; i < LONG; i++) {
		snprintf(path, sizeof(path), "/long/%03u%s", i, name);
		cr_assert_eq(weka_write_file(client, path, "y", 1, NULL), 0);
	}
	info = create(client, "/long");
	cr_assert_eq(info.samples, LONG);
	open_newest(client);
	for (uint32_t i = 0; i < LONG; i++) {
		snprintf(path, sizeof(path), "/long/%03u%s", i, name);
		cr_assert_eq(weka_dataset_sample(dataset, i, &s), 0);
		cr_assert_str_eq(s.path, path);
	}
	end();
}

/* Only three pages of the manifest, which has about twelve, may stay in memory. */
Test(app_dataset, a_manifest_of_any_size_is_read_page_by_page)
{
	uint32_t seen[FILES] = { 0 };

	begin("shm");
	create(client, "/data");
	open_newest(client);
	for (uint64_t i = 0; i < dataset->page_count; i++)
		free(dataset->pages[i]);
	free(dataset->pages);
	dataset->pages_in = 0;
	dataset->page_shift = 10; /* smaller than a sample's path and record together may be */
	dataset->kept_bytes = 3 << 10;
	dataset->page_count = div_up(dataset->header.file_bytes, 1 << 10);
	cr_assert_gt(dataset->page_count, 9);
	dataset->pages = calloc(dataset->page_count, sizeof(*dataset->pages));
	run_world((struct weka_epoch){ .seed = 9, .world = 2, .batch = 16 }, NULL, UINT64_MAX, NULL,
		  seen);
	for (uint32_t k = 0; k < FILES; k++)
		cr_assert_eq(seen[k], 1);
	cr_assert_eq(dataset->pages_in, 3);
	end();
}

static int stop_it(void *user, uint64_t done, uint64_t total)
{
	cr_assert_leq(done, total);
	return ++*(int *)user == 1;
}

Test(app_dataset, progress_can_stop_the_work)
{
	int calls = 0;
	const struct weka_progress progress = { stop_it, &calls };
	const struct weka_dataset_make how = { .progress = &progress };

	begin("shm");
	cr_assert_eq(weka_dataset_create(client, "set", "/data", &how, NULL), -ECANCELED);
	cr_assert_eq(calls, 1);
	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), -ENOENT);
	cr_assert_eq(leases_out(), 0);
	end();
}

/* ---- streams ------------------------------------------------------------------------------- */

static void expect_once_in_every_world(const char *transport)
{
	static const uint32_t world[] = { 1, 2, 3, 8, 100, 150 };
	struct weka_limits limits = { .size_bytes = sizeof(limits) };

	begin(transport);
	cr_assert_eq(weka_get_limits(client, &limits), 0);
	cr_assert_str_eq(limits.transport, transport);
	create(client, "/data");
	open_newest(client);
	for (uint32_t i = 0; i < ARRAY_LEN(world); i++) {
		uint32_t seen[FILES] = { 0 };

		run_world(
			(struct weka_epoch){ .seed = 5, .epoch = i, .world = world[i], .batch = 7 },
			NULL, UINT64_MAX, NULL, seen);
		for (uint32_t k = 0; k < FILES; k++)
			cr_assert_eq(seen[k], 1, "world %u, sample %u", world[i], k);
	}
	cr_assert_eq(leases_out(), 0);
	end();
}

Test(app_dataset, each_sample_comes_once_an_epoch_over_shm)
{
	expect_once_in_every_world("shm");
}

Test(app_dataset, each_sample_comes_once_an_epoch_over_tcp)
{
	expect_once_in_every_world("tcp");
}

Test(app_dataset, a_cursor_goes_on_with_another_world)
{
	struct weka_epoch epoch = { .seed = 1, .epoch = 2, .world = 3, .batch = 5 };
	struct weka_cursor cursor, at_end;
	uint32_t seen[FILES] = { 0 };

	begin("shm");
	create(client, "/data");
	open_newest(client);
	run_world(epoch, NULL, 4, &cursor, seen); /* 60 samples */
	epoch.world = 2;
	epoch.batch = 16;
	run_world(epoch, &cursor, UINT64_MAX, &at_end, seen);
	for (uint32_t k = 0; k < FILES; k++)
		cr_assert_eq(seen[k], 1, "sample %u", k);
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &at_end, &stream), 0);
	cr_assert_eq(weka_stream_next(stream, &batch), 0); /* the epoch is over */
	end();
}

Test(app_dataset, a_cursor_of_something_else_is_refused)
{
	struct weka_epoch epoch = { .seed = 1, .epoch = 2, .batch = 5 };
	struct weka_cursor cursor;

	begin("shm");
	create(client, "/data");
	open_newest(client);
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	cr_assert_eq(weka_stream_cursor(stream, &cursor), 0);
	weka_stream_close(stream);
	stream = NULL;
	epoch.seed = 2;
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &cursor, &stream), -ESTALE);
	epoch.seed = 1;
	epoch.epoch = 3;
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &cursor, &stream), -ESTALE);
	cr_assert(strstr(weka_error(client), "epoch"), "%s", weka_error(client));
	epoch.epoch = 2;
	epoch.flags = WEKA_IN_ORDER;
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &cursor, &stream), -ESTALE);
	epoch.flags = 0;
	cr_assert_eq(weka_unlink(client, "/data/ant/000"), 0);
	create(client, "/data");
	open_newest(client); /* another version */
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &cursor, &stream), -ESTALE);
	cursor.bytes[9] ^= 1;
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, &cursor, &stream), -EINVAL);
	end();
}

Test(app_dataset, what_no_epoch_can_be_is_refused)
{
	static const struct weka_epoch wrong[] = {
		{ .batch = 0 },
		{ .batch = WEKA_STREAM_BATCH_MAX + 1 },
		{ .batch = 1, .world = 2, .rank = 2 },
		{ .batch = 1, .rank = 1 },
		{ .batch = 1, .world = WEKA_WORLD_MAX + 1 },
		{ .batch = 1, .ahead = 1000 },
		{ .batch = 1, .flags = 4 },
		{ .batch = 1, .reserved = { 1 } },
	};
	struct weka_client *other;

	begin("shm");
	create(client, "/data");
	open_newest(client);
	for (uint32_t i = 0; i < ARRAY_LEN(wrong); i++) {
		cr_assert_eq(weka_stream_open(client, dataset, &wrong[i], NULL, &stream), -EINVAL);
		cr_assert(weka_error(client)[0]);
	}
	other = app_rig_connect(&rig);
	cr_assert_eq(
		weka_stream_open(other, dataset, &(struct weka_epoch){ .batch = 1 }, NULL, &stream),
		-EINVAL);
	weka_close(other);
	cr_assert_eq(weka_stream_next(NULL, &batch), -EINVAL);
	cr_assert_eq(weka_stream_release(NULL, batch), -EINVAL);
	weka_stream_close(NULL);
	weka_dataset_close(NULL);
	end();
}

Test(app_dataset, the_last_step_can_be_left_out)
{
	uint32_t seen[FILES] = { 0 }, sum = 0;

	begin("shm");
	create(client, "/data");
	open_newest(client);
	run_world((struct weka_epoch){ .world = 4, .batch = 7, .flags = WEKA_DROP_LAST }, NULL,
		  UINT64_MAX, NULL, seen);
	for (uint32_t k = 0; k < FILES; k++)
		sum += seen[k];
	cr_assert_eq(sum, FILES / 28 * 28);
	end();
}

/* A pool for two batches: the stream reads fewer ahead, and says when the caller holds them all. */
Test(app_dataset, a_small_pool_makes_it_slow_and_not_wrong)
{
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = 2 << 20 };
	const struct weka_key key = { .secret = app_rig_secret };
	const struct weka_epoch epoch = { .batch = 60, .ahead = 8 };
	struct weka_batch *held[2];
	struct weka_lease *lease[16];
	uint32_t leases = 0;

	begin("shm");
	create(client, "/data");
	weka_close(client);
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &client), 0);
	open_newest(client);
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	cr_assert_eq(weka_stream_next(stream, &held[0]), 1, "%s", weka_error(client));
	cr_assert_eq(weka_stream_next(stream, &held[1]), 1, "%s", weka_error(client));
	cr_assert_eq(weka_stream_next(stream, &batch), 0); /* 120 samples */
	cr_assert_eq(weka_stream_release(stream, held[0]), 0);
	cr_assert_eq(weka_stream_release(stream, held[0]), -EINVAL);
	weka_stream_close(stream); /* with one held */
	stream = NULL;
	cr_assert_eq(leases_out(), 0);

	/* The caller has the whole pool. */
	while (weka_lease(client, 256 << 10, &lease[leases]) == 0)
		leases++;
	cr_assert_gt(leases, 4);
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	cr_assert_eq(weka_stream_next(stream, &batch), -EAGAIN);
	while (leases > 0)
		cr_assert_eq(weka_release(client, lease[--leases]), 0);
	cr_assert_eq(weka_stream_next(stream, &batch), 1, "%s", weka_error(client));
	cr_assert_eq(batch->step, 0); /* nothing was left out */
	end();
}

Test(app_dataset, a_batch_that_no_pool_holds_is_refused)
{
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = 2 << 20 };
	const struct weka_key key = { .secret = app_rig_secret };
	static const uint8_t large[1 << 20];
	uint32_t count = 0;

	begin("shm");
	for (uint32_t i = 0; i < 4; i++) {
		char path[64];

		path_of(path, "/data", i);
		cr_assert_eq(weka_write_file(client, path, large, sizeof(large), NULL), 0);
	}
	create(client, "/data");
	weka_close(client);
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &client), 0);
	open_newest(client);
	cr_assert_eq(weka_stream_open(client, dataset, &(struct weka_epoch){ .batch = FILES }, NULL,
				      &stream),
		     0);
	cr_assert_eq(weka_stream_next(stream, &batch), -EMSGSIZE);
	cr_assert(strstr(weka_error(client), "pool"), "%s", weka_error(client));
	weka_stream_close(stream);
	cr_assert_eq(weka_stream_open(client, dataset, &(struct weka_epoch){ .batch = 1 }, NULL,
				      &stream),
		     0);
	while (weka_stream_next(stream, &batch) == 1) {
		count++;
		cr_assert_eq(batch->failed, 0);
		cr_assert_eq(weka_stream_release(stream, batch), 0);
	}
	cr_assert_eq(count, FILES);
	end();
}

/* More samples than a request may have items, in one batch. */
Test(app_dataset, a_batch_may_take_many_requests)
{
	struct weka_options options = { .size_bytes = sizeof(options),
					.batch_items_max = 8,
					.batches_max = 2,
					.requests_max = 4 };
	const struct weka_key key = { .secret = app_rig_secret };
	uint32_t seen[FILES] = { 0 };

	begin("shm");
	create(client, "/data");
	weka_close(client);
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &client), 0);
	open_newest(client);
	run_world((struct weka_epoch){ .seed = 3, .world = 2, .batch = 60 }, NULL, UINT64_MAX, NULL,
		  seen);
	for (uint32_t k = 0; k < FILES; k++)
		cr_assert_eq(seen[k], 1);
	cr_assert_eq(leases_out(), 0);
	end();
}

/* ---- keys that see one directory ----------------------------------------------------------- */

static void keys_set(struct app_rig *r)
{
	const struct fab_grant grant = fab_rig_grant("alice", 1, "/team", true);

	cr_assert_geq(fab_server_key_set(r->srv, &grant), 0);
}

static struct weka_client *connect_alice(void)
{
	return app_rig_connect_as(&rig, "alice", 1, NULL);
}

/* Her handles are good for the client that got them; another one finds the samples by path. */
Test(app_dataset, a_confined_keys_dataset_serves_its_other_clients)
{
	uint32_t seen[FILES] = { 0 };
	uint64_t changed, first;

	rig.turn = keys_set;
	begin("shm");
	cr_assert_eq(weka_mkdir(client, "/team", 0755), 0);
	alice = connect_alice();
	tree_make(alice, "/data");
	create(alice, "/data");
	weka_close(client);
	client = alice;
	alice = NULL;
	for (int round = 0; round < 2; round++) {
		memset(seen, 0, sizeof(seen));
		open_newest(client);
		cr_assert_eq(dataset->by_path, round == 1);
		run_world((struct weka_epoch){ .seed = 3, .world = 2, .batch = 16 }, NULL,
			  UINT64_MAX, NULL, seen);
		for (uint32_t k = 0; k < FILES; k++)
			cr_assert_eq(seen[k], 1);
		cr_assert_eq(weka_dataset_verify(dataset, NULL, &changed, &first), 0);
		cr_assert_eq(changed, 0);
		weka_dataset_close(dataset);
		dataset = NULL;
		weka_close(client);
		client = connect_alice();
	}
	open_newest(client);
	cr_assert_eq(weka_write_file(client, "/data/ant/003", "new", 3, NULL), 0);
	cr_assert_eq(weka_dataset_verify(dataset, NULL, &changed, &first), 0);
	cr_assert_eq(changed, 1);
	rig.turn = NULL;
	end();
}
