/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Blocks go bad in a store of two copies, one at a time: one bit flips, or the whole block becomes
 * something else.  Nothing that lives is lost, and everything is mended.
 *
 * A store is filled and stopped, or cut off while it is quiet; its drives are kept as images, of
 * which each block is known, second copies too.  Then, thousands of times, a block of one drive is
 * damaged, and an appliance mounts the store, reads every file, checks it, and scrubs it:
 *
 *   data of a file    a read of a damaged first copy does not match its sum; asked again in doubt,
 *                     it is answered from the other copy; the scrub mends the copy in its place
 *   a page            every read, the check and the mount use the other copy; the scrub mends it,
 *                     unless a checkpoint has written the page elsewhere meanwhile
 *   a superblock, a   the mount goes on with the other copy and names this one
 *   root, a zone
 *   header, a block
 *   of the log
 *   anything else     nothing changes
 *
 * Always: the mount succeeds, no wrong byte is returned as good, no file is refused, the check and
 * the scrub find nothing that stays damaged, and two mounts later nothing is said any more.
 *
 * usage: heal [--seed N] [--spoils N]
 */
#include "appliance/media/app_lines.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/meta_twins.h"
#include "test/sim/sim_args.h"
#include "test/sim/sim_map.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPOILS_A_STORE 250u
#define DRIVES         3u

static struct sim_world w;
static struct sim_model model;
static struct sim_load load;
static struct sim_map map, after;
static bool second[DRIVES][SIM_MAP_BLOCKS]; /* the block is a second copy */
static bool alone[DRIVES][SIM_MAP_BLOCKS];  /* it has none: its zone is not in a pair yet */
static uint64_t spoils_done;
static struct {
	uint64_t spoils, in_second, doubted, healed, moved, said;
} counts[SIM_LIVES];

static struct app_core_stat stat;
static char said[APP_WHY]; /* by the mount */
static char reason[512];

__attribute__((format(printf, 1, 2))) static bool no(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	return false;
}

static bool failed(uint64_t seed, const char *why)
{
	printf("not ok seed %llu, number %llu: %s\n", (unsigned long long)seed,
	       (unsigned long long)spoils_done, why);
	return false;
}

/* ---- reading ------------------------------------------------------------------------------ */

enum answer { GOOD, DOUBT, BAD };

/* Each block matches its sum and is what was written; one that does not match is DOUBT. */
static enum answer judge_blocks(const struct sim_call *c, const struct fab_answer *a,
				const struct sim_state *s)
{
	enum answer as = GOOD;

	if (a->length_bytes != s->size)
		return BAD;
	for (uint32_t b = 0; b * BLOCK_SIZE < s->size; b++) {
		const uint8_t *block = c->window + a->data_at + b * BLOCK_SIZE;
		const uint32_t bytes = min_u32(s->size - b * BLOCK_SIZE, BLOCK_SIZE);

		if (crc32c(block, BLOCK_SIZE) != fab_answer_sum(&c->call, a, b))
			as = DOUBT;
		else if (memcmp(block, s->bytes + b * BLOCK_SIZE, bytes) != 0)
			return BAD;
	}
	return as;
}

static enum answer read_file(const struct sim_map_file *f, bool doubt)
{
	struct fab_read_item item = {
		.name = { .by = FAB_BY_PATH,
			  .name = f->path,
			  .name_bytes = (uint16_t)strlen(f->path) },
		.length_bytes = FAB_TO_END,
	};
	struct sim_call *c = sim_world_call(&w);
	struct fab_answer a;

	c->call.type = FAB_READ_BATCH;
	c->call.doubt = doubt;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &item;
	ASSERT(sim_world_do(&w, c, true) == 0);
	if (c->call.status || fab_call_answer(&c->call, 0, &a) || a.status)
		return BAD;
	return judge_blocks(c, &a, f->state);
}

