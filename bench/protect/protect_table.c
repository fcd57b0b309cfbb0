/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The table of weka-bench protect: a row for each figure, a column for each scheme.
 *
 *                                            none        mirror           4+2
 *   Written for a byte of a file
 *   turns of 4 KiB, later, times          2.03 (2)      4.06 (4)    6.57 (6.5)
 *
 * A cell has the measured value, and in brackets that of arithmetic.
 * A row is printed as soon as it is complete.  With --json each of its figures is a line.
 */
#include "bench/protect/protect_table.h"

#include <stdio.h>
#include <string.h>

#define NAME_WIDTH 48
#define CELL_WIDTH 14

const char *protect_size(char out[PROTECT_SIZE], uint64_t bytes)
{
	if (bytes % (1u << 30) == 0)
		snprintf(out, PROTECT_SIZE, "%llu GiB", (unsigned long long)bytes >> 30);
	else if (bytes % (1u << 20) == 0)
		snprintf(out, PROTECT_SIZE, "%llu MiB", (unsigned long long)bytes >> 20);
	else
		snprintf(out, PROTECT_SIZE, "%llu KiB", (unsigned long long)bytes >> 10);
	return out;
}

static const char *place(const struct protect_conf *c)
{
	if (c->dir)
		return c->dir;
	return c->files ? "files in memory" : "memory";
}

void protect_table_head(struct protect_table *t)
{
	const struct protect_conf *c = t->conf;
	struct figure_head head;
	char drive[PROTECT_SIZE], file[PROTECT_SIZE];

	figure_head_now(&head);
	figure_head_print(&head, c->json, stdout);
	if (c->json)
		return;
	printf("# %u drives of %s for each scheme, a file of %s, %u runs of %g s in turn; in "
	       "brackets what arithmetic says\n",
	       c->drives, protect_size(drive, c->drive_bytes), protect_size(file, c->file_bytes),
	       c->runs, c->seconds);
	printf("%-*s", NAME_WIDTH, "");
	for (uint32_t i = 0; i < c->schemes; i++)
		printf("%*s", CELL_WIDTH, c->scheme[i].name);
	printf("\n");
	fflush(stdout);
}

void protect_row_begin(const struct protect_table *t, struct protect_row *row, const char *group,
		       const char *name, const char *unit)
{
	ASSERT(t->conf->schemes <= PROTECT_SCHEMES_MAX);
	memset(row, 0, sizeof(*row));
	for (uint32_t i = 0; i < t->conf->schemes; i++) {
		struct figure *f = &row->figure[i];

		f->cpu_server = -1;
		f->less = strcmp(unit, "times") == 0 || strcmp(unit, "ms") == 0;
		snprintf(f->group, sizeof(f->group), "%s", group);
		snprintf(f->name, sizeof(f->name), "%s", name);
		snprintf(f->target, sizeof(f->target), "%s", t->conf->scheme[i].name);
		snprintf(f->unit, sizeof(f->unit), "%s", unit);
		snprintf(f->promise, sizeof(f->promise), "durable: each change; %u drives, %s",
			 t->conf->drives, place(t->conf));
		snprintf(f->command, sizeof(f->command), "%s", t->command);
	}
}

void protect_row_add(struct protect_row *row, uint32_t scheme, double value, double ideal)
{
	struct figure *f = &row->figure[scheme];

	ASSERT(scheme < PROTECT_SCHEMES_MAX && f->count < FIGURE_RUNS_MAX);
	f->value[f->count++] = value;
	f->ideal = ideal;
}

void protect_row_times(struct protect_row *row, uint32_t scheme, const struct stat_hist *hist)
{
	struct figure *f = &row->figure[scheme];

	ASSERT(scheme < PROTECT_SCHEMES_MAX);
	if (stat_hist_count(hist) == 0)
		return;
	f->p50_ms = (double)stat_hist_percentile(hist, 50) / 1e6;
	f->p99_ms = (double)stat_hist_percentile(hist, 99) / 1e6;
}

static void print_cell(const char *text)
{
	printf("%*s", CELL_WIDTH, text);
}

static void print_values(const struct protect_conf *c, const struct protect_row *row)
{
	for (uint32_t i = 0; i < c->schemes; i++) {
		const struct figure *f = &row->figure[i];
		char value[16], text[40];

		if (f->count == 0)
			snprintf(text, sizeof(text), "-");
		else if (f->ideal > 0)
			snprintf(text, sizeof(text), "%s (%.3g)",
				 bench_human(value, figure_median(f)), f->ideal);
		else
			snprintf(text, sizeof(text), "%s", bench_human(value, figure_median(f)));
		print_cell(text);
	}
	printf("\n");
}

static void print_p99(const struct protect_conf *c, const struct protect_row *row)
{
	printf("%-*s", NAME_WIDTH, "  of which 99 % took at most, ms");
	for (uint32_t i = 0; i < c->schemes; i++) {
		char text[24] = "-";

		if (row->figure[i].p99_ms > 0)
			snprintf(text, sizeof(text), "%.3g", row->figure[i].p99_ms);
		print_cell(text);
	}
	printf("\n");
}

void protect_row_show(struct protect_table *t, const struct protect_row *row)
{
	const struct figure *first = &row->figure[0];
	bool any = false, timed = false;
	char name[96];

	for (uint32_t i = 0; i < t->conf->schemes; i++) {
		const struct figure *f = &row->figure[i];

		any |= f->count > 0;
		timed |= f->p99_ms > 0;
		if (f->count > 0 && t->conf->json)
			figure_print(f, true, stdout);
	}
	if (!any || t->conf->json)
		return;
	if (strcmp(t->group, first->group) != 0)
		printf("\n%s\n", first->group);
	snprintf(t->group, sizeof(t->group), "%s", first->group);
	snprintf(name, sizeof(name), "%s, %s", first->name, first->unit);
	printf("%-*s", NAME_WIDTH, name);
	print_values(t->conf, row);
	if (timed)
		print_p99(t->conf, row);
	fflush(stdout);
}
