/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Power cuts.  make sim SEED=n runs one seed again, exactly.
 *
 *   copies   a workload runs undisturbed; at every write that reaches a drive, copies of the
 *            drives are made as a power cut then would leave them, mounted by another appliance,
 *            and compared with the acknowledged changes.  Every boundary is seen.
 *   lives    the power is cut at a random write, also in a mount; the same drives go on, up to
 *            eight lives, so that recoveries of recoveries are seen.  Some lives end with the
 *            process alone: the drives keep their caches, and lose them later.
 *            In half of these seeds drives are drained meanwhile, or their drain is taken back; a
 *            drive that has left is closed, and is pulled out at the next cut.  In half of the
 *            seeds, and in some copies, drives are added; a mount may have to do without the
 *            new one.
 *   mounts   as copies, at every write of a mount; and each copy is mounted twice.
 *   formats  as copies, at every write of a format over an older store: the drives have no store,
 *            or a whole new one (or the old one, while its superblocks are being erased).
 *
 * In a third of the seeds the drives keep only those writes in flight that the specification makes
 * them keep: of the others some are garbage then, and some cannot be read (sim_nvme.h,
 * cut_garbles).
 *
 * Checkpoints begin at any time, and in half of the seeds zones are used again as soon as they are
 * free: both are allowed at any time, and show a step that comes too early.
 *
 * Files are opened and held: used by handle also after they have lost their names, and let go, or
 * their clients' connections end.  After that, and after a cut, files without a name are gone.
 *
 * After each cut clients repeat the requests that were in flight: each change is made once.  In
 * copies, the appliance that mounts a copy is asked again, at one in four cuts.
 *
 * A seed that fails is made short by itself, and what is left is told (sim_shrink.c);
 * SIM_SHRINK=no: it is not.
 *
 * --minutes N is another simulation: each seed goes on for so long, with pauses, and all faults:
 * slow drives, full drives, a drive that fails, bits that rot, ends of the power, of the process.
 * Without arguments some of it follows the power cuts.
 *
 * usage: sim [--seed N] [--from N] [--cuts N | --minutes N --seeds N] [--only LIST] [--fates N]
 *            [--lie flush|fua] [--shrink] [--verbose] [--quiet]
 * --seed N tells what happens; --only 3,17,c2 leaves out all other events of it; --from begins
 * there.  --lie makes the drives break a promise: then a run must fail.
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_drives.h"
#include "test/sim/sim_run.h"
#include "base/clock.h"
#include "base/num.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- its list of events ------------------------------------------------------------------- */

struct sim_run sim_run = { .fates = 1, .from = 1, .seeds = 1 };

bool sim_run_has(uint64_t event)
{
	for (uint32_t i = 0; i < sim_run.only_count; i++)
		if (sim_run.only[i] == event)
			return true;
	return !sim_run.has_only;
}

