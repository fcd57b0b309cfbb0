/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bits flip on drives at rest, one at a time.
 *
 * A store is filled and stopped, or cut off while it is quiet; its drives are kept as images, of
 * which each block is known (sim_map.h).  Then, thousands of times, one bit of an image flips, and
 * an appliance mounts it, reads every file, checks it, and scrubs it once:
 *
 *   data of a file    that file alone is refused, for that block alone; the check, which reads no
 *                     data, is clean; the scrub names the file and the block
 *   a page            the mount is refused and names it; or the check names it, the files whose
 *                     records are there are refused, and no other file is; the scrub names it
 *   a superblock, a   the mount goes on with the other copy and names this one; nothing else
 *   root, a zone      changes
 *   header
 *   a log block       the mount is refused and names it: it holds acknowledged changes.  The newest
 *                     block may hold none: nothing changes, or a refusal names the log
 *   anything else     nothing changes: mount, every byte, a clean check, a silent scrub
 *
 * Always: no wrong byte is returned as good, and no file is said not to be there; a mount that is
 * refused before it has read any page has written nothing.
 *
 * usage: flip [--seed N] [--flips N]
 */
#include "appliance/media/app_lines.h"
#include "base/clock.h"
#include "base/num.h"
#include "test/sim/sim_args.h"
#include "test/sim/sim_map.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLIPS_A_STORE 500u

enum answer { GOOD, REFUSED, BAD_BLOCK, WRONG };

static struct sim_world w;
static struct sim_model model;
static struct sim_load load;
static struct sim_map map;
static uint64_t flips_done;
static struct {
	uint64_t flips, mounts_refused, files_refused;
} counts[SIM_LIVES];

/* The results of a flip. */
static struct {
	int mount;
	bool changed;       /* a refused mount has written something */
	char said[APP_WHY]; /* by the mount */
	enum answer answer[SIM_MAP_FILES];
	uint32_t bad_block[SIM_MAP_FILES];
	struct meta_check check;
	struct app_core_stat scrub;
	char found[APP_LINE_SIZE]; /* the scrub's last line */
	char error[256];           /* meta_error() at the end */
} got;

static bool failed(uint64_t seed, const char *why)
{
	printf("not ok seed %llu, flip %llu: %s\n", (unsigned long long)seed,
	       (unsigned long long)flips_done, why);
	return false;
}

/* ---- results ---------------------------------------------------------------------------- */

/* Each block must be unchanged, or not match its sum.  Sets *bad_block if one does not match. */
static enum answer judge_blocks(const struct sim_call *c, const struct fab_answer *a,
				const struct sim_state *s, uint32_t *bad_block)
{
	enum answer as = GOOD;

	if (a->length_bytes != s->size)
		return WRONG;
	for (uint32_t b = 0; b * BLOCK_SIZE < s->size; b++) {
		const uint8_t *block = c->window + a->data_at + b * BLOCK_SIZE;
		uint32_t bytes = min_u32(s->size - b * BLOCK_SIZE, BLOCK_SIZE);

		if (crc32c(block, BLOCK_SIZE) == fab_answer_sum(&c->call, a, b)) {
			if (memcmp(block, s->bytes + b * BLOCK_SIZE, bytes) != 0)
				return WRONG; /* as good */
			continue;
		}
		if (as == BAD_BLOCK)
			return WRONG; /* one bit, two blocks */
		as = BAD_BLOCK;
		*bad_block = b;
	}
	return as;
}

static enum answer read_file(const struct sim_map_file *f, uint32_t *bad_block)
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
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &item;
	ASSERT(sim_world_do(&w, c, true) == 0);
	if (c->call.status || fab_call_answer(&c->call, 0, &a))
		return WRONG;
	if (a.status)
		return a.status == -EIO ? REFUSED : WRONG;
	return judge_blocks(c, &a, f->state, bad_block);
}

