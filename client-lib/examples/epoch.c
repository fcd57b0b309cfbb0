/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A loader of three threads: each is a rank, with a client and a stream of its own, and together
 * they read every sample of a dataset once an epoch, in an order that the seed decides.
 *
 *	epoch ADDRESSES KEYFILE DATASET [EPOCHS]
 */
#include <weka_client.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 3u
#define BATCH 64u

struct rank {
	pthread_t thread;
	const char *addresses;
	const char *key_file;
	const char *dataset;
	uint64_t epochs;
	uint32_t rank;
	uint64_t samples;
	uint64_t bytes;
	char verdict[WEKA_VERDICT_BYTES]; /* of the last epoch */
	int err;
};

/* Where a model would be trained. */
static int use(struct rank *r, const struct weka_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		if (batch->items[i].status) /* changed since the dataset was made, or damaged */
			return batch->items[i].status;
		r->bytes += batch->items[i].got_bytes;
	}
	r->samples += batch->count;
	return 0;
}

static int epoch_run(struct rank *r, struct weka_client *client, struct weka_dataset *dataset,
		     uint64_t number)
{
	const struct weka_epoch epoch = {
		.seed = 7, .epoch = number, .rank = r->rank, .world = RANKS, .batch = BATCH
	};
	struct weka_stream *stream;
	struct weka_batch *batch;
	int err = weka_stream_open(client, dataset, &epoch, NULL, &stream), got = 0;

	if (err)
		return err;
	while (!err && (got = weka_stream_next(stream, &batch)) == 1) {
		err = use(r, batch);
		if (!err)
			err = weka_stream_release(stream, batch);
	}
	if (!err)
		err = weka_stream_verdict(stream, r->verdict);
	weka_stream_close(stream);
	return err ? err : got;
}

static void *rank_run(void *arg)
{
	struct rank *r = arg;
	const struct weka_key key = { .file = r->key_file };
	struct weka_dataset *dataset = NULL;
	struct weka_client *client = NULL;

	r->err = weka_connect(r->addresses, &key, NULL, &client);
	if (!r->err)
		r->err = weka_dataset_open(client, r->dataset, 0, &dataset);
	for (uint64_t i = 0; i < r->epochs && !r->err; i++)
		r->err = epoch_run(r, client, dataset, i);
	if (r->err)
		fprintf(stderr, "rank %u: %s: %s\n", r->rank, strerror(-r->err),
			weka_error(client));
	weka_dataset_close(dataset);
	weka_close(client);
	return NULL;
}

int main(int argc, char **argv)
{
	struct rank ranks[RANKS] = { 0 };
	int status = 0;

	if (argc < 4) {
		fprintf(stderr, "usage: epoch ADDRESSES KEYFILE DATASET [EPOCHS]\n");
		return 2;
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		ranks[i] = (struct rank){ .addresses = argv[1],
					  .key_file = argv[2],
					  .dataset = argv[3],
					  .epochs = argc > 4 ? strtoull(argv[4], NULL, 10) : 1,
					  .rank = i };
		if (pthread_create(&ranks[i].thread, NULL, rank_run, &ranks[i]))
			return 1;
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		pthread_join(ranks[i].thread, NULL);
		status |= ranks[i].err != 0;
		printf("rank %u: %llu samples, %llu bytes; %s\n", i,
		       (unsigned long long)ranks[i].samples, (unsigned long long)ranks[i].bytes,
		       ranks[i].verdict);
	}
	return status;
}