static int in_order(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

bool sim_run_parse(const char *text)
{
	sim_run.has_only = true;
	for (const char *at = text; *at; at += *at == ',') {
		uint64_t kind = *at == 'c' ? SIM_CUT : *at == 'f' ? SIM_FAULT : 0, first, last;
		char *end;

		at += kind != 0 || *at == 'x';
		if (*at == ',' || !*at)
			continue;
		first = last = strtoull(at, &end, 10);
		if (end > at && *end == '-')
			last = strtoull(end + 1, &end, 10);
		if (end == at || (*end && *end != ','))
			return false;
		for (; first <= last; first++) {
			if (sim_run.only_count == SIM_ONLY_MAX)
				return false;
			sim_run.only[sim_run.only_count++] = kind + first;
		}
		at = end;
	}
	qsort(sim_run.only, sim_run.only_count, sizeof(*sim_run.only), in_order);
	return true;
}

void sim_run_tell(const struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	if (!sim_run.tell)
		return;
	printf("# %12.6f  ", (double)w->power.now_ns / 1e9);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

bool sim_run_failed(const char *where, const char *why)
{
	printf("not ok seed %llu, %llu cuts: %s: %s\n", (unsigned long long)sim_run.seed,
	       (unsigned long long)sim_run.cuts, where, why);
	if (sim_run.minutes)
		printf("  again: sim --minutes %llu --seed %llu\n",
		       (unsigned long long)sim_run.minutes, (unsigned long long)sim_run.seed);
	else
		printf("  again: make sim SEED=%llu\n", (unsigned long long)sim_run.seed);
	return false;
}

/* ---- the run ------------------------------------------------------------------------------ */

static const char *program;
static uint64_t proves; /* seeds of minutes, behind the power cuts */

/* SIM_SHRINK=no is for callers that only need to know whether it fails. */
static bool shrinks(void)
{
	return !sim_run.again && !getenv("SIM_SHRINK");
}

/* An assertion of the product's or of ours. */
static void on_abort(int signal_number)
{
	char seed[32], minutes[32];

	(void)signal_number;
	printf("# an assertion, after %llu cuts\n", (unsigned long long)sim_run.cuts);
	fflush(stdout);
	if (!shrinks())
		return; /* and abort() goes on */
	printf("not ok seed %llu: an assertion\n", (unsigned long long)sim_run.seed);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)sim_run.seed);
	fflush(stdout);
	snprintf(minutes, sizeof(minutes), "%llu", (unsigned long long)sim_run.minutes);
	execl(program, program, "--minutes", minutes, "--seed", seed, "--shrink", (char *)NULL);
}

static uint64_t number(const char *text)
{
	return text ? strtoull(text, NULL, 0) : 0;
}

static const char usage[] =
	"usage: sim [--seed N] [--cuts N] [--minutes N --seeds N] [--only LIST] [--shrink]\n"
	"           [--lie flush|fua]\n";

/* Takes an option with a value.  Returns false if `arg` is not one of these. */
static bool valued(const char *arg, const char *value)
{
	struct sim_run *r = &sim_run;

	if (strcmp(arg, "--seed") == 0) {
		r->from = number(value);
		r->one_seed = r->verbose = r->tell = true;
	} else if (strcmp(arg, "--from") == 0) {
		r->from = number(value);
	} else if (strcmp(arg, "--cuts") == 0) {
		r->cuts_wanted = number(value);
	} else if (strcmp(arg, "--minutes") == 0) {
		r->minutes = number(value);
	} else if (strcmp(arg, "--seeds") == 0) {
		r->seeds = number(value);
	} else if (strcmp(arg, "--fates") == 0) {
		r->fates = (uint32_t)number(value);
	} else if (strcmp(arg, "--only") == 0) {
		r->again = true;
		return sim_run_parse(value);
	} else if (strcmp(arg, "--lie") == 0) {
		r->faults.ignore_flush = strcmp(value, "flush") == 0;
		r->faults.ignore_fua = strcmp(value, "fua") == 0;
	} else {
		return false;
	}
	return true;
}

static void arguments(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");
	bool shrink = false;

	sim_run.cuts_wanted = length && strcmp(length, "proof") == 0  ? 1000000
			      : length && strcmp(length, "long") == 0 ? 40000
								      : 10000;
	if (argc == 1)
		proves = sim_run.cuts_wanted / 10000;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--shrink") == 0) {
			shrink = true;
		} else if (strcmp(argv[i], "--verbose") == 0) {
			sim_run.verbose = true;
		} else if (strcmp(argv[i], "--quiet") == 0) {
			sim_run.verbose = sim_run.tell = false;
		} else if (i + 1 >= argc || !valued(argv[i], argv[i + 1])) {
			fputs(usage, stderr);
			exit(2);
		} else {
			i++;
		}
	}
	if (shrink)
		sim_shrink(program, sim_run.from);
}

