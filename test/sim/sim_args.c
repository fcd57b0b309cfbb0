/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/sim_args.h"

#include "base/assert.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define HANGS_S 300 /* of the processor: what a run never comes near */

/* --NAME of this argument, with a number behind it. */
static bool number(char **argv, const char *name, uint64_t *out)
{
	char *end;

	if (strncmp(argv[0], "--", 2) != 0 || strcmp(argv[0] + 2, name) != 0 || !argv[1])
		return false;
	*out = strtoull(argv[1], &end, 0);
	return end != argv[1] && !*end;
}

uint64_t sim_args_few(uint64_t few, uint64_t share)
{
	const char *length = getenv("TEST_LENGTH");

	ASSERT(share > 0 && few >= share);
	return length && strcmp(length, "short") == 0 ? few / share : few;
}

struct sim_args sim_args(int argc, char **argv, const char *unit, uint64_t few, uint64_t many)
{
	const char *length = getenv("TEST_LENGTH");
	bool is_long = length && strcmp(length, "short") != 0;
	struct sim_args args = { .seed = 1, .count = is_long ? many : few };

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i += 2) {
		if (number(argv + i, "seed", &args.seed)) {
			args.one_seed = true;
		} else if (strcmp(argv[i], "--shape") == 0 && argv[i + 1]) {
			args.shape = argv[i + 1];
		} else if (!number(argv + i, unit, &args.count)) {
			fprintf(stderr, "usage: %s [--seed N] [--%s N] [--shape NAME]\n", argv[0],
				unit);
			exit(2);
		}
	}
	return args;
}

bool sim_args_want(const struct sim_args *args, const char *shape)
{
	return !args->shape || strcmp(args->shape, shape) == 0;
}

/* ---- a run that does not end ----------------------------------------------------------- */

static char hangs[96];

static void on_hang(int signal_number)
{
	(void)signal_number;
	(void)!write(STDOUT_FILENO, hangs, strlen(hangs));
	_exit(1);
}

void sim_begins(uint64_t seed)
{
	struct itimerval limit = { .it_value.tv_sec = HANGS_S };

	snprintf(hangs, sizeof(hangs), "not ok seed %llu: it hangs\n  again: make sim SEED=%llu\n",
		 (unsigned long long)seed, (unsigned long long)seed);
	(void)signal(SIGVTALRM, on_hang);
	(void)setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

/* ---- what is wrong --------------------------------------------------------------------- */

char sim_why[256];

bool sim_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sim_why, sizeof(sim_why), format, args);
	va_end(args);
	return false;
}
