/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Figures as one picture, for a README: a panel a row of the table, in two columns.
 *
 *    +--- title ----------------------+
 *    |     label |======bar====|- value   the bar to the median, a line from the least to the most
 *    |     label |==|- value              colours of the reader's theme, light or dark
 *    +--------------------------------+
 */
#include "bench/bench.h"
#include "bench/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	WIDTH = 920,
	PANEL = WIDTH / 2,
	LABEL = 174, /* where bars begin, from the panel's left */
	BAR = 180,   /* the longest bar */
	LINE = 19,
	TITLE = 44, /* above the first bar */
	FOOT = 56,
};

static const char style[] =
	"text{font:13px system-ui,sans-serif;fill:#1b1f24}.t{font-weight:600;font-size:14px}"
	".d{fill:#57606a;font-size:11.5px}rect{fill:#4c8dd6}.own{fill:#2f9e62}"
	"line{stroke:#1b1f24;stroke-width:1.5}"
	"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.d{fill:#9198a1}rect{fill:#3b6fb0}"
	".own{fill:#2b8556}line{stroke:#e6edf3}}";

/* Is the row asked for? */
static bool is_wanted(const struct figure *f, const char *const *only, uint32_t only_count)
{
	for (uint32_t i = 0; i < only_count; i++)
		if (strstr(f->group, only[i]) || strstr(f->name, only[i]))
			return true;
	return only_count == 0;
}

/* The first figure of a row of the table, which stands for it. */
static bool is_first(const struct report *r, uint32_t figure)
{
	for (uint32_t i = 0; i < figure; i++)
		if (report_same_row(&r->figure[i], &r->figure[figure]))
			return false;
	return true;
}

static uint32_t bars_of(const struct report *r, const struct figure *row)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->count; i++)
		n += report_same_row(&r->figure[i], row);
	return n;
}

static void bar(FILE *to, const struct figure *f, double x, double y, double scale)
{
	const double median = figure_median(f) * scale, most = figure_most(f) * scale;
	char amount[48];

	fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", x - 8, y + 4.5);
	report_escaped(f->target, to);
	fprintf(to, "</text><rect%s x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\"/>",
		report_is_own(f) ? " class=\"own\"" : "", x, y - 6, fmax(median, 1));
	fprintf(to, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
		x + figure_least(f) * scale, x + most, y, y);
	fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"d\">", x + fmax(median, most) + 6,
		y + 4.5);
	report_escaped(figure_amount(f, figure_median(f), amount), to);
	fputs("</text>\n", to);
}

static void panel(FILE *to, const struct report *r, const struct figure *row, double x, double y)
{
	const double scale = BAR / report_widest(r, row);
	double at = y + TITLE;

	fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"t\">", x + 16, y + 18);
	report_escaped(row->name, to);
	fprintf(to, "<tspan class=\"d\"> %s is better</tspan></text>\n",
		row->less ? "less" : "more");
	for (uint32_t i = 0; i < r->count; i++) {
		if (!report_same_row(&r->figure[i], row))
			continue;
		bar(to, &r->figure[i], x + LABEL, at, scale);
		at += LINE;
	}
}

static double height_of(const struct report *r, const struct figure *row)
{
	return TITLE + (double)LINE * bars_of(r, row);
}

static void foot(FILE *to, const struct report *r, double y)
{
	fprintf(to,
		"<text x=\"16\" y=\"%.1f\" class=\"d\">A bar is the median of the runs, the line "
		"on it their smallest and largest.</text>\n<text x=\"16\" y=\"%.1f\" class=\"d\">",
		y + 20, y + 38);
	report_escaped(r->head.machine, to);
	fputs(", ", to);
	report_escaped(r->head.kernel, to);
	fputs("; weka-bench ", to);
	report_escaped(r->head.commit, to);
	fputs(", ", to);
	report_escaped(r->head.date, to);
	fputs("</text>\n", to);
}

uint32_t report_svg(const struct report *r, const char *const *only, uint32_t only_count, FILE *to)
{
	uint32_t *order = report_order(r), panels = 0;
	double column[2] = { 0, 0 };
	char *body = NULL;
	size_t size = 0;
	FILE *into = order ? open_memstream(&body, &size) : NULL;

	for (uint32_t i = 0; into && i < r->count; i++) {
		const struct figure *f = &r->figure[order[i]];
		const uint32_t left = column[0] <= column[1] ? 0 : 1;

		if (!is_first(r, order[i]) || !is_wanted(f, only, only_count))
			continue;
		panel(into, r, f, left * PANEL, column[left]);
		column[left] += height_of(r, f);
		panels++;
	}
	if (into && fclose(into) == 0 && panels > 0) {
		const double end = fmax(column[0], column[1]);

		fprintf(to,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
			"width=\"%d\" role=\"img\" aria-label=\"Storage compared\">"
			"<style>%s</style>\n%s",
			WIDTH, end + FOOT, WIDTH, style, body);
		foot(to, r, end);
		fputs("</svg>\n", to);
	}
	free(body);
	free(order);
	return panels;
}
