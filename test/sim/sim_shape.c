/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The shapes of sim.c's seeds: see there.
 *
 * In each of them an end of the power, or of the process, is a cut in the list of events (cN), and
 * slow, full or failing drives are faults in it (fN); sim_run.h.
 */
#include "test/sim/sim_run.h"
#include "test/sim/sim_drives.h"
#include "test/sim/sim_lan.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CKPT_ONE_IN 200u /* turns */
#define COPIES_OPS  60u
#define GROWS_OPS   100u
#define FORMAT_OPS  20u
#define LIVES       8u
#define LIFE_OPS    50u
#define MOUNTS      3u
#define MOUNT_OPS   80u
#define MORE_OPS    8u /* are begun while a cut is on its way */
#define BURST_OPS   30u
#define IDLE_TURNS  400u /* a cut that no write comes for comes anyway */

static struct rand_state turns; /* what is decided turn by turn is no event of the list */

static struct sim_world_cfg config_of(uint64_t seed)
{
	struct rand_state r;
	uint32_t dice = (uint32_t)(seed * 2654435761u) >> 16 & 7; /* most have one core */

	rand_seed(&r, seed);
	return (struct sim_world_cfg){
		.seed = seed,
		.lan = &sim_lan_sockets,
		.remember = true,
		.leap_max_ns = 20 * NS_PER_MS,
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
		.keeps_all = rand_below(&r, 4) == 0,
	};
}

/* Lives in which drives leave the store. */
static bool drains(uint64_t seed)
{
	return seed % 8 == 4;
}

/* ... and in which they come, of one store or of both kinds. */
static bool grows(uint64_t seed)
{
	return seed % 16 == 8 || seed % 16 == 12 || seed % 16 == 3;
}

/* Drives that take their time, so that much is in flight at once and ends in another order. */
static void set_delays(struct sim_world *w, uint64_t seed)
{
	struct sim_faults faults = sim_run.faults;

	faults.delay_min_ns = seed % 3 ? 2000 : 0;
	faults.delay_max_ns = seed % 3 ? 2000 + (seed % 5) * 20000 : 0;
	sim_world_faults(w, &faults);
}

static void begin_load(struct sim_load *l, struct sim_world *w, struct sim_model *model,
		       uint64_t seed)
{
	sim_load_init(l, w, model, seed);
	sim_load_everything(l);
	l->tell = sim_run.tell;
	l->only = sim_run.has_only ? sim_run.only : NULL;
	while (l->only && l->only_count < sim_run.only_count && l->only[l->only_count] < SIM_CUT)
		l->only_count++;
	rand_seed(&turns, seed ^ 0x7e57);
}

static bool failed(uint64_t seed, const char *where, const char *why)
{
	(void)seed;
	return sim_run_failed(where, why);
}

/* Mount what a cut left in `w`, compare, check. */
static bool survives(struct sim_world *w, struct sim_model *model, struct sim_load *l, bool settle,
		     uint64_t seed)
{
	int err = sim_world_begin(w, APP_BOOT_MOUNT);

	if (sim_is_refused_for(w, err))
		err = sim_world_begin(w, APP_BOOT_MOUNT);
	if (err)
		return failed(seed, "mount after a cut", w->why);
	if (!sim_verify(w, model, l, settle))
		return failed(seed, "after a cut", w->why);
	if (sim_world_check(w))
		return failed(seed, "after a cut", w->why);
	sim_run.cuts++;
	return true;
}

/* ---- copies ------------------------------------------------------------------------------ */

/* Repeats the requests that were in flight, to the appliance that has mounted the store after the
 * cut: each change must be made once. */
static bool asked_again(struct sim_world *w, const struct sim_model *model,
			const struct sim_load *was, uint64_t seed)
{
	static struct sim_model m;
	static struct sim_load l;
	bool good = true;

	sim_model_copy(&m, model);
	sim_load_copy(&l, was, w, &m);
	l.again = l.again_done = 0;
	l.tell = sim_run.tell;
	sim_load_resume(&l);
	while (good && !sim_load_idle(&l))
		good = sim_load_step(&l, false) || failed(seed, "asked again after a cut", l.why);
	good = good &&
	       (sim_verify(w, &m, NULL, false) || failed(seed, "asked again after a cut", w->why));
	good = good && (!sim_world_check(w) || failed(seed, "asked again after a cut", w->why));
	sim_run.asked_again += l.again;
	sim_run.had_been_made += l.again_done;
	sim_load_forget(&l);
	sim_model_clear(&m);
	return good;
}