static bool images_changed(uint32_t drive, uint64_t byte, uint8_t mask)
{
	bool changed = false;

	for (uint32_t d = 0; d < w.cfg.ndrives; d++) {
		const uint8_t *now = sim_drive_visible(w.sim[d]), *was = map.image[d];
		uint64_t size = sim_drive_bytes(w.sim[d]), at = d == drive ? byte : size;

		changed |= memcmp(now, was, at) != 0;
		if (at < size)
			changed |= now[at] != (was[at] ^ mask) ||
				   memcmp(now + at + 1, was + at + 1, size - at - 1) != 0;
	}
	return changed;
}

/* A whole round, which began when nothing changed any more. */
static void scrub(void)
{
	uint64_t until;
	struct sim_call *none[1];

	app_core_stat(w.core, &got.scrub);
	until = got.scrub.scrub_rounds + 2;
	for (uint32_t i = 0; got.scrub.scrub_rounds < until; i++) {
		ASSERT(i < 1000000);
		(void)!sim_world_step(&w, none, 0);
		app_core_stat(w.core, &got.scrub);
	}
	snprintf(got.found, sizeof(got.found), "%s", app_core_scrub_line(w.core));
}

static void look(uint32_t drive, uint64_t byte, uint8_t mask)
{
	memset(&got, 0, sizeof(got));
	got.mount = sim_world_up(&w, APP_BOOT_MOUNT);
	if (got.mount) {
		got.changed = images_changed(drive, byte, mask);
		snprintf(got.said, sizeof(got.said), "%s", w.why);
		sim_world_cut(&w, flips_done);
		return;
	}
	snprintf(got.said, sizeof(got.said), "%s", meta_error(app_core_meta(w.core)));
	ASSERT(sim_world_connect(&w) == 0);
	for (uint32_t i = 0; i < map.nfiles; i++)
		got.answer[i] = read_file(&map.file[i], &got.bad_block[i]);
	(void)!sim_world_check_all(&w, &got.check);
	snprintf(got.error, sizeof(got.error), "%s", meta_error(app_core_meta(w.core)));
	scrub();
	sim_world_cut(&w, flips_done);
}

/* ---- what must come of it ------------------------------------------------------------------- */

static char reason[512];

__attribute__((format(printf, 1, 2))) static bool no(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	return false;
}

/* Does a line name this page, in either way that is used? */
static bool names_page(const char *line, const struct sim_owner *o)
{
	char shard[32], place[2][64];
	unsigned long long block = META_BADDR_BLOCK(o->baddr);
	unsigned drive = META_BADDR_DRIVE(o->baddr);

	snprintf(shard, sizeof(shard), "shard %u", o->shard);
	snprintf(place[0], sizeof(place[0]), "drive %u block %llu:", drive, block);
	snprintf(place[1], sizeof(place[1]), "drive %u, block %llu:", drive, block);
	return strstr(line, shard) && (strstr(line, place[0]) || strstr(line, place[1]));
}

/* Every file but `but` is good, and the check finds nothing. */
static bool nothing_else(uint32_t but)
{
	if (got.mount)
		return no("the mount is refused: %s", got.said);
	for (uint32_t i = 0; i < map.nfiles; i++)
		if (i != but && got.answer[i] != GOOD)
			return no("%s is not what it was (%d)", map.file[i].path, got.answer[i]);
	if (got.check.problems)
		return no("the check says: %s", got.check.first[0]);
	return but != UINT32_MAX || !*got.found || no("the scrub says: %s", got.found);
}

__attribute__((format(printf, 3, 4))) static bool scrub_names(uint64_t pages, uint64_t blocks,
							      const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (got.scrub.scrub_bad_pages != pages || got.scrub.scrub_bad_blocks != blocks)
		return no("the scrub counts %llu pages and %llu blocks",
			  (unsigned long long)got.scrub.scrub_bad_pages,
			  (unsigned long long)got.scrub.scrub_bad_blocks);
	return strstr(got.found, text) || no("the scrub says '%s', not '%s'", got.found, text);
}

static bool nothing(void)
{
	return nothing_else(UINT32_MAX) && (!*got.said || no("the mount says: %s", got.said));
}

__attribute__((format(printf, 1, 2))) static bool names_it(const char *fmt, ...)
{
	char text[96];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return strstr(got.said, text) || no("the mount says '%s', not '%s'", got.said, text);
}