/* Every file, as a client reads it: again in doubt, if its bytes did not match. */
static bool read_all(const struct sim_owner *o, bool first_copy)
{
	for (uint32_t i = 0; i < map.nfiles; i++) {
		const bool hit = o->life == SIM_DATA && o->file == i && first_copy;
		enum answer as = read_file(&map.file[i], false);

		if (as == DOUBT && !hit)
			return no("%s: a block does not match, and none is damaged",
				  map.file[i].path);
		if (as == DOUBT) {
			counts[o->life].doubted++;
			as = read_file(&map.file[i], true);
		}
		if (as != GOOD)
			return no("%s is not what it was (%d)", map.file[i].path, as);
	}
	return true;
}

/* ---- mending ------------------------------------------------------------------------------ */

/* A whole round, which began when nothing changed any more, and what it has to do at its end. */
static void scrub(void)
{
	struct sim_call *none[1];
	uint64_t until;

	app_core_stat(w.core, &stat);
	until = stat.scrub_rounds + 2;
	for (uint32_t i = 0; stat.scrub_rounds < until; i++) {
		ASSERT(i < 1000000);
		(void)!sim_world_step(&w, none, 0);
		app_core_stat(w.core, &stat);
	}
}

static bool is_same(uint32_t drive, uint32_t block)
{
	return memcmp(sim_drive_visible(w.sim[drive]) + (uint64_t)block * BLOCK_SIZE,
		      map.image[drive] + (uint64_t)block * BLOCK_SIZE, BLOCK_SIZE) == 0;
}

/* Does a page still lie there?  A mount that replays writes pages elsewhere. */
static bool page_lives(const struct sim_owner *o)
{
	const struct sim_owner *now =
		&after.owner[META_BADDR_DRIVE(o->baddr)][META_BADDR_BLOCK(o->baddr)];

	after.ndrives = DRIVES;
	for (uint32_t d = 0; d < DRIVES; d++)
		after.image[d] = sim_drive_visible(w.sim[d]);
	sim_map_make(&after, &w, &model);
	return now->life == SIM_PAGE;
}

static bool is_mended(const struct sim_owner *o, uint32_t drive, uint32_t block)
{
	if (stat.scrub_bad_blocks + stat.scrub_bad_pages)
		return no("the scrub counts %llu pages and %llu blocks: %s",
			  (unsigned long long)stat.scrub_bad_pages,
			  (unsigned long long)stat.scrub_bad_blocks, app_core_scrub_line(w.core));
	if (o->life != SIM_DATA && o->life != SIM_PAGE)
		return stat.scrub_healed == 0 || no("%llu copies were mended, and none was damaged",
						    (unsigned long long)stat.scrub_healed);
	if (o->life == SIM_PAGE && stat.scrub_healed == 0 && !page_lives(o)) {
		counts[o->life].moved++;
		return true;
	}
	if (stat.scrub_healed != 1)
		return no("%llu copies were mended, not one",
			  (unsigned long long)stat.scrub_healed);
	counts[o->life].healed++;
	return is_same(drive, block) || no("it was mended, and is not what it was");
}

/* The mount names what it met, if it had to meet it. */
static bool says(const struct sim_owner *o, uint32_t drive)
{
	char text[96] = "";

	if (o->life == SIM_SUPER)
		snprintf(text, sizeof(text), "drive %u: %s superblock", drive,
			 o->copy ? "second" : "first");
	else if (o->life == SIM_ROOT)
		snprintf(text, sizeof(text), "shard %u: copy %u of a root", o->shard, o->copy);
	else if (o->life == SIM_HEADER)
		snprintf(text, sizeof(text), "header of zone %u is damaged", o->zone);
	else if (o->life == SIM_LOG)
		snprintf(text, sizeof(text), "a copy of the log is damaged");
	counts[o->life].said += *said != 0;
	if (!*text)
		return !*said || o->life == SIM_LOG_END || no("the mount says: %s", said);
	return strstr(said, text) || no("the mount says '%s', not '%s'", said, text);
}

static bool mount(void)
{
	const int err = sim_world_begin(&w, APP_BOOT_MOUNT);

	if (err)
		return no("the mount is refused: %s", w.why);
	snprintf(said, sizeof(said), "%s", meta_error(app_core_meta(w.core)));
	return true;
}

static bool check(void)
{
	struct meta_check found;

	(void)!sim_world_check_all(&w, &found);
	return found.problems == 0 || no("the check says: %s", found.first[0]);
}

