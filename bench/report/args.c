/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The options of mlperf, checkpoint, kvcache and compare that are the same. */
#include "bench/report/args.h"
#include "base/num.h"
#include "bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_PID = 1024, OPT_COLD, OPT_SEED, OPT_NAME, OPT_KEEP };

static const struct argp_option options[] = {
	{ "target", 't', "NAME", 0,
	  "what to measure: weka:shm, weka:tcp, weka:tls (started on a fresh drive), shm:, tcp://, "
	  "tls://, rdma:// (running), posix:DIR, direct:DIR, uring:DIR, nfs://, redis://, null:; "
	  "several are measured in turn",
	  0 },
	{ "name", OPT_NAME, "TEXT", 0, "name of the last target in tables", 0 },
	{ "pid", OPT_PID, "PID", 0, "process of the last target's server: its CPU time is shown",
	  0 },
	{ "key", 'k', "FILE", 0, "key file of running appliances", 0 },
	{ "drive", 'd', "NAME", 0, "drive of appliances that are started (mem:2G)", 0 },
	{ "threads", 'n', "N", 0, "threads that read posix: and direct: (one per reader)", 0 },
	{ "runs", 'r', "N", 0, "counted runs, after one warm-up (5)", 0 },
	{ "seconds", 'S', "N", 0, "length of a run", 0 },
	{ "bytes", 'B', "N", 0, "size of the dataset (K, M, G)", 0 },
	{ "cold", OPT_COLD, NULL, 0, "drop the files from this machine's cache before each run",
	  0 },
	{ "keep", OPT_KEEP, NULL, 0, "leave the files that were made, and say where", 0 },
	{ "seed", OPT_SEED, "N", 0, "first seed of orders; each run has another (1)", 0 },
	{ "json", 'j', NULL, 0, "one JSON object a line, for weka-bench report", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

uint64_t args_number(struct argp_state *state, const char *arg, uint64_t low, uint64_t high)
{
	static const char suffixes[] = "KMGT";
	uint64_t scale = 1;
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(arg, &end, 10);
	if (*end && end != arg) {
		const char *s = strchr(suffixes, *end);

		scale = s ? 1ull << (10 * (s - suffixes + 1)) : 0;
		end++;
	}
	if (errno || end == arg || *end || !scale || arg[0] == '-' || v > high / scale ||
	    v * scale < low)
		argp_error(state, "'%s' is not a number from %llu to %llu", arg,
			   (unsigned long long)low, (unsigned long long)high);
	return v * scale;
}

double args_real(struct argp_state *state, const char *arg, double low, double high)
{
	char *end;
	double v = strtod(arg, &end);

	if (*end || end == arg || !(v >= low && v <= high))
		argp_error(state, "'%s' is not a number from %g to %g", arg, low, high);
	return v;
}

static void add_target(struct argp_state *state, struct args *a, const char *arg)
{
	if (a->target_count == ARGS_TARGETS_MAX)
		argp_error(state, "--target at most %d times", ARGS_TARGETS_MAX);
	a->target[a->target_count++] = arg;
}

static uint32_t last_target(struct argp_state *state, const struct args *a)
{
	if (a->target_count == 0)
		argp_error(state, "--name and --pid stand behind a --target");
	return a->target_count - 1;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 't':
		add_target(state, a, arg);
		return 0;
	case OPT_NAME:
		a->name[last_target(state, a)] = arg;
		return 0;
	case OPT_PID:
		a->pid[last_target(state, a)] = (int)args_number(state, arg, 1, INT32_MAX);
		return 0;
	case 'k':
		a->options.key_file = arg;
		return 0;
	case 'd':
		a->options.drive = arg;
		return 0;
	case 'n':
		a->options.threads = (uint32_t)args_number(state, arg, 1, 512);
		return 0;
	case 'r':
		a->runs = (uint32_t)args_number(state, arg, 1, FIGURE_RUNS_MAX);
		return 0;
	case 'S':
		a->seconds = args_real(state, arg, 0.01, 36000);
		return 0;
	case 'B':
		a->bytes = args_number(state, arg, 1, 1ull << 50);
		return 0;
	case OPT_COLD:
		a->cold = true;
		return 0;
	case OPT_KEEP:
		a->options.keep = true;
		return 0;
	case OPT_SEED:
		a->seed = args_number(state, arg, 0, UINT32_MAX);
		return 0;
	case 'j':
		a->json = true;
		return 0;
	case ARGP_KEY_END:
		if (a->target_count == 0)
			argp_error(state, "name at least one --target");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp targets = { .options = options, .parser = parse };
const struct argp_child args_children[] = { { &targets, 0, NULL, 0 }, { NULL, 0, NULL, 0 } };

/* Defaults, and the command line as it was typed. */
static void begin(struct args *a, int argc, char **argv)
{
	size_t at;

	*a = (struct args){ .runs = 5, .seed = 1, .options = { .core_server = -1 } };
	snprintf(a->command, sizeof(a->command), "%s", argv[0]);
	for (int i = 1; i < argc; i++) {
		const char *quote = strpbrk(argv[i], " ?*&;") ? "'" : "";

		at = strlen(a->command);
		snprintf(a->command + at, sizeof(a->command) - at, " %s%s%s", quote, argv[i],
			 quote);
	}
}

void args_parse(struct args *a, const struct argp *argp, int argc, char **argv, void *conf)
{
	struct figure_head head;

	begin(a, argc, argv);
	argp_parse(argp, argc, argv, 0, NULL, conf);
	bench_catch_signals();
	figure_head_now(&head);
	figure_head_print(&head, a->json, stdout);
}

int args_each(const struct args *a, void *conf,
	      int (*measure)(void *conf, uint32_t i, struct target *t))
{
	int failed = 0;

	for (uint32_t i = 0; i < a->target_count && !bench_interrupted(); i++) {
		struct target *t;
		int err = args_open(a, i, &t);

		if (!err) {
			err = measure(conf, i, t);
			target_close(t);
		}
		if (err)
			args_leave_out(a, i);
		failed |= err;
	}
	return failed;
}

void args_leave_out(const struct args *a, uint32_t i)
{
	ASSERT(i < a->target_count);
	if (!bench_interrupted())
		fprintf(stderr, "weka-bench: %s is left out\n",
			a->name[i] ? a->name[i] : a->target[i]);
}

int args_open(const struct args *a, uint32_t i, struct target **out)
{
	return target_open(out, a->target[i], &a->options);
}

void args_figure(const struct args *a, uint32_t i, const struct target *t, struct figure *out)
{
	memset(out, 0, sizeof(*out));
	figure_set_promise(out, t);
	if (a->name[i])
		snprintf(out->target, sizeof(out->target), "%s", a->name[i]);
	snprintf(out->command, sizeof(out->command), "%s", a->command);
	out->cpu_client = -1;
	out->cpu_server = -1;
}

int args_pid(const struct args *a, uint32_t i, const struct target *t)
{
	return a->pid[i] ? a->pid[i] : target_server_pid(t);
}
