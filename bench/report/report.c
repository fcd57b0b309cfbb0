/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Reads figures, and says which differ. */
#include "bench/report/report.h"
#include "bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add(struct report *r, const struct figure *f)
{
	struct figure *more = realloc(r->figure, (r->count + 1) * sizeof(*more));

	if (!more)
		return bench_fail("out of memory");
	r->figure = more;
	more[r->count++] = *f;
	return 0;
}

int report_read(struct report *r, const char *path)
{
	struct figure *one = calloc(1, sizeof(*one));
	struct figure_head head;
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	int err = 0;

	*r = (struct report){ .path = path };
	memset(&head, 0, sizeof(head));
	if (!f || !one) {
		free(one);
		return bench_fail("%s: %s", path, strerror(errno));
	}
	while (!err && getline(&line, &size, f) > 0) {
		int kind = figure_parse(line, &head, one);

		if (kind == 1 &&
		    !r->head.machine[0]) /* the first: later ones are of the same run */
			r->head = head;
		if (kind == 2)
			err = add(r, one);
	}
	free(line);
	free(one);
	fclose(f);
	if (!err && r->count == 0)
		err = bench_fail("%s has no figures: it is the output of --json", path);
	return err;
}

void report_free(struct report *r)
{
	free(r->figure);
	r->figure = NULL;
	r->count = 0;
}

bool report_same_row(const struct figure *a, const struct figure *b)
{
	return strcmp(a->group, b->group) == 0 && strcmp(a->name, b->name) == 0;
}

const struct figure *report_find(const struct report *r, const struct figure *like)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (report_same_row(&r->figure[i], like) &&
		    strcmp(r->figure[i].target, like->target) == 0)
			return &r->figure[i];
	return NULL;
}

enum report_change report_change(const struct figure *before, const struct figure *after)
{
	bool above = figure_least(after) > figure_most(before);
	bool below = figure_most(after) < figure_least(before);

	if (!above && !below)
		return REPORT_WITHIN;
	return above == before->less ? REPORT_WORSE : REPORT_BETTER;
}

/* All of a group before the next group, all of a row before the next row. */
uint32_t *report_order(const struct report *r)
{
	uint32_t *order = calloc(r->count, sizeof(*order)), n = 0;
	bool *taken = calloc(r->count, sizeof(*taken));

	for (uint32_t g = 0; order && taken && g < r->count; g++)
		for (uint32_t row = g; row < r->count; row++)
			for (uint32_t i = row; i < r->count; i++) {
				if (taken[i] ||
				    strcmp(r->figure[i].group, r->figure[g].group) != 0 ||
				    !report_same_row(&r->figure[i], &r->figure[row]))
					continue;
				taken[i] = true;
				order[n++] = i;
			}
	free(taken);
	return order;
}

/* ---- as text --------------------------------------------------------------------------------- */

void report_text(const struct report *r, FILE *to)
{
	uint32_t *order = report_order(r);
	const struct figure *last = NULL;

	figure_head_print(&r->head, false, to);
	for (uint32_t i = 0; order && i < r->count; i++) {
		const struct figure *f = &r->figure[order[i]];

		if (!last || strcmp(last->group, f->group) != 0)
			fprintf(to, "\n%s\n", f->group);
		figure_print(f, false, to);
		last = f;
	}
	free(order);
}

static const char *words(const struct figure *before, const struct figure *after)
{
	switch (report_change(before, after)) {
	case REPORT_BETTER:
		return "better";
	case REPORT_WORSE:
		return "WORSE";
	case REPORT_WITHIN:
		break;
	}
	return "";
}

uint32_t report_compare(const struct report *a, const struct report *b, FILE *to)
{
	char before[16], after[16];
	uint32_t outside = 0;

	fprintf(to, "A  ");
	figure_head_print(&a->head, false, to);
	fprintf(to, "B  ");
	figure_head_print(&b->head, false, to);
	fprintf(to, "%-38s %-22s %10s %10s %-10s %6s\n", "figure", "target", "A", "B", "unit",
		"B / A");
	for (uint32_t i = 0; i < a->count; i++) {
		const struct figure *f = &a->figure[i], *g = report_find(b, f);

		if (!g)
			continue;
		outside += report_change(f, g) != REPORT_WITHIN;
		fprintf(to, "%-38s %-22s %10s %10s %-10s %6.2f  %s\n", f->name, f->target,
			bench_human(before, figure_median(f)), bench_human(after, figure_median(g)),
			f->unit, figure_median(g) / figure_median(f), words(f, g));
	}
	fprintf(to, "%u figures are outside of the spread of their runs\n", outside);
	return outside;
}