static bool judge_data(const struct sim_owner *o)
{
	if (!nothing_else(o->file))
		return false;
	if (got.answer[o->file] != BAD_BLOCK || got.bad_block[o->file] != o->file_block)
		return no("block %u of %s: its read ends as %d, for block %u", o->file_block,
			  map.file[o->file].path, got.answer[o->file], got.bad_block[o->file]);
	return scrub_names(0, 1, "scrub: /%s: block %u of the file", map.file[o->file].path,
			   o->file_block);
}

static bool judge_page(const struct sim_owner *o)
{
	bool named = false, any = false;

	if (got.mount)
		return names_page(got.said, o) || no("the mount says: %s", got.said);
	for (uint32_t i = 0; i < map.nfiles; i++) {
		any |= got.answer[i] == REFUSED;
		if (got.answer[i] == REFUSED && !sim_map_may_need(&map, o, i))
			return no("%s is refused, and has nothing there", map.file[i].path);
		if (got.answer[i] == GOOD && sim_map_must_need(&map, o, i))
			return no("%s is read, and a record of it is there", map.file[i].path);
		if (got.answer[i] > REFUSED)
			return no("%s: its read ends as %d", map.file[i].path, got.answer[i]);
	}
	for (uint32_t i = 0; i < min_u64(got.check.problems, ARRAY_LEN(got.check.first)); i++)
		named |= names_page(got.check.first[i], o);
	if (any && !names_page(got.error, o))
		return no("reads were refused, and meta_error() says: %s", got.error);
	if (!named)
		return no("the check says: %s", got.check.first[0]);
	return scrub_names(1, 0, "drive %u block %llu is not the page", META_BADDR_DRIVE(o->baddr),
			   (unsigned long long)META_BADDR_BLOCK(o->baddr));
}

static bool judge_log(const struct sim_owner *o)
{
	char text[64];

	if (o->life == SIM_LOG_END && !got.mount)
		return nothing();
	if (o->copied)
		return nothing_else(UINT32_MAX) && names_it("a copy of the log is damaged");
	snprintf(text, sizeof(text), "log block %llu is damaged", (unsigned long long)o->seq);
	if (!got.mount)
		return no("nobody noticed");
	return strstr(got.said, o->life == SIM_LOG ? text : "log block") ||
	       no("the mount says '%s', not '%s'", got.said, text);
}

static bool judge(const struct sim_owner *o, uint32_t drive)
{
	for (uint32_t i = 0; i < map.nfiles; i++)
		if (got.answer[i] == WRONG)
			return no("%s: a wrong answer was given as a good one", map.file[i].path);
	if (got.mount && got.changed && o->life != SIM_PAGE)
		return no("the mount was refused, and has written something: %s", got.said);
	switch (o->life) {
	case SIM_DATA:
		return judge_data(o);
	case SIM_PAGE:
		return judge_page(o);
	case SIM_SUPER:
		return nothing_else(UINT32_MAX) &&
		       names_it("drive %u: %s superblock", drive, o->copy ? "second" : "first");
	case SIM_ROOT:
		return nothing_else(UINT32_MAX) &&
		       names_it("shard %u: copy %u of a root", o->shard, o->copy);
	case SIM_HEADER:
		return nothing_else(UINT32_MAX) &&
		       names_it("header of zone %u is damaged", o->zone);
	case SIM_LOG:
	case SIM_LOG_END:
		return judge_log(o);
	default:
		return nothing();
	}
}

/* ---- a flip ------------------------------------------------------------------------------ */

/* A block of this life, if there is one; else any. */
static void choose(struct rand_state *r, enum sim_life want, uint32_t *drive, uint32_t *block)
{
	for (int tries = 0; tries < 4000; tries++) {
		*drive = (uint32_t)rand_below(r, w.cfg.ndrives);
		*block = (uint32_t)rand_below(r, w.cfg.nblocks);
		if (map.owner[*drive][*block].life == want)
			return;
	}
}

