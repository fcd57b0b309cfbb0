/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench protect: what protection costs, scheme by scheme, in one table.
 *
 *   protect_whole.c    bytes written, space, and rates, while all drives are there
 *   protect_losses.c   reads without a drive, its rebuild, reads without two
 */
#include "base/num.h"
#include "bench/command.h"
#include "bench/protect/protect_rig.h"
#include "bench/report/args.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVES_BYTES (1536ull << 20) /* of an appliance, unless something else is asked for */

enum { OPT_DRIVES = 2048, OPT_DRIVE_SIZE, OPT_DIR, OPT_PROTECT, OPT_TURN };

static const struct argp_option options[] = {
	{ "protect", OPT_PROTECT, "SCHEME", 0,
	  "what is measured, with commas or several times: none, mirror, 1+2, K+1, K+2 "
	  "(none,mirror,2+1,4+2,8+2)",
	  0 },
	{ "turn", OPT_TURN, "N", 0,
	  "bytes of a write that is alone in its turn, with commas or several times "
	  "(4K,100K,300K,2M)",
	  0 },
	{ "drives", OPT_DRIVES, "N", 0, "drives of each appliance (as the schemes need)", 0 },
	{ "drive-size", OPT_DRIVE_SIZE, "N", 0, "of each (1536M for all drives of an appliance)",
	  0 },
	{ "file-bytes", 'F', "N", 0, "size of the large file (a twelfth of the drives)", 0 },
	{ "dir", OPT_DIR, "DIR", 0, "where the drives' files are made (in memory)", 0 },
	{ "seconds", 'S', "N", 0, "length of one run (0.15)", 0 },
	{ "runs", 'r', "N", 0, "counted runs, after one warm-up (3)", 0 },
	{ "json", 'j', NULL, 0, "one JSON object a line", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

/* ---- options ------------------------------------------------------------------------------ */

static void add_scheme(struct argp_state *state, struct protect_conf *c, const char *text,
		       size_t size)
{
	if (c->schemes == PROTECT_SCHEMES_MAX)
		argp_error(state, "--protect: at most %d schemes", PROTECT_SCHEMES_MAX);
	else if (!protect_scheme_parse(text, size, &c->scheme[c->schemes]))
		argp_error(state, "'%.*s' is none of: none, mirror, 1+2, K+1, K+2", (int)size,
			   text);
	else
		c->schemes++;
}

static void add_turn(struct argp_state *state, struct protect_conf *c, const char *text,
		     size_t size)
{
	char item[24];
	uint64_t bytes;

	snprintf(item, sizeof(item), "%.*s", (int)size, text);
	bytes = args_number(state, item, WEKA_BLOCK, WEKA_WRITE_MAX);
	if (c->turns == PROTECT_TURNS_MAX)
		argp_error(state, "--turn: at most %d sizes", PROTECT_TURNS_MAX);
	else if (bytes % WEKA_BLOCK)
		argp_error(state, "--turn: '%s' is no multiple of %u", item, WEKA_BLOCK);
	else
		c->turn[c->turns++] = (uint32_t)bytes;
}

/* Takes the items of a list with commas. */
static void add_all(struct argp_state *state, struct protect_conf *c, const char *list,
		    void (*add)(struct argp_state *state, struct protect_conf *c, const char *text,
				size_t size))
{
	size_t size = strcspn(list, ",");

	add(state, c, list, size);
	while (list[size]) {
		list += size + 1;
		size = strcspn(list, ",");
		add(state, c, list, size);
	}
}

static void complete(struct argp_state *state, struct protect_conf *c)
{
	uint32_t need = 1;

	if (c->schemes == 0)
		add_all(state, c, "none,mirror,2+1,4+2,8+2", add_scheme);
	if (c->turns == 0)
		add_all(state, c, "4K,100K,300K,2M", add_turn);
	for (uint32_t i = 0; i < c->schemes; i++)
		need = max_u32(need, protect_scheme_drives(&c->scheme[i]));
	if (c->drives == 0)
		c->drives = need;
	if (c->drives < need)
		argp_error(state, "these schemes need %u drives to lose some and go on", need);
	if (c->drive_bytes == 0)
		c->drive_bytes = align_down(DRIVES_BYTES / c->drives, PROTECT_PIECE);
	if (c->file_bytes == 0)
		c->file_bytes = align_down(c->drives * c->drive_bytes / 12, PROTECT_PIECE);
	for (uint32_t i = 0; i < c->turns; i++)
		if (c->turn[i] > c->file_bytes)
			argp_error(state, "a turn is larger than the file");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct protect_conf *c = &((struct protect_rig *)state->input)->conf;

	switch (key) {
	case OPT_PROTECT:
		add_all(state, c, arg, add_scheme);
		return 0;
	case OPT_TURN:
		add_all(state, c, arg, add_turn);
		return 0;
	case OPT_DRIVES:
		c->drives = (uint32_t)args_number(state, arg, 1, BENCH_DRIVES_MAX);
		return 0;
	case OPT_DRIVE_SIZE:
		c->drive_bytes = args_number(state, arg, 32 << 20, 1ull << 44);
		return 0;
	case 'F':
		c->file_bytes = args_number(state, arg, PROTECT_PIECE, 1ull << 44);
		return 0;
	case OPT_DIR:
		c->dir = arg;
		return 0;
	case 'S':
		c->seconds = args_real(state, arg, 0.01, 3600);
		return 0;
	case 'r':
		c->runs = (uint32_t)args_number(state, arg, 1, FIGURE_RUNS_MAX);
		return 0;
	case 'j':
		c->json = true;
		return 0;
	case ARGP_KEY_END:
		complete(state, c);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Measure what protection costs: bytes written and space by scheme beside what "
	       "arithmetic says, rates with all drives and without one or two, and a rebuild.",
};

int command_protect(int argc, char **argv)
{
	struct protect_rig r = { .conf = { .seconds = 0.15, .runs = 3 } };
	char *command = r.table.command;
	size_t at = 0;

	argp_parse(&argp, argc, argv, 0, NULL, &r);
	for (int i = 0; i < argc && at < sizeof(r.table.command); i++)
		at += (size_t)snprintf(command + at, sizeof(r.table.command) - at, "%s%s",
				       i ? " " : "", argv[i]);
	r.table.conf = &r.conf;
	r.conf.files = r.conf.dir != NULL;
	protect_table_head(&r.table);
	if (protect_whole(&r))
		return 1;
	/* A drive in memory cannot be lost: for that it is a file, which may be in memory, too. */
	r.conf.files = true;
	return protect_losses(&r);
}
