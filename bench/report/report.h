/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Figures that were read from a file, and the forms in which they are shown. */
#ifndef BENCH_REPORT_REPORT_H
#define BENCH_REPORT_REPORT_H

#include "bench/report/figure.h"

struct report {
	const char *path;
	struct figure_head head;
	struct figure *figure;
	uint32_t count;
};

/* 1 after a line on stderr.  report_free() also after that. */
must_check int report_read(struct report *r, const char *path);
void report_free(struct report *r);
/* Returns the same figure of the same target, or NULL if the report lacks it. */
const struct figure *report_find(const struct report *r, const struct figure *like);

enum report_change { REPORT_WITHIN, REPORT_BETTER, REPORT_WORSE };

/* Outside of the spread: no run of one lies among the runs of the other. */
enum report_change report_change(const struct figure *before, const struct figure *after);

/* Indices of figures in the order of a table: by group, then by name, as they first came. */
uint32_t *report_order(const struct report *r);
/* Do figures i and j belong to the same row of the table? */
bool report_same_row(const struct figure *a, const struct figure *b);

void report_text(const struct report *r, FILE *to);
/* Returns how many figures are outside of the spread. */
uint32_t report_compare(const struct report *a, const struct report *b, FILE *to);
/* One file: no other is needed to show it. */
void report_html(const struct report *r, FILE *to);
/* A picture of the rows whose group or name holds one of these texts; none given: of all.  Returns
 * how many rows it shows: with none, nothing is written. */
uint32_t report_svg(const struct report *r, const char *const *only, uint32_t only_count, FILE *to);

/* For the page and the picture: text of a markup; the value of a row's longest bar; whether a
 * bar is the appliance's. */
void report_escaped(const char *s, FILE *to);
double report_widest(const struct report *r, const struct figure *row);
bool report_is_own(const struct figure *f);

#endif
