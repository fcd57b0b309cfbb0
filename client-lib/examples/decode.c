/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A loader that decodes: threads read an epoch of a dataset of JPEG and PNG files, and make pixels
 * of them, straight from the memory into which the appliance has written.
 *
 *	decode ADDRESSES KEYFILE DATASET [THREADS [EPOCHS]]
 *
 * Each thread is a rank, with a client and a stream of its own (ranks.h): while it decodes a batch,
 * the next ones are read.  Files that are no images, or damaged, are counted.
 */
#include "ranks.h"

#include <png.h>
#include <stdbool.h>
#include <stdlib.h>
#include <turbojpeg.h>

#define THREADS_MAX 64u
#define BATCH       32u
#define PIXELS_MAX  (64u << 20) /* of one image: a small file may claim to be a large image */

struct decoder {
	struct rank rank; /* first: rank->use gets a pointer to it */
	tjhandle jpeg;    /* NULL: none yet */
	uint8_t *pixels;  /* of one image, 3 bytes each */
	size_t pixels_room;
	uint64_t images;
	uint64_t others; /* no images */
	uint64_t pixel_count;
	uint64_t sum[3]; /* of red, green and blue */
};

/* Returns false if the image is too large. */
static bool pixels_need(struct decoder *d, uint64_t width, uint64_t height)
{
	const uint64_t bytes = width * height * 3;
	uint8_t *pixels;

	if (width == 0 || height == 0 || width > PIXELS_MAX || height > PIXELS_MAX / width)
		return false;
	if (bytes <= d->pixels_room)
		return true;
	pixels = realloc(d->pixels, bytes);
	if (!pixels)
		return false;
	d->pixels = pixels;
	d->pixels_room = bytes;
	return true;
}

/* ---- JPEG and PNG ------------------------------------------------------------------------ */

/* A decoder that has met a damaged image is not used for others. */
static bool jpeg_decode(struct decoder *d, const uint8_t *data, size_t bytes, uint64_t *pixels)
{
	int width, height, chroma, colours;
	bool good;

	if (!d->jpeg)
		d->jpeg = tjInitDecompress();
	good = d->jpeg &&
	       tjDecompressHeader3(d->jpeg, data, bytes, &width, &height, &chroma, &colours) == 0 &&
	       pixels_need(d, (uint64_t)width, (uint64_t)height);
	if (good) {
		*pixels = (uint64_t)width * (uint64_t)height;
		/* Data that ends early, or is damaged, is a warning of the library's. */
		good = tjDecompress2(d->jpeg, data, bytes, d->pixels, width, 0, height, TJPF_RGB,
				     TJFLAG_STOPONWARNING) == 0;
	}
	if (!good && d->jpeg) {
		tjDestroy(d->jpeg);
		d->jpeg = NULL;
	}
	return good;
}

static bool png_decode(struct decoder *d, const void *data, size_t bytes, uint64_t *pixels)
{
	png_image png = { .version = PNG_IMAGE_VERSION };
	const png_color white = { 255, 255, 255 };
	bool good = png_image_begin_read_from_memory(&png, data, bytes) != 0;

	if (good) {
		png.format = PNG_FORMAT_RGB; /* transparent parts show white */
		*pixels = (uint64_t)png.width * png.height;
		good = pixels_need(d, png.width, png.height) &&
		       png_image_finish_read(&png, &white, d->pixels, 0, NULL) != 0;
	}
	png_image_free(&png);
	return good;
}

/* ---- the epoch --------------------------------------------------------------------------- */

static void image_use(struct decoder *d, const void *data, size_t bytes)
{
	const uint8_t *head = data;
	uint64_t pixels = 0;
	bool good = false;

	if (bytes > 8 && head[0] == 0xff && head[1] == 0xd8)
		good = jpeg_decode(d, data, bytes, &pixels);
	else if (bytes > 8 && png_sig_cmp(head, 0, 8) == 0)
		good = png_decode(d, data, bytes, &pixels);
	if (!good) {
		d->others++;
		return;
	}
	/* Where a model would be trained. */
	for (uint64_t i = 0; i < pixels * 3; i++)
		d->sum[i % 3] += d->pixels[i];
	d->pixel_count += pixels;
	d->images++;
}

static int use(struct rank *r, const struct weka_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		if (batch->items[i].status)
			return batch->items[i].status;
		image_use((struct decoder *)r, batch->items[i].data, batch->items[i].got_bytes);
	}
	return 0;
}

static int decoder_end(struct decoder *d)
{
	int err = rank_end(&d->rank);

	if (d->jpeg)
		tjDestroy(d->jpeg);
	free(d->pixels);
	return err;
}

static void decoders_print(const struct decoder *decoders, uint32_t count)
{
	uint64_t images = 0, others = 0, pixels = 0, sum[3] = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		printf("thread %u: %llu images; %s\n", i, (unsigned long long)decoders[i].images,
		       decoders[i].rank.verdict);
		images += decoders[i].images;
		others += decoders[i].others;
		pixels += decoders[i].pixel_count;
		for (uint32_t k = 0; k < 3; k++)
			sum[k] += decoders[i].sum[k];
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
	struct decoder decoders[THREADS_MAX] = { 0 };
	int status = 0;

	if (argc < 4 || count == 0 || count > THREADS_MAX) {
		fprintf(stderr, "usage: decode ADDRESSES KEYFILE DATASET [THREADS [EPOCHS]]\n");
		return 2;
	}
	for (uint32_t i = 0; i < count; i++) {
		decoders[i].rank =
			(struct rank){ .epochs = argc > 5 ? strtoull(argv[5], NULL, 10) : 1,
				       .rank = i,
				       .world = count,
				       .batch = BATCH,
				       .use = use };
		if (rank_start(&decoders[i].rank, argv))
			return 1;
	}
	for (uint32_t i = 0; i < count; i++)
		status |= decoder_end(&decoders[i]) != 0;
	decoders_print(decoders, count);
	return status;
}