static bool cut_here(struct sim_world *w, struct sim_world *copy, struct sim_model *model,
		     struct sim_load *l, uint64_t seed, uint64_t fate)
{
	uint64_t cut_seed = (seed * 1000003 + w->power.write_count) ^ fate << 48;
	bool good;

	sim_run.cuts_while_added += w->join.under_way;

	sim_world_cut_copy(w, cut_seed, copy);
	if (!sim_roots_hold(copy, app_core_meta(w->core)) ||
	    !sim_heads_hold(copy, app_core_meta(w->core)))
		return failed(seed, "after a cut", copy->why);
	if (sim_newest(copy) && cut_seed % 8 < 3) {
		good = sim_mount_without(copy, sim_newest(copy), model, l, false) != -EUCLEAN;
		sim_world_cut(copy, cut_seed);
		if (!good)
			return false;
		sim_world_cut_copy(w, cut_seed, copy);
	}
	good = survives(copy, model, l, false, seed);
	if (good && (fate || cut_seed % 4 == 0))
		good = asked_again(copy, model, l, seed);
	if (good)
		sim_world_cut(copy, cut_seed);
	return good;
}

static bool copies(uint64_t seed)
{
	static struct sim_world w, copy;
	static struct sim_model model;
	static struct sim_load l;
	struct sim_world_cfg cfg = config_of(seed);
	struct rand_state r;
	const uint32_t ops = grows(seed) ? GROWS_OPS : COPIES_OPS;
	uint64_t writes, comes_at;
	bool good = true;

	rand_seed(&r, seed ^ 0xc0b1e5);
	cfg.spares = grows(seed);
	comes_at = 1 + rand_below(&r, COPIES_OPS / 2);
	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	set_delays(&w, seed);
	begin_load(&l, &w, &model, seed);
	writes = w.power.write_count;
	while (good && (l.next < ops || !sim_load_idle(&l))) {
		if (rand_below(&turns, CKPT_ONE_IN) == 0)
			meta__ckpt_want(app_core_meta(w.core));
		if (cfg.spares && l.next >= comes_at && sim_run_has(SIM_FAULT)) {
			cfg.spares = 0;
			sim_run_tell(&w, "f0: a drive is added: %s",
				     strerror(-sim_drives_offer(&w)));
			writes = w.power.write_count; /* until it was offered nobody knew of it */
		}
		good = sim_load_step(&l, l.next < ops) || failed(seed, "answer", l.why);
		if (good && w.power.write_count != writes) {
			writes = w.power.write_count;
			for (uint64_t f = 0; good && f < sim_run.fates; f++)
				good = cut_here(&w, &copy, &model, &l, seed, f);
		}
	}
	good = good && (sim_verify(&w, &model, NULL, false) || failed(seed, "at the end", w.why));
	good = good && (sim_world_check(&w) == 0 || failed(seed, "at the end", w.why));
	good = good && (sim_load_holds(&l) || failed(seed, "at the end", l.why));
	good = good && (sim_load_all_let_go(&l, seed % 2) || failed(seed, "let go of all", l.why));
	sim_run.ops += l.done;
	sim_run.opened += l.opened;
	sim_run.nameless += l.nameless;
	sim_load_forget(&l);
	sim_world_destroy(&w);
	sim_world_destroy(&copy);
	sim_model_clear(&model);
	return good;
}

/* ---- lives ------------------------------------------------------------------------------- */

/* Somebody removes the new drive's line from the configuration, and puts it back, or not. */
static bool tries_without(struct sim_world *w, struct sim_model *model, struct sim_load *l,
			  struct rand_state *r, uint64_t seed)
{
	const uint32_t d = sim_newest(w);
	int err;

	if (!d || rand_below(r, 3))
		return true;
	err = sim_mount_without(w, d, model, l, drains(seed));
	if (err != -EUCLEAN)
		sim_world_cut(w, rand_u64(r));
	w->listed[d] = err || rand_below(r, 2);
	return err != -EUCLEAN;
}

