/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl - the operator's tool: formats and checks drives, and moves files.
 *
 * format, check, drives and doctor work on the drives and on this machine.  All other commands talk
 * to a running appliance: at --connect with --key, or as --config says.
 */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_completion.h"
#include "appliance/ctl/ctl_req.h"
#include "appliance/conf/app_conf.h"
#include "base/num.h"
#include "fabric/fab.h"
#include "base/version.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_DEFAULT "/etc/weka-appliance.conf"

enum {
	OPT_FORCE = 256,
	OPT_SHARDS,
	OPT_PROTECT,
	OPT_JSON,
	OPT_THREADS,
	OPT_KEY_ID,
	OPT_ONCE,
	OPT_USER,
	OPT_GROUP,
	OPT_PATH,
	OPT_WRITE,
	OPT_OPS,
	OPT_BYTES,
	OPT_UID,
	OPT_GIDS,
	OPT_ANONYMOUS,
	OPT_SALVAGE,
	OPT_COPIES,
	OPT_VERIFY,
	OPT_LOG,
	OPT_NAMES,
	OPT_FOLLOW,
	OPT_GLOB,
	OPT_RECORDS,
	OPT_QUICK,
	OPT_NO_LABELS
};

static const struct argp_option options[] = {
	{ "connect", 'c', "ADDRESS", 0, "address of the appliance: shm:/PATH or tcp://HOST:PORT",
	  0 },
	{ "key", 'k', "FILE", 0, "the key to prove: 64 hexadecimal digits", 0 },
	{ "key-id", OPT_KEY_ID, "NAME", 0, "the key's name (weka)", 0 },
	{ "anonymous", OPT_ANONYMOUS, NULL, 0, "connect without a key", 0 },
	{ "config", 'f', "FILE", 0, "the daemon's configuration (" CONFIG_DEFAULT ")", 0 },
	{ "json", OPT_JSON, NULL, 0, "one JSON object a line", 0 },
	{ "quiet", 'q', NULL, 0, "no progress bar", 0 },
	{ "long", 'l', NULL, 0, "ls: mode, owner, size and time; status: every counter", 1 },
	{ "recursive", 'r', NULL, 0, "rm, ls: the whole tree; mkdir: parents too", 1 },
	{ "force", OPT_FORCE, NULL, 0,
	  "format, drives attach: use drives that hold data; import: replace directories", 1 },
	{ "salvage", OPT_SALVAGE, "DIR", 0, "check: copy verified data into a new directory", 1 },
	{ "copies", OPT_COPIES, NULL, 0, "check: compare all copies of each block", 1 },
	{ "shards", OPT_SHARDS, "N", 0, "format: shares of the index, a power of two (64)", 1 },
	{ "protect", OPT_PROTECT, "HOW", 0,
	  "format: none; mirror, or 2+1 ... 10+1: one drive may be lost (mirror, with two "
	  "drives or more); 1+2, or 2+2 ... 10+2: two drives may be lost",
	  1 },
	{ "threads", OPT_THREADS, "N", 0, "import, export: threads for the local files (4)", 1 },
	{ "verify", OPT_VERIFY, NULL, 0, "import: compare content, and repair files that differ",
	  1 },
	{ "glob", OPT_GLOB, "PATTERN", 0, "dataset create: only files whose path matches", 1 },
	{ "records", OPT_RECORDS, "FORMAT", 0,
	  "dataset create: samples are records: tar, tfrecord, npy, npz:NAME", 1 },
	{ "quick", OPT_QUICK, NULL, 0, "dataset create: do not read the files", 1 },
	{ "no-labels", OPT_NO_LABELS, NULL, 0, "dataset create: directories are no classes", 1 },
	{ "once", OPT_ONCE, NULL, 0,
	  "drives attach, detach: only until the next restart; top: print one page and end", 1 },
	{ "user", OPT_USER, "NAME", 0,
	  "drives attach: user that may open the drive (root); keys init, add: the daemon's user",
	  1 },
	{ "group", OPT_GROUP, "NAME", 0, "drives attach: group that may open the drive", 1 },
	{ "path", OPT_PATH, "PATH", 0, "keys add: the directory that its clients see as root (/)",
	  1 },
	{ "write", OPT_WRITE, NULL, 0, "keys add: its clients may write, too", 1 },
	{ "ops", OPT_OPS, "N", 0, "keys add: limit of operations a second", 1 },
	{ "bytes", OPT_BYTES, "SIZE", 0, "keys add: limit of bytes a second", 1 },
	{ "uid", OPT_UID, "N", 0, "keys add: check modes and owners for this user", 1 },
	{ "gids", OPT_GIDS, "N,N", 0, "keys add: groups of that user", 1 },
	{ "log", OPT_LOG, "FILE", 0, "support-bundle: the log, if it is not in the journal", 1 },
	{ "names", OPT_NAMES, NULL, 0, "support-bundle: keep names of files", 1 },
	{ "follow", OPT_FOLLOW, NULL, 0, "log: go on with the lines that come", 1 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static int cmd_completion(struct ctl *c);

static const struct command {
	const char *name;
	const char *args;
	const char *what;
	int args_min;
	int args_max;
	/* No appliance; one that is looked at, or asked about files; and bytes of files. */
	enum { ALONE, LOOKS, ASKS, MOVES } with;
	int (*run)(struct ctl *c);
} commands[] = {
	{ "format", "[DRIVE...]", "make an empty store on drives (or those of --config)", 0,
	  CTL_DRIVES_MAX, ALONE, ctl_cmd_format },
	{ "check", "[DRIVE...]", "prove every invariant of a store that is not in use", 0,
	  CTL_DRIVES_MAX, ALONE, ctl_cmd_check },
	{ "dump", "WHAT [ARG] [DRIVE...]", "print a structure of a store that is not in use", 0,
	  CTL_DRIVES_MAX + 2, ALONE, ctl_cmd_dump },
	{ "status", "[SECONDS]", "print the appliance's state and counters; repeat every SECONDS",
	  0, 1, LOOKS, ctl_cmd_status },
	{ "top", "[SECONDS]", "show what the appliance does, and who uses it, every SECONDS", 0, 1,
	  LOOKS, ctl_cmd_top },
	{ "clients", "", "list who is connected", 0, 0, LOOKS, ctl_cmd_clients },
	{ "jobs", "", "list jobs that read datasets, and why they wait, if they do", 0, 0, LOOKS,
	  ctl_cmd_jobs },
	{ "space", "[PATH]", "say what the space of the store is used for", 0, 1, ASKS,
	  ctl_cmd_space },
	{ "support-bundle", "[FILE]",
	  "write an archive that a bug report needs, without keys and data", 0, 1, ALONE,
	  ctl_cmd_bundle },
	{ "damaged", "", "list every file that is known to be damaged", 0, 0, ASKS,
	  ctl_cmd_damaged },
	{ "log", "", "print the last lines of the appliance's log, from its memory", 0, 0, LOOKS,
	  ctl_cmd_log },
	{ "import", "DIR PATH",
	  "copy a local tree into the appliance; resumes after an interruption", 2, 2, MOVES,
	  ctl_cmd_import },
	{ "export", "PATH DIR", "copy a tree of the appliance into a local directory; resumes, too",
	  2, 2, MOVES, ctl_cmd_export },
	{ "ls", "[PATH]", "list names in a directory", 0, 1, ASKS, ctl_cmd_ls },
	{ "stat", "PATH...", "print all attributes of a file", 1, 1 << 20, ASKS, ctl_cmd_stat },
	{ "du", "PATH...", "print how many names and bytes are below a directory", 1, 1 << 20, ASKS,
	  ctl_cmd_du },
	{ "cat", "PATH...", "write files to standard output", 1, 1 << 20, MOVES, ctl_cmd_cat },
	{ "put", "FILE PATH", "store one local file (- is standard input)", 2, 2, MOVES,
	  ctl_cmd_put },
	{ "rm", "PATH...", "remove files, and with -r whole trees", 1, 1 << 20, ASKS, ctl_cmd_rm },
	{ "mkdir", "PATH...", "directories", 1, 1 << 20, ASKS, ctl_cmd_mkdir },
	{ "ln", "FILE PATH", "add a name to a file", 2, 2, ASKS, ctl_cmd_ln },
	{ "mv", "FROM TO", "rename, replacing a file at TO", 2, 2, ASKS, ctl_cmd_mv },
	{ "dataset", "ACTION [NAME[@N] [PATH]]",
	  "create a version of a dataset; list, show, verify, compare, drop", 1, 3, MOVES,
	  ctl_cmd_dataset },
	{ "protect", "[HOW]",
	  "say how many drives may be lost; mirror, 1+2: keep each block on two drives or three "
	  "from now on; "
	  "2+1 ... 10+1, 2+2 ... 10+2: with parity, which takes less space",
	  0, 1, ASKS, ctl_cmd_protect },
	{ "drives", "[ACTION...]",
	  "list NVMe drives; attach, detach, restore them; add them to a store, drain one", 0,
	  CTL_DRIVES_MAX + 1, ALONE, ctl_cmd_drives },
	{ "keys", "[ACTION...]",
	  "manage keys: init makes the first; list, show ID, add ID FILE, remove ID", 0, 3, ALONE,
	  ctl_cmd_keys },
	{ "config", "check|keys [FILE]",
	  "check the daemon's configuration as its start does; keys: explain every key", 1, 2,
	  ALONE, ctl_cmd_config },
	{ "completion", "bash|zsh", "print a script that completes words of this program", 1, 1,
	  ALONE, cmd_completion },
	{ "doctor", "", "report problems of this machine, with commands that fix them", 0, 0, ALONE,
	  ctl_cmd_doctor },
};

static int cmd_completion(struct ctl *c)
{
	const char *names[ARRAY_LEN(commands)];

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		names[i] = commands[i].name;
	if (ctl_completion_print(c->argv[0], names, ARRAY_LEN(commands), options))
		return ctl_fail("completion: '%s' is neither bash nor zsh", c->argv[0]) + 1;
	return 0;
}

int ctl_fail(const char *fmt, ...)
{
	va_list ap;

	fputs("wekactl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

static uint32_t count_of(struct argp_state *state, const char *what, const char *arg, uint32_t max)
{
	char *end;
	unsigned long v = strtoul(arg, &end, 10);

	if (*end || end == arg || arg[0] == '-' || v < 1 || v > max)
		argp_error(state, "%s needs a number from 1 to %u", what, max);
	return (uint32_t)v;
}

static error_t rate_of(struct argp_state *state, const char *what, const char *arg, uint64_t *out)
{
	if (app_conf_parse_size(arg, out) || *out == 0)
		argp_error(state, "%s needs a number, optionally with K, M, G or T", what);
	return 0;
}

static void print_version(FILE *to, struct argp_state *state)
{
	(void)state;
	fprintf(to, "wekactl %s (%s, %s)\n", version_text, version_commit, version_variant);
}

/* Options whose argument is taken as it is. */
static error_t parse_word(int key, const char *arg, struct ctl *c)
{
	const char **to = key == OPT_USER      ? &c->user
			  : key == OPT_GROUP   ? &c->group
			  : key == OPT_PATH    ? &c->path
			  : key == OPT_UID     ? &c->uid
			  : key == OPT_GIDS    ? &c->gids
			  : key == OPT_SALVAGE ? &c->salvage
			  : key == OPT_LOG     ? &c->log
			  : key == OPT_GLOB    ? &c->glob
			  : key == OPT_RECORDS ? &c->records
					       : NULL;

	if (!to)
		return ARGP_ERR_UNKNOWN;
	*to = arg;
	return 0;
}

/* Options without an argument. */
static error_t parse_flag(int key, struct ctl *c)
{
	static const struct {
		int key;
		size_t at;
	} flags[] = {
		{ OPT_JSON, offsetof(struct ctl, json) },
		{ 'q', offsetof(struct ctl, quiet) },
		{ 'l', offsetof(struct ctl, long_list) },
		{ 'r', offsetof(struct ctl, recursive) },
		{ OPT_FORCE, offsetof(struct ctl, force) },
		{ OPT_ONCE, offsetof(struct ctl, once) },
		{ OPT_COPIES, offsetof(struct ctl, compare) },
		{ OPT_VERIFY, offsetof(struct ctl, verify) },
		{ OPT_NAMES, offsetof(struct ctl, names) },
		{ OPT_FOLLOW, offsetof(struct ctl, follow) },
		{ OPT_QUICK, offsetof(struct ctl, quick) },
		{ OPT_NO_LABELS, offsetof(struct ctl, no_labels) },
		{ OPT_ANONYMOUS, offsetof(struct ctl, anonymous) },
		{ OPT_WRITE, offsetof(struct ctl, write) },
	};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (flags[i].key == key) {
			*(bool *)((char *)c + flags[i].at) = true;
			return 0;
		}
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ctl *c = state->input;

	switch (key) {
	case 'c':
		c->address = arg;
		return 0;
	case 'k':
		c->key_file = arg;
		return 0;
	case OPT_KEY_ID:
		c->key_id = arg;
		return 0;
	case 'f':
		c->config = arg;
		return 0;
	case OPT_PROTECT:
		c->copies = app_conf_scheme(arg).copies;
		c->fold = app_conf_scheme(arg).fold;
		if (c->copies == 0)
			argp_error(state, "--protect is none, mirror, or 2+1 ... 10+1, or "
					  "1+2 ... 10+2");
		return 0;
	case OPT_SHARDS:
		c->shards = count_of(state, "--shards", arg, 4096);
		if (!is_pow2(c->shards))
			argp_error(state, "--shards needs a power of two");
		return 0;
	case OPT_THREADS:
		c->threads = count_of(state, "--threads", arg, 64);
		return 0;
	case OPT_OPS:
		return rate_of(state, "--ops", arg, &c->ops_per_s);
	case OPT_BYTES:
		return rate_of(state, "--bytes", arg, &c->bytes_per_s);
	case ARGP_KEY_ARGS:
		c->argc = state->argc - state->next;
		c->argv = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which command? (--help lists them)");
		return EINVAL;
	default:
		return parse_flag(key, c) == 0 ? 0 : parse_word(key, arg, c);
	}
}

enum { HELP_COLUMN = 25, HELP_WIDTH = 53 }; /* within argp's 79 columns */

/* Wraps the text in its column, with a line of its own for a usage that is too long. */
static void print_command(FILE *f, const char *usage, const char *what)
{
	int column = fprintf(f, "  %s", usage);

	while (*what) {
		size_t bytes = strlen(what);

		if (bytes > HELP_WIDTH)
			for (bytes = HELP_WIDTH; bytes > 1 && what[bytes] != ' '; bytes--)
				;
		if (column >= HELP_COLUMN)
			column = fprintf(f, "\n") - 1;
		column = fprintf(f, "%*s%.*s", HELP_COLUMN - column, "", (int)bytes, what) +
			 HELP_COLUMN;
		what += bytes + (what[bytes] == ' ');
	}
	fputc('\n', f);
}

static char *list_commands(int key, const char *text, void *input)
{
	char usage[64], *out = NULL;
	size_t size;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	fprintf(f, "Commands:\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		snprintf(usage, sizeof(usage), "%s %s", commands[i].name, commands[i].args);
		print_command(f, usage, commands[i].what);
	}
	fclose(f);
	return out;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "COMMAND [ARGUMENTS]",
	.doc = "Attach, format and check an appliance's drives, and move files.\v",
	.help_filter = list_commands,
};

/* Takes the appliance's address from the daemon's own configuration. */
static int from_config(struct ctl *c)
{
	const char *file = c->config ? c->config : CONFIG_DEFAULT;
	char why[APP_CONF_WHY];
	struct app_conf *conf = malloc(sizeof(*conf));
	int err;

	ASSERT(conf);
	err = app_conf_load(conf, file, why);
	if (err) {
		free(conf);
		return ctl_fail("%s%s", why,
				c->config ? "" : " (or say --connect ADDRESS --key FILE)");
	}
	if (!c->address) {
		snprintf(c->address_buffer, sizeof(c->address_buffer), "%s", conf->listen[0]);
		c->address = c->address_buffer;
	}
	if (!c->key_file) {
		snprintf(c->key_file_buffer, sizeof(c->key_file_buffer), "%s", conf->key_file);
		c->key_file = c->key_file_buffer;
	}
	if (!c->key_id) {
		snprintf(c->key_id_buffer, sizeof(c->key_id_buffer), "%.31s", conf->key_id);
		c->key_id = c->key_id_buffer;
	}
	free(conf);
	return 0;
}

/* Returns true if this process is root, nobody named a key, and the appliance is on this machine.
 */
static bool needs_no_key(const struct ctl *c, bool named)
{
	return !named && geteuid() == 0 && strncmp(c->address, "shm:", 4) == 0 &&
	       !strchr(c->address, ',');
}

int ctl_connect(struct ctl *c)
{
	/* A command that moves no files needs no more than a page of a listing.  Two requests at
	 * once are an operator's session: the appliance keeps places for those (FAB_OPERATORS). */
	const struct weka_options small = { .size_bytes = sizeof(small),
					    .requests_max = c->looks ? FAB_OPERATOR_CREDITS : 0,
					    .lanes = c->looks ? 1 : 0,
					    .pool_bytes = 4 << 20 };
	static const uint8_t zeros[FAB_KEY_BYTES];
	const struct weka_key root = { .id = FAB_KEY_ROOT, .secret = zeros };
	const struct weka_options large = { .size_bytes = sizeof(large),
					    .requests_max = CTL_REQUESTS };
	const struct weka_options *limits = c->moves ? &large : &small;
	const bool named = c->key_file || c->key_id || c->anonymous;
	struct weka_key key = { 0 };
	int err;

	if (c->client)
		return 0;
	if (!c->address && from_config(c))
		return 1;
	if (needs_no_key(c, named)) {
		err = weka_connect(c->address, &root, limits, &c->client);
		if (err != -EACCES) /* in a container it is another root */
			return err ? ctl_fail("%s", weka_error(NULL)) : 0;
	}
	if (!c->key_file && !c->anonymous && from_config(c))
		return 1;
	key.file = c->key_file;
	key.id = c->key_id;
	err = weka_connect(c->address, c->anonymous || !c->key_file[0] ? NULL : &key, limits,
			   &c->client);
	return err ? ctl_fail("%s", weka_error(NULL)) : 0;
}

int main(int argc, char **argv)
{
	struct ctl c = { .shards = 64, .threads = 4 };
	int status = 2;

	c.address = getenv("WEKA_ADDRESS");
	c.key_file = getenv("WEKA_KEY_FILE");
	argp_program_version_hook = print_version;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &c);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const struct command *cmd = &commands[i];

		if (strcmp(c.argv[0], cmd->name) != 0)
			continue;
		c.argc--;
		c.argv++;
		if (c.argc < cmd->args_min || c.argc > cmd->args_max)
			return ctl_fail("usage: wekactl %s %s", cmd->name, cmd->args) + 1;
		c.looks = cmd->with == LOOKS;
		c.moves = cmd->with == MOVES;
		status = cmd->with != ALONE ? ctl_connect(&c) : 0;
		if (!status)
			status = cmd->run(&c);
		weka_close(c.client);
		if (fflush(stdout) != 0 && !status)
			status = ctl_fail("standard output: %s", strerror(errno));
		return status;
	}
	return ctl_fail("'%s' is not a command; --help lists them", c.argv[0]) + 1;
}
