/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Figures as a page: one file, without scripts, for a phone, a screen or paper, light or dark.
 *
 *   a group
 *     a row      label | bar to the median, a line from the least to the most | value
 *
 * Lengths in the plots are per cent of their width, so that text keeps its size on a phone.
 */
#include "bench/bench.h"
#include "bench/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
	":root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#57606a;--line:#d0d7de;"
	"--bar:#4c8dd6;--own:#2f9e62;--err:#1b1f24;--warn:#9a6700}"
	"@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--dim:#9198a1;"
	"--line:#30363d;--bar:#3b6fb0;--own:#2b8556;--err:#e6edf3;--warn:#d29922}}"
	"body{font:16px/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg);"
	"max-width:60rem;margin:0 auto;padding:1rem}"
	"h1{font-size:1.5rem}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid "
	"var(--line)}h3{font-size:1rem;margin:1.2rem 0 .3rem}"
	".dim{color:var(--dim);font-weight:normal;font-size:.85rem}"
	".row{display:grid;grid-template-columns:9rem 1fr 13rem;gap:.6rem;align-items:center;"
	"font-size:.9rem;margin:.15rem 0}.row svg{width:100%;height:1.1rem;display:block}"
	".value{font-variant-numeric:tabular-nums}"
	".value .dim{display:block}.label{overflow-wrap:anywhere}"
	"rect{fill:var(--bar)}rect.own{fill:var(--own)}line{stroke:var(--err);stroke-width:1.5}"
	"table{border-collapse:collapse;font-size:.85rem}th,td{text-align:left;"
	"padding:.25rem .6rem;"
	"border-bottom:1px solid var(--line);vertical-align:top}.scroll{overflow-x:auto}"
	"details{font-size:.85rem;margin:.2rem 0}code{overflow-wrap:anywhere}"
	".warn{border-left:4px solid var(--warn);padding:.4rem .8rem}"
	"@media(max-width:36rem){.row{grid-template-columns:minmax(6rem,1fr) auto;"
	"gap:.1rem .6rem;"
	"margin:.5rem 0}"
	".row svg{grid-column:1/3;grid-row:2}}"
	"@media print{body{font-size:10pt;max-width:none}.row,h2,h3{break-inside:avoid;"
	"break-after:avoid}rect{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

void report_escaped(const char *s, FILE *to)
{
	for (; *s; s++)
		switch (*s) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			fputc(*s, to);
		}
}

double report_widest(const struct report *r, const struct figure *row)
{
	double most = 0;

	for (uint32_t i = 0; i < r->count; i++)
		if (report_same_row(&r->figure[i], row))
			most = fmax(most, figure_most(&r->figure[i]));
	return most > 0 ? most : 1;
}

bool report_is_own(const struct figure *f)
{
	return strstr(f->target, "weka") || strstr(f->target, "appliance");
}

static void bar(FILE *to, const struct figure *f, double most)
{
	const double scale = 98 / most;
	const double least = figure_least(f) * scale, end = figure_most(f) * scale;

	fprintf(to, "<svg role=\"img\" aria-label=\"median %.4g, from %.4g to %.4g\">",
		figure_median(f), figure_least(f), figure_most(f));
	fprintf(to, "<rect%s x=\"0\" y=\"15%%\" width=\"%.2f%%\" height=\"70%%\"/>",
		report_is_own(f) ? " class=\"own\"" : "", figure_median(f) * scale);
	fprintf(to, "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"50%%\" y2=\"50%%\"/>", least, end);
	fprintf(to, "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"25%%\" y2=\"75%%\"/>", least, least);
	fprintf(to, "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"25%%\" y2=\"75%%\"/></svg>", end, end);
}

static void row(FILE *to, const struct figure *f, double most)
{
	char amount[48];

	fputs("<div class=\"row\"><span class=\"label\">", to);
	report_escaped(f->target, to);
	fputs("</span>", to);
	bar(to, f, most);
	fputs("<span class=\"value\">", to);
	fputs(figure_amount(f, figure_median(f), amount), to);
	fputs(" <span class=\"dim\">", to);
	if (f->p99_ms > 0)
		fprintf(to, "p99 %.3g ms ", f->p99_ms);
	if (f->cpu_client > 0)
		fprintf(to, "cpu %.2f", f->cpu_client);
	if (f->cpu_server >= 0)
		fprintf(to, " + %.2f", f->cpu_server);
	fputs("</span></span></div>\n", to);
}

