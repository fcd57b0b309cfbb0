/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A data loader's inner loop: all files of a directory, in random order, in batches of 256,
 * two batches on their way while a third is being used.
 *
 *	batch_read ADDRESSES KEYFILE DIRECTORY
 */
#include <weka_client.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH        256u
#define BATCHES      3u
#define WINDOW_BYTES (16u << 20)

struct batch {
	struct weka_req req;
	struct weka_window window;
	struct weka_read_item items[BATCH];
	uint32_t count;
};

struct totals {
	uint64_t files;
	uint64_t bytes;
	uint64_t errors;
};

/* Below `bound`; the same every time (xorshift64). */
static long chance(long bound)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (long)(x % (uint64_t)bound);
}

/* Names of a directory's files, in an order of chance.  Returns how many, or -errno. */
static long names_of(struct weka_client *client, const char *path, struct weka_ref **out)
{
	struct weka_ref root = weka_ref_path(path), *names = NULL;
	struct weka_entry entry;
	struct weka_dir *dir;
	struct weka_attr attr;
	long count = 0, i;
	int err = weka_open(client, path, WEKA_DIRECTORY, 0, &attr);

	if (!err)
		err = weka_list(client, &root, &dir);
	if (err)
		return err;
	while ((err = weka_list_next(dir, &entry)) > 0) {
		if ((entry.attr.mode & 0170000) != 0100000)
			continue;
		if ((count & (count - 1)) == 0)
			names = realloc(names, sizeof(*names) * (size_t)(count ? 2 * count : 1));
		names[count++] = weka_ref_in(attr.dir, strdup(entry.name));
	}
	weka_list_end(dir);
	for (i = count - 1; i > 0; i--) {
		long j = chance(i + 1);
		struct weka_ref swap = names[i];

		names[i] = names[j];
		names[j] = swap;
	}
	*out = names;
	return err ? err : count;
}

/* The next files, open + read + close of all of them in one round trip. */
static int batch_submit(struct weka_client *client, struct batch *b, const struct weka_ref *names,
			uint32_t count)
{
	uint32_t i;

	b->count = count;
	b->req.user = b;
	for (i = 0; i < count; i++) {
		b->items[i].ref = names[i];
		b->items[i].offset_bytes = 0;
		b->items[i].length_bytes = WEKA_TO_END;
	}
	return weka_submit_read_batch(client, &b->req, b->items, count, &b->window);
}

/* Here training would use items[i].data, got_bytes long; it lies in the lease until reused. */
static void batch_use(const struct batch *b, struct totals *t)
{
	uint32_t i;

	for (i = 0; i < b->count; i++) {
		int status = b->req.status ? b->req.status : b->items[i].status;

		t->files += status == 0;
		t->bytes += status == 0 ? b->items[i].got_bytes : 0;
		t->errors += status != 0;
		if (status)
			fprintf(stderr, "%s: %s\n", b->items[i].ref.name, strerror(-status));
	}
}

static int epoch(struct weka_client *client, struct batch *batches, const struct weka_ref *names,
		 long count, struct totals *t)
{
	struct weka_req *done[BATCHES];
	long next = 0, out = 0;
	int err = 0, got, i;

	for (i = 0; i < (int)BATCHES && next < count && !err; i++, out++) {
		uint32_t n = count - next < BATCH ? (uint32_t)(count - next) : BATCH;

		err = batch_submit(client, &batches[i], names + next, n);
		next += n;
	}
	while (out > 0 && !err) {
		got = weka_reap(client, done, BATCHES);
		if (got == 0)
			err = weka_wait(client, WEKA_FOREVER);
		for (i = 0; i < got && !err; i++, out--) {
			struct batch *b = done[i]->user;
			uint32_t n = count - next < BATCH ? (uint32_t)(count - next) : BATCH;

			batch_use(b, t);
			if (n == 0)
				continue;
			err = batch_submit(client, b, names + next, n);
			next += n;
			out++;
		}
	}
	return err;
}

int main(int argc, char **argv)
{
	static struct batch batches[BATCHES];
	struct weka_key key = { 0 };
	struct weka_ref *names = NULL;
	struct weka_client *client;
	struct totals t = { 0 };
	long count;
	int err = 0, i;

	if (argc != 4) {
		fprintf(stderr, "usage: batch_read ADDRESSES KEYFILE DIRECTORY\n");
		return 2;
	}
	key.file = argv[2];
	if (weka_connect(argv[1], &key, NULL, &client) < 0) {
		fprintf(stderr, "batch_read: %s\n", weka_error(NULL));
		return 1;
	}
	for (i = 0; i < (int)BATCHES && !err; i++) {
		err = weka_lease(client, WINDOW_BYTES, &batches[i].window.lease);
		batches[i].window.size_bytes = WINDOW_BYTES;
	}
	count = err ? err : names_of(client, argv[3], &names);
	err = count < 0 ? (int)count : epoch(client, batches, names, count, &t);
	printf("%llu files, %llu bytes, %llu errors\n", (unsigned long long)t.files,
	       (unsigned long long)t.bytes, (unsigned long long)t.errors);
	if (err)
		fprintf(stderr, "batch_read: %s: %s\n", strerror(-err), weka_error(client));
	weka_close(client);
	return err || t.errors;
}
