/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Power cuts.  make sim SEED=n runs one seed again, exactly.
 *
 *   copies   a workload runs undisturbed; at every write that reaches a drive, copies of the
 *            drives are made as a power cut then would leave them, mounted by another appliance,
 *            and compared with what had been acknowledged.  Every boundary is seen.
 *   lives    the power is cut at a random write, also in a mount; the same drives go on, up to
 *            eight lives, so that recoveries of recoveries are seen.  Some lives end with the
 *            process alone: the drives keep their caches, and lose them later.
 *   mounts   as copies, at every write of a mount; and each copy is mounted twice.
 *   formats  as copies, at every write of a format over an older store: what is there is no store,
 *            or a whole new one (or the old one, while its superblocks are being taken away).
 *
 * In a third of the seeds the drives keep no more of what was on its way than the specification
 * makes them: some of it is garbage then, and some cannot be read (sim_nvme.h, cut_garbles).
 *
 * Checkpoints are begun at any time, and in half of the seeds zones are used again as soon as they
 * are free: both are as right as any other time, and show what comes too early.
 *
 * usage: sim [--seed N] [--cuts N] [--lie flush|fua] [--verbose]
 * --lie makes the drives break a promise: then a run must fail (test/sim/lies.sh).
 */
#include "test/sim/sim_load.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CKPT_ONE_IN 200u /* turns */

static struct {
	uint64_t seed;
	uint64_t cuts_wanted;
	bool one_seed;
	bool verbose;
	struct sim_faults faults;
	uint64_t cuts;
	uint64_t cuts_in_mounts;
	uint64_t kills;
	uint64_t formats; /* whole ones, of those that were cut */
	uint64_t ops;
} run;

static struct sim_world_cfg config_of(uint64_t seed)
{
	struct rand_state r;
	uint32_t dice = (uint32_t)(seed * 2654435761u) >> 16 & 7; /* most have one core */

	rand_seed(&r, seed);
	return (struct sim_world_cfg){
		.seed = seed,
		.ncores = dice == 6   ? 2
			  : dice == 7 ? 4
				      : 1,
		.ndrives = 1 + (uint32_t)rand_below(&r, 2),
		.nblocks = 512 + (uint32_t)rand_below(&r, 2) * 256,
		.volatile_cache = rand_below(&r, 4) != 0,
		.atomic_bytes = rand_below(&r, 3) ? 4096 : 512,
		.nshards = 1u << rand_below(&r, 3),
		.cache_bytes = 4u << 20,
		.ops_max = 4,
		.eager_reuse = rand_below(&r, 2),
		.cut_garbles = rand_below(&r, 3) == 0,
	};
}

/* Drives that take their time, so that much is in flight at once and ends in another order. */
static void set_faults(struct sim_world *w, uint64_t seed)
{
	struct sim_faults faults = run.faults;

	faults.delay_min_ns = seed % 3 ? 2000 : 0;
	faults.delay_max_ns = seed % 3 ? 2000 + (seed % 5) * 20000 : 0;
	sim_world_faults(w, &faults);
}

static bool failed(uint64_t seed, const char *where, const char *why)
{
	printf("not ok seed %llu, %llu cuts: %s: %s\n  again: make sim SEED=%llu\n",
	       (unsigned long long)seed, (unsigned long long)run.cuts, where, why,
	       (unsigned long long)seed);
	return false;
}

/* Mount what a cut left in `w`, compare, check. */
static bool survives(struct sim_world *w, struct sim_model *model, struct sim_load *l, bool settle,
		     uint64_t seed)
{
	int err = sim_world_begin(w, APP_BOOT_MOUNT);

	if (err)
		return failed(seed, "mount after a cut", w->why);
	if (!sim_verify(w, model, l, settle))
		return failed(seed, "after a cut", w->why);
	if (sim_world_check(w))
		return failed(seed, "after a cut", w->why);
	run.cuts++;
	return true;
}

/* ---- copies ------------------------------------------------------------------------------ */

static bool cut_here(struct sim_world *w, struct sim_world *copy, struct sim_model *model,
		     struct sim_load *l, uint64_t seed)
{
	uint64_t cut_seed = seed * 1000003 + w->power.write_count;
	bool good;

