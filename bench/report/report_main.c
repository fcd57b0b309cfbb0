/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* weka-bench report A.json [B.json]: shows figures, or compares those of two runs. */
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/report/report.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

enum { ONLY_MAX = 16 };

struct conf {
	const char *path[2];
	const char *html, *svg;
	const char *only[ONLY_MAX];
	uint32_t only_count;
};

enum { OPT_SVG = 2048, OPT_ONLY };

static const struct argp_option options[] = {
	{ "html", 'o', "FILE", 0, "write a page with plots, which needs no other file", 0 },
	{ "svg", OPT_SVG, "FILE", 0, "write a picture of the figures", 0 },
	{ "only", OPT_ONLY, "TEXT", 0,
	  "for --svg: figures whose group or name holds TEXT; may be given up to 16 times", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case 'o':
		c->html = arg;
		return 0;
	case OPT_SVG:
		c->svg = arg;
		return 0;
	case OPT_ONLY:
		if (c->only_count == ONLY_MAX)
			argp_error(state, "--only: at most %d times", ONLY_MAX);
		else
			c->only[c->only_count++] = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num >= 2)
			argp_error(state, "one file to show, or two to compare");
		c->path[state->arg_num] = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name a file that --json wrote");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "A.json [B.json]",
	.doc = "Show the figures of a run, or compare two machines or versions: figures are marked "
	       "if no run of one lies among the runs of the other.",
};

static int write_html(const struct report *r, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return bench_fail("%s: %s", path, strerror(errno));
	report_html(r, f);
	return fclose(f) == 0 ? 0 : bench_fail("%s: %s", path, strerror(errno));
}

static int write_svg(const struct report *r, const struct conf *c)
{
	FILE *f = fopen(c->svg, "we");
	uint32_t rows;

	if (!f)
		return bench_fail("%s: %s", c->svg, strerror(errno));
	rows = report_svg(r, c->only, c->only_count, f);
	if (fclose(f) != 0)
		return bench_fail("%s: %s", c->svg, strerror(errno));
	return rows > 0 ? 0 : bench_fail("%s has no figure of that name", r->path);
}

int command_report(int argc, char **argv)
{
	struct conf c = { .html = NULL };
	struct report a, b = { .path = NULL };
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &c);
	err = report_read(&a, c.path[0]);
	if (!err && c.path[1])
		err = report_read(&b, c.path[1]);
	if (!err && c.path[1])
		(void)report_compare(&a, &b, stdout);
	else if (!err)
		report_text(&a, stdout);
	if (!err && c.html)
		err = write_html(&a, c.html);
	if (!err && c.svg)
		err = write_svg(&a, &c);
	report_free(&a);
	report_free(&b);
	return err;
}
