/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The pure parts of datasets: the order of an epoch, the steps of ranks, cursors, manifests. */
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/dataset/dataset_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the order --------------------------------------------------------------------------- */

/* PROTOCOL.md 12; test/peer/epoch_order.py computes them from the text. */
Test(weka_order, the_vectors_of_the_protocol)
{
	FILE *f = fopen("test/golden/order_vectors.txt", "r");
	unsigned long long count, seed, epoch, position, sample;
	uint32_t vectors = 0;

	cr_assert_not_null(f);
	while (fscanf(f, "%llu %llu %llu %llu %llu", &count, &seed, &epoch, &position, &sample) ==
	       5) {
		cr_assert_eq(weka_order(count, seed, epoch, position), sample, "vector %u",
			     vectors);
		vectors++;
	}
	cr_assert_eq(vectors, 96);
	cr_assert(feof(f));
	fclose(f);
}

static void expect_permutation(uint64_t count, uint64_t seed, uint64_t epoch)
{
	uint8_t *seen = calloc(count, 1);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t sample = weka_order(count, seed, epoch, i);

		cr_assert_lt(sample, count);
		cr_assert_eq(seen[sample], 0, "sample %llu of %llu twice",
			     (unsigned long long)sample, (unsigned long long)count);
		seen[sample] = 1;
	}
	free(seen);
}

Test(weka_order, each_sample_stands_at_one_position)
{
	for (uint64_t count = 1; count < 300; count++)
		expect_permutation(count, count * 7, count % 5);
	expect_permutation(65536, 1, 1);
	expect_permutation(65537, 1, 1);
	expect_permutation(100000, UINT64_MAX, UINT64_MAX);
}

Test(weka_order, seeds_and_epochs_differ)
{
	uint32_t same_seed = 0, same_epoch = 0;

	for (uint64_t i = 0; i < 10000; i++) {
		same_seed += weka_order(10000, 1, 0, i) == weka_order(10000, 2, 0, i);
		same_epoch += weka_order(10000, 1, 0, i) == weka_order(10000, 1, 1, i);
	}
	/* Two random orders of any length agree at one position on average. */
	cr_assert_lt(same_seed, 10);
	cr_assert_lt(same_epoch, 10);
}

/* Over many keys each sample stands at each position equally often: chi-square, 1 % bound. */
Test(weka_order, no_sample_prefers_a_position)
{
	enum { COUNT = 11, KEYS = 110000 };
	static uint32_t at[COUNT][COUNT];
	const double expected = (double)KEYS / COUNT;
	double chi = 0;

	for (uint64_t key = 0; key < KEYS; key++)
		for (uint64_t i = 0; i < COUNT; i++)
			at[i][weka_order(COUNT, key, 3, i)]++;
	for (uint32_t i = 0; i < COUNT; i++)
		for (uint32_t k = 0; k < COUNT; k++)
			chi += (at[i][k] - expected) * (at[i][k] - expected) / expected;
	cr_assert_lt(chi, 136.0, "chi-square %f of 100 degrees of freedom", chi);
}

/* Neighbours of an order are no neighbours of the dataset more often than chance says. */
Test(weka_order, neighbours_are_far_apart)
{
	enum { COUNT = 1000003 };
	uint32_t near = 0;

	for (uint64_t i = 0; i + 1 < COUNT; i++) {
		uint64_t a = weka_order(COUNT, 42, 0, i), b = weka_order(COUNT, 42, 0, i + 1);

		near += (a > b ? a - b : b - a) <= COUNT / 2000; /* 1 in 1000 */
	}
	cr_assert(near > 800 && near < 1200, "%u", near);
}

Test(weka_order, what_cannot_be_has_no_sample)
{
	cr_assert_eq(weka_order(0, 1, 1, 0), UINT64_MAX);
	cr_assert_eq(weka_order(10, 1, 1, 10), UINT64_MAX);
	cr_assert_eq(weka_order(DATASET__SAMPLES_MAX + 1, 1, 1, 0), UINT64_MAX);
	cr_assert_lt(weka_order(DATASET__SAMPLES_MAX, 1, 1, DATASET__SAMPLES_MAX - 1),
		     DATASET__SAMPLES_MAX);
}