	sim_world_cut_copy(w, cut_seed, copy);
	if (!sim_roots_hold(copy, app_core_meta(w->core)) ||
	    !sim_heads_hold(copy, app_core_meta(w->core)))
		return failed(seed, "after a cut", copy->why);
	good = survives(copy, model, l, false, seed);
	if (good)
		sim_world_cut(copy, cut_seed);
	return good;
}

static bool copies(uint64_t seed, uint64_t ops)
{
	static struct sim_world w, copy;
	static struct sim_model model;
	static struct sim_load l;
	struct sim_world_cfg cfg = config_of(seed);
	struct rand_state r;
	uint64_t writes;
	bool good = true;

	rand_seed(&r, seed ^ 0xc0b1e5);
	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	set_faults(&w, seed);
	sim_load_init(&l, &w, &model, seed);
	writes = w.power.write_count;
	while (good && (l.done < ops || !sim_load_idle(&l))) {
		if (rand_below(&r, CKPT_ONE_IN) == 0)
			meta__ckpt_want(app_core_meta(w.core));
		good = sim_load_step(&l, l.done < ops) || failed(seed, "answer", l.why);
		if (good && w.power.write_count != writes) {
			writes = w.power.write_count;
			good = cut_here(&w, &copy, &model, &l, seed);
		}
	}
	good = good && (sim_verify(&w, &model, NULL, false) || failed(seed, "at the end", w.why));
	good = good && (sim_world_check(&w) == 0 || failed(seed, "at the end", w.why));
	run.ops += l.done;
	sim_load_forget(&l);
	sim_world_destroy(&w);
	sim_world_destroy(&copy);
	sim_model_clear(&model);
	return good;
}

/* ---- lives ------------------------------------------------------------------------------- */

/* Power comes back; it may be cut again before the mount is through. */
static bool come_back(struct sim_world *w, struct sim_model *model, struct sim_load *l,
		      struct rand_state *r, uint64_t seed)
{
	for (int tries = 0; tries < 3 && rand_below(r, 3) == 0; tries++) {
		int err;

		sim_power_cut_at(&w->power, 1 + rand_below(r, 12), rand_u64(r));
		err = sim_world_up(w, APP_BOOT_MOUNT);
		if (err && err != -ECANCELED)
			return failed(seed, "mount after a cut", w->why);
		sim_world_cut(w, rand_u64(r));
		run.cuts_in_mounts++;
	}
	sim_power_cut_at(&w->power, 0, 0);
	if (!survives(w, model, l, true, seed))
		return false;
	sim_load_forget(l);
	return true;
}

static bool life(struct sim_world *w, struct sim_model *model, struct sim_load *l,
		 struct rand_state *r, uint64_t seed)
{
	uint64_t end = w->power.write_count + 1 + rand_below(r, 120);
	bool process_only = rand_below(r, 3) == 0;

	set_faults(w, seed);
	if (!process_only)
		sim_power_cut_at(&w->power, end - w->power.write_count, rand_u64(r));
	while (!w->power.off && (!process_only || w->power.write_count < end)) {
		if (rand_below(r, CKPT_ONE_IN) == 0)
			meta__ckpt_want(app_core_meta(w->core));
		if (!sim_load_step(l, true))
			return failed(seed, "answer", l->why);
	}
	if (process_only)
		sim_world_kill(w, rand_u64(r));
	else
		sim_world_cut(w, 0);
	run.kills += process_only;
	return come_back(w, model, l, r, seed);
}

