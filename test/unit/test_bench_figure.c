/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Figures: printed lines are read again; only figures outside of the spread are marked. */
#include "bench/report/report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct figure figure_of(const char *name, bool less, double a, double b, double c)
{
	struct figure f = { .group = "Small files",
			    .target = "weka:shm",
			    .unit = "files/s",
			    .less = less,
			    .value = { a, b, c },
			    .count = 3,
			    .cpu_client = 0.5,
			    .cpu_server = -1,
			    .p99_ms = 7.25,
			    .ideal = 1.25,
			    .promise = "durable: \"each\" change",
			    .command = "weka-bench compare --only 'a & b'" };

	snprintf(f.name, sizeof(f.name), "%s", name);
	return f;
}

static char *printed(void (*print)(FILE *to))
{
	static char *text; /* the stream remembers where it is */
	static size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	print(f);
	fclose(f);
	return text;
}

static void print_one(FILE *to)
{
	const struct figure f = figure_of("4 KiB", false, 3, 1, 2);

	figure_print(&f, true, to);
}

Test(bench_figure, a_line_of_json_is_read_again)
{
	char *line = printed(print_one);
	struct figure_head head;
	struct figure f;

	cr_assert_eq(figure_parse(line, &head, &f), 2, "%s", line);
	cr_assert_str_eq(f.name, "4 KiB");
	cr_assert_str_eq(f.promise, "durable: \"each\" change");
	cr_assert_str_eq(f.command, "weka-bench compare --only 'a & b'");
	cr_assert_eq(f.count, 3);
	cr_assert_float_eq(figure_median(&f), 2, 1e-9);
	cr_assert_float_eq(figure_least(&f), 1, 1e-9);
	cr_assert_float_eq(figure_most(&f), 3, 1e-9);
	cr_assert_float_eq(figure_spread(&f), 0.5, 1e-9);
	cr_assert_float_eq(f.cpu_server, -1, 1e-9);
	cr_assert_float_eq(f.p99_ms, 7.25, 1e-9);
	cr_assert_float_eq(f.ideal, 1.25, 1e-9);
	cr_assert_not(f.less);
	free(line);
}

Test(bench_figure, other_lines_are_no_figures)
{
	struct figure_head head;
	struct figure f;

	cr_assert_eq(figure_parse("", &head, &f), 0);
	cr_assert_eq(figure_parse("# a comment", &head, &f), 0);
	cr_assert_eq(figure_parse("[1,2]", &head, &f), 0);
	cr_assert_eq(figure_parse("{\"figure\":\"x\",\"target\":\"y\",\"values\":[]}", &head, &f),
		     0);
	cr_assert_eq(figure_parse("{\"figure\":7,\"target\":\"y\",\"values\":[1]}", &head, &f), 0);
	cr_assert_eq(figure_parse("{\"machine\":\"m\"}", &head, &f), 1);
	cr_assert_str_eq(head.machine, "m");
}

Test(bench_figure, only_runs_that_do_not_overlap_differ)
{
	struct figure a = figure_of("rate", false, 10, 11, 12);
	struct figure touching = figure_of("rate", false, 12, 20, 30);
	struct figure above = figure_of("rate", false, 13, 20, 30);
	struct figure below = figure_of("rate", false, 1, 2, 9);

	cr_assert_eq(report_change(&a, &a), REPORT_WITHIN);
	cr_assert_eq(report_change(&a, &touching), REPORT_WITHIN);
	cr_assert_eq(report_change(&a, &above), REPORT_BETTER);
	cr_assert_eq(report_change(&a, &below), REPORT_WORSE);
	a.less = above.less = true;
	cr_assert_eq(report_change(&a, &above), REPORT_WORSE);
}

/* A file of figures, written and read. */
static void file_of(struct report *r, const struct figure *f, uint32_t count)
{
	char path[] = "weka-figures.XXXXXX";
	int fd = mkstemp(path);
	FILE *to = fdopen(fd, "w");

	fprintf(to, "{\"machine\":\"a <machine>\",\"date\":\"today\"}\n");
	for (uint32_t i = 0; i < count; i++)
		figure_print(&f[i], true, to);
	fclose(to);
	cr_assert_eq(report_read(r, path), 0);
	unlink(path);
}

static struct report *shown;

static void print_html(FILE *to)
{
	report_html(shown, to);
}

static uint32_t occurrences(const char *text, const char *of)
{
	uint32_t n = 0;

	for (text = strstr(text, of); text; text = strstr(text + 1, of))
		n++;
	return n;
}

