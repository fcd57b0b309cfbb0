/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A loader that decodes: threads read an epoch of a dataset of JPEG and PNG files, and make pixels
 * of them, straight from the memory into which the appliance has written.
 *
 *	decode ADDRESSES KEYFILE DATASET [THREADS [EPOCHS]]
 *
 * Each thread is a rank, with a client and a stream of its own: while it decodes a batch, the next
 * ones are read.  Files that are no images, or damaged, are counted.
 */
#include <weka_client.h>

#include <png.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#define THREADS_MAX 64u
#define BATCH       32u
#define PIXELS_MAX  (64u << 20) /* of one image: a small file may claim to be a large image */

struct rank {
	pthread_t thread;
	const char *addresses;
	const char *key_file;
	const char *dataset;
	uint64_t epochs;
	uint32_t rank;
	uint32_t world;
	tjhandle jpeg;   /* NULL: none yet */
	uint8_t *pixels; /* of one image, 3 bytes each */
	size_t pixels_room;
	uint64_t images;
	uint64_t others; /* no images */
	uint64_t pixel_count;
	uint64_t sum[3]; /* of red, green and blue */
	char verdict[WEKA_VERDICT_BYTES];
	int err;
};

/* Returns false if the image is too large. */
static bool pixels_need(struct rank *r, uint64_t width, uint64_t height)
{
	const uint64_t bytes = width * height * 3;
	uint8_t *pixels;

	if (width == 0 || height == 0 || width > PIXELS_MAX || height > PIXELS_MAX / width)
		return false;
	if (bytes <= r->pixels_room)
		return true;
	pixels = realloc(r->pixels, bytes);
	if (!pixels)
		return false;
	r->pixels = pixels;
	r->pixels_room = bytes;
	return true;
}

/* ---- JPEG and PNG ------------------------------------------------------------------------ */

/* A decoder that has met a damaged image is not used for others. */
static bool jpeg_decode(struct rank *r, const uint8_t *data, size_t bytes, uint64_t *pixels)
{
	int width, height, chroma, colours;
	bool good;

	if (!r->jpeg)
		r->jpeg = tjInitDecompress();
	good = r->jpeg &&
	       tjDecompressHeader3(r->jpeg, data, bytes, &width, &height, &chroma, &colours) == 0 &&
	       pixels_need(r, (uint64_t)width, (uint64_t)height);
	if (good) {
		*pixels = (uint64_t)width * (uint64_t)height;
		/* Data that ends early, or is damaged, is a warning of the library's. */
		good = tjDecompress2(r->jpeg, data, bytes, r->pixels, width, 0, height, TJPF_RGB,
				     TJFLAG_STOPONWARNING) == 0;
	}
	if (!good && r->jpeg) {
		tjDestroy(r->jpeg);
		r->jpeg = NULL;
	}
	return good;
}

static bool png_decode(struct rank *r, const void *data, size_t bytes, uint64_t *pixels)
{
	png_image png = { .version = PNG_IMAGE_VERSION };
	const png_color white = { 255, 255, 255 };
	bool good = png_image_begin_read_from_memory(&png, data, bytes) != 0;

	if (good) {
		png.format = PNG_FORMAT_RGB; /* transparent parts show white */
		*pixels = (uint64_t)png.width * png.height;
		good = pixels_need(r, png.width, png.height) &&
		       png_image_finish_read(&png, &white, r->pixels, 0, NULL) != 0;
	}
	png_image_free(&png);
	return good;
}

/* ---- the epoch --------------------------------------------------------------------------- */

static void image_use(struct rank *r, const void *data, size_t bytes)
{
	const uint8_t *head = data;
	uint64_t pixels = 0;
	bool good = false;

	if (bytes > 8 && head[0] == 0xff && head[1] == 0xd8)
		good = jpeg_decode(r, data, bytes, &pixels);
	else if (bytes > 8 && png_sig_cmp(head, 0, 8) == 0)
		good = png_decode(r, data, bytes, &pixels);
	if (!good) {
		r->others++;
		return;
	}
	/* Where a model would be trained. */
	for (uint64_t i = 0; i < pixels * 3; i++)
		r->sum[i % 3] += r->pixels[i];
	r->pixel_count += pixels;
	r->images++;
}

static int epoch_run(struct rank *r, struct weka_client *client, struct weka_dataset *dataset,
		     uint64_t number)
{
	const struct weka_epoch epoch = {
		.seed = 7, .epoch = number, .rank = r->rank, .world = r->world, .batch = BATCH
	};
	struct weka_stream *stream;
	struct weka_batch *batch;
	int err = weka_stream_open(client, dataset, &epoch, NULL, &stream), got = 0;

	if (err)
		return err;
	while (!err && (got = weka_stream_next(stream, &batch)) == 1) {
		for (uint32_t i = 0; i < batch->count && !err; i++) {
			err = batch->items[i].status;
			if (!err)
				image_use(r, batch->items[i].data, batch->items[i].got_bytes);
		}
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
		fprintf(stderr, "thread %u: %s: %s\n", r->rank, strerror(-r->err),
			weka_error(client));
	weka_dataset_close(dataset);
	weka_close(client);
	if (r->jpeg)
		tjDestroy(r->jpeg);
	free(r->pixels);
	return NULL;
}

static void ranks_print(const struct rank *ranks, uint32_t count)
{
	uint64_t images = 0, others = 0, pixels = 0, sum[3] = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		printf("thread %u: %llu images; %s\n", i, (unsigned long long)ranks[i].images,
		       ranks[i].verdict);
		images += ranks[i].images;
		others += ranks[i].others;
		pixels += ranks[i].pixel_count;
		for (uint32_t k = 0; k < 3; k++)
			sum[k] += ranks[i].sum[k];
	}
	printf("%llu images, %llu others, %llu pixels", (unsigned long long)images,
	       (unsigned long long)others, (unsigned long long)pixels);
	if (pixels > 0)
		printf(", mean colour %.1f %.1f %.1f", (double)sum[0] / (double)pixels,
		       (double)sum[1] / (double)pixels, (double)sum[2] / (double)pixels);
	printf("\n");
}

int main(int argc, char **argv)
{
	const uint32_t count = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 2;
	struct rank ranks[THREADS_MAX] = { 0 };
	int status = 0;

	if (argc < 4 || count == 0 || count > THREADS_MAX) {
		fprintf(stderr, "usage: decode ADDRESSES KEYFILE DATASET [THREADS [EPOCHS]]\n");
		return 2;
	}
	for (uint32_t i = 0; i < count; i++) {
		ranks[i] = (struct rank){ .addresses = argv[1],
					  .key_file = argv[2],
					  .dataset = argv[3],
					  .epochs = argc > 5 ? strtoull(argv[5], NULL, 10) : 1,
					  .rank = i,
					  .world = count };
		if (pthread_create(&ranks[i].thread, NULL, rank_run, &ranks[i]))
			return 1;
	}
	for (uint32_t i = 0; i < count; i++) {
		pthread_join(ranks[i].thread, NULL);
		status |= ranks[i].err != 0;
	}
	ranks_print(ranks, count);
	return status;
}