static bool lives(uint64_t seed)
{
	static struct sim_world w;
	static struct sim_model model;
	static struct sim_load l;
	struct sim_world_cfg cfg = config_of(seed);
	struct rand_state r;
	bool good = true;

	rand_seed(&r, seed ^ 0x11fe5);
	sim_world_create(&w, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	sim_load_init(&l, &w, &model, seed);
	for (int n = 0; n < 8 && good; n++)
		good = life(&w, &model, &l, &r, seed);
	if (good && sim_world_stop(&w))
		good = failed(seed, "a clean stop", w.why);
	good = good && survives(&w, &model, NULL, false, seed);
	run.ops += l.done;
	sim_load_forget(&l);
	sim_world_destroy(&w);
	sim_model_clear(&model);
	return good;
}

/* ---- mounts ------------------------------------------------------------------------------ */

static struct {
	struct sim_world w, copy;
	struct sim_model model;
	struct sim_load load;
	uint64_t seed, writes, begun;
	bool bad;
} mnt;

/* Drives as a cut now would leave them are mounted, cut at rest, and mounted again. */
static bool cut_in_mount(struct sim_world *w)
{
	uint64_t cut_seed = mnt.seed * 1000003 + w->power.write_count;

	if (w->power.write_count == mnt.writes)
		return true;
	mnt.writes = w->power.write_count;
	sim_world_cut_copy(w, cut_seed, &mnt.copy);
	for (int n = 0; n < 2 && !mnt.bad; n++) {
		mnt.bad = !survives(&mnt.copy, &mnt.model, &mnt.load, false, mnt.seed);
		if (!mnt.bad)
			sim_world_cut(&mnt.copy, cut_seed + 1);
	}
	return !mnt.bad;
}

static bool mounts(uint64_t seed)
{
	struct sim_world_cfg cfg = config_of(seed);
	struct rand_state r;
	bool good = true;

	rand_seed(&r, seed ^ 0x30047);
	mnt.seed = seed;
	mnt.bad = false;
	sim_world_create(&mnt.w, &cfg);
	sim_world_create(&mnt.copy, &cfg);
	if (sim_world_begin(&mnt.w, APP_BOOT_FORMAT))
		return failed(seed, "format", mnt.w.why);
	sim_load_init(&mnt.load, &mnt.w, &mnt.model, seed);
	for (int n = 0; good && n < 3; n++) {
		uint64_t until = mnt.load.done + 10 + rand_below(&r, 60);
		int err;

		set_faults(&mnt.w, seed);
		while (good && mnt.load.done < until)
			good = sim_load_step(&mnt.load, true) ||
			       failed(seed, "answer", mnt.load.why);
		if (!good)
			break;
		if (rand_below(&r, 2))
			sim_world_kill(&mnt.w, rand_u64(&r));
		else
			sim_world_cut(&mnt.w, rand_u64(&r));
		mnt.writes = mnt.w.power.write_count;
		mnt.w.booting = cut_in_mount;
		err = sim_world_up(&mnt.w, APP_BOOT_MOUNT);
		mnt.w.booting = NULL;
		if (mnt.bad)
			return false;
		if (err || sim_world_connect(&mnt.w))
			return failed(seed, "mount", mnt.w.why);
		good = sim_verify(&mnt.w, &mnt.model, &mnt.load, true) ||
		       failed(seed, "after a mount", mnt.w.why);
		sim_load_forget(&mnt.load);
	}
	run.ops += mnt.load.done;
	sim_world_cut(&mnt.w, seed);
	sim_world_destroy(&mnt.w);
	sim_world_destroy(&mnt.copy);
	sim_model_clear(&mnt.model);
	return good;
}

/* ---- formats ------------------------------------------------------------------------------ */

/* An older store with something in it. */
static bool older_store(struct sim_world *w, uint64_t seed)
{
	static struct sim_model model;
	static struct sim_load l;
	bool good = true;

	if (sim_world_begin(w, APP_BOOT_FORMAT))
		return failed(seed, "format", w->why);
	sim_load_init(&l, w, &model, seed);
	while (good && (l.done < 20 || !sim_load_idle(&l)))
		good = sim_load_step(&l, l.done < 20) || failed(seed, "answer", l.why);
	sim_load_forget(&l);
	sim_model_clear(&model);
	sim_world_cut(w, seed);
	return good;
}

/* What a format that the power cut short has left. */
/* old_too: the old superblocks are being taken away, and nothing else has been touched. */
static bool none_or_new(struct sim_world *w, uint64_t seed, bool old_too)
{
	static struct sim_model nothing;
	int err = sim_world_up(w, APP_BOOT_MOUNT);

	run.cuts++;
	if (err == -ENODATA) {
		sim_world_cut(w, seed);
		return true;
	}
	if (!err)
		err = sim_world_connect(w);
	if (err)
		return failed(seed, "mount after a cut in a format", w->why);
	if ((!old_too && !sim_verify(w, &nothing, NULL, false)) || sim_world_check(w))
		return failed(seed, "after a cut in a format", w->why);
	run.formats += !old_too;
	sim_world_cut(w, seed);
	return true;
}

/* Drives as a cut now would leave them, a few times: what is in flight may end in any way. */
static bool cut_in_format(struct sim_world *w)
{
	if (w->power.write_count == mnt.writes)
		return true;
	mnt.writes = w->power.write_count;
	for (uint64_t n = 0; n < 4 && !mnt.bad; n++) {
		sim_world_cut_copy(w, mnt.seed * 1000003 + mnt.writes * 4 + n, &mnt.copy);
		mnt.bad = !none_or_new(&mnt.copy, mnt.seed,
				       mnt.writes <= mnt.begun + 2 * w->cfg.ndrives);
	}
	return !mnt.bad;
}

static bool formats(uint64_t seed)
{
	struct sim_world_cfg cfg = config_of(seed);
	bool good = true;

	mnt.seed = seed;
	mnt.bad = false;
	sim_world_create(&mnt.w, &cfg);
	sim_world_create(&mnt.copy, &cfg);
	for (int n = 0; good && n < 2; n++) {
		good = older_store(&mnt.w, seed + (uint64_t)n);
		mnt.w.cfg.seed += 1ull << 32; /* another store: its uuid, its secret */
		set_faults(&mnt.w, seed);
		mnt.begun = mnt.writes = mnt.w.power.write_count;
		mnt.w.booting = cut_in_format;
		if (good && sim_world_up(&mnt.w, APP_BOOT_FORMAT))
			good = mnt.bad ? false : failed(seed, "format", mnt.w.why);
		mnt.w.booting = NULL;
		sim_world_cut(&mnt.w, seed);
	}
	sim_world_destroy(&mnt.w);
	sim_world_destroy(&mnt.copy);
	return good;
}

/* ---- the run ------------------------------------------------------------------------------ */

static uint64_t number(const char *text)
{
	return text ? strtoull(text, NULL, 0) : 0;
}

static void arguments(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");

	run.seed = 1;
	run.cuts_wanted = length && strcmp(length, "proof") == 0  ? 100000
			  : length && strcmp(length, "long") == 0 ? 40000
								  : 10000;
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];

		if (strcmp(arg, "--seed") == 0) {
			run.seed = number(argv[++i]);
			run.one_seed = run.verbose = true;
		} else if (strcmp(arg, "--cuts") == 0) {
			run.cuts_wanted = number(argv[++i]);
		} else if (strcmp(arg, "--verbose") == 0) {
			run.verbose = true;
		} else if (strcmp(arg, "--lie") == 0 && i + 1 < argc) {
			run.faults.ignore_flush = strcmp(argv[++i], "flush") == 0;
			run.faults.ignore_fua = strcmp(argv[i], "fua") == 0;
		} else {
			fprintf(stderr, "usage: sim [--seed N] [--cuts N] [--lie flush|fua]\n");
			exit(2);
		}
	}
}