/* ---- steps ------------------------------------------------------------------------------- */

/* All ranks, step by step, take what follows, and nothing twice.  Returns where they stopped. */
static uint64_t expect_steps(struct dataset__plan p, uint64_t steps_max)
{
	const uint64_t steps = dataset__steps(&p);
	uint64_t at = p.from;

	for (uint64_t step = 0; step < steps && step < steps_max; step++) {
		uint32_t least = UINT32_MAX, most = 0;

		for (p.rank = 0; p.rank < p.world; p.rank++) {
			const struct dataset__piece piece = dataset__piece(&p, step);

			cr_assert_eq(piece.at, at);
			cr_assert_leq(piece.count, p.batch);
			at += piece.count;
			least = min_u32(least, piece.count);
			most = max_u32(most, piece.count);
			if (p.rank == p.world - 1)
				cr_assert_eq(piece.end, at);
		}
		cr_assert_leq(most - least, 1, "a step is divided unevenly");
	}
	return at;
}

Test(weka_order, ranks_share_every_step_and_leave_nothing_out)
{
	struct rand_state rnd;

	rand_seed(&rnd, 5);
	for (uint32_t i = 0; i < 20000; i++) {
		struct dataset__plan p = {
			.count = 1 + rand_below(&rnd, 3000),
			.world = (uint32_t)(1 + rand_below(&rnd, 17)),
			.batch = (uint32_t)(1 + rand_below(&rnd, 70)),
		};
		uint64_t each, end;

		/* Some steps, then on with another world and batch, as after a restart. */
		p.from = expect_steps(p, rand_below(&rnd, 5));
		p.world = (uint32_t)(1 + rand_below(&rnd, 17));
		p.batch = (uint32_t)(1 + rand_below(&rnd, 70));
		p.drop_last = rand_below(&rnd, 2);
		each = (uint64_t)p.world * p.batch;
		end = expect_steps(p, UINT64_MAX);
		if (p.drop_last)
			cr_assert_eq(end, p.from + (p.count - p.from) / each * each);
		else
			cr_assert_eq(end, p.count);
	}
}

/* ---- cursors ----------------------------------------------------------------------------- */

static const struct dataset__place place = {
	.count = 1000,
	.seed = UINT64_C(0x1122334455667788),
	.epoch = 9,
	.position = 640,
	.in_order = true,
	.content = "twenty bytes of it.",
};

Test(weka_order, a_cursor_comes_back_as_it_went)
{
	struct dataset__place back;
	struct weka_cursor cursor;

	dataset__cursor_build(&cursor, &place);
	cr_assert_null(dataset__cursor_parse(&back, &cursor));
	cr_assert_eq(back.count, place.count);
	cr_assert_eq(back.seed, place.seed);
	cr_assert_eq(back.epoch, place.epoch);
	cr_assert_eq(back.position, place.position);
	cr_assert(back.in_order);
	cr_assert_eq(memcmp(back.content, place.content, sizeof(back.content)), 0);
}