Test(bench_figure, the_page_has_each_figure_once_and_asks_for_nothing)
{
	struct figure f[] = { figure_of("one", false, 1, 2, 3), figure_of("two", true, 4, 5, 6),
			      figure_of("one", false, 7, 8, 9) };
	struct report r;
	char *html;

	snprintf(f[2].target, sizeof(f[2].target), "<ext4>");
	file_of(&r, f, 3);
	shown = &r;
	html = printed(print_html);
	cr_assert_eq(occurrences(html, "<h2>Small files"), 1, "%s", html);
	cr_assert_eq(occurrences(html, "<h3>"), 2);
	cr_assert_eq(occurrences(html, "<svg "), 3);
	cr_assert_eq(occurrences(html, "<ext4>"), 0, "names are escaped");
	cr_assert_neq(occurrences(html, "&lt;ext4&gt;"), 0);
	cr_assert_eq(occurrences(html, "http"), 0);
	cr_assert_eq(occurrences(html, "<script"), 0);
	cr_assert_eq(occurrences(html, "'a &amp; b'"), 2, "the command of each row");
	free(html);
	report_free(&r);
}

static uint32_t panels;

static void print_svg_of_two(FILE *to)
{
	static const char *const only[] = { "two" };

	panels = report_svg(shown, only, 1, to);
}

static void print_svg_of_none(FILE *to)
{
	static const char *const only[] = { "three" };

	panels = report_svg(shown, only, 1, to);
}

static void print_svg(FILE *to)
{
	panels = report_svg(shown, NULL, 0, to);
}

Test(bench_figure, a_picture_has_a_bar_for_each_figure_that_is_asked_for)
{
	struct figure f[] = { figure_of("one", false, 1, 2, 3), figure_of("two", true, 4, 5, 6),
			      figure_of("one", false, 7, 8, 9) };
	struct report r;
	char *svg;

	snprintf(f[2].target, sizeof(f[2].target), "<ext4>");
	file_of(&r, f, 3);
	shown = &r;
	svg = printed(print_svg);
	cr_assert_eq(panels, 2);
	cr_assert_eq(occurrences(svg, "<rect"), 3, "%s", svg);
	cr_assert_eq(occurrences(svg, "<rect class=\"own\""), 2);
	cr_assert_eq(occurrences(svg, "width=\"40.0\""), 1, "2 of 9 where 180 is the longest");
	cr_assert_eq(occurrences(svg, "less is better"), 1);
	cr_assert_eq(occurrences(svg, "&lt;ext4&gt;"), 1, "names are escaped");
	cr_assert_eq(occurrences(svg, "&lt;machine&gt;"), 1);
	cr_assert_eq(occurrences(svg, "http"), 1, "only the name space");
	free(svg);
	report_free(&r);
}

Test(bench_figure, a_picture_of_some_figures)
{
	struct figure f[] = { figure_of("one", false, 1, 2, 3), figure_of("two", true, 4, 5, 6) };
	struct report r;
	char *svg;

	file_of(&r, f, 2);
	shown = &r;
	svg = printed(print_svg_of_two);
	cr_assert_eq(panels, 1);
	cr_assert_eq(occurrences(svg, "<rect"), 1, "%s", svg);
	free(svg);
	svg = printed(print_svg_of_none);
	cr_assert_eq(panels, 0);
	cr_assert_str_eq(svg, "");
	free(svg);
	report_free(&r);
}

Test(bench_figure, two_files_are_compared_by_figure_and_target)
{
	struct figure before[] = { figure_of("one", false, 1, 2, 3),
				   figure_of("gone", false, 1, 1, 1) };
	struct figure after[] = { figure_of("new", false, 1, 1, 1),
				  figure_of("one", false, 4, 5, 6) };
	struct report a, b;
	FILE *null = fopen("/dev/null", "w");

	file_of(&a, before, 2);
	file_of(&b, after, 2);
	cr_assert_eq(report_compare(&a, &b, null), 1);
	cr_assert_eq(report_compare(&a, &a, null), 0);
	fclose(null);
	report_free(&a);
	report_free(&b);
}

Test(bench_figure, a_file_without_figures_is_refused)
{
	struct report r;

	cr_assert_eq(report_read(&r, "/dev/null"), 1);
	report_free(&r);
	cr_assert_eq(report_read(&r, "/nowhere/at/all"), 1);
	report_free(&r);
}