static bool run_seed(uint64_t seed)
{
	if (seed % 32 == 0)
		return formats(seed);
	if (seed % 4 == 0)
		return lives(seed);
	return seed % 8 == 2 ? mounts(seed) : copies(seed, 60);
}

int main(int argc, char **argv)
{
	uint64_t begin = clock_now_ns(), seed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sim_world_tell_cuts(&run.cuts);
	arguments(argc, argv);
	for (seed = run.seed; run.cuts < run.cuts_wanted; seed++) {
		uint64_t start = clock_now_ns(), before = run.cuts;

		if (!run_seed(seed))
			return 1;
		if (run.verbose)
			printf("seed %llu: %llu cuts, %.1f ms each\n", (unsigned long long)seed,
			       (unsigned long long)(run.cuts - before),
			       (double)(clock_now_ns() - start) / 1e6 /
				       (double)max_u64(run.cuts - before, 1));
		if (run.one_seed)
			break;
	}
	printf("ok %llu power cuts (%llu more in mounts), %llu ends of the process alone, %llu "
	       "operations, seeds %llu to %llu, %.0f s\n",
	       (unsigned long long)run.cuts, (unsigned long long)run.cuts_in_mounts,
	       (unsigned long long)run.kills, (unsigned long long)run.ops,
	       (unsigned long long)run.seed,
	       (unsigned long long)(run.one_seed ? run.seed : seed - 1),
	       (double)(clock_now_ns() - begin) / 1e9);
	return 0;
}