/* Power comes back; it may be cut again before the mount is through. */
static bool come_back(struct sim_world *w, struct sim_model *model, struct sim_load *l,
		      struct rand_state *r, uint64_t seed)
{
	for (int tries = 0; tries < 3 && rand_below(r, 3) == 0; tries++) {
		int err;

		sim_power_cut_at(&w->power, 1 + rand_below(r, 12), rand_u64(r));
		err = sim_world_up(w, APP_BOOT_MOUNT);
		if (sim_is_refused_for(w, err))
			continue;
		if (err && err != -ECANCELED)
			return failed(seed, "mount after a cut", w->why);
		sim_world_cut(w, rand_u64(r));
		sim_run.cuts_in_mounts++;
	}
	sim_power_cut_at(&w->power, 0, 0);
	if (!tries_without(w, model, l, r, seed))
		return false;
	if (!survives(w, model, l, false, seed))
		return false;
	sim_load_resume(l);
	return true;
}

/* At any time, and above all while the roots move to another drive. */
static void checkpoint_now_and_then(struct sim_world *w)
{
	struct meta *m = app_core_meta(w->core);
	const bool moves = m->boot->adding && m->boot->drain.roots;

	if (rand_below(&turns, moves ? 4 : CKPT_ONE_IN) == 0)
		meta__ckpt_want(m);
}

/* Operations up to number `until`, and as many turns as `writes` more writes take. */
static bool work(struct sim_world *w, struct sim_load *l, uint64_t until, uint64_t writes)
{
	uint64_t end = UINT64_MAX;

	for (uint32_t idle = 0; !w->power.off && idle < IDLE_TURNS; idle++) {
		if (l->next >= until && end == UINT64_MAX) {
			end = w->power.write_count + writes;
			idle = 0;
		}
		if (w->power.write_count >= end)
			return true;
		if (end == UINT64_MAX)
			idle = 0;
		checkpoint_now_and_then(w);
		if (!sim_load_step(l, l->next < until + MORE_OPS))
			return false;
	}
	return true;
}

static void drive_comes_or_goes(struct sim_world *w, uint64_t seed, uint64_t n)
{
	struct rand_state r;
	uint32_t d;
	bool back;
	int err;

	rand_seed(&r, seed * 977 + n);
	if (w->power.off || !sim_run_has(SIM_FAULT + n))
		return;
	if (grows(seed) && (!drains(seed) || rand_below(&r, 2) == 0)) {
		err = sim_drives_offer(w);
		sim_run_tell(w, "f%llu: a drive is added: %s", (unsigned long long)n,
			     strerror(-err));
		return;
	}
	for (d = (uint32_t)rand_below(&r, w->places); w->pulled[d];)
		d = (d + 1) % w->places;
	back = rand_below(&r, 4) == 0;
	err = back ? meta_drive_undrain(app_core_meta(w->core), d)
		   : meta_drive_drain(app_core_meta(w->core), d);
	sim_run_tell(w, "f%llu: drive %u is to %s: %s", (unsigned long long)n, d,
		     back ? "stay" : "leave", strerror(-err));
}

/* Nobody needs what is gone any more, however soon. */
static void pull_out(struct sim_world *w, uint64_t gone)
{
	for (uint32_t d = 0; d < w->sims; d++) {
		if (w->pulled[d] || !(gone >> d & 1))
			continue;
		sim_run_tell(w, "drive %u is pulled out", d);
		w->pulled[d] = true;
		sim_run.pulled++;
	}
}

/* Drives refuse all or some writes for a while, and then take them again. */
static bool takes_no_writes(struct sim_world *w, struct sim_load *l, struct rand_state *r,
			    uint64_t seed)
{
	const uint32_t ppm = rand_below(r, 2) ? 1000000 : 300000;
	const uint64_t one = rand_below(r, w->sims + 1); /* or all */
	const uint64_t steps = 20 + rand_below(r, 200);

	for (uint32_t d = 0; d < w->sims; d++) {
		struct sim_faults faults = sim_run.faults;

		faults.delay_max_ns = 2000;
		faults.write_error_ppm = one == d || one == w->sims ? ppm : 0;
		sim_drive_faults(w->sim[d], &faults);
	}
	sim_run_tell(w, "drive %llu of %u takes no writes, for %llu turns", (unsigned long long)one,
		     w->sims, (unsigned long long)steps);
	l->breaks = true; /* after an error a client's write may be done or not */
	for (uint64_t i = 0; i < steps; i++)
		if (!sim_load_step(l, i < steps / 2))
			return failed(seed, "answer, with drives that take no writes", l->why);
	set_delays(w, seed);
	sim_run.stuck++;
	ASSERT(meta_health(app_core_meta(w->core)) == 0);
	return true;
}

