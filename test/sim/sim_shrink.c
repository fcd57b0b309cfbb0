/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A failing seed is made short: delta debugging over its list of events (Zeller's ddmin).
 *
 *   events  [. . . . . . . . . . . . . . . .]  fails
 *            leave out a half, a quarter, ... : does it still fail?  Then that is the list.
 *           [. .     .       . .]              and finer, until none can be left out
 *
 * Each try runs this program again, with --only: it may end by an assertion, or hang.
 */
#include "test/sim/sim_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIES_MAX  400u
#define CPU_S      30u     /* of one try: what takes longer is no failure that we look for */
#define TEXT_BYTES 120000u /* the system takes no longer argument */
#define FATES                                                                                      \
	"6" /* what a cut leaves is by chance: several chances, so that the fate of a
			 * write that has moved is found again */

struct list_of {
	uint64_t at[SIM_ONLY_MAX];
	uint32_t count;
};

static struct {
	const char *program;
	uint64_t seed;
	uint32_t tries;
} shrink;

/* Neighbours are told as "3-17". */
static void text_of(const struct list_of *l, char out[TEXT_BYTES])
{
	char *to = out;

	to += snprintf(to, TEXT_BYTES, "x"); /* a list, even if it is empty */
	for (uint32_t i = 0, n; i < l->count; i += n) {
		const uint64_t e = l->at[i];
		const char *kind = e >= SIM_FAULT ? "f" : e >= SIM_CUT ? "c" : "";

		for (n = 1; i + n < l->count && l->at[i + n] == e + n; n++)
			;
		to += snprintf(to, (size_t)(out + TEXT_BYTES - to), ",%s%llu", kind,
			       (unsigned long long)(e & UINT32_MAX));
		if (n > 1)
			to += snprintf(to, (size_t)(out + TEXT_BYTES - to), "-%llu",
				       (unsigned long long)((e + n - 1) & UINT32_MAX));
		if (to > out + TEXT_BYTES - 64)
			break;
	}
}

static void become(const struct list_of *l, bool quiet)
{
	struct rlimit cpu = { .rlim_cur = CPU_S, .rlim_max = CPU_S + 1 };
	static char text[TEXT_BYTES];
	char seed[32], minutes[32];
	int fd = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

	text_of(l, text);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)shrink.seed);
	if (quiet) {
		(void)dup2(fd, STDOUT_FILENO);
		(void)dup2(fd, STDERR_FILENO);
		(void)setrlimit(RLIMIT_CPU, &cpu);
	}
	snprintf(minutes, sizeof(minutes), "%llu", (unsigned long long)sim_run.minutes);
	execl(shrink.program, shrink.program, "--minutes", minutes, "--seed", seed, "--only", text,
	      "--fates", FATES, quiet ? "--quiet" : "--verbose", (char *)NULL);
	_exit(0); /* as if it had not failed */
}

static bool fails(const struct list_of *l)
{
	pid_t child;
	int status = 0;

	shrink.tries++;
	fflush(NULL);
	child = fork();
	if (child == 0)
		become(l, true);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return false;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) != SIGXCPU && WTERMSIG(status) != SIGKILL;
	return WEXITSTATUS(status) != 0;
}

/* `l` without events [from, to). */
static void without(const struct list_of *l, uint32_t from, uint32_t to, struct list_of *out)
{
	memcpy(out->at, l->at, from * sizeof(*l->at));
	memcpy(out->at + from, l->at + to, (l->count - to) * sizeof(*l->at));
	out->count = l->count - (to - from);
}

/* One pass with pieces of this size, from the end: what came last is most often not needed. */
static bool pass(struct list_of *l, uint32_t piece)
{
	static struct list_of less;
	bool shorter = false;

	for (uint32_t to = l->count; to > 0 && shrink.tries < TRIES_MAX;) {
		uint32_t from = to > piece ? to - piece : 0;

		without(l, from, to, &less);
		if (fails(&less)) {
			*l = less;
			shorter = true;
		}
		to = from;
	}
	return shorter;
}

static void make_short(struct list_of *l)
{
	uint32_t piece = (l->count + 1) / 2;

	while (piece > 0 && shrink.tries < TRIES_MAX) {
		bool shorter = pass(l, piece);

		if (piece == 1 && !shorter)
			return;
		piece = piece > 1 ? piece / 2 : 1;
	}
}

void sim_shrink(const char *program, uint64_t seed)
{
	static struct list_of l;
	static char text[TEXT_BYTES];
	uint32_t ops, cuts, faults, before;
	pid_t child;

	shrink.program = program;
	shrink.seed = seed;
	sim_seed_events(seed, &ops, &cuts, &faults);
	for (uint32_t i = 0; i < ops; i++)
		l.at[l.count++] = i;
	for (uint32_t i = 0; i < cuts; i++)
		l.at[l.count++] = SIM_CUT + i;
	for (uint32_t i = 0; i < faults; i++)
		l.at[l.count++] = SIM_FAULT + i;
	before = l.count;
	if (!fails(&l)) {
		printf("# seed %llu: it does not fail when it is run alone\n",
		       (unsigned long long)seed);
		exit(1);
	}
	make_short(&l);
	text_of(&l, text);
	printf("# seed %llu: %u events of %u are enough (%u tries): --seed %llu --fates " FATES
	       " --only %s\n",
	       (unsigned long long)seed, l.count, before, shrink.tries, (unsigned long long)seed,
	       text);
	fflush(NULL);
	child = fork();
	if (child == 0)
		become(&l, false);
	if (child > 0)
		(void)waitpid(child, NULL, 0);
	exit(1); /* it has failed, whatever the short run says */
}