/* Stopped and mounted twice: each slot of the roots has been written again. */
static bool nothing_is_left(const struct sim_owner *o)
{
	for (int i = 0; i < 2; i++) {
		if (sim_world_stop(&w))
			return no("the stop fails: %s", w.why);
		if (!mount())
			return false;
	}
	return !*said ? read_all(o, false) : no("two mounts later one says: %s", said);
}

static bool comes_through(const struct sim_owner *o, uint32_t drive, uint32_t block)
{
	bool good = mount() && says(o, drive) && read_all(o, !second[drive][block]) && check();

	if (good)
		scrub();
	good = good && is_mended(o, drive, block) && read_all(o, false);
	return good && (spoils_done % 4 || nothing_is_left(o));
}

/* ---- damage ------------------------------------------------------------------------------- */

/* A block of this life, if there is one; else any that has another copy, or does not live. */
static void choose(struct rand_state *r, enum sim_life want, uint32_t *drive, uint32_t *block)
{
	for (int tries = 0; tries < 4000 || alone[*drive][*block]; tries++) {
		*drive = (uint32_t)rand_below(r, DRIVES);
		*block = (uint32_t)rand_below(r, w.cfg.nblocks);
		if (map.owner[*drive][*block].life == want && !alone[*drive][*block])
			return;
	}
}

/* One bit, or half of all. */
static void damage(struct rand_state *r, uint32_t drive, uint32_t block)
{
	const uint64_t at = (uint64_t)block * BLOCK_SIZE;
	const uint32_t bit = (uint32_t)rand_below(r, BLOCK_SIZE * 8);

	sim_drive_flip(w.sim[drive], at + bit / 8, bit % 8);
	for (uint32_t i = 0; spoils_done % 2 && i < BLOCK_SIZE * 8; i++)
		if (i != bit && rand_below(r, 2))
			sim_drive_flip(w.sim[drive], at + i / 8, i % 8);
}

static bool spoil_one(uint64_t seed, struct rand_state *r)
{
	const struct sim_owner *o;
	uint32_t drive, block;
	bool good;

	choose(r, (enum sim_life)rand_below(r, SIM_LIVES), &drive, &block);
	o = &map.owner[drive][block];
	for (uint32_t i = 0; i < DRIVES; i++)
		sim_drive_restore(w.sim[i], map.image[i]);
	damage(r, drive, block);
	counts[o->life].spoils++;
	counts[o->life].in_second += second[drive][block];
	good = comes_through(o, drive, block);
	sim_world_cut(&w, spoils_done);
	if (good)
		return true;
	printf("# drive %u block %u, of %s%s\n", drive, block, sim_life_names[o->life],
	       second[drive][block] ? ", second copy" : "");
	return failed(seed, reason);
}

/* ---- a store ------------------------------------------------------------------------------ */

/* Nothing more comes, nothing is in flight, and the log has vouched for its last block. */
static void rest(void)
{
	for (int i = 0; i < 500; i++) {
		struct sim_call *none[1];

		(void)!sim_world_step(&w, none, 0);
	}
}

/* No file has two names: each block is one file's, by which the map knows it. */
static const enum sim_kind mix[] = {
	SIM_PUT,    SIM_PUT,    SIM_PUT,      SIM_PUT,    SIM_WRITE, SIM_WRITE,    SIM_APPEND,
	SIM_APPEND, SIM_CHMOD,  SIM_TRUNCATE, SIM_UNLINK, SIM_MKDIR, SIM_MKDIR,    SIM_RMDIR,
	SIM_RENAME, SIM_RENAME, SIM_SYMLINK,  SIM_READ,   SIM_READ,  SIM_LONG_PUT, SIM_EXCHANGE,
};

