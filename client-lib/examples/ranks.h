/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The ranks of a loader, for epoch.c and decode.c: threads, each with a client and a stream of its
 * own.  Together they read every sample of a dataset once an epoch, in an order that the seed
 * decides.
 */
#ifndef RANKS_H
#define RANKS_H

#include <weka_client.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct rank {
	pthread_t thread;
	const char *addresses;
	const char *key_file;
	const char *dataset;
	uint64_t epochs;
	uint32_t rank;
	uint32_t world; /* ranks in all */
	uint32_t batch; /* samples of a batch */
	/* Uses the samples of a batch.  Returns 0, or -errno, which ends the rank. */
	int (*use)(struct rank *r, const struct weka_batch *batch);
	char verdict[WEKA_VERDICT_BYTES]; /* of the last epoch */
	int err;
};

static int rank_epoch(struct rank *r, struct weka_client *client, struct weka_dataset *dataset,
		      uint64_t number)
{
	const struct weka_epoch epoch = {
		.seed = 7, .epoch = number, .rank = r->rank, .world = r->world, .batch = r->batch
	};
	struct weka_stream *stream;
	struct weka_batch *batch;
	int err = weka_stream_open(client, dataset, &epoch, NULL, &stream), got = 0;

	if (err)
		return err;
	while (!err && (got = weka_stream_next(stream, &batch)) == 1) {
		err = r->use(r, batch);
		if (!err)
			err = weka_stream_release(stream, batch);
	}
	if (!err)
		err = weka_stream_verdict(stream, r->verdict);
	weka_stream_close(stream);
	return err ? err : got;
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	const struct weka_key key = { .file = r->key_file };
	struct weka_dataset *dataset = NULL;
	struct weka_client *client = NULL;

	r->err = weka_connect(r->addresses, &key, NULL, &client);
	if (!r->err)
		r->err = weka_dataset_open(client, r->dataset, 0, &dataset);
	for (uint64_t i = 0; i < r->epochs && !r->err; i++)
		r->err = rank_epoch(r, client, dataset, i);
	if (r->err)
		fprintf(stderr, "rank %u: %s: %s\n", r->rank, strerror(-r->err),
			weka_error(client));
	weka_dataset_close(dataset);
	weka_close(client);
	return NULL;
}

/* Starts a rank's thread, with argv's ADDRESSES KEYFILE DATASET.  Returns 0, or an errno. */
static inline int rank_start(struct rank *r, char **argv)
{
	r->addresses = argv[1];
	r->key_file = argv[2];
	r->dataset = argv[3];
	return pthread_create(&r->thread, NULL, rank_main, r);
}

/* Waits for its end.  Returns its result: 0, or -errno after a line. */
static inline int rank_end(struct rank *r)
{
	pthread_join(r->thread, NULL);
	return r->err;
}

#endif
