/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Samples drawn by weight: which sample is at a position, without state.  PROTOCOL.md 12.
 *
 *    position --> round, place in it --permuted--> group --> its next sample --permuted--> sample
 *
 *    a round     | g0 g0 g0 | g1 | g2 g2 | ...    group c has weight[c] places of the wheel
 *                begin[0]   begin[1] ...
 *
 * A group is a class or a single sample.  In each round of the wheel a group comes as often as its
 * weight says, so weights are kept exactly, not on average; and each sample of a group comes once
 * before any of its group comes twice.
 *
 * The samples of a class lie one after the other in a manifest, because they have the beginning of
 * their path in common and samples are sorted by path.  So their places are found by bisection, in
 * a few reads for each class, and each sample that is drawn proves the place right by its label.
 *
 * Invariants:
 *  (1) begin[] rises from 0 to begin[groups], the places of the wheel, which is at least 1.
 */
#include "client-lib/dataset/dataset_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dataset__weights_free(struct dataset__weights *w)
{
	if (!w)
		return;
	free(w->begin);
	free(w->first);
	free(w);
}

/* ---- the order --------------------------------------------------------------------------- */

/* Returns the group that has a place of the wheel. */
static uint64_t group_at(const struct dataset__weights *w, uint64_t place)
{
	uint64_t low = 0, high = w->groups;

	ASSERT(place < w->begin[w->groups]); /* (1) */
	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;

		if (w->begin[middle] <= place)
			low = middle;
		else
			high = middle;
	}
	/* Groups of weight 0 begin where the next one does: the last of them has the place. */
	ASSERT(w->begin[low] <= place && place < w->begin[low + 1]);
	return low;
}

/* Returns which of `count` samples of a group comes as its draw number `draw`. */
static uint64_t member_at(const struct dataset__weights *w, uint64_t group, uint64_t count,
			  uint64_t draw)
{
	struct dataset__order order;

	ASSERT(count > 0);
	if (count == 1)
		return 0;
	dataset__order_of(&order, count,
			  dataset__key(dataset__key(w->key + 2, group), draw / count));
	return dataset__order_at(&order, draw % count);
}

uint64_t dataset__weights_at(struct dataset__weights *w, uint64_t position, uint32_t *label)
{
	const uint64_t wheel = w->begin[w->groups], round = position / wheel;
	uint64_t place, group, draw;

	ASSERT(position < w->length);
	if (w->round != round)
		dataset__order_of(&w->order, wheel, dataset__key(w->key + 1, round));
	w->round = round;
	place = dataset__order_at(&w->order, position % wheel);
	group = group_at(w, place);
	draw = round * (w->begin[group + 1] - w->begin[group]) + place - w->begin[group];
	*label = w->first ? (uint32_t)group : WEKA_NO_LABEL;
	return w->first ? w->first[group] + member_at(w, group, w->count[group], draw) : group;
}

/* ---- classes in a manifest --------------------------------------------------------------- */

static _Thread_local const char *const *sort_names; /* qsort() has no argument for it */

/* The order of paths below directories with these names: "a-b/" comes before "a/". */
static int by_directory(const void *a, const void *b)
{
	const unsigned char *left = (const void *)sort_names[*(const uint32_t *)a];
	const unsigned char *right = (const void *)sort_names[*(const uint32_t *)b];

	while (*left && *left == *right) {
		left++;
		right++;
	}
	return (*left ? *left : '/') - (*right ? *right : '/');
}

/* Finds the first sample from `from` on whose class comes after the one at `rank`. */
static int class_end(struct weka_dataset *d, const uint32_t *rank_of, uint32_t rank, uint64_t from,
		     uint64_t *end)
{
	uint64_t low = from, high = d->header.samples;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		struct dataset__record r;
		int err = dataset__record(d, middle, &r);

		if (err)
			return err;
		ASSERT(r.label == WEKA_NO_LABEL || r.label < d->header.classes);
		if (r.label != WEKA_NO_LABEL && rank_of[r.label] <= rank)
			low = middle + 1;
		else
			high = middle;
	}
	*end = low;
	return 0;
}