static bool flip_one(uint64_t seed, struct rand_state *r)
{
	const struct sim_owner *o;
	uint32_t drive, block, bit;
	char where[160];

	choose(r, (enum sim_life)rand_below(r, SIM_LIVES), &drive, &block);
	o = &map.owner[drive][block];
	bit = (uint32_t)rand_below(r, BLOCK_SIZE * 8);
	for (uint32_t i = 0; i < w.cfg.ndrives; i++)
		sim_drive_restore(w.sim[i], map.image[i]);
	sim_drive_flip(w.sim[drive], (uint64_t)block * BLOCK_SIZE + bit / 8, bit % 8);
	look(drive, (uint64_t)block * BLOCK_SIZE + bit / 8, (uint8_t)(1u << bit % 8));
	counts[o->life].flips++;
	counts[o->life].mounts_refused += got.mount != 0;
	for (uint32_t i = 0; i < map.nfiles; i++)
		counts[o->life].files_refused += got.answer[i] != GOOD;
	if (judge(o, drive))
		return true;
	snprintf(where, sizeof(where), "drive %u block %u bit %u, of %s", drive, block, bit,
		 sim_life_names[o->life]);
	printf("# %s\n", where);
	return failed(seed, reason);
}

/* ---- a store --------------------------------------------------------------------------- */

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

static bool fill(uint64_t seed)
{
	struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = 1 + seed % 2,
		.nblocks = 1024,
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
	/* Mounted once more, untouched, to ask it what is where; the images are of before that. */
	map.ndrives = cfg.ndrives;
	for (uint32_t i = 0; i < cfg.ndrives; i++) {
		uint8_t *image = malloc(sim_drive_bytes(w.sim[i]));

		ASSERT(image);
		memcpy(image, sim_drive_durable(w.sim[i]), sim_drive_bytes(w.sim[i]));
		map.image[i] = image;
	}
	if (sim_world_begin(&w, APP_BOOT_MOUNT) || !sim_verify(&w, &model, NULL, false))
		return failed(seed, w.why);
	sim_map_make(&map, &w, &model);
	sim_world_cut(&w, seed);
	for (uint32_t i = 0; i < cfg.ndrives; i++)
		sim_drive_restore(w.sim[i], map.image[i]);
	look(UINT32_MAX, 0, 0);
	if (!nothing()) {
		printf("# before any flip\n");
		return failed(seed, reason);
	}
	return true;
}

static void empty(void)
{
	for (uint32_t i = 0; i < w.cfg.ndrives; i++)
		free((void *)(uintptr_t)map.image[i]);
	sim_world_destroy(&w);
	sim_model_clear(&model);
}

/* Small stores: in some, all pages stand above files. */
static bool has_happened(void)
{
	return counts[SIM_LOG].flips && counts[SIM_PAGE].files_refused;
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "flips", sim_args_few(2400, 2), 60000);
	uint64_t flips = args.count, begin = clock_now_ns(), seed = args.seed;
	struct rand_state r;

	rand_seed(&r, seed);
	for (; flips_done < flips || (!has_happened() && flips_done < 4 * args.count); seed++) {
		flips += flips_done < flips ? 0 : FLIPS_A_STORE;
		if (!fill(seed))
			return 1;
		for (uint32_t i = 0; i < FLIPS_A_STORE && flips_done < flips; i++, flips_done++)
			if (!flip_one(seed, &r))
				return 1;
		empty();
	}
	for (int i = 0; i < SIM_LIVES; i++)
		printf("# %-20s %6llu flips: %5llu mounts refused, %6llu reads\n",
		       sim_life_names[i], (unsigned long long)counts[i].flips,
		       (unsigned long long)counts[i].mounts_refused,
		       (unsigned long long)counts[i].files_refused);
	if (!has_happened()) {
		printf("not ok: what this is about has not happened\n");
		return 1;
	}
	printf("ok %llu flipped bits: what lives is named, and nothing else refused; what is dead "
	       "changes nothing; %.0f s\n",
	       (unsigned long long)flips_done, (double)(clock_now_ns() - begin) / 1e9);
	return 0;
}