static void seed_told(uint64_t seed, uint64_t start, uint64_t before)
{
	printf("seed %llu: %llu cuts, %.1f ms each\n", (unsigned long long)seed,
	       (unsigned long long)(sim_run.cuts - before),
	       (double)(clock_cpu_ns() - start) / 1e6 / (double)max_u64(sim_run.cuts - before, 1));
}

static bool more(uint64_t seed)
{
	return sim_run.minutes ? seed < sim_run.from + sim_run.seeds
			       : sim_run.cuts < sim_run.cuts_wanted;
}

/* From the first on; *end: behind the last. */
static bool all_seeds(uint64_t *end)
{
	for (*end = sim_run.from; more(*end); ++*end) {
		uint64_t start = clock_cpu_ns(), before = sim_run.cuts;

		sim_run.seed = *end;
		sim_begins(*end);
		if (sim_run.minutes ? !sim_minutes(*end) : !sim_seed(*end)) {
			if (shrinks())
				sim_shrink(program, *end);
			return false;
		}
		if (sim_run.verbose)
			seed_told(*end, start, before);
		if (sim_run.one_seed)
			break;
	}
	return true;
}

static void tell_faults(void)
{
	printf("# %.0f simulated minutes: %llu blocks rotted, %llu answers showed one, %llu "
	       "changes refused for one; %llu times full; a drive failed %llu times, %llu answers "
	       "said so\n",
	       (double)sim_run.simulated_ns / 6e10, (unsigned long long)sim_run.rotted,
	       (unsigned long long)sim_rot_seen, (unsigned long long)sim_run.rot_refused,
	       (unsigned long long)sim_run.full, (unsigned long long)sim_run.drives_failed,
	       (unsigned long long)sim_run.broken);
}

int main(int argc, char **argv)
{
	uint64_t begin = clock_cpu_ns(), seed;

	program = argv[0];
	setvbuf(stdout, NULL, _IOLBF, 0);
	(void)mallopt(M_MMAP_THRESHOLD, 256 << 10); /* zeros that nobody looks at cost nothing */
	arguments(argc, argv);
	signal(SIGABRT, on_abort);
	if (!all_seeds(&seed))
		return 1;
	if (proves) { /* and then the other one */
		uint64_t last = 0;

		sim_run.minutes = 10;
		sim_run.seeds = proves;
		if (!all_seeds(&last))
			return 1;
	}
	if (sim_run.minutes)
		tell_faults();
	printf("# %llu changes were made where they were asked for, in shards that were lent\n",
	       (unsigned long long)sim_world_made);
	printf("# %llu files held, %llu requests for those without a name\n",
	       (unsigned long long)sim_run.opened, (unsigned long long)sim_run.nameless);
	printf("# %llu drives added, and %llu cuts meanwhile; of mounts without a new one %llu "
	       "served, %llu refused; %llu that came back late were not taken\n",
	       (unsigned long long)sim_drives_added, (unsigned long long)sim_run.cuts_while_added,
	       (unsigned long long)sim_run.served_without,
	       (unsigned long long)sim_run.refused_without, (unsigned long long)sim_run.not_taken);
	printf("ok %llu power cuts (%llu more in mounts), %llu ends of the process alone, drives "
	       "took no writes %llu times, %llu operations, %llu changes asked for again (%llu had "
	       "been made), %llu drives drained and pulled out, seeds %llu to %llu, %.0f s\n",
	       (unsigned long long)sim_run.cuts, (unsigned long long)sim_run.cuts_in_mounts,
	       (unsigned long long)sim_run.kills, (unsigned long long)sim_run.stuck,
	       (unsigned long long)sim_run.ops, (unsigned long long)sim_run.asked_again,
	       (unsigned long long)sim_run.had_been_made, (unsigned long long)sim_run.pulled,
	       (unsigned long long)sim_run.from,
	       (unsigned long long)(sim_run.one_seed ? sim_run.from : seed - 1),
	       (double)(clock_cpu_ns() - begin) / 1e9);
	return 0;
}