Test(weka_order, every_flipped_bit_of_a_cursor_is_seen)
{
	struct dataset__place back;
	struct weka_cursor cursor;

	dataset__cursor_build(&cursor, &place);
	for (uint32_t bit = 0; bit < 8 * sizeof(cursor); bit++) {
		cursor.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_not_null(dataset__cursor_parse(&back, &cursor), "bit %u", bit);
		cursor.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* ---- manifests --------------------------------------------------------------------------- */

static struct dataset__header header_good(void)
{
	return (struct dataset__header){
		.samples = 3,
		.total_bytes = 30,
		.largest_bytes = 20,
		.created_ns = 5,
		.names_at = 4096 + 3 * 64,
		.names_bytes = 12,
		.classes_at = 4096 + 3 * 64 + 12,
		.classes_bytes = 4,
		.file_bytes = 4096 + 3 * 64 + 16,
		.classes = 2,
		.version = 7,
		.root_bytes = 3,
	};
}

static const char *header_try(const struct dataset__header *h, struct dataset__header *back)
{
	uint8_t bytes[DATASET__HEADER_BYTES];

	dataset__header_build(bytes, h);
	return dataset__header_parse(back, bytes, header_good().file_bytes);
}

Test(weka_order, a_header_of_a_manifest_comes_back)
{
	struct dataset__header h = header_good(), back;

	cr_assert_null(header_try(&h, &back));
	cr_assert_eq(back.samples, 3);
	cr_assert_eq(back.names_at, h.names_at);
	cr_assert_eq(back.version, 7);
	cr_assert_eq(back.root_bytes, 3);
	cr_assert_not(back.is_quick);
}

/* One field of a good header is another: that alone makes it a lie. */
#define EXPECT_REFUSED(field, value)                                                               \
	do {                                                                                       \
		struct dataset__header h_ = header_good(), back_;                                  \
                                                                                                   \
		h_.field = (value);                                                                \
		cr_assert_not_null(header_try(&h_, &back_), #field);                               \
	} while (0)

Test(weka_order, a_header_that_lies_is_refused)
{
	struct dataset__header h = header_good(), back;

	cr_assert_null(header_try(&h, &back));
	EXPECT_REFUSED(samples, 0);
	EXPECT_REFUSED(samples, UINT64_MAX);
	EXPECT_REFUSED(samples, UINT64_C(1) << 58); /* times 64 is 0 */
	EXPECT_REFUSED(samples, 4);                 /* the names begin too early */
	EXPECT_REFUSED(names_at, UINT64_MAX);
	EXPECT_REFUSED(names_bytes, 17);
	EXPECT_REFUSED(classes_at, 4096 + 3 * 64 + 13);
	EXPECT_REFUSED(classes_bytes, UINT64_MAX);
	EXPECT_REFUSED(classes, UINT32_MAX);
	EXPECT_REFUSED(largest_bytes, 31);
	EXPECT_REFUSED(version, 0);
	EXPECT_REFUSED(file_bytes, 4096);
}

Test(weka_order, every_flipped_bit_of_a_header_is_seen)
{
	struct dataset__header h = header_good(), back;
	uint8_t bytes[DATASET__HEADER_BYTES];

	dataset__header_build(bytes, &h);
	for (uint32_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_not_null(dataset__header_parse(&back, bytes, h.file_bytes));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static const char *record_try(struct dataset__record r)
{
	const struct dataset__header h = header_good();
	uint8_t bytes[DATASET__RECORD_BYTES];
	struct dataset__record back;

	dataset__record_build(bytes, &r);
	return dataset__record_parse(&back, bytes, &h);
}

Test(weka_order, a_record_that_lies_is_refused)
{
	const struct dataset__record good = {
		.ctime_ns = 1, .length_bytes = 20, .name_at = 8, .name_bytes = 4, .label = 1
	};
	struct dataset__record r = good;

	cr_assert_null(record_try(good));
	r.label = 2;
	cr_assert_not_null(record_try(r));
	r.label = WEKA_NO_LABEL;
	cr_assert_null(record_try(r));
	r.length_bytes = 21;
	cr_assert_not_null(record_try(r));
	r = good;
	r.offset_bytes = UINT64_MAX;
	cr_assert_not_null(record_try(r));
	r = good;
	r.name_at = 9;
	cr_assert_not_null(record_try(r));
	r.name_at = UINT64_MAX;
	cr_assert_not_null(record_try(r));
	r = good;
	r.name_bytes = 3; /* no more than the directory */
	cr_assert_not_null(record_try(r));
	r = good;
	r.ctime_ns = 0;
	cr_assert_not_null(record_try(r));
}

/* Its length as a signed number is negative: nothing may be computed with it. */
Test(weka_order, a_record_longer_than_any_file_is_refused)
{
	struct dataset__header h = header_good();
	const struct dataset__record r = { .ctime_ns = 1,
					   .offset_bytes = 1,
					   .length_bytes = UINT64_MAX,
					   .name_at = 8,
					   .name_bytes = 4,
					   .label = 1 };
	uint8_t bytes[DATASET__RECORD_BYTES];
	struct dataset__record back;

	h.largest_bytes = h.total_bytes = UINT64_MAX;
	dataset__record_build(bytes, &r);
	cr_assert_not_null(dataset__record_parse(&back, bytes, &h));
}

Test(weka_order, the_names_of_classes_are_counted)
{
	cr_assert_eq(dataset__classes_count("", 0), 0);
	cr_assert_eq(dataset__classes_count("a\0bc\0", 5), 2);
	cr_assert_eq(dataset__classes_count("a\0bc", 4), UINT32_MAX); /* no NUL */
	cr_assert_eq(dataset__classes_count("a\0\0b\0", 5), UINT32_MAX);
}

/* ---- records ----------------------------------------------------------------------------- */

static uint8_t image[2048];

static int image_read(void *arg, uint64_t at, uint32_t bytes, void *to)
{
	(void)arg;
	cr_assert_leq(at + bytes, sizeof(image));
	memcpy(to, image + at, bytes);
	return 0;
}

static int image_found(void *arg, uint64_t offset_bytes, uint64_t length_bytes, const char *member,
		       size_t member_bytes)
{
	(void)offset_bytes;
	(void)length_bytes;
	(void)member;
	(void)member_bytes;
	++*(uint64_t *)arg;
	return 0;
}

static struct dataset__source image_source(uint64_t file_bytes, uint64_t *count)
{
	*count = 0;
	return (struct dataset__source){ .read = image_read,
					 .file_bytes = file_bytes,
					 .found = image_found,
					 .found_arg = count };
}

/* A file of 100 bytes must not become a list that no memory holds. */
Test(weka_order, rows_without_bytes_are_no_samples)
{
	static const char header[] = "{'descr': '<f4', 'fortran_order': False, "
				     "'shape': (300000, 0), }";
	struct dataset__source source;
	uint64_t count;

	memcpy(image, "\x93NUMPY\x01\0", 8);
	image[8] = sizeof(header) - 1;
	memcpy(image + 10, header, sizeof(header) - 1);
	source = image_source(10 + sizeof(header) - 1, &count);
	cr_assert_eq(dataset__npy(&source), -EPROTO);
	cr_assert_eq(count, 0);
}

/* Writes a header of a tar at `at`. */
static void tar_header(uint32_t at, const char *name, char type, uint32_t size)
{
	char *h = (char *)image + at;
	uint32_t sum = 0;

	memset(h, 0, 512);
	snprintf(h, 100, "%s", name);
	snprintf(h + 124, 12, "%011o", size);
	h[156] = type;
	memset(h + 148, ' ', 8);
	for (uint32_t i = 0; i < 512; i++)
		sum += (uint8_t)h[i];
	snprintf(h + 148, 8, "%06o", sum);
}

/* The header's own size must not be taken for one that could not be read. */
Test(weka_order, a_size_that_no_number_holds_is_refused)
{
	static const char *const lines[] = { "29 size=99999999999999999999\n", "11 size=-1\n",
					     "11 size=5x\n", "9 size= \n" };
	uint64_t count;

	for (uint32_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct dataset__source source = image_source(2048, &count);

		memset(image, 0, sizeof(image));
		tar_header(0, "pax", 'x', (uint32_t)strlen(lines[i]));
		memcpy(image + 512, lines[i], strlen(lines[i]));
		tar_header(1024, "001.txt", '0', 5);
		cr_assert_eq(dataset__tar(&source), -EPROTO, "%s", lines[i]);
		cr_assert_eq(count, 0);
	}
	memcpy(image + 512, "9 size=5\n", 9);
	tar_header(0, "pax", 'x', 9);

	struct dataset__source source = image_source(2048, &count);

	cr_assert_eq(dataset__tar(&source), 0, "%s", source.why);
	cr_assert_eq(count, 1);
}
