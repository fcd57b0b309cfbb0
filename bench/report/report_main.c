/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* weka-bench report A.json [B.json]: shows figures, or compares those of two runs. */
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/report/report.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

struct conf {
	const char *path[2];
	const char *html;
};

static const struct argp_option options[] = {
	{ "html", 'o', "FILE", 0, "write a page with plots, which needs no other file", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case 'o':
		c->html = arg;
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
	report_free(&a);
	report_free(&b);
	return err;
}