static bool life(struct sim_world *w, struct sim_model *model, struct sim_load *l,
		 struct rand_state *r, uint64_t seed, uint64_t cut)
{
	uint64_t until = cut * LIFE_OPS + 1 + rand_below(r, LIFE_OPS - MORE_OPS);
	uint64_t writes = 1 + rand_below(r, 12), cut_seed = rand_u64(r), gone;
	bool process_only = rand_below(r, 3) == 0;

	set_delays(w, seed);
	if (drains(seed) || grows(seed)) {
		if (!work(w, l, until - until % LIFE_OPS / 2, 0))
			return failed(seed, "answer", l->why);
		drive_comes_or_goes(w, seed, cut);
		writes += cut_seed % 2 ? cut_seed / 2 % 200 : 0;
	}
	if (!sim_run_has(SIM_CUT + cut))
		return true;
	if (w->cfg.patient && rand_below(r, 3) == 0 && !takes_no_writes(w, l, r, seed))
		return false;
	if (!work(w, l, until, writes))
		return failed(seed, "answer", l->why);
	gone = app_core_drives_gone(w->core);
	sim_run.cuts_while_added += w->join.under_way;
	sim_run_tell(w, "c%llu: %s", (unsigned long long)cut,
		     process_only ? "the process ends" : "the power is cut");
	if (process_only)
		sim_world_kill(w, cut_seed);
	else
		sim_world_cut(w, cut_seed);
	sim_run.kills += process_only;
	l->breaks = false;
	pull_out(w, gone);
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
	if (drains(seed)) /* of one alone both copies of the roots leave at once */
		cfg.ndrives = grows(seed) ? 1 : 4;
	cfg.spares = grows(seed) ? 5 : 0;
	cfg.patient = !drains(seed) && !grows(seed);
	sim_world_create(&w, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	begin_load(&l, &w, &model, seed);
	for (uint64_t n = 0; n < LIVES && good; n++)
		good = life(&w, &model, &l, &r, seed, n);
	while (good && !sim_load_idle(&l))
		good = sim_load_step(&l, false) || failed(seed, "answer", l.why);
	good = good && (sim_load_holds(&l) || failed(seed, "at the end", l.why));
	if (good && sim_world_stop(&w))
		good = failed(seed, "a clean stop", w.why);
	sim_model_let_go(&model);
	good = good && survives(&w, &model, NULL, false, seed);
	good = good && (sim_load_all_let_go(&l, false) || failed(seed, "let go of all", l.why));
	sim_run.ops += l.done;
	sim_run.opened += l.opened;
	sim_run.nameless += l.nameless;
	sim_run.asked_again += l.again;
	sim_run.had_been_made += l.again_done;
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
	begin_load(&mnt.load, &mnt.w, &mnt.model, seed);
	for (uint64_t n = 0; good && n < MOUNTS; n++) {
		uint64_t until = n * MOUNT_OPS + 10 + rand_below(&r, MOUNT_OPS - 20);
		uint64_t cut = rand_u64(&r);
		bool process_only = rand_below(&r, 2);
		int err;

		if (!sim_run_has(SIM_CUT + n))
			continue;
		set_delays(&mnt.w, seed);
		good = work(&mnt.w, &mnt.load, until, 1 + cut % 8) ||
		       failed(seed, "answer", mnt.load.why);
		if (!good)
			break;
		sim_run_tell(&mnt.w, "c%llu: %s", (unsigned long long)n,
			     process_only ? "the process ends" : "the power is cut");
		if (process_only)
			sim_world_kill(&mnt.w, cut);
		else
			sim_world_cut(&mnt.w, cut);
		mnt.writes = mnt.w.power.write_count;
		mnt.w.booting = cut_in_mount;
		err = sim_world_up(&mnt.w, APP_BOOT_MOUNT);
		mnt.w.booting = NULL;
		if (mnt.bad)
			return false;
		if (err || sim_world_connect(&mnt.w))
			return failed(seed, "mount", mnt.w.why);
		good = sim_verify(&mnt.w, &mnt.model, &mnt.load, false) ||
		       failed(seed, "after a mount", mnt.w.why);
		sim_load_resume(&mnt.load);
	}
	sim_run.ops += mnt.load.done;
	sim_run.asked_again += mnt.load.again;
	sim_run.had_been_made += mnt.load.again_done;
	sim_load_forget(&mnt.load);
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
	begin_load(&l, w, &model, seed);
	while (good && (l.next < FORMAT_OPS || !sim_load_idle(&l)))
		good = sim_load_step(&l, l.next < FORMAT_OPS) || failed(seed, "answer", l.why);
	sim_load_forget(&l);
	sim_model_clear(&model);
	sim_world_cut(w, seed);
	return good;
}

/* Checks the drives after a power cut in a format: no store, or a whole new one. old_too: the old
 * superblocks are being erased, and nothing else has been touched. */
static bool none_or_new(struct sim_world *w, uint64_t seed, bool old_too)
{
	static struct sim_model nothing;
	int err = sim_world_up(w, APP_BOOT_MOUNT);

	sim_run.cuts++;
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
	sim_run.formats += !old_too;
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
		set_delays(&mnt.w, seed);
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

/* ---- all of them --------------------------------------------------------------------------- */

bool sim_seed(uint64_t seed)
{
	if (seed % 32 == 0)
		return formats(seed);
	if (seed % 4 == 0)
		return lives(seed);
	return seed % 8 == 2 ? mounts(seed) : copies(seed);
}

/* ---- minutes ------------------------------------------------------------------------------- */

/* The end of a burst of operations. */
enum ending { END_PAUSE, END_CUT, END_KILL, END_DRIVE, END_ROT };

static struct {
	struct sim_world w;
	struct sim_model model;
	struct sim_load l;
} min;

/* One drive takes much longer for some of its commands. */
static uint64_t dawdle(void *user, const struct nvme_soft_cmd *cmd)
{
	uint64_t dice = (cmd->offset_bytes / BLOCK_SIZE + *(uint64_t *)user) * 2654435761u;

	return dice >> 16 & 7 ? 0 : 3 * NS_PER_MS;
}

static void set_burst(uint64_t burst, struct rand_state *r)
{
	struct sim_faults faults = sim_run.faults;
	uint32_t slow = (uint32_t)rand_below(r, min.w.cfg.ndrives);

	faults.delay_min_ns = 2000;
	faults.delay_max_ns = 2000 + rand_below(r, 100000);
	sim_world_faults(&min.w, &faults);
	faults.dawdle_ns = dawdle;
	faults.dawdle_user = &min.w.power.write_count;
	min.l.big = burst / 16 % 3 == 1; /* for a while: the drives are full then */
	if (burst % 4 == 3 && sim_run_has(SIM_FAULT + burst))
		sim_drive_faults(min.w.sim[slow], &faults);
}

/* Makes a drive fail all commands: changes that were in flight may be done or not. */
static void drive_fails(struct rand_state *r)
{
	const struct sim_faults dead = { .read_error_ppm = 1000000,
					 .write_error_ppm = 1000000,
					 .flush_error_ppm = 1000000 };

	sim_drive_faults(min.w.sim[rand_below(r, min.w.cfg.ndrives)], &dead);
	min.l.breaks = true;
	sim_run.drives_failed++;
	for (uint32_t i = 0; i < IDLE_TURNS; i++)
		ASSERT(sim_load_step(&min.l, i < IDLE_TURNS / 4));
}

static bool back_again(uint64_t seed)
{
	if (!survives(&min.w, &min.model, &min.l, false, seed))
		return false;
	sim_load_resume(&min.l);
	return true;
}

static bool end_burst(uint64_t seed, uint64_t burst, struct rand_state *r)
{
	static const enum ending endings[] = { END_PAUSE, END_PAUSE, END_PAUSE, END_PAUSE, END_CUT,
					       END_CUT,   END_KILL,  END_DRIVE, END_ROT };
	static const char *const told[] = { "", "the power is cut", "the process ends",
					    "a drive fails", "a bit rots, and the power is cut" };
	enum ending end = endings[rand_below(r, ARRAY_LEN(endings))];
	uint64_t dice = rand_u64(r);

	if (end == END_PAUSE || !sim_run_has(SIM_CUT + burst))
		return true;
	sim_run_tell(&min.w, "c%llu: %s", (unsigned long long)burst, told[end]);
	if (end == END_DRIVE)
		drive_fails(r);
	sim_run.kills += end == END_KILL;
	if (end == END_DRIVE || end == END_KILL)
		sim_world_kill(&min.w, dice);
	else
		sim_world_cut(&min.w, dice);
	min.l.breaks = false;
	sim_world_faults(&min.w, &(struct sim_faults){ 0 });
	if (end == END_ROT)
		sim_run.rotted += sim_load_rot(&min.l, r);
	return back_again(seed);
}

static bool pause_for(uint64_t ns)
{
	const uint64_t until = min.w.power.now_ns + ns;

	while (min.w.power.now_ns < until)
		if (!sim_load_step(&min.l, false))
			return false;
	return true;
}

static bool burst(uint64_t seed, uint64_t n, struct rand_state *r)
{
	rand_seed(r, seed * 977 + n);
	set_burst(n, r);
	if (!work(&min.w, &min.l, n * BURST_OPS + 1 + rand_below(r, BURST_OPS - MORE_OPS - 1),
		  rand_below(r, 8)) ||
	    !pause_for(rand_below(r, 4 * NS_PER_S)))
		return failed(seed, "answer", min.l.why);
	return end_burst(seed, n, r);
}

bool sim_minutes(uint64_t seed)
{
	struct sim_world_cfg cfg = config_of(seed);
	uint64_t begin;
	struct rand_state r;
	bool good = true;

	sim_world_create(&min.w, &cfg);
	if (sim_world_begin(&min.w, APP_BOOT_FORMAT))
		return failed(seed, "format", min.w.why);
	begin_load(&min.l, &min.w, &min.model, seed);
	min.l.names = 6;
	begin = min.w.power.now_ns;
	for (uint64_t n = 0; good && min.w.power.now_ns - begin < sim_run.minutes * 60 * NS_PER_S;
	     n++)
		good = burst(seed, n, &r);
	while (good && !sim_load_idle(&min.l))
		good = sim_load_step(&min.l, false) || failed(seed, "answer", min.l.why);
	good = good && (sim_verify(&min.w, &min.model, NULL, false) ||
			failed(seed, "at the end", min.w.why));
	good = good && (!sim_world_check(&min.w) || failed(seed, "at the end", min.w.why));
	if (!good)
		return false;
	sim_run.simulated_ns += min.w.power.now_ns - begin;
	sim_run.ops += min.l.done;
	sim_run.full += min.l.full;
	sim_run.rot_refused += min.l.refused;
	sim_run.broken += min.l.broken;
	sim_run.asked_again += min.l.again;
	sim_run.had_been_made += min.l.again_done;
	sim_load_forget(&min.l);
	sim_world_destroy(&min.w);
	sim_model_clear(&min.model);
	return true;
}

void sim_seed_events(uint64_t seed, uint32_t *ops, uint32_t *cuts, uint32_t *faults)
{
	if (sim_run.minutes) { /* a burst takes two seconds, more or less */
		*cuts = *faults = (uint32_t)min_u64(sim_run.minutes * 40, 500);
		*ops = *cuts * BURST_OPS;
		return;
	}
	*cuts = 0;
	*faults = grows(seed);
	*ops = seed % 32 == 0 ? FORMAT_OPS : grows(seed) ? GROWS_OPS : COPIES_OPS;
	if (seed % 32 && seed % 4 == 0) {
		*ops = LIVES * LIFE_OPS;
		*cuts = LIVES;
		*faults = drains(seed) || grows(seed) ? LIVES : 0;
	} else if (seed % 8 == 2) {
		*ops = MOUNTS * MOUNT_OPS;
		*cuts = MOUNTS;
	}
}