/* Fills first[] and count[].  labels, rank_of: memory for as many numbers as there are classes. */
static int classes_find(struct dataset__weights *w, struct weka_dataset *d, uint32_t *labels,
			uint32_t *rank_of)
{
	uint64_t at = 0, end;

	ASSERT(w->groups == d->header.classes);
	for (uint32_t i = 0; i < w->groups; i++)
		labels[i] = i;
	sort_names = d->labels;
	qsort(labels, w->groups, sizeof(*labels), by_directory);
	for (uint32_t i = 0; i < w->groups; i++)
		rank_of[labels[i]] = i;
	for (uint32_t i = 0; i < w->groups; i++, at = end) {
		int err = class_end(d, rank_of, i, at, &end);

		if (err)
			return err;
		if (end == at)
			return dataset__fail(d, -EPROTO, "a class has no sample where it must be");
		w->first[labels[i]] = at;
		w->count[labels[i]] = end - at;
	}
	return at == d->header.samples ? 0 : dataset__fail(d, -EPROTO, "a sample has no class");
}

/* ---- making ------------------------------------------------------------------------------ */

static const char *weights_wrong(const struct weka_weights *from, const struct weka_dataset *d)
{
	const uint64_t groups = from->by == WEKA_BY_CLASS ? d->header.classes : d->header.samples;

	if (from->by != WEKA_BY_CLASS && from->by != WEKA_BY_SAMPLE)
		return "weights are by class or by sample";
	if (from->reserved0 || from->reserved[0] || from->reserved[1])
		return "a reserved field of the weights is not 0";
	if (groups == 0)
		return "weights by class need a dataset that has classes";
	if (from->weight && from->count != groups)
		return "there must be a weight for each class, or sample, of the dataset";
	if (from->length > DATASET__SAMPLES_MAX)
		return "an epoch has at most 2^48 positions";
	return NULL;
}

/* The wheel, and the number that tells these weights from others. */
static int wheel_make(struct dataset__weights *w, const struct weka_weights *from)
{
	uint64_t places = 0;

	for (uint64_t i = 0; i < w->groups; i++) {
		w->begin[i] = places;
		places += from->weight ? from->weight[i] : 1;
		if (places > DATASET__SAMPLES_MAX)
			return -E2BIG;
	}
	w->begin[w->groups] = places;
	w->mark = dataset__key(w->length, from->by);
	for (uint64_t i = 0; i < w->groups; i++)
		w->mark = dataset__key(w->mark, w->begin[i + 1] - w->begin[i]);
	return places ? 0 : -EINVAL;
}

static int arrays_make(struct dataset__weights *w, bool by_class)
{
	w->begin = calloc(w->groups + 1, sizeof(*w->begin));
	if (by_class)
		w->first = calloc(w->groups, 2 * sizeof(*w->first));
	if (by_class && w->first)
		w->count = w->first + w->groups;
	return w->begin && (!by_class || w->first) ? 0 : -ENOMEM;
}

static int weights_fill(struct dataset__weights *w, struct weka_dataset *d,
			const struct weka_weights *from)
{
	uint32_t *numbers = calloc(max_u32(d->header.classes, 1), 2 * sizeof(*numbers));
	int err = numbers ? arrays_make(w, from->by == WEKA_BY_CLASS) : -ENOMEM;

	if (err)
		(void)dataset__fail(d, err, "no memory for weights");
	if (!err && w->first)
		err = classes_find(w, d, numbers, numbers + d->header.classes);
	free(numbers);
	if (err)
		return err;
	err = wheel_make(w, from);
	if (err)
		return dataset__fail(d, err,
				     err == -E2BIG ? "the sum of the weights is over 2^48"
						   : "all weights are 0");
	ASSERT(w->begin[0] == 0 && w->begin[w->groups] > 0); /* (1) */
	return 0;
}

int dataset__weights_make(struct dataset__weights **out, struct weka_dataset *d,
			  const struct weka_weights *from, uint64_t seed, uint64_t epoch)
{
	const char *wrong = weights_wrong(from, d);
	struct dataset__weights *w;
	int err;

	if (wrong)
		return dataset__fail(d, -EINVAL, wrong);
	w = calloc(1, sizeof(*w));
	if (!w)
		return dataset__fail(d, -ENOMEM, "no memory for weights");
	w->groups = from->by == WEKA_BY_CLASS ? d->header.classes : d->header.samples;
	w->length = from->length ? from->length : d->header.samples;
	w->key = dataset__epoch_key(seed, epoch);
	w->round = UINT64_MAX;
	err = weights_fill(w, d, from);
	if (err)
		dataset__weights_free(w);
	else
		*out = w;
	return err;
}