/* The second copy of each page and block. */
static void map_twins(void)
{
	const struct meta_twins *t = meta_twins(app_core_meta(w.core));

	memset(second, 0, sizeof(second));
	memset(alone, 0, sizeof(alone));
	for (uint32_t d = 0; d < DRIVES; d++)
		for (uint32_t b = 0; b < w.cfg.nblocks; b++) {
			const struct sim_owner *o = &map.owner[d][b];
			const uint64_t to = meta_twin_of(t, META_BADDR(d, b));

			if ((o->life != SIM_DATA && o->life != SIM_PAGE) || second[d][b])
				continue;
			alone[d][b] = !to;
			if (!to)
				continue;
			ASSERT(map.owner[META_BADDR_DRIVE(to)][META_BADDR_BLOCK(to)].life ==
			       SIM_DEAD);
			map.owner[META_BADDR_DRIVE(to)][META_BADDR_BLOCK(to)] = *o;
			second[META_BADDR_DRIVE(to)][META_BADDR_BLOCK(to)] = true;
		}
}

static void keep_images(void)
{
	map.ndrives = DRIVES;
	for (uint32_t i = 0; i < DRIVES; i++) {
		uint8_t *image = malloc(sim_drive_bytes(w.sim[i]));

		ASSERT(image);
		memcpy(image, sim_drive_durable(w.sim[i]), sim_drive_bytes(w.sim[i]));
		map.image[i] = image;
	}
}

static bool fill(uint64_t seed)
{
	struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = DRIVES,
		.copies = 2,
		.nblocks = SIM_MAP_BLOCKS,
		.volatile_cache = true,
		.atomic_bytes = 4096,
		.nshards = seed % 4 < 2 ? 1 : 4,
		.cache_bytes = 4u << 20,
		.ops_max = 4,
		.scrub_rate = 1ull << 40,
	};

	sim_world_create(&w, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, w.why);
	sim_load_init(&load, &w, &model, seed);
	load.names = 12;
	load.mix = mix;
	load.mix_count = ARRAY_LEN(mix);
	while (load.done < 500 || !sim_load_idle(&load))
		if (!sim_load_step(&load, load.done < 500))
			return failed(seed, load.why);
	if (seed % 3) {
		rest();
		sim_world_cut(&w, seed);
	} else if (sim_world_stop(&w)) {
		return failed(seed, w.why);
	}
	keep_images();
	/* Mounted once more, untouched, to ask it what is where. */
	if (sim_world_begin(&w, APP_BOOT_MOUNT) || !sim_verify(&w, &model, NULL, false))
		return failed(seed, w.why);
	sim_map_make(&map, &w, &model);
	map_twins();
	sim_world_cut(&w, seed);
	return true;
}

static void empty(void)
{
	for (uint32_t i = 0; i < DRIVES; i++)
		free((void *)(uintptr_t)map.image[i]);
	sim_world_destroy(&w);
	sim_model_clear(&model);
}

static bool has_happened(void)
{
	return counts[SIM_LOG].spoils && counts[SIM_PAGE].healed && counts[SIM_PAGE].in_second &&
	       counts[SIM_DATA].doubted && counts[SIM_DATA].in_second && counts[SIM_ROOT].spoils;
}

static void report(void)
{
	for (int i = 0; i < SIM_LIVES; i++)
		printf("# %-20s %6llu damaged (%5llu second copies): %5llu mended in place, %5llu "
		       "written elsewhere, %5llu reads in doubt, %5llu named by a mount\n",
		       sim_life_names[i], (unsigned long long)counts[i].spoils,
		       (unsigned long long)counts[i].in_second,
		       (unsigned long long)counts[i].healed, (unsigned long long)counts[i].moved,
		       (unsigned long long)counts[i].doubted, (unsigned long long)counts[i].said);
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "spoils", sim_args_few(1200, 2), 20000);
	uint64_t begin = clock_now_ns(), seed = args.seed;
	struct rand_state r;

	rand_seed(&r, seed);
	for (; spoils_done < args.count; seed++) {
		if (!fill(seed))
			return 1;
		for (uint32_t i = 0; i < SPOILS_A_STORE && spoils_done < args.count;
		     i++, spoils_done++)
			if (!spoil_one(seed, &r))
				return 1;
		empty();
	}
	report();
	if (!args.one_seed && !has_happened()) {
		printf("not ok: what this is about has not happened\n");
		return 1;
	}
	printf("ok %llu damaged blocks of two copies: nothing is lost or refused, and all "
	       "is mended; %.0f s\n",
	       (unsigned long long)spoils_done, (double)(clock_now_ns() - begin) / 1e9);
	return 0;
}