/* The notes and commands of a row, each once. */
static void details(const struct report *r, const struct figure *of, FILE *to)
{
	const char *last = "";

	fputs("<details><summary class=\"dim\">runs and command</summary>", to);
	for (uint32_t i = 0; i < r->count; i++) {
		const struct figure *f = &r->figure[i];

		if (!report_same_row(f, of))
			continue;
		fputs("<div>", to);
		report_escaped(f->target, to);
		fputs(": ", to);
		for (uint32_t v = 0; v < f->count; v++)
			fprintf(to, "%.4g ", f->value[v]);
		report_escaped(f->note, to);
		if (strcmp(last, f->command) != 0) {
			fputs("<br><code>", to);
			report_escaped(f->command, to);
			fputs("</code>", to);
		}
		fputs("</div>", to);
		last = f->command;
	}
	fputs("</details>\n", to);
}

/* The promises of each target, once. */
static void promises(const struct report *r, FILE *to)
{
	fputs("<h2>Systems</h2><div class=\"scroll\"><table><tr><th>system<th>promise</tr>\n", to);
	for (uint32_t i = 0; i < r->count; i++) {
		bool before = false;

		for (uint32_t j = 0; j < i; j++)
			before |= strcmp(r->figure[j].target, r->figure[i].target) == 0;
		if (before)
			continue;
		fputs("<tr><td>", to);
		report_escaped(r->figure[i].target, to);
		fputs("<td>", to);
		report_escaped(r->figure[i].promise, to);
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
}

static void other_work(const struct report *r, FILE *to)
{
	double most = 0;

	for (uint32_t i = 0; i < r->count; i++)
		most = fmax(most, r->figure[i].cpu_other);
	if (most >= 0.3)
		fprintf(to,
			"<p class=\"warn\">Besides client and server, up to %.1f processors were "
			"in use while this was measured: by other programs, or by the kernel for "
			"file systems and networks.</p>\n",
			most);
}

static void begin_page(const struct report *r, FILE *to)
{
	fprintf(to,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
		"<title>Storage compared</title><style>%s</style></head><body>\n"
		"<h1>Storage compared</h1><p>",
		style);
	report_escaped(r->head.machine, to);
	fputs(", ", to);
	report_escaped(r->head.kernel, to);
	fputs("<br><span class=\"dim\">weka-bench ", to);
	report_escaped(r->head.commit, to);
	fputs(", ", to);
	report_escaped(r->head.date, to);
	fputs(", load ", to);
	report_escaped(r->head.load, to);
	fputs("</span></p>\n<p>A bar is the median of the runs, the line on it their smallest and "
	      "largest. <i>cpu</i>: processors in use by client and server.</p>\n",
	      to);
}

void report_html(const struct report *r, FILE *to)
{
	uint32_t *order = report_order(r);
	const struct figure *last = NULL;

	begin_page(r, to);
	other_work(r, to);
	for (uint32_t i = 0; order && i < r->count; i++) {
		const struct figure *f = &r->figure[order[i]];

		if (last && !report_same_row(last, f))
			details(r, last, to);
		if (!last || strcmp(last->group, f->group) != 0) {
			fputs("<h2>", to);
			report_escaped(f->group, to);
			fputs("</h2>\n", to);
		}
		if (!last || !report_same_row(last, f)) {
			fputs("<h3>", to);
			report_escaped(f->name, to);
			fprintf(to, " <span class=\"dim\">%s is better</span></h3>\n",
				f->less ? "less" : "more");
		}
		row(to, f, report_widest(r, f));
		last = f;
	}
	if (last)
		details(r, last, to);
	promises(r, to);
	fputs("</body></html>\n", to);
	free(order);
}
